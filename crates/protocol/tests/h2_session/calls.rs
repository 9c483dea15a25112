//! Unary gRPC calls: what they send, and how their responses say that they have ended.

use crate::peer::{Peer, Received, head};
use protocol::h2::error::ErrorCode;
use protocol::h2::settings::id;
use protocol::h2::writer;
use protocol::{Event, SessionError};

const CALL: &str = "POST /a.B/C HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n\x0a\x01x";

/// The fields of a call and the length of its data.
fn sent(request: &str) -> (Vec<String>, usize) {
    let mut peer = Peer::calling();
    peer.request(request);
    match peer.received().as_slice() {
        [
            Received::Headers(1, fields, false),
            Received::Data(1, length, true),
        ] => {
            let lines = fields.iter().map(|(name, value)| format!("{name}={value}"));
            (lines.collect(), *length)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_call_gets_the_fields_and_the_prefix_that_it_lacks() {
    let (fields, length) = sent(CALL);
    assert_eq!(
        fields,
        [
            ":method=POST",
            ":scheme=http",
            ":authority=h",
            ":path=/a.B/C",
            "te=trailers",
            "content-type=application/grpc"
        ]
    );
    assert_eq!(length, 5 + 3);
}

#[test]
fn a_call_keeps_the_fields_and_the_prefix_that_it_has() {
    let (fields, length) = sent(
        "POST /a.B/C HTTP/1.1\r\nHost: h\r\nContent-Type: application/grpc+proto\r\n\
         TE: trailers\r\nContent-Length: 8\r\n\r\n\0\0\0\0\x03\x0a\x01x",
    );
    let own = ["content-type=application/grpc+proto", "te=trailers"];
    assert_eq!(fields[4..], own);
    assert_eq!(length, 8);
}

#[test]
fn a_call_without_a_body_sends_the_empty_message() {
    let (_, length) = sent("POST /a.B/C HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(length, 5);
}

/// Head, message and these trailers.
fn response(trailers: &[(&str, &str)], output: &mut Vec<u8>) {
    head(1, &[(":status", "200")], false, output);
    writer::data(1, b"\0\0\0\0\0", false, output);
    head(1, trailers, true, output);
}

#[test]
fn a_call_with_status_0_in_its_trailers_has_succeeded() {
    let mut peer = Peer::calling();
    let exchange = peer.request(CALL);
    peer.send(|output| response(&[("grpc-status", "0"), ("grpc-message", "")], output));
    let (finished, response) = peer.response();
    assert_eq!((finished, response.status), (exchange, 200));
}

/// The error of a call with this response.
fn failure(write: impl FnOnce(&mut Vec<u8>)) -> SessionError {
    let mut peer = Peer::calling();
    let exchange = peer.request(CALL);
    peer.received();
    peer.send(write);
    assert_eq!(peer.received(), []);
    let (failed, error) = peer.failure();
    assert_eq!(failed, exchange);
    assert!(error.is_response());
    error
}

#[test]
fn a_call_with_another_status_has_failed() {
    for (trailers, said) in [
        (
            &[("grpc-status", "14"), ("grpc-message", "not%20now")][..],
            "gRPC call failed: UNAVAILABLE: not now",
        ),
        (&[("grpc-message", "x")], "gRPC call failed: UNKNOWN: x"),
        (&[("grpc-status", "77")], "gRPC call failed: UNKNOWN"),
        (
            &[("x", "y")],
            "response without grpc-status, HTTP status 200",
        ),
    ] {
        let error = failure(|output| response(trailers, output));
        assert_eq!(error.to_string(), said);
    }
}

#[test]
fn a_response_that_is_only_a_head_may_have_the_status() {
    let only_head = |fields: &[(&str, &str)]| failure(|output| head(1, fields, true, output));
    let error = only_head(&[(":status", "200"), ("grpc-status", "12")]);
    assert_eq!(error.to_string(), "gRPC call failed: UNIMPLEMENTED");
    let error = only_head(&[(":status", "502")]);
    assert_eq!(error, SessionError::GrpcNoStatus(502));
}

#[test]
fn a_response_that_ends_with_its_data_has_no_status() {
    let error = failure(|output| {
        // Of a call the status is in the trailers, not in a head that is followed by more.
        head(
            1,
            &[(":status", "503"), ("grpc-status", "0")],
            false,
            output,
        );
        writer::data(1, b"<html>", true, output);
    });
    assert_eq!(error, SessionError::GrpcNoStatus(503));
}

#[test]
fn a_call_that_fails_before_its_message_is_sent_is_reset() {
    let mut peer = Peer::calling();
    peer.settings(&[(id::INITIAL_WINDOW_SIZE, 4)]);
    peer.request(CALL);
    peer.received();
    peer.send(|output| head(1, &[(":status", "200"), ("grpc-status", "8")], true, output));
    assert_eq!(peer.received(), [Received::Reset(1, ErrorCode::NO_ERROR)]);
    assert!(matches!(peer.events().as_slice(), [Event::Failed(..)]));
}
