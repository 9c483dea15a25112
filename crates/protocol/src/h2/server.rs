//! The server's side of an HTTP/2 connection (RFC 9113): reads requests and writes responses. What
//! is sent when is its owner's decision.

use super::error::{ErrorCode, Violation, malformed, protocol_error};
use super::flow::{ReceiveWindow, SendWindow, WINDOW_MAX};
use super::frame::{Data, Entries, Frame, flag, kind};
use super::heads::{HeadDecoder, Heads};
use super::hpack::Limits;
use super::hpack::encode::TableSize;
use super::reader::Reader;
use super::request_head::RequestHead;
use super::settings::{Settings, id};
use super::{PREFACE, StreamId, writer};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Streams that were reset, on which the client may still send something.
const RESET_MAX: usize = 128;

/// SETTINGS that the client has not acknowledged. Later ones are not applied to what it sends.
const UNACKNOWLEDGED_MAX: usize = 16;

/// How many windows of streams the window of the connection has.
const WINDOWS_PER_CONNECTION: u32 = 16;

/// What a server allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerSettings {
    /// How many streams the client may open at a time: SETTINGS_MAX_CONCURRENT_STREAMS.
    pub streams_max: u32,
    /// The window of each stream, bytes: SETTINGS_INITIAL_WINDOW_SIZE, at most 2^31-1.
    pub window_bytes: u32,
}

/// What a frame means to the owner of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received<'a> {
    /// Nothing: the session has handled it.
    Handled,
    /// A request has begun.
    Request {
        /// The stream that the request has opened.
        stream: StreamId,
        /// The same for requests with the same header block, while the block is remembered.
        head: Rc<RequestHead>,
        /// It has no body.
        is_whole: bool,
    },
    /// A part of a request's body.
    Content {
        /// The stream of the request.
        stream: StreamId,
        /// The content without padding.
        content: &'a [u8],
        /// The request is complete.
        is_last: bool,
    },
    /// The stream has ended before its time: the client has reset it, or broken a rule on it.
    Reset {
        /// The stream that has ended.
        stream: StreamId,
    },
    /// Possibly more may be sent than before.
    Window,
}

/// The server's side of a connection, with prior knowledge or inside TLS.
///
/// A broken rule of a stream resets it. Any other broken rule ends the connection with GOAWAY.
#[derive(Debug)]
pub struct Server {
    reader: Reader,
    /// The rest of the client's preface that has not arrived yet.
    preface: &'static [u8],
    connection: Connection,
}

/// Everything but the reader, which lends the frames.
#[derive(Debug)]
struct Connection {
    decoder: HeadDecoder<Rc<RequestHead>>,
    /// What the client has acknowledged, and what it has not.
    ours: Settings,
    unacknowledged: VecDeque<Settings>,
    peer: Settings,
    has_settings: bool,
    table_size: TableSize,
    send_window: SendWindow,
    receive_window: ReceiveWindow,
    has_begun: bool,
    refills_windows: bool,
    answers_pings: bool,
    streams: BTreeMap<StreamId, Stream>,
    /// The last stream that the client has opened.
    last_stream: StreamId,
    /// GOAWAY was sent: later streams are ignored.
    goaway: Option<StreamId>,
    reset: VecDeque<StreamId>,
}

#[derive(Debug)]
struct Stream {
    send_window: SendWindow,
    receive_window: ReceiveWindow,
    /// Bytes of the body that content-length has announced and that have not arrived.
    content_left: Option<u64>,
    has_request: bool,
    has_response: bool,
}

impl Server {
    /// A session at the beginning of a connection. `heads` is for all connections of a thread.
    #[must_use]
    pub fn new(heads: &Heads<Rc<RequestHead>>) -> Self {
        let initial = Settings::INITIAL;
        Self {
            reader: Reader::new(Limits::default().list_bytes_max),
            preface: PREFACE,
            connection: Connection {
                decoder: HeadDecoder::new(heads),
                ours: initial,
                unacknowledged: VecDeque::new(),
                peer: initial,
                has_settings: false,
                table_size: TableSize::new(),
                send_window: SendWindow::new(initial.initial_window_size),
                receive_window: ReceiveWindow::new(initial.initial_window_size),
                has_begun: false,
                refills_windows: true,
                answers_pings: true,
                streams: BTreeMap::new(),
                last_stream: 0,
                goaway: None,
                reset: VecDeque::new(),
            },
        }
    }

    /// Appends what a server says first: SETTINGS, and the window of the connection. Without this
    /// the server neither announces nor acknowledges settings, which breaks the rules.
    pub fn begin(&mut self, settings: &ServerSettings, output: &mut Vec<u8>) {
        self.connection.has_begun = true;
        let window_bytes = settings.window_bytes.min(WINDOW_MAX);
        let ours = Settings {
            max_concurrent_streams: settings.streams_max,
            initial_window_size: window_bytes,
            ..Settings::INITIAL
        };
        writer::settings(ours.entries_since(&Settings::INITIAL), output);
        self.connection.unacknowledged.push_back(ours);
        let of_connection = window_bytes.saturating_mul(WINDOWS_PER_CONNECTION);
        if let Some(increment) = self.connection.receive_window.enlarge(of_connection) {
            writer::window_update(0, increment, output);
        }
    }

    /// Reads a frame from `input`. `None` means that the input is used up. Appends to `output` what
    /// must be sent.
    ///
    /// # Errors
    /// The client broke a rule. GOAWAY was appended, and the connection must be closed.
    pub fn next<'a, 'i: 'a>(
        &'a mut self,
        heads: &mut Heads<Rc<RequestHead>>,
        input: &mut &'i [u8],
        output: &mut Vec<u8>,
    ) -> Result<Option<Received<'a>>, Violation> {
        let Self {
            reader,
            preface,
            connection,
        } = self;
        if !preface.is_empty() {
            let length = preface.len().min(input.len());
            let (begin, rest) = input.split_at(length);
            if begin != &preface[..length] {
                let violation = protocol_error("no preface of HTTP/2");
                return connection.give_up(violation, output);
            }
            (*preface, *input) = (&preface[length..], rest);
        }
        let received = match reader.next(input) {
            Ok(None) => return Ok(None),
            Ok(Some(frame)) => connection.on_frame(heads, frame, output),
            Err(violation) => Err(violation),
        };
        match received {
            Ok(received) => Ok(Some(received)),
            Err(Violation {
                stream: Some(stream),
                code,
                ..
            }) if !connection.is_idle(stream) => {
                connection.reset(stream, code, output);
                Ok(Some(Received::Reset { stream }))
            }
            Err(violation) => connection.give_up(violation, output),
        }
    }

    /// Bytes of content that may be sent on a stream now.
    #[must_use]
    pub fn window(&self, stream: StreamId) -> u32 {
        let stream = self.connection.streams.get(&stream);
        stream.map_or(0, |stream| {
            let of_connection = self.connection.send_window.available();
            stream.send_window.available().min(of_connection)
        })
    }

    /// Whether something may be sent on a stream: the response is not complete, and nobody has
    /// reset the stream.
    #[must_use]
    pub fn is_open(&self, stream: StreamId) -> bool {
        let stream = self.connection.streams.get(&stream);
        stream.is_some_and(|stream| !stream.has_response)
    }

    /// The longest payload of a frame that the client accepts.
    #[must_use]
    pub fn frame_bytes_max(&self) -> u32 {
        self.connection.peer.max_frame_size
    }

    /// Sends a header block: a head, an interim head or trailers.
    pub fn send_head(
        &mut self,
        stream: StreamId,
        block: &[u8],
        ends_stream: bool,
        output: &mut Vec<u8>,
    ) {
        let connection = &mut self.connection;
        let frame_bytes_max = connection.peer.max_frame_size;
        let with_update = connection.table_size.begin_block(block);
        let block = with_update.as_deref().unwrap_or(block);
        writer::headers(stream, block, ends_stream, frame_bytes_max, output);
        if ends_stream {
            connection.end_response(stream);
        }
    }

    /// Sends one DATA frame with `length` bytes of content, which `write` appends: at most
    /// [`Self::window`] and [`Self::frame_bytes_max`].
    pub fn send_data(
        &mut self,
        stream: StreamId,
        length: u32,
        ends_stream: bool,
        output: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let connection = &mut self.connection;
        let flags = if ends_stream { flag::END_STREAM } else { 0 };
        writer::header(kind::DATA, flags, stream, length as usize, output);
        let begin = output.len();
        write(output);
        debug_assert_eq!(output.len() - begin, length as usize);
        if let Some(open) = connection.streams.get_mut(&stream) {
            connection.send_window.consume(length);
            open.send_window.consume(length);
        }
        if ends_stream {
            connection.end_response(stream);
        }
    }

    /// Ends a stream with RST_STREAM.
    pub fn reset(&mut self, stream: StreamId, code: ErrorCode, output: &mut Vec<u8>) {
        self.connection.reset(stream, code, output);
    }

    /// The last stream that the client has opened; 0 before the first.
    #[must_use]
    pub fn last_stream(&self) -> StreamId {
        self.connection.last_stream
    }

    /// Announces the end of the connection. Streams above `last_stream` are forgotten.
    pub fn send_goaway(&mut self, last_stream: StreamId, code: ErrorCode, output: &mut Vec<u8>) {
        writer::goaway(last_stream, code, b"", output);
        self.connection.goaway = Some(last_stream);
        self.connection.streams.split_off(&(last_stream + 1));
    }

    /// Changes one of the server's settings. A value that is not allowed is sent, and has no effect
    /// on what the server accepts.
    pub fn send_setting(&mut self, id: u16, value: u32, output: &mut Vec<u8>) {
        writer::settings([(id, value)], output);
        let connection = &mut self.connection;
        let mut ours = *connection.unacknowledged.back().unwrap_or(&connection.ours);
        let is_allowed = ours.apply(id, value).is_ok();
        if is_allowed && connection.unacknowledged.len() < UNACKNOWLEDGED_MAX {
            connection.unacknowledged.push_back(ours);
            let largest = connection.largest(|settings| settings.max_frame_size);
            self.reader.set_frame_size_max(largest);
        }
    }

    /// From now on, no window is refilled.
    pub fn stop_refilling_windows(&mut self) {
        self.connection.refills_windows = false;
    }

    /// From now on, PING is not answered.
    pub fn stop_answering_pings(&mut self) {
        self.connection.answers_pings = false;
    }
}

impl Connection {
    fn on_frame<'a>(
        &mut self,
        heads: &mut Heads<Rc<RequestHead>>,
        frame: Frame<'a>,
        output: &mut Vec<u8>,
    ) -> Result<Received<'a>, Violation> {
        if !self.has_settings && !matches!(frame, Frame::Settings(_) | Frame::Unknown) {
            return Err(protocol_error("the first frame is not SETTINGS"));
        }
        match frame {
            Frame::Headers(headers) => {
                let head = self.decoder.read(heads, headers.block, |fields, effect| {
                    Rc::new(RequestHead::read(fields, effect))
                })?;
                let depends_on_itself = headers
                    .priority
                    .is_some_and(|priority| priority.dependency == headers.stream);
                if depends_on_itself {
                    return Err(malformed(headers.stream, "a stream depends on itself"));
                }
                self.on_head(headers.stream, headers.end_stream, head, output)
            }
            Frame::Data(data) => self.on_data(&data, output),
            Frame::Reset { stream, .. } => {
                if self.is_idle(stream) {
                    return Err(protocol_error(
                        "RST_STREAM for a stream that was not opened",
                    ));
                }
                self.streams.remove(&stream);
                Ok(Received::Reset { stream })
            }
            Frame::Settings(entries) => self.on_settings(entries, output),
            Frame::SettingsAck => {
                self.on_settings_ack();
                Ok(Received::Handled)
            }
            Frame::Ping { ack: false, opaque } => {
                if self.answers_pings {
                    writer::ping(opaque, true, output);
                }
                Ok(Received::Handled)
            }
            Frame::WindowUpdate { stream, increment } => self.on_window_update(stream, increment),
            Frame::PushPromise(_) => Err(protocol_error("PUSH_PROMISE of a client")),
            Frame::Priority { stream, priority } if priority.dependency == stream => {
                Err(malformed(stream, "a stream depends on itself"))
            }
            Frame::Priority { .. }
            | Frame::Ping { ack: true, .. }
            | Frame::Goaway { .. }
            | Frame::Continuation { .. }
            | Frame::Unknown => Ok(Received::Handled),
        }
    }

    #[inline]
    fn on_head<'a>(
        &mut self,
        stream: StreamId,
        end_stream: bool,
        head: Rc<RequestHead>,
        output: &mut Vec<u8>,
    ) -> Result<Received<'a>, Violation> {
        if !self.is_idle(stream) {
            return self.on_trailers(stream, end_stream, &head);
        }
        if stream.is_multiple_of(2) {
            return Err(protocol_error("a stream of the client with an even number"));
        }
        self.last_stream = stream;
        if self.goaway.is_some() {
            return Ok(Received::Handled);
        }
        if let Some(reason) = head.fault() {
            return Err(malformed(stream, reason));
        }
        if self.streams.len() >= self.streams_max() {
            self.reset(stream, ErrorCode::REFUSED_STREAM, output);
            return Ok(Received::Handled);
        }
        let content_left = head.content_length.filter(|_| head.method != "CONNECT");
        if end_stream && content_left.is_some_and(|length| length > 0) {
            return Err(wrong_length(stream));
        }
        self.streams.insert(
            stream,
            Stream {
                send_window: SendWindow::new(self.peer.initial_window_size),
                receive_window: ReceiveWindow::new(self.ours.initial_window_size),
                content_left,
                has_request: end_stream,
                has_response: false,
            },
        );
        Ok(Received::Request {
            stream,
            head,
            is_whole: end_stream,
        })
    }

    fn on_trailers<'a>(
        &mut self,
        id: StreamId,
        end_stream: bool,
        head: &RequestHead,
    ) -> Result<Received<'a>, Violation> {
        let Some(stream) = self.streams.get_mut(&id) else {
            return self.on_closed(id);
        };
        if stream.has_request {
            return Err(closed());
        }
        if let Some(reason) = head.fault_of_trailers() {
            return Err(malformed(id, reason));
        }
        if !end_stream {
            return Err(malformed(id, "trailers that do not end the stream"));
        }
        if stream.content_left.is_some_and(|left| left > 0) {
            return Err(wrong_length(id));
        }
        self.end_request(id);
        Ok(Received::Content {
            stream: id,
            content: &[],
            is_last: true,
        })
    }

    fn on_data<'a>(
        &mut self,
        data: &Data<'a>,
        output: &mut Vec<u8>,
    ) -> Result<Received<'a>, Violation> {
        let flow_bytes = data.flow_bytes();
        self.receive_window.receive(0, flow_bytes)?;
        if self.refills_windows
            && let Some(increment) = self.receive_window.release(flow_bytes)
        {
            writer::window_update(0, increment, output);
        }
        let Some(stream) = self.streams.get_mut(&data.stream) else {
            return self.on_closed(data.stream);
        };
        if stream.has_request {
            return Err(closed());
        }
        stream.receive_window.receive(data.stream, flow_bytes)?;
        if let Some(left) = &mut stream.content_left {
            *left = left
                .checked_sub(data.content.len() as u64)
                .filter(|left| *left == 0 || !data.end_stream)
                .ok_or_else(|| wrong_length(data.stream))?;
        }
        if data.end_stream {
            self.end_request(data.stream);
        } else if self.refills_windows
            && let Some(increment) = stream.receive_window.release(flow_bytes)
        {
            writer::window_update(data.stream, increment, output);
        }
        Ok(Received::Content {
            stream: data.stream,
            content: data.content,
            is_last: data.end_stream,
        })
    }

    fn on_settings<'a>(
        &mut self,
        entries: Entries<'_>,
        output: &mut Vec<u8>,
    ) -> Result<Received<'a>, Violation> {
        let before = self.peer;
        for (id, value) in entries {
            self.peer.apply(id, value)?;
            if id == id::HEADER_TABLE_SIZE {
                self.table_size.limit(value);
            }
        }
        let (old, new) = (before.initial_window_size, self.peer.initial_window_size);
        if old != new {
            for stream in self.streams.values_mut() {
                stream.send_window.change_initial(old, new)?;
            }
        }
        self.has_settings = true;
        if self.has_begun {
            writer::settings_ack(output);
        }
        Ok(Received::Window)
    }

    /// The oldest of our settings that were not acknowledged hold from now on.
    fn on_settings_ack(&mut self) {
        let Some(ours) = self.unacknowledged.pop_front() else {
            return;
        };
        for stream in self.streams.values_mut() {
            let change =
                i64::from(ours.initial_window_size) - i64::from(self.ours.initial_window_size);
            if change != 0 {
                stream
                    .receive_window
                    .change_initial(ours.initial_window_size);
            }
        }
        self.ours = ours;
    }

    fn on_window_update<'a>(
        &mut self,
        id: StreamId,
        increment: u32,
    ) -> Result<Received<'a>, Violation> {
        if id == 0 {
            self.send_window.grow(0, increment)?;
        } else if let Some(stream) = self.streams.get_mut(&id) {
            stream.send_window.grow(id, increment)?;
        } else if self.is_idle(id) {
            let reason = "WINDOW_UPDATE for a stream that was not opened";
            return Err(protocol_error(reason));
        }
        Ok(Received::Window)
    }

    /// A frame arrived on a stream that is not open. That is fine if the client could not know.
    fn on_closed<'a>(&self, id: StreamId) -> Result<Received<'a>, Violation> {
        if self.is_idle(id) {
            return Err(protocol_error("DATA for a stream that was not opened"));
        }
        if self.goaway.is_some() || self.reset.contains(&id) {
            Ok(Received::Handled)
        } else {
            Err(closed())
        }
    }

    /// Whether a stream was never opened. A client opens those with odd numbers.
    fn is_idle(&self, id: StreamId) -> bool {
        id > self.last_stream || id.is_multiple_of(2)
    }

    /// The largest value of a setting that the client may be keeping to.
    fn largest(&self, setting: impl Fn(&Settings) -> u32) -> u32 {
        let unacknowledged = self.unacknowledged.iter().map(&setting);
        unacknowledged.fold(setting(&self.ours), u32::max)
    }

    /// The limit of streams. It holds from the beginning, though the client may not know it yet:
    /// then its streams are refused.
    fn streams_max(&self) -> usize {
        let is_first = self.ours == Settings::INITIAL;
        let limit = match self.unacknowledged.front().filter(|_| is_first) {
            Some(first) => first.max_concurrent_streams,
            None => self.largest(|settings| settings.max_concurrent_streams),
        };
        limit as usize
    }

    fn end_request(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.has_request = true;
            if stream.has_response {
                self.streams.remove(&id);
            }
        }
    }

    fn end_response(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.has_response = true;
            if stream.has_request {
                self.streams.remove(&id);
            }
        }
    }

    fn reset(&mut self, id: StreamId, code: ErrorCode, output: &mut Vec<u8>) {
        writer::reset(id, code, output);
        self.streams.remove(&id);
        if self.reset.len() == RESET_MAX {
            self.reset.pop_front();
        }
        self.reset.push_back(id);
    }

    #[cold]
    fn give_up<T>(&mut self, violation: Violation, output: &mut Vec<u8>) -> Result<T, Violation> {
        let reason = violation.reason.as_bytes();
        writer::goaway(self.last_stream, violation.code, reason, output);
        Err(violation)
    }
}

#[cold]
fn wrong_length(stream: StreamId) -> Violation {
    malformed(stream, "content-length differs from the length of DATA")
}

#[cold]
fn closed() -> Violation {
    Violation::connection(ErrorCode::STREAM_CLOSED, "a frame on a closed stream")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failing step fails the test")]
mod tests {
    use super::super::hpack::encode::{Literal, field};
    use super::*;

    #[test]
    fn more_data_than_the_window_of_the_connection_is_goaway() {
        let mut heads = Heads::new(Limits::default());
        let mut server = Server::new(&heads);
        let mut output = Vec::new();
        let settings = ServerSettings {
            streams_max: 1,
            window_bytes: 65_535,
        };
        server.begin(&settings, &mut output);
        server.stop_refilling_windows();

        let mut block = Vec::new();
        for (name, value) in [(":method", "POST"), (":scheme", "http"), (":path", "/")] {
            field(
                name.as_bytes(),
                value.as_bytes(),
                Literal::Unindexed,
                &mut block,
            );
        }
        let mut input = PREFACE.to_vec();
        writer::settings([], &mut input);
        writer::headers(1, &block, false, 16_384, &mut input);
        // The window of the connection is that of 16 streams.
        for _ in 0..65 {
            writer::data(1, &[0; 16_384], false, &mut input);
        }
        let mut rest = input.as_slice();
        let mut next = || server.next(&mut heads, &mut rest, &mut output).map(|_| ());
        let violation = (0..100).find_map(|_| next().err()).unwrap();
        let mut goaway = Vec::new();
        let code = ErrorCode::FLOW_CONTROL_ERROR;
        writer::goaway(1, code, violation.reason.as_bytes(), &mut goaway);
        assert!(output.ends_with(&goaway), "{violation:?}");
    }
}
