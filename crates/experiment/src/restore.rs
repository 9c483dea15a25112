//! Restores what a journal records: in reverse order, each resource by itself, repeatable.

mod preview;
mod settings;

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use crate::change::sysctl_path;
use crate::content::Content;
use crate::hooks::Failure;
use crate::host::{Host, is_absence};
use crate::journal::{Journal, JournalEntry, ReadError, Resource};
use crate::safety::{SafetyError, changed_machine, refuse_untrusted, restore_command, take_lock};

pub use preview::preview;

/// What to do with a value that somebody else has set meanwhile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Conflicts {
    /// Leave it and keep the journal, so that a person can decide.
    #[default]
    Report,
    /// Overwrite it with the value from before the sweep.
    Overwrite,
    /// Leave it and forget the old value.
    Keep,
}

/// What happened to one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RestoreOutcome {
    /// It already had its old state.
    Unchanged,
    /// It was restored; with the value of a kernel setting.
    Restored(Option<String>),
    /// It no longer exists here; the reason.
    Dropped(Cow<'static, str>),
    /// Somebody else changed it, and it was left as it is.
    Foreign {
        /// Its present state; `None` if it does not exist.
        now: Option<String>,
        /// Its state before the sweep; `None` if it did not exist.
        old: Option<String>,
        /// The user accepted the difference; the old state is forgotten.
        is_kept: bool,
    },
    /// It could not be restored; the reason.
    Failed(String),
    /// It could not be restored, and the old state is forgotten; the reason.
    GivenUp(String),
    /// The restart hook has run.
    Ran,
    /// The restart hook failed.
    NotRun {
        why: String,
        /// It is forgotten; the user restarts the services.
        is_kept: bool,
    },
}

impl RestoreOutcome {
    /// The same with other texts.
    pub(crate) fn with_texts(self, change: impl Fn(&str) -> String) -> Self {
        let optional = |text: Option<String>| text.map(|text| change(&text));
        match self {
            Self::Unchanged | Self::Ran => self,
            Self::Restored(value) => Self::Restored(optional(value)),
            Self::Dropped(why) => Self::Dropped(change(&why).into()),
            Self::Foreign { now, old, is_kept } => Self::Foreign {
                now: optional(now),
                old: optional(old),
                is_kept,
            },
            Self::Failed(why) => Self::Failed(change(&why)),
            Self::GivenUp(why) => Self::GivenUp(change(&why)),
            Self::NotRun { why, is_kept } => Self::NotRun {
                why: change(&why),
                is_kept,
            },
        }
    }

    /// Whether nothing remains to be done.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        match self {
            Self::Unchanged
            | Self::Restored(_)
            | Self::Dropped(_)
            | Self::GivenUp(_)
            | Self::Ran => true,
            Self::Foreign { is_kept, .. } | Self::NotRun { is_kept, .. } => *is_kept,
            Self::Failed(_) => false,
        }
    }
}

/// What happened to one resource; its display is a line for the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreStep {
    /// The name of a setting, the path of a file, or a command.
    pub what: String,
    /// What happened to it.
    pub outcome: RestoreOutcome,
    /// The last lines of output of a failed command.
    pub said: Vec<String>,
    /// The shell command that restores it by hand.
    pub command: String,
}

impl fmt::Display for RestoreStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let RestoreOutcome::Restored(Some(value)) = &self.outcome {
            return write!(f, "{} is {value} again", self.what);
        }
        write!(f, "{}: ", self.what)?;
        match &self.outcome {
            RestoreOutcome::Unchanged => f.write_str("unchanged"),
            RestoreOutcome::Restored(_) => f.write_str("restored"),
            RestoreOutcome::Dropped(why) => f.write_str(why),
            RestoreOutcome::Foreign { now, old, is_kept } => {
                let absent = "not there";
                let now = now.as_deref().unwrap_or(absent);
                let old = old.as_deref().unwrap_or(absent);
                write!(
                    f,
                    "changed by someone else meanwhile: is {now}, was {old} before the sweep"
                )?;
                if *is_kept {
                    f.write_str("; left as it is")
                } else {
                    f.write_str("; left as it is: ")?;
                    let command = &self.command;
                    write!(
                        f,
                        "`{command} --force` restores the old one, `{command} --keep` accepts the \
                         new one"
                    )
                }
            }
            RestoreOutcome::Failed(why) => write!(f, "NOT restored: {why}"),
            RestoreOutcome::GivenUp(why) => write!(f, "NOT restored, and forgotten: {why}"),
            RestoreOutcome::Ran => f.write_str("has run"),
            RestoreOutcome::NotRun { why, is_kept } => {
                let forgotten = if *is_kept { " (it is forgotten)" } else { "" };
                write!(
                    f,
                    "FAILED, so servers may still use the settings of the sweep{forgotten}: {why}"
                )
            }
        }
    }
}

/// What happened to a resource, and the last lines of output of its command if that failed.
type Done = (RestoreOutcome, Vec<String>);

/// What happened to everything that a journal records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreReport {
    /// How the machine differs from the one on which the sweep ran, as a parenthesis to append;
    /// usually empty.
    pub changed_machine: String,
    /// In the order of the work: the last change first.
    pub steps: Vec<RestoreStep>,
}

impl RestoreReport {
    /// Whether everything is restored or need not be.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.steps.iter().all(|step| step.outcome.is_settled())
    }

    /// Adds what happened to a resource. A setting can be checked more than once, with each setting
    /// that changes it.
    fn add(&mut self, journal: &Journal, entry: &JournalEntry, (outcome, said): Done) {
        let what = entry.resource.to_string();
        let command = restore_command(journal.folder());
        match self.steps.iter_mut().find(|step| step.what == what) {
            Some(_) if outcome == RestoreOutcome::Unchanged => {}
            Some(step) => step.outcome = outcome,
            // A setting that only changed along with another one is not reported when it is
            // unchanged.
            None if outcome == RestoreOutcome::Unchanged && journal.is_only_side_effect(entry) => {}
            None => self.steps.push(RestoreStep {
                what,
                outcome,
                said,
                command,
            }),
        }
    }

    /// Whether something was left as it is because the user wanted it.
    #[must_use]
    pub fn leaves_something(&self) -> bool {
        self.steps.iter().any(|step| {
            matches!(
                step.outcome,
                RestoreOutcome::GivenUp(_)
                    | RestoreOutcome::Foreign { is_kept: true, .. }
                    | RestoreOutcome::NotRun { is_kept: true, .. }
            )
        })
    }
}

/// Restores what the journal in the folder records. `None` if there is no journal.
///
/// # Errors
/// When a sweep is running, when the journal cannot be trusted, or when it belongs to another
/// network namespace; nothing was touched then.
pub fn restore(
    host: &mut dyn Host,
    folder: &Path,
    conflicts: Conflicts,
) -> Result<Option<RestoreReport>, SafetyError> {
    refuse_untrusted(host, folder)?;
    match take_lock(host, folder, "wrkbench restore") {
        // Without the folder there is no journal either.
        Err(SafetyError::Lock { error, .. }) if is_absence(&error) => return Ok(None),
        taken => taken?,
    }
    let report = restore_locked(host, folder, conflicts);
    host.unlock();
    report
}

/// As [`restore`], for a caller that already holds the lock.
pub(crate) fn restore_locked(
    host: &mut dyn Host,
    folder: &Path,
    conflicts: Conflicts,
) -> Result<Option<RestoreReport>, SafetyError> {
    refuse_untrusted(host, folder)?;
    let read = Journal::read(host, folder);
    let Some(mut journal) = usable(host, folder, read, conflicts)? else {
        return Ok(None);
    };
    Ok(Some(put_back(host, &mut journal, conflicts)))
}

/// The journal, if it can be restored here and in this state.
fn usable(
    host: &dyn Host,
    folder: &Path,
    read: Result<Option<Journal>, ReadError>,
    conflicts: Conflicts,
) -> Result<Option<Journal>, SafetyError> {
    let journal = match read {
        Err(ReadError::Damaged {
            readable: Some(journal),
            ..
        }) if conflicts == Conflicts::Overwrite => Some(*journal),
        read => read.map_err(|error| SafetyError::of_journal(host, error, folder))?,
    };
    if let Some(journal) = &journal
        && conflicts != Conflicts::Overwrite
    {
        refuse_other_machine(host, journal)?;
        refuse_other_namespace(host, journal)?;
    }
    Ok(journal)
}

/// Whether the journal belongs to this boot but to another network namespace. Settings of a
/// namespace are known only by name, so they would be restored in the wrong one.
fn is_elsewhere(host: &dyn Host, journal: &Journal) -> bool {
    !is_rebooted(host, journal) && host.network_namespace() != journal.begin.network_namespace
}

fn is_rebooted(host: &dyn Host, journal: &Journal) -> bool {
    host.boot_id() != journal.begin.boot_id
}

/// A network home directory or a moved disk can bring a journal to another machine.
fn refuse_other_machine(host: &dyn Host, journal: &Journal) -> Result<(), SafetyError> {
    let name = journal.begin.host_name.as_ref();
    let is_other = name.is_some_and(|name| *name != host.host_name());
    let has_work = journal.unfinished().next().is_some();
    if !is_other || !is_rebooted(host, journal) || !has_work {
        return Ok(());
    }
    Err(SafetyError::OtherMachine {
        folder: journal.folder().to_owned(),
        changed: changed_machine(host, &journal.begin),
    })
}

fn refuse_other_namespace(host: &dyn Host, journal: &Journal) -> Result<(), SafetyError> {
    let has_to_do_with_it = |entry: &JournalEntry| !matches!(entry.resource, Resource::File { .. });
    if !is_elsewhere(host, journal) || !journal.unfinished().any(has_to_do_with_it) {
        return Ok(());
    }
    Err(SafetyError::OtherNamespace {
        folder: journal.folder().to_owned(),
        changed: changed_machine(host, &journal.begin),
        theirs: journal.begin.network_namespace.clone(),
        ours: host.network_namespace(),
    })
}

/// Restores everything in the journal, and removes the journal if that succeeded.
pub(crate) fn put_back(
    host: &mut dyn Host,
    journal: &mut Journal,
    conflicts: Conflicts,
) -> RestoreReport {
    let mut report = RestoreReport {
        changed_machine: changed_machine(host, &journal.begin),
        ..RestoreReport::default()
    };
    let unfinished: Vec<JournalEntry> = journal.unfinished().cloned().collect();
    for entry in unfinished {
        // A setting that changed along with another one is restored together with that one.
        if journal.is_only_side_effect(&entry) && journal.has_unfinished_cause(entry.id) {
            continue;
        }
        // The restart hook makes services take up the old settings. It has to run again if there
        // is one that is not restored.
        let may_be_last = entry.resource != Resource::AtEnd || report.is_complete();
        for (id, done) in put_entry_back(host, journal, &entry, conflicts) {
            if done.0.is_settled() && may_be_last {
                journal.mark_restored(host, id);
            }
            if let Some(entry) = journal.entry(id) {
                report.add(journal, entry, done);
            }
        }
    }
    if report.is_complete()
        && let Err(error) = journal.remove(host)
    {
        report.steps.push(RestoreStep {
            what: journal.path().display().to_string(),
            outcome: RestoreOutcome::Failed(format!("the journal cannot be removed ({error})")),
            said: Vec::new(),
            command: restore_command(journal.folder()),
        });
    }
    report
}

/// Restores one resource; a setting together with all settings that changed with it. Returns what
/// happened to each, by ID.
fn put_entry_back(
    host: &mut dyn Host,
    journal: &mut Journal,
    entry: &JournalEntry,
    conflicts: Conflicts,
) -> Vec<(u32, Done)> {
    let outcome = match (&entry.resource, why_gone(host, journal, entry)) {
        (Resource::Sysctl { .. }, Some(why)) => RestoreOutcome::Dropped(why.into()),
        (Resource::Sysctl { .. }, None) => {
            let outcomes = settings::put_back(host, journal, entry.id, conflicts).into_iter();
            return outcomes
                .map(|(id, outcome)| (id, (outcome, Vec::new())))
                .collect();
        }
        (Resource::File { path }, _) => put_file_back(host, path, entry, conflicts),
        (Resource::Command { .. } | Resource::AtEnd, _) => {
            return vec![(entry.id, undo(host, entry, conflicts))];
        }
    };
    let group = journal.group(entry.id).into_iter();
    let done = (outcome, Vec::new());
    group.map(|id| (id, done.clone())).collect()
}

const REBOOTED: &str = "reset by the reboot";
const ELSEWHERE: &str = "skipped: it belongs to another network namespace";

/// Why a setting of the sweep no longer exists here. Network settings exist in each namespace.
fn why_gone(host: &dyn Host, journal: &Journal, entry: &JournalEntry) -> Option<&'static str> {
    let Resource::Sysctl { key } = &entry.resource else {
        return None;
    };
    let is_of_network = || sysctl_path(key).is_some_and(|path| path.starts_with("/proc/sys/net"));
    if is_rebooted(host, journal) {
        Some(REBOOTED)
    } else {
        (is_elsewhere(host, journal) && is_of_network()).then_some(ELSEWHERE)
    }
}

fn put_file_back(
    host: &mut dyn Host,
    path: &Path,
    entry: &JournalEntry,
    conflicts: Conflicts,
) -> RestoreOutcome {
    // The temporary file of an interrupted replacement; usually there is none.
    if let Err(error) = host.discard_replacement(path) {
        return RestoreOutcome::Failed(format!("its temporary file cannot be removed ({error})"));
    }
    let now = match Content::read(host, path) {
        Ok(now) => now,
        Err(error) => return RestoreOutcome::Failed(format!("cannot be read ({error})")),
    };
    if now == entry.old {
        return RestoreOutcome::Unchanged;
    }
    let is_ours = now.as_ref().is_some_and(|now| entry.is_ours(now));
    if !is_ours && conflicts != Conflicts::Overwrite {
        return foreign(entry, now.as_ref(), conflicts == Conflicts::Keep);
    }
    let done = match &entry.old {
        Some(old) => host.replace(path, &old.0),
        None => host.remove(path),
    };
    match done {
        Ok(()) => RestoreOutcome::Restored(None),
        Err(error) => RestoreOutcome::Failed(error.to_string()),
    }
}

fn foreign(entry: &JournalEntry, now: Option<&Content>, is_kept: bool) -> RestoreOutcome {
    let shown = |content: &Content| entry.resource.shown(content);
    RestoreOutcome::Foreign {
        now: now.map(shown),
        old: entry.old.as_ref().map(shown),
        is_kept,
    }
}

/// Runs the command that undoes another one, or the restart hook. A command that can never succeed
/// would block every other sweep, so the user can have it forgotten.
fn undo(host: &mut dyn Host, entry: &JournalEntry, conflicts: Conflicts) -> Done {
    let is_restart = entry.resource == Resource::AtEnd;
    let is_kept = conflicts == Conflicts::Keep;
    match run_undo(host, entry) {
        Ok(()) if is_restart => (RestoreOutcome::Ran, Vec::new()),
        Ok(()) => (RestoreOutcome::Restored(None), Vec::new()),
        Err(Failure { reason: why, said }) if is_restart => {
            (RestoreOutcome::NotRun { why, is_kept }, said)
        }
        Err(Failure { reason, said }) if is_kept => (RestoreOutcome::GivenUp(reason), said),
        Err(Failure { reason, said }) => (RestoreOutcome::Failed(reason), said),
    }
}

fn run_undo(host: &mut dyn Host, entry: &JournalEntry) -> Result<(), Failure> {
    let Some(undo) = &entry.undo else {
        let why = "the journal does not record how to undo it".to_owned();
        return Err(why.into());
    };
    match host.run(&undo.line(), &undo.environment, undo.limit()) {
        Ok(output) if output.exit_code == Some(0) => Ok(()),
        Ok(output) => Err(Failure {
            reason: format!("`{}` {}", undo.command, output.failure()),
            said: output.last_lines(),
        }),
        Err(error) => Err(format!("`{}` cannot be started ({error})", undo.command).into()),
    }
}
