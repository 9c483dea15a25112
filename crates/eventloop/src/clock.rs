//! The monotonic clock of the event loops, and its offset from the wall clock.
#![allow(
    unsafe_code,
    reason = "clock_gettime has no safe form that gives a plain number"
)]

/// CLOCK_MONOTONIC in nanoseconds: never stepped, and the same for all threads and processes.
#[must_use]
pub fn monotonic_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC)
}

/// If reading both clocks took longer, the offset is discarded.
pub(crate) const OFFSET_ERROR_NS_MAX: u64 = 10_000;

/// If reading both clocks took no longer, there is no need to read them again.
const OFFSET_ERROR_NS_GOOD: u64 = 500;

/// How often to read the clocks, if the thread is interrupted between the readings.
const OFFSET_TRIES: usize = 3;

/// CLOCK_REALTIME minus CLOCK_MONOTONIC, which changes only when somebody sets the clock. `None` if
/// the thread was interrupted at each attempt to read both. `now_ns` is a reading of
/// [`monotonic_ns`] from just before the call.
pub(crate) fn realtime_offset_ns(now_ns: u64) -> Option<i64> {
    let mut best: Option<(u64, i64)> = None;
    let mut before_ns = now_ns;
    for _ in 0..OFFSET_TRIES {
        let realtime_ns = read_ns(libc::CLOCK_REALTIME);
        let after_ns = monotonic_ns();
        let error_ns = after_ns.saturating_sub(before_ns);
        let middle_ns = before_ns + error_ns / 2;
        let offset_ns = realtime_ns.wrapping_sub(middle_ns).cast_signed();
        if best.is_none_or(|(least_ns, _)| error_ns < least_ns) {
            best = Some((error_ns, offset_ns));
        }
        if error_ns <= OFFSET_ERROR_NS_GOOD {
            break;
        }
        before_ns = after_ns;
    }
    best.filter(|(error_ns, _)| *error_ns <= OFFSET_ERROR_NS_MAX)
        .map(|(_, offset_ns)| offset_ns)
}

fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec that lives through the call. Both clocks used here always
    // exist on Linux, so the call cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
