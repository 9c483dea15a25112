//! Arguments of `wrkbench sweep`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use experiment::{Draft, Keys, Starter, comma_separated};
use plan::units::{parse_count_u32, percentage};
use results::Metric;

use super::campaign::{CampaignArgs, CampaignRequest, ExperimentSource, judge, ready};
use super::load_options::LoadOptionArgs;
use super::run::is_url;
use super::url::{self, GivenUrl};
use super::{Refusal, Request};

/// Rounds of a sweep without a file: differences between two levels can be judged from four on.
const ROUNDS: u32 = 5;

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
/// what is sent. With --dry-run the experiment file that says the same is printed.
#[derive(Debug, Clone, Args)]
pub(crate) struct SweepArgs {
    /// The experiment, a TOML file; or a URL, with what is varied as options
    #[arg(value_name = "EXPERIMENT|URL", required_unless_present = "init")]
    experiment: Option<PathBuf>,
    /// Print a commented experiment file to begin with
    #[arg(long, value_name = "SERVER", value_enum,
          conflicts_with_all = ["experiment", "parameter_list", "sysctl"])]
    init: Option<Init>,
    /// Number of rounds, overriding the experiment's.
    ///
    /// With --resume it can be more than before.
    #[arg(long, value_name = "N", value_parser = parse_count_u32, allow_hyphen_values = true)]
    rounds: Option<u32>,
    /// End when differences are known to this much to either side.
    ///
    /// The differences are those between levels. The number of rounds is then the most that are
    /// run.
    #[arg(long, value_name = "PERCENT", value_parser = super::compare::parse_share)]
    until_precise: Option<f64>,
    /// Smallest difference that matters [default: 2%].
    ///
    /// It overrides the experiment's.
    #[arg(long, value_name = "PERCENT", value_parser = super::compare::parse_share,
          allow_hyphen_values = true)]
    threshold: Option<f64>,
    /// Metrics to judge, like requests/s,p99.9,max.
    ///
    /// They override the experiment's. The default is requests/s, p99, and errors if there are any;
    /// with --events llm the metrics of tokens.
    #[arg(long, value_name = "NAMES", value_parser = Metric::parse, value_delimiter = ',')]
    judge: Vec<Metric>,
    /// Run only cells with these levels, like buffers=1M,2M.
    ///
    /// It may be repeated for other factors. The results of other cells stay as they are.
    #[arg(long, value_name = "FACTOR=LEVELS")]
    only: Vec<String>,
    /// Exit with code 3 if a level is worse by more than PERCENT.
    ///
    /// A level is compared with the first one of its factor. The difference has to be significant.
    #[arg(long, value_name = "PERCENT", value_parser = super::compare::parse_share,
          allow_hyphen_values = true)]
    fail_on_regression: Option<f64>,
    /// With a URL: arguments for the script's init()
    #[arg(last = true, value_name = "ARGUMENT")]
    script_arguments: Vec<String>,
    #[command(flatten)]
    factors: FactorArgs,
    #[command(flatten)]
    load: LoadOptionArgs,
    #[command(flatten)]
    campaign: CampaignArgs,
}

/// What a sweep without a file varies, and its hooks.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Sweep without a file")]
struct FactorArgs {
    /// Vary an option of the load, like -L connections 16,64,256
    #[arg(short = 'L', long, num_args = 2, value_names = ["OPTION", "LIST"],
          action = clap::ArgAction::Append,
          long_help = "Vary an option of the load: its long name, and its values with commas, like \
                       -L connections 16,64,256. A comma within a value is written as \\,. May be \
                       repeated; then every combination is run")]
    parameter_list: Vec<String>,
    /// Vary a kernel setting, like net.core.somaxconn=128,4096.
    ///
    /// It may be repeated; then every combination is run.
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

/// [`Starter`] as a command-line value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Init {
    Nginx,
    PhpFpm,
    Squid,
    Sysctl,
}

impl From<Init> for Starter {
    fn from(init: Init) -> Self {
        match init {
            Init::Nginx => Self::Nginx,
            Init::PhpFpm => Self::PhpFpm,
            Init::Squid => Self::Squid,
            Init::Sysctl => Self::Sysctl,
        }
    }
}

impl SweepArgs {
    /// What these arguments request; `typed` are the arguments as typed.
    ///
    /// # Errors
    /// When arguments contradict each other, or a URL has nothing that is varied.
    pub(super) fn into_request(self, typed: Vec<String>) -> Result<Request, Refusal> {
        if let Some(init) = self.init {
            return Ok(Request::Starter(init.into()));
        }
        Ok(Request::Campaign(Box::new(CampaignRequest {
            notes: self
                .url()?
                .and_then(|given| given.note)
                .into_iter()
                .collect(),
            source: self.source()?,
            arguments: self.campaign,
            rounds: self.rounds,
            only: self.only,
            until_precise: self.until_precise,
            threshold: self.threshold,
            judge: self.judge,
            fail_on_regression: self.fail_on_regression,
            least_load: None,
            is_check: false,
            stops_if_denied: false,
            has_page: false,
            typed,
        })))
    }

    /// The URL, if it is one and not a file.
    fn url(&self) -> Result<Option<GivenUrl>, Refusal> {
        let text = self.experiment.as_deref().and_then(Path::to_str);
        let is_meant = |text: &&str| {
            is_url(text) || (url::completed(text).is_some() && !Path::new(text).exists())
        };
        text.filter(is_meant).map(url::parse).transpose()
    }

    fn source(&self) -> Result<ExperimentSource, Refusal> {
        // clap requires it without --init.
        let experiment = self.experiment.as_deref().unwrap_or_else(|| Path::new(""));
        let target = match self.url()? {
            Some(given) => given.target,
            None => {
                self.check_file(experiment)?;
                return Ok(ExperimentSource::File(experiment.to_owned()));
            }
        };
        let factors = self.factors.tables()?;
        if factors.is_empty() {
            return Err(Refusal(
                "nothing is varied: add -L OPTION LIST, like -L connections 16,64,256, or \
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
        let until = self
            .until_precise
            .map(|it| Keys::default().with("precision", percentage(it)));
        let draft = Draft {
            top: Keys::default()
                .with("name", names.join(", "))
                .with("rounds", self.rounds.unwrap_or(ROUNDS))
                .with_some("threshold", self.threshold.map(percentage))
                .with_some("judge", judge(&self.judge))
                .with_some("until", until)
                .with_some("max_failures", self.campaign.max_failures),
            load,
            // Unlike the URL, the host's name has no password.
            targets: vec![
                Keys::default()
                    .with("name", target.host_header)
                    .with("url", target.url),
            ],
            factors: factors.into_iter().map(|(_, keys)| keys).collect(),
            hooks: self.factors.hooks(),
            telemetry: self.load.telemetry(),
            ..Draft::default()
        };
        Ok(ExperimentSource::Draft(Box::new(draft)))
    }

    /// Rejects options whose place is in the experiment file.
    fn check_file(&self, file: &Path) -> Result<(), Refusal> {
        let name = self.load.all().next().map(|(name, _)| name);
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
                file.display()
            ))),
            None => Ok(()),
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
        Keys::default()
            .with_some("setup", self.setup.clone())
            .with_some("restart", self.restart.clone())
            .with_some("ready", starts_servers.then(ready))
            .with_some("before", self.before.clone())
            .with_some("after", self.after.clone())
            .with_some("teardown", self.teardown.clone())
    }
}
