//! Markdown for a pull request: conclusions, warnings, averages, and all runs.

use std::io::{self, Write};

use analysis::Observation;
use analysis::table::{TableOptions, table};
use results::metric;

use super::remarks::{self, Remark, Weight};
use super::{Export, names, trusted};
use crate::page::TableBlock;
use crate::page::tables::{self, columns, measured, number_column, text};
use crate::page::words::{self, counted};
use crate::table::markdown::{self, escaped};

/// Tables with more rows are folded.
const ROWS_OPEN_MAX: usize = 12;

/// The percentiles of the latency in the table.
const PERCENTILES: [f64; 6] = [50.0, 75.0, 90.0, 99.0, 99.9, 99.99];

/// Writes conclusions and warnings first, then the tables.
pub(super) fn render(export: &Export<'_>, output: &mut dyn Write) -> io::Result<()> {
    let runs = export.runs();
    writeln!(output, "## {}\n", escaped(names::short(export.title())))?;
    let failed = runs.iter().filter(|run| run.failure.is_some()).count();
    let failed = match failed {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    writeln!(output, "{}{failed}\n", counted(runs.len() as u64, "run"))?;
    write_remarks(export, output)?;
    // The default columns are always there.
    let table = table(runs, &TableOptions::default()).map_err(io::Error::other)?;
    if table.cells.iter().any(|cell| cell.runs.len() > 1) {
        writeln!(output, "### Averages\n")?;
        markdown::averages_only(&table, output)?;
        writeln!(output)?;
    }
    folded("Runs", runs, output, |output| {
        markdown::runs_only(&table, output)
    })?;
    folded("Latency", runs, output, |output| {
        write_latency(&export.by_cell(), output)
    })
}

/// Writes limits and conclusions first, in bold. Each other line starts with a fixed word, so that
/// no text of a run does.
fn write_remarks(export: &Export<'_>, output: &mut dyn Write) -> io::Result<()> {
    let remarks = remarks::all(export);
    let is_first = |remark: &Remark| matches!(remark.weight, Weight::Limit | Weight::Notice);
    let (first, others): (Vec<_>, Vec<_>) = remarks.into_iter().partition(is_first);
    for remark in &first {
        let sign = match remark.weight {
            Weight::Limit => ":warning: ",
            _ => "",
        };
        for line in &remark.lines {
            writeln!(output, "- {sign}**{}**", escaped(line).trim())?;
        }
    }
    for remark in &others {
        let sign = match remark.weight {
            Weight::Error => ":x:",
            Weight::Warning | Weight::Limit | Weight::Notice => ":warning:",
        };
        let lines: Vec<String> = remark.lines.iter().map(escaped).collect();
        let title = escaped(&remark.title);
        writeln!(output, "- {sign} {title}: {}", lines.join("; "))?;
    }
    if !first.is_empty() || !others.is_empty() {
        writeln!(output)?;
    }
    Ok(())
}

fn folded(
    title: &str,
    runs: &[Observation],
    output: &mut dyn Write,
    content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    if runs.len() <= ROWS_OPEN_MAX {
        writeln!(output, "### {title}\n")?;
        content(output)?;
        return writeln!(output);
    }
    let count = runs.len();
    // A table needs an empty line before it, also here.
    writeln!(output, "<details><summary>{title}: all {count}</summary>\n")?;
    content(output)?;
    writeln!(output, "\n</details>\n")
}

/// Writes a row for each run.
fn write_latency(runs: &[&Observation], output: &mut dyn Write) -> io::Result<()> {
    let known: Vec<f64> = PERCENTILES
        .into_iter()
        .filter(|percent| {
            let name = metric::percentile("latency", *percent);
            runs.iter().any(|run| trusted(run, &name).is_some())
        })
        .collect();
    let percentiles = known.iter().map(|percent| words::percentile(*percent));
    let mut heads = columns(&["run"], &["requests/s", "mean"]);
    heads.extend(percentiles.map(number_column));
    heads.extend(["max", "errors"].map(number_column));
    let row = |run: &&Observation| {
        let mut row = vec![text(names::of_run(run))];
        if let Some(failure) = &run.failure {
            row.push(text(failure));
            row.resize(heads.len(), text(""));
            return row;
        }
        let time = |name: &str| measured(trusted(run, name), words::time_us);
        let number = |name: &str| tables::known(run.value(name), words::number);
        row.extend([
            number(metric::REQUESTS_PER_SEC),
            time(metric::LATENCY_MEAN_US),
        ]);
        let percentiles = known.iter();
        row.extend(percentiles.map(|percent| time(&metric::percentile("latency", *percent))));
        row.extend([time("latency_max_us"), number(metric::ERRORS)]);
        row
    };
    let rows: Vec<_> = runs.iter().map(row).collect();
    markdown::write(&TableBlock::new("", heads, rows), output)
}
