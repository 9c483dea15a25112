//! Arrivals at the server are even, or a Poisson process.

use anyhow::Context;

use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::lab::{HTTP3_SERVER, Lab};
use crate::truth::log::ServerLog;
use crate::truth::peers::{Peer, PeerLoad};
use crate::truth::run_report::percentile_us;

const EVEN_PER_SEC: u32 = 1_000;
const EVEN_S: u32 = 10;

/// Allowed deviation from the schedule at the 99th percentile, microseconds.
const JITTER_US: f64 = 100.0;

const POISSON_PER_SEC: f64 = 200.0;
const POISSON_S: u32 = 10;
const SEEDS: u64 = 5;

/// Below this p-value, a distribution is rejected.
const P_VALUE: f64 = 0.01;

pub(super) fn even(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    ours_evenly(lab, case, "", "-c16")?;
    let work = PeerLoad {
        connections: 16,
        duration_s: EVEN_S,
        rate_per_sec: Some(EVEN_PER_SEC),
        timeout_s: 5,
        ..PeerLoad::default()
    };
    let which = [Peer::Wrk2, Peer::H2load];
    lab.peers(case, &which, ("", "/"), &work, |_, log| at_the_server(log))
}

pub(super) fn even_http2(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    ours_evenly(lab, case, "", "--http2 -c4 -m4")
}

pub(super) fn even_http3(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    ours_evenly(lab, case, HTTP3_SERVER, "--http3 -c4 -m4")
}

/// With sixteen requests in flight at most.
fn ours_evenly(
    lab: &Lab,
    case: &mut CaseResult,
    server: &str,
    options: &str,
) -> anyhow::Result<()> {
    let options = &format!("-t1 {options} -d10s -R1000");
    let (ours, log) = lab.observe(case, server, |origin| {
        lab.ours(options, &origin.url("/"), EVEN_S)
    })?;
    let counters = &ours.recording().counters;
    case.ours(
        "requests due",
        Figure::Count(f64::from(EVEN_PER_SEC * EVEN_S)),
        Tolerance::Within(1.0),
        Some(Figure::Count(counters.due as f64)),
    );
    case.ours(
        "responses per second",
        Figure::PerSec(f64::from(EVEN_PER_SEC)),
        Tolerance::Share(0.001),
        ours.requests_per_sec().map(Figure::PerSec),
    );
    for (what, truth, tolerance, seen) in at_the_server(&log) {
        case.ours(what, truth, tolerance, seen);
    }
    let lags = &ours.recording().lags;
    for (what, lag) in [
        ("send lag p99", &lags.send),
        ("own send lag p99", &lags.own),
    ] {
        let seen = percentile_us(lag, 99.0).map(Figure::Us);
        case.ours(what, Figure::Us(JITTER_US), Tolerance::AtMost, seen);
    }
    Ok(())
}

/// Checks of the arrivals in the server's log.
fn at_the_server(log: &ServerLog) -> Vec<crate::truth::lab::PeerCheck> {
    let rate = f64::from(EVEN_PER_SEC);
    let span_s: f64 = log.gaps_s().iter().sum();
    let due_ns = log.even_schedule_ns(rate);
    let off_us = |(one, due_ns): (&crate::truth::log::ServedRequest, f64)| {
        (log.since_first_ns(one.arrival_ns) - due_ns) / 1e3
    };
    let off: Vec<f64> = log.served.iter().zip(due_ns).map(off_us).collect();
    let off = stats::quantile(&stats::sorted(&off), 0.99);
    let arrived = (span_s > 0.0).then(|| (log.served.len() - 1) as f64 / span_s);
    vec![
        (
            "arrivals per second at the server".to_owned(),
            Figure::PerSec(rate),
            Tolerance::Share(0.001),
            arrived.map(Figure::PerSec),
        ),
        (
            "arrivals off the schedule, p99".to_owned(),
            Figure::Us(JITTER_US),
            Tolerance::AtMost,
            off.map(Figure::Us),
        ),
    ]
}

pub(super) fn poisson(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    let mut gaps_s = Vec::new();
    let mut counts = Vec::new();
    for seed in 1..=SEEDS {
        let options = format!("-t1 -c64 -d10s -R200 --arrivals poisson --seed {seed}");
        let (_, log) = lab.observe(case, "", |origin| {
            lab.ours(&options, &origin.url("/"), POISSON_S)
        })?;
        let seen = log.gaps_s();
        let fit = stats::exponential_fit(&seen, POISSON_PER_SEC).context("no arrivals")?;
        case.ours(
            format!("fit of gaps, seed {seed}: p-value"),
            Figure::Plain(P_VALUE),
            Tolerance::AtLeast,
            Some(Figure::Plain(fit.p_value)),
        );
        gaps_s.extend(seen);
        // One arrival is expected in each bin.
        counts.extend(log.counts_per_bin(1.0 / POISSON_PER_SEC));
    }
    let expected = POISSON_PER_SEC * f64::from(POISSON_S) * SEEDS as f64;
    case.ours(
        "arrivals of all seeds",
        Figure::Count(expected),
        // Three standard deviations of a Poisson count.
        Tolerance::Within((3.0 * expected.sqrt()).round()),
        Some(Figure::Count((gaps_s.len() as u64 + SEEDS) as f64)),
    );
    case.ours(
        "index of dispersion",
        Figure::Plain(1.0),
        Tolerance::Within(0.05),
        stats::index_of_dispersion(&counts).map(Figure::Plain),
    );
    Ok(())
}
