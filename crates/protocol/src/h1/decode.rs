//! Decodes the responses of one connection: which bytes belong to which request, and when a
//! response is complete.

use super::cache::HeadCache;
use super::chunked::{ChunkPart, Chunked};
use super::fields::Framing;
use super::head::{self, Head};
use super::head_end::HeadEnd;
use super::outstanding::Outstanding;
use crate::request::RequestText;
use crate::{
    Captured, Event, ExchangeId, RequestKind, Requests, Response, Session, SessionError,
    StreamReader, StreamSpec,
};

/// Limits beyond which a response is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a head or of a trailer section, including the empty line.
    pub head_bytes_max: usize,
    /// Lines of a head, and of a trailer section.
    pub header_count_max: usize,
    /// Bytes of a captured body. A body that is not captured may have any size.
    pub captured_body_bytes_max: usize,
}

impl Default for Limits {
    /// Heads of 80 KiB (the limit of wrk's parser), 256 lines, 64 MiB captured.
    fn default() -> Self {
        Self {
            head_bytes_max: 80 * 1024,
            header_count_max: 256,
            captured_body_bytes_max: 64 * 1024 * 1024,
        }
    }
}

/// What all HTTP/1 sessions of a worker share.
#[derive(Debug, Default)]
pub struct H1Context {
    /// Limits for every response.
    pub limits: Limits,
    /// Whether responses are captured as a whole ([`Response::captured`]).
    pub capture: bool,
    /// Only heads are captured, without bodies.
    heads_only: bool,
    stream: Option<StreamSpec>,
    cache: HeadCache,
    redirect_location: Option<String>,
}

impl H1Context {
    /// The context of one worker's sessions.
    #[must_use]
    pub fn new(limits: Limits, capture: bool) -> Self {
        Self {
            limits,
            capture,
            heads_only: false,
            stream: None,
            cache: HeadCache::default(),
            redirect_location: None,
        }
    }

    /// Captures responses without their bodies.
    #[must_use]
    pub fn with_heads_only(mut self) -> Self {
        (self.capture, self.heads_only) = (true, true);
        self
    }

    /// Splits the bodies of responses into events.
    #[must_use]
    pub fn with_stream(mut self, stream: Option<StreamSpec>) -> Self {
        self.stream = stream;
        self
    }
}

/// Interim responses before one final response. A server has a use for one or two (100, 103).
const INTERIM_MAX: u8 = 64;

/// CR and LF bytes before a status line. RFC 9112 section 2.2 lets servers skip an empty line, and
/// some servers send one after a body.
const BLANKS_MAX: u8 = 8;

/// The client's side of an HTTP/1.0 or HTTP/1.1 connection (RFC 9112), including pipelining.
///
/// Decisions where the RFC leaves a choice:
/// - A response to HEAD, a 204, a 304 and a 2xx to CONNECT have no body, and their header fields
///   about a body are ignored.
/// - An interim response belongs to the final one: its bytes are counted there, and it may cause
///   [`Event::Began`]. 101 is an error, since no request asks for an upgrade.
/// - Empty lines before a status line are skipped, up to a few. Their bytes count for the next
///   response.
/// - After a response that ends the connection, and whenever no request is outstanding, further
///   bytes are [`SessionError::Unsolicited`].
/// - A response without any length ends with the connection ([`Session::end`]).
#[derive(Debug)]
pub struct H1 {
    outstanding: Outstanding,
    state: DecoderState,
    /// The beginning of a head or trailer section that did not arrive in one piece. Otherwise empty
    /// and without memory, so that idle connections cost nothing.
    partial: Vec<u8>,
    /// Bytes of the oldest outstanding response so far.
    bytes: u64,
    captured: Option<Box<Captured>>,
    /// Present if responses are split into events.
    reader: Option<Box<StreamReader>>,
    status: u16,
    section_end: HeadEnd,
    reusable: bool,
    /// A byte of the oldest outstanding response has arrived.
    has_begun: bool,
    has_said_began: bool,
    interim: u8,
    blanks: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DecoderState {
    /// Before or within a head.
    Head,
    /// Within a body, with this many bytes left; never 0.
    Length(u64),
    Chunked(Chunked),
    Trailers,
    /// Within a body that ends with the connection.
    UntilClose,
    /// No further response can arrive.
    Over,
}

impl Session for H1 {
    type Context = H1Context;
    type Prepared = RequestKind;

    const SENDS_TEXT: bool = true;
    const TRANSPARENT: bool = true;

    fn new(context: &mut H1Context) -> Self {
        Self {
            outstanding: Outstanding::new(),
            state: DecoderState::Head,
            partial: Vec::new(),
            bytes: 0,
            captured: None,
            reader: context
                .stream
                .as_ref()
                .map(|stream| Box::new(StreamReader::new(stream))),
            status: 0,
            section_end: HeadEnd::Line,
            reusable: true,
            has_begun: false,
            has_said_began: false,
            interim: 0,
            blanks: 0,
        }
    }

    #[inline]
    fn prepare(_context: &mut H1Context, request: &RequestText<'_>) -> RequestKind {
        request.kind
    }

    fn begin(
        &mut self,
        _context: &mut H1Context,
        _output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        self.outstanding.clear();
        self.partial = Vec::new();
        self.bytes = 0;
        self.captured = None;
        self.await_response();
        self.state = DecoderState::Head;
        Ok(())
    }

    #[inline]
    fn is_ready(&self) -> bool {
        true
    }

    #[inline]
    fn start(
        &mut self,
        _context: &mut H1Context,
        exchange: ExchangeId,
        requests: Requests<'_, RequestKind>,
        _output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        for kind in requests.prepared {
            self.outstanding.push(exchange, *kind);
        }
        Ok(())
    }

    #[inline]
    fn receive(
        &mut self,
        context: &mut H1Context,
        input: &[u8],
        _output: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError> {
        let mut rest = input;
        while !rest.is_empty() {
            let taken = match self.state {
                DecoderState::Head => self.on_head_bytes(context, rest, events)?,
                _ => self.on_body_bytes(context, rest, events).inspect_err(|_| {
                    // What arrived before the error is valid.
                    self.report_events(events);
                })?,
            };
            rest = &rest[taken..];
        }
        if self.has_begun && !self.has_said_began {
            self.has_said_began = true;
            if let Some((exchange, _)) = self.outstanding.front() {
                events.push(Event::Began(exchange));
            }
        }
        self.report_events(events);
        Ok(())
    }

    #[inline]
    fn skippable_bytes(&self) -> u64 {
        match self.state {
            DecoderState::Head | DecoderState::Trailers | DecoderState::Over => 0,
            // Captured bodies are kept as a whole, and streams are read.
            _ if self.captured.is_some() || self.reader.is_some() => 0,
            DecoderState::Length(remaining) => remaining,
            DecoderState::Chunked(decoder) => decoder.data_bytes(),
            DecoderState::UntilClose => u64::MAX,
        }
    }

    fn skip(&mut self, bytes: u64, events: &mut Vec<Event>) {
        let bytes = bytes.min(self.skippable_bytes());
        if bytes == 0 {
            return;
        }
        self.bytes += bytes;
        match &mut self.state {
            DecoderState::Length(remaining) if *remaining == bytes => self.finish(events),
            DecoderState::Length(remaining) => *remaining -= bytes,
            DecoderState::Chunked(decoder) => decoder.skip_data(bytes),
            DecoderState::Head
            | DecoderState::Trailers
            | DecoderState::UntilClose
            | DecoderState::Over => {}
        }
    }

    fn end(
        &mut self,
        _context: &mut H1Context,
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError> {
        if self.state == DecoderState::UntilClose {
            self.finish(events);
        }
        self.state = DecoderState::Over;
        match self.outstanding.front() {
            None => Ok(()),
            Some(_) if self.has_begun => Err(SessionError::Truncated),
            Some(_) => Err(SessionError::ClosedEarly),
        }
    }

    fn partial_bytes(&self) -> u64 {
        self.bytes
    }

    fn redirect_location(context: &H1Context) -> Option<&str> {
        context.redirect_location.as_deref()
    }
}

/// The `on_` functions consume bytes from the start of their input, which is not empty, and return
/// their number, which is at least one.
impl H1 {
    #[inline]
    fn on_head_bytes(
        &mut self,
        context: &mut H1Context,
        input: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<usize, SessionError> {
        let Some((_, kind)) = self.outstanding.front() else {
            return self.on_idle_bytes(input);
        };
        if self.partial.is_empty()
            && !context.capture
            && let Some((length, head)) = context.cache.find(input)
        {
            self.bytes += length as u64;
            return Ok(length + self.on_head(kind, head, &input[length..], events)?);
        }
        self.on_unknown_head(context, kind, input, events)
    }

    fn on_unknown_head(
        &mut self,
        context: &mut H1Context,
        kind: RequestKind,
        input: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<usize, SessionError> {
        if self.partial.is_empty() {
            let blanks = self.take_blanks(input, SessionError::BadStatusLine)?;
            if blanks > 0 {
                return Ok(blanks);
            }
            self.section_end = HeadEnd::Line;
            self.has_begun = true;
        }
        let (taken, section) = self.take_section(context, input)?;
        let Some(section) = section else {
            return Ok(taken);
        };
        let (head, captured) = head::parse(section.bytes(), &context.limits, context.capture)?;
        if matches!(head.status, 300..=399) && context.redirect_location.is_none() {
            context.redirect_location = head::location(section.bytes(), &context.limits);
        }
        if head.status >= 200 {
            self.captured = captured;
            if !context.capture {
                context.cache.insert(section.bytes(), head);
            }
        }
        Ok(taken + self.on_head(kind, head, &input[taken..], events)?)
    }

    /// A head is complete and is followed by `body`. Consumes the body if all of it has arrived.
    #[inline]
    fn on_head(
        &mut self,
        kind: RequestKind,
        head: Head,
        body: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<usize, SessionError> {
        self.has_begun = true;
        if head.status < 200 {
            return self.on_interim_head(head);
        }
        self.status = head.status;
        if let Some(reader) = &mut self.reader {
            reader.begin(head.status, head.stream.unpacked());
        }
        self.reusable = head.persistent;
        let is_tunnel = kind == RequestKind::Connect && head.status < 300;
        if is_tunnel {
            self.reusable = false;
        }
        if is_tunnel || kind == RequestKind::Head || matches!(head.status, 204 | 304) {
            self.finish(events);
            return Ok(0);
        }
        match head.framing? {
            Framing::Length(length)
                if length <= body.len() as u64
                    && self.captured.is_none()
                    && self.reader.is_none() =>
            {
                self.bytes += length;
                self.finish(events);
                // It is at most `body.len()`.
                return Ok(usize::try_from(length).unwrap_or(body.len()));
            }
            Framing::Length(0) => self.finish(events),
            Framing::Length(length) => self.state = DecoderState::Length(length),
            Framing::Chunked => self.state = DecoderState::Chunked(Chunked::new()),
            Framing::Open => {
                self.reusable = false;
                self.state = DecoderState::UntilClose;
            }
        }
        Ok(0)
    }

    fn on_interim_head(&mut self, head: Head) -> Result<usize, SessionError> {
        if head.status == 101 {
            return Err(SessionError::UnexpectedUpgrade);
        }
        self.interim += 1;
        self.blanks = 0;
        if self.interim > INTERIM_MAX {
            Err(SessionError::TooManyInterim)
        } else {
            Ok(0)
        }
    }

    fn on_body_bytes(
        &mut self,
        context: &mut H1Context,
        input: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<usize, SessionError> {
        match self.state {
            DecoderState::Length(remaining) => {
                let taken = usize::try_from(remaining).map_or(input.len(), |n| n.min(input.len()));
                self.take_content(context, &input[..taken])?;
                self.bytes += taken as u64;
                match remaining - taken as u64 {
                    0 => self.finish(events),
                    remaining => self.state = DecoderState::Length(remaining),
                }
                Ok(taken)
            }
            DecoderState::Chunked(decoder) => self.on_chunked_bytes(context, decoder, input),
            DecoderState::Trailers => self.on_trailer_bytes(context, input, events),
            DecoderState::UntilClose => {
                self.take_content(context, input)?;
                self.bytes += input.len() as u64;
                Ok(input.len())
            }
            DecoderState::Head | DecoderState::Over => self.on_idle_bytes(input),
        }
    }

    fn on_chunked_bytes(
        &mut self,
        context: &H1Context,
        mut decoder: Chunked,
        input: &[u8],
    ) -> Result<usize, SessionError> {
        let (taken, part) = decoder.advance(input)?;
        self.bytes += taken as u64;
        if part == ChunkPart::Data {
            self.take_content(context, &input[..taken])?;
            if decoder.data_bytes() == 0
                && let Some(reader) = &mut self.reader
            {
                reader.end_chunk();
            }
        }
        self.state = if part == ChunkPart::LastChunk {
            self.section_end = HeadEnd::LineStart;
            DecoderState::Trailers
        } else {
            DecoderState::Chunked(decoder)
        };
        Ok(taken)
    }

    fn on_trailer_bytes(
        &mut self,
        context: &H1Context,
        input: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<usize, SessionError> {
        let (taken, section) = self.take_section(context, input)?;
        if let Some(section) = section {
            // Nearly always, the section is only the empty line.
            if section.bytes().len() > 2 {
                let captured = self.captured.as_deref_mut();
                head::parse_trailers(section.bytes(), &context.limits, captured)?;
            }
            self.finish(events);
        }
        Ok(taken)
    }

    /// Handles bytes without an outstanding request. An empty line does no harm.
    fn on_idle_bytes(&mut self, input: &[u8]) -> Result<usize, SessionError> {
        match self.take_blanks(input, SessionError::Unsolicited)? {
            0 => Err(SessionError::Unsolicited),
            taken => Ok(taken),
        }
    }

    /// Consumes CR and LF at the start of `input`.
    fn take_blanks(&mut self, input: &[u8], excess: SessionError) -> Result<usize, SessionError> {
        let blanks = input
            .iter()
            .take_while(|byte| matches!(byte, b'\r' | b'\n'))
            .count();
        let total = blanks + usize::from(self.blanks);
        if total > usize::from(BLANKS_MAX) {
            return Err(excess);
        }
        self.blanks = u8::try_from(total).unwrap_or(BLANKS_MAX);
        self.bytes += blanks as u64;
        Ok(blanks)
    }

    /// Consumes bytes of a header section up to its end. Returns the section when it is complete.
    fn take_section<'i>(
        &mut self,
        context: &H1Context,
        input: &'i [u8],
    ) -> Result<(usize, Option<Section<'i>>), SessionError> {
        let had = self.partial.len();
        let room = context.limits.head_bytes_max.saturating_sub(had);
        let window = &input[..input.len().min(room)];
        let end = self.section_end.find(window);
        let taken = end.unwrap_or(window.len());
        self.bytes += taken as u64;
        if had == 0 && end.is_some() {
            return Ok((taken, Some(Section::Whole(&window[..taken]))));
        }
        self.partial.extend_from_slice(&window[..taken]);
        // Twice the length of what is checked. Later pieces need no check.
        if self.state == DecoderState::Head && had < 16 {
            head::check_start(&self.partial)?;
        }
        if end.is_some() {
            return Ok((
                taken,
                Some(Section::Joined(std::mem::take(&mut self.partial))),
            ));
        }
        if self.partial.len() >= context.limits.head_bytes_max {
            return Err(SessionError::HeaderTooLarge);
        }
        Ok((taken, None))
    }

    fn take_content(&mut self, context: &H1Context, content: &[u8]) -> Result<(), SessionError> {
        if let Some(captured) = self.captured.as_mut().filter(|_| !context.heads_only) {
            if captured.body.len() + content.len() > context.limits.captured_body_bytes_max {
                return Err(SessionError::BodyTooLargeToCapture);
            }
            captured.body.extend_from_slice(content);
        }
        if let Some(reader) = &mut self.reader {
            reader.content(content);
        }
        Ok(())
    }

    /// Reports what was found in the content so far.
    #[inline]
    fn report_events(&mut self, events: &mut Vec<Event>) {
        if let Some(reader) = &mut self.reader
            && let Some((exchange, _)) = self.outstanding.front()
        {
            let found = reader.take_found();
            if found.events > 0 {
                events.push(Event::Streamed(exchange, found));
            }
        }
    }

    #[cold]
    fn finish_stream(&mut self, events: &mut Vec<Event>) {
        let total = self.reader.as_mut().and_then(|it| it.finish());
        self.report_events(events);
        if let Some((exchange, _)) = self.outstanding.front() {
            let said = self.reader.iter_mut().flat_map(|it| it.take_said());
            events.extend(said.map(|said| Event::Said(exchange, said)));
            events.extend(total.map(|total| Event::StreamEnded(exchange, total)));
        }
    }

    #[inline]
    fn finish(&mut self, events: &mut Vec<Event>) {
        if self.reader.is_some() {
            self.finish_stream(events);
        }
        let response = Response {
            status: self.status,
            reusable: self.reusable,
            bytes: std::mem::take(&mut self.bytes),
            captured: self.captured.take(),
        };
        if let Some(exchange) = self.outstanding.pop() {
            events.push(Event::Finished(exchange, response));
        }
        self.state = if self.reusable {
            DecoderState::Head
        } else {
            DecoderState::Over
        };
        self.await_response();
    }

    #[inline]
    fn await_response(&mut self) {
        self.has_begun = false;
        self.has_said_began = false;
        self.interim = 0;
        self.blanks = 0;
    }
}

/// A complete header section. If it arrived in one piece, it borrows from the input.
enum Section<'i> {
    Whole(&'i [u8]),
    Joined(Vec<u8>),
}

impl Section<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Joined(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_small_enough_for_ten_thousand_connections() {
        let size = size_of::<H1>();
        println!("size_of::<H1>() = {size}");
        assert!(size <= 128, "{size}");
        assert!(size_of::<Event>() <= 32);
    }

    #[test]
    fn an_idle_session_holds_no_memory_for_heads() {
        let mut context = H1Context::default();
        let mut session = H1::new(&mut context);
        let (mut output, mut events) = (Vec::new(), Vec::new());
        session.outstanding.push(ExchangeId(0), RequestKind::Plain);
        for piece in [
            b"HTTP/1.1 200 OK\r\nTransfer-".as_slice(),
            b"Encoding: chunked\r\n\r\n0\r\nA: b",
            b"\r\n\r\n",
        ] {
            session
                .receive(&mut context, piece, &mut output, &mut events)
                .expect("the response is good");
        }
        assert_eq!(events.len(), 2);
        assert_eq!(session.partial.capacity(), 0);
    }
}
