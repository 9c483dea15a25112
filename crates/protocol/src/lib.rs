//! Protocol state without sockets, clocks or threads: bytes in, bytes out.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod captured;
pub mod datagrams;
mod error;
pub mod h1;
pub mod h2;
pub mod h3;
pub mod llm;
pub mod proxy;
pub mod request;
pub mod server_timing;
mod stream_events;
mod stream_head;
mod stream_reader;
pub mod tls;

pub use captured::{Captured, Fields};
pub use error::SessionError;
pub use stream_events::{EventSink, EventSplitter, SplitTotal, StreamSpec};
pub use stream_reader::{Found, Said, StreamReader, StreamTotal};

use request::RequestText;

/// How a request affects the framing of its response (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// Any method whose response is framed by its own headers.
    Plain,
    /// HEAD: the response has no body, whatever its headers say.
    Head,
    /// CONNECT: a 2xx response has no body.
    Connect,
}

/// Names an exchange of a connection: a request and its response. The owner of the session chooses
/// the numbers. They are small, and are used again once the exchange has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeId(pub u32);

/// Requests to be sent together.
#[derive(Debug)]
pub struct Requests<'a, P> {
    /// The requests as HTTP/1.1 text, one after the other.
    pub text: &'a [u8],
    /// What [`Session::prepare`] has made of each.
    pub prepared: &'a [P],
}

impl<P> Clone for Requests<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Requests<'_, P> {}

/// A complete response, as its session reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// Status code of the final response, 200..=999.
    pub status: u16,
    /// Whether the connection may carry another exchange after this one.
    pub reusable: bool,
    /// Bytes of this response: interim responses, head, framing, body and trailers. Inside TLS, the
    /// plaintext.
    pub bytes: u64,
    /// Present if the session captures responses.
    pub captured: Option<Box<Captured>>,
}

/// What a session learned from its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The handshake is complete, and requests may be sent. Sessions without a handshake never
    /// report it.
    Ready(Handshake),
    /// A response has begun, but did not end within the same call. A response that arrives as a
    /// whole in one call yields only `Finished`.
    Began(ExchangeId),
    /// Events of a streaming response have arrived; at least one. Only if the session is told to
    /// split responses ([`StreamSpec`]).
    Streamed(ExchangeId, Found),
    /// A streaming response is complete; `Finished` follows. Only if the session is told to split
    /// responses, and only after a status of 2xx.
    StreamEnded(ExchangeId, StreamTotal),
    /// What a language model's server said; `Finished` follows. Only if the session is told to read
    /// such streams.
    Said(ExchangeId, Box<Said>),
    /// A response is complete. An exchange with several requests has one for each.
    Finished(ExchangeId, Response),
    /// An exchange has failed, but the connection goes on.
    Failed(ExchangeId, Box<Failure>),
    /// The server accepts no further exchange on this connection. Those in flight go on.
    Draining,
    /// The proxy now passes on to the target what is sent.
    ProxyReady,
}

/// How an exchange has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The reason of the failure.
    pub error: SessionError,
    /// Bytes of the response that had arrived.
    pub bytes: u64,
    /// The response as far as it had arrived, where responses are captured.
    pub captured: Option<Box<Captured>>,
}

/// The result of a TLS handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handshake {
    /// A session ticket made the certificate exchange unnecessary.
    pub resumed: bool,
    /// 0x0303 is TLS 1.2, 0x0304 is TLS 1.3 (RFC 8446 section 4.2.1).
    pub version: u16,
}

/// What carries the bytes of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A stream of bytes in order, such as TCP.
    Stream,
    /// Datagrams, such as UDP. They may be lost, doubled and reordered.
    Datagrams,
}

/// The protocol state of one connection. Its owner reports what happened, and the session returns
/// what to send. One value serves a connection slot for the whole run; `begin` resets it.
///
/// Order of calls: `begin`; then, once [`Session::is_ready`], any number of `start`; `receive` for
/// all bytes of the peer; `end` when the peer has closed. After an error the connection must be
/// closed. Events reported before the error remain valid.
///
/// A session over [`Transport::Datagrams`] differs:
/// - It must know the time: [`Session::at`] comes before any other call, whenever time has passed.
/// - `receive` is called once for each datagram.
/// - What a session appends to its output are batches of datagrams ([`datagrams`]). The owner sends
///   each batch on its own, and may drop what the kernel does not take: the session then sends it
///   again.
/// - `start`, `cancel`, `receive` and `handle_timeout` only note what is to be sent, so that it
///   shares datagrams. [`Session::flush`] appends it; it comes after the last of these calls that
///   can be made now.
/// - It has timers: `handle_timeout` is due at [`Session::next_timeout_ns`].
/// - Nothing but the session can tell that the peer has closed: [`Session::has_ended`]. The owner
///   then calls `end`.
pub trait Session: Sized {
    /// What all sessions of one worker have in common: settings, limits, caches and buffers. The
    /// owner keeps one and lends it to each call, so that a session holds only what differs between
    /// connections.
    type Context;

    /// A request in the form that is fastest to send.
    type Prepared;

    /// True for HTTP/1, which sends requests as text. An exchange may then have several requests
    /// (pipelining). Otherwise it has one.
    const SENDS_TEXT: bool;

    /// True if the text is sent as it is: `start` appends nothing, and the owner sends
    /// [`Requests::text`] itself.
    const TRANSPARENT: bool;

    /// What carries the bytes of the session.
    const TRANSPORT: Transport = Transport::Stream;

    /// A session that has not begun.
    fn new(context: &mut Self::Context) -> Self;

    /// Prepares a request, which may then be sent any number of times on any connection.
    fn prepare(context: &mut Self::Context, request: &RequestText<'_>) -> Self::Prepared;

    /// A connection has been established. Appends the first bytes to send (TLS: ClientHello).
    ///
    /// # Errors
    /// If no session can be set up.
    fn begin(
        &mut self,
        context: &mut Self::Context,
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError>;

    /// The time, in nanoseconds since any fixed moment. It never goes back. Only sessions with
    /// timers need it.
    #[inline]
    fn at(context: &mut Self::Context, now_ns: u64) {
        let _ = (context, now_ns);
    }

    /// The connection that is established next is to this host of the run, counted from 0.
    fn select_host(_context: &mut Self::Context, _host: u32) {}

    /// Whether requests may be sent now.
    fn is_ready(&self) -> bool;

    /// How many more exchanges may be started now, as far as the protocol limits them.
    #[inline]
    fn capacity(&self) -> u32 {
        u32::MAX
    }

    /// Starts an exchange. Appends its requests to `output`, unless the session is
    /// [`Self::TRANSPARENT`].
    ///
    /// # Errors
    /// If the session cannot send.
    fn start(
        &mut self,
        context: &mut Self::Context,
        exchange: ExchangeId,
        requests: Requests<'_, Self::Prepared>,
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError>;

    /// Abandons an exchange. Returns false if only closing the connection can do so.
    ///
    /// # Errors
    /// If the session cannot send.
    fn cancel(
        &mut self,
        context: &mut Self::Context,
        exchange: ExchangeId,
        output: &mut Vec<u8>,
    ) -> Result<bool, SessionError> {
        let _ = (context, exchange, output);
        Ok(false)
    }

    /// The kernel has taken all output so far. Appends what was held back, so that it does not fill
    /// the memory.
    ///
    /// # Errors
    /// If the session cannot send.
    fn resume(
        &mut self,
        context: &mut Self::Context,
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        let _ = (context, output);
        Ok(())
    }

    /// Nothing more happens at this moment. Appends what was put off in order to be sent together.
    ///
    /// # Errors
    /// If the session cannot send.
    #[inline]
    fn flush(
        &mut self,
        context: &mut Self::Context,
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        let _ = (context, output);
        Ok(())
    }

    /// When [`Self::handle_timeout`] is due, if nothing happens before. Any other call may change
    /// it. `None` if the session waits for nothing.
    #[inline]
    fn next_timeout_ns(&self) -> Option<u64> {
        None
    }

    /// The time of [`Self::next_timeout_ns`] has come. It is harmless to call this too early.
    ///
    /// # Errors
    /// If the connection is lost, because the peer has not answered for too long.
    #[inline]
    fn handle_timeout(
        &mut self,
        context: &mut Self::Context,
        now_ns: u64,
        output: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError> {
        let _ = (context, now_ns, output, events);
        Ok(())
    }

    /// Whether the connection has ended without an error, in a session over datagrams.
    #[inline]
    fn has_ended(&self) -> bool {
        false
    }

    /// The owner is about to close the connection. Appends what the protocol sends before that.
    fn close(&mut self, context: &mut Self::Context, output: &mut Vec<u8>) {
        let _ = (context, output);
    }

    /// Processes bytes of the peer and appends events. Appends to `output` what must be sent at
    /// once (handshake messages and alerts; usually nothing).
    ///
    /// # Errors
    /// If the peer violated the protocol.
    fn receive(
        &mut self,
        context: &mut Self::Context,
        input: &[u8],
        output: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError>;

    /// How many of the next bytes are content of a body that is not needed. Instead of being passed
    /// to `receive`, they may be thrown away and counted by `skip`. 0 if every byte is needed.
    fn skippable_bytes(&self) -> u64 {
        0
    }

    /// This many bytes of the peer have arrived and were thrown away, at most
    /// [`Self::skippable_bytes`].
    fn skip(&mut self, bytes: u64, events: &mut Vec<Event>) {
        let _ = (bytes, events);
    }

    /// The peer has closed. Completes a response that is delimited by the close. A close with
    /// nothing outstanding is fine.
    ///
    /// # Errors
    /// If an outstanding response is not complete.
    fn end(
        &mut self,
        context: &mut Self::Context,
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError>;

    /// The error if the connection is lost now, if the session has one of its own: while a
    /// handshake is in progress.
    fn interruption(&self, context: &Self::Context) -> Option<SessionError> {
        let _ = context;
        None
    }

    /// What the peer has not sent, although the connection cannot be used before: a phrase such as
    /// "the server sent no SETTINGS". `None` if the session is ready, or has no handshake.
    fn awaits(&self) -> Option<&'static str> {
        None
    }

    /// Bytes of incomplete responses that have arrived so far.
    fn partial_bytes(&self) -> u64;

    /// The Location of the first redirect that any of these sessions has received. `None` without a
    /// redirect.
    fn redirect_location(context: &Self::Context) -> Option<&str>;

    /// What the connection can tell about its packets. `None` before `begin`, and where the kernel
    /// has the packets.
    fn statistics(&self) -> Option<h3::Statistics> {
        None
    }

    /// How many exchanges the server allows on a connection, if that is fewer than wanted.
    fn streams_limit(context: &Self::Context) -> Option<u32> {
        let _ = context;
        None
    }
}
