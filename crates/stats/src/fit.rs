//! Tests for a Poisson process: the distribution of distances and the dispersion of counts.

use crate::sample::{mean, sorted};

/// How well samples fit a distribution that was fixed beforehand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// Kolmogorov's D: the largest distance between the two distribution functions, 0..=1.
    pub distance: f64,
    /// Probability of a distance at least this large if the samples come from the distribution.
    pub p_value: f64,
}

/// Kolmogorov-Smirnov test of distances against the exponential distribution with this rate (events
/// per unit of the distances), which must not be estimated from the samples. `None` without
/// samples.
///
/// The p-value is the asymptotic one with the correction for finite samples of Stephens, "Use of
/// the Kolmogorov-Smirnov, Cramer-Von Mises and Related Statistics Without Extensive Tables"
/// (1970); it is accurate to about 0.001 from 20 samples on.
#[must_use]
pub fn exponential_fit(distances: &[f64], rate: f64) -> Option<Fit> {
    let ascending = sorted(distances);
    let n = ascending.len() as f64;
    let distance = ascending
        .iter()
        .enumerate()
        .map(|(index, value)| {
            let expected = -f64::exp_m1(-value.max(0.0) * rate);
            let below = index as f64 / n;
            let upto = (index + 1) as f64 / n;
            (expected - below).max(upto - expected)
        })
        .reduce(f64::max)?;
    let lambda = (n.sqrt() + 0.12 + 0.11 / n.sqrt()) * distance;
    Some(Fit {
        distance,
        p_value: kolmogorov_tail(lambda),
    })
}

/// Kolmogorov's distribution: P(sqrt(n) D > lambda) = 2 Σ (-1)^(j-1) exp(-2 j² lambda²).
fn kolmogorov_tail(lambda: f64) -> f64 {
    // The series does not converge for small values; the true value is above 0.9999999.
    if lambda < 0.2 {
        return 1.0;
    }
    let term = |j: i32| {
        let sign = if j % 2 == 1 { 1.0 } else { -1.0 };
        sign * (-2.0 * f64::from(j * j) * lambda * lambda).exp()
    };
    (2.0 * (1..=100).map(term).sum::<f64>()).clamp(0.0, 1.0)
}

/// Variance over mean of counts in bins of equal length (Cox and Lewis, "The Statistical Analysis
/// of Series of Events", 1966): 1 for a Poisson process, 0 for even arrivals. `None` with fewer
/// than two bins, or if all of them are empty. Its standard error over n bins of a Poisson process
/// is sqrt(2 / (n - 1)).
#[must_use]
pub fn index_of_dispersion(counts: &[f64]) -> Option<f64> {
    let mean = mean(counts).filter(|mean| *mean > 0.0 && counts.len() > 1)?;
    let squares: f64 = counts.iter().map(|count| (count - mean).powi(2)).sum();
    Some(squares / (counts.len() - 1) as f64 / mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    fn exponential(random: &mut Rng, rate: f64) -> f64 {
        -(1.0 - random.f64()).ln() / rate
    }

    #[test]
    fn kolmogorovs_distribution_has_its_tabulated_values() {
        // Smirnov, "Table for Estimating the Goodness of Fit of Empirical Distributions" (1948).
        for (lambda, tail) in [
            (0.83, 0.4963),
            (1.22, 0.1019),
            (1.36, 0.0495),
            (1.63, 0.0098),
        ] {
            let found = kolmogorov_tail(lambda);
            assert!((found - tail).abs() < 5e-4, "{lambda}: {found}");
        }
        assert_eq!(kolmogorov_tail(0.0), 1.0);
        assert!(kolmogorov_tail(10.0) < 1e-80);
    }

    #[test]
    fn the_distance_of_few_samples_is_exact() {
        // One sample at the median: half of the mass on either side.
        let fit = exponential_fit(&[2_f64.ln()], 1.0).unwrap();
        assert!((fit.distance - 0.5).abs() < 1e-12);
        assert_eq!(exponential_fit(&[], 1.0), None);
    }

    #[test]
    fn true_exponentials_are_rarely_rejected_and_p_values_are_uniform() {
        let mut random = Rng::with_seed(3);
        let mut p_values: Vec<f64> = (0..400)
            .map(|_| {
                let samples: Vec<f64> = (0..500).map(|_| exponential(&mut random, 3.0)).collect();
                exponential_fit(&samples, 3.0).unwrap().p_value
            })
            .collect();
        p_values.sort_by(f64::total_cmp);
        let refused = p_values.iter().filter(|p| **p < 0.01).count();
        assert!(refused <= 12, "{refused} of 400 below 1 %");
        assert!((0.4..0.6).contains(&p_values[200]), "{}", p_values[200]);
    }

    #[test]
    fn another_distribution_and_another_rate_are_rejected() {
        let mut random = Rng::with_seed(4);
        let even = vec![1.0 / 3.0; 500];
        let uniform: Vec<f64> = (0..500).map(|_| random.f64() * 2.0 / 3.0).collect();
        let slower: Vec<f64> = (0..500).map(|_| exponential(&mut random, 2.4)).collect();
        for samples in [even, uniform, slower] {
            let fit = exponential_fit(&samples, 3.0).unwrap();
            assert!(fit.p_value < 0.01, "{fit:?}");
        }
    }

    #[test]
    fn dispersion_is_one_for_poisson_counts_and_none_for_even_ones() {
        let mut random = Rng::with_seed(5);
        let mut counts = vec![0.0; 20_000];
        let mut now = exponential(&mut random, 4.0);
        while let Some(count) = counts.get_mut(now as usize) {
            *count += 1.0;
            now += exponential(&mut random, 4.0);
        }
        let index = index_of_dispersion(&counts).unwrap();
        assert!((index - 1.0).abs() < 0.05, "{index}");
        assert_eq!(index_of_dispersion(&[4.0; 10]), Some(0.0));
        assert_eq!(index_of_dispersion(&[4.0]), None);
        assert_eq!(index_of_dispersion(&[0.0, 0.0]), None);
    }
}
