//! Runs as a table: a row for each run, an average for each cell, and the rounds of each target
//! side by side.

use results::metric::Time;
use results::{Histogram, Measured, Metric, Samples, Setting, metric};
use serde::Serialize;

use crate::compare::has_tokens;
use crate::{Observation, by_request_name, distinct, grouped};

/// What a table contains.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TableOptions {
    /// Names of metrics (see [`results::metric`]) in place of generate-table.sh's columns.
    pub columns: Option<Vec<String>>,
    /// Percentiles of the latency (0..=100) in place of generate-table.sh's.
    pub percentiles: Option<Vec<f64>>,
    /// Show the spread of the runs in each cell.
    pub spread: bool,
    /// Show errors by wrk's counters and by kind.
    pub errors: bool,
    /// Show responses by status.
    pub statuses: bool,
    /// Show the most important kernel counters: [`metric::TELEMETRY`].
    pub telemetry: bool,
    /// Also make a table of the requests by name.
    pub by_name: bool,
}

/// No run has a requested column; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no run has {name:?} (there are: {known})")]
pub struct NoSuchColumn {
    name: String,
    known: String,
}

/// A table; values are in the order of its columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Names of the factors, in order of appearance.
    pub factors: Vec<String>,
    /// Whether the runs differ in their profile.
    pub has_profiles: bool,
    /// Whether the runs differ in their target.
    pub has_targets: bool,
    /// Names of the metrics in the columns.
    pub columns: Vec<String>,
    /// One for each combination of levels, profile and target.
    pub cells: Vec<Cell>,
    /// Whether the spread was requested.
    pub has_spread: bool,
    /// The rounds of each target side by side.
    pub groups: Vec<Group>,
    /// A table with a cell for each cell and name of requests; `None` unless requested.
    pub by_name: Option<Box<Self>>,
}

/// The runs of one cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Level of each factor.
    pub settings: Vec<Setting>,
    /// Name of its set of load options; `None` if it has none.
    pub profile: Option<String>,
    /// Name of its target, if it is known.
    pub target: Option<String>,
    /// The runs in the order of their numbers.
    pub runs: Vec<Run>,
    /// Arithmetic means over the runs that have the value and did not fail.
    pub averages: Vec<Option<Measured>>,
    /// Percentiles of the samples of all runs together; only if every averaged run has its
    /// histogram.
    pub merged: Vec<Option<Measured>>,
    /// Spread of the values.
    pub spreads: Vec<Option<ColumnSpread>>,
}

/// One run of a cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its number within the cell.
    pub number: u32,
    /// Its position in the order of all runs.
    pub position: Option<u32>,
    /// File of the run, with the line if the file has several runs.
    pub source: String,
    /// Why the run failed; it is then excluded from averages.
    pub failure: Option<String>,
    /// The run's value of each column; `None` where it was not measured.
    pub values: Vec<Option<Measured>>,
}

/// Spread of the values of a column within a cell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ColumnSpread {
    /// Smallest of the values.
    pub min: f64,
    /// Median of the values.
    pub median: f64,
    /// Largest of the values.
    pub max: f64,
    /// Sample standard deviation (n - 1); `None` for a single run.
    pub stdev: Option<f64>,
    /// Coefficient of variation: the standard deviation in percent of the mean.
    pub cv_percent: Option<f64>,
}

/// Targets under the same load.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The heading above these runs in their notes, such as the place of the load generator. Either
    /// all groups have one or none has.
    pub section: Option<String>,
    /// Profile and levels that the targets share, in words; empty if there are none.
    pub title: String,
    /// A line for each target.
    pub lines: Vec<GroupLine>,
}

/// The rounds of one target.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupLine {
    /// Name of the target; empty if it is unknown.
    pub target: String,
    /// Mean latency of each round, microseconds; `None` for a missing round.
    pub latencies_us: Vec<Option<f64>>,
    /// Requests per second of each round; `None` for a missing round.
    pub requests_per_sec: Vec<Option<f64>>,
    /// Number of failed runs, which are not among the others.
    pub failed: usize,
}

/// Columns of generate-table.sh before its percentiles.
const TOTALS: [&str; 5] = [
    metric::REQUESTS,
    metric::DURATION_US,
    metric::BYTES,
    metric::REQUESTS_PER_SEC,
    metric::BYTES_PER_SEC,
];

/// The percentiles of the latency in generate-table.sh.
const PERCENTILES: [f64; 5] = [50.0, 75.0, 90.0, 99.0, 99.999];

/// Columns of the latency if no percentiles are known.
const WITHOUT_PERCENTILES: [&str; 3] = [
    metric::LATENCY_MEAN_US,
    "latency_stdev_us",
    "latency_max_us",
];

/// The metrics of wrk's four counters.
const ERRORS: [&str; 5] = [
    "errors_connect",
    "errors_read",
    "errors_write",
    "errors_timeout",
    metric::ERRORS,
];

/// Makes a table of runs.
///
/// # Errors
/// If no run has a requested column.
pub fn table(observations: &[Observation], options: &TableOptions) -> Result<Table, NoSuchColumn> {
    let columns = columns(observations, options)?;
    let settings = observations.iter().flat_map(|run| &run.settings);
    let differ = |of: fn(&Observation) -> &Option<String>| {
        observations
            .windows(2)
            .any(|pair| of(&pair[0]) != of(&pair[1]))
    };
    let groups_of_runs = cells(observations);
    Ok(Table {
        factors: distinct(settings.map(|setting| setting.factor.clone())),
        has_profiles: differ(|run| &run.profile),
        has_targets: differ(|run| &run.target),
        cells: groups_of_runs
            .iter()
            .map(|runs| cell(runs, &columns))
            .collect(),
        groups: groups(&groups_of_runs),
        has_spread: options.spread,
        columns,
        by_name: if options.by_name {
            let parts = by_request_name(observations);
            Some(Box::new(table(&parts, &options_of_names(options))?))
        } else {
            None
        },
    })
}

/// The options of the table by name: requests per second, percentiles of the latency, errors. Other
/// columns may not be known by name.
fn options_of_names(options: &TableOptions) -> TableOptions {
    let percentiles = options.percentiles.as_deref().unwrap_or(&[50.0, 99.0]);
    let percentiles = percentiles.iter().map(of_latency);
    let columns = std::iter::once(metric::REQUESTS_PER_SEC.to_owned()).chain(percentiles);
    TableOptions {
        columns: Some(columns.chain([metric::ERRORS.to_owned()]).collect()),
        errors: options.errors,
        statuses: options.statuses,
        ..TableOptions::default()
    }
}

fn of_latency(percent: &f64) -> String {
    metric::percentile("latency", *percent)
}

/// The runs by cell: cells in the order of their plan or of appearance, runs by their numbers.
fn cells(observations: &[Observation]) -> Vec<Vec<&Observation>> {
    let runs = observations.iter();
    let runs = runs.map(|run| ((&run.settings, &run.profile, &run.target), run));
    let mut cells: Vec<Vec<&Observation>> = grouped(runs).into_iter().map(|(_, it)| it).collect();
    for runs in &mut cells {
        runs.sort_by_key(|run| run.run);
    }
    if observations.iter().all(|run| run.cell.is_some()) {
        cells.sort_by_key(|runs| runs[0].cell);
    }
    cells
}

fn columns(
    observations: &[Observation],
    options: &TableOptions,
) -> Result<Vec<String>, NoSuchColumn> {
    let is_there = |name: &str| observations.iter().any(|run| run.value(name).is_some());
    let mut columns: Vec<String> = Vec::new();
    match &options.columns {
        Some(names) => {
            for name in names {
                if !is_there(name) && !Metric::is_name(name) {
                    return Err(no_such_column(observations, name));
                }
                columns.push(name.clone());
            }
        }
        None => columns.extend(TOTALS.map(str::to_owned)),
    }
    match (&options.percentiles, &options.columns) {
        (Some(percents), _) => columns.extend(percents.iter().map(of_latency)),
        (None, Some(_)) => {}
        (None, None) => {
            let percentiles: Vec<String> = PERCENTILES.iter().map(of_latency).collect();
            let none = !percentiles.iter().any(|name| is_there(name));
            if none && is_there(metric::LATENCY_MEAN_US) {
                columns.extend(WITHOUT_PERCENTILES.map(str::to_owned));
            } else {
                columns.extend(percentiles);
            }
            // Unlike those of the latency, unknown ones say nothing.
            let of_tokens = metric::of_tokens().into_iter();
            columns.extend(of_tokens.filter(|name| has_tokens(observations) && is_there(name)));
        }
    }
    if options.errors {
        columns.extend(ERRORS.map(str::to_owned));
        columns.extend(present(observations, |name| name.starts_with("error_")));
    }
    if options.statuses {
        columns.push(metric::STATUSES_OVER_399.to_owned());
        columns.extend(present(observations, |name| name.starts_with("status_")));
    }
    if options.telemetry {
        let known = metric::TELEMETRY.into_iter().filter(|name| is_there(name));
        columns.extend(known.map(str::to_owned));
    }
    let mut seen = std::collections::BTreeSet::new();
    columns.retain(|name| seen.insert(name.clone()));
    Ok(columns)
}

/// Names for which some run has a value other than zero.
fn present(observations: &[Observation], is_wanted: fn(&str) -> bool) -> Vec<String> {
    let values = observations.iter().flat_map(|run| &run.values);
    let names: std::collections::BTreeSet<&String> = values
        .filter(|(name, value)| is_wanted(name) && **value != 0.0)
        .map(|(name, _)| name)
        .collect();
    names.into_iter().cloned().collect()
}

fn no_such_column(observations: &[Observation], name: &str) -> NoSuchColumn {
    let all: std::collections::BTreeSet<&str> = observations
        .iter()
        .flat_map(|run| run.values.keys())
        .map(String::as_str)
        .filter(|name| metric::percentile_of(name).is_none() && !metric::is_telemetry(name))
        .collect();
    let mut known: Vec<&str> = all.iter().copied().take(NAMES_SHOWN).collect();
    if all.len() > known.len() {
        known.push("...");
    }
    NoSuchColumn {
        name: name.to_owned(),
        known: known.join(", "),
    }
}

/// Limit on the names in the message.
const NAMES_SHOWN: usize = 12;

fn cell(runs: &[&Observation], columns: &[String]) -> Cell {
    let good: Vec<&Observation> = runs
        .iter()
        .copied()
        .filter(|run| run.failure.is_none())
        .collect();
    let samples: Vec<Vec<Measured>> = columns
        .iter()
        .map(|name| good.iter().filter_map(|run| run.measured(name)).collect())
        .collect();
    let Observation {
        settings,
        profile,
        target,
        ..
    } = runs[0];
    Cell {
        settings: settings.clone(),
        profile: profile.clone(),
        target: target.clone(),
        runs: runs.iter().map(|run| row(run, columns)).collect(),
        averages: samples.iter().map(|values| average(values)).collect(),
        merged: merged(&good, columns),
        spreads: samples
            .iter()
            .map(|values| spread(&plain(values)))
            .collect(),
    }
}

fn plain(values: &[Measured]) -> Vec<f64> {
    values.iter().map(|known| known.value).collect()
}

/// The arithmetic mean, which is a lower bound if one of the values is.
fn average(values: &[Measured]) -> Option<Measured> {
    let mean = in_15_digits(stats::mean(&plain(values))?);
    let is_lower_bound = values.iter().any(|known| known.is_lower_bound);
    Some(Measured::exact(mean).or_more(is_lower_bound))
}

/// Removes the binary noise that a sum leaves in the last digits: 32142.6375 and not
/// 32142.637499999997. A double keeps every decimal number of 15 digits.
pub(crate) fn in_15_digits(value: f64) -> f64 {
    format!("{value:.14e}").parse().unwrap_or(value)
}

fn row(run: &Observation, columns: &[String]) -> Run {
    let value = |name: &String| match run.failure {
        None => run.measured(name),
        Some(_) => None,
    };
    Run {
        number: run.run,
        position: run.position,
        source: run.source.clone(),
        failure: run.failure.clone(),
        values: columns.iter().map(value).collect(),
    }
}

/// Percentiles of the samples of all runs together.
fn merged(runs: &[&Observation], columns: &[String]) -> Vec<Option<Measured>> {
    let mut pools: Vec<(&str, Option<[Histogram; 2]>)> = Vec::new();
    columns
        .iter()
        .map(|name| {
            let (of, percent) = metric::percentile_of(name)?;
            if !pools.iter().any(|(known, _)| *known == of) {
                pools.push((of, pool(runs, of)));
            }
            let (_, pool) = pools.iter().find(|(known, _)| *known == of)?;
            let [measured, ages] = pool.as_ref()?;
            Samples::new(measured, ages).percentile(percent)
        })
        .collect()
}

/// The samples of a time (`latency`, `connect` and so on) of all runs together, and the ages of
/// requests without a response; `None` if a run has no samples.
fn pool(runs: &[&Observation], of: &str) -> Option<[Histogram; 2]> {
    let time = Time::named(of)?;
    let mut pool = [Histogram::new(), Histogram::new()];
    for run in runs {
        let samples = time.samples(&run.result.as_deref()?.recording)?;
        let (measured, ages) = samples.parts();
        pool[0].merge(measured);
        pool[1].merge(ages);
    }
    Some(pool)
}

fn spread(values: &[f64]) -> Option<ColumnSpread> {
    let ascending = stats::sorted(values);
    let (min, max) = (*ascending.first()?, *ascending.last()?);
    let mean = stats::mean(values)?;
    let stdev = (values.len() > 1).then(|| {
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        (squares / (values.len() - 1) as f64).sqrt()
    });
    Some(ColumnSpread {
        min,
        median: in_15_digits(stats::median(values)?),
        max,
        stdev: stdev.map(in_15_digits),
        cv_percent: stdev
            .filter(|_| mean != 0.0)
            .map(|stdev| in_15_digits(stdev / mean * 100.0)),
    })
}

/// The rounds of each target side by side, grouped by what the targets share.
fn groups(cells: &[Vec<&Observation>]) -> Vec<Group> {
    let has_sections = cells.iter().flatten().all(|run| section(run).is_some());
    let section = |run| section(run).filter(|_| has_sections);
    let runs = cells.iter().flatten().map(|run| {
        let settings = &run.settings[usize::from(has_sections)..];
        ((section(run), profile_of_rounds(run), settings), *run)
    });
    let group = |((section, profile, settings), runs): (_, Vec<&Observation>)| {
        let section: Option<&str> = section;
        let lines = grouped(runs.into_iter().map(|run| (&run.target, run)));
        let lines = lines.into_iter();
        Group {
            section: section.map(str::to_owned),
            title: title(profile, settings),
            lines: lines.map(|(_, runs)| group_line(&runs)).collect(),
        }
    };
    grouped(runs).into_iter().map(group).collect()
}

/// The heading above a run in its notes, if it is part of the run's name.
fn section(run: &Observation) -> Option<&str> {
    let first = run.settings.first()?;
    let is_heading = crate::notes::HEADINGS.contains(&first.factor.as_str());
    is_heading.then_some(first.level.as_str())
}

/// Rounds are shown side by side as in their notes, even if one of them had a different load.
fn profile_of_rounds(run: &Observation) -> Option<&str> {
    let noted = run.profile_without_load.as_deref();
    noted
        .filter(|_| run.round.is_some())
        .or(run.profile.as_deref())
}

fn group_line(runs: &[&Observation]) -> GroupLine {
    let good: Vec<&Observation> = runs
        .iter()
        .copied()
        .filter(|run| run.failure.is_none())
        .collect();
    let places = by_round(&good).unwrap_or_else(|| good.iter().copied().map(Some).collect());
    let values = |name: &str| {
        let runs = places.iter();
        runs.map(|run| run.and_then(|run| run.value(name)))
            .collect()
    };
    GroupLine {
        target: runs[0].target.clone().unwrap_or_default(),
        latencies_us: values(metric::LATENCY_MEAN_US),
        requests_per_sec: values(metric::REQUESTS_PER_SEC),
        failed: runs.len() - good.len(),
    }
}

/// Limit on rounds without a run. More of them leave too many gaps.
const ROUNDS_MISSING_MAX: usize = 20;

/// Each run at the index of its round, if all have one and no two have the same.
fn by_round<'a>(runs: &[&'a Observation]) -> Option<Vec<Option<&'a Observation>>> {
    let rounds: Option<Vec<usize>> = runs.iter().map(|run| Some(run.round? as usize)).collect();
    let rounds = rounds?;
    let last = rounds.iter().copied().max()?;
    if last > runs.len() + ROUNDS_MISSING_MAX {
        return None;
    }
    let mut places = vec![None; last];
    for (run, round) in runs.iter().zip(rounds) {
        let place = places.get_mut(round.checked_sub(1)?)?;
        if place.replace(*run).is_some() {
            return None;
        }
    }
    Some(places)
}

fn title(profile: Option<&str>, settings: &[Setting]) -> String {
    let settings = settings
        .iter()
        .map(|setting| format!("{}={}", setting.factor, setting.level));
    let words: Vec<String> = profile
        .map(str::to_owned)
        .into_iter()
        .chain(settings)
        .collect();
    words.join(" ")
}
