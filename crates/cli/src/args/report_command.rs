//! Arguments of `wrkbench report`.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use judging::Criterion;
use report::export::ExportFormat;
use report::picture::Theme;

use analysis::compare::Metric;

use super::Refusal;
use super::compare::metrics_named;
use super::report::{Criteria, parse_criteria};
use super::report_files::format_of_name;

/// Write a page with charts, or convert runs to another format
///
/// The page is one HTML file that works offline. With `--fail-if`, the exit code judges every run.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReportCommandArgs {
    /// Sweep folders, result folders, result files, or text files with reports of wrk, wrk2 or
    /// wrk-cmm; - is stdin
    #[arg(value_name = "DIR|FILE", required = true)]
    paths: Vec<PathBuf>,
    /// Output file [default: report.html]; - is stdout.
    ///
    /// With --format the default is stdout.
    #[arg(short, long, value_name = "FILE", allow_hyphen_values = true)]
    output: Option<PathBuf>,
    /// Output format [default: from the extension of FILE]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    format: Option<ExportFormat>,
    /// Title [default: derived from the runs]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    title: Option<String>,
    /// Write one chart of the page as an SVG file, like latency.
    ///
    /// NAME is the name of the chart or its beginning. An unknown one lists the charts of the page.
    #[arg(long, value_name = "NAME", requires = "output",
          conflicts_with_all = ["format", "title", "trend", "fail_if"])]
    chart: Option<String>,
    /// With --chart: the ground that the picture is for
    #[arg(long, value_name = "THEME", requires = "chart", value_parser = themes(),
          default_value = "light")]
    theme: Theme,
    /// Show the history of the runs, and where a metric changed.
    ///
    /// Prints a table with the median of each day or label, and writes a page with charts.
    #[arg(long, conflicts_with_all = ["format", "fail_if"])]
    trend: bool,
    /// With --trend: label of the points, like version [default: the day]
    #[arg(long, value_name = "LABEL", requires = "trend")]
    by: Option<String>,
    /// With --trend: metrics to follow, like requests/s,p99.
    ///
    /// It may be repeated. The default is requests/s without a rate, p99 and p50; of runs with
    /// tokens the metrics of tokens.
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "trend",
          action = clap::ArgAction::Append)]
    metric: Vec<String>,
    /// Exit with code 2 if a run meets a condition, like 'p99>50ms'
    #[arg(long, value_name = "CONDITION", value_parser = parse_criteria)]
    fail_if: Vec<Criteria>,
}

/// What to read, and what to write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReportRequest {
    /// Inputs; `-` is stdin.
    pub(crate) paths: Vec<PathBuf>,
    /// The output file; `None` for stdout.
    pub(crate) output: Option<PathBuf>,
    /// The output file was not given: it must only replace a page written by wrkbench.
    pub(crate) is_default_output: bool,
    pub(crate) format: ExportFormat,
    pub(crate) title: Option<String>,
    /// One chart of the page in place of the page.
    pub(crate) chart: Option<ChartRequest>,
    /// The history of the runs in place of a page about them.
    pub(crate) trend: Option<TrendRequest>,
    /// If any of these holds for a run, the exit code is 2.
    pub(crate) fail_if: Vec<Criterion>,
}

/// A chart that becomes a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChartRequest {
    /// As typed: the name of the chart, or its beginning.
    pub(crate) name: String,
    pub(crate) theme: Theme,
}

/// What a history shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TrendRequest {
    /// The label whose values are points; `None` for days.
    pub(crate) by: Option<String>,
    /// The defaults if empty.
    pub(crate) metrics: Vec<Metric>,
}

fn themes() -> impl TypedValueParser<Value = Theme> {
    PossibleValuesParser::new(["light", "dark"]).map(|name| match name.as_str() {
        "dark" => Theme::Dark,
        _ => Theme::Light,
    })
}

fn formats() -> impl TypedValueParser<Value = ExportFormat> {
    let values = ExportFormat::ALL
        .iter()
        .map(|format| PossibleValue::new(format.name()).help(format.describe()));
    PossibleValuesParser::new(values).try_map(|name| {
        let mut all = ExportFormat::ALL.iter().copied();
        all.find(|format| format.name() == name)
            .ok_or_else(|| format!("{name:?} is not a format"))
    })
}

const DEFAULT_OUTPUT: &str = "report.html";

impl ReportCommandArgs {
    /// Resolves defaults.
    ///
    /// # Errors
    /// When the format is neither given nor implied by the file name.
    pub(crate) fn into_request(self) -> Result<ReportRequest, Refusal> {
        let is_default_output = self.output.is_none() && self.format.is_none();
        let output = match self.output {
            Some(path) if path.as_os_str() == "-" => None,
            None if is_default_output => Some(DEFAULT_OUTPUT.into()),
            given => given,
        };
        if let (Some(_), Some(path)) = (&self.chart, &output) {
            check_picture(path)?;
        }
        let format = match (self.format, &output) {
            (Some(format), _) => format,
            _ if self.chart.is_some() => ExportFormat::Html,
            (None, Some(path)) if is_picture(path) => {
                return Err(Refusal(format!(
                    "-o {path:?}: a picture shows one chart (add --chart NAME, like latency)"
                )));
            }
            (None, Some(path)) => format_of_name(path, ", or --format")?,
            (None, None) => {
                return Err(Refusal(
                    "report: -o - needs a format (--format md, or html for a page)".to_owned(),
                ));
            }
        };
        if self.trend && format != ExportFormat::Html {
            return Err(Refusal(
                "--trend: the history is a table on stdout and a page (expected -o FILE.html)"
                    .to_owned(),
            ));
        }
        Ok(ReportRequest {
            paths: self.paths,
            output,
            is_default_output,
            format,
            title: self.title,
            chart: self.chart.map(|name| ChartRequest {
                name,
                theme: self.theme,
            }),
            trend: self.trend.then(|| TrendRequest {
                by: self.by,
                metrics: metrics_named(&self.metric),
            }),
            fail_if: self.fail_if.into_iter().flat_map(|list| list.0).collect(),
        })
    }
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension()
        .is_some_and(|it| it.eq_ignore_ascii_case(ending))
}

fn is_picture(path: &Path) -> bool {
    has_ending(path, "svg") || has_ending(path, "png")
}

/// # Errors
/// When the file name is not that of an SVG file.
fn check_picture(path: &Path) -> Result<(), Refusal> {
    if has_ending(path, "svg") {
        return Ok(());
    }
    let advice = if has_ending(path, "png") {
        "; a button of the page saves its charts as PNG"
    } else {
        ""
    };
    Err(Refusal(format!(
        "-o {path:?}: --chart writes SVG (expected .svg{advice})"
    )))
}
