//! F23 to F45: responses that are wrong or look wrong.

use results::ErrorKind::{
    BadChunk, BadContentLength, BadHeader, BadStatusLine, BadTransferEncoding, BadVersion,
    BrokenPipe, ClosedEarly, ConflictingFraming, HeaderTooLarge, Reset, Stale, Timeout, TlsOnPlain,
    TooManyHeaders, TooManyInterim, Truncated, UnexpectedUpgrade, Unsolicited,
};

use crate::adversary::{RIGHT, ServerStep, UNTIL_CLOSE, send};
use crate::case::{Case, asked};
use crate::row::FaultRow;

/// Above the limit on heads and trailers, which is 80 KiB.
const HUGE: usize = 100_000;

pub(crate) fn rows() -> Vec<FaultRow> {
    [
        status_lines(),
        interim(),
        bodies(),
        lengths(),
        codings(),
        chunks(),
        surplus(),
        heads(),
        endless(),
        not_ours(),
    ]
    .into_iter()
    .flatten()
    .flat_map(Case::rows)
    .collect()
}

/// The response and the end of its connection. A client that rejects the response need not wait for
/// the end; one that expects more bytes sees it.
fn ended(answer: impl AsRef<[u8]>) -> [ServerStep; 2] {
    [send(answer), ServerStep::Fin]
}

/// A response with these header lines, each with its CRLF, and this body.
fn with(lines: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{lines}\r\n{body}")
}

fn chunked(body: &str) -> String {
    with("Transfer-Encoding: chunked\r\n", body)
}

fn status_lines() -> Vec<Case> {
    let wrong = |id, what, line: &str, kind| {
        asked(
            id,
            what,
            &ended(format!("{line}\r\nContent-Length: 0\r\n\r\n")),
        )
        .fails(kind)
    };
    let right = |id, what, line: &str| {
        asked(
            id,
            what,
            &[send(format!("{line}\r\nContent-Length: 2\r\n\r\nok"))],
        )
    };
    vec![
        wrong(
            "F23",
            "no status line at all",
            "what is this",
            BadStatusLine,
        )
        .and_in_tls(),
        wrong(
            "F23",
            "a status of letters",
            "HTTP/1.1 abc OK",
            BadStatusLine,
        ),
        wrong(
            "F23",
            "a status of two digits",
            "HTTP/1.1 20 OK",
            BadStatusLine,
        ),
        wrong(
            "F23",
            "another protocol",
            "SSH-2.0-OpenSSH_9.2",
            BadStatusLine,
        ),
        wrong(
            "F23",
            "HTTP in lower case",
            "http/1.1 200 OK",
            BadStatusLine,
        ),
        wrong("F23", "version 2", "HTTP/2 200 OK", BadVersion),
        wrong("F23", "version 1.2", "HTTP/1.2 200 OK", BadVersion),
        wrong("F23", "version 3.0", "HTTP/3.0 200 OK", BadVersion),
        asked("F23", "zero bytes", &ended([0; 64])).fails(BadStatusLine),
        asked("F24", "an HTTP/0.9 body", &ended("<html>hello</html>")).fails(BadStatusLine),
        asked(
            "F25",
            "HTTP/1.0, which closes",
            &ended("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"),
        ),
        asked(
            "F25",
            "HTTP/1.0 without a length",
            &ended("HTTP/1.0 200 OK\r\n\r\nok"),
        ),
        right(
            "F25",
            "HTTP/1.0 with keep-alive",
            "HTTP/1.0 200 OK\r\nConnection: keep-alive",
        ),
        right("F26", "no reason phrase", "HTTP/1.1 200 "),
        right("F26", "no blank behind the status", "HTTP/1.1 200"),
        right(
            "F26",
            "an empty line before the status line",
            "\r\nHTTP/1.1 200 OK",
        ),
        right(
            "F26",
            "a folded header line",
            "HTTP/1.1 200 OK\r\nX-Long: one\r\n two",
        ),
        asked(
            "F26",
            "lines that end in LF",
            &[send("HTTP/1.1 200 OK\nContent-Length: 2\n\nok")],
        ),
        wrong("F27", "status 099", "HTTP/1.1 099 Low", BadStatusLine),
        wrong("F27", "status 1000", "HTTP/1.1 1000 High", BadStatusLine),
        right("F27", "status 600", "HTTP/1.1 600 High").with_status(600),
        right("F27", "status 999", "HTTP/1.1 999 High").with_status(999),
        asked(
            "F46",
            "a TLS alert on a port without TLS",
            &ended(b"\x15\x03\x01\x00\x02\x02\x46"),
        )
        .fails(TlsOnPlain),
    ]
}

fn interim() -> Vec<Case> {
    let after = |lines: &str| [send(format!("{lines}{}", String::from_utf8_lossy(RIGHT)))];
    vec![
        asked(
            "F28",
            "100 before the response",
            &after("HTTP/1.1 100 Continue\r\n\r\n"),
        ),
        asked(
            "F28",
            "102 before the response",
            &after("HTTP/1.1 102 Processing\r\n\r\n"),
        ),
        asked(
            "F28",
            "103 before the response, in a piece of its own",
            &[
                send("HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\n"),
                ServerStep::Pause(1),
                send(RIGHT),
            ],
        )
        .and_in_tls(),
        asked(
            "F28",
            "twenty interim responses",
            &after(&"HTTP/1.1 100 Go on\r\n\r\n".repeat(20)),
        ),
        asked(
            "F28",
            "interim responses without end",
            &[ServerStep::Endless(b"HTTP/1.1 100 Go on\r\n\r\n".to_vec())],
        )
        .fails(TooManyInterim),
        asked(
            "F28",
            "an interim response and FIN",
            &ended("HTTP/1.1 100 Continue\r\n\r\n"),
        )
        .fails(Truncated),
        asked(
            "F29",
            "101 unasked",
            &ended("HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n"),
        )
        .fails(UnexpectedUpgrade),
        asked("F45", "100-continue never comes", &[send(RIGHT)]).with(&[
            "--body",
            "text",
            "-H",
            "Expect: 100-continue",
        ]),
        asked(
            "F45",
            "a response and FIN instead of 100-continue",
            &ended(with("Connection: close\r\nContent-Length: 2\r\n", "ok")),
        )
        .with(&["--body", "text", "-H", "Expect: 100-continue"]),
        asked(
            "F45",
            "417 instead of 100-continue",
            &[send("HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n")],
        )
        .with(&["--body", "text", "-H", "Expect: 100-continue"])
        .with_status(417),
    ]
}

fn bodies() -> Vec<Case> {
    let behind = [Unsolicited, BadStatusLine, Stale];
    vec![
        asked(
            "F30",
            "204 with a length and no body",
            &[send("HTTP/1.1 204 None\r\nContent-Length: 5\r\n\r\n")],
        )
        .with_status(204),
        asked(
            "F30",
            "204 with a coding and no body",
            &[send(
                "HTTP/1.1 204 None\r\nTransfer-Encoding: chunked\r\n\r\n",
            )],
        )
        .with_status(204),
        asked(
            "F30",
            "304 with a length and no body",
            &[send("HTTP/1.1 304 Same\r\nContent-Length: 5\r\n\r\n")],
        )
        .with_status(304)
        .and_in_tls(),
        asked(
            "F30",
            "HEAD with a length and no body",
            &[send(with("Content-Length: 5\r\n", ""))],
        )
        .with(&["-X", "HEAD"]),
        asked(
            "F30",
            "204 with a body",
            &ended("HTTP/1.1 204 None\r\nContent-Length: 5\r\n\r\nright"),
        )
        .then(&[Unsolicited]),
        asked(
            "F30",
            "204 with a body that comes later",
            &[
                send("HTTP/1.1 204 None\r\nContent-Length: 5\r\n\r\n"),
                ServerStep::Pause(2),
                send("right"),
                ServerStep::Fin,
            ],
        )
        .then(&[
            behind[0],
            behind[1],
            behind[2],
            ClosedEarly,
            Reset,
            BrokenPipe,
        ]),
        asked(
            "F31",
            "a body to the end of the connection",
            &ended(UNTIL_CLOSE),
        )
        .and_in_tls(),
        asked(
            "F31",
            "an empty body to the end of the connection",
            &ended(with("", "")),
        ),
        asked(
            "F31",
            "RST within a body to the end of the connection",
            &[send(UNTIL_CLOSE), ServerStep::Pause(10), ServerStep::Reset],
        )
        .fails(Reset),
    ]
}

fn lengths() -> Vec<Case> {
    let bad = |what, value: &str| {
        asked(
            "F32",
            what,
            &ended(with(&format!("Content-Length: {value}\r\n"), "right")),
        )
        .fails(BadContentLength)
    };
    let right = |what, lines: &str| asked("F32", what, &[send(with(lines, "right"))]);
    vec![
        asked(
            "F32",
            "a length too large",
            &ended(with("Content-Length: 6\r\n", "right")),
        )
        .fails(Truncated),
        asked(
            "F32",
            "a length too small",
            &[send(with("Content-Length: 4\r\n", "right"))],
        )
        .then(&[Unsolicited]),
        bad("a negative length", "-5"),
        bad("a length with a plus", "+5"),
        bad("a hexadecimal length", "0x5"),
        bad("a length with blanks inside", "1 5"),
        bad("an empty length", ""),
        bad("a length with a fraction", "5.0"),
        bad("a length above 2^64", "99999999999999999999"),
        bad("two lengths in a list", "5, 6"),
        asked(
            "F32",
            "two different lengths",
            &ended(with("Content-Length: 5\r\nContent-Length: 6\r\n", "right")),
        )
        .fails(BadContentLength)
        .and_in_tls(),
        asked(
            "F32",
            "a length above 2^63, and FIN",
            &ended(with("Content-Length: 9223372036854775809\r\n", "right")),
        )
        .fails(Truncated),
        right(
            "the same length twice",
            "Content-Length: 5\r\nContent-Length: 5\r\n",
        ),
        right("the same length in a list", "Content-Length: 5, 5\r\n"),
        right("a length with blanks around", "Content-Length:   5  \r\n"),
        right("a length with leading zeros", "content-LENGTH: 0005\r\n"),
    ]
}

fn codings() -> Vec<Case> {
    let coded = |what, value: &str| {
        asked(
            "F33",
            what,
            &[send(with(
                &format!("Transfer-Encoding: {value}\r\n"),
                "5\r\nright\r\n0\r\n\r\n",
            ))],
        )
    };
    let open = |what, value: &str| {
        asked(
            "F33",
            what,
            &ended(with(&format!("Transfer-Encoding: {value}\r\n"), "right")),
        )
    };
    vec![
        asked(
            "F33",
            "length and chunked together",
            &ended(with(
                "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                "0\r\n\r\n",
            )),
        )
        .fails(ConflictingFraming),
        asked(
            "F33",
            "chunked and length together",
            &ended(with(
                "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
                "0\r\n\r\n",
            )),
        )
        .fails(ConflictingFraming),
        coded("chunked in capitals", "CHUNKED"),
        coded("gzip, then chunked", "gzip, chunked"),
        open("identity alone", "identity"),
        open("a registered coding that is not chunked", "gzip"),
        coded("an unknown coding", "xchunked").fails(BadTransferEncoding),
        coded("chunked with a parameter", "chunked;q=1").fails(BadTransferEncoding),
        open("chunked, then gzip", "chunked, gzip"),
        open("chunked twice", "chunked, chunked").fails(BadTransferEncoding),
        open("an empty coding", "").fails(BadTransferEncoding),
        open("a coding with a blank inside", "chun ked").fails(BadTransferEncoding),
    ]
}

fn chunks() -> Vec<Case> {
    let bad = |what, body: &str| asked("F34", what, &ended(chunked(body))).fails(BadChunk);
    let cut = |what, body: &str| asked("F34", what, &ended(chunked(body))).fails(Truncated);
    let right = |what, body: &str| asked("F34", what, &[send(chunked(body))]);
    let many: String = (0..300).map(|n| format!("X-{n}: 1\r\n")).collect();
    vec![
        bad("an empty size", "\r\nright\r\n0\r\n\r\n"),
        bad("a size of letters", "ZZ\r\nright\r\n0\r\n\r\n").and_in_tls(),
        bad("a negative size", "-5\r\nright\r\n0\r\n\r\n"),
        bad(
            "a hexadecimal mark before the size",
            "0x5\r\nright\r\n0\r\n\r\n",
        ),
        bad(
            "a size of 17 digits",
            "10000000000000005\r\nright\r\n0\r\n\r\n",
        ),
        bad("no line end behind a chunk", "5\r\nright0\r\n\r\n"),
        bad("a size line that ends in LF", "5\nright\r\n0\r\n\r\n"),
        bad(
            "an extension of a megabyte",
            &format!("5;x={}\r\nright\r\n0\r\n\r\n", "y".repeat(1_000_000)),
        ),
        cut("FIN within a chunk", "5\r\nrig").and_in_tls(),
        cut("FIN within a size", "5"),
        cut("FIN before the last chunk", "5\r\nright\r\n"),
        cut("FIN before the last empty line", "5\r\nright\r\n0\r\n"),
        cut(
            "a chunk of 2^63 bytes, and FIN",
            "8000000000000000\r\nright",
        ),
        right("an extension", "5;name=\"value\"\r\nright\r\n0;x\r\n\r\n"),
        right(
            "an extension of a kilobyte",
            &format!("5;x={}\r\nright\r\n0\r\n\r\n", "y".repeat(1000)),
        ),
        right(
            "leading zeros in a size",
            "00000005\r\nright\r\n000\r\n\r\n",
        ),
        right(
            "trailers",
            "5\r\nright\r\n0\r\nX-One: 1\r\nX-Two: 2\r\n\r\n",
        ),
        asked(
            "F34",
            "trailers too large",
            &ended(chunked(&format!("0\r\nX: {}\r\n\r\n", "y".repeat(HUGE)))),
        )
        .fails(HeaderTooLarge),
        asked(
            "F34",
            "too many trailers",
            &ended(chunked(&format!("0\r\n{many}\r\n"))),
        )
        .fails(TooManyHeaders),
        asked(
            "F34",
            "trailers without end",
            &[
                send(chunked("0\r\n")),
                ServerStep::Endless(b"X-More: and more\r\n".to_vec()),
            ],
        )
        .fails_as(&[HeaderTooLarge, TooManyHeaders]),
        asked(
            "F34",
            "a trailer without a colon",
            &ended(chunked("0\r\nno trailer\r\n\r\n")),
        )
        .fails(BadHeader),
    ]
}

fn surplus() -> Vec<Case> {
    let twice = [RIGHT, RIGHT].concat();
    let answer_and = |junk: &[u8]| [RIGHT, junk].concat();
    let lost = [
        Unsolicited,
        BadStatusLine,
        Stale,
        ClosedEarly,
        Reset,
        BrokenPipe,
    ];
    vec![
        asked("F35", "two responses to one request", &[send(twice)])
            .then(&[Unsolicited])
            .and_in_tls(),
        asked(
            "F37",
            "letters behind a response",
            &[send(answer_and(b"surplus"))],
        )
        .then(&[Unsolicited])
        .and_in_tls(),
        asked(
            "F37",
            "zero bytes behind a response",
            &[send(answer_and(&[0; 5]))],
        )
        .then(&[Unsolicited]),
        asked(
            "F37",
            "letters after an announced close",
            &ended("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok and more"),
        )
        .then(&[Unsolicited]),
        asked(
            "F37",
            "letters behind a response, later",
            &[
                send(RIGHT),
                ServerStep::Pause(2),
                send("surplus"),
                ServerStep::Fin,
            ],
        )
        .then(&lost),
    ]
}

fn heads() -> Vec<Case> {
    let line = |what, line: &[u8]| {
        let bytes = [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"[..],
            line,
            b"\r\n\r\n",
        ]
        .concat();
        asked("F39", what, &[send(bytes)])
    };
    let many = |count: usize| "X-Header: value\r\n".repeat(count);
    let cookies: String = (0..100)
        .map(|n| format!("Set-Cookie: name{n}=value; Path=/\r\n"))
        .collect();
    let nothing = "Content-Length: 0\r\n";
    vec![
        asked(
            "F39",
            "a header line of 100 kB",
            &ended(with(&format!("X: {}\r\n", "y".repeat(HUGE)), "")),
        )
        .fails(HeaderTooLarge)
        .and_in_tls(),
        asked(
            "F39",
            "a header line of 60 kB",
            &[send(with(
                &format!("X: {}\r\n{nothing}", "y".repeat(60_000)),
                "",
            ))],
        ),
        asked(
            "F39",
            "a header line without end",
            &[
                send("HTTP/1.1 200 OK\r\nX: "),
                ServerStep::Endless(vec![b'y'; 1000]),
            ],
        )
        .fails(HeaderTooLarge),
        asked(
            "F39",
            "a reason phrase without end",
            &[send("HTTP/1.1 200 "), ServerStep::Endless(vec![b'y'; 1000])],
        )
        .fails(HeaderTooLarge),
        asked(
            "F39",
            "header lines without end",
            &[
                send("HTTP/1.1 200 OK\r\n"),
                ServerStep::Endless(many(10).into_bytes()),
            ],
        )
        .fails(HeaderTooLarge)
        .and_in_tls(),
        asked(
            "F39",
            "a million header lines",
            &ended(with(&many(1_000_000), "")),
        )
        .fails(HeaderTooLarge),
        asked(
            "F39",
            "300 short header lines",
            &ended(with(&"A: b\r\n".repeat(300), "")),
        )
        .fails(TooManyHeaders),
        asked(
            "F39",
            "200 header lines",
            &[send(with(&format!("{}{nothing}", many(200)), ""))],
        ),
        line("NUL in a header value", b"X: a\0b").fails(BadHeader),
        line("a bare CR in a header value", b"X: a\rb").fails(BadHeader),
        line("a control character in a name", b"X\x01: a").fails(BadHeader),
        line("a blank in a name", b"X Y: a").fails(BadHeader),
        line("no colon", b"nothing").fails(BadHeader),
        line("an empty name", b": a").fails(BadHeader),
        line("8-bit bytes in a value", b"X: \xff\xfe\xe4"),
        line("an empty value", b"X:"),
        asked(
            "F43",
            "a hundred cookies",
            &[send(with(&format!("{cookies}{nothing}"), ""))],
        ),
        asked(
            "F43",
            "a cookie of 100 kB",
            &ended(with(&format!("Set-Cookie: a={}\r\n", "y".repeat(HUGE)), "")),
        )
        .fails(HeaderTooLarge),
        asked(
            "F44",
            "close among other tokens",
            &ended(with(
                "Connection: keep-alive, upgrade ,CLOSE\r\nContent-Length: 2\r\n",
                "ok",
            )),
        ),
        asked(
            "F44",
            "tokens that look like close",
            &[send(with(
                "Connection: closed, x-close\r\nContent-Length: 2\r\n",
                "ok",
            ))],
        ),
        asked(
            "F44",
            "Connection without tokens",
            &[send(with("Connection: ,,\r\nContent-Length: 2\r\n", "ok"))],
        ),
        asked(
            "F44",
            "keep-alive, and then FIN",
            &ended(with(
                "Connection: keep-alive\r\nContent-Length: 2\r\n",
                "ok",
            )),
        )
        .then(&[Stale, ClosedEarly, Reset, BrokenPipe]),
    ]
}

fn endless() -> Vec<Case> {
    /// So that other connections get time too.
    const TIMEOUT_MS: u64 = 200;
    /// Ten gigabytes, of which the client sees what arrives within its timeout.
    const TEN_GB: &str = "Content-Length: 10000000000\r\n";
    let much = vec![b'x'; 256 * 1024];
    let chunk = [b"40000\r\n", much.as_slice(), b"\r\n"].concat();
    vec![
        asked(
            "F40",
            "ten gigabytes with a length",
            &[send(with(TEN_GB, "")), ServerStep::Endless(much.clone())],
        )
        .fails(Timeout)
        .patience_ms(TIMEOUT_MS),
        asked(
            "F40",
            "chunks without end",
            &[send(chunked("")), ServerStep::Endless(chunk)],
        )
        .fails(Timeout)
        .patience_ms(TIMEOUT_MS)
        .and_in_tls(),
        asked(
            "F40",
            "a body without length or end",
            &[send(with("", "")), ServerStep::Endless(much)],
        )
        .fails(Timeout)
        .patience_ms(TIMEOUT_MS),
    ]
}

/// What other clients act on and wrkbench only counts: content codings, redirects, cookies.
fn not_ours() -> Vec<Case> {
    let redirect = |what, status: &'static str, location: &str| {
        let answer = format!(
            "HTTP/1.1 {status} Elsewhere\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
        );
        asked("F42", what, &[send(answer)]).with_status(status.parse().unwrap())
    };
    vec![
        asked(
            "F41",
            "a gzip bomb is not unpacked",
            &[send(
                [
                    &b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 10\r\n\r\n"[..],
                    b"\x1f\x8b\x08\0\0\0\0\0\0\xff",
                ]
                .concat(),
            )],
        ),
        asked(
            "F41",
            "broken gzip is not looked at",
            &[send(with(
                "Content-Encoding: gzip\r\nContent-Length: 5\r\n",
                "right",
            ))],
        ),
        redirect("a redirect to itself is not followed", "302", "/"),
        redirect("nor one to another scheme", "301", "ftp://example.test/"),
        redirect("nor one to nowhere", "307", "::not a url::"),
        redirect("nor one without a place", "308", ""),
    ]
}
