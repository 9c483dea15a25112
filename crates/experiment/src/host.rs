//! The machine as an experiment sees it: files, commands, readiness and time.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The result of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandOutput {
    /// Exit code; `None` if a signal or the time limit ended it.
    pub exit_code: Option<i32>,
    /// It exceeded its time limit and was killed together with everything it had started.
    pub timed_out: bool,
    /// How long it ran.
    pub duration: Duration,
    /// What the command wrote to its standard output; only the end if it is long.
    #[serde(with = "crate::content::bytes")]
    pub stdout: Vec<u8>,
    /// What the command wrote to its standard error; only the end if it is long.
    #[serde(with = "crate::content::bytes")]
    pub stderr: Vec<u8>,
}

impl CommandOutput {
    /// How the command failed, as a phrase that follows the command: `failed with exit code 1: no
    /// such file`. Only meaningful for a failed command.
    #[must_use]
    pub fn failure(&self) -> String {
        let how = match self.exit_code {
            _ if self.timed_out => format!(
                "took longer than {:.1} s and was killed",
                self.duration.as_secs_f64()
            ),
            Some(code) => format!("failed with exit code {code}"),
            None => "was killed by a signal".to_owned(),
        };
        let text = String::from_utf8_lossy(&self.stderr);
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        match last {
            Some(line) => format!("{how}: {}", line.trim().escape_debug()),
            None => how,
        }
    }
}

impl CommandOutput {
    /// The last lines of output, stderr first. Empty if the only line is part of [`Self::failure`].
    #[must_use]
    pub fn last_lines(&self) -> Vec<String> {
        /// Enough for the message of a service manager or a configuration check.
        const LINES_MAX: usize = 12;
        const CHARS_MAX: usize = 200;
        let errors = String::from_utf8_lossy(&self.stderr);
        let output = String::from_utf8_lossy(&self.stdout);
        let mut room = LINES_MAX;
        let mut found = Vec::new();
        for (stream, text) in [("stderr", errors), ("stdout", output)] {
            let lines: Vec<&str> = text
                .lines()
                .filter(|line| !line.trim().is_empty())
                .collect();
            let last = lines
                .get(lines.len().saturating_sub(room)..)
                .unwrap_or_default();
            room -= last.len();
            found.extend(last.iter().map(|line| {
                let line = plan::printable(line);
                format!(
                    "{stream}: {}",
                    line.chars().take(CHARS_MAX).collect::<String>()
                )
            }));
        }
        if found.len() == 1 && !self.stderr.is_empty() {
            found.clear();
        }
        found
    }
}

/// What came of an attempt to take the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lock {
    /// This process holds it until [`Host::unlock`], or until this process and its guardian have
    /// ended.
    Ours,
    /// Another process holds it; this is its note.
    HeldBy(String),
}

/// A folder of kernel settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettingsFolder {
    /// Its settings that can be both read and written.
    pub settings: Vec<PathBuf>,
    /// The folders directly in it.
    pub folders: Vec<PathBuf>,
}

/// A path that another user could have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UntrustedPath {
    /// The file, or the folder on the way to it, that others can change.
    pub path: PathBuf,
    /// The reason, as a phrase that follows the path: `belongs to user 1000`.
    pub why: String,
    /// What to do about it.
    pub remedy: String,
}

/// The name of the temporary file that [`Host::replace`] writes. It is always the same, so that a
/// file left by an interrupted replacement can be removed. It begins with a dot and has an
/// extension that no configuration uses, so that no server reads it.
#[must_use]
pub(crate) fn replacement_name(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".wrkbench-new");
    path.with_file_name(name)
}

/// Whether the error means that the file does not exist.
pub(crate) fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Checks that files can be created in the nearest existing folder.
///
/// # Errors
/// Why they cannot.
pub(crate) fn check_folder(host: &dyn HostAccess, path: &Path) -> io::Result<()> {
    for folder in path.ancestors() {
        let folder = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        match host.check_writable(&folder.join(".wrkbench")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
    }
    Ok(())
}

/// What works on every machine, also on one elsewhere: reading, checking, and running commands.
pub trait HostAccess {
    /// The content of a file.
    ///
    /// # Errors
    /// The system's.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Checks that the file can be written, without writing to it.
    ///
    /// # Errors
    /// Why it cannot.
    fn check_writable(&self, path: &Path) -> io::Result<()>;

    /// Whether a program of this name can be found.
    fn has_program(&self, name: &str) -> bool;

    /// Runs a shell command line with these variables added to the environment, for at most
    /// `limit`.
    ///
    /// # Errors
    /// When it could not be started.
    fn run(
        &mut self,
        command: &str,
        environment: &BTreeMap<String, String>,
        limit: Duration,
    ) -> io::Result<CommandOutput>;

    /// Whether the user is root.
    fn is_root(&self) -> bool;
}

/// Everything an experiment may do to a machine; tests use a simulated one.
pub trait Host: HostAccess {
    /// Overwrites the file in place with a single write, as kernel settings require.
    ///
    /// # Errors
    /// The system's; a setting that the kernel refuses is `InvalidInput`.
    fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()>;

    /// Replaces the content of a file atomically: writes a temporary file in the same folder with
    /// the old file's mode and owner, syncs it to the disk and renames it. A missing file is
    /// created.
    ///
    /// # Errors
    /// The system's.
    fn replace(&mut self, path: &Path, content: &[u8]) -> io::Result<()>;

    /// Removes the temporary file of an interrupted [`Self::replace`], if there is one.
    ///
    /// # Errors
    /// The system's.
    fn discard_replacement(&mut self, path: &Path) -> io::Result<()>;

    /// Appends to a file, which is created if it is missing. Returns when the content and the
    /// file's name are on the disk.
    ///
    /// # Errors
    /// The system's; part of the content may have been written.
    fn append(&mut self, path: &Path, content: &[u8]) -> io::Result<()>;

    /// Removes a file and syncs the removal to the disk.
    ///
    /// # Errors
    /// The system's; `NotFound` if there is none.
    fn remove(&mut self, path: &Path) -> io::Result<()>;

    /// Creates a folder and its parents, accessible to this user only. An existing folder is left
    /// as it is.
    ///
    /// # Errors
    /// The system's.
    fn make_folder(&mut self, path: &Path) -> io::Result<()>;

    /// Whether anybody but this user and root could have written or replaced this file or folder. A
    /// missing path is trusted.
    ///
    /// # Errors
    /// The system's.
    fn untrusted(&self, _path: &Path) -> io::Result<Option<UntrustedPath>> {
        Ok(None)
    }

    /// Takes the lock at this path, or tells who holds it. Others see the note.
    ///
    /// # Errors
    /// The system's.
    fn lock(&mut self, path: &Path, note: &str) -> io::Result<Lock>;

    /// Holds the lock together with others that hold it so, and keeps those away that hold it
    /// alone: [`Self::lock`]. A lock that this process holds alone becomes such a one. Returns
    /// whether it is held; false if another process holds it alone.
    ///
    /// # Errors
    /// The system's.
    fn share_lock(&mut self, path: &Path, note: &str) -> io::Result<bool>;

    /// Releases the lock and every claim.
    fn unlock(&mut self);

    /// Claims a kernel setting or a folder until [`Self::unlock`], so that two sweeps with
    /// different journals do not change the same setting. Returns whether this process holds it;
    /// true where locks are not supported.
    ///
    /// # Errors
    ///
    /// The system's.
    fn claim(&mut self, _path: &Path) -> io::Result<bool> {
        Ok(true)
    }

    /// Makes sure that a guardian watches this process and restores the machine from this folder's
    /// journal when the process dies. A dead guardian is replaced.
    ///
    /// # Errors
    /// When there is none, and none can be started.
    fn keep_guardian(&mut self, folder: &Path) -> io::Result<()>;

    /// Ends the guardian: there is nothing left to restore.
    fn dismiss_guardian(&mut self);

    /// The settings and subfolders of a folder of kernel settings.
    ///
    /// # Errors
    /// The system's.
    fn list_settings(&self, folder: &Path) -> io::Result<SettingsFolder>;

    /// Requests a URL once and returns the status.
    ///
    /// # Errors
    /// Why there was no response.
    fn http_status(&mut self, url: &str, limit: Duration) -> io::Result<u16>;

    /// The working directory of commands; `None` if it is unknown or irrelevant.
    fn working_folder(&self) -> Option<PathBuf>;

    /// Monotonic time, nanoseconds from an arbitrary start.
    fn now_ns(&self) -> u64;

    /// Waits for this time.
    fn sleep(&mut self, duration: Duration);

    /// Wall-clock time, RFC 3339; informational.
    fn wall_clock(&self) -> Option<String>;

    /// Identifies the current boot (`/proc/sys/kernel/random/boot_id`).
    fn boot_id(&self) -> String;

    /// The machine's host name, as uname(1) shows it.
    fn host_name(&self) -> String;

    /// The kernel's release: `6.1.0-18-amd64`.
    fn kernel(&self) -> String;

    /// Identifies the network namespace (the link `/proc/self/ns/net`).
    fn network_namespace(&self) -> String;
}
