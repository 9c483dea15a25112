//! Which runs repeat each other: those of the same name and load. A run that was given several
//! times counts once.

mod cells;
mod copies;
mod group_by;
mod loads;

pub(crate) use cells::{by_cell, renumber_duplicates};
pub(crate) use copies::drop_copies;
pub(crate) use group_by::{TEXT_ABOVE, apart, repetitions};
pub(crate) use loads::keep_apart;
pub use loads::unlike_loads;

/// Limit on notes of one kind.
const NOTES_MAX: usize = 20;

/// The notes, or the first ones and how many there are `more`, in words.
pub(crate) fn limited(mut notes: Vec<String>, more: &str) -> Vec<String> {
    let surplus = notes.len().saturating_sub(NOTES_MAX);
    if surplus > 0 {
        notes.truncate(NOTES_MAX);
        notes.push(format!("{surplus} {more}"));
    }
    notes
}
