//! What the server does wrong, or does to single requests.

use protocol::h3::error::ErrorCode;
use protocol::h3::frame::{self, frame_type, stream_type};
use protocol::{Event, Session, SessionError};
use quinn_proto::{TransportConfig, VarInt};

use crate::link::{GET, Peer, client_settings};
use crate::server::{Settings, bidi, response};
use crate::written::{data, framed, headers};

#[test]
fn a_reset_before_or_within_the_response_fails_that_request_only() {
    for (begun, code, expected) in [
        (
            0,
            0x102,
            SessionError::Http3Reset(ErrorCode::INTERNAL_ERROR),
        ),
        (
            5,
            0x102,
            SessionError::Http3Reset(ErrorCode::INTERNAL_ERROR),
        ),
        (0, 0x10b, SessionError::StreamRefused),
        (5, 0x77, SessionError::Http3Reset(ErrorCode(0x77))),
    ] {
        let mut peer = Peer::ready(4);
        let first = peer.request(GET);
        let second = peer.request(GET);
        peer.respond(0, &response("200", b"abc")[..begun], false);
        peer.events.clear();
        peer.server.reset(bidi(0), code);
        peer.run();
        let failed = peer.failed();
        let [(exchange, failure)] = &failed[..] else {
            panic!("{failed:?}");
        };
        assert_eq!((*exchange, &failure.error), (first, &expected));
        peer.respond(1, &response("200", b"abc"), true);
        assert_eq!(peer.finished()[0].0, second);
    }
}

#[test]
fn a_server_that_stops_an_upload_may_still_answer_it() {
    let body = "x".repeat(100_000);
    let post = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n{body}");
    for stop_first in [true, false] {
        let mut transport = TransportConfig::default();
        transport.stream_receive_window(VarInt::from_u32(1000));
        let settings = Settings {
            transport,
            ..Settings::default()
        };
        let mut peer = Peer::ready_with(client_settings(2), settings);
        let exchange = peer.start(&post);
        // Just long enough for the first window.
        peer.run_for(1_500_000);
        if stop_first {
            peer.server.stop(bidi(0), ErrorCode::NO_ERROR.0);
            peer.run_for(10_000_000);
        }
        peer.respond(0, &response("413", b"too much"), true);
        let finished = peer.finished();
        assert_eq!((finished[0].0, finished[0].1.status), (exchange, 413));
        assert!(peer.server.requests.is_empty());
        // Without the server's wish, the client gives up what is left.
        let expected = [(bidi(0), ErrorCode::NO_ERROR.0)];
        assert_eq!(peer.server.received_resets(), 1);
        assert_eq!(
            peer.server.resets,
            if stop_first { &[][..] } else { &expected }
        );
        peer.request(GET);
        peer.respond(1, &response("200", b"abc"), true);
        assert_eq!(peer.finished().len(), 1);
    }
}

#[test]
fn goaway_lets_processed_requests_end_and_fails_the_others() {
    let mut peer = Peer::ready(4);
    let exchanges: Vec<_> = (0..4).map(|_| peer.request(GET)).collect();
    let control = peer.server.control.expect("there is one");
    let mut goaway = Vec::new();
    frame::append_goaway(8, &mut goaway);
    peer.server.send(control, &goaway, false);
    peer.run();
    assert_eq!(peer.events.remove(0), Event::Draining);
    let failed = peer.failed().into_iter();
    let failed: Vec<_> = failed.map(|(exchange, it)| (exchange, it.error)).collect();
    let expected = [2, 3].map(|at| (exchanges[at], SessionError::GoawayUnprocessed));
    assert_eq!(failed, expected);
    assert_eq!(peer.session.capacity(), 0);
    for index in 0..2 {
        peer.respond(index, &response("200", b"abc"), true);
    }
    assert_eq!(peer.finished().len(), 2);
    // A second one says that the first requests were not processed either.
    let mut goaway = Vec::new();
    frame::append_goaway(0, &mut goaway);
    peer.server.send(control, &goaway, false);
    peer.run();
    assert_eq!((&peer.error, peer.events.len()), (&None, 0));
    let mut higher = Vec::new();
    frame::append_goaway(4, &mut higher);
    peer.server.send(control, &higher, false);
    peer.run();
    assert!(matches!(peer.error, Some(SessionError::BadHttp3(_))));
    assert_eq!(peer.close_code(), Some(ErrorCode::ID_ERROR));
}

#[test]
fn frames_and_streams_of_unknown_types_are_ignored() {
    let mut peer = Peer::ready(1);
    let control = peer.server.control.expect("there is one");
    peer.server
        .send(control, &framed(0x21 + 0x1f * 7, b"grease"), false);
    let open = peer.server.open(b"\x21grease", true);
    peer.server.open(&[0x40], false);
    assert!(open.is_some());
    peer.run();
    for qpack in [stream_type::QPACK_ENCODER, stream_type::QPACK_DECODER] {
        peer.server.open(&[qpack as u8], false);
    }
    peer.request(GET);
    let grease = framed(0x21, &[0; 5000]);
    let parts = [
        grease.clone(),
        headers(&[(":status", "200")]),
        grease.clone(),
        data(b"abc"),
        grease.clone(),
        headers(&[("a", "b")]),
        grease,
    ];
    peer.respond(0, &parts.concat(), true);
    assert_eq!(peer.finished()[0].1.status, 200);
    assert_eq!(peer.error, None);
}

/// Sends bytes of a hostile server and returns the error and the code with which the client
/// closes.
fn broken(
    place: ServerStream,
    bytes: &[u8],
    ends: bool,
) -> (Option<SessionError>, Option<ErrorCode>) {
    let settings = Settings {
        has_control: place != ServerStream::FirstControl,
        ..Settings::default()
    };
    let mut peer = Peer::ready_with(client_settings(2), settings);
    peer.request(GET);
    match place {
        ServerStream::Response => peer.server.send(bidi(0), bytes, ends),
        ServerStream::UnusedStream => peer.server.send(bidi(1), bytes, ends),
        ServerStream::Control => {
            let control = peer.server.control.expect("there is one");
            peer.server.send(control, bytes, ends);
        }
        ServerStream::FirstControl | ServerStream::NewStream => {
            peer.server.open(bytes, ends);
        }
    }
    peer.run();
    (peer.error.clone(), peer.close_code())
}

/// The stream on which the server sends something wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerStream {
    Response,
    /// The stream of a request that was not sent.
    UnusedStream,
    Control,
    /// A stream of a server that has not sent SETTINGS.
    FirstControl,
    NewStream,
}

#[test]
fn what_breaks_a_rule_of_the_connection_ends_it_with_the_code_of_the_rfc() {
    use ErrorCode as Code;
    let ok = headers(&[(":status", "200")]);
    let join = |parts: &[&[u8]]| parts.concat();
    let settings = |pairs: &[(u64, u64)]| {
        let mut output = Vec::new();
        frame::append_settings(pairs, &mut output);
        output
    };
    let kind = |kind: u64, rest: &[u8]| join(&[&[kind as u8], rest]);
    let (control, encoder, decoder) = (
        stream_type::CONTROL,
        stream_type::QPACK_ENCODER,
        stream_type::QPACK_DECODER,
    );
    let trailers = headers(&[("a", "b")]);
    let headers_of = |section: &[u8]| framed(frame_type::HEADERS, section);
    let push = framed(frame_type::PUSH_PROMISE, &[0, 0, 0]);
    let goaway = framed(frame_type::GOAWAY, &[3]);
    let twice = settings(&[(0x21, 1), (0x21, 1)]);
    let cases: Vec<(ServerStream, Vec<u8>, bool, Code)> = vec![
        // Responses.
        (
            ServerStream::Response,
            data(b"a"),
            false,
            Code::FRAME_UNEXPECTED,
        ),
        (
            ServerStream::Response,
            join(&[&ok, &trailers, &data(b"a")]),
            true,
            Code::FRAME_UNEXPECTED,
        ),
        (
            ServerStream::Response,
            join(&[&ok, &trailers, &trailers]),
            true,
            Code::FRAME_UNEXPECTED,
        ),
        (
            ServerStream::Response,
            join(&[&ok, &settings(&[])]),
            false,
            Code::FRAME_UNEXPECTED,
        ),
        (
            ServerStream::Response,
            join(&[&ok, &goaway]),
            false,
            Code::FRAME_UNEXPECTED,
        ),
        (
            ServerStream::Response,
            framed(frame_type::MAX_PUSH_ID, &[1]),
            false,
            Code::FRAME_UNEXPECTED,
        ),
        (
            ServerStream::Response,
            framed(frame_type::CANCEL_PUSH, &[1]),
            false,
            Code::FRAME_UNEXPECTED,
        ),
        (
            ServerStream::Response,
            framed(frame_type::GOAWAY, &[0, 0, 0]),
            false,
            Code::FRAME_ERROR,
        ),
        (
            ServerStream::Response,
            framed(frame_type::GOAWAY, &[0x40]),
            false,
            Code::FRAME_ERROR,
        ),
        (
            ServerStream::Response,
            framed(frame_type::GOAWAY, &[0, 0]),
            false,
            Code::FRAME_ERROR,
        ),
        (
            ServerStream::Response,
            join(&[&ok, &push]),
            false,
            Code::ID_ERROR,
        ),
        (
            ServerStream::Response,
            framed(0x2, b""),
            false,
            Code::FRAME_UNEXPECTED,
        ),
        (
            ServerStream::Response,
            framed(0x6, b"12345678"),
            false,
            Code::FRAME_UNEXPECTED,
        ),
        (
            ServerStream::Response,
            framed(0x8, b""),
            false,
            Code::FRAME_UNEXPECTED,
        ),
        (
            ServerStream::Response,
            framed(0x9, b""),
            false,
            Code::FRAME_UNEXPECTED,
        ),
        (
            ServerStream::Response,
            ok[..ok.len() - 1].to_vec(),
            true,
            Code::FRAME_ERROR,
        ),
        (
            ServerStream::Response,
            join(&[&ok, &[0, 9, 1]]),
            true,
            Code::FRAME_ERROR,
        ),
        (
            ServerStream::Response,
            join(&[&ok, &[0x40]]),
            true,
            Code::FRAME_ERROR,
        ),
        (
            ServerStream::UnusedStream,
            response("200", b""),
            true,
            Code::FRAME_UNEXPECTED,
        ),
        // QPACK.
        (
            ServerStream::Response,
            headers_of(&[1, 0, 0xd9]),
            false,
            Code::QPACK_DECOMPRESSION_FAILED,
        ),
        (
            ServerStream::Response,
            headers_of(&[0, 0, 0x80]),
            false,
            Code::QPACK_DECOMPRESSION_FAILED,
        ),
        (
            ServerStream::Response,
            headers_of(&[0, 0, 0x10]),
            false,
            Code::QPACK_DECOMPRESSION_FAILED,
        ),
        (
            ServerStream::Response,
            headers_of(&[0]),
            false,
            Code::QPACK_DECOMPRESSION_FAILED,
        ),
        (
            ServerStream::Response,
            headers_of(&[]),
            false,
            Code::QPACK_DECOMPRESSION_FAILED,
        ),
        // Streams of the server.
        (
            ServerStream::NewStream,
            kind(control, &settings(&[])),
            false,
            Code::STREAM_CREATION_ERROR,
        ),
        (
            ServerStream::NewStream,
            kind(stream_type::PUSH, &[0]),
            false,
            Code::ID_ERROR,
        ),
        (
            ServerStream::NewStream,
            kind(encoder, &[0x20]),
            true,
            Code::CLOSED_CRITICAL_STREAM,
        ),
        (
            ServerStream::NewStream,
            kind(encoder, &[0x21]),
            false,
            Code::QPACK_ENCODER_STREAM_ERROR,
        ),
        (
            ServerStream::NewStream,
            kind(encoder, b"\xc0\x01a"),
            false,
            Code::QPACK_ENCODER_STREAM_ERROR,
        ),
        (
            ServerStream::NewStream,
            kind(decoder, &[0x80]),
            false,
            Code::QPACK_DECODER_STREAM_ERROR,
        ),
        (
            ServerStream::NewStream,
            kind(decoder, &[0x01]),
            false,
            Code::QPACK_DECODER_STREAM_ERROR,
        ),
        (
            ServerStream::NewStream,
            kind(decoder, &[0x44]),
            true,
            Code::CLOSED_CRITICAL_STREAM,
        ),
        // The control stream.
        (
            ServerStream::Control,
            settings(&[]),
            false,
            Code::FRAME_UNEXPECTED,
        ),
        (
            ServerStream::Control,
            data(b"a"),
            false,
            Code::FRAME_UNEXPECTED,
        ),
        (ServerStream::Control, ok, false, Code::FRAME_UNEXPECTED),
        (ServerStream::Control, push, false, Code::FRAME_UNEXPECTED),
        (
            ServerStream::Control,
            framed(frame_type::MAX_PUSH_ID, &[1]),
            false,
            Code::FRAME_UNEXPECTED,
        ),
        (
            ServerStream::Control,
            framed(frame_type::CANCEL_PUSH, &[1]),
            false,
            Code::ID_ERROR,
        ),
        (ServerStream::Control, goaway.clone(), false, Code::ID_ERROR),
        (
            ServerStream::Control,
            framed(0x6, b""),
            false,
            Code::FRAME_UNEXPECTED,
        ),
        (
            ServerStream::Control,
            Vec::new(),
            true,
            Code::CLOSED_CRITICAL_STREAM,
        ),
        (
            ServerStream::FirstControl,
            kind(control, &goaway),
            false,
            Code::MISSING_SETTINGS,
        ),
        (
            ServerStream::FirstControl,
            kind(control, &framed(0x21, b"")),
            false,
            Code::MISSING_SETTINGS,
        ),
        (
            ServerStream::FirstControl,
            kind(control, &twice),
            false,
            Code::SETTINGS_ERROR,
        ),
        (
            ServerStream::FirstControl,
            kind(control, &settings(&[(2, 0)])),
            false,
            Code::SETTINGS_ERROR,
        ),
        (
            ServerStream::FirstControl,
            kind(control, &[4, 1, 1]),
            false,
            Code::FRAME_ERROR,
        ),
        (
            ServerStream::FirstControl,
            kind(control, &[4, 0x50, 1]),
            false,
            Code::EXCESSIVE_LOAD,
        ),
    ];
    for (place, bytes, ends, code) in cases {
        let (error, told) = broken(place, &bytes, ends);
        let name = error.as_ref().map(SessionError::name);
        let expected = match code.0 {
            0x200.. => "compression",
            _ if code == Code::EXCESSIVE_LOAD => "flooded",
            _ => "bad_http3",
        };
        assert_eq!(
            (told, name),
            (Some(code), Some(expected)),
            "{place:?} {bytes:02x?}"
        );
    }
}

#[test]
fn the_control_stream_of_the_client_must_not_be_stopped() {
    let mut peer = Peer::ready(1);
    peer.run();
    let control = *peer
        .server
        .client_streams
        .keys()
        .next()
        .expect("there is one");
    peer.server.stop(control, 0x100);
    peer.run();
    assert_eq!(peer.close_code(), Some(ErrorCode::CLOSED_CRITICAL_STREAM));
}

#[test]
fn a_request_that_was_not_sent_must_not_be_stopped_or_reset() {
    for is_reset in [true, false] {
        let mut peer = Peer::ready(4);
        if is_reset {
            peer.server.reset(bidi(2), 0x10b)
        } else {
            peer.server.stop(bidi(2), 0x100)
        }
        peer.run();
        assert_eq!(peer.close_code(), Some(ErrorCode::FRAME_UNEXPECTED));
    }
}

#[test]
fn a_response_after_the_end_of_its_exchange_is_ignored() {
    let mut peer = Peer::ready(2);
    let exchange = peer.request(GET);
    peer.call(|session, shared, output, _| session.cancel(shared, exchange, output).map(|_| ()));
    // It was on its way when the server learned of the end.
    peer.server.send(bidi(0), &response("200", b"abc"), true);
    peer.run();
    assert_eq!((&peer.error, peer.events.len()), (&None, 0));
    assert_eq!(peer.session.capacity(), 2);
}

#[test]
fn a_server_may_open_no_stream_for_requests() {
    let mut peer = Peer::ready(1);
    assert!(!peer.server.may_open_requests());
}
