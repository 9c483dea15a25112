//! A row for each name of requests, or for each address, below the text of the whole.

use std::io::{self, Write};

use plan::readable::count;
use plan::units;
use results::{NameRecording, RunResult};

/// The columns after the name.
const COLUMNS: [&str; 8] = [
    "Requests", "Req/Sec", "p50", "p90", "p99", "Max", "Errors", "Non-2xx",
];

/// Writes a row for each name after an empty line, in the order of the file; nothing if requests
/// have no names.
pub(crate) fn write(result: &RunResult, output: &mut dyn Write) -> io::Result<()> {
    write_rows("Name", &result.recording.by_name, result, output)
}

/// Writes a row for each address after an empty line; nothing if requests are not counted by it.
pub(crate) fn write_addresses(result: &RunResult, output: &mut dyn Write) -> io::Result<()> {
    write_rows("Address", &result.recording.by_address, result, output)
}

fn write_rows(
    title_of_names: &str,
    names: &[NameRecording],
    result: &RunResult,
    output: &mut dyn Write,
) -> io::Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = names.iter().map(|named| cells(named, result)).collect();
    let width = |column: usize, title: &str| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([title.len()]).max().unwrap_or_default()
    };
    let name_width = width(0, title_of_names);
    writeln!(output)?;
    write!(output, "  {title_of_names:<name_width$}")?;
    for (at, title) in COLUMNS.iter().enumerate() {
        write!(output, "  {title:>width$}", width = width(at + 1, title))?;
    }
    writeln!(output)?;
    for row in &rows {
        write!(output, "  {:<name_width$}", row[0])?;
        for (at, title) in COLUMNS.iter().enumerate() {
            let width = width(at + 1, title);
            write!(output, "  {:>width$}", row[at + 1])?;
        }
        writeln!(output)?;
    }
    Ok(())
}

fn cells(named: &NameRecording, result: &RunResult) -> [String; 9] {
    let latency = named.latency_with_bounds();
    let time = |ns: Option<u64>| match ns {
        Some(ns) => units::time_us(ns as f64 / 1e3),
        None => "-".to_owned(),
    };
    let percentile = |percent| {
        let known = (!latency.is_empty()).then(|| latency.value_at_percentile(percent));
        time(known)
    };
    [
        named.name.replace(char::is_control, " "),
        count(named.responses()),
        format!("{:.2}", result.per_sec(named.responses())),
        percentile(50.0),
        percentile(90.0),
        percentile(99.0),
        time(latency.max_ns()),
        count(named.errors.failures()),
        count(named.statuses.over_399()),
    ]
}
