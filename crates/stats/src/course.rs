//! What a series shows over its order: changes, a drift, and newest values that differ.

use crate::change::{ChangePoint, Levels, PARAMETERS_OF_CHANGE, change_points, change_values_min};
use crate::newest::{Newest, newest_against_stable};
use crate::sample::median;
use crate::segments::{Ramp, best_places, best_ramp, part_means, squares, without_outliers};
use crate::split::DRAWS_MAX;
use crate::student::student_t_quantile;

/// The share of the level for changes; the rest is for the newest values.
const CHANGES_SHARE: f64 = 0.7;

/// How much better a drift must describe a series than changes do, as a difference of Schwarz's
/// criterion.
const DRIFT_MARGIN: f64 = 2.0;

/// How many changes more than those found a drift is compared with.
const MORE_CHANGES: usize = 2;

/// What a series of values shows over its order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Course {
    /// The changes of its level, in order, beside the drift.
    pub changes: Vec<ChangePoint>,
    /// A steady slope.
    pub drift: Option<Drift>,
    /// The newest values, if they differ from the last level, but are too few for a change.
    pub newest: Option<Newest>,
    /// For each value its level: the mean of the values between changes without outliers, on the
    /// slope of a drift.
    pub levels: Vec<f64>,
    /// The standard deviation of the values around their levels.
    pub deviation: f64,
    /// The degrees of freedom of the deviation.
    pub freedom: f64,
    /// The level at which changes are found.
    pub level: f64,
}

/// A steady slope of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Index of the last value before the slope.
    pub from: usize,
    /// Index of the first value after it.
    pub to: usize,
    /// From one value to the next.
    pub slope: f64,
    /// The 95 % interval of the slope.
    pub interval: [f64; 2],
    /// The p-value of the changes that the slope would need.
    pub p_value: f64,
}

impl Course {
    /// What a series shows. Each group has the measurements of a value, which is their median.
    ///
    /// A series of independent values of one distribution shows nothing with a probability of at
    /// least 1 - `level`.
    #[must_use]
    pub fn of(groups: &[Vec<f64>], level: f64, seed: u64) -> Self {
        let values: Vec<f64> = groups.iter().filter_map(|group| median(group)).collect();
        let levels = Levels {
            first: level * CHANGES_SHARE,
            further: level,
        };
        let clean = without_outliers(&values);
        let changes = change_points(&values, levels, DRAWS_MAX, seed);
        let mut course = Self::with(&clean, changes, None);
        if !course.changes.is_empty() {
            let drifting = Self::drifting(&values, &course, levels, seed);
            if let Some(drifting) = drifting {
                course = drifting;
            }
        }
        course.level = levels.first;
        let level_of_newest = level - levels.first;
        course.newest = newest_against_stable(groups, &course, level_of_newest, levels, seed);
        course
    }

    /// The fewest values in which a change can be found, however clear it is.
    #[must_use]
    pub fn values_min(level: f64, seed: u64) -> usize {
        change_values_min(level * CHANGES_SHARE, seed)
    }

    fn with(clean: &[f64], changes: Vec<ChangePoint>, ramp: Option<Ramp>) -> Self {
        let slope: Vec<f64> = (0..clean.len())
            .map(|at| ramp.map_or(0.0, |ramp| ramp.at(at)))
            .collect();
        let rest: Vec<f64> = clean.iter().zip(&slope).map(|(one, it)| one - it).collect();
        let places: Vec<usize> = changes.iter().map(|change| change.at).collect();
        let levels = part_means(&rest, &places);
        let fitted = places.len() + 1 + ramp.map_or(0, |_| 1);
        let freedom = clean.len().saturating_sub(fitted).max(1) as f64;
        Self {
            deviation: (squares(&rest, &levels) / freedom).sqrt(),
            levels: levels
                .iter()
                .zip(&slope)
                .map(|(one, it)| one + it)
                .collect(),
            freedom,
            changes,
            ..Self::default()
        }
    }

    /// The same with a drift, if that describes the series better.
    fn drifting(values: &[f64], steps: &Self, levels: Levels, seed: u64) -> Option<Self> {
        let clean = without_outliers(values);
        let ramp = best_ramp(&clean)?;
        let rest: Vec<f64> = (0..values.len())
            .map(|at| values[at] - ramp.at(at))
            .collect();
        let changes = change_points(&rest, levels, DRAWS_MAX, seed);
        let count = values.len() as f64;
        let information = |levels: &[f64], parameters: usize| {
            let left = squares(&clean, levels).max(f64::MIN_POSITIVE);
            count * (left / count).ln() + count.ln() * parameters as f64
        };
        // Changes that are not clear enough to be named may describe the series better, too.
        let found = steps.changes.len();
        let by_steps = (found..=found + MORE_CHANGES).filter_map(|changes| {
            let places = best_places(&clean, changes)?;
            Some(information(
                &part_means(&clean, &places),
                PARAMETERS_OF_CHANGE * changes,
            ))
        });
        let by_steps = by_steps.fold(f64::INFINITY, f64::min);
        let reach = ramp.error * student_t_quantile(0.975, (count - 2.0).max(1.0))?;
        let p_value = steps.changes.iter().map(|change| change.p_value);
        let drift = Drift {
            from: ramp.ends[0],
            to: ramp.ends[1],
            slope: ramp.slope,
            interval: [ramp.slope - reach, ramp.slope + reach],
            p_value: p_value.fold(1.0, f64::min),
        };
        let drifting = Self {
            drift: Some(drift),
            ..Self::with(&clean, changes, Some(ramp))
        };
        // The slope, and for each end that is fitted its place and a level.
        let ends = ramp.places(values.len());
        let parameters = PARAMETERS_OF_CHANGE * drifting.changes.len() + 1 + 2 * ends;
        let by_drift = information(&drifting.levels, parameters);
        (by_drift + DRIFT_MARGIN < by_steps).then_some(drifting)
    }

    /// The interval of the difference of the levels on both sides of a change, after minus before;
    /// the places are taken as known. `None` if `confidence` is not between 0 and 1.
    #[must_use]
    pub fn interval(&self, change: usize, confidence: f64) -> Option<[f64; 2]> {
        let bounds = |at: usize| self.changes.get(at).map(|change| change.at);
        let at = bounds(change)?;
        let begin = change.checked_sub(1).and_then(bounds).unwrap_or(0);
        let end = bounds(change + 1).unwrap_or(self.levels.len());
        let sizes = 1.0 / (at - begin) as f64 + 1.0 / (end - at) as f64;
        let t = student_t_quantile(f64::midpoint(1.0, confidence), self.freedom)?;
        let reach = t * self.deviation * sizes.sqrt();
        let difference = self.levels[at] - self.levels[at - 1];
        Some([difference - reach, difference + reach])
    }
}
