//! Arguments of `wrkbench restore` and of the guardian process.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use experiment::Conflicts;

/// Restore the settings that an interrupted sweep left changed
///
/// A sweep restores its changes itself, also when it is interrupted or killed. This command does it
/// after a power failure, or when something could not be restored. It can be run again.
#[derive(Debug, Clone, Args)]
pub(crate) struct RestoreArgs {
    /// Also overwrite values that someone else has changed since, and use the readable part of a
    /// damaged journal
    #[arg(long, conflicts_with = "keep")]
    force: bool,
    /// Keep values that someone else has changed since, and drop their old values from the journal;
    /// also drop commands that fail
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

/// Arguments of the process that changes this machine for a sweep elsewhere.
#[derive(Debug, Clone)]
pub(crate) struct DeputyArgs {
    pub(crate) journal: PathBuf,
}

impl DeputyArgs {
    /// The word that starts it. Only an agent does.
    pub(crate) const WORD: &str = "host-deputy";

    /// `None` if the arguments do not start it.
    pub(crate) fn of(arguments: &[OsString]) -> Option<Self> {
        match arguments {
            [word, journal] if word == Self::WORD => Some(Self {
                journal: journal.into(),
            }),
            _ => None,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct GuardianArgs {
    pub(crate) journal: PathBuf,
}

impl GuardianArgs {
    /// The word that starts a guardian. It is not a declared command, so that neither help nor
    /// completions offer it: only a sweep starts it.
    pub(crate) const WORD: &str = "guardian";

    /// `None` if the arguments do not start a guardian.
    pub(crate) fn of(arguments: &[OsString]) -> Option<Self> {
        match arguments {
            [word, journal] if word == Self::WORD => Some(Self {
                journal: journal.into(),
            }),
            _ => None,
        }
    }
}
