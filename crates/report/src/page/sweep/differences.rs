//! What else differed between the runs: what levels set, what the kernel made of it, and what nobody wanted.

use std::collections::{BTreeMap, BTreeSet};

use analysis::Observation;

use super::bounded;
use super::design::{Design, place_of};
use crate::page::run::{environment_facts, plan_facts};
use crate::page::tables::{finding, known, number_column, text, words_column};
use crate::page::{Block, Section, TableBlock, Tone, words};

/// Values of others are cut here.
const VALUE_CHARS_MAX: usize = 120;

/// More runs are not named one by one.
const RUNS_NAMED_MAX: usize = 5;

/// It only ever grows; that it fell is said apart.
const UPTIME: &str = "uptime_s";

/// One thing, by run; runs that say nothing of it are not there.
#[derive(Debug, Default)]
struct Fact {
    values: Vec<(usize, String)>,
}

/// How a thing differs.
enum Difference {
    /// Each combination has its own value in all of its runs: so the plan wants it.
    Set,
    /// Numbers that move by themselves, as load and free memory do.
    Range(Vec<f64>),
    /// Anything else.
    Other,
}

/// Nothing if the runs say nothing of where they were made.
pub(super) fn section(design: &Design<'_>) -> Option<Section> {
    let facts = facts(design);
    if facts.is_empty() {
        return None;
    }
    let cells = cells_of_runs(design);
    let mut set: Vec<(&str, &Fact)> = Vec::new();
    let mut ranges: Vec<(&str, Vec<f64>)> = Vec::new();
    let mut others: Vec<(&str, &Fact)> = Vec::new();
    for (name, fact) in &facts {
        match difference(fact, &cells) {
            None => {}
            Some(Difference::Set) => set.push((name, fact)),
            Some(Difference::Range(_)) if name == UPTIME => {}
            Some(Difference::Range(values)) => ranges.push((name, values)),
            Some(Difference::Other) => others.push((name, fact)),
        }
    }
    let mut blocks = Vec::new();
    blocks.extend(not_taken(design));
    blocks.extend(the_same_in_effect(design));
    blocks.extend(changed_within(design));
    blocks.extend(restarted(design));
    let unwanted = others
        .iter()
        .map(|(name, fact)| unwanted(name, fact, design));
    blocks.extend(unwanted);
    let is_clean = blocks.is_empty();
    if !set.is_empty() {
        blocks.push(Block::Table(set_table(&set, design)));
    }
    if !ranges.is_empty() {
        blocks.push(Block::Table(range_table(&ranges)));
    }
    Some(Section {
        id: "differences".to_owned(),
        title: "Differences between the runs".to_owned(),
        lead: if is_clean {
            "Nothing is known to differ between runs of the same combination but what moves by itself, and every setting that \
             can be told was taken as asked."
                .to_owned()
        } else {
            String::new()
        },
        blocks,
        is_folded: is_clean,
    })
}

fn facts(design: &Design<'_>) -> Vec<(String, Fact)> {
    let mut order: Vec<String> = Vec::new();
    let mut facts: BTreeMap<String, Fact> = BTreeMap::new();
    let mut add = |run: usize, name: String, value: String| {
        if !facts.contains_key(&name) {
            order.push(name.clone());
        }
        facts.entry(name).or_default().values.push((run, value));
    };
    for (at, run) in design.runs.iter().enumerate() {
        let before = run.trial.as_ref().map(|trial| &trial.environment_before);
        if let Some(result) = &run.result {
            let own = environment_facts(&result.environment).into_iter();
            for (name, value) in own.filter(|(name, _)| name != "Started") {
                add(at, name, value);
            }
            add(at, "Event loop".to_owned(), result.backend.name.clone());
            for (name, value) in plan_facts(&result.plan) {
                add(at, format!("Plan: {name}"), value);
            }
            for (name, value) in &result.environment.sysctls {
                if before.is_none_or(|before| !before.contains_key(name)) {
                    add(at, name.clone(), value.clone());
                }
            }
        }
        for (name, value) in before.into_iter().flatten() {
            add(at, name.clone(), value.clone());
        }
        let trial = run.trial.iter();
        for (name, value) in trial.flat_map(|trial| &trial.effective) {
            if before.is_none_or(|before| before.get(name) != Some(value)) {
                add(at, format!("{name}, as the kernel took it"), value.clone());
            }
        }
    }
    let named = |name: String| facts.remove(&name).map(|fact| (name, fact));
    order.into_iter().filter_map(named).collect()
}

/// The cell of each run, as an index.
fn cells_of_runs(design: &Design<'_>) -> Vec<usize> {
    let mut keys = Vec::new();
    let mut cell = |run: &Observation| {
        let key = (
            run.settings.clone(),
            run.profile.clone(),
            run.target.clone(),
        );
        match keys.iter().position(|other| *other == key) {
            Some(cell) => cell,
            None => {
                keys.push(key);
                keys.len() - 1
            }
        }
    };
    design.runs.iter().map(&mut cell).collect()
}

/// `None` where all runs say the same.
fn difference(fact: &Fact, cells: &[usize]) -> Option<Difference> {
    let (_, first) = fact.values.first()?;
    if fact.values.iter().all(|(_, value)| value == first) {
        return None;
    }
    let mut of_cell: BTreeMap<usize, &str> = BTreeMap::new();
    let is_set = fact.values.iter().all(|(run, value)| {
        let cell = cells.get(*run).copied().unwrap_or(usize::MAX);
        *of_cell.entry(cell).or_insert(value) == value
    });
    let has_repetitions = of_cell.len() < fact.values.len();
    if is_set && has_repetitions {
        return Some(Difference::Set);
    }
    let numbers: Option<Vec<f64>> = fact
        .values
        .iter()
        .map(|(_, value)| {
            value
                .parse::<f64>()
                .ok()
                .filter(|number| number.is_finite())
        })
        .collect();
    Some(match numbers {
        Some(numbers) => Difference::Range(numbers),
        None if is_set => Difference::Set,
        None => Difference::Other,
    })
}

/// Something that has several values among runs of the same combination.
fn unwanted(name: &str, fact: &Fact, design: &Design<'_>) -> Block {
    let mut by_value: Vec<(&str, Vec<usize>)> = Vec::new();
    for (run, value) in &fact.values {
        match by_value.iter_mut().find(|(other, _)| other == value) {
            Some((_, runs)) => runs.push(*run),
            None => by_value.push((value, vec![*run])),
        }
    }
    let details = by_value
        .iter()
        .map(|(value, runs)| {
            let value = words::cut(value, VALUE_CHARS_MAX);
            format!("{value}: {}", runs_in_words(runs, design))
        })
        .collect();
    let text = format!("{name} was not the same in all runs of a combination.");
    finding(Tone::Warning, text, bounded(details))
}

fn runs_in_words(runs: &[usize], design: &Design<'_>) -> String {
    if runs.len() > RUNS_NAMED_MAX {
        return words::counted(runs.len() as u64, "run");
    }
    let names: Vec<String> = runs
        .iter()
        .filter_map(|run| design.runs.get(*run))
        .map(|run| place_of(run, design.total()))
        .collect();
    names.join("; ")
}

/// Blanks between numbers, whatever they were.
fn plain(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_of_numbers(value: &str) -> bool {
    let mut words = value.split_whitespace().peekable();
    words.peek().is_some() && words.all(|word| word.parse::<f64>().is_ok())
}

/// Settings whose level is the value itself, and which the kernel took as another.
fn not_taken(design: &Design<'_>) -> Option<Block> {
    // A factor sets a key where their values are the same in some run, or their names are.
    let mut sets: BTreeSet<(&str, &str)> = BTreeSet::new();
    let pairs = || {
        design.runs.iter().flat_map(|run| {
            let effective = run.trial.iter().flat_map(|trial| &trial.effective);
            effective.flat_map(move |(key, value)| {
                let settings = run.settings.iter();
                settings.map(move |setting| (run, setting, key, value))
            })
        })
    };
    for (run, setting, key, value) in pairs() {
        let is_only_one = run.settings.len() == 1;
        if plain(&setting.level) == plain(value) || setting.factor == *key || is_only_one {
            sets.insert((&setting.factor, key));
        }
    }
    let mut details: Vec<String> = Vec::new();
    for (_, setting, key, value) in pairs() {
        let is_asked = sets.contains(&(setting.factor.as_str(), key.as_str()))
            && is_of_numbers(&setting.level)
            && is_of_numbers(value);
        if is_asked && plain(&setting.level) != plain(value) {
            let detail = format!("{key}: asked for {}, is {}", setting.level, plain(value));
            if !details.contains(&detail) {
                details.push(detail);
            }
        }
    }
    let text = "The kernel did not take every setting as asked: it has limits, and rounds.";
    (!details.is_empty()).then(|| finding(Tone::Warning, text, bounded(details)))
}

/// Levels that the kernel made the same of.
fn the_same_in_effect(design: &Design<'_>) -> Option<Block> {
    let mut by_effect: BTreeMap<Vec<(&str, &str)>, Vec<String>> = BTreeMap::new();
    for run in design.runs {
        let Some(trial) = run
            .trial
            .as_ref()
            .filter(|trial| !trial.effective.is_empty())
        else {
            continue;
        };
        // Other settings tell the levels apart by themselves.
        let [setting] = run.settings.as_slice() else {
            continue;
        };
        let effect = trial.effective.iter();
        let effect = effect.map(|(key, value)| (key.as_str(), value.as_str()));
        let levels = by_effect.entry(effect.collect()).or_default();
        if !levels.contains(&setting.level) {
            levels.push(setting.level.clone());
        }
    }
    let details: Vec<String> = by_effect
        .into_iter()
        .filter(|(_, levels)| levels.len() > 1)
        .map(|(effect, levels)| {
            let effect: Vec<String> = effect
                .iter()
                .map(|(key, value)| format!("{key} = {value}"))
                .collect();
            format!("{}: {}", words::list(&levels), effect.join(", "))
        })
        .collect();
    let text = "Levels that are different in the plan were the same in the kernel.";
    (!details.is_empty()).then(|| finding(Tone::Bad, text, bounded(details)))
}

/// Settings that were others after the run than before it.
fn changed_within(design: &Design<'_>) -> Option<Block> {
    let mut details = Vec::new();
    for run in design.runs {
        let Some(trial) = &run.trial else {
            continue;
        };
        for (name, before) in &trial.environment_before {
            let after = trial.environment_after.get(name);
            // Names with a point are settings; load and memory are not.
            if let Some(after) = after.filter(|after| *after != before && name.contains('.')) {
                let place = place_of(run, design.total());
                details.push(format!("{place}: {name} from {before} to {after}"));
            }
        }
    }
    let text = "Settings changed while a run was on.";
    (!details.is_empty()).then(|| finding(Tone::Bad, text, bounded(details)))
}

/// Whether the machine was started again between two runs.
fn restarted(design: &Design<'_>) -> Option<Block> {
    let mut times: Vec<(u32, f64, &Observation)> = design
        .runs
        .iter()
        .filter_map(|run| {
            let before = &run.trial.as_ref()?.environment_before;
            Some((run.position?, before.get(UPTIME)?.parse().ok()?, run))
        })
        .collect();
    times.sort_by_key(|(position, ..)| *position);
    let details: Vec<String> = times
        .windows(2)
        .filter(|pair| pair[1].1 < pair[0].1)
        .map(|pair| format!("before {}", place_of(pair[1].2, design.total())))
        .collect();
    let text = "The machine was started again within the sweep.";
    (!details.is_empty()).then(|| finding(Tone::Bad, text, bounded(details)))
}

fn set_table(set: &[(&str, &Fact)], design: &Design<'_>) -> TableBlock {
    let mut columns = vec![words_column("combination")];
    columns.extend(set.iter().map(|(name, _)| words_column(*name)));
    let mut rows = Vec::new();
    for group in &design.groups {
        for cell in design.cells_of(group) {
            let is_of_cell = |run: usize| {
                let run = design.runs.get(run);
                run.is_some_and(|run| cell.runs.iter().any(|other| std::ptr::eq(*other, run)))
            };
            let mut row = vec![text(design.title(&cell.name, group))];
            for (_, fact) in set {
                let value = fact.values.iter().find(|(run, _)| is_of_cell(*run));
                row.push(text(value.map_or_else(
                    || words::UNKNOWN.to_owned(),
                    |(_, value)| words::cut(value, VALUE_CHARS_MAX),
                )));
            }
            rows.push(row);
        }
    }
    TableBlock {
        caption: "What combinations set".to_owned(),
        columns,
        rows,
    }
}

fn range_table(ranges: &[(&str, Vec<f64>)]) -> TableBlock {
    let number = |value: Option<f64>| known(value, words::number);
    let row = |(name, values): &(&str, Vec<f64>)| {
        vec![
            text(*name),
            number(values.iter().copied().reduce(f64::min)),
            number(analysis::median(values)),
            number(values.iter().copied().reduce(f64::max)),
        ]
    };
    TableBlock {
        caption: "What moves by itself, before each run".to_owned(),
        columns: vec![
            words_column("name"),
            number_column("least"),
            number_column("median"),
            number_column("greatest"),
        ],
        rows: ranges.iter().map(row).collect(),
    }
}
