//! The rows that `wrkbench table` shows: averages, spread, and every run.

use std::collections::BTreeSet;

use analysis::Observation;
use analysis::compare::{Metric, runs_of_levels};
use analysis::quantity;
use analysis::table::{self, Cell, ColumnSpread, Table, Wish};

use judging::ThinPercentiles;

use super::design::{Design, file_of};
use super::quantities::{show, title};
use super::verdict::capital;
use crate::comparison;
use crate::page::tables::{
    self, asked, known, number_column, text, toned, unknown, wide, words_column,
};
use crate::page::{Block, Column, Section, Subject, TableBlock, TableCell, Tone, words};
use crate::table::{key_values, keys};

/// Characters of a reason: the whole of it stands in the verdict, and would make a row of numbers as high as itself.
const REASON_CHARS_MAX: usize = 48;

/// Nothing if there is no table of these runs.
pub(super) fn section(
    subject: &Subject<'_>,
    design: &Design<'_>,
    metrics: &[Metric],
) -> Option<Section> {
    let wish = Wish {
        spread: true,
        ..Wish::default()
    };
    // It fails only where a column is asked for that no run has.
    let table = table::table(design.runs, &wish).ok()?;
    let thin = thin_percentiles(&table, design).unwrap_or_default();
    let changes = Changes::of(subject, design);
    Some(Section {
        id: "averages".to_owned(),
        title: "Averages and all runs".to_owned(),
        lead: words::sentences([
            "Percentiles are those of the latency. Their average over the runs is no percentile: beside it stands the \
             percentile of all samples of all runs together, where they were kept",
            &changes.sentence(),
            &thin,
        ]),
        blocks: vec![
            Block::Table(averages(&table, &changes)),
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

/// What is seen of a table of many columns unless somebody asks for all.
fn is_first_of_all(name: &str) -> bool {
    name == quantity::REQUESTS_PER_SEC
        || matches!(quantity::percentile_of(name), Some(("latency", percent)) if percent == 50.0 || percent == 99.0)
}

/// The columns of a table in the order of the page: those that are seen at once first.
fn column_order(table: &Table) -> Vec<(usize, &str)> {
    let names = table.columns.iter().map(String::as_str).enumerate();
    let (first, rest): (Vec<_>, Vec<_>) = names.partition(|(_, name)| is_first_of_all(name));
    first.into_iter().chain(rest).collect()
}

/// A column of numbers, seen at once if it is one of the first.
fn column_of(name: &str, title: String) -> Column {
    let column = number_column(title);
    if is_first_of_all(name) {
        column
    } else {
        asked(column)
    }
}

fn averages(table: &Table, changes: &Changes) -> TableBlock {
    let is_merged = |at: usize| {
        let of_percentile = table.columns.get(at).map(String::as_str);
        of_percentile.is_some_and(|name| quantity::percentile_of(name).is_some())
            && table
                .cells
                .iter()
                .any(|cell| cell.merged.get(at).is_some_and(Option::is_some))
    };
    let order = column_order(table);
    let first = order
        .iter()
        .filter(|(_, name)| is_first_of_all(name))
        .count();
    let mut columns = key_columns(table);
    columns.push(number_column("runs"));
    for (nth, (at, name)) in order.iter().enumerate() {
        if nth == first {
            columns.extend(changes.column());
        }
        columns.push(column_of(name, short_title(name)));
        if is_merged(*at) {
            columns.push(asked(number_column(format!(
                "{}, all samples",
                short_title(name)
            ))));
        }
    }
    if order.len() == first {
        columns.extend(changes.column());
    }
    let row = |cell: &Cell| {
        let mut row = key_cells(table, cell);
        row.push(run_count(cell));
        for (nth, (at, name)) in order.iter().enumerate() {
            if nth == first {
                row.extend(changes.cell(cell));
            }
            row.push(at_column(&cell.averages, *at, name));
            if is_merged(*at) {
                row.push(at_column(&cell.merged, *at, name));
            }
        }
        if order.len() == first {
            row.extend(changes.cell(cell));
        }
        row
    };
    TableBlock {
        caption: "Averages".to_owned(),
        columns,
        rows: table.cells.iter().map(row).collect(),
    }
}

/// How far the first metric of cells is from that of the first level, where a cell is a level.
struct Changes {
    /// The metric and the first level.
    of: Option<(String, String)>,
    /// What the runs of a cell are, and the change of the cell.
    of_cells: Vec<(RunNames, String, f64)>,
}

/// Sources and numbers of runs.
type RunNames = BTreeSet<(String, u32)>;

impl Changes {
    fn of(subject: &Subject<'_>, design: &Design<'_>) -> Self {
        let comparisons = subject
            .conclusions
            .iter()
            .flat_map(|known| &known.comparisons);
        let metric = subject
            .conclusions
            .and_then(|known| known.comparisons.first())
            .map(|first| &first.metric);
        let mut changes = Self {
            of: None,
            of_cells: Vec::new(),
        };
        for comparison in comparisons.filter(|one| Some(&one.metric) == metric) {
            let runs = runs_of_levels(design.runs, comparison);
            let (Some(first), 1..) = (comparison.levels.first(), runs.len()) else {
                continue;
            };
            changes
                .of
                .get_or_insert_with(|| (comparison.metric.label.clone(), first.name.clone()));
            for (level, runs) in comparison.levels.iter().zip(runs) {
                let Some(ratio) = level.difference.and_then(|difference| difference.ratio) else {
                    continue;
                };
                let names = runs
                    .values
                    .iter()
                    .filter_map(|(index, _)| design.runs.get(*index))
                    .map(|run| (run.source.clone(), run.run));
                let text = format!("{} %", comparison::signed(ratio));
                changes
                    .of_cells
                    .push((names.collect(), text, (ratio - 1.0) * 100.0));
            }
        }
        if changes.of_cells.is_empty() {
            changes.of = None;
        }
        changes
    }

    fn column(&self) -> Option<Column> {
        self.of.as_ref().map(|_| number_column("change"))
    }

    /// Unknown of a cell that is no level by itself, and of the first.
    fn cell(&self, cell: &Cell) -> Option<TableCell> {
        self.of.as_ref()?;
        let counted = cell.runs.iter().filter(|run| run.failure.is_none());
        let names: RunNames = counted
            .map(|run| (run.source.clone(), run.number))
            .collect();
        let found = self
            .of_cells
            .iter()
            .find(|(of_level, ..)| *of_level == names);
        Some(found.map_or_else(unknown, |(_, text, value)| {
            tables::value(text.clone(), *value)
        }))
    }

    fn sentence(&self) -> String {
        match &self.of {
            Some((metric, first)) => format!("The change is that of {metric} against {first}"),
            None => String::new(),
        }
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
    let has_saturated = design.runs.iter().any(Observation::is_saturated);
    let has_failures = design.runs.iter().any(|run| run.failure.is_some());
    let mut columns = key_columns(table);
    columns.push(number_column("run"));
    if has_order {
        columns.push(asked(number_column("place")));
    }
    let order = column_order(table);
    columns.extend(
        order
            .iter()
            .map(|(_, name)| column_of(name, short_title(name))),
    );
    if has_failures {
        columns.push(words_column("failed"));
    }
    if has_saturated {
        columns.push(wide(words_column("generator")));
    }
    columns.push(asked(words_column("file")));
    let saturated: BTreeSet<(&str, u32)> = design
        .runs
        .iter()
        .filter(|run| run.is_saturated())
        .map(|run| (run.source.as_str(), run.run))
        .collect();
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
            for (at, name) in &order {
                row.push(at_column(&run.values, *at, name));
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
            if has_saturated {
                let names = (run.source.as_str(), run.number);
                let is_saturated = saturated.contains(&names);
                row.push(match is_saturated {
                    true => toned(text("saturated"), Tone::Bad),
                    false => text(""),
                });
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
