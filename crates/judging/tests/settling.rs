//! Slow beginnings of the server beside a load generator that is disturbed or undisturbed.

#[path = "../../results/tests/fixture/mod.rs"]
mod fixture;
mod world;

use std::time::Duration;

use judging::sentences::{Sentence, finding};
use judging::{judge, warnings};
use plan::{Arrivals, ConnectionStage, Pacing, Stage};
use results::{RunResult, SlowStart, Symptom, Verdict, Warning};
use world::{Disturbance, MS, WINDOW_MS, World, calm, loads};

/// For how long the server is slower at first, and how many times.
const SLOW: (u64, u64) = (3_000, 3);

fn judged(mut result: RunResult) -> Vec<Warning> {
    judge(&mut result);
    let warnings = result.warnings.into_iter().map(|it| it.data);
    warnings.filter(|it| it.slow_start().is_some()).collect()
}

fn start_of(world: &World, seed: u64) -> Option<SlowStart> {
    judged(world.run(seed)).first()?.slow_start().copied()
}

#[test]
fn a_server_that_is_slow_at_first_is_noticed_with_every_load() {
    for disturbance in [Disturbance::Nothing, Disturbance::Hog(1, 100)] {
        for load in loads() {
            let world = World {
                slow_start: Some(SLOW),
                disturbance,
                ..load
            };
            let [Warning::SlowAtFirst(start)] = judged(world.run(1))[..] else {
                panic!("{world:?}: {:?}", judged(world.run(1)));
            };
            assert!(
                start.first_ms.abs_diff(SLOW.0) <= 500,
                "{world:?}: {start:?}"
            );
            assert_eq!(start.first_ms + start.rest_ms, WINDOW_MS, "{world:?}");
            let slower_by = match world.rate_per_sec {
                Some(_) => 1.0 / 3.0,
                None => 2.0 / 3.0,
            };
            assert!(
                (start.slower_by() - slower_by).abs() < 0.1,
                "{world:?}: {start:?}"
            );
            let warm = world.connections as f64 * 1e3 / world.service_ms as f64;
            if world.rate_per_sec.is_none() {
                assert!(
                    (start.rest_per_sec() / warm - 1.0).abs() < 0.05,
                    "{world:?}: {start:?}"
                );
            }
        }
    }
}

#[test]
fn a_disturbed_load_generator_is_no_slow_server() {
    let stops = [(0, 150), (0, 3_000), (400, 2_600), (6_000, 6_500)];
    let stops = stops.map(|(from_ms, to_ms)| Disturbance::Stop(from_ms, to_ms));
    let hogs = [(6, 12), (50, 100), (5, 100), (25, 100), (1, 5)];
    let always = hogs.map(|(busy_ms, every_ms)| Disturbance::Hog(busy_ms, every_ms));
    let at_first = hogs.map(|(busy_ms, every_ms)| Disturbance::HogAtFirst(busy_ms, every_ms));
    for disturbance in stops.into_iter().chain(always).chain(at_first) {
        for load in loads() {
            let world = World {
                disturbance,
                ..load
            };
            for seed in 0..2 {
                assert_eq!(start_of(&world, seed), None, "{world:?}, seed {seed}");
            }
        }
    }
}

#[test]
fn a_slow_server_beside_a_disturbed_load_generator_is_noticed_or_nothing_is_said() {
    for disturbance in [(6, 12), (50, 100), (5, 100), (25, 100)]
        .map(|(busy_ms, every_ms)| Disturbance::Hog(busy_ms, every_ms))
    {
        for load in loads() {
            let world = World {
                slow_start: Some(SLOW),
                disturbance,
                ..load
            };
            let start = start_of(&world, 1);
            let is_right = start.is_none_or(|it| it.first_ms.abs_diff(SLOW.0) <= 500);
            assert!(is_right, "{world:?}: {start:?}");
        }
    }
}

#[test]
fn a_stall_is_no_warm_up_unless_the_run_begins_with_it() {
    for load in loads() {
        for (stall_ms, first_ms) in [
            ((300, 1_000), None),
            ((500, 3_500), None),
            ((3_000, 4_300), None),
            ((9_000, 10_000), None),
            // It is too short for the number of batches.
            ((0, 1_000), None),
            ((0, 3_000), Some(3_000)),
        ] {
            let world = World {
                stall_ms: Some(stall_ms),
                ..load
            };
            let start = start_of(&world, 1);
            let is_right = match (first_ms, start) {
                (Some(first_ms), Some(start)) => start.first_ms.abs_diff(first_ms) <= 500,
                // With a rate, long responses are not expected at first.
                (Some(_), None) => world.rate_per_sec.is_some(),
                (None, start) => start.is_none(),
            };
            assert!(is_right, "{world:?}: {start:?}");
        }
    }
}

#[test]
fn responses_that_take_long_are_no_slow_beginning() {
    let times_ms = [150, 300, 700, 1_500, 4_000];
    for world in calm(&times_ms, &[0, 10, 80], &[1, 30, 200, 1_000]) {
        assert_eq!(start_of(&world, 1), None, "{world:?}");
    }
}

/// A closed loop of 8 connections whose server is slow at first.
fn slow() -> World {
    World {
        connections: 8,
        service_ms: 2,
        scatter_percent: 10,
        slow_start: Some(SLOW),
        ..World::default()
    }
}

#[test]
fn a_load_that_changes_by_plan_says_nothing_about_the_server() {
    let warned = |change: fn(&mut RunResult)| {
        let mut result = slow().run(1);
        change(&mut result);
        !judged(result).is_empty()
    };
    assert!(warned(|_| ()));
    assert!(!warned(|result| {
        result.plan.load.connection_stages = vec![ConnectionStage {
            from_connections: 1,
            to_connections: 8,
            duration: Duration::from_secs(3),
        }];
    }));
    assert!(!warned(|result| {
        result.plan.pacing = Pacing::Stages {
            stages: vec![Stage {
                from_per_sec: 100.0,
                to_per_sec: 4_000.0,
                duration: Duration::from_secs(10),
            }],
            arrivals: Arrivals::Even,
            seed: 0,
        };
    }));
    // No response at all.
    assert!(!warned(
        |result| result.recording = results::Recording::new()
    ));
}

#[test]
fn while_connections_are_opened_nothing_is_expected() {
    let mut world = slow();
    world.slow_start = None;
    let mut result = world.run(1);
    let rows: Vec<_> = result.recording.series.rows().to_vec();
    let mut late = results::Series::default();
    for row in rows.iter().take(60) {
        late.add(row.start_ms + 4_000, row.answered, 0, 0);
    }
    result.recording.series = late;
    // Nothing says why no response came.
    assert!(!judged(result.clone()).is_empty());
    result.recording.counters.opening_ns = 8 * 4_000 * MS;
    assert_eq!(judged(result), []);
}

#[test]
fn each_sentence_says_what_to_do() {
    let start = SlowStart {
        first_ms: 3_000,
        first_responses: 1_568,
        rest_ms: 7_000,
        rest_responses: 10_976,
        first_due: None,
        warmup_ms: 0,
    };
    for (warning, expected) in [
        (
            Warning::SlowAtFirst(start),
            "the run was slower by 67 % in its first 3.0 s; without them 1,568 requests/s: use \
             --warmup 3s",
        ),
        (
            Warning::SlowAtFirst(SlowStart {
                first_ms: 2_500,
                warmup_ms: 2_000,
                ..start
            }),
            "the warm-up of 2 s was too short: the run was slower by 60 % in its first 2.5 s; \
             without them 1,568 requests/s: use --warmup 5s",
        ),
        (
            Warning::SlowAtFirst(SlowStart {
                first_due: Some(3_000),
                ..start
            }),
            "the run was slower by 48 % in its first 3.0 s, when fewer requests were answered \
             than due: use a --warmup longer than 3s",
        ),
        (
            Warning::NotSettled(SlowStart {
                first_ms: 7_000,
                first_responses: 7_000,
                rest_ms: 3_000,
                rest_responses: 6_000,
                ..start
            }),
            "the run had not settled: it was slower by 50 % until 7.0 s of 10.0 s: run longer, \
             with --warmup 7s",
        ),
    ] {
        assert_eq!(warning.sentence(), expected);
    }
}

#[test]
fn a_server_that_warms_up_for_most_of_the_run_has_not_settled() {
    let mut world = slow();
    world.slow_start = Some((7_000, 2));
    let [Warning::NotSettled(start)] = judged(world.run(1))[..] else {
        panic!("{:?}", judged(world.run(1)));
    };
    assert_eq!((start.first_ms, start.rest_ms), (7_000, 3_000));
}

#[test]
fn where_another_program_took_the_cpu_nothing_is_said() {
    let warned = |symptom: Symptom| {
        let mut result = slow().run(1);
        result.generator.verdict = Verdict::Saturated {
            percentiles: Vec::new(),
            symptoms: vec![finding(symptom)],
            remedy: String::new(),
        };
        let warnings = warnings(&result);
        warnings.iter().any(|it| it.slow_start().is_some())
    };
    assert!(!warned(Symptom::RunQueueWait {
        worker: 0,
        run_queue_wait_ns: 4_000 * MS,
        elapsed_ns: 10_000 * MS,
        threads: 1,
        cpus: Some(2),
    }));
    assert!(!warned(Symptom::Steal {
        steal_ns: 4_000 * MS,
        elapsed_ns: 10_000 * MS,
        cpus: 2,
    }));
    // A thread that is always busy is not what made the run slow at first.
    assert!(warned(Symptom::WorkerBusy {
        worker: 0,
        cpu_ns: 9_900 * MS,
        elapsed_ns: 10_000 * MS,
        busy_threads: 1,
        threads: 1,
        cpus: Some(2),
    }));
}
