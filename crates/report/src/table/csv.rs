//! Comma-separated values (RFC 4180) in full precision: a row for each run and each average.

use std::borrow::Cow;
use std::io::{self, Write};

use analysis::table::Table;
use results::{Measured, metric};

use super::{AVERAGE, key_values, keys, lower_bounds, rows_of};

/// Unknown values are empty. The last column names the metrics whose values are lower bounds. The
/// rows by name of requests follow after an empty line and have their own titles.
pub(super) fn render(table: &Table, output: &mut dyn Write) -> io::Result<()> {
    rows(table, output)?;
    match &table.by_name {
        Some(names) => {
            output.write_all(b"\r\n")?;
            rows(names, output)
        }
        None => Ok(()),
    }
}

fn rows(table: &Table, output: &mut dyn Write) -> io::Result<()> {
    let is_percentile = |name: &String| metric::percentile_of(name).is_some();
    let mut titles: Vec<Cow<'_, str>> = keys(table).into_iter().map(Cow::from).collect();
    titles.push("run".into());
    titles.extend(table.columns.iter().map(Cow::from));
    let percentiles = table.columns.iter().filter(|name| is_percentile(name));
    titles.extend(percentiles.map(|name| format!("all_samples_{name}").into()));
    titles.extend(["failure".into(), "source".into(), "lower_bounds".into()]);
    line(&titles, output)?;
    for cell in &table.cells {
        for row in rows_of(table, cell) {
            let is_average = row.name == AVERAGE;
            let merged = |at: usize| cell.merged[at].filter(|_| is_average);
            let columns = table.columns.iter().enumerate();
            let percentiles = columns.filter(|(_, name)| is_percentile(name));
            let run = row.of_run;
            let failure = run.and_then(|run| run.failure.as_deref());
            let begin = key_values(table, cell).into_iter().map(Cow::from);
            let cells = begin
                .chain([row.name.into()])
                .chain(row.values.iter().map(|value| number(*value).into()))
                .chain(percentiles.map(|(at, _)| number(merged(at)).into()))
                .chain([failure.unwrap_or_default().into()])
                .chain([run.map_or("", |run| &run.source).into()])
                .chain([lower_bounds(table, &row.values).join(" ").into()]);
            line(&cells.collect::<Vec<_>>(), output)?;
        }
    }
    Ok(())
}

/// The shortest text that reads back as the same number.
fn number(known: Option<Measured>) -> String {
    known
        .map(|known| known.value.to_string())
        .unwrap_or_default()
}

/// Writes one record on one line, in quotes where that is needed.
pub(crate) fn line(fields: &[Cow<'_, str>], output: &mut dyn Write) -> io::Result<()> {
    for (at, field) in fields.iter().enumerate() {
        if at > 0 {
            output.write_all(b",")?;
        }
        let field = plan::printable(field);
        if field.contains([',', '"']) {
            write!(output, "\"{}\"", field.replace('"', "\"\""))?;
        } else {
            output.write_all(field.as_bytes())?;
        }
    }
    output.write_all(b"\r\n")
}
