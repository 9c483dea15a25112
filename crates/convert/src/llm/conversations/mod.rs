//! Conversations with a language model, from the forms in which collections have them.
//!
//! A conversation is a list of turns. A turn is what is sent beyond what was said before: a
//! question, or the results of tools. After each turn comes an answer, which the server gives in a
//! run and which a collection may have recorded.

mod lines;
mod mooncake;
mod read;
mod synthetic;

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

pub use lines::{Manner, lines};
pub(super) use read::messages_of;
pub use read::read;
pub use synthetic::synthetic;

/// The most turns of a conversation.
pub const MAX_TURNS: usize = 10_000;

/// A conversation before it is had.
///
/// ```
/// use convert::llm::conversations;
///
/// let text = r#"{"system": "Be brief.", "turns": [{"user": "Hello"}, {"user": "And now?"}]}"#;
/// let read = conversations::read(text, 10).unwrap();
/// assert_eq!(read.conversations[0].turns.len(), 2);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// Its name in the collection.
    pub id: Option<String>,
    /// When it began, milliseconds on any clock of its collection.
    pub at_ms: Option<u64>,
    /// Messages before the first turn, such as that of the system.
    pub opening: Vec<Value>,
    /// At least one, and [`MAX_TURNS`] at most.
    pub turns: Vec<Turn>,
}

/// What is sent at once, and the recorded answer to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// At least one message.
    pub messages: Vec<Value>,
    /// The limit of tokens of its answer.
    pub max_tokens: Option<u64>,
    /// How long after the answer before it is sent, milliseconds.
    pub think_ms: Option<u64>,
    /// What a tool says, if the answer calls one.
    pub tool: Option<Tool>,
    /// The recorded answer: a message of the assistant.
    pub answer: Option<Value>,
}

/// A tool that an answer may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// The text that the model gets as the result of its call.
    pub result: String,
    /// How long it takes, milliseconds.
    pub wait_ms: u64,
}

/// The conversations of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversations {
    /// In the order of the file; never empty.
    pub conversations: Vec<Conversation>,
    /// Objects in which nobody asks anything.
    pub skipped: u64,
    /// The line of the first of them.
    pub first_skipped_line: Option<usize>,
}

impl Turn {
    /// A turn with one message, and nothing that is known of its answer.
    fn asking(message: Value) -> Self {
        Self {
            messages: vec![message],
            max_tokens: None,
            think_ms: None,
            tool: None,
            answer: None,
        }
    }
}

/// A message of text.
fn message(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}
