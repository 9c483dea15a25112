//! Sweeps whose rounds differ from each other: effects are neither shrunk nor missed.
//!
//! The default tests are small; `make statistics` runs the large one and prints its table.

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

/// Noise of a run; with `cold`, every tenth run is slow by eight standard deviations.
fn noise(random: &mut fastrand::Rng, cold: bool) -> f64 {
    let shift = if cold && random.f64() < 0.1 {
        -8.0
    } else {
        0.0
    };
    RUN_NOISE * (normal(random) + shift)
}

/// One sweep. The runs of a round have its noise in common; without rounds, there is none, and the
/// runs do not belong to a sweep.
fn runs(
    random: &mut fastrand::Rng,
    (levels, rounds): (u32, u32),
    cold: bool,
    has_rounds: bool,
) -> Vec<Observation> {
    let mut runs = Vec::new();
    for round in 1..=rounds {
        let of_round = ROUND_NOISE * normal(random);
        for level in 1..=levels {
            let effect = if level == 2 { RATIO.ln() } else { 0.0 };
            let shared = if has_rounds { of_round } else { 0.0 };
            let value = 30_000.0 * (effect + shared + noise(random, cold)).exp();
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

/// Sweeps of each row of the table.
const SWEEPS: u32 = 400;

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

fn found(size: (u32, u32), cold: bool, has_rounds: bool, sweeps: u32) -> Found {
    let mut random = fastrand::Rng::with_seed(u64::from(size.0) + 100);
    let mut found = Found::default();
    let each = 1.0 / f64::from(sweeps);
    for _ in 0..sweeps {
        let runs = runs(&mut random, size, cold, has_rounds);
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
    let found = found((3, 5), false, true, 100);
    assert!(found.bias.abs() < 0.5, "{found:?}");
    assert!((0.88..=1.0).contains(&found.coverage), "{found:?}");
    assert_eq!(found.exactly_one, 0.0, "{found:?}");
}

#[test]
#[ignore = "large: make statistics"]
fn table_of_effects_within_rounds() {
    println!(
        "one level has {RATIO} times the requests/s; noise {RUN_NOISE}, of rounds {ROUND_NOISE}"
    );
    println!(
        "{:>8} {:>7} {:>8} {:>9} {:>7} {:>8} {:>10} {:>7}",
        "levels", "rounds", "cold", "bias (%)", "covers", "found", "unblocked", "wrong"
    );
    for cold in [false, true] {
        for size in [(2, 5), (3, 5), (5, 5), (7, 5), (3, 10), (7, 10)] {
            let with_rounds = found(size, cold, true, SWEEPS);
            let without = found(size, cold, false, SWEEPS);
            println!(
                "{:>8} {:>7} {:>8} {:>9.2} {:>7.3} {:>8.3} {:>10.3} {:>7.3}",
                size.0,
                size.1,
                if cold { "10 %" } else { "none" },
                with_rounds.bias,
                with_rounds.coverage,
                with_rounds.power,
                without.power,
                with_rounds.wrong
            );
        }
    }
}
