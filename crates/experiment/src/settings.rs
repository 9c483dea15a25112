//! Facts about kernel settings that are known without writing them.

use std::path::Path;

use plan::readable::counted;

const INT_MAX: i128 = 2_147_483_647;
const INT_MIN: i128 = -INT_MAX - 1;

/// The range of a setting that is not listed: none has more than 64 bits.
const ANY: (i128, i128) = (i64::MIN as i128, u64::MAX as i128);

/// Settings that are often varied, by their paths below `/proc/sys`, each with the least and the
/// greatest number that all current kernels accept: `net_core_table` and `netns_core_table` in
/// net/core/sysctl_net_core.c, `ipv4_net_table` in net/ipv4/sysctl_net_ipv4.c. The smallest buffers
/// are `SOCK_MIN_RCVBUF` and `SOCK_MIN_SNDBUF`: 2048, and twice 2048 bytes plus a struct whose size
/// depends on the kernel.
const NUMBERS: [(&str, i128, i128); 14] = [
    ("net/core/rmem_max", 2048, INT_MAX),
    ("net/core/rmem_default", 2048, INT_MAX),
    ("net/core/wmem_max", 4096, INT_MAX),
    ("net/core/wmem_default", 4096, INT_MAX),
    ("net/core/somaxconn", 0, INT_MAX),
    ("net/core/netdev_max_backlog", INT_MIN, INT_MAX),
    ("net/core/netdev_budget", INT_MIN, INT_MAX),
    ("net/ipv4/tcp_rmem", 1, INT_MAX),
    ("net/ipv4/tcp_wmem", 1, INT_MAX),
    ("net/ipv4/tcp_max_syn_backlog", INT_MIN, INT_MAX),
    ("net/ipv4/tcp_max_tw_buckets", INT_MIN, INT_MAX),
    ("net/ipv4/tcp_limit_output_bytes", INT_MIN, INT_MAX),
    ("net/ipv4/tcp_notsent_lowat", 0, 4_294_967_295),
    ("net/ipv4/ip_local_port_range", 0, 65_535),
];

/// Why a setting cannot be varied; `None` if it can. These change more than themselves, or cannot
/// be changed back: Documentation/networking/ip-sysctl.rst and Documentation/admin-guide/sysctl/.
pub(crate) fn why_irreversible(path: &Path) -> Option<&'static str> {
    let name = path.strip_prefix("/proc/sys").ok()?;
    let is_address = name.starts_with("net/ipv6/conf")
        && (name.ends_with("disable_ipv6") || name.ends_with("addr_gen_mode"));
    Some(match name.to_str().unwrap_or_default() {
        "net/ipv4/ip_forward" => "resets many other settings when it is written",
        "net/ipv4/conf/all/forwarding" | "net/ipv6/conf/all/forwarding" => {
            "sets that of every interface when it is written"
        }
        "net/ipv6/conf/default/disable_ipv6" => {
            "is copied to interfaces, which would keep the copy"
        }
        "net/netfilter/nf_hooks_lwtunnel"
        | "kernel/modules_disabled"
        | "kernel/kexec_load_disabled" => "cannot be changed back before a reboot",
        "vm/drop_caches" | "vm/compact_memory" => {
            "is a command rather than a setting (write it in a hook)"
        }
        _ if is_address => "removes addresses for good",
        _ => return None,
    })
}

/// Suffixes of settings that show the value of the setting without the suffix in a finer unit:
/// writing either changes both.
const FINER: [&str; 2] = ["_ms", "_bytes"];

/// Whether two settings are the same value in two units.
pub(crate) fn is_same_value(one: &Path, other: &Path) -> bool {
    let is_finer = |coarse: &Path, fine: &Path| {
        let (Some(coarse), Some(fine)) = (coarse.to_str(), fine.to_str()) else {
            return false;
        };
        let unit = fine.strip_prefix(coarse);
        unit.is_some_and(|unit| FINER.contains(&unit))
    };
    is_finer(one, other) || is_finer(other, one)
}

/// Why the kernel will refuse a value, judged by its present value and the kernel's tables.
pub(crate) fn refusal(path: &Path, present: &str, value: &str) -> Option<String> {
    let present: Vec<&str> = present.split_whitespace().collect();
    let parts: Vec<&str> = value.split_whitespace().collect();
    if parts.is_empty() {
        return Some("an empty value".to_owned());
    }
    let is_numeric = !present.is_empty() && present.iter().all(|part| number(part).is_some());
    if !is_numeric {
        return None;
    }
    if parts.len() != present.len() {
        let numbers = counted(present.len() as u64, "number");
        let (now, own) = (present.join(" "), parts.len());
        return Some(format!(
            "the setting has {numbers} (now {now}), the level has {own}"
        ));
    }
    let known = NUMBERS
        .into_iter()
        .find(|(known, ..)| path == Path::new("/proc/sys").join(known));
    let (least, greatest) = known.map_or(ANY, |(_, least, greatest)| (least, greatest));
    parts.iter().find_map(|part| {
        let why = match number(part) {
            None => format!("is not a whole number (now {})", present.join(" ")),
            Some(number) if number < least => format!("is below the kernel's minimum of {least}"),
            Some(number) if number > greatest => {
                format!("is above the kernel's maximum of {greatest}")
            }
            Some(_) => return None,
        };
        Some(format!("{part} {why}"))
    })
}

fn number(text: &str) -> Option<i128> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(path: &str, present: &str, value: &str) -> Option<String> {
        refusal(&Path::new("/proc/sys").join(path), present, value)
    }

    #[test]
    fn values_that_the_kernel_accepts_are_not_refused() {
        for (path, present, value) in [
            ("net/core/rmem_max", "212992", "16777216"),
            ("net/core/rmem_max", "212992", "2147483647"),
            (
                "net/ipv4/tcp_rmem",
                "4096\t131072\t6291456",
                "4096 87380 6291456",
            ),
            ("net/ipv4/tcp_congestion_control", "cubic", "bbr"),
            ("net/ipv4/tcp_mem", "1 2 3", "1 2 9999999999"),
            ("kernel/core_pattern", "core", "|/bin/x %p"),
            ("net/ipv4/tcp_notsent_lowat", "4294967295", "16384"),
            ("x/y", "-1", "-5"),
        ] {
            assert_eq!(said(path, present, value), None, "{path} {value}");
        }
    }

    #[test]
    fn values_that_the_kernel_refuses_are_reported_with_the_reason() {
        for (path, present, value, expected) in [
            (
                "net/core/rmem_max",
                "212992",
                "2147483648",
                "is above the kernel's maximum of 2147483647",
            ),
            (
                "net/core/rmem_max",
                "212992",
                "1024",
                "is below the kernel's minimum of 2048",
            ),
            (
                "net/core/rmem_max",
                "212992",
                "16M",
                "is not a whole number (now 212992)",
            ),
            (
                "net/core/rmem_max",
                "212992",
                "1.5",
                "is not a whole number",
            ),
            (
                "net/core/rmem_max",
                "212992",
                "4096 1",
                "has 1 number (now 212992), the level has 2",
            ),
            (
                "net/ipv4/tcp_rmem",
                "1\t2\t3",
                "4096 87380",
                "has 3 numbers (now 1 2 3), the level has 2",
            ),
            (
                "net/ipv4/tcp_rmem",
                "1\t2\t3",
                "0 1 2",
                "0 is below the kernel's minimum of 1",
            ),
            (
                "net/ipv4/ip_local_port_range",
                "1\t2",
                "1024 70000",
                "70000 is above",
            ),
            (
                "x/y",
                "1",
                "99999999999999999999",
                "is above the kernel's maximum",
            ),
            ("x/y", "1", "", "an empty value"),
        ] {
            let said = said(path, present, value).unwrap_or_default();
            assert!(said.contains(expected), "{path} {value}: {said}");
        }
    }

    #[test]
    fn two_units_of_the_same_value_are_recognized() {
        for (one, other, is_same) in [
            ("a/unres_qlen", "a/unres_qlen_bytes", true),
            ("a/gc_min_interval_ms", "a/gc_min_interval", true),
            ("a/gc_min_interval", "b/gc_min_interval_ms", false),
            ("a/tcp_mem", "a/tcp_mem", false),
            ("a/tcp_rmem", "a/tcp_rmem_min", false),
        ] {
            assert_eq!(is_same_value(Path::new(one), Path::new(other)), is_same);
        }
    }

    #[test]
    fn irreversible_settings_are_recognized() {
        for (path, is_known) in [
            ("/proc/sys/net/ipv4/ip_forward", true),
            ("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", true),
            ("/proc/sys/net/ipv6/conf/eth0/addr_gen_mode", true),
            ("/proc/sys/net/netfilter/nf_hooks_lwtunnel", true),
            ("/proc/sys/vm/drop_caches", true),
            ("/proc/sys/net/core/rmem_max", false),
            ("/etc/net/ipv4/ip_forward", false),
        ] {
            assert_eq!(
                why_irreversible(Path::new(path)).is_some(),
                is_known,
                "{path}"
            );
        }
    }
}
