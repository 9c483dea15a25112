//! The difference of sides that were measured one after the other, with noise that may be
//! correlated in time.
//!
//! Five runs in a row share the state of the machine: warm caches, the frequency, the neighbours.
//! Their spread is then smaller than the distance between two such rows, and a test that takes them
//! as independent finds a difference where there is none.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::bootstrap::ConfidenceInterval;
use crate::pairs::reach;
use crate::sample::median;

/// Correlations of consecutive values that are considered: 0, 0.05, ... 0.95. Correlations below 0
/// would make intervals narrower.
const CORRELATIONS: u32 = 20;

/// The distance of two of them.
const STEP: f64 = 0.05;

/// Bisections of an interval whose width is that of the scale: far finer than any value is known.
const BISECTIONS: u32 = 40;

/// The difference of two sides, second minus first, with what the order of the values says about
/// the correlation of the noise.
#[derive(Debug, Clone)]
pub struct SerialDifference {
    /// What each correlation that is considered says of the difference.
    members: Vec<Member>,
    student: StudentsT,
    /// The correlation of consecutive values, 0 to 1: the mean over what is probable.
    pub correlation: f64,
}

/// The difference if the correlation had one value.
#[derive(Debug, Clone, Copy)]
struct Member {
    /// Probability of the correlation.
    weight: f64,
    /// The estimate by generalised least squares.
    centre: f64,
    standard_error: f64,
}

/// The differences of the two sides of each cell. The values of a side are in the order in which
/// they were measured. All cells share one noise and one correlation.
///
/// The noise is modelled as an autoregression of first order. How probable each correlation is
/// follows from the restricted likelihood, which takes into account that values are closer to the
/// mean of their own side than to the true mean (Patterson and Thompson, "Recovery of Inter-Block
/// Information when Block Sizes are Unequal", 1971). Short sides say little about it, so this is
/// weighed with what is assumed beforehand: the larger a correlation, the less probable it is, by 1
/// minus the correlation. For each correlation the difference has Student's distribution, by
/// generalised least squares; the result is the mixture of these (Zellner and Tiao, "Bayesian
/// Analysis of the Regression Model with Autocorrelated Errors", 1964).
///
/// Simulated with 5 to 20 values of each side: differences are found where there are none in 1 to 2
/// % of cases with independent noise, and in 6 to 8 % if consecutive values have a correlation of
/// 0.7; as if they were independent it would be 23 to 38 %.
///
/// Values further from their side's median than in
/// [`compare_with_reference`](crate::compare_with_reference) count as being at that distance.
///
/// `None` without cells, with a side of fewer than two values, with a value that is not finite, or
/// if all values of each side are equal.
#[must_use]
pub fn serial_differences(cells: &[[Vec<f64>; 2]]) -> Option<Vec<SerialDifference>> {
    let sides: Vec<Vec<f64>> = cells.iter().flatten().cloned().collect();
    let is_short = sides.iter().any(|side| side.len() < 2);
    if cells.is_empty() || is_short || sides.iter().flatten().any(|value| !value.is_finite()) {
        return None;
    }
    let sides = limited(&sides)?;
    let count: usize = sides.iter().map(Vec::len).sum();
    let freedom = (count - sides.len()) as f64;
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    let fits: Vec<(f64, Vec<Member>, f64)> = (0..CORRELATIONS)
        .filter_map(|step| fit(&sides, f64::from(step) * STEP, freedom))
        .collect();
    let highest = fits.iter().map(|(_, _, log)| *log).reduce(f64::max)?;
    let total: f64 = fits.iter().map(|(_, _, log)| (log - highest).exp()).sum();
    let weight = |log: f64| (log - highest).exp() / total;
    let correlation = fits.iter().map(|(at, _, log)| at * weight(*log)).sum();
    let of_cell = |cell: usize| SerialDifference {
        members: fits
            .iter()
            .map(|(_, members, log)| Member {
                weight: weight(*log),
                ..members[cell]
            })
            .collect(),
        student,
        correlation,
    };
    Some((0..cells.len()).map(of_cell).collect())
}

impl SerialDifference {
    /// Two-sided p-value that the true difference is 0.
    #[must_use]
    pub fn p_value(&self) -> f64 {
        let below = self.share_below(0.0);
        (2.0 * below.min(1.0 - below)).min(1.0)
    }

    /// Interval of the true difference; `None` if `confidence` is not between 0 and 1.
    #[must_use]
    pub fn interval(&self, confidence: f64) -> Option<ConfidenceInterval> {
        let is_share = confidence > 0.0 && confidence < 1.0;
        let tail = is_share.then_some((1.0 - confidence) / 2.0)?;
        Some(ConfidenceInterval {
            low: self.quantile(tail),
            high: self.quantile(1.0 - tail),
        })
    }

    /// How many times as wide the 95 % interval is as if the values were known to be independent;
    /// at least 1.
    #[must_use]
    pub fn widening(&self) -> f64 {
        let independent = self.members.first().map(|it| it.standard_error);
        let reach = independent.map(|error| 2.0 * error * self.student.inverse_cdf(0.975));
        let width = self.interval(0.95).map(|it| it.high - it.low);
        match (width, reach) {
            (Some(width), Some(reach)) if reach > 0.0 => (width / reach).max(1.0),
            _ => 1.0,
        }
    }

    /// The probability that the difference is below a value.
    fn share_below(&self, value: f64) -> f64 {
        let share = |it: &Member| {
            let distance = (value - it.centre) / it.standard_error;
            it.weight * self.student.cdf(distance)
        };
        self.members.iter().map(share).sum()
    }

    /// The value below which the difference is with this probability. It lies between the smallest
    /// and the largest of the members' quantiles.
    fn quantile(&self, share: f64) -> f64 {
        let reach = self.student.inverse_cdf(share);
        let of_members = self
            .members
            .iter()
            .map(|it| it.centre + reach * it.standard_error);
        let (mut low, mut high) = of_members
            .fold((f64::INFINITY, f64::NEG_INFINITY), |ends, at| {
                (ends.0.min(at), ends.1.max(at))
            });
        for _ in 0..BISECTIONS {
            let middle = f64::midpoint(low, high);
            if self.share_below(middle) < share {
                low = middle;
            } else {
                high = middle;
            }
        }
        f64::midpoint(low, high)
    }
}

/// The sides with values that are far from their median moved to the limit.
fn limited(sides: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let limit = reach(sides)?;
    let of_side = |side: &Vec<f64>| {
        let middle = median(side)?;
        let near = |value: &f64| value.clamp(middle - limit, middle + limit);
        Some(side.iter().map(near).collect())
    };
    sides.iter().map(of_side).collect()
}

/// The correlation, the difference of each pair of sides without its weight, and the logarithm of
/// the correlation's probability; `None` if there is no noise.
fn fit(sides: &[Vec<f64>], correlation: f64, freedom: f64) -> Option<(f64, Vec<Member>, f64)> {
    let fits: Vec<Fit> = sides
        .iter()
        .map(|side| Fit::of(side, correlation))
        .collect();
    let squares: f64 = fits.iter().map(|it| it.squares).sum();
    if squares <= 0.0 {
        return None;
    }
    let variance = squares / freedom;
    let members = fits.chunks_exact(2).map(|pair| Member {
        weight: 0.0,
        centre: pair[1].mean - pair[0].mean,
        standard_error: (variance * (pair[0].share + pair[1].share)).sqrt(),
    });
    let before = 1.0 - correlation;
    let of_sides = sides.iter().zip(&fits).map(|(side, fit)| {
        let steps = side.len() as f64 - 1.0;
        fit.share.ln() / 2.0 - steps / 2.0 * (1.0 - correlation.powi(2)).ln()
    });
    let log = before.ln() + of_sides.sum::<f64>() - freedom / 2.0 * squares.ln();
    Some((correlation, members.collect(), log))
}

/// The mean of a side by generalised least squares.
struct Fit {
    mean: f64,
    /// Variance of the mean, in units of that of a value.
    share: f64,
    /// Sum of the squared distances from the mean, with the correlation taken out.
    squares: f64,
}

impl Fit {
    fn of(side: &[f64], correlation: f64) -> Self {
        let count = side.len() as f64;
        // The values inside have a neighbour on either side, and say less that is new.
        let inner = 1.0 - correlation;
        let ends = side[0] + side[side.len() - 1];
        let inside: f64 = side[1..side.len() - 1].iter().sum();
        let weights = 2.0 + (count - 2.0) * inner;
        let mean = (ends + inner * inside) / weights;
        let new = side.windows(2).map(|pair| {
            let expected = mean + correlation * (pair[0] - mean);
            (pair[1] - expected).powi(2)
        });
        Self {
            mean,
            share: (1.0 + correlation) / weights,
            squares: (side[0] - mean).powi(2) + new.sum::<f64>() / (1.0 - correlation.powi(2)),
        }
    }
}
