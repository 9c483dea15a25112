//! Cells: runs of the same name.

use std::collections::{BTreeMap, BTreeSet};

use results::Setting;

use crate::Observation;

/// Numbers the runs of each cell from 1, in their order.
pub(crate) fn number_runs(observations: &mut [Observation]) {
    for runs in by_cell(observations) {
        for (number, run) in (1..).zip(runs) {
            observations[run].run = number;
        }
    }
}

/// Renumbers the runs of each cell in which two have the same number.
pub(crate) fn renumber_duplicates(observations: &mut [Observation]) {
    for runs in by_cell(observations) {
        let numbers: BTreeSet<u32> = runs.iter().map(|run| observations[*run].run).collect();
        if numbers.len() < runs.len() {
            for (number, run) in (1..).zip(runs) {
                observations[run].run = number;
            }
        }
    }
}

/// The indexes of the runs of each cell, cells in order of appearance.
pub(crate) fn by_cell(observations: &[Observation]) -> Vec<Vec<usize>> {
    let mut cells: Vec<Vec<usize>> = Vec::new();
    let mut known = BTreeMap::new();
    for (index, observation) in observations.iter().enumerate() {
        let cell = *known.entry(cell_of(observation)).or_insert(cells.len());
        match cells.get_mut(cell) {
            Some(runs) => runs.push(index),
            None => cells.push(vec![index]),
        }
    }
    cells
}

type CellKey = (Vec<Setting>, Option<String>, Option<String>);

fn cell_of(observation: &Observation) -> CellKey {
    let Observation {
        settings,
        profile,
        target,
        ..
    } = observation;
    (settings.clone(), profile.clone(), target.clone())
}
