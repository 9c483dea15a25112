//! Bootstrap intervals for statistics of samples that depend on their neighbours.

use fastrand::Rng;

/// A confidence interval of a statistic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConfidenceInterval {
    /// The lower end, in the unit of the statistic.
    pub low: f64,
    /// The upper end, in the unit of the statistic.
    pub high: f64,
}

impl ConfidenceInterval {
    /// The interval, widened so that it reaches at least this far from `middle` to either side: for
    /// values that are known no better than that.
    #[must_use]
    pub fn at_least(self, middle: f64, distance: f64) -> Self {
        Self {
            low: self.low.min(middle - distance),
            high: self.high.max(middle + distance),
        }
    }

    /// The interval that holds both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }
}

/// A moving-block bootstrap: samples are resampled in blocks, since neighbours in time (requests
/// behind each other in a queue) are correlated (Künsch, "The Jackknife and the Bootstrap for
/// General Stationary Observations", 1989).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocks {
    /// Samples per block: many times the distance over which samples are correlated.
    pub length: usize,
    /// Number of resamples; more make the ends more exact.
    pub draws: usize,
    /// Seed of the random numbers: the same seed gives the same interval.
    pub seed: u64,
}

impl Blocks {
    /// The 95 % percentile interval of a statistic of these samples, which are in order of time;
    /// `None` with fewer samples than two blocks, or if the statistic has no value.
    pub fn interval(
        &self,
        samples: &[f64],
        statistic: impl Fn(&[f64]) -> Option<f64>,
    ) -> Option<ConfidenceInterval> {
        if self.length == 0 || self.draws < 40 || samples.len() < 2 * self.length {
            return None;
        }
        let mut random = Rng::with_seed(self.seed);
        let mut drawn = Vec::with_capacity(samples.len() + self.length);
        let mut values = Vec::with_capacity(self.draws);
        for _ in 0..self.draws {
            drawn.clear();
            while drawn.len() < samples.len() {
                let start = random.usize(..=samples.len() - self.length);
                drawn.extend_from_slice(&samples[start..start + self.length]);
            }
            drawn.truncate(samples.len());
            values.push(statistic(&drawn)?);
        }
        values.sort_by(f64::total_cmp);
        let cut = self.draws / 40;
        Some(ConfidenceInterval {
            low: values[cut],
            high: values[self.draws - 1 - cut],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::mean;

    /// An autoregressive series: each sample is 0.9 times the previous one, plus noise.
    fn series(seed: u64, count: usize) -> Vec<f64> {
        let mut random = Rng::with_seed(seed);
        let mut last = 0.0;
        (0..count)
            .map(|_| {
                let noise: f64 = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
                last = 0.9 * last + noise;
                last
            })
            .collect()
    }

    fn covers(length: usize, runs: u64) -> usize {
        let holds = |seed: &u64| {
            let blocks = Blocks {
                length,
                draws: 200,
                seed: 1,
            };
            let interval = blocks.interval(&series(*seed, 2_000), mean).unwrap();
            interval.low <= 0.0 && 0.0 <= interval.high
        };
        (0..runs).filter(holds).count()
    }

    #[test]
    fn long_blocks_cover_the_true_mean_and_single_samples_do_not() {
        let (blocks, singles) = (covers(100, 100), covers(1, 100));
        assert!(blocks >= 85, "{blocks} of 100");
        assert!(singles <= 60, "{singles} of 100");
    }

    #[test]
    fn the_same_seed_gives_the_same_interval_and_too_few_samples_give_none() {
        let samples = series(9, 500);
        let blocks = Blocks {
            length: 50,
            draws: 100,
            seed: 7,
        };
        assert_eq!(
            blocks.interval(&samples, mean),
            blocks.interval(&samples, mean)
        );
        assert_eq!(blocks.interval(&samples[..99], mean), None);
        assert_eq!(blocks.interval(&samples, |_| None), None);
        let zero = Blocks {
            length: 0,
            ..blocks
        };
        assert_eq!(zero.interval(&samples, mean), None);
    }
}
