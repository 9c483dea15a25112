//! Comparison of several groups with one of them, with the noise estimated from all groups.

use fastrand::Rng;

use crate::effect::{LEVEL, noise};
use crate::rank::{blocks_of, holm, shuffle_within};
use crate::sample::{mean, median, sorted};

/// How values are permuted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permutations {
    /// Whether the values at one index of all groups form a block. They must have been aligned, and
    /// are permuted within their block only.
    pub in_blocks: bool,
    /// Number of permutations. The resolution of the p-values is its inverse.
    pub draws: u32,
    /// Seed of the random numbers: the same seed gives the same p-values.
    pub seed: u64,
}

/// The p-values of the comparison of a group with the reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupPValues {
    /// Two-sided p-value of this group alone.
    pub p_value: f64,
    /// The p-value corrected for the number of groups.
    pub adjusted_p_value: f64,
}

/// Tests whether each group differs from the reference. The p-values of the reference itself are 1.
///
/// The statistic is that of a t-test with one standard deviation for all groups. The noise is
/// estimated from all groups, so a few values in each are enough; the ranks of five and five values
/// alone could not distinguish one of seven groups. Values further than [`REACH`] times the
/// [`noise`] from their group's median count as being at that distance, so a cold run neither moves
/// its group nor hides the others (Tukey and McLaughlin, "Less Vulnerable Confidence and
/// Significance Procedures for Location Based on a Single Sample", 1963). The distribution of this
/// statistic is not known, so the p-values come from random permutations of all values among the
/// groups.
///
/// The values of a group that differs by far would be permuted into all others, and hide smaller
/// differences. So the test is done in steps, like Holm's correction: groups that are found at
/// [`LEVEL`] are moved onto the reference, and the others are tested again, corrected for the
/// number of groups left (Romano and Wolf, "Exact and Approximate Stepdown Methods for Multiple
/// Hypothesis Testing", 2005).
///
/// `None` with fewer than two groups, an empty group, a value that is not finite, incomplete
/// blocks, or if no group has two values to estimate the noise from.
#[must_use]
pub fn compare_with_reference(
    groups: &[Vec<f64>],
    reference: usize,
    permutations: Permutations,
) -> Option<Vec<GroupPValues>> {
    let mut groups = groups.to_vec();
    if groups.len() < 2 || groups.iter().flatten().any(|value| !value.is_finite()) {
        return None;
    }
    let blocks = blocks_of(&groups, permutations.in_blocks)?;
    let lengths: Vec<usize> = groups.iter().map(Vec::len).collect();
    let limit = reach(&groups)?;
    mirror_far_below(&mut groups, reference, &lengths, limit)?;
    let mut random = Rng::with_seed(permutations.seed);
    let mut known = vec![
        GroupPValues {
            p_value: 1.0,
            adjusted_p_value: 1.0,
        };
        groups.len()
    ];
    let mut open: Vec<usize> = (0..groups.len())
        .filter(|group| *group != reference)
        .collect();
    let mut least = 0.0;
    for _ in 0..STEPS_MAX {
        let values = groups.concat();
        let limited = LimitedGroups::of(&values, &lengths, limit)?;
        let p_values = permuted_p_values(
            values,
            &lengths,
            limit,
            reference,
            &blocks,
            permutations.draws,
            &mut random,
        )?;
        let of_open: Vec<f64> = open.iter().map(|group| p_values[*group]).collect();
        for (group, adjusted) in open.iter().zip(holm(&of_open)) {
            known[*group] = GroupPValues {
                p_value: p_values[*group],
                // A later step cannot give a smaller p-value. Groups are moved at LEVEL, so the
                // corrected values are not valid for a stricter level.
                adjusted_p_value: adjusted.max(least),
            };
        }
        let (found, rest): (Vec<usize>, Vec<usize>) = open
            .iter()
            .partition(|group| known[**group].adjusted_p_value < LEVEL);
        if found.is_empty() || rest.is_empty() {
            break;
        }
        for group in found {
            least = known[group].adjusted_p_value.max(least);
            let distance = limited.means[group] - limited.means[reference];
            for value in &mut groups[group] {
                *value -= distance;
            }
        }
        open = rest;
    }
    Some(known)
}

/// Mirrors groups far below the reference to the same distance above it. With distant groups on
/// both sides, permutations would put their values together, reach twice the observed distances,
/// and nothing would be found.
fn mirror_far_below(
    groups: &mut [Vec<f64>],
    reference: usize,
    lengths: &[usize],
    limit: f64,
) -> Option<()> {
    let means = LimitedGroups::of(&groups.concat(), lengths, limit)?.means;
    let far = if limit.is_finite() { 2.0 * limit } else { 0.0 };
    for (group, mean) in groups.iter_mut().zip(&means) {
        if means[reference] - mean > far {
            for value in group {
                *value = 2.0 * means[reference] - *value;
            }
        }
    }
    Some(())
}

/// P-values of all groups, not corrected.
fn permuted_p_values(
    mut values: Vec<f64>,
    lengths: &[usize],
    limit: f64,
    reference: usize,
    blocks: &[Vec<usize>],
    draws: u32,
    random: &mut Rng,
) -> Option<Vec<f64>> {
    let distances =
        |values: &[f64]| Some(LimitedGroups::of(values, lengths, limit)?.distances_from(reference));
    let observed = distances(&values)?;
    let mut reached = vec![0_u32; lengths.len()];
    for _ in 0..draws {
        shuffle_within(blocks, &mut values, random);
        let permuted = distances(&values)?;
        for ((count, permuted), observed) in reached.iter_mut().zip(permuted).zip(&observed) {
            // The same sums in another order may differ in the last bits.
            *count += u32::from(permuted >= observed * (1.0 - 1e-9));
        }
    }
    let p_value = |count| f64::from(count + 1) / f64::from(draws + 1);
    Some(reached.into_iter().map(p_value).collect())
}

/// Tests whether the second group of each cell differs from the first. The p-values are two-sided
/// and not corrected for the number of cells.
///
/// The noise is estimated from all cells, and the statistic is the same as in
/// [`compare_with_reference`]. Values of one cell are not comparable with those of another, and a
/// cell that differs must not affect the others. So the distances of the values from the mean of
/// their own group are permuted, among all groups of all cells (Freedman and Lane, "A Nonstochastic
/// Interpretation of Reported Significance Levels", 1983). Permuting the values themselves within
/// each cell would be exact but useless: five and five values can be divided in 252 ways, so the
/// smallest p-value is 0.008, which is not significant after a correction for seven cells.
///
/// The noise is assumed to be the same in all cells. `None` without cells, with a group of fewer
/// than two values, or with a value that is not finite.
#[must_use]
pub fn cell_by_cell(cells: &[[Vec<f64>; 2]], draws: u32, seed: u64) -> Option<Vec<f64>> {
    let groups = cells.concat();
    let values = groups.concat();
    let is_short = groups.iter().any(|group| group.len() < 2);
    if cells.is_empty() || is_short || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let lengths: Vec<usize> = groups.iter().map(Vec::len).collect();
    let limit = REACH * noise(&groups)?;
    let limited = LimitedGroups::of(&values, &lengths, limit)?;
    let observed = limited.of_pairs();
    let mut distances: Vec<f64> = Vec::with_capacity(values.len());
    for (group, middle) in groups.iter().zip(&limited.means) {
        // Values are closer to the mean of their own group than to the true mean.
        let count = group.len() as f64;
        let wide = (count / (count - 1.0)).sqrt();
        distances.extend(group.iter().map(|value| (value - middle) * wide));
    }
    let all = [(0..distances.len()).collect()];
    let mut random = Rng::with_seed(seed);
    let mut reached = vec![0_u64; cells.len()];
    for _ in 0..draws {
        shuffle_within(&all, &mut distances, &mut random);
        let permuted = sorted(&LimitedGroups::of(&distances, &lengths, limit)?.of_pairs());
        for (count, observed) in reached.iter_mut().zip(&observed) {
            // As above. Without differences all cells have the same distribution, so the permuted
            // statistics of all cells are counted.
            let below = permuted.partition_point(|permuted| *permuted < observed * (1.0 - 1e-9));
            *count += (permuted.len() - below) as u64;
        }
    }
    let permuted = f64::from(draws) * cells.len() as f64;
    let p_value = |count| (count as f64 + 1.0) / (permuted + 1.0);
    Some(reached.into_iter().map(p_value).collect())
}

/// Maximum number of steps. Each takes as long as the first, and finds at least one group.
const STEPS_MAX: usize = 32;

/// Maximum distance at which a value counts from its group's median, in standard deviations.
const REACH: f64 = 3.0;

/// [`REACH`] in the unit of the values, for values that are permuted as they are. If most values of
/// a group are equal, as with a fixed rate, the noise is 0 and no value is limited: otherwise all
/// permuted values would be set to their median.
pub(crate) fn reach(groups: &[Vec<f64>]) -> Option<f64> {
    let noise = noise(groups)?;
    Some(if noise > 0.0 {
        REACH * noise
    } else {
        f64::INFINITY
    })
}

/// Groups whose values are limited to a distance from their group's median.
struct LimitedGroups<'a> {
    lengths: &'a [usize],
    means: Vec<f64>,
    /// Sum of the squared distances of the values from their group's mean.
    squares: f64,
}

impl<'a> LimitedGroups<'a> {
    fn of(values: &[f64], lengths: &'a [usize], limit: f64) -> Option<Self> {
        let mut rest = values;
        let mut squares = 0.0;
        let mut means = Vec::with_capacity(lengths.len());
        for length in lengths {
            let (own, others) = rest.split_at(*length);
            rest = others;
            let middle = median(own)?;
            let limited: Vec<f64> = own
                .iter()
                .map(|value| value.clamp(middle - limit, middle + limit))
                .collect();
            let own_mean = mean(&limited)?;
            squares += limited
                .iter()
                .map(|value| (value - own_mean).powi(2))
                .sum::<f64>();
            means.push(own_mean);
        }
        Some(Self {
            lengths,
            means,
            squares,
        })
    }

    /// |mean - other mean| / sqrt(squares (1 / n + 1 / other n)) of two groups.
    fn distance(&self, first: usize, second: usize) -> f64 {
        let share = 1.0 / self.lengths[first] as f64 + 1.0 / self.lengths[second] as f64;
        let difference = (self.means[first] - self.means[second]).abs();
        if difference == 0.0 {
            0.0
        } else {
            difference / (self.squares * share).sqrt()
        }
    }

    /// Distances of all groups from the reference.
    fn distances_from(&self, reference: usize) -> Vec<f64> {
        (0..self.means.len())
            .map(|group| self.distance(group, reference))
            .collect()
    }

    /// Distances between the two groups of each pair.
    fn of_pairs(&self) -> Vec<f64> {
        (0..self.means.len())
            .step_by(2)
            .map(|first| self.distance(first, first + 1))
            .collect()
    }
}
