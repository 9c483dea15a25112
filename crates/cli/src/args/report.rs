//! The arguments about what is printed, saved and judged, and the wish they make.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use plan::units::parse_percent;
use report::{Format, TextOptions};
use results::{Criterion, CriterionError};

use super::{Dialect, Refusal};

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Report")]
pub(super) struct ReportArgs {
    /// Print how the latency is distributed
    #[arg(short = 'L', long)]
    latency: bool,
    /// Print these percentiles, like 50,90,99.9 (with --latency implied)
    #[arg(long, value_name = "LIST", value_parser = parse_percentiles, allow_hyphen_values = true)]
    percentiles: Option<Percentiles>,
    /// Print the latency as well without the wait for sending (with --latency implied)
    // `--u` is this option in wrk2, and would be ambiguous here.
    #[arg(short = 'U', long = "u_latency", aliases = ["u-latency", "u"])]
    uncorrected: bool,
    /// Print rows for connecting, the first byte and the last byte of answers
    #[arg(long)]
    breakout: bool,
    /// Correct the latencies as wrk does, by its expected interval
    #[arg(long)]
    wrk_correction: bool,
    /// The tool whose text is printed [default: cmm with --breakout, wrk2 with a rate or -U, cmm with -D or -b]
    #[arg(long, value_name = "TOOL", value_enum)]
    style: Option<Style>,
    /// Write the whole result as JSON; - is stdout, then nothing else is written there
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    json: Option<PathBuf>,
    /// Write the distribution of latency for HdrHistogram's plotter
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    hgrm: Option<PathBuf>,
    /// Write the latency over time as a log of HdrHistograms
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    hlog: Option<PathBuf>,
    /// Exit with 2 if a condition holds, like 'p99>50ms' 'errors>0.1%' 'rps<9000'
    #[arg(long, value_name = "CONDITION", value_parser = parse_criteria)]
    fail_if: Vec<Criteria>,
    /// Exit with 5 if the generator was the limit, not the server
    #[arg(long)]
    strict: bool,
    /// Leave passwords, tokens and cookies in what is shown and saved, instead of ***
    #[arg(long)]
    show_secrets: bool,
    /// Neither notes and warnings nor the run's progress on stderr
    #[arg(short, long)]
    quiet: bool,
    /// Show the run on the whole terminal while it is on; q stops and reports
    #[arg(long)]
    tui: bool,
}

/// A tool by its text, with names for the command line.
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

/// What is printed and saved of a run, and what it is judged by.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ReportWish {
    /// Whose text is printed.
    pub(crate) style: Style,
    /// What the text shows beyond its fixed lines.
    pub(crate) text: TextOptions,
    /// Where the document goes.
    pub(crate) json: Option<JsonTarget>,
    /// Where the distribution goes.
    pub(crate) hgrm: Option<PathBuf>,
    /// Where the latency over time goes.
    pub(crate) hlog: Option<PathBuf>,
    /// Any of them ends the program with another exit code.
    pub(crate) fail_if: Vec<Criterion>,
    /// So does a generator that was the limit.
    pub(crate) strict: bool,
    /// Passwords, tokens and cookies are not hidden.
    pub(crate) show_secrets: bool,
    /// Neither notes nor warnings.
    pub(crate) quiet: bool,
    /// How it goes is shown while the run is on.
    pub(crate) live: bool,
    /// On the whole terminal.
    pub(crate) tui: bool,
}

/// Where the JSON document goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JsonTarget {
    /// Standard output, which then carries nothing else of ours.
    Stdout,
    /// A file, replaced as a whole.
    File(PathBuf),
}

/// What of a run decides on its text when nobody has said which one is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Traits {
    /// It has a rate: wrk2's territory.
    pub(super) is_open: bool,
    /// It has one of wrk-cmm's own options.
    pub(super) has_options_of_cmm: bool,
}

impl ReportWish {
    /// Files that are written after the run, each with its option and what it gets.
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

    /// Whether a file of another option can be one.
    ///
    /// # Errors
    /// When it is stdout, or one of the report's files.
    pub(super) fn check_other_file(&self, option: &str, path: &Path) -> Result<(), Refusal> {
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
            "{option} {path:?}: is the file of {other}"
        ))),
        None => Ok(()),
    }
}

impl ReportArgs {
    /// Whose text is printed. Rows for phases are in wrk-cmm's alone, the uncorrected latency in wrk2's, which is also
    /// that of a rate.
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
    /// When a file cannot be one, two are the same, or a condition asks for what the run will not have.
    pub(super) fn into_wish(self, dialect: Dialect, run: Traits) -> Result<ReportWish, Refusal> {
        let wish = ReportWish {
            style: self.style(dialect, run),
            text: TextOptions {
                latency: self.latency || self.uncorrected || self.percentiles.is_some(),
                uncorrected: self.uncorrected,
                breakout: self.breakout,
                percentiles: self.percentiles.map(|Percentiles(list)| list),
                wrk_correction: self.wrk_correction,
                // Whoever asks for the text of a tool gets its table.
                plain_if_empty: dialect == Dialect::Native && self.style.is_none(),
            },
            json: self.json.map(|path| {
                if path.as_os_str() == "-" {
                    JsonTarget::Stdout
                } else {
                    JsonTarget::File(path)
                }
            }),
            hgrm: self.hgrm,
            hlog: self.hlog,
            fail_if: self.fail_if.into_iter().flat_map(|list| list.0).collect(),
            strict: self.strict,
            show_secrets: self.show_secrets,
            quiet: self.quiet,
            // The other tools say nothing until they are done.
            live: !self.quiet && dialect == Dialect::Native,
            tui: self.tui,
        };
        let files: Vec<_> = wish.files().collect();
        for (at, (option, _, path)) in files.iter().enumerate() {
            check_file(option, path, &files[..at])?;
        }
        let unknowable = wish
            .fail_if
            .iter()
            .find(|criterion| criterion.needs_a_rate());
        if let Some(criterion) = unknowable.filter(|_| !run.is_open) {
            return Err(Refusal(format!(
                "--fail-if {criterion}: needs a rate (-R or --stages)"
            )));
        }
        Ok(wish)
    }
}

/// The conditions of one value.
#[derive(Debug, Clone)]
pub(super) struct Criteria(pub(super) Vec<Criterion>);

pub(super) fn parse_criteria(text: &str) -> Result<Criteria, CriterionError> {
    Criterion::parse_list(text).map(Criteria)
}

/// Ascending, each in 0..=100, none twice.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Percentiles(pub(super) Vec<f64>);

/// More would not fit a screen, and each is a walk over the histogram.
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
