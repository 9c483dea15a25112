//! HTTP/3 connections that move to another local port in mid-run, and servers that do not follow.

use crate::http3::{LOST_TAIL_NS, ROUND_TRIP_NS, Run, run, simulation};
use crate::quic_server::{QuicServer, Reply};
use crate::simulation::{MS, S, Simulation};
use eventloop::sim::DatagramFaults;
use results::ErrorKind;
use std::collections::BTreeSet;
use std::time::Duration;

const CONNECTIONS: u64 = 8;
const STREAMS: u32 = 2;

/// Half a round trip more than whole ones: there is always something on its way to the old port.
const EVERY_NS: u64 = 110 * MS;

/// Moves of a connection in a second. The handshake comes before, and takes a round trip.
const MOVES: u64 = (S - ROUND_TRIP_NS) / EVERY_NS;

/// A run of a second whose connections move.
fn moving(threads: u32) -> Simulation {
    let mut simulation = simulation()
        .threads(threads)
        .connections(CONNECTIONS as u32);
    let every = Duration::from_nanos(EVERY_NS);
    simulation.settings.plan.load.local_port_rebind = Some(every);
    simulation
}

fn migrations(run: &Run) -> u64 {
    let quic = run.ended.recording.quic.as_ref();
    quic.expect("it is QUIC").migrations
}

/// From how many ports the server has had requests.
fn ports(run: &Run) -> u64 {
    let sockets = run.served.iter().map(|served| served.socket);
    sockets.collect::<BTreeSet<_>>().len() as u64
}

/// The connections live, and the server has each request once, except for those on their way at
/// the end. Of the connections, these have no handshake until the end.
fn assert_all_arrived_once(run: &Run, without_handshake: u64) {
    run.assert_no_errors();
    let counters = &run.ended.recording.counters;
    let opened = (counters.connections_opened, counters.reconnects);
    assert_eq!(opened, (CONNECTIONS - without_handshake, 0));
    let served = run.served.len() as u64;
    assert!((counters.answered..=counters.sent).contains(&served));
}

#[test]
fn connections_that_move_to_new_ports_lose_no_request() {
    for threads in [1, 2, 4, 8] {
        for rate in [None, Some(400.0)] {
            let simulation = match rate {
                Some(rate_per_sec) => moving(threads).rate(rate_per_sec),
                None => moving(threads),
            };
            let run = run(simulation, STREAMS, QuicServer::new(|_| Reply::After(0)));
            assert_all_arrived_once(&run, 0);
            assert_eq!(migrations(&run), CONNECTIONS * MOVES);
            assert_eq!(ports(&run), CONNECTIONS * (1 + MOVES));
            let slowest_ns = run.ended.recording.service_time.max_ns();
            assert!(
                slowest_ns > Some(ROUND_TRIP_NS),
                "responses to old ports are lost"
            );
            assert!(slowest_ns <= Some(LOST_TAIL_NS), "{slowest_ns:?}");
        }
    }
}

#[test]
fn connections_that_move_on_a_network_with_loss_lose_no_request_either() {
    for threads in [1, 2, 4, 8] {
        let mut simulation = moving(threads);
        simulation.sim.datagram_faults = DatagramFaults {
            lost_ppm: 50_000,
            doubled_ppm: 50_000,
            late_ppm: 50_000,
            late_ns: 3 * MS,
        };
        let run = run(simulation, STREAMS, QuicServer::new(|_| Reply::After(0)));
        // A handshake whose first datagram is lost goes on after a second, most of the run.
        let handshakes = run.ended.recording.phases.tls.count();
        assert!(handshakes >= CONNECTIONS - 1, "{handshakes}");
        assert_all_arrived_once(&run, CONNECTIONS - handshakes);
        let faults = run.counts;
        assert!(
            faults.lost > 20 && faults.doubled > 20 && faults.late > 20,
            "{faults:?}"
        );
        // The server may be heard again only after the next move, or after the end.
        let moves = CONNECTIONS * MOVES;
        let followed = migrations(&run);
        assert!((moves * 3 / 4..=moves).contains(&followed), "{followed}");
    }
}

#[test]
fn a_server_that_does_not_follow_costs_an_error_a_second_after_the_first_move() {
    for threads in [1, 2, 4, 8] {
        let mut server = QuicServer::new(|_| Reply::After(0));
        server.follows_moves = false;
        let run = run(moving(threads).lasting(3 * S), STREAMS, server);
        let recording = &run.ended.recording;
        let kinds: Vec<_> = recording.errors.iter().map(|(kind, _)| kind).collect();
        assert_eq!(kinds, [ErrorKind::Migration]);
        // A handshake, the time until the move and a second of silence fit twice into the run.
        let errors = recording.errors.count(ErrorKind::Migration);
        let failed = 2 * CONNECTIONS;
        assert_eq!(
            (errors.events, errors.exchanges),
            (failed, failed * u64::from(STREAMS))
        );
        assert_eq!(recording.counters.connections_opened, 3 * CONNECTIONS);
        assert_eq!((migrations(&run), ports(&run)), (0, 3 * CONNECTIONS));
        assert_eq!(run.ended.ended_ns, 3 * S);
    }
}
