//! The start of a run: how connections are opened, and when the first requests are sent.

use crate::http::{HttpPeer, Reply};
use crate::simulation::{MS, OK, Run, S, Simulation};
use eventloop::sim::{ConnectReaction, PeerEvent};
use plan::WeightedLanes;

/// When something reached the server, and on which connection.
type Times = Vec<(u64, u32)>;

/// When each connection attempt and each request reached the server.
fn times(run: &Run) -> (Times, Times) {
    let mut attempts = Vec::new();
    let mut requests = Vec::new();
    for entry in run.peer_log() {
        match entry.what {
            PeerEvent::Attempted(_) => attempts.push((entry.at_ns, entry.connection)),
            PeerEvent::Arrived(_) => requests.push((entry.at_ns, entry.connection)),
            _ => {}
        }
    }
    (attempts, requests)
}

#[test]
fn requests_wait_until_all_connections_are_open_except_one_probe_per_batch() {
    let peer = HttpPeer::new(|_| Reply::after(MS, OK));
    let run = Simulation::new()
        .connections(200)
        .lasting(100 * MS)
        .run(peer);
    let (attempts, requests) = times(&run);
    let last_attempt_ns = attempts[199].0;
    let early = requests
        .iter()
        .filter(|(at_ns, _)| *at_ns < last_attempt_ns);
    let early: Vec<u32> = early.map(|(_, connection)| *connection).collect();
    assert_eq!(early, [63, 127, 191], "the last connection of each batch");
    assert_eq!(last_attempt_ns, 3 * MS, "each batch waits for one response");
    // The last batch is probed too; then all connections send at once.
    let released: Vec<_> = requests[4..204].iter().collect();
    assert!(released.iter().all(|(at_ns, _)| *at_ns == 4 * MS));
    let mut connections: Vec<u32> = released.iter().map(|(_, connection)| *connection).collect();
    connections.sort_unstable();
    assert_eq!(connections, (0..200).collect::<Vec<_>>());
    run.assert_only_errors(&[]);
}

#[test]
fn the_time_before_the_first_request_of_each_connection_is_known() {
    let peer = HttpPeer::new(|_| Reply::after(MS, OK)).admitting(|attempt, _| match attempt {
        // It is never established.
        199 => ConnectReaction::Ignore,
        _ => ConnectReaction::Accept { after_ns: 0 },
    });
    let run = Simulation::new()
        .connections(200)
        .lasting(100 * MS)
        .run(peer);
    let (_, requests) = times(&run);
    // The first requests are probes. When the last one was not answered, all others are sent.
    let released_ns = requests[3].0;
    assert!(
        requests[3..202]
            .iter()
            .all(|(at_ns, _)| *at_ns == released_ns)
    );
    let counters = run.recording.counters;
    assert_eq!(counters.opening_ns, 199 * released_ns + 100 * MS);
    // From then on, each connection has a request in flight. The three probes took 1 ms each.
    let busy_ns = 200 * 100 * MS - counters.opening_ns;
    assert_eq!(counters.in_flight_time_ns, busy_ns + 3 * MS);
    // After a warm-up, all connections have sent.
    let peer = HttpPeer::new(|_| Reply::after(MS, OK));
    let run = Simulation::new()
        .connections(200)
        .warmed_up(100 * MS)
        .run(peer);
    assert_eq!(run.recording.counters.opening_ns, 0);
}

#[test]
fn a_few_connections_are_opened_without_a_probe() {
    let peer = HttpPeer::new(|_| Reply::after(MS, OK));
    let run = Simulation::new()
        .connections(64)
        .lasting(100 * MS)
        .run(peer);
    let (attempts, requests) = times(&run);
    assert_eq!(attempts[63].0, 0);
    assert!(requests[..64].iter().all(|(at_ns, _)| *at_ns == 0));
}

#[test]
fn a_server_that_does_not_respond_stops_neither_opening_nor_requests() {
    let run = Simulation::new()
        .connections(1_000)
        .run(HttpPeer::new(|_| Reply::silence()));
    let (attempts, requests) = times(&run);
    assert_eq!((attempts.len(), requests.len()), (1_000, 1_000));
    // One wait for a response that does not arrive, and no second one.
    assert_eq!(attempts[999].0, 5 * MS);
    assert_eq!(requests[999].0, 5 * MS);
}

#[test]
fn failing_and_hanging_connections_do_not_stop_the_others() {
    let hang = ConnectReaction::Ignore;
    let refuse = ConnectReaction::Fail {
        after_ns: 0,
        errno: libc::ECONNREFUSED,
    };
    for (answer, waited_ns) in [(hang, 5 * MS), (refuse, 0)] {
        let peer = HttpPeer::new(|_| Reply::after(MS, OK)).admitting(move |attempt, _| {
            match attempt {
                // The connection of the probe.
                63 => answer,
                _ => ConnectReaction::Accept { after_ns: 0 },
            }
        });
        let run = Simulation::new()
            .connections(200)
            .lasting(100 * MS)
            .run(peer);
        let (attempts, requests) = times(&run);
        // An attempt that fails at once is repeated at once, and the next batches are probed.
        let last_first_attempt_ns = attempts[199].0;
        assert!(
            last_first_attempt_ns <= waited_ns + 3 * MS,
            "{last_first_attempt_ns}"
        );
        let sending: std::collections::HashSet<_> = requests.iter().map(|(_, it)| *it).collect();
        assert!(sending.len() >= 199, "{}", sending.len());
    }
}

#[test]
fn requests_do_not_wait_for_other_workers_forever() {
    for (lasting_ns, longest_ns) in [(S, 100 * MS), (20 * S, S)] {
        let mut simulation = Simulation::new().connections(10).lasting(lasting_ns);
        // The other worker is never ready.
        simulation.settings.workers = 2;
        let run = simulation.run(HttpPeer::new(|_| Reply::after(100 * MS, OK)));
        let (_, requests) = times(&run);
        let first_ns = requests[0].0;
        assert!(first_ns.abs_diff(longest_ns) <= MS, "{first_ns}");
    }
}

#[test]
fn at_a_fixed_rate_requests_are_due_while_connections_are_opened() {
    let run = Simulation::new()
        .connections(1_000)
        .rate(1_000.0)
        .run(HttpPeer::new(|_| Reply::after(MS, OK)));
    let (_, requests) = times(&run);
    for (number, (at_ns, _)) in requests.iter().enumerate() {
        assert_eq!(*at_ns, number as u64 * MS);
    }
}

#[test]
fn connections_are_opened_at_the_rate_and_send_as_soon_as_they_are_open() {
    for threads in [1, 3] {
        let peer = HttpPeer::new(|_| Reply::after(MS, OK));
        let mut simulation = Simulation::new()
            .threads(threads)
            .connections(50)
            .lasting(S);
        simulation.settings.plan.load.connect_rate_per_sec = Some(100);
        let run = simulation.run(peer);
        let (attempts, requests) = times(&run);
        let attempts_ns: Vec<u64> = attempts.iter().map(|(at_ns, _)| *at_ns).collect();
        // The share of a thread need not be that of the rate, so the last ones may come later.
        assert_eq!(attempts_ns.len(), 50, "{threads} threads");
        for (number, at_ns) in attempts_ns[..48].iter().enumerate() {
            let due_ns = number as u64 * 10 * MS;
            assert!(
                at_ns.abs_diff(due_ns) < MS / 10,
                "{threads} threads: connection {number} at {at_ns}"
            );
        }
        assert_eq!(requests[0].0, 0, "requests do not wait for all connections");
        run.assert_only_errors(&[]);
    }
}

#[test]
fn machines_with_unequal_weights_open_connections_at_the_rate_each_its_part() {
    let attempts_ns = |worker_base: u32, lane_base, lanes_per_worker: u32| {
        let peer = HttpPeer::new(|_| Reply::after(MS, OK));
        let mut simulation = Simulation::new()
            .threads(1)
            .connections(10 * lanes_per_worker)
            .lasting(S);
        let settings = &mut simulation.settings;
        settings.plan.load.connect_rate_per_sec = Some(100);
        (settings.worker_base, settings.workers_elsewhere) = (worker_base, 1);
        settings.weighted = Some(WeightedLanes {
            lane_base,
            lanes_per_worker,
            lanes_total: 4,
        });
        let (attempts, _) = times(&simulation.run(peer));
        let attempts_ns = attempts.into_iter().map(|(at_ns, _)| at_ns);
        attempts_ns.collect::<Vec<u64>>()
    };
    // One in 40 ms, and three.
    let (light, heavy) = (attempts_ns(0, 0, 1), attempts_ns(1, 1, 3));
    assert_eq!((light.len(), heavy.len()), (10, 30));
    for (attempts_ns, first_ns, gap_ns) in [(light, 0, 40 * MS), (heavy, 3_333_333, 13_333_333)] {
        for (number, at_ns) in (0..).zip(attempts_ns) {
            let due_ns = first_ns + number * gap_ns;
            assert!(
                at_ns.abs_diff(due_ns) < MS / 10,
                "{number} of {gap_ns}: {at_ns}"
            );
        }
    }
}

#[test]
fn connections_that_are_closed_after_each_request_are_opened_at_the_rate_too() {
    let peer = HttpPeer::new(|_| Reply::after(MS, OK));
    let mut simulation = Simulation::new()
        .connections(20)
        .requests_per_connection(1)
        .lasting(2 * S);
    simulation.settings.plan.load.connect_rate_per_sec = Some(200);
    let run = simulation.run(peer);
    let (attempts, _) = times(&run);
    assert!((399..=401).contains(&attempts.len()), "{}", attempts.len());
    let within = |from_ns: u64| {
        let is_within = |(at_ns, _): &&(u64, u32)| (from_ns..from_ns + S / 10).contains(at_ns);
        attempts.iter().filter(is_within).count()
    };
    for tenth in 0..20 {
        let opened = within(tenth * S / 10);
        assert!((19..=21).contains(&opened), "{opened} in tenth {tenth}");
    }
}

#[test]
fn a_number_of_requests_is_sent_although_connections_wait_for_their_turn() {
    let peer = HttpPeer::new(|_| Reply::after(MS, OK));
    let mut simulation = Simulation::new()
        .connections(4)
        .requests_per_connection(1)
        .requests(30);
    simulation.settings.plan.load.connect_rate_per_sec = Some(2);
    simulation.settings.idle_connections = 5;
    let run = simulation.run(peer);
    assert_eq!(
        (run.sent(), run.answered(), run.has_given_up),
        (30, 30, false)
    );
}

#[test]
fn idle_connections_are_opened_and_nothing_is_sent_on_them() {
    let peer = HttpPeer::new(|_| Reply::after(MS, OK));
    let mut simulation = Simulation::new().connections(3).lasting(S);
    simulation.settings.idle_connections = 100;
    let run = simulation.run(peer);
    let (attempts, requests) = times(&run);
    assert_eq!(attempts.len(), 103);
    assert!(requests.iter().all(|(_, connection)| *connection < 3));
    assert_eq!(run.recording.counters.connections_opened, 103);
    assert!(run.answered() > 2_900, "{}", run.answered());
    run.assert_only_errors(&[]);
}

#[test]
fn an_idle_connection_that_the_server_closes_is_replaced_and_no_error() {
    let peer = HttpPeer::new(|_| Reply::after(MS, OK)).closing_idle_after(300 * MS);
    let mut simulation = Simulation::new().connections(1).lasting(2 * S);
    simulation.settings.idle_connections = 2;
    let run = simulation.run(peer);
    let (attempts, _) = times(&run);
    assert!((10..=16).contains(&attempts.len()), "{}", attempts.len());
    run.assert_only_errors(&[]);
}
