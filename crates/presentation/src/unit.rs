//! The unit of values.

use serde::Serialize;

/// The unit of values. A page writes values of a chart by it; units that a chart has no form of its
/// own for are written as plain numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A number without a unit.
    #[default]
    Number,
    /// A whole number of things, such as responses or errors.
    Count,
    /// Times of requests, in microseconds; a chart writes them in us, ms or s.
    Microseconds,
    /// Milliseconds: CPU time as the kernel counts it.
    #[serde(rename = "number")]
    Milliseconds,
    /// A time or duration in seconds.
    Seconds,
    /// Rates of requests or responses, per second.
    RequestsPerSec,
    /// Connections or handshakes per second.
    #[serde(rename = "number")]
    ConnectsPerSec,
    /// Rates of events of streaming responses, per second.
    #[serde(rename = "number")]
    EventsPerSec,
    /// Events of a response.
    #[serde(rename = "number")]
    Events,
    /// Rates of a language model's tokens, per second.
    #[serde(rename = "number")]
    TokensPerSec,
    /// Tokens of a response.
    #[serde(rename = "number")]
    Tokens,
    /// Totals and sizes, in bytes; a chart writes them in KiB or MiB.
    Bytes,
    /// Throughput, in bytes per second.
    BytesPerSec,
    /// A share from 0 to 1.
    #[serde(rename = "number")]
    Ratio,
    /// A share in percent, 0 to 100.
    Percent,
    /// A change in percent, with its sign; 0 is none.
    ChangePercent,
    /// Numbers of TCP segments, such as a congestion window.
    Segments,
}

impl Unit {
    /// The unit as one word: `us`, `requests/s`, `count`; empty without a unit.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Number | Self::Ratio => "",
            Self::Count => "count",
            Self::Microseconds => "us",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
            Self::RequestsPerSec => "requests/s",
            Self::ConnectsPerSec => "1/s",
            Self::EventsPerSec => "events/s",
            Self::Events => "events",
            Self::TokensPerSec => "tokens/s",
            Self::Tokens => "tokens",
            Self::Bytes => "bytes",
            Self::BytesPerSec => "bytes/s",
            Self::Percent | Self::ChangePercent => "percent",
            Self::Segments => "segments",
        }
    }

    /// The unit in the notation of OpenTelemetry (UCUM). `things` is what a [`Self::Count`] counts,
    /// in the singular.
    #[must_use]
    pub fn ucum(self, things: &str) -> String {
        match self {
            Self::Seconds => "s".to_owned(),
            Self::Bytes => "By".to_owned(),
            Self::Ratio => "1".to_owned(),
            Self::Count => format!("{{{things}}}"),
            _ => String::new(),
        }
    }
}
