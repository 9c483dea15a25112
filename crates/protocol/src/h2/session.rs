//! The client's side of an HTTP/2 connection (RFC 9113): many exchanges at a time.

use super::StreamId;
use super::error::{ErrorCode, Goaway, Violation, malformed, protocol_error};
use super::flow::{ReceiveWindow, SendWindow};
use super::frame::{Data, Entries, Frame};
use super::head::{Fault, Head};
use super::heads::{HeadDecoder, Heads};
use super::hpack::Limits;
use super::hpack::encode::TableSize;
use super::prepared::{Prepared, prepare};
use super::reader::{Reader, SimpleFrame};
use super::settings::{Settings, id};
use super::streams::{Body, Stream, Streams};
use super::{PREFACE, grpc, writer};
use crate::request::RequestText;
use crate::{
    Event, ExchangeId, Failure, RequestKind, Requests, Response, Session, SessionError,
    StreamReader, StreamSpec,
};
use std::collections::VecDeque;
use std::rc::Rc;

/// What this end allows: no pushes, and windows that no response fills, as h2load does.
const OURS: Settings = Settings {
    enable_push: false,
    initial_window_size: WINDOW,
    ..Settings::INITIAL
};
const WINDOW: u32 = (1 << 30) - 1;

/// Interim responses before one final response, as for HTTP/1.
const INTERIM_MAX: u8 = 64;

/// Streams that were cancelled, of which the server may still send something.
const CANCELLED_MAX: usize = 128;

/// Bytes of bodies that are appended to the output before the kernel has taken them.
const BODY_BYTES_MAX: usize = 256 * 1024;

/// Replies to PING and SETTINGS that may wait for the kernel. Servers send a few PINGs in a second;
/// more replies than this mean that the server sends faster than it reads, or faster than any
/// server has a reason to. They are at most 560 kB.
const UNSENT_REPLIES_MAX: u32 = 32 * 1024;

/// What frames that move nothing forward may weigh between two pieces of messages. A server that
/// reads its replies could go on forever.
const IDLE_WEIGHT_MAX: u32 = 1 << 20;

/// The weight of a frame that is replied to. Servers measure the time of the connection with PING.
const REPLIED_WEIGHT: u32 = 1;

/// The weight of any other frame that moves nothing forward: 65,536 of them are a flood, as with
/// HTTP/3.
const IGNORED_WEIGHT: u32 = 16;

/// The last stream that a client can open.
const LAST_STREAM: StreamId = (1 << 31) - 1;

/// Numbers that are left when a connection is given up. More than can be used, or skipped, between
/// two calls of `receive`.
const STREAMS_RESERVED: u32 = 1 << 24;

/// What all HTTP/2 sessions of a worker share.
#[derive(Debug)]
pub struct H2Context {
    heads: Heads<Rc<Head>>,
    settings: ClientSettings,
    /// Captured responses have no body.
    heads_only: bool,
    stream: Option<StreamSpec>,
    redirect_location: Option<String>,
    /// The largest number of streams that a server has allowed on a connection.
    largest_limit: Option<u32>,
}

/// The choices of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSettings {
    /// Streams that may be open at a time, at least 1.
    pub streams_max: u32,
    /// The scheme of the requests, `https` or `http`.
    pub scheme: &'static str,
    /// Whether requests are unary gRPC calls, whose trailers say how they have ended.
    pub calls: bool,
    /// Whether responses are captured as a whole ([`Response::captured`]).
    pub capture: bool,
    /// Bytes of a captured body.
    pub captured_body_bytes_max: usize,
}

impl H2Context {
    /// The context of one worker's sessions. It is made in the worker's thread.
    #[must_use]
    pub fn new(settings: ClientSettings) -> Self {
        Self {
            heads: Heads::new(Limits::default()),
            settings,
            heads_only: false,
            stream: None,
            redirect_location: None,
            largest_limit: None,
        }
    }

    /// Captures responses without their bodies.
    #[must_use]
    pub fn with_heads_only(mut self) -> Self {
        (self.settings.capture, self.heads_only) = (true, true);
        self
    }

    /// Splits the bodies of responses into events.
    #[must_use]
    pub fn with_stream(mut self, stream: Option<StreamSpec>) -> Self {
        self.stream = stream;
        self
    }
}

/// The client's side of an HTTP/2 connection, with prior knowledge or inside TLS.
///
/// - Requests are sent once the server's SETTINGS have arrived, so that its limit of streams is
///   known.
/// - A stream error of the server resets the stream. Any other error ends the connection with
///   GOAWAY.
/// - After GOAWAY no stream is opened. Streams that the server has not processed fail with
///   [`SessionError::GoawayUnprocessed`]; the others go on.
#[derive(Debug)]
pub struct H2 {
    reader: Reader,
    connection: Connection,
}

/// Everything but the reader, which lends the frames.
#[derive(Debug)]
struct Connection {
    decoder: HeadDecoder<Rc<Head>>,
    streams: Streams,
    streams_max: u32,
    peer: Settings,
    table_size: TableSize,
    send_window: SendWindow,
    receive_window: ReceiveWindow,
    /// The stream that is opened next.
    next_stream: StreamId,
    /// The first two bytes of the server.
    beginning: Vec<u8>,
    /// The server's SETTINGS have arrived.
    is_ready: bool,
    is_draining: bool,
    idle: Idle,
    /// The server has ended the connection with this error.
    failure: Option<SessionError>,
    /// The connection has begun, and neither side has ended it.
    is_open: bool,
    /// How much of the bodies may be appended to the output.
    body_bytes: usize,
    /// Streams whose request is waiting for a window or for the kernel.
    blocked: VecDeque<StreamId>,
    /// More may be sent than before.
    has_grown: bool,
    cancelled: VecDeque<StreamId>,
    /// Streams whose response has begun within the current call.
    begun: Vec<StreamId>,
    /// Streams of which events have arrived within the current call; a number may be in it twice.
    streamed: Vec<StreamId>,
    /// The stream of a DATA frame that is split into events and may not be complete.
    chunk: Option<StreamId>,
    /// Bytes read since the last frame.
    unassigned_bytes: u64,
}

/// What the server has sent that moves nothing forward (RFC 9113 section 10.5).
#[derive(Debug, Clone, Copy, Default)]
struct Idle {
    /// Replies to it that the kernel may not have taken.
    unsent_replies: u32,
    /// The weight of all such frames since the last piece of a message.
    weight: u32,
}

impl Idle {
    /// Notes such a frame. Too many are a flood.
    #[cold]
    fn add(&mut self, weight: u32) -> Result<(), Violation> {
        self.weight = self.weight.saturating_add(weight);
        if self.unsent_replies <= UNSENT_REPLIES_MAX && self.weight <= IDLE_WEIGHT_MAX {
            return Ok(());
        }
        let reason = "too many frames that move nothing forward";
        Err(Violation::connection(ErrorCode::ENHANCE_YOUR_CALM, reason))
    }

    /// Notes a frame that is replied to.
    fn add_replied(&mut self) -> Result<(), Violation> {
        self.unsent_replies += 1;
        self.add(REPLIED_WEIGHT)
    }

    /// A piece of a message was received or sent.
    #[inline]
    fn end(&mut self) {
        self.weight = 0;
    }
}

/// HEADERS without their block.
struct ReceivedHead {
    stream: StreamId,
    end_stream: bool,
    /// Bytes of the frames.
    bytes: u64,
}

impl Session for H2 {
    type Context = H2Context;
    type Prepared = Prepared;

    const SENDS_TEXT: bool = false;
    const TRANSPARENT: bool = false;

    fn new(context: &mut H2Context) -> Self {
        Self {
            reader: Reader::new(Limits::default().list_bytes_max),
            connection: Connection::new(context),
        }
    }

    fn prepare(context: &mut H2Context, request: &RequestText<'_>) -> Prepared {
        prepare(request, context.settings.scheme, context.settings.calls)
    }

    fn begin(&mut self, context: &mut H2Context, output: &mut Vec<u8>) -> Result<(), SessionError> {
        *self = Self::new(context);
        self.connection.is_open = true;
        output.extend_from_slice(PREFACE);
        writer::settings(OURS.entries_since(&Settings::INITIAL), output);
        if let Some(increment) = self.connection.receive_window.enlarge(WINDOW) {
            writer::window_update(0, increment, output);
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        self.connection.is_ready
    }

    #[inline]
    fn capacity(&self) -> u32 {
        let connection = &self.connection;
        if !connection.is_ready || connection.is_draining {
            return 0;
        }
        let streams_max = connection
            .streams_max
            .min(connection.peer.max_concurrent_streams);
        streams_max.saturating_sub(connection.streams.open())
    }

    fn start(
        &mut self,
        _context: &mut H2Context,
        exchange: ExchangeId,
        requests: Requests<'_, Prepared>,
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        for request in requests.prepared {
            self.connection.start(exchange, request, output);
        }
        Ok(())
    }

    fn cancel(
        &mut self,
        _context: &mut H2Context,
        exchange: ExchangeId,
        output: &mut Vec<u8>,
    ) -> Result<bool, SessionError> {
        let stream = self.connection.streams.of_exchange(exchange);
        if let Some(stream) = stream {
            self.connection.reset(stream, ErrorCode::CANCEL, output);
        }
        Ok(stream.is_some())
    }

    fn resume(
        &mut self,
        _context: &mut H2Context,
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        self.connection.idle.unsent_replies = 0;
        if self.connection.body_bytes < BODY_BYTES_MAX {
            self.connection.body_bytes = BODY_BYTES_MAX;
            self.connection.send_blocked(output);
        }
        Ok(())
    }

    /// Streams are not reset: the server learns from GOAWAY that nobody reads its responses.
    fn close(&mut self, _context: &mut H2Context, output: &mut Vec<u8>) {
        if std::mem::take(&mut self.connection.is_open) {
            writer::goaway(0, ErrorCode::NO_ERROR, b"", output);
        }
    }

    fn receive(
        &mut self,
        context: &mut H2Context,
        input: &[u8],
        output: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError> {
        let Self { reader, connection } = self;
        if !connection.is_ready {
            connection.check_beginning(input)?;
        }
        let mut rest = input;
        loop {
            let before = rest.len();
            let simple = reader.next_simple(&mut rest);
            let handled = if let Some(frame) = simple {
                connection.unassigned_bytes += (before - rest.len()) as u64;
                connection.on_simple_frame(context, frame, output, events)
            } else {
                let next = reader.next(&mut rest);
                connection.unassigned_bytes += (before - rest.len()) as u64;
                match next {
                    Ok(None) => break,
                    Ok(Some(frame)) => connection.on_frame(context, frame, output, events),
                    Err(violation) => Err(violation),
                }
            };
            if let Err(violation) = handled {
                connection.on_violation(violation, output, events)?;
            }
            if connection.chunk.is_some() && reader.is_between_frames() {
                connection.end_chunk();
            }
        }
        connection.tell_begun(events);
        connection.tell_streamed(events);
        connection.drain_if_used_up(events);
        if std::mem::take(&mut connection.has_grown) {
            connection.send_blocked(output);
        }
        match connection.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    fn end(
        &mut self,
        _context: &mut H2Context,
        _events: &mut Vec<Event>,
    ) -> Result<(), SessionError> {
        let connection = &mut self.connection;
        connection.is_open = false;
        if !connection.is_ready {
            return Err(SessionError::ClosedEarly);
        }
        match connection.streams.iter().any(|stream| stream.bytes > 0) {
            true => Err(SessionError::Truncated),
            false if connection.streams.open() > 0 => Err(SessionError::ClosedEarly),
            false => Ok(()),
        }
    }

    fn awaits(&self) -> Option<&'static str> {
        let connection = &self.connection;
        if !connection.is_ready {
            return Some("the server sent no SETTINGS (HTTP/2)");
        }
        let allows_none = connection.peer.max_concurrent_streams == 0;
        let is_stuck = allows_none && connection.streams.open() == 0 && !connection.is_draining;
        is_stuck.then_some("the server allowed no streams (SETTINGS_MAX_CONCURRENT_STREAMS of 0)")
    }

    fn partial_bytes(&self) -> u64 {
        let streams = self.connection.streams.iter();
        streams.map(|stream| stream.bytes).sum()
    }

    fn redirect_location(context: &H2Context) -> Option<&str> {
        context.redirect_location.as_deref()
    }

    fn streams_limit(context: &H2Context) -> Option<u32> {
        let wanted = context.settings.streams_max;
        context.largest_limit.filter(|limit| *limit < wanted)
    }
}

impl Connection {
    fn new(context: &H2Context) -> Self {
        Self {
            decoder: HeadDecoder::new(&context.heads),
            streams: Streams::new(context.settings.streams_max),
            streams_max: context.settings.streams_max,
            peer: Settings::INITIAL,
            table_size: TableSize::new(),
            send_window: SendWindow::new(Settings::INITIAL.initial_window_size),
            receive_window: ReceiveWindow::new(Settings::INITIAL.initial_window_size),
            next_stream: 1,
            beginning: Vec::new(),
            is_ready: false,
            is_draining: false,
            idle: Idle::default(),
            failure: None,
            is_open: false,
            body_bytes: BODY_BYTES_MAX,
            blocked: VecDeque::new(),
            has_grown: false,
            cancelled: VecDeque::new(),
            begun: Vec::new(),
            streamed: Vec::new(),
            chunk: None,
            unassigned_bytes: 0,
        }
    }

    /// A server of another protocol is recognized by its first two bytes.
    fn check_beginning(&mut self, input: &[u8]) -> Result<(), SessionError> {
        let missing = 2 - self.beginning.len();
        self.beginning.extend(input.iter().take(missing));
        match self.beginning.as_slice() {
            b"HT" => Err(SessionError::NotHttp2),
            [0x15, 0x03] => Err(SessionError::TlsOnPlain),
            _ => Ok(()),
        }
    }

    fn start(&mut self, exchange: ExchangeId, request: &Prepared, output: &mut Vec<u8>) {
        let (id, stream) = self.streams.open_from(self.next_stream);
        stream.begin(
            exchange,
            request,
            SendWindow::new(self.peer.initial_window_size),
            ReceiveWindow::new(OURS.initial_window_size),
        );
        self.next_stream = id + 2;
        let has_body = request.body.is_some();
        let frame_size_max = self.peer.max_frame_size;
        let with_update = self.table_size.begin_block(&request.block);
        let block = with_update.as_deref().unwrap_or(&request.block);
        writer::headers(id, block, !has_body, frame_size_max, output);
        if has_body && !self.send_body(id, output) {
            self.blocked.push_back(id);
        }
    }

    /// Sends as much of a request's body as the windows and `body_bytes` allow. Returns whether
    /// that was all of it.
    fn send_body(&mut self, id: StreamId, output: &mut Vec<u8>) -> bool {
        let Some(stream) = self.streams.get_mut(id) else {
            return true;
        };
        while let Some(Body { bytes, sent }) = &mut stream.body {
            let rest = &bytes[*sent..];
            let window = self
                .send_window
                .available()
                .min(stream.send_window.available());
            let length = rest
                .len()
                .min(window.min(self.peer.max_frame_size) as usize)
                .min(self.body_bytes);
            let is_last = length == rest.len();
            if length == 0 && !is_last {
                return false;
            }
            writer::data(id, &rest[..length], is_last, output);
            self.send_window.consume(length as u32);
            stream.send_window.consume(length as u32);
            self.body_bytes -= length;
            *sent += length;
            self.idle.end();
            if is_last {
                stream.body = None;
            }
        }
        true
    }

    /// Continues the bodies that were waiting, in turn.
    fn send_blocked(&mut self, output: &mut Vec<u8>) {
        for _ in 0..self.blocked.len() {
            // Those that have not had their turn stay in front.
            if self.send_window.available() == 0 || self.body_bytes == 0 {
                return;
            }
            if let Some(id) = self.blocked.pop_front()
                && !self.send_body(id, output)
            {
                self.blocked.push_back(id);
            }
        }
    }

    #[inline]
    fn on_simple_frame(
        &mut self,
        context: &mut H2Context,
        frame: SimpleFrame<'_>,
        output: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        let bytes = std::mem::take(&mut self.unassigned_bytes);
        if !self.is_ready {
            return Err(first_frame_is_not_settings());
        }
        let SimpleFrame {
            stream,
            is_data,
            end_stream,
            payload,
        } = frame;
        if is_data {
            let data = Data {
                stream,
                content: payload,
                padding: 0,
                end_stream,
            };
            return self.on_data(context, &data, bytes, output, events);
        }
        let received = ReceivedHead {
            stream,
            end_stream,
            bytes,
        };
        self.on_headers(context, &received, payload, output, events)
    }

    fn on_frame(
        &mut self,
        context: &mut H2Context,
        frame: Frame<'_>,
        output: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        let bytes = std::mem::take(&mut self.unassigned_bytes);
        if !self.is_ready && !matches!(frame, Frame::Settings(_) | Frame::Unknown) {
            return Err(first_frame_is_not_settings());
        }
        match frame {
            Frame::Data(data) => self.on_data(context, &data, bytes, output, events),
            Frame::Headers(headers) => {
                let received = ReceivedHead {
                    stream: headers.stream,
                    end_stream: headers.end_stream,
                    bytes,
                };
                self.on_headers(context, &received, headers.block, output, events)
            }
            Frame::Reset { stream, code } => self.on_reset(stream, code, events),
            Frame::Settings(entries) => self.on_settings(context, entries, output),
            Frame::Ping { ack: false, opaque } => {
                self.idle.add_replied()?;
                writer::ping(opaque, true, output);
                Ok(())
            }
            Frame::Goaway {
                last_stream,
                code,
                debug,
            } => {
                self.idle.add(IGNORED_WEIGHT)?;
                self.on_goaway(last_stream, Goaway::new(code, debug), events);
                Ok(())
            }
            Frame::WindowUpdate { stream, increment } => self.on_window_update(stream, increment),
            Frame::PushPromise(_) => Err(protocol_error("PUSH_PROMISE, which was disabled")),
            Frame::Priority { .. }
            | Frame::SettingsAck
            | Frame::Ping { ack: true, .. }
            | Frame::Continuation { .. } => self.idle.add(IGNORED_WEIGHT),
            Frame::Unknown => {
                // As its payload, which has not been read, they count for the next frame.
                self.unassigned_bytes = bytes;
                self.idle.add(IGNORED_WEIGHT)
            }
        }
    }

    #[inline]
    fn on_headers(
        &mut self,
        context: &mut H2Context,
        received: &ReceivedHead,
        block: &[u8],
        output: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        let head = self
            .decoder
            .read(&mut context.heads, block, |fields, effect| {
                Rc::new(Head::read(fields, effect, context.settings.capture))
            })?;
        self.on_head(context, received, &head, output, events)
    }

    #[inline]
    fn on_data(
        &mut self,
        context: &H2Context,
        data: &Data<'_>,
        bytes: u64,
        output: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        let flow_bytes = data.flow_bytes();
        self.receive_window.receive(0, flow_bytes)?;
        if let Some(increment) = self.receive_window.release(flow_bytes) {
            writer::window_update(0, increment, output);
        }
        let Some(stream) = self.streams.get_mut(data.stream) else {
            if data.content.is_empty() && !data.end_stream {
                self.idle.add(IGNORED_WEIGHT)?;
            }
            return self.check_closed(data.stream);
        };
        stream.bytes += bytes;
        stream.receive_window.receive(data.stream, flow_bytes)?;
        if !stream.has_head {
            return Err(malformed(data.stream, "DATA before HEADERS"));
        }
        stream.content_bytes += data.content.len() as u64;
        if let Some(captured) = stream.captured.as_mut().filter(|_| !context.heads_only) {
            if captured.body.len() + data.content.len() > context.settings.captured_body_bytes_max {
                let error = SessionError::BodyTooLargeToCapture;
                self.give_up(data.stream, error, output, events);
                return Ok(());
            }
            captured.body.extend_from_slice(data.content);
        }
        if let Some(reader) = &mut stream.reader {
            reader.content(data.content);
            self.streamed.push(data.stream);
            self.chunk = Some(data.stream);
        }
        if data.end_stream {
            if context.settings.calls {
                self.fail_call(data.stream, None, output, events);
                return Ok(());
            }
            return self.finish(data.stream, output, events);
        }
        if data.content.is_empty() {
            self.idle.add(IGNORED_WEIGHT)?;
        } else {
            self.idle.end();
        }
        if let Some(increment) = stream.receive_window.release(flow_bytes) {
            writer::window_update(data.stream, increment, output);
        }
        Ok(())
    }

    fn on_head(
        &mut self,
        context: &mut H2Context,
        received: &ReceivedHead,
        head: &Head,
        output: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        let ReceivedHead {
            stream: id,
            end_stream,
            bytes,
        } = *received;
        let Some(stream) = self.streams.get_mut(id) else {
            return self.check_closed(id);
        };
        if stream.bytes == 0 && !end_stream {
            self.begun.push(id);
        }
        stream.bytes += bytes;
        match head.fault(stream.has_head, end_stream) {
            None => {}
            Some(Fault::Malformed(reason)) => return Err(malformed(id, reason)),
            Some(Fault::TooLarge(excess)) => {
                self.give_up(id, SessionError::of_excess(excess), output, events);
                return Ok(());
            }
        }
        if head.is_interim() {
            stream.interim += 1;
            if stream.interim > INTERIM_MAX {
                self.give_up(id, SessionError::TooManyInterim, output, events);
            }
            return Ok(());
        }
        let had_head = stream.has_head;
        stream.add_head(head, context.settings.capture);
        if let Some(spec) = &context.stream
            && !had_head
        {
            let make = || Box::new(StreamReader::new(spec));
            let reader = stream.reader.get_or_insert_with(make);
            reader.begin(stream.status, head.stream.meaning());
        }
        if context.redirect_location.is_none() {
            context.redirect_location.clone_from(&head.location);
        }
        if !end_stream {
            return Ok(());
        }
        if context.settings.calls && !head.has_succeeded() {
            self.fail_call(id, head.call.as_deref(), output, events);
            return Ok(());
        }
        self.finish(id, output, events)
    }

    /// The response to a gRPC call is complete, but the call has not succeeded.
    #[cold]
    fn fail_call(
        &mut self,
        id: StreamId,
        status: Option<&grpc::Status>,
        output: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        let error = match status {
            Some(status) => SessionError::Grpc(status.clone()),
            None => SessionError::GrpcNoStatus(stream.status),
        };
        self.idle.end();
        // The server has answered without reading the whole request.
        let is_unread = stream.body.is_some();
        self.fail(id, error, events);
        if is_unread {
            self.reset(id, ErrorCode::NO_ERROR, output);
        }
    }

    /// The response of a stream is complete.
    #[inline]
    fn finish(
        &mut self,
        id: StreamId,
        output: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(());
        };
        // A response to HEAD and a 304 have the length that they would have had (RFC 9110
        // section 8.6).
        let has_content = stream.kind != RequestKind::Head && stream.status != 304;
        if has_content
            && stream
                .content_length
                .is_some_and(|length| length != stream.content_bytes)
        {
            return Err(malformed(
                id,
                "content-length differs from the length of DATA",
            ));
        }
        let response = Response {
            status: stream.status,
            reusable: true,
            bytes: stream.bytes,
            captured: stream.captured.take(),
        };
        if stream.reader.is_some() {
            finish_stream(stream, events);
        }
        events.push(Event::Finished(stream.exchange, response));
        self.idle.end();
        if stream.body.is_some() {
            // The server has answered without reading the whole request.
            self.reset(id, ErrorCode::NO_ERROR, output);
        } else {
            self.streams.close(id);
        }
        Ok(())
    }

    fn on_reset(
        &mut self,
        id: StreamId,
        code: ErrorCode,
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        if self.is_idle(id) {
            return Err(protocol_error(
                "RST_STREAM for a stream that was not opened",
            ));
        }
        if self.streams.get_mut(id).is_none() {
            return self.idle.add(IGNORED_WEIGHT);
        }
        self.fail(id, SessionError::of_reset(code), events);
        Ok(())
    }

    fn on_settings(
        &mut self,
        context: &mut H2Context,
        entries: Entries<'_>,
        output: &mut Vec<u8>,
    ) -> Result<(), Violation> {
        let before = self.peer;
        for (id, value) in entries {
            self.peer.apply(id, value)?;
            if id == id::ENABLE_PUSH && value == 1 {
                return Err(protocol_error("SETTINGS_ENABLE_PUSH of a server"));
            }
            if id == id::HEADER_TABLE_SIZE {
                self.table_size.limit(value);
            }
        }
        let (old, new) = (before.initial_window_size, self.peer.initial_window_size);
        if old != new {
            self.streams
                .change_all(|stream| stream.send_window.change_initial(old, new))?;
            self.has_grown = true;
        }
        self.is_ready = true;
        let limit = Some(self.peer.max_concurrent_streams);
        context.largest_limit = context.largest_limit.max(limit);
        self.idle.add_replied()?;
        writer::settings_ack(output);
        Ok(())
    }

    /// A connection has 2^30 numbers for streams, and none is used twice.
    fn drain_if_used_up(&mut self, events: &mut Vec<Event>) {
        if self.next_stream > LAST_STREAM - STREAMS_RESERVED {
            self.drain(events);
        }
    }

    fn drain(&mut self, events: &mut Vec<Event>) {
        if !self.is_draining {
            self.is_draining = true;
            events.push(Event::Draining);
        }
    }

    fn on_goaway(&mut self, last_stream: StreamId, goaway: Goaway, events: &mut Vec<Event>) {
        self.drain(events);
        let unprocessed: Vec<StreamId> =
            self.streams.ids().filter(|id| *id > last_stream).collect();
        for id in unprocessed {
            self.remember_cancelled(id);
            self.fail(id, SessionError::GoawayUnprocessed, events);
        }
        if goaway.code != ErrorCode::NO_ERROR {
            self.failure = Some(SessionError::of_goaway(goaway));
        }
    }

    fn on_window_update(&mut self, id: StreamId, increment: u32) -> Result<(), Violation> {
        self.idle.add(IGNORED_WEIGHT)?;
        if id == 0 {
            self.send_window.grow(0, increment)?;
        } else if let Some(stream) = self.streams.get_mut(id) {
            stream.send_window.grow(id, increment)?;
        } else if self.is_idle(id) {
            return Err(protocol_error(
                "WINDOW_UPDATE for a stream that was not opened",
            ));
        }
        self.has_grown = true;
        Ok(())
    }

    /// Handles what the server did wrong: resets the stream, or ends the connection.
    fn on_violation(
        &mut self,
        violation: Violation,
        output: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError> {
        let error = SessionError::of_violation(&violation);
        match violation.stream {
            Some(id) if !self.is_idle(id) => {
                writer::reset(id, violation.code, output);
                self.remember_cancelled(id);
                self.fail(id, error, events);
                Ok(())
            }
            _ => {
                self.is_open = false;
                writer::goaway(0, violation.code, violation.reason.as_bytes(), output);
                // The server may have given a reason before.
                Err(self.failure.take().unwrap_or(error))
            }
        }
    }

    /// Ends the exchange of a stream, if it is open.
    fn fail(&mut self, id: StreamId, error: SessionError, events: &mut Vec<Event>) {
        if let Some(stream) = self.streams.get_mut(id) {
            tell_found(stream, events);
            let bytes = stream.bytes;
            let captured = stream.captured.take();
            let failure = Box::new(Failure {
                error,
                bytes,
                captured,
            });
            events.push(Event::Failed(stream.exchange, failure));
            self.streams.close(id);
        }
    }

    /// Ends the exchange of a stream whose response is not wanted any more.
    fn give_up(
        &mut self,
        id: StreamId,
        error: SessionError,
        output: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) {
        self.fail(id, error, events);
        self.reset(id, ErrorCode::CANCEL, output);
    }

    fn reset(&mut self, id: StreamId, code: ErrorCode, output: &mut Vec<u8>) {
        writer::reset(id, code, output);
        self.remember_cancelled(id);
        self.streams.close(id);
    }

    fn remember_cancelled(&mut self, id: StreamId) {
        if self.cancelled.len() == CANCELLED_MAX {
            self.cancelled.pop_front();
        }
        self.cancelled.push_back(id);
    }

    /// Whether a stream has never been opened. A client opens those with odd numbers.
    fn is_idle(&self, id: StreamId) -> bool {
        id >= self.next_stream || id.is_multiple_of(2)
    }

    /// A frame arrived on a stream that is not open. After a cancellation that is fine.
    fn check_closed(&self, id: StreamId) -> Result<(), Violation> {
        if self.is_idle(id) {
            return Err(protocol_error("a response to no request"));
        }
        if self.cancelled.contains(&id) {
            return Ok(());
        }
        Err(Violation::connection(
            ErrorCode::STREAM_CLOSED,
            "a frame on a closed stream",
        ))
    }

    fn tell_begun(&mut self, events: &mut Vec<Event>) {
        for id in self.begun.drain(..) {
            if let Some(stream) = self.streams.get_mut(id) {
                events.push(Event::Began(stream.exchange));
            }
        }
    }

    fn end_chunk(&mut self) {
        let stream = self.chunk.take().and_then(|id| self.streams.get_mut(id));
        if let Some(reader) = stream.and_then(|stream| stream.reader.as_mut()) {
            reader.end_chunk();
        }
    }

    /// Reports what was found in the current call in streams that are still open.
    fn tell_streamed(&mut self, events: &mut Vec<Event>) {
        for id in self.streamed.drain(..) {
            if let Some(stream) = self.streams.get_mut(id) {
                tell_found(stream, events);
            }
        }
    }
}

/// Reports the events of a stream that were not reported yet.
fn tell_found(stream: &mut Stream, events: &mut Vec<Event>) {
    let found = stream.reader.as_mut().map(|it| it.take_found());
    if let Some(found) = found.filter(|found| found.events > 0) {
        events.push(Event::Streamed(stream.exchange, found));
    }
}

/// The body of a stream that is read is complete.
#[cold]
fn finish_stream(stream: &mut Stream, events: &mut Vec<Event>) {
    let total = stream.reader.as_mut().and_then(|it| it.finish());
    tell_found(stream, events);
    let said = stream.reader.iter_mut().flat_map(|it| it.take_said());
    events.extend(said.map(|said| Event::Said(stream.exchange, said)));
    events.extend(total.map(|total| Event::StreamEnded(stream.exchange, total)));
}

#[cold]
fn first_frame_is_not_settings() -> Violation {
    protocol_error("the first frame is not SETTINGS")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_without_further_numbers_of_streams_drains() {
        let mut context = H2Context::new(ClientSettings {
            streams_max: 1,
            scheme: "http",
            calls: false,
            capture: false,
            captured_body_bytes_max: 0,
        });
        let mut session = H2::new(&mut context);
        let (mut input, mut output, mut events) = (Vec::new(), Vec::new(), Vec::new());
        writer::settings([], &mut input);
        for (next_stream, expected) in [(1 << 30, vec![]), (LAST_STREAM, vec![Event::Draining])] {
            session.connection.next_stream = next_stream;
            session
                .receive(&mut context, &input, &mut output, &mut events)
                .expect("SETTINGS are fine");
            assert_eq!(events, expected);
        }
        assert_eq!(session.capacity(), 0);
    }
}
