//! Phases of requests: connect, proxy, TLS, first byte, last byte.

use std::time::Duration;

use presentation::tables::{self, columns, time_ns};
use presentation::{Axis, Chart, Height, Mark, Marks, Section, TableBlock, color, words};
use results::cells;
use results::cells::percentile;
use results::{Histogram, Phases, Recording};

use crate::page::runs::Runs;

type Phase<'a> = (&'static str, &'a Histogram);

/// Phases that have samples.
fn phases_of(phases: &Phases) -> Vec<Phase<'_>> {
    let mut known = vec![
        ("Connect", &phases.connect),
        ("Proxy", &phases.proxy),
        ("TLS", &phases.tls),
        ("First byte", &phases.first_byte),
        ("Last byte", &phases.last_byte),
    ];
    known.retain(|(_, samples)| !samples.is_empty());
    known
}

pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let mut blocks = vec![runs.of_groups(phases_table)?];
    let result = runs.single_result();
    let chart = result.and_then(|result| spans(&phases_of(&result.recording.phases)));
    blocks.extend(chart.map(tables::chart));
    let mut recordings = runs.recordings();
    let is_in_one_piece =
        recordings.all(|(_, it)| it.phases.last_byte.value_at_percentile(50.0) == 0);
    let lead = words::sentences([
        "Connect, proxy and TLS are timed once per connection; first byte (from sending the \
         request) and last byte (from the first) once per response",
        &without_samples(runs),
        if is_in_one_piece {
            "Most responses came in one piece: the last byte came with the first"
        } else {
            ""
        },
    ]);
    let section = Section::new("phases", "Phases", lead, blocks);
    Some(section.folded(runs.single().is_none()))
}

fn phases_table(recording: &Recording, _: Duration) -> TableBlock {
    let row = |(name, samples): Phase<'_>| {
        vec![
            tables::text(name),
            tables::count(samples.count()),
            percentile(samples, 50.0),
            percentile(samples, 90.0),
            percentile(samples, 99.0),
            time_ns(samples.min_ns()),
            time_ns(samples.max_ns()),
            cells::mean(samples),
        ]
    };
    let numbers = ["Samples", "p50", "p90", "p99", "Fastest", "Slowest", "Mean"];
    let rows = phases_of(&recording.phases).into_iter().map(row);
    let caption = "Phases (marked: fewer than ten samples above)";
    TableBlock::new(caption, columns(&["Phase"], &numbers), rows)
}

/// Phases of a single run that have no samples although one would expect them.
fn without_samples(runs: &Runs<'_>) -> String {
    let Some(result) = runs.single_result() else {
        return String::new();
    };
    let phases = &result.recording.phases;
    let is_tls = result.plan.target.scheme == plan::Scheme::Https;
    let connect = phases
        .connect
        .is_empty()
        .then_some("No connection was opened in the window");
    let tls = (is_tls && phases.tls.is_empty()).then_some("No TLS handshake ended in the window");
    words::sentences(connect.into_iter().chain(tls))
}

/// `None` if all phases took no time.
fn spans(phases: &[Phase<'_>]) -> Option<Chart> {
    let name = "Median, from the fastest to the slowest";
    let mut spans = Marks::new(name, Mark::Interval, color::LATENCY);
    let mut described = Vec::new();
    let us = |ns: u64| Some(ns as f64 / 1e3);
    let mut names = Vec::new();
    for (name, samples) in phases {
        let median_ns = samples.value_at_percentile(50.0);
        let (min_ns, max_ns) = (samples.min_ns().unwrap_or(0), samples.max_ns().unwrap_or(0));
        let label = format!(
            "median {}, {} to {}",
            words::time_ns(median_ns),
            words::time_ns(min_ns),
            words::time_ns(max_ns)
        );
        described.push(format!("{name}: {label}."));
        // A logarithmic axis has no zero: such a phase is only described, and a bar from zero
        // begins at its dot.
        if median_ns == 0 {
            continue;
        }
        let low_ns = if min_ns == 0 { median_ns } else { min_ns };
        let interval = [low_ns, median_ns, max_ns].map(us);
        spans.push_interval(names.len() as f64, interval, label);
        names.push((*name).to_owned());
    }
    (!spans.x.is_empty()).then(|| Chart {
        id: "phases-spans".to_owned(),
        title: "Phases: median, fastest and slowest".to_owned(),
        description: described.join(" "),
        x: Axis::names("", names),
        y: Axis::log_time("Time"),
        marks: vec![spans],
        height: Height::Low,
        ..Chart::default()
    })
}
