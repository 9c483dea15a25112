//! `wrkbench restore`: restores what an interrupted sweep left changed.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use experiment::{HostAccess, Machine, MachineSettings, RestoreReport, restore_command};
use plan::printable;

use crate::args::RestoreArgs;
use crate::console::Console;

/// The journal folder of root's sweeps: its content survives a reboot (FHS 3.0, 5.8).
const ROOT_FOLDER: &str = "/var/lib/wrkbench/restore";

/// Restores everything and reports it. Exit code 1 if something was not restored.
///
/// # Errors
/// When nothing was touched.
pub(super) fn restore(arguments: &RestoreArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let mut machine = quiet_machine();
    let folder = journal_folder(arguments.journal.as_deref(), &machine, console)?;
    if arguments.dry_run {
        let lines = experiment::preview(&mut machine, &folder, arguments.conflicts());
        return match lines.context("restore")? {
            Some(lines) => tell_preview(&lines, console),
            None => nothing(&folder, machine.is_root(), console),
        };
    }
    let report =
        experiment::restore(&mut machine, &folder, arguments.conflicts()).context("restore")?;
    match report {
        Some(report) => tell_report(&report, &folder, console),
        None => nothing(&folder, machine.is_root(), console),
    }
}

/// The journal's folder as an absolute path: the given one or the default.
///
/// # Errors
/// When there is neither a home directory nor a given folder.
pub(crate) fn journal_folder(
    given: Option<&Path>,
    machine: &Machine,
    console: &Console,
) -> anyhow::Result<PathBuf> {
    if let Some(folder) = given {
        return std::path::absolute(folder)
            .with_context(|| format!("--journal {}", folder.display()));
    }
    if machine.is_root() {
        return Ok(ROOT_FOLDER.into());
    }
    let folder = user_folder(console.variable("XDG_STATE_HOME"), console.variable("HOME"));
    folder.context(
        "neither XDG_STATE_HOME nor HOME is set: choose a folder for the journal with --journal \
         DIR",
    )
}

/// By the XDG base directory specification, which ignores relative paths.
fn user_folder(state_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |folder: Option<OsString>| folder.map(PathBuf::from).filter(|f| f.is_absolute());
    let state = absolute(state_home).or_else(|| Some(absolute(home)?.join(".local/state")))?;
    Some(state.join("wrkbench/restore"))
}

/// A machine that only restores: it starts no guardian.
pub(crate) fn quiet_machine() -> Machine {
    Machine::new(MachineSettings {
        wall_clock: || None,
        guardian: None,
    })
}

fn tell_report(
    report: &RestoreReport,
    folder: &Path,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    let mut stdout = &console.stdout;
    if !report.changed_machine.is_empty() {
        let changed = &report.changed_machine;
        writeln!(stdout, "the machine has changed since the sweep{changed}")?;
    }
    for step in &report.steps {
        writeln!(stdout, "{}", printable(&step.to_string()))?;
        for line in &step.said {
            writeln!(stdout, "    {}", printable(line))?;
        }
    }
    let end = match (report.is_complete(), report.leaves_something()) {
        (true, false) => "everything is restored".to_owned(),
        (true, true) => "everything else is restored; nothing is left to do".to_owned(),
        (false, _) => {
            let again = restore_command(folder);
            format!(
                "some settings were not restored; the journal is kept. `{again}` tries again, \
                 `{again} --keep` gives up what cannot be restored"
            )
        }
    };
    writeln!(stdout, "{end}")?;
    stdout.flush()?;
    Ok(ExitCode::from(u8::from(!report.is_complete())))
}

/// Prints what happened to each resource on stderr, or only the unsettled ones.
pub(super) fn tell_steps(report: &RestoreReport, console: &Console, all: bool) {
    let shown = |step: &&experiment::RestoreStep| all || !step.outcome.is_settled();
    for step in report.steps.iter().filter(shown) {
        console.tell(step);
        console.tell_indented(&step.said);
    }
}

fn tell_preview(lines: &[String], console: &Console) -> anyhow::Result<ExitCode> {
    let mut stdout = &console.stdout;
    for line in lines {
        writeln!(stdout, "{}", printable(line))?;
    }
    let end = if lines.is_empty() {
        "nothing is left to restore"
    } else {
        "nothing was changed; run without --dry-run to restore"
    };
    writeln!(stdout, "{end}")?;
    stdout.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn nothing(folder: &Path, is_root: bool, console: &Console) -> anyhow::Result<ExitCode> {
    let mut stdout = &console.stdout;
    writeln!(
        stdout,
        "nothing to restore (no journal in {})",
        folder.display()
    )?;
    if !is_root {
        writeln!(stdout, "sweeps run by root keep theirs in {ROOT_FOLDER}")?;
    }
    stdout.flush()?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_of_a_user_is_where_the_desktop_specification_wants_state() {
        let folder = |state: Option<&str>, home: Option<&str>| {
            user_folder(state.map(Into::into), home.map(Into::into))
        };
        let expected = |path: &str| Some(PathBuf::from(path));
        assert_eq!(
            folder(Some("/s"), Some("/h")),
            expected("/s/wrkbench/restore")
        );
        for state in [None, Some(""), Some("relative")] {
            assert_eq!(
                folder(state, Some("/h")),
                expected("/h/.local/state/wrkbench/restore")
            );
        }
        assert_eq!(folder(None, None), None);
        assert_eq!(folder(Some("s"), Some("h")), None);
    }
}
