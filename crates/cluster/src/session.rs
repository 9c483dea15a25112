//! The agent's end of a session: it reads questions, checks orders, and replies.

use plan::Weight;

use crate::bus::{Message, Outgoing, is_inbox};
use crate::message::{
    Audience, FromAgent, Hello, MAX_MESSAGE_BYTES, Order, Reply, Signed, ToAgent, decode, encode,
};
use crate::names::{AgentId, FleetName, Label, Random, RunId, Session};
use crate::occupation::Occupation;
use crate::refusal::Refusal;
use crate::signing::{PublicKey, ReplayWindow, TrustList};

/// How long an agent goes on without an order of its coordinator. Then it ends the load by itself,
/// or restores its machine.
pub const LEASE_NS: u64 = 10_000_000_000;

/// What an agent says about itself, and whom it obeys.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The fleet that the agent belongs to.
    pub fleet: FleetName,
    /// The name of the agent, which no other one has.
    pub agent: AgentId,
    /// The version of this program. Coordinators with another one are refused.
    pub version: Label,
    /// Where the agent is: `eu-vm/internal`.
    pub place: Label,
    /// The name of the machine.
    pub machine: Label,
    /// The number of cores that the agent may use.
    pub cores: u32,
    /// Name and version of the kernel.
    pub kernel: Label,
    /// The keys whose orders the agent obeys.
    pub trust: TrustList,
}

/// What all agents do alike, whether they make load or change their machine.
pub(crate) struct Endpoint {
    pub(crate) identity: Identity,
    pub(crate) random: Random,
    /// The session that the order to begin the next one must name.
    next: Session,
    /// The one before, if a guest has taken it. A coordinator that has read it may still begin a
    /// run with it.
    taken_by_guest: Option<Session>,
    outgoing: Vec<Outgoing>,
}

impl Endpoint {
    pub(crate) fn new(identity: Identity, mut random: Random) -> Self {
        Self {
            next: Session::random(&mut random),
            taken_by_guest: None,
            identity,
            random,
            outgoing: Vec::new(),
        }
    }

    /// Introduces the agent as one that runs no scripts.
    pub(crate) fn hello(&self, busy: Option<Occupation>) -> Hello {
        Hello {
            session: self.next.clone(),
            place: self.identity.place.clone(),
            machine: self.identity.machine.clone(),
            cores: self.identity.cores,
            kernel: self.identity.kernel.clone(),
            busy,
            kept: Vec::new(),
            scripts: false,
            weight: Weight::default(),
            targets: Vec::new(),
            limits: Vec::new(),
            wall: None,
        }
    }

    /// The question in a message. Anything else is refused.
    pub(crate) fn read(&mut self, message: &Message, now_ns: u64) -> Option<ToAgent> {
        let decoded = decode(&message.payload, MAX_MESSAGE_BYTES);
        let refused = decoded.map_err(|error| Refusal::Malformed {
            detail: Label::new(&error.to_string()),
        });
        refused
            .map_err(|refusal| self.reply(message.reply.as_deref(), 0, Err(refusal), now_ns))
            .ok()
    }

    /// Replies to the question with this number.
    pub(crate) fn reply(
        &mut self,
        inbox: Option<&str>,
        id: u64,
        reply: Result<Reply, Refusal>,
        now_ns: u64,
    ) {
        if let Some(subject) = inbox.filter(|subject| is_inbox(subject)) {
            self.reply_on(subject, id, reply, now_ns);
        }
    }

    /// As [`Self::reply`], on a subject of its own.
    pub(crate) fn reply_on(
        &mut self,
        subject: &str,
        id: u64,
        reply: Result<Reply, Refusal>,
        now_ns: u64,
    ) {
        let content = FromAgent {
            version: self.identity.version.clone(),
            agent: self.identity.agent.clone(),
            id,
            now_ns,
            reply: reply.unwrap_or_else(Reply::Refused),
        };
        self.send(subject.to_owned(), &content);
    }

    pub(crate) fn send<T: serde::Serialize>(&mut self, subject: String, content: &T) {
        self.outgoing.push(Outgoing {
            subject,
            reply: None,
            payload: encode(content),
        });
    }

    pub(crate) fn take_outgoing(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.outgoing)
    }

    /// The order, if a trusted key has signed it for this agent, or for all on a subject that all
    /// agents hear.
    pub(crate) fn open(
        &self,
        signed: &Signed,
        is_for_all: bool,
    ) -> Result<(PublicKey, Order), Refusal> {
        let identity = &self.identity;
        let (key, order) = identity.trust.open::<Order>(signed)?;
        if order.version != identity.version {
            return Err(Refusal::Version {
                agent: identity.version.clone(),
                coordinator: order.version,
            });
        }
        if order.fleet != identity.fleet {
            return Err(Refusal::Fleet {
                ordered: order.fleet,
                own: identity.fleet.clone(),
            });
        }
        let is_here = match &order.audience {
            Audience::Agent { agent, .. } => !is_for_all && *agent == identity.agent,
            Audience::Run { .. } => is_for_all,
        };
        if is_here {
            Ok((key, order))
        } else {
            Err(Refusal::Session)
        }
    }

    /// Checks an order that begins a session.
    pub(crate) fn check_new(
        &self,
        audience: &Audience,
        now_ns: u64,
    ) -> Result<NewSession, Refusal> {
        let mut accepted = ReplayWindow::default();
        match audience {
            Audience::Agent {
                session,
                number,
                expires_ns,
                ..
            } if *session == self.next || self.taken_by_guest.as_ref() == Some(session) => {
                accepted.accept(*number, *expires_ns, now_ns)?;
                let id = session.clone();
                Ok(NewSession { id, accepted })
            }
            _ => Err(Refusal::Session),
        }
    }

    /// Begins the session of an order that [`Self::check_new`] has accepted.
    pub(crate) fn begin(
        &mut self,
        key: PublicKey,
        run: RunId,
        new: NewSession,
        now_ns: u64,
    ) -> OpenSession {
        self.next = Session::random(&mut self.random);
        self.taken_by_guest = None;
        OpenSession {
            id: new.id,
            run,
            key,
            accepted: new.accepted,
            sequence: 0,
            lease_ns: now_ns.saturating_add(LEASE_NS),
            begun_ns: now_ns,
        }
    }

    /// Makes the session that was begun last the second one of a run. It prevents no coordinator
    /// from beginning another run at the same time.
    pub(crate) fn admit_guest(&mut self, guest: &OpenSession) {
        self.taken_by_guest = Some(guest.id.clone());
    }
}

/// A session that an order may begin.
pub(crate) struct NewSession {
    id: Session,
    accepted: ReplayWindow,
}

/// A session that a coordinator has begun.
pub(crate) struct OpenSession {
    pub(crate) id: Session,
    pub(crate) run: RunId,
    /// The key that began it. No other one may give orders.
    key: PublicKey,
    accepted: ReplayWindow,
    /// The sequence of the latest order for all agents of the run.
    sequence: u64,
    lease_ns: u64,
    /// When it began, on the clock of this machine.
    pub(crate) begun_ns: u64,
}

impl OpenSession {
    /// Accepts an order of this session once, which prolongs the lease.
    pub(crate) fn accept(
        &mut self,
        key: &PublicKey,
        audience: &Audience,
        now_ns: u64,
    ) -> Result<(), Refusal> {
        self.check_key(key)?;
        match audience {
            Audience::Agent {
                session,
                number,
                expires_ns,
                ..
            } if *session == self.id => self.accepted.accept(*number, *expires_ns, now_ns)?,
            Audience::Agent { .. } => return Err(Refusal::Session),
            Audience::Run { sequence } if *sequence <= self.sequence => {
                return Err(Refusal::Replayed);
            }
            Audience::Run { sequence } => self.sequence = *sequence,
        }
        self.prolong(now_ns);
        Ok(())
    }

    /// Checks that an order is signed with the key that began the session.
    pub(crate) fn check_key(&self, key: &PublicKey) -> Result<(), Refusal> {
        if *key == self.key {
            Ok(())
        } else {
            Err(Refusal::OtherKey)
        }
    }

    /// Whether an order names this session.
    pub(crate) fn is_named_by(&self, audience: &Audience) -> bool {
        matches!(audience, Audience::Agent { session, .. } if *session == self.id)
    }

    /// The coordinator is alive.
    pub(crate) fn prolong(&mut self, now_ns: u64) {
        self.lease_ns = now_ns.saturating_add(LEASE_NS);
    }

    /// Whether nothing was heard from the coordinator for [`LEASE_NS`].
    pub(crate) fn has_lapsed(&self, now_ns: u64) -> bool {
        now_ns >= self.lease_ns
    }
}
