//! The two programs that are compared.

use std::ffi::OsStr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testkit::{Folder, Process};

/// What a program left behind.
#[derive(Debug)]
pub(crate) struct ProgramOutput {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: Option<i32>,
}

/// wrk, wrk2 or wrk-cmm, and wrkbench through a link with the same name.
pub(crate) struct Pair {
    wrk: PathBuf,
    ours: PathBuf,
    _folder: Folder,
}

impl Pair {
    /// Finds wrk and creates a link of the same name to wrkbench. `None`: the test is skipped.
    pub(crate) fn find() -> Option<Self> {
        Self::find_named("wrk")
    }

    /// The same for wrk2 or wrk-cmm.
    pub(crate) fn find_named(name: &str) -> Option<Self> {
        let theirs = testkit::require(name)?;
        let folder = Folder::new();
        let ours = PathBuf::from(folder.file(name));
        symlink(env!("CARGO_BIN_EXE_wrkbench"), &ours).expect("a link can be made");
        Some(Self {
            wrk: theirs,
            ours,
            _folder: folder,
        })
    }

    /// Runs both with the same arguments, wrk first.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> (ProgramOutput, ProgramOutput) {
        (self.run_wrk(arguments), self.run_ours(arguments))
    }

    pub(crate) fn run_wrk<A: AsRef<OsStr>>(&self, arguments: &[A]) -> ProgramOutput {
        finish(wrk_command(&self.wrk).args(arguments))
    }

    pub(crate) fn run_ours<A: AsRef<OsStr>>(&self, arguments: &[A]) -> ProgramOutput {
        finish(our_command(&self.ours, arguments).args(arguments))
    }

    /// Starts wrk and leaves it running.
    pub(crate) fn start_wrk<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Process {
        let mut command = wrk_command(&self.wrk);
        command.args(arguments);
        Process::start(command)
    }

    /// Starts wrkbench and leaves it running.
    pub(crate) fn start_ours<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Process {
        let mut command = our_command(&self.ours, arguments);
        command.args(arguments);
        Process::start(command)
    }
}

fn wrk_command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

/// wrkbench, with the backend of this test run. Without a URL the arguments themselves are tested,
/// so nothing is added.
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

fn finish(command: &mut Command) -> ProgramOutput {
    let output = command.output().expect("the program starts");
    ProgramOutput {
        stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
        code: output.status.code(),
    }
}
