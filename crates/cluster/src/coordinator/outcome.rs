//! The events and the outcome of a run of a fleet.

use std::fmt;

use crate::clock::{Drift, Offset};
use crate::message::Ending;
use crate::names::{AgentId, Label};
use crate::refusal::RefusedBy;

/// The outcome of a run.
#[derive(Debug)]
pub struct FleetOutcome {
    /// The agents and their results, by name.
    pub parts: Vec<AgentPart>,
    /// When the load started, on the coordinator's clock.
    pub start_ns: Option<u64>,
    /// Why it ended early, if it did.
    pub stop: Option<StopReason>,
    /// Why there was no load.
    pub failure: Option<FleetError>,
}

impl FleetOutcome {
    /// Whether something of the load is missing: an agent was lost, failed, or ended early though
    /// the user of this coordinator did not stop the run.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.parts.iter().any(|part| match &part.result {
            PartResult::Complete(_) => false,
            PartResult::Early { ending, .. } => {
                *ending != Ending::Stopped || self.stop.as_ref().is_none_or(StopReason::is_failure)
            }
            PartResult::Missing(_) => true,
        })
    }
}

/// When the load started, and whether it ended early.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Course {
    /// When the load started, on the coordinator's clock.
    pub start_ns: Option<u64>,
    /// Why it ended early, if it did.
    pub stop: Option<StopReason>,
}

/// What one agent did.
#[derive(Debug)]
pub struct AgentPart {
    /// The name of the agent.
    pub agent: AgentId,
    /// The place of the agent, as its user says.
    pub place: Label,
    /// Its clock, if it was read.
    pub clock: Option<ClockReport>,
    /// Whether it was lost for a time.
    pub was_lost: bool,
    /// What the agent has measured.
    pub result: PartResult,
}

/// The result of an agent.
#[derive(Debug, PartialEq, Eq)]
pub enum PartResult {
    /// The result of the whole run.
    Complete(Vec<u8>),
    /// The result of a part of the time.
    Early {
        /// Why the load ended early.
        ending: Ending,
        /// The result, as the load generator of the agent has encoded it.
        bytes: Vec<u8>,
    },
    /// There is no result; why, in one line.
    Missing(Label),
}

/// How far the clock of an agent is ahead of the coordinator's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReport {
    /// The offset before the start.
    pub offset: Offset,
    /// The latest offset, if it was measured again during the load.
    pub latest: Option<Offset>,
    /// How much faster it runs.
    pub drift: Option<Drift>,
}

/// Why a run of a fleet ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// The user interrupted the run.
    Interrupted,
    /// This agent was lost or failed.
    Lost(AgentId),
    /// This agent went on long after the planned end.
    Overdue(AgentId),
}

impl StopReason {
    /// Whether an agent did not do what it should, so that the result is partial.
    fn is_failure(&self) -> bool {
        !matches!(self, Self::Interrupted)
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => write!(formatter, "interrupted"),
            Self::Lost(agent) => write!(formatter, "agent {agent} was lost"),
            Self::Overdue(agent) => {
                write!(formatter, "agent {agent} went on after the planned end")
            }
        }
    }
}

/// Why there was no load; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FleetError {
    /// An agent refuses to take part.
    #[error(transparent)]
    Refused(#[from] RefusedBy),
    /// An agent could not prepare.
    #[error("agent {agent}: {reason}")]
    Failed {
        /// The name of the agent.
        agent: AgentId,
        /// The reason that the agent gives, one line.
        reason: Label,
    },
    /// An agent does not reply.
    #[error("agent {0} has not been heard for 10 s; nothing was started")]
    Silent(AgentId),
    /// An agent has not confirmed the start in time.
    #[error("agent {0} did not confirm the start in time; nothing was started")]
    Unconfirmed(AgentId),
    /// The user interrupted the run before its start.
    #[error("interrupted before the start")]
    Interrupted,
}

/// What happens during a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// An agent is ready.
    Prepared {
        /// The name of the agent.
        agent: AgentId,
        /// Notes for the user.
        notes: Vec<Label>,
    },
    /// The clock of an agent was read.
    Clock {
        /// The name of the agent.
        agent: AgentId,
        /// How far the clock of the agent is ahead.
        offset: Offset,
    },
    /// The moment of the start is set.
    Starting {
        /// The time until the start, nanoseconds.
        in_ns: u64,
    },
    /// The load has started.
    Started,
    /// A snapshot of an agent.
    Progress {
        /// The name of the agent.
        agent: AgentId,
        /// What its load generator sent.
        snapshot: serde_json::Value,
    },
    /// An agent has not been heard for 3 s.
    Lost {
        /// The name of the agent.
        agent: AgentId,
    },
    /// A lost agent was heard again.
    Returned {
        /// The name of the agent.
        agent: AgentId,
    },
    /// An agent failed during the load.
    Failed {
        /// The name of the agent.
        agent: AgentId,
        /// The reason that the agent gives, one line.
        reason: Label,
    },
    /// All agents are told to stop.
    Stopping(StopReason),
    /// An agent has finished.
    Ended {
        /// The name of the agent.
        agent: AgentId,
        /// Why the load of the agent ended.
        ending: Ending,
    },
    /// The result of an agent is here.
    Fetched {
        /// The name of the agent.
        agent: AgentId,
        /// The size of the result in bytes.
        bytes: u64,
    },
}
