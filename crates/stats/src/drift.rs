//! Tests for a trend in the order of values, and for outliers.

use statrs::distribution::{ContinuousCDF, Normal};

use crate::rank::PValueMethod;
use crate::sample::median;

/// A trend in the order of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// Two-sided p-value of the Mann-Kendall test.
    pub p_value: f64,
    /// How the p-value was computed.
    pub method: PValueMethod,
    /// Median of the slopes between all pairs: the change per position in the order (Sen,
    /// "Estimates of the Regression Coefficient Based on Kendall's Tau", 1968).
    pub slope: f64,
}

/// The Mann-Kendall test for a trend, with corrections for ties and for continuity (Mann,
/// "Nonparametric Tests Against Trend", 1945). Of more than a thousand values, an evenly spaced
/// subset is used. `None` with fewer than eight values, which show little of a trend, or if all are
/// equal.
#[must_use]
pub fn trend(values: &[f64]) -> Option<Trend> {
    const VALUES_MIN: usize = 8;
    const VALUES_MAX: usize = 1_000;
    if values.len() < VALUES_MIN || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let step = values.len().div_ceil(VALUES_MAX);
    let values: Vec<f64> = values.iter().step_by(step).copied().collect();
    let mut sum = 0.0;
    let mut slopes = Vec::with_capacity(values.len() * (values.len() - 1) / 2);
    for (late, value) in values.iter().enumerate() {
        for (early, before) in values[..late].iter().enumerate() {
            let change = value - before;
            sum += if change == 0.0 { 0.0 } else { change.signum() };
            slopes.push(change / ((late - early) * step) as f64);
        }
    }
    let deviation = kendall_variance(&values).sqrt();
    if deviation == 0.0 {
        return None;
    }
    let z = (f64::abs(sum) - 1.0).max(0.0) / deviation;
    Some(Trend {
        p_value: 2.0 * Normal::standard().sf(z),
        method: PValueMethod::Normal,
        slope: median(&slopes)?,
    })
}

/// (n (n - 1) (2 n + 5) - Σ t (t - 1) (2 t + 5)) / 18 over ties of t values.
fn kendall_variance(values: &[f64]) -> f64 {
    let term = |n: usize| (n * (n - 1) * (2 * n + 5)) as f64;
    let ascending = crate::sample::sorted(values);
    let ties: f64 = ascending
        .chunk_by(|a, b| a == b)
        .map(|tied| term(tied.len()))
        .sum();
    (term(values.len()) - ties) / 18.0
}

/// The modified z-score of a value among others: 0.6745 (value - median) / MAD (Iglewicz and
/// Hoaglin, "How to Detect and Handle Outliers", 1993). `None` with fewer than four others, or if
/// so many of them are equal that the MAD is 0.
#[must_use]
pub fn modified_z_score(value: f64, others: &[f64]) -> Option<f64> {
    if others.len() < 4 {
        return None;
    }
    let middle = median(others)?;
    let distances: Vec<f64> = others.iter().map(|other| (other - middle).abs()).collect();
    let scale = median(&distances).filter(|scale| *scale > 0.0)?;
    Some(0.6745 * (value - middle) / scale)
}
