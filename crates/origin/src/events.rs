//! Bodies that are streams of events.

use crate::delay::Delay;

/// The largest number of events of a response, all of which are prepared in memory.
pub(crate) const EVENTS_MAX: u64 = 100_000;

/// How events are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EventsFormat {
    /// Server-sent events (`text/event-stream`), a `data` field each.
    #[default]
    Sse,
    /// A line for each event.
    Lines,
    /// Nothing but the text: a chunk, or a DATA frame, is an event.
    Chunks,
}

/// The description of a stream of events.
#[derive(Debug, Clone, PartialEq)]
pub struct EventStream {
    /// Number of events; `None` if the body is no stream.
    pub count: Option<u64>,
    /// From the head of the response to the first event.
    pub first: Delay,
    /// From one event to the next.
    pub gap: Delay,
    /// How they are written.
    pub format: EventsFormat,
    /// What follows the last event at once; empty for nothing. `None` is `[DONE]` with
    /// server-sent events, otherwise nothing.
    pub end_marker: Option<String>,
}

impl Default for EventStream {
    fn default() -> Self {
        Self {
            count: None,
            first: Delay::NONE,
            gap: Delay::NONE,
            format: EventsFormat::default(),
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

impl EventsFormat {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "sse" => Self::Sse,
            "lines" => Self::Lines,
            "chunks" => Self::Chunks,
            _ => {
                return Err(format!(
                    "`{text}` is not a format: expected sse, lines or chunks"
                ));
            }
        })
    }

    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Sse => "text/event-stream",
            Self::Lines => "application/x-ndjson",
            Self::Chunks => "text/plain",
        }
    }

    fn written(self, text: &str) -> Vec<u8> {
        match self {
            Self::Sse => format!("data: {text}\n\n"),
            Self::Lines => format!("{text}\n"),
            Self::Chunks => text.to_owned(),
        }
        .into_bytes()
    }
}

impl EventStream {
    /// The events and the end marker, one after the other; `None` if the body is no stream.
    pub(crate) fn pieces(&self) -> Option<Vec<Piece>> {
        let mut pieces = self.first_pieces(self.count?);
        let default = match self.format {
            EventsFormat::Sse => "[DONE]",
            EventsFormat::Lines | EventsFormat::Chunks => "",
        };
        let marker = self.end_marker.as_deref().unwrap_or(default);
        if !marker.is_empty() {
            pieces.push(Piece {
                delay: Delay::NONE,
                content: self.format.written(marker),
            });
        }
        Some(pieces)
    }

    /// The first half of the events; `None` if the body is no stream.
    pub(crate) fn half(&self) -> Option<Vec<Piece>> {
        Some(self.first_pieces(self.count? / 2))
    }

    fn first_pieces(&self, count: u64) -> Vec<Piece> {
        let piece = |number| Piece {
            delay: if number == 1 { self.first } else { self.gap },
            content: self.format.written(&format!("{{\"event\":{number}}}")),
        };
        (1..=count).map(piece).collect()
    }
}
