//! Tables of runs, as Markdown, CSV or JSON.

pub(crate) mod csv;
mod explanation;
mod json;
pub(crate) mod markdown;
mod summary;

use std::io::{self, Write};

use analysis::Observation;
use analysis::table::{Cell, ColumnSpread, Run, Table};
use results::metric::names_by_topic;
use results::{ErrorKind, Measured, Setting};

/// The formats of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// The text of generate-table.sh, then each target's rounds side by side.
    #[default]
    Markdown,
    /// Comma-separated values (RFC 4180), in full precision.
    Csv,
    /// One document, in full precision.
    Json,
}

/// Writes a table as [`render`] does as Markdown, for a terminal: nothing is escaped there.
///
/// # Errors
/// Those of the writer.
pub fn render_for_terminal(table: &Table, output: &mut dyn Write) -> io::Result<()> {
    let plain = |text: &[u8]| markdown::unescaped(&String::from_utf8_lossy(text));
    let mut text = Vec::new();
    markdown::render(table, &mut text)?;
    output.write_all(plain(&text).as_bytes())?;
    rounds_side_by_side(table, output)?;
    if let Some(names) = &table.by_name {
        let mut text = Vec::new();
        markdown::render_names(names, &mut text)?;
        output.write_all(plain(&text).as_bytes())?;
    }
    Ok(())
}

fn rounds_side_by_side(table: &Table, output: &mut dyn Write) -> io::Result<()> {
    if table.has_profiles || table.has_targets {
        output.write_all(b"\n")?;
        summary::render(&table.groups, output)?;
    }
    Ok(())
}

/// Writes a table; as Markdown followed by each target's rounds if there are several profiles or
/// targets. The rows by name of requests, if requested, come last.
///
/// # Errors
/// Those of the writer.
pub fn render(table: &Table, format: Format, output: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Markdown => {
            markdown::render(table, output)?;
            rounds_side_by_side(table, output)?;
            match &table.by_name {
                Some(names) => markdown::render_names(names, output),
                None => Ok(()),
            }
        }
        Format::Csv => csv::render(table, output),
        Format::Json => json::render(table, output),
    }
}

/// Writes only each target's rounds side by side.
///
/// # Errors
/// Those of the writer.
pub fn render_summary(table: &Table, output: &mut dyn Write) -> io::Result<()> {
    summary::render(&table.groups, output)
}

/// Writes the origin of each run's name, and which lines of text were ignored.
///
/// # Errors
/// Those of the writer.
pub fn render_explanation(runs: &[Observation], output: &mut dyn Write) -> io::Result<()> {
    explanation::render(runs, output)
}

/// Writes the names of all metrics that can be columns, by topic, and what each kind of errors is.
///
/// # Errors
/// Those of the writer.
pub fn render_names(output: &mut dyn Write) -> io::Result<()> {
    for (topic, names) in names_by_topic() {
        writeln!(output, "{topic}:")?;
        for (name, meaning) in names {
            let line = format!("  {name:32}  {meaning}");
            writeln!(output, "{}", line.trim_end())?;
        }
        writeln!(output)?;
    }
    writeln!(
        output,
        "In place of p99: mean, stdev, min, max, or another percentile, like latency_p99.9_us.\n"
    )?;
    writeln!(output, "Kinds of errors, each with wrk's counter:")?;
    for kind in ErrorKind::ALL {
        let (name, counter, phrase) = (kind.name(), kind.legacy().name(), kind.describe());
        writeln!(output, "  {name:25} {counter:7}  {phrase}")?;
    }
    Ok(())
}

/// The names of a cell's levels, in the same order for every cell: the factors, then profile and
/// target where they differ.
pub(crate) fn keys(table: &Table) -> Vec<&str> {
    let factors = table.factors.iter().map(String::as_str);
    factors
        .chain(table.has_profiles.then_some("profile"))
        .chain(table.has_targets.then_some("target"))
        .collect()
}

/// The values of [`keys`]; empty if a cell has none.
pub(crate) fn key_values<'a>(table: &'a Table, cell: &'a Cell) -> Vec<&'a str> {
    key_values_of(table, &cell.settings, &cell.profile, &cell.target)
}

/// The values of [`keys`] for a run.
pub(crate) fn key_values_of<'a>(
    table: &Table,
    settings: &'a [Setting],
    profile: &'a Option<String>,
    target: &'a Option<String>,
) -> Vec<&'a str> {
    let level = |factor: &String| {
        let setting = settings.iter().find(|setting| setting.factor == *factor);
        setting.map_or("", |setting| setting.level.as_str())
    };
    let others = [(table.has_profiles, profile), (table.has_targets, target)];
    let others = others.into_iter().filter(|(is_shown, _)| *is_shown);
    let factors = table.factors.iter().map(level);
    factors
        .chain(others.map(|(_, value)| value.as_deref().unwrap_or_default()))
        .collect()
}

/// A text of a value, marked if it is a lower bound: `>= 501`.
pub(crate) fn marked(known: &Measured, text: String) -> String {
    if known.is_lower_bound {
        format!(">= {text}")
    } else {
        text
    }
}

/// The names of the columns whose values are lower bounds.
fn lower_bounds<'a>(table: &'a Table, values: &[Option<Measured>]) -> Vec<&'a str> {
    let columns = table.columns.iter().map(String::as_str).zip(values);
    let bounds = columns.filter(|(_, known)| known.is_some_and(|known| known.is_lower_bound));
    bounds.map(|(name, _)| name).collect()
}

/// A row of a table: a run, the average of a cell, or one of the numbers about its spread.
struct Row<'a> {
    /// The run, if it is one.
    of_run: Option<&'a Run>,
    /// Number of the run, `avg`, or what the row says about the spread.
    name: String,
    values: Vec<Option<Measured>>,
}

/// [`Row::name`] of an average.
const AVERAGE: &str = "avg";

/// The rows of a cell: its runs, the average, and the spread if it was requested.
fn rows_of<'a>(table: &Table, cell: &'a Cell) -> Vec<Row<'a>> {
    let row = |name: &str, values| Row {
        of_run: None,
        name: name.to_owned(),
        values,
    };
    let spread = |name, of: fn(&ColumnSpread) -> Option<f64>| {
        let value = |spread: &Option<ColumnSpread>| of(spread.as_ref()?).map(Measured::exact);
        row(name, cell.spreads.iter().map(value).collect())
    };
    let mut rows: Vec<Row<'_>> = cell
        .runs
        .iter()
        .map(|run| Row {
            of_run: Some(run),
            ..row(&run.number.to_string(), run.values.clone())
        })
        .collect();
    rows.push(row(AVERAGE, cell.averages.clone()));
    if table.has_spread {
        rows.extend([
            spread("min", |spread| Some(spread.min)),
            spread("median", |spread| Some(spread.median)),
            spread("max", |spread| Some(spread.max)),
            spread("stdev", |spread| spread.stdev),
            spread("cv %", |spread| spread.cv_percent),
        ]);
    }
    rows
}
