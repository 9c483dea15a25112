//! `/proc/PID/stat` and `/proc/PID/status` (proc(5)).

use std::collections::BTreeSet;

/// A machine has no more CPUs.
const CPUS_MAX: u32 = 1 << 16;

/// Ticks of CPU time since a process was started, in user and kernel mode (fields 14 and 15 of
/// `stat`).
pub(crate) fn cpu_ticks(stat: &str) -> Option<u64> {
    // The name of the program is in parentheses and may contain some.
    let (_, behind) = stat.rsplit_once(')')?;
    let mut fields = behind.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    next()?.checked_add(next()?)
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
        let stat = "7 (a) 9 9 (b) R 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 100";
        assert_eq!(cpu_ticks(stat), Some(300));
        for broken in ["", "7 (a", "7 (a) R 1", "7 (a) R 1 7 7 0 -1 0 1 0 0 0 x 5"] {
            assert_eq!(cpu_ticks(broken), None, "{broken:?}");
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
