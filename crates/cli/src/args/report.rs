//! Arguments that select what a run prints, saves and checks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use judging::{Criterion, CriterionError};
use plan::units::parse_percent;
use plan::{GivenOptions, Heading, InvalidValue, OptionSpec, Settable, Setter};
use report::{Format, TextOptions};

use super::outputs::{OutputsArgs, StreamTarget};
use super::plan_options::OptionArgs;
use super::report_files::ReportFile;
use super::{Dialect, Refusal};

/// What the options of a report set, as typed.
#[derive(Debug, Clone, Default)]
pub(super) struct ReportValues {
    latency: bool,
    percentiles: Option<Vec<f64>>,
    uncorrected: bool,
    breakout: bool,
    by_name: bool,
    wrk_correction: bool,
    style: Option<Style>,
    output: Option<PathBuf>,
    json: Option<PathBuf>,
    labels: BTreeMap<String, String>,
    hgrm: Option<PathBuf>,
    hlog: Option<PathBuf>,
    fail_if: Vec<Criterion>,
    strict: bool,
    keep_secrets: bool,
    once: bool,
    quiet: bool,
    tui: bool,
    pub(super) samples: Option<PathBuf>,
    pub(super) records: Option<PathBuf>,
}

impl Settable for ReportValues {
    fn option_table() -> &'static [OptionSpec<Self>] {
        OPTIONS
    }

    fn blank() -> Option<Self> {
        Some(Self::default())
    }
}

/// Reasons why an experiment cannot set an option of the report.
const SAVED_BY_SWEEP: &str = "a sweep saves every run itself";
pub(super) const OF_SWEEP: &str = "it is an option of wrkbench sweep";

const fn option(
    long: &'static str,
    setter: Setter<ReportValues>,
    help: &'static str,
) -> OptionSpec<ReportValues> {
    OptionSpec::new(long, Heading::Report, setter, help)
}

/// The options of a report, in the order of the help. To add one, add a row.
static OPTIONS: &[OptionSpec<ReportValues>] = &[
    option(
        "samples",
        Setter::Path(|it, path| it.samples = Some(path)),
        "Write every socket sample to a file, one JSON object per line; needs --sockets",
    )
    .heading(Heading::Telemetry)
    .elsewhere("a sweep saves the samples next to each run"),
    option(
        "latency",
        Setter::Switch(|it| it.latency = true),
        "Print the latency distribution",
    )
    .short('L')
    // wrk accepts `--l`, which would be ambiguous here.
    .aliases(&["l"]),
    option(
        "percentiles",
        Setter::Parsed(|it, text| {
            let Percentiles(list) = parse_percentiles(text)?;
            it.percentiles = Some(list);
            Ok(())
        }),
        "Print these latency percentiles, like 50,90,99.9; implies --latency",
    )
    .value_name("LIST"),
    option(
        "u_latency",
        Setter::Switch(|it| it.uncorrected = true),
        "Also print uncorrected latency: from sending a request, not from when it was due; implies \
         --latency",
    )
    .short('U')
    // wrk2 accepts `--u`, which would be ambiguous here.
    .aliases(&["u-latency", "u"]),
    option(
        "breakout",
        Setter::Switch(|it| it.breakout = true),
        "Print connect, first-byte and last-byte times",
    ),
    option(
        "by-name",
        Setter::Switch(|it| it.by_name = true),
        "Print a row for each name of the requests in a file",
    ),
    option(
        "wrk-correction",
        Setter::Switch(|it| it.wrk_correction = true),
        "Correct latencies the way wrk does, by its expected interval",
    ),
    option(
        "style",
        Setter::Parsed(|it, text| {
            it.style = Style::named(text);
            Ok(())
        }),
        "Tool whose report format to print [default: cmm with --breakout, wrk2 with a rate or -U, \
         cmm with -D or -b, otherwise wrk]",
    )
    .value_name("TOOL")
    .choices(&["wrk", "wrk2", "cmm"])
    .elsewhere("a sweep prints tables"),
    option(
        "output",
        Setter::Path(|it, path| it.output = Some(path)),
        "Write a report to this file; .html is a page, .csv a table (see wrkbench report)",
    )
    .short('o')
    .elsewhere("a sweep writes one report of all runs"),
    option(
        "json",
        Setter::Path(|it, path| it.json = Some(path)),
        "Write the full result as JSON; - is stdout, in place of the report",
    )
    .elsewhere(SAVED_BY_SWEEP),
    option(
        "label",
        Setter::Parsed(|it, text| {
            let (name, value) = parse_label(text)?;
            it.labels.insert(name, value);
            Ok(())
        }),
        "Save a label with the result, like branch=main; repeatable",
    )
    .value_name("KEY=VALUE")
    .repeatable(),
    option(
        "hgrm",
        Setter::Path(|it, path| it.hgrm = Some(path)),
        "Write the latency distribution for the HdrHistogram plotter",
    )
    .elsewhere(SAVED_BY_SWEEP),
    option(
        "hlog",
        Setter::Path(|it, path| it.hlog = Some(path)),
        "Write latency over time as an HdrHistogram log",
    )
    .elsewhere(SAVED_BY_SWEEP),
    option(
        "records",
        Setter::Path(|it, path| it.records = Some(path)),
        "Write a record of each request to this file: .jsonl is JSON lines, .csv a table",
    )
    .long_help(
        "Write a record of each request to this file: .jsonl is JSON lines, .csv a table.\n\nA \
         record has the times, status, error and bytes of a request. Requests of the warm-up have \
         none (docs/records.md).",
    )
    .elsewhere("each of many runs would overwrite the file; make the run alone for its records"),
    option(
        "fail-if",
        Setter::Parsed(|it, text| {
            let Criteria(list) = parse_criteria(text).map_err(InvalidValue::new)?;
            it.fail_if.extend(list);
            Ok(())
        }),
        "Exit with code 2 if a condition holds, like 'p99>50ms' 'failed>0.1%'",
    )
    .value_name("CONDITION")
    .aliases(&["f"])
    .repeatable()
    .elsewhere("leaving out runs by their outcome would bias the comparison"),
    option(
        "strict",
        Setter::Switch(|it| it.strict = true),
        "Exit with code 5 if the load generator was disturbed or saturated",
    ),
    option(
        "keep-secrets",
        Setter::Switch(|it| it.keep_secrets = true),
        "Do not replace passwords, tokens and cookies by *** in output and files",
    ),
    option(
        "once",
        Setter::Switch(|it| it.once = true),
        "Send one request and print everything about it and its response",
    )
    .long_help(
        "Send one request and print everything about it and its response.\n\nTLS and times are \
         printed as well, with --json as JSON. The exit code is 7 if the status is 400 or more.",
    )
    .conflicts(&["output", "hgrm", "hlog", "tui"])
    .elsewhere("a sweep makes runs"),
    option(
        "quiet",
        Setter::Switch(|it| it.quiet = true),
        "Print no notes, warnings or progress on stderr",
    )
    .short('q')
    .elsewhere(OF_SWEEP),
    option(
        "tui",
        Setter::Switch(|it| it.tui = true),
        "Show the run full-screen while it is in progress; q stops it and prints the report",
    )
    .elsewhere(OF_SWEEP),
];

/// The options of a report and live outputs.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct ReportArgs {
    #[command(flatten)]
    pub(super) given: OptionArgs<ReportValues>,
    #[command(flatten)]
    pub(super) outputs: OutputsArgs,
}

/// A tool whose report format can be printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Style {
    #[default]
    Wrk,
    Wrk2,
    Cmm,
}

impl Style {
    fn named(name: &str) -> Option<Self> {
        match name {
            "wrk" => Some(Self::Wrk),
            "wrk2" => Some(Self::Wrk2),
            "cmm" => Some(Self::Cmm),
            _ => None,
        }
    }
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
    pub(crate) fn of(path: PathBuf) -> Result<Self, Refusal> {
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

impl Traits {
    pub(super) fn of(options: &GivenOptions) -> Self {
        Self {
            is_open: options.has_rate(),
            has_options_of_cmm: options.has("delay-stats") || options.has("bind-ip"),
        }
    }
}

impl OutputOptions {
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
        let has = |option| self.given.0.has(option);
        let by_options = match (has("breakout"), run.is_open || has("u_latency")) {
            (true, _) => Style::Cmm,
            (false, true) => Style::Wrk2,
            (false, false) if run.has_options_of_cmm => Style::Cmm,
            (false, false) => Style::Wrk,
        };
        let given = self.given.0.path("style").and_then(Path::to_str);
        let given = given.and_then(Style::named);
        given.or_else(|| dialect.style()).unwrap_or(by_options)
    }

    /// # Errors
    /// When a file cannot be written, two options name the same file, or a condition needs a
    /// rate that the run does not have.
    pub(super) fn into_options(
        self,
        dialect: Dialect,
        run: Traits,
    ) -> Result<OutputOptions, Refusal> {
        let style = self.style(dialect, run);
        let values = self.given.values()?;
        let options = OutputOptions {
            style,
            text: TextOptions {
                latency: values.latency || values.uncorrected || values.percentiles.is_some(),
                uncorrected: values.uncorrected,
                breakout: values.breakout,
                by_name: values.by_name,
                percentiles: values.percentiles,
                wrk_correction: values.wrk_correction,
                // An explicit style prints that tool's table even without data.
                plain_if_empty: dialect == Dialect::Native && values.style.is_none(),
            },
            report: values.output.map(ReportFile::of_output).transpose()?,
            json: values.json.map(JsonTarget::of).transpose()?,
            labels: values.labels,
            hgrm: values.hgrm,
            hlog: values.hlog,
            fail_if: values.fail_if,
            strict: values.strict,
            keep_secrets: values.keep_secrets,
            once: values.once,
            quiet: values.quiet,
            // The emulated tools print nothing during the run.
            live: !values.quiet && dialect == Dialect::Native,
            tui: values.tui,
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
fn parse_label(text: &str) -> Result<(String, String), InvalidValue> {
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
        )
        .into()),
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

pub(super) fn parse_percentiles(text: &str) -> Result<Percentiles, InvalidValue> {
    let mut list = Vec::new();
    for part in text.split(',') {
        let part = part.trim();
        let value = parse_percent(part.strip_suffix('%').unwrap_or(part));
        list.push(value.ok_or_else(|| {
            format!("{part:?} is not a percentile (expected numbers up to 100, like 50,90,99.9)")
        })?);
    }
    if list.len() > MAX_PERCENTILES {
        return Err(format!("more than {MAX_PERCENTILES} percentiles").into());
    }
    list.sort_by(f64::total_cmp);
    list.dedup();
    Ok(Percentiles(list))
}
