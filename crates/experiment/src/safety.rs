//! What must be so before a machine is changed or restored: one sweep at a time, a journal that
//! only this user can have written, and the machine that the journal belongs to.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use plan::shell::quoted;

use crate::host::{CommandOutput, Host, Lock, UntrustedPath};
use crate::journal::{
    Begin, FORMAT_VERSION, Journal, JournalEntry, ReadError, Resource, journal_path,
};

/// Name of the lock file in the journal's folder.
pub(crate) const LOCK_NAME: &str = "lock";

/// Why a change was not made, or not as requested.
#[derive(Debug, thiserror::Error)]
pub enum SafetyError {
    /// Another sweep is running.
    #[error("another sweep is running ({holder}): wait until it has ended")]
    Locked {
        /// What it says about itself.
        holder: String,
    },
    /// Another sweep, with a journal elsewhere, is using what this one needs.
    #[error("{what}: in use by another sweep: wait until that has ended")]
    Claimed {
        /// The setting or folder.
        what: String,
    },
    /// The lock cannot be taken.
    #[error("{}: cannot be locked ({error}): choose another folder for the journal with --journal \
             DIR", path.display())]
    Lock { path: PathBuf, error: io::Error },
    /// An earlier sweep has not restored its changes.
    #[error(
        "an earlier sweep of {experiment:?} ({since}, pid {pid}) has not restored its \
         changes{changed}: run `{}` first",
        restore_command(folder)
    )]
    Unfinished {
        /// Name of its experiment.
        experiment: String,
        /// Process ID of the earlier sweep.
        pid: u32,
        /// When the earlier sweep started, RFC 3339; `at an unknown time` if it was not recorded.
        since: String,
        /// Folder of its journal.
        folder: PathBuf,
        /// How the machine has changed since, as a parenthesis to append; usually empty.
        changed: String,
    },
    /// Other users could have written the journal.
    #[error(
        "{}: {}. A journal contains commands that a restore runs, so nothing was touched: {}",
        .0.path.display(), .0.why, .0.remedy
    )]
    Untrusted(UntrustedPath),
    /// The journal cannot be read or written.
    #[error("{}: the journal cannot be {doing} ({source}); nothing was changed", path.display())]
    Journal {
        /// What cannot be done with it: `read`, `written` or `removed`.
        doing: &'static str,
        /// Its folder or file.
        path: PathBuf,
        source: io::Error,
    },
    /// The journal is damaged.
    #[error(
        "{}: line {line} of the journal is damaged, so nothing was touched{changed}. {known}",
        folder.join("journal").display()
    )]
    Damaged {
        /// Folder of the journal.
        folder: PathBuf,
        /// The first damaged line, from 1.
        line: usize,
        /// How the machine has changed since, as a parenthesis to append; usually empty.
        changed: String,
        /// What its readable part says.
        known: String,
    },
    /// A newer version of the program wrote the journal.
    #[error(
        "{}: the journal has version {version}, this program knows versions up to \
         {FORMAT_VERSION}: \
         run `{}` with the program that wrote it",
        folder.display(),
        restore_command(folder)
    )]
    OtherVersion {
        /// Folder of the journal.
        folder: PathBuf,
        /// Version of the journal's format.
        version: u64,
    },
    /// The journal belongs to another network namespace.
    #[error(
        "the sweep ran in network namespace {theirs}, this is {ours}{changed}: run \
         `nsenter --net=/proc/PID/ns/net {restore}` with the PID of a process in that one. If \
         that namespace is gone, so are its settings: `{restore} --force` restores the rest",
        restore = restore_command(folder)
    )]
    OtherNamespace {
        /// Folder of the journal.
        folder: PathBuf,
        /// How the machine has changed since, as a parenthesis to append; usually empty.
        changed: String,
        /// The network namespace that the journal names.
        theirs: String,
        /// The network namespace of this process.
        ours: String,
    },
    /// The journal belongs to another machine.
    #[error(
        "the sweep ran on another machine{changed}: run `{restore}` there. If it is this machine \
         under another name, `{restore} --force` restores what the journal records",
        restore = restore_command(folder)
    )]
    OtherMachine {
        /// Folder of the journal.
        folder: PathBuf,
        /// What differs, as a parenthesis to append.
        changed: String,
    },
    /// The guardian cannot be started.
    #[error("the guardian process cannot be started ({0}); nothing is changed without it")]
    Guardian(io::Error),
    /// The resource cannot be changed, or could not be restored.
    #[error("{what}: {why}")]
    Refused {
        /// The name of a setting, or the path of a file.
        what: String,
        /// Why, and what to do.
        why: String,
    },
    /// Somebody else has changed the resource since the sweep wrote it.
    #[error(
        "{what}: changed by someone else during the sweep: is {now}, the sweep had set \
         {expected}; not overwritten"
    )]
    Foreign {
        /// The name of a setting, or the path of a file.
        what: String,
        /// The state that was found.
        now: String,
        /// The state that the sweep had left.
        expected: String,
    },
    /// A machine elsewhere refuses, or cannot be used any more.
    #[error("{host}: {why}")]
    Elsewhere {
        /// Its name in the experiment file.
        host: String,
        /// The reason, in one line.
        why: String,
        /// No further change can be made safely.
        ends_sweep: bool,
    },
    /// A command that applies a level failed.
    #[error("{name}: `{command}` {}", output.failure())]
    Apply {
        /// Name of the factor.
        name: String,
        command: String,
        /// What the command printed, and how it ended.
        output: Box<CommandOutput>,
    },
}

impl SafetyError {
    pub(crate) fn refused(what: impl Display, why: String) -> Self {
        let what = what.to_string();
        Self::Refused { what, why }
    }

    /// Whether no further change can be made safely: without a journal or a guardian, or while
    /// another sweep runs, nothing may be changed.
    pub(crate) fn ends_sweep(&self) -> bool {
        matches!(
            self,
            Self::Journal { .. }
                | Self::Guardian(_)
                | Self::Claimed { .. }
                | Self::Elsewhere {
                    ends_sweep: true,
                    ..
                }
        )
    }

    pub(crate) fn of_journal(host: &dyn Host, error: ReadError, folder: &Path) -> Self {
        let folder = folder.to_owned();
        match error {
            ReadError::Io(source) => Self::Journal {
                doing: "read",
                path: folder,
                source,
            },
            ReadError::Version(version) => Self::OtherVersion { folder, version },
            ReadError::Damaged { line, readable } => Self::Damaged {
                folder,
                line,
                changed: readable
                    .as_ref()
                    .map(|journal| changed_machine(host, &journal.begin))
                    .unwrap_or_default(),
                known: known(readable.as_deref()),
            },
        }
    }
}

/// What a damaged journal still says, to restore it by hand.
fn known(readable: Option<&Journal>) -> String {
    let Some(journal) = readable else {
        return "Its first record cannot be read: open it in an editor, restore by hand what it \
                records, and remove it"
            .to_owned();
    };
    let line = |entry: &JournalEntry| match (&entry.resource, &entry.old, &entry.undo) {
        (file @ Resource::File { .. }, Some(old), _) => format!("{file} had {}", file.shown(old)),
        (resource, Some(old), _) => format!("{resource} was {old}"),
        (file @ Resource::File { .. }, None, _) => format!("{file} was not there"),
        (resource, None, Some(undo)) => format!("{resource} is undone by `{}`", undo.command),
        (resource, None, None) => resource.to_string(),
    };
    let lines: Vec<_> = journal
        .entries
        .iter()
        .filter(|entry| !entry.is_restored)
        .map(line)
        .collect();
    if lines.is_empty() {
        return "Its readable lines contain no change".to_owned();
    }
    format!("Before the sweep, as far as readable: {}", lines.join("; "))
}

/// The shell command that runs `wrkbench restore` for the journal in this folder.
#[must_use]
pub fn restore_command(folder: &Path) -> String {
    let folder = quoted(&folder.to_string_lossy());
    format!("wrkbench restore --journal {folder}")
}

/// Takes the lock in a journal's folder.
pub(crate) fn take_lock(host: &mut dyn Host, folder: &Path, note: &str) -> Result<(), SafetyError> {
    let path = folder.join(LOCK_NAME);
    match host.lock(&path, note) {
        Ok(Lock::Ours) => Ok(()),
        Ok(Lock::HeldBy(holder)) => Err(SafetyError::Locked { holder }),
        Err(error) => Err(SafetyError::Lock { path, error }),
    }
}

/// Refuses a journal or a folder that other users can write.
pub(crate) fn refuse_untrusted(host: &dyn Host, folder: &Path) -> Result<(), SafetyError> {
    let journal = journal_path(folder);
    for path in [folder, &journal, &folder.join(LOCK_NAME)] {
        let untrusted = host
            .untrusted(path)
            .map_err(|source| SafetyError::Journal {
                doing: "read",
                path: path.to_owned(),
                source,
            })?;
        if let Some(untrusted) = untrusted {
            return Err(SafetyError::Untrusted(untrusted));
        }
    }
    Ok(())
}

/// How the machine differs from the one that started the journal, as a parenthesis to append; empty
/// if it does not.
pub(crate) fn changed_machine(host: &dyn Host, begin: &Begin) -> String {
    let mut changes = Vec::new();
    if host.boot_id() != begin.boot_id {
        changes.push("the machine was rebooted since".to_owned());
    }
    let mut compare = |what: &str, was: &Option<String>, is: String| {
        if let Some(was) = was.as_ref().filter(|was| **was != is) {
            changes.push(format!("{what} was {was:?}, is {is:?}"));
        }
    };
    compare("its name", &begin.host_name, host.host_name());
    compare("its kernel", &begin.kernel, host.kernel());
    if changes.is_empty() {
        return String::new();
    }
    format!(" ({})", changes.join("; "))
}
