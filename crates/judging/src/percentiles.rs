//! Which of the percentiles that a report shows are unreliable or only lower bounds.

use results::{Recording, is_thin, samples_above};

/// Percentiles with too few samples above them. `Display` gives one line for people.
#[derive(Debug, Clone, PartialEq)]
pub struct ThinPercentiles {
    /// Samples of the distribution.
    pub samples: u64,
    /// The percentile, 0..=100, and how many samples lie above it.
    pub rows: Vec<(f64, u64)>,
}

impl ThinPercentiles {
    /// Those of `printed` that are unreliable in a distribution of `samples`; `None` if all are
    /// reliable, or if there are no samples.
    #[must_use]
    pub fn among(printed: &[f64], samples: u64) -> Option<Self> {
        let rows: Vec<(f64, u64)> = printed
            .iter()
            .filter(|percent| is_thin(**percent, samples))
            .map(|percent| (*percent, samples_above(*percent, samples)))
            .collect();
        (!rows.is_empty()).then_some(Self { samples, rows })
    }
}

/// Percentiles that are only lower bounds. `Display` gives one line for people.
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
    /// Those of `printed` that are only lower bounds; `None` if there are none.
    #[must_use]
    pub fn among(printed: &[f64], recording: &Recording) -> Option<Self> {
        let samples = recording.latency_samples();
        let is_bound = |percent: &f64| {
            let known = samples.percentile(*percent);
            known.is_some_and(|known| known.is_lower_bound)
        };
        let percents: Vec<f64> = printed.iter().copied().filter(is_bound).collect();
        let (_, ages) = samples.parts();
        (!percents.is_empty()).then(|| Self {
            percents,
            unanswered: ages.count(),
            requests: samples.all().count(),
        })
    }
}

#[cfg(test)]
mod tests {
    use results::Histogram;

    use super::*;

    const MS: u64 = 1_000_000;

    fn histogram(value_ns: u64, count: u64) -> Histogram {
        let mut histogram = Histogram::new();
        histogram.record_n(value_ns, count);
        histogram
    }

    #[test]
    fn unreliable_percentiles_are_listed_with_the_samples_above_them() {
        let printed = [50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0];
        let thin = ThinPercentiles::among(&printed, 1000).unwrap();
        assert_eq!(thin.rows, [(99.9, 1), (99.99, 0), (99.999, 0)]);
        assert_eq!(
            thin.to_string(),
            "p99.9, p99.99 and p99.999 are unreliable: fewer than 10 of 1,000 samples lie above \
             them; run longer"
        );
        let thin = ThinPercentiles::among(&[99.9], 1000).unwrap();
        assert_eq!(
            thin.to_string(),
            "p99.9 is unreliable: fewer than 10 of 1,000 samples lie above it; run longer"
        );
    }

    #[test]
    fn nothing_is_listed_where_the_samples_suffice_or_where_there_are_none() {
        for (printed, samples) in [
            (&[50.0, 99.0, 100.0][..], 1000),
            (&[99.999, 100.0], 1_000_000),
            (&[100.0], 1),
            (&[50.0, 99.0], 0),
            (&[], 5),
        ] {
            assert_eq!(ThinPercentiles::among(printed, samples), None, "{samples}");
        }
        assert!(ThinPercentiles::among(&[99.999], 980_000).is_some());
    }

    #[test]
    fn one_request_of_1500_without_a_response_makes_no_lower_bound_of_p50_and_p90() {
        let mut recording = Recording::new();
        recording.counters.due = 1_500;
        for request in 0..1_499 {
            // 5.0 to 5.3 ms: the next larger one is the same in three digits.
            recording.response_time.record_n(5 * MS + 200 * request, 1);
        }
        recording.unanswered = histogram(MS, 1);
        let bounds = LowerBounds::among(&[50.0, 90.0, 99.0], &recording);
        assert_eq!(bounds, None);
        let bounds = LowerBounds::among(&[50.0, 99.99], &recording).unwrap();
        assert_eq!(bounds.percents, [99.99]);
    }

    #[test]
    fn lower_bounds_are_listed_with_the_requests_that_had_no_response() {
        let mut recording = Recording::new();
        recording.counters.due = 100;
        recording.response_time = histogram(MS, 90);
        recording.unanswered = histogram(1, 10);
        let bounds = LowerBounds::among(&[50.0, 90.0, 95.0, 99.0, 100.0], &recording).unwrap();
        assert_eq!(
            bounds.to_string(),
            "p95 and p99 are lower bounds: 10 of 100 requests had no response and count with \
             the time they had waited"
        );
        assert_eq!(LowerBounds::among(&[50.0], &recording), None);
        assert_eq!(LowerBounds::among(&[100.0], &recording), None);
        recording.unanswered = histogram(2 * MS, 1);
        let bounds = LowerBounds::among(&[100.0], &recording).unwrap();
        assert!(
            bounds
                .to_string()
                .starts_with("the maximum is a lower bound: 1 of 91")
        );
    }
}
