//! The environment of a run, read from /proc and /sys.

use results::Environment;
use std::collections::BTreeMap;
use std::fs;

/// Kernel settings that affect what a load generator measures. They are part of every result.
pub const WATCHED_SYSCTLS: &[&str] = &[
    "net.core.somaxconn",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.core.netdev_max_backlog",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.ip_local_port_range",
    "kernel.io_uring_disabled",
];

/// Reads what is available. The rest stays unknown.
pub(crate) fn collect(command_line: Vec<String>, started_at: Option<String>) -> Environment {
    let kernel = ["ostype", "osrelease", "version"]
        .iter()
        .map(|name| read(&format!("/proc/sys/kernel/{name}")))
        .collect::<Option<Vec<_>>>()
        .map(|parts| parts.join(" "));
    Environment {
        wrkbench_version: env!("CARGO_PKG_VERSION").to_owned(),
        command_line,
        started_at,
        hostname: read("/proc/sys/kernel/hostname"),
        kernel,
        cpu_model: fs::read_to_string("/proc/cpuinfo")
            .ok()
            .as_deref()
            .and_then(cpu_model),
        cores: std::thread::available_parallelism()
            .ok()
            .and_then(|cores| u32::try_from(cores.get()).ok()),
        clocksource: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        labels: BTreeMap::new(),
        sysctls: sysctls(),
    }
}

fn sysctls() -> BTreeMap<String, String> {
    WATCHED_SYSCTLS
        .iter()
        .filter_map(|name| {
            let value = read(&format!("/proc/sys/{}", name.replace('.', "/")))?;
            Some(((*name).to_owned(), value.replace('\t', " ")))
        })
        .collect()
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        matches!(name.trim(), "model name" | "Model" | "uarch").then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_has_the_name_that_the_kernel_reports() {
        let text = "processor\t: 0\nvendor_id\t: X\nmodel name\t: Some CPU @ 3 GHz\n";
        assert_eq!(cpu_model(text).as_deref(), Some("Some CPU @ 3 GHz"));
        assert_eq!(cpu_model("nothing here"), None);
    }

    #[test]
    fn the_environment_of_this_machine_is_known() {
        let environment = collect(vec!["wrkbench".to_owned()], None);
        assert!(
            environment
                .kernel
                .is_some_and(|kernel| kernel.starts_with("Linux"))
        );
        assert!(environment.sysctls.contains_key("net.core.somaxconn"));
    }
}
