//! The agent: waits for a coordinator and makes its part of the load.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use cluster::agent::{Agent, AgentSettings, AgentWorld};
use cluster::bus::{Bus, BusError};
use cluster::limits::Limits;
use cluster::names::{AgentId, FleetName, Label};
use cluster::session::Identity;
use cluster::signing::TrustList;
use cluster::targets::Targets;
use outputs::Observers;
use plan::Weight;
use runner::Invocation;

use crate::load::{LoadCommand, LoadProcesses, ObservedLoad};
use crate::{clock, random, version, wall_clock};

/// What an agent is started with.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// The fleet that it belongs to.
    pub fleet: FleetName,
    /// The name of this agent, which no other one has. Experiments use it for the machine that it
    /// changes.
    pub agent: AgentId,
    /// Where it is: `eu-vm/internal`.
    pub place: Label,
    /// The keys whose orders it obeys.
    pub trust: TrustList,
    /// Whether it runs scripts.
    pub scripts: bool,
    /// What it may send to.
    pub targets: Targets,
    /// How much load each of its threads carries, compared with those of other agents.
    pub weight: Weight,
    /// How much load it makes at most.
    pub limits: Limits,
    /// Where the files of a run get their private folder.
    pub files: PathBuf,
    /// Starts the process that makes the load of a run.
    pub load: LoadCommand,
}

impl AgentOptions {
    /// Who it is, with what this machine says about itself.
    pub(crate) fn identity(&self) -> Identity {
        let machine = runner::environment(&Invocation::default());
        let known = |text: Option<String>| Label::new(text.as_deref().unwrap_or("unknown"));
        Identity {
            fleet: self.fleet.clone(),
            agent: self.agent.clone(),
            version: version(),
            place: self.place.clone(),
            machine: known(machine.hostname),
            cores: machine.cores.unwrap_or_default(),
            kernel: known(machine.kernel),
            trust: self.trust.clone(),
        }
    }
}

/// Serves coordinators until `stopped` is set. The observers follow the load that it makes.
///
/// # Errors
/// If the bus is closed.
pub fn serve(
    options: AgentOptions,
    observers: Observers<'_>,
    bus: &dyn Bus,
    stopped: &AtomicBool,
) -> Result<(), BusError> {
    let name = (options.agent.to_string(), options.place.to_string());
    let settings = AgentSettings {
        identity: options.identity(),
        scripts: options.scripts,
        targets: options.targets,
        weight: options.weight,
        limits: options.limits,
        files: options.files,
    };
    let world = AgentWorld {
        generator: LoadProcesses::new(options.load, ObservedLoad::new(observers, name)),
        random: random(),
        wall_clock: Box::new(wall_clock),
    };
    cluster::agent::serve(&mut Agent::new(settings, world), bus, &clock(), stopped)
}
