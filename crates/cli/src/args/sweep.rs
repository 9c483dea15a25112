//! The arguments of an experiment.

use std::path::PathBuf;

use clap::Args;
use plan::units::parse_count_u32;

/// Run an experiment: every combination of levels, several rounds, and the machine as it was at the end
#[derive(Debug, Clone, Args)]
#[command(after_help = super::exit_codes())]
pub(crate) struct SweepArgs {
    /// The plan of the experiment, a TOML file
    #[arg(value_name = "PLAN")]
    pub(crate) plan: PathBuf,
    /// Print the whole plan and find what would fail; change nothing, run nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Go on with the sweep that the folder of results holds
    #[arg(long)]
    pub(crate) resume: bool,
    /// Folder of the results, in place of the plan's
    #[arg(long, value_name = "DIR", allow_hyphen_values = true)]
    pub(crate) results: Option<PathBuf>,
    /// Rounds, in place of the plan's; with --resume there can be more than before
    #[arg(long, value_name = "N", value_parser = parse_count_u32, allow_hyphen_values = true)]
    pub(crate) rounds: Option<u32>,
    /// End after so many failed trials in a row, in place of the plan's [default: 3]; 0 goes on whatever fails
    #[arg(long, value_name = "N")]
    pub(crate) max_failures: Option<u32>,
    /// Seed of the order, in place of the plan's
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// End with code 3 if a level is worse than the first one of its factor by more than this, and not by
    /// chance
    #[arg(long, value_name = "PERCENT", value_parser = super::compare::parse_share,
          allow_hyphen_values = true)]
    pub(crate) fail_on_regression: Option<f64>,
    /// Only refusals and failures on stderr: neither the plan nor a line for each run
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Show the sweep on the whole terminal: all cells, and the run that is on; q ends it as Ctrl-C does
    #[arg(long)]
    pub(crate) tui: bool,
    /// Folder of the journal that everything is put back by [default: as of wrkbench restore]
    #[arg(long, value_name = "DIR")]
    pub(crate) journal: Option<PathBuf>,
}
