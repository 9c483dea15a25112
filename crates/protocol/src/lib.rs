//! Bytes in, bytes out: protocol state without sockets, clocks or threads.

#![forbid(unsafe_code)]

mod captured;
mod error;
pub mod h1;
pub mod tls;

pub use captured::{Captured, Fields};
pub use error::SessionError;

/// What a request means for the framing of its response (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// Any method whose response is framed by its own headers.
    Plain,
    /// HEAD: the response has no body whatever its headers say.
    Head,
    /// CONNECT: a 2xx response has no body.
    Connect,
}

/// A response that is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// Status code of the final response, 200..=999.
    pub status: u16,
    /// Whether the connection may carry another exchange after this one.
    pub reusable: bool,
    /// Bytes of this response: interim responses, head, framing, body and trailers; inside TLS, the
    /// plaintext.
    pub bytes: u64,
    /// Present when the session was told to capture.
    pub captured: Option<Box<Captured>>,
}

/// What a session learned from the bytes it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The handshake is finished, requests may be sent. Sessions without one never say it.
    Ready(Handshake),
    /// The oldest outstanding response has begun, but was not finished within the same call.
    /// A response that arrives whole in one call yields only `Finished`.
    Began,
    /// The oldest outstanding request is answered.
    Finished(Response),
}

/// How a TLS handshake went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handshake {
    /// A session ticket saved the certificate exchange.
    pub resumed: bool,
    /// 0x0303 is TLS 1.2, 0x0304 is TLS 1.3 (RFC 8446 section 4.2.1).
    pub version: u16,
}

/// One connection's protocol state, driven by its owner: it is told what happened and says what to
/// send. One value serves a connection slot for the whole run; `begin` starts it afresh.
///
/// Order of calls: `begin`; then, once [`Session::is_ready`], any number of `expect` (one for each
/// request) with `encode`; `receive` for all bytes of the peer; `end` when the peer has closed.
/// After an error the connection is to be closed; events reported before the error hold.
pub trait Session: Sized {
    /// What all sessions of a worker have in common: settings, limits, caches.
    type Shared;

    /// True when `encode` would copy its input unchanged, so that the owner may send request bytes
    /// without it.
    const TRANSPARENT: bool;

    /// A session that has not begun.
    fn new(shared: &mut Self::Shared) -> Self;

    /// A connection has been established; appends the first bytes to send (TLS: ClientHello).
    ///
    /// # Errors
    /// When no session can be set up.
    fn begin(
        &mut self,
        shared: &mut Self::Shared,
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError>;

    /// Whether requests may be sent now.
    fn is_ready(&self) -> bool;

    /// One more response is expected, after those already outstanding.
    fn expect(&mut self, kind: RequestKind);

    /// Appends the wire form of request bytes to `output`.
    ///
    /// # Errors
    /// When the session cannot send.
    fn encode(&mut self, plain: &[u8], output: &mut Vec<u8>) -> Result<(), SessionError>;

    /// Takes bytes of the peer, appends events, and appends to `output` what must be sent at once
    /// (handshake messages, alerts; mostly nothing).
    ///
    /// # Errors
    /// When the peer broke the protocol.
    fn receive(
        &mut self,
        shared: &mut Self::Shared,
        input: &[u8],
        output: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError>;

    /// How many of the bytes that come next are content of a body that nobody wants: instead of being
    /// handed to `receive` they may be thrown away and counted by `skip`. 0 when every byte is needed.
    fn skippable_bytes(&self) -> u64 {
        0
    }

    /// So many bytes of the peer have come and were thrown away; at most [`Self::skippable_bytes`].
    fn skip(&mut self, bytes: u64, events: &mut Vec<Event>) {
        let _ = (bytes, events);
    }

    /// The peer has closed. Finishes a response that is delimited by the close; closing with nothing
    /// outstanding is fine.
    ///
    /// # Errors
    /// When a response was outstanding and is not complete.
    fn end(
        &mut self,
        shared: &mut Self::Shared,
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError>;

    /// Bytes of the oldest outstanding response that have arrived so far.
    fn partial_bytes(&self) -> u64;

    /// Where the first redirect points to that any session of these has met: its Location. `None` without a redirect.
    fn redirect_location(shared: &Self::Shared) -> Option<&str>;
}
