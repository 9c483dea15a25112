//! The real machine.

mod atomic_file;
mod command;
mod guardian_process;
mod new_folder;
mod ownership;

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use files::outputs::folder_of;
use rustix::fs::{Access, access};
use rustix::system::uname;
use rustix::time::{ClockId, clock_gettime};

use crate::host::{CommandOutput, Host, HostAccess, Lock, SettingsFolder, UntrustedPath};
use guardian_process::GuardianProcess;

pub use new_folder::{create_free_folder, free_folder};
pub use ownership::misplaced;

pub(crate) use guardian_process::{LinkEnd, end_group, listen};

/// A command that is being waited for.
#[derive(Debug, Clone, Copy)]
pub struct Waiting<'a> {
    /// The shell command line.
    pub command: &'a str,
    /// How long it has run.
    pub elapsed: Duration,
    /// The time after which the command is killed.
    pub limit: Duration,
}

/// Called repeatedly while a command is being waited for.
pub type OnWait = Box<dyn FnMut(Waiting<'_>)>;

/// Makes the command that starts a guardian of the journal in a folder.
pub type GuardianCommand = Box<dyn Fn(&Path) -> Command>;

/// What the caller provides.
pub struct MachineSettings {
    /// Wall-clock time, RFC 3339.
    pub wall_clock: fn() -> Option<String>,
    /// Without a guardian nothing can be changed.
    pub guardian: Option<GuardianCommand>,
}

/// A locked file or folder.
struct Claim(File);

impl Drop for Claim {
    fn drop(&mut self) {
        // Closing the file would not release the lock while a child that another thread is just
        // starting still shares it (flock(2)).
        let _ = self.0.unlock();
    }
}

/// The machine that the program runs on.
pub struct Machine {
    settings: MachineSettings,
    lock: Option<File>,
    /// Our note in the lock, if we share it.
    shared: Option<String>,
    claims: BTreeMap<PathBuf, Claim>,
    watch: Option<GuardianProcess>,
    on_wait: Option<OnWait>,
    /// New files in this folder can be read by their owner only.
    private: Option<PathBuf>,
}

impl Machine {
    /// Does not take any lock yet.
    #[must_use]
    pub fn new(settings: MachineSettings) -> Self {
        Self {
            settings,
            lock: None,
            shared: None,
            claims: BTreeMap::new(),
            watch: None,
            on_wait: None,
            private: None,
        }
    }

    /// Makes [`crate::Host::replace`] create files in and below this folder with mode 0600. It
    /// keeps secrets, and may have existed before with permissions for others.
    pub fn keep_private(&mut self, folder: PathBuf) {
        self.private = Some(folder);
    }

    /// Sets a function that is called a few times per second while a command is being waited for.
    pub fn set_on_wait(&mut self, on_wait: OnWait) {
        self.on_wait = Some(on_wait);
    }

    /// The guardian's stdout: it keeps the lock while the guardian lives.
    fn lock_for_guardian(&self) -> io::Result<Stdio> {
        match &self.lock {
            Some(lock) => Ok(Stdio::from(lock.try_clone()?)),
            None => Ok(Stdio::null()),
        }
    }
}

impl HostAccess for Machine {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        // Reading a pipe, or some devices, would never end.
        files::read_regular(path, READ_BYTES_MAX)
    }

    fn check_writable(&self, path: &Path) -> io::Result<()> {
        match OpenOptions::new().write(true).open(path) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if path.starts_with("/proc") {
            return fs::metadata(path).map(drop);
        }
        // The file is replaced, for which its folder must be writable.
        let real = atomic_file::real_path(path)?;
        let folder = folder_of(&real);
        Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
    }

    fn has_program(&self, name: &str) -> bool {
        if name.contains('/') {
            // dash accepts any file as a program here.
            return Path::new(name).is_file() && access(name, Access::EXEC_OK).is_ok();
        }
        // The shell that will run the command knows its built-ins and the search path.
        Command::new("sh")
            .args(["-c", "command -v -- \"$1\"", "sh", name])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }

    fn run(
        &mut self,
        command: &str,
        environment: &BTreeMap<String, String>,
        limit: Duration,
    ) -> io::Result<CommandOutput> {
        let mut tell = |elapsed| {
            if let Some(on_wait) = &mut self.on_wait {
                on_wait(Waiting {
                    command,
                    elapsed,
                    limit,
                });
            }
        };
        command::run(command, environment, limit, self.watch.as_ref(), &mut tell)
    }

    fn is_root(&self) -> bool {
        rustix::process::geteuid().is_root()
    }
}

impl Host for Machine {
    fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        let written = OpenOptions::new().write(true).open(path)?.write(content)?;
        if written == content.len() {
            Ok(())
        } else {
            Err(io::Error::new(
                io::ErrorKind::WriteZero,
                format!("only {written} of {} bytes were taken", content.len()),
            ))
        }
    }

    fn replace(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        let private = self.private.as_ref();
        let is_private = private.is_some_and(|folder| path.starts_with(folder));
        atomic_file::replace(path, content, is_private)
    }

    fn discard_replacement(&mut self, path: &Path) -> io::Result<()> {
        atomic_file::discard(path)
    }

    fn append(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        let (mut file, is_new) = match OpenOptions::new().append(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut options = OpenOptions::new();
                options.append(true).create_new(true).mode(0o600);
                (options.open(path)?, true)
            }
            file => (file?, false),
        };
        file.write_all(content)?;
        file.sync_data()?;
        if is_new {
            atomic_file::sync_folder(path)?;
        }
        Ok(())
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)?;
        atomic_file::sync_folder(path)
    }

    fn make_folder(&mut self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        // Syncs the names of new folders: after a power cut a journal in a lost folder would be
        // lost too. Folders above that cannot be opened existed before.
        for ancestor in path.ancestors() {
            if let Ok(folder) = File::open(ancestor) {
                let _ = folder.sync_all();
            }
        }
        Ok(())
    }

    fn untrusted(&self, path: &Path) -> io::Result<Option<UntrustedPath>> {
        ownership::untrusted(path)
    }

    fn lock(&mut self, path: &Path, note: &str) -> io::Result<Lock> {
        let mut file = open_lock(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                file.take(HOLDER_BYTES_MAX).read_to_string(&mut holder)?;
                return Ok(Lock::HeldBy(plain(&holder)));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        file.set_len(0)?;
        file.write_all(format!("{note}\n").as_bytes())?;
        self.lock = Some(file);
        Ok(Lock::Ours)
    }

    fn share_lock(&mut self, path: &Path, note: &str) -> io::Result<bool> {
        let is_new = self.lock.is_none();
        let mut file = match self.lock.take() {
            Some(file) => file,
            None => open_lock(path)?,
        };
        match file.try_lock_shared() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        if is_new {
            file.write_all(format!("{note}\n").as_bytes())?;
        }
        self.lock = Some(file);
        self.shared = Some(note.to_owned());
        Ok(true)
    }

    fn unlock(&mut self) {
        if let Some(lock) = self.lock.take() {
            // The notes only inform.
            let _ = match self.shared.take() {
                Some(note) => remove_line(&lock, &note),
                None => lock.set_len(0),
            };
            // Closing alone would not release it, as with a claim.
            let _ = lock.unlock();
        }
        self.claims.clear();
    }

    fn claim(&mut self, path: &Path) -> io::Result<bool> {
        if self.claims.contains_key(path) {
            return Ok(true);
        }
        let file = File::open(path)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(false),
            // Some network file systems do not support locks on files opened for reading.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        self.claims.insert(path.to_owned(), Claim(file));
        Ok(true)
    }

    fn keep_guardian(&mut self, folder: &Path) -> io::Result<()> {
        if self.watch.as_mut().is_some_and(GuardianProcess::is_alive) {
            return Ok(());
        }
        self.watch = None;
        let lock = self.lock_for_guardian()?;
        let Some(command) = &self.settings.guardian else {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this program has no guardian",
            ));
        };
        let command = command(&std::path::absolute(folder)?);
        self.watch = Some(GuardianProcess::start(command, lock)?);
        Ok(())
    }

    fn dismiss_guardian(&mut self) {
        if let Some(watch) = self.watch.take() {
            watch.dismiss();
        }
    }

    fn list_settings(&self, folder: &Path) -> io::Result<SettingsFolder> {
        let mut found = SettingsFolder::default();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            // An interface may disappear meanwhile.
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            let mode = metadata.permissions().mode();
            if metadata.is_dir() {
                found.folders.push(entry.path());
            } else if metadata.is_file() && mode & 0o444 != 0 && mode & 0o222 != 0 {
                found.settings.push(entry.path());
            }
        }
        Ok(found)
    }

    fn http_status(&mut self, url: &str, limit: Duration) -> io::Result<u16> {
        client::status(url, limit).map_err(io::Error::other)
    }

    fn working_folder(&self) -> Option<PathBuf> {
        std::env::current_dir().ok()
    }

    fn now_ns(&self) -> u64 {
        now_ns()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "pauses between questions and trials: there is no event to wait for"
    )]
    fn sleep(&mut self, duration: Duration) {
        std::thread::sleep(duration);
    }

    fn wall_clock(&self) -> Option<String> {
        (self.settings.wall_clock)()
    }

    fn boot_id(&self) -> String {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
        id.unwrap_or_default().trim().to_owned()
    }

    fn host_name(&self) -> String {
        uname().nodename().to_string_lossy().into_owned()
    }

    fn kernel(&self) -> String {
        uname().release().to_string_lossy().into_owned()
    }

    fn network_namespace(&self) -> String {
        let link = fs::read_link("/proc/self/ns/net");
        link.unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Opens the file of a lock. Notes are appended, since several processes may share it.
fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    options.open(path)
}

/// Removes our note from a lock that others share.
fn remove_line(mut lock: &File, note: &str) -> io::Result<()> {
    let mut notes = String::new();
    lock.seek(SeekFrom::Start(0))?;
    lock.take(HOLDER_BYTES_MAX).read_to_string(&mut notes)?;
    let others = notes.lines().filter(|line| *line != note);
    let others: String = others.flat_map(|line| [line, "\n"]).collect();
    lock.set_len(0)?;
    lock.write_all(others.as_bytes())
}

/// The notes of those that hold the lock, on one line. There is none for a moment after it was
/// taken.
fn plain(holder: &str) -> String {
    let notes: Vec<_> = holder.lines().map(plan::printable).collect();
    match notes.join(" and ") {
        none if none.trim().is_empty() => "not known yet which".to_owned(),
        notes => notes,
    }
}

/// The largest file that is read. A journal has the old content of each file that was changed, of
/// at most [`crate::FILE_SIZE_MAX`] bytes each.
const READ_BYTES_MAX: u64 = 1 << 30;

/// As much as is read of the notes in a lock.
const HOLDER_BYTES_MAX: u64 = 4096;

/// Time of the system's monotonic clock, nanoseconds.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000) + u64::try_from(now.tv_nsec).unwrap_or_default()
}

#[cfg(test)]
mod tests;
