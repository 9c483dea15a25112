//! Differences that may be looked at after every round of a sweep.
//!
//! Each round gives one difference between a level and the first one: of the means, over the cells
//! of the round, of a metric's logarithm. The differences of rounds are the values of a sequential
//! test ([`stats::anytime_interval`]), so a sweep may end as soon as they say enough. What all
//! levels of a round share, such as a slow moment of the machine, cancels out. A metric that is 0
//! in some run, as errors are, has no logarithm: its differences are absolute.

use std::collections::BTreeMap;

use results::{Metric, PLACE_FACTOR, Recording, RunResult, Stopping, Trial, metric};
use serde::Serialize;
use stats::ConfidenceInterval;

use crate::Observation;
use crate::compare::design::{Factor, SCOPES, factors, scopes, sides};
use crate::compare::own_part::{self, Figures};
use crate::compare::{FailedShare, alike_idle_shares, default_metrics, has_tokens, is_most};
use crate::read::of_trial;

/// The probability that any statement about one metric of one factor is wrong.
const LEVEL: f64 = 0.05;

/// A level against the first one, by one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SequentialDifference {
    /// The factor; `target` for targets.
    pub factor: String,
    /// The profile, target and place that the runs share; empty if there is only one.
    pub place: Vec<String>,
    /// Name of the first level, which the other one is compared with.
    pub reference: String,
    /// Name of the level that is compared.
    pub level: String,
    /// The metric that is compared.
    pub metric: Metric,
    /// Number of rounds in which no run failed or is missing.
    pub rounds: usize,
    /// Whether the difference is a ratio to the first level, minus one: 0.12 is 12 % more. If not,
    /// it is in the metric's unit, since some value is not above 0.
    pub is_ratio: bool,
    /// The estimate of the difference; see `is_ratio` for its unit.
    pub difference: f64,
    /// The interval of the difference, which holds at every look; `None` while it has no ends.
    pub interval: Option<(f64, f64)>,
    /// p-value that there is no difference, valid at every look.
    pub p_value: f64,
    /// The p-value corrected for all levels of the factor.
    pub adjusted_p_value: f64,
    /// The same difference without what the load generator caused, if that is a notable part of the
    /// values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_own: Option<Change>,
    /// The smallest number of rounds that give an interval.
    pub rounds_min: usize,
    /// Ratios up to this share do not matter.
    pub threshold: f64,
    /// How finely the runs measure the metric, a share of the value: no interval is narrower to
    /// either side.
    pub resolution: f64,
    /// How many requests failed in these rounds: of the first level, and of the level.
    pub failed: [FailedShare; 2],
    /// Whether the load generator was saturated in at least half of the runs of one of the levels,
    /// and did not slow both alike.
    pub is_generator_saturated: bool,
    /// The idle shares of both levels, lowest first, if the load generator was saturated but slowed
    /// both alike: see [`crate::compare::Comparison::alike_idle_shares`].
    pub alike_idle_shares: Option<(f64, f64)>,
}

/// A difference with what is known about it, as in [`SequentialDifference`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// The estimate.
    pub difference: f64,
    /// Its interval, which holds at every look.
    pub interval: Option<(f64, f64)>,
    /// p-value that there is no difference.
    pub p_value: f64,
    /// The p-value corrected for all levels of the factor.
    pub adjusted_p_value: f64,
}

/// What the interval of a difference shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The level has a larger value than the first one.
    More,
    /// The level has a smaller value than the first one.
    Less,
    /// There is no difference that matters.
    Same,
    /// The interval does not decide it yet.
    Open,
    /// No decision: too many requests failed.
    Failing,
}

impl SequentialDifference {
    /// The difference as measured.
    pub(crate) fn measured(&self) -> Change {
        Change {
            difference: self.difference,
            interval: self.interval,
            p_value: self.p_value,
            adjusted_p_value: self.adjusted_p_value,
        }
    }

    /// What the interval decides by now, as measured and without what the load generator caused. If
    /// both do not decide the same, nothing is decided.
    #[must_use]
    pub fn decision(&self) -> Decision {
        let measured = self.decision_of(&self.measured());
        match &self.without_own {
            Some(other) if self.decision_of(other) != measured => Decision::Open,
            _ => measured,
        }
    }

    /// The interval without what the load generator caused, if that alone makes the decision open.
    #[must_use]
    pub fn explained_by(&self) -> Option<(f64, f64)> {
        let other = self.without_own.as_ref()?;
        let measured = self.decision_of(&self.measured());
        let is_explained = measured != self.decision_of(other);
        other.interval.filter(|_| is_explained)
    }

    pub(crate) fn decision_of(&self, change: &Change) -> Decision {
        let threshold = if self.is_ratio { self.threshold } else { 0.0 };
        match change.interval {
            Some(_) if self.failed.iter().any(|it| it.forbids(&self.metric)) => Decision::Failing,
            Some((low, high)) if low >= -threshold && high <= threshold => Decision::Same,
            Some((low, _)) if low > 0.0 => Decision::More,
            Some((_, high)) if high < 0.0 => Decision::Less,
            _ => Decision::Open,
        }
    }

    /// Half the width of the interval, as a share of the reference; `None` if the difference is not
    /// a ratio or has no interval.
    #[must_use]
    pub fn half_width(&self) -> Option<f64> {
        let interval = self.interval.filter(|_| self.is_ratio);
        interval.map(|(low, high)| (high - low) / 2.0)
    }

    /// About how many rounds give an interval of this half-width: it shrinks with the root of their
    /// number. `None` while there is no interval, and if the resolution does not allow it.
    #[must_use]
    pub fn rounds_needed(&self, half_width: f64) -> Option<usize> {
        let wider = self.half_width()? / half_width;
        let needed = (self.rounds as f64 * wider * wider).ceil();
        (self.resolution <= half_width).then_some(needed.max(self.rounds as f64) as usize)
    }

    /// About how many rounds decide whether the difference matters, whatever the truth is: an
    /// interval that is not wider than the threshold does not contain both 0 and a difference that
    /// matters. `None` as for [`Self::rounds_needed`].
    #[must_use]
    pub fn rounds_to_decide(&self) -> Option<usize> {
        self.rounds_needed(self.threshold / 2.0)
    }
}

/// The metrics of a comparison: those of `judge`. If it is empty, these are requests per second and
/// the median and the 99th percentile of the latency; if all runs have tokens,
/// [`metric::of_tokens`]. What the rate of the plan determines is not among them. The first one
/// decides when enough is known.
#[must_use]
pub fn sequential_metrics(observations: &[Observation], judge: &[Metric]) -> Vec<Metric> {
    if !judge.is_empty() {
        return judge.to_vec();
    }
    let measured = || observations.iter().filter(|run| run.failure.is_none());
    let has_rate = measured().any(|run| run.fixed_rate_per_sec().is_some());
    let [p50, p99] = [50.0, 99.0].map(|percent| metric::percentile("latency", percent));
    let is_known = |name: &String| measured().all(|run| run.value(name).is_some());
    let mut names = if has_tokens(observations) && is_known(&metric::of_tokens()[1]) {
        metric::of_tokens().to_vec()
    } else {
        vec![metric::REQUESTS_PER_SEC.to_owned(), p99, p50]
    };
    if has_rate {
        names.remove(0);
    }
    let known = names.into_iter().filter(is_known);
    known.map(|name| Metric::named(&name)).collect()
}

/// The metrics of a comparison that names none: those of [`sequential_metrics`], then the
/// [`default_metrics`] that are not among them.
pub(crate) fn all_sequential_metrics(observations: &[Observation]) -> Vec<Metric> {
    let mut metrics = sequential_metrics(observations, &[]);
    let more = default_metrics(observations).into_iter();
    let more: Vec<Metric> = more.filter(|metric| !metrics.contains(metric)).collect();
    metrics.extend(more);
    metrics
}

/// The differences of all levels of all factors to their first level, separately for each profile,
/// target and place: places may disagree, and their mean would hide it. A round in which a run
/// failed or is missing says nothing.
#[must_use]
pub fn sequential_differences(
    observations: &[Observation],
    metrics: &[Metric],
    threshold: f64,
) -> Vec<SequentialDifference> {
    let mut found = differences_of(observations, metrics, threshold, Figures::Measured);
    let runs = of_complete_rounds(observations);
    let metrics = metrics.iter();
    let delayed: Vec<Metric> = metrics
        .filter(|metric| own_part::matters(&runs, metric, threshold))
        .cloned()
        .collect();
    let without_own = differences_of(observations, &delayed, threshold, Figures::WithoutOwn);
    for difference in &mut found {
        let is_same = |it: &&SequentialDifference| {
            it.metric == difference.metric
                && it.factor == difference.factor
                && it.place == difference.place
                && it.level == difference.level
        };
        let other = without_own.iter().find(is_same);
        difference.without_own = other.map(SequentialDifference::measured);
    }
    found
}

fn differences_of(
    observations: &[Observation],
    metrics: &[Metric],
    threshold: f64,
    figures: Figures,
) -> Vec<SequentialDifference> {
    let runs = of_complete_rounds(observations);
    let mut found = Vec::new();
    for factor in &factors(&runs) {
        let scopes = scopes(&runs, factor, &[&SCOPES[..], &[PLACE_FACTOR]].concat());
        for scope in &scopes {
            let rounds = by_round(&scope.runs);
            for metric in metrics {
                let comparisons = Comparisons {
                    factor,
                    place: &scope.names,
                    metric,
                    figures,
                    count: scopes.len() * (factor.levels.len() - 1),
                    threshold,
                };
                found.extend(comparisons.differences(&rounds));
            }
        }
    }
    found
}

/// The runs of the rounds in which no run failed or is missing.
fn of_complete_rounds(observations: &[Observation]) -> Vec<&Observation> {
    let rounds = by_round(&observations.iter().collect::<Vec<_>>());
    let complete = rounds.iter().map(Vec::len).max().unwrap_or_default();
    rounds
        .into_iter()
        .filter(|runs| runs.len() == complete && runs.iter().all(|run| run.failure.is_none()))
        .flatten()
        .collect()
}

fn by_round<'a>(runs: &[&'a Observation]) -> Vec<Vec<&'a Observation>> {
    let mut rounds: BTreeMap<u32, Vec<&Observation>> = BTreeMap::new();
    for run in runs {
        let round = run.trial.as_ref().map_or(run.run, |trial| trial.round);
        rounds.entry(round).or_default().push(run);
    }
    rounds.into_values().collect()
}

/// The levels of a factor against the first one, by one metric.
struct Comparisons<'a> {
    factor: &'a Factor,
    place: &'a [String],
    metric: &'a Metric,
    figures: Figures,
    /// Number of statements that share the probability of a wrong one.
    count: usize,
    threshold: f64,
}

impl Comparisons<'_> {
    fn differences(&self, rounds: &[Vec<&Observation>]) -> Vec<SequentialDifference> {
        let Self {
            factor,
            metric,
            figures,
            ..
        } = *self;
        let all = rounds.iter().flatten();
        let values = all.map(|run| figures.value_of(run, metric));
        let is_ratio = values.flatten().all(|value| value > 0.0);
        let mean_of = |runs: &[&Observation], level: usize| -> Option<f64> {
            let of_level = runs
                .iter()
                .filter(|run| factor.level_of(&sides(run)) == Some(level));
            let values: Option<Vec<f64>> = of_level
                .map(|run| {
                    let value = figures.value_of(run, metric)?;
                    Some(if is_ratio { value.ln() } else { value })
                        .filter(|value| value.is_finite())
                })
                .collect();
            stats::mean(&values?)
        };
        let is_bound = |runs: &[&Observation], level: usize| {
            runs.iter().any(|run| {
                factor.level_of(&sides(run)) == Some(level)
                    && run
                        .measured(&metric.name)
                        .is_some_and(|known| known.is_lower_bound)
            })
        };
        let others = 1..factor.levels.len();
        let difference = |level| {
            // If the smaller value is a lower bound, the round does not say which is smaller.
            let of_round = |runs: &Vec<&Observation>| {
                let difference = mean_of(runs, level)? - mean_of(runs, 0)?;
                let is_open = is_bound(runs, level) && (difference <= 0.0 || is_bound(runs, 0))
                    || is_bound(runs, 0) && difference >= 0.0;
                (!is_open).then_some(difference)
            };
            let values: Vec<f64> = rounds.iter().filter_map(of_round).collect();
            let of_level = |level: usize| -> Vec<&Observation> {
                let runs = rounds.iter().flatten().copied();
                runs.filter(|run| factor.level_of(&sides(run)) == Some(level))
                    .collect()
            };
            let pair = [0, level].map(of_level);
            self.difference(&factor.levels[level], &values, is_ratio, &pair)
        };
        others.filter_map(difference).collect()
    }

    /// The difference between a level and the first one, from the differences of rounds and the
    /// runs of both levels.
    fn difference(
        &self,
        level: &str,
        values: &[f64],
        is_ratio: bool,
        pair: &[Vec<&Observation>; 2],
    ) -> Option<SequentialDifference> {
        // Holds for all levels at once (Bonferroni).
        let level_of_test = LEVEL / self.count as f64;
        let middle = stats::mean(values)?;
        let resolution = if is_ratio {
            mean_resolution(pair.each_ref().map(Vec::as_slice), self.metric)
        } else {
            0.0
        };
        let finest = resolution.ln_1p();
        let known = |it: ConfidenceInterval| it.at_least(middle, finest);
        let interval = stats::anytime_interval(values, level_of_test).map(known);
        // A difference below the resolution is none.
        let p_value = stats::anytime_p_value(values).filter(|_| middle.abs() > finest);
        let p_value = p_value.unwrap_or(1.0);
        let shown = |value: f64| if is_ratio { value.exp_m1() } else { value };
        let saturated = pair.each_ref().map(|runs| {
            let saturated = runs.iter().filter(|run| run.is_saturated());
            (saturated.count(), runs.len())
        });
        let is_any_saturated = saturated.iter().any(|(count, _)| *count > 0);
        let idle_shares = pair.iter().map(|runs| {
            let shares: Option<Vec<f64>> = runs.iter().map(|run| run.idle_share()).collect();
            stats::mean(&shares?)
        });
        let alike = alike_idle_shares(idle_shares).filter(|_| is_any_saturated);
        Some(SequentialDifference {
            factor: self.factor.name.clone(),
            place: self.place.to_vec(),
            reference: self.factor.levels[0].clone(),
            level: level.to_owned(),
            metric: self.metric.clone(),
            rounds: values.len(),
            is_ratio,
            difference: shown(middle),
            interval: interval.map(|it| (shown(it.low), shown(it.high))),
            p_value,
            adjusted_p_value: (p_value * self.count as f64).min(1.0),
            without_own: None,
            rounds_min: stats::anytime_values_min(level_of_test),
            threshold: self.threshold,
            resolution,
            failed: pair
                .each_ref()
                .map(|runs| FailedShare::of(runs.iter().copied())),
            is_generator_saturated: alike.is_none()
                && saturated.iter().any(|(count, of)| is_most(*count, *of)),
            alike_idle_shares: alike,
        })
    }
}

/// The resolution of a metric in the runs of groups, a share: that of the coarsest group.
pub(crate) fn mean_resolution<const N: usize>(
    groups: [&[&Observation]; N],
    metric: &Metric,
) -> f64 {
    let of_group = |runs: &[&Observation]| {
        let of_runs: Vec<f64> = runs.iter().map(|run| run.resolution(metric)).collect();
        stats::mean(&of_runs).unwrap_or(0.0)
    };
    groups.map(of_group).into_iter().fold(0.0, f64::max)
}

/// The trials of an experiment that may end after any round, and whether they are enough.
#[derive(Debug)]
pub struct Looks {
    stopping: Stopping,
    threshold: f64,
    judge: Vec<Metric>,
    /// The runs without their distributions, which are large.
    runs: Vec<Observation>,
    spent_ms: u64,
}

impl Looks {
    /// Begins without trials. Differences up to `threshold`, a share, do not matter; for `judge`
    /// see [`sequential_metrics`].
    #[must_use]
    pub fn new(stopping: Stopping, threshold: f64, judge: Vec<Metric>) -> Self {
        Self {
            stopping,
            threshold,
            judge,
            runs: Vec::new(),
            spent_ms: 0,
        }
    }

    /// Takes a trial that was made.
    pub fn record(&mut self, trial: &Trial) {
        self.spent_ms += trial.took_ms.unwrap_or_default();
        let mut run = of_trial(String::new(), trial.clone());
        let usual = [50.0, 99.0].map(|percent| metric::percentile("latency", percent));
        let judged = self.judge.iter().map(|metric| metric.name.clone());
        let usual = usual.into_iter().chain(metric::of_tokens());
        let usual = usual.chain([metric::REQUESTS_PER_SEC.to_owned()]);
        for name in usual.chain(judged) {
            let without_own = run.value_without_own(&name);
            run.without_own
                .extend(without_own.map(|value| (name.clone(), value)));
            if let Some(known) = run.measured(&name) {
                run.lower_bounds
                    .extend(known.is_lower_bound.then(|| name.clone()));
                run.values.insert(name, known.value);
            }
        }
        run.result = run.result.map(|result| {
            Box::new(RunResult {
                recording: Recording {
                    counters: result.recording.counters,
                    errors: result.recording.errors,
                    ..Recording::default()
                },
                telemetry: None,
                profile: None,
                agents: Vec::new(),
                places: Vec::new(),
                ..*result
            })
        });
        self.runs.push(run);
    }

    /// Whether no further round is needed.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        let (metrics, found) = self.differences();
        is_enough(&found, &metrics, &self.stopping, self.spent_ms)
    }

    /// About how many more rounds are needed at most, whatever the truth is, as far as the
    /// intervals so far show; `None` while they do not.
    #[must_use]
    pub fn rounds_left(&self) -> Option<usize> {
        let (metrics, found) = self.differences();
        let judged = found
            .iter()
            .filter(|it| metrics.first() == Some(&it.metric));
        let left = judged.map(|it| {
            let for_precision = self
                .stopping
                .precision
                .and_then(|goal| it.rounds_needed(goal));
            let for_decision = it.rounds_to_decide().filter(|_| self.stopping.when_decided);
            let needed = [for_precision, for_decision].into_iter().flatten().min()?;
            Some(needed.saturating_sub(it.rounds))
        });
        left.collect::<Option<Vec<usize>>>()?.into_iter().max()
    }

    /// What is left of the budget, milliseconds; `None` without one.
    #[must_use]
    pub fn budget_left_ms(&self) -> Option<u64> {
        let budget_ms = self.stopping.budget_ms?;
        Some(budget_ms.saturating_sub(self.spent_ms))
    }

    fn differences(&self) -> (Vec<Metric>, Vec<SequentialDifference>) {
        let metrics = sequential_metrics(&self.runs, &self.judge);
        let found = sequential_differences(&self.runs, &metrics, self.threshold);
        (metrics, found)
    }
}

/// Whether enough is known to end: the time is over, a server fails its requests, or the
/// differences by the first metric are known. If a decision was asked for, they are known when all
/// are decided, and not yet when an interval is narrow but lies across the threshold. Otherwise
/// they are known when they are as precise as asked for. `spent_ms` is how long the trials took.
fn is_enough(
    differences: &[SequentialDifference],
    metrics: &[Metric],
    stopping: &Stopping,
    spent_ms: u64,
) -> bool {
    if stopping.budget_ms.is_some_and(|budget| spent_ms >= budget) {
        return true;
    }
    let mut judged = differences
        .iter()
        .filter(|it| metrics.first() == Some(&it.metric))
        .peekable();
    let is_settled = |it: &SequentialDifference| {
        let is_precise = stopping
            .precision
            .is_some_and(|goal| it.half_width().is_some_and(|half| half <= goal));
        match it.decision() {
            Decision::Failing => true,
            Decision::Open => is_precise && !stopping.when_decided,
            Decision::More | Decision::Less | Decision::Same => is_precise || stopping.when_decided,
        }
    };
    judged.peek().is_some() && judged.all(is_settled)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of a side in a round.
    fn run(round: u32, target: &str, rate: f64) -> Observation {
        Observation {
            cell: Some(if target == "A" { 1 } else { 2 }),
            target: Some(target.to_owned()),
            run: round,
            values: [(metric::REQUESTS_PER_SEC.to_owned(), rate)].into(),
            ..Observation::default()
        }
    }

    /// Rounds with these rates of A and B.
    fn rounds(rates: &[(f64, f64)]) -> Vec<Observation> {
        let rounds = rates.iter().zip(1..);
        rounds
            .flat_map(|(&(a, b), round)| [run(round, "B", b), run(round, "A", a)])
            .collect()
    }

    fn difference(observations: &[Observation], threshold: f64) -> SequentialDifference {
        let metrics = [Metric::named(metric::REQUESTS_PER_SEC)];
        let mut found = sequential_differences(observations, &metrics, threshold);
        assert_eq!(found.len(), 1);
        found.remove(0)
    }

    #[test]
    fn the_rounds_left_are_those_that_decide_whatever_the_truth_is() {
        let spent_ms = 60_000;
        let left_after = |rates: &[(f64, f64)], when_decided, precision| {
            let looks = Looks {
                stopping: Stopping {
                    precision,
                    when_decided,
                    budget_ms: Some(100_000),
                },
                threshold: 0.02,
                judge: vec![Metric::named(metric::REQUESTS_PER_SEC)],
                runs: rounds(rates),
                spent_ms,
            };
            assert_eq!(looks.budget_left_ms(), Some(40_000));
            looks.rounds_left()
        };
        let narrow = [
            (1_000.0, 1_003.0),
            (1_000.0, 1_000.0),
            (1_001.0, 1_000.0),
            (999.0, 1_000.0),
        ];
        let wide = [
            (1_000.0, 1_300.0),
            (1_000.0, 900.0),
            (1_100.0, 1_000.0),
            (800.0, 1_000.0),
        ];
        // An interval has no ends before four rounds.
        assert_eq!(left_after(&wide[..3], true, None), None);
        let [few, many] =
            [&narrow, &wide].map(|it| left_after(it, true, None).expect("it has ends"));
        assert!(few < 20 && many > 1_000, "{few} {many}");
        // Half the width is asked for with a precision of 2 % instead of the 1 % that decide.
        let precise = left_after(&wide, false, Some(0.02)).expect("it has ends");
        assert!((many / 5..many / 3).contains(&precise), "{precise} {many}");
        assert_eq!(left_after(&wide, false, None), None);
    }

    #[test]
    fn the_difference_is_that_within_rounds() {
        // B is 10 % faster in rounds whose level differs by a factor of two.
        let found = difference(
            &rounds(&[
                (100.0, 110.0),
                (200.0, 221.0),
                (150.0, 164.0),
                (120.0, 132.0),
                (90.0, 99.0),
            ]),
            0.02,
        );
        assert_eq!((found.reference.as_str(), found.level.as_str()), ("A", "B"));
        assert!((found.difference - 0.1).abs() < 0.005, "{found:?}");
        let (low, high) = found.interval.unwrap();
        assert!(low > 0.07 && high < 0.13, "{found:?}");
        assert_eq!((found.rounds, found.decision()), (5, Decision::More));
    }

    #[test]
    fn a_round_with_a_failed_or_missing_run_says_nothing() {
        let mut runs = rounds(&[
            (100.0, 101.0),
            (100.0, 99.0),
            (100.0, 100.0),
            (100.0, 100.5),
        ]);
        runs.push(run(5, "A", 1.0));
        let failed = Observation {
            failure: Some("no response".to_owned()),
            ..run(6, "B", 1.0)
        };
        runs.extend([failed, run(6, "A", 1.0)]);
        let found = difference(&runs, 0.05);
        assert_eq!((found.rounds, found.decision()), (4, Decision::Same));
        assert_eq!(difference(&runs, 0.01).decision(), Decision::Open);
    }

    #[test]
    fn it_is_enough_when_precise_decided_or_over() {
        let metrics = [Metric::named(metric::REQUESTS_PER_SEC)];
        let enough = |rates: &[(f64, f64)], stopping: Stopping, spent_ms| {
            let found = sequential_differences(&rounds(rates), &metrics, 0.02);
            is_enough(&found, &metrics, &stopping, spent_ms)
        };
        let precise = Stopping {
            precision: Some(0.02),
            ..Stopping::default()
        };
        let decided = Stopping {
            when_decided: true,
            budget_ms: Some(1000),
            ..precise
        };
        let noisy = [
            (100.0, 119.0),
            (100.0, 130.0),
            (100.0, 141.0),
            (100.0, 130.0),
        ];
        assert!(!enough(&noisy, precise, 5000));
        assert!(enough(&[noisy, noisy].concat(), decided, 0));
        assert!(enough(&noisy[..2], decided, 1000));
        assert!(!enough(&noisy[..2], decided, 999));
        assert!(!enough(&[], precise, 0));
        let alike = [
            (100.0, 100.0),
            (100.0, 100.1),
            (100.0, 99.9),
            (100.0, 100.0),
        ];
        assert!(enough(&alike, precise, 0));
    }

    #[test]
    fn a_precise_interval_across_the_threshold_is_not_the_end_while_more_can_be_decided() {
        let metrics = [Metric::named(metric::REQUESTS_PER_SEC)];
        // About 0.6 % more, give or take 1.9 %.
        let across = [
            (100.0, 99.9),
            (100.0, 101.3),
            (100.0, 100.2),
            (100.0, 101.1),
            (100.0, 100.5),
        ];
        let found = sequential_differences(&rounds(&across), &metrics, 0.02);
        assert!(
            found[0].half_width().is_some_and(|half| half <= 0.02),
            "{found:?}"
        );
        assert_eq!(found[0].decision(), Decision::Open, "{found:?}");
        assert!(
            found[0].rounds_to_decide() > Some(across.len()),
            "{found:?}"
        );
        let stopping = |when_decided| Stopping {
            precision: Some(0.02),
            when_decided,
            budget_ms: Some(1_000),
        };
        assert!(!is_enough(&found, &metrics, &stopping(true), 999));
        assert!(is_enough(&found, &metrics, &stopping(true), 1_000));
        assert!(is_enough(&found, &metrics, &stopping(false), 0));
    }

    /// Noisy rounds of alike sides, looked at after each until it is decided.
    #[test]
    fn alike_sides_end_decided() {
        let metrics = [Metric::named(metric::REQUESTS_PER_SEC)];
        let stopping = Stopping {
            precision: Some(0.02),
            when_decided: true,
            budget_ms: Some(1_000),
        };
        for seed in 0..16 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut rates = Vec::new();
            loop {
                rates.push([0; 2].map(|_| 100.0 * (0.985 + 0.03 * random.f64())).into());
                let found = sequential_differences(&rounds(&rates), &metrics, 0.02);
                if is_enough(&found, &metrics, &stopping, 0) {
                    assert_ne!(found[0].decision(), Decision::Open, "{found:?}");
                    break;
                }
                assert!(rates.len() < 100, "{seed}: never decided");
            }
        }
    }

    #[test]
    fn counts_of_few_requests_are_never_known_exactly() {
        // 10 connections with 9 responses each, at 505 as at 525 ms: the truth is 3.8 % less.
        let mut runs = rounds(&[(18.0, 18.0); 6]);
        for run in &mut runs {
            run.values.insert(metric::REQUESTS.to_owned(), 90.0);
            run.values.insert("connections".to_owned(), 10.0);
        }
        let found = difference(&runs, 0.02);
        let (low, high) = found.interval.expect("six rounds are enough");
        assert!(low < -0.09 && high > 0.1, "{found:?}");
        assert_eq!(found.decision(), Decision::Open);
        assert_eq!((found.p_value, found.rounds_to_decide()), (1.0, None));
    }

    #[test]
    fn a_side_that_fails_ends_it_without_a_winner() {
        let metrics = [Metric::named(metric::REQUESTS_PER_SEC)];
        let failing = |rounds_made: usize, bad: &str, share: f64| {
            let mut runs = rounds(
                &[
                    (100.0, 390.0),
                    (101.0, 391.0),
                    (99.0, 389.0),
                    (100.0, 388.0),
                ][..rounds_made],
            );
            for run in &mut runs {
                let is_bad = run.target.as_deref() == Some(bad) || bad == "both";
                let failed = if is_bad { 1_000.0 * share } else { 0.0 };
                run.values.insert(metric::REQUESTS.to_owned(), 1_000.0);
                run.values
                    .insert(metric::STATUSES_OVER_399.to_owned(), failed);
            }
            let found = sequential_differences(&runs, &metrics, 0.02);
            let is_over = is_enough(&found, &metrics, &Stopping::default(), 0);
            (found[0].decision(), is_over)
        };
        for bad in ["A", "B", "both"] {
            assert_eq!(failing(4, bad, 1.0), (Decision::Failing, true), "{bad}");
            assert_eq!(failing(4, bad, 0.02), (Decision::Failing, true), "{bad}");
        }
        assert_eq!(failing(4, "B", 0.01), (Decision::More, false));
        // Too few rounds.
        assert_eq!(failing(3, "B", 1.0), (Decision::Open, false));
    }
}
