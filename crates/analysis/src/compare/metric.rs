//! The default metrics, and the metrics that a fixed rate determines.

use results::{Metric, metric};
use serde::Serialize;

use crate::Observation;

/// The metrics to compare by default: requests per second and the 99th percentile of the latency
/// where they are known, errors and bad statuses where there are any.
#[must_use]
pub fn default_metrics(observations: &[Observation]) -> Vec<Metric> {
    let p99 = metric::percentile("latency", 99.0);
    let values = |name: &str| {
        let of = observations.iter().filter(|run| run.failure.is_none());
        of.filter_map(|run| run.value(name)).collect::<Vec<f64>>()
    };
    if !values(metric::MAX_RATE).is_empty() {
        return vec![Metric::named(metric::MAX_RATE)];
    }
    let known = [metric::REQUESTS_PER_SEC, &p99]
        .into_iter()
        .filter(|name| !values(name).is_empty());
    let troubles = [metric::ERRORS, metric::STATUSES_OVER_399]
        .into_iter()
        .filter(|name| values(name).iter().any(|count| *count > 0.0));
    known.chain(troubles).map(Metric::named).collect()
}

/// The fixed rate of runs, for a metric that it determines. As long as the server keeps up,
/// requests per second and bytes per second then say nothing about the server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FixedRate {
    /// Lowest rate of the runs, requests per second.
    pub least_per_sec: f64,
    /// Highest rate of the runs, requests per second.
    pub most_per_sec: f64,
    /// Number of runs that fell short of their rate.
    pub missed: usize,
    /// Number of all runs.
    pub runs: usize,
}

impl FixedRate {
    /// `None` if the rate does not determine the metric, or if a run had no fixed rate.
    pub(super) fn of(runs: &[&Observation], metric: &Metric) -> Option<Self> {
        if !SET_BY_RATE.contains(&metric.name.as_str()) {
            return None;
        }
        let rates: Option<Vec<f64>> = runs.iter().map(|run| run.fixed_rate_per_sec()).collect();
        let rates = stats::sorted(&rates?);
        Some(Self {
            least_per_sec: *rates.first()?,
            most_per_sec: *rates.last()?,
            missed: runs.iter().filter(|run| run.has_missed_rate()).count(),
            runs: runs.len(),
        })
    }
}

/// Metrics that a fixed rate determines.
const SET_BY_RATE: [&str; 5] = [
    metric::REQUESTS,
    metric::REQUESTS_PER_SEC,
    metric::BYTES,
    metric::BYTES_PER_SEC,
    "thread_rate_mean",
];
