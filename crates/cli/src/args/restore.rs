//! Arguments of `wrkbench restore`, and the processes that this program starts itself as.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use experiment::Conflicts;

/// Restore the settings that an interrupted sweep left changed
///
/// A sweep restores its changes itself, also when it is interrupted or killed. This command does it
/// after a power failure, or when something could not be restored. It can be run again.
#[derive(Debug, Clone, Args)]
pub(crate) struct RestoreArgs {
    /// Also overwrite values that someone else has changed since.
    ///
    /// Of a damaged journal the readable part is used.
    #[arg(long, conflicts_with = "keep")]
    force: bool,
    /// Keep values that someone else has changed since.
    ///
    /// Their old values are dropped from the journal, and so are commands that fail.
    #[arg(long)]
    keep: bool,
    /// Print what would be restored and run; change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Folder of the restore journal [default: /var/lib/wrkbench/restore for root, otherwise
    /// wrkbench/restore in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR")]
    pub(crate) journal: Option<PathBuf>,
}

impl RestoreArgs {
    /// What to do with values that someone else has changed.
    pub(crate) fn conflicts(&self) -> Conflicts {
        match (self.force, self.keep) {
            (true, _) => Conflicts::Overwrite,
            (false, true) => Conflicts::Keep,
            (false, false) => Conflicts::Report,
        }
    }
}

/// What this program starts itself as, with a folder as the only argument. None is a declared
/// command, so that help and completions do not offer it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Companion {
    /// Restores the machine when the sweep that has started it dies. The folder is the journal.
    Guardian,
    /// Changes this machine for a sweep elsewhere. An agent starts it. The folder is the journal.
    HostDeputy,
    /// Makes the load of a run. An agent starts it. The folder has the files of the plan.
    LoadProcess,
}

impl Companion {
    fn word(self) -> &'static str {
        match self {
            Self::Guardian => "guardian",
            Self::HostDeputy => "host-deputy",
            Self::LoadProcess => "load-process",
        }
    }

    /// Which one the arguments start, and its folder.
    pub(crate) fn of(arguments: &[OsString]) -> Option<(Self, PathBuf)> {
        let [word, folder] = arguments else {
            return None;
        };
        let all = [Self::Guardian, Self::HostDeputy, Self::LoadProcess];
        let started = all.into_iter().find(|it| word == it.word())?;
        Some((started, folder.into()))
    }

    /// The command that starts it: this program, even if its file was replaced or removed
    /// meanwhile.
    pub(crate) fn command(self, folder: &Path) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.arg(self.word()).arg(folder);
        command
    }
}
