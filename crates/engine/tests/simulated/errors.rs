//! Failures are counted once, by kind, at their time, and do not stop the run.

use crate::http::{HttpPeer, Reply};
use crate::simulation::{MS, OK, Run, S, Simulation};
use eventloop::sim::{ConnectReaction, PeerEvent};
use results::{ErrorKind, Legacy};

/// How many connection attempts the server saw.
fn attempts(run: &Run) -> usize {
    let peer_log = run.peer_log();
    peer_log
        .iter()
        .filter(|entry| matches!(entry.what, PeerEvent::Attempted(_)))
        .count()
}

#[test]
fn a_timeout_fires_exactly_at_its_deadline_once_and_replaces_the_connection() {
    let peer = HttpPeer::new(|request| match request.number % 5 {
        4 => Reply::silence(),
        _ => Reply::after(MS, OK),
    });
    let run = Simulation::new().timeout(50 * MS).run(peer);
    // Four responses and a timeout take 54 ms. The last round begins at 18 x 54 = 972 ms, and its
    // fifth request is still waiting at the end.
    assert_eq!(run.errors(ErrorKind::Timeout), (18, 18));
    run.assert_only_errors(&[ErrorKind::Timeout]);
    assert_eq!(run.recording.errors.legacy(Legacy::Timeout), 18);
    assert_eq!(run.answered(), 19 * 4);
    let ages = &run.recording.timed_out;
    assert_eq!(
        (ages.min_ns(), ages.max_ns()),
        (Some(50 * MS), Some(50 * MS))
    );
    assert_eq!(attempts(&run), 19);
    let silent: Vec<_> = run
        .served
        .iter()
        .filter(|it| it.last_byte_ns.is_none())
        .collect();
    for served in &silent[..18] {
        let closed_ns = run.peer_log().iter().find_map(|entry| {
            let is_end = matches!(entry.what, PeerEvent::EndOfStream | PeerEvent::Reset);
            (is_end && entry.connection == served.connection).then_some(entry.at_ns)
        });
        assert_eq!(closed_ns, Some(served.arrived_ns + 50 * MS));
    }
}

/// The beginning of a response whose body is much longer.
fn beginning(body_bytes: usize) -> Vec<u8> {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
    [head.as_slice(), &vec![b'x'; body_bytes]].concat()
}

#[test]
fn a_truncated_long_body_is_an_error_and_the_received_bytes_are_counted() {
    let part = beginning(400_000);
    let part_bytes = part.len() as u64;
    let peer = HttpPeer::new(move |_| Reply::after(MS, part.clone()).then_close(MS));
    let run = Simulation::new()
        .requests_per_connection(1)
        .requests(20)
        .run(peer);
    assert_eq!(run.errors(ErrorKind::Truncated), (20, 20));
    run.assert_only_errors(&[ErrorKind::Truncated]);
    assert_eq!(run.recording.counters.bytes, 20 * part_bytes);
}

#[test]
fn a_reset_within_a_long_body_is_a_reset() {
    let part = beginning(400_000);
    let peer = HttpPeer::new(move |_| Reply::after(MS, part.clone()).then_reset(MS));
    let run = Simulation::new()
        .requests_per_connection(1)
        .requests(20)
        .run(peer);
    assert_eq!(run.errors(ErrorKind::Reset), (20, 20));
    run.assert_only_errors(&[ErrorKind::Reset]);
}

#[test]
fn a_long_body_that_stops_arriving_times_out_and_the_received_bytes_are_counted() {
    let part = beginning(400_000);
    let part_bytes = part.len() as u64;
    let peer = HttpPeer::new(move |_| Reply::after(MS, part.clone()));
    let run = Simulation::new().timeout(50 * MS).requests(5).run(peer);
    assert_eq!(run.errors(ErrorKind::Timeout), (5, 5));
    assert_eq!(run.recording.timed_out.max_ns(), Some(50 * MS));
    assert_eq!(run.recording.counters.bytes, 5 * part_bytes);
}

#[test]
fn a_response_after_the_timeout_is_not_counted() {
    let peer = HttpPeer::new(|_| Reply::after(60 * MS, OK));
    let run = Simulation::new().timeout(50 * MS).run(peer);
    assert_eq!(run.answered(), 0);
    assert_eq!(run.recording.counters.bytes, 0);
    run.assert_only_errors(&[ErrorKind::Timeout]);
}

#[test]
fn a_timeout_ends_all_requests_of_the_pipeline_with_their_own_ages() {
    // The first two are answered, the others never. The fifth and sixth were sent 10 ms later.
    let peer = HttpPeer::new(|request| match request.number {
        0 | 1 => Reply::after(10 * MS, OK),
        _ => Reply::silence(),
    });
    let run = Simulation::new().pipeline(4).timeout(600 * MS).run(peer);
    assert_eq!(run.errors(ErrorKind::Timeout), (1, 4));
    let ages = &run.recording.timed_out;
    assert_eq!(
        (ages.min_ns(), ages.max_ns()),
        (Some(590 * MS), Some(600 * MS))
    );
    assert_eq!(run.recording.counters.in_flight, 4);
}

#[test]
fn a_slow_trickle_does_not_postpone_the_timeout() {
    let peer = HttpPeer::new(|_| {
        let first = Reply::after(0, &OK[..1]);
        OK[1..]
            .iter()
            .fold(first, |reply, byte| reply.then(20 * MS, [*byte]))
    });
    let run = Simulation::new().timeout(100 * MS).run(peer);
    assert_eq!(run.answered(), 0);
    assert_eq!(run.recording.timed_out.max_ns(), Some(100 * MS));
}

#[test]
fn a_connection_that_is_never_established_times_out_and_is_retried() {
    let peer = HttpPeer::new(|_| Reply::after(MS, OK)).admitting(|number, _| match number {
        0..3 => ConnectReaction::Ignore,
        _ => ConnectReaction::Accept { after_ns: 0 },
    });
    let run = Simulation::new().timeout(100 * MS).run(peer);
    assert_eq!(run.errors(ErrorKind::ConnectTimeout), (3, 0));
    run.assert_only_errors(&[ErrorKind::ConnectTimeout]);
    assert!(run.answered() > 600, "{}", run.answered());
}

#[test]
fn refused_connections_back_off_and_recover() {
    let peer = HttpPeer::new(|_| Reply::after(MS, OK)).admitting(|_, now_ns| {
        if now_ns < S / 2 {
            ConnectReaction::refuse()
        } else {
            ConnectReaction::Accept { after_ns: 0 }
        }
    });
    let run = Simulation::new().connections(10).lasting(2 * S).run(peer);
    let (refused, exchanges) = run.errors(ErrorKind::Refused);
    assert_eq!(exchanges, 0, "no request was lost, as none was sent");
    assert_eq!(
        refused as usize + 10,
        attempts(&run),
        "every attempt is counted"
    );
    assert!(
        (50..=150).contains(&refused),
        "{refused} attempts of 10 connections in 0.5 s"
    );
    run.assert_only_errors(&[ErrorKind::Refused]);
    // By then, the longest pause is half a second.
    let first_ns = run.served.first().expect("it recovers").arrived_ns;
    assert!(first_ns < S, "{first_ns}");
    let used: std::collections::HashSet<_> = run.served.iter().map(|it| it.connection).collect();
    assert_eq!(used.len(), 10, "every connection recovers");
}

#[test]
fn connections_do_not_reconnect_in_step() {
    let peer = HttpPeer::new(|_| Reply::silence()).admitting(|_, _| ConnectReaction::refuse());
    let run = Simulation::new().connections(100).run(peer);
    let mut times: Vec<_> = run.peer_log().iter().map(|entry| entry.at_ns).collect();
    times.retain(|at_ns| *at_ns > 0);
    let attempts = times.len();
    times.dedup();
    assert!(
        times.len() * 10 > attempts * 9,
        "{} moments for {attempts} attempts",
        times.len()
    );
}

#[test]
fn an_unreachable_server_gets_few_attempts() {
    let peer = HttpPeer::new(|_| Reply::silence()).admitting(|_, _| ConnectReaction::refuse());
    let run = Simulation::new().lasting(60 * S).run(peer);
    assert!((60..=140).contains(&attempts(&run)), "{}", attempts(&run));
    assert_eq!(run.errors(ErrorKind::Refused).0 as usize, attempts(&run));
}

#[test]
fn kinds_of_failed_connects_are_distinguished() {
    for (errno, kind) in [
        (libc::ECONNREFUSED, ErrorKind::Refused),
        (libc::EHOSTUNREACH, ErrorKind::Unreachable),
        (libc::ENETUNREACH, ErrorKind::Unreachable),
        (libc::ECONNRESET, ErrorKind::ConnectReset),
        (libc::EADDRNOTAVAIL, ErrorKind::AddressUnavailable),
        (libc::ETIMEDOUT, ErrorKind::ConnectTimeout),
        (libc::EACCES, ErrorKind::ConnectOther),
    ] {
        let answer = ConnectReaction::Fail {
            after_ns: MS,
            errno,
        };
        let peer = HttpPeer::new(|_| Reply::silence()).admitting(move |_, _| answer);
        Simulation::new().run(peer).assert_only_errors(&[kind]);
    }
}

#[test]
fn too_few_files_are_reported_and_the_other_connections_work() {
    let mut simulation = Simulation::new().connections(4);
    simulation.sim.sockets_max = 3;
    let run = simulation.run(HttpPeer::new(|_| Reply::after(MS, OK)));
    run.assert_only_errors(&[ErrorKind::FileLimit]);
    assert!(run.errors(ErrorKind::FileLimit).0 < 20);
    assert_eq!(run.answered(), 3 * 999);
}

#[test]
fn a_reset_before_the_first_response_of_a_connection_is_a_reset() {
    let peer = HttpPeer::new(|request| match request.connection {
        0 => Reply::silence().then_reset(5 * MS),
        _ => Reply::after(MS, OK),
    });
    let run = Simulation::new().run(peer);
    assert_eq!(run.errors(ErrorKind::Reset), (1, 1));
    run.assert_only_errors(&[ErrorKind::Reset]);
    // After a single failure, the next attempt is made at once.
    assert_eq!(run.answered(), 994);
}

#[test]
fn a_reset_within_a_response_is_a_reset() {
    let peer = HttpPeer::new(|request| match request.number {
        10 => Reply::after(MS, &OK[..20]).then_reset(MS),
        _ => Reply::after(MS, OK),
    });
    let run = Simulation::new().run(peer);
    assert_eq!(run.errors(ErrorKind::Reset), (1, 1));
    let bytes = run.answered() * OK.len() as u64 + 20;
    assert_eq!(
        run.recording.counters.bytes, bytes,
        "received bytes are counted"
    );
}

#[test]
fn a_close_before_a_response_and_one_within_it_are_distinguished() {
    let peer = HttpPeer::new(|request| match request.connection {
        0 => Reply::silence().then_close(MS),
        1 => Reply::after(MS, &OK[..OK.len() - 1]).then_close(MS),
        _ => Reply::after(MS, OK),
    });
    let run = Simulation::new().run(peer);
    assert_eq!(run.errors(ErrorKind::ClosedEarly), (1, 1));
    assert_eq!(run.errors(ErrorKind::Truncated), (1, 1));
    run.assert_only_errors(&[ErrorKind::ClosedEarly, ErrorKind::Truncated]);
}

#[test]
fn a_server_that_does_not_speak_http_is_one_error_per_connection() {
    let peer = HttpPeer::new(|_| Reply::after(10 * MS, "SSH-2.0-OpenSSH_9.2\r\n"));
    let run = Simulation::new().run(peer);
    let (events, exchanges) = run.errors(ErrorKind::BadStatusLine);
    assert_eq!(events, exchanges);
    assert_eq!(run.answered(), 0);
    // It backs off, as it would from a port without a listener.
    assert!((3..=20).contains(&events), "{events}");
}

#[test]
fn surplus_bytes_are_an_error_of_the_connection_not_of_the_response() {
    let twice = [OK, OK].concat();
    let peer = HttpPeer::new(move |_| Reply::after(10 * MS, twice.clone()));
    let run = Simulation::new().run(peer);
    let (events, _) = run.errors(ErrorKind::Unsolicited);
    assert!(events > 0, "{:?}", run.recording.errors);
    assert!(
        run.answered() >= events,
        "only the first of the two responses counts"
    );
}

/// The server closes right after its response, when the next request is already on its way. The
/// network takes 5 ms each way.
#[test]
fn a_close_sent_before_the_request_arrived_is_stale() {
    let peer = HttpPeer::new(|_| Reply::after(MS, OK).then_close(0));
    let run = Simulation::new().latency(5 * MS).run(peer);
    run.assert_only_errors(&[ErrorKind::Stale]);
    let (events, exchanges) = run.errors(ErrorKind::Stale);
    assert!(events > 0 && events == exchanges);
    assert_eq!(run.recording.errors.legacy(Legacy::Read), events);
}

#[test]
fn a_reset_after_the_request_arrived_is_a_failure() {
    // Every tenth request is processed for 100 ms, far more than a round trip, and then reset.
    let peer = HttpPeer::new(|request| match request.number % 10 {
        9 => Reply::silence().then_reset(100 * MS),
        _ => Reply::after(MS, OK),
    });
    let run = Simulation::new().latency(MS).lasting(2 * S).run(peer);
    run.assert_only_errors(&[ErrorKind::Reset]);
    assert!(run.errors(ErrorKind::Reset).0 > 0);
}

#[test]
fn a_close_after_the_request_arrived_is_a_failure() {
    let peer = HttpPeer::new(|request| match request.number % 10 {
        9 => Reply::silence().then_close(100 * MS),
        _ => Reply::after(MS, OK),
    });
    let run = Simulation::new().latency(MS).lasting(2 * S).run(peer);
    run.assert_only_errors(&[ErrorKind::ClosedEarly]);
    assert!(run.errors(ErrorKind::ClosedEarly).0 > 0);
}
