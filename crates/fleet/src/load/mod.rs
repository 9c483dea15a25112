//! The load process: it makes the load of one run, and ends with it.
//!
//! A script may never return, and nothing can end its thread. So each run gets a process of its
//! own, in a process group of its own, which also has what a script starts. [`processes`] is the
//! agent's side, [`work`] what the process does. They talk through a socket pair.

mod observed;
mod processes;
mod work;

pub(crate) use observed::ObservedLoad;
pub(crate) use processes::LoadProcesses;
pub use work::make_load;

use std::path::Path;
use std::process::Command;

use cluster::names::Label;
use plan::Share;
use serde::{Deserialize, Serialize};

/// Makes the command that starts a load process. It calls [`make_load`] with its stdin and with the
/// folder of the plan's files.
pub type LoadCommand = fn(&Path) -> Command;

/// The largest message: a result that a coordinator accepts.
const MAX_FRAME_BYTES: u64 = 256 << 20;

/// Time between two signs of life of the agent, once the run is prepared.
const ALIVE_NS: u64 = 1_000_000_000;

/// What the agent tells the load process.
#[derive(Debug, Serialize, Deserialize)]
enum LoadOrder {
    /// The first one: what to prepare.
    Prepare {
        share: Box<Share>,
        details: serde_json::Value,
        /// As for `--targets`; empty: everything.
        targets: String,
    },
    /// Start at this time of CLOCK_MONOTONIC.
    Start { start_ns: u64 },
    /// End the load now.
    Stop,
    /// The agent is alive.
    GoOn,
}

/// What the load process tells the agent.
#[derive(Debug, Serialize, Deserialize)]
enum LoadReport {
    Prepared(Vec<Label>),
    Progress(serde_json::Value),
    Failed(String),
    /// The next message is the result.
    Finished,
}
