//! How responses are told.

use std::sync::Arc;

use protocol::h3::frame::frame_type;
use protocol::{Event, ExchangeId, SessionError, StreamSpec};

use crate::link::{GET, Peer, client_settings};
use crate::server::{Settings, response};
use crate::written::{data, framed, headers};

#[test]
fn a_response_in_one_datagram_yields_only_its_end() {
    let mut peer = Peer::capturing();
    let exchange = peer.request(GET);
    let bytes = response("200", b"hello");
    peer.respond(0, &bytes, true);
    let [Event::Finished(finished, response)] = &peer.events[..] else {
        panic!("{:?}", peer.events);
    };
    assert_eq!(*finished, exchange);
    assert_eq!((response.status, response.bytes), (200, bytes.len() as u64));
    assert!(response.reusable);
    let captured = response.captured.as_ref().expect("it is captured");
    assert_eq!(captured.body, b"hello");
    let fields: Vec<_> = captured.headers.iter().collect();
    assert_eq!(fields, [(&b"content-length"[..], &b"5"[..])]);
}

#[test]
fn a_response_that_is_cut_at_any_byte_is_the_same_response() {
    let mut bytes = framed(0x21, b"grease");
    bytes.extend(headers(&[(":status", "103"), ("link", "</a>")]));
    bytes.extend(response("200", b"hello"));
    bytes.extend(data(b""));
    bytes.extend(headers(&[("x-checksum", "abc")]));
    let mut peer = Peer::capturing();
    let mut whole = None;
    for cut in 0..=bytes.len() {
        let exchange = peer.request(GET);
        peer.respond(cut as u64, &bytes[..cut], false);
        let began = matches!(peer.events[..], [Event::Began(it)] if it == exchange);
        assert_eq!(began, cut > 0, "{:?}", peer.events);
        peer.respond(cut as u64, &bytes[cut..], true);
        let finished = peer.finished();
        let [(finished, response)] = &finished[..] else {
            panic!("{finished:?}");
        };
        assert_eq!(*finished, exchange);
        assert_eq!(
            whole.get_or_insert_with(|| response.clone()),
            response,
            "{cut}"
        );
    }
    let captured = whole
        .and_then(|response| response.captured)
        .expect("it is captured");
    assert_eq!(captured.body, b"hello");
    let names: Vec<_> = captured.headers.iter().map(|(name, _)| name).collect();
    assert_eq!(names, [&b"content-length"[..], b"x-checksum"]);
}

#[test]
fn a_response_byte_by_byte_is_the_same_response() {
    let mut peer = Peer::ready(1);
    peer.request(GET);
    let bytes = response("404", b"hello");
    for byte in &bytes {
        peer.respond(0, &[*byte], false);
    }
    peer.respond(0, b"", true);
    let finished = peer.finished();
    assert_eq!(
        (finished[0].1.status, finished[0].1.bytes),
        (404, bytes.len() as u64)
    );
}

#[test]
fn responses_may_arrive_in_any_order() {
    let mut peer = Peer::ready(3);
    let exchanges: Vec<_> = (0..3).map(|_| peer.request(GET)).collect();
    for index in [2, 0, 1] {
        peer.respond(index, &response("200", b"abc"), true);
    }
    let order: Vec<_> = peer
        .finished()
        .iter()
        .map(|(exchange, _)| *exchange)
        .collect();
    assert_eq!(order, [exchanges[2], exchanges[0], exchanges[1]]);
}

#[test]
fn a_response_without_content_may_have_a_length() {
    let with_length = headers(&[(":status", "200"), ("content-length", "1000")]);
    let unmodified = headers(&[(":status", "304"), ("content-length", "1000")]);
    let none = headers(&[(":status", "204")]);
    let head = "HEAD / HTTP/1.1\r\nHost: test.example\r\n\r\n";
    for (request, bytes, status) in [
        (head, with_length, 200),
        (GET, unmodified, 304),
        (GET, none, 204),
    ] {
        let mut peer = Peer::ready(1);
        peer.request(request);
        peer.respond(0, &bytes, true);
        assert_eq!(peer.finished()[0].1.status, status);
    }
}

#[test]
fn a_malformed_response_fails_and_the_connection_goes_on() {
    let ok = headers(&[(":status", "200")]);
    let join = |parts: &[&[u8]]| parts.concat();
    let head = "HEAD / HTTP/1.1\r\nHost: test.example\r\n\r\n";
    let sized = headers(&[(":status", "200"), ("content-length", "3")]);
    for (request, bytes, reason) in [
        (GET, join(&[&sized, &data(b"ab")]), "content-length differs"),
        (
            GET,
            join(&[&sized, &data(b"abcd")]),
            "content-length differs",
        ),
        (GET, sized, "content-length differs"),
        (head, join(&[&ok, &data(b"a")]), "content where"),
        (
            GET,
            join(&[&headers(&[(":status", "204")]), &data(b"a")]),
            "content where",
        ),
        (GET, Vec::new(), "before the response"),
        (GET, headers(&[(":status", "103")]), "before the response"),
        (GET, headers(&[("a", "b")]), "without :status"),
        (GET, headers(&[(":status", "20")]), "bad :status"),
        (GET, headers(&[(":status", "101")]), "101"),
        (
            GET,
            headers(&[(":status", "200"), (":path", "/")]),
            "pseudo-header",
        ),
        (
            GET,
            headers(&[(":status", "200"), ("Upper", "a")]),
            "field name",
        ),
        (
            GET,
            headers(&[(":status", "200"), ("connection", "close")]),
            "HTTP/1.1",
        ),
        (GET, join(&[&ok, &ok]), "second head"),
    ] {
        let mut peer = Peer::ready(2);
        let exchange = peer.request(request);
        peer.respond(0, &bytes, true);
        let failed = peer.failed();
        let [(failed, failure)] = &failed[..] else {
            panic!("{reason}: {failed:?}");
        };
        assert_eq!(*failed, exchange);
        let SessionError::BadHttp3(told) = &failure.error else {
            panic!("{reason}: {failure:?}");
        };
        assert!(told.contains(reason), "{told}, not {reason}");
        assert_eq!(failure.bytes, bytes.len() as u64);
        peer.request(GET);
        peer.respond(1, &response("200", b"abc"), true);
        assert_eq!(peer.finished().len(), 1, "{reason}");
    }
}

#[test]
fn a_captured_body_has_a_limit() {
    let mut peer = Peer::capturing();
    for (index, length, fits) in [(0, 1000, true), (1, 1001, false)] {
        peer.request(GET);
        peer.respond(index, &response("200", &vec![b'x'; length]), true);
        if fits {
            assert_eq!(peer.finished().len(), 1)
        } else {
            assert_eq!(
                peer.failed()[0].1.error,
                SessionError::BodyTooLargeToCapture
            )
        }
    }
}

#[test]
fn large_responses_on_many_streams_arrive_whole() {
    let mut peer = Peer::ready(32);
    peer.server.answer = Some(|_| response("200", &[b'x'; 100_000]));
    for _ in 0..32 {
        peer.start(GET);
    }
    peer.run_for(3_000_000_000);
    let finished = peer.finished();
    assert_eq!(finished.len(), 32);
    assert!(
        finished
            .iter()
            .all(|(_, response)| response.bytes > 100_000)
    );
}

#[test]
fn a_response_larger_than_the_windows_arrives_whole() {
    let mut peer = Peer::ready(1);
    peer.server.answer = Some(|_| response("200", &vec![b'x'; 20 << 20]));
    peer.start(GET);
    peer.run_for(20_000_000_000);
    let finished = peer.finished();
    assert!(finished[0].1.bytes > 20 << 20);
}

#[test]
fn heads_are_remembered_and_still_told_apart() {
    let mut peer = Peer::ready(1);
    for index in 0..60 {
        let status = ["200", "404", "503", "418"][index as usize % 4];
        peer.request(GET);
        peer.respond(index, &response(status, b"abc"), true);
        assert_eq!(peer.finished()[0].1.status.to_string(), status);
    }
}

#[test]
fn events_of_a_stream_are_told_as_they_arrive() {
    let mut peer = Peer::ready(1);
    let shared = std::mem::replace(
        &mut peer.shared,
        Peer::with(client_settings(1), Settings::default()).shared,
    );
    peer.shared = shared.with_stream(Some(StreamSpec {
        format: plan::EventsFormat::Sse,
        end_marker: Arc::from([]),
        dialect: None,
        keeps_answers: false,
    }));
    peer.request(GET);
    let mut bytes = headers(&[(":status", "200"), ("content-type", "text/event-stream")]);
    bytes.extend(data(b"data: 1\n\ndata: 2\n\n"));
    peer.respond(0, &bytes, false);
    let told = peer.events.iter().find_map(|event| match event {
        Event::Streamed(_, found) => Some(found.events),
        _ => None,
    });
    assert_eq!(told, Some(2));
    peer.events.clear();
    peer.respond(0, &framed(frame_type::DATA, b"data: 3\n\n"), true);
    let [
        Event::Streamed(_, found),
        Event::StreamEnded(_, total),
        Event::Finished(exchange, _),
    ] = &peer.events[..]
    else {
        panic!("{:?}", peer.events);
    };
    assert_eq!(
        (found.events, total.events, *exchange),
        (1, 3, ExchangeId(0))
    );
}
