//! The table as one JSON document; unknown values are null.

use std::collections::BTreeMap;
use std::io::{self, Write};

use analysis::table::{Cell, ColumnSpread, Table};
use plan::printable_json;
use results::{Measured, metric};
use serde::Serialize;

use super::lower_bounds;

/// Version of the document; increased when a field changes its meaning or is removed.
const SCHEMA_VERSION: u32 = 1;

#[derive(Serialize)]
struct TableDocument<'a> {
    schema_version: u32,
    #[serde(flatten)]
    cells: CellsDocument<'a>,
    /// The requests by name, each a setting of its cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    by_name: Option<CellsDocument<'a>>,
}

#[derive(Serialize)]
struct CellsDocument<'a> {
    columns: &'a [String],
    cells: Vec<CellDocument<'a>>,
}

#[derive(Serialize)]
struct CellDocument<'a> {
    settings: BTreeMap<&'a str, &'a str>,
    profile: Option<&'a str>,
    target: Option<&'a str>,
    runs: Vec<RunDocument<'a>>,
    averages: Named<'a, f64>,
    /// Percentiles of the samples of all runs together.
    all_samples: Named<'a, f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spread: Option<Named<'a, ColumnSpread>>,
}

#[derive(Serialize)]
struct RunDocument<'a> {
    run: u32,
    position: Option<u32>,
    source: &'a str,
    failure: Option<&'a str>,
    values: Named<'a, f64>,
    /// Names of the values that are lower bounds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lower_bounds: Vec<&'a str>,
}

type Named<'a, T> = BTreeMap<&'a str, Option<T>>;

/// Writes cells and runs as one document.
pub(super) fn render(table: &Table, output: &mut dyn Write) -> io::Result<()> {
    let document = TableDocument {
        schema_version: SCHEMA_VERSION,
        cells: cells_of(table),
        by_name: table.by_name.as_deref().map(cells_of),
    };
    let text = serde_json::to_string_pretty(&document)?;
    output.write_all(printable_json(&text).as_bytes())?;
    output.write_all(b"\n")
}

fn cells_of(table: &Table) -> CellsDocument<'_> {
    let cells = table.cells.iter();
    CellsDocument {
        columns: &table.columns,
        cells: cells.map(|cell| of_cell(table, cell)).collect(),
    }
}

fn of_cell<'a>(table: &'a Table, cell: &'a Cell) -> CellDocument<'a> {
    let settings = cell.settings.iter();
    let runs = cell.runs.iter().map(|run| RunDocument {
        run: run.number,
        position: run.position,
        source: &run.source,
        failure: run.failure.as_deref(),
        values: named(table, &numbers(&run.values)),
        lower_bounds: lower_bounds(table, &run.values),
    });
    let mut all_samples = named(table, &numbers(&cell.merged));
    all_samples.retain(|name, _| metric::percentile_of(name).is_some());
    CellDocument {
        settings: settings
            .map(|setting| (setting.factor.as_str(), setting.level.as_str()))
            .collect(),
        profile: cell.profile.as_deref(),
        target: cell.target.as_deref(),
        runs: runs.collect(),
        averages: named(table, &numbers(&cell.averages)),
        all_samples,
        spread: table.has_spread.then(|| named(table, &cell.spreads)),
    }
}

fn numbers(values: &[Option<Measured>]) -> Vec<Option<f64>> {
    let numbers = values.iter().map(|known| known.map(|known| known.value));
    numbers.collect()
}

fn named<'a, T: Copy>(table: &'a Table, values: &[Option<T>]) -> Named<'a, T> {
    let names = table.columns.iter().map(String::as_str);
    names.zip(values.iter().copied()).collect()
}
