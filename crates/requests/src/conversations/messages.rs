//! Messages in the JSON of each dialect.

use plan::Dialect;
use protocol::llm::{Answer, ToolCall};

/// About what a message has beside its text, in bytes.
const MEMBERS_BYTES: usize = 64;

/// Appends a message after those before it.
pub(super) fn append(messages: &mut Vec<u8>, message: &[u8]) {
    if message.is_empty() {
        return;
    }
    if !messages.is_empty() {
        messages.push(b',');
    }
    messages.extend_from_slice(message);
}

/// The message with which later requests repeat an answer. Empty if nothing was said: servers
/// refuse messages without content.
pub(super) fn of_answer(answer: &Answer, dialect: Dialect) -> Vec<u8> {
    let mut message = Vec::with_capacity(answer.text.len() + MEMBERS_BYTES);
    let calls = match dialect {
        Dialect::OpenAi | Dialect::Anthropic => answer.calls.as_slice(),
        // Their results are sent in another form, or not at all.
        _ => &[],
    };
    if answer.text.is_empty() && calls.is_empty() {
        return message;
    }
    message.extend_from_slice(b"{\"role\":\"assistant\",\"content\":");
    match dialect {
        Dialect::Anthropic if !calls.is_empty() => blocks(answer, &mut message),
        _ if answer.text.is_empty() => message.extend_from_slice(b"null"),
        _ => string(&answer.text, &mut message),
    }
    if dialect == Dialect::OpenAi && !calls.is_empty() {
        message.extend_from_slice(b",\"tool_calls\":[");
        for (at, call) in calls.iter().enumerate() {
            message.extend_from_slice(if at > 0 { b"," } else { b"" });
            message.extend_from_slice(b"{\"id\":");
            string(&call.id, &mut message);
            message.extend_from_slice(b",\"type\":\"function\",\"function\":{\"name\":");
            string(&call.name, &mut message);
            message.extend_from_slice(b",\"arguments\":");
            string(&call.arguments, &mut message);
            message.extend_from_slice(b"}}");
        }
        message.push(b']');
    }
    message.push(b'}');
    message
}

/// The content of a message of Anthropic with text and calls.
fn blocks(answer: &Answer, message: &mut Vec<u8>) {
    message.push(b'[');
    if !answer.text.is_empty() {
        message.extend_from_slice(b"{\"type\":\"text\",\"text\":");
        string(&answer.text, message);
        message.extend_from_slice(b"},");
    }
    for (at, call) in answer.calls.iter().enumerate() {
        message.extend_from_slice(if at > 0 { b"," } else { b"" });
        message.extend_from_slice(b"{\"type\":\"tool_use\",\"id\":");
        string(&call.id, message);
        message.extend_from_slice(b",\"name\":");
        string(&call.name, message);
        message.extend_from_slice(b",\"input\":");
        message.extend_from_slice(&input(call));
        message.push(b'}');
    }
    message.push(b']');
}

/// The arguments of a call as a JSON object. What is none, for example because the answer was cut
/// off, becomes an empty one: the server would refuse the whole request.
fn input(call: &ToolCall) -> Vec<u8> {
    let mut quoted = Vec::new();
    string(&call.arguments, &mut quoted);
    let text: Option<String> = serde_json::from_slice(&quoted).ok();
    let is_object = |text: &String| {
        let value: Option<serde_json::Value> = serde_json::from_str(text).ok();
        value.is_some_and(|value| value.is_object())
    };
    text.filter(is_object)
        .map_or_else(|| b"{}".to_vec(), String::into_bytes)
}

/// The messages that answer the calls of tools, each with the same result.
pub(super) fn of_results(calls: &[ToolCall], result: &[u8], dialect: Dialect) -> Vec<u8> {
    let mut messages = Vec::new();
    if calls.is_empty() {
        return messages;
    }
    let is_anthropic = dialect == Dialect::Anthropic;
    if is_anthropic {
        messages.extend_from_slice(b"{\"role\":\"user\",\"content\":[");
    }
    for (at, call) in calls.iter().enumerate() {
        messages.extend_from_slice(if at > 0 { b"," } else { b"" });
        messages.extend_from_slice(if is_anthropic {
            b"{\"type\":\"tool_result\",\"tool_use_id\":".as_slice()
        } else {
            b"{\"role\":\"tool\",\"tool_call_id\":"
        });
        string(&call.id, &mut messages);
        messages.extend_from_slice(b",\"content\":");
        string(result, &mut messages);
        messages.push(b'}');
    }
    if is_anthropic {
        messages.extend_from_slice(b"]}");
    }
    messages
}

/// A JSON string of its inside.
fn string(inside: &[u8], output: &mut Vec<u8>) {
    output.push(b'"');
    output.extend_from_slice(inside);
    output.push(b'"');
}
