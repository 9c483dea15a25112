//! One request at a time over HTTP/3 and over HTTP/2: what the timers of QUIC, such as the delay of
//! acknowledgements, add to the latency.

use anyhow::Context;

use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::lab::{HTTP3_SERVER, Lab};

const SERVER: &str = "--answer delay=2ms";
const REQUESTS: u32 = 1_000;
/// Exceeds the duration of a run.
const LIMIT_S: u32 = 30;

/// Percentile, and how far HTTP/3 may be from HTTP/2, in microseconds. A delayed acknowledgement
/// would cost 25 ms (RFC 9000 section 18.2).
const ALIKE: [(f64, f64); 2] = [(50.0, 50.0), (90.0, 500.0)];

pub(super) fn run(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    for io in ["uring", "epoll"] {
        let over_2 = above_server_us(lab, case, io, "--http2")?;
        let over_3 = above_server_us(lab, case, io, "--http3")?;
        for ((percent, most_us), (truth, seen)) in ALIKE.iter().zip(over_2.iter().zip(over_3)) {
            case.ours(
                format!("{io}: p{percent} above the server's, as over HTTP/2"),
                Figure::Us(*truth),
                Tolerance::Within(*most_us),
                Some(Figure::Us(seen)),
            );
        }
    }
    Ok(())
}

/// How much longer than at the server a request takes at the client, for each percentile.
fn above_server_us(
    lab: &Lab,
    case: &mut CaseResult,
    io: &str,
    protocol: &str,
) -> anyhow::Result<Vec<f64>> {
    let options = format!("--io {io} -t1 -c1 -m1 -n{REQUESTS} {protocol}");
    let (ours, log) = lab.observe(case, &format!("{SERVER} {HTTP3_SERVER}"), |origin| {
        lab.ours(&options, &origin.url("/"), LIMIT_S)
    })?;
    let served_ms = stats::sorted(&log.sojourns_ms());
    let above = ALIKE.map(|(percent, _)| {
        let served_ms = stats::quantile(&served_ms, percent / 100.0)?;
        Some((ours.latency_ms(percent)? - served_ms) * 1e3)
    });
    let above = above.into_iter().collect::<Option<_>>();
    above.context("nothing was answered")
}
