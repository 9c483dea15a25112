//! Runs as a page, or as text for another tool.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use analysis::compare::{Question, compare_cells};
use analysis::judge_all;
use anyhow::{Context, bail};
use plan::units;
use report::export::{self, Export, ExportFormat};
use report::page::Subject;

use super::reading::{Read, read_all};
use super::{EXIT_CRITERIA, print, result_file, tell};
use crate::args::ReportRequest;

/// Reads everything that can be read and shows it; exit code 1 if something could not, else 2 if a
/// condition holds.
///
/// # Errors
/// When nothing could be read, the format cannot hold it, or it cannot be written.
pub(super) fn report(request: &ReportRequest, program: &str) -> anyhow::Result<ExitCode> {
    match &request.output {
        Some(path) => check_output(path, &request.paths)?,
        None => check_stdout(request.format)?,
    }
    let Read {
        reading,
        is_complete,
    } = read_all(&request.paths, program)?;
    // Runs of one thing, or too few of them, say nothing together.
    let conclusions = compare_cells(&reading.observations, &Question::default()).ok();
    let export = Export {
        subject: Subject {
            observations: &reading.observations,
            experiments: &reading.experiments,
            conclusions: conclusions.as_ref(),
            notes: &reading.notes,
            title: request.title.as_deref(),
        },
        criteria: &request.fail_if,
    };
    let mut bytes = Vec::new();
    export::render(&export, request.format, &mut bytes).context("report")?;
    match &request.output {
        Some(path) => {
            result_file::write("-o", path, |output| output.write_all(&bytes))?;
            let runs = reading.observations.len();
            tell(program, written(path, runs, bytes.len()));
        }
        None => {
            print(&bytes).context("the report cannot be written to stdout")?;
        }
    }
    let is_failed = tell_failures(&export, program);
    Ok(match (is_complete, is_failed) {
        (false, _) => ExitCode::FAILURE,
        (true, true) => ExitCode::from(EXIT_CRITERIA),
        (true, false) => ExitCode::SUCCESS,
    })
}

/// A line for each run and condition that it fails by.
fn tell_failures(export: &Export<'_>, program: &str) -> bool {
    let judged = judge_all(export.subject.observations, export.criteria);
    let mut is_failed = false;
    for one in &judged {
        if let Some(failure) = one.failure() {
            let name = export::run_name(one.run);
            tell(program, format_args!("failed: {name}: {failure}"));
            is_failed = true;
        }
    }
    is_failed
}

/// Refuses a file that cannot be written, or that is one of those that are read.
fn check_output(path: &Path, inputs: &[PathBuf]) -> anyhow::Result<()> {
    result_file::check_destination("-o", path)?;
    if let Ok(file) = path.canonicalize() {
        let mut others = inputs.iter().filter_map(|input| input.canonicalize().ok());
        if others.any(|input| input == file) {
            bail!("-o {path:?}: is one of the files that are read (expected another one)");
        }
    }
    Ok(())
}

/// A page on a terminal helps nobody.
fn check_stdout(format: ExportFormat) -> anyhow::Result<()> {
    if format == ExportFormat::Html && io::stdout().is_terminal() {
        bail!("report: a page is not for a terminal (give -o report.html)");
    }
    Ok(())
}

/// `report.html: 35 runs, 412.07KB`
fn written(path: &Path, runs: usize, bytes: usize) -> String {
    let runs = match runs {
        1 => "1 run".to_owned(),
        runs => format!("{runs} runs"),
    };
    let size = units::binary(bytes as f64);
    let path = path.display().to_string().replace(char::is_control, "?");
    format!("{path}: {runs}, {size}B")
}
