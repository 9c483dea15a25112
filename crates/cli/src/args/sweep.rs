//! Arguments of `wrkbench sweep`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use experiment::{Draft, Keys, comma_separated};
use plan::Target;
use plan::units::parse_count_u32;

use super::Refusal;
use super::fleet::FleetArgs;
use super::load_options::LoadOptionArgs;
use super::run::is_url;

/// Rounds of a sweep without a file: differences between two levels can be judged from four on.
const ROUNDS: u32 = 5;
/// How long a server may take to respond after its restart.
const READY_WITHIN: &str = "30s";

/// Run an experiment: every combination of settings, repeatedly
///
/// The experiment file says what is varied (kernel settings, options of the load, files, commands)
/// and over which levels. Every combination is run once per round, in shuffled order. Results are
/// saved after each trial, and the sweep ends with a sentence and a table for each factor.
///
/// Everything is checked before anything is changed. Old values are recorded first, and restored
/// when the sweep ends, fails, is interrupted or is killed.
///
/// With a URL in place of the file, -L and --sysctl say what is varied, and the options of a run
/// what is sent. The experiment file that says the same is printed first.
#[derive(Debug, Clone, Args)]
pub(crate) struct SweepArgs {
    /// The experiment, a TOML file; or a URL, with what is varied as options
    #[arg(value_name = "EXPERIMENT|URL")]
    experiment: PathBuf,
    /// Print the trials and check for problems; change nothing, run nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Continue the sweep in the results folder
    #[arg(long)]
    pub(crate) resume: bool,
    /// Results folder, overriding the experiment's [default with a URL: a new one in results/]
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
    /// Run only the cells with these levels, like buffers=262144,524288; may be repeated; the other
    /// cells stay as they are
    #[arg(long, value_name = "FACTOR=LEVELS")]
    pub(crate) only: Vec<String>,
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
    /// With a URL: arguments for the script's init()
    #[arg(last = true, value_name = "ARGUMENT")]
    script_arguments: Vec<String>,
    #[command(flatten)]
    factors: FactorArgs,
    #[command(flatten)]
    load: LoadOptionArgs,
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
}

/// A sweep, with the experiment that the arguments name or describe.
#[derive(Debug)]
pub(crate) struct SweepRequest {
    pub(crate) source: ExperimentSource,
    pub(crate) arguments: SweepArgs,
    /// The arguments as typed, beginning with the name of the command.
    pub(crate) typed: Vec<String>,
}

/// What a sweep without a file varies, and its hooks.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Sweep without a file")]
struct FactorArgs {
    /// Vary an option of the load, like -L connections 16,64,256; several are crossed
    #[arg(short = 'L', long, num_args = 2, value_names = ["OPTION", "VALUES"],
          action = clap::ArgAction::Append,
          long_help = "Vary an option of the load: its long name, and its values with commas, like \
                       -L connections 16,64,256. A comma within a value is written as \\,. May be \
                       repeated; then every combination is run")]
    parameter_list: Vec<String>,
    /// Vary a kernel setting, like net.core.somaxconn=128,4096; several are crossed
    #[arg(long, value_name = "KEY=VALUES")]
    sysctl: Vec<String>,
    /// Command after a change of a kernel setting, like 'systemctl restart nginx'
    #[arg(long, value_name = "COMMAND")]
    restart: Option<String>,
    /// Command before the first run
    #[arg(long, value_name = "COMMAND")]
    setup: Option<String>,
    /// Command before each run
    #[arg(long, value_name = "COMMAND")]
    before: Option<String>,
    /// Command after each run
    #[arg(long, value_name = "COMMAND")]
    after: Option<String>,
    /// Command at the end, when everything is restored
    #[arg(long, value_name = "COMMAND")]
    teardown: Option<String>,
}

/// Where an experiment comes from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ExperimentSource {
    /// A file.
    File(PathBuf),
    /// Arguments.
    Draft(Box<Draft>),
}

impl SweepArgs {
    /// The sweep of these arguments.
    ///
    /// # Errors
    /// When arguments contradict each other, or a URL has nothing that is varied.
    pub(super) fn into_request(self, typed: Vec<String>) -> Result<SweepRequest, Refusal> {
        Ok(SweepRequest {
            source: self.source()?,
            arguments: self,
            typed,
        })
    }

    fn source(&self) -> Result<ExperimentSource, Refusal> {
        let target = match self.experiment.to_str().filter(|text| is_url(text)) {
            Some(url) => Target::parse(url).map_err(|error| Refusal(error.to_string()))?,
            None => {
                return self
                    .file()
                    .map(|file| ExperimentSource::File(file.to_owned()));
            }
        };
        let factors = self.factors.tables()?;
        if factors.is_empty() {
            return Err(Refusal(
                "nothing is varied: add -L OPTION VALUES, like -L connections 16,64,256, or \
                 --sysctl KEY=VALUES"
                    .to_owned(),
            ));
        }
        let names: Vec<&str> = factors.iter().map(|(name, _)| *name).collect();
        let script_arguments = &self.script_arguments;
        let load = Keys::default().with_options(self.load.iter()).with_some(
            "script_arguments",
            (!script_arguments.is_empty()).then(|| script_arguments.clone()),
        );
        let draft = Draft {
            top: Keys::default()
                .with("name", names.join(", "))
                .with("rounds", self.rounds.unwrap_or(ROUNDS)),
            load,
            // Unlike the URL, the host's name has no password.
            targets: vec![
                Keys::default()
                    .with("name", target.host_header)
                    .with("url", target.url),
            ],
            factors: factors.into_iter().map(|(_, keys)| keys).collect(),
            hooks: self.factors.hooks(),
            ..Draft::default()
        };
        Ok(ExperimentSource::Draft(Box::new(draft)))
    }

    /// The experiment file, which has everything that a URL needs options for.
    fn file(&self) -> Result<&Path, Refusal> {
        let name = self.load.iter().next().map(|(name, _)| name);
        let given = if self.factors != FactorArgs::default() {
            Some("-L, --sysctl and commands as options need a URL".to_owned())
        } else if !self.script_arguments.is_empty() {
            Some("arguments for a script need a URL".to_owned())
        } else {
            name.map(|name| format!("--{name}: options of the load need a URL"))
        };
        match given {
            Some(given) => Err(Refusal(format!(
                "{given}; {} is a file, so write it there",
                self.experiment.display()
            ))),
            None => Ok(&self.experiment),
        }
    }
}

impl FactorArgs {
    /// Each factor with its name.
    fn tables(&self) -> Result<Vec<(&str, Keys)>, Refusal> {
        let mut tables = Vec::new();
        for pair in self.parameter_list.chunks_exact(2) {
            let levels = comma_separated(&pair[1]);
            tables.push((pair[0].as_str(), Draft::option_factor(&pair[0], &levels)));
        }
        for text in &self.sysctl {
            let (key, levels) = text.split_once('=').ok_or_else(|| {
                Refusal(format!(
                    "--sysctl: {text:?} has no values (expected like net.core.somaxconn=128,4096)"
                ))
            })?;
            tables.push((key, Draft::sysctl_factor(key, &comma_separated(levels))));
        }
        Ok(tables)
    }

    fn hooks(&self) -> Keys {
        let starts_servers = self.restart.is_some() || self.setup.is_some();
        let ready = BTreeMap::from([("within".to_owned(), READY_WITHIN.to_owned())]);
        Keys::default()
            .with_some("setup", self.setup.clone())
            .with_some("restart", self.restart.clone())
            .with_some("ready", starts_servers.then_some(ready))
            .with_some("before", self.before.clone())
            .with_some("after", self.after.clone())
            .with_some("teardown", self.teardown.clone())
    }
}
