//! The guardian process: it outlives a sweep that dies, and restores the machine.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag;

use super::restore;
use crate::console::Console;

/// The program name in its messages.
const PROGRAM: &str = "wrkbench guardian";

/// Guards the process at the other end of stdin. Stdout is the sweep's lock file and is never
/// written to.
///
/// # Errors
/// When nothing could be restored.
pub(super) fn guard(journal: &Path, console: &Console) -> anyhow::Result<ExitCode> {
    // The handlers only set a flag. Unlike ignored signals, handlers are not inherited by commands.
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGUSR1, SIGUSR2] {
        flag::register(signal, Arc::default()).context("guardian: cannot handle signals")?;
    }
    // ps and top would show `exe`. Failure does not matter.
    let _ = rustix::thread::set_name(c"wrkbench-guard");
    let mut machine = restore::quiet_machine();
    let stdin = io::stdin();
    let report = experiment::guard(&mut machine, stdin.as_fd(), journal)
        .context("guardian: nothing was restored")?;
    let Some(report) = report else {
        return Ok(ExitCode::SUCCESS);
    };
    let console = &Console {
        program: PROGRAM,
        ..console.clone()
    };
    restore::tell_steps(&report, console, true);
    if report.is_complete() {
        console.tell("the sweep died; everything is restored");
    } else {
        let restore = experiment::restore_command(journal);
        console.tell(format_args!(
            "the sweep died, and some settings were not restored; run `{restore}`"
        ));
    }
    Ok(ExitCode::from(u8::from(!report.is_complete())))
}
