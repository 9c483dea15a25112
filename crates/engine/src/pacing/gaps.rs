//! The gaps between consecutive requests of a run, in units of their mean.
//!
//! Random gaps are independent of each other: the requests are a renewal process. It is a
//! stationary one: the schedule starts at any moment of the process, rather than right after a
//! request. So as many requests as the rate says are due on average in any part of the run, also in
//! a short one. If the first gap were one like the others, a run with shape K would have
//! `(1/K - 1) / 2` requests more (D. R. Cox, "Renewal Theory", 1962, section 4.2): 50 with a shape
//! of 0.01.

use plan::Arrivals;
use plan::distribution::standard_normal;

/// Where the next gap comes from.
#[derive(Debug, Clone)]
pub(super) enum Gaps {
    Even,
    Exponential(fastrand::Rng),
    Gamma(GammaGaps),
}

impl Gaps {
    /// The gaps that a plan asks for, and the gap before the first request.
    pub(super) fn new(arrivals: Arrivals, seed: u64) -> (Self, f64) {
        let mut random = fastrand::Rng::with_seed(seed).fork();
        match arrivals {
            Arrivals::Even => (Self::Even, 0.0),
            Arrivals::Poisson => {
                let first = exponential(&mut random);
                (Self::Exponential(random), first)
            }
            Arrivals::Gamma { shape } => {
                let (gaps, first) = GammaGaps::new(shape, random);
                (Self::Gamma(gaps), first)
            }
        }
    }

    /// The next gap.
    #[inline]
    pub(super) fn draw(&mut self) -> f64 {
        match self {
            Self::Even => 1.0,
            Self::Exponential(random) => exponential(random),
            Self::Gamma(gamma) => gamma.draw(),
        }
    }
}

/// A random gap of a Poisson process.
#[inline]
fn exponential(random: &mut fastrand::Rng) -> f64 {
    // 1 - [0, 1) is never 0.
    -(1.0 - random.f64()).ln()
}

/// Gamma-distributed gaps.
#[derive(Debug, Clone)]
pub(super) struct GammaGaps {
    random: fastrand::Rng,
    shape: f64,
    sampler: MarsagliaTsang,
}

impl GammaGaps {
    /// Also returns the gap before the first request. From any moment, the time until the next
    /// request of a renewal process is a random part of a gap; a gap that has the moment in it is
    /// chosen in proportion to its length, so it has a shape that is larger by 1.
    fn new(shape: f64, mut random: fastrand::Rng) -> (Self, f64) {
        let around = MarsagliaTsang::new(shape + 1.0).sample(&mut random) / shape;
        let first = around * random.f64();
        let gaps = Self {
            random,
            shape,
            // The method needs a shape of 1 at least.
            sampler: MarsagliaTsang::new(if shape < 1.0 { shape + 1.0 } else { shape }),
        };
        (gaps, first)
    }

    /// A gap of a small shape may be 0, because a float has nothing between 0 and 10^-324.
    fn draw(&mut self) -> f64 {
        let sample = self.sampler.sample(&mut self.random) / self.shape;
        if self.shape < 1.0 {
            // Section 6 of the paper. 1 - [0, 1) is never 0.
            sample * (1.0 - self.random.f64()).powf(1.0 / self.shape)
        } else {
            sample
        }
    }
}

/// Draws from a gamma distribution with a shape of at least 1 and scale 1 (G. Marsaglia and
/// W. W. Tsang, "A Simple Method for Generating Gamma Variables", ACM Transactions on Mathematical
/// Software 26, 2000).
#[derive(Debug, Clone, Copy)]
struct MarsagliaTsang {
    d: f64,
    c: f64,
}

impl MarsagliaTsang {
    fn new(shape: f64) -> Self {
        let d = shape - 1.0 / 3.0;
        Self {
            d,
            c: (9.0 * d).sqrt().recip(),
        }
    }

    /// Takes 1.05 attempts at most on average, whatever the shape.
    fn sample(self, random: &mut fastrand::Rng) -> f64 {
        loop {
            let normal = standard_normal(random);
            let root = self.c.mul_add(normal, 1.0);
            if root <= 0.0 {
                continue;
            }
            let cube = root * root * root;
            let limit = 0.5 * normal * normal + self.d * (1.0 - cube + cube.ln());
            if (1.0 - random.f64()).ln() < limit {
                return self.d * cube;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPES: [f64; 7] = [0.01, 0.1, 0.5, 1.0, 4.0, 100.0, 1000.0];
    const SEEDS: u64 = 40;
    const GAPS: usize = 20_000;

    fn gamma(shape: f64, seed: u64) -> (Gaps, f64) {
        Gaps::new(Arrivals::Gamma { shape }, seed)
    }

    fn gaps(shape: f64, seed: u64, count: usize) -> Vec<f64> {
        let (mut gaps, _) = gamma(shape, seed);
        (0..count).map(|_| gaps.draw()).collect()
    }

    /// The mean of n gaps has a standard error of `sqrt(1/K / n)`, and so has the mean over seeds
    /// that are independent of each other.
    #[test]
    fn gaps_have_a_mean_of_one_and_the_variation_of_their_shape() {
        for shape in SHAPES {
            let all: Vec<f64> = (0..SEEDS)
                .flat_map(|seed| gaps(shape, seed, GAPS))
                .collect();
            let count = all.len() as f64;
            let mean = all.iter().sum::<f64>() / count;
            let variance = 1.0 / shape;
            let error = (variance / count).sqrt();
            assert!((mean - 1.0).abs() < 5.0 * error, "{shape}: mean {mean}");
            let squares = all.iter().map(|gap| (gap - 1.0).powi(2));
            let found = squares.sum::<f64>() / count;
            // The fourth central moment of a gamma distribution with mean 1 is 3/K^2 + 6/K^3.
            let fourth = 3.0 / shape.powi(2) + 6.0 / shape.powi(3);
            let error = ((fourth - variance.powi(2)) / count).sqrt();
            assert!(
                (found - variance).abs() < 5.0 * error,
                "{shape}: variance {found}"
            );
        }
    }

    /// The distribution function of a gamma distribution with mean 1, by the trapezoidal rule over
    /// `u = ln x`, in which the density is smooth for every shape: `x^K e^(-Kx) K^K / Gamma(K)`.
    /// The sum over the whole line gives the constant, so that no gamma function is needed.
    fn distribution(shape: f64) -> impl Fn(f64) -> f64 {
        const STEPS: usize = 400_000;
        let (low, high) = (-40.0 / shape, (5.0 + 5.0 / shape.sqrt()).min(12.0));
        let step = (high - low) / STEPS as f64;
        let density = |u: f64| (shape * (u - u.exp() + 1.0)).exp();
        let mut sums = Vec::with_capacity(STEPS + 1);
        let (mut sum, mut last) = (0.0, 0.0);
        for index in 0..=STEPS {
            let here = density((index as f64).mul_add(step, low));
            sum += f64::midpoint(last, here);
            last = here;
            sums.push(sum);
        }
        move |x: f64| {
            let place = ((x.ln() - low) / step).clamp(0.0, STEPS as f64);
            let (index, part) = (place.floor() as usize, place.fract());
            let next = sums[(index + 1).min(STEPS)];
            (next - sums[index]).mul_add(part, sums[index]) / sum
        }
    }

    /// The Kolmogorov-Smirnov distance of n samples exceeds `1.95 / sqrt(n)` once in a thousand
    /// times (Kolmogorov's distribution).
    fn assert_is(shape: f64, samples: &[f64], distribution: impl Fn(f64) -> f64, what: &str) {
        let sorted = stats::sorted(samples);
        let count = sorted.len() as f64;
        let distances = sorted.iter().enumerate().map(|(index, sample)| {
            let (below, expected) = (index as f64 / count, distribution(*sample));
            (expected - below).max(below + 1.0 / count - expected)
        });
        let distance = distances.fold(0.0, f64::max);
        assert!(distance < 1.95 / count.sqrt(), "{what} {shape}: {distance}");
    }

    /// Values of the distribution function that others have computed: chi-squared tables (its
    /// quantile 0.95 with 1 degree of freedom is 3.841, with 8 degrees 15.507), and
    /// `1 - exp(-x)`.
    #[test]
    fn the_oracle_agrees_with_known_values() {
        for (shape, x, expected) in [
            (0.5, 3.841_459, 0.95),
            (4.0, 15.507_313 / 8.0, 0.95),
            (1.0, 0.5, 1.0 - (-0.5_f64).exp()),
        ] {
            let found = distribution(shape)(x);
            assert!((found - expected).abs() < 1e-6, "{shape}: {found}");
        }
    }

    #[test]
    fn gaps_have_a_gamma_distribution() {
        for shape in [0.1, 0.5, 1.0, 4.0, 100.0] {
            let all: Vec<f64> = (0..SEEDS)
                .flat_map(|seed| gaps(shape, seed, 2_000))
                .collect();
            assert_is(shape, &all, distribution(shape), "gap");
        }
    }

    #[test]
    fn a_shape_of_one_is_a_poisson_process() {
        let exponential = |x: f64| 1.0 - (-x).exp();
        assert_is(1.0, &gaps(1.0, 3, GAPS), exponential, "gap");
        let firsts: Vec<f64> = (0..5_000).map(|seed| gamma(1.0, seed).1).collect();
        assert_is(1.0, &firsts, exponential, "first gap");
    }

    /// In the first `LENGTH` mean gaps, as in later ones, as many requests as gaps are due on
    /// average; the variance of their number is `LENGTH / K` at most, and 1/4 more for rounding.
    #[test]
    fn the_mean_rate_holds_from_the_start_and_for_every_shape() {
        const LENGTH: f64 = 20.0;
        const RUNS: u64 = 4_000;
        for shape in SHAPES {
            let mut counts = [0_u64; 2];
            for seed in 0..RUNS {
                let (mut gaps, mut position) = gamma(shape, seed);
                while position < 2.0 * LENGTH {
                    counts[usize::from(position >= LENGTH)] += 1;
                    position += gaps.draw();
                }
            }
            let error = ((LENGTH / shape + 0.25) / RUNS as f64).sqrt();
            for count in counts {
                let mean = count as f64 / RUNS as f64;
                assert!((mean - LENGTH).abs() < 4.0 * error, "{shape}: {mean}");
            }
        }
    }
}
