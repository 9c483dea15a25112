//! `/proc/PID/stat` and `/proc/PID/status` (proc(5)).

use std::collections::BTreeSet;

/// A machine has no more CPUs.
const CPUS_MAX: u32 = 1 << 16;

/// What `/proc/PID/stat` says of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// The process that has started it, or has taken it over.
    pub(crate) parent: u32,
    /// Ticks of CPU time since it was started, in user and kernel mode.
    pub(crate) own_ticks: u64,
    /// The same of its children that have ended and that it has waited for.
    pub(crate) children_ticks: u64,
}

impl Usage {
    /// Reads a line of `stat` (fields 4 and 14 to 17).
    pub(crate) fn of_stat(stat: &str) -> Option<Self> {
        // The name of the program is in parentheses and may contain some.
        let (_, behind) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = behind.split_ascii_whitespace().take(15).collect();
        let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            parent: fields.get(1)?.parse().ok()?,
            own_ticks: ticks(11)?.checked_add(ticks(12)?)?,
            children_ticks: ticks(13)?.checked_add(ticks(14)?)?,
        })
    }
}

/// The CPUs on which a process may run (`Cpus_allowed_list` of `status`).
pub(crate) fn allowed_cpus(status: &str) -> Option<BTreeSet<u32>> {
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    cpu_list(list)
}

/// A list of CPUs, such as `0-2,7`.
pub(crate) fn cpu_list(list: &str) -> Option<BTreeSet<u32>> {
    let mut cpus = BTreeSet::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if last >= CPUS_MAX {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_program_does_not_confuse_its_cpu_time() {
        let stat = "7 (a) 9 9 (b) R 1 7 7 0 -1 4194304 100 0 0 0 250 50 3 4 20 0 1 0 100";
        let expected = Usage {
            parent: 1,
            own_ticks: 300,
            children_ticks: 7,
        };
        assert_eq!(Usage::of_stat(stat), Some(expected));
        for broken in [
            "",
            "7 (a",
            "7 (a) R 1",
            "7 (a) R 1 7 7 0 -1 0 1 0 0 0 x 5 1 1",
        ] {
            assert_eq!(Usage::of_stat(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn cpus_are_read_as_numbers_and_ranges() {
        let cpus = |list: &str| {
            let found = allowed_cpus(&format!("Name:\tx\nCpus_allowed_list:\t{list}\n"));
            found.map(|cpus| cpus.into_iter().collect::<Vec<_>>())
        };
        assert_eq!(cpus("0"), Some(vec![0]));
        assert_eq!(cpus("0-2,7"), Some(vec![0, 1, 2, 7]));
        for broken in ["", "a", "0-", "0-99999999", "-1"] {
            assert_eq!(cpus(broken), None, "{broken:?}");
        }
        assert_eq!(allowed_cpus("Name:\tx\n"), None);
    }
}
