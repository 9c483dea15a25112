//! F72: signals at every stage, a closed stdout.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use testkit::eventually;

use crate::harness::{Load, Run, io_arguments, load, program, site};
use crate::row::FaultRow;
use crate::scripts::ENDLESS;

pub(crate) fn rows() -> Vec<FaultRow> {
    vec![
        FaultRow::told(
            "F72",
            "Ctrl-C during the load, whatever it is",
            "the report of what was, exit 0",
            ctrl_c_during_any_load_prints_the_report,
        ),
        FaultRow::told(
            "F72",
            "Ctrl-C before the first response",
            "the report, exit 0; requests in flight are counted",
            ctrl_c_before_the_first_response_is_no_failure_of_the_server,
        ),
        FaultRow::told(
            "F72",
            "Ctrl-C during the warm-up",
            "an empty window, exit 0",
            ctrl_c_during_the_warm_up_gives_an_empty_window,
        ),
        FaultRow::told(
            "F72",
            "Ctrl-C in setup() or init() of a script",
            "exit 130, one line: nothing was measured",
            ctrl_c_before_the_banner_is_told_as_nothing_measured,
        ),
        FaultRow::told(
            "F72",
            "Ctrl-C during an endless loop in a script",
            "the report, exit 0",
            ctrl_c_ends_an_endless_loop_in_a_script,
        ),
        FaultRow::told(
            "F72",
            "the reader of stdout leaves during the load",
            "exit 141, nothing on stderr, the document is there",
            stdout_closed_after_the_banner_loses_the_report_and_not_the_document,
        ),
    ]
}

/// What a run says that a signal ends before its first request.
pub(crate) const NOTHING_MEASURED: &str =
    "wrkbench: interrupted before the first request: nothing was measured\n";

/// Starts the load, waits for this number of requests at the server, and sends SIGINT.
fn interrupted<'a>(load: Load<'a>, site: &crate::harness::Site, requests: u64) -> Run<'a> {
    let mut running = load.start();
    running.await_banner();
    site.await_counts("requests", |counts| counts.requests >= requests);
    running.process.signal("INT");
    let run = running.finish();
    assert!(run.result.window.interrupted, "{}", run.story());
    run
}

fn ctrl_c_during_any_load_prints_the_report() {
    for (target, more) in [
        ("/", &["-d1h"][..]),
        ("/", &["-n", "1000G"]),
        ("/", &["-d1h", "--no-keepalive"]),
        ("/", &["-d1h", "--pipeline", "16"]),
        ("/?size=1M", &["-d1h"]),
    ] {
        let site = site();
        let run = interrupted(load(&site).at(target).threads(2).with(more), &site, 50);
        assert_eq!(run.code, Some(0), "{}", run.story());
        assert!(run.answered() > 0, "{}", run.story());
    }
}

fn ctrl_c_before_the_first_response_is_no_failure_of_the_server() {
    let site = site();
    let run = load(&site).at("/?fault=hang").with(&["-d1h", "-T1h"]);
    let run = interrupted(run, &site, 4);
    assert_eq!(run.code, Some(0), "{}", run.story());
    assert_eq!((run.sent(), run.answered()), (4, 0));
    assert_eq!(run.result.recording.counters.in_flight, 4);
}

fn ctrl_c_during_the_warm_up_gives_an_empty_window() {
    for warmup in ["1h", "auto"] {
        let site = site();
        let run = load(&site).with(&["-d1h", "--warmup", warmup]);
        let run = interrupted(run, &site, 50);
        assert_eq!(run.code, Some(0), "{}", run.story());
        assert_eq!((run.sent(), run.result.window.duration_ns), (0, 0));
        assert_eq!(run.result.window.settling, None);
        assert!(
            run.stdout
                .contains("\n  0 requests in 0.00us, 0.00B read\n"),
            "{}",
            run.stdout
        );
    }
}

fn ctrl_c_before_the_banner_is_told_as_nothing_measured() {
    for phase in ["setup", "init"] {
        let site = site();
        let run = load(&site).script(&format!(
            "function {phase}()
               print('here')
               io.flush()
               while true do end
             end"
        ));
        let mut running = run.start();
        running.process.await_line(|line| line == "here\n");
        running.process.signal("INT");
        let output = running.process.finish();
        assert_eq!(
            (output.code, output.stderr.as_str()),
            (Some(130), NOTHING_MEASURED),
            "{output:?}"
        );
        assert_eq!(site.counts().requests, 0);
    }
}

fn ctrl_c_ends_an_endless_loop_in_a_script() {
    for function in ENDLESS {
        let site = site();
        let run = load(&site)
            .with(&["-d1h"])
            .script(&format!("n = 0\n{function}"));
        let run = interrupted(run, &site, 10);
        assert_eq!(run.code, Some(0), "{}", run.story());
        assert!(run.answered() > 0);
    }
}

fn stdout_closed_after_the_banner_loses_the_report_and_not_the_document() {
    let site = site();
    let json = site.folder.file("r.json");
    let mut command = program(&["-t1", "-c2", "-n200", "--json", &json]);
    command.args(io_arguments()).arg(site.url("/?delay=5ms"));
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(line.starts_with("Running "), "{line}");
    drop(stdout);
    let child = std::cell::RefCell::new(child);
    let status = eventually(|| {
        let ended = child.borrow_mut().try_wait().unwrap();
        ended.ok_or_else(|| "the program ends".to_owned())
    });
    assert_eq!(status.code(), Some(141));
    let stderr = child.into_inner().stderr.take().unwrap();
    assert_eq!(
        std::io::read_to_string(stderr)
            .unwrap()
            .matches("error")
            .count(),
        0
    );
    let result = crate::judge::document(&std::fs::read(json).unwrap());
    assert_eq!(result.recording.counters.answered, 200);
}
