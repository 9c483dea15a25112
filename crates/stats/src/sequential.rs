//! Intervals that stay valid when they are looked at after every value.

use crate::{ConfidenceInterval, mean};

/// Spread of the mean in units of the standard deviation that the interval is tuned for. A smaller
/// one would favour long series with small effects; the interval is valid for any.
const EFFECT_SCALE: f64 = 2.0;

/// Confidence interval of the mean of independent, normally distributed values, valid at all
/// numbers of values at once: the probability that it ever misses the mean is at most `level`.
/// Whoever stops as soon as the interval pleases them still has at most that error.
///
/// It is the set of means that a sequential t-test does not reject: the Bayes factor of a normal
/// prior on the standardised mean, which is a test martingale (Lai 1976, "On confidence sequences";
/// Perez-Ortiz, Lardy, de Heide, Grunwald 2024, "E-statistics, group invariance and anytime-valid
/// testing"). With g = 1 + n c² and K = (√g / level)^(2/n), the half-width is t s / √n, where
/// t² = (n - 1)(K - 1) / (1 - K / g).
///
/// `None` while no mean can be rejected, which takes four values at a level of 0.05, or if a value
/// is not finite.
#[must_use]
pub fn anytime_interval(values: &[f64], level: f64) -> Option<ConfidenceInterval> {
    let (mean, error) = mean_and_error(values)?;
    let half = half_width(values.len(), level)? * error;
    Some(ConfidenceInterval {
        low: mean - half,
        high: mean + half,
    })
}

/// p-value of the same test that the mean is 0, valid at all numbers of values at once: below
/// `level` exactly where the interval at `level` excludes 0. It is one divided by the Bayes factor
/// ((1 + u) / (1 + u / g))^(n/2) / √g, where u = t² / (n - 1).
///
/// `None` with fewer than two values, or if a value is not finite.
#[must_use]
pub fn anytime_p_value(values: &[f64]) -> Option<f64> {
    let (mean, error) = mean_and_error(values)?;
    if mean == 0.0 {
        return Some(1.0);
    }
    let count = values.len() as f64;
    let g = information(values.len());
    let u = (mean / error).powi(2) / (count - 1.0);
    // Without any spread u is infinite.
    let ratio = if u.is_finite() {
        (1.0 + u) / (1.0 + u / g)
    } else {
        g
    };
    Some((g.sqrt() * ratio.powf(-count / 2.0)).min(1.0))
}

/// The smallest number of values with which [`anytime_interval`] rejects any mean at this level.
#[must_use]
pub fn anytime_values_min(level: f64) -> usize {
    const VALUES_MAX: usize = 1_000;
    let needed = (2..VALUES_MAX).find(|values| half_width(*values, level).is_some());
    needed.unwrap_or(VALUES_MAX)
}

/// The mean and its standard error.
fn mean_and_error(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    let mean = mean(values).filter(|mean| mean.is_finite() && values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((mean, (squares / (count - 1.0) / count).sqrt()))
}

/// The g of [`anytime_interval`].
fn information(values: usize) -> f64 {
    1.0 + values as f64 * EFFECT_SCALE.powi(2)
}

/// The t of [`anytime_interval`].
fn half_width(values: usize, level: f64) -> Option<f64> {
    let (count, g) = (values as f64, information(values));
    let k = (g.sqrt() / level).powf(2.0 / count);
    (k < g).then(|| ((count - 1.0) * (k - 1.0) / (1.0 - k / g)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_the_formula() {
        // Mean 5, standard deviation √2; g = 33, K = (5.745 / 0.05)^(1/4) = 3.2740.
        let values = [3.0, 4.0, 4.0, 5.0, 5.0, 5.0, 7.0, 7.0_f64];
        let found = anytime_interval(&values, 0.05).unwrap();
        let deviation = (14.0_f64 / 7.0).sqrt();
        let k = (33.0_f64.sqrt() / 0.05).powf(0.25);
        let t = (7.0 * (k - 1.0) / (1.0 - k / 33.0)).sqrt();
        assert!((t - 4.204).abs() < 0.001, "{t}");
        assert!((found.high - 5.0 - t * deviation / 8.0_f64.sqrt()).abs() < 1e-9);
        assert!((found.low + found.high - 10.0).abs() < 1e-9);
    }

    #[test]
    fn few_values_reject_nothing_and_equal_ones_everything_else() {
        assert_eq!(anytime_interval(&[], 0.05), None);
        assert_eq!(anytime_interval(&[1.0, 2.0, 3.0], 0.05), None);
        assert_eq!(anytime_interval(&[1.0, f64::NAN, 1.0, 1.0], 0.05), None);
        let found = anytime_interval(&[2.0; 4], 0.05).unwrap();
        assert_eq!((found.low, found.high), (2.0, 2.0));
    }

    #[test]
    fn the_p_value_is_the_level_at_which_the_interval_ends_at_zero() {
        let values = [1.0, 2.5, 3.0, 2.0, 0.5, 1.8];
        let p_value = anytime_p_value(&values).unwrap();
        assert!(p_value > 0.0 && p_value < 0.05, "{p_value}");
        let low = |level| anytime_interval(&values, level).unwrap().low;
        assert!(low(p_value).abs() < 1e-9, "{p_value}: {}", low(p_value));
        assert!(low(p_value * 0.9) < 0.0 && low(p_value * 1.1) > 0.0);
        let of_alike = anytime_p_value(&[1.0, -1.0, 0.5, -0.4]).unwrap();
        assert_eq!(of_alike, 1.0);
        assert_eq!(anytime_p_value(&[0.0; 5]), Some(1.0));
        assert!(anytime_p_value(&[2.0; 4]).unwrap() < 0.05);
        assert_eq!(anytime_p_value(&[2.0]), None);
    }

    #[test]
    fn a_stricter_level_takes_more_values() {
        assert_eq!(
            [0.05, 0.05 / 3.0, 0.0125].map(anytime_values_min),
            [4, 4, 5]
        );
    }

    #[test]
    fn a_stricter_level_gives_a_wider_interval() {
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let width = |level| anytime_interval(&values, level).map(|it| it.high - it.low);
        assert!(width(0.01) > width(0.05));
    }
}
