//! Runs for the commands that show them: everything that can be read of everything that is named.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use analysis::{ReadError, Reading};
use anyhow::bail;

use super::tell;

/// What was read: at least one run.
pub(super) struct Read {
    /// The runs, with the notes that have been told already.
    pub(super) reading: Reading,
    /// Nothing that was named could not be read.
    pub(super) is_complete: bool,
}

/// Reads each path once, `-` being stdin, and tells what there is to say about it.
///
/// # Errors
/// When there is no run in any of it.
pub(super) fn read_all(paths: &[PathBuf], program: &str) -> anyhow::Result<Read> {
    let mut parts = Vec::new();
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for path in paths {
        // A run that is given twice would count twice.
        if !seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())) {
            let line = format!("{}: given twice, read once", path.display());
            tell(program, on_one_line(&line));
            continue;
        }
        match read(path) {
            Ok(part) => parts.push(part),
            Err(error) => problems.push(error.to_string()),
        }
    }
    let mut reading = Reading::join(parts);
    problems.append(&mut reading.problems);
    if reading.observations.is_empty() {
        match problems.pop() {
            Some(last) => {
                for problem in &problems {
                    tell(program, on_one_line(problem));
                }
                bail!(on_one_line(&last));
            }
            None => bail!("no runs to show"),
        }
    }
    for line in reading.notes.iter().chain(&problems) {
        tell(program, on_one_line(line));
    }
    Ok(Read {
        reading,
        is_complete: problems.is_empty(),
    })
}

/// Names of files, and what hooks said, may have line feeds in them.
pub(super) fn on_one_line(text: &str) -> String {
    text.replace(char::is_control, "?")
}

fn read(path: &Path) -> Result<(PathBuf, Reading), ReadError> {
    if path == Path::new("-") {
        let name = PathBuf::from("stdin");
        let reading = Reading::of_input(&mut io::stdin().lock(), &name)?;
        Ok((name, reading))
    } else {
        Ok((path.to_owned(), Reading::of_path(path)?))
    }
}
