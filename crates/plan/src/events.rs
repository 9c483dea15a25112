//! How streaming responses are split into events.

use serde::{Deserialize, Serialize};

/// Responses are streams of events, which are counted and timed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EventsSpec {
    /// What counts as an event.
    pub format: EventsFormat,
    /// The data of an event (`sse`), the line or the chunk that ends a stream; empty is none.
    /// `None` is the default of the format ([`EventsFormat::default_end_marker`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_marker: Option<String>,
    /// With [`EventsFormat::Llm`]: the format of the events; `None` if each event shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialect: Option<Dialect>,
}

/// What counts as an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EventsFormat {
    /// Each server-sent event with data (WHATWG HTML, "Server-sent events").
    Sse,
    /// Each line that is not empty. Lines end in LF, CR or CRLF.
    Lines,
    /// Each chunk of HTTP/1.1 and each DATA frame of HTTP/2 that is not empty. A body without
    /// chunks is one.
    Chunks,
    /// The events of a language model: JSON in server-sent events, or in lines if the body begins
    /// with `{`. Tokens are counted and timed, too.
    Llm,
    /// Each message of a gRPC call, also an empty one.
    Grpc,
}

/// The format of a language model's events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// OpenAI's chat completions, which most servers speak.
    #[default]
    OpenAi,
    /// OpenAI's older completions: `choices[].text`.
    Completions,
    /// OpenAI's responses: events with a `type` that begins with `response.`.
    Responses,
    /// Anthropic's messages.
    Anthropic,
    /// Ollama's own format, one JSON object per line, of `/api/chat` and `/api/generate`.
    Ollama,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 5] = [
        Self::OpenAi,
        Self::Completions,
        Self::Responses,
        Self::Anthropic,
        Self::Ollama,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Completions => "completions",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
            Self::Ollama => "ollama",
        }
    }

    /// How its events are separated.
    #[must_use]
    pub const fn framing(self) -> EventsFormat {
        match self {
            Self::Ollama => EventsFormat::Lines,
            _ => EventsFormat::Sse,
        }
    }

    /// What follows its last event; empty for nothing.
    #[must_use]
    pub const fn end_marker(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Completions => "[DONE]",
            Self::Responses | Self::Anthropic | Self::Ollama => "",
        }
    }
}

impl EventsFormat {
    /// All formats.
    pub const ALL: [Self; 5] = [Self::Sse, Self::Lines, Self::Chunks, Self::Llm, Self::Grpc];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sse => "sse",
            Self::Lines => "lines",
            Self::Chunks => "chunks",
            Self::Llm => "llm",
            Self::Grpc => "grpc",
        }
    }

    /// The end marker if the plan has none: that of OpenAI's interface for server-sent events,
    /// which other LLM servers have adopted.
    #[must_use]
    pub const fn default_end_marker(self) -> &'static str {
        match self {
            Self::Sse | Self::Llm => "[DONE]",
            Self::Lines | Self::Chunks | Self::Grpc => "",
        }
    }
}

impl EventsSpec {
    /// The end marker, empty if there is none.
    #[must_use]
    pub fn end_marker(&self) -> &str {
        let default = self.format.default_end_marker();
        self.end_marker.as_deref().unwrap_or(default)
    }
}
