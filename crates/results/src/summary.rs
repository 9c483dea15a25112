//! The formulas of the report: mean, standard deviation, share within it, ranks of percentiles.

use std::ops::RangeInclusive;

/// Exact sums over samples, from which mean and standard deviation follow. Integers, so that the
/// order of merging cannot change a result.
///
/// The sums saturate: 2^128 square nanoseconds are 10^13 samples of an hour and a half each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Moments {
    pub(crate) count: u64,
    pub(crate) sum: u128,
    pub(crate) sum_of_squares: u128,
}

impl Moments {
    #[inline]
    pub(crate) fn add(&mut self, value: u64, count: u64) {
        let value = u128::from(value);
        let times = u128::from(count);
        self.count = self.count.saturating_add(count);
        self.sum = self.sum.saturating_add(value * times);
        // The square of a u64 fits into u128; times a count it may not.
        self.sum_of_squares = self
            .sum_of_squares
            .saturating_add((value * value).saturating_mul(times));
    }

    /// [`Self::add`] of a single sample: the path taken per request.
    #[inline]
    pub(crate) fn add_one(&mut self, value: u64) {
        let value = u128::from(value);
        self.count = self.count.saturating_add(1);
        self.sum = self.sum.saturating_add(value);
        self.sum_of_squares = self.sum_of_squares.saturating_add(value * value);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.sum_of_squares = self.sum_of_squares.saturating_add(other.sum_of_squares);
    }

    /// Arithmetic mean; 0 without samples.
    pub(crate) fn mean(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.sum as f64 / self.count as f64
        }
    }

    /// Sample standard deviation: sqrt((n Σx² - (Σx)²) / (n (n - 1))); 0 if n < 2.
    pub(crate) fn stdev(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let n = self.count as f64;
        // The difference of two large, nearly equal numbers: exact in integers, and only for sums
        // beyond 2^128 in floating point.
        let scaled = match self.exact_spread() {
            Some(spread) => spread as f64,
            None => {
                let sum = self.sum as f64;
                (n * self.sum_of_squares as f64 - sum * sum).max(0.0)
            }
        };
        (scaled / n / (n - 1.0)).sqrt()
    }

    /// n Σx² - (Σx)².
    fn exact_spread(&self) -> Option<u128> {
        let squares = u128::from(self.count).checked_mul(self.sum_of_squares)?;
        squares.checked_sub(self.sum.checked_mul(self.sum)?)
    }

    /// One standard deviation around the mean, both ends included.
    pub(crate) fn window(&self) -> RangeInclusive<f64> {
        let (mean, stdev) = (self.mean(), self.stdev());
        mean - stdev..=mean + stdev
    }
}

/// How many of `count` samples, in ascending order, must be passed to reach a percentile:
/// ceil(percent / 100 * count), at least 1 and at most `count`. (Nearest-rank definition.)
///
/// What is not a number counts as 0.
pub(crate) fn rank(percent: f64, count: u64) -> u64 {
    let percent = if percent.is_nan() {
        0.0
    } else {
        percent.clamp(0.0, 100.0)
    };
    let exact = percent * count as f64 / 100.0;
    // 99.9 * 1000 / 100 comes out as 999.0000000000001: without a grain of tolerance the rank would
    // be one too high wherever the decimal is not exact in binary.
    let rank = (exact - exact * 4.0 * f64::EPSILON).ceil() as u64;
    rank.clamp(1.min(count), count)
}

/// The first value whose cumulative count reaches `rank`.
pub(crate) fn value_at_rank(ascending: impl Iterator<Item = (u64, u64)>, rank: u64) -> Option<u64> {
    let mut cumulative = 0_u64;
    for (value, count) in ascending {
        cumulative = cumulative.saturating_add(count);
        if cumulative >= rank {
            return Some(value);
        }
    }
    None
}

/// `part` of `whole` in percent; `None` of nothing.
pub(crate) fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64 * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_nearest_ranks_also_where_decimals_are_not_exact() {
        let cases = [
            (50.0, 10, 5),
            (50.0, 11, 6),
            (99.9, 1000, 999),
            (99.99, 10_000, 9_999),
            (99.9, 10_000, 9_990),
            (95.0, 20, 19),
            (0.0, 7, 1),
            (100.0, 7, 7),
            (1e9, 7, 7),
            (-3.0, 7, 1),
            (f64::NAN, 7, 1),
            (50.0, 0, 0),
        ];
        for (percent, count, expected) in cases {
            assert_eq!(rank(percent, count), expected, "p{percent} of {count}");
        }
    }

    #[test]
    fn a_small_spread_around_a_large_mean_is_not_lost() {
        let mut moments = Moments::default();
        for value in [1_000_000_000_000, 1_000_000_000_001, 1_000_000_000_002] {
            moments.add_one(value);
        }
        assert_eq!(moments.stdev(), 1.0);
    }

    #[test]
    fn the_largest_values_saturate_instead_of_overflowing() {
        let mut moments = Moments::default();
        moments.add(u64::MAX, u64::MAX);
        moments.add(u64::MAX, 5);
        moments.add_one(0);
        assert!(moments.mean().is_finite() && moments.stdev().is_finite());
    }
}
