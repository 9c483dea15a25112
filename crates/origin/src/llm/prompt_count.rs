//! The number of tokens in the prompt of a request.

use serde_json::Value;

/// The largest body that is read, in bytes: longer prompts than models take.
const BODY_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of a word in one token, as tokenizers have about.
const TOKEN_BYTES: usize = 4;

/// Tokens of the chat template for each text.
const TEMPLATE: u64 = 4;

/// The tokens in the prompt of a request's body; `None` if it has none, is not JSON, or is too
/// long. Each word has a token for each four bytes begun, and each text four more.
pub(crate) fn prompt_tokens(body: &[u8]) -> Option<u64> {
    // The parser refuses what is nested deeper than 128.
    let body = (body.len() <= BODY_MAX_BYTES).then_some(body)?;
    let request: Value = serde_json::from_slice(body).ok()?;
    let parts = ["system", "messages", "prompt", "input"].iter();
    let tokens = parts
        .filter_map(|key| request.get(key))
        .map(tokens_in)
        .sum();
    (tokens > 0).then_some(tokens)
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
            assert_eq!(prompt_tokens(body.as_bytes()), expected, "{body}");
        }
        let long = format!(r#"{{"prompt":"{}"}}"#, "x".repeat(BODY_MAX_BYTES));
        assert_eq!(prompt_tokens(long.as_bytes()), None);
    }
}
