//! Compares the runs of a sweep and prints the results.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use analysis::compare::{CompareError, CompareOptions, compare_cells};
use analysis::sequential::{sequential_differences, sequential_metrics};
use analysis::{Observation, Reading};
use anyhow::Context;
use plan::shell::quoted;
use results::{Metric, SearchEnd, Stopping};

use super::super::{EXIT_CRITERIA, compare, tell};

/// Thresholds of the comparison.
pub(super) struct ComparisonLimits {
    /// A difference up to this share does not matter.
    pub(super) threshold: Option<f64>,
    /// The metrics that are judged; the usual ones if empty.
    pub(super) judge: Vec<Metric>,
    /// When the experiment may end before its last round.
    pub(super) stopping: Option<Stopping>,
    /// A search has to find at least this rate.
    pub(super) least_rate_per_sec: Option<f64>,
    /// A given rate has to be carried.
    pub(super) is_check: bool,
    /// A level that is worse by more than this share is a regression.
    pub(super) regression: Option<f64>,
}

impl ComparisonLimits {
    /// The difference that does not matter, a share.
    pub(super) fn threshold(&self) -> f64 {
        CompareOptions::threshold(self.threshold, self.regression)
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
    output: &mut File,
    program: &str,
) -> anyhow::Result<ExitCode> {
    let reading = Reading::of_path(folder)?;
    for line in reading.notes.iter().chain(&reading.problems) {
        tell(program, line);
    }
    if reading.observations.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let mut output = io::BufWriter::new(output);
    if !reading.searches.is_empty() {
        return searched(folder, &reading, limits, &mut output, program);
    }
    compared(folder, &reading.observations, limits, &mut output, program)
}

/// Prints what searches have found, then the comparison of their rates.
fn searched(
    folder: &Path,
    reading: &Reading,
    limits: &ComparisonLimits,
    output: &mut dyn Write,
    program: &str,
) -> anyhow::Result<ExitCode> {
    report::render_searches(&reading.searches, output).context(UNWRITTEN)?;
    if compare_cells(&reading.observations, &CompareOptions::default()).is_ok() {
        writeln!(output).context(UNWRITTEN)?;
        return compared(folder, &reading.observations, limits, output, program);
    }
    output.flush().context(UNWRITTEN)?;
    let ends = reading.searches.iter().map(|search| &search.outcome);
    let mut is_missed = false;
    for outcome in ends {
        let rate = outcome.as_ref().map_or(0.0, |it| it.rate_per_sec);
        if let Some(least) = limits.least_rate_per_sec.filter(|least| rate < *least) {
            tell(program, format_args!("--fail-if: max_rate<{least}: {rate}"));
            is_missed = true;
        }
        let is_carried = outcome
            .as_ref()
            .is_some_and(|it| it.end == SearchEnd::Carried);
        is_missed |= limits.is_check && !is_carried;
    }
    Ok(match is_missed {
        true => ExitCode::from(EXIT_CRITERIA),
        false => ExitCode::SUCCESS,
    })
}

fn compared(
    folder: &Path,
    observations: &[Observation],
    limits: &ComparisonLimits,
    output: &mut dyn Write,
    program: &str,
) -> anyhow::Result<ExitCode> {
    let options = CompareOptions {
        metrics: limits.judge.clone(),
        threshold: limits.threshold(),
    };
    let conclusions = match compare_cells(observations, &options) {
        Ok(conclusions) => conclusions,
        Err(error) => {
            if !matches!(error, CompareError::OneCell) {
                tell(program, format_args!("no conclusions: {error}"));
            }
            let is_measured = observations.iter().any(|run| run.failure.is_none());
            return match is_measured {
                true => report::comparison::render_one_cell(observations, output)
                    .and_then(|()| more(folder, output))
                    .context(UNWRITTEN)
                    .map(|()| ExitCode::SUCCESS),
                false => Ok(ExitCode::SUCCESS),
            };
        }
    };
    let rendered = if limits.stopping.is_some() {
        let metrics = sequential_metrics(observations, &limits.judge);
        let found = sequential_differences(observations, &metrics, limits.threshold());
        report::comparison::render_sequential(&found, &conclusions, observations, output)
    } else {
        report::comparison::render_brief(&conclusions, observations, output)
    };
    rendered
        .and_then(|()| more(folder, output))
        .context(UNWRITTEN)?;
    match limits.regression {
        Some(limit) => compare::judge_regression(&conclusions, limit, program),
        None => Ok(ExitCode::SUCCESS),
    }
}

const UNWRITTEN: &str = "the results cannot be written to stdout";

/// Prints the commands that show more.
fn more(folder: &Path, output: &mut dyn Write) -> io::Result<()> {
    let folder = quoted(&folder.to_string_lossy());
    writeln!(
        output,
        "\nEvery run: wrkbench table {folder}\nStatistics: wrkbench compare {folder}\nAs a page: \
         wrkbench report {folder} -o report.html"
    )?;
    output.flush()
}
