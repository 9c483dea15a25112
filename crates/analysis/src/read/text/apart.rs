//! Runs of the same name are repetitions only if the text above them says so.
//!
//! Two runs of a text are repetitions if everything above them that names them is the same, or if
//! they are numbered rounds of that. Text that was not understood may say that something else was
//! measured, so it becomes part of the name.

use std::collections::BTreeMap;

use plan::secrets::hide_secrets;
use results::Setting;

use super::Run;
use super::lines::SourceLine;
use crate::read::labels;
use crate::{Observation, Origin};

/// The setting whose levels are text that was not understood.
const TEXT: &str = "text";

/// What was above a run, as far as it is not part of its name.
#[derive(Debug)]
pub(super) struct Ground {
    line: usize,
    /// Text in effect that was not understood.
    text_mark: u64,
    text: Option<SourceLine>,
    /// How often commands have changed what is measured.
    acted: usize,
    /// The block that last said something new.
    block_mark: u64,
    /// The round, with the line that names it.
    round: Option<(u32, usize)>,
}

impl Ground {
    pub(super) fn of(run: &Run) -> Self {
        let situation = &run.situation;
        let round = situation.round.as_ref();
        Self {
            line: run.line,
            text_mark: situation.text_mark,
            text: situation.text.clone(),
            acted: situation.acted,
            block_mark: situation.block_mark,
            round: round.map(|(round, line)| (*round, line.number)),
        }
    }

    /// Whether both runs are of the same thing, rounds aside.
    fn agrees_with(&self, other: &Self) -> bool {
        let is_same = (self.text_mark, self.acted) == (other.text_mark, other.acted);
        is_same
            && match (self.round, other.round) {
                (None, None) => self.block_mark == other.block_mark,
                (Some(_), Some(_)) => true,
                _ => false,
            }
    }
}

/// Runs that are repetitions of each other.
struct Repetitions {
    /// Their indexes among all runs.
    runs: Vec<usize>,
    /// The lines that name their rounds.
    rounds: BTreeMap<u32, usize>,
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
            let is_joined = |part: &&mut Repetitions| {
                let first = part
                    .runs
                    .first()
                    .and_then(|index| grounds.get(&observations[*index].source));
                let round = ground.round;
                let is_new_round = round.is_none_or(|(round, line)| {
                    part.rounds.get(&round).is_none_or(|known| *known == line)
                });
                is_new_round && first.is_some_and(|first| first.agrees_with(ground))
            };
            // Only the last parts are searched: each line of text may begin another one.
            match parts.iter_mut().rev().take(PARTS_SEARCHED).find(is_joined) {
                Some(part) => {
                    part.runs.push(index);
                    part.rounds.extend(ground.round);
                }
                None => parts.push(Repetitions {
                    runs: vec![index],
                    rounds: ground.round.into_iter().collect(),
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
