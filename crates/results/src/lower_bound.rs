//! Which percentiles are exact, and which are only lower bounds.
//!
//! A request without a response enters the latency with its age. How long it would have taken is
//! not known, only that it is longer (the sample is right-censored). A percentile is exact if it
//! stays the same when each such request takes forever. Otherwise the histogram's value is a lower
//! bound.

use crate::{Histogram, Recording, summary};

impl Recording {
    /// For each of `percents` (0..=100), whether that percentile of [`Self::latency`] is only a
    /// lower bound. The maximum (100) is a lower bound as soon as one request has no response.
    #[must_use]
    pub fn lower_bounds(&self, percents: &[f64]) -> Vec<bool> {
        let (answered, unanswered) = self.latency_parts();
        lower_bounds(answered, unanswered, percents)
    }

    /// A percentile (0..=100) of [`Self::latency`], nanoseconds, if each request without a response
    /// takes forever; `None` if it is endless then. The true value is between
    /// [`Histogram::value_at_percentile`] and this. Both are the same if the percentile is exact.
    #[must_use]
    pub fn upper_bound_ns(&self, percent: f64) -> Option<u64> {
        let (answered, unanswered) = self.latency_parts();
        upper_bound_ns(answered, unanswered, percent)
    }

    /// The two parts of [`Self::latency`]: samples of answered requests, and ages of unanswered
    /// ones.
    #[must_use]
    pub fn latency_parts(&self) -> (&Histogram, &Histogram) {
        if self.counters.due == 0 {
            (&self.service_time, &self.timed_out)
        } else {
            (&self.response_time, &self.unanswered)
        }
    }

    /// Whether the longest latency is the age of a request without a response.
    #[must_use]
    pub fn max_is_of_unanswered(&self) -> bool {
        let (answered, unanswered) = self.latency_parts();
        max_is_bound(answered, unanswered)
    }
}

/// A percentile (0..=100) of both histograms together if each sample of `unanswered` is endless;
/// `None` if it is endless then.
pub(crate) fn upper_bound_ns(
    answered: &Histogram,
    unanswered: &Histogram,
    percent: f64,
) -> Option<u64> {
    let samples = answered.count().saturating_add(unanswered.count());
    let rank = summary::rank(percent, samples);
    (rank <= answered.count()).then(|| answered.value_at_rank(rank))
}

/// Whether the largest sample of both is a lower bound.
pub(crate) fn max_is_bound(answered: &Histogram, unanswered: &Histogram) -> bool {
    !unanswered.is_empty() && unanswered.max_ns() >= answered.max_ns()
}

/// For each of `percents`, whether that percentile of both histograms together is only a lower
/// bound.
pub(crate) fn lower_bounds(
    answered: &Histogram,
    unanswered: &Histogram,
    percents: &[f64],
) -> Vec<bool> {
    if unanswered.is_empty() {
        return vec![false; percents.len()];
    }
    let mut both = answered.clone();
    both.merge(unanswered);
    let is_lower_bound = |&percent: &f64| {
        let rank = summary::rank(percent, both.count());
        percent >= 100.0
            || rank > answered.count()
            || !both.is_same_bucket(both.value_at_rank(rank), answered.value_at_rank(rank))
    };
    percents.iter().map(is_lower_bound).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(samples: &[(u64, u64)]) -> Histogram {
        let mut histogram = Histogram::new();
        for &(value_ns, count) in samples {
            histogram.record_n(value_ns, count);
        }
        histogram
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn a_percentile_is_a_lower_bound_only_if_a_longer_wait_would_change_it() {
        // 17 requests without a response, whose ages are shorter than most latencies.
        let answered = histogram(&[(10 * MS, 44_756)]);
        let unanswered = histogram(&[(MS, 17)]);
        let percents = [50.0, 99.0, 99.9, 99.99, 100.0];
        assert_eq!(
            lower_bounds(&answered, &unanswered, &percents),
            [false, false, false, true, true]
        );
    }

    #[test]
    fn at_twice_the_capacity_the_upper_half_is_a_lower_bound() {
        let answered = histogram(&[(100 * MS, 500), (900 * MS, 500)]);
        let unanswered = histogram(&[(500 * MS, 1000)]);
        let percents = [10.0, 25.0, 26.0, 49.9, 50.0, 50.1, 95.0, 99.0];
        // From 500 ms on the order of the samples is not known.
        assert_eq!(
            lower_bounds(&answered, &unanswered, &percents),
            [false, false, true, true, true, true, true, true]
        );
    }

    #[test]
    fn lower_bounds_are_percentiles_that_change_if_unanswered_requests_take_forever() {
        let answered: Vec<u64> = (1..=300).map(|n| n * 7919 % 400 * MS).collect();
        let unanswered: Vec<u64> = (1..=40).map(|n| n * 6007 % 500 * MS).collect();
        let mut recorded: Vec<u64> = [answered.clone(), unanswered.clone()].concat();
        let mut forever: Vec<u64> = [answered.clone(), vec![u64::MAX; 40]].concat();
        recorded.sort_unstable();
        forever.sort_unstable();
        let one_each = |samples: &[u64]| {
            let pairs: Vec<(u64, u64)> = samples.iter().map(|ns| (*ns, 1)).collect();
            histogram(&pairs)
        };
        let (answered, unanswered) = (one_each(&answered), one_each(&unanswered));
        for tenths in 1..1000 {
            let percent = f64::from(tenths) / 10.0;
            let at = usize::try_from(summary::rank(percent, 340)).expect("it is small") - 1;
            assert_eq!(
                lower_bounds(&answered, &unanswered, &[percent]),
                [recorded[at] != forever[at]],
                "p{percent}"
            );
        }
    }

    #[test]
    fn the_upper_bound_is_the_percentile_if_unanswered_requests_take_forever() {
        let mut recording = Recording::new();
        for number in 1..=990 {
            recording.service_time.record(number * MS);
        }
        recording.timed_out.record_n(5 * MS, 10);
        let upper_ms = |percent: f64| recording.upper_bound_ns(percent).map(|ns| ns / MS);
        let near = |ms: u64| ms - ms / 500..=ms + ms / 500;
        let p50 = upper_ms(50.0).expect("half of them were answered");
        assert!(near(500).contains(&p50), "{p50} ms");
        let p99 = upper_ms(99.0).expect("99 % were answered");
        assert!(near(990).contains(&p99), "{p99} ms");
        assert_eq!(upper_ms(99.1), None);
        assert_eq!(upper_ms(100.0), None);
    }

    #[test]
    fn without_unanswered_requests_every_percentile_is_exact() {
        let known = histogram(&[(MS, 3)]);
        let none = Histogram::new();
        assert_eq!(lower_bounds(&known, &none, &[50.0, 100.0]), [false; 2]);
        assert_eq!(lower_bounds(&none, &none, &[50.0]), [false]);
        assert_eq!(lower_bounds(&none, &known, &[1.0, 50.0]), [true; 2]);
    }
}
