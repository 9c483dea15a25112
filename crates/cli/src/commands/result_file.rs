//! Writes a file of results so that a reader finds the old one or the new one, never half of one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// Refuses a destination that cannot work, before a run is spent on it. `option` is named in the error.
///
/// # Errors
/// When the path is a folder, or lies in none.
pub(super) fn check_destination(option: &str, path: &Path) -> anyhow::Result<()> {
    if path.is_dir() {
        bail!("{option} {path:?}: is a directory (expected a file)");
    }
    let folder = folder_of(path);
    if !folder.is_dir() {
        bail!("{option} {path:?}: there is no directory {folder:?} (create it first)");
    }
    Ok(())
}

/// Writes a file as a whole: under a temporary name, to the disk, then renamed.
///
/// What exists and is no plain file (a pipe, `/dev/null`) is written to directly: renaming would
/// replace the device.
///
/// # Errors
/// When the file cannot be written; the old one is then untouched.
pub(super) fn write(
    option: &str,
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let outcome = match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => write_directly(path, content),
        // Through a symbolic link, so that the link stays one.
        Ok(metadata) => fs::canonicalize(path)
            .and_then(|file| replace(&file, Some(metadata.permissions()), content)),
        Err(_) => replace(path, None, content),
    };
    outcome.with_context(|| format!("{option} {path:?}: cannot write the result"))
}

fn write_directly(
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut output = BufWriter::new(OpenOptions::new().write(true).open(path)?);
    content(&mut output)?;
    output.flush()
}

fn replace(
    path: &Path,
    permissions: Option<fs::Permissions>,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let (temporary, file) = create_beside(path)?;
    let outcome = fill(file, permissions, content).and_then(|()| fs::rename(&temporary, path));
    if outcome.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&temporary);
    }
    outcome
}

fn fill(
    file: File,
    permissions: Option<fs::Permissions>,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut output = BufWriter::new(file);
    content(&mut output)?;
    let file = output
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
    }
    file.sync_all()
}

/// A new file in the same folder, since a rename does not cross file systems.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().ok_or(io::ErrorKind::InvalidFilename)?);
    name.push(format!(".{}.part", std::process::id()));
    let temporary = path.with_file_name(name);
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&temporary)?;
    Ok((temporary, file))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own for each test, removed with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!(
                "wrkbench-result-file-{}-{name}",
                std::process::id()
            ));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap();
            let mut names: Vec<String> = entries
                .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
                .collect();
            names.sort();
            names
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn text(text: &str) -> impl FnOnce(&mut dyn Write) -> io::Result<()> + use<'_> {
        move |output| output.write_all(text.as_bytes())
    }

    #[test]
    fn a_new_file_is_written_and_nothing_else_is_left() {
        let folder = Folder::new("new");
        let path = folder.0.join("r.json");
        write("--json", &path, text("one")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        assert_eq!(folder.names(), ["r.json"]);
    }

    #[test]
    fn a_failing_writer_leaves_the_old_file_and_no_temporary_one() {
        let folder = Folder::new("failing");
        let path = folder.0.join("r.json");
        write("--json", &path, text("old")).unwrap();
        let error = write("--json", &path, |output| {
            output.write_all(b"half")?;
            Err(io::Error::other("the disk is full"))
        })
        .unwrap_err();
        assert!(
            format!("{error:#}").contains("the disk is full"),
            "{error:#}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(folder.names(), ["r.json"]);
    }

    #[test]
    fn a_link_stays_a_link_and_permissions_stay() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = Folder::new("link");
        let (file, link) = (folder.0.join("file.json"), folder.0.join("link.json"));
        write("--json", &file, text("old")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("file.json", &link).unwrap();
        write("--json", &link, text("new")).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o640
        );
        assert_eq!(folder.names(), ["file.json", "link.json"]);
    }

    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        use std::os::unix::fs::FileTypeExt;
        write("--json", Path::new("/dev/null"), text("gone")).unwrap();
        assert!(
            fs::metadata("/dev/null")
                .unwrap()
                .file_type()
                .is_char_device()
        );
    }

    #[test]
    fn a_destination_that_cannot_work_is_refused_before_the_run() {
        let folder = Folder::new("refused");
        for (path, said) in [
            (folder.0.clone(), "is a directory"),
            (folder.0.join("missing/r.json"), "there is no directory"),
        ] {
            let message = check_destination("--hlog", &path).unwrap_err().to_string();
            assert!(
                message.starts_with("--hlog ") && message.contains(said),
                "{message}"
            );
        }
        check_destination("--hlog", &folder.0.join("r.json")).unwrap();
        check_destination("--hlog", Path::new("r.json")).unwrap();
    }
}
