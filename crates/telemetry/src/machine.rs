//! What happened to the whole machine and to our control group during a run.

use std::path::{Path, PathBuf};

use results::MachineUsage;

use crate::clock;
use crate::file::read;
use crate::procfs::cgroup::{self, Throttling, Version};
use crate::procfs::{pressure, stat};

/// Reads the machine's counters at the start and at the end of a run.
#[derive(Debug)]
pub struct MachineMeter {
    root: PathBuf,
    tick_ns: Option<u64>,
    /// The `cpu.stat` files of the control groups with a quota that we are in.
    quotas: Vec<PathBuf>,
    begin: Option<MachineReading>,
}

/// The counters of the machine, totals since boot.
#[derive(Debug)]
struct MachineReading {
    at_ns: u64,
    cpus: stat::Cpus,
    /// One per file in `quotas`.
    throttled: Vec<Option<Throttling>>,
    pressure_ns: Option<u64>,
}

impl MachineMeter {
    /// Finds out what can be read, and reads it for the first time.
    #[must_use]
    pub fn begin() -> Self {
        Self::begin_below(Path::new("/"))
    }

    fn begin_below(root: &Path) -> Self {
        let mut meter = Self {
            root: root.to_owned(),
            tick_ns: clock::tick_ns(),
            quotas: quotas(root),
            begin: None,
        };
        meter.begin = meter.read();
        meter
    }

    /// What happened since `begin`; `None` if the kernel does not tell.
    #[must_use]
    pub fn end(&self) -> Option<MachineUsage> {
        self.since_begin(&self.read()?)
    }

    fn since_begin(&self, end: &MachineReading) -> Option<MachineUsage> {
        let begin = self.begin.as_ref()?;
        let tick_ns = self.tick_ns?;
        let ticks_ns =
            |later: u64, earlier: u64| later.saturating_sub(earlier).saturating_mul(tick_ns);
        let throttled = most_throttled(&begin.throttled, &end.throttled);
        Some(MachineUsage {
            elapsed_ns: end.at_ns.saturating_sub(begin.at_ns),
            cpus: end.cpus.online,
            busy_ns: ticks_ns(end.cpus.busy_ticks, begin.cpus.busy_ticks),
            steal_ns: ticks_ns(end.cpus.steal_ticks, begin.cpus.steal_ticks),
            throttled_periods: throttled.map(|throttled| throttled.periods),
            throttled_ns: throttled.map(|throttled| throttled.time_ns),
            cpu_pressure_ns: end
                .pressure_ns
                .zip(begin.pressure_ns)
                .map(|(later, earlier)| later.saturating_sub(earlier)),
        })
    }

    fn read(&self) -> Option<MachineReading> {
        let throttled = |path: &PathBuf| cgroup::throttling(&read(path)?);
        Some(MachineReading {
            at_ns: clock::monotonic_ns()?,
            cpus: stat::parse(&read(&self.root.join("proc/stat"))?)?,
            throttled: self.quotas.iter().map(throttled).collect(),
            pressure_ns: read(&self.root.join("proc/pressure/cpu"))
                .and_then(|text| pressure::some_total_ns(&text)),
        })
    }
}

/// Each of several nested groups counts the throttling by its own quota. The counts overlap, so
/// they cannot be added: the longest time is a lower bound of what happened to us.
fn most_throttled(begin: &[Option<Throttling>], end: &[Option<Throttling>]) -> Option<Throttling> {
    begin
        .iter()
        .zip(end)
        .filter_map(|(earlier, later)| {
            let (earlier, later) = (earlier.as_ref()?, later.as_ref()?);
            Some(Throttling {
                periods: later.periods.saturating_sub(earlier.periods),
                time_ns: later.time_ns.saturating_sub(earlier.time_ns),
            })
        })
        .max_by_key(|throttled| throttled.time_ns)
}

/// The groups with a quota among ours and its ancestors.
fn quotas(root: &Path) -> Vec<PathBuf> {
    let read_below = |path: &str| read(&root.join(path)).unwrap_or_default();
    let memberships = read_below("proc/self/cgroup");
    let mountinfo = read_below("proc/self/mountinfo");
    [Version::V1, Version::V2]
        .into_iter()
        .flat_map(|version| {
            cgroup::folders(version, &memberships, &mountinfo)
                .into_iter()
                .map(move |folder| (version, folder))
        })
        .filter_map(|(version, folder)| {
            let folder = root.join(folder.strip_prefix("/").unwrap_or(&folder));
            let quota = read(&folder.join(version.quota_file()))?;
            version.is_quota(&quota).then(|| folder.join("cpu.stat"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with recorded files; see `tests/data/README.md`.
    fn recorded(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data")
            .join(name)
    }

    /// Usage between two recordings of the same machine.
    fn between(begin: &str, end: &str) -> Option<MachineUsage> {
        let mut meter = MachineMeter::begin_below(&recorded(begin));
        let end = MachineMeter::begin_below(&recorded(end)).begin?;
        meter.begin.as_mut()?.at_ns = end.at_ns.saturating_sub(1_000_000_000);
        meter.since_begin(&end)
    }

    #[test]
    fn a_group_of_version_1_with_a_tenth_of_a_cpu_was_throttled_in_every_period() {
        let expected = MachineUsage {
            elapsed_ns: 1_000_000_000,
            cpus: 2,
            busy_ns: 4_410_000_000,
            steal_ns: 0,
            throttled_periods: Some(22),
            throttled_ns: Some(1_617_533_139),
            cpu_pressure_ns: Some(2_288_240_000),
        };
        let found = between("version-1-begin", "version-1-end");
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn the_most_throttled_of_nested_groups_counts() {
        let found = between("version-2-begin", "version-2-end").unwrap();
        assert_eq!(found.throttled_periods, Some(9));
        assert_eq!(found.throttled_ns, Some(450_000_000));
        assert_eq!((found.cpus, found.steal_ns), (4, 120_000_000));
        assert_eq!(found.busy_ns, 1_300_000_000);
        assert_eq!(found.cpu_pressure_ns, None);
    }

    #[test]
    fn without_a_quota_throttling_is_unknown_and_not_zero() {
        let found = between("no-quota", "no-quota").unwrap();
        assert_eq!((found.throttled_periods, found.throttled_ns), (None, None));
        assert_eq!(found.busy_ns, 0);
    }

    #[test]
    fn without_proc_nothing_is_known_and_nothing_fails() {
        assert_eq!(between("nothing", "nothing"), None);
        assert_eq!(MachineMeter::begin_below(&recorded("nothing")).end(), None);
    }

    #[test]
    fn a_reading_at_the_end_only_gives_no_difference() {
        assert_eq!(between("nothing", "no-quota"), None);
    }

    #[test]
    fn this_machine_can_be_read() {
        let usage = MachineMeter::begin().end().unwrap();
        assert!(usage.cpus > 0, "{usage:?}");
    }
}
