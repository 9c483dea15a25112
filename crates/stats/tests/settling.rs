//! How often the rule for a slow first part cuts servers of known law.

use fastrand::Rng;
use stats::{LoadBatch, SETTLING_BATCH_S, Settling, is_settled, settling};

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

/// When a load has settled that is watched from its start for 30 s, seconds; `None` if it has not.
/// The arguments of the functions are seconds.
fn settled_s(rate: impl Fn(f64) -> f64, latency: impl Fn(f64) -> f64) -> Option<f64> {
    let batch = |at: usize| {
        let time_s = (at as f64 + 0.5) * SETTLING_BATCH_S;
        let per_sec = rate(time_s);
        let responses = (per_sec * SETTLING_BATCH_S).round() as u64;
        LoadBatch {
            responses,
            per_sec,
            latency: (responses > 0).then(|| latency(time_s)),
        }
    };
    let batches: Vec<LoadBatch> = (0..60).map(batch).collect();
    let count = (1..=60).find(|count| is_settled(&batches[..*count]) == Some(true))?;
    Some(count as f64 * SETTLING_BATCH_S)
}

/// The same of a closed loop of 10 connections.
fn closed_loop_settled_s(rate: impl Fn(f64) -> f64) -> Option<f64> {
    settled_s(&rate, |time_s| 10.0 / rate(time_s).max(1.0))
}

#[test]
fn a_load_in_progress_has_settled_when_its_last_seconds_have_no_trend() {
    let approaches =
        |share: f64, tau_s: f64| move |time_s: f64| 1e3 * (1.0 - share * (-time_s / tau_s).exp());
    let cases: [(&str, Option<f64>, (f64, f64)); 7] = [
        ("constant", closed_loop_settled_s(|_| 1e3), (5.0, 5.0)),
        (
            "a slow first batch, in which connections are opened",
            closed_loop_settled_s(|time_s| if time_s < 0.5 { 300.0 } else { 1e3 }),
            (5.0, 5.0),
        ),
        (
            "exponential, 1 s",
            closed_loop_settled_s(approaches(0.8, 1.0)),
            (5.0, 7.0),
        ),
        (
            "exponential, 4 s",
            closed_loop_settled_s(approaches(0.8, 4.0)),
            (9.0, 15.0),
        ),
        (
            "a step after 4.5 s",
            closed_loop_settled_s(|time_s| if time_s < 4.5 { 500.0 } else { 1e3 }),
            (5.5, 8.5),
        ),
        (
            "a rate that falls to its steady value",
            closed_loop_settled_s(|time_s| 1e3 * (1.0 + (-time_s / 2.0).exp())),
            (6.0, 11.0),
        ),
        (
            "a rate that is kept, with a latency that falls",
            settled_s(|_| 1e3, |time_s| 1.0 + 9.0 * (-time_s / 2.0).exp()),
            (8.0, 16.0),
        ),
    ];
    for (what, settled_s, (from_s, to_s)) in cases {
        let settled_s = settled_s.unwrap_or_else(|| panic!("{what}: not settled"));
        assert!((from_s..=to_s).contains(&settled_s), "{what}: {settled_s}");
    }
}

#[test]
fn a_load_that_changes_for_all_of_the_time_never_settles() {
    let rises = |time_s: f64| 100.0 + 100.0 * time_s;
    let falls = |time_s: f64| 4e3 * (-time_s / 20.0).exp();
    assert_eq!(closed_loop_settled_s(rises), None);
    assert_eq!(closed_loop_settled_s(falls), None);
    // Its rate is asked for, but its queue grows.
    assert_eq!(settled_s(|_| 1e3, |time_s| 0.1 * time_s), None);
}

#[test]
fn too_few_batches_or_responses_say_nothing() {
    let batches = |count: usize, responses: u64| {
        let batch = LoadBatch {
            responses,
            per_sec: responses as f64 / SETTLING_BATCH_S,
            latency: (responses > 0).then_some(1.0),
        };
        vec![batch; count]
    };
    for (count, responses, expected) in [
        (0, 0, None),
        (9, 1_000, None),
        (10, 1_000, Some(true)),
        (10, 4, None),
        (10, 5, Some(true)),
        // The last half of them has enough.
        (40, 3, Some(true)),
        (60, 0, None),
    ] {
        let found = is_settled(&batches(count, responses));
        assert_eq!(found, expected, "{count} batches of {responses}");
    }
}

#[test]
fn noise_does_not_delay_a_constant_load_for_long() {
    for (law, most_s) in [
        (Law::Normal(0.02), 6.0),
        (Law::Normal(0.2), 9.0),
        (Law::Autocorrelated(0.1), 9.0),
        (Law::Poisson(200.0), 7.0),
    ] {
        let mut random = Rng::with_seed(1);
        let mut waits: Vec<f64> = (0..SERIES)
            .map(|_| {
                let series = law.series(60, &mut random);
                let rate = |time_s: f64| series[(time_s / SETTLING_BATCH_S) as usize];
                closed_loop_settled_s(rate).unwrap_or(f64::INFINITY)
            })
            .collect();
        waits.sort_by(f64::total_cmp);
        let nearly_all_s = waits[SERIES * 95 / 100];
        assert!(nearly_all_s <= most_s, "{law:?}: {nearly_all_s} s");
    }
}

#[test]
fn what_is_left_of_a_slow_start_is_small_once_the_load_has_settled() {
    for tau_s in [0.5, 1.0, 2.0, 4.0, 6.0] {
        let left = |time_s: f64| 0.8 * (-time_s / tau_s).exp();
        let mut random = Rng::with_seed(2);
        let noise: Vec<f64> = (0..60).map(|_| noisy(1e3, &mut random)).collect();
        let rate = |time_s: f64| noise[(time_s / SETTLING_BATCH_S) as usize] * (1.0 - left(time_s));
        let settled_s = closed_loop_settled_s(rate).expect("it settles");
        assert!(left(settled_s) < 0.1, "{tau_s} s: {settled_s} s");
    }
}
