//! The two programs under comparison.

use std::ffi::OsStr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::folder::Folder;

/// What a program left behind.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: Option<i32>,
}

/// Debian's wrk, or a tool that came from it, and ours through a link with the same name.
pub(crate) struct Pair {
    wrk: PathBuf,
    ours: PathBuf,
    _folder: Folder,
}

impl Pair {
    /// Finds wrk and makes the link. `None` if wrk is not installed, which is said.
    ///
    /// # Panics
    /// When wrk is not installed and CI is set: there it must not be forgotten.
    #[expect(clippy::print_stderr, reason = "a test that skips says so")]
    pub(crate) fn find(test: &str) -> Option<Self> {
        let Some(wrk) = on_path("wrk") else {
            assert!(
                std::env::var_os("CI").is_none(),
                "wrk is not on PATH; `make test-packages` installs it"
            );
            eprintln!("skipped: wrk is not on PATH; `make test-packages` installs it");
            return None;
        };
        Some(Self::of(wrk, "wrk", test))
    }

    /// Finds wrk2 or wrk-cmm by this name. `None` if it is not installed, which is said: there is no
    /// package of it.
    #[expect(clippy::print_stderr, reason = "a test that skips says so")]
    pub(crate) fn find_relative(name: &str, test: &str) -> Option<Self> {
        let found = on_path(name);
        if found.is_none() {
            eprintln!("skipped: {name} is not on PATH");
        }
        found.map(|tool| Self::of(tool, name, test))
    }

    fn of(wrk: PathBuf, name: &str, test: &str) -> Self {
        let folder = Folder::new(test);
        let ours = PathBuf::from(folder.path(name));
        let _ = std::fs::remove_file(&ours);
        symlink(env!("CARGO_BIN_EXE_wrkbench"), &ours).expect("a link can be made");
        Self {
            wrk,
            ours,
            _folder: folder,
        }
    }

    /// Runs both with the same arguments, wrk first.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> (Ended, Ended) {
        (self.run_wrk(arguments), self.run_ours(arguments))
    }

    pub(crate) fn run_wrk<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Ended {
        finish(wrk_command(&self.wrk).args(arguments))
    }

    pub(crate) fn run_ours<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Ended {
        finish(our_command(&self.ours, arguments).args(arguments))
    }

    /// Starts wrk and leaves it running, its output thrown away.
    pub(crate) fn start_wrk<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Running {
        Running::start(wrk_command(&self.wrk).args(arguments))
    }

    /// Starts ours and leaves it running, its output thrown away.
    pub(crate) fn start_ours<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Running {
        Running::start(our_command(&self.ours, arguments).args(arguments))
    }
}

/// A program that runs until this is dropped.
pub(crate) struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("the program starts"))
    }

    /// Whether it ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("it can be asked").is_some()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wrk_command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

/// Ours, with the backend that `make test` asks for. Not where the line has no URL: there the
/// arguments themselves are under test.
fn our_command<A: AsRef<OsStr>>(program: &Path, arguments: &[A]) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    let has_url = arguments
        .iter()
        .any(|argument| argument.as_ref().to_string_lossy().contains("://"));
    if let Some(io) = std::env::var_os("WRKBENCH_TEST_IO").filter(|_| has_url) {
        command.arg("--io").arg(io);
    }
    command
}

fn finish(command: &mut Command) -> Ended {
    let output = command.output().expect("the program starts");
    Ended {
        stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
        code: output.status.code(),
    }
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
}
