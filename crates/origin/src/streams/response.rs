//! Prepares responses over HTTP/2 and HTTP/3: turns a recipe into parts.

use protocol::h2::grpc::Code;

use super::step::{Content, StreamStep};
use crate::events::Piece;
use crate::fault::{End, Fault, Sent};
use crate::llm::Generation;
use crate::prepared::{ConnectionStep, PreparedResponse};
use crate::recipe::{Closing, Recipe};
use crate::response::{CONTENT_TYPE, RequestTraits, SERVER, TRAILERS, with_mix};

/// How a protocol encodes header fields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Encoding {
    /// Appends what comes before the fields.
    pub(crate) begin: fn(&mut Vec<u8>),
    /// Appends a field: its name in lower case, its value.
    pub(crate) field: fn(&[u8], &[u8], &mut Vec<u8>),
}

/// The response of a recipe, with its mix.
pub(crate) fn prepare(
    encoding: Encoding,
    recipe: &Recipe,
    traits: &RequestTraits,
) -> PreparedResponse<StreamStep> {
    let writer = Writer {
        encoding,
        recipe,
        traits,
    };
    with_mix(recipe, |fault| writer.prepare(fault))
}

/// A short text response; with `close`, the connection ends after it.
pub(crate) fn text(
    encoding: Encoding,
    status: u16,
    media_type: &str,
    body: &str,
    close: bool,
) -> PreparedResponse<StreamStep> {
    let length = body.len().to_string();
    let fields = [("content-type", media_type), ("content-length", &length)];
    let block = encoding.block(status, &fields);
    let mut parts = vec![head(block, body.is_empty())];
    if !body.is_empty() {
        parts.push(StreamStep::Data {
            content: Content::Copy(body.as_bytes().to_vec()),
            frame_bytes_max: u64::MAX,
            interval_ns: 0,
            ends_stream: true,
        });
    }
    if close {
        parts.push(StreamStep::Goaway);
    }
    PreparedResponse::new(status, true, parts)
}

/// A field section of QPACK that needs one insertion into the dynamic table, with that entry as its
/// only field (RFC 9204 sections 4.5.1 and 4.5.2).
const DYNAMIC_ENTRY: [u8; 3] = [2, 0, 0x80];

/// The media type of a call.
const CALL_TYPE: &str = "application/grpc";

struct Writer<'a> {
    encoding: Encoding,
    recipe: &'a Recipe,
    traits: &'a RequestTraits,
}

impl Writer<'_> {
    fn prepare(&self, fault: Option<&Fault>) -> PreparedResponse<StreamStep> {
        let (sent, end) = match fault {
            Some(Fault::Cut { sent, end }) => (*sent, Some(ending(*end))),
            Some(Fault::Forget { after }) => {
                (Sent::All, Some(StreamStep::Forget { after: *after }))
            }
            Some(Fault::DynamicEntry) => {
                let parts = vec![head(DYNAMIC_ENTRY.to_vec(), true)];
                return PreparedResponse::new(0, false, parts);
            }
            None | Some(Fault::Drip { .. }) => (Sent::All, self.end()),
        };
        let mut parts = match sent {
            Sent::Nothing => Vec::new(),
            Sent::Head | Sent::HalfBody => self.begin(sent),
            Sent::All => self.whole(),
        };
        if let Some(Fault::Drip { interval_ns }) = fault {
            drip(&mut parts, *interval_ns);
            if *interval_ns == 0 {
                parts.insert(0, StreamStep::Split);
            }
        }
        parts.extend(end);
        let has_head = sent != Sent::Nothing;
        let status = if has_head { self.recipe.status } else { 0 };
        PreparedResponse::new(status, sent == Sent::All, parts)
    }

    /// The whole response, preceded by interim responses.
    fn whole(&self) -> Vec<StreamStep> {
        let mut parts = Vec::from_iter(self.interim());
        if self.recipe.is_call {
            parts.extend(self.call());
            return parts;
        }
        parts.push(head(self.block(), self.is_without_body()));
        if self.is_without_body() {
            return parts;
        }
        let recipe = self.recipe;
        if let Some(events) = self.generation(false).or_else(|| self.events(false)) {
            parts.extend(events);
            let end = Content::Copy(Vec::new());
            if !recipe.tail.is_none() {
                parts.push(StreamStep::Pause(recipe.tail));
            }
            parts.push(self.data(end, !recipe.has_trailers));
            return self.with_trailers(parts);
        }
        let mut content = self.content();
        if !recipe.tail.is_none() {
            let (first, last) = content.clone().split(content.bytes().saturating_sub(1));
            if first.bytes() > 0 {
                parts.push(self.data(first, false));
            }
            parts.push(StreamStep::Pause(recipe.tail));
            content = last;
        }
        parts.push(self.data(content, !recipe.has_trailers));
        self.with_trailers(parts)
    }

    /// The messages of a call and its status. A call that fails at once has nothing but a head.
    fn call(&self) -> Vec<StreamStep> {
        let recipe = self.recipe;
        let number = recipe.call_status.number().to_string();
        let text = format!("status {}", recipe.call_status);
        let mut status = vec![("grpc-status", number.as_str())];
        if recipe.call_status != Code::OK {
            status.push(("grpc-message", &text));
        }
        let count = recipe.events.count;
        if recipe.call_status != Code::OK && count.is_none() {
            let fields = [&[SERVER, (CONTENT_TYPE, CALL_TYPE)], &status[..]].concat();
            return vec![head(self.encoding.block(200, &fields), true)];
        }
        let fields = [SERVER, (CONTENT_TYPE, CALL_TYPE)];
        let mut parts = vec![head(self.encoding.block(200, &fields), false)];
        for number in 0..count.unwrap_or(1) {
            let events = &recipe.events;
            let delay = if number == 0 {
                events.first
            } else {
                events.gap
            };
            if !delay.is_none() {
                parts.push(StreamStep::Pause(delay));
            }
            parts.push(self.data(Content::Copy(self.traits.body.clone()), false));
        }
        if !recipe.tail.is_none() {
            parts.push(StreamStep::Pause(recipe.tail));
        }
        parts.push(head(self.encoding.block_of(&status), true));
        parts
    }

    /// The events of a generation.
    fn generation(&self, is_half: bool) -> Option<Vec<StreamStep>> {
        let generation = Generation {
            frame_bytes_max: self.recipe.chunk_bytes.unwrap_or(u64::MAX),
            ..self.recipe.events.generation(is_half)?
        };
        Some(vec![StreamStep::Generate(Box::new(generation))])
    }

    /// Events with the time before each, each in DATA frames of its own.
    fn events(&self, is_half: bool) -> Option<Vec<StreamStep>> {
        let pieces = self.recipe.events.pieces(is_half)?;
        let mut parts = Vec::new();
        for Piece { delay, content } in pieces {
            if !delay.is_none() {
                parts.push(StreamStep::Pause(delay));
            }
            parts.push(self.data(Content::Copy(content), false));
        }
        Some(parts)
    }

    fn with_trailers(&self, mut parts: Vec<StreamStep>) -> Vec<StreamStep> {
        if self.recipe.has_trailers {
            let trailers = TRAILERS.map(|(name, value)| (name.to_ascii_lowercase(), value));
            let trailers = trailers
                .each_ref()
                .map(|(name, value)| (name.as_str(), *value));
            parts.push(head(self.encoding.block_of(&trailers), true));
        }
        parts
    }

    /// The head, and perhaps half of the body.
    fn begin(&self, sent: Sent) -> Vec<StreamStep> {
        let mut parts = vec![head(self.block(), false)];
        let half_bytes = self.body_bytes() / 2;
        if sent == Sent::Head || self.traits.is_bodiless {
            return parts;
        }
        if let Some(events) = self.generation(true).or_else(|| self.events(true)) {
            parts.extend(events);
        } else if half_bytes > 0 {
            let (half, _) = self.content().split(half_bytes);
            parts.push(self.data(half, false));
        }
        parts
    }

    fn data(&self, content: Content, ends_stream: bool) -> StreamStep {
        StreamStep::Data {
            content,
            frame_bytes_max: self.recipe.chunk_bytes.unwrap_or(u64::MAX),
            interval_ns: 0,
            ends_stream,
        }
    }

    fn content(&self) -> Content {
        if self.recipe.echoes {
            Content::Copy(self.traits.body.clone())
        } else {
            Content::Text {
                from: 0,
                bytes: self.recipe.size_bytes,
            }
        }
    }

    fn body_bytes(&self) -> u64 {
        self.recipe.body_bytes(self.traits.body.len())
    }

    fn is_without_body(&self) -> bool {
        let is_stream = self.recipe.events.is_stream();
        let is_empty = self.body_bytes() == 0
            && !is_stream
            && !self.recipe.has_trailers
            && self.recipe.tail.is_none();
        is_empty || self.traits.is_bodiless || self.recipe.status_forbids_body()
    }

    /// The content-length; `None` if the head does not have it.
    fn length(&self) -> Option<u64> {
        let recipe = self.recipe;
        let is_unknown = recipe.status_forbids_body()
            || recipe.is_until_close
            || recipe.chunk_bytes.is_some()
            || recipe.events.is_stream();
        (!is_unknown).then(|| self.body_bytes())
    }

    fn interim(&self) -> Option<StreamStep> {
        let (times, status) = self.recipe.interim;
        (times > 0).then(|| StreamStep::Head {
            block: self.encoding.block(status, &[("x-interim", "1")]),
            ends_stream: false,
            times,
        })
    }

    /// What the connection does after the response.
    fn end(&self) -> Option<StreamStep> {
        let recipe = self.recipe;
        match recipe.closing {
            Closing::Silent => Some(StreamStep::End(vec![
                ConnectionStep::Flush,
                ConnectionStep::Close,
            ])),
            Closing::Announced => Some(StreamStep::Goaway),
            Closing::Keep if recipe.is_until_close || !self.traits.keeps_alive => {
                Some(StreamStep::Goaway)
            }
            Closing::Keep => None,
        }
    }

    fn block(&self) -> Vec<u8> {
        let length = self.length().map(|length| length.to_string());
        let mut all = vec![SERVER, (CONTENT_TYPE, self.recipe.media_type())];
        all.extend(length.as_deref().map(|length| ("content-length", length)));
        let own = self.recipe.headers.iter();
        let own: Vec<_> = own
            .map(|(name, value)| (name.to_ascii_lowercase(), value.as_str()))
            .collect();
        all.extend(own.iter().map(|(name, value)| (name.as_str(), *value)));
        self.encoding.block(self.recipe.status, &all)
    }
}

fn ending(end: End) -> StreamStep {
    match end {
        End::Hang => StreamStep::Hang,
        End::Reset | End::Fin => StreamStep::End(end.steps()),
    }
}

fn head(block: Vec<u8>, ends_stream: bool) -> StreamStep {
    StreamStep::Head {
        block,
        ends_stream,
        times: 1,
    }
}

fn drip(parts: &mut [StreamStep], interval: u64) {
    for part in parts {
        match part {
            StreamStep::Data {
                frame_bytes_max,
                interval_ns,
                ..
            } => (*frame_bytes_max, *interval_ns) = (1, interval),
            StreamStep::Generate(generation) => {
                generation.frame_bytes_max = 1;
                generation.byte_interval_ns = Some(interval);
            }
            _ => {}
        }
    }
}

impl Encoding {
    /// A header block with this status.
    pub(crate) fn block(self, status: u16, fields: &[(&str, &str)]) -> Vec<u8> {
        let status = format!("{status:03}");
        let status = [(":status", status.as_str())];
        self.block_of(&[&status, fields].concat())
    }

    fn block_of(self, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        (self.begin)(&mut block);
        for (name, value) in fields {
            (self.field)(name.as_bytes(), value.as_bytes(), &mut block);
        }
        block
    }
}
