//! Many runs: factors, levels, rounds, and a machine that is put back as it was.
//!
//! The crate calls no engine and touches nothing itself: it is handed a [`Host`] for the machine and
//! a function that makes one run.

#![forbid(unsafe_code)]

mod change;
mod environment;
#[doc(hidden)]
pub mod fake;
mod guardian;
mod hooks;
mod host;
mod journal;
mod machine;
mod restore;
mod safekeeping;

pub use change::{Change, sysctl_path};
pub use environment::observe;
pub use guardian::guard;
pub use host::{CommandOutput, Host, Lock};
pub use machine::{AskHttps, Machine, MachineSettings};
pub use restore::{Conflicts, RestoreOutcome, RestoreReport, RestoreStep, restore};
pub use safekeeping::{Effective, FILE_SIZE_MAX, Safekeeping, SafetyError};
