//! Arguments of `wrkbench sweep`.

use std::path::PathBuf;

use clap::Args;
use plan::units::parse_count_u32;

use super::fleet::FleetArgs;

/// Run an experiment: every combination of settings, repeatedly
///
/// The experiment file says what is varied (kernel settings, options of the load, files, commands)
/// and over which levels. Every combination is run once per round, in shuffled order. Results are
/// saved after each trial, and the sweep ends with a sentence and a table for each factor.
///
/// Everything is checked before anything is changed. Old values are recorded first, and restored
/// when the sweep ends, fails, is interrupted or is killed.
#[derive(Debug, Clone, Args)]
pub(crate) struct SweepArgs {
    /// The experiment, a TOML file
    #[arg(value_name = "EXPERIMENT")]
    pub(crate) experiment: PathBuf,
    /// Print the trials and check for problems; change nothing, run nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Continue the sweep in the results folder
    #[arg(long)]
    pub(crate) resume: bool,
    /// Results folder, overriding the experiment's
    #[arg(long, value_name = "DIR", allow_hyphen_values = true)]
    pub(crate) results: Option<PathBuf>,
    /// Number of rounds, overriding the experiment's; with --resume it can be more than before
    #[arg(long, value_name = "N", value_parser = parse_count_u32, allow_hyphen_values = true)]
    pub(crate) rounds: Option<u32>,
    /// Stop after N failed trials in a row, overriding the experiment's [default: 3]; 0 never stops
    #[arg(long, value_name = "N")]
    pub(crate) max_failures: Option<u32>,
    /// Do not try each level before the first trial: start at once
    #[arg(long)]
    pub(crate) no_try: bool,
    /// Seed for the order of trials, overriding the experiment's
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Exit with code 3 if a level is worse than the first level of its factor by more than PERCENT
    /// and the difference is significant
    #[arg(long, value_name = "PERCENT", value_parser = super::compare::parse_share,
          allow_hyphen_values = true)]
    pub(crate) fail_on_regression: Option<f64>,
    /// Print only refusals and failures: neither the experiment nor a line for each run
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Show the sweep full-screen: all cells and the current run; q ends it like Ctrl-C
    #[arg(long)]
    pub(crate) tui: bool,
    /// Folder of the restore journal [default: same as for wrkbench restore]
    #[arg(long, value_name = "DIR")]
    pub(crate) journal: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
}
