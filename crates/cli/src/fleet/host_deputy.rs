//! The process that changes this machine for a sweep elsewhere. An agent starts it.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use crate::commands::sweep;

/// Carries out the calls that come through stdin, until the agent closes it or dies.
///
/// # Errors
/// When stdin is not the connection to an agent.
pub(crate) fn work(journal: PathBuf) -> anyhow::Result<ExitCode> {
    // ps and top would show `exe`. Failure does not matter.
    let _ = rustix::thread::set_name(c"wrkbench-host");
    let stdin = io::stdin();
    fleet::work(sweep::machine(), stdin.as_fd(), journal)
        .context("the connection to the agent cannot be used")?;
    Ok(ExitCode::SUCCESS)
}
