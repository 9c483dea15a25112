//! The bodies of requests, in the dialect of each server.

use fastrand::Rng;
use plan::distribution::Count;
use plan::{Dialect, InvalidValue};
use serde_json::{Map, Value, json};

use super::endpoint::{Endpoint, Shape};
use super::prompts::Prompt;
use super::{MAX_TOKENS, RequestsFileError, plain};

/// The limit of tokens where a request must have one and none is given.
pub(super) const MAX_TOKENS_DEFAULT: u64 = 1024;

/// Changes the seed, so that numbers of tokens do not depend on how prompts are drawn.
const TOKENS_STREAM: u64 = 0x9e37_79b9_7f4a_7c15;

/// What all requests have in common.
#[derive(Debug, Clone, PartialEq)]
pub struct Bodies {
    /// Where they go.
    pub endpoint: Endpoint,
    /// The name of the model.
    pub model: String,
    /// The limits of output tokens; `None` leaves them to the server.
    pub output_tokens: Option<Count>,
    /// Whether the server is told to go on until the limit; only if the endpoint can be told so
    /// ([`Endpoint::can_ignore_eos`]).
    pub ignore_eos: bool,
    /// Further keys of each body.
    pub extra: Map<String, Value>,
}

/// The members of an object in their order.
type Members = Vec<(String, Value)>;

/// Parses an object for [`Bodies::extra`].
///
/// # Errors
/// If the text is not a JSON object.
pub fn parse_extra(text: &str) -> Result<Map<String, Value>, InvalidValue> {
    const EXPECTED: &str = "(expected an object like {\"temperature\": 0})";
    match serde_json::from_str(text) {
        Ok(Value::Object(extra)) => Ok(extra),
        Ok(_) => Err(format!("is not a JSON object {EXPECTED}").into()),
        Err(error) => Err(format!("is not JSON: {error} {EXPECTED}").into()),
    }
}

impl Bodies {
    /// The limits of one request after the other; each `None` if there are none.
    pub(super) fn output_tokens(&self, seed: u64) -> impl Iterator<Item = Option<u64>> {
        let count = self.output_tokens;
        let mut random = Rng::with_seed(seed ^ TOKENS_STREAM);
        std::iter::repeat_with(move || {
            count.map(|count| count.sample(&mut random).clamp(1, MAX_TOKENS))
        })
    }

    /// The body of each request of conversations, with a gap for what was said and the limit of
    /// tokens, and with the name of the conversation in this key.
    pub(super) fn conversation_body(
        &self,
        session_key: Option<&str>,
    ) -> Result<String, RequestsFileError> {
        if self.endpoint.shape == Shape::Prompt {
            return Err(RequestsFileError::Conversations);
        }
        let limit = self.limit_member().0;
        let name = limit.split('"').nth(1).unwrap_or_default();
        if self.extra.contains_key(name) {
            return Err(RequestsFileError::Key(name.to_owned()));
        }
        let members = self.members(Vec::new(), None)?;
        let has_key = |key: &&str| {
            let members: Map<String, Value> = serde_json::from_str(&members).unwrap_or_default();
            members.contains_key(*key) || ["messages", "input", "system", name].contains(key)
        };
        if let Some(key) = session_key.filter(has_key) {
            return Err(RequestsFileError::SessionKey(key.to_owned()));
        }
        let escaped = plain(&members);
        let members = escaped.strip_suffix('}').unwrap_or(&escaped);
        let named = session_key.map_or_else(String::new, |key| {
            let key = plain(&Value::from(key).to_string());
            format!("{key}:\"{{{{$conversation.id}}}}\",")
        });
        Ok(format!("{members},{named}{{{{$conversation}}}}}}"))
    }

    /// What a request has before and after its limit of tokens.
    pub(super) fn limit_member(&self) -> (&'static str, &'static str) {
        match self.endpoint.dialect {
            Dialect::OpenAi if self.endpoint.limits_completion => {
                ("\"max_completion_tokens\":", "")
            }
            Dialect::OpenAi | Dialect::Completions | Dialect::Anthropic => ("\"max_tokens\":", ""),
            Dialect::Responses => ("\"max_output_tokens\":", ""),
            Dialect::Ollama => ("\"options\":{\"num_predict\":", "}"),
        }
    }

    /// The body of one request.
    pub(super) fn body(
        &self,
        prompt: Prompt,
        tokens: Option<u64>,
    ) -> Result<String, RequestsFileError> {
        let mut said: Members = Vec::new();
        let mut add = |name: &str, value: Value| said.push((name.to_owned(), value));
        let dialect = self.endpoint.dialect;
        match (self.endpoint.shape, prompt) {
            (Shape::Messages, Prompt::Text(text)) => {
                add("messages", json!([{"role": "user", "content": text}]));
            }
            (Shape::Messages, Prompt::Messages(messages)) if dialect == Dialect::Anthropic => {
                let (system, messages) = without_system(messages);
                system
                    .into_iter()
                    .for_each(|text| add("system", text.into()));
                add("messages", messages.into());
            }
            (Shape::Messages, Prompt::Messages(messages)) => add("messages", messages.into()),
            (Shape::Prompt, Prompt::Text(text)) => add("prompt", text.into()),
            (Shape::Input, Prompt::Text(text)) => add("input", text.into()),
            (Shape::Input, Prompt::Messages(messages)) => add("input", messages.into()),
            (Shape::Prompt, Prompt::Messages(_)) => {
                return Err(RequestsFileError::Messages);
            }
        }
        let limit = match (dialect, tokens) {
            (Dialect::Anthropic, None) => Some(MAX_TOKENS_DEFAULT),
            _ => tokens,
        };
        self.members(said, limit)
    }

    /// An object of what is said, the limit of tokens if there is one, and what all requests have.
    fn members(&self, said: Members, tokens: Option<u64>) -> Result<String, RequestsFileError> {
        let mut members: Members = vec![("model".to_owned(), self.model.as_str().into())];
        members.extend(said);
        let mut add = |name: &str, value: Value| members.push((name.to_owned(), value));
        let dialect = self.endpoint.dialect;
        add("stream", true.into());
        if matches!(dialect, Dialect::OpenAi | Dialect::Completions) {
            add("stream_options", json!({"include_usage": true}));
        }
        if let Some(tokens) = tokens {
            let (before, after) = self.limit_member();
            let member = format!("{{{before}{tokens}{after}}}");
            let member: Map<String, Value> = serde_json::from_str(&member).unwrap_or_default();
            member
                .into_iter()
                .for_each(|(name, value)| add(&name, value));
        }
        if self.ignore_eos {
            add("ignore_eos", true.into());
        }
        for (name, value) in &self.extra {
            merge(&mut members, name, value)?;
        }
        let members = members
            .iter()
            .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())));
        Ok(format!("{{{}}}", members.collect::<Vec<_>>().join(",")))
    }
}

/// The texts of the messages of a system, which is apart from the others in Anthropic's interface.
pub(super) fn without_system(messages: Vec<Value>) -> (Option<String>, Vec<Value>) {
    let text = |message: &Value| match (message["role"].as_str(), message["content"].as_str()) {
        (Some("system"), Some(text)) => Some(text.to_owned()),
        _ => None,
    };
    let system: Vec<String> = messages.iter().filter_map(text).collect();
    let others = messages
        .into_iter()
        .filter(|message| text(message).is_none());
    let system = (!system.is_empty()).then(|| system.join("\n\n"));
    (system, others.collect())
}

/// Adds a member; objects of the same name are joined.
fn merge(members: &mut Members, name: &str, value: &Value) -> Result<(), RequestsFileError> {
    let Some((_, own)) = members.iter_mut().find(|(own, _)| own == name) else {
        members.push((name.to_owned(), value.clone()));
        return Ok(());
    };
    let (Value::Object(own), Value::Object(more)) = (own, value) else {
        return Err(RequestsFileError::Key(name.to_owned()));
    };
    for (inner, value) in more {
        if own.insert(inner.clone(), value.clone()).is_some() {
            return Err(RequestsFileError::Key(format!("{name}.{inner}")));
        }
    }
    Ok(())
}
