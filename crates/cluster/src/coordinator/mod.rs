//! The coordinator: has agents prepare a run, start it at one moment, and hand over their results.
//!
//! [`RollCall`] and [`FleetRun`] are state machines: messages and the time go in, messages and
//! events come out. [`call_roll`] and [`ConnectedRun`] connect them to a bus.

mod drive;
mod outcome;
mod peer;
mod roll_call;

pub use drive::{ConnectedRun, Watcher, call_roll, roll_call};
pub use outcome::{ClockReport, Event, FleetError, FleetOutcome, Part, PartResult, StopReason};
pub(crate) use roll_call::roll_call_question;
pub use roll_call::{Expected, MAX_AGENTS, Present, RollCall, RollCallError};

use std::collections::BTreeMap;

use crate::agent::CALL;
use crate::bus::{Message, Outgoing};
use crate::clock::{Exchange, WallClock};
use crate::message::{
    Ask, Audience, Beat, Command, FromAgent, MAX_BEAT_BYTES, MAX_MESSAGE_BYTES, Order, Reply,
    Stage, Subjects, ToAgent, decode, encode,
};
use crate::names::{AgentId, FleetName, Label, RunId};
use crate::refusal::{Refusal, RefusedBy};
use crate::session::LEASE_NS;
use crate::signing::SigningKey;
use peer::{Peer, Question};

const MS: u64 = 1_000_000;

/// An agent that was not heard for so long is lost: six beats.
pub const LOST_NS: u64 = 3_000 * MS;

/// A lost agent that was not heard for so long is not waited for: its lease has lapsed, so it has
/// ended by itself, and would have said so.
pub const GIVEN_UP_NS: u64 = LEASE_NS + 5_000 * MS;

/// Before the start nothing is lost by giving up early.
const SILENCE_BEFORE_START_NS: u64 = 10_000 * MS;

/// Time between two signs of life of the coordinator: ten in a lease, since some may be lost.
const LEASE_INTERVAL_NS: u64 = 1_000 * MS;

/// Until all agents have stopped, the order is repeated this often, for at most so long.
const STOP_INTERVAL_NS: u64 = 250 * MS;
const STOP_LIMIT_NS: u64 = 5_000 * MS;

/// The least time from the order to start to the start, and the least in round trips.
const START_LEAD_NS: u64 = 2_000 * MS;
const START_LEAD_ROUND_TRIPS: u64 = 10;

/// If not all agents have confirmed the start by this time before it, there is none.
const START_MARGIN_NS: u64 = 200 * MS;

/// If no piece of a result comes for so long, the rest is given up: from agents that are not heard,
/// and from those that are.
const FETCH_SILENCE_NS: u64 = 30_000 * MS;
const FETCH_LIMIT_NS: u64 = 120_000 * MS;

/// How long agents may take to drop the run.
const RELEASE_LIMIT_NS: u64 = 1_000 * MS;

/// How long an order for one agent is valid.
const VALIDITY_NS: u64 = 30_000 * MS;

/// The most pieces on the way, for one agent and for all: together 11 MB.
const PIECES_OF_AGENT: usize = 4;
const PIECES_OF_ALL: usize = 32;

/// The most questions about clocks in a second: eight near agents at the same time, and more if
/// they are farther away. More would wait for each other, which makes round trips longer.
const CLOCK_QUESTIONS_PER_S: u64 = 8_000;

/// How many messages that were damaged on their way are sent again. It only ends what would never
/// end.
const MAX_DAMAGED: u32 = 100;

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
    key: SigningKey,
    peers: BTreeMap<AgentId, Peer>,
    asked: BTreeMap<u64, Asked>,
    next_id: u64,
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

/// A question on its way.
struct Asked {
    agent: AgentId,
    question: Question,
    sent_ns: u64,
    due_ns: u64,
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

impl FleetRun {
    /// Begins a run with these agents.
    pub fn new(settings: RunSettings, key: SigningKey, members: Vec<Member>, now_ns: u64) -> Self {
        let peers = members.into_iter().map(|member| {
            let peer = Peer::new(member, now_ns);
            (peer.present.agent.clone(), peer)
        });
        Self {
            subjects: Subjects::new(&settings.fleet),
            settings,
            key,
            peers: peers.collect(),
            asked: BTreeMap::new(),
            next_id: 1,
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

    /// Asks what is to be asked, repeats what was lost, and goes on. To be called after messages,
    /// and every few milliseconds.
    pub fn on_tick(&mut self, now_ns: u64) {
        self.forget_overdue(now_ns);
        self.look_for_lost(now_ns);
        self.go_on(now_ns);
        if self.has_ended() {
            return;
        }
        self.order_all(now_ns);
        self.ask(now_ns);
    }

    /// The user wants the end. Before the start there will be no result; during the load there is
    /// one of the time until now; later, results that have not come yet are given up.
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

    /// Whether it is over.
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

    /// The messages to be sent now.
    pub fn take_outgoing(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.outgoing)
    }

    /// What has happened since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// What came of it.
    #[must_use]
    pub fn into_outcome(self) -> FleetOutcome {
        FleetOutcome {
            parts: self.peers.into_values().map(Peer::into_part).collect(),
            start_ns: self.start_ns,
            stop: self.stop,
            failure: self.failure,
        }
    }

    fn on_reply(&mut self, reply: FromAgent, received_ns: u64, now_ns: u64) {
        let FromAgent {
            id,
            agent,
            now_ns: there_ns,
            reply,
            ..
        } = reply;
        let Some(peer) = self.peers.get_mut(&agent) else {
            return;
        };
        let is_asked = self
            .asked
            .get(&id)
            .is_some_and(|asked| asked.agent == agent);
        let asked = is_asked.then(|| self.asked.remove(&id)).flatten();
        if let Some(asked) = &asked {
            peer.asked.retain(|question| *question != asked.question);
            peer.note_reply(received_ns.saturating_sub(asked.sent_ns));
        }
        Self::heard(&mut self.events, &agent, peer, now_ns);
        // Most replies are worth as much when they come late or twice. If they were dropped, agents
        // that are always slow would be asked for ever.
        match (reply, asked) {
            (
                Reply::Clock {
                    received_ns: there_received_ns,
                },
                Some(asked),
            ) => peer.add_exchange(Exchange {
                sent_ns: asked.sent_ns,
                received_ns: there_received_ns,
                replied_ns: there_ns,
                returned_ns: received_ns,
            }),
            (Reply::Stage { stage, .. }, _) => {
                peer.clock = (there_ns, now_ns);
                self.on_stage(&agent, stage, now_ns);
            }
            (Reply::Piece { piece, .. }, _) => {
                if let Some(fetched) = peer.add_piece(piece) {
                    self.events.push(Event::Fetched {
                        agent,
                        bytes: fetched,
                    });
                }
                if let Phase::Fetching { news_ns } = &mut self.phase {
                    *news_ns = now_ns;
                }
            }
            (Reply::Closed, _) => peer.is_released = true,
            (Reply::Refused(refusal), Some(asked)) => {
                self.on_refusal(&asked.question, RefusedBy { agent, refusal }, now_ns);
            }
            (Reply::Hello(_), _) | (Reply::Clock { .. } | Reply::Refused(_), None) => {}
        }
    }

    fn on_refusal(&mut self, question: &Question, by: RefusedBy, now_ns: u64) {
        let own_key = Label::new(&self.key.public().to_string());
        let Some(peer) = self.peers.get_mut(&by.agent) else {
            return;
        };
        match (question, &by.refusal) {
            (Question::Release, _) => peer.is_released = true,
            (Question::Piece(_), Refusal::Piece { .. }) if peer.damaged < MAX_DAMAGED => {
                peer.damaged += 1;
            }
            // The network doubled the order, and the first reply was lost: it is asked again.
            (_, Refusal::Replayed) => {}
            // It was damaged on its way.
            (_, Refusal::Signature | Refusal::Malformed { .. }) if peer.damaged < MAX_DAMAGED => {
                peer.damaged += 1;
            }
            (_, Refusal::UntrustedKey { key }) if *key != own_key && peer.damaged < MAX_DAMAGED => {
                peer.damaged += 1;
            }
            // The session in front of a piece is not signed.
            (Question::Piece(_), Refusal::Session) if peer.damaged < MAX_DAMAGED => {
                peer.damaged += 1;
            }
            (Question::Fetch(_), refusal) => peer.give_up(&refusal.to_string()),
            _ if self.is_before_start() => self.fail(FleetError::Refused(by), now_ns),
            _ => {}
        }
    }

    fn on_beat(&mut self, beat: Beat, now_ns: u64) {
        let Some(peer) = self.peers.get_mut(&beat.agent) else {
            return;
        };
        if beat.sequence <= peer.beats {
            // It came twice, or out of order.
            return;
        }
        peer.beats = beat.sequence;
        peer.clock = (beat.now_ns, now_ns);
        Self::heard(&mut self.events, &beat.agent, peer, now_ns);
        if let Some(snapshot) = beat.progress {
            self.events.push(Event::Progress {
                agent: beat.agent.clone(),
                snapshot,
            });
        }
        self.on_stage(&beat.agent, beat.stage, now_ns);
    }

    fn heard(events: &mut Vec<Event>, agent: &AgentId, peer: &mut Peer, now_ns: u64) {
        peer.heard_ns = now_ns;
        if std::mem::take(&mut peer.is_lost) {
            let agent = agent.clone();
            events.push(Event::Returned { agent });
        }
    }

    fn on_stage(&mut self, agent: &AgentId, stage: Stage, now_ns: u64) {
        let is_before_start = self.is_before_start();
        let Some(peer) = self.peers.get_mut(agent) else {
            return;
        };
        if peer.has_ended() || peer.stage.as_ref() == Some(&stage) {
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
                peer.stage = Some(stage);
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
        peer.stage = Some(stage);
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

    fn forget_overdue(&mut self, now_ns: u64) {
        let peers = &mut self.peers;
        self.asked.retain(|_, asked| {
            let is_waiting = asked.due_ns > now_ns;
            if !is_waiting && let Some(peer) = peers.get_mut(&asked.agent) {
                peer.asked.retain(|question| *question != asked.question);
            }
            is_waiting
        });
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
                if peers.all(|peer| matches!(peer.stage, Some(Stage::Prepared { .. }))) {
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
                if is_over || !peers.any(|it| it.has_more_to_fetch() && is_worth_waiting(it)) {
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

    /// All clocks are known: agrees upon a start far enough ahead for the slowest link.
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

    fn release(&mut self, now_ns: u64) {
        self.phase = Phase::Releasing { since_ns: now_ns };
    }

    /// Says to all agents that the coordinator is alive, or that they shall stop.
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
        let order = self.order(
            Audience::Run {
                sequence: self.sequence,
            },
            command,
        );
        let asked = ToAgent {
            id: 0,
            ask: Ask::Order(self.key.sign(&order)),
        };
        self.outgoing.push(Outgoing {
            subject: self.subjects.all(),
            reply: None,
            payload: encode(&asked),
        });
    }

    /// Asks each agent what this phase needs to know and what is not being asked already.
    fn ask(&mut self, now_ns: u64) {
        let is_piece = |asked: &&Asked| asked.question.is_piece();
        let mut pieces = self.asked.values().filter(is_piece).count();
        let asked = self
            .peers
            .values()
            .filter(|peer| peer.asked.contains(&Question::Clock));
        let mut per_s: u64 = asked.map(Peer::clock_questions_per_s).sum();
        let mut questions = Vec::new();
        for (agent, peer) in &mut self.peers {
            for question in Self::wanted(self.phase, peer, now_ns) {
                if peer.asked.contains(&question) {
                    continue;
                }
                if question.is_piece() {
                    if pieces >= PIECES_OF_ALL {
                        continue;
                    }
                    pieces += 1;
                }
                if question == Question::Clock {
                    if per_s >= CLOCK_QUESTIONS_PER_S {
                        continue;
                    }
                    per_s += peer.clock_questions_per_s();
                }
                peer.asked.push(question.clone());
                questions.push((agent.clone(), question));
            }
        }
        for (agent, question) in questions {
            self.send(agent, question, now_ns);
        }
    }

    fn wanted(phase: Phase, peer: &Peer, now_ns: u64) -> Vec<Question> {
        match phase {
            Phase::Preparing => peer.wanted_to_prepare(now_ns, PIECES_OF_AGENT),
            Phase::ReadingClocks if !peer.has_clock() => vec![Question::Clock],
            Phase::Starting if !peer.has_confirmed => vec![Question::Start],
            Phase::Running if peer.wants_clock_again(now_ns) => vec![Question::Clock],
            Phase::Fetching { .. } => peer.wanted_pieces(PIECES_OF_AGENT),
            Phase::Releasing { .. } if !peer.is_released => vec![Question::Release],
            _ => Vec::new(),
        }
    }

    fn send(&mut self, agent: AgentId, question: Question, now_ns: u64) {
        let Some(peer) = self.peers.get_mut(&agent) else {
            return;
        };
        let command = match &question {
            Question::Clock => None,
            Question::Piece(_) => None,
            Question::Prepare => Some(peer.prepare()),
            Question::Start => peer
                .clock_there(self.start_ns.unwrap_or(now_ns))
                .map(|start_ns| Command::Start { start_ns }),
            Question::Fetch(index) => Some(Command::Fetch {
                call: CALL,
                index: *index,
            }),
            Question::Release => Some(Command::Close),
        };
        let ask = match (&question, command) {
            (Question::Piece(index), _) => match peer.piece_of_package(*index) {
                Some(piece) => Ask::Piece {
                    session: peer.present.hello.session.clone(),
                    call: CALL,
                    piece,
                },
                // The agent wants a piece that does not exist.
                None => return,
            },
            (_, Some(command)) => {
                let (there_ns, here_ns) = peer.clock;
                peer.number += 1;
                let audience = Audience::Agent {
                    agent: agent.clone(),
                    session: peer.present.hello.session.clone(),
                    number: peer.number,
                    expires_ns: there_ns
                        .saturating_add(now_ns.saturating_sub(here_ns))
                        .saturating_add(VALIDITY_NS),
                };
                let order = self.order(audience, command);
                Ask::Order(self.key.sign(&order))
            }
            (_, None) => Ask::Clock,
        };
        let id = self.next_id;
        self.next_id += 1;
        self.outgoing.push(Outgoing {
            subject: self.subjects.ask(&agent),
            reply: Some(self.settings.inbox.clone()),
            payload: encode(&ToAgent { id, ask }),
        });
        let asked = Asked {
            due_ns: now_ns.saturating_add(question.patience_ns()),
            sent_ns: now_ns,
            agent,
            question,
        };
        self.asked.insert(id, asked);
    }

    fn order(&self, audience: Audience, command: Command) -> Order {
        Order {
            version: self.settings.version.clone(),
            fleet: self.settings.fleet.clone(),
            run: self.settings.run.clone(),
            audience,
            command,
        }
    }

    fn is_before_start(&self) -> bool {
        matches!(
            self.phase,
            Phase::Preparing | Phase::ReadingClocks | Phase::Starting
        )
    }
}
