//! Runs of the same name are repetitions only if the text above them says so.
//!
//! Two runs of a text are repetitions if the paths above them are the same, numbers of runs aside
//! (`path.rs`). Text that was not understood may say that something else was measured, so it becomes
//! part of the name.

use std::collections::BTreeMap;

use plan::secrets::hide_secrets;
use results::Setting;

use super::Run;
use super::lines::SourceLine;
use super::path::Place;
use crate::read::labels;
use crate::{Observation, Origin};

/// The setting whose levels are text that was not understood.
const TEXT: &str = "text";

/// What was above a run, as far as it is not part of its name.
#[derive(Debug)]
pub(super) struct Ground {
    line: usize,
    place: Place,
    /// Text in effect that was not understood.
    text: Option<SourceLine>,
}

impl Ground {
    pub(super) fn of(run: &Run) -> Self {
        Self {
            line: run.line,
            place: run.situation.place.clone(),
            text: run.situation.text.clone(),
        }
    }

    /// The numbers of the run, and the lines that have them.
    fn numbers(&self) -> (Vec<u32>, Vec<usize>) {
        let runs = self.place.runs.iter();
        runs.map(|(run, line)| (*run, line.number)).unzip()
    }
}

/// Runs that are repetitions of each other.
struct Repetitions {
    /// Their indexes among all runs.
    runs: Vec<usize>,
    /// The numbers of the runs, and the lines that have them.
    numbers: BTreeMap<Vec<u32>, Vec<usize>>,
}

/// Gives runs of the same name that are no repetitions of each other names of their own.
pub(super) fn keep_apart(observations: &mut [Observation], grounds: &BTreeMap<String, Ground>) {
    for cell in labels::by_cell(observations) {
        let ground = |index: usize| grounds.get(&observations[index].source);
        let runs = cell
            .into_iter()
            .filter_map(|index| Some((index, ground(index)?)));
        let mut parts: Vec<Repetitions> = Vec::new();
        for (index, ground) in runs {
            let (numbers, lines) = ground.numbers();
            let is_joined = |part: &&mut Repetitions| {
                let first = part.runs.first();
                let first = first.and_then(|index| grounds.get(&observations[*index].source));
                // A number that comes again begins something new.
                let is_new = part
                    .numbers
                    .get(&numbers)
                    .is_none_or(|known| *known == lines);
                is_new && first.is_some_and(|first| first.place.mark == ground.place.mark)
            };
            // Only the last parts are searched: each line of text may begin another one.
            match parts.iter_mut().rev().take(PARTS_SEARCHED).find(is_joined) {
                Some(part) => {
                    part.runs.push(index);
                    part.numbers.insert(numbers, lines);
                }
                None => parts.push(Repetitions {
                    runs: vec![index],
                    numbers: [(numbers, lines)].into(),
                }),
            }
        }
        if parts.len() > 1 {
            name(observations, &parts, grounds);
        }
    }
}

/// Limit on the parts that are searched for a run.
const PARTS_SEARCHED: usize = 200;

/// Adds the text above each part to the names of its runs.
fn name(
    observations: &mut [Observation],
    parts: &[Repetitions],
    grounds: &BTreeMap<String, Ground>,
) {
    let first = |part: &Repetitions| grounds.get(&observations[*part.runs.first()?].source);
    let texts = parts.iter().map(|part| {
        let ground = first(part);
        let line = ground.map_or(0, |ground| ground.line);
        let text = ground.and_then(|ground| ground.text.as_ref());
        let level = text
            .map(|line| hide_secrets(&line.text))
            .unwrap_or_default();
        (line, level, text.map(SourceLine::to_string))
    });
    let texts: Vec<(usize, String, Option<String>)> = texts.collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, level, _) in &texts {
        *counts.entry(level).or_default() += 1;
    }
    for (part, (line, level, from)) in parts.iter().zip(&texts) {
        let is_only = counts.get(level.as_str()) == Some(&1);
        let level = match (level.as_str(), is_only) {
            // No text is a name as well, next to others with text.
            ("", true) => continue,
            ("", false) => format!("line {line}"),
            (text, true) => text.to_owned(),
            (text, false) => format!("{text} (line {line})"),
        };
        let from = from.as_deref().unwrap_or("its place in the text");
        for run in &part.runs {
            let run = &mut observations[*run];
            run.origins
                .retain(|it| it.part != Origin::IGNORED || it.from != from);
            run.origins.push(Origin::new(TEXT, &level, from));
            run.settings.push(Setting {
                factor: TEXT.to_owned(),
                level: level.clone(),
            });
        }
    }
}
