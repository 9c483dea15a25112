//! The number of tokens that a request asks for.

use serde_json::Value;

use crate::events::EVENTS_MAX;

/// The largest body that is read, in bytes: longer prompts than models take.
const BODY_MAX_BYTES: usize = 4 * 1024 * 1024;

/// The keys in which interfaces have the limit of output tokens; of several the first one counts.
const KEYS: [&str; 4] = [
    "/max_completion_tokens",
    "/max_tokens",
    "/max_output_tokens",
    "/options/num_predict",
];

/// The limit in the body of a request, at most [`EVENTS_MAX`]; `None` if it is not JSON, too long,
/// or names no number of tokens. Ollama's -1 (no limit) names none.
pub(crate) fn tokens_asked(body: &[u8]) -> Option<u64> {
    // The parser refuses what is nested deeper than 128.
    let body = (body.len() <= BODY_MAX_BYTES).then_some(body)?;
    let request: Value = serde_json::from_slice(body).ok()?;
    let named = KEYS.iter().filter_map(|key| request.pointer(key)?.as_u64());
    named.map(|tokens| tokens.min(EVENTS_MAX)).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(body: &str) -> Option<u64> {
        tokens_asked(body.as_bytes())
    }

    #[test]
    fn each_interface_says_how_many_tokens_it_wants() {
        for (body, expected) in [
            (r#"{"model":"m","max_tokens":7}"#, 7),
            (r#"{"max_tokens":7,"max_completion_tokens":9}"#, 9),
            (r#"{"max_output_tokens":0}"#, 0),
            (r#"{"options":{"num_predict":5}}"#, 5),
            (
                r#"{"messages":[{"content":"\"max_tokens\":3"}],"max_tokens":12}"#,
                12,
            ),
            (r#"{"max_tokens":18446744073709551615}"#, EVENTS_MAX),
            (r#"{"max_completion_tokens":null,"max_tokens":8}"#, 8),
        ] {
            assert_eq!(asked(body), Some(expected), "{body}");
        }
    }

    #[test]
    fn what_names_no_number_asks_for_nothing() {
        let deep = "[".repeat(100_000);
        let long = format!(
            r#"{{"prompt":"{}","max_tokens":3}}"#,
            "x".repeat(BODY_MAX_BYTES)
        );
        for body in [
            "",
            "{",
            r#"{"max_tokens":"#,
            r#"{"max_tokens":5"#,
            r#"{"max_tokens":"7"}"#,
            r#"{"max_tokens":-1}"#,
            r#"{"max_tokens":1.5}"#,
            r#"{"max_tokens":1e999}"#,
            r#"{"max_tokens":[7]}"#,
            r#"{"options":[1],"num_predict":5}"#,
            r#"{"options":{"num_predict":-1}}"#,
            r#"["max_tokens",7]"#,
            "7",
            "a=1&max_tokens=7",
            &deep,
            &long,
        ] {
            assert_eq!(asked(body), None, "{}", &body[..body.len().min(60)]);
        }
        assert_eq!(tokens_asked(b"{\"max_tokens\":7,\"\xff\":1}"), None);
    }
}
