//! Why an agent refuses what it is asked to do.

use serde::{Deserialize, Serialize};

use crate::names::{AgentId, FleetName, Label, RunId};
use crate::occupation::Occupation;

/// Why an agent refuses. The text is one line, to be shown behind the name of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Refusal {
    /// The message cannot be decoded.
    #[error("the message cannot be read: {detail}")]
    Malformed {
        /// What is wrong with it.
        detail: Label,
    },
    /// Coordinator and agent are not the same version.
    #[error(
        "the versions differ: the agent is {agent}, the coordinator {coordinator}; \
         install the same version on both"
    )]
    Version {
        /// The version of the agent.
        agent: Label,
        /// The version of the coordinator.
        coordinator: Label,
    },
    /// The key is not on the list of the agent.
    #[error("the key {key} is not trusted; start the agent with --trust {key}")]
    UntrustedKey {
        /// The public key of the coordinator.
        key: Label,
    },
    /// The text or the signature was changed, or another key made it.
    #[error("the signature is not valid: the order was changed on its way")]
    Signature,
    /// The order is for another fleet.
    #[error("the order is for the fleet {ordered}, the agent belongs to {own}")]
    Fleet {
        /// The fleet in the order.
        ordered: FleetName,
        /// The fleet of the agent.
        own: FleetName,
    },
    /// The order was made for an earlier run, or for an earlier process of this agent.
    #[error("the order was made for an earlier session of this agent; start the run again")]
    Session,
    /// The order is too old.
    #[error("the order expired {late_ms} ms ago; start the run again")]
    Expired {
        /// How long ago it expired, milliseconds.
        late_ms: u64,
    },
    /// The order would be valid for too long.
    #[error("the order is valid for {valid_ms} ms, longer than the {limit_ms} ms allowed")]
    ValidTooLong {
        /// How long it would be valid, milliseconds.
        valid_ms: u64,
        /// The longest validity that is accepted, milliseconds.
        limit_ms: u64,
    },
    /// The same order was received before.
    #[error("the order was received before (possible replay attack)")]
    Replayed,
    /// Another run is going on.
    #[error("the agent is busy with {occupation}; wait for its end")]
    Busy {
        /// What the agent is busy with.
        occupation: Occupation,
    },
    /// The key is not the one that prepared the run.
    #[error("the run belongs to another key")]
    OtherKey,
    /// The agent does not know the run, or not any more.
    #[error("the agent does not know the run {run}: it was restarted, or has dropped the result")]
    UnknownRun {
        /// The run that the order names.
        run: RunId,
    },
    /// The order does not fit the state of the run.
    #[error("the run cannot {wanted} now: it is {stage}")]
    OutOfOrder {
        /// What was asked for.
        wanted: Label,
        /// The state of the run.
        stage: Label,
    },
    /// Something is larger than the agent accepts.
    #[error("{what} has {bytes} bytes; the agent accepts {limit}")]
    TooLarge {
        /// What is too large.
        what: Label,
        /// Its size in bytes.
        bytes: u64,
        /// The largest size that is accepted, bytes.
        limit: u64,
    },
    /// A piece differs from what was signed.
    #[error("piece {index} of the plan was damaged on its way")]
    Piece {
        /// The number of the piece.
        index: u32,
    },
    /// The agent does not run scripts.
    #[error("the agent was started with --no-scripts, and the plan has a script")]
    Scripts,
    /// The agent may not send to this target.
    #[error("the target {target} is not one that the agent may send to (--targets {permitted})")]
    Target {
        /// The host or the address of the target.
        target: Label,
        /// The list of permitted targets.
        permitted: Label,
    },
    /// The part of the plan is above a limit of the agent's owner.
    #[error("the plan has {asked} for this agent, which permits at most {permitted} ({option})")]
    Limit {
        /// What the plan asks of the agent: `5,000 requests/s`.
        asked: Label,
        /// The limit, in the same unit.
        permitted: Label,
        /// The option of the agent that sets the limit.
        option: Label,
    },
    /// The plan and its files cannot be used.
    #[error("{reason}")]
    Package {
        /// What is wrong with them, one line.
        reason: Label,
    },
    /// The private folder or a file in it could not be written.
    #[error("the files of the plan cannot be written: {reason}")]
    Files {
        /// The system's error message.
        reason: Label,
    },
    /// Another coordinator has its session with the host.
    #[error("another sweep or profile uses this machine; wait for its end")]
    HostBusy,
    /// The session with the host has ended.
    #[error("the session has ended: {reason}")]
    SessionEnded {
        /// Why it has ended, one line.
        reason: Label,
    },
    /// The calls are not in order.
    #[error("call {call} does not follow call {latest}")]
    CallOutOfOrder {
        /// The number of the call that came.
        call: u64,
        /// The number of the latest call of the session.
        latest: u64,
    },
    /// The process that changes the machine cannot be started.
    #[error("cannot start the process that changes the machine: {reason}")]
    Deputy {
        /// The system's error message.
        reason: Label,
    },
    /// The order to start came after the start.
    #[error(
        "the order to start came {late_ms} ms too late; the link is slow or the agent was busy"
    )]
    Late {
        /// How long after the start the order came, milliseconds.
        late_ms: u64,
    },
}

/// A refusal and the agent that refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("agent {agent}: {refusal}")]
pub struct RefusedBy {
    /// The name of the agent.
    pub agent: AgentId,
    /// The reason that it gave.
    pub refusal: Refusal,
}
