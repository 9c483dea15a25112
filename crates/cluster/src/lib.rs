//! Several machines as one load generator.
//!
//! A **coordinator** has **agents** prepare their parts of a plan, reads their clocks, starts them
//! at one moment and fetches their results. They talk through a **bus**: NATS, or a hub within one
//! process. [`message`] lists what they say. An agent obeys signed orders only ([`signing`]).
//!
//! A [`host`] is a machine that an experiment changes: an agent there carries out its calls. Both
//! use the same sessions: [`session`] is the agent's end, `line.rs` the coordinator's.
//!
//! Agent and coordinator are state machines: they get messages and the time and return messages.
//! The runtime of NATS' client stays in `bus/nats.rs`.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod agent;
mod agent_link;
pub mod bus;
pub mod clock;
pub mod coordinator;
pub mod folder;
pub mod generator;
pub mod host;
pub mod limits;
pub mod message;
pub mod names;
pub mod occupation;
pub mod package;
pub mod pieces;
pub mod refusal;
pub mod session;
pub mod signing;
pub mod targets;
