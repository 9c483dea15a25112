//! The server's side of an HTTP/3 connection (RFC 9114): reads requests and writes responses. What
//! is sent when is its owner's decision.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;

pub use quinn_proto::StreamId;
use quinn_proto::{
    Connection as Quic, ConnectionHandle, Dir, Event as QuicEvent, ReadError, StreamEvent, VarInt,
    WriteError,
};

use super::control::Control;
use super::endpoint::{Endpoint, Packet, ServerSettings};
use super::error::{ErrorCode, Violation};
use super::frame::{self, Frame, FrameReader, frame_type};
use super::grease::Grease;
use super::heads::Heads;
use super::peer_streams::{Peer, PeerStreams};
use super::response::Idle;
use super::streams::number;
use super::transport::{BATCH_DATAGRAMS_MAX, varint_of};
use crate::h2::RequestHead;

/// Bytes of a response that the session takes before QUIC does, for each stream.
const UNSENT_MAX: usize = 64 * 1024;

/// What an arrival means to the owner of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A request has begun.
    Request {
        /// The stream that the request has opened.
        stream: StreamId,
        /// The same for requests with the same field section, while the section is remembered.
        head: Rc<RequestHead>,
        /// It has no body.
        is_whole: bool,
    },
    /// A part of a request's body.
    Content {
        /// The stream of the request.
        stream: StreamId,
        /// The content.
        content: Vec<u8>,
        /// The request is complete.
        is_last: bool,
    },
    /// The stream has ended before its time: the client has reset it or does not want the response,
    /// or it has broken a rule on it.
    Reset {
        /// The stream that has ended.
        stream: StreamId,
    },
}

/// The server's side of a connection.
///
/// A broken rule of a stream resets it. Any other broken rule ends the connection.
#[derive(Debug)]
pub struct Server {
    handle: ConnectionHandle,
    quic: Box<Quic>,
    http: Http,
    /// How long after the handshake the client may open no streams, and how many afterwards.
    streams_delay_ns: u64,
    streams_max: u32,
    /// When it may open the first one, if it may not yet.
    streams_due_ns: Option<u64>,
    /// The endpoint counts its handshake.
    is_handshake_counted: bool,
    next_timeout_ns: Option<u64>,
}

/// Everything but QUIC.
#[derive(Debug)]
struct Http {
    streams: HashMap<StreamId, Stream>,
    section_bytes_max: usize,
    /// Frames, streams and codes of reserved types are sent too.
    grease: Option<Grease>,
    control: Control,
    peer: PeerStreams,
    idle: Idle,
    /// The stream after the last request.
    after_last: u64,
    /// GOAWAY was sent: requests from this stream on are rejected.
    goaway: Option<u64>,
    /// Streams with something to write.
    to_write: Vec<StreamId>,
    /// Streams with something to write byte by byte.
    split: VecDeque<StreamId>,
    /// STREAM frames that were sent when the last of these bytes was written.
    frames_at_byte: Option<u64>,
    /// Bytes of the frames of requests that have arrived, and of responses that the owner has sent.
    received_bytes: u64,
    sent_bytes: u64,
    is_established: bool,
    end: Option<End>,
}

/// How a connection has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The client has closed it, or nothing has come from it for too long.
    ByPeer,
    /// It was closed at this end.
    ByUs,
    /// The client broke a rule. The connection was closed.
    Violation(Violation),
}

/// A request and its response.
#[derive(Debug)]
struct Stream {
    reader: FrameReader,
    has_head: bool,
    has_trailers: bool,
    /// The client has ended its side.
    has_request: bool,
    /// Bytes of the body that content-length has announced and that have not arrived.
    content_left: Option<u64>,
    /// What QUIC has not taken.
    unsent: Vec<u8>,
    /// Bytes of `unsent` that it has taken.
    written: usize,
    /// It is in `to_write` or in `split`.
    is_to_write: bool,
    /// Each byte is sent in a frame of its own.
    is_split: bool,
    response: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// More may be sent.
    Open,
    /// All was sent, and a part of it is in `unsent`.
    Ended,
    /// All was passed to QUIC, and the client has not acknowledged all of it.
    Finished,
    /// The client has all of it.
    Delivered,
}

/// What ends a stream, or the connection.
enum Fault {
    Stream(ErrorCode),
    Connection(Violation),
}

impl From<Violation> for Fault {
    fn from(violation: Violation) -> Self {
        Self::Connection(violation)
    }
}

impl Server {
    pub(super) fn new(
        handle: ConnectionHandle,
        quic: Quic,
        settings: &ServerSettings,
        grease: Option<Grease>,
    ) -> Self {
        let section_bytes_max = settings.section_bytes_max;
        let control = Control::new(section_bytes_max, grease.as_ref());
        Self {
            handle,
            streams_delay_ns: settings.streams_delay_ns,
            streams_max: settings.streams_max,
            streams_due_ns: None,
            is_handshake_counted: true,
            quic: Box::new(quic),
            http: Http {
                streams: HashMap::new(),
                section_bytes_max,
                control,
                grease,
                peer: PeerStreams::new(Peer::Client),
                idle: Idle::default(),
                after_last: 0,
                goaway: None,
                to_write: Vec::new(),
                split: VecDeque::new(),
                frames_at_byte: None,
                received_bytes: 0,
                sent_bytes: 0,
                is_established: false,
                end: None,
            },
            next_timeout_ns: None,
        }
    }

    pub(super) fn handle(&self) -> ConnectionHandle {
        self.handle
    }

    /// Takes a packet that belongs to this connection.
    pub fn receive(&mut self, packet: Packet) {
        self.quic.handle_event(packet.0);
    }

    /// Does what is due. Call it when [`Self::next_timeout_ns`] has come.
    pub fn handle_timeout(&mut self, endpoint: &Endpoint) {
        self.quic.handle_timeout(endpoint.now());
        let due_ns = self.streams_due_ns;
        if due_ns.is_some_and(|due_ns| due_ns <= endpoint.now_ns()) {
            self.streams_due_ns = None;
            let streams_max = VarInt::from_u32(self.streams_max);
            self.quic.set_max_concurrent_streams(Dir::Bi, streams_max);
        }
        self.note_timeout(endpoint);
    }

    /// When [`Self::handle_timeout`] must be called, as a time of [`Endpoint::at`]. `None` if
    /// nothing is due. It may change with every call.
    #[must_use]
    pub fn next_timeout_ns(&self) -> Option<u64> {
        self.next_timeout_ns
    }

    /// Appends to `received` what has arrived since the last call.
    pub fn process(
        &mut self,
        endpoint: &mut Endpoint,
        heads: &mut Heads<Rc<RequestHead>>,
        received: &mut Vec<Received>,
    ) {
        let Self {
            quic,
            http,
            streams_due_ns,
            ..
        } = self;
        endpoint.exchange_events(self.handle, quic);
        let mut handled = Ok(());
        while let Some(event) = quic.poll()
            && handled.is_ok()
        {
            match event {
                QuicEvent::Stream(event) => {
                    handled = http.on_stream_event(quic, heads, event, received);
                }
                QuicEvent::Connected => {
                    http.is_established = true;
                    if self.streams_delay_ns > 0 {
                        let due_ns = endpoint.now_ns().saturating_add(self.streams_delay_ns);
                        *streams_due_ns = Some(due_ns);
                    }
                    http.control.send(quic);
                    if let Some(grease) = &http.grease {
                        grease.open_stream(quic);
                    }
                }
                QuicEvent::ConnectionLost { .. } => {
                    http.end.get_or_insert(End::ByPeer);
                }
                QuicEvent::HandshakeDataReady
                | QuicEvent::DatagramReceived
                | QuicEvent::DatagramsUnblocked => {}
            }
        }
        if let Err(violation) = handled {
            http.end.get_or_insert(End::Violation(violation));
            let reason = violation.reason.as_bytes();
            quic.close(endpoint.now(), varint_of(violation.code), reason.into());
        }
        self.note_progress(endpoint);
    }

    /// What the endpoint and the owner must know after each step.
    fn note_progress(&mut self, endpoint: &mut Endpoint) {
        self.note_timeout(endpoint);
        let has_ended = self.http.is_established || self.quic.is_drained();
        if has_ended && std::mem::take(&mut self.is_handshake_counted) {
            endpoint.end_handshake();
        }
    }

    fn note_timeout(&mut self, endpoint: &Endpoint) {
        let next = self.quic.poll_timeout();
        let next_ns = next.map(|next| endpoint.ns_of(next));
        self.next_timeout_ns = [next_ns, self.streams_due_ns].into_iter().flatten().min();
    }

    /// Passes to QUIC what was sent, as far as it takes it. Returns whether a stream has room again
    /// that had none.
    pub fn write(&mut self) -> bool {
        let Self { quic, http, .. } = self;
        let mut has_room = false;
        for id in std::mem::take(&mut http.to_write) {
            let Some(stream) = http.streams.get_mut(&id) else {
                continue;
            };
            if stream.is_split && !stream.is_written() {
                http.split.push_back(id);
                continue;
            }
            stream.is_to_write = false;
            let was_full = stream.room() == 0;
            stream.write(quic, id, usize::MAX);
            has_room |= (was_full || stream.is_split) && stream.room() > 0;
        }
        has_room
    }

    /// Writes the next datagrams into `buffer`, which is cleared first, and returns where they go
    /// and how long each of them is. `None` if there is nothing to send now.
    pub fn transmit(
        &mut self,
        endpoint: &mut Endpoint,
        buffer: &mut Vec<u8>,
    ) -> Option<(SocketAddr, u16)> {
        buffer.clear();
        let now = endpoint.now();
        self.http.write_byte(&mut self.quic);
        let transmit = self.quic.poll_transmit(now, BATCH_DATAGRAMS_MAX, buffer);
        endpoint.exchange_events(self.handle, &mut self.quic);
        self.note_progress(endpoint);
        let transmit = transmit?;
        buffer.truncate(transmit.size);
        let segment_bytes = transmit.segment_size.unwrap_or(transmit.size);
        let segment_bytes = u16::try_from(segment_bytes).unwrap_or(u16::MAX);
        Some((transmit.destination, segment_bytes))
    }

    /// How the connection has ended, if it has.
    #[must_use]
    pub fn end(&self) -> Option<End> {
        self.http.end
    }

    /// Whether nothing has to be sent or awaited any more: the session can be dropped.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.quic.is_drained()
    }

    /// Bytes that may be sent on a stream now.
    #[must_use]
    pub fn window(&self, stream: StreamId) -> u32 {
        let stream = self.http.streams.get(&stream);
        stream.map_or(0, |stream| stream.room() as u32)
    }

    /// Whether something may be sent on a stream: the response is not complete, and nobody has
    /// reset the stream.
    #[must_use]
    pub fn is_open(&self, stream: StreamId) -> bool {
        let stream = self.http.streams.get(&stream);
        stream.is_some_and(|stream| stream.response == Progress::Open)
    }

    /// Whether the client has all responses that were sent to their end.
    #[must_use]
    pub fn is_delivered(&self) -> bool {
        let mut streams = self.http.streams.values();
        !streams.any(|stream| matches!(stream.response, Progress::Ended | Progress::Finished))
    }

    /// Whether the handshake was completed.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.http.is_established
    }

    /// From now on each byte that is sent on a stream goes into a STREAM frame of its own, and
    /// mostly into a datagram of its own.
    pub fn split(&mut self, stream: StreamId) {
        if let Some(stream) = self.http.streams.get_mut(&stream) {
            stream.is_split = true;
        }
    }

    /// Bytes of frames that have arrived on the streams of requests so far.
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.http.received_bytes
    }

    /// Bytes of frames that were sent on the streams of requests so far.
    #[must_use]
    pub fn sent_bytes(&self) -> u64 {
        self.http.sent_bytes
    }

    /// Sends a field section: a head, an interim head or trailers.
    pub fn send_head(&mut self, stream: StreamId, section: &[u8], ends_stream: bool) {
        self.http.send(stream, ends_stream, |output| {
            frame::append(frame_type::HEADERS, section, output);
        });
    }

    /// Sends one DATA frame with `length` bytes of content, which `write` appends: at most
    /// [`Self::window`]. Without bytes there is no frame.
    pub fn send_data(
        &mut self,
        stream: StreamId,
        length: u32,
        ends_stream: bool,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        self.http.send(stream, ends_stream, |output| {
            if length > 0 {
                frame::append_header(frame_type::DATA, u64::from(length), output);
                write(output);
            }
        });
    }

    /// Announces the end of the connection: requests after the last one are rejected.
    pub fn send_goaway(&mut self) {
        let Self { quic, http, .. } = self;
        http.goaway = Some(http.after_last);
        http.control.goaway(http.after_last);
        http.control.send(quic);
    }

    /// Closes the connection with this code. What was not transmitted is lost.
    pub fn close(&mut self, endpoint: &Endpoint, code: ErrorCode) {
        self.http.end.get_or_insert(End::ByUs);
        let code = match &self.http.grease {
            Some(grease) if code == ErrorCode::NO_ERROR => grease.code(),
            _ => code,
        };
        let reason = b"".as_slice();
        self.quic
            .close(endpoint.now(), varint_of(code), reason.into());
    }
}

impl Http {
    fn on_stream_event(
        &mut self,
        quic: &mut Quic,
        heads: &mut Heads<Rc<RequestHead>>,
        event: StreamEvent,
        received: &mut Vec<Received>,
    ) -> Result<(), Violation> {
        match event {
            StreamEvent::Opened { dir: Dir::Bi } => {
                while let Some(id) = quic.streams().accept(Dir::Bi) {
                    if self.begin(quic, id) {
                        self.read(quic, heads, id, received)?;
                    }
                }
                Ok(())
            }
            StreamEvent::Opened { dir: Dir::Uni } => {
                // A client's GOAWAY is about pushes, of which there are none.
                self.peer.accept(quic, &mut self.idle, &mut Vec::new())
            }
            StreamEvent::Readable { id } if id.dir() == Dir::Bi => {
                self.read(quic, heads, id, received)
            }
            StreamEvent::Readable { id } => {
                self.peer.read(quic, id, &mut self.idle, &mut Vec::new())
            }
            StreamEvent::Writable { id } if self.control.is(id) => {
                self.control.send(quic);
                Ok(())
            }
            StreamEvent::Writable { id } => {
                self.note_to_write(id);
                Ok(())
            }
            StreamEvent::Available { dir: Dir::Uni } => {
                self.control.send(quic);
                Ok(())
            }
            StreamEvent::Available { dir: Dir::Bi } => Ok(()),
            StreamEvent::Stopped { id, .. } if self.control.is(id) => Err(Violation::new(
                ErrorCode::CLOSED_CRITICAL_STREAM,
                "STOP_SENDING for the control stream",
            )),
            StreamEvent::Stopped { id, .. } => {
                self.abandon(quic, id, ErrorCode::REQUEST_CANCELLED, received);
                Ok(())
            }
            StreamEvent::Finished { id } => {
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.response = Progress::Delivered;
                    self.forget_if_done(id);
                }
                Ok(())
            }
        }
    }

    /// A stream of the client has begun. False if its request is rejected.
    fn begin(&mut self, quic: &mut Quic, id: StreamId) -> bool {
        if self.goaway.is_some_and(|first| number(id) >= first) {
            // Nothing of it was read or sent, so neither can fail.
            let code = varint_of(ErrorCode::REQUEST_REJECTED);
            let _ = quic.recv_stream(id).stop(code);
            let _ = quic.send_stream(id).reset(code);
            return false;
        }
        self.after_last = self.after_last.max(number(id) + 4);
        self.streams.insert(
            id,
            Stream {
                reader: FrameReader::new(self.section_bytes_max),
                has_head: false,
                has_trailers: false,
                has_request: false,
                content_left: None,
                unsent: Vec::new(),
                written: 0,
                is_to_write: false,
                is_split: false,
                response: Progress::Open,
            },
        );
        true
    }

    /// Reads what has arrived of a request.
    fn read(
        &mut self,
        quic: &mut Quic,
        heads: &mut Heads<Rc<RequestHead>>,
        id: StreamId,
        received: &mut Vec<Received>,
    ) -> Result<(), Violation> {
        let Some(stream) = self.streams.get_mut(&id) else {
            return Ok(());
        };
        let mut from = quic.recv_stream(id);
        let Ok(mut chunks) = from.read(true) else {
            return Ok(());
        };
        let begin = received.len();
        let outcome = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    self.received_bytes += chunk.bytes.len() as u64;
                    let idle = &mut self.idle;
                    if let Err(fault) = stream.take(id, &chunk.bytes, heads, idle, received) {
                        break Err(fault);
                    }
                }
                Ok(None) => break stream.end(id, begin, received),
                Err(ReadError::Blocked) => break Ok(()),
                Err(ReadError::Reset(_)) => {
                    break Err(Fault::Stream(ErrorCode::REQUEST_CANCELLED));
                }
            }
        };
        let _ = chunks.finalize();
        match outcome {
            Ok(()) => {
                self.forget_if_done(id);
                Ok(())
            }
            Err(Fault::Stream(code)) => {
                self.abandon(quic, id, code, received);
                Ok(())
            }
            Err(Fault::Connection(violation)) => Err(violation),
        }
    }

    /// Neither sends nor reads on a stream any more.
    fn abandon(
        &mut self,
        quic: &mut Quic,
        id: StreamId,
        code: ErrorCode,
        received: &mut Vec<Received>,
    ) {
        if self.streams.remove(&id).is_some() {
            received.push(Received::Reset { stream: id });
            // A byte that waits on it is never sent.
            self.frames_at_byte = None;
        }
        // What has ended already cannot be stopped.
        let _ = quic.recv_stream(id).stop(varint_of(code));
        let _ = quic.send_stream(id).reset(varint_of(code));
    }

    fn forget_if_done(&mut self, id: StreamId) {
        let is_done =
            |stream: &Stream| stream.has_request && stream.response == Progress::Delivered;
        if self.streams.get(&id).is_some_and(is_done) {
            self.streams.remove(&id);
        }
    }

    fn send(&mut self, id: StreamId, ends_stream: bool, append: impl FnOnce(&mut Vec<u8>)) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        if stream.response != Progress::Open {
            return;
        }
        let before = stream.unsent.len();
        if let Some(grease) = &self.grease {
            grease.append_frame(&mut stream.unsent);
        }
        append(&mut stream.unsent);
        self.sent_bytes += (stream.unsent.len() - before) as u64;
        if ends_stream {
            stream.response = Progress::Ended;
        }
        self.note_to_write(id);
    }

    fn note_to_write(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id)
            && !std::mem::replace(&mut stream.is_to_write, true)
        {
            self.to_write.push(id);
        }
    }

    /// Writes the next byte of a split response if the one before was sent: bytes that wait
    /// together would share a frame.
    fn write_byte(&mut self, quic: &mut Quic) {
        if self.split.is_empty() {
            return;
        }
        let frames = quic.stats().frame_tx.stream;
        if self.frames_at_byte == Some(frames) {
            return;
        }
        while let Some(id) = self.split.pop_front() {
            let Some(stream) = self.streams.get_mut(&id) else {
                continue;
            };
            let left = stream.unsent.len() - stream.written;
            stream.write(quic, id, 1);
            if stream.unsent.len() - stream.written < left {
                self.frames_at_byte = Some(frames);
            }
            // With nothing left, its owner is told that there is room.
            if stream.is_written() {
                self.to_write.push(id)
            } else {
                self.split.push_back(id)
            }
            return;
        }
    }
}

impl Stream {
    fn room(&self) -> usize {
        match self.response {
            Progress::Open => UNSENT_MAX.saturating_sub(self.unsent.len()),
            _ => 0,
        }
    }

    /// QUIC has all of it.
    fn is_written(&self) -> bool {
        self.written == self.unsent.len()
    }

    /// Passes to QUIC as much of the response as it takes, up to `most` bytes. It tells when it
    /// takes more.
    fn write(&mut self, quic: &mut Quic, id: StreamId, most: usize) {
        let mut to = quic.send_stream(id);
        let end = self.unsent.len().min(self.written.saturating_add(most));
        while self.written < end {
            match to.write(&self.unsent[self.written..end]) {
                Ok(taken) => self.written += taken,
                // In the second case the event `Stopped` follows.
                Err(WriteError::Blocked | WriteError::Stopped(_)) => break,
                Err(WriteError::ClosedStream) => self.written = self.unsent.len(),
            }
        }
        if !self.is_written() {
            return;
        }
        self.unsent.clear();
        self.written = 0;
        if self.response == Progress::Ended {
            // It fails only if the client has stopped the stream.
            let _ = to.finish();
            self.response = Progress::Finished;
        }
    }

    /// Takes bytes of the request.
    fn take(
        &mut self,
        id: StreamId,
        bytes: &[u8],
        heads: &mut Heads<Rc<RequestHead>>,
        idle: &mut Idle,
        received: &mut Vec<Received>,
    ) -> Result<(), Fault> {
        let mut rest = bytes;
        while let Some(frame) = self.reader.next(&mut rest)? {
            match frame {
                Frame::Headers(section) => {
                    let head = heads.read(section, |fields, effect| {
                        Rc::new(RequestHead::read(fields, effect))
                    })?;
                    idle.end();
                    if std::mem::replace(&mut self.has_head, true) {
                        take_trailers(&mut self.has_trailers, self.content_left, &head)?;
                        continue;
                    }
                    if head.fault().is_some() {
                        return Err(malformed());
                    }
                    let is_connect = head.method == "CONNECT";
                    self.content_left = head.content_length.filter(|_| !is_connect);
                    received.push(Received::Request {
                        stream: id,
                        head,
                        is_whole: false,
                    });
                }
                Frame::Data(_) if !self.has_head || self.has_trailers => {
                    return Err(unexpected("DATA before the head or after the trailers"));
                }
                Frame::Data([]) => idle.add(1)?,
                Frame::Data(content) => {
                    idle.end();
                    if let Some(left) = &mut self.content_left {
                        let length = content.len() as u64;
                        *left = left.checked_sub(length).ok_or_else(malformed)?;
                    }
                    received.push(Received::Content {
                        stream: id,
                        content: content.to_vec(),
                        is_last: false,
                    });
                }
                Frame::HeadersTooLarge => {
                    return Err(Fault::Stream(ErrorCode::EXCESSIVE_LOAD));
                }
                Frame::Unknown(_) => idle.add(1)?,
                Frame::PushPromise => {
                    return Err(unexpected("PUSH_PROMISE of a client"));
                }
                Frame::CancelPush(_)
                | Frame::Settings(_)
                | Frame::Goaway(_)
                | Frame::MaxPushId(_) => {
                    return Err(unexpected("a frame of the control stream in a request"));
                }
            }
        }
        Ok(())
    }

    /// The client has ended its side. What this read has brought begins at `begin`.
    fn end(
        &mut self,
        id: StreamId,
        begin: usize,
        received: &mut Vec<Received>,
    ) -> Result<(), Fault> {
        if !self.reader.is_between_frames() {
            let reason = "a stream that ends within a frame";
            return Err(Violation::new(ErrorCode::FRAME_ERROR, reason).into());
        }
        if !self.has_head {
            return Err(Fault::Stream(ErrorCode::REQUEST_INCOMPLETE));
        }
        if self.content_left.is_some_and(|left| left > 0) {
            return Err(malformed());
        }
        self.has_request = true;
        let last = received[begin..].last_mut();
        match last {
            Some(Received::Request { is_whole, .. }) => *is_whole = true,
            Some(Received::Content { is_last, .. }) => *is_last = true,
            Some(Received::Reset { .. }) | None => received.push(Received::Content {
                stream: id,
                content: Vec::new(),
                is_last: true,
            }),
        }
        Ok(())
    }
}

/// A second field section has arrived.
fn take_trailers(
    has_trailers: &mut bool,
    content_left: Option<u64>,
    head: &RequestHead,
) -> Result<(), Fault> {
    if std::mem::replace(has_trailers, true) {
        return Err(unexpected("HEADERS after the trailers"));
    }
    let is_short = content_left.is_some_and(|left| left > 0);
    if is_short || head.fault_of_trailers().is_some() {
        Err(malformed())
    } else {
        Ok(())
    }
}

#[cold]
fn unexpected(reason: &'static str) -> Fault {
    Fault::Connection(Violation::new(ErrorCode::FRAME_UNEXPECTED, reason))
}

/// A malformed message is an error of its stream (RFC 9114 section 4.1.2).
#[cold]
fn malformed() -> Fault {
    Fault::Stream(ErrorCode::MESSAGE_ERROR)
}
