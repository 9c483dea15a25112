//! Caveats of a comparison: the order of the runs, drift, slow first runs, and runs that were slow
//! at first.

use results::{SlowStart, Warning};
use serde::Serialize;
use stats::{median, modified_z_score, trend};

use super::design::{Sides, sides};
use super::{Better, Comparison, FixedRate, Metric};
use crate::{Observation, grouped};

/// A reason to be careful with the conclusions of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Caveat {
    /// All runs of a cell were made before those of the next cell began, so a change over time
    /// looks like an effect.
    OneAfterTheOther {
        /// When two sides are compared: their names, in the order in which they were measured.
        #[serde(skip_serializing_if = "Option::is_none")]
        sides: Option<[String; 2]>,
    },
    /// A metric drifted over the course of the runs, whatever their levels.
    Drift {
        /// The side it belongs to, when two sides are compared.
        side: Option<String>,
        /// The metric that drifted.
        metric: Metric,
        /// Ratio of the change from the first run to the last: -0.1 for 10 % less.
        change: f64,
        /// p-value of the Mann-Kendall test.
        p_value: f64,
    },
    /// The first runs of some cells are worse than their other runs.
    SlowFirstRun {
        /// The side it belongs to, when two sides are compared.
        side: Option<String>,
        /// The metric whose first runs are worse.
        metric: Metric,
        /// Number of cells with a slow first run.
        cells: usize,
        /// Number of cells with at least three runs.
        of: usize,
        /// Levels of the cell with the worst first run; empty if there is only one cell.
        cell: Vec<String>,
        /// Whether that run was the first of all runs.
        is_first_of_all: bool,
        /// Its deviation from the median of the cell's other runs, as a ratio: -0.3 for 30 % less.
        change: f64,
    },
    /// Runs were slower at first than later: they measured a warm-up, too.
    SlowAtFirst {
        /// The side it belongs to, when two sides are compared.
        side: Option<String>,
        /// Number of such runs.
        runs: usize,
        /// Number of all runs with a saved result.
        of: usize,
        /// Number of those among `runs` that had not settled at the end.
        not_settled: usize,
        /// The warm-up that would have left out the slow part of each of them, seconds.
        warmup_s: u64,
    },
}

pub(super) fn of_order(runs: &[&Observation]) -> Vec<Caveat> {
    let Some(ordered) = in_order(runs) else {
        return Vec::new();
    };
    let cells: Vec<Sides> = ordered.iter().map(|run| sides(run)).collect();
    let changes = cells.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let mut different = cells.clone();
    different.sort();
    different.dedup();
    // Cells that ran only once, as in the first round, have no order to judge.
    let repeated = |cell: &Sides| cells.iter().filter(|other| *other == cell).count() > 1;
    let one_after_the_other =
        different.len() > 1 && changes + 1 == different.len() && different.iter().all(repeated);
    one_after_the_other
        .then_some(Caveat::OneAfterTheOther { sides: None })
        .into_iter()
        .collect()
}

/// Whether one of two sides was measured after the other.
pub(super) fn of_sides(comparisons: &[Comparison]) -> Vec<Caveat> {
    let names = |comparison: &Comparison| {
        let first = comparison.measured_first()?.to_owned();
        let mut levels = comparison.levels.iter().map(|it| &it.name);
        let second = levels.find(|name| **name != first)?.clone();
        Some([first, second])
    };
    let sides = comparisons.iter().find_map(names);
    let caveat = sides.map(|sides| Caveat::OneAfterTheOther { sides: Some(sides) });
    caveat.into_iter().collect()
}

/// Drift and slow first runs, for each metric.
pub(super) fn of_runs(runs: &[&Observation], metrics: &[Metric]) -> Vec<Caveat> {
    let of_metric = |metric| {
        drift(runs, metric, None)
            .into_iter()
            .chain(slow_first_run(runs, metric, None))
    };
    let metrics = metrics
        .iter()
        .filter(|metric| !is_set_by_rate(runs, metric));
    let mut caveats: Vec<Caveat> = metrics.flat_map(of_metric).collect();
    caveats.extend(slow_at_first(runs, None));
    caveats
}

/// Drift and slow first runs of two sides, for each metric. Sides that overlap in time drift
/// together.
pub(super) fn of_both(sides: [(&str, &[&Observation]); 2], metrics: &[Metric]) -> Vec<Caveat> {
    let runs = sides.map(|(_, runs)| runs);
    let together = in_time(runs);
    let mut caveats = Vec::new();
    if let Some(together) = &together {
        let all = runs.concat();
        let metrics = metrics
            .iter()
            .filter(|metric| !is_set_by_rate(&all, metric));
        caveats.extend(metrics.filter_map(|metric| drift_together(together, metric)));
    }
    for (name, runs) in sides {
        for metric in metrics
            .iter()
            .filter(|metric| !is_set_by_rate(runs, metric))
        {
            let side = || Some(name.to_owned());
            let own = drift(runs, metric, side()).filter(|_| together.is_none());
            caveats.extend(own);
            caveats.extend(slow_first_run(runs, metric, side()));
        }
        caveats.extend(slow_at_first(runs, Some(name.to_owned())));
    }
    caveats
}

/// A metric that the plan's rate determines neither drifts nor starts slowly.
fn is_set_by_rate(runs: &[&Observation], metric: &Metric) -> bool {
    FixedRate::of(runs, metric).is_some_and(|rate| rate.missed == 0)
}

/// The runs of both sides with the index of their side, in the order of time; `None` if it is not
/// known, or if one side was measured after the other.
fn in_time<'a>(sides: [&[&'a Observation]; 2]) -> Option<Vec<(usize, &'a Observation)>> {
    let of_side = |(side, runs): (usize, &[&'a Observation])| {
        let run = |run: &&'a Observation| (run.began_unix_ms(), side, *run);
        runs.iter().map(run).collect::<Vec<_>>()
    };
    let mut runs: Vec<_> = sides.into_iter().enumerate().flat_map(of_side).collect();
    runs.sort_by_key(|(began, ..)| *began);
    let is_known = runs.iter().all(|(began, ..)| began.is_some());
    let are_distinct = runs.windows(2).all(|pair| pair[0].0 != pair[1].0);
    let changes = runs.windows(2).filter(|pair| pair[0].1 != pair[1].1);
    let overlap = changes.count() > 1;
    (is_known && are_distinct && overlap)
        .then(|| runs.into_iter().map(|(_, side, run)| (side, run)).collect())
}

/// The runs with a warning about their beginning.
fn slow_at_first(runs: &[&Observation], side: Option<String>) -> Option<Caveat> {
    let results = runs.iter().filter_map(|run| run.result.as_deref());
    let of = results.clone().count();
    let warnings = results.flat_map(|result| &result.warnings);
    let slow: Vec<&Warning> = warnings
        .map(|warning| &warning.data)
        .filter(|warning| warning.slow_start().is_some())
        .collect();
    let is_not_settled = |warning: &&&Warning| matches!(warning, Warning::NotSettled(_));
    let starts = slow.iter().filter_map(|warning| warning.slow_start());
    Some(Caveat::SlowAtFirst {
        side,
        runs: slow.len(),
        of,
        not_settled: slow.iter().filter(is_not_settled).count(),
        warmup_s: starts.map(SlowStart::warmup_needed_s).max()?,
    })
}

/// The runs in the order in which they were made, if it is known for all of them.
fn in_order<'a>(runs: &[&'a Observation]) -> Option<Vec<&'a Observation>> {
    let mut ordered = runs.to_vec();
    ordered.sort_by_key(|run| run.position);
    let known = ordered.iter().all(|run| run.position.is_some());
    let distinct = ordered
        .windows(2)
        .all(|pair| pair[0].position != pair[1].position);
    (known && distinct).then_some(ordered)
}

/// The logarithms of a metric's values, by cell; empty unless all values are above zero.
fn logarithms<'a>(
    runs: &[&'a Observation],
    metric: &Metric,
) -> Vec<(Sides, Vec<(&'a Observation, f64)>)> {
    let mut values: Vec<(Sides, (&'a Observation, f64))> = Vec::new();
    for run in runs {
        let Some(value) = run.value(&metric.name) else {
            continue;
        };
        // This also rejects NaN.
        if !(value > 0.0 && value.is_finite()) {
            return Vec::new();
        }
        values.push((sides(run), (run, value.ln())));
    }
    grouped(values)
}

/// The distances of values from the median of their group, in groups of several values.
fn residuals<K: Ord, R>(values: Vec<(K, (R, f64))>) -> Vec<(R, f64)> {
    let mut groups = grouped(values);
    groups.retain(|(_, values)| values.len() > 1);
    let of_group = |(_, values): (K, Vec<(R, f64)>)| {
        let plain: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
        let middle = median(&plain).unwrap_or(0.0);
        let residual = move |(at, value): (R, f64)| (at, value - middle);
        values.into_iter().map(residual).collect::<Vec<_>>()
    };
    groups.into_iter().flat_map(of_group).collect()
}

/// Significance level for drift. At 5 %, one sweep in twenty would show this caveat by chance.
pub(super) const DRIFT_LEVEL: f64 = 0.01;

/// A drift by less than a thousandth explains nothing that anybody compares.
const DRIFT_MIN: f64 = 0.001;

fn drift(runs: &[&Observation], metric: &Metric, side: Option<String>) -> Option<Caveat> {
    in_order(runs)?;
    let of_cell = |(cell, values): (Sides, Vec<(&Observation, f64)>)| {
        let placed = |(run, value): (&Observation, f64)| (cell.clone(), (run.position, value));
        values.into_iter().map(placed).collect::<Vec<_>>()
    };
    let values = logarithms(runs, metric).into_iter().flat_map(of_cell);
    drift_of(values.collect(), metric, side)
}

/// The drift of runs of both sides, which are in the order of time.
fn drift_together(runs: &[(usize, &Observation)], metric: &Metric) -> Option<Caveat> {
    let of_run = |(at, (side, run)): (usize, &(usize, &Observation))| {
        let value = run.value(&metric.name)?;
        let log = (value > 0.0 && value.is_finite()).then(|| value.ln())?;
        Some(((*side, sides(run)), (at, log)))
    };
    let values: Option<Vec<_>> = runs.iter().enumerate().map(of_run).collect();
    drift_of(values?, metric, None)
}

/// The drift of values with their cells and positions.
fn drift_of<K: Ord, P: Ord>(
    values: Vec<(K, (P, f64))>,
    metric: &Metric,
    side: Option<String>,
) -> Option<Caveat> {
    let mut residuals = residuals(values);
    residuals.sort_by(|(one, _), (other, _)| one.cmp(other));
    let values: Vec<f64> = residuals.into_iter().map(|(_, value)| value).collect();
    let trend = trend(&values).filter(|trend| trend.p_value < DRIFT_LEVEL)?;
    let change = (trend.slope * (values.len() - 1) as f64).exp_m1();
    (change.abs() >= DRIFT_MIN).then(|| Caveat::Drift {
        side,
        metric: metric.clone(),
        change,
        p_value: trend.p_value,
    })
}

/// Smallest robust z-score of a slow first run. Iglewicz and Hoaglin suggest 3.5 for many values;
/// with few values the deviation is poorly estimated, so the limit is higher. A test bounds how
/// often an ordinary first run is reported.
const SLOW_SCORE: f64 = 5.0;

/// The first run of a cell with at least three runs, next to the others.
struct FirstRun<'a> {
    run: &'a Observation,
    cell: Sides,
    /// Its distance from the median of the cell's other runs, in logarithms.
    value: f64,
    /// The distance of each of the others from the median of those without it, in logarithms: what
    /// chance alone does.
    others: Vec<f64>,
}

/// The first runs of cells; none of two runs, since nothing says which one is unusual. Empty unless
/// all values are above zero.
fn first_runs<'a>(runs: &[&'a Observation], metric: &Metric) -> Vec<FirstRun<'a>> {
    let cells = logarithms(runs, metric).into_iter();
    let of_cell = |(cell, mut values): (Sides, Vec<(&'a Observation, f64)>)| {
        values.sort_by_key(|(run, _)| (run.position, run.run));
        let ((run, first), others) = values.split_first()?;
        let others: Vec<f64> = others.iter().map(|(_, value)| *value).collect();
        let distance = |at: usize| {
            let rest: Vec<f64> = [&others[..at], &others[at + 1..]].concat();
            Some(others[at] - median(&rest)?)
        };
        Some(FirstRun {
            run,
            cell,
            value: first - median(&others)?,
            others: (0..others.len()).map(distance).collect::<Option<_>>()?,
        })
    };
    cells.filter_map(of_cell).collect()
}

fn slow_first_run(runs: &[&Observation], metric: &Metric, side: Option<String>) -> Option<Caveat> {
    let sign = match metric.better {
        Better::Higher => 1.0,
        Better::Lower => -1.0,
        Better::Neither => return None,
    };
    let firsts = first_runs(runs, metric);
    let chance: Vec<f64> = firsts.iter().flat_map(|it| it.others.clone()).collect();
    let is_slow = |first: &&FirstRun<'_>| {
        let score = modified_z_score(first.value, &chance);
        score.is_some_and(|score| score * sign < -SLOW_SCORE)
    };
    let slow: Vec<&FirstRun<'_>> = firsts.iter().filter(is_slow).collect();
    let worst = slow
        .iter()
        .min_by(|a, b| (a.value * sign).total_cmp(&(b.value * sign)))?;
    let first_of_all = in_order(runs).and_then(|ordered| ordered.first().copied());
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

#[cfg(test)]
mod tests {
    use results::Setting;

    use super::*;

    /// Runs of cells, in rounds: the values of a cell are in the order of its runs.
    fn runs_of(cells: &[&[f64]]) -> Vec<Observation> {
        let most = cells.iter().map(|values| values.len()).max().unwrap_or(0);
        let of_round = |round: usize| {
            let values = cells.iter().enumerate();
            values.filter_map(move |(cell, values)| Some((round, cell, *values.get(round)?)))
        };
        let in_order = (0..most).flat_map(of_round).zip(1..);
        let run = |((round, cell, value), position): ((usize, usize, f64), u32)| Observation {
            run: round as u32 + 1,
            position: Some(position),
            settings: vec![Setting {
                factor: "level".to_owned(),
                level: format!("l{cell}"),
            }],
            values: [("requests_per_sec".to_owned(), value)].into(),
            ..Observation::default()
        };
        in_order.map(run).collect()
    }

    /// The change of the worst first run, in percent, and the number of cells with one.
    fn slow(cells: &[&[f64]]) -> Option<(f64, usize)> {
        let runs = runs_of(cells);
        let runs: Vec<&Observation> = runs.iter().collect();
        match slow_first_run(&runs, &Metric::named("requests_per_sec"), None)? {
            Caveat::SlowFirstRun { change, cells, .. } => Some(((change * 100.0).round(), cells)),
            _ => None,
        }
    }

    #[test]
    fn a_first_run_is_compared_with_the_others_of_its_cell() {
        let warm: &[f64] = &[1_195.0, 1_204.0, 1_200.0, 1_207.0];
        let cold: &[f64] = &[617.0, 1_190.0, 1_210.0, 1_200.0];
        for (cells, expected) in [
            (&[cold, warm][..], Some((-49.0, 1))),
            (&[cold, cold], Some((-49.0, 2))),
            (&[&[617.0, 1_190.0, 1_210.0], warm], Some((-49.0, 1))),
            // The server is slow in a later run.
            (&[&[1_190.0, 617.0, 1_210.0, 1_200.0], warm], None),
            (&[warm, warm], None),
            // Of two runs nothing says which is unusual, and of one there is nothing to say.
            (&[&[617.0, 1_200.0], &[1_190.0, 1_210.0]], None),
            (&[&[617.0, 1_200.0], warm], None),
            (&[&[617.0], &[1_200.0]], None),
            // Too few runs to know what chance does.
            (&[&[617.0, 1_190.0, 1_210.0]], None),
        ] {
            assert_eq!(slow(cells), expected, "{cells:?}");
        }
    }

    #[test]
    fn an_ordinary_first_run_is_seldom_called_slow() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut normal = || {
            let radius = (-2.0 * random.f64().max(1e-12).ln()).sqrt();
            radius * (random.f64() * std::f64::consts::TAU).cos()
        };
        for (cells, runs, percent_max) in [(1, 5, 6), (2, 5, 6), (7, 5, 4), (4, 3, 6), (2, 20, 1)] {
            let mut reported = 0;
            for _ in 0..400 {
                let cell = |_| (0..runs).map(|_| (0.02 * normal()).exp()).collect();
                let values: Vec<Vec<f64>> = (0..cells).map(cell).collect();
                let values: Vec<&[f64]> = values.iter().map(Vec::as_slice).collect();
                reported += usize::from(slow(&values).is_some());
            }
            assert!(
                reported <= percent_max * 4,
                "{cells} x {runs}: {reported} of 400"
            );
        }
    }
}
