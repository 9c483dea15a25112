//! Why runs of texts count as repetitions of each other.

use std::collections::BTreeMap;

use super::labels;
use crate::{Form, Observation, Origin};

/// What shows that a run repeats the first run of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Evidence {
    Rounds,
    Rows,
    Files,
    Sameness,
}

impl Evidence {
    fn of(run: &Observation, first: &Observation) -> Self {
        let file = |run: &Observation| match run.source.rsplit_once(':') {
            Some((file, line)) if line.bytes().all(|b| b.is_ascii_digit()) => file.to_owned(),
            _ => run.source.clone(),
        };
        match (run.round, run.form) {
            (Some(round), _) if first.round.is_some_and(|first| first != round) => Self::Rounds,
            _ if file(run) != file(first) => Self::Files,
            (_, Form::Table) => Self::Rows,
            _ => Self::Sameness,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Rounds => "numbered rounds",
            Self::Rows => "rows of the same name",
            Self::Files => "numbered files",
            Self::Sameness => "the same command and label",
        }
    }
}

/// Notes in each run which other run it is averaged with, and says in one line how many there are.
pub(super) fn note(observations: &mut [Observation]) -> Option<String> {
    let mut counts: BTreeMap<Evidence, usize> = BTreeMap::new();
    let mut averages = 0;
    for cell in labels::by_cell(observations) {
        let is_of_text = |index: &usize| {
            let run = &observations[*index];
            run.form != Form::Saved && run.failure.is_none() && run.cell.is_none()
        };
        let cell: Vec<usize> = cell.into_iter().filter(is_of_text).collect();
        let [first, others @ ..] = cell.as_slice() else {
            continue;
        };
        let mut weakest = None;
        for index in others {
            let evidence = Evidence::of(&observations[*index], &observations[*first]);
            weakest = weakest.max(Some(evidence));
            let with = format!("with {}", observations[*first].source);
            let origin = Origin::new(Origin::AVERAGED, with, evidence.words());
            observations[*index].origins.push(origin);
        }
        if let Some(weakest) = weakest {
            averages += 1;
            *counts.entry(weakest).or_default() += cell.len();
        }
    }
    let runs: usize = counts.values().sum();
    let words = counts.iter();
    let words = words.map(|(evidence, count)| format!("{count} by {}", evidence.words()));
    let why = words.collect::<Vec<_>>().join(", ");
    let rows = if averages == 1 { "row" } else { "rows" };
    (averages > 0).then(|| {
        format!(
            "{runs} runs are grouped into {averages} {rows}: {why} (table --explain names each)"
        )
    })
}
