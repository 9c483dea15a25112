//! Clocks, the tick length and the context switches of a thread, from libc.
#![allow(unsafe_code, reason = "libc's calls; each block says why it is sound")]

const NS_PER_SECOND: u64 = 1_000_000_000;
const NS_PER_MS: u64 = 1_000_000;

/// CPU time of the calling thread, nanoseconds. Exact at the time of the call, while `/proc` is
/// updated only at ticks and context switches.
pub(crate) fn thread_cpu_ns() -> Option<u64> {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The time of CLOCK_MONOTONIC, nanoseconds.
pub(crate) fn monotonic_ns() -> Option<u64> {
    read(libc::CLOCK_MONOTONIC)
}

/// Milliseconds since 1970 (UTC); informational.
pub(crate) fn unix_ms() -> Option<i64> {
    i64::try_from(read(libc::CLOCK_REALTIME)? / NS_PER_MS).ok()
}

/// The unit of the times in `/proc/stat` (USER_HZ, proc(5)), nanoseconds.
pub(crate) fn tick_ns() -> Option<u64> {
    // SAFETY: sysconf takes a number and returns one; it touches no memory of ours.
    let per_sec = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    NS_PER_SECOND.checked_div(u64::try_from(per_sec).ok()?)
}

/// How often the calling thread has given its CPU back because it had to wait for something: a
/// voluntary context switch (getrusage(2)).
pub(crate) fn thread_sleeps() -> Option<u64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the pointer is to an rusage that lives until the call has returned.
    let outcome = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    if outcome != 0 {
        return None;
    }
    // SAFETY: the call has succeeded, so it has filled in all fields.
    let usage = unsafe { usage.assume_init() };
    u64::try_from(usage.ru_nvcsw).ok()
}

fn read(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a timespec that lives until the call has returned.
    let outcome = unsafe { libc::clock_gettime(clock, &mut time) };
    if outcome != 0 {
        return None;
    }
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let nanoseconds = u64::try_from(time.tv_nsec).ok()?;
    seconds.checked_mul(NS_PER_SECOND)?.checked_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clocks_of_this_system_can_be_read_and_do_not_go_back() {
        for clock in [thread_cpu_ns, monotonic_ns] {
            let first = clock().expect("Linux has this clock");
            assert!(clock().expect("Linux has this clock") >= first);
        }
    }

    #[test]
    fn the_wall_clock_is_later_than_this_test() {
        assert!(unix_ms().is_some_and(|unix_ms| unix_ms > 1_700_000_000_000));
    }

    #[test]
    fn a_tick_is_a_hundredth_of_a_second() {
        assert_eq!(tick_ns(), Some(10_000_000));
    }
}
