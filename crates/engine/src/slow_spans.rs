//! When the slowest requests were in flight.

use std::cmp::Reverse;

use results::SlowSpan;

/// The most requests that are kept of a run: 0.5 MB, and twice that in each worker.
const KEPT: usize = 20_000;

/// From when to when the slowest requests of a run were in flight, CLOCK_MONOTONIC. Requests are
/// compared by their latency, as in the breakdown of the latency.
#[derive(Debug, Clone, Default)]
pub struct SlowSpans {
    spans: Vec<SlowSpan>,
    /// Requests with a lower latency are not among the slowest.
    least_ns: u64,
}

impl SlowSpans {
    /// A request has ended.
    #[inline]
    pub fn add(&mut self, span: SlowSpan) {
        if span.latency_ns() >= self.least_ns {
            self.spans.push(span);
            if self.spans.len() >= 2 * KEPT {
                self.truncate();
            }
        }
    }

    /// Adds those of another worker or machine, on the same clock.
    pub fn merge(&mut self, other: Self) {
        for span in other.spans {
            self.add(span);
        }
    }

    /// The requests with at least this latency, at most [`KEPT`], in no order.
    #[must_use]
    pub fn slowest(mut self, from_ns: u64) -> Vec<SlowSpan> {
        self.truncate();
        self.spans.retain(|span| span.latency_ns() >= from_ns);
        self.spans
    }

    /// Drops all but the [`KEPT`] slowest requests.
    fn truncate(&mut self) {
        if self.spans.len() > KEPT {
            let latency = |span: &SlowSpan| Reverse(span.latency_ns());
            let (_, least, _) = self.spans.select_nth_unstable_by_key(KEPT - 1, latency);
            self.least_ns = least.latency_ns();
            self.spans.truncate(KEPT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_are_kept_however_many_there_are() {
        // 100,000 requests in a mixed order, each with another latency, a part of it before they
        // are sent.
        let latency = |number: u64| number * 7_919 % 100_003;
        let mut workers = [SlowSpans::default(), SlowSpans::default()];
        for number in 0..100_000 {
            let due_ns = number * 1_000;
            workers[(number % 2) as usize].add(SlowSpan {
                due_ns,
                sent_ns: due_ns + latency(number) * (number % 10) / 10,
                ended_ns: due_ns + latency(number),
            });
        }
        let mut all: Vec<u64> = (0..100_000).map(latency).collect();
        all.sort_unstable_by_key(|latency| Reverse(*latency));
        let [mut one, other] = workers;
        one.merge(other);
        for (from_ns, expected) in [(u64::MAX, 0), (all[999], 1_000), (0, KEPT)] {
            let spans = one.clone().slowest(from_ns);
            let mut latencies: Vec<u64> = spans.iter().map(SlowSpan::latency_ns).collect();
            latencies.sort_unstable_by_key(|latency| Reverse(*latency));
            assert_eq!(latencies, all[..expected], "{from_ns}");
        }
    }
}
