//! Replaces the content of a file atomically.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use files::outputs::{Destination, folder_of, resolved};
use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fsetxattr};

use crate::host::replacement_name;

/// The longest list of extended attributes, and the longest value (`XATTR_LIST_MAX`,
/// `XATTR_SIZE_MAX` in the kernel's include/uapi/linux/limits.h).
const XATTR_BYTES_MAX: usize = 65_536;

/// Replaces the content; see [`crate::Host::replace`]. Others cannot read a new file that
/// `is_private`.
pub(super) fn replace(path: &Path, content: &[u8], is_private: bool) -> io::Result<()> {
    let real = real_path(path)?;
    let old = match File::open(&real) {
        Ok(file) => Some(replaceable(file)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let new = replacement_name(&real);
    remove_if_there(&new)?;
    let written = write_new(&new, content, old.as_ref(), is_private);
    let replaced = written.and_then(|()| fs::rename(&new, &real));
    if replaced.is_err() {
        let _ = fs::remove_file(&new);
    }
    replaced?;
    sync_folder(&real)
}

/// Removes the temporary file of an interrupted replacement.
pub(super) fn discard(path: &Path) -> io::Result<()> {
    remove_if_there(&replacement_name(&real_path(path)?))
}

/// The file behind a symbolic link: the link itself is kept.
pub(super) fn real_path(path: &Path) -> io::Result<PathBuf> {
    match resolved(path) {
        // The caller says that it is missing, or does not mind.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(path.to_owned()),
        Err(error) => Err(error),
        Ok(Destination::File(real)) if path.is_symlink() && !real.exists() => Err(io::Error::new(
            io::ErrorKind::NotFound,
            "it is a link to a file that does not exist",
        )),
        Ok(Destination::File(real) | Destination::InPlace(real)) => Ok(real),
        Ok(Destination::Stdout | Destination::Stderr) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        )),
    }
}

/// Syncs the names in a file's folder to the disk.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

/// The old file, if it can be replaced without losing anything but its content.
fn replaceable(file: File) -> io::Result<(File, Metadata)> {
    let metadata = file.metadata()?;
    let refusal = if !metadata.is_file() {
        "not a regular file"
    } else if metadata.nlink() > 1 {
        "it has other hard links, which would keep the old content"
    } else {
        return Ok((file, metadata));
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, refusal))
}

fn write_new(
    path: &Path,
    content: &[u8],
    old: Option<&(File, Metadata)>,
    is_private: bool,
) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if old.is_some() || is_private {
        // An old file: nobody else may read it until it has that one's owner and mode.
        options.mode(0o600);
    }
    let mut file = options.open(path)?;
    file.write_all(content)?;
    if let Some((old, metadata)) = old {
        let ours = file.metadata()?;
        if (ours.uid(), ours.gid()) != (metadata.uid(), metadata.gid()) {
            fchown(&file, Some(metadata.uid()), Some(metadata.gid()))?;
        }
        copy_attributes(old, &file)?;
        // After the owner: changing that clears the set-user-ID bits.
        file.set_permissions(fs::Permissions::from_mode(metadata.mode() & 0o7777))?;
    }
    file.sync_all()
}

/// Copies extended attributes, such as access control lists and labels. Some file systems have
/// none.
fn copy_attributes(from: &File, to: &File) -> io::Result<()> {
    let mut names = vec![0_u8; XATTR_BYTES_MAX];
    let length = match flistxattr(from, &mut names[..]) {
        Ok(length) => length,
        Err(rustix::io::Errno::OPNOTSUPP) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let names = names.get(..length).unwrap_or_default();
    for name in names.split(|&byte| byte == 0).filter(|n| !n.is_empty()) {
        let mut value = vec![0_u8; XATTR_BYTES_MAX];
        let length = fgetxattr(from, name, &mut value[..])?;
        let value = value.get(..length).unwrap_or_default();
        fsetxattr(to, name, value, XattrFlags::empty())?;
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
