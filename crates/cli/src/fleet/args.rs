//! What options of a fleet say, and the arguments of `wrkbench agent` and `wrkbench fleet`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use fleet::{
    AgentId, FleetName, Label, LocalFleet, Number, OnLost, RunId, Selection, Targets, Wanted,
};
use plan::secrets::hide_secrets;
use plan::units::{parse_count_u32, parse_rate, parse_time};
use plan::{InvalidValue, Target, Weight};

use super::options::{DEFAULT_FLEET, FleetArgs, LinkArgs, LoginArgs, OnLostArg};
use crate::args::outputs::parse_address;
use crate::args::{JsonTarget, Refusal};

impl From<OnLostArg> for OnLost {
    fn from(value: OnLostArg) -> Self {
        match value {
            OnLostArg::Continue => Self::Continue,
            OnLostArg::Abort => Self::Abort,
        }
    }
}

/// A value of `--agents`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AgentsArg {
    Number(u32),
    Names(Vec<AgentId>),
}

/// A number, or names with commas. A number alone is a number, even if an agent has this name.
pub(super) fn parse_agents(text: &str) -> Result<AgentsArg, InvalidValue> {
    if let Ok(number) = parse_count_u32(text) {
        return Ok(AgentsArg::Number(number));
    }
    if text.starts_with('-') {
        return Err("expected a number of agents, or their names".into());
    }
    let names = text.split(',').map(|name| name.trim().parse());
    let names: Result<Vec<AgentId>, fleet::NameError> = names.collect();
    let names = names.map_err(|error| format!("{error}, or a number of agents"))?;
    Ok(AgentsArg::Names(names))
}

impl std::fmt::Display for AgentsArg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Names(names) => {
                let names: Vec<&str> = names.iter().map(AgentId::as_str).collect();
                write!(f, "{}", names.join(","))
            }
        }
    }
}

/// A value of `--at`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlaceTarget {
    place: Label,
    target: Target,
}

pub(super) fn parse_at(text: &str) -> Result<PlaceTarget, InvalidValue> {
    let (place, url) = text
        .split_once('=')
        .filter(|(place, _)| !place.is_empty())
        .ok_or("expected PLACE=URL, like eu-vm/internal=http://10.0.0.5/")?;
    Ok(PlaceTarget {
        place: Label::new(place),
        target: Target::parse(url).map_err(InvalidValue::new)?,
    })
}

/// The machines that make a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FleetRequest {
    pub(crate) source: FleetSource,
    pub(crate) on_lost: OnLost,
    pub(crate) selection: Selection,
}

impl FleetRequest {
    /// Whether agents are on other machines.
    pub(crate) fn has_hub(&self) -> bool {
        matches!(self.source, FleetSource::Nats { .. })
    }
}

/// Where the agents are.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FleetSource {
    /// On machines that are connected to this NATS server.
    Nats { servers: String, link: LinkArgs },
    /// On this machine, for this run only.
    Local { agents: usize },
}

impl FleetArgs {
    /// The fleet of a run or a sweep; `None` without `--fleet`.
    ///
    /// # Errors
    /// If an option needs `--fleet`, or contradicts another.
    pub(crate) fn into_request(self) -> Result<Option<FleetRequest>, Refusal> {
        let mut selection = self.selection()?;
        if let Some(local) = self.local {
            if local == 0 {
                return Err(Refusal("--local 0: must be at least 1".to_owned()));
            }
            if selection != Selection::default() {
                return Err(Refusal(
                    "--local: all agents are at one place (--only-place and --at need --fleet)"
                        .to_owned(),
                ));
            }
            selection.wanted.names = LocalFleet::agents(local as usize);
            return Ok(Some(FleetRequest {
                source: FleetSource::Local {
                    agents: local as usize,
                },
                on_lost: self.on_lost.into(),
                selection,
            }));
        }
        let Some(servers) = self.fleet else {
            let given = [
                ("--agents", self.agents.is_some()),
                ("--agents-per-place", self.agents_per_place.is_some()),
                ("--only-place", !self.only_place.is_empty()),
                ("--at", !self.at.is_empty()),
            ];
            let Some((needs_fleet, _)) = given.into_iter().find(|(_, is_given)| *is_given) else {
                return Ok(None);
            };
            return Err(Refusal(format!(
                "{needs_fleet}: needs a fleet (--fleet URL)"
            )));
        };
        Ok(Some(FleetRequest {
            source: FleetSource::Nats {
                servers,
                link: self.link,
            },
            on_lost: self.on_lost.into(),
            selection,
        }))
    }

    /// The words of a command line with the same options, without passwords. What the user gave
    /// only for a single run is left out.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut add = |option: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("{option}={value}")));
        };
        add("--fleet", self.fleet.as_deref().map(hide_secrets));
        let number = |agents: Option<u32>| agents.map(|agents| agents.to_string());
        add("--local", number(self.local));
        let LinkArgs {
            fleet_name,
            fleet_key,
            login,
        } = &self.link;
        let file = |path: &Option<PathBuf>| Some(path.as_ref()?.to_string_lossy().into_owned());
        let name = fleet_name.as_str();
        add(
            "--fleet-name",
            (name != DEFAULT_FLEET).then(|| name.to_owned()),
        );
        add("--fleet-key", file(fleet_key));
        add("--agents", self.agents.as_ref().map(AgentsArg::to_string));
        add("--agents-per-place", number(self.agents_per_place));
        let aborts = self.on_lost == OnLostArg::Abort;
        add("--on-lost", aborts.then(|| "abort".to_owned()));
        for place in &self.only_place {
            add("--only-place", Some(place.clone()));
        }
        add("--nats-seed", file(&login.nats_seed));
        add("--nats-creds", file(&login.nats_creds));
        add("--nats-ca", file(&login.nats_ca));
        add("--nats-cert", file(&login.nats_cert));
        add("--nats-key", file(&login.nats_key));
        words
    }

    fn selection(&self) -> Result<Selection, Refusal> {
        let mut at = BTreeMap::new();
        for PlaceTarget { place, target } in &self.at {
            if at.insert(place.clone(), target.clone()).is_some() {
                return Err(Refusal(format!("--at {place}: given twice")));
            }
        }
        let at_least_1 = |option: &str, number: u32| match number {
            0 => Err(Refusal(format!("{option} 0: must be at least 1"))),
            _ => Ok(number as usize),
        };
        let places = self.only_place.iter().map(|place| Label::new(place));
        let mut wanted = Wanted {
            places: places.collect(),
            ..Wanted::default()
        };
        match (&self.agents, self.agents_per_place) {
            (Some(AgentsArg::Number(number)), _) => {
                wanted.number = Number::Total(at_least_1("--agents", *number)?);
            }
            (Some(AgentsArg::Names(_)), _) if !wanted.places.is_empty() => {
                return Err(Refusal(
                    "--only-place: the agents are named (--agents NAME,...), wherever they are"
                        .to_owned(),
                ));
            }
            (Some(AgentsArg::Names(names)), _) => wanted.names.clone_from(names),
            (None, Some(number)) => {
                wanted.number = Number::PerPlace(at_least_1("--agents-per-place", number)?);
            }
            (None, None) => {}
        }
        Ok(Selection { wanted, at })
    }
}

/// Run an agent of a fleet, which makes load for a coordinator
///
/// Connects to a NATS server and waits. A coordinator (`wrkbench --fleet`) sends its part of a run,
/// signed with a key that must be on the list of `--trust`; scripts are part of it. The agent ends
/// the load by itself if it hears nothing from the coordinator for 10 seconds.
///
/// With `--allow-changes` it makes no load. It belongs on the machine of the server, where sweeps
/// change settings and runs sample call stacks (--profile host=NAME:SERVER). It restores what a
/// sweep has changed if it hears nothing for 10 seconds.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct AgentArgs {
    /// Address of the NATS server, like nats://hub:4222.
    ///
    /// It may be several with commas.
    #[arg(long, value_name = "URL", required = true)]
    pub(crate) nats: String,
    /// Where this agent is, like eu-vm/internal [default: machine name]
    #[arg(long, value_name = "PLACE")]
    pub(crate) place: Option<String>,
    /// Name of this agent, unique within the fleet [default: machine name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<AgentId>,
    /// Name of the fleet
    #[arg(long, value_name = "NAME", default_value = DEFAULT_FLEET)]
    pub(crate) fleet_name: FleetName,
    /// Obey orders signed with these keys (U...), or with those in a file.
    ///
    /// Keys have commas between them.
    #[arg(long, value_name = "KEY|FILE", required = true)]
    pub(crate) trust: String,
    /// Make no load, but let sweeps change settings of this machine and runs profile its servers.
    ///
    /// Sweeps also run commands here: factors and hooks with host = NAME. Most settings need root.
    #[arg(long, conflicts_with_all = ["weight", "no_scripts", "targets",
          "max_rate", "max_connections", "max_duration", "prometheus"])]
    pub(crate) allow_changes: bool,
    /// Folder of the restore journal [default: as in wrkbench restore]
    #[arg(long, value_name = "DIR", requires = "allow_changes")]
    pub(crate) journal: Option<PathBuf>,
    /// Load of a thread, relative to agents of weight 1: 1 to 1000.
    ///
    /// Agents with larger machines have a larger weight.
    #[arg(
        long,
        value_name = "W",
        default_value_t,
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    pub(crate) weight: Weight,
    /// Refuse plans with a script
    #[arg(long)]
    pub(crate) no_scripts: bool,
    /// Refuse plans for other targets; host names, addresses, networks
    #[arg(long, value_name = "HOST|CIDR,...", default_value = "", hide_default_value = true,
          value_parser = parse_targets)]
    pub(crate) targets: Targets,
    /// Refuse plans with more requests per second for this agent.
    ///
    /// Plans without a rate are refused as well.
    #[arg(long, value_name = "RATE", value_parser = parse_rate, allow_hyphen_values = true)]
    pub(crate) max_rate: Option<f64>,
    /// Refuse plans with more connections for this agent
    #[arg(long, value_name = "N", value_parser = parse_count_u32, allow_hyphen_values = true)]
    pub(crate) max_connections: Option<u32>,
    /// Refuse plans with a longer load; the warm-up counts.
    ///
    /// Plans without a duration are refused as well.
    #[arg(long, value_name = "T", value_parser = parse_time, allow_hyphen_values = true)]
    pub(crate) max_duration: Option<Duration>,
    /// Serve metrics of the load made here at http://ADDR/metrics, for Prometheus to scrape.
    ///
    /// ADDR is like localhost:9464, or :9464 for all addresses of this machine.
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub(crate) prometheus: Option<String>,
    /// Print only errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// End when stdin is closed
    #[arg(long, hide = true)]
    pub(crate) until_eof: bool,
    #[command(flatten)]
    pub(crate) login: LoginArgs,
}

fn parse_targets(text: &str) -> Result<Targets, fleet::TargetsError> {
    match text {
        "" => Ok(Targets::default()),
        list => list.parse(),
    }
}

/// List the agents of a fleet, fetch or stop a run, print its key
///
/// `status` lists who is there: place, version, cores, weight, how exactly the clock can be read,
/// and state; below them, the runs in progress and those whose results are kept. `fetch` gets the
/// results of a run whose coordinator is gone; agents keep them for 5 minutes. `stop` ends the load
/// of a run. `key` prints the public key for --trust, and makes a key first if there is none.
///
/// With --local N in place of a word, the rest are arguments of a run, which is made by N agents of
/// this machine.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct FleetCommandArgs {
    /// What to do
    #[arg(value_name = "WHAT", value_enum)]
    what: FleetAction,
    /// The run, with fetch and stop; the file of the key, with key.
    ///
    /// The coordinator and status print the run. The default file is that of --fleet-key.
    #[arg(value_name = "RUN|FILE")]
    subject: Option<PathBuf>,
    /// Address of the NATS server, like nats://hub:4222.
    ///
    /// It may be several with commas.
    #[arg(long, value_name = "URL")]
    nats: Option<String>,
    /// With status: wait for N agents, for at most 10 s
    #[arg(long, value_name = "N", value_parser = parse_count_u32, allow_hyphen_values = true)]
    agents: Option<u32>,
    /// With fetch: write the full result as JSON; - is stdout.
    ///
    /// On stdout it replaces the report.
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    json: Option<PathBuf>,
    #[command(flatten)]
    link: LinkArgs,
}

/// What `wrkbench fleet` is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FleetAction {
    Status,
    Fetch,
    Stop,
    Key,
}

/// A checked `wrkbench fleet`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FleetCommand {
    /// List the agents, and wait for this number of them.
    Status {
        servers: String,
        link: LinkArgs,
        agents: Option<u32>,
    },
    /// Get the results of a run.
    Fetch {
        servers: String,
        link: LinkArgs,
        run: RunId,
        json: Option<JsonTarget>,
    },
    /// End the load of a run.
    Stop {
        servers: String,
        link: LinkArgs,
        run: RunId,
    },
    /// Print the public key of a file.
    Key { file: Option<PathBuf> },
}

/// The commands about fleets.
#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommands {
    Agent(Box<AgentArgs>),
    Fleet(Box<FleetCommandArgs>),
}

impl FleetCommands {
    /// # Errors
    /// If something is missing, or options do not go together.
    pub(crate) fn into_request(self) -> Result<FleetCommandRequest, Refusal> {
        Ok(match self {
            Self::Agent(agent) => FleetCommandRequest::Agent(agent),
            Self::Fleet(fleet) => FleetCommandRequest::Fleet(Box::new(fleet.into_command()?)),
        })
    }
}

/// A checked command about fleets.
#[derive(Debug)]
pub(crate) enum FleetCommandRequest {
    Agent(Box<AgentArgs>),
    Fleet(Box<FleetCommand>),
}

impl FleetCommandArgs {
    /// # Errors
    /// If something is missing, or does not belong to what is to be done.
    pub(crate) fn into_command(self) -> Result<FleetCommand, Refusal> {
        let Self {
            what,
            subject,
            nats,
            agents,
            json,
            link,
        } = self;
        let word = what.to_possible_value();
        let word = word.map_or_else(String::new, |value| value.get_name().to_owned());
        let foreign = [
            ("--agents", agents.is_some(), what == FleetAction::Status),
            ("--json", json.is_some(), what == FleetAction::Fetch),
        ];
        for (option, is_given, belongs) in foreign {
            if is_given && !belongs {
                return Err(Refusal(format!(
                    "{option}: does not belong to fleet {word}"
                )));
            }
        }
        let servers = || {
            nats.ok_or_else(|| {
                Refusal("--nats: is missing (expected like --nats nats://hub:4222)".to_owned())
            })
        };
        let run = |subject: Option<PathBuf>| {
            let text = subject.ok_or_else(|| {
                Refusal(format!(
                    "no run (expected like wrkbench fleet {word} RUN --nats URL; wrkbench fleet \
                     status lists the runs)"
                ))
            })?;
            let text = text.to_string_lossy();
            let run = text.parse();
            run.map_err(|error| Refusal(format!("fleet {word}: {error}")))
        };
        Ok(match what {
            FleetAction::Status => match subject {
                None => FleetCommand::Status {
                    servers: servers()?,
                    link,
                    agents,
                },
                Some(subject) => {
                    return Err(Refusal(format!(
                        "fleet status: unexpected argument {subject:?}"
                    )));
                }
            },
            FleetAction::Fetch => FleetCommand::Fetch {
                run: run(subject)?,
                servers: servers()?,
                link,
                json: json.map(JsonTarget::of).transpose()?,
            },
            FleetAction::Stop => FleetCommand::Stop {
                run: run(subject)?,
                servers: servers()?,
                link,
            },
            FleetAction::Key => FleetCommand::Key {
                file: subject.or(link.fleet_key),
            },
        })
    }
}

/// `fleet --local ...` without `fleet`: the arguments of a run.
///
/// # Errors
/// Only in a program without fleets.
pub(crate) fn run_by_local_fleet(arguments: &[OsString]) -> Result<Option<&[OsString]>, Refusal> {
    let Some((first, rest)) = arguments.split_first() else {
        return Ok(None);
    };
    let is_local = |argument: &OsString| {
        let argument = argument.to_string_lossy();
        argument == "--local" || argument.starts_with("--local=")
    };
    Ok((first == "fleet" && rest.iter().any(is_local)).then_some(rest))
}
