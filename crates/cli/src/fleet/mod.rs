//! Fleets: their options and commands, and the runs that they make.

mod args;
mod commands;
mod host_deputy;
mod load_process;
mod maker;
mod options;

use ::fleet::FleetName;
use args::{AgentsArg, PlaceTarget, parse_agents, parse_at};
#[cfg(test)]
pub(crate) use args::{FleetCommand, FleetSource};
pub(crate) use args::{FleetCommandRequest, FleetCommands, FleetRequest, run_by_local_fleet};
pub(crate) use commands::perform;
pub(crate) use host_deputy::work;
pub(crate) use load_process::make_load;
pub(crate) use maker::{maker, maker_of_sweep};
pub(crate) use options::FleetArgs;
