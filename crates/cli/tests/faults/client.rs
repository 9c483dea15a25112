//! A run whose memory, time and output are checked.

use std::fs;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use results::{ErrorKind, RunResult};
use testkit::{Folder, Output, Process};

use crate::harness::{io_arguments, program};
use crate::judge;
use crate::row::{GRACE, TIME_IS_JUDGED};

/// The most memory that a run may have resident at a time, but for what connections take.
const RESIDENT_MAX_KB: u64 = 200_000;
/// More for each connection.
const RESIDENT_PER_CONNECTION_MAX_BYTES: u64 = 400;

/// A finished run with its document.
pub(crate) struct Finished {
    pub(crate) output: Output,
    pub(crate) result: RunResult,
}

/// Runs `wrkbench` with these arguments and a document. Checks what must hold of every run: the
/// document, the report, memory, time and stderr.
pub(crate) fn run(arguments: &[String], url: &str, allowed: Duration) -> Finished {
    run_in(program(&[]), arguments, url, allowed)
}

/// The same with a command that becomes the program.
pub(crate) fn run_in(
    mut command: Command,
    arguments: &[String],
    url: &str,
    allowed: Duration,
) -> Finished {
    let folder = Folder::new();
    let json = folder.file("r.json");
    command
        .args(io_arguments())
        .args(["--json", &json])
        .args(arguments)
        .arg(url);
    let output = watched(command, allowed);
    let document = fs::read(&json).unwrap_or_else(|why| panic!("no document: {why}\n{output:?}"));
    let result = judge::document(&document);
    judge::report(&result, &output.stdout);
    Finished { output, result }
}

/// Runs a command to its end and checks memory, time and stderr.
pub(crate) fn watched(command: Command, allowed: Duration) -> Output {
    let arguments: Vec<String> = command
        .get_args()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let begin = Instant::now();
    let process = Process::start(command);
    let memory = Memory::watch(process.id());
    let output = process.finish();
    let took = begin.elapsed();
    if let Some(peak_kb) = memory.peak_kb() {
        assert!(
            peak_kb < resident_max_kb(&arguments),
            "{peak_kb} kB resident; {output:?}"
        );
    }
    if TIME_IS_JUDGED.load(Ordering::SeqCst) {
        let limit = allowed + GRACE;
        assert!(
            took <= limit,
            "it took {took:?}, more than {limit:?}\n{output:?}"
        );
    }
    for line in output.stderr.lines() {
        assert!(line.starts_with("wrkbench: "), "{line:?} in {output:?}");
    }
    output
}

fn resident_max_kb(arguments: &[String]) -> u64 {
    let connections = arguments.iter().find_map(|word| word.strip_prefix("-c"));
    let connections = connections.map_or(0, |number| plan::units::parse_count(number).unwrap_or(0));
    RESIDENT_MAX_KB + connections * RESIDENT_PER_CONNECTION_MAX_BYTES / 1000
}

/// Samples the memory of a process until it ends.
struct Memory(JoinHandle<Option<u64>>);

impl Memory {
    fn watch(id: u32) -> Self {
        const PAUSE: Duration = Duration::from_millis(5);
        Self(std::thread::spawn(move || {
            let start = start_ticks(id);
            let mut peak_kb = None;
            // VmHWM is the peak so far; it is gone when the process is (proc(5)).
            while let Some(kb) = resident_peak_kb(id)
                && start_ticks(id) == start
            {
                peak_kb = peak_kb.max(Some(kb));
                std::thread::park_timeout(PAUSE);
            }
            peak_kb
        }))
    }

    /// `None`: it ended before the first sample.
    fn peak_kb(self) -> Option<u64> {
        self.0.join().unwrap()
    }
}

fn resident_peak_kb(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// When the process started, in clock ticks since boot. With the process ID it identifies the
/// process, since IDs are reused.
fn start_ticks(id: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // Field 22; the name, which may have blanks and parentheses in it, is field 2 (proc(5)).
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_whitespace().nth(19)?.parse().ok()
}

impl Finished {
    pub(crate) fn answered(&self) -> u64 {
        self.result.recording.counters.answered
    }

    pub(crate) fn sent(&self) -> u64 {
        self.result.recording.counters.sent
    }

    pub(crate) fn events(&self) -> u64 {
        self.result.recording.errors.events()
    }

    /// The number of failed requests.
    pub(crate) fn failed(&self) -> u64 {
        self.result.recording.errors.exchanges()
    }

    pub(crate) fn kinds(&self) -> Vec<ErrorKind> {
        let errors = &self.result.recording.errors;
        errors.iter().map(|(kind, _)| kind).collect()
    }

    /// `6 x reset`, for the table.
    pub(crate) fn errors(&self) -> String {
        let errors = &self.result.recording.errors;
        let words: Vec<String> = errors
            .iter()
            .map(|(kind, count)| format!("{} x {kind}", count.events))
            .collect();
        if words.is_empty() {
            "no error".to_owned()
        } else {
            words.join(", ")
        }
    }

    /// What happened, for a row that fails.
    pub(crate) fn story(&self) -> String {
        let recording = &self.result.recording;
        format!(
            "exit code {:?}\n{}{}{:?}\n{:?}\n{:?}",
            self.output.code,
            self.output.stdout,
            self.output.stderr,
            recording.counters,
            recording.statuses,
            recording.errors
        )
    }
}
