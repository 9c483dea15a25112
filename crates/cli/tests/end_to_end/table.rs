//! `table`: what is read, how it is shown, and how it ends.

use std::io::Write as _;
use std::process::Stdio;

use crate::harness::{Folder, Output, Process, load, one_line, program, site};

const NOTES: &str = include_str!("../../../analysis/tests/data/notes.md");
const WRK: &str = include_str!("../../../report/tests/captured/wrk.txt");

fn table(arguments: &[&str]) -> Output {
    Process::start(program(&[&["table"], arguments].concat())).finish()
}

fn row<'a>(output: &'a Output, begin: &str) -> Vec<&'a str> {
    let mut lines = output.stdout.lines();
    let line = lines.find(|line| line.starts_with(begin));
    let line = line.unwrap_or_else(|| panic!("no row {begin} in {output:?}"));
    line.trim_matches('|').split('|').map(str::trim).collect()
}

#[test]
fn what_a_run_printed_and_what_it_saved_give_the_same_table() {
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
fn a_run_that_ctrl_c_ended_is_marked_and_in_no_average() {
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
    let compared = Process::start(program(&["compare", &whole, &ended_early])).finish();
    assert_eq!(compared.code, Some(1));
    assert!(
        one_line(&compared.stderr).ends_with("run-2.json: no run to compare (1 failed)"),
        "{compared:?}"
    );
}

#[test]
fn notes_give_rounds_side_by_side() {
    let folder = Folder::new();
    let notes = folder.file_with("notes.md", NOTES);
    let output = table(&[&notes, "--summary"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(
        output.stdout.starts_with(
            "-t12 -c400 heading=Basic:\nx86_64: Latency 573.06ms, 582.82ms  Requests/sec: 534.55, 534.29\n"
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
fn stdin_is_read_as_text() {
    let mut command = program(&["table", "-", "--format", "csv", "--columns", "requests"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(WRK.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.starts_with("run,requests,failure,source\r\n1,"),
        "{text}"
    );
    assert!(text.contains(",,stdin:1\r\n"), "{text}");
}

#[test]
fn what_cannot_be_read_does_not_keep_the_others_from_being_shown() {
    let folder = Folder::new();
    let good = folder.file_with("good.txt", WRK);
    let other = folder.file_with("other.txt", "nothing of the kind");
    let output = table(&[&good, &other, "/nonexistent", &good]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_eq!(row(&output, "| avg")[0], "avg");
    let lines: Vec<&str> = output.stderr.lines().collect();
    assert_eq!(lines.len(), 3, "{output:?}");
    assert!(
        lines[0].ends_with("good.txt: given twice, read once"),
        "{output:?}"
    );
    assert!(lines[1].contains("other.txt: no run in it"), "{output:?}");
    assert!(
        lines[2].contains("cannot read /nonexistent: No such file"),
        "{output:?}"
    );
}

#[test]
fn what_makes_no_table_is_refused_in_one_line() {
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
            "--summary: is text only",
        ),
        (
            &[good.as_str(), "--percentiles", "101"],
            "is not a percentile",
        ),
        (&[], "is missing"),
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
fn a_table_or_comparison_that_cannot_be_written_is_one_line() {
    let folder = Folder::new();
    let good = folder.file_with("good.txt", WRK);
    for (arguments, what) in [
        (&["table", &good][..], "the table"),
        (&["table", &good, "--summary"], "the table"),
        (&["compare", &good, &good], "compare: the comparison"),
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let output = program(arguments).stdout(full.unwrap()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(
            one_line(&String::from_utf8(output.stderr).unwrap()),
            format!(
                "wrkbench: {what} cannot be written to stdout: No space left on device (os error 28)"
            )
        );
    }
}
