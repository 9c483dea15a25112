//! Requests that are never answered count once, with the time until the timeout.

use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::lab::{Lab, words};
use crate::truth::peers::{Peer, PeerLoad};

const SERVER: &str = "--answer mix=1%:hang";
const DURATION_S: u32 = 10;
const TIMEOUT_MS: f64 = 1_000.0;

/// Seconds of a run in which no request is answered.
const SILENT_S: u32 = 2;

pub(super) fn run(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    let options = "-t1 -c64 -d10s -R200 --timeout 1s --percentiles 50,99.5";
    let (ours, log) = lab.observe(case, SERVER, |origin| {
        lab.ours(options, &origin.url("/"), DURATION_S)
    })?;
    let recording = ours.recording();
    let counters = &recording.counters;
    let timeouts = recording.errors.count(results::ErrorKind::Timeout);
    case.count(
        "unanswered requests",
        log.unanswered(),
        timeouts.exchanges + counters.in_flight,
    );
    case.count(
        "unanswered requests: error events",
        timeouts.exchanges,
        timeouts.events,
    );
    let samples = recording.latency().count();
    case.count("samples of latency", counters.due, samples);
    case.ours(
        "p99.5",
        Figure::Ms(TIMEOUT_MS),
        Tolerance::AtLeast,
        ours.latency_ms(99.5).map(Figure::Ms),
    );
    // A hung request blocks only its own connection.
    let logged = stats::quantile(&stats::sorted(&log.sojourns_ms()), 0.5);
    case.ours(
        "p50, by the server's log",
        Figure::Ms(logged.unwrap_or(f64::NAN)),
        Tolerance::Within(1.0),
        ours.latency_ms(50.0).map(Figure::Ms),
    );
    silent(lab, case)?;
    let work = PeerLoad {
        connections: 64,
        duration_s: DURATION_S,
        rate_per_sec: Some(200),
        timeout_s: 1,
        ..PeerLoad::default()
    };
    let which = [Peer::Wrk, Peer::Wrk2, Peer::WrkCmm];
    lab.peers(case, &which, (SERVER, "/"), &work, |said, log| {
        let hung = said.total("timeouts").map(Figure::Count);
        let p995 = said.latency_ms(99.5).map(Figure::Ms);
        let without = "unanswered requests".to_owned();
        let p995 = (
            "p99.5".to_owned(),
            Figure::Ms(TIMEOUT_MS),
            Tolerance::AtLeast,
            p995,
        );
        let unanswered = Figure::Count(log.unanswered() as f64);
        vec![(without, unanswered, Tolerance::Exact, hung), p995]
    })
}

/// A run without a single response must not look successful.
fn silent(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    let (ended, _) = lab.observe(case, "--answer fault=hang", |origin| {
        let mut arguments = words("-t1 -c2 -d2s --timeout 1s");
        arguments.push(origin.url("/"));
        lab.client(lab.wrkbench(), &arguments, SILENT_S)
    })?;
    let failed = if ended.status.success() {
        "success"
    } else {
        "failure"
    };
    case.ours(
        "everything hangs: exit code",
        Figure::word("failure"),
        Tolerance::Exact,
        Some(Figure::word(failed)),
    );
    Ok(())
}
