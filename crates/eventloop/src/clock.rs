//! The clock of the seam.
#![allow(
    unsafe_code,
    reason = "clock_gettime has no safe form that gives a plain number"
)]

/// Nanoseconds of CLOCK_MONOTONIC: never stepped, the same for all threads and processes.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec that lives through the call; CLOCK_MONOTONIC always exists
    // on Linux, so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
