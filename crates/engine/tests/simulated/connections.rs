//! How connections are used, used up and replaced.

use crate::http::{HttpPeer, Reply, Served};
use crate::simulation::{GET, LAST_OK, MS, OK, S, Simulation};
use eventloop::sim::PeerEvent;
use plan::ConnectionStage;
use std::collections::BTreeMap;

/// How many requests each connection carried.
fn requests_by_connection(served: &[Served]) -> BTreeMap<u32, u64> {
    let mut counts = BTreeMap::new();
    for served in served {
        *counts.entry(served.connection).or_default() += 1;
    }
    counts
}

#[test]
fn all_connections_are_opened_at_the_start_and_kept() {
    let run = Simulation::new()
        .connections(64)
        .run(HttpPeer::new(|_| Reply::after(MS, OK)));
    assert_eq!(run.recording.counters.connections_opened, 64);
    let counts = requests_by_connection(&run.served);
    assert_eq!(counts.len(), 64);
    assert!(counts.values().all(|count| *count == 1_000), "{counts:?}");
    let opened = run
        .peer_log()
        .into_iter()
        .filter(|entry| entry.what == PeerEvent::Established);
    assert!(opened.into_iter().all(|entry| entry.at_ns == 0));
}

#[test]
fn nothing_is_sent_before_the_start() {
    let mut simulation = Simulation::new();
    simulation.times.start_ns = 300 * MS;
    simulation.times.measure_ns = 300 * MS;
    let run = simulation.run(HttpPeer::new(|_| Reply::after(MS, OK)));
    assert_eq!(run.peer_log()[0].at_ns, 300 * MS);
    assert_eq!(run.answered(), 699);
}

#[test]
fn a_connection_carries_exactly_the_allowed_number_of_requests() {
    for (limit, pipeline) in [(1, 1), (5, 1), (5, 4), (6, 3), (2, 8)] {
        let simulation = Simulation::new()
            .connections(3)
            .pipeline(pipeline)
            .requests_per_connection(limit);
        let run = simulation.run(HttpPeer::new(|_| Reply::after(MS, OK)));
        let counts = requests_by_connection(&run.served);
        let unfinished = counts.values().filter(|count| **count != limit).count();
        assert!(
            unfinished <= 3,
            "{limit} x {pipeline}: only the last ones may have less"
        );
        assert!(
            counts.values().all(|count| *count <= limit),
            "{limit} x {pipeline}"
        );
        assert_eq!(
            run.recording.counters.reconnects, 0,
            "the client closes them"
        );
        run.assert_only_errors(&[]);
        let opened = run.recording.counters.connections_opened as usize;
        assert!(opened >= counts.len() && opened <= counts.len() + 3);
    }
}

#[test]
fn without_keep_alive_every_request_has_its_own_connection() {
    let peer = HttpPeer::new(|_| Reply::after(MS, LAST_OK).then_close(0));
    let run = Simulation::new()
        .connections(4)
        .requests_per_connection(1)
        .run(peer);
    run.assert_only_errors(&[]);
    assert_eq!(run.recording.counters.reconnects, 0);
    assert_eq!(requests_by_connection(&run.served).len(), run.served.len());
    assert_eq!(run.answered(), 4 * 999);
}

#[test]
fn an_announced_close_is_a_reconnect_and_not_an_error() {
    let peer = HttpPeer::new(|request| match request.number_on_connection {
        9 => Reply::after(MS, LAST_OK).then_close(0),
        _ => Reply::after(MS, OK),
    });
    let run = Simulation::new().run(peer);
    run.assert_only_errors(&[]);
    assert_eq!(run.answered(), 999);
    assert_eq!(run.recording.counters.reconnects, 99);
    assert_eq!(run.recording.counters.connections_opened, 100);
}

#[test]
fn a_response_delimited_by_the_close_is_complete() {
    let peer = HttpPeer::new(|_| {
        Reply::after(MS, "HTTP/1.1 200 OK\r\n\r\nas long as it is").then_close(MS)
    });
    let run = Simulation::new().run(peer);
    run.assert_only_errors(&[]);
    assert_eq!(run.service_ns(), (Some(2 * MS), Some(2 * MS)));
    assert_eq!(run.answered(), 499);
}

#[test]
fn a_pipeline_is_filled_at_once_and_kept_full() {
    let peer = HttpPeer::new(|request| Reply::after((request.number % 3) * MS, OK));
    let run = Simulation::new().pipeline(4).latency(MS).run(peer);
    let first = run
        .peer_log()
        .into_iter()
        .find_map(|entry| match entry.what {
            PeerEvent::Arrived(bytes) => Some(bytes),
            _ => None,
        });
    assert_eq!(first, Some(4 * GET.len()));
    // Never more than four, and four at any time: counted at the server.
    let mut events: Vec<(u64, i32)> = Vec::new();
    for served in &run.served {
        events.push((served.arrived_ns, 1));
        // The next request arrives one round trip later.
        events.extend(served.last_byte_ns.map(|left_ns| (left_ns + 2 * MS, -1)));
    }
    events.sort_unstable();
    let mut waiting = 0;
    for (at_ns, change) in events.into_iter().filter(|(at_ns, _)| *at_ns < S) {
        waiting += change;
        assert!((0..=4).contains(&waiting), "{waiting} at {at_ns}");
    }
    assert_eq!(run.recording.counters.in_flight, 4);
}

#[test]
fn a_batch_of_several_requests_is_answered_one_by_one() {
    use engine::source::Fixed;
    let head = b"HEAD / HTTP/1.1\r\nHost: simulated\r\n\r\n";
    let batch = [GET, head, GET].concat();
    let peer = HttpPeer::new(|request| {
        if request.bytes.starts_with(b"HEAD") {
            Reply::after(MS, "HTTP/1.1 204 No\r\nContent-Length: 1000\r\n\r\n")
        } else {
            Reply::after(2 * MS, OK)
        }
    });
    let run = Simulation::new().source(Fixed::new(batch)).run(peer);
    run.assert_only_errors(&[]);
    // Three responses every 2 ms.
    assert_eq!(run.answered(), 3 * 499);
    assert_eq!(run.recording.statuses.count(204), 499);
    assert_eq!(run.recording.counters.in_flight, 3);
}

#[test]
fn ten_thousand_connections_work_on_one_worker() {
    let run = Simulation::new()
        .connections(10_000)
        .run(HttpPeer::new(|_| Reply::after(400 * MS, OK)));
    assert_eq!(run.answered(), 20_000);
    assert_eq!(run.recording.counters.in_flight, 10_000);
    assert_eq!(run.service_ns(), (Some(400 * MS), Some(400 * MS)));
}

#[test]
fn the_number_of_connections_follows_its_stages() {
    for threads in [1, 3] {
        let mut simulation = Simulation::new().connections(6).threads(threads);
        let list = ConnectionStage::parse_list("2:300ms,6:300ms,1:300ms").expect("it is a list");
        simulation.settings.plan.load.connection_stages = list;
        let run = simulation.run(HttpPeer::new(|_| Reply::after(10 * MS, OK)));
        // Each connection answers a hundred requests per second.
        let expected = [(0, 300, 2), (300, 600, 6), (600, 900, 1)];
        for (from_ms, to_ms, connections) in expected {
            let times = run.served.iter().map(|served| served.arrived_ns / MS);
            // The first and the last 50 ms are those of a change.
            let within = times.filter(|at_ms| (from_ms + 50..to_ms - 50).contains(at_ms));
            let count = within.count();
            let all = 20 * connections;
            assert!(
                count.abs_diff(all) <= connections,
                "{threads}: {from_ms} ms: {count}"
            );
        }
        run.assert_only_errors(&[]);
    }
}
