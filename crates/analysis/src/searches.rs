//! Searches of the highest rate or number of connections, each assembled from its steps.

use results::{SearchOutcome, SearchOver, SearchPhase, SearchStep, metric};

use crate::{Observation, grouped};

/// One search: its runs, and the outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchSummary {
    /// The levels, profile and target, if the experiment has several cells.
    pub cell: Observation,
    /// Number of the round in the sweep, from 1.
    pub round: u32,
    /// The conditions, as typed.
    pub conditions: Vec<String>,
    /// The runs, in order.
    pub runs: Vec<SearchRun>,
    /// What the search found; `None` if it has not ended.
    pub outcome: Option<SearchOutcome>,
}

/// A run of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchRun {
    /// The step that it was.
    pub step: SearchStep,
    /// Whether the conditions were kept; `false` for a run without a result.
    pub is_kept: bool,
    /// Whether the run has a result.
    pub is_measured: bool,
    /// Whether the load generator was saturated.
    pub is_saturated: bool,
    /// Whether it was disturbed.
    pub is_disturbed: bool,
    /// Whether the server ran on CPUs of the load generator.
    pub shares_cpus: bool,
    /// Median of the latency, microseconds, if known.
    pub p50_us: Option<f64>,
    /// The 99th percentile of the latency, microseconds.
    pub p99_us: Option<f64>,
    /// How long it took, milliseconds.
    pub took_ms: u64,
}

impl SearchSummary {
    /// Of the runs of a phase: how many kept the conditions, and how many there were.
    #[must_use]
    pub fn votes(&self, phase: SearchPhase) -> (usize, usize) {
        let of_phase = || self.runs.iter().filter(|run| run.step.phase == phase);
        (
            of_phase().filter(|run| run.is_kept).count(),
            of_phase().count(),
        )
    }

    /// Whether this is a check of a given rate.
    #[must_use]
    pub fn is_check(&self) -> bool {
        let mut phases = self.runs.iter().map(|run| run.step.phase);
        phases.any(|phase| phase == SearchPhase::Check)
    }

    /// What the search finds the highest value of.
    #[must_use]
    pub fn over(&self) -> SearchOver {
        let first = self.runs.first();
        first.map_or(SearchOver::Rate, |run| run.step.over)
    }

    /// The range of rates, requests per second, or of connections that contains the answer
    /// according to the runs so far.
    #[must_use]
    pub fn range(&self) -> (Option<f64>, Option<f64>) {
        let last = self.runs.iter().rfind(|run| run.is_measured);
        last.map_or((None, None), |run| run.step.range())
    }

    /// Connections of the first run and of the last one.
    #[must_use]
    pub fn connections(&self) -> Option<(u32, u32)> {
        let connections = |run: Option<&SearchRun>| run?.step.connections;
        connections(self.runs.first()).zip(connections(self.runs.last()))
    }

    /// How many runs the load generator limited: it was saturated, or conditions failed because of
    /// its delays.
    #[must_use]
    pub fn limited_runs(&self) -> usize {
        let is_limited = |run: &&SearchRun| run.is_saturated || run.step.is_spoiled;
        self.runs.iter().filter(is_limited).count()
    }

    /// How long all runs took, milliseconds.
    #[must_use]
    pub fn took_ms(&self) -> u64 {
        self.runs.iter().map(|run| run.took_ms).sum()
    }
}

/// Assembles the steps of searches. The observation of a search has what it found as the metric
/// `max_rate` or `max_connections` and no other; a search that found none has failed.
pub(crate) fn searches_of(
    steps: Vec<Observation>,
    conditions: &[String],
) -> (Vec<SearchSummary>, Vec<Observation>) {
    let key = |run: &Observation| (run.cell, run.trial.as_ref().map(|trial| trial.round));
    let mut summaries = Vec::new();
    let mut observations = Vec::new();
    for (_, mut runs) in grouped(steps.iter().map(|run| (key(run), run))) {
        runs.sort_by_key(|run| step_of(run).map(|step| step.number));
        // Steps with higher numbers are left over from an earlier start that took other steps.
        let last = runs
            .iter()
            .position(|run| step_of(run).is_some_and(|step| step.outcome.is_some()));
        runs.truncate(last.map_or(runs.len(), |last| last + 1));
        let Some(first) = runs.first() else { continue };
        let summary = SearchSummary {
            cell: Observation {
                result: None,
                values: [].into(),
                ..(*first).clone()
            },
            round: first.trial.as_ref().map_or(1, |trial| trial.round),
            conditions: conditions.to_vec(),
            outcome: runs.last().and_then(|run| step_of(run)?.outcome.clone()),
            runs: runs.iter().filter_map(|run| search_run(run)).collect(),
        };
        let over = summary.over();
        let found = summary.outcome.as_ref().and_then(SearchOutcome::max_load);
        observations.push(Observation {
            failure: match (found, over) {
                (Some(_), _) => None,
                (None, SearchOver::Rate) => Some("the search has found no rate".to_owned()),
                (None, SearchOver::Connections) => {
                    Some("the search has found no number of connections".to_owned())
                }
            },
            values: found
                .map(|load| (over.metric().to_owned(), load))
                .into_iter()
                .collect(),
            ..summary.cell.clone()
        });
        summaries.push(summary);
    }
    (summaries, observations)
}

fn step_of(run: &Observation) -> Option<&SearchStep> {
    run.trial.as_ref()?.search.as_ref()
}

fn search_run(run: &Observation) -> Option<SearchRun> {
    let step = step_of(run)?.clone();
    let percentile = |percent| run.value(&metric::percentile("latency", percent));
    let generator = run.result.as_ref().map(|result| &result.generator);
    Some(SearchRun {
        is_kept: step.excess.is_none_or(|excess| excess <= 0.0) && run.failure.is_none(),
        is_measured: run.failure.is_none(),
        is_saturated: run.is_saturated(),
        is_disturbed: generator.is_some_and(|it| it.verdict.is_disturbed()),
        shares_cpus: generator.is_some_and(|it| it.server.is_some_and(|it| it.shares_cpus)),
        p50_us: percentile(50.0),
        p99_us: percentile(99.0),
        took_ms: run
            .trial
            .as_ref()
            .and_then(|trial| trial.took_ms)
            .unwrap_or_default(),
        step,
    })
}

#[cfg(test)]
mod tests {
    use results::SearchEnd;

    use super::*;
    use crate::TrialFacts;
    use crate::compare::{CompareOptions, compare_cells};

    fn step(cell: u32, round: u32, number: u32, rate: Option<f64>) -> Observation {
        let outcome = rate.map(|rate_per_sec| SearchOutcome {
            rate_per_sec: Some(rate_per_sec),
            interval_per_sec: Some([rate_per_sec * 0.98, rate_per_sec * 1.02]),
            ..SearchOutcome::without_rate(SearchEnd::Found)
        });
        Observation {
            cell: Some(cell),
            target: Some(format!("t{cell}")),
            run: round,
            trial: Some(Box::new(TrialFacts {
                round,
                took_ms: Some(1000),
                search: Some(SearchStep {
                    number,
                    phase: SearchPhase::Measure,
                    over: SearchOver::Rate,
                    rate_per_sec: Some(100.0),
                    duration_ms: 1000,
                    connections: None,
                    excess: Some(if number == 1 { 0.1 } else { -0.1 }),
                    is_spoiled: false,
                    carried_per_sec: None,
                    not_carried_per_sec: None,
                    carried_connections: None,
                    not_carried_connections: None,
                    outcome,
                }),
                ..TrialFacts::default()
            })),
            ..Observation::default()
        }
    }

    #[test]
    fn steps_become_searches_in_the_order_of_their_numbers() {
        let steps = vec![
            step(1, 1, 2, Some(70.0)),
            step(1, 1, 1, None),
            // This step is left over from an earlier start that took other steps.
            step(1, 1, 3, None),
            step(2, 1, 1, None),
        ];
        let (searches, runs) = searches_of(steps, &["p99<1s".to_owned()]);
        let numbers: Vec<Vec<u32>> = searches
            .iter()
            .map(|search| search.runs.iter().map(|run| run.step.number).collect())
            .collect();
        assert_eq!(numbers, [vec![1, 2], vec![1]]);
        assert_eq!(searches[0].votes(SearchPhase::Measure), (1, 2));
        assert_eq!(searches[0].took_ms(), 2000);
        assert_eq!(runs[0].value(metric::MAX_RATE), Some(70.0));
        // The second one has not ended.
        assert_eq!(searches[1].outcome, None);
        assert!(runs[1].failure.is_some());
    }

    #[test]
    fn the_rates_of_searches_are_compared() {
        let steps = (1..=6)
            .flat_map(|round| {
                let noise = f64::from(round) * 0.1;
                [
                    step(1, round, 1, Some(100.0 + noise)),
                    step(2, round, 1, Some(120.0 - noise)),
                ]
            })
            .collect();
        let (_, runs) = searches_of(steps, &[]);
        let conclusions = compare_cells(&runs, &CompareOptions::default()).unwrap();
        let comparison = &conclusions.comparisons[0];
        assert_eq!(comparison.metric.name, metric::MAX_RATE);
        assert_eq!(comparison.levels[1].runs, 6);
        let difference = comparison.levels[1].difference.unwrap();
        assert!(
            (difference.ratio.unwrap() - 1.19).abs() < 0.02,
            "{difference:?}"
        );
    }
}
