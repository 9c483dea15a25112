//! The phases of a request, each with a known duration.
//!
//! The kernel establishes a TCP connection before the server learns of it, so that the server
//! cannot delay it. It delays the TLS handshake (5 ms until it reads, 7 ms until it responds), the
//! first byte (11 ms) and the rest (13 ms).

use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::lab::Lab;
use crate::truth::peers::{Peer, PeerLoad};
use crate::truth::run_report::mean_ms;

const SERVER: &str = "--tls --accept-delay 5ms --tls-delay 7ms --answer delay=11ms&tail=13ms&close";
const TLS_MS: f64 = 12.0;
const FIRST_BYTE_MS: f64 = 11.0;
const LAST_BYTE_MS: f64 = 13.0;
const NEAR: Tolerance = Tolerance::Within(1.0);

/// Exceeds the duration of the run.
const LIMIT_S: u32 = 30;

pub(super) fn run(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    let (ours, _) = lab.observe(case, SERVER, |origin| {
        lab.ours("-t1 -c4 -n 400", &origin.url("/"), LIMIT_S)
    })?;
    let recording = ours.recording();
    let phases = &recording.phases;
    for (what, truth, histogram) in [
        ("connect, mean", 0.0, &phases.connect),
        ("TLS handshake, mean", TLS_MS, &phases.tls),
        ("first byte, mean", FIRST_BYTE_MS, &phases.first_byte),
        ("last byte, mean", LAST_BYTE_MS, &phases.last_byte),
    ] {
        let seen = mean_ms(histogram).map(Figure::Ms);
        case.ours(what, Figure::Ms(truth), NEAR, seen);
    }
    for (what, truth, histogram) in [
        ("TLS handshake, p99", TLS_MS, &phases.tls),
        ("first byte, p99", FIRST_BYTE_MS, &phases.first_byte),
        ("last byte, p99", LAST_BYTE_MS, &phases.last_byte),
    ] {
        let seen = histogram.value_at_percentile(99.0) as f64 / 1e6;
        case.ours(what, Figure::Ms(truth), NEAR, Some(Figure::Ms(seen)));
    }
    let parts_ns = phases.first_byte.sum_ns() + phases.last_byte.sum_ns();
    let whole_ns = recording.service_time.sum_ns();
    case.ours(
        "sum of first and last byte",
        Figure::Ms(whole_ns as f64 / 1e6),
        Tolerance::Exact,
        Some(Figure::Ms(parts_ns as f64 / 1e6)),
    );
    let work = PeerLoad {
        connections: 4,
        duration_s: 5,
        timeout_s: 5,
        more: vec!["--breakout".to_owned()],
        ..PeerLoad::default()
    };
    lab.peers(case, &[Peer::WrkCmm], (SERVER, "/"), &work, |said, _| {
        let row = |what: &str, truth, name| {
            let seen = said.row_mean_ms(name).map(Figure::Ms);
            (what.to_owned(), Figure::Ms(truth), NEAR, seen)
        };
        vec![
            // Its row includes TCP and TLS.
            row("TLS handshake, mean", TLS_MS, "Connect"),
            row("first byte, mean", FIRST_BYTE_MS, "TTFB"),
            row("last byte, mean", LAST_BYTE_MS, "TTLB"),
        ]
    })
}
