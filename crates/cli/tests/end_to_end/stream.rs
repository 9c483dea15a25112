//! `--stream`: a line of JSON for each second and event.

use std::fs;
use std::io::Read;
use std::process::Command;
use std::sync::LazyLock;

use jsonschema::Validator;
use results::{Metric, metric};
use serde_json::Value;
use testkit::{Output, Process};

use crate::harness::{Load, Site, load, program, site};

static SCHEMA: LazyLock<Validator> = LazyLock::new(|| {
    let text = include_str!("../../../../docs/stream.schema.json");
    jsonschema::draft202012::new(&serde_json::from_str(text).unwrap()).unwrap()
});

/// Reads the lines of a stream, each of which must match the schema and name metrics only.
fn lines(text: &str) -> Vec<Value> {
    assert!(text.ends_with('\n'), "{text:?}");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    for line in &lines {
        let faults: Vec<String> = SCHEMA.iter_errors(line).map(|it| it.to_string()).collect();
        assert_eq!(faults, [""; 0], "{line}");
        for figures in ["interval", "total"] {
            for name in line[figures]
                .as_object()
                .into_iter()
                .flat_map(|it| it.keys())
            {
                assert!(Metric::is_name(name), "{name}");
            }
        }
    }
    let times: Vec<f64> = lines
        .iter()
        .map(|it| it["elapsed_s"].as_f64().unwrap())
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    lines
}

fn events(lines: &[Value]) -> Vec<&str> {
    lines
        .iter()
        .map(|line| line["event"].as_str().unwrap())
        .collect()
}

/// The events without the seconds.
fn framework(lines: &[Value]) -> Vec<&str> {
    let events = events(lines).into_iter();
    events.filter(|event| *event != "second").collect()
}

fn of<'a>(lines: &'a [Value], event: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

fn small(site: &Site) -> Load<'_> {
    load(site).requests(40)
}

#[test]
fn a_file_has_the_start_the_seconds_and_the_end_of_a_run() {
    let site = site();
    let path = site.folder.file("stream.jsonl");
    let options = ["--stream", &path, "--label", "branch=main", "-R200"];
    let run = load(&site).with(&options).for_ms(3_500).run();
    let lines = lines(&fs::read_to_string(&path).unwrap());
    assert_eq!(framework(&lines), ["start", "end"], "{lines:?}");
    let [start, .., end] = lines.as_slice() else {
        panic!("{lines:?}")
    };
    assert_eq!(start["plan"], run.document["plan"]);
    assert_eq!(start["labels"]["branch"], "main");
    // The third may be the last second of a slow machine.
    let seconds = of(&lines, "second");
    assert!((2..=4).contains(&seconds.len()), "{lines:?}");
    for second in &seconds {
        assert_eq!(second["stage"], "measuring");
        assert_eq!(second["open_connections"], 4);
        assert!(second["interval"]["latency_p99_us"].is_f64(), "{second}");
        assert!(second["total"]["status_200"].is_u64(), "{second}");
    }
    let values = metric::values(&run.result);
    let total = end["total"].as_object().unwrap();
    assert_eq!(total.len(), values.len());
    for (name, value) in &values {
        // Reading a number may change its last bit.
        let difference = total[name].as_f64().unwrap() - value;
        assert!(difference.abs() <= value.abs() * 1e-12, "{name}");
    }
    assert_eq!(end["verdict"], run.document["generator"]["verdict"]);
    assert_eq!(end["interrupted"], false);
}

#[test]
fn seconds_of_the_warm_up_are_told_from_those_of_the_window() {
    let site = site();
    let path = site.folder.file("stream.jsonl");
    let options = ["--stream", &path, "--warmup=1500ms"];
    load(&site).with(&options).for_ms(1_500).run();
    let lines = lines(&fs::read_to_string(&path).unwrap());
    let stages: Vec<&Value> = of(&lines, "second").iter().map(|it| &it["stage"]).collect();
    assert_eq!(
        stages.first(),
        Some(&&Value::from("warming_up")),
        "{lines:?}"
    );
    let warm = of(&lines, "second")[0];
    assert!(warm["interval"]["requests"].as_u64() > Some(0), "{warm}");
    assert!(warm.get("total").is_none(), "{warm}");
}

#[test]
fn a_stream_on_stdout_has_the_report_on_stderr() {
    let site = site();
    let Output {
        code,
        stdout,
        stderr,
    } = small(&site).with(&["--stream", "-", "-v"]).output();
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(events(&lines(&stdout)), ["start", "end"]);
    for part in ["wrkbench ", "Running 40 requests test", "Requests/sec:"] {
        assert!(stderr.contains(part), "{stderr}");
    }
}

#[test]
fn an_open_descriptor_and_a_pipe_can_be_written() {
    let site = site();
    let [descriptor, pipe] = ["descriptor", "pipe"].map(|it| site.folder.file(it));
    let shell = format!("exec 3>{descriptor}");
    let output = small(&site)
        .in_shell_after(&shell)
        .with(&["--stream", "fd:3"])
        .output();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(
        events(&lines(&fs::read_to_string(descriptor).unwrap())),
        ["start", "end"]
    );

    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|it| it.success()));
    // Opened for both, it needs no other end (fifo(7)).
    let mut reader = fs::File::options()
        .read(true)
        .write(true)
        .open(&pipe)
        .unwrap();
    let output = small(&site).with(&["--stream", &pipe]).output();
    assert_eq!(output.code, Some(0), "{output:?}");
    let mut text = vec![0; 1 << 16];
    let length = reader.read(&mut text).unwrap();
    let text = str::from_utf8(&text[..length]).unwrap();
    assert_eq!(events(&lines(text)), ["start", "end"]);
}

#[test]
fn a_stream_that_cannot_be_written_ends_in_one_warning_and_the_run_goes_on() {
    let site = site();
    for (target, shell, reason) in [
        ("/dev/full", "true", "No space left on device"),
        ("fd:3", "exec 3>/dev/full", "No space left on device"),
        ("-", "exec > /dev/full", "No space left on device"),
    ] {
        let options = ["--stream", target];
        let output = small(&site).in_shell_after(shell).with(&options).output();
        assert_eq!(output.code, Some(0), "{output:?}");
        let warnings: Vec<&str> = output
            .stderr
            .lines()
            .filter(|it| it.contains("--stream"))
            .collect();
        let expected = format!(
            "wrkbench: warning: --stream: 2 lines could not be written ({reason} (os error 28))"
        );
        assert_eq!(warnings, [expected], "{output:?}");
    }
}

#[test]
fn a_reader_that_has_gone_does_not_end_the_run() {
    let site = site();
    let pipe = site.folder.file("pipe");
    // The reader opens the pipe and leaves before the first line.
    let shell = format!("mkfifo {pipe}; exec 3<>{pipe} 4>{pipe} 3<&-");
    let output = small(&site)
        .in_shell_after(&shell)
        .with(&["--stream", "fd:4"])
        .output();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(
        output
            .stderr
            .contains("2 lines could not be written (Broken pipe"),
        "{output:?}"
    );
    assert!(output.stdout.contains("Requests/sec:"), "{output:?}");
}

#[test]
fn ctrl_c_ends_a_stream_with_its_end() {
    let site = site();
    let path = site.folder.file("stream.jsonl");
    let mut running = load(&site)
        .for_ms(600_000)
        .with(&["--stream", &path])
        .start();
    running.await_banner();
    testkit::eventually(|| match fs::read_to_string(&path) {
        Ok(text) if text.contains("\"second\"") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    running.process.signal("INT");
    let run = running.finish();
    let lines = lines(&fs::read_to_string(&path).unwrap());
    let end = lines.last().unwrap();
    assert_eq!(
        (&end["event"], &end["interrupted"]),
        (&"end".into(), &true.into())
    );
    assert_eq!(end["total"]["requests"], run.answered());
}

#[test]
fn conditions_that_hold_and_runs_that_fail_are_in_the_end() {
    let site = site();
    let path = site.folder.file("stream.jsonl");
    let options = ["--stream", &path, "--fail-if", "requests>1", "-q"];
    let output = small(&site).with(&options).output();
    assert_eq!(output.code, Some(2), "{output:?}");
    let lines = lines(&fs::read_to_string(&path).unwrap());
    let failed = lines.last().unwrap()["failed"].as_array().unwrap();
    assert!(
        failed[0].as_str().unwrap().contains("requests>1"),
        "{failed:?}"
    );
}

#[test]
fn a_stream_that_cannot_be_opened_is_refused_before_the_run() {
    let site = site();
    let folder = site.folder.path().to_str().unwrap().to_owned();
    let pipe = site.folder.file("pipe");
    let missing = site.folder.file("missing/stream");
    let url = site.url("/");
    for (shell, target, expected) in [
        ("true", folder.as_str(), "is a directory"),
        ("true", &missing, "there is no directory"),
        ("true", "fd:77", "is not open"),
        ("exec 3<&0", "fd:3", "is not open for writing"),
        ("true", "fd:x", "is not a descriptor (expected like fd:3)"),
        ("true", "", "expected a file, - or fd:N"),
        (&format!("mkfifo {pipe}"), &pipe, "nobody reads the pipe"),
    ] {
        let options = ["--stream", target];
        let output = small(&site).in_shell_after(shell).with(&options).output();
        let line = output.only_line();
        assert!(
            line.contains("--stream") && line.contains(expected),
            "{line}"
        );
    }
    for arguments in [
        ["--stream", "-", "--json", "-"].as_slice(),
        &["--stream", "same", "--json", "same"],
        &["--stream", "same", "--once"],
    ] {
        let output = Process::start(program(&[arguments, &[&url]].concat())).finish();
        assert!(output.only_line().contains("--stream"), "{output:?}");
    }
    assert_eq!(site.stop().counts.requests, 0);
}

#[test]
fn a_sweep_tells_its_trials_and_what_they_have_shown() {
    let site = site();
    let [results, journal, path] = ["results", "journal", "stream"].map(|it| site.folder.file(it));
    let url = site.url("/");
    let mut command = program(&["sweep", &url, "-t1", "-n100", "-L", "connections", "1,2"]);
    command.args([
        "--rounds",
        "4",
        "--results",
        &results,
        "--journal",
        &journal,
    ]);
    let output = Process::start({
        command.args(["--stream", &path]);
        command
    })
    .finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    let lines = lines(&fs::read_to_string(&path).unwrap());
    let events = framework(&lines);
    assert_eq!(events[0], "experiment_start");
    let trial = ["trial_start", "start", "end", "trial_end"];
    let trials = of(&lines, "trial_end");
    let finished: Vec<&&Value> = trials
        .iter()
        .filter(|it| it["outcome"] == "finished")
        .collect();
    assert_eq!(finished.len(), 8, "{lines:?}");
    let at = events
        .iter()
        .rposition(|event| *event == "trial_start")
        .unwrap();
    assert_eq!(events[at..at + 4], trial);
    assert_eq!(events[at + 4], "experiment_end");
    let end = of(&lines, "experiment_end")[0];
    assert_eq!((&end["finished"], &end["left"]), (&8.into(), &0.into()));
    let verdicts = of(&lines, "verdict");
    assert!(
        verdicts.iter().all(|it| it["factor"] == "connections"),
        "{verdicts:?}"
    );
    assert!(
        verdicts.iter().any(|it| it["metric"] == "requests_per_sec"),
        "{verdicts:?}"
    );
    // A try of each level comes before the first trial.
    let tries: Vec<&Value> = of(&lines, "trial_start")
        .into_iter()
        .filter(|it| it["is_try"] == true)
        .collect();
    assert_eq!(tries.len(), 2, "{lines:?}");
    for (trial, number) in finished.iter().zip(1..) {
        assert_eq!(trial["position"], number);
        assert_eq!(trial["total"]["requests"], 100);
    }
}

#[test]
fn a_search_tells_the_rates_that_it_tries_and_its_outcome() {
    let site = site();
    let [results, journal] = ["results", "journal"].map(|it| site.folder.file(it));
    let url = site.url("/");
    let mut command = program(&["check", &url, "-t1", "-c4", "-d1s", "--warmup=0s", "-R50"]);
    command.args(["--slo", "errors<50%", "--stream", "-"]);
    command.args(["--results", &results, "--journal", &journal]);
    let output = Process::start(command).finish();
    let lines = lines(&output.stdout);
    let starts = of(&lines, "trial_start");
    assert!(
        starts.iter().any(|it| it["search"]["rate_per_sec"] == 50.0),
        "{lines:?}"
    );
    let last = *of(&lines, "trial_end").last().unwrap();
    assert_eq!(last["search"]["outcome"]["end"], "carried", "{last}");
}

#[test]
fn a_fleet_has_one_stream_with_its_agents() {
    let site = site();
    let path = site.folder.file("stream.jsonl");
    let options = ["--local", "2", "--stream", &path, "-R400"];
    let run = load(&site).with(&options).for_ms(2_500).run();
    let lines = lines(&fs::read_to_string(&path).unwrap());
    assert_eq!(framework(&lines), ["start", "end"], "{lines:?}");
    assert_eq!(lines[0]["agents"].as_array().map(Vec::len), Some(2));
    assert!(lines[0]["run_id"].is_string(), "{}", lines[0]);
    let seconds = of(&lines, "second");
    assert!(!seconds.is_empty(), "{lines:?}");
    for second in seconds {
        let agents = second["agents"].as_array().unwrap();
        assert!(
            agents
                .iter()
                .all(|it| it["interval"]["requests_per_sec"].is_number()),
            "{second}"
        );
    }
    assert_eq!(lines.last().unwrap()["total"]["requests"], run.answered());
}
