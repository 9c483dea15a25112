//! What all trials say together: the table, and whether anything made a difference.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use analysis::compare::{CompareError, Question, compare_cells};
use analysis::{Observation, Reading};
use anyhow::Context;
use report::table::Format;

use super::super::{compare, tell};

/// What is asked of the runs of a sweep.
pub(super) struct Judgement {
    /// A difference up to this share does not matter.
    pub(super) threshold: Option<f64>,
    /// A level that is worse by more than this share is a regression.
    pub(super) regression_limit: Option<f64>,
}

/// Shows what the folder of a sweep says: a row for each run and the averages, then a sentence for each
/// factor. The exit code is that of a regression, if that was asked and is found.
///
/// # Errors
/// When the folder cannot be read, a regression cannot be judged, or the output not be written.
pub(super) fn conclude(
    folder: &Path,
    judgement: &Judgement,
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
    let wish = analysis::table::Wish::default();
    let table = analysis::table::table(&reading.observations, &wish)?;
    report::table::render(&table, Format::Markdown, &mut output)
        .and_then(|()| output.flush())
        .context("the table cannot be written to stdout")?;
    compared(&reading.observations, judgement, &mut output, program)
}

fn compared(
    observations: &[Observation],
    judgement: &Judgement,
    output: &mut dyn Write,
    program: &str,
) -> anyhow::Result<ExitCode> {
    let question = Question {
        threshold: Question::threshold(judgement.threshold, judgement.regression_limit),
        ..Question::default()
    };
    let conclusions = match compare_cells(observations, &question) {
        Ok(conclusions) => conclusions,
        // What a plan of one cell measures is in the table.
        Err(CompareError::OneCell) => return Ok(ExitCode::SUCCESS),
        Err(error) => {
            tell(program, format_args!("no conclusions: {error}"));
            return Ok(ExitCode::SUCCESS);
        }
    };
    writeln!(output)?;
    report::comparison::render(&conclusions, output)?;
    output.flush()?;
    match judgement.regression_limit {
        Some(limit) => compare::judge_regression(&conclusions, limit, program),
        None => Ok(ExitCode::SUCCESS),
    }
}
