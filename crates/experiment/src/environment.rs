//! The state of the machine around a run, recorded before and after it.

use std::collections::BTreeMap;
use std::path::Path;

use crate::change::sysctl_path;
use crate::host::HostAccess;

/// Reads the given kernel settings under their names, and `load_1m` (runnable or waiting processes,
/// averaged over a minute; likewise `load_5m` and `load_15m`), `processes`, `mem_available_kib` and
/// `uptime_s`. Values that cannot be read are absent.
#[must_use]
pub fn observe<'a>(
    host: &dyn HostAccess,
    sysctls: impl IntoIterator<Item = &'a str>,
) -> BTreeMap<String, String> {
    let text = |path: &str| read(host, Path::new(path));
    let mut known = BTreeMap::new();
    let mut note = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            known.insert(name.to_owned(), value.to_owned());
        }
    };
    for key in sysctls {
        let value = sysctl_path(key).and_then(|path| read(host, &path));
        note(key, value.as_deref().map(normal).as_deref());
    }
    // "0.50 0.40 0.30 2/345 6789": proc_loadavg(5).
    let load = text("/proc/loadavg").unwrap_or_default();
    let words: Vec<&str> = load.split_whitespace().collect();
    for (name, at) in [("load_1m", 0), ("load_5m", 1), ("load_15m", 2)] {
        note(name, words.get(at).copied());
    }
    let processes = words.get(3).and_then(|word| word.split_once('/'));
    note("processes", processes.map(|(_, all)| all));
    let memory = text("/proc/meminfo").unwrap_or_default();
    note("mem_available_kib", mem_available(&memory));
    let uptime = text("/proc/uptime").unwrap_or_default();
    note("uptime_s", uptime.split_whitespace().next());
    known
}

fn read(host: &dyn HostAccess, path: &Path) -> Option<String> {
    let content = host.read(path).ok()?;
    Some(String::from_utf8_lossy(&content).into_owned())
}

/// With single spaces; the kernel separates numbers with tabs.
pub(crate) fn normal(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The number in `MemAvailable:   123456 kB`.
fn mem_available(meminfo: &str) -> Option<&str> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn observed(files: &[(&str, &str)]) -> Vec<String> {
        let host = Fake::with(files);
        observe(
            &host,
            ["net.ipv4.tcp_rmem", "net.core.nothing", "../../etc"],
        )
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect()
    }

    #[test]
    fn readable_values_are_recorded_under_their_names() {
        let all = observed(&[
            ("/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
            ("/proc/loadavg", "0.50 0.40 0.30 2/345 6789\n"),
            (
                "/proc/meminfo",
                "MemTotal: 9 kB\nMemAvailable:     4711 kB\n",
            ),
            ("/proc/uptime", "12345.67 999.00\n"),
        ]);
        assert_eq!(
            all,
            [
                "load_15m=0.30",
                "load_1m=0.50",
                "load_5m=0.40",
                "mem_available_kib=4711",
                "net.ipv4.tcp_rmem=4096 131072 6291456",
                "processes=345",
                "uptime_s=12345.67",
            ]
        );
    }

    #[test]
    fn unreadable_and_truncated_values_are_absent() {
        assert_eq!(observed(&[]), Vec::<String>::new());
        assert_eq!(
            observed(&[
                ("/proc/loadavg", "0.50 0."),
                ("/proc/meminfo", "MemAvailable:"),
                ("/proc/uptime", ""),
            ]),
            ["load_1m=0.50", "load_5m=0."]
        );
    }
}
