//! A value with what is known about it: its bounds, and whether samples suffice.
//!
//! A request without a response enters a distribution with its age. How long it would have taken is
//! not known, only that it is longer (the sample is right-censored). A percentile is exact if it
//! stays the same when each such request takes forever. Otherwise it is a lower bound.

use std::borrow::Cow;

use plan::readable;

use crate::metric::Statistic;
use crate::{Histogram, enough_samples, summary};

/// The probability that a percentile with too few samples is below [`Measured::low`], and that it
/// is above [`Measured::high`].
const OUTSIDE: f64 = 0.005;

/// The largest width of a bucket of a histogram, as a share of its values.
const BUCKET: f64 = 1.0 / 1024.0;

/// A value of a metric in the metric's unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// As reports show it.
    pub value: f64,
    /// The true value is not below this. It is `value` unless samples are too few; then it is the
    /// lower end of a 99 % confidence interval.
    pub low: f64,
    /// The true value is not above this: `value` if it is exact, infinite if nothing limits it.
    pub high: f64,
    /// Samples of its distribution; `None` if it is not of a distribution.
    pub samples: Option<u64>,
    /// Whether they suffice for this percentile: [`enough_samples`].
    pub enough_samples: bool,
    /// Whether the value depends on requests without a response: it is larger in three digits, as
    /// reports print it, if they take forever. A mean would always be: it is a lower bound if it is
    /// larger when they take twice their age.
    pub is_lower_bound: bool,
}

impl Measured {
    /// A value that is known exactly.
    #[must_use]
    pub fn exact(value: f64) -> Self {
        Self {
            value,
            low: value,
            high: value,
            samples: None,
            enough_samples: true,
            is_lower_bound: false,
        }
    }

    /// The same, grown by a factor.
    #[must_use]
    pub(crate) fn times(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            low: self.low * factor,
            high: self.high * factor,
            ..self
        }
    }

    /// The same, if `is_lower_bound` with the true value anywhere above.
    #[must_use]
    pub fn or_more(self, is_lower_bound: bool) -> Self {
        Self {
            high: if is_lower_bound {
                f64::INFINITY
            } else {
                self.high
            },
            is_lower_bound,
            ..self
        }
    }
}

/// The samples of a distribution of times: measured ones, and ages of requests without a response.
#[derive(Debug, Clone)]
pub struct Samples<'a> {
    measured: &'a Histogram,
    ages: &'a Histogram,
    all: Cow<'a, Histogram>,
}

impl<'a> Samples<'a> {
    /// The samples of both parts together. `ages` are lower bounds.
    #[must_use]
    pub fn new(measured: &'a Histogram, ages: &'a Histogram) -> Self {
        let mut all = Cow::Borrowed(measured);
        if !ages.is_empty() {
            all.to_mut().merge(ages);
        }
        Self {
            measured,
            ages,
            all,
        }
    }

    /// The measured samples and the ages in one histogram.
    #[must_use]
    pub fn all(&self) -> &Histogram {
        &self.all
    }

    /// The measured ones, and the ages of requests without a response.
    #[must_use]
    pub fn parts(&self) -> (&'a Histogram, &'a Histogram) {
        (self.measured, self.ages)
    }

    /// A percentile (0..=100), microseconds; `None` without samples. The maximum (100) is a lower
    /// bound if it is itself the age of a request without a response.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Option<Measured> {
        let samples = self.all.count();
        let value_ns = self.all.value_at_percentile(percent);
        let highest = match percent {
            100.0.. if self.max_is_age() => None,
            100.0.. => Some(value_ns),
            _ => self.highest_ns(summary::rank(percent, samples)),
        };
        let high = highest.map_or(f64::INFINITY, us);
        let is_lower_bound = is_shown_larger(us(value_ns), high);
        let exact = Measured {
            high,
            samples: Some(samples),
            is_lower_bound,
            ..Measured::exact(us(value_ns))
        };
        let known = if enough_samples(percent, samples) {
            exact
        } else {
            let (low, high) = ranks_around(percent, samples);
            let high_ns = high.and_then(|rank| self.highest_ns(rank));
            Measured {
                low: low.map_or(0.0, |rank| us(self.all.value_at_rank(rank))),
                high: high_ns.map_or(f64::INFINITY, us),
                enough_samples: false,
                ..exact
            }
        };
        (samples > 0).then_some(known)
    }

    /// A number of the distribution, in microseconds or in percent; `None` without samples.
    #[must_use]
    pub fn statistic(&self, statistic: Statistic) -> Option<Measured> {
        let all = self.all();
        let number = match statistic {
            Statistic::Percentile(percent) => return self.percentile(percent),
            Statistic::Max => return self.percentile(100.0),
            Statistic::Mean => all.mean_ns() / 1e3,
            Statistic::Stdev => all.stdev_ns() / 1e3,
            Statistic::Min => us(all.min_ns()?),
            Statistic::WithinStdevPercent => all.within_stdev_percent()?,
        };
        let known = Measured {
            samples: Some(all.count()),
            ..Measured::exact(number)
        };
        let is_bound = statistic == Statistic::Mean && {
            let ages_ns = self.ages.mean_ns() * self.ages.count() as f64;
            let more = number + ages_ns / 1e3 / all.count() as f64;
            !self.ages.is_empty() && readable::time_us(more) != readable::time_us(number)
        };
        (!all.is_empty()).then(|| known.or_more(is_bound))
    }

    fn max_is_age(&self) -> bool {
        !self.ages.is_empty() && self.ages.max_ns() >= self.measured.max_ns()
    }

    /// The sample of this rank if each request without a response takes forever; `None` if it is
    /// one of them.
    fn highest_ns(&self, rank: u64) -> Option<u64> {
        (rank <= self.measured.count()).then(|| self.measured.value_at_rank(rank))
    }
}

/// The ranks among `count` samples between which a percentile (0..=100) lies with a probability of
/// 99 %, whatever the distribution: the number of samples above it is binomial (Conover, *Practical
/// Nonparametric Statistics*, 3.2). An end is `None` where no sample limits it.
fn ranks_around(percent: f64, count: u64) -> (Option<u64>, Option<u64>) {
    let above = 1.0 - percent / 100.0;
    if above >= 1.0 {
        return (None, Some(count.min(1)));
    }
    // The probability that none is above, one, and so on.
    let mut probability = (count as f64 * (-above).ln_1p()).exp();
    let mut up_to = probability;
    let mut high = (up_to > OUTSIDE).then_some(None);
    for number in 0..count {
        if up_to > OUTSIDE {
            high = high.or(Some(Some(count - number + 1)));
        }
        if up_to >= 1.0 - OUTSIDE {
            return (Some(count - number), high.flatten());
        }
        let more = (count - number) as f64 / (number + 1) as f64;
        probability *= more * above / (1.0 - above);
        up_to += probability;
    }
    (None, high.flatten())
}

/// Whether a report shows the larger one of two times as larger, and the histogram tells them
/// apart: two neighbouring buckets may lie on both sides of a rounding limit.
fn is_shown_larger(value_us: f64, high_us: f64) -> bool {
    high_us > value_us * (1.0 + BUCKET) && readable::time_us(high_us) != readable::time_us(value_us)
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
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

    fn lower_bounds(measured: &Histogram, ages: &Histogram, percents: &[f64]) -> Vec<bool> {
        let samples = Samples::new(measured, ages);
        let is_bound = |percent: &f64| samples.percentile(*percent).unwrap().is_lower_bound;
        percents.iter().map(is_bound).collect()
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn a_percentile_is_a_lower_bound_only_if_a_longer_wait_would_change_it() {
        // 17 requests without a response, whose ages are shorter than most latencies.
        let answered = histogram(&[(10 * MS, 44_756)]);
        let unanswered = histogram(&[(MS, 17)]);
        let percents = [50.0, 99.0, 99.9, 99.99];
        assert_eq!(
            lower_bounds(&answered, &unanswered, &percents),
            [false, false, false, true]
        );
    }

    #[test]
    fn the_maximum_is_a_lower_bound_if_it_is_the_age_of_a_request_without_a_response() {
        let answered = histogram(&[(10 * MS, 5)]);
        for (age, is_bound) in [(9, false), (10, true), (11, true)] {
            let ages = histogram(&[(age * MS, 1)]);
            assert_eq!(
                lower_bounds(&answered, &ages, &[100.0]),
                [is_bound],
                "{age}"
            );
        }
    }

    #[test]
    fn a_mean_is_a_lower_bound_if_requests_without_a_response_have_a_part_in_it() {
        let answered = histogram(&[(10 * MS, 950)]);
        let is_bound = |ages: &[(u64, u64)]| {
            let ages = histogram(ages);
            let mean = Samples::new(&answered, &ages).statistic(Statistic::Mean);
            mean.unwrap().is_lower_bound
        };
        // 5 % ran into a timeout; one was in flight at the end.
        assert!(is_bound(&[(500 * MS, 50)]));
        assert!(!is_bound(&[(MS, 1)]));
        assert!(!is_bound(&[]));
    }

    #[test]
    fn a_change_that_three_digits_do_not_show_is_none() {
        // Without a response to one of 600 requests, each percentile moves by one sample.
        let measured: Vec<(u64, u64)> = (0..599).map(|n| (50 * MS + n * 1_000, 1)).collect();
        let samples = histogram(&measured);
        let one = histogram(&[(3 * MS, 1)]);
        assert_eq!(
            lower_bounds(&samples, &one, &[50.0, 90.0, 99.0]),
            [false; 3]
        );
        let far: Vec<(u64, u64)> = (0..599).map(|n| (50 * MS + n * 200_000, 1)).collect();
        assert_eq!(
            lower_bounds(&histogram(&far), &one, &[50.0, 99.0]),
            [false, true]
        );
    }

    #[test]
    fn one_of_many_without_a_response_changes_only_what_is_shown_differently() {
        let bounds = |step_ns: u64, age_ms: u64| {
            let measured: Vec<(u64, u64)> =
                (0..1_499).map(|n| (49_200_000 + n * step_ns, 1)).collect();
            let age = histogram(&[(age_ms * MS, 1)]);
            lower_bounds(&histogram(&measured), &age, &[50.0, 90.0, 99.0, 99.99])
        };
        // Close together, one rank is less than a bucket, even at a limit of rounding.
        assert_eq!(bounds(1_000, 1), [false, false, false, true]);
        // Far apart, it is more: 798 to 799 ms at p50, and nothing in three digits above 1 s.
        assert_eq!(bounds(1_000_000, 1), [true, false, false, true]);
        // Older than the percentile, it changes nothing below its own rank.
        assert_eq!(bounds(1_000_000, 1_000), [false, false, false, true]);
        assert_eq!(bounds(1_000_000, 9_000), [false, false, false, true]);
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
        let mut answered = Histogram::new();
        for number in 1..=990 {
            answered.record(number * MS);
        }
        let ages = histogram(&[(5 * MS, 10)]);
        let samples = Samples::new(&answered, &ages);
        let high_ms = |percent: f64| samples.percentile(percent).unwrap().high / 1e3;
        let near = |ms: f64| ms - ms / 500.0..=ms + ms / 500.0;
        let p50 = high_ms(50.0);
        assert!(near(500.0).contains(&p50), "{p50} ms");
        let p99 = high_ms(99.0);
        assert!(near(990.0).contains(&p99), "{p99} ms");
        assert_eq!(high_ms(99.1), f64::INFINITY);
    }

    #[test]
    fn without_unanswered_requests_every_percentile_is_exact() {
        let known = histogram(&[(MS, 3)]);
        let none = Histogram::new();
        assert_eq!(lower_bounds(&known, &none, &[50.0, 100.0]), [false; 2]);
        assert_eq!(Samples::new(&none, &none).percentile(50.0), None);
        assert_eq!(lower_bounds(&none, &known, &[1.0, 50.0]), [true; 2]);
    }

    #[test]
    fn with_too_few_samples_a_percentile_lies_between_two_of_them() {
        let measured: Vec<(u64, u64)> = (1..=400).map(|n| (n * MS, 1)).collect();
        let measured = histogram(&measured);
        let none = Histogram::new();
        let samples = Samples::new(&measured, &none);
        // Of 400 samples 4 are above p99, more than 10 with a probability of 0.27 %, and none with
        // one of 1.8 %: only the lower end is known.
        let p99 = samples.percentile(99.0).unwrap();
        assert!(!p99.enough_samples && !p99.is_lower_bound);
        assert!((389e3..391e3).contains(&p99.low), "{}", p99.low);
        assert_eq!(p99.high, f64::INFINITY);
        // None is above p98.5 with a probability of 0.24 %, at most one with 1.7 %.
        let p98 = samples.percentile(98.5).unwrap();
        assert_eq!(p98.high, 400e3);
        let p90 = samples.percentile(90.0).unwrap();
        assert_eq!((p90.low, p90.high), (p90.value, p90.value));
    }

    /// The sum of binomial probabilities, in the order of the definition.
    fn up_to(successes: u64, trials: u64, probability: f64) -> f64 {
        let choose = |k: u64| {
            (0..k)
                .map(|i| (trials - i) as f64 / (i + 1) as f64)
                .product::<f64>()
        };
        let term = |k: u64| {
            let rest = i32::try_from(trials - k).unwrap();
            let power = i32::try_from(k).unwrap();
            choose(k) * probability.powi(power) * (1.0 - probability).powi(rest)
        };
        (0..=successes).map(term).sum()
    }

    #[test]
    fn a_percentile_is_outside_its_interval_in_one_of_two_hundred_cases_on_each_side() {
        for (percent, count) in [
            (99.0, 400),
            (99.0, 900),
            (99.9, 2000),
            (50.0, 15),
            (90.0, 60),
        ] {
            let above = 1.0 - percent / 100.0;
            let (low, high) = ranks_around(percent, count);
            let low = low.expect("it has a lower end");
            assert!(
                1.0 - up_to(count - low, count, above) <= OUTSIDE,
                "p{percent} of {count}"
            );
            assert!(1.0 - up_to(count - low - 1, count, above) > OUTSIDE);
            match high {
                Some(high) => assert!(up_to(count - high, count, above) <= OUTSIDE),
                None => assert!(up_to(0, count, above) > OUTSIDE),
            }
        }
        assert_eq!(ranks_around(99.0, 3), (Some(2), None));
        assert_eq!(ranks_around(0.0, 3), (None, Some(1)));
    }
}
