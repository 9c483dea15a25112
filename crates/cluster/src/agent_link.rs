//! The coordinator's end of a session: it repeats questions until they are answered, signs orders,
//! and carries a call and its reply in pieces.

use std::collections::BTreeMap;

use crate::bus::Outgoing;
use crate::message::{Ask, Audience, Command, Order, Piece, Stage, ToAgent, encode};
use crate::names::{AgentId, FleetName, Label, RunId, Session};
use crate::pieces::{Assembly, CallBody, piece};
use crate::refusal::Refusal;
use crate::signing::SigningKey;

/// Replies that come later than this after their question are not assigned to it.
const ANSWER_LIMIT_NS: u64 = 10_000_000_000;

/// The most pieces on the way, for one agent.
const PIECES_OF_AGENT: usize = 4;

/// How many damaged messages are sent again. A link that damages more is unusable.
const MAX_DAMAGED: u32 = 100;

/// What an agent is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Question {
    RollCall,
    Clock,
    Open,
    Lease,
    Call,
    /// A piece of the call is sent.
    Piece(u32),
    /// The load shall start at this time of the agent's clock.
    Start(u64),
    /// The load shall end.
    Stop,
    /// A piece of the reply is fetched.
    Fetch(u32),
    Close,
}

impl Question {
    /// Whether the message or its reply is large.
    pub(crate) fn is_piece(&self) -> bool {
        matches!(self, Self::Piece(_) | Self::Fetch(_))
    }
}

/// What all orders of a run have in common.
pub(crate) struct Signer {
    pub(crate) key: SigningKey,
    pub(crate) version: Label,
    pub(crate) fleet: FleetName,
    pub(crate) run: RunId,
    /// How long an order for one agent is valid.
    pub(crate) validity_ns: u64,
}

impl Signer {
    pub(crate) fn order(&self, audience: Audience, command: Command) -> Ask {
        Ask::Order(self.key.sign(&Order {
            version: self.version.clone(),
            fleet: self.fleet.clone(),
            run: self.run.clone(),
            audience,
            command,
        }))
    }

    pub(crate) fn public_key(&self) -> Label {
        Label::new(&self.key.public().to_string())
    }
}

/// A question that was sent.
pub(crate) struct Asked {
    pub(crate) question: Question,
    pub(crate) sent_ns: u64,
    /// When it may be repeated.
    pub(crate) due_ns: u64,
}

/// The link to one agent.
pub(crate) struct AgentLink {
    agent: AgentId,
    subject: String,
    /// The subject that replies go to.
    inbox: String,
    /// The session, once it is known.
    session: Option<Session>,
    /// What the clock of the agent showed, and when that was heard.
    clock: (u64, u64),
    heard_ns: u64,
    /// The number of the latest question.
    id: u64,
    /// The number of the latest order.
    number: u64,
    asked: BTreeMap<u64, Asked>,
    /// Messages to the agent that were damaged on their way.
    damaged: u32,
    /// The number of the call, its content, and how it travels.
    call: u64,
    content: Vec<u8>,
    body: CallBody,
    /// The state of the call.
    pub(crate) stage: Option<Stage>,
    /// The reply that is being fetched.
    reply: Option<Assembly>,
    damaged_pieces: u32,
}

impl AgentLink {
    pub(crate) fn new(agent: AgentId, subject: String, inbox: String, now_ns: u64) -> Self {
        Self {
            agent,
            subject,
            inbox,
            session: None,
            clock: (0, now_ns),
            heard_ns: now_ns,
            id: 0,
            number: 0,
            asked: BTreeMap::new(),
            damaged: 0,
            call: 0,
            content: Vec::new(),
            body: CallBody::Inline(Vec::new()),
            stage: None,
            reply: None,
            damaged_pieces: 0,
        }
    }

    /// The agent has introduced itself, when its clock showed `there_ns`.
    pub(crate) fn open(&mut self, session: Session, there_ns: u64, here_ns: u64) {
        self.session = Some(session);
        self.clock = (there_ns, here_ns);
    }

    pub(crate) fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// The number of the latest call; 0 before the first.
    pub(crate) fn call(&self) -> u64 {
        self.call
    }

    /// Begins the next call.
    pub(crate) fn begin(&mut self, content: Vec<u8>) {
        self.call += 1;
        self.body = CallBody::of_call(&content);
        self.content = content;
        self.stage = None;
        self.reply = None;
    }

    /// Something was heard from the agent, whose clock showed `there_ns`.
    pub(crate) fn hear(&mut self, there_ns: u64, here_ns: u64) {
        self.clock = (there_ns, here_ns);
        self.heard_ns = here_ns;
    }

    pub(crate) fn silent_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.heard_ns)
    }

    /// The questions that wait for a reply and are not repeated yet.
    pub(crate) fn on_the_way(&self, now_ns: u64) -> impl Iterator<Item = &Question> {
        let asked = self.asked.values();
        asked
            .filter(move |asked| now_ns < asked.due_ns)
            .map(|asked| &asked.question)
    }

    pub(crate) fn is_asked(&self, question: &Question, now_ns: u64) -> bool {
        self.on_the_way(now_ns).any(|asked| asked == question)
    }

    /// The question with this number has a reply. `None` if it had one, or is long forgotten.
    pub(crate) fn answered(&mut self, id: u64) -> Option<Asked> {
        self.asked.remove(&id)
    }

    /// The message with a question that is not on its way already. It may be repeated after
    /// `patience_ns`.
    pub(crate) fn send(
        &mut self,
        question: Question,
        signer: &Signer,
        patience_ns: u64,
        now_ns: u64,
    ) -> Option<Outgoing> {
        let is_recent = |asked: &Asked| now_ns < asked.sent_ns.saturating_add(ANSWER_LIMIT_NS);
        self.asked.retain(|_, asked| is_recent(asked));
        if self.is_asked(&question, now_ns) {
            return None;
        }
        let ask = self.ask(&question, signer, now_ns)?;
        self.id += 1;
        let asked = Asked {
            question,
            sent_ns: now_ns,
            due_ns: now_ns.saturating_add(patience_ns),
        };
        self.asked.insert(self.id, asked);
        Some(Outgoing {
            subject: self.subject.clone(),
            reply: Some(self.inbox.clone()),
            payload: encode(&ToAgent { id: self.id, ask }),
        })
    }

    /// `None` if there is no session yet, or the agent wants a piece that does not exist.
    fn ask(&mut self, question: &Question, signer: &Signer, now_ns: u64) -> Option<Ask> {
        let call = self.call;
        let command = match *question {
            Question::RollCall => return Some(Ask::RollCall),
            Question::Clock => return Some(Ask::Clock),
            Question::Piece(index) => {
                return Some(Ask::Piece {
                    session: self.session.clone()?,
                    call,
                    piece: piece(&self.content, index)?,
                });
            }
            Question::Open => Command::Open,
            Question::Lease => Command::Lease,
            Question::Call => Command::Call {
                call,
                body: self.body.clone(),
            },
            Question::Start(start_ns) => Command::Start { start_ns },
            Question::Stop => Command::Stop,
            Question::Fetch(index) => Command::Fetch { call, index },
            Question::Close => Command::Close,
        };
        self.number += 1;
        let (there_ns, here_ns) = self.clock;
        let audience = Audience::Agent {
            agent: self.agent.clone(),
            session: self.session.clone()?,
            number: self.number,
            expires_ns: there_ns
                .saturating_add(now_ns.saturating_sub(here_ns))
                .saturating_add(signer.validity_ns),
        };
        Some(signer.order(audience, command))
    }

    /// What brings the call forward. An agent that works for `quiet_ns` without a sign of life is
    /// asked how far it is.
    pub(crate) fn wanted_for_call(&self, now_ns: u64, quiet_ns: u64) -> Vec<Question> {
        match &self.stage {
            None | Some(Stage::Open) => vec![Question::Call],
            Some(Stage::Receiving { missing }) => {
                self.next_pieces(missing.iter().copied().map(Question::Piece), now_ns)
            }
            Some(Stage::Working) if self.silent_ns(now_ns) > quiet_ns => vec![Question::Call],
            Some(Stage::Finished { .. }) => {
                let missing = self.reply.iter().flat_map(Assembly::missing);
                self.next_pieces(missing.map(Question::Fetch), now_ns)
            }
            Some(_) => Vec::new(),
        }
    }

    /// The first of these pieces that are not on their way, as long as there are not too many.
    fn next_pieces(&self, pieces: impl Iterator<Item = Question>, now_ns: u64) -> Vec<Question> {
        let on_the_way = self.on_the_way(now_ns).filter(|asked| asked.is_piece());
        let room = PIECES_OF_AGENT.saturating_sub(on_the_way.count());
        pieces
            .filter(|piece| !self.is_asked(piece, now_ns))
            .take(room)
            .collect()
    }

    /// The call was carried out. Returns the reply if it is here already; otherwise it is fetched.
    ///
    /// # Errors
    /// The size of the reply, if it is larger than `limit` bytes.
    pub(crate) fn expect(&mut self, body: &CallBody, limit: u64) -> Result<Option<Vec<u8>>, u64> {
        match body {
            CallBody::Inline(bytes) => Ok(Some(bytes.clone())),
            CallBody::Pieces { content, .. } => {
                self.reply = Some(Assembly::new(*content, limit).ok_or(content.bytes)?);
                Ok(None)
            }
        }
    }

    /// Whether a reply is being fetched.
    pub(crate) fn is_fetching(&self) -> bool {
        self.reply.is_some()
    }

    /// A piece of the reply has come. Returns the reply once it is complete.
    pub(crate) fn add_piece(&mut self, piece: Piece) -> Option<Vec<u8>> {
        let assembly = self.reply.as_mut()?;
        // A damaged piece is fetched again, like one that was lost.
        if assembly.add(piece).is_err() {
            self.damaged_pieces += 1;
            return None;
        }
        if !assembly.is_complete() {
            return None;
        }
        let reply = assembly.take();
        match reply {
            Some(_) => self.reply = None,
            // Its pieces do not belong together: all of them are fetched again.
            None => self.damaged_pieces += 1,
        }
        reply
    }

    /// Whether the reply was damaged so often that fetching it makes no sense.
    pub(crate) fn damages_replies(&self) -> bool {
        self.damaged_pieces >= MAX_DAMAGED
    }

    /// Whether a refusal says only that the network damaged or doubled a message. The question is
    /// asked again.
    pub(crate) fn is_noise(
        &mut self,
        question: &Question,
        refusal: &Refusal,
        signer: &Signer,
    ) -> bool {
        let is_damage = match (question, refusal) {
            (_, Refusal::Replayed) => return true,
            (_, Refusal::Signature | Refusal::Malformed { .. }) => true,
            (_, Refusal::UntrustedKey { key }) => *key != signer.public_key(),
            // The session in front of a piece is not signed.
            (Question::Piece(_), Refusal::Piece { .. } | Refusal::Session) => true,
            _ => false,
        };
        self.damaged += u32::from(is_damage);
        is_damage && self.damaged <= MAX_DAMAGED
    }
}
