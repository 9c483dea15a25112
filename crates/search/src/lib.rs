//! The highest rate that a server carries under conditions, and whether it carries a given rate:
//! results of runs in, the next load out.
//!
//! The rate that is looked for is the one at which a typical run just meets all conditions: the
//! mean over runs of the clipped excess, ln(metric / limit), is 0. [`Search`] finds it with a
//! confidence interval, [`Check`] judges a rate that is given. Both are deterministic: the same
//! settings and the same results give the same steps, which is how an interrupted search continues.
//! Nothing here reads a clock or makes load.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bracket;
mod check;
mod curve;
mod measure;
mod run;
mod search;

pub use check::{Check, CheckSettings, Verdict, Votes};
pub use curve::Curve;
pub use run::{Load, Measured, Phase, Record, RunLengths, SettingsError, Step, UnexpectedStep};
pub use search::{Bound, Estimate, Outcome, Search, Settings};
