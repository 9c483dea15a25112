//! The side of the coordinator: opens a session with a host, makes calls, keeps the lease.

use std::collections::BTreeMap;

use super::{LEASE_NS, MAX_CALL_BYTES};
use crate::bus::{Message, Outgoing};
use crate::message::{
    self, Ask, Audience, Command, FromAgent, Hello, MAX_MESSAGE_BYTES, Order, Reply, Subjects,
    ToAgent, Versioned, decode, encode,
};
use crate::names::{AgentId, FleetName, Label, RunId, Session};
use crate::pieces::{Assembly, CallBody, piece};
use crate::refusal::Refusal;
use crate::signing::SigningKey;

const MS: u64 = 1_000_000;

/// Time between two questions: one may be lost.
const ASK_NS: u64 = 300 * MS;
/// Time between two signs of life.
const LEASE_DUE_NS: u64 = 2_000 * MS;
/// How long a host may take to introduce itself.
const HELLO_LIMIT_NS: u64 = 5_000 * MS;
/// After the first host of a name another one would have introduced itself.
const NAMESAKE_NS: u64 = 250 * MS;
/// How long closing may take; the lease ends the session otherwise.
const CLOSE_LIMIT_NS: u64 = 2_000 * MS;
/// How long an order is valid.
const VALIDITY_NS: u64 = 5_000 * MS;
/// Of so many questions it is known when they were sent.
const SENT_KEPT: usize = 256;

/// Why a host cannot be used, or not any more; one line, to be shown behind its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// There is no such host.
    #[error(
        "no agent with --allow-changes has this name in the fleet {fleet}; start one there, as \
         root: wrkbench agent --nats ... --name {host} --allow-changes --trust {key}"
    )]
    Nobody {
        /// The fleet.
        fleet: FleetName,
        /// Its name.
        host: AgentId,
        /// The public key of the coordinator.
        key: Label,
    },
    /// Two hosts have the same name.
    #[error("two agents have this name; give them different ones with --name")]
    SameName,
    /// The host is another version.
    #[error("the agent is {theirs}, this is {own}; install the same version on both machines")]
    Version {
        /// The host's version.
        theirs: Label,
        /// The version of this program.
        own: Label,
    },
    /// The host refuses.
    #[error("the agent refuses: {0}")]
    Refused(Refusal),
    /// Nothing was heard for too long.
    #[error(
        "the link is lost: nothing was heard from the agent for {} s. If it is alive, it ends the \
         sweep there, and the guardian restores what was changed",
        LEASE_NS / 1_000_000_000
    )]
    Lost,
    /// A call or a reply is too large.
    #[error("{what} has {bytes} bytes; the limit is {MAX_CALL_BYTES}")]
    TooLarge {
        /// What.
        what: &'static str,
        /// Its size.
        bytes: u64,
    },
    /// The connection to the fleet is closed.
    #[error("the connection to the fleet is closed")]
    Closed,
}

/// What a caller is started with.
#[derive(Debug, Clone)]
pub struct CallerSettings {
    /// The fleet.
    pub fleet: FleetName,
    /// The version of this program.
    pub version: Label,
    /// The name of the sweep.
    pub run: RunId,
    /// The host.
    pub host: AgentId,
    /// The subject that replies go to.
    pub inbox: String,
}

/// Makes calls to a host.
pub struct HostCaller {
    settings: CallerSettings,
    key: SigningKey,
    subject: String,
    stage: Stage,
    /// The clock of the host at a moment of ours. It was a little later than that.
    clock: Option<(u64, u64)>,
    /// The number of the latest order.
    number: u64,
    /// The number of the latest question, and when the latest ones were sent.
    id: u64,
    sent_ns: BTreeMap<u64, u64>,
    /// When the latest question was sent that had a reply.
    acknowledged_ns: u64,
    lease_due_ns: u64,
    call: u64,
    current: Option<Call>,
    reply: Option<Result<Vec<u8>, HostError>>,
    outgoing: Vec<Outgoing>,
}

enum Stage {
    Asking {
        since_ns: u64,
        due_ns: u64,
        first: Option<(Hello, u64)>,
    },
    Opening {
        session: Session,
        due_ns: u64,
    },
    Open {
        session: Session,
    },
    Closing {
        session: Session,
        since_ns: u64,
        due_ns: u64,
    },
    Ended(HostError),
}

struct Call {
    bytes: Vec<u8>,
    body: CallBody,
    due_ns: u64,
    /// The reply that is being fetched.
    fetched: Option<Assembly>,
}

impl HostCaller {
    /// Begins to look for the host.
    #[must_use]
    pub fn new(settings: CallerSettings, key: SigningKey, now_ns: u64) -> Self {
        Self {
            subject: Subjects::new(&settings.fleet).host(&settings.host),
            settings,
            key,
            stage: Stage::Asking {
                since_ns: now_ns,
                due_ns: now_ns,
                first: None,
            },
            clock: None,
            number: 0,
            id: 0,
            sent_ns: BTreeMap::new(),
            acknowledged_ns: now_ns,
            lease_due_ns: 0,
            call: 0,
            current: None,
            reply: None,
            outgoing: Vec::new(),
        }
    }

    /// Whether calls can be made.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open { .. })
    }

    /// Why no call can be made any more.
    #[must_use]
    pub fn ended(&self) -> Option<&HostError> {
        match &self.stage {
            Stage::Ended(error) => Some(error),
            _ => None,
        }
    }

    /// Begins a call; the one before must have its reply. A session that is not open replies with
    /// its end.
    pub fn begin(&mut self, bytes: Vec<u8>, now_ns: u64) {
        self.reply = None;
        if bytes.len() as u64 > MAX_CALL_BYTES {
            let bytes = bytes.len() as u64;
            let what = "the call";
            self.reply = Some(Err(HostError::TooLarge { what, bytes }));
            return;
        }
        self.call += 1;
        self.current = Some(Call {
            body: CallBody::of_call(&bytes),
            bytes,
            due_ns: now_ns,
            fetched: None,
        });
        self.on_tick(now_ns);
    }

    /// The reply to the current call, once.
    pub fn take_reply(&mut self) -> Option<Result<Vec<u8>, HostError>> {
        if self.reply.is_none()
            && let Some(error) = self.ended().cloned()
            && self.current.take().is_some()
        {
            return Some(Err(error));
        }
        self.reply.take()
    }

    /// Begins to close the session: everything is restored, or never was changed.
    pub fn close(&mut self, now_ns: u64) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Ended(HostError::Closed)) {
            Stage::Open { session } => Stage::Closing {
                session,
                since_ns: now_ns,
                due_ns: now_ns,
            },
            Stage::Ended(error) => Stage::Ended(error),
            _ => Stage::Ended(HostError::Closed),
        };
        self.on_tick(now_ns);
    }

    /// Takes a message of the inbox.
    pub fn on_message(&mut self, message: &Message, now_ns: u64) {
        let bytes = &message.payload;
        let Ok(Versioned { version, agent }) = decode(bytes, MAX_MESSAGE_BYTES) else {
            return;
        };
        if agent != self.settings.host {
            return;
        }
        if version != self.settings.version {
            return self.end_unless_open(HostError::Version {
                theirs: version,
                own: self.settings.version.clone(),
            });
        }
        let Ok(answer) = decode::<FromAgent>(bytes, MAX_MESSAGE_BYTES) else {
            return;
        };
        let Some(sent_ns) = self.sent_ns.get(&answer.id).copied() else {
            return;
        };
        if !matches!(answer.reply, Reply::Hello(_) | Reply::Refused(_)) {
            self.clock = Some((answer.now_ns, message.received_ns));
            self.acknowledged_ns = self.acknowledged_ns.max(sent_ns);
        }
        self.on_reply(answer, message.received_ns, now_ns);
    }

    /// Asks, asks again, and notices silence. To be called every few milliseconds.
    pub fn on_tick(&mut self, now_ns: u64) {
        self.check_silence(now_ns);
        match &mut self.stage {
            Stage::Asking {
                since_ns,
                due_ns,
                first,
            } => {
                if let Some((hello, heard_ns)) = first
                    && now_ns.saturating_sub(*heard_ns) >= NAMESAKE_NS
                {
                    let session = hello.session.clone();
                    self.acknowledged_ns = now_ns;
                    self.stage = Stage::Opening {
                        session,
                        due_ns: now_ns,
                    };
                    return self.on_tick(now_ns);
                }
                if now_ns.saturating_sub(*since_ns) >= HELLO_LIMIT_NS && first.is_none() {
                    self.stage = Stage::Ended(HostError::Nobody {
                        fleet: self.settings.fleet.clone(),
                        host: self.settings.host.clone(),
                        key: Label::new(&self.key.public().to_string()),
                    });
                } else if is_due(due_ns, now_ns, ASK_NS) {
                    self.ask(Ask::RollCall, now_ns);
                }
            }
            Stage::Opening { session, due_ns } => {
                let session = session.clone();
                if is_due(due_ns, now_ns, ASK_NS) {
                    self.order(session, Command::Open, now_ns);
                }
            }
            Stage::Open { session } => {
                let session = session.clone();
                self.ask_for_reply(&session, now_ns);
                if is_due(&mut self.lease_due_ns, now_ns, LEASE_DUE_NS) {
                    self.order(session, Command::Lease, now_ns);
                }
            }
            Stage::Closing {
                session,
                since_ns,
                due_ns,
            } => {
                let session = session.clone();
                if now_ns.saturating_sub(*since_ns) >= CLOSE_LIMIT_NS {
                    self.stage = Stage::Ended(HostError::Closed);
                } else if is_due(due_ns, now_ns, ASK_NS) {
                    self.order(session, Command::Close, now_ns);
                }
            }
            Stage::Ended(_) => {}
        }
    }

    /// The messages to be sent now.
    pub fn take_outgoing(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.outgoing)
    }

    fn session(&self) -> Option<&Session> {
        match &self.stage {
            Stage::Opening { session, .. }
            | Stage::Open { session }
            | Stage::Closing { session, .. } => Some(session),
            Stage::Asking { .. } | Stage::Ended(_) => None,
        }
    }

    fn on_reply(&mut self, answer: FromAgent, received_ns: u64, now_ns: u64) {
        match answer.reply {
            Reply::Hello(hello) => self.on_hello(hello, answer.now_ns, received_ns, now_ns),
            Reply::Stage { call, stage } => {
                if let Stage::Opening { session, .. } = &self.stage {
                    let session = session.clone();
                    self.lease_due_ns = now_ns.saturating_add(LEASE_DUE_NS);
                    self.stage = Stage::Open { session };
                }
                match stage {
                    message::Stage::Receiving { missing } => {
                        self.send_pieces(call, &missing, now_ns);
                    }
                    message::Stage::Finished { body, .. } => self.on_done(call, body, now_ns),
                    _ => {}
                }
            }
            Reply::Piece { call, piece } => {
                if call != self.call {
                    return;
                }
                let current = self.current.as_mut();
                if let Some(assembly) = current.and_then(|call| call.fetched.as_mut()) {
                    // A damaged piece is asked for again.
                    let _ = assembly.add(piece);
                }
                self.fetch(now_ns);
            }
            Reply::Closed => self.stage = Stage::Ended(HostError::Closed),
            Reply::Refused(refusal) => self.on_refusal(refusal),
            Reply::Clock { .. } => {}
        }
    }

    fn on_hello(&mut self, hello: Hello, their_ns: u64, received_ns: u64, now_ns: u64) {
        let Stage::Asking { first, .. } = &mut self.stage else {
            return;
        };
        match first {
            None => {
                self.clock = Some((their_ns, received_ns));
                *first = Some((hello, now_ns));
            }
            Some((known, _)) if known.session != hello.session => {
                self.stage = Stage::Ended(HostError::SameName);
            }
            Some(_) => {}
        }
    }

    /// Orders that came late or twice are refused, which says nothing about the session.
    fn on_refusal(&mut self, refusal: Refusal) {
        match (&self.stage, refusal) {
            (_, Refusal::Replayed | Refusal::Expired { .. } | Refusal::Piece { .. }) => {}
            // The reply of the host was lost, or it has closed the session on an earlier order.
            (Stage::Closing { .. }, Refusal::SessionEnded { .. } | Refusal::Session) => {
                self.stage = Stage::Ended(HostError::Closed);
            }
            (Stage::Ended(_) | Stage::Asking { .. }, _) => {}
            // To an older question.
            (Stage::Open { .. }, Refusal::CallOutOfOrder { call, .. }) if call != self.call => {}
            (_, refusal) => self.stage = Stage::Ended(HostError::Refused(refusal)),
        }
    }

    fn on_done(&mut self, call: u64, body: CallBody, now_ns: u64) {
        let Some(current) = self.current.as_mut().filter(|_| call == self.call) else {
            return;
        };
        match body {
            CallBody::Inline(bytes) => self.finish(Ok(bytes)),
            CallBody::Pieces { content, .. } => {
                if current.fetched.is_some() {
                    return;
                }
                match Assembly::new(content, MAX_CALL_BYTES) {
                    None => self.finish(Err(HostError::TooLarge {
                        what: "the reply",
                        bytes: content.bytes,
                    })),
                    Some(assembly) => {
                        current.fetched = Some(assembly);
                        self.fetch(now_ns);
                    }
                }
            }
        }
    }

    fn finish(&mut self, reply: Result<Vec<u8>, HostError>) {
        self.current = None;
        self.reply = Some(reply);
    }

    /// Asks for the next piece of the reply, or takes it.
    fn fetch(&mut self, now_ns: u64) {
        let Some(current) = &mut self.current else {
            return;
        };
        let Some(assembly) = &mut current.fetched else {
            return;
        };
        current.due_ns = now_ns.saturating_add(ASK_NS);
        if assembly.missing().next().is_none()
            && let Some(bytes) = assembly.take()
        {
            return self.finish(Ok(bytes));
        }
        let next = assembly.missing().next();
        if let (Some(index), Some(session)) = (next, self.session().cloned()) {
            let call = self.call;
            self.order(session, Command::Fetch { call, index }, now_ns);
        }
    }

    fn ask_for_reply(&mut self, session: &Session, now_ns: u64) {
        let Some(current) = &mut self.current else {
            return;
        };
        if !is_due(&mut current.due_ns, now_ns, ASK_NS) {
            return;
        }
        if current.fetched.is_some() {
            return self.fetch(now_ns);
        }
        let (call, body) = (self.call, current.body.clone());
        let command = Command::Call { call, body };
        self.order(session.clone(), command, now_ns);
    }

    fn send_pieces(&mut self, call: u64, missing: &[u32], now_ns: u64) {
        /// More would only fill the way.
        const AT_ONCE: usize = 4;
        let Some(session) = self.session().cloned() else {
            return;
        };
        let Some(current) = self.current.as_mut().filter(|_| call == self.call) else {
            return;
        };
        current.due_ns = now_ns.saturating_add(ASK_NS);
        let pieces: Vec<_> = missing
            .iter()
            .take(AT_ONCE)
            .filter_map(|index| piece(&current.bytes, *index))
            .collect();
        for piece in pieces {
            let session = session.clone();
            self.ask(
                Ask::Piece {
                    session,
                    call,
                    piece,
                },
                now_ns,
            );
        }
    }

    /// The host counts from when it got the latest order, which was later than when we sent it: it
    /// still waits when we give up.
    fn check_silence(&mut self, now_ns: u64) {
        let silent_ns = now_ns.saturating_sub(self.acknowledged_ns);
        if matches!(self.stage, Stage::Opening { .. } | Stage::Open { .. }) && silent_ns >= LEASE_NS
        {
            self.stage = Stage::Ended(HostError::Lost);
        }
    }

    fn end_unless_open(&mut self, error: HostError) {
        if matches!(self.stage, Stage::Asking { .. } | Stage::Opening { .. }) {
            self.stage = Stage::Ended(error);
        }
    }

    fn order(&mut self, session: Session, command: Command, now_ns: u64) {
        let Some((their_ns, at_ns)) = self.clock else {
            return;
        };
        self.number += 1;
        self.lease_due_ns = now_ns.saturating_add(LEASE_DUE_NS);
        let order = Order {
            version: self.settings.version.clone(),
            fleet: self.settings.fleet.clone(),
            run: self.settings.run.clone(),
            audience: Audience::Agent {
                agent: self.settings.host.clone(),
                session,
                number: self.number,
                expires_ns: their_ns
                    .saturating_add(now_ns.saturating_sub(at_ns))
                    .saturating_add(VALIDITY_NS),
            },
            command,
        };
        let signed = self.key.sign(&order);
        self.ask(Ask::Order(signed), now_ns);
    }

    fn ask(&mut self, ask: Ask, now_ns: u64) {
        self.id += 1;
        self.sent_ns.insert(self.id, now_ns);
        if self.sent_ns.len() > SENT_KEPT {
            self.sent_ns.pop_first();
        }
        self.outgoing.push(Outgoing {
            subject: self.subject.clone(),
            reply: Some(self.settings.inbox.clone()),
            payload: encode(&ToAgent { id: self.id, ask }),
        });
    }
}

/// Whether it is time, and when it will be the next time.
fn is_due(due_ns: &mut u64, now_ns: u64, again_ns: u64) -> bool {
    let is_due = now_ns >= *due_ns;
    if is_due {
        *due_ns = now_ns.saturating_add(again_ns);
    }
    is_due
}
