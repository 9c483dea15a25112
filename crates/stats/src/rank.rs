//! Rank tests. They use only the order of values, so a single outlier cannot decide the result.

use statrs::distribution::{ChiSquared, ContinuousCDF, Normal};

/// How a p-value was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PValueMethod {
    /// By counting all permutations of the values, ties included.
    Exact,
    /// By the normal distribution, with corrections for ties and for continuity.
    Normal,
    /// By the chi-squared distribution.
    ChiSquared,
    /// By random permutations of the values with a fixed seed.
    Permutation,
}

/// The result of a rank test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankTest {
    /// The test statistic; which one depends on the test.
    pub statistic: f64,
    /// Probability of a statistic at least this extreme if nothing differs, 0..=1.
    pub p_value: f64,
    /// How the p-value was computed.
    pub method: PValueMethod,
}

/// Maximum number of values in both samples together for which [`mann_whitney`] is exact. Above it,
/// the normal distribution is accurate to the third digit.
const EXACT_VALUES_MAX: usize = 40;

/// Mann-Whitney's U of the second sample and its two-sided p-value (Mann and Whitney, "On a Test of
/// Whether one of Two Random Variables is Stochastically Larger than the Other", 1947). `None` if
/// either sample is empty or contains NaN.
///
/// The exact p-value is conditional on the ties: the share of all permutations of the ranks whose U
/// is at least as far from its mean.
#[must_use]
pub fn mann_whitney(first: &[f64], second: &[f64]) -> Option<RankTest> {
    if first.is_empty() || second.is_empty() {
        return None;
    }
    let all: Vec<f64> = first.iter().chain(second).copied().collect();
    let doubled = doubled_ranks(&all)?;
    let (n, m) = (first.len(), second.len());
    let sum: u64 = doubled[n..].iter().sum();
    let statistic = sum as f64 / 2.0 - (m * (m + 1)) as f64 / 2.0;
    let (p_value, method) = if all.len() <= EXACT_VALUES_MAX {
        (exact_p(&doubled, m, sum), PValueMethod::Exact)
    } else {
        (normal_p(&doubled, n, m, statistic), PValueMethod::Normal)
    };
    Some(RankTest {
        statistic,
        p_value,
        method,
    })
}

/// The smallest two-sided p-value that samples of these sizes without ties can have: 2 n! m! / (n +
/// m)!.
#[must_use]
pub fn mann_whitney_p_min(n: usize, m: usize) -> f64 {
    let ways = (1..=m).fold(1.0, |ways, i| ways * (n + i) as f64 / i as f64);
    (2.0 / ways).min(1.0)
}

/// The largest level not above `alpha` that a two-sided exact test of two samples of `n` can have.
/// Small samples have few permutations, so only some levels are possible. For large samples it is
/// `alpha`.
#[must_use]
pub fn mann_whitney_attained_level(n: usize, alpha: f64) -> f64 {
    if 2 * n > EXACT_VALUES_MAX {
        return alpha;
    }
    let ranks: Vec<u64> = (1..=2 * n as u64).map(|rank| 2 * rank).collect();
    let ways = ways_by_sum(&ranks, n);
    let total: f64 = ways.iter().sum();
    let mut level = 0.0;
    let mut tail = 0.0;
    for count in ways {
        tail += count;
        if 2.0 * tail / total > alpha {
            break;
        }
        level = 2.0 * tail / total;
    }
    level
}

/// Ranks from 1, averaged over equal values and doubled to make them integers. `None` if a value is
/// NaN.
fn doubled_ranks(values: &[f64]) -> Option<Vec<u64>> {
    if values.iter().any(|value| value.is_nan()) {
        return None;
    }
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0; values.len()];
    let mut rest = order.as_slice();
    let mut below = 0_u64;
    while let Some(&first) = rest.first() {
        let tied = rest
            .iter()
            .take_while(|index| values[**index] == values[first])
            .count();
        let (these, others) = rest.split_at(tied);
        for &index in these {
            ranks[index] = 2 * below + tied as u64 + 1;
        }
        below += tied as u64;
        rest = others;
    }
    Some(ranks)
}

/// For each sum, the number of ways to choose `m` ranks with that sum; exact below 2^53.
fn ways_by_sum(ranks: &[u64], m: usize) -> Vec<f64> {
    let width = ranks.iter().sum::<u64>() as usize + 1;
    let mut ways = vec![vec![0.0; width]; m + 1];
    ways[0][0] = 1.0;
    let mut reach = 0;
    for &rank in ranks {
        let rank = rank as usize;
        reach += rank;
        for taken in (0..m).rev() {
            let (less, more) = ways.split_at_mut(taken + 1);
            for sum in (rank..=reach).rev() {
                more[0][sum] += less[taken][sum - rank];
            }
        }
    }
    ways.swap_remove(m)
}

fn exact_p(doubled: &[u64], m: usize, sum: u64) -> f64 {
    let ways = ways_by_sum(doubled, m);
    let total: f64 = ways.iter().sum();
    // The mean sum is m (N + 1) in doubled ranks, whatever the ties.
    let mean = (m * (doubled.len() + 1)) as u64;
    let distance = sum.abs_diff(mean);
    let outside: f64 = ways
        .iter()
        .zip(0_u64..)
        .filter(|(_, other)| other.abs_diff(mean) >= distance)
        .map(|(count, _)| count)
        .sum();
    outside / total
}

fn normal_p(doubled: &[u64], n: usize, m: usize, statistic: f64) -> f64 {
    let (n, m) = (n as f64, m as f64);
    let deviation = (n * m / (n + m) * variance_of_ranks(doubled)).sqrt();
    let distance = ((statistic - n * m / 2.0).abs() - 0.5).max(0.0);
    if deviation == 0.0 {
        return 1.0;
    }
    two_sided(distance / deviation)
}

/// Σ (r - mean)² / (N - 1) of doubled ranks: N (N + 1) / 12 without ties.
fn variance_of_ranks(doubled: &[u64]) -> f64 {
    let mean = (doubled.len() + 1) as f64;
    let squares: f64 = doubled
        .iter()
        .map(|rank| (*rank as f64 - mean).powi(2) / 4.0)
        .sum();
    squares / (doubled.len() as f64 - 1.0)
}

/// P(|Z| >= z) of the standard normal distribution.
fn two_sided(z: f64) -> f64 {
    Normal::standard().sf(z) * 2.0
}

/// The ranks of values in groups and, optionally, in blocks.
///
/// Without blocks [`Self::test`] is Kruskal and Wallis' H with its correction for ties ("Use of
/// Ranks in One-Criterion Variance Analysis", 1952). With blocks, the values must have been
/// aligned, that is, be differences from a common value of their block, and the variance is that
/// within blocks (Hodges and Lehmann, "Rank Methods for Combination of Independent Experiments in
/// Analysis of Variance", 1962).
#[derive(Debug, Clone, PartialEq)]
pub struct Ranks {
    /// Doubled ranks, by group.
    groups: Vec<Vec<u64>>,
    /// Indexes of the values of each block, among the groups' values in order.
    blocks: Vec<Vec<usize>>,
    /// Variance of a rank within its block.
    variance: f64,
}

impl Ranks {
    /// Ranks independent values, or aligned values in complete blocks: the values at one index of
    /// all groups form a block, so all groups have the same length. `None` with fewer than two
    /// groups, an empty group, NaN, or incomplete blocks.
    #[must_use]
    pub fn of(groups: &[Vec<f64>], in_blocks: bool) -> Option<Self> {
        Self::new(groups, blocks_of(groups, in_blocks)?)
    }

    fn new(groups: &[Vec<f64>], blocks: Vec<Vec<usize>>) -> Option<Self> {
        if groups.len() < 2 || groups.iter().any(Vec::is_empty) {
            return None;
        }
        let ranks = doubled_ranks(&groups.concat())?;
        let variance = |block: &Vec<usize>| {
            let own: Vec<f64> = block
                .iter()
                .map(|index| ranks[*index] as f64 / 2.0)
                .collect();
            let mean = own.iter().sum::<f64>() / own.len() as f64;
            let squares: f64 = own.iter().map(|rank| (rank - mean).powi(2)).sum();
            squares / (own.len() as f64 - 1.0)
        };
        let variance = blocks.iter().map(variance).sum::<f64>() / blocks.len() as f64;
        let mut rest = ranks.as_slice();
        let groups = groups
            .iter()
            .map(|group| {
                let (own, others) = rest.split_at(group.len());
                rest = others;
                own.to_vec()
            })
            .collect();
        Some(Self {
            groups,
            blocks,
            variance,
        })
    }

    /// Tests whether the groups differ. The p-value is that of the chi-squared distribution if
    /// every group has at least five values, otherwise that of random permutations within the
    /// blocks with this seed.
    #[must_use]
    pub fn test(&self, seed: u64) -> RankTest {
        let statistic = self.statistic(&self.groups.concat());
        let few = self.groups.iter().any(|group| group.len() < 5);
        let (p_value, method) = if few {
            (self.permuted_p(statistic, seed), PValueMethod::Permutation)
        } else {
            let freedom = (self.groups.len() - 1) as f64;
            // It fails only for zero degrees of freedom, and there are at least two groups.
            let p = ChiSquared::new(freedom).map_or(1.0, |chi| chi.sf(statistic));
            (p, PValueMethod::ChiSquared)
        };
        RankTest {
            statistic,
            p_value,
            method,
        }
    }

    /// Σ n (mean rank of the group - mean rank)² / variance.
    fn statistic(&self, ranks: &[u64]) -> f64 {
        if self.variance == 0.0 {
            return 0.0;
        }
        let mean = mean_rank(ranks);
        let mut rest = ranks;
        let mut sum = 0.0;
        for group in &self.groups {
            let (own, others) = rest.split_at(group.len());
            rest = others;
            sum += own.len() as f64 * (mean_rank(own) - mean).powi(2);
        }
        sum / self.variance
    }

    fn permuted_p(&self, statistic: f64, seed: u64) -> f64 {
        const DRAWS: usize = 9_999;
        let mut random = fastrand::Rng::with_seed(seed);
        let mut ranks = self.groups.concat();
        let mut reached = 0;
        for _ in 0..DRAWS {
            shuffle_within(&self.blocks, &mut ranks, &mut random);
            // The same sums in another order may differ in the last bits.
            if self.statistic(&ranks) >= statistic * (1.0 - 1e-9) {
                reached += 1;
            }
        }
        f64::from(reached + 1) / (DRAWS + 1) as f64
    }
}

/// The indexes of each block, among the values of the groups in order. A block has one value of
/// each group, so `None` if the groups differ in length. Without blocks, all values are one block.
pub(crate) fn blocks_of(groups: &[Vec<f64>], in_blocks: bool) -> Option<Vec<Vec<usize>>> {
    if !in_blocks {
        return Some(vec![(0..groups.iter().map(Vec::len).sum()).collect()]);
    }
    let length = groups.first()?.len();
    if groups.iter().any(|group| group.len() != length) {
        return None;
    }
    let block = |index| (0..groups.len()).map(|g| g * length + index).collect();
    Some((0..length).map(block).collect())
}

pub(crate) fn shuffle_within<T>(
    blocks: &[Vec<usize>],
    values: &mut [T],
    random: &mut fastrand::Rng,
) {
    for block in blocks {
        for place in (1..block.len()).rev() {
            values.swap(block[place], block[random.usize(..=place)]);
        }
    }
}

fn mean_rank(doubled: &[u64]) -> f64 {
    doubled.iter().sum::<u64>() as f64 / 2.0 / doubled.len() as f64
}

/// P-values of several tests, adjusted so that the probability of any false positive stays below
/// the level that they are compared with (Holm, "A Simple Sequentially Rejective Multiple Test
/// Procedure", 1979). In the order given.
#[must_use]
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut least: f64 = 0.0;
    for (done, index) in order.into_iter().enumerate() {
        least = least
            .max(p_values[index] * (p_values.len() - done) as f64)
            .min(1.0);
        adjusted[index] = least;
    }
    adjusted
}
