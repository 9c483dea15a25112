//! Changes a machine so that everything can be restored, whatever happens meanwhile.
//!
//! The order of each change: a guardian is alive; the journal has the old state and the new value
//! on the disk; the write; the journal has what was read back. So at every moment either nothing
//! was changed, or the journal says how to restore it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::change::{Change, FILE_SIZE_MAX, sysctl_path};
use crate::content::Content;
use crate::host::{CommandOutput, Host, check_folder, is_absence};
use crate::journal::{Begin, FORMAT_VERSION, Journal, Record, Resource, StoredContent, Undo};
use crate::related_settings::read_related;
use crate::restore::{Conflicts, RestoreReport, put_back};
use crate::safety::{LOCK_NAME, SafetyError, changed_machine, refuse_untrusted, take_lock};
use crate::settings::why_irreversible;

/// Pairs of settings: writing one sets the other to zero, and the kernel refuses to take zero back
/// (`dirty_bytes_handler` and similar functions in mm/page-writeback.c, mm/util.c).
const PAIRS: [(&str, &str); 3] = [
    ("vm.dirty_ratio", "vm.dirty_bytes"),
    ("vm.dirty_background_ratio", "vm.dirty_background_bytes"),
    ("vm.overcommit_ratio", "vm.overcommit_kbytes"),
];

/// The result of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effective {
    /// What a kernel setting shows after the write, without its line feed; the kernel clamps and
    /// rounds.
    pub value: Option<String>,
    /// The output of a command that applies a level.
    pub output: Option<CommandOutput>,
}

/// The changes of one sweep: the lock, and from the first change on the journal and the guardian.
/// To be ended with [`Self::restore_all`]; if the process dies first, the guardian restores.
#[derive(Debug)]
#[must_use = "restore_all must restore its changes"]
pub struct Transaction {
    folder: PathBuf,
    experiment: String,
    /// `None` before the first change.
    journal: Option<Journal>,
    /// The lock is shared, or not held: nothing may be changed.
    is_shared: bool,
}

impl Transaction {
    /// Takes the lock; changes nothing yet.
    ///
    /// # Errors
    /// When another sweep is running, or an earlier one has left its journal.
    pub fn begin(
        host: &mut dyn Host,
        folder: &Path,
        experiment: &str,
    ) -> Result<Self, SafetyError> {
        refuse_untrusted(host, folder)?;
        let path = folder.join(LOCK_NAME);
        host.make_folder(folder)
            .map_err(|error| SafetyError::Lock { path, error })?;
        let note = note(host, experiment);
        take_lock(host, folder, &note)?;
        if let Err(error) = refuse_unfinished(host, folder) {
            host.unlock();
            return Err(error);
        }
        Ok(Self {
            folder: folder.to_owned(),
            experiment: experiment.to_owned(),
            journal: None,
            is_shared: false,
        })
    }

    /// Begins an experiment that changes nothing although [`Self::begin`] has found another one.
    /// It shares the lock if the other one changes nothing either, so that no sweep that does can
    /// begin meanwhile.
    ///
    /// # Errors
    /// When an earlier sweep has left its journal, or the lock cannot be used.
    pub fn begin_beside(
        host: &mut dyn Host,
        folder: &Path,
        experiment: &str,
    ) -> Result<Self, SafetyError> {
        let mut this = Self {
            folder: folder.to_owned(),
            experiment: experiment.to_owned(),
            journal: None,
            is_shared: true,
        };
        // The journal of a sweep that is running is not finished.
        if this.share(host)?
            && let Err(error) = refuse_unfinished(host, folder)
        {
            host.unlock();
            return Err(error);
        }
        Ok(this)
    }

    /// Lets others that change nothing run beside this experiment, which changes nothing from now
    /// on. Returns whether the lock is shared; a sweep that changes something may have it.
    ///
    /// # Errors
    /// When the lock cannot be used.
    pub fn share(&mut self, host: &mut dyn Host) -> Result<bool, SafetyError> {
        self.is_shared = true;
        let path = self.folder.join(LOCK_NAME);
        let note = note(host, &self.experiment);
        host.share_lock(&path, &note)
            .map_err(|error| SafetyError::Lock { path, error })
    }

    /// Whether [`Self::begin`] would succeed, as far as can be known without creating anything.
    ///
    /// # Errors
    /// As those of [`Self::begin`].
    pub fn check(host: &mut dyn Host, folder: &Path) -> Result<(), SafetyError> {
        refuse_untrusted(host, folder)?;
        let path = folder.join(LOCK_NAME);
        let of_lock = |error| SafetyError::Lock {
            path: path.clone(),
            error,
        };
        match host.read(&path) {
            // No sweep has run here yet: it must be possible to create the folder.
            Err(error) if is_absence(&error) => return check_folder(host, folder).map_err(of_lock),
            Err(error) => return Err(of_lock(error)),
            Ok(_) => {}
        }
        take_lock(host, folder, "a check of an experiment")?;
        let found = settled_journal(host, folder).map(drop);
        host.unlock();
        found
    }

    /// Makes a change.
    ///
    /// # Errors
    /// When it was not made, or only in part; [`Self::restore_all`] restores in either case.
    pub fn change(
        &mut self,
        host: &mut dyn Host,
        change: &Change,
    ) -> Result<Effective, SafetyError> {
        if self.is_shared {
            let why = "others run beside this experiment, so nothing may be changed".to_owned();
            return Err(SafetyError::refused(&self.experiment, why));
        }
        match change {
            Change::Sysctl { key, value } => self.set(host, key, value),
            Change::File { path, content } => self.replace(host, path, content),
            Change::Command {
                name,
                apply,
                restore,
                environment,
                limit,
            } => {
                let undo = Undo::new(host, restore, environment, *limit);
                self.apply(host, name, apply, undo)
            }
            Change::AtEnd {
                command,
                environment,
                limit,
            } => {
                let undo = Undo::new(host, command, environment, *limit);
                self.record_write(host, PendingChange::command(Resource::AtEnd, command, undo))?;
                Ok(Effective::default())
            }
        }
    }

    /// Restores everything, ends the guardian and releases the lock.
    pub fn restore_all(self, host: &mut dyn Host) -> RestoreReport {
        let report = match self.journal {
            Some(mut journal) => put_back(host, &mut journal, Conflicts::Report),
            None => RestoreReport::default(),
        };
        host.dismiss_guardian();
        host.unlock();
        report
    }

    fn set(
        &mut self,
        host: &mut dyn Host,
        key: &str,
        value: &str,
    ) -> Result<Effective, SafetyError> {
        let refuse = |why: String| SafetyError::refused(key, why);
        let path = sysctl_path(key)
            .ok_or_else(|| refuse("is not the name of a kernel setting".to_owned()))?;
        if let Some(why) = why_irreversible(&path) {
            return Err(refuse(why.to_owned()));
        }
        refuse_half_of_a_pair(host, &path).map_err(refuse)?;
        let is_free = host.claim(&path);
        let unreadable = |error| refuse(format!("cannot be read ({error})"));
        if !is_free.map_err(unreadable)? {
            let what = key.to_owned();
            return Err(SafetyError::Claimed { what });
        }
        let now = Content(host.read(&path).map_err(unreadable)?);
        let resource = Resource::Sysctl {
            key: key.to_owned(),
        };
        let is_first = self.check_ours(&resource, Some(&now))?;
        let unreadable = |error| refuse(format!("related settings cannot be read ({error})"));
        let related = read_related(host, &path).map_err(unreadable)?;
        let content = Content(format!("{value}\n").into_bytes());
        let step = PendingChange {
            old: Some(now.clone()),
            related: related.clone(),
            ..PendingChange::of(resource, content.clone())
        };
        let (journal, id) = self.record_write(host, step)?;
        // Writes the present value first. This changes nothing, but shows that the kernel takes it:
        // otherwise it could not be restored.
        let written = if is_first {
            host.write(&path, &now.0).map_err(|error| {
                refuse(format!(
                    "the present value {now} cannot be written, so it could not be restored \
                 ({error})"
                ))
            })
        } else {
            Ok(())
        };
        let written = written.and_then(|()| {
            host.write(&path, &content.0)
                .map_err(|error| refuse(format!("the kernel refuses {value} ({error})")))
        });
        // Also after a failure: of several numbers the first may have been taken.
        let shown = host.read(&path);
        let shown = shown.map_err(|error| refuse(format!("cannot be read again ({error})")))?;
        let after = read_related(host, &path).map_err(unreadable)?;
        let side_effects = journal.side_effects(id, &related, &after);
        let now = Some(Content(shown.clone()));
        record_read_back(journal, host, id, now, side_effects.clone())?;
        written?;
        accept_side_effects(journal, host, key, &side_effects)?;
        Ok(Effective {
            value: Some(String::from_utf8_lossy(&shown).trim_end().to_owned()),
            output: None,
        })
    }

    fn replace(
        &mut self,
        host: &mut dyn Host,
        path: &Path,
        content: &[u8],
    ) -> Result<Effective, SafetyError> {
        let refuse = |why: String| SafetyError::refused(path.display(), why);
        if !path.is_absolute() {
            return Err(refuse("is not an absolute path".to_owned()));
        }
        let now = match host.read(path) {
            Ok(now) => Some(Content(now)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(refuse(format!("cannot be read ({error})"))),
        };
        let largest = content.len().max(now.as_ref().map_or(0, |now| now.0.len()));
        if largest > FILE_SIZE_MAX {
            return Err(refuse(format!(
                "has {largest} bytes; the limit is {FILE_SIZE_MAX}"
            )));
        }
        let resource = Resource::File {
            path: path.to_owned(),
        };
        self.check_ours(&resource, now.as_ref())?;
        let step = PendingChange {
            old: now,
            ..PendingChange::of(resource, Content(content.to_vec()))
        };
        let (journal, id) = self.record_write(host, step)?;
        host.replace(path, content)
            .map_err(|error| refuse(format!("cannot be replaced ({error})")))?;
        let shown = host.read(path);
        let shown = shown.map_err(|error| refuse(format!("cannot be read again ({error})")))?;
        record_read_back(journal, host, id, Some(Content(shown)), Vec::new())?;
        Ok(Effective::default())
    }

    fn apply(
        &mut self,
        host: &mut dyn Host,
        name: &str,
        command: &str,
        undo: Undo,
    ) -> Result<Effective, SafetyError> {
        let (environment, limit) = (undo.environment.clone(), undo.limit());
        let resource = Resource::Command {
            name: name.to_owned(),
        };
        let step = PendingChange::command(resource, command, undo);
        let (journal, id) = self.record_write(host, step)?;
        let output = host.run(command, &environment, limit);
        let output = output.map_err(|error| {
            SafetyError::refused(name, format!("`{command}` cannot be started ({error})"))
        })?;
        record_read_back(journal, host, id, None, Vec::new())?;
        if output.exit_code != Some(0) {
            return Err(SafetyError::Apply {
                name: name.to_owned(),
                command: command.to_owned(),
                output: Box::new(output),
            });
        }
        Ok(Effective {
            value: None,
            output: Some(output),
        })
    }

    /// Whether the resource is changed for the first time.
    ///
    /// # Errors
    /// When it is not as the sweep left it.
    fn check_ours(&self, resource: &Resource, now: Option<&Content>) -> Result<bool, SafetyError> {
        let entry = self.journal.as_ref().and_then(|j| j.entry_of(resource));
        let Some(entry) = entry else {
            return Ok(true);
        };
        // After an incomplete write its state is unknown.
        let Some(last) = entry.last_shown().filter(|last| now != Some(*last)) else {
            return Ok(false);
        };
        let shown = |content: &Content| match resource {
            Resource::File { .. } => format!("a file of {}", resource.shown(content)),
            _ => resource.shown(content),
        };
        Err(SafetyError::Foreign {
            what: resource.to_string(),
            now: now.map_or_else(|| "not there".to_owned(), shown),
            expected: shown(last),
        })
    }

    /// Writes the new value to the journal, preceded by the old state if the journal lacks it, and
    /// syncs it to the disk. Only then may the change be made. Returns the ID of the resource.
    fn record_write(
        &mut self,
        host: &mut dyn Host,
        step: PendingChange,
    ) -> Result<(&mut Journal, u32), SafetyError> {
        let PendingChange {
            resource,
            old,
            new,
            undo,
            related,
        } = step;
        let unwritten = |path: &Path, source| SafetyError::Journal {
            doing: "written",
            path: path.to_owned(),
            source,
        };
        // The guardian is started first, so that it can remove the journal from the first record
        // on.
        host.keep_guardian(&self.folder)
            .map_err(SafetyError::Guardian)?;
        let journal = match self.journal.take() {
            Some(journal) => journal,
            None => {
                let begin = Begin {
                    version: FORMAT_VERSION,
                    experiment: self.experiment.clone(),
                    pid: std::process::id(),
                    since: host.wall_clock(),
                    boot_id: host.boot_id(),
                    network_namespace: host.network_namespace(),
                    host_name: Some(host.host_name()),
                    kernel: Some(host.kernel()),
                };
                let journal = Journal::create(host, &self.folder, begin);
                journal.map_err(|source| unwritten(&self.folder, source))?
            }
        };
        let journal = self.journal.insert(journal);
        let mut records = Vec::new();
        let values = journal.unknown_related(&related);
        if !values.is_empty() {
            records.push(Record::Related { values });
        }
        let (id, new) = match journal.entry_of(&resource) {
            Some(entry) => (entry.id, entry.kept(new)),
            None => {
                let id = journal.next_id();
                records.push(Record::Save { id, resource, old });
                (id, StoredContent::New(new))
            }
        };
        records.push(Record::Write { id, new, undo });
        match journal.append(host, &records) {
            Ok(()) => Ok((journal, id)),
            Err(source) => Err(unwritten(journal.path(), source)),
        }
    }
}

/// Records what was read back after a write, and what else has changed.
fn record_read_back(
    journal: &mut Journal,
    host: &mut dyn Host,
    id: u32,
    now: Option<Content>,
    mut records: Vec<Record>,
) -> Result<(), SafetyError> {
    let now = now.map(|now| match journal.entry(id) {
        Some(entry) => entry.kept(now),
        None => StoredContent::New(now),
    });
    // This record is last: if the journal is cut off before it, the result of the write is
    // unknown.
    records.push(Record::ReadBack { id, now });
    let appended = journal.append(host, &records);
    appended.map_err(|source| {
        let why = format!("the journal can no longer be written ({source})");
        SafetyError::refused(journal.path().display(), why)
    })
}

/// Claims the settings that changed together with the written one.
///
/// # Errors
/// When the experiment or another sweep sets one of them as well, so that the change cannot stay.
fn accept_side_effects(
    journal: &Journal,
    host: &mut dyn Host,
    key: &str,
    side_effects: &[Record],
) -> Result<(), SafetyError> {
    let entries = side_effects.iter().filter_map(|record| match record {
        Record::SideEffect { id, .. } => journal.entry(*id),
        _ => None,
    });
    for entry in entries {
        if entry.has_own_write {
            let why = format!(
                "writing it also changes {}, which the experiment sets as well: vary one of the \
                 two",
                entry.resource
            );
            return Err(SafetyError::refused(key, why));
        }
        let path = entry.file();
        if !path.is_none_or(|path| host.claim(&path).unwrap_or(true)) {
            let what = key.to_owned();
            return Err(SafetyError::Claimed { what });
        }
    }
    Ok(())
}

/// A change that is about to be made.
struct PendingChange {
    resource: Resource,
    /// The present state; `None` for a file that does not exist, and for commands.
    old: Option<Content>,
    new: Content,
    undo: Option<Undo>,
    /// The present values of related settings.
    related: BTreeMap<PathBuf, Content>,
}

impl PendingChange {
    fn of(resource: Resource, new: Content) -> Self {
        Self {
            resource,
            old: None,
            new,
            undo: None,
            related: BTreeMap::new(),
        }
    }

    fn command(resource: Resource, command: &str, undo: Undo) -> Self {
        Self {
            undo: Some(undo),
            ..Self::of(resource, Content(command.as_bytes().to_vec()))
        }
    }
}

/// What others read in the lock.
fn note(host: &dyn Host, experiment: &str) -> String {
    format!(
        "sweep of {experiment:?}, pid {}, since {}",
        std::process::id(),
        host.wall_clock().as_deref().unwrap_or("an unknown time")
    )
}

/// Refuses to start while changes of an earlier sweep are not restored. A journal without such
/// changes is removed.
fn refuse_unfinished(host: &mut dyn Host, folder: &Path) -> Result<(), SafetyError> {
    let Some(journal) = settled_journal(host, folder)? else {
        return Ok(());
    };
    journal.remove(host).map_err(|source| SafetyError::Journal {
        doing: "removed",
        path: folder.to_owned(),
        source,
    })
}

/// The journal in the folder, provided that nothing remains to be restored.
///
/// # Errors
/// When something does.
fn settled_journal(host: &mut dyn Host, folder: &Path) -> Result<Option<Journal>, SafetyError> {
    let journal = Journal::read(host, folder)
        .map_err(|error| SafetyError::of_journal(host, error, folder))?;
    let Some(journal) = journal else {
        return Ok(None);
    };
    if journal.unfinished().next().is_some() {
        return Err(SafetyError::Unfinished {
            experiment: journal.begin.experiment.clone(),
            pid: journal.begin.pid,
            since: journal
                .begin
                .since
                .clone()
                .unwrap_or_else(|| "at an unknown time".to_owned()),
            changed: changed_machine(host, &journal.begin),
            folder: folder.to_owned(),
        });
    }
    Ok(Some(journal))
}

/// Refuses the zero half of a pair, which the kernel refuses back.
fn refuse_half_of_a_pair(host: &dyn Host, path: &Path) -> Result<(), String> {
    let is_zero = |path: &Path| {
        host.read(path)
            .is_ok_and(|content| content.trim_ascii() == b"0")
    };
    let pairs = PAIRS
        .into_iter()
        .flat_map(|(left, right)| [(left, right), (right, left)]);
    for (ours, other) in pairs {
        let (Some(ours), Some(other)) = (sysctl_path(ours), sysctl_path(other)) else {
            continue;
        };
        if path == ours && is_zero(path) && !is_zero(&other) {
            return Err(format!(
                "is 0 because {} is set, and the kernel does not accept 0 again: vary that one \
                 instead",
                other.display()
            ));
        }
    }
    Ok(())
}
