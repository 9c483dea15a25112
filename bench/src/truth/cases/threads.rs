//! Requests that have to wait are one queue, however many threads there are and however the connections
//! are shared out: what is due first is sent first.
//!
//! Held against the server's log: the k-th request that came was the k-th that was due, and left so long after. An
//! even schedule is known. A random one is what came at the server in a run with the same seed in which nothing
//! had to wait. Two runs cannot be held against each other at 95 % load: each microsecond that a response takes
//! longer makes all that wait behind it later, by 20 times as much and more.

use anyhow::Context;

use super::stall::responses_ms;
use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::document::Document;
use crate::truth::lab::Lab;

const RATE_PER_SEC: u32 = 1_800;
const DURATION_S: u32 = 10;

/// What is asked of every percentile.
const NEAR: Tolerance = Tolerance::ShareOr(0.02, 5.0);

/// After the stall a server for each connection is idle again at once; one server for all of them works for
/// the rest of the run at a queue that shrinks by 200 requests a second.
const SERVERS: [(&str, &str); 2] = [
    ("a stall", "--answer delay=500us --stall 3s,1s"),
    ("a slow drain", "--queue --answer delay=500us --stall 0s,1s"),
];

/// Connections, and how many threads share them; random arrivals that keep each connection busy for 95 % of the time.
const SHARED_OUT: [(u32, [u32; 2]); 3] = [(10, [1, 2]), (7, [1, 2]), (6, [1, 4])];
const RATE_PER_CONNECTION: u32 = 190;

pub(super) fn run(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    for (what, server) in SERVERS {
        for threads in [1, 2, 4, 8] {
            let options = format!("-t{threads} -c20 -d{DURATION_S}s -R{RATE_PER_SEC} --timeout 5s");
            let (ours, log) = lab.observe(case, server, |origin| {
                lab.ours(&options, &origin.url("/"), DURATION_S)
            })?;
            let due_ns = log.even_schedule_ns(f64::from(RATE_PER_SEC));
            let name = format!("{what}, -t{threads}");
            compare(case, &name, &ours, &responses_ms(&log, &due_ns))?;
        }
    }
    for (connections, threads) in SHARED_OUT {
        let options = format!(
            "-d{DURATION_S}s -R{} --arrivals poisson --seed 1 --timeout 10s",
            RATE_PER_CONNECTION * connections
        );
        let (_, schedule) = lab.observe(case, "", |origin| {
            let options = format!("-t1 -c100 {options}");
            lab.ours(&options, &origin.url("/"), DURATION_S)
        })?;
        for threads in threads {
            let (ours, log) = lab.observe(case, "--answer delay=exp:5ms --seed 1", |origin| {
                let options = format!("-t{threads} -c{connections} {options}");
                lab.ours(&options, &origin.url("/"), DURATION_S)
            })?;
            // Both count from the first request, which had to wait in neither run.
            let truth_ms = responses_ms(&log, &schedule.arrivals_ns());
            let name = format!("95 % load, -t{threads} -c{connections}");
            compare(case, &name, &ours, &truth_ms)?;
        }
    }
    Ok(())
}

/// Holds the percentiles of a run against those of the response times in the server's log.
fn compare(
    case: &mut CaseResult,
    name: &str,
    ours: &Document,
    truth_ms: &[f64],
) -> anyhow::Result<()> {
    let truth_ms = stats::sorted(truth_ms);
    for percent in [50.0, 75.0, 90.0, 99.0, 99.9] {
        let truth = stats::quantile(&truth_ms, percent / 100.0);
        let truth = truth.context("the server answered nothing")?;
        case.ours(
            format!("{name}: p{percent}, by the server's log"),
            Figure::Ms(truth),
            NEAR,
            ours.latency_ms(percent).map(Figure::Ms),
        );
    }
    Ok(())
}
