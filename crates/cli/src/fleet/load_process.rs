//! The process that makes the load of a run. An agent starts it.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

/// Makes the load that is described through stdin, and ends with the agent.
///
/// # Errors
/// When stdin is not the connection to an agent.
pub(crate) fn make_load(folder: &Path) -> anyhow::Result<ExitCode> {
    // ps and top would show `exe`. Failure does not matter.
    let _ = rustix::thread::set_name(c"wrkbench-load");
    fleet::make_load(io::stdin().as_fd(), folder)
        .context("the connection to the agent cannot be used")?;
    Ok(ExitCode::SUCCESS)
}
