//! The conversation of a line of a file, as `wrkbench llm` writes it.

use plan::Dialect;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Conversation, ConversationRules, TokenLimit, Turn, messages};

/// The longest time between two turns: as long as no run takes.
const MAX_WAIT_MS: f64 = 1e9;

/// The keys of a conversation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineConversation<'t> {
    id: Option<String>,
    dialect: String,
    #[serde(default)]
    repeats_recorded: bool,
    context: Option<u64>,
    #[serde(default)]
    drops_oldest: bool,
    #[serde(default)]
    begins_anywhere: bool,
    limit: Option<(String, String)>,
    #[serde(borrow)]
    system: Option<&'t RawValue>,
    #[serde(borrow, default)]
    opening: Vec<&'t RawValue>,
    #[serde(borrow)]
    turns: Vec<LineTurn<'t>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineTurn<'t> {
    #[serde(borrow)]
    messages: Vec<&'t RawValue>,
    max_tokens: Option<u64>,
    #[serde(default)]
    think_ms: f64,
    #[serde(borrow)]
    tool: Option<LineTool<'t>>,
    #[serde(borrow)]
    answer: Option<&'t RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineTool<'t> {
    #[serde(borrow)]
    result: &'t RawValue,
    #[serde(default)]
    wait_ms: f64,
}

/// Why an object is no conversation, one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConversationError {
    #[error("{0}")]
    Json(String),
    #[error("the conversation has no turn")]
    NoTurn,
    #[error("a turn has no message")]
    NoMessage,
    #[error("dialect {0:?} is not known")]
    Dialect(String),
    #[error("a message is not an object")]
    Message,
    #[error("{0} is not a text")]
    Text(&'static str),
    #[error("{0} is not a number of milliseconds from 0 to {MAX_WAIT_MS}")]
    Wait(f64),
}

/// Reads a conversation.
pub(crate) fn read(text: &str) -> Result<Conversation, ConversationError> {
    let line: LineConversation<'_> = serde_json::from_str(text).map_err(|error| {
        let full = error.to_string();
        let message = full.split(" at line ").next().unwrap_or(&full);
        ConversationError::Json(plan::printable(message).into_owned())
    })?;
    let mut dialects = Dialect::ALL.into_iter();
    let dialect = dialects.find(|it| it.name() == line.dialect);
    let turns = line.turns.iter().map(turn);
    let conversation = Conversation {
        id: line.id,
        rules: ConversationRules {
            dialect: dialect.ok_or(ConversationError::Dialect(line.dialect))?,
            repeats_recorded: line.repeats_recorded,
            context_tokens: line.context,
            drops_oldest: line.drops_oldest,
            begins_anywhere: line.begins_anywhere,
            limit: line
                .limit
                .map(|(before, after)| TokenLimit { before, after }),
        },
        opening: joined(&line.opening)?,
        system: match line.system {
            Some(system) => inside(system, "system")?,
            None => Vec::new(),
        },
        turns: turns.collect::<Result<_, _>>()?,
    };
    if conversation.turns.is_empty() {
        return Err(ConversationError::NoTurn);
    }
    Ok(conversation)
}

fn turn(line: &LineTurn<'_>) -> Result<Turn, ConversationError> {
    if line.messages.is_empty() {
        return Err(ConversationError::NoMessage);
    }
    let tool = line.tool.as_ref().map(|tool| {
        let result = inside(tool.result, "the result of a tool")?;
        Ok((result, nanoseconds(tool.wait_ms)?))
    });
    Ok(Turn {
        messages: joined(&line.messages)?,
        max_tokens: line.max_tokens,
        think_ns: nanoseconds(line.think_ms)?,
        tool: tool.transpose()?,
        answer: line.answer.map(|answer| joined(&[answer])).transpose()?,
    })
}

/// Messages with commas between them.
fn joined(each: &[&RawValue]) -> Result<Vec<u8>, ConversationError> {
    let mut joined = Vec::new();
    for message in each {
        if !message.get().starts_with('{') {
            return Err(ConversationError::Message);
        }
        messages::append(&mut joined, message.get().as_bytes());
    }
    Ok(joined)
}

/// The inside of a JSON string.
fn inside(raw: &RawValue, what: &'static str) -> Result<Vec<u8>, ConversationError> {
    let text = raw.get().strip_prefix('"');
    let inside = text.and_then(|text| text.strip_suffix('"'));
    let inside = inside.ok_or(ConversationError::Text(what))?;
    Ok(inside.as_bytes().to_vec())
}

fn nanoseconds(ms: f64) -> Result<u64, ConversationError> {
    if (0.0..=MAX_WAIT_MS).contains(&ms) {
        Ok((ms * 1e6).round() as u64)
    } else {
        Err(ConversationError::Wait(ms))
    }
}

impl Conversation {
    /// The conversation as JSON that [`read`] reads as the same one. What is said in it is copied,
    /// because half of a character, escaped, is no text that could be decoded.
    pub(crate) fn to_json(&self) -> String {
        let said = String::from_utf8_lossy;
        let ConversationRules {
            dialect,
            repeats_recorded,
            context_tokens,
            drops_oldest,
            begins_anywhere,
            limit,
        } = &self.rules;
        let mut json = format!(
            "{{\"dialect\":\"{}\",\"repeats_recorded\":{repeats_recorded},\
             \"drops_oldest\":{drops_oldest},\
             \"begins_anywhere\":{begins_anywhere},\"system\":\"{}\",\"opening\":[{}]",
            dialect.name(),
            said(&self.system),
            said(&self.opening)
        );
        if let Some(id) = &self.id {
            json += &format!(",\"id\":{}", json!(id));
        }
        if let Some(tokens) = context_tokens {
            json += &format!(",\"context\":{tokens}");
        }
        if let Some(TokenLimit { before, after }) = limit {
            json += &format!(",\"limit\":{}", json!([before, after]));
        }
        let turns: Vec<String> = self.turns.iter().map(Turn::to_json).collect();
        json + &format!(",\"turns\":[{}]}}", turns.join(","))
    }
}

impl Turn {
    fn to_json(&self) -> String {
        let said = String::from_utf8_lossy;
        let ms = |ns: u64| ns as f64 / 1e6;
        let (messages, think_ms) = (said(&self.messages), ms(self.think_ns));
        let mut json = format!("{{\"messages\":[{messages}],\"think_ms\":{think_ms}");
        if let Some(tokens) = self.max_tokens {
            json += &format!(",\"max_tokens\":{tokens}");
        }
        if let Some((result, wait_ns)) = &self.tool {
            let (result, wait_ms) = (said(result), ms(*wait_ns));
            json += &format!(",\"tool\":{{\"result\":\"{result}\",\"wait_ms\":{wait_ms}}}");
        }
        if let Some(answer) = &self.answer {
            json += &format!(",\"answer\":{}", said(answer));
        }
        json + "}"
    }
}
