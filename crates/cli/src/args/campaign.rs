//! Arguments that all commands share which make many runs.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use experiment::{Draft, Keys};
use plan::InvalidValue;
use plan::units::parse_time;
use results::Metric;

use super::Refusal;
use super::outputs::OutputsArgs;
use super::report_files::{ReportFile, ReportFileArgs};
use crate::fleet::FleetArgs;

/// What all experiments have in common.
// Not below the heading of the options before them.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = None::<&'static str>)]
pub(crate) struct CampaignArgs {
    /// Print the trials, check for problems, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Continue with the trials in the results folder
    #[arg(long)]
    pub(crate) resume: bool,
    /// Results folder, overriding the experiment's.
    ///
    /// Without a file the default is a new folder in results/.
    #[arg(long, value_name = "DIR", allow_hyphen_values = true)]
    pub(crate) results: Option<PathBuf>,
    /// Stop after N failed trials in a row, overriding the experiment's [default: 3]; 0 never stops
    #[arg(long, value_name = "N")]
    pub(crate) max_failures: Option<u32>,
    /// Begin no trial that would not end by this time of day, like 06:00
    #[arg(long, value_name = "HH:MM", value_parser = parse_time_of_day)]
    pub(crate) stop_at: Option<jiff::civil::Time>,
    /// Do not try each level before the first trial: start at once
    #[arg(long)]
    pub(crate) no_try: bool,
    /// Wait until other experiments on this machine have ended
    #[arg(long)]
    pub(crate) wait: bool,
    /// Seed for the random order of trials.
    ///
    /// It overrides the experiment's.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) reports: ReportFileArgs,
    /// Print only refusals and failures.
    ///
    /// Neither the experiment nor a line for each run is printed.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Show cells and the current run full-screen; q is like Ctrl-C
    #[arg(long)]
    pub(crate) tui: bool,
    #[command(flatten)]
    pub(crate) outputs: OutputsArgs,
    /// Folder of the restore journal [default: same as for wrkbench restore]
    #[arg(long, value_name = "DIR")]
    pub(crate) journal: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
}

impl CampaignRequest {
    /// The reports to write at the end.
    ///
    /// # Errors
    /// When the format of a file is not known, or two files are the same.
    pub(crate) fn reports(&self) -> Result<Vec<ReportPlace>, Refusal> {
        let page = self.has_page.then_some(ReportPlace::Results);
        let files = self.arguments.reports.files()?;
        Ok(page
            .into_iter()
            .chain(files.into_iter().map(ReportPlace::File))
            .collect())
    }
}

/// A time of day, like `06:00`.
fn parse_time_of_day(text: &str) -> Result<jiff::civil::Time, InvalidValue> {
    jiff::civil::Time::strptime("%H:%M", text)
        .map_err(|_| format!("{text:?} is not a time of day (expected like 06:00)").into())
}

/// How long a server may take to respond after a command that starts it.
pub(super) fn ready() -> Keys {
    Keys::default().with("within", "30s")
}

/// Names of metrics in the form of the experiment file.
pub(super) fn judge(metrics: &[Metric]) -> Option<Vec<String>> {
    let names = || metrics.iter().map(|metric| metric.name.clone());
    (!metrics.is_empty()).then(|| names().collect())
}

/// A time above zero, like `10m`.
pub(super) fn parse_budget(text: &str) -> Result<Duration, InvalidValue> {
    match parse_time(text) {
        Ok(time) if !time.is_zero() => Ok(time),
        Ok(_) => Err("must be more than 0".into()),
        Err(error) => Err(InvalidValue::new(error)),
    }
}

/// Where an experiment comes from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ExperimentSource {
    /// A file.
    File(PathBuf),
    /// Arguments.
    Draft(Box<Draft>),
}

/// Where a report of an experiment goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReportPlace {
    /// A page in the results folder.
    Results,
    /// A file that an option names.
    File(ReportFile),
}

/// An experiment to make.
#[derive(Debug)]
pub(crate) struct CampaignRequest {
    pub(crate) source: ExperimentSource,
    pub(crate) arguments: CampaignArgs,
    /// What was taken for granted about the URLs.
    pub(crate) notes: Vec<String>,
    /// The number of rounds, if it is not that of the experiment.
    pub(crate) rounds: Option<u32>,
    /// Selections of the cells to run; empty for all.
    pub(crate) only: Vec<String>,
    /// The experiment ends when differences are known to within this share.
    pub(crate) until_precise: Option<f64>,
    /// The difference that does not matter, if it is not that of the experiment.
    pub(crate) threshold: Option<f64>,
    /// The metrics that are judged, if they are not those of the experiment.
    pub(crate) judge: Vec<Metric>,
    /// A level that is worse by more than this share is a regression.
    pub(crate) fail_on_regression: Option<f64>,
    /// The exit code is 2 if a search finds less than this rate, or fewer connections.
    pub(crate) least_load: Option<f64>,
    /// A given rate is judged: the exit code is 2 if it is not carried.
    pub(crate) is_check: bool,
    /// Its runs stop if the server refuses all of their first requests.
    pub(crate) stops_if_denied: bool,
    /// Whether there is a page in the results folder.
    pub(crate) has_page: bool,
    /// The arguments as typed, beginning with the name of the command.
    pub(crate) typed: Vec<String>,
}
