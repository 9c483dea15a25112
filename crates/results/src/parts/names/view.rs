//! A row for each name of requests, or for each address.

use std::time::Duration;

use presentation::tables::{columns, count, rate, text, time_ns, toned_if};
use presentation::{TableBlock, TextBlock, Tone};

use crate::cells::percentile;
use crate::{NameRecording, Recording, RunResult};

/// Of `recording`: a row for each name of requests, in the order of the file.
pub(super) fn by_name(recording: &Recording, duration: Duration) -> TableBlock {
    of_parts(
        "Name",
        "Requests by name",
        &recording.parts.by_name,
        duration,
    )
}

/// Of `recording`: a row for each address.
pub(super) fn by_address(recording: &Recording, duration: Duration) -> TableBlock {
    let parts = &recording.parts.by_address;
    of_parts("Address", "Requests by address", parts, duration)
}

/// A table below the text of a run; empty if it has no rows.
pub(super) fn text_of_run(
    table: fn(&Recording, Duration) -> TableBlock,
    result: &RunResult,
) -> Vec<TextBlock> {
    let duration = Duration::from_nanos(result.window.duration_ns);
    let table = table(&result.recording, duration);
    if table.rows.is_empty() {
        return Vec::new();
    }
    vec![TextBlock::Line(String::new()), TextBlock::Table(table)]
}

fn of_parts(head: &str, caption: &str, parts: &[NameRecording], duration: Duration) -> TableBlock {
    let numbers = [
        "Requests",
        "Requests/s",
        "p50",
        "p90",
        "p99",
        "Max",
        "Errors",
        "Status > 399",
    ];
    let row = |part: &NameRecording| {
        let latency = part.latency_with_bounds();
        let (errors, over_399) = (part.errors.failures(), part.statuses.over_399());
        vec![
            text(&part.name),
            count(part.responses()),
            rate(part.responses() as f64 / duration.as_secs_f64()),
            percentile(&latency, 50.0),
            percentile(&latency, 90.0),
            percentile(&latency, 99.0),
            time_ns(latency.max_ns()),
            toned_if(errors > 0, Tone::Bad, count(errors)),
            toned_if(over_399 > 0, Tone::Bad, count(over_399)),
        ]
    };
    TableBlock::new(caption, columns(&[head], &numbers), parts.iter().map(row))
}
