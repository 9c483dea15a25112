//! Several groups beside one of them, with the noise that all of them show.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::effect::noise;
use crate::sample::{mean, median};

/// Whether each group differs from the reference: two-sided p-values of t-tests with one deviation for
/// all groups, not corrected for how many there are (that is [`holm`](crate::holm)'s); 1 for the
/// reference itself. `blocks` is the number of blocks whose middles were taken off the values before, 1
/// if none were: each but the first costs a degree of freedom.
///
/// All groups say how large the noise is, so that few values in each suffice; the ranks of five and
/// five values alone could not tell more than seven groups apart. Values further than [`REACH`] times
/// the [`noise`] from their group's median count as being that far, so that a cold run neither moves its
/// group nor hides the others (Tukey and McLaughlin, "Less Vulnerable Confidence and Significance
/// Procedures for Location Based on a Single Sample", 1963). `None` with fewer than two groups, an empty
/// one, what is no number, or no two values to tell the noise by.
#[must_use]
pub fn beside_reference(groups: &[Vec<f64>], blocks: usize, reference: usize) -> Option<Vec<f64>> {
    if groups.len() < 2 || groups.iter().flatten().any(|value| !value.is_finite()) {
        return None;
    }
    let limit = REACH * noise(groups)?;
    let drawn_in = groups.iter().map(|group| {
        let middle = median(group)?;
        let near = |value: &f64| value.clamp(middle - limit, middle + limit);
        Some(group.iter().map(near).collect())
    });
    let groups = drawn_in.collect::<Option<Vec<Vec<f64>>>>()?;
    let means: Vec<f64> = groups.iter().filter_map(|group| mean(group)).collect();
    let squares: f64 = groups
        .iter()
        .zip(&means)
        .flat_map(|(group, mean)| group.iter().map(move |value| (value - mean).powi(2)))
        .sum();
    let count: usize = groups.iter().map(Vec::len).sum();
    let freedom = count.checked_sub(groups.len() + blocks - 1)?;
    let t = StudentsT::new(0.0, 1.0, freedom as f64).ok()?;
    let variance = squares / freedom as f64;
    let p_value = |(group, own): (&Vec<f64>, &f64)| {
        let share = 1.0 / group.len() as f64 + 1.0 / groups[reference].len() as f64;
        let difference = (own - means[reference]).abs();
        match (variance * share).sqrt() {
            _ if difference == 0.0 => 1.0,
            0.0 => 0.0,
            deviation => 2.0 * t.sf(difference / deviation),
        }
    };
    Some(groups.iter().zip(&means).map(p_value).collect())
}

/// How far from its group's median a value can count, in deviations of the noise.
pub const REACH: f64 = 4.0;
