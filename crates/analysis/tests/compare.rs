//! Comparisons of synthetic runs, whose correct outcome is known.

use analysis::compare::{
    Caveat, ChangeLimit, ClampedLevels, CompareError, CompareOptions, Conclusions, Metric, Named,
    Outcome, Validity, compare, compare_cells, compare_with_base,
};
use analysis::{Observation, TrialFacts};
use results::Setting;

/// Normally distributed noise from a fixed seed.
struct Noise(fastrand::Rng);

impl Noise {
    fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    fn draw(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.0.f64()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.0.f64()).cos()
    }
}

fn run(level: &str, run: u32, requests_per_sec: f64) -> Observation {
    Observation {
        settings: vec![Setting {
            factor: "buffers".to_owned(),
            level: level.to_owned(),
        }],
        run,
        values: [("requests_per_sec".to_owned(), requests_per_sec)].into(),
        ..Observation::default()
    }
}

fn failed(level: &str, number: u32) -> Observation {
    Observation {
        failure: Some("refused".to_owned()),
        values: [("requests_per_sec".to_owned(), 1.0)].into(),
        ..run(level, number, 0.0)
    }
}

fn rate() -> Metric {
    Metric::named("requests/s")
}

fn asked(metric: Metric) -> CompareOptions {
    CompareOptions {
        metrics: vec![metric],
        ..CompareOptions::default()
    }
}

fn plain(observations: &[Observation]) -> Conclusions {
    compare_cells(observations, &CompareOptions::default()).expect("there is something to compare")
}

/// A sweep of seven levels and five rounds, shuffled within each round. The closures give the ratio
/// of a level, and of a position in the order.
fn sweep(
    seed: u64,
    deviation: f64,
    of_level: impl Fn(u32) -> f64,
    of_position: impl Fn(u32) -> f64,
) -> Vec<Observation> {
    let mut noise = Noise::new(seed);
    let mut runs = Vec::new();
    for round in 1..=5 {
        let mut cells: Vec<u32> = (1..=7).collect();
        noise.0.shuffle(&mut cells);
        for cell in cells {
            let position = runs.len() as u32 + 1;
            let ratio = of_level(cell) * of_position(position) * (deviation * noise.draw()).exp();
            runs.push(Observation {
                cell: Some(cell),
                position: Some(position),
                ..run(&(1_u64 << (17 + cell)).to_string(), round, 30_000.0 * ratio)
            });
        }
    }
    runs
}

/// The same runs with the levels one after the other instead of shuffled.
fn one_after_the_other(seed: u64, of_position: impl Fn(u32) -> f64) -> Vec<Observation> {
    let mut noise = Noise::new(seed);
    (0..35)
        .map(|index| {
            let (level, number) = (index / 5 + 1, index % 5 + 1);
            let ratio = of_position(index + 1) * (0.01 * noise.draw()).exp();
            Observation {
                position: Some(index + 1),
                ..run(&level.to_string(), number, 30_000.0 * ratio)
            }
        })
        .collect()
}

#[test]
fn a_shuffled_sweep_that_was_stopped_early_is_not_called_unshuffled() {
    // The first round and half of the second. The two runs of one level happen to be adjacent.
    let runs: Vec<Observation> = [("2", 1), ("8", 1), ("8", 2)]
        .into_iter()
        .zip(1..)
        .map(|((level, round), position)| Observation {
            position: Some(position),
            ..run(level, round, 1_000.0 + f64::from(position))
        })
        .collect();
    let conclusions = plain(&runs);
    assert!(
        !conclusions
            .caveats
            .contains(&Caveat::OneAfterTheOther { sides: None })
    );
}

#[test]
fn runs_of_a_level_in_several_cells_are_not_rounds() {
    let mut runs = sweep(1, 0.01, |_| 1.0, |_| 1.0);
    assert!(plain(&runs).comparisons[0].has_rounds);
    for observation in &mut runs {
        let cell = observation.cell.unwrap_or(0);
        let backlog = if cell.is_multiple_of(2) {
            "128"
        } else {
            "4096"
        };
        observation.settings = run(&(cell / 2).to_string(), 1, 1.0).settings;
        observation.settings.push(Setting {
            factor: "backlog".to_owned(),
            level: backlog.to_owned(),
        });
    }
    let conclusions = plain(&runs);
    assert!(conclusions.comparisons.iter().all(|it| !it.has_rounds));
}

#[test]
fn a_better_level_is_found_with_an_interval_that_contains_the_true_ratio() {
    let runs = sweep(1, 0.01, |cell| if cell == 7 { 1.05 } else { 1.0 }, |_| 1.0);
    let conclusions = plain(&runs);
    let comparison = &conclusions.comparisons[0];
    assert_eq!(comparison.outcome, Outcome::Better { level: 6 });
    let difference = comparison.levels[6]
        .difference
        .expect("levels are compared");
    let (low, high) = (difference.low.expect("low"), difference.high.expect("high"));
    assert!(low < 1.05 && 1.05 < high && high < 1.09, "{difference:?}");
    assert!((1.02..1.08).contains(&difference.ratio.expect("ratio")));
    assert!(comparison.is_relative && comparison.has_rounds);
    assert_eq!(conclusions.caveats, []);
    // Relative to the first level, which is not the best: nothing is worse.
    assert!(!comparison.is_regression(0.01));
}

#[test]
fn equal_levels_are_not_called_different() {
    let wrong = (0..20).filter(|seed| {
        let conclusions = plain(&sweep(100 + seed, 0.03, |_| 1.0, |_| 1.0));
        let outcome = conclusions.comparisons[0].outcome;
        !matches!(outcome, Outcome::Undecided { .. } | Outcome::Same)
    });
    // With a probability of 5 % each, four or more of twenty occur once in sixty times.
    let wrong = wrong.count();
    assert!(wrong <= 3, "{wrong} of 20");
}

#[test]
fn drift_looks_like_an_effect_unless_levels_are_shuffled() {
    let one_percent_a_run = |position: u32| 1.01_f64.powf(f64::from(position));
    let shuffled = plain(&sweep(2, 0.01, |_| 1.0, one_percent_a_run));
    assert_eq!(
        shuffled.comparisons[0].outcome,
        Outcome::Undecided { level: None }
    );
    let drift = shuffled.caveats.iter().find_map(|caveat| match caveat {
        Caveat::Drift { change, .. } => Some(*change),
        _ => None,
    });
    let drift = drift.expect("a drift by a third is seen");
    assert!((0.3..0.55).contains(&drift), "{drift}");

    let ordered = plain(&one_after_the_other(2, one_percent_a_run));
    assert!(matches!(
        ordered.comparisons[0].outcome,
        Outcome::Better { .. }
    ));
    assert!(
        ordered
            .caveats
            .contains(&Caveat::OneAfterTheOther { sides: None })
    );
}

#[test]
fn an_effect_is_found_despite_a_larger_drift() {
    let drift = |position: u32| 1.01_f64.powf(f64::from(position));
    let runs = sweep(3, 0.01, |cell| if cell == 4 { 0.9 } else { 1.0 }, drift);
    let conclusions = plain(&runs);
    assert_eq!(
        conclusions.comparisons[0].outcome,
        Outcome::Worse { level: 3 }
    );
    assert!(conclusions.comparisons[0].is_regression(0.03));
}

#[test]
fn failed_runs_are_counted_but_excluded_from_all_figures() {
    let mut runs = sweep(4, 0.001, |_| 1.0, |_| 1.0);
    let before = plain(&runs);
    runs.push(failed("262144", 6));
    let after = plain(&runs);
    assert_eq!(before.comparisons, after.comparisons);
    assert_eq!(after.caveats, []);
    let expected = Validity {
        runs: 36,
        failed: 1,
        ..Validity::default()
    };
    assert_eq!(after.validity, [expected]);
}

/// Runs of a level at a fixed rate.
fn at_rate(level: &str, rate: f64, made: &[f64]) -> Vec<Observation> {
    let of = |(number, made): (u32, &f64)| {
        let mut observation = run(level, number, *made);
        let more = [("rate", rate), ("bytes_transfer_per_sec", 100.0 * made)];
        let more = more.map(|(name, value)| (name.to_owned(), value));
        observation.values.extend(more);
        observation
    };
    (1..).zip(made).map(of).collect()
}

#[test]
fn metrics_set_by_a_fixed_rate_are_judged_only_if_the_rate_was_missed() {
    let base = at_rate("a", 1_000.0, &[999.9, 999.8, 999.9, 999.7, 999.8]);
    let lower = at_rate("b", 1_000.0, &[991.0, 991.2, 991.1, 991.3, 991.2]);
    for metric in ["requests/s", "bytes_transfer_per_sec"] {
        let metric = Metric::named(metric);
        let kept = compare(&base, &lower, &metric, 0.002);
        assert_eq!(kept.outcome, Outcome::SetByRate);
        assert!(kept.levels.iter().all(|level| level.difference.is_none()));
        assert!(!kept.is_regression(0.001));
    }
    let missed = at_rate("b", 1_000.0, &[800.0, 810.0, 805.0, 790.0, 999.0]);
    let missed = compare(&base, &missed, &rate(), 0.02);
    assert_eq!(missed.outcome, Outcome::Worse { level: 1 });
    assert!(missed.is_regression(0.05));
    assert_eq!(
        missed.fixed_rate.map(|rate| (rate.missed, rate.runs)),
        Some((4, 10))
    );
    // A different rate is a different plan, not a different server.
    let twice = at_rate("b", 2_000.0, &[1_999.0, 1_998.0, 1_999.5, 1_999.1, 1_998.2]);
    assert_eq!(
        compare(&base, &twice, &rate(), 0.02).outcome,
        Outcome::SetByRate
    );
    // Latency depends on the server at any rate.
    let latency = Metric::named("p99");
    let with_latency = |mut runs: Vec<Observation>, latency_us: f64| {
        for (number, run) in (0_u32..).zip(&mut runs) {
            let value = latency_us * (1.0 + 0.001 * f64::from(number));
            run.values.insert("latency_p99_us".to_owned(), value);
        }
        runs
    };
    let (base, twice) = (with_latency(base, 100.0), with_latency(twice, 200.0));
    let judged = compare(&base, &twice, &latency, 0.02);
    assert_eq!(judged.outcome, Outcome::Worse { level: 1 });
}

#[test]
fn cells_of_two_sweeps_at_a_fixed_rate_are_judged_only_if_they_missed_it() {
    let sweep = |made: [f64; 3]| -> Vec<Observation> {
        let cell = |(cell, made): (u32, f64)| {
            let wobble = [0.0, 0.2, 0.1, 0.3];
            let values: Vec<f64> = wobble.iter().map(|wobble| made - wobble).collect();
            let mut runs = at_rate(&cell.to_string(), 1_000.0, &values);
            runs.iter_mut().for_each(|run| run.cell = Some(cell));
            runs
        };
        (1..).zip(made).flat_map(cell).collect()
    };
    let (old, new) = (sweep([1_000.0; 3]), sweep([1_000.0, 700.0, 999.0]));
    let options = CompareOptions::default();
    let both = compare_with_base(named("old", &old), named("new", &new), &options).unwrap();
    let outcomes: Vec<Outcome> = both.comparisons.iter().map(|it| it.outcome).collect();
    let expected = [
        Outcome::SetByRate,
        Outcome::Worse { level: 1 },
        Outcome::SetByRate,
    ];
    assert_eq!(outcomes, expected);
    assert_eq!(
        both.caveats,
        [],
        "a metric that the rate determines does not drift"
    );
}

#[test]
fn a_level_that_is_the_same_leaves_another_one_undecided() {
    // Seven levels, so that one uncertain level prevents the outcome that all are the same.
    let of_cell = |cell| match cell {
        7 => 1.0014,
        _ => 1.0,
    };
    let mut runs = sweep(21, 0.0001, of_cell, |_| 1.0);
    let mut noise = Noise::new(5);
    for run in runs.iter_mut().filter(|run| run.cell == Some(4)) {
        let value = 30_000.0 * (0.2 * noise.draw()).exp();
        run.values.insert("requests_per_sec".to_owned(), value);
    }
    let comparison = &plain(&runs).comparisons[0];
    assert_eq!(comparison.outcome, Outcome::Undecided { level: None });
    let difference = comparison.levels[6].difference.unwrap();
    assert!(difference.is_found() && !comparison.matters(&difference));
    assert!(!comparison.is_regression(0.0001));
    let narrow = CompareOptions {
        threshold: 0.0005,
        ..CompareOptions::default()
    };
    let judged = compare_cells(&runs, &narrow).unwrap();
    assert_eq!(judged.comparisons[0].outcome, Outcome::Better { level: 6 });
}

#[test]
fn an_interval_across_the_edge_of_the_threshold_is_reported() {
    let base = noisy("a", 11, 1.0, 0.004, 8);
    for (ratio, is_across) in [(1.022, true), (1.10, false), (1.017, true)] {
        let new = noisy("b", 12, ratio, 0.004, 8);
        let comparison = compare(&base, &new, &rate(), 0.02);
        let difference = comparison.levels[1].difference.unwrap();
        assert!(difference.is_found());
        assert_eq!(
            comparison.is_across_threshold(&difference),
            is_across,
            "{ratio}"
        );
    }
}

/// A run of a sweep that sets `rmem_max`, with the values that the kernel used.
fn set(levels: &[(&str, &str)], taken: &[(&str, &str)]) -> Observation {
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let setting = |pair: (String, String)| Setting {
        factor: pair.0,
        level: pair.1,
    };
    Observation {
        settings: levels.iter().map(pair).map(setting).collect(),
        trial: Some(Box::new(TrialFacts {
            effective: taken.iter().map(pair).collect(),
            ..TrialFacts::default()
        })),
        ..run("", 1, 1_000.0)
    }
}

#[test]
fn levels_for_which_the_kernel_used_the_same_value_are_reported() {
    let key = "net.core.rmem_max";
    let one_factor = [("1024", "2304"), ("2048", "2304"), ("4096", "4096")]
        .map(|(level, taken)| set(&[("rmem_max", level)], &[(key, taken)]));
    let clamped = ClampedLevels {
        factor: "rmem_max".to_owned(),
        levels: vec!["1024".to_owned(), "2048".to_owned()],
        taken: [(key.to_owned(), "2304".to_owned())].into(),
    };
    let of_one = Validity::of(&one_factor, None);
    assert_eq!(of_one.clamped, std::slice::from_ref(&clamped));
    // Another factor has nothing to do with the kernel's setting, whatever its levels are.
    let mut two_factors = Vec::new();
    for workers in ["1", "2"] {
        for (level, taken) in [("1024", "2304"), ("2048", "2304"), ("4096", "4096")] {
            let levels = [("workers", workers), ("rmem_max", level)];
            two_factors.push(set(&levels, &[(key, taken), ("net.ipv4.tcp_sack", "1")]));
        }
    }
    assert_eq!(Validity::of(&two_factors, None).clamped, [clamped]);
    // Values that the kernel used differently are not the same setting.
    let unsteady = [("1024", "2304"), ("1024", "1024"), ("2048", "2304")]
        .map(|(level, taken)| set(&[("rmem_max", level)], &[(key, taken)]));
    assert_eq!(Validity::of(&unsteady, None).clamped, []);
}

#[test]
fn runs_in_which_requests_failed_are_counted() {
    let with = |answers: f64, errors: f64, bad: f64| {
        let mut observation = run("a", 1, 1_000.0);
        for (name, value) in [
            ("requests", answers),
            ("errors", errors),
            ("statuses_over_399", bad),
        ] {
            observation.values.insert(name.to_owned(), value);
        }
        observation
    };
    let runs = [
        with(1_000.0, 5.0, 5.0),
        with(1_000.0, 11.0, 0.0),
        with(1_000.0, 0.0, 1_000.0),
        with(0.0, 4.0, 0.0),
        run("a", 1, 1_000.0),
    ];
    assert_eq!(Validity::of(&runs, None).failing, 3);
}

#[test]
fn a_missing_run_and_a_repeated_baseline_do_not_prevent_a_comparison() {
    let better = |cell| if cell == 7 { 1.1 } else { 1.0 };
    let mut runs = sweep(5, 0.01, better, |_| 1.0);
    let repeats: Vec<Observation> = runs
        .iter()
        .filter(|run| run.cell == Some(1))
        .map(|run| Observation {
            position: run.position.map(|position| position + 100),
            ..run.clone()
        })
        .collect();
    runs.extend(repeats);
    let hole = runs
        .iter()
        .position(|run| run.cell == Some(3))
        .expect("there are seven cells");
    runs[hole].failure = Some("timed out".to_owned());
    let comparison = &plain(&runs).comparisons[0];
    assert_eq!(comparison.outcome, Outcome::Better { level: 6 });
    let counts: Vec<usize> = comparison.levels.iter().map(|level| level.runs).collect();
    assert_eq!(counts, [10, 5, 4, 5, 5, 5, 5]);
}

#[test]
fn too_few_runs_give_no_conclusion_but_the_number_needed() {
    let side = |level: &str, count: u32| -> Vec<Observation> {
        (1..=count)
            .map(|number| run(level, number, 100.0 + 20.0 * f64::from(number)))
            .collect()
    };
    for (count, expected) in [
        (1, Outcome::TooFewRuns { needed: 4 }),
        (3, Outcome::TooFewRuns { needed: 4 }),
        (4, Outcome::Undecided { level: None }),
    ] {
        let comparison = compare(&side("a", count), &side("b", count), &rate(), 0.02);
        assert_eq!(comparison.outcome, expected, "{count} runs");
        assert_eq!(comparison.p_value.is_some(), count == 4);
    }
    let nothing = compare(&[], &side("b", 5), &rate(), 0.02);
    assert!(matches!(nothing.outcome, Outcome::TooFewRuns { .. }));
}

fn noisy(level: &str, seed: u64, ratio: f64, deviation: f64, count: u32) -> Vec<Observation> {
    let mut noise = Noise::new(seed);
    (1..=count)
        .map(|number| {
            run(
                level,
                number,
                1_000.0 * ratio * (deviation * noise.draw()).exp(),
            )
        })
        .collect()
}

#[test]
fn only_runs_with_little_noise_are_called_equal_within_the_threshold() {
    let base = noisy("a", 11, 1.0, 0.002, 8);
    for (ratio, threshold, expected) in [
        (1.0, 0.02, Outcome::Same),
        (1.01, 0.02, Outcome::Same),
        (1.05, 0.02, Outcome::Better { level: 1 }),
        (0.95, 0.02, Outcome::Worse { level: 1 }),
        (0.95, 0.10, Outcome::Same),
    ] {
        let new = noisy("b", 12, ratio, 0.002, 8);
        let comparison = compare(&base, &new, &rate(), threshold);
        assert_eq!(comparison.outcome, expected, "{ratio} {threshold}");
    }
}

#[test]
fn a_regression_is_a_change_for_the_worse_above_the_limit() {
    let base = noisy("a", 13, 1.0, 0.005, 8);
    let slower = noisy("b", 14, 0.92, 0.005, 8);
    let noisier = noisy("b", 15, 0.92, 0.5, 8);
    let is_regression = |new: &[Observation], metric: &Metric, limit| {
        compare(&base, new, metric, 0.02).is_regression(limit)
    };
    assert!(is_regression(&slower, &rate(), 0.05));
    assert!(!is_regression(&slower, &rate(), 0.10));
    assert!(!is_regression(&noisier, &rate(), 0.05));
    assert!(!compare(&slower, &base, &rate(), 0.02).is_regression(0.05));
    let mut lower = rate();
    lower.better = analysis::compare::Better::Lower;
    assert!(!is_regression(&slower, &lower, 0.05));
    assert!(compare(&slower, &base, &lower, 0.02).is_regression(0.05));
}

#[test]
fn errors_where_there_were_none_are_worse_without_a_ratio() {
    let errors = |counts: [f64; 5]| -> Vec<Observation> {
        let with = |count: f64| Observation {
            values: [("errors".to_owned(), count)].into(),
            ..Observation::default()
        };
        counts.into_iter().map(with).collect()
    };
    let metric = Metric::named("errors");
    let (none, some) = (errors([0.0; 5]), errors([3.0, 9.0, 4.0, 4.0, 7.0]));
    let worse = compare(&none, &some, &metric, 0.02);
    assert_eq!(worse.outcome, Outcome::Worse { level: 1 });
    assert!(worse.is_regression(0.5));
    assert_eq!(
        worse.levels[1]
            .difference
            .and_then(|difference| difference.ratio),
        None
    );
    let better = compare(&some, &none, &metric, 0.02);
    assert_eq!(better.outcome, Outcome::Better { level: 1 });
    assert!(!better.is_regression(0.01));
    assert_eq!(
        compare(&none, &none, &metric, 0.02).outcome,
        Outcome::Undecided { level: None }
    );
}

#[test]
fn only_a_found_difference_in_its_direction_is_beyond_a_limit() {
    let runs = |rate: f64, count: u32| -> Vec<Observation> {
        let of = |number| run("all", number, rate * (1.0 + 0.001 * f64::from(number)));
        (1..=count).map(of).collect()
    };
    let judged = |new: f64, count: u32, condition: &str| {
        let compared = compare(&runs(1000.0, count), &runs(new, count), &rate(), 0.02);
        let limit = &ChangeLimit::parse_list(condition).expect("it is a condition")[0];
        (
            limit.is_exceeded(&compared),
            limit.is_undecidable(&compared),
        )
    };
    for (new, condition, is_exceeded) in [
        (900.0, "rps < baseline - 5%", true),
        (900.0, "rps < baseline", true),
        (900.0, "rps < baseline - 20%", false),
        (900.0, "rps > baseline", false),
        (900.0, "p99 > baseline", false),
        (1100.0, "rps > baseline + 5%", true),
        (1100.0, "rps < baseline", false),
        (1000.0, "rps < baseline", false),
    ] {
        assert_eq!(
            judged(new, 7, condition),
            (is_exceeded, false),
            "{new} {condition}"
        );
    }
    assert_eq!(judged(500.0, 1, "rps < baseline"), (false, true));
    assert_eq!(judged(500.0, 1, "p99 > baseline"), (false, false));
}

fn named<'a>(name: &'a str, runs: &'a [Observation]) -> Named<'a> {
    Named { name, runs }
}

#[test]
fn old_and_new_sweeps_are_compared_cell_by_cell_if_they_share_cells() {
    let old = sweep(6, 0.005, |_| 1.0, |_| 1.0);
    let new = sweep(7, 0.005, |cell| if cell == 2 { 0.9 } else { 1.0 }, |_| 1.0);
    let options = asked(rate());
    let conclusions = compare_with_base(named("old", &old), named("new", &new), &options)
        .expect("the cells are the same");
    assert_eq!(conclusions.comparisons.len(), 7);
    let outcomes = |conclusions: &Conclusions, wanted: Outcome| {
        let of = conclusions.comparisons.iter();
        of.filter(|comparison| comparison.outcome == wanted).count()
    };
    let worse = Outcome::Worse { level: 1 };
    let same_or_undecided = outcomes(&conclusions, Outcome::Undecided { level: None })
        + outcomes(&conclusions, Outcome::Same);
    assert_eq!((outcomes(&conclusions, worse), same_or_undecided), (1, 6));
    let found = conclusions
        .comparisons
        .iter()
        .find(|comparison| comparison.outcome == worse);
    assert_eq!(
        found.map(|comparison| (comparison.place.clone(), comparison.is_regression(0.05))),
        Some((vec!["buffers = 524288".to_owned()], true))
    );
    let fewer: Vec<Observation> = old
        .iter()
        .filter(|run| run.cell <= Some(3))
        .cloned()
        .collect();
    let conclusions = compare_with_base(named("old", &fewer), named("new", &new), &options)
        .expect("three cells are the same");
    assert_eq!(conclusions.comparisons.len(), 3);

    let other: Vec<Observation> = ["x", "y"]
        .iter()
        .flat_map(|level| noisy(level, 1, 1.0, 0.1, 5))
        .collect();
    let error = compare_with_base(named("old", &old), named("other", &other), &options);
    assert!(
        matches!(error, Err(CompareError::NoCommonCell { .. })),
        "{error:?}"
    );
}

#[test]
fn two_sweeps_need_three_rounds_each() {
    let rounds = |runs: &[Observation], most: u32| -> Vec<Observation> {
        runs.iter().filter(|run| run.run <= most).cloned().collect()
    };
    let old = sweep(8, 0.005, |_| 1.0, |_| 1.0);
    let new = sweep(9, 0.005, |_| 0.9, |_| 1.0);
    for (most, expected) in [
        (3, Outcome::Worse { level: 1 }),
        (2, Outcome::TooFewRuns { needed: 3 }),
    ] {
        let (old, new) = (rounds(&old, most), rounds(&new, most));
        let conclusions = compare_with_base(named("old", &old), named("new", &new), &asked(rate()))
            .expect("the cells are the same");
        let outcomes: Vec<Outcome> = conclusions
            .comparisons
            .iter()
            .map(|comparison| comparison.outcome)
            .collect();
        assert_eq!(outcomes, [expected; 7], "{most} rounds");
    }
}

#[test]
fn errors_in_one_cell_of_two_sweeps_are_found_but_a_single_error_is_not() {
    let with_errors = |seed, of: fn(&Observation) -> f64| -> Vec<Observation> {
        let mut runs = sweep(seed, 0.01, |_| 1.0, |_| 1.0);
        for run in &mut runs {
            let count = of(run);
            run.values.insert("errors".to_owned(), count);
        }
        runs
    };
    let old = with_errors(10, |_| 0.0);
    let new = with_errors(11, |run| match (run.cell, run.run) {
        (Some(3), round) => f64::from(2 + round),
        (Some(5), 2) => 40.0,
        _ => 0.0,
    });
    let options = asked(Metric::named("errors"));
    let conclusions = compare_with_base(named("old", &old), named("new", &new), &options)
        .expect("the cells are the same");
    let worse: Vec<&[String]> = conclusions
        .comparisons
        .iter()
        .filter(|comparison| comparison.is_regression(0.05))
        .map(|comparison| comparison.place.as_slice())
        .collect();
    assert_eq!(worse, [["buffers = 1048576".to_owned()]]);
}

#[test]
fn runs_with_a_heading_each_are_compared_as_one_side() {
    let side = |name: &str, ratio: f64| -> Vec<Observation> {
        let runs = noisy("", 16, ratio, 0.005, 6);
        let headed = |(number, run): (usize, Observation)| Observation {
            settings: vec![Setting {
                factor: "heading".to_owned(),
                level: format!("{name} {number}"),
            }],
            ..run
        };
        runs.into_iter().enumerate().map(headed).collect()
    };
    let (base, new) = (side("before", 1.0), side("after", 1.1));
    let conclusions = compare_with_base(named("b", &base), named("n", &new), &asked(rate()))
        .expect("each side is one thing");
    assert_eq!(
        conclusions.comparisons[0].outcome,
        Outcome::Better { level: 1 }
    );
}

#[test]
fn factors_that_change_together_are_treated_as_one() {
    let mut noise = Noise::new(17);
    let mut runs = Vec::new();
    for number in 1..=5 {
        for (a, effect) in [("1", 1.0), ("2", 1.0)] {
            for (b, other) in [("on", 1.0), ("off", 0.8)] {
                let value = 1_000.0 * effect * other * (0.01 * noise.draw()).exp();
                let mut run = run(a, number, value);
                for (factor, level) in [("same", a), ("cork", b)] {
                    run.settings.push(Setting {
                        factor: factor.to_owned(),
                        level: level.to_owned(),
                    });
                }
                runs.push(run);
            }
        }
    }
    let conclusions = plain(&runs);
    let found: Vec<(Option<&str>, bool)> = conclusions
        .comparisons
        .iter()
        .map(|comparison| {
            let found = matches!(comparison.outcome, Outcome::Worse { .. });
            (comparison.factor.as_deref(), found)
        })
        .collect();
    assert_eq!(
        found,
        [(Some("buffers and same"), false), (Some("cork"), true)]
    );
    let difference = conclusions.comparisons[1].levels[1]
        .difference
        .expect("compared");
    assert!(
        (0.77..0.83).contains(&difference.ratio.expect("ratio")),
        "{difference:?}"
    );
}

#[test]
fn targets_are_compared_and_factors_are_examined_for_each_target() {
    let mut runs = Vec::new();
    for (target, ratio, effect) in [("x86_64", 1.0, 1.2), ("arm64", 2.0, 1.0)] {
        for (level, ratio) in [("1", ratio), ("2", ratio * effect)] {
            let of_target = noisy(level, runs.len() as u64, ratio, 0.01, 5);
            runs.extend(of_target.into_iter().map(|run| Observation {
                target: Some(target.to_owned()),
                ..run
            }));
        }
    }
    let conclusions = plain(&runs);
    let found: Vec<(Vec<&str>, &str, bool)> = conclusions
        .comparisons
        .iter()
        .map(|comparison| {
            let place = comparison.place.iter().map(String::as_str).collect();
            let better = matches!(comparison.outcome, Outcome::Better { .. });
            (place, comparison.factor.as_deref().unwrap_or(""), better)
        })
        .collect();
    assert_eq!(
        found,
        [
            (vec!["x86_64"], "buffers", true),
            (vec!["arm64"], "buffers", false),
            // Buffers change the distance of the targets.
            (vec!["buffers = 1"], "target", true),
            (vec!["buffers = 2"], "target", true)
        ]
    );
}

/// Two runs of two targets at each place, with these ratios of the second one, and a noise of 1 %.
fn places(ratios: &[(&str, f64)]) -> Vec<Observation> {
    let mut noise = Noise::new(11);
    let mut runs = Vec::new();
    for ((place, ratio), at) in ratios.iter().zip(1..) {
        for (target, ratio) in [("old", 1.0), ("new", *ratio)] {
            for number in 1..=2 {
                let rate = 500.0 * f64::from(at) * ratio * (1.0 + 0.01 * noise.draw());
                runs.push(Observation {
                    settings: vec![Setting {
                        factor: results::PLACE_FACTOR.to_owned(),
                        level: (*place).to_owned(),
                    }],
                    target: Some(target.to_owned()),
                    ..run("", number, rate)
                });
            }
        }
    }
    runs
}

/// What is found about the targets: the place, whether places disagree, and the outcome.
fn of_targets(runs: &[Observation]) -> Vec<(String, bool, Outcome)> {
    let all = plain(runs).comparisons.into_iter();
    let targets = all.filter(|it| it.factor.as_deref() == Some("target"));
    targets
        .map(|it| (it.place.join(", "), it.disagrees, it.outcome))
        .collect()
}

#[test]
fn places_that_agree_are_judged_together() {
    let found = of_targets(&places(&[("office", 0.7), ("rack", 0.7), ("home", 0.7)]));
    assert_eq!(found, [(String::new(), false, Outcome::Worse { level: 1 })]);
}

#[test]
fn places_that_disagree_are_judged_apart() {
    let runs = places(&[("office", 1.0), ("rack", 0.7), ("home", 0.7)]);
    let found = of_targets(&runs);
    let worse = Outcome::Worse { level: 1 };
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(
        found[1..],
        [("rack".into(), true, worse), ("home".into(), true, worse)]
    );
    let (place, disagrees, outcome) = &found[0];
    assert_eq!((place.as_str(), *disagrees), ("office", true));
    assert!(
        matches!(outcome, Outcome::Same | Outcome::Undecided { .. }),
        "{outcome:?}"
    );
    // Charts and tables show the runs of the place.
    let conclusions = plain(&runs);
    for comparison in &conclusions.comparisons {
        let levels = analysis::compare::runs_of_levels(&runs, comparison);
        let counts: Vec<usize> = levels.iter().map(|level| level.values.len()).collect();
        let expected: Vec<usize> = comparison.levels.iter().map(|level| level.runs).collect();
        assert_eq!(counts, expected, "{comparison:?}");
    }
}

#[test]
fn places_that_agree_are_rarely_found_to_disagree() {
    let mut noise = Noise::new(12);
    let repeats = 400;
    let disagree = (0..repeats).filter(|_| {
        let mut runs = places(&[("office", 0.9), ("rack", 0.9), ("home", 0.9)]);
        for run in &mut runs {
            let rate = 1_000.0 * (0.03 * noise.draw()).exp();
            run.values.insert("requests_per_sec".to_owned(), rate);
        }
        of_targets(&runs).iter().any(|(_, disagrees, _)| *disagrees)
    });
    let share = disagree.count() as f64 / f64::from(repeats);
    assert!(share < 0.08, "{share}");
}

#[test]
fn a_place_with_one_target_is_named_and_not_counted() {
    let mut runs = places(&[("office", 0.7), ("rack", 0.7), ("home", 0.7)]);
    runs.retain(|run| {
        let is_at_home = run.settings.iter().any(|it| it.level == "home");
        !is_at_home || run.target.as_deref() == Some("old")
    });
    let conclusions = plain(&runs);
    let of_targets = conclusions.comparisons.iter();
    let mut of_targets = of_targets.filter(|it| it.factor.as_deref() == Some("target"));
    let found = of_targets.next().expect("targets are compared");
    assert_eq!(found.left_out, ["home (only old)"]);
    assert_eq!(found.levels[0].runs, 4, "{found:?}");
}

/// Five runs of two levels, the second of which is 3.9 times as fast, with these shares of failed
/// requests.
fn failing(shares: [f64; 2]) -> Vec<Observation> {
    let mut runs = Vec::new();
    for ((level, ratio), share) in [("good", 1.0), ("bad", 3.9)].into_iter().zip(shares) {
        for mut run in noisy(level, 5, ratio, 0.01, 5) {
            run.values.insert("requests".to_owned(), 1_000.0);
            run.values
                .insert("statuses_over_399".to_owned(), 1_000.0 * share);
            runs.push(run);
        }
    }
    runs
}

#[test]
fn a_level_whose_requests_fail_wins_nothing() {
    let outcome = |shares| {
        let options = asked(rate());
        let found = compare_cells(&failing(shares), &options).expect("there are two levels");
        let comparison = &found.comparisons[0];
        let failing: Vec<&str> = comparison.failing().map(|it| it.name.as_str()).collect();
        let difference = comparison.levels[1].difference;
        assert_eq!(
            difference.is_none(),
            comparison.outcome == Outcome::Failing,
            "{comparison:?}"
        );
        (comparison.outcome, failing.join(", "))
    };
    let better = Outcome::Better { level: 1 };
    assert_eq!(outcome([0.0, 0.0]), (better, String::new()));
    assert_eq!(outcome([0.0, 0.01]), (better, String::new()));
    assert_eq!(outcome([0.0, 1.0]), (Outcome::Failing, "bad".to_owned()));
    assert_eq!(outcome([0.02, 0.0]), (Outcome::Failing, "good".to_owned()));
    assert_eq!(
        outcome([0.02, 1.0]),
        (Outcome::Failing, "good, bad".to_owned())
    );
    // The failures themselves are compared.
    let options = asked(Metric::named("statuses_over_399"));
    let found = compare_cells(&failing([0.0, 1.0]), &options).expect("there are two levels");
    assert_eq!(found.comparisons[0].outcome, Outcome::Worse { level: 1 });
    assert!(found.comparisons[0].is_regression(0.05));
}

#[test]
fn counts_are_known_to_one_request_per_connection() {
    // 10 connections have 190 responses at 251 ms, and 195 in truth.
    let side = |requests: [f64; 5]| {
        let runs = requests.into_iter().zip(1..).map(|(requests, number)| {
            let mut run = run("a", number, requests / 5.0);
            run.values.insert("requests".to_owned(), requests);
            run.values.insert("connections".to_owned(), 10.0);
            run
        });
        runs.collect::<Vec<_>>()
    };
    let (old, new) = (side([195.0; 5]), side([190.0; 5]));
    let found = compare(&old, &new, &rate(), 0.02);
    let difference = found.levels[1].difference.expect("five runs are enough");
    let ends = (difference.low.unwrap(), difference.high.unwrap());
    assert!(ends.0 < 0.93 && ends.1 > 1.02, "{ends:?}");
    assert_eq!(found.outcome, Outcome::Undecided { level: None });
    let found = compare(&old, &old, &rate(), 0.02);
    assert_eq!(
        found.outcome,
        Outcome::Undecided { level: None },
        "{found:?}"
    );
    let found = compare(&old, &side([95.0; 5]), &rate(), 0.02);
    assert_eq!(found.outcome, Outcome::Worse { level: 1 });
}

#[test]
fn a_cold_first_run_is_noticed_and_a_warm_one_is_not() {
    let mut runs = sweep(8, 0.01, |_| 1.0, |_| 1.0);
    assert_eq!(plain(&runs).caveats, []);
    let rate = runs[0].values.get_mut("requests_per_sec").expect("rate");
    *rate *= 0.7;
    match plain(&runs).caveats.as_slice() {
        [
            Caveat::SlowFirstRun {
                is_first_of_all: true,
                cells: 1,
                of: 7,
                change,
                ..
            },
        ] => assert!((-0.34..-0.26).contains(change), "{change}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn runs_that_cannot_be_compared_give_an_error_of_one_line() {
    let runs = noisy("a", 1, 1.0, 0.1, 5);
    let unknown = asked(Metric::named("p99"));
    for (error, said) in [
        (
            compare_cells(&runs, &CompareOptions::default()),
            "all runs belong to one cell",
        ),
        (
            compare_cells(&runs, &unknown),
            "latency_p99_us: no run has it",
        ),
        (
            compare_cells(&[], &CompareOptions::default()),
            "the runs: no run to compare (0 failed)",
        ),
        (
            compare_with_base(
                named("b", &[failed("a", 1)]),
                named("n", &runs),
                &CompareOptions::default(),
            ),
            "b: no run to compare (1 failed)",
        ),
    ] {
        let message = error.expect_err("nothing can be compared").to_string();
        assert!(
            message.starts_with(said) && !message.contains('\n'),
            "{message}"
        );
    }
}

#[test]
fn values_that_are_not_finite_are_left_out() {
    let mut base = noisy("a", 1, 1.0, 0.01, 6);
    base[0]
        .values
        .insert("requests_per_sec".to_owned(), f64::NAN);
    base[1].values.clear();
    let comparison = compare(&base, &noisy("b", 2, 1.0, 0.01, 6), &rate(), 0.02);
    assert_eq!((comparison.levels[0].runs, comparison.runs), (4, 4));
}

/// Runs with a p99 each, which is a lower bound in some.
fn with_p99(level: &str, times_us: [f64; 5], is_lower_bound: bool) -> Vec<Observation> {
    let p99 = "latency_p99_us";
    let runs = (1..).zip(times_us).map(|(number, time_us)| Observation {
        values: [(p99.to_owned(), time_us)].into(),
        lower_bounds: is_lower_bound.then(|| p99.to_owned()).into_iter().collect(),
        ..run(level, number, 0.0)
    });
    runs.collect()
}

#[test]
fn two_lower_bounds_are_not_the_same_and_neither_is_worse() {
    // Both are the timeout.
    let five = with_p99("a", [501e3, 501e3, 502e3, 501e3, 501e3], true);
    let twenty = with_p99("b", [502e3, 502e3, 501e3, 502e3, 502e3], true);
    let judged = compare(&five, &twenty, &Metric::named("p99"), 0.02);
    assert_eq!(judged.outcome, Outcome::LowerBounds);
    assert!(judged.levels.iter().all(|level| level.difference.is_none()));
    assert_eq!(judged.levels[0].lower_bounds, 5);
    let all: Vec<Observation> = [five, twenty].concat();
    let options = asked(Metric::named("p99"));
    let conclusions = compare_cells(&all, &options).expect("there are two levels");
    assert_eq!(conclusions.comparisons[0].outcome, Outcome::LowerBounds);
}

#[test]
fn a_lower_bound_is_comparable_with_a_smaller_value_that_is_exact() {
    let fast = with_p99("a", [20e3, 21e3, 20e3, 22e3, 21e3], false);
    let hung = with_p99("b", [501e3, 501e3, 502e3, 501e3, 501e3], true);
    let slow = with_p99("c", [900e3, 910e3, 905e3, 901e3, 902e3], false);
    let close = with_p99("d", [501e3, 501e3, 502e3, 501e3, 501e3], false);
    let p99 = Metric::named("p99");
    let outcome =
        |base: &[Observation], new: &[Observation]| compare(base, new, &p99, 0.02).outcome;
    assert_eq!(outcome(&fast, &hung), Outcome::Worse { level: 1 });
    assert_eq!(outcome(&hung, &fast), Outcome::Better { level: 1 });
    assert_eq!(outcome(&hung, &slow), Outcome::LowerBounds);
    assert_eq!(outcome(&slow, &hung), Outcome::LowerBounds);
    assert_eq!(outcome(&close, &hung), Outcome::LowerBounds);
    assert_eq!(outcome(&close, &close), Outcome::Same);
}

#[test]
fn places_that_disagree_are_named_in_the_order_of_the_experiment() {
    let ratios = [
        ("office", 0.5),
        ("rack", 0.7),
        ("home", 1.4),
        ("cloud", 1.1),
    ];
    let mut runs = places(&ratios);
    // As in a plan: places, then targets. The first run of the sweep may be of any cell.
    for run in &mut runs {
        let place = ratios
            .iter()
            .position(|(it, _)| *it == run.settings[0].level);
        let target = u32::from(run.target.as_deref() == Some("new"));
        run.cell = place.map(|place| place as u32 * 2 + target + 1);
    }
    for seed in 0..5 {
        fastrand::Rng::with_seed(seed).shuffle(&mut runs);
        let found = of_targets(&runs);
        let places: Vec<&str> = found.iter().map(|(place, ..)| place.as_str()).collect();
        assert_eq!(places, ["office", "rack", "home", "cloud"], "{seed}");
    }
}
