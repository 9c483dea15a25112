//! Waiting requests form one queue, for any number of threads and any distribution of the
//! connections: the request that is due first is sent first.
//!
//! Compared with the server's log: the k-th request to arrive was the k-th that was due. An even
//! schedule is known. A random one is the log of a run with the same seed in which no request had
//! to wait. Two runs at 95 % load cannot be compared with each other: each microsecond by which a
//! response is slower delays all requests behind it by 20 times as much or more.

use anyhow::Context;

use super::stall::responses_ms;
use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::lab::{HTTP3_SERVER, Lab};
use crate::truth::run_report::RunReport;

const RATE_PER_SEC: u32 = 1_800;
const DURATION_S: u32 = 10;

/// Tolerance of all percentiles.
const NEAR: Tolerance = Tolerance::ShareOr(0.02, 5.0);

/// After the stall, one server per connection is idle again immediately; a single server works off
/// its queue at 200 requests per second for the rest of the run.
const SERVERS: [(&str, &str); 2] = [
    ("a stall", "--answer delay=500us --stall 3s,1s"),
    ("a slow drain", "--queue --answer delay=500us --stall 0s,1s"),
];

/// Connections and threads; Poisson arrivals that keep each connection busy for 95 % of the time.
const SHARED_OUT: [(u32, [u32; 2]); 3] = [(10, [1, 2]), (7, [1, 2]), (6, [1, 4])];
const RATE_PER_CONNECTION: u32 = 190;

pub(super) fn run(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    on_all_threads(lab, case, "", "-c20")?;
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
            // Relative to the first request, which did not wait in either run.
            let truth_ms = responses_ms(&log, &schedule.arrivals_ns());
            let name = format!("95 % load, -t{threads} -c{connections}");
            compare(case, &name, &ours, &truth_ms)?;
        }
    }
    Ok(())
}

pub(super) fn http3(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    on_all_threads(lab, case, HTTP3_SERVER, "--http3 -c10 -m2")
}

/// With twenty requests in flight at most.
fn on_all_threads(
    lab: &Lab,
    case: &mut CaseResult,
    also: &str,
    options: &str,
) -> anyhow::Result<()> {
    for (what, server) in SERVERS {
        for threads in [1, 2, 4, 8] {
            let options =
                format!("-t{threads} {options} -d{DURATION_S}s -R{RATE_PER_SEC} --timeout 5s");
            let (ours, log) = lab.observe(case, &format!("{server} {also}"), |origin| {
                lab.ours(&options, &origin.url("/"), DURATION_S)
            })?;
            let due_ns = log.even_schedule_ns(f64::from(RATE_PER_SEC));
            let name = format!("{what}, -t{threads}");
            compare(case, &name, &ours, &responses_ms(&log, &due_ns))?;
        }
    }
    Ok(())
}

/// Compares the percentiles of a run with those of the response times in the server's log.
fn compare(
    case: &mut CaseResult,
    name: &str,
    ours: &RunReport,
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
