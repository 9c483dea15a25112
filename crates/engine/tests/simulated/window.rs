//! What belongs to the window: its limits, the warm-up, requests in flight, and runs with a number
//! of requests.

use crate::http::{HttpPeer, Reply};
use crate::simulation::{MS, OK, S, Simulation};
use eventloop::sim::ConnectReaction;
use results::ErrorKind;

const BUSY: &[u8] = b"HTTP/1.1 503 Warming Up\r\nContent-Length: 0\r\n\r\n";

#[test]
fn requests_of_the_warm_up_are_in_no_latency_status_or_count_of_requests() {
    // Another status and another delay, so that one request too many would be noticed.
    let peer = HttpPeer::new(|request| {
        if request.arrived_ns < 500 * MS {
            Reply::after(30 * MS, BUSY)
        } else {
            Reply::after(2 * MS, OK)
        }
    });
    let run = Simulation::new().warmed_up(500 * MS).run(peer);
    // The request of 480 ms is answered at 510 ms, within the window: part of the rate.
    assert_eq!(run.recording.statuses.count(503), 0);
    assert_eq!(run.service_ns(), (Some(2 * MS), Some(2 * MS)));
    assert_eq!(run.answered(), (1_500 - 510) / 2 - 1);
    assert_eq!(run.recording.counters.answered_of_warmup, 1);
    let of_window = run.answered() * OK.len() as u64;
    let bytes = of_window + BUSY.len() as u64;
    assert_eq!(run.recording.counters.bytes, bytes);
    assert_eq!(run.recording.counters.connections_opened, 0);
    assert_eq!(run.ended_ns, 1_500 * MS);
}

/// A server that needs 5 ms for each request, one after the other.
fn of_200_per_sec() -> HttpPeer {
    let mut free_ns = 0;
    HttpPeer::new(move |request| {
        free_ns = request.arrived_ns.max(free_ns) + 5 * MS;
        Reply::after(free_ns - request.arrived_ns, OK)
    })
}

#[test]
fn a_constant_server_has_the_same_rate_over_any_number_of_connections_warmed_up_or_not() {
    for connections in [1, 4, 16, 64, 128, 256] {
        for warmup_ns in [0, 2 * S] {
            let run = Simulation::new()
                .connections(connections)
                .warmed_up(warmup_ns)
                .lasting(3 * S)
                .timeout(10 * S)
                .run(of_200_per_sec());
            let case = format!("{connections} connections after {warmup_ns}");
            let counters = run.recording.counters;
            assert!(
                counters.responses().abs_diff(600) <= 1,
                "{case}: {counters:?}"
            );
            let bytes = counters.responses() * OK.len() as u64;
            assert_eq!(counters.bytes, bytes, "{case}");
            let rates = &run.recording.rates;
            assert!(
                (rates.mean() - 200.0).abs() < 2.0,
                "{case}: {}",
                rates.mean()
            );
            let late = u64::from(connections).min(warmup_ns / (5 * MS));
            assert!(counters.answered_of_warmup.abs_diff(late) <= 1, "{case}");
        }
    }
}

#[test]
fn bytes_are_those_that_arrive_within_the_window() {
    let (head, body) = OK.split_at(OK.len() - 1);
    // Of each response, a byte arrives 300 ms after the others.
    let peer = || HttpPeer::new(move |_| Reply::after(100 * MS, head).then(300 * MS, body));
    // Answered at 400 ms; the head of the second response arrives at 500 ms.
    let run = Simulation::new().warmed_up(550 * MS).lasting(S).run(peer());
    // The rest of the second, the third, and the head of the fourth at 1,300 ms.
    let counters = run.recording.counters;
    assert_eq!((counters.answered_of_warmup, counters.answered), (1, 1));
    let bytes = body.len() + OK.len() + head.len();
    assert_eq!(counters.bytes, bytes as u64);
    // A warm-up during which nothing of the first response arrives.
    let run = Simulation::new().warmed_up(50 * MS).lasting(200 * MS);
    assert_eq!(run.run(peer()).recording.counters.bytes, head.len() as u64);
}

#[test]
fn bytes_of_responses_of_the_warm_up_that_are_cut_off_in_the_window_are_counted() {
    let (head, body) = OK.split_at(OK.len() - 3);
    let peer = HttpPeer::new(move |request| match request.number {
        0 => Reply::after(100 * MS, head)
            .then(200 * MS, &body[..1])
            .then_reset(MS),
        _ => Reply::silence(),
    });
    let run = Simulation::new().warmed_up(200 * MS).run(peer);
    assert_eq!(run.recording.counters.bytes, 1);
    run.assert_only_errors(&[]);
}

#[test]
fn errors_of_the_warm_up_are_not_counted() {
    let peer = HttpPeer::new(|request| {
        if request.arrived_ns < 500 * MS {
            Reply::silence().then_reset(10 * MS)
        } else {
            Reply::after(MS, OK)
        }
    });
    let run = Simulation::new()
        .connections(3)
        .warmed_up(500 * MS)
        .run(peer);
    run.assert_only_errors(&[]);
    assert!(run.answered() > 0);
}

#[test]
fn requests_in_flight_at_the_end_are_counted_with_the_oldest_age() {
    let peer = HttpPeer::new(|request| match request.connection {
        0 => Reply::after(700 * MS, OK),
        1 => Reply::silence(),
        _ => Reply::after(300 * MS, OK),
    });
    let run = Simulation::new().connections(3).run(peer);
    // Sent at 700 ms, at 0 and at 900 ms.
    let counters = run.recording.counters;
    assert_eq!((counters.in_flight, counters.oldest_in_flight_ns), (3, S));
    assert_eq!((counters.sent, counters.answered), (7, 4));
    assert_eq!(run.ended_ns, S);
}

#[test]
fn a_response_exactly_at_the_end_is_not_counted() {
    let peer = HttpPeer::new(|_| Reply::after(S / 4, OK));
    let run = Simulation::new().run(peer);
    let counters = run.recording.counters;
    assert_eq!((counters.answered, counters.in_flight), (3, 1));
    assert_eq!(counters.oldest_in_flight_ns, S / 4);
}

#[test]
fn a_run_ends_on_time_even_if_nothing_ever_happens() {
    let run = Simulation::new()
        .connections(50)
        .lasting(10 * S)
        .timeout(60 * S)
        .run(HttpPeer::new(|_| Reply::silence()));
    assert_eq!(run.ended_ns, 10 * S);
    let counters = run.recording.counters;
    assert_eq!(
        (counters.in_flight, counters.oldest_in_flight_ns),
        (50, 10 * S)
    );
}

#[test]
fn bytes_of_incomplete_responses_in_flight_are_counted() {
    let peer = HttpPeer::new(|_| Reply::after(MS, &OK[..OK.len() - 1]));
    let run = Simulation::new().connections(2).run(peer);
    assert_eq!(run.recording.counters.bytes, 2 * (OK.len() as u64 - 1));
    assert_eq!(run.recording.counters.in_flight, 2);
}

#[test]
fn a_number_of_requests_is_sent_exactly() {
    for requests in [1, 2, 7, 100, 1_001] {
        for (connections, pipeline) in [(1, 1), (8, 1), (8, 4), (3, 16)] {
            let simulation = Simulation::new()
                .connections(connections)
                .pipeline(pipeline)
                .requests(requests);
            let run = simulation.run(HttpPeer::new(|_| Reply::after(MS, OK)));
            let case = format!("{requests} over {connections} x {pipeline}");
            assert_eq!(run.served.len() as u64, requests, "{case}");
            assert_eq!((run.sent(), run.answered()), (requests, requests), "{case}");
            assert_eq!(run.recording.counters.in_flight, 0, "{case}");
            run.assert_only_errors(&[]);
        }
    }
}

#[test]
fn a_run_with_a_number_of_requests_ends_with_its_last_response() {
    let run = Simulation::new()
        .requests(50)
        .run(HttpPeer::new(|_| Reply::after(3 * MS, OK)));
    assert_eq!(run.ended_ns, 150 * MS);
}

#[test]
fn failed_requests_count_towards_the_number_and_are_not_sent_again() {
    let peer = HttpPeer::new(|request| match request.number % 10 {
        9 => Reply::silence().then_reset(MS),
        _ => Reply::after(MS, OK),
    });
    let run = Simulation::new().connections(4).requests(100).run(peer);
    assert_eq!(
        (run.served.len(), run.sent(), run.answered()),
        (100, 100, 90)
    );
    assert_eq!(run.recording.errors.exchanges(), 10);
}

#[test]
fn a_number_of_requests_is_counted_from_the_end_of_the_warm_up() {
    let peer = HttpPeer::new(|_| Reply::after(MS, OK));
    let mut simulation = Simulation::new().connections(5).requests(200);
    simulation.times.measure_ns = 100 * MS;
    let run = simulation.run(peer);
    assert_eq!((run.sent(), run.answered()), (200, 200));
    assert_eq!(run.served.len(), 5 * 100 + 200);
}

#[test]
fn a_run_with_a_number_of_requests_gives_up_when_the_server_has_died() {
    let peer = HttpPeer::new(|request| {
        if request.number < 10 {
            Reply::after(MS, OK)
        } else {
            Reply::silence()
        }
    });
    let run = Simulation::new()
        .connections(2)
        .timeout(100 * S)
        .requests(100)
        .run(peer);
    let counters = run.recording.counters;
    assert_eq!(
        (counters.sent, counters.answered, counters.in_flight),
        (12, 10, 0)
    );
    // The two requests that were sent are given their full timeout.
    assert_eq!(run.errors(ErrorKind::Timeout), (2, 2));
    assert!(
        (100 * S..101 * S).contains(&run.ended_ns),
        "{}",
        run.ended_ns
    );
    assert!(run.has_given_up);
}

#[test]
fn the_first_of_two_limits_ends_the_run() {
    let peer = || HttpPeer::new(|_| Reply::after(10 * MS, OK));
    let by_time = Simulation::new().requests(1_000).lasting(S).run(peer());
    assert_eq!((by_time.sent(), by_time.ended_ns), (100, S));
    let by_number = Simulation::new().requests(20).lasting(S).run(peer());
    assert_eq!((by_number.sent(), by_number.ended_ns), (20, 200 * MS));
}

#[test]
fn a_deadline_that_falls_on_the_end_is_in_flight_not_a_timeout() {
    let run = Simulation::new()
        .timeout(S)
        .run(HttpPeer::new(|_| Reply::silence()));
    assert_eq!(run.errors(ErrorKind::Timeout), (0, 0));
    assert_eq!(run.recording.counters.oldest_in_flight_ns, S);
}

#[test]
fn rates_are_samples_of_a_tenth_of_a_second() {
    let run = Simulation::new()
        .connections(2)
        .run(HttpPeer::new(|_| Reply::after(MS, OK)));
    let rates = &run.recording.rates;
    assert!((9..=10).contains(&rates.count()), "{rates:?}");
    assert_eq!(
        rates.min(),
        rates.max(),
        "an even server gives even samples"
    );
    assert!(
        (1_980..=2_020).contains(&rates.min().expect("samples")),
        "{rates:?}"
    );
}

#[test]
fn connections_opened_in_the_warm_up_are_counted_as_established() {
    let peer = HttpPeer::new(|_| Reply::after(MS, OK));
    let run = Simulation::new()
        .connections(3)
        .warmed_up(100 * MS)
        .run(peer);
    let counters = run.recording.counters;
    let counted = (counters.connections_at_start, counters.connections_opened);
    assert_eq!(counted, (3, 0));
    let peer = HttpPeer::new(|_| Reply::after(MS, OK));
    let counters = Simulation::new()
        .connections(3)
        .run(peer)
        .recording
        .counters;
    let counted = (counters.connections_at_start, counters.connections_opened);
    assert_eq!(counted, (0, 3));
}

#[test]
fn a_run_with_a_number_of_requests_waits_for_each_response_until_its_timeout() {
    for threads in [1, 2] {
        let slow = HttpPeer::new(|_| Reply::after(45 * S, OK));
        let simulation = || {
            Simulation::new()
                .threads(threads)
                .connections(2)
                .timeout(60 * S)
        };
        let run = simulation().requests(4).run(slow);
        assert_eq!((run.answered(), run.ended_ns), (4, 90 * S));
        assert!(!run.has_given_up);
        let hung = HttpPeer::new(|_| Reply::silence());
        let run = simulation().requests(2).run(hung);
        assert_eq!(run.errors(ErrorKind::Timeout), (2, 2));
        assert_eq!(run.ended_ns, 60 * S);
        assert!(!run.has_given_up, "all requests were sent");
    }
}

#[test]
fn a_run_with_a_number_of_requests_gives_up_on_a_server_that_no_longer_responds() {
    // Each request is given its timeout, including those sent just before the run gives up.
    let peer = HttpPeer::new(|request| {
        if request.arrived_ns < S {
            Reply::after(10 * MS, OK)
        } else {
            Reply::silence()
        }
    });
    let run = Simulation::new()
        .connections(4)
        .timeout(7 * S)
        .requests(1_000_000);
    let run = run.run(peer);
    assert!(run.has_given_up);
    assert_eq!(run.recording.counters.in_flight, 0);
    assert!(
        (31 * S..=31 * S + 7 * S).contains(&run.ended_ns),
        "{}",
        run.ended_ns
    );
    assert_eq!(run.recording.timed_out.min_ns(), Some(7 * S));
}

#[test]
fn a_run_with_a_number_of_requests_gives_up_on_a_server_that_is_gone() {
    for rate in [None, Some(100.0)] {
        for timeout_ns in [2 * S, 600 * S] {
            let peer = HttpPeer::new(|request| {
                if request.arrived_ns < S {
                    Reply::after(10 * MS, OK)
                } else {
                    Reply::silence().then_reset(0)
                }
            })
            .admitting(|_, now_ns| {
                if now_ns < S {
                    ConnectReaction::Accept { after_ns: 0 }
                } else {
                    ConnectReaction::refuse()
                }
            });
            let simulation = Simulation::new()
                .threads(2)
                .connections(4)
                .timeout(timeout_ns);
            let simulation = simulation.requests(1_000_000);
            let simulation = match rate {
                Some(rate) => simulation.rate(rate),
                None => simulation,
            };
            let run = simulation.run(peer);
            assert!(run.has_given_up);
            assert!(run.answered() > 0);
            let ended_s = run.ended_ns / S;
            assert!((31..=33).contains(&ended_s), "{ended_s} s, {rate:?}");
        }
    }
}
