//! Some of the requests of a run, so that a chart of them has a bounded size.
//!
//! Which ones are kept depends on the file only, so that a page is the same each time.

use std::collections::{BTreeMap, BinaryHeap};

/// Points of a chart: more of them hide each other, and make the file of a page large.
const SHOWN_MAX: usize = 5_000;
/// Of these, the slowest responses.
const SLOWEST_MAX: usize = 1_000;
/// Of these, requests without a response.
const FAILED_MAX: usize = 1_000;

/// Requests of a run, chosen so that they look like all of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestSample {
    /// How many requests there are.
    pub total: u64,
    /// Those that are shown, in the order in which they were due.
    pub requests: Vec<SampledRequest>,
}

/// A request of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SampledRequest {
    /// When it was due, seconds since the start of the window.
    pub due_s: f64,
    /// From when it was due to the end of the response; without one, until it failed or the run
    /// ended.
    pub latency_us: f64,
    /// Why there is no response: a value of the column `error`.
    pub error: Option<String>,
}

/// Chooses requests while they are read: the slowest ones, some without a response, and a random
/// choice of all.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    total: u64,
    slowest: Kept,
    failed: Kept,
    any: Kept,
}

impl Sampler {
    /// The error is made into a text only if the request is kept.
    pub(crate) fn add(&mut self, (due_s, latency_us): (f64, f64), error: Option<&str>) {
        let number = self.total;
        self.total += 1;
        let drawn = scrambled(number);
        let request = || SampledRequest {
            due_s,
            latency_us,
            error: error.map(str::to_owned),
        };
        match error {
            // Positive numbers have the order of their bits.
            None => {
                let key = u64::MAX - latency_us.max(0.0).to_bits();
                self.slowest.offer(SLOWEST_MAX, (key, number), request);
            }
            Some(_) => self.failed.offer(FAILED_MAX, (drawn, number), request),
        }
        self.any.offer(SHOWN_MAX, (drawn, number), request);
    }

    pub(crate) fn finish(self) -> RequestSample {
        let chosen = self.slowest.in_order().chain(self.failed.in_order());
        let mut kept: BTreeMap<u64, SampledRequest> = chosen.collect();
        for (number, request) in self.any.in_order() {
            if kept.len() == SHOWN_MAX {
                break;
            }
            kept.insert(number, request);
        }
        let mut requests: Vec<SampledRequest> = kept.into_values().collect();
        requests.sort_by(|a, b| a.due_s.total_cmp(&b.due_s));
        RequestSample {
            total: self.total,
            requests,
        }
    }
}

/// The requests with the smallest keys, by their numbers.
#[derive(Debug, Default)]
struct Kept(BinaryHeap<Entry>);

#[derive(Debug)]
struct Entry {
    /// The second one is the number of the request.
    key: (u64, u64),
    request: SampledRequest,
}

impl Kept {
    fn offer(&mut self, limit: usize, key: (u64, u64), request: impl Fn() -> SampledRequest) {
        if self.0.len() == limit {
            if self.0.peek().is_some_and(|largest| largest.key <= key) {
                return;
            }
            self.0.pop();
        }
        let request = request();
        self.0.push(Entry { key, request });
    }

    fn in_order(self) -> impl Iterator<Item = (u64, SampledRequest)> {
        let all = self.0.into_sorted_vec().into_iter();
        all.map(|entry| (entry.key.1, entry.request))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

/// A number that looks random: the finalizer of SplitMix64 (Steele, Lea and Flood, "Fast Splittable
/// Pseudorandom Number Generators", OOPSLA 2014).
fn scrambled(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(requests: u64, of: impl Fn(u64) -> (f64, Option<&'static str>)) -> RequestSample {
        let mut sampler = Sampler::default();
        for number in 0..requests {
            let (latency_us, error) = of(number);
            sampler.add((number as f64 / 1e3, latency_us), error);
        }
        sampler.finish()
    }

    #[test]
    fn all_requests_are_kept_if_there_are_few() {
        let sample = sampled(5_000, |number| {
            (number as f64, (number % 3 == 0).then_some("reset"))
        });
        assert_eq!(sample.total, 5_000);
        assert_eq!(sample.requests.len(), 5_000);
        assert!(sample.requests.is_sorted_by(|a, b| a.due_s < b.due_s));
    }

    #[test]
    fn of_many_requests_the_slowest_and_some_failed_ones_are_kept() {
        let sample = sampled(100_000, |number| match number {
            // The 1,000 slowest ones are the first of every hundred.
            _ if number % 100 == 0 => (1e6 + number as f64, None),
            _ if number == 55_555 => (7.0, Some("timeout")),
            _ => (number as f64 % 100.0, None),
        });
        assert_eq!((sample.total, sample.requests.len()), (100_000, 5_000));
        let count =
            |is: fn(&SampledRequest) -> bool| sample.requests.iter().filter(|it| is(it)).count();
        assert_eq!(count(|it| it.latency_us >= 1e6), 1_000);
        assert_eq!(count(|it| it.error.as_deref() == Some("timeout")), 1);
        // The others are from the whole run: each tenth of it has about the tenth part.
        for tenth in 0..10 {
            let from_s = f64::from(tenth) * 10.0;
            let requests = sample.requests.iter();
            let of_tenth = requests.filter(|it| (from_s..from_s + 10.0).contains(&it.due_s));
            let of_tenth = of_tenth.count();
            assert!((400..600).contains(&of_tenth), "{tenth}: {of_tenth}");
        }
    }

    #[test]
    fn failures_do_not_take_the_place_of_responses() {
        let sample = sampled(100_000, |number| {
            (1.0, (number % 10 > 0).then_some("refused"))
        });
        let answered = sample.requests.iter().filter(|it| it.error.is_none());
        assert!(answered.count() >= 1_000);
    }

    #[test]
    fn the_same_requests_are_chosen_each_time() {
        let of = |number: u64| (number as f64 % 997.0, None);
        assert_eq!(sampled(20_000, of), sampled(20_000, of));
        assert_eq!(sampled(0, of), RequestSample::default());
    }
}
