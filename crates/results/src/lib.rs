//! What happened: the record of a run, mergeable, saved and loaded; it measures and prints nothing.
//!
//! A worker fills one [`Recording`] that it shares with nobody. [`Recording::merge`] is the one way to
//! put recordings together, for threads and for machines alike. A finished run is a [`RunResult`]: the
//! merged recording with the plan, the window, the environment and the doubts about it.

#![forbid(unsafe_code)]

mod achieved;
mod consistency;
mod counters;
mod criteria;
mod environment;
mod errors;
mod evidence;
pub mod file;
mod generator;
mod histogram;
mod intervals;
mod invariants;
mod lags;
mod lower_bound;
mod rates;
mod recording;
mod remedy;
mod run_result;
mod sample_guard;
mod series;
pub mod snapshot;
mod summary;
mod telemetry;
mod trial;
mod verdict;
mod warnings;
mod written;

pub use achieved::AchievedRate;
pub use counters::{Counters, Statuses};
pub use criteria::{Criterion, CriterionError, Judgement};
pub use environment::Environment;
pub use errors::{ErrorCount, ErrorKind, Errors, Legacy};
pub use evidence::{Delay, Evidence};
pub use generator::{Generator, LagDigest, MachineUsage, ThreadUsage, WorkerLags, WorkerUsage};
pub use histogram::Histogram;
pub use intervals::{Interval, Intervals};
pub use invariants::check;
pub use lags::Lags;
pub use lower_bound::LowerBounds;
pub use rates::Rates;
pub use recording::{Phases, Recording};
pub use run_result::{Backend, RunResult, SCHEMA_VERSION, Window};
pub use sample_guard::ThinPercentiles;
pub use series::{Row, Series};
pub use summary::{
    Distribution, LagSummaries, Percentile, PhaseSummaries, RateSummary, SocketErrors, Summary,
    enough_samples,
};
pub use telemetry::{SocketMoment, SocketSummary, SocketTimeline, Spread, Telemetry};
pub use trial::{
    Cell, EXPERIMENT_SCHEMA_VERSION, Experiment, HookOutput, Order, Setting, Trial, TrialOutcome,
};
pub use verdict::{Verdict, verdict};
pub use warnings::{Warning, warnings};
