//! Where the time of requests went: the slowest beside the others, the metrics of the server, and
//! the slowest requests one by one.

use std::time::Duration;

use plan::TracingSpec;
use plan::readable::counted;
use presentation::tables::{self, columns, text, time_ns, time_us, toned_if, value};
use presentation::{TableBlock, TableCell, TextBlock, Tone, words};

use super::Slowest;
use crate::cells::{DISTRIBUTION, distribution};
use crate::{BreakdownRecording, LISTED, Recording, RunResult, SlowRequest};

/// How many traces are listed below the text of a run.
const TRACES_IN_TEXT: usize = 3;

/// The parts of the latency of the slowest requests, and of the others; without rows where they are
/// not recorded.
pub(super) fn parts(recording: &Recording, _: Duration) -> TableBlock {
    let slowest = recording.parts.breakdown.as_ref().and_then(Slowest::of);
    let rows = slowest.iter().flat_map(|slowest| {
        let parts = slowest.parts.iter().map(|it| {
            let share = it.slowest_us / slowest.mean_us;
            vec![
                text(words::capital(&it.part.to_string())),
                time_us(Some(it.slowest_us)),
                value(words::percent(share), share),
                time_us(it.others_us),
            ]
        });
        let all = vec![
            text("All"),
            time_us(Some(slowest.mean_us)),
            value(words::percent(1.0), 1.0),
            time_us(slowest.others_us),
        ];
        parts.chain([all])
    });
    let numbers = ["Slowest", "Share", "Others"];
    TableBlock::new(
        "Where the time went (means)",
        columns(&["Where the time went"], &numbers),
        rows,
    )
}

/// The metrics of the server over all responses; without rows if none was read.
pub(super) fn server_timing(recording: &Recording, _: Duration) -> TableBlock {
    let metrics = recording
        .parts
        .breakdown
        .iter()
        .flat_map(|it| &it.server_timing);
    let rows = metrics.map(|metric| distribution(&metric.name, &metric.times, true));
    TableBlock::new(
        "Server-Timing",
        columns(&["Server-Timing"], &DISTRIBUTION),
        rows,
    )
}

/// The slowest requests one by one, with those that have a trace.
pub(super) fn slowest(result: &RunResult) -> TableBlock {
    let breakdown = result.recording.parts.breakdown.as_ref();
    let names = breakdown.map_or(&[][..], |it| &it.server_timing);
    let traced = breakdown.is_some_and(|it| it.traced > 0);
    let mut heads = vec![
        "Due at",
        "Latency",
        "Own",
        "Waited",
        "Connecting",
        "First byte",
        "Last byte",
        "Retransmitted",
    ];
    heads.extend(names.iter().map(|metric| metric.name.as_str()));
    let rows = breakdown.iter().flat_map(|breakdown| listed(breakdown));
    let rows = rows.map(|request| {
        let status = match request.status {
            0 => "timeout".to_owned(),
            status => status.to_string(),
        };
        let mut row = vec![text(status)];
        if traced {
            row.push(trace_cell(request, &result.plan.tracing));
        }
        row.push(time_ns(Some(request.due_ns)));
        row.push(time_ns(Some(request.latency_ns())));
        row.push(time_ns(Some(request.own_ns)));
        row.push(time_ns(Some(request.waited_ns)));
        row.push(time_ns(Some(request.connecting_ns)));
        row.push(time_ns(Some(request.first_byte_ns)));
        row.push(time_ns(Some(request.last_byte_ns)));
        row.push(match request.path {
            None => tables::unknown(),
            Some(path) => {
                let some = u64::from(path.retransmitted);
                toned_if(some > 0, Tone::Warning, tables::count(some))
            }
        });
        row.extend((0..names.len()).map(|at| time_ns(request.server_timing_ns.get(at))));
        row
    });
    let words: &[&str] = if traced {
        &["Status", "Trace"]
    } else {
        &["Status"]
    };
    TableBlock::new("The slowest requests", columns(words, &heads), rows)
}

/// The slowest requests, and behind them those that are listed only because they have a trace.
fn listed(breakdown: &BreakdownRecording) -> impl Iterator<Item = &SlowRequest> {
    let least_ns = match breakdown.slowest.len() {
        LISTED => breakdown.slowest.last().map_or(0, SlowRequest::latency_ns),
        _ => 0,
    };
    let traced = breakdown.slowest_traced.iter();
    let others = traced.filter(move |it| it.latency_ns() < least_ns);
    breakdown.slowest.iter().chain(others)
}

fn trace_cell(request: &SlowRequest, tracing: &TracingSpec) -> TableCell {
    let Some(trace_id) = request.trace_id else {
        return tables::unknown();
    };
    let id = trace_id.to_string();
    TableCell {
        link: tracing.link(&id),
        ..text(id)
    }
}

/// Where the time of the slowest requests went, below the text of a run.
pub(super) fn text_of_run(result: &RunResult) -> Vec<TextBlock> {
    let breakdown = result.recording.parts.breakdown.as_ref();
    let Some((breakdown, slowest)) = breakdown.and_then(|it| Some((it, Slowest::of(it)?))) else {
        return Vec::new();
    };
    let mut text = vec![TextBlock::Line(String::new())];
    for table in [
        parts(&result.recording, Duration::ZERO),
        server_timing(&result.recording, Duration::ZERO),
    ] {
        if !table.rows.is_empty() {
            text.extend([TextBlock::Table(table), TextBlock::Line(String::new())]);
        }
    }
    let lines = sentences(&slowest, breakdown, &result.plan.tracing);
    text.extend(lines.into_iter().map(TextBlock::Line));
    text
}

fn sentences(
    slowest: &Slowest,
    breakdown: &BreakdownRecording,
    tracing: &TracingSpec,
) -> Vec<String> {
    let sentence = slowest.sentence();
    let sentences = sentence.split(". ");
    let mut lines: Vec<String> = sentences
        .map(|sentence| format!("  {}", words::sentence(sentence)))
        .collect();
    if tracing.server_timing && breakdown.with_server_timing == 0 {
        lines.push("  No response had a Server-Timing header with a duration.".to_owned());
    }
    if tracing.traceparent_one_in.is_some() {
        let traced = counted(breakdown.traced, "request");
        lines.push(format!("  {traced} had a trace. The slowest of these:"));
    }
    for request in breakdown.slowest_traced.iter().take(TRACES_IN_TEXT) {
        let cell = trace_cell(request, tracing);
        let latency = plan::readable::time_ns(request.latency_ns());
        lines.push(format!("    {latency}: {}", cell.link.unwrap_or(cell.text)));
    }
    lines
}
