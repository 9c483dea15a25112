//! When responses are due: stalls and the single-server queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A period in which all requests wait for its end. Times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// Start of the period, from the first request.
    pub at_ns: u64,
    /// Length of the period.
    pub for_ns: u64,
}

/// A period from the first request on in which delays are longer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlowStart {
    /// Length of the period, nanoseconds.
    pub for_ns: u64,
    /// How many times as long a delay is that begins in it, at least 1.
    pub factor: f64,
}

/// Determines when responses are due. All workers of a server share the time of the first request.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    stall: Option<Stall>,
    slow_start: Option<SlowStart>,
    /// Zero before the first request.
    first_request_ns: Arc<AtomicU64>,
    /// Serve one request at a time, in order of arrival.
    has_queue: bool,
    server_free_ns: u64,
}

impl Schedule {
    pub(crate) fn new(
        stall: Option<Stall>,
        slow_start: Option<SlowStart>,
        has_queue: bool,
        first_request_ns: Arc<AtomicU64>,
    ) -> Self {
        Self {
            stall,
            slow_start,
            first_request_ns,
            has_queue,
            server_free_ns: 0,
        }
    }

    /// Whether requests without delay are always due when they arrive.
    pub(crate) fn is_trivial(&self) -> bool {
        self.stall.is_none() && !self.has_queue
    }

    /// When a response is due.
    pub(crate) fn due_ns(&mut self, arrival_ns: u64, delay_ns: u64) -> u64 {
        let mut start_ns = self.released_ns(arrival_ns);
        if self.has_queue {
            start_ns = start_ns.max(self.server_free_ns);
        }
        let due_ns = start_ns.saturating_add(self.stretched_ns(start_ns, delay_ns));
        if self.has_queue {
            self.server_free_ns = due_ns;
        }
        due_ns
    }

    fn released_ns(&self, arrival_ns: u64) -> u64 {
        let Some(stall) = self.stall else {
            return arrival_ns;
        };
        let first = self.first_ns(arrival_ns);
        let from_first = arrival_ns.saturating_sub(first);
        let end = stall.at_ns.saturating_add(stall.for_ns);
        if (stall.at_ns..end).contains(&from_first) {
            first.saturating_add(end)
        } else {
            arrival_ns
        }
    }

    /// A delay that begins at this time.
    fn stretched_ns(&self, start_ns: u64, delay_ns: u64) -> u64 {
        match self.slow_start {
            Some(slow) if start_ns.saturating_sub(self.first_ns(start_ns)) < slow.for_ns => {
                (delay_ns as f64 * slow.factor) as u64
            }
            _ => delay_ns,
        }
    }

    /// When the first request arrived, which is this one if there was none.
    fn first_ns(&self, arrival_ns: u64) -> u64 {
        match self.first_request_ns.compare_exchange(
            0,
            arrival_ns,
            Ordering::Relaxed,
            Ordering::Relaxed,
        ) {
            Ok(_) => arrival_ns,
            Err(first) => first,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(stall: Option<Stall>, has_queue: bool) -> Schedule {
        Schedule::new(stall, None, has_queue, Arc::default())
    }

    #[test]
    fn without_anything_a_request_is_due_after_its_delay() {
        let mut plain = schedule(None, false);
        assert!(plain.is_trivial());
        assert_eq!(plain.due_ns(100, 0), 100);
        assert_eq!(plain.due_ns(100, 7), 107);
    }

    #[test]
    fn what_arrives_in_a_stall_waits_until_its_end() {
        let mut stalled = schedule(
            Some(Stall {
                at_ns: 30,
                for_ns: 20,
            }),
            false,
        );
        let due = [1000, 1029, 1030, 1049, 1050].map(|arrival| stalled.due_ns(arrival, 1));
        assert_eq!(due, [1001, 1030, 1051, 1051, 1051]);
    }

    #[test]
    fn a_slow_start_stretches_the_delays_that_begin_in_it() {
        let slow = Some(SlowStart {
            for_ns: 30,
            factor: 3.0,
        });
        let mut plain = Schedule::new(None, slow, false, Arc::default());
        let due = [1000, 1029, 1030].map(|arrival| plain.due_ns(arrival, 10));
        assert_eq!(due, [1030, 1059, 1040]);
        // In a queue it is the service that begins in it.
        let mut queue = Schedule::new(None, slow, true, Arc::default());
        let due = [1000, 1001, 1002].map(|arrival| queue.due_ns(arrival, 10));
        assert_eq!(due, [1030, 1040, 1050]);
        // No request without a delay waits.
        assert_eq!(plain.due_ns(1005, 0), 1005);
    }

    #[test]
    fn workers_agree_on_the_first_request() {
        let mut one = schedule(
            Some(Stall {
                at_ns: 30,
                for_ns: 20,
            }),
            false,
        );
        let mut other = one.clone();
        assert_eq!(one.due_ns(1000, 0), 1000);
        assert_eq!(other.due_ns(1035, 0), 1050);
    }

    #[test]
    fn the_queue_serves_one_after_the_other() {
        let mut queue = schedule(None, true);
        let due = [(100, 10), (101, 10), (102, 5), (200, 5)];
        assert_eq!(
            due.map(|(at, delay)| queue.due_ns(at, delay)),
            [110, 120, 125, 205]
        );
    }

    /// Sojourn times of M/M/1 are exponential with rate mu - lambda (Kleinrock, "Queueing
    /// Systems", volume 1, section 5.12): at 1000/s and 700/s the median is ln(2)/300 s.
    #[test]
    fn exponential_arrivals_and_services_make_an_m_m_1_queue() {
        let mut queue = schedule(None, true);
        let mut random = fastrand::Rng::with_seed(11);
        let arrivals = crate::Delay::Exponential {
            mean_ns: 1_000_000_000 / 700,
        };
        let services = crate::Delay::Exponential { mean_ns: 1_000_000 };
        let mut now_ns = 0;
        let mut sojourns_ns: Vec<u64> = (0..400_000)
            .map(|_| {
                now_ns += arrivals.sample_ns(&mut random);
                queue.due_ns(now_ns, services.sample_ns(&mut random)) - now_ns
            })
            .collect();
        sojourns_ns.sort_unstable();
        let median_ms = sojourns_ns[sojourns_ns.len() / 2] as f64 / 1e6;
        let expected_ms = 2_f64.ln() / 300.0 * 1e3;
        assert!(
            (median_ms / expected_ms - 1.0).abs() < 0.05,
            "{median_ms} ms"
        );
    }

    #[test]
    fn huge_times_do_not_overflow() {
        let mut queue = schedule(
            Some(Stall {
                at_ns: 0,
                for_ns: u64::MAX,
            }),
            true,
        );
        assert_eq!(queue.due_ns(u64::MAX - 1, u64::MAX), u64::MAX);
    }
}
