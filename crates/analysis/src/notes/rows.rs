//! Rows of tables as runs: published tables, and the ones that `table` writes.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex_lite::Regex;

use crate::observation::Form;
use results::{Metric, Setting, metric};

use crate::Observation;

use super::lines::regex;

/// A table with more columns is something else.
const COLUMNS_MAX: usize = 500;

/// The columns of a table of runs.
#[derive(Debug)]
pub(super) struct Columns {
    kinds: Vec<ColumnKind>,
    titles: Vec<String>,
    pub(super) separator: char,
    /// Whether a space follows each comma of the titles.
    is_spaced: bool,
}

/// The last columns of the CSV that `table` writes.
const OWN_LAST: [&str; 3] = ["failure", "source", "lower_bounds"];

/// The number of a run in its column: `2`, `#2`, `run 2`, `2/3`, `2 of 3`.
static NUMBER_OF_RUN: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?i)^(?:run|round)?\s*#?(\d+)(?:(?:/|\s+of\s+)\d+)?$"));

/// The name of a counter of the kernel.
static COUNTER: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(?:(?:softnet|stat|pressure)\.[a-z_.]+|[A-Z]\w+\.[A-Z]\w+)$"));

/// What a column of a table in notes contains.
#[derive(Debug, Clone, PartialEq)]
enum ColumnKind {
    /// Values of the metric of this name, times this factor. Without one they are times with their
    /// units in the cells.
    Measured(String, Option<f64>),
    Setting,
    Profile,
    Target,
    Run,
    Failure,
    /// The names of the values that are lower bounds.
    LowerBounds,
    Ignored,
}

/// What a row of a table in notes is.
#[derive(Debug)]
pub(super) enum NotesRow {
    Run(Box<Observation>),
    /// An average of other rows.
    Average(Box<Average>),
    /// A measure of spread of other rows.
    Spread,
    /// The cell of this column is not understood.
    NotUnderstood(String),
}

impl NotesRow {
    /// Whether it is a run with figures.
    pub(super) fn is_measured(&self) -> bool {
        matches!(self, Self::Run(run) if !run.values.is_empty())
    }
}

/// A row as a table prints it, which may be an average of others.
#[derive(Debug, Default)]
pub(super) struct Average {
    /// The values, with the names of the runs that they are made from.
    pub(super) run: Observation,
    /// Value of a step of the last printed digit, by metric.
    steps: BTreeMap<String, f64>,
}

impl Columns {
    /// Reads the titles; `None` if the table does not contain runs.
    pub(super) fn of(titles: &[String], separator: char) -> Option<Self> {
        if titles.len() < 2 || titles.len() > COLUMNS_MAX {
            return None;
        }
        let is_spaced = titles.iter().skip(1).all(|title| title.starts_with(' '));
        let titles: Vec<String> = titles.iter().map(|title| unescaped(title)).collect();
        let plain: Vec<String> = titles.iter().map(|title| title.to_lowercase()).collect();
        // In our own tables, the columns before `run` name the run.
        let run_at = plain.iter().position(|title| title == "run");
        // Tables that people write may have such columns, with another meaning.
        let is_own = run_at.is_some() && plain.ends_with(&OWN_LAST.map(str::to_owned));
        let has_before = |at: usize| plain[..at].iter().any(|title| is_target(title));
        let kind = |(at, title): (usize, &String)| match title.as_str() {
            "run" | "round" => ColumnKind::Run,
            "failure" => ColumnKind::Failure,
            "profile" => ColumnKind::Profile,
            title if is_target(title) && !has_before(at) => ColumnKind::Target,
            // The names of the rows often have no title.
            "" if at == 0 => ColumnKind::Target,
            "source" if is_own => ColumnKind::Ignored,
            "lower_bounds" if is_own => ColumnKind::LowerBounds,
            _ if run_at.is_some_and(|run| at < run) => ColumnKind::Setting,
            _ if COUNTER.is_match(&titles[at]) => {
                ColumnKind::Measured(titles[at].clone(), Some(1.0))
            }
            title => kind_of_title(title),
        };
        let kinds: Vec<ColumnKind> = plain.iter().enumerate().map(kind).collect();
        let is_measured =
            |kind: &ColumnKind| matches!(kind, ColumnKind::Measured(name, _) if is_measured(name));
        (kinds.iter().any(is_measured)).then_some(Self {
            kinds,
            is_spaced,
            titles,
            separator,
        })
    }

    /// The cells of a line below the titles; none if it has none, or is a comment.
    pub(super) fn cells(&self, line: &str) -> Vec<String> {
        let cells = match cells(line, self.separator) {
            // A quote that does not end on the line.
            None if line.contains(self.separator) => vec![line.to_owned()],
            cells => cells.unwrap_or_default(),
        };
        if line.starts_with("# ") {
            return Vec::new();
        }
        cells
    }

    /// Whether a line with another number of cells looks like a row, and not like a sentence.
    pub(super) fn may_be_row(&self, line: &str) -> bool {
        self.separator != ',' || self.is_spaced || !line.contains(", ")
    }

    /// The run that a row stands for, with the columns that name it and those that are metrics.
    pub(super) fn row(&self, cells: &[String]) -> NotesRow {
        let cells: Vec<String> = cells.iter().map(|cell| unescaped(cell)).collect();
        let is_name = |at: usize| at == 0 || self.kinds.get(at) == Some(&ColumnKind::Run);
        let names = (cells.iter().enumerate()).filter(|(at, _)| is_name(*at));
        let summary = names.clone().find_map(|(_, cell)| summary(cell));
        let has_runs = self.kinds.contains(&ColumnKind::Run);
        match (summary, cells.first().map(String::as_str)) {
            (Some(Summary::Spread), _) if has_runs => return NotesRow::Spread,
            // It may be the name of a run, and an empty cell may belong to the one above.
            (Some(Summary::Spread), _) | (_, Some("" | "\"" | "''" | "〃")) if !has_runs => {
                return NotesRow::NotUnderstood(self.titles[0].clone());
            }
            _ => {}
        }
        let mut row = Average::default();
        (row.run.run, row.run.form) = (1, Form::Table);
        for (at, cell) in cells.iter().enumerate() {
            let says_so = is_name(at) && self::summary(cell).is_some();
            if !says_so && self.read(&mut row, at, cell).is_none() && summary.is_none() {
                return NotesRow::NotUnderstood(self.titles[at].clone());
            }
        }
        if summary.is_some() {
            return NotesRow::Average(Box::new(row));
        }
        complete(&mut row.run);
        NotesRow::Run(Box::new(row.run))
    }

    /// Reads a cell; `None` if it is not understood.
    fn read(&self, row: &mut Average, at: usize, text: &str) -> Option<()> {
        let run = &mut row.run;
        let named = || Some(text.to_owned()).filter(|text| !text.is_empty());
        match self.kinds.get(at)? {
            ColumnKind::Ignored => {}
            ColumnKind::Failure if ["-", "no", "none", "ok"].contains(&text) => {}
            // A number counts failures.
            ColumnKind::Failure if number(text).is_none() => run.failure = named(),
            ColumnKind::Profile => run.profile = named(),
            ColumnKind::Target => run.target = named(),
            ColumnKind::Setting | ColumnKind::Failure => {
                run.settings.extend(named().map(|level| Setting {
                    factor: self.titles[at].clone(),
                    level,
                }))
            }
            ColumnKind::Run => {
                let number = NUMBER_OF_RUN.captures(text)?;
                run.run = number[1].parse().ok().filter(|run| *run > 0)?;
            }
            ColumnKind::LowerBounds => {
                let names = text.split_whitespace().map(str::to_owned);
                run.lower_bounds.extend(names);
            }
            ColumnKind::Measured(..) if ["", "-", "n/a", "null"].contains(&text) => {}
            ColumnKind::Measured(name, factor) => {
                let at_least = text.strip_prefix(AT_LEAST).map(str::trim_start);
                let (value, step) = measured(at_least.unwrap_or(text), *factor)?;
                if run.values.insert(name.clone(), value).is_some() {
                    // Another column has the same metric.
                    return None;
                }
                row.steps.insert(name.clone(), step);
                run.lower_bounds.extend(at_least.map(|_| name.clone()));
            }
        }
        Some(())
    }

    /// Number of cells in a row.
    pub(super) fn len(&self) -> usize {
        self.kinds.len()
    }
}

impl Average {
    /// What is wrong with it, given the rows that it is made from, in words.
    pub(super) fn contradiction(&self, rows: &[&Observation]) -> Option<String> {
        let mut wrong = self.run.values.iter().filter_map(|(name, printed)| {
            let values = rows.iter().map(|run| run.values.get(name).copied());
            let values: Vec<f64> = values.collect::<Option<_>>()?;
            let mean = stats::mean(&values)?;
            let step = self.steps.get(name).copied().unwrap_or_default();
            // Half a step is the rounding; the rows are rounded as well.
            let is_wrong = (mean - printed).abs() > step.max(mean.abs() * 1e-9);
            let name = super::quote(name);
            is_wrong.then(|| format!("{name} {printed:.2}, not {mean:.2}"))
        });
        let first = wrong.next()?;
        let more = match wrong.count() {
            0 => String::new(),
            more => format!("; {more} more wrong"),
        };
        let count = rows.len();
        Some(format!(
            "the average of {count} rows is wrong: {first}{more}"
        ))
    }
}

/// What a row that is no run is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Summary {
    Average,
    Spread,
}

/// The kind of a row whose number of the run, or first cell, is this; `None` for a run.
fn summary(cell: &str) -> Option<Summary> {
    match cell.to_lowercase().as_str() {
        "avg" | "average" | "mean" => Some(Summary::Average),
        "min" | "median" | "max" | "stdev" | "cv %" => Some(Summary::Spread),
        _ => None,
    }
}

/// Before a value that is a lower bound.
const AT_LEAST: &str = ">=";

/// Completes a run. Without values or without requests it has failed.
fn complete(run: &mut Observation) {
    if run.failure.is_none() && run.values.get(metric::REQUESTS) == Some(&0.0) {
        run.failure = Some("nothing was answered".to_owned());
    }
}

/// A value times a factor, or else a time in microseconds, and that of a step of its last digit.
fn measured(text: &str, factor: Option<f64>) -> Option<(f64, f64)> {
    let (text, factor) = match factor {
        Some(factor) => (text, factor),
        None => {
            let at = text.find(|c: char| c.is_alphabetic())?;
            let (value, unit) = text.split_at(at);
            (value.trim(), time_unit(unit)?)
        }
    };
    let (value, step) = number(text)?;
    Some((value * factor, step * factor))
}

/// A unit of time, in microseconds.
fn time_unit(unit: &str) -> Option<f64> {
    match unit {
        "ns" => Some(1e-3),
        "us" | "µs" | "μs" => Some(1.0),
        "ms" => Some(1e3),
        "s" => Some(1e6),
        _ => None,
    }
}

/// Titles of requests per second that people write.
const RATES: [&str; 7] = [
    "requests/s",
    "requests/sec",
    "req/s",
    "req/sec",
    "rps",
    "qps",
    "requests per second",
];

/// The kind of a column by its title in lower case: a metric, `requests/s`, `p99 (ms)`, `avg
/// latency`.
fn kind_of_title(title: &str) -> ColumnKind {
    let own = |name: &str| ColumnKind::Measured(name.to_owned(), Some(1.0));
    if title.starts_with("all_samples_") || title.ends_with(" of all samples") {
        return ColumnKind::Ignored;
    }
    let is_load = ["threads", "connections", "rate"].contains(&title);
    if Metric::is_name(title) && !is_load {
        return own(title);
    }
    if RATES.contains(&title) {
        return own(metric::REQUESTS_PER_SEC);
    }
    // `p99 (ms)`, `p99_ms` or `p99 [us]`: a unit of time in the title.
    let parts = title
        .trim_end_matches([')', ']'])
        .rsplit_once(['(', '[', ' ', '_']);
    let of_title = parts.and_then(|(words, unit)| Some((words, time_unit(unit)?)));
    let (words, unit) = of_title.map_or((title, None), |(words, unit)| (words, Some(unit)));
    // The titles of generate-table.sh have no unit, and its times are microseconds.
    let is_of_script = title.ends_with("% latency") && !title.starts_with("avg");
    match latency(words) {
        Some(name) => ColumnKind::Measured(name, unit.or_else(|| is_of_script.then_some(1.0))),
        None if title.starts_with("sockets_") => own(title),
        None => ColumnKind::Setting,
    }
}

/// The metric of a latency: `p99`, `99%`, `99% latency`, `mean latency`, `max`.
fn latency(words: &str) -> Option<String> {
    let words = words.trim_end();
    match words.trim_end_matches(" latency") {
        "latency" | "avg" | "average" | "mean" => Some(metric::LATENCY_MEAN_US.to_owned()),
        "median" => Some(metric::percentile("latency", 50.0)),
        words @ ("max" | "min" | "stdev") => Some(format!("latency_{words}_us")),
        words => {
            let of_percent = words.strip_prefix('p').or_else(|| words.strip_suffix('%'));
            let (percent, _) = of_percent
                .or_else(|| words.strip_suffix("th percentile"))
                .and_then(number)?;
            (percent <= 100.0).then(|| metric::percentile("latency", percent))
        }
    }
}

/// Whether a title is that of the names of targets.
fn is_target(title: &str) -> bool {
    ["target", "server", "url", "host", "framework"].contains(&title)
}

fn is_measured(name: &str) -> bool {
    name == metric::REQUESTS
        || name == metric::REQUESTS_PER_SEC
        || name.starts_with("latency_")
        || name.starts_with("service_time_")
}

/// The text of a cell without Markdown's escapes and emphasis.
fn unescaped(cell: &str) -> String {
    let mut cell = cell.trim();
    for mark in ["**", "*", "`"] {
        let plain = cell.strip_prefix(mark).and_then(|it| it.strip_suffix(mark));
        cell = plain.map_or(cell, str::trim);
    }
    let mut text = String::with_capacity(cell.len());
    let mut chars = cell.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => text.push(chars.next_if(char::is_ascii_punctuation).unwrap_or(c)),
            c => text.push(c),
        }
    }
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

/// A number as people print it, `1234.5`, `12,345.67` or `12.3k`, and the value of a step of its
/// last digit.
fn number(text: &str) -> Option<(f64, f64)> {
    let (digits, factor) = match (text.strip_suffix(['k', 'K']), text.strip_suffix('M')) {
        (Some(digits), _) => (digits, 1e3),
        (_, Some(digits)) => (digits, 1e6),
        _ => (text, 1.0),
    };
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    let mut groups = whole.rsplit(',');
    let mut is_group = |group: &str| group.len() == 3 || !whole.contains(',');
    let first = groups.next_back().unwrap_or_default();
    let is_grouped = groups.all(&mut is_group) && (first.len() <= 3 || !whole.contains(','));
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits
            .bytes()
            .all(|b| b.is_ascii_digit() || b".,eE+-".contains(&b))
        && !decimals.contains(',');
    let value: f64 = digits
        .replace(',', "")
        .parse()
        .ok()
        .filter(|_| is_number && is_grouped)?;
    let step = factor / 10_f64.powi(i32::try_from(decimals.len()).unwrap_or(i32::MAX));
    let is_amount = value.is_finite() && value >= 0.0;
    is_amount.then_some((value * factor, step))
}

/// The cells of a line that may belong to a table with this separator.
pub(super) fn cells(line: &str, separator: char) -> Option<Vec<String>> {
    match separator {
        _ if !line.contains(separator) => None,
        '|' => Some(markdown_cells(line)),
        _ => separated_cells(line, separator),
    }
}

/// The cells of a Markdown row, which are separated by bars without a backslash before them.
fn markdown_cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let mut cells = vec![String::new()];
    let mut is_escaped = false;
    for c in line.chars() {
        match c {
            '|' if !is_escaped => cells.push(String::new()),
            c => cells.last_mut().into_iter().for_each(|cell| cell.push(c)),
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    // There is no cell after the last bar.
    if cells.len() > 1 {
        cells.pop_if(|cell| cell.trim().is_empty());
    }
    cells
}

/// Whether a line separates the titles of a Markdown table from its rows: `|---|:--:|`.
pub(super) fn is_markdown_rule(line: &str) -> bool {
    let is_part = |b: u8| b"|-: \t".contains(&b);
    line.contains('|') && line.contains('-') && line.bytes().all(is_part)
}

/// The fields of a line of separated values (RFC 4180); `None` if a quote does not end on it.
fn separated_cells(line: &str, separator: char) -> Option<Vec<String>> {
    let mut cells = vec![String::new()];
    let mut chars = line.chars().peekable();
    let mut is_quoted = false;
    while let Some(c) = chars.next() {
        let cell = cells.last_mut()?;
        match c {
            '"' if is_quoted && chars.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' if is_quoted => is_quoted = false,
            '"' if cell.is_empty() => is_quoted = true,
            c if c == separator && !is_quoted => cells.push(String::new()),
            c => cell.push(c),
        }
    }
    (!is_quoted).then_some(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(titles: &str, row: &str) -> Option<Vec<(String, f64)>> {
        let columns = Columns::of(&markdown_cells(titles), '|')?;
        match columns.row(&markdown_cells(row)) {
            NotesRow::Run(run) => Some(run.values.into_iter().collect()),
            _ => None,
        }
    }

    #[test]
    fn usual_titles_are_metrics_with_their_units() {
        for (titles, row, name, value) in [
            (
                "| target | requests/s |",
                "| a | 12,345.67 |",
                "requests_per_sec",
                12_345.67,
            ),
            ("| t | RPS |", "| a | 12.3k |", "requests_per_sec", 12_300.0),
            ("| t | p99 |", "| a | 1.5 ms |", "latency_p99_us", 1_500.0),
            (
                "| t | p99.9 (ms) |",
                "| a | 1.5 |",
                "latency_p99.9_us",
                1_500.0,
            ),
            ("| t | P50 [us] |", "| a | 15 |", "latency_p50_us", 15.0),
            ("| t | p50_ms |", "| a | 1 |", "latency_p50_us", 1_000.0),
            (
                "| t | 99% latency |",
                "| a | 6773 |",
                "latency_p99_us",
                6_773.0,
            ),
            (
                "| t | 99th percentile |",
                "| a | 2s |",
                "latency_p99_us",
                2e6,
            ),
            (
                "| t | **Avg Latency** |",
                "| a | **3.10ms** |",
                "latency_mean_us",
                3_100.0,
            ),
            (
                "| t | latency_stdev_us |",
                "| a | 7 |",
                "latency_stdev_us",
                7.0,
            ),
        ] {
            let found = values(titles, row).unwrap_or_else(|| panic!("{titles} {row}"));
            let [(found_name, found_value)] = found.as_slice() else {
                panic!("{titles}: {found:?}");
            };
            assert_eq!(found_name, name, "{titles}");
            assert!(
                (found_value - value).abs() <= value * 1e-12,
                "{titles}: {found_value}"
            );
        }
    }

    #[test]
    fn cells_without_a_unit_or_a_number_are_not_understood() {
        for (titles, row) in [
            ("| t | p99 |", "| a | 15 |"),
            ("| t | p99 (ms) |", "| a | fast |"),
            ("| t | requests/s |", "| a | 1.234.567 |"),
            ("| t | requests/s |", "| a | 1.234,56 |"),
            ("| t | requests/s |", "| a | -5 |"),
            ("| t | requests/s |", "| a | 1e999 |"),
            ("| t | run | requests/s |", "| a | x | 5 |"),
        ] {
            assert_eq!(values(titles, row), None, "{titles} {row}");
        }
        for titles in [
            "| option | meaning |",
            "| requests/s |",
            "|",
            "| \"state\": 1 | |",
        ] {
            assert!(
                Columns::of(&markdown_cells(titles), '|').is_none(),
                "{titles}"
            );
        }
    }

    #[test]
    fn cells_are_split_at_bars_and_at_commas_outside_of_quotes() {
        assert_eq!(markdown_cells("| a \\| b | c |"), [" a \\| b ", " c "]);
        assert_eq!(markdown_cells("a | b"), ["a ", " b"]);
        assert_eq!(unescaped(" a \\| &lt;b&gt; \\\\ "), "a | <b> \\");
        assert_eq!(
            separated_cells("a,\"b,\"\"c\",,d", ','),
            Some(vec![
                "a".to_owned(),
                "b,\"c".to_owned(),
                String::new(),
                "d".to_owned()
            ])
        );
        assert_eq!(separated_cells("a,\"b", ','), None);
    }
}
