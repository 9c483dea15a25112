//! The process that changes this machine for a sweep elsewhere. An agent starts it.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Context;

use super::sweep;
use crate::args::DeputyArgs;

/// Carries out the calls that come through stdin, until the agent closes it or dies.
///
/// # Errors
/// When stdin is not the connection to an agent.
pub(super) fn work(arguments: &DeputyArgs) -> anyhow::Result<ExitCode> {
    // ps and top would show `exe`. Failure does not matter.
    let _ = rustix::thread::set_name(c"wrkbench-host");
    let stdin = io::stdin();
    fleet::work(sweep::machine(), stdin.as_fd(), arguments.journal.clone())
        .context("the connection to the agent cannot be used")?;
    Ok(ExitCode::SUCCESS)
}

/// The command that starts it: this program, even if its file was replaced or removed meanwhile.
pub(super) fn command(journal: &Path) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg(DeputyArgs::WORD).arg(journal);
    command
}
