//! The roll call: agents introduce themselves when they are asked.

use std::collections::{BTreeMap, BTreeSet};

use crate::bus::{Message, Outgoing};
use crate::message::{
    Ask, FromAgent, Hello, MAX_MESSAGE_BYTES, Reply, Subjects, ToAgent, Versioned, decode, encode,
};
use crate::names::{AgentId, FleetName, Label, Session};
use crate::occupation::Occupation;

/// Time between two questions: one may be lost.
const ASK_NS: u64 = 500_000_000;

/// If the number of agents is not known, the roll call ends when no new one has come for this time.
const QUIET_NS: u64 = 1_000_000_000;

/// The longest roll call, if expected agents do not come.
const LIMIT_NS: u64 = 10_000_000_000;

/// The most agents of a fleet.
pub const MAX_AGENTS: usize = 10_000;

/// The agents that are to make a run. What makes the choice is the same for every roll call: names
/// and places, and never who answers first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// These agents take part, and are waited for until they are free. Empty: the other fields
    /// decide.
    pub names: Vec<AgentId>,
    /// Only agents at these places take part, and each of them must have some; empty: all places.
    pub places: Vec<Label>,
    /// How many of them.
    pub number: Number,
}

/// How many agents take part, of those at the wanted places. The first ones by name are taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Number {
    /// All that introduce themselves in time.
    #[default]
    All,
    /// This number of agents, at least 1.
    Total(usize),
    /// This number of agents at each place, at least 1.
    PerPlace(usize),
}

impl From<Number> for Wanted {
    fn from(number: Number) -> Self {
        Self {
            number,
            ..Self::default()
        }
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
            hello: *hello,
            now_ns: answer.now_ns,
            heard_ns: message.received_ns,
        })
    }
}

/// The question that asks all agents that hear a subject to introduce themselves.
pub(crate) fn roll_call_question(subject: String) -> Outgoing {
    let ask = Ask::RollCall;
    Outgoing {
        subject,
        reply: None,
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
    /// Fewer agents than wanted can be used.
    #[error("{present} of {wanted} agents of the fleet {fleet}{at} respond: {names}{unusable}")]
    Missing {
        /// The fleet that was called.
        fleet: FleetName,
        /// Where they are wanted: ` at the place us`; empty: anywhere.
        at: String,
        /// The number of agents that have come.
        present: usize,
        /// The number of agents that are wanted.
        wanted: usize,
        /// The names of those that are there, with commas.
        names: String,
        /// Agents that cannot be used, in brackets, if there are any.
        unusable: String,
    },
    /// Nobody is at a place.
    #[error("no agent is at the place {place:?}; there are agents at {known}")]
    NoAgentAt {
        /// The place that was asked for.
        place: Label,
        /// The places that have agents.
        known: String,
    },
    /// Agents that were named have not introduced themselves.
    #[error("no response from {agents} of the fleet {fleet}")]
    Absent {
        /// The fleet that was called.
        fleet: FleetName,
        /// The agents that are missing: `agent a1`.
        agents: String,
    },
    /// An agent that is to take part has another version.
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
    #[error(
        "agent {agent} is busy with {occupation}; wait for its end or choose other agents \
         (wrkbench fleet status --nats ... lists them)"
    )]
    Busy {
        /// The name of the agent.
        agent: AgentId,
        /// The run that it takes part in.
        occupation: Occupation,
    },
}

/// The agents of a run, and those that stay out of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chosen {
    /// The agents that make the run, by name.
    pub agents: Vec<Present>,
    /// The others that have introduced themselves, by name, with the reason.
    pub left_out: Vec<(AgentId, LeftOut)>,
}

/// Why an agent takes no part in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftOut {
    /// Others were named, or are enough.
    NotNeeded,
    /// It is at this place, where no agent is wanted.
    Place(Label),
    /// It has this version, which is another one.
    Version(Label),
}

impl Chosen {
    /// Who takes no part and why, in one line; `None` if all take part.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let shown = self.left_out.iter().take(SHOWN_MAX);
        let shown = shown.map(|(agent, why)| match why {
            LeftOut::NotNeeded => agent.to_string(),
            LeftOut::Place(place) => format!("{agent} (at {place})"),
            LeftOut::Version(version) => format!("{agent} (another version: {version})"),
        });
        let mut names = shown.collect::<Vec<_>>().join(", ");
        let more = self.left_out.len().saturating_sub(SHOWN_MAX);
        if more > 0 {
            names += &format!(" and {more} more");
        }
        let verb = match self.left_out.len() {
            0 => return None,
            1 => "agent takes",
            _ => "agents take",
        };
        Some(format!("{} {verb} no part: {names}", self.left_out.len()))
    }
}

/// How many sessions of an agent are remembered: more runs do not begin within a roll call.
const MAX_FORMER: usize = 16;

/// What is known of an agent that was heard.
#[derive(Debug, Clone)]
struct Heard {
    version: Label,
    /// `None` if it has another version.
    present: Option<Present>,
    /// Versions and sessions by which it has introduced itself before, if others: a run that begins
    /// gives an agent another session.
    former: Vec<(Label, Option<Session>)>,
    /// Whether one of those has come back, so that there are two agents of this name.
    is_doubled: bool,
}

impl Heard {
    fn of(message: &Message, own: &Label) -> Option<(AgentId, Self)> {
        let versioned: Versioned = decode(&message.payload, MAX_MESSAGE_BYTES).ok()?;
        let present = if versioned.version == *own {
            Some(Present::of(message)?)
        } else {
            None
        };
        let heard = Self {
            version: versioned.version,
            present,
            former: Vec::new(),
            is_doubled: false,
        };
        Some((versioned.agent, heard))
    }

    fn version_and_session(&self) -> (Label, Option<Session>) {
        let present = self.present.as_ref();
        let session = present.map(|present| present.hello.session.clone());
        (self.version.clone(), session)
    }

    /// What is known after `before` was heard by the same name.
    fn following(mut self, before: &mut Self) -> Self {
        let (now, then) = (self.version_and_session(), before.version_and_session());
        self.former = std::mem::take(&mut before.former);
        self.is_doubled = before.is_doubled || self.former.contains(&now);
        if now != then && self.former.len() < MAX_FORMER {
            self.former.push(then);
        }
        self
    }

    fn is_free(&self) -> bool {
        let present = self.present.as_ref();
        present.is_some_and(|present| present.hello.busy.is_none())
    }
}

/// A roll call in progress.
pub struct RollCall {
    fleet: FleetName,
    subjects: Subjects,
    version: Label,
    question: Outgoing,
    wanted: Wanted,
    began_ns: u64,
    ask_due_ns: u64,
    /// When a new agent came.
    news_ns: u64,
    heard: BTreeMap<AgentId, Heard>,
    outgoing: Vec<Outgoing>,
}

impl RollCall {
    /// Calls the agents of a fleet, and waits for those that are wanted.
    #[must_use]
    pub fn new(fleet: FleetName, version: Label, wanted: impl Into<Wanted>, now_ns: u64) -> Self {
        let subjects = Subjects::new(&fleet);
        Self {
            question: roll_call_question(subjects.all()),
            subjects,
            fleet,
            version,
            wanted: wanted.into(),
            began_ns: now_ns,
            ask_due_ns: now_ns,
            news_ns: now_ns,
            heard: BTreeMap::new(),
            outgoing: Vec::new(),
        }
    }

    /// The pattern of the subjects whose messages [`Self::on_message`] takes.
    #[must_use]
    pub fn subscription(&self) -> String {
        self.subjects.hellos()
    }

    /// Takes a message. One that introduces another agent than its subject is ignored.
    pub fn on_message(&mut self, message: &Message) {
        let heard = Heard::of(message, &self.version)
            .filter(|(agent, _)| message.subject == self.subjects.hello(agent));
        let Some((agent, heard)) = heard else {
            return;
        };
        let has_room = self.heard.len() < MAX_AGENTS;
        match self.heard.get_mut(&agent) {
            Some(before) => *before = heard.following(before),
            None if has_room => {
                self.news_ns = message.received_ns;
                self.heard.insert(agent, heard);
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

    /// Whether no more agents are waited for. Unless all are known by name, agents that are farther
    /// away than the others may still come, so it waits until no new one has come for a second.
    #[must_use]
    pub fn has_ended(&self, now_ns: u64) -> bool {
        if now_ns.saturating_sub(self.began_ns) >= LIMIT_NS {
            return true;
        }
        let names = &self.wanted.names;
        if !names.is_empty() {
            let mut known = names.iter().map(|agent| self.heard.get(agent));
            let is_awaited = |heard: &Heard| heard.present.is_some() && !heard.is_free();
            return known.all(|heard| heard.is_some_and(|heard| !is_awaited(heard)));
        }
        let quiet_ns = now_ns.saturating_sub(self.news_ns);
        let waits_for_all = self.wanted.number == Number::All;
        // Without an agent it waits longer: the hub may just be starting.
        quiet_ns >= QUIET_NS && self.choose().is_ok() || waits_for_all && quiet_ns >= 3 * QUIET_NS
    }

    /// Why the agents that have come cannot be used together, if their introductions say so.
    #[must_use]
    pub fn problem(&self) -> Option<RollCallError> {
        let mut heard = self.heard.iter();
        heard.find_map(|(agent, heard)| self.problem_of(agent, heard))
    }

    /// All agents of this version that have come, whether they can be used or not.
    #[must_use]
    pub fn into_present(self) -> Vec<Present> {
        let heard = self.heard.into_values();
        heard.filter_map(|heard| heard.present).collect()
    }

    /// The agents for a run.
    ///
    /// # Errors
    /// If those that are wanted are not there, or cannot be used together. Others prevent nothing.
    pub fn into_fleet(self) -> Result<Chosen, RollCallError> {
        let chosen = self.choose()?;
        let mut agents = Vec::with_capacity(chosen.len());
        for agent in &chosen {
            let Some(heard) = self.heard.get(*agent) else {
                continue;
            };
            if let Some(problem) = self.problem_of(agent, heard) {
                return Err(problem);
            }
            agents.extend(heard.present.clone());
        }
        for present in &agents {
            if let Some(occupation) = &present.hello.busy {
                return Err(RollCallError::Busy {
                    agent: present.agent.clone(),
                    occupation: occupation.clone(),
                });
            }
        }
        let others = self.heard.iter();
        let others = others.filter(|(agent, _)| !chosen.contains(agent));
        let left_out = others.map(|(agent, heard)| {
            let why = match &heard.present {
                None => LeftOut::Version(heard.version.clone()),
                Some(present) if !self.is_at_wanted_place(present) => {
                    LeftOut::Place(present.hello.place.clone())
                }
                Some(_) => LeftOut::NotNeeded,
            };
            (agent.clone(), why)
        });
        let left_out = if self.wanted.names.is_empty() {
            left_out.collect()
        } else {
            // The user knows which agents he has named.
            Vec::new()
        };
        Ok(Chosen { agents, left_out })
    }

    fn problem_of(&self, agent: &AgentId, heard: &Heard) -> Option<RollCallError> {
        if heard.is_doubled {
            return Some(RollCallError::SameName(agent.clone()));
        }
        heard.present.is_none().then(|| RollCallError::Version {
            agent: agent.clone(),
            theirs: heard.version.clone(),
            own: self.version.clone(),
        })
    }

    fn is_at_wanted_place(&self, present: &Present) -> bool {
        let places = &self.wanted.places;
        places.is_empty() || places.contains(&present.hello.place)
    }

    /// The names of the agents that are to take part.
    fn choose(&self) -> Result<Vec<&AgentId>, RollCallError> {
        let names = &self.wanted.names;
        if !names.is_empty() {
            return self.named();
        }
        let usable: Vec<&Present> = self
            .heard
            .values()
            .filter_map(|heard| heard.present.as_ref())
            .collect();
        if usable.is_empty() {
            return Err(self
                .problem()
                .unwrap_or_else(|| RollCallError::Nobody(self.fleet.clone())));
        }
        let mut at_places: BTreeMap<&Label, Vec<&AgentId>> = BTreeMap::new();
        for present in &usable {
            if self.is_at_wanted_place(present) {
                let agents = at_places.entry(&present.hello.place).or_default();
                agents.push(&present.agent);
            }
        }
        let mut places = self.wanted.places.iter();
        if let Some(place) = places.find(|place| !at_places.contains_key(place)) {
            return Err(no_agent_at(place, &usable));
        }
        let mut chosen: Vec<&AgentId> = match self.wanted.number {
            Number::All | Number::Total(_) => at_places.into_values().flatten().collect(),
            Number::PerPlace(number) => {
                let mut chosen = Vec::new();
                for (place, agents) in at_places {
                    self.expect(number, &agents, format!(" at the place {place}"))?;
                    chosen.extend(agents.into_iter().take(number));
                }
                chosen
            }
        };
        chosen.sort_unstable();
        if let Number::Total(number) = self.wanted.number {
            let at = match self.wanted.places.as_slice() {
                [] => String::new(),
                [place] => format!(" at the place {place}"),
                _ => " at these places".to_owned(),
            };
            self.expect(number, &chosen, at)?;
            chosen.truncate(number);
        }
        Ok(chosen)
    }

    /// The agents that were named.
    fn named(&self) -> Result<Vec<&AgentId>, RollCallError> {
        let mut named: Vec<&AgentId> = self.wanted.names.iter().collect();
        let absent = named.iter().filter(|it| !self.heard.contains_key(**it));
        let absent: Vec<&str> = absent.map(|agent| agent.as_str()).collect();
        if !absent.is_empty() {
            return Err(RollCallError::Absent {
                fleet: self.fleet.clone(),
                agents: named_agents(&absent),
            });
        }
        named.sort_unstable();
        named.dedup();
        Ok(named)
    }

    fn expect(&self, number: usize, there: &[&AgentId], at: String) -> Result<(), RollCallError> {
        if there.len() >= number {
            return Ok(());
        }
        let names: Vec<&str> = there.iter().map(|agent| agent.as_str()).collect();
        let unusable = self.heard.iter().filter_map(|(agent, heard)| {
            let is_other = heard.present.is_none();
            is_other.then(|| format!("{agent} is {}", heard.version))
        });
        let unusable: Vec<String> = unusable.take(SHOWN_MAX).collect();
        Err(RollCallError::Missing {
            fleet: self.fleet.clone(),
            at,
            present: names.len(),
            wanted: number,
            names: names.join(", "),
            unusable: if unusable.is_empty() {
                String::new()
            } else {
                format!(
                    " (not usable: {}; this is {})",
                    unusable.join(", "),
                    self.version
                )
            },
        })
    }
}

/// The error that nobody is at a place, given the agents that are there.
fn no_agent_at(place: &Label, agents: &[&Present]) -> RollCallError {
    let places: BTreeSet<&str> = agents.iter().map(|it| it.hello.place.as_str()).collect();
    RollCallError::NoAgentAt {
        place: place.clone(),
        known: places.into_iter().collect::<Vec<_>>().join(", "),
    }
}

/// The most names in a message.
const SHOWN_MAX: usize = 5;

/// The agents with these names: `agents a1, a2 and 3 more`.
fn named_agents(names: &[&str]) -> String {
    let word = if names.len() == 1 { "agent" } else { "agents" };
    let shown = &names[..names.len().min(SHOWN_MAX)];
    let more = match names.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{word} {}{more}", shown.join(", "))
}
