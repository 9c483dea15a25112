//! How often the rule for a slow first part cuts servers of known law.

use fastrand::Rng;
use stats::{SETTLING_BATCH_S, Settling, settling};

/// Series of each law.
const SERIES: usize = 400;

/// Lengths of runs, in batches: 10, 30 and 60 s.
const LENGTHS: [usize; 3] = [20, 60, 120];

fn normal(random: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

/// A Poisson count (Knuth, "Seminumerical Algorithms", section 3.4.1).
fn poisson(random: &mut Rng, mean: f64) -> f64 {
    let limit = (-mean).exp();
    let (mut count, mut product) = (0.0, random.f64());
    while product > limit {
        count += 1.0;
        product *= random.f64();
    }
    count
}

/// How the rate of a server that serves 1,000 requests/s on average varies from batch to batch.
#[derive(Debug, Clone, Copy)]
enum Law {
    /// Independent, with this relative deviation.
    Normal(f64),
    /// Independent, with this deviation of the logarithm.
    Lognormal(f64),
    /// Each value is correlated with the one before by 0.5, with this relative deviation.
    Autocorrelated(f64),
    /// Counts at this rate per second.
    Poisson(f64),
    /// A sine wave of 7 s with this relative amplitude.
    Period(f64),
    /// Two rates in turn, for 3.5 s each, that differ by so much from their mean.
    Square(f64),
    /// On and off for exponential times of this mean, seconds: 1,000 and 300 requests/s.
    Bursts(f64),
}

impl Law {
    fn series(self, count: usize, random: &mut Rng) -> Vec<f64> {
        let phase_s = random.f64() * 7.0;
        let wave = move |at: usize| {
            let time_s = (at as f64 + 0.5) * SETTLING_BATCH_S;
            (std::f64::consts::TAU * (time_s + phase_s) / 7.0).sin()
        };
        let mut before = normal(random);
        let mut bursts = Bursts::begin(random);
        let mut value = |at: usize| match self {
            Self::Normal(deviation) => 1_000.0 * (1.0 + deviation * normal(random)).max(0.0),
            Self::Lognormal(deviation) => 1_000.0 * (deviation * normal(random)).exp(),
            Self::Autocorrelated(deviation) => {
                before = 0.5 * before + 0.75_f64.sqrt() * normal(random);
                1_000.0 * (1.0 + deviation * before).max(0.0)
            }
            Self::Poisson(per_sec) => poisson(random, per_sec * SETTLING_BATCH_S),
            Self::Period(amplitude) => noisy(1_000.0 * (1.0 + amplitude * wave(at)), random),
            Self::Square(off) => noisy(1_000.0 * (1.0 + off * wave(at).signum()), random),
            Self::Bursts(mean_s) => {
                let share = bursts.share_on(mean_s, random);
                noisy(300.0 + 700.0 * share, random)
            }
        };
        (0..count).map(&mut value).collect()
    }
}

fn noisy(value: f64, random: &mut Rng) -> f64 {
    value * (1.0 + 0.02 * normal(random))
}

struct Bursts {
    is_on: bool,
    left_s: f64,
}

impl Bursts {
    fn begin(random: &mut Rng) -> Self {
        Self {
            is_on: random.bool(),
            left_s: 0.0,
        }
    }

    /// The share of the next batch in which the server is on.
    fn share_on(&mut self, mean_s: f64, random: &mut Rng) -> f64 {
        let (mut batch_s, mut on_s) = (SETTLING_BATCH_S, 0.0);
        while batch_s > 0.0 {
            if self.left_s <= 0.0 {
                self.is_on = !self.is_on;
                self.left_s = -mean_s * (1.0 - random.f64()).ln();
            }
            let lasts_s = self.left_s.min(batch_s);
            on_s += if self.is_on { lasts_s } else { 0.0 };
            self.left_s -= lasts_s;
            batch_s -= lasts_s;
        }
        on_s / SETTLING_BATCH_S
    }
}

/// How many of [`SERIES`] are cut.
fn cuts(law: Law, count: usize) -> usize {
    let mut random = Rng::with_seed(23 + count as u64);
    let is_cut = |_: &usize| {
        let found = settling(&law.series(count, &mut random));
        !matches!(found, Settling::Settled | Settling::Unknown)
    };
    (0..SERIES).filter(is_cut).count()
}

#[test]
fn constant_servers_are_cut_in_at_most_2_percent() {
    for count in LENGTHS {
        for law in [
            Law::Normal(0.01),
            Law::Normal(0.05),
            Law::Normal(0.3),
            Law::Lognormal(0.05),
            Law::Lognormal(0.3),
            Law::Lognormal(0.6),
            Law::Autocorrelated(0.03),
            Law::Autocorrelated(0.1),
            Law::Autocorrelated(0.3),
            Law::Poisson(2.0),
            Law::Poisson(10.0),
            Law::Poisson(50.0),
        ] {
            let cut = cuts(law, count);
            assert!(cut <= SERIES * 2 / 100, "{law:?} {count}: {cut}");
        }
    }
}

#[test]
fn periods_and_bursts_are_cut_in_at_most_1_percent() {
    for count in LENGTHS {
        for law in [
            Law::Period(0.1),
            Law::Period(0.3),
            Law::Period(0.6),
            Law::Square(0.1),
            Law::Square(0.3),
            Law::Square(0.6),
            Law::Bursts(0.2),
            Law::Bursts(0.5),
        ] {
            let cut = cuts(law, count);
            assert!(cut <= SERIES / 100, "{law:?} {count}: {cut}");
        }
    }
}

#[test]
fn a_step_at_3_s_is_cut_there() {
    let step = (3.0 / SETTLING_BATCH_S) as usize;
    for (law, factor) in [
        (Law::Normal(0.02), 0.5),
        (Law::Normal(0.05), 0.5),
        (Law::Lognormal(0.05), 0.5),
        (Law::Autocorrelated(0.03), 0.5),
        (Law::Normal(0.02), 1.0 / 3.0),
        (Law::Normal(0.01), 0.9),
    ] {
        for count in LENGTHS {
            let mut random = Rng::with_seed(29 + count as u64);
            let is_right = |_: &usize| {
                let mut batches = law.series(count, &mut random);
                batches[..step].iter_mut().for_each(|it| *it *= factor);
                let found = settling(&batches);
                matches!(found, Settling::SlowAtFirst { batches } if batches.abs_diff(step) <= 1)
            };
            let right = (0..SERIES).filter(is_right).count();
            assert!(
                right * 100 >= SERIES * 99,
                "{law:?} {factor} {count}: {right}"
            );
        }
    }
}

#[test]
fn a_rate_that_rises_late_has_not_settled() {
    let mut random = Rng::with_seed(31);
    let is_found = |_: &usize| {
        let mut batches = Law::Normal(0.02).series(20, &mut random);
        batches[..14].iter_mut().for_each(|it| *it *= 0.7);
        settling(&batches) == Settling::NotSettled { batches: 14 }
    };
    let found = (0..SERIES).filter(is_found).count();
    assert!(found * 100 >= SERIES * 99, "{found}");
}

#[test]
fn a_run_of_2_s_says_nothing() {
    let mut random = Rng::with_seed(37);
    for _ in 0..SERIES {
        let batches = Law::Lognormal(0.6).series(4, &mut random);
        assert_eq!(settling(&batches), Settling::Unknown);
    }
}
