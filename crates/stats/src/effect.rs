//! How large a difference between two samples is, and how surely.

use fastrand::Rng;

use crate::bootstrap::Interval;
use crate::sample::{median, sorted};

/// Percentile bootstrap interval of the difference of the medians, second minus first: each sample is
/// drawn again on its own. `confidence` is 0..1. `None` with fewer than two values in either, or with
/// what is no number.
#[must_use]
pub fn median_difference_bootstrap(
    first: &[f64],
    second: &[f64],
    confidence: f64,
    draws: usize,
    seed: u64,
) -> Option<Interval> {
    let _ = sorted(first);
    if first.len() < 2 || second.len() < 2 {
        return None;
    }
    let mut random = Rng::with_seed(seed);
    let mut drawn = Vec::new();
    let mut draw = |sample: &[f64]| {
        drawn.clear();
        drawn.extend((0..sample.len()).map(|_| sample[random.usize(..sample.len())]));
        median(&drawn)
    };
    let mut differences = Vec::with_capacity(draws);
    for _ in 0..draws {
        differences.push(draw(second)? - draw(first)?);
    }
    differences.sort_by(f64::total_cmp);
    let cut = ((1.0 - confidence) / 2.0 * draws as f64) as usize;
    Some(Interval {
        low: differences[cut],
        high: differences[draws - 1 - cut],
    })
}
