//! How early a wait must stop sleeping to be on time.

/// Learns how late the kernel wakes the thread, and aims so much before the deadline; the rest of the
/// time is polled.
///
/// Polling for no longer than a wake-up is late costs next to nothing: the thread would have slept
/// past its deadline otherwise. What is learnt is therefore a common lateness, not a rare one: the third
/// quartile, followed by stochastic approximation (Robbins and Monro, "A stochastic approximation
/// method", 1951) with steps in proportion to the estimate.
#[derive(Debug)]
pub(crate) struct Aim {
    lateness_ns: u64,
    max_ns: u64,
}

/// The estimate falls by one part in so many when a wake-up was earlier, and rises by
/// [`RISES_PER_FALL`] of them when it was later.
const FALL_DIVISOR: u64 = 64;

/// 3 to 1 settles where three of four wake-ups are earlier.
const RISES_PER_FALL: u64 = 3;

/// A wait that was polled from its beginning, since it was shorter than the estimate, tells nothing.
/// The estimate falls then too, though by one part of this many of the usual step: otherwise one
/// that is too high for the waits that come would never be tested again.
const UNTESTED_DIVISOR: u64 = 16;

/// The smallest step, so that an estimate of zero can grow.
const STEP_NS_MIN: u64 = 16;

impl Aim {
    /// Never polls longer than `max_ns`; 0 switches aiming off.
    pub(crate) const fn new(max_ns: u64) -> Self {
        Self {
            lateness_ns: max_ns,
            max_ns,
        }
    }

    /// Until when to sleep to be there at `until_ns`.
    pub(crate) const fn sleep_until_ns(&self, until_ns: u64) -> u64 {
        until_ns.saturating_sub(self.lateness_ns)
    }

    fn step_ns(&self) -> u64 {
        (self.lateness_ns / FALL_DIVISOR).max(STEP_NS_MIN)
    }

    /// A wait was too short to sleep at all.
    pub(crate) fn note_no_sleep(&mut self) {
        let step_ns = self.step_ns() / UNTESTED_DIVISOR;
        self.lateness_ns = self.lateness_ns.saturating_sub(step_ns);
    }

    /// Learns from a sleep that ended by time.
    pub(crate) fn note(&mut self, sleep_until_ns: u64, woke_ns: u64) {
        let step_ns = self.step_ns();
        let was_later = woke_ns.saturating_sub(sleep_until_ns) > self.lateness_ns;
        self.lateness_ns = match was_later {
            true => self.lateness_ns + RISES_PER_FALL * step_ns,
            false => self.lateness_ns.saturating_sub(step_ns),
        }
        .min(self.max_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Sleeps that wake as late as the function of their number says.
    fn taught(max_ns: u64, sleeps: u64, lateness_ns: impl Fn(u64) -> u64) -> Aim {
        let mut aim = Aim::new(max_ns);
        for number in 0..sleeps {
            let sleep_until_ns = aim.sleep_until_ns(SECOND_NS);
            aim.note(sleep_until_ns, sleep_until_ns + lateness_ns(number));
        }
        aim
    }

    #[test]
    fn it_settles_a_little_above_a_steady_lateness() {
        let aim = taught(1_000_000, 2_000, |_| 20_000);
        assert!((19_000..=22_000).contains(&aim.lateness_ns), "{aim:?}");
    }

    #[test]
    fn it_settles_where_three_of_four_wake_ups_are_earlier() {
        // Evenly spread from 0 to 99 us, in an order without runs (37 and 100 have no common factor).
        let aim = taught(1_000_000, 20_000, |number| number * 37 % 100 * 1_000);
        assert!((60_000..=90_000).contains(&aim.lateness_ns), "{aim:?}");
    }

    #[test]
    fn rare_stalls_do_not_make_it_poll_longer() {
        let stall = |number: u64| match number % 100 {
            0 => 5_000_000,
            _ => 20_000,
        };
        let aim = taught(1_000_000, 10_000, stall);
        assert!((19_000..=24_000).contains(&aim.lateness_ns), "{aim:?}");
    }

    #[test]
    fn it_never_polls_longer_than_allowed() {
        for max_ns in [0, 1, 50_000] {
            let aim = taught(max_ns, 1_000, |_| SECOND_NS);
            assert_eq!(aim.sleep_until_ns(SECOND_NS), SECOND_NS - max_ns);
        }
    }

    #[test]
    fn an_estimate_longer_than_the_waits_is_tested_again() {
        let mut aim = Aim::new(200_000);
        let wait_ns = 50_000;
        for _ in 0..5_000 {
            let sleep_until_ns = aim.sleep_until_ns(SECOND_NS);
            match sleep_until_ns > SECOND_NS - wait_ns {
                true => aim.note(sleep_until_ns, sleep_until_ns + 20_000),
                false => aim.note_no_sleep(),
            }
        }
        assert!((19_000..=22_000).contains(&aim.lateness_ns), "{aim:?}");
    }

    #[test]
    fn it_follows_when_the_machine_gets_slower() {
        let aim = taught(1_000_000, 3_000, |number| match number {
            0..2_000 => 0,
            _ => 20_000,
        });
        assert!((19_000..=22_000).contains(&aim.lateness_ns), "{aim:?}");
    }

    #[test]
    fn a_deadline_before_the_clocks_start_is_no_error() {
        assert_eq!(Aim::new(50_000).sleep_until_ns(7), 0);
    }
}
