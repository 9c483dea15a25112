//! The arguments of what puts back.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use experiment::Conflicts;

/// Put back what an interrupted sweep has left changed
#[derive(Debug, Clone, Args)]
pub(crate) struct RestoreArgs {
    /// Overwrite also what someone else has changed meanwhile, and read what can be read of a
    /// damaged journal
    #[arg(long, conflicts_with = "keep")]
    force: bool,
    /// Leave what someone else has changed meanwhile as it is, and forget how it was; forget commands
    /// that fail as well
    #[arg(long)]
    keep: bool,
    /// Print what would be put back and run; change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Folder of the journal [default: /var/lib/wrkbench/restore for root, else
    /// wrkbench/restore below $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR")]
    pub(crate) journal: Option<PathBuf>,
}

impl RestoreArgs {
    /// What to do with what someone else has changed.
    pub(crate) fn conflicts(&self) -> Conflicts {
        match (self.force, self.keep) {
            (true, _) => Conflicts::Overwrite,
            (false, true) => Conflicts::Keep,
            (false, false) => Conflicts::Report,
        }
    }
}

/// The arguments of a guardian.
#[derive(Debug, Clone)]
pub(crate) struct GuardianArgs {
    /// Folder of the journal.
    pub(crate) journal: PathBuf,
}

impl GuardianArgs {
    /// What a guardian is started with. It is no command of the declared ones: a sweep starts it, and
    /// nobody else, so that neither help nor completions offer it.
    pub(crate) const WORD: &str = "guardian";

    /// Reads them; `None` if they are no guardian's.
    pub(crate) fn of(arguments: &[OsString]) -> Option<Self> {
        match arguments {
            [word, journal] if word == Self::WORD => Some(Self {
                journal: journal.into(),
            }),
            _ => None,
        }
    }
}
