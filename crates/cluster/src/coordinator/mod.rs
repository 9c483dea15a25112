//! The coordinator: has agents prepare a run, start it at one moment, and hand over their results.
//!
//! [`RollCall`], [`FleetRun`] and [`RunVisit`] are state machines: messages and the time go in,
//! messages and events come out. [`call_roll`], [`ConnectedRun`] and [`carry_out_visit`] connect
//! them to a bus.

mod drive;
mod outcome;
mod peer;
mod roll_call;
mod visit;

pub use drive::{ConnectedRun, Watcher, call_roll, carry_out_visit, roll_call};
pub use outcome::{
    AgentPart, ClockReport, Course, Event, FleetError, FleetOutcome, PartResult, StopReason,
};
pub(crate) use roll_call::roll_call_question;
pub use roll_call::{
    Chosen, LeftOut, MAX_AGENTS, Number, Present, RollCall, RollCallError, Wanted,
};
pub use visit::{RunVisit, VisitOutcome, VisitPurpose, VisitSettings};

use std::collections::BTreeMap;

use crate::agent_link::{Question, Signer};
use crate::bus::{Message, Outgoing};
use crate::clock::{Exchange, WallClock};
use crate::message::{
    Audience, Beat, Command, FromAgent, MAX_BEAT_BYTES, MAX_MESSAGE_BYTES, Reply, Stage, Subjects,
    ToAgent, decode, encode,
};
use crate::names::{AgentId, FleetName, Label, RunId};
use crate::refusal::RefusedBy;
use crate::session::LEASE_NS;
use crate::signing::SigningKey;
use peer::{Peer, patience_ns};

const MS: u64 = 1_000_000;

/// An agent is lost if it was not heard for this time: six beats.
pub const LOST_NS: u64 = 3_000 * MS;

/// A lost agent is given up if it was not heard for this time: its lease has lapsed, so it has
/// ended the load, and would have reported that.
pub const GIVEN_UP_NS: u64 = LEASE_NS + 5_000 * MS;

/// Before the start, a silent agent ends the run after this time. Nothing was measured yet.
const SILENCE_BEFORE_START_NS: u64 = 10_000 * MS;

/// Time between two signs of life of the coordinator: ten in a lease, since some may be lost.
const LEASE_INTERVAL_NS: u64 = 1_000 * MS;

/// The order to stop is repeated at this interval until all agents have stopped, but not longer
/// than the limit.
const STOP_INTERVAL_NS: u64 = 250 * MS;
const STOP_LIMIT_NS: u64 = 5_000 * MS;

/// The least time from the order to start to the start, and the least in round trips.
const START_LEAD_NS: u64 = 2_000 * MS;
const START_LEAD_ROUND_TRIPS: u64 = 10;

/// The start is called off if an agent has not confirmed it this long before.
const START_MARGIN_NS: u64 = 200 * MS;

/// Results are given up if no piece has come for this time: those of agents that are not heard, and
/// those of all agents.
const FETCH_SILENCE_NS: u64 = 30_000 * MS;
const FETCH_LIMIT_NS: u64 = 120_000 * MS;

/// Agents that still make load this long after the planned end are told to stop. An agent kills its
/// load process 20 s after the planned end.
pub const OVERDUE_NS: u64 = 30_000 * MS;

/// How long agents may take to drop the run.
const RELEASE_LIMIT_NS: u64 = 1_000 * MS;

/// How long an order for one agent is valid.
const VALIDITY_NS: u64 = 30_000 * MS;

/// The most pieces on the way, for all agents: together 11 MB.
const PIECES_OF_ALL: usize = 32;

/// An agent that prepares is asked for its state if it was not heard for this time.
const QUIET_NS: u64 = 1_000 * MS;

/// The most questions about clocks in a second: those of eight near agents at the same time, or of
/// more agents that are farther away. More questions would queue, which makes round trips longer.
const CLOCK_QUESTIONS_PER_S: u64 = 8_000;

/// What to do when an agent is lost during the load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnLost {
    /// The others go on with their own shares; the result is partial.
    #[default]
    Continue,
    /// All end at once.
    Abort,
}

/// A run of a fleet.
#[derive(Debug, Clone)]
pub struct RunSettings {
    /// The fleet that makes the run.
    pub fleet: FleetName,
    /// The version of this program.
    pub version: Label,
    /// The name of the run, which no other run has.
    pub run: RunId,
    /// What to do when an agent is lost.
    pub on_lost: OnLost,
    /// Where replies go: [`Bus::new_inbox`](crate::bus::Bus::new_inbox).
    pub inbox: String,
    /// The wall clock of this machine, if its kernel says that it is synchronized.
    pub wall: Option<WallClock>,
    /// How long the load lasts as planned, with the warm-up, nanoseconds. `None`: a number of
    /// requests ends it.
    pub length_ns: Option<u64>,
}

/// An agent and its part of the plan.
#[derive(Debug, Clone)]
pub struct Member {
    /// What the agent said about itself.
    pub present: Present,
    /// The encoded [`Package`](crate::package::Package) of the agent.
    pub package: Vec<u8>,
}

/// A run of a fleet in progress.
pub struct FleetRun {
    settings: RunSettings,
    subjects: Subjects,
    signer: Signer,
    peers: BTreeMap<AgentId, Peer>,
    phase: Phase,
    /// Number of the latest order for all.
    sequence: u64,
    lease_due_ns: u64,
    stop_due_ns: u64,
    start_ns: Option<u64>,
    stop: Option<StopReason>,
    failure: Option<FleetError>,
    outgoing: Vec<Outgoing>,
    events: Vec<Event>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Preparing,
    ReadingClocks,
    Starting,
    Running,
    Stopping { since_ns: u64 },
    Fetching { news_ns: u64 },
    Releasing { since_ns: u64 },
    Done,
}

/// Signs the orders of a run, and of whoever visits it.
fn signer(key: SigningKey, version: &Label, fleet: &FleetName, run: &RunId) -> Signer {
    Signer {
        key,
        version: version.clone(),
        fleet: fleet.clone(),
        run: run.clone(),
        validity_ns: VALIDITY_NS,
    }
}

impl FleetRun {
    /// Begins a run with these agents.
    pub fn new(settings: RunSettings, key: SigningKey, members: Vec<Member>, now_ns: u64) -> Self {
        let subjects = Subjects::new(&settings.fleet);
        let peers = members.into_iter().map(|member| {
            let agent = member.present.agent.clone();
            let subject = subjects.ask(&agent);
            let inbox = settings.inbox.clone();
            (agent, Peer::new(member, subject, inbox, now_ns))
        });
        Self {
            signer: signer(key, &settings.version, &settings.fleet, &settings.run),
            peers: peers.collect(),
            settings,
            subjects,
            phase: Phase::Preparing,
            sequence: 0,
            lease_due_ns: now_ns,
            stop_due_ns: now_ns,
            start_ns: None,
            stop: None,
            failure: None,
            outgoing: Vec::new(),
            events: Vec::new(),
        }
    }

    /// The subjects whose messages [`Self::on_message`] takes.
    #[must_use]
    pub fn subscriptions(&self) -> [String; 2] {
        [self.settings.inbox.clone(), self.subjects.beats()]
    }

    /// Takes a message of one of the [subscriptions](Self::subscriptions).
    pub fn on_message(&mut self, message: &Message, now_ns: u64) {
        if message.subject == self.settings.inbox {
            if let Ok(reply) = decode(&message.payload, MAX_MESSAGE_BYTES) {
                self.on_reply(reply, message.received_ns, now_ns);
            }
        } else if let Ok(beat) = decode::<Beat>(&message.payload, MAX_BEAT_BYTES)
            && beat.run == self.settings.run
            && message.subject == self.subjects.beat(&beat.agent)
        {
            self.on_beat(beat, now_ns);
        }
    }

    /// Sends what is due, repeats what was lost, and begins the next phase. To be called after
    /// messages, and every few milliseconds.
    pub fn on_tick(&mut self, now_ns: u64) {
        self.look_for_lost(now_ns);
        self.go_on(now_ns);
        if self.has_ended() {
            return;
        }
        self.order_all(now_ns);
        self.ask(now_ns);
    }

    /// Ends the run for the user. Before the start there will be no result; during the load, the
    /// result covers the time until now; later, results that have not come yet are given up.
    pub fn interrupt(&mut self, now_ns: u64) {
        match self.phase {
            Phase::Preparing | Phase::ReadingClocks | Phase::Starting => {
                self.fail(FleetError::Interrupted, now_ns);
            }
            Phase::Running => self.stop_all(StopReason::Interrupted, now_ns),
            Phase::Stopping { .. } | Phase::Fetching { .. } => self.release(now_ns),
            Phase::Releasing { .. } | Phase::Done => {}
        }
    }

    /// Whether the run is over.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Whether all agents have prepared it.
    #[must_use]
    pub fn is_prepared(&self) -> bool {
        self.phase != Phase::Preparing
    }

    /// Why there will be no load.
    #[must_use]
    pub fn failure(&self) -> Option<&FleetError> {
        self.failure.as_ref()
    }

    /// When the load starts or started, on this machine's clock.
    #[must_use]
    pub fn start_ns(&self) -> Option<u64> {
        self.start_ns
    }

    /// What is known of the run as a whole. It is final when parts can be taken.
    #[must_use]
    pub fn course(&self) -> Course {
        Course {
            start_ns: self.start_ns,
            stop: self.stop.clone(),
        }
    }

    /// The messages to be sent now.
    pub fn take_outgoing(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.outgoing)
    }

    /// What has happened since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// The parts of agents whose results have come since the last call. They are in no outcome any
    /// more.
    pub fn take_parts(&mut self) -> Vec<AgentPart> {
        if self.is_before_start() || matches!(self.phase, Phase::Running | Phase::Stopping { .. }) {
            return Vec::new();
        }
        let complete = self.peers.values_mut().filter(|peer| peer.is_complete());
        complete.filter_map(Peer::take_part).collect()
    }

    /// The outcome of the run.
    #[must_use]
    pub fn into_outcome(mut self) -> FleetOutcome {
        let left = self.peers.values_mut().filter_map(Peer::take_part);
        FleetOutcome {
            parts: left.collect(),
            start_ns: self.start_ns,
            stop: self.stop,
            failure: self.failure,
        }
    }

    fn on_reply(&mut self, answer: FromAgent, received_ns: u64, now_ns: u64) {
        let FromAgent {
            agent,
            id,
            now_ns: there_ns,
            reply,
            ..
        } = answer;
        let Some(peer) = self.peers.get_mut(&agent) else {
            return;
        };
        let asked = peer.link.answered(id);
        if let Some(asked) = &asked {
            peer.note_reply(received_ns.saturating_sub(asked.sent_ns));
        }
        Self::heard(&mut self.events, peer, there_ns, now_ns);
        // Most replies are worth as much when they come late or twice. If they were dropped, agents
        // that are always slow would be asked forever.
        match (reply, asked) {
            (
                Reply::Clock {
                    received_ns: there_received_ns,
                },
                Some(asked),
            ) if received_ns < asked.due_ns => peer.add_exchange(Exchange {
                sent_ns: asked.sent_ns,
                received_ns: there_received_ns,
                replied_ns: there_ns,
                returned_ns: received_ns,
            }),
            (Reply::Stage { stage, .. }, _) => self.on_stage(&agent, stage, now_ns),
            (Reply::Piece { piece, .. }, _) => {
                if let Some(bytes) = peer.add_piece(piece) {
                    self.events.push(Event::Fetched { agent, bytes });
                }
                if let Phase::Fetching { news_ns } = &mut self.phase {
                    *news_ns = now_ns;
                }
            }
            (Reply::Closed, _) => peer.is_released = true,
            (Reply::Refused(refusal), Some(asked)) => {
                self.on_refusal(&asked.question, RefusedBy { agent, refusal }, now_ns);
            }
            (Reply::Hello(_) | Reply::Clock { .. } | Reply::Refused(_), _) => {}
        }
    }

    fn on_refusal(&mut self, question: &Question, by: RefusedBy, now_ns: u64) {
        let Some(peer) = self.peers.get_mut(&by.agent) else {
            return;
        };
        match question {
            Question::Close => peer.is_released = true,
            _ if peer.link.is_noise(question, &by.refusal, &self.signer) => {}
            Question::Fetch(_) => peer.give_up(&by.refusal.to_string()),
            _ if self.is_before_start() => self.fail(FleetError::Refused(by), now_ns),
            _ => {}
        }
    }

    fn on_beat(&mut self, beat: Beat, now_ns: u64) {
        let Some(peer) = self.peers.get_mut(&beat.agent) else {
            return;
        };
        if beat.sequence <= peer.beats {
            // The beat came twice, or out of order.
            return;
        }
        peer.beats = beat.sequence;
        Self::heard(&mut self.events, peer, beat.now_ns, now_ns);
        if let Some(snapshot) = beat.progress {
            self.events.push(Event::Progress {
                agent: beat.agent.clone(),
                snapshot,
            });
        }
        self.on_stage(&beat.agent, beat.stage, now_ns);
    }

    fn heard(events: &mut Vec<Event>, peer: &mut Peer, there_ns: u64, now_ns: u64) {
        peer.link.hear(there_ns, now_ns);
        if std::mem::take(&mut peer.is_lost) {
            let agent = peer.present.agent.clone();
            events.push(Event::Returned { agent });
        }
    }

    fn on_stage(&mut self, agent: &AgentId, stage: Stage, now_ns: u64) {
        let is_before_start = self.is_before_start();
        let Some(peer) = self.peers.get_mut(agent) else {
            return;
        };
        if peer.has_ended() || peer.link.stage.as_ref() == Some(&stage) {
            return;
        }
        let agent = agent.clone();
        match &stage {
            Stage::Prepared { notes } => self.events.push(Event::Prepared {
                agent,
                notes: notes.clone(),
            }),
            Stage::Running => peer.has_confirmed = true,
            Stage::Failed { reason } => {
                let reason = reason.clone();
                peer.link.stage = Some(stage);
                return self.on_failed(agent, reason, is_before_start, now_ns);
            }
            Stage::Finished { body, ending } => {
                peer.has_confirmed = true;
                peer.expect_result(body);
                self.events.push(Event::Ended {
                    agent,
                    ending: *ending,
                });
            }
            _ => {}
        }
        peer.link.stage = Some(stage);
    }

    fn on_failed(&mut self, agent: AgentId, reason: Label, is_before_start: bool, now_ns: u64) {
        if is_before_start {
            return self.fail(FleetError::Failed { agent, reason }, now_ns);
        }
        self.events.push(Event::Failed {
            agent: agent.clone(),
            reason,
        });
        if self.settings.on_lost == OnLost::Abort && self.phase == Phase::Running {
            self.stop_all(StopReason::Lost(agent), now_ns);
        }
    }

    fn look_for_lost(&mut self, now_ns: u64) {
        if self.is_before_start() {
            let silent = self
                .peers
                .iter()
                .find(|(_, peer)| peer.silent_ns(now_ns) > SILENCE_BEFORE_START_NS);
            if let Some((agent, _)) = silent {
                let agent = agent.clone();
                self.fail(FleetError::Silent(agent), now_ns);
            }
            return;
        }
        if !matches!(self.phase, Phase::Running | Phase::Stopping { .. }) {
            return;
        }
        let mut newly_lost = Vec::new();
        for (agent, peer) in &mut self.peers {
            if !peer.has_ended() && !peer.is_lost && peer.silent_ns(now_ns) > LOST_NS {
                peer.is_lost = true;
                peer.was_lost = true;
                newly_lost.push(agent.clone());
            }
        }
        for agent in newly_lost {
            self.events.push(Event::Lost {
                agent: agent.clone(),
            });
            if self.settings.on_lost == OnLost::Abort && self.phase == Phase::Running {
                self.stop_all(StopReason::Lost(agent), now_ns);
            }
        }
    }

    /// Begins the next phase if this one is over.
    fn go_on(&mut self, now_ns: u64) {
        let mut peers = self.peers.values();
        match self.phase {
            Phase::Preparing => {
                if peers.all(|peer| matches!(peer.link.stage, Some(Stage::Prepared { .. }))) {
                    self.phase = Phase::ReadingClocks;
                }
            }
            Phase::ReadingClocks => {
                if peers.all(Peer::has_clock) {
                    self.set_start(now_ns);
                }
            }
            Phase::Starting => self.go_on_from_starting(now_ns),
            Phase::Running => {
                if peers.all(|peer| peer.has_ended() || peer.silent_ns(now_ns) > GIVEN_UP_NS) {
                    self.phase = Phase::Fetching { news_ns: now_ns };
                } else if let Some(agent) = self.overdue(now_ns) {
                    self.stop_all(StopReason::Overdue(agent), now_ns);
                }
            }
            Phase::Stopping { since_ns } => {
                let is_over = now_ns.saturating_sub(since_ns) > STOP_LIMIT_NS;
                if is_over || peers.all(|peer| peer.has_ended() || peer.is_lost) {
                    self.phase = Phase::Fetching { news_ns: now_ns };
                }
            }
            Phase::Fetching { news_ns } => {
                let waited_ns = now_ns.saturating_sub(news_ns);
                let is_over = waited_ns > FETCH_LIMIT_NS;
                let is_worth_waiting = |peer: &Peer| {
                    waited_ns <= FETCH_SILENCE_NS || peer.silent_ns(now_ns) <= LOST_NS
                };
                if is_over || !peers.any(|peer| peer.has_more_to_fetch() && is_worth_waiting(peer))
                {
                    self.release(now_ns);
                }
            }
            Phase::Releasing { since_ns } => {
                let is_over = now_ns.saturating_sub(since_ns) > RELEASE_LIMIT_NS;
                if is_over || peers.all(|peer| peer.is_released || peer.is_lost) {
                    self.phase = Phase::Done;
                }
            }
            Phase::Done => {}
        }
    }

    /// All clocks are known: sets a start that is far enough ahead for the slowest link.
    fn set_start(&mut self, now_ns: u64) {
        let mut slowest_ns = 0;
        for (agent, peer) in &mut self.peers {
            if let Some(offset) = peer.settle_clock(self.settings.wall) {
                slowest_ns = slowest_ns.max(peer.longest_round_trip_ns);
                self.events.push(Event::Clock {
                    agent: agent.clone(),
                    offset,
                });
            }
        }
        let lead_ns = START_LEAD_NS.max(slowest_ns.saturating_mul(START_LEAD_ROUND_TRIPS));
        self.start_ns = Some(now_ns.saturating_add(lead_ns));
        self.phase = Phase::Starting;
        self.events.push(Event::Starting { in_ns: lead_ns });
    }

    fn go_on_from_starting(&mut self, now_ns: u64) {
        let start_ns = self.start_ns.unwrap_or(now_ns);
        let unconfirmed = self.peers.iter().find(|(_, peer)| !peer.has_confirmed);
        match unconfirmed {
            Some((agent, _)) if now_ns.saturating_add(START_MARGIN_NS) >= start_ns => {
                let agent = agent.clone();
                self.fail(FleetError::Unconfirmed(agent), now_ns);
            }
            None if now_ns >= start_ns => {
                self.phase = Phase::Running;
                self.events.push(Event::Started);
            }
            _ => {}
        }
    }

    /// There will be no result.
    fn fail(&mut self, failure: FleetError, now_ns: u64) {
        if self.failure.is_none() {
            self.failure = Some(failure);
            self.start_ns = None;
            self.release(now_ns);
        }
    }

    fn stop_all(&mut self, reason: StopReason, now_ns: u64) {
        self.events.push(Event::Stopping(reason.clone()));
        self.stop = Some(reason);
        self.phase = Phase::Stopping { since_ns: now_ns };
        self.stop_due_ns = now_ns;
    }

    /// An agent that still makes load long after the planned end.
    fn overdue(&self, now_ns: u64) -> Option<AgentId> {
        let end_ns = self.start_ns?.saturating_add(self.settings.length_ns?);
        if now_ns < end_ns.saturating_add(OVERDUE_NS) {
            return None;
        }
        let mut peers = self.peers.iter();
        let (agent, _) = peers.find(|(_, peer)| !peer.has_ended() && !peer.is_lost)?;
        Some(agent.clone())
    }

    /// Has the agents drop the run. Those that are heard and have not ended are not waited for any
    /// more.
    fn release(&mut self, now_ns: u64) {
        if self.failure.is_none() {
            let reason = match &self.stop {
                Some(StopReason::Overdue(_)) => {
                    "it went on after the planned end, and did not stop when it was told to"
                }
                _ => "it did not stop when it was told to",
            };
            for (agent, peer) in &mut self.peers {
                if peer.has_ended() || peer.silent_ns(now_ns) > LOST_NS {
                    continue;
                }
                peer.give_up(reason);
                self.events.push(Event::Failed {
                    agent: agent.clone(),
                    reason: reason.into(),
                });
            }
        }
        self.phase = Phase::Releasing { since_ns: now_ns };
    }

    /// Tells all agents that the coordinator is alive, or that they must stop.
    fn order_all(&mut self, now_ns: u64) {
        let is_stopping = matches!(self.phase, Phase::Stopping { .. });
        if is_stopping && now_ns >= self.stop_due_ns {
            self.stop_due_ns = now_ns.saturating_add(STOP_INTERVAL_NS);
            self.send_to_all(Command::Stop);
        } else if !is_stopping && now_ns >= self.lease_due_ns {
            self.lease_due_ns = now_ns.saturating_add(LEASE_INTERVAL_NS);
            self.send_to_all(Command::Lease);
        }
    }

    fn send_to_all(&mut self, command: Command) {
        self.sequence += 1;
        let sequence = self.sequence;
        let ask = self.signer.order(Audience::Run { sequence }, command);
        self.outgoing.push(Outgoing {
            subject: self.subjects.all(),
            reply: None,
            payload: encode(&ToAgent { id: 0, ask }),
        });
    }

    /// Asks each agent what this phase needs to know and what is not being asked already.
    fn ask(&mut self, now_ns: u64) {
        let (mut pieces, mut per_s) = (0, 0);
        for peer in self.peers.values() {
            pieces += peer
                .link
                .on_the_way(now_ns)
                .filter(|asked| asked.is_piece())
                .count();
            if peer.link.is_asked(&Question::Clock, now_ns) {
                per_s += peer.clock_questions_per_s();
            }
        }
        for peer in self.peers.values_mut() {
            for question in Self::wanted(self.phase, self.start_ns, peer, now_ns) {
                let (is_piece, is_clock) = (question.is_piece(), question == Question::Clock);
                if is_piece && pieces >= PIECES_OF_ALL || is_clock && per_s >= CLOCK_QUESTIONS_PER_S
                {
                    continue;
                }
                let patience_ns = patience_ns(&question);
                let sent = peer.link.send(question, &self.signer, patience_ns, now_ns);
                let Some(message) = sent else { continue };
                self.outgoing.push(message);
                pieces += usize::from(is_piece);
                if is_clock {
                    per_s += peer.clock_questions_per_s();
                }
            }
        }
    }

    fn wanted(phase: Phase, start_ns: Option<u64>, peer: &Peer, now_ns: u64) -> Vec<Question> {
        match phase {
            Phase::Preparing => peer.link.wanted_for_call(now_ns, QUIET_NS),
            Phase::ReadingClocks if !peer.has_clock() => vec![Question::Clock],
            Phase::Starting if !peer.has_confirmed => {
                let there_ns = start_ns.and_then(|start_ns| peer.clock_there(start_ns));
                there_ns.map(Question::Start).into_iter().collect()
            }
            Phase::Running if peer.wants_clock_again(now_ns) => vec![Question::Clock],
            Phase::Fetching { .. } if peer.has_more_to_fetch() => {
                peer.link.wanted_for_call(now_ns, QUIET_NS)
            }
            Phase::Releasing { .. } if !peer.is_released => vec![Question::Close],
            _ => Vec::new(),
        }
    }

    fn is_before_start(&self) -> bool {
        matches!(
            self.phase,
            Phase::Preparing | Phase::ReadingClocks | Phase::Starting
        )
    }
}
