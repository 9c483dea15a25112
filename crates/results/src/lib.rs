//! What happened: the record of a run, mergeable, saved and loaded; it measures and prints nothing.
//!
//! A worker fills one [`Recording`] that it shares with nobody. [`Recording::merge`] is the one way to
//! put recordings together, for threads and for machines alike. A finished run is a [`RunResult`]: the
//! merged recording with the plan, the window, the environment and the doubts about it.

#![forbid(unsafe_code)]

mod counters;
mod errors;
mod histogram;
mod rates;
mod recording;
mod series;
mod summary;

pub use counters::{Counters, Statuses};
pub use errors::{ErrorCount, ErrorKind, Errors, Legacy};
pub use histogram::Histogram;
pub use rates::Rates;
pub use recording::{Phases, Recording};
pub use series::{Row, Series};
