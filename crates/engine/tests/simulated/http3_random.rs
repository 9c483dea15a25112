//! Whatever a network does to datagrams of HTTP/3, the totals add up and the run ends on time.

use crate::conditions::{Conditions, any_conditions};
use crate::quic_server::{QuicServer, Reply, SETTINGS, Served};
use crate::simulation::{MS, S, US};
use engine::WorkerResult;
use eventloop::sim::{DatagramCounts, DatagramFaults};
use plan::Arrivals;
use proptest::prelude::*;
use protocol::h3::error::ErrorCode;
use protocol::h3::{Greeting, ServerSettings};

/// Short, because handshakes cost much CPU time, and the shortest runs have hundreds of them.
const LASTING_NS: u64 = S / 4;

/// A timeout is noticed at the next turn of the worker.
const TURN_NS: u64 = 100 * US;

fn any_reply() -> impl Strategy<Value = Reply> {
    let delay_ns = 0..40 * MS;
    prop_oneof![
        12 => delay_ns.clone().prop_map(Reply::After),
        1 => Just(Reply::Silence),
        1 => delay_ns.prop_map(Reply::LastOne),
        1 => Just(Reply::Close(ErrorCode::NO_ERROR)),
        1 => Just(Reply::Close(ErrorCode::EXCESSIVE_LOAD)),
    ]
}

fn any_faults() -> impl Strategy<Value = DatagramFaults> {
    let ppm = || prop_oneof![Just(0), 0..300_000_u32];
    let faults = (ppm(), ppm(), ppm(), 0..20 * MS);
    faults.prop_map(
        |(lost_ppm, doubled_ppm, late_ppm, late_ns)| DatagramFaults {
            lost_ppm,
            doubled_ppm,
            late_ppm,
            late_ns,
        },
    )
}

#[derive(Debug, Clone)]
struct Case {
    replies: Vec<Reply>,
    faults: DatagramFaults,
    greeting: Greeting,
    /// Streams that the server allows.
    allowed: u32,
    threads: u32,
    connections: u32,
    streams: u32,
    conditions: Conditions,
}

prop_compose! {
    fn any_case()(
        replies in prop::collection::vec(any_reply(), 1..30),
        faults in any_faults(),
        greeting in prop_oneof![4 => Just(Greeting::Accept), 1 => Just(Greeting::Retry)],
        (allowed, streams) in (1..12_u32, 1..8_u32),
        (threads, connections) in (1..5_u32, 1..12_u32),
        conditions in any_conditions(10..200, 100, 20_000, 2_000.0),
    ) -> Case {
        Case { replies, faults, greeting, allowed, threads, connections, streams, conditions }
    }
}

/// What the client recorded, what the network did, and what the server knows.
fn run(case: &Case) -> (WorkerResult, DatagramCounts, Vec<Served>) {
    let replies = case.replies.clone();
    let settings = ServerSettings {
        streams_max: case.allowed,
        greeting: case.greeting,
        ..SETTINGS
    };
    let server = QuicServer::with(settings, move |number| {
        replies[number as usize % replies.len()]
    });
    let simulation = case.conditions.simulation(Arrivals::Poisson);
    let mut simulation = simulation
        .threads(case.threads.min(case.connections))
        .connections(case.connections)
        .lasting(LASTING_NS);
    simulation.sim.datagram_faults = case.faults;
    let log = server.log();
    // The simulation checks the consistency of the result.
    let (ended, counts) = simulation.run_over_quic(case.streams, server);
    let served = log.borrow().clone();
    (ended, counts, served)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn totals_add_up_whatever_happens_to_datagrams(case in any_case()) {
        let (ended, counts, served) = run(&case);
        prop_assert_eq!(&ended.failure, &None);
        let end_ns = LASTING_NS + case.conditions.warmup_ms * MS;
        prop_assert!(ended.ended_ns <= end_ns);
        let recording = &ended.recording;
        let counters = recording.counters;
        match case.conditions.requests {
            None => prop_assert_eq!(ended.ended_ns, end_ns),
            Some(requests) => prop_assert!(counters.sent <= requests),
        }
        let answered = served.iter().filter(|served| served.answered_ns.is_some()).count() as u64;
        prop_assert!(counters.responses() <= answered);
        prop_assert!(counters.sent >= counters.answered);
        let places = u64::from(case.connections) * u64::from(case.streams.min(case.allowed));
        prop_assert!(counters.in_flight <= places, "{} of {}", counters.in_flight, places);
        let latest_ns = case.conditions.timeout_ms * MS + TURN_NS;
        prop_assert!(counters.oldest_in_flight_ns <= latest_ns);
        prop_assert!(recording.timed_out.max_ns().unwrap_or(0) <= latest_ns);
        prop_assert!(recording.service_time.max_ns().unwrap_or(0) <= latest_ns);
        // No response is faster than the link.
        let round_trip_ns = 2 * case.conditions.latency_us * US;
        let fastest_ns = recording.service_time.min_ns().unwrap_or(u64::MAX);
        prop_assert!(fastest_ns >= round_trip_ns);
        prop_assert!(counts.sent + counts.doubled >= counts.lost + counts.arrived);
    }
}
