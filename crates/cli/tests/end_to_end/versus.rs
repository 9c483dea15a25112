//! `wrkbench versus` against servers whose differences are known.

use std::process::Command;

use origin::{Options, Recipe};
use results::Experiment;
use results::file::load_experiment;
use testkit::{Folder, Output, Process};

use crate::harness::{Call, Site, call, program, site, site_with};

fn command(folder: &Folder, arguments: &[&str]) -> Command {
    let results = folder.file("results");
    let journal = folder.file("journal");
    let mut command = program(&["versus", "--results", &results, "--journal", &journal]);
    command.args(["-t1", "-c2", "-d200ms", "--warmup=0s"]);
    command.args(arguments);
    command
}

fn versus(folder: &Folder, arguments: &[&str]) -> Output {
    Process::start(command(folder, arguments)).finish()
}

fn experiment(folder: &Folder) -> Experiment {
    let document = std::fs::read(folder.file("results/experiment.json")).unwrap();
    load_experiment(&document).unwrap()
}

#[test]
fn the_faster_server_is_named_with_an_interval() {
    let (site, folder) = (site(), Folder::new());
    let [slow, fast] = [20, 5].map(|ms| site.url(&format!("/?delay={ms}ms")));
    let sides = [format!("slow={slow}"), format!("fast={fast}")];
    let output = versus(&folder, &[&sides[0], &sides[1]]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let mut lines = output.stdout.lines();
    let sentence = lines.find(|line| line.starts_with("fast answers "));
    let sentence = sentence.unwrap_or_else(|| panic!("{output:?}"));
    // On a busy machine it also says that the load generator was saturated.
    assert!(
        sentence.contains(" % more requests/s than slow") && sentence.contains(" (95 % interval "),
        "{output:?}"
    );
    assert!(sentence.contains("; p99 latency"), "{output:?}");
    assert!(
        output.stdout.contains("\ntarget  n  requests/s  "),
        "{output:?}"
    );
    // The file that says the same is saved, not printed.
    assert!(!output.stderr.contains("until = { "), "{output:?}");
    let page = folder.file("results/report.html");
    assert!(
        output.stdout.ends_with(&format!("\nPage: {page}\n")),
        "{output:?}"
    );
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("more requests/s than slow"));
    assert!(text.contains("hold although the runs were looked at"));
    assert!(!text.contains("is not finished"));
    // The same page is made from the folder, although it has a page now.
    let results = folder.file("results");
    let again = folder.file("again.html");
    let report = call(&["report", &results, "-o", &again]).finish();
    assert_eq!(report.code, Some(0), "{report:?}");
    assert!(std::fs::read_to_string(&again).unwrap() == text);
    let made = experiment(&folder);
    assert!(made.stopping.is_some_and(|it| it.when_decided), "{made:?}");
    assert!(made.plan_toml.contains("until = { "), "{made:?}");
}

#[test]
fn compare_has_the_interval_of_the_sentence() {
    let (site, folder) = (site(), Folder::new());
    let [slow, fast] = [20, 5].map(|ms| site.url(&format!("/?delay={ms}ms")));
    let sides = [format!("fast={fast}"), format!("slow={slow}")];
    let output = versus(&folder, &["--fail-on-regression=5%", &sides[0], &sides[1]]);
    assert_eq!(output.code, Some(3), "{output:?}");
    let results = folder.file("results");
    let compare = |more: &[&str]| {
        let mut command = program(&["compare", &results]);
        command.args(more);
        Call::of(&command).finish()
    };
    let text = compare(&[]).stdout;
    // `1.1 to 2.2 %` in the table of versus, which is that of compare.
    let row = output
        .stdout
        .lines()
        .find(|line| line.starts_with("slow  "));
    let interval = row.and_then(|row| row.split_once('(')).unwrap().1;
    let interval = interval.trim_end_matches(')');
    assert!(text.contains(interval), "{interval:?} in {text}");
    assert!(
        text.contains("sequential t-test of the differences within rounds: p"),
        "{text}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&compare(&["--format=json"]).stdout).unwrap();
    let comparisons = json["comparisons"].as_array().unwrap();
    assert!(
        comparisons.iter().all(|it| it["is_sequential"] == true),
        "{json}"
    );
    assert_eq!(compare(&["--fail-on-regression=5%"]).code, Some(3));
}

#[test]
fn the_first_metric_of_judge_decides() {
    let (site, folder) = (site(), Folder::new());
    let [slow, fast] = [20, 5].map(|ms| site.url(&format!("/?delay={ms}ms")));
    let sides = [format!("fast={fast}"), format!("slow={slow}")];
    let output = versus(
        &folder,
        &["--judge=p50,mean", "--threshold=3%", &sides[0], &sides[1]],
    );
    assert_eq!(output.code, Some(0), "{output:?}");
    let sentence = output
        .stdout
        .lines()
        .find(|line| line.starts_with("p50 latency of slow is "));
    assert!(
        sentence.is_some_and(|it| it.contains("; mean latency is ")),
        "{output:?}"
    );
    let made = experiment(&folder);
    assert!(
        made.plan_toml.contains("judge = [\"latency_p50_us\", "),
        "{made:?}"
    );
    assert_eq!((made.threshold, made.judge.len()), (Some(0.03), 2));
}

#[test]
fn a_server_that_only_answers_500_wins_nothing() {
    let (site, folder) = (site(), Folder::new());
    let good = format!("good={}", site.url("/?delay=5ms"));
    let bad = format!("bad={}", site.url("/?status=500"));
    let output = versus(&folder, &["--no-try", &good, &bad]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(
        output
            .stdout
            .contains("\nbad failed 100 % of its requests: no comparison with good\n"),
        "{output:?}"
    );
    assert!(!output.stdout.contains("more requests/s"), "{output:?}");
    let head = output
        .stdout
        .lines()
        .find(|line| line.starts_with("target  "));
    assert!(
        head.is_some_and(|head| head.contains("  failed  ")),
        "{output:?}"
    );
    let results = folder.file("results");
    let judged = call(&["compare", &results, "--fail-on-regression=5%"]).finish();
    assert_ne!(judged.code, Some(0), "{judged:?}");
}

#[test]
fn reports_go_to_the_files_asked_for_and_telemetry_is_that_of_a_run() {
    let (site, folder) = (site(), Folder::new());
    let sides = ["a", "b"].map(|side| format!("{side}={}", site.url("/")));
    let (text, json) = (folder.file("report.md"), folder.file("report.json"));
    let output = versus(
        &folder,
        &[
            "--budget=1s",
            "--sockets=",
            "--counters",
            "-o",
            &text,
            "--json",
            &json,
            &sides[0],
            &sides[1],
        ],
    );
    assert_eq!(output.code, Some(0), "{output:?}");
    let last: Vec<&str> = output.stdout.lines().rev().take(2).collect();
    assert_eq!(
        last,
        [format!("Report: {json}"), format!("Report: {text}")],
        "{output:?}"
    );
    let report = std::fs::read_to_string(&text).unwrap();
    assert!(report.contains("| target |"), "{report}");
    let document: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let runs = document["runs"].as_array().unwrap();
    assert!(runs.len() >= 2, "{document}");
    let made = experiment(&folder);
    let sampled = "[telemetry]\nsockets = \"\"\ncounters = true\n";
    assert!(made.plan_toml.contains(sampled), "{made:?}");
}

#[test]
fn a_page_that_cannot_be_written_is_a_warning() {
    let (site, folder) = (site(), Folder::new());
    std::fs::create_dir(folder.file("results")).unwrap();
    std::fs::write(folder.file("results/report.html"), "my own page").unwrap();
    let sides = ["a", "b"].map(|side| format!("{side}={}", site.url("/")));
    let output = versus(&folder, &["--budget=1s", &sides[0], &sides[1]]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(
        output.stderr.contains("warning: no page: ")
            && output
                .stderr
                .contains("exists and was not written by wrkbench"),
        "{output:?}"
    );
    let page = std::fs::read_to_string(folder.file("results/report.html")).unwrap();
    assert_eq!(page, "my own page");
    assert!(
        output.stdout.contains("As a page: wrkbench report "),
        "{output:?}"
    );
}

#[test]
fn with_a_rate_only_the_latency_is_compared() {
    let (site, folder) = (site(), Folder::new());
    let [slow, fast] = [40, 5].map(|ms| site.url(&format!("/?delay={ms}ms")));
    let sides = [format!("a={slow}"), format!("b={fast}")];
    let output = versus(&folder, &["-R20", "-d500ms", &sides[0], &sides[1]]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains("p99 latency of b is "), "{output:?}");
    assert!(
        output.stdout.contains(" lower than that of a"),
        "{output:?}"
    );
    assert!(!output.stdout.contains("requests/s than"), "{output:?}");
}

#[test]
fn commands_of_each_side_run_around_its_own_runs() {
    let (site, folder) = (site(), Folder::new());
    let (url, log) = (site.url("/"), folder.file("log"));
    let before = ["a", "b", "c"].map(|side| format!("echo {side} >>{log}"));
    let mut arguments = vec!["--precise", "--budget", "1s", "--setup", "echo setup"];
    for command in &before {
        arguments.extend(["--before", command]);
    }
    let sides = ["a", "b", "c"].map(|side| format!("{side}={url}"));
    arguments.extend(sides.iter().map(String::as_str));
    let output = versus(&folder, &arguments);
    assert_eq!(output.code, Some(0), "{output:?}");
    // Before each try and each run: every round has each side once.
    let log = std::fs::read_to_string(&log).unwrap();
    let sides: Vec<&str> = log.lines().collect();
    assert!(
        sides.len() >= 6 && sides.len().is_multiple_of(3),
        "{sides:?}"
    );
    for round in sides.chunks(3) {
        let mut round = round.to_vec();
        round.sort_unstable();
        assert_eq!(round, ["a", "b", "c"]);
    }
}

#[test]
fn what_cannot_be_compared_is_refused_in_one_line() {
    let folder = Folder::new();
    for (arguments, expected) in [
        (&["http://a/", "b"][..], "\"b\" is not a URL"),
        (
            &["http://a/", "http://a/"],
            "two servers are called \"http://a/\"",
        ),
        (
            &[
                "--before=x",
                "--before=y",
                "a=http://a/",
                "b=http://b/",
                "c=http://c/",
            ],
            "--before is given 2 times for 3 servers",
        ),
        (
            &["--precision=0", "http://a/", "http://b/"],
            "is not a percentage above 0",
        ),
    ] {
        let output = Call::of(&command(&folder, arguments)).finish();
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(output.stderr.contains(expected), "{output:?}");
    }
    let output = Call::of(&command(&folder, &["http://a/"])).finish();
    assert_eq!(output.code, Some(1), "{output:?}");
}

#[test]
fn streams_of_tokens_are_compared_by_their_tokens() {
    let (site, folder) = (site(), Folder::new());
    let url = |first: u32| site.url(&format!("/?llm=openai&tokens=4&gap=1ms&first={first}ms"));
    let sides = [format!("old={}", url(60)), format!("new={}", url(10))];
    let output = versus(&folder, &["--events", "llm", &sides[0], &sides[1]]);
    assert_eq!(output.code, Some(0), "{output:?}");
    // On a busy machine, a sentence about the load generator comes first.
    let mut lines = output.stdout.lines();
    let said = lines.find(|line| line.starts_with("output tokens/s of new is "));
    let said = said.unwrap_or_else(|| panic!("{output:?}"));
    assert!(said.contains(" higher than that of old"), "{said}");
    assert!(
        said.contains("; p50 first token is ") && said.contains(" lower ("),
        "{said}"
    );
    assert!(
        output.stdout.contains("\ntarget  n  tokens/s  first p50"),
        "{output:?}"
    );
}

/// A server that delays each response by this time.
fn server(delay_ms: u64) -> Site {
    let recipe = format!("delay={delay_ms}ms");
    site_with(Options {
        defaults: Recipe::from_text(&recipe).unwrap(),
        ..Options::default()
    })
}

/// The file has the rate, so no server can answer more requests per second than another.
#[test]
fn a_replay_is_judged_by_its_latency() {
    let line = |n: u32| format!("{{\"path\":\"/\",\"at\":{}}}\n", n * 4);
    let moments: String = (0..50).map(line).collect();
    let folder = Folder::new();
    let file = folder.file_with("moments.jsonl", moments);
    let [slow, fast] = [20, 5].map(server);
    let sides = [
        format!("slow={}", slow.url("/")),
        format!("fast={}", fast.url("/")),
    ];
    let (results, journal) = (folder.file("results"), folder.file("journal"));
    let mut command = program(&["versus", "--results", &results, "--journal", &journal]);
    command
        .args(["-t1", "-c40", "--warmup=0s", "--requests", &file])
        .args(&sides);
    let output = Process::start(command).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    let is_sentence =
        |line: &str| line.starts_with("p99 latency of fast is ") && line.contains(" % lower than");
    assert!(output.stdout.lines().any(is_sentence), "{output:?}");
    assert!(!output.stdout.contains("more requests/s"), "{output:?}");
    assert!(!output.stdout.contains("fewer requests/s"), "{output:?}");
}
