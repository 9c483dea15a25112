//! Kernel settings that may change when another one is written.
//!
//! The kernel shows some values under several names (`gc_min_interval` and `gc_min_interval_ms`),
//! and copies others (`conf/default` to every interface). There is no complete list, so the
//! settings close to the written one are read before and after each write.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::content::Content;
use crate::host::{Host, SettingsFolder};

/// Settings that change by themselves, or trigger an action when they are read.
const IGNORED: [&str; 2] = ["kernel/ns_last_pid", "vm/stat_refresh"];

/// Reads the settings related to this one: the others in its folder, and those of the same name in
/// sibling folders (`conf/eth0` next to `conf/default`). Unreadable settings are left out.
///
/// # Errors
/// When a folder cannot be listed.
pub(crate) fn read_related(host: &dyn Host, path: &Path) -> io::Result<BTreeMap<PathBuf, Content>> {
    let mut near = BTreeMap::new();
    for setting in list_related(host, path)? {
        // Some settings cannot be read before they are set (`stable_secret`). The second attempt is
        // for an error that occurs only once.
        if let Ok(content) = host.read(&setting).or_else(|_| host.read(&setting)) {
            near.insert(setting, Content(content));
        }
    }
    Ok(near)
}

fn list_related(host: &dyn Host, path: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(Vec::new());
    };
    let SettingsFolder { settings, .. } = host.list_settings(folder)?;
    let is_other = |setting: &PathBuf| {
        setting != path && !IGNORED.iter().any(|ignored| setting.ends_with(ignored))
    };
    let mut near: Vec<PathBuf> = settings.into_iter().filter(is_other).collect();
    if let Some(above) = folder.parent() {
        let siblings = host.list_settings(above)?.folders.into_iter();
        near.extend(siblings.filter(|it| it != folder).map(|it| it.join(name)));
    }
    Ok(near)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn related_settings_are_in_the_same_folder_or_have_the_same_name_in_a_sibling() {
        let mut host = Fake::with(&[
            ("/proc/sys/net/ipv4/ip_forward", "0\n"),
            ("/proc/sys/net/ipv4/conf/all/rp_filter", "1\n"),
            ("/proc/sys/net/ipv4/conf/default/rp_filter", "2\n"),
            ("/proc/sys/net/ipv4/conf/default/tag", "3\n"),
            ("/proc/sys/net/ipv4/conf/default/counted", "4\n"),
            ("/proc/sys/net/ipv4/conf/eth0/rp_filter", "5\n"),
            ("/proc/sys/net/ipv4/conf/eth0/tag", "6\n"),
            ("/proc/sys/kernel/ns_last_pid", "7\n"),
            ("/proc/sys/kernel/panic", "8\n"),
        ]);
        host.read_only
            .insert("/proc/sys/net/ipv4/conf/default/counted".into());
        let near = |path: &str| {
            let near = read_related(&host, Path::new(path)).unwrap();
            near.into_values()
                .map(|it| it.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            near("/proc/sys/net/ipv4/conf/default/rp_filter"),
            ["1", "3", "5"]
        );
        assert_eq!(near("/proc/sys/kernel/panic"), Vec::<String>::new());
    }
}
