//! `report`: output file, format, exit code.

use std::fs;
use std::path::Path;

use serde_json::Value;
use testkit::{Folder, Output, Process, one_line};

use crate::harness::{call, load, program, site};

const WRK: &str = include_str!("../../../report/tests/captured/wrk.txt");

fn report(arguments: &[&str]) -> Output {
    call(&["report"]).with(arguments).finish()
}

/// Refused: one line on stderr, exit code 1, nothing on stdout.
#[track_caller]
fn refused(arguments: &[&str]) -> String {
    let output = report(arguments);
    assert_eq!(
        (output.code, output.stdout.as_str()),
        (Some(1), ""),
        "{output:?}"
    );
    one_line(&output.stderr).to_owned()
}

#[test]
fn the_file_extension_selects_the_format() {
    let site = site();
    let folder = Folder::new();
    let run = load(&site).requests(200).run();
    let saved = folder.file_with("run.json", run.document.to_string());
    for (name, begin) in [
        ("r.html", "<!doctype html>"),
        ("r.md", "## "),
        ("r.csv", "source,"),
        ("r.hgrm", "       Value"),
        ("r.hlog", "#["),
        ("r.xml", "<?xml "),
    ] {
        let path = folder.file(name);
        let output = report(&[&saved, "-o", &path]);
        assert_eq!(
            (output.code, output.stdout.as_str()),
            (Some(0), ""),
            "{output:?}"
        );
        let line = one_line(&output.stderr);
        assert!(line.contains(&format!("{name}: 1 run, ")), "{line}");
        let written = fs::read_to_string(&path).unwrap();
        let is_right = written.to_lowercase().starts_with(&begin.to_lowercase());
        assert!(is_right, "{name}: {}", &written[..written.len().min(200)]);
    }
}

#[test]
fn one_chart_is_written_as_svg_in_the_colors_of_a_theme() {
    let site = site();
    let folder = Folder::new();
    let run = load(&site).requests(200).run();
    let saved = folder.file_with("run.json", run.document.to_string());
    let path = folder.file("chart.svg");
    let output = report(&[&saved, "-o", &path, "--chart", "latency"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let line = one_line(&output.stderr);
    assert!(
        line.contains("chart.svg: Latency by percentile, "),
        "{line}"
    );
    let light = fs::read_to_string(&path).unwrap();
    assert!(light.starts_with("<svg xmlns="), "{light}");
    let dark = report(&[&saved, "-o", "-", "--chart", "latency", "--theme", "dark"]);
    assert!(dark.stdout.starts_with("<svg xmlns="), "{dark:?}");
    assert_ne!(dark.stdout, light);
    let unknown = refused(&[&saved, "-o", &path, "--chart", "speed"]);
    assert!(
        unknown.contains("no such chart (expected latency-by-percentile, "),
        "{unknown}"
    );
    let png = refused(&[&saved, "-o", "chart.png", "--chart", "latency"]);
    assert!(png.contains("button of the page"), "{png}");
    let all = refused(&[&saved, "-o", &path]);
    assert!(all.contains("--chart NAME"), "{all}");
}

#[test]
fn one_result_as_json_is_that_result() {
    let site = site();
    let folder = Folder::new();
    let run = load(&site).requests(50).run();
    let saved = folder.file_with("run.json", run.document.to_string());
    let output = report(&[&saved, "--format", "json"]);
    let document: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(document["counters"], run.document["counters"]);
    assert_eq!(document["plan"], run.document["plan"]);
    // It can be read again.
    let again = folder.file_with("again.json", &output.stdout);
    let output = report(&[&again, "--format", "md"]);
    assert!(output.stdout.contains("\n1 run\n"), "{output:?}");
}

#[test]
fn a_text_report_on_stdin_is_shown_without_missing_values() {
    let output = call(&["report", "-", "--format", "csv", "-o", "-"]);
    let output = output.stdin(WRK).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    let text = output.stdout;
    assert!(text.contains("\r\nstdin:1,"), "{text}");
    assert!(text.contains(",requests_per_sec,"), "{text}");
    assert!(!text.contains(",cpu_"), "{text}");
}

#[test]
fn a_failed_condition_of_any_run_ends_with_exit_code_2() {
    let site = site();
    let folder = Folder::new();
    let first = load(&site).requests(100).run();
    let second = load(&site).requests(200).run();
    let first = folder.file_with("run-1.json", first.document.to_string());
    let second = folder.file_with("run-2.json", second.document.to_string());
    let output = report(&[
        &first,
        &second,
        "--format",
        "github",
        "--fail-if",
        "requests<150",
        "errors>100%",
    ]);
    assert_eq!(output.code, Some(2), "{output:?}");
    let lines: Vec<&str> = output.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{output:?}");
    assert!(
        lines[0].contains("not averaged: requests 100 / 200"),
        "{output:?}"
    );
    assert!(
        lines[1].contains("failed: ") && lines[1].ends_with("requests is 100, limit requests<150"),
        "{output:?}"
    );
    let errors: Vec<&str> = output
        .stdout
        .lines()
        .filter(|line| line.starts_with("::error "))
        .collect();
    assert_eq!(errors.len(), 1, "{output:?}");
    assert!(errors[0].starts_with("::error title=requests<150::"));
    let passing = report(&[&first, "--format", "junit", "--fail-if", "requests<50"]);
    assert_eq!(passing.code, Some(0), "{passing:?}");
    assert!(!passing.stdout.contains("<failure"), "{passing:?}");
}

#[test]
fn a_text_report_cannot_be_judged() {
    let folder = Folder::new();
    let text = folder.file_with("wrk.txt", WRK);
    let output = report(&[&text, "--format", "md", "--fail-if", "p99>1h"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(
        one_line(&output.stderr)
            .ends_with("p99>1h cannot be judged: only a saved result can be (--json)"),
        "{output:?}"
    );
}

#[test]
fn unreadable_files_do_not_hide_the_others() {
    let folder = Folder::new();
    let good = folder.file_with("good.txt", WRK);
    let page = folder.file("page.html");
    let output = report(&[&good, "/nonexistent", &good, "-o", &page]);
    assert_eq!(output.code, Some(1), "{output:?}");
    let lines: Vec<&str> = output.stderr.lines().collect();
    assert!(lines[0].ends_with("good.txt: given twice; read only once"));
    assert!(lines[1].contains("cannot read /nonexistent"), "{output:?}");
    assert!(lines[2].contains("page.html: 1 run, "), "{output:?}");
    assert!(fs::read_to_string(&page).unwrap().contains("</html>"));
}

#[test]
fn input_without_a_run_is_refused_in_one_line_and_writes_nothing() {
    let folder = Folder::new();
    let good = folder.file_with("good.txt", WRK);
    let other = folder.file("other.hlog");
    let nowhere = folder.file("missing/r.html");
    for (arguments, said) in [
        (
            &[good.as_str(), "-o", "-"][..],
            "report: -o - needs a format",
        ),
        (
            &[&good, "-o", "r.txt"],
            "unknown file name extension (expected .html, .md, ",
        ),
        (&[&good, "--format", "xml"], "--format: "),
        (&[&good, "-o", &nowhere], "there is no directory"),
        (&[&good, "--format", "md", "-o", &good], "is also an input"),
        (&[&good, "-o", &other], "hlog needs histograms"),
        (&["/nonexistent", "-o", &other], "cannot read /nonexistent"),
        (
            &[&good, "--format", "md", "--fail-if", "speed>1"],
            "\"speed\" is not a metric",
        ),
        (&["--format", "md"], "is missing"),
    ] {
        let line = refused(arguments);
        assert!(line.contains(said), "{arguments:?}: {line}");
    }
    assert_eq!(fs::read_to_string(&good).unwrap(), WRK);
    assert!(!fs::exists(&other).unwrap());
}

#[test]
fn an_existing_file_is_replaced_completely_or_not_at_all() {
    let folder = Folder::new();
    let good = folder.file_with("good.txt", WRK);
    let target = folder.file_with("r.md", "old");
    refused(&["/nonexistent", "-o", &target]);
    assert_eq!(fs::read_to_string(&target).unwrap(), "old");
    let output = report(&[&good, "-o", &target, "--title", "A | <b>title</b>"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let written = fs::read_to_string(&target).unwrap();
    assert!(
        written.starts_with("## A \\| &lt;b&gt;title&lt;/b&gt;\n"),
        "{written}"
    );
}

/// A folder of a sweep with one trial that failed.
fn sweep(folder: &Folder, failure: &str) -> (String, String, String) {
    let cell = serde_json::json!({
        "number": 1, "settings": [
            {"factor": "a", "level": "262144"}, {"factor": "b", "level": "4096"}
        ], "profile": null, "target": "php", "is_baseline": true,
    });
    let experiment = serde_json::json!({
        "schema_version": 1, "name": "buffers", "plan_toml": "", "seed": 1, "order": "shuffled",
        "rounds": 1, "cells": [cell], "started_at": null,
    });
    let trial = serde_json::json!({
        "schema_version": 1, "experiment": "buffers", "cell": cell, "round": 1, "repeat": 1,
        "position": 1, "started_at": null, "failed_attempts": [], "outcome": {"failed": failure},
        "effective": {}, "environment_before": {}, "environment_after": {}, "hooks": [],
        "samples_file": null,
    });
    let plan = folder.file_with("experiment.json", experiment.to_string());
    fs::create_dir(folder.file("trials")).unwrap();
    let trial = folder.file_with("trials/r01-c001-262144-4096.json", trial.to_string());
    let root = folder.file("").trim_end_matches('/').to_owned();
    (root, plan, trial)
}

#[test]
fn runs_that_a_format_cannot_hold_are_reported() {
    let folder = Folder::new();
    let (root, ..) = sweep(&folder, "the server was away");
    let text = folder.file_with("wrk.txt", WRK);
    let saved = load(&site()).requests(100).run().document.to_string();
    let saved = folder.file_with("saved.json", saved);
    let output = report(&[&text, &saved, "--format", "hlog"]);
    assert!(
        one_line(&output.stderr).contains(" hlog: 1 of 2 runs left out: "),
        "{output:?}"
    );
    for format in ["csv", "md", "junit", "github", "json"] {
        let output = report(&[&root, &text, "--format", format]);
        assert!(!output.stderr.contains("left out"), "{output:?}");
    }
}

#[test]
fn no_input_file_is_replaced() {
    let folder = Folder::new();
    let (root, plan, trial) = sweep(&folder, "nobody listened");
    let samples = folder.file_with("trials/r01-c001-262144-4096.samples.jsonl", "samples");
    let compressed = format!("{samples}.zst");
    fs::write(&compressed, "samples").unwrap();
    for path in [&plan, &trial, &samples, &compressed] {
        let old = fs::read(path).unwrap();
        for input in [&root, &plan] {
            let line = refused(&[input, "--format", "md", "-o", path]);
            assert!(line.contains("is also an input"), "{line}");
        }
        assert!(fs::read(path).unwrap() == old, "{path} was replaced");
    }
    let notes = Folder::new();
    let text = notes.file_with("notes.md", WRK);
    let line = refused(&[&notes.file(""), "-o", &text]);
    assert!(line.contains("is also an input"), "{line}");
    assert_eq!(fs::read_to_string(&text).unwrap(), WRK);
    // Files that contain no runs may be overwritten.
    let page = folder.file("report.html");
    for _ in 0..2 {
        assert_eq!(report(&[&root, "-o", &page]).code, Some(0));
    }
}

#[test]
fn reports_in_a_folder_of_runs_are_ignored() {
    let folder = Folder::new();
    folder.file_with("one.txt", WRK);
    folder.file_with("two.txt", WRK.replace("234339 requests", "234340 requests"));
    let root = folder.file("");
    for name in ["r.json", "r.csv", "r.md"] {
        let output = report(&[&root, "-o", &folder.file(name)]);
        assert_eq!(output.code, Some(0), "{output:?}");
        assert!(output.stderr.contains(": 2 runs, "), "{output:?}");
    }
    let table = call(&["table", &root, "--format", "json"]).finish();
    folder.file_with("table.json", &table.stdout);
    let output = report(&[&root, "--format", "github"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains("::2 runs, 0 failed"), "{output:?}");
    assert!(
        output
            .stderr
            .contains("table.json: made from runs, not a run, skipped"),
        "{output:?}"
    );
    let line = refused(&[&folder.file("r.json"), "--format", "md"]);
    assert!(line.contains("give the runs themselves"), "{line}");
}

#[test]
fn output_of_a_hook_is_one_line_on_stderr() {
    let folder = Folder::new();
    let (root, ..) = sweep(&folder, "no\n::error::x\r\n\u{1b}[31mred");
    let output = report(&[&root, "--format", "github", "--fail-if", "p99>1s"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    let line = one_line(&output.stderr);
    assert!(line.contains("the run failed: no ::error::x"), "{line}");
    assert!(!line.contains(char::is_control), "{line:?}");
}

#[test]
fn a_single_trial_keeps_its_levels_whatever_its_name() {
    let folder = Folder::new();
    let (_, _, trial) = sweep(&folder, "nobody listened");
    let output = report(&[&trial, "--format", "json"]);
    let document: Value = serde_json::from_str(&output.stdout).unwrap();
    let run = &document["runs"][0];
    assert_eq!(
        run["settings"],
        serde_json::json!({"a": "262144", "b": "4096"})
    );
    assert_eq!(run["run"], 1);
}

#[test]
fn without_a_name_a_page_goes_to_report_html() {
    let folder = Folder::new();
    let good = folder.file_with("good.txt", WRK);
    let page = folder.file("report.html");
    let make = || {
        let mut command = program(&["report", &good]);
        command.current_dir(Path::new(&page).parent().unwrap());
        Process::start(command).finish()
    };
    for _ in 0..2 {
        let output = make();
        assert_eq!(output.code, Some(0), "{output:?}");
        let line = one_line(&output.stderr);
        assert!(line.starts_with("wrkbench: report.html: 1 run, "), "{line}");
        assert!(fs::read_to_string(&page).unwrap().contains("</html>"));
    }
    fs::write(&page, "<html>mine</html>").unwrap();
    let output = make();
    let refused = "wrkbench: report.html exists and was not written by wrkbench (give -o FILE; -o \
        report.html overwrites it)";
    assert_eq!((output.code, output.only_line()), (Some(1), refused));
    assert_eq!(fs::read_to_string(&page).unwrap(), "<html>mine</html>");
}
