//! Differences between runs other than their numbers: machine, settings, plan.

use std::collections::BTreeMap;

use analysis::compare::{ClampedLevels, Validity, settings_of_factors};
use analysis::{Observation, distinct, grouped};
use presentation::tables::{self, Facts, columns, finding, known, text, words_column};
use presentation::{Block, Section, TableCell, Tone, words};

use super::environment::{environment_facts, plan_facts};
use super::{bounded, finding_of};
use crate::page::runs::Runs;

/// Longer values are cut.
const VALUE_CHARS_MAX: usize = 120;

/// More runs are counted, not named.
const RUNS_NAMED_MAX: usize = 5;

/// With more groups, a row is a group and a column a difference.
const GROUP_COLUMNS_MAX: usize = 4;

/// Time since the boot, which always grows: if it decreased, the machine was rebooted.
const UPTIME: &str = "uptime_s";

/// Whether this is the time since the boot, of this machine or of another one (`db1:uptime_s`).
fn is_uptime(name: &str) -> bool {
    let host = name.strip_suffix(UPTIME);
    host.is_some_and(|host| host.is_empty() || host.ends_with(':'))
}

/// A value for each run, by index; runs that do not have it are left out.
type Fact = Vec<(usize, String)>;

enum Difference {
    /// All runs of a group have the same value.
    ByGroup,
    /// Numbers that change by themselves, as load and free memory do.
    Range(Vec<f64>),
    Other,
}

/// `None` if nothing is known about machines and plans.
pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let facts = facts(runs);
    if facts.is_empty() || runs.single().is_some() {
        return None;
    }
    let group_of_run = group_of_run(runs);
    let mut by_group: Vec<(&str, &Fact)> = Vec::new();
    let mut ranges: Vec<(&str, Vec<f64>)> = Vec::new();
    let mut others: Vec<(&str, &Fact)> = Vec::new();
    for (name, fact) in &facts {
        match difference(name, fact, &group_of_run) {
            None => {}
            Some(Difference::ByGroup) => by_group.push((name, fact)),
            Some(Difference::Range(_)) if is_uptime(name) => {}
            Some(Difference::Range(values)) => ranges.push((name, values)),
            Some(Difference::Other) => others.push((name, fact)),
        }
    }
    let mut blocks = Vec::new();
    blocks.extend(not_taken(runs));
    blocks.extend(the_same_in_effect(runs));
    blocks.extend(changed_within(runs));
    blocks.extend(restarted(runs));
    blocks.extend(others.iter().map(|(name, fact)| unwanted(name, fact, runs)));
    let is_clean = blocks.is_empty();
    let is_experiment = runs.all.iter().any(|run| run.trial.is_some());
    if !by_group.is_empty() {
        blocks.push(table_by_group(&by_group, &group_of_run, runs));
    }
    if !ranges.is_empty() {
        blocks.push(table_of_ranges(&ranges));
    }
    if blocks.is_empty() {
        let text = "Machine, kernel, settings and plan were the same in all runs.";
        blocks.push(finding(Tone::Good, text, vec![]));
    }
    let is_folded = is_clean && is_experiment;
    let lead = match (is_folded, by_group.is_empty()) {
        (true, _) => {
            "Runs of a group do not differ except in values that change by themselves, and the \
             kernel took every known setting as requested."
        }
        (_, false) => {
            "A difference between groups may be the cause of a difference in the numbers."
        }
        (_, true) => "",
    };
    let title = "Differences between the runs";
    Some(Section::new("differences", title, lead, blocks).folded(is_folded))
}

fn facts(runs: &Runs<'_>) -> Vec<(String, Fact)> {
    let mut facts: Vec<(String, (usize, String))> = Vec::new();
    for (at, run) in runs.all.iter().enumerate() {
        let mut add = |name: String, value: String| facts.push((name, (at, value)));
        let before = run.trial.as_ref().map(|trial| &trial.environment_before);
        if let Some(result) = run.result.as_ref().filter(|_| run.failure.is_none()) {
            let Facts(own) = environment_facts(&result.environment);
            for (name, value) in own.into_iter().filter(|(name, _)| name != "Started") {
                add(name, value);
            }
            add("Backend".to_owned(), result.backend.name.clone());
            for (name, value) in plan_facts(&result.plan) {
                add(format!("Plan: {name}"), value);
            }
            for (name, value) in &result.environment.sysctls {
                if before.is_none_or(|before| !before.contains_key(name)) {
                    add(name.clone(), value.clone());
                }
            }
        }
        for (name, value) in before.into_iter().flatten() {
            add(name.clone(), value.clone());
        }
        let trial = run.trial.iter();
        for (name, value) in trial.flat_map(|trial| &trial.effective) {
            if before.is_none_or(|before| before.get(name) != Some(value)) {
                add(format!("{name}, as the kernel took it"), value.clone());
            }
        }
    }
    grouped(facts)
}

/// The index of the group of each run.
fn group_of_run(runs: &Runs<'_>) -> Vec<usize> {
    let is_like = |run: &Observation| {
        let mut firsts = runs.all.iter();
        firsts
            .position(|first| first.is_same_cell(run))
            .unwrap_or(usize::MAX)
    };
    runs.all.iter().map(is_like).collect()
}

/// Names with a point are settings; load and memory are not.
fn is_setting(name: &str) -> bool {
    name.contains('.')
}

/// `None` if all runs have the same value.
fn difference(name: &str, fact: &Fact, group_of_run: &[usize]) -> Option<Difference> {
    let (_, first) = fact.first()?;
    if fact.iter().all(|(_, value)| value == first) {
        return None;
    }
    let mut of_group: BTreeMap<usize, &str> = BTreeMap::new();
    let is_by_group = fact.iter().all(|(run, value)| {
        let group = group_of_run.get(*run).copied().unwrap_or(usize::MAX);
        *of_group.entry(group).or_insert(value) == value
    });
    // State of the machine, as an experiment records it, has lower-case names.
    let is_state = name.starts_with(|c: char| c.is_ascii_lowercase()) && !is_setting(name);
    let has_repetitions = of_group.len() < fact.len();
    if is_by_group && (has_repetitions || !is_state) {
        return Some(Difference::ByGroup);
    }
    let number = |value: &String| value.parse().ok().filter(|number: &f64| number.is_finite());
    let numbers: Option<Vec<f64>> = fact.iter().map(|(_, value)| number(value)).collect();
    Some(numbers.map_or(Difference::Other, Difference::Range))
}

/// A fact with several values among the runs of a group.
fn unwanted(name: &str, fact: &Fact, runs: &Runs<'_>) -> Block {
    let values = fact.iter();
    let by_value = grouped(values.map(|(run, value)| (value.as_str(), &runs.all[*run])));
    let details = by_value.iter().map(|(value, with_value)| {
        let value = words::cut(value, VALUE_CHARS_MAX);
        let names: Vec<String> = with_value.iter().map(|run| runs.place(run)).collect();
        match names.len() {
            ..=RUNS_NAMED_MAX => format!("{value}: {}", names.join("; ")),
            count => format!("{value}: {}", words::counted(count as u64, "run")),
        }
    });
    let text = format!("{name} was not the same in all runs of a group.");
    finding(Tone::Warning, text, bounded(details.collect()))
}

/// The value with single blanks between numbers.
fn plain(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_of_numbers(value: &str) -> bool {
    let mut words = value.split_whitespace().peekable();
    words.peek().is_some() && words.all(|word| word.parse::<f64>().is_ok())
}

/// Settings that the kernel changed to another value.
fn not_taken(runs: &Runs<'_>) -> Option<Block> {
    let set = settings_of_factors(&runs.all.iter().collect::<Vec<_>>());
    let details = set.into_iter().flat_map(|(factor, key)| {
        let of_run = move |run: &Observation| {
            let level = run.level_of(factor)?;
            let value = run.trial.as_ref()?.effective.get(key)?;
            let is_changed =
                [level, value].into_iter().all(is_of_numbers) && plain(level) != plain(value);
            is_changed.then(|| format!("{key}: requested {level}, is {}", plain(value)))
        };
        runs.all.iter().filter_map(of_run)
    });
    let text = "The kernel did not take every setting as requested: it clamps and rounds values.";
    finding_of(Tone::Warning, text, distinct(details))
}

/// Different levels for which the kernel uses the same value.
fn the_same_in_effect(runs: &Runs<'_>) -> Option<Block> {
    let detail = |clamped: &ClampedLevels| {
        let taken = clamped.taken.iter();
        let taken: Vec<String> = taken
            .map(|(key, value)| format!("{key} = {value}"))
            .collect();
        format!("{}: {}", words::list(&clamped.levels), taken.join(", "))
    };
    let validity = Validity::of(runs.all, None);
    let details = validity.clamped.iter().map(detail).collect();
    finding_of(
        Tone::Bad,
        "Different levels are the same value in the kernel.",
        details,
    )
}

/// Settings that changed between the start and the end of a run.
fn changed_within(runs: &Runs<'_>) -> Option<Block> {
    let mut details = Vec::new();
    for run in runs.all {
        let Some(trial) = &run.trial else {
            continue;
        };
        for (name, before) in &trial.environment_before {
            let after = trial.environment_after.get(name);
            if let Some(after) = after.filter(|after| *after != before && is_setting(name)) {
                let place = runs.place(run);
                details.push(format!("{place}: {name} from {before} to {after}"));
            }
        }
    }
    finding_of(Tone::Bad, "Settings changed during a run.", details)
}

/// Whether a machine was rebooted between two runs.
fn restarted(runs: &Runs<'_>) -> Option<Block> {
    let mut times: BTreeMap<&str, Vec<(u32, f64, &Observation)>> = BTreeMap::new();
    for run in runs.all {
        let before = run.trial.iter().flat_map(|trial| &trial.environment_before);
        for (name, value) in before.filter(|(name, _)| is_uptime(name)) {
            if let (Some(position), Ok(time)) = (run.position, value.parse()) {
                times.entry(name).or_default().push((position, time, run));
            }
        }
    }
    let mut details = Vec::new();
    for (name, mut times) in times {
        times.sort_by_key(|(position, ..)| *position);
        for pair in times.windows(2).filter(|pair| pair[1].1 < pair[0].1) {
            let place = runs.place(pair[1].2);
            details.push(match name.strip_suffix(UPTIME) {
                Some(host) if !host.is_empty() => format!("{host} before {place}"),
                _ => format!("before {place}"),
            });
        }
    }
    finding_of(Tone::Bad, "The machine was rebooted between runs.", details)
}

/// A column for each group if there are few, otherwise a row.
fn table_by_group(by_group: &[(&str, &Fact)], group_of_run: &[usize], runs: &Runs<'_>) -> Block {
    let mut groups: Vec<(String, usize)> = Vec::new();
    for group in &runs.groups {
        let first = group.runs.first().map(|run| run.run);
        let index = runs
            .all
            .iter()
            .position(|run| first.is_some_and(|first| run.is_same_cell(first)));
        groups.extend(index.map(|index| (group.full_name.clone(), index)));
    }
    let cell = |fact: &Fact, group: usize| {
        let mut values = fact.iter();
        let found = values.find(|(run, _)| group_of_run.get(*run) == Some(&group));
        found.map_or_else(tables::unknown, |(_, value)| {
            text(words::cut(value, VALUE_CHARS_MAX))
        })
    };
    let caption = "Differences between groups";
    if groups.len() <= GROUP_COLUMNS_MAX {
        let mut columns = vec![words_column("name")];
        columns.extend(groups.iter().map(|(name, _)| words_column(name)));
        let row = |(name, fact): &(&str, &Fact)| {
            let cells = groups.iter().map(|(_, group)| cell(fact, *group));
            [text(*name)]
                .into_iter()
                .chain(cells)
                .collect::<Vec<TableCell>>()
        };
        return tables::table(caption, columns, by_group.iter().map(row));
    }
    let mut columns = vec![words_column("group")];
    columns.extend(by_group.iter().map(|(name, _)| words_column(*name)));
    let row = |(name, group): &(String, usize)| {
        let cells = by_group.iter().map(|(_, fact)| cell(fact, *group));
        [text(name)]
            .into_iter()
            .chain(cells)
            .collect::<Vec<TableCell>>()
    };
    tables::table(caption, columns, groups.iter().map(row))
}

fn table_of_ranges(ranges: &[(&str, Vec<f64>)]) -> Block {
    let number = |value: Option<f64>| known(value, words::number);
    let rows = ranges.iter().map(|(name, values)| {
        vec![
            text(*name),
            number(values.iter().copied().reduce(f64::min)),
            number(analysis::median(values)),
            number(values.iter().copied().reduce(f64::max)),
        ]
    });
    let columns = columns(&["name"], &["least", "median", "greatest"]);
    tables::table(
        "Values that change by themselves, before each run",
        columns,
        rows,
    )
}
