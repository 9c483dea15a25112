//! Little's law: requests in flight are the rate times the time, counted in three ways.

use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::lab::Lab;
use crate::truth::run_report::RunReport;

const DURATION_S: u32 = 10;
const NEAR: Tolerance = Tolerance::Share(0.01);

pub(super) fn run(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    let (closed, _) = lab.observe(case, "--answer delay=exp:20ms", |origin| {
        lab.ours(
            "-t1 -c50 --warmup 1s -d10s",
            &origin.url("/"),
            DURATION_S + 1,
        )
    })?;
    // Every connection always has a request in flight.
    let connections = 50.0;
    check(case, "50 connections", connections, &closed);
    let (open, log) = lab.observe(case, "--answer delay=lognormal:20ms,0.5", |origin| {
        let options = "-t1 -c200 --warmup 1s -d10s -R500 --timeout 10s";
        lab.ours(options, &origin.url("/"), DURATION_S + 1)
    })?;
    let window_s = f64::from(DURATION_S);
    let busy_ms: f64 = log.last(window_s).sojourns_ms().iter().sum();
    let at_the_server = busy_ms / 1e3 / window_s;
    check(case, "500/s", at_the_server, &open);
    Ok(())
}

/// The integral that the engine keeps, and the product of rate and mean time.
fn check(case: &mut CaseResult, label: &str, truth: f64, ours: &RunReport) {
    let recording = ours.recording();
    let window_ns = ours.result.window.duration_ns as f64;
    let integral = recording.counters.in_flight_time_ns as f64 / window_ns;
    let product = ours
        .requests_per_sec()
        .map(|rate| rate * recording.service_time.mean_ns() / 1e9);
    case.ours(
        format!("{label}: in flight, counted"),
        Figure::Plain(truth),
        NEAR,
        Some(Figure::Plain(integral)),
    );
    case.ours(
        format!("{label}: rate x mean time"),
        Figure::Plain(truth),
        NEAR,
        product.map(Figure::Plain),
    );
}
