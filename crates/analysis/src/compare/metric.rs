//! What is compared, what it is called, and which way is better.

use serde::Serialize;

use crate::{Observation, quantity};

/// Which of two values one wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// The higher: requests per second.
    Higher,
    /// The lower: latency, errors.
    Lower,
    /// Neither: a difference is one, and no more is said.
    Neither,
}

/// Something measured in each run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Metric {
    /// Its name: see [`crate::quantity`].
    pub name: String,
    /// What sentences call it.
    pub label: String,
    /// Which way is better.
    pub better: Better,
}

impl Metric {
    /// By its name, or shorter for percentiles of the latency: `p99`.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let percent = name.strip_prefix('p').and_then(|rest| rest.parse().ok());
        let name = match percent {
            Some(percent) if (0.0..=100.0).contains(&percent) => {
                quantity::percentile("latency", percent)
            }
            _ if name == "requests/s" => quantity::REQUESTS_PER_SEC.to_owned(),
            _ => name.to_owned(),
        };
        Self {
            label: label(&name),
            better: better(&name),
            name,
        }
    }

    /// What is compared when nothing is asked for: requests per second and the 99th percentile of the
    /// latency where they are known, and errors and bad statuses where there are any.
    #[must_use]
    pub fn defaults(observations: &[Observation]) -> Vec<Self> {
        let p99 = quantity::percentile("latency", 99.0);
        let values = |name: &str| {
            let of = observations.iter().filter(|run| run.failure.is_none());
            of.filter_map(|run| run.value(name)).collect::<Vec<f64>>()
        };
        let known = [quantity::REQUESTS_PER_SEC, &p99]
            .into_iter()
            .filter(|name| !values(name).is_empty());
        let troubles = [quantity::ERRORS, quantity::STATUSES_OVER_399]
            .into_iter()
            .filter(|name| values(name).iter().any(|count| *count > 0.0));
        known.chain(troubles).map(Self::named).collect()
    }

    /// Whether any of the runs has it.
    #[must_use]
    pub fn is_known_to(&self, observations: &[Observation]) -> bool {
        observations
            .iter()
            .any(|run| run.value(&self.name).is_some())
    }
}

/// The rate at which the plan had requests sent, where it decides what is measured: requests per second, and
/// bytes per second, are then no property of the server as long as it keeps up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FixedRate {
    /// Lowest rate of the runs, requests per second.
    pub least_per_sec: f64,
    /// Highest rate of the runs, requests per second.
    pub most_per_sec: f64,
    /// Runs that fell short of their rate.
    pub missed: usize,
    /// All runs.
    pub runs: usize,
}

impl FixedRate {
    /// `None` if the rate does not set the metric, or some run had none.
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

fn label(name: &str) -> String {
    if let Some((of, percent)) = quantity::percentile_of(name) {
        return format!("p{percent} {}", of.replace('_', " "));
    }
    match name {
        quantity::REQUESTS_PER_SEC => "requests/s".to_owned(),
        quantity::BYTES_PER_SEC => "bytes/s".to_owned(),
        quantity::LATENCY_MEAN_US => "mean latency".to_owned(),
        "latency_max_us" => "largest latency".to_owned(),
        quantity::STATUSES_OVER_399 => "answers above 399".to_owned(),
        _ => name.to_owned(),
    }
}

/// What follows from the rate where there is one and it is kept.
const SET_BY_RATE: [&str; 5] = [
    quantity::REQUESTS,
    quantity::REQUESTS_PER_SEC,
    quantity::BYTES,
    quantity::BYTES_PER_SEC,
    "thread_rate_mean",
];

fn better(name: &str) -> Better {
    const HIGHER: [&str; 4] = [
        quantity::REQUESTS,
        quantity::REQUESTS_PER_SEC,
        quantity::BYTES_PER_SEC,
        "thread_rate_mean",
    ];
    let is_time = quantity::TIMES
        .iter()
        .any(|of| name.starts_with(of) && name.ends_with("_us"));
    let is_trouble = name.starts_with("error") || name == quantity::STATUSES_OVER_399;
    if HIGHER.contains(&name) {
        Better::Higher
    } else if is_time || is_trouble {
        Better::Lower
    } else {
        Better::Neither
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_labels_and_directions() {
        for (name, label, better) in [
            ("requests/s", "requests/s", Better::Higher),
            ("requests_per_sec", "requests/s", Better::Higher),
            ("p99.9", "p99.9 latency", Better::Lower),
            ("service_time_p50_us", "p50 service time", Better::Lower),
            ("latency_mean_us", "mean latency", Better::Lower),
            ("errors_timeout", "errors_timeout", Better::Lower),
            ("TcpExt.ListenDrops", "TcpExt.ListenDrops", Better::Neither),
            ("p101", "p101", Better::Neither),
        ] {
            let metric = Metric::named(name);
            assert_eq!(
                (metric.label.as_str(), metric.better),
                (label, better),
                "{name}"
            );
        }
    }
}
