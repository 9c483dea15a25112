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
//! the workers of a fleet by a hash of their number, which all agents compute alike. A random share
//! p of gamma arrivals with shape K is nearer to a Poisson process than all of them: the squared
//! variation of its gaps is `1 + p (1/K - 1)`.
//!
//! What is dealt out are lanes ([`Lanes`]): one for each worker, or several for those of agents
//! with a larger weight.

use plan::{Lanes, Pacing};

/// Which requests of the schedule one worker has. Requests are numbered from 0; each number is that
/// of one worker, and every worker can compute whose it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestNumbers {
    lanes: Lanes,
    dealing: Dealing,
}

/// How requests get their lanes.
#[derive(Debug, Clone, Copy)]
enum Dealing {
    /// By the number of the request.
    InTurn,
    /// By a hash of the seed and the number of the request.
    AtRandom { seed: u64 },
}

/// The golden ratio as a fraction of 2^64: the step of SplitMix64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl RequestNumbers {
    /// The requests of the worker with these lanes, if all workers are on one machine.
    pub(crate) fn of_machine(lanes: Lanes) -> Self {
        Self {
            lanes,
            dealing: Dealing::InTurn,
        }
    }

    /// The requests of the worker with these lanes of those of all machines.
    pub(crate) fn of_fleet(pacing: &Pacing, lanes: Lanes) -> Self {
        let dealing = match pacing {
            Pacing::Constant { arrivals, seed, .. } | Pacing::Stages { arrivals, seed, .. } => {
                if !arrivals.is_random() {
                    Dealing::InTurn
                } else {
                    Dealing::AtRandom { seed: *seed }
                }
            }
            // The requests of a log arrive at random as well. Their times need no seed.
            Pacing::Recorded { .. } => Dealing::AtRandom { seed: 0 },
            Pacing::Closed | Pacing::Users => Dealing::InTurn,
        };
        Self { lanes, dealing }
    }

    /// Mean number of requests of the whole schedule for each of this worker.
    pub(crate) fn spacing(&self) -> f64 {
        self.lanes.total() as f64 / self.lanes.width() as f64
    }

    /// The first request of this worker.
    pub(crate) fn first(&self) -> u64 {
        self.next_from(0)
    }

    /// The request of this worker that follows the request `number`, which is one of this worker.
    #[inline]
    pub(crate) fn after(&self, number: u64) -> u64 {
        match self.dealing {
            Dealing::InTurn => self.lanes.after(number),
            Dealing::AtRandom { .. } => self.next_from(number.saturating_add(1)),
        }
    }

    /// How many requests of this worker are in `number..end`, where `number` is one of them. It is
    /// exact if workers take turns, and otherwise the upper limit: counting would take time in the
    /// middle of the run.
    pub(crate) fn count_max(&self, number: u64, end: u64) -> u64 {
        let left = end.saturating_sub(number);
        match self.dealing {
            Dealing::InTurn if self.lanes.width() == 1 => left.div_ceil(self.lanes.total()),
            Dealing::InTurn => self.lanes.count(number, end),
            Dealing::AtRandom { .. } => left,
        }
    }

    /// The first request from `number` on that is dealt to this worker.
    pub(crate) fn next_from(&self, number: u64) -> u64 {
        let Dealing::AtRandom { seed } = self.dealing else {
            return self.lanes.next_from(number);
        };
        if self.lanes.width() == 0 {
            return u64::MAX;
        }
        let total = self.lanes.total();
        let mut numbers = number..u64::MAX;
        let dealt = numbers.find(|number| self.lanes.contains(dealt_to(seed, *number, total)));
        dealt.unwrap_or(u64::MAX)
    }
}

/// The lane that a request is dealt to: a hash of seed and number, scaled to the number of lanes
/// (Lemire, "Fast Random Integer Generation in an Interval", 2019).
#[inline]
fn dealt_to(seed: u64, number: u64, lanes: u64) -> u64 {
    let hash = split_mix(split_mix(seed).wrapping_add(number.wrapping_mul(GOLDEN)));
    ((u128::from(hash) * u128::from(lanes)) >> 64) as u64
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
    use plan::Arrivals;
    use proptest::prelude::*;

    fn poisson(seed: u64) -> Pacing {
        Pacing::Constant {
            rate_per_sec: 1_000.0,
            arrivals: Arrivals::Poisson,
            seed,
        }
    }

    fn even() -> Pacing {
        Pacing::Constant {
            rate_per_sec: 1_000.0,
            arrivals: Arrivals::Even,
            seed: 7,
        }
    }

    /// The requests of workers with these numbers of lanes.
    fn weighted(pacing: &Pacing, widths: &[u32]) -> Vec<RequestNumbers> {
        let (total, mut end) = (widths.iter().sum(), 0);
        let of_workers = widths.iter().map(|width| {
            end += width;
            RequestNumbers::of_fleet(pacing, Lanes::spread(end - width..end, total))
        });
        of_workers.collect()
    }

    /// The requests of a worker of a fleet whose workers all carry the same load.
    fn of_fleet(pacing: &Pacing, worker: u32, workers: u32) -> RequestNumbers {
        RequestNumbers::of_fleet(pacing, Lanes::in_turn(worker..worker + 1, workers))
    }

    /// The numbers below `end`.
    fn numbers_below(numbers: RequestNumbers, end: u64) -> Vec<u64> {
        let all =
            std::iter::successors(Some(numbers.first()), |number| Some(numbers.after(*number)));
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
                let of_workers = (0..workers).map(|worker| of_fleet(&pacing, worker, workers));
                let dealt = of_workers.flat_map(|numbers| numbers_below(numbers, end));
                let mut dealt: Vec<u64> = dealt.collect();
                dealt.sort_unstable();
                prop_assert_eq!(dealt, (0..end).collect::<Vec<_>>());
            }
        }

        #[test]
        fn agents_with_weights_deal_out_each_request_once(
            seed: u64,
            widths in prop::collection::vec(1_u32..30, 1..20),
            end in 0_u64..2_000,
        ) {
            for pacing in [even(), poisson(seed)] {
                let of_workers = weighted(&pacing, &widths).into_iter();
                let dealt = of_workers.flat_map(|numbers| numbers_below(numbers, end));
                let mut dealt: Vec<u64> = dealt.collect();
                dealt.sort_unstable();
                prop_assert_eq!(dealt, (0..end).collect::<Vec<_>>());
            }
        }

        #[test]
        fn what_is_left_of_even_arrivals_is_exact_with_weights(
            widths in prop::collection::vec(1_u32..30, 1..20),
            end in 1_u64..500,
        ) {
            for numbers in weighted(&even(), &widths) {
                let left = numbers_below(numbers, end);
                for (index, number) in left.iter().enumerate() {
                    prop_assert_eq!(numbers.count_max(*number, end), (left.len() - index) as u64);
                }
                let last = left.last();
                let after = last.map_or_else(|| numbers.first(), |last| numbers.after(*last));
                prop_assert_eq!(numbers.count_max(after, end), 0);
            }
        }

        #[test]
        fn the_upper_limit_is_never_below_the_count_and_none_is_left_at_the_end(
            seed: u64,
            workers in 1_u32..40,
            end in 1_u64..500,
        ) {
            for numbers in [
                RequestNumbers::of_machine(Lanes::in_turn(0..1, workers)),
                of_fleet(&poisson(seed), 0, workers),
            ] {
                let left = numbers_below(numbers, end);
                for (index, number) in left.iter().enumerate() {
                    prop_assert!(numbers.count_max(*number, end) >= (left.len() - index) as u64);
                }
                let last = left.last();
                let after = last.map_or_else(|| numbers.first(), |last| numbers.after(*last));
                prop_assert_eq!(numbers.count_max(after, end), 0);
            }
        }
    }

    #[test]
    fn even_arrivals_are_dealt_out_in_turn_on_one_machine_and_in_a_fleet() {
        for numbers in [
            of_fleet(&even(), 2, 5),
            RequestNumbers::of_machine(Lanes::in_turn(2..3, 5)),
        ] {
            assert_eq!(numbers_below(numbers, 20), [2, 7, 12, 17]);
        }
    }

    /// Chi-squared of the numbers of requests that these workers have.
    fn chi_squared(of_workers: &[RequestNumbers]) -> f64 {
        let end = 64_000;
        let squares = of_workers.iter().map(|numbers| {
            let expected = end as f64 / numbers.spacing();
            let dealt = numbers_below(*numbers, end).len() as f64;
            (dealt - expected).powi(2) / expected
        });
        squares.sum()
    }

    /// With n - 1 degrees of freedom: mean n - 1, variance 2 (n - 1).
    fn highest_chi_squared(workers: usize) -> f64 {
        let free = (workers - 1) as f64;
        5.0_f64.mul_add((2.0 * free).sqrt(), free) + 5.0
    }

    #[test]
    fn every_worker_gets_as_many_requests_as_the_others_except_for_chance() {
        for seed in 0..20 {
            for workers in [2, 3, 7, 64] {
                let of_workers =
                    (0..workers).map(|worker| of_fleet(&poisson(seed), worker, workers));
                let of_workers: Vec<RequestNumbers> = of_workers.collect();
                let square = chi_squared(&of_workers);
                let highest = highest_chi_squared(of_workers.len());
                assert!(square < highest, "seed {seed}, {workers} workers: {square}");
            }
        }
    }

    #[test]
    fn every_worker_gets_requests_in_proportion_to_its_lanes_except_for_chance() {
        for seed in 0..20 {
            for widths in [&[1, 3][..], &[3, 3, 1, 8], &[1, 100, 40, 40, 40]] {
                let of_workers = weighted(&poisson(seed), widths);
                let square = chi_squared(&of_workers);
                let highest = highest_chi_squared(of_workers.len());
                assert!(square < highest, "seed {seed}, lanes {widths:?}: {square}");
            }
        }
    }
}
