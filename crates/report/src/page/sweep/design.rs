//! What runs are runs of: cells, each a combination of levels, in groups that are looked at together.

use std::collections::BTreeMap;

use analysis::Observation;
use analysis::compare::{self, Factor};
use results::Setting;

use crate::page::words;

/// What a target is called where targets are compared like levels.
const TARGET: &str = "target";

/// Longer names fill a legend with nothing else.
const NAME_CHARS_MAX: usize = 60;

/// The runs of a sweep in order.
#[derive(Debug)]
pub(super) struct Design<'a> {
    /// All runs, those that failed among them.
    pub(super) runs: &'a [Observation],
    /// What differs between them.
    pub(super) factors: Vec<Factor>,
    /// In the order of the plan.
    pub(super) cells: Vec<Cell<'a>>,
    /// Cells under the same load on the same target.
    pub(super) groups: Vec<Group>,
}

/// The runs of one combination of levels, profile and target.
#[derive(Debug)]
pub(super) struct Cell<'a> {
    /// Its levels, without what its group says.
    pub(super) name: String,
    /// The same in all charts, and for the same levels in all groups.
    pub(super) color: usize,
    /// It is repeated so that drift shows.
    pub(super) is_baseline: bool,
    /// Its runs that did not fail, in the order in which they were made, as far as it is known.
    pub(super) runs: Vec<&'a Observation>,
}

/// Cells that can be held beside each other.
#[derive(Debug)]
pub(super) struct Group {
    /// The profile and the target, where there are several; otherwise empty.
    pub(super) name: String,
    /// Indexes of its cells.
    pub(super) cells: Vec<usize>,
}

type Key<'a> = (&'a [Setting], Option<&'a str>, Option<&'a str>);

impl<'a> Design<'a> {
    /// Of these runs.
    pub(super) fn of(runs: &'a [Observation]) -> Self {
        let factors = compare::factors_of(runs);
        let is_target = |factor: &&Factor| factor.name == TARGET;
        let ends_with_target = format!(" and {TARGET}");
        let levels: Vec<&Factor> = factors.iter().filter(|factor| !is_target(factor)).collect();
        let targets_differ = factors.iter().any(|factor| is_target(&factor));
        let differ =
            |of: fn(&Observation) -> Option<&str>| runs.iter().any(|run| of(run) != of(&runs[0]));
        let profiles_differ = differ(|run| run.profile.as_deref());
        let by_target = targets_differ
            && !levels.is_empty()
            && !factors
                .iter()
                .any(|factor| factor.name.ends_with(&ends_with_target));
        let mut members: Vec<(Key<'a>, Vec<usize>)> = Vec::new();
        let mut index: BTreeMap<Key<'a>, usize> = BTreeMap::new();
        for (at, run) in runs.iter().enumerate() {
            let key: Key<'a> = (
                run.settings.as_slice(),
                run.profile.as_deref(),
                run.target.as_deref(),
            );
            let cell = *index.entry(key).or_insert(members.len());
            match members.get_mut(cell) {
                Some((_, runs)) => runs.push(at),
                None => members.push((key, vec![at])),
            }
        }
        // By the plan; without one by the levels, as comparisons have them.
        members.sort_by_key(|(_, of_cell)| {
            let first = of_cell[0];
            let number = runs[first].cell.unwrap_or(u32::MAX);
            let levels: Vec<_> = factors
                .iter()
                .map(|factor| factor.of_runs[first].unwrap_or(usize::MAX))
                .collect();
            (number, levels)
        });
        let mut design = Self {
            runs,
            cells: Vec::new(),
            groups: Vec::new(),
            factors: Vec::new(),
        };
        let mut names = Names::default();
        for (key, of_cell) in members {
            let first = of_cell[0];
            let (color, name) = names.of(cell_name(&levels, first, key));
            let group: Vec<&str> = [
                key.1.filter(|_| profiles_differ),
                key.2.filter(|_| by_target),
            ]
            .into_iter()
            .flatten()
            .collect();
            let group = group.join(", ");
            let at = design.cells.len();
            match design.groups.iter_mut().find(|other| other.name == group) {
                Some(other) => other.cells.push(at),
                None => design.groups.push(Group {
                    name: group,
                    cells: vec![at],
                }),
            }
            let all: Vec<&Observation> = of_cell.iter().map(|run| &runs[*run]).collect();
            let mut good: Vec<&Observation> = all
                .iter()
                .copied()
                .filter(|run| run.failure.is_none())
                .collect();
            good.sort_by_key(|run| (run.position, run.run));
            design.cells.push(Cell {
                is_baseline: all
                    .iter()
                    .any(|run| run.trial.as_ref().is_some_and(|trial| trial.is_baseline)),
                name,
                color,
                runs: good,
            });
        }
        design.factors = factors;
        design
    }

    /// The cells of a group.
    pub(super) fn cells_of(&self, group: &Group) -> impl Iterator<Item = &Cell<'a>> {
        group.cells.iter().filter_map(|cell| self.cells.get(*cell))
    }

    /// What a chart of this group is called.
    pub(super) fn title(&self, what: &str, group: &Group) -> String {
        if group.name.is_empty() {
            what.to_owned()
        } else {
            format!("{what}: {}", group.name)
        }
    }

    /// How many runs there are.
    pub(super) fn total(&self) -> u64 {
        self.runs.len() as u64
    }
}

/// Names as they are shown, each of one combination of levels.
#[derive(Debug, Default)]
struct Names {
    whole: Vec<String>,
    shown: Vec<String>,
}

impl Names {
    /// The number of a name and how it is shown: cut where it is long, but never as another one.
    fn of(&mut self, whole: String) -> (usize, String) {
        if let Some(at) = self.whole.iter().position(|other| *other == whole) {
            return (at, self.shown.get(at).cloned().unwrap_or_default());
        }
        let cut = words::cut(&whole, NAME_CHARS_MAX);
        let mut shown = cut.clone();
        let mut number = 1;
        while self.shown.contains(&shown) {
            number += 1;
            shown = format!("{cut} ({number})");
        }
        self.whole.push(whole);
        self.shown.push(shown.clone());
        (self.shown.len() - 1, shown)
    }
}

fn cell_name(levels: &[&Factor], run: usize, key: Key<'_>) -> String {
    let level = |factor: &&Factor| {
        let level = factor.of_runs.get(run).copied().flatten()?;
        Some((factor.name.clone(), factor.levels.get(level)?.clone()))
    };
    let known: Vec<(String, String)> = levels.iter().filter_map(level).collect();
    match (known.as_slice(), levels.len()) {
        ([(_, level)], 1) => level.clone(),
        ([], _) => key.2.unwrap_or("all runs").to_owned(),
        (known, _) => {
            let named: Vec<String> = known
                .iter()
                .map(|(name, level)| format!("{name} {level}"))
                .collect();
            named.join(", ")
        }
    }
}

/// Which run it is: `round 3, 7th of 35 runs`.
pub(super) fn place_of(run: &Observation, total: u64) -> String {
    let number = match &run.trial {
        Some(trial) => format!("round {}", trial.round),
        None => format!("run {}", run.run),
    };
    match run.position {
        Some(position) => format!(
            "{number}, {} of {}",
            ordinal(position),
            words::counted(total, "run")
        ),
        None => number,
    }
}

/// The name of the file that a run is in.
pub(super) fn file_of(source: &str) -> &str {
    let name = source.rsplit('/').next();
    name.unwrap_or(source)
}

fn ordinal(number: u32) -> String {
    let end = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{end}")
}

/// Names for an axis: words that all of several begin with are left out.
pub(super) fn short_names(names: &[String]) -> Vec<String> {
    /// So long names stand on an axis as they are.
    const LONG: usize = 12;
    if names.len() < 2 || names.iter().all(|name| name.chars().count() <= LONG) {
        return names.to_vec();
    }
    let split: Vec<Vec<&str>> = names.iter().map(|name| name.split(' ').collect()).collect();
    let shortest = split.iter().map(Vec::len).min().unwrap_or(1);
    let shared = (0..shortest.saturating_sub(1))
        .take_while(|at| split.iter().all(|words| words[*at] == split[0][*at]))
        .count();
    match shared {
        0 => names.to_vec(),
        shared => split
            .iter()
            .map(|words| format!("\u{2026} {}", words[shared..].join(" ")))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_as_people_do() {
        let ordinals = [1, 2, 3, 4, 11, 12, 13, 21, 101, 111].map(ordinal);
        let expected = [
            "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "101st", "111th",
        ];
        assert_eq!(ordinals, expected);
    }

    #[test]
    fn long_names_are_cut_and_still_told_apart() {
        let mut names = Names::default();
        let long = |end: &str| format!("{}{end}", "x".repeat(NAME_CHARS_MAX));
        let (first, shown) = names.of(long("a"));
        assert_eq!((first, shown.chars().count()), (0, NAME_CHARS_MAX + 1));
        assert_eq!(names.of(long("b")), (1, format!("{shown} (2)")));
        assert_eq!(names.of(long("a")), (0, shown));
    }

    #[test]
    fn long_names_lose_what_they_share() {
        let names = |names: &[&str]| {
            short_names(
                &names
                    .iter()
                    .map(|name| (*name).to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(
            names(&["4096 16384 262144", "4096 16384 1048576"]),
            ["\u{2026} 262144", "\u{2026} 1048576"]
        );
        assert_eq!(names(&["a b", "a c"]), ["a b", "a c"], "short enough");
        assert_eq!(names(&["a very long name"]), ["a very long name"]);
        assert_eq!(
            names(&["the same words", "the same words indeed"]),
            ["\u{2026} words", "\u{2026} words indeed"],
            "something is left of each"
        );
    }
}
