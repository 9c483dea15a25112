//! Several machines follow one schedule: what they send together is what one machine would send,
//! and with random arrivals each of them is like independent clients.

use crate::http::{HttpPeer, Reply};
use crate::simulation::{MS, OK, S, Simulation, US};
use crate::truth::{close, percentile_ms, poisson};
use plan::{Arrivals, Pacing, Stage, WeightedLanes};
use std::time::Duration;

/// When requests arrive at the server in two seconds, from machines with these numbers of workers.
fn arrivals(pacing: &Pacing, limits: (u64, Option<u64>), machines: &[u32]) -> Vec<u64> {
    let alike: Vec<(u32, u32)> = machines.iter().map(|workers| (*workers, 1)).collect();
    let mut arrived = arrivals_by_machine(pacing, limits, &alike).concat();
    arrived.sort_unstable();
    arrived
}

/// The same of each machine, given its number of workers and how many lanes each of them has.
fn arrivals_by_machine(
    pacing: &Pacing,
    (warmup_ns, requests): (u64, Option<u64>),
    machines: &[(u32, u32)],
) -> Vec<Vec<u64>> {
    let total: u32 = machines.iter().map(|(workers, _)| workers).sum();
    let lanes_total = machines
        .iter()
        .map(|(workers, lanes)| workers * lanes)
        .sum();
    let mut of_machines = Vec::new();
    let (mut worker_base, mut lane_base) = (0, 0);
    for (workers, lanes) in machines {
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
        simulation.settings.weighted = (lanes_total != total).then_some(WeightedLanes {
            lane_base,
            lanes_per_worker: *lanes,
            lanes_total,
        });
        worker_base += workers;
        lane_base += workers * lanes;
        let run = simulation.run(HttpPeer::new(|_| Reply::after(100 * US, OK)));
        let arrived = run.served.into_iter().map(|served| served.arrived_ns);
        of_machines.push(arrived.collect());
    }
    of_machines
}

fn pacings() -> [Pacing; 6] {
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
        stages(Arrivals::Gamma { shape: 0.5 }),
        stages(Arrivals::Gamma { shape: 50.0 }),
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
fn machines_with_unequal_weights_follow_the_same_schedule_each_with_its_part() {
    for pacing in pacings() {
        for limits in [(0, None), (0, Some(701)), (50 * MS + 1, Some(700))] {
            let alone = arrivals(&pacing, limits, &[6]);
            // 2, 15 and 3 of 20 lanes.
            let parts = arrivals_by_machine(&pacing, limits, &[(2, 1), (3, 5), (1, 3)]);
            let counts = parts
                .iter()
                .map(|part| part.len() as f64 / alone.len() as f64);
            let counts: Vec<f64> = counts.collect();
            for (count, quota) in counts.iter().zip([0.1, 0.75, 0.15]) {
                assert!(
                    (count - quota).abs() < 0.05,
                    "{pacing:?} {limits:?} {counts:?}"
                );
            }
            let mut together = parts.concat();
            together.sort_unstable();
            assert_eq!(together, alone, "{pacing:?} {limits:?}");
        }
    }
}

#[test]
fn the_even_requests_of_a_machine_with_a_larger_weight_are_no_bursts() {
    let pacing = &pacings()[0];
    let parts = arrivals_by_machine(pacing, (0, None), &[(1, 1), (1, 9)]);
    let mean_ns = 1e9 / 997.3;
    let gaps = |part: &[u64]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        let gaps = part
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) as f64 / mean_ns);
        let gaps: Vec<u64> = gaps.map(|gap| gap.round() as u64).collect();
        (gaps.iter().min().copied(), gaps.iter().max().copied())
    };
    assert_eq!(gaps(&parts[0]), (Some(10), Some(10)));
    assert_eq!(gaps(&parts[1]), (Some(1), Some(2)));
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
