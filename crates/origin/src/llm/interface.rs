//! What a language model's server says beside its streams: its models, and that a key is wrong.

use serde_json::{Value, json};

use crate::recipe::Recipe;
use crate::request::Head;

/// A response that is JSON and no stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JsonAnswer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// The answer to a request for the models, or to one without the key; `None` if the response is
/// the one of the recipe.
pub(crate) fn answer(recipe: &Recipe, head: &Head) -> Option<JsonAnswer> {
    let llm = &recipe.events.llm;
    llm.dialect?;
    if llm.api_key.is_some() && llm.api_key != head.api_key {
        return Some(error(401, "Incorrect API key provided.", "invalid_api_key"));
    }
    let path = head.target.split('?').next().unwrap_or_default();
    if !path.ends_with("/models") {
        return None;
    }
    Some(match recipe.status {
        404 => error(404, "Not Found", "not_found"),
        status => JsonAnswer {
            status,
            body: models(&llm.models).to_string(),
        },
    })
}

/// The list of models in OpenAI's form, which vLLM, SGLang, llama.cpp and Ollama have as well.
fn models(names: &[String]) -> Value {
    let model = |name: &String| json!({"id": name, "object": "model", "owned_by": "wrkbench"});
    json!({"object": "list", "data": names.iter().map(model).collect::<Vec<_>>()})
}

fn error(status: u16, message: &str, code: &str) -> JsonAnswer {
    let error = json!({"message": message, "type": "invalid_request_error", "code": code});
    JsonAnswer {
        status,
        body: json!({"error": error}).to_string(),
    }
}

/// The key in the value of `authorization` or `x-api-key`.
pub(crate) fn key_of(value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(value).ok()?;
    Some(text.strip_prefix("Bearer ").unwrap_or(text).to_owned())
}

/// Whether a field with this name has a key.
pub(crate) fn has_key(name: &[u8]) -> bool {
    [&b"authorization"[..], b"x-api-key"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
}
