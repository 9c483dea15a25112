//! What the client sends: heads, bodies within windows, cancellations.

use crate::peer::{GET, Peer, Received, answer};
use protocol::h2::error::ErrorCode;
use protocol::h2::settings::id;
use protocol::h2::writer;
use protocol::{ExchangeId, Session};

fn fields(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

#[test]
fn nothing_is_sent_before_the_settings_of_the_server() {
    let mut peer = Peer::new(4);
    assert!(!peer.session.is_ready());
    assert_eq!(peer.session.capacity(), 0);
    peer.settings(&[]);
    assert!(peer.session.is_ready());
    assert_eq!(peer.session.capacity(), 4);
    let received = peer.received();
    assert_eq!(received.last(), Some(&Received::SettingsAck));
}

#[test]
fn a_request_becomes_pseudo_headers_and_fields_in_lower_case() {
    let mut peer = Peer::ready(1);
    peer.request(
        "GET /a?b HTTP/1.1\r\nHost: example.org:81\r\nX-Y: Z\r\nConnection: keep-alive, X\r\n\
         Keep-Alive: 5\r\nTE: trailers\r\nUpgrade: h2c\r\nTransfer-Encoding: identity\r\n\r\n",
    );
    let expected = fields(&[
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "example.org:81"),
        (":path", "/a?b"),
        ("x-y", "Z"),
        ("te", "trailers"),
    ]);
    assert_eq!(peer.received(), [Received::Headers(1, expected, true)]);
}

#[test]
fn a_target_in_absolute_form_is_split() {
    for (target, authority, path) in [
        ("http://other/p?q", "other", "/p?q"),
        ("https://other:1", "other:1", "/"),
        ("http://other?q", "other", "?q"),
        ("*", "example.org", "*"),
    ] {
        let mut peer = Peer::ready(1);
        peer.request(&format!(
            "OPTIONS {target} HTTP/1.1\r\nHost: example.org\r\n\r\n"
        ));
        let received = peer.received();
        let [Received::Headers(1, fields, true)] = received.as_slice() else {
            panic!("{received:?}");
        };
        assert_eq!(fields[2].1, authority, "{target}");
        assert_eq!(fields[3].1, path, "{target}");
    }
}

#[test]
fn a_connect_request_has_only_an_authority() {
    let mut peer = Peer::ready(1);
    peer.request("CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n");
    let expected = fields(&[(":method", "CONNECT"), (":authority", "example.org:443")]);
    assert_eq!(peer.received(), [Received::Headers(1, expected, true)]);
}

#[test]
fn the_limit_of_the_server_holds_and_may_change() {
    let mut peer = Peer::ready(8);
    peer.settings(&[(id::MAX_CONCURRENT_STREAMS, 3)]);
    for _ in 0..2 {
        peer.request(GET);
    }
    assert_eq!(peer.session.capacity(), 1);
    peer.settings(&[(id::MAX_CONCURRENT_STREAMS, 1)]);
    assert_eq!(peer.session.capacity(), 0);
    peer.settings(&[(id::MAX_CONCURRENT_STREAMS, 100)]);
    assert_eq!(peer.session.capacity(), 6);
}

#[test]
fn a_body_is_sent_as_far_as_the_windows_allow() {
    let mut peer = Peer::ready(2);
    let body = "x".repeat(70_000);
    let length = body.len();
    let request = format!("POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}");
    peer.request(&request);
    let sent = |received: &[Received]| -> (usize, bool) {
        let data = received.iter().filter_map(|received| match received {
            Received::Data(_, length, end) => Some((*length, *end)),
            _ => None,
        });
        data.fold((0, false), |(sum, _), (length, end)| (sum + length, end))
    };
    assert_eq!(sent(&peer.received()), (65_535, false));
    // The window of the stream alone is of no use.
    peer.send(|output| writer::window_update(1, 100_000, output));
    assert_eq!(sent(&peer.received()), (0, false));
    peer.send(|output| writer::window_update(0, 465, output));
    assert_eq!(sent(&peer.received()), (465, false));
    peer.send(|output| writer::window_update(0, 10_000, output));
    assert_eq!(sent(&peer.received()), (4_000, true));
    // The connection's window has 6,000 bytes left, but a new stream may begin with none.
    peer.settings(&[(id::INITIAL_WINDOW_SIZE, 0)]);
    peer.request("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(sent(&peer.received()), (0, false));
    peer.settings(&[(id::INITIAL_WINDOW_SIZE, 2)]);
    assert_eq!(sent(&peer.received()), (2, false));
    peer.send(|output| writer::window_update(3, 1, output));
    assert_eq!(sent(&peer.received()), (1, true));
}

/// Otherwise a body of 100 MB for each of many streams would be in memory.
#[test]
fn large_bodies_are_appended_in_parts_as_the_kernel_takes_them() {
    const LENGTH: usize = 3_000_000;
    let mut peer = Peer::ready(2);
    peer.settings(&[
        (id::INITIAL_WINDOW_SIZE, 1 << 30),
        (id::MAX_FRAME_SIZE, 16_384),
    ]);
    peer.send(|output| writer::window_update(0, 1 << 30, output));
    let body = "x".repeat(LENGTH);
    let request = format!("POST / HTTP/1.1\r\nContent-Length: {LENGTH}\r\n\r\n{body}");
    peer.request(&request);
    peer.request(&request);
    let mut sent = [0; 2];
    let mut ended = 0;
    while ended < 2 {
        assert!(peer.output.len() < 300_000, "{}", peer.output.len());
        assert!(!peer.output.is_empty(), "it goes on until the end");
        for received in peer.received() {
            if let Received::Data(stream, length, end) = received {
                sent[stream as usize / 2] += length;
                ended += usize::from(end);
            }
        }
        // Whatever the server sends in the meantime does not add to it.
        peer.send(|output| writer::window_update(0, 1, output));
        assert_eq!(peer.received(), []);
        let Peer {
            shared,
            session,
            output,
            ..
        } = &mut peer;
        session.resume(shared, output).expect("it can send");
    }
    assert_eq!(sent, [LENGTH; 2]);
    assert_eq!(peer.received(), []);
}

#[test]
fn several_bodies_share_the_window_in_turn() {
    let mut peer = Peer::ready(2);
    let body = "x".repeat(100_000);
    let request = format!("POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n{body}");
    peer.request(&request);
    peer.request(&request);
    peer.received();
    for stream in [1, 3] {
        peer.send(|output| writer::window_update(stream, 1_000_000, output));
    }
    let mut streams = Vec::new();
    for _ in 0..4 {
        peer.send(|output| writer::window_update(0, 10_000, output));
        streams.extend(peer.received().into_iter().map(|received| match received {
            Received::Data(stream, length, false) => (stream, length),
            other => panic!("{other:?}"),
        }));
    }
    assert_eq!(
        streams,
        [(1, 10_000), (3, 10_000), (1, 10_000), (3, 10_000)]
    );
}

#[test]
fn a_chunked_body_is_sent_without_its_framing() {
    let mut peer = Peer::ready(1);
    peer.request(
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    );
    let received = peer.received();
    assert_eq!(received[1], Received::Data(1, 5, true));
}

#[test]
fn a_cancelled_exchange_is_reset_and_late_frames_are_ignored() {
    let mut peer = Peer::ready(2);
    let (slow, other) = (peer.request(GET), peer.request(GET));
    peer.received();
    let Peer {
        shared,
        session,
        output,
        ..
    } = &mut peer;
    assert_eq!(session.cancel(shared, slow, output), Ok(true));
    assert_eq!(session.cancel(shared, ExchangeId(77), output), Ok(false));
    assert_eq!(peer.received(), [Received::Reset(1, ErrorCode::CANCEL)]);
    assert_eq!(peer.session.capacity(), 1);
    peer.send(|output| {
        answer(1, "200", "late", output);
        answer(3, "200", "in time", output);
    });
    assert_eq!(peer.response().0, other);
}

#[test]
fn a_close_is_announced_once_without_resets() {
    let close = |peer: &mut Peer| peer.session.close(&mut peer.shared, &mut peer.output);
    let mut peer = Peer::ready(2);
    peer.request(GET);
    peer.received();
    close(&mut peer);
    assert_eq!(peer.received(), [Received::Goaway(ErrorCode::NO_ERROR)]);
    close(&mut peer);
    assert_eq!(peer.received(), []);
}

#[test]
fn an_end_that_is_known_is_not_announced() {
    let mut violated = Peer::ready(1);
    let _ = violated.try_send(|output| writer::data(7, b"x", false, output));
    violated.received();
    let mut ended = Peer::ready(1);
    let _ = ended.session.end(&mut ended.shared, &mut ended.events);
    for mut peer in [violated, ended] {
        peer.session.close(&mut peer.shared, &mut peer.output);
        assert_eq!(peer.received(), []);
    }
}

#[test]
fn the_number_of_a_stream_that_is_still_open_is_not_used_again() {
    let mut peer = Peer::ready(2);
    let patient = peer.request(GET);
    let mut stream = 3;
    for _ in 0..50 {
        let exchange = peer.request(GET);
        let received = peer.received();
        let Some(Received::Headers(id, ..)) = received.last() else {
            panic!("{received:?}");
        };
        assert!(*id >= stream, "{id} after {stream}");
        stream = *id;
        peer.send(|output| answer(stream, "200", "", output));
        assert_eq!(peer.response().0, exchange);
    }
    peer.send(|output| answer(1, "200", "", output));
    assert_eq!(peer.response().0, patient);
}
