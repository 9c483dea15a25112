//! What speaks against a comparison: order, drift, a slow first run.

use serde::Serialize;
use stats::{median, modified_z_score, trend};

use super::design::{Sides, sides};
use super::{Better, FixedRate, Metric};
use crate::Observation;

/// Something to keep in mind beside a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Caveat {
    /// All runs of a cell were made before those of the next began: what changed with time looks
    /// like an effect.
    OneAfterTheOther,
    /// A metric changed with the order of the runs, whatever was set.
    Drift {
        /// Whose, where there are two sides.
        side: Option<String>,
        /// Of the metric.
        metric: Metric,
        /// Ratio of change from the first run to the last, -0.1 for 10 % less.
        change: f64,
        /// Of Mann and Kendall's test.
        p_value: f64,
    },
    /// The first run of some cells is worse than runs otherwise are.
    SlowFirstRun {
        /// Whose, where there are two sides.
        side: Option<String>,
        /// The metric.
        metric: Metric,
        /// In how many cells.
        cells: usize,
        /// Of how many with several runs.
        of: usize,
        /// The cell with the worst one; empty if there is one cell only.
        cell: Vec<String>,
        /// It was the first of all runs.
        is_first_of_all: bool,
        /// Ratio by which it is off the median of its cell, -0.3 for 30 % less.
        change: f64,
    },
}

/// Whether cells ran one after the other.
pub(super) fn of_order(runs: &[&Observation]) -> Vec<Caveat> {
    let Some(ordered) = in_order(runs) else {
        return Vec::new();
    };
    let cells: Vec<Sides> = ordered.iter().map(|run| sides(run)).collect();
    let changes = cells.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let mut different = cells.clone();
    different.sort();
    different.dedup();
    // Of cells that had one run each, as in the first round, nothing ran to its end.
    let repeated = |cell: &Sides| cells.iter().filter(|other| *other == cell).count() > 1;
    let one_after_the_other =
        different.len() > 1 && changes + 1 == different.len() && different.iter().all(repeated);
    one_after_the_other
        .then_some(Caveat::OneAfterTheOther)
        .into_iter()
        .collect()
}

/// Drift and slow first runs, by each metric.
pub(super) fn of_runs(
    runs: &[&Observation],
    metrics: &[Metric],
    side: Option<&str>,
) -> Vec<Caveat> {
    let side = side.map(str::to_owned);
    let mut caveats = Vec::new();
    // What the plan's rate sets neither drifts nor starts slowly.
    let is_set_by_rate =
        |metric: &&Metric| FixedRate::of(runs, metric).is_some_and(|rate| rate.missed == 0);
    for metric in metrics.iter().filter(|metric| !is_set_by_rate(metric)) {
        caveats.extend(drift(runs, metric, side.clone()));
        caveats.extend(slow_first_run(runs, metric, side.clone()));
    }
    caveats
}

/// The runs in the order in which they were made, if that is known of all of them.
fn in_order<'a>(runs: &[&'a Observation]) -> Option<Vec<&'a Observation>> {
    let mut ordered = runs.to_vec();
    ordered.sort_by_key(|run| run.position);
    let known = ordered.iter().all(|run| run.position.is_some());
    let distinct = ordered
        .windows(2)
        .all(|pair| pair[0].position != pair[1].position);
    (known && distinct).then_some(ordered)
}

/// A run with the logarithm of its distance from its cell's median.
struct Residual<'a> {
    run: &'a Observation,
    cell: Sides,
    value: f64,
}

/// Of cells with several runs; empty if some value is not above zero.
fn residuals<'a>(runs: &[&'a Observation], metric: &Metric) -> Vec<Residual<'a>> {
    let mut cells: Vec<(Sides, Vec<(&'a Observation, f64)>)> = Vec::new();
    for run in runs {
        let Some(value) = run.value(&metric.name) else {
            continue;
        };
        // Not a number is not above zero either.
        if !(value > 0.0 && value.is_finite()) {
            return Vec::new();
        }
        let cell = sides(run);
        match cells.iter_mut().find(|(other, _)| *other == cell) {
            Some((_, values)) => values.push((run, value.ln())),
            None => cells.push((cell, vec![(run, value.ln())])),
        }
    }
    cells.retain(|(_, values)| values.len() > 1);
    let of_cell = |(cell, values): (Sides, Vec<(&'a Observation, f64)>)| {
        let logs: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
        let middle = median(&logs).unwrap_or(0.0);
        let residual = move |(run, value): (&'a Observation, f64)| Residual {
            run,
            cell: cell.clone(),
            value: value - middle,
        };
        values.into_iter().map(residual).collect::<Vec<_>>()
    };
    cells.into_iter().flat_map(of_cell).collect()
}

/// Below it a trend is taken for one. A caveat that came up in every twentieth sweep would soon be
/// read over.
const DRIFT_LEVEL: f64 = 0.01;

fn drift(runs: &[&Observation], metric: &Metric, side: Option<String>) -> Option<Caveat> {
    in_order(runs)?;
    let mut residuals = residuals(runs, metric);
    residuals.sort_by_key(|residual| residual.run.position);
    let values: Vec<f64> = residuals.iter().map(|residual| residual.value).collect();
    let trend = trend(&values).filter(|trend| trend.p_value < DRIFT_LEVEL)?;
    Some(Caveat::Drift {
        side,
        metric: metric.clone(),
        change: (trend.slope * (values.len() - 1) as f64).exp_m1(),
        p_value: trend.p_value,
    })
}

/// How many deviations a first run must be off. Iglewicz and Hoaglin's 3.5 is for many values; of
/// few the deviation is known badly, and more is asked for: a test bounds how often an ordinary
/// first run is named.
const SLOW_SCORE: f64 = 5.0;

fn slow_first_run(runs: &[&Observation], metric: &Metric, side: Option<String>) -> Option<Caveat> {
    let sign = match metric.better {
        Better::Higher => 1.0,
        Better::Lower => -1.0,
        Better::Neither => return None,
    };
    let residuals = residuals(runs, metric);
    let first_of_all = in_order(runs).and_then(|ordered| ordered.first().copied());
    let is_first = |residual: &Residual<'_>| {
        let same = residuals.iter().filter(|other| other.cell == residual.cell);
        let order = |run: &Observation| (run.position, run.run);
        same.map(|other| order(other.run)).min() == Some(order(residual.run))
    };
    let score = |index: usize| {
        let others: Vec<f64> = residuals
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != index)
            .map(|(_, residual)| residual.value)
            .collect();
        modified_z_score(residuals[index].value, &others).map(|score| score * sign)
    };
    let firsts: Vec<usize> = (0..residuals.len())
        .filter(|index| is_first(&residuals[*index]))
        .collect();
    let slow: Vec<&Residual<'_>> = firsts
        .iter()
        .filter(|index| score(**index).is_some_and(|score| score < -SLOW_SCORE))
        .map(|index| &residuals[*index])
        .collect();
    let worst = slow
        .iter()
        .min_by(|a, b| (a.value * sign).total_cmp(&(b.value * sign)))?;
    let mut cell: Vec<String> = Vec::new();
    // Factors that change together often have the same levels.
    for level in worst.cell.values().filter(|_| firsts.len() > 1) {
        if !cell.contains(level) {
            cell.push(level.clone());
        }
    }
    Some(Caveat::SlowFirstRun {
        side,
        metric: metric.clone(),
        cells: slow.len(),
        of: firsts.len(),
        cell,
        is_first_of_all: first_of_all.is_some_and(|first| std::ptr::eq(first, worst.run)),
        change: worst.value.exp_m1(),
    })
}
