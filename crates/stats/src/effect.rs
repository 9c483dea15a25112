//! How large the difference of two samples is, how surely, and how large it would have to be to
//! show.

use fastrand::Rng;
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::bootstrap::Interval;
use crate::rank::mann_whitney_attained_level;
use crate::sample::median;

/// Bootstrap interval of the difference of the medians, second minus first: each sample is drawn
/// again on its own, and the interval holds the middle share of the differences found (Efron,
/// "Bootstrap Methods: Another Look at the Jackknife", 1979). `None` with fewer than two values in
/// either, or a confidence that is not between 0 and 1.
///
/// The medians of few values take few values. Simulated over 4 to 15 values of normal, lognormal
/// and exponential samples an interval at 95 % holds 92 to 97 % where the numbers of values are
/// even, but 96 to 98 % where both are odd; those leave 1.3 times as much outside.
#[must_use]
pub fn median_difference_interval(
    first: &[f64],
    second: &[f64],
    confidence: f64,
    seed: u64,
) -> Option<Interval> {
    const DRAWS: usize = 4_000;
    const ODD_SAMPLES_TAIL: f64 = 1.3;
    let is_share = confidence > 0.0 && confidence < 1.0;
    if first.len() < 2 || second.len() < 2 || !is_share {
        return None;
    }
    let mut random = Rng::with_seed(seed);
    let mut drawn = Vec::new();
    let mut draw = |sample: &[f64]| {
        drawn.clear();
        drawn.extend((0..sample.len()).map(|_| sample[random.usize(..sample.len())]));
        median(&drawn)
    };
    let mut differences = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        differences.push(draw(second)? - draw(first)?);
    }
    differences.sort_by(f64::total_cmp);
    let both_odd = first.len() % 2 == 1 && second.len() % 2 == 1;
    let tail = (1.0 - confidence) / 2.0 * if both_odd { ODD_SAMPLES_TAIL } else { 1.0 };
    let cut = ((tail * DRAWS as f64) as usize).min((DRAWS - 1) / 2);
    Some(Interval {
        low: differences[cut],
        high: differences[DRAWS - 1 - cut],
    })
}

/// Standard deviation of normal values within groups, by the median distance of all pairs of one
/// group: that of two normal values has the median 0.6745 sqrt(2) times their deviation. A single
/// wild value does not move it far. Of long groups the pairs of near values are enough. `None` if
/// no group has two values.
#[must_use]
pub fn noise(groups: &[Vec<f64>]) -> Option<f64> {
    const NEAR: usize = 200;
    const MEDIAN_OF_PAIRS: f64 = 0.953_872_552;
    let distances: Vec<f64> = groups
        .iter()
        .flat_map(|group| {
            let pairs = |(index, value): (usize, &f64)| {
                let value = *value;
                group[index.saturating_sub(NEAR)..index]
                    .iter()
                    .map(move |other| (value - other).abs())
            };
            group.iter().enumerate().flat_map(pairs)
        })
        .collect();
    median(&distances).map(|distance| distance / MEDIAN_OF_PAIRS)
}

/// The level at which a difference counts as found.
pub const LEVEL: f64 = 0.05;

/// How probable it is that a difference of [`detectable_difference`] is found.
pub const POWER: f64 = 0.8;

/// The difference of one group from a reference that is found at [`LEVEL`] with probability
/// [`POWER`], with this many values in each of the groups and normal noise of this deviation.
/// `None` if no difference can be found, for want of values.
///
/// That of t-tests, (t(1 - level / 2) + t(power)) noise sqrt(2 / n): for two groups at the level
/// that the exact Mann-Whitney test attains, for more at that of the first of as many comparisons
/// as there are other groups.
#[must_use]
pub fn detectable_difference(noise: f64, values: usize, groups: usize) -> Option<f64> {
    let level = match groups {
        0 | 1 => return None,
        2 => mann_whitney_attained_level(values, LEVEL),
        _ if values < GROUP_VALUES_MIN => return None,
        _ => LEVEL / (groups - 1) as f64,
    };
    detectable(noise, values, level, (values - 1) * groups)
}

/// The same for the two groups of each cell, which [`cell_by_cell`](crate::cell_by_cell) judges: at
/// the level of the first of as many comparisons as there are cells.
#[must_use]
pub fn detectable_difference_in_cells(noise: f64, values: usize, cells: usize) -> Option<f64> {
    if values < GROUP_VALUES_MIN || cells == 0 {
        return None;
    }
    let level = LEVEL / cells as f64;
    detectable(noise, values, level, (values - 1) * 2 * cells)
}

fn detectable(noise: f64, values: usize, level: f64, freedom: usize) -> Option<f64> {
    if level <= 0.0 {
        return None;
    }
    let t = StudentsT::new(0.0, 1.0, freedom as f64).ok()?;
    let reach = t.inverse_cdf(1.0 - level / 2.0) + t.inverse_cdf(POWER);
    Some(noise * reach * (2.0 / values as f64).sqrt())
}

/// With fewer values in each of several groups no difference is looked for.
pub const GROUP_VALUES_MIN: usize = 3;

/// The fewest values in each group with which what is detectable is at most this; `None` if a
/// thousand are too few.
#[must_use]
pub fn values_needed(difference: f64, detectable: impl Fn(usize) -> Option<f64>) -> Option<usize> {
    const VALUES_MAX: usize = 1_000;
    (2..=VALUES_MAX).find(|values| detectable(*values).is_some_and(|found| found <= difference))
}
