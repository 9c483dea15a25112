//! `/proc/stat` (proc(5)): what the CPUs did since the machine started.

/// CPU times of all CPUs together, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cpus {
    /// CPUs online: only those have a line.
    pub(crate) online: u32,
    /// Neither idle nor taken away.
    pub(crate) busy_ticks: u64,
    /// Given to others by the hypervisor.
    pub(crate) steal_ticks: u64,
}

/// Of the first line: user, nice, system, idle, iowait, irq, softirq, steal. Two more, guest and
/// guest_nice, are contained in user and nice. Kernels before 2.6.11 have no steal.
pub(crate) fn parse(text: &str) -> Option<Cpus> {
    let mut lines = text.lines();
    let total = lines.next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = total
        .split_ascii_whitespace()
        .map_while(|number| number.parse().ok())
        .collect();
    let &[
        user,
        nice,
        system,
        _idle,
        _iowait,
        irq,
        softirq,
        ref more @ ..,
    ] = ticks.as_slice()
    else {
        return None;
    };
    let online = lines
        .take_while(|line| line.starts_with("cpu"))
        .fold(0, |online: u32, _| online.saturating_add(1));
    Some(Cpus {
        online,
        busy_ticks: [user, nice, system, irq, softirq]
            .into_iter()
            .fold(0, u64::saturating_add),
        steal_ticks: more.first().copied().unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = "cpu  64169 49101 18170 239960 1813 0 258 218 0 0\n\
        cpu0 31658 24456 8654 121814 476 0 42 102 0 0\n\
        cpu1 32511 24645 9516 118146 1336 0 216 116 0 0\n\
        intr 1 2 3\nctxt 5\ncpufreq 7\n";

    #[test]
    fn idle_waiting_and_stolen_time_is_not_busy() {
        let cpus = Cpus {
            online: 2,
            busy_ticks: 64_169 + 49_101 + 18_170 + 258,
            steal_ticks: 218,
        };
        assert_eq!(parse(RECORDED), Some(cpus));
    }

    #[test]
    fn what_is_no_cpu_line_is_unknown() {
        for text in [
            "",
            "cpu",
            "cpu  1 2 3",
            "cpu0 1 2 3 4 5 6 7 8",
            "intr 1",
            "cpu  a b",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let max = u64::MAX;
        let text = format!("cpu  {max} {max} {max} {max} {max} {max} {max} {max}\n");
        assert_eq!(parse(&text).map(|cpus| cpus.busy_ticks), Some(max));
    }
}
