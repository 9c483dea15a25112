//! What belongs to the window: its edges, the warm-up, what is in flight, and runs by number.

use crate::http::{HttpPeer, Reply};
use crate::rig::{MS, OK, Rig, S};
use eventloop::sim::ConnectAnswer;
use results::ErrorKind;

const BUSY: &[u8] = b"HTTP/1.1 503 Warming Up\r\nContent-Length: 0\r\n\r\n";

#[test]
fn warm_up_leaves_no_trace_in_any_figure() {
    // Another status and another delay, so that one request too many would show.
    let peer = HttpPeer::new(|request| match request.arrived_ns < 500 * MS {
        true => Reply::after(30 * MS, BUSY),
        false => Reply::after(2 * MS, OK),
    });
    let run = Rig::new().warmed_up(500 * MS).run(peer);
    // The request of 480 ms is answered at 510 ms, within the window, and not counted.
    assert_eq!(run.recording.statuses.count(503), 0);
    assert_eq!(run.service_ns(), (Some(2 * MS), Some(2 * MS)));
    assert_eq!(run.answered(), (1_500 - 510) / 2 - 1);
    assert_eq!(run.recording.counters.answered_of_warmup, 1);
    assert_eq!(
        run.recording.counters.bytes,
        run.answered() * OK.len() as u64
    );
    assert_eq!(run.recording.counters.connections_opened, 0);
    assert_eq!(run.ended_ns, 1_500 * MS);
}

#[test]
fn errors_of_the_warm_up_are_not_counted() {
    let peer = HttpPeer::new(|request| match request.arrived_ns < 500 * MS {
        true => Reply::silence().then_reset(10 * MS),
        false => Reply::after(MS, OK),
    });
    let run = Rig::new().connections(3).warmed_up(500 * MS).run(peer);
    run.assert_only_errors(&[]);
    assert!(run.answered() > 0);
}

#[test]
fn what_is_in_flight_at_the_end_is_counted_with_the_oldest_age() {
    let peer = HttpPeer::new(|request| match request.connection {
        0 => Reply::after(700 * MS, OK),
        1 => Reply::silence(),
        _ => Reply::after(300 * MS, OK),
    });
    let run = Rig::new().connections(3).run(peer);
    // Sent at 700 ms, at 0 and at 900 ms.
    let counters = run.recording.counters;
    assert_eq!((counters.in_flight, counters.oldest_in_flight_ns), (3, S));
    assert_eq!((counters.sent, counters.answered), (7, 4));
    assert_eq!(run.ended_ns, S);
}

#[test]
fn an_answer_at_the_very_end_is_outside() {
    let peer = HttpPeer::new(|_| Reply::after(S / 4, OK));
    let run = Rig::new().run(peer);
    let counters = run.recording.counters;
    assert_eq!((counters.answered, counters.in_flight), (3, 1));
    assert_eq!(counters.oldest_in_flight_ns, S / 4);
}

#[test]
fn a_run_ends_on_time_although_nothing_ever_happens() {
    let run = Rig::new()
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
fn partial_answers_in_flight_give_their_bytes() {
    let peer = HttpPeer::new(|_| Reply::after(MS, &OK[..OK.len() - 1]));
    let run = Rig::new().connections(2).run(peer);
    assert_eq!(run.recording.counters.bytes, 2 * (OK.len() as u64 - 1));
    assert_eq!(run.recording.counters.in_flight, 2);
}

#[test]
fn a_number_of_requests_is_sent_exactly() {
    for requests in [1, 2, 7, 100, 1_001] {
        for (connections, pipeline) in [(1, 1), (8, 1), (8, 4), (3, 16)] {
            let rig = Rig::new()
                .connections(connections)
                .pipeline(pipeline)
                .requests(requests);
            let run = rig.run(HttpPeer::new(|_| Reply::after(MS, OK)));
            let case = format!("{requests} over {connections} x {pipeline}");
            assert_eq!(run.served.len() as u64, requests, "{case}");
            assert_eq!((run.sent(), run.answered()), (requests, requests), "{case}");
            assert_eq!(run.recording.counters.in_flight, 0, "{case}");
            run.assert_only_errors(&[]);
        }
    }
}

#[test]
fn a_run_by_number_ends_with_its_last_answer() {
    let run = Rig::new()
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
    let run = Rig::new().connections(4).requests(100).run(peer);
    assert_eq!(
        (run.served.len(), run.sent(), run.answered()),
        (100, 100, 90)
    );
    assert_eq!(run.recording.errors.exchanges(), 10);
}

#[test]
fn a_number_of_requests_counts_from_the_end_of_the_warm_up() {
    let peer = HttpPeer::new(|_| Reply::after(MS, OK));
    let mut rig = Rig::new().connections(5).requests(200);
    rig.schedule.measure_ns = 100 * MS;
    let run = rig.run(peer);
    assert_eq!((run.sent(), run.answered()), (200, 200));
    assert_eq!(run.served.len(), 5 * 100 + 200);
}

#[test]
fn a_run_by_number_gives_up_when_the_server_has_died() {
    let peer = HttpPeer::new(|request| match request.number < 10 {
        true => Reply::after(MS, OK),
        false => Reply::silence(),
    });
    let run = Rig::new()
        .connections(2)
        .timeout(100 * S)
        .requests(100)
        .run(peer);
    let counters = run.recording.counters;
    assert_eq!(
        (counters.sent, counters.answered, counters.in_flight),
        (12, 10, 0)
    );
    // The two that were sent are waited for as long as the timeout says.
    assert_eq!(run.errors(ErrorKind::Timeout), (2, 2));
    assert!(
        (100 * S..101 * S).contains(&run.ended_ns),
        "{}",
        run.ended_ns
    );
    assert!(run.has_given_up);
}

#[test]
fn both_limits_hold_and_the_first_one_ends_the_run() {
    let peer = || HttpPeer::new(|_| Reply::after(10 * MS, OK));
    let by_time = Rig::new().requests(1_000).lasting(S).run(peer());
    assert_eq!((by_time.sent(), by_time.ended_ns), (100, S));
    let by_number = Rig::new().requests(20).lasting(S).run(peer());
    assert_eq!((by_number.sent(), by_number.ended_ns), (20, 200 * MS));
}

#[test]
fn a_deadline_that_falls_on_the_end_is_in_flight_not_a_timeout() {
    let run = Rig::new()
        .timeout(S)
        .run(HttpPeer::new(|_| Reply::silence()));
    assert_eq!(run.errors(ErrorKind::Timeout), (0, 0));
    assert_eq!(run.recording.counters.oldest_in_flight_ns, S);
}

#[test]
fn rates_are_samples_of_a_tenth_of_a_second() {
    let run = Rig::new()
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
fn connections_that_were_opened_in_the_warm_up_are_counted_as_standing() {
    let peer = HttpPeer::new(|_| Reply::after(MS, OK));
    let run = Rig::new().connections(3).warmed_up(100 * MS).run(peer);
    let counters = run.recording.counters;
    let counted = (counters.connections_at_start, counters.connections_opened);
    assert_eq!(counted, (3, 0));
    let peer = HttpPeer::new(|_| Reply::after(MS, OK));
    let counters = Rig::new().connections(3).run(peer).recording.counters;
    let counted = (counters.connections_at_start, counters.connections_opened);
    assert_eq!(counted, (0, 3));
}

#[test]
fn a_run_by_number_waits_for_each_response_as_long_as_the_timeout_says() {
    for threads in [1, 2] {
        let slow = HttpPeer::new(|_| Reply::after(45 * S, OK));
        let rig = || Rig::new().threads(threads).connections(2).timeout(60 * S);
        let run = rig().requests(4).run(slow);
        assert_eq!((run.answered(), run.ended_ns), (4, 90 * S));
        assert!(!run.has_given_up);
        let hung = HttpPeer::new(|_| Reply::silence());
        let run = rig().requests(2).run(hung);
        assert_eq!(run.errors(ErrorKind::Timeout), (2, 2));
        assert_eq!(run.ended_ns, 60 * S);
        assert!(!run.has_given_up, "all that was wanted was sent");
    }
}

#[test]
fn a_run_by_number_gives_up_on_a_server_that_does_not_respond_any_more() {
    // Each request is given its timeout, also those sent just before the run gives up.
    let peer = HttpPeer::new(|request| match request.arrived_ns < S {
        true => Reply::after(10 * MS, OK),
        false => Reply::silence(),
    });
    let run = Rig::new().connections(4).timeout(7 * S).requests(1_000_000);
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
fn a_run_by_number_gives_up_on_a_server_that_is_gone() {
    for rate in [None, Some(100.0)] {
        for timeout_ns in [2 * S, 600 * S] {
            let peer = HttpPeer::new(|request| match request.arrived_ns < S {
                true => Reply::after(10 * MS, OK),
                false => Reply::silence().then_reset(0),
            })
            .admitting(|_, now_ns| match now_ns < S {
                true => ConnectAnswer::Accept { after_ns: 0 },
                false => ConnectAnswer::refuse(),
            });
            let rig = Rig::new().threads(2).connections(4).timeout(timeout_ns);
            let rig = rig.requests(1_000_000);
            let rig = match rate {
                Some(rate) => rig.rate(rate),
                None => rig,
            };
            let run = rig.run(peer);
            assert!(run.has_given_up);
            assert!(run.answered() > 0);
            let ended_s = run.ended_ns / S;
            assert!((31..=33).contains(&ended_s), "{ended_s} s, {rate:?}");
        }
    }
}
