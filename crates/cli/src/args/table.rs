//! The arguments of the table.

use std::path::PathBuf;

use analysis::table::Wish;
use clap::{Args, ValueEnum};
use report::table::Format;

use super::Refusal;
use super::report::{Percentiles, parse_percentiles};

/// Rows and averages of runs: of a sweep, of saved results, of what wrk, wrk2 and wrk-cmm printed
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct TableArgs {
    /// Folders of sweeps, folders of results, results, notes with reports in them; - is stdin
    #[arg(value_name = "DIR|FILE", required = true)]
    paths: Vec<PathBuf>,
    /// How the table is written
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    format: FormatName,
    /// Show these quantities, like requests,requests_per_sec,latency_mean_us (docs/tables.md has all)
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Show these percentiles of the latency, like 50,99.9
    #[arg(long, value_name = "LIST", value_parser = parse_percentiles, allow_hyphen_values = true)]
    percentiles: Option<Percentiles>,
    /// Add rows for the spread: min, median, max, standard deviation, coefficient of variation
    #[arg(long)]
    spread: bool,
    /// Add columns for errors, by wrk's counters and by kind
    #[arg(long)]
    errors: bool,
    /// Add columns for answers by status
    #[arg(long)]
    statuses: bool,
    /// Add columns for what the kernel's books said
    #[arg(long)]
    telemetry: bool,
    /// Print each target's rounds side by side and nothing else
    #[arg(long)]
    summary: bool,
    /// Print how each run was named and why, and which text was ignored, instead of the table
    #[arg(long, conflicts_with = "summary")]
    explain: bool,
}

/// A format by its name on the command line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum FormatName {
    /// Markdown, as generate-table.sh prints it
    #[default]
    Md,
    /// Comma-separated values
    Csv,
    /// One JSON document
    Json,
}

/// What is read, and how it is shown.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TableRequest {
    /// What is read; `-` is stdin.
    pub(crate) paths: Vec<PathBuf>,
    /// What the table shows.
    pub(crate) wish: Wish,
    /// How it is written.
    pub(crate) layout: TableLayout,
}

/// How a table is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableLayout {
    /// As a table.
    Table(Format),
    /// Each target's rounds side by side.
    Summary,
    /// How each run was named.
    Explanation,
}

impl TableArgs {
    /// Reads the wish.
    ///
    /// # Errors
    /// When the summary or the explanation, which are text, are wanted in another format.
    pub(crate) fn into_request(self) -> Result<TableRequest, Refusal> {
        let format = match self.format {
            FormatName::Md => Format::Markdown,
            FormatName::Csv => Format::Csv,
            FormatName::Json => Format::Json,
        };
        for (option, is_wanted) in [("--summary", self.summary), ("--explain", self.explain)] {
            if is_wanted && format != Format::Markdown {
                return Err(Refusal(format!(
                    "{option}: is text only (leave out --format)"
                )));
            }
        }
        let columns: Option<Vec<String>> = self.columns.map(|names| {
            let names = names.into_iter().map(|name| name.trim().to_owned());
            names.filter(|name| !name.is_empty()).collect()
        });
        if columns.as_ref().is_some_and(Vec::is_empty) {
            return Err(Refusal(
                "--columns: needs names (like requests,latency_mean_us)".to_owned(),
            ));
        }
        Ok(TableRequest {
            paths: self.paths,
            wish: Wish {
                columns,
                percentiles: self.percentiles.map(|Percentiles(list)| list),
                spread: self.spread,
                errors: self.errors,
                statuses: self.statuses,
                telemetry: self.telemetry,
            },
            layout: match (self.summary, self.explain) {
                (true, _) => TableLayout::Summary,
                (_, true) => TableLayout::Explanation,
                (false, false) => TableLayout::Table(format),
            },
        })
    }
}
