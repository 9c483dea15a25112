//! Compares the runs of a sweep and prints the results.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use ::report::export::ExportFormat;
use analysis::Reading;
use analysis::compare::{
    ChangeLimit, CompareError, CompareOptions, Comparison, Conclusions, Outcome, compare_cells,
};
use anyhow::Context;
use outputs::{ComparisonVerdict, Event, Observers};
use plan::shell::quoted;
use results::{Metric, SearchEnd, SearchOutcome, SearchOver};

use super::super::{EXIT_CRITERIA, compare, report};
use crate::args::ReportPlace;
use crate::console::Console;

/// Thresholds of the comparison.
pub(super) struct ComparisonLimits {
    /// A difference up to this share does not matter.
    pub(super) threshold: Option<f64>,
    /// The metrics that are judged; the usual ones if empty.
    pub(super) judge: Vec<Metric>,
    /// A search has to find at least this rate, or this number of connections.
    pub(super) least_load: Option<f64>,
    /// A given rate has to be carried.
    pub(super) is_check: bool,
    /// A level that is worse by more than this share is a regression.
    pub(super) regression: Option<f64>,
    /// The reports to write.
    pub(super) reports: Vec<ReportPlace>,
}

impl ComparisonLimits {
    /// The difference that does not matter, a share.
    pub(super) fn threshold(&self) -> f64 {
        let limit = self.regression.map(ChangeLimit::Worse);
        CompareOptions::threshold(self.threshold, limit.as_slice())
    }
}

/// Prints the results in a sweep's folder: a sentence for each factor and metric, and a short table
/// of levels. Returns the exit code, which reports a regression if a limit is set.
///
/// # Errors
/// When the folder cannot be read, regressions cannot be judged, or the output cannot be written.
pub(super) fn conclude(
    folder: &Path,
    limits: &ComparisonLimits,
    output: &mut dyn Write,
    observers: &mut Observers<'_>,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    let reading = Reading::of_path(folder)?;
    for line in reading.notes.iter().chain(&reading.problems) {
        console.tell(line);
    }
    if reading.observations.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let mut output = io::BufWriter::new(output);
    if !reading.searches.is_empty() {
        return searched(folder, &reading, limits, &mut output, observers, console);
    }
    compared(folder, &reading, limits, &mut output, observers, console)
}

/// Prints what searches have found, then the comparison of their rates.
fn searched(
    folder: &Path,
    reading: &Reading,
    limits: &ComparisonLimits,
    output: &mut dyn Write,
    observers: &mut Observers<'_>,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    ::report::render_searches(&reading.searches, output).context(UNWRITTEN)?;
    if compare_cells(&reading.observations, &CompareOptions::default()).is_ok() {
        writeln!(output).context(UNWRITTEN)?;
        return compared(folder, reading, limits, output, observers, console);
    }
    for line in written_reports(folder, limits, console) {
        writeln!(output, "{line}").context(UNWRITTEN)?;
    }
    output.flush().context(UNWRITTEN)?;
    let mut is_missed = false;
    for search in &reading.searches {
        let outcome = search.outcome.as_ref();
        if let Some(least) = limits.least_load {
            let reached = outcome.and_then(|it| it.reaches(least));
            if let Some(miss) = miss((search.over(), least), reached, outcome) {
                console.tell(miss);
                is_missed = true;
            }
        }
        let end = outcome.map(|it| it.end);
        is_missed |= end == Some(SearchEnd::Undecided);
        is_missed |= limits.is_check && end != Some(SearchEnd::Carried);
    }
    Ok(if is_missed {
        ExitCode::from(EXIT_CRITERIA)
    } else {
        ExitCode::SUCCESS
    })
}

/// Why `--fail-if` fails, if it does: `--fail-if: max_rate<700: 640 (615 to 660)`.
fn miss(
    (over, least): (SearchOver, f64),
    reached: Option<bool>,
    outcome: Option<&SearchOutcome>,
) -> Option<String> {
    let found = outcome.and_then(|it| Some((it.max_load()?, it.interval())));
    let found = found.map(|(load, interval)| {
        let interval = interval.map(|[low, high]| format!(" ({low:.0} to {high:.0})"));
        format!("{load:.0}{}", interval.unwrap_or_default())
    });
    let condition = format!("--fail-if: {}<{least}", over.metric());
    let none = match over {
        SearchOver::Rate => "no rate",
        SearchOver::Connections => "no number of connections",
    };
    match (reached, found) {
        (Some(true), _) => None,
        (Some(false), Some(found)) => Some(format!("{condition}: {found}")),
        (Some(false), None) => Some(format!("{condition}: not even that is carried")),
        (None, Some(found)) => Some(format!("{condition}: undecided: {found}")),
        (None, None) => Some(format!(
            "{condition}: undecided: the search has found {none}"
        )),
    }
}

fn compared(
    folder: &Path,
    reading: &Reading,
    limits: &ComparisonLimits,
    output: &mut dyn Write,
    observers: &mut Observers<'_>,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    let observations = &reading.observations;
    let options = CompareOptions {
        metrics: limits.judge.clone(),
        threshold: limits.threshold(),
        is_sequential: reading.is_sequential(),
    };
    let conclusions = match compare_cells(observations, &options) {
        Ok(conclusions) => conclusions,
        Err(error) => {
            if !matches!(error, CompareError::OneCell) {
                console.tell(format_args!("no conclusions: {error}"));
            }
            let is_measured = observations.iter().any(|run| run.failure.is_none());
            return if is_measured {
                ::report::comparison::render_one_cell(observations, output)
                    .context(UNWRITTEN)
                    .and_then(|()| more(folder, limits, output, console))
                    .map(|()| ExitCode::SUCCESS)
            } else {
                Ok(ExitCode::SUCCESS)
            };
        }
    };
    ::report::comparison::render_brief(&conclusions, observations, output).context(UNWRITTEN)?;
    tell_observers(&conclusions, observers);
    more(folder, limits, output, console)?;
    // Whoever lets runs go on until they decide wants a decision.
    let is_refused = |comparison: &Comparison| comparison.outcome == Outcome::Failing;
    match limits.regression.map(ChangeLimit::Worse) {
        Some(limit) => compare::judge_changes(&conclusions, &[limit], console),
        None if options.is_sequential && conclusions.comparisons.iter().any(is_refused) => {
            Ok(ExitCode::from(EXIT_CRITERIA))
        }
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Tells the verdict of each comparison.
fn tell_observers(conclusions: &Conclusions, observers: &mut Observers<'_>) {
    for comparison in &conclusions.comparisons {
        observers.event(&Event::Verdict(ComparisonVerdict {
            factor: comparison.factor.as_deref(),
            place: &comparison.place,
            metric: &comparison.metric.name,
            sentence: &::report::comparison::sentence(comparison),
        }));
    }
}

const UNWRITTEN: &str = "the results cannot be written to stdout";

/// Before the path of a page.
const PAGE: &str = "Page: ";

/// Writes the reports. Returns a line for each of them that says where it is. One that cannot be
/// written is a warning: the results are there.
fn written_reports(folder: &Path, limits: &ComparisonLimits, console: &Console) -> Vec<String> {
    let write = |place: &ReportPlace| {
        let what = match place {
            ReportPlace::File(file) if file.format != ExportFormat::Html => "Report: ",
            _ => PAGE,
        };
        match report::write_of_folder(folder, place) {
            Ok(path) => Some(format!("{what}{}", quoted(&path.to_string_lossy()))),
            Err(error) => {
                let missing = what.trim_end_matches(": ").to_lowercase();
                console.tell(format_args!("warning: no {missing}: {error:#}"));
                None
            }
        }
    };
    limits.reports.iter().filter_map(write).collect()
}

/// Prints the commands that show more, or where the reports are.
fn more(
    folder: &Path,
    limits: &ComparisonLimits,
    output: &mut dyn Write,
    console: &Console,
) -> anyhow::Result<()> {
    let mut reports = written_reports(folder, limits, console);
    let folder = quoted(&folder.to_string_lossy());
    if !reports.iter().any(|line| line.starts_with(PAGE)) {
        reports.push(format!(
            "As a page: wrkbench report {folder} -o report.html"
        ));
    }
    writeln!(
        output,
        "\nEvery run: wrkbench table {folder}\nStatistics: wrkbench compare {folder}\n{}",
        reports.join("\n")
    )
    .and_then(|()| output.flush())
    .context(UNWRITTEN)
}
