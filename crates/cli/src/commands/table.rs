//! Runs as a table.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use analysis::table::Table;
use analysis::{ReadError, Reading};
use anyhow::{Context, bail};

use super::tell;
use crate::args::{TableLayout, TableRequest};

/// Reads everything that can be read and prints the table; exit code 1 if something could not.
///
/// # Errors
/// When nothing could be read, or stdout takes nothing.
pub(super) fn table(request: &TableRequest, program: &str) -> anyhow::Result<ExitCode> {
    let mut parts = Vec::new();
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for path in &request.paths {
        // A run that is given twice would count twice.
        if !seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())) {
            tell(
                program,
                format_args!("{}: given twice, read once", path.display()),
            );
            continue;
        }
        match read(path) {
            Ok(part) => parts.push(part),
            Err(error) => problems.push(error.to_string()),
        }
    }
    let reading = Reading::join(parts);
    problems.extend(reading.problems);
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
    let table =
        analysis::table::table(&reading.observations, &request.wish).context("--columns")?;
    print(&table, request.layout).context("the table cannot be written to stdout")?;
    Ok(if problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn print(table: &Table, layout: TableLayout) -> io::Result<()> {
    let mut output = io::BufWriter::new(io::stdout().lock());
    match layout {
        TableLayout::Table(format) => report::table::render(table, format, &mut output)?,
        TableLayout::Summary => report::table::render_summary(table, &mut output)?,
    }
    output.flush()
}

/// Names of files may have line feeds in them.
fn on_one_line(text: &str) -> String {
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
