//! Whatever a server does, the totals add up, the run ends on time, and the same seed gives the
//! same run.

use crate::conditions::{Conditions, any_conditions};
use crate::http::{HttpPeer, Reply};
use crate::simulation::{LAST_OK, MS, OK, Run, S, US};
use eventloop::sim::ConnectReaction;
use plan::Arrivals;
use proptest::prelude::*;

/// One thing that a server may do with a request.
#[derive(Debug, Clone)]
enum Act {
    Answer(u64),
    Dribble(u64, usize),
    AnswerAndClose(u64),
    CloseUnannounced(u64),
    Reset(u64),
    CloseAtOnce,
    CutShort(usize, u64),
    Silence,
    Garbage,
    Twice,
    UntilClose(u64),
    Interim(u64),
    Chunked(u64),
}

fn any_act() -> impl Strategy<Value = Act> {
    let delay_ns = 0..40 * MS;
    prop_oneof![
        8 => delay_ns.clone().prop_map(Act::Answer),
        2 => (delay_ns.clone(), 1..OK.len()).prop_map(|(ns, cut)| Act::Dribble(ns, cut)),
        1 => delay_ns.clone().prop_map(Act::AnswerAndClose),
        1 => delay_ns.clone().prop_map(Act::CloseUnannounced),
        1 => delay_ns.clone().prop_map(Act::Reset),
        1 => Just(Act::CloseAtOnce),
        1 => (1..OK.len(), delay_ns.clone()).prop_map(|(cut, ns)| Act::CutShort(cut, ns)),
        1 => Just(Act::Silence),
        1 => Just(Act::Garbage),
        1 => Just(Act::Twice),
        1 => delay_ns.clone().prop_map(Act::UntilClose),
        1 => delay_ns.clone().prop_map(Act::Interim),
        1 => delay_ns.prop_map(Act::Chunked),
    ]
}

fn reply(act: &Act) -> Reply {
    match *act {
        Act::Answer(ns) => Reply::after(ns, OK),
        Act::Dribble(ns, cut) => Reply::after(ns, &OK[..cut]).then(ns, &OK[cut..]),
        Act::AnswerAndClose(ns) => Reply::after(ns, LAST_OK).then_close(0),
        Act::CloseUnannounced(ns) => Reply::after(ns, OK).then_close(ns / 2),
        Act::Reset(ns) => Reply::silence().then_reset(ns),
        Act::CloseAtOnce => Reply::silence().then_close(0),
        Act::CutShort(cut, ns) => Reply::after(ns, &OK[..cut]).then_finish(ns),
        Act::Silence => Reply::silence(),
        Act::Garbage => Reply::after(MS, "\u{1}\u{2}garbage\r\n\r\n"),
        // Closed at once. Without this limit, a client of infinite speed would take every surplus
        // response for one to a request that it has just pipelined, and their number would double.
        Act::Twice => Reply::after(MS, [OK, OK].concat()).then_close(0),
        Act::UntilClose(ns) => Reply::after(ns, "HTTP/1.0 404 No\r\n\r\nbody").then_close(ns),
        Act::Interim(ns) => Reply::after(0, "HTTP/1.1 103 Hints\r\n\r\n").then(ns, OK),
        Act::Chunked(ns) => Reply::after(
            ns,
            "HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        )
        .then(ns, "0\r\n\r\n"),
    }
}

#[derive(Debug, Clone)]
struct Case {
    acts: Vec<Act>,
    /// One in this many connection attempts is refused; 0 for none.
    refused_every: u32,
    connections: u32,
    pipeline: u32,
    conditions: Conditions,
}

prop_compose! {
    fn any_case()(
        acts in prop::collection::vec(any_act(), 1..30),
        refused_every in prop_oneof![Just(0), 2..10_u32],
        (connections, pipeline) in (1..12_u32, prop_oneof![Just(1), 1..6_u32]),
        conditions in any_conditions(1..60, 200, 2_000, 20_000.0),
    ) -> Case {
        Case { acts, refused_every, connections, pipeline, conditions }
    }
}

fn run(case: &Case) -> Run {
    let acts = case.acts.clone();
    let every = case.refused_every;
    let peer = HttpPeer::new(move |request| reply(&acts[request.number as usize % acts.len()]))
        .admitting(move |number, _| {
            if every > 0 && number % every == 0 {
                ConnectReaction::refuse()
            } else {
                ConnectReaction::Accept { after_ns: 0 }
            }
        });
    let seed = case.conditions.seed;
    let simulation = case.conditions.simulation(match seed % 4 {
        0 => Arrivals::Gamma { shape: 0.01 },
        1 => Arrivals::Gamma { shape: 20.0 },
        _ => Arrivals::Poisson,
    });
    let simulation = simulation.connections(case.connections);
    let mut simulation = simulation.pipeline(case.pipeline);
    simulation.settings.seed = seed;
    simulation.sim.random_cuts = true;
    // The simulation checks the consistency of the result.
    simulation.run(peer)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn totals_add_up_whatever_the_server_does(case in any_case()) {
        let run = run(&case);
        prop_assert_eq!(&run.failure, &None);
        let end_ns = S + case.conditions.warmup_ms * MS;
        prop_assert!(run.ended_ns <= end_ns);
        let counters = run.recording.counters;
        match case.conditions.requests {
            None => prop_assert_eq!(run.ended_ns, end_ns),
            Some(requests) => prop_assert!(counters.sent <= requests),
        }
        // A surplus response that arrives while another request is in flight cannot be
        // distinguished from its response.
        if !case.acts.iter().any(|act| matches!(act, Act::Twice)) {
            prop_assert!(counters.responses() <= run.served.len() as u64);
        }
        let places = u64::from(case.connections) * u64::from(case.pipeline);
        prop_assert!(counters.in_flight <= places, "{} of {}", counters.in_flight, places);
        prop_assert!(counters.oldest_in_flight_ns <= case.conditions.timeout_ms * MS + 100 * US);
        let latest_ns = run.recording.timed_out.max_ns().unwrap_or(0);
        prop_assert!(latest_ns <= case.conditions.timeout_ms * MS + 100 * US);
        let slowest_ns = run.recording.service_time.max_ns().unwrap_or(0);
        prop_assert!(slowest_ns <= case.conditions.timeout_ms * MS + 100 * US);
    }
}

proptest! {
    // Two runs for each case.
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn the_same_seed_gives_the_same_recording(case in any_case()) {
        let (first, second) = (run(&case), run(&case));
        prop_assert_eq!(first.ended_ns, second.ended_ns);
        prop_assert_eq!(first.recording, second.recording);
        prop_assert_eq!(first.served, second.served);
    }
}
