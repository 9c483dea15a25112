//! Clients that break a rule: an error of a stream resets the stream, any other ends the
//! connection, and nothing takes memory without end.

use protocol::h3::error::ErrorCode;
use protocol::h3::frame::{frame_type, stream_type};
use protocol::h3::server::{End, Received};
use quinn_proto::StreamId;

use crate::link::{Peer, head};
use crate::written::{data, framed, headers, section};

/// Sends these bytes as a request, and expects the stream to be reset with this code.
#[track_caller]
fn assert_resets(bytes: &[u8], ends: bool, expected: ErrorCode) {
    let mut peer = Peer::ready();
    let id = peer.request(bytes, ends);
    peer.run();
    assert_eq!(peer.resets.get(&id), Some(&expected.0));
    assert_eq!(peer.lost, None, "the connection goes on");
    let last = peer.take().pop();
    assert_eq!(last, Some(Received::Reset { stream: id }));
    let next = peer.request(&head("GET", &[]), true);
    peer.run();
    assert!(matches!(&peer.take()[..], [Received::Request { stream, .. }] if *stream == next));
}

/// Lets the client do this, and expects the connection to be closed with this code.
#[track_caller]
fn assert_closes(act: impl FnOnce(&mut Peer) -> StreamId, expected: ErrorCode) {
    let mut peer = Peer::ready();
    act(&mut peer);
    peer.run();
    assert_eq!(peer.close_code(), Some(expected));
    let end = peer.server().end();
    assert!(matches!(end, Some(End::Violation(violation)) if violation.code == expected));
}

#[test]
fn a_malformed_request_is_reset() {
    let code = ErrorCode::MESSAGE_ERROR;
    for fields in [
        &[(":method", "GET"), (":scheme", "https")][..],
        &[(":method", "GET"), (":method", "GET"), (":path", "/")],
        &[(":status", "200")],
        &[("x", "1")],
    ] {
        assert_resets(&headers(fields), true, code);
    }
    assert_resets(&head("GET", &[("X-Upper", "1")]), true, code);
    assert_resets(&head("GET", &[("connection", "close")]), true, code);
}

#[test]
fn content_of_another_length_than_announced_is_malformed() {
    let announced = head("POST", &[("content-length", "4")]);
    let code = ErrorCode::MESSAGE_ERROR;
    assert_resets(&[&announced[..], &data(b"abc")].concat(), true, code);
    assert_resets(&[&announced[..], &data(b"abcde")].concat(), false, code);
    assert_resets(&announced, true, code);
    let trailers = headers(&[("x", "1")]);
    assert_resets(&[&announced[..], &trailers].concat(), false, code);
}

#[test]
fn a_request_that_ends_before_its_head_is_incomplete() {
    assert_resets(b"", true, ErrorCode::REQUEST_INCOMPLETE);
}

#[test]
fn a_head_that_is_too_long_is_reset_without_being_read() {
    let long = "x".repeat(20_000);
    let bytes = head("GET", &[("x", &long)]);
    assert_resets(&bytes, true, ErrorCode::EXCESSIVE_LOAD);
}

#[test]
fn a_stream_that_ends_within_a_frame_closes_the_connection() {
    let mut cut = head("GET", &[]);
    cut.pop();
    assert_closes(|peer| peer.request(&cut, true), ErrorCode::FRAME_ERROR);
}

#[test]
fn frames_in_the_wrong_place_close_the_connection() {
    let trailers = headers(&[("x", "1")]);
    let code = ErrorCode::FRAME_UNEXPECTED;
    for bytes in [
        data(b"x"),
        [head("POST", &[]), trailers.clone(), data(b"x")].concat(),
        [head("POST", &[]), trailers.clone(), trailers].concat(),
        framed(frame_type::SETTINGS, b""),
        framed(frame_type::GOAWAY, &[0]),
        framed(frame_type::PUSH_PROMISE, &[0, 0]),
        framed(0x2, b""),
    ] {
        assert_closes(|peer| peer.request(&bytes, false), code);
    }
}

#[test]
fn a_section_that_cannot_be_decoded_closes_the_connection() {
    // An indexed field line of the dynamic table, which has no entries.
    let mut section = section(&[]);
    section.push(0x80);
    let bytes = framed(frame_type::HEADERS, &section);
    assert_closes(
        |peer| peer.request(&bytes, true),
        ErrorCode::QPACK_DECOMPRESSION_FAILED,
    );
}

#[test]
fn streams_that_a_client_must_not_open_or_end_close_the_connection() {
    let push = |peer: &mut Peer| peer.open_uni(&[stream_type::PUSH as u8]);
    assert_closes(push, ErrorCode::STREAM_CREATION_ERROR);
    let second = |peer: &mut Peer| peer.open_uni(&[stream_type::CONTROL as u8]);
    assert_closes(second, ErrorCode::STREAM_CREATION_ERROR);
    let end = |peer: &mut Peer| {
        let id = peer.open_uni(&[stream_type::QPACK_ENCODER as u8]);
        peer.send(id, b"", true);
        id
    };
    assert_closes(end, ErrorCode::CLOSED_CRITICAL_STREAM);
}

#[test]
fn a_client_may_say_goaway_and_allow_pushes() {
    let mut peer = Peer::ready();
    let control = peer.control();
    let frames = [
        framed(frame_type::MAX_PUSH_ID, &[5]),
        framed(frame_type::GOAWAY, &[3]),
    ];
    peer.send(control, &frames.concat(), false);
    peer.run();
    assert_eq!(peer.lost, None);
}

#[test]
fn endless_frames_without_a_meaning_close_the_connection() {
    let flood = |kind: u64, before: Vec<u8>| {
        let mut peer = Peer::ready();
        let id = peer.request(&before, false);
        let many = framed(kind, b"").repeat(10_000);
        for _ in 0..10 {
            if peer.lost.is_none() {
                peer.send(id, &many, false);
                peer.run();
            }
        }
        peer.close_code()
    };
    let excessive = Some(ErrorCode::EXCESSIVE_LOAD);
    assert_eq!(flood(0x21, Vec::new()), excessive);
    assert_eq!(flood(frame_type::DATA, head("POST", &[])), excessive);
}

#[test]
fn no_more_streams_are_open_than_allowed() {
    let mut peer = Peer::ready();
    for _ in 0..4 {
        peer.request(&head("POST", &[]), false);
    }
    peer.run();
    assert_eq!(peer.take().len(), 4);
    assert_eq!(peer.quic.streams().open(quinn_proto::Dir::Bi), None);
}

#[test]
fn datagrams_that_are_no_packets_are_ignored() {
    let mut peer = Peer::ready();
    let mut reply = Vec::new();
    for length in [0, 1, 20, 1200, 1472] {
        for byte in [0x00, 0x40, 0x7f, 0xc0, 0xff] {
            let datagram = vec![byte; length];
            let from = peer.address;
            // Whatever the reply is, it is no longer than the datagram.
            peer.endpoint.receive(from, &datagram, &mut reply);
            assert!(reply.len() <= length.max(1200), "{length} {byte}");
        }
    }
    let id = peer.request(&head("GET", &[]), true);
    peer.run();
    assert!(matches!(&peer.take()[..], [Received::Request { stream, .. }] if *stream == id));
}
