//! Machines that an experiment changes, or whose server a run profiles, each through an agent.
//!
//! The agent starts a process for each session, the deputy, which makes the changes as a sweep on
//! that machine would: with a journal and a guardian. It ends a session by killing the deputy, so
//! there is one way back for everything that can go wrong: the guardian restores.

mod call;
mod deputy;
mod profile;
mod remote;

pub use call::{Call, ProfileCall};
pub use deputy::work;
pub(crate) use profile::HostProfile;

use std::process::Command;
use std::sync::atomic::AtomicBool;

use cluster::bus::{Bus, BusError};
use cluster::host::{HostServer, serve_host};

use crate::agent::AgentOptions;
use crate::{clock, random};
use deputy::Processes;

/// Serves sweeps that change this machine, until `stopped` is set; what the options say about load
/// does not matter. `deputy` starts a process that calls [`work`]; `tell` gets lines for the user.
///
/// # Errors
/// If the bus is closed.
pub fn serve_changes(
    options: &AgentOptions,
    bus: &dyn Bus,
    deputy: Command,
    stopped: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Result<(), BusError> {
    let mut server = HostServer::new(options.identity(), Processes(deputy), random());
    serve_host(&mut server, bus, &clock(), stopped, tell)
}
