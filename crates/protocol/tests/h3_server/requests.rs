//! Requests, responses, and the ends of streams and connections.

use std::net::SocketAddr;
use std::time::Duration;

use protocol::h3::error::ErrorCode;
use protocol::h3::frame::{Frame, FrameReader};
use protocol::h3::server::{End, Received};
use protocol::h3::{Greeting, ServerSettings, varint};
use quinn_proto::{ConnectionError, Dir, StreamId};

use crate::link::{Peer, SETTINGS, code, head};
use crate::written::{data, framed, headers, section};

/// The request that has begun: its stream, method, target, and whether it has no body.
fn begun(received: &Received) -> (StreamId, &str, &str, bool) {
    match received {
        Received::Request {
            stream,
            head,
            is_whole,
        } => (*stream, &head.method, &head.target, *is_whole),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_request_without_a_body_is_whole_and_gets_its_response() {
    let mut peer = Peer::ready();
    let id = peer.request(&head("GET", &[]), true);
    peer.run();
    let received = peer.take();
    assert_eq!(received.len(), 1);
    assert_eq!(begun(&received[0]), (id, "GET", "/a", true));

    let server = peer.server();
    server.send_head(id, &section(&[(":status", "200")]), false);
    server.send_data(id, 4, true, |output| output.extend(b"body"));
    assert!(!server.is_open(id) && !server.is_delivered());
    let expected = [headers(&[(":status", "200")]), data(b"body")].concat();
    assert_eq!(server.sent_bytes(), expected.len() as u64);
    peer.run();
    assert_eq!(peer.arrived[&id], (expected, true));
    assert!(peer.server().is_delivered());
    assert_eq!(peer.server().window(id), 0, "it is forgotten");
}

#[test]
fn a_body_comes_in_pieces_and_its_end_is_told() {
    let mut peer = Peer::ready();
    let id = peer.request(&head("POST", &[("content-length", "6")]), false);
    peer.run();
    assert!(!begun(&peer.take()[0]).3);
    peer.send(id, &data(b"abc"), false);
    peer.run();
    let content = |bytes: &[u8], is_last| Received::Content {
        stream: id,
        content: bytes.to_vec(),
        is_last,
    };
    assert_eq!(peer.take(), [content(b"abc", false)]);
    peer.send(id, &data(b"def"), true);
    peer.run();
    assert_eq!(peer.take(), [content(b"def", true)]);
}

#[test]
fn trailers_end_a_request() {
    let mut peer = Peer::ready();
    let trailers = headers(&[("x-sum", "1")]);
    let id = peer.request(&[head("POST", &[]), data(b"abc"), trailers].concat(), true);
    peer.run();
    let received = peer.take();
    assert_eq!(begun(&received[0]), (id, "POST", "/a", false));
    let last = Received::Content {
        stream: id,
        content: b"abc".to_vec(),
        is_last: true,
    };
    assert_eq!(received[1..], [last]);
}

#[test]
fn a_response_larger_than_all_windows_arrives_whole() {
    const BYTES: usize = 3_000_000;
    let mut peer = Peer::ready();
    let id = peer.request(&head("GET", &[]), true);
    peer.run();
    peer.server()
        .send_head(id, &section(&[(":status", "200")]), false);
    let mut left = BYTES;
    while left > 0 {
        let length = (peer.server().window(id) as usize).min(left);
        left -= length;
        peer.server()
            .send_data(id, length as u32, left == 0, |output| {
                output.resize(output.len() + length, b'x');
            });
        peer.run();
    }
    let (bytes, has_ended) = &peer.arrived[&id];
    assert!(*has_ended && bytes.len() > BYTES, "{}", bytes.len());
    assert_eq!(bytes.len() as u64, peer.server().sent_bytes());
}

#[test]
fn each_byte_of_a_split_response_is_in_a_frame_and_a_datagram_of_its_own() {
    let mut peer = Peer::ready();
    let ids = [(); 2].map(|()| peer.request(&head("GET", &[]), true));
    peer.run();
    let before = peer.quic.stats();
    for id in ids {
        let server = peer.server();
        server.split(id);
        server.send_head(id, &section(&[(":status", "200")]), false);
        server.send_data(id, 4, true, |output| output.extend(b"body"));
    }
    peer.run();
    let expected = [headers(&[(":status", "200")]), data(b"body")].concat();
    let bytes = 2 * expected.len() as u64;
    for id in ids {
        assert_eq!(peer.arrived[&id], (expected.clone(), true));
    }
    assert!(peer.server().is_delivered());
    let after = peer.quic.stats();
    assert!(after.frame_rx.stream - before.frame_rx.stream >= bytes);
    assert!(after.udp_rx.datagrams - before.udp_rx.datagrams >= bytes);
}

#[test]
fn a_split_response_that_the_client_stops_does_not_hold_up_another_one() {
    // More datagrams than the congestion window takes: a byte of the first response waits.
    const BYTES: u32 = 5_000;
    let mut peer = Peer::ready();
    let ids = [(); 2].map(|()| peer.request(&head("GET", &[]), true));
    peer.run();
    for id in ids {
        let server = peer.server();
        server.split(id);
        server.send_head(id, &section(&[(":status", "200")]), false);
        server.send_data(id, BYTES, true, |output| {
            output.resize(output.len() + BYTES as usize, b'x');
        });
    }
    peer.round();
    let stopped = code(ErrorCode::REQUEST_CANCELLED);
    let mut stream = peer.quic.recv_stream(ids[0]);
    stream.stop(stopped).expect("it is open");
    peer.run();
    assert!(peer.arrived[&ids[1]].1, "it has not ended");
}

#[test]
fn what_means_nothing_surrounds_each_frame_if_the_settings_say_so() {
    let mut peer = Peer::ready_with(ServerSettings {
        has_grease: true,
        ..SETTINGS
    });
    let id = peer.request(&head("GET", &[]), true);
    peer.run();
    let server = peer.server();
    server.send_head(id, &section(&[(":status", "200")]), false);
    server.send_data(id, 4, true, |output| output.extend(b"body"));
    peer.run();
    // 0x21 is 2 more than a multiple of 0x1f.
    let is_reserved = |kind: u64| kind >= 0x21 && kind % 0x1f == 2;
    let frames = |mut bytes: &[u8]| {
        let mut reader = FrameReader::new(1_000);
        let mut kinds = Vec::new();
        while let Some(frame) = reader.next(&mut bytes).expect("they are good") {
            kinds.push(match frame {
                Frame::Unknown(kind) if is_reserved(kind) => "reserved",
                Frame::Headers(_) => "head",
                Frame::Data(_) => "data",
                Frame::Settings(mut all) => {
                    if all.any(|(setting, _)| is_reserved(setting)) {
                        "reserved setting"
                    } else {
                        "settings"
                    }
                }
                other => panic!("{other:?}"),
            });
        }
        kinds
    };
    let (response, has_ended) = &peer.arrived[&id];
    assert_eq!(frames(response), ["reserved", "head", "reserved", "data"]);
    assert!(has_ended);
    let mut streams: Vec<_> = peer
        .arrived
        .iter()
        .filter(|(other, _)| **other != id)
        .collect();
    streams.sort_by_key(|(id, _)| **id);
    let [(_, (control, false)), (_, (other, true))] = streams[..] else {
        panic!("{streams:?}");
    };
    assert_eq!(control[0], 0, "the type of a control stream");
    assert_eq!(frames(&control[1..]), ["reserved setting", "reserved"]);
    let kind = varint::take(&mut other.as_slice()).expect("it has a type");
    assert!(is_reserved(kind), "{kind}");
    peer.close_server(ErrorCode::NO_ERROR);
    peer.run();
    let code = peer.close_code().expect("it is closed");
    assert!(code != ErrorCode::NO_ERROR && code.is_no_error(), "{code}");
}

#[test]
fn a_client_may_open_streams_after_the_delay_and_not_before() {
    let mut peer = Peer::ready_with(ServerSettings {
        streams_delay_ns: 2_000_000_000,
        ..SETTINGS
    });
    assert_eq!(peer.quic.streams().open(Dir::Bi), None);
    peer.wait(Duration::from_secs(2));
    for _ in 0..SETTINGS.streams_max {
        peer.request(&head("GET", &[]), true);
    }
    assert_eq!(peer.quic.streams().open(Dir::Bi), None);
}

#[test]
fn a_forgotten_connection_gets_a_stateless_reset() {
    let mut peer = Peer::ready();
    peer.forget();
    peer.request(&head("GET", &[]), true);
    peer.run();
    assert_eq!(peer.lost, Some(ConnectionError::Reset));
}

#[test]
fn a_client_that_does_not_read_is_sent_no_more_than_its_window() {
    let mut peer = Peer::ready();
    peer.stop_reading();
    let id = peer.request(&head("GET", &[]), true);
    peer.run();
    peer.server()
        .send_head(id, &section(&[(":status", "200")]), false);
    let mut sent = 0;
    for _ in 0..100 {
        let length = peer.server().window(id);
        sent += u64::from(length);
        peer.server().send_data(id, length, false, |output| {
            output.resize(output.len() + length as usize, b'x');
        });
        peer.run();
    }
    assert_eq!(peer.server().window(id), 0);
    // The window of the client's stream is 1.25 MB.
    assert!(sent < 2_000_000, "{sent}");
    assert!(peer.server().is_open(id));
}

#[test]
fn a_reset_and_an_unwanted_response_end_a_stream() {
    let mut peer = Peer::ready();
    let reset = peer.request(&head("POST", &[]), false);
    let stopped = peer.request(&head("GET", &[]), true);
    peer.run();
    peer.take();
    let cancelled = code(ErrorCode::REQUEST_CANCELLED);
    peer.quic.send_stream(reset).reset(cancelled).expect("open");
    peer.quic
        .recv_stream(stopped)
        .stop(cancelled)
        .expect("open");
    peer.run();
    let mut ended = peer.take();
    ended.sort_by_key(|received| format!("{received:?}"));
    let expected = [reset, stopped].map(|stream| Received::Reset { stream });
    assert_eq!(ended, expected);
    for id in [reset, stopped] {
        assert!(!peer.server().is_open(id));
    }
    assert_eq!(peer.lost, None, "the connection goes on");
}

#[test]
fn requests_after_a_goaway_are_rejected_and_earlier_ones_go_on() {
    let mut peer = Peer::ready();
    let early = peer.request(&head("GET", &[]), true);
    peer.run();
    peer.take();
    peer.server().send_goaway();
    peer.run();
    // The type of the stream, SETTINGS, and GOAWAY with the stream after the first.
    let control = peer.arrived.iter().find(|(id, _)| **id != early);
    let (_, (bytes, _)) = control.expect("the control stream");
    assert!(bytes.ends_with(&[0x7, 1, 4]), "{bytes:?}");
    let late = peer.request(&head("GET", &[]), true);
    peer.run();
    assert_eq!(peer.take(), []);
    let rejected = ErrorCode::REQUEST_REJECTED.0;
    assert_eq!(peer.resets.get(&late), Some(&rejected));
    peer.server()
        .send_head(early, &section(&[(":status", "204")]), true);
    peer.run();
    assert!(peer.arrived[&early].1);
}

#[test]
fn a_client_that_closes_ends_the_session_which_is_drained_some_time_later() {
    let mut peer = Peer::ready();
    assert_eq!(peer.server().end(), None);
    peer.close_client();
    peer.run();
    assert_eq!(peer.server().end(), Some(End::ByPeer));
    peer.wait(Duration::from_secs(3));
    assert!(peer.server().is_drained());
}

#[test]
fn a_silent_client_is_lost_after_the_idle_timeout() {
    let mut peer = Peer::ready_with(ServerSettings {
        idle_timeout_ms: 5_000,
        ..SETTINGS
    });
    peer.wait(Duration::from_secs(6));
    assert_eq!(peer.server().end(), Some(End::ByPeer));
    assert!(peer.server().is_drained());
}

#[test]
fn closing_tells_the_client_the_code() {
    let mut peer = Peer::ready();
    peer.close_server(ErrorCode::INTERNAL_ERROR);
    peer.run();
    assert_eq!(peer.close_code(), Some(ErrorCode::INTERNAL_ERROR));
    assert_eq!(peer.server().end(), Some(End::ByUs));
}

#[test]
fn a_client_that_changes_its_address_gets_its_responses_there() {
    let mut peer = Peer::ready();
    let id = peer.request(&head("GET", &[]), true);
    peer.run();
    peer.address = SocketAddr::from(([192, 0, 2, 3], 5000));
    peer.quic.ping();
    peer.run();
    peer.server()
        .send_head(id, &section(&[(":status", "204")]), true);
    peer.run();
    assert_eq!(peer.replied_to, Some(peer.address));
    assert!(peer.arrived[&id].1);
}

#[test]
fn a_greeting_retries_refuses_or_says_nothing() {
    let with = |greeting| ServerSettings {
        greeting,
        ..SETTINGS
    };
    let mut peer = Peer::ready_with(with(Greeting::Retry));
    let id = peer.request(&head("GET", &[]), true);
    peer.run();
    assert_eq!(begun(&peer.take()[0]).0, id);

    let mut peer = Peer::begun(with(Greeting::Refuse));
    peer.run();
    let refused = matches!(&peer.lost, Some(ConnectionError::ConnectionClosed(close))
        if u64::from(close.error_code) == 0x2);
    assert!(refused, "{:?}", peer.lost);

    let mut peer = Peer::begun(with(Greeting::Ignore));
    peer.run();
    assert!(peer.quic.is_handshaking() && peer.lost.is_none());
}

#[test]
fn unknown_frames_and_streams_are_ignored() {
    let mut peer = Peer::ready();
    let unknown = peer.open_uni(&[0x21, 1, 2, 3]);
    let request = [framed(0x21, b"grease"), head("GET", &[])].concat();
    let id = peer.request(&request, true);
    peer.run();
    assert_eq!(begun(&peer.take()[0]).0, id);
    let creation = ErrorCode::STREAM_CREATION_ERROR.0;
    assert_eq!(peer.stops.get(&unknown), Some(&creation));
    assert_eq!(peer.lost, None);
}

#[test]
fn a_deadline_that_was_handled_is_not_due_again_even_if_nothing_is_sent() {
    let mut peer = Peer::ready();
    let id = peer.request(&head("GET", &[]), true);
    peer.run();
    let Peer {
        endpoint, server, ..
    } = &mut peer;
    let server = server.as_mut().expect("it is connected");
    server.send_head(id, &section(&[(":status", "204")]), true);
    server.write();
    // The response is lost.
    let mut lost = Vec::new();
    while server.transmit(endpoint, &mut lost).is_some() {}
    let due_ns = server.next_timeout_ns().expect("it will be sent again");
    endpoint.at(due_ns);
    server.handle_timeout(endpoint);
    let next_ns = server.next_timeout_ns();
    assert!(next_ns.is_none_or(|next_ns| next_ns > due_ns));
}
