//! How much of the latency the load generator caused, compared with the same run in which it was
//! never held up.

use crate::http::{HttpPeer, Reply};
use crate::simulation::{MS, OK, Run, S, Simulation};
use crate::truth::{close, exponential_ns, percentile_ms, poisson};
use fastrand::Rng;
use results::Attribution;

/// Pauses of the load generator, by name.
fn pauses() -> [(&'static str, Vec<(u64, u64)>); 6] {
    let every_100_ms = |length_ns: u64| {
        let start_ns = |number: u64| number * 100 * MS + 50 * MS;
        let pause = |number| (start_ns(number), start_ns(number) + length_ns);
        (0..100).map(pause).collect::<Vec<_>>()
    };
    [
        ("pause of 0.1 s", vec![(3 * S, 3100 * MS)]),
        ("pause of 0.3 s", vec![(3 * S, 3300 * MS)]),
        ("pause of 0.45 s", vec![(3 * S, 3450 * MS)]),
        ("pause of 1 s", vec![(3 * S, 4 * S)]),
        ("3 ms in 100", every_100_ms(3 * MS)),
        ("50 ms in 100", every_100_ms(50 * MS)),
    ]
}

/// A server with a connection's own service time, which does nothing within the stall.
fn server(mean_ns: f64, is_random: bool, stall_ns: (u64, u64)) -> HttpPeer {
    let mut random = Rng::with_seed(3);
    HttpPeer::new(move |request| {
        let service_ns = if is_random {
            exponential_ns(&mut random, mean_ns)
        } else {
            mean_ns as u64
        };
        let stalled = (stall_ns.0..stall_ns.1).contains(&request.arrived_ns);
        let waits_ns = if stalled {
            stall_ns.1 - request.arrived_ns
        } else {
            0
        };
        Reply::after(waits_ns + service_ns, OK)
    })
}

type NamedServer = (&'static str, fn() -> HttpPeer);

/// The servers, by name. No stall begins in a pause or within 10 ms after it: the requests that the
/// pause held up would meet the stall, and nothing tells that they would not have met it otherwise.
fn servers() -> [NamedServer; 5] {
    [
        ("1 ms", || server(1e6, false, (0, 0))),
        ("exponential, 4 ms", || server(4e6, true, (0, 0))),
        ("stall of 1 s", || {
            server(1e6, false, (5020 * MS, 6020 * MS))
        }),
        ("frozen at the end", || {
            server(1e6, false, (8020 * MS, 11 * S))
        }),
        ("stall around a pause", || {
            server(1e6, false, (2820 * MS, 4200 * MS))
        }),
    ]
}

fn simulation(pauses_ns: Vec<(u64, u64)>) -> Simulation {
    let mut simulation = Simulation::new()
        .connections(8)
        .lasting(10 * S)
        .timeout(20 * S);
    simulation.sim.pauses_ns = pauses_ns;
    simulation
}

/// How exactly it is known what the load generator added.
const OWN_TOLERANCE: f64 = 0.2;

fn shown_ms_of(run: &Run, percent: f64) -> f64 {
    percentile_ms(&run.recording.latency(), percent)
}

fn assert_corrected(run: &Run, undisturbed: &Run, tolerance_ms: f64, what: &str) {
    let corrected = run.recording.corrected_latency();
    let truth = undisturbed.recording.latency();
    for percent in [50.0, 90.0, 99.0] {
        let (seen_ms, truth_ms) = (
            percentile_ms(&corrected, percent),
            percentile_ms(&truth, percent),
        );
        let shown_ms = shown_ms_of(run, percent);
        let own_ms = shown_ms - truth_ms;
        let tolerance_ms = tolerance_ms.max(OWN_TOLERANCE * own_ms);
        assert!(
            close(seen_ms, truth_ms, 0.03) || (seen_ms - truth_ms).abs() <= tolerance_ms,
            "{what}: p{percent} shown {shown_ms} ms, corrected {seen_ms} ms, \
             undisturbed {truth_ms} ms"
        );
    }
}

#[test]
fn without_pauses_nothing_of_the_latency_is_the_load_generators() {
    for (name, server) in servers() {
        let mut simulation = simulation(Vec::new());
        simulation.settings.plan.pacing = poisson(400.0, 7);
        let run = simulation.run(server());
        assert_eq!(run.recording.attribution, Attribution::default(), "{name}");
    }
}

/// Each core takes a moment to wake up. After a stall, connections are used without a break, so
/// these moments would add up.
#[test]
fn delays_of_less_than_a_tenth_of_a_millisecond_do_not_add_up() {
    let moments = (0..12_000).map(|number| 6 * S + number * 83_000);
    let mut simulation = simulation(moments.map(|at_ns| (at_ns, at_ns + 80_000)).collect());
    simulation.sim.has_timestamps = true;
    simulation.settings.plan.pacing = poisson(400.0, 7);
    let run = simulation.run(server(1e6, false, (5020 * MS, 6020 * MS)));
    assert!(shown_ms_of(&run, 99.0) > 500.0);
    let parts = run.recording.latency_parts_at(&[50.0, 90.0, 99.0, 100.0]);
    for part in parts {
        assert!(part.own_ns < 2 * Attribution::MIN_NS, "{part:?}");
    }
}

#[test]
fn the_corrected_latency_of_a_fixed_rate_is_that_of_a_run_without_pauses() {
    for (server_name, server) in servers() {
        let paced = |pauses_ns, has_timestamps| {
            let mut simulation = simulation(pauses_ns);
            simulation.settings.plan.pacing = poisson(400.0, 7);
            simulation.sim.has_timestamps = has_timestamps;
            simulation.run(server())
        };
        let undisturbed = paced(Vec::new(), true);
        for (pause_name, pauses_ns) in pauses() {
            for has_timestamps in [true, false] {
                let run = paced(pauses_ns.clone(), has_timestamps);
                let what = format!("{server_name}, {pause_name}, timestamps {has_timestamps}");
                // Without timestamps it is not known when a response arrived in a pause, only that
                // it was not before the wait began, at most 10 ms earlier.
                let tolerance_ms = if has_timestamps { 1.0 } else { 11.0 };
                assert_corrected(&run, &undisturbed, tolerance_ms, &what);
            }
        }
    }
}

/// A fixed rate with enough connections for what is due in the stall, so that a request that is
/// late because of a pause is sent into the stall.
/// Without a pause, all connections are open before the first request is due.
#[test]
fn requests_that_waited_for_connections_which_a_pause_kept_closed_are_late_by_the_pause() {
    for pause_ns in [(1, 300 * MS), (1, S)] {
        let run = |pauses_ns| {
            let mut simulation = simulation(pauses_ns).connections(200);
            simulation.settings.plan.pacing = poisson(1_000.0, 7);
            simulation.run(server(1e8, false, (0, 0)))
        };
        let (run, undisturbed) = (run(vec![pause_ns]), run(Vec::new()));
        assert!(shown_ms_of(&run, 99.0) > shown_ms_of(&undisturbed, 99.0) + 50.0);
        assert_corrected(&run, &undisturbed, 1.0, &format!("{pause_ns:?}"));
    }
}

fn stalled(pauses_ns: Vec<(u64, u64)>) -> Run {
    let mut simulation = simulation(pauses_ns).connections(1_000);
    simulation.sim.has_timestamps = true;
    simulation.settings.plan.pacing = poisson(400.0, 7);
    simulation.run(server(1e6, false, (3_000 * MS, 4_300 * MS)))
}

#[test]
fn a_pause_that_ends_in_a_stall_has_caused_at_most_what_it_added_to_the_stall() {
    let undisturbed = stalled(Vec::new());
    for to_ms in [3_100, 3_780, 4_200] {
        let run = stalled(vec![(2_940 * MS, to_ms * MS)]);
        for parts in run.recording.latency_parts_at(&[90.0, 95.0, 99.0]) {
            let truth_ms = percentile_ms(&undisturbed.recording.latency(), parts.percent);
            let corrected_ms = (parts.shown_ns - parts.own_ns) as f64 / 1e6;
            // What was due in the 60 ms before the stall has waited for the pause, and the stall
            // takes that.
            assert!(
                (-5.0..75.0).contains(&(corrected_ms - truth_ms)),
                "pause to {to_ms} ms: {parts:?}, undisturbed {truth_ms} ms"
            );
        }
    }
}

#[test]
fn a_pause_before_a_stall_is_attributed_beside_it() {
    let undisturbed = stalled(Vec::new());
    let run = stalled(vec![(2_000 * MS, 2_500 * MS)]);
    assert_corrected(&run, &undisturbed, 1.0, "pause of 0.5 s before the stall");
    assert!(run.recording.latency_parts_at(&[90.0])[0].own_ns > 50 * MS);
}

#[test]
fn half_of_a_thousand_requests_in_flight_are_read_late() {
    let run = |pauses_ns, buffers| {
        let mut simulation = simulation(pauses_ns)
            .connections(1_000)
            .lasting(2 * S)
            .stopped();
        simulation.sim.jitter_ns = 200_000;
        simulation.sim.buffers = buffers;
        simulation.settings.plan.pacing = poisson(4_000.0, 7);
        simulation.run(server(125e6, false, (0, 0)))
    };
    let undisturbed = run(Vec::new(), usize::MAX);
    for buffers in [usize::MAX, 256, 4] {
        let run = run(vec![(600 * MS, 1_100 * MS)], buffers);
        let what = format!("stopped for 0.5 s, {buffers} buffers");
        assert_corrected(&run, &undisturbed, 1.0, &what);
    }
}

#[test]
fn no_response_is_corrected_to_less_than_the_server_takes() {
    // The load generator runs for 20 of 280 ms.
    let seldom = (0..10).map(|round| (round * 280 * MS + 20 * MS, (round + 1) * 280 * MS));
    for is_stopped in [false, true] {
        let mut simulation = simulation(seldom.clone().collect())
            .connections(300)
            .lasting(3 * S);
        if is_stopped {
            simulation = simulation.stopped();
        }
        simulation.sim.jitter_ns = 4 * MS;
        let run = simulation.run(server(125e6, false, (0, 0)));
        let least_ms = percentile_ms(&run.recording.corrected_latency(), 0.0);
        assert!(least_ms > 124.0, "stopped {is_stopped}: {least_ms} ms");
    }
}

#[test]
fn pauses_within_a_stall_are_no_part_of_it() {
    let undisturbed = stalled(Vec::new());
    let pauses = (0..100).map(|number| (number * 100 * MS + 20 * MS, number * 100 * MS + 70 * MS));
    let run = stalled(pauses.collect());
    assert_corrected(&run, &undisturbed, 10.0, "50 of 100 ms");
}

/// A pause that ends soon after the server has frozen is not among these: when the server froze is
/// not known, so what was due before that counts as the server's.
#[test]
fn what_waits_for_a_frozen_server_at_the_end_waits_for_it_whatever_the_pauses() {
    let run = |pauses_ns, is_stopped| {
        let mut simulation = simulation(pauses_ns).connections(1_000);
        if is_stopped {
            simulation = simulation.stopped();
        }
        simulation.settings.plan.pacing = poisson(400.0, 7);
        simulation.run(server(1e6, false, (8_020 * MS, 11 * S)))
    };
    let undisturbed = run(Vec::new(), false);
    let in_the_freeze = [(8_000, 8_500), (8_200, 8_700), (9_500, 10_500)]
        .map(|(from_ms, to_ms)| ("once", vec![(from_ms * MS, to_ms * MS)]));
    for (name, pauses_ns) in pauses().into_iter().chain(in_the_freeze) {
        for is_stopped in [false, true] {
            let run = run(pauses_ns.clone(), is_stopped);
            let what = format!("{name} from {} ns, stopped {is_stopped}", pauses_ns[0].0);
            assert_corrected(&run, &undisturbed, 1.0, &what);
        }
    }
}

/// One request in 45 takes more than half of the window. Of those that are sent late, many are in
/// flight at the end, and all the same would have been answered with their usual latency.
#[test]
fn a_long_response_that_a_pause_moves_behind_the_end_has_the_latency_of_others() {
    let run = |pauses_ns| {
        let mut number = 0;
        let peer = HttpPeer::new(move |_| {
            number += 1;
            let is_long = number % 45 == 0;
            Reply::after(if is_long { 1_250 * MS } else { 125 * MS }, OK)
        });
        simulation(pauses_ns)
            .connections(200)
            .rate(400.0)
            .lasting(2 * S)
            .run(peer)
    };
    let undisturbed = run(Vec::new());
    let disturbed = run(vec![(600 * MS, 1_100 * MS)]);
    assert_corrected(&disturbed, &undisturbed, 10.0, "long responses");
}

#[test]
fn requests_that_are_sent_late_and_time_out_are_late_by_the_load_generator() {
    let run = |pauses_ns| {
        let mut simulation = simulation(pauses_ns).connections(200).timeout(100 * MS);
        simulation.settings.plan.pacing = poisson(400.0, 7);
        simulation.run(HttpPeer::new(|request| match request.number % 5 {
            0 => Reply::silence(),
            _ => Reply::after(MS, OK),
        }))
    };
    let undisturbed = run(Vec::new());
    let [.., (name, half_of_the_time)] = pauses();
    let run = run(half_of_the_time);
    assert!(shown_ms_of(&run, 99.0) > 140.0);
    assert_corrected(&run, &undisturbed, 1.0, name);
}

/// What else needs the CPU, by name, after the connections are open: all the time, or once.
fn busy_neighbours() -> [(&'static str, Vec<(u64, u64)>); 4] {
    let in_turn = |length_ms: u64, every_ms: u64| {
        let starts_ms = (120..600).step_by(every_ms as usize);
        let pause = |start_ms| (start_ms * MS, (start_ms + length_ms) * MS);
        starts_ms.map(pause).collect::<Vec<_>>()
    };
    [
        ("6 of 12 ms", in_turn(6, 12)),
        ("50 of 100 ms", in_turn(50, 100)),
        ("5 of 100 ms", in_turn(5, 100)),
        ("once 150 ms", vec![(200 * MS, 350 * MS)]),
    ]
}

/// Half a second with this many connections.
fn crowded(connections: u32, pauses_ns: Vec<(u64, u64)>, is_stopped: bool) -> Simulation {
    let mut simulation = simulation(pauses_ns)
        .connections(connections)
        .lasting(500 * MS)
        .warmed_up(100 * MS);
    if is_stopped {
        simulation = simulation.stopped();
    }
    // Responses that leave together arrive one after another.
    simulation.sim.jitter_ns = 200_000;
    simulation
}

const CONNECTIONS: [u32; 6] = [1, 8, 30, 100, 200, 1_000];

#[test]
fn with_any_number_of_connections_a_closed_loop_knows_how_much_of_the_latency_is_its_own() {
    for connections in CONNECTIONS {
        let run = |pauses_ns, is_stopped| {
            crowded(connections, pauses_ns, is_stopped).run(server(2e6, false, (0, 0)))
        };
        let undisturbed = run(Vec::new(), false);
        assert_eq!(undisturbed.recording.attribution, Attribution::default());
        for (name, pauses_ns) in busy_neighbours() {
            for is_stopped in [false, true] {
                let run = run(pauses_ns.clone(), is_stopped);
                let what = format!("{connections} connections, {name}, stopped {is_stopped}");
                assert_corrected(&run, &undisturbed, 0.5, &what);
                let idle_ns = run.recording.attribution.idle_ns as f64;
                let idle_share = idle_ns / (f64::from(connections) * 500e6);
                let truth = 1.0 - run.answered() as f64 / undisturbed.answered() as f64;
                assert!(
                    (idle_share - truth).abs() < 0.03,
                    "{what}: idle {idle_share:.3}, truth {truth:.3}"
                );
            }
        }
    }
}

#[test]
fn with_any_number_of_connections_a_fixed_rate_knows_how_much_of_the_latency_is_its_own() {
    for connections in CONNECTIONS {
        let run = |pauses_ns, is_stopped| {
            let mut simulation = crowded(connections, pauses_ns, is_stopped);
            let rate_per_sec = f64::from(connections).mul_add(200.0, 100.0).min(20_000.0);
            simulation.settings.plan.pacing = poisson(rate_per_sec, 7);
            simulation.run(server(2e6, false, (0, 0)))
        };
        let undisturbed = run(Vec::new(), false);
        assert_eq!(undisturbed.recording.attribution, Attribution::default());
        for (name, pauses_ns) in busy_neighbours() {
            for is_stopped in [false, true] {
                // Of a stop of a few milliseconds, only the timestamps on some connections tell.
                if is_stopped && name == "6 of 12 ms" {
                    continue;
                }
                let run = run(pauses_ns.clone(), is_stopped);
                let what = format!("{connections} connections, {name}, stopped {is_stopped}");
                assert_corrected(&run, &undisturbed, 1.0, &what);
            }
        }
    }
}
