//! Two sides with the times of their runs: one after the other, in turn, or neither.

#[path = "../../results/tests/fixture/mod.rs"]
mod fixture;

use analysis::Observation;
use analysis::compare::{
    Caveat, CompareOptions, Comparison, Conclusions, Metric, Named, Outcome, Timing,
    compare_with_base,
};
use results::RunResult;
use results::metric::REQUESTS_PER_SEC;

fn normal(random: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

/// A run that began at this second; `None` for a text, which does not say it.
fn run(result: &RunResult, second: Option<u64>, requests_per_sec: f64) -> Observation {
    let timed = |second: u64| {
        let mut result = result.clone();
        result.window.started_unix_ms = 1_795_204_800_000 + second * 1_000;
        Box::new(result)
    };
    Observation {
        run: 1,
        values: [(REQUESTS_PER_SEC.to_owned(), requests_per_sec)].into(),
        result: second.map(timed),
        ..Observation::default()
    }
}

/// The runs of both sides in the order of the letters: `A` is old and `B` new. `of` gives the
/// value of each by its side and its place in the order.
fn sides(order: &str, mut of: impl FnMut(usize, usize) -> f64) -> [Vec<Observation>; 2] {
    let mut result = fixture::result(fixture::recording(0));
    result.recording = results::Recording::new();
    let mut sides = [Vec::new(), Vec::new()];
    for (at, letter) in order.chars().enumerate() {
        let side = usize::from(letter == 'B');
        sides[side].push(run(&result, Some(at as u64 * 10), of(side, at)));
    }
    sides
}

fn compared(sides: &[Vec<Observation>; 2]) -> Conclusions {
    let [old, new] = ["old", "new"];
    let named = |name, at: usize| Named {
        name,
        runs: &sides[at],
    };
    let options = CompareOptions {
        metrics: vec![Metric::named(REQUESTS_PER_SEC)],
        ..CompareOptions::default()
    };
    compare_with_base(named(old, 0), named(new, 1), &options).expect("there are runs")
}

fn only(conclusions: &Conclusions) -> &Comparison {
    &conclusions.comparisons[0]
}

/// The ends of the interval, in percent.
fn interval(comparison: &Comparison) -> [f64; 2] {
    let difference = comparison.levels[1]
        .difference
        .expect("there are enough runs");
    [difference.low, difference.high].map(|end| (end.expect("an end") - 1.0) * 100.0)
}

fn is_effect(comparison: &Comparison) -> bool {
    matches!(
        comparison.outcome,
        Outcome::Better { .. } | Outcome::Worse { .. }
    )
}

fn after(first: &str, second: &str) -> Caveat {
    Caveat::OneAfterTheOther {
        sides: Some([first.to_owned(), second.to_owned()]),
    }
}

#[test]
fn runs_in_turn_are_pairs_and_drift_does_not_hide_their_difference() {
    let mut random = fastrand::Rng::with_seed(1);
    for order in ["ABABABABAB", "ABBAABBAAB", "BABABABABA"] {
        // A drift of 2 % a pair, and a true difference of -2 %.
        let sides = sides(order, |side, at| {
            let drift = 1.02_f64.powf((at / 2) as f64);
            let ratio = if side == 1 { 0.98 } else { 1.0 };
            1_000.0 * drift * ratio * (0.002 * normal(&mut random)).exp()
        });
        let conclusions = compared(&sides);
        let comparison = only(&conclusions);
        assert!(matches!(comparison.timing, Some(Timing::InPairs { .. })));
        assert_eq!((comparison.runs, comparison.is_relative), (5, true));
        let [low, high] = interval(comparison);
        assert!(
            low < -2.0 && -2.0 < high && high < 0.0,
            "{order}: {low} {high}"
        );
        assert!(low > -3.6, "{order}: {low}");
        // The drift itself is named once, and there is nothing else to doubt.
        assert!(
            matches!(conclusions.caveats.as_slice(), [Caveat::Drift { side: None, change, .. }]
                if (0.05..0.12).contains(change)),
            "{order}: {:?}",
            conclusions.caveats
        );
        // Without times it is one side against the other.
        let untimed = sides.map(|runs| {
            let of = |run: Observation| Observation {
                result: None,
                ..run
            };
            runs.into_iter().map(of).collect()
        });
        let conclusions = compared(&untimed);
        let comparison = only(&conclusions);
        assert_eq!(comparison.timing, None);
        assert_eq!(comparison.outcome, Outcome::Undecided { level: None });
        assert_eq!(conclusions.caveats, []);
    }
}

#[test]
fn a_drift_within_pairs_is_in_the_interval() {
    // The machine gets 1 % faster with every run, and the new side always comes second.
    let mut random = fastrand::Rng::with_seed(2);
    let drifting = |order: &str, random: &mut fastrand::Rng| {
        let sides = sides(order, |side, at| {
            let ratio = if side == 1 { 0.98 } else { 1.0 };
            1_000.0 * 1.01_f64.powf(at as f64) * ratio * (0.001 * normal(random)).exp()
        });
        let conclusions = compared(&sides);
        interval(only(&conclusions))
    };
    let [low, high] = drifting("ABABABABABAB", &mut random);
    assert!(low < -2.0 && high < 0.0, "{low} {high}");
    // Taking turns in being first leaves nothing of it.
    let [low, high] = drifting("ABBAABBAABBA", &mut random);
    assert!(low < -2.0 && -2.0 < high, "{low} {high}");
}

#[test]
fn sides_one_after_the_other_have_a_caveat_whichever_is_first() {
    for (order, expected) in [
        ("AAAAABBBBB", Some(after("old", "new"))),
        ("BBBBBAAAAA", Some(after("new", "old"))),
        ("AAABBBAABB", None),
        ("ABABABABAB", None),
    ] {
        let mut random = fastrand::Rng::with_seed(3);
        let sides = sides(order, |side, _| {
            let ratio = if side == 1 { 0.9 } else { 1.0 };
            1_000.0 * ratio * (0.015 * normal(&mut random)).exp()
        });
        let conclusions = compared(&sides);
        let caveats = conclusions.caveats.iter();
        let found: Vec<&Caveat> = caveats
            .filter(|it| matches!(it, Caveat::OneAfterTheOther { .. }))
            .collect();
        assert_eq!(found, expected.iter().collect::<Vec<_>>(), "{order}");
        let comparison = only(&conclusions);
        assert_eq!(comparison.measured_first().is_some(), expected.is_some());
        // A tenth less is a regression for every gate.
        assert!(comparison.is_regression(0.05), "{order}: {comparison:?}");
    }
}

#[test]
fn runs_without_a_known_order_have_neither_pairs_nor_a_caveat() {
    let mut all = sides("ABABABABAB", |side, at| {
        1_000.0 + (side * 7 + at % 3) as f64
    });
    // All in one second, as in results that were edited.
    for run in all.iter_mut().flatten() {
        let result = run.result.as_deref_mut().expect("it has a time");
        result.window.started_unix_ms = 1_795_204_800_000;
    }
    let conclusions = compared(&all);
    assert_eq!(only(&conclusions).timing, None);
    // One text among them.
    let mut all = sides("AAAAABBBBB", |side, at| {
        1_000.0 + (side * 7 + at % 3) as f64
    });
    all[0][2].result = None;
    let conclusions = compared(&all);
    assert_eq!(only(&conclusions).timing, None);
    assert_eq!(conclusions.caveats, []);
}

/// What comparisons of sides without a difference, or with one, say.
#[derive(Debug, Default)]
struct Found {
    /// Share of comparisons that end with an effect.
    effects: f64,
    /// Share of intervals that hold the true ratio.
    covers: f64,
}

/// Noise of 2 %, with this correlation between consecutive runs.
fn found(runs: usize, correlation: f64, ratio: f64, repeats: u32) -> Found {
    let mut random = fastrand::Rng::with_seed(runs as u64);
    let order = "A".repeat(runs) + &"B".repeat(runs);
    let each = 1.0 / f64::from(repeats);
    let mut found = Found::default();
    for _ in 0..repeats {
        let mut state = normal(&mut random);
        let sides = sides(&order, |side, _| {
            let effect = if side == 1 { ratio } else { 1.0 };
            let value = 1_000.0 * effect * (0.02 * state).exp();
            let new = (1.0 - correlation * correlation).sqrt() * normal(&mut random);
            state = correlation * state + new;
            value
        });
        let conclusions = compared(&sides);
        let [low, high] = interval(only(&conclusions));
        let true_change = (ratio - 1.0) * 100.0;
        found.effects += if is_effect(only(&conclusions)) {
            each
        } else {
            0.0
        };
        found.covers += if low <= true_change && true_change <= high {
            each
        } else {
            0.0
        };
    }
    found
}

#[test]
fn correlated_noise_is_seldom_an_effect() {
    let found = found(5, 0.7, 1.0, 60);
    // 6 % (docs/comparing.md), plus three standard errors.
    assert!(found.effects <= 0.15 && found.covers >= 0.85, "{found:?}");
}

#[test]
fn a_regression_of_a_tenth_is_found_with_five_runs() {
    let found = found(5, 0.0, 0.9, 40);
    assert!(found.effects >= 0.95, "{found:?}");
}
