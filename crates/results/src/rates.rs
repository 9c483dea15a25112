//! Requests per second of one worker over one interval: the samples of wrk's Req/Sec row.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::summary::{self, Moments};

/// Rate samples of all workers in one pool, in whole requests per second **per worker**, as wrk
/// takes them. Equal values are stored once with their count, so a long run takes little memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "Vec<RateSample>", into = "Vec<RateSample>")]
pub struct Rates {
    counts: BTreeMap<u64, u64>,
}

/// Equal rate samples as they are saved: the rate, and how often it was sampled.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "AnyRateSample", into = "(u64, u64)")]
#[cfg_attr(feature = "schema", schemars(!from, rename = "Sample"))]
struct RateSample {
    requests_per_sec: u64,
    count: u64,
}

/// The current form, and that of documents of version 1.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum AnyRateSample {
    Pair(u64, u64),
    Object { requests_per_sec: u64, count: u64 },
}

impl From<AnyRateSample> for RateSample {
    fn from(sample: AnyRateSample) -> Self {
        let (AnyRateSample::Pair(requests_per_sec, count)
        | AnyRateSample::Object {
            requests_per_sec,
            count,
        }) = sample;
        Self {
            requests_per_sec,
            count,
        }
    }
}

impl From<RateSample> for (u64, u64) {
    fn from(sample: RateSample) -> Self {
        (sample.requests_per_sec, sample.count)
    }
}

impl Rates {
    /// Adds one sample, in whole requests per second.
    pub fn add(&mut self, requests_per_sec: u64) {
        let count = self.counts.entry(requests_per_sec).or_default();
        *count = count.saturating_add(1);
    }

    /// Adds the samples of another worker.
    pub fn merge(&mut self, other: &Self) {
        for (&value, &more) in &other.counts {
            let count = self.counts.entry(value).or_default();
            *count = count.saturating_add(more);
        }
    }

    /// Number of samples of all workers.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.moments().count
    }

    /// The smallest sample, requests per second; `None` without samples.
    #[must_use]
    pub fn min(&self) -> Option<u64> {
        self.counts.first_key_value().map(|(&value, _)| value)
    }

    /// The largest sample, requests per second; `None` without samples.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        self.counts.last_key_value().map(|(&value, _)| value)
    }

    /// Arithmetic mean; 0 without samples.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.moments().mean()
    }

    /// Sample standard deviation (n - 1); 0 with fewer than two samples.
    #[must_use]
    pub fn stdev(&self) -> f64 {
        self.moments().stdev()
    }

    /// Share of samples within one standard deviation of the mean, 0..=100; `None` without samples.
    #[must_use]
    pub fn within_stdev_percent(&self) -> Option<f64> {
        let moments = self.moments();
        let inside = moments.window();
        let within = self
            .distinct()
            .filter(|&(value, _)| inside.contains(&(value as f64)))
            .fold(0_u64, |total, (_, count)| total.saturating_add(count));
        summary::percent(within, moments.count)
    }

    /// The smallest sample that at least `percent` of all samples do not exceed, by the rule of
    /// [`crate::Histogram::value_at_percentile`]; 0 without samples.
    #[must_use]
    pub fn value_at_percentile(&self, percent: f64) -> u64 {
        let rank = summary::rank(percent, self.count());
        summary::value_at_rank(self.distinct(), rank).unwrap_or(0)
    }

    /// Distinct values with their counts, ascending.
    pub fn distinct(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts.iter().map(|(&value, &count)| (value, count))
    }

    fn moments(&self) -> Moments {
        let mut moments = Moments::default();
        for (value, count) in self.distinct() {
            moments.add(value, count);
        }
        moments
    }
}

impl From<Vec<RateSample>> for Rates {
    fn from(samples: Vec<RateSample>) -> Self {
        let mut rates = Self::default();
        for sample in samples.into_iter().filter(|sample| sample.count > 0) {
            let count = rates.counts.entry(sample.requests_per_sec).or_default();
            *count = count.saturating_add(sample.count);
        }
        rates
    }
}

impl From<Rates> for Vec<RateSample> {
    fn from(rates: Rates) -> Self {
        rates
            .distinct()
            .map(|(requests_per_sec, count)| RateSample {
                requests_per_sec,
                count,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(samples: &[u64]) -> Rates {
        let mut rates = Rates::default();
        for &sample in samples {
            rates.add(sample);
        }
        rates
    }

    #[test]
    fn the_row_is_computed_as_in_wrk() {
        let rates = rates(&[10, 20, 30, 40]);
        assert_eq!(
            (rates.min(), rates.max(), rates.count()),
            (Some(10), Some(40), 4)
        );
        assert!((rates.mean() - 25.0).abs() < 1e-12);
        assert!((rates.stdev() - 12.909_944_487_358_056).abs() < 1e-9);
        assert_eq!(rates.within_stdev_percent(), Some(50.0));
    }

    #[test]
    fn percentiles_are_values_that_were_sampled() {
        let rates = rates(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        for (percent, expected) in [
            (0.0, 1),
            (10.0, 1),
            (10.1, 2),
            (50.0, 5),
            (99.0, 10),
            (100.0, 10),
        ] {
            assert_eq!(rates.value_at_percentile(percent), expected, "{percent}");
        }
    }

    #[test]
    fn without_samples_there_is_no_share_and_other_figures_are_zero() {
        let rates = Rates::default();
        assert_eq!((rates.min(), rates.within_stdev_percent()), (None, None));
        assert_eq!((rates.mean(), rates.stdev()), (0.0, 0.0));
        assert_eq!(rates.value_at_percentile(50.0), 0);
    }

    #[test]
    fn rates_round_trip_through_json() {
        let rates = rates(&[7, 7, 100_000]);
        let text = serde_json::to_string(&rates).unwrap();
        assert_eq!(text, "[[7,2],[100000,1]]");
        let of_version_1 =
            r#"[{"requests_per_sec":7,"count":2},{"requests_per_sec":100000,"count":1}]"#;
        for text in [&text, of_version_1] {
            assert_eq!(serde_json::from_str::<Rates>(text).unwrap(), rates);
        }
    }
}
