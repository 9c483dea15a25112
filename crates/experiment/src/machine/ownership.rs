//! Whether only this user or root can have written a file, or decides where it is.
//!
//! A journal contains commands, which a restore runs: a journal that others could have written must
//! not be trusted. Results are written by whoever runs the sweep, often root: others must not
//! choose the place.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use plan::shell::quoted;
use rustix::process::{getegid, geteuid};

use crate::host::{UntrustedPath, is_absence};

/// In a folder with this bit, only the owner of a file can remove it (inode(7)).
const STICKY: u32 = 0o1000;
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;

/// The kernel's limit for following symbolic links (path_resolution(7)).
const LINKS_MAX: u32 = 40;

/// The user who restores.
struct User {
    id: u32,
    group: u32,
    /// In a user namespace, folders of the machine's root belong to an ID that stands for all users
    /// outside.
    outside: Option<u32>,
}

/// The real machine's answer to [`crate::Host::untrusted`].
pub(super) fn untrusted(path: &Path) -> io::Result<Option<UntrustedPath>> {
    let user = User::this();
    let path = std::path::absolute(path)?;
    let metadata = match fs::symlink_metadata(&path) {
        Ok(metadata) => metadata,
        Err(error) if is_absence(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    if metadata.is_symlink() {
        return Ok(Some(UntrustedPath {
            path,
            why: "is a symbolic link, which can lead anywhere".to_owned(),
            remedy: "use the folder itself".to_owned(),
        }));
    }
    if let Some(found) = judge(&user, &path, &metadata, true) {
        return Ok(Some(found));
    }
    // The path as given, and its real path without symbolic links.
    let real = fs::canonicalize(&path)?;
    for ancestor in path.ancestors().skip(1).chain(real.ancestors().skip(1)) {
        let metadata = fs::symlink_metadata(ancestor)?;
        if let Some(found) = judge(&user, ancestor, &metadata, false) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Whether another user decides where the results in a folder are written, which need not exist: a
/// symbolic link of another user leads to it, or it lies in a folder of another user in which
/// everybody can put one.
///
/// # Errors
/// Those of the file system.
pub fn misplaced(folder: &Path) -> io::Result<Option<UntrustedPath>> {
    let user = User::this();
    // The names that are left, the last one first.
    let mut left: Vec<OsString> = names(&std::path::absolute(folder)?);
    let mut way = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = left.pop() {
        if name == ".." {
            way.pop();
            continue;
        }
        let here = way.join(&name);
        let metadata = match fs::symlink_metadata(&here) {
            Ok(metadata) => metadata,
            Err(error) if is_absence(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        if let Some(found) = judge_way(&user, &here, &metadata, left.is_empty()) {
            return Ok(Some(found));
        }
        if !metadata.is_symlink() {
            way = here;
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(io::Error::from(rustix::io::Errno::LOOP));
        }
        let target = fs::read_link(&here)?;
        if target.is_absolute() {
            way = PathBuf::from("/");
        }
        left.extend(names(&target));
    }
    Ok(None)
}

/// The names in a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let is_name =
        |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    let names = path.components().filter(is_name);
    names
        .map(|name| name.as_os_str().to_owned())
        .rev()
        .collect()
}

/// What is wrong with one step on the way to a folder of results.
fn judge_way(user: &User, path: &Path, metadata: &Metadata, is_end: bool) -> Option<UntrustedPath> {
    let owner = metadata.uid();
    if user.trusts(owner) || user.outside == Some(owner) {
        return None;
    }
    let (why, remedy) = if metadata.is_symlink() {
        (
            format!("is a symbolic link of user {owner}, which can lead anywhere"),
            "name the folder that it should lead to (results = \"...\"), or remove the link",
        )
    } else if !is_end && metadata.mode() & OTHERS_WRITE != 0 {
        (
            format!(
                "belongs to user {owner} and can be written by everybody (mode {:04o})",
                metadata.mode() & 0o7777
            ),
            "choose a folder elsewhere (results = \"...\", or run this in another folder)",
        )
    } else {
        return None;
    };
    Some(UntrustedPath {
        path: path.to_owned(),
        why,
        remedy: remedy.to_owned(),
    })
}

/// What is wrong with one file or folder. A folder on the way may be writable by others if it is
/// sticky, like /tmp.
fn judge(user: &User, path: &Path, metadata: &Metadata, is_end: bool) -> Option<UntrustedPath> {
    let shown = quoted(&path.to_string_lossy());
    let owner = metadata.uid();
    let is_outside = !is_end && user.outside == Some(owner);
    if !user.trusts(owner) && !is_outside {
        return Some(UntrustedPath {
            path: path.to_owned(),
            why: format!("belongs to user {owner}, not to {}", user.in_words()),
            remedy: format!(
                "run this as user {owner}, or check its content and then `chown {} {shown}`",
                user.id
            ),
        });
    }
    // The mode of a link means nothing.
    if metadata.is_symlink() || (!is_end && metadata.mode() & STICKY != 0) {
        return None;
    }
    let group_writes = metadata.mode() & GROUP_WRITES != 0 && metadata.gid() != user.group;
    let others_write = metadata.mode() & OTHERS_WRITE != 0;
    (group_writes || others_write).then(|| UntrustedPath {
        path: path.to_owned(),
        why: format!(
            "can be written by {} (mode {:04o})",
            if others_write {
                "everybody"
            } else {
                "its group"
            },
            metadata.mode() & 0o7777
        ),
        remedy: format!("check its content, then `chmod go-w {shown}`"),
    })
}

impl User {
    /// The user of this process.
    fn this() -> Self {
        Self {
            id: geteuid().as_raw(),
            group: getegid().as_raw(),
            outside: outside(),
        }
    }

    /// Whether what this owner decides is decided by the user or by root.
    fn trusts(&self, owner: u32) -> bool {
        owner == 0 || owner == self.id
    }

    fn in_words(&self) -> String {
        match self.id {
            0 => "root".to_owned(),
            id => format!("you (user {id}) or root"),
        }
    }
}

/// The ID that stands for users outside this user namespace; `None` in the initial namespace, which
/// maps every ID to itself (user_namespaces(7)).
fn outside() -> Option<u32> {
    let map = fs::read_to_string("/proc/self/uid_map").ok()?;
    let words: Vec<&str> = map.split_whitespace().collect();
    if words == ["0", "0", "4294967295"] {
        return None;
    }
    let id = fs::read_to_string("/proc/sys/kernel/overflowuid").ok()?;
    id.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    use testkit::Folder;

    use super::*;

    const OTHER: Option<u32> = Some(1000);

    fn why(path: &Path) -> Option<String> {
        misplaced(path).unwrap().map(|found| found.why)
    }

    #[test]
    fn results_are_written_where_only_the_user_decides() {
        let folder = Folder::new();
        assert_eq!(why(&folder.join("results/a/trials")), None);
        fs::create_dir(folder.join("elsewhere")).unwrap();
        symlink("elsewhere", folder.join("results")).unwrap();
        assert_eq!(why(&folder.join("results/a/trials")), None, "an own link");
        symlink("missing", folder.join("lost")).unwrap();
        assert_eq!(why(&folder.join("lost/a")), None, "an own link to nowhere");
    }

    #[test]
    fn a_link_of_another_user_is_not_followed() {
        if !testkit::is_root() {
            return testkit::skip("root", "links of other users");
        }
        let folder = Folder::new();
        let link = folder.join("results");
        for target in ["/etc", "missing"] {
            symlink(target, &link).unwrap();
            lchown(&link, OTHER, OTHER).unwrap();
            let said = why(&link.join("a/trials")).expect("it leads anywhere");
            assert!(
                said.starts_with("is a symbolic link of user 1000"),
                "{said}"
            );
            // An own link that leads through that of another user.
            let own = folder.join("own");
            symlink(&link, &own).unwrap();
            let through = misplaced(&own.join("a")).unwrap();
            fs::remove_file(&own).unwrap();
            fs::remove_file(&link).unwrap();
            assert!(through.is_some(), "{target}");
        }
    }

    #[test]
    fn a_folder_in_which_everybody_can_put_a_link_is_refused_unless_root_made_it() {
        if !testkit::is_root() {
            return testkit::skip("root", "folders of other users");
        }
        let folder = Folder::new();
        let shared = folder.join("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(why(&shared.join("results")), None, "as /tmp");
        lchown(&shared, OTHER, OTHER).unwrap();
        let said = why(&shared.join("results/a")).expect("everybody writes there");
        assert_eq!(
            said,
            "belongs to user 1000 and can be written by everybody (mode 1777)"
        );
        // The home of the user who has called sudo.
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(why(&shared.join("results/a")), None);
    }
}
