//! Fleets: their options and commands, and the runs that they make.

mod args;
mod commands;
mod host_deputy;
mod load_process;
mod sweep;

pub(crate) use args::{
    AgentArgs, FleetArgs, FleetCommand, FleetCommandArgs, FleetRequest, FleetSource,
    run_by_local_fleet,
};
pub(crate) use commands::{FleetLink, agent, fleet};
pub(crate) use host_deputy::work;
pub(crate) use load_process::make_load;
pub(crate) use sweep::{SweepFleet, why_partial};
