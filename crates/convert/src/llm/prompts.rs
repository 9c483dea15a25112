//! Prompts from a file: an array of objects, or one object after the other. Each has `prompt`, a
//! text, `messages` with roles, or `conversations`, as ShareGPT's collections have them.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::conversations::messages_of;
use super::json_text::{JsonText, JsonTextError};

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

/// What is expected, in messages.
const EXPECTED: &str = "expected \"prompt\", \"messages\" or \"conversations\"";

/// Who asks, in ShareGPT's conversations.
const ASKING: [&str; 2] = ["human", "user"];

/// Reads at most `max` prompts. With `takes_messages`, prompts may be messages.
///
/// # Errors
/// If the text is not JSON, a value has the wrong type, or no object has a prompt.
pub fn read(text: &str, max: u64, takes_messages: bool) -> Result<Prompts, JsonTextError> {
    let file = JsonText::new(text);
    let objects = file.elements("{\"prompt\": \"Why is the sky blue?\"}")?;
    let mut read = Prompts {
        prompts: Vec::new(),
        skipped: 0,
        first_skipped_line: None,
    };
    for object in &objects {
        if read.prompts.len() as u64 >= max {
            break;
        }
        match prompt_of(file, object.get(), takes_messages)? {
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
        (true, None) => Err(file.at(text, format!("there is no object ({EXPECTED})"))),
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

/// The prompt of an object; `None` if it has none, or an empty one.
fn prompt_of<'t>(
    file: JsonText<'t>,
    object: &'t str,
    takes_messages: bool,
) -> Result<Option<Prompt>, JsonTextError> {
    // An array would be read as the values of the keys in their order.
    if !object.starts_with('{') {
        return Err(file.at(object, format!("is not an object ({EXPECTED})")));
    }
    let found: Object<'t> = file.parse(object)?;
    let text = match (found.prompt, found.messages, found.conversations) {
        (None, None, None) => None,
        (Some(prompt), None, None) => Some(file.parse::<String>(prompt.get())?),
        (None, None, Some(turns)) => first_question(file, turns.get())?,
        (None, Some(messages), None) => {
            return prompt_of_messages(file, messages.get(), takes_messages);
        }
        _ => {
            let problem = "has more than one of \"prompt\", \"messages\" and \"conversations\"";
            return Err(file.at(object, problem));
        }
    };
    let text = text.filter(|text| !text.trim().is_empty());
    Ok(text.map(Prompt::Text))
}

fn first_question<'t>(file: JsonText<'t>, turns: &'t str) -> Result<Option<String>, JsonTextError> {
    let turns: Vec<Turn<'t>> = file.parse(turns)?;
    let asks = |turn: &&Turn<'_>| turn.from.as_deref().is_some_and(|it| ASKING.contains(&it));
    let first = turns.iter().find(asks).and_then(|turn| turn.value);
    first.map(|value| file.parse(value.get())).transpose()
}

fn prompt_of_messages<'t>(
    file: JsonText<'t>,
    raw: &'t str,
    takes_messages: bool,
) -> Result<Option<Prompt>, JsonTextError> {
    if !takes_messages {
        let problem = "has messages, but a request to this path has a text (\"prompt\")";
        return Err(file.at(raw, problem));
    }
    let messages = messages_of(file, raw)?;
    Ok((!messages.is_empty()).then_some(Prompt::Messages(messages)))
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
