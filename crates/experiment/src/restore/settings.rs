//! Restores kernel settings, each together with those that change with it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use super::{Conflicts, RestoreOutcome, foreign};
use crate::change::sysctl_name;
use crate::content::Content;
use crate::host::Host;
use crate::journal::{Journal, JournalEntry, Record, Resource, StoredContent};
use crate::related_settings::read_related;

/// How often a group of settings is restored. Writing a rounded value changes its exact
/// counterpart, which is then written; after that nothing should change any more.
const PASSES: usize = 4;

/// Restores a setting and all settings that changed with it. Returns what happened to each, by ID.
pub(super) fn put_back(
    host: &mut dyn Host,
    journal: &mut Journal,
    id: u32,
    conflicts: Conflicts,
) -> Vec<(u32, RestoreOutcome)> {
    if let Err(error) = find_unrecorded(host, journal, id) {
        let why = format!("related settings cannot be read ({error})");
        return vec![(id, RestoreOutcome::Failed(why))];
    }
    let group = journal.group(id);
    let mut outcomes: Vec<(u32, RestoreOutcome)> = Vec::new();
    for pass in 0..PASSES {
        let mut has_written = false;
        for id in journal.group(id) {
            let outcome = put_one_back(host, journal, id, group.len() == 1, conflicts);
            has_written |= matches!(outcome, RestoreOutcome::Restored(_));
            match outcomes.iter_mut().find(|(known, _)| *known == id) {
                Some(_) if outcome == RestoreOutcome::Unchanged => {}
                Some((_, known)) => *known = outcome,
                None => outcomes.push((id, outcome)),
            }
        }
        if !has_written || group.len() == 1 {
            break;
        }
        if pass + 1 == PASSES {
            for (id, outcome) in &mut outcomes {
                if outcome.is_settled() && !is_as_before(host, journal, *id) {
                    let why =
                        "the kernel changes it together with another setting that was restored";
                    *outcome = RestoreOutcome::Failed(why.to_owned());
                }
            }
        }
    }
    outcomes
}

fn is_as_before(host: &dyn Host, journal: &Journal, id: u32) -> bool {
    let entry = journal.entry(id);
    let now = entry
        .and_then(JournalEntry::file)
        .map(|path| host.read(&path));
    match (entry.and_then(|entry| entry.old.as_ref()), now) {
        (Some(old), Some(Ok(now))) => old.0 == now,
        _ => false,
    }
}

fn put_one_back(
    host: &mut dyn Host,
    journal: &mut Journal,
    id: u32,
    is_alone: bool,
    conflicts: Conflicts,
) -> RestoreOutcome {
    let Some(entry) = journal.entry(id).cloned() else {
        return RestoreOutcome::Failed("the journal does not record its old value".to_owned());
    };
    let (Some(path), Some(old)) = (entry.file(), &entry.old) else {
        return RestoreOutcome::Failed("the journal does not record its old value".to_owned());
    };
    let now = match Content::read(host, &path) {
        Ok(now) => now,
        Err(error) => return RestoreOutcome::Failed(format!("cannot be read ({error})")),
    };
    let Some(now) = now else {
        if journal.is_only_side_effect(&entry) {
            return RestoreOutcome::Dropped("is gone together with its interface".into());
        }
        // It cannot be created: a kernel module or an interface is gone.
        return foreign(&entry, None, conflicts != Conflicts::Report);
    };
    if now == *old {
        return RestoreOutcome::Unchanged;
    }
    // A write that was started may have been clamped to an unknown value.
    let is_ours = entry.is_pending || entry.is_ours(&now);
    if !is_ours && conflicts != Conflicts::Overwrite {
        return foreign(&entry, Some(&now), conflicts == Conflicts::Keep);
    }
    let written = if is_alone {
        host.write(&path, &old.0)
    } else {
        write_in_group(host, journal, &entry, &path, old)
    };
    if let Err(error) = written {
        return RestoreOutcome::Failed(format!("{old} cannot be written ({error})"));
    }
    match host.read(&path) {
        Ok(now) if now == old.0 => RestoreOutcome::Restored(Some(old.to_string())),
        Ok(now) => RestoreOutcome::Failed(format!("the kernel changed {old} to {}", Content(now))),
        Err(error) => RestoreOutcome::Failed(format!("cannot be read again ({error})")),
    }
}

/// Writes a setting that others change with. As with every write of the sweep, the journal has it
/// first, so that the resulting values are known to be ours.
fn write_in_group(
    host: &mut dyn Host,
    journal: &mut Journal,
    entry: &JournalEntry,
    path: &Path,
    old: &Content,
) -> io::Result<()> {
    let members: Vec<u32> = entry.side_effects.iter().copied().collect();
    let before = read_members(host, journal, &members);
    let write = Record::Write {
        id: entry.id,
        new: entry.kept(old.clone()),
        undo: None,
    };
    journal.append_or_apply(host, vec![write]);
    let written = host.write(path, &old.0);
    // If not everything can be read, the result of the write stays unknown, and the settings count
    // as ours.
    if let (Ok(before), Ok(after), Ok(now)) = (
        before,
        read_members(host, journal, &members),
        host.read(path),
    ) {
        let mut records = Vec::new();
        for (id, now) in after {
            let Some(member) = journal.entry(id) else {
                continue;
            };
            if entry.is_pending || before.get(&id) != Some(&now) {
                let now = member.kept(now);
                let by = entry.id;
                records.push(Record::SideEffect { id, by, now });
            }
        }
        let shown = journal.entry(entry.id).unwrap_or(entry);
        let now = Some(shown.kept(Content(now)));
        records.push(Record::ReadBack { id: entry.id, now });
        journal.append_or_apply(host, records);
    }
    written
}

/// The present values of these settings, by ID; missing ones are left out.
fn read_members(
    host: &dyn Host,
    journal: &Journal,
    members: &[u32],
) -> io::Result<BTreeMap<u32, Content>> {
    let mut found = BTreeMap::new();
    for id in members {
        let file = journal.entry(*id).and_then(JournalEntry::file);
        let now = file.map(|path| Content::read(host, &path)).transpose()?;
        found.extend(now.flatten().map(|now| (*id, now)));
    }
    Ok(found)
}

/// Finds the side effects of a write that was interrupted before the journal had them. If a related
/// setting differs from its value just before the write, the value is written once more, and the
/// old one after it: settings that change along belong to the write; others were changed by
/// somebody else.
fn find_unrecorded(host: &mut dyn Host, journal: &mut Journal, id: u32) -> io::Result<()> {
    let entry = journal.entry(id).filter(|entry| entry.is_pending);
    let Some(entry) = entry.cloned() else {
        return Ok(());
    };
    let (Some(path), Some(old), Some(new)) = (entry.file(), &entry.old, entry.last_written())
    else {
        return Ok(());
    };
    if Content::read(host, &path)?.is_none() {
        return Ok(());
    }
    let now = read_related(host, &path)?;
    let is_changed = |path: &PathBuf, now: &Content| {
        journal.related.get(path).is_some_and(|was| was != now) && journal.entry_at(path).is_none()
    };
    let changed: BTreeMap<PathBuf, Content> = now
        .into_iter()
        .filter(|(path, now)| is_changed(path, now))
        .collect();
    if changed.is_empty() {
        return Ok(());
    }
    let mut moving: BTreeSet<PathBuf> = BTreeSet::new();
    for content in [new, old] {
        let before = read_related(host, &path)?;
        // Even if the write is refused, the value that is read back counts.
        let _ = host.write(&path, &content.0);
        let after = read_related(host, &path)?;
        let differs = |path: &PathBuf, was: &Content| after.get(path).is_some_and(|now| now != was);
        moving.extend(
            before
                .into_iter()
                .filter(|(path, was)| differs(path, was))
                .map(|(path, _)| path),
        );
    }
    let mut records = Vec::new();
    let mut next_id = journal.next_id();
    for path in changed.into_keys().filter(|path| moving.contains(path)) {
        let (Some(key), Some(old)) = (sysctl_name(&path), journal.related.get(&path)) else {
            continue;
        };
        let Ok(now) = host.read(&path) else { continue };
        records.push(Record::Save {
            id: next_id,
            resource: Resource::Sysctl { key },
            old: Some(old.clone()),
        });
        records.push(Record::SideEffect {
            id: next_id,
            by: id,
            now: StoredContent::New(Content(now)),
        });
        next_id = next_id.saturating_add(1);
    }
    journal.append_or_apply(host, records);
    Ok(())
}
