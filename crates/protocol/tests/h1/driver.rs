//! Feeds a session with pieces of input and collects its events.

use protocol::h1::{H1, H1Context, Limits};
use protocol::{Event, ExchangeId, RequestKind, Requests, Response, Session, SessionError};

/// The events of one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conversation {
    /// Finished responses in order.
    pub(crate) responses: Vec<Response>,
    /// Number of `Began` events.
    pub(crate) began: usize,
    /// The error of `receive` or, without one, of `end`.
    pub(crate) error: Option<SessionError>,
    /// Bytes that belong to no finished response when the connection has ended.
    pub(crate) partial_bytes: u64,
}

impl Conversation {
    /// Everything that must not depend on how the input is split.
    pub(crate) fn without_began(mut self) -> Self {
        self.began = 0;
        self
    }
}

pub(crate) fn shared(capture: bool) -> H1Context {
    H1Context::new(Limits::default(), capture)
}

/// One connection from `begin` to the close by the peer.
pub(crate) fn converse(
    shared: &mut H1Context,
    kinds: &[RequestKind],
    pieces: &[&[u8]],
) -> Conversation {
    let mut session = H1::new(shared);
    converse_with(&mut session, shared, kinds, pieces)
}

/// The same, with a session that may have been used before.
pub(crate) fn converse_with(
    session: &mut H1,
    shared: &mut H1Context,
    kinds: &[RequestKind],
    pieces: &[&[u8]],
) -> Conversation {
    conduct(session, shared, kinds, pieces, H1::receive)
}

/// One connection whose unneeded bytes are thrown away at the beginning of each piece.
pub(crate) fn converse_skipping(
    shared: &mut H1Context,
    kinds: &[RequestKind],
    pieces: &[&[u8]],
) -> Conversation {
    let mut session = H1::new(shared);
    conduct(
        &mut session,
        shared,
        kinds,
        pieces,
        |session, shared, piece, output, events| {
            let skipped = session.skippable_bytes().min(piece.len() as u64);
            assert!(
                skipped == 0 || !shared.capture,
                "captured bodies are wanted"
            );
            session.skip(skipped, events);
            session.receive(shared, &piece[skipped as usize..], output, events)
        },
    )
}

/// Passes a piece of the peer's bytes to a session.
type Feed =
    fn(&mut H1, &mut H1Context, &[u8], &mut Vec<u8>, &mut Vec<Event>) -> Result<(), SessionError>;

fn conduct(
    session: &mut H1,
    shared: &mut H1Context,
    kinds: &[RequestKind],
    pieces: &[&[u8]],
    feed: Feed,
) -> Conversation {
    let (mut output, mut events) = (Vec::new(), Vec::new());
    session
        .begin(shared, &mut output)
        .expect("plain sessions begin");
    start(session, shared, kinds);
    let received = pieces
        .iter()
        .try_for_each(|piece| feed(session, shared, piece, &mut output, &mut events));
    let error = received
        .and_then(|()| session.end(shared, &mut events))
        .err();
    let partial_bytes = session.partial_bytes();
    assert!(
        output.is_empty(),
        "an HTTP/1 session sends nothing on its own"
    );
    let began = events
        .iter()
        .filter(|event| matches!(event, Event::Began(_)))
        .count();
    let responses = events.into_iter().filter_map(finished).collect();
    Conversation {
        responses,
        began,
        error,
        partial_bytes,
    }
}

/// All ways to split `input` in two, and one piece per byte.
pub(crate) fn cuts(input: &[u8]) -> impl Iterator<Item = Vec<&[u8]>> {
    let in_two = (0..=input.len()).map(|at| vec![&input[..at], &input[at..]]);
    in_two.chain(std::iter::once(input.chunks(1).collect()))
}

/// Starts one exchange with requests of these kinds.
pub(crate) fn start(session: &mut H1, shared: &mut H1Context, kinds: &[RequestKind]) {
    let requests = Requests {
        text: b"",
        prepared: kinds,
    };
    session
        .start(shared, ExchangeId(0), requests, &mut Vec::new())
        .expect("plain sessions can always send");
}

fn finished(event: Event) -> Option<Response> {
    match event {
        Event::Finished(_, response) => Some(response),
        Event::Ready(_) | Event::ProxyReady => panic!("plain sessions have no handshake"),
        Event::Began(_) | Event::Streamed(..) | Event::StreamEnded(..) | Event::Said(..) => None,
        Event::Failed(..) | Event::Draining => panic!("HTTP/1 connections fail as a whole"),
    }
}
