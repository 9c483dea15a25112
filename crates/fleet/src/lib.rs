//! Runs by several machines: `cluster` carries the messages, `runner` makes the load.
//!
//! [`Coordinator::prepare`] deals a plan out to the agents that are there, and
//! a [`PreparedFleet`] has them carry it out and merges what they measured.
//! [`Coordinator::fetch`] and [`Coordinator::stop`] are for runs whose coordinator is gone.
//! [`serve`] is the agent's side; a process that calls [`make_load`] makes its load. [`LocalFleet`]
//! has all of it on one machine. [`Coordinator::hosts`] are machines that an experiment changes,
//! and [`serve_changes`] is the side of such a machine.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod agent;
mod coordinator;
mod frames;
mod host;
mod load;
mod local;
mod profile;
mod progress;
mod run;
mod status;
mod visit;
mod wire;

pub use agent::{AgentOptions, serve};
pub use cluster::bus::{
    Bus, BusError, LinkListener, LinkNews, Login, Nats, NatsOptions, RECONNECT_DELAY,
};
pub use cluster::coordinator::{Chosen, Number, OnLost, Present, Wanted};
pub use cluster::limits::Limits;
pub use cluster::names::{AgentId, FleetName, Label, NameError, Random, RunId};
pub use cluster::occupation::{KeptResult, Occupation};
pub use cluster::signing::{KeyError, PublicKey, SigningKey, TrustList, write_new_key};
pub use cluster::targets::{Targets, TargetsError};
pub use coordinator::{Coordinator, FleetError, FleetOptions, Selection};
pub use host::{Call, ProfileCall, serve_changes, work};
pub use load::{LoadCommand, make_load};
pub use local::LocalFleet;
pub use run::PreparedFleet;
pub use status::AgentStatus;
pub use visit::{FetchedRun, StoppedRun};

use std::sync::Arc;

use cluster::bus::Clock;
use cluster::clock::WallClock;

/// The version that coordinator and agents must share.
pub(crate) fn version() -> Label {
    Label::new(env!("CARGO_PKG_VERSION"))
}

/// Reads CLOCK_MONOTONIC of this machine, nanoseconds.
#[must_use]
pub fn clock() -> Clock {
    Arc::new(engine::monotonic_ns)
}

/// Random bytes of the kernel.
///
/// # Panics
/// If the kernel has none, which it never says to a caller that waits (getrandom(2)).
#[must_use]
pub fn random() -> Random {
    Box::new(|buffer| {
        let mut filled = 0;
        while filled < buffer.len() {
            let flags = rustix::rand::GetRandomFlags::empty();
            match rustix::rand::getrandom(&mut buffer[filled..], flags) {
                Ok(more) => filled += more,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => panic!("getrandom(2): {error}"),
            }
        }
    })
}

/// The wall clock, if the kernel says that it is synchronized.
fn wall_clock() -> Option<WallClock> {
    let clock = telemetry::synchronized_clock()?;
    Some(WallClock {
        unix_ns: clock.unix_ns,
        monotonic_ns: clock.monotonic_ns,
        bound_ns: clock.bound_ns,
    })
}
