//! Whether a rate was lower at first than later: a warm-up that was not left out.
//!
//! The rule compares batch means, as every rule of truncation does (White, "An Effective Truncation
//! Heuristic for Bias Reduction in Simulation Output", 1997). MSER cuts wherever the error of the
//! mean gets smaller, so it cuts a third of the series that have no transient. This rule cuts only
//! what is established.

use crate::rank::mann_whitney;
use crate::sample::{mean, median};

/// Length of a batch for [`settling`], seconds. Shorter batches are more correlated, and fewer of
/// them tell less.
pub const SETTLING_BATCH_S: f64 = 0.5;

/// With fewer batches no rank test reaches [`P_VALUE_MAX`], however they are split.
const BATCHES_MIN: usize = 14;

/// A first part that is slower by less does not count.
const SLOWER_MIN: f64 = 0.05;

/// The rank test of both parts. The place of the split is chosen from the same data, which the
/// level has to make up for.
const P_VALUE_MAX: f64 = 0.001;

/// The difference of both parts in standard errors. The largest of all splits of independent values
/// is above 4.5 once in some thousand series.
const ERRORS_MIN: f64 = 4.5;

/// Batches are taken to be correlated at least so much: few batches show it badly.
const CORRELATION_MIN: f64 = 0.3;

/// Estimates above this say that the series has no standard error.
const CORRELATION_MAX: f64 = 0.95;

/// The rate at the beginning of a series, compared with that of the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settling {
    /// The batches are too few to tell.
    Unknown,
    /// No first part is slower than the rest.
    Settled,
    /// The first batches are slower than the rest, which is at least half of all.
    SlowAtFirst {
        /// Number of slower batches.
        batches: usize,
    },
    /// The slower batches are more than half of all, so the rest may not be the end of the change.
    NotSettled {
        /// Number of slower batches.
        batches: usize,
    },
}

/// Whether the first part of a series of rates, one for each batch of [`SETTLING_BATCH_S`], is
/// slower than the rest.
///
/// The series is split where two means fit best by least squares. All of these must hold:
///
/// - The first part is slower by more than 5 %.
/// - Mann and Whitney's test of both parts has p < 0.001.
/// - The difference of the means is above 4.5 standard errors, with the effective number of
///   correlated values, n (1 - r) / (1 + r) (Bayley and Hammersley, "The 'Effective' Number of
///   Independent Observations in an Autocorrelated Time Series", 1946), and the correlation r of
///   the residuals corrected for its bias (Marriott and Pope, "Bias in the Estimation of
///   Autocorrelations", 1954).
/// - It is one change: no two neighbouring batches of the rest are nearer to the first part, and no
///   two of the first part are nearer to the rest. What comes again is no warm-up.
///
/// It cuts at most one series in a hundred of a constant rate, also if the batches are correlated
/// by 0.5. Values that are not finite are not allowed.
#[must_use]
pub fn settling(batches: &[f64]) -> Settling {
    if batches.len() < BATCHES_MIN {
        return Settling::Unknown;
    }
    let at = best_split(batches);
    let (first, rest) = batches.split_at(at);
    if !is_slower(first, rest) {
        return Settling::Settled;
    }
    if at * 2 > batches.len() {
        Settling::NotSettled { batches: at }
    } else {
        Settling::SlowAtFirst { batches: at }
    }
}

/// With fewer batches of a load in progress, the rank test of their halves finds only changes in
/// which every batch is above every other.
const RECENT_BATCHES_MIN: usize = 10;

/// With fewer responses in these batches, the halves of a constant load differ as much as those of
/// one that changes.
const RECENT_RESPONSES_MIN: u64 = 50;

/// The rank test of both halves. [`P_VALUE_MAX`] is for what is said to be slow; here a change that
/// is likely is enough to go on waiting.
const TREND_P_VALUE_MAX: f64 = 0.05;

/// A batch of a load in progress, [`SETTLING_BATCH_S`] long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadBatch {
    /// How many responses ended in the batch.
    pub responses: u64,
    /// The rate of responses in the batch, per second.
    pub per_sec: f64,
    /// The median of their latency, in any unit; `None` without responses.
    pub latency: Option<f64>,
}

/// Whether a load in progress has settled by the end of these batches; `None` if their responses
/// are too few to tell.
///
/// [`settling`] cuts what is established as slow. A run that has not begun to measure must show the
/// opposite, so it has settled only if there is no trend in the last half of its batches (the first
/// half is discarded, as by Geweke, "Evaluating the Accuracy of Sampling-Based Approaches to the
/// Calculation of Posterior Moments", 1992), and in the last 5 s at least. For the rate and for the
/// median latency, both of these must hold:
///
/// - The two halves of these batches have medians that differ by at most 5 %, or Mann and Whitney's
///   test of them has p >= 0.05.
/// - The last batch is at most 5 % above or below all of the others: a change that has just begun
///   is in no half yet.
///
/// A change that begins later cannot be foreseen; a window in which it is has the warning of
/// [`settling`].
#[must_use]
pub fn is_settled(batches: &[LoadBatch]) -> Option<bool> {
    let count = (batches.len() / 2).max(RECENT_BATCHES_MIN);
    let recent = &batches[batches.len().checked_sub(count)?..];
    if recent.iter().map(|it| it.responses).sum::<u64>() < RECENT_RESPONSES_MIN {
        return None;
    }
    let rates: Vec<f64> = recent.iter().map(|it| it.per_sec).collect();
    let latencies: Vec<f64> = recent.iter().filter_map(|it| it.latency).collect();
    Some(!has_trend(&rates) && !has_trend(&latencies))
}

fn has_trend(values: &[f64]) -> bool {
    let (first, second) = values.split_at(values.len() / 2);
    let Some((last, others)) = values.split_last() else {
        return false;
    };
    let differ = |one: f64, other: f64| one.min(other) < one.max(other) * (1.0 - SLOWER_MIN);
    let medians = median(first).zip(median(second));
    let is_other_half = medians.is_some_and(|(first, second)| differ(first, second))
        && mann_whitney(first, second).is_some_and(|test| test.p_value < TREND_P_VALUE_MAX);
    let nearest = others.iter().copied().min_by(|one, other| {
        let off = |value: f64| (value - last).abs();
        off(*one).total_cmp(&off(*other))
    });
    let is_new = nearest.is_some_and(|nearest| {
        let is_outside = others.iter().all(|it| it < last) || others.iter().all(|it| it > last);
        is_outside && differ(nearest, *last)
    });
    is_other_half || is_new
}

fn is_slower(first: &[f64], rest: &[f64]) -> bool {
    let (Some(slow), Some(usual)) = (mean(first), mean(rest)) else {
        return false;
    };
    let middle = f64::midpoint(slow, usual);
    let mut pairs_of_rest = rest.windows(2).filter_map(mean);
    let mut pairs_of_first = first.windows(2).filter_map(mean);
    slow < usual * (1.0 - SLOWER_MIN)
        && pairs_of_rest.all(|pair| pair > middle)
        && pairs_of_first.all(|pair| pair < middle)
        && usual - slow > ERRORS_MIN * standard_error([(first, slow), (rest, usual)])
        && mann_whitney(first, rest).is_some_and(|test| test.p_value < P_VALUE_MAX)
}

/// The index of the second part of the split whose two means leave the least squares.
fn best_split(values: &[f64]) -> usize {
    let count = values.len();
    let all: f64 = values.iter().sum();
    let mut sum = 0.0;
    let mut best = (0, -1.0);
    for (at, value) in (1..count).zip(values) {
        sum += value;
        let off = sum - all * at as f64 / count as f64;
        let explained = off * off / (at * (count - at)) as f64;
        if explained > best.1 {
            best = (at, explained);
        }
    }
    best.0
}

/// The standard error of the difference of two means of correlated values.
fn standard_error(parts: [(&[f64], f64); 2]) -> f64 {
    let residuals = parts.iter().flat_map(|(values, mean)| {
        let off = move |value: &f64| value - mean;
        values.iter().map(off)
    });
    let residuals: Vec<f64> = residuals.collect();
    let count = residuals.len() as f64;
    let squares: f64 = residuals.iter().map(|value| value * value).sum();
    let products: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let seen = if squares > 0.0 {
        products / squares
    } else {
        0.0
    };
    let correlation = seen + (1.0 + 4.0 * seen.max(0.0)) / count;
    let correlation = correlation.clamp(CORRELATION_MIN, CORRELATION_MAX);
    let values_per_independent = (1.0 + correlation) / (1.0 - correlation);
    let counts: f64 = parts
        .iter()
        .map(|(values, _)| 1.0 / values.len() as f64)
        .sum();
    (squares / (count - 2.0) * values_per_independent * counts).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batches of two rates with a little scatter.
    fn step(first: usize, rest: usize) -> Vec<f64> {
        let slow = (0..first).map(|at| 500.0 + (at * 7 % 10) as f64);
        let usual = (0..rest).map(|at| 1_000.0 + (at * 7 % 10) as f64);
        slow.chain(usual).collect()
    }

    #[test]
    fn a_slow_first_part_is_cut_where_it_ends() {
        for (first, rest, expected) in [
            (6, 14, Settling::SlowAtFirst { batches: 6 }),
            (4, 16, Settling::SlowAtFirst { batches: 4 }),
            (10, 10, Settling::SlowAtFirst { batches: 10 }),
            (14, 6, Settling::NotSettled { batches: 14 }),
            (30, 90, Settling::SlowAtFirst { batches: 30 }),
            (0, 20, Settling::Settled),
            (20, 0, Settling::Settled),
            // Three of twenty may be chance.
            (3, 17, Settling::Settled),
        ] {
            assert_eq!(settling(&step(first, rest)), expected, "{first} + {rest}");
        }
    }

    #[test]
    fn a_few_batches_say_nothing() {
        for count in [0, 1, 4, 13] {
            let batches = step(count / 2, count - count / 2);
            assert_eq!(settling(&batches), Settling::Unknown);
        }
        assert_ne!(settling(&step(7, 7)), Settling::Unknown);
    }

    #[test]
    fn what_comes_again_is_no_warm_up() {
        let slow_again = [step(20, 40), step(2, 30)].concat();
        let normal_first = [step(0, 2), step(8, 30)].concat();
        for batches in [slow_again, normal_first] {
            assert_eq!(settling(&batches), Settling::Settled, "{batches:?}");
        }
    }

    #[test]
    fn a_rate_that_falls_or_is_always_the_same_has_no_slow_first_part() {
        let mut falling = step(6, 14);
        falling.reverse();
        for batches in [falling, vec![1_000.0; 20], vec![0.0; 20]] {
            assert_eq!(settling(&batches), Settling::Settled);
        }
    }

    #[test]
    fn a_server_that_answers_nothing_at_first_is_slow_at_first() {
        let mut batches = vec![0.0; 6];
        batches.extend([1_000.0; 14]);
        assert_eq!(settling(&batches), Settling::SlowAtFirst { batches: 6 });
    }
}
