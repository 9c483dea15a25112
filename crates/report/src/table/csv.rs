//! Comma-separated values (RFC 4180) in full precision: a row for each run and each average.

use std::borrow::Cow;
use std::io::{self, Write};

use analysis::table::Table;
use results::{Measured, metric};

use super::{key_values, keys, lower_bounds, spread_rows};

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
    let is_percentile = |name: &&String| metric::percentile_of(name).is_some();
    let mut titles: Vec<Cow<'_, str>> = keys(table).into_iter().map(Cow::from).collect();
    titles.push("run".into());
    titles.extend(table.columns.iter().map(Cow::from));
    let percentiles = table.columns.iter().filter(is_percentile);
    titles.extend(percentiles.map(|name| format!("all_samples_{name}").into()));
    titles.extend(["failure".into(), "source".into(), "lower_bounds".into()]);
    line(&titles, output)?;
    for cell in &table.cells {
        let begin: Vec<Cow<'_, str>> = key_values(table, cell).into_iter().map(Cow::from).collect();
        let no_merged = vec![None; cell.merged.len()];
        let row = |run: String, values: &[Option<Measured>], merged: &[Option<Measured>]| {
            let mut row = begin.clone();
            row.push(run.into());
            row.extend(values.iter().map(|value| number(*value).into()));
            let merged = table.columns.iter().zip(merged);
            let merged = merged.filter(|(name, _)| is_percentile(name));
            row.extend(merged.map(|(_, value)| number(*value).into()));
            row
        };
        for run in &cell.runs {
            let mut row = row(run.number.to_string(), &run.values, &no_merged);
            row.push(run.failure.as_deref().unwrap_or_default().into());
            row.push(run.source.as_str().into());
            row.push(lower_bounds(table, &run.values).join(" ").into());
            line(&row, output)?;
        }
        let mut average = row("avg".to_owned(), &cell.averages, &cell.merged);
        let bounds = lower_bounds(table, &cell.averages).join(" ");
        average.extend(["".into(), "".into(), bounds.into()]);
        line(&average, output)?;
        for (name, spread) in spread_rows(cell).into_iter().filter(|_| table.has_spread) {
            let mut row = row(name.to_owned(), &spread, &no_merged);
            row.extend(["", "", ""].map(Cow::from));
            line(&row, output)?;
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

/// Writes one record, in quotes where that is needed.
pub(crate) fn line(fields: &[Cow<'_, str>], output: &mut dyn Write) -> io::Result<()> {
    for (at, field) in fields.iter().enumerate() {
        if at > 0 {
            output.write_all(b",")?;
        }
        if field.contains([',', '"', '\r', '\n']) {
            write!(output, "\"{}\"", field.replace('"', "\"\""))?;
        } else {
            output.write_all(field.as_bytes())?;
        }
    }
    output.write_all(b"\r\n")
}
