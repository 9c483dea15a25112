//! What a restore would do; nothing is touched.

use std::path::Path;

use plan::units;

use super::{Conflicts, REBOOTED, usable, why_gone};
use crate::content::Content;
use crate::host::{Host, is_absence};
use crate::journal::{Journal, JournalEntry, Resource, Undo};
use crate::safety::{LOCK_NAME, SafetyError, changed_machine, refuse_untrusted, take_lock};

/// A line for each resource that [`crate::restore`] would restore, in its order; `None` if there is
/// no journal.
///
/// # Errors
/// As those of [`crate::restore`].
pub fn preview(
    host: &mut dyn Host,
    folder: &Path,
    conflicts: Conflicts,
) -> Result<Option<Vec<String>>, SafetyError> {
    refuse_untrusted(host, folder)?;
    let note = host.read(&folder.join(LOCK_NAME));
    if note.is_ok_and(|note| !note.is_empty()) {
        // Checks whether a sweep is running. A killed one has left a note in the lock file as well.
        match take_lock(host, folder, "wrkbench restore --dry-run") {
            Ok(()) => host.unlock(),
            Err(SafetyError::Lock { error, .. }) if is_absence(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let read = Journal::peek(host, folder);
    let Some(journal) = usable(host, folder, read, conflicts)? else {
        return Ok(None);
    };
    let mut lines = Vec::new();
    let changed = changed_machine(host, &journal.begin);
    if !changed.is_empty() {
        lines.push(format!("the machine has changed since the sweep{changed}"));
    }
    lines.extend(journal.unfinished().filter_map(|entry| {
        let line = line(host, &journal, entry, conflicts)?;
        Some(format!("{}: {line}", entry.resource))
    }));
    Ok(Some(lines))
}

fn line(
    host: &dyn Host,
    journal: &Journal,
    entry: &JournalEntry,
    conflicts: Conflicts,
) -> Option<String> {
    if let (Resource::Command { .. } | Resource::AtEnd, Some(undo)) = (&entry.resource, &entry.undo)
    {
        return Some(command(undo));
    }
    match why_gone(host, journal, entry) {
        Some(REBOOTED) => return Some(format!("would be left alone: {REBOOTED}")),
        Some(why) => return Some(format!("would be {why}")),
        None => {}
    }
    let now = match entry.file().map(|path| Content::read(host, &path)) {
        Some(Ok(now)) => now,
        Some(Err(error)) => return Some(format!("cannot be read ({error})")),
        None => return Some("the journal does not record its old value".to_owned()),
    };
    if now == entry.old {
        return (!journal.is_only_side_effect(entry)).then(|| "unchanged".to_owned());
    }
    let shown = |content: Option<&Content>| {
        content.map_or_else(
            || "not there".to_owned(),
            |content| entry.resource.shown(content),
        )
    };
    let (is, was) = (shown(now.as_ref()), shown(entry.old.as_ref()));
    let is_ours = now
        .as_ref()
        .is_some_and(|now| entry.is_pending || entry.is_ours(now));
    let change = format!("is {is}, was {was} before the sweep");
    let end = match conflicts {
        _ if is_ours => return Some(format!("{change}: would be restored")),
        Conflicts::Overwrite => "would be restored (--force)",
        Conflicts::Keep => "would be left and forgotten (--keep)",
        Conflicts::Report => "would be left",
    };
    Some(format!("{change}, and someone else has changed it: {end}"))
}

fn command(undo: &Undo) -> String {
    let limit = units::time(undo.limit());
    let folder = undo
        .folder
        .as_deref()
        .map(|it| format!(" in {}", it.display()));
    format!(
        "would run `{}`{} (at most {limit})",
        undo.command.escape_debug(),
        folder.unwrap_or_default()
    )
}
