//! A closed loop with a single server and a queue: rate and time follow from the number of
//! connections and the service time, with and without a pause before each request.

use anyhow::Context;
use stats::ClosedNetwork;

use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::lab::Lab;
use crate::truth::peers::{Peer, PeerLoad};
use crate::truth::run_report::mean_ms;

const CONNECTIONS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
const DURATION_S: u32 = 4;

/// Long service times for few connections, so that network time is negligible; short ones for many,
/// so that there are many samples.
const SLOW: &str = "--queue --answer delay=exp:5ms";
const QUICK: &str = "--queue --answer delay=exp:1ms";
const FEW: u32 = 4;

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
        let server = if customers <= FEW { SLOW } else { QUICK };
        let round = Round {
            customers,
            server,
            duration_s: DURATION_S,
            think_ms: 0.0,
        };
        round.run(lab, case)?;
    }
    for customers in THINKING {
        let round = Round {
            customers,
            server: SLOW,
            duration_s: THINKING_S,
            think_ms: THINK_MS,
        };
        round.run(lab, case)?;
    }
    let work = PeerLoad {
        connections: 8,
        duration_s: DURATION_S,
        timeout_s: 30,
        ..PeerLoad::default()
    };
    let which = [Peer::Wrk, Peer::WrkCmm, Peer::H2load];
    lab.peers(case, &which, (QUICK, "/"), &work, |said, log| {
        let served = stats::mean(&log.sojourns_ms()).unwrap_or(f64::NAN);
        vec![(
            "N=8: mean time, by the log".to_owned(),
            Figure::Ms(served),
            NEAR,
            said.mean_ms().map(Figure::Ms),
        )]
    })
}

struct Round {
    customers: u32,
    server: &'static str,
    duration_s: u32,
    /// The pause before each request: 0, or [`THINK_MS`].
    think_ms: f64,
}

impl Round {
    fn run(&self, lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
        let Self {
            customers,
            server,
            duration_s,
            think_ms,
        } = *self;
        let mut options = format!("-t1 -c{customers} --warmup 1s -d{duration_s}s --timeout 30s");
        if think_ms > 0.0 {
            options += &format!(" -s {}", lab.file("think.lua").display());
        }
        let (ours, log) = lab.observe(case, server, |origin| {
            lab.ours(&options, &origin.url("/"), duration_s + 1)
        })?;
        let window_s = f64::from(duration_s);
        let service_ms = stats::mean(&log.services_in_last_ms(window_s))
            .context("the server answered nothing")?;
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
        // With pauses, the length of the queue is random: only the log of the same run is close
        // enough.
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
}
