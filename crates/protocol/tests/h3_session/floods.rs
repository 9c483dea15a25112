//! Servers that send without end: each is cut off, or costs no memory.

use protocol::h3::ClientSettings;
use protocol::h3::frame::{self, frame_type, stream_type};
use protocol::{Event, SessionError};
use quinn_proto::StreamId;

use crate::link::{GET, Peer, client_settings};
use crate::server::{Settings, bidi};
use crate::written::{framed, headers};

/// Sends the same bytes again and again until the session fails, or this often.
fn flood(peer: &mut Peer, id: StreamId, bytes: &[u8], times: usize) -> usize {
    for round in 0..times {
        peer.server.send(id, bytes, false);
        peer.run();
        if peer.error.is_some() || peer.events.iter().any(|it| matches!(it, Event::Failed(..))) {
            return round;
        }
    }
    times
}

fn with_request() -> Peer {
    let mut peer = Peer::ready(1);
    peer.request(GET);
    peer
}

#[test]
fn endless_unknown_frames_are_a_flood() {
    let mut peer = with_request();
    let many = framed(0x21, b"").repeat(20_000);
    assert!(flood(&mut peer, bidi(0), &many, 10) < 4);
    assert_eq!(peer.error, Some(SessionError::Flooded));
}

#[test]
fn endless_empty_data_is_a_flood() {
    let mut peer = with_request();
    peer.respond(0, &headers(&[(":status", "200")]), false);
    let many = framed(frame_type::DATA, b"").repeat(20_000);
    assert!(flood(&mut peer, bidi(0), &many, 10) < 4);
    assert_eq!(peer.error, Some(SessionError::Flooded));
}

#[test]
fn endless_data_of_one_byte_is_a_response() {
    let mut peer = with_request();
    peer.respond(0, &headers(&[(":status", "200")]), false);
    let many = framed(frame_type::DATA, b"x").repeat(40_000);
    assert_eq!(flood(&mut peer, bidi(0), &many, 4), 4);
    assert_eq!(peer.error, None);
}

#[test]
fn unknown_frames_between_pieces_of_a_response_are_no_flood() {
    let mut peer = with_request();
    peer.respond(0, &headers(&[(":status", "200")]), false);
    let piece = [framed(0x21, b""), framed(frame_type::DATA, b"x")].concat();
    assert_eq!(flood(&mut peer, bidi(0), &piece.repeat(20_000), 5), 5);
    assert_eq!(peer.error, None);
}

#[test]
fn endless_goaways_are_a_flood() {
    let mut peer = with_request();
    let control = peer.server.control.expect("there is one");
    let mut goaway = Vec::new();
    frame::append_goaway(8, &mut goaway);
    assert!(flood(&mut peer, control, &goaway.repeat(20_000), 10) < 4);
    assert_eq!(peer.error, Some(SessionError::Flooded));
    assert_eq!(peer.events, [Event::Draining]);
}

#[test]
fn endless_instructions_of_qpack_are_a_flood() {
    for (kind, instruction) in [
        (stream_type::QPACK_ENCODER, 0x20),
        (stream_type::QPACK_DECODER, 0x44),
    ] {
        let mut peer = with_request();
        let id = peer
            .server
            .open(&[kind as u8], false)
            .expect("it is allowed");
        assert!(flood(&mut peer, id, &[instruction; 20_000], 10) < 4);
        assert_eq!(peer.error, Some(SessionError::Flooded));
    }
}

#[test]
fn endless_interim_responses_end_the_request() {
    let mut peer = with_request();
    let many = headers(&[(":status", "103")]).repeat(65);
    assert_eq!(flood(&mut peer, bidi(0), &many, 2), 0);
    assert_eq!(peer.failed()[0].1.error, SessionError::TooManyInterim);
    assert_eq!(peer.error, None);
}

#[test]
fn a_head_beyond_the_limits_ends_the_request() {
    let long = "x".repeat(90_000);
    let many: Vec<_> = (0..300).map(|_| ("a", "b")).collect();
    let mut fields = vec![(":status", "200")];
    fields.extend(many);
    let mut claimed = Vec::new();
    frame::append_header(frame_type::HEADERS, 1 << 40, &mut claimed);
    let large = headers(&[(":status", "200"), ("a", &long)]);
    for (bytes, expected) in [
        (large, SessionError::HeaderTooLarge),
        (headers(&fields), SessionError::TooManyHeaders),
        (claimed, SessionError::HeaderTooLarge),
    ] {
        let mut peer = with_request();
        peer.respond(0, &bytes, false);
        assert_eq!(peer.failed()[0].1.error, expected);
        assert_eq!(peer.error, None);
    }
}

#[test]
fn endless_streams_are_a_flood() {
    let mut peer = with_request();
    // Each is stopped, and makes room for another.
    let mut opened = 0_u32;
    while peer.error.is_none() && opened < 100_000 {
        while peer.server.open(&[0x21], true).is_some() {
            opened += 1;
        }
        peer.run_for(30_000_000);
    }
    assert_eq!(peer.error, Some(SessionError::Flooded), "{opened}");
}

#[test]
fn a_frame_without_end_takes_no_memory() {
    let mut peer = Peer::ready_with(
        ClientSettings {
            capture: true,
            captured_body_bytes_max: 1000,
            ..client_settings(1)
        },
        Settings::default(),
    );
    peer.request(GET);
    let mut bytes = Vec::new();
    frame::append_header(0x21, 1 << 60, &mut bytes);
    peer.server.send(bidi(0), &bytes, false);
    assert_eq!(flood(&mut peer, bidi(0), &[0; 1 << 20], 4), 4);
    assert_eq!(peer.error, None);
}
