//! A run of several workers is one queue: what is due first is sent first, whichever worker it was
//! assigned to and whichever has free connections. So the percentiles are those of one worker, and
//! of the queue itself.

use crate::http::{HttpPeer, Reply};
use crate::simulation::{MS, OK, Run, S, Simulation, US};
use crate::truth::{close, exponential_ns, percentile_ms, poisson};
use eventloop::sim::ConnectReaction;
use fastrand::Rng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const PERCENTS: [f64; 7] = [10.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9];

/// Within 2 % or half a millisecond.
fn is_near(seen_ms: f64, truth_ms: f64) -> bool {
    close(seen_ms, truth_ms, 0.02) || (seen_ms - truth_ms).abs() <= 0.5
}

/// Requests that arrive within the stall are answered at its end. Otherwise a response takes half a
/// millisecond.
fn stalling(from_ns: u64, until_ns: u64) -> HttpPeer {
    HttpPeer::new(move |request| {
        let stalled = (from_ns..until_ns).contains(&request.arrived_ns);
        let waits_ns = if stalled {
            until_ns - request.arrived_ns
        } else {
            0
        };
        Reply::after(waits_ns + 500 * US, OK)
    })
}

/// The time in milliseconds from when the k-th request of the schedule was due to the end of the
/// k-th response of the server.
fn responses_by_the_log_ms(run: &Run, rate_per_sec: f64) -> Vec<f64> {
    let response_ms = |(number, served): (usize, &crate::http::Served)| {
        let due_ns = number as f64 * 1e9 / rate_per_sec;
        Some((served.last_byte_ns? as f64 - due_ns) / MS as f64)
    };
    let responses = run.served.iter().enumerate().filter_map(response_ms);
    stats::sorted(&responses.collect::<Vec<_>>())
}

#[test]
fn a_stall_has_the_same_percentiles_with_any_number_of_threads() {
    for threads in [1, 2, 4, 8] {
        let run = Simulation::new()
            .threads(threads)
            .connections(20)
            .rate(1800.0)
            .lasting(10 * S)
            .run(stalling(4 * S, 5 * S));
        assert_eq!(run.recording.counters.unsent, 0);
        let truth_ms = responses_by_the_log_ms(&run, 1800.0);
        for percent in PERCENTS {
            let seen_ms = percentile_ms(&run.recording.response_time, percent);
            let truth_ms = stats::quantile(&truth_ms, percent / 100.0).expect("samples");
            assert!(
                is_near(seen_ms, truth_ms),
                "-t{threads} p{percent}: {seen_ms} ms, by the log {truth_ms} ms"
            );
        }
        // The stall, and the service after it.
        let longest_ns = run.recording.response_time.max_ns().expect("samples");
        assert!(longest_ns < 1002 * MS, "-t{threads}: {longest_ns}");
    }
}

/// 1,900/s at a server that handles 2,000/s on its 20 connections and has stalled for a second. The
/// queue shrinks by 100/s for the rest of the run.
#[test]
fn a_slow_drain_has_the_same_percentiles_with_any_number_of_threads() {
    let drain = |threads| {
        let peer = HttpPeer::new(|request| {
            let stalled = (S..2 * S).contains(&request.arrived_ns);
            let waits_ns = if stalled {
                2 * S - request.arrived_ns
            } else {
                0
            };
            Reply::after(waits_ns + 10 * MS, OK)
        });
        Simulation::new()
            .threads(threads)
            .connections(20)
            .rate(1900.0)
            .lasting(15 * S)
            .run(peer)
    };
    let alone = drain(1);
    for threads in [2, 4, 7, 8] {
        let run = drain(threads);
        for percent in PERCENTS {
            let seen_ms = percentile_ms(&run.recording.latency(), percent);
            let alone_ms = percentile_ms(&alone.recording.latency(), percent);
            assert!(
                is_near(seen_ms, alone_ms),
                "-t{threads} p{percent}: {seen_ms} ms, -t1 {alone_ms} ms"
            );
        }
    }
}

/// Exact response times of a queue with this many servers, first come, first served. The n-th
/// request to be served takes the n-th service time.
fn queue_ms(due_ns: &[u64], servers: usize, service_ns: &mut impl FnMut() -> u64) -> Vec<f64> {
    let mut free_ns: BinaryHeap<Reverse<u64>> = (0..servers).map(|_| Reverse(0)).collect();
    let response_ms = |due_ns: &u64| {
        let Reverse(free_at_ns) = free_ns.pop().expect("there are servers");
        let left_ns = free_at_ns.max(*due_ns) + service_ns();
        free_ns.push(Reverse(left_ns));
        (left_ns - due_ns) as f64 / MS as f64
    };
    stats::sorted(&due_ns.iter().map(response_ms).collect::<Vec<_>>())
}

/// Random arrivals that keep the connections busy for 95 % of the time, with connections spread
/// evenly and unevenly over the workers.
#[test]
fn random_arrivals_at_95_percent_load_wait_as_in_one_queue_however_connections_are_spread() {
    let seed = 11;
    for (threads, connections) in [(1, 10), (2, 10), (2, 7), (4, 6), (8, 9), (3, 2)] {
        let mean_ns = 5e6;
        let rate_per_sec = 0.95 * f64::from(connections) * 1e9 / mean_ns;
        let mut services = Rng::with_seed(seed);
        let peer = HttpPeer::new(move |_| Reply::after(exponential_ns(&mut services, mean_ns), OK));
        let mut simulation = Simulation::new()
            .threads(threads)
            .connections(connections)
            .lasting(10 * S)
            .timeout(20 * S);
        simulation.settings.plan.pacing = poisson(rate_per_sec, seed);
        let run = simulation.run(peer);
        // The same arrivals, at a server where no request has to wait.
        let mut simulation = Simulation::new().connections(1000).lasting(10 * S);
        simulation.settings.plan.pacing = poisson(rate_per_sec, seed);
        let at_once = simulation.run(HttpPeer::new(|_| Reply::after(0, OK)));
        let due_ns: Vec<u64> = at_once.served.iter().map(|it| it.arrived_ns).collect();
        let mut services = Rng::with_seed(seed);
        let truth_ms = queue_ms(&due_ns, connections as usize, &mut || {
            exponential_ns(&mut services, mean_ns)
        });
        for percent in PERCENTS {
            let seen_ms = percentile_ms(&run.recording.latency(), percent);
            let truth_ms = stats::quantile(&truth_ms, percent / 100.0).expect("samples");
            assert!(
                is_near(seen_ms, truth_ms),
                "-t{threads} -c{connections} p{percent}: {seen_ms} ms, by the queue {truth_ms} ms"
            );
        }
    }
}

#[test]
fn every_due_request_is_counted_once_whichever_worker_sends_it() {
    // Far beyond what the server can handle, so that most of it is never sent.
    for (threads, connections) in [(1, 8), (3, 8), (8, 3)] {
        let run = Simulation::new()
            .threads(threads)
            .connections(connections)
            .rate(10_000.0)
            .lasting(3 * S)
            .run(HttpPeer::new(|_| Reply::after(10 * MS, OK)));
        let counters = run.recording.counters;
        assert_eq!(counters.due, 30_000, "-t{threads}");
        assert_eq!(run.served.len() as u64, counters.sent, "-t{threads}");
        assert_eq!(counters.sent, u64::from(connections) * 300, "-t{threads}");
    }
}

#[test]
fn a_number_of_requests_is_exact_whichever_worker_sends_them() {
    for threads in [1, 2, 5, 8] {
        // All connections but one hang on their first request.
        let peer = HttpPeer::new(|request| match request.connection {
            1.. => Reply::silence(),
            0 => Reply::after(MS, OK),
        });
        let run = Simulation::new()
            .threads(threads)
            .connections(10)
            .rate(100.0)
            .timeout(60 * S)
            .requests(250)
            .run(peer);
        let counters = run.recording.counters;
        assert_eq!((counters.sent, counters.due), (250, 250), "-t{threads}");
        assert_eq!(counters.answered, 250 - 9, "-t{threads}");
    }
}

/// Threads without a connection, as a run may have for a while if the server refuses connections.
#[test]
fn requests_of_a_thread_without_connections_are_sent_on_time_by_the_others() {
    let peer = HttpPeer::new(|_| Reply::after(MS, OK)).admitting(|number, _| match number {
        1 | 3 => ConnectReaction::Ignore,
        _ => ConnectReaction::Accept { after_ns: 0 },
    });
    let run = Simulation::new()
        .threads(4)
        .connections(4)
        .rate(200.0)
        .timeout(60 * S)
        .lasting(5 * S)
        .run(peer);
    let arrived: Vec<u64> = run.served.iter().map(|served| served.arrived_ns).collect();
    let expected: Vec<u64> = (0..1000).map(|number| number * 5 * MS).collect();
    assert_eq!(arrived, expected);
}

#[test]
fn the_same_seed_has_the_same_arrivals_with_any_number_of_threads() {
    let arrived = |threads, seed| -> Vec<u64> {
        let mut simulation = Simulation::new()
            .threads(threads)
            .connections(64)
            .lasting(2 * S);
        simulation.settings.plan.pacing = poisson(1000.0, seed);
        let run = simulation.run(HttpPeer::new(|_| Reply::after(MS, OK)));
        run.served.iter().map(|served| served.arrived_ns).collect()
    };
    let alone = arrived(1, 5);
    for threads in [2, 3, 8, 16] {
        assert_eq!(arrived(threads, 5), alone, "-t{threads}");
    }
    assert_ne!(arrived(2, 6), alone);
}
