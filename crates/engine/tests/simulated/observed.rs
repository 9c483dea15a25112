//! What an observer sees of a run in progress: snapshots agree with the result, and do not change
//! it.

use crate::http::{HttpPeer, Reply};
use crate::simulation::{LAST_OK, MS, OK, S, Simulation};
use eventloop::sim::ConnectReaction;
use results::snapshot::{Snapshot, Stage};
use results::{Errors, Histogram};

const BUSY: &[u8] = b"HTTP/1.1 503 Warming Up\r\nContent-Length: 0\r\n\r\n";

/// One response in ten takes longer, every fiftieth request loses its connection, every hundredth
/// is never answered.
fn uneven() -> HttpPeer {
    HttpPeer::new(|request| match request.number {
        n if n % 100 == 99 => Reply::silence(),
        n if n % 50 == 17 => Reply::silence().then_reset(MS),
        n if n % 10 == 3 => Reply::after(MS, &OK[..30]).then(9 * MS, &OK[30..]),
        n if n % 7 == 3 => Reply::after(2 * MS, LAST_OK),
        _ => Reply::after(2 * MS, OK),
    })
}

fn closed() -> Simulation {
    let simulation = Simulation::new().connections(4).timeout(50 * MS);
    simulation.warmed_up(2_500 * MS).lasting(4_200 * MS)
}

fn seen(run: &crate::simulation::Run, stage: Stage) -> Vec<&Snapshot> {
    let snapshots = run.snapshots.iter();
    snapshots.filter(|it| it.stage == stage).collect()
}

#[test]
fn an_observer_changes_no_number_of_the_result() {
    for rate in [None, Some(1_500.0)] {
        let simulation = || match rate {
            None => closed(),
            Some(rate) => closed().rate(rate),
        };
        let alone = simulation().run(uneven());
        let observed = simulation().observed().run(uneven());
        assert!(alone.snapshots.is_empty() && observed.snapshots.len() == 6);
        assert_eq!(alone.recording, observed.recording);
        assert_eq!(alone.ended_ns, observed.ended_ns);
    }
}

#[test]
fn a_snapshot_comes_each_second_and_they_add_up_to_the_totals() {
    let run = closed().observed().run(uneven());
    let snapshots = seen(&run, Stage::Measuring);
    let elapsed_s: Vec<u64> = snapshots.iter().map(|it| it.elapsed_ns / S).collect();
    assert_eq!(elapsed_s, [1, 2, 3, 4]);
    let (mut responses, mut errors, mut bytes, mut duration_ns) = (0, 0, 0, 0);
    let mut latency = Histogram::new();
    for snapshot in &snapshots {
        responses += snapshot.last.answered;
        errors += snapshot.last.errors;
        bytes += snapshot.last.bytes;
        duration_ns += snapshot.last.duration_ns;
        latency.merge(&snapshot.last.latency);
        assert!(snapshot.last.answered > 500 && snapshot.last.errors > 0);
        assert_eq!(snapshot.counters.responses(), responses);
        // The first second has the responses to requests of the warm-up, one on each connection.
        let answered = responses - 4;
        assert_eq!(latency.count(), answered);
        assert_eq!(snapshot.counters.answered, answered);
        assert_eq!(snapshot.statuses.total(), answered);
        assert_eq!(snapshot.errors.events(), errors);
        assert_eq!(snapshot.counters.bytes, bytes);
        assert_eq!(snapshot.elapsed_ns, duration_ns);
        // The latency in the report includes requests that were given up, with their age.
        let given_up = snapshot.latency.count() - latency.count();
        assert_eq!(given_up, timeouts(&snapshot.errors));
        assert!(given_up > 0);
        // Nothing is lost.
        let counters = &snapshot.counters;
        let found = counters.answered + snapshot.errors.exchanges() + counters.in_flight;
        assert_eq!(counters.sent, found);
        // A connection in its pause after a failure has no socket.
        assert!((2..=4).contains(&snapshot.open_connections));
        // The simulator has no CPU.
        assert_eq!(snapshot.busiest_worker, None);
    }
    // Together with what came after the last snapshot, they add up to the result.
    assert!(responses < run.recording.counters.responses());
}

fn timeouts(errors: &Errors) -> u64 {
    errors.count(results::ErrorKind::Timeout).exchanges
}

#[test]
fn at_a_fixed_rate_the_latency_is_the_response_time() {
    // One response per millisecond, and twice as many requests: the last of a second waited half of
    // it.
    let simulation = Simulation::new().rate(2_000.0).timeout(60 * S);
    let run = simulation
        .lasting(3 * S + 1)
        .observed()
        .run(HttpPeer::new(|_| Reply::after(MS, OK)));
    let longest_ms: Vec<u64> = run
        .snapshots
        .iter()
        .filter_map(|it| Some(it.last.latency.max_ns()? / MS))
        .collect();
    assert_eq!(longest_ms.len(), 3);
    for (at, longest_ms) in (1..).zip(&longest_ms) {
        assert!(longest_ms.abs_diff(500 * at) <= 2, "{longest_ms} at {at}");
    }
    let last = run.snapshots.last().expect("three");
    assert_eq!(last.latency.count(), last.counters.answered);
}

#[test]
fn the_warm_up_is_observed_but_not_part_of_the_window() {
    let peer = HttpPeer::new(|request| match request.arrived_ns {
        0..500_000_000 => Reply::silence().then_reset(10 * MS),
        500_000_000..2_500_000_000 => Reply::after(20 * MS, BUSY),
        _ => Reply::after(2 * MS, OK),
    });
    let run = closed().observed().run(peer);
    let [first, second] = seen(&run, Stage::WarmingUp)[..] else {
        panic!("one per whole second")
    };
    assert_eq!([first, second].map(|it| it.elapsed_ns / S), [1, 2]);
    assert!(first.last.errors > 0);
    assert_eq!(second.last.errors, 0);
    // Four connections, a response every twenty milliseconds.
    assert!(second.last.answered.abs_diff(200) <= 4);
    assert_eq!(second.last.latency.min_ns(), Some(20 * MS));
    for snapshot in [first, second] {
        assert_eq!(snapshot.counters, results::Counters::default());
        assert!(snapshot.latency.is_empty() && snapshot.statuses.total() == 0);
        assert_eq!(snapshot.errors, Errors::default());
    }
    let first = seen(&run, Stage::Measuring)[0];
    assert_eq!(first.last.latency.max_ns(), Some(2 * MS));
    assert_eq!(first.last.latency.count(), first.counters.answered);
    // The warm-up has left a response to each connection.
    assert_eq!(first.counters.answered_of_warmup, 4);
    assert_eq!(first.last.answered, first.counters.responses());
    assert_eq!(first.last.errors, 0);
    assert_eq!(first.statuses.count(503), 0);
}

#[test]
fn connections_that_the_server_refuses_are_not_open() {
    let peer = HttpPeer::new(|_| Reply::after(MS, OK)).admitting(|attempt, _| match attempt {
        0 | 1 => ConnectReaction::Accept { after_ns: 0 },
        _ => ConnectReaction::refuse(),
    });
    let simulation = Simulation::new().connections(5).lasting(1_500 * MS);
    let run = simulation.observed().run(peer);
    let snapshot = &run.snapshots[0];
    assert_eq!(snapshot.open_connections, 2);
    assert_eq!(snapshot.counters.connections_opened, 2);
    assert!(snapshot.last.errors >= 3);
}

#[test]
fn a_run_shorter_than_a_second_has_no_snapshot() {
    let peer = HttpPeer::new(|_| Reply::after(MS, OK));
    let run = Simulation::new().lasting(900 * MS).observed().run(peer);
    assert!(run.snapshots.is_empty());
}
