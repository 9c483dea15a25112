//! One record for each request of the window, as it is written to a file (`--records`).
//!
//! [`Layout`] is the one place that knows the columns: what is written and what is read back follow
//! from it.

mod format;
mod layout;

pub use format::{Clock, Formatter};
pub use layout::{Column, Layout, RecordForm, UnknownForm};

use crate::ErrorKind;

/// A request of the window. Times are CLOCK_MONOTONIC in nanoseconds; 0 is never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestRecord {
    /// When it was due. In a closed loop, that is when it was sent.
    pub due_ns: u64,
    /// When it was sent.
    pub sent_ns: u64,
    /// When the first byte of the response arrived.
    pub first_byte_ns: u64,
    /// When the first event with tokens arrived.
    pub first_token_ns: u64,
    /// When the last byte of the response arrived; without a response, when the request failed or
    /// the run ended.
    pub ended_ns: u64,
    /// How much of the time the load generator caused.
    pub own_ns: u64,
    /// Bytes of the response; [`Self::UNKNOWN`] if they were not counted.
    pub bytes: u64,
    /// The number of the trace that was sent with it; 0 is none.
    pub trace: u128,
    /// Tokens of the prompt, as the server counted them; 0 is unknown.
    pub tokens_in: u32,
    /// Generated tokens; 0 is unknown.
    pub tokens_out: u32,
    /// The number of the conversation among those of its thread; only with a `turn`.
    pub conversation: u32,
    /// The turn of the conversation that it is, from 1; 0 for a request of no conversation.
    pub turn: u32,
    /// The number of its name.
    pub name: u32,
    /// The number of the connection within its thread.
    pub connection: u32,
    /// The status of the response; 0 without one.
    pub status: u16,
    /// Why there is no response.
    pub without_response: Option<WithoutResponse>,
}

/// Why a request has no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithoutResponse {
    /// It has failed.
    Failed(ErrorKind),
    /// It was in flight at the end.
    InFlight,
    /// It was due and not sent before the end.
    Unsent,
}

impl RequestRecord {
    /// The value of [`Self::bytes`] that means that they are not known.
    pub const UNKNOWN: u64 = u64::MAX;
}

impl WithoutResponse {
    /// The value of the column `error`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Failed(kind) => kind.name(),
            Self::InFlight => "in_flight",
            Self::Unsent => "unsent",
        }
    }

    /// The reason with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "in_flight" => Some(Self::InFlight),
            "unsent" => Some(Self::Unsent),
            name => ErrorKind::from_name(name).map(Self::Failed),
        }
    }
}
