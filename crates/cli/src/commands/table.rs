//! `wrkbench table`: runs as a table.

use std::io::{self, Write};
use std::process::ExitCode;

use analysis::Observation;
use analysis::table::Table;
use anyhow::Context;

use super::reading::read_all;
use crate::args::{TableLayout, TableRequest};

/// Reads everything that can be read and prints the table; exit code 1 if some input could not be
/// read.
///
/// # Errors
/// When no run could be read, or stdout cannot be written.
pub(super) fn table(request: &TableRequest, program: &str) -> anyhow::Result<ExitCode> {
    let reading = read_all(&request.paths, program)?;
    let runs = analysis::by_place(reading.observations);
    let table = analysis::table::table(&runs, &request.options).context("--columns")?;
    print(&table, &runs, request.layout).context("cannot write the table to stdout")?;
    Ok(if reading.problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn print(table: &Table, runs: &[Observation], layout: TableLayout) -> io::Result<()> {
    let mut output = io::BufWriter::new(io::stdout().lock());
    match layout {
        TableLayout::Table(format) => report::table::render(table, format, &mut output)?,
        TableLayout::Summary => report::table::render_summary(table, &mut output)?,
        TableLayout::Explanation => report::table::render_explanation(runs, &mut output)?,
    }
    output.flush()
}
