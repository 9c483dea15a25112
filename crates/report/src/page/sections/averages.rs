//! Tables of runs: averages of groups, their spread, and every run.

use std::collections::{BTreeMap, BTreeSet};

use analysis::Observation;
use analysis::compare::runs_of_levels;
use analysis::table::{self, Cell, ColumnSpread, Table, TableOptions};
use judging::ThinPercentiles;
use judging::sentences::verdict_word;
use presentation::tables::{
    self, asked, known, number_column, text, toned, toned_if, unknown, wide, words_column,
};
use presentation::words::capital;
use presentation::{Block, Column, Section, TableCell, Tone, words};
use results::cells;
use results::metric;
use results::{Measured, Verdict};

use super::verdict;
use crate::comparison;
use crate::page::quantities::{show, title};
use crate::page::runs::{Runs, file_of, is_of_files};
use crate::table::{key_values, keys};

/// Longer reasons of failures are cut: a row would become too high, and the verdict has the whole
/// reason.
const REASON_CHARS_MAX: usize = 48;

/// Metrics of the table of runs next to those that `wrkbench table` shows.
const MORE_OF_RUNS: [&str; 4] = [
    "latency_p99.9_us",
    "latency_max_us",
    metric::ERRORS,
    metric::STATUSES_OVER_399,
];

/// `None` for a single run.
pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let options = TableOptions {
        spread: true,
        ..TableOptions::default()
    };
    let is_several = runs.all.len() > 1;
    // It fails only if a column is requested that no run has.
    let table = table::table(runs.all, &options)
        .ok()
        .filter(|_| is_several)?;
    let changes = Changes::of(runs);
    let mut blocks = Vec::new();
    let has_repetitions = runs.groups.iter().any(|group| group.runs.len() > 1);
    if has_repetitions {
        blocks.push(averages(&table, &changes));
        blocks.push(spreads(runs));
    }
    if !verdict::is_table_shown(runs) {
        blocks.extend(table_of_runs(runs));
    }
    let lead = words::sentences([
        "Percentiles are of the latency. An average of percentiles is not a percentile: the \
         columns \"all samples\" show the percentiles of all samples of a group together, where \
         the samples were kept",
        &changes.sentence(),
        &thin_percentiles(&table, runs).unwrap_or_default(),
    ]);
    let lead = if has_repetitions { lead } else { String::new() };
    (!blocks.is_empty()).then(|| Section::new("averages", "Averages and all runs", lead, blocks))
}

/// All values of a run of which only a report is known.
pub(super) fn values(runs: &Runs<'_>) -> Option<Section> {
    let run = runs.single().filter(|run| run.result.is_none())?;
    let row = |(name, number): (&String, &f64)| {
        vec![
            text(name.clone()),
            tables::value(show(name, *number), *number),
        ]
    };
    let columns = [words_column("Name"), number_column("Value")];
    let blocks = vec![tables::table("Values", columns, run.values.iter().map(row))];
    let lead = "Everything the report says, under the names that tables and comparisons use.";
    (!run.values.is_empty()).then(|| Section::new("values", "All values", lead, blocks))
}

fn key_cells(table: &Table, cell: &Cell) -> Vec<TableCell> {
    key_values(table, cell).into_iter().map(text).collect()
}

/// The number of runs that did not fail, and of all runs if some failed.
fn run_count(cell: &Cell) -> TableCell {
    let good = cell.runs.iter().filter(|run| run.failure.is_none()).count();
    let all = cell.runs.len();
    let is_whole = good == all;
    let count = if is_whole {
        good.to_string()
    } else {
        format!("{good} of {all}")
    };
    toned_if(!is_whole, Tone::Warning, tables::value(count, good as f64))
}

/// Whether a column is visible in a table of many columns.
fn is_main(name: &str) -> bool {
    let usual = [metric::REQUESTS_PER_SEC, "latency_p50_us", "latency_p99_us"];
    usual.contains(&name) || metric::of_tokens().iter().any(|of| of == name)
}

/// The columns of a table with their indexes, the main ones first.
fn column_order(table: &Table) -> Vec<(usize, &str)> {
    let names = table.columns.iter().map(String::as_str).enumerate();
    let (main, rest): (Vec<_>, Vec<_>) = names.partition(|(_, name)| is_main(name));
    main.into_iter().chain(rest).collect()
}

fn column_of(name: &str, title: String) -> Column {
    let column = number_column(title);
    if is_main(name) { column } else { asked(column) }
}

fn averages(table: &Table, changes: &Changes) -> Block {
    type CellOf<'a> = Box<dyn Fn(&Cell) -> TableCell + 'a>;
    let of_metric = |(at, name): (usize, &str)| -> Vec<(Column, CellOf<'_>)> {
        let at_column = move |values: &[Option<Measured>], name: &str| {
            cells::measured(values.get(at).copied().flatten(), |value| show(name, value))
        };
        let (title, of_average, of_merged) = (short_title(name), name.to_owned(), name.to_owned());
        let merged_title = format!("{title}, all samples");
        let is_merged = metric::percentile_of(name).is_some()
            && (table.cells.iter()).any(|cell| cell.merged.get(at).is_some_and(Option::is_some));
        let average: CellOf<'_> = Box::new(move |cell| at_column(&cell.averages, &of_average));
        let merged: CellOf<'_> = Box::new(move |cell| at_column(&cell.merged, &of_merged));
        let merged = is_merged.then(|| (asked(number_column(merged_title)), merged));
        std::iter::once((column_of(name, title), average))
            .chain(merged)
            .collect()
    };
    let (main, rest): (Vec<_>, Vec<_>) = column_order(table)
        .into_iter()
        .partition(|(_, name)| is_main(name));
    let change: CellOf<'_> = Box::new(|cell| changes.cell(cell));
    let runs: CellOf<'_> = Box::new(run_count);
    let columns: Vec<(Column, CellOf<'_>)> = std::iter::once((number_column("runs"), runs))
        .chain(main.into_iter().flat_map(of_metric))
        .chain(
            changes
                .of
                .as_ref()
                .map(|_| (number_column("change"), change)),
        )
        .chain(rest.into_iter().flat_map(of_metric))
        .collect();
    let rows = table.cells.iter().map(|cell| {
        let cells = columns.iter().map(|(_, cell_of)| cell_of(cell));
        key_cells(table, cell).into_iter().chain(cells).collect()
    });
    let rows: Vec<Vec<TableCell>> = rows.collect();
    let keys = keys(table).into_iter().map(words_column);
    let heads: Vec<Column> = keys
        .chain(columns.into_iter().map(|(head, _)| head))
        .collect();
    tables::table("Averages", heads, rows)
}

/// The change of the first metric against the first level, for cells that are a level by
/// themselves.
struct Changes {
    /// The metric and the first level.
    of: Option<(String, String)>,
    /// The runs of a cell, and its change.
    of_cells: Vec<(RunNames, TableCell)>,
}

/// Sources and numbers of runs.
type RunNames = BTreeSet<(String, u32)>;

impl Changes {
    fn of(runs: &Runs<'_>) -> Self {
        let conclusions = runs.subject.conclusions;
        let comparisons = conclusions.iter().flat_map(|known| &known.comparisons);
        let metric = conclusions
            .and_then(|known| known.comparisons.first())
            .map(|first| &first.metric);
        let mut changes = Self {
            of: None,
            of_cells: Vec::new(),
        };
        for comparison in comparisons.filter(|one| Some(&one.metric) == metric) {
            let of_levels = runs_of_levels(runs.all, comparison);
            let (Some(first), 1..) = (comparison.levels.first(), of_levels.len()) else {
                continue;
            };
            changes
                .of
                .get_or_insert_with(|| (comparison.metric.label.clone(), first.name.clone()));
            for (level, of_level) in comparison.levels.iter().zip(of_levels) {
                let Some(ratio) = level.difference.and_then(|difference| difference.ratio) else {
                    continue;
                };
                let names = of_level
                    .values
                    .iter()
                    .filter_map(|(index, _)| runs.all.get(*index))
                    .map(|run| (run.source.clone(), run.run));
                let change = comparison::levels::change_cell(ratio);
                changes.of_cells.push((names.collect(), change));
            }
        }
        if changes.of_cells.is_empty() {
            changes.of = None;
        }
        changes
    }

    /// The change of a cell; unknown for the first level, and for a cell that is not a level by
    /// itself.
    fn cell(&self, cell: &Cell) -> TableCell {
        let counted = cell.runs.iter().filter(|run| run.failure.is_none());
        let names: RunNames = counted
            .map(|run| (run.source.clone(), run.number))
            .collect();
        let mut of_cells = self.of_cells.iter();
        let found = of_cells.find(|(of_level, _)| *of_level == names);
        found.map_or_else(unknown, |(_, change)| change.clone())
    }

    fn sentence(&self) -> String {
        match &self.of {
            Some((metric, first)) => format!("The change is that of {metric} against {first}"),
            None => String::new(),
        }
    }
}

/// Percentiles with too few samples even with all runs of a group together.
fn thin_percentiles(table: &Table, runs: &Runs<'_>) -> Option<String> {
    let of_latency = |name: &String| match metric::percentile_of(name) {
        Some(("latency", percent)) => Some(percent),
        _ => None,
    };
    let percents: Vec<f64> = table.columns.iter().filter_map(of_latency).collect();
    let samples = runs
        .recordings()
        .map(|(_, recording)| recording.latency().count());
    let fewest = samples.filter(|count| *count > 0).min()?;
    let thin = ThinPercentiles::among(&percents, fewest)?;
    Some(capital(&thin.to_string()))
}

/// `p50` in place of `p50 latency`.
fn short_title(name: &str) -> String {
    let title = title(name);
    match title.strip_suffix(" latency") {
        Some(short) if metric::percentile_of(name).is_some() => short.to_owned(),
        _ => title,
    }
}

/// A row for each group and metric.
fn spreads(runs: &Runs<'_>) -> Block {
    let options = TableOptions {
        columns: Some(
            runs.metrics
                .iter()
                .map(|metric| metric.name.clone())
                .collect(),
        ),
        spread: true,
        ..TableOptions::default()
    };
    let mut columns = Vec::new();
    let mut rows = Vec::new();
    if let Ok(table) = table::table(runs.all, &options) {
        columns.extend(keys(&table).into_iter().map(words_column));
        for (at, name) in table.columns.iter().enumerate() {
            for cell in &table.cells {
                if let Some(spread) = cell.spreads.get(at).copied().flatten() {
                    let mut row = key_cells(&table, cell);
                    row.push(text(title(name)));
                    row.extend(spread_cells(name, &spread));
                    rows.push(row);
                }
            }
        }
    }
    columns.extend([
        words_column("metric"),
        wide(number_column("least")),
        number_column("median"),
        wide(number_column("greatest")),
        asked(number_column("standard deviation")),
        number_column("in % of the mean"),
    ]);
    tables::table("Spread between the runs of a group", columns, rows)
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

/// A row for each run, those of an experiment in the order in which they were made.
pub(super) fn table_of_runs(runs: &Runs<'_>) -> Option<Block> {
    let table = table::table(runs.all, &TableOptions::default()).ok()?;
    let columns = ColumnsOfRuns::of(runs, &table);
    let observations: BTreeMap<(&str, u32), &Observation> = runs
        .all
        .iter()
        .map(|run| ((run.source.as_str(), run.run), run))
        .collect();
    let mut rows: Vec<(Option<u32>, Vec<TableCell>)> = Vec::new();
    for cell in &table.cells {
        for of_cell in &cell.runs {
            let run = *observations.get(&(of_cell.source.as_str(), of_cell.number))?;
            rows.push((run.position, columns.row(cell, run)));
        }
    }
    if columns.has_order {
        rows.sort_by_key(|(position, _)| (position.is_none(), *position));
    }
    let caption = "All runs (marked: fewer than ten samples above)";
    let rows = rows.into_iter().map(|(_, row)| row);
    Some(tables::table(caption, columns.heads(), rows))
}

/// What the table of runs shows of each run. Columns that would be empty are left out.
struct ColumnsOfRuns<'a> {
    runs: &'a Runs<'a>,
    table: &'a Table,
    metrics: Vec<&'a str>,
    /// Whether the levels of a run say which one it is, rather than its name.
    by_level: bool,
    has_order: bool,
    has_verdicts: bool,
    has_failures: bool,
}

impl<'a> ColumnsOfRuns<'a> {
    fn of(runs: &'a Runs<'a>, table: &'a Table) -> Self {
        let by_level = runs.factors.iter().any(|factor| !is_of_files(&factor.name));
        let is_judged = |run: &Observation| {
            let result = run.result.as_deref();
            result.is_some_and(|result| result.generator.verdict != Verdict::Unknown)
        };
        Self {
            runs,
            table,
            metrics: metrics_of_runs(runs, table),
            by_level,
            has_order: by_level && runs.all.iter().any(|run| run.position.is_some()),
            has_verdicts: runs.all.iter().any(is_judged),
            has_failures: runs.failed().next().is_some(),
        }
    }

    fn heads(&self) -> Vec<Column> {
        let mut heads: Vec<Column> = if self.by_level {
            keys(self.table).into_iter().map(words_column).collect()
        } else {
            vec![words_column("run")]
        };
        if self.by_level {
            heads.push(number_column("run"));
        }
        if self.has_order {
            heads.push(asked(number_column("position")));
        }
        if self.has_verdicts {
            heads.push(wide(words_column("load generator")));
        }
        heads.extend(self.metrics.iter().map(|name| self.head_of_metric(name)));
        if self.has_failures {
            heads.push(words_column("failed"));
        }
        heads.push(asked(words_column("file")));
        heads
    }

    fn head_of_metric(&self, name: &str) -> Column {
        let is_wide = MORE_OF_RUNS.contains(&name) || name == metric::BYTES_PER_SEC;
        if is_wide && !self.by_level {
            wide(number_column(short_title(name)))
        } else {
            column_of(name, short_title(name))
        }
    }

    /// The cells below [`Self::heads`].
    fn row(&self, cell: &Cell, run: &Observation) -> Vec<TableCell> {
        let mut row = if self.by_level {
            key_cells(self.table, cell)
        } else {
            vec![text(self.runs.name(run))]
        };
        let number = |number: u32| tables::count(u64::from(number));
        if self.by_level {
            row.push(number(run.run));
        }
        if self.has_order {
            row.push(run.position.map_or_else(unknown, number));
        }
        row.extend(self.has_verdicts.then(|| load_generator(run)));
        row.extend(self.metrics.iter().map(|name| cell_of_run(run, name)));
        if self.has_failures {
            let reason = run.failure.as_deref().unwrap_or_default();
            let cell = text(words::cut(reason, REASON_CHARS_MAX));
            row.push(toned_if(!reason.is_empty(), Tone::Bad, cell));
        }
        row.push(text(file_of(&run.source)));
        row
    }
}

/// The columns of the table, and of [`MORE_OF_RUNS`] those that say something.
fn metrics_of_runs<'a>(runs: &Runs<'_>, table: &'a Table) -> Vec<&'a str> {
    let is_known = |name: &str| {
        let mut values = runs.counted().filter_map(|run| run.run.value(name));
        values.any(|value| name != metric::STATUSES_OVER_399 || value > 0.0)
    };
    let more = MORE_OF_RUNS.into_iter().filter(|name| is_known(name));
    let more = more.filter(|name| !table.columns.iter().any(|known| known == name));
    let names = column_order(table).into_iter().map(|(_, name)| name);
    names.chain(more).collect()
}

fn load_generator(run: &Observation) -> TableCell {
    let result = run.result.as_deref().filter(|_| run.failure.is_none());
    match result.map(|result| &result.generator.verdict) {
        Some(Verdict::Unknown) | None => unknown(),
        Some(verdict) => toned(text(verdict_word(verdict)), super::tone_of(verdict)),
    }
}

fn cell_of_run(run: &Observation, name: &str) -> TableCell {
    let known = run.measured(name).filter(|_| run.failure.is_none());
    let cell = cells::measured(known, |value| show(name, value));
    let is_trouble = [metric::ERRORS, metric::STATUSES_OVER_399].contains(&name);
    match known {
        Some(known) if is_trouble && known.value > 0.0 => toned(cell, Tone::Bad),
        Some(known) if !known.enough_samples => toned(cell, Tone::Warning),
        _ => cell,
    }
}
