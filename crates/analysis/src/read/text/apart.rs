//! Runs of the same name are repetitions only if the text above them says so.
//!
//! Two runs of a text are repetitions if the paths above them are the same, numbers of runs aside
//! (`path.rs`). Commands, and text that was not understood, may say that something else was
//! measured: where they alone distinguish two runs, they become part of the name, and so they do in
//! the runs below these.

use std::collections::BTreeMap;

use plan::secrets::hide_secrets;
use results::Setting;

use super::Run;
use super::lines::SourceLine;
use super::path::Place;
use crate::read::labels;
use crate::{Observation, Origin};

/// The setting whose levels are commands between the runs.
pub(crate) const COMMAND: &str = "command";

/// The setting whose levels are text that was not understood.
pub(crate) const TEXT: &str = "text";

/// What was above a run, as far as it is not part of its name.
#[derive(Debug)]
pub(super) struct Ground {
    line: usize,
    place: Place,
    /// The last command that may have changed what is measured.
    command: Option<SourceLine>,
    /// Text in effect that was not understood.
    text: Option<SourceLine>,
    /// The same, if it is below the report above.
    own_text: Option<SourceLine>,
}

impl Ground {
    pub(super) fn of(run: &Run) -> Self {
        let situation = &run.situation;
        Self {
            line: run.line,
            place: situation.place.clone(),
            command: situation.acts.clone(),
            text: situation.text.clone(),
            own_text: situation.own_text.clone(),
        }
    }

    /// The numbers of the run, and the lines that have them.
    fn numbers(&self) -> (Vec<u32>, Vec<usize>) {
        let runs = self.place.runs.iter();
        runs.map(|(run, line)| (*run, line.number)).unzip()
    }

    fn command_text(&self) -> Option<&str> {
        self.command.as_ref().map(|line| line.text.as_str())
    }
}

/// Runs that are repetitions of each other.
struct Repetitions<'g> {
    /// Their indexes among all runs.
    runs: Vec<usize>,
    /// The numbers of the runs, and the lines that have them.
    numbers: BTreeMap<Vec<u32>, Vec<usize>>,
    /// What was above the first of them.
    ground: &'g Ground,
}

/// Limit on the parts that are searched for a run: each line of text may begin another one.
const PARTS_SEARCHED: usize = 200;

/// Gives runs of the same name that are no repetitions of each other names of their own.
pub(super) fn keep_apart(observations: &mut [Observation], grounds: &BTreeMap<String, Ground>) {
    let cells = labels::by_cell(observations);
    let cells = cells
        .into_iter()
        .map(|cell| parts(cell, observations, grounds));
    let cells: Vec<Vec<Repetitions<'_>>> = cells.collect();
    name_commands(observations, &cells);
    let mut first_text = usize::MAX;
    let mut unnamed = Vec::new();
    for cell in &cells {
        let mut alike: BTreeMap<Option<&str>, Vec<&Repetitions<'_>>> = BTreeMap::new();
        for part in cell {
            let command = part.ground.command_text();
            alike.entry(command).or_default().push(part);
        }
        for parts in alike.into_values() {
            match parts.as_slice() {
                [part] => unnamed.push(*part),
                parts => first_text = first_text.min(name_texts(observations, parts)),
            }
        }
    }
    let below = unnamed
        .into_iter()
        .filter(|part| part.ground.line > first_text);
    for part in below {
        if let Some(text) = &part.ground.own_text {
            let level = hide_secrets(&text.text);
            name(observations, part, TEXT, &level, &text.to_string());
        }
    }
}

/// The runs of one name, those together that repeat each other.
fn parts<'g>(
    cell: Vec<usize>,
    observations: &[Observation],
    grounds: &'g BTreeMap<String, Ground>,
) -> Vec<Repetitions<'g>> {
    let mut parts: Vec<Repetitions<'_>> = Vec::new();
    for index in cell {
        let Some(ground) = grounds.get(&observations[index].source) else {
            continue;
        };
        let (numbers, lines) = ground.numbers();
        let is_joined = |part: &&mut Repetitions<'_>| {
            // A number that comes again begins something new.
            let known = part.numbers.get(&numbers);
            known.is_none_or(|known| *known == lines) && part.ground.place.mark == ground.place.mark
        };
        match parts.iter_mut().rev().take(PARTS_SEARCHED).find(is_joined) {
            Some(part) => {
                part.runs.push(index);
                part.numbers.insert(numbers, lines);
            }
            None => parts.push(Repetitions {
                runs: vec![index],
                numbers: [(numbers, lines)].into(),
                ground,
            }),
        }
    }
    parts
}

/// Names runs after the commands above them, from the first command on that alone distinguishes two
/// runs.
fn name_commands(observations: &mut [Observation], cells: &[Vec<Repetitions<'_>>]) {
    let differ = |cell: &&Vec<Repetitions<'_>>| {
        let mut pairs = cell.windows(2);
        pairs.any(|pair| pair[0].ground.command_text() != pair[1].ground.command_text())
    };
    let distinguished = cells.iter().filter(differ).flatten();
    let commands = distinguished.filter_map(|part| part.ground.command.as_ref());
    let Some(first) = commands.map(|command| command.number).min() else {
        return;
    };
    for part in cells.iter().flatten() {
        let command = part.ground.command.as_ref();
        if let Some(command) = command.filter(|command| command.number >= first) {
            let level = hide_secrets(&command.text);
            name(observations, part, COMMAND, &level, &command.to_string());
        }
    }
}

/// Names runs that nothing else distinguishes after the text above them, or after their lines.
/// Returns the line of the first run that is named after text, or the largest number.
fn name_texts(observations: &mut [Observation], parts: &[&Repetitions<'_>]) -> usize {
    let texts = parts.iter().map(|part| {
        let text = part.ground.text.as_ref();
        let level = text.map(|line| hide_secrets(&line.text));
        (level.unwrap_or_default(), text.map(SourceLine::to_string))
    });
    let texts: Vec<(String, Option<String>)> = texts.collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (level, _) in &texts {
        *counts.entry(level).or_default() += 1;
    }
    let mut first = usize::MAX;
    for (part, (level, from)) in parts.iter().zip(&texts) {
        let line = part.ground.line;
        let is_only = counts.get(level.as_str()) == Some(&1);
        let level = match (level.as_str(), is_only) {
            // No text is a name as well, next to others with text.
            ("", true) => continue,
            ("", false) => format!("line {line}"),
            (text, true) => text.to_owned(),
            (text, false) => format!("{text} (line {line})"),
        };
        if from.is_some() {
            first = first.min(line);
        }
        let from = from.as_deref().unwrap_or("its place in the text");
        name(observations, part, TEXT, &level, from);
    }
    first
}

/// Adds a setting to the names of runs.
fn name(
    observations: &mut [Observation],
    part: &Repetitions<'_>,
    factor: &str,
    level: &str,
    from: &str,
) {
    for run in &part.runs {
        let run = &mut observations[*run];
        run.origins
            .retain(|it| it.part != Origin::IGNORED || it.from != from);
        run.origins.push(Origin::new(factor, level, from));
        run.settings.push(Setting {
            factor: factor.to_owned(),
            level: level.to_owned(),
        });
    }
}
