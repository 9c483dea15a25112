//! Conversations with a language model, from the forms in which collections have them.
//!
//! A conversation is a list of turns. A turn is what is sent beyond what was said before: a
//! question, or the results of tools. After each turn comes an answer, which the server gives in a
//! run and which a collection may have recorded.

mod read;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

pub(super) use read::messages_of;
pub use read::read;

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
    /// What it returns.
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

impl Conversation {
    /// The conversation as a line of JSON, in the form that [`read`] calls its own.
    #[must_use]
    pub fn to_line(&self) -> String {
        let mut object = Map::new();
        let mut add = |name: &str, value: Value| object.insert(name.to_owned(), value);
        if let Some(id) = &self.id {
            add("id", id.as_str().into());
        }
        if let Some(at_ms) = self.at_ms {
            add("at_ms", at_ms.into());
        }
        match self.opening.as_slice() {
            [] => {}
            [only] if only == &message("system", only["content"].as_str().unwrap_or_default()) => {
                add("system", only["content"].clone());
            }
            several => {
                add("opening", several.to_vec().into());
            }
        }
        let turns: Vec<Value> = self.turns.iter().map(Turn::to_value).collect();
        add("turns", turns.into());
        Value::from(object).to_string()
    }
}

impl Turn {
    fn to_value(&self) -> Value {
        let mut object = Map::new();
        let mut add = |name: &str, value: Value| object.insert(name.to_owned(), value);
        match self.messages.as_slice() {
            [only] if only == &message("user", only["content"].as_str().unwrap_or_default()) => {
                add("user", only["content"].clone());
            }
            several => {
                add("messages", several.to_vec().into());
            }
        }
        if let Some(max_tokens) = self.max_tokens {
            add("max_tokens", max_tokens.into());
        }
        if let Some(think_ms) = self.think_ms {
            add("think_ms", think_ms.into());
        }
        if let Some(Tool { result, wait_ms }) = &self.tool {
            add("tool", json!({"result": result, "wait_ms": wait_ms}));
        }
        if let Some(answer) = &self.answer {
            let text = answer["content"].as_str().unwrap_or_default();
            let is_text = answer == &message("assistant", text);
            add("answer", if is_text { text.into() } else { answer.clone() });
        }
        object.into()
    }
}

/// A message of text.
fn message(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}
