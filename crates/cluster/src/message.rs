//! The messages between a coordinator and agents, and the subjects they travel on.
//!
//! | subject | from | content |
//! |---|---|---|
//! | `wrkbench.2.<fleet>.all`, `.hosts` | coordinator | [`ToAgent`]: roll call, lease, stop |
//! | `wrkbench.2.<fleet>.ask.<agent>`, `.host.<agent>` | coordinator | [`ToAgent`] |
//! | `wrkbench.2.<fleet>.beat.<agent>` | agents | [`Beat`], every 500 ms of a run |
//! | the inbox that a question names | agents | [`FromAgent`], the reply |
//!
//! An agent that makes load hears `all` and `ask`, one that changes its machine (a
//! [host](crate::host)) hears `hosts` and `host`.
//!
//! A coordinator has a **session** with each agent: it sends orders, each signed and numbered, and
//! every order prolongs the agent's lease. Work is a **call** ([`Command::Call`]), whose content
//! and reply travel in pieces if they are large. For a run of a fleet there is one call: its
//! content is the plan, its reply the result, and [`Command::Start`] and [`Command::Stop`] come in
//! between. For a host there is a call for each change.
//!
//! Messages are JSON. Whatever cannot be decoded is refused or dropped; nothing that a message says
//! is used as a size before it is compared with a limit.

use plan::Weight;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::clock::WallClock;
use crate::names::{AgentId, FleetName, Label, RunId, Session};
use crate::occupation::{KeptResult, Occupation};
use crate::pieces::{CallBody, Digest};
use crate::refusal::Refusal;

/// The version of subjects and messages. Agents with another one do not hear each other.
pub const PROTOCOL: u32 = 2;

/// The largest message: a piece in base64. NATS allows 1 MiB by default.
pub const MAX_MESSAGE_BYTES: usize = 512 * 1024;

/// The largest beat: a snapshot has two histograms.
pub const MAX_BEAT_BYTES: usize = 128 * 1024;

/// The most missing pieces that a [`Stage::Receiving`] lists.
pub const MAX_MISSING: usize = 64;

/// The most notes about a prepared run.
pub const MAX_NOTES: usize = 16;

/// The subjects of a fleet.
#[derive(Debug, Clone)]
pub struct Subjects {
    prefix: String,
}

impl Subjects {
    /// The subjects of this fleet.
    #[must_use]
    pub fn new(fleet: &FleetName) -> Self {
        Self {
            prefix: format!("wrkbench.{PROTOCOL}.{fleet}"),
        }
    }

    /// The subject that all agents hear.
    #[must_use]
    pub fn all(&self) -> String {
        format!("{}.all", self.prefix)
    }

    /// The subject that one agent hears.
    #[must_use]
    pub fn ask(&self, agent: &AgentId) -> String {
        format!("{}.ask.{agent}", self.prefix)
    }

    /// The subject of the beats of one agent.
    #[must_use]
    pub fn beat(&self, agent: &AgentId) -> String {
        format!("{}.beat.{agent}", self.prefix)
    }

    /// The subject on which one agent introduces itself. Only the agent may publish there, so that
    /// nobody can invent another one.
    #[must_use]
    pub fn hello(&self, agent: &AgentId) -> String {
        format!("{}.hello.{agent}", self.prefix)
    }

    /// The pattern of the introductions of all agents.
    #[must_use]
    pub fn hellos(&self) -> String {
        format!("{}.hello.*", self.prefix)
    }

    /// The subject on which one host introduces itself.
    #[must_use]
    pub fn host_hello(&self, name: &AgentId) -> String {
        format!("{}.host-hello.{name}", self.prefix)
    }

    /// The pattern of the introductions of all hosts.
    #[must_use]
    pub fn host_hellos(&self) -> String {
        format!("{}.host-hello.*", self.prefix)
    }

    /// The subject that one host hears.
    #[must_use]
    pub fn host(&self, name: &AgentId) -> String {
        format!("{}.host.{name}", self.prefix)
    }

    /// The subject that all hosts hear.
    #[must_use]
    pub fn hosts(&self) -> String {
        format!("{}.hosts", self.prefix)
    }

    /// The pattern of the beats of all agents.
    #[must_use]
    pub fn beats(&self) -> String {
        format!("{}.beat.*", self.prefix)
    }
}

/// A message for one agent or all of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToAgent {
    /// Number of the question, repeated in the reply.
    pub id: u64,
    /// What the agent is asked.
    pub ask: Ask,
}

/// What a coordinator asks agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Ask {
    /// Who is there? The reply is [`Reply::Hello`].
    RollCall,
    /// What does the agent's clock show? The reply is [`Reply::Clock`].
    Clock,
    /// A piece of a call, as announced by a signed order.
    Piece {
        /// The session of the call.
        session: Session,
        /// The number of the call.
        call: u64,
        /// A piece of its content.
        piece: Piece,
    },
    /// An [`Order`] with its signature.
    Order(Signed),
}

/// A text with a signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed {
    /// The public key, in the form of NATS: `U...`.
    pub key: Label,
    /// The signature of the text, base64.
    pub signature: String,
    /// An [`Order`] as JSON. It is signed as it stands here, byte for byte.
    pub text: String,
}

/// What an agent does only if it is signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The version of the coordinator.
    pub version: Label,
    /// The fleet that the order is for.
    pub fleet: FleetName,
    /// The run that the session belongs to: of a fleet, or a sweep that changes hosts.
    pub run: RunId,
    /// Whom it is for, and what makes it unique.
    pub audience: Audience,
    /// What the agent is to do.
    pub command: Command,
}

/// Whom an order is for, and what makes it unique.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum Audience {
    /// One agent, in one of its sessions.
    Agent {
        /// The name of the agent.
        agent: AgentId,
        /// The session that the agent began with it, or is to begin.
        session: Session,
        /// No other order of the session has this number; later ones have larger numbers.
        number: u64,
        /// When the order becomes void, on the clock of the agent. No wall clock is needed.
        expires_ns: u64,
    },
    /// All agents that take part in the run.
    Run {
        /// Larger than in every earlier order of this kind.
        sequence: u64,
    },
}

/// What an agent is ordered to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// Begin a session without a call. For a host it is the session of a sweep. For a run that an
    /// agent knows already, it is a second session beside that of the coordinator, which may fetch
    /// the result and end the load. Repeated, it changes nothing and reports.
    Open,
    /// Carry out a call. Repeated, it reports. Without a session, an agent that makes load begins
    /// one: it receives the plan and prepares the run.
    Call {
        /// The number of the call: one more than before, from 1.
        call: u64,
        /// The content of the call.
        body: CallBody,
    },
    /// Start the load of a prepared run.
    Start {
        /// When, on the clock of the agent.
        start_ns: u64,
    },
    /// Go on: the coordinator is alive.
    Lease,
    /// End the load now and keep the result.
    Stop,
    /// Send a piece of the reply to a call.
    Fetch {
        /// The number of the call.
        call: u64,
        /// The number of the piece.
        index: u32,
    },
    /// End the session: drop the run and its result, or restore the machine.
    Close,
}

/// A reply of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FromAgent {
    /// The version of the agent. Another version may not know the other fields.
    pub version: Label,
    /// The name of the agent.
    pub agent: AgentId,
    /// The number of the question.
    pub id: u64,
    /// The CLOCK_MONOTONIC of the agent when it sent the reply.
    pub now_ns: u64,
    /// What the agent says.
    pub reply: Reply,
}

/// The first fields of a [`FromAgent`], whatever else it has.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Versioned {
    /// The version of the agent.
    pub version: Label,
    /// The name of the agent.
    pub agent: AgentId,
}

/// What an agent says to a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Reply {
    /// The reply to [`Ask::RollCall`].
    Hello(Box<Hello>),
    /// The reply to [`Ask::Clock`].
    Clock {
        /// When the question came, on the clock of the agent.
        received_ns: u64,
    },
    /// How far the latest call of the session is.
    Stage {
        /// The number of the call; 0 before the first one.
        call: u64,
        /// The state of the call.
        stage: Stage,
    },
    /// A piece of the reply to a call.
    Piece {
        /// The number of the call.
        call: u64,
        /// A piece of the reply.
        piece: Piece,
    },
    /// The session has ended.
    Closed,
    /// The agent does not do what it was asked for.
    Refused(Refusal),
}

/// An agent introduces itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// The session that orders for its next run must name.
    pub session: Session,
    /// Where it is, as its user says: `eu-vm/internal`.
    pub place: Label,
    /// The name of its machine.
    pub machine: Label,
    /// Cores it may use.
    pub cores: u32,
    /// Name and version of its kernel.
    pub kernel: Label,
    /// The run that it takes part in.
    pub busy: Option<Occupation>,
    /// The runs whose results it keeps, for whoever fetches them.
    pub kept: Vec<KeptResult>,
    /// Whether it runs scripts.
    pub scripts: bool,
    /// How much load each of its threads carries, compared with those of other agents.
    pub weight: Weight,
    /// What it may send to; empty is everything.
    pub targets: Vec<Label>,
    /// Loads that it refuses: `more than 1,000 requests/s`.
    pub limits: Vec<Label>,
    /// Its wall clock, if its kernel says that it is synchronized.
    pub wall: Option<WallClock>,
}

/// The state of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "snake_case")]
pub enum Stage {
    /// There was no call yet.
    Open,
    /// Pieces of the call are missing.
    Receiving {
        /// The numbers of the first missing pieces.
        missing: Vec<u32>,
    },
    /// The call is complete. An agent that makes load resolves names and loads scripts.
    Working,
    /// The run is ready to start.
    Prepared {
        /// Notes for the user.
        notes: Vec<Label>,
    },
    /// The start is agreed upon, or the load is going on.
    Running,
    /// The call was carried out, or the load has ended.
    Finished {
        /// The reply to the call: the result of the run.
        body: CallBody,
        /// Why the load ended.
        ending: Ending,
    },
    /// There is no result.
    Failed {
        /// Why there is none.
        reason: Label,
    },
}

impl Stage {
    /// The state in a few words.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Open => "without a plan",
            Self::Receiving { .. } => "receiving the plan",
            Self::Working => "preparing",
            Self::Prepared { .. } => "prepared",
            Self::Running => "running",
            Self::Finished { .. } => "finished",
            Self::Failed { .. } => "failed",
        }
    }

    /// Whether the run is over on this agent.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self, Self::Finished { .. } | Self::Failed { .. })
    }
}

/// Why the load ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It ended as planned.
    Completed,
    /// The coordinator stopped it.
    Stopped,
    /// The agent stopped by itself, since it heard nothing from the coordinator.
    LeaseLapsed,
}

/// A piece of a call or of a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The number of the piece, from 0.
    pub index: u32,
    /// The digest of the data.
    pub sha256: Digest,
    /// The bytes of the piece.
    #[serde(with = "base64_bytes")]
    pub data: Vec<u8>,
}

/// A sign of life of an agent during a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Beat {
    /// The name of the agent.
    pub agent: AgentId,
    /// The run that it takes part in.
    pub run: RunId,
    /// One more than in the beat before.
    pub sequence: u64,
    /// CLOCK_MONOTONIC of the agent when it sent the beat.
    pub now_ns: u64,
    /// The state of the run.
    pub stage: Stage,
    /// What the load generator shows of a run in progress, for the live view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<serde_json::Value>,
}

/// Why bytes are not a message; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It is larger than any message of its kind.
    #[error("the message has {bytes} bytes, more than {limit}")]
    Size {
        /// The size of the message.
        bytes: usize,
        /// The size that is accepted.
        limit: usize,
    },
    /// It is not the JSON that is expected.
    #[error("{0}")]
    Json(Label),
}

/// Decodes a message of at most `limit` bytes.
///
/// # Errors
/// If it is larger or something else.
pub fn decode<T: DeserializeOwned>(bytes: &[u8], limit: usize) -> Result<T, Malformed> {
    if bytes.len() > limit {
        return Err(Malformed::Size {
            bytes: bytes.len(),
            limit,
        });
    }
    serde_json::from_slice(bytes).map_err(|error| Malformed::Json(Label::new(&error.to_string())))
}

/// Encodes a message.
///
/// # Panics
/// Never: no message has a map with keys that are not texts, the only thing that JSON lacks.
#[must_use]
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    serde_json::to_vec(message).expect("every message can be written as JSON")
}

/// Bytes as a text in base64 (RFC 4648, section 4).
pub(crate) mod base64_bytes {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], out: S) -> Result<S::Ok, S::Error> {
        BASE64_STANDARD.encode(bytes).serialize(out)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(input)?;
        BASE64_STANDARD.decode(text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subjects_are_below_the_fleet() {
        let fleet = "lab".parse().expect("a name");
        let agent = "a1".parse().expect("a name");
        let subjects = Subjects::new(&fleet);
        assert_eq!(subjects.all(), "wrkbench.2.lab.all");
        assert_eq!(subjects.ask(&agent), "wrkbench.2.lab.ask.a1");
        assert_eq!(subjects.beat(&agent), "wrkbench.2.lab.beat.a1");
        assert_eq!(subjects.beats(), "wrkbench.2.lab.beat.*");
    }

    #[test]
    fn a_piece_survives_its_journey_and_fits_into_a_message() {
        let data = vec![0xff; crate::pieces::PIECE_BYTES];
        let message = ToAgent {
            id: u64::MAX,
            ask: Ask::Piece {
                session: "s".parse().expect("a name"),
                call: 1,
                piece: Piece {
                    index: 7,
                    sha256: Digest::of(&data),
                    data,
                },
            },
        };
        let bytes = encode(&message);
        assert!(bytes.len() < MAX_MESSAGE_BYTES, "{}", bytes.len());
        assert_eq!(decode(&bytes, MAX_MESSAGE_BYTES), Ok(message));
    }

    #[test]
    fn an_introduction_with_a_weight_that_no_agent_can_have_is_none() {
        let introduction = |weight: serde_json::Value| {
            let hello = serde_json::json!({
                "type": "hello", "session": "s", "place": "p", "machine": "m", "cores": 1,
                "kernel": "k", "busy": null, "kept": [], "scripts": true, "weight": weight,
                "targets": [], "limits": [], "wall": null,
            });
            let said = serde_json::json!({
                "version": "1", "agent": "a1", "id": 0, "now_ns": 1, "reply": hello,
            });
            decode::<FromAgent>(&encode(&said), MAX_MESSAGE_BYTES)
        };
        for weight in [1, 1_000] {
            let Ok(Reply::Hello(hello)) = introduction(weight.into()).map(|it| it.reply) else {
                panic!("{weight} is a weight");
            };
            assert_eq!(u32::from(hello.weight), weight);
        }
        for weight in [0, 1_001, u32::MAX] {
            assert!(introduction(weight.into()).is_err(), "{weight}");
        }
        assert!(introduction((-1).into()).is_err());
        assert!(introduction("heavy".into()).is_err());
    }

    #[test]
    fn a_message_that_is_too_large_or_cut_is_refused() {
        let bytes = encode(&ToAgent {
            id: 1,
            ask: Ask::RollCall,
        });
        assert!(decode::<ToAgent>(&bytes, bytes.len()).is_ok());
        let large = decode::<ToAgent>(&bytes, bytes.len() - 1).unwrap_err();
        assert!(large.to_string().contains("bytes, more than"), "{large}");
        for length in 0..bytes.len() {
            assert!(decode::<ToAgent>(&bytes[..length], MAX_MESSAGE_BYTES).is_err());
        }
    }
}
