//! Arguments of `wrkbench table`.

use std::path::PathBuf;

use analysis::table::TableOptions;
use clap::{Args, ValueEnum};
use report::table::Format;

use super::Refusal;
use super::report::{Percentiles, parse_percentiles};

/// Print runs and their averages as a table
///
/// Reads sweeps, saved results, and text with reports of wrk, wrk2 and wrk-cmm. Runs with the same
/// load are averaged.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct TableArgs {
    /// Sweep folders, result folders, result files, or text files with reports of wrk, wrk2 or
    /// wrk-cmm; - is stdin
    #[arg(value_name = "DIR|FILE", required_unless_present = "columns")]
    paths: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    format: FormatName,
    /// Metrics to show, like requests,requests_per_sec; without LIST, print all names by topic
    #[arg(long, value_name = "LIST", value_delimiter = ',', num_args = 0..=1)]
    columns: Option<Vec<String>>,
    /// Latency percentiles to show, like 50,99.9
    #[arg(long, value_name = "LIST", value_parser = parse_percentiles, allow_hyphen_values = true)]
    percentiles: Option<Percentiles>,
    /// Add rows for minimum, median, maximum and spread.
    ///
    /// The spread is the standard deviation, and the coefficient of variation in percent.
    #[arg(long)]
    spread: bool,
    /// Add columns for errors, by wrk's counters and by kind
    #[arg(long)]
    errors: bool,
    /// Add columns for responses by status
    #[arg(long)]
    statuses: bool,
    /// Add columns for kernel counters and sockets
    #[arg(long)]
    telemetry: bool,
    /// Add rows for the requests with each name.
    ///
    /// Their columns are requests/s, percentiles and errors.
    #[arg(long, conflicts_with_all = ["summary", "explain"])]
    by_name: bool,
    /// Average runs that agree in these parts of their names, like target,heading.
    ///
    /// Runs of different loads stay apart.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    group_by: Option<Vec<String>>,
    /// Print only a summary, with the rounds of each target side by side
    #[arg(long)]
    summary: bool,
    /// Instead of the table, print how each run was named and why.
    ///
    /// Text that was ignored is listed as well.
    #[arg(long, conflicts_with = "summary")]
    explain: bool,
}

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

/// What to read, and how to show it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TableRequest {
    /// Inputs; `-` is stdin.
    pub(crate) paths: Vec<PathBuf>,
    /// The parts of names that distinguish runs; all by default.
    pub(crate) group_by: Option<Vec<String>>,
    pub(crate) options: TableOptions,
    pub(crate) layout: TableLayout,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableLayout {
    Table(Format),
    Summary,
    Explanation,
    /// The names of metrics, and no runs.
    Names,
}

impl TableArgs {
    /// Resolves the options.
    ///
    /// # Errors
    /// When `--summary` or `--explain`, which are text only, are combined with another format.
    pub(crate) fn into_request(self) -> Result<TableRequest, Refusal> {
        let format = match self.format {
            FormatName::Md => Format::Markdown,
            FormatName::Csv => Format::Csv,
            FormatName::Json => Format::Json,
        };
        for (option, is_wanted) in [("--summary", self.summary), ("--explain", self.explain)] {
            if is_wanted && format != Format::Markdown {
                return Err(Refusal(format!(
                    "{option}: prints text only (leave out --format)"
                )));
            }
        }
        let wants_names = self.columns.as_ref().is_some_and(Vec::is_empty);
        let columns: Option<Vec<String>> = self.columns.map(|names| {
            let names = names.into_iter().map(|name| name.trim().to_owned());
            names.filter(|name| !name.is_empty()).collect()
        });
        if !wants_names && columns.as_ref().is_some_and(Vec::is_empty) {
            let text = "--columns: needs names (--columns without a value prints them)";
            return Err(Refusal(text.to_owned()));
        }
        if let Some(names) = columns
            .as_ref()
            .filter(|_| self.paths.is_empty() && !wants_names)
        {
            return Err(Refusal(format!(
                "--columns {}: which runs? (expected like table run.json --columns {0})",
                names.join(",")
            )));
        }
        Ok(TableRequest {
            paths: self.paths,
            group_by: self.group_by,
            options: TableOptions {
                columns,
                percentiles: self.percentiles.map(|Percentiles(list)| list),
                spread: self.spread,
                errors: self.errors,
                statuses: self.statuses,
                telemetry: self.telemetry,
                by_name: self.by_name,
            },
            layout: match (self.summary, self.explain) {
                _ if wants_names => TableLayout::Names,
                (true, _) => TableLayout::Summary,
                (_, true) => TableLayout::Explanation,
                (false, false) => TableLayout::Table(format),
            },
        })
    }
}
