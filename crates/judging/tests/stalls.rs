//! Stalls of the server beside a load generator that is disturbed, undisturbed, or stopped.

#[path = "../../results/tests/fixture/mod.rs"]
mod fixture;
mod world;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fastrand::Rng;
use judging::episodes::{Arrived, Stall, stalls_of};
use plan::{Arrivals, Pacing};
use results::{EventRecording, Recording, RunResult, SeriesRow};
use world::{Disturbance, MS, WINDOW_MS, World};

/// When the server stalls, if it does.
const STALL_MS: (u64, u64) = (3_000, 4_300);

fn stalls(world: &World, seed: u64) -> Vec<Stall> {
    stalls_of(&world.run(seed))
}

/// All kinds of load beside a disturbance.
fn loads(disturbance: Disturbance, stalls: bool) -> Vec<World> {
    let with = |load: World| World {
        stall_ms: stalls.then_some(STALL_MS),
        disturbance,
        ..load
    };
    world::loads().into_iter().map(with).collect()
}

const DISTURBANCES: [Disturbance; 6] = [
    Disturbance::Nothing,
    Disturbance::Hog(6, 12),
    Disturbance::Hog(50, 100),
    Disturbance::Hog(5, 100),
    Disturbance::Hog(25, 100),
    Disturbance::Stop(6_000, 6_500),
];

#[test]
fn a_stall_of_the_server_is_found_whatever_the_load_generator_does_beside_it() {
    for disturbance in DISTURBANCES {
        for world in loads(disturbance, true) {
            for seed in 0..3 {
                let found = stalls(&world, seed);
                let [stall] = found[..] else {
                    panic!("{world:?}, seed {seed}: {found:?}");
                };
                for (found_s, true_ms) in [(stall.begin_s, STALL_MS.0), (stall.end_s, STALL_MS.1)] {
                    let true_s = true_ms as f64 / 1e3;
                    assert!(
                        (found_s - true_s).abs() <= 0.21,
                        "{world:?}, seed {seed}: {stall:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_stop_of_the_load_generator_within_a_stall_does_not_cut_it_in_two() {
    for world in loads(Disturbance::Stop(3_400, 3_900), true) {
        let found = stalls(&world, 1);
        let [stall] = found[..] else {
            panic!("{world:?}: {found:?}");
        };
        let length_s = stall.end_s - stall.begin_s;
        assert!((1.1..=1.5).contains(&length_s), "{world:?}: {stall:?}");
    }
}

#[test]
fn of_a_stop_that_ends_in_a_stall_only_the_rest_is_the_servers() {
    for world in loads(Disturbance::Stop(2_940, 3_600), true) {
        let found = stalls(&world, 1);
        let [stall] = found[..] else {
            panic!("{world:?}: {found:?}");
        };
        assert!(stall.begin_s >= 3.5, "{world:?}: {stall:?}");
        assert!((stall.end_s - 4.3).abs() <= 0.21, "{world:?}: {stall:?}");
    }
}

#[test]
fn a_disturbed_load_generator_is_no_stall_of_the_server() {
    let stops = [(3_000, 3_150), (3_000, 3_500), (3_030, 4_330)];
    let stops = stops.map(|(from_ms, to_ms)| Disturbance::Stop(from_ms, to_ms));
    for disturbance in DISTURBANCES.into_iter().chain(stops) {
        for world in loads(disturbance, false) {
            for seed in 0..3 {
                assert_eq!(stalls(&world, seed), [], "{world:?}, seed {seed}");
            }
        }
    }
}

#[test]
fn a_server_with_a_long_response_time_has_not_stalled() {
    let times_ms = [150, 200, 220, 300, 700, 1_500];
    for world in world::calm(&times_ms, &[0, 1, 10], &[8, 30, 200, 1_000]) {
        assert_eq!(stalls(&world, 1), [], "{world:?}");
    }
}

/// What a server does during its stall.
#[derive(Debug, Clone, Copy, PartialEq)]
enum StreamStall {
    Nothing,
    /// Streams that are open wait for its end.
    Frozen,
    /// Streams that are open go on, and new ones wait.
    OnlyNew,
}

/// Streams of events, such as those of a language model.
#[derive(Debug, Clone, Copy)]
struct Streams {
    connections: usize,
    /// Requests per second, at random; without, each connection sends the next one at once.
    rate_per_sec: Option<f64>,
    /// Until the first event, and between events.
    first_ms: u64,
    gap_ms: u64,
    /// The fewest and the most events.
    events: (u64, u64),
    stall: StreamStall,
}

impl Streams {
    /// Up to 32 tokens after 80 ms, 15 ms apart, on 32 connections.
    fn tokens(stall: StreamStall) -> Self {
        Self {
            connections: 32,
            rate_per_sec: None,
            first_ms: 80,
            gap_ms: 15,
            events: (8, 32),
            stall,
        }
    }

    /// When what is due now comes.
    fn at_ms(&self, due_ms: u64, is_new: bool) -> u64 {
        let waits = match self.stall {
            StreamStall::Nothing => false,
            StreamStall::Frozen => true,
            StreamStall::OnlyNew => is_new,
        };
        let within = (STALL_MS.0..STALL_MS.1).contains(&due_ms);
        if waits && within { STALL_MS.1 } else { due_ms }
    }

    fn run(&self, seed: u64) -> RunResult {
        let mut rng = Rng::with_seed(seed);
        let mut result = fixture::result(fixture::recording(0));
        result.recording = Recording::new();
        result.window.duration_ns = WINDOW_MS * MS;
        result.plan.load.connections = self.connections as u32;
        let mut events = EventRecording::default();
        let mut open_ms = 0;
        let mut starts: BinaryHeap<Reverse<u64>> = match self.rate_per_sec {
            None => (0..self.connections).map(|_| Reverse(0)).collect(),
            Some(rate_per_sec) => {
                let count = (rate_per_sec * WINDOW_MS as f64 / 1e3) as u64;
                (0..count).map(|_| Reverse(rng.u64(0..WINDOW_MS))).collect()
            }
        };
        while let Some(Reverse(sent_ms)) = starts.pop() {
            let mut last_ms = sent_ms;
            for number in 0..rng.u64(self.events.0..=self.events.1) {
                let is_first = number == 0;
                let wait_ms = if is_first { self.first_ms } else { self.gap_ms };
                let wait_ms = wait_ms * 9 / 10 + rng.u64(0..=wait_ms / 5);
                let at_ms = self.at_ms(self.at_ms(last_ms, is_first) + wait_ms, is_first);
                if at_ms < WINDOW_MS {
                    let times = if is_first {
                        &mut events.first_event
                    } else {
                        &mut events.gap
                    };
                    times.record((at_ms - last_ms) * MS);
                    result.recording.series.add_row(&SeriesRow {
                        start_ms: at_ms,
                        events: 1,
                        ..SeriesRow::default()
                    });
                }
                last_ms = at_ms;
            }
            open_ms += last_ms.min(WINDOW_MS) - sent_ms;
            if last_ms < WINDOW_MS {
                result.recording.series.add(last_ms, 1, 0, 0);
                if self.rate_per_sec.is_none() {
                    starts.push(Reverse(last_ms));
                }
            }
        }
        result.recording.counters.in_flight_time_ns = open_ms * MS;
        result.recording.parts.events = Some(events);
        if let Some(rate_per_sec) = self.rate_per_sec {
            result.plan.pacing = Pacing::Constant {
                rate_per_sec,
                arrivals: Arrivals::Poisson,
                seed: 0,
            };
        }
        result
    }
}

#[test]
fn a_stall_of_streams_is_seen_in_their_events() {
    for stall in [StreamStall::Frozen, StreamStall::OnlyNew] {
        let tokens = Streams::tokens(stall);
        for streams in [
            tokens,
            Streams {
                rate_per_sec: Some(60.0),
                ..tokens
            },
            // Few streams of which hardly any ends.
            Streams {
                connections: 4,
                events: (100, 200),
                stall: StreamStall::Frozen,
                ..tokens
            },
            Streams {
                connections: 1,
                first_ms: 100,
                events: (30, 60),
                ..tokens
            },
        ] {
            for seed in 0..10 {
                let found = stalls_of(&streams.run(seed));
                let [stall] = found[..] else {
                    panic!("{streams:?}, seed {seed}: {found:?}");
                };
                assert_eq!(stall.what, Arrived::Events);
                // Streams that were open go on for up to a second.
                let late_s = match streams.stall {
                    StreamStall::OnlyNew => 1.0,
                    _ => 0.0,
                };
                let (begin_s, end_s) = (STALL_MS.0 as f64 / 1e3, STALL_MS.1 as f64 / 1e3);
                let is_right = stall.begin_s >= begin_s - 0.11
                    && stall.begin_s <= begin_s + late_s + 0.21
                    && (stall.end_s - end_s).abs() <= 0.31;
                assert!(is_right, "{streams:?}, seed {seed}: {stall:?}");
            }
        }
    }
}

#[test]
fn streams_that_are_silent_for_other_reasons_have_not_stalled() {
    let tokens = Streams::tokens(StreamStall::Nothing);
    for streams in [
        tokens,
        // All begin together, again and again.
        Streams {
            first_ms: 400,
            events: (20, 20),
            ..tokens
        },
        Streams {
            connections: 1,
            first_ms: 600,
            ..tokens
        },
        // An event now and then.
        Streams {
            connections: 1,
            gap_ms: 2_000,
            ..tokens
        },
        Streams {
            gap_ms: 700,
            ..tokens
        },
        // Often there is no stream at all.
        Streams {
            rate_per_sec: Some(1.0),
            ..tokens
        },
        Streams {
            rate_per_sec: Some(8.0),
            ..tokens
        },
        Streams {
            rate_per_sec: Some(60.0),
            ..tokens
        },
    ] {
        for seed in 0..20 {
            let found = stalls_of(&streams.run(seed));
            assert_eq!(found, [], "{streams:?}, seed {seed}");
        }
    }
}
