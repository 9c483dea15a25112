//! Runs of the same name are repetitions only if the paths above them are the same. Otherwise the
//! text above them becomes a part of their names.

use std::collections::{BTreeMap, BTreeSet};

use plan::secrets::hide_secrets;
use results::Setting;

use super::context::Situation;
use super::lines::SourceLine;
use crate::repetitions::by_cell;
use crate::{Observation, Origin};

/// The setting whose levels are lines of text.
pub(crate) const TEXT: &str = "text";

/// Limit on the groups that are searched for a run: each line of text may begin another one.
const GROUPS_SEARCHED: usize = 200;

/// Runs that are repetitions of each other.
struct Group<'s> {
    /// Their indexes among all runs.
    runs: Vec<usize>,
    /// The numbers of the runs, and the lines that have them.
    numbers: BTreeMap<Vec<u32>, Vec<usize>>,
    /// The line of the first report, and what is above it.
    first: (usize, &'s Situation),
}

/// Gives runs of the same name that are no repetitions of each other names of their own. `above`
/// has the lines of reports and what is above them, by the sources of their runs.
pub(super) fn keep_apart(
    observations: &mut [Observation],
    above: &BTreeMap<String, (usize, Situation)>,
) {
    let cells = by_cell(observations).into_iter();
    let cells: Vec<Vec<Group<'_>>> = cells
        .map(|cell| groups(cell, observations, above))
        .collect();
    let (alone, several): (Vec<_>, Vec<_>) = cells.into_iter().partition(|cell| cell.len() < 2);
    let mut first = usize::MAX;
    for groups in several {
        first = first.min(groups[0].first.0);
        name_apart(observations, &groups);
    }
    // Below, text is a part of all names.
    for group in alone.iter().flatten() {
        let (line, situation) = group.first;
        let own = situation.texts.last().filter(|_| situation.has_own_text);
        if let Some(text) = own.filter(|_| line > first) {
            name(observations, group, &hide_secrets(&text.text), Some(text));
        }
    }
}

/// The runs of one name, those together that repeat each other.
fn groups<'s>(
    cell: Vec<usize>,
    observations: &[Observation],
    above: &'s BTreeMap<String, (usize, Situation)>,
) -> Vec<Group<'s>> {
    let mut groups: Vec<Group<'s>> = Vec::new();
    for index in cell {
        let Some((line, situation)) = above.get(&observations[index].source) else {
            continue;
        };
        let runs = situation.place.runs.iter();
        let (numbers, lines): (Vec<u32>, Vec<usize>) =
            runs.map(|(run, line)| (*run, line.number)).unzip();
        let is_joined = |group: &&mut Group<'_>| {
            // A number that comes again begins something new.
            let known = group.numbers.get(&numbers);
            known.is_none_or(|known| *known == lines)
                && group.first.1.place.mark == situation.place.mark
        };
        match groups
            .iter_mut()
            .rev()
            .take(GROUPS_SEARCHED)
            .find(is_joined)
        {
            Some(group) => {
                group.runs.push(index);
                group.numbers.insert(numbers, lines);
            }
            None => groups.push(Group {
                runs: vec![index],
                numbers: [(numbers, lines)].into(),
                first: (*line, situation),
            }),
        }
    }
    groups
}

/// Names groups after the last line above them that is not above all of them, and after their lines
/// where this does not distinguish them.
fn name_apart(observations: &mut [Observation], groups: &[Group<'_>]) {
    let texts = |group: &Group<'_>| group.first.1.texts.clone();
    let mut groups_of: BTreeMap<String, usize> = BTreeMap::new();
    for group in groups {
        let words = BTreeSet::from_iter(texts(group).into_iter().map(|line| line.text));
        words
            .into_iter()
            .for_each(|it| *groups_of.entry(it).or_default() += 1);
    }
    let telling = |group: &Group<'_>| {
        let is_shared = |line: &SourceLine| groups_of[&line.text] == groups.len();
        texts(group).into_iter().rfind(|line| !is_shared(line))
    };
    let texts: Vec<Option<SourceLine>> = groups.iter().map(telling).collect();
    let mut counts: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for text in &texts {
        *counts
            .entry(text.as_ref().map(|it| it.text.as_str()))
            .or_default() += 1;
    }
    for (group, text) in groups.iter().zip(&texts) {
        let line = group.first.0;
        let words = text.as_ref().map(|it| it.text.as_str());
        let level = match (words, counts[&words]) {
            // No text is a name as well, next to others with text.
            (None, 1) => continue,
            (None, _) => format!("line {line}"),
            (Some(words), 1) => hide_secrets(words),
            (Some(words), _) => format!("{} (line {line})", hide_secrets(words)),
        };
        name(observations, group, &level, text.as_ref());
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
        run.settings.push(Setting {
            factor: TEXT.to_owned(),
            level: level.to_owned(),
        });
    }
}
