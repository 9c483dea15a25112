//! Confidence intervals of the median, whatever the distribution of the values.

use crate::bootstrap::ConfidenceInterval;
use crate::sample::sorted;

/// The shortest interval between two values of equal ranks from both ends that contains the true
/// median with at least this confidence, and its exact confidence. [x(k), x(n + 1 - k)] contains
/// the median with probability 1 - 2 P(B < k), B binomial over n and 1/2 (Thompson, "On Confidence
/// Ranges for the Median and Other Expectation Distributions for Populations of Unknown
/// Distribution Form", 1936). `None` if even the smallest and the largest value do not reach the
/// confidence, as with five values at 95 %, or if a value is NaN.
#[must_use]
pub fn median_interval(values: &[f64], confidence: f64) -> Option<(ConfidenceInterval, f64)> {
    let ascending = sorted(values);
    if ascending.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let count = ascending.len();
    let mut found = None;
    let mut tail = 0.0;
    // P(B = rank), from rank 0 on. With a thousand values it underflows to 0, which does not
    // matter.
    let mut probability = 0.5_f64.powi(i32::try_from(count).ok()?);
    for rank in 0..count / 2 {
        tail += probability;
        let held = 1.0 - 2.0 * tail;
        if held < confidence {
            break;
        }
        let ends = ascending.get(rank).zip(ascending.get(count - 1 - rank));
        found = ends.map(|(low, high)| {
            let (low, high) = (*low, *high);
            (ConfidenceInterval { low, high }, held)
        });
        probability *= (count - rank) as f64 / (rank + 1) as f64;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(count: u32) -> Vec<f64> {
        (1..=count).rev().map(f64::from).collect()
    }

    /// Ranks and probabilities as in tables of the sign test.
    #[test]
    fn the_interval_is_that_of_the_sign_test() {
        for (count, low, high, held) in [
            (6, 1.0, 6.0, 0.968_75),
            (8, 1.0, 8.0, 0.992_187_5),
            (9, 2.0, 8.0, 0.960_937_5),
            (10, 2.0, 9.0, 0.978_515_625),
            (15, 4.0, 12.0, 0.964_843_75),
            (20, 6.0, 15.0, 0.958_610_534_667_968_8),
        ] {
            let (interval, confidence) = median_interval(&first(count), 0.95).unwrap();
            assert_eq!((interval.low, interval.high), (low, high), "of {count}");
            assert!((confidence - held).abs() < 1e-12, "{count}: {confidence}");
        }
    }

    #[test]
    fn too_few_values_give_no_interval() {
        assert_eq!(median_interval(&first(5), 0.95), None);
        let (interval, held) = median_interval(&first(5), 0.9).unwrap();
        assert_eq!((interval.low, interval.high, held), (1.0, 5.0, 0.9375));
        assert_eq!(median_interval(&[], 0.0), None);
        assert_eq!(median_interval(&[1.0], 0.0), None);
        assert_eq!(median_interval(&[f64::NAN; 20], 0.9), None);
    }

    #[test]
    fn the_interval_covers_the_true_median_as_often_as_stated() {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut holds, mut claimed) = (0, 0.0);
        for _ in 0..4_000 {
            // Exponential values of mean 1, whose median is ln 2.
            let values: Vec<f64> = (0..7).map(|_| -(1.0 - random.f64()).ln()).collect();
            let (interval, held) = median_interval(&values, 0.95).unwrap();
            claimed = held;
            let ln_2 = std::f64::consts::LN_2;
            holds += u32::from(interval.low <= ln_2 && ln_2 <= interval.high);
        }
        let share = f64::from(holds) / 4_000.0;
        assert!((share - claimed).abs() < 0.01, "{share} of {claimed}");
    }
}
