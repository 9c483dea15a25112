//! The events of streaming responses, below the text of the whole.

use std::io::{self, Write};

use plan::readable::{count, counted, decimal};
use plan::units;
use results::{EventRecording, Histogram, RunResult};

/// The columns after the name.
const COLUMNS: [&str; 5] = ["Avg", "p50", "p90", "p99", "Max"];
const WIDTH: usize = 9;

/// Writes the figures of events after an empty line; nothing if responses are not split.
pub(crate) fn write(result: &RunResult, output: &mut dyn Write) -> io::Result<()> {
    let Some(events) = &result.recording.events else {
        return Ok(());
    };
    writeln!(output)?;
    write!(output, "  {:<11}", "Events")?;
    for title in COLUMNS {
        write!(output, "  {title:>WIDTH$}")?;
    }
    writeln!(output)?;
    for (name, times) in [
        ("First event", &events.first_event_with_bounds()),
        ("Gap", &events.gap),
    ] {
        write_row(output, name, times, |ns| units::time_us(ns / 1e3))?;
    }
    write_row(output, "Per stream", &events.per_response, number)?;
    writeln!(output, "  {}", totals(events))?;
    let per_sec = result.per_sec(events.arrived);
    writeln!(output, "Events/sec:   {}", decimal(per_sec, 2))
}

fn write_row(
    output: &mut dyn Write,
    name: &str,
    samples: &Histogram,
    text: fn(f64) -> String,
) -> io::Result<()> {
    write!(output, "  {name:<11}")?;
    let percentile = |percent| samples.value_at_percentile(percent) as f64;
    let max = samples.max_ns().unwrap_or_default() as f64;
    let values = [
        samples.mean_ns(),
        percentile(50.0),
        percentile(90.0),
        percentile(99.0),
        max,
    ];
    for value in values {
        let cell = match samples.is_empty() {
            true => "-".to_owned(),
            false => text(value),
        };
        write!(output, "  {cell:>WIDTH$}")?;
    }
    writeln!(output)
}

fn number(value: f64) -> String {
    match value.fract() == 0.0 {
        true => count(value as u64),
        false => decimal(value, 2),
    }
}

/// `1,000 events, 50 complete streams, 2 without the end marker`
fn totals(events: &EventRecording) -> String {
    let mut text = format!(
        "{}, {}",
        counted(events.arrived, "event"),
        counted(events.streams, "complete stream"),
    );
    for (number, what) in [
        (events.unfinished, "without the end marker"),
        (events.empty, "without an event"),
        (events.waiting.count(), "still waiting for the first event"),
    ] {
        if number > 0 {
            text += &format!(", {} {what}", count(number));
        }
    }
    text
}
