//! Servers that send too much of something: each is stopped at a limit, with its own reason.

use crate::driver::{converse, cuts, shared, start};
use protocol::h1::{H1, H1Context, Limits};
use protocol::{Event, RequestKind, Session, SessionError};

const HEAD_BYTES_MAX: usize = 80 * 1024;

/// The error after `beginning` followed by endless repetitions of `piece`, and the bytes sent until
/// then.
fn flood(shared: &mut H1Context, beginning: &str, piece: &[u8]) -> (SessionError, usize) {
    const BYTES_MAX: usize = 8 * 1024 * 1024;
    let mut session = H1::new(shared);
    let (mut output, mut events) = (Vec::new(), Vec::new());
    session.begin(shared, &mut output).expect("it begins");
    start(&mut session, shared, &[RequestKind::Plain]);
    let mut sent = beginning.len();
    session
        .receive(shared, beginning.as_bytes(), &mut output, &mut events)
        .expect("the beginning is good");
    while sent < BYTES_MAX {
        sent += piece.len();
        if let Err(error) = session.receive(shared, piece, &mut output, &mut events) {
            return (error, sent);
        }
    }
    panic!("no limit within {BYTES_MAX} bytes");
}

#[test]
fn an_endless_header_line_stops_at_the_limit() {
    for piece in [1, 7, 4096, 1_000_000] {
        let (error, sent) = flood(
            &mut shared(false),
            "HTTP/1.1 200 OK\r\nX: ",
            &vec![b'x'; piece],
        );
        assert_eq!(error, SessionError::HeaderTooLarge);
        assert!(
            sent < HEAD_BYTES_MAX + piece,
            "{sent} bytes in pieces of {piece}"
        );
    }
}

#[test]
fn endless_header_lines_stop_at_the_limit() {
    let (error, sent) = flood(&mut shared(false), "HTTP/1.1 200 OK\r\n", b"A: b\r\n");
    assert_eq!(
        (error, sent < HEAD_BYTES_MAX + 7),
        (SessionError::HeaderTooLarge, true)
    );
}

#[test]
fn endless_trailers_stop_at_the_limit() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";
    let (error, sent) = flood(&mut shared(false), chunked, b"A: b\r\n");
    let limit = chunked.len() + HEAD_BYTES_MAX + 7;
    assert_eq!((error, sent < limit), (SessionError::HeaderTooLarge, true));
}

#[test]
fn endless_chunk_extensions_and_zeros_stop_at_their_limit() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;";
    let (error, sent) = flood(&mut shared(false), chunked, b"xxxxxxxxxx");
    assert_eq!((error, sent < 17 * 1024), (SessionError::BadChunk, true));
    let (error, sent) = flood(
        &mut shared(false),
        &chunked[..chunked.len() - 2],
        b"0000000000",
    );
    assert_eq!((error, sent < 17 * 1024), (SessionError::BadChunk, true));
}

#[test]
fn endless_interim_responses_and_empty_lines_stop() {
    let (error, sent) = flood(&mut shared(false), "", b"HTTP/1.1 103 Early Hints\r\n\r\n");
    assert_eq!((error, sent), (SessionError::TooManyInterim, 65 * 28));
    let (error, sent) = flood(&mut shared(false), "", b"\r\n");
    assert_eq!((error, sent), (SessionError::BadStatusLine, 10));
}

#[test]
fn garbage_without_a_line_end_is_detected_at_once() {
    let (error, sent) = flood(&mut shared(false), "", b"garbage");
    assert_eq!((error, sent), (SessionError::BadStatusLine, 7));
}

#[test]
fn the_number_of_header_lines_has_a_limit() {
    let head = |lines: usize| {
        format!(
            "HTTP/1.1 200 OK\r\n{}Content-Length: 0\r\n\r\n",
            "A: b\r\n".repeat(lines - 1)
        )
    };
    for lines in [63, 64, 65, 256] {
        let outcome = converse(
            &mut shared(false),
            &[RequestKind::Plain],
            &[head(lines).as_bytes()],
        );
        assert_eq!(
            (outcome.error, outcome.responses.len()),
            (None, 1),
            "{lines}"
        );
    }
    let outcome = converse(
        &mut shared(false),
        &[RequestKind::Plain],
        &[head(257).as_bytes()],
    );
    assert_eq!(outcome.error, Some(SessionError::TooManyHeaders));
    let trailers = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n".to_owned()
        + &"A: b\r\n".repeat(257)
        + "\r\n";
    let outcome = converse(
        &mut shared(false),
        &[RequestKind::Plain],
        &[trailers.as_bytes()],
    );
    assert_eq!(outcome.error, Some(SessionError::TooManyHeaders));
}

#[test]
fn limits_are_exact_however_the_head_is_split() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    for (limit, error) in [
        (head.len(), None),
        (head.len() - 1, Some(SessionError::HeaderTooLarge)),
    ] {
        let limits = Limits {
            head_bytes_max: limit,
            ..Limits::default()
        };
        for pieces in cuts(head) {
            let mut shared = H1Context::new(limits, false);
            let outcome = converse(&mut shared, &[RequestKind::Plain], &pieces);
            assert_eq!(outcome.error, error, "{pieces:?}");
        }
    }
}

#[test]
fn a_captured_body_has_a_limit_and_an_uncaptured_one_has_none() {
    let limits = Limits {
        captured_body_bytes_max: 10,
        ..Limits::default()
    };
    for (body, error) in [
        ("0123456789", None),
        ("0123456789a", Some(SessionError::BodyTooLargeToCapture)),
    ] {
        let length = body.len();
        for framed in [
            format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"),
            format!("HTTP/1.1 200 OK\r\n\r\n{body}"),
            format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                 {length:x}\r\n{body}\r\n0\r\n\r\n"
            ),
        ] {
            let pieces = [framed.as_bytes()];
            let captured = converse(
                &mut H1Context::new(limits, true),
                &[RequestKind::Plain],
                &pieces,
            );
            assert_eq!(captured.error, error, "{framed:?}");
            let passed = converse(
                &mut H1Context::new(limits, false),
                &[RequestKind::Plain],
                &pieces,
            );
            assert_eq!(
                (passed.error, passed.responses.len()),
                (None, 1),
                "{framed:?}"
            );
        }
    }
}

#[test]
fn a_body_of_ten_gigabytes_is_decoded() {
    const PIECE: usize = 1 << 20;
    let total = 10_u64 << 30;
    for head in [
        format!("HTTP/1.1 200 OK\r\nContent-Length: {total}\r\n\r\n"),
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{total:x}\r\n"),
    ] {
        let mut shared = shared(false);
        let mut session = H1::new(&mut shared);
        let (mut output, mut events) = (Vec::new(), Vec::new());
        session.begin(&mut shared, &mut output).expect("it begins");
        start(&mut session, &mut shared, &[RequestKind::Plain]);
        let mut feed = |bytes: &[u8], events: &mut Vec<Event>| {
            session
                .receive(&mut shared, bytes, &mut output, events)
                .expect("it is good");
        };
        feed(head.as_bytes(), &mut events);
        let piece = vec![b'x'; PIECE];
        (0..total / PIECE as u64).for_each(|_| feed(&piece, &mut events));
        let tail: &[u8] = if head.contains("chunked") {
            b"\r\n0\r\n\r\n"
        } else {
            b""
        };
        feed(tail, &mut events);
        let bytes = head.len() as u64 + total + tail.len() as u64;
        let [Event::Began(_), Event::Finished(_, response)] = events.as_slice() else {
            panic!("{events:?}");
        };
        assert_eq!((response.bytes, response.reusable), (bytes, true));
    }
}
