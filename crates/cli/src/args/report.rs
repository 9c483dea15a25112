//! Arguments that select what a run prints, saves and checks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use judging::{Criterion, CriterionError};
use plan::RunPlan;
use plan::units::parse_percent;
use report::{Format, TextOptions};

use super::outputs::{OutputsArgs, StreamTarget};
use super::report_files::ReportFile;
use super::{Dialect, Refusal};

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Report")]
pub(super) struct ReportArgs {
    /// Print the latency distribution
    // wrk accepts `--l`, which would be ambiguous here.
    #[arg(short = 'L', long, alias = "l")]
    latency: bool,
    /// Print these latency percentiles, like 50,90,99.9; implies --latency
    #[arg(long, value_name = "LIST", value_parser = parse_percentiles, allow_hyphen_values = true)]
    percentiles: Option<Percentiles>,
    /// Also print uncorrected latency: from sending a request, not from when it was due; implies
    /// --latency
    // wrk2 accepts `--u`, which would be ambiguous here.
    #[arg(short = 'U', long = "u_latency", aliases = ["u-latency", "u"])]
    uncorrected: bool,
    /// Print connect, first-byte and last-byte times
    #[arg(long)]
    breakout: bool,
    /// Print a row for each name of the requests in a file
    #[arg(long)]
    by_name: bool,
    /// Correct latencies the way wrk does, by its expected interval
    #[arg(long)]
    wrk_correction: bool,
    /// Tool whose report format to print [default: cmm with --breakout, wrk2 with a rate or -U, cmm
    /// with -D or -b, otherwise wrk]
    #[arg(long, value_name = "TOOL", value_enum)]
    style: Option<Style>,
    /// Write a report to this file; .html is a page, .csv a table (see wrkbench report)
    #[arg(short, long, value_name = "FILE", allow_hyphen_values = true)]
    output: Option<PathBuf>,
    /// Write the full result as JSON; - is stdout, in place of the report
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    json: Option<PathBuf>,
    /// Save a label with the result, like branch=main; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label)]
    label: Vec<(String, String)>,
    /// Write the latency distribution for the HdrHistogram plotter
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    hgrm: Option<PathBuf>,
    /// Write latency over time as an HdrHistogram log
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    hlog: Option<PathBuf>,
    /// Exit with code 2 if a condition holds, like 'p99>50ms' 'failed>0.1%'
    #[arg(long, alias = "f", value_name = "CONDITION", value_parser = parse_criteria)]
    fail_if: Vec<Criteria>,
    /// Exit with code 5 if the load generator was disturbed or saturated
    #[arg(long)]
    strict: bool,
    /// Do not replace passwords, tokens and cookies by *** in output and files
    #[arg(long)]
    keep_secrets: bool,
    /// Send one request and print everything about it and its response.
    ///
    /// TLS and times are printed as well, with --json as JSON. The exit code is 7 if the status is
    /// 400 or more.
    #[arg(long, conflicts_with_all = ["output", "hgrm", "hlog", "tui"])]
    once: bool,
    /// Print no notes, warnings or progress on stderr
    #[arg(short, long)]
    quiet: bool,
    /// Show the run full-screen while it is in progress; q stops it and prints the report
    #[arg(long)]
    tui: bool,
    #[command(flatten)]
    outputs: OutputsArgs,
}

/// A tool whose report format can be printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Style {
    #[default]
    Wrk,
    Wrk2,
    Cmm,
}

impl From<Style> for Format {
    fn from(style: Style) -> Self {
        match style {
            Style::Wrk => Self::Wrk,
            Style::Wrk2 => Self::Wrk2,
            Style::Cmm => Self::Cmm,
        }
    }
}

/// What a run prints and saves, and the conditions under which it fails.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct OutputOptions {
    pub(crate) style: Style,
    /// Optional parts of the text report.
    pub(crate) text: TextOptions,
    /// The file of `-o`.
    pub(crate) report: Option<ReportFile>,
    pub(crate) json: Option<JsonTarget>,
    /// What the result says about the run, by name.
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) hgrm: Option<PathBuf>,
    pub(crate) hlog: Option<PathBuf>,
    /// If any of these holds, the exit code is 2.
    pub(crate) fail_if: Vec<Criterion>,
    /// If the load generator was saturated, the exit code is 5.
    pub(crate) strict: bool,
    /// Do not hide passwords, tokens and cookies.
    pub(crate) keep_secrets: bool,
    /// One exchange instead of a run.
    pub(crate) once: bool,
    /// No notes and no warnings.
    pub(crate) quiet: bool,
    /// Show progress while the run is in progress.
    pub(crate) live: bool,
    pub(crate) tui: bool,
    /// Other programs that follow the run.
    pub(crate) outputs: OutputsArgs,
}

/// Destination of the JSON document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JsonTarget {
    /// Then nothing else is written to stdout.
    Stdout,
    File(PathBuf),
}

impl JsonTarget {
    /// The value of `--json`.
    ///
    /// # Errors
    /// If it is JSON: the option of other tools that has this name is about the body.
    pub(super) fn of(path: PathBuf) -> Result<Self, Refusal> {
        let text = path.to_string_lossy();
        if text.starts_with(['{', '[']) {
            return Err(Refusal(format!(
                "--json {text:?}: is not the name of a file (the result is written to it; a body \
                 is --body here)"
            )));
        }
        Ok(if path.as_os_str() == "-" {
            Self::Stdout
        } else {
            Self::File(path)
        })
    }
}

/// Properties of a run that decide the report style when none was given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Traits {
    /// It has a rate, which of the three tools only wrk2 supports.
    pub(super) is_open: bool,
    /// It uses an option that only wrk-cmm has.
    pub(super) has_options_of_cmm: bool,
}

impl OutputOptions {
    /// Those of a run by a fleet whose results are fetched later.
    pub(crate) fn of_fetched(plan: &RunPlan, json: Option<JsonTarget>, keep_secrets: bool) -> Self {
        Self {
            style: if plan.pacing.is_open() {
                Style::Wrk2
            } else {
                Style::Wrk
            },
            text: TextOptions {
                plain_if_empty: true,
                ..TextOptions::default()
            },
            json,
            keep_secrets,
            ..Self::default()
        }
    }

    /// Whether stdout is for a program, so that nothing else may be written there.
    pub(crate) fn needs_stdout(&self) -> bool {
        self.json == Some(JsonTarget::Stdout) || self.outputs.take_stdout()
    }

    /// The files that are written after the run, each with its option and format.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&'static str, Format, &Path)> {
        let json = match &self.json {
            Some(JsonTarget::File(path)) => Some(path),
            Some(JsonTarget::Stdout) | None => None,
        };
        [
            ("--json", Format::Json, json),
            ("--hgrm", Format::Hgrm, self.hgrm.as_ref()),
            ("--hlog", Format::Hlog, self.hlog.as_ref()),
        ]
        .into_iter()
        .filter_map(|(option, format, path)| Some((option, format, path?.as_path())))
    }

    /// Checks the file of another option against the files of the report.
    ///
    /// # Errors
    /// When it is stdout or one of those files.
    pub(super) fn check_other_file(&self, option: &str, path: &Path) -> Result<(), Refusal> {
        if self
            .outputs
            .stream
            .as_ref()
            .is_some_and(|it| it.is_file(path))
        {
            let text = format!("{option} {path:?}: is also the file of --stream");
            return Err(Refusal(text));
        }
        check_file(option, path, &self.files().collect::<Vec<_>>())
    }
}

fn check_file(
    option: &str,
    path: &Path,
    others: &[(&'static str, Format, &Path)],
) -> Result<(), Refusal> {
    if path.as_os_str() == "-" {
        return Err(Refusal(format!(
            "{option} \"-\": only --json can go to stdout (expected a file)"
        )));
    }
    match others.iter().find(|known| known.2 == path) {
        Some((other, ..)) => Err(Refusal(format!(
            "{option} {path:?}: is also the file of {other}"
        ))),
        None => Ok(()),
    }
}

impl ReportArgs {
    /// The report style. Only wrk-cmm prints phases; only wrk2 prints uncorrected latency and has
    /// a rate.
    pub(super) fn style(&self, dialect: Dialect, run: Traits) -> Style {
        let by_options = match (self.breakout, run.is_open || self.uncorrected) {
            (true, _) => Style::Cmm,
            (false, true) => Style::Wrk2,
            (false, false) if run.has_options_of_cmm => Style::Cmm,
            (false, false) => Style::Wrk,
        };
        self.style.or_else(|| dialect.style()).unwrap_or(by_options)
    }

    /// # Errors
    /// When a file cannot be written, two options name the same file, or a condition needs a
    /// rate that the run does not have.
    pub(super) fn into_options(
        self,
        dialect: Dialect,
        run: Traits,
    ) -> Result<OutputOptions, Refusal> {
        let options = OutputOptions {
            style: self.style(dialect, run),
            text: TextOptions {
                latency: self.latency || self.uncorrected || self.percentiles.is_some(),
                uncorrected: self.uncorrected,
                breakout: self.breakout,
                by_name: self.by_name,
                percentiles: self.percentiles.map(|Percentiles(list)| list),
                wrk_correction: self.wrk_correction,
                // An explicit style prints that tool's table even without data.
                plain_if_empty: dialect == Dialect::Native && self.style.is_none(),
            },
            report: self.output.map(ReportFile::of_output).transpose()?,
            json: self.json.map(JsonTarget::of).transpose()?,
            labels: self.label.into_iter().collect(),
            hgrm: self.hgrm,
            hlog: self.hlog,
            fail_if: self.fail_if.into_iter().flat_map(|list| list.0).collect(),
            strict: self.strict,
            keep_secrets: self.keep_secrets,
            once: self.once,
            quiet: self.quiet,
            // The emulated tools print nothing during the run.
            live: !self.quiet && dialect == Dialect::Native,
            tui: self.tui,
            outputs: self.outputs,
        };
        let files: Vec<_> = options.files().collect();
        for (at, (option, _, path)) in files.iter().enumerate() {
            check_file(option, path, &files[..at])?;
        }
        if let Some(report) = &options.report {
            options.check_other_file(report.option, &report.path)?;
        }
        match &options.outputs.stream {
            Some(StreamTarget::File(path)) => check_file("--stream", path, &files)?,
            Some(StreamTarget::Stdout) if options.json == Some(JsonTarget::Stdout) => {
                let text = "--stream -: --json goes to stdout (expected a file for one of them)";
                return Err(Refusal(text.to_owned()));
            }
            Some(StreamTarget::Stdout | StreamTarget::Descriptor(_)) | None => {}
        }
        let needs_rate = options
            .fail_if
            .iter()
            .find(|criterion| criterion.needs_a_rate());
        if let Some(criterion) = needs_rate.filter(|_| !run.is_open) {
            return Err(Refusal(format!(
                "--fail-if {criterion}: needs a rate (-R or --stages)"
            )));
        }
        Ok(options)
    }
}

/// Reads a label: a name and a value.
fn parse_label(text: &str) -> Result<(String, String), String> {
    const VALUE_BYTES_MAX: usize = 200;
    let is_name = |name: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        (1..=64).contains(&name.len()) && name.chars().all(is_part)
    };
    let is_value = |value: &str| {
        (1..=VALUE_BYTES_MAX).contains(&value.len()) && value.chars().all(plan::is_printable)
    };
    match text.split_once('=') {
        Some((name, value)) if is_name(name) && is_value(value) => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(format!(
            "{text:?} is not a label (expected like branch=main: a name of letters, digits, _, - \
             and ., and a value of up to {VALUE_BYTES_MAX} bytes)"
        )),
    }
}

#[derive(Debug, Clone)]
pub(super) struct Criteria(pub(super) Vec<Criterion>);

pub(super) fn parse_criteria(text: &str) -> Result<Criteria, CriterionError> {
    Criterion::parse_list(text).map(Criteria)
}

/// Ascending, without duplicates, each in 0..=100.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Percentiles(pub(super) Vec<f64>);

/// More would not fit on a screen, and each one walks the histogram.
const MAX_PERCENTILES: usize = 100;

pub(super) fn parse_percentiles(text: &str) -> Result<Percentiles, String> {
    let mut list = Vec::new();
    for part in text.split(',') {
        let part = part.trim();
        let value = parse_percent(part.strip_suffix('%').unwrap_or(part));
        list.push(value.ok_or_else(|| {
            format!("{part:?} is not a percentile (expected numbers up to 100, like 50,90,99.9)")
        })?);
    }
    if list.len() > MAX_PERCENTILES {
        return Err(format!("more than {MAX_PERCENTILES} percentiles"));
    }
    list.sort_by(f64::total_cmp);
    list.dedup();
    Ok(Percentiles(list))
}
