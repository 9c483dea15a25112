//! The machine as an experiment sees it: files, commands, readiness, and time.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a command came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandOutput {
    /// Exit code; `None` if a signal or the time limit ended it.
    pub exit_code: Option<i32>,
    /// It ran out of time and was ended with everything it had started.
    pub timed_out: bool,
    /// How long it took.
    pub duration: Duration,
    /// What it wrote.
    pub stdout: Vec<u8>,
    /// What it wrote to stderr.
    pub stderr: Vec<u8>,
}

impl CommandOutput {
    /// How it failed, in words that follow the command: `failed with exit code 1: no such file`.
    /// Wanted only of one that did.
    #[must_use]
    pub fn failure(&self) -> String {
        let how = match self.exit_code {
            _ if self.timed_out => format!(
                "took longer than {:.1} s and was ended",
                self.duration.as_secs_f64()
            ),
            Some(code) => format!("failed with exit code {code}"),
            None => "was ended by a signal".to_owned(),
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
    /// The last lines that it wrote, those of stderr first; nothing if [`Self::failure`] has the only one.
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
                let plain = line.chars().map(|c| if c.is_control() { ' ' } else { c });
                format!("{stream}: {}", plain.take(CHARS_MAX).collect::<String>())
            }));
        }
        if found.len() == 1 && !self.stderr.is_empty() {
            found.clear();
        }
        found
    }
}

/// What became of a wish for the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lock {
    /// It is ours, until [`Host::unlock`] or the end of this process and of its guardian.
    Ours,
    /// Somebody has it, and says this of himself.
    HeldBy(String),
}

/// A folder of kernel settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettingsFolder {
    /// Settings in it that can be both read and written.
    pub settings: Vec<PathBuf>,
    /// Folders in it.
    pub folders: Vec<PathBuf>,
}

/// Why somebody else could have put words into a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UntrustedPath {
    /// The file, or the folder on the way to it, that others can change.
    pub path: PathBuf,
    /// How, in words that follow the path: `belongs to user 1000`.
    pub why: String,
    /// What to do about it.
    pub remedy: String,
}

/// The name under which [`Host::replace`] writes what takes a file's place: the same each time, so
/// that what an interrupted one left can be removed. It begins with a dot and ends as no
/// configuration does, so that no server takes it for its own.
#[must_use]
pub(crate) fn replacement_name(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".wrkbench-new");
    path.with_file_name(name)
}

/// Everything an experiment may do to a machine: the real one, or one that a test made up.
pub trait Host {
    /// The content of a file.
    ///
    /// # Errors
    /// The system's.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Writes into the file as it is, in one write: how a kernel setting is set.
    ///
    /// # Errors
    /// The system's; a setting that the kernel refuses is `InvalidInput`.
    fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()>;

    /// Puts a new content in a file's place: under a temporary name in the same folder, with the
    /// mode and owner of the one that was, onto the disk, then renamed. A file that is not there is
    /// made.
    ///
    /// # Errors
    /// The system's.
    fn replace(&mut self, path: &Path, content: &[u8]) -> io::Result<()>;

    /// Removes what an interrupted [`Self::replace`] of this file has left beside it, if anything.
    ///
    /// # Errors
    /// The system's.
    fn discard_replacement(&mut self, path: &Path) -> io::Result<()>;

    /// Adds to the end of a file, which is made if it is not there, and returns when it is on the
    /// disk, its name included.
    ///
    /// # Errors
    /// The system's; a part of it may then be written.
    fn append(&mut self, path: &Path, content: &[u8]) -> io::Result<()>;

    /// Removes a file, for good also after a power cut.
    ///
    /// # Errors
    /// The system's; `NotFound` if there is none.
    fn remove(&mut self, path: &Path) -> io::Result<()>;

    /// Makes a folder and those above it, closed to others; one that is there is left alone.
    ///
    /// # Errors
    /// The system's.
    fn make_folder(&mut self, path: &Path) -> io::Result<()>;

    /// Whether anybody but this user and root could have written this file or folder, or put another one in its place.
    /// What is not there was written by nobody.
    ///
    /// # Errors
    /// The system's.
    fn untrusted(&self, _path: &Path) -> io::Result<Option<UntrustedPath>> {
        Ok(None)
    }

    /// Takes the lock of this name, or says who has it. The note is what others are told.
    ///
    /// # Errors
    /// The system's.
    fn lock(&mut self, path: &Path, note: &str) -> io::Result<Lock>;

    /// Gives the lock back, and every claim.
    fn unlock(&mut self);

    /// Claims a kernel setting or a folder until [`Self::unlock`], so that two sweeps that do not share a
    /// lock leave each other's things alone. Whether it is ours now; where there are no locks it is.
    ///
    /// # Errors
    /// The system's.
    fn claim(&mut self, _path: &Path) -> io::Result<bool> {
        Ok(true)
    }

    /// Makes sure that a guardian watches this process, and restores by this folder's journal when
    /// it dies. One that has died itself is replaced.
    ///
    /// # Errors
    /// When there is none, and none can be started.
    fn keep_guardian(&mut self, folder: &Path) -> io::Result<()>;

    /// Lets the guardian go: there is nothing more to guard.
    fn dismiss_guardian(&mut self);

    /// What a folder of kernel settings holds.
    ///
    /// # Errors
    /// The system's.
    fn list_settings(&self, folder: &Path) -> io::Result<SettingsFolder>;

    /// Whether the file could be written, without writing.
    ///
    /// # Errors
    /// Why it could not.
    fn check_writable(&self, path: &Path) -> io::Result<()>;

    /// Whether a program of this name would be found.
    fn has_program(&self, name: &str) -> bool;

    /// Runs a line of shell with these variables added to the environment, at most for `limit`.
    ///
    /// # Errors
    /// When it could not be started.
    fn run(
        &mut self,
        command: &str,
        environment: &BTreeMap<String, String>,
        limit: Duration,
    ) -> io::Result<CommandOutput>;

    /// Asks a URL once and says its status.
    ///
    /// # Errors
    /// Why there was no answer.
    fn ask(&mut self, url: &str, limit: Duration) -> io::Result<u16>;

    /// Where commands run; `None` if that is not known, or does not matter.
    fn working_folder(&self) -> Option<PathBuf>;

    /// Monotonic time, nanoseconds.
    fn now_ns(&self) -> u64;

    /// Lets time pass.
    fn sleep(&mut self, duration: Duration);

    /// Wall-clock time, RFC 3339; a label.
    fn wall_clock(&self) -> Option<String>;

    /// Whether the user is root.
    fn is_root(&self) -> bool;

    /// What tells this start of the machine from others (`/proc/sys/kernel/random/boot_id`).
    fn boot_id(&self) -> String;

    /// The machine's name.
    fn host_name(&self) -> String;

    /// The kernel's release: `6.1.0-18-amd64`.
    fn kernel(&self) -> String;

    /// What tells this network namespace from others (the link `/proc/self/ns/net`).
    fn network_namespace(&self) -> String;
}
