//! Where a series changes its level.

use fastrand::Rng;

use crate::sample::median;

/// A point of a series from which on its values are higher or lower than before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// Index of the first value after the change.
    pub at: usize,
    /// Share of the permutations of this part of the series that have a split at least as clear.
    pub p_value: f64,
}

/// The fewest values on either side of a change.
const SIDE_MIN: usize = 2;

/// Permutations for a p-value, besides the series itself.
const DRAWS: usize = 1_999;

/// The longest series in which [`change_values_min`] looks.
const VALUES_MAX: usize = 30;

/// The changes of a series of independent values, in order.
///
/// The series is split where the ranks of both sides differ most: where the standardised sum of
/// Wilcoxon is largest (Pettitt, "A Non-parametric Approach to the Change-point Problem", 1979,
/// with the sum standardised, so that a split near an end counts as much as one in the middle). The
/// p-value is that of random permutations with this seed. It holds for any distribution: a series
/// without a change is split with a probability of at most `level`. If it is split, both parts are
/// tested in the same way, each at its share of `level` by its length.
///
/// Values that are not finite are not allowed.
#[must_use]
pub fn change_points(values: &[f64], level: f64, seed: u64) -> Vec<ChangePoint> {
    let mut random = Rng::with_seed(seed);
    let mut found = Vec::new();
    let whole = 0..values.len();
    let mut parts = Vec::from([whole]);
    while let Some(part) = parts.pop() {
        let share = part.len() as f64 / values.len() as f64;
        let Some(split) = clearest_split(&values[part.clone()], &mut random) else {
            continue;
        };
        if split.p_value <= level * share {
            let at = part.start + split.at;
            parts.extend([part.start..at, at..part.end]);
            found.push(ChangePoint { at, ..split });
        }
    }
    found.sort_by_key(|change| change.at);
    found
}

/// The fewest values in which a change can be found at this level, however clear it is.
#[must_use]
pub fn change_values_min(level: f64, seed: u64) -> usize {
    let is_found = |count: &usize| {
        let step: Vec<f64> = (0..*count)
            .map(|at| f64::from(u8::from(at >= count / 2)))
            .collect();
        let spread = step
            .iter()
            .zip(0..)
            .map(|(value, at)| value + f64::from(at) * 1e-6);
        !change_points(&spread.collect::<Vec<_>>(), level, seed).is_empty()
    };
    (2 * SIDE_MIN..VALUES_MAX)
        .find(is_found)
        .unwrap_or(VALUES_MAX)
}

/// The medians of the parts between changes, each with the index of its first value.
#[must_use]
pub fn levels_between(values: &[f64], changes: &[ChangePoint]) -> Vec<(usize, f64)> {
    let begins = std::iter::once(0).chain(changes.iter().map(|change| change.at));
    let ends = changes.iter().map(|change| change.at).chain([values.len()]);
    let part = |(begin, end): (usize, usize)| Some((begin, median(&values[begin..end])?));
    begins.zip(ends).filter_map(part).collect()
}

/// The split whose sides differ most, with its p-value; `None` if the values are too few, or all
/// equal.
fn clearest_split(values: &[f64], random: &mut Rng) -> Option<ChangePoint> {
    if values.len() < 2 * SIDE_MIN {
        return None;
    }
    let mut ranks = centred_ranks(values);
    let (at, clearest) = clearest(&ranks)?;
    let mut reached = 0_u32;
    for _ in 0..DRAWS {
        random.shuffle(&mut ranks);
        // The same sums in another order may differ in the last bits.
        let drawn = self::clearest(&ranks).map_or(0.0, |(_, clearness)| clearness);
        reached += u32::from(drawn >= clearest * (1.0 - 1e-9));
    }
    Some(ChangePoint {
        at,
        p_value: f64::from(reached + 1) / (DRAWS + 1) as f64,
    })
}

/// The ranks of values, equal ones with their mean rank, minus the mean of all.
fn centred_ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count();
        let equal = values.iter().filter(|other| *other == value).count();
        below as f64 + equal as f64 / 2.0
    };
    let mean = values.len() as f64 / 2.0;
    values.iter().map(|value| rank(value) - mean).collect()
}

/// The first index of the second side of the clearest split, and its squared standardised rank sum
/// without constant factors; `None` if all ranks are equal.
fn clearest(ranks: &[f64]) -> Option<(usize, f64)> {
    let count = ranks.len();
    let mut sum = 0.0;
    let mut best: Option<(usize, f64)> = None;
    for (at, rank) in (1..count).zip(ranks) {
        sum += rank;
        if (SIDE_MIN..=count - SIDE_MIN).contains(&at) {
            let clearness = sum * sum / (at * (count - at)) as f64;
            if best.is_none_or(|(_, most)| clearness > most) {
                best = Some((at, clearness));
            }
        }
    }
    best.filter(|(_, clearness)| *clearness > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Normal values: the sum of twelve uniform ones.
    fn noise(random: &mut Rng) -> f64 {
        (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
    }

    /// Levels with noise of 1.
    fn series(levels: &[(usize, f64)], random: &mut Rng) -> Vec<f64> {
        let level = |(count, level): &(usize, f64)| vec![*level; *count];
        let levels = levels.iter().flat_map(level);
        levels.map(|level| level + noise(random)).collect()
    }

    #[test]
    fn a_series_without_a_change_has_one_as_often_as_the_level_says() {
        let mut random = Rng::with_seed(1);
        for count in [10, 25, 60] {
            for (name, shape) in [
                ("normal", (|value| value) as fn(f64) -> f64),
                ("lognormal", f64::exp),
                ("with ties", |value| (value * 2.0).round()),
            ] {
                let is_false = |run: u64| {
                    let values = series(&[(count, 0.0)], &mut random);
                    let values: Vec<f64> = values.into_iter().map(shape).collect();
                    !change_points(&values, 0.05, run).is_empty()
                };
                let alarms = (0..300).map(is_false).filter(|is_false| *is_false).count();
                // 15 expected, standard deviation 3.8. Few values have few p-values.
                assert!(alarms <= 28, "{name} {count}: {alarms}");
                assert!(count < 25 || alarms >= 4, "{name} {count}: {alarms}");
            }
        }
    }

    #[test]
    fn changes_are_found_where_they_are() {
        let mut random = Rng::with_seed(2);
        let mut found = 0;
        for run in 0..100 {
            let values = series(&[(15, 0.0), (10, 6.0), (20, 2.0)], &mut random);
            let changes = change_points(&values, 0.05, run);
            let at: Vec<usize> = changes.iter().map(|change| change.at).collect();
            let is_near = |true_at: usize| at.iter().any(|at| at.abs_diff(true_at) <= 1);
            found += u32::from(is_near(15) && is_near(25));
            let levels = levels_between(&values, &changes);
            assert_eq!(levels.len(), changes.len() + 1);
        }
        assert!(found >= 85, "{found}");
    }

    #[test]
    fn a_change_near_the_end_is_found_once_it_is_clear() {
        let mut values: Vec<f64> = (0..30).map(|at| f64::from(at * 7 % 10)).collect();
        values.push(50.0);
        // A single value may be an outlier.
        assert_eq!(change_points(&values, 0.05, 3), []);
        values.extend([51.0, 49.0]);
        let changes = change_points(&values, 0.05, 3);
        assert_eq!(changes.iter().map(|it| it.at).collect::<Vec<_>>(), [30]);
    }

    #[test]
    fn few_or_equal_values_have_no_change() {
        for values in [&[][..], &[1.0], &[1.0, 2.0, 9.0], &[5.0; 40]] {
            assert_eq!(change_points(values, 0.05, 4), []);
        }
        for (level, least) in [(0.05, 8), (0.025, 10), (0.01, 11)] {
            let found = change_values_min(level, 5);
            assert!(found.abs_diff(least) <= 1, "{level}: {found}");
        }
    }
}
