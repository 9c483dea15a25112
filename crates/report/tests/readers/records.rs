//! Records of requests, read by pandas and DuckDB with the code of `docs/records.md`.

use std::path::{Path, PathBuf};
use std::process::Command;

use results::ErrorKind;
use results::records::{Clock, Formatter, Layout, RecordForm, RequestRecord, WithoutResponse};
use testkit::Folder;

use crate::readers;

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
/// More than DuckDB looks at to find the types of JSON lines, which have no error until then.
const REQUESTS: u64 = 30_000;
/// The requests with an error are the last ones.
const FAILED: u64 = 3;

/// A Python that has a module. `None`: the test is skipped.
fn python_with(module: &str) -> Option<PathBuf> {
    let candidates = [readers().join("frames/bin/python"), "python3".into()];
    let has_module = |python: &PathBuf| {
        let import = format!("import {module}");
        let output = Command::new(python).args(["-c", &import]).output();
        output.is_ok_and(|output| output.status.success())
    };
    let found = candidates.into_iter().find(has_module);
    testkit::require_ok(module, found.ok_or("`make readers` installs it"))
}

/// The only block of the document in this language.
fn block(language: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records.md");
    let text = std::fs::read_to_string(path).unwrap();
    let fence = format!("```{language}\n");
    let blocks: Vec<&str> = text.split(&fence).skip(1).collect();
    let [block] = blocks.as_slice() else {
        panic!("{} blocks of {language}", blocks.len());
    };
    block.split("```").next().unwrap().to_owned()
}

/// Responses of 1 to 10 ms over ten seconds, and at the end some timeouts.
fn records() -> impl Iterator<Item = RequestRecord> {
    (0..REQUESTS).map(|number| {
        let due_ns = S + number * 10 * S / REQUESTS;
        let has_failed = number >= REQUESTS - FAILED;
        let reason = has_failed.then_some(WithoutResponse::Failed(ErrorKind::Timeout));
        RequestRecord {
            due_ns,
            sent_ns: due_ns,
            first_byte_ns: if has_failed { 0 } else { due_ns + MS },
            first_token_ns: 0,
            ended_ns: due_ns + (1 + number % 10) * MS,
            own_ns: 0,
            bytes: 100,
            trace: 0,
            tokens_in: 0,
            tokens_out: 0,
            conversation: 0,
            turn: 0,
            name: 0,
            connection: 0,
            status: if has_failed { 0 } else { 200 },
            without_response: reason,
        }
    })
}

/// A folder with the files that the document reads.
fn folder() -> Folder {
    let folder = Folder::new();
    let clock = Clock {
        unix_ns: 1_796_063_507 * S,
        monotonic_ns: S,
    };
    for (name, form) in [
        ("run.jsonl", RecordForm::JsonLines),
        ("run.csv", RecordForm::Csv),
    ] {
        let mut formatter = Formatter::new(form, &Layout::default(), clock);
        let mut bytes = Vec::new();
        formatter.header(&mut bytes);
        for record in records() {
            formatter.line(&record, (0, S), &mut bytes);
        }
        folder.file_with(name, bytes);
    }
    folder
}

fn printed(python: &Path, code: &str) -> String {
    let folder = folder();
    let mut command = Command::new(python);
    let output = command
        .args(["-c", code])
        .current_dir(folder.path())
        .output();
    let output = output.unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{code}\n{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// The lines of a text as words.
fn words(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().map(|line| line.split_whitespace().collect());
    lines.collect()
}

#[test]
fn pandas_reads_records_as_the_document_says() {
    let Some(python) = python_with("pandas") else {
        return;
    };
    let printed = printed(&python, &block("python"));
    let words = words(&printed);
    let has = |line: &[&str]| words.iter().any(|it| it == line);
    assert!(has(&["none", "29997"]), "{printed}");
    assert!(has(&["timeout", "3"]), "{printed}");
    assert!(has(&["0.50", "5.5"]), "{printed}");
    assert!(has(&["0.99", "10.0"]), "{printed}");
    let seconds = words.iter().filter(|it| it.last() == Some(&"10.0"));
    let seconds = seconds.filter(|it| it.iter().any(|word| word.ends_with("+00:00")));
    assert_eq!(seconds.count(), 10, "{printed}");
}

#[test]
fn duckdb_reads_records_as_the_document_says() {
    let Some(python) = python_with("duckdb") else {
        return;
    };
    let query = block("sql");
    let code =
        format!("import duckdb\nfor row in duckdb.sql('''{query}''').fetchall(): print(*row[1:])");
    let printed = printed(&python, &code);
    assert_eq!(words(&printed), vec![["3000", "10.0"]; 10], "{printed}");
}

#[test]
fn duckdb_finds_late_errors_in_json_lines_as_the_document_says() {
    let Some(python) = python_with("duckdb") else {
        return;
    };
    let count = |from: &str| {
        let query = format!("SELECT count(*) FROM {from} WHERE error = 'timeout'");
        let code = format!("import duckdb\nprint(duckdb.sql(\"{query}\").fetchall()[0][0])");
        printed(&python, &code).trim().to_owned()
    };
    assert_eq!(count("read_json('run.jsonl', sample_size = -1)"), "3");
    assert_eq!(count("'run.csv'"), "3");
    // Why the document says so.
    assert_eq!(count("'run.jsonl'"), "0");
}
