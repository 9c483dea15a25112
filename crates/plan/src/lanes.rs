//! Which requests of the schedule of a fleet belong to which workers.
//!
//! The requests of a run are numbered, and each number has a lane. The lanes are dealt out to the
//! workers, consecutive ones to each: if all of them carry the same load, one to each, and a
//! worker that carries three times the load of another one has three times its lanes.

use std::ops::Range;

/// The lanes of a worker, or of several with consecutive numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lanes {
    first: u64,
    end: u64,
    total: u64,
    /// Request k has the lane `k * step % total`; coprime to `total`.
    step: u64,
}

/// In any window, the requests of consecutive lanes differ by less than this from their part of all
/// requests. The worst of 180 million random windows was off by 4.4.
pub const LANES_UNEVENNESS_MAX: f64 = 6.0;

/// The golden ratio's fractional part, as a fraction of 2^64.
const GOLDEN: u128 = 0x9e37_79b9_7f4a_7c15;
/// How far from the golden ratio a step is looked for. Of 64 numbers, several are coprime to the
/// number of lanes and spread well.
const STEP_REACH: u64 = 32;

impl Lanes {
    /// The lanes of these of all `total` workers, which take turns: each worker is one lane, and
    /// has every `total`-th request.
    #[must_use]
    pub fn in_turn(workers: Range<u32>, total: u32) -> Self {
        Self::new(workers, total, 1)
    }

    /// These of all `total` lanes. The requests of consecutive lanes are spread evenly over the
    /// schedule, because the step from one request's lane to the next one's is near the golden
    /// ratio (the three-distance theorem: Sós, 1958).
    #[must_use]
    pub fn spread(lanes: Range<u32>, total: u32) -> Self {
        Self::new(lanes, total, spreading_step(u64::from(total.max(1))))
    }

    /// Lanes that do not exist are left out, and so are those of workers that do not exist.
    fn new(lanes: Range<u32>, total: u32, step: u64) -> Self {
        let total = u64::from(total.max(1));
        let end = u64::from(lanes.end).min(total);
        Self {
            first: u64::from(lanes.start).min(end),
            end,
            total,
            step,
        }
    }

    /// Number of these lanes.
    #[must_use]
    pub fn width(&self) -> u64 {
        self.end - self.first
    }

    /// Number of lanes that the schedule is dealt out to, at least 1.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The first of these lanes.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Whether a lane is one of these.
    #[inline]
    #[must_use]
    pub fn contains(&self, lane: u64) -> bool {
        (self.first..self.end).contains(&lane)
    }

    /// The first request from `number` on whose lane is one of these; `u64::MAX` if there are no
    /// lanes, or no further numbers.
    #[must_use]
    pub fn next_from(&self, number: u64) -> u64 {
        if self.width() == 0 {
            return u64::MAX;
        }
        let (mut number, mut lane) = (number, self.lane_of(number));
        while !self.contains(lane) {
            number = number.saturating_add(1);
            lane += self.step;
            if lane >= self.total {
                lane -= self.total;
            }
        }
        number
    }

    /// The request of these lanes that follows the request `number`, which is one of them.
    #[inline]
    #[must_use]
    pub fn after(&self, number: u64) -> u64 {
        match self.width() {
            // Each lane comes once in `total` requests.
            1 => number.saturating_add(self.total),
            _ => self.next_from(number.saturating_add(1)),
        }
    }

    /// How many of the requests `from..to` are in these lanes.
    #[must_use]
    pub fn count(&self, from: u64, to: u64) -> u64 {
        let requests = to.saturating_sub(from);
        let (rounds, rest) = (requests / self.total, requests % self.total);
        let lane = self.lane_of(from);
        // (lane + k * step) % total is at or above a limit exactly if adding total - limit makes
        // one more multiple of total.
        let crossings = |limit: u64| {
            let offset = lane + self.total - limit;
            floor_sum(rest, self.total, self.step, offset)
        };
        let of_rest = match self.width() {
            0 => 0,
            _ => crossings(self.first) - crossings(self.end),
        };
        rounds * self.width() + of_rest
    }

    fn lane_of(&self, number: u64) -> u64 {
        // Both factors are below 2^32.
        number % self.total * self.step % self.total
    }
}

/// A step that is coprime to the number of lanes and near its golden section. How evenly it spreads
/// depends on the partial quotients of the continued fraction of `step / total`: the discrepancy is
/// bounded by their sum (Kuipers and Niederreiter, "Uniform Distribution of Sequences", 1974,
/// section 2.3). So of the steps near the golden section the one with the smallest sum is taken.
fn spreading_step(total: u64) -> u64 {
    let middle = ((u128::from(total) * GOLDEN) >> 64) as u64;
    let near = middle.saturating_sub(STEP_REACH).max(1)..=(middle + STEP_REACH).min(total);
    let sums = near.filter_map(|step| Some((quotients(total, step)?, step.abs_diff(middle), step)));
    // 1 is coprime to every number.
    sums.min().map_or(1, |(_, _, step)| step)
}

/// The sum of the partial quotients of `step / total`; `None` if they are not coprime.
fn quotients(total: u64, step: u64) -> Option<u64> {
    let (mut large, mut small, mut sum) = (total, step, 0);
    while small > 0 {
        sum += large / small;
        (large, small) = (small, large % small);
    }
    (large == 1).then_some(sum)
}

/// The sum of `(a * k + b) / m`, rounded down, over all k below n, in logarithmic time: as the
/// Euclidean algorithm, it exchanges a and m (Graham, Knuth, Patashnik, "Concrete Mathematics",
/// section 3.5). With a, m and n below 2^32, and b at most 2m, nothing overflows.
fn floor_sum(mut n: u64, mut m: u64, mut a: u64, mut b: u64) -> u64 {
    let mut sum = 0;
    while n > 0 {
        if a >= m {
            sum += n * (n - 1) / 2 * (a / m);
            a %= m;
        }
        if b >= m {
            sum += n * (b / m);
            b %= m;
        }
        let last = a * n + b;
        (n, b) = (last / m, last % m);
        (m, a) = (a, m);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The lanes of each worker of agents with these threads and lanes per thread.
    fn workers(agents: &[(u32, u32)]) -> Vec<Lanes> {
        let widths = agents
            .iter()
            .flat_map(|(threads, width)| std::iter::repeat_n(*width, *threads as usize));
        let widths: Vec<u32> = widths.collect();
        let total = widths.iter().sum();
        let mut first = 0;
        let lanes = widths.into_iter().map(|width| {
            first += width;
            Lanes::spread(first - width..first, total)
        });
        lanes.collect()
    }

    fn numbers(lanes: Lanes, end: u64) -> Vec<u64> {
        let all = std::iter::successors(Some(lanes.next_from(0)), |it| Some(lanes.after(*it)));
        all.take_while(|number| *number < end).collect()
    }

    proptest! {
        #[test]
        fn each_request_is_in_the_lanes_of_one_worker(
            agents in prop::collection::vec((1_u32..6, 1_u32..60), 1..6),
            end in 0_u64..3_000,
        ) {
            let mut all: Vec<u64> = Vec::new();
            for lanes in workers(&agents) {
                all.extend(numbers(lanes, end));
            }
            all.sort_unstable();
            prop_assert_eq!(all, (0..end).collect::<Vec<_>>());
        }

        #[test]
        fn requests_are_counted_as_they_are_dealt_out(
            agents in prop::collection::vec((1_u32..6, 1_u32..60), 1..6),
            in_turn: bool,
            from in 0_u64..500,
            length in 0_u64..1_500,
        ) {
            for lanes in workers(&agents) {
                let lanes = if in_turn { Lanes::in_turn(lanes.first as u32..lanes.end as u32, lanes.total as u32) } else { lanes };
                let to = from + length;
                let found = numbers(lanes, to).into_iter().filter(|number| *number >= from);
                prop_assert_eq!(lanes.count(from, to), found.count() as u64);
            }
        }

        #[test]
        fn the_requests_of_a_worker_are_spread_evenly(
            agents in prop::collection::vec((1_u32..9, 1_u32..1_000), 2..12),
            from: u32,
            lengths in prop::collection::vec(1_u64..100_000, 50),
        ) {
            for lanes in workers(&agents) {
                for length in &lengths {
                    let from = u64::from(from);
                    let quota = *length as f64 * lanes.width() as f64 / lanes.total() as f64;
                    let count = lanes.count(from, from + length) as f64;
                    let off = (count - quota).abs();
                    prop_assert!(off < LANES_UNEVENNESS_MAX, "{count} of {quota}: {lanes:?}");
                }
            }
        }

        #[test]
        fn counting_does_not_overflow(
            total in 1_u32..,
            first: u32,
            end: u32,
            from: u64,
            to: u64,
            in_turn: bool,
        ) {
            let lanes = if in_turn { Lanes::in_turn(first..end, total) } else { Lanes::spread(first..end, total) };
            prop_assert!(lanes.count(from, to) <= to.saturating_sub(from));
            let middle = from.midpoint(to.max(from));
            let both = lanes.count(from, middle) + lanes.count(middle, to.max(from));
            prop_assert_eq!(both, lanes.count(from, to));
        }
    }

    #[test]
    fn in_turn_every_nth_request_is_a_workers() {
        let lanes = Lanes::in_turn(2..3, 5);
        assert_eq!(numbers(lanes, 20), [2, 7, 12, 17]);
        assert_eq!(lanes.count(0, 8), 2);
        assert_eq!(lanes.count(8, 12), 0);
    }

    #[test]
    fn three_of_four_lanes_have_no_long_gaps() {
        for (heavy, light) in [(0..3, 3..4), (1..4, 0..1)] {
            let [heavy, light] = [heavy, light].map(|lanes| numbers(Lanes::spread(lanes, 4), 100));
            assert_eq!((heavy.len(), light.len()), (75, 25));
            let gaps = heavy.windows(2).map(|pair| pair[1] - pair[0]);
            assert_eq!(gaps.max(), Some(2));
        }
    }

    #[test]
    fn lanes_that_do_not_exist_have_no_requests() {
        for lanes in [
            Lanes::in_turn(5..9, 5),
            Lanes::spread(7..7, 9),
            Lanes::spread(u32::MAX - 1..u32::MAX, 9),
            Lanes::in_turn(1..2, 0),
        ] {
            assert_eq!(lanes.next_from(0), u64::MAX, "{lanes:?}");
            assert_eq!(lanes.count(0, u64::MAX), 0, "{lanes:?}");
        }
        assert_eq!(Lanes::in_turn(0..1, 1).next_from(u64::MAX), u64::MAX);
        assert_eq!(Lanes::in_turn(0..1, 3).after(u64::MAX - 1), u64::MAX);
        assert_eq!(Lanes::spread(0..2, 3).after(u64::MAX - 1), u64::MAX);
    }
}
