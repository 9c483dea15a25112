//! Fleets: their options and commands, and the runs that they make.

mod args;
mod commands;
mod host_deputy;
mod load_process;
mod maker;

pub(crate) use args::{
    AgentArgs, FleetArgs, FleetCommand, FleetCommandArgs, FleetRequest, FleetSource,
    run_by_local_fleet,
};
pub(crate) use commands::{agent, fleet};
pub(crate) use host_deputy::work;
pub(crate) use load_process::make_load;
pub(crate) use maker::{maker, maker_of_sweep};
