//! A machine that an experiment changes, or a run profiles, from elsewhere.
//!
//! The coordinator makes **calls** to a host, one after the other. What a call says is not known
//! here: [`HostServer`] hands it to a [`HostDeputy`] and keeps the reply, so that a repeated call
//! is not carried out twice. Everything that costs the host something is a signed
//! [`Order`](crate::message::Order).
//!
//! Each order shows that the coordinator is alive. If none comes for [`LEASE_NS`], the host kills
//! its deputy, and what the deputy has changed is restored as after the death of any sweep. The
//! coordinator gives up earlier: it counts from when it sent the latest question that had a reply.
//!
//! [`HostServer`] and [`HostCaller`] are state machines: messages and the time go in, messages come
//! out. [`serve_host`] connects the one to a bus, [`HostLink`] the other.

mod caller;
mod link;
mod server;

pub use crate::session::LEASE_NS;
pub use caller::{CallerSettings, HostCaller, HostError};
pub use link::{HostLink, call_hosts};
pub use server::{DeputyEvent, HostDeputies, HostDeputy, HostServer, serve_host};

/// The largest call and the largest reply: a configuration file of 4 MiB that is not text.
pub const MAX_CALL_BYTES: u64 = 24 << 20;
