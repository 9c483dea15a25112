//! The options of runs by a fleet. A program without fleets has the same ones, to refuse them.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use plan::units::parse_count_u32;

use super::{AgentsArg, FleetName, PlaceTarget, parse_agents, parse_at};

/// The fleet of users who have only one.
pub(super) const DEFAULT_FLEET: &str = "default";

/// How to log in to NATS.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub(crate) struct LoginArgs {
    /// Log in to NATS with the nkey seed (SU...) in this file
    #[arg(long, value_name = "FILE", conflicts_with = "nats_creds")]
    pub(crate) nats_seed: Option<PathBuf>,
    /// Log in to NATS with this credentials file (.creds)
    #[arg(long, value_name = "FILE")]
    pub(crate) nats_creds: Option<PathBuf>,
    /// Also trust the CA certificates in this PEM file for TLS to NATS
    #[arg(long, value_name = "FILE")]
    pub(crate) nats_ca: Option<PathBuf>,
    /// Client certificate for TLS to NATS, a PEM file; needs --nats-key
    #[arg(long, value_name = "FILE", requires = "nats_key")]
    pub(crate) nats_cert: Option<PathBuf>,
    /// Private key of the client certificate, a PEM file
    #[arg(long, value_name = "FILE", requires = "nats_cert")]
    pub(crate) nats_key: Option<PathBuf>,
}

/// How a coordinator reaches its fleet.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct LinkArgs {
    /// Name of the fleet.
    ///
    /// Agents and coordinator with the same name belong together.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_FLEET)]
    pub(crate) fleet_name: FleetName,
    /// Key that signs orders [default: ~/.config/wrkbench/fleet.key].
    ///
    /// $XDG_CONFIG_HOME is used in place of ~/.config if it is set.
    #[arg(long, value_name = "FILE")]
    pub(crate) fleet_key: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) login: LoginArgs,
}

/// How a fleet makes runs.
#[derive(Debug, Clone, PartialEq, Args)]
#[command(next_help_heading = crate::args::help::FLEET_HEADING)]
pub(crate) struct FleetArgs {
    /// Run on the agents of a fleet: address of their NATS server, like nats://hub:4222
    #[arg(
        long,
        value_name = "URL",
        long_help = "Run on the agents of a fleet: address of their NATS server, like \
                     nats://hub:4222, or several with commas. Rate, connections, -n and stages are \
                     totals of the fleet and are dealt out; -t is the number of threads of each \
                     agent"
    )]
    pub(crate) fleet: Option<String>,
    /// Start N agents on this machine and run on them
    #[arg(long, value_name = "N", value_parser = parse_count_u32, allow_hyphen_values = true,
          conflicts_with_all = ["fleet", "agents", "agents_per_place"])]
    pub(crate) local: Option<u32>,
    /// Run on N agents, the first ones by name, or on the agents with these names [default: all
    /// that are there]
    #[arg(
        long,
        value_name = "N|NAME,...",
        value_parser = parse_agents,
        allow_hyphen_values = true,
        long_help = "Run on N agents, or on the agents with these names, and refuse to run without \
                     them. It waits for them for at most 10 s. Of more than N agents, those at the \
                     places of --only-place, the first ones by name take part, whoever responds \
                     first [default: all that are there]"
    )]
    pub(crate) agents: Option<AgentsArg>,
    /// Run on N agents at each place, the first ones by name, and refuse to run with fewer
    #[arg(long, value_name = "N", value_parser = parse_count_u32,
          allow_hyphen_values = true, conflicts_with = "agents")]
    pub(crate) agents_per_place: Option<u32>,
    /// When an agent is lost: let the others go on with their parts, or end the run
    #[arg(long, value_name = "WHAT", value_enum, default_value = "continue")]
    pub(crate) on_lost: OnLostArg,
    /// Use only the agents at this place; may be repeated
    #[arg(long, value_name = "PLACE")]
    pub(crate) only_place: Vec<String>,
    /// Agents at PLACE use this URL for the target; may be repeated
    #[arg(long, value_name = "PLACE=URL", value_parser = parse_at)]
    pub(crate) at: Vec<PlaceTarget>,
    #[command(flatten)]
    pub(crate) link: LinkArgs,
}

/// What happens when an agent is lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLostArg {
    #[default]
    Continue,
    Abort,
}
