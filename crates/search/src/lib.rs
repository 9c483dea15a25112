//! The highest rate that a server carries under conditions, and whether it carries a given rate:
//! results of runs in, the next load out.
//!
//! The rate that is looked for is the one at which, in the long run, the share of requests beyond
//! the limit is just the one that may be: `p99 < 50 ms` means that the share of responses above
//! 50 ms is below 1 %. The share is pooled over runs, so the rate does not depend on how long they
//! are. [`Search`] finds it with a confidence interval, [`Check`] judges a rate that is given. Both
//! are deterministic: the same
//! settings and the same results give the same steps, which is how an interrupted search continues.
//! Nothing here reads a clock or makes load.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bracket;
mod check;
mod connections;
mod curve;
mod measure;
mod run;
mod search;

pub use check::{Check, CheckSettings, Verdict, Votes};
pub use connections::Connections;
pub use curve::Curve;
pub use run::{
    Load, Measured, Phase, Reading, Record, RunLengths, SettingsError, Step, UnexpectedStep,
};
pub use search::{Bound, Estimate, Outcome, Range, Search, Settings, Why};
