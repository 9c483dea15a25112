//! Whether runs differ: effects with intervals, what could have been detected, and caveats.
//!
//! The unit is the run. Requests are not repetitions, since all requests of a run share its start.
//! Failed runs are counted and left out.

mod caveats;
pub(crate) mod design;
mod interaction;
mod judge;
mod levels;
mod limits;
mod metric;
mod names;
pub(crate) mod own_part;
mod paired;
mod runs;
mod timing;
mod validity;

use results::nearest;
use serde::Serialize;

use crate::sequential::{
    SequentialDifference, all_sequential_metrics, sequential_differences, sequential_metrics,
};
use crate::{Observation, distinct, grouped};
use design::{ComparisonScope, SCOPES, factors, scopes, sides};
use interaction::{Combination, apart, combinations, take_single};
use judge::{judge, judge_cells, judge_rounds};
use own_part::Figures;
use runs::Values;

/// If connections waited for a smaller share of the time, something else saturated the load
/// generator. If they waited for a larger share, the load generator hides what the levels do.
const IDLE_SHARES: std::ops::RangeInclusive<f64> = 0.1..=0.3;

/// Shares that differ by no more than this count as alike: they slow the levels by the same factor.
const IDLE_SHARES_ALIKE: f64 = 0.05;

pub use caveats::Caveat;
pub use levels::{
    Factor, LevelRuns, MedianInterval, factors_of, median_of_all, medians_of_levels, runs_of_levels,
};
pub use limits::{ChangeLimit, ChangeLimitError};
pub use metric::{FixedRate, default_metrics, has_tokens};
pub use names::{NameComparisons, OnlyOneSide, compare_names};
pub use own_part::Explained;
pub use results::{Better, Metric};
pub use timing::Timing;
pub(crate) use validity::is_most;
pub use validity::{ClampedLevels, FailedShare, Validity, settings_of_factors};

/// What to compare, and which differences matter.
#[derive(Debug, Clone, PartialEq)]
pub struct CompareOptions {
    /// The metrics to compare; [`default_metrics`] if empty.
    pub metrics: Vec<Metric>,
    /// Differences up to this ratio do not matter: 0.02 for 2 %. Above 0.
    pub threshold: f64,
    /// Whether the runs are those of an experiment that was looked at after every round and could
    /// end after any. Intervals and p-values then hold at every look; see [`crate::sequential`].
    pub is_sequential: bool,
}

impl CompareOptions {
    /// The default of [`Self::threshold`]: 2 %.
    pub const THRESHOLD: f64 = 0.02;

    /// The threshold to use: `asked` if given, else the default, lowered to the limits so that it
    /// does not hide a difference beyond them.
    #[must_use]
    pub fn threshold(asked: Option<f64>, limits: &[ChangeLimit]) -> f64 {
        let shares = limits.iter().map(ChangeLimit::share);
        let usual = shares.filter(|share| *share > 0.0);
        asked.unwrap_or_else(|| usual.fold(Self::THRESHOLD, f64::min))
    }
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            metrics: Vec::new(),
            threshold: Self::THRESHOLD,
            is_sequential: false,
        }
    }
}

/// The conclusions from a set of runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Conclusions {
    /// How far the runs can be trusted: all of them, or each side.
    pub validity: Vec<Validity>,
    /// One comparison for each factor, place and metric.
    pub comparisons: Vec<Comparison>,
    /// The differences by [`sequential_metrics`], if they hold at every look; otherwise none.
    #[serde(skip)]
    pub differences: Vec<SequentialDifference>,
    /// Reasons to be careful with the comparisons.
    #[serde(rename = "doubts")]
    pub caveats: Vec<Caveat>,
    /// The comparisons of requests by name, from [`compare_names`]; `None` unless requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_name: Option<NameComparisons>,
}

/// The levels of one factor by one metric, or new runs against old ones.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The factor; `None` for new runs against old ones.
    pub factor: Option<String>,
    /// The profile, target or cell that the runs share; empty if there is only one.
    pub place: Vec<String>,
    /// The metric that is compared.
    pub metric: Metric,
    /// The levels; the first one is the reference.
    pub levels: Vec<Level>,
    /// p-value of the test of all levels at once.
    pub p_value: Option<f64>,
    /// The name of that test, and how its p-value was computed.
    pub test: Option<&'static str>,
    /// Whether values are relative to the mean of all levels in the same round or combination.
    pub is_relative: bool,
    /// Whether each level has one run in each round of a sweep.
    pub has_rounds: bool,
    /// What the times of the runs say; absent with rounds or more than two levels, if a time is not
    /// known, and for runs that were made neither in turn nor one level after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timing: Option<Timing>,
    /// Whether intervals and p-values hold at every look, not only at the last one.
    pub is_sequential: bool,
    /// Smallest number of runs of a level.
    pub runs: usize,
    /// Differences up to this ratio do not matter.
    pub threshold: f64,
    /// The smallest ratio of change that would have been detected with a power of 80 %.
    pub detectable: Option<f64>,
    /// Runs per level needed to detect a change by the threshold with a power of 80 %.
    pub runs_needed: Option<usize>,
    /// The fixed rate that determines the metric, if all runs had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed_rate: Option<FixedRate>,
    /// Whether the factor has different effects in different places, profiles or combinations, so
    /// that each of them is judged alone.
    pub disagrees: bool,
    /// Cells that are not compared because they have only one level of the factor: `office (only
    /// arm64)`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// The conclusion from the differences of all levels.
    pub outcome: Outcome,
}

/// The outcome of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Outcome {
    /// No conclusion: with so few runs an effect cannot be told from chance.
    TooFewRuns {
        /// Runs needed per level.
        needed: usize,
    },
    /// Not judged: all runs kept the rate of the plan, and that rate determines the metric.
    SetByRate,
    /// Not judged: the values are lower bounds, so that either may be the larger one.
    LowerBounds,
    /// No conclusion: requests of the first level failed, or of all others.
    Failing,
    /// All levels are equal within the threshold: there is no effect that matters.
    Same,
    /// The interval of some level contains an edge of the threshold, so that there may be an effect
    /// that matters, or none; or what was measured does not hold without what the load generator
    /// caused.
    Undecided {
        /// Index of the level that differs most, if it differs from the first one for certain, but
        /// perhaps by no more than the threshold.
        #[serde(skip_serializing_if = "Option::is_none")]
        level: Option<usize>,
    },
    /// This level is the best, and better than the first.
    Better {
        /// Index of the level.
        level: usize,
    },
    /// No level is better than the first, and this one is the worst.
    Worse {
        /// Index of the level.
        level: usize,
    },
    /// This level differs most, by a metric that has no better direction.
    Changed {
        /// Index of the level.
        level: usize,
    },
}

impl Outcome {
    /// Index of the level that the outcome names.
    #[must_use]
    pub fn level(self) -> Option<usize> {
        match self {
            Self::Better { level } | Self::Worse { level } | Self::Changed { level } => Some(level),
            Self::Undecided { level } => level,
            Self::TooFewRuns { .. }
            | Self::SetByRate
            | Self::LowerBounds
            | Self::Failing
            | Self::Same => None,
        }
    }
}

/// The runs of one level.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Level {
    /// The name of the level; for new runs against old ones, the name of the side.
    pub name: String,
    /// Number of runs with a value.
    pub runs: usize,
    /// Median of the measured values.
    pub median: Option<f64>,
    /// Smallest of the measured values; `None` without one.
    pub min: Option<f64>,
    /// Largest of the measured values; `None` without one.
    pub max: Option<f64>,
    /// Number of runs in which the load generator was saturated.
    pub saturated: usize,
    /// In a closed loop: the mean share of the time, 0 to 1, in which connections waited for the
    /// load generator; absent with a rate and where it was not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_share: Option<f64>,
    /// Number of values that are lower bounds, since they depend on requests without a response.
    #[serde(skip_serializing_if = "is_zero")]
    pub lower_bounds: usize,
    /// How many requests of the level's runs failed.
    #[serde(rename = "failed_requests")]
    pub failed: FailedShare,
    /// Difference from the first level; `None` for the first level, with too few runs, if too many
    /// requests failed, and if it is explained by the load generator.
    pub difference: Option<Difference>,
    /// The same difference without what the load generator caused, if that is a notable part of the
    /// values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_own: Option<Difference>,
    /// The difference as measured and without what the load generator caused, if they lead to
    /// different conclusions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explained: Option<Explained>,
}

impl Level {
    /// Whether the median is a lower bound: at least half of the values are lower bounds.
    #[must_use]
    pub fn is_lower_bound(&self) -> bool {
        self.lower_bounds > 0 && self.lower_bounds * 2 >= self.runs
    }
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The difference between a level and the first one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// Ratio of the medians; `None` unless all values are above zero.
    pub ratio: Option<f64>,
    /// Lower end of the 95 % confidence interval of the ratio.
    pub low: Option<f64>,
    /// Upper end of that interval.
    pub high: Option<f64>,
    /// p-value of this pair alone.
    pub p_value: f64,
    /// p-value adjusted by Holm's method for all pairs that are tested together.
    pub adjusted_p_value: f64,
    /// Whether the 90 % interval lies within the threshold (two one-sided tests at 5 % each). If
    /// intervals hold at every look, the 95 % interval is used.
    pub is_same: bool,
}

impl Difference {
    /// Whether the difference is significant: the adjusted p-value is below 5 % and the interval,
    /// if there is one, excludes 1.
    #[must_use]
    pub fn is_found(&self) -> bool {
        let holds_one = match (self.low, self.high) {
            (Some(low), Some(high)) => low <= 1.0 && 1.0 <= high,
            _ => false,
        };
        self.adjusted_p_value < stats::LEVEL && !holds_one
    }
}

impl Comparison {
    /// Whether a difference is above the threshold. A difference without a ratio, such as errors
    /// where there were none, always is.
    #[must_use]
    pub fn matters(&self, difference: &Difference) -> bool {
        let is_above = |ratio: f64| ratio.ln().abs() > self.threshold.ln_1p();
        difference.ratio.is_none_or(is_above)
    }

    /// The name of the level of which all runs were made before those of the other level, if the
    /// difference may be a change of the machine in between.
    #[must_use]
    pub fn measured_first(&self) -> Option<&str> {
        match self.timing? {
            Timing::Apart { first, .. } => self.levels.get(first).map(|it| it.name.as_str()),
            Timing::InPairs { .. } => None,
        }
    }

    /// Whether the interval of a difference contains an edge of the threshold, so that the
    /// difference may or may not matter.
    #[must_use]
    pub fn is_across_threshold(&self, difference: &Difference) -> bool {
        let limit = self.threshold.ln_1p();
        let is_inside = |ratio: f64| ratio.ln().abs() <= limit;
        match (difference.low, difference.high) {
            (Some(low), Some(high)) => is_inside(low) != is_inside(high),
            _ => false,
        }
    }

    /// The levels with too many failed requests to be judged by the metric.
    pub fn failing(&self) -> impl Iterator<Item = &Level> {
        let levels = self.levels.iter();
        levels.filter(|level| level.failed.forbids(&self.metric))
    }

    /// The least and the largest share of the time in which connections waited for the load
    /// generator, if it was saturated but slowed all levels by the same small part. Levels can be
    /// compared then. This happens where server and load generator share the CPUs of one machine.
    #[must_use]
    pub fn alike_idle_shares(&self) -> Option<(f64, f64)> {
        if !self.levels.iter().any(|level| level.saturated > 0) {
            return None;
        }
        alike_idle_shares(self.levels.iter().map(|level| level.idle_share))
    }

    /// Whether the load generator was saturated in at least half of the runs of a level that the
    /// outcome names, and did not slow all levels alike. The values then describe the load
    /// generator, not the server.
    #[must_use]
    pub fn is_generator_saturated(&self) -> bool {
        if self.alike_idle_shares().is_some() {
            return false;
        }
        let is_limited = |level: &Level| is_most(level.saturated, level.runs);
        match self.outcome.level() {
            Some(index) => {
                let reference = self.levels.first();
                let mut pair = reference.into_iter().chain(self.levels.get(index));
                pair.any(is_limited)
            }
            None => self.levels.iter().any(is_limited),
        }
    }

    /// Whether something got worse by more than the limit (0.05 for 5 %), as measured and without
    /// what the load generator caused: [`ChangeLimit::Worse`].
    #[must_use]
    pub fn is_regression(&self, limit: f64) -> bool {
        ChangeLimit::Worse(limit).is_exceeded(self)
    }

    /// Whether a level got worse: a difference was found, it is for the worse, it matters, and the
    /// ratio of the medians changed by more than the limit (0.05 for 5 %). A difference without a
    /// ratio, such as errors where there were none, is a regression whenever it is found.
    fn is_worse_by(&self, level: &Level, difference: &Difference, limit: f64) -> bool {
        let reference = self.levels.first().and_then(|first| first.median);
        let is_worse = match (difference.ratio, self.metric.better) {
            (Some(ratio), Better::Higher) => ratio < 1.0 - limit,
            (Some(ratio), Better::Lower) => ratio > 1.0 + limit,
            (None, Better::Higher) => level.median < reference,
            (None, Better::Lower) => level.median > reference,
            (_, Better::Neither) => false,
        };
        difference.is_found() && self.matters(difference) && is_worse
    }
}

/// The lowest and the highest idle share of the levels, if the shares are small and alike.
pub(crate) fn alike_idle_shares(shares: impl Iterator<Item = Option<f64>>) -> Option<(f64, f64)> {
    let shares: Option<Vec<f64>> = shares.collect();
    let shares = stats::sorted(&shares?);
    let (low, high) = (*shares.first()?, *shares.last()?);
    let is_alike = IDLE_SHARES.contains(&high) && high - low <= IDLE_SHARES_ALIKE;
    is_alike.then_some((low, high))
}

/// Why nothing can be compared, in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// There is no run that did not fail.
    #[error("{which}: no run to compare ({failed} failed)")]
    NoRuns {
        /// Name of the side on which every run failed.
        which: String,
        /// Number of failed runs.
        failed: usize,
    },
    /// No run has the metric.
    #[error(
        "{metric}: no run has it{}",
        near.as_ref().map_or_else(String::new, |near| format!(" (did you mean {near}?)"))
    )]
    NotMeasured {
        /// Name of the metric that was asked for.
        metric: String,
        /// A similar name that was measured; `None` if there is none.
        near: Option<String>,
    },
    /// No request of a side has a name.
    #[error("--by-name: requests have no names in {which}")]
    NoNames {
        /// Name of the side whose requests have no names.
        which: String,
    },
    /// All runs belong to one cell.
    #[error("all runs belong to one cell (give BASE and NEW, or a sweep with several levels)")]
    OneCell,
    /// The sides have no cell in common.
    #[error(
        "{base} and {new} have no cell in common (expected sweeps of the same plan, or one cell \
         each)"
    )]
    NoCommonCell {
        /// Name of the old runs.
        base: String,
        /// Name of the new runs.
        new: String,
    },
}

/// Compares new runs with old ones by one metric.
#[must_use]
pub fn compare(
    base: &[Observation],
    new: &[Observation],
    metric: &Metric,
    threshold: f64,
) -> Comparison {
    let base: Vec<&Observation> = base.iter().collect();
    let new: Vec<&Observation> = new.iter().collect();
    let judged = |figures| {
        let values = Values::of_two(["base", "new"], [&base, &new], metric, figures);
        vec![judge(None, Vec::new(), metric, threshold, values)]
    };
    let all = [base.as_slice(), &new].concat();
    in_both(&all, metric, threshold, judged).remove(0)
}

/// The comparisons of these runs as measured, with what does not hold without the load generator's
/// part taken back. `judged` makes them.
fn in_both(
    runs: &[&Observation],
    metric: &Metric,
    threshold: f64,
    judged: impl Fn(Figures) -> Vec<Comparison>,
) -> Vec<Comparison> {
    let mut comparisons = judged(Figures::Measured);
    if own_part::matters(runs, metric, threshold) {
        own_part::reconcile(&mut comparisons, &judged(Figures::WithoutOwn));
    }
    comparisons
}

/// The runs of one side of a comparison, with the side's name.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    /// The name that sentences use.
    pub name: &'a str,
    /// The runs of the side, failed ones included.
    pub runs: &'a [Observation],
}

/// Compares new runs with old ones, cell by cell if both have several. All cells share one estimate
/// of the noise, and p-values are adjusted for all of them.
///
/// # Errors
/// If there is nothing to compare.
pub fn compare_with_base(
    base: Named<'_>,
    new: Named<'_>,
    options: &CompareOptions,
) -> Result<Conclusions, CompareError> {
    let both: Vec<Observation> = base.runs.iter().chain(new.runs).cloned().collect();
    let metrics = metrics_of(options, &both)?;
    let old = measured(base)?;
    let fresh = measured(new)?;
    let pairs = matched(base.name, &old, new.name, &fresh)?;
    let mut comparisons = Vec::new();
    for metric in &metrics {
        let judged = |figures| {
            let of_pair = |(place, old, fresh): &Pair<'_>| {
                let values = Values::of_two([base.name, new.name], [old, fresh], metric, figures);
                (place.clone(), values)
            };
            let mut cells: Vec<(Vec<String>, Values)> = pairs.iter().map(of_pair).collect();
            match (cells.len(), cells.pop()) {
                (1, Some((place, values))) => {
                    vec![judge(None, place, metric, options.threshold, values)]
                }
                (_, last) => {
                    cells.extend(last);
                    judge_cells(cells, metric, options.threshold)
                }
            }
        };
        let runs = [old.as_slice(), &fresh].concat();
        comparisons.extend(in_both(&runs, metric, options.threshold, judged));
    }
    let mut caveats = caveats::of_sides(&comparisons);
    let sides = [(base.name, old.as_slice()), (new.name, &fresh)];
    caveats.extend(caveats::of_both(sides, &metrics));
    let of_side = |side: Named<'_>| Validity::of(side.runs, Some(side.name));
    Ok(Conclusions {
        validity: [base, new].map(of_side).into(),
        comparisons,
        differences: Vec::new(),
        caveats,
        by_name: None,
    })
}

/// Compares the cells of one set of runs: each factor by each metric, separately for each profile
/// and target. If other factors vary too, levels are compared within their combinations. Several
/// targets are compared like the levels of a factor.
///
/// # Errors
/// If there is nothing to compare.
pub fn compare_cells(
    observations: &[Observation],
    options: &CompareOptions,
) -> Result<Conclusions, CompareError> {
    let all = Named {
        name: "the runs",
        runs: observations,
    };
    let metrics = metrics_of(options, observations)?;
    let runs = measured(all)?;
    let factors = factors(&runs);
    if factors.is_empty() {
        return Err(CompareError::OneCell);
    }
    let mut differences = if options.is_sequential {
        sequential_differences(observations, &metrics, options.threshold)
    } else {
        Vec::new()
    };
    let mut comparisons = Vec::new();
    for factor in &factors {
        let all_scopes = scopes(&runs, factor, &SCOPES);
        for metric in &metrics {
            let of_factor = FactorByMetric {
                factor,
                factors: &factors,
                metric,
                options,
                differences: &differences,
            };
            comparisons.extend(of_factor.compare_in_all(&all_scopes));
        }
    }
    let asked = sequential_metrics(observations, &options.metrics);
    differences.retain(|difference| asked.contains(&difference.metric));
    let mut caveats = caveats::of_sides(&comparisons);
    if caveats.is_empty() {
        caveats = caveats::of_order(&runs);
    }
    caveats.extend(caveats::of_runs(&runs, &metrics));
    Ok(Conclusions {
        validity: vec![Validity::of(observations, None)],
        comparisons,
        differences,
        caveats,
        by_name: None,
    })
}

/// A factor whose levels are compared by a metric.
struct FactorByMetric<'a> {
    factor: &'a design::Factor,
    /// All factors, this one included.
    factors: &'a [design::Factor],
    metric: &'a Metric,
    options: &'a CompareOptions,
    /// Those by all factors and metrics, if the runs were looked at after every round.
    differences: &'a [SequentialDifference],
}

impl FactorByMetric<'_> {
    /// The first comparison names the cells that are left out of any.
    fn compare_in_all(&self, scopes: &[ComparisonScope<'_>]) -> Vec<Comparison> {
        let mut comparisons = Vec::new();
        let mut left_out = Vec::new();
        for scope in scopes {
            let mut parts = combinations(&scope.runs, self.factor, self.factors);
            left_out.extend(take_single(&mut parts, self.factor, self.metric));
            let of_scope = self.compare_in(scope, &parts);
            // A factor may vary in only some of the scopes.
            if of_scope.is_empty() {
                left_out.extend(only_level(scope, self.factor));
            }
            comparisons.extend(of_scope);
        }
        if let Some(first) = comparisons.first_mut() {
            first.left_out = distinct(left_out);
        }
        comparisons
    }

    /// Empty if fewer than two levels have values.
    fn compare_in(
        &self,
        scope: &ComparisonScope<'_>,
        parts: &[Combination<'_>],
    ) -> Vec<Comparison> {
        let (factor, factors, metric) = (self.factor, self.factors, self.metric);
        let (threshold, names) = (self.options.threshold, &scope.names);
        let kept: Vec<&Observation> = parts.iter().flat_map(|part| &part.runs).copied().collect();
        let values_of = |figures| Values::of_levels(&kept, factor, factors, metric, figures);
        let values = values_of(Figures::Measured);
        if values.levels.len() < 2 {
            return Vec::new();
        }
        let name = || Some(factor.name.clone());
        if self.options.is_sequential {
            return vec![judge_rounds(
                name(),
                names.clone(),
                metric,
                threshold,
                &values,
                self.differences,
            )];
        }
        let judged = |figures| {
            let several = apart(names, parts, factor, factors, (metric, figures), threshold);
            several.unwrap_or_else(|| {
                let values = values_of(figures);
                vec![judge(name(), names.clone(), metric, threshold, values)]
            })
        };
        in_both(&kept, metric, threshold, judged)
    }
}

/// The level of a scope whose runs have only one: `basic (only arm64)`.
fn only_level(scope: &ComparisonScope<'_>, factor: &design::Factor) -> Option<String> {
    let run = scope.runs.first()?;
    let level = &factor.levels[factor.level_of(&sides(run))?];
    (!scope.names.is_empty()).then(|| format!("{} (only {level})", scope.names.join(", ")))
}

fn metrics_of(
    options: &CompareOptions,
    observations: &[Observation],
) -> Result<Vec<Metric>, CompareError> {
    let unknown = options.metrics.iter().find(|metric| {
        observations
            .iter()
            .all(|run| run.value(&metric.name).is_none())
    });
    match unknown {
        Some(metric) => {
            let measured = observations.iter().flat_map(|run| run.values.keys());
            Err(CompareError::NotMeasured {
                near: nearest(&metric.name, measured.map(String::as_str)).map(str::to_owned),
                metric: metric.name.clone(),
            })
        }
        None if !options.metrics.is_empty() => Ok(options.metrics.clone()),
        None if options.is_sequential => Ok(all_sequential_metrics(observations)),
        None => Ok(default_metrics(observations)),
    }
}

fn measured<'a>(side: Named<'a>) -> Result<Vec<&'a Observation>, CompareError> {
    let runs: Vec<&Observation> = side
        .runs
        .iter()
        .filter(|run| run.failure.is_none())
        .collect();
    if runs.is_empty() {
        return Err(CompareError::NoRuns {
            which: side.name.to_owned(),
            failed: side.runs.len(),
        });
    }
    Ok(runs)
}

/// A cell with its old and new runs.
type Pair<'a> = (Vec<String>, Vec<&'a Observation>, Vec<&'a Observation>);

/// Pairs the cells of both sides. If a side has only one cell, or no cell with more than one run
/// (as with a heading for each run), the sides are compared as a whole.
fn matched<'a>(
    base: &str,
    old: &[&'a Observation],
    new: &str,
    fresh: &[&'a Observation],
) -> Result<Vec<Pair<'a>>, CompareError> {
    let cells = |runs: &[&'a Observation]| {
        // In the order of the plan, not of the runs.
        let mut runs = runs.to_vec();
        runs.sort_by_key(|run| run.cell);
        grouped(runs.into_iter().map(|run| (sides(run), run)))
    };
    let (old_cells, fresh_cells) = (cells(old), cells(fresh));
    let is_whole = |cells: &[(design::Sides, Vec<&Observation>)]| {
        cells.len() == 1 || cells.iter().all(|(_, runs)| runs.len() == 1)
    };
    let one_each = old_cells.len() == 1 && fresh_cells.len() == 1;
    let mut pairs: Vec<Pair<'a>> = Vec::new();
    if !one_each {
        for (sides, runs) in &old_cells {
            if let Some((_, others)) = fresh_cells.iter().find(|(other, _)| other == sides) {
                let name = |(key, level): (&String, &String)| format!("{key} = {level}");
                let place = sides.iter().map(name).collect();
                pairs.push((place, runs.clone(), others.clone()));
            }
        }
    }
    if pairs.is_empty() {
        if !is_whole(&old_cells) || !is_whole(&fresh_cells) {
            return Err(CompareError::NoCommonCell {
                base: base.to_owned(),
                new: new.to_owned(),
            });
        }
        pairs.push((Vec::new(), old.to_vec(), fresh.to_vec()));
    }
    Ok(pairs)
}
