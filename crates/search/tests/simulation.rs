//! Searches against simulated servers whose highest rate is known.
//!
//! The truth is the rate at which the mean clipped excess of runs is 0, found by many runs without
//! a search. The default test is small; `make statistics` runs the large ones and prints their
//! table.

use std::thread;

use fastrand::Rng;
use search::{Load, Measured, Outcome, Phase, Search, Settings, Step};

/// What every server can do on average, in requests per second, if it never waits.
const CAPACITY: f64 = 1_000.0;

/// The standard deviation of the capacity from run to run, as a share.
const RUN_TO_RUN: f64 = 0.02;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Server {
    /// Exponential service times, p99 < 20 ms.
    MM1,
    /// Constant service times, p99 < 50 ms.
    MD1,
    /// Four at a time, lognormal service times, requests more even than Poisson's, p99 < 50 ms.
    GG4,
    /// Answers at once up to its capacity, and refuses what is beyond.
    Cliff,
    /// Lognormal service times of sigma 1.2, p99 < 50 ms.
    HeavyTail,
    /// As `MM1`, and 4 % slower by and by over twelve runs, then fast again.
    Drift,
    /// As `MM1`, and 10 % slower in three of ten runs.
    TwoState,
}

/// The servers with their truths, which `truths_are_those_of_many_runs` checks.
const SERVERS: [(Server, f64); 7] = [
    (Server::MM1, 775.0),
    (Server::MD1, 969.0),
    (Server::GG4, 945.2),
    (Server::Cliff, 1_000.0),
    (Server::HeavyTail, 784.1),
    (Server::Drift, 756.0),
    (Server::TwoState, 740.5),
];

/// Those whose searches take few runs.
const IN_EVERY_TEST: [Server; 3] = [Server::MM1, Server::MD1, Server::Cliff];

fn normal(random: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

fn exponential(random: &mut Rng) -> f64 {
    -(1.0 - random.f64()).ln()
}

/// Of mean 1.
fn lognormal(random: &mut Rng, sigma: f64) -> f64 {
    (sigma * normal(random) - sigma * sigma / 2.0).exp()
}

impl Server {
    /// What the server can do in the run of this number.
    fn capacity(self, random: &mut Rng, run: usize) -> f64 {
        let state = match self {
            Self::Drift => 1.0 - 0.04 * (run % 12) as f64 / 12.0,
            Self::TwoState if random.f64() < 0.3 => 0.9,
            _ => 1.0,
        };
        CAPACITY * state * (RUN_TO_RUN * normal(random)).exp()
    }

    /// ln(metric / limit) of a run at a rate.
    fn excess(self, random: &mut Rng, run: usize, rate: f64, duration_s: f64) -> f64 {
        let capacity = self.capacity(random, run);
        match self {
            Self::Cliff if rate > capacity => f64::INFINITY,
            Self::Cliff => f64::ln(0.1),
            Self::MM1 | Self::Drift | Self::TwoState => {
                let p99 = self.p99(random, rate, capacity, duration_s, exponential, exponential);
                (p99 / 0.02).ln()
            }
            Self::MD1 => {
                let p99 = self.p99(random, rate, capacity, duration_s, exponential, |_| 1.0);
                (p99 / 0.05).ln()
            }
            Self::GG4 => {
                let erlang =
                    |random: &mut Rng| f64::midpoint(exponential(random), exponential(random));
                let service = |random: &mut Rng| lognormal(random, 0.8);
                (self.p99(random, rate, capacity, duration_s, erlang, service) / 0.05).ln()
            }
            Self::HeavyTail => {
                let service = |random: &mut Rng| lognormal(random, 1.2);
                (self.p99(random, rate, capacity, duration_s, exponential, service) / 0.05).ln()
            }
        }
    }

    /// p99 of the response times in seconds: first come, first served (Kiefer and Wolfowitz, "On
    /// the Theory of Queues with Many Servers", 1955).
    fn p99(
        self,
        random: &mut Rng,
        rate: f64,
        capacity: f64,
        duration_s: f64,
        distance: impl Fn(&mut Rng) -> f64,
        service: impl Fn(&mut Rng) -> f64,
    ) -> f64 {
        let servers = if self == Self::GG4 { 4 } else { 1 };
        let mut free_at = [0.0_f64; 4];
        let free_at = &mut free_at[..servers];
        let mut times = Vec::with_capacity((rate * duration_s * 1.2) as usize);
        let mut now = distance(random) / rate;
        while now < duration_s {
            let first = free_at
                .iter_mut()
                .min_by(|a, b| a.total_cmp(b))
                .expect("there is a server");
            *first = first.max(now) + service(random) * servers as f64 / capacity;
            times.push(*first - now);
            now += distance(random) / rate;
        }
        let rank = (times.len() * 99).div_ceil(100).max(1) - 1;
        *times.select_nth_unstable_by(rank, f64::total_cmp).1
    }
}

/// Runs of 10 s: what a search with these limits makes.
const RUN_S: f64 = 10.0;

/// The mean clipped excess over many runs. The same runs at each rate, so that the mean is smooth.
fn mean_excess(server: Server, rate: f64, runs: usize) -> f64 {
    let one = |run: usize| {
        let mut random = Rng::with_seed(run as u64);
        server
            .excess(&mut random, run, rate, RUN_S)
            .clamp(-0.7, 0.7)
    };
    (0..runs).map(one).sum::<f64>() / runs as f64
}

fn truth(server: Server, near: f64, runs: usize) -> f64 {
    let (mut low, mut high) = (near * 0.98, near * 1.02);
    for _ in 0..7 {
        let middle = f64::midpoint(low, high);
        let side = mean_excess(server, middle, runs);
        *(if side < 0.0 { &mut low } else { &mut high }) = middle;
    }
    f64::midpoint(low, high)
}

#[derive(Debug, Clone, Copy)]
struct Found {
    /// Error of the rate, as a share of the truth.
    error: f64,
    covers: bool,
    runs: usize,
}

/// A search to its end; `None` if it does not find a rate.
fn search(server: Server, truth: f64, seed: u64) -> Option<Found> {
    let mut random = Rng::with_seed(seed);
    let settings = Settings {
        budget_s: 1e5,
        seed: random.u64(..),
        ..Settings::default()
    };
    let first = random.usize(..12);
    let mut search = Search::new(settings).expect("the settings are in range");
    while let Some(step) = search.next() {
        let measured = run(server, &step, first, &mut random);
        search.record(step, measured).expect("it was asked for");
    }
    let Some(Outcome::Found { estimate, .. }) = search.outcome() else {
        return None;
    };
    let full = |phase| phase == Phase::Measure || phase == Phase::Confirm;
    let records = search.records().iter();
    Some(Found {
        error: estimate.rate / truth - 1.0,
        covers: (estimate.low..=estimate.high).contains(&truth),
        runs: records.filter(|record| full(record.step.phase)).count(),
    })
}

fn run(server: Server, step: &Step, first: usize, random: &mut Rng) -> Measured {
    let number = first + step.number;
    let (excess, achieved) = match step.load {
        Load::ClosedLoop => (f64::INFINITY, server.capacity(random, number)),
        Load::Rate(rate) => (server.excess(random, number, rate, step.duration_s), rate),
    };
    Measured {
        excess,
        achieved,
        generator_limited: false,
        took_s: step.duration_s,
    }
}

#[derive(Debug)]
struct Summary {
    found: usize,
    bias: f64,
    coverage: f64,
    p5: f64,
    p95: f64,
    worst: f64,
    runs: f64,
    runs_p95: f64,
}

fn summary(server: Server, truth: f64, searches: u64) -> Summary {
    let found: Vec<Found> = (0..searches)
        .filter_map(|seed| search(server, truth, seed))
        .collect();
    let errors: Vec<f64> = found.iter().map(|it| it.error).collect();
    let runs: Vec<f64> = found.iter().map(|it| it.runs as f64).collect();
    let quantile =
        |values: &[f64], at| stats::quantile(&stats::sorted(values), at).expect("searches found");
    Summary {
        found: found.len(),
        bias: stats::mean(&errors).expect("searches found"),
        coverage: found.iter().filter(|it| it.covers).count() as f64 / found.len() as f64,
        p5: quantile(&errors, 0.05),
        p95: quantile(&errors, 0.95),
        worst: errors
            .iter()
            .copied()
            .fold(0.0, |a, b| if b.abs() > f64::abs(a) { b } else { a }),
        runs: stats::mean(&runs).expect("searches found"),
        runs_p95: quantile(&runs, 0.95),
    }
}

/// The same for several servers, each on a thread.
fn for_each<T: Send>(
    servers: &[(Server, f64)],
    of: impl Fn(Server, f64) -> T + Sync,
) -> Vec<(Server, f64, T)> {
    thread::scope(|scope| {
        let of = &of;
        let begin = |(server, truth)| (server, truth, scope.spawn(move || of(server, truth)));
        let threads: Vec<_> = servers.iter().copied().map(begin).collect();
        let finished = threads.into_iter().map(|(server, truth, thread)| {
            (
                server,
                truth,
                thread.join().expect("the thread does not panic"),
            )
        });
        finished.collect()
    })
}

#[test]
fn searches_find_the_rate_and_intervals_contain_it() {
    let servers: Vec<(Server, f64)> = SERVERS
        .into_iter()
        .filter(|(server, _)| IN_EVERY_TEST.contains(server))
        .collect();
    for (server, _, it) in for_each(&servers, |server, truth| summary(server, truth, 40)) {
        assert_eq!(it.found, 40, "{server:?}: {it:?}");
        assert!(it.bias.abs() <= 0.01, "{server:?}: {it:?}");
        assert!(it.coverage >= 0.85, "{server:?}: {it:?}");
        assert!(it.worst.abs() <= 0.08, "{server:?}: {it:?}");
    }
}

#[test]
#[ignore = "large: make statistics"]
fn truths_are_those_of_many_runs() {
    let found = for_each(&SERVERS, |server, near| truth(server, near, 10_000));
    for (server, truth, found) in found {
        let stated = found / truth - 1.0;
        assert!(stated.abs() < 0.002, "{server:?}: {found}");
    }
}

#[test]
#[ignore = "large: make statistics"]
fn table_of_searches() {
    const SEARCHES: u64 = 1_000;
    println!("{SEARCHES} searches for 2 %: error of the rate, coverage of the 95 % interval, runs");
    println!(
        "{:>10} {:>8} {:>7} {:>8} {:>7} {:>7} {:>7} {:>6} {:>6}",
        "", "truth", "bias", "coverage", "p5", "p95", "worst", "runs", "p95"
    );
    let found = for_each(&SERVERS, |server, truth| summary(server, truth, SEARCHES));
    for (server, truth, it) in &found {
        let percent = |share: f64| format!("{:+.2}%", share * 100.0);
        println!(
            "{:>10} {truth:>8.1} {:>7} {:>8.3} {:>7} {:>7} {:>7} {:>6.1} {:>6.0}",
            format!("{server:?}"),
            percent(it.bias),
            it.coverage,
            percent(it.p5),
            percent(it.p95),
            percent(it.worst),
            it.runs,
            it.runs_p95,
        );
    }
    for (server, _, it) in found {
        assert_eq!(it.found as u64, SEARCHES, "{server:?}: {it:?}");
        assert!(it.bias.abs() <= 0.01, "{server:?}: {it:?}");
        assert!(it.coverage >= 0.93, "{server:?}: {it:?}");
        // Sixteen runs may all be of the faster state, which is 5 % off.
        assert!(it.worst.abs() <= 0.08, "{server:?}: {it:?}");
    }
}
