//! Several machines follow one schedule: what they send together is what one machine would send,
//! and with random arrivals each of them is like independent clients.

use crate::http::{HttpPeer, Reply};
use crate::simulation::{MS, OK, S, Simulation, US};
use crate::truth::{close, percentile_ms, poisson};
use plan::{Arrivals, Pacing, Stage};
use std::time::Duration;

/// When requests arrive at the server in two seconds, from machines with these numbers of workers.
fn arrivals(
    pacing: &Pacing,
    (warmup_ns, requests): (u64, Option<u64>),
    machines: &[u32],
) -> Vec<u64> {
    let total: u32 = machines.iter().sum();
    let mut arrived = Vec::new();
    let mut worker_base = 0;
    for workers in machines {
        let mut simulation = Simulation::new()
            .threads(*workers)
            .connections(20 * workers)
            .lasting(2 * S)
            .warmed_up(warmup_ns);
        simulation = match requests {
            Some(requests) => simulation.requests(requests),
            None => simulation,
        };
        simulation.settings.plan.pacing = pacing.clone();
        simulation.settings.worker_base = worker_base;
        simulation.settings.workers_elsewhere = total - workers;
        worker_base += workers;
        let run = simulation.run(HttpPeer::new(|_| Reply::after(100 * US, OK)));
        arrived.extend(run.served.into_iter().map(|served| served.arrived_ns));
    }
    arrived.sort_unstable();
    arrived
}

fn pacings() -> [Pacing; 4] {
    let stages = |arrivals| Pacing::Stages {
        stages: vec![
            Stage {
                from_per_sec: 0.0,
                to_per_sec: 2_000.0,
                duration: Duration::from_millis(700),
            },
            Stage {
                from_per_sec: 500.0,
                to_per_sec: 500.0,
                duration: Duration::from_millis(500),
            },
        ],
        arrivals,
        seed: 5,
    };
    [
        Pacing::Constant {
            rate_per_sec: 997.3,
            arrivals: Arrivals::Even,
            seed: 0,
        },
        poisson(1_000.0, 11),
        stages(Arrivals::Even),
        stages(Arrivals::Poisson),
    ]
}

#[test]
fn the_arrivals_from_three_machines_are_those_from_one_to_the_nanosecond() {
    for pacing in pacings() {
        for limits in [
            (0, None),
            (0, Some(701)),
            (50 * MS + 1, None),
            (50 * MS, Some(700)),
        ] {
            let alone = arrivals(&pacing, limits, &[6]);
            assert!(alone.len() > 600, "{pacing:?}: {}", alone.len());
            for machines in [&[2, 2, 2][..], &[1, 4, 1]] {
                let together = arrivals(&pacing, limits, machines);
                assert_eq!(together, alone, "{pacing:?} {limits:?} {machines:?}");
            }
        }
    }
}

#[test]
fn a_machine_that_is_missing_leaves_exactly_its_own_requests_unsent() {
    let pacing = Pacing::Constant {
        rate_per_sec: 1_000.0,
        arrivals: Arrivals::Even,
        seed: 0,
    };
    let alone = arrivals(&pacing, (0, None), &[6]);
    let mut simulation = Simulation::new().threads(2).connections(40).lasting(2 * S);
    simulation.settings.plan.pacing = pacing;
    (
        simulation.settings.worker_base,
        simulation.settings.workers_elsewhere,
    ) = (2, 4);
    let run = simulation.run(HttpPeer::new(|_| Reply::after(100 * US, OK)));
    let mut sent: Vec<u64> = run.served.iter().map(|served| served.arrived_ns).collect();
    sent.sort_unstable();
    let of_machine = (0..)
        .zip(alone)
        .filter(|(number, _)| [2, 3].contains(&(number % 6)));
    let expected: Vec<u64> = of_machine.map(|(_, arrived_ns)| arrived_ns).collect();
    assert_eq!(sent, expected);
}

/// Two places with servers of their own, which need 4 ms for a request, one after the other.
#[test]
fn each_place_waits_as_long_as_independent_clients_of_its_server_would() {
    const SERVICE_NS: u64 = 4 * MS;
    let limit_s = 0.036;
    let per_place = stats::md1_rate_at_limit(0.004, limit_s, 0.01).expect("a rate");
    for worker_base in [0, 2] {
        let mut simulation = Simulation::new()
            .threads(2)
            .connections(200)
            .lasting(400 * S)
            .timeout(60 * S);
        simulation.settings.plan.pacing = poisson(2.0 * per_place, 3);
        (
            simulation.settings.worker_base,
            simulation.settings.workers_elsewhere,
        ) = (worker_base, 2);
        let mut free_ns = 0;
        let run = simulation.run(HttpPeer::new(move |request| {
            free_ns = request.arrived_ns.max(free_ns) + SERVICE_NS;
            Reply::after(free_ns - request.arrived_ns, OK)
        }));
        assert_eq!(run.recording.counters.unsent, 0);
        let found_ms = percentile_ms(&run.recording.response_time, 99.0);
        assert!(close(found_ms, 1e3 * limit_s, 0.08), "{found_ms}");
    }
}
