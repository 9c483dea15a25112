//! `wrkbench table`: runs as a table.

use std::io::{self, Write};
use std::process::ExitCode;

use analysis::table::Table;
use analysis::{Observation, request_names};
use anyhow::{Context, bail};
use report::table::Format;

use super::reading::read_all;
use crate::args::{TableLayout, TableRequest};
use crate::console::Console;

/// Reads everything that can be read and prints the table; exit code 1 if an input could not be
/// read, has lines that may be results and are not understood, or has no names with `--by-name`.
///
/// # Errors
/// When no run could be read or has names with `--by-name`, or stdout cannot be written.
pub(super) fn table(request: &TableRequest, console: &Console) -> anyhow::Result<ExitCode> {
    if request.layout == TableLayout::Names {
        let names = report::table::render_names(&mut &console.stdout);
        names.context("cannot write the names to stdout")?;
        return Ok(ExitCode::SUCCESS);
    }
    let reading = read_all(&request.paths, request.group_by.as_deref(), console)?;
    let runs = analysis::by_place(reading.observations);
    let table = analysis::table::table(&runs, &request.options).context("--columns")?;
    let unnamed = if request.options.by_name {
        count_unnamed(&runs)?
    } else {
        0
    };
    print(&table, &runs, request.layout, console).context("cannot write the table to stdout")?;
    if unnamed > 0 {
        let all = runs.len();
        console.tell(format_args!(
            "--by-name: in {unnamed} of {all} runs, requests have no names"
        ));
    }
    let is_whole = reading.problems.is_empty() && !reading.has_skipped_lines;
    Ok(if is_whole && unnamed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The number of runs whose requests have no names. A failed run may have none.
///
/// # Errors
/// When no run has any.
fn count_unnamed(runs: &[Observation]) -> anyhow::Result<usize> {
    let is_unnamed = |run: &&Observation| request_names([*run]).is_empty();
    if runs.iter().all(|run| is_unnamed(&run)) {
        bail!("--by-name: requests have no names in these runs");
    }
    let good = runs.iter().filter(|run| run.failure.is_none());
    Ok(good.filter(is_unnamed).count())
}

fn print(
    table: &Table,
    runs: &[Observation],
    layout: TableLayout,
    console: &Console,
) -> io::Result<()> {
    let mut output = io::BufWriter::new(&console.stdout);
    match layout {
        TableLayout::Table(Format::Markdown) if console.stdout.is_terminal => {
            report::table::render_for_terminal(table, &mut output)?;
        }
        TableLayout::Table(format) => report::table::render(table, format, &mut output)?,
        TableLayout::Summary => report::table::render_summary(table, &mut output)?,
        TableLayout::Names => {}
        TableLayout::Explanation => report::table::render_explanation(runs, &mut output)?,
    }
    output.flush()
}
