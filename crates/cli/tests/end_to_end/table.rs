//! `table`: input, formats, exit codes.

use results::{AgentOutcome, AgentResult, RunResult};
use testkit::{Folder, Output, one_line};

use crate::harness::{call, load, site};

const NOTES: &str = include_str!("../../../analysis/tests/data/notes.md");
const PLACES: &str = include_str!("../../../analysis/tests/data/places.txt");
const WRK: &str = include_str!("../../../report/tests/captured/wrk.txt");

fn table(arguments: &[&str]) -> Output {
    call(&["table"]).with(arguments).finish()
}

fn row<'a>(output: &'a Output, begin: &str) -> Vec<&'a str> {
    let mut lines = output.stdout.lines();
    let line = lines.find(|line| line.starts_with(begin));
    let line = line.unwrap_or_else(|| panic!("no row {begin} in {output:?}"));
    line.trim_matches('|').split('|').map(str::trim).collect()
}

#[test]
fn the_text_and_the_document_of_a_run_give_the_same_table() {
    let site = site();
    let folder = Folder::new();
    let run = load(&site).requests(200).with(&["--latency"]).run();
    let saved = folder.file_with("a.json", run.document.to_string());
    let printed = folder.file_with("a.txt", &run.stdout);
    let columns = ["--columns", "requests,errors,statuses_over_399"];
    let of_saved = table(&[&[saved.as_str()], &columns[..]].concat());
    let of_printed = table(&[&[printed.as_str()], &columns[..]].concat());
    assert_eq!((of_saved.code, of_saved.stderr.as_str()), (Some(0), ""));
    assert_eq!(row(&of_saved, "| avg"), ["avg", "200.00", "0.00", "0.00"]);
    assert_eq!(of_printed.stdout, of_saved.stdout);
}

#[test]
fn an_interrupted_run_is_marked_and_in_no_average() {
    let site = site();
    let folder = Folder::new();
    let run = load(&site).requests(200).run();
    let whole = folder.file_with("run-1.json", run.document.to_string());
    let mut document = run.document.clone();
    document["window"]["interrupted"] = true.into();
    let ended_early = folder.file_with("run-2.json", document.to_string());
    let output = table(&[&whole, &ended_early, "--columns", "requests"]);
    let marked = row(&output, "| 2 |");
    assert_eq!(marked, ["2", "", "ended early by Ctrl-C"]);
    assert_eq!(row(&output, "| avg"), ["avg", "200.00", "1 of 2 runs"]);
    let compared = call(&["compare", &whole, &ended_early]).finish();
    assert_eq!(compared.code, Some(1));
    assert!(
        one_line(&compared.stderr).ends_with("run-2.json: no run to compare (1 failed)"),
        "{compared:?}"
    );
}

#[test]
fn notes_with_reports_give_rounds_side_by_side() {
    let folder = Folder::new();
    let notes = folder.file_with("notes.md", NOTES);
    let output = table(&[&notes, "--summary"]);
    // A line is skipped.
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output.stdout.starts_with(
            "-t12 -c400 heading=Basic:\nx86_64: Latency 573.06ms, 582.82ms  Requests/sec: 534.55, \
             534.29\n"
        ),
        "{output:?}"
    );
    assert!(output.stdout.contains("1 run failed"), "{output:?}");
    assert!(
        output
            .stderr
            .contains("notes.md: line 54: belongs to no report, skipped\n"),
        "{output:?}"
    );
}

#[test]
fn a_row_without_figures_or_a_line_of_a_report_that_is_skipped_gives_exit_code_1() {
    let folder = Folder::new();
    let rows = "| server | req/s |\n|---|---|\n| a | 100 |\n| b | 200 |\n";
    let report = WRK.replace("Transfer/sec:", "Bytes each second:");
    for (text, code, note) in [
        (rows.to_owned(), 0, ""),
        (format!("# Prose\n\nNo figures: 12.\n\n{WRK}"), 0, ""),
        (
            format!("{rows}| c | fast |\n"),
            1,
            "is not understood, skipped",
        ),
        (
            format!("{rows}| c |  |\n"),
            1,
            "a row without figures, skipped",
        ),
        (report, 1, "not understood, skipped"),
        (
            format!("{WRK}\nRequests/sec: 1000.00\n"),
            1,
            "belongs to no report, skipped",
        ),
    ] {
        let path = folder.file_with("notes.md", &text);
        let output = table(&[&path]);
        assert_eq!(output.code, Some(code), "{text}: {output:?}");
        assert!(output.stderr.contains(note), "{text}: {output:?}");
        assert!(output.stdout.starts_with("| "), "{text}: {output:?}");
    }
}

#[test]
fn stdin_is_read_as_text() {
    let output = call(&["table", "-", "--format", "csv", "--columns", "requests"]);
    let output = output.stdin(WRK).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(
        output
            .stdout
            .starts_with("run,requests,failure,source,lower_bounds\r\n1,"),
        "{output:?}"
    );
    assert!(output.stdout.contains(",,stdin:1,\r\n"), "{output:?}");
}

#[test]
fn unreadable_files_do_not_hide_the_others() {
    let folder = Folder::new();
    let good = folder.file_with("good.txt", WRK);
    let other = folder.file_with("other.txt", "nothing of the kind");
    let output = table(&[&good, &other, "/nonexistent", &good]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_eq!(row(&output, "| avg")[0], "avg");
    let lines: Vec<&str> = output.stderr.lines().collect();
    assert_eq!(lines.len(), 3, "{output:?}");
    assert!(
        lines[0].ends_with("good.txt: given twice; read only once"),
        "{output:?}"
    );
    assert!(lines[1].contains("other.txt: no run in it"), "{output:?}");
    assert!(
        lines[2].contains("cannot read /nonexistent: No such file"),
        "{output:?}"
    );
}

#[test]
fn input_without_a_run_is_refused_in_one_line() {
    let folder = Folder::new();
    let good = folder.file_with("good.txt", WRK);
    let hostile = folder.file_with("a\nb.txt", "nothing");
    for (arguments, said) in [
        (&["/nonexistent"][..], "cannot read /nonexistent"),
        (&[hostile.as_str()], "no run in it"),
        (
            &[good.as_str(), "--columns", "speed"],
            "--columns: no run has \"speed\"",
        ),
        (&[good.as_str(), "--columns", ""], "--columns: needs names"),
        (
            &[good.as_str(), "--summary", "--format", "json"],
            "--summary: prints text only",
        ),
        (
            &[good.as_str(), "--explain", "--format", "csv"],
            "--explain: prints text only",
        ),
        (
            &[good.as_str(), "--percentiles", "101"],
            "is not a percentile",
        ),
        (&[], "usage: wrkbench table "),
    ] {
        let output = table(arguments);
        assert_eq!(
            (output.code, output.stdout.as_str()),
            (Some(1), ""),
            "{output:?}"
        );
        assert!(one_line(&output.stderr).contains(said), "{output:?}");
    }
}

#[test]
fn an_unwritable_table_or_comparison_is_one_line() {
    let folder = Folder::new();
    let good = folder.file_with("good.txt", WRK);
    for (arguments, what) in [
        (&["table", &good][..], "cannot write the table"),
        (&["table", &good, "--summary"], "cannot write the table"),
        (
            &["compare", &good, &good],
            "compare: cannot write the comparison",
        ),
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let output = call(arguments).stdout(full.unwrap()).finish();
        assert_eq!(
            output.only_line(),
            format!("wrkbench: {what} to stdout: No space left on device (os error 28)")
        );
    }
}

#[test]
fn the_same_run_as_text_and_as_json_counts_once() {
    let site = site();
    let folder = Folder::new();
    let run = load(&site).requests(200).with(&["--latency"]).run();
    let saved = folder.file_with("a.json", run.document.to_string());
    let printed = folder.file_with("notes.txt", format!("Monday:\n\n{}", run.stdout));
    let own_table = table(&[&saved, "--format", "csv"]);
    let own_table = folder.file_with("table.csv", &own_table.stdout);
    let output = table(&[&printed, &saved, &own_table, "--columns", "requests"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(row(&output, "| avg"), ["avg", "200.00"]);
    assert!(!output.stdout.contains("| 2 |"), "{output:?}");
    let notes: Vec<&str> = output.stderr.lines().collect();
    assert_eq!(
        notes,
        [
            format!("wrkbench: {printed}:3: the same run as {saved}, counted once"),
            format!("wrkbench: {own_table}:2: the same run as {saved}, counted once"),
        ]
    );
}

const MIX: &str =
    "{\"path\":\"/a\",\"name\":\"page\"}\n{\"path\":\"/b?status=503\",\"name\":\"save\"}\n";

#[test]
fn names_have_rows_of_their_own_in_every_format() {
    let site = site();
    let folder = Folder::new();
    let file = folder.file_with("mix.jsonl", MIX);
    let run = load(&site).requests(200).with(&["--requests", &file]).run();
    let saved = folder.file_with("a.json", run.document.to_string());
    let plain = load(&site).requests(200).run();
    let plain = folder.file_with("plain.json", plain.document.to_string());
    let output = table(&[&saved, "--by-name"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    let summary = &run.document["summary"]["by_name"][0];
    let per_sec = summary["requests_per_sec"].as_f64().unwrap();
    let page = row(&output, "| page |");
    assert_eq!(page[..3], ["page", "1", &format!("{per_sec:.2}")]);
    assert_eq!(page[5], "0", "{output:?}");
    let usual = table(&[&saved]);
    assert!(output.stdout.starts_with(&usual.stdout), "{output:?}");
    for (format, said) in [("csv", "\r\nsave,avg,"), ("json", "\"name\": \"save\"")] {
        let output = table(&[&saved, "--by-name", "--format", format]);
        assert_eq!(output.code, Some(0), "{output:?}");
        assert!(output.stdout.contains(said), "{output:?}");
    }
    let mixed = table(&[&saved, &plain, "--by-name"]);
    assert_eq!(mixed.code, Some(1), "{mixed:?}");
    let said = "--by-name: in 1 of 2 runs, requests have no names";
    assert!(mixed.stderr.contains(said), "{mixed:?}");
    let unnamed = table(&[&plain, "--by-name"]);
    assert_eq!((unnamed.code, unnamed.stdout.as_str()), (Some(1), ""));
    let said = "--by-name: requests have no names in these runs";
    assert!(one_line(&unnamed.stderr).ends_with(said), "{unnamed:?}");
}

/// An end by time in addition to 200 requests.
fn stop_after_seconds(seconds: u64) -> serde_json::Value {
    serde_json::json!({"requests": 200, "duration_ns": seconds * 1_000_000_000})
}

fn tls_with_ca() -> serde_json::Value {
    serde_json::json!({"verify": false, "cacert": "ca.pem"})
}

#[test]
fn results_of_unlike_load_are_never_averaged() {
    let site = site();
    let folder = Folder::new();
    let run = load(&site).requests(200).run();
    let mut plain = run.document.clone();
    // Only https has TLS settings.
    plain["plan"]["target"]["scheme"] = "https".into();
    plain["backend"]["name"] = "io_uring".into();
    let changes: [(&str, serde_json::Value, &str); 8] = [
        (
            "/plan/timeout_ns",
            5_000_000_000_u64.into(),
            "timeout 2 s / 5 s",
        ),
        (
            "/plan/warmup_ns",
            1_000_000_000.into(),
            "warm-up none / 1 s",
        ),
        ("/plan/stop/requests", 300.into(), "requests 200 / 300"),
        (
            "/plan/stop",
            stop_after_seconds(9),
            "duration no limit / 9 s",
        ),
        (
            "/plan/tls/verify",
            true.into(),
            "certificate verification off / on",
        ),
        ("/plan/tls", tls_with_ca(), "CA file not set / ca.pem"),
        ("/backend/name", "epoll".into(), "backend uring / epoll"),
        ("/plan/pacing/seed", 7.into(), ""),
    ];
    let mut files = vec![folder.file_with("run-1.json", plain.to_string())];
    for ((pointer, value, _), number) in changes.iter().zip(2..) {
        let mut document = plain.clone();
        if let Some(place) = document.pointer_mut(pointer) {
            *place = value.clone();
        }
        files.push(folder.file_with(&format!("run-{number}.json"), document.to_string()));
    }
    let mut arguments: Vec<&str> = files.iter().map(String::as_str).collect();
    arguments.extend(["--columns", "requests"]);
    let output = table(&arguments);
    assert_eq!(output.code, Some(0), "{output:?}");
    let averages: Vec<&str> = output
        .stdout
        .lines()
        .filter(|line| line.contains("| avg |"))
        .collect();
    let mut averages: Vec<&str> = averages
        .iter()
        .filter_map(|line| line.split('|').nth(1))
        .collect();
    averages.dedup();
    // Twice, since the averages follow below the table.
    assert_eq!(averages.len(), 2 * changes.len(), "{output:?}");
    for ((_, _, difference), number) in changes.iter().zip(2..) {
        let said = format!("run-{number}.json: not averaged: {difference}");
        let is_apart = output.stderr.contains(&said);
        assert_eq!(is_apart, !difference.is_empty(), "{said}: {output:?}");
    }
    let compared = call(&["compare", &files[0], &files[1]]).finish();
    let said = "wrkbench: run-1.json and run-2.json: different loads: timeout 2 s / 5 s\n";
    assert!(compared.stderr.contains(said), "{compared:?}");
}

#[test]
fn notes_of_several_places_give_headings_profiles_targets_and_rounds() {
    let folder = Folder::new();
    let notes = folder.file_with("places.txt", PLACES);
    let output = table(&[&notes, "--summary"]);
    // Two lines of a report that is not there.
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output
            .stderr
            .contains("line 196: belongs to no report, skipped"),
        "{output:?}"
    );
    assert!(
        output.stdout.starts_with(
            "Run the tests from office:\n\nWide test -t6 -c200:\nblue server: Latency 282.38ms, \
             314.55ms  Requests/sec: 1531.50, 1592.25\ngreen server: Latency 556.04ms, 127.10ms  "
        ),
        "{output:?}"
    );
    assert_eq!(output.stdout.matches("Latency ").count(), 12, "{output:?}");
    let explained = table(&[&notes, "--explain"]);
    assert_eq!(explained.code, Some(1), "{explained:?}");
    let said = "places.txt:44\n  heading   Run the tests from office  (line 39: \"Run the tests \
                from office:\")\n";
    assert!(explained.stdout.contains(said), "{explained:?}");
}

#[test]
fn runs_that_text_keeps_apart_are_averaged_by_the_parts_of_their_names_that_are_listed() {
    let folder = Folder::new();
    let (before, after) = WRK.split_once("Requests/sec:").unwrap();
    let (_, after) = after.split_once('\n').unwrap();
    let again = format!("{before}Requests/sec:   1000.00\n{after}");
    let notes = folder.file_with("notes.txt", format!("#1\n{WRK}\n#2\n{again}"));
    let apart = table(&[&notes]);
    let said = "2 runs are named by the text above (table --group-by target averages runs with";
    assert!(apart.stderr.contains(said), "{apart:?}");
    let grouped = table(&[&notes, "--group-by", "target"]);
    assert_eq!(grouped.code, Some(0), "{grouped:?}");
    let said = "2 runs are grouped into 1 row: by target and their loads\n";
    assert!(grouped.stderr.ends_with(said), "{grouped:?}");
    let refused = table(&[&notes, "--group-by", "colour"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        one_line(&refused.stderr).contains("\"colour\" is no part of these runs' names"),
        "{refused:?}"
    );
}

/// The document of a fleet whose agents, one at each place, have made this run.
fn of_fleet(result: &RunResult, places: &[&str]) -> String {
    let mut plan = result.plan.clone();
    plan.load.connections *= places.len() as u32;
    let shares = plan.deal(&vec![plan.load.threads; places.len()]);
    let shares = shares.expect("enough connections for all");
    let agents = places.iter().zip(shares).map(|(place, share)| AgentResult {
        id: format!("agent-{}", share.schedule.worker_base),
        place: (*place).to_owned(),
        worker_base: share.schedule.worker_base,
        weight: share.weight,
        clock_bound_ns: None,
        start_late_ns: None,
        early: None,
        outcome: AgentOutcome::Delivered(Box::new(RunResult {
            plan: share.plan,
            ..result.clone()
        })),
    });
    let merged = results::fleet::merge(&plan, result.environment.clone(), agents.collect());
    let mut bytes = Vec::new();
    results::file::save(&merged, &[], &mut bytes).expect("memory takes every write");
    String::from_utf8(bytes).expect("the document is UTF-8")
}

#[test]
fn the_rounds_of_a_fleet_are_side_by_side_for_each_place() {
    let site = site();
    let folder = Folder::new();
    let run = load(&site).requests(200).run();
    for (round, minutes) in [("round-1.json", 0), ("round-2.json", 1)] {
        let mut result = run.result.clone();
        result.window.started_unix_ms += minutes * 60_000;
        folder.file_with(round, of_fleet(&result, &["office", "rack"]));
    }
    let output = table(&[&folder.file("."), "--summary"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let per_sec = format!("{:.2}", run.result.requests_per_sec());
    let both = format!("{:.2}", 2.0 * run.result.requests_per_sec());
    let headings: Vec<&str> = output
        .stdout
        .lines()
        .filter(|line| ["all places:", "office:", "rack:"].contains(line))
        .collect();
    assert_eq!(headings, ["all places:", "office:", "rack:"], "{output:?}");
    for (rate, lines) in [(per_sec, 2), (both, 1)] {
        let rounds = format!("  Requests/sec: {rate}, {rate}\n");
        assert_eq!(output.stdout.matches(&rounds).count(), lines, "{output:?}");
    }
}
