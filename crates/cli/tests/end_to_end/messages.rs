//! The lines of a run on stderr, their order, and what of them is in the document.

use std::fs;
use std::process::Command;

use testkit::{Process, one_line};

use crate::harness::{Run, io_arguments, load, program, site};
use crate::judge;

/// The lines of stderr without the name of the program.
fn messages<'a>(run: &'a Run<'_>) -> Vec<&'a str> {
    run.stderr
        .lines()
        .map(|line| line.strip_prefix("wrkbench: ").unwrap_or(line))
        .collect()
}

#[test]
fn a_run_of_redirects_reports_their_location_first() {
    let site = site();
    let target = "/?status=301&header=Location:https://site.example/new";
    let run = load(&site).at(target).requests(20).run();
    let said = "all 20 responses were redirects (status 301) to https://site.example/new: measure \
        that URL";
    assert_eq!(
        messages(&run)[0],
        format!("warning: {said}"),
        "{}",
        run.story()
    );
    assert_eq!(run.document["warnings"][0]["kind"], "only_redirects");
    assert_eq!(run.document["warnings"][0]["text"], said);
    assert_eq!(
        run.document["redirect_location"],
        "https://site.example/new"
    );
}

#[test]
fn a_run_without_a_success_is_reported_before_its_errors() {
    let site = site();
    let target = "/?status=503&mix=20%:reset";
    let run = load(&site).at(target).requests(200).run();
    let lines = messages(&run);
    assert!(
        lines[0].starts_with("warning: none of ")
            && lines[0].ends_with(" was a success (status 503): check the URL and the server"),
        "{lines:?}"
    );
    assert!(lines[1].contains(" x reset: "), "{lines:?}");
}

#[test]
fn only_affected_percentiles_of_an_overloaded_server_are_lower_bounds() {
    let site = site();
    // One connection with 10 ms for each request: 100 of 300 requests/s are answered.
    let load = load(&site).at("/?delay=10ms").connections(1).for_ms(1500);
    let run = load.with(&["-R300", "--latency"]).run();
    let percentiles = run.document["summary"]["latency"]["percentiles"].clone();
    let marked: Vec<f64> = percentiles
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["lower_bound"] == true)
        .map(|row| row["percent"].as_f64().unwrap())
        .collect();
    assert_eq!(
        marked,
        [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999, 100.0]
    );
    let lines = messages(&run);
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("note: p50, p75, p90, p99, ")
                && line.ends_with(
                    " requests had no response and count with the time they had waited"
                )),
        "{lines:?}"
    );
    assert_eq!(
        run.document["summary"]["service_time"]["percentiles"][0]["lower_bound"],
        false
    );
}

#[test]
fn a_window_with_requests_of_the_warm_up_only_is_no_failure() {
    let site = site();
    // The warm-up leaves a queue that takes one connection ten seconds.
    let load = load(&site).at("/?delay=10ms").connections(1).for_ms(300);
    let run = load.with(&["-R2000", "--warmup", "500ms"]).start().finish();
    assert_eq!(run.answered(), 0, "{}", run.story());
    assert_eq!(run.code, Some(0), "{}", run.story());
    let lines = messages(&run).join("\n");
    for part in [
        "no request of the window was answered within it",
        " responses were to requests of the warm-up",
        " requests due were not sent",
    ] {
        assert!(lines.contains(part), "{lines}");
    }
    assert!(!lines.contains("no request succeeded"), "{lines}");
}

#[test]
fn ctrl_c_during_the_warm_up_is_reported_as_such() {
    let site = site();
    for warmup in ["--warmup", "-D"] {
        let run = load(&site).connections(7).with(&["-d1h", warmup, "1h"]);
        let run = run.interrupted();
        assert_eq!(
            messages(&run),
            ["warning: interrupted during the warm-up: nothing was measured"],
            "{}",
            run.story()
        );
        assert_eq!(run.code, Some(0), "{}", run.story());
    }
}

#[test]
fn unexpected_bytes_are_errors_wherever_errors_are_counted() {
    let site = site();
    let target = "/?until-close&close=silent&header=Content-Length:5";
    let run = load(&site).at(target).requests(200);
    let run = run.with(&["--fail-if", "errors>0"]).start().finish();
    assert_eq!(run.code, Some(2), "{}", run.story());
    let errors = run.document["summary"]["errors"].as_u64().unwrap();
    let read = run.document["summary"]["socket_errors"]["read"]
        .as_u64()
        .unwrap();
    assert!(errors > 0 && errors == read, "{errors} {read}");
    let line = format!("failed: errors is {errors}, limit errors>0");
    assert!(messages(&run).contains(&line.as_str()), "{}", run.story());
}

#[test]
fn a_good_verdict_is_printed_on_request() {
    let site = site();
    let is_ok = |line: &&str| line.contains("load generator OK");
    let run = load(&site).for_ms(300).with(&["-R100"]).run();
    assert!(!messages(&run).iter().any(is_ok), "{}", run.story());
    let run = load(&site).for_ms(300).with(&["-R100", "-v"]).run();
    let fine = run.document["generator"]["verdict"]["kind"] == "fine";
    let said = "note: load generator OK: neither disturbed nor saturated";
    assert_eq!(messages(&run).contains(&said), fine, "{}", run.story());
}

/// A shell command in which `$W` is the program with a short run.
fn in_shell(command: &str, url: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("W=\"$0 $*\"; {command}")]);
    shell.args([env!("CARGO_BIN_EXE_wrkbench"), "-t1", "-c2", "-n1000"]);
    shell.args(io_arguments()).arg(url);
    shell
}

#[test]
fn a_full_stdout_is_reported_and_the_document_saved() {
    let site = site();
    let json = site.folder.file("full.json");
    let output = Process::start(in_shell(
        &format!("$W -q --json {json} > /dev/full"),
        &site.url("/"),
    ));
    let output = output.finish();
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_eq!(
        one_line(&output.stderr),
        "wrkbench: cannot write to stdout: No space left on device (os error 28)"
    );
    let result = judge::document(&fs::read(json).unwrap());
    assert_eq!(result.recording.counters.answered, 1000);
}

#[test]
fn a_document_for_dev_stdout_follows_the_report() {
    let site = site();
    let file = site.folder.file("out");
    for command in [
        format!("$W --json /dev/stdout > {file}"),
        format!("$W --json /dev/stdout | cat > {file}"),
    ] {
        let output = Process::start(in_shell(&command, &site.url("/"))).finish();
        assert_eq!(output.code, Some(0), "{output:?}");
        let written = fs::read_to_string(&file).unwrap();
        assert!(written.starts_with("Running "), "{command}: {written:.200}");
        let (_, document) = written.split_once("\n{").expect("the document follows");
        let result = judge::document(format!("{{{document}").as_bytes());
        assert_eq!(result.recording.counters.answered, 1000);
    }
}

#[test]
fn a_document_is_written_through_a_link_and_into_a_pipe() {
    let site = site();
    let (target, link, pipe) = (
        site.folder.file("target.json"),
        site.folder.file("link.json"),
        site.folder.file("pipe"),
    );
    let command = format!(
        "ln -s target.json {link}; mkfifo {pipe}; cat {pipe} > {target}.read & $W --json {link} \
         --hlog {pipe}; wait"
    );
    let output = Process::start(in_shell(&command, &site.url("/"))).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let result = judge::document(&fs::read(target.clone()).unwrap());
    assert_eq!(result.recording.counters.answered, 1000);
    let log = fs::read_to_string(format!("{target}.read")).unwrap();
    assert!(log.contains("#[StartTime: "), "{log}");
}

#[test]
fn sigterm_ends_the_wait_for_a_pipe_without_a_reader_and_other_files_are_written() {
    let site = site();
    let (pipe, log) = (site.folder.file("pipe"), site.folder.file("r.hlog"));
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|it| it.success()));
    let options = ["-t1", "-c1", "-n10", "--json", &pipe, "--hlog", &log];
    let mut process = Process::start(program(&[&options[..], &[&site.url("/")]].concat()));
    process.await_line(|line| line.starts_with("Transfer/sec:"));
    process.signal("TERM");
    let output = process.finish();
    assert_eq!(output.code, Some(1), "{output:?}");
    let expected = format!(
        "wrkbench: --json {pipe:?}: cannot write the result: interrupted while no program has \
         opened the pipe for reading"
    );
    assert!(output.stderr.lines().any(|it| it == expected), "{output:?}");
    let log = fs::read_to_string(log).unwrap();
    assert!(log.contains("#[StartTime: "), "{log}");
}

#[test]
fn the_window_begins_after_the_warm_up_by_the_wall_clock_too() {
    let site = site();
    let of_mtime_ms = |path: &str| {
        let modified = fs::metadata(path).unwrap().modified().unwrap();
        let since = modified.duration_since(std::time::UNIX_EPOCH).unwrap();
        u64::try_from(since.as_millis()).unwrap()
    };
    // Files that are written before the program starts and after it has ended are marks on the same
    // clock.
    let begin_ms = of_mtime_ms(&site.folder.file_with("before", ""));
    let run = load(&site).for_ms(300).with(&["--warmup", "2s"]).run();
    let end_ms = of_mtime_ms(&site.folder.file_with("after", ""));
    let started_ms = run.result.window.started_unix_ms;
    // A tick of the clock that file systems use is 10 ms at most.
    assert!(
        (begin_ms + 2000 - 10..=end_ms - 300 + 10).contains(&started_ms),
        "{begin_ms} {started_ms} {end_ms}"
    );
}
