//! What carries messages between coordinator and agents.

mod hub;
mod nats;

pub use hub::Hub;
pub use nats::{LinkListener, LinkNews, Login, Nats, NatsOptions, RECONNECT_DELAY};

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;

/// Reads CLOCK_MONOTONIC of this machine, nanoseconds.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// How many messages wait for a slow receiver; more are lost, as with NATS itself.
pub const INBOX_CAPACITY: usize = 8192;

/// A message that has arrived.
#[derive(Debug)]
pub struct Message {
    /// The subject that it was sent to.
    pub subject: String,
    /// The subject that a reply should be sent to.
    pub reply: Option<String>,
    /// The bytes of the message.
    pub payload: Vec<u8>,
    /// When it arrived, nanoseconds of the [`Clock`].
    pub received_ns: u64,
    held: Held,
}

impl Message {
    /// A message that has arrived at this time.
    #[must_use]
    pub fn new(subject: String, reply: Option<String>, payload: Vec<u8>, received_ns: u64) -> Self {
        Self {
            subject,
            reply,
            payload,
            received_ns,
            held: Held::default(),
        }
    }
}

/// Memory that messages use until somebody has taken them.
#[derive(Debug, Default)]
struct Held {
    /// The sum of all, and this part of it.
    of: Option<(Arc<AtomicUsize>, usize)>,
}

impl Held {
    /// Adds to the sum. `None` if it would be above the limit.
    fn of(sum: &Arc<AtomicUsize>, bytes: usize, limit: usize) -> Option<Self> {
        let before = sum.fetch_add(bytes, Ordering::Relaxed);
        let held = Self {
            of: Some((Arc::clone(sum), bytes)),
        };
        (before.saturating_add(bytes) <= limit).then_some(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some((sum, bytes)) = &self.of {
            sum.fetch_sub(*bytes, Ordering::Relaxed);
        }
    }
}

/// A message to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The subject that it was sent to.
    pub subject: String,
    /// The subject that a reply should be sent to.
    pub reply: Option<String>,
    /// The bytes of the message.
    pub payload: Vec<u8>,
}

/// Why a bus cannot be used; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// The first attempt to connect has failed.
    #[error("cannot connect to {servers}: {reason}")]
    Connect {
        /// The addresses of the servers, without passwords.
        servers: String,
        /// Why there is no connection, one line.
        reason: String,
    },
    /// A file of the connection's options cannot be used.
    #[error("{0}")]
    Options(String),
    /// The server has done what no server does, and the connection was cut.
    #[error("the connection to the fleet was cut: {0}")]
    Broken(String),
    /// The bus was closed.
    #[error("the connection to the fleet is closed")]
    Closed,
}

/// Carries messages to all subscribers of their subject. Messages may be lost, doubled and late;
/// those of one sender keep their order.
pub trait Bus: Send + Sync {
    /// Sends a message, now or as soon as there is a connection again.
    ///
    /// # Errors
    /// If the bus is closed.
    fn publish(&self, message: Outgoing) -> Result<(), BusError>;

    /// Delivers messages with this subject until the receiver of the inbox is dropped. A `*` stands
    /// for any one part of a subject.
    ///
    /// # Errors
    /// If the bus is closed.
    fn subscribe(&self, subject: &str, inbox: &SyncSender<Message>) -> Result<(), BusError>;

    /// A subject that nobody else uses, for replies.
    fn new_inbox(&self) -> String;

    /// Whether messages may still come.
    ///
    /// # Errors
    /// If there will be no connection any more.
    fn check(&self) -> Result<(), BusError> {
        Ok(())
    }
}

/// Whether a subject is one that [`Bus::new_inbox`] makes. Replies are sent to no other subject,
/// whatever a question names.
#[must_use]
pub fn is_inbox(subject: &str) -> bool {
    subject.starts_with("_INBOX.")
}
