//! The fast decoder agrees with the naive one, for responses as servers send them and for damaged
//! responses, however they are split.

use proptest::prelude::*;
use proptest::sample::select;
use protocol::RequestKind;

use crate::driver::{converse, shared};
use crate::naive::{self, Ending, NaiveResponse};

/// A line of a server's output. Most are valid, some are nearly valid.
fn line() -> impl Strategy<Value = &'static str> {
    select(vec![
        "Content-Length: 0",
        "Content-Length: 5",
        "Content-Length: 5, 5",
        "content-length:  12 ",
        "Content-Length: -1",
        "Content-Length: 99999999999999999999",
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: gzip, Chunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: deflate",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding:",
        "Transfer-Encoding: gzip;q=\"a,b\"",
        "Connection: close",
        "Connection: keep-alive",
        "Connection: a,\tCLOSE ,b",
        "Date: Thu, 01 Jan 1970 00:00:00 GMT",
        "Set-Cookie: a=b",
        "Fold: a\r\n b\r\n\tc",
        "Empty:",
        "broken",
    ])
}

fn body() -> impl Strategy<Value = &'static str> {
    select(vec![
        "",
        "hello",
        "hello world!",
        "0\r\n\r\n",
        "5\r\nhello\r\n0\r\n\r\n",
        "5;a=b\r\nhello\r\nC  \r\n hello world\r\n0\r\nT: v\r\n\r\n",
        "1\r\n\n\r\n0\n\r\n",
        "ffffffffffffffffff\r\n",
        "5\r\nhelloX\r\n0\r\n\r\n",
        "\r\n",
    ])
}

fn response() -> impl Strategy<Value = String> {
    let statuses = vec![
        "200 OK", "204 No", "304 Not", "100 Go", "103 Hint", "404", "500 ", "101 Up", "099 X",
    ];
    let version = prop_oneof![8 => Just("HTTP/1.1"), 2 => Just("HTTP/1.0"), 1 => Just("HTTP/2")];
    let end = prop_oneof![9 => Just("\r\n"), 1 => Just("\n")];
    (
        version,
        select(statuses),
        prop::collection::vec(line(), 0..4),
        end,
        body(),
    )
        .prop_map(|(version, status, lines, end, body)| {
            let lines: String = lines.iter().map(|line| format!("{line}{end}")).collect();
            format!("{version} {status}{end}{lines}{end}{body}")
        })
}

fn kinds() -> impl Strategy<Value = Vec<RequestKind>> {
    let kind = prop_oneof![
        6 => Just(RequestKind::Plain),
        1 => Just(RequestKind::Head),
        1 => Just(RequestKind::Connect),
    ];
    prop::collection::vec(kind, 0..5)
}

/// Positions, relative to the length, and the bytes to put there.
fn damage() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    let byte = prop_oneof![select(b"\r\n :;,0159afx\0\x15\x80".to_vec()), any::<u8>(),];
    prop::collection::vec((any::<prop::sample::Index>(), byte), 0..3)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_naive_decoder_agrees(
        kinds in kinds(),
        expected in prop::collection::vec(response(), 0..5),
        damage in damage(),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut input = expected.concat().into_bytes();
        for (at, byte) in damage.iter().filter(|_| !expected.is_empty()) {
            let at = at.index(input.len());
            input[at] = *byte;
        }
        let (expected, expected_ending) = naive::decode(&kinds, &input);
        let pieces = naive::cut(&input, places.iter().map(|at| at.index(input.len() + 1)));
        let captured = converse(&mut shared(true), &kinds, &pieces);
        let found: Vec<_> = captured.responses.iter().map(NaiveResponse::from).collect();
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(Ending::of(captured.error.as_ref()), expected_ending);

        // The same heads twice: the second time they are in the cache.
        let mut plain = shared(false);
        for _ in 0..2 {
            let outcome = converse(&mut plain, &kinds, &pieces);
            let found: Vec<_> =
                outcome.responses.iter().map(|r| (r.status, r.reusable, r.bytes)).collect();
            let expected: Vec<_> =
                expected.iter().map(|a| (a.status, a.reusable, a.bytes)).collect();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(&outcome.error, &captured.error);
        }
    }
}
