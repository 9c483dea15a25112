//! Requests that have to wait are one queue, however many threads there are and however the connections
//! are shared out: what is due first is sent first.
//!
//! Held against the server's log where the schedule is even: the k-th request that came was the k-th that was
//! due, and left so long after. Where it is random, against one thread with the same seeds, which is that queue.

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

/// Threads and connections; random arrivals that keep each connection busy for 95 % of the time.
const SHARED_OUT: [(u32, u32); 3] = [(2, 10), (2, 7), (4, 6)];
const RATE_PER_CONNECTION: u32 = 190;

pub(super) fn run(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    for (what, server) in SERVERS {
        for threads in [1, 2, 4, 8] {
            let options = format!("-t{threads} -c20 -d{DURATION_S}s -R{RATE_PER_SEC} --timeout 5s");
            let (ours, log) = lab.observe(case, server, |origin| {
                lab.ours(&options, &origin.url("/"), DURATION_S)
            })?;
            let truth_ms = stats::sorted(&responses_ms(&log, f64::from(RATE_PER_SEC)));
            for percent in [50.0, 75.0, 90.0, 99.0] {
                let truth = stats::quantile(&truth_ms, percent / 100.0);
                let truth = truth.context("the server answered nothing")?;
                case.ours(
                    format!("{what}, -t{threads}: p{percent}, by the server's log"),
                    Figure::Ms(truth),
                    NEAR,
                    ours.latency_ms(percent).map(Figure::Ms),
                );
            }
        }
    }
    for (threads, connections) in SHARED_OUT {
        let one = at_95_percent(lab, case, 1, connections)?;
        let several = at_95_percent(lab, case, threads, connections)?;
        for percent in [50.0, 90.0, 99.0, 99.9] {
            let truth = one.latency_ms(percent);
            let truth = truth.context("one thread reported no latency")?;
            case.ours(
                format!("95 % load, -t{threads} -c{connections}: p{percent}, by -t1"),
                Figure::Ms(truth),
                NEAR,
                several.latency_ms(percent).map(Figure::Ms),
            );
        }
    }
    Ok(())
}

fn at_95_percent(
    lab: &Lab,
    case: &mut CaseResult,
    threads: u32,
    connections: u32,
) -> anyhow::Result<Document> {
    let rate = RATE_PER_CONNECTION * connections;
    let options = format!(
        "-t{threads} -c{connections} -d{DURATION_S}s -R{rate} --arrivals poisson --seed 1 --timeout 10s"
    );
    let (ours, _) = lab.observe(case, "--answer delay=exp:5ms --seed 1", |origin| {
        lab.ours(&options, &origin.url("/"), DURATION_S)
    })?;
    Ok(ours)
}
