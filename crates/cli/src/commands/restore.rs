//! Puts back by hand what an interrupted sweep has left changed.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use experiment::{Host, Machine, MachineSettings, RestoreReport, restore_command};

use crate::args::RestoreArgs;

/// Where root's sweeps keep their journal: what must outlive a restart of the machine (FHS 3.0, 5.8).
const ROOT_FOLDER: &str = "/var/lib/wrkbench/restore";

/// Puts everything back and says so. Exit code 1 if something is not as it was.
///
/// # Errors
/// When nothing was touched, and why.
pub(super) fn restore(arguments: &RestoreArgs) -> anyhow::Result<ExitCode> {
    let mut machine = quiet_machine();
    let folder = journal_folder(arguments.journal.as_deref(), &machine)?;
    if arguments.dry_run {
        let lines = experiment::preview(&mut machine, &folder, arguments.conflicts());
        return match lines.context("restore")? {
            Some(lines) => tell_preview(&lines),
            None => nothing(&folder, machine.is_root()),
        };
    }
    let report =
        experiment::restore(&mut machine, &folder, arguments.conflicts()).context("restore")?;
    match report {
        Some(report) => tell(&report, &folder),
        None => nothing(&folder, machine.is_root()),
    }
}

/// Where the journal is: where the user says, or where sweeps keep it otherwise. It is absolute, so that what is said
/// of it holds in every folder.
///
/// # Errors
/// When there is no home.
pub(super) fn journal_folder(given: Option<&Path>, machine: &Machine) -> anyhow::Result<PathBuf> {
    if let Some(folder) = given {
        return std::path::absolute(folder)
            .with_context(|| format!("--journal {}", folder.display()));
    }
    if machine.is_root() {
        return Ok(ROOT_FOLDER.into());
    }
    let folder = user_folder(env::var_os("XDG_STATE_HOME"), env::var_os("HOME"));
    folder.context(
        "neither XDG_STATE_HOME nor HOME is set: choose a folder for the journal with --journal DIR",
    )
}

/// As the XDG base directory specification has it: what is not absolute is not there.
fn user_folder(state_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |folder: Option<OsString>| folder.map(PathBuf::from).filter(|f| f.is_absolute());
    let state = absolute(state_home).or_else(|| Some(absolute(home)?.join(".local/state")))?;
    Some(state.join("wrkbench/restore"))
}

/// The machine for who puts back only: it asks nobody, and guards nothing.
pub(super) fn quiet_machine() -> Machine {
    Machine::new(MachineSettings {
        https_status: Box::new(|_, _| Err(io::ErrorKind::Unsupported.into())),
        wall_clock: || None,
        guardian: None,
    })
}

fn tell(report: &RestoreReport, folder: &Path) -> anyhow::Result<ExitCode> {
    let mut stdout = io::stdout().lock();
    if !report.changed_machine.is_empty() {
        let changed = &report.changed_machine;
        writeln!(stdout, "the machine has changed since the sweep{changed}")?;
    }
    for step in &report.steps {
        writeln!(stdout, "{step}")?;
        for line in &step.said {
            writeln!(stdout, "    {line}")?;
        }
    }
    let end = match (report.is_complete(), report.leaves_something()) {
        (true, false) => "everything is restored".to_owned(),
        (true, true) => "everything else is restored; nothing is left to do".to_owned(),
        (false, _) => {
            let again = restore_command(folder);
            format!(
                "some settings were not restored; the journal is kept. `{again}` tries again, `{again} --keep` gives up what cannot be restored"
            )
        }
    };
    writeln!(stdout, "{end}")?;
    stdout.flush()?;
    Ok(ExitCode::from(u8::from(!report.is_complete())))
}

/// Says on stderr what became of each thing, or only of those that are not as they were.
pub(super) fn tell_steps(report: &RestoreReport, program: &str, all: bool) {
    let shown = |step: &&experiment::RestoreStep| all || !step.outcome.is_settled();
    for step in report.steps.iter().filter(shown) {
        super::tell(program, step);
        for line in &step.said {
            let _ = writeln!(io::stderr(), "    {line}");
        }
    }
}

fn tell_preview(lines: &[String]) -> anyhow::Result<ExitCode> {
    let mut stdout = io::stdout().lock();
    for line in lines {
        writeln!(stdout, "{line}")?;
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

fn nothing(folder: &Path, is_root: bool) -> anyhow::Result<ExitCode> {
    let mut stdout = io::stdout().lock();
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
