//! A search and a check step by step: what is asked for next, and how it ends.

use search::{
    Bound, Check, CheckSettings, Connections, Load, Measured, Outcome, Phase, PlannedStep, Range,
    Reading, RunLengths, Search, Settings, Verdict, Votes, Why,
};

/// A server that meets the conditions up to this rate, and the excess of which rises with the rate.
const CAPACITY: f64 = 800.0;

/// What the closed loop makes.
const CEILING: f64 = 1_000.0;

/// Runs of 10 s over 64 connections, and no more.
fn settings() -> Settings {
    Settings {
        seed: 7,
        lengths: lengths(),
        connections: CONNECTIONS,
        ..Settings::default()
    }
}

const CONNECTIONS: Connections = Connections {
    first: 64,
    most: 64,
};

fn lengths() -> RunLengths {
    RunLengths {
        full_s: 10.0,
        ..RunLengths::default()
    }
}

/// Low rates in short runs too.
fn quick() -> Settings {
    let lengths = RunLengths {
        requests_min: 1.0,
        ..lengths()
    };
    Settings {
        lengths,
        ..settings()
    }
}

fn begin(settings: Settings) -> Search {
    Search::new(settings).expect("the settings are in range")
}

/// A run with this ln(share beyond the limit / allowed share).
fn measured(step: &PlannedStep, excess: f64) -> Measured {
    let reading = Reading {
        relative: excess.exp(),
        requests: 1_000.0 * step.duration_s,
    };
    Measured {
        readings: vec![reading],
        achieved: CEILING,
        generator_limited: false,
        disturbed: false,
        waited_for_connection: false,
        took_s: step.duration_s,
    }
}

fn limited(step: &PlannedStep) -> Measured {
    Measured {
        generator_limited: true,
        ..measured(step, f64::INFINITY)
    }
}

fn rate(step: &PlannedStep) -> f64 {
    match step.load {
        Load::Rate(rate) => rate,
        Load::ClosedLoop => panic!("{step:?} has no rate"),
    }
}

/// The excess of a well-behaved server, with noise of 2 % of the rate in the runs that are fitted.
fn excess(step: &PlannedStep) -> f64 {
    let noise = match step.phase {
        Phase::Measure if step.number.is_multiple_of(2) => 0.02,
        Phase::Measure => -0.02,
        _ => 0.0,
    };
    4.0 * ((rate(step) / CAPACITY).ln() + noise)
}

/// Answers until the search ends, or until it asks for a run that `stop` names.
fn advance(
    search: &mut Search,
    mut answer: impl FnMut(&PlannedStep) -> Measured,
    stop: impl Fn(&PlannedStep) -> bool,
) -> Option<PlannedStep> {
    while let Some(step) = search.next() {
        if stop(&step) {
            return Some(step);
        }
        let result = match step.phase {
            Phase::Ceiling => measured(&step, 0.0),
            _ => answer(&step),
        };
        search.record(step, result).expect("it was asked for");
    }
    None
}

/// Searches to the end; the steps and the outcome.
fn finish(
    settings: Settings,
    answer: impl FnMut(&PlannedStep) -> Measured,
) -> (Vec<PlannedStep>, Outcome) {
    let mut search = begin(settings);
    advance(&mut search, answer, |_| false);
    let steps = search.records().iter().map(|it| it.step).collect();
    (steps, search.outcome().expect("it has ended"))
}

fn well_behaved(step: &PlannedStep) -> Measured {
    measured(step, excess(step))
}

fn in_phase(steps: &[PlannedStep], phase: Phase) -> Vec<PlannedStep> {
    steps
        .iter()
        .filter(|it| it.phase == phase)
        .copied()
        .collect()
}

/// Expects that a search has found the capacity.
fn assert_found(outcome: &Outcome) {
    let is_found = match outcome {
        Outcome::Found { estimate, .. } => (estimate.rate / CAPACITY - 1.0).abs() < 0.02,
        _ => false,
    };
    assert!(is_found, "{outcome:?}");
}

fn rates(steps: &[PlannedStep]) -> Vec<f64> {
    steps.iter().map(rate).collect()
}

#[test]
fn a_search_has_a_ceiling_a_bracket_and_blocks() {
    let (steps, outcome) = finish(settings(), well_behaved);
    assert_found(&outcome);
    let mut phases: Vec<Phase> = steps.iter().map(|step| step.phase).collect();
    phases.dedup();
    assert_eq!(phases, [Phase::Ceiling, Phase::Bracket, Phase::Measure]);
    let numbers: Vec<usize> = steps.iter().map(|step| step.number).collect();
    assert_eq!(numbers, (1..=steps.len()).collect::<Vec<_>>());
    let Outcome::Found {
        estimate,
        runs,
        duration_s,
        runs_needed,
    } = outcome
    else {
        panic!("{outcome:?}");
    };
    assert!(estimate.low < estimate.rate && estimate.rate < estimate.high);
    assert!(estimate.high / estimate.low < 1.041, "{estimate:?}");
    assert!(
        estimate.low < CAPACITY && CAPACITY < estimate.high,
        "{estimate:?}"
    );
    assert!(runs >= 12, "{runs}");
    assert_eq!((duration_s, runs_needed), (10.0, None));
}

#[test]
fn slow_limits_and_rare_requests_make_runs_longer() {
    let lengths = RunLengths {
        latency_limit_s: 0.25,
        ..lengths()
    };
    assert_eq!((lengths.full_s(1e4), lengths.short_s(1e4)), (25.0, 5.0));
    assert_eq!((lengths.full_s(20.0), lengths.short_s(30.0)), (57.0, 10.0));
    let settings = Settings {
        lengths,
        budget_s: 1e4,
        ..settings()
    };
    let (steps, _) = finish(settings, well_behaved);
    let measured = in_phase(&steps, Phase::Measure);
    assert!(
        measured.iter().all(|step| step.duration_s == 25.0),
        "{steps:?}"
    );
}

#[test]
fn one_run_that_the_generator_spoiled_is_left_out() {
    let mut spoiled = 0;
    let (steps, outcome) = finish(settings(), |step| {
        let first = step.phase == Phase::Measure && spoiled == 0;
        spoiled += usize::from(first);
        if first {
            limited(step)
        } else {
            well_behaved(step)
        }
    });
    let Outcome::Found { runs, .. } = outcome else {
        panic!("{outcome:?}");
    };
    let all = in_phase(&steps, Phase::Measure).len() + in_phase(&steps, Phase::Bracket).len();
    assert!(runs < all, "{runs} of {all}");
}

#[test]
fn an_excess_that_is_not_a_number_counts_as_a_failure() {
    let (_, outcome) = finish(settings(), |step| {
        let runs_over = rate(step) > CAPACITY;
        measured(step, if runs_over { f64::NAN } else { -9.0 })
    });
    let Outcome::Found { estimate, .. } = outcome else {
        panic!("{outcome:?}");
    };
    assert!(
        estimate.low <= CAPACITY && CAPACITY <= estimate.high,
        "{estimate:?}"
    );
}

#[test]
fn three_disturbed_runs_in_a_row_end_a_search_and_a_check() {
    let disturbed = |step: &PlannedStep| Measured {
        disturbed: true,
        ..limited(step)
    };
    // From which run at a rate on the machine is disturbed, and what the server does.
    for from in [0, 1, 2, 5, 9] {
        let mut made = 0;
        let (steps, outcome) = finish(settings(), |step| {
            made += usize::from(step.phase != Phase::Ceiling);
            if made > from && step.phase != Phase::Ceiling {
                disturbed(step)
            } else {
                measured(step, if rate(step) > CAPACITY { 1.0 } else { -1.0 })
            }
        });
        match outcome {
            Outcome::Undecided(Why::Disturbed) => assert_eq!(from, 0),
            Outcome::AtLeast { rate, bound, .. } => {
                assert!(from > 0 && rate <= CAPACITY, "from {from}: {rate}");
                assert_eq!(bound, Bound::Generator);
            }
            other => panic!("from {from}: {other:?}"),
        }
        assert_eq!(steps.len(), 2 + from + 3, "from {from}");
    }
    // Two in a row, and three that are apart, do not end it.
    let mut made = 0;
    let (_, outcome) = finish(settings(), |step| {
        made += 1;
        match made % 4 {
            1 | 2 if step.phase != Phase::Ceiling => disturbed(step),
            _ => measured(step, if rate(step) > CAPACITY { 1.0 } else { -1.0 }),
        }
    });
    assert_ne!(outcome, Outcome::Undecided(Why::Disturbed));
    let mut check = check(9);
    while let Some(step) = check.next() {
        let _ = check.record(step, disturbed(&step));
    }
    assert_eq!(
        (check.outcome(), check.records().len()),
        (Some(Verdict::Undecided), 3)
    );
}

#[test]
fn disturbed_closed_loops_do_not_end_a_search() {
    let mut search = begin(settings());
    for achieved in [1_000.0, 1_300.0, 1_600.0, 1_900.0, 1_950.0] {
        let step = search.next().expect("it goes on");
        assert_eq!(step.phase, Phase::Ceiling);
        let result = Measured {
            achieved,
            disturbed: true,
            ..limited(&step)
        };
        search.record(step, result).expect("it was asked for");
    }
    assert_eq!(search.outcome(), None);
    assert_eq!(search.next().map(|step| step.phase), Some(Phase::Bracket));
}

#[test]
fn a_generator_that_makes_no_rate_leaves_it_undecided() {
    for settings in [quick(), settings()] {
        let (_, outcome) = finish(settings, limited);
        assert_eq!(outcome, Outcome::Undecided(Why::Generator));
    }
}

#[test]
fn a_server_that_fails_everything_is_not_even_good_for_the_lowest_rate() {
    for settings in [quick(), settings()] {
        let (steps, outcome) = finish(settings, |step| measured(step, 3.0));
        let lowest = rate(&steps[steps.len() - 1]);
        assert_eq!(outcome, Outcome::NotEven { rate: lowest });
        assert!(lowest < CEILING / 200.0, "{lowest}");
    }
}

#[test]
fn a_rate_that_only_a_spoiled_run_did_not_carry_is_no_bound() {
    // The server fails at 500, and the generator spoils everything below.
    let (_, outcome) = finish(quick(), |step| match rate(step) {
        500.0 => measured(step, 1.0),
        _ => limited(step),
    });
    assert_eq!(outcome, Outcome::NotEven { rate: 500.0 });
}

#[test]
fn a_closed_loop_without_a_good_response_ends_the_search() {
    for achieved in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::MAX, 1e-300] {
        let mut search = begin(settings());
        let step = search.next().expect("it begins");
        let result = Measured {
            achieved,
            ..measured(&step, 0.0)
        };
        search.record(step, result).expect("it was asked for");
        let expected = Some(Outcome::Undecided(Why::NoResponse));
        assert_eq!(search.outcome(), expected, "{achieved}");
        assert_eq!(search.next(), None);
    }
}

#[test]
fn runs_without_a_result_are_made_again_and_five_in_a_row_end_the_search() {
    let mut search = begin(settings());
    let late = |step: &PlannedStep| step.number == 15;
    advance(&mut search, well_behaved, late);
    let before = search.range();
    assert!(
        before.carried.is_some() && before.not_carried.is_some(),
        "{before:?}"
    );
    let lost = search.next().expect("it goes on");
    for _ in 0..5 {
        let step = search.next().expect("it goes on");
        assert_eq!(step.load, lost.load);
        search
            .record(step, Measured::lost(1.0))
            .expect("it was asked for");
    }
    assert_eq!(search.outcome(), Some(Outcome::Undecided(Why::Lost)));
    assert_eq!(search.range(), before);
}

#[test]
fn connections_are_doubled_while_they_limit_the_closed_loop() {
    let limit = |per_connection: f64, capacity: f64| {
        let settings = Settings {
            connections: Connections::default(),
            ..settings()
        };
        let mut search = begin(settings);
        let mut connections = Vec::new();
        while let Some(step) = search.next().filter(|step| step.phase == Phase::Ceiling) {
            connections.push(step.connections);
            let result = Measured {
                achieved: (per_connection * f64::from(step.connections)).min(capacity),
                ..measured(&step, 0.0)
            };
            search.record(step, result).expect("it was asked for");
        }
        (
            connections,
            search.next().expect("a bracket").connections,
            search.ceiling(),
        )
    };
    // A server that ten connections keep busy.
    assert_eq!(limit(1e3, 1e3), (vec![10, 20], 10, Some(1e3)));
    // 20 ms for each request, and 40 at a time.
    assert_eq!(limit(50.0, 2e3), (vec![10, 20, 40, 80], 40, Some(2e3)));
    // 20 ms for each request, however many: all connections are too few.
    assert_eq!(
        limit(50.0, 1e9),
        (vec![10, 20, 40, 80, 100, 100], 100, Some(5e3))
    );
}

#[test]
fn a_rate_that_all_connections_limit_is_not_the_servers() {
    // 20 ms for each request: 64 connections make 3,200/s.
    let (steps, outcome) = finish(settings(), |step| Measured {
        waited_for_connection: rate(step) > 0.95 * CEILING,
        ..measured(step, if rate(step) > CEILING { 3.0 } else { -9.0 })
    });
    let Outcome::AtLeast { rate, bound, .. } = outcome else {
        panic!("{outcome:?} {steps:?}");
    };
    assert_eq!(bound, Bound::Connections);
    assert!((0.85 * CEILING..=CEILING).contains(&rate), "{rate}");
}

#[test]
fn a_server_that_changes_while_it_is_measured_has_no_rate() {
    let mut at_s = 0.0;
    let (_, outcome) = finish(settings(), |step| {
        at_s += step.duration_s;
        // 0.2 % slower each second.
        let capacity = CAPACITY * (-0.002_f64 * at_s).exp();
        let noise = if step.number.is_multiple_of(2) {
            0.1
        } else {
            -0.1
        };
        measured(step, 10.0 * (rate(step) / capacity).ln() + noise)
    });
    let Outcome::Undecided(Why::Drift {
        ln_change, time_s, ..
    }) = outcome
    else {
        panic!("{outcome:?}");
    };
    let per_s = ln_change / time_s;
    assert!((-0.003..-0.001).contains(&per_s), "{per_s} per second");
}

#[test]
fn the_range_agrees_with_every_run() {
    let range_of = |runs: &[(f64, f64)]| {
        let mut search = begin(quick());
        let mut known: Vec<(f64, f64)> = Vec::new();
        let answer = |step: &PlannedStep| {
            let excess = runs.get(step.number - 2).map_or(0.0, |(_, excess)| *excess);
            known.push((rate(step), excess));
            measured(step, excess)
        };
        advance(&mut search, answer, |step| step.number == runs.len() + 2);
        (search.range(), known)
    };
    let (range, known) = range_of(&[(0.0, -1.0), (0.0, 1.0), (0.0, -1.0), (0.0, 1.0)]);
    for (rate, excess) in known {
        assert!(
            range
                .carried
                .is_none_or(|carried| excess < 0.0 || rate > carried)
        );
        assert!(
            range
                .not_carried
                .is_none_or(|failed| excess > 0.0 || rate < failed)
        );
    }
    assert_eq!(Range::default(), range_of(&[]).0);
}

#[test]
fn noise_takes_more_runs() {
    let noisy = |size: f64| {
        let mut random = fastrand::Rng::with_seed(3);
        let settings = Settings {
            budget_s: 1e5,
            ..settings()
        };
        let (steps, _) = finish(settings, |step| {
            let noise = size * (random.f64() - 0.5);
            measured(step, 4.0 * ((rate(step) / CAPACITY).ln() + noise))
        });
        in_phase(&steps, Phase::Measure).len()
    };
    let (few, many) = (noisy(0.02), noisy(0.5));
    assert!(many > 2 * few, "{few}, {many}");
}

#[test]
fn an_empty_budget_says_what_it_would_take() {
    let mut random = fastrand::Rng::with_seed(3);
    let settings = Settings {
        budget_s: 250.0,
        ..settings()
    };
    let mut search = begin(settings);
    let noisy = |step: &PlannedStep| {
        let noise = 0.3 * (random.f64() - 0.5);
        measured(step, 4.0 * ((rate(step) / CAPACITY).ln() + noise))
    };
    advance(&mut search, noisy, |_| false);
    assert!(search.spent_s() <= 250.0 && search.spent_s() > 235.0);
    let Some(Outcome::Found {
        estimate,
        runs_needed,
        ..
    }) = search.outcome()
    else {
        panic!("{:?}", search.outcome());
    };
    assert!(
        estimate.low < CAPACITY && CAPACITY < estimate.high,
        "{estimate:?}"
    );
    let curve = search.curve().expect("there are runs");
    assert!(curve.excess_at(estimate.rate).abs() < 1e-6);
    assert!(curve.excess_at(estimate.high) > 0.0 && curve.excess_at(estimate.low) < 0.0);
    assert!(
        (5..500).contains(&runs_needed.expect("it is not as exact as asked for")),
        "{runs_needed:?}"
    );
}

#[test]
fn a_budget_that_ends_in_the_bracket_leaves_no_end_that_is_not_known() {
    for budget_s in [12.0, 20.0, 30.0] {
        let settings = Settings {
            budget_s,
            ..settings()
        };
        let mut search = begin(settings);
        advance(&mut search, well_behaved, |_| false);
        assert_eq!(search.outcome(), Some(Outcome::Undecided(Why::Budget)));
        let range = search.range();
        assert!(range.carried.is_none_or(|it| it < CAPACITY), "{range:?}");
        assert!(
            range.not_carried.is_none_or(|it| it > CAPACITY),
            "{range:?}"
        );
    }
}

#[test]
fn the_condition_that_fails_first_counts() {
    let (_, outcome) = finish(settings(), |step| {
        let latency = measured(step, excess(step));
        let others = [4.0 * (rate(step) / 1_200.0).ln(), f64::NEG_INFINITY];
        let others = others.map(|excess| measured(step, excess).readings[0]);
        let readings = [&others[..], &latency.readings].concat();
        Measured {
            readings,
            ..latency
        }
    });
    assert_found(&outcome);
}

#[test]
fn whatever_is_measured_the_search_ends_and_asks_for_sensible_runs() {
    let odd = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        1e308,
        -1e308,
        1e-308,
    ];
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut search = begin(Settings { seed, ..settings() });
        while let Some(step) = search.next() {
            assert!(
                step.duration_s >= 2.0 && step.duration_s.is_finite(),
                "{step:?}"
            );
            if step.phase != Phase::Ceiling {
                let rate = rate(&step);
                assert!(rate > 0.0 && rate.is_finite(), "{step:?}");
            }
            let mut any = || odd[random.usize(..odd.len())];
            let readings = (0..2).map(|_| Reading {
                relative: any(),
                requests: any(),
            });
            let result = Measured {
                readings: readings.collect(),
                achieved: if step.phase == Phase::Ceiling {
                    CEILING
                } else {
                    any()
                },
                took_s: any().min(1.0),
                generator_limited: random.u8(..4) == 0,
                disturbed: random.u8(..8) == 0,
                waited_for_connection: random.u8(..4) == 0,
            };
            search.record(step, result).expect("it was asked for");
        }
        assert!(search.records().len() < 300);
        if let Some(Outcome::Found { estimate, .. }) = search.outcome() {
            assert!(
                estimate.low > 0.0 && estimate.high.is_finite(),
                "{estimate:?}"
            );
            assert!(estimate.low <= estimate.rate && estimate.rate <= estimate.high);
        }
    }
}

#[test]
fn short_runs_show_where_the_rate_is_and_long_ones_are_near_it() {
    let mut search = begin(settings());
    let cliff = |step: &PlannedStep| measured(step, if rate(step) > CAPACITY { 5.0 } else { -9.0 });
    advance(&mut search, cliff, |_| false);
    let steps: Vec<PlannedStep> = search.records().iter().map(|it| it.step).collect();
    let bracket = in_phase(&steps, Phase::Bracket);
    assert_eq!(rate(&bracket[0]), 500.0);
    assert!(
        bracket.iter().all(|step| step.duration_s == 3.0),
        "{bracket:?}"
    );
    let counting = in_phase(&steps, Phase::Measure);
    assert!(
        counting.iter().all(|step| step.duration_s == 10.0),
        "{counting:?}"
    );
    let Some(Outcome::Found { estimate, .. }) = search.outcome() else {
        panic!("{:?}", search.outcome());
    };
    let ends = estimate.low..=estimate.high;
    assert!(ends.contains(&CAPACITY), "{estimate:?}");
    assert!(estimate.high / estimate.low < 1.05, "{estimate:?}");
}

#[test]
fn blocks_are_shuffled_by_the_seed() {
    let order = |seed| {
        let (steps, _) = finish(Settings { seed, ..settings() }, well_behaved);
        rates(&in_phase(&steps, Phase::Measure)[..4])
    };
    assert_eq!(order(1), order(1));
    assert!((2..12).any(|seed| order(seed) != order(1)));
}

#[test]
fn a_server_that_holds_everything_holds_at_least_the_top() {
    let (_, outcome) = finish(settings(), |step| measured(step, -0.1));
    assert_eq!(
        outcome,
        Outcome::AtLeast {
            rate: 1.25 * CEILING,
            bound: Bound::Ceiling,
            confirmed: Votes {
                held: 3,
                ..Votes::default()
            },
        }
    );
}

#[test]
fn a_generator_at_its_limit_ends_with_the_rate_that_it_made() {
    let (steps, outcome) = finish(settings(), |step| {
        if rate(step) > 700.0 {
            limited(step)
        } else {
            measured(step, -0.5)
        }
    });
    let Outcome::AtLeast {
        rate: found,
        bound,
        confirmed,
    } = outcome
    else {
        panic!("{outcome:?}");
    };
    assert_eq!((bound, confirmed.held), (Bound::Generator, 3));
    assert!((625.0..=700.0).contains(&found), "{found}");
    assert!(
        in_phase(&steps, Phase::Confirm)
            .iter()
            .all(|it| rate(it) == found)
    );
}

#[test]
fn conditions_that_fail_below_the_generators_limit_are_found_nevertheless() {
    let (_, outcome) = finish(settings(), |step| {
        if rate(step) > 1_000.0 {
            limited(step)
        } else {
            well_behaved(step)
        }
    });
    assert_found(&outcome);
}

#[test]
fn a_generator_that_reaches_its_limit_while_measuring_ends_with_at_least() {
    let (_, outcome) = finish(settings(), |step| match step.phase {
        Phase::Measure if rate(step) > 790.0 => limited(step),
        _ => well_behaved(step),
    });
    let Outcome::AtLeast { rate, bound, .. } = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(bound, Bound::Generator);
    assert!((700.0..790.0).contains(&rate), "{rate}");
}

#[test]
fn one_block_that_the_generator_spoiled_is_made_again() {
    let mut count = 0;
    let (_, outcome) = finish(settings(), |step| {
        count += usize::from(step.phase == Phase::Measure);
        match step.phase {
            Phase::Measure if count <= 4 => limited(step),
            _ => well_behaved(step),
        }
    });
    assert!(matches!(outcome, Outcome::Found { .. }), "{outcome:?}");
}

#[test]
fn a_short_run_that_the_generator_spoiled_is_made_again() {
    let mut is_spoiled = false;
    let (steps, outcome) = finish(settings(), |step| {
        let spoils = step.phase == Phase::Bracket && !is_spoiled;
        is_spoiled |= spoils;
        if spoils {
            limited(step)
        } else {
            well_behaved(step)
        }
    });
    assert!(matches!(outcome, Outcome::Found { .. }), "{outcome:?}");
    assert_eq!(rate(&steps[2]), rate(&steps[3]));
}

#[test]
fn runs_that_the_generator_spoiled_now_and_then_are_not_its_limit() {
    let mut count = 0;
    let (_, outcome) = finish(settings(), |step| {
        count += usize::from(step.phase == Phase::Measure);
        // The first of each block.
        if step.phase == Phase::Measure && count % 4 == 1 {
            limited(step)
        } else {
            well_behaved(step)
        }
    });
    assert!(matches!(outcome, Outcome::Found { .. }), "{outcome:?}");
}

#[test]
fn a_server_that_became_much_faster_is_followed_to_the_top() {
    let (_, outcome) = finish(settings(), |step| match step.phase {
        Phase::Bracket => well_behaved(step),
        _ => measured(step, -0.3),
    });
    let Outcome::AtLeast { rate, bound, .. } = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(bound, Bound::Ceiling);
    assert!(rate > CEILING, "{rate}");
}

#[test]
fn a_top_that_is_refuted_is_searched_below() {
    let settings = Settings {
        budget_s: 1e4,
        ..settings()
    };
    let (steps, outcome) = finish(settings, |step| match step.number {
        // At first, the server carries everything.
        ..=6 => measured(step, -9.0),
        _ => well_behaved(step),
    });
    assert_found(&outcome);
    let top = Load::Rate(1.25 * CEILING);
    assert!(steps.iter().any(|step| step.load == top), "{steps:?}");
}

#[test]
fn runs_take_what_they_took_from_the_budget_and_lost_ones_at_least_their_duration() {
    let mut search = begin(settings());
    let step = search.next().expect("it begins");
    let result = search.record(step, Measured::lost(0.5));
    result.expect("it was asked for");
    assert_eq!(search.spent_s(), 2.0);
    for (took_s, spent_s) in [
        (9.5, 9.5),
        (0.5, 0.5),
        (0.0, 2.0),
        (-3.0, 2.0),
        (f64::NAN, 2.0),
        (f64::INFINITY, 2.0),
        (f64::NEG_INFINITY, 2.0),
    ] {
        let mut search = begin(settings());
        let step = search.next().expect("it begins");
        let result = Measured {
            took_s,
            ..measured(&step, 0.0)
        };
        search.record(step, result).expect("it was asked for");
        assert_eq!(search.spent_s(), spent_s, "{took_s}");
    }
}

#[test]
fn the_same_records_give_the_same_steps() {
    let (steps, outcome) = finish(settings(), well_behaved);
    for stop in [1, 4, 9, 14, steps.len() - 1] {
        let mut before = begin(settings());
        advance(&mut before, well_behaved, |step| step.number > stop);
        let mut after = begin(settings());
        for record in before.records() {
            after
                .record(record.step, record.measured.clone())
                .expect("it was asked for");
        }
        assert_eq!(after.next(), Some(steps[stop]));
        advance(&mut after, well_behaved, |_| false);
        assert_eq!(after.outcome(), Some(outcome));
    }
}

#[test]
fn a_record_of_other_settings_is_refused() {
    let (steps, _) = finish(settings(), well_behaved);
    let mut other = begin(Settings {
        seed: 8,
        ..settings()
    });
    let refused = steps.iter().find_map(|step| {
        let result = match step.phase {
            Phase::Ceiling => measured(step, 0.0),
            _ => well_behaved(step),
        };
        other.record(*step, result).err()
    });
    let error = refused.expect("another seed has another order");
    assert_eq!(
        error.to_string(),
        format!(
            "run {} is not the one that these settings lead to; start again without it",
            error.number
        )
    );
    assert_eq!(other.records().len() + 1, error.number);
    let mut ended = begin(settings());
    advance(&mut ended, well_behaved, |_| false);
    assert!(ended.record(steps[0], measured(&steps[0], 0.0)).is_err());
}

#[test]
fn ceilings_of_any_size_have_a_search() {
    for ceiling in [1e-4, 1e-2, 1.0, 7e6, 5e8] {
        let settings = Settings {
            budget_s: 1e7,
            ..settings()
        };
        let mut search = begin(settings);
        while let Some(step) = search.next() {
            let excess = match step.load {
                Load::Rate(rate) => 4.0 * (rate / (ceiling * 0.8)).ln(),
                Load::ClosedLoop => 0.0,
            };
            let result = Measured {
                achieved: ceiling,
                ..measured(&step, excess)
            };
            search.record(step, result).expect("it was asked for");
        }
        match search.outcome() {
            Some(Outcome::Found { estimate, .. }) => {
                assert!(
                    (estimate.rate / (ceiling * 0.8) - 1.0).abs() < 0.02,
                    "{estimate:?}"
                );
            }
            // A thousand requests take too long.
            outcome => assert!(
                ceiling < 1.0 && matches!(outcome, Some(Outcome::Undecided { .. })),
                "{ceiling}: {outcome:?}"
            ),
        }
    }
}

#[test]
fn settings_out_of_range_are_refused() {
    let refused = |settings| Search::new(settings).expect_err("out of range").to_string();
    let precise = |precision| {
        refused(Settings {
            precision,
            ..settings()
        })
    };
    assert_eq!(
        precise(0.0),
        "the precision is 0 (expected a number between 0 and 1)"
    );
    assert_eq!(
        precise(f64::NAN),
        "the precision is NaN (expected a number between 0 and 1)"
    );
    let budget = |budget_s| {
        refused(Settings {
            budget_s,
            ..settings()
        })
    };
    assert_eq!(
        budget(-1.0),
        "the budget is -1 (expected a positive number)"
    );
    assert_eq!(
        budget(f64::INFINITY),
        "the budget is inf (expected a positive number)"
    );
    let lengths = |lengths| {
        refused(Settings {
            lengths,
            ..settings()
        })
    };
    let usual = RunLengths::default();
    for wrong in [
        RunLengths {
            full_s: 0.0,
            ..usual
        },
        RunLengths {
            short_s: f64::NAN,
            ..usual
        },
        RunLengths {
            latency_limit_s: -1.0,
            ..usual
        },
        RunLengths {
            requests_min: f64::INFINITY,
            ..usual
        },
    ] {
        lengths(wrong);
    }
}

fn check(runs_max: usize) -> Check {
    let settings = CheckSettings {
        rate: 800.0,
        lengths: lengths(),
        connections: CONNECTIONS,
        runs_max,
    };
    Check::new(settings).expect("the settings are in range")
}

/// The verdict on runs with these excesses, and how many it took.
fn verdict(runs_max: usize, excesses: &[f64]) -> (Option<Verdict>, usize) {
    let mut check = check(runs_max);
    for excess in excesses {
        let Some(step) = check.next() else { break };
        assert_eq!((step.load, step.duration_s), (Load::Rate(800.0), 10.0));
        check
            .record(step, measured(&step, *excess))
            .expect("it was asked for");
    }
    (check.outcome(), check.votes().runs())
}

#[test]
fn three_unanimous_runs_judge_a_rate() {
    let (held, failed) = (-0.1, 0.1);
    assert_eq!(verdict(15, &[held; 9]), (Some(Verdict::Carried), 3));
    assert_eq!(verdict(15, &[failed; 9]), (Some(Verdict::NotCarried), 3));
    assert_eq!(verdict(15, &[f64::NAN; 9]), (Some(Verdict::NotCarried), 3));
    assert_eq!(verdict(15, &[0.0; 9]), (Some(Verdict::Carried), 3));
    assert_eq!(verdict(15, &[held, held]), (None, 2));
    let split = [held, failed, held, held, held, held];
    assert_eq!(verdict(15, &split), (Some(Verdict::Carried), 5));
    let even = [held, failed].repeat(9);
    assert_eq!(verdict(7, &even), (Some(Verdict::Undecided), 7));
}

#[test]
fn a_check_does_not_blame_the_server_for_the_generator() {
    let mut check = check(5);
    while let Some(step) = check.next() {
        check
            .record(step, limited(&step))
            .expect("it was asked for");
    }
    assert_eq!(check.outcome(), Some(Verdict::Undecided));
    assert_eq!(check.votes().generator_limited, 5);
    assert_eq!(check.records().len(), 5);
}

#[test]
fn a_check_gets_more_connections_before_it_blames_the_server() {
    let connections = Connections {
        first: 10,
        most: 100,
    };
    let settings = CheckSettings {
        rate: 800.0,
        lengths: lengths(),
        connections,
        runs_max: 15,
    };
    for (needed, expected) in [(50, Verdict::Carried), (500, Verdict::NotCarried)] {
        let mut check = Check::new(settings).expect("the settings are in range");
        let mut used = Vec::new();
        while let Some(step) = check.next() {
            used.push(step.connections);
            let is_short = step.connections < needed;
            let result = Measured {
                waited_for_connection: is_short,
                ..measured(&step, if is_short { 2.0 } else { -2.0 })
            };
            check.record(step, result).expect("it was asked for");
        }
        assert_eq!(used, [10, 100, 100, 100]);
        assert_eq!(check.outcome(), Some(expected));
    }
}

#[test]
fn a_check_errs_in_at_most_one_of_twenty() {
    let mut random = fastrand::Rng::with_seed(5);
    let (mut wrong, mut undecided) = (0, 0);
    for _ in 0..4_000 {
        let mut check = check(15);
        while let Some(step) = check.next() {
            let excess = if random.f64() < 0.8 { -0.1 } else { 0.1 };
            check
                .record(step, measured(&step, excess))
                .expect("it was asked for");
        }
        wrong += usize::from(check.outcome() == Some(Verdict::NotCarried));
        undecided += usize::from(check.outcome() == Some(Verdict::Undecided));
    }
    assert!(wrong < 200 && wrong > 0, "{wrong}");
    assert!(undecided < 40, "{undecided}");
}

#[test]
fn a_check_refuses_a_rate_or_a_number_of_runs_that_decides_nothing() {
    let refused = |rate, runs_max| {
        let lengths = RunLengths::default();
        Check::new(CheckSettings {
            rate,
            lengths,
            connections: CONNECTIONS,
            runs_max,
        })
        .expect_err("out of range")
        .to_string()
    };
    assert_eq!(
        refused(0.0, 15),
        "the rate is 0 (expected a positive number)"
    );
    assert_eq!(
        refused(1.0, 2),
        "the largest number of runs is 2 (expected at least 3)"
    );
    let mut check = check(15);
    let step = check.next().expect("it begins");
    let other = PlannedStep { number: 2, ..step };
    assert!(check.record(other, measured(&step, 0.0)).is_err());
}
