//! Whether a part of a series differs from the rest of it, by sizes and by ranks.

use std::ops::Range;

use fastrand::Rng;

/// The fewest values on either side of a change: a single one may be an outlier.
pub(crate) const SIDE_MIN: usize = 2;

/// The fewest values between two changes that are looked for together.
const BETWEEN_MIN: usize = 3;

/// How much clearer two changes must be than one to count as much, because there are many more
/// places for two.
const TWO_CHANGES_WEIGHT: f64 = 0.9;

/// The most permutations for a p-value, besides the series itself, and the fewest: a long series
/// has fewer, so that the work is about that of [`DRAWS_MAX`] with [`SHORT`] values.
pub(crate) const DRAWS_MAX: usize = 1_999;
pub(crate) const DRAWS_MIN: usize = 399;
const SHORT: usize = 64;

/// After these permutations, a series that is not clear is given up.
const LOOKS: [usize; 3] = [99, 249, 599];

/// How clear the difference of a part from the rest is: p-values of random permutations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Evidence {
    /// By the energy distance, which knows how far values are apart.
    pub(crate) by_sizes: f64,
    /// By ranks, which hold with any outliers.
    pub(crate) by_ranks: f64,
    /// By the clearer one of both, which permutations have as well.
    pub(crate) combined: f64,
    /// The number of changes that the clearer one shows: two if the rest lies on both sides.
    pub(crate) changes: usize,
}

/// Compares each part with permutations of noise: each of its beginnings with its end, and what
/// lies between two places with what is outside. Given the number of changes that the clearest one
/// shows, `noise` has the values to permute: the values themselves, or what is left of them without
/// these changes.
///
/// Values of different parts need the same level. `None` if all values are equal, if parts are too
/// short, or once it is clear that the p-value is above `level`.
pub(crate) fn clearest_split(
    values: &[f64],
    parts: &[Range<usize>],
    level: f64,
    draws_max: usize,
    random: &mut Rng,
    noise: &dyn Fn(usize) -> Option<Vec<f64>>,
) -> Option<Evidence> {
    let mut scan = Scan::new(values, parts);
    let mut order: Vec<usize> = (0..values.len()).collect();
    let observed = scan.clearest(&order);
    if observed.iter().any(|one| one.clearness <= 0.0) {
        return None;
    }
    let noise = noise(observed[0].changes.max(observed[1].changes))?;
    let mut scan = Scan::new(&noise, parts);
    let work = DRAWS_MAX * SHORT * SHORT / (values.len() * values.len());
    let draws = work.clamp(DRAWS_MIN, DRAWS_MAX).min(draws_max);
    let mut drawn: Vec<[f64; 2]> = Vec::with_capacity(draws);
    while drawn.len() < draws {
        random.shuffle(&mut order);
        drawn.push(scan.clearest(&order).map(|one| one.clearness));
        if LOOKS.contains(&drawn.len()) {
            let least = p_values(&drawn, observed).into_iter().fold(1.0, f64::min);
            // The combined p-value is larger. Three standard errors for that of so few.
            if least > level + 3.0 * (level / drawn.len() as f64).sqrt() {
                return None;
            }
        }
    }
    let [by_sizes, by_ranks] = p_values(&drawn, observed);
    let clearer = usize::from(by_ranks < by_sizes);
    Some(Evidence {
        by_sizes,
        by_ranks,
        combined: combined(&drawn, by_sizes.min(by_ranks)),
        changes: observed[clearer].changes,
    })
}

/// The shares of permutations that are at least as clear, the series itself included.
fn p_values(drawn: &[[f64; 2]], observed: [Clearest; 2]) -> [f64; 2] {
    [0, 1].map(|which| {
        // The same sums in another order may differ in the last bits.
        let least = observed[which].clearness * (1.0 - 1e-9);
        let reached = drawn.iter().filter(|both| both[which] >= least).count();
        (reached + 1) as f64 / (drawn.len() + 1) as f64
    })
}

/// The share of permutations whose smaller p-value is at most `least`, the series included.
fn combined(drawn: &[[f64; 2]], least: f64) -> f64 {
    let all = (drawn.len() + 1) as f64;
    let ascending = [0, 1].map(|which| {
        let mut of_one: Vec<f64> = drawn.iter().map(|both| both[which]).collect();
        of_one.sort_by(f64::total_cmp);
        of_one
    });
    let p_value = |which: usize, clearness: f64| {
        let below = ascending[which].partition_point(|it| *it < clearness * (1.0 - 1e-9));
        (drawn.len() - below) as f64 / all
    };
    let reached = drawn
        .iter()
        .filter(|both| p_value(0, both[0]).min(p_value(1, both[1])) <= least);
    (reached.count() + 1) as f64 / all
}

/// The clearest difference of a series.
#[derive(Debug, Clone, Copy, Default)]
struct Clearest {
    clearness: f64,
    changes: usize,
}

impl Clearest {
    fn take(&mut self, clearness: f64, changes: usize) {
        if clearness > self.clearness {
            *self = Self { clearness, changes };
        }
    }
}

/// What stays the same in all permutations of a series, and room for the sums of one.
struct Scan<'a> {
    parts: &'a [Range<usize>],
    values: &'a [f64],
    /// Row by row, the distances of all values from each other.
    distances: Vec<f64>,
    ranks: Vec<f64>,
    /// The indexes of the values in ascending order.
    ascending: Vec<usize>,
    /// For each value, the sum of its distances from all of its part.
    totals: Vec<f64>,
    /// For each beginning of a stretch, the sum of the distances of all pairs within it, twice.
    squares: Vec<f64>,
    is_member: Vec<bool>,
}

impl<'a> Scan<'a> {
    fn new(values: &'a [f64], parts: &'a [Range<usize>]) -> Self {
        let mut ascending: Vec<usize> = (0..values.len()).collect();
        ascending.sort_by(|one, other| values[*one].total_cmp(&values[*other]));
        let distances = values
            .iter()
            .flat_map(|one| values.iter().map(move |other| (one - other).abs()));
        Self {
            parts,
            values,
            distances: distances.collect(),
            ranks: centred_ranks(values),
            ascending,
            totals: vec![0.0; values.len()],
            squares: Vec::new(),
            is_member: vec![false; values.len()],
        }
    }

    /// By sizes and by ranks, the clearest difference of the values in this order.
    fn clearest(&mut self, order: &[usize]) -> [Clearest; 2] {
        let mut both = [Clearest::default(); 2];
        for part in self.parts {
            let order = &order[part.clone()];
            if order.len() >= 2 * SIDE_MIN {
                self.by_sizes(order, &mut both[0]);
                self.by_ranks(order, &mut both[1]);
            }
        }
        both
    }

    /// The energy distance of a stretch and the rest of the part, with an exponent of 1, times
    /// their sizes over that of the part (Matteson and James, "A Nonparametric Approach for
    /// Multiple Change Point Analysis of Multivariate Data", 2014).
    fn by_sizes(&mut self, order: &[usize], clearest: &mut Clearest) {
        self.add_up(order);
        let all = order.len();
        let of_all: f64 = order.iter().map(|value| self.totals[*value]).sum();
        let distance = |count: usize, square: f64, row: f64| {
            let (inside, outside) = (count as f64, (all - count) as f64);
            let rest = of_all - 2.0 * row + square;
            inside * outside / all as f64
                * (2.0 * (row - square) / (inside * outside)
                    - square / (inside * (inside - 1.0))
                    - rest / (outside * (outside - 1.0)))
        };
        self.squares.clear();
        let mut until = 0.0;
        let mut rows = Vec::with_capacity(all);
        for (last, value) in order.iter().enumerate() {
            let to_last = &self.distances[value * self.values.len()..][..self.values.len()];
            let mut sum = 0.0;
            let before = self.squares.iter_mut().zip(order).rev();
            for (square, other) in before {
                sum += to_last[*other];
                *square += 2.0 * sum;
            }
            self.squares.push(0.0);
            rows.push(until);
            until += self.totals[*value];
            let end = last + 1;
            if end < SIDE_MIN || all - end < SIDE_MIN {
                continue;
            }
            clearest.take(distance(end, self.squares[0], until), 1);
            let begins = rows.iter().zip(&self.squares).enumerate();
            let inner = begins.take((end + 1).saturating_sub(BETWEEN_MIN));
            for (begin, (row, square)) in inner.skip(SIDE_MIN) {
                let between = distance(end - begin, *square, until - row);
                clearest.take(TWO_CHANGES_WEIGHT * between, 2);
            }
        }
    }

    /// Sets the sums of the distances of these values from each other.
    fn add_up(&mut self, order: &[usize]) {
        let mut sum = 0.0;
        for value in order {
            self.is_member[*value] = true;
            sum += self.values[*value];
        }
        let (mut below, mut sum_below) = (0.0, 0.0);
        for at in &self.ascending {
            if !self.is_member[*at] {
                continue;
            }
            let value = self.values[*at];
            let above = order.len() as f64 - below;
            self.totals[*at] = (value * below - sum_below) + (sum - sum_below - value * above);
            below += 1.0;
            sum_below += value;
        }
        for value in order {
            self.is_member[*value] = false;
        }
    }

    /// The squared rank sum of Wilcoxon without constant factors, standardised by the sizes of both
    /// sides, so that a place near an end counts as much as one in the middle (Pettitt, "A
    /// Non-parametric Approach to the Change-point Problem", 1979).
    fn by_ranks(&self, order: &[usize], clearest: &mut Clearest) {
        let all = order.len();
        let mean = order.iter().map(|at| self.ranks[*at]).sum::<f64>() / all as f64;
        let mut sums = Vec::with_capacity(all + 1);
        sums.push(0.0);
        let mut sum = 0.0;
        for (value, end) in order.iter().zip(1..=all) {
            sum += self.ranks[*value] - mean;
            sums.push(sum);
            if end < SIDE_MIN || all - end < SIDE_MIN {
                continue;
            }
            let squared = |begin: usize| {
                let inside = end - begin;
                let difference: f64 = sum - sums[begin];
                difference * difference * all as f64 / (inside * (all - inside)) as f64
            };
            clearest.take(squared(0), 1);
            for begin in SIDE_MIN..(end + 1).saturating_sub(BETWEEN_MIN) {
                clearest.take(TWO_CHANGES_WEIGHT * squared(begin), 2);
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The formula, pair by pair.
    fn energy_distance(inside: &[f64], outside: &[f64]) -> f64 {
        let mean = |one: &[f64], other: &[f64], pairs: usize| {
            let all = one
                .iter()
                .flat_map(|a| other.iter().map(move |b| (a - b).abs()));
            all.sum::<f64>() / pairs as f64
        };
        let (m, n) = (inside.len(), outside.len());
        let within = mean(inside, inside, m * (m - 1)) + mean(outside, outside, n * (n - 1));
        (m * n) as f64 / (m + n) as f64 * (2.0 * mean(inside, outside, m * n) - within)
    }

    #[test]
    fn the_clearest_difference_by_sizes_is_that_of_the_formula() {
        let mut random = Rng::with_seed(1);
        for count in [7, 12, 25] {
            let values: Vec<f64> = (0..count).map(|_| random.f64()).collect();
            let mut expected = Clearest::default();
            for end in SIDE_MIN..=count - SIDE_MIN {
                for begin in (0..end).filter(|it| *it == 0 || *it >= SIDE_MIN) {
                    if begin > 0 && end - begin < BETWEEN_MIN {
                        continue;
                    }
                    let outside = [&values[..begin], &values[end..]].concat();
                    let distance = energy_distance(&values[begin..end], &outside);
                    match begin {
                        0 => expected.take(distance, 1),
                        _ => expected.take(TWO_CHANGES_WEIGHT * distance, 2),
                    }
                }
            }
            let part = 0..count;
            let whole = [part];
            let order: Vec<usize> = (0..count).collect();
            let [found, _] = Scan::new(&values, &whole).clearest(&order);
            assert!(
                (found.clearness - expected.clearness).abs() < 1e-9,
                "{found:?}"
            );
            assert_eq!(found.changes, expected.changes);
        }
    }
}
