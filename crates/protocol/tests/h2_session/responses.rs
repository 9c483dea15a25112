//! Responses of a server that keeps the rules.

use crate::peer::{GET, Peer, Received, answer, head};
use crate::written::block;
use protocol::h2::frame::{flag, kind};
use protocol::h2::writer;
use protocol::{Event, ExchangeId, Session, SessionError};

#[test]
fn responses_arrive_in_any_order() {
    let mut peer = Peer::ready(3);
    let exchanges = [GET; 3].map(|request| peer.request(request));
    peer.send(|output| {
        answer(5, "200", "abc", output);
        answer(1, "404", "", output);
        answer(3, "500", "x", output);
    });
    let finished = peer.events().into_iter().map(|event| match event {
        Event::Finished(exchange, response) => (exchange, response.status),
        other => panic!("{other:?}"),
    });
    let expected = [
        (exchanges[2], 200),
        (exchanges[0], 404),
        (exchanges[1], 500),
    ];
    assert_eq!(finished.collect::<Vec<_>>(), expected);
}

/// Two responses in all kinds of frames. The second one has an interim response, padding,
/// CONTINUATION, two frames of DATA and trailers.
fn conversation() -> Vec<u8> {
    let mut input = Vec::new();
    answer(1, "200", "hello", &mut input);
    writer::ping([7; 8], false, &mut input);
    head(
        3,
        &[(":status", "103"), ("link", "</style.css>")],
        false,
        &mut input,
    );
    let fields = block(&[(":status", "200"), ("x", "y"), ("content-length", "9")]);
    let (first, second) = fields.split_at(3);
    writer::padded(kind::HEADERS, 0, 3, first, 5, &mut input);
    writer::frame(kind::CONTINUATION, flag::END_HEADERS, 3, second, &mut input);
    writer::padded(kind::DATA, 0, 3, b"some", 3, &mut input);
    writer::frame(0x77, 0xff, 3, b"of an unknown type", &mut input);
    writer::data(3, b" more", false, &mut input);
    head(3, &[("x-trailer", "1")], true, &mut input);
    input
}

#[test]
fn responses_are_the_same_however_they_are_cut() {
    let input = conversation();
    let responses = |pieces: &[&[u8]]| {
        let mut peer = Peer::ready(2);
        peer.request(GET);
        peer.request(GET);
        peer.received();
        for piece in pieces {
            assert_eq!(peer.deliver(piece), Ok(()));
        }
        assert_eq!(peer.received(), [Received::Pong([7; 8])]);
        assert_eq!(peer.session.partial_bytes(), 0);
        let events = peer.events().into_iter();
        let finished = events.filter_map(|event| match event {
            Event::Finished(exchange, response) => Some((exchange, response)),
            Event::Began(_) => None,
            other => panic!("{other:?}"),
        });
        finished.collect::<Vec<_>>()
    };
    let whole = responses(&[&input]);
    assert_eq!(whole.len(), 2);
    let bytes: u64 = whole.iter().map(|(_, response)| response.bytes).sum();
    let ping = 9 + 8;
    assert_eq!(bytes, input.len() as u64 - ping);
    for cut in 0..=input.len() {
        assert_eq!(responses(&[&input[..cut], &input[cut..]]), whole, "{cut}");
    }
    let bytes: Vec<&[u8]> = input.chunks(1).collect();
    assert_eq!(responses(&bytes), whole);
}

#[test]
fn a_response_in_two_pieces_is_reported_as_begun_once() {
    let mut peer = Peer::ready(1);
    let exchange = peer.request(GET);
    peer.send(|output| head(1, &[(":status", "200")], false, output));
    assert_eq!(peer.events(), [Event::Began(exchange)]);
    peer.send(|output| writer::data(1, b"x", false, output));
    assert_eq!(peer.events(), []);
    peer.send(|output| writer::data(1, b"", true, output));
    assert_eq!(peer.response().0, exchange);
}

#[test]
fn a_captured_response_has_its_fields_trailers_and_body() {
    let mut peer = Peer::capturing();
    for _ in 0..2 {
        let exchange = peer.request(GET);
        let stream = 1 + 2 * exchange.0;
        peer.send(|output| {
            head(
                stream,
                &[(":status", "200"), ("a", "1"), ("a", "2")],
                false,
                output,
            );
            writer::data(stream, b"body", false, output);
            head(stream, &[("grpc-status", "0")], true, output);
        });
        let (_, response) = peer.response();
        let captured = response.captured.expect("it captures");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let fields = captured.headers.iter();
        let fields: Vec<_> = fields
            .map(|(name, value)| text(name) + "=" + &text(value))
            .collect();
        assert_eq!(fields, ["a=1", "a=2", "grpc-status=0"]);
        assert_eq!(
            (captured.status, captured.body.as_slice()),
            (200, b"body".as_slice())
        );
    }
}

#[test]
fn a_body_too_large_to_capture_cancels_its_stream() {
    let mut peer = Peer::capturing();
    let exchange = peer.request(GET);
    peer.send(|output| {
        head(1, &[(":status", "200")], false, output);
        writer::data(1, &[0; 1001], false, output);
        writer::data(1, &[0; 10], true, output);
    });
    let error = SessionError::BodyTooLargeToCapture;
    assert_eq!(peer.failure(), (exchange, error));
}

#[test]
fn responses_without_content_may_have_a_length() {
    for (request, status) in [("HEAD / HTTP/1.1\r\n\r\n", "200"), (GET, "304")] {
        let mut peer = Peer::ready(1);
        peer.request(request);
        let fields = [(":status", status), ("content-length", "1000")];
        peer.send(|output| head(1, &fields, true, output));
        peer.response();
    }
}

#[test]
fn a_response_before_the_end_of_the_request_ends_the_request() {
    let mut peer = Peer::ready(1);
    let body = "x".repeat(100_000);
    peer.request(&format!(
        "POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n{body}"
    ));
    peer.received();
    peer.send(|output| answer(1, "413", "", output));
    peer.response();
    assert!(matches!(
        peer.received().as_slice(),
        [Received::Reset(1, _)]
    ));
    peer.send(|output| writer::window_update(0, 1_000_000, output));
    assert_eq!(peer.received(), []);
}

#[test]
fn windows_are_given_back_for_any_amount_of_content() {
    let mut peer = Peer::ready(1);
    peer.request(GET);
    peer.received();
    peer.send(|output| head(1, &[(":status", "200")], false, output));
    peer.events();
    let piece = vec![0; 16_384];
    let mut updates = 0;
    // More than the windows of 2^30 bytes.
    for _ in 0..70_000 {
        peer.send(|output| writer::data(1, &piece, false, output));
        updates += peer.received().len();
    }
    assert_eq!(updates, 4, "half of each window, twice");
    peer.send(|output| writer::data(1, b"", true, output));
    assert!(peer.response().1.bytes > 1 << 30);
}

#[test]
fn goaway_without_an_error_drains_the_connection() {
    let mut peer = Peer::ready(3);
    let exchanges = [GET; 2].map(|request| peer.request(request));
    peer.send(|output| writer::goaway(1, protocol::h2::error::ErrorCode::NO_ERROR, b"", output));
    let events = peer.events();
    let [Event::Draining, Event::Failed(failed, failure)] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!(
        (*failed, &failure.error),
        (exchanges[1], &SessionError::GoawayUnprocessed)
    );
    assert_eq!(peer.session.capacity(), 0);
    peer.send(|output| answer(1, "200", "", output));
    assert_eq!(peer.response().0, exchanges[0]);
    let Peer {
        shared,
        session,
        events,
        ..
    } = &mut peer;
    assert_eq!(session.end(shared, events), Ok(()));
}

#[test]
fn a_session_starts_afresh_on_a_new_connection() {
    let mut peer = Peer::ready(2);
    peer.request(GET);
    peer.send(|output| head(1, &[(":status", "200"), ("x", "y")], false, output));
    peer.events();
    peer.output.clear();
    peer.session
        .begin(&mut peer.shared, &mut peer.output)
        .expect("it begins");
    assert!(!peer.session.is_ready());
    peer.output.clear();
    peer.settings(&[]);
    assert_eq!(peer.session.capacity(), 2);
    peer.output.clear();
    let exchange = peer.request(GET);
    peer.send(|output| answer(1, "200", "", output));
    assert_eq!(peer.response().0, exchange);
    assert_eq!(exchange, ExchangeId(1));
}

#[test]
fn the_first_redirect_is_remembered() {
    let mut peer = Peer::ready(1);
    peer.request(GET);
    let fields = [(":status", "301"), ("location", "https://example.org/")];
    peer.send(|output| head(1, &fields, true, output));
    let location = protocol::h2::H2::redirect_location(&peer.shared);
    assert_eq!(location, Some("https://example.org/"));
}
