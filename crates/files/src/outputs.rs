//! Where output files go: symbolic links are followed as the kernel follows them for others.
//!
//! Whoever writes a file under another name and renames it must find out where a link leads, and
//! the kernel's protection (`fs.protected_symlinks`) knows nothing of that. So its rule is applied
//! here, and also on machines where it is switched off.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, OFlags, accessat};
use rustix::io::Errno;
use rustix::process::geteuid;

/// In a folder with this bit, only the owner of a file can remove it (inode(7)).
const STICKY: u32 = 0o1000;
const OTHERS_WRITE: u32 = 0o002;
const OWNER_WRITES: u32 = 0o200;

/// The kernel's limit for following symbolic links (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// What the path of an output file leads to.
#[derive(Debug)]
pub enum Destination {
    /// A regular file, or one that does not exist yet; not a link.
    File(PathBuf),
    /// Something that cannot be replaced: a pipe, a device, another process's open file.
    InPlace(PathBuf),
    /// The program's stdout. Opened again by name, it would be overwritten from the start.
    Stdout,
    /// The program's stderr, likewise.
    Stderr,
}

/// Where an output file goes: its path without symbolic links.
///
/// # Errors
/// As [`resolved`], or if it is there and read-only.
pub fn destination(path: &Path) -> io::Result<Destination> {
    let destination = resolved(path)?;
    if let Destination::File(file) = &destination {
        check_writable(file)?;
    }
    Ok(destination)
}

/// Follows the symbolic links in the path of an output file.
///
/// # Errors
/// If its folder does not exist, there are too many links, or somebody else has put a link where
/// everybody can put one.
pub fn resolved(path: &Path) -> io::Result<Destination> {
    let open_files = fs::canonicalize("/proc/self/fd").ok();
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let folder = fs::canonicalize(folder_of(&path))?;
        let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        let here = folder.join(name);
        if open_files.as_ref() == Some(&folder) {
            return Ok(match name.to_str() {
                Some("1") => Destination::Stdout,
                Some("2") => Destination::Stderr,
                _ => Destination::InPlace(here),
            });
        }
        match fs::symlink_metadata(&here) {
            Ok(metadata) if metadata.is_symlink() => {
                check_link(&here, &metadata, &fs::metadata(&folder)?)?;
                path = folder.join(fs::read_link(&here)?);
            }
            Ok(metadata) if !metadata.is_file() => return Ok(Destination::InPlace(here)),
            Ok(_) => return Ok(Destination::File(here)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Destination::File(here));
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from(Errno::LOOP))
}

/// Creates or empties an output file. What is not a regular file is opened as it is.
///
/// # Errors
/// As [`destination`], or if it cannot be opened.
pub fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true);
    match destination(path)? {
        Destination::File(path) => unfollowed(&mut options)
            .create(true)
            .truncate(true)
            .open(path),
        Destination::InPlace(path) => options.open(path),
        Destination::Stdout => Ok(io::stdout().as_fd().try_clone_to_owned()?.into()),
        Destination::Stderr => Ok(io::stderr().as_fd().try_clone_to_owned()?.into()),
    }
}

/// Opens nothing through a link: one that has replaced a [`Destination::File`] meanwhile has not
/// been judged.
pub fn unfollowed(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
}

/// The folder of a file; `.` for a bare name.
#[must_use]
pub fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Refuses a file that would be replaced although it is read-only: a rename does not ask for the
/// permissions of the old file. Root may write every file, and heeds what its owner says.
fn check_writable(file: &Path) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata?,
    };
    match accessat(CWD, file, Access::WRITE_OK, AtFlags::EACCESS) {
        Err(Errno::ACCESS) => {}
        Ok(()) if metadata.mode() & OWNER_WRITES == 0 => {}
        access => return Ok(access?),
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        "is read-only: make it writable (chmod u+w), or choose another path",
    ))
}

fn check_link(path: &Path, link: &Metadata, folder: &Metadata) -> io::Result<()> {
    if is_followed(link.uid(), folder, geteuid().as_raw()) {
        return Ok(());
    }
    let problem = format!(
        "{path:?} is a symbolic link of user {}, in a directory in which everybody can put one, \
         and is not followed: remove it, or choose another path",
        link.uid()
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
}

/// The rule of `fs.protected_symlinks` (`may_follow_link` in the kernel's fs/namei.c).
fn is_followed(link_owner: u32, folder: &Metadata, follower: u32) -> bool {
    let everybody_writes = folder.mode() & STICKY != 0 && folder.mode() & OTHERS_WRITE != 0;
    !everybody_writes || link_owner == follower || link_owner == folder.uid()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    use testkit::Folder;

    use super::*;

    /// Users that no test runs as.
    const SOMEBODY: u32 = 54_321;
    const ANOTHER: u32 = 54_322;

    #[test]
    fn a_link_is_followed_if_its_owner_follows_it_or_owns_the_directory() {
        let folder = Folder::new();
        let owner = fs::metadata(folder.path()).expect("it exists").uid();
        for (mode, link_owner, follower, expected) in [
            (0o1777, SOMEBODY, ANOTHER, false),
            (0o1777, SOMEBODY, owner, false),
            (0o1777, SOMEBODY, SOMEBODY, true),
            (0o1777, owner, SOMEBODY, true),
            // Without one of the two bits it is not a folder like /tmp.
            (0o0777, SOMEBODY, ANOTHER, true),
            (0o1775, SOMEBODY, ANOTHER, true),
        ] {
            fs::set_permissions(folder.path(), Permissions::from_mode(mode)).expect("it is ours");
            let metadata = fs::metadata(folder.path()).expect("it exists");
            assert_eq!(
                is_followed(link_owner, &metadata, follower),
                expected,
                "{mode:o}, link of {link_owner}, followed by {follower}, folder of {owner}"
            );
        }
    }

    #[test]
    fn a_link_that_another_user_has_planted_is_not_followed_by_root() {
        if !testkit::is_root() {
            testkit::skip("root", "a link of another user needs root");
            return;
        }
        let folder = Folder::new();
        let target = folder.path().join("target");
        let shared = folder.path().join("shared");
        fs::create_dir(&shared).expect("it is new");
        fs::set_permissions(&shared, Permissions::from_mode(0o1777)).expect("it is ours");
        let planted = shared.join("r.json");
        symlink(&target, &planted).expect("it is new");
        lchown(&planted, Some(SOMEBODY), Some(SOMEBODY)).expect("root may");
        // Directly, and through a link of our own.
        let own = folder.path().join("own");
        symlink(&planted, &own).expect("it is new");
        for target_exists in [false, true] {
            if target_exists {
                fs::write(&target, "old").expect("the folder is ours");
            }
            for path in [&planted, &own] {
                let error = destination(path).expect_err("it is not ours");
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
                assert_eq!(
                    error.to_string(),
                    format!(
                        "{planted:?} is a symbolic link of user 54321, in a directory in which \
                         everybody can put one, and is not followed: remove it, or choose another \
                         path"
                    )
                );
                create(path).expect_err("it is not ours");
            }
            assert_eq!(target.exists(), target_exists);
        }
        assert_eq!(fs::read(&target).expect("it is there"), b"old");
        // The links of the directory's owner are followed.
        lchown(&planted, Some(0), Some(0)).expect("root may");
        create(&own).expect("it is ours");
        assert_eq!(fs::read(&target).expect("it is there"), b"");
    }

    #[test]
    fn a_link_that_appears_after_its_path_was_judged_is_not_opened() {
        let folder = Folder::new();
        let path = folder.path().join("link");
        symlink("target", &path).expect("it is new");
        let mut options = OpenOptions::new();
        let opened = unfollowed(&mut options)
            .write(true)
            .create(true)
            .open(&path);
        let error = opened.expect_err("it is a link");
        assert_eq!(error.raw_os_error(), Some(Errno::LOOP.raw_os_error()));
        assert_eq!(folder.names(), ["link"]);
    }

    #[test]
    fn a_read_only_file_is_not_replaced_also_by_root() {
        let folder = Folder::new();
        let path = folder.path().join("r.json");
        fs::write(&path, "kept").expect("it is new");
        let link = folder.path().join("link");
        symlink(&path, &link).expect("it is new");
        for (mode, is_writable) in [(0o444, false), (0o400, false), (0o200, true), (0o644, true)] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("it is ours");
            for path in [&path, &link] {
                match destination(path) {
                    Ok(_) => assert!(is_writable, "{mode:o}"),
                    Err(error) => {
                        assert!(!is_writable, "{mode:o}: {error}");
                        assert_eq!(
                            error.to_string(),
                            "is read-only: make it writable (chmod u+w), or choose another path"
                        );
                        create(path).expect_err("it is read-only");
                    }
                }
                resolved(path).expect("links are another matter");
            }
        }
        assert_eq!(fs::read(&path).expect("it is ours"), b"kept");
    }

    #[test]
    fn stdout_and_stderr_are_recognized_by_all_their_names() {
        for path in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
            let found = destination(Path::new(path)).expect("it exists");
            assert!(matches!(found, Destination::Stdout), "{path}");
        }
        let found = destination(Path::new("/dev/stderr")).expect("it exists");
        assert!(matches!(found, Destination::Stderr));
        let found = destination(Path::new("/dev/fd/0")).expect("it exists");
        assert!(matches!(found, Destination::InPlace(_)));
    }
}
