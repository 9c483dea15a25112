//! Parsers for files of `/proc` (proc(5)).

/// Clock tick of `/proc/<pid>/stat` in microseconds. USER_HZ is 100 on all architectures but Alpha.
pub(crate) const TICK_US: u64 = 10_000;

/// State and CPU time of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    /// `Z` after the process has ended and before it is reaped.
    pub(crate) state: char,
    /// User and system time of all threads, including ended ones, in microseconds.
    pub(crate) cpu_us: u64,
}

/// CPU time of the machine since boot, over all cores, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MachineTime {
    /// Time in programs and system calls, and time stolen by the hypervisor.
    pub(crate) busy_us: u64,
    /// Total time, including idle time.
    pub(crate) total_us: u64,
}

/// Parses the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
pub(crate) fn parse_machine_time(text: &str) -> Option<MachineTime> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .take(8)
        .map(|field| field.parse().ok())
        .collect::<Option<_>>()?;
    let [user, nice, system, _, _, _, _, steal] = ticks[..] else {
        return None;
    };
    let sum_us = |ticks: &[u64]| {
        let sum = ticks
            .iter()
            .try_fold(0_u64, |sum, tick| sum.checked_add(*tick));
        sum?.checked_mul(TICK_US)
    };
    Some(MachineTime {
        busy_us: sum_us(&[user, nice, system, steal])?,
        total_us: sum_us(&ticks)?,
    })
}

/// Parses `/proc/<pid>/stat`. The name in parentheses may contain spaces and parentheses.
pub(crate) fn parse_stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // `rest` starts with field 3 (state); utime is field 14, stime field 15.
    let ticks = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let cpu_us = ticks(14)?.checked_add(ticks(15)?)?.checked_mul(TICK_US)?;
    Some(Stat {
        state: fields.first()?.chars().next()?,
        cpu_us,
    })
}

/// Peak resident memory (`VmHWM`) in kB from `/proc/<pid>/status`; `None` for an ended process.
pub(crate) fn parse_peak_rss_kb(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// CPU time of a thread in microseconds: the first number of `/proc/<pid>/task/<tid>/schedstat`, in
/// nanoseconds there (Documentation/scheduler/sched-stats.rst).
pub(crate) fn parse_run_time_us(text: &str) -> Option<u64> {
    Some(text.split_whitespace().next()?.parse::<u64>().ok()? / 1_000)
}

/// The hard limit of open files in `/proc/<pid>/limits`; `None` if unlimited or unreadable.
pub(crate) fn parse_hard_file_limit(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "4242 (a) b (c) Z 1 4242 4242 0 -1 4194304 100 0 0 0 37 263 5 6 20 0 2 0 \
                        100 0 0 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0";

    #[test]
    fn state_and_cpu_time_are_found_behind_a_hostile_process_name() {
        assert_eq!(
            parse_stat(STAT),
            Some(Stat {
                state: 'Z',
                cpu_us: 3_000_000
            })
        );
    }

    #[test]
    fn a_stat_line_cut_at_any_place_never_gives_a_wrong_number_of_fields() {
        for end in 0..STAT.len() {
            let cut = &STAT[..end];
            let complete = cut
                .rsplit_once(')')
                .is_some_and(|(_, rest)| rest.split_whitespace().count() >= 13);
            assert_eq!(parse_stat(cut).is_some(), complete, "{cut:?}");
        }
    }

    #[test]
    fn absurd_times_do_not_overflow() {
        let text = STAT.replace(" 37 263 ", " 18446744073709551615 18446744073709551615 ");
        assert_eq!(parse_stat(&text), None);
    }

    #[test]
    fn peak_memory_is_read_and_absent_for_a_process_that_has_ended() {
        assert_eq!(
            parse_peak_rss_kb("Name:\twrk\nVmHWM:\t   46120 kB\nVmRSS:\t 1 kB\n"),
            Some(46_120)
        );
        assert_eq!(parse_peak_rss_kb("Name:\twrk\nState:\tZ (zombie)\n"), None);
        assert_eq!(parse_peak_rss_kb("VmHWM:\t-1 kB\n"), None);
    }

    #[test]
    fn busy_time_of_the_machine_leaves_out_idle_and_interrupts() {
        let text = "cpu  1 2 3 100 50 7 8 4 0 0\ncpu0 1 2 3 100 50 7 8 4 0 0\n";
        let expected = MachineTime {
            busy_us: 100_000,
            total_us: 1_750_000,
        };
        assert_eq!(parse_machine_time(text), Some(expected));
        assert_eq!(parse_machine_time("cpu  1 2 3 4\n"), None);
        assert_eq!(parse_machine_time("cpu  1 2 3 100 50 7 8 x\n"), None);
        let huge = "cpu  18446744073709551615 1 0 0 0 0 0 0\n";
        assert_eq!(parse_machine_time(huge), None);
        assert_eq!(parse_machine_time(""), None);
    }

    #[test]
    fn the_time_a_thread_has_run_is_the_first_number() {
        assert_eq!(parse_run_time_us("1234567 89 10\n"), Some(1_234));
        assert_eq!(parse_run_time_us("-1 89 10\n"), None);
        assert_eq!(parse_run_time_us(""), None);
    }

    #[test]
    fn the_hard_limit_is_the_second_number() {
        let text = "Limit   Soft Limit  Hard Limit  Units\nMax open files   1024   20000   files\n";
        assert_eq!(parse_hard_file_limit(text), Some(20_000));
        assert_eq!(
            parse_hard_file_limit("Max open files  1024  unlimited  files"),
            None
        );
        assert_eq!(parse_hard_file_limit(""), None);
    }

    #[test]
    fn the_files_of_this_very_process_are_understood() {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap();
        // The state is that of the main thread, which may be waiting for the thread of this test.
        assert!(matches!(
            parse_stat(&read("stat")).unwrap().state,
            'R' | 'S'
        ));
        assert!(parse_peak_rss_kb(&read("status")).unwrap() > 100);
        let machine = parse_machine_time(&std::fs::read_to_string("/proc/stat").unwrap()).unwrap();
        assert!(machine.busy_us > 0 && machine.busy_us <= machine.total_us);
    }
}
