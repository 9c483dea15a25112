//! The runs of a page in groups, and the groups in facets.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::time::Duration;

use analysis::compare::{self, Comparison, Factor, Level, Metric};
use analysis::{FILE_FACTOR, Observation, distinct, grouped};
use presentation::tables::{self, words_column};
use presentation::{Block, TableBlock, words};
use results::{Recording, RunResult};

use super::{PageSubject, names};

/// The name of the factor when targets are compared as levels.
pub(crate) const TARGET: &str = "target";

/// The runs of a page.
pub(crate) struct Runs<'a> {
    pub(crate) subject: PageSubject<'a>,
    /// All runs, including those that failed.
    pub(crate) all: &'a [Observation],
    /// In the order of the experiment file; without one, by level.
    pub(crate) groups: Vec<Group<'a>>,
    pub(crate) facets: Vec<Facet>,
    /// What differs between the runs.
    pub(crate) factors: Vec<Factor>,
    /// The metrics that were compared, or that can be.
    pub(crate) metrics: Vec<Metric>,
    /// A name for each of `all`.
    names: Vec<String>,
}

/// Runs of the same levels, profile and target: repetitions of one measurement.
pub(crate) struct Group<'a> {
    /// The name without the part that all groups of the facet share; empty if there is only one
    /// group.
    pub(crate) name: String,
    /// The name with that of its facet.
    pub(crate) full_name: String,
    /// The colour in all charts, which is the same for the same levels in all facets.
    pub(crate) color: usize,
    /// Whether the group is repeated so that drift shows.
    pub(crate) is_baseline: bool,
    /// The runs that did not fail, in the order in which they were made where it is known.
    pub(crate) runs: Vec<Run<'a>>,
    recording: OnceCell<Option<Recording>>,
}

pub(crate) struct Run<'a> {
    /// The name, which is unique on the page.
    pub(crate) name: String,
    pub(crate) run: &'a Observation,
}

/// Groups that share a chart: those of the same profile and target where a page has several.
pub(crate) struct Facet {
    /// Empty if there is only one.
    pub(crate) name: String,
    /// Indexes of its groups.
    groups: Vec<usize>,
}

impl<'a> Runs<'a> {
    pub(crate) fn of(subject: &PageSubject<'a>) -> Self {
        let all = subject.observations;
        let factors = compare::factors_of(all);
        let run_names = names::of_runs(&all.iter().collect::<Vec<_>>());
        let members = members(all, &factors);
        let firsts: Vec<&Observation> = members.iter().map(|member| &all[member[0]]).collect();
        let facet_names = facet_names(&firsts, &factors);
        let names = group_names(&firsts, &members, &factors, &facet_names);
        let mut runs = Self {
            subject: *subject,
            all,
            groups: Vec::new(),
            facets: Vec::new(),
            factors,
            metrics: metrics(subject),
            names: run_names,
        };
        for ((member, (color, name)), facet) in members.iter().zip(names).zip(facet_names) {
            let index = runs.groups.len();
            let full_name = match facet.as_str() {
                "" => name.clone(),
                facet => format!("{name}: {facet}"),
            };
            match runs.facets.iter_mut().find(|other| other.name == facet) {
                Some(other) => other.groups.push(index),
                None => runs.facets.push(Facet {
                    name: facet,
                    groups: vec![index],
                }),
            }
            let mut of_group: Vec<Run<'a>> = member
                .iter()
                .map(|at| Run {
                    name: runs.names[*at].clone(),
                    run: &all[*at],
                })
                // The page of a single run shows what there is, even if it does not count.
                .filter(|run| run.run.failure.is_none() || all.len() == 1)
                .collect();
            of_group.sort_by_key(|run| (run.run.position, run.run.run));
            let is_baseline = |at: &usize| {
                let trial = all[*at].trial.as_ref();
                trial.is_some_and(|trial| trial.is_baseline)
            };
            runs.groups.push(Group {
                name,
                full_name,
                color,
                is_baseline: member.iter().any(is_baseline),
                runs: of_group,
                recording: OnceCell::new(),
            });
        }
        runs
    }

    /// The run of a page that shows only one.
    pub(crate) fn single(&self) -> Option<&'a Observation> {
        match self.all {
            [run] => Some(run),
            _ => None,
        }
    }

    pub(crate) fn single_result(&self) -> Option<&'a RunResult> {
        self.single()?.result.as_deref()
    }

    /// The runs that did not fail, group by group.
    pub(crate) fn counted(&self) -> impl Iterator<Item = &Run<'a>> {
        self.groups.iter().flat_map(|group| &group.runs)
    }

    pub(crate) fn results(&self) -> impl Iterator<Item = (&Run<'a>, &'a RunResult)> {
        self.counted()
            .filter_map(|run| Some((run, run.run.result.as_deref()?)))
    }

    /// Groups with at least one saved result, each with the recordings of its runs merged.
    pub(crate) fn recordings(&self) -> impl Iterator<Item = (&Group<'a>, &Recording)> {
        let groups = self.groups.iter();
        groups.filter_map(|group| Some((group, group.recording()?)))
    }

    pub(crate) fn groups_of(&self, facet: &Facet) -> impl Iterator<Item = &Group<'a>> {
        facet.groups.iter().filter_map(|at| self.groups.get(*at))
    }

    /// Whether the experiment was looked at after every round, and ended when enough was known.
    pub(crate) fn is_sequential(&self) -> bool {
        let mut experiments = self.subject.experiments.iter();
        experiments.any(|experiment| experiment.stopping.is_some())
    }

    /// The colours of levels that are targets, each of which has one in all charts; `None` for
    /// other levels.
    pub(crate) fn colors_of_targets(&self, comparison: &Comparison) -> Option<Vec<usize>> {
        if comparison.factor.as_deref() != Some(TARGET) {
            return None;
        }
        let color = |level: &Level| {
            let is_of_level = |run: &Run<'_>| run.run.target.as_ref() == Some(&level.name);
            let groups = self.groups.iter();
            let of_level = groups.filter(|group| group.runs.iter().any(is_of_level));
            match distinct(of_level.map(|group| group.color)).as_slice() {
                [color] => Some(*color),
                _ => None,
            }
        };
        comparison.levels.iter().map(color).collect()
    }

    /// A colour that no group has.
    pub(crate) fn spare_color(&self) -> usize {
        let colors = self.groups.iter().map(|group| group.color + 1);
        colors.max().unwrap_or_default()
    }

    /// The number of all runs.
    pub(crate) fn total(&self) -> u64 {
        self.all.len() as u64
    }

    pub(crate) fn failed(&self) -> impl Iterator<Item = &'a Observation> {
        self.all.iter().filter(|run| run.failure.is_some())
    }

    /// The tables of all groups as one, with a column that names the group, except on the page of a
    /// single run; `None` without rows. The second argument of `table` is how long all runs of the
    /// group were measured.
    pub(crate) fn of_groups(
        &self,
        table: impl Fn(&Recording, Duration) -> TableBlock,
    ) -> Option<Block> {
        let tables = self.recordings().map(|(group, recording)| {
            let name = match group.full_name.as_str() {
                "" => "all runs",
                name => name,
            };
            (name, table(recording, group.duration()))
        });
        self.joined("Group", tables)
    }

    /// The same of runs.
    pub(crate) fn of_runs(&self, table: impl Fn(&RunResult) -> TableBlock) -> Option<Block> {
        let tables = self.results();
        let tables = tables.map(|(run, result)| (run.name.as_str(), table(result)));
        self.joined("Run", tables)
    }

    fn joined<'b>(
        &self,
        head: &str,
        tables: impl Iterator<Item = (&'b str, TableBlock)>,
    ) -> Option<Block> {
        let mut all: Option<TableBlock> = None;
        for (name, mut table) in tables {
            if self.single().is_none() {
                table.columns.insert(0, words_column(head));
                let rows = table.rows.iter_mut();
                rows.for_each(|row| row.insert(0, tables::text(name)));
            }
            match &mut all {
                Some(all) => all.rows.append(&mut table.rows),
                None => all = Some(table),
            }
        }
        all.filter(|table| !table.rows.is_empty()).map(Block::Table)
    }

    /// The id of a chart of a facet.
    pub(crate) fn facet_id(&self, id: &str, number: usize) -> String {
        match self.facets.len() {
            1 => id.to_owned(),
            _ => format!("{id}-{number}"),
        }
    }

    /// The name of a run in legends and tables.
    pub(crate) fn name(&self, run: &Observation) -> String {
        let index = self.all.iter().position(|other| std::ptr::eq(other, run));
        index.map_or_else(String::new, |at| self.names[at].clone())
    }

    /// The name of a run in sentences: `round 3, 7th of 35 runs`, or the name of its file.
    pub(crate) fn place(&self, run: &Observation) -> String {
        let Some(trial) = &run.trial else {
            return self.name(run);
        };
        let round = format!("round {}", trial.round);
        match run.position {
            Some(position) if u64::from(position) <= self.total() => format!(
                "{round}, {} of {}",
                ordinal(position),
                words::counted(self.total(), "run")
            ),
            _ => round,
        }
    }

    /// The label of a point that is a run: `4096: round 3, 7th of 35 runs, 6,587, r03-c002.json`.
    pub(crate) fn point_label(&self, group: &str, run: &Observation, value: &str) -> String {
        let group = match (group, &run.trial) {
            ("", _) | (_, None) => String::new(),
            (group, Some(_)) => format!("{group}: "),
        };
        let (place, file) = (self.place(run), file_of(&run.source));
        format!("{group}{place}, {value}, {file}")
    }
}

impl<'a> Group<'a> {
    /// The saved results of its runs.
    pub(crate) fn results(&self) -> impl Iterator<Item = &'a RunResult> {
        self.runs.iter().filter_map(|run| run.run.result.as_deref())
    }

    /// How long its runs were measured, added up.
    pub(crate) fn duration(&self) -> Duration {
        let durations_ns = self.results().map(|result| result.window.duration_ns);
        Duration::from_nanos(durations_ns.fold(0, u64::saturating_add))
    }

    /// The recordings of its runs merged; `None` if no run has one.
    pub(crate) fn recording(&self) -> Option<&Recording> {
        self.recording.get_or_init(|| self.merged()).as_ref()
    }

    fn merged(&self) -> Option<Recording> {
        let mut recordings = self.results().map(|result| &result.recording);
        let mut merged = recordings.next()?.clone();
        recordings.for_each(|recording| merged.merge(recording));
        Some(merged)
    }
}

/// The title of a chart of a facet.
pub(crate) fn facet_title(what: &str, facet: &Facet) -> String {
    match facet.name.as_str() {
        "" => what.to_owned(),
        name => format!("{what}: {name}"),
    }
}

/// Indexes of the runs of each group.
fn members(all: &[Observation], factors: &[Factor]) -> Vec<Vec<usize>> {
    let all_runs = all.iter().enumerate();
    let all_runs = all_runs.map(|(at, run)| ((&run.settings, &run.profile, &run.target), at));
    let mut members: Vec<Vec<usize>> = grouped(all_runs).into_iter().map(|(_, it)| it).collect();
    members.sort_by_key(|member| {
        let first = member[0];
        let number = all[first].cell.unwrap_or(u32::MAX);
        let level = |factor: &Factor| factor.of_runs[first].unwrap_or(usize::MAX);
        (number, factors.iter().map(level).collect::<Vec<_>>())
    });
    members
}

/// Profile and target of each group where they differ; empty if a facet would have only one group,
/// since groups in charts of their own cannot be compared.
fn facet_names(firsts: &[&Observation], factors: &[Factor]) -> Vec<String> {
    let profiles_differ = firsts.iter().any(|run| run.profile != firsts[0].profile);
    let ends_with_target = format!(" and {TARGET}");
    let is_target = |factor: &Factor| factor.name == TARGET;
    let targets_differ = factors.iter().any(is_target)
        && !factors.iter().all(is_target)
        && !factors
            .iter()
            .any(|factor| factor.name.ends_with(&ends_with_target));
    let name = |run: &&Observation| {
        let profile = run.profile.as_deref().filter(|_| profiles_differ);
        let target = run.target.as_deref().filter(|_| targets_differ);
        let parts: Vec<&str> = profile.into_iter().chain(target).collect();
        parts.join(", ")
    };
    let names: Vec<String> = firsts.iter().map(name).collect();
    let mut sizes: BTreeMap<&str, u32> = BTreeMap::new();
    for name in &names {
        *sizes.entry(name).or_default() += 1;
    }
    if sizes.len() > 1 && sizes.values().all(|size| *size > 1) {
        names
    } else {
        vec![String::new(); firsts.len()]
    }
}

/// Colour and name of each group.
fn group_names(
    firsts: &[&Observation],
    members: &[Vec<usize>],
    factors: &[Factor],
    facets: &[String],
) -> Vec<(usize, String)> {
    if firsts.len() == 1 {
        return vec![(0, String::new())];
    }
    let levels: Vec<&Factor> = factors
        .iter()
        .filter(|factor| factor.name != TARGET)
        .collect();
    let are_of_files = levels.iter().all(|factor| is_of_files(&factor.name));
    let is_faceted = facets.iter().any(|facet| !facet.is_empty());
    if are_of_files && !is_faceted {
        return names::of_runs(firsts).into_iter().enumerate().collect();
    }
    let mut names = ColoredNames::default();
    let of_group = |(member, first): (&Vec<usize>, &&Observation)| {
        let mut name = level_name(&levels, member[0]);
        if name.is_empty() {
            name = first.target.clone().unwrap_or_default();
        }
        if !is_faceted {
            let [profile, target] = names::parts_apart(first, firsts);
            let target = target.filter(|target| *target != name);
            let parts = [Some(name.as_str()), profile, target];
            name = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
        }
        names.of(name)
    };
    members.iter().zip(firsts).map(of_group).collect()
}

/// `4096`, or `backlog 128, buffers small` with several factors.
fn level_name(levels: &[&Factor], run: usize) -> String {
    let level = |factor: &&Factor| {
        let level = factor
            .levels
            .get(factor.of_runs.get(run).copied().flatten()?)?;
        Some(match levels.len() {
            1 => level.clone(),
            _ => format!("{} {level}", factor.name),
        })
    };
    let known: Vec<String> = levels.iter().filter_map(level).collect();
    known.join(", ")
}

/// Whether a factor is the files that were given: `file`, or `file and target`.
pub(crate) fn is_of_files(factor: &str) -> bool {
    factor.split(" and ").any(|part| part == FILE_FACTOR)
}

fn metrics(subject: &PageSubject<'_>) -> Vec<Metric> {
    let known = subject.conclusions.iter();
    let compared = known.flat_map(|known| &known.comparisons);
    let metrics = distinct(compared.map(|comparison| comparison.metric.clone()));
    if metrics.is_empty() {
        compare::default_metrics(subject.observations)
    } else {
        metrics
    }
}

/// Names as they are shown; equal names have one colour.
#[derive(Default)]
struct ColoredNames {
    whole: Vec<String>,
    shown: Vec<String>,
}

impl ColoredNames {
    /// Index and text of a name: cut where it is long, but never equal to another one.
    fn of(&mut self, whole: String) -> (usize, String) {
        if let Some(at) = self.whole.iter().position(|other| *other == whole) {
            return (at, self.shown[at].clone());
        }
        let cut = words::cut(&whole, names::NAME_CHARS_MAX);
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

/// The name of the file that a run is in.
pub(crate) fn file_of(source: &str) -> &str {
    source.rsplit('/').next().unwrap_or(source)
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

/// Names for an axis: the words that all of several begin with are left out.
pub(crate) fn short_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    /// Names up to this length fit on an axis.
    const LONG: usize = 12;
    let names: Vec<&str> = names.into_iter().collect();
    let whole = || names.iter().map(|name| (*name).to_owned()).collect();
    if names.len() < 2 || names.iter().all(|name| name.chars().count() <= LONG) {
        return whole();
    }
    let split: Vec<Vec<&str>> = names.iter().map(|name| name.split(' ').collect()).collect();
    let shortest = split.iter().map(Vec::len).min().unwrap_or(1);
    let shared = (0..shortest.saturating_sub(1))
        .take_while(|at| split.iter().all(|words| words[*at] == split[0][*at]))
        .count();
    if shared == 0 {
        return whole();
    }
    split
        .iter()
        .map(|words| format!("\u{2026} {}", words[shared..].join(" ")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinals_have_the_right_endings() {
        let ordinals = [1, 2, 3, 4, 11, 12, 13, 21, 101, 111].map(ordinal);
        let expected = [
            "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "101st", "111th",
        ];
        assert_eq!(ordinals, expected);
    }

    #[test]
    fn long_names_are_cut_and_stay_different() {
        let mut names = ColoredNames::default();
        let long = |end: &str| format!("{}{end}", "x".repeat(names::NAME_CHARS_MAX));
        let (first, shown) = names.of(long("a"));
        assert_eq!(
            (first, shown.chars().count()),
            (0, names::NAME_CHARS_MAX + 1)
        );
        assert_eq!(names.of(long("b")), (1, format!("{shown} (2)")));
        assert_eq!(names.of(long("a")), (0, shown));
    }

    #[test]
    fn long_names_lose_the_words_they_share() {
        let names = |names: &[&str]| short_names(names.iter().copied());
        assert_eq!(
            names(&["4096 16384 262144", "4096 16384 1048576"]),
            ["\u{2026} 262144", "\u{2026} 1048576"]
        );
        assert_eq!(
            names(&["a b", "a c"]),
            ["a b", "a c"],
            "names that are short enough"
        );
        assert_eq!(names(&["a very long name"]), ["a very long name"]);
        assert_eq!(
            names(&["the same words", "the same words indeed"]),
            ["\u{2026} words", "\u{2026} words indeed"],
            "each keeps its last word"
        );
    }
}
