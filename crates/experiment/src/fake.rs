//! A simulated machine: files in memory, a virtual clock, scripted commands and failures.
//!
//! Kernel settings are its files below `/proc/sys`. As in the kernel, they must exist, end with a
//! line feed and separate numbers with tabs. Operations are counted and the n-th can fail or be the
//! last one, so that a test can try a crash at every moment.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::host::{CommandOutput, Host, HostAccess, Lock, SettingsFolder, UntrustedPath};

/// Files of a simulated machine, by path.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

/// What a command does to the files, and its output.
pub type FakeCommand = Box<dyn FnMut(&mut Files, &BTreeMap<String, String>) -> CommandOutput>;

/// What else changes when a kernel setting is written.
pub type FakeCoupling = Box<dyn Fn(&mut Files)>;

/// Converts a written value to the one that is read back.
pub type FakeSetting = Box<dyn Fn(&str) -> io::Result<String>>;

/// What happens at the failing operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The process is killed before it.
    KilledBefore,
    /// The process is killed after this many bytes of a write; other operations complete first.
    KilledWithin(usize),
    /// It fails with this error, and the process goes on.
    Error(io::ErrorKind),
}

/// A simulated machine for tests; see the module.
pub struct Fake {
    /// Content of its disk and its kernel settings.
    pub files: Files,
    /// Every operation that could have changed something, in order.
    pub log: Vec<String>,
    /// Virtual monotonic time, nanoseconds: what [`Host::now_ns`] returns.
    pub clock_ns: u64,
    /// Whether the user is root.
    pub root: bool,
    /// The boot ID that [`Host::boot_id`] returns.
    pub boot: String,
    pub host_name: String,
    pub kernel: String,
    /// The network namespace of the process.
    pub namespace: String,
    /// Paths that cannot be written.
    pub read_only: BTreeSet<PathBuf>,
    /// Programs that are not found.
    pub missing_programs: BTreeSet<String>,
    /// Results of [`Host::http_status`] by URL, in order; 200 when there are none left.
    pub responses: BTreeMap<String, VecDeque<io::Result<u16>>>,
    /// The note of another process that holds the lock.
    pub lock_holder: Option<String>,
    /// Whether that process shares it with others.
    pub is_lock_shared: bool,
    /// The setting or folder that another sweep has claimed.
    pub claimed: Option<PathBuf>,
    /// Whether we hold the lock.
    pub is_locked: bool,
    /// A file that another user could have written.
    pub distrusted: Option<UntrustedPath>,
    /// Whether a guardian watches.
    pub has_guardian: bool,
    /// Whether a guardian can be started.
    pub can_be_guarded: bool,
    /// The largest size of a file; beyond it the disk is full.
    pub disk_limit: Option<usize>,
    commands: BTreeMap<String, FakeCommand>,
    settings: BTreeMap<PathBuf, FakeSetting>,
    couplings: BTreeMap<PathBuf, FakeCoupling>,
    failure: Option<(usize, Failure)>,
    operations: Cell<usize>,
    is_dead: Cell<bool>,
}

impl Default for Fake {
    fn default() -> Self {
        Self {
            files: Files::new(),
            log: Vec::new(),
            clock_ns: 0,
            root: true,
            boot: "boot-1".to_owned(),
            host_name: "alpha".to_owned(),
            kernel: "6.1.0".to_owned(),
            namespace: "net:[1]".to_owned(),
            read_only: BTreeSet::new(),
            missing_programs: BTreeSet::new(),
            responses: BTreeMap::new(),
            lock_holder: None,
            is_lock_shared: false,
            claimed: None,
            is_locked: false,
            distrusted: None,
            has_guardian: false,
            can_be_guarded: true,
            disk_limit: None,
            commands: BTreeMap::new(),
            settings: BTreeMap::new(),
            couplings: BTreeMap::new(),
            failure: None,
            operations: Cell::new(0),
            is_dead: Cell::new(false),
        }
    }
}

impl Fake {
    /// A machine with these files.
    #[must_use]
    pub fn with(files: &[(&str, &str)]) -> Self {
        let files = files
            .iter()
            .map(|(path, content)| (PathBuf::from(path), content.as_bytes().to_vec()))
            .collect();
        Self {
            files,
            ..Self::default()
        }
    }

    /// The content of a file, as text.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<String> {
        let content = self.files.get(Path::new(path))?;
        Some(String::from_utf8_lossy(content).into_owned())
    }

    /// Defines what a command line does from now on; other commands succeed without output.
    pub fn on_command(
        &mut self,
        command: &str,
        does: impl FnMut(&mut Files, &BTreeMap<String, String>) -> CommandOutput + 'static,
    ) {
        self.commands.insert(command.to_owned(), Box::new(does));
    }

    /// Defines how the kernel converts values of this setting from now on.
    pub fn on_setting(&mut self, path: &str, takes: impl Fn(&str) -> io::Result<String> + 'static) {
        self.settings.insert(path.into(), Box::new(takes));
    }

    /// Defines what else changes when this setting is written, after the write.
    pub fn on_written(&mut self, path: &str, changes: impl Fn(&mut Files) + 'static) {
        self.couplings.insert(path.into(), Box::new(changes));
    }

    /// Lets an operation fail, counted from 0 and from now on.
    pub fn fail_at(&mut self, operation: usize, failure: Failure) {
        self.operations.set(0);
        self.failure = Some((operation, failure));
    }

    /// The number of operations since the last [`Self::fail_at`].
    #[must_use]
    pub fn operations(&self) -> usize {
        self.operations.get()
    }

    /// Whether the process has been killed.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.is_dead.get()
    }

    /// Another process on the same machine: no failures; the lock and the guardian of the dead
    /// process are gone.
    pub fn revive(&mut self) {
        self.failure = None;
        self.is_dead.set(false);
        self.is_locked = false;
        self.has_guardian = false;
    }

    /// Reboots: kernel settings get these values, the disk is unchanged.
    pub fn reboot(&mut self, settings: &Files) {
        self.revive();
        self.boot.push('\'');
        self.files.retain(|path, _| !is_setting(path));
        self.files.extend(settings.clone());
    }

    /// Counts an operation.
    ///
    /// # Errors
    /// If it is the failing one, or the process is dead.
    fn step(&self) -> io::Result<Option<usize>> {
        if self.is_dead.get() {
            return Err(io::Error::other("killed"));
        }
        let number = self.operations.replace(self.operations.get() + 1);
        match self.failure {
            Some((at, failure)) if at == number => match failure {
                Failure::KilledBefore => {
                    self.is_dead.set(true);
                    Err(io::Error::other("killed"))
                }
                Failure::KilledWithin(bytes) => {
                    self.is_dead.set(true);
                    Ok(Some(bytes))
                }
                Failure::Error(kind) => Err(kind.into()),
            },
            _ => Ok(None),
        }
    }

    /// Counts and logs an operation that changes something.
    fn act(&mut self, what: &str) -> io::Result<Option<usize>> {
        let part = self.step()?;
        self.log.push(what.to_owned());
        Ok(part)
    }

    fn writable(&self, path: &Path) -> io::Result<()> {
        if self.read_only.contains(path) || (is_setting(path) && !self.root) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(())
    }

    fn room(&self, length: usize) -> io::Result<()> {
        match self.disk_limit {
            Some(limit) if length > limit => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }

    /// What a setting shows when this is written.
    fn taken(&self, path: &Path, content: &[u8]) -> io::Result<Vec<u8>> {
        let text = String::from_utf8_lossy(content);
        let words: Vec<_> = text.split_whitespace().collect();
        let mut shown = match self.settings.get(path) {
            Some(takes) => takes(&words.join(" "))?,
            None => words.join("\t"),
        };
        shown.push('\n');
        Ok(shown.into_bytes())
    }
}

fn is_setting(path: &Path) -> bool {
    path.starts_with("/proc/sys")
}

/// The first bytes of a content, or all of it.
fn part_of(content: &[u8], bytes: Option<usize>) -> &[u8] {
    bytes
        .and_then(|bytes| content.get(..bytes))
        .unwrap_or(content)
}

/// The error that a killed process would get; it does not live to see it.
fn unless_killed(bytes: Option<usize>) -> io::Result<()> {
    match bytes {
        None => Ok(()),
        Some(_) => Err(io::Error::other("killed")),
    }
}

impl HostAccess for Fake {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let killed = self.step()?;
        unless_killed(killed)?;
        let content = self.files.get(path).cloned();
        content.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn check_writable(&self, path: &Path) -> io::Result<()> {
        let killed = self.step()?;
        unless_killed(killed)?;
        self.writable(path)?;
        if is_setting(path) && !self.files.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(())
    }

    fn has_program(&self, name: &str) -> bool {
        !self.missing_programs.contains(name)
    }

    fn run(
        &mut self,
        command: &str,
        environment: &BTreeMap<String, String>,
        limit: Duration,
    ) -> io::Result<CommandOutput> {
        let mut line = format!("run {command}");
        for (name, value) in environment {
            let _ = write!(line, " {name}={value}");
        }
        let killed = self.act(&line)?;
        let mut output = match self.commands.get_mut(command) {
            Some(does) => does(&mut self.files, environment),
            None => CommandOutput {
                exit_code: Some(0),
                ..CommandOutput::default()
            },
        };
        if output.duration > limit {
            output.duration = limit;
            output.timed_out = true;
            output.exit_code = None;
        }
        self.sleep(output.duration);
        unless_killed(killed)?;
        Ok(output)
    }

    fn is_root(&self) -> bool {
        self.root
    }
}

impl Host for Fake {
    fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        let part = self.act(&format!("write {} {content:?}", path.display()))?;
        self.writable(path)?;
        if !self.files.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let shown = if is_setting(path) {
            self.taken(path, content)?
        } else {
            part_of(content, part).to_vec()
        };
        self.files.insert(path.to_owned(), shown);
        if let Some(changes) = self.couplings.get(path) {
            changes(&mut self.files);
        }
        unless_killed(part)
    }

    fn replace(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        let part = self.act(&format!("replace {}", path.display()))?;
        self.writable(path)?;
        self.room(content.len())?;
        let place = match part {
            None => path.to_owned(),
            Some(_) => crate::host::replacement_name(path),
        };
        self.files.insert(place, part_of(content, part).to_vec());
        unless_killed(part)
    }

    fn discard_replacement(&mut self, path: &Path) -> io::Result<()> {
        let part = self.act(&format!("discard_replacement {}", path.display()))?;
        self.files.remove(&crate::host::replacement_name(path));
        unless_killed(part)
    }

    fn append(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        let part = self.act(&format!("append {}", path.display()))?;
        self.writable(path)?;
        let limit = self.disk_limit;
        let file = self.files.entry(path.to_owned()).or_default();
        file.extend_from_slice(part_of(content, part));
        if let Some(limit) = limit
            && file.len() > limit
        {
            // A full disk takes only what fits.
            file.truncate(limit);
            return Err(io::ErrorKind::StorageFull.into());
        }
        unless_killed(part)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        let part = self.act(&format!("remove {}", path.display()))?;
        self.writable(path)?;
        let removed = self.files.remove(path);
        unless_killed(part)?;
        removed
            .map(drop)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn make_folder(&mut self, path: &Path) -> io::Result<()> {
        let part = self.act(&format!("make_folder {}", path.display()))?;
        self.writable(path)?;
        unless_killed(part)
    }

    fn untrusted(&self, path: &Path) -> io::Result<Option<UntrustedPath>> {
        Ok(self.distrusted.clone().filter(|it| it.path == path))
    }

    fn lock(&mut self, path: &Path, _note: &str) -> io::Result<Lock> {
        let part = self.act(&format!("lock {}", path.display()))?;
        unless_killed(part)?;
        if let Some(holder) = &self.lock_holder {
            return Ok(Lock::HeldBy(holder.clone()));
        }
        self.is_locked = true;
        Ok(Lock::Ours)
    }

    fn share_lock(&mut self, path: &Path, _note: &str) -> io::Result<bool> {
        let part = self.act(&format!("share_lock {}", path.display()))?;
        unless_killed(part)?;
        self.is_locked = self.lock_holder.is_none() || self.is_lock_shared;
        Ok(self.is_locked)
    }

    fn unlock(&mut self) {
        self.is_locked = false;
    }

    fn claim(&mut self, path: &Path) -> io::Result<bool> {
        Ok(self.claimed.as_deref() != Some(path))
    }

    fn keep_guardian(&mut self, _folder: &Path) -> io::Result<()> {
        let part = self.act("keep_guardian")?;
        if !self.can_be_guarded {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.has_guardian = true;
        unless_killed(part)
    }

    fn dismiss_guardian(&mut self) {
        self.has_guardian = false;
    }

    fn list_settings(&self, folder: &Path) -> io::Result<SettingsFolder> {
        let killed = self.step()?;
        unless_killed(killed)?;
        let mut found = SettingsFolder::default();
        for path in self.files.keys() {
            let Ok(inner) = path.strip_prefix(folder) else {
                continue;
            };
            let mut parts = inner.components();
            match (parts.next(), parts.next()) {
                (Some(_), None) if !self.read_only.contains(path) => {
                    found.settings.push(path.clone());
                }
                (Some(name), Some(_)) => {
                    let inner = folder.join(name);
                    if !found.folders.contains(&inner) {
                        found.folders.push(inner);
                    }
                }
                _ => {}
            }
        }
        Ok(found)
    }

    fn http_status(&mut self, url: &str, _limit: Duration) -> io::Result<u16> {
        let killed = self.act(&format!("ask {url}"))?;
        unless_killed(killed)?;
        let answers = self.responses.get_mut(url);
        answers.and_then(VecDeque::pop_front).unwrap_or(Ok(200))
    }

    fn working_folder(&self) -> Option<PathBuf> {
        None
    }

    fn now_ns(&self) -> u64 {
        self.clock_ns
    }

    fn sleep(&mut self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.clock_ns = self.clock_ns.saturating_add(ns);
    }

    fn wall_clock(&self) -> Option<String> {
        let seconds = self.clock_ns / 1_000_000_000;
        Some(format!(
            "2026-01-01T{:02}:{:02}:{:02}Z",
            seconds / 3600 % 24,
            seconds / 60 % 60,
            seconds % 60
        ))
    }

    fn boot_id(&self) -> String {
        self.boot.clone()
    }

    fn host_name(&self) -> String {
        self.host_name.clone()
    }

    fn kernel(&self) -> String {
        self.kernel.clone()
    }

    fn network_namespace(&self) -> String {
        self.namespace.clone()
    }
}
