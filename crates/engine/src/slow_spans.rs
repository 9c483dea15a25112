//! When the slowest requests were in flight.

use std::cmp::Reverse;

/// The most requests that are kept of a run: 0.3 MB, and twice that in each worker.
const KEPT: usize = 20_000;

/// From when to when the slowest requests of a run were in flight: from sent to the last byte, or
/// until they were given up; CLOCK_MONOTONIC. Requests are compared by that time.
#[derive(Debug, Clone, Default)]
pub struct SlowSpans {
    spans: Vec<(u64, u64)>,
    /// Requests that took less time are not among the slowest.
    least_ns: u64,
}

impl SlowSpans {
    /// A request has ended.
    #[inline]
    pub fn add(&mut self, sent_ns: u64, ended_ns: u64) {
        if ended_ns.saturating_sub(sent_ns) >= self.least_ns {
            self.spans.push((sent_ns, ended_ns));
            if self.spans.len() >= 2 * KEPT {
                self.keep(KEPT);
            }
        }
    }

    /// Adds those of another worker or machine, on the same clock.
    pub fn merge(&mut self, other: Self) {
        for (sent_ns, ended_ns) in other.spans {
            self.add(sent_ns, ended_ns);
        }
    }

    /// The slowest of the requests, at most this many and [`KEPT`], in no order.
    #[must_use]
    pub fn slowest(mut self, most: u64) -> Vec<(u64, u64)> {
        self.keep(KEPT.min(usize::try_from(most).unwrap_or(KEPT)));
        self.spans
    }

    fn keep(&mut self, most: usize) {
        if self.spans.len() <= most {
            return;
        }
        if most > 0 {
            let length = |span: &(u64, u64)| Reverse(span.1.saturating_sub(span.0));
            let (_, least, _) = self.spans.select_nth_unstable_by_key(most - 1, length);
            self.least_ns = least.1.saturating_sub(least.0);
        }
        self.spans.truncate(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_are_kept_however_many_there_are() {
        // 100,000 requests in a mixed order, each with another length.
        let length = |number: u64| number * 7_919 % 100_003;
        let mut workers = [SlowSpans::default(), SlowSpans::default()];
        for number in 0..100_000 {
            let sent_ns = number * 1_000;
            workers[(number % 2) as usize].add(sent_ns, sent_ns + length(number));
        }
        let mut all: Vec<u64> = (0..100_000).map(length).collect();
        all.sort_unstable_by_key(|length| Reverse(*length));
        let [mut one, other] = workers;
        one.merge(other);
        for most in [0, 1, 1_000, 20_000, u64::MAX] {
            let spans = one.clone().slowest(most);
            let mut lengths: Vec<u64> = spans.iter().map(|(from, to)| to - from).collect();
            lengths.sort_unstable_by_key(|length| Reverse(*length));
            let expected = KEPT.min(usize::try_from(most).unwrap_or(KEPT));
            assert_eq!(lengths, all[..expected], "{most}");
        }
    }
}
