//! What an experiment changes on a machine, each in a way that can be undone.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// One change: what is set, and to what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A kernel setting.
    Sysctl {
        /// Its name as sysctl(8) has it: `net.core.rmem_max`.
        key: String,
        /// The value, as it would be written by hand; a line feed is added.
        value: String,
    },
    /// The whole content of a file.
    File {
        /// Which; absolute.
        path: PathBuf,
        /// The content.
        content: Vec<u8>,
    },
    /// A command, and another one that undoes it.
    Command {
        /// Name of the factor: it tells this command from the plan's others.
        name: String,
        /// Run now.
        apply: String,
        /// Run at the end, once, whatever had been applied before; it must not mind being run twice.
        restore: String,
        /// Added to the environment of both, as it is now.
        environment: BTreeMap<String, String>,
        /// The longest that either may take.
        limit: Duration,
    },
}

/// The file of a kernel setting. As in sysctl(8) the first separator decides: names with dots within
/// a part are written with slashes (`net/ipv4/conf/eth0.100/rp_filter`). `None` if the name cannot be
/// one: an empty part, a part that leads elsewhere.
#[must_use]
pub fn sysctl_path(key: &str) -> Option<PathBuf> {
    let separator = key.find(['.', '/']).map(|at| key.as_bytes()[at])?;
    let relative = if separator == b'/' {
        key.to_owned()
    } else {
        // The other way round as well: `net.ipv4.conf.eth0/100.rp_filter` is eth0.100.
        key.chars()
            .map(|c| match c {
                '.' => '/',
                '/' => '.',
                c => c,
            })
            .collect()
    };
    let is_plain = relative.split('/').all(|part| {
        let mut components = Path::new(part).components();
        matches!(components.next(), Some(Component::Normal(_))) && !part.contains('\0')
    });
    is_plain.then(|| Path::new("/proc/sys").join(relative))
}

/// The name of a kernel setting's file, as sysctl(8) has it: the inverse of [`sysctl_path`]. `None` for a path that
/// is not below `/proc/sys`, or is no text.
#[must_use]
pub(crate) fn sysctl_name(path: &Path) -> Option<String> {
    let relative = path.strip_prefix("/proc/sys").ok()?.to_str()?;
    let swapped = relative.chars().map(|c| match c {
        '/' => '.',
        '.' => '/',
        c => c,
    });
    Some(swapped.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_a_name_that_leads_back_to_it() {
        for name in ["net.core.rmem_max", "net.ipv4.conf.eth0/100.rp_filter"] {
            let path = sysctl_path(name).expect("it is a name");
            assert_eq!(sysctl_name(&path).as_deref(), Some(name));
        }
        assert_eq!(sysctl_name(Path::new("/etc/passwd")), None);
    }

    #[test]
    fn names_of_settings_are_those_of_sysctl() {
        for (key, path) in [
            ("net.core.rmem_max", "/proc/sys/net/core/rmem_max"),
            ("net/core/rmem_max", "/proc/sys/net/core/rmem_max"),
            (
                "net.ipv4.conf.eth0/100.rp_filter",
                "/proc/sys/net/ipv4/conf/eth0.100/rp_filter",
            ),
            (
                "net/ipv4/conf/eth0.100/rp_filter",
                "/proc/sys/net/ipv4/conf/eth0.100/rp_filter",
            ),
        ] {
            assert_eq!(sysctl_path(key).as_deref(), Some(Path::new(path)), "{key}");
        }
    }

    #[test]
    fn a_name_that_leads_out_of_the_settings_is_none() {
        for key in [
            "",
            "rmem_max",
            "net//core",
            "net..core",
            "/etc/passwd",
            "net/../../../etc/passwd",
            "net/./core",
            "net./.core",
            "net.//.//.etc",
            ".net.core",
            "net.core.",
            "net.co\0re",
        ] {
            assert_eq!(sysctl_path(key), None, "{key}");
        }
    }
}
