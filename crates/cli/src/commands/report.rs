//! `wrkbench report`: runs as a page, or in the format of another tool.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use analysis::compare::{CompareOptions, Conclusions, compare_cells};
use analysis::{Observation, Reading, TrendOptions, judge_all};
use anyhow::{Context, bail};
use experiment::{Store, common_judge, common_threshold};
use judging::Purpose;
use plan::readable;
use report::export::{self, Export, ExportFormat};
use report::page::PageSubject;
use report::picture;
use results::RunResult;

use super::reading::read_all;
use super::result_file::{self, Readers};
use super::{EXIT_CRITERIA, print, samples};
use crate::args::{ChartRequest, ReportPlace, ReportRequest, TrendRequest};
use crate::console::Console;

/// Reads everything that can be read and writes it; exit code 1 if some input could not be read,
/// otherwise 2 if a condition holds.
///
/// # Errors
/// When no run could be read, the format cannot represent it, or it cannot be written.
pub(super) fn report(request: &ReportRequest, console: &Console) -> anyhow::Result<ExitCode> {
    check(request, console)?;
    let reading = read_all(&request.paths, None, console)?;
    if let Some(path) = &request.output {
        check_not_read("-o", path, &request.paths, &reading.observations)?;
    }
    if let Some(request_of_trend) = &request.trend {
        return history(request, request_of_trend, &reading, console);
    }
    if let Some(chart) = &request.chart {
        return picture(request, chart, &reading, console);
    }
    super::run::tell_reversed(&request.fail_if, Purpose::FailsRun, console);
    let conclusions = conclusions_of(&reading);
    let export = Export {
        subject: PageSubject {
            title: request.title.as_deref(),
            ..subject(&reading, conclusions.as_ref())
        },
        criteria: &request.fail_if,
    };
    let mut bytes = Vec::new();
    export::render(&export, request.format, &mut bytes).context("report")?;
    match &request.output {
        Some(path) => {
            result_file::write("-o", path, Readers::Usual, |output| {
                output.write_all(&bytes)
            })?;
            let runs = reading.observations.len();
            console.tell(written(path, runs, bytes.len()));
        }
        None => {
            print(&bytes, console)?;
        }
    }
    let left_out = export::left_out(&export, request.format);
    if left_out > 0 {
        let (format, runs) = (request.format.name(), reading.observations.len());
        console.tell(format!(
            "{format}: {left_out} of {runs} runs left out: they failed, or lack data that the \
                 format needs"
        ));
    }
    let is_failed = tell_failures(&export, console);
    Ok(match (reading.problems.is_empty(), is_failed) {
        (false, _) => ExitCode::FAILURE,
        (true, true) => ExitCode::from(EXIT_CRITERIA),
        (true, false) => ExitCode::SUCCESS,
    })
}

/// Writes one chart of the page.
fn picture(
    request: &ReportRequest,
    wanted: &ChartRequest,
    reading: &Reading,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    let conclusions = conclusions_of(reading);
    let page = report::page::build(&subject(reading, conclusions.as_ref()));
    let Some(chart) = picture::chart_named(&page, &wanted.name) else {
        let names: Vec<&str> = picture::charts(&page).map(|it| it.id.as_str()).collect();
        if names.is_empty() {
            bail!("--chart: the page of these runs has no chart");
        } else {
            bail!(
                "--chart {:?}: the page has no such chart (expected {})",
                wanted.name,
                names.join(", ")
            );
        }
    };
    let mut bytes = Vec::new();
    picture::render(chart, wanted.theme, &mut bytes)?;
    match &request.output {
        Some(path) => {
            result_file::write("-o", path, Readers::Usual, |output| {
                output.write_all(&bytes)
            })?;
            let size = readable::bytes(bytes.len() as f64);
            console.tell(format!("{}: {}, {size}", path.display(), chart.title));
        }
        None => {
            print(&bytes, console)?;
        }
    }
    Ok(if reading.problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints the history of the runs and writes its page.
fn history(
    request: &ReportRequest,
    wanted: &TrendRequest,
    reading: &Reading,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    let options = TrendOptions {
        by: wanted.by.as_deref(),
        metrics: &wanted.metrics,
    };
    let trend = analysis::trend(&reading.observations, &options);
    if trend.histories.is_empty() {
        let reasons = trend.left_out.iter();
        let reasons: Vec<String> = reasons.map(|(why, runs)| format!("{runs} {why}")).collect();
        bail!(
            "--trend: no run can be placed in time ({})",
            reasons.join(", ")
        );
    }
    let mut table = Vec::new();
    report::render_trend(&trend, &mut table)?;
    print(&table, console)?;
    if let Some(path) = &request.output {
        let page = report::trend_page(&trend, request.title.as_deref(), &reading.notes);
        let mut bytes = Vec::new();
        report::page::render(&page, &mut bytes)?;
        result_file::write("-o", path, Readers::Usual, |output| {
            output.write_all(&bytes)
        })?;
        console.tell(written(path, reading.observations.len(), bytes.len()));
    }
    Ok(if reading.problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Rejects a file for a report of an experiment that could not be written.
///
/// # Errors
/// Names the file.
pub(super) fn check_place(place: &ReportPlace) -> anyhow::Result<()> {
    match place {
        ReportPlace::Results => Ok(()),
        ReportPlace::File(file) => check_output(file.option, &file.path, &[]),
    }
}

/// Writes a report of a folder of results. A page in the folder takes the place of an older page
/// only. Only the owner of the results can read it if nobody else can read them, since they may
/// have secrets. Returns its path.
///
/// # Errors
/// When there is something else in its place, the results cannot be read, or the report cannot be
/// written.
pub(super) fn write_of_folder(folder: &Path, place: &ReportPlace) -> anyhow::Result<PathBuf> {
    let (option, path, format) = match place {
        ReportPlace::Results => ("page", folder.join("report.html"), ExportFormat::Html),
        ReportPlace::File(file) => (file.option, file.path.clone(), file.format),
    };
    check_output(option, &path, &[])?;
    if *place == ReportPlace::Results && !is_replaceable(&path)? {
        bail!("{path:?} exists and was not written by wrkbench");
    }
    let reading = Reading::of_paths(&[folder.to_owned()], &mut io::empty());
    check_not_read(option, &path, &[folder.to_owned()], &reading.observations)?;
    let results = fs::metadata(Store::at(folder).experiment_path())?;
    let readers = Readers::of(results.mode() & 0o077 == 0);
    let bytes = rendered(&reading, format)?;
    result_file::write(option, &path, readers, |output| output.write_all(&bytes))?;
    Ok(path)
}

/// The report of one run as the bytes of a file.
///
/// # Errors
/// When the format cannot represent the run.
pub(super) fn of_run(result: &RunResult, format: ExportFormat) -> anyhow::Result<Vec<u8>> {
    let reading = Reading {
        observations: vec![Observation::of_run(result.clone())],
        ..Reading::default()
    };
    rendered(&reading, format)
}

fn rendered(reading: &Reading, format: ExportFormat) -> anyhow::Result<Vec<u8>> {
    let conclusions = conclusions_of(reading);
    let export = Export {
        subject: subject(reading, conclusions.as_ref()),
        criteria: &[],
    };
    let mut bytes = Vec::new();
    export::render(&export, format, &mut bytes)?;
    Ok(bytes)
}

/// How the runs differ, as their experiments judge it; `None` if there is nothing to compare: a
/// single group, or too few runs.
fn conclusions_of(reading: &Reading) -> Option<Conclusions> {
    let options = CompareOptions {
        metrics: common_judge(&reading.experiments),
        threshold: CompareOptions::threshold(common_threshold(&reading.experiments), &[]),
        is_sequential: reading.is_sequential(),
    };
    compare_cells(&reading.observations, &options).ok()
}

fn subject<'a>(reading: &'a Reading, conclusions: Option<&'a Conclusions>) -> PageSubject<'a> {
    PageSubject {
        observations: &reading.observations,
        experiments: &reading.experiments,
        searches: &reading.searches,
        conclusions,
        notes: &reading.notes,
        title: None,
    }
}

/// Rejects an output that could not be written.
///
/// # Errors
/// Names the output.
pub(super) fn check(request: &ReportRequest, console: &Console) -> anyhow::Result<()> {
    let Some(path) = &request.output else {
        return match request.chart {
            Some(_) => Ok(()),
            None => check_stdout(request.format, console),
        };
    };
    check_output("-o", path, &request.paths)?;
    if request.is_default_output && !is_replaceable(path)? {
        bail!(
            "{0} exists and was not written by wrkbench (give -o FILE; -o {0} overwrites it)",
            path.display()
        );
    }
    Ok(())
}

/// Prints a line for each run and failing condition.
fn tell_failures(export: &Export<'_>, console: &Console) -> bool {
    let judged = judge_all(export.subject.observations, export.criteria);
    let mut is_failed = false;
    for one in &judged {
        if let Some(failure) = one.failure() {
            let name = export::run_name(one.run);
            console.tell(format_args!("failed: {name}: {failure}"));
            is_failed = true;
        }
    }
    is_failed
}

/// Rejects an output file that cannot be written or is also an input.
fn check_output(option: &str, path: &Path, inputs: &[PathBuf]) -> anyhow::Result<()> {
    result_file::check_destination(option, path)?;
    if let Ok(file) = path.canonicalize() {
        let mut others = inputs.iter().filter_map(|input| input.canonicalize().ok());
        if others.any(|input| input == file) {
            bail!("{option} {path:?}: is also an input (choose another output file)");
        }
    }
    Ok(())
}

/// Whether there is no such file, or a page written by wrkbench.
///
/// # Errors
/// When it cannot be read.
pub(super) fn is_replaceable(path: &Path) -> anyhow::Result<bool> {
    // The generator mark is in the page's head.
    const HEAD_BYTES: u64 = 16 * 1024;
    let mut head = Vec::new();
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => bail!("{}: {error} (give another file with -o)", path.display()),
        Ok(file) => file.take(HEAD_BYTES).read_to_end(&mut head)?,
    };
    let head = String::from_utf8_lossy(&head);
    Ok(head.contains("<meta name=\"generator\" content=\"wrkbench "))
}

/// Rejects an output file that runs were read from, or that belongs to their sweep.
fn check_not_read(
    option: &str,
    path: &Path,
    inputs: &[PathBuf],
    runs: &[Observation],
) -> anyhow::Result<()> {
    let Ok(file) = path.canonicalize() else {
        return Ok(());
    };
    let is_it = |other: &Path| other.canonicalize().is_ok_and(|other| other == file);
    let is_of_sweep = inputs
        .iter()
        .any(|input| is_it(&input.join("experiment.json")));
    // The samples of a trial are in the same folder.
    let name = file.to_string_lossy();
    let is_samples = name
        .strip_suffix(samples::COMPRESSED)
        .unwrap_or(&name)
        .ends_with(".samples.jsonl");
    let mut sources = runs.iter().map(|run| source_of(&run.source));
    // For buffertest's runs, the log next to the document is read as well.
    let is_log = |source: &Path| {
        source.extension().is_some_and(|end| end == "json") && is_it(&source.with_extension("log"))
    };
    let is_source = sources.any(|source| is_it(source) || is_log(source));
    if is_of_sweep || is_samples || is_source {
        bail!("{option} {path:?}: is also an input (choose another output file)");
    }
    Ok(())
}

/// The file of a source, which may end with a line number: `notes.md:12`.
fn source_of(source: &str) -> &Path {
    let digits = source.trim_end_matches(|c: char| c.is_ascii_digit());
    let file = digits
        .strip_suffix(':')
        .filter(|_| digits.len() < source.len());
    Path::new(file.unwrap_or(source))
}

/// Rejects writing a page to a terminal.
fn check_stdout(format: ExportFormat, console: &Console) -> anyhow::Result<()> {
    if format == ExportFormat::Html && console.stdout.is_terminal {
        bail!("report: stdout is a terminal, which cannot show a page (give -o report.html)");
    }
    Ok(())
}

/// `report.html: 35 runs, 412 KiB`
fn written(path: &Path, runs: usize, bytes: usize) -> String {
    let runs = readable::counted(runs as u64, "run");
    let size = readable::bytes(bytes as f64);
    format!("{}: {runs}, {size}", path.display())
}
