//! The journal: every change and the state before it, on the disk before the change is made.
//!
//! It is one file with one record per line (`journal/record.rs`). Records are only appended, so
//! that a power cut leaves the beginning of what was written. The file is removed when everything
//! is restored.

mod record;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use crate::change::{sysctl_name, sysctl_path};
use crate::content::Content;
use crate::host::{Host, is_absence};

pub(crate) use record::{Begin, FORMAT_VERSION, Record, Resource, StoredContent, Undo};
use record::{JournalLine, encode, lines};

const FILE_NAME: &str = "journal";
/// A damaged journal is kept under this name after its readable part was restored.
const DAMAGED_NAME: &str = "journal.damaged";

/// A changed resource and everything that was done to it, from all lines of the journal about it.
/// It says whether and how the resource is restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JournalEntry {
    pub(crate) id: u32,
    pub(crate) resource: Resource,
    /// State before the first change; `None` for a file that did not exist, and for commands.
    pub(crate) old: Option<Content>,
    /// Distinct contents that were written, or read back after a write (the kernel rounds and
    /// clamps), in order of their first appearance.
    contents: Vec<Content>,
    /// It was changed, either by its own write or by a write of a related setting.
    pub(crate) is_written: bool,
    /// It was written itself.
    pub(crate) has_own_write: bool,
    /// The last write may or may not have happened.
    pub(crate) is_pending: bool,
    /// Index of the content that was written last.
    last_written: Option<usize>,
    /// IDs of the settings that a write of this one also changed.
    pub(crate) side_effects: BTreeSet<u32>,
    /// Index of the content that was read back last.
    last_shown: Option<usize>,
    /// What undoes a command.
    pub(crate) undo: Option<Undo>,
    pub(crate) is_restored: bool,
}

impl JournalEntry {
    /// The file of the resource.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        file_of(&self.resource)
    }

    /// Whether this content came from the sweep.
    pub(crate) fn is_ours(&self, content: &Content) -> bool {
        self.contents.contains(content)
    }

    pub(crate) fn last_written(&self) -> Option<&Content> {
        self.contents.get(self.last_written?)
    }

    /// The content that was read back after the last write, if it is known.
    pub(crate) fn last_shown(&self) -> Option<&Content> {
        let known = self.last_shown.filter(|_| !self.is_pending);
        known.and_then(|index| self.contents.get(index))
    }

    /// A content in the form that the next record uses.
    pub(crate) fn kept(&self, content: Content) -> StoredContent {
        let again = self.contents.iter().position(|known| *known == content);
        again.map_or(StoredContent::New(content), |again| {
            StoredContent::Earlier { again }
        })
    }

    /// The index of a content in `contents`; `None` for an invalid index.
    fn resolve(&mut self, kept: StoredContent) -> Option<usize> {
        match kept {
            StoredContent::New(content) => {
                self.contents.push(content);
                Some(self.contents.len() - 1)
            }
            StoredContent::Earlier { again } => {
                Some(again).filter(|again| *again < self.contents.len())
            }
        }
    }
}

/// The file of a resource; a command has none.
pub(crate) fn file_of(resource: &Resource) -> Option<PathBuf> {
    match resource {
        Resource::Sysctl { key } => sysctl_path(key),
        Resource::File { path } => Some(path.clone()),
        Resource::Command { .. } | Resource::AtEnd => None,
    }
}

pub(crate) fn journal_path(folder: &Path) -> PathBuf {
    folder.join(FILE_NAME)
}

/// The journal of one sweep.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    pub(crate) begin: Begin,
    pub(crate) entries: Vec<JournalEntry>,
    /// Related settings and their values before the latest write.
    pub(crate) related: BTreeMap<PathBuf, Content>,
    /// An append failed. There may be half a record at the end, so nothing may be appended.
    is_broken: bool,
    /// Lines in the middle cannot be read.
    is_damaged: bool,
}

/// Why a journal cannot be used.
#[derive(Debug)]
pub(crate) enum ReadError {
    Io(io::Error),
    /// Another version of the program wrote it.
    Version(u64),
    /// It is damaged in the middle, not only cut off at the end.
    Damaged {
        /// The first damaged line, from 1.
        line: usize,
        /// The readable lines, if the first one is among them.
        readable: Option<Box<Journal>>,
    },
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Journal {
    pub(crate) fn create(host: &mut dyn Host, folder: &Path, begin: Begin) -> io::Result<Self> {
        let mut journal = Self::of(folder, begin.clone());
        journal.append(host, &[Record::Begin(begin)])?;
        Ok(journal)
    }

    fn of(folder: &Path, begin: Begin) -> Self {
        Self {
            path: journal_path(folder),
            begin,
            entries: Vec::new(),
            related: BTreeMap::new(),
            is_broken: false,
            is_damaged: false,
        }
    }

    /// Reads the journal in the folder, if there is one. A record that a power cut left half
    /// written at the end is dropped: its change was not made. A journal without a complete first
    /// record is removed, since no change followed.
    pub(crate) fn read(host: &mut dyn Host, folder: &Path) -> Result<Option<Self>, ReadError> {
        let path = journal_path(folder);
        let Some(Content(bytes)) = Content::read(host, &path)? else {
            return Ok(None);
        };
        let (journal, whole_bytes) = Self::parse(folder, &bytes)?;
        let Some(mut journal) = journal else {
            host.remove(&path)?;
            return Ok(None);
        };
        if whole_bytes == bytes.len() {
            return Ok(Some(journal));
        }
        // Removes the partial record so that more can be appended. If this fails, for example on a
        // full disk, nothing is appended later.
        let whole = bytes.get(..whole_bytes).unwrap_or_default();
        journal.is_broken = host.replace(&path, whole).is_err();
        Ok(Some(journal))
    }

    /// As [`Self::read`], but without repairing the file.
    pub(crate) fn peek(host: &dyn Host, folder: &Path) -> Result<Option<Self>, ReadError> {
        let Some(Content(bytes)) = Content::read(host, &journal_path(folder))? else {
            return Ok(None);
        };
        let (journal, _) = Self::parse(folder, &bytes)?;
        Ok(journal)
    }

    /// The journal in these bytes, and the length of its complete records.
    fn parse(folder: &Path, bytes: &[u8]) -> Result<(Option<Self>, usize), ReadError> {
        let (lines, whole_bytes) = lines(bytes);
        let mut journal: Option<Self> = None;
        let mut first_damaged = None;
        for (index, line) in lines.into_iter().enumerate() {
            let understood = match (line, &mut journal) {
                (JournalLine::OtherVersion(version), _) => return Err(ReadError::Version(version)),
                (JournalLine::Record(record), None) => match *record {
                    Record::Begin(begin) => {
                        journal = Some(Self::of(folder, begin));
                        true
                    }
                    _ => false,
                },
                (JournalLine::Record(record), Some(journal)) => journal.apply_record(*record),
                (JournalLine::Damaged, _) => false,
            };
            if !understood {
                first_damaged.get_or_insert(index + 1);
            }
        }
        match first_damaged {
            None => Ok((journal, whole_bytes)),
            Some(line) => Err(ReadError::Damaged {
                line,
                readable: journal.map(|journal| {
                    Box::new(Self {
                        is_broken: true,
                        is_damaged: true,
                        ..journal
                    })
                }),
            }),
        }
    }

    /// Applies a record; `false` if it cannot follow the earlier ones.
    fn apply_record(&mut self, record: Record) -> bool {
        match record {
            Record::Begin(_) => false,
            Record::Save { id, resource, old } => {
                let is_new = self.entry(id).is_none();
                if is_new {
                    self.entries.push(JournalEntry {
                        id,
                        resource,
                        old,
                        contents: Vec::new(),
                        is_written: false,
                        has_own_write: false,
                        is_pending: false,
                        last_written: None,
                        side_effects: BTreeSet::new(),
                        last_shown: None,
                        undo: None,
                        is_restored: false,
                    });
                }
                is_new
            }
            Record::Related { values } => {
                self.related.extend(values);
                true
            }
            Record::Write { id, new, undo } => {
                self.set_pending(id, true);
                self.with_entry(id, |entry| {
                    entry.undo = undo;
                    entry.is_written = true;
                    entry.has_own_write = true;
                    entry.last_written = entry.resolve(new);
                    entry.last_written.is_some()
                })
            }
            Record::ReadBack { id, now } => {
                self.set_pending(id, false);
                self.with_entry(id, |entry| {
                    let is_known = now.is_some();
                    entry.last_shown = now.and_then(|now| entry.resolve(now));
                    entry.last_shown.is_some() == is_known
                })
            }
            Record::SideEffect { id, by, now } => {
                let is_taken = self.with_entry(id, |entry| {
                    entry.is_written = true;
                    entry.last_shown = entry.resolve(now);
                    entry.last_shown.is_some()
                });
                let is_known = self.with_entry(by, |entry| {
                    entry.side_effects.insert(id);
                    true
                });
                is_taken && is_known
            }
            Record::Restored { id } => self.with_entry(id, |entry| {
                entry.is_restored = true;
                true
            }),
        }
    }

    /// Marks a resource and the settings that change with it.
    fn set_pending(&mut self, id: u32, is_pending: bool) {
        let side_effects = self.entry(id).map(|entry| entry.side_effects.clone());
        let mut ids = side_effects.unwrap_or_default();
        ids.insert(id);
        for entry in self.entries.iter_mut().filter(|it| ids.contains(&it.id)) {
            entry.is_pending = is_pending;
        }
    }

    fn with_entry(&mut self, id: u32, change: impl FnOnce(&mut JournalEntry) -> bool) -> bool {
        let entry = self.entries.iter_mut().find(|entry| entry.id == id);
        entry.is_some_and(change)
    }

    pub(crate) fn entry(&self, id: u32) -> Option<&JournalEntry> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    /// The entry of the same resource, under whatever name.
    pub(crate) fn entry_of(&self, resource: &Resource) -> Option<&JournalEntry> {
        match file_of(resource) {
            Some(file) => self.entry_at(&file),
            None => self.entries.iter().find(|it| it.resource == *resource),
        }
    }

    /// Whether the resource was only changed by a write of a related setting.
    pub(crate) fn is_only_side_effect(&self, entry: &JournalEntry) -> bool {
        !entry.has_own_write
            && self
                .entries
                .iter()
                .any(|it| it.side_effects.contains(&entry.id))
    }

    /// Whether a setting that also changes this one is still to be restored.
    pub(crate) fn has_unfinished_cause(&self, id: u32) -> bool {
        self.entries
            .iter()
            .any(|it| it.side_effects.contains(&id) && !it.is_restored)
    }

    /// The IDs of a setting and of all settings that change with it; its own ID comes first.
    pub(crate) fn group(&self, id: u32) -> Vec<u32> {
        let mut group = vec![id];
        let mut at = 0;
        while let Some(entry) = group.get(at).and_then(|id| self.entry(*id)) {
            let new: Vec<u32> = entry
                .side_effects
                .iter()
                .copied()
                .filter(|id| !group.contains(id))
                .collect();
            group.extend(new);
            at += 1;
        }
        group
    }

    /// The entry of the setting with this file.
    pub(crate) fn entry_at(&self, path: &Path) -> Option<&JournalEntry> {
        self.entries
            .iter()
            .find(|entry| entry.file().as_deref() == Some(path))
    }

    /// The values that are not in the journal yet. Settings with an entry are left out.
    pub(crate) fn unknown_related(
        &self,
        related: &BTreeMap<PathBuf, Content>,
    ) -> BTreeMap<PathBuf, Content> {
        let files: BTreeSet<PathBuf> = self.entries.iter().filter_map(JournalEntry::file).collect();
        related
            .iter()
            .filter(|(path, content)| {
                !files.contains(*path) && self.related.get(*path) != Some(*content)
            })
            .map(|(path, content)| (path.clone(), content.clone()))
            .collect()
    }

    /// The records for settings that a write of entry `by` has also changed. For settings without
    /// an entry they include the value before.
    pub(crate) fn side_effects(
        &self,
        by: u32,
        before: &BTreeMap<PathBuf, Content>,
        after: &BTreeMap<PathBuf, Content>,
    ) -> Vec<Record> {
        let mut records = Vec::new();
        let mut next_id = self.next_id();
        for (path, was) in before {
            let Some(now) = after.get(path).filter(|now| *now != was) else {
                continue;
            };
            if let Some(entry) = self.entry_at(path) {
                let now = entry.kept(now.clone());
                records.push(Record::SideEffect {
                    id: entry.id,
                    by,
                    now,
                });
            } else if let Some(key) = sysctl_name(path) {
                records.push(Record::Save {
                    id: next_id,
                    resource: Resource::Sysctl { key },
                    old: Some(was.clone()),
                });
                records.push(Record::SideEffect {
                    id: next_id,
                    by,
                    now: StoredContent::New(now.clone()),
                });
                next_id = next_id.saturating_add(1);
            }
        }
        records
    }

    /// An ID that no entry has.
    pub(crate) fn next_id(&self) -> u32 {
        let last = self.entries.iter().map(|entry| entry.id).max();
        last.map_or(0, |id| id.saturating_add(1))
    }

    /// Whether anything was changed. A command that only runs at the end is not a change.
    pub(crate) fn has_changes(&self) -> bool {
        self.entries
            .iter()
            .any(|entry| entry.resource != Resource::AtEnd && entry.is_written)
    }

    /// What remains to be restored, last change first, and then the command for the end. Of a
    /// damaged journal also what was saved but apparently not written: the record of the write may
    /// be lost.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = &JournalEntry> {
        let has_changes = self.has_changes() || self.is_damaged;
        let is_unfinished = move |entry: &&JournalEntry| {
            let may_be_changed = entry.is_written || self.is_damaged;
            has_changes && may_be_changed && !entry.is_restored
        };
        let is_at_end = |entry: &&JournalEntry| entry.resource == Resource::AtEnd;
        let changes = self.entries.iter().rev().filter(move |it| !is_at_end(it));
        let at_end = self.entries.iter().rev().filter(is_at_end);
        changes.chain(at_end).filter(is_unfinished)
    }

    /// Writes records to the disk, then applies them in memory.
    pub(crate) fn append(&mut self, host: &mut dyn Host, records: &[Record]) -> io::Result<()> {
        if self.is_broken {
            return Err(io::Error::other("an earlier record could not be written"));
        }
        let mut bytes = Vec::new();
        for record in records {
            bytes.extend(encode(record)?);
        }
        let appended = host.append(&self.path, &bytes);
        self.is_broken = appended.is_err();
        appended?;
        for record in records {
            self.apply_record(record.clone());
        }
        Ok(())
    }

    /// Marks an entry as restored. If the disk cannot be written, the entry is only checked again
    /// next time.
    pub(crate) fn mark_restored(&mut self, host: &mut dyn Host, id: u32) {
        self.append_or_apply(host, vec![Record::Restored { id }]);
    }

    /// Applies records in memory, and writes them to the disk if possible: restoring does not
    /// depend on it.
    pub(crate) fn append_or_apply(&mut self, host: &mut dyn Host, records: Vec<Record>) {
        if self.append(host, &records).is_err() {
            for record in records {
                self.apply_record(record);
            }
        }
    }

    /// Removes the file; a damaged one is kept under another name.
    pub(crate) fn remove(&self, host: &mut dyn Host) -> io::Result<()> {
        if self.is_damaged {
            let bytes = host.read(&self.path)?;
            host.replace(&self.path.with_file_name(DAMAGED_NAME), &bytes)?;
        }
        match host.remove(&self.path) {
            Err(error) if !is_absence(&error) => Err(error),
            _ => Ok(()),
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
