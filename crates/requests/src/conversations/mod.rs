//! Conversations that are going on: what has been said, and what is said next.
//!
//! A conversation is had with a server that knows nothing of it: each request repeats all messages
//! before it, the answers of the server included. So its text grows, and is kept as the bytes of
//! JSON in which it is sent. What the server has said is copied into it without being decoded
//! ([`protocol::llm::Answer`]).

mod dialogue;
mod line;
mod messages;

#[cfg(test)]
mod tests;

pub use dialogue::{ConversationEnd, Dialogue, NextTurn};
pub(crate) use line::read;

use plan::Dialect;

/// A conversation as a file has it, with messages as JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conversation {
    /// Its name in the file.
    pub id: Option<String>,
    /// The same for all conversations of a run.
    pub rules: ConversationRules,
    /// Messages before the first turn, each a JSON object, with commas between them.
    pub opening: Vec<u8>,
    /// Text of the system, where it is not a message: the inside of a JSON string.
    pub system: Vec<u8>,
    /// At least one.
    pub turns: Vec<Turn>,
}

/// What is sent at once, and the recorded answer to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turn {
    /// One or more messages, as in [`Conversation::opening`].
    pub messages: Vec<u8>,
    /// The limit of tokens of its answer.
    pub max_tokens: Option<u64>,
    /// How long after the answer before it is sent, nanoseconds.
    pub think_ns: u64,
    /// What a tool says if the answer calls one, the inside of a JSON string; and how long it
    /// takes, nanoseconds.
    pub tool: Option<(Vec<u8>, u64)>,
    /// The recorded answer, a message.
    pub answer: Option<Vec<u8>>,
}

/// What all conversations of a run have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConversationRules {
    /// The format of requests.
    pub dialect: Dialect,
    /// Requests repeat the recorded answers, and not those of the server.
    pub repeats_recorded: bool,
    /// A turn that would have more tokens than this, the limit of its answer included, is not sent.
    pub context_tokens: Option<u64>,
    /// Its oldest turns are left out instead, until it fits. The opening stays.
    pub drops_oldest: bool,
    /// Those with which a run begins may be at any turn, as if they had begun long before.
    pub begins_anywhere: bool,
    /// How requests say the limit of tokens of their answer.
    pub limit: Option<TokenLimit>,
}

/// A member of a JSON object: what comes before and after its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenLimit {
    /// Such as `"max_tokens":`.
    pub before: String,
    /// Such as `}` of an object around it.
    pub after: String,
}
