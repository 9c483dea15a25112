//! Servers that break a rule, refuse, or disappear: each has its own reason.

use crate::peer::{GET, Peer, Received, answer, head};
use crate::written::block;
use protocol::h2::error::{ErrorCode, Goaway};
use protocol::h2::frame::kind;
use protocol::h2::settings::id;
use protocol::h2::writer;
use protocol::{Session, SessionError};

/// Frames of a server after one request on stream 1.
type Sends = fn(&mut Vec<u8>);

/// The error that ends the connection, and the code in the client's GOAWAY.
fn ends(sends: Sends) -> (SessionError, ErrorCode) {
    let mut peer = Peer::ready(2);
    peer.request(GET);
    peer.received();
    let error = peer.try_send(sends).expect_err("it breaks a rule");
    match peer.received().as_slice() {
        [.., Received::Goaway(code)] => (error, *code),
        other => panic!("{error}: {other:?}"),
    }
}

/// The error of the exchange, and the code in the client's RST_STREAM. The connection goes on.
fn resets(sends: Sends) -> (SessionError, ErrorCode) {
    let mut peer = Peer::ready(2);
    let exchange = peer.request(GET);
    peer.received();
    peer.send(sends);
    let (failed, error) = peer.failure();
    assert_eq!(failed, exchange);
    let received = peer.received();
    let [Received::Reset(1, code)] = received.as_slice() else {
        panic!("{error}: {received:?}");
    };
    let next = peer.request(GET);
    peer.send(|output| answer(3, "200", "", output));
    assert_eq!(peer.response().0, next);
    (error, *code)
}

#[test]
fn what_breaks_the_rules_of_the_connection_ends_it() {
    let cases: [(Sends, ErrorCode); 11] = [
        (|o| answer(3, "200", "", o), ErrorCode::PROTOCOL_ERROR),
        (|o| answer(2, "200", "", o), ErrorCode::PROTOCOL_ERROR),
        (
            |o| writer::data(7, b"x", false, o),
            ErrorCode::PROTOCOL_ERROR,
        ),
        (
            |o| writer::reset(5, ErrorCode::CANCEL, o),
            ErrorCode::PROTOCOL_ERROR,
        ),
        (
            |o| writer::window_update(9, 1, o),
            ErrorCode::PROTOCOL_ERROR,
        ),
        (
            |o| writer::push_promise(1, 2, b"", 16_384, o),
            ErrorCode::PROTOCOL_ERROR,
        ),
        (
            |o| writer::settings([(id::ENABLE_PUSH, 1)], o),
            ErrorCode::PROTOCOL_ERROR,
        ),
        (
            |o| writer::frame(kind::PING, 0, 0, b"short", o),
            ErrorCode::FRAME_SIZE_ERROR,
        ),
        (
            |o| writer::window_update(0, 0x7fff_ffff, o),
            ErrorCode::FLOW_CONTROL_ERROR,
        ),
        (
            |o| writer::headers(1, &[0xff; 9], true, 16_384, o),
            ErrorCode::COMPRESSION_ERROR,
        ),
        (
            |o| {
                answer(1, "200", "", o);
                writer::data(1, b"more", true, o);
            },
            ErrorCode::STREAM_CLOSED,
        ),
    ];
    for (number, (sends, expected)) in cases.into_iter().enumerate() {
        let (error, code) = ends(sends);
        assert_eq!(code, expected, "{number}: {error}");
    }
}

#[test]
fn a_malformed_response_is_reset() {
    let cases: [Sends; 12] = [
        |o| head(1, &[("x", "y")], true, o),
        |o| head(1, &[("x", "y"), (":status", "200")], true, o),
        |o| head(1, &[(":status", "200"), (":status", "200")], true, o),
        |o| head(1, &[(":status", "20")], true, o),
        |o| head(1, &[(":status", "101")], false, o),
        |o| head(1, &[(":status", "100")], true, o),
        |o| head(1, &[(":status", "200"), (":path", "/")], true, o),
        |o| head(1, &[(":status", "200"), ("Upper", "x")], true, o),
        |o| head(1, &[(":status", "200"), ("connection", "close")], true, o),
        |o| head(1, &[(":status", "200"), ("content-length", "5")], true, o),
        |o| head(1, &[(":status", "200"), ("content-length", "x")], true, o),
        |o| writer::data(1, b"no head", true, o),
    ];
    for (number, sends) in cases.into_iter().enumerate() {
        let (error, code) = resets(sends);
        assert_eq!(code, ErrorCode::PROTOCOL_ERROR, "{number}");
        assert!(
            matches!(error, SessionError::BadHttp2(_)),
            "{number}: {error}"
        );
    }
}

#[test]
fn content_beyond_its_length_is_malformed() {
    let (error, _) = resets(|output| {
        head(
            1,
            &[(":status", "200"), ("content-length", "3")],
            false,
            output,
        );
        writer::data(1, b"four", true, output);
    });
    assert!(matches!(error, SessionError::BadHttp2(_)), "{error}");
}

#[test]
fn a_server_resets_a_stream_for_a_reason() {
    for (code, expected) in [
        (ErrorCode::REFUSED_STREAM, SessionError::StreamRefused),
        (
            ErrorCode::ENHANCE_YOUR_CALM,
            SessionError::Calm(Goaway::new(ErrorCode::ENHANCE_YOUR_CALM, b"")),
        ),
        (
            ErrorCode::INTERNAL_ERROR,
            SessionError::StreamReset(ErrorCode::INTERNAL_ERROR),
        ),
        (ErrorCode(0x77), SessionError::StreamReset(ErrorCode(0x77))),
    ] {
        let mut peer = Peer::ready(2);
        let exchange = peer.request(GET);
        peer.send(|output| writer::reset(1, code, output));
        assert_eq!(peer.failure(), (exchange, expected));
        assert_eq!(peer.session.capacity(), 2);
    }
}

#[test]
fn a_server_ends_the_connection_for_a_reason() {
    for (code, expected) in [
        (
            ErrorCode::ENHANCE_YOUR_CALM,
            SessionError::Calm as fn(Goaway) -> SessionError,
        ),
        (ErrorCode::INTERNAL_ERROR, SessionError::Goaway),
    ] {
        let mut peer = Peer::ready(2);
        let exchange = peer.request(GET);
        // The response in the same piece still counts.
        let error = peer.try_send(|output| {
            writer::goaway(1, code, b"why", output);
            answer(1, "200", "", output);
        });
        assert_eq!(error, Err(expected(Goaway::new(code, b"why"))));
        let events = peer.events();
        let finished = |event: &protocol::Event| matches!(event, protocol::Event::Finished(id, _) if *id == exchange);
        assert!(events.iter().any(finished), "{events:?}");
    }
}

#[test]
fn an_endless_list_of_fields_is_given_up() {
    let mut peer = Peer::ready(1);
    let exchange = peer.request(GET);
    peer.received();
    let value = "v".repeat(1000);
    let fields: Vec<(&str, &str)> = [(":status", "200")]
        .into_iter()
        .chain((0..1000).map(|_| ("x", value.as_str())))
        .collect();
    // One megabyte, most of it by reference to the table.
    peer.send(|output| {
        let mut whole = block(&fields[..2]);
        whole.extend(std::iter::repeat_n(0x80 | 62, 999));
        writer::headers(1, &whole, true, 16_384, output);
    });
    assert_eq!(peer.failure(), (exchange, SessionError::HeaderTooLarge));
    assert_eq!(peer.received(), [Received::Reset(1, ErrorCode::CANCEL)]);
}

#[test]
fn endless_header_blocks_and_interim_responses_end() {
    let (error, code) = ends(|output| {
        writer::frame(kind::HEADERS, 0, 1, &block(&[(":status", "200")]), output);
        for _ in 0..300 {
            writer::frame(kind::CONTINUATION, 0, 1, b"", output);
        }
    });
    assert_eq!(
        (error, code),
        (SessionError::Flooded, ErrorCode::ENHANCE_YOUR_CALM)
    );
    let mut peer = Peer::ready(1);
    let exchange = peer.request(GET);
    peer.events();
    for _ in 0..65 {
        peer.send(|output| head(1, &[(":status", "103")], false, output));
    }
    let failed = peer.events().into_iter().find_map(|event| match event {
        protocol::Event::Failed(id, failure) => Some((id, failure.error)),
        _ => None,
    });
    assert_eq!(failed, Some((exchange, SessionError::TooManyInterim)));
}

#[test]
fn another_protocol_is_recognized() {
    for (input, expected) in [
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n".as_slice(),
            SessionError::NotHttp2,
        ),
        (&[0x15, 0x03, 0x01, 0, 2, 2, 40], SessionError::TlsOnPlain),
    ] {
        let mut peer = Peer::new(1);
        assert_eq!(peer.deliver(input), Err(expected.clone()));
        // In pieces, too, but only at the beginning.
        let mut peer = Peer::new(1);
        assert_eq!(peer.deliver(&input[..1]), Ok(()));
        assert_eq!(peer.deliver(&input[1..]), Err(expected));
        let mut peer = Peer::new(1);
        assert_eq!(peer.deliver(&[0, 0, 6, 4, 0, 0, 0, 0, 0]), Ok(()));
        assert_eq!(peer.deliver(&input[..2]), Ok(()));
    }
    let mut peer = Peer::new(1);
    let error = peer.try_send(|output| writer::ping([0; 8], false, output));
    assert!(matches!(error, Err(SessionError::BadHttp2(_))), "{error:?}");
}

#[test]
fn a_close_is_judged_by_what_has_arrived() {
    let end = |peer: &mut Peer| peer.session.end(&mut peer.shared, &mut peer.events);
    assert_eq!(end(&mut Peer::new(1)), Err(SessionError::ClosedEarly));
    let mut peer = Peer::ready(2);
    assert_eq!(end(&mut peer), Ok(()));
    peer.request(GET);
    assert_eq!(end(&mut peer), Err(SessionError::ClosedEarly));
    peer.send(|output| head(1, &[(":status", "200")], false, output));
    assert_eq!(end(&mut peer), Err(SessionError::Truncated));
}

#[test]
fn no_bytes_make_it_panic() {
    let mut good = Vec::new();
    writer::settings([(id::MAX_CONCURRENT_STREAMS, 5)], &mut good);
    answer(1, "200", "body", &mut good);
    writer::goaway(3, ErrorCode::NO_ERROR, b"", &mut good);
    for at in 0..good.len() {
        for byte in [0, 1, 4, 8, 9, 0x20, 0x7f, 0x80, 0xff, good[at] ^ 1] {
            let mut bytes = good.clone();
            bytes[at] = byte;
            let mut peer = Peer::ready(2);
            peer.request(GET);
            peer.request(GET);
            let _ = peer.deliver(&bytes);
        }
    }
}

/// Frames that must be replied to.
const FLOODS: [Sends; 2] = [
    |output| writer::ping([7; 8], false, output),
    |output| writer::settings([], output),
];

#[test]
fn a_server_whose_frames_are_replied_to_in_vain_is_a_flood() {
    for sends in FLOODS {
        let mut peer = Peer::ready(2);
        peer.request(GET);
        let error = (0..100_000).find_map(|_| peer.try_send(sends).err());
        assert_eq!(error, Some(SessionError::Flooded));
        assert!(peer.output.len() < 600_000, "{} bytes", peer.output.len());
        let received = peer.received();
        let last = received.last();
        assert_eq!(last, Some(&Received::Goaway(ErrorCode::ENHANCE_YOUR_CALM)));
    }
}

#[test]
fn a_server_that_reads_its_replies_may_send_many_as_long_as_responses_arrive() {
    for sends in FLOODS {
        let mut peer = Peer::ready(2);
        let flood = |peer: &mut Peer, frames: u32| {
            (0..frames).find_map(|_| {
                let error = peer.try_send(sends).err();
                peer.output.clear();
                let resumed = peer.session.resume(&mut peer.shared, &mut peer.output);
                assert_eq!(resumed, Ok(()));
                error
            })
        };
        for stream in [1, 3] {
            peer.request(GET);
            assert_eq!(flood(&mut peer, 1_000_000), None);
            peer.send(|output| answer(stream, "200", "", output));
            peer.response();
        }
        assert_eq!(flood(&mut peer, 1_000_000), None);
        assert_eq!(flood(&mut peer, 100_000), Some(SessionError::Flooded));
    }
}

/// Frames that move nothing forward and need no reply. Stream 1 is open, and stream 3 has ended.
const IDLE: [(&str, Sends); 9] = [
    ("GOAWAY", |o| {
        writer::goaway(1 << 30, ErrorCode::NO_ERROR, b"", o)
    }),
    ("WINDOW_UPDATE", |o| writer::window_update(1, 1, o)),
    ("RST_STREAM", |o| writer::reset(3, ErrorCode::CANCEL, o)),
    ("empty DATA", |o| writer::data(1, b"", false, o)),
    ("PRIORITY", |o| {
        writer::frame(kind::PRIORITY, 0, 1, &[0; 5], o)
    }),
    ("PRIORITY_UPDATE", |o| {
        writer::frame(0x10, 0, 0, b"\0\0\0\x01u=3", o)
    }),
    ("an unknown type", |o| writer::frame(0xfa, 0, 7, b"", o)),
    ("a reply to no SETTINGS", writer::settings_ack),
    ("a reply to no PING", |o| writer::ping([7; 8], true, o)),
];

/// A response to the first of two requests has begun, and the second has a whole one.
fn begun() -> Peer {
    let mut peer = Peer::ready(2);
    peer.request(GET);
    peer.request(GET);
    peer.send(|output| {
        head(1, &[(":status", "200")], false, output);
        answer(3, "200", "", output);
    });
    peer.received();
    peer
}

#[test]
fn endless_frames_that_move_nothing_forward_are_a_flood() {
    for (what, sends) in IDLE {
        let mut peer = begun();
        let error = (0..70_000).find_map(|_| peer.try_send(sends).err());
        assert_eq!(error, Some(SessionError::Flooded), "{what}");
        let received = peer.received();
        let goaway = Received::Goaway(ErrorCode::ENHANCE_YOUR_CALM);
        assert_eq!(received, [goaway], "{what}");
        assert!(peer.events().len() < 10, "{what}");
    }
}

#[test]
fn frames_that_move_nothing_forward_between_pieces_of_a_response_are_no_flood() {
    for (what, sends) in IDLE {
        // A window of a stream has no room for so many updates of it.
        let sends = match what {
            "WINDOW_UPDATE" => |o: &mut Vec<u8>| writer::window_update(3, 1, o),
            _ => sends,
        };
        let mut peer = begun();
        for _ in 0..4 {
            let error = (0..60_000).find_map(|_| peer.try_send(sends).err());
            assert_eq!(error, None, "{what}");
            peer.send(|output| writer::data(1, b"x", false, output));
        }
    }
}

#[test]
fn updates_of_a_window_that_let_a_request_go_on_are_no_flood() {
    let mut peer = Peer::new(1);
    peer.settings(&[(id::INITIAL_WINDOW_SIZE, 0)]);
    let body = "x".repeat(70_000);
    peer.request(&format!(
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 70000\r\n\r\n{body}"
    ));
    peer.send(|output| writer::window_update(0, 1 << 20, output));
    let error = (0..body.len()).find_map(|_| {
        let update = |output: &mut Vec<u8>| writer::window_update(1, 1, output);
        peer.try_send(update).err()
    });
    assert_eq!(error, None);
    assert!(peer.received().contains(&Received::Data(1, 1, true)));
}

#[test]
fn a_header_section_that_is_too_large_or_too_long_has_the_names_that_it_has_in_http_1() {
    let (error, code) = ends(|output| head(1, &[("x", &"x".repeat(100_000))], true, output));
    let expected = (SessionError::HeaderTooLarge, ErrorCode::ENHANCE_YOUR_CALM);
    assert_eq!((error, code), expected);
    let (error, _) = resets(|output| {
        let many = [(":status", "200")].into_iter().chain([("x", "y"); 256]);
        head(1, &many.collect::<Vec<_>>(), true, output);
    });
    assert_eq!(error, SessionError::TooManyHeaders);
}

#[test]
fn a_server_that_allows_no_streams_is_named() {
    let mut peer = Peer::new(4);
    let awaits = |peer: &Peer| peer.session.awaits().unwrap_or_default();
    let limit = |peer: &Peer| <protocol::h2::H2 as Session>::streams_limit(&peer.shared);
    assert_eq!(limit(&peer), None, "nothing is known of the server");
    peer.settings(&[(id::MAX_CONCURRENT_STREAMS, 0)]);
    assert_eq!(
        awaits(&peer),
        "the server allowed no streams (SETTINGS_MAX_CONCURRENT_STREAMS of 0)"
    );
    assert_eq!((peer.session.capacity(), limit(&peer)), (0, Some(0)));
    peer.settings(&[(id::MAX_CONCURRENT_STREAMS, 4)]);
    assert_eq!((awaits(&peer), peer.session.capacity()), ("", 4));
    assert_eq!(limit(&peer), None);
}
