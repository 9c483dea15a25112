//! A server that stalls, and independent users.
//!
//! Requests that arrive in [3 s, 5 s) are answered at 5 s. At an even rate, a fifth of the requests
//! arrive in the stall, with waits distributed uniformly from 0 to 2 s. A tool that measures from
//! when a request was due must find that, however few connections it has.

use anyhow::Context;

use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::lab::{HTTP3_SERVER, Lab};
use crate::truth::log::ServerLog;
use crate::truth::peers::{Peer, PeerLoad};
use crate::truth::run_report::percentile_us;

const RATE_PER_SEC: u32 = 200;
const DURATION_S: u32 = 10;
/// Short, so that the backlog of ten connections is worked off within 2 % of the stall.
const SERVER: &str = "--answer delay=200us --stall 3s,2s";
const STALL_MS: f64 = 2_000.0;
const STALLED_SHARE: f64 = 0.2;

/// Tolerance of all percentiles.
const NEAR: Tolerance = Tolerance::ShareOr(0.02, 5.0);

/// Allowed difference of the median from the server's, in microseconds.
const MEDIAN: Tolerance = Tolerance::Within(50.0);

pub(super) fn run(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    ours(lab, case, "", "-c10")?;
    other_tools(lab, case)
}

pub(super) fn http2(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    ours(lab, case, "", "--http2 -c2 -m5")
}

pub(super) fn http3(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    ours(lab, case, HTTP3_SERVER, "--http3 -c2 -m5")
}

/// With ten requests in flight at most.
fn ours(lab: &Lab, case: &mut CaseResult, also: &str, options: &str) -> anyhow::Result<()> {
    let options = &format!("-t1 {options} -d10s -R200 --timeout 5s");
    let (ours, log) = lab.observe(case, &format!("{SERVER} {also}"), |origin| {
        lab.ours(options, &origin.url("/"), DURATION_S)
    })?;
    let recording = ours.recording();
    let counters = &recording.counters;
    case.ours(
        "requests due",
        Figure::Count(f64::from(RATE_PER_SEC * DURATION_S)),
        Tolerance::Within(1.0),
        Some(Figure::Count(counters.due as f64)),
    );
    case.count("requests sent", log.counts.requests, counters.sent);
    let served_ms = stats::sorted(&log.sojourns_ms());
    let median_ms = stats::quantile(&served_ms, 0.5).context("the server answered nothing")?;
    let response_ms = stats::sorted(&responses_ms(
        &log,
        &log.even_schedule_ns(f64::from(RATE_PER_SEC)),
    ));
    for percent in [50.0, 90.0, 95.0, 99.0] {
        let seen = ours.latency_ms(percent);
        let formula_ms = formula_ms(percent, median_ms);
        case.ours(
            format!("p{percent}, by formula"),
            Figure::Ms(formula_ms),
            NEAR,
            seen.map(Figure::Ms),
        );
        let logged = stats::quantile(&response_ms, percent / 100.0).unwrap_or(f64::NAN);
        case.ours(
            format!("p{percent}, by the server's log"),
            Figure::Ms(logged),
            NEAR,
            seen.map(Figure::Ms),
        );
    }
    let seen_us = ours.latency_ms(50.0).map(|ms| ms * 1e3);
    case.ours(
        "median",
        Figure::Us(median_ms * 1e3),
        MEDIAN,
        seen_us.map(Figure::Us),
    );
    // Ten of two thousand requests: the stall must not be visible below p99 in service times.
    let service = stats::quantile(&served_ms, 0.99).map(|ms| ms * 1e3);
    case.ours(
        "service time p99, by the log",
        Figure::Us(service.unwrap_or(f64::NAN)),
        Tolerance::ShareOr(0.02, 200.0),
        percentile_us(&recording.uncorrected(), 99.0).map(Figure::Us),
    );
    Ok(())
}

fn other_tools(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    let work = PeerLoad {
        connections: 10,
        duration_s: DURATION_S,
        rate_per_sec: Some(RATE_PER_SEC),
        timeout_s: 5,
        ..PeerLoad::default()
    };
    lab.peers(case, &Peer::ALL, (SERVER, "/"), &work, |said, log| {
        let served_ms = stats::sorted(&log.sojourns_ms());
        let median_ms = stats::quantile(&served_ms, 0.5).unwrap_or(f64::NAN);
        let mut checks: Vec<_> = [50.0, 90.0, 95.0, 99.0]
            .into_iter()
            .map(|percent| {
                let truth = Figure::Ms(formula_ms(percent, median_ms));
                let seen = said.latency_ms(percent).map(Figure::Ms);
                (format!("p{percent}, by formula"), truth, NEAR, seen)
            })
            .collect();
        let seen_us = said.latency_ms(50.0).map(|ms| ms * 1e3);
        checks.push((
            "median".to_owned(),
            Figure::Us(median_ms * 1e3),
            MEDIAN,
            seen_us.map(Figure::Us),
        ));
        checks
    })
}

fn formula_ms(percent: f64, service_ms: f64) -> f64 {
    stats::stall_quantile(STALL_MS, STALLED_SHARE, percent / 100.0) + service_ms
}

/// Times from when each request was due, matched by order of arrival, to the departure of its
/// response.
pub(super) fn responses_ms(log: &ServerLog, due_ns: &[f64]) -> Vec<f64> {
    let response = |(one, due_ns): (&crate::truth::log::ServedRequest, &f64)| {
        Some((log.since_first_ns(one.departure_ns?) - due_ns) / 1e6)
    };
    log.served.iter().zip(due_ns).filter_map(response).collect()
}
