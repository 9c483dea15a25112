//! Several groups beside one of them, with the noise that all of them show.

use fastrand::Rng;

use crate::effect::noise;
use crate::rank::{blocks_of, shuffle_within};
use crate::sample::{mean, median};

/// How values are dealt out anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dealing {
    /// The values at one index of all groups belong together, have been aligned, and are dealt out among
    /// themselves only.
    pub in_blocks: bool,
    /// How often: p-values have a grain of one in so many.
    pub draws: u32,
    /// The same seed gives the same p-values.
    pub seed: u64,
}

/// Whether each group differs from the reference: two-sided p-values, not corrected for how many there
/// are (that is [`holm`](crate::holm)'s); 1 for the reference itself.
///
/// The figure is that of a t-test with one deviation for all groups: all of them say how large the noise
/// is, so that few values in each suffice. The ranks of five and five values alone could not tell one of
/// seven groups apart. Values further than [`REACH`] times the [`noise`] from their group's median count
/// as being that far, so that a cold run neither moves its group nor hides the others (Tukey and
/// McLaughlin, "Less Vulnerable Confidence and Significance Procedures for Location Based on a Single
/// Sample", 1963). Such a figure has no distribution to look up: all values are dealt out anew among the
/// groups to see how far it goes by chance. As it is relative to the deviation, groups that do differ do
/// not widen what chance gives the others.
///
/// `None` with fewer than two groups, an empty one, what is no number, blocks that are not complete, or
/// no two values to tell the noise by.
#[must_use]
pub fn beside_reference(
    groups: &[Vec<f64>],
    reference: usize,
    dealing: Dealing,
) -> Option<Vec<f64>> {
    let mut values = groups.concat();
    if groups.len() < 2 || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let blocks = blocks_of(groups, dealing.in_blocks)?;
    let lengths: Vec<usize> = groups.iter().map(Vec::len).collect();
    let limit = REACH * noise(groups)?;
    let observed = distances(&values, &lengths, reference, limit)?;
    let mut random = Rng::with_seed(dealing.seed);
    let mut reached = vec![0_u32; groups.len()];
    for _ in 0..dealing.draws {
        shuffle_within(&blocks, &mut values, &mut random);
        let dealt = distances(&values, &lengths, reference, limit)?;
        for ((count, dealt), observed) in reached.iter_mut().zip(dealt).zip(&observed) {
            // The same sums in another order may differ in the last bits.
            *count += u32::from(dealt >= observed * (1.0 - 1e-9));
        }
    }
    let p_value = |count| f64::from(count + 1) / f64::from(dealing.draws + 1);
    Some(reached.into_iter().map(p_value).collect())
}

/// How far from its group's median a value can count, in deviations of the noise.
const REACH: f64 = 3.0;

/// |mean - mean of the reference| / sqrt(squares (1 / n + 1 / n of the reference)) of each group, values
/// far from their group's median drawn in.
fn distances(values: &[f64], lengths: &[usize], reference: usize, limit: f64) -> Option<Vec<f64>> {
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
    let distance = |(own, length): (&f64, &usize)| {
        let share = 1.0 / *length as f64 + 1.0 / lengths[reference] as f64;
        let difference = (own - means[reference]).abs();
        if difference == 0.0 {
            0.0
        } else {
            difference / (squares * share).sqrt()
        }
    };
    Some(means.iter().zip(lengths).map(distance).collect())
}
