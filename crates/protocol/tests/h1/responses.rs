//! Which bytes are the response to which request: a table of responses, each split at every byte.

use crate::driver::{
    Conversation, converse, converse_skipping, converse_with, cuts, shared, start,
};
use protocol::h1::H1;
use protocol::{Captured, Event, RequestKind, Session, SessionError};

use RequestKind::{Connect, Head, Plain};

/// Status, whether the connection is reusable, and bytes of each expected response.
type Expected<'a> = &'a [(u16, bool, u64)];

fn summary(outcome: &Conversation) -> (Vec<(u16, bool, u64)>, Option<SessionError>) {
    let expected = outcome
        .responses
        .iter()
        .map(|r| (r.status, r.reusable, r.bytes))
        .collect();
    (expected, outcome.error.clone())
}

/// Checks one connection: whole, split at every byte, byte by byte, with unknown and cached heads,
/// with and without capturing.
#[track_caller]
fn check(kinds: &[RequestKind], input: &str, expected: Expected<'_>, error: Option<SessionError>) {
    let input = input.as_bytes();
    let expected = (expected.to_vec(), error);
    for capture in [false, true] {
        let mut warm = shared(capture);
        let whole = converse(&mut warm, kinds, &[input]);
        assert_eq!(summary(&whole), expected, "whole, capture {capture}");
        // After other errors, the rest of the input is ignored.
        if matches!(whole.error, Some(SessionError::Truncated) | None) {
            let finished: u64 = whole.responses.iter().map(|response| response.bytes).sum();
            assert_eq!(finished + whole.partial_bytes, input.len() as u64);
        }
        for pieces in cuts(input) {
            let cold = converse(&mut shared(capture), kinds, &pieces).without_began();
            assert_eq!(cold.responses, whole.responses, "{pieces:?}");
            assert_eq!(cold.error, whole.error, "{pieces:?}");
            let known = converse(&mut warm, kinds, &pieces).without_began();
            assert_eq!(known, cold, "with heads known, {pieces:?}");
            let skipped = converse_skipping(&mut warm, kinds, &pieces).without_began();
            assert_eq!(skipped, cold, "with unwanted bytes skipped, {pieces:?}");
        }
    }
}

/// One plain request, and one response that consists of the whole input.
#[track_caller]
fn accepted(input: &str, status: u16, reusable: bool) {
    check(
        &[Plain],
        input,
        &[(status, reusable, input.len() as u64)],
        None,
    );
}

/// One plain request, without a response.
#[track_caller]
fn rejected(input: &str, error: SessionError) {
    check(&[Plain], input, &[], Some(error));
}

#[test]
fn a_body_of_known_length_ends_with_its_last_byte() {
    accepted(
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        200,
        true,
    );
    accepted("HTTP/1.1 200 OK\r\ncontent-length:\t0 \r\n\r\n", 200, true);
    accepted(
        "HTTP/1.1 404 Not Found\r\nContent-Length: 2, 2\r\n\r\nno",
        404,
        true,
    );
    let twice = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nno";
    accepted(twice, 200, true);
}

#[test]
fn a_chunked_body_ends_with_its_trailers() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for body in [
        "0\r\n\r\n",
        "5\r\nhello\r\n0\r\n\r\n",
        "5;a=b\r\nhello\r\n6;c=\"d\"\r\n world\r\n000;e\r\n\r\n",
        "2\r\nhi\r\n0\r\nX-Sum: 1\r\nY:\r\n\r\n",
        "2\r\nhi\r\n0\r\nX-Sum: 1\n\n",
        "2\r\nhi\r\n0\r\n\n",
        "1\r\n\r\r\n1\r\n\n\r\n0\r\n\r\n",
    ] {
        accepted(&format!("{head}{body}"), 200, true);
    }
}

#[test]
fn a_body_without_length_ends_with_the_connection() {
    accepted("HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, false);
    accepted(
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nuntil the end",
        200,
        false,
    );
    accepted("HTTP/1.1 200 OK\r\n\r\n", 200, false);
    accepted(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nzipped",
        200,
        false,
    );
    accepted(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nplain",
        200,
        false,
    );
}

#[test]
fn an_unknown_transfer_coding_is_rejected_before_the_body_arrives() {
    for coding in ["xchunked", "chunked, br", "chunked;q=1"] {
        for version in ["1.0", "1.1"] {
            rejected(
                &format!("HTTP/{version} 200 OK\r\nTransfer-Encoding: {coding}\r\n\r\n"),
                SessionError::BadTransferEncoding,
            );
        }
    }
    rejected(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: xchunked\r\n\r\n",
        SessionError::BadTransferEncoding,
    );
}

#[test]
fn head_204_and_304_have_no_body_whatever_the_headers_say() {
    for fields in [
        "",
        "Content-Length: 500\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
    ] {
        for (kind, status) in [
            (Head, 200),
            (Head, 404),
            (Plain, 204),
            (Plain, 304),
            (Head, 304),
        ] {
            let input = format!("HTTP/1.1 {status} X\r\n{fields}\r\n");
            let both = format!("{input}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
            let first = input.len() as u64;
            let second = both.len() as u64 - first;
            check(&[kind], &input, &[(status, true, first)], None);
            check(
                &[kind, Plain],
                &both,
                &[(status, true, first), (200, true, second)],
                None,
            );
        }
    }
}

#[test]
fn a_2xx_to_connect_has_no_body_and_ends_http_on_the_connection() {
    let input = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    check(&[Connect], input, &[(200, false, input.len() as u64)], None);
    let input = "HTTP/1.1 407 No\r\nContent-Length: 5\r\n\r\nhello";
    check(&[Connect], input, &[(407, true, input.len() as u64)], None);
}

#[test]
fn interim_responses_do_not_complete_a_request() {
    let last = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    for interim in [
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
        "HTTP/1.1 199 X\r\nContent-Length: 7\r\nConnection: close\r\n\r\n\r\n",
    ] {
        accepted(&format!("{interim}{last}"), 200, true);
    }
    accepted(
        &format!("{}{last}", "HTTP/1.1 100 C\r\n\r\n".repeat(64)),
        200,
        true,
    );
    let mut session_input = "HTTP/1.1 100 C\r\n\r\n".repeat(65);
    session_input.push_str(last);
    let outcome = converse(&mut shared(false), &[Plain], &[session_input.as_bytes()]);
    assert_eq!(
        summary(&outcome),
        (vec![], Some(SessionError::TooManyInterim))
    );
}

#[test]
fn an_interim_response_alone_is_a_truncated_response() {
    rejected("HTTP/1.1 100 Continue\r\n\r\n", SessionError::Truncated);
}

#[test]
fn switching_protocols_is_an_error() {
    let input = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n";
    rejected(input, SessionError::UnexpectedUpgrade);
}

#[test]
fn version_and_connection_options_decide_whether_the_connection_is_reusable() {
    for (version, fields, reusable) in [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: Keep-Alive, CLOSE\r\n", false),
        ("1.1", "Connection: x\r\nConnection: y , close\r\n", false),
        ("1.1", "Connection: closed\r\n", true),
        ("1.1", "X-Connection: close\r\n", true),
        ("1.0", "", false),
        ("1.0", "Connection: keep-alive\r\n", true),
        ("1.0", "connection: KEEP-ALIVE\r\n", true),
        ("1.0", "Connection: keep-alive, close\r\n", false),
    ] {
        let input = format!("HTTP/{version} 200 OK\r\n{fields}Content-Length: 1\r\n\r\nx");
        accepted(&input, 200, reusable);
    }
    let old = "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n\
               1\r\nx\r\n0\r\n\r\n";
    accepted(old, 200, false);
}

#[test]
fn unusual_but_valid_heads_are_accepted() {
    accepted("HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", 200, true);
    accepted("HTTP/1.1 200 \r\nContent-Length: 1\r\n\r\nx", 200, true);
    accepted("HTTP/1.1  200  OK\r\nContent-Length: 1\r\n\r\nx", 200, true);
    accepted(
        "HTTP/1.1 200 \u{fc}\r\nX: \u{fc}\r\nContent-Length: 1\r\n\r\nx",
        200,
        true,
    );
    accepted("HTTP/1.1 200 OK\nContent-Length: 1\n\nx", 200, true);
    accepted("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\nx", 200, true);
    accepted(
        "\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
        200,
        true,
    );
    accepted(
        "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\tc\r\nContent-Length:\r\n 1\r\n\r\nx",
        200,
        true,
    );
    for status in [600, 999, 299, 555] {
        accepted(
            &format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n"),
            status,
            true,
        );
    }
}

#[test]
fn invalid_status_lines_are_rejected() {
    for input in [
        "garbage\r\n\r\n",
        "<html>this is HTTP/0.9</html>",
        "http/1.1 200 OK\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
        "HTTP 200\r\n\r\n",
        "\0\0\0\0",
        "SSH-2.0-x\r\n",
        "HTTP/1.1 099 X\r\n\r\n",
        "HTTP/1.1 20 X\r\n\r\n",
        "HTTP/1.1 2000 X\r\n\r\n",
        "HTTP/1.1 -20 X\r\n\r\n",
        "HTTP/1.1 20x X\r\n\r\n",
        "\r\n\r\n\r\n\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    ] {
        rejected(input, SessionError::BadStatusLine);
    }
    for input in [
        "HTTP/2 200\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/0.9 200 OK\r\n\r\n",
        "HTTP/1.2 200 OK\r\n\r\n",
        "HTTP/11 200 OK\r\n\r\n",
        "HTTP/1.10 200 OK\r\n\r\n",
    ] {
        rejected(input, SessionError::BadVersion);
    }
}

#[test]
fn broken_header_lines_are_rejected_and_shown() {
    let bad = |line: &str| SessionError::BadHeader(format!("{line:?}"));
    for line in [
        "no colon",
        "a b: c",
        ": empty",
        "a : c",
        "a: \0",
        "a: b\rc",
        "\u{fc}: x",
    ] {
        for before in ["", "a: b\r\n", "a: b\r\n folded\r\n"] {
            rejected(
                &format!("HTTP/1.1 200 OK\r\n{before}{line}\r\nx: y\r\n\r\n"),
                bad(line),
            );
        }
    }
    rejected(
        "HTTP/1.1 200 OK\r\n fold: first\r\n\r\n",
        bad(" fold: first"),
    );
    let trailer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nbad trailer\r\n\r\n";
    rejected(trailer, bad("bad trailer"));
    let long = format!("HTTP/1.1 200 OK\r\n{}\r\n\r\n", "a".repeat(5_000));
    let shown = format!("{:?}...", "a".repeat(80));
    rejected(&long, SessionError::BadHeader(shown));
}

#[test]
fn invalid_framing_is_rejected_with_its_reason() {
    for length in ["-1", "+5", "0x5", "5 5", "5,6", "", "18446744073709551616"] {
        let input = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\nhello");
        rejected(&input, SessionError::BadContentLength);
    }
    let differing = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!";
    rejected(differing, SessionError::BadContentLength);
    let both = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n";
    rejected(both, SessionError::ConflictingFraming);
    for coding in ["chunked, chunked", "", "chun ked"] {
        let input = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {coding}\r\n\r\n");
        rejected(&input, SessionError::BadTransferEncoding);
    }
    for body in [
        "\r\n",
        "ZZ\r\n",
        "-1\r\n",
        "10000000000000000\r\n",
        "2\r\nhi0\r\n",
        "2\nhi",
    ] {
        let input = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
        rejected(&input, SessionError::BadChunk);
    }
}

#[test]
fn tls_on_a_plain_port_is_recognised() {
    rejected("\x15\x03\x03\0\x02\x02\x28", SessionError::TlsOnPlain);
    rejected("\x16\x03\x01\x02\0", SessionError::TlsOnPlain);
    rejected("\x15\x04\x03", SessionError::BadStatusLine);
    rejected("\x15", SessionError::Truncated);
}

#[test]
fn a_close_within_a_response_truncates_it_and_before_it_is_early() {
    rejected("", SessionError::ClosedEarly);
    for input in [
        "H",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
        "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\nhell",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n",
    ] {
        rejected(input, SessionError::Truncated);
    }
}

#[test]
fn bytes_without_a_request_are_unsolicited() {
    let one = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
    let length = one.len() as u64;
    let unsolicited = || Some(SessionError::Unsolicited);
    check(
        &[Plain],
        &format!("{one}{one}"),
        &[(200, true, length)],
        unsolicited(),
    );
    check(
        &[Plain],
        &format!("{one}junk"),
        &[(200, true, length)],
        unsolicited(),
    );
    check(&[], one, &[], unsolicited());
    check(
        &[],
        "HTTP/1.1 408 Request Timeout\r\n\r\n",
        &[],
        unsolicited(),
    );
    let last = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx";
    let last_only = [(200, false, last.len() as u64)];
    check(
        &[Plain, Plain],
        &format!("{last}{one}"),
        &last_only,
        unsolicited(),
    );
}

#[test]
fn empty_lines_between_responses_belong_to_the_next_one() {
    let one = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
    let length = one.len() as u64;
    let input = format!("{one}\r\n{one}\n");
    let outcome = converse(&mut shared(false), &[Plain, Plain], &[input.as_bytes()]);
    assert_eq!(
        summary(&outcome),
        (vec![(200, true, length), (200, true, length + 2)], None)
    );
    assert_eq!(outcome.partial_bytes, 1);
    let many = format!("{one}{}", "\r\n".repeat(5));
    let outcome = converse(&mut shared(false), &[Plain], &[many.as_bytes()]);
    assert_eq!(outcome.error, Some(SessionError::Unsolicited));
    let early = converse(&mut shared(false), &[Plain], &[b"\r\n"]);
    assert_eq!(
        (early.error, early.began),
        (Some(SessionError::ClosedEarly), 0)
    );
}

#[test]
fn pipelined_responses_belong_to_their_requests_in_order() {
    let parts = [
        (
            Plain,
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
            200,
        ),
        (Head, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", 200),
        (
            Plain,
            "HTTP/1.1 100 C\r\n\r\nHTTP/1.1 201 OK\r\nContent-Length: 0\r\n\r\n",
            201,
        ),
        (
            Plain,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nz\r\n0\r\n\r\n",
            200,
        ),
        (Plain, "HTTP/1.1 304 N\r\nContent-Length: 9\r\n\r\n", 304),
        (
            Plain,
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
            200,
        ),
    ];
    let kinds = parts.map(|(kind, _, _)| kind);
    let input: String = parts.iter().map(|(_, bytes, _)| *bytes).collect();
    let expected = parts.map(|(_, bytes, status)| (status, true, bytes.len() as u64));
    check(&kinds, &input, &expected, None);
    let more = [&kinds[..], &[Plain]].concat();
    check(&more, &input, &expected, Some(SessionError::ClosedEarly));
}

#[test]
fn responses_after_one_that_ends_the_connection_are_missing() {
    let last = "HTTP/1.1 200 OK\r\n\r\nuntil the end";
    let expected = [(200, false, last.len() as u64)];
    check(
        &[Plain, Plain],
        last,
        &expected,
        Some(SessionError::ClosedEarly),
    );
}

/// The events of each piece, with `Began` as `None`.
fn events(kinds: &[RequestKind], pieces: &[&str]) -> Vec<Vec<Option<u16>>> {
    let mut shared = shared(false);
    let mut session = H1::new(&mut shared);
    session
        .begin(&mut shared, &mut Vec::new())
        .expect("it begins");
    start(&mut session, &mut shared, kinds);
    let mut said = Vec::new();
    for piece in pieces {
        let mut events = Vec::new();
        session
            .receive(&mut shared, piece.as_bytes(), &mut Vec::new(), &mut events)
            .expect("the expected bytes are valid");
        let of_piece = events.into_iter().map(|event| match event {
            Event::Finished(_, response) => Some(response.status),
            _ => None,
        });
        said.push(of_piece.collect());
    }
    said
}

#[test]
fn began_is_reported_once_and_only_for_responses_in_several_pieces() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n";
    let whole = format!("{head}body");
    assert_eq!(events(&[Plain], &[&whole]), [vec![Some(200)]]);
    assert_eq!(
        events(&[Plain], &["H", &whole[1..]]),
        [vec![None], vec![Some(200)]]
    );
    let pieces = [head, "bo", "d", "y"];
    assert_eq!(
        events(&[Plain], &pieces),
        [vec![None], vec![], vec![], vec![Some(200)]]
    );
    assert_eq!(
        events(&[Plain, Plain], &[&format!("{whole}{head}b"), "ody"]),
        [vec![Some(200), None], vec![Some(200)]],
    );
    assert_eq!(
        events(&[Plain], &["\r\n", &whole]),
        [vec![], vec![Some(200)]]
    );
    let interim = "HTTP/1.1 103 Early Hints\r\n\r\n";
    assert_eq!(
        events(&[Plain], &[interim, &whole]),
        [vec![None], vec![Some(200)]]
    );
}

#[test]
fn a_captured_response_is_complete() {
    let input = "HTTP/1.1 100 C\r\nA: interim\r\n\r\nHTTP/1.1 200 OK\r\nSet-Cookie: a\r\n\
                 X: b\r\n  c\r\nset-cookie: d\r\nTransfer-Encoding: chunked\r\n\r\n\
                 3\r\nabc\r\n2;x\r\nde\r\n0\r\nT: v\r\n\r\n";
    let field = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
    let expected = Captured {
        status: 200,
        headers: [
            field("Set-Cookie", "a"),
            field("X", "b    c"),
            field("set-cookie", "d"),
            field("Transfer-Encoding", "chunked"),
            field("T", "v"),
        ]
        .into_iter()
        .collect(),
        body: b"abcde".to_vec(),
    };
    for pieces in cuts(input.as_bytes()) {
        let outcome = converse(&mut shared(true), &[Plain], &pieces);
        let captured = outcome.responses[0].captured.as_deref();
        assert_eq!(captured, Some(&expected), "{pieces:?}");
    }
    let outcome = converse(&mut shared(false), &[Plain], &[input.as_bytes()]);
    assert_eq!(outcome.responses[0].captured, None);
}

#[test]
fn begin_resets_a_session() {
    let response = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
    let leftovers: [&[u8]; 8] = [
        b"HTTP/1.1 200 OK\r\nConte",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
        b"HTTP/1.1 200 OK\r\n\r\nuntil",
        b"HTTP/1.1 100 C\r\n\r\n\r\n",
        b"garbage",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
    ];
    for capture in [false, true] {
        let mut shared = shared(capture);
        let mut session = H1::new(&mut shared);
        let fresh = converse(&mut shared, &[Plain], &[response]);
        for leftover in leftovers {
            // Aborted: no close is seen, and requests of three kinds have no response.
            session
                .begin(&mut shared, &mut Vec::new())
                .expect("it begins");
            start(&mut session, &mut shared, &[Plain, Head, Connect]);
            let (mut output, mut events) = (Vec::new(), Vec::new());
            let _ = session.receive(&mut shared, leftover, &mut output, &mut events);
            let again = converse_with(&mut session, &mut shared, &[Plain], &[response]);
            assert_eq!(again, fresh, "after {leftover:?}");
        }
    }
}
