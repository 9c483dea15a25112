//! From values to a comparison: tests, effects and the outcome.

use stats::{
    ConfidenceInterval, GROUP_VALUES_MIN, GroupPValues, LEVEL, PValueMethod, Permutations, Ranks,
    SerialDifference, cell_by_cell, compare_with_reference, detectable_difference,
    detectable_difference_in_blocks, detectable_difference_in_cells, holm, mann_whitney,
    mann_whitney_p_min, median, median_difference_interval, noise, serial_differences,
    values_needed,
};

use super::own_part::take_back;
use super::paired::Pairs;
use super::runs::Values;
use super::timing::Timing;
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
    let serial = serial(&[&values]).pop().flatten();
    let noise = noise(&spread_out).filter(|_| values.are_logs);
    let noise = noise.map(|noise| noise * widening(serial.as_ref()));
    let paired = Pairs::of(&values, &groups);
    let too_few = too_few_runs(&groups);
    let (p_value, test) = match too_few {
        None => test_of_all(&values, &groups, paired, serial.as_ref()),
        Some(_) => (None, None),
    };
    let mut levels = levels_without_differences(&values);
    if too_few.is_none() {
        let p_values = match p_value.filter(|_| groups.len() == 2) {
            Some(p_value) => vec![alone(p_value)],
            None => against_first(&groups, values.in_blocks),
        };
        for (index, p_values) in p_values.into_iter().enumerate() {
            let limits = Limits::of(&values, threshold);
            let effect = values.are_logs.then(|| match paired {
                Some(paired) => Effect::of_pairs(paired, limits),
                None => {
                    let pair = [&spread_out[0], &spread_out[index + 1]];
                    Effect::of(pair, serial.as_ref(), limits)
                }
            });
            let difference = Difference::of(effect, p_values.p_value, p_values.adjusted_p_value);
            levels[index + 1].difference = Some(difference);
        }
    }
    let count = groups.len();
    let shown_by = |noise, runs| {
        if values.in_blocks {
            detectable_difference_in_blocks(noise, runs, count)
        } else {
            detectable_difference(noise, runs, count)
        }
    };
    let (detectable, runs_needed) = power(noise, runs, threshold, shown_by);
    let mut comparison = Comparison {
        levels,
        p_value,
        test,
        is_relative: values.is_relative,
        timing: with_correlation(values.timing, serial.as_ref()),
        runs,
        detectable,
        runs_needed,
        ..not_judged(factor, place, metric, threshold, &values)
    };
    conclude(&mut comparison, too_few);
    comparison
}

/// The differences of sides that were measured one after the other, which share one estimate of
/// the correlation; `None` for other ones.
fn serial(cells: &[&Values]) -> Vec<Option<SerialDifference>> {
    let sides = |values: &&Values| match (values.timing, values.tested().try_into()) {
        (Some(Timing::Apart { .. }), Ok(sides)) => Some(sides),
        _ => None,
    };
    let sides: Vec<Option<[Vec<f64>; 2]>> = cells.iter().map(sides).collect();
    let apart: Vec<[Vec<f64>; 2]> = sides.iter().flatten().cloned().collect();
    let mut found = serial_differences(&apart).unwrap_or_default().into_iter();
    let of_cell = |sides: &Option<_>| sides.as_ref().and_then(|_| found.next());
    sides.iter().map(of_cell).collect()
}

/// How many times as noisy the runs are for what they can show.
fn widening(serial: Option<&SerialDifference>) -> f64 {
    serial.map_or(1.0, SerialDifference::widening)
}

fn with_correlation(timing: Option<Timing>, serial: Option<&SerialDifference>) -> Option<Timing> {
    match (timing, serial) {
        (Some(Timing::Apart { first, .. }), Some(serial)) => Some(Timing::Apart {
            first,
            correlation: in_15_digits(serial.correlation),
        }),
        _ => timing,
    }
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
        timing: values.timing,
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
/// estimate of the noise, and so do the others; pairs have their own.
pub(super) fn judge_cells(
    cells: Vec<(Vec<String>, Values)>,
    metric: &Metric,
    threshold: f64,
) -> Vec<Comparison> {
    let all: Vec<&Values> = cells.iter().map(|(_, values)| values).collect();
    let (tests, noise_of_logs) = tests_of_cells(&all);
    let judged: Vec<f64> = tests.iter().filter_map(|test| test.p_value).collect();
    let count = judged.len();
    let mut adjusted = holm(&judged).into_iter();
    let mut comparisons = Vec::with_capacity(cells.len());
    for ((place, values), test) in cells.iter().zip(tests) {
        if is_set_by_rate(values) {
            comparisons.push(not_judged(None, place.clone(), metric, threshold, values));
            continue;
        }
        let groups = values.tested();
        let mut levels = levels_without_differences(values);
        let runs = groups.iter().map(Vec::len).min().unwrap_or(0);
        let mut adjusted_p_value = None;
        if let (Some(p_value), [old, fresh]) = (test.p_value, groups.as_slice()) {
            let effect = test.effect([old, fresh], values, threshold);
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
        let (detectable, runs_needed) = match &test.paired {
            Some(_) => power_of_pairs(values, runs, threshold),
            None => {
                let noise = noise_of_logs.filter(|_| values.are_logs);
                let noise = noise.map(|noise| noise * widening(test.serial.as_ref()));
                power(noise, runs, threshold, |noise, runs| {
                    detectable_difference_in_cells(noise, runs, count)
                })
            }
        };
        let mut comparison = Comparison {
            levels,
            p_value: adjusted_p_value,
            test: test.name(),
            is_relative: values.is_relative,
            timing: with_correlation(values.timing, test.serial.as_ref()),
            runs,
            detectable,
            runs_needed,
            ..not_judged(None, place.clone(), metric, threshold, values)
        };
        let needed = runs_needed_of_cell(values, cells.len());
        conclude(&mut comparison, test.p_value.is_none().then_some(needed));
        comparisons.push(comparison);
    }
    comparisons
}

/// The power of a cell whose runs are pairs.
fn power_of_pairs(values: &Values, runs: usize, threshold: f64) -> (Option<f64>, Option<usize>) {
    let noise = noise(&values.spread_out()).filter(|_| values.are_logs);
    let shown_by = |noise, runs| detectable_difference_in_blocks(noise, runs, 2);
    power(noise, runs, threshold, shown_by)
}

/// The runs that each side of a cell needs. With three runs on each side of two cells the noise is
/// estimated too poorly: in simulations, 5.6 % of sweeps without any effect report a cell.
fn runs_needed_of_cell(values: &Values, cells: usize) -> usize {
    if values.are_logs && !values.in_blocks && cells >= 3 {
        GROUP_VALUES_MIN
    } else {
        PAIR_VALUES_MIN
    }
}

/// The tests of a cell of two sweeps.
#[derive(Debug, Clone, Default)]
struct CellTest {
    /// Not corrected; `None` if the cell is not tested.
    p_value: Option<f64>,
    serial: Option<SerialDifference>,
    paired: Option<Pairs>,
}

impl CellTest {
    fn name(&self) -> Option<&'static str> {
        self.p_value?;
        Some(match (&self.paired, &self.serial) {
            (Some(_), _) => "t-test of pairs in the order of time, Holm",
            (None, None) => "distance by the noise of all cells, permutations, Holm",
            (None, Some(_)) => {
                "distance by the noise of all cells, permutations, and t-test with correlated \
                 noise, Holm"
            }
        })
    }

    fn effect(&self, sides: [&Vec<f64>; 2], values: &Values, threshold: f64) -> Option<Effect> {
        let limits = Limits::of(values, threshold);
        values.are_logs.then(|| match self.paired {
            Some(paired) => Effect::of_pairs(paired, limits),
            None => Effect::of(sides, self.serial.as_ref(), limits),
        })
    }
}

/// The test of each cell, and the noise of the logarithms. The cells whose values are logarithms
/// share one estimate of the noise, and so do the others. A cell with too few runs is not tested.
fn tests_of_cells(cells: &[&Values]) -> (Vec<CellTest>, Option<f64>) {
    let is_enough = |values: &Values| {
        let needed = runs_needed_of_cell(values, cells.len());
        !is_set_by_rate(values)
            && values.levels.len() == 2
            && values.levels.iter().all(|it| it.tested.len() >= needed)
    };
    let mut tests = vec![CellTest::default(); cells.len()];
    for (test, values) in tests.iter_mut().zip(cells) {
        test.paired = Pairs::of(values, &values.tested()).filter(|_| is_enough(values));
        test.p_value = test.paired.as_ref().map(Pairs::p_value);
    }
    let [noise_of_logs, _] = [true, false].map(|are_logs| {
        let family: Vec<usize> = (0..cells.len())
            .filter(|cell| cells[*cell].are_logs == are_logs && !cells[*cell].in_blocks)
            .filter(|cell| is_enough(cells[*cell]))
            .collect();
        let of_family: Vec<&Values> = family.iter().map(|cell| cells[*cell]).collect();
        let sides: Vec<[Vec<f64>; 2]> = of_family
            .iter()
            .filter_map(|values| values.tested().try_into().ok())
            .collect();
        let found = cell_by_cell(&sides, DRAWS, SEED).unwrap_or_else(|| vec![1.0; sides.len()]);
        for ((cell, p_value), serial) in family.into_iter().zip(found).zip(serial(&of_family)) {
            let least = serial.as_ref().map_or(0.0, SerialDifference::p_value);
            tests[cell].p_value = Some(p_value.max(least));
            tests[cell].serial = serial;
        }
        noise(&sides.concat())
    });
    (tests, noise_of_logs)
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
fn test_of_all(
    values: &Values,
    groups: &[Vec<f64>],
    paired: Option<Pairs>,
    serial: Option<&SerialDifference>,
) -> (Option<f64>, Option<&'static str>) {
    let (test, name) = match groups {
        [_, _] if values.in_blocks => {
            let p_value = paired.map(|pairs| pairs.p_value());
            let name = match values.timing {
                Some(_) => "t-test of pairs in the order of time",
                None => "t-test of pairs within rounds",
            };
            return (p_value, p_value.map(|_| name));
        }
        [first, second] => {
            let test = mann_whitney(first, second);
            let name = match (test.map(|test| test.method), serial) {
                (Some(PValueMethod::Normal), None) => "Mann-Whitney, normal distribution",
                (_, None) => "Mann-Whitney, exact",
                (_, Some(_)) => "Mann-Whitney, and t-test with correlated noise",
            };
            (test, name)
        }
        _ => {
            let test = Ranks::of(groups, values.in_blocks).map(|ranks| ranks.test(SEED));
            let name = match test.map(|test| test.method) {
                Some(PValueMethod::Permutation) => "Kruskal-Wallis, permutations",
                _ => "Kruskal-Wallis, chi-squared distribution",
            };
            (test, name)
        }
    };
    let least = serial.map_or(0.0, SerialDifference::p_value);
    (test.map(|test| test.p_value.max(least)), test.map(|_| name))
}

/// The p-values of a difference that is the only one.
fn alone(p_value: f64) -> GroupPValues {
    GroupPValues {
        p_value,
        adjusted_p_value: p_value,
    }
}

/// Tests each of several levels against the first one.
fn against_first(groups: &[Vec<f64>], in_blocks: bool) -> Vec<GroupPValues> {
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
    /// The effect from groups of logarithms: the second group relative to the first. `serial` is
    /// their difference if one was measured after the other.
    fn of(
        [first, second]: [&Vec<f64>; 2],
        serial: Option<&SerialDifference>,
        limits: Limits,
    ) -> Self {
        let middle = |group: &[f64]| median(group).unwrap_or(0.0);
        let interval = |confidence| {
            let plain = median_difference_interval(first, second, confidence, SEED)?;
            let wide = serial.and_then(|serial| serial.interval(confidence));
            Some(wide.map_or(plain, |wide| plain.and(wide)))
        };
        Self::new(middle(second) - middle(first), interval, limits)
    }

    /// The effect from pairs of logarithms that belong together.
    fn of_pairs(pairs: Pairs, limits: Limits) -> Self {
        Self::new(
            pairs.mean(),
            |confidence| pairs.interval(confidence),
            limits,
        )
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
