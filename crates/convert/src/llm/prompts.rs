//! Prompts from a file: an array of objects, or one object after the other. Each has `prompt`, a
//! text, `messages` with roles, or `conversations`, as ShareGPT's collections have them.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// What a model is asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Prompt {
    /// A text.
    Text(String),
    /// Messages, each an object with a `role`.
    Messages(Vec<Value>),
}

/// The prompts of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompts {
    /// In the order of the file; never empty.
    pub prompts: Vec<Prompt>,
    /// Objects that have no prompt.
    pub skipped: u64,
    /// The line of the first of them.
    pub first_skipped_line: Option<usize>,
}

/// Why a text has no prompts, and where in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct PromptsError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Bytes from the start of the line, counted from 1.
    pub column: usize,
    /// What is wrong, and what is expected; one line.
    pub message: String,
}

/// What is expected, in messages.
const EXPECTED: &str = "expected \"prompt\", \"messages\" or \"conversations\"";

/// Who asks, in ShareGPT's conversations.
const ASKING: [&str; 2] = ["human", "user"];

/// Reads at most `max` prompts. With `takes_messages`, prompts may be messages.
///
/// # Errors
/// If the text is not JSON, a value has the wrong type, or no object has a prompt.
pub fn read(text: &str, max: u64, takes_messages: bool) -> Result<Prompts, PromptsError> {
    let file = File { text };
    let begin = text.trim_start_matches('\u{feff}').trim_start();
    let whole = &text[text.len() - begin.len()..];
    let objects: Vec<&RawValue> = match whole.as_bytes().first() {
        None => return Err(file.at(text, "the file is empty (expected JSON)")),
        Some(b'[') => file.parse(whole)?,
        Some(b'{') => {
            let found = serde_json::Deserializer::from_str(whole).into_iter();
            let found: Result<Vec<&RawValue>, _> = found.collect();
            found.map_err(|error| file.fault(whole, &error))?
        }
        Some(_) => {
            let example = "(expected JSON like {\"prompt\": \"Why is the sky blue?\"})";
            let problem = format!("is neither an array nor an object {example}");
            return Err(file.at(whole, problem));
        }
    };
    let mut read = Prompts {
        prompts: Vec::new(),
        skipped: 0,
        first_skipped_line: None,
    };
    for object in &objects {
        if read.prompts.len() as u64 >= max {
            break;
        }
        match file.prompt(object.get(), takes_messages)? {
            Some(prompt) => read.prompts.push(prompt),
            None => {
                read.skipped += 1;
                let line = || file.position(object.get()).0;
                read.first_skipped_line.get_or_insert_with(line);
            }
        }
    }
    match (read.prompts.is_empty(), objects.first()) {
        (false, _) => Ok(read),
        (true, None) => Err(file.at(whole, format!("there is no object ({EXPECTED})"))),
        (true, Some(first)) => {
            let keys: Map<String, Value> = file.parse(first.get())?;
            let keys: Vec<String> = keys.keys().map(|key| format!("{key:?}")).collect();
            let has = match keys.len() {
                0 => "nothing".to_owned(),
                _ => plan::printable(&keys.join(", ")).into_owned(),
            };
            let problem = format!("no object has a prompt: the first one has {has} ({EXPECTED})");
            Err(file.at(first.get(), problem))
        }
    }
}

/// The keys of an object that are read.
#[derive(Deserialize)]
struct Object<'t> {
    #[serde(borrow)]
    prompt: Option<&'t RawValue>,
    #[serde(borrow)]
    messages: Option<&'t RawValue>,
    #[serde(borrow)]
    conversations: Option<&'t RawValue>,
}

/// What one side says in a conversation.
#[derive(Deserialize)]
struct Turn<'t> {
    #[serde(borrow)]
    from: Option<Cow<'t, str>>,
    #[serde(borrow)]
    value: Option<&'t RawValue>,
}

/// A text whose parts know where they are in it.
#[derive(Clone, Copy)]
struct File<'t> {
    text: &'t str,
}

impl<'t> File<'t> {
    /// The prompt of an object; `None` if it has none, or an empty one.
    fn prompt(self, object: &'t str, takes_messages: bool) -> Result<Option<Prompt>, PromptsError> {
        // An array would be read as the values of the keys in their order.
        if !object.starts_with('{') {
            return Err(self.at(object, format!("is not an object ({EXPECTED})")));
        }
        let found: Object<'t> = self.parse(object)?;
        let text = match (found.prompt, found.messages, found.conversations) {
            (None, None, None) => None,
            (Some(prompt), None, None) => Some(self.parse::<String>(prompt.get())?),
            (None, None, Some(turns)) => self.first_question(turns.get())?,
            (None, Some(messages), None) => return self.messages(messages.get(), takes_messages),
            _ => {
                let problem = "has more than one of \"prompt\", \"messages\" and \"conversations\"";
                return Err(self.at(object, problem));
            }
        };
        let text = text.filter(|text| !text.trim().is_empty());
        Ok(text.map(Prompt::Text))
    }

    fn first_question(self, turns: &'t str) -> Result<Option<String>, PromptsError> {
        let turns: Vec<Turn<'t>> = self.parse(turns)?;
        let asks = |turn: &&Turn<'_>| turn.from.as_deref().is_some_and(|it| ASKING.contains(&it));
        let first = turns.iter().find(asks).and_then(|turn| turn.value);
        first.map(|value| self.parse(value.get())).transpose()
    }

    fn messages(self, raw: &'t str, takes_messages: bool) -> Result<Option<Prompt>, PromptsError> {
        if !takes_messages {
            let problem = "has messages, but a request to this path has a text (\"prompt\")";
            return Err(self.at(raw, problem));
        }
        let each: Vec<&RawValue> = self.parse(raw)?;
        let message = |raw: &&'t RawValue| {
            let message: Map<String, Value> = self.parse(raw.get())?;
            match message.get("role") {
                Some(Value::String(_)) => Ok(Value::from(message)),
                _ => Err(self.at(
                    raw.get(),
                    "the message has no role (expected like \"user\")",
                )),
            }
        };
        let messages = each.iter().map(message).collect::<Result<Vec<_>, _>>()?;
        Ok((!messages.is_empty()).then_some(Prompt::Messages(messages)))
    }

    /// Parses a part of the text.
    fn parse<T: Deserialize<'t>>(self, part: &'t str) -> Result<T, PromptsError> {
        serde_json::from_str(part).map_err(|error| self.fault(part, &error))
    }

    /// An error of the parser in a part of the text.
    fn fault(self, part: &str, error: &serde_json::Error) -> PromptsError {
        let (line, column) = self.position(part);
        let (line, column) = match error.line() {
            0 | 1 => (line, column + error.column().saturating_sub(1)),
            below => (line + below - 1, error.column()),
        };
        let text = error.to_string();
        let problem = text.split(" at line ").next().unwrap_or(&text);
        let message = plan::printable(problem).into_owned();
        PromptsError {
            line,
            column,
            message,
        }
    }

    fn at(self, part: &str, problem: impl Into<String>) -> PromptsError {
        let (line, column) = self.position(part);
        let message = problem.into();
        PromptsError {
            line,
            column,
            message,
        }
    }

    /// Line and column, from 1, at which a part of the text begins.
    fn position(self, part: &str) -> (usize, usize) {
        let at = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let begin = before.iter().rposition(|byte| *byte == b'\n');
        (line, before.len() - begin.map_or(0, |end| end + 1) + 1)
    }
}

impl Prompt {
    /// How many words it has: of messages, those in their texts.
    #[must_use]
    pub fn words(&self) -> u64 {
        let count = |text: &str| text.split_whitespace().count() as u64;
        match self {
            Self::Text(text) => count(text),
            Self::Messages(messages) => {
                let contents = messages.iter().map(|message| &message["content"]);
                let of = |content: &Value| match content {
                    Value::String(text) => count(text),
                    Value::Array(parts) => {
                        let texts = parts.iter().filter_map(|part| part["text"].as_str());
                        texts.map(count).sum()
                    }
                    _ => 0,
                };
                contents.map(of).sum()
            }
        }
    }
}
