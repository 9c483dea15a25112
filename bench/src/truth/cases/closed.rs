//! A closed loop before one server with a queue: rate and time follow from the number of connections
//! and the service time (M6), with and without a pause before each request.

use anyhow::Context;
use stats::ClosedNetwork;

use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::document::mean_ms;
use crate::truth::lab::Lab;
use crate::truth::peers::{Peer, Work};

const SERVER: &str = "--queue --answer delay=exp:5ms";
const CONNECTIONS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
const DURATION_S: u32 = 4;

/// With pauses of 20 ms.
const THINKING: [u32; 2] = [4, 8];
const THINK_MS: f64 = 20.0;
const THINKING_S: u32 = 15;

const NEAR: Tolerance = Tolerance::Share(0.03);

pub(super) fn run(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    case.notes.push(
        "the mean service time of the formula is that of the server's log of the same run"
            .to_owned(),
    );
    for customers in CONNECTIONS {
        let options = format!("-t1 -c{customers} --warmup 1s -d{DURATION_S}s --timeout 30s");
        one(lab, case, customers, (&options, DURATION_S), 0.0)?;
    }
    let script = lab.file("think.lua").display().to_string();
    for customers in THINKING {
        let options =
            format!("-t1 -c{customers} --warmup 1s -d{THINKING_S}s --timeout 30s -s {script}");
        one(lab, case, customers, (&options, THINKING_S), THINK_MS)?;
    }
    let work = Work {
        connections: 8,
        duration_s: DURATION_S,
        rate_per_sec: None,
        timeout_s: 30,
        more: Vec::new(),
        url: String::new(),
    };
    let which = [Peer::Wrk, Peer::WrkCmm, Peer::H2load];
    lab.peers(case, &which, (SERVER, "/"), &work, |said, log| {
        let served = stats::mean(&log.sojourns_ms()).unwrap_or(f64::NAN);
        vec![(
            "N=8: mean time, by the log".to_owned(),
            Figure::Ms(served),
            NEAR,
            said.mean_ms().map(Figure::Ms),
        )]
    })
}

fn one(
    lab: &Lab,
    case: &mut CaseResult,
    customers: u32,
    (options, duration_s): (&str, u32),
    think_ms: f64,
) -> anyhow::Result<()> {
    let (ours, log) = lab.observe(case, SERVER, |origin| {
        lab.ours(options, &origin.url("/"), duration_s + 1)
    })?;
    let window_s = f64::from(duration_s);
    let service_ms =
        stats::mean(&log.services_in_last_ms(window_s)).context("the server answered nothing")?;
    let network = ClosedNetwork {
        customers,
        service: service_ms,
        think: think_ms,
    };
    let truth = network.figures();
    let label = match think_ms {
        0.0 => format!("N={customers}"),
        pause => format!("N={customers}, pause {pause} ms"),
    };
    let time_ms = mean_ms(&ours.recording().service_time).map(Figure::Ms);
    case.ours(
        format!("{label}: rate"),
        Figure::PerSec(truth.throughput * 1e3),
        NEAR,
        ours.requests_per_sec().map(Figure::PerSec),
    );
    // With pauses the queue's length is left to chance: then only the log of the same run is near.
    if think_ms == 0.0 {
        case.ours(
            format!("{label}: mean time"),
            Figure::Ms(truth.response),
            NEAR,
            time_ms.clone(),
        );
    }
    let logged = stats::mean(&log.last(window_s).sojourns_ms());
    case.ours(
        format!("{label}: mean time, by the log"),
        Figure::Ms(logged.unwrap_or(f64::NAN)),
        Tolerance::ShareOr(0.01, 0.15),
        time_ms,
    );
    Ok(())
}
