//! Statistics of slices of numbers, and predictions of queueing theory.
//!
//! The functions keep no state and read no clock. Times are numbers in the caller's unit. Formulas
//! name their source.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod additive;
mod bootstrap;
mod change;
mod course;
mod drift;
mod effect;
mod fit;
mod median_interval;
mod newest;
mod pairs;
mod queueing;
mod rank;
mod sample;
mod segments;
mod sequential;
mod serial;
mod settling;
mod split;
mod states;
mod student;

pub use additive::{BlockedValue, block_effects};
pub use bootstrap::{Blocks, ConfidenceInterval};
pub use change::ChangePoint;
pub use course::{Course, Drift};
pub use drift::{Trend, modified_z_score, trend};
pub use effect::{
    GROUP_VALUES_MIN, LEVEL, POWER, PairedDifference, detectable_difference,
    detectable_difference_in_blocks, detectable_difference_in_cells, median_difference_interval,
    noise, values_needed,
};
pub use fit::{Fit, exponential_fit, index_of_dispersion};
pub use median_interval::median_interval;
pub use newest::Newest;
pub use pairs::{GroupPValues, Permutations, cell_by_cell, compare_with_reference};
pub use queueing::{
    ClosedNetwork, ClosedNetworkFigures, md1_rate_at_limit, mm1_rate_at_limit,
    mm1_sojourn_quantile, stall_quantile,
};
pub use rank::{
    PValueMethod, RankTest, Ranks, holm, mann_whitney, mann_whitney_attained_level,
    mann_whitney_p_min,
};
pub use sample::{mean, median, quantile, sorted};
pub use sequential::{anytime_interval, anytime_p_value, anytime_values_min};
pub use serial::{SerialDifference, serial_differences};
pub use settling::{LoadBatch, SETTLING_BATCH_S, Settling, is_settled, settling};
pub use states::{StateBlocks, StateComparison, StateDifference, TimeSpan, TimedSeries, covered};
pub use student::{student_t_p_value, student_t_quantile};
