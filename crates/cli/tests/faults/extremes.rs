//! F73, F76 to F78: terminals that close, values at their limits, proxies.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use results::ErrorKind;
use testkit::{Folder, Process, eventually};

use crate::client::{self, Finished};
use crate::harness::{io_arguments, load, program, site};
use crate::row::{FaultRow, RowOutcome};

pub(crate) fn rows() -> Vec<FaultRow> {
    [terminals(), values(), proxies()]
        .into_iter()
        .flatten()
        .collect()
}

fn terminals() -> Vec<FaultRow> {
    vec![
        FaultRow::new(
            "F73",
            "the terminal closes during the load",
            "the program ends with it",
            a_terminal_that_closes,
        ),
        FaultRow::told(
            "F73",
            "the terminal changes its size",
            "nothing happens",
            a_terminal_that_changes_its_size,
        ),
        FaultRow::told(
            "F73",
            "stdin, stdout and stderr are closed",
            "no socket takes their place: the document is sound",
            closed_streams,
        ),
    ]
}

fn a_terminal_that_closes() -> RowOutcome {
    if !Path::new("/usr/bin/script").exists() {
        return RowOutcome::Skipped("script", "not installed (Debian: bsdutils)".to_owned());
    }
    let site = site();
    let inner = format!(
        "echo $$; exec {} -t1 -c2 -d1h {} {}",
        env!("CARGO_BIN_EXE_wrkbench"),
        io_arguments().join(" "),
        site.url("/")
    );
    let mut command = Command::new("script");
    command.args(["-q", "-e", "-c", &inner, "/dev/null"]);
    let mut terminal = Process::start(command);
    let id: u32 = terminal.next_line().unwrap().trim().parse().unwrap();
    terminal.await_line(|line| line.starts_with("Running "));
    site.await_counts("load", |counts| counts.responses > 10);
    terminal.signal("KILL");
    drop(terminal);
    eventually(|| {
        let is_there = Path::new(&format!("/proc/{id}/exe")).exists();
        if is_there {
            Err(format!("{id} ends"))
        } else {
            Ok(())
        }
    });
    RowOutcome::Held("it has ended".to_owned())
}

fn a_terminal_that_changes_its_size() {
    let site = site();
    let mut running = load(&site).for_ms(400).start();
    running.await_banner();
    for _ in 0..10 {
        running.process.signal("WINCH");
    }
    let run = running.finish().expect_answered_only();
    assert_eq!(run.code, Some(0), "{}", run.story());
    assert!(!run.result.window.interrupted);
}

fn closed_streams() {
    let site = site();
    let folder = Folder::new();
    let json = folder.file("r.json");
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec <&- >&- 2>&-; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_wrkbench"))
        .args(["-t1", "-c4", "-n200", "--json", &json])
        .args(io_arguments())
        .arg(site.url("/"));
    let output = Process::start(command).finish();
    assert_eq!(
        (output.code, output.stdout.as_str()),
        (Some(0), ""),
        "{output:?}"
    );
    let result = crate::judge::document(&std::fs::read(json).unwrap());
    assert_eq!(result.recording.counters.answered, 200);
    let counts = site.counts();
    // No output for a stream has reached the server.
    assert_eq!((counts.requests, counts.refused), (200, 0), "{counts:?}");
}

/// A run with options at their limits, which ends in time. A function checks its result.
fn extreme(
    what: &str,
    expected: &str,
    options: &'static [&'static str],
    allowed_ms: u64,
    check: fn(&Finished),
) -> FaultRow {
    FaultRow::new("F76", what, expected, move || {
        let site = site();
        let arguments: Vec<String> = options.iter().map(|&word| word.to_owned()).collect();
        let run = client::run(
            &arguments,
            &site.url("/"),
            Duration::from_millis(allowed_ms),
        );
        check(&run);
        RowOutcome::Held(format!("{} responses, {}", run.answered(), run.errors()))
    })
}

/// One line, exit 1, nothing started.
fn refused(what: &str, options: &'static [&'static str], part: &'static str) -> FaultRow {
    FaultRow::new(
        "F76",
        what,
        "exit 1, one line that names the option",
        move || {
            let site = site();
            let mut command = program(options);
            command.arg(site.url("/"));
            let output = client::watched(command, Duration::ZERO);
            let line = output.only_line();
            assert!(line.contains(part), "{line}");
            assert_eq!(site.counts().connections, 0);
            RowOutcome::Held(line.to_owned())
        },
    )
}

fn fine(run: &Finished) {
    assert_eq!(run.output.code, Some(0), "{}", run.story());
    assert_eq!(run.kinds(), [], "{}", run.story());
    assert!(run.answered() > 0, "{}", run.story());
}

/// More connections than can be opened, or opened in time. The result contains those that were
/// opened.
fn sound(run: &Finished) {
    let known = [
        ErrorKind::FileLimit,
        ErrorKind::ConnectTimeout,
        ErrorKind::Timeout,
    ];
    assert!(
        run.kinds().iter().all(|kind| known.contains(kind)),
        "{}",
        run.story()
    );
    assert_eq!(
        run.result.window.duration_ns,
        300_000_000,
        "{}",
        run.story()
    );
    let code = i32::from(run.answered() == 0);
    assert_eq!(run.output.code, Some(code), "{}", run.story());
}

fn values() -> Vec<FaultRow> {
    vec![
        refused("a duration of 0", &["-d0"], "--duration 0: "),
        refused("a duration in years", &["-d1y"], "--duration: \"1y\""),
        refused(
            "more threads than connections",
            &["-t4", "-c3"],
            "--connections 3: ",
        ),
        refused(
            "five thousand threads",
            &["-t5000", "-c5000"],
            "--threads 5000: ",
        ),
        refused("a rate of 0", &["-R0"], "--rate: \"0\""),
        refused(
            "more than a request per nanosecond",
            &["-R1.1G"],
            "--rate: \"1.1G\"",
        ),
        refused("an endless rate", &["-Rinf"], "--rate: \"inf\""),
        extreme(
            "a duration of 1 ns",
            "an empty window, exit 1",
            &["-t1", "-c2", "-d1ns"],
            0,
            |run| {
                assert_eq!(run.output.code, Some(1), "{}", run.story());
                assert_eq!(run.result.window.duration_ns, 1);
                assert_eq!(run.answered(), 0, "{}", run.story());
            },
        ),
        extreme(
            "a year, and five requests",
            "done at once, exit 0",
            &["-t1", "-c2", "-d8760h", "-n5"],
            0,
            fine,
        ),
        extreme(
            "a timeout of a year",
            "exit 0",
            &["-t1", "-c2", "-T8760h", "-n5"],
            0,
            fine,
        ),
        extreme(
            "a timeout of 1 ns",
            "timeouts only, exit 1",
            &["-t1", "-c2", "-T1ns", "-d100ms"],
            100,
            |run| {
                let known = [ErrorKind::Timeout, ErrorKind::ConnectTimeout];
                assert!(
                    run.kinds().iter().all(|kind| known.contains(kind)),
                    "{}",
                    run.story()
                );
                let code = i32::from(run.answered() == 0);
                assert_eq!(run.output.code, Some(code), "{}", run.story());
            },
        ),
        extreme(
            "2^64 - 1 requests",
            "the duration ends them, exit 0",
            &["-t1", "-c2", "-n18446744073709551615", "-d100ms"],
            100,
            fine,
        ),
        extreme(
            "65536 requests in flight on a connection",
            "exit 0, bounded memory",
            &["-t1", "-c1", "--pipeline", "65536", "-d400ms"],
            400,
            fine,
        ),
        extreme(
            "a request in each nanosecond",
            "as many as go, ends in time, bounded memory",
            &["-t1", "-c4", "-R1G", "-d300ms"],
            300,
            fine,
        ),
        extreme(
            "a request in twenty minutes",
            "the first one, ends in time",
            &["-t1", "-c4", "-R3/h", "-d200ms"],
            200,
            |run| assert_eq!(run.sent(), 1, "{}", run.story()),
        ),
        extreme(
            "as many threads as connections",
            "exit 0",
            &["-t50", "-c50", "-n500"],
            0,
            fine,
        )
        .alone(),
        extreme(
            "fifteen thousand connections for 300 ms",
            "ends in time with what was made of them",
            &["-q", "-t1", "-c15000", "-d300ms"],
            300,
            sound,
        )
        .alone(),
        extreme(
            "a million connections for 300 ms",
            "ends in time with what was made of them",
            &["-q", "-t1", "-c1M", "-d300ms"],
            300,
            sound,
        )
        .alone(),
    ]
}

/// A proxy is used only if an option names one: the usual environment variables are
fn proxies() -> Vec<FaultRow> {
    vec![FaultRow::new(
        "F78",
        "http_proxy and its like are set",
        "not read: the target is asked itself",
        || {
            let site = site();
            let mut command = program(&[]);
            for name in [
                "http_proxy",
                "HTTP_PROXY",
                "https_proxy",
                "all_proxy",
                "ALL_PROXY",
            ] {
                // Nobody listens at port 1.
                command.env(name, "http://127.0.0.1:1/");
            }
            let arguments = ["-t1", "-c2", "-n20"].map(str::to_owned);
            let run = client::run_in(command, &arguments, &site.url("/"), Duration::ZERO);
            fine(&run);
            assert_eq!(site.counts().requests, 20);
            RowOutcome::Held("20 responses".to_owned())
        },
    )]
}
