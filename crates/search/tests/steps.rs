//! A search and a check step by step: what is asked for next, and how it ends.

use search::{
    Bound, Check, CheckSettings, Load, Measured, Outcome, Phase, RunLengths, Search, Settings,
    Step, Verdict, Votes,
};

/// A server that meets the conditions up to this rate, and the excess of which rises with the rate.
const CAPACITY: f64 = 800.0;

/// What the closed loop makes.
const CEILING: f64 = 1_000.0;

fn settings() -> Settings {
    Settings {
        seed: 7,
        ..Settings::default()
    }
}

/// Low rates in short runs too.
fn quick() -> Settings {
    let lengths = RunLengths {
        requests_min: 1.0,
        ..RunLengths::default()
    };
    Settings {
        lengths,
        ..settings()
    }
}

fn begin(settings: Settings) -> Search {
    Search::new(settings).expect("the settings are in range")
}

fn measured(step: &Step, excess: f64) -> Measured {
    Measured {
        excess,
        achieved: CEILING,
        generator_limited: false,
        took_s: step.duration_s,
    }
}

fn limited(step: &Step) -> Measured {
    Measured {
        generator_limited: true,
        ..measured(step, f64::INFINITY)
    }
}

fn rate(step: &Step) -> f64 {
    match step.load {
        Load::Rate(rate) => rate,
        Load::ClosedLoop => panic!("{step:?} has no rate"),
    }
}

/// The excess of a well-behaved server, with noise of 2 % of the rate in the runs that are fitted.
fn excess(step: &Step) -> f64 {
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
    mut answer: impl FnMut(&Step) -> Measured,
    stop: impl Fn(&Step) -> bool,
) -> Option<Step> {
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
fn finish(settings: Settings, answer: impl FnMut(&Step) -> Measured) -> (Vec<Step>, Outcome) {
    let mut search = begin(settings);
    advance(&mut search, answer, |_| false);
    let steps = search.records().iter().map(|it| it.step).collect();
    (steps, search.outcome().expect("it has ended"))
}

fn well_behaved(step: &Step) -> Measured {
    measured(step, excess(step))
}

fn in_phase(steps: &[Step], phase: Phase) -> Vec<Step> {
    steps
        .iter()
        .filter(|it| it.phase == phase)
        .copied()
        .collect()
}

fn rates(steps: &[Step]) -> Vec<f64> {
    steps.iter().map(rate).collect()
}

#[test]
fn a_search_has_a_ceiling_a_bracket_blocks_and_confirmations() {
    let (steps, outcome) = finish(settings(), well_behaved);
    let mut phases: Vec<Phase> = steps.iter().map(|step| step.phase).collect();
    phases.dedup();
    let expected = [
        Phase::Ceiling,
        Phase::Bracket,
        Phase::Measure,
        Phase::Confirm,
    ];
    assert_eq!(phases, expected);
    assert_eq!(in_phase(&steps, Phase::Measure).len(), 20);
    assert_eq!(in_phase(&steps, Phase::Confirm).len(), 3);
    let numbers: Vec<usize> = steps.iter().map(|step| step.number).collect();
    assert_eq!(numbers, (1..=steps.len()).collect::<Vec<_>>());
    let Outcome::Found {
        estimate,
        runs,
        duration_s,
        confirmed,
    } = outcome
    else {
        panic!("{outcome:?}");
    };
    assert!(
        (estimate.rate / CAPACITY - 1.0).abs() < 0.02,
        "{estimate:?}"
    );
    assert!(estimate.low < estimate.rate && estimate.rate < estimate.high);
    assert!(estimate.high / estimate.low < 1.041, "{estimate:?}");
    assert!(
        estimate.low < CAPACITY && CAPACITY < estimate.high,
        "{estimate:?}"
    );
    assert_eq!((runs, duration_s), (20, 10.0));
    assert_eq!((confirmed.held, confirmed.runs()), (3, 3));
}

#[test]
fn the_bracket_bisects_in_short_runs_from_half_the_ceiling() {
    let (steps, _) = finish(settings(), well_behaved);
    let bracket = in_phase(&steps, Phase::Bracket);
    // To the top, down again, and so on: geometric means, with four digits.
    assert_eq!(rates(&bracket), [500.0, 790.6, 994.1, 886.5, 837.2]);
    assert!(
        bracket.iter().all(|step| step.duration_s == 3.0),
        "{bracket:?}"
    );
    let first = in_phase(&steps, Phase::Measure)[..4].to_vec();
    let mut around = rates(&first);
    around.sort_by(f64::total_cmp);
    let middle = (790.6_f64 * 837.2).sqrt();
    assert!(around[1] < middle && middle < around[2], "{around:?}");
    assert!(around[0] > 700.0 && around[3] < 950.0, "{around:?}");
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
fn slow_limits_and_rare_requests_make_runs_longer() {
    let lengths = RunLengths {
        latency_limit_s: 0.25,
        ..RunLengths::default()
    };
    assert_eq!((lengths.full_s(1e4), lengths.short_s(1e4)), (25.0, 25.0));
    assert_eq!((lengths.full_s(20.0), lengths.short_s(30.0)), (57.0, 38.0));
    let settings = Settings {
        lengths,
        budget_s: 1e4,
        ..settings()
    };
    let (steps, _) = finish(settings, well_behaved);
    assert!(
        steps[1..].iter().all(|step| step.duration_s == 25.0),
        "{steps:?}"
    );
}

#[test]
fn a_server_that_holds_everything_holds_at_least_the_top() {
    let (steps, outcome) = finish(settings(), |step| measured(step, -0.1));
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
    assert!(in_phase(&steps, Phase::Measure).is_empty());
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
    let Outcome::Found { estimate, .. } = outcome else {
        panic!("{outcome:?}");
    };
    assert!(
        (estimate.rate / CAPACITY - 1.0).abs() < 0.02,
        "{estimate:?}"
    );
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
    // 19 are too few, so that there is a sixth block. Runs far away are not fitted.
    assert_eq!(in_phase(&steps, Phase::Measure).len(), 24);
    assert!((20..=23).contains(&runs), "{runs}");
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
        match spoils {
            true => limited(step),
            false => well_behaved(step),
        }
    });
    assert!(matches!(outcome, Outcome::Found { .. }), "{outcome:?}");
    assert_eq!(rate(&steps[1]), rate(&steps[2]));
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
fn where_a_limited_generator_and_the_server_both_fail_is_measured_below() {
    let mut search = begin(settings());
    let answer = |step: &Step| match step.phase {
        Phase::Measure => limited(step),
        Phase::Confirm => measured(step, 0.1),
        _ => well_behaved(step),
    };
    let first = advance(&mut search, answer, |step| step.phase == Phase::Confirm);
    let refuted = rate(&first.expect("two limited blocks lead to a confirmation"));
    advance(&mut search, answer, |step| step.phase == Phase::Measure);
    advance(&mut search, answer, |step| step.phase == Phase::Confirm);
    let runs = search
        .records()
        .iter()
        .map(|it| it.step)
        .collect::<Vec<_>>();
    let block = rates(&runs[runs.len() - 4..]);
    let middle = block.iter().map(|rate| rate.ln()).sum::<f64>() / 4.0;
    assert!((middle - refuted.ln()).abs() < 1e-3, "{refuted}: {block:?}");
}

#[test]
fn an_excess_that_is_not_a_number_counts_as_a_failure() {
    let (_, outcome) = finish(settings(), |step| {
        let runs_over = rate(step) > CAPACITY;
        measured(
            step,
            if runs_over {
                f64::NAN
            } else {
                f64::NEG_INFINITY
            },
        )
    });
    let Outcome::Found { estimate, .. } = outcome else {
        panic!("{outcome:?}");
    };
    assert!(
        (estimate.rate / CAPACITY - 1.0).abs() < 0.02,
        "{estimate:?}"
    );
}

#[test]
fn a_generator_that_makes_no_rate_leaves_it_undecided() {
    let (steps, outcome) = finish(quick(), limited);
    assert!(rate(&steps[steps.len() - 1]) < 1.0);
    let Outcome::Undecided {
        estimate,
        carried,
        not_carried,
        ..
    } = outcome
    else {
        panic!("{outcome:?}");
    };
    assert_eq!((estimate, carried, not_carried), (None, None, None));
}

#[test]
fn a_server_that_fails_everything_is_not_even_good_for_the_lowest_rate() {
    for settings in [quick(), settings()] {
        let (steps, outcome) = finish(settings, |step| Measured::failed(step.duration_s));
        let lowest = rate(&steps[steps.len() - 1]);
        assert_eq!(outcome, Outcome::NotEven { rate: lowest });
        // The budget ends sooner if a run needs a thousand requests.
        let expected = if settings == quick() { 2_000.0 } else { 200.0 };
        assert!(lowest < CEILING / expected, "{lowest}");
    }
}

#[test]
fn a_closed_loop_without_a_response_ends_the_search() {
    for achieved in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::MAX, 1e-300] {
        let mut search = begin(settings());
        let step = search.next().expect("it begins");
        let result = Measured {
            achieved,
            ..measured(&step, 0.0)
        };
        search.record(step, result).expect("it was asked for");
        assert_eq!(search.outcome(), Some(Outcome::NoResponse), "{achieved}");
        assert_eq!(search.next(), None);
    }
}

#[test]
fn without_a_rise_the_block_moves_by_one_span() {
    for (excess, moves_up) in [(-0.3, true), (0.3, false)] {
        let mut search = begin(settings());
        // The bracket is found at the capacity, but then the server is another.
        let answer = |step: &Step| match step.phase {
            Phase::Measure => measured(step, excess),
            _ => well_behaved(step),
        };
        advance(&mut search, answer, |step| step.number == 15);
        let measured: Vec<f64> = search.records()[6..14]
            .iter()
            .map(|it| rate(&it.step))
            .collect();
        let middle = |block: &[f64]| block.iter().map(|rate| rate.ln()).sum::<f64>() / 4.0;
        let moved = middle(&measured[4..]) - middle(&measured[..4]);
        assert!((moved.abs() - 0.06).abs() < 1e-3, "{moved}");
        assert_eq!(moved > 0.0, moves_up);
    }
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
fn confirmations_that_fail_count_as_runs_and_the_search_goes_on() {
    let mut failed = 0;
    let (steps, outcome) = finish(settings(), |step| {
        let fails = step.phase == Phase::Confirm && failed < 2;
        failed += usize::from(fails);
        if fails {
            measured(step, 0.02)
        } else {
            well_behaved(step)
        }
    });
    let order: Vec<Phase> = steps[26..].iter().map(|step| step.phase).collect();
    // Two failures are enough to refute.
    assert_eq!(order[..3], [Phase::Confirm, Phase::Confirm, Phase::Measure]);
    let Outcome::Found {
        runs, confirmed, ..
    } = outcome
    else {
        panic!("{outcome:?}");
    };
    let measured = in_phase(&steps, Phase::Measure).len();
    assert_eq!(runs, measured + 2);
    assert!(confirmed.held >= 2, "{confirmed:?}");
}

#[test]
fn one_failed_confirmation_of_three_is_outvoted() {
    let mut failed = 0;
    let (steps, outcome) = finish(settings(), |step| {
        let fails = step.phase == Phase::Confirm && failed == 0;
        failed += usize::from(fails);
        if fails {
            measured(step, 0.5)
        } else {
            well_behaved(step)
        }
    });
    let Outcome::Found { confirmed, .. } = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!((confirmed.held, confirmed.failed), (2, 1));
    assert_eq!(in_phase(&steps, Phase::Confirm).len(), 3);
}

#[test]
fn a_top_that_is_refuted_is_searched_below() {
    let (steps, outcome) = finish(
        Settings {
            budget_s: 1e4,
            ..settings()
        },
        |step| match step.phase {
            Phase::Bracket => measured(step, -0.1),
            _ => well_behaved(step),
        },
    );
    let Outcome::Found { estimate, .. } = outcome else {
        panic!("{outcome:?}");
    };
    let refuted = steps
        .iter()
        .rposition(|it| it.phase == Phase::Confirm && rate(it) == 1_250.0);
    let next = steps[refuted.expect("the top is confirmed") + 1];
    assert_eq!((next.phase, next.load), (Phase::Bracket, Load::Rate(625.0)));
    assert!(
        (estimate.rate / CAPACITY - 1.0).abs() < 0.02,
        "{estimate:?}"
    );
}

#[test]
fn noise_makes_blocks_wider_and_takes_more_runs() {
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
        let runs = rates(&in_phase(&steps, Phase::Measure));
        let last = &runs[runs.len() - 4..];
        let highest = last.iter().copied().fold(0.0, f64::max);
        let lowest = last.iter().copied().fold(f64::MAX, f64::min);
        (runs.len(), highest / lowest)
    };
    let (few, narrow) = noisy(0.02);
    let (many, wide) = noisy(0.3);
    assert!(many > 2 * few, "{few}, {many}");
    assert!(wide > 1.15 && narrow < 1.07, "{narrow}, {wide}");
}

#[test]
fn an_empty_budget_says_what_it_would_take() {
    let mut random = fastrand::Rng::with_seed(3);
    let settings = Settings {
        budget_s: 250.0,
        ..settings()
    };
    let mut search = begin(settings);
    let noisy = |step: &Step| {
        let noise = 0.3 * (random.f64() - 0.5);
        measured(step, 4.0 * ((rate(step) / CAPACITY).ln() + noise))
    };
    advance(&mut search, noisy, |_| false);
    assert!(search.spent_s() <= 250.0 && search.spent_s() > 235.0);
    let Some(Outcome::Undecided {
        estimate,
        carried,
        not_carried,
        spread,
        runs_needed,
    }) = search.outcome()
    else {
        panic!("{:?}", search.outcome());
    };
    let estimate = estimate.expect("20 runs make an interval");
    assert!(
        estimate.low < CAPACITY && CAPACITY < estimate.high,
        "{estimate:?}"
    );
    assert!(carried < Some(CAPACITY * 1.2) && not_carried > Some(CAPACITY * 0.8));
    let curve = search.curve().expect("there are runs");
    assert!(curve.excess_at(estimate.rate).abs() < 1e-9);
    assert!(curve.excess_at(estimate.high) > 0.0 && curve.excess_at(estimate.low) < 0.0);
    // A uniform distribution of width 0.3 has a standard deviation of 0.087.
    assert!(
        (0.05..0.13).contains(&spread.expect("it rises")),
        "{spread:?}"
    );
    assert!(
        (20..200).contains(&runs_needed.expect("it rises")),
        "{runs_needed:?}"
    );
}

#[test]
fn a_budget_that_ends_in_the_bracket_leaves_the_bracket() {
    let settings = Settings {
        budget_s: 12.0,
        ..settings()
    };
    let (steps, outcome) = finish(settings, well_behaved);
    assert_eq!(steps.len(), 3);
    assert_eq!(
        outcome,
        Outcome::Undecided {
            estimate: None,
            carried: Some(790.6),
            not_carried: None,
            spread: None,
            runs_needed: None,
        }
    );
}

#[test]
fn a_budget_that_ends_in_the_confirmation_keeps_what_was_found() {
    let (steps, _) = finish(settings(), well_behaved);
    let all: f64 = steps.iter().map(|step| step.duration_s).sum();
    let settings = Settings {
        budget_s: all - 1.0,
        ..settings()
    };
    let (_, outcome) = finish(settings, well_behaved);
    assert!(
        matches!(outcome, Outcome::Found { confirmed, .. } if confirmed.runs() == 2),
        "{outcome:?}"
    );
}

#[test]
fn runs_take_what_they_took_from_the_budget_and_at_least_their_duration() {
    for (took_s, spent_s) in [
        (9.5, 9.5),
        (0.0, 5.0),
        (-3.0, 5.0),
        (f64::NAN, 5.0),
        (f64::INFINITY, 5.0),
        (f64::NEG_INFINITY, 5.0),
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
    for stop in [1, 4, 9, 20, steps.len() - 1] {
        let mut before = begin(settings());
        advance(&mut before, well_behaved, |step| step.number > stop);
        let mut after = begin(settings());
        for record in before.records() {
            after
                .record(record.step, record.measured)
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
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut search = begin(Settings { seed, ..settings() });
        while let Some(step) = search.next() {
            assert!(
                step.duration_s >= 3.0 && step.duration_s.is_finite(),
                "{step:?}"
            );
            if step.phase != Phase::Ceiling {
                let rate = rate(&step);
                assert!(rate > 0.0 && rate.is_finite(), "{step:?}");
            }
            let mut any = || odd[random.usize(..odd.len())];
            let result = Measured {
                excess: any(),
                achieved: if step.phase == Phase::Ceiling {
                    CEILING
                } else {
                    any()
                },
                took_s: any().min(1.0),
                generator_limited: random.u8(..4) == 0,
            };
            search.record(step, result).expect("it was asked for");
        }
        assert!(search.records().len() < 200);
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
                    (estimate.rate / (ceiling * 0.8) - 1.0).abs() < 0.01,
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
        lengths: RunLengths::default(),
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
    let other = Step { number: 2, ..step };
    assert!(check.record(other, measured(&step, 0.0)).is_err());
}
