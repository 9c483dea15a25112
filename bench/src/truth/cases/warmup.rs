//! A server that does a constant amount of work has the same rate over any number of connections,
//! with and without a warm-up.

use anyhow::Context;

use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::lab::Lab;

/// One request at a time, 200 a second.
const SERVER: &str = "--queue --answer delay=5ms";
const CONNECTIONS: [u32; 4] = [1, 16, 64, 256];
const WARMUPS_S: [u32; 2] = [0, 2];
const WINDOW_S: u32 = 3;

/// Client and server see a response at moments that differ a little, so it may be within the window
/// of one of them only: three requests in 3 s.
const NEAR_PER_SEC: f64 = 1.0;

pub(super) fn run(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    let window_s = f64::from(WINDOW_S);
    for connections in CONNECTIONS {
        for warmup_s in WARMUPS_S {
            let (ours, log) = lab.observe(case, SERVER, |origin| {
                let options =
                    format!("-t1 -c{connections} --warmup {warmup_s}s -d{WINDOW_S}s --timeout 10s");
                lab.ours(&options, &origin.url("/"), warmup_s + WINDOW_S)
            })?;
            let label = match warmup_s {
                0 => format!("N={connections}"),
                _ => format!("N={connections}, warmed up"),
            };
            let per_sec = log.answered_per_sec(window_s);
            let near = Tolerance::Within(NEAR_PER_SEC);
            let seen = ours.requests_per_sec().map(Figure::PerSec);
            case.ours(
                format!("{label}: rate"),
                Figure::PerSec(per_sec),
                near,
                seen,
            );
            let mean = ours.recording().rates.mean();
            // One sample may lie across the end of the window.
            let near = Tolerance::Share(0.05);
            let seen = Some(Figure::PerSec(mean));
            case.ours(
                format!("{label}: Req/Sec"),
                Figure::PerSec(per_sec),
                near,
                seen,
            );
            let answered = log.served.iter().find(|one| one.departure_ns.is_some());
            let bytes = answered.context("the server answered nothing")?.bytes;
            let counters = &ours.recording().counters;
            case.count(
                format!("{label}: bytes"),
                counters.responses() * bytes,
                counters.bytes,
            );
        }
    }
    Ok(())
}
