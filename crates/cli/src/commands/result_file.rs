//! Writes result files atomically: a reader sees the old file or the new one, never a part of it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use files::outputs::{Destination, destination, folder_of, unfollowed};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readers {
    /// Those that the umask allows, or the permissions of the old file.
    Usual,
    /// Its owner only: it has secrets (`--keep-secrets`).
    Owner,
}

/// The permissions of a file with secrets.
const OWNER_ONLY: u32 = 0o600;

impl Readers {
    /// Those of a file that may have secrets.
    pub(super) fn of(has_secrets: bool) -> Self {
        if has_secrets {
            Self::Owner
        } else {
            Self::Usual
        }
    }
}

/// Rejects an unusable destination before the run starts. `option` is named in the error.
///
/// # Errors
/// When the path is a folder, or its folder does not exist.
pub(crate) fn check_destination(option: &str, path: &Path) -> anyhow::Result<()> {
    if path.is_dir() {
        bail!("{option} {path:?}: is a directory (expected a file)");
    }
    let folder = folder_of(path);
    if !folder.is_dir() {
        bail!("{option} {path:?}: there is no directory {folder:?} (create it first)");
    }
    destination(path).with_context(|| format!("{option} {path:?}: cannot be written"))?;
    Ok(())
}

/// Writes a file under a temporary name, syncs it and renames it. Through a symbolic link, the
/// link's target is written.
///
/// What is not a regular file (a pipe, `/dev/null`, `/dev/stdout`) is written directly, since a
/// rename would replace the device. So is a file whose folder is not writable.
///
/// # Errors
/// When the file cannot be written. The old file is then unchanged, unless it had to be written
/// directly.
pub(super) fn write(
    option: &str,
    path: &Path,
    readers: Readers,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    write_unless(&|| false, option, path, readers, content)
}

/// The same where signals are caught: waiting for the reader of a pipe ends when `is_interrupted`.
///
/// # Errors
/// As [`write`].
pub(super) fn write_unless(
    is_interrupted: &dyn Fn() -> bool,
    option: &str,
    path: &Path,
    readers: Readers,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let outcome = destination(path).and_then(|destination| match destination {
        Destination::File(file) => replace(&file, readers, content),
        Destination::InPlace(path) => {
            fill_stream(PatientStream::open(&path, is_interrupted)?, content)
        }
        Destination::Stdout => fill_stream(io::stdout().lock(), content),
        Destination::Stderr => fill_stream(io::stderr().lock(), content),
    });
    outcome.with_context(|| format!("{option} {path:?}: cannot write the result"))
}

/// A file that is written while a run goes on.
pub(super) enum Opened {
    /// A regular file that is written from its beginning.
    Own(File),
    /// What others may write as well, or what has no beginning: a pipe, a device, an open file.
    Shared(File),
}

/// Creates or empties a file that is written while a run goes on. What is not a regular file is
/// opened as it is, without waiting for anybody.
///
/// # Errors
/// When it cannot be opened. If nobody reads a pipe, that is ENXIO.
pub(super) fn open(path: &Path, readers: Readers) -> io::Result<Opened> {
    let shared = |stream: BorrowedFd<'_>| Ok(Opened::Shared(stream.try_clone_to_owned()?.into()));
    match destination(path)? {
        Destination::File(path) if path.exists() => Ok(Opened::Own(truncated(&path, readers)?)),
        Destination::File(path) => {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true);
            if readers == Readers::Owner {
                options.mode(OWNER_ONLY);
            }
            Ok(Opened::Own(options.open(path)?))
        }
        Destination::InPlace(path) => {
            // Opening a pipe would wait for its reader.
            let flags = OFlags::NONBLOCK.bits().cast_signed();
            let mut options = OpenOptions::new();
            let opened = options.append(true).custom_flags(flags).open(path)?;
            Ok(Opened::Shared(opened))
        }
        Destination::Stdout => shared(io::stdout().as_fd()),
        Destination::Stderr => shared(io::stderr().as_fd()),
    }
}

/// Whether [`write`] may wait for a reader.
pub(super) fn may_wait(path: &Path) -> bool {
    matches!(destination(path), Ok(Destination::InPlace(_)))
}

/// How long a pipe may have no reader, or one that does not read: `READER_POLLS` pauses.
const READER_POLL: Duration = Duration::from_millis(50);
const READER_POLLS: u32 = 200;

/// A pipe, or another stream, whose reader is waited for, but not forever.
struct PatientStream<'a> {
    stream: File,
    is_interrupted: &'a dyn Fn() -> bool,
}

impl<'a> PatientStream<'a> {
    fn open(path: &Path, is_interrupted: &'a dyn Fn() -> bool) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        options.write(true).custom_flags(flags);
        // What a pipe without a reader gives (fifo(7)).
        let has_no_reader =
            |error: &io::Error| error.raw_os_error() == Some(Errno::NXIO.raw_os_error());
        let open = || match options.open(path) {
            Err(error) if has_no_reader(&error) => {
                std::thread::park_timeout(READER_POLL);
                Ok(None)
            }
            opened => opened.map(Some),
        };
        let stream = patiently(
            open,
            is_interrupted,
            "no program has opened the pipe for reading",
        )?;
        Ok(Self {
            stream,
            is_interrupted,
        })
    }
}

/// Repeats an attempt, which pauses for [`READER_POLL`] where there is nothing yet.
fn patiently<T>(
    mut attempt: impl FnMut() -> io::Result<Option<T>>,
    is_interrupted: &dyn Fn() -> bool,
    problem: &str,
) -> io::Result<T> {
    for _ in 0..READER_POLLS {
        if let Some(done) = attempt()? {
            return Ok(done);
        }
        if is_interrupted() {
            let text = format!("interrupted while {problem}");
            return Err(io::Error::other(text));
        }
    }
    let waited = (READER_POLL * READER_POLLS).as_secs();
    let text = format!("{problem} for {waited} s");
    Err(io::Error::new(io::ErrorKind::TimedOut, text))
}

impl Write for PatientStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let stream = &mut self.stream;
        let write = || match stream.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut waiting = [PollFd::new(&*stream, PollFlags::OUT)];
                let timeout = Timespec::try_from(READER_POLL).ok();
                match poll(&mut waiting, timeout.as_ref()) {
                    // A signal: whether one ends the wait is asked by the caller.
                    Ok(_) | Err(Errno::INTR) => Ok(None),
                    Err(error) => Err(error.into()),
                }
            }
            written => written.map(Some),
        };
        let problem = "the reader of the pipe has read nothing";
        patiently(write, self.is_interrupted, problem)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn fill_stream(
    stream: impl Write,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut output = BufWriter::new(stream);
    content(&mut output)?;
    output.flush()
}

fn replace(
    path: &Path,
    readers: Readers,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let old = fs::metadata(path).ok();
    let (temporary, file) = match create_temporary(path, readers) {
        Ok(created) => created,
        // The folder is not writable, but the file may be.
        Err(_) if old.is_some() => return fill_stream(truncated(path, readers)?, content),
        Err(error) => return Err(error),
    };
    let outcome = fill(file, old.as_ref(), readers, content).and_then(|()| {
        match fs::rename(&temporary, path) {
            // A file that is itself a mount point, as in containers, cannot be replaced.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                io::copy(&mut File::open(&temporary)?, &mut truncated(path, readers)?)?;
                fs::remove_file(&temporary)
            }
            renamed => renamed,
        }
    });
    if outcome.is_err() {
        // Report the first error, not this one.
        let _ = fs::remove_file(&temporary);
    }
    outcome
}

fn truncated(path: &Path, readers: Readers) -> io::Result<File> {
    let file = unfollowed(&mut OpenOptions::new()).write(true).open(path)?;
    let metadata = file.metadata()?;
    // What is not a regular file has no content that others could read later.
    if readers == Readers::Owner && metadata.is_file() && metadata.mode() & 0o077 != 0 {
        file.set_permissions(fs::Permissions::from_mode(OWNER_ONLY))?;
    }
    file.set_len(0)?;
    Ok(file)
}

fn fill(
    file: File,
    old: Option<&fs::Metadata>,
    readers: Readers,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut output = BufWriter::new(file);
    content(&mut output)?;
    let file = output
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    if let Some(old) = old {
        // Only root can change the owner; for others the owner is already right.
        let _ = std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()));
        if readers == Readers::Usual {
            file.set_permissions(old.permissions())?;
        }
    }
    file.sync_all()
}

/// Creates a temporary file in the same folder, since a rename cannot cross file systems.
fn create_temporary(path: &Path, readers: Readers) -> io::Result<(PathBuf, File)> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().ok_or(io::ErrorKind::InvalidFilename)?);
    name.push(format!(".{}.part", std::process::id()));
    let temporary = path.with_file_name(name);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if readers == Readers::Owner {
        options.mode(OWNER_ONLY);
    }
    let file = options.open(&temporary)?;
    Ok((temporary, file))
}

#[cfg(test)]
mod tests {
    use testkit::Folder;

    use super::*;

    fn text(text: &str) -> impl FnOnce(&mut dyn Write) -> io::Result<()> + use<'_> {
        move |output| output.write_all(text.as_bytes())
    }

    #[test]
    fn a_new_file_is_written_and_no_temporary_file_remains() {
        let folder = Folder::new();
        let path = folder.join("r.json");
        write("--json", &path, Readers::Usual, text("one")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        assert_eq!(folder.names(), ["r.json"]);
    }

    #[test]
    fn a_failed_write_keeps_the_old_file_and_leaves_no_temporary_one() {
        let folder = Folder::new();
        let path = folder.join("r.json");
        write("--json", &path, Readers::Usual, text("old")).unwrap();
        let error = write("--json", &path, Readers::Usual, |output| {
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
        use std::os::unix::fs::symlink;
        let folder = Folder::new();
        let (file, link) = (folder.join("file.json"), folder.join("link.json"));
        write("--json", &file, Readers::Usual, text("old")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("file.json", &link).unwrap();
        write("--json", &link, Readers::Usual, text("new")).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o640
        );
        assert_eq!(folder.names(), ["file.json", "link.json"]);
    }

    #[test]
    fn only_the_owner_can_read_a_file_with_secrets() {
        let folder = Folder::new();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let path = folder.join("r.json");
        write("--json", &path, Readers::of(true), |output| {
            // Not even while it is being written.
            let names = folder.names();
            assert_eq!(names.len(), 1);
            assert_eq!(mode(&folder.join(&names[0])), 0o600);
            output.write_all(b"secret")
        })
        .unwrap();
        assert_eq!(mode(&path), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        write("--json", &path, Readers::of(true), text("secret")).unwrap();
        assert_eq!(mode(&path), 0o600, "an old file");
        // Where it cannot be replaced.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        drop(truncated(&path, Readers::Owner).unwrap());
        assert_eq!((mode(&path), fs::read(&path).unwrap().len()), (0o600, 0));
        write("--json", Path::new("/dev/null"), Readers::Owner, text("x")).unwrap();
    }

    #[test]
    fn a_link_to_a_missing_file_creates_the_file() {
        use std::os::unix::fs::symlink;
        let folder = Folder::new();
        fs::create_dir_all(folder.join("results")).unwrap();
        symlink("results/latest.json", folder.join("link.json")).unwrap();
        symlink("link.json", folder.join("second.json")).unwrap();
        write(
            "--json",
            &folder.join("second.json"),
            Readers::Usual,
            text("new"),
        )
        .unwrap();
        let target = folder.join("results/latest.json");
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        assert!(target.symlink_metadata().unwrap().is_file());
        assert_eq!(folder.names(), ["link.json", "results", "second.json"]);
        // A link that cannot be resolved is not replaced.
        for (name, target) in [("loop.json", "loop.json"), ("lost.json", "missing/r.json")] {
            let path = folder.join(name);
            symlink(target, &path).unwrap();
            check_destination("--json", &path).unwrap_err();
            write("--json", &path, Readers::Usual, text("x")).unwrap_err();
            assert!(path.symlink_metadata().unwrap().is_symlink());
        }
    }

    #[test]
    fn a_file_in_a_read_only_folder_is_written_in_place() {
        // Not even root can create files in /proc.
        let path = Path::new("/proc/self/comm");
        write("--json", path, Readers::Usual, text("in-place")).unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "in-place\n");
    }

    #[test]
    fn a_device_is_written_and_not_replaced() {
        use std::os::unix::fs::FileTypeExt;
        write(
            "--json",
            Path::new("/dev/null"),
            Readers::Usual,
            text("gone"),
        )
        .unwrap();
        assert!(
            fs::metadata("/dev/null")
                .unwrap()
                .file_type()
                .is_char_device()
        );
    }

    #[test]
    fn a_signal_ends_the_wait_for_the_reader_of_a_pipe() {
        let folder = Folder::new();
        let pipe = folder.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.is_ok_and(|it| it.success()));
        assert!(may_wait(&pipe) && !may_wait(&folder.join("r.json")));
        let write_interrupted = || {
            let many = vec![b'x'; 1 << 20];
            let written = write_unless(&|| true, "--json", &pipe, Readers::Usual, |output| {
                output.write_all(&many)
            });
            format!("{:#}", written.unwrap_err())
        };
        let message = write_interrupted();
        let problem = "interrupted while no program has opened the pipe for reading";
        assert!(message.ends_with(problem), "{message}");
        let reader = OpenOptions::new().read(true).write(true).open(&pipe);
        let message = write_interrupted();
        let problem = "interrupted while the reader of the pipe has read nothing";
        assert!(message.ends_with(problem), "{message}");
        drop(reader);
    }

    #[test]
    fn a_reader_that_comes_late_is_waited_for_and_one_that_never_comes_for_10_s() {
        let mut attempts = 0;
        let late = || {
            attempts += 1;
            Ok((attempts == READER_POLLS).then_some("read"))
        };
        assert_eq!(patiently(late, &|| false, "x").unwrap(), "read");
        let never = patiently(|| Ok(None::<()>), &|| false, "nobody has read").unwrap_err();
        assert_eq!(never.kind(), io::ErrorKind::TimedOut);
        assert_eq!(never.to_string(), "nobody has read for 10 s");
    }

    #[test]
    fn an_unusable_destination_is_rejected_before_the_run() {
        let folder = Folder::new();
        for (path, said) in [
            (folder.path().to_owned(), "is a directory"),
            (folder.join("missing/r.json"), "there is no directory"),
        ] {
            let message = check_destination("--hlog", &path).unwrap_err().to_string();
            assert!(
                message.starts_with("--hlog ") && message.contains(said),
                "{message}"
            );
        }
        check_destination("--hlog", &folder.join("r.json")).unwrap();
        check_destination("--hlog", Path::new("r.json")).unwrap();
    }
}
