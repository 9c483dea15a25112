//! From values to a comparison: tests, effects and the outcome.

use stats::{
    ConfidenceInterval, GROUP_VALUES_MIN, GroupPValues, LEVEL, PValueMethod, PairedDifference,
    Permutations, Ranks, cell_by_cell, compare_with_reference, detectable_difference,
    detectable_difference_in_blocks, detectable_difference_in_cells, holm, mann_whitney,
    mann_whitney_p_min, median, median_difference_interval, noise, values_needed,
};

use super::own_part::take_back;
use super::runs::Values;
use super::{Better, Comparison, Difference, Level, Metric, Outcome};
use crate::sequential::{Change, Decision, SequentialDifference};
use crate::table::in_15_digits;

/// The seed of resampling. It is fixed, so that the same runs give the same numbers.
const SEED: u64 = 4;

/// The number of resamples: enough to resolve a p-value of 0.05 after Holm's correction over a
/// hundred levels.
const DRAWS: u32 = 4_999;

/// Compares the levels of a factor with the first one.
pub(super) fn judge(
    factor: Option<String>,
    place: Vec<String>,
    metric: &Metric,
    threshold: f64,
    values: Values,
) -> Comparison {
    if is_set_by_rate(&values) {
        return not_judged(factor, place, metric, threshold, &values);
    }
    let groups = values.tested();
    let spread_out = values.spread_out();
    let runs = groups.iter().map(Vec::len).min().unwrap_or(0);
    let noise = noise(&spread_out).filter(|_| values.are_logs);
    let too_few = too_few_runs(&groups);
    let (p_value, test) = match too_few {
        None => test_of_all(&groups, values.in_blocks),
        Some(_) => (None, None),
    };
    let mut levels = levels_without_differences(&values);
    if too_few.is_none() {
        for (index, p_values) in pairs(&groups, values.in_blocks).into_iter().enumerate() {
            let limits = Limits::of(&values, threshold);
            let effect = values.are_logs.then(|| match groups.as_slice() {
                [first, second] if values.in_blocks => Effect::of_pairs([first, second], limits),
                _ => Effect::of([&spread_out[0], &spread_out[index + 1]], limits),
            });
            let difference = Difference::of(effect, p_values.p_value, p_values.adjusted_p_value);
            levels[index + 1].difference = Some(difference);
        }
    }
    let count = groups.len();
    let shown_by = |noise, runs| match values.in_blocks {
        true => detectable_difference_in_blocks(noise, runs, count),
        false => detectable_difference(noise, runs, count),
    };
    let (detectable, runs_needed) = power(noise, runs, threshold, shown_by);
    let mut comparison = Comparison {
        levels,
        p_value,
        test,
        is_relative: values.is_relative,
        runs,
        detectable,
        runs_needed,
        ..not_judged(factor, place, metric, threshold, &values)
    };
    conclude(&mut comparison, too_few);
    comparison
}

/// Compares the levels of a factor with the first one by intervals of their rounds that hold at
/// every look.
pub(super) fn judge_rounds(
    factor: Option<String>,
    place: Vec<String>,
    metric: &Metric,
    threshold: f64,
    values: &Values,
    differences: &[SequentialDifference],
) -> Comparison {
    let mut comparison = Comparison {
        has_rounds: true,
        is_sequential: true,
        ..not_judged(factor, place, metric, threshold, values)
    };
    if is_set_by_rate(values) {
        return comparison;
    }
    let is_of_this = |it: &&SequentialDifference| {
        comparison.factor.as_ref() == Some(&it.factor)
            && comparison.place == it.place
            && *metric == it.metric
    };
    let own: Vec<&SequentialDifference> = differences.iter().filter(is_of_this).collect();
    let known = own.iter().filter(|it| it.interval.is_some());
    for level in &mut comparison.levels {
        let difference = known.clone().find(|it| it.level == level.name);
        level.difference = difference.map(|it| Difference::at_any_look(it, &it.measured()));
        level.without_own =
            difference.and_then(|it| Some(Difference::at_any_look(it, it.without_own.as_ref()?)));
    }
    comparison.runs = own.iter().map(|it| it.rounds).min().unwrap_or(0);
    comparison.p_value = known.clone().map(|it| it.adjusted_p_value).reduce(f64::min);
    comparison.test = comparison
        .p_value
        .map(|_| "sequential t-test of the differences within rounds");
    let needed: Option<Vec<usize>> = own.iter().map(|it| it.rounds_needed(threshold)).collect();
    comparison.runs_needed = needed.and_then(|needed| needed.into_iter().max());
    let too_few = match own.first() {
        Some(first) => comparison.p_value.is_none().then_some(first.rounds_min),
        None => Some(PAIR_VALUES_MIN),
    };
    conclude(&mut comparison, too_few);
    take_back(&mut comparison);
    comparison
}

/// Whether the plan's rate determines the metric, because all runs kept it.
fn is_set_by_rate(values: &Values) -> bool {
    values.fixed_rate.is_some_and(|rate| rate.missed == 0)
}

/// The levels as measured, without a judgement.
pub(super) fn not_judged(
    factor: Option<String>,
    place: Vec<String>,
    metric: &Metric,
    threshold: f64,
    values: &Values,
) -> Comparison {
    let runs = values.levels.iter().map(|level| level.measured.len());
    Comparison {
        factor,
        place,
        metric: metric.clone(),
        levels: levels_without_differences(values),
        p_value: None,
        test: None,
        is_relative: false,
        has_rounds: values.has_rounds,
        is_sequential: false,
        runs: runs.min().unwrap_or(0),
        threshold,
        detectable: None,
        runs_needed: None,
        fixed_rate: values.fixed_rate,
        disagrees: false,
        left_out: Vec::new(),
        outcome: Outcome::SetByRate,
    }
}

/// The smallest ratio of change that this number of runs detects with this noise of logarithms, and
/// the number of runs needed to detect the threshold.
fn power(
    noise: Option<f64>,
    runs: usize,
    threshold: f64,
    shown_by: impl Fn(f64, usize) -> Option<f64>,
) -> (Option<f64>, Option<usize>) {
    let Some(noise) = noise else {
        return (None, None);
    };
    let detectable = shown_by(noise, runs).map(f64::exp_m1);
    let runs_needed = values_needed(threshold.ln_1p(), |runs| shown_by(noise, runs));
    (detectable, runs_needed)
}

fn levels_without_differences(values: &Values) -> Vec<Level> {
    values
        .levels
        .iter()
        .map(|level| {
            let ascending = stats::sorted(&level.measured);
            Level {
                name: level.name.clone(),
                runs: level.measured.len(),
                median: median(&ascending).map(in_15_digits),
                min: ascending.first().copied(),
                max: ascending.last().copied(),
                saturated: level.saturated,
                idle_share: level.idle_share.map(in_15_digits),
                lower_bounds: level.lower_bounds,
                failed: level.failed,
                difference: None,
                without_own: None,
                explained: None,
            }
        })
        .collect()
}

/// Compares the old and new values of several cells. Cells whose values are logarithms share one
/// estimate of the noise, and so do the others.
pub(super) fn judge_cells(
    cells: Vec<(Vec<String>, Values)>,
    metric: &Metric,
    threshold: f64,
) -> Vec<Comparison> {
    // With three runs on each side of two cells the noise is estimated too poorly: in simulations,
    // 5.6 % of sweeps without any effect report a cell.
    let few_cells = cells.len() < 3;
    let needed = |values: &Values| {
        if values.are_logs && !few_cells {
            GROUP_VALUES_MIN
        } else {
            PAIR_VALUES_MIN
        }
    };
    let is_enough = |values: &Values| {
        let levels = &values.levels;
        !is_set_by_rate(values)
            && levels.len() == 2
            && levels
                .iter()
                .all(|level| level.tested.len() >= needed(values))
    };
    let groups: Vec<Vec<Vec<f64>>> = cells.iter().map(|(_, values)| values.tested()).collect();
    let family = |are_logs: bool| -> Vec<usize> {
        (0..cells.len())
            .filter(|cell| cells[*cell].1.are_logs == are_logs && is_enough(&cells[*cell].1))
            .collect()
    };
    let (p_values, noise_of_logs) = tests_of_cells(&groups, &[family(true), family(false)]);
    let judged: Vec<f64> = p_values.iter().copied().flatten().collect();
    let count = judged.len();
    let shown_by = |noise, runs| detectable_difference_in_cells(noise, runs, count);
    let mut adjusted = holm(&judged).into_iter();
    let mut comparisons = Vec::with_capacity(cells.len());
    for (((place, values), groups), p_value) in cells.into_iter().zip(groups).zip(p_values) {
        if is_set_by_rate(&values) {
            comparisons.push(not_judged(None, place, metric, threshold, &values));
            continue;
        }
        let mut levels = levels_without_differences(&values);
        let runs = groups.iter().map(Vec::len).min().unwrap_or(0);
        let mut adjusted_p_value = None;
        if let (Some(p_value), [old, fresh]) = (p_value, groups.as_slice()) {
            let limits = Limits::of(&values, threshold);
            let effect = values.are_logs.then(|| Effect::of([old, fresh], limits));
            // Counts with zeros among them are not equally noisy in all cells, and have no interval
            // that would show it.
            let own = match effect {
                Some(_) => 0.0,
                None => mann_whitney(old, fresh).map_or(1.0, |test| test.p_value),
            };
            let adjusted = adjusted.next().unwrap_or(1.0).max(own);
            adjusted_p_value = Some(adjusted);
            levels[1].difference = Some(Difference::of(effect, p_value.max(own), adjusted));
        }
        let noise = noise_of_logs.filter(|_| values.are_logs);
        let (detectable, runs_needed) = power(noise, runs, threshold, shown_by);
        let mut comparison = Comparison {
            levels,
            p_value: adjusted_p_value,
            test: p_value.map(|_| "distance by the noise of all cells, permutations, Holm"),
            runs,
            detectable,
            runs_needed,
            ..not_judged(None, place, metric, threshold, &values)
        };
        let too_few = p_value.is_none().then(|| needed(&values));
        conclude(&mut comparison, too_few);
        comparisons.push(comparison);
    }
    comparisons
}

/// The p-value of each cell, not corrected, and the noise of the first family. Cells of a family
/// share one estimate of the noise. A cell in neither family is not tested.
fn tests_of_cells(
    groups: &[Vec<Vec<f64>>],
    families: &[Vec<usize>; 2],
) -> (Vec<Option<f64>>, Option<f64>) {
    let mut p_values = vec![None; groups.len()];
    let [noise_of_first, _] = families.each_ref().map(|family| {
        let pairs: Vec<[Vec<f64>; 2]> = family
            .iter()
            .map(|cell| [groups[*cell][0].clone(), groups[*cell][1].clone()])
            .collect();
        let found = cell_by_cell(&pairs, DRAWS, SEED).unwrap_or_else(|| vec![1.0; pairs.len()]);
        for (cell, p_value) in family.iter().zip(found) {
            p_values[*cell] = Some(p_value);
        }
        noise(&pairs.concat())
    });
    (p_values, noise_of_first)
}

/// The fewest values in each of two groups with which the Mann-Whitney test can find something.
const PAIR_VALUES_MIN: usize = 4;

/// The number of runs that a level needs, if a level has fewer.
fn too_few_runs(groups: &[Vec<f64>]) -> Option<usize> {
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

/// Tests all levels at once.
fn test_of_all(groups: &[Vec<f64>], in_blocks: bool) -> (Option<f64>, Option<&'static str>) {
    let (test, name) = match groups {
        [first, second] if in_blocks => {
            let p_value = PairedDifference::of(first, second).map(|pairs| pairs.p_value());
            return (p_value, p_value.map(|_| "t-test of pairs within rounds"));
        }
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

/// Tests each level against the first one.
fn pairs(groups: &[Vec<f64>], in_blocks: bool) -> Vec<GroupPValues> {
    let alone = |p_value| GroupPValues {
        p_value,
        adjusted_p_value: p_value,
    };
    if let [first, second] = groups {
        let p_value = match in_blocks {
            true => PairedDifference::of(first, second).map(|pairs| pairs.p_value()),
            false => mann_whitney(first, second).map(|test| test.p_value),
        };
        return p_value.map(alone).into_iter().collect();
    }
    let permutations = Permutations {
        in_blocks,
        draws: DRAWS,
        seed: SEED,
    };
    match compare_with_reference(groups, 0, permutations) {
        Some(all) => all[1..].to_vec(),
        None => vec![alone(1.0); groups.len().saturating_sub(1)],
    }
}

/// Which differences of logarithms matter, and how small an interval may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Differences up to this do not matter.
    pub(super) threshold: f64,
    /// No interval is narrower than this to either side, because the runs measure no finer.
    pub(super) finest: f64,
}

impl Limits {
    pub(super) fn of(values: &Values, threshold: f64) -> Self {
        Self {
            threshold: threshold.ln_1p(),
            finest: values.resolution,
        }
    }
}

/// The ratio of two levels, with its intervals.
#[derive(Debug, Clone, Copy)]
struct Effect {
    ratio: f64,
    low: Option<f64>,
    high: Option<f64>,
    is_same: bool,
}

impl Effect {
    /// The effect from groups of logarithms: the second group relative to the first.
    fn of([first, second]: [&Vec<f64>; 2], limits: Limits) -> Self {
        let middle = |group: &[f64]| median(group).unwrap_or(0.0);
        let interval = |confidence| median_difference_interval(first, second, confidence, SEED);
        Self::new(middle(second) - middle(first), interval, limits)
    }

    /// The effect from pairs of logarithms that belong together: the second group relative to the
    /// first.
    fn of_pairs([first, second]: [&[f64]; 2], limits: Limits) -> Self {
        let pairs = PairedDifference::of(first, second);
        let interval = |confidence| pairs.and_then(|pairs| pairs.interval(confidence));
        Self::new(pairs.map_or(0.0, |pairs| pairs.mean), interval, limits)
    }

    fn new(
        difference: f64,
        interval: impl Fn(f64) -> Option<ConfidenceInterval>,
        limits: Limits,
    ) -> Self {
        let known = |it: ConfidenceInterval| it.at_least(difference, limits.finest);
        let interval = |confidence| interval(confidence).map(known);
        let wide = interval(0.95);
        let limit = limits.threshold;
        Self {
            ratio: difference.exp(),
            low: wide.map(|wide| wide.low.exp()),
            high: wide.map(|wide| wide.high.exp()),
            is_same: interval(0.90).is_some_and(|near| -limit < near.low && near.high < limit),
        }
    }
}

impl Difference {
    /// The difference that a sequential test has found so far.
    fn at_any_look(known: &SequentialDifference, change: &Change) -> Self {
        let ratio = |change: f64| known.is_ratio.then_some(1.0 + change);
        Self {
            ratio: ratio(change.difference),
            low: change.interval.and_then(|(low, _)| ratio(low)),
            high: change.interval.and_then(|(_, high)| ratio(high)),
            p_value: change.p_value,
            adjusted_p_value: change.adjusted_p_value,
            is_same: known.decision_of(change) == Decision::Same,
        }
    }

    fn of(effect: Option<Effect>, p_value: f64, adjusted_p_value: f64) -> Self {
        Self {
            ratio: effect.map(|effect| effect.ratio),
            low: effect.and_then(|effect| effect.low),
            high: effect.and_then(|effect| effect.high),
            p_value,
            adjusted_p_value,
            is_same: effect.is_some_and(|effect| effect.is_same),
        }
    }
}

/// Removes the differences of levels of which too little is known: where the smaller value of a
/// pair is a lower bound, or both are, either may be the larger one in truth. Returns whether there
/// are such levels.
fn take_back_lower_bounds(levels: &mut [Level]) -> bool {
    let Some((reference, others)) = levels.split_first_mut() else {
        return false;
    };
    let mut is_taken_back = false;
    for level in others {
        let [first, other] = [&*reference, &*level].map(Level::is_lower_bound);
        let is_open = match (first, other) {
            (false, false) => false,
            (true, true) => true,
            (true, false) => reference.median <= level.median,
            (false, true) => level.median <= reference.median,
        };
        if is_open {
            level.difference = None;
            is_taken_back = true;
        } else if let Some(difference) = level.difference.as_mut().filter(|_| first || other) {
            difference.is_same = false;
        }
    }
    is_taken_back
}

/// Sets the outcome. A level whose requests failed has no difference. Neither has one that may be
/// larger or smaller in truth. Without the first level there is no difference at all.
pub(super) fn conclude(comparison: &mut Comparison, too_few: Option<usize>) {
    let Comparison { levels, metric, .. } = &mut *comparison;
    let is_failing = |level: &Level| level.failed.forbids(metric);
    let is_first_failing = levels.first().is_some_and(is_failing);
    for level in levels.iter_mut() {
        if is_first_failing || is_failing(level) {
            (level.difference, level.without_own) = (None, None);
        }
    }
    let is_open = take_back_lower_bounds(levels);
    let is_any_left = levels.iter().any(|level| level.difference.is_some());
    let is_nothing_left =
        is_first_failing || levels.len() > 1 && levels[1..].iter().all(is_failing);
    comparison.outcome = match too_few {
        _ if is_nothing_left => Outcome::Failing,
        _ if is_open && !is_any_left => Outcome::LowerBounds,
        Some(needed) => Outcome::TooFewRuns { needed },
        None => outcome(comparison),
    };
    if matches!(comparison.outcome, Outcome::Failing | Outcome::LowerBounds) {
        (comparison.p_value, comparison.test) = (None, None);
        (comparison.detectable, comparison.runs_needed) = (None, None);
    }
}

pub(super) fn outcome(comparison: &Comparison) -> Outcome {
    let differences: Vec<(usize, Difference)> = comparison
        .levels
        .iter()
        .enumerate()
        .filter_map(|(index, level)| Some((index, level.difference?)))
        .collect();
    let is_any_explained = comparison.levels.iter().any(|it| it.explained.is_some());
    let are_same = differences.iter().all(|(_, difference)| difference.is_same);
    if !differences.is_empty() && are_same && !is_any_explained {
        return Outcome::Same;
    }
    // The gain over the first level: the ratio, or without one the difference of the medians.
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
    let of_level = |index: usize| comparison.levels[index].difference;
    let may_matter = found
        .iter()
        .filter(|(level, _)| of_level(*level).is_some_and(|it| !it.is_same))
        .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))
        .map(|(level, _)| *level);
    found.retain(|(level, _)| {
        of_level(*level).is_none_or(|difference| comparison.matters(&difference))
    });
    let (Some((worst, _)), Some((best, gain))) = (found.first(), found.last()) else {
        return Outcome::Undecided { level: may_matter };
    };
    match comparison.metric.better {
        Better::Neither => Outcome::Changed { level: *best },
        _ if *gain > 0.0 => Outcome::Better { level: *best },
        _ => Outcome::Worse { level: *worst },
    }
}
