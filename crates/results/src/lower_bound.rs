//! Which percentiles are known, and of which only a lower bound is known.
//!
//! A request without a response enters the latency with its age. How long it would have taken is not known, only
//! that it is longer (the sample is right-censored). A percentile is known if it stays the same when each such
//! request takes forever. Otherwise the value in the histogram is a lower bound.

use std::fmt;

use crate::{Histogram, Recording, summary};

impl Recording {
    /// For each of `percents` (0..=100), whether that percentile of [`Self::latency`] is only a lower bound. 100, the
    /// maximum, is one as soon as a single request has no response.
    #[must_use]
    pub fn lower_bounds(&self, percents: &[f64]) -> Vec<bool> {
        let (answered, unanswered) = self.latency_parts();
        lower_bounds(answered, unanswered, percents)
    }

    /// What [`Self::latency`] is made of: samples of requests that were answered, and ages of requests that were not.
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
        !unanswered.is_empty() && unanswered.max_ns() >= answered.max_ns()
    }
}

/// For each of `percents`, whether that percentile of both histograms together is only a lower bound.
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

/// Percentiles that a text shows and that are only lower bounds. [`fmt::Display`] gives one line for people.
#[derive(Debug, Clone, PartialEq)]
pub struct LowerBounds {
    /// The percentiles, 0..=100, at least one.
    pub percents: Vec<f64>,
    /// Requests without a response.
    pub unanswered: u64,
    /// All requests of the distribution.
    pub requests: u64,
}

impl LowerBounds {
    /// Those of `printed` that are only lower bounds; `None` if there are none. The maximum is left out unless it
    /// is itself the age of a request without a response: of most runs with a rate a request is in flight at the end.
    #[must_use]
    pub fn among(printed: &[f64], recording: &Recording) -> Option<Self> {
        let (answered, unanswered) = recording.latency_parts();
        let percents: Vec<f64> = printed
            .iter()
            .copied()
            .zip(recording.lower_bounds(printed))
            .filter(|(percent, is_lower_bound)| {
                *is_lower_bound && (*percent < 100.0 || recording.max_is_of_unanswered())
            })
            .map(|(percent, _)| percent)
            .collect();
        (!percents.is_empty()).then(|| Self {
            percents,
            unanswered: unanswered.count(),
            requests: unanswered.count().saturating_add(answered.count()),
        })
    }
}

impl fmt::Display for LowerBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, percent) in self.percents.iter().enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            write!(f, "{comma}{percent}%")?;
        }
        let is = match self.percents.len() {
            1 => "is a lower bound",
            _ => "are lower bounds",
        };
        let Self {
            unanswered,
            requests,
            ..
        } = self;
        write!(
            f,
            " {is}: {unanswered} of {requests} requests had no response and count with the time they had waited"
        )
    }
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
        // 17 requests without a response, younger than most responses took.
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
    fn every_percentile_agrees_with_samples_of_which_the_unanswered_take_forever() {
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
    fn without_unanswered_requests_everything_is_known() {
        let known = histogram(&[(MS, 3)]);
        let none = Histogram::new();
        assert_eq!(lower_bounds(&known, &none, &[50.0, 100.0]), [false; 2]);
        assert_eq!(lower_bounds(&none, &none, &[50.0]), [false]);
        assert_eq!(lower_bounds(&none, &known, &[1.0, 50.0]), [true; 2]);
    }

    #[test]
    fn the_line_names_the_percentiles_and_how_many_requests_had_no_response() {
        let mut recording = Recording::new();
        recording.counters.due = 100;
        recording.response_time = histogram(&[(MS, 90)]);
        recording.unanswered = histogram(&[(1, 10)]);
        let bounds = LowerBounds::among(&[50.0, 90.0, 95.0, 99.0, 100.0], &recording);
        assert_eq!(
            bounds.map(|bounds| bounds.to_string()).as_deref(),
            Some(
                "95%, 99% are lower bounds: 10 of 100 requests had no response and count with the time they had waited"
            )
        );
        assert_eq!(LowerBounds::among(&[50.0], &recording), None);
        assert_eq!(LowerBounds::among(&[100.0], &recording), None);
        recording.unanswered = histogram(&[(2 * MS, 1)]);
        let bounds = LowerBounds::among(&[100.0], &recording).expect("the maximum is one");
        assert!(
            bounds
                .to_string()
                .starts_with("100% is a lower bound: 1 of")
        );
    }
}
