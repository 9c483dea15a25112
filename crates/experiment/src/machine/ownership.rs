//! Whether only this user or root can have written a file.
//!
//! A journal contains commands, which a restore runs: a journal that others could have written must
//! not be trusted.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use plan::shell::quoted;
use rustix::process::{getegid, geteuid};

use crate::host::{UntrustedPath, is_absence};

/// In a folder with this bit, only the owner of a file can remove it (inode(7)).
const STICKY: u32 = 0o1000;
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;

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
    let user = User {
        id: geteuid().as_raw(),
        group: getegid().as_raw(),
        outside: outside(),
    };
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

/// What is wrong with one file or folder. A folder on the way may be writable by others if it is
/// sticky, like /tmp.
fn judge(user: &User, path: &Path, metadata: &Metadata, is_end: bool) -> Option<UntrustedPath> {
    let shown = quoted(&path.to_string_lossy());
    let owner = metadata.uid();
    let is_outside = !is_end && user.outside == Some(owner);
    if owner != 0 && owner != user.id && !is_outside {
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
