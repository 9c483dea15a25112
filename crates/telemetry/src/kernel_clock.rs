//! The wall clock, if the kernel says that it is synchronized: `adjtimex(2)`.
#![allow(unsafe_code, reason = "libc's call; its block says why it is sound")]

use crate::clock::monotonic_ns;

/// The state of a clock that is not synchronized (`TIME_ERROR`).
const NOT_SYNCHRONIZED: i32 = 5;

/// Bits of `timex.status`: not synchronized; times in nanoseconds.
const STATUS_UNSYNC: i32 = 0x0040;
const STATUS_NANO: i32 = 0x2000;

/// A wall clock that the kernel says is synchronized, and CLOCK_MONOTONIC at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SynchronizedClock {
    /// Nanoseconds since 1970 (UTC).
    pub unix_ns: u64,
    /// The time of CLOCK_MONOTONIC at the same moment, nanoseconds.
    pub monotonic_ns: u64,
    /// The wall clock differs from the true time by at most this, nanoseconds.
    pub bound_ns: u64,
}

/// Reads the wall clock. `None` if it is not synchronized, or if the kernel does not say, as in
/// most containers.
#[must_use]
pub fn synchronized_clock() -> Option<SynchronizedClock> {
    let before_ns = monotonic_ns()?;
    // SAFETY: a timex has integers only, for which zero is a value.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a timex that lives until the call has returned. Its modes are zero,
    // so that the kernel changes nothing.
    let state = unsafe { libc::adjtimex(&mut timex) };
    let after_ns = monotonic_ns()?;
    KernelClock {
        state,
        status: timex.status,
        seconds: timex.time.tv_sec,
        fraction: timex.time.tv_usec,
        max_error_us: timex.maxerror,
    }
    .synchronized(before_ns, after_ns)
}

/// The state of the clock as `adjtimex(2)` reports it.
#[derive(Debug, Clone, Copy)]
struct KernelClock {
    /// The return value; negative is an error.
    state: i32,
    status: i32,
    seconds: i64,
    /// Microseconds or nanoseconds, as the status says.
    fraction: i64,
    max_error_us: i64,
}

impl KernelClock {
    fn synchronized(self, before_ns: u64, after_ns: u64) -> Option<SynchronizedClock> {
        let is_synchronized = (0..NOT_SYNCHRONIZED).contains(&self.state)
            && self.status & STATUS_UNSYNC == 0
            && self.max_error_us > 0;
        let fraction_ns = match self.status & STATUS_NANO {
            0 => self.fraction.checked_mul(1_000)?,
            _ => self.fraction,
        };
        let unix_ns = self
            .seconds
            .checked_mul(1_000_000_000)?
            .checked_add(fraction_ns)?;
        let read_ns = after_ns.checked_sub(before_ns)?;
        let max_error_ns = u64::try_from(self.max_error_us).ok()?.checked_mul(1_000)?;
        let clock = SynchronizedClock {
            unix_ns: u64::try_from(unix_ns).ok()?,
            monotonic_ns: before_ns + read_ns / 2,
            bound_ns: max_error_ns.checked_add(read_ns.div_ceil(2))?,
        };
        is_synchronized.then_some(clock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: KernelClock = KernelClock {
        state: 0,
        status: STATUS_NANO | 0x0001,
        seconds: 1_800_000_000,
        fraction: 123_456_789,
        max_error_us: 1_500,
    };

    #[test]
    fn a_synchronized_clock_has_the_bound_of_the_kernel() {
        let clock = GOOD.synchronized(7_000, 7_400);
        assert_eq!(
            clock,
            Some(SynchronizedClock {
                unix_ns: 1_800_000_000_123_456_789,
                monotonic_ns: 7_200,
                bound_ns: 1_500_200,
            })
        );
        let microseconds = KernelClock {
            status: 0x0001,
            fraction: 123_456,
            ..GOOD
        };
        let unix_ns = microseconds.synchronized(1, 2).map(|clock| clock.unix_ns);
        assert_eq!(unix_ns, Some(1_800_000_000_123_456_000));
    }

    #[test]
    fn a_clock_that_is_not_synchronized_is_not_used() {
        for bad in [
            KernelClock { state: -1, ..GOOD },
            KernelClock {
                state: NOT_SYNCHRONIZED,
                ..GOOD
            },
            KernelClock {
                status: STATUS_NANO | STATUS_UNSYNC,
                ..GOOD
            },
            KernelClock {
                max_error_us: 0,
                ..GOOD
            },
            KernelClock {
                max_error_us: i64::MAX,
                ..GOOD
            },
            KernelClock {
                seconds: i64::MAX,
                ..GOOD
            },
            KernelClock {
                seconds: -1,
                ..GOOD
            },
        ] {
            assert_eq!(bad.synchronized(1, 2), None, "{bad:?}");
        }
        assert_eq!(GOOD.synchronized(2, 1), None);
    }

    #[test]
    fn the_clock_of_this_machine_can_be_asked_for() {
        if let Some(clock) = synchronized_clock() {
            assert!(clock.unix_ns > 1_700_000_000_000_000_000, "{clock:?}");
        }
    }
}
