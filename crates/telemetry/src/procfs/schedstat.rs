//! `/proc/<pid>/schedstat` (Documentation/scheduler/sched-stats.rst in the kernel's sources).

/// How long and how often a task was on a CPU, and waited for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waits {
    /// Time on a CPU, nanoseconds. That of a task on a CPU is as of the last tick.
    pub(crate) cpu_ns: u64,
    /// Time spent runnable but waiting for a CPU, nanoseconds.
    pub(crate) run_queue_wait_ns: u64,
    /// How often it was put on a CPU.
    pub(crate) timeslices: u64,
}

/// Also `None` for three zeros, which a kernel without these statistics shows: the reading task has
/// been on a CPU at least once.
pub(crate) fn parse(text: &str) -> Option<Waits> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    let cpu_ns = numbers.next()?.ok()?;
    let run_queue_wait_ns = numbers.next()?.ok()?;
    let timeslices = numbers.next()?.ok()?;
    (timeslices > 0).then_some(Waits {
        cpu_ns,
        run_queue_wait_ns,
        timeslices,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_wait_and_number_of_time_slices_are_read() {
        let waits = Waits {
            cpu_ns: 147_381,
            run_queue_wait_ns: 2_236_443,
            timeslices: 2,
        };
        assert_eq!(parse("147381 2236443 2\n"), Some(waits));
    }

    #[test]
    fn invalid_statistics_are_unknown() {
        for text in [
            "",
            "0 0 0\n",
            "1 2",
            "1 2 x",
            "-1 2 3",
            "1 99999999999999999999 3",
            "\0",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
