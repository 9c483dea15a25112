//! The numbers compared with a truth from elsewhere: the server's own record of the run, and
//! formulas. The same cases as `make truth`, on the virtual clock, where nothing disturbs them.

use crate::http::{HttpPeer, Reply, Served};
use crate::simulation::{MS, OK, Run, S, Simulation, US};
use crate::sources::Scripted;
use fastrand::Rng;
use plan::{Arrivals, Pacing, RunPlan, Stop, Target};
use results::{ErrorKind, Histogram, RunResult, Summary, Window};
use stats::ClosedNetwork;

/// Three significant digits of a histogram.
const DIGITS: f64 = 0.001;

pub(crate) fn close(seen: f64, truth: f64, share: f64) -> bool {
    (seen - truth).abs() <= share * truth.abs()
}

pub(crate) fn percentile_ms(histogram: &Histogram, percent: f64) -> f64 {
    histogram.value_at_percentile(percent) as f64 / MS as f64
}

pub(crate) fn poisson(rate_per_sec: f64, seed: u64) -> Pacing {
    Pacing::Constant {
        rate_per_sec,
        arrivals: Arrivals::Poisson,
        seed,
    }
}

pub(crate) fn exponential_ns(random: &mut Rng, mean_ns: f64) -> u64 {
    (-(1.0 - random.f64()).ln() * mean_ns) as u64
}

/// One server with exponential service times of this mean, first come, first served.
fn queueing(mean_ns: f64, seed: u64) -> HttpPeer {
    let mut random = Rng::with_seed(seed);
    let mut free_ns = 0;
    HttpPeer::new(move |request| {
        let start_ns = request.arrived_ns.max(free_ns);
        free_ns = start_ns + exponential_ns(&mut random, mean_ns);
        Reply::after(free_ns - request.arrived_ns, OK)
    })
}

/// Milliseconds from arrival to departure, for requests that were answered by the end of the run.
fn sojourns_ms(run: &Run) -> Vec<f64> {
    let sojourn = |served: &Served| {
        let left_ns = served.last_byte_ns.filter(|left| *left < run.ended_ns)?;
        Some((left_ns - served.arrived_ns) as f64 / MS as f64)
    };
    run.served.iter().filter_map(sojourn).collect()
}

/// Seconds between consecutive arrivals at the server.
fn gaps_s(served: &[Served]) -> Vec<f64> {
    let gap = |pair: &[Served]| (pair[1].arrived_ns - pair[0].arrived_ns) as f64 / S as f64;
    served.windows(2).map(gap).collect()
}

/// 200/s for 10 s over 10 connections. Requests that arrive from 3 s to 5 s are answered at 5 s.
fn stalled() -> Run {
    let stall = 3 * S..5 * S;
    let peer = HttpPeer::new(move |request| {
        let waits_ns = if stall.contains(&request.arrived_ns) {
            stall.end - request.arrived_ns
        } else {
            0
        };
        Reply::after(waits_ns + 200 * US, OK)
    });
    Simulation::new()
        .connections(10)
        .rate(200.0)
        .lasting(10 * S)
        .timeout(5 * S)
        .run(peer)
}

#[test]
fn a_stall_has_the_percentiles_of_independent_users() {
    let run = stalled();
    let latency = run.recording.latency();
    assert_eq!(latency.count(), 2000);
    for percent in [50.0, 90.0, 95.0, 99.0] {
        let truth_ms = 1e3 * stats::stall_quantile(2.0, 0.2, percent / 100.0) + 0.2;
        let seen_ms = percentile_ms(&latency, percent);
        let near = close(seen_ms, truth_ms, 0.02) || (seen_ms - truth_ms).abs() <= 5.0;
        assert!(near, "p{percent}: {seen_ms} ms, by formula {truth_ms} ms");
    }
    // To the precision of a histogram, by the server's record: request k was due at k / 200 s.
    let response_ms = |(due, served): (u64, &Served)| {
        let left_ns = served.last_byte_ns.expect("all are answered");
        (left_ns - due * 5 * MS) as f64 / MS as f64
    };
    let truth_ms: Vec<f64> = (0..).zip(&run.served).map(response_ms).collect();
    let truth_ms = stats::sorted(&truth_ms);
    for percent in [1.0, 50.0, 80.0, 90.0, 95.0, 99.0, 99.9, 100.0] {
        let truth_ms = stats::quantile(&truth_ms, percent / 100.0).expect("samples");
        let seen_ms = percentile_ms(&latency, percent);
        assert!(
            close(seen_ms, truth_ms, DIGITS),
            "p{percent}: {seen_ms}, {truth_ms}"
        );
    }
}

#[test]
fn only_the_few_requests_in_flight_during_a_stall_have_long_service_times() {
    let run = stalled();
    let service = &run.recording.service_time;
    assert_eq!(service.count(), 2000);
    assert!(percentile_ms(service, 99.0) < 0.21);
    let slow = service.distinct().filter(|(ns, _)| *ns > MS);
    assert_eq!(slow.map(|(_, count)| count).sum::<u64>(), 10);
    assert!(percentile_ms(&run.recording.latency(), 99.0) > 1_800.0);
}

/// The requests of several workers together, with even arrivals.
#[test]
fn even_arrivals_of_several_workers_are_one_even_schedule_to_the_nanosecond() {
    for (rate_per_sec, workers) in [(1000.0, 4), (333.3, 3), (50_000.0, 7)] {
        let mut arrived: Vec<u64> = (0..workers)
            .flat_map(|worker| {
                let mut simulation = Simulation::new().connections(20).rate(rate_per_sec);
                (simulation.settings.worker, simulation.settings.workers) = (worker, workers);
                let run = simulation.run(HttpPeer::new(|_| Reply::after(100 * US, OK)));
                run.served.into_iter().map(|served| served.arrived_ns)
            })
            .collect();
        arrived.sort_unstable();
        assert_eq!(arrived.len(), rate_per_sec.ceil() as usize);
        for (number, arrived_ns) in arrived.iter().enumerate() {
            let due_ns = number as f64 * 1e9 / rate_per_sec;
            let off_ns = (*arrived_ns as f64 - due_ns).abs();
            assert!(
                off_ns <= 1.0,
                "{number} of {rate_per_sec}/s by {workers}: {off_ns} ns"
            );
        }
    }
}

/// What `workers` workers send in this many milliseconds at 1,000/s, with random arrivals.
fn poisson_arrivals(seed: u64, workers: u32, lasting_ms: u64) -> Vec<Served> {
    let mut arrived: Vec<Served> = (0..workers)
        .flat_map(|worker| {
            let mut simulation = Simulation::new().connections(20).lasting(lasting_ms * MS);
            simulation.settings.plan.pacing = poisson(1_000.0, seed);
            (simulation.settings.worker, simulation.settings.workers) = (worker, workers);
            simulation
                .run(HttpPeer::new(|_| Reply::after(0, OK)))
                .served
        })
        .collect();
    arrived.sort_by_key(|served| served.arrived_ns);
    arrived
}

#[test]
fn random_arrivals_fit_the_exponential_distribution_for_nearly_every_seed() {
    for workers in [1, 4] {
        let fits = |seed: &u64| {
            let gaps = gaps_s(&poisson_arrivals(*seed, workers, 300));
            stats::exponential_fit(&gaps, 1_000.0)
                .expect("gaps")
                .p_value
                > 0.01
        };
        let good = (1..=100).filter(fits).count();
        assert!(good >= 95, "{good} of 100 seeds with {workers} workers");
    }
}

#[test]
fn random_arrivals_have_the_dispersion_and_the_count_of_a_poisson_process() {
    for workers in [1, 4] {
        let mut counts = Vec::new();
        for seed in 1..=10 {
            let mut bins = vec![0.0; 2_000];
            for served in poisson_arrivals(seed, workers, 2_000) {
                bins[(served.arrived_ns / MS) as usize] += 1.0;
            }
            counts.extend(bins);
        }
        let total: f64 = counts.iter().sum();
        let chance = 3.0 * 20_000_f64.sqrt();
        assert!((total - 20_000.0).abs() < chance, "{total} requests");
        // The standard error is sqrt(2 / 20000).
        let index = stats::index_of_dispersion(&counts).expect("counts");
        assert!((index - 1.0).abs() < 0.05, "{index} with {workers} workers");
    }
}

/// 700/s for two minutes to a server that handles 1,000/s.
#[test]
fn response_times_of_random_arrivals_at_one_server_are_those_of_the_m_m_1_queue() {
    let mut simulation = Simulation::new()
        .connections(200)
        .lasting(120 * S)
        .timeout(60 * S);
    simulation.settings.plan.pacing = poisson(700.0, 5);
    let run = simulation.run(queueing(1e6, 6));
    assert_eq!(run.recording.counters.unsent, 0);
    let served_ms = stats::sorted(&sojourns_ms(&run));
    for percent in [50.0, 90.0, 99.0] {
        let q = percent / 100.0;
        let seen_ms = percentile_ms(&run.recording.response_time, percent);
        let logged_ms = stats::quantile(&served_ms, q).expect("samples");
        assert!(
            close(seen_ms, logged_ms, DIGITS),
            "p{percent}: {seen_ms}, {logged_ms}"
        );
        let formula_ms = 1e3 * stats::mm1_sojourn_quantile(700.0, 1000.0, q).expect("stable");
        assert!(
            close(seen_ms, formula_ms, 0.05),
            "p{percent}: {seen_ms}, {formula_ms}"
        );
    }
}

/// 1 to 64 connections to a server with 5 ms of service, with and without pauses.
#[test]
fn a_closed_loop_matches_exact_mean_value_analysis() {
    for (think_ns, seconds) in [(0, 60), (20 * MS, 100)] {
        for connections in [1, 2, 4, 8, 16, 32, 64] {
            let run = Simulation::new()
                .connections(connections)
                .warmed_up(2 * S)
                .lasting(seconds * S)
                .timeout(100 * S)
                .source(Scripted::thinking(think_ns))
                .run(queueing(5e6, u64::from(connections)));
            let truth = ClosedNetwork {
                customers: connections,
                service: 5.0,
                think: think_ns as f64 / MS as f64,
            }
            .figures();
            let rate_per_ms = run.answered() as f64 / (seconds * 1_000) as f64;
            let time_ms = run.recording.service_time.mean_ns() / MS as f64;
            let case = format!("{connections} connections, pause {think_ns} ns");
            assert!(
                close(rate_per_ms, truth.throughput, 0.03),
                "{case}: {rate_per_ms}"
            );
            assert!(close(time_ms, truth.response, 0.03), "{case}: {time_ms} ms");
        }
    }
}

/// The number is counted by the engine during the run, and by the server's record.
#[test]
fn the_number_in_flight_is_the_rate_times_the_time() {
    let mut random = Rng::with_seed(7);
    let peer = HttpPeer::new(move |_| Reply::after(exponential_ns(&mut random, 2e7), OK));
    let mut simulation = Simulation::new()
        .connections(100)
        .lasting(60 * S)
        .timeout(10 * S);
    simulation.settings.plan.pacing = poisson(500.0, 8);
    let run = simulation.run(peer);
    let counters = run.recording.counters;
    let counted = counters.in_flight_time_ns as f64;
    let at_the_server: u64 = run
        .served
        .iter()
        .filter_map(|served| Some(served.last_byte_ns?.min(run.ended_ns) - served.arrived_ns))
        .sum();
    assert!(
        close(counted, at_the_server as f64, 1e-6),
        "{counted} {at_the_server}"
    );
    let by_samples = run.recording.service_time.sum_ns() as f64;
    assert!(close(counted, by_samples, 0.01), "{counted} {by_samples}");
}

#[test]
fn hanging_requests_are_counted_once_with_their_waiting_time() {
    let mut random = Rng::with_seed(9);
    let peer = HttpPeer::new(move |_| {
        if random.f64() < 0.01 {
            Reply::silence()
        } else {
            Reply::after(MS, OK)
        }
    });
    let run = Simulation::new()
        .connections(50)
        .rate(500.0)
        .lasting(20 * S)
        .timeout(S)
        .run(peer);
    let hung = run
        .served
        .iter()
        .filter(|served| served.last_byte_ns.is_none());
    let hung = hung.count() as u64;
    assert!((60..140).contains(&hung), "{hung}");
    let (events, exchanges) = run.errors(ErrorKind::Timeout);
    let late = run.recording.counters.in_flight;
    assert_eq!((events, exchanges + late), (exchanges, hung));
    let latency = run.recording.latency();
    assert_eq!(latency.count(), 10_000);
    assert!(percentile_ms(&latency, 99.5) >= 1_000.0);
    assert!(close(percentile_ms(&latency, 98.0), 1.0, DIGITS));
}

#[test]
fn a_percentile_of_too_few_requests_is_marked() {
    let run = Simulation::new()
        .connections(10)
        .requests(1_000)
        .run(HttpPeer::new(|_| Reply::after(MS, OK)));
    let summary = Summary::of(&result(run), &[99.5]);
    let vouched_for: Vec<(f64, bool)> = summary
        .latency
        .percentiles
        .iter()
        .map(|row| (row.percent, row.enough_samples))
        .collect();
    let expected = [
        (50.0, true),
        (75.0, true),
        (90.0, true),
        (95.0, true),
        (99.0, true),
        (99.5, false),
        (99.9, false),
        (99.99, false),
        (99.999, false),
        (100.0, true),
    ];
    assert_eq!(vouched_for, expected);
}

/// The result document of a run with a number of requests.
fn result(run: Run) -> RunResult {
    let plan = RunPlan {
        stop: Stop {
            duration: None,
            requests: Some(run.sent()),
        },
        ..RunPlan::new(Target::parse("http://127.0.0.1/").expect("a URL"))
    };
    let window = Window {
        duration_ns: run.ended_ns,
        ..Window::default()
    };
    RunResult {
        recording: run.recording,
        ..RunResult::new(plan, window)
    }
}
