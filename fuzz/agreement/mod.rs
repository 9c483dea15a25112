//! Compares the session, fed with pieces of an input, with the naive decoder, fed with all of it.

#[path = "../../crates/protocol/tests/h1/naive.rs"]
mod naive;

use naive::{Ending, NaiveResponse};
use protocol::h1::{H1, H1Context, Limits};
use protocol::{Event, ExchangeId, RequestKind, Requests, Response, Session, SessionError};

/// Panics if the two disagree, or if the session decodes the input differently once it has cached
/// the heads.
///
/// The naive decoder has no size limits, so the input must stay below all of them.
pub fn check(kinds: &[RequestKind], input: &[u8], cuts: &[u8]) {
    let (expected, expected_ending) = naive::decode(kinds, input);
    let pieces = pieces(input, cuts);
    let (captured, error) = converse(&mut shared(true), kinds, &pieces);
    let found: Vec<NaiveResponse> = captured.iter().map(NaiveResponse::from).collect();
    assert_eq!(found, expected);
    assert_eq!(Ending::of(error.as_ref()), expected_ending, "{error:?}");

    let (whole, whole_error) = converse(&mut shared(true), kinds, &[input]);
    assert_eq!((&whole, &whole_error), (&captured, &error));

    let mut plain = shared(false);
    for _ in 0..2 {
        let (responses, plain_error) = converse(&mut plain, kinds, &pieces);
        let brief = |r: &Response| (r.status, r.reusable, r.bytes);
        let found: Vec<_> = responses.iter().map(brief).collect();
        let expected: Vec<_> = captured.iter().map(brief).collect();
        assert_eq!((found, &plain_error), (expected, &error));
    }
}

fn shared(capture: bool) -> H1Context {
    H1Context::new(Limits::default(), capture)
}

/// `input` cut where the bytes of `cuts` say, as fractions of its length.
fn pieces<'i>(input: &'i [u8], cuts: &[u8]) -> Vec<&'i [u8]> {
    let places = cuts.iter().map(|cut| usize::from(*cut) * input.len() / 255);
    naive::cut(input, places)
}

fn converse(
    shared: &mut H1Context,
    kinds: &[RequestKind],
    pieces: &[&[u8]],
) -> (Vec<Response>, Option<SessionError>) {
    let mut session = H1::new(shared);
    let (mut output, mut events) = (Vec::new(), Vec::new());
    session
        .begin(shared, &mut output)
        .expect("plain sessions begin");
    let requests = Requests {
        text: b"",
        prepared: kinds,
    };
    session
        .start(shared, ExchangeId(0), requests, &mut output)
        .expect("plain sessions can always send");
    let error = pieces
        .iter()
        .try_for_each(|piece| session.receive(shared, piece, &mut output, &mut events))
        .and_then(|()| session.end(shared, &mut events))
        .err();
    let responses: Vec<Response> = events.into_iter().filter_map(finished).collect();
    let counted: u64 = responses.iter().map(|response| response.bytes).sum();
    let fed: usize = pieces.iter().map(|piece| piece.len()).sum();
    if matches!(error, None | Some(SessionError::Truncated)) {
        assert_eq!(
            counted + session.partial_bytes(),
            fed as u64,
            "every byte belongs somewhere"
        );
    }
    (responses, error)
}

fn finished(event: Event) -> Option<Response> {
    match event {
        Event::Finished(_, response) => Some(response),
        _ => None,
    }
}
