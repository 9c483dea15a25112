//! In what the runs differ besides their numbers: machine, kernel, settings, plan.

use std::collections::BTreeMap;

use super::Drawn;
use crate::page::run::{environment_facts, plan_facts};
use crate::page::tables::{self, finding, words_column};
use crate::page::{Block, Section, TableBlock, Tone, words};

/// With more runs than that a column for each would be too wide: values are listed with their runs.
const COLUMNS_MAX: usize = 4;

/// Longer values are cut.
const VALUE_CHARS_MAX: usize = 120;

/// Names and what they stand for in one run.
type Facts = BTreeMap<String, String>;

/// Nothing unless two runs can be held against each other.
pub(super) fn section(drawn: &[Drawn<'_>]) -> Option<Section> {
    let runs: Vec<(&str, Facts)> = drawn
        .iter()
        .filter_map(|drawn| Some((drawn.name.as_str(), facts(drawn)?)))
        .collect();
    if runs.len() < 2 {
        return None;
    }
    let mut keys: Vec<&String> = runs.iter().flat_map(|(_, facts)| facts.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    let differing: Vec<&String> = keys
        .into_iter()
        .filter(|key| {
            let mut values = runs.iter().map(|(_, facts)| facts.get(*key));
            let first = values.next().flatten();
            values.any(|value| value != first)
        })
        .collect();
    let block = if differing.is_empty() {
        finding(
            Tone::Good,
            "Machine, kernel, its settings and the plan were the same in all runs.",
            vec![],
        )
    } else if runs.len() <= COLUMNS_MAX {
        in_columns(&runs, &differing)
    } else {
        in_lists(&runs, &differing)
    };
    Some(Section {
        id: "differences".to_owned(),
        title: "Differences of environment and plan".to_owned(),
        lead: "What was not the same in all runs. A difference here may be the cause of one in the numbers."
            .to_owned(),
        blocks: vec![block],
        is_folded: false,
    })
}

/// All but when it was started, which always differs.
fn facts(drawn: &Drawn<'_>) -> Option<Facts> {
    let result = drawn.run.result.as_deref()?;
    let mut facts = Facts::new();
    let environment = environment_facts(&result.environment)
        .into_iter()
        .filter(|(name, _)| name != "Started");
    let plan = plan_facts(&result.plan)
        .into_iter()
        .map(|(name, value)| (format!("Plan: {name}"), value));
    let backend = [("Event loop".to_owned(), result.backend.name.clone())];
    let sysctls = result.environment.sysctls.clone();
    for (name, value) in environment.chain(plan).chain(backend).chain(sysctls) {
        facts.insert(name, value);
    }
    Some(facts)
}

fn shown(value: Option<&String>) -> String {
    match value {
        Some(value) => words::cut(value, VALUE_CHARS_MAX),
        None => words::UNKNOWN.to_owned(),
    }
}

fn in_columns(runs: &[(&str, Facts)], keys: &[&String]) -> Block {
    let mut columns = vec![words_column("What")];
    columns.extend(runs.iter().map(|(name, _)| words_column(*name)));
    let row = |key: &&String| {
        let mut row = vec![tables::text((*key).clone())];
        row.extend(
            runs.iter()
                .map(|(_, facts)| tables::text(shown(facts.get(*key)))),
        );
        row
    };
    Block::Table(TableBlock {
        caption: "What differs".to_owned(),
        columns,
        rows: keys.iter().map(row).collect(),
    })
}

fn in_lists(runs: &[(&str, Facts)], keys: &[&String]) -> Block {
    let row = |key: &&String| {
        let mut values: Vec<(String, Vec<&str>)> = Vec::new();
        for (name, facts) in runs {
            let value = shown(facts.get(*key));
            match values.iter_mut().find(|(known, _)| *known == value) {
                Some((_, names)) => names.push(name),
                None => values.push((value, vec![name])),
            }
        }
        values.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
        let usual = values.remove(0);
        let others: Vec<String> = values
            .iter()
            .map(|(value, names)| format!("{value} ({})", names.join(", ")))
            .collect();
        vec![
            tables::text((*key).clone()),
            tables::text(format!(
                "{} ({})",
                usual.0,
                words::counted(usual.1.len() as u64, "run")
            )),
            tables::text(others.join("; ")),
        ]
    };
    Block::Table(TableBlock {
        caption: "What differs".to_owned(),
        columns: ["", "In most runs", "In the others"]
            .map(words_column)
            .to_vec(),
        rows: keys.iter().map(row).collect(),
    })
}
