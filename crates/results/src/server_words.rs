//! What a server says in the body of an error.

use plan::secrets::{hide_in_arguments, hide_secrets};
use plan::{brief, printable};
use serde_json::Value;

/// The most characters of a server's own words: as much as fits on a few lines of a terminal.
const WORDS_CHARS_MAX: usize = 200;

/// Where servers say in JSON what is wrong: OpenAI, vLLM and llama.cpp; SGLang; FastAPI; Ollama.
const MESSAGES: [&str; 4] = ["/error/message", "/message", "/detail", "/error"];

/// What a server says in the body of an error, for people: one line, shortened, without secrets;
/// `None` if it says nothing.
#[must_use]
pub fn server_words(body: &[u8]) -> Option<String> {
    let json: Option<Value> = serde_json::from_slice(body).ok();
    let message = json.as_ref().and_then(|json| {
        let mut texts = MESSAGES.iter().filter_map(|at| json.pointer(at)?.as_str());
        texts.next().map(str::to_owned)
    });
    let text = message.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    // Some servers repeat the key that they refuse.
    let line = hide_secrets(&hide_in_arguments(&words).join(" "));
    let mut chars = line.chars();
    let short: String = chars.by_ref().take(WORDS_CHARS_MAX).collect();
    let end = if chars.next().is_some() { "..." } else { "" };
    let shown = format!("{}{end}", printable(&short));
    (!shown.is_empty()).then(|| brief(&shown).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_server_are_one_short_line_without_secrets() {
        let words = |text: &str| server_words(text.as_bytes());
        for (body, expected) in [
            (
                r#"{"error":{"message":"No such\n model","code":1}}"#,
                "No such model",
            ),
            (r#"{"object":"error","message":"bad key"}"#, "bad key"),
            (r#"{"detail":"Not Found"}"#, "Not Found"),
            (r#"{"error":"model 'x' not found"}"#, "model 'x' not found"),
            (r#"{"detail":[{"loc":1}]}"#, r#"{"detail":[{"loc":1}]}"#),
            ("  404\r\n page  not found\n", "404 page not found"),
        ] {
            assert_eq!(words(body).as_deref(), Some(expected));
        }
        assert_eq!(words(" \n"), None);
        assert_eq!(words(""), None);
        for secret in [
            "Authorization: Bearer abcdefgh",
            "key: sk-abcdefgh",
            "?api_key=abcdefgh",
        ] {
            let shown = words(&format!("Incorrect {secret}")).unwrap();
            assert!(shown.ends_with("***"), "{shown}");
        }
        let escapes = words("a\u{1b}[2Jb").unwrap();
        assert!(!escapes.contains('\u{1b}'), "{escapes}");
        let long = words(&"word ".repeat(1000)).unwrap();
        assert!(long.len() < 210 && long.ends_with("..."), "{long}");
        assert!(server_words(b"\xff\xfe").is_some());
    }
}
