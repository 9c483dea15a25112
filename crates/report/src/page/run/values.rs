//! A run of which there are only numbers: the report that wrk printed, or a line of a table.

use std::collections::BTreeMap;

use analysis::{Observation, quantity};

use super::color;
use crate::page::curves::{self, Curve};
use crate::page::tables::{self, chart, finding, number_column, words_column};
use crate::page::{Block, Chart, Figure, Mark, Section, TableBlock, TableCell, Tone, words};

/// What there is, and nothing that is not.
pub(super) fn sections(run: &Observation) -> Vec<Section> {
    let mut blocks = Vec::new();
    if let Some(reason) = &run.failure {
        let text = format!("The run failed: {reason}.");
        blocks.push(finding(Tone::Bad, text, vec![]));
    } else {
        blocks.push(finding(
            Tone::Neutral,
            "Of this run there are only the numbers of a report: no histogram, nothing over time, nothing about \
             the generator.",
            vec![format!("From {}", run.source)],
        ));
    }
    let figures = figures(&run.values);
    if !figures.is_empty() {
        blocks.push(Block::Figures { figures });
    }
    let mut sections = vec![Section {
        id: "verdict".to_owned(),
        title: "Verdict".to_owned(),
        lead: headline(&run.values),
        blocks,
        is_folded: false,
    }];
    sections.extend(latency(&run.values));
    if !run.values.is_empty() {
        sections.push(Section {
            id: "values".to_owned(),
            title: "All values".to_owned(),
            lead: "Everything that was found, under the names that tables and comparisons use."
                .to_owned(),
            blocks: vec![all(&run.values)],
            is_folded: false,
        });
    }
    sections
}

fn headline(values: &BTreeMap<String, f64>) -> String {
    let rate = values
        .get(quantity::REQUESTS_PER_SEC)
        .map(|rate| format!("{} requests/s", words::number(*rate)));
    let percentile = |percent: f64| {
        let value = values.get(&quantity::percentile("latency", percent))?;
        Some(format!(
            "{} {}",
            words::percentile(percent),
            words::time_us(*value)
        ))
    };
    let parts: Vec<String> = [rate, percentile(50.0), percentile(99.0)]
        .into_iter()
        .flatten()
        .collect();
    words::sentences([parts.join(", ").as_str()])
}

fn figures(values: &BTreeMap<String, f64>) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut figure = |name: &str, label: &str, tone: fn(f64) -> Tone| {
        if let Some(value) = values.get(name) {
            figures.push(Figure {
                label: label.to_owned(),
                value: shown(name, *value),
                note: String::new(),
                tone: tone(*value),
                ..Figure::default()
            });
        }
    };
    let neutral = |_: f64| Tone::Neutral;
    let trouble = |count: f64| {
        if count > 0.0 { Tone::Bad } else { Tone::Good }
    };
    figure(quantity::REQUESTS_PER_SEC, "Requests/s", neutral);
    figure(quantity::LATENCY_MEAN_US, "Mean latency", neutral);
    figure(&quantity::percentile("latency", 50.0), "p50", neutral);
    figure(&quantity::percentile("latency", 99.0), "p99", neutral);
    figure("latency_max_us", "Slowest", neutral);
    figure(quantity::ERRORS, "Errors", trouble);
    figure(quantity::STATUSES_OVER_399, "Status above 399", trouble);
    figure(quantity::BYTES_PER_SEC, "Throughput", neutral);
    figures
}

/// The percentiles of a kind of time that a report names.
pub(crate) fn by_percentile(values: &BTreeMap<String, f64>, of: &str) -> Curve {
    let mut points: Vec<(f64, f64)> = values
        .iter()
        .filter_map(|(name, value)| {
            let (whose, percent) = quantity::percentile_of(name)?;
            (whose == of).then_some((percent, *value))
        })
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut curve = Curve::default();
    for (percent, value_us) in points {
        curve.push(percent, Some(value_us));
    }
    curve
}

/// The percentiles that the source names, of each kind of time.
fn latency(values: &BTreeMap<String, f64>) -> Option<Section> {
    let mut marks = Vec::new();
    let mut said = Vec::new();
    let mut all = Vec::new();
    for of in quantity::TIMES {
        let curve = by_percentile(values, of);
        if curve.x.len() < 2 {
            continue;
        }
        let points = curve.x.iter().zip(curve.y.iter().flatten());
        let parts: Vec<String> = points
            .map(|(percent, us)| {
                let name = words::percentile(*percent);
                format!("{name} {}", words::time_us(*us))
            })
            .collect();
        let name = of.replace('_', " ");
        said.push(format!("{name}: {}.", parts.join(", ")));
        let color = color::LATENCY + all.len();
        all.push(curve.clone());
        marks.push(curve.marks(name, Mark::Line, color));
    }
    if all.is_empty() {
        return None;
    }
    let y = curves::latency_axis("Latency", &all);
    Some(Section {
        id: "latency".to_owned(),
        title: "Latency".to_owned(),
        lead:
            "The percentiles that the report names; the line between them is drawn, not measured."
                .to_owned(),
        blocks: vec![chart(Chart {
            id: "latency-by-percentile".to_owned(),
            title: "Latency by percentile".to_owned(),
            description: said.join(" "),
            x: curves::percentile_axis(),
            y,
            marks,
            ..Chart::default()
        })],
        is_folded: false,
    })
}

fn all(values: &BTreeMap<String, f64>) -> Block {
    let row = |(name, number): (&String, &f64)| -> Vec<TableCell> {
        vec![
            tables::text(name.clone()),
            tables::value(shown(name, *number), *number),
        ]
    };
    Block::Table(TableBlock {
        caption: "Values".to_owned(),
        columns: vec![words_column("Name"), number_column("Value")],
        rows: values.iter().map(row).collect(),
    })
}

/// A value in the unit that its name says.
pub(crate) fn shown(name: &str, value: f64) -> String {
    match name {
        quantity::DURATION_US => words::duration_ns((value * 1e3).max(0.0) as u64),
        quantity::BYTES => words::bytes(value),
        quantity::BYTES_PER_SEC => words::bytes_per_sec(value),
        name if name.ends_with("_us") => words::time_us(value),
        name if name.ends_with("_percent") => words::percent(value / 100.0),
        _ => words::number(value),
    }
}
