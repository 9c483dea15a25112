//! When the next request is due: the schedule of one worker, a share of the run's.
//!
//! Even arrivals: the run's requests are numbered from 0, request k is due when the curve of the rate
//! reaches k, and worker w of n has the requests w, w + n, w + 2n, ... So all workers together make one
//! even schedule without sharing anything. Poisson arrivals: each worker has an independent process with
//! its share of the rate; their superposition is a Poisson process with the whole rate.

mod curve;

use curve::Curve;
use plan::{Arrivals, Pacing};

/// See the module's text. Time is an argument; nothing here waits.
#[derive(Debug, Clone)]
pub(crate) struct Pacer {
    curve: Curve,
    /// CLOCK_MONOTONIC at the curve's origin.
    origin_ns: u64,
    arrivals: Arrivals,
    /// Where the next request stands on the curve, in requests of the whole run.
    position: f64,
    /// Of even arrivals: number of the next request. Counted in integers, since adding floats drifts.
    number: u64,
    workers: u64,
    random: fastrand::Rng,
    next_due_ns: u64,
}

/// So many requests that were never sent are looked at one by one; further ones in even groups.
const LEFT_ONE_BY_ONE: u64 = 100_000;
const LEFT_GROUPS: u64 = 10_000;

impl Pacer {
    /// The schedule of worker `worker` of `workers`; `None` for a closed loop. It begins at `origin_ns`
    /// and its stages at `measure_ns`, both CLOCK_MONOTONIC.
    pub(crate) fn new(
        pacing: &Pacing,
        worker: u32,
        workers: u32,
        origin_ns: u64,
        measure_ns: u64,
    ) -> Option<Self> {
        let (arrivals, seed) = match pacing {
            Pacing::Closed => return None,
            Pacing::Constant { arrivals, seed, .. } | Pacing::Stages { arrivals, seed, .. } => {
                (*arrivals, *seed)
            }
        };
        let workers = u64::from(workers.max(1));
        // A generator for each worker out of one seed: consecutive seeds would be related.
        let mut seeds = fastrand::Rng::with_seed(seed);
        let random = (0..=worker).map(|_| seeds.fork()).last()?;
        let warmup = measure_ns.saturating_sub(origin_ns) as f64 / 1e9;
        let mut pacer = Self {
            curve: Curve::new(pacing, warmup)?,
            origin_ns,
            arrivals,
            position: f64::from(worker),
            number: u64::from(worker),
            workers,
            random,
            next_due_ns: u64::MAX,
        };
        if arrivals == Arrivals::Poisson {
            pacer.position = pacer.gap();
        }
        pacer.next_due_ns = pacer.due_ns(pacer.position);
        Some(pacer)
    }

    /// When the next request is due, CLOCK_MONOTONIC; `u64::MAX` when there is none any more.
    #[inline]
    pub(crate) fn next_due_ns(&self) -> u64 {
        self.next_due_ns
    }

    /// Takes `requests` from the schedule, which go out as one batch and are all due when the first
    /// of them is.
    pub(crate) fn take(&mut self, requests: u32) {
        for _ in 0..requests {
            match self.arrivals {
                Arrivals::Even => {
                    self.number += self.workers;
                    self.position = self.number as f64;
                }
                Arrivals::Poisson => self.position += self.gap(),
            }
        }
        self.next_due_ns = self.due_ns(self.position);
    }

    /// Goes through the requests that are due before `end_ns` and were not taken: `seen` gets the
    /// moment and how many. At most `limit` of them. A server that is long gone can leave more of them
    /// than time to count: those far down the list come in groups, all at the group's middle.
    pub(crate) fn leave(&mut self, end_ns: u64, limit: u64, mut seen: impl FnMut(u64, u64)) {
        let mut left = 0;
        while self.next_due_ns < end_ns && left < limit {
            if left == LEFT_ONE_BY_ONE {
                return self.leave_groups(end_ns, limit - left, seen);
            }
            seen(self.next_due_ns, 1);
            left += 1;
            self.take(1);
        }
    }

    fn leave_groups(&mut self, end_ns: u64, limit: u64, mut seen: impl FnMut(u64, u64)) {
        let end = end_ns.saturating_sub(self.origin_ns) as f64 / 1e9;
        let mine = (self.curve.count_at(end) - self.position) / self.workers as f64;
        let mine = (mine.max(0.0).ceil() as u64).min(limit);
        for group in 0..LEFT_GROUPS {
            let (first, after) = (
                u128::from(mine) * u128::from(group) / u128::from(LEFT_GROUPS),
                u128::from(mine) * u128::from(group + 1) / u128::from(LEFT_GROUPS),
            );
            if after > first {
                let middle = f64::midpoint(first as f64, (after - 1) as f64);
                let position = middle.mul_add(self.workers as f64, self.position);
                let due_ns = self.due_ns(position).min(end_ns.saturating_sub(1));
                seen(due_ns, (after - first) as u64);
            }
        }
        self.next_due_ns = u64::MAX;
    }

    /// Exponentially distributed, in requests of the whole run: mean 1 for this worker's share.
    fn gap(&mut self) -> f64 {
        // 1 - [0, 1) is never 0.
        -(1.0 - self.random.f64()).ln() * self.workers as f64
    }

    fn due_ns(&self, position: f64) -> u64 {
        let after_ns = self.curve.when(position) * 1e9;
        if after_ns >= (u64::MAX - self.origin_ns) as f64 {
            return u64::MAX;
        }
        self.origin_ns + after_ns.round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::Stage;
    use std::time::Duration;

    fn constant(rate_per_sec: f64, arrivals: Arrivals, seed: u64) -> Pacing {
        Pacing::Constant {
            rate_per_sec,
            arrivals,
            seed,
        }
    }

    /// Moments within `[0, end_ns)` at which requests are due.
    fn dues(pacing: &Pacing, worker: u32, workers: u32, end_ns: u64) -> Vec<u64> {
        let mut pacer = Pacer::new(pacing, worker, workers, 0, 0).expect("open");
        let mut found = Vec::new();
        while pacer.next_due_ns() < end_ns {
            found.push(pacer.next_due_ns());
            pacer.take(1);
        }
        found
    }

    #[test]
    fn the_workers_together_make_one_even_schedule_to_the_nanosecond() {
        let pacing = constant(3000.0, Arrivals::Even, 1);
        let mut all: Vec<u64> = (0..7)
            .flat_map(|worker| dues(&pacing, worker, 7, 10_000_000_000))
            .collect();
        all.sort_unstable();
        assert_eq!(all.len(), 30_000);
        for (number, due_ns) in (0_u64..).zip(&all) {
            let exact = number as f64 * 1e9 / 3000.0;
            assert!((*due_ns as f64 - exact).abs() <= 1.0, "{number}: {due_ns}");
        }
    }

    #[test]
    fn rates_below_one_a_second_and_beyond_a_million_are_kept() {
        let slow = constant(10.0 / 60.0, Arrivals::Even, 1);
        assert_eq!(
            dues(&slow, 0, 1, 18_000_000_000),
            [0, 6_000_000_000, 12_000_000_000]
        );
        let fast = constant(2e6, Arrivals::Even, 1);
        assert_eq!(dues(&fast, 1, 2, 4000), [500, 1500, 2500, 3500]);
    }

    #[test]
    fn a_batch_takes_its_requests_from_the_schedule() {
        let pacing = constant(1000.0, Arrivals::Even, 1);
        let mut pacer = Pacer::new(&pacing, 0, 2, 100, 100).expect("open");
        assert_eq!(pacer.next_due_ns(), 100);
        pacer.take(3);
        assert_eq!(pacer.next_due_ns(), 6_000_100);
    }

    #[test]
    fn stages_begin_with_the_window() {
        let pacing = Pacing::Stages {
            stages: vec![Stage {
                from_per_sec: 0.0,
                to_per_sec: 100.0,
                duration: Duration::from_secs(10),
            }],
            arrivals: Arrivals::Even,
            seed: 0,
        };
        let mut pacer = Pacer::new(&pacing, 0, 1, 0, 5_000_000_000).expect("open");
        // Nothing in the warm-up, as the ramp begins at 0: request 0 is due with the window, request
        // 5 after 1 s.
        assert_eq!(pacer.next_due_ns(), 5_000_000_000);
        pacer.take(5);
        assert_eq!(pacer.next_due_ns(), 6_000_000_000);
    }

    #[test]
    fn poisson_arrivals_follow_their_seed_and_workers_differ() {
        let pacing = constant(1000.0, Arrivals::Poisson, 42);
        let second = 1_000_000_000;
        assert_eq!(dues(&pacing, 0, 2, second), dues(&pacing, 0, 2, second));
        assert_ne!(dues(&pacing, 0, 2, second), dues(&pacing, 1, 2, second));
        let other = constant(1000.0, Arrivals::Poisson, 43);
        assert_ne!(dues(&pacing, 0, 2, second), dues(&other, 0, 2, second));
    }

    /// Index of dispersion of counts: variance over mean is 1 for a Poisson process, 0 for an even
    /// one. Over 2000 windows its standard error is sqrt(2 / 2000) = 0.03.
    #[test]
    fn counts_of_the_superposed_poisson_processes_vary_as_much_as_their_mean() {
        let pacing = constant(10_000.0, Arrivals::Poisson, 7);
        let mut counts = vec![0_u64; 2000];
        for worker in 0..4 {
            for due_ns in dues(&pacing, worker, 4, 2_000_000_000 * 10) {
                counts[(due_ns / 10_000_000) as usize] += 1;
            }
        }
        let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        let variance = counts
            .iter()
            .map(|count| (*count as f64 - mean).powi(2))
            .sum::<f64>()
            / (counts.len() - 1) as f64;
        assert!((mean - 100.0).abs() < 1.0, "mean {mean}");
        assert!((variance / mean - 1.0).abs() < 0.1, "{}", variance / mean);
    }

    #[test]
    fn what_was_never_sent_is_counted_to_the_last_request() {
        let pacing = constant(1000.0, Arrivals::Even, 1);
        let mut pacer = Pacer::new(&pacing, 1, 4, 0, 0).expect("open");
        pacer.take(2);
        let mut left = Vec::new();
        pacer.leave(20_000_000, u64::MAX, |due_ns, count| {
            left.push((due_ns, count))
        });
        assert_eq!(left, [(9_000_000, 1), (13_000_000, 1), (17_000_000, 1)]);
        assert_eq!(pacer.next_due_ns(), 21_000_000);
    }

    #[test]
    fn billions_of_unsent_requests_come_in_groups_and_none_is_lost() {
        for arrivals in [Arrivals::Even, Arrivals::Poisson] {
            let pacing = constant(1e9, arrivals, 1);
            let mut pacer = Pacer::new(&pacing, 0, 1, 0, 0).expect("open");
            let (mut total, mut calls, mut last_ns) = (0_u64, 0, 0);
            pacer.leave(10_000_000_000, u64::MAX, |due_ns, count| {
                total += count;
                calls += 1;
                assert!((last_ns..10_000_000_000).contains(&due_ns));
                last_ns = due_ns;
            });
            let difference = total.abs_diff(10_000_000_000);
            let allowed = if arrivals == Arrivals::Even { 0 } else { 2000 };
            assert!(difference <= allowed, "{arrivals:?}: {total}");
            assert!(calls <= 110_000, "{calls}");
            let mut limited = Pacer::new(&pacing, 0, 1, 0, 0).expect("open");
            let mut total = 0;
            limited.leave(10_000_000_000, 250_000, |_, count| total += count);
            assert_eq!(total, 250_000);
        }
    }
}
