//! Runs of the same name are repetitions only if the paths above them are the same. Otherwise the
//! text above them becomes a part of their names.

use std::collections::{BTreeMap, BTreeSet};

use plan::secrets::hide_secrets;
use results::Setting;

use super::Run;
use super::lines::SourceLine;
use crate::repetitions::by_cell;
use crate::{Observation, Origin};

/// The setting whose levels are lines of text.
pub(crate) const TEXT: &str = "text";

/// Limit on the groups that are searched for a run: each line of text may begin another one.
const GROUPS_SEARCHED: usize = 200;

/// Runs that are repetitions of each other.
struct Group<'p> {
    /// Their indexes among all runs.
    runs: Vec<usize>,
    /// The numbers of the last run, and the lines that have them.
    numbers: (Vec<u32>, Vec<usize>),
    first: &'p Run,
}

/// Gives runs of the same name that are no repetitions of each other names of their own. `runs` has
/// the reports by the sources of their runs.
pub(super) fn keep_apart(observations: &mut [Observation], runs: &BTreeMap<String, &Run>) {
    // Below the first run that is named by text, text is a part of all names.
    let mut first = usize::MAX;
    let cells = by_cell(observations).into_iter();
    let mut cells: Vec<Vec<Group<'_>>> =
        cells.map(|cell| groups(cell, observations, runs)).collect();
    cells.sort_by_key(|groups| groups.len() < 2);
    for groups in cells {
        match groups.as_slice() {
            [alone] => {
                let text = alone.first.context.own_text();
                if let Some(text) = text.filter(|_| alone.first.line > first) {
                    name(observations, alone, &hide_secrets(&text.text), Some(text));
                }
            }
            groups => {
                let lines = groups.iter().map(|group| group.first.line);
                first = lines.fold(first, usize::min);
                name_apart(observations, groups);
            }
        }
    }
}

/// The runs of one name, those together that repeat each other.
fn groups<'p>(
    cell: Vec<usize>,
    observations: &[Observation],
    runs: &BTreeMap<String, &'p Run>,
) -> Vec<Group<'p>> {
    let mut groups: Vec<Group<'p>> = Vec::new();
    for index in cell {
        let Some(run) = runs.get(&observations[index].source) else {
            continue;
        };
        let numbered = run.context.runs().map(|(run, line)| (run, line.number));
        let numbers: (Vec<u32>, Vec<usize>) = numbered.unzip();
        let is_joined = |group: &&mut Group<'_>| {
            let (one, other) = (&group.first.context, &run.context);
            let is_same = (one.mark, one.passed) == (other.mark, other.passed);
            // A smaller number begins something new, and so does one that comes again.
            is_same && (numbers.0 > group.numbers.0 || numbers == group.numbers)
        };
        let mut last_first = groups.iter_mut().rev().take(GROUPS_SEARCHED);
        match last_first.find(is_joined) {
            Some(group) => {
                group.runs.push(index);
                group.numbers = numbers;
            }
            None => groups.push(Group {
                runs: vec![index],
                numbers,
                first: run,
            }),
        }
    }
    groups
}

/// Names groups after the last line above them that is not above all of them, and after their lines
/// where this does not distinguish them.
fn name_apart(observations: &mut [Observation], groups: &[Group<'_>]) {
    let texts = groups.iter().map(|group| group.first.context.texts());
    let texts: Vec<Vec<&SourceLine>> = texts.collect();
    let words = |lines: &Vec<&SourceLine>| lines.iter().map(|line| line.text.clone()).collect();
    let words = texts.iter().map(words);
    let shared = words.reduce(|one: BTreeSet<String>, other| &one & &other);
    let shared = shared.unwrap_or_default();
    let is_own = |line: &&&SourceLine| !shared.contains(&line.text);
    let telling = texts.iter().map(|lines| lines.iter().rfind(is_own));
    let telling: Vec<Option<&&SourceLine>> = telling.collect();
    let words = |line: &Option<&&SourceLine>| line.map(|line| line.text.clone());
    let mut counts: BTreeMap<Option<String>, usize> = BTreeMap::new();
    for line in &telling {
        *counts.entry(words(line)).or_default() += 1;
    }
    for (group, text) in groups.iter().zip(&telling) {
        let line = group.first.line;
        let words = words(text);
        let level = match (&words, counts[&words]) {
            // No text is a name as well, next to others with text.
            (None, 1) => continue,
            (None, _) => format!("line {line}"),
            (Some(words), 1) => hide_secrets(words),
            (Some(words), _) => format!("{} (line {line})", hide_secrets(words)),
        };
        name(observations, group, &level, text.copied());
    }
}

/// Adds the text above runs to their names.
fn name(
    observations: &mut [Observation],
    group: &Group<'_>,
    level: &str,
    text: Option<&SourceLine>,
) {
    let from = text.map_or_else(|| "its place in the text".to_owned(), SourceLine::to_string);
    for run in &group.runs {
        let run = &mut observations[*run];
        run.origins.push(Origin::new(TEXT, level, &from));
        let (factor, level) = (TEXT.to_owned(), level.to_owned());
        run.settings.push(Setting { factor, level });
    }
}
