//! HTTP/3: handshakes, lost datagrams and their times, on links whose round trip is known.

use crate::quic_server::{Log, QuicServer, Reply, SETTINGS, Served};
use crate::records;
use crate::simulation::{MS, S, Simulation};
use engine::WorkerResult;
use eventloop::sim::{DatagramCounts, DatagramFaults};
use protocol::h3::error::ErrorCode;
use protocol::h3::{Greeting, ServerSettings};
use results::{ErrorKind, Histogram};

/// One way.
const LATENCY_NS: u64 = 10 * MS;
const ROUND_TRIP_NS: u64 = 2 * LATENCY_NS;

/// The probe timeout (RFC 9002 section 6.2.1) after many equal samples: the smoothed round trip,
/// four variations (the granularity of 1 ms is more), and the 25 ms by which an acknowledgement may
/// be delayed.
const PROBE_TIMEOUT_NS: u64 = ROUND_TRIP_NS + MS + 25 * MS;

/// What a datagram costs that is lost and has nothing behind it, with the usual round trip. Probes
/// of quinn-proto are a PING: its acknowledgement shows the loss, and then the data is sent again.
const LOST_TAIL_NS: u64 = PROBE_TIMEOUT_NS + ROUND_TRIP_NS + ROUND_TRIP_NS;

/// A run on a link with this latency.
fn simulation() -> Simulation {
    Simulation::new().latency(LATENCY_NS)
}

/// What happened, as both ends know it.
struct Run {
    ended: WorkerResult,
    counts: DatagramCounts,
    served: Vec<Served>,
}

fn run<F: FnMut(u64) -> Reply>(simulation: Simulation, streams: u32, server: QuicServer<F>) -> Run {
    let log: Log = server.log();
    let (ended, counts) = simulation.run_over_quic(streams, server);
    let served = log.borrow().clone();
    Run {
        ended,
        counts,
        served,
    }
}

impl Run {
    fn answered(&self) -> u64 {
        self.ended.recording.counters.answered
    }

    fn service_time(&self) -> &Histogram {
        &self.ended.recording.service_time
    }

    /// How many requests took longer than a round trip.
    fn slow(&self) -> u64 {
        let times = self.service_time().distinct();
        let slow = times.filter(|(ns, _)| *ns > ROUND_TRIP_NS + MS);
        slow.map(|(_, count)| count).sum()
    }

    fn assert_no_errors(&self) {
        let errors = &self.ended.recording.errors;
        assert_eq!(errors.events(), 0, "{errors:?}");
        assert_eq!(self.ended.failure, None);
    }
}

/// The least and the most of a histogram.
fn range(histogram: &Histogram) -> (Option<u64>, Option<u64>) {
    (histogram.min_ns(), histogram.max_ns())
}

/// The range of a histogram in which all times are the same.
fn always(ns: u64) -> (Option<u64>, Option<u64>) {
    (Some(ns), Some(ns))
}

/// Expects a time within the precision of a histogram.
fn assert_near(seen_ns: Option<u64>, truth_ns: u64) {
    let seen_ns = seen_ns.expect("there are samples");
    assert!(
        seen_ns.abs_diff(truth_ns) <= truth_ns / 1000,
        "{seen_ns} ns, not {truth_ns}"
    );
}

#[test]
fn a_request_takes_exactly_one_round_trip_and_a_handshake_another_one() {
    for threads in [1, 2, 4, 8] {
        let simulation = simulation().threads(threads).connections(8);
        let run = run(simulation, 2, QuicServer::new(|_| Reply::After(0)));
        run.assert_no_errors();
        // The first round trip is the handshake's. The last responses come at the end, which is no
        // longer within the window.
        assert_eq!(run.answered(), 8 * 2 * (1_000 / 20 - 2));
        assert_eq!(range(run.service_time()), always(ROUND_TRIP_NS));
        let recording = &run.ended.recording;
        assert_eq!(range(&recording.phases.tls), always(ROUND_TRIP_NS));
        assert_eq!(recording.phases.tls.count(), 8);
        let quic = recording.parts.quic.as_ref().expect("it is QUIC");
        assert_eq!(range(&quic.min_rtt), always(ROUND_TRIP_NS));
        assert_eq!((quic.packets_lost, run.counts.lost), (0, 0));
    }
}

#[test]
fn the_time_of_the_server_is_in_the_latency_and_not_in_the_round_trip() {
    let run = run(simulation(), 1, QuicServer::new(|_| Reply::After(7 * MS)));
    run.assert_no_errors();
    assert_eq!(range(run.service_time()), always(27 * MS));
    let quic = run.ended.recording.parts.quic.as_ref().expect("it is QUIC");
    assert_near(quic.min_rtt.max_ns(), ROUND_TRIP_NS);
}

#[test]
fn each_stream_has_a_record_of_its_own() {
    let records = records::of_streams(simulation(), |simulation| {
        let server = QuicServer::new(|number| Reply::After((number % 3) * 7 * MS));
        run(simulation, 4, server).ended
    });
    for expected_ms in [20, 27, 34] {
        let answered = records.iter().filter(|it| it.without_response.is_none());
        let mut same = answered.filter(|it| it.ended_ns - it.sent_ns == expected_ms * MS);
        assert!(same.any(|it| it.status == 200), "{expected_ms} ms");
    }
}

#[test]
fn retry_costs_the_handshake_a_round_trip() {
    let settings = ServerSettings {
        greeting: Greeting::Retry,
        ..SETTINGS
    };
    let server = QuicServer::with(settings, |_| Reply::After(0));
    let run = run(simulation().connections(3), 1, server);
    run.assert_no_errors();
    let recording = &run.ended.recording;
    assert_eq!(range(&recording.phases.tls), always(2 * ROUND_TRIP_NS));
    assert_eq!(
        recording.parts.quic.as_ref().map(|quic| quic.retries),
        Some(3)
    );
}

#[test]
fn a_lost_request_costs_the_probe_timeout_and_a_round_trip() {
    let mut server = QuicServer::new(|_| Reply::After(0));
    server.deaf_ns = 1_410 * MS..1_430 * MS;
    let run = run(simulation().lasting(2 * S), 1, server);
    run.assert_no_errors();
    assert_eq!(run.slow(), 1);
    assert_eq!(run.service_time().min_ns(), Some(ROUND_TRIP_NS));
    assert_near(run.service_time().max_ns(), LOST_TAIL_NS);
    let counters = &run.ended.recording.counters;
    assert_eq!(run.served.len() as u64, counters.sent);
}

#[test]
fn a_lost_response_costs_the_probe_timeout_and_a_round_trip() {
    let mut server = QuicServer::new(|_| Reply::After(0));
    server.mute_ns = 1_410 * MS..1_430 * MS;
    let run = run(simulation().lasting(2 * S), 1, server);
    run.assert_no_errors();
    assert_eq!(run.slow(), 1);
    assert_near(run.service_time().max_ns(), LOST_TAIL_NS);
    // The server has had the request once only.
    let counters = &run.ended.recording.counters;
    assert_eq!(run.served.len() as u64, counters.sent);
}

#[test]
fn a_lost_request_with_others_behind_it_costs_nine_eighths_of_a_round_trip() {
    let mut server = QuicServer::new(|_| Reply::After(0));
    // Requests are due each 2 ms, so one of them arrives within this time.
    server.deaf_ns = 1_511 * MS..1_513 * MS;
    let simulation = simulation().rate(500.0).lasting(2 * S);
    let run = run(simulation, 100, server);
    run.assert_no_errors();
    assert_eq!(run.slow(), 1);
    // RFC 9002 section 6.1.2.
    let noticed_ns = ROUND_TRIP_NS * 9 / 8;
    assert_near(run.service_time().max_ns(), noticed_ns + ROUND_TRIP_NS);
    let quic = run.ended.recording.parts.quic.as_ref().expect("it is QUIC");
    assert_eq!((quic.packets_lost, quic.congestion_events), (1, 1));
    assert_eq!(run.ended.recording.counters.due, 1_000);
}

#[test]
fn datagrams_that_are_doubled_and_overtaken_make_no_further_requests_or_responses() {
    for threads in [1, 4] {
        let mut simulation = simulation().threads(threads).connections(8);
        simulation.sim.datagram_faults = DatagramFaults {
            lost_ppm: 0,
            doubled_ppm: 300_000,
            late_ppm: 300_000,
            late_ns: 3 * MS,
        };
        let run = run(simulation, 4, QuicServer::new(|_| Reply::After(0)));
        run.assert_no_errors();
        assert!(run.counts.doubled > 100 && run.counts.late > 100);
        let counters = &run.ended.recording.counters;
        assert_eq!(counters.sent, counters.answered + counters.in_flight);
        let served = run.served.len() as u64;
        assert!((counters.answered..=counters.sent).contains(&served));
        // Both datagrams may be late.
        let slowest_ns = run.service_time().max_ns();
        assert!(slowest_ns <= Some(ROUND_TRIP_NS + 7 * MS), "{slowest_ns:?}");
    }
}

#[test]
fn requests_without_a_response_run_out_of_time_and_the_connection_lives() {
    let reply = |number| match number % 10 {
        9 => Reply::Silence,
        _ => Reply::After(0),
    };
    let simulation = simulation().timeout(100 * MS);
    let run = run(simulation, 1, QuicServer::new(reply));
    let recording = &run.ended.recording;
    let timeouts = recording.errors.count(ErrorKind::Timeout);
    // Nine responses and a timeout take 280 ms.
    assert_eq!((timeouts.events, timeouts.exchanges), (3, 3));
    assert_eq!(range(&recording.timed_out), always(100 * MS));
    assert_eq!(recording.errors.events(), 3);
    assert_eq!(recording.counters.connections_opened, 1);
    assert_eq!(recording.counters.reconnects, 0);
}

#[test]
fn a_path_that_breaks_in_mid_run_makes_timeouts_and_the_run_ends_on_time() {
    for rate in [None, Some(200.0)] {
        let mut server = QuicServer::new(|_| Reply::After(0));
        server.deaf_ns = 1_005 * MS..u64::MAX;
        let mut simulation = simulation()
            .threads(2)
            .connections(4)
            .timeout(200 * MS)
            .lasting(3 * S);
        if let Some(rate_per_sec) = rate {
            simulation = simulation.rate(rate_per_sec);
        }
        let run = run(simulation, 2, server);
        assert_eq!(run.ended.ended_ns, 3 * S);
        let recording = &run.ended.recording;
        let kinds: Vec<_> = recording.errors.iter().map(|(kind, _)| kind).collect();
        assert!(kinds.contains(&ErrorKind::Timeout), "{kinds:?}");
        assert_eq!(recording.timed_out.max_ns(), Some(200 * MS));
        assert!(recording.counters.oldest_in_flight_ns <= 200 * MS);
        assert_eq!(run.served.len() as u64, recording.counters.answered);
    }
}

#[test]
fn a_server_that_never_replies_costs_connect_timeouts_and_no_request() {
    let mut server = QuicServer::new(|_| Reply::After(0));
    server.deaf_ns = 0..u64::MAX;
    let simulation = simulation().connections(2).timeout(300 * MS);
    let run = run(simulation, 1, server);
    let recording = &run.ended.recording;
    let kinds: Vec<_> = recording.errors.iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, [ErrorKind::ConnectTimeout]);
    assert_eq!(recording.counters.sent, 0);
    assert_eq!(recording.counters.connections_opened, 0);
    assert_eq!(run.ended.ended_ns, S);
}

#[test]
fn a_connection_counts_as_opened_when_its_handshake_is_complete() {
    // The first datagrams of both connections are lost, and sent again after a second.
    let opened = |warm_up_ns| {
        let mut server = QuicServer::new(|_| Reply::After(0));
        server.deaf_ns = 0..100 * MS;
        let simulation = simulation().connections(2).lasting(2 * S);
        let run = run(simulation.warmed_up(warm_up_ns), 1, server);
        run.assert_no_errors();
        let counters = &run.ended.recording.counters;
        assert!(counters.answered > 0);
        (counters.connections_at_start, counters.connections_opened)
    };
    assert_eq!(opened(0), (0, 2));
    assert_eq!(
        opened(500 * MS),
        (0, 2),
        "the window begins within the handshakes"
    );
    assert_eq!(opened(1_500 * MS), (2, 0), "the window begins behind them");
}

#[test]
fn a_connection_that_the_server_ends_with_goaway_is_followed_by_another_one() {
    let reply = |number| match number % 20 {
        19 => Reply::LastOne(0),
        _ => Reply::After(0),
    };
    let run = run(simulation(), 1, QuicServer::new(reply));
    run.assert_no_errors();
    let counters = &run.ended.recording.counters;
    // 20 requests and a handshake take 420 ms.
    assert_eq!((counters.reconnects, counters.connections_opened), (2, 3));
    assert_eq!(run.served.len() as u64, counters.sent);
}

#[test]
fn a_connection_that_the_server_closes_fails_with_all_of_its_requests() {
    let reply = |number| match number {
        50 => Reply::Close(ErrorCode::INTERNAL_ERROR),
        _ => Reply::After(0),
    };
    let run = run(simulation(), 4, QuicServer::new(reply));
    let recording = &run.ended.recording;
    let closed = recording.errors.count(ErrorKind::Http3Closed);
    assert_eq!((closed.events, closed.exchanges), (1, 4));
    assert_eq!(recording.errors.exchanges(), 4);
    assert_eq!(recording.counters.connections_opened, 2);
}

#[test]
fn a_handshake_for_each_request_is_counted_and_takes_two_round_trips_together() {
    let simulation = simulation().requests_per_connection(1).lasting(4 * S);
    let run = run(simulation, 1, QuicServer::new(|_| Reply::After(0)));
    run.assert_no_errors();
    assert_eq!(range(run.service_time()), always(ROUND_TRIP_NS));
    let recording = &run.ended.recording;
    assert_eq!(range(&recording.phases.tls), always(ROUND_TRIP_NS));
    assert_eq!(recording.phases.tls.count(), 4_000 / 40);
    assert_eq!(run.answered(), 4_000 / 40 - 1);
}

#[test]
fn streams_that_outlast_the_window_are_read_in_the_drain_even_if_datagrams_are_lost() {
    for threads in [1, 2] {
        let simulation = simulation().threads(threads).connections(4);
        let mut simulation = simulation.timeout(20 * S).drained(20 * S);
        simulation.sim.datagram_faults = DatagramFaults {
            lost_ppm: 50_000,
            ..DatagramFaults::default()
        };
        let reply = |number| match number {
            0 => Reply::Silence,
            _ => Reply::After(1_500 * MS),
        };
        let run = run(simulation, 8, QuicServer::new(reply));
        let counters = &run.ended.recording.counters;
        assert_eq!((counters.sent, counters.answered_in_drain), (32, 31));
        assert_eq!((counters.answered, counters.in_flight), (31, 0));
        // Until the timeout of the one without a response.
        let drained_ns = run.ended.drained_ns.expect("it was drained");
        assert!((19 * S..20 * S).contains(&drained_ns), "{drained_ns}");
    }
}
