//! Service times are the server's delay and the network, to the nanosecond.

use crate::http::{HttpPeer, Reply};
use crate::simulation::{LAST_OK, MS, OK, S, Simulation, US};
use eventloop::sim::SimOptions;

#[test]
fn service_time_is_the_servers_delay_plus_the_round_trip() {
    let peer = HttpPeer::new(|_| Reply::after(3 * MS, OK));
    let run = Simulation::new().latency(MS).run(peer);
    assert_eq!(run.service_ns(), (Some(5 * MS), Some(5 * MS)));
    // Connected after 2 ms, then one response every 5 ms. The last one before the end is at 997 ms.
    assert_eq!(run.answered(), 199);
    assert_eq!(run.recording.phases.connect.sum_ns(), u128::from(2 * MS));
    let counters = run.recording.counters;
    assert_eq!(
        (counters.in_flight, counters.oldest_in_flight_ns),
        (1, 3 * MS)
    );
    assert_eq!(counters.bytes, 199 * OK.len() as u64);
    assert_eq!(run.recording.statuses.count(200), 199);
    run.assert_only_errors(&[]);
}

#[test]
fn first_and_last_byte_are_distinguished() {
    let (head, body) = OK.split_at(OK.len() - 2);
    let peer = HttpPeer::new(move |_| Reply::after(2 * MS, head).then(7 * MS, body));
    let run = Simulation::new().run(peer);
    let phases = &run.recording.phases;
    assert_eq!(phases.first_byte.min_ns(), Some(2 * MS));
    assert_eq!(phases.first_byte.max_ns(), Some(2 * MS));
    assert_eq!(phases.last_byte.min_ns(), Some(7 * MS));
    assert_eq!(phases.last_byte.max_ns(), Some(7 * MS));
    assert_eq!(run.service_ns(), (Some(9 * MS), Some(9 * MS)));
}

#[test]
fn a_response_that_arrives_byte_by_byte_is_measured_to_its_last_byte() {
    let peer = HttpPeer::new(|_| {
        let first = Reply::after(MS, &OK[..1]);
        OK[1..]
            .iter()
            .fold(first, |reply, byte| reply.then(100 * US, [*byte]))
    });
    let run = Simulation::new().run(peer);
    let whole_ns = MS + (OK.len() as u64 - 1) * 100 * US;
    assert_eq!(run.service_ns(), (Some(whole_ns), Some(whole_ns)));
    assert_eq!(run.answered(), (S - 1) / whole_ns);
}

/// A response with a body of this many bytes: its head and its body.
fn long(body_bytes: usize) -> (Vec<u8>, Vec<u8>) {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {body_bytes}\r\n\r\n");
    (head.into_bytes(), vec![b'x'; body_bytes])
}

/// The same in two chunks.
fn long_chunked(body_bytes: usize) -> (Vec<u8>, Vec<u8>) {
    let chunk = [
        format!("{:x}\r\n", body_bytes / 2).into_bytes(),
        vec![b'x'; body_bytes / 2],
    ];
    let chunk = [chunk.concat(), b"\r\n".to_vec()].concat();
    let body = [chunk.repeat(2), b"0\r\n\r\n".to_vec()].concat();
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    (head.to_vec(), body)
}

#[test]
fn a_discarded_long_body_is_timed_and_counted_to_its_last_byte() {
    for (head, body) in [long(300_000), long_chunked(300_000)] {
        for random_cuts in [false, true] {
            let response_bytes = (head.len() + body.len()) as u64;
            let (head, body) = (head.clone(), body.clone());
            let peer = HttpPeer::new(move |_| {
                let (early, late) = body.split_at(200_000);
                Reply::after(2 * MS, [&head, early].concat()).then(7 * MS, late)
            });
            // The next response directly follows the body.
            let mut simulation = Simulation::new().pipeline(2).requests(100);
            simulation.sim.random_cuts = random_cuts;
            let run = simulation.run(peer);
            assert_eq!(run.answered(), 100);
            assert_eq!(run.recording.counters.bytes, 100 * response_bytes);
            let phases = &run.recording.phases;
            assert_eq!(phases.last_byte.max_ns(), Some(7 * MS));
            run.assert_only_errors(&[]);
        }
    }
}

#[test]
fn a_stall_in_a_closed_loop_is_seen_once_per_connection() {
    // Every request sent in the second second waits for its end. A closed loop sends no other
    // requests meanwhile, so the stall is seen by as many requests as there are connections.
    let stall = S..2 * S;
    let peer = HttpPeer::new(move |request| {
        let waits_ns = if stall.contains(&request.arrived_ns) {
            stall.end - request.arrived_ns
        } else {
            0
        };
        Reply::after(waits_ns + 2 * MS, OK)
    });
    let run = Simulation::new().connections(10).lasting(3 * S).run(peer);
    let times = &run.recording.service_time;
    let slow: u64 = times
        .distinct()
        .filter(|(ns, _)| *ns > 3 * MS)
        .map(|(_, count)| count)
        .sum();
    assert_eq!(slow, 10);
    assert_eq!(run.service_ns(), (Some(2 * MS), Some(S + 2 * MS)));
    // 500 responses per second and connection before and after, none in between.
    assert_eq!(run.answered(), 10 * (500 + 499));
    let rows = run.recording.series.rows();
    let quiet = rows.iter().filter(|row| row.answered == 0).count();
    assert_eq!(rows.len() - quiet, 20, "tenths of a second with responses");
}

#[test]
fn the_sum_of_service_times_is_the_servers_truth_whatever_the_jitter() {
    let peer = HttpPeer::new(|request| Reply::after((request.number * 7_919) % (5 * MS), OK));
    let mut simulation = Simulation::new().connections(20).requests(5_000);
    simulation.sim = SimOptions {
        seed: 9,
        latency_ns: 500 * US,
        random_cuts: true,
        ..SimOptions::default()
    };
    let run = simulation.run(peer);
    let at_server_ns: u64 = run
        .served
        .iter()
        .map(|served| served.last_byte_ns.expect("all are answered") - served.arrived_ns)
        .sum();
    let on_wire_ns = 5_000 * 2 * 500 * US;
    assert_eq!(
        run.recording.service_time.sum_ns(),
        u128::from(at_server_ns + on_wire_ns)
    );
}

#[test]
fn each_request_of_a_pipeline_has_its_own_service_time() {
    // One after another, 1 ms each, like a server with one thread.
    let mut free_ns = 0;
    let peer = HttpPeer::new(move |request| {
        free_ns = request.arrived_ns.max(free_ns) + MS;
        Reply::after(free_ns - request.arrived_ns, OK)
    });
    let run = Simulation::new().pipeline(4).run(peer);
    // The first four wait 1, 2, 3 and 4 ms. From then on, four are always in flight.
    assert_eq!(run.service_ns(), (Some(MS), Some(4 * MS)));
    assert_eq!(run.answered(), 999);
    let total_ns = MS + 2 * MS + 3 * MS + 996 * 4 * MS;
    assert_eq!(run.recording.service_time.sum_ns(), u128::from(total_ns));
    let counters = run.recording.counters;
    assert_eq!(
        (counters.in_flight, counters.oldest_in_flight_ns),
        (4, 4 * MS)
    );
}

#[test]
fn a_slow_clock_adds_no_more_to_a_service_time_than_its_readings() {
    let peer = HttpPeer::new(|_| Reply::after(MS, OK));
    let mut simulation = Simulation::new();
    simulation.sim.clock_cost_ns = 100;
    let run = simulation.run(peer);
    let (least_ns, most_ns) = run.service_ns();
    assert!(
        least_ns >= Some(MS) && most_ns <= Some(MS + 5 * US),
        "{least_ns:?} to {most_ns:?}"
    );
}

#[test]
fn connecting_is_timed_separately_from_requests() {
    // Without keep-alive there is one connect for each request. Its time is not part of the service
    // time.
    let peer = HttpPeer::new(|_| Reply::after(MS, LAST_OK).then_close(0));
    let run = Simulation::new()
        .latency(4 * MS)
        .requests_per_connection(1)
        .run(peer);
    assert_eq!(run.service_ns(), (Some(9 * MS), Some(9 * MS)));
    let connect = &run.recording.phases.connect;
    assert_eq!(
        (connect.min_ns(), connect.max_ns()),
        (Some(8 * MS), Some(8 * MS))
    );
    assert_eq!(run.answered(), S / (17 * MS));
}
