//! Metrics, text and table of the server's CPU time.

use plan::readable::{count, counted, decimal};
use presentation::tables::{self, columns, known};
use presentation::{TableBlock, TextBlock, words};

use super::ServerRecording;
use crate::RunResult;
use crate::metric::Better::{Lower, Neither};
use crate::metric::{Getter, MetricRow, Needs, Unit, row};

const NEEDS: Needs = Needs::new(
    "CPU of the server (--server)",
    |_| "the server's CPU time was not measured (--server)",
);

#[rustfmt::skip]
pub(super) static METRICS: [MetricRow; 2] = [
    row("server_cores", &[], "CPUs that the server used", (Unit::Number, Neither, NEEDS),
        Getter::Number(|run| run.recording.parts.server?.cores())),
    row("server_cpu_per_request_us", &["server_cpu_per_request"],
        "CPU time of the server per request", (Unit::Microseconds, Lower, NEEDS),
        Getter::Number(|run| {
            run.recording.parts.server?.cpu_per_request_us(run.recording.counters.responses())
        })),
];

/// A line below the text of a run: `Server CPU:   0.84 cores, 31.20us per request (4 processes)`.
pub(super) fn text_of_run(result: &RunResult) -> Vec<TextBlock> {
    let text = |server: ServerRecording| {
        let cores = decimal(server.cores()?, 2);
        let responses = result.recording.counters.responses();
        let per_request = match server.cpu_per_request_us(responses) {
            Some(time_us) => format!(", {} per request", plan::units::time_us(time_us)),
            None => String::new(),
        };
        let processes = counted(server.processes, "process");
        Some(TextBlock::Line(format!(
            "Server CPU:   {cores} cores{per_request} ({processes})"
        )))
    };
    result
        .recording
        .parts
        .server
        .and_then(text)
        .into_iter()
        .collect()
}

/// The CPU time of each run.
pub(super) fn table(result: &RunResult) -> TableBlock {
    let responses = result.recording.counters.responses();
    let rows = result.recording.parts.server.iter().map(|server| {
        vec![
            known(server.cores(), words::number),
            known(server.cpu_per_request_us(responses), words::number),
            tables::value(count(server.processes), server.processes as f64),
        ]
    });
    let heads = ["CPUs used", "CPU time per request, us", "Processes"];
    TableBlock::new("CPU of the server", columns(&[], &heads), rows)
}
