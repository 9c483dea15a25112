//! Where a series changes its level.

use fastrand::Rng;

use crate::segments::{best_places, part_means, parts_between, without_outliers};
use crate::split::{DRAWS_MAX, Evidence, SIDE_MIN, clearest_split};

/// A point of a series from which on its values are higher or lower than before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// Index of the first value after the change.
    pub at: usize,
    /// Share of the permutations of the series without the changes found before that have one at
    /// least as clear, by sizes or by ranks.
    pub p_value: f64,
    /// The p-value by sizes alone.
    pub by_sizes: f64,
    /// The p-value by ranks alone.
    pub by_ranks: f64,
}

/// The longest series in which [`change_values_min`] looks.
const VALUES_MAX: usize = 30;

/// What a change takes away of noise, in parameters: a level and its place, which is free and so
/// fits more than a parameter (Zhang and Siegmund, "A Modified Bayes Information Criterion with
/// Applications to the Analysis of Comparative Genomic Hybridization Data", 2007).
pub(crate) const PARAMETERS_OF_CHANGE: usize = 3;

/// A refined place is that of a change found before if it is this near.
const SAME_PLACE: usize = 2;

/// The level of the test for the first change, and of those for further ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Levels {
    pub(crate) first: f64,
    pub(crate) further: f64,
}

/// The changes of a series of independent values, in order.
///
/// Whether there is one is decided by permutations with this seed, of the energy distance and of
/// ranks: a series without a change has one with a probability of at most the first level, whatever
/// the distribution of its values. Where it is follows by least squares. Then the series without
/// the changes so far is examined in the same way, with permutations of what is left without one
/// more. A series with changes has more than the true ones with a probability of about twice the
/// other level.
///
/// Values that are not finite are not allowed.
pub(crate) fn change_points(
    values: &[f64],
    levels: Levels,
    draws_max: usize,
    seed: u64,
) -> Vec<ChangePoint> {
    let mut random = Rng::with_seed(seed);
    let clean = without_outliers(values);
    let mut changes: Vec<ChangePoint> = Vec::new();
    loop {
        let places: Vec<usize> = changes.iter().map(|change| change.at).collect();
        let parts = parts_between(&places, values.len());
        let rest = without_levels(values, &clean, &places);
        let noise = |more: usize| {
            // Without any change, permutations of the values themselves are exact.
            if places.is_empty() {
                return Some(rest.clone());
            }
            let more = best_places(&clean, places.len() + more)?;
            Some(noise_beside(
                values,
                &clean,
                &more,
                more.len() - places.len(),
            ))
        };
        let level = if places.is_empty() {
            levels.first
        } else {
            levels.further
        };
        let found = clearest_split(&rest, &parts, level, draws_max, &mut random, &noise);
        let Some(found) = found else {
            return changes;
        };
        let more = best_places(&clean, places.len() + found.changes);
        let Some(refined) = more.filter(|_| found.combined <= level) else {
            return changes;
        };
        changes = with_evidence(&refined, &changes, found);
    }
}

/// The values minus the means of their parts. A mean follows its own values, the more so the fewer
/// they are, which the result makes up for.
fn without_levels(values: &[f64], clean: &[f64], places: &[usize]) -> Vec<f64> {
    let means = part_means(clean, places);
    let parts = parts_between(places, values.len()).into_iter();
    parts
        .flat_map(|part| {
            let count = part.len() as f64;
            let stretch = (count / (count - 1.0)).sqrt();
            let means = &means;
            part.map(move |at| (values[at] - means[at]) * stretch)
        })
        .collect()
}

/// What is left without changes at these places, of which the last `tried` may be none: then they
/// took away some of the noise.
fn noise_beside(values: &[f64], clean: &[f64], places: &[usize], tried: usize) -> Vec<f64> {
    let count = values.len() as f64;
    let freedom = count - (PARAMETERS_OF_CHANGE * tried) as f64;
    let stretch = (count / freedom.max(1.0)).sqrt();
    let rest = without_levels(values, clean, places).into_iter();
    rest.map(|it| it * stretch).collect()
}

/// The changes at these places: each has the evidence of the one found before nearby, else that of
/// the newest.
fn with_evidence(places: &[usize], before: &[ChangePoint], found: Evidence) -> Vec<ChangePoint> {
    let change = |at: &usize| {
        let same = before
            .iter()
            .filter(|change| change.at.abs_diff(*at) <= SAME_PLACE);
        match same.min_by_key(|change| change.at.abs_diff(*at)) {
            Some(change) => ChangePoint { at: *at, ..*change },
            None => ChangePoint {
                at: *at,
                p_value: found.combined,
                by_sizes: found.by_sizes,
                by_ranks: found.by_ranks,
            },
        }
    };
    places.iter().map(change).collect()
}

/// The fewest values in which a change can be found at this level, however clear it is.
pub(crate) fn change_values_min(level: f64, seed: u64) -> usize {
    let is_found = |count: &usize| {
        let step: Vec<f64> = (0..*count)
            .map(|at| f64::from(u8::from(at >= count / 2)))
            .collect();
        let spread = step
            .iter()
            .zip(0..)
            .map(|(value, at)| value + f64::from(at) * 1e-6);
        let levels = Levels {
            first: level,
            further: 0.0,
        };
        !change_points(&spread.collect::<Vec<_>>(), levels, DRAWS_MAX, seed).is_empty()
    };
    (2 * SIDE_MIN..VALUES_MAX)
        .find(is_found)
        .unwrap_or(VALUES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_5_percent(values: &[f64]) -> Vec<ChangePoint> {
        let levels = Levels {
            first: 0.05,
            further: 0.05,
        };
        change_points(values, levels, DRAWS_MAX, 3)
    }

    #[test]
    fn few_or_equal_values_have_no_change() {
        for values in [&[][..], &[1.0], &[1.0, 2.0, 9.0], &[5.0; 40]] {
            assert_eq!(at_5_percent(values), []);
        }
        for (level, least) in [(0.05, 8), (0.025, 9), (0.01, 11)] {
            let found = change_values_min(level, 5);
            assert!(found.abs_diff(least) <= 1, "{level}: {found}");
        }
    }

    #[test]
    fn a_change_near_the_end_is_found_once_it_is_no_single_value() {
        let mut values: Vec<f64> = (0..30).map(|at| f64::from(at * 7 % 10)).collect();
        values.push(50.0);
        assert_eq!(at_5_percent(&values), []);
        values.push(51.0);
        let changes = at_5_percent(&values);
        assert_eq!(changes.iter().map(|it| it.at).collect::<Vec<_>>(), [30]);
        // Two extreme ranks of 32 are not rare.
        assert!(changes[0].by_sizes <= 0.05 && changes[0].by_ranks > 0.05);
    }
}
