//! Control groups: finds ours, whether it has a CPU quota, and how often the quota throttled it
//! (Documentation/admin-guide/cgroup-v1/ and cgroup-v2.rst, Documentation/scheduler/sched-bwc.rst).

use std::path::{Component, Path, PathBuf};

/// The two interfaces; a machine may have both mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V1,
    V2,
}

/// Throttling of a group with a quota since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Throttling {
    /// Periods in which it used up its quota.
    pub(crate) periods: u64,
    /// Time it was kept from running, summed over CPUs, nanoseconds.
    pub(crate) time_ns: u64,
}

impl Version {
    /// The file with a group's quota.
    pub(crate) fn quota_file(self) -> &'static str {
        match self {
            Self::V1 => "cpu.cfs_quota_us",
            Self::V2 => "cpu.max",
        }
    }

    /// Whether the text of [`Self::quota_file`] is a limit: neither `max` nor -1.
    pub(crate) fn is_quota(self, text: &str) -> bool {
        let quota_us = text.split_ascii_whitespace().next();
        quota_us
            .and_then(|number| number.parse::<i64>().ok())
            .is_some_and(|quota_us| quota_us > 0)
    }

    /// Our group's path, from `/proc/self/cgroup` (cgroups(7)): `4:cpu,cpuacct:/a/b` or `0::/a/b`.
    fn path(self, memberships: &str) -> Option<&str> {
        memberships.lines().find_map(|line| {
            let (hierarchy, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let ours = match self {
                Self::V1 => controllers.split(',').any(|name| name == "cpu"),
                Self::V2 => hierarchy == "0" && controllers.is_empty(),
            };
            ours.then_some(path)
        })
    }

    /// The mount point and the group that is its root, from `/proc/self/mountinfo` (proc(5)).
    fn mount(self, mountinfo: &str) -> Option<(PathBuf, PathBuf)> {
        mountinfo.lines().find_map(|line| {
            let (mount, filesystem) = line.split_once(" - ")?;
            let mut mount = mount.split(' ').skip(3);
            let (root, point) = (mount.next()?, mount.next()?);
            let mut filesystem = filesystem.split(' ');
            let (kind, _source, options) =
                (filesystem.next()?, filesystem.next()?, filesystem.next()?);
            let ours = match self {
                Self::V1 => kind == "cgroup" && options.split(',').any(|option| option == "cpu"),
                Self::V2 => kind == "cgroup2",
            };
            ours.then(|| (unescape(root).into(), unescape(point).into()))
        })
    }
}

/// The folders of our group and of its ancestors, innermost first, as far as they are visible. For
/// a group outside of the mount (in another namespace), the mount's root is used.
pub(crate) fn folders(version: Version, memberships: &str, mountinfo: &str) -> Vec<PathBuf> {
    let (Some(path), Some((root, point))) = (version.path(memberships), version.mount(mountinfo))
    else {
        return Vec::new();
    };
    let below = Path::new(path)
        .strip_prefix(&root)
        .unwrap_or_else(|_| Path::new(""));
    let plain = below
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    let own = if plain {
        point.join(below)
    } else {
        point.clone()
    };
    own.ancestors()
        .take_while(|folder| folder.starts_with(&point))
        .map(Path::to_owned)
        .collect()
}

/// Reads `cpu.stat`; its times are in nanoseconds in version 1 and in microseconds in version 2.
pub(crate) fn throttling(cpu_stat: &str) -> Option<Throttling> {
    let value = |wanted: &str| {
        cpu_stat.lines().find_map(|line| {
            let (name, number) = line.split_once(' ')?;
            (name == wanted)
                .then(|| number.trim().parse::<u64>().ok())
                .flatten()
        })
    };
    let microseconds = || value("throttled_usec")?.checked_mul(1000);
    Some(Throttling {
        periods: value("nr_throttled")?,
        time_ns: value("throttled_time").or_else(microseconds)?,
    })
}

/// Decodes escapes of blanks and similar characters in mount paths, such as `\040`.
fn unescape(text: &str) -> String {
    let mut pieces = text.split('\\');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let code = piece
            .get(..3)
            .and_then(|code| u8::from_str_radix(code, 8).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                plain.push(char::from(code));
                plain.push_str(&piece[3..]);
            }
            None => {
                plain.push('\\');
                plain.push_str(piece);
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const V1_MOUNTS: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n\
        32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
    const V1_MEMBER: &str = "9:name=systemd:/\n3:cpuset:/\n1:cpu,cpuacct:/a/b\n0::/c\n";

    #[test]
    fn groups_of_both_interfaces_are_found_innermost_first() {
        let cpu = |path: &str| Path::new("/sys/fs/cgroup/cpu").join(path);
        let found = folders(Version::V1, V1_MEMBER, V1_MOUNTS);
        assert_eq!(found, [cpu("a/b"), cpu("a"), cpu("")]);
        let unified = |path: &str| Path::new("/sys/fs/cgroup/unified").join(path);
        let found = folders(Version::V2, V1_MEMBER, V1_MOUNTS);
        assert_eq!(found, [unified("c"), unified("")]);
    }

    #[test]
    fn in_a_container_the_mount_shows_the_group_itself() {
        // Its own namespace, then the host's path with a mount of just that group.
        for (member, mounts) in [
            (
                "0::/\n",
                "30 23 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
            ),
            (
                "0::/docker/abc\n",
                "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
            ),
            (
                "0::/../other\n",
                "30 23 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
            ),
        ] {
            let found = folders(Version::V2, member, mounts);
            assert_eq!(found, [Path::new("/sys/fs/cgroup")], "{member}");
        }
    }

    #[test]
    fn blanks_in_mount_paths_are_decoded() {
        let mounts = "30 23 0:26 / /my\\040groups\\134x ro - cgroup2 cgroup rw\n";
        let found = folders(Version::V2, "0::/\n", mounts);
        assert_eq!(found, [Path::new("/my groups\\x")]);
    }

    #[test]
    fn without_the_controller_there_is_no_group() {
        assert_eq!(
            folders(Version::V1, "3:cpuset:/\n", V1_MOUNTS),
            Vec::<PathBuf>::new()
        );
        assert_eq!(folders(Version::V1, V1_MEMBER, ""), Vec::<PathBuf>::new());
        assert_eq!(folders(Version::V2, "", V1_MOUNTS), Vec::<PathBuf>::new());
    }

    #[test]
    fn only_a_number_above_zero_is_a_quota() {
        for (version, text, quota) in [
            (Version::V1, "20000\n", true),
            (Version::V1, "-1\n", false),
            (Version::V1, "", false),
            (Version::V2, "50000 100000\n", true),
            (Version::V2, "max 100000\n", false),
            (Version::V2, "0 100000\n", false),
            (Version::V2, "99999999999999999999 1", false),
        ] {
            assert_eq!(version.is_quota(text), quota, "{text:?}");
        }
    }

    #[test]
    fn throttling_is_read_in_the_units_of_each_interface() {
        let expected = Throttling {
            periods: 11,
            time_ns: 557_062_000,
        };
        let v1 = "nr_periods 12\nnr_throttled 11\nthrottled_time 557062000\nnr_bursts 0\n";
        let v2 = "usage_usec 5\nnr_periods 12\nnr_throttled 11\nthrottled_usec 557062\n";
        assert_eq!(throttling(v1), Some(expected));
        assert_eq!(throttling(v2), Some(expected));
        // The root group of version 2 has no such counters.
        for text in [
            "",
            "usage_usec 5\nuser_usec 5\n",
            "nr_throttled 1\n",
            "nr_throttled x\nthrottled_time 1\n",
            "nr_throttled 1\nthrottled_usec 18446744073709551615\n",
        ] {
            assert_eq!(throttling(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(
            text in "\\PC{0,200}",
            lines in proptest::collection::vec("[0-9a-z:,/. \\\\-]{0,60}", 0..8),
        ) {
            let lines = lines.join("\n");
            for text in [text.as_str(), lines.as_str()] {
                for version in [Version::V1, Version::V2] {
                    let _ = version.is_quota(text);
                    let _ = folders(version, text, V1_MOUNTS);
                    let _ = folders(version, V1_MEMBER, text);
                }
                let _ = throttling(text);
                let _ = unescape(text);
                let _ = super::super::stat::parse(text);
                let _ = super::super::schedstat::parse(text);
                let _ = super::super::pressure::some_total_ns(text);
                let _ = super::super::pressure::totals_us(text).count();
                let _ = super::super::stat::cpu_ticks(text).count();
                let _ = super::super::stat::events(text);
                let _ = super::super::snmp::parse(text);
                let _ = super::super::softnet::parse(text);
            }
        }
    }
}
