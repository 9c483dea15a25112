//! Streams of a language model's server: times and numbers of tokens, and good requests.
//!
//! With known times, and with a server that stalls: from when a request was due, its first token
//! has waited through the stall, however few connections there are. The truth is in the server's
//! log, where the k-th request to arrive was the k-th that was due.

use anyhow::Context;

use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::lab::Lab;
use crate::truth::log::ServerLog;
use crate::truth::run_report::{RunReport, mean_ms, percentile_us};

/// Exceeds the duration of a run.
const LIMIT_S: u32 = 60;

/// Known times: 50 ms to the first token, 10 ms from one event to the next.
const FIRST_MS: f64 = 50.0;
const GAP_MS: f64 = 10.0;
const TIMED: &str = "prompt=9&tokens=16&first=50ms&gap=10ms";
const TIMED_REQUESTS: u64 = 160;
/// 2 % of the time to the first token.
const NEAR: Tolerance = Tolerance::Within(1.0);

/// Label, kind of stream, options of the client, events of a stream.
const STREAMS: [(&str, &str, &str, f64); 9] = [
    ("openai, prelude", "llm=openai", "-c8", 16.0),
    (
        "openai, 4 tokens an event",
        "llm=openai&per-event=4",
        "-c8",
        4.0,
    ),
    ("openai, reasoning", "llm=openai&reasoning=6", "-c8", 16.0),
    (
        "openai, usage in each event",
        "llm=openai&usage=each",
        "-c8",
        16.0,
    ),
    ("completions", "llm=completions", "-c8", 16.0),
    ("responses", "llm=responses", "-c8", 16.0),
    (
        "anthropic, comments",
        "llm=anthropic&comments=3ms",
        "-c8",
        16.0,
    ),
    ("ollama", "llm=ollama", "-c8", 16.0),
    (
        "openai, 32 streams of HTTP/2",
        "llm=openai",
        "--http2 -c1 -m32",
        16.0,
    ),
];

const RATE_PER_SEC: u32 = 200;
const REQUESTS: u64 = 1_000;
const STALLED: &str = "--stall 2s,1s --answer llm=openai&tokens=uniform:4,12&first=2ms&gap=1ms";
const GOOD_FIRST_MS: f64 = 300.0;
/// A request this close to the limit may count either way: the log has the server's times, not the
/// client's.
const UNSURE_MS: f64 = 1.0;
/// Tolerance of the percentiles.
const STALL_NEAR: Tolerance = Tolerance::ShareOr(0.02, 5.0);

pub(super) fn run(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    for (label, stream, options, events) in STREAMS {
        let path = format!("/?{stream}&{TIMED}");
        let (ours, log) = lab.observe(case, "", |origin| {
            let options = format!("-t1 -n{TIMED_REQUESTS} --events llm {options}");
            lab.ours(&options, &origin.url(&path), LIMIT_S)
        })?;
        known_times(case, label, &ours, events);
        sums(case, label, &ours, &log);
    }
    for io in ["uring", "epoll"] {
        for threads in [1, 2, 4, 8] {
            for connections in ["-c20", "--http2 -c8 -m3"] {
                let options = format!(
                    "--io {io} -t{threads} {connections} -R{RATE_PER_SEC} -n{REQUESTS} \
                     --timeout 10s --events llm --good first_token<{GOOD_FIRST_MS}ms"
                );
                let (ours, log) = lab.observe(case, STALLED, |origin| {
                    lab.ours(&options, &origin.url("/"), LIMIT_S)
                })?;
                let label = format!("stall, {io} -t{threads} {connections}");
                stalled(case, &label, &ours, &log)?;
                sums(case, &label, &ours, &log);
            }
        }
    }
    Ok(())
}

/// Compares with the times that the server was asked for.
fn known_times(case: &mut CaseResult, label: &str, ours: &RunReport, events: f64) {
    let llm = ours.recording().parts.llm.clone().unwrap_or_default();
    // The last event has all of its tokens, so the time covers the tokens after the first one.
    let per_token_ms = GAP_MS * (events - 1.0) / 15.0;
    for (what, truth_ms, histogram) in [
        ("first token", FIRST_MS, &llm.first_token),
        ("token gap", GAP_MS, &llm.token_gap),
        ("time per token", per_token_ms, &llm.time_per_token),
    ] {
        // Not the higher percentiles: server and client sleep between events, and on a shared
        // machine one of them is often woken late.
        let median = percentile_us(histogram, 50.0).map(|us| us / 1e3);
        for (figure, seen_ms) in [("mean", mean_ms(histogram)), ("median", median)] {
            let what = format!("{label}: {what}, {figure}");
            case.ours(what, Figure::Ms(truth_ms), NEAR, seen_ms.map(Figure::Ms));
        }
    }
}

/// Compares with what the server has sent. All requests were answered.
fn sums(case: &mut CaseResult, label: &str, ours: &RunReport, log: &ServerLog) {
    let llm = ours.recording().parts.llm.clone().unwrap_or_default();
    let tokens = log.served.iter().filter_map(|one| one.tokens);
    let tokens: u64 = tokens.map(|tokens| tokens.count).sum();
    case.count(
        format!("{label}: responses"),
        log.counts.responses,
        llm.responses,
    );
    case.count(format!("{label}: output tokens"), tokens, llm.output_tokens);
}

/// Compares percentiles from when a request was due, and the number of good requests.
fn stalled(
    case: &mut CaseResult,
    label: &str,
    ours: &RunReport,
    log: &ServerLog,
) -> anyhow::Result<()> {
    let due_ns = log.even_schedule_ns(f64::from(RATE_PER_SEC));
    let first = log.served.iter().zip(due_ns).filter_map(|(one, due_ns)| {
        let first_ns = one.tokens?.first_ns?;
        Some((log.since_first_ns(first_ns) - due_ns) / 1e6)
    });
    let truth_ms = stats::sorted(&first.collect::<Vec<_>>());
    let llm = ours.recording().parts.llm.clone().unwrap_or_default();
    for percent in [50.0, 90.0, 99.0] {
        let truth = stats::quantile(&truth_ms, percent / 100.0).context("there was no token")?;
        let seen = percentile_us(&llm.first_token, percent).map(|us| us / 1e3);
        case.ours(
            format!("{label}: first token p{percent}"),
            Figure::Ms(truth),
            STALL_NEAR,
            seen.map(Figure::Ms),
        );
    }
    let good = ours
        .recording()
        .parts
        .good
        .as_ref()
        .map(|good| good.good as f64);
    let below = |limit_ms: f64| truth_ms.iter().filter(|ms| **ms < limit_ms).count() as f64;
    for (what, limit_ms, tolerance) in [
        ("at least", GOOD_FIRST_MS - UNSURE_MS, Tolerance::AtLeast),
        ("at most", GOOD_FIRST_MS + UNSURE_MS, Tolerance::AtMost),
    ] {
        case.ours(
            format!("{label}: good requests, {what}"),
            Figure::Count(below(limit_ms)),
            tolerance,
            good.map(Figure::Count),
        );
    }
    Ok(())
}
