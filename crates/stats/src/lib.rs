//! Pure numbers over slices: what samples say, and what theory says that they should.
//!
//! Nothing here knows what a request is, reads a clock or keeps state. Times are numbers in
//! whatever unit the caller has; formulas name their source.
#![forbid(unsafe_code)]

mod bootstrap;
mod fit;
mod queueing;
mod sample;

pub use bootstrap::{Blocks, Interval};
pub use fit::{Fit, exponential_fit, index_of_dispersion};
pub use queueing::{ClosedNetwork, ClosedNetworkFigures, mm1_sojourn_quantile, stall_quantile};
pub use sample::{mean, quantile, sorted};
