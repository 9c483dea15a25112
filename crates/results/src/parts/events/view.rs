//! The events of streaming responses.

use std::time::Duration;

use plan::readable::{count, counted, decimal};
use presentation::tables::{self, columns, toned_if};
use presentation::{TableBlock, TextBlock, Tone};

use crate::cells::{DISTRIBUTION, distribution};
use crate::{EventRecording, Recording, RunResult};

/// Times of events, and how many a response has; without rows if responses are not split.
pub(super) fn times(recording: &Recording, _: Duration) -> TableBlock {
    let rows = recording.parts.events.iter().flat_map(|events| {
        let since_last = &events.since_last_event;
        [
            Some(distribution(
                "First event",
                &events.first_event_with_bounds(),
                true,
            )),
            Some(distribution("Gap", &events.gap, true)),
            (!since_last.is_empty()).then(|| distribution("Since last", since_last, true)),
            Some(distribution("Per stream", &events.per_response, false)),
        ]
    });
    let rows = rows.flatten();
    TableBlock::new("Times of events", columns(&["Events"], &DISTRIBUTION), rows)
}

/// Numbers of events and streams.
pub(super) fn numbers(recording: &Recording, duration: Duration) -> TableBlock {
    let rows = recording.parts.events.iter().map(|events| {
        let (unfinished, empty) = (events.cut_off(), events.empty);
        vec![
            tables::count(events.arrived),
            tables::rate(events.arrived as f64 / duration.as_secs_f64()),
            tables::count(events.streams),
            toned_if(unfinished > 0, Tone::Warning, tables::count(unfinished)),
            toned_if(empty > 0, Tone::Warning, tables::count(empty)),
        ]
    });
    let numbers = [
        "Events",
        "Events/s",
        "Complete streams",
        "Without the end marker",
        "Without an event",
    ];
    TableBlock::new("Numbers of events", columns(&[], &numbers), rows)
}

/// Its table and totals below the text of a run; empty where tokens are shown, since an event is a
/// token, a part of one, or several.
pub(super) fn text_of_run(result: &RunResult) -> Vec<TextBlock> {
    let parts = &result.recording.parts;
    let (Some(events), None) = (&parts.events, &parts.llm) else {
        return Vec::new();
    };
    let per_sec = result.per_sec(events.arrived);
    vec![
        TextBlock::Line(String::new()),
        TextBlock::Table(times(&result.recording, Duration::ZERO)),
        TextBlock::Line(format!("  {}", totals(events))),
        TextBlock::Line(format!("Events/sec:   {}", decimal(per_sec, 2))),
    ]
}

/// `1,000 events, 50 complete streams, 2 without the end marker`
fn totals(events: &EventRecording) -> String {
    let mut text = format!(
        "{}, {}",
        counted(events.arrived, "event"),
        counted(events.streams, "complete stream"),
    );
    for (number, what) in [
        (events.cut_off(), "without the end marker"),
        (events.empty, "without an event"),
        (events.waiting.count(), "still waiting for the first event"),
    ] {
        if number > 0 {
            text += &format!(", {} {what}", count(number));
        }
    }
    text
}
