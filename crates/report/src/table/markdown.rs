//! The text of generate-table.sh: a row for each run, an average for each cell, then the averages
//! again.

use std::io::{self, Write};

use analysis::table::{Cell, Table};
use presentation::TableBlock;
use presentation::words::UNKNOWN;
use results::{Measured, metric};

use super::{AVERAGE, key_values, keys, marked, rows_of};

/// Writes the table, then the averages only.
pub(super) fn render(table: &Table, output: &mut dyn Write) -> io::Result<()> {
    rows(table, true, output)?;
    output.write_all(b"\nAverages only:\n")?;
    averages_only(table, output)
}

/// A row for each name of requests; with several runs of a cell, their averages.
pub(super) fn render_names(names: &Table, output: &mut dyn Write) -> io::Result<()> {
    output.write_all(b"\nBy name:\n")?;
    if names.cells.iter().all(|cell| cell.runs.len() == 1) {
        runs_only(names, output)
    } else {
        averages_only(names, output)
    }
}

/// A row for each run.
fn runs_only(table: &Table, output: &mut dyn Write) -> io::Result<()> {
    rows(table, false, output)
}

/// Writes a row for each run, optionally with an average for each cell.
fn rows(table: &Table, with_averages: bool, output: &mut dyn Write) -> io::Result<()> {
    let has_failures = has_failures(table);
    let mut titles: Vec<String> = keys(table).into_iter().map(escaped).collect();
    titles.push("run".to_owned());
    titles.extend(table.columns.iter().map(|name| escaped(title(name))));
    titles.extend(has_failures.then(|| "failure".to_owned()));
    header(&titles, output)?;
    for cell in &table.cells {
        let rows = rows_of(table, cell).into_iter();
        for row in rows.filter(|row| with_averages || row.of_run.is_some()) {
            let mut cells = begin(table, cell, &row.name);
            let show = if row.of_run.is_some() {
                of_run
            } else {
                average
            };
            let values = table.columns.iter().zip(&row.values);
            cells.extend(values.map(|(name, value)| shown(*value, |value| show(name, value))));
            let remark = match row.of_run {
                Some(run) => escaped(run.failure.as_deref().unwrap_or_default()),
                None if row.name == AVERAGE => averaged_runs(cell),
                None => String::new(),
            };
            cells.extend(has_failures.then_some(remark));
            line(&cells, output)?;
        }
    }
    Ok(())
}

/// Writes the averages; next to averages of percentiles, the percentiles of all samples where they
/// are known.
fn averages_only(table: &Table, output: &mut dyn Write) -> io::Result<()> {
    let has_failures = has_failures(table);
    // Looked up once: a table may have thousands of cells.
    let columns = 0..table.columns.len();
    let is_merged = columns.map(|at| table.cells.iter().any(|cell| cell.merged[at].is_some()));
    let is_merged: Vec<bool> = is_merged.collect();
    let mut titles: Vec<String> = keys(table).into_iter().map(escaped).collect();
    titles.push("run".to_owned());
    for (at, name) in table.columns.iter().enumerate() {
        let title = title(name);
        if metric::percentile_of(name).is_some() {
            titles.push(escaped(format!("avg of {title}")));
            titles.extend(is_merged[at].then(|| escaped(format!("{title} of all samples"))));
        } else {
            titles.push(escaped(&title));
        }
    }
    titles.extend(has_failures.then(|| "failure".to_owned()));
    header(&titles, output)?;
    for cell in &table.cells {
        let mut row = begin(table, cell, "avg");
        for (at, name) in table.columns.iter().enumerate() {
            row.push(shown(cell.averages[at], |value| average(name, value)));
            row.extend(is_merged[at].then(|| shown(cell.merged[at], |value| average(name, value))));
        }
        row.extend(has_failures.then(|| averaged_runs(cell)));
        line(&row, output)?;
    }
    Ok(())
}

fn has_failures(table: &Table) -> bool {
    let mut runs = table.cells.iter().flat_map(|cell| &cell.runs);
    runs.any(|run| run.failure.is_some())
}

/// The number of runs in an average if some failed.
fn averaged_runs(cell: &Cell) -> String {
    let good = cell.runs.iter().filter(|run| run.failure.is_none()).count();
    let all = cell.runs.len();
    if good == all {
        String::new()
    } else {
        format!("{good} of {all} runs")
    }
}

fn begin(table: &Table, cell: &Cell, run: &str) -> Vec<String> {
    let mut row: Vec<String> = key_values(table, cell).into_iter().map(escaped).collect();
    row.push(run.to_owned());
    row
}

fn shown(known: Option<Measured>, show: impl Fn(f64) -> String) -> String {
    let text = |known: Measured| marked(&known, show(known.value));
    known.map(text).unwrap_or_default()
}

/// A value in the form of json.lua: two decimals for times and rates, none for whole numbers.
fn of_run(name: &str, value: f64) -> String {
    let is_fraction = [
        metric::DURATION_US,
        metric::REQUESTS_PER_SEC,
        metric::BYTES_PER_SEC,
    ];
    if !is_fraction.contains(&name) && value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value:.0}")
    } else {
        average(name, value)
    }
}

/// An average in the form of generate-table.sh: two decimals, and four for shares, which are small.
fn average(name: &str, value: f64) -> String {
    let decimals = if name.ends_with("_percent") { 4 } else { 2 };
    format!("{value:.decimals$}")
}

/// `99% latency` as in generate-table.sh; other metrics by their names.
pub(super) fn title(name: &str) -> String {
    match metric::percentile_of(name) {
        Some(("latency", percent)) => format!("{percent}% latency"),
        _ => name.to_owned(),
    }
}

/// Titles for which generate-table.sh prints one dash less.
const SHORT_DASHES: [&str; 3] = [
    metric::DURATION_US,
    metric::REQUESTS_PER_SEC,
    metric::BYTES_PER_SEC,
];

fn header(titles: &[String], output: &mut dyn Write) -> io::Result<()> {
    line(titles, output)?;
    for title in titles {
        let dashes =
            title.chars().count() + 2 - usize::from(SHORT_DASHES.contains(&title.as_str()));
        // Not a format width, which is limited to 65,535: names of factors can be longer.
        write!(output, "|{}", "-".repeat(dashes))?;
    }
    output.write_all(b"|\n")
}

fn line(cells: &[String], output: &mut dyn Write) -> io::Result<()> {
    for cell in cells {
        write!(output, "| {cell} ")?;
    }
    output.write_all(b"|\n")
}

/// Writes a table with numbers to the right; unknown values are empty.
pub(crate) fn write(table: &TableBlock, output: &mut dyn Write) -> io::Result<()> {
    let heads: Vec<String> = table.columns.iter().map(|it| escaped(&it.name)).collect();
    line(&heads, output)?;
    for column in &table.columns {
        output.write_all(if column.is_numeric { b"|--:" } else { b"|---" })?;
    }
    output.write_all(b"|\n")?;
    for row in &table.rows {
        let cells = row.iter().map(|cell| match cell.text.as_str() {
            UNKNOWN => String::new(),
            text => escaped(text).replace('\u{2265}', ">="),
        });
        line(&cells.collect::<Vec<_>>(), output)?;
    }
    Ok(())
}

/// Text within a cell, with the special characters of Markdown and HTML escaped.
pub(crate) fn escaped(text: impl AsRef<str>) -> String {
    let text = text.as_ref();
    let mut escaped = String::with_capacity(text.len());
    for c in plan::printable(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '|' | '`' | '*' | '[' | ']' | '~' | '\\' | '$' => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Markdown without the escapes that [`escaped`] adds.
pub(super) fn unescaped(text: &str) -> String {
    const ENTITIES: [(&str, &str); 3] = [("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">")];
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '&']) {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let entity = ENTITIES.iter().find(|(entity, _)| rest.starts_with(entity));
        let length = match entity {
            Some((entity, shown)) => {
                plain.push_str(shown);
                entity.len()
            }
            None => {
                // What follows a backslash stays, even if it is another one.
                rest = rest.strip_prefix('\\').unwrap_or(rest);
                let next = rest.chars().next();
                plain.extend(next);
                next.map_or(0, char::len_utf8)
            }
        };
        rest = &rest[length..];
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_its_escapes_is_the_text() {
        for text in [
            "[me@host ~]$ a && b <c> | d\\e",
            "\\",
            "&amp; & \u{e4}*",
            "",
        ] {
            assert_eq!(unescaped(&escaped(text)), text);
        }
    }
}
