//! The connections of a worker that speak HTTP/3: one UDP socket for all of them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;

use eventloop::{Acceptor, Token};
use fastrand::Rng;
use protocol::h2::RequestHead;
use protocol::h3::error::ErrorCode;
use protocol::h3::heads::Heads;
use protocol::h3::qpack::{SectionLimits, encode};
use protocol::h3::server::{End, Received, Server, StreamId};
use protocol::h3::{Arrival, Endpoint};

use crate::context::Context;
use crate::prepared::ConnectionStep;
use crate::request::{HEAD_MAX_BYTES, HEADERS_MAX};
use crate::streams::response::Encoding;
use crate::streams::{KnownResponses, Pause, Rest, Streams, Writer};

/// Buffers with datagrams that the event loop has at a time, up to 46 kB each. Beyond that,
/// connections wait: what waits in a queue counts as a round trip, and delays what is lost.
const SENDS_MAX: usize = 32;

/// Buffers that are kept for the next datagrams.
const BUFFERS_MAX: usize = 64;

/// The socket of a worker, and the connections on it.
#[derive(Debug)]
pub(crate) struct Http3 {
    token: Token,
    endpoint: Endpoint,
    /// The field sections that have arrived on any connection.
    heads: Heads<Rc<RequestHead>>,
    /// By their index in the endpoint.
    connections: Vec<Option<Connection>>,
    /// When connections want to be asked again.
    timers: BinaryHeap<Reverse<(u64, usize)>>,
    /// Connections that wait for the socket.
    waiting: VecDeque<usize>,
    /// Connections of which something has arrived in one receive. Empty otherwise.
    touched: Vec<usize>,
    sends: usize,
    buffers: Vec<Vec<u8>>,
    received: Vec<Received>,
    loss: Loss,
}

/// Drops datagrams at random, each for itself.
#[derive(Debug)]
pub(crate) struct Loss {
    /// From 0 to 1.
    share: f64,
    random: Rng,
}

impl Loss {
    /// The same seed drops the same ones if they come in the same order.
    pub(crate) fn new(share: f64, seed: u64) -> Self {
        Self {
            share,
            random: Rng::with_seed(seed),
        }
    }

    fn drops(&mut self) -> bool {
        self.share > 0.0 && self.random.f64() < self.share
    }

    /// What is left of these datagrams, which have the length of a segment each.
    fn thin(&mut self, datagrams: Vec<u8>, segment: u16) -> Vec<u8> {
        if self.share == 0.0 {
            return datagrams;
        }
        let segment_bytes = match segment {
            0 => datagrams.len(),
            _ => usize::from(segment),
        };
        let kept = datagrams.chunks(segment_bytes.max(1));
        kept.filter(|_| !self.drops()).collect::<Vec<_>>().concat()
    }
}

#[derive(Debug)]
struct Connection {
    streams: Streams<SectionWriter>,
    /// What happens to the connection once the client has all complete responses.
    ending: Option<Ending>,
    /// The deadline in the timers.
    armed_ns: Option<u64>,
    /// It is in `waiting`.
    is_waiting: bool,
    /// The end of the session was seen.
    has_ended: bool,
    /// Received bytes that are in the counters.
    counted_bytes: u64,
}

/// How a connection ends at this end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// It is closed with this code.
    Close(ErrorCode),
    /// It is forgotten, without a word to the client.
    Forget,
}

/// A session as the writer of frames.
#[derive(Debug)]
struct SectionWriter(Server);

impl Http3 {
    pub(crate) fn new(token: Token, endpoint: Endpoint, loss: Loss) -> Self {
        Self {
            token,
            endpoint,
            heads: Heads::new(SectionLimits {
                list_bytes_max: HEAD_MAX_BYTES,
                fields_max: HEADERS_MAX,
            }),
            connections: Vec::new(),
            timers: BinaryHeap::new(),
            waiting: VecDeque::new(),
            touched: Vec::new(),
            sends: 0,
            buffers: Vec::new(),
            received: Vec::new(),
            loss,
        }
    }

    /// The earliest deadline, passed or not.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.timers.peek().map(|Reverse((at_ns, _))| *at_ns)
    }

    /// Takes what the event loop has received. `number` gives each connection its number.
    pub(crate) fn receive<L: Acceptor>(
        &mut self,
        io: &mut L,
        at_ns: u64,
        context: &mut Context,
        mut number: impl FnMut() -> u64,
    ) {
        let (Some(from), Some(segment)) = (io.received_from(), io.received_segment()) else {
            return;
        };
        self.endpoint.at(at_ns);
        let mut replies = Vec::new();
        for datagram in io.received().chunks(segment.max(1)) {
            if self.loss.drops() {
                continue;
            }
            let mut reply = self.buffer();
            match self.endpoint.receive(from, datagram, &mut reply) {
                Arrival::Packet(index, packet) => {
                    if let Some(connection) = self.connection(index) {
                        connection.streams.writer.0.receive(packet);
                        self.touch(index);
                    }
                }
                Arrival::Connection(index, session) => {
                    context.counters().connections.add(1);
                    self.insert(index, Connection::new(number(), session));
                    self.touch(index);
                }
                Arrival::Reply => {
                    replies.push(reply);
                    continue;
                }
                Arrival::Nothing => {}
            }
            self.keep(reply);
        }
        for reply in replies {
            self.send(io, from, reply, 0);
        }
        let mut touched = std::mem::take(&mut self.touched);
        for index in touched.drain(..) {
            self.carry_out(io, index, at_ns, context);
        }
        self.touched = touched;
    }

    /// A buffer comes back: there is room for connections that wait.
    pub(crate) fn sent<L: Acceptor>(
        &mut self,
        io: &mut L,
        buffer: Vec<u8>,
        at_ns: u64,
        context: &mut Context,
    ) {
        self.sends = self.sends.saturating_sub(1);
        self.keep(buffer);
        if let Some(index) = self.waiting.pop_front() {
            if let Some(connection) = self.connection(index) {
                connection.is_waiting = false;
            }
            self.carry_out(io, index, at_ns, context);
        }
    }

    /// Does what is due.
    pub(crate) fn fire_timers<L: Acceptor>(&mut self, io: &mut L, context: &mut Context) {
        let now_ns = io.now_ns();
        while let Some(Reverse((at_ns, index))) = self.timers.peek().copied()
            && at_ns <= now_ns
        {
            self.timers.pop();
            let Self {
                connections,
                endpoint,
                ..
            } = self;
            let Some(Some(connection)) = connections.get_mut(index) else {
                continue;
            };
            if connection.armed_ns != Some(at_ns) {
                continue;
            }
            connection.armed_ns = None;
            endpoint.at(now_ns);
            let session = &mut connection.streams.writer.0;
            if session
                .next_timeout_ns()
                .is_some_and(|at_ns| at_ns <= now_ns)
            {
                session.handle_timeout(endpoint);
            }
            self.carry_out(io, index, now_ns, context);
        }
    }

    /// Lets a connection work, and sends what it has.
    fn carry_out<L: Acceptor>(
        &mut self,
        io: &mut L,
        index: usize,
        at_ns: u64,
        context: &mut Context,
    ) {
        let now_ns = io.now_ns();
        self.endpoint.at(now_ns);
        let Self {
            connections,
            endpoint,
            heads,
            received,
            ..
        } = self;
        let Some(Some(connection)) = connections.get_mut(index) else {
            return;
        };
        connection
            .streams
            .writer
            .0
            .process(endpoint, heads, received);
        connection.take(received, at_ns, context);
        let due_ns = connection.advance(now_ns, context);
        self.transmit(io, index);
        if self.end_if_due(index) {
            self.transmit(io, index);
        }
        self.arm(index, due_ns, context);
    }

    /// Ends a connection that is to end, once the client has all complete responses. Returns
    /// whether it has something to send then.
    fn end_if_due(&mut self, index: usize) -> bool {
        let Self {
            connections,
            endpoint,
            ..
        } = self;
        let Some(Some(connection)) = connections.get_mut(index) else {
            return false;
        };
        let session = &mut connection.streams.writer.0;
        match connection.ending {
            Some(_) if !session.is_delivered() || session.end().is_some() => false,
            Some(Ending::Close(code)) => {
                session.close(endpoint, code);
                true
            }
            Some(Ending::Forget) => {
                endpoint.forget(session);
                connections[index] = None;
                false
            }
            None => false,
        }
    }

    /// Sends the datagrams of a connection, as far as the socket has room.
    fn transmit<L: Acceptor>(&mut self, io: &mut L, index: usize) {
        loop {
            let mut buffer = self.buffer();
            let Self {
                connections,
                endpoint,
                ..
            } = self;
            let Some(Some(connection)) = connections.get_mut(index) else {
                return;
            };
            if self.sends >= SENDS_MAX {
                if !std::mem::replace(&mut connection.is_waiting, true) {
                    self.waiting.push_back(index);
                }
                return;
            }
            let transmit = connection.streams.writer.0.transmit(endpoint, &mut buffer);
            let Some((to, segment)) = transmit else {
                return self.keep(buffer);
            };
            self.send(io, to, buffer, segment);
        }
    }

    fn send<L: Acceptor>(&mut self, io: &mut L, to: SocketAddr, buffer: Vec<u8>, segment: u16) {
        let buffer = self.loss.thin(buffer, segment);
        if buffer.is_empty() {
            return self.keep(buffer);
        }
        self.sends += 1;
        io.send_to(self.token, to, buffer, segment);
    }

    /// Notes when a connection wants to be asked again, or forgets one that has ended.
    fn arm(&mut self, index: usize, due_ns: Option<u64>, context: &Context) {
        let Some(Some(connection)) = self.connections.get_mut(index) else {
            return;
        };
        let session = &connection.streams.writer.0;
        if session.is_drained() {
            if !session.is_established() {
                context.counters().tls_failures.add(1);
            }
            self.connections[index] = None;
            return;
        }
        let next = [session.next_timeout_ns(), due_ns]
            .into_iter()
            .flatten()
            .min();
        if let Some(next_ns) = next
            && connection
                .armed_ns
                .is_none_or(|armed_ns| next_ns < armed_ns)
        {
            connection.armed_ns = Some(next_ns);
            self.timers.push(Reverse((next_ns, index)));
        }
    }

    fn connection(&mut self, index: usize) -> Option<&mut Connection> {
        self.connections.get_mut(index)?.as_mut()
    }

    fn insert(&mut self, index: usize, connection: Connection) {
        if self.connections.len() <= index {
            self.connections.resize_with(index + 1, || None);
        }
        self.connections[index] = Some(connection);
    }

    fn touch(&mut self, index: usize) {
        if !self.touched.contains(&index) {
            self.touched.push(index);
        }
    }

    fn buffer(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_default()
    }

    fn keep(&mut self, buffer: Vec<u8>) {
        if self.buffers.len() < BUFFERS_MAX {
            self.buffers.push(buffer);
        }
    }
}

impl Connection {
    fn new(number: u64, session: Server) -> Self {
        Self {
            streams: Streams::new(number, SectionWriter(session)),
            ending: None,
            armed_ns: None,
            is_waiting: false,
            has_ended: false,
            counted_bytes: 0,
        }
    }

    /// Takes what has arrived.
    fn take(&mut self, received: &mut Vec<Received>, at_ns: u64, context: &mut Context) {
        let streams = &mut self.streams;
        let bytes = streams.writer.0.received_bytes();
        context.counters().bytes_in.add(bytes - self.counted_bytes);
        self.counted_bytes = bytes;
        for one in received.drain(..) {
            match one {
                _ if streams.has_ended() || self.ending.is_some() => {}
                Received::Request {
                    stream,
                    head,
                    is_whole,
                } => streams.on_request(stream, &head, is_whole, at_ns, context),
                Received::Content {
                    stream,
                    content,
                    is_last,
                } => {
                    if let Some(upload) = streams.uploads.get_mut(&stream) {
                        upload.add(&content);
                    }
                    if is_last {
                        streams.on_request_end(stream, at_ns, context);
                    }
                }
                Received::Reset { stream } => streams.on_reset(stream),
            }
        }
    }

    /// Continues the responses as far as possible. Returns when they can go on.
    fn advance(&mut self, now_ns: u64, context: &mut Context) -> Option<u64> {
        let streams = &mut self.streams;
        if let Some(end) = streams.writer.0.end() {
            let is_new = !std::mem::replace(&mut self.has_ended, true);
            if is_new && matches!(end, End::Violation(_)) {
                context.counters().refused.add(1);
            }
            streams.drop_all();
            return None;
        }
        streams.wake(now_ns);
        loop {
            while self.ending.is_none() && streams.advance(now_ns, context) {}
            if !streams.writer.0.write() {
                break;
            }
            streams.unblock();
        }
        if self.ending.is_some() {
            return None;
        }
        match streams.rest() {
            Rest::End(steps) => {
                self.ending = Some(Ending::of(&steps));
                None
            }
            Rest::Wait(due_ns) => Some(due_ns),
            Rest::Blocked | Rest::Idle => None,
        }
    }
}

impl Ending {
    /// The ending of a connection that ends with these steps.
    fn of(steps: &[ConnectionStep]) -> Self {
        if steps.contains(&ConnectionStep::Forget) {
            return Self::Forget;
        }
        Self::Close(if steps.contains(&ConnectionStep::Reset) {
            ErrorCode::INTERNAL_ERROR
        } else {
            ErrorCode::NO_ERROR
        })
    }
}

impl Writer for SectionWriter {
    type Stream = StreamId;

    const IS_HTTP3: bool = true;

    const ENCODING: Encoding = Encoding {
        begin: encode::prefix,
        field: encode::field,
    };

    fn known(context: &mut Context) -> Option<&mut KnownResponses> {
        Some(&mut context.http3_known)
    }

    fn window(&self, stream: StreamId) -> u32 {
        self.0.window(stream)
    }

    fn is_open(&self, stream: StreamId) -> bool {
        self.0.is_open(stream)
    }

    fn pause(&self, stream: StreamId) -> Option<Pause> {
        let is_full = self.0.window(stream) == 0;
        is_full.then_some(Pause::Stream)
    }

    fn sent_bytes(&self) -> u64 {
        self.0.sent_bytes()
    }

    fn send_head(&mut self, stream: StreamId, block: &[u8], ends_stream: bool) {
        self.0.send_head(stream, block, ends_stream);
    }

    fn send_data(
        &mut self,
        stream: StreamId,
        length: u32,
        ends_stream: bool,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        self.0.send_data(stream, length, ends_stream, write);
    }

    fn send_goaway(&mut self) {
        self.0.send_goaway();
    }

    fn split(&mut self, stream: StreamId) {
        self.0.split(stream);
    }
}
