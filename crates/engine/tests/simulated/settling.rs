//! A warm-up that lasts until the server has settled: when the window begins, and what is in it.

use crate::http::{HttpPeer, Reply};
use crate::simulation::{MS, OK, Run, S, Simulation};
use plan::{Arrivals, Pacing, Stage};
use std::time::Duration;

const COLD: &[u8] = b"HTTP/1.1 503 Warming Up\r\nContent-Length: 0\r\n\r\n";

/// The limit of the warm-up.
const LIMIT_NS: u64 = 30 * S;

/// Four connections of two threads for two seconds, after the warm-up.
fn simulation() -> Simulation {
    let mut simulation = Simulation::new()
        .threads(2)
        .connections(4)
        .warmed_up(LIMIT_NS)
        .lasting(2 * S);
    simulation.settings.plan.warmup_auto = true;
    simulation
}

/// When the window of [`simulation`] began.
fn began_ns(run: &Run) -> u64 {
    run.ended_ns - 2 * S
}

/// A server with another status and delay in its first 3 s.
fn warms_up() -> HttpPeer {
    HttpPeer::new(|request| match request.arrived_ns {
        ..3_000_000_000 => Reply::after(30 * MS, COLD),
        _ => Reply::after(10 * MS, OK),
    })
}

#[test]
fn with_a_constant_server_the_window_begins_after_5_s() {
    let run = simulation().run(HttpPeer::new(|_| Reply::after(10 * MS, OK)));
    let began_ns = began_ns(&run);
    assert!((5_000 * MS..5_300 * MS).contains(&began_ns), "{began_ns}");
    // 100 per second and connection, of which each has one in flight.
    let responses = run.recording.counters.responses();
    assert!(responses.abs_diff(800) <= 4, "{responses}");
    assert_eq!(run.service_ns(), (Some(10 * MS), Some(10 * MS)));
}

#[test]
fn nothing_of_a_slow_start_is_in_the_window() {
    let run = simulation().run(warms_up());
    let began_ns = began_ns(&run);
    assert!((5 * S..9 * S).contains(&began_ns), "{began_ns}");
    assert_eq!(run.recording.statuses.count(503), 0);
    assert_eq!(run.service_ns(), (Some(10 * MS), Some(10 * MS)));
    let (counters, series) = (run.recording.counters, &run.recording.series);
    assert!(counters.responses().abs_diff(800) <= 4, "{counters:?}");
    assert_eq!(counters.connections_at_start, 4);
    assert_eq!(counters.connections_opened, 0);
    // The intervals begin with the window, too.
    let rows = series.rows();
    let all: u64 = rows.iter().map(|row| row.answered).sum();
    assert_eq!(all, counters.responses());
    assert!(rows.iter().all(|row| row.start_ms < 2_000), "{rows:?}");
    assert!(
        rows.iter().all(|row| row.answered.abs_diff(40) <= 8),
        "{rows:?}"
    );
}

#[test]
fn a_server_that_never_settles_is_measured_after_the_limit() {
    let mut latency_ns = MS;
    let run = simulation().run(HttpPeer::new(move |_| {
        latency_ns += latency_ns / 500;
        Reply::after(latency_ns, OK)
    }));
    assert_eq!(began_ns(&run), LIMIT_NS);
}

#[test]
fn a_number_of_requests_is_that_of_the_window() {
    for rate_per_sec in [None, Some(3.0), Some(400.0)] {
        let mut simulation = simulation().requests(101);
        if let Some(rate_per_sec) = rate_per_sec {
            simulation = simulation.rate(rate_per_sec);
        }
        let run = simulation.run(warms_up());
        assert_eq!(run.recording.counters.sent, 101, "{rate_per_sec:?}");
        assert_eq!(run.recording.statuses.count(503), 0);
    }
}

#[test]
fn a_schedule_goes_on_from_the_warm_up_to_the_window() {
    let run = simulation().connections(40).rate(500.0).run(warms_up());
    assert!(began_ns(&run) < 15 * S);
    let counters = run.recording.counters;
    let due = counters.sent + counters.unsent;
    assert!(due.abs_diff(1_000) <= 1, "{counters:?}");
    assert_eq!(run.service_ns(), (Some(10 * MS), Some(10 * MS)));
}

#[test]
fn stages_begin_with_the_window() {
    let stage = |per_sec: f64| Stage {
        from_per_sec: per_sec,
        to_per_sec: per_sec,
        duration: Duration::from_secs(1),
    };
    for arrivals in [Arrivals::Even, Arrivals::Poisson] {
        let mut simulation = simulation().connections(40);
        simulation.settings.plan.pacing = Pacing::Stages {
            stages: vec![stage(100.0), stage(700.0)],
            arrivals,
            seed: 1,
        };
        let run = simulation.run(warms_up());
        assert!(began_ns(&run) < 15 * S);
        let begin_ns = began_ns(&run);
        let of_second = |second: u64| {
            let from_ns = begin_ns + second * S;
            let arrived = run.served.iter().map(|it| it.arrived_ns);
            arrived
                .filter(|it| (from_ns..from_ns + S).contains(it))
                .count()
        };
        let (first, second) = (of_second(0), of_second(1));
        assert!((70..=130).contains(&first), "{arrivals:?}: {first}");
        assert!((600..=800).contains(&second), "{arrivals:?}: {second}");
    }
}

/// Rates of runs of a server with a latency of about 10 ms, which is ten times as long in the first
/// seconds.
fn rates_per_sec(slow_s: u64, is_auto: bool) -> Vec<f64> {
    let runs = (0..6_u64).map(|number| {
        let mut simulation = if is_auto {
            simulation()
        } else {
            Simulation::new().threads(2).connections(4).lasting(2 * S)
        };
        simulation.settings.seed = number;
        let run = simulation.run(HttpPeer::new(move |request| {
            // A multiple of a prime in place of chance, so that no two runs are alike.
            let noise_ns = (request.number * 7_919 + number * 104_729) % MS;
            let usual_ns = 10 * MS + noise_ns;
            let is_slow = request.arrived_ns < slow_s * S;
            Reply::after(if is_slow { 10 * usual_ns } else { usual_ns }, OK)
        }));
        run.recording.counters.responses() as f64 / 2.0
    });
    runs.collect()
}

#[test]
fn a_server_that_warms_up_slowly_differs_from_itself_without_a_warm_up_and_not_with_one() {
    let p_value = |is_auto| {
        let (cold, warm) = (rates_per_sec(4, is_auto), rates_per_sec(0, is_auto));
        let test = stats::mann_whitney(&cold, &warm).expect("there are runs");
        let means = stats::mean(&cold).zip(stats::mean(&warm));
        (test.p_value, means.expect("there are runs"))
    };
    let (without, (cold, warm)) = p_value(false);
    assert!(
        without < 0.05 && cold < warm / 2.0,
        "{without} {cold} {warm}"
    );
    let (with, (cold, warm)) = p_value(true);
    assert!(with > 0.05, "{with}");
    assert!((cold / warm - 1.0).abs() < 0.01, "{cold} {warm}");
}
