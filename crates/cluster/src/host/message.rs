//! The messages between a coordinator and a host.

use serde::{Deserialize, Serialize};

use crate::message::{Piece, Signed};
use crate::names::{AgentId, FleetName, Label, Session};
use crate::pieces::{Content, Digest, digests};
use crate::refusal::Refusal;

/// What is smaller travels within the order or the reply; the rest in pieces.
const INLINE_BYTES: usize = 16 * 1024;

/// A message for one host or all of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToHost {
    /// Number of the question, repeated in the reply.
    pub id: u64,
    /// What is wanted.
    pub ask: HostAsk,
}

/// What a coordinator wants from hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum HostAsk {
    /// Who is there?
    RollCall,
    /// A piece of a call, as announced by a signed order.
    Piece {
        /// The session.
        session: Session,
        /// The call.
        call: u64,
        /// The piece.
        piece: Piece,
    },
    /// A signed [`HostOrder`].
    Order(Signed),
}

/// What a host does only if it is signed. It cannot be taken for an order to make load: those lack
/// most of these fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostOrder {
    /// The version of the coordinator.
    pub version: Label,
    /// The fleet.
    pub fleet: FleetName,
    /// The host.
    pub host: AgentId,
    /// Its session.
    pub session: Session,
    /// Larger than in every earlier order of the session.
    pub number: u64,
    /// When the order becomes void, on the clock of the host.
    pub expires_ns: u64,
    /// What to do.
    pub host_command: HostCommand,
}

/// What a host is ordered to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum HostCommand {
    /// Begin a session. Repeated, it changes nothing.
    Open,
    /// The coordinator is alive.
    Lease,
    /// Carry out a call. Repeated, it reports.
    Call {
        /// One more than in the call before, from 1.
        call: u64,
        /// What is called.
        content: Sent,
    },
    /// Send a piece of the reply to a call.
    Fetch {
        /// The call.
        call: u64,
        /// Number of the piece.
        index: u32,
    },
    /// End the session: everything is restored, or never was changed.
    Close,
}

/// The content of a call: itself, or the digests of its pieces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Sent {
    /// All of it.
    Whole(#[serde(with = "crate::message::base64_bytes")] Vec<u8>),
    /// It follows in pieces.
    Pieces {
        /// Size and digest.
        content: Content,
        /// The digest of each piece.
        pieces: Vec<Digest>,
    },
}

impl Sent {
    /// How these bytes travel.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        match bytes.len() <= INLINE_BYTES {
            true => Self::Whole(bytes.to_vec()),
            false => Self::Pieces {
                content: Content::of(bytes),
                pieces: digests(bytes).collect(),
            },
        }
    }
}

/// The content of a reply: itself, or what it will be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// All of it.
    Whole(#[serde(with = "crate::message::base64_bytes")] Vec<u8>),
    /// It can be fetched in pieces.
    Pieces(Content),
}

impl Told {
    /// How these bytes travel.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        match bytes.len() <= INLINE_BYTES {
            true => Self::Whole(bytes.to_vec()),
            false => Self::Pieces(Content::of(bytes)),
        }
    }
}

/// What a host says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FromHost {
    /// The version of the host. Whatever follows may be unknown to another one.
    pub version: Label,
    /// The host.
    pub host: AgentId,
    /// The number of the question.
    pub id: u64,
    /// Its CLOCK_MONOTONIC.
    pub now_ns: u64,
    /// What it says.
    pub reply: HostReply,
}

/// What a host says to a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum HostReply {
    /// To [`HostAsk::RollCall`].
    Hello(HostHello),
    /// The session is open, and the coordinator is taken to be alive.
    Alive {
        /// The session.
        session: Session,
    },
    /// Pieces of the call are missing.
    Receiving {
        /// The session.
        session: Session,
        /// The call.
        call: u64,
        /// Numbers of the first of them.
        missing: Vec<u32>,
    },
    /// The call is being carried out.
    Working {
        /// The session.
        session: Session,
        /// The call.
        call: u64,
    },
    /// The call was carried out.
    Done {
        /// The session.
        session: Session,
        /// The call.
        call: u64,
        /// The reply.
        told: Told,
    },
    /// A piece of the reply to a call.
    Piece {
        /// The session.
        session: Session,
        /// The call.
        call: u64,
        /// The piece.
        piece: Piece,
    },
    /// The session is closed.
    Closed {
        /// The session.
        session: Session,
    },
    /// It does not do it.
    Refused(Refusal),
}

/// A host introduces itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostHello {
    /// What the order that begins a session must name.
    pub session: Session,
    /// Where it is, as its user says.
    pub place: Label,
    /// The name of its machine.
    pub machine: Label,
    /// Name and version of its kernel.
    pub kernel: Label,
    /// Whether a sweep uses it.
    pub is_busy: bool,
}
