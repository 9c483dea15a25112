//! Feeds a session with pieces of input and collects what it says.

use protocol::h1::{H1, Limits, Shared};
use protocol::{Event, RequestKind, Response, Session, SessionError};

/// What came of one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Finished responses in order.
    pub(crate) responses: Vec<Response>,
    /// How often `Began` was said.
    pub(crate) began: usize,
    /// The error of `receive` or, if that had none, of `end`.
    pub(crate) error: Option<SessionError>,
    /// Bytes that no finished response has, when the input and the connection have ended.
    pub(crate) partial_bytes: u64,
}

impl Outcome {
    /// Everything that must not depend on how the input was cut.
    pub(crate) fn without_began(mut self) -> Self {
        self.began = 0;
        self
    }
}

pub(crate) fn shared(capture: bool) -> Shared {
    Shared::new(Limits::default(), capture)
}

/// One connection from `begin` to the close of the peer.
pub(crate) fn converse(shared: &mut Shared, kinds: &[RequestKind], pieces: &[&[u8]]) -> Outcome {
    let mut session = H1::new(shared);
    converse_with(&mut session, shared, kinds, pieces)
}

/// The same on a session that may have served before.
pub(crate) fn converse_with(
    session: &mut H1,
    shared: &mut Shared,
    kinds: &[RequestKind],
    pieces: &[&[u8]],
) -> Outcome {
    conduct(session, shared, kinds, pieces, H1::receive)
}

/// One connection of which the bytes that nobody wants are thrown away, at the begin of each piece.
pub(crate) fn converse_skipping(
    shared: &mut Shared,
    kinds: &[RequestKind],
    pieces: &[&[u8]],
) -> Outcome {
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

/// Gives a session a piece of what the peer sent.
type Feed =
    fn(&mut H1, &mut Shared, &[u8], &mut Vec<u8>, &mut Vec<Event>) -> Result<(), SessionError>;

fn conduct(
    session: &mut H1,
    shared: &mut Shared,
    kinds: &[RequestKind],
    pieces: &[&[u8]],
    feed: Feed,
) -> Outcome {
    let (mut output, mut events) = (Vec::new(), Vec::new());
    session
        .begin(shared, &mut output)
        .expect("plain sessions begin");
    kinds.iter().for_each(|kind| session.expect(*kind));
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
        .filter(|event| **event == Event::Began)
        .count();
    let responses = events.into_iter().filter_map(finished).collect();
    Outcome {
        responses,
        began,
        error,
        partial_bytes,
    }
}

/// All ways to cut `input` in two, and one piece for each byte.
pub(crate) fn cuts(input: &[u8]) -> impl Iterator<Item = Vec<&[u8]>> {
    let in_two = (0..=input.len()).map(|at| vec![&input[..at], &input[at..]]);
    in_two.chain(std::iter::once(input.chunks(1).collect()))
}

fn finished(event: Event) -> Option<Response> {
    match event {
        Event::Finished(response) => Some(response),
        Event::Ready(_) => panic!("plain sessions have no handshake"),
        Event::Began => None,
    }
}
