//! The question which models a server has, and what it answers.

use plan::secrets::{hide_in_arguments, hide_secrets};
use plan::{brief, printable};
use serde_json::Value;

use super::endpoint::Endpoint;
use crate::variables::{MarkedText, Variables};

/// The most characters of a server's own words: as much as fits on a few lines of a terminal.
const WORDS_CHARS_MAX: usize = 200;

/// Where servers say in JSON what is wrong: OpenAI, vLLM and llama.cpp; SGLang; FastAPI; Ollama.
const MESSAGES: [&str; 4] = ["/error/message", "/message", "/detail", "/error"];

/// A requests file with the request for the list of models.
#[must_use]
pub fn models_request(endpoint: &Endpoint) -> String {
    let path = MarkedText::plain(&endpoint.models_path());
    let path = Value::from(Variables::default().template(&path));
    format!("{{\"method\":\"GET\",\"path\":{path}}}\n")
}

/// The names of the models in the body of the answer; `None` if it is no list of models.
#[must_use]
pub fn read_models(body: &[u8]) -> Option<Vec<String>> {
    let list: Value = serde_json::from_slice(body).ok()?;
    let models = list.get("data")?.as_array()?.iter();
    models
        .map(|model| model.get("id")?.as_str().map(str::to_owned))
        .collect()
}

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
