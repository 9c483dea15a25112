//! Many requests on a connection (HTTP/2): each has its own time, timeout and failure.

use crate::records;
use crate::simulation::{MS, S, Simulation, US, waits_ns};
use engine::WorkerResult;
use engine::source::Fixed;
use eventloop::sim::{Actions, Peer, PeerEvent, PeerLog};
use protocol::h2::error::ErrorCode;
use protocol::h2::frame::Frame;
use protocol::h2::hpack::encode::{Literal, field};
use protocol::h2::reader::Reader;
use protocol::h2::settings::id;
use protocol::h2::{PREFACE, StreamId, writer};
use results::records::WithoutResponse;
use results::{ErrorKind, Legacy};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// What the server does with a request.
pub(crate) enum Reply {
    /// It answers after this time.
    After(u64),
    /// It works on one request at a time, and this long on this one.
    InTurn(u64),
    /// It never answers the request.
    Silence,
    /// It answers with this `grpc-status` in trailers.
    Call(&'static str, u64),
    /// It resets the stream with this code.
    Reset(ErrorCode),
    /// It sends GOAWAY for later streams, and then answers.
    LastOne(u64),
    /// It sends DATA on a stream that the client has not opened.
    Violation,
}

/// A server. The function gets the number of the request, from 0, over all connections.
pub(crate) struct Server<F> {
    reply: F,
    /// What arrives within this time waits for its end.
    pub(crate) stall_ns: Range<u64>,
    /// How long it took to answer each request.
    pub(crate) took_ns: Vec<u64>,
    settings: Vec<(u16, u32)>,
    /// Bytes by which the connection's window is larger than at first.
    window: u32,
    /// It ends each connection at once: with GOAWAY, without an error.
    is_leaving: bool,
    requests: u64,
    busy_until_ns: u64,
    connections: BTreeMap<u32, (Reader, usize)>,
    /// Connections on which the client has sent GOAWAY, with its code.
    goaways: Vec<(u32, ErrorCode)>,
}

impl<F: FnMut(u64) -> Reply> Server<F> {
    pub(crate) fn new(reply: F) -> Self {
        Self {
            reply,
            stall_ns: 0..0,
            took_ns: Vec::new(),
            settings: Vec::new(),
            window: 0,
            is_leaving: false,
            requests: 0,
            busy_until_ns: 0,
            connections: BTreeMap::new(),
            goaways: Vec::new(),
        }
    }

    fn answer(&mut self, stream: StreamId, now_ns: u64, actions: &mut Actions) {
        let number = self.requests;
        self.requests += 1;
        let mut bytes = Vec::new();
        let after_ns = match (self.reply)(number) {
            Reply::Silence => return,
            Reply::Reset(code) => {
                writer::reset(stream, code, &mut bytes);
                actions.send(0, bytes);
                return;
            }
            Reply::Violation => {
                writer::data(stream + 1000, b"hello", true, &mut bytes);
                actions.send(0, bytes);
                return;
            }
            Reply::Call(status, after_ns) => {
                let mut block = Vec::new();
                field(b":status", b"200", Literal::Unindexed, &mut block);
                writer::headers(stream, &block, false, 16_384, &mut bytes);
                writer::data(stream, &[0; 5], false, &mut bytes);
                block.clear();
                let status = status.as_bytes();
                field(b"grpc-status", status, Literal::Unindexed, &mut block);
                writer::headers(stream, &block, true, 16_384, &mut bytes);
                actions.send(after_ns, bytes);
                return;
            }
            Reply::After(after_ns) => after_ns,
            Reply::InTurn(work_ns) => {
                self.busy_until_ns = self.busy_until_ns.max(now_ns) + work_ns;
                self.busy_until_ns - now_ns
            }
            Reply::LastOne(after_ns) => {
                writer::goaway(stream, ErrorCode::NO_ERROR, b"", &mut bytes);
                after_ns
            }
        };
        let after_ns = after_ns + waits_ns(&self.stall_ns, now_ns);
        self.took_ns.push(after_ns);
        let mut block = Vec::new();
        field(b":status", b"200", Literal::Unindexed, &mut block);
        writer::headers(stream, &block, false, 16_384, &mut bytes);
        writer::data(stream, b"hello", true, &mut bytes);
        actions.send(after_ns, bytes);
    }
}

impl<F: FnMut(u64) -> Reply> Peer for Server<F> {
    fn on_open(&mut self, connection: u32, _now_ns: u64, actions: &mut Actions) {
        let mut bytes = Vec::new();
        writer::settings(self.settings.iter().copied(), &mut bytes);
        if self.window > 0 {
            writer::window_update(0, self.window, &mut bytes);
        }
        if self.is_leaving {
            writer::goaway(0, ErrorCode::NO_ERROR, b"", &mut bytes);
        }
        actions.send(0, bytes);
        self.connections
            .insert(connection, (Reader::new(10_000), PREFACE.len()));
    }

    fn on_bytes(&mut self, connection: u32, bytes: &[u8], now_ns: u64, actions: &mut Actions) {
        let Some((reader, preface)) = self.connections.get_mut(&connection) else {
            return;
        };
        let mut input = &bytes[bytes.len().min(*preface)..];
        *preface -= bytes.len().min(*preface);
        let mut streams = Vec::new();
        while let Some(frame) = reader.next(&mut input).expect("the client keeps the rules") {
            match frame {
                Frame::Headers(headers) if headers.end_stream => streams.push(headers.stream),
                Frame::Data(data) if data.end_stream => streams.push(data.stream),
                Frame::Goaway { code, .. } => self.goaways.push((connection, code)),
                _ => {}
            }
        }
        for stream in streams {
            self.answer(stream, now_ns, actions);
        }
    }
}

fn run(
    simulation: Simulation,
    streams: u32,
    reply: impl FnMut(u64) -> Reply,
) -> (WorkerResult, PeerLog) {
    simulation.run_multiplexed(streams, Server::new(reply))
}

fn attempts(peer_log: &PeerLog) -> usize {
    let entries = peer_log.entries().into_iter();
    entries
        .filter(|entry| matches!(entry.what, PeerEvent::Attempted(_)))
        .count()
}

/// How often bytes arrived at the server.
fn arrivals(peer_log: &PeerLog) -> u64 {
    let entries = peer_log.entries().into_iter();
    entries
        .filter(|entry| matches!(entry.what, PeerEvent::Arrived(_)))
        .count() as u64
}

#[test]
fn requests_share_a_connection() {
    let (ended, peer_log) = run(Simulation::new(), 4, |_| Reply::After(10 * MS));
    let counters = &ended.recording.counters;
    // The last four are answered at the end, which is no longer within the window.
    assert_eq!((counters.answered, counters.in_flight), (4 * 99, 4));
    let service = &ended.recording.service_time;
    assert_eq!(
        (service.min_ns(), service.max_ns()),
        (Some(10 * MS), Some(10 * MS))
    );
    assert_eq!(ended.recording.errors.events(), 0);
    assert_eq!(attempts(&peer_log), 1);
}

#[test]
fn each_stream_has_a_record_of_its_own() {
    let simulation = Simulation::new().timeout(50 * MS);
    let records = records::of_streams(simulation, |simulation| {
        let mut number = 0;
        let (ended, _) = run(simulation, 4, move |_| {
            number += 1;
            match number % 50 {
                0 => Reply::Silence,
                _ => Reply::After(10 * MS),
            }
        });
        ended
    });
    let took_ms = |reason: Option<WithoutResponse>| {
        let of_reason = records.iter().filter(|it| it.without_response == reason);
        let took = of_reason.map(|it| (it.status, (it.ended_ns - it.sent_ns) / MS));
        took.collect::<BTreeSet<_>>()
    };
    assert_eq!(took_ms(None), BTreeSet::from([(200, 10)]));
    let timed_out = Some(WithoutResponse::Failed(ErrorKind::Timeout));
    assert_eq!(took_ms(timed_out), BTreeSet::from([(0, 50)]));
}

#[test]
fn the_rate_includes_what_a_warm_up_has_left_on_all_streams() {
    let simulation = Simulation::new().warmed_up(S / 2).timeout(10 * S);
    let (ended, _) = run(simulation, 32, |_| Reply::InTurn(5 * MS));
    let counters = &ended.recording.counters;
    assert!(
        counters.answered_of_warmup.abs_diff(32) <= 1,
        "{counters:?}"
    );
    assert!(counters.responses().abs_diff(200) <= 1, "{counters:?}");
    // All responses are alike.
    assert_eq!(counters.bytes % counters.responses(), 0);
}

#[test]
fn a_rate_is_kept_over_streams() {
    let simulation = Simulation::new().rate(100.0).connections(2);
    let (ended, peer_log) = run(simulation, 3, |_| Reply::After(40 * MS));
    let counters = &ended.recording.counters;
    assert_eq!((counters.due, counters.sent), (100, 100));
    assert_eq!(ended.recording.response_time.max_ns(), Some(40 * MS));
    assert_eq!(attempts(&peer_log), 2);
}

#[test]
fn requests_that_the_loop_keeps_behind_others_of_their_connection_are_sent_late() {
    // The load generator runs for 0.3 of 50 ms. Of the ten requests that are due then, each turn
    // passes one to the kernel, because they are on one connection.
    let pauses_ns = (0..20).map(|round| (round * 50 * MS + 300 * US, (round + 1) * 50 * MS));
    let mut simulation = Simulation::new().rate(200.0).connections(1);
    simulation.sim.pauses_ns = pauses_ns.collect();
    simulation.sim.clock_cost_ns = 30 * US;
    simulation.sim.queues_sends = true;
    let (ended, _) = run(simulation, 16, |_| Reply::After(10 * MS));
    let recording = &ended.recording;
    let shown = &recording.response_time;
    let corrected = recording.corrected_latency();
    assert!(shown.value_at_percentile(50.0) > 60 * MS, "{shown:?}");
    for percent in [1.0, 50.0, 90.0, 99.0] {
        let corrected_ns = corrected.value_at_percentile(percent);
        assert!(
            corrected_ns.abs_diff(10 * MS) < MS,
            "p{percent}: {corrected_ns} ns"
        );
    }
}

#[test]
fn fewer_streams_than_wanted_are_used_and_reported() {
    let mut server = Server::new(|_| Reply::After(10 * MS));
    server.settings = vec![(id::MAX_CONCURRENT_STREAMS, 2)];
    let (ended, _) = Simulation::new().run_multiplexed(8, server);
    assert_eq!(ended.recording.streams_limit, Some(2));
    assert_eq!(ended.recording.counters.answered, 2 * 99);
}

#[test]
fn a_timeout_ends_its_request_and_not_the_connection() {
    let reply = |number| match number % 20 {
        10 => Reply::Silence,
        _ => Reply::After(10 * MS),
    };
    let (ended, peer_log) = run(Simulation::new().timeout(100 * MS), 2, reply);
    let timeouts = ended.recording.errors.count(ErrorKind::Timeout);
    assert_eq!((timeouts.events, timeouts.exchanges), (6, 6));
    let ages = &ended.recording.timed_out;
    assert_eq!(
        (ages.min_ns(), ages.max_ns()),
        (Some(100 * MS), Some(100 * MS))
    );
    assert_eq!(ended.recording.errors.legacy(Legacy::Timeout), 6);
    assert_eq!(attempts(&peer_log), 1);
    let counters = &ended.recording.counters;
    let ended_requests = counters.answered + timeouts.exchanges + counters.in_flight;
    assert_eq!(counters.sent, ended_requests);
}

#[test]
fn more_timeouts_than_ten_a_second_close_the_connection() {
    let simulation = Simulation::new().timeout(100 * MS).lasting(150 * MS);
    let (ended, peer_log) = run(simulation, 20, |_| Reply::Silence);
    let timeouts = ended.recording.errors.count(ErrorKind::Timeout);
    // Ten are cancelled, and the eleventh takes the others with it.
    assert_eq!((timeouts.events, timeouts.exchanges), (11, 20));
    assert_eq!(attempts(&peer_log), 2);
}

#[test]
fn goaway_moves_to_a_new_connection() {
    let reply = |number| match number % 50 {
        49 => Reply::LastOne(10 * MS),
        _ => Reply::After(10 * MS),
    };
    let (ended, peer_log) = run(Simulation::new(), 4, reply);
    let recording = &ended.recording;
    let unprocessed = recording.errors.count(ErrorKind::GoawayUnprocessed);
    assert_eq!(unprocessed.events, unprocessed.exchanges);
    assert_eq!(recording.errors.exchanges(), unprocessed.exchanges);
    assert!(attempts(&peer_log) > 1);
    assert_eq!(
        recording.counters.reconnects,
        attempts(&peer_log) as u64 - 1
    );
    let counters = &recording.counters;
    let ended_requests = counters.answered + unprocessed.exchanges + counters.in_flight;
    assert_eq!(counters.sent, ended_requests);
}

#[test]
fn a_server_that_ends_each_connection_at_once_is_asked_for_the_next_one_after_pauses() {
    for rate_per_sec in [None, Some(1000.0)] {
        let mut server = Server::new(|_| Reply::After(10 * MS));
        server.is_leaving = true;
        let mut simulation = Simulation::new().connections(10).lasting(10 * S);
        if let Some(rate_per_sec) = rate_per_sec {
            simulation = simulation.rate(rate_per_sec);
        }
        let (ended, peer_log) = simulation.run_multiplexed(4, server);
        let counters = &ended.recording.counters;
        assert_eq!((counters.sent, ended.recording.errors.events()), (0, 0));
        let attempts = attempts(&peer_log);
        assert!(counters.reconnects.abs_diff(attempts as u64) <= 10);
        // Closed loop: one at once, then pauses of 1 ms that double up to 1 s, with jitter. With a
        // rate, one connection tries every 2 to 4 ms for all.
        let most = if rate_per_sec.is_some() {
            5_100
        } else {
            10 * 40
        };
        assert!((100..=most).contains(&attempts), "{attempts} attempts");
    }
}

/// Runs, and returns on which connections the client has sent GOAWAY.
fn goaways(
    simulation: Simulation,
    reply: impl FnMut(u64) -> Reply,
) -> (WorkerResult, PeerLog, Vec<(u32, ErrorCode)>) {
    let server = Arc::new(Mutex::new(Server::new(reply)));
    let (ended, peer_log) = simulation.run_multiplexed(4, Arc::clone(&server));
    let goaways = server
        .lock()
        .expect("no panic under the lock")
        .goaways
        .clone();
    (ended, peer_log, goaways)
}

#[test]
fn the_client_announces_the_end_of_each_connection_that_it_closes() {
    let simulation = Simulation::new().requests_per_connection(20);
    let (ended, peer_log, goaways) = goaways(simulation, |_| Reply::After(10 * MS));
    assert_eq!(ended.recording.errors.events(), 0);
    // Four at a time take 50 ms.
    assert_eq!(attempts(&peer_log), 20);
    let closed_in_mid_run: Vec<_> = (0..19)
        .map(|number| (number, ErrorCode::NO_ERROR))
        .collect();
    assert_eq!(goaways[..19], closed_in_mid_run);
}

#[test]
fn the_client_says_which_rule_the_server_broke_when_it_closes() {
    let reply = |number| match number {
        9 => Reply::Violation,
        _ => Reply::After(10 * MS),
    };
    let (ended, peer_log, goaways) = goaways(Simulation::new(), reply);
    let broken = ended.recording.errors.count(ErrorKind::BadHttp2);
    assert_eq!((broken.events, attempts(&peer_log)), (1, 2));
    assert_eq!(goaways.first(), Some(&(0, ErrorCode::PROTOCOL_ERROR)));
}

#[test]
fn large_bodies_are_sent_completely_in_parts() {
    let mut server = Server::new(|_| Reply::After(10 * MS));
    server.settings = vec![(id::INITIAL_WINDOW_SIZE, 1 << 30)];
    server.window = 1 << 30;
    let body = "x".repeat(3_000_000);
    let length = body.len();
    let request = format!("POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}");
    let simulation = Simulation::new().source(Fixed::new(request.into_bytes()));
    let (ended, peer_log) = simulation.run_multiplexed(2, server);
    let counters = &ended.recording.counters;
    assert_eq!((counters.answered, counters.in_flight), (2 * 99, 2));
    assert_eq!(ended.recording.errors.events(), 0);
    let arrived = peer_log
        .entries()
        .into_iter()
        .map(|entry| match entry.what {
            PeerEvent::Arrived(bytes) => bytes,
            _ => 0,
        });
    assert!(arrived.sum::<usize>() > 2 * 99 * length);
}

#[test]
fn a_refused_stream_is_one_failed_request() {
    let reply = |number| match number % 10 {
        9 => Reply::Reset(ErrorCode::REFUSED_STREAM),
        _ => Reply::After(10 * MS),
    };
    let (ended, peer_log) = run(Simulation::new().lasting(S / 2), 1, reply);
    let refused = ended.recording.errors.count(ErrorKind::StreamRefused);
    // Nine responses take 90 ms.
    assert_eq!((refused.events, refused.exchanges), (5, 5));
    assert_eq!(attempts(&peer_log), 1);
}

#[test]
fn a_grpc_call_fails_by_its_status_and_not_by_its_connection() {
    let mut simulation = Simulation::new();
    simulation.settings.plan.load.protocol = plan::Protocol::Grpc;
    let reply = |number| match number % 4 {
        3 => Reply::Call("14", 10 * MS),
        _ => Reply::Call("0", 10 * MS),
    };
    let (ended, peer_log) = run(simulation, 4, reply);
    let recording = &ended.recording;
    let failed = recording.errors.count(ErrorKind::GrpcUnavailable);
    assert_eq!((failed.events, failed.exchanges), (99, 99));
    assert_eq!(recording.counters.answered, 3 * 99);
    assert_eq!(recording.service_time.count(), 3 * 99);
    assert_eq!(recording.errors.events(), 99);
    assert_eq!(attempts(&peer_log), 1);
}

#[test]
fn calls_that_fail_for_longer_than_the_patience_of_a_run_are_all_made() {
    // Without a response, a run that only a number of requests ends gives up after 30 s.
    let mut simulation = Simulation::new().requests(50);
    simulation.settings.plan.load.protocol = plan::Protocol::Grpc;
    let (ended, _) = run(simulation, 1, |_| Reply::Call("12", S));
    assert!(!ended.has_given_up);
    let failed = ended.recording.errors.count(ErrorKind::GrpcUnimplemented);
    assert_eq!((failed.exchanges, ended.recording.counters.sent), (50, 50));
}

#[test]
fn requests_after_responses_in_quick_succession_are_sent_together() {
    let simulation = Simulation::new().lasting(S / 10);
    let (ended, peer_log) = run(simulation, 1_600, |_| Reply::InTurn(10 * US));
    let recording = &ended.recording;
    let answered = recording.counters.answered;
    // The server is never idle.
    assert_eq!(answered, 9_999);
    let arrivals = arrivals(&peer_log);
    assert!(arrivals * 3 < answered, "{arrivals}");
    // A stream is without a request for a four-hundredth of the time at most.
    let in_flight_ns = recording.counters.in_flight_time_ns;
    assert!(in_flight_ns >= 1_596 * (S / 10), "{in_flight_ns}");
    // Waiting for others is no part of the latency: 1,600 times 10 us, less what waits.
    let service = &recording.service_time;
    assert!(service.max_ns() <= Some(16 * MS), "{:?}", service.max_ns());
}

#[test]
fn with_few_requests_in_flight_a_response_is_followed_by_a_request_at_once() {
    let simulation = Simulation::new().lasting(S / 10);
    let (ended, peer_log) = run(simulation, 10, |_| Reply::InTurn(10 * US));
    let counters = &ended.recording.counters;
    assert_eq!(counters.answered, 9_999);
    assert!(arrivals(&peer_log) >= counters.answered);
    assert_eq!(counters.in_flight_time_ns, 10 * (S / 10));
}

#[test]
fn a_fast_stream_does_not_wait_for_others() {
    let simulation = Simulation::new().lasting(S / 10);
    let reply = |number| match number {
        0..399 => Reply::Silence,
        _ => Reply::After(MS),
    };
    let (ended, _) = run(simulation, 400, reply);
    let counters = &ended.recording.counters;
    assert_eq!((counters.answered, counters.in_flight), (99, 400));
    assert_eq!(counters.in_flight_time_ns, 400 * (S / 10));
}

#[test]
fn streams_that_outlast_the_window_are_read_or_cancelled_in_the_drain() {
    let simulation = Simulation::new().connections(2);
    let simulation = simulation.timeout(2 * S).drained(10 * S);
    let reply = |number| match number {
        0 => Reply::Silence,
        1 => Reply::Reset(ErrorCode::INTERNAL_ERROR),
        _ => Reply::After(1_500 * MS),
    };
    let (ended, _) = run(simulation, 16, reply);
    let (counters, errors) = (&ended.recording.counters, &ended.recording.errors);
    let timed_out = errors.count(ErrorKind::Timeout).exchanges;
    assert_eq!(timed_out, 1);
    // What followed the stream that was reset is read, too.
    assert_eq!((counters.sent, counters.answered_in_drain), (33, 31));
    assert_eq!((counters.answered, counters.in_flight), (31, 0));
    assert_eq!(ended.drained_ns, Some(S));
}
