//! A control group with a CPU quota of half a core, if the machine allows it.

use std::fs;
use std::path::{Path, PathBuf};

/// Half a core, in periods of 0.1 s.
const PERIOD_US: u32 = 100_000;
const QUOTA_US: u32 = 50_000;

/// A control group; removed on drop, when no process may be left in it.
#[derive(Debug)]
pub(crate) struct Quota {
    folder: PathBuf,
}

impl Quota {
    /// Creates the group below that of this process; `None` if that is not allowed or there is no
    /// CPU controller.
    pub(crate) fn half_a_core() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let name = format!("wrkbench-truth-{}", std::process::id());
        parents(&mounts, &groups)
            .into_iter()
            .find_map(|parent| Self::within(&parent, &name))
    }

    fn within(parent: &Path, name: &str) -> Option<Self> {
        let folder = parent.join(name);
        fs::create_dir(&folder).ok()?;
        let quota = Self { folder };
        quota.limit().is_ok().then_some(quota)
    }

    fn limit(&self) -> std::io::Result<()> {
        let write = |file: &str, text: String| {
            let path = self.folder.join(file);
            // Does not create the file: if it is missing, there is no such controller.
            let file = fs::OpenOptions::new().write(true).open(path)?;
            std::io::Write::write_all(&mut &file, text.as_bytes())
        };
        // Version 2, otherwise version 1 (Documentation/scheduler/sched-bwc.rst).
        write("cpu.max", format!("{QUOTA_US} {PERIOD_US}")).or_else(|_| {
            write("cpu.cfs_period_us", PERIOD_US.to_string())?;
            write("cpu.cfs_quota_us", QUOTA_US.to_string())
        })
    }

    /// A command prefix that starts a program in the group.
    pub(crate) fn launcher(&self) -> Vec<String> {
        let enter = "echo $$ > \"$0\" && exec \"$@\"";
        let processes = self.folder.join("cgroup.procs").display().to_string();
        ["/bin/sh", "-c", enter, &processes]
            .map(ToOwned::to_owned)
            .into()
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // Fails only if processes are left, which does no harm.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The group of this process in each hierarchy that may have the CPU controller (cgroups(7)).
fn parents(mounts: &str, groups: &str) -> Vec<PathBuf> {
    let mut parents = Vec::new();
    for mount in mounts.lines() {
        let fields: Vec<&str> = mount.split(' ').collect();
        let [_, point, kind, options, ..] = fields[..] else {
            continue;
        };
        let has_cpu = options.split(',').any(|option| option == "cpu");
        let own = groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (controllers, path) = (parts.nth(1)?, parts.next()?);
            let is_it = match kind {
                "cgroup2" => controllers.is_empty(),
                "cgroup" => has_cpu && controllers.split(',').any(|one| one == "cpu"),
                _ => false,
            };
            is_it.then_some(path)
        });
        if let Some(own) = own {
            parents.push(Path::new(point).join(own.trim_start_matches('/')));
        }
    }
    parents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_group_is_found_in_both_versions() {
        let mounts = "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n\
                      cgroup /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\nbroken\n";
        let groups = "9:cpu,cpuacct:/a/b\n8:cpuset:/\n0::/c\nbroken\n";
        assert_eq!(
            parents(mounts, groups),
            [
                Path::new("/sys/fs/cgroup/cpu/a/b"),
                Path::new("/sys/fs/cgroup/unified/c")
            ]
        );
        assert!(parents("", groups).is_empty() && parents(mounts, "").is_empty());
    }

    #[test]
    fn a_folder_without_the_controller_gives_no_quota_and_is_removed() {
        let parent = std::env::temp_dir();
        let name = format!("wrkbench-quota-test-{}", std::process::id());
        assert!(Quota::within(&parent, &name).is_none());
        assert!(!parent.join(name).exists());
    }
}
