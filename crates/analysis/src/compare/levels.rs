//! The runs behind each level of a comparison.

use super::design::{SCOPES, factors, scopes, sides, stratum};
use super::interaction::combinations;
use super::{Comparison, Metric};
use crate::Observation;

/// What differs between runs: a factor of a sweep, several factors that always change together, or
/// the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Factor {
    /// The name of the factor; for several factors, their names joined.
    pub name: String,
    /// The names of the levels; the first one is the reference.
    pub levels: Vec<String>,
    /// Index of each run's level; `None` for a run without one.
    pub of_runs: Vec<Option<usize>>,
}

/// The factors that differ between these runs, except for profiles, which are different loads.
/// Failed runs count only if all runs failed.
#[must_use]
pub fn factors_of(observations: &[Observation]) -> Vec<Factor> {
    let found = factors(&counted(observations));
    let all_sides: Vec<_> = observations.iter().map(sides).collect();
    found
        .into_iter()
        .map(|factor| Factor {
            of_runs: all_sides
                .iter()
                .map(|sides| factor.level_of(sides))
                .collect(),
            name: factor.name,
            levels: factor.levels,
        })
        .collect()
}

/// The runs of a level.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LevelRuns {
    /// Index of each run among all runs, and its value.
    pub values: Vec<(usize, f64)>,
    /// Confidence interval of the level's median; `None` with too few runs, if the runs differ in
    /// other factors, or if they were looked at more than once: it holds for one look.
    pub median_interval: Option<MedianInterval>,
}

/// A confidence interval of a median, which assumes no distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MedianInterval {
    /// Lower end, which is one of the values.
    pub low: f64,
    /// Upper end, which is one of the values.
    pub high: f64,
    /// The confidence of the interval, 0 to 1.
    pub confidence: f64,
}

impl MedianInterval {
    /// The confidence to aim for.
    pub const CONFIDENCE: f64 = 0.95;
    /// The lowest confidence to show: five values, as most sweeps have, reach 93.75 %.
    pub const CONFIDENCE_MIN: f64 = 0.9;

    /// The interval at the highest of these confidences that the values reach, if any.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let found = [Self::CONFIDENCE, Self::CONFIDENCE_MIN]
            .into_iter()
            .find_map(|confidence| stats::median_interval(values, confidence));
        found.map(|(interval, confidence)| Self {
            low: interval.low,
            high: interval.high,
            confidence,
        })
    }
}

/// The runs behind each level of a comparison from [`compare_cells`](super::compare_cells), in the
/// order of its levels; empty for other comparisons.
#[must_use]
pub fn runs_of_levels(observations: &[Observation], comparison: &Comparison) -> Vec<LevelRuns> {
    let counted = counted(observations);
    let all = factors(&counted);
    let Some(factor) = all
        .iter()
        .find(|factor| Some(&factor.name) == comparison.factor.as_ref())
    else {
        return Vec::new();
    };
    let scopes = scopes(&counted, factor, &SCOPES);
    // A whole scope, or one combination of the other factors in it.
    let mut runs_in_place: Vec<&Observation> = Vec::new();
    for scope in &scopes {
        if scope.names == comparison.place {
            runs_in_place.clone_from(&scope.runs);
            break;
        }
        if let Some(rest) = comparison.place.strip_prefix(scope.names.as_slice()) {
            let parts = combinations(&scope.runs, factor, &all).into_iter();
            runs_in_place.extend(parts.filter(|it| it.names == rest).flat_map(|it| it.runs));
        }
    }
    let is_of = |run: &Observation, name: &str| {
        let level = factor.level_of(&sides(run));
        level
            .and_then(|level| factor.levels.get(level))
            .is_some_and(|level| level == name)
    };
    let index_of = |run: &Observation| {
        observations
            .iter()
            .position(|other| std::ptr::eq(other, run))
    };
    let level_runs = |name: &str| {
        let runs = runs_in_place.iter().copied();
        let runs: Vec<&Observation> = runs.filter(|run| is_of(run, name)).collect();
        let value = |run: &&Observation| {
            let value = run.value(&comparison.metric.name);
            Some((index_of(run)?, value.filter(|value| value.is_finite())?))
        };
        let values: Vec<(usize, f64)> = runs.iter().filter_map(value).collect();
        let strata = runs.iter().map(|run| stratum(run, factor, &all));
        let is_one_thing = strata.collect::<std::collections::BTreeSet<_>>().len() < 2;
        let plain: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
        LevelRuns {
            median_interval: (is_one_thing && !comparison.is_sequential)
                .then(|| MedianInterval::of(&plain))
                .flatten(),
            values,
        }
    };
    comparison
        .levels
        .iter()
        .map(|level| level_runs(&level.name))
        .collect()
}

/// The medians of a metric over the runs behind each level of a comparison, in the order of its
/// levels. `None` for a level whose runs do not have the metric.
#[must_use]
pub fn medians_of_levels(
    observations: &[Observation],
    comparison: &Comparison,
    metric: &Metric,
) -> Vec<Option<f64>> {
    let of_metric = Comparison {
        metric: metric.clone(),
        ..comparison.clone()
    };
    let levels = runs_of_levels(observations, &of_metric);
    levels.iter().map(|level| median(&level.values)).collect()
}

/// The median of a metric over all runs that did not fail; `None` if no run has it.
#[must_use]
pub fn median_of_all(observations: &[Observation], metric: &Metric) -> Option<f64> {
    let values: Vec<(usize, f64)> = counted(observations)
        .into_iter()
        .filter_map(|run| run.value(&metric.name))
        .filter(|value| value.is_finite())
        .enumerate()
        .collect();
    median(&values)
}

fn median(values: &[(usize, f64)]) -> Option<f64> {
    let plain: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
    stats::median(&plain)
}

/// The runs that did not fail, as in [`compare_cells`](super::compare_cells); all runs if all
/// failed.
fn counted(observations: &[Observation]) -> Vec<&Observation> {
    let good: Vec<&Observation> = observations
        .iter()
        .filter(|run| run.failure.is_none())
        .collect();
    if good.is_empty() {
        observations.iter().collect()
    } else {
        good
    }
}

#[cfg(test)]
mod tests {
    use results::Setting;

    use super::*;
    use crate::compare::{CompareOptions, compare_cells};
    use results::metric;

    /// Two factors and two profiles with three rounds of each; the first run failed.
    fn runs() -> Vec<Observation> {
        let mut runs = Vec::new();
        for round in 1..=3_u32 {
            for cell in 0..8_u32 {
                let setting = |factor: &str, level: u32| Setting {
                    factor: factor.to_owned(),
                    level: level.to_string(),
                };
                let value = f64::from(1_000 + 100 * (cell % 2) + 10 * (cell / 2) + round);
                runs.push(Observation {
                    cell: Some(cell + 1),
                    settings: vec![
                        setting("buffers", cell % 2),
                        setting("backlog", cell / 2 % 2),
                    ],
                    profile: Some(["light", "heavy"][cell as usize / 4].to_owned()),
                    target: Some("php".to_owned()),
                    run: round,
                    values: [(metric::REQUESTS_PER_SEC.to_owned(), value)].into(),
                    failure: (runs.is_empty()).then(|| "refused".to_owned()),
                    ..Observation::default()
                });
            }
        }
        runs
    }

    #[test]
    fn the_runs_of_a_level_are_those_that_were_compared() {
        let runs = runs();
        let conclusions = compare_cells(&runs, &CompareOptions::default()).unwrap();
        assert_eq!(conclusions.comparisons.len(), 4);
        for comparison in &conclusions.comparisons {
            let of_levels = runs_of_levels(&runs, comparison);
            assert_eq!(of_levels.len(), comparison.levels.len());
            for (level, of_level) in comparison.levels.iter().zip(of_levels) {
                let values: Vec<f64> = of_level.values.iter().map(|(_, value)| *value).collect();
                assert_eq!(values.len(), level.runs);
                let least = values.iter().copied().reduce(f64::min);
                assert_eq!((least, stats::median(&values)), (level.min, level.median));
                for (index, value) in &of_level.values {
                    assert_eq!(runs[*index].value(&comparison.metric.name), Some(*value));
                    assert_eq!(runs[*index].profile.as_ref(), comparison.place.first());
                }
                // The runs differ in the other factor.
                assert_eq!(of_level.median_interval, None);
            }
        }
    }

    #[test]
    fn factors_name_the_level_of_each_run() {
        let runs = runs();
        let factors = factors_of(&runs);
        let names: Vec<&str> = factors.iter().map(|factor| factor.name.as_str()).collect();
        assert_eq!(names, ["buffers", "backlog"]);
        assert_eq!(factors[0].levels, ["0", "1"]);
        let expected: Vec<Option<usize>> = (0..24).map(|index| Some(index % 2)).collect();
        assert_eq!(factors[0].of_runs, expected, "the failed run included");
    }

    #[test]
    fn a_sweep_with_failed_runs_only_still_has_its_levels() {
        let mut runs = runs();
        runs.iter_mut()
            .for_each(|run| run.failure = Some("refused".to_owned()));
        assert_eq!(factors_of(&runs).len(), 2);
    }

    #[test]
    fn five_runs_have_an_interval_with_its_confidence() {
        let interval = MedianInterval::of(&[5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!((interval.low, interval.high), (1.0, 5.0));
        assert_eq!(interval.confidence, 0.9375);
        assert_eq!(MedianInterval::of(&[1.0, 2.0, 3.0, 4.0]), None);
    }
}
