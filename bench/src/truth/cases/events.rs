//! Events of streaming responses, with a known time to the first one and known gaps.

use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::lab::{HTTP3_SERVER, Lab};
use crate::truth::run_report::mean_ms;

const FIRST_MS: f64 = 50.0;
const GAP_MS: f64 = 20.0;
const EVENTS: u64 = 10;
const REQUESTS: u64 = 200;
/// 1 ms, which is 2 % of the time to the first event.
const NEAR: Tolerance = Tolerance::Within(1.0);

/// Exceeds the duration of the run.
const LIMIT_S: u32 = 60;

/// Label, format, options of the server, options of the client.
const RUNS: [(&str, &str, &str, &str); 5] = [
    ("server-sent events", "sse", "", "-c8"),
    ("lines", "lines", "", "-c8"),
    ("chunks", "chunks", "", "-c8"),
    ("HTTP/2", "sse", "", "-c2 -m4 --http2"),
    ("HTTP/3", "sse", HTTP3_SERVER, "-c2 -m4 --http3"),
];

pub(super) fn run(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    for (label, format, server, options) in RUNS {
        let path = format!("/?events={EVENTS}&first=50ms&gap=20ms&events-format={format}");
        let (ours, _) = lab.observe(case, server, |origin| {
            let options = format!("-t1 -n {REQUESTS} --events {format} {options}");
            lab.ours(&options, &origin.url(&path), LIMIT_S)
        })?;
        let events = ours.recording().parts.events.clone().unwrap_or_default();
        let complete = events.streams * EVENTS;
        case.count(format!("{label}: responses"), REQUESTS, events.streams);
        case.count(format!("{label}: events"), complete, events.arrived);
        for (what, truth_ms, histogram) in [
            ("first event", FIRST_MS, &events.first_event),
            ("gap", GAP_MS, &events.gap),
        ] {
            let mean = mean_ms(histogram).map(Figure::Ms);
            let truth = || Figure::Ms(truth_ms);
            case.ours(format!("{label}: {what}, mean"), truth(), NEAR, mean);
            // Not the higher percentiles: server and client sleep between events, and on a shared
            // machine one of them is often woken more than 1 ms late.
            let median = histogram.value_at_percentile(50.0) as f64 / 1e6;
            let median = (!histogram.is_empty()).then_some(Figure::Ms(median));
            case.ours(format!("{label}: {what}, median"), truth(), NEAR, median);
        }
    }
    Ok(())
}
