//! F56 to F65: HTTP/2.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use origin::{Address, Backend, Http2Settings, Identity, Options, Server, TlsSettings};
use plan::Protocol;
use protocol::h2::error::ErrorCode;
use protocol::h2::frame::{flag, kind};
use protocol::h2::hpack::encode::{Literal, field};
use protocol::h2::settings::{FRAME_SIZE_MIN, id};
use protocol::h2::{StreamId, writer};
use results::ErrorKind::{
    self, BadHttp2, Calm, ClosedEarly, Compression, ConnectTimeout, Flooded, FlowControl, Goaway,
    GoawayUnprocessed, HeaderTooLarge, NotHttp2, OtherProtocol, Reset, StreamRefused, StreamReset,
    Timeout, TlsAlert, TooManyHeaders, Truncated,
};
use testkit::{Folder, TestServer, one_line};

use crate::adversary::{
    Adversary, Exchange, Http2, Layer, Misbehavior, ServerStep, When, block, send, usual_tls,
};
use crate::client::{self, Finished};
use crate::cost::{Cost, DURATION_MS, ONE_OF, REQUESTS, REQUESTS_MIXED};
use crate::row::{FaultRow, RowOutcome};

const SHORT_TIMEOUT_MS: u64 = 80;
/// The last of all streams, which no client gets to.
const UNOPENED: StreamId = (1 << 31) - 1;

/// The type of a frame about the priority of a request (RFC 9218 section 7.1).
const PRIORITY_UPDATE: u8 = 0x10;

/// A fault, before it is a row.
#[derive(Debug, Clone)]
struct Case {
    id: &'static str,
    what: &'static str,
    steps: Vec<ServerStep>,
    /// Bytes of the body of the request.
    upload_bytes: usize,
    window_bytes: u32,
    cost: Cost,
    has_tls: bool,
}

fn case(id: &'static str, what: &'static str, steps: &[ServerStep], cost: Cost) -> Case {
    Case {
        id,
        what,
        steps: steps.to_vec(),
        upload_bytes: 0,
        window_bytes: 1 << 20,
        cost,
        has_tls: false,
    }
}

/// A fault that is only a matter of frames.
fn framed(id: &'static str, what: &'static str, cost: Cost, write: fn(&mut Exchange<'_>)) -> Case {
    case(id, what, &[ServerStep::Frames(write)], cost)
}

impl Case {
    fn upload(self, upload_bytes: usize, window_bytes: u32) -> Self {
        Self {
            upload_bytes,
            window_bytes,
            ..self
        }
    }

    /// In clear, and inside TLS.
    fn rows(self) -> [FaultRow; 2] {
        let inside = Self {
            has_tls: true,
            ..self.clone()
        };
        [self.row(), over_tls(inside.row())]
    }

    fn row(self) -> FaultRow {
        FaultRow::new(self.id, self.what, self.cost.expected(), move || {
            let all = self.try_all();
            let some = self.try_some();
            RowOutcome::Held(format!("{all}; of some: {some}"))
        })
    }

    fn try_all(&self) -> String {
        let (run, server) = self.run(1, REQUESTS, "-m1");
        self.cost.check_all(&run, server.tally());
        run.errors()
    }

    fn try_some(&self) -> String {
        let (run, server) = self.run(ONE_OF, REQUESTS_MIXED, "-m4");
        self.cost.check_some(&run, server.tally());
        run.errors()
    }

    /// One run against a server that affects one of `every` requests.
    fn run(&self, every: u64, requests: u64, streams: &str) -> (Finished, Adversary) {
        let http2 = Http2::with_window(self.window_bytes);
        let server = misbehaving(http2, self.has_tls, every, &self.steps);
        let (timeout_ms, allowed_ms) = self.cost.times_ms(requests, SHORT_TIMEOUT_MS);
        let mut arguments = arguments(&[streams, &format!("-n{requests}")]);
        arguments.push(format!("-T{timeout_ms}ms"));
        let folder = Folder::new();
        if self.upload_bytes > 0 {
            let body = folder.file_with("body", vec![b'x'; self.upload_bytes]);
            arguments.extend(["--body-file".to_owned(), body]);
        }
        let allowed = Duration::from_millis(allowed_ms);
        let run = client::run(&arguments, &server.url(), allowed);
        (run, server)
    }
}

fn misbehaving(http2: Http2, has_tls: bool, every: u64, steps: &[ServerStep]) -> Adversary {
    Adversary::start(Misbehavior {
        when: When::Asked,
        steps: steps.to_vec(),
        every,
        layer: if has_tls { usual_tls() } else { Layer::Plain },
        http2: Some(http2),
        is_slow_start: false,
    })
}

fn arguments(more: &[&str]) -> Vec<String> {
    let usual = ["--http2", "-t1", "-c2"];
    usual
        .iter()
        .chain(more)
        .map(|&word| word.to_owned())
        .collect()
}

/// The protocols that a server with TLS knows.
const BOTH: &[&str] = &["h2", "http/1.1"];

fn serve(window_bytes: u32, has_tls: bool, answer: &str) -> Server {
    serve_with(Some((256, window_bytes)), has_tls.then_some(BOTH), answer)
}

fn serve_with(limits: Option<(u32, u32)>, alpn: Option<&[&str]>, answer: &str) -> Server {
    let tls = alpn.map(|protocols| {
        let identity = Identity::self_signed(&["localhost", "127.0.0.1"]).unwrap();
        let alpn = protocols.iter().map(|name| name.as_bytes().to_vec());
        let settings = TlsSettings {
            alpn: alpn.collect(),
            ..TlsSettings::new(identity)
        };
        settings.config().unwrap()
    });
    let options = Options {
        http2: limits.map(|(streams_max, window_bytes)| Http2Settings {
            streams_max,
            window_bytes,
        }),
        backend: Backend::Epoll,
        tls,
        ..Options::default()
    };
    Server::start(options.with_defaults(answer).unwrap()).unwrap()
}

pub(crate) fn rows() -> Vec<FaultRow> {
    let cases = [
        settings(),
        goaway(),
        resets(),
        windows(),
        blocks(),
        frames(),
        messages(),
        connections(),
    ];
    let rows = cases.into_iter().flatten().flat_map(Case::rows);
    let idle_floods = idle_floods().into_iter().flat_map(Case::rows);
    rows.chain(idle_floods.map(FaultRow::slow))
        .chain(without_connection())
        .chain(limited(false))
        .chain(limited(true).into_iter().map(over_tls))
        .chain(floods(false))
        .chain(floods(true).into_iter().map(over_tls))
        .chain([gone_at_once()])
        .chain([another_protocol_later()])
        .collect()
}

/// A row that repeats another one inside TLS.
fn over_tls(row: FaultRow) -> FaultRow {
    let mut row = row.slow();
    row.what.push_str(", https");
    row
}

fn settings() -> Vec<Case> {
    use Cost::{Connection, Nothing};
    let set = |what, cost, write| framed("F56", what, cost, write);
    vec![
        set("a flood of SETTINGS", Nothing, |x| {
            for _ in 0..1000 {
                x.frame(kind::SETTINGS, 0, 0, b"");
            }
            x.respond(&[]);
        }),
        set(
            "another limit of streams with each response",
            Nothing,
            |x| {
                x.set(id::MAX_CONCURRENT_STREAMS, alternately(x.stream, 1, 50));
            },
        ),
        set(
            "windows of 10 bytes while others are open, which makes these negative",
            Nothing,
            |x| x.set(id::INITIAL_WINDOW_SIZE, alternately(x.stream, 10, 70_000)),
        )
        .upload(20_000, 65_535),
        set("the largest frames", Nothing, |x| {
            x.set(id::MAX_FRAME_SIZE, 16_777_215);
        })
        .upload(40_000, 1 << 20),
        set("a maximum frame size of 100", Connection(BadHttp2), |x| {
            x.set(id::MAX_FRAME_SIZE, 100);
        }),
        set("a window of 2^31", Connection(FlowControl), |x| {
            x.set(id::INITIAL_WINDOW_SIZE, 1 << 31);
        }),
        set("a table of 0 bytes", Nothing, |x| {
            x.set(id::HEADER_TABLE_SIZE, 0);
        }),
    ]
}

/// One value on every third stream of a client, beginning with the first, and another on the rest.
fn alternately(stream: StreamId, one: u32, other: u32) -> u32 {
    if stream % 6 == 1 { one } else { other }
}

fn goaway() -> Vec<Case> {
    let ends = |what, kind, write: fn(&mut Exchange<'_>)| {
        let steps = [ServerStep::Frames(write), ServerStep::Fin];
        case("F57", what, &steps, Cost::Connection(kind))
    };
    vec![
        ends("GOAWAY with an error", Goaway, |x| {
            x.goaway(UNOPENED, ErrorCode::INTERNAL_ERROR);
        }),
        ends("GOAWAY that asks for calm", Calm, |x| {
            x.goaway(UNOPENED, ErrorCode::ENHANCE_YOUR_CALM);
        }),
    ]
}

fn resets() -> Vec<Case> {
    let resets = |what, kind, write| framed("F58", what, Cost::Request(kind), write);
    vec![
        resets("a refused stream", StreamRefused, |x| {
            x.reset(ErrorCode::REFUSED_STREAM);
        }),
        resets("RST_STREAM before the head", StreamReset, |x| {
            x.reset(ErrorCode::CANCEL);
        }),
        resets("RST_STREAM that asks for calm", Calm, |x| {
            x.reset(ErrorCode::ENHANCE_YOUR_CALM);
        }),
        resets("RST_STREAM with an unknown code", StreamReset, |x| {
            x.reset(ErrorCode(4711));
        }),
        resets("RST_STREAM within the body", StreamReset, |x| {
            half(x);
            x.reset(ErrorCode::INTERNAL_ERROR);
        }),
    ]
}

fn windows() -> Vec<Case> {
    let split = [ServerStep::Frames(|x| x.respond(&[])), ServerStep::Split];
    vec![
        case("F59", "windows of 1,000 bytes", &split, Cost::Nothing).upload(20_000, 1_000),
        framed(
            "F59",
            "a long body that stops",
            Cost::Request(Timeout),
            |x| {
                x.head("200", &[], false);
                x.data(FRAME_SIZE_MIN, false);
            },
        ),
    ]
}

fn blocks() -> Vec<Case> {
    use Cost::{Connection, Nothing, Request};
    let block_is = |what, cost, write| framed("F60", what, cost, write);
    vec![
        block_is("CONTINUATION without end", Connection(Flooded), |x| {
            x.frame(kind::HEADERS, 0, x.stream, &block("200", &[]));
            for _ in 0..100_000 {
                x.frame(kind::CONTINUATION, 0, x.stream, b"");
            }
        }),
        block_is("a head of 100 kB", Connection(HeaderTooLarge), |x| {
            x.respond(&[("x-big", &"x".repeat(100_000))]);
        }),
        // An indexed field with index 255 (RFC 7541 section 6.1).
        block_is("an index beyond the tables", Connection(Compression), |x| {
            x.bare_head(
                x.stream,
                &[&block("200", &[])[..], &[0xff, 0x80, 0x01]].concat(),
            );
        }),
        // A table of 1 MiB (section 6.3).
        block_is(
            "a table larger than allowed",
            Connection(Compression),
            |x| {
                x.bare_head(
                    x.stream,
                    &[&[0x3f, 0xe1, 0xff, 0x3f], &block("200", &[])[..]].concat(),
                );
            },
        ),
        // To 0 bytes, and to 4,096 again, which is allowed.
        block_is("a table that shrinks and grows", Nothing, |x| {
            x.bare_head(
                x.stream,
                &[&[0x20, 0x3f, 0xe1, 0x1f], &block("200", &[])[..]].concat(),
            );
        }),
        block_is(
            "a list of 40 MB in a short block",
            Request(HeaderTooLarge),
            |x| {
                let mut bomb = block("200", &[]);
                field(b"x-bomb", &[b'{'; 4000], Literal::Indexed, &mut bomb);
                // The newest entry of the dynamic table.
                bomb.resize(bomb.len() + 10_000, 0x80 | 62);
                x.bare_head(x.stream, &bomb);
            },
        ),
        block_is("1,000 fields", Request(TooManyHeaders), |x| {
            x.respond(&[("x-many", "1"); 1000])
        }),
    ]
}

fn frames() -> Vec<Case> {
    let breaks = |what, write| framed("F61", what, Cost::Connection(BadHttp2), write);
    let afterwards = |what, write| framed("F61", what, Cost::ConnectionAfterwards(BadHttp2), write);
    let split = [ServerStep::Frames(|x| x.respond(&[])), ServerStep::Split];
    let mut drip = vec![ServerStep::Frames(|x| x.head("200", &[], false))];
    for _ in 0..8 {
        drip.extend([
            ServerStep::Frames(|x| x.data(1, false)),
            ServerStep::Pause(1),
        ]);
    }
    drip.push(ServerStep::Frames(|x| x.data(1, true)));
    let no_frame = [send([0xff; 64]), ServerStep::Fin];
    vec![
        breaks("a response on a stream that was not opened", |x| {
            x.bare_head(UNOPENED, &block("200", &[]));
        }),
        breaks("a response on an even stream", |x| {
            x.bare_head(2, &block("200", &[]));
        }),
        breaks("PUSH_PROMISE", |x| {
            let promised = [
                (":method", "GET"),
                (":scheme", "http"),
                (":authority", "localhost"),
                (":path", "/pushed"),
            ];
            writer::push_promise(x.stream, 2, &block("", &promised), FRAME_SIZE_MIN, x.output);
            x.respond(&[]);
        }),
        breaks("a frame longer than allowed", |x| {
            x.head("200", &[], false);
            let content = [b'x'; FRAME_SIZE_MIN as usize + 1];
            x.frame(kind::DATA, flag::END_STREAM, x.stream, &content);
        }),
        case(
            "F61",
            "bytes that are no frame",
            &no_frame,
            Cost::Connection(BadHttp2),
        ),
        afterwards("DATA on a closed stream", |x| {
            x.respond(&[]);
            x.frame(kind::DATA, 0, x.stream, b"surplus");
        }),
        afterwards("two responses", |x| {
            x.respond(&[]);
            x.bare_head(x.stream, &block("200", &[]));
        }),
        framed("F62", "a flood of PING", Cost::Nothing, |x| {
            for _ in 0..10_000 {
                x.frame(kind::PING, 0, 0, b"wrkbench");
            }
            x.respond(&[]);
        }),
        framed("F62", "no answer to PING", Cost::Nothing, |x| {
            x.session.stop_answering_pings();
            x.respond(&[]);
        }),
        case("F65", "frames split at every byte", &split, Cost::Nothing),
        case("F65", "content byte by byte", &drip, Cost::Nothing),
    ]
}

/// Frames without end that move nothing forward and need no reply.
fn idle_floods() -> Vec<Case> {
    /// More than the client takes.
    const FRAMES: u32 = 70_000;
    let floods = |what, write| framed("F62", what, Cost::Connection(Flooded), write);
    vec![
        floods("GOAWAY without end", |x| {
            (0..FRAMES).for_each(|_| x.goaway(UNOPENED, ErrorCode::NO_ERROR));
        }),
        floods("WINDOW_UPDATE without end", |x| {
            (0..FRAMES).for_each(|_| writer::window_update(0, 1, x.output));
        }),
        floods("PRIORITY_UPDATE without end", |x| {
            (0..FRAMES).for_each(|_| x.frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=3"));
        }),
        floods("empty DATA without end", |x| {
            x.head("200", &[], false);
            (0..FRAMES).for_each(|_| x.data(0, false));
        }),
    ]
}

fn messages() -> Vec<Case> {
    let malformed = |what, write| framed("F63", what, Cost::Request(BadHttp2), write);
    vec![
        malformed("no :status", |x| x.bare_head(x.stream, &block("", &[]))),
        malformed("an upper-case field name", |x| {
            x.respond(&[("X-Upper", "1")])
        }),
        malformed("a content-length that is too large", |x| {
            x.respond(&[("content-length", "101")]);
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
        framed("F63", "trailers", Cost::Nothing, |x| {
            x.head("200", &[], false);
            x.data(100, false);
            x.head("", &[("x-trailer", "1"), ("x-checksum", "none")], true);
        }),
        framed("F63", "interim responses", Cost::Nothing, |x| {
            for _ in 0..3 {
                x.head("103", &[("x-interim", "1")], false);
            }
            x.respond(&[]);
        }),
    ]
}

/// Faults of the connection, as with HTTP/1.1.
fn connections() -> Vec<Case> {
    use Cost::{Connection, Request};
    let head = ServerStep::Frames(|x| x.head("200", &[("content-length", "100")], false));
    let half = ServerStep::Frames(half);
    let ends = |what, steps: &[ServerStep], kind| case("F5", what, steps, Connection(kind));
    let hangs = |what, steps: &[ServerStep]| case("F15", what, steps, Request(Timeout));
    vec![
        ends(
            "HTTP/2: RST within a body",
            &[half.clone(), ServerStep::Pause(10), ServerStep::Reset],
            Reset,
        ),
        ends(
            "HTTP/2: FIN within a body",
            &[half, ServerStep::Fin],
            Truncated,
        ),
        ends(
            "HTTP/2: FIN before a response",
            &[ServerStep::Fin],
            ClosedEarly,
        ),
        hangs("HTTP/2: silence", &[]),
        hangs("HTTP/2: silence after the head", &[head]),
    ]
}

/// The head of a response and half of its body.
fn half(x: &mut Exchange<'_>) {
    x.head("200", &[("content-length", "100")], false);
    x.data(50, false);
}

/// Servers with which no connection is ready for requests.
fn without_connection() -> Vec<FaultRow> {
    fn check(url: &str, kind: ErrorKind) -> Finished {
        let arguments = arguments(&["-m4", "-T80ms", &format!("-d{DURATION_MS}ms")]);
        let run = client::run(&arguments, url, Duration::from_millis(DURATION_MS));
        check_unsent(&run, kind);
        run
    }
    let row = |id, what: &'static str, kind: ErrorKind, serve: fn() -> Server| {
        FaultRow::told(id, what, kind.name(), move || {
            check(&serve().url(), kind);
        })
    };
    let silent = |what: &'static str, has_tls| {
        FaultRow::told("F56", what, ConnectTimeout.name(), move || {
            let server = misbehaving(Http2::SILENT, has_tls, 1, &[]);
            let run = check(&server.url(), ConnectTimeout);
            let line = one_line(&run.output.stderr);
            let detail = ": the server sent no SETTINGS (HTTP/2) (";
            assert!(line.contains(detail), "{line}");
        })
    };
    vec![
        silent("no SETTINGS", false),
        silent("no SETTINGS, https", true),
        row(
            "F64",
            "a server of HTTP/1.1 gets the preface",
            NotHttp2,
            || serve_with(None, None, ""),
        ),
        row(
            "F64",
            "a server of HTTP/1.1 refuses h2 in ALPN",
            TlsAlert,
            || serve_with(None, Some(&["http/1.1"]), ""),
        ),
        row(
            "F64",
            "a server of HTTP/1.1 without ALPN",
            OtherProtocol,
            || serve_with(None, Some(&[]), ""),
        ),
    ]
}

/// Some of the servers behind a balancer speak HTTP/2, and others do not.
fn another_protocol_later() -> FaultRow {
    /// Connections in the middle of the run that a server of HTTP/1.1 gets.
    const OTHERS: usize = 3;
    FaultRow::told(
        "F64",
        "ALPN chooses HTTP/2, later HTTP/1.1, then HTTP/2",
        "other_protocol, the next connections recover",
        || {
            let usual = Arc::new(serve(65_535, true, ""));
            let other = serve_with(None, Some(&["http/1.1"]), "");
            let addresses = [tcp_address(&usual), tcp_address(&other)];
            let (of_usual, others) = (Arc::clone(&usual), AtomicUsize::new(0));
            let balancer = TestServer::start(move |client| {
                let is_other = of_usual.counts().requests > 0
                    && others.fetch_add(1, Ordering::SeqCst) < OTHERS;
                let address = addresses[usize::from(is_other)];
                relay(&client, &TcpStream::connect(address)?)
            });
            let load = "--alpn h2,http/1.1 -t1 -c1 -n10 --requests-per-connection 5";
            let arguments: Vec<String> = load.split(' ').map(str::to_owned).collect();
            let url = format!("https://{}/", balancer.address());
            let run = client::run(&arguments, &url, Duration::from_millis(DURATION_MS));
            assert_eq!(run.kinds(), [OtherProtocol], "{}", run.story());
            let counted = (run.events(), run.answered(), run.failed());
            assert_eq!(counted, (OTHERS as u64, 10, 0), "{}", run.story());
            assert_eq!(run.result.plan.load.protocol, Protocol::Http2);
            assert_eq!(usual.counts().requests, 10);
            assert_eq!(other.stop().counts.requests, 0);
        },
    )
}

fn tcp_address(server: &Server) -> SocketAddr {
    match server.address() {
        Address::Tcp(address) => *address,
        Address::Unix(_) => panic!("it listens on a port"),
    }
}

/// Passes on what either side sends, until both have ended.
fn relay(client: &TcpStream, server: &TcpStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    std::thread::scope(|scope| {
        scope.spawn(|| pass_on(client, server));
        pass_on(server, client);
    });
    Ok(())
}

fn pass_on(mut from: &TcpStream, mut to: &TcpStream) {
    // An error is an end as well.
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

/// Frames without end that must be replied to. The client's memory stays bounded, whether the
/// server reads the replies or not.
fn floods(has_tls: bool) -> Vec<FaultRow> {
    const SECONDS: u64 = 3;
    let flood = |write: fn(&mut Vec<u8>)| {
        let mut frames = Vec::new();
        (0..1000).for_each(|_| write(&mut frames));
        frames
    };
    let ping = flood(|output| writer::ping([7; 8], false, output));
    let settings = flood(|output| writer::settings([], output));
    let rows = [
        (
            "F62",
            "PING without end, no reply is read",
            ServerStep::Endless(ping.clone()),
        ),
        (
            "F56",
            "SETTINGS without end, no reply is read",
            ServerStep::Endless(settings.clone()),
        ),
        ("F62", "PING without end", ServerStep::EndlessReading(ping)),
        (
            "F56",
            "SETTINGS without end",
            ServerStep::EndlessReading(settings),
        ),
    ];
    let rows = rows.into_iter().map(|(id, what, step)| {
        let is_read = matches!(step, ServerStep::EndlessReading(_));
        let row = FaultRow::told(id, what, "flooded or timeout", move || {
            let http2 = Http2::with_window(1 << 20);
            let server = misbehaving(http2, has_tls, 1, slice::from_ref(&step));
            let arguments = arguments(&["-m1", "-T1s", &format!("-d{SECONDS}s")]);
            let run = client::run(&arguments, &server.url(), Duration::from_secs(SECONDS));
            let kinds = run.kinds();
            let story = run.story();
            assert!(!kinds.is_empty() && run.answered() == 0, "{story}");
            let allowed = [Timeout, Flooded];
            assert!(kinds.iter().all(|kind| allowed.contains(kind)), "{story}");
            assert!(is_read || kinds.contains(&Flooded), "{story}");
            assert_eq!(run.output.code, Some(1), "{story}");
        });
        row.slow()
    });
    rows.collect()
}

/// A server that ends each connection at once, without an error.
fn gone_at_once() -> FaultRow {
    let what = "SETTINGS, and GOAWAY without an error at once";
    FaultRow::told("F57", what, "pauses, and reconnects per second", || {
        let mut frames = Vec::new();
        writer::settings([], &mut frames);
        writer::goaway(0, ErrorCode::NO_ERROR, b"", &mut frames);
        let server = Adversary::start(Misbehavior {
            when: When::Connected,
            steps: vec![ServerStep::Send(frames), ServerStep::Hang],
            every: 1,
            layer: Layer::Plain,
            http2: None,
            is_slow_start: false,
        });
        let arguments = arguments(&["-m4", "-d500ms"]);
        let run = client::run(&arguments, &server.url(), Duration::from_millis(500));
        let counted = (run.kinds(), run.sent(), run.output.code);
        assert_eq!(counted, (vec![], 0, Some(1)), "{}", run.story());
        let reconnects = run.result.recording.counters.reconnects;
        // One at once, then pauses that double from 1 ms, for each of two connections.
        assert!((10..=40).contains(&reconnects), "{}", run.story());
        let line = one_line(&run.output.stderr);
        let begin = "wrkbench: no request succeeded: the server ended ";
        assert!(line.starts_with(begin), "{line}");
        assert!(line.ends_with(" a second) without a response"), "{line}");
    })
}

/// Limits that stop or slow down the load, without an error.
fn limited(has_tls: bool) -> Vec<FaultRow> {
    let alpn = has_tls.then_some(BOTH);
    vec![
        FaultRow::told(
            "F56",
            "a limit of 0 streams",
            "no request, and the end in time",
            move || {
                let server = serve_with(Some((0, 65_535)), alpn, "");
                let arguments = arguments(&["-m4", &format!("-d{DURATION_MS}ms")]);
                let run = client::run(
                    &arguments,
                    &server.url(),
                    Duration::from_millis(DURATION_MS),
                );
                check_no_streams(&run);
            },
        ),
        FaultRow::told(
            "F56",
            "a limit of 1 stream",
            "responses, and both numbers",
            move || {
                let server = serve_with(Some((1, 65_535)), alpn, "");
                let arguments = arguments(&["-m4", "-n60"]);
                let run = client::run(
                    &arguments,
                    &server.url(),
                    Duration::from_millis(DURATION_MS),
                );
                assert_eq!((run.answered(), run.failed()), (60, 0), "{}", run.story());
                assert_eq!(run.result.recording.streams_limit, Some(1));
                assert_eq!(run.result.plan.load.streams, 4);
            },
        ),
        FaultRow::told("F56", "a window of 0", "timeout", move || {
            timed_out(0, has_tls);
        }),
        FaultRow::told(
            "F59",
            "windows that are never refilled",
            "timeout",
            move || timed_out(65_535, has_tls),
        ),
        FaultRow::told("F59", "a body without end", "timeout", move || {
            let server = serve(65_535, has_tls, "size=1000G&chunked");
            let arguments = arguments(&["-m2", "-n8", "-T80ms"]);
            let allowed = Duration::from_millis(8 * 80);
            let run = client::run(&arguments, &server.url(), allowed);
            let counted = (run.kinds(), run.sent(), run.failed(), run.events());
            assert_eq!(counted, (vec![Timeout], 8, 8, 8), "{}", run.story());
        }),
        FaultRow::told(
            "F57",
            "GOAWAY after each response",
            "responses, then reconnects",
            move || {
                let server = serve(65_535, has_tls, "close");
                let arguments = arguments(&["-m1", "-n20"]);
                let run = client::run(
                    &arguments,
                    &server.url(),
                    Duration::from_millis(DURATION_MS),
                );
                assert_eq!((run.answered(), run.events()), (20, 0), "{}", run.story());
                let opened = run.result.recording.counters.connections_opened;
                assert_eq!(opened, 20, "{}", run.story());
            },
        ),
        FaultRow::told(
            "F57",
            "GOAWAY that leaves requests out",
            "goaway_unprocessed",
            move || {
                let http2 = Http2::with_window(65_535);
                let unprocessed = ServerStep::Frames(|x| {
                    x.goaway(x.stream.saturating_sub(2), ErrorCode::NO_ERROR)
                });
                let server = misbehaving(http2, has_tls, 10, &[unprocessed, ServerStep::Fin]);
                let arguments = arguments(&["-m4", "-n80"]);
                let allowed = Duration::from_millis(DURATION_MS);
                let run = client::run(&arguments, &server.url(), allowed);
                assert_eq!(run.kinds(), [GoawayUnprocessed], "{}", run.story());
                assert_eq!(run.answered() + run.failed(), 80, "{}", run.story());
                // None of the unprocessed requests was sent again.
                let tally = server.tally();
                assert!(tally.requests() <= 80, "{tally:?}");
                let responses = tally.requests() - tally.wrong();
                assert_eq!(responses, run.answered(), "{tally:?}\n{}", run.story());
            },
        ),
    ]
}

/// No request was sent because of these errors, and the run says so.
pub(crate) fn check_unsent(run: &Finished, kind: ErrorKind) {
    assert_eq!(run.kinds(), [kind], "{}", run.story());
    assert_eq!((run.sent(), run.answered()), (0, 0), "{}", run.story());
    assert_eq!(run.output.code, Some(1), "{}", run.story());
    let begin = format!("wrkbench: no request succeeded: {}", kind.describe());
    let line = one_line(&run.output.stderr);
    assert!(line.starts_with(&begin), "{line}");
}

/// The server allows no streams, and the run says so.
pub(crate) fn check_no_streams(run: &Finished) {
    let counted = (run.kinds(), run.sent(), run.output.code);
    assert_eq!(counted, (vec![], 0, Some(1)), "{}", run.story());
    assert_eq!(run.result.recording.streams_limit, Some(0));
    let line = one_line(&run.output.stderr);
    let begin = "wrkbench: no request succeeded: the server allows no streams on a connection";
    assert!(line.starts_with(begin), "{line}");
}

/// Requests whose bodies cannot be sent.
fn timed_out(window_bytes: u32, has_tls: bool) {
    let http2 = Http2 {
        refills_windows: false,
        ..Http2::with_window(window_bytes)
    };
    let server = misbehaving(http2, has_tls, 1, &[]);
    let folder = Folder::new();
    let body = folder.file_with("body", vec![b'x'; 200_000]);
    let arguments = arguments(&["-m2", "-n8", "-T80ms", "--body-file", &body]);
    let allowed = Duration::from_millis(8 * 80);
    let run = client::run(&arguments, &server.url(), allowed);
    assert_eq!(run.kinds(), [Timeout], "{}", run.story());
    assert_eq!(
        (run.sent(), run.failed(), run.events()),
        (8, 8, 8),
        "{}",
        run.story()
    );
    assert_eq!(server.tally().requests(), 0);
}
