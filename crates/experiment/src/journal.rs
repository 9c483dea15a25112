//! What was changed and how it was before, on the disk before the change is made.
//!
//! One file, one record on each line (`journal/record.rs`). It is only added to, so that what a power cut leaves is
//! the beginning of what was written; and it goes when everything is back.

mod record;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use crate::change::{sysctl_name, sysctl_path};
use crate::host::Host;

pub(crate) use record::{Begin, Content, FORMAT_VERSION, Kept, Record, Resource, Undo};
use record::{Line, encode, lines};

/// Name of the file in its folder.
const FILE_NAME: &str = "journal";
/// Where a damaged journal is kept when what could be read of it was put back.
const DAMAGED_NAME: &str = "journal.damaged";

/// One thing that was changed, and all that was done to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: u32,
    pub(crate) resource: Resource,
    /// How it was; `None` for a file that was not there, and for commands.
    pub(crate) old: Option<Content>,
    /// What was written, and what it showed then: the kernel rounds and clamps. Each once, in the order
    /// in which they came.
    contents: Vec<Content>,
    /// It was changed: by a write of its own, or by one of a setting that it goes with.
    pub(crate) is_written: bool,
    /// It was written itself.
    pub(crate) has_own_write: bool,
    /// The last write may have happened or not.
    pub(crate) is_pending: bool,
    /// Which of the contents was written last.
    last_written: Option<usize>,
    /// Settings that a write of this one has changed too, by their numbers.
    pub(crate) moves: BTreeSet<u32>,
    /// Which of the contents it showed last.
    last_shown: Option<usize>,
    /// What undoes a command.
    pub(crate) undo: Option<Undo>,
    pub(crate) is_restored: bool,
}

impl Entry {
    /// The file that shows it.
    pub(crate) fn place(&self) -> Option<PathBuf> {
        place(&self.resource)
    }

    /// Whether this came from the sweep.
    pub(crate) fn is_ours(&self, content: &Content) -> bool {
        self.contents.contains(content)
    }

    /// What was written last.
    pub(crate) fn last_written(&self) -> Option<&Content> {
        self.contents.get(self.last_written?)
    }

    /// What it showed after the last write, if that is known.
    pub(crate) fn last_shown(&self) -> Option<&Content> {
        let known = self.last_shown.filter(|_| !self.is_pending);
        known.and_then(|index| self.contents.get(index))
    }

    /// A content as the next record has it.
    pub(crate) fn kept(&self, content: Content) -> Kept {
        let again = self.contents.iter().position(|known| *known == content);
        again.map_or(Kept::Whole(content), |again| Kept::Again { again })
    }

    /// The number of a content among ours; `None` if there is none.
    fn resolve(&mut self, kept: Kept) -> Option<usize> {
        match kept {
            Kept::Whole(content) => {
                self.contents.push(content);
                Some(self.contents.len() - 1)
            }
            Kept::Again { again } => Some(again).filter(|again| *again < self.contents.len()),
        }
    }
}

/// The file that shows a thing; a command has none.
pub(crate) fn place(resource: &Resource) -> Option<PathBuf> {
    match resource {
        Resource::Sysctl { key } => sysctl_path(key),
        Resource::File { path } => Some(path.clone()),
        Resource::Command { .. } | Resource::AtEnd => None,
    }
}

/// The journal's file in its folder.
pub(crate) fn journal_path(folder: &Path) -> PathBuf {
    folder.join(FILE_NAME)
}

/// The journal of one sweep.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    pub(crate) begin: Begin,
    pub(crate) entries: Vec<Entry>,
    /// How the settings near the changed ones were before the latest write.
    pub(crate) near: BTreeMap<PathBuf, Content>,
    /// An append failed: there may be half a record at the end, after which nothing may come.
    is_broken: bool,
    /// Lines in the middle cannot be read.
    is_damaged: bool,
}

/// Why a journal cannot be taken for true.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The system's.
    Io(io::Error),
    /// Another version of the program wrote it.
    Version(u64),
    /// It is damaged, and not only cut off.
    Damaged {
        /// The first line that cannot be read, from 1.
        line: usize,
        /// What the others say, if the first one is among them.
        readable: Option<Box<Journal>>,
    },
}

impl Journal {
    /// Begins one.
    pub(crate) fn create<H: Host + ?Sized>(
        host: &mut H,
        folder: &Path,
        begin: Begin,
    ) -> io::Result<Self> {
        let mut journal = Self::of(folder, begin.clone());
        journal.append(host, &[Record::Begin(begin)])?;
        Ok(journal)
    }

    fn of(folder: &Path, begin: Begin) -> Self {
        Self {
            path: journal_path(folder),
            begin,
            entries: Vec::new(),
            near: BTreeMap::new(),
            is_broken: false,
            is_damaged: false,
        }
    }

    /// The one that lies in the folder, if any. What a power cut left half written at the end is no
    /// part of it: its change was not made. A journal without a whole first record never came to a
    /// change, and is removed.
    pub(crate) fn read<H: Host + ?Sized>(
        host: &mut H,
        folder: &Path,
    ) -> Result<Option<Self>, ReadError> {
        let path = journal_path(folder);
        let Some(bytes) = read_bytes(host, &path)? else {
            return Ok(None);
        };
        let (journal, whole_bytes) = Self::parse(folder, &bytes)?;
        let Some(mut journal) = journal else {
            host.remove(&path).map_err(ReadError::Io)?;
            return Ok(None);
        };
        if whole_bytes == bytes.len() {
            return Ok(Some(journal));
        }
        // So that something can be added. On a full disk it cannot; then nothing is added.
        let whole = bytes.get(..whole_bytes).unwrap_or_default();
        journal.is_broken = host.replace(&path, whole).is_err();
        Ok(Some(journal))
    }

    /// What [`Self::read`] would find, without making anything of a cut end.
    pub(crate) fn peek<H: Host + ?Sized>(
        host: &H,
        folder: &Path,
    ) -> Result<Option<Self>, ReadError> {
        let Some(bytes) = read_bytes(host, &journal_path(folder))? else {
            return Ok(None);
        };
        let (journal, _) = Self::parse(folder, &bytes)?;
        Ok(journal)
    }

    /// The journal in these bytes, and how many of them are whole records.
    fn parse(folder: &Path, bytes: &[u8]) -> Result<(Option<Self>, usize), ReadError> {
        let (lines, whole_bytes) = lines(bytes);
        let mut journal: Option<Self> = None;
        let mut first_damaged = None;
        for (index, line) in lines.into_iter().enumerate() {
            let understood = match (line, &mut journal) {
                (Line::OtherVersion(version), _) => return Err(ReadError::Version(version)),
                (Line::Record(record), None) => match *record {
                    Record::Begin(begin) => {
                        journal = Some(Self::of(folder, begin));
                        true
                    }
                    _ => false,
                },
                (Line::Record(record), Some(journal)) => journal.take(*record),
                (Line::Damaged, _) => false,
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

    /// Takes a record in; `false` if it cannot follow those before it.
    fn take(&mut self, record: Record) -> bool {
        match record {
            Record::Begin(_) => false,
            Record::Save { id, resource, old } => {
                let is_new = self.entry(id).is_none();
                if is_new {
                    self.entries.push(Entry {
                        id,
                        resource,
                        old,
                        contents: Vec::new(),
                        is_written: false,
                        has_own_write: false,
                        is_pending: false,
                        last_written: None,
                        moves: BTreeSet::new(),
                        last_shown: None,
                        undo: None,
                        is_restored: false,
                    });
                }
                is_new
            }
            Record::Related { values } => {
                self.near.extend(values);
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
            Record::Took { id, now } => {
                self.set_pending(id, false);
                self.with_entry(id, |entry| {
                    let is_known = now.is_some();
                    entry.last_shown = now.and_then(|now| entry.resolve(now));
                    entry.last_shown.is_some() == is_known
                })
            }
            Record::Moved { id, by, now } => {
                let is_taken = self.with_entry(id, |entry| {
                    entry.is_written = true;
                    entry.last_shown = entry.resolve(now);
                    entry.last_shown.is_some()
                });
                let is_known = self.with_entry(by, |entry| {
                    entry.moves.insert(id);
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

    /// Marks a thing, and those that change with it.
    fn set_pending(&mut self, id: u32, is_pending: bool) {
        let moved = self.entry(id).map(|entry| entry.moves.clone());
        let mut ids = moved.unwrap_or_default();
        ids.insert(id);
        for entry in self.entries.iter_mut().filter(|it| ids.contains(&it.id)) {
            entry.is_pending = is_pending;
        }
    }

    fn with_entry(&mut self, id: u32, change: impl FnOnce(&mut Entry) -> bool) -> bool {
        let entry = self.entries.iter_mut().find(|entry| entry.id == id);
        entry.is_some_and(change)
    }

    pub(crate) fn entry(&self, id: u32) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    /// The entry of the same thing, by whatever name.
    pub(crate) fn entry_of(&self, resource: &Resource) -> Option<&Entry> {
        let place_of_it = place(resource);
        self.entries.iter().find(|entry| match &place_of_it {
            Some(place) => entry.place().as_ref() == Some(place),
            None => entry.resource == *resource,
        })
    }

    /// Whether the thing was changed only by a setting that it goes with.
    pub(crate) fn is_only_moved(&self, entry: &Entry) -> bool {
        !entry.has_own_write && self.entries.iter().any(|it| it.moves.contains(&entry.id))
    }

    /// Whether a setting that it goes with is still to be put back.
    pub(crate) fn has_unfinished_mover(&self, id: u32) -> bool {
        self.entries
            .iter()
            .any(|it| it.moves.contains(&id) && !it.is_restored)
    }

    /// A setting and all those that change with it, itself first, by their numbers.
    pub(crate) fn group(&self, id: u32) -> Vec<u32> {
        let mut group = vec![id];
        let mut at = 0;
        while let Some(entry) = group.get(at).and_then(|id| self.entry(*id)) {
            let new: Vec<u32> = entry
                .moves
                .iter()
                .copied()
                .filter(|id| !group.contains(id))
                .collect();
            group.extend(new);
            at += 1;
        }
        group
    }

    /// The entry of a setting, by its file.
    pub(crate) fn entry_at(&self, path: &Path) -> Option<&Entry> {
        self.entries
            .iter()
            .find(|entry| entry.place().as_deref() == Some(path))
    }

    /// What of these values the journal does not have yet. Settings with an entry are left out: that has them.
    pub(crate) fn unknown_related(
        &self,
        near: &BTreeMap<PathBuf, Content>,
    ) -> BTreeMap<PathBuf, Content> {
        let places: BTreeSet<PathBuf> = self.entries.iter().filter_map(Entry::place).collect();
        near.iter()
            .filter(|(path, content)| {
                !places.contains(*path) && self.near.get(*path) != Some(*content)
            })
            .map(|(path, content)| (path.clone(), content.clone()))
            .collect()
    }

    /// The records of settings that have changed with a write of the entry `by`. What was before it is kept of those
    /// that are new here.
    pub(crate) fn moved(
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
                records.push(Record::Moved {
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
                records.push(Record::Moved {
                    id: next_id,
                    by,
                    now: Kept::Whole(now.clone()),
                });
                next_id = next_id.saturating_add(1);
            }
        }
        records
    }

    /// A number that no entry has.
    pub(crate) fn next_id(&self) -> u32 {
        let last = self.entries.iter().map(|entry| entry.id).max();
        last.map_or(0, |id| id.saturating_add(1))
    }

    /// Whether anything was changed at all. A command for the end alone is no change.
    pub(crate) fn has_changes(&self) -> bool {
        self.entries
            .iter()
            .any(|entry| entry.resource != Resource::AtEnd && entry.is_written)
    }

    /// What remains to be put back, the last change first; the command for the end among it. Of a damaged
    /// journal also what was only saved: that it was written may be in the lines that are lost.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = &Entry> {
        let has_changes = self.has_changes() || self.is_damaged;
        let is_unfinished = move |entry: &&Entry| {
            let may_be_changed = entry.is_written || self.is_damaged;
            has_changes && may_be_changed && !entry.is_restored
        };
        self.entries.iter().rev().filter(is_unfinished)
    }

    /// Puts records on the disk, then into memory.
    pub(crate) fn append<H: Host + ?Sized>(
        &mut self,
        host: &mut H,
        records: &[Record],
    ) -> io::Result<()> {
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
            self.take(record.clone());
        }
        Ok(())
    }

    /// Marks an entry as put back: on the disk if that goes, since otherwise it is only looked at once
    /// more than needed.
    pub(crate) fn mark_restored<H: Host + ?Sized>(&mut self, host: &mut H, id: u32) {
        self.append_or_take(host, vec![Record::Restored { id }]);
    }

    /// Adds records to memory, and to the disk if that takes them: what is put back does not wait for it.
    pub(crate) fn append_or_take<H: Host + ?Sized>(&mut self, host: &mut H, records: Vec<Record>) {
        if self.append(host, &records).is_err() {
            for record in records {
                self.take(record);
            }
        }
    }

    /// Removes the file; a damaged one is kept under another name.
    pub(crate) fn remove<H: Host + ?Sized>(&self, host: &mut H) -> io::Result<()> {
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

fn read_bytes<H: Host + ?Sized>(host: &H, path: &Path) -> Result<Option<Vec<u8>>, ReadError> {
    match host.read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if is_absence(&error) => Ok(None),
        Err(error) => Err(ReadError::Io(error)),
    }
}

/// Whether an error says that there is no such file.
pub(crate) fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}
