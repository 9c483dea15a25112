//! `/proc/stat` (proc(5)): CPU times and events since boot.

use super::whole_lines;

/// The numbers of the first line, in order. Older kernels have fewer.
pub(crate) const CPU_TIMES: [&str; 10] = [
    "user",
    "nice",
    "system",
    "idle",
    "iowait",
    "irq",
    "softirq",
    "steal",
    "guest",
    "guest_nice",
];

/// Lines that begin with a total, and its name.
const TOTALS: [(&str, &str); 4] = [
    ("intr", "interrupts"),
    ("ctxt", "context_switches"),
    ("processes", "forks"),
    ("softirq", "softirqs"),
];

/// Indexes of the two network entries in the line `softirq`, whose first number is the total
/// (`softirq_to_name` in the kernel's sources).
const SOFTIRQS: [(usize, &str); 2] = [(3, "softirqs_net_tx"), (4, "softirqs_net_rx")];

/// CPU times of all CPUs together, in ticks, by their names in [`CPU_TIMES`].
pub(crate) fn cpu_ticks(text: &str) -> impl Iterator<Item = (&'static str, u64)> {
    whole_lines(text)
        .find_map(|line| line.strip_prefix("cpu "))
        .into_iter()
        .flat_map(|total| CPU_TIMES.into_iter().zip(total.split_ascii_whitespace()))
        .filter_map(|(name, ticks)| Some((name, ticks.parse().ok()?)))
}

/// Events since boot, by name.
pub(crate) fn events(text: &str) -> Vec<(&'static str, u64)> {
    let mut events = Vec::new();
    for line in whole_lines(text) {
        let Some((head, numbers)) = line.split_once(' ') else {
            continue;
        };
        let number = |place: usize| numbers.split_ascii_whitespace().nth(place)?.parse().ok();
        let total = TOTALS.iter().find(|(known, _)| *known == head);
        events.extend(total.and_then(|(_, name)| Some((*name, number(0)?))));
        if head == "softirq" {
            let kinds = SOFTIRQS.iter();
            events.extend(kinds.filter_map(|(place, name)| Some((*name, number(*place)?))));
        }
    }
    events
}

/// CPU times of all CPUs together, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cpus {
    /// CPUs online: only these have a line.
    pub(crate) online: u32,
    /// Neither idle nor stolen.
    pub(crate) busy_ticks: u64,
    /// Given to other guests by the hypervisor.
    pub(crate) steal_ticks: u64,
}

/// The first line has user, nice, system, idle, iowait, irq, softirq, steal. The two after them,
/// guest and guest_nice, are already contained in user and nice. Kernels before 2.6.11 have no
/// steal.
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
    fn times_and_events_have_their_names() {
        let ticks: Vec<_> = cpu_ticks(RECORDED).collect();
        assert_eq!(ticks.len(), 10);
        assert_eq!(ticks[7], ("steal", 218));
        let old: Vec<_> = cpu_ticks("cpu  1 2 3 4\n").collect();
        assert_eq!(old.last(), Some(&("idle", 4)));
        let text = "ctxt 5\nprocesses 7\nsoftirq 100 1 2 3 44 5\nintr 9 0 0\nbtime 3\n";
        let expected = [
            ("context_switches", 5),
            ("forks", 7),
            ("softirqs", 100),
            ("softirqs_net_tx", 3),
            ("softirqs_net_rx", 44),
            ("interrupts", 9),
        ];
        assert_eq!(events(text), expected);
        assert_eq!(events("ctxt 5\nprocesses 7"), [("context_switches", 5)]);
        assert_eq!(events("ctxt\nctxt x\nsoftirq\n"), []);
    }

    #[test]
    fn an_invalid_cpu_line_is_unknown() {
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
