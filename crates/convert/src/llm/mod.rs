//! Requests for a language model's server: its prompts go in, and a requests file comes out.
//!
//! The bodies have the keys that vLLM, SGLang, llama.cpp and Ollama read.

mod body;
pub mod conversations;
mod endpoint;
mod json_text;
mod models;
mod prompts;
mod synthetic;

use plan::secrets::secrets_in_url;
use serde_json::{Map, Value};

use crate::variables::{MarkedText, SecretPlace, Variables};

pub use body::{Bodies, parse_extra};
pub use endpoint::{Endpoint, EndpointError};
pub use json_text::JsonTextError;
pub use models::{models_request, read_models};
pub use prompts::{Prompt, Prompts, read as read_prompts};
pub use synthetic::{Synthetic, Tokenizer, WORDS_DEFAULT, prompts as synthetic};

/// The largest number of prompts: at a hundred per second, it takes hours until one is repeated.
pub const MAX_PROMPTS: u64 = 1_000_000;

/// The largest number of words in a prompt: more than context windows have tokens.
pub const MAX_WORDS: u64 = 1_000_000;

/// The largest number of output tokens that a request asks for: more than context windows have.
pub const MAX_TOKENS: u64 = 1_000_000;

/// The largest requests file. It is in memory several times while a run is prepared.
pub const MAX_FILE_BYTES: usize = 256 << 20;

/// A requests file and what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The requests as JSON lines.
    pub text: String,
    /// How many there are.
    pub prompts: u64,
    /// The number of words in the shortest prompt.
    pub words_min: u64,
    /// The number of words in the longest prompt.
    pub words_max: u64,
    /// The number of words in all prompts.
    pub words: u64,
}

/// Why there is no requests file, one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestsFileError {
    /// The endpoint takes no messages.
    #[error("a prompt is a text at this path, and not messages")]
    Messages,
    /// As [`RequestsFileError::Messages`], of conversations.
    #[error("a conversation has messages, but a request to this path has a text (\"prompt\")")]
    Conversations,
    /// Recorded answers are wanted, and one is missing.
    #[error(
        "--history recorded: a turn has no recorded answer (--history live takes the server's)"
    )]
    NoAnswer,
    /// A key of [`Bodies::extra`] is one that the request has.
    #[error("--extra: {0:?} is set by other options of the command")]
    Key(String),
    /// The body has this key already.
    #[error("--session-key: requests have the key {0:?} already")]
    SessionKey(String),
    /// So many requests have more than so many MiB, the limit of a file.
    #[error("the first {0} requests have more than {1} MiB, the limit for all of them")]
    TooLarge(u64, usize),
}

/// Makes a requests file, a request of each prompt.
///
/// `headers` replace those that a request has anyway, such as the version of an interface.
/// `variables` stand for secrets in the path, if they are not to be in the file.
///
/// # Errors
/// If a key of [`Bodies::extra`] is one that the request has, or if the file is larger than
/// [`MAX_FILE_BYTES`].
pub fn requests_file(
    bodies: &Bodies,
    prompts: impl IntoIterator<Item = Prompt>,
    headers: &[(String, String)],
    seed: u64,
    variables: Option<&mut Variables>,
) -> Result<Made, RequestsFileError> {
    within(MAX_FILE_BYTES, bodies, prompts, headers, seed, variables)
}

/// As [`requests_file`], with another limit.
fn within(
    max_bytes: usize,
    bodies: &Bodies,
    prompts: impl IntoIterator<Item = Prompt>,
    headers: &[(String, String)],
    seed: u64,
    variables: Option<&mut Variables>,
) -> Result<Made, RequestsFileError> {
    let mut made = Made::nothing();
    let begin = beginning(bodies, headers, None, variables);
    let mut tokens = bodies.output_tokens(seed);
    for prompt in prompts {
        made.note_words(prompt.words());
        let body = bodies.body(prompt, tokens.next().flatten())?;
        let body = Value::from(plain(&body));
        made.text += &format!("{begin}\"body_text\":{body}}}\n");
        if made.text.len() > max_bytes {
            return Err(RequestsFileError::TooLarge(made.prompts, max_bytes >> 20));
        }
    }
    Ok(made)
}

/// A text as a template that stands for it.
fn plain(text: &str) -> String {
    Variables::default().template(&MarkedText::plain(text))
}

/// The beginning of each line: where its request goes, and its headers. `more` is one that is a
/// template.
fn beginning(
    bodies: &Bodies,
    headers: &[(String, String)],
    more: Option<(String, String)>,
    mut variables: Option<&mut Variables>,
) -> String {
    let path = &bodies.endpoint.path;
    let path = match &mut variables {
        Some(variables) => {
            let marked = MarkedText::new(path, secrets_in_url(path), SecretPlace::Url);
            variables.template(&marked)
        }
        None => plain(path),
    };
    let own = bodies.endpoint.headers().iter().map(|(name, value)| {
        let given = headers.iter().rev();
        let mut given = given.filter(|(other, _)| other.eq_ignore_ascii_case(name));
        let value = given.next().map_or(*value, |(_, value)| value);
        ((*name).to_owned(), Value::from(plain(value)))
    });
    let more = more.map(|(name, value)| (name, Value::from(value)));
    let header = Value::from(own.chain(more).collect::<Map<String, Value>>());
    format!("{{\"path\":{},\"header\":{header},", Value::from(path))
}

impl Made {
    /// A file without requests.
    fn nothing() -> Self {
        Self {
            text: String::new(),
            prompts: 0,
            words_min: u64::MAX,
            words_max: 0,
            words: 0,
        }
    }

    /// The next request or conversation has so many words.
    fn note_words(&mut self, words: u64) {
        self.prompts += 1;
        self.words += words;
        self.words_min = self.words_min.min(words);
        self.words_max = self.words_max.max(words);
    }
}

#[cfg(test)]
mod tests;
