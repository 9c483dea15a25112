//! F67 to F71: stopped processes, a busy machine, a clock that jumps, too little memory.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use results::{ErrorKind, Finding, RunResult, Symptom};
use testkit::{Folder, Output, Process, one_line};

use crate::harness::{io_arguments, program};
use crate::judge;
use crate::row::{FaultRow, GRACE, RowOutcome};

pub(crate) fn rows() -> Vec<FaultRow> {
    vec![
        FaultRow::new(
            "F67",
            "the server is stopped for 800 ms",
            "timeout; the run goes on, exit 0",
            a_server_that_stops,
        )
        .alone(),
        FaultRow::new(
            "F67",
            "the program is stopped for 600 ms in the middle",
            "the run ends at its time, exit 0",
            || stopped_program(&["-d1500ms"], 600, 1500),
        )
        .alone(),
        FaultRow::new(
            "F67",
            "the program is stopped until after its end",
            "the run ends at once, its window is as long as asked for",
            || stopped_program(&["-d1s"], 1500, 1000),
        )
        .alone(),
        FaultRow::new(
            "F67",
            "the program is stopped at a constant rate",
            "what was due meanwhile counts at its lateness",
            a_program_that_stops_at_a_constant_rate,
        )
        .alone(),
        FaultRow::new(
            "F68",
            "eight endless loops on the program's only core",
            "the run ends in time, exit 0",
            a_program_without_a_core_of_its_own,
        )
        .alone(),
        FaultRow::new(
            "F69",
            "the wall clock jumps by an hour, forwards and back",
            "no number knows it",
            a_wall_clock_that_jumps,
        )
        .alone(),
        FaultRow::new(
            "F70",
            "both ends are stopped together, as in a suspended machine",
            "the run goes on, exit 0",
            both_stopped,
        )
        .alone(),
        FaultRow::new(
            "F71",
            "less and less memory for two thousand connections",
            "a sound result, or one line, or the allocator's own end; nothing in between",
            too_little_memory,
        )
        .alone(),
    ]
}

/// The built-in server as a separate process, and its URL.
fn server(more: &[&str]) -> (Process, String) {
    let mut command = program(&["serve", "--listen", "0", "--io", "epoll"]);
    command.args(more);
    let mut server = Process::start(command);
    let line = server.next_line().unwrap();
    let url = line.strip_prefix("serving ").unwrap().trim_end().to_owned();
    (server, url)
}

/// The duration of a fault. It does not wait for an event.
fn for_ms(duration_ms: u64) {
    std::thread::sleep(Duration::from_millis(duration_ms));
}

/// A run that is under way.
struct Run {
    process: Process,
    folder: Folder,
    begin: Instant,
}

impl Run {
    /// Starts `program`, which is wrkbench or becomes it, and waits for the banner.
    fn start(mut program: Command, arguments: &[&str], url: &str) -> Self {
        let folder = Folder::new();
        program
            .args(["-t1", "-c4", "--json", &folder.file("r.json")])
            .args(io_arguments())
            .args(arguments)
            .arg(url);
        let mut process = Process::start(program);
        process.await_line(|line| line.starts_with("Running ") && line.contains(" test @ "));
        Self {
            process,
            folder,
            begin: Instant::now(),
        }
    }

    /// Its outcome. The run must not have taken longer than allowed.
    fn finish(self, allowed_ms: u64) -> (RunResult, Output) {
        let output = self.process.finish();
        let took = self.begin.elapsed();
        let allowed = Duration::from_millis(allowed_ms) + GRACE;
        assert!(
            took < allowed,
            "it took {took:?}, more than {allowed:?}; {output:?}"
        );
        let document = fs::read(self.folder.file("r.json"));
        let document = document.unwrap_or_else(|why| panic!("no document: {why}; {output:?}"));
        (judge::document(&document), output)
    }
}

fn kinds(result: &RunResult) -> Vec<ErrorKind> {
    result
        .recording
        .errors
        .iter()
        .map(|(kind, _)| kind)
        .collect()
}

/// Responses in about the last 300 ms.
fn answered_at_the_end(result: &RunResult) -> u64 {
    let rows = result.recording.series.rows();
    rows.iter().rev().take(3).map(|row| row.answered).sum()
}

fn a_server_that_stops() -> RowOutcome {
    let (server, url) = server(&[]);
    let run = Run::start(program(&[]), &["-d2s", "-T300ms"], &url);
    for_ms(400);
    server.signal("STOP");
    for_ms(800);
    server.signal("CONT");
    let (result, output) = run.finish(2000);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(kinds(&result), [ErrorKind::Timeout], "{output:?}");
    assert!(answered_at_the_end(&result) > 0, "{output:?}");
    let max_ns = result.recording.latency().max_ns().unwrap();
    assert!(max_ns >= 300_000_000, "{max_ns}; {output:?}");
    RowOutcome::Held(format!("{} timeouts", result.recording.timed_out.count()))
}

fn stopped_program(arguments: &[&str], stopped_ms: u64, duration_ms: u64) -> RowOutcome {
    let (_server, url) = server(&[]);
    let run = Run::start(program(&[]), arguments, &url);
    for_ms(300);
    run.process.signal("STOP");
    for_ms(stopped_ms);
    run.process.signal("CONT");
    let (result, output) = run.finish(duration_ms.max(300 + stopped_ms));
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(kinds(&result), [], "{output:?}");
    assert_eq!(result.window.duration_ns, duration_ms * 1_000_000);
    assert_standstill(&result);
    RowOutcome::Held(format!("{} responses", result.recording.counters.answered))
}

/// A suspended load generator reports it.
fn assert_standstill(result: &RunResult) {
    let verdict = &result.generator.verdict;
    let is_it = |sign: &Finding<Symptom>| matches!(sign.data, Symptom::Paused { .. });
    assert!(verdict.evidence().0.iter().any(is_it), "{verdict:?}");
}

fn a_program_that_stops_at_a_constant_rate() -> RowOutcome {
    let (_server, url) = server(&[]);
    let run = Run::start(program(&[]), &["-R200", "-d2s", "-T5s"], &url);
    for_ms(500);
    run.process.signal("STOP");
    for_ms(800);
    run.process.signal("CONT");
    let (result, output) = run.finish(2000);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(kinds(&result), [], "{output:?}");
    let recording = &result.recording;
    // Every request of the schedule was sent, some of them late.
    assert!(recording.counters.answered >= 395, "{output:?}");
    let max_ns = recording.response_time.max_ns().unwrap();
    assert!(
        (700_000_000..1_500_000_000).contains(&max_ns),
        "{max_ns}; {output:?}"
    );
    assert_standstill(&result);
    let median_ns = recording.service_time.value_at_percentile(50.0);
    assert!(median_ns < 100_000_000, "{median_ns}; {output:?}");
    RowOutcome::Held(format!(
        "{} responses, the latest after {} ms",
        recording.counters.answered,
        max_ns / 1_000_000
    ))
}

fn both_stopped() -> RowOutcome {
    let (server, url) = server(&[]);
    let run = Run::start(program(&[]), &["-d2s"], &url);
    for_ms(300);
    run.process.signal("STOP");
    server.signal("STOP");
    for_ms(1000);
    server.signal("CONT");
    run.process.signal("CONT");
    let (result, output) = run.finish(2000);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(kinds(&result), [], "{output:?}");
    assert!(answered_at_the_end(&result) > 0, "{output:?}");
    assert_standstill(&result);
    RowOutcome::Held(format!("{} responses", result.recording.counters.answered))
}

fn a_program_without_a_core_of_its_own() -> RowOutcome {
    let (_server, url) = server(&[]);
    let pinned = |program: &str| {
        let mut command = Command::new("taskset");
        command.args(["-c", "0", program]);
        command
    };
    let mut loops = Vec::new();
    for _ in 0..8 {
        let mut command = pinned("sh");
        command.args(["-c", "while :; do :; done"]);
        // Ended when it goes out of scope.
        loops.push(Process::start(command));
    }
    let run = Run::start(pinned(env!("CARGO_BIN_EXE_wrkbench")), &["-d1s"], &url);
    let (result, output) = run.finish(1000);
    drop(loops);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(kinds(&result), [], "{output:?}");
    assert_eq!(result.window.duration_ns, 1_000_000_000);
    RowOutcome::Held(format!("{} responses", result.recording.counters.answered))
}

fn unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_millis() as u64
}

/// Where Debian's package faketime has its library.
fn faketime() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?;
    folders
        .filter_map(|entry| Some(entry.ok()?.path().join("faketime/libfaketime.so.1")))
        .find(|path| path.exists())
}

fn a_wall_clock_that_jumps() -> RowOutcome {
    let Some(library) = faketime() else {
        return RowOutcome::Skipped("faketime", "not installed (Debian: faketime)".to_owned());
    };
    let (_server, url) = server(&[]);
    let folder = Folder::new();
    let shift = folder.file_with("shift", "-1h");
    let set = |by: &str| fs::rename(folder.file_with("new", by), &shift).unwrap();
    let mut command = program(&[]);
    // Only the wall clock: CLOCK_MONOTONIC never jumps (clock_gettime(2)).
    command
        .env("LD_PRELOAD", library)
        .env("FAKETIME_TIMESTAMP_FILE", &shift)
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .env("DONT_FAKE_MONOTONIC", "1");
    let run = Run::start(command, &["-d1500ms", "-T500ms"], &url);
    let now_ms = unix_ms();
    for_ms(400);
    set("+1h");
    for_ms(400);
    set("-1h");
    let (result, output) = run.finish(1500);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(kinds(&result), [], "{output:?}");
    assert_eq!(result.window.duration_ns, 1_500_000_000);
    let max_ns = result.recording.latency().max_ns().unwrap();
    assert!(max_ns < 500_000_000, "{max_ns}; {output:?}");
    // The start time of the result shows that the clock was shifted.
    let shifted_s = now_ms.abs_diff(result.window.started_unix_ms) / 1000;
    assert!(
        (3500..3700).contains(&shifted_s),
        "{shifted_s} s; {output:?}"
    );
    RowOutcome::Held(format!("{} responses", result.recording.counters.answered))
}

fn too_little_memory() -> RowOutcome {
    let (_server, url) = server(&[]);
    let mut ends = Vec::new();
    for limit_kb in [400_000, 100_000, 60_000, 40_000, 20_000] {
        let folder = Folder::new();
        let json = folder.file("r.json");
        let limited = || {
            let mut command = Command::new("sh");
            command
                .args(["-c", &format!("ulimit -v {limit_kb}; exec \"$0\" \"$@\"")])
                .arg(env!("CARGO_BIN_EXE_wrkbench"));
            command
        };
        // With less than the size of the program the kernel does not start it.
        let mut help = limited();
        help.arg("--help");
        if Process::start(help).finish().code != Some(0) {
            ends.push("not even loaded");
            continue;
        }
        let mut command = limited();
        command
            .args(["-q", "-t2", "-c2000", "-n4000", "--json", &json])
            .args(io_arguments())
            .arg(&url);
        let output = Process::start(command).finish();
        ends.push(match output.code {
            Some(0) => {
                judge::document(&fs::read(&json).unwrap());
                "a result"
            }
            Some(1) => {
                one_line(&output.stderr);
                "a line"
            }
            // Rust's allocator ends the program by SIGABRT.
            None => {
                assert!(output.stderr.contains("memory allocation of"), "{output:?}");
                "the allocator's end"
            }
            code => panic!("{code:?} {output:?}"),
        });
    }
    assert_eq!(ends[0], "a result", "{ends:?}");
    RowOutcome::Held(ends.join(", "))
}
