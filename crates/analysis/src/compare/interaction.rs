//! Whether a factor has the same effect in all combinations of the levels of the other factors,
//! such as places. If it has not, a single number for all combinations would describe none of them.

use stats::{LEVEL, holm, mean, student_t_p_value, student_t_quantile};

use super::design::{Factor, in_order_of_cells, sides};
use super::judge::{Limits, conclude, not_judged};
use super::own_part::Figures;
use super::runs::Values;
use super::{Comparison, Difference, Metric};
use crate::notes::HEADINGS;
use crate::{Observation, grouped};

/// The fewest degrees of freedom with which the noise is known well enough. Two combinations of two
/// levels with two runs each have 4.
const FREEDOM_MIN: f64 = 4.0;

/// Name of the test of a single combination.
const TEST: &str = "t-test by the noise of all combinations, Holm";

/// Runs that share the levels of all other factors.
pub(super) struct Combination<'a> {
    /// The levels of the other factors that differ between combinations.
    pub(super) names: Vec<String>,
    pub(super) runs: Vec<&'a Observation>,
}

/// The combinations of the other factors' levels among these runs, in the order of the
/// experiment.
pub(super) fn combinations<'a>(
    runs: &[&'a Observation],
    factor: &Factor,
    factors: &[Factor],
) -> Vec<Combination<'a>> {
    let level_in = |run: &Observation, other: &Factor| other.level_of(&sides(run));
    let vary: Vec<&Factor> = factors
        .iter()
        .filter(|other| other.name != factor.name)
        .filter(|other| {
            let mut levels = runs.iter().map(|run| level_in(run, other));
            let first = levels.next();
            levels.any(|level| Some(level) != first)
        })
        .collect();
    let names = |run: &Observation| -> Vec<String> {
        let name = |other: &&Factor| {
            let level = &other.levels[level_in(run, other)?];
            // The place of a run, or the heading above it, needs no name of a factor before it.
            Some(if HEADINGS.contains(&other.name.as_str()) {
                level.clone()
            } else {
                format!("{} = {level}", other.name)
            })
        };
        vary.iter().filter_map(name).collect()
    };
    let groups = in_order_of_cells(grouped(runs.iter().map(|run| (names(run), *run))));
    let combination = |(names, runs)| Combination { names, runs };
    groups.into_iter().map(combination).collect()
}

/// Removes the combinations with a single level of the factor, because it can be compared with
/// nothing there. Returns them as a sentence names them: `office (only arm64)`.
pub(super) fn take_single(
    combinations: &mut Vec<Combination<'_>>,
    factor: &Factor,
    metric: &Metric,
) -> Vec<String> {
    let mut single = Vec::new();
    combinations.retain(|combination| {
        let measured = combination
            .runs
            .iter()
            .filter(|run| run.value(&metric.name).is_some());
        let mut levels: Vec<usize> = measured
            .filter_map(|run| factor.level_of(&sides(run)))
            .collect();
        levels.sort_unstable();
        levels.dedup();
        if let ([only], false) = (levels.as_slice(), combination.names.is_empty()) {
            let level = &factor.levels[*only];
            single.push(format!("{} (only {level})", combination.names.join(", ")));
        }
        levels.len() > 1
    });
    single
}

/// A level against the first one in a combination, as a difference of logarithms.
struct Effect {
    /// Index of the combination.
    combination: usize,
    /// Index of the level.
    level: usize,
    difference: f64,
    /// Its variance, in units of that of a run.
    variance: f64,
}

/// The effects of all combinations with one estimate of the noise of a run.
struct Effects {
    all: Vec<Effect>,
    /// Variance of a run.
    noise: f64,
    /// Degrees of freedom of that estimate.
    freedom: f64,
}

impl Effects {
    /// `None` if a value has no logarithm, if a combination lacks a level, or if there are too few
    /// runs.
    fn of(combinations: &[Values]) -> Option<Self> {
        let names = |values: &Values| -> Vec<String> {
            values.levels.iter().map(|it| it.name.clone()).collect()
        };
        let mut all_names = combinations.iter().map(names);
        let first = all_names.next()?;
        if all_names.any(|names| names != first) {
            return None;
        }
        let (mut all, mut squares, mut freedom) = (Vec::new(), 0.0, 0.0);
        for (combination, values) in combinations.iter().enumerate() {
            let groups = values.tested();
            if !values.are_logs || groups.len() < 2 {
                return None;
            }
            let middles: Vec<f64> = groups.iter().map(|it| mean(it)).collect::<Option<_>>()?;
            for (group, middle) in groups.iter().zip(&middles) {
                squares += group.iter().map(|it| (it - middle).powi(2)).sum::<f64>();
                freedom += group.len() as f64 - 1.0;
            }
            // What the runs of a round share was subtracted, which takes degrees of freedom.
            if values.is_relative {
                freedom -= groups.iter().map(Vec::len).max().unwrap_or(1) as f64 - 1.0;
            }
            let share = |group: &Vec<f64>| 1.0 / group.len() as f64;
            all.extend((1..groups.len()).map(|level| Effect {
                combination,
                level,
                difference: middles[level] - middles[0],
                variance: share(&groups[level]) + share(&groups[0]),
            }));
        }
        (freedom >= FREEDOM_MIN).then(|| Self {
            all,
            noise: squares / freedom,
            freedom,
        })
    }

    fn p_value(&self, difference: f64, variance: f64) -> f64 {
        let t = difference / (variance * self.noise).sqrt();
        if difference == 0.0 {
            1.0
        } else {
            student_t_p_value(t, self.freedom).unwrap_or(1.0)
        }
    }

    /// Whether some level has different effects: a combination's is tested against the mean of the
    /// others, by the noise of all (a contrast of an analysis of variance), corrected for the
    /// number of such tests (Bonferroni). The effects must also be further apart than `least`.
    fn disagree(&self, least: f64) -> bool {
        let is_apart = |effect: &Effect| {
            let others: Vec<&Effect> = self
                .all
                .iter()
                .filter(|it| it.level == effect.level && it.combination != effect.combination)
                .collect();
            let count = others.len() as f64;
            let middle = others.iter().map(|it| it.difference).sum::<f64>() / count;
            let variance = others.iter().map(|it| it.variance).sum::<f64>() / count.powi(2);
            let distance = effect.difference - middle;
            // Two combinations make one test for each level.
            let tests = self.all.len() as f64 / if others.len() == 1 { 2.0 } else { 1.0 };
            let p_value = self.p_value(distance, variance + effect.variance) * tests;
            !others.is_empty() && distance.abs() > least && p_value < LEVEL
        };
        self.all.iter().any(is_apart)
    }

    /// The difference of an effect, with its interval. The p-value is that of the effect alone.
    fn difference(&self, effect: &Effect, limits: Limits) -> Difference {
        let error = (effect.variance * self.noise).sqrt();
        let ends = |confidence: f64| {
            let reach = student_t_quantile(f64::midpoint(1.0, confidence), self.freedom)?;
            let reach = (reach * error).max(limits.finest);
            Some([effect.difference - reach, effect.difference + reach])
        };
        let wide = ends(0.95);
        let p_value = self.p_value(effect.difference, effect.variance);
        Difference {
            ratio: Some(effect.difference.exp()),
            low: wide.map(|[low, _]| low.exp()),
            high: wide.map(|[_, high]| high.exp()),
            p_value,
            adjusted_p_value: p_value,
            is_same: ends(0.90)
                .is_some_and(|[low, high]| -limits.threshold < low && high < limits.threshold),
        }
    }
}

/// The comparison of each combination, if they disagree about the effect of the factor by more than
/// the threshold. All share one estimate of the noise, so that two runs of each level are enough;
/// p-values are adjusted for all of them.
pub(super) fn apart(
    scope: &[String],
    combinations: &[Combination<'_>],
    factor: &Factor,
    factors: &[Factor],
    (metric, figures): (&Metric, Figures),
    threshold: f64,
) -> Option<Vec<Comparison>> {
    if combinations.len() < 2 {
        return None;
    }
    let values: Vec<Values> = combinations
        .iter()
        .map(|it| Values::of_levels(&it.runs, factor, factors, metric, figures))
        .collect();
    // A metric that the rate determines has no differences.
    if values.iter().any(|it| it.fixed_rate.is_some()) {
        return None;
    }
    let effects = Effects::of(&values)?;
    let finest = values.iter().map(|it| it.resolution).fold(0.0, f64::max);
    if !effects.disagree(threshold.ln_1p().max(2.0 * finest)) {
        return None;
    }
    let alone: Vec<Difference> = effects
        .all
        .iter()
        .map(|it| effects.difference(it, Limits::of(&values[it.combination], threshold)))
        .collect();
    let p_values: Vec<f64> = alone.iter().map(|it| it.p_value).collect();
    let adjusted = holm(&p_values);
    let comparison = |(index, (combination, values)): (usize, (&Combination<'_>, &Values))| {
        let place = scope.iter().chain(&combination.names).cloned().collect();
        let name = Some(factor.name.clone());
        let mut comparison = not_judged(name, place, metric, threshold, values);
        let own = effects.all.iter().zip(alone.iter().zip(&adjusted));
        for (effect, (difference, adjusted)) in own.filter(|(it, _)| it.combination == index) {
            comparison.levels[effect.level].difference = Some(Difference {
                adjusted_p_value: *adjusted,
                ..*difference
            });
            let least = comparison.p_value.unwrap_or(1.0).min(*adjusted);
            comparison.p_value = Some(least);
        }
        comparison.test = Some(TEST);
        comparison.disagrees = true;
        conclude(&mut comparison, None);
        comparison
    };
    let each = combinations.iter().zip(&values).enumerate();
    Some(each.map(comparison).collect())
}
