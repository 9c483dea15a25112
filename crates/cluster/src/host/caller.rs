//! The coordinator's side: it opens a session with a host, makes calls, and keeps the lease.

use super::{LEASE_NS, MAX_CALL_BYTES};
use crate::agent_link::{AgentLink, Question, Signer};
use crate::bus::{Message, Outgoing};
use crate::clock::{self, Exchange, Offset};
use crate::message::{FromAgent, MAX_MESSAGE_BYTES, Reply, Stage, Subjects, Versioned, decode};
use crate::names::{AgentId, FleetName, Label, RunId, Session};
use crate::refusal::Refusal;
use crate::signing::SigningKey;

const MS: u64 = 1_000_000;

/// Retry timeout of a question.
const ASK_NS: u64 = 300 * MS;
/// Time between two signs of life.
const LEASE_DUE_NS: u64 = 2_000 * MS;
/// How long a host may take to introduce itself.
const HELLO_LIMIT_NS: u64 = 5_000 * MS;
/// A second host of the same name would have introduced itself this long after the first.
const NAMESAKE_NS: u64 = 250 * MS;
/// How long closing may take; the lease ends the session otherwise.
const CLOSE_LIMIT_NS: u64 = 2_000 * MS;
/// How long reading the clock of a host may take.
const CLOCK_LIMIT_NS: u64 = 5_000 * MS;
/// How long an order is valid.
const VALIDITY_NS: u64 = 5_000 * MS;

/// Why a host cannot be used, or no longer; one line, to be shown after its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// No host of this name has introduced itself.
    #[error(
        "no agent with --allow-changes has this name in the fleet {fleet}; start one there, as \
         root: wrkbench agent --nats ... --name {host} --allow-changes --trust {key}"
    )]
    Nobody {
        /// The fleet that was asked.
        fleet: FleetName,
        /// The name of the host.
        host: AgentId,
        /// The public key of the coordinator.
        key: Label,
    },
    /// Two hosts have the same name.
    #[error("two agents have this name; give them different ones with --name")]
    SameName,
    /// The host has another version.
    #[error("the agent is {theirs}, this is {own}; install the same version on both machines")]
    Version {
        /// The version of the host.
        theirs: Label,
        /// The version of this program.
        own: Label,
    },
    /// The host refuses an order; why.
    #[error("the agent refuses: {0}")]
    Refused(Refusal),
    /// Nothing was heard for too long.
    #[error(
        "the link is lost: nothing was heard from the agent for {} s. If it is alive, it ends its \
         part there, and the guardian restores what was changed",
        LEASE_NS / 1_000_000_000
    )]
    Lost,
    /// A call or a reply is too large.
    #[error("{what} has {bytes} bytes; the limit is {MAX_CALL_BYTES}")]
    TooLarge {
        /// Which of the two.
        what: &'static str,
        /// The number of its bytes.
        bytes: u64,
    },
    /// No reply about the clock is valid, or there is none.
    #[error("the clock of the agent's machine cannot be read; start the agent there again")]
    Clock,
    /// The connection to the fleet is closed.
    #[error("the connection to the fleet is closed")]
    Closed,
}

/// What a caller is started with.
#[derive(Debug, Clone)]
pub struct CallerSettings {
    /// The fleet of the host.
    pub fleet: FleetName,
    /// The version of this program.
    pub version: Label,
    /// The name of the sweep or run.
    pub run: RunId,
    /// The name of the host.
    pub host: AgentId,
    /// The subject that replies go to.
    pub inbox: String,
}

/// Makes calls to a host.
pub struct HostCaller {
    host: AgentId,
    signer: Signer,
    link: AgentLink,
    phase: Phase,
    /// When the latest question was sent that had a reply.
    acknowledged_ns: u64,
    lease_due_ns: u64,
    /// Whether the reply to a call is waited for.
    is_calling: bool,
    reply: Option<Result<Vec<u8>, HostError>>,
    /// While the clock of the host is being read.
    reading: Option<ClockReading>,
    outgoing: Vec<Outgoing>,
}

struct ClockReading {
    since_ns: u64,
    exchanges: Vec<Exchange>,
}

enum Phase {
    Asking {
        since_ns: u64,
        /// When a host introduced itself.
        heard_ns: Option<u64>,
    },
    Opening,
    Open,
    Closing {
        since_ns: u64,
    },
    Ended(HostError),
}

impl HostCaller {
    /// Begins to look for the host.
    #[must_use]
    pub fn new(settings: CallerSettings, key: SigningKey, now_ns: u64) -> Self {
        let CallerSettings {
            fleet,
            version,
            run,
            host,
            inbox,
        } = settings;
        let subject = Subjects::new(&fleet).host(&host);
        Self {
            link: AgentLink::new(host.clone(), subject, inbox, now_ns),
            host,
            signer: Signer {
                key,
                version,
                fleet,
                run,
                validity_ns: VALIDITY_NS,
            },
            phase: Phase::Asking {
                since_ns: now_ns,
                heard_ns: None,
            },
            acknowledged_ns: now_ns,
            lease_due_ns: 0,
            is_calling: false,
            reply: None,
            reading: None,
            outgoing: Vec::new(),
        }
    }

    /// Whether calls can be made.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Why no call can be made any more.
    #[must_use]
    pub fn ended(&self) -> Option<&HostError> {
        match &self.phase {
            Phase::Ended(error) => Some(error),
            _ => None,
        }
    }

    /// Begins a call; the one before must have its reply. A session that is not open replies with
    /// the reason why it has ended.
    pub fn begin(&mut self, bytes: Vec<u8>, now_ns: u64) {
        self.reply = None;
        if bytes.len() as u64 > MAX_CALL_BYTES {
            let bytes = bytes.len() as u64;
            let what = "the call";
            self.reply = Some(Err(HostError::TooLarge { what, bytes }));
            return;
        }
        self.link.begin(bytes);
        self.is_calling = true;
        self.on_tick(now_ns);
    }

    /// The reply to the current call, once.
    pub fn take_reply(&mut self) -> Option<Result<Vec<u8>, HostError>> {
        if self.is_calling
            && let Some(error) = self.ended().cloned()
        {
            self.finish(Err(error));
        }
        self.reply.take()
    }

    /// Begins to read the clock of the host.
    pub fn begin_clock(&mut self, now_ns: u64) {
        self.reading = Some(ClockReading {
            since_ns: now_ns,
            exchanges: Vec::new(),
        });
        self.on_tick(now_ns);
    }

    /// How far the clock of the host is ahead, once, when it was read often enough or for too long.
    pub fn take_clock(&mut self, now_ns: u64) -> Option<Result<Offset, HostError>> {
        let reading = self.reading.as_ref()?;
        let ended = self.ended().cloned();
        // Without any reply the link is lost, which is known after the lease.
        let limit_ns = if reading.exchanges.is_empty() {
            CLOCK_LIMIT_NS + LEASE_NS
        } else {
            CLOCK_LIMIT_NS
        };
        let is_over = now_ns.saturating_sub(reading.since_ns) >= limit_ns;
        if ended.is_none() && !is_over && !clock::are_enough(&reading.exchanges) {
            return None;
        }
        let offset = clock::offset(&reading.exchanges).ok_or(HostError::Clock);
        self.reading = None;
        Some(ended.map_or(offset, Err))
    }

    /// Begins to close the session. The caller has restored everything, or has changed nothing.
    pub fn close(&mut self, now_ns: u64) {
        match self.phase {
            Phase::Open => self.phase = Phase::Closing { since_ns: now_ns },
            Phase::Ended(_) => {}
            _ => self.phase = Phase::Ended(HostError::Closed),
        }
        self.on_tick(now_ns);
    }

    /// Takes a message of the inbox.
    pub fn on_message(&mut self, message: &Message, now_ns: u64) {
        let bytes = &message.payload;
        let Ok(Versioned { version, agent }) = decode(bytes, MAX_MESSAGE_BYTES) else {
            return;
        };
        if agent != self.host {
            return;
        }
        if version != self.signer.version {
            if matches!(self.phase, Phase::Asking { .. } | Phase::Opening) {
                self.phase = Phase::Ended(HostError::Version {
                    theirs: version,
                    own: self.signer.version.clone(),
                });
            }
            return;
        }
        let Ok(answer) = decode::<FromAgent>(bytes, MAX_MESSAGE_BYTES) else {
            return;
        };
        let (there_ns, here_ns) = (answer.now_ns, message.received_ns);
        if let Reply::Hello(hello) = answer.reply {
            return self.on_hello(hello.session, there_ns, here_ns, now_ns);
        }
        let Some(asked) = self.link.answered(answer.id) else {
            return;
        };
        if !matches!(answer.reply, Reply::Refused(_)) {
            self.link.hear(there_ns, here_ns);
            // A question about the clock does not prolong the lease.
            if asked.question != Question::Clock {
                self.acknowledged_ns = self.acknowledged_ns.max(asked.sent_ns);
            }
        }
        match answer.reply {
            Reply::Stage { call, stage } => self.on_stage(call, stage),
            Reply::Piece { call, piece } if call == self.link.call() => {
                if let Some(reply) = self.link.add_piece(piece) {
                    self.finish(Ok(reply));
                }
            }
            Reply::Closed => self.phase = Phase::Ended(HostError::Closed),
            Reply::Refused(refusal) => self.on_refusal(&asked.question, refusal),
            Reply::Clock { received_ns } => {
                if let Some(reading) = &mut self.reading {
                    reading.exchanges.push(Exchange {
                        sent_ns: asked.sent_ns,
                        received_ns,
                        replied_ns: there_ns,
                        returned_ns: here_ns,
                    });
                }
            }
            Reply::Hello(_) | Reply::Piece { .. } => {}
        }
    }

    /// Sends what is due, repeats what was lost, and notices silence. To be called every few
    /// milliseconds.
    pub fn on_tick(&mut self, now_ns: u64) {
        self.go_on(now_ns);
        for question in self.wanted(now_ns) {
            let prolongs = !matches!(
                question,
                Question::RollCall | Question::Clock | Question::Piece(_)
            );
            let message = self.link.send(question, &self.signer, ASK_NS, now_ns);
            if message.is_some() && prolongs {
                self.lease_due_ns = now_ns.saturating_add(LEASE_DUE_NS);
            }
            self.outgoing.extend(message);
        }
    }

    /// The messages to be sent now.
    pub fn take_outgoing(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.outgoing)
    }

    /// Begins the next phase if this one is over.
    fn go_on(&mut self, now_ns: u64) {
        let passed_ns = |since_ns: u64| now_ns.saturating_sub(since_ns);
        match self.phase {
            Phase::Asking {
                heard_ns: Some(heard_ns),
                ..
            } if passed_ns(heard_ns) >= NAMESAKE_NS => {
                self.acknowledged_ns = now_ns;
                self.phase = Phase::Opening;
            }
            Phase::Asking {
                since_ns,
                heard_ns: None,
            } if passed_ns(since_ns) >= HELLO_LIMIT_NS => {
                self.phase = Phase::Ended(HostError::Nobody {
                    fleet: self.signer.fleet.clone(),
                    host: self.host.clone(),
                    key: self.signer.public_key(),
                });
            }
            // The host counts from when it got the latest order, which was later than when we sent
            // it: it still waits when we give up.
            Phase::Opening | Phase::Open if passed_ns(self.acknowledged_ns) >= LEASE_NS => {
                self.phase = Phase::Ended(HostError::Lost);
            }
            Phase::Closing { since_ns } if passed_ns(since_ns) >= CLOSE_LIMIT_NS => {
                self.phase = Phase::Ended(HostError::Closed);
            }
            _ => {}
        }
    }

    fn wanted(&self, now_ns: u64) -> Vec<Question> {
        match self.phase {
            Phase::Asking { heard_ns: None, .. } => vec![Question::RollCall],
            Phase::Opening => vec![Question::Open],
            Phase::Open => {
                let mut wanted = if self.is_calling {
                    self.link.wanted_for_call(now_ns, ASK_NS)
                } else {
                    Vec::new()
                };
                if self.reading.is_some() {
                    wanted.push(Question::Clock);
                }
                if now_ns >= self.lease_due_ns {
                    wanted.push(Question::Lease);
                }
                wanted
            }
            Phase::Closing { .. } => vec![Question::Close],
            Phase::Asking { .. } | Phase::Ended(_) => Vec::new(),
        }
    }

    fn on_hello(&mut self, session: Session, there_ns: u64, here_ns: u64, now_ns: u64) {
        let Phase::Asking { heard_ns, .. } = &mut self.phase else {
            return;
        };
        match self.link.session() {
            None => {
                *heard_ns = Some(now_ns);
                self.link.open(session, there_ns, here_ns);
            }
            Some(known) if *known != session => self.phase = Phase::Ended(HostError::SameName),
            Some(_) => {}
        }
    }

    fn on_stage(&mut self, call: u64, stage: Stage) {
        if matches!(self.phase, Phase::Opening) {
            self.phase = Phase::Open;
        }
        if !self.is_calling || call != self.link.call() || self.link.is_fetching() {
            return;
        }
        if let Stage::Finished { body, .. } = &stage {
            match self.link.expect(body, MAX_CALL_BYTES) {
                Ok(None) => {}
                Ok(Some(reply)) => self.finish(Ok(reply)),
                Err(bytes) => self.finish(Err(HostError::TooLarge {
                    what: "the reply",
                    bytes,
                })),
            }
        }
        self.link.stage = Some(stage);
    }

    /// Orders that came late or twice are refused, which says nothing about the session.
    fn on_refusal(&mut self, question: &Question, refusal: Refusal) {
        if self.link.is_noise(question, &refusal, &self.signer) {
            return;
        }
        match (&self.phase, refusal) {
            (_, Refusal::Expired { .. }) | (Phase::Ended(_) | Phase::Asking { .. }, _) => {}
            // The reply of the host was lost, or it has closed the session on an earlier order.
            (Phase::Closing { .. }, Refusal::SessionEnded { .. } | Refusal::Session) => {
                self.phase = Phase::Ended(HostError::Closed);
            }
            // The reply to a question about an older call.
            (Phase::Open, Refusal::CallOutOfOrder { call, .. }) if call != self.link.call() => {}
            (_, refusal) => self.phase = Phase::Ended(HostError::Refused(refusal)),
        }
    }

    fn finish(&mut self, reply: Result<Vec<u8>, HostError>) {
        self.is_calling = false;
        self.reply = Some(reply);
    }
}
