//! Runs grouped by some parts of their names only, as their user wants.

use std::collections::BTreeSet;

use super::{by_cell, keep_apart, renumber_duplicates};
use crate::notes::TEXT;
use crate::{Form, Observation, Origin, Reading};

/// The part of a name that is not a setting.
const TARGET: &str = "target";

/// What says of a run that other text is above it than above others.
pub(crate) const TEXT_ABOVE: &str = "text above";

/// A part that no run's name has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{part:?} is no part of these runs' names (they have: {})", .known.join(", "))]
pub struct UnknownPart {
    part: String,
    known: Vec<String>,
}

impl Reading {
    /// Averages runs whose names agree in these parts: `target`, or the names of settings. Runs
    /// with different loads stay apart, so the profile is always a part.
    ///
    /// # Errors
    /// If no run has one of the parts.
    pub fn group_by(&mut self, parts: &[String]) -> Result<(), UnknownPart> {
        let settings = self.observations.iter().flat_map(|run| &run.settings);
        let factors = settings.map(|setting| setting.factor.as_str());
        // The profile is always a part.
        let known: BTreeSet<&str> = factors.chain([TARGET]).collect();
        if let Some(part) = parts.iter().find(|part| !known.contains(part.as_str())) {
            return Err(UnknownPart {
                part: part.clone(),
                known: known.into_iter().map(str::to_owned).collect(),
            });
        }
        let is_wanted = |name: &str| parts.iter().any(|part| part == name);
        for run in &mut self.observations {
            run.settings.retain(|setting| is_wanted(&setting.factor));
            run.run = 0;
            run.target.take_if(|_| !is_wanted(TARGET));
            run.noted_load.retain(|part| part.label != TEXT_ABOVE);
            run.origins.retain(|origin| origin.part != Origin::AVERAGED);
        }
        renumber_duplicates(&mut self.observations);
        self.notes.extend(keep_apart(&mut self.observations));
        let rows = by_cell(&self.observations).len();
        let runs = self.observations.len();
        self.repetitions = Some(format!(
            "{}: by {} and their loads",
            grouped(runs, rows),
            parts.join(", ")
        ));
        self.apart = None;
        Ok(())
    }
}

fn grouped(runs: usize, rows: usize) -> String {
    let word = if rows == 1 { "row" } else { "rows" };
    format!("{runs} runs are grouped into {rows} {word}")
}

/// Notes in each run of a text which other run it is averaged with, and says in one line how many
/// there are; `None` if there are none.
pub(crate) fn repetitions(observations: &mut [Observation]) -> Option<String> {
    let (mut runs, mut rows) = (0, 0);
    for mut cell in by_cell(observations) {
        cell.retain(|run| {
            let run = &observations[*run];
            run.form != Form::Saved && run.failure.is_none() && run.cell.is_none()
        });
        let [first, others @ ..] = cell.as_slice() else {
            continue;
        };
        for index in others {
            let with = format!("with {}", observations[*first].source);
            let origin = Origin::new(Origin::AVERAGED, with, "the same name and load");
            observations[*index].origins.push(origin);
        }
        if !others.is_empty() {
            (runs, rows) = (runs + cell.len(), rows + 1);
        }
    }
    let said = || format!("{} (table --explain names each)", grouped(runs, rows));
    (rows > 0).then(said)
}

/// How many runs only the text above them keeps apart, in one line; `None` if there are none.
pub(crate) fn apart(observations: &[Observation]) -> Option<String> {
    let named_by_text = observations
        .iter()
        .filter(|run| run.level_of(TEXT).is_some());
    let runs = named_by_text.count();
    let verb = if runs == 1 { "run is" } else { "runs are" };
    (runs > 0).then(|| {
        format!(
            "{runs} {verb} named by the text above (table --group-by target averages runs with the \
             same target and load)"
        )
    })
}
