//! Reads conversations: our own form, ShareGPT's, OpenAI's messages, and Mooncake's sessions.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::super::json_text::{JsonText, JsonTextError};
use super::{Conversation, Conversations, MAX_TURNS, Tool, Turn, message, mooncake};

/// What is expected, in messages.
const EXPECTED: &str = "expected \"turns\", \"conversations\" or \"messages\"";

const EXAMPLE: &str = "{\"turns\": [{\"user\": \"Why is the sky blue?\"}]}";

/// The keys of an object that are read.
#[derive(Deserialize)]
struct Object<'t> {
    #[serde(borrow)]
    id: Option<&'t RawValue>,
    at_ms: Option<u64>,
    #[serde(borrow)]
    system: Option<Cow<'t, str>>,
    #[serde(borrow)]
    opening: Option<&'t RawValue>,
    #[serde(borrow)]
    turns: Option<Vec<&'t RawValue>>,
    #[serde(borrow)]
    conversations: Option<Vec<Said<'t>>>,
    #[serde(borrow)]
    messages: Option<&'t RawValue>,
}

/// A turn in our own form.
#[derive(Deserialize)]
struct OwnTurn<'t> {
    user: Option<String>,
    #[serde(borrow)]
    messages: Option<&'t RawValue>,
    max_tokens: Option<u64>,
    think_ms: Option<u64>,
    tool: Option<OwnTool>,
    #[serde(borrow)]
    answer: Option<&'t RawValue>,
}

#[derive(Deserialize)]
struct OwnTool {
    result: String,
    #[serde(default)]
    wait_ms: u64,
}

/// What one side says in a conversation of ShareGPT.
#[derive(Deserialize)]
struct Said<'t> {
    #[serde(borrow)]
    from: Option<Cow<'t, str>>,
    #[serde(borrow)]
    value: Option<&'t RawValue>,
}

/// Reads at most `max` conversations of a file: an array of objects, or one object after the other.
///
/// # Errors
/// If the text is not JSON, a value has the wrong type, or no object has a turn.
pub fn read(text: &str, max: usize) -> Result<Conversations, JsonTextError> {
    let file = JsonText::new(text);
    let objects = file.elements(EXAMPLE)?;
    let mut read = Conversations {
        conversations: Vec::new(),
        skipped: 0,
        first_skipped_line: None,
    };
    let mut mooncake = mooncake::Sessions::default();
    for object in &objects {
        if read.conversations.len() >= max {
            break;
        }
        if object.get().contains(mooncake::KEY)
            && let Ok(line) = file.parse::<mooncake::Line>(object.get())
        {
            mooncake.add(&line);
            continue;
        }
        let conversation = conversation(file, object.get())?;
        if conversation.turns.is_empty() {
            read.skipped += 1;
            let line = || file.position(object.get()).0;
            read.first_skipped_line.get_or_insert_with(line);
        } else {
            read.conversations.push(conversation);
        }
    }
    let mut of_trace = mooncake.finish();
    of_trace.truncate(max);
    read.conversations.append(&mut of_trace);
    if read.conversations.is_empty() {
        let first = objects.first().map_or(text, |first| first.get());
        return Err(file.at(first, format!("no object has a turn ({EXPECTED})")));
    }
    Ok(read)
}

fn conversation<'t>(file: JsonText<'t>, object: &'t str) -> Result<Conversation, JsonTextError> {
    // An array would be read as the values of the keys in their order.
    if !object.starts_with('{') {
        return Err(file.at(object, format!("is not an object ({EXPECTED})")));
    }
    let found: Object<'t> = file.parse(object)?;
    let mut opening: Vec<Value> = Vec::new();
    opening.extend(found.system.map(|text| message("system", &text)));
    if let Some(messages) = found.opening {
        opening.extend(messages_of(file, messages.get())?);
    }
    let turns = match (found.turns, found.conversations, found.messages) {
        (Some(turns), None, None) => {
            let turns = turns.iter().map(|turn| own_turn(file, turn.get()));
            turns.collect::<Result<_, _>>()?
        }
        (None, Some(said), None) => turns_of(messages_of_sharegpt(file, &said)?, &mut opening),
        (None, None, Some(messages)) => turns_of(messages_of(file, messages.get())?, &mut opening),
        (None, None, None) => Vec::new(),
        _ => {
            let problem = "has more than one of \"turns\", \"conversations\" and \"messages\"";
            return Err(file.at(object, problem));
        }
    };
    if turns.len() > MAX_TURNS {
        return Err(file.at(object, format!("has more than {MAX_TURNS} turns")));
    }
    Ok(Conversation {
        id: found.id.map(|id| id.get().trim_matches('"').to_owned()),
        at_ms: found.at_ms,
        opening,
        turns,
    })
}

fn own_turn<'t>(file: JsonText<'t>, turn: &'t str) -> Result<Turn, JsonTextError> {
    if !turn.starts_with('{') {
        return Err(file.at(turn, "is not a turn (expected an object with \"user\")"));
    }
    let found: OwnTurn<'t> = file.parse(turn)?;
    let messages = match (found.user, found.messages) {
        (Some(text), None) => vec![message("user", &text)],
        (None, Some(messages)) => messages_of(file, messages.get())?,
        _ => Vec::new(),
    };
    if messages.is_empty() {
        return Err(file.at(turn, "the turn needs either \"user\" or \"messages\""));
    }
    let answer = found.answer.map(|answer| match file.parse(answer.get())? {
        Value::String(text) => Ok(message("assistant", &text)),
        object @ Value::Object(_) => Ok(object),
        _ => Err(file.at(answer.get(), "the answer is neither a text nor a message")),
    });
    Ok(Turn {
        messages,
        max_tokens: found.max_tokens,
        think_ms: found.think_ms,
        tool: found
            .tool
            .map(|OwnTool { result, wait_ms }| Tool { result, wait_ms }),
        answer: answer.transpose()?,
    })
}

/// Cuts a list of messages into turns: each ends with an answer of the assistant. What comes before
/// the first question belongs to the opening.
fn turns_of(messages: Vec<Value>, opening: &mut Vec<Value>) -> Vec<Turn> {
    let role = |message: &Value| message["role"].as_str().map(str::to_owned);
    let mut turns = Vec::new();
    let mut asked: Vec<Value> = Vec::new();
    for message in messages {
        match role(&message).as_deref() {
            Some("assistant") if !asked.is_empty() => {
                turns.push(turn(std::mem::take(&mut asked), Some(message)))
            }
            // The model has begun, or has said two things one after the other.
            Some("assistant" | "system" | "developer") if turns.is_empty() && asked.is_empty() => {
                opening.push(message);
            }
            _ => asked.push(message),
        }
    }
    if !asked.is_empty() {
        turns.push(turn(asked, None));
    }
    turns
}

fn turn(messages: Vec<Value>, answer: Option<Value>) -> Turn {
    Turn {
        messages,
        max_tokens: None,
        think_ms: None,
        tool: None,
        answer,
    }
}

/// The messages of a conversation of ShareGPT. What nobody or somebody unknown says is left out.
fn messages_of_sharegpt<'t>(
    file: JsonText<'t>,
    said: &[Said<'t>],
) -> Result<Vec<Value>, JsonTextError> {
    let mut messages = Vec::new();
    for Said { from, value } in said {
        let role = match from.as_deref() {
            Some("human" | "user") => "user",
            Some("gpt" | "assistant" | "chatgpt" | "bing" | "bard") => "assistant",
            Some("system") => "system",
            _ => continue,
        };
        if let Some(value) = value {
            messages.push(message(role, &file.parse::<String>(value.get())?));
        }
    }
    Ok(messages)
}

/// Messages with roles.
pub(in super::super) fn messages_of<'t>(
    file: JsonText<'t>,
    raw: &'t str,
) -> Result<Vec<Value>, JsonTextError> {
    let each: Vec<&RawValue> = file.parse(raw)?;
    let message = |raw: &&'t RawValue| {
        let message: Map<String, Value> = file.parse(raw.get())?;
        match message.get("role") {
            Some(Value::String(_)) => Ok(Value::from(message)),
            _ => {
                let problem = "the message has no role (expected like \"user\")";
                Err(file.at(raw.get(), problem))
            }
        }
    };
    each.iter().map(message).collect()
}
