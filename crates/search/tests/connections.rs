//! Searches over connections against simulated servers with a known largest number of users.

use std::thread;

use fastrand::Rng;
use search::{
    Bound, Connections, Load, Measured, Outcome, Over, Phase, PlannedStep, Reading, RunLengths,
    Search, Settings, Why,
};

/// The share of requests that may miss the limit: goodput>95%.
const ALLOWED: f64 = 0.05;

const WARMUP_S: f64 = 1.0;

/// A language model's server that makes a token for each of its streams at a time: the time per
/// token is `1 + (n - 1) / batch` times that of one stream.
#[derive(Debug, Clone, Copy)]
struct Batch {
    batch: f64,
    /// The limit of the time per token, as a multiple of that of one stream.
    limit: f64,
    /// Standard deviation of the logarithm of a response's time per token.
    of_request: f64,
    /// The same of the mean of a run.
    of_run: f64,
    /// How much slower it becomes each second, as a share.
    slower_per_s: f64,
}

/// 10 gaps of a token, and the first one, in seconds.
const RESPONSE_S: f64 = 0.2;

const STEADY: Batch = Batch {
    batch: 8.0,
    limit: 4.45,
    of_request: 0.0,
    of_run: 0.0,
    slower_per_s: 0.0,
};

impl Batch {
    fn slowdown(self, connections: f64) -> f64 {
        1.0 + (connections - 1.0) / self.batch
    }

    /// The largest number of connections at which at most the allowed share is above the limit.
    /// Runs that differ are one distribution with both variances.
    fn truth(self) -> f64 {
        const NORMAL_95: f64 = 1.644_853_6;
        let sigma = self.of_request.hypot(self.of_run);
        let slowdown = self.limit / (NORMAL_95 * sigma).exp();
        ((slowdown - 1.0) * self.batch + 1.0).floor()
    }

    fn run(self, step: &PlannedStep, at_s: f64, random: &mut Rng) -> Measured {
        assert_eq!(step.load, Load::ClosedLoop);
        assert_ne!(step.phase, Phase::Ceiling);
        let connections = f64::from(step.connections);
        let slowdown = self.slowdown(connections)
            * (self.of_run * normal(random)).exp()
            * (1.0 + self.slower_per_s * at_s);
        let per_sec = connections / (RESPONSE_S * slowdown);
        let requests = (per_sec * step.duration_s).floor();
        let is_above =
            |random: &mut Rng| slowdown * (self.of_request * normal(random)).exp() > self.limit;
        let above = (0..requests as u32).filter(|_| is_above(random)).count();
        Measured {
            readings: vec![Reading {
                relative: above as f64 / requests.max(1.0) / ALLOWED,
                requests,
            }],
            achieved: per_sec,
            generator_limited: false,
            disturbed: false,
            waited_for_connection: false,
            took_s: step.duration_s + WARMUP_S,
        }
    }
}

fn normal(random: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

fn settings(seed: u64) -> Settings {
    Settings {
        over: Over::Connections,
        precision: 0.05,
        lengths: RunLengths {
            requests_min: 100.0,
            ..RunLengths::default()
        },
        connections: Connections {
            first: 10,
            most: 1_000,
        },
        seed,
        ..Settings::default()
    }
}

/// A search to its end.
fn search(
    settings: Settings,
    mut run: impl FnMut(&PlannedStep, f64, &mut Rng) -> Measured,
) -> Search {
    let mut random = Rng::with_seed(settings.seed ^ 0x5eed);
    let mut search = Search::new(settings).expect("the settings are in range");
    while let Some(step) = search.next() {
        let measured = run(&step, search.spent_s(), &mut random);
        search.record(step, measured).expect("it was asked for");
    }
    search
}

fn outcome(server: Batch, seed: u64) -> Outcome {
    let search = search(settings(seed), |step, at_s, random| {
        server.run(step, at_s, random)
    });
    search.outcome().expect("it has ended")
}

/// How searches of a server ended.
#[derive(Debug, Default)]
struct Ends {
    found: usize,
    covering: usize,
    too_high: usize,
    too_low: usize,
    changed: usize,
    width: f64,
}

fn ends(server: Batch, searches: u64) -> Ends {
    let truth = server.truth();
    let mut ends = Ends::default();
    for seed in 0..searches {
        match outcome(server, seed) {
            Outcome::Found { estimate, .. } => {
                for number in [estimate.rate, estimate.low, estimate.high] {
                    assert_eq!(number, number.round(), "{estimate:?}");
                }
                ends.found += 1;
                ends.too_high += usize::from(estimate.low > truth);
                ends.too_low += usize::from(estimate.high < truth);
                ends.covering += usize::from((estimate.low..=estimate.high).contains(&truth));
                ends.width += (estimate.high - estimate.low) / searches as f64;
            }
            Outcome::Undecided(Why::Drift { .. }) => ends.changed += 1,
            _ => {}
        }
    }
    ends
}

/// Servers whose largest number of connections is 28, 25, 51, 22, 6, 278, 1 and 2.
const SERVERS: [Batch; 8] = [
    STEADY,
    Batch {
        of_request: 0.05,
        ..STEADY
    },
    Batch {
        of_request: 0.3,
        limit: 12.0,
        ..STEADY
    },
    Batch {
        of_request: 0.1,
        of_run: 0.03,
        ..STEADY
    },
    Batch {
        batch: 2.0,
        of_request: 0.1,
        ..STEADY
    },
    Batch {
        batch: 100.0,
        of_request: 0.1,
        of_run: 0.01,
        ..STEADY
    },
    Batch {
        limit: 1.05,
        ..STEADY
    },
    Batch {
        batch: 1.0,
        limit: 2.5,
        of_request: 0.02,
        ..STEADY
    },
];

/// Searches each of the servers this many times.
fn assert_intervals_contain_the_truth(searches: u64) {
    let all = thread::scope(|scope| {
        let threads = SERVERS.map(|server| (server, scope.spawn(move || ends(server, searches))));
        threads.map(|(server, thread)| (server, thread.join().expect("no panic")))
    });
    for (server, it) in all {
        let (truth, all) = (server.truth(), searches as usize);
        assert!(it.found * 20 >= all * 19, "{truth} {server:?}: {it:?}");
        assert!(it.covering * 10 >= all * 9, "{truth} {server:?}: {it:?}");
        let wrong = it.too_high + it.too_low;
        assert!(wrong * 20 <= all, "{truth} {server:?}: {it:?}");
        let most = (truth * 0.1).max(2.0);
        assert!(it.width <= most, "{truth} {server:?}: {it:?}");
    }
}

#[test]
fn intervals_have_the_largest_number_of_connections_within_the_limits() {
    assert_intervals_contain_the_truth(20);
}

#[test]
#[ignore = "takes more than a minute in a release build"]
fn of_200_intervals_190_have_the_largest_number_of_connections() {
    assert_intervals_contain_the_truth(200);
}

#[test]
fn one_connection_that_misses_the_limits_is_too_many() {
    for seed in 0..5 {
        let server = Batch {
            limit: 0.9,
            ..STEADY
        };
        let outcome = outcome(server, seed);
        assert_eq!(outcome, Outcome::NotEven { rate: 1.0 });
    }
}

#[test]
fn the_most_connections_that_are_allowed_are_carried_at_least() {
    for most in [1, 2, 7, 64, 1_000] {
        let settings = Settings {
            connections: Connections { first: 1, most },
            ..settings(1)
        };
        let server = Batch {
            limit: 1e6,
            ..STEADY
        };
        let search = search(settings, |step, at_s, random| {
            server.run(step, at_s, random)
        });
        let Some(Outcome::AtLeast {
            rate,
            bound: Bound::Most,
            confirmed,
        }) = search.outcome()
        else {
            panic!("{most}: {:?}", search.outcome());
        };
        assert_eq!((rate, confirmed.held), (most.into(), 3));
        // At most twice as many as were carried before.
        let tried = search.records().iter().map(|it| it.step.connections);
        let tried: Vec<u32> = tried.collect();
        let is_gentle = |pair: &[u32]| pair[1] <= 2 * pair[0];
        assert!(tried.windows(2).all(is_gentle), "{tried:?}");
    }
}

#[test]
fn connections_that_the_generator_spoils_are_its_limit() {
    let search = search(settings(3), |step, at_s, random| Measured {
        generator_limited: step.connections > 20,
        ..STEADY.run(
            &PlannedStep {
                connections: if step.connections > 20 { 40 } else { 5 },
                ..*step
            },
            at_s,
            random,
        )
    });
    let outcome = search.outcome().expect("it has ended");
    let Outcome::AtLeast { rate, bound, .. } = outcome else {
        panic!("{outcome:?}");
    };
    assert!((18.0..=20.0).contains(&rate), "{outcome:?}");
    assert_eq!(bound, Bound::Generator);
}

#[test]
fn a_server_that_becomes_slower_has_no_number_of_connections() {
    const SEARCHES: u64 = 20;
    let server = Batch {
        of_request: 0.1,
        slower_per_s: 0.003,
        ..STEADY
    };
    let outcomes: Vec<Outcome> = (0..SEARCHES).map(|seed| outcome(server, seed)).collect();
    let found = |it: &&Outcome| matches!(it, Outcome::Found { .. });
    assert!(outcomes.iter().filter(found).count() <= 1, "{outcomes:?}");
}

#[test]
fn a_server_that_answers_nothing_does_not_carry_one_connection() {
    let search = search(settings(4), |step, _, _| Measured {
        readings: vec![Reading::failed(1.0)],
        achieved: 0.0,
        generator_limited: false,
        disturbed: false,
        waited_for_connection: false,
        took_s: step.duration_s,
    });
    let outcome = search.outcome().expect("it has ended");
    assert!(
        matches!(outcome, Outcome::NotEven { rate } if rate <= 2.0),
        "{outcome:?}"
    );
}

#[test]
fn whatever_is_measured_only_whole_numbers_within_the_bounds_are_tried() {
    for seed in 0..30 {
        let mut others = Rng::with_seed(seed);
        let settings = Settings {
            connections: Connections {
                first: others.u32(0..20),
                most: others.u32(0..200),
            },
            budget_s: 200.0,
            ..settings(seed)
        };
        let most = settings.connections.most.max(settings.connections.first);
        let search = search(settings, |step, _, random| {
            assert!((1..=most.max(1)).contains(&step.connections), "{step:?}");
            assert_eq!(step.load, Load::ClosedLoop);
            Measured {
                readings: vec![Reading {
                    relative: random.f64() * 4.0,
                    requests: random.f64() * 1e4,
                }],
                achieved: random.f64() * 1e4,
                generator_limited: random.u8(..) < 50,
                disturbed: false,
                waited_for_connection: false,
                took_s: step.duration_s,
            }
        });
        if let Some(Outcome::Found { estimate, .. }) = search.outcome() {
            let ordered = [1.0, estimate.rate, estimate.high];
            assert!(ordered.is_sorted() && estimate.low <= estimate.rate);
        }
    }
}

#[test]
fn the_same_records_give_the_same_steps() {
    let first = search(settings(9), |step, at_s, random| {
        SERVERS[3].run(step, at_s, random)
    });
    let mut again = Search::new(settings(9)).expect("the settings are in range");
    for record in first.records() {
        assert_eq!(again.next(), Some(record.step));
        let measured = record.measured.clone();
        again.record(record.step, measured).expect("it is the next");
    }
    assert_eq!(again.outcome(), first.outcome());
}
