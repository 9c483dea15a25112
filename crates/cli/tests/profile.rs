//! `--profile` against servers whose truth is known: `profile/server.c`, compiled here.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

#[path = "profile/elsewhere.rs"]
mod elsewhere;

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use results::{Profile, ProfileComparison, RunResult, ThreadState};
use testkit::{Folder, Output, Process, require, skip};

/// Only one test at a time has a [`Program`]: what another one does with the CPUs would be in the
/// profile.
static ALONE: Mutex<()> = Mutex::new(());

/// The server, compiled with the options of a distribution.
struct Program {
    folder: Folder,
    path: String,
    _alone: MutexGuard<'static, ()>,
}

impl Program {
    fn compiled() -> Option<Self> {
        let compiler = require("cc")?;
        let folder = Folder::new();
        let path = folder.file("truthful-server");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/profile/server.c");
        let status = Command::new(compiler)
            .args([
                "-O2",
                "-fomit-frame-pointer",
                "-pthread",
                "-o",
                &path,
                source,
            ])
            .status()
            .unwrap();
        assert!(status.success());
        Some(Self {
            folder,
            path,
            _alone: ALONE.lock().unwrap_or_else(PoisonError::into_inner),
        })
    }

    fn start(&self, what: &str) -> Process {
        let mut command = Command::new(&self.path);
        command.arg(what);
        Process::start(command)
    }

    /// A run of ten seconds on one connection, with a server that does this; `None` where
    /// profiling is not permitted.
    fn run(&self, what: &str) -> Option<(RunResult, Output)> {
        let mut server = self.start(what);
        let port = server.next_line().unwrap();
        let (json, process) = (self.folder.file("run.json"), server.id().to_string());
        let url = format!("http://127.0.0.1:{}/", port.trim_end());
        let run = [
            "-t1",
            "-c1",
            "-d10",
            "--profile",
            &process,
            "--json",
            &json,
            &url,
        ];
        let output = wrkbench(&run);
        if output.stderr.contains("not permitted") {
            skip("--profile", &output.stderr);
            return None;
        }
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        let result = results::file::load(&std::fs::read(&json).unwrap()).unwrap();
        assert_eq!(results::check(&result), Ok(()));
        Some((result, output))
    }
}

fn wrkbench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wrkbench"));
    command.args(arguments);
    Process::start(command).finish()
}

fn profile(result: &RunResult) -> &Profile {
    let profile = result.profile.as_ref().unwrap();
    let is_compared = matches!(profile.comparison, ProfileComparison::Compared { .. });
    assert!(is_compared, "{:?}, {:?}", profile.comparison, profile.slow);
    assert_eq!(profile.notes, Vec::<String>::new());
    assert_eq!(profile.lost, 0);
    profile
}

/// Seconds per second that threads did this more in slow time, if that is significant.
fn more(profile: &Profile, what: ThreadState) -> Option<f64> {
    let found = profile.per_sec(what)?.found()?;
    Some(found.difference)
}

#[test]
fn a_function_that_computes_for_slow_requests_leads_the_difference() {
    let Some((result, output)) = Program::compiled().and_then(|it| it.run("slow")) else {
        return;
    };
    let profile = profile(&result);
    let first = &profile.functions[0];
    assert_eq!(first.name, "slow", "{:?}", profile.functions);
    let difference = first.total.found().unwrap();
    assert!(difference.difference > 0.5, "{difference:?}");
    let fast = profile
        .functions
        .iter()
        .find(|row| row.name == "fast")
        .unwrap();
    assert!(fast.total.found().unwrap().difference < -0.5, "{fast:?}");
    let lines = &output.stderr;
    assert!(lines.contains("percentage points: slow +"), "{lines}");
}

#[test]
fn a_server_that_waits_for_a_lock_is_not_on_a_cpu() {
    let Some((result, _)) = Program::compiled().and_then(|it| it.run("lock")) else {
        return;
    };
    // It has no samples then, but its threads have times.
    let profile = result.profile.as_ref().unwrap();
    let not_on_cpu = more(profile, ThreadState::NotOnCpu);
    assert!(
        not_on_cpu.is_some_and(|more| more > 0.1),
        "{:?}",
        profile.times
    );
    let on_cpu = more(profile, ThreadState::OnCpu);
    assert!(
        on_cpu.is_some_and(|more| more < -0.05),
        "{:?}",
        profile.times
    );
}

#[test]
fn a_server_whose_cpu_is_taken_waits_in_the_run_queue() {
    let Some(program) = Program::compiled() else {
        return;
    };
    let _neighbour = program.start("burst");
    let Some((result, _)) = program.run("queue") else {
        return;
    };
    let profile = result.profile.as_ref().unwrap();
    let waits = more(profile, ThreadState::RunQueueWait);
    assert!(waits.is_some_and(|more| more > 0.1), "{:?}", profile.times);
}

#[test]
fn a_server_that_is_not_there_ends_the_run_before_it_begins() {
    for (server, part) in [
        ("no-such-server", "no process is called"),
        ("no-such.service", "no process belongs to the unit"),
        ("4294967295", "no process has the number"),
        ("/usr/sbin/nginx", "must be a name without a folder"),
        ("wrkbench-of-nobody", "no process is called"),
    ] {
        let output = wrkbench(&["-d1", "--profile", server, "http://127.0.0.1:9/"]);
        assert_eq!(output.code, Some(1), "{}", output.stderr);
        let line = testkit::one_line(&output.stderr);
        assert!(line.contains("--profile") && line.contains(part), "{line}");
    }
}
