//! From values to what follows.

use stats::{
    Dealing, GROUP_VALUES_MIN, LEVEL, PValueMethod, Ranks, beside_reference, detectable_difference,
    holm, mann_whitney, mann_whitney_p_min, median, median_difference_interval, noise,
    values_needed,
};

use super::runs::Values;
use super::{Better, Comparison, Difference, Level, Metric, Outcome};

/// The same for every comparison, so that the same runs give the same figures.
const SEED: u64 = 4;

/// As many as tell a p-value of 0.05 after Holm's correction over a hundred levels.
const DRAWS: u32 = 4_999;

/// Compares the levels of these values.
pub(super) fn judge(
    factor: Option<String>,
    place: Vec<String>,
    metric: &Metric,
    threshold: f64,
    values: Values,
) -> Comparison {
    let groups = values.tested();
    let spread_out = values.spread_out();
    let runs = groups.iter().map(Vec::len).min().unwrap_or(0);
    let noise = noise(&spread_out).filter(|_| values.are_logs);
    let too_few = too_few_runs(&groups);
    let (p_value, test) = match too_few {
        None => whole(&groups, values.in_blocks),
        Some(_) => (None, None),
    };
    let mut levels: Vec<Level> = values
        .levels
        .iter()
        .map(|level| {
            let ascending = stats::sorted(&level.measured);
            Level {
                name: level.name.clone(),
                runs: level.measured.len(),
                median: median(&ascending),
                min: ascending.first().copied(),
                max: ascending.last().copied(),
                difference: None,
            }
        })
        .collect();
    if too_few.is_none() {
        let p_values = pairs(&groups, values.in_blocks);
        let adjusted = holm(&p_values);
        for (index, (p_value, adjusted_p_value)) in p_values.into_iter().zip(adjusted).enumerate() {
            let pair = [&spread_out[0], &spread_out[index + 1]];
            let effect = values.are_logs.then(|| Effect::of(pair, threshold));
            levels[index + 1].difference = Some(Difference {
                ratio: effect.map(|effect| effect.ratio),
                low: effect.and_then(|effect| effect.low),
                high: effect.and_then(|effect| effect.high),
                p_value,
                adjusted_p_value,
                is_same: effect.is_some_and(|effect| effect.is_same),
            });
        }
    }
    let count = groups.len();
    let mut comparison = Comparison {
        factor,
        place,
        metric: metric.clone(),
        levels,
        p_value,
        test,
        is_relative: values.is_relative,
        has_rounds: values.has_rounds,
        runs,
        threshold,
        detectable: noise
            .and_then(|noise| detectable_difference(noise, runs, count))
            .map(f64::exp_m1),
        runs_needed: noise.and_then(|noise| values_needed(noise, threshold.ln_1p(), count)),
        outcome: Outcome::NotFound,
    };
    comparison.outcome = match too_few {
        Some(needed) => Outcome::TooFewRuns { needed },
        None => outcome(&comparison),
    };
    comparison
}

/// Adjusts the p-values of several places that were asked the same, and what follows from them. Where so
/// many places leave no p-value low enough, nothing was found because nothing could be.
pub(super) fn adjust_over_places(comparisons: &mut [Comparison]) {
    let differences = |comparisons: &[Comparison]| {
        let levels = comparisons.iter().flat_map(|comparison| &comparison.levels);
        levels
            .filter_map(|level| Some(level.difference?.p_value))
            .collect::<Vec<f64>>()
    };
    let p_values = differences(comparisons);
    let places = p_values.len() as f64;
    let mut adjusted = holm(&p_values).into_iter();
    for comparison in comparisons {
        let levels = comparison.levels.iter_mut();
        let pairs = levels
            .filter_map(|level| level.difference.as_mut())
            .zip(&mut adjusted);
        pairs.for_each(|(difference, p_value)| difference.adjusted_p_value = p_value);
        if !matches!(comparison.outcome, Outcome::TooFewRuns { .. }) {
            comparison.outcome = outcome(comparison);
        }
        let least = |runs| mann_whitney_p_min(runs, runs) * places;
        if comparison.outcome == Outcome::NotFound && least(comparison.runs) > LEVEL {
            let needed = (comparison.runs..).find(|runs| least(*runs) <= LEVEL);
            comparison.outcome = Outcome::TooFewRuns {
                needed: needed.unwrap_or(comparison.runs),
            };
        }
    }
}

/// How many runs of each level it takes, if there are fewer.
fn too_few_runs(groups: &[Vec<f64>]) -> Option<usize> {
    const PAIR_VALUES_MIN: usize = 4;
    match groups {
        [first, second] => {
            let least = mann_whitney_p_min(first.len(), second.len());
            (least > LEVEL).then_some(PAIR_VALUES_MIN)
        }
        [] | [_] => Some(PAIR_VALUES_MIN),
        _ => groups
            .iter()
            .any(|group| group.len() < GROUP_VALUES_MIN)
            .then_some(GROUP_VALUES_MIN),
    }
}

/// The test of all levels at once.
fn whole(groups: &[Vec<f64>], in_blocks: bool) -> (Option<f64>, Option<&'static str>) {
    let (test, name) = match groups {
        [first, second] => {
            let test = mann_whitney(first, second);
            let name = match test.map(|test| test.method) {
                Some(PValueMethod::Normal) => "Mann-Whitney, normal distribution",
                _ => "Mann-Whitney, exact",
            };
            (test, name)
        }
        _ => {
            let test = Ranks::of(groups, in_blocks).map(|ranks| ranks.test(SEED));
            let name = match test.map(|test| test.method) {
                Some(PValueMethod::Permutation) => "Kruskal-Wallis, permutations",
                _ => "Kruskal-Wallis, chi-squared distribution",
            };
            (test, name)
        }
    };
    (test.map(|test| test.p_value), test.map(|_| name))
}

/// P-values of all levels but the first, against it.
fn pairs(groups: &[Vec<f64>], in_blocks: bool) -> Vec<f64> {
    if let [first, second] = groups {
        return mann_whitney(first, second)
            .map(|test| test.p_value)
            .into_iter()
            .collect();
    }
    let dealing = Dealing {
        in_blocks,
        draws: DRAWS,
        seed: SEED,
    };
    match beside_reference(groups, 0, dealing) {
        Some(p_values) => p_values[1..].to_vec(),
        None => vec![1.0; groups.len().saturating_sub(1)],
    }
}

/// The ratio of two medians.
#[derive(Debug, Clone, Copy)]
struct Effect {
    ratio: f64,
    low: Option<f64>,
    high: Option<f64>,
    is_same: bool,
}

impl Effect {
    /// Of logarithms, the second against the first.
    fn of([first, second]: [&Vec<f64>; 2], threshold: f64) -> Self {
        let interval = |confidence| median_difference_interval(first, second, confidence, SEED);
        let wide = interval(0.95);
        let limit = threshold.ln_1p();
        let middle = |group: &[f64]| median(group).unwrap_or(0.0);
        Self {
            ratio: (middle(second) - middle(first)).exp(),
            low: wide.map(|wide| wide.low.exp()),
            high: wide.map(|wide| wide.high.exp()),
            is_same: interval(0.90).is_some_and(|near| -limit < near.low && near.high < limit),
        }
    }
}

/// What follows from the differences.
fn outcome(comparison: &Comparison) -> Outcome {
    let differences: Vec<(usize, Difference)> = comparison
        .levels
        .iter()
        .enumerate()
        .filter_map(|(index, level)| Some((index, level.difference?)))
        .collect();
    if !differences.is_empty() && differences.iter().all(|(_, difference)| difference.is_same) {
        return Outcome::Same;
    }
    // How much better than the first; what has no ratio goes by its median.
    let reference = comparison.levels.first().and_then(|level| level.median);
    let gain = |index: usize, difference: &Difference| {
        let change = match difference.ratio {
            Some(ratio) => ratio.ln(),
            None => comparison.levels[index].median.unwrap_or(0.0) - reference.unwrap_or(0.0),
        };
        match comparison.metric.better {
            Better::Higher => change,
            Better::Lower => -change,
            Better::Neither => change.abs(),
        }
    };
    let found = differences
        .iter()
        .filter(|(_, difference)| difference.is_found())
        .map(|(index, difference)| (*index, gain(*index, difference)));
    let mut found: Vec<(usize, f64)> = found.filter(|(_, gain)| *gain != 0.0).collect();
    found.sort_by(|a, b| a.1.total_cmp(&b.1));
    match (found.first(), found.last()) {
        (_, Some((level, _))) if comparison.metric.better == Better::Neither => {
            Outcome::Changed { level: *level }
        }
        (_, Some((level, gain))) if *gain > 0.0 => Outcome::Better { level: *level },
        (Some((level, _)), _) => Outcome::Worse { level: *level },
        _ => Outcome::NotFound,
    }
}
