//! The roll call: agents introduce themselves when they are asked.

use std::collections::BTreeMap;

use crate::bus::{Message, Outgoing};
use crate::message::{
    Ask, FromAgent, Hello, MAX_MESSAGE_BYTES, Reply, Subjects, ToAgent, Versioned, decode, encode,
};
use crate::names::{AgentId, FleetName, Label};

/// Time between two questions: one may be lost.
const ASK_NS: u64 = 500_000_000;

/// If the number of agents is not known, the roll call ends when no new one has come for this time.
const QUIET_NS: u64 = 1_000_000_000;

/// The longest roll call, if expected agents do not come.
const LIMIT_NS: u64 = 10_000_000_000;

/// The most agents of a fleet.
pub const MAX_AGENTS: usize = 10_000;

/// The agents that a roll call waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Expected {
    /// All agents that introduce themselves in time.
    #[default]
    Any,
    /// At least this number of agents.
    Number(usize),
    /// These agents, until they are free. Others do not count.
    These(Vec<AgentId>),
}

impl From<Option<usize>> for Expected {
    fn from(number: Option<usize>) -> Self {
        number.map_or(Self::Any, Self::Number)
    }
}

/// An agent that has introduced itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Present {
    /// The name of the agent.
    pub agent: AgentId,
    /// The version of the agent.
    pub version: Label,
    /// What the agent says about itself.
    pub hello: Hello,
    /// What its CLOCK_MONOTONIC showed then.
    pub now_ns: u64,
    /// When it was heard, on this machine's clock.
    pub heard_ns: u64,
}

impl Present {
    /// The agent that introduces itself in a message. `None` if it is another message.
    pub(crate) fn of(message: &Message) -> Option<Self> {
        let answer: FromAgent = decode(&message.payload, MAX_MESSAGE_BYTES).ok()?;
        let Reply::Hello(hello) = answer.reply else {
            return None;
        };
        Some(Self {
            agent: answer.agent,
            version: answer.version,
            hello,
            now_ns: answer.now_ns,
            heard_ns: message.received_ns,
        })
    }
}

/// The question that asks all agents that hear a subject to introduce themselves.
pub(crate) fn roll_call_question(subject: String, inbox: String) -> Outgoing {
    let ask = Ask::RollCall;
    Outgoing {
        subject,
        reply: Some(inbox),
        payload: encode(&ToAgent { id: 0, ask }),
    }
}

/// Why a fleet cannot be used; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RollCallError {
    /// No agent has introduced itself.
    #[error(
        "no agent of the fleet {0} responds; start some with: wrkbench agent --nats ... --trust KEY"
    )]
    Nobody(FleetName),
    /// Fewer agents than expected have introduced themselves.
    #[error("{present} of {expected} agents of the fleet {fleet} respond: {names}")]
    Missing {
        /// The fleet that was called.
        fleet: FleetName,
        /// The number of agents that have come.
        present: usize,
        /// The number of agents that are expected.
        expected: usize,
        /// The names of those that are there, with commas.
        names: String,
    },
    /// Agents that were named have not introduced themselves.
    #[error("no response from {agents} of the fleet {fleet}")]
    Absent {
        /// The fleet that was called.
        fleet: FleetName,
        /// The agents that are missing: `agent a1`.
        agents: String,
    },
    /// An agent has another version.
    #[error("agent {agent} is {theirs}, this is {own}; install the same version on all machines")]
    Version {
        /// The name of the agent.
        agent: AgentId,
        /// The version of the agent.
        theirs: Label,
        /// The version of this program.
        own: Label,
    },
    /// Two agents have the same name.
    #[error("two agents are called {0}; give them different names")]
    SameName(AgentId),
    /// An agent takes part in another run.
    #[error("agent {agent} is busy with the run {run}; wait for its end")]
    Busy {
        /// The name of the agent.
        agent: AgentId,
        /// The run that it takes part in.
        run: String,
    },
}

/// A roll call in progress.
pub struct RollCall {
    fleet: FleetName,
    version: Label,
    question: Outgoing,
    expected: Expected,
    began_ns: u64,
    ask_due_ns: u64,
    /// When a new agent came.
    news_ns: u64,
    present: BTreeMap<AgentId, Present>,
    problem: Option<RollCallError>,
    outgoing: Vec<Outgoing>,
}

impl RollCall {
    /// Calls the agents of a fleet, and waits for those that are expected. Replies go to the inbox.
    #[must_use]
    pub fn new(
        fleet: FleetName,
        version: Label,
        expected: impl Into<Expected>,
        inbox: String,
        now_ns: u64,
    ) -> Self {
        Self {
            question: roll_call_question(Subjects::new(&fleet).all(), inbox),
            fleet,
            version,
            expected: expected.into(),
            began_ns: now_ns,
            ask_due_ns: now_ns,
            news_ns: now_ns,
            present: BTreeMap::new(),
            problem: None,
            outgoing: Vec::new(),
        }
    }

    /// Takes a message of the inbox.
    pub fn on_message(&mut self, message: &Message) {
        let bytes = &message.payload;
        let Ok(versioned) = decode::<Versioned>(bytes, MAX_MESSAGE_BYTES) else {
            return;
        };
        if let Expected::These(agents) = &self.expected
            && !agents.contains(&versioned.agent)
        {
            return;
        }
        if versioned.version != self.version {
            self.problem.get_or_insert_with(|| RollCallError::Version {
                agent: versioned.agent,
                theirs: versioned.version,
                own: self.version.clone(),
            });
            return;
        }
        let Some(heard) = Present::of(message) else {
            return;
        };
        let agent = heard.agent.clone();
        let has_room = self.present.len() < MAX_AGENTS;
        match self.present.get_mut(&agent) {
            Some(known) if known.hello.session != heard.hello.session => {
                self.problem.get_or_insert(RollCallError::SameName(agent));
            }
            Some(known) => *known = heard,
            None if has_room => {
                self.news_ns = message.received_ns;
                self.present.insert(agent, heard);
            }
            None => {}
        }
    }

    /// Asks again from time to time.
    pub fn on_tick(&mut self, now_ns: u64) {
        if now_ns < self.ask_due_ns {
            return;
        }
        self.ask_due_ns = now_ns.saturating_add(ASK_NS);
        self.outgoing.push(self.question.clone());
    }

    /// The messages to be sent now.
    pub fn take_outgoing(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.outgoing)
    }

    /// Whether no more agents are waited for.
    #[must_use]
    pub fn has_ended(&self, now_ns: u64) -> bool {
        let quiet_ns = now_ns.saturating_sub(self.news_ns);
        let is_free = |agent: &AgentId| {
            let present = self.present.get(agent);
            present.is_some_and(|present| present.hello.busy.is_none())
        };
        let is_complete = match &self.expected {
            Expected::Number(expected) => self.present.len() >= *expected,
            Expected::These(agents) => agents.iter().all(is_free),
            // Without any agent it waits longer: the hub may just be starting.
            Expected::Any => {
                quiet_ns >= QUIET_NS && !self.present.is_empty() || quiet_ns >= 3 * QUIET_NS
            }
        };
        is_complete || now_ns.saturating_sub(self.began_ns) >= LIMIT_NS
    }

    /// Why the agents that have come cannot be used together, if their introductions say so.
    #[must_use]
    pub fn problem(&self) -> Option<&RollCallError> {
        self.problem.as_ref()
    }

    /// All agents that have come, whether they can be used or not.
    #[must_use]
    pub fn into_present(self) -> Vec<Present> {
        self.present.into_values().collect()
    }

    /// The agents for a run.
    ///
    /// # Errors
    /// If they cannot be used together.
    pub fn into_fleet(self) -> Result<Vec<Present>, RollCallError> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        if let Expected::These(agents) = &self.expected {
            let absent = agents
                .iter()
                .filter(|agent| !self.present.contains_key(*agent));
            let absent: Vec<&str> = absent.map(AgentId::as_str).collect();
            if !absent.is_empty() {
                return Err(RollCallError::Absent {
                    fleet: self.fleet,
                    agents: named(&absent),
                });
            }
        }
        if self.present.is_empty() {
            return Err(RollCallError::Nobody(self.fleet));
        }
        if let Expected::Number(expected) = self.expected
            && self.present.len() < expected
        {
            let names: Vec<&str> = self.present.keys().map(AgentId::as_str).collect();
            return Err(RollCallError::Missing {
                fleet: self.fleet,
                present: names.len(),
                expected,
                names: names.join(", "),
            });
        }
        let busy = self.present.values().find_map(|present| {
            let run = present.hello.busy.as_ref()?;
            Some(RollCallError::Busy {
                agent: present.agent.clone(),
                run: run.to_string(),
            })
        });
        match busy {
            Some(busy) => Err(busy),
            None => Ok(self.present.into_values().collect()),
        }
    }
}

/// The agents with these names: `agents a1, a2 and 3 more`.
fn named(names: &[&str]) -> String {
    const SHOWN_MAX: usize = 5;
    let word = if names.len() == 1 { "agent" } else { "agents" };
    let shown = &names[..names.len().min(SHOWN_MAX)];
    let more = match names.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{word} {}{more}", shown.join(", "))
}
