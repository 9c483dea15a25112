//! The rows that `wrkbench table` shows: averages, spread, and every run.

use analysis::compare::Metric;
use analysis::quantity;
use analysis::table::{self, Cell, ColumnSpread, Table, Wish};

use results::ThinPercentiles;

use super::design::{Design, file_of};
use super::quantities::{show, title};
use super::verdict::capital;
use crate::page::tables::{asked, known, number_column, text, toned, unknown, wide, words_column};
use crate::page::{Block, Column, Section, TableBlock, TableCell, Tone, words};
use crate::table::{key_values, keys};

/// Characters of a reason: the whole of it stands in the verdict, and would make a row of numbers as high as itself.
const REASON_CHARS_MAX: usize = 48;

/// Nothing if there is no table of these runs.
pub(super) fn section(design: &Design<'_>, metrics: &[Metric]) -> Option<Section> {
    let wish = Wish {
        spread: true,
        ..Wish::default()
    };
    // It fails only where a column is asked for that no run has.
    let table = table::table(design.runs, &wish).ok()?;
    let thin = thin_percentiles(&table, design).unwrap_or_default();
    Some(Section {
        id: "averages".to_owned(),
        title: "Averages and all runs".to_owned(),
        lead: words::sentences([
            "Percentiles are those of the latency. Their average over the runs is no percentile: beside it stands the \
             percentile of all samples of all runs together, where they were kept",
            &thin,
        ]),
        blocks: vec![
            Block::Table(averages(&table)),
            Block::Table(spreads(design, metrics)),
            Block::Table(runs(&table, design)),
        ],
        is_folded: false,
    })
}

fn key_columns(table: &Table) -> Vec<Column> {
    keys(table).into_iter().map(words_column).collect()
}

fn key_cells(table: &Table, cell: &Cell) -> Vec<TableCell> {
    key_values(table, cell).into_iter().map(text).collect()
}

/// Runs that count, of all if some failed.
fn run_count(cell: &Cell) -> TableCell {
    let good = cell.runs.iter().filter(|run| run.failure.is_none()).count();
    let all = cell.runs.len();
    if good == all {
        return known(Some(good as f64), |_| good.to_string());
    }
    let partly = known(Some(good as f64), |_| format!("{good} of {all}"));
    toned(partly, Tone::Warning)
}

fn averages(table: &Table) -> TableBlock {
    let is_merged = |at: usize| {
        table
            .cells
            .iter()
            .any(|cell| cell.merged.get(at).is_some_and(Option::is_some))
    };
    let mut columns = key_columns(table);
    columns.push(number_column("runs"));
    for (at, name) in table.columns.iter().enumerate() {
        if quantity::percentile_of(name).is_some() {
            columns.push(number_column(format!("{}, average", short_title(name))));
            if is_merged(at) {
                columns.push(number_column(format!("{}, all samples", short_title(name))));
            }
        } else {
            columns.push(number_column(short_title(name)));
        }
    }
    let row = |cell: &Cell| {
        let mut row = key_cells(table, cell);
        row.push(run_count(cell));
        for (at, name) in table.columns.iter().enumerate() {
            row.push(at_column(&cell.averages, at, name));
            if quantity::percentile_of(name).is_some() && is_merged(at) {
                row.push(at_column(&cell.merged, at, name));
            }
        }
        row
    };
    TableBlock {
        caption: "Averages".to_owned(),
        columns,
        rows: table.cells.iter().map(row).collect(),
    }
}

fn at_column(values: &[Option<f64>], at: usize, name: &str) -> TableCell {
    known(values.get(at).copied().flatten(), |value| show(name, value))
}

/// The percentiles that rest on too few samples even where the samples of all runs are together.
fn thin_percentiles(table: &Table, design: &Design<'_>) -> Option<String> {
    let of_latency = |name: &String| match quantity::percentile_of(name) {
        Some(("latency", percent)) => Some(percent),
        _ => None,
    };
    let percents: Vec<f64> = table.columns.iter().filter_map(of_latency).collect();
    let samples = design
        .cells
        .iter()
        .filter_map(|cell| table::pool(&cell.runs, "latency"))
        .map(|samples| samples.count())
        .filter(|count| *count > 0)
        .min()?;
    let thin = ThinPercentiles::among(&percents, samples)?;
    Some(capital(&thin.to_string()))
}

/// `p50` of the latency, which the section is about.
fn short_title(name: &str) -> String {
    let title = title(name);
    match title.strip_suffix(" latency") {
        Some(short) if quantity::percentile_of(name).is_some() => short.to_owned(),
        _ => title,
    }
}

/// A row for each combination and each thing that is compared.
fn spreads(design: &Design<'_>, metrics: &[Metric]) -> TableBlock {
    let wish = Wish {
        columns: Some(metrics.iter().map(|metric| metric.name.clone()).collect()),
        spread: true,
        ..Wish::default()
    };
    let table = table::table(design.runs, &wish).ok();
    let mut columns = table.as_ref().map(key_columns).unwrap_or_default();
    columns.extend([
        words_column("of"),
        wide(number_column("least")),
        number_column("median"),
        wide(number_column("greatest")),
        asked(number_column("standard deviation")),
        number_column("in % of the mean"),
    ]);
    let mut rows = Vec::new();
    if let Some(table) = &table {
        for (at, name) in table.columns.iter().enumerate() {
            for cell in &table.cells {
                let Some(spread) = cell.spreads.get(at).copied().flatten() else {
                    continue;
                };
                let mut row = key_cells(table, cell);
                row.push(text(title(name)));
                row.extend(spread_cells(name, &spread));
                rows.push(row);
            }
        }
    }
    TableBlock {
        caption: "Spread between runs of the same combination".to_owned(),
        columns,
        rows,
    }
}

fn spread_cells(name: &str, spread: &ColumnSpread) -> Vec<TableCell> {
    let value = |value: Option<f64>| known(value, |value| show(name, value));
    vec![
        value(Some(spread.min)),
        value(Some(spread.median)),
        value(Some(spread.max)),
        value(spread.stdev),
        known(spread.cv_percent, words::number),
    ]
}

fn runs(table: &Table, design: &Design<'_>) -> TableBlock {
    let has_order = design.runs.iter().any(|run| run.position.is_some());
    let has_failures = design.runs.iter().any(|run| run.failure.is_some());
    let mut columns = key_columns(table);
    columns.push(number_column("run"));
    if has_order {
        columns.push(number_column("place"));
    }
    columns.extend(
        table
            .columns
            .iter()
            .map(|name| number_column(short_title(name))),
    );
    if has_failures {
        columns.push(words_column("failed"));
    }
    columns.push(words_column("file"));
    let mut rows: Vec<(Option<u32>, Vec<TableCell>)> = Vec::new();
    for cell in &table.cells {
        for run in &cell.runs {
            let mut row = key_cells(table, cell);
            row.push(known(Some(f64::from(run.number)), words::number));
            if has_order {
                row.push(match run.position {
                    Some(position) => known(Some(f64::from(position)), words::number),
                    None => unknown(),
                });
            }
            for (at, name) in table.columns.iter().enumerate() {
                row.push(at_column(&run.values, at, name));
            }
            if has_failures {
                let reason = run.failure.as_deref().unwrap_or_default();
                let cell = text(words::cut(reason, REASON_CHARS_MAX));
                row.push(toned(
                    cell,
                    if reason.is_empty() {
                        Tone::Neutral
                    } else {
                        Tone::Bad
                    },
                ));
            }
            row.push(text(file_of(&run.source)));
            rows.push((run.position, row));
        }
    }
    if has_order {
        rows.sort_by_key(|(position, _)| (position.is_none(), *position));
    }
    TableBlock {
        caption: "All runs".to_owned(),
        columns,
        rows: rows.into_iter().map(|(_, row)| row).collect(),
    }
}
