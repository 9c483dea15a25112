//! The client's side of an HTTP/3 connection (RFC 9114): many exchanges at a time.

use std::collections::VecDeque;

use quinn_proto::{
    Connection as Quic, ConnectionError, Dir, Event as QuicEvent, ReadError, Side, StreamEvent,
    StreamId, WriteError,
};

use super::connection_error::error_of;
use super::context::{ALPN, H3Context};
use super::control::Control;
use super::error::{ErrorCode, Violation};
use super::frame;
use super::handshake::{self, Agreed};
use super::peer_streams::{ControlEvent, Peer, PeerStreams};
use super::prepared::{Prepared, prepare};
use super::qpack::SectionLimits;
use super::response::{Fault, Idle};
use super::statistics::Statistics;
use super::streams::{Stream, Streams};
use super::transport::{BATCH_DATAGRAMS_MAX, Link, is_retry, varint_of};
use crate::datagrams::{self, Batch};
use crate::request::RequestText;
use crate::tls::Details;
use crate::{Event, ExchangeId, Failure, Handshake, Requests, Session, SessionError, Transport};

/// The version of TLS that QUIC has (RFC 9001 section 4.2).
const TLS_1_3: u16 = 0x0304;

/// The client's side of an HTTP/3 connection, over datagrams.
///
/// - Requests are sent once the handshake is complete. With early data
///   ([`crate::tls::Options::early_data`]), GET, HEAD and OPTIONS are sent before that if a session
///   is resumed. Those that the server rejects then are sent again once; [`Statistics`] counts
///   both.
/// - Requests need not wait for the server's SETTINGS (RFC 9114 section 7.2.4.2), in which nothing
///   concerns a client without a dynamic table.
/// - An error of one stream resets the stream. Any other error ends the connection.
/// - After GOAWAY no stream is opened. Requests that the server has not processed fail with
///   [`SessionError::GoawayUnprocessed`]; the others go on.
/// - This end opens no streams for QPACK: an endpoint that has nothing to send there need not (RFC
///   9204 section 4.2).
#[derive(Debug)]
pub struct H3 {
    /// Set by `begin`. Boxed: it is several kilobytes.
    link: Option<Box<Link>>,
    http: Http,
}

/// Everything but QUIC.
#[derive(Debug)]
struct Http {
    streams: Streams,
    streams_max: u32,
    /// Streams that the server allows and that have no request yet, in order. The library does not
    /// tell how many there are, so they are opened; nothing of that is sent.
    unused: VecDeque<StreamId>,
    control: Control,
    early: Early,
    peer: PeerStreams,
    /// The lowest stream that was not processed, by the last GOAWAY.
    goaway: Option<u64>,
    is_ready: bool,
    is_draining: bool,
    has_ended: bool,
    idle: Idle,
    begun_ns: u64,
    handshake_ns: Option<u64>,
    /// Retry has arrived.
    retried: bool,
    next_timeout_ns: Option<u64>,
    /// Streams whose response has begun within the current call.
    begun: Vec<StreamId>,
    /// Streams of which events may have arrived within the current call.
    streamed: Vec<StreamId>,
    /// News of the control stream. Empty between calls.
    told: Vec<ControlEvent>,
}

/// Requests that were started before the handshake was complete (0-RTT).
#[derive(Debug, Default)]
struct Early {
    /// The server is expected to accept them, by what it said on the connection whose session is
    /// resumed.
    is_open: bool,
    /// All of them, with their streams. Those that may not be sent early wait there.
    started: Vec<(StreamId, Prepared)>,
    /// Those that wait for a stream after the server has rejected all, in their order.
    waiting: VecDeque<(ExchangeId, Prepared)>,
    /// How many the server has accepted.
    accepted: u64,
    /// How many it has rejected. They are sent again.
    rejected: u64,
}

impl Session for H3 {
    type Context = H3Context;
    type Prepared = Prepared;

    const SENDS_TEXT: bool = false;
    const TRANSPARENT: bool = false;
    const TRANSPORT: Transport = Transport::Datagrams;

    fn new(context: &mut H3Context) -> Self {
        Self {
            link: None,
            http: Http::new(context),
        }
    }

    fn prepare(context: &mut H3Context, request: &RequestText<'_>) -> Prepared {
        prepare(request, context.settings.calls)
    }

    fn at(context: &mut H3Context, now_ns: u64) {
        context.clock.now_ns = context.clock.now_ns.max(now_ns);
    }

    fn begin(&mut self, context: &mut H3Context, output: &mut Vec<u8>) -> Result<(), SessionError> {
        self.http = Http::new(context);
        self.http.begun_ns = context.clock.now_ns;
        let name = &context.server_names[context.host];
        let link = context.transport.connect(context.clock.now(), name)?;
        let link = self.link.insert(Box::new(link));
        self.http.early.is_open = link.connection.has_0rtt();
        self.http.open_streams(&mut link.connection, context);
        self.flush(context, output)
    }

    fn select_host(context: &mut H3Context, host: u32) {
        context.host = (host as usize).min(context.server_names.len() - 1);
    }

    fn is_ready(&self) -> bool {
        self.http.is_ready || self.http.early.is_open
    }

    #[inline]
    fn capacity(&self) -> u32 {
        self.http.unused.len() as u32
    }

    fn start(
        &mut self,
        _context: &mut H3Context,
        exchange: ExchangeId,
        requests: Requests<'_, Prepared>,
        _output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        let Some(link) = &mut self.link else {
            return Err(SessionError::ClosedEarly);
        };
        for request in requests.prepared {
            let Some(id) = self.http.unused.pop_front() else {
                let reason = "a request on a stream that the server does not allow";
                return Err(SessionError::BadHttp3(reason));
            };
            let stream = self.http.streams.begin(id, exchange, request);
            if self.http.early.is_open {
                self.http.early.started.push((id, request.clone()));
            }
            if request.may_be_early || !self.http.early.is_open {
                send_request(&mut link.connection, id, stream);
            }
        }
        Ok(())
    }

    fn cancel(
        &mut self,
        _context: &mut H3Context,
        exchange: ExchangeId,
        _output: &mut Vec<u8>,
    ) -> Result<bool, SessionError> {
        if self.http.early.take_waiting(exchange) {
            return Ok(true);
        }
        let stream = self.http.streams.of_exchange(exchange);
        if let (Some(id), Some(link)) = (stream, &mut self.link) {
            let code = ErrorCode::REQUEST_CANCELLED;
            self.http.abandon(&mut link.connection, id, code);
        }
        Ok(stream.is_some())
    }

    fn flush(&mut self, context: &mut H3Context, output: &mut Vec<u8>) -> Result<(), SessionError> {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        let (now, scratch) = (context.clock.now(), &mut context.scratch);
        while let Some(transmit) = link
            .connection
            .poll_transmit(now, BATCH_DATAGRAMS_MAX, scratch)
        {
            let segment_bytes = transmit.segment_size.unwrap_or(transmit.size);
            let batch = Batch {
                bytes: &scratch[..transmit.size.min(scratch.len())],
                segment_bytes: u16::try_from(segment_bytes).unwrap_or(u16::MAX),
                ecn: transmit.ecn.map_or(0, |ecn| ecn as u8),
            };
            datagrams::append(batch, output);
            scratch.clear();
        }
        link.exchange_events();
        let next = link.connection.poll_timeout();
        self.http.next_timeout_ns = next.map(|next| context.clock.ns_of(next));
        Ok(())
    }

    fn next_timeout_ns(&self) -> Option<u64> {
        self.http.next_timeout_ns
    }

    fn handle_timeout(
        &mut self,
        context: &mut H3Context,
        now_ns: u64,
        output: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError> {
        Self::at(context, now_ns);
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        link.connection.handle_timeout(context.clock.now());
        self.process(context, output, events)
    }

    fn has_ended(&self) -> bool {
        self.http.has_ended
    }

    /// Requests in flight are not cancelled one by one: the server learns from the end of the
    /// connection that nobody reads its responses.
    fn close(&mut self, context: &mut H3Context, output: &mut Vec<u8>) {
        self.shut(context, ErrorCode::NO_ERROR, b"", output);
    }

    fn receive(
        &mut self,
        context: &mut H3Context,
        input: &[u8],
        output: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError> {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        let http = &mut self.http;
        http.retried |= !http.is_ready && is_retry(input);
        link.receive(context.clock.now(), input, &mut context.scratch);
        self.process(context, output, events)
    }

    fn end(
        &mut self,
        _context: &mut H3Context,
        _events: &mut Vec<Event>,
    ) -> Result<(), SessionError> {
        let http = &self.http;
        match http.streams.partial_bytes() > 0 {
            _ if !http.is_ready => Err(SessionError::ClosedEarly),
            true => Err(SessionError::Truncated),
            false if http.outstanding() > 0 => Err(SessionError::ClosedEarly),
            false => Ok(()),
        }
    }

    fn awaits(&self) -> Option<&'static str> {
        let http = &self.http;
        if !http.is_ready {
            return Some("the server completed no QUIC handshake");
        }
        let is_stuck = http.unused.is_empty() && http.streams.open() == 0 && !http.is_draining;
        is_stuck.then_some(
            "the server allowed no streams (initial_max_streams_bidi or MAX_STREAMS of QUIC)",
        )
    }

    fn partial_bytes(&self) -> u64 {
        self.http.streams.partial_bytes()
    }

    fn redirect_location(context: &H3Context) -> Option<&str> {
        context.redirect_location.as_deref()
    }

    fn statistics(&self) -> Option<Statistics> {
        let (link, http) = (self.link.as_ref()?, &self.http);
        Some(Statistics {
            handshake_ns: http.handshake_ns,
            retried: http.retried,
            early_accepted: http.early.accepted,
            early_rejected: http.early.rejected,
            ..Statistics::of_packets(&link.connection)
        })
    }

    fn streams_limit(context: &H3Context) -> Option<u32> {
        let wanted = context.settings.streams_max;
        context.largest_limit.filter(|limit| *limit < wanted)
    }
}

impl H3 {
    /// What the handshake has agreed on; `None` before its end.
    #[must_use]
    pub fn details(&self) -> Option<Details> {
        handshake::details(&self.link.as_ref()?.connection)
    }

    /// Handles what QUIC has to tell.
    fn process(
        &mut self,
        context: &mut H3Context,
        output: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError> {
        let (Some(link), http) = (&mut self.link, &mut self.http) else {
            return Ok(());
        };
        link.exchange_events();
        let mut lost = None;
        let mut handled = Ok(());
        while let Some(event) = link.connection.poll()
            && handled.is_ok()
        {
            handled = match event {
                QuicEvent::Stream(event) => {
                    let read = http.on_stream_event(&mut link.connection, context, event, events);
                    read.map_err(|violation| (violation, None))
                }
                QuicEvent::Connected => http.on_connected(&mut link.connection, context, events),
                QuicEvent::ConnectionLost { reason } => {
                    lost = Some(reason);
                    Ok(())
                }
                QuicEvent::HandshakeDataReady
                | QuicEvent::DatagramReceived
                | QuicEvent::DatagramsUnblocked => Ok(()),
            };
        }
        http.open_streams(&mut link.connection, context);
        http.tell_begun(events);
        http.tell_streamed(events);
        if let Err((violation, error)) = handled {
            self.shut(context, violation.code, violation.reason.as_bytes(), output);
            return Err(error.unwrap_or_else(|| SessionError::of_http3_violation(violation)));
        }
        match lost {
            None => Ok(()),
            Some(reason) => {
                let outcome = http.on_lost(reason, events);
                // The library has written what the server should know.
                self.flush(context, output)?;
                outcome
            }
        }
    }

    /// Ends the connection with this code, and appends what is sent then. QUIC's closing state (RFC
    /// 9000 section 10.2) is left out: the owner closes the socket.
    fn shut(
        &mut self,
        context: &mut H3Context,
        code: ErrorCode,
        reason: &'static [u8],
        output: &mut Vec<u8>,
    ) {
        if let Some(link) = &mut self.link {
            link.connection
                .close(context.clock.now(), varint_of(code), reason.into());
        }
        self.http.unused.clear();
        self.http.is_draining = true;
        // It appends to memory only.
        let _ = self.flush(context, output);
    }
}

impl Early {
    /// Forgets an exchange that waits. Returns whether there was one.
    fn take_waiting(&mut self, exchange: ExchangeId) -> bool {
        let mut waiting = self.waiting.iter();
        let at = waiting.position(|(waits, _)| *waits == exchange);
        at.and_then(|at| self.waiting.remove(at)).is_some()
    }
}

impl Http {
    fn new(context: &H3Context) -> Self {
        let limits = SectionLimits::default();
        Self {
            streams: Streams::new(limits.list_bytes_max),
            streams_max: context.settings.streams_max,
            unused: VecDeque::new(),
            control: Control::new(limits.list_bytes_max, None),
            early: Early::default(),
            peer: PeerStreams::new(Peer::Server),
            goaway: None,
            is_ready: false,
            is_draining: false,
            has_ended: false,
            idle: Idle::default(),
            begun_ns: 0,
            handshake_ns: None,
            retried: false,
            next_timeout_ns: None,
            begun: Vec::new(),
            streamed: Vec::new(),
            told: Vec::new(),
        }
    }

    /// Requests that were started and whose responses are not complete.
    fn outstanding(&self) -> usize {
        self.streams.open() as usize + self.early.waiting.len()
    }

    /// The handshake is complete.
    fn on_connected(
        &mut self,
        quic: &mut Quic,
        context: &H3Context,
        events: &mut Vec<Event>,
    ) -> Result<(), (Violation, Option<SessionError>)> {
        let Some(agreed) = Agreed::of(quic).filter(|it| it.protocol.as_deref() == Some(ALPN))
        else {
            let reason = "another protocol in the TLS handshake";
            return Err((
                Violation::new(ErrorCode::GENERAL_PROTOCOL_ERROR, reason),
                Some(SessionError::OtherProtocol),
            ));
        };
        self.is_ready = true;
        self.handshake_ns = Some(context.clock.now_ns - self.begun_ns);
        self.end_early(quic);
        self.control.send(quic);
        events.push(Event::Ready(Handshake {
            resumed: agreed.resumed,
            version: TLS_1_3,
        }));
        Ok(())
    }

    fn on_stream_event(
        &mut self,
        quic: &mut Quic,
        context: &mut H3Context,
        event: StreamEvent,
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        match event {
            StreamEvent::Readable { id } if id.initiator() == Side::Client => {
                self.read_response(quic, context, id, events)
            }
            StreamEvent::Readable { id } => {
                let Self {
                    peer, idle, told, ..
                } = self;
                peer.read(quic, id, idle, told)?;
                self.on_told(quic, events)
            }
            StreamEvent::Opened { .. } => {
                let Self {
                    peer, idle, told, ..
                } = self;
                peer.accept(quic, idle, told)?;
                self.on_told(quic, events)
            }
            StreamEvent::Writable { id } if self.control.is(id) => {
                self.control.send(quic);
                Ok(())
            }
            StreamEvent::Writable { id } => {
                if let Some(stream) = self.streams.get_mut(id) {
                    send_request(quic, id, stream);
                }
                Ok(())
            }
            StreamEvent::Stopped { id, .. } if self.control.is(id) => Err(Violation::new(
                ErrorCode::CLOSED_CRITICAL_STREAM,
                "STOP_SENDING for the control stream",
            )),
            StreamEvent::Stopped { id, error_code } => {
                // The server does not want the rest of the request. Its response may be on its way
                // (RFC 9114 section 4.1.1).
                match self.streams.get_mut(id) {
                    Some(stream) => stream.unsent = None,
                    None => self.check_unasked(id)?,
                }
                // It may have been acknowledged as a whole already.
                let _ = quic.send_stream(id).reset(error_code);
                Ok(())
            }
            StreamEvent::Available { dir: Dir::Uni } => {
                if self.is_ready {
                    self.control.send(quic);
                }
                Ok(())
            }
            // Streams for requests are opened after each call.
            StreamEvent::Available { dir: Dir::Bi } | StreamEvent::Finished { .. } => Ok(()),
        }
    }

    /// The handshake is complete. If the server has rejected early data, it knows none of the
    /// streams, and the library has forgotten them, too (RFC 9001 section 4.6.2).
    fn end_early(&mut self, quic: &mut Quic) {
        if !std::mem::take(&mut self.early.is_open) {
            return;
        }
        let is_accepted = quic.accepted_0rtt();
        for (id, request) in std::mem::take(&mut self.early.started) {
            match (is_accepted, request.may_be_early) {
                (true, true) => self.early.accepted += 1,
                (false, true) => self.early.rejected += 1,
                (_, false) => {}
            }
            // It may have been cancelled.
            let Some(stream) = self.streams.get_mut(id) else {
                continue;
            };
            if !is_accepted {
                let exchange = stream.response.exchange;
                self.early.waiting.push_back((exchange, request));
                self.streams.close(id);
            } else if !request.may_be_early {
                send_request(quic, id, stream);
            }
        }
        if !is_accepted {
            self.unused.clear();
        }
    }

    /// Opens as many streams as requests may be in flight.
    fn open_streams(&mut self, quic: &mut Quic, context: &mut H3Context) {
        if !(self.is_ready || self.early.is_open) || self.is_draining {
            return;
        }
        while !self.early.waiting.is_empty()
            && let Some(id) = quic.streams().open(Dir::Bi)
            && let Some((exchange, request)) = self.early.waiting.pop_front()
        {
            let stream = self.streams.begin(id, exchange, &request);
            send_request(quic, id, stream);
        }
        if !self.early.waiting.is_empty() {
            return;
        }
        while self.streams.open() + (self.unused.len() as u32) < self.streams_max
            && let Some(id) = quic.streams().open(Dir::Bi)
        {
            self.unused.push_back(id);
        }
        let allowed = self.streams.open() + self.unused.len() as u32;
        context.largest_limit = context.largest_limit.max(Some(allowed));
    }

    /// Reads what has arrived of a response.
    fn read_response(
        &mut self,
        quic: &mut Quic,
        context: &mut H3Context,
        id: StreamId,
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        let Some(stream) = self.streams.get_mut(id) else {
            return self.check_unasked(id);
        };
        if stream.response.bytes == 0 {
            self.begun.push(id);
        }
        if context.stream.is_some() {
            self.streamed.push(id);
        }
        let mut from = quic.recv_stream(id);
        let Ok(mut chunks) = from.read(true) else {
            return Ok(());
        };
        let outcome = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    if let Err(fault) = receive(stream, context, &chunk.bytes, &mut self.idle) {
                        break Err(fault);
                    }
                }
                Ok(None) if !stream.reader.is_between_frames() => {
                    let reason = "a stream that ends within a frame";
                    break Err(Violation::new(ErrorCode::FRAME_ERROR, reason).into());
                }
                Ok(None) => break stream.response.finish(context, events).map(|()| true),
                Err(ReadError::Blocked) => break Ok(false),
                Err(ReadError::Reset(code)) => {
                    let code = ErrorCode(code.into_inner());
                    let error = SessionError::of_http3_reset(code);
                    break Err(Fault::Stream(ErrorCode::REQUEST_CANCELLED, error));
                }
            }
        };
        let _ = chunks.finalize();
        match outcome {
            Ok(false) => Ok(()),
            // The server has answered without reading the whole request, or all is done.
            Ok(true) => {
                if stream.unsent.is_some() {
                    reset(quic, id, ErrorCode::NO_ERROR);
                }
                self.streams.close(id);
                Ok(())
            }
            Err(Fault::Stream(code, error)) => {
                self.fail(id, error, events);
                self.abandon(quic, id, code);
                Ok(())
            }
            Err(Fault::Connection(violation)) => Err(violation),
        }
    }

    /// A response without a request (RFC 9114 section 4.1), or the refusal of one (RFC 9000 section
    /// 19.5). After the end of an exchange there may be something left.
    fn check_unasked(&self, id: StreamId) -> Result<(), Violation> {
        match self.unused.front() {
            Some(first) if id >= *first => Err(Violation::new(
                ErrorCode::FRAME_UNEXPECTED,
                "a response to no request",
            )),
            _ => Ok(()),
        }
    }

    fn on_told(&mut self, quic: &mut Quic, events: &mut Vec<Event>) -> Result<(), Violation> {
        let mut told = std::mem::take(&mut self.told);
        for news in told.drain(..) {
            if let ControlEvent::Goaway(first) = news {
                self.on_goaway(quic, first, events)?;
            }
        }
        self.told = told;
        Ok(())
    }

    /// RFC 9114 section 5.2: requests from this stream on were not processed.
    fn on_goaway(
        &mut self,
        quic: &mut Quic,
        first: u64,
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        if self.goaway.is_some_and(|before| first > before) {
            let reason = "GOAWAY with a higher stream than before";
            return Err(Violation::new(ErrorCode::ID_ERROR, reason));
        }
        self.goaway = Some(first);
        self.drain(events);
        for (exchange, _) in self.early.waiting.drain(..) {
            let failure = Failure {
                error: SessionError::GoawayUnprocessed,
                bytes: 0,
                captured: None,
            };
            events.push(Event::Failed(exchange, Box::new(failure)));
        }
        for id in self.streams.ids_from(first) {
            self.fail(id, SessionError::GoawayUnprocessed, events);
            self.abandon(quic, id, ErrorCode::REQUEST_CANCELLED);
        }
        Ok(())
    }

    fn drain(&mut self, events: &mut Vec<Event>) {
        self.unused.clear();
        if !std::mem::replace(&mut self.is_draining, true) {
            events.push(Event::Draining);
        }
    }

    /// The connection is lost, or was closed by the server. Without an error, what is open is for
    /// [`Session::end`] to judge.
    fn on_lost(
        &mut self,
        reason: ConnectionError,
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError> {
        self.drain(events);
        let error = match reason {
            ConnectionError::TimedOut if self.is_ready && self.outstanding() == 0 => None,
            ConnectionError::TimedOut => Some(SessionError::IdleTimeout),
            reason => error_of(reason),
        };
        match error {
            Some(error) => Err(error),
            None if self.is_ready => {
                self.has_ended = true;
                Ok(())
            }
            None => Err(SessionError::ClosedEarly),
        }
    }

    /// Ends the exchange of a stream, if it is open.
    fn fail(&mut self, id: StreamId, error: SessionError, events: &mut Vec<Event>) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.response.fail(error, events);
        }
    }

    /// Neither sends nor reads on a stream any more.
    fn abandon(&mut self, quic: &mut Quic, id: StreamId, code: ErrorCode) {
        // What has ended already cannot be stopped.
        let _ = quic.recv_stream(id).stop(varint_of(code));
        reset(quic, id, code);
        self.streams.close(id);
    }

    fn tell_begun(&mut self, events: &mut Vec<Event>) {
        for id in self.begun.drain(..) {
            if let Some(stream) = self.streams.get_mut(id)
                && stream.response.bytes > 0
            {
                events.push(Event::Began(stream.response.exchange));
            }
        }
    }

    /// Reports what was found in the current call in streams that are still open.
    fn tell_streamed(&mut self, events: &mut Vec<Event>) {
        for id in self.streamed.drain(..) {
            if let Some(stream) = self.streams.get_mut(id) {
                stream.response.tell_found(events);
            }
        }
    }
}

/// Passes bytes of a stream to its response.
#[inline]
fn receive(
    stream: &mut Stream,
    context: &mut H3Context,
    bytes: &[u8],
    idle: &mut Idle,
) -> Result<(), Fault> {
    let Stream {
        reader, response, ..
    } = stream;
    response.bytes += bytes.len() as u64;
    let mut rest = bytes;
    while let Some(frame) = reader.next(&mut rest)? {
        let is_data = matches!(frame, frame::Frame::Data(_));
        response.on_frame(context, frame, idle)?;
        if is_data && reader.is_between_frames() {
            response.end_data();
        }
    }
    Ok(())
}

/// Sends as much of a request as QUIC takes. It tells when it takes more.
fn send_request(quic: &mut Quic, id: StreamId, stream: &mut Stream) {
    let Some(unsent) = &mut stream.unsent else {
        return;
    };
    let mut to = quic.send_stream(id);
    while !unsent.rest().is_empty() {
        match to.write(unsent.rest()) {
            Ok(sent) => unsent.sent += sent,
            // In the second case the event `Stopped` follows.
            Err(WriteError::Blocked | WriteError::Stopped(_)) => return,
            Err(WriteError::ClosedStream) => break,
        }
    }
    // It fails only if the server has stopped the stream.
    let _ = to.finish();
    stream.unsent = None;
}

fn reset(quic: &mut Quic, id: StreamId, code: ErrorCode) {
    // What the server has acknowledged as a whole cannot be reset.
    let _ = quic.send_stream(id).reset(varint_of(code));
}
