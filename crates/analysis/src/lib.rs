//! Analysis of results: reads files into observations, and turns observations into tables and
//! conclusions.
//!
//! The unit is the run. This crate renders nothing.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod baseline;
pub mod compare;
mod criteria;
mod load_part;
mod notes;
mod observation;
mod order;
mod places;
mod read;
mod repetitions;
mod request_names;
mod request_sample;
mod resolution;
mod searches;
pub mod sequential;
pub mod table;
mod trend;

pub use baseline::{Baseline, BaselineError, without_files};
pub use criteria::{Judged, judge_all};
pub use load_part::LoadPart;
pub use observation::{Form, Observation, Origin, TrialFacts};
pub use order::{distinct, grouped};
pub use places::{ALL_PLACES, by_common_place, by_place};
pub use read::{FILE_FACTOR, ReadError, Reading, paths_of};
pub use repetitions::unlike_loads;
pub use request_names::{NAME_FACTOR, by_request_name, of_request_name, request_names};
pub use request_sample::{RequestSample, SampledRequest};
pub use searches::{SearchRun, SearchSummary};
/// The middle value, or the mean of the two in the middle.
pub use stats::median;
pub use trend::{
    Change, Drift, FALSE_ALARM_RATE, History, MetricHistory, NewestDifference, Point, Trend,
    TrendOptions, trend,
};
