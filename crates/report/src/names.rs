//! A row for each name of requests, or for each address.

use std::io::{self, Write};
use std::time::Duration;

use presentation::tables::{columns, count, rate, text, time_ns, toned_if};
use presentation::{TableBlock, Tone};
use results::cells::percentile;
use results::{NameRecording, Recording, RunResult};

use crate::aligned;

/// Of `recording`: a row for each name of requests, in the order of the file.
pub(crate) fn by_name(recording: &Recording, duration: Duration) -> TableBlock {
    of_parts(
        "Name",
        "Requests by name",
        &recording.parts.by_name,
        duration,
    )
}

/// Of `recording`: a row for each address.
pub(crate) fn by_address(recording: &Recording, duration: Duration) -> TableBlock {
    let parts = &recording.parts.by_address;
    of_parts("Address", "Requests by address", parts, duration)
}

/// Writes a table after an empty line; nothing if it has no rows.
pub(crate) fn write(
    table: fn(&Recording, Duration) -> TableBlock,
    result: &RunResult,
    output: &mut dyn Write,
) -> io::Result<()> {
    let duration = Duration::from_nanos(result.window.duration_ns);
    let table = table(&result.recording, duration);
    if table.rows.is_empty() {
        return Ok(());
    }
    writeln!(output)?;
    aligned::write(&table, aligned::BELOW_WRK, output)
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
