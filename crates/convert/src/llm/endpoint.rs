//! Where requests go, and what is spoken there.

use plan::Dialect;

/// The dialect of a base URL that names none.
const DIALECT_DEFAULT: Dialect = Dialect::OpenAi;

/// The version of the interfaces in a path that has none.
const VERSION: &str = "/v1";

/// What a request has for its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Messages with roles, below `messages`.
    Messages,
    /// A text, below `prompt`.
    Prompt,
    /// A text or messages, below `input`.
    Input,
}

/// OpenAI's own server.
const OPENAI_HOST: &str = "api.openai.com";

/// Its models at Azure.
const AZURE_HOSTS: &str = ".openai.azure.com";

/// The ends of the paths that are known.
const PATHS: [(&str, Dialect, Shape); 6] = [
    ("/chat/completions", Dialect::OpenAi, Shape::Messages),
    ("/completions", Dialect::Completions, Shape::Prompt),
    ("/responses", Dialect::Responses, Shape::Input),
    ("/messages", Dialect::Anthropic, Shape::Messages),
    ("/api/chat", Dialect::Ollama, Shape::Messages),
    ("/api/generate", Dialect::Ollama, Shape::Prompt),
];

/// A path of a language model's server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Path and query.
    pub path: String,
    /// What is spoken there.
    pub dialect: Dialect,
    pub(super) shape: Shape,
    /// The limit of output tokens is `max_completion_tokens`.
    pub(super) limits_completion: bool,
}

/// Why a path is no endpoint, one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The path has this end, which is that of another dialect than the named one.
    #[error(
        "--events-dialect {}: the path ends with {end}, which is that of {}",
        .named.name(),
        .dialect.name()
    )]
    OtherDialect {
        /// The dialect that was named.
        named: Dialect,
        /// The end of the path.
        end: &'static str,
        /// The dialect of this end.
        dialect: Dialect,
    },
    /// The path does not tell the dialect, and none was named.
    #[error(
        "the path {0:?} does not tell the format of a request (expected /, /v1, {paths}; \
         --events-dialect names the format of another path)",
        paths = known_paths()
    )]
    UnknownPath(String),
}

impl Endpoint {
    /// The endpoint of a URL's path and query. `named` is its dialect, if the path does not tell
    /// it. A base URL, as clients of these servers take it (`/`, `/v1`, `/openai/v1/`), has the
    /// first path of the named dialect, or of OpenAI's.
    ///
    /// # Errors
    /// If the dialect is not known, or the path is one of another dialect.
    pub fn of(path_and_query: &str, named: Option<Dialect>) -> Result<Self, EndpointError> {
        let end = path_and_query.find(['?', '#']);
        let (path, query) = path_and_query.split_at(end.unwrap_or(path_and_query.len()));
        let full = below_base(path, named.unwrap_or(DIALECT_DEFAULT));
        let path = full.as_deref().unwrap_or(path);
        let known = PATHS.iter().find(|(end, ..)| path.ends_with(end));
        let (dialect, shape) = match (known, named) {
            (Some((_, dialect, shape)), None) => (*dialect, *shape),
            (Some((_, dialect, shape)), Some(named)) if *dialect == named => (named, *shape),
            // Its first path has the shape that is usual.
            (None, Some(named)) => {
                let mut usual = PATHS.iter().filter(|(_, dialect, _)| *dialect == named);
                (named, usual.next().map_or(Shape::Messages, |it| it.2))
            }
            (Some((end, dialect, _)), Some(named)) => {
                return Err(EndpointError::OtherDialect {
                    named,
                    end,
                    dialect: *dialect,
                });
            }
            (None, None) => return Err(EndpointError::UnknownPath(path.to_owned())),
        };
        Ok(Self {
            path: format!("{path}{query}"),
            dialect,
            shape,
            limits_completion: false,
        })
    }

    /// The same at a host. OpenAI's reasoning models refuse `max_tokens`; other servers know it
    /// better than its successor.
    #[must_use]
    pub fn at(mut self, host: &str) -> Self {
        let host = host.to_ascii_lowercase();
        let is_openai = host == OPENAI_HOST || host.ends_with(AZURE_HOSTS);
        self.limits_completion = self.dialect == Dialect::OpenAi && is_openai;
        self
    }

    /// Path and query of the list of models, beside this path.
    #[must_use]
    pub fn models_path(&self) -> String {
        let end = self.path.find(['?', '#']).unwrap_or(self.path.len());
        let (path, query) = self.path.split_at(end);
        let base = PATHS.iter().find_map(|(end, ..)| {
            let base = path.strip_suffix(end)?;
            Some(if end.starts_with("/api/") {
                format!("{base}{VERSION}")
            } else {
                base.to_owned()
            })
        });
        let base = base.unwrap_or_else(|| VERSION.to_owned());
        format!("{base}/models{query}")
    }

    /// The header in which a request has the key of the interface.
    #[must_use]
    pub fn key_header(&self, key: &str) -> (&'static str, String) {
        match self.dialect {
            Dialect::Anthropic => ("x-api-key", key.to_owned()),
            _ => ("Authorization", format!("Bearer {key}")),
        }
    }

    /// Whether a prompt may be messages with roles.
    #[must_use]
    pub fn takes_messages(&self) -> bool {
        self.shape != Shape::Prompt
    }

    /// Whether servers can be told not to end a response before its limit of tokens: vLLM, SGLang
    /// and llama.cpp have `ignore_eos` for OpenAI's completions.
    #[must_use]
    pub fn can_ignore_eos(&self) -> bool {
        matches!(self.dialect, Dialect::OpenAi | Dialect::Completions)
    }

    /// The headers of each request.
    pub(super) fn headers(&self) -> &'static [(&'static str, &'static str)] {
        const JSON: (&str, &str) = ("Content-Type", "application/json");
        match self.dialect {
            // The only version that is not a preview.
            Dialect::Anthropic => &[JSON, ("anthropic-version", "2023-06-01")],
            _ => &[JSON],
        }
    }
}

/// The path of a dialect below a base; `None` if the path is no base.
fn below_base(path: &str, dialect: Dialect) -> Option<String> {
    let base = path.trim_end_matches('/');
    let (end, ..) = PATHS.iter().find(|(_, known, _)| *known == dialect)?;
    if base.is_empty() {
        return Some(versioned(end));
    }
    // Ollama's interface has no version.
    let is_base = has_version(base) && dialect != Dialect::Ollama;
    is_base.then(|| format!("{base}{end}"))
}

/// Whether a path ends with a version: `/v1`.
fn has_version(path: &str) -> bool {
    let last = path.rsplit('/').next().and_then(|it| it.strip_prefix('v'));
    last.is_some_and(|number| !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit()))
}

/// The path with this end of a server whose base is the root.
fn versioned(end: &str) -> String {
    if end.starts_with("/api/") {
        end.to_owned()
    } else {
        format!("{VERSION}{end}")
    }
}

/// The paths and their dialects, for people.
fn known_paths() -> String {
    PATHS.map(|(end, ..)| versioned(end)).join(", ")
}
