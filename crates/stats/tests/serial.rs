//! Sides measured one after the other, with noise of known correlation.

use fastrand::Rng;
use stats::{mann_whitney, median_difference_interval, serial_differences};

fn normal(random: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

/// Two sides in one row: noise of standard deviation 1 with this correlation between consecutive
/// values. The second side is shifted.
fn sides(random: &mut Rng, count: usize, correlation: f64, shift: f64) -> [Vec<f64>; 2] {
    let mut state = normal(random);
    let mut side = |shift: f64| -> Vec<f64> {
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            values.push(shift + state);
            state = correlation * state + (1.0 - correlation * correlation).sqrt() * normal(random);
        }
        values
    };
    [side(0.0), side(shift)]
}

/// What many pairs of sides found.
#[derive(Debug, Default)]
struct Found {
    /// Share in which a difference is found.
    effects: f64,
    /// Share of intervals that hold the true difference.
    covers: f64,
    widening: f64,
}

fn found(count: usize, correlation: f64, shift: f64, repeats: u32) -> Found {
    let mut random = Rng::with_seed(90 + count as u64);
    let each = 1.0 / f64::from(repeats);
    let mut found = Found::default();
    for _ in 0..repeats {
        let [first, second] = sides(&mut random, count, correlation, shift);
        let p_value = mann_whitney(&first, &second).expect("values").p_value;
        let plain = median_difference_interval(&first, &second, 0.95, random.u64(..))
            .expect("there are enough values");
        let serial = serial_differences(&[[first, second]]).expect("there is noise");
        let wide = serial[0].interval(0.95).expect("a share");
        let low = plain.low.min(wide.low);
        let high = plain.high.max(wide.high);
        let add = |is: bool| if is { each } else { 0.0 };
        let is_found = p_value.max(serial[0].p_value()) < 0.05 && !(low <= 0.0 && 0.0 <= high);
        found.effects += add(is_found);
        found.covers += add(low <= shift && shift <= high);
        found.widening += serial[0].widening() * each;
    }
    found
}

#[test]
fn correlated_noise_is_seldom_called_a_difference() {
    for (count, correlation, least_cover) in [(5, 0.4, 0.90), (5, 0.7, 0.86), (10, 0.7, 0.86)] {
        let found = found(count, correlation, 0.0, 100);
        // 7 % at most (docs/comparing.md), plus three standard errors.
        assert!(found.effects <= 0.16, "{count}, {correlation}: {found:?}");
        assert!(
            found.covers >= least_cover,
            "{count}, {correlation}: {found:?}"
        );
        assert!(found.widening > 1.2, "{count}, {correlation}: {found:?}");
    }
}

#[test]
fn a_difference_far_beyond_independent_noise_is_found() {
    // A tenth, with noise of 2 % and of 1 %.
    for (shift, least) in [(5.0, 0.94), (10.0, 1.0)] {
        let found = found(5, 0.0, shift, 60);
        assert!(found.effects >= least, "{shift}: {found:?}");
    }
}

#[test]
fn long_sides_of_independent_values_are_as_good_as_known_to_be() {
    let mut random = Rng::with_seed(5);
    let [first, second] = sides(&mut random, 200, 0.0, 1.0);
    let found = &serial_differences(&[[first, second]]).expect("there is noise")[0];
    assert!(found.widening() < 1.1, "{}", found.widening());
    assert!(found.correlation < 0.1, "{}", found.correlation);
    let [first, second] = sides(&mut random, 200, 0.7, 1.0);
    let found = &serial_differences(&[[first, second]]).expect("there is noise")[0];
    assert!(
        (0.6..0.8).contains(&found.correlation),
        "{}",
        found.correlation
    );
    // A mean of correlated values varies by the root of (1 + 0.7) / (1 - 0.7) as much.
    assert!(
        (1.9..2.8).contains(&found.widening()),
        "{}",
        found.widening()
    );
}

#[test]
fn cells_share_the_correlation() {
    let mut random = Rng::with_seed(6);
    let cells: Vec<[Vec<f64>; 2]> = (0..30).map(|_| sides(&mut random, 5, 0.7, 0.0)).collect();
    let found = serial_differences(&cells).expect("there is noise");
    assert_eq!(found.len(), 30);
    let all: Vec<f64> = found.iter().map(|it| it.correlation).collect();
    assert!(
        all.iter()
            .all(|it| *it == all[0] && (0.5..0.85).contains(it)),
        "{all:?}"
    );
}

#[test]
fn what_has_no_noise_or_no_values_has_no_serial_difference() {
    let pair = |first: &[f64], second: &[f64]| serial_differences(&[[first.into(), second.into()]]);
    assert!(serial_differences(&[]).is_none());
    assert!(pair(&[1.0], &[1.0, 2.0]).is_none());
    assert!(pair(&[1.0, 1.0], &[2.0, 2.0]).is_none());
    assert!(pair(&[1.0, f64::NAN], &[1.0, 2.0]).is_none());
    let found = pair(&[1.0, 2.0], &[1.0, 2.0]).expect("there is noise");
    assert!((found[0].p_value() - 1.0).abs() < 1e-9);
    assert!(found[0].interval(1.0).is_none());
}
