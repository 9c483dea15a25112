//! Cells: runs of the same name.

use std::collections::BTreeSet;

use crate::{Observation, grouped};

/// Renumbers the runs of each cell in which two have the same number, or one has none: 0.
pub(crate) fn renumber_duplicates(observations: &mut [Observation]) {
    for runs in by_cell(observations) {
        let numbers: BTreeSet<u32> = runs.iter().map(|run| observations[*run].run).collect();
        if numbers.len() < runs.len() || numbers.contains(&0) {
            for (number, run) in (1..).zip(runs) {
                observations[run].run = number;
            }
        }
    }
}

/// The indexes of the runs of each cell, cells in order of appearance.
pub(crate) fn by_cell(observations: &[Observation]) -> Vec<Vec<usize>> {
    let cell = |run: &Observation| {
        (
            run.settings.clone(),
            run.profile.clone(),
            run.target.clone(),
        )
    };
    let runs = observations.iter().enumerate();
    let cells = grouped(runs.map(|(index, run)| (cell(run), index)));
    cells.into_iter().map(|(_, runs)| runs).collect()
}
