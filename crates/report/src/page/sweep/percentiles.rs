//! Latency by percentile, each combination with all samples of all its runs.

use std::collections::BTreeMap;

use analysis::{Observation, quantity, table};

use super::design::{Cell, Design, Group};
use super::quantities::in_6_digits;
use crate::page::curves::{self, Curve};
use crate::page::{Block, Chart, Height, Mark, Marks, Section, words};

/// More lines in one chart cannot be told apart.
const LINES_MAX: usize = 16;

/// Of what is shown: the latency as reports have it.
const OF: &str = "latency";

/// Nothing if no percentile is known.
pub(super) fn section(design: &Design<'_>) -> Option<Section> {
    let charts: Vec<Chart> = design
        .groups
        .iter()
        .enumerate()
        .filter_map(|(number, group)| chart(number, group, design))
        .collect();
    if charts.is_empty() {
        return None;
    }
    let good = || design.runs.iter().filter(|run| run.failure.is_none());
    let are_samples = good().all(|run| run.result.is_some());
    let what = if are_samples {
        "The samples of all runs of a combination together. A line ends where fewer than ten samples lie above"
    } else {
        "The median of the runs at each percentile that their reports name: the samples themselves were not kept"
    };
    let more = design
        .groups
        .iter()
        .any(|group| group.cells.len() > LINES_MAX);
    let left_out = format!("Only the first {LINES_MAX} combinations are drawn");
    Some(Section {
        id: "percentiles".to_owned(),
        title: "Latency by percentile".to_owned(),
        lead: words::sentences([what, if more { &left_out } else { "" }]),
        blocks: vec![Block::Charts { charts }],
        is_folded: false,
    })
}

fn chart(number: usize, group: &Group, design: &Design<'_>) -> Option<Chart> {
    let lines: Vec<(&Cell<'_>, Curve)> = design
        .cells_of(group)
        .take(LINES_MAX)
        .map(|cell| (cell, curve(cell)))
        .filter(|(_, curve)| !curve.is_empty())
        .collect();
    if lines.is_empty() {
        return None;
    }
    let said: Vec<String> = lines
        .iter()
        .filter_map(|(cell, curve)| {
            let (least, most) = curve.range()?;
            let (least, most) = (words::time_us(least), words::time_us(most));
            Some(format!("{} from {least} to {most}", cell.name))
        })
        .collect();
    Some(Chart {
        id: format!("percentiles-{number}"),
        title: design.title("Latency by percentile", group),
        description: format!("{}.", said.join("; ")),
        x: curves::percentile_axis(),
        y: curves::latency_axis("Latency", lines.iter().map(|(_, curve)| curve)),
        marks: lines
            .into_iter()
            .map(|(cell, curve)| marks(cell, curve))
            .collect(),
        height: Height::Tall,
        ..Chart::default()
    })
}

fn marks(cell: &Cell<'_>, curve: Curve) -> Marks {
    let mut marks = curve.marks(cell.name.clone(), Mark::Line, cell.color);
    for value in marks.y.iter_mut().flatten() {
        *value = in_6_digits(*value);
    }
    marks
}

fn curve(cell: &Cell<'_>) -> Curve {
    let runs: Vec<&Observation> = cell.runs.clone();
    match table::pool(&runs, OF) {
        Some(samples) => curves::by_percentile(&samples),
        None => of_texts(&runs),
    }
}

/// The median of the runs at each percentile that all of them name.
fn of_texts(runs: &[&Observation]) -> Curve {
    let mut values: BTreeMap<u64, (f64, Vec<f64>)> = BTreeMap::new();
    for run in runs {
        for (name, value) in &run.values {
            if let Some((OF, percent)) = quantity::percentile_of(name) {
                // Percentiles are not negative, so their bits are in their order.
                let of = values.entry(percent.to_bits()).or_default();
                of.0 = percent;
                of.1.push(*value);
            }
        }
    }
    let mut curve = Curve::default();
    for (percent, of_runs) in values.into_values() {
        if of_runs.len() == runs.len() {
            curve.x.push(percent);
            curve.y.push(analysis::median(&of_runs));
        }
    }
    curve
}
