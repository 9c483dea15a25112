//! Finds the highest rate that a server carries under conditions, or the largest number of
//! connections, and judges whether it carries a given rate: results of runs go in, the next load
//! comes out.
//!
//! The search looks for the rate at which, in the long run, the share of requests beyond the limit
//! equals the allowed share: `p99 < 50 ms` allows 1 % of the responses to take longer than 50 ms.
//! The share is pooled over runs, so the rate does not depend on how long they are. [`Search`]
//! finds it with a confidence interval, [`Check`] judges a rate that is given. Both are
//! deterministic: the same settings and the same results give the same steps, which is how an
//! interrupted search continues. Nothing here reads a clock or makes load.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod belief;
mod bounds;
mod change;
mod check;
mod connections;
mod run;
mod search;

pub use belief::Curve;
pub use check::{Check, CheckSettings, Verdict, Votes};
pub use connections::Connections;
pub use run::{
    Load, Measured, Phase, PlannedStep, Reading, Record, RunLengths, SettingsError, UnexpectedStep,
};
pub use search::{Bound, Estimate, Outcome, Over, Range, Search, Settings, Why};
