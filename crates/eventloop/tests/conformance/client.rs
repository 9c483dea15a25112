//! Drives a loop with a limit on every wait, and checks the general rules on every completion.

use crate::promises::assert_same;
use eventloop::{
    Address, CloseMode, Completion, EventLoop, Payload, SharedBytes, SocketEvent, SocketOptions,
    Token,
};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;

/// A case that takes longer has failed. This is far above what any case needs, even on a busy
/// machine.
pub(crate) const WAIT_LIMIT_NS: u64 = 30_000_000_000;

/// How long the client waits before it checks the peer's reports again.
const STEP_NS: u64 = 10_000_000;

/// How wrong a timestamp may be on the monotonic clock: the two clocks are read one after the
/// other.
pub(crate) const TIMESTAMP_ERROR_NS: u64 = 20_000;

/// A loop and the state of each of its sockets.
pub(crate) struct Client<L> {
    pub(crate) io: L,
    sockets: HashMap<Token, Socket>,
    accepted: Vec<Token>,
    started_ns: u64,
    /// For sockets of cases that specify no others.
    options: SocketOptions,
}

/// What the client has seen of one socket.
#[derive(Debug, Default)]
pub(crate) struct Socket {
    pub(crate) key: u32,
    pub(crate) connected: bool,
    pub(crate) connect_failed: Option<i32>,
    pub(crate) received: Vec<u8>,
    /// Number of `Received` completions.
    pub(crate) receives: usize,
    /// Bytes that arrived, including discarded ones.
    pub(crate) seen: usize,
    /// Positions in the stream of the bytes that were discarded.
    pub(crate) discarded: Vec<Range<usize>>,
    /// Parts of the stream that the loop is asked to discard when they begin.
    pub(crate) unwanted: Vec<Range<usize>>,
    /// The content expected of the bytes that are handed out.
    pub(crate) expected: Option<Vec<u8>>,
    pub(crate) end_of_stream: bool,
    pub(crate) receive_failed: Option<i32>,
    pub(crate) sent: Vec<Vec<u8>>,
    pub(crate) send_failed: Option<i32>,
    pub(crate) closed: bool,
    /// What a datagram socket received, one by one.
    pub(crate) datagrams: Vec<Vec<u8>>,
    /// How many datagrams its kernel had dropped when the last ones arrived.
    pub(crate) drops: u32,
    /// Errors that a datagram socket reported.
    pub(crate) refusals: Vec<i32>,
    /// For each receive with a timestamp: when the kernel received the bytes, and when the loop
    /// noticed them.
    pub(crate) timestamps: Vec<(u64, u64)>,
    /// Number of discards with a timestamp.
    pub(crate) discard_timestamps: usize,
    started_ns: u64,
    has_timestamps: bool,
    is_datagram: bool,
    closing: bool,
}

impl Socket {
    /// Whether the peer is known to be gone.
    pub(crate) fn broken(&self) -> bool {
        self.receive_failed.is_some() || self.send_failed.is_some()
    }
}

impl<L: EventLoop> Client<L> {
    pub(crate) fn new(io: L, timestamps: bool) -> Self {
        let started_ns = io.now_ns();
        let options = SocketOptions {
            timestamps,
            ..SocketOptions::default()
        };
        Self {
            io,
            sockets: HashMap::new(),
            accepted: Vec::new(),
            started_ns,
            options,
        }
    }

    pub(crate) fn connect(&mut self, key: u32, address: &Address) -> Token {
        let options = self.options.clone();
        self.connect_with(key, address, &options)
    }

    pub(crate) fn connect_with(
        &mut self,
        key: u32,
        address: &Address,
        options: &SocketOptions,
    ) -> Token {
        let started_ns = self.io.now_ns();
        let token = self.io.connect(key, address, options);
        let socket = Socket {
            key,
            started_ns,
            has_timestamps: options.timestamps,
            ..Socket::default()
        };
        let before = self.sockets.insert(token, socket);
        assert!(before.is_none(), "{token:?} was used before");
        token
    }

    /// Connects and waits until the connection is established.
    pub(crate) fn connected(&mut self, key: u32, address: &Address) -> Token {
        let options = self.options.clone();
        self.connected_with(key, address, &options)
    }

    pub(crate) fn connected_with(
        &mut self,
        key: u32,
        address: &Address,
        options: &SocketOptions,
    ) -> Token {
        let token = self.connect_with(key, address, options);
        self.until("the connection", |client| {
            assert_eq!(client.socket(token).connect_failed, None);
            client.socket(token).connected
        });
        token
    }

    /// Opens a datagram socket, with the options of the other sockets.
    pub(crate) fn connect_datagrams(&mut self, key: u32, address: SocketAddr) -> Token {
        let options = self.options.clone();
        self.connect_datagrams_with(key, address, &options)
    }

    pub(crate) fn connect_datagrams_with(
        &mut self,
        key: u32,
        address: SocketAddr,
        options: &SocketOptions,
    ) -> Token {
        let started_ns = self.io.now_ns();
        let token = self.io.connect_datagrams(key, address, options);
        let socket = Socket {
            key,
            started_ns,
            has_timestamps: options.timestamps,
            is_datagram: true,
            ..Socket::default()
        };
        let before = self.sockets.insert(token, socket);
        assert!(before.is_none(), "{token:?} was used before");
        token
    }

    /// Sends datagrams of `segment` bytes each.
    pub(crate) fn send_datagrams(
        &mut self,
        token: Token,
        buffer: impl Into<Vec<u8>>,
        segment: usize,
    ) {
        let payload = Payload::Datagrams {
            buffer: buffer.into(),
            segment: segment.try_into().expect("a length of datagrams"),
        };
        self.io.send(token, payload);
    }

    pub(crate) fn send_owned(&mut self, token: Token, bytes: impl Into<Vec<u8>>) {
        self.io.send(token, Payload::Owned(bytes.into()));
    }

    pub(crate) fn send_shared(&mut self, token: Token, bytes: SharedBytes, range: Range<usize>) {
        self.io.send(token, Payload::Shared { bytes, range });
    }

    pub(crate) fn close(&mut self, token: Token, mode: CloseMode) {
        self.io.close(token, mode);
        self.sockets
            .get_mut(&token)
            .expect("a known socket")
            .closing = true;
    }

    /// Closes and waits for the end.
    pub(crate) fn closed(&mut self, token: Token, mode: CloseMode) {
        self.close(token, mode);
        self.until("the socket is closed", |client| client.socket(token).closed);
    }

    /// Sends FIN after what is queued, waits for the peer's FIN and closes. The peer must close.
    pub(crate) fn closed_after_sending(&mut self, token: Token) {
        self.io.shutdown_send(token);
        self.until("the end of the stream", |client| {
            assert!(!client.socket(token).broken());
            client.socket(token).end_of_stream
        });
        self.closed(token, CloseMode::Graceful);
    }

    pub(crate) fn socket(&self, token: Token) -> &Socket {
        &self.sockets[&token]
    }

    pub(crate) fn received(&self, token: Token) -> &[u8] {
        &self.sockets[&token].received
    }

    pub(crate) fn accepted(&self) -> &[Token] {
        &self.accepted
    }

    /// Waits once and takes all completions.
    pub(crate) fn turn(&mut self, until_ns: u64) {
        self.io.wait(Some(until_ns)).expect("the loop works");
        while let Some(completion) = self.io.next() {
            self.take(completion);
        }
    }

    /// Takes what has completed by now.
    pub(crate) fn turn_at_once(&mut self) {
        let now_ns = self.io.now_ns();
        self.turn(now_ns);
    }

    /// The error of a connection that fails.
    pub(crate) fn connect_error(&mut self, token: Token) -> Option<i32> {
        self.until("the failure", |it| {
            it.socket(token).connect_failed.is_some()
        });
        self.socket(token).connect_failed
    }

    /// The error that ends receiving.
    pub(crate) fn receive_error(&mut self, token: Token) -> Option<i32> {
        self.until("the reset", |it| it.socket(token).receive_failed.is_some());
        self.socket(token).receive_failed
    }

    /// Continues until `done`, or fails.
    pub(crate) fn until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let give_up_ns = self.io.now_ns() + WAIT_LIMIT_NS;
        while !done(self) {
            let now_ns = self.io.now_ns();
            assert!(now_ns < give_up_ns, "{what} never happened");
            self.turn(give_up_ns.min(now_ns + STEP_NS));
        }
    }

    fn take(&mut self, completion: Completion) {
        let Completion {
            key,
            token,
            at_ns,
            event,
        } = completion;
        let now_ns = self.io.now_ns();
        assert!(
            (self.started_ns..=now_ns).contains(&at_ns),
            "{at_ns} is not between the start {} and now {now_ns}",
            self.started_ns
        );
        if matches!(event, SocketEvent::Accepted) {
            let connected = true;
            let socket = Socket {
                key,
                connected,
                ..Socket::default()
            };
            assert!(self.sockets.insert(token, socket).is_none());
            self.accepted.push(token);
            return;
        }
        let bytes = self.io.received();
        let segment = self.io.received_segment();
        let drops = self.io.received_drops();
        let delay_ns = self.io.receive_delay_ns();
        let socket = self.sockets.get_mut(&token).expect("a known token");
        assert_eq!(key, socket.key, "the key is the caller's");
        if let Some(delay_ns) = delay_ns {
            let is_about_bytes =
                matches!(event, SocketEvent::Received(_) | SocketEvent::Discarded(_));
            assert!(is_about_bytes, "{event:?}");
            socket.take_timestamp(delay_ns, at_ns);
            socket.discard_timestamps += usize::from(matches!(event, SocketEvent::Discarded(_)));
        }
        if segment.is_some() {
            socket.drops = drops;
        }
        if socket.is_datagram {
            socket.take_datagrams(token, event, bytes, segment)
        } else {
            assert_eq!(segment, None, "{token:?} is a stream");
            socket.take(token, event, bytes);
        }
        let now_unwanted = socket
            .unwanted
            .iter()
            .find(|part| part.contains(&socket.seen));
        if let Some(part) = now_unwanted
            && !socket.closing
        {
            let bytes = part.end - socket.seen;
            self.io.discard(token, bytes as u64);
        }
    }

    /// Makes the loop discard these parts of the stream `whole` that the socket receives.
    pub(crate) fn discard(&mut self, token: Token, unwanted: Vec<Range<usize>>, whole: Vec<u8>) {
        let socket = self.sockets.get_mut(&token).expect("a known socket");
        socket.unwanted = unwanted;
        socket.expected = Some(whole);
    }
}

impl Socket {
    fn take(&mut self, token: Token, event: SocketEvent, bytes: &[u8]) {
        let said = format!("{token:?} said {event:?} in state {:?}", self.brief());
        let over = self.closed || self.connect_failed.is_some();
        assert!(!over, "after its end, {said}");
        // A connection that fails while it is being closed may report either, but only once.
        let is_end = matches!(event, SocketEvent::Closed | SocketEvent::ConnectFailed(_));
        assert!(!self.closing || is_end, "after close, {said}");
        match event {
            SocketEvent::Connected => {
                assert!(!std::mem::replace(&mut self.connected, true), "{said}");
            }
            SocketEvent::ConnectFailed(errno) => {
                assert!(!self.connected && errno > 0, "{said}");
                self.connect_failed = Some(errno);
            }
            SocketEvent::Received(length) => {
                assert!(self.connected && !self.end_of_stream, "{said}");
                assert!(self.receive_failed.is_none(), "{said}");
                assert!(length > 0 && bytes.len() == length, "{said}");
                if let Some(expected) = &self.expected {
                    assert_same(bytes, &expected[self.seen..self.seen + length]);
                }
                self.received.extend_from_slice(bytes);
                self.receives += 1;
                self.seen += length;
            }
            SocketEvent::Discarded(length) => {
                assert!(self.connected && !self.end_of_stream, "{said}");
                assert!(self.receive_failed.is_none(), "{said}");
                assert!(length > 0 && bytes.is_empty(), "{said}");
                let discarded = self.seen..self.seen + length as usize;
                let within = |part: &Range<usize>| {
                    part.start <= discarded.start && discarded.end <= part.end
                };
                assert!(self.unwanted.iter().any(within), "{said}: {discarded:?}");
                self.seen = discarded.end;
                self.discarded.push(discarded);
            }
            SocketEvent::Postponed => {
                assert!(self.connected && !self.end_of_stream, "{said}");
                assert!(self.receive_failed.is_none(), "{said}");
            }
            SocketEvent::EndOfStream => {
                assert!(self.connected && self.receive_failed.is_none(), "{said}");
                assert!(!std::mem::replace(&mut self.end_of_stream, true), "{said}");
            }
            SocketEvent::ReceiveFailed(errno) => {
                assert!(self.connected && !self.end_of_stream && errno > 0, "{said}");
                assert_eq!(self.receive_failed.replace(errno), None, "{said}");
            }
            SocketEvent::Sent(buffer) => {
                assert!(self.connected, "{said}");
                self.sent.push(buffer);
            }
            SocketEvent::SendFailed(errno) => {
                assert!(self.connected && errno > 0, "{said}");
                self.send_failed = Some(errno);
            }
            SocketEvent::Closed => {
                assert!(self.closing, "{said}");
                self.closed = true;
            }
            SocketEvent::Accepted => unreachable!("taken by the client"),
        }
    }

    /// The rules of datagram sockets, beside those of all sockets.
    fn take_datagrams(
        &mut self,
        token: Token,
        event: SocketEvent,
        bytes: &[u8],
        segment: Option<usize>,
    ) {
        let said = format!("{token:?} said {event:?} in state {:?}", self.brief());
        match event {
            SocketEvent::Received(_) => {
                let segment = segment.expect("the length of the datagrams");
                assert!((1..=bytes.len()).contains(&segment), "{segment}: {said}");
                let datagrams = bytes.chunks(segment).map(<[u8]>::to_vec);
                self.datagrams.extend(datagrams);
                self.take(token, event, bytes);
            }
            SocketEvent::ReceiveFailed(errno) => {
                assert!(!self.closing && segment.is_none(), "{said}");
                self.refusals.push(errno);
            }
            SocketEvent::EndOfStream
            | SocketEvent::SendFailed(_)
            | SocketEvent::Discarded(_)
            | SocketEvent::Accepted => panic!("{said}"),
            SocketEvent::Connected
            | SocketEvent::ConnectFailed(_)
            | SocketEvent::Sent(_)
            | SocketEvent::Postponed
            | SocketEvent::Closed => {
                assert_eq!(segment, None, "{said}");
                self.take(token, event, bytes);
            }
        }
    }

    fn take_timestamp(&mut self, delay_ns: u64, at_ns: u64) {
        assert!(self.has_timestamps, "timestamps were not enabled");
        let timestamp_ns = at_ns.checked_sub(delay_ns).expect("a timestamp since boot");
        assert!(
            timestamp_ns + TIMESTAMP_ERROR_NS >= self.started_ns,
            "received at {timestamp_ns}, and not connected before {}",
            self.started_ns
        );
        self.timestamps.push((timestamp_ns, at_ns));
    }

    /// The state without the bytes, for messages.
    fn brief(&self) -> impl std::fmt::Debug {
        (
            self.connected,
            self.received.len(),
            self.end_of_stream,
            self.receive_failed,
            self.closed,
        )
    }
}
