//! The reversible changes that an experiment makes to a machine.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The largest file that is changed: a configuration file, of which the journal keeps copies.
pub const FILE_SIZE_MAX: usize = 4 << 20;

/// One change: what is set, and its new value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// A kernel setting below `/proc/sys`.
    Sysctl {
        /// Its name in the form of sysctl(8): `net.core.rmem_max`.
        key: String,
        /// The value as typed by hand; a line feed is appended.
        value: String,
    },
    /// Replaces the whole content of a file.
    File {
        /// Absolute path of the file.
        path: PathBuf,
        /// The whole new content of the file.
        #[serde(with = "crate::content::bytes")]
        content: Vec<u8>,
    },
    /// A command, and the command that undoes it.
    Command {
        /// Name of the factor. It distinguishes this command from the others of the experiment.
        name: String,
        /// The shell command line that makes the change.
        apply: String,
        /// Runs once at the end, however often `apply` ran. It must be safe to run twice.
        restore: String,
        /// Added to the environment of both commands, with its present values.
        environment: BTreeMap<String, String>,
        /// The time limit of either command.
        limit: Duration,
    },
    /// Changes nothing yet: registers a command that runs when everything is restored, also if the
    /// guardian does it. Services that were started with changed settings take up the old ones. To
    /// be made before the others.
    AtEnd {
        /// A shell command line.
        command: String,
        /// Added to its environment.
        environment: BTreeMap<String, String>,
        /// The command is killed after this time.
        limit: Duration,
    },
}

/// The file of a kernel setting. As in sysctl(8), the first separator decides: names with dots
/// within a part are written with slashes (`net/ipv4/conf/eth0.100/rp_filter`). `None` if the name
/// is invalid, for example because of an empty part or `..`.
#[must_use]
pub fn sysctl_path(key: &str) -> Option<PathBuf> {
    let separator = key.find(['.', '/']).map(|at| key.as_bytes()[at])?;
    let relative = if separator == b'/' {
        key.to_owned()
    } else {
        // The reverse applies as well: `net.ipv4.conf.eth0/100.rp_filter` means eth0.100.
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

/// The name of a kernel setting's file in the form of sysctl(8): the inverse of [`sysctl_path`].
/// `None` for a path outside `/proc/sys`, or one that is not UTF-8.
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
    fn the_name_of_a_path_gives_the_same_path() {
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
    fn a_name_that_points_outside_of_the_settings_is_invalid() {
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
