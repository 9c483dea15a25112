//! The newest values of a series against its last level.

use fastrand::Rng;

use crate::change::{Levels, change_points};
use crate::course::Course;
use crate::sample::{mean, median};
use crate::segments::without_outliers;
use crate::split::DRAWS_MIN;
use crate::student::student_t_quantile;

/// The most newest values that are judged together: more of them are a change, or none.
const NEWEST_MAX: usize = 3;

/// The fewest values of the last level.
const STABLE_MIN: usize = 4;

/// The least degrees of freedom of the deviation.
const FREEDOM_MIN: f64 = 4.0;

/// The tails that are allowed for: a distance is exceeded by a factor with a probability of the
/// factor to the power of minus this. Normal and lognormal values have lighter tails.
const TAIL_POWER: f64 = 5.0;

/// Continuations of the series for the number of values that a change needs, and how many of them
/// must show it.
const CONTINUATIONS: usize = 10;
const CONFIRMED_MIN: usize = 8;

/// Newest values that differ from the last level, but are too few for a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Newest {
    /// How many they are.
    pub count: usize,
    /// Index of the first value of the level with which they are compared.
    pub stable_from: usize,
    /// The level of the values before.
    pub before: f64,
    /// Their mean minus that level.
    pub difference: f64,
    /// The 95 % interval of the difference, which knows how much values of one level scatter.
    pub interval: [f64; 2],
    /// How many further values of the same level would make it a change in at least 80 % of
    /// simulated continuations; `None` if more than six.
    pub further: Option<usize>,
}

impl Newest {
    /// The most further values that are tried.
    pub const FURTHER_MAX: usize = 6;
}

/// The clearest difference of the newest one to three values from the last level.
///
/// A series without a change has one with a probability of about `level`; `levels` are those of
/// changes. Values on a drift have no level.
pub(crate) fn newest_against_stable(
    groups: &[Vec<f64>],
    course: &Course,
    level: f64,
    levels: Levels,
    seed: u64,
) -> Option<Newest> {
    let values: Vec<f64> = groups.iter().filter_map(|group| median(group)).collect();
    let last = course.changes.last().map_or(0, |change| change.at);
    let after_drift = course.drift.map_or(0, |drift| drift.to);
    let from = last.max(after_drift);
    let found = (1..=NEWEST_MAX).filter_map(|count| {
        let share = if count == 1 { 0.6 } else { 0.2 };
        newest(groups, &values, course, from, count, level * share)
    });
    let (_, newest) = found.max_by(|one, other| one.0.total_cmp(&other.0))?;
    let further = further(&values, course, &newest, levels, seed);
    Some(Newest { further, ..newest })
}

/// The difference of so many newest values, and how far it is beyond what is allowed.
fn newest(
    groups: &[Vec<f64>],
    values: &[f64],
    course: &Course,
    from: usize,
    count: usize,
    level: f64,
) -> Option<(f64, Newest)> {
    let until = values.len().checked_sub(count)?;
    if until < from + STABLE_MIN {
        return None;
    }
    // Without the newest, so that they do not widen what they are compared with.
    let mut clean = without_outliers(&values[..until]);
    // Nothing after the last one tells whether it stands alone.
    clean[until - 1] = values[until - 1];
    let stable = &clean[from..];
    let before = mean(stable)?;
    let level_of = |at: usize| {
        if at < from { course.levels[at] } else { before }
    };
    let squares: f64 = (0..until)
        .map(|at| (clean[at] - level_of(at)).powi(2))
        .sum();
    let fitted = course.changes.len() + 1 + 2 * usize::from(course.drift.is_some());
    let freedom = until.checked_sub(fitted)? as f64;
    if freedom < FREEDOM_MIN {
        return None;
    }
    let variance = squares / freedom;
    let difference = mean(&values[until..])? - before;
    let of_newest = variance + more_variance(groups, from..until);
    let error = (of_newest / count as f64 + variance / stable.len() as f64).sqrt();
    let critical = student_t_quantile(1.0 - level / 2.0, freedom)?;
    let usual = student_t_quantile(0.975, freedom)?;
    let clearness = difference.abs() / (critical * error);
    // Outliers that stand alone have been taken out.
    let farthest = (0..until).map(|at| (clean[at] - level_of(at)).abs());
    let farthest = farthest.fold(0.0, f64::max);
    // The newest are farthest in one of so many cases. How far, no test of ranks can say.
    let chosen = (0..count).map(|at| (values.len() - at) as f64 / (at + 1) as f64);
    let by_chance = (level * chosen.product::<f64>()).min(1.0);
    let beyond = by_chance.powf(-1.0 / (TAIL_POWER * count as f64));
    let nearest = values[until..]
        .iter()
        .map(|value| (value - before) * difference.signum());
    let is_beyond = nearest.fold(f64::INFINITY, f64::min) > beyond * farthest;
    let reach = usual * error;
    let newest = Newest {
        count,
        stable_from: from,
        before,
        difference,
        interval: [difference - reach, difference + reach],
        further: None,
    };
    (clearness > 1.0 && is_beyond).then_some((clearness, newest))
}

/// By how much the variance of the newest values is larger than that of the others because they
/// have fewer measurements, or measurements that scatter more.
fn more_variance(groups: &[Vec<f64>], stable: std::ops::Range<usize>) -> f64 {
    let groups: Vec<&Vec<f64>> = groups.iter().filter(|group| !group.is_empty()).collect();
    let variance = |groups: &[&Vec<f64>]| {
        let squares = groups.iter().map(|group| {
            let middle = mean(group).unwrap_or(0.0);
            group.iter().map(|it| (it - middle).powi(2)).sum::<f64>()
        });
        let freedom: usize = groups.iter().map(|group| group.len() - 1).sum();
        squares.sum::<f64>() / freedom.max(1) as f64
    };
    let (usual, newest) = (&groups[stable.clone()], &groups[stable.end..]);
    let all = variance(usual);
    let larger = variance(newest).max(all);
    let of_medians = |groups: &[&Vec<f64>], variance: f64| {
        let each = groups.iter().map(|group| variance * of_median(group.len()));
        mean(&each.collect::<Vec<_>>()).unwrap_or(0.0)
    };
    (of_medians(newest, larger) - of_medians(usual, all)).max(0.0)
}

/// The variance of the median of so many normal values of variance 1, within a few percent.
fn of_median(count: usize) -> f64 {
    let pi_half = std::f64::consts::FRAC_PI_2;
    pi_half / (count as f64 + pi_half - 1.0)
}

/// How many further values of the new level would show a change.
fn further(
    values: &[f64],
    course: &Course,
    newest: &Newest,
    levels: Levels,
    seed: u64,
) -> Option<usize> {
    let mut random = Rng::with_seed(seed);
    let until = values.len() - newest.count;
    let stable = &values[newest.stable_from..until];
    (1..=Newest::FURTHER_MAX).find(|more| {
        let confirmed = (0..CONTINUATIONS).filter(|_| {
            let mut longer: Vec<f64> = match course.drift {
                // Its levels are its own.
                Some(_) => stable.to_vec(),
                None => values[..until].to_vec(),
            };
            let until = longer.len();
            longer.extend(&values[values.len() - newest.count..]);
            for _ in 0..*more {
                let one = stable[random.usize(..stable.len())] - newest.before;
                longer.push(newest.before + newest.difference + one);
            }
            let changes = change_points(&longer, levels, DRAWS_MIN, random.u64(..));
            changes.iter().any(|change| change.at.abs_diff(until) <= 1)
        });
        confirmed.count() >= CONFIRMED_MIN
    })
}
