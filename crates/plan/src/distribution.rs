//! Delays and numbers: fixed, or random with a distribution.

use fastrand::Rng;

use crate::InvalidValue;
use crate::quantity::{
    DURATION_MAX_NS, decimal, invalid, parse_count, parse_duration_ns, parse_probability,
};

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
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        Self::parse_values(text, parse_duration_ns)?.ok_or_else(|| {
            let expected = "a delay: expected 5ms, uniform:1ms,5ms, exp:2ms, \
                            lognormal:MEDIAN,SIGMA or bimodal:P,USUAL,RARE";
            invalid(text, expected)
        })
    }

    /// Parses a distribution of values of any unit; `None` if it is not known.
    fn parse_values(
        text: &str,
        value: impl Fn(&str) -> Result<u64, InvalidValue>,
    ) -> Result<Option<Self>, InvalidValue> {
        let Some((name, parameters)) = text.split_once(':') else {
            return value(text).map(|one| Some(Self::Fixed(one)));
        };
        let parts: Vec<&str> = parameters.split(',').collect();
        let found = match (name, parts.as_slice()) {
            ("fixed", [one]) => Self::Fixed(value(one)?),
            ("uniform", [low, high]) => {
                let (low_ns, high_ns) = (value(low)?, value(high)?);
                if low_ns > high_ns {
                    return Err(format!("{text} is upside down: expected LOW,HIGH").into());
                }
                Self::Uniform { low_ns, high_ns }
            }
            ("exp", [mean]) => Self::Exponential {
                mean_ns: value(mean)?,
            },
            ("lognormal", [median, sigma]) => Self::Lognormal {
                median_ns: value(median)?,
                sigma: parse_sigma(sigma)?,
            },
            ("bimodal", [probability, usual, rare]) => Self::Bimodal {
                probability: parse_probability(probability)?,
                usual_ns: value(usual)?,
                rare_ns: value(rare)?,
            },
            _ => return Ok(None),
        };
        Ok(Some(found))
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

/// A number that is fixed or has a distribution of [`Delay`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Count(
    /// Its nanoseconds are ones.
    Delay,
);

impl Count {
    /// Always this number.
    #[must_use]
    pub const fn fixed(number: u64) -> Self {
        Self(Delay::Fixed(number))
    }

    /// Parses `64`, `uniform:16,256`, `exp:100`, `lognormal:128,0.5` or `bimodal:0.01,64,1000` of
    /// numbers from 0 to `max`.
    ///
    /// # Errors
    /// One line that names the value and what was expected.
    pub fn parse(text: &str, max: u64) -> Result<Self, InvalidValue> {
        let found = Delay::parse_values(text, |value| parse_count(value, max))?;
        found.map(Self).ok_or_else(|| {
            let expected = "a number: expected 64, uniform:16,256, exp:100, \
                            lognormal:MEDIAN,SIGMA or bimodal:P,USUAL,RARE";
            invalid(text, expected)
        })
    }

    /// Draws a sample. Those of `exp` and `lognormal` are rounded, have no limit, and are at least
    /// 1.
    pub fn sample(&self, random: &mut Rng) -> u64 {
        let sample = self.0.sample_ns(random);
        match self.0 {
            Delay::Exponential { .. } | Delay::Lognormal { .. } => sample.max(1),
            _ => sample,
        }
    }
}

fn parse_sigma(text: &str) -> Result<f64, InvalidValue> {
    decimal(text)
        .filter(|&value| value <= 10.0)
        .ok_or_else(|| invalid(text, "a sigma: expected a number from 0 to 10"))
}

/// Draws from the standard normal distribution (G. E. P. Box and M. E. Muller, "A Note on the
/// Generation of Random Normal Deviates", 1958).
pub fn standard_normal(random: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

fn clamped(ns: f64) -> u64 {
    ns.min(DURATION_MAX_NS as f64).round() as u64
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
    fn numbers_have_the_distributions_of_delays() {
        let samples = |text: &str| -> Vec<u64> {
            let count = Count::parse(text, 1000).unwrap();
            let mut random = Rng::with_seed(7);
            (0..100_000).map(|_| count.sample(&mut random)).collect()
        };
        assert!(samples("64").iter().all(|&number| number == 64));
        assert!(samples("0").iter().all(|&number| number == 0));
        let uniform = samples("uniform:3,5");
        for number in 3..=5 {
            let found = uniform.iter().filter(|&&one| one == number).count();
            assert_near(found as f64, 100_000.0 / 3.0, 0.02);
        }
        // Rounded, so that the mean is not half too low.
        assert_near(mean_ns(&samples("exp:100")), 100.0, 0.01);
        assert_near(quantile_ns(&samples("lognormal:128,0.5"), 0.5), 128.0, 0.01);
        assert!(samples("exp:1").iter().all(|&number| number >= 1));
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
