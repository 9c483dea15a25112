//! Requests at a fixed rate: they are sent on time whatever the server does, and the response time
//! of a delayed request is measured from when it was due.

use crate::http::{HttpPeer, Reply};
use crate::simulation::{GET, LAST_OK, MS, OK, S, Simulation, US};
use engine::source::{Batch, RequestSource, SourceError};
use eventloop::sim::{ConnectReaction, PeerEvent};
use plan::{Arrivals, Pacing, SourceRange, Stage};
use results::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn prompt() -> HttpPeer {
    HttpPeer::new(|_| Reply::after(0, OK))
}

/// A server that answers everything that arrives within the stall at its end.
fn stalling(from_ns: u64, until_ns: u64, service_ns: u64) -> HttpPeer {
    HttpPeer::new(move |request| {
        let waits_ns = if (from_ns..until_ns).contains(&request.arrived_ns) {
            until_ns - request.arrived_ns
        } else {
            0
        };
        Reply::after(waits_ns + service_ns, OK)
    })
}

#[test]
fn requests_are_evenly_spaced_from_the_start() {
    let run = Simulation::new().connections(10).rate(1000.0).run(prompt());
    let arrived: Vec<u64> = run.served.iter().map(|served| served.arrived_ns).collect();
    let expected: Vec<u64> = (0..1000).map(|number| number * MS).collect();
    assert_eq!(arrived, expected);
    assert_eq!(run.recording.response_time.max_ns(), Some(0));
    let counters = run.recording.counters;
    assert_eq!((counters.due, counters.unsent), (1000, 0));
    assert_eq!(run.recording.lags.send.max_ns(), Some(0));
}

#[test]
fn all_connections_are_used_in_turn() {
    let run = Simulation::new().connections(8).rate(800.0).run(prompt());
    let mut turns = [0; 8];
    for served in &run.served {
        turns[served.connection as usize] += 1;
    }
    assert_eq!(turns, [100; 8]);
}

#[test]
fn each_worker_has_its_share_of_one_schedule() {
    let mut simulation = Simulation::new().connections(3).rate(1000.0);
    (simulation.settings.worker, simulation.settings.workers) = (2, 4);
    let run = simulation.run(prompt());
    let arrived: Vec<u64> = run.served.iter().map(|served| served.arrived_ns).collect();
    let expected: Vec<u64> = (0..250).map(|number| (2 + 4 * number) * MS).collect();
    assert_eq!(arrived, expected);
}

#[test]
fn response_time_starts_when_due_and_service_time_when_sent() {
    // 30 ms of service at 100 requests per second on one connection: each request finds two more
    // before it, and the queue grows by 20 ms with each.
    let peer = HttpPeer::new(|_| Reply::after(30 * MS, OK));
    let run = Simulation::new().rate(100.0).lasting(90 * MS).run(peer);
    // Due at 0, 10, 20 ... 80 ms; sent at 0, 30, 60 ms; answered at 30 and 60 ms.
    assert_eq!(run.service_ns(), (Some(30 * MS), Some(30 * MS)));
    let response = &run.recording.response_time;
    assert_eq!(response.count(), 2);
    assert_eq!(response.min_ns(), Some(30 * MS));
    assert_eq!(response.max_ns(), Some(50 * MS));
    let counters = run.recording.counters;
    assert_eq!((counters.due, counters.sent, counters.unsent), (9, 3, 6));
    // The third, due at 20 ms and sent at 60 ms, and the six due at 30 to 80 ms.
    let unanswered = &run.recording.unanswered;
    assert_eq!(unanswered.max_ns(), Some(70 * MS));
    assert_eq!(unanswered.min_ns(), Some(10 * MS));
    assert_eq!(
        unanswered.sum_ns(),
        u128::from(MS * (70 + 60 + 50 + 40 + 30 + 20 + 10))
    );
    assert_eq!(run.recording.latency().count(), 9);
    // The server caused the lateness: no connection was ever free in time.
    assert_eq!(run.recording.lags.send.max_ns(), Some(40 * MS));
    assert_eq!(run.recording.lags.own.max_ns(), Some(0));
}

#[test]
fn a_stall_delays_every_request_that_was_due_in_it() {
    let run = Simulation::new()
        .connections(2)
        .rate(100.0)
        .lasting(10 * S)
        .timeout(5 * S)
        .run(stalling(2 * S, 4 * S, 10 * US));
    let response = run.recording.latency();
    assert_eq!(response.count(), 1000);
    // 200 of 1000 waited, from 0 to 2 s: p90 is 1 s, p95 is 1.5 s, p99 is 1.9 s.
    for (percent, expected_ms) in [(50.0, 0), (90.0, 1000), (95.0, 1500), (99.0, 1900)] {
        let seen_ms = response.value_at_percentile(percent) / MS;
        assert!(
            seen_ms.abs_diff(expected_ms) <= 12,
            "p{percent}: {seen_ms} ms, expected {expected_ms} ms"
        );
    }
    // Two connections met the stall. The rest was sent late and answered at once.
    let service = &run.recording.service_time;
    assert!(service.value_at_percentile(99.0) < 11 * US);
}

#[test]
fn overdue_requests_are_sent_at_once_and_the_schedule_is_caught_up() {
    let run = Simulation::new()
        .connections(1)
        .rate(1000.0)
        .lasting(4 * S)
        .run(stalling(S, 2 * S, 100 * US));
    // 1000 requests became due during the stall, and 111 more while they were served at 10 per ms.
    let late = run
        .served
        .iter()
        .filter(|served| served.arrived_ns >= 2 * S && served.arrived_ns < 2 * S + 112 * MS);
    assert!((1100..=1120).contains(&late.count()));
    assert_eq!(run.answered() + run.recording.counters.in_flight, 4000);
    assert_eq!(run.recording.counters.unsent, 0);
}

#[test]
fn a_due_request_takes_any_free_connection() {
    // The first request of the first connection is never answered.
    let peer = HttpPeer::new(|request| match request.number {
        0 => Reply::silence(),
        _ => Reply::after(MS, OK),
    });
    let run = Simulation::new()
        .connections(3)
        .rate(100.0)
        .timeout(10 * S)
        .run(peer);
    assert_eq!(run.answered(), 99);
    assert_eq!(run.recording.response_time.max_ns(), Some(MS));
    assert_eq!(run.recording.unanswered.max_ns(), Some(S));
    assert_eq!(run.recording.latency().max_ns(), Some(S));
}

#[test]
fn a_request_given_up_counts_with_its_age_since_it_was_due() {
    let peer = HttpPeer::new(|request| match request.number {
        0 => Reply::silence(),
        _ => Reply::after(0, OK),
    });
    // The only connection hangs for 300 ms. The requests due meanwhile are sent after that.
    let run = Simulation::new().rate(10.0).timeout(300 * MS).run(peer);
    assert_eq!(run.errors(ErrorKind::Timeout), (1, 1));
    assert_eq!(run.recording.unanswered.max_ns(), Some(300 * MS));
    let response = &run.recording.response_time;
    assert_eq!((response.count(), response.max_ns()), (9, Some(200 * MS)));
}

#[test]
fn requests_due_in_the_warm_up_belong_to_it_even_if_sent_in_the_window() {
    // Stalled from the middle of the warm-up into the window.
    let run = Simulation::new()
        .warmed_up(S)
        .rate(100.0)
        .run(stalling(500 * MS, 1500 * MS, 0));
    // The 50 requests due in the second half of the warm-up are not counted, although they were
    // sent and answered in the window.
    let counters = run.recording.counters;
    assert_eq!(
        (counters.due, counters.sent, run.answered()),
        (100, 100, 100)
    );
    assert_eq!(run.recording.response_time.max_ns(), Some(500 * MS));
}

#[test]
fn a_number_of_requests_ends_a_run_at_a_fixed_rate() {
    let run = Simulation::new()
        .connections(4)
        .rate(10.0)
        .requests(25)
        .run(HttpPeer::new(|_| Reply::after(5 * MS, OK)));
    assert_eq!((run.sent(), run.answered()), (25, 25));
    assert_eq!(run.ended_ns, 2405 * MS);
    assert_eq!(
        (run.recording.counters.due, run.recording.counters.unsent),
        (25, 0)
    );
}

#[test]
fn a_slow_schedule_is_not_mistaken_for_a_stuck_run() {
    // One request in 50 seconds. A run without a time limit gives up after 30 s without a response.
    let run = Simulation::new().rate(0.02).requests(3).run(prompt());
    assert_eq!(run.answered(), 3);
    assert_eq!(run.ended_ns, 100 * S);
}

#[test]
fn an_outage_of_the_server_is_visible_in_the_response_times() {
    let away = S..2 * S;
    let down = away.clone();
    let peer = HttpPeer::new(move |request| {
        if down.contains(&request.arrived_ns) {
            Reply::after(0, Vec::new()).then_reset(0)
        } else {
            Reply::after(MS, OK)
        }
    })
    .admitting(move |_, now_ns| {
        if away.contains(&now_ns) {
            ConnectReaction::Fail {
                after_ns: 0,
                errno: libc::ECONNREFUSED,
            }
        } else {
            ConnectReaction::Accept { after_ns: 0 }
        }
    });
    let run = Simulation::new()
        .connections(4)
        .rate(100.0)
        .lasting(5 * S)
        .run(peer);
    // Each connection fails once, with the request it carried, and is replaced by itself.
    let (refused, lost) = run.errors(ErrorKind::Refused);
    // By one connection for all, every 2 to 4 ms.
    assert!((250..520).contains(&refused), "{refused}");
    assert_eq!(lost, 0);
    let lost = run.recording.errors.exchanges();
    assert_eq!(lost, 4);
    assert_eq!(run.recording.counters.due, 500);
    assert_eq!(
        run.answered() + lost + run.recording.counters.in_flight,
        500
    );
    // Requests due just after the server went down waited for about the whole second.
    let longest_ms = run.recording.response_time.max_ns().unwrap_or(0) / MS;
    assert!((940..1005).contains(&longest_ms), "{longest_ms}");
}

#[test]
fn pipelining_lets_a_connection_carry_several_due_requests() {
    let peer = || HttpPeer::new(|_| Reply::after(40 * MS, OK));
    let narrow = Simulation::new().rate(100.0).run(peer());
    let wide = Simulation::new().rate(100.0).pipeline(4).run(peer());
    assert_eq!(wide.recording.response_time.max_ns(), Some(40 * MS));
    assert!(narrow.recording.response_time.max_ns() > Some(400 * MS));
}

#[test]
fn used_up_and_closed_connections_are_replaced_and_the_schedule_is_kept() {
    for peer in [
        prompt(),
        HttpPeer::new(|_| Reply::after(0, LAST_OK).then_finish(0)),
    ] {
        let run = Simulation::new()
            .connections(2)
            .requests_per_connection(3)
            .rate(100.0)
            .run(peer);
        assert_eq!(run.answered(), 100);
        assert!(run.recording.counters.connections_opened >= 33);
        run.assert_only_errors(&[]);
    }
}

#[test]
fn idle_connections_closed_by_the_server_are_replaced_without_an_error() {
    let peer = prompt().closing_idle_after(30 * MS);
    let run = Simulation::new().connections(2).rate(10.0).run(peer);
    assert_eq!(run.answered(), 10);
    assert!(run.recording.counters.reconnects > 0);
    run.assert_only_errors(&[]);
}

#[test]
fn the_rate_follows_the_stages() {
    let stage = |from_per_sec, to_per_sec, seconds| Stage {
        from_per_sec,
        to_per_sec,
        duration: Duration::from_secs(seconds),
    };
    let mut simulation = Simulation::new().connections(10).lasting(6 * S);
    simulation.settings.plan.pacing = Pacing::Stages {
        stages: vec![
            stage(100.0, 100.0, 1),
            stage(100.0, 500.0, 4),
            stage(500.0, 500.0, 1),
        ],
        arrivals: Arrivals::Even,
        seed: 0,
    };
    let run = simulation.run(prompt());
    let in_second = |second: u64| {
        let of = |served: &&crate::http::Served| served.arrived_ns / S == second;
        run.served.iter().filter(of).count()
    };
    let counts: Vec<usize> = (0..6).map(in_second).collect();
    assert_eq!(counts, [100, 150, 250, 350, 450, 500]);
}

/// Three requests in one write, as scripts create them.
struct Triple;

impl RequestSource for Triple {
    fn next(&mut self, _: u32, output: &mut Batch) -> Result<(), SourceError> {
        output.extend_from_slice(&GET.repeat(3));
        Ok(())
    }
}

#[test]
fn a_batch_of_a_script_takes_as_many_requests_from_the_schedule_as_it_has() {
    let peer = HttpPeer::new(|_| Reply::after(2 * MS, OK));
    let run = Simulation::new()
        .connections(2)
        .rate(300.0)
        .source(Triple)
        .run(peer);
    assert_eq!(run.sent(), 300);
    let moments: Vec<u64> = run.served.iter().map(|served| served.arrived_ns).collect();
    assert_eq!(moments[..4], [0, 0, 0, 10 * MS]);
    assert_eq!(run.recording.lags.send.count(), 300);
}

#[test]
fn with_batch_latency_only_the_last_response_of_a_batch_is_a_sample() {
    // The three responses to a batch arrive 1, 2 and 3 ms after it.
    let peer = || HttpPeer::new(|request| Reply::after(MS * (1 + request.number % 3), OK));
    let mut simulation = Simulation::new().rate(300.0).source(Triple);
    simulation.settings.plan.load.batch_latency = true;
    let run = simulation.run(peer());
    assert_eq!(
        (run.answered(), run.recording.service_time.count()),
        (300, 100)
    );
    assert_eq!(run.recording.response_time.min_ns(), Some(3 * MS));
    let each = Simulation::new().rate(300.0).source(Triple).run(peer());
    assert_eq!(each.recording.response_time.count(), 300);
    assert_eq!(each.recording.response_time.min_ns(), Some(MS));
}

#[test]
fn random_arrivals_are_sent_when_they_are_due() {
    for (arrivals, connections) in [
        (Arrivals::Poisson, 50),
        (Arrivals::Gamma { shape: 100.0 }, 50),
        // Hundreds of requests are due in the same nanosecond.
        (Arrivals::Gamma { shape: 0.01 }, 3_000),
    ] {
        let mut simulation = Simulation::new().connections(connections).lasting(10 * S);
        simulation.settings.plan.pacing = Pacing::Constant {
            rate_per_sec: 1000.0,
            arrivals,
            seed: 3,
        };
        let run = simulation.run(prompt());
        let counters = run.recording.counters;
        assert_eq!(counters.unsent, 0, "{arrivals:?}");
        assert_eq!(run.recording.lags.send.max_ns(), Some(0), "{arrivals:?}");
        // The variance of the count is 10,000 divided by the shape.
        let deviation = (10_000.0 / arrivals.shape().expect("random")).sqrt();
        let off = run.answered().abs_diff(10_000) as f64;
        assert!(off < 4.0 * deviation, "{arrivals:?}: {}", run.answered());
    }
}

#[test]
fn requests_beyond_the_capacity_of_the_server_stay_unsent_and_have_an_age() {
    let peer = HttpPeer::new(|_| Reply::after(10 * MS, OK));
    let run = Simulation::new().connections(2).rate(1e6).run(peer);
    let counters = run.recording.counters;
    assert_eq!(counters.due, 1_000_000);
    assert_eq!((counters.sent, counters.unsent), (200, 999_800));
    // Nearly all were due and not sent: their ages are spread evenly over the second.
    let median_ms = run.recording.latency().value_at_percentile(50.0) / MS;
    assert!((495..=505).contains(&median_ms), "{median_ms}");
}

#[test]
fn the_rate_of_an_overloaded_server_is_its_capacity_whatever_the_warm_up_has_left() {
    // 100 responses per second where 200 are due: half a second of warm-up leaves 50 of them to the
    // window. That half of the requests of the window was answered is not hidden by them.
    let run = Simulation::new()
        .rate(200.0)
        .warmed_up(S / 2)
        .run(HttpPeer::new(|_| Reply::after(10 * MS, OK)));
    let counters = run.recording.counters;
    let of_warmup = counters.answered_of_warmup;
    assert!((50..=51).contains(&of_warmup), "{of_warmup}");
    let responses = counters.responses();
    assert!((99..=100).contains(&responses), "{responses}");
    assert_eq!(counters.sent, counters.answered + counters.in_flight);
    assert_eq!(
        (counters.due, counters.answered),
        (200, responses - of_warmup)
    );
}

#[test]
fn source_addresses_are_used_in_turn_and_shared_by_the_workers() {
    let range = SourceRange::parse("127.0.0.4/30").expect("valid");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let peer = SourcesSeen(Arc::clone(&seen));
    let mut simulation = Simulation::new().connections(4);
    simulation.settings.plan.load.source = Some(range);
    (simulation.settings.worker, simulation.settings.workers) = (1, 2);
    simulation.run_with(peer);
    // Of .5 .6 .7, the second of two workers takes every other one, round robin.
    let last: Vec<u8> = seen.lock().expect("no panic under the lock").clone();
    assert_eq!(last[..4], [6, 5, 7, 6]);
}

struct SourcesSeen(Arc<Mutex<Vec<u8>>>);

impl eventloop::sim::Peer for SourcesSeen {
    fn on_connect(&mut self, attempt: &eventloop::sim::Attempt<'_>, _: u64) -> ConnectReaction {
        if let Some(std::net::IpAddr::V4(source)) = attempt.options.source {
            let mut seen = self.0.lock().expect("no panic under the lock");
            seen.push(source.octets()[3]);
        }
        ConnectReaction::Accept { after_ns: 0 }
    }
    fn on_bytes(&mut self, _: u32, _: &[u8], _: u64, _: &mut eventloop::sim::Actions) {}
}

#[test]
fn requests_in_flight_are_integrated_over_the_window() {
    // Each of 5 connections has a request in flight for 3 of 4 ms. 1 ms of each cycle is the delay.
    let peer = HttpPeer::new(|_| Reply::after(3 * MS, OK));
    let run = Simulation::new().connections(5).rate(1000.0).run(peer);
    let integral_ns = run.recording.counters.in_flight_time_ns;
    let summed_ns = run.recording.service_time.sum_ns();
    let difference = (integral_ns as f64 / summed_ns as f64 - 1.0).abs();
    assert!(difference < 0.01, "{integral_ns} {summed_ns}");
    let closed = Simulation::new()
        .connections(5)
        .run(HttpPeer::new(|_| Reply::after(3 * MS, OK)));
    assert_eq!(closed.recording.counters.in_flight_time_ns, 5 * S);
}

/// A server that is down from 1 s to 2 s: it resets every connection and refuses new ones.
fn down_for_a_second() -> HttpPeer {
    let down = |at_ns: u64| (S..2 * S).contains(&at_ns);
    HttpPeer::new(move |request| {
        if down(request.arrived_ns) {
            Reply::silence().then_reset(0)
        } else {
            Reply::after(MS, OK)
        }
    })
    .admitting(move |_, now_ns| {
        if down(now_ns) {
            ConnectReaction::refuse()
        } else {
            ConnectReaction::Accept { after_ns: 0 }
        }
    })
}

#[test]
fn an_outage_of_one_second_causes_no_response_times_far_beyond_that() {
    for threads in [1, 2, 4, 8] {
        for seed in [1, 2] {
            let mut simulation = Simulation::new()
                .threads(threads)
                .connections(16)
                .rate(1000.0);
            simulation.settings.seed = seed;
            let run = simulation.lasting(5 * S).run(down_for_a_second());
            let longest_us = run.recording.response_time.max_ns().unwrap_or(0) / US;
            // Due requests are sent within 4 ms again, and the queue of 1,000 takes 16 connections
            // a while.
            assert!(
                (985_000..1_070_000).contains(&longest_us),
                "-t{threads}: {longest_us}"
            );
            let first_ns = run
                .served
                .iter()
                .map(|it| it.arrived_ns)
                .find(|at| *at >= 2 * S);
            let back_after_us = (first_ns.expect("the server recovers") - 2 * S) / US;
            assert!(back_after_us <= 4_000, "-t{threads}: {back_after_us}");
            let pauses = &run.recording.lags.reconnect;
            let longest_pause_us = pauses.max_ns().expect("it affected requests") / US;
            assert!(
                (1_000..=4_000).contains(&longest_pause_us),
                "{longest_pause_us}"
            );
            assert!(pauses.count() < 1_100, "{}", pauses.count());
        }
    }
}

#[test]
fn a_server_that_closes_every_connection_is_not_flooded() {
    // From the second second on, it closes its connections, and closes new ones as soon as they are
    // established.
    let peer = HttpPeer::new(|request| {
        if request.arrived_ns < S {
            Reply::after(MS, OK).then_close(0)
        } else {
            Reply::silence().then_close(0)
        }
    })
    .closing_idle_after(0);
    let run = Simulation::new()
        .connections(50)
        .rate(1.0)
        .lasting(10 * S)
        .run(peer);
    let attempts = run.peer_log();
    let attempts = attempts
        .iter()
        .filter(|entry| matches!(entry.what, PeerEvent::Attempted(_)));
    let attempts = attempts.count();
    assert!(attempts < 10 * 520 + 200, "{attempts}");
}

#[test]
fn connections_that_cannot_be_established_are_retried_less_and_less_often() {
    let mut simulation = Simulation::new().connections(4).rate(100.0).lasting(10 * S);
    simulation.sim.sockets_max = 3;
    let run = simulation.run(HttpPeer::new(|_| Reply::after(MS, OK)));
    run.assert_only_errors(&[ErrorKind::FileLimit]);
    assert!(run.errors(ErrorKind::FileLimit).0 < 40);
    assert!(run.recording.lags.reconnect.is_empty());
}
