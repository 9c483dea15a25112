//! Names of runs in formats that have one name for a run.

use analysis::{Observation, distinct};
use presentation::words::cut;

use crate::sweep::cell_words;

const NAME_CHARS_MAX: usize = 200;

/// `buffers 262144, focused, php, run 3`, on one line.
#[must_use]
pub fn of_run(run: &Observation) -> String {
    match of_cell(run) {
        cell if cell.is_empty() => short(&format!("{}, run {}", run.source, run.run)),
        cell => format!("{cell}, run {}", run.run),
    }
}

/// `buffers 262144, focused, php`; empty if nothing is known.
pub(super) fn of_cell(run: &Observation) -> String {
    let words = cell_words(&run.settings, run.profile.as_ref(), run.target.as_ref());
    short(&words.join(", "))
}

/// On one line, and cut.
pub(super) fn short(text: &str) -> String {
    plan::printable(&cut(text, NAME_CHARS_MAX)).into_owned()
}

/// Names of the factors, in the order of the runs.
pub(super) fn factors(runs: &[Observation]) -> Vec<&str> {
    let settings = runs.iter().flat_map(|run| &run.settings);
    distinct(settings.map(|setting| setting.factor.as_str()))
}
