//! F56 to F65: HTTP/2.
//!
//! Each case is tried twice. First every request is affected, one at a time on each connection:
//! that shows how the fault is counted. Then three of ten are, with four streams on each
//! connection: that shows that nothing is lost or counted twice, and that connections recover.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use origin::{Address, Backend, Counts, Http2Settings, Identity, Options, Server, TlsSettings};
use plan::Protocol;
use results::ErrorKind::{
    self, BadHttp2, BrokenPipe, Calm, ClosedEarly, Compression, ConnectTimeout, FlowControl,
    Goaway, GoawayUnprocessed, HeaderTooLarge, NotHttp2, OtherProtocol, Reset, Stale,
    StreamRefused, StreamReset, Timeout, TlsAlert, Truncated,
};
use testkit::{Folder, TestServer, one_line};

use crate::client::{self, Finished};
use crate::row::{Row, RowOutcome};

const REQUESTS: u64 = 6;
const REQUESTS_MIXED: u64 = 60;
const DURATION_MS: u64 = 400;
/// Where no timeout is expected, even on a busy machine.
const TIMEOUT_MS: u64 = 30_000;
const SHORT_TIMEOUT_MS: u64 = 80;

/// What a fault costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cost {
    /// Nothing: there is a response.
    Nothing,
    /// Its request, with this kind.
    Request(ErrorKind),
    /// Its request and all others of its connection, with this kind.
    Connection(ErrorKind),
    /// Its connection, once its response is there.
    ConnectionAfterwards(ErrorKind),
}

/// A fault, before it is a row.
#[derive(Debug, Clone, Copy)]
struct Case {
    id: &'static str,
    what: &'static str,
    fault: &'static str,
    /// Further parameters of the request.
    recipe: &'static str,
    /// Bytes of the body of the request.
    upload_bytes: usize,
    window_bytes: u32,
    cost: Cost,
    has_tls: bool,
}

fn case(id: &'static str, what: &'static str, fault: &'static str, cost: Cost) -> Case {
    Case {
        id,
        what,
        fault,
        recipe: "size=100",
        upload_bytes: 0,
        window_bytes: 1 << 20,
        cost,
        has_tls: false,
    }
}

impl Case {
    fn recipe(self, recipe: &'static str) -> Self {
        Self { recipe, ..self }
    }

    fn upload(self, upload_bytes: usize, window_bytes: u32) -> Self {
        Self {
            upload_bytes,
            window_bytes,
            ..self
        }
    }

    /// In clear, and inside TLS.
    fn rows(self) -> [Row; 2] {
        let inside = Self {
            has_tls: true,
            ..self
        };
        [self.row(), over_tls(inside.row())]
    }

    fn row(self) -> Row {
        let expected = match self.cost {
            Cost::Nothing => "a response".to_owned(),
            Cost::Request(kind) => format!("{kind}, the connection lives"),
            Cost::Connection(kind) => format!("{kind}, for the whole connection"),
            Cost::ConnectionAfterwards(kind) => format!("a response, then {kind}"),
        };
        Row::new(self.id, self.what, expected, move || {
            let all = self.try_all();
            let some = self.try_some();
            RowOutcome::Held(format!("{all}; of some: {some}"))
        })
    }

    fn try_all(&self) -> String {
        let fault = format!("fault={}", self.fault);
        let (run, counts) = self.run(&fault, REQUESTS, "-m1");
        let story = format!("{}\n{counts:?}", run.story());
        match self.cost {
            Cost::Nothing => {
                assert_eq!(run.kinds(), [], "{story}");
                assert_eq!(
                    (run.answered(), counts.responses),
                    (REQUESTS, REQUESTS),
                    "{story}"
                );
            }
            Cost::Request(kind) | Cost::Connection(kind) => {
                let counted = (run.kinds(), run.sent(), run.answered(), run.failed());
                assert_eq!(counted, (vec![kind], REQUESTS, 0, REQUESTS), "{story}");
                assert_eq!(run.events(), REQUESTS, "events\n{story}");
                assert_eq!(run.output.code, Some(1), "{story}");
                let line = one_line(&run.output.stderr);
                let begin = format!("wrkbench: no request succeeded: {}", kind.describe());
                assert!(line.starts_with(&begin), "{line}");
            }
            Cost::ConnectionAfterwards(kind) => {
                assert_eq!(run.kinds(), [kind], "{story}");
                assert_eq!((run.answered(), run.failed()), (REQUESTS, 0), "{story}");
            }
        }
        run.errors()
    }

    fn try_some(&self) -> String {
        let mix = format!("mix=30%:{}", self.fault);
        let (run, counts) = self.run(&mix, REQUESTS_MIXED, "-m4");
        let story = format!("{}\n{counts:?}", run.story());
        assert_eq!(run.output.code, Some(0), "{story}");
        assert_eq!(run.sent(), REQUESTS_MIXED, "{story}");
        assert_eq!(run.answered() + run.failed(), REQUESTS_MIXED, "{story}");
        let (expected, or_else): (_, &[ErrorKind]) = match self.cost {
            Cost::Nothing => (None, &[]),
            // On a busy machine, new connections may run out of time too.
            Cost::Request(Timeout) => (Some(Timeout), &[ConnectTimeout]),
            // Without a byte of a response it may look like the end of an idle connection.
            Cost::Connection(ClosedEarly) => (Some(ClosedEarly), &[Stale]),
            // If the client sends meanwhile, that fails with the reset, and reading sees the end.
            Cost::Connection(Reset) => (Some(Reset), &[Stale, Truncated, ClosedEarly, BrokenPipe]),
            Cost::Request(kind) | Cost::Connection(kind) | Cost::ConnectionAfterwards(kind) => {
                (Some(kind), &[])
            }
        };
        let mut kinds = run.kinds();
        kinds.retain(|kind| !or_else.contains(kind));
        assert_eq!(kinds, Vec::from_iter(expected), "{story}");
        match self.cost {
            Cost::Nothing => assert_eq!(run.answered(), REQUESTS_MIXED, "{story}"),
            // A slow machine may let further requests run out of time.
            Cost::Request(Timeout) => {
                assert!(
                    run.failed() >= counts.requests - counts.responses,
                    "{story}"
                );
            }
            Cost::Request(_) => {
                // Some of the affected responses are complete, but not valid.
                let incomplete = counts.requests - counts.responses;
                assert_eq!(counts.requests, REQUESTS_MIXED, "{story}");
                assert_eq!(run.failed(), run.events(), "{story}");
                assert!(run.failed() >= incomplete && run.failed() > 0, "{story}");
                assert!(incomplete == 0 || run.failed() == incomplete, "{story}");
            }
            Cost::Connection(_) | Cost::ConnectionAfterwards(_) => {
                assert!(counts.requests <= REQUESTS_MIXED, "{story}");
            }
        }
        assert!(run.answered() > 0, "no connection recovered\n{story}");
        run.errors()
    }

    fn run(&self, fault: &str, requests: u64, streams: &str) -> (Finished, Counts) {
        let server = serve(self.window_bytes, self.has_tls, "");
        let runs_out = self.cost == Cost::Request(Timeout);
        let timeout_ms = if runs_out {
            SHORT_TIMEOUT_MS
        } else {
            TIMEOUT_MS
        };
        let mut arguments = arguments(&[streams, &format!("-n{requests}")]);
        arguments.push(format!("-T{timeout_ms}ms"));
        let folder = Folder::new();
        if self.upload_bytes > 0 {
            let body = folder.file_with("body", vec![b'x'; self.upload_bytes]);
            arguments.extend(["--body-file".to_owned(), body]);
        }
        let url = format!("{}?{}&{fault}", server.url(), self.recipe);
        let waits_ms = if runs_out { requests * timeout_ms } else { 0 };
        let allowed = Duration::from_millis(DURATION_MS + waits_ms);
        let run = client::run(&arguments, &url, allowed);
        (run, server.stop().counts)
    }
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

pub(crate) fn rows() -> Vec<Row> {
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
    rows.chain(without_connection())
        .chain(limited(false))
        .chain(limited(true).into_iter().map(over_tls))
        .chain([another_protocol_later()])
        .collect()
}

/// A row that repeats another one inside TLS.
fn over_tls(row: Row) -> Row {
    let mut row = row.slow();
    row.what.push_str(", https");
    row
}

fn settings() -> Vec<Case> {
    vec![
        case(
            "F56",
            "a flood of SETTINGS",
            "h2-settings-flood:1000",
            Cost::Nothing,
        ),
        case(
            "F56",
            "another limit of streams with each response",
            "h2-settings:streams=1",
            Cost::Nothing,
        )
        .recipe("mix=40%:h2-settings:streams=50"),
        case(
            "F56",
            "windows of 10 bytes while others are open, which makes these negative",
            "h2-settings:window=10",
            Cost::Nothing,
        )
        .recipe("mix=40%:h2-settings:window=70000")
        .upload(20_000, 65_535),
        case(
            "F56",
            "the largest frames",
            "h2-settings:frame=16777215",
            Cost::Nothing,
        )
        .upload(40_000, 1 << 20),
        case(
            "F56",
            "a maximum frame size of 100",
            "h2-settings:frame=100",
            Cost::Connection(BadHttp2),
        ),
        case(
            "F56",
            "a window of 2^31",
            "h2-settings:window=2147483648",
            Cost::Connection(FlowControl),
        ),
        case(
            "F56",
            "a table of 0 bytes",
            "h2-settings:table=0",
            Cost::Nothing,
        ),
    ]
}

fn goaway() -> Vec<Case> {
    let ends = |what, code, kind| case("F57", what, code, Cost::Connection(kind));
    vec![
        ends("GOAWAY with an error", "h2-goaway:internal_error", Goaway),
        ends(
            "GOAWAY that asks for calm",
            "h2-goaway:enhance_your_calm",
            Calm,
        ),
    ]
}

fn resets() -> Vec<Case> {
    let resets = |what, fault, kind| case("F58", what, fault, Cost::Request(kind));
    vec![
        resets("a refused stream", "h2-reset", StreamRefused),
        resets("RST_STREAM before the head", "h2-reset:cancel", StreamReset),
        resets("RST_STREAM that asks for calm", "h2-reset:11", Calm),
        resets(
            "RST_STREAM with an unknown code",
            "h2-reset:4711",
            StreamReset,
        ),
        resets(
            "RST_STREAM within the body",
            "h2-reset-after-head",
            StreamReset,
        ),
    ]
}

fn windows() -> Vec<Case> {
    vec![
        case("F59", "windows of 1,000 bytes", "split", Cost::Nothing).upload(20_000, 1_000),
        case(
            "F59",
            "a body without end",
            "endless-body",
            Cost::Request(Timeout),
        ),
    ]
}

fn blocks() -> Vec<Case> {
    let breaks = |what, fault, kind| case("F60", what, fault, Cost::Connection(kind));
    vec![
        breaks("CONTINUATION without end", "endless-head", BadHttp2),
        breaks("a head of 100 kB", "big-head", BadHttp2),
        breaks("an index beyond the tables", "h2-hpack", Compression),
        breaks(
            "a table larger than allowed",
            "h2-hpack:resize",
            Compression,
        ),
        case(
            "F60",
            "a table that shrinks and grows",
            "h2-hpack:shrink",
            Cost::Nothing,
        ),
        case(
            "F60",
            "a list of 40 MB in a short block",
            "h2-hpack:bomb",
            Cost::Request(HeaderTooLarge),
        ),
        case(
            "F60",
            "1,000 fields",
            "many-headers:1000",
            Cost::Request(HeaderTooLarge),
        ),
    ]
}

fn frames() -> Vec<Case> {
    let breaks = |what, fault| case("F61", what, fault, Cost::Connection(BadHttp2));
    let afterwards = |what, fault| case("F61", what, fault, Cost::ConnectionAfterwards(BadHttp2));
    vec![
        breaks(
            "a response on a stream that was not opened",
            "h2-wrong-stream",
        ),
        breaks("a response on an even stream", "h2-even-stream"),
        breaks("PUSH_PROMISE", "h2-push"),
        breaks("a frame longer than allowed", "h2-big-frame"),
        breaks("bytes that are no frame", "garbage"),
        afterwards("DATA on a closed stream", "surplus"),
        afterwards("two responses", "two-answers"),
        case("F62", "a flood of PING", "h2-ping-flood", Cost::Nothing),
        case("F62", "no answer to PING", "h2-no-pong", Cost::Nothing),
        case("F65", "frames split at every byte", "split", Cost::Nothing),
        case("F65", "content byte by byte", "drip", Cost::Nothing).recipe("size=9"),
    ]
}

fn messages() -> Vec<Case> {
    let malformed = |what, fault| case("F63", what, fault, Cost::Request(BadHttp2));
    vec![
        malformed("no :status", "h2-no-status"),
        malformed("an upper-case field name", "h2-uppercase"),
        malformed("a content-length that is too large", "bad-length:101"),
        malformed("a content-length that is no number", "bad-length"),
        malformed("two content-lengths", "dup-cl"),
        malformed("a field of HTTP/1.1", "transfer-encoding"),
        case("F63", "trailers", "early", Cost::Nothing).recipe("trailers&size=100"),
        case("F63", "interim responses", "early", Cost::Nothing).recipe("interim=3"),
    ]
}

/// Faults of the connection, as with HTTP/1.1.
fn connections() -> Vec<Case> {
    let breaks = |what, fault, kind| case("F5", what, fault, Cost::Connection(kind));
    vec![
        breaks("HTTP/2: RST within a body", "reset-mid-body", Reset),
        breaks("HTTP/2: FIN within a body", "truncate", Truncated),
        breaks("HTTP/2: FIN before a response", "fin-before", ClosedEarly),
        case("F15", "HTTP/2: silence", "hang", Cost::Request(Timeout)),
        case(
            "F15",
            "HTTP/2: silence after the head",
            "hang-after-head",
            Cost::Request(Timeout),
        ),
    ]
}

/// Servers with which no connection is ready for requests.
fn without_connection() -> Vec<Row> {
    let row = |id, what: &'static str, kind: ErrorKind, serve: fn() -> Server| {
        Row::told(id, what, kind.name(), move || {
            let server = serve();
            let arguments = arguments(&["-m4", "-T80ms", &format!("-d{DURATION_MS}ms")]);
            let run = client::run(
                &arguments,
                &server.url(),
                Duration::from_millis(DURATION_MS),
            );
            assert_eq!(run.kinds(), [kind], "{}", run.story());
            assert_eq!((run.sent(), run.answered()), (0, 0), "{}", run.story());
            assert_eq!(run.output.code, Some(1), "{}", run.story());
            let begin = format!("wrkbench: no request succeeded: {}", kind.describe());
            let line = one_line(&run.output.stderr);
            assert!(line.starts_with(&begin), "{line}");
        })
    };
    vec![
        row("F56", "no SETTINGS", ConnectTimeout, || {
            serve(65_535, false, "fault=h2-no-settings")
        }),
        row("F56", "no SETTINGS, https", ConnectTimeout, || {
            serve(65_535, true, "fault=h2-no-settings")
        }),
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
fn another_protocol_later() -> Row {
    /// Connections in the middle of the run that a server of HTTP/1.1 gets.
    const OTHERS: usize = 3;
    Row::told(
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

/// Limits that stop or slow down the load, without an error.
fn limited(has_tls: bool) -> Vec<Row> {
    let alpn = has_tls.then_some(BOTH);
    vec![
        Row::told(
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
                let counted = (run.kinds(), run.sent(), run.output.code);
                assert_eq!(counted, (vec![], 0, Some(1)), "{}", run.story());
                assert_eq!(run.result.recording.streams_limit, Some(0));
            },
        ),
        Row::told(
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
        Row::told("F56", "a window of 0", "timeout", move || {
            timed_out(0, has_tls, "");
        }),
        Row::told(
            "F59",
            "windows that are never refilled",
            "timeout",
            move || timed_out(65_535, has_tls, "?fault=h2-no-window-update"),
        ),
        Row::told(
            "F57",
            "GOAWAY after each response",
            "responses, then reconnects",
            move || {
                let server = serve(65_535, has_tls, "fault=h2-goaway");
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
        Row::told(
            "F57",
            "GOAWAY that leaves requests out",
            "goaway_unprocessed",
            move || {
                let server = serve(65_535, has_tls, "");
                let arguments = arguments(&["-m4", "-n80"]);
                let url = format!("{}?delay=1ms&mix=10%:h2-goaway-unprocessed", server.url());
                let run = client::run(&arguments, &url, Duration::from_millis(DURATION_MS));
                assert_eq!(run.kinds(), [GoawayUnprocessed], "{}", run.story());
                assert_eq!(run.answered() + run.failed(), 80, "{}", run.story());
                // None of the unprocessed requests was sent again.
                let counts = server.stop().counts;
                assert!(counts.requests <= 80, "{counts:?}");
                assert_eq!(
                    counts.responses,
                    run.answered(),
                    "{counts:?}\n{}",
                    run.story()
                );
            },
        ),
    ]
}

/// Requests whose bodies cannot be sent.
fn timed_out(window_bytes: u32, has_tls: bool, query: &str) {
    let server = serve(window_bytes, has_tls, "");
    let folder = Folder::new();
    let body = folder.file_with("body", vec![b'x'; 200_000]);
    let arguments = arguments(&["-m2", "-n8", "-T80ms", "--body-file", &body]);
    let url = format!("{}{query}", server.url());
    let run = client::run(&arguments, &url, Duration::from_millis(8 * 80));
    assert_eq!(run.kinds(), [Timeout], "{}", run.story());
    assert_eq!(
        (run.sent(), run.failed(), run.events()),
        (8, 8, 8),
        "{}",
        run.story()
    );
    assert_eq!(server.stop().counts.requests, 0);
}
