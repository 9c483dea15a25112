//! Where requests go, and what is spoken there.

use plan::Dialect;

/// The path of a URL that has none.
pub const DEFAULT_PATH: &str = "/v1/chat/completions";

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
        "the path {0:?} does not tell the format of a request (expected {paths}; \
         --events-dialect names the format of another path)",
        paths = known_paths()
    )]
    UnknownPath(String),
}

impl Endpoint {
    /// The endpoint of a URL's path and query. `named` is its dialect, if the path does not tell
    /// it.
    ///
    /// # Errors
    /// If the dialect is not known, or the path is one of another dialect.
    pub fn of(path_and_query: &str, named: Option<Dialect>) -> Result<Self, EndpointError> {
        let end = path_and_query.find(['?', '#']);
        let (path, query) = path_and_query.split_at(end.unwrap_or(path_and_query.len()));
        let path = match (path, named) {
            ("" | "/", None | Some(Dialect::OpenAi)) => DEFAULT_PATH,
            _ => path,
        };
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
        })
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

/// The paths and their dialects, for people.
fn known_paths() -> String {
    let paths = PATHS.map(|(end, ..)| {
        if end.starts_with("/api/") {
            end.to_owned()
        } else {
            format!("/v1{end}")
        }
    });
    paths.join(", ")
}
