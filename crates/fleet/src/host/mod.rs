//! Machines that an experiment changes, each through an agent there.
//!
//! The agent starts a process for each session, the deputy, which makes the changes as a sweep on
//! that machine would: with a journal and a guardian. It ends a session by killing the deputy, so
//! there is one way back for everything that can go wrong: the guardian restores.

mod deputy;
mod frames;
mod remote;

pub use deputy::work;
pub use remote::HostStatus;

use std::process::Command;
use std::sync::atomic::AtomicBool;

use cluster::bus::{Bus, BusError};
use cluster::host::{HostServer, HostSettings, serve_host};
use cluster::names::{AgentId, FleetName, Label};
use cluster::signing::TrustList;
use runner::Invocation;

use crate::{clock, random, version};
use deputy::Processes;

/// What a host is started with.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// The fleet.
    pub fleet: FleetName,
    /// The name that experiments give to this machine.
    pub name: AgentId,
    /// Where it is.
    pub place: Label,
    /// Whose orders it obeys.
    pub trust: TrustList,
}

/// Serves sweeps that change this machine, until `stopped` is set. `deputy` starts a process that
/// calls [`work`]; `tell` gets lines for the user.
///
/// # Errors
/// If the bus is closed.
pub fn serve_changes(
    options: HostOptions,
    bus: &dyn Bus,
    deputy: Command,
    stopped: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Result<(), BusError> {
    let machine = runner::environment(&Invocation::default());
    let known = |text: Option<String>| Label::new(text.as_deref().unwrap_or("unknown"));
    let settings = HostSettings {
        fleet: options.fleet,
        host: options.name,
        version: version(),
        place: options.place,
        machine: known(machine.hostname),
        kernel: known(machine.kernel),
        trust: options.trust,
    };
    let mut server = HostServer::new(settings, Processes(deputy), random());
    serve_host(&mut server, bus, &clock(), stopped, tell)
}
