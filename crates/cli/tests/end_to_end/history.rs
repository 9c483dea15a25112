//! Results over time: labels, the history of a folder, and a baseline chosen by a label.

use std::fs;

use serde_json::Value;
use testkit::{Folder, Output, Process};

use crate::harness::{Site, call, load, program, site};

/// The program with these arguments, of which `.` and a pattern of files are about the folder.
fn wrkbench(folder: &Folder, arguments: &[&str]) -> Output {
    let arguments = arguments.iter().map(|&it| match it {
        "." | "change*.json" => folder.file(it),
        other => other.to_owned(),
    });
    call(&[]).with(&arguments.collect::<Vec<_>>()).finish()
}

/// The document of a short run with these options.
fn document(site: &Site, options: &[&str]) -> Value {
    let json = site.folder.file("run.json");
    let run = load(site).connections(2).requests(50);
    let output = run.with(&["--json", &json]).with(options).output();
    assert_eq!(output.code, Some(0), "{output:?}");
    serde_json::from_slice(&fs::read(&json).unwrap()).unwrap()
}

/// Saves three runs of a day. The window makes the rate: it is `slower` times as long as that of
/// the document, give or take a percent.
fn save_day(folder: &Folder, document: &Value, day: usize, label: &str, slower: f64) {
    // Days are independent: a pattern in their order would be a change.
    let mut random = fastrand::Rng::with_seed(day as u64);
    for run in 0..3 {
        let mut document = document.clone();
        document["environment"]["started_at"] = format!("2026-10-{day:02}T0{run}:00:00Z").into();
        document["environment"]["labels"] = serde_json::json!({"version": label});
        // A busy machine may have disturbed the run, which would hide the difference.
        document["generator"]["verdict"] = serde_json::json!({"kind": "fine"});
        let window_ns = document["window"]["duration_ns"].as_u64().unwrap() as f64;
        // No two runs are equal, which would be the same run.
        let scatter = 1.0 + 0.02 * random.f64();
        document["window"]["duration_ns"] = ((window_ns * slower * scatter) as u64).into();
        let name = folder.file(&format!("{label}-of-day-{day}-run-{run}.json"));
        fs::write(name, document.to_string()).unwrap();
    }
}

#[test]
fn labels_are_saved_with_the_result() {
    let site = site();
    let saved = document(
        &site,
        &["--label", "branch=main", "--label=version=1.2-rc=1"],
    );
    let expected = serde_json::json!({"branch": "main", "version": "1.2-rc=1"});
    assert_eq!(saved["environment"]["labels"], expected);
    let saved = document(&site, &[]);
    assert_eq!(saved["environment"].get("labels"), None);
    for bad in ["main", "=main", "branch=", "a b=c", "a=b\nc"] {
        let output = load(&site).with(&["--label", bad]).output();
        assert_eq!(output.code, Some(1), "{bad}: {output:?}");
        assert!(
            output
                .stderr
                .contains("is not a label (expected like branch=main"),
            "{output:?}"
        );
    }
}

#[test]
fn a_history_names_the_day_on_which_a_rate_fell() {
    let (site, folder) = (site(), Folder::new());
    let document = document(&site, &[]);
    for day in 1..=20 {
        let slower = if day < 12 { 1.0 } else { 1.25 };
        save_day(&folder, &document, day, &format!("v{day}"), slower);
    }
    let history = |more: &[&str]| {
        let arguments = [&["report", "--trend", ".", "--metric", "requests/s"], more].concat();
        let mut command = program(&arguments);
        command.current_dir(folder.path());
        Process::start(command).finish()
    };
    let output = history(&[]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let first = output.stdout.lines().next().unwrap_or_default();
    let expected = "requests/s is 20 % lower from 2026-10-12 on (95 % interval ";
    assert!(first.starts_with(expected), "{first}");
    assert!(first.contains("), which is worse: "), "{first}");
    // A row for each day, with three runs.
    let rows = output
        .stdout
        .lines()
        .filter(|line| line.starts_with("2026-10-"));
    assert!(
        rows.clone()
            .all(|row| row.split_whitespace().nth(1) == Some("3")),
        "{output:?}"
    );
    assert_eq!(rows.count(), 20);
    let page = fs::read_to_string(folder.file("report.html")).unwrap();
    assert!(page.contains("Changes") && page.contains("lower from 2026-10-12 on"));
    // By version, the page in another file.
    let output = history(&["--by", "version", "-o", "versions.html"]);
    assert!(
        output
            .stdout
            .starts_with("requests/s is 20 % lower from v12 on"),
        "{output:?}"
    );
    assert!(fs::read_to_string(folder.file("versions.html")).is_ok());
    // Without the fall, there is nothing to find.
    for day in 12..=20 {
        save_day(&folder, &document, day, &format!("v{day}"), 1.0);
    }
    let output = history(&[]);
    assert!(
        output
            .stdout
            .starts_with("requests/s: no change found in 20 days"),
        "{output:?}"
    );
}

#[test]
fn a_history_says_what_it_lacks() {
    let (site, folder) = (site(), Folder::new());
    let document = document(&site, &[]);
    for day in 1..=4 {
        save_day(&folder, &document, day, "same", 1.0);
    }
    let page = folder.file("report.html");
    let output = wrkbench(&folder, &["report", "--trend", ".", "-o", &page]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let few = "requests/s: not enough to find a change: 4 days, and at least ";
    assert!(output.stdout.starts_with(few), "{output:?}");
    let output = wrkbench(&folder, &["report", "--trend", ".", "--by", "branch"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    let none = "no run can be placed in time (12 do not have the label)";
    assert!(output.only_line().contains(none), "{output:?}");
    for (arguments, message) in [
        (&["--by", "version"][..], "--trend"),
        (
            &["--trend", "--format", "csv"],
            "cannot be used together with",
        ),
        (&["--trend", "-o", "history.csv"], "expected -o FILE.html"),
    ] {
        let output = wrkbench(&folder, &[&["report", "."], arguments].concat());
        assert_eq!(output.code, Some(1), "{arguments:?}: {output:?}");
        assert!(output.stderr.contains(message), "{arguments:?}: {output:?}");
    }
}

#[test]
fn a_baseline_is_chosen_by_its_label() {
    let (site, folder) = (site(), Folder::new());
    let document = document(&site, &[]);
    fs::create_dir(folder.file("new")).unwrap();
    for day in 1..=3 {
        save_day(&folder, &document, day, "main", 1.0);
        save_day(&folder, &document, day, "change", 1.3);
    }
    let compare = |more: &[&str]| {
        let arguments = [&["compare", ".", "--metric", "requests/s"], more].concat();
        wrkbench(&folder, &arguments)
    };
    for baseline in ["main", "version=main"] {
        let output = compare(&["--baseline", baseline, "--fail-on-regression", "5%"]);
        assert_eq!(output.code, Some(3), "{output:?}");
        let worse = "version: change is worse than main (baseline)";
        assert!(output.stdout.starts_with(worse), "{output:?}");
    }
    let output = compare(&["--baseline", "change", "--fail-on-regression", "5%"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(
        output.stdout.contains("main beats change (baseline) by "),
        "{output:?}"
    );
    // New runs in a folder of their own.
    let output = compare(&[
        "change*.json",
        "--baseline",
        "main",
        "--fail-on-regression=5%",
    ]);
    assert_eq!(output.code, Some(3), "{output:?}");
    let output = compare(&["--baseline", "dev"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    let none = "--baseline dev: no run has it (labels of the runs: version=change, version=main)";
    assert!(output.only_line().contains(none), "{output:?}");
}
