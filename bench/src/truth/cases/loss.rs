//! HTTP/3 behind a link that loses datagrams, or delays and doubles them: times, losses and counts.
//!
//! In a closed loop with one request in flight on each connection, a request is sent when the
//! response before it has arrived. If nothing is lost on the way to the client, that takes the same
//! time for each response, so the time from one departure to the next at the server is a latency.
//! If nothing is lost on the way to the server, the time from one arrival to the next is. So the
//! server's log has each latency, with the time that the loss of a packet costs.

use std::time::Duration;

use anyhow::Context;

use super::stall::responses_ms;
use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::lab::{HTTP3_SERVER, Lab};
use crate::truth::log::{ServedRequest, ServerLog};
use crate::truth::relay::{Link, Passed, Relay, Weather};
use crate::truth::run_report::{RunReport, mean_ms, percentile_us};

const BACKENDS: [&str; 2] = ["uring", "epoll"];
const THREADS: [u32; 3] = [1, 2, 4];

const DELAY: Duration = Duration::from_millis(5);
const ROUND_TRIP_MS: f64 = 10.0;

const CONNECTIONS: u32 = 8;
const REQUESTS: u64 = 1_500;
/// Each request has a datagram of its own at this rate, so that they overtake each other.
const RATE_PER_SEC: u32 = 2_000;
const REQUESTS_AT_A_RATE: u64 = 10_000;
/// Exceeds the duration of a run.
const LIMIT_S: u32 = 30;

const LOST: Weather = Weather {
    lost: 0.02,
    doubled: 0.0,
    late: 0.0,
};
const MIXED_UP: Weather = Weather {
    lost: 0.0,
    doubled: 0.02,
    late: 0.1,
};

/// Threads of the link, the server and the client share two cores.
const NEAR: Tolerance = Tolerance::ShareOr(0.02, 1.0);

/// Where datagrams are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::ToServer => "to the server",
            Self::ToClient => "to the client",
        }
    }

    fn link(self) -> Link {
        let (to_server, to_client) = match self {
            Self::ToServer => (LOST, Weather::default()),
            Self::ToClient => (Weather::default(), LOST),
        };
        Link {
            delay: DELAY,
            to_server,
            to_client,
            seed: 1,
        }
    }

    /// When a request has left the part of its way on which nothing is lost.
    fn at_ns(self, one: &ServedRequest) -> Option<u64> {
        match self {
            Self::ToServer => one.departure_ns,
            Self::ToClient => Some(one.arrival_ns),
        }
    }
}

pub(super) fn losses(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    for way in [Way::ToServer, Way::ToClient] {
        for io in BACKENDS {
            for threads in THREADS {
                let options = format!("--io {io} -t{threads} --http3 -c{CONNECTIONS} -n{REQUESTS}");
                let (ours, log, passed) = behind(lab, case, way.link(), &options)?;
                let label = format!("{}, {io} -t{threads}", way.name());
                compare_losses(case, &label, way, (&ours, &log, passed))?;
            }
        }
    }
    Ok(())
}

pub(super) fn disorder(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    let link = Link {
        delay: DELAY,
        to_server: MIXED_UP,
        to_client: MIXED_UP,
        seed: 1,
    };
    for io in BACKENDS {
        for threads in THREADS {
            let options = format!(
                "--io {io} -t{threads} --http3 -c{CONNECTIONS} -m16 -R{RATE_PER_SEC} \
                 -n{REQUESTS_AT_A_RATE}"
            );
            let (ours, log, passed) = behind(lab, case, link, &options)?;
            let label = format!("{io} -t{threads}");
            compare_counts(case, &label, &ours, &log);
            compare_mean(case, &label, &ours, &log);
            compare_datagrams(case, &label, &ours, passed);
        }
    }
    Ok(())
}

/// A run against a server behind a link.
fn behind(
    lab: &Lab,
    case: &mut CaseResult,
    link: Link,
    options: &str,
) -> anyhow::Result<(RunReport, ServerLog, Passed)> {
    let ((ours, passed), log) = lab.observe(case, HTTP3_SERVER, |origin| {
        let relay = Relay::start(link, origin.port())?;
        let ours = lab.ours(options, &relay.url("/"), LIMIT_S)?;
        Ok((ours, relay.stop()?))
    })?;
    Ok((ours, log, passed))
}

/// Compares the percentiles of a run with those in the server's log, and what was lost with what
/// the link has lost.
fn compare_losses(
    case: &mut CaseResult,
    label: &str,
    way: Way,
    (ours, log, passed): (&RunReport, &ServerLog, Passed),
) -> anyhow::Result<()> {
    compare_counts(case, label, ours, log);
    let recording = ours.recording();
    let quic = recording.parts.quic.as_ref().context("it used no QUIC")?;
    // The client knows what was lost on its own way only.
    case.count(
        format!("{label}: lost packets, by the link"),
        passed.to_server.lost,
        quic.packets_lost,
    );
    let truth_ms = stats::sorted(&latencies_ms(log, way));
    for percent in [50.0, 90.0, 99.0] {
        let truth = stats::quantile(&truth_ms, percent / 100.0);
        case.ours(
            format!("{label}: p{percent}, by the server's log"),
            Figure::Ms(truth.context("the server answered nothing")?),
            NEAR,
            ours.latency_ms(percent).map(Figure::Ms),
        );
    }
    let least_ms = percentile_us(&quic.min_rtt, 50.0).map(|us| us / 1e3);
    case.ours(
        format!("{label}: least round trip, median"),
        Figure::Ms(ROUND_TRIP_MS),
        NEAR,
        least_ms.map(Figure::Ms),
    );
    Ok(())
}

/// Each request was answered, and the server had it once.
fn compare_counts(case: &mut CaseResult, label: &str, ours: &RunReport, log: &ServerLog) {
    let (seen, truth) = (&ours.recording().counters, &log.counts);
    case.count(format!("{label}: requests"), truth.requests, seen.sent);
    case.count(
        format!("{label}: responses"),
        truth.responses,
        seen.answered,
    );
}

/// The mean response time. The log has when a request was due, later by the delay of the promptest
/// one. The order of requests does not matter to a mean.
fn compare_mean(case: &mut CaseResult, label: &str, ours: &RunReport, log: &ServerLog) {
    let due_ns = log.even_schedule_ns(f64::from(RATE_PER_SEC));
    let at_server_ms = stats::mean(&responses_ms(log, &due_ns)).unwrap_or(f64::NAN);
    // Late datagrams are late by the delay of the link on average.
    let back_ms = ROUND_TRIP_MS / 2.0 * (1.0 + MIXED_UP.late);
    case.ours(
        format!("{label}: mean time, by the server's log and the link"),
        Figure::Ms(ROUND_TRIP_MS / 2.0 + at_server_ms + back_ms),
        NEAR,
        mean_ms(&ours.recording().response_time).map(Figure::Ms),
    );
}

/// Datagrams of both directions, by the link. The question for the server's versions before a run
/// and the ends of connections are no part of it.
fn compare_datagrams(case: &mut CaseResult, label: &str, ours: &RunReport, passed: Passed) {
    let quic = ours.recording().parts.quic.clone().unwrap_or_default();
    let (to_server, to_client) = (passed.to_server, passed.to_client);
    for (what, truth, seen) in [
        ("sent", to_server.came, quic.datagrams_sent),
        (
            "received",
            to_client.came - to_client.lost + to_client.doubled,
            quic.datagrams_received,
        ),
    ] {
        case.ours(
            format!("{label}: datagrams {what}, by the link"),
            Figure::Count(truth as f64),
            Tolerance::Within(2.0 * f64::from(CONNECTIONS)),
            Some(Figure::Count(seen as f64)),
        );
    }
}

/// From one request to the next on each connection.
fn latencies_ms(log: &ServerLog, way: Way) -> Vec<f64> {
    let mut before = std::collections::HashMap::new();
    let latency = |one: &ServedRequest| {
        let at_ns = way.at_ns(one)?;
        let before_ns = before.insert(one.connection, at_ns)?;
        Some(at_ns.saturating_sub(before_ns) as f64 / 1e6)
    };
    log.served.iter().filter_map(latency).collect()
}
