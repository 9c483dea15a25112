//! Notes as people write them: which of their runs are averaged, and which are not.
//!
//! `data/notes/` has a note in each file, and next to it, as `.golden`, what is read from it: a
//! line for each row of the table, and the lines that are said about it.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::fs;
use std::path::{Path, PathBuf};

use analysis::table::{Cell, TableOptions, table};
use analysis::{Observation, Reading};

/// What is read from a note.
fn groups(path: &Path) -> String {
    let name = PathBuf::from(path.file_name().unwrap());
    let read = Reading::of_bytes(&fs::read(path).unwrap(), &name);
    let reading = match read {
        Ok(read) => Reading::join(vec![(name, read)]),
        Err(error) => return format!("# {error}\n"),
    };
    let options = TableOptions {
        columns: Some(vec!["requests_per_sec".to_owned()]),
        ..TableOptions::default()
    };
    let cells = table(&reading.observations, &options).unwrap().cells;
    let rows = cells.iter().map(|cell| row(cell, &reading.observations));
    let said = reading.notes.into_iter().chain(reading.repetitions);
    let lines: Vec<String> = rows.chain(said.map(|note| format!("# {note}"))).collect();
    lines.join("\n") + "\n"
}

/// A row: its name, the lines of its runs, and the average of their rates.
fn row(cell: &Cell, runs: &[Observation]) -> String {
    let settings = cell.settings.iter();
    let settings: Vec<String> = settings
        .map(|setting| format!("{}={}", setting.factor, setting.level))
        .collect();
    let name = [
        settings.join(" "),
        cell.profile.clone().unwrap_or_default(),
        cell.target.clone().unwrap_or_default(),
    ];
    let of_source = |source: &str| runs.iter().find(|run| run.source == source).unwrap();
    let lines = cell.runs.iter().map(|run| {
        let line = run.source.rsplit_once(':').map_or("", |(_, line)| line);
        let failed = of_source(&run.source).failure.is_some();
        format!("{line}{}", if failed { " failed" } else { "" })
    });
    let lines: Vec<String> = lines.collect();
    let average = cell.averages[0].map_or(f64::NAN, |average| average.value);
    format!(
        "{} | lines {} | {average:.2}",
        name.join(" | "),
        lines.join(", ")
    )
}

fn notes() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/notes");
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|end| end != "golden"))
        .collect();
    files.sort();
    files
}

#[test]
fn notes_of_many_forms_give_the_groups_that_their_authors_meant() {
    let notes = notes();
    assert!(notes.len() >= 40, "{} notes", notes.len());
    let mut wrong = Vec::new();
    for path in notes {
        let golden = fs::read_to_string(path.with_extension("golden")).unwrap_or_default();
        let found = groups(&path);
        if found != golden {
            wrong.push(format!("{}:\n{found}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
