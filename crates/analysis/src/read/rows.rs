//! Rows of tables as runs: published Markdown tables, and the tables that `table` and `report`
//! write.

use std::collections::BTreeMap;

use results::Setting;
use serde::Deserialize;

use crate::observation::Form;
use results::{Metric, metric};

use crate::{Observation, Origin};

/// A table with more columns is something else.
const COLUMNS_MAX: usize = 500;

/// The columns of a table of runs.
#[derive(Debug)]
pub(super) struct Columns {
    kinds: Vec<Kind>,
    titles: Vec<String>,
    /// Whether there is a row for each run and metric, as in `report --format csv`.
    has_row_per_metric: bool,
    numbers: Numbers,
}

/// How a table writes its numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Numbers {
    /// `12,345.67`.
    Points,
    /// Values are separated by semicolons, so there may be `12.345,67`.
    MayHaveCommas,
    /// `12.345,67`.
    Commas,
}

/// What a column contains.
#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Measured {
        name: String,
        unit: Unit,
    },
    Setting,
    Profile,
    Target,
    Run,
    Failure,
    /// Name of the metric in the row.
    Metric,
    /// Value of that metric.
    Value,
    /// Which values are lower bounds: their names, or whether that of the row is one.
    LowerBounds,
    Ignored,
}

/// The unit of the numbers in a column.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Unit {
    /// This multiple of the metric's own unit.
    Factor(f64),
    /// A time, with its unit in each cell.
    InCell,
}

#[derive(Debug)]
pub(super) enum Row {
    Run(Box<Observation>),
    /// Another value of the run above.
    More,
    /// An average of other rows.
    Average(Box<Average>),
    /// A measure of spread of other rows.
    Spread,
    /// The cell of this column is not understood.
    NotUnderstood(String),
}

/// An average as a table prints it.
#[derive(Debug)]
pub(super) struct Average {
    /// The averages, with the names of the runs that they are made from.
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
        let plain: Vec<String> = titles.iter().map(|title| plain(title)).collect();
        let has = |name: &str| plain.iter().any(|title| title == name);
        let has_row_per_metric = has("metric") && has("value");
        // In our own tables, the columns before `run` name the run.
        let run_at = plain.iter().position(|title| title == "run");
        // Tables that people write may have columns of these names, with another meaning.
        let is_own = has_row_per_metric || run_at.is_some();
        let kind = |(at, title): (usize, &String)| match title.as_str() {
            "run" | "round" => Kind::Run,
            "failure" => Kind::Failure,
            "profile" => Kind::Profile,
            "target" | "server" | "url" | "host" | "framework" => Kind::Target,
            // The names of the rows often have no title.
            "" if at == 0 => Kind::Target,
            "source" | "position" | "unit" if is_own => Kind::Ignored,
            "lower_bounds" | "lower_bound" => Kind::LowerBounds,
            "metric" if has_row_per_metric => Kind::Metric,
            "value" if has_row_per_metric => Kind::Value,
            _ if has_row_per_metric || run_at.is_some_and(|run| at < run) => Kind::Setting,
            title => kind_of_title(title),
        };
        let kinds: Vec<Kind> = plain.iter().enumerate().map(kind).collect();
        let is_measured = |kind: &Kind| match kind {
            Kind::Measured { name, .. } => is_measured(name),
            _ => false,
        };
        (has_row_per_metric || kinds.iter().any(is_measured)).then_some(Self {
            kinds,
            titles: titles.iter().map(|title| unescaped(title)).collect(),
            has_row_per_metric,
            numbers: match separator {
                ';' => Numbers::MayHaveCommas,
                _ => Numbers::Points,
            },
        })
    }

    /// Reads a row. In a table with a row for each metric, the value is added to the run above if
    /// it is the same.
    pub(super) fn row(&mut self, cells: &[String], above: Option<&mut Observation>) -> Row {
        if self.numbers == Numbers::MayHaveCommas && cells.iter().any(|cell| has_comma(cell)) {
            self.numbers = Numbers::Commas;
        }
        let mut run = Observation {
            run: 1,
            form: Form::Table,
            ..Observation::default()
        };
        let (mut metric, mut value) = (None, None);
        let mut is_lower_bound = false;
        // In some tables the `run` column of an average is its number of runs.
        let of_first = cells.first().and_then(|cell| summary(cell));
        let mut summary_row = of_first;
        let mut steps = BTreeMap::new();
        for (at, (kind, cell)) in self.kinds.iter().zip(cells).enumerate() {
            let title = &self.titles[at];
            let cell = unescaped(cell);
            let text = without_apostrophe(&cell);
            match kind {
                _ if at == 0 && of_first.is_some() => {}
                Kind::Ignored => {}
                Kind::Metric => metric = Some(text.to_owned()).filter(|text| !text.is_empty()),
                Kind::Failure => {
                    run.failure = Some(text.to_owned()).filter(|text| !text.is_empty());
                }
                Kind::Run if summary_row.is_some() => {}
                Kind::Run if summary(text).is_some() => summary_row = summary(text),
                Kind::Run => {
                    let digits = text.trim_start_matches(|c: char| !c.is_ascii_digit());
                    match digits.parse() {
                        Ok(number) if number > 0 => run.run = number,
                        _ => return Row::NotUnderstood(title.clone()),
                    }
                }
                Kind::LowerBounds if self.has_row_per_metric => is_lower_bound = text == "true",
                Kind::LowerBounds => {
                    let names = text.split_whitespace().map(str::to_owned);
                    run.lower_bounds.extend(names);
                }
                Kind::Profile => run.profile = name(text),
                Kind::Target => run.target = name(text),
                Kind::Setting => run.settings.extend(name(text).map(|level| Setting {
                    factor: title.clone(),
                    level,
                })),
                Kind::Value | Kind::Measured { .. } if is_absent(text) => {}
                Kind::Value => match number(text, self.numbers) {
                    Some((number, _)) => value = Some(number),
                    None => return Row::NotUnderstood(title.clone()),
                },
                Kind::Measured { name, unit } => {
                    let at_least = text.strip_prefix(AT_LEAST).map(str::trim_start);
                    match unit.read(at_least.unwrap_or(text), self.numbers) {
                        Some((value, step)) => {
                            run.values.insert(name.clone(), value);
                            steps.insert(name.clone(), step);
                        }
                        None if summary_row.is_some() => {}
                        None => return Row::NotUnderstood(title.clone()),
                    }
                    run.lower_bounds.extend(at_least.map(|_| name.clone()));
                }
            }
        }
        match summary_row {
            Some(Summary::Average) => return Row::Average(Box::new(Average { run, steps })),
            Some(Summary::Spread) => return Row::Spread,
            None => {}
        }
        if self.has_row_per_metric {
            run.lower_bounds
                .extend(metric.clone().filter(|_| is_lower_bound));
            run.values.extend(metric.zip(value));
            if let Some(above) = above.filter(|above| is_same(above, &run)) {
                above.values.append(&mut run.values);
                above.lower_bounds.append(&mut run.lower_bounds);
                return Row::More;
            }
        }
        complete(&mut run);
        Row::Run(Box::new(run))
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
    match plain(cell).as_str() {
        "avg" | "avg." | "average" | "mean" => Some(Summary::Average),
        "min" | "median" | "max" | "stdev" | "cv %" => Some(Summary::Spread),
        _ => None,
    }
}

/// Whether a cell has a decimal comma.
fn has_comma(cell: &str) -> bool {
    let mut halves = cell.trim().split(',');
    let ends = |text: &str| text.ends_with(|c: char| c.is_ascii_digit());
    let begins = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    halves.next().is_some_and(ends) && halves.next().is_some_and(begins) && halves.next().is_none()
}

/// Before a value that is a lower bound.
const AT_LEAST: &str = ">=";

/// Whether two rows with a metric each belong to the same run.
fn is_same(above: &Observation, run: &Observation) -> bool {
    above.is_same_cell(run)
        && above.run == run.run
        && above.failure == run.failure
        && run
            .values
            .keys()
            .all(|name| !above.values.contains_key(name))
}

/// Completes a run. Without values or without requests it has failed.
fn complete(run: &mut Observation) {
    if run.failure.is_none() && run.values.get(metric::REQUESTS) == Some(&0.0) {
        run.failure = Some("nothing was answered".to_owned());
    }
    let levels = run.settings.iter();
    let levels = levels.map(|setting| (setting.factor.as_str(), setting.level.as_str()));
    let named = [("profile", &run.profile), ("target", &run.target)].into_iter();
    let named = named.filter_map(|(part, name)| Some((part, name.as_deref()?)));
    let origin = |(part, value)| Origin::new(part, value, "its row of the table");
    run.origins.extend(levels.chain(named).map(origin));
}

impl Unit {
    /// The value, and that of a step of the last printed digit.
    fn read(self, text: &str, numbers: Numbers) -> Option<(f64, f64)> {
        let of = |text: &str, factor: f64| {
            let (value, step) = number(text, numbers)?;
            Some((value * factor, step * factor))
        };
        match self {
            Self::Factor(factor) => of(text, factor),
            Self::InCell => {
                let number_length =
                    text.find(|c: char| c.is_alphabetic() && c != 'e' && c != 'E')?;
                let (value, unit) = text.split_at(number_length);
                of(value.trim(), time_unit(unit.trim())?)
            }
        }
    }
}

/// A unit of time, in microseconds.
fn time_unit(unit: &str) -> Option<f64> {
    match unit {
        "ns" => Some(1e-3),
        "us" | "µs" | "μs" => Some(1.0),
        "ms" => Some(1e3),
        "s" | "sec" => Some(1e6),
        _ => None,
    }
}

/// The kind of a column by a title that people write: `requests/s`, `p99 (ms)`, `avg latency`.
fn kind_of_title(title: &str) -> Kind {
    if title.starts_with("all_samples_") || title.ends_with(" of all samples") {
        return Kind::Ignored;
    }
    if Metric::is_name(title) && !["threads", "connections", "rate"].contains(&title) {
        return own(title, Unit::Factor(1.0));
    }
    let (words, unit) = split_unit(title);
    match words.as_str() {
        "requests/s"
        | "requests/sec"
        | "request/s"
        | "req/s"
        | "req/sec"
        | "reqs/s"
        | "rps"
        | "qps"
        | "requests per second" => own(metric::REQUESTS_PER_SEC, Unit::Factor(1.0)),
        "throughput" if title.contains("req") => own(metric::REQUESTS_PER_SEC, Unit::Factor(1.0)),
        "total requests" => own(metric::REQUESTS, Unit::Factor(1.0)),
        _ => match latency(&words) {
            // The titles of generate-table.sh have no unit, and its times are microseconds.
            Some(name)
                if unit.is_none() && title.ends_with("% latency") && !title.starts_with("avg") =>
            {
                own(name, Unit::Factor(1.0))
            }
            Some(name) => own(name, unit.map_or(Unit::InCell, Unit::Factor)),
            None if metric::is_telemetry(title) => own(title, Unit::Factor(1.0)),
            None => Kind::Setting,
        },
    }
}

fn own(name: impl Into<String>, unit: Unit) -> Kind {
    let name = name.into();
    Kind::Measured { name, unit }
}

/// Splits a title such as `p99 (ms)`, `p99_ms` or `p99 [us]` into its words and its unit of time in
/// microseconds.
fn split_unit(title: &str) -> (String, Option<f64>) {
    let title = title.trim_end_matches([')', ']']);
    let parts = title.rsplit_once(['(', '[', ' ', '_', ',']);
    match parts.and_then(|(words, unit)| Some((words, time_unit(unit)?))) {
        Some((words, factor)) => {
            let words = words.trim_end_matches([' ', '(', '[', ',', '_']);
            (words.replace('_', " "), Some(factor))
        }
        None => {
            let words = title.split(['(', '[']).next().unwrap_or(title);
            (words.trim().replace('_', " "), None)
        }
    }
}

/// The metric of a latency: `p99`, `99%`, `99th percentile`, `mean latency`, `max`.
fn latency(words: &str) -> Option<String> {
    let kept = words.split([' ', '-']).filter(|word| {
        !["latency", "percentile", "time", "response", "lat", "lat."].contains(word)
    });
    let word: Vec<&str> = kept.filter(|word| !word.is_empty()).collect();
    match word.as_slice() {
        [] if words.contains("latency") => Some(metric::LATENCY_MEAN_US.to_owned()),
        ["avg" | "avg." | "average" | "mean"] => Some(metric::LATENCY_MEAN_US.to_owned()),
        ["median"] => Some(metric::percentile("latency", 50.0)),
        ["max" | "maximum"] => Some("latency_max_us".to_owned()),
        ["min" | "minimum"] => Some("latency_min_us".to_owned()),
        ["stdev" | "stddev"] => Some("latency_stdev_us".to_owned()),
        [percent] => {
            let number = percent
                .strip_prefix('p')
                .or_else(|| percent.strip_suffix('%'))
                .or_else(|| percent.strip_suffix("th"))?;
            let percent: f64 = number
                .parse()
                .ok()
                .filter(|_| number.bytes().all(|b| b.is_ascii_digit() || b == b'.'))?;
            (0.0..=100.0)
                .contains(&percent)
                .then(|| metric::percentile("latency", percent))
        }
        _ => None,
    }
}

fn is_measured(name: &str) -> bool {
    name == metric::REQUESTS
        || name == metric::REQUESTS_PER_SEC
        || name.starts_with("latency_")
        || name.starts_with("service_time_")
}

/// A title in lower case, without markup.
fn plain(title: &str) -> String {
    let title = unescaped(title);
    title.trim_matches(['*', '`', ' ', '_']).to_lowercase()
}

fn name(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

/// Removes the apostrophe that `report --format csv` puts before text that spreadsheets would take
/// for a formula.
fn without_apostrophe(text: &str) -> &str {
    match text.strip_prefix('\'') {
        Some(rest) if rest.starts_with(['=', '+', '-', '@']) => rest,
        _ => text,
    }
}

/// The text of a cell without Markdown's escapes and emphasis.
fn unescaped(cell: &str) -> String {
    let cell = cell.trim();
    let inner = ["**", "__", "`"]
        .iter()
        .find_map(|mark| cell.strip_prefix(mark)?.strip_suffix(mark))
        .unwrap_or(cell)
        .trim();
    if !inner.contains(['\\', '&']) {
        return inner.to_owned();
    }
    let mut text = String::with_capacity(inner.len());
    let mut chars = inner.chars().peekable();
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

fn is_absent(text: &str) -> bool {
    ["", "-", "–", "—", "n/a", "N/A", "null"].contains(&text)
}

/// A number as people print it, `1234.5`, `12,345.67` or `12.3k`, and the value of a step of its
/// last digit.
fn number(text: &str, numbers: Numbers) -> Option<(f64, f64)> {
    let (digits, factor) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1e3),
        (at, 'M') => (&text[..at], 1e6),
        _ => (text, 1.0),
    };
    let digits = match numbers {
        Numbers::Commas => digits.replace(['.', ' ', '\u{a0}'], "").replace(',', "."),
        _ => digits.to_owned(),
    };
    let digits = digits.trim();
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    let mut groups = whole.split(',');
    let is_grouped = groups
        .next()
        .is_some_and(|first| (1..=3).contains(&first.len()))
        && groups.all(|group| group.len() == 3);
    let plain = if whole.contains(',') && is_grouped {
        digits.replace(',', "")
    } else {
        digits.to_owned()
    };
    let is_number = plain.starts_with(|c: char| c.is_ascii_digit())
        && plain
            .bytes()
            .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    let value = plain.parse::<f64>().ok().filter(|_| is_number)? * factor;
    let step = factor / 10_f64.powi(i32::try_from(decimals.len()).unwrap_or(i32::MAX));
    (value.is_finite() && value >= 0.0).then_some((value, step))
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
    if cells.len() > 1 && cells.last().is_some_and(|cell| cell.trim().is_empty()) {
        cells.pop();
    }
    cells
}

/// Whether a line separates the titles of a Markdown table from its rows: `|---|:--:|`.
pub(super) fn is_markdown_rule(line: &str) -> bool {
    line.contains('|')
        && line.contains("--")
        && line
            .bytes()
            .all(|b| matches!(b, b'|' | b'-' | b':' | b' ' | b'\t'))
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

/// A document of `table --format json` or `report --format json`.
#[derive(Deserialize)]
struct TableDocument {
    #[serde(default)]
    cells: Vec<CellDocument>,
    #[serde(default)]
    runs: Vec<RunDocument>,
}

#[derive(Deserialize)]
struct CellDocument {
    #[serde(default)]
    settings: BTreeMap<String, String>,
    profile: Option<String>,
    target: Option<String>,
    #[serde(default)]
    runs: Vec<RunDocument>,
}

#[derive(Deserialize)]
struct RunDocument {
    run: u32,
    position: Option<u32>,
    source: Option<String>,
    failure: Option<String>,
    #[serde(default)]
    settings: BTreeMap<String, String>,
    profile: Option<String>,
    target: Option<String>,
    #[serde(default)]
    values: BTreeMap<String, Option<f64>>,
}

/// Reads a document of `table --format json` or `report --format json`.
///
/// # Errors
/// A description of what is wrong with it.
pub(super) fn of_document(bytes: &[u8], source: &str) -> Result<Vec<Observation>, String> {
    let document: TableDocument =
        serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let of_cells = document.cells.into_iter().flat_map(|cell| {
        let CellDocument {
            settings,
            profile,
            target,
            runs,
        } = cell;
        runs.into_iter().map(move |run| RunDocument {
            settings: settings.clone(),
            profile: profile.clone(),
            target: target.clone(),
            ..run
        })
    });
    let runs = of_cells.chain(document.runs);
    Ok(runs.map(|run| of_run(run, source)).collect())
}

fn of_run(run: RunDocument, source: &str) -> Observation {
    let settings = run.settings.into_iter();
    let values = run.values.into_iter();
    let is_value = |value: &f64| value.is_finite() && *value >= 0.0;
    let mut observation = Observation {
        source: source.to_owned(),
        form: Form::Table,
        settings: settings
            .map(|(factor, level)| Setting { factor, level })
            .collect(),
        profile: run.profile,
        target: run.target,
        run: run.run.max(1),
        position: run.position,
        values: values
            .filter_map(|(name, value)| Some((name, value.filter(is_value)?)))
            .collect(),
        failure: run.failure,
        ..Observation::default()
    };
    complete(&mut observation);
    let from = run
        .source
        .map(|source| Origin::new("run", run.run.to_string(), source));
    observation.origins.extend(from);
    observation
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(titles: &str, row: &str) -> Option<Vec<(String, f64)>> {
        let mut columns = Columns::of(&markdown_cells(titles), '|')?;
        match columns.row(&markdown_cells(row), None) {
            Row::Run(run) => Some(run.values.into_iter().collect()),
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
            ("| t | requests/s |", "| a | -5 |"),
            ("| t | requests/s |", "| a | 1e999 |"),
            ("| t | run | requests/s |", "| a | x | 5 |"),
        ] {
            assert_eq!(values(titles, row), None, "{titles} {row}");
        }
        for titles in ["| option | meaning |", "| requests/s |", "|"] {
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
