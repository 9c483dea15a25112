//! The events of streaming responses.

use results::{EventRecording, Histogram};

use crate::page::runs::Runs;
use crate::page::tables::{
    self, known, number_columns, percentile, table, text, toned_if, words_column,
};
use crate::page::{Section, TableCell, Tone, words};

/// The times and numbers of events, for runs that split responses into events.
pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let (mut times, mut counts) = (Vec::new(), Vec::new());
    for (group, recording) in runs.recordings() {
        let Some(events) = &recording.events else {
            continue;
        };
        let durations = group.results().map(|result| result.window.duration_ns);
        let duration_ns = durations.fold(0, u64::saturating_add);
        let first = &events.first_event_with_bounds();
        for (name, samples) in [("First event", first), ("Gap", &events.gap)] {
            times.push(runs.key_row(&group.full_name, cells_of_times(name, samples)));
        }
        counts.push(runs.key_row(&group.full_name, cells_of_counts(events, duration_ns)));
    }
    if counts.is_empty() {
        return None;
    }
    let mut columns = vec![words_column("Time")];
    columns.extend(number_columns([
        "Samples", "Mean", "p50", "p90", "p99", "p99.9", "Largest",
    ]));
    let times = table("Times of events", runs.key_columns("Group", columns), times);
    let columns = number_columns([
        "Events",
        "Events/s",
        "Complete streams",
        "Mean events per stream",
        "Without the end marker",
        "Without an event",
    ]);
    let counts = table(
        "Numbers of events",
        runs.key_columns("Group", columns.to_vec()),
        counts,
    );
    let lead = "The responses are streams of events. The time to the first event is counted from \
                the same moment as latency. Events that arrived together have gaps of 0.";
    Some(Section::new("events", "Events", lead, vec![times, counts]))
}

fn cells_of_times(name: &str, samples: &Histogram) -> Vec<TableCell> {
    let time = |percent| match samples.is_empty() {
        true => tables::unknown(),
        false => percentile(samples, percent),
    };
    let mean_us = (!samples.is_empty()).then(|| samples.mean_ns() / 1e3);
    vec![
        text(name),
        tables::count(samples.count()),
        tables::time_us(mean_us),
        time(50.0),
        time(90.0),
        time(99.0),
        time(99.9),
        samples
            .max_ns()
            .map_or_else(tables::unknown, tables::time_ns),
    ]
}

fn cells_of_counts(events: &EventRecording, duration_ns: u64) -> Vec<TableCell> {
    let per_sec = events.arrived as f64 / (duration_ns as f64 / 1e9);
    let (unfinished, empty) = (events.unfinished, events.empty);
    vec![
        tables::count(events.arrived),
        known(Some(per_sec), words::number),
        tables::count(events.streams),
        known(events.per_response_mean(), words::number),
        toned_if(unfinished > 0, Tone::Warning, tables::count(unfinished)),
        toned_if(empty > 0, Tone::Warning, tables::count(empty)),
    ]
}
