//! Which requests of the schedule of a run a worker has.
//!
//! The workers of one machine take turns: worker w of n has the requests w, w + n, w + 2n, ...
//! Together they are one source of load in front of one server, so it does not matter which of them
//! sends a request.
//!
//! The agents of a fleet may be in front of servers of their own. Every n-th request of a Poisson
//! process arrives more evenly than a Poisson process (the gaps have an Erlang distribution), and
//! queues would be shorter than they are in truth. If each request is dealt out at random instead,
//! independently of the others, each part of a Poisson process is a Poisson process (Kingman,
//! "Poisson Processes", 1993, section 5.1). So requests that do not arrive evenly are dealt out to
//! the workers of a fleet by a hash of their number, which all agents compute alike.

use plan::{Arrivals, Pacing};

/// A worker's part of the schedule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    worker: u32,
    workers: u32,
    dealing: Dealing,
}

#[derive(Debug, Clone, Copy)]
enum Dealing {
    InTurn,
    /// By a hash of the seed and the number of the request.
    AtRandom {
        seed: u64,
    },
}

/// The golden ratio as a fraction of 2^64: the step of SplitMix64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Part {
    /// The part of worker `worker` of `workers` on one machine.
    pub(crate) fn of_machine(worker: u32, workers: u32) -> Self {
        Self {
            worker,
            workers: workers.max(1),
            dealing: Dealing::InTurn,
        }
    }

    /// The part of worker `worker` of the `workers` of all machines.
    pub(crate) fn of_fleet(pacing: &Pacing, worker: u32, workers: u32) -> Self {
        let dealing = match pacing {
            Pacing::Constant { arrivals, seed, .. } | Pacing::Stages { arrivals, seed, .. } => {
                match arrivals {
                    Arrivals::Even => Dealing::InTurn,
                    Arrivals::Poisson => Dealing::AtRandom { seed: *seed },
                }
            }
            // The requests of a log arrive at random as well. Their times need no seed.
            Pacing::Recorded { .. } => Dealing::AtRandom { seed: 0 },
            Pacing::Closed => Dealing::InTurn,
        };
        Self {
            dealing,
            ..Self::of_machine(worker, workers)
        }
    }

    /// Number of workers that the schedule is dealt out to, at least 1.
    pub(crate) fn workers(&self) -> u64 {
        u64::from(self.workers)
    }

    /// The first request of this part.
    pub(crate) fn first(&self) -> u64 {
        match self.dealing {
            Dealing::InTurn => u64::from(self.worker),
            Dealing::AtRandom { seed } => self.next_from(seed, 0),
        }
    }

    /// The request of this part that follows the request `number`, which is one of this part.
    #[inline]
    pub(crate) fn after(&self, number: u64) -> u64 {
        match self.dealing {
            Dealing::InTurn => number.saturating_add(self.workers()),
            Dealing::AtRandom { seed } => self.next_from(seed, number.saturating_add(1)),
        }
    }

    /// How many requests of this part are in `number..end`, where `number` is one of them. It is
    /// exact if workers take turns, and otherwise the upper limit: counting would take time in the
    /// middle of the run.
    pub(crate) fn count_max(&self, number: u64, end: u64) -> u64 {
        let left = end.saturating_sub(number);
        match self.dealing {
            Dealing::InTurn => left.div_ceil(self.workers()),
            Dealing::AtRandom { .. } => left,
        }
    }

    /// The first request from `number` on that is dealt to this worker.
    fn next_from(&self, seed: u64, number: u64) -> u64 {
        let mut numbers = number..u64::MAX;
        let dealt = numbers.find(|number| dealt_to(seed, *number, self.workers) == self.worker);
        dealt.unwrap_or(u64::MAX)
    }
}

/// The worker that a request is dealt to: a hash of seed and number, scaled to the number of
/// workers (Lemire, "Fast Random Integer Generation in an Interval", 2019).
#[inline]
fn dealt_to(seed: u64, number: u64, workers: u32) -> u32 {
    let hash = split_mix(split_mix(seed).wrapping_add(number.wrapping_mul(GOLDEN)));
    ((u128::from(hash) * u128::from(workers)) >> 64) as u32
}

/// The output function of SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
/// Generators", 2014).
#[inline]
fn split_mix(state: u64) -> u64 {
    let mixed = state.wrapping_add(GOLDEN);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn poisson(seed: u64) -> Pacing {
        Pacing::Constant {
            rate_per_sec: 1_000.0,
            arrivals: Arrivals::Poisson,
            seed,
        }
    }

    /// The requests of a part below `end`.
    fn numbers(part: Part, end: u64) -> Vec<u64> {
        let all = std::iter::successors(Some(part.first()), |number| Some(part.after(*number)));
        all.take_while(|number| *number < end).collect()
    }

    proptest! {
        #[test]
        fn agents_that_know_only_the_seed_deal_out_each_request_once(
            seed: u64,
            workers in 1_u32..40,
            end in 0_u64..2_000,
        ) {
            for pacing in [poisson(seed), Pacing::Recorded { speed: 1.0 }] {
                let parts = (0..workers).map(|worker| Part::of_fleet(&pacing, worker, workers));
                let mut dealt: Vec<u64> = parts.flat_map(|part| numbers(part, end)).collect();
                dealt.sort_unstable();
                prop_assert_eq!(dealt, (0..end).collect::<Vec<_>>());
            }
        }

        #[test]
        fn the_upper_limit_is_never_below_the_count_and_none_is_left_at_the_end(
            seed: u64,
            workers in 1_u32..40,
            end in 1_u64..500,
        ) {
            for part in [
                Part::of_machine(0, workers),
                Part::of_fleet(&poisson(seed), 0, workers),
            ] {
                let left = numbers(part, end);
                for (index, number) in left.iter().enumerate() {
                    prop_assert!(part.count_max(*number, end) >= (left.len() - index) as u64);
                }
                let after = left.last().map_or_else(|| part.first(), |last| part.after(*last));
                prop_assert_eq!(part.count_max(after, end), 0);
            }
        }
    }

    #[test]
    fn even_arrivals_are_dealt_out_in_turn_on_one_machine_and_in_a_fleet() {
        let even = Pacing::Constant {
            rate_per_sec: 1_000.0,
            arrivals: Arrivals::Even,
            seed: 7,
        };
        for part in [Part::of_fleet(&even, 2, 5), Part::of_machine(2, 5)] {
            assert_eq!(numbers(part, 20), [2, 7, 12, 17]);
        }
    }

    #[test]
    fn every_worker_gets_as_many_requests_as_the_others_except_for_chance() {
        for seed in 0..20 {
            for workers in [2, 3, 7, 64] {
                let (end, mut square) = (64_000, 0.0);
                for worker in 0..workers {
                    let part = Part::of_fleet(&poisson(seed), worker, workers);
                    let expected = end as f64 / f64::from(workers);
                    let dealt = numbers(part, end).len() as f64;
                    square += (dealt - expected).powi(2) / expected;
                }
                // Chi-squared with n - 1 degrees of freedom: mean n - 1, variance 2 (n - 1).
                let free = f64::from(workers - 1);
                let highest = 5.0_f64.mul_add((2.0 * free).sqrt(), free) + 5.0;
                assert!(square < highest, "seed {seed}, {workers} workers: {square}");
            }
        }
    }
}
