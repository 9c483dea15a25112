//! The places of changes and of a drift by least squares.

use std::ops::Range;

use crate::sample::{mean, median};
use crate::split::SIDE_MIN;

/// For normal values, the median distance of two values in standard deviations.
const MEDIAN_OF_PAIRS: f64 = 0.953_872_552;

/// A value is taken for an outlier if it is farther than this from its neighbours, in standard
/// deviations.
const OUTLIER: f64 = 4.0;

/// The fewest steps from one value to the next that a drift takes: a shorter one is a change, or
/// two of them.
const DRIFT_STEPS_MIN: usize = 12;

/// The most places that are tried as an end of a drift.
const DRIFT_PLACES: usize = 60;

/// The series with each value that is far from the median of itself and its neighbours replaced by
/// that median (Hampel's filter over three values). Changes of level stay where they are, since two
/// values of the new level hold each other.
pub(crate) fn without_outliers(values: &[f64]) -> Vec<f64> {
    let count = values.len();
    if count < 3 {
        return values.to_vec();
    }
    let steps: Vec<f64> = values.windows(2).map(|it| (it[1] - it[0]).abs()).collect();
    let reach = OUTLIER * median(&steps).unwrap_or(0.0) / MEDIAN_OF_PAIRS;
    let clean = |(at, value): (usize, &f64)| {
        let begin = at.saturating_sub(1).min(count - 3);
        let middle = median(&values[begin..begin + 3]).unwrap_or(*value);
        if (value - middle).abs() > reach {
            middle
        } else {
            *value
        }
    };
    values.iter().enumerate().map(clean).collect()
}

/// The parts of a series of this length between changes, given by their first indexes.
pub(crate) fn parts_between(changes: &[usize], count: usize) -> Vec<Range<usize>> {
    let begins = std::iter::once(0).chain(changes.iter().copied());
    let ends = changes.iter().copied().chain([count]);
    begins.zip(ends).map(|(begin, end)| begin..end).collect()
}

/// The means of the parts, for each value.
pub(crate) fn part_means(values: &[f64], changes: &[usize]) -> Vec<f64> {
    let parts = parts_between(changes, values.len()).into_iter();
    parts
        .flat_map(|part| {
            let level = mean(&values[part.clone()]).unwrap_or(0.0);
            vec![level; part.len()]
        })
        .collect()
}

/// The sum of the squared distances from a fit.
pub(crate) fn squares(values: &[f64], fit: &[f64]) -> f64 {
    let both = values.iter().zip(fit);
    both.map(|(value, fit)| (value - fit).powi(2)).sum()
}

/// The places of this number of changes with the smallest sum of squared distances from the means
/// of the parts; `None` if the series is too short for so many (Bellman, "On the Approximation of
/// Curves by Line Segments Using Dynamic Programming", 1961).
pub(crate) fn best_places(values: &[f64], changes: usize) -> Option<Vec<usize>> {
    let count = values.len();
    if count < (changes + 1) * SIDE_MIN {
        return None;
    }
    let middle = mean(values)?;
    let mut sums = vec![(0.0, 0.0)];
    for value in values {
        let (sum, square) = sums[sums.len() - 1];
        let value = value - middle;
        sums.push((sum + value, square + value * value));
    }
    let cost = |begin: usize, end: usize| {
        let (sum, square) = (sums[end].0 - sums[begin].0, sums[end].1 - sums[begin].1);
        square - sum * sum / (end - begin) as f64
    };
    // For each end, the least cost of the values before it, and the last change.
    let mut least: Vec<(f64, usize)> = (0..=count)
        .map(|end| match end {
            0 | 1 => (f64::INFINITY, 0),
            _ => (cost(0, end), 0),
        })
        .collect();
    let mut last_changes = Vec::with_capacity(changes);
    for _ in 0..changes {
        let next = (0..=count).map(|end| {
            let places = SIDE_MIN..(end + 1).saturating_sub(SIDE_MIN);
            let costs = places.map(|place| (least[place].0 + cost(place, end), place));
            costs.fold(
                (f64::INFINITY, 0),
                |best, one| {
                    if one.0 < best.0 { one } else { best }
                },
            )
        });
        least = next.collect();
        last_changes.push(least.iter().map(|it| it.1).collect::<Vec<_>>());
    }
    let mut places = Vec::with_capacity(changes);
    let mut end = count;
    for of_ends in last_changes.iter().rev() {
        end = of_ends[end];
        places.push(end);
    }
    places.reverse();
    Some(places)
}

/// A level, a steady slope and another level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ramp {
    /// Indexes of the last value before the slope and of the first one after it.
    pub(crate) ends: [usize; 2],
    /// The level before the slope.
    pub(crate) before: f64,
    /// What each value within is above the one before.
    pub(crate) slope: f64,
    /// The standard error of the slope.
    pub(crate) error: f64,
}

impl Ramp {
    /// Its value at this index.
    pub(crate) fn at(&self, index: usize) -> f64 {
        let steps = index.clamp(self.ends[0], self.ends[1]) - self.ends[0];
        self.before + self.slope * steps as f64
    }

    /// Its ends within a series of this length, each of which is fitted.
    pub(crate) fn places(&self, count: usize) -> usize {
        usize::from(self.ends[0] > 0) + usize::from(self.ends[1] + 1 < count)
    }
}

/// The ramp with the smallest sum of squared distances; `None` if the series is too short.
pub(crate) fn best_ramp(values: &[f64]) -> Option<Ramp> {
    let count = values.len();
    let stride = count.div_ceil(DRIFT_PLACES);
    let last = count.checked_sub(1)?;
    let mut best: Option<(f64, Ramp)> = None;
    for begin in (0..=last.checked_sub(DRIFT_STEPS_MIN)?).step_by(stride) {
        for end in (begin + DRIFT_STEPS_MIN..=last).rev().step_by(stride) {
            let (left, ramp) = ramp_between(values, [begin, end]);
            if best.is_none_or(|(least, _)| left < least) {
                best = Some((left, ramp));
            }
        }
    }
    best.map(|(_, ramp)| ramp)
}

/// The ramp with these ends by least squares, and the sum of squares that it leaves.
fn ramp_between(values: &[f64], ends: [usize; 2]) -> (f64, Ramp) {
    let count = values.len() as f64;
    let steps = |at: usize| (at.clamp(ends[0], ends[1]) - ends[0]) as f64;
    let (mut x, mut xx, mut y, mut xy) = (0.0, 0.0, 0.0, 0.0);
    for (at, value) in values.iter().enumerate() {
        let step = steps(at);
        x += step;
        xx += step * step;
        y += value;
        xy += step * value;
    }
    let spread = xx - x * x / count;
    let slope = (xy - x * y / count) / spread;
    let before = (y - slope * x) / count;
    let distances = values.iter().enumerate();
    let left: f64 = distances
        .map(|(at, value)| (value - before - slope * steps(at)).powi(2))
        .sum();
    let freedom = (count - 2.0).max(1.0);
    let error = (left / freedom / spread).sqrt();
    let ramp = Ramp {
        ends,
        before,
        slope,
        error,
    };
    (left, ramp)
}
