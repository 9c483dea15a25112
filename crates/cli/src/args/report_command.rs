//! The arguments of the command `report`: what is read, where it goes, and in which format.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use report::export::ExportFormat;
use results::Criterion;

use super::Refusal;
use super::report::{Criteria, parse_criteria};

/// A page with charts, or a text for another tool: of runs, sweeps, and what wrk, wrk2 and wrk-cmm printed
#[derive(Debug, Clone, Args)]
pub(crate) struct ReportCommandArgs {
    /// Folders of sweeps, folders of results, results, notes with reports in them; - is stdin
    #[arg(value_name = "DIR|FILE", required = true)]
    paths: Vec<PathBuf>,
    /// Where it goes [default: report.html, or stdout with --format]; - is stdout
    #[arg(short, long, value_name = "FILE", allow_hyphen_values = true)]
    output: Option<PathBuf>,
    /// How it is written [default: what the end of FILE's name says]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    format: Option<ExportFormat>,
    /// What it is called, instead of what the runs suggest
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    title: Option<String>,
    /// Exit with 2 if a condition holds for a run, like 'p99>50ms' 'errors>0.1%' 'rps<9000'
    #[arg(long, value_name = "CONDITION", value_parser = parse_criteria)]
    fail_if: Vec<Criteria>,
}

/// What is read, and what becomes of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReportRequest {
    /// What is read; `-` is stdin.
    pub(crate) paths: Vec<PathBuf>,
    /// The file it goes to; stdout if there is none.
    pub(crate) output: Option<PathBuf>,
    /// Nobody has named the file: it must not replace what is no page of ours.
    pub(crate) is_default_output: bool,
    /// How it is written.
    pub(crate) format: ExportFormat,
    /// What it is called.
    pub(crate) title: Option<String>,
    /// Any of them that holds ends the program with another exit code.
    pub(crate) fail_if: Vec<Criterion>,
}

fn formats() -> impl TypedValueParser<Value = ExportFormat> {
    let values = ExportFormat::ALL
        .iter()
        .map(|format| PossibleValue::new(format.name()).help(format.describe()));
    PossibleValuesParser::new(values).try_map(|name| {
        let mut all = ExportFormat::ALL.iter().copied();
        all.find(|format| format.name() == name)
            .ok_or_else(|| format!("{name:?} is no format"))
    })
}

/// Where a page goes that nobody has named a file for.
const DEFAULT_OUTPUT: &str = "report.html";

impl ReportCommandArgs {
    /// Reads the wish.
    ///
    /// # Errors
    /// When nothing says which format is wanted.
    pub(crate) fn into_request(self) -> Result<ReportRequest, Refusal> {
        let is_default_output = self.output.is_none() && self.format.is_none();
        let output = match self.output {
            Some(path) if path.as_os_str() == "-" => None,
            None if is_default_output => Some(DEFAULT_OUTPUT.into()),
            given => given,
        };
        let format = match (self.format, &output) {
            (Some(format), _) => format,
            (None, Some(path)) => of_name(path)?,
            (None, None) => {
                return Err(Refusal(
                    "report: -o - needs a format (--format md, or html for a page)".to_owned(),
                ));
            }
        };
        Ok(ReportRequest {
            paths: self.paths,
            output,
            is_default_output,
            format,
            title: self.title,
            fail_if: self.fail_if.into_iter().flat_map(|list| list.0).collect(),
        })
    }
}

fn of_name(path: &Path) -> Result<ExportFormat, Refusal> {
    ExportFormat::of_file(path).ok_or_else(|| {
        let endings = ExportFormat::ALL
            .iter()
            .filter_map(|format| format.endings().first());
        let endings: Vec<String> = endings.map(|ending| format!(".{ending}")).collect();
        Refusal(format!(
            "-o {path:?}: no format has files of this name (expected {}, or --format)",
            endings.join(", ")
        ))
    })
}
