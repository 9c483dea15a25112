//! A simulated run: a server of known law, and a load generator that another program disturbs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fastrand::Rng;
use plan::{Arrivals, Pacing};
use results::{Attribution, Recording, RunResult, Standstill};

use crate::fixture;

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const WINDOW_MS: u64 = 10_000;
/// What keeps the load generator from running.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) enum Disturbance {
    #[default]
    Nothing,
    /// Another program on its core: this long every so often, at any moment.
    Hog(u64, u64),
    /// The same in the first three seconds only.
    #[allow(dead_code, reason = "only a slow beginning depends on it")]
    HogAtFirst(u64, u64),
    /// It is stopped once, from and to.
    Stop(u64, u64),
}

impl Disturbance {
    /// From when to when it does not run, nanoseconds.
    fn pauses(self, rng: &mut Rng) -> Vec<(u64, u64)> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Stop(from_ms, to_ms) => vec![(from_ms * MS, to_ms * MS)],
            Self::Hog(busy_ms, every_ms) | Self::HogAtFirst(busy_ms, every_ms) => {
                let slack_ns = (every_ms - busy_ms) * MS;
                let until_ms = match self {
                    Self::HogAtFirst(..) => 3_000,
                    _ => WINDOW_MS,
                };
                let starts = (0..until_ms / every_ms).map(|at| at * every_ms * MS);
                let pause = |start_ns: u64| {
                    let start_ns = start_ns + rng.u64(0..=slack_ns / 10);
                    (start_ns, start_ns + busy_ms * MS)
                };
                starts.map(pause).collect()
            }
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct World {
    pub(crate) connections: usize,
    pub(crate) service_ms: u64,
    /// Response times scatter by this share around `service_ms`, percent.
    pub(crate) scatter_percent: u64,
    pub(crate) rate_per_sec: Option<u64>,
    /// From when to when the server does not answer.
    pub(crate) stall_ms: Option<(u64, u64)>,
    /// For how long it is at first slower, and how many times.
    pub(crate) slow_start: Option<(u64, u64)>,
    pub(crate) disturbance: Disturbance,
}

impl World {
    /// When the server responds to a request.
    fn respond_ns(&self, sent_ns: u64, rng: &mut Rng) -> u64 {
        let slow = self
            .slow_start
            .filter(|(until_ms, _)| sent_ns < until_ms * MS);
        let service_ns = self.service_ms * MS * slow.map_or(1, |(_, times)| times);
        let scatter_ns = service_ns * self.scatter_percent / 100;
        let at_ns = sent_ns + service_ns - scatter_ns + rng.u64(0..=2 * scatter_ns);
        match self.stall_ms {
            Some((from_ms, to_ms)) if (from_ms * MS..to_ms * MS).contains(&at_ns) => {
                to_ms * MS + rng.u64(0..5 * MS)
            }
            _ => at_ns,
        }
    }

    /// The run: each connection has a request in flight, or takes the next one that is due.
    pub(crate) fn run(&self, seed: u64) -> RunResult {
        let mut rng = Rng::with_seed(seed);
        let pauses = self.disturbance.pauses(&mut rng);
        let awake_ns = |at_ns: u64| {
            let next = pauses.partition_point(|(from_ns, _)| *from_ns <= at_ns);
            let last = next.checked_sub(1).and_then(|last| pauses.get(last));
            last.map_or(at_ns, |(_, to_ns)| at_ns.max(*to_ns))
        };
        let mut result = fixture::result(fixture::recording(0));
        result.recording = Recording::new();
        result.window.duration_ns = WINDOW_MS * MS;
        result.plan.load.connections = self.connections as u32;
        let recording = &mut result.recording;
        let mut free: BinaryHeap<Reverse<u64>> =
            (0..self.connections).map(|at| Reverse(at as u64)).collect();
        let mut number = 0;
        while let Some(Reverse(free_ns)) = free.pop() {
            let due_ns = self.rate_per_sec.map_or(0, |it| number * 1_000 * MS / it);
            number += 1;
            let sent_ns = awake_ns(free_ns.max(due_ns));
            if sent_ns >= WINDOW_MS * MS {
                break;
            }
            let respond_ns = self.respond_ns(sent_ns, &mut rng);
            let read_ns = awake_ns(respond_ns);
            if self.rate_per_sec.is_none() {
                recording.attribution.idle_ns += read_ns - respond_ns;
            }
            free.push(Reverse(read_ns));
            if read_ns < WINDOW_MS * MS {
                recording.series.add(read_ns / MS, 1, 0, 0);
                recording.service_time.record(read_ns - sent_ns);
            }
        }
        let long = pauses
            .iter()
            .filter(|(from_ns, to_ns)| to_ns - from_ns >= Attribution::STANDSTILL_MIN_NS);
        let standstill = |(start_ns, end_ns): &(u64, u64)| Standstill {
            start_ns: *start_ns,
            length_ns: end_ns - start_ns,
        };
        recording.attribution.standstills = long.map(standstill).collect();
        if let Some(rate_per_sec) = self.rate_per_sec {
            result.plan.pacing = Pacing::Constant {
                rate_per_sec: rate_per_sec as f64,
                arrivals: Arrivals::Even,
                seed: 0,
            };
        }
        result
    }
}

/// Loads without a stall and a disturbance, with all of these values: in a closed loop, and at half
/// and all of the rate that the server can carry.
pub(crate) fn calm(times_ms: &[u64], scatters: &[u64], connections: &[usize]) -> Vec<World> {
    let mut worlds = Vec::new();
    for &service_ms in times_ms {
        for &scatter_percent in scatters {
            for &connections in connections {
                let per_sec = connections as u64 * 1_000 / service_ms;
                let rates = [None, Some(per_sec / 2), Some(per_sec)];
                worlds.extend(rates.map(|rate| World {
                    connections,
                    service_ms,
                    scatter_percent,
                    rate_per_sec: rate.filter(|it| *it > 0),
                    ..World::default()
                }));
            }
        }
    }
    worlds
}

/// All kinds of load, of up to 100,000 responses. With a rate, it is half of what the server can
/// do.
pub(crate) fn loads() -> Vec<World> {
    let mut worlds = Vec::new();
    for (connections, service_ms) in [(1, 2), (8, 2), (30, 5), (200, 20), (1_000, 100), (8, 30)] {
        let per_sec = connections as u64 * 1_000 / service_ms;
        for rate_per_sec in [None, Some(per_sec / 2)] {
            worlds.push(World {
                connections,
                service_ms,
                scatter_percent: 10,
                rate_per_sec,
                ..World::default()
            });
        }
    }
    worlds
}
