//! F56 to F65: HTTP/3, in a closed loop and at a fixed rate.

use std::net::UdpSocket;
use std::time::Duration;

use protocol::h3::error::ErrorCode;
use protocol::h3::frame::{self, frame_type, stream_type};
use results::ErrorKind::{
    self, BadHttp3, BadQuic, Calm, ClosedEarly, Compression, ConnectTimeout, Flooded,
    GoawayUnprocessed, HeaderTooLarge, Http3Closed, OtherProtocol, QuicHandshake, QuicVersion,
    Refused, Reset, Stale, StatelessReset, StreamRefused, StreamReset, Timeout, TooManyHeaders,
    TooManyInterim, Truncated,
};
use testkit::Folder;

use crate::adversary::{
    Arrivals, CONTROL, Http3, Http3Adversary, Http3Exchange, bidi, data, framed, headers, section,
};
use crate::client::{self, Finished};
use crate::cost::{Cost, DURATION_MS, ONE_OF, REQUESTS, REQUESTS_MIXED};
use crate::http2::{check_no_streams, check_unsent};
use crate::row::{FaultRow, RowOutcome};

const SHORT_TIMEOUT_MS: u64 = 200;
/// High enough to take little time.
const RATE_PER_SEC: u64 = 500;

/// A type of frames and streams that means nothing (RFC 9114 section 7.2.8).
const GREASE: u64 = 0x21;

/// The type of a frame about the priority of a request (RFC 9218 section 7.2).
const PRIORITY_UPDATE: u64 = 0xf0700;

type Act = fn(&mut Http3Exchange<'_>);

/// A fault, before it is a row.
#[derive(Debug, Clone)]
struct Case {
    id: &'static str,
    what: &'static str,
    server: Http3,
    /// Bytes of the body of the request.
    upload_bytes: usize,
    cost: Cost,
    is_paced: bool,
}

fn case(id: &'static str, what: &'static str, cost: Cost, act: Act) -> Case {
    Case {
        id,
        what,
        server: Http3 {
            act,
            ..Http3::default()
        },
        upload_bytes: 0,
        cost,
        is_paced: false,
    }
}

impl Case {
    fn upload(mut self, upload_bytes: usize, window_bytes: u32) -> Self {
        self.upload_bytes = upload_bytes;
        self.server.window_bytes = window_bytes;
        self
    }

    /// The server sends no SETTINGS by itself.
    fn without_control(mut self) -> Self {
        self.server.has_control = false;
        self
    }

    /// In a closed loop, and at a rate. Floods take seconds.
    fn rows(self) -> [FaultRow; 2] {
        let mut at_a_rate = self.clone();
        at_a_rate.is_paced = true;
        let row = match self.cost {
            Cost::Connection(Flooded) => self.row().slow(),
            _ => self.row(),
        };
        [row, at_a_rate.row().slow()]
    }

    fn row(self) -> FaultRow {
        let of_rate = if self.is_paced { ", at a rate" } else { "" };
        let what = format!("HTTP/3: {}{of_rate}", self.what);
        FaultRow::new(self.id, what, self.cost.expected(), move || {
            let all = self.try_against(1);
            let some = self.try_against(ONE_OF);
            RowOutcome::Held(format!("{all}; of some: {some}"))
        })
    }

    /// One run against a server that affects one of `every` requests.
    fn try_against(&self, every: u64) -> String {
        let server = Http3Adversary::start(Http3 {
            every,
            ..self.server.clone()
        });
        let (requests, streams) = match every {
            1 => (REQUESTS, "-m1"),
            _ => (REQUESTS_MIXED, "-m4"),
        };
        let (timeout_ms, allowed_ms) = self.cost.times_ms(requests, SHORT_TIMEOUT_MS);
        let more = [
            streams.to_owned(),
            format!("-n{requests}"),
            format!("-T{timeout_ms}ms"),
        ];
        let mut arguments = arguments(&more);
        if self.is_paced {
            arguments.push(format!("-R{RATE_PER_SEC}"));
        }
        let folder = Folder::new();
        if self.upload_bytes > 0 {
            let body = folder.file_with("body", vec![b'x'; self.upload_bytes]);
            arguments.extend(["--body-file".to_owned(), body]);
        }
        let allowed = Duration::from_millis(allowed_ms);
        let run = client::run(&arguments, &server.url(), allowed);
        match every {
            1 => self.cost.check_all(&run, server.tally()),
            _ => self.cost.check_some(&run, server.tally()),
        }
        run.errors()
    }
}

fn arguments(more: &[String]) -> Vec<String> {
    let usual = ["--http3", "-t1", "-c2"].map(str::to_owned);
    usual.iter().chain(more).cloned().collect()
}

pub(crate) fn rows() -> Vec<FaultRow> {
    let cases = [
        settings(),
        goaway(),
        resets(),
        windows(),
        field_sections(),
        frames(),
        streams(),
        messages(),
        floods(),
        closes(),
        packets(),
    ];
    let rows = cases.into_iter().flatten().flat_map(Case::rows);
    rows.chain(without_connection()).chain(limited()).collect()
}

fn setting(pairs: &[(u64, u64)]) -> Vec<u8> {
    let mut output = Vec::new();
    frame::append_settings(pairs, &mut output);
    output
}

fn settings() -> Vec<Case> {
    use Cost::{Connection, Nothing};
    fn control(x: &mut Http3Exchange<'_>, bytes: &[u8]) {
        x.open(&[&[CONTROL], bytes].concat(), false);
        x.respond(&[]);
    }
    let first = |what, cost, act| case("F56", what, cost, act).without_control();
    vec![
        first("no SETTINGS and no control stream", Nothing, |x| {
            x.respond(&[]);
        }),
        first("GOAWAY before SETTINGS", Connection(BadHttp3), |x| {
            control(x, &framed(frame_type::GOAWAY, &[0]))
        }),
        first("a setting of HTTP/2", Connection(BadHttp3), |x| {
            control(x, &setting(&[(2, 0)]))
        }),
        first("a setting twice", Connection(BadHttp3), |x| {
            control(x, &setting(&[(GREASE, 1), (GREASE, 1)]))
        }),
        first(
            "SETTINGS that end within a number",
            Connection(BadHttp3),
            |x| control(x, &framed(frame_type::SETTINGS, &[1])),
        ),
        first("SETTINGS of 4 kB and more", Connection(Flooded), |x| {
            let mut bytes = vec![];
            frame::append_header(frame_type::SETTINGS, 1 << 40, &mut bytes);
            control(x, &bytes);
        }),
        case("F56", "SETTINGS twice", Connection(BadHttp3), |x| {
            x.send_on(x.control(), &setting(&[]), false);
        }),
    ]
}

fn goaway() -> Vec<Case> {
    use Cost::Connection;
    vec![
        case("F57", "GOAWAY that rises", Connection(BadHttp3), |x| {
            x.goaway(1 << 40);
            x.goaway(1 << 41);
        }),
        case(
            "F57",
            "GOAWAY with a stream of the server",
            Connection(BadHttp3),
            |x| x.goaway(3),
        ),
        case(
            "F57",
            "GOAWAY without a number",
            Connection(BadHttp3),
            |x| x.send_on(x.control(), &framed(frame_type::GOAWAY, &[]), false),
        ),
    ]
}

fn resets() -> Vec<Case> {
    let resets = |what, kind, act| case("F58", what, Cost::Request(kind), act);
    vec![
        resets("a refused stream", StreamRefused, |x| {
            x.reset(x.stream, ErrorCode::REQUEST_REJECTED.0);
        }),
        resets("RESET_STREAM before the head", StreamReset, |x| {
            x.reset(x.stream, ErrorCode::INTERNAL_ERROR.0);
        }),
        resets("RESET_STREAM within the body", StreamReset, |x| {
            half(x);
            x.reset(x.stream, ErrorCode::REQUEST_CANCELLED.0);
        }),
        resets("RESET_STREAM that asks for calm", Calm, |x| {
            x.reset(x.stream, ErrorCode::EXCESSIVE_LOAD.0);
        }),
        resets("RESET_STREAM with an unknown code", StreamReset, |x| {
            x.reset(x.stream, 4711);
        }),
        case("F58", "STOP_SENDING and a response", Cost::Nothing, |x| {
            x.stop(x.stream, ErrorCode::NO_ERROR.0);
            x.respond(&[]);
        }),
    ]
}

fn windows() -> Vec<Case> {
    vec![
        case("F59", "windows of 1,000 bytes", Cost::Nothing, |x| {
            x.respond(&[]);
        })
        .upload(20_000, 1_000),
        case(
            "F59",
            "a long body that stops",
            Cost::Request(Timeout),
            |x| {
                x.send(&headers("200", &[]));
                x.send(&data(&[b'x'; 10_000]));
            },
        ),
        case("F59", "a body without end", Cost::Request(Timeout), |x| {
            x.send(&headers("200", &[]));
            x.send_endlessly(x.stream, data(&[b'x'; 1_000]));
        }),
        case("F59", "a frame without end", Cost::Request(Timeout), |x| {
            let mut begin = headers("200", &[]);
            frame::append_header(GREASE, 1 << 60, &mut begin);
            x.send(&begin);
            x.send_endlessly(x.stream, vec![0; 1_000]);
        }),
    ]
}

fn field_sections() -> Vec<Case> {
    use Cost::{Connection, Request};
    fn with(x: &mut Http3Exchange<'_>, begin: &[u8], end: &[u8]) {
        let section = [begin, end].concat();
        x.end(&framed(frame_type::HEADERS, &section));
    }
    let section_is = |what, cost, act| case("F60", what, cost, act);
    vec![
        section_is(
            "a section that needs a dynamic table",
            Connection(Compression),
            |x| with(x, &[1, 0], &[0xd9]),
        ),
        section_is(
            "an index into the dynamic table",
            Connection(Compression),
            |x| with(x, &[0, 0], &[0x80]),
        ),
        section_is(
            "an index beyond the static table",
            Connection(Compression),
            |x| with(x, &section("200", &[]), &[0xff, 0x7f]),
        ),
        section_is("an empty section", Connection(Compression), |x| {
            with(x, &[], &[]);
        }),
        section_is(
            "an entry for the dynamic table",
            Connection(Compression),
            |x| {
                x.open(&[stream_type::QPACK_ENCODER as u8, 0xc0, 1, b'a'], false);
            },
        ),
        section_is(
            "an acknowledgement of a section that was not sent",
            Connection(Compression),
            |x| {
                x.open(&[stream_type::QPACK_DECODER as u8, 0x80], false);
            },
        ),
        section_is("a head of 100 kB", Request(HeaderTooLarge), |x| {
            x.respond(&[("x-big", &"x".repeat(100_000))]);
        }),
        section_is("a head of 2^40 bytes", Request(HeaderTooLarge), |x| {
            let mut begin = Vec::new();
            frame::append_header(frame_type::HEADERS, 1 << 40, &mut begin);
            x.send(&begin);
        }),
        section_is("1,000 fields", Request(TooManyHeaders), |x| {
            x.respond(&[("x-many", "1"); 1000]);
        }),
    ]
}

fn frames() -> Vec<Case> {
    use Cost::Nothing;
    let breaks = |what, act| case("F61", what, Cost::Connection(BadHttp3), act);
    vec![
        breaks("DATA before the head", |x| x.end(&data(b"early"))),
        breaks("DATA after the trailers", |x| {
            let trailers = headers("", &[("x-trailer", "1")]);
            x.end(&[headers("200", &[]), trailers, data(b"late")].concat());
        }),
        breaks("trailers twice", |x| {
            let trailers = headers("", &[("x-trailer", "1")]);
            x.end(&[headers("200", &[]), trailers.clone(), trailers].concat());
        }),
        breaks("SETTINGS in a response", |x| x.end(&setting(&[]))),
        breaks("GOAWAY in a response", |x| {
            x.end(&framed(frame_type::GOAWAY, &[0]));
        }),
        breaks("MAX_PUSH_ID in a response", |x| {
            x.end(&framed(frame_type::MAX_PUSH_ID, &[1]));
        }),
        breaks("PUSH_PROMISE", |x| {
            x.send(&framed(frame_type::PUSH_PROMISE, &[0, 0, 0]));
        }),
        breaks("PING of HTTP/2", |x| x.send(&framed(0x6, b"12345678"))),
        breaks("a response that ends within a frame", |x| {
            let response = [headers("200", &[]), data(b"cut")].concat();
            x.end(&response[..response.len() - 1]);
        }),
        breaks("HEADERS on the control stream", |x| {
            x.send_on(x.control(), &headers("200", &[]), false);
        }),
        breaks("DATA on the control stream", |x| {
            x.send_on(x.control(), &data(b"x"), false);
        }),
        breaks("CANCEL_PUSH of a push that there is not", |x| {
            x.send_on(x.control(), &framed(frame_type::CANCEL_PUSH, &[1]), false);
        }),
        case("F61", "frames that mean nothing", Nothing, |x| {
            let grease = framed(GREASE, &[0; 5000]);
            let (head, body) = (headers("200", &[]), data(b"body"));
            let trailers = headers("", &[("x-trailer", "1")]);
            let parts = [&grease, &head, &grease, &body, &grease, &trailers, &grease];
            x.end(&parts.map(Vec::as_slice).concat());
        }),
        case("F65", "frames split at every byte", Nothing, |x| {
            x.end_in_pieces(&[headers("200", &[]), data(&[b'x'; 20])].concat());
        }),
        case("F65", "content byte by byte", Nothing, |x| {
            x.send(&headers("200", &[]));
            x.end(&data(b"x").repeat(1000));
        }),
    ]
}

fn streams() -> Vec<Case> {
    use Cost::Nothing;
    let breaks = |what, act| case("F61", what, Cost::Connection(BadHttp3), act);
    vec![
        case(
            "F61",
            "a response on a stream that was not opened",
            Cost::Connection(BadQuic),
            |x| x.send_on(bidi(200), &headers("200", &[]), true),
        ),
        breaks("the end of the control stream", |x| {
            x.send_on(x.control(), b"", true);
        }),
        breaks("RESET_STREAM for the control stream", |x| {
            x.reset(x.control(), ErrorCode::NO_ERROR.0);
        }),
        breaks("a second control stream", |x| {
            x.open(&[&[CONTROL][..], &setting(&[])].concat(), false);
        }),
        breaks("the end of a stream of QPACK", |x| {
            x.open(&[stream_type::QPACK_ENCODER as u8], true);
        }),
        breaks("a push", |x| {
            x.open(&[stream_type::PUSH as u8, 0], false);
        }),
        case("F61", "streams that mean nothing", Nothing, |x| {
            for ends in [true, false] {
                x.open(b"\x21grease", ends);
            }
            x.respond(&[]);
        }),
    ]
}

fn messages() -> Vec<Case> {
    let malformed = |what, act| case("F63", what, Cost::Request(BadHttp3), act);
    vec![
        malformed("no :status", |x| x.end(&headers("", &[]))),
        malformed("an upper-case field name", |x| {
            x.respond(&[("X-Upper", "1")]);
        }),
        malformed("a content-length that is too large", |x| {
            x.respond(&[("content-length", "101")]);
        }),
        malformed("a content-length that is too small", |x| {
            x.respond(&[("content-length", "99")]);
        }),
        malformed("a content-length that is no number", |x| {
            x.respond(&[("content-length", "-5")]);
        }),
        malformed("two content-lengths", |x| {
            x.respond(&[("content-length", "100"), ("content-length", "101")]);
        }),
        malformed("a field of HTTP/1.1", |x| {
            x.respond(&[("transfer-encoding", "xchunked")]);
        }),
        case("F63", "trailers", Cost::Nothing, |x| {
            let trailers = headers("", &[("x-trailer", "1"), ("x-checksum", "none")]);
            x.end(&[headers("200", &[]), data(b"body"), trailers].concat());
        }),
        case("F63", "interim responses", Cost::Nothing, |x| {
            x.send(&headers("103", &[("x-interim", "1")]).repeat(3));
            x.respond(&[]);
        }),
    ]
}

/// What is sent without end. The client's memory stays bounded.
fn floods() -> Vec<Case> {
    use Cost::{Connection, Request};
    let floods = |what, act| case("F62", what, Connection(Flooded), act);
    vec![
        floods("unknown frames without end", |x| {
            x.send_endlessly(x.stream, framed(GREASE, b"").repeat(1000));
        }),
        floods("empty DATA without end", |x| {
            x.send(&headers("200", &[]));
            x.send_endlessly(x.stream, data(b"").repeat(1000));
        }),
        floods("GOAWAY without end", |x| {
            let mut goaway = Vec::new();
            frame::append_goaway(1 << 40, &mut goaway);
            x.send_endlessly(x.control(), goaway.repeat(1000));
        }),
        floods("PRIORITY_UPDATE without end", |x| {
            let update = framed(PRIORITY_UPDATE, &[0, b'u', b'=', b'3']);
            x.send_endlessly(x.control(), update.repeat(1000));
        }),
        floods("unknown frames without end on the control stream", |x| {
            x.send_endlessly(x.control(), framed(GREASE, b"").repeat(1000));
        }),
        floods("capacities of QPACK without end", |x| {
            x.open_and_send_endlessly(stream_type::QPACK_ENCODER as u8, vec![0x20; 1000]);
        }),
        floods("cancellations of QPACK without end", |x| {
            x.open_and_send_endlessly(stream_type::QPACK_DECODER as u8, vec![0x44; 1000]);
        }),
        // The client allows a few at a time.
        case(
            "F62",
            "streams without end, and no response",
            Request(Timeout),
            |x| x.open_endlessly(&[0x21]),
        ),
        case(
            "F62",
            "interim responses without end",
            Request(TooManyInterim),
            |x| x.send_endlessly(x.stream, headers("103", &[]).repeat(100)),
        ),
    ]
}

/// How the server ends a connection.
fn closes() -> Vec<Case> {
    let closes = |what, kind, act| case("F57", what, Cost::Connection(kind), act);
    vec![
        closes("a close with an error", Http3Closed, |x| {
            x.close(ErrorCode::INTERNAL_ERROR.0, "out of memory");
        }),
        closes("a close with an unknown code", Http3Closed, |x| {
            x.close(4711, "");
        }),
        closes("a close that asks for calm", Calm, |x| {
            x.close(ErrorCode::EXCESSIVE_LOAD.0, "");
        }),
        closes("a close without an error", ClosedEarly, |x| {
            x.close(ErrorCode::NO_ERROR.0, "");
        }),
        closes("a server that starts anew", StatelessReset, |x| x.forget()),
        case("F15", "silence", Cost::Request(Timeout), |_| {}),
        case(
            "F15",
            "silence after the head",
            Cost::Request(Timeout),
            |x| x.send(&headers("200", &[("content-length", "100")])),
        ),
    ]
}

/// What is no packet of the connection.
fn packets() -> Vec<Case> {
    vec![case(
        "F64",
        "datagrams that belong to no connection",
        Cost::Nothing,
        |x| {
            let version_1 = [&[0xc3, 0, 0, 0, 1, 8][..], &[7; 1194]].concat();
            for junk in [
                &b"\0"[..],
                b"HTTP/1.1 200 OK\r\n\r\n",
                &[0xff; 1200],
                &[0x40; 30],
                &version_1,
            ] {
                for _ in 0..20 {
                    x.send_raw(junk);
                }
            }
            x.respond(&[]);
        },
    )]
}

/// The head of a response and half of its body.
fn half(x: &mut Http3Exchange<'_>) {
    x.send(&headers("200", &[("content-length", "100")]));
    x.send(&data(&[b'x'; 50]));
}

/// Servers with which no connection is ready for requests.
fn without_connection() -> Vec<FaultRow> {
    fn check(url: &str, kind: ErrorKind) {
        let more = ["-m4", "-T200ms"].map(str::to_owned);
        let mut arguments = arguments(&more);
        arguments.push(format!("-d{DURATION_MS}ms"));
        // The server is asked for its versions first, for a second at most.
        let allowed = Duration::from_millis(DURATION_MS + 1000);
        let run = client::run(&arguments, url, allowed);
        check_unsent(&run, kind);
    }
    let row = |what: &str, kind: ErrorKind, server: Http3| {
        FaultRow::told("F64", format!("HTTP/3: {what}"), kind.name(), move || {
            check(&Http3Adversary::start(server.clone()).url(), kind);
        })
    };
    let usual = Http3::default;
    vec![
        row(
            "another protocol in ALPN",
            OtherProtocol,
            Http3 {
                protocol: "hq-interop",
                ..usual()
            },
        ),
        row(
            "another version of QUIC",
            QuicVersion,
            Http3 {
                version: Some(0xff00_001d),
                ..usual()
            },
        ),
        row(
            "a server that refuses connections",
            QuicHandshake,
            Http3 {
                arrivals: Arrivals::Refused,
                ..usual()
            },
        ),
        row(
            "a server that ignores connections",
            ConnectTimeout,
            Http3 {
                arrivals: Arrivals::Ignored,
                ..usual()
            },
        ),
        FaultRow::told(
            "F64",
            "HTTP/3: a port where nothing is read",
            ConnectTimeout.name(),
            || {
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                let url = format!("https://{}/", socket.local_addr().unwrap());
                check(&url, ConnectTimeout);
            },
        ),
    ]
}

/// Limits that stop or slow down the load, and ends without an error.
fn limited() -> Vec<FaultRow> {
    vec![
        FaultRow::told("F56", "HTTP/3: Retry", "responses", || {
            let server = Http3 {
                arrivals: Arrivals::Retried,
                ..Http3::default()
            };
            let (run, _) = run(server, &["-m4", "-n60"]);
            assert_eq!((run.answered(), run.events()), (60, 0), "{}", run.story());
            let quic = run.result.recording.parts.quic.as_ref();
            assert_eq!(quic.map(|quic| quic.retries), Some(2));
        }),
        FaultRow::told(
            "F56",
            "HTTP/3: a limit of 0 streams",
            "no request, and the end in time",
            || {
                let (run, _) = run(
                    Http3 {
                        streams_max: 0,
                        ..Http3::default()
                    },
                    &["-m4", &format!("-d{DURATION_MS}ms")],
                );
                check_no_streams(&run);
            },
        ),
        FaultRow::told(
            "F56",
            "HTTP/3: a limit of 1 stream",
            "responses, and both numbers",
            || {
                let (run, _) = run(
                    Http3 {
                        streams_max: 1,
                        ..Http3::default()
                    },
                    &["-m4", "-n60"],
                );
                assert_eq!((run.answered(), run.failed()), (60, 0), "{}", run.story());
                assert_eq!(run.result.recording.streams_limit, Some(1));
                assert_eq!(run.result.plan.load.streams, 4);
            },
        ),
        FaultRow::told(
            "F59",
            "HTTP/3: windows that are never refilled",
            "timeout",
            || {
                let folder = Folder::new();
                let body = folder.file_with("body", vec![b'x'; 200_000]);
                let (run, server) = run(
                    Http3 {
                        reads: false,
                        window_bytes: 65_535,
                        ..Http3::default()
                    },
                    &["-m2", "-n8", "-T200ms", "--body-file", &body],
                );
                let counted = (run.kinds(), run.sent(), run.failed(), run.events());
                assert_eq!(counted, (vec![Timeout], 8, 8, 8), "{}", run.story());
                assert_eq!(server.tally().requests(), 0);
            },
        ),
        FaultRow::told(
            "F57",
            "HTTP/3: GOAWAY after each response",
            "responses, then reconnects",
            || {
                let act: Act = |x| {
                    x.respond(&[]);
                    x.goaway(u64::from(x.stream) + 4);
                };
                let (run, _) = run(
                    Http3 {
                        act,
                        ..Http3::default()
                    },
                    &["-m1", "-n20"],
                );
                assert_eq!((run.answered(), run.events()), (20, 0), "{}", run.story());
                let opened = run.result.recording.counters.connections_opened;
                assert_eq!(opened, 20, "{}", run.story());
            },
        ),
        FaultRow::told(
            "F57",
            "HTTP/3: GOAWAY that leaves requests out",
            "goaway_unprocessed",
            || {
                let act: Act = |x| x.goaway(u64::from(x.stream));
                let (run, server) = run(
                    Http3 {
                        act,
                        every: 10,
                        ..Http3::default()
                    },
                    &["-m4", "-n80"],
                );
                assert_eq!(run.kinds(), [GoawayUnprocessed], "{}", run.story());
                assert_eq!(run.answered() + run.failed(), 80, "{}", run.story());
                // None of the unprocessed requests was sent again.
                let tally = server.tally();
                assert!(tally.requests() <= 80, "{tally:?}");
            },
        ),
        FaultRow::told(
            "F4",
            "HTTP/3: the server goes away for good",
            "reset, then refused, and the end in time",
            || {
                let quits = Http3 {
                    act: |x| x.quit(),
                    every: 20,
                    ..Http3::default()
                };
                let (run, _) = run(quits, &["-m4", &format!("-d{DURATION_MS}ms")]);
                assert_eq!(run.output.code, Some(0), "{}", run.story());
                let mut kinds = run.kinds();
                // After a pause it may look like the end of an idle connection.
                kinds.retain(|kind| *kind != Stale);
                assert_eq!(kinds, [Refused, Reset], "{}", run.story());
                let refused = run.result.recording.errors.count(Refused);
                assert_eq!(refused.exchanges, 0, "{}", run.story());
            },
        ),
        FaultRow::told(
            "F57",
            "HTTP/3: a close within a body, without an error",
            "truncated",
            || {
                let act: Act = |x| {
                    half(x);
                    x.close(ErrorCode::NO_ERROR.0, "");
                };
                let (run, _) = run(
                    Http3 {
                        act,
                        ..Http3::default()
                    },
                    &["-m1", "-n6"],
                );
                assert_eq!(run.kinds(), [Truncated], "{}", run.story());
                assert_eq!((run.failed(), run.events()), (6, 6), "{}", run.story());
            },
        ),
    ]
}

/// Runs against a server that affects requests as it says.
fn run(server: Http3, more: &[&str]) -> (Finished, Http3Adversary) {
    let more: Vec<String> = more.iter().map(|&word| word.to_owned()).collect();
    let server = Http3Adversary::start(server);
    let allowed = Duration::from_millis(DURATION_MS + 8 * SHORT_TIMEOUT_MS);
    let run = client::run(&arguments(&more), &server.url(), allowed);
    (run, server)
}
