//! Markdown for a pull request: conclusions, warnings, averages, and all runs.

use std::io::{self, Write};

use analysis::Observation;
use analysis::table::{Cell, Table, TableOptions, table};
use judging::Criterion;
use presentation::TableBlock;
use presentation::tables::{self, columns, number_column, text, words_column};
use presentation::words::{self, counted};
use results::cells::measured;
use results::metric;

use super::remarks::{self, Remark, Weight};
use super::{Export, names, trusted};
use crate::page::quantities;
use crate::table::markdown::{self, escaped};
use crate::table::{key_values, key_values_of, keys};

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
    // The default columns are always there. Bytes with their units cannot be read back.
    let mut options = TableOptions::default();
    let defaults = table(runs, &options).map_err(io::Error::other)?.columns;
    let in_bytes = [metric::BYTES, metric::BYTES_PER_SEC];
    let shown = defaults
        .into_iter()
        .filter(|it| !in_bytes.contains(&it.as_str()));
    options.columns = Some(shown.collect());
    let table = table(runs, &options).map_err(io::Error::other)?;
    if table.cells.iter().any(|cell| cell.runs.len() > 1) {
        writeln!(output, "### Averages\n")?;
        write_averages(&table, output)?;
        writeln!(output)?;
    }
    folded("Runs", runs, output, |output| {
        write_runs(&table, &export.by_cell(), output)
    })
}

/// Writes a row for each cell. Next to averages of percentiles are the percentiles of all samples
/// where they are known.
fn write_averages(table: &Table, output: &mut dyn Write) -> io::Result<()> {
    let mut heads = columns(&keys(table), &["runs"]);
    let is_merged = |at: usize| table.cells.iter().any(|cell| cell.merged[at].is_some());
    for (at, name) in table.columns.iter().enumerate() {
        let title = quantities::title(name);
        heads.push(number_column(&title));
        heads.extend(is_merged(at).then(|| number_column(format!("{title} of all samples"))));
    }
    let row = |cell: &Cell| {
        let good = cell.runs.iter().filter(|run| run.failure.is_none());
        let mut row: Vec<_> = key_values(table, cell).into_iter().map(text).collect();
        row.push(tables::count(good.count() as u64));
        for (at, name) in table.columns.iter().enumerate() {
            let shown = |value| measured(value, |value| quantities::show(name, value));
            row.push(shown(cell.averages[at]));
            row.extend(is_merged(at).then(|| shown(cell.merged[at])));
        }
        row
    };
    let rows: Vec<_> = table.cells.iter().map(row).collect();
    markdown::write(&TableBlock::new("", heads, rows), output)
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
        let title = if says_title(remark) {
            String::new()
        } else {
            escaped(&remark.title) + ": "
        };
        writeln!(output, "- {sign} {title}{}", lines.join("; "))?;
    }
    let passed = passed(export);
    for line in &passed {
        writeln!(output, "- :white_check_mark: {}", escaped(line))?;
    }
    if !first.is_empty() || !others.is_empty() || !passed.is_empty() {
        writeln!(output)?;
    }
    Ok(())
}

/// A line for each condition that no run met: of a single run with what was measured.
fn passed(export: &Export<'_>) -> Vec<String> {
    let runs = export.runs();
    let line = |criterion: &Criterion| {
        let of_run = |run: &Observation| criterion.success(run.result.as_deref()?);
        let lines: Vec<String> = runs.iter().map_while(of_run).collect();
        match lines.as_slice() {
            [line] if runs.len() == 1 => Some(line.clone()),
            lines if lines.len() == runs.len() && !runs.is_empty() => Some(format!(
                "limit {criterion}: {} passed",
                counted(runs.len() as u64, "run")
            )),
            _ => None,
        }
    };
    export.criteria.iter().filter_map(line).collect()
}

/// Whether the sign or the sentences say what the title would.
fn says_title(remark: &Remark) -> bool {
    let title = remark.title.to_lowercase();
    let says = |line: &String| line.to_lowercase().contains(&title);
    title == "warning" || remark.lines.iter().all(says)
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
fn write_runs(table: &Table, runs: &[&Observation], output: &mut dyn Write) -> io::Result<()> {
    let known = PERCENTILES.map(|percent| (metric::percentile("latency", percent), percent));
    let is_known = |name: &str| runs.iter().any(|run| trusted(run, name).is_some());
    let known = known.iter().filter(|(name, _)| is_known(name));
    let mut metrics = vec![
        (metric::REQUESTS, "requests".to_owned()),
        (metric::REQUESTS_PER_SEC, "requests/s".to_owned()),
        (metric::LATENCY_MEAN_US, "mean".to_owned()),
    ];
    metrics.extend(known.map(|(name, percent)| (name.as_str(), words::percentile(*percent))));
    metrics.push((metric::LATENCY_MAX_US, "max".to_owned()));
    metrics.push((metric::ERRORS, "errors".to_owned()));
    let mut heads = columns(&keys(table), &["run"]);
    heads.extend(metrics.iter().map(|(_, title)| number_column(title)));
    let has_failures = runs.iter().any(|run| run.failure.is_some());
    heads.extend(has_failures.then(|| words_column("failure")));
    let row = |run: &&Observation| {
        let keys = key_values_of(table, &run.settings, &run.profile, &run.target);
        let mut row: Vec<_> = keys.into_iter().map(text).collect();
        row.push(text(run.run.to_string()));
        row.extend(metrics.iter().map(|(name, _)| {
            let known = trusted(run, name).filter(|_| run.failure.is_none());
            measured(known, |value| quantities::show(name, value))
        }));
        let failure = || text(run.failure.as_deref().unwrap_or_default());
        row.extend(has_failures.then(failure));
        row
    };
    let rows: Vec<_> = runs.iter().map(row).collect();
    markdown::write(&TableBlock::new("", heads, rows), output)
}
