//! Bytes and responses match what the server sent, for all kinds of responses.

use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::lab::{HTTP3_SERVER, Lab};
use crate::truth::peers::{Peer, PeerLoad};

const REQUESTS: u32 = 2_000;

/// Exceeds the duration of the run.
const LIMIT_S: u32 = 30;

/// Label, options of the server, options of the client, path.
const RESPONSES: [(&str, &str, &str, &str); 14] = [
    ("small", "", "", "/"),
    ("100 kB", "", "", "/?size=100k"),
    (
        "chunked with trailers",
        "",
        "",
        "/?size=10k&chunked=999&trailers",
    ),
    ("two interim responses", "", "", "/?interim=2"),
    ("no length, then close", "", "", "/?size=5k&until-close"),
    ("pipelined", "", "--pipeline 16", "/?size=1k"),
    ("over TLS", "--tls", "", "/?size=20k"),
    ("HTTP/2", "", "--http2 -m8", "/"),
    ("HTTP/2, 100 kB", "", "--http2 -m8", "/?size=100k"),
    (
        "HTTP/2, interim responses and trailers",
        "",
        "--http2 -m8",
        "/?size=10k&chunked=999&trailers&interim=2",
    ),
    ("HTTP/2 over TLS", "--tls", "--http2 -m8", "/?size=20k"),
    ("HTTP/3", HTTP3_SERVER, "--http3 -m8", "/"),
    ("HTTP/3, 100 kB", HTTP3_SERVER, "--http3 -m8", "/?size=100k"),
    (
        "HTTP/3, interim responses and trailers",
        HTTP3_SERVER,
        "--http3 -m8",
        "/?size=10k&chunked=999&trailers&interim=2",
    ),
];

pub(super) fn run(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    for (label, server, options, path) in RESPONSES {
        let (ours, log) = lab.observe(case, server, |origin| {
            let options = format!("-t1 -c8 -n {REQUESTS} {options}");
            lab.ours(&options, &origin.url(path), LIMIT_S)
        })?;
        let (seen, truth) = (&ours.recording().counters, &log.counts);
        case.count(format!("{label}: bytes"), truth.bytes_out, seen.bytes);
        case.count(
            format!("{label}: responses"),
            truth.responses,
            seen.answered,
        );
    }
    let work = PeerLoad {
        connections: 8,
        duration_s: 1,
        timeout_s: 5,
        ..PeerLoad::default()
    };
    // They cannot stop after a number of requests: those in flight at the end may be missing.
    let which = [Peer::Wrk, Peer::WrkCmm, Peer::H2load];
    let in_flight = Tolerance::Within(f64::from(work.connections));
    let server = ("", "/?interim=2");
    lab.peers(case, &which, server, &work, |said, log| {
        vec![(
            "two interim responses: responses".to_owned(),
            Figure::Count(log.counts.responses as f64),
            in_flight,
            said.total("requests").map(Figure::Count),
        )]
    })
}
