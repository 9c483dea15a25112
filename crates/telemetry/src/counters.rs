//! Kernel counters and their growth.

use std::collections::BTreeMap;
use std::path::Path;

use crate::clock;
use crate::file::read;
use crate::procfs::{pressure, snmp, softnet, stat};

/// Kernel counters at one moment: `/proc/net/netstat`, `/proc/net/snmp` and
/// `/proc/net/softnet_stat` of our network namespace, `/proc/stat` and `/proc/pressure/` of the
/// machine. `docs/telemetry.md` lists names and units.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// By name and part. Counters kept per CPU have one part per CPU, each of which wraps by
    /// itself; all others have only part 0.
    values: BTreeMap<(String, u32), u64>,
}

/// These are gauges, not counters: they may also fall.
const LEVELS: [&str; 2] = ["Tcp.CurrEstab", "MPTcpExt.MPCurrEstab"];

const NS_PER_MS: u64 = 1_000_000;

impl Counters {
    /// Reads the counters. Counters that this kernel lacks are left out.
    #[must_use]
    pub fn now() -> Self {
        Self::below(Path::new("/"))
    }

    fn below(root: &Path) -> Self {
        let text = |path: &str| read(&root.join(path)).unwrap_or_default();
        let mut counters = Self::default();
        for file in ["proc/net/netstat", "proc/net/snmp"] {
            counters.add_all(snmp::parse(&text(file)));
        }
        for count in softnet::parse(&text("proc/net/softnet_stat")) {
            let name = format!("softnet.{}", count.name);
            counters
                .values
                .insert((name, count.cpu), u64::from(count.value));
        }
        counters.add_stat(&text("proc/stat"), clock::tick_ns());
        for what in ["cpu", "memory", "io"] {
            let text = text(&format!("proc/pressure/{what}"));
            let named = |(who, total_us)| (format!("pressure.{what}.{who}_us"), total_us);
            counters.add_all(pressure::totals_us(&text).map(named));
        }
        counters
    }

    fn add_stat(&mut self, text: &str, tick_ns: Option<u64>) {
        let milliseconds = |ticks: u64| Some(ticks.checked_mul(tick_ns?)? / NS_PER_MS);
        self.add_all(stat::cpu_ticks(text).filter_map(|(name, ticks)| {
            Some((format!("stat.cpu_{name}_ms"), milliseconds(ticks)?))
        }));
        let events = stat::events(text).into_iter();
        self.add_all(events.map(|(name, events)| (format!("stat.{name}"), events)));
    }

    fn add_all(&mut self, counts: impl IntoIterator<Item = (String, u64)>) {
        let keyed = counts.into_iter().map(|(name, value)| ((name, 0), value));
        self.values.extend(keyed);
    }

    /// The growth of each counter since `begin`, by name. Counters missing on either side are left
    /// out, and so are those that have fallen without wrapping.
    #[must_use]
    pub fn growth_since(&self, begin: &Self) -> BTreeMap<String, i64> {
        let mut growths: BTreeMap<String, i64> = BTreeMap::new();
        for (key, earlier) in &begin.values {
            let (name, _) = key;
            let later = self.values.get(key);
            if let Some(growth) = later.and_then(|later| growth(name, *earlier, *later)) {
                let sum = growths.entry(name.clone()).or_default();
                *sum = sum.saturating_add(growth);
            }
        }
        growths
    }
}

/// Kernel counters have 32 or 64 bits; the files do not say which. One that has fallen has wrapped
/// at 32 bits if both values fit and the growth is less than half of the range; otherwise the same
/// applies at 64 bits.
fn growth(name: &str, earlier: u64, later: u64) -> Option<i64> {
    if LEVELS.contains(&name) || later >= earlier {
        return i64::try_from(i128::from(later) - i128::from(earlier)).ok();
    }
    let growth = match (u32::try_from(earlier), u32::try_from(later)) {
        (Ok(earlier), Ok(later)) => {
            let growth = later.wrapping_sub(earlier);
            (growth <= u32::MAX / 2).then_some(u64::from(growth))
        }
        _ => Some(later.wrapping_sub(earlier)),
    };
    i64::try_from(growth?).ok()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn counters(values: &[(&str, u32, u64)]) -> Counters {
        let values = values.iter();
        Counters {
            values: values
                .map(|(name, part, value)| (((*name).to_owned(), *part), *value))
                .collect(),
        }
    }

    fn growths(begin: &[(&str, u32, u64)], end: &[(&str, u32, u64)]) -> Vec<(String, i64)> {
        let growths = counters(end).growth_since(&counters(begin));
        growths.into_iter().collect()
    }

    #[test]
    fn unchanged_counters_are_zero_and_those_in_only_one_reading_are_absent() {
        let begin = [("A", 0, 5), ("B", 0, 7), ("C", 0, 1)];
        let end = [("A", 0, 5), ("B", 0, 17), ("D", 0, 1)];
        let expected = [("A".to_owned(), 0), ("B".to_owned(), 10)];
        assert_eq!(growths(&begin, &end), expected);
    }

    #[test]
    fn counters_that_wrap_have_grown_and_those_that_fell_are_unknown() {
        let max = u64::from(u32::MAX);
        for (earlier, later, expected) in [
            (max, 4, Some(5)),
            (max - 10, 0, Some(11)),
            (u64::MAX, 4, Some(5)),
            (u64::MAX - 1, max, Some(i64::from(u32::MAX) + 2)),
            // Idle time may fall by a tick (proc(5)), which is not a growth by 2^32.
            (100, 99, None),
            (max + 5, max, None),
            (0, u64::MAX, None),
            (0, i64::MAX as u64, Some(i64::MAX)),
        ] {
            assert_eq!(growth("Tcp.InSegs", earlier, later), expected, "{earlier}");
        }
        assert_eq!(growth("Tcp.CurrEstab", 100, 99), Some(-1));
    }

    #[test]
    fn each_cpu_wraps_by_itself_and_a_removed_one_is_left_out() {
        let name = "softnet.processed";
        let begin = [(name, 0, u64::from(u32::MAX)), (name, 1, 10), (name, 2, 5)];
        let end = [(name, 0, 1), (name, 1, 30), (name, 3, 900)];
        assert_eq!(growths(&begin, &end), [(name.to_owned(), 22)]);
    }

    fn recorded(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data")
            .join(name)
    }

    #[test]
    fn the_files_of_a_machine_are_read_by_their_names_and_units() {
        let begin = Counters::below(&recorded("counters-begin"));
        let end = Counters::below(&recorded("counters-end"));
        let growths = end.growth_since(&begin);
        for (name, expected) in [
            ("TcpExt.ListenDrops", Some(3)),
            ("TcpExt.ListenOverflows", Some(2)),
            ("TcpExt.TCPTimeouts", Some(0)),
            ("IpExt.InOctets", Some(4_000)),
            ("Tcp.RetransSegs", Some(25)),
            ("Tcp.CurrEstab", Some(-2)),
            ("Tcp.RtoMin", None),
            ("softnet.processed", Some(110)),
            ("softnet.dropped", Some(1)),
            ("stat.cpu_user_ms", Some(1_500)),
            ("stat.cpu_steal_ms", Some(40)),
            ("stat.cpu_guest_ms", Some(0)),
            ("stat.context_switches", Some(777)),
            ("stat.softirqs_net_rx", Some(50)),
            ("pressure.cpu.some_us", Some(1_000_000)),
            ("pressure.io.full_us", Some(12)),
            // This kernel has no memory pressure.
            ("pressure.memory.some_us", None),
        ] {
            assert_eq!(growths.get(name).copied(), expected, "{name}");
        }
    }

    #[test]
    fn without_proc_there_are_no_counters() {
        let nothing = Counters::below(&recorded("nothing"));
        assert_eq!(nothing, Counters::default());
        assert_eq!(Counters::now().growth_since(&nothing), BTreeMap::new());
    }

    #[test]
    fn this_machines_counters_can_be_read() {
        let begin = Counters::now();
        let growths = Counters::now().growth_since(&begin);
        for name in ["Tcp.InSegs", "softnet.processed", "stat.cpu_user_ms"] {
            assert!(growths.contains_key(name), "{name} is missing");
        }
    }
}
