//! Delays: fixed, or random with a distribution.

use fastrand::Rng;

use crate::quantity::{DURATION_MAX_NS, decimal, parse_duration_ns, parse_probability};

/// A delay; all times in nanoseconds. Samples are limited to [`DURATION_MAX_NS`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Delay {
    /// Always the same, in nanoseconds.
    Fixed(u64),
    /// Uniform from `low_ns` to `high_ns`.
    Uniform {
        /// Minimum, in nanoseconds.
        low_ns: u64,
        /// Maximum, in nanoseconds, at least `low_ns`.
        high_ns: u64,
    },
    /// Exponential, like the service time of an M/M/1 queue.
    Exponential {
        /// Mean, in nanoseconds.
        mean_ns: u64,
    },
    /// Lognormal: `median * exp(sigma * z)` with `z` standard normal.
    Lognormal {
        /// Median, in nanoseconds.
        median_ns: u64,
        /// Standard deviation of the logarithm, 0 to 10.
        sigma: f64,
    },
    /// Either `usual_ns` or, with a probability, `rare_ns`.
    Bimodal {
        /// Probability of `rare_ns`, 0 to 1.
        probability: f64,
        /// The delay of most responses, in nanoseconds.
        usual_ns: u64,
        /// The delay with this probability, in nanoseconds.
        rare_ns: u64,
    },
}

impl Delay {
    /// No delay: the default of a recipe.
    pub const NONE: Self = Self::Fixed(0);

    /// Parses `5ms`, `uniform:1ms,5ms`, `exp:2ms`, `lognormal:10ms,0.5` or
    /// `bimodal:0.01,1ms,100ms`.
    ///
    /// # Errors
    /// One line that names the value and what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some((name, parameters)) = text.split_once(':') else {
            return parse_duration_ns(text).map(Self::Fixed);
        };
        let parts: Vec<&str> = parameters.split(',').collect();
        match (name, parts.as_slice()) {
            ("fixed", [time]) => parse_duration_ns(time).map(Self::Fixed),
            ("uniform", [low, high]) => uniform(low, high),
            ("exp", [mean]) => Ok(Self::Exponential {
                mean_ns: parse_duration_ns(mean)?,
            }),
            ("lognormal", [median, sigma]) => lognormal(median, sigma),
            ("bimodal", [probability, usual, rare]) => Ok(Self::Bimodal {
                probability: parse_probability(probability)?,
                usual_ns: parse_duration_ns(usual)?,
                rare_ns: parse_duration_ns(rare)?,
            }),
            _ => Err(format!(
                "`{text}` is not a delay: expected 5ms, uniform:1ms,5ms, exp:2ms, \
                 lognormal:MEDIAN,SIGMA or bimodal:P,USUAL,RARE"
            )),
        }
    }

    /// Draws a sample, in nanoseconds.
    pub fn sample_ns(&self, random: &mut Rng) -> u64 {
        match *self {
            Self::Fixed(ns) => ns,
            Self::Uniform { low_ns, high_ns } => random.u64(low_ns..=high_ns),
            Self::Exponential { mean_ns } => {
                // Inverse transform sampling; 1 - u is in (0, 1], so the logarithm is finite.
                clamped(-(1.0 - random.f64()).ln() * mean_ns as f64)
            }
            Self::Lognormal { median_ns, sigma } => {
                clamped(median_ns as f64 * (sigma * standard_normal(random)).exp())
            }
            Self::Bimodal {
                probability,
                usual_ns,
                rare_ns,
            } => {
                if random.f64() < probability {
                    rare_ns
                } else {
                    usual_ns
                }
            }
        }
    }

    /// Whether every sample is zero.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }
}

fn uniform(low: &str, high: &str) -> Result<Delay, String> {
    let (low_ns, high_ns) = (parse_duration_ns(low)?, parse_duration_ns(high)?);
    if low_ns > high_ns {
        return Err(format!(
            "uniform:{low},{high} is upside down: expected LOW,HIGH"
        ));
    }
    Ok(Delay::Uniform { low_ns, high_ns })
}

fn lognormal(median: &str, sigma: &str) -> Result<Delay, String> {
    let spread = decimal(sigma)
        .filter(|&value| value <= 10.0)
        .ok_or_else(|| format!("`{sigma}` is not a sigma: expected a number from 0 to 10"))?;
    Ok(Delay::Lognormal {
        median_ns: parse_duration_ns(median)?,
        sigma: spread,
    })
}

/// Box and Muller, "A Note on the Generation of Random Normal Deviates" (1958).
fn standard_normal(random: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

fn clamped(ns: f64) -> u64 {
    ns.min(DURATION_MAX_NS as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples_ns(text: &str) -> Vec<u64> {
        let delay = Delay::parse(text).unwrap();
        let mut random = Rng::with_seed(7);
        (0..100_000).map(|_| delay.sample_ns(&mut random)).collect()
    }

    fn mean_ns(samples: &[u64]) -> f64 {
        samples.iter().map(|&ns| ns as f64).sum::<f64>() / samples.len() as f64
    }

    fn quantile_ns(samples: &[u64], q: f64) -> f64 {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable();
        sorted[(q * (sorted.len() - 1) as f64) as usize] as f64
    }

    fn assert_near(found: f64, expected: f64, tolerance: f64) {
        let error = (found / expected - 1.0).abs();
        assert!(error < tolerance, "found {found}, expected {expected}");
    }

    #[test]
    fn a_fixed_delay_is_always_the_same() {
        assert!(samples_ns("5ms").iter().all(|&ns| ns == 5_000_000));
        assert!(samples_ns("0").iter().all(|&ns| ns == 0));
    }

    #[test]
    fn a_uniform_delay_fills_its_range_evenly() {
        let samples = samples_ns("uniform:1ms,5ms");
        assert!(
            samples
                .iter()
                .all(|ns| (1_000_000..=5_000_000).contains(ns))
        );
        assert_near(mean_ns(&samples), 3e6, 0.01);
        assert_near(quantile_ns(&samples, 0.25), 2e6, 0.02);
    }

    #[test]
    fn an_exponential_delay_has_its_mean_and_its_tail() {
        let samples = samples_ns("exp:2ms");
        assert_near(mean_ns(&samples), 2e6, 0.01);
        assert_near(quantile_ns(&samples, 0.99), 2e6 * 100_f64.ln(), 0.03);
    }

    #[test]
    fn a_lognormal_delay_has_its_median_and_its_spread() {
        let samples = samples_ns("lognormal:10ms,0.5");
        assert_near(quantile_ns(&samples, 0.5), 1e7, 0.01);
        assert_near(mean_ns(&samples), 1e7 * 0.125_f64.exp(), 0.01);
    }

    #[test]
    fn a_bimodal_delay_is_rare_as_often_as_asked() {
        let samples = samples_ns("bimodal:10%,1ms,100ms");
        let rare = samples.iter().filter(|&&ns| ns == 100_000_000).count();
        assert_near(rare as f64, 10_000.0, 0.05);
    }

    #[test]
    fn the_same_seed_gives_the_same_delays() {
        assert_eq!(samples_ns("exp:2ms"), samples_ns("exp:2ms"));
    }

    #[test]
    fn delays_that_mean_nothing_are_refused() {
        for text in [
            "",
            "5",
            "exp",
            "exp:",
            "exp:2",
            "uniform:5ms,1ms",
            "uniform:1ms",
            "weibull:1ms",
            "lognormal:1ms,-1",
            "lognormal:1ms,nan",
            "bimodal:2,1ms,2ms",
        ] {
            assert!(Delay::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn huge_samples_are_cut_at_an_hour() {
        let delay = Delay::Lognormal {
            median_ns: DURATION_MAX_NS,
            sigma: 10.0,
        };
        let mut random = Rng::with_seed(1);
        assert!((0..1000).all(|_| delay.sample_ns(&mut random) <= DURATION_MAX_NS));
    }
}
