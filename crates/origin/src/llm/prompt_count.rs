//! The number of tokens in the prompt of a request.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher as _};

use serde_json::Value;

use super::dialect::is_generated;

/// The largest body that is read, in bytes: longer prompts than models take.
const BODY_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of a word in one token, as tokenizers have about.
const TOKEN_BYTES: usize = 4;

/// Tokens of the chat template for each text.
const TEMPLATE: u64 = 4;

/// A message of a prompt, or a prompt without messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PromptPart {
    pub(crate) tokens: u64,
    /// The same for two parts only if their JSON is.
    pub(crate) hash: u64,
    /// It is what this server generates.
    pub(crate) is_generated: bool,
}

/// The parts of the prompt of a request's body, in their order; `None` if it has none, is not JSON,
/// or is too long. Each word has a token for each four bytes begun, and each text four more.
pub(crate) fn prompt_parts(body: &[u8]) -> Option<Vec<PromptPart>> {
    // The parser refuses what is nested deeper than 128.
    let body = (body.len() <= BODY_MAX_BYTES).then_some(body)?;
    let request: Value = serde_json::from_slice(body).ok()?;
    let keys = ["system", "messages", "prompt", "input"].iter();
    let mut parts: Vec<PromptPart> = keys
        .filter_map(|key| request.get(key))
        .flat_map(|value| match value {
            Value::Array(messages) => messages.iter().collect(),
            one => vec![one],
        })
        .map(part)
        .collect();
    // As vLLM does: prompts with different salts have nothing in common.
    if let (Some(first), Some(salt)) = (parts.first_mut(), request.get("cache_salt")) {
        first.hash = hash_of(&(first.hash, salt.to_string()));
    }
    parts.iter().any(|part| part.tokens > 0).then_some(parts)
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn part(message: &Value) -> PromptPart {
    let said = message.get("content").and_then(Value::as_str);
    let is_of_model = message.get("role").and_then(Value::as_str) == Some("assistant");
    PromptPart {
        tokens: tokens_in(message),
        hash: hash_of(&message.to_string()),
        is_generated: is_of_model && said.is_some_and(is_generated),
    }
}

/// The tokens in a text, or in the texts of messages and their parts.
fn tokens_in(value: &Value) -> u64 {
    match value {
        Value::String(text) => {
            let words = text.split_whitespace();
            let tokens = words.map(|word| word.len().div_ceil(TOKEN_BYTES) as u64);
            TEMPLATE + tokens.sum::<u64>()
        }
        Value::Array(parts) => parts.iter().map(tokens_in).sum(),
        Value::Object(members) => {
            let texts = ["content", "text"].iter();
            texts
                .filter_map(|key| members.get(*key))
                .map(tokens_in)
                .sum()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(body: &str) -> Option<u64> {
        let parts = prompt_parts(body.as_bytes())?;
        Some(parts.iter().map(|part| part.tokens).sum())
    }

    #[test]
    fn the_prompt_of_each_interface_is_counted() {
        for (body, expected) in [
            (r#"{"prompt":"one three"}"#, Some(4 + 1 + 2)),
            (
                r#"{"messages":[{"role":"user","content":"a b c"}]}"#,
                Some(7),
            ),
            (
                r#"{"system":"a","messages":[{"content":[{"type":"text","text":"b"}]}]}"#,
                Some(10),
            ),
            (r#"{"input":"beautiful"}"#, Some(7)),
            (r#"{"input":[{"role":"user","content":"a"}]}"#, Some(5)),
            (r#"{"prompt":""}"#, Some(4)),
            (r#"{"prompt":7}"#, None),
            (r#"{"model":"a b"}"#, None),
            ("", None),
            ("{", None),
            ("[]", None),
        ] {
            assert_eq!(tokens(body), expected, "{body}");
        }
        let long = format!(r#"{{"prompt":"{}"}}"#, "x".repeat(BODY_MAX_BYTES));
        assert_eq!(tokens(&long), None);
    }
}
