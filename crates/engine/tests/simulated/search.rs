//! A search of the highest rate, each of whose runs is one of the engine against a queue with one
//! server (M/M/1), for which there is a formula.

use fastrand::Rng;
use search::{Connections, Load, Measured, Outcome, Reading, Search, Settings};

use crate::http::{HttpPeer, Reply};
use crate::simulation::{OK, S, Simulation};
use crate::truth::{exponential_ns, poisson};

/// What the server can do, in requests per second.
const CAPACITY: f64 = 1_000.0;

const LIMIT_MS: f64 = 20.0;

/// One request at a time, first come, first served, whichever connection it is on.
fn queue(seed: u64) -> HttpPeer {
    let mut random = Rng::with_seed(seed);
    let mut free_ns = 0;
    HttpPeer::new(move |request| {
        free_ns = free_ns.max(request.arrived_ns) + exponential_ns(&mut random, 1e9 / CAPACITY);
        Reply::after(free_ns - request.arrived_ns, OK)
    })
}

#[test]
fn a_search_finds_the_rate_at_which_the_formula_of_a_queue_has_the_limit() {
    // The response time of M/M/1 is exponential with mean 1 / (capacity - rate).
    let truth = CAPACITY - 100_f64.ln() / (LIMIT_MS / 1e3);
    let mut search = Search::new(Settings {
        precision: 0.05,
        connections: Connections {
            first: 16,
            most: 16,
        },
        budget_s: 3_600.0,
        seed: 3,
        ..Settings::default()
    })
    .expect("the settings are in range");
    while let Some(step) = search.next() {
        let duration_ns = (step.duration_s * 1e9) as u64;
        let seed = step.number as u64;
        let mut simulation = Simulation::new()
            .connections(if step.load == Load::ClosedLoop {
                16
            } else {
                400
            })
            .timeout(30 * S)
            .lasting(duration_ns);
        if let Load::Rate(rate) = step.load {
            simulation.settings.plan.pacing = poisson(rate, seed);
        }
        let run = simulation.run(queue(1_000 + seed));
        let latency = run.recording.latency();
        let is_above = |(value_ns, _): &(u64, u64)| *value_ns as f64 > LIMIT_MS * 1e6;
        let above: u64 = latency.distinct().filter(is_above).map(|it| it.1).sum();
        let reading = Reading {
            relative: above as f64 / latency.count() as f64 / 0.01,
            requests: latency.count() as f64,
        };
        let measured = Measured {
            readings: vec![reading],
            achieved: run.answered() as f64 * 1e9 / duration_ns as f64,
            generator_limited: false,
            disturbed: false,
            waited_for_connection: false,
            took_s: step.duration_s,
        };
        search.record(step, measured).expect("it was asked for");
    }
    let Some(Outcome::Found { estimate, .. }) = search.outcome() else {
        panic!("{:?}", search.outcome());
    };
    assert!(
        estimate.low < truth && estimate.high > truth,
        "{estimate:?}, by the formula {truth}"
    );
    assert!((estimate.rate / truth - 1.0).abs() < 0.05, "{estimate:?}");
}
