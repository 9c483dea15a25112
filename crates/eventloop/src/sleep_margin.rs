//! How early a wait must stop sleeping to be on time.

/// Learns how late the kernel wakes the thread. A wait ends its sleep earlier by that margin and
/// polls for the rest of the time.
///
/// Polling for no longer than the usual wake-up delay costs next to nothing, because the thread
/// would have slept past its deadline otherwise. The margin therefore follows a common delay, not a
/// rare one: the third quartile, tracked by stochastic approximation (Robbins and Monro, "A
/// stochastic approximation method", 1951) with steps in proportion to the estimate.
#[derive(Debug)]
pub(crate) struct SleepMargin {
    lateness_ns: u64,
    max_ns: u64,
}

/// One step is the estimate divided by this. The estimate falls by one step after an earlier
/// wake-up, and rises by [`RISES_PER_FALL`] steps after a later one.
const FALL_DIVISOR: u64 = 64;

/// The ratio of 3 to 1 settles where three of four wake-ups are earlier.
const RISES_PER_FALL: u64 = 3;

/// A wait that is shorter than the estimate never sleeps, so it says nothing about wake-ups. The
/// estimate still falls, by the usual step divided by this: otherwise an estimate that is too high
/// for all waits would never be tested again.
const UNTESTED_DIVISOR: u64 = 16;

/// The smallest step. It lets an estimate of zero grow.
const STEP_NS_MIN: u64 = 16;

impl SleepMargin {
    /// The margin never exceeds `max_ns`. With 0, waits sleep until their deadline.
    pub(crate) const fn new(max_ns: u64) -> Self {
        Self {
            lateness_ns: max_ns,
            max_ns,
        }
    }

    /// When to stop sleeping in order to be awake at `until_ns`.
    pub(crate) const fn sleep_until_ns(&self, until_ns: u64) -> u64 {
        until_ns.saturating_sub(self.lateness_ns)
    }

    /// How late the kernel usually wakes the thread.
    pub(crate) const fn lateness_ns(&self) -> u64 {
        self.lateness_ns
    }

    fn step_ns(&self) -> u64 {
        (self.lateness_ns / FALL_DIVISOR).max(STEP_NS_MIN)
    }

    /// Records a wait that was too short to sleep.
    pub(crate) fn note_no_sleep(&mut self) {
        let step_ns = self.step_ns() / UNTESTED_DIVISOR;
        self.lateness_ns = self.lateness_ns.saturating_sub(step_ns);
    }

    /// Learns from a sleep that was ended by its timer.
    pub(crate) fn note_wakeup(&mut self, sleep_until_ns: u64, woke_ns: u64) {
        let step_ns = self.step_ns();
        let was_later = woke_ns.saturating_sub(sleep_until_ns) > self.lateness_ns;
        self.lateness_ns = if was_later {
            self.lateness_ns + RISES_PER_FALL * step_ns
        } else {
            self.lateness_ns.saturating_sub(step_ns)
        }
        .min(self.max_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Simulates sleeps that wake late by `lateness_ns(number)`.
    fn margin_after(max_ns: u64, sleeps: u64, lateness_ns: impl Fn(u64) -> u64) -> SleepMargin {
        let mut margin = SleepMargin::new(max_ns);
        for number in 0..sleeps {
            let sleep_until_ns = margin.sleep_until_ns(SECOND_NS);
            margin.note_wakeup(sleep_until_ns, sleep_until_ns + lateness_ns(number));
        }
        margin
    }

    #[test]
    fn it_settles_a_little_above_a_steady_lateness() {
        let margin = margin_after(1_000_000, 2_000, |_| 20_000);
        assert!(
            (19_000..=22_000).contains(&margin.lateness_ns),
            "{margin:?}"
        );
    }

    #[test]
    fn it_settles_where_three_of_four_wake_ups_are_earlier() {
        // Evenly spread from 0 to 99 us, in an order without runs (37 and 100 have no common
        // factor).
        let margin = margin_after(1_000_000, 20_000, |number| number * 37 % 100 * 1_000);
        assert!(
            (60_000..=90_000).contains(&margin.lateness_ns),
            "{margin:?}"
        );
    }

    #[test]
    fn rare_stalls_do_not_make_it_poll_longer() {
        let stall = |number: u64| match number % 100 {
            0 => 5_000_000,
            _ => 20_000,
        };
        let margin = margin_after(1_000_000, 10_000, stall);
        assert!(
            (19_000..=24_000).contains(&margin.lateness_ns),
            "{margin:?}"
        );
    }

    #[test]
    fn it_never_polls_longer_than_allowed() {
        for max_ns in [0, 1, 50_000] {
            let margin = margin_after(max_ns, 1_000, |_| SECOND_NS);
            assert_eq!(margin.sleep_until_ns(SECOND_NS), SECOND_NS - max_ns);
        }
    }

    #[test]
    fn an_estimate_longer_than_the_waits_is_tested_again() {
        let mut margin = SleepMargin::new(200_000);
        let wait_ns = 50_000;
        for _ in 0..5_000 {
            let sleep_until_ns = margin.sleep_until_ns(SECOND_NS);
            if sleep_until_ns > SECOND_NS - wait_ns {
                margin.note_wakeup(sleep_until_ns, sleep_until_ns + 20_000)
            } else {
                margin.note_no_sleep()
            }
        }
        assert!(
            (19_000..=22_000).contains(&margin.lateness_ns),
            "{margin:?}"
        );
    }

    #[test]
    fn it_follows_when_the_machine_gets_slower() {
        let margin = margin_after(1_000_000, 3_000, |number| match number {
            0..2_000 => 0,
            _ => 20_000,
        });
        assert!(
            (19_000..=22_000).contains(&margin.lateness_ns),
            "{margin:?}"
        );
    }

    #[test]
    fn a_deadline_before_the_clocks_start_is_no_error() {
        assert_eq!(SleepMargin::new(50_000).sleep_until_ns(7), 0);
    }
}
