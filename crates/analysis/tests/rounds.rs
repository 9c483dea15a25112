//! Sweeps whose rounds differ from each other: effects are neither shrunk nor missed.

use analysis::Observation;
use analysis::compare::{CompareOptions, compare_cells};
use results::Setting;

/// Noise of a run, and of a round, as standard deviations of logarithms.
const RUN_NOISE: f64 = 0.02;
const ROUND_NOISE: f64 = 0.04;

/// The true ratio of the second level to all others.
const RATIO: f64 = 1.05;

fn normal(random: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

/// One sweep. The runs of a round have its noise in common; without rounds, there is none, and the
/// runs do not belong to a sweep.
fn runs(
    random: &mut fastrand::Rng,
    (levels, rounds): (u32, u32),
    has_rounds: bool,
) -> Vec<Observation> {
    let mut runs = Vec::new();
    for round in 1..=rounds {
        let of_round = ROUND_NOISE * normal(random);
        for level in 1..=levels {
            let effect = if level == 2 { RATIO.ln() } else { 0.0 };
            let shared = if has_rounds { of_round } else { 0.0 };
            let value = 30_000.0 * (effect + shared + RUN_NOISE * normal(random)).exp();
            runs.push(Observation {
                cell: has_rounds.then_some(level),
                settings: vec![Setting {
                    factor: "buffers".to_owned(),
                    level: (1_u64 << (10 + level)).to_string(),
                }],
                run: round,
                values: [("requests_per_sec".to_owned(), value)].into(),
                ..Observation::default()
            });
        }
    }
    runs
}

/// What many sweeps found.
#[derive(Debug, Default)]
struct Found {
    /// Mean error of the effect, in points of percent.
    bias: f64,
    /// Share of intervals that contain the true ratio.
    coverage: f64,
    /// Share of sweeps in which the effect was found.
    power: f64,
    /// Share of levels without an effect whose ratio is exactly 1.
    exactly_one: f64,
    /// Share of sweeps in which a level without an effect was found to differ.
    wrong: f64,
}

fn found(size: (u32, u32), has_rounds: bool, sweeps: u32) -> Found {
    let mut random = fastrand::Rng::with_seed(u64::from(size.0) + 100);
    let mut found = Found::default();
    let each = 1.0 / f64::from(sweeps);
    for _ in 0..sweeps {
        let runs = runs(&mut random, size, has_rounds);
        let conclusions = compare_cells(&runs, &CompareOptions::default())
            .expect("there is something to compare");
        let comparison = &conclusions.comparisons[0];
        let differences: Vec<_> = comparison.levels[1..]
            .iter()
            .map(|level| level.difference.expect("there are enough runs"))
            .collect();
        let ratio = differences[0].ratio.expect("all values are above zero");
        let (low, high) = (
            differences[0].low.unwrap_or(0.0),
            differences[0].high.unwrap_or(f64::INFINITY),
        );
        let is_found = |index: usize| differences[index].adjusted_p_value < 0.05;
        found.bias += (ratio - RATIO) * 100.0 * each;
        found.coverage += f64::from(u8::from(low <= RATIO && RATIO <= high)) * each;
        found.power += f64::from(u8::from(is_found(0))) * each;
        let others = 1..differences.len();
        let ones = others
            .clone()
            .filter(|i| differences[*i].ratio == Some(1.0));
        found.exactly_one += ones.count() as f64 / others.len().max(1) as f64 * each;
        found.wrong += f64::from(u8::from(others.clone().any(is_found))) * each;
    }
    found
}

#[test]
fn the_effect_of_one_of_three_levels_is_not_shrunk() {
    let found = found((3, 5), true, 100);
    assert!(found.bias.abs() < 0.5, "{found:?}");
    assert!((0.88..=1.0).contains(&found.coverage), "{found:?}");
    assert_eq!(found.exactly_one, 0.0, "{found:?}");
}

#[test]
fn differences_between_rounds_hide_no_effect_and_make_none() {
    let [with_rounds, without] = [true, false].map(|has_rounds| found((3, 5), has_rounds, 100));
    let both = format!("{with_rounds:?} {without:?}");
    assert!(with_rounds.power >= without.power - 0.1, "{both}");
    // 5 % plus three standard errors.
    assert!(with_rounds.wrong <= 0.116, "{both}");
}
