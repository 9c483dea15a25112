//! Formats read by the programs and packages that they are made for.
//!
//! `scripts/install-readers.sh` installs those.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

#[path = "../fixture/mod.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod fixture;
mod records;
#[path = "../export/runs.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod runs;

use std::path::{Path, PathBuf};
use std::process::Command;

use report::export::ExportFormat;
use runs::Set;
use serde_json::{Value, json};
use testkit::Folder;

/// Where `scripts/install-readers.sh` installs them.
fn readers() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    target.join("readers")
}

/// Where a reader is. `None`: the test is skipped.
fn reader(name: &str) -> Option<PathBuf> {
    let readers = readers();
    let path = readers.join(name);
    // The packages of a half made environment are not there yet.
    let is_whole = !name.starts_with("venv/") || readers.join("python.installed").exists();
    let found = (path.exists() && is_whole).then_some(path);
    testkit::require_ok(name, found.ok_or("`make readers` installs it"))
}

/// A file with runs in a format.
struct ExportedFile {
    path: PathBuf,
    _folder: Folder,
}

impl ExportedFile {
    fn new(set: &Set, format: ExportFormat) -> Self {
        let folder = Folder::new();
        let path = folder.file_with(format.name(), set.shown(format).unwrap());
        Self {
            path: path.into(),
            _folder: folder,
        }
    }
}

/// What a package of Python's made of a file.
fn read_by_python(file: &ExportedFile, format: ExportFormat, more: &[&Path]) -> Option<Value> {
    let python = reader("venv/bin/python")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/readers/read.py");
    let output = Command::new(python)
        .arg(script)
        .arg(format.name())
        .arg(&file.path)
        .args(more)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}: {}",
        file.path.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Responses of all runs that did not fail, and with an error for each condition.
fn sweep() -> Set {
    runs::sweep().judged_by("p50>2ms,errors>0")
}

/// A level that breaks lines, quotes, fields and markup.
fn hostile() -> Set {
    runs::sweep_of(
        "buffers",
        ["a\",\r\n<b>'&=1\u{1}\u{202e}", "=1+1"],
        "-t2 \u{e9}\n{}",
    )
}

#[test]
fn python_s_csv_reads_every_row() {
    let file = ExportedFile::new(&sweep(), ExportFormat::Csv);
    if let Some(read) = read_by_python(&file, ExportFormat::Csv, &[]) {
        assert_eq!(read["ragged"], 0);
        assert_eq!(read["requests"].as_f64(), Some(80.0));
        assert_eq!(read["levels"], json!(["4096", "8388608", "4096", "4096"]));
        assert!(read["rows"].as_u64() > Some(100), "{read}");
    }
    let file = ExportedFile::new(&hostile(), ExportFormat::Csv);
    if let Some(read) = read_by_python(&file, ExportFormat::Csv, &[]) {
        assert_eq!(read["ragged"], 0);
        // What a terminal would act on is replaced.
        assert_eq!(read["levels"][0], json!("a\",  <b>'&=1??"));
        assert_eq!(read["levels"][1], json!("'=1+1"));
    }
}

#[test]
fn junit_files_keep_the_schema_and_are_counted_right() {
    let schema = reader("junit-10.xsd");
    let schema: Vec<&Path> = schema.iter().map(PathBuf::as_path).collect();
    let mut sets = runs::all();
    sets.push(("hostile", hostile()));
    for (name, set) in sets {
        let file = ExportedFile::new(&set, ExportFormat::Junit);
        let Some(read) = read_by_python(&file, ExportFormat::Junit, &schema) else {
            return;
        };
        // With several runs, one more suite says how far they can be trusted.
        let runs = set.runs.len();
        let suites = runs + usize::from(runs > 1);
        assert_eq!(read["suites"].as_array().unwrap().len(), suites, "{name}");
        let told = json!([read["cases"], read["failures"], read["errors"]]);
        assert_eq!(read["told"], told, "{name}");
        let failed = set.runs.iter().filter(|run| run.failure.is_some());
        assert_eq!(read["errors"], failed.count(), "{name}");
    }
    let file = ExportedFile::new(&sweep(), ExportFormat::Junit);
    if let Some(read) = read_by_python(&file, ExportFormat::Junit, &schema) {
        // Three runs of the slow level, and the one that failed by either condition.
        assert_eq!(read["failures"], 5, "{read}");
        let messages = read["messages"].as_array().unwrap();
        assert!(
            messages.contains(&json!("p50 is 3.12 ms, limit p50>2ms")),
            "{read}"
        );
        assert!(messages.contains(&json!("php-fpm did not come back within 10 s")));
    }
}

#[test]
fn the_log_of_a_sweep_is_read_tag_by_tag() {
    let file = ExportedFile::new(&sweep(), ExportFormat::Hlog);
    if let Some(read) = read_by_python(&file, ExportFormat::Hlog, &[]) {
        assert_eq!(
            read["tags"],
            json!({
                "1:buffers=4096:php-2:run=1": 20,
                "2:buffers=8388608:php-2:run=1": 20,
                "3:buffers=4096:php-2:run=1": 20,
                "4:buffers=4096:php-2:run=2": 20,
            })
        );
    }
    let file = ExportedFile::new(&runs::stalled(), ExportFormat::Hlog);
    if let Some(read) = read_by_python(&file, ExportFormat::Hlog, &[]) {
        assert_eq!(read["tags"], json!({"": 600, "unanswered": 4}));
    }
}
