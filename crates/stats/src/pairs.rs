//! Several groups beside one of them, with the noise that all of them show.

use fastrand::Rng;

use crate::effect::{LEVEL, noise};
use crate::rank::{blocks_of, holm, shuffle_within};
use crate::sample::{mean, median, sorted};

/// How values are dealt out anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dealing {
    /// The values at one index of all groups belong together, have been aligned, and are dealt out
    /// among themselves only.
    pub in_blocks: bool,
    /// How often: p-values have a grain of one in so many.
    pub draws: u32,
    /// The same seed gives the same p-values.
    pub seed: u64,
}

/// How surely a group differs from the reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Beside {
    /// Two-sided, of this group alone.
    pub p_value: f64,
    /// Corrected for how many groups there are.
    pub adjusted_p_value: f64,
}

/// Whether each group differs from the reference; 1 for the reference itself.
///
/// The figure is that of a t-test with one deviation for all groups: all of them say how large the
/// noise is, so that few values in each suffice. The ranks of five and five values alone could not
/// tell one of seven groups apart. Values further than [`REACH`] times the [`noise`] from their
/// group's median count as being that far, so that a cold run neither moves its group nor hides the
/// others (Tukey and McLaughlin, "Less Vulnerable Confidence and Significance Procedures for
/// Location Based on a Single Sample", 1963). Such a figure has no distribution to look up: all
/// values are dealt out anew among the groups to see how far it goes by chance.
///
/// A group that differs by far would have its values dealt among all others, and hide what less
/// differs. So it is done in steps, as Holm's correction itself is: groups that are found at
/// [`LEVEL`] are moved onto the reference, and the rest is looked at anew, corrected for how many
/// are left (Romano and Wolf, "Exact and Approximate Stepdown Methods for Multiple Hypothesis
/// Testing", 2005).
///
/// `None` with fewer than two groups, an empty one, what is no number, blocks that are not
/// complete, or no two values to tell the noise by.
#[must_use]
pub fn beside_reference(
    groups: &[Vec<f64>],
    reference: usize,
    dealing: Dealing,
) -> Option<Vec<Beside>> {
    let mut groups = groups.to_vec();
    if groups.len() < 2 || groups.iter().flatten().any(|value| !value.is_finite()) {
        return None;
    }
    let blocks = blocks_of(&groups, dealing.in_blocks)?;
    let lengths: Vec<usize> = groups.iter().map(Vec::len).collect();
    let limit = reach(&groups)?;
    mirror_far_below(&mut groups, reference, &lengths, limit)?;
    let mut random = Rng::with_seed(dealing.seed);
    let mut known = vec![
        Beside {
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
        let near = Near::of(&values, &lengths, limit)?;
        let p_values = by_dealing(
            values,
            &lengths,
            limit,
            reference,
            &blocks,
            dealing.draws,
            &mut random,
        )?;
        let of_open: Vec<f64> = open.iter().map(|group| p_values[*group]).collect();
        for (group, adjusted) in open.iter().zip(holm(&of_open)) {
            known[*group] = Beside {
                p_value: p_values[*group],
                // What is found later is not found more surely. Groups are moved at LEVEL: for a
                // stricter one these are no corrected values.
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
            let distance = near.means[group] - near.means[reference];
            for value in &mut groups[group] {
                *value -= distance;
            }
        }
        open = rest;
    }
    Some(known)
}

/// Turns groups that lie far below the reference over to the other side of it, where their distance
/// is the same. With groups far off on both sides, one value of each dealt beside the other would
/// go twice as far as anything that was observed, and nothing would be found.
fn mirror_far_below(
    groups: &mut [Vec<f64>],
    reference: usize,
    lengths: &[usize],
    limit: f64,
) -> Option<()> {
    let means = Near::of(&groups.concat(), lengths, limit)?.means;
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

/// P-values of all groups, uncorrected.
fn by_dealing(
    mut values: Vec<f64>,
    lengths: &[usize],
    limit: f64,
    reference: usize,
    blocks: &[Vec<usize>],
    draws: u32,
    random: &mut Rng,
) -> Option<Vec<f64>> {
    let distances = |values: &[f64]| Some(Near::of(values, lengths, limit)?.beside(reference));
    let observed = distances(&values)?;
    let mut reached = vec![0_u32; lengths.len()];
    for _ in 0..draws {
        shuffle_within(blocks, &mut values, random);
        let dealt = distances(&values)?;
        for ((count, dealt), observed) in reached.iter_mut().zip(dealt).zip(&observed) {
            // The same sums in another order may differ in the last bits.
            *count += u32::from(dealt >= observed * (1.0 - 1e-9));
        }
    }
    let p_value = |count| f64::from(count + 1) / f64::from(draws + 1);
    Some(reached.into_iter().map(p_value).collect())
}

/// Whether the second group of each cell differs from the first: two-sided p-values, not corrected
/// for how many cells there are.
///
/// All cells say how large the noise is, as in [`beside_reference`], and the figure is the same.
/// Values of one cell are not comparable with those of another, and a cell that does differ must
/// say nothing of the others; so it is the values' distances from the mean of their own group that
/// are dealt out anew, among all groups of all cells (Freedman and Lane, "A Nonstochastic
/// Interpretation of Reported Significance Levels", 1983). Dealing out the values themselves within
/// each cell would be exact, and of no use: five and five have 252 ways to be dealt, whose least
/// p-value of 0.008 is gone after a correction over seven cells.
///
/// It takes the noise to be the same in all cells. `None` without a cell, with a group of less than
/// two values, or what is no number.
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
    let near = Near::of(&values, &lengths, limit)?;
    let observed = near.of_pairs();
    let mut distances: Vec<f64> = Vec::with_capacity(values.len());
    for (group, middle) in groups.iter().zip(&near.means) {
        // Values lie nearer to the mean of their own few than to the true one.
        let count = group.len() as f64;
        let wide = (count / (count - 1.0)).sqrt();
        distances.extend(group.iter().map(|value| (value - middle) * wide));
    }
    let all = [(0..distances.len()).collect()];
    let mut random = Rng::with_seed(seed);
    let mut reached = vec![0_u64; cells.len()];
    for _ in 0..draws {
        shuffle_within(&all, &mut distances, &mut random);
        let dealt = sorted(&Near::of(&distances, &lengths, limit)?.of_pairs());
        for (count, observed) in reached.iter_mut().zip(&observed) {
            // As above; chance gives the same to every cell, so that all of them tell what it
            // gives.
            let below = dealt.partition_point(|dealt| *dealt < observed * (1.0 - 1e-9));
            *count += (dealt.len() - below) as u64;
        }
    }
    let dealt = f64::from(draws) * cells.len() as f64;
    let p_value = |count| (count as f64 + 1.0) / (dealt + 1.0);
    Some(reached.into_iter().map(p_value).collect())
}

/// After so many steps what is left is left: each takes as long as the first, and finds one group
/// at least.
const STEPS_MAX: usize = 32;

/// How far from its group's median a value can count, in deviations of the noise.
const REACH: f64 = 3.0;

/// The same in the values' unit, for values that are dealt out as they are. Where most of a group
/// are equal, as rates that were asked for are, there is no noise to go by, and no value is drawn
/// in: dealt among each other all would lie at their median.
fn reach(groups: &[Vec<f64>]) -> Option<f64> {
    let noise = noise(groups)?;
    Some(if noise > 0.0 {
        REACH * noise
    } else {
        f64::INFINITY
    })
}

/// Groups, values far from their group's median drawn in.
struct Near<'a> {
    lengths: &'a [usize],
    means: Vec<f64>,
    /// Sum of the squared distances of the values from their group's mean.
    squares: f64,
}

impl<'a> Near<'a> {
    fn of(values: &[f64], lengths: &'a [usize], limit: f64) -> Option<Self> {
        let mut rest = values;
        let mut squares = 0.0;
        let mut means = Vec::with_capacity(lengths.len());
        for length in lengths {
            let (own, others) = rest.split_at(*length);
            rest = others;
            let middle = median(own)?;
            let near: Vec<f64> = own
                .iter()
                .map(|value| value.clamp(middle - limit, middle + limit))
                .collect();
            let own_mean = mean(&near)?;
            squares += near
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

    /// Distances of all groups from one.
    fn beside(&self, reference: usize) -> Vec<f64> {
        (0..self.means.len())
            .map(|group| self.distance(group, reference))
            .collect()
    }

    /// Distances of each two groups that stand together.
    fn of_pairs(&self) -> Vec<f64> {
        (0..self.means.len())
            .step_by(2)
            .map(|first| self.distance(first, first + 1))
            .collect()
    }
}
