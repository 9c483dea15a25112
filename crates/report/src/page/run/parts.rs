//! The parts of a request's way.

use judging::ThinPercentiles;
use results::{Histogram, RunResult};

use super::color;
use crate::page::tables::{self, chart, number_column, words_column};
use crate::page::{
    Axis, Block, Chart, Height, Mark, Marks, Scale, Section, TableBlock, Tone, Unit, words,
};

/// One part with its samples.
type Part<'a> = (&'static str, &'a Histogram);

/// Nothing if no part has a sample.
pub(super) fn section(result: &RunResult) -> Option<Section> {
    let phases = &result.recording.phases;
    let parts: Vec<Part<'_>> = [
        ("Connect", &phases.connect),
        ("TLS", &phases.tls),
        ("First byte", &phases.first_byte),
        ("Last byte", &phases.last_byte),
    ]
    .into_iter()
    .filter(|(_, samples)| !samples.is_empty())
    .collect();
    let mut blocks = vec![table(&parts)];
    blocks.extend(spans(&parts).map(chart));
    (!parts.is_empty()).then(|| Section {
        id: "phases".to_owned(),
        title: "Phases".to_owned(),
        lead: lead(result),
        blocks,
        is_folded: false,
    })
}

fn lead(result: &RunResult) -> String {
    let phases = &result.recording.phases;
    let whole = phases.last_byte.value_at_percentile(50.0) == 0;
    let is_tls = result.plan.target.scheme == plan::Scheme::Https;
    words::sentences([
        "Where the time went: connecting and TLS once for each connection, first byte (from the sending of a \
         request) and last byte (from the first) once for each answer",
        if phases.connect.is_empty() {
            "No connection was opened within the window"
        } else {
            ""
        },
        if is_tls && phases.tls.is_empty() {
            "No TLS handshake ended within the window"
        } else {
            ""
        },
        if whole && !phases.last_byte.is_empty() {
            "Most answers came in one piece: their last byte came with the first"
        } else {
            ""
        },
    ])
}

fn table(parts: &[Part<'_>]) -> Block {
    const PERCENTS: [f64; 3] = [50.0, 90.0, 99.0];
    let mut columns = vec![words_column("Phase"), number_column("Samples")];
    columns.extend(PERCENTS.map(|percent| number_column(words::percentile(percent))));
    columns.extend(["Fastest", "Slowest", "Mean"].map(number_column));
    let rows = parts.iter().map(|(name, samples)| {
        let mut row = vec![tables::text(*name), tables::count(samples.count())];
        for percent in PERCENTS {
            let cell = tables::time_ns(samples.value_at_percentile(percent));
            let is_thin = ThinPercentiles::among(&[percent], samples.count()).is_some();
            row.push(if is_thin {
                tables::toned(cell, Tone::Warning)
            } else {
                cell
            });
        }
        row.push(tables::time_ns(samples.min_ns().unwrap_or(0)));
        row.push(tables::time_ns(samples.max_ns().unwrap_or(0)));
        row.push(tables::time_us(Some(samples.mean_ns() / 1e3)));
        row
    });
    Block::Table(TableBlock {
        caption: "Phases (marked: fewer than ten samples above)".to_owned(),
        columns,
        rows: rows.collect(),
    })
}

/// Nothing if all of them took no time.
fn spans(parts: &[Part<'_>]) -> Option<Chart> {
    let mut spans = Marks {
        name: "Median, from the fastest to the slowest".to_owned(),
        mark: Mark::Interval,
        color: color::LATENCY,
        ..Marks::default()
    };
    let mut said = Vec::new();
    // A logarithmic axis has no place for zero: a part that mostly took no time is told in words only, and a
    // bar that would begin there begins at its dot.
    let us = |ns: u64| Some(ns as f64 / 1e3);
    let mut names = Vec::new();
    for (name, samples) in parts {
        let median_ns = samples.value_at_percentile(50.0);
        let (min_ns, max_ns) = (samples.min_ns().unwrap_or(0), samples.max_ns().unwrap_or(0));
        let label = format!(
            "median {}, {} to {}",
            words::time_ns(median_ns),
            words::time_ns(min_ns),
            words::time_ns(max_ns)
        );
        said.push(format!("{name}: {label}."));
        if median_ns == 0 {
            continue;
        }
        spans.x.push(names.len() as f64);
        names.push((*name).to_owned());
        spans.y.push(us(median_ns));
        spans.low.push(if min_ns == 0 {
            us(median_ns)
        } else {
            us(min_ns)
        });
        spans.high.push(us(max_ns));
        spans.labels.push(label);
    }
    (!spans.x.is_empty()).then(|| Chart {
        id: "phases-spans".to_owned(),
        title: "Phases: median, fastest and slowest".to_owned(),
        description: said.join(" "),
        x: Axis {
            label: String::new(),
            unit: Unit::Number,
            scale: Scale::Names(names),
            from_zero: false,
        },
        y: Axis {
            label: "Time".to_owned(),
            unit: Unit::Microseconds,
            scale: Scale::Log,
            from_zero: false,
        },
        marks: vec![spans],
        height: Height::Low,
        ..Chart::default()
    })
}
