//! Bodies that are streams of events.

use plan::{Dialect, EventsFormat, InvalidValue};

use crate::delay::Delay;
use crate::llm::{Generation, LlmStream};

/// The largest number of events of a response, all of which are prepared in memory, and of tokens
/// of a generation.
pub(crate) const EVENTS_MAX: u64 = 100_000;

/// The description of a stream of events.
#[derive(Debug, Clone, PartialEq)]
pub struct EventStream {
    /// Number of events; `None` if the body is no stream.
    pub count: Option<u64>,
    /// The events of a language model's server, instead of `count` events.
    pub llm: LlmStream,
    /// From the head of the response to the first event; in a generation to the first token.
    pub first: Delay,
    /// From one event to the next; in a generation between events with tokens.
    pub gap: Delay,
    /// How they are written: as an event with a field `data`, as a line, or as nothing but a chunk
    /// (a DATA frame).
    pub format: EventsFormat,
    /// What follows the last event at once; empty for nothing. `None` is `[DONE]` with
    /// server-sent events, otherwise nothing.
    pub end_marker: Option<String>,
}

impl Default for EventStream {
    fn default() -> Self {
        Self {
            count: None,
            llm: LlmStream::default(),
            first: Delay::NONE,
            gap: Delay::NONE,
            format: EventsFormat::Sse,
            end_marker: None,
        }
    }
}

/// What is sent at a time, after a delay.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Piece {
    pub(crate) delay: Delay,
    pub(crate) content: Vec<u8>,
}

fn written(format: EventsFormat, text: &str) -> Vec<u8> {
    match format {
        EventsFormat::Sse | EventsFormat::Llm => format!("data: {text}\n\n"),
        EventsFormat::Lines => format!("{text}\n"),
        EventsFormat::Chunks | EventsFormat::Grpc => text.to_owned(),
    }
    .into_bytes()
}

impl EventStream {
    pub(crate) fn set_format(&mut self, name: &str) -> Result<(), InvalidValue> {
        // `llm` is how a client reads events.
        let all = EventsFormat::ALL.into_iter();
        let mut all =
            all.filter(|format| !matches!(format, EventsFormat::Llm | EventsFormat::Grpc));
        let found = all.find(|format| format.name() == name);
        let error = || format!("`{name}` is not a format: expected sse, lines or chunks");
        self.format = found.ok_or_else(error)?;
        Ok(())
    }

    /// Whether the body is a stream of events.
    pub(crate) fn is_stream(&self) -> bool {
        self.count.is_some() || self.llm.dialect.is_some()
    }

    /// How events are written: a generation has the format of its dialect.
    fn used_format(&self) -> EventsFormat {
        self.llm.dialect.map_or(self.format, Dialect::framing)
    }

    /// The generation that is the body, as HTTP/2 sends it, whole or the first half.
    pub(crate) fn generation(&self, is_half: bool) -> Option<Generation> {
        let dialect = self.llm.dialect?;
        let default = dialect.end_marker();
        let marker = self.end_marker.as_deref().unwrap_or(default);
        Some(Generation {
            llm: self.llm.clone(),
            dialect,
            first: self.first,
            gap: self.gap,
            end_marker: match marker {
                "" => Vec::new(),
                text => written(dialect.framing(), text),
            },
            is_half,
            is_chunked: false,
            frame_bytes_max: u64::MAX,
            byte_interval_ns: None,
        })
    }

    pub(crate) fn media_type(&self) -> &'static str {
        match self.used_format() {
            EventsFormat::Sse | EventsFormat::Llm => "text/event-stream",
            EventsFormat::Lines => "application/x-ndjson",
            EventsFormat::Chunks | EventsFormat::Grpc => "text/plain",
        }
    }

    /// The events and the end marker, one after the other, or only the first half of the events;
    /// `None` if the body is no stream.
    pub(crate) fn pieces(&self, is_half: bool) -> Option<Vec<Piece>> {
        if is_half {
            return Some(self.first_pieces(self.count? / 2));
        }
        let mut pieces = self.first_pieces(self.count?);
        let default = self.format.default_end_marker();
        let marker = self.end_marker.as_deref().unwrap_or(default);
        if !marker.is_empty() {
            pieces.push(Piece {
                delay: Delay::NONE,
                content: written(self.format, marker),
            });
        }
        Some(pieces)
    }

    fn first_pieces(&self, count: u64) -> Vec<Piece> {
        let piece = |number| Piece {
            delay: if number == 1 { self.first } else { self.gap },
            content: written(self.format, &format!("{{\"event\":{number}}}")),
        };
        (1..=count).map(piece).collect()
    }
}
