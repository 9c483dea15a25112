//! The default metrics, and the metrics that a fixed rate determines.

use results::{Metric, SearchOver, metric};
use serde::Serialize;

use crate::Observation;

/// The metrics to compare by default, where they are known: [`metric::of_tokens`] of runs with
/// tokens, of others requests per second and the 99th percentile of the latency; errors and bad
/// statuses where there are any.
#[must_use]
pub fn default_metrics(observations: &[Observation]) -> Vec<Metric> {
    let values = |name: &str| {
        let of = observations.iter().filter(|run| run.failure.is_none());
        of.filter_map(|run| run.value(name)).collect::<Vec<f64>>()
    };
    let of_searches = SearchOver::ALL.map(SearchOver::metric);
    if let Some(found) = of_searches.into_iter().find(|it| !values(it).is_empty()) {
        return vec![Metric::named(found)];
    }
    let mut names = Vec::new();
    if has_tokens(observations) {
        names.extend(metric::of_tokens());
    }
    let is_counted_without = |run: &Observation| run.failure.is_none() && !has_first_token(run);
    if names.is_empty() || observations.iter().any(is_counted_without) {
        let p99 = metric::percentile("latency", 99.0);
        names.extend([metric::REQUESTS_PER_SEC.to_owned(), p99]);
    }
    let known = names.iter().filter(|name| !values(name).is_empty());
    let known = known.map(String::as_str);
    let troubles = [metric::ERRORS, metric::STATUSES_OVER_399]
        .into_iter()
        .filter(|name| values(name).iter().any(|count| *count > 0.0));
    known.chain(troubles).map(Metric::named).collect()
}

/// Whether a run that did not fail has tokens of a language model.
#[must_use]
pub fn has_tokens(observations: &[Observation]) -> bool {
    let mut counted = observations.iter().filter(|run| run.failure.is_none());
    counted.any(has_first_token)
}

fn has_first_token(run: &Observation) -> bool {
    let [_, first_token, ..] = metric::of_tokens();
    run.value(&first_token).is_some()
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
const SET_BY_RATE: [&str; 7] = [
    metric::REQUESTS,
    metric::REQUESTS_PER_SEC,
    metric::BYTES,
    metric::BYTES_PER_SEC,
    metric::OUTPUT_TOKENS_PER_SEC,
    "input_tokens_per_sec",
    "thread_rate_mean",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequential::sequential_metrics;

    /// A run with these values; those of tokens if it has them.
    fn run(has_tokens: bool, more: &[&str]) -> Observation {
        let p99 = metric::percentile("latency", 99.0);
        let p50 = metric::percentile("latency", 50.0);
        let mut names = vec![metric::REQUESTS_PER_SEC.to_owned(), p99, p50];
        if has_tokens {
            // Without the last one, goodput.
            names.extend(metric::of_tokens().into_iter().take(4));
        }
        names.extend(more.iter().map(|name| (*name).to_owned()));
        Observation {
            values: names.into_iter().map(|name| (name, 5.0)).collect(),
            ..Observation::default()
        }
    }

    fn names(metrics: Vec<Metric>) -> String {
        let names: Vec<String> = metrics.into_iter().map(|metric| metric.label).collect();
        names.join(", ")
    }

    #[test]
    fn runs_with_tokens_are_compared_by_their_tokens() {
        let usual = "requests/s, p99 latency";
        assert_eq!(names(default_metrics(&[run(false, &[])])), usual);
        let tokens = "output tokens/s, p50 first token, p99 first token, p50 time per token";
        assert_eq!(names(default_metrics(&[run(true, &[])])), tokens);
        let judged = [run(true, &[metric::GOODPUT, metric::ERRORS])];
        assert_eq!(
            names(default_metrics(&judged)),
            format!("{tokens}, goodput, errors")
        );
        // Some runs have no tokens.
        let mixed = [run(true, &[]), run(false, &[])];
        assert_eq!(names(default_metrics(&mixed)), format!("{tokens}, {usual}"));
        let failed = Observation {
            failure: Some("refused".to_owned()),
            ..run(true, &[])
        };
        assert_eq!(names(default_metrics(&[failed, run(false, &[])])), usual);
    }

    #[test]
    fn rounds_are_compared_by_tokens_per_second_and_with_a_rate_by_the_first_token() {
        let closed = sequential_metrics(&[run(true, &[])], &[]);
        assert!(names(closed).starts_with("output tokens/s, p50 first token"));
        let open = sequential_metrics(&[run(true, &[RATE])], &[]);
        assert!(names(open).starts_with("p50 first token, p99 first token"));
        // A metric that some run lacks cannot be compared round by round.
        let mixed = sequential_metrics(&[run(true, &[]), run(false, &[])], &[]);
        assert!(names(mixed).starts_with("requests/s, p99 latency"));
    }

    #[test]
    fn a_rate_determines_tokens_per_second_but_not_the_first_token() {
        let runs = [run(true, &[RATE]), run(true, &[RATE])];
        let runs: Vec<&Observation> = runs.iter().collect();
        let [tokens, first_token, ..] = metric::of_tokens().map(|name| Metric::named(&name));
        assert!(FixedRate::of(&runs, &tokens).is_some());
        assert!(FixedRate::of(&runs, &first_token).is_none());
    }

    const RATE: &str = "rate";
}
