//! HTTP/3, with the client's session of this project.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use origin::{Greeting, Http2Settings, Http3Settings, Identity, Options, Server, TlsSettings};
use protocol::h3::error::{ErrorCode, TransportCode};
use protocol::h3::{ALPN, ClientSettings, DATAGRAM_BYTES_MAX, H3, H3Context};
use protocol::request::split;
use protocol::tls::{self, Options as TlsOptions};
use protocol::{Captured, Event, ExchangeId, Requests, Session, SessionError, datagrams};

use crate::client::{Client as TcpClient, on_each_backend, tcp_address};

/// Bounds every wait, so that a hanging test fails instead.
const WAIT_MAX: Duration = Duration::from_secs(20);

struct Client {
    socket: UdpSocket,
    shared: H3Context,
    session: H3,
    base: Instant,
    events: Vec<Event>,
    /// The error that has ended the session.
    error: Option<SessionError>,
    started: u32,
}

/// What a call of the session gives.
type Called = Result<(), SessionError>;

/// A response or the error of its exchange, with the number of the exchange.
type Outcome = (u32, Result<Captured, SessionError>);

impl Client {
    /// A connection whose handshake was begun.
    fn begin(server: &Server) -> Self {
        let options = TlsOptions {
            alpn: &[ALPN],
            ..TlsOptions::default()
        };
        let settings = ClientSettings {
            streams_max: 100,
            idle_timeout_ms: 30_000,
            discovers_mtu: true,
            calls: false,
            capture: true,
            captured_body_bytes_max: 1 << 24,
        };
        let name = tls::server_name("localhost").unwrap();
        let config = tls::config(&options).unwrap();
        let base = now();
        // Connections of one server must have different IDs.
        static SEEDS: AtomicU64 = AtomicU64::new(0);
        let seed = SEEDS.fetch_add(1, Ordering::Relaxed);
        let mut shared = H3Context::new(settings, &config, name, base, seed).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(tcp_address(server)).unwrap();
        let mut this = Self {
            session: H3::new(&mut shared),
            socket,
            shared,
            base,
            events: Vec::new(),
            error: None,
            started: 0,
        };
        this.call(|session, shared, output, _| session.begin(shared, output));
        this
    }

    fn connect(server: &Server) -> Self {
        let mut this = Self::begin(server);
        this.until(|it| it.session.is_ready() && it.session.capacity() > 0);
        this
    }

    /// Lets the session act, and sends what it has to send.
    fn call(
        &mut self,
        act: impl FnOnce(&mut H3, &mut H3Context, &mut Vec<u8>, &mut Vec<Event>) -> Called,
    ) {
        if self.error.is_some() {
            return;
        }
        H3::at(&mut self.shared, (now() - self.base).as_nanos() as u64);
        let mut output = Vec::new();
        let acted = act(
            &mut self.session,
            &mut self.shared,
            &mut output,
            &mut self.events,
        );
        let flushed = self.session.flush(&mut self.shared, &mut output);
        self.error = acted.and(flushed).err();
        for datagram in datagrams::batches(&output).flat_map(datagrams::Batch::datagrams) {
            self.socket.send(datagram).unwrap();
        }
    }

    fn ask(&mut self, text: &str) {
        let request = split(text.as_bytes()).next().unwrap().unwrap();
        let prepared = H3::prepare(&mut self.shared, &request);
        let exchange = ExchangeId(self.started);
        self.started += 1;
        self.call(|session, shared, output, _| {
            let requests = Requests {
                text: b"",
                prepared: &[prepared],
            };
            session.start(shared, exchange, requests, output)
        });
    }

    fn get(&mut self, target: &str) {
        self.ask(&format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    }

    fn until(&mut self, holds: impl Fn(&Self) -> bool) {
        let give_up = now() + WAIT_MAX;
        while !holds(self) {
            assert!(now() < give_up, "waits: {:?} {:?}", self.events, self.error);
            assert!(self.error.is_none(), "{:?}", self.error);
            self.turn();
        }
    }

    /// Waits for a datagram or a deadline.
    fn turn(&mut self) {
        let now_ns = (now() - self.base).as_nanos() as u64;
        let until_ns = self.session.next_timeout_ns().unwrap_or(u64::MAX);
        let left = Duration::from_nanos(until_ns.saturating_sub(now_ns)).min(WAIT_MAX);
        let timeout = left.max(Duration::from_micros(1));
        self.socket.set_read_timeout(Some(timeout)).unwrap();
        let mut buffer = [0; DATAGRAM_BYTES_MAX as usize];
        match self.socket.recv(&mut buffer) {
            Ok(length) => self.call(|session, shared, output, events| {
                session.receive(shared, &buffer[..length], output, events)
            }),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let base = self.base;
                self.call(|session, shared, output, events| {
                    let now_ns = (now() - base).as_nanos() as u64;
                    session.handle_timeout(shared, now_ns, output, events)
                });
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// The outcomes of this many exchanges, in the order in which they came.
    fn outcomes(&mut self, count: usize) -> Vec<Outcome> {
        let is_outcome = |event: &&Event| matches!(event, Event::Finished(..) | Event::Failed(..));
        self.until(|it| it.events.iter().filter(is_outcome).count() >= count);
        let events = std::mem::take(&mut self.events).into_iter();
        let outcomes = events.filter_map(|event| match event {
            Event::Finished(exchange, response) => Some((exchange.0, Ok(*response.captured?))),
            Event::Failed(exchange, failure) => Some((exchange.0, Err(failure.error))),
            _ => None,
        });
        outcomes.collect()
    }

    /// The response to one request.
    fn response(&mut self, target: &str) -> Captured {
        self.get(target);
        self.outcomes(1).remove(0).1.unwrap()
    }

    /// How the session ends.
    fn until_end(&mut self) -> Option<SessionError> {
        let give_up = now() + WAIT_MAX;
        while self.error.is_none() && !self.session.has_ended() {
            assert!(now() < give_up, "it goes on: {:?}", self.events);
            self.turn();
        }
        self.error.clone()
    }
}

#[expect(clippy::disallowed_methods, reason = "a test on real sockets")]
fn now() -> Instant {
    Instant::now()
}

fn options() -> Options {
    let identity = Identity::self_signed(&["localhost"]).unwrap();
    Options {
        tls: Some(TlsSettings::new(identity).config().unwrap()),
        http3: Some(Http3Settings::default()),
        log_requests: 100,
        ..Options::default()
    }
}

fn options_with(defaults: &str) -> Options {
    options().with_defaults(defaults).unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn header<'a>(response: &'a Captured, name: &str) -> Option<&'a str> {
    let mut fields = response.headers.iter();
    let found = fields.find(|(found, _)| *found == name.as_bytes());
    found.map(|(_, value)| text(value))
}

#[test]
fn streams_are_answered_when_they_are_due_and_the_log_has_their_bytes() {
    on_each_backend(&options_with("size=3"), |server| {
        let mut client = Client::connect(&server);
        client.get("/?delay=40ms");
        client.get("/?size=0");
        client.get("/?tail=10ms");
        let outcomes = client.outcomes(3);
        let order: Vec<_> = outcomes.iter().map(|(exchange, _)| *exchange).collect();
        assert_eq!(order, [1, 2, 0]);
        for ((_, response), body) in outcomes.into_iter().zip(["", "abc", "abc"]) {
            let response = response.unwrap();
            assert_eq!((response.status, text(&response.body)), (200, body));
        }
        let report = server.stop();
        let counts = report.counts;
        assert_eq!((counts.requests, counts.responses), (3, 3));
        assert_eq!(counts.connections, 1);
        assert!(counts.bytes_in > 0);
        let logged: u64 = report.requests.iter().map(|request| request.bytes).sum();
        assert_eq!(logged, counts.bytes_out);
        assert!(report.sojourns_ns()[0] >= 40_000_000);
    });
}

#[test]
fn recipes_mean_what_they_mean_over_http1() {
    on_each_backend(&options(), |server| {
        let mut client = Client::connect(&server);
        for (target, status, body) in [
            ("/?size=2&trailers", 200, "ab"),
            ("/?size=5&chunked=2", 200, "abcde"),
            ("/?status=404&size=1", 404, "a"),
            ("/?status=204", 204, ""),
            ("/?interim=2&size=1", 200, "a"),
        ] {
            let response = client.response(target);
            assert_eq!(response.status, status, "{target}");
            assert_eq!(text(&response.body), body, "{target}");
            assert!(header(&response, "content-type").is_some(), "{target}");
        }
        let trailers = client.response("/?size=2&trailers");
        assert!(trailers.headers.iter().count() > 3);
        let with_header = client.response("/?header=x-test:1");
        assert_eq!(header(&with_header, "x-test"), Some("1"));
    });
}

#[test]
fn a_bad_parameter_is_answered_and_ends_the_connection() {
    on_each_backend(&options(), |server| {
        let mut client = Client::connect(&server);
        let response = client.response("/?size=x");
        assert_eq!(response.status, 400);
        assert!(text(&response.body).starts_with("size: `x`"));
        assert_eq!(client.until_end(), None);
        let mut client = Client::connect(&server);
        let response = client.response("/?http10");
        assert_eq!(text(&response.body), "http10: only HTTP/1 has it\n");
    });
}

#[test]
fn a_large_response_arrives_whole_beside_small_ones() {
    const BYTES: usize = 12_000_000;
    on_each_backend(&options(), |server| {
        let mut client = Client::connect(&server);
        client.get(&format!("/?size={BYTES}"));
        for _ in 0..20 {
            client.get("/?size=5");
        }
        let outcomes = client.outcomes(21);
        let (last, response) = &outcomes[20];
        assert_eq!(*last, 0, "it does not keep the others waiting");
        let body = &response.as_ref().unwrap().body;
        assert_eq!(body.len(), BYTES);
        let over_tcp = TcpClient::get(&plain(), &format!("/?size={BYTES}"));
        assert!(over_tcp.body == *body, "the same text");
    });
}

/// A server without TLS.
fn plain() -> Server {
    Server::start(Options::default()).unwrap()
}

#[test]
fn the_body_of_a_request_is_echoed_through_small_windows() {
    let options = Options {
        http2: Some(Http2Settings {
            streams_max: 2,
            window_bytes: 4_000,
        }),
        record_requests: 1,
        ..options_with("echo")
    };
    on_each_backend(&options, |server| {
        let mut client = Client::connect(&server);
        let body = "0123456789".repeat(50_000);
        client.ask(&format!(
            "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        let response = client.outcomes(1).remove(0).1.unwrap();
        assert!(text(&response.body) == body);
        assert!(client.session.capacity() <= 2);
        let report = server.stop();
        assert!(report.counts.bytes_in > body.len() as u64);
        let recorded = text(&report.recorded[0]);
        assert!(recorded.starts_with(":method: POST\r\n"), "{recorded:.80}");
        assert!(recorded.ends_with(&body));
    });
}

#[test]
fn generations_are_the_same_as_over_http1() {
    let target = "/?llm=openai&tokens=20&first=1ms&gap=1ms";
    on_each_backend(&options(), |server| {
        let response = Client::connect(&server).response(target);
        let over_tcp = TcpClient::get(&plain(), target);
        assert_eq!(response.status, 200);
        assert_eq!(text(&response.body), text(&over_tcp.body));
        assert_eq!(server.stop().counts.tokens_sent, 20);
    });
}

#[test]
fn after_the_last_request_the_connection_ends_in_order() {
    let options = Options {
        keepalive_requests: Some(3),
        ..options_with("size=100k")
    };
    on_each_backend(&options, |server| {
        let mut client = Client::connect(&server);
        for _ in 0..3 {
            client.get("/");
        }
        for (exchange, response) in client.outcomes(3) {
            assert_eq!(response.unwrap().body.len(), 100_000, "{exchange}");
        }
        assert_eq!(client.session.capacity(), 0, "GOAWAY has arrived");
        assert_eq!(client.until_end(), None);
        assert_eq!(server.stop().counts.responses, 3);
    });
}

#[test]
fn faults_are_what_they_are_called() {
    on_each_backend(&options_with("size=10"), |server| {
        for whole in ["fault=split", "fault=drip", "close"] {
            let response = Client::connect(&server).response(&format!("/?{whole}"));
            assert_eq!(text(&response.body), "abcdefghij", "{whole}");
        }
        for (fault, code) in [
            ("reset", Some(ErrorCode::INTERNAL_ERROR)),
            ("reset-mid-body", Some(ErrorCode::INTERNAL_ERROR)),
            ("fin-before", None),
            ("truncate", None),
        ] {
            let mut client = Client::connect(&server);
            client.get(&format!("/?fault={fault}"));
            let found = match client.until_end() {
                Some(SessionError::Http3Closed(closed)) => Some(closed.code),
                None => None,
                other => panic!("{fault}: {other:?}"),
            };
            assert_eq!(found, code, "{fault}");
            let finished = |event: &Event| matches!(event, Event::Finished(..));
            assert!(!client.events.iter().any(finished), "{fault}");
        }
        let mut client = Client::connect(&server);
        client.get("/?fault=hang-mid-body");
        let response = client.response("/?size=4");
        assert_eq!(text(&response.body), "abcd", "other streams go on");
    });
}

#[test]
fn a_complete_response_arrives_before_the_connection_is_reset() {
    on_each_backend(&options(), |server| {
        let mut client = Client::connect(&server);
        client.get("/?size=300k&fault=reset-after-answer");
        let response = client.outcomes(1).remove(0).1.unwrap();
        assert_eq!(response.body.len(), 300_000);
        let end = client.until_end();
        assert!(matches!(end, Some(SessionError::Http3Closed(_))), "{end:?}");
    });
}

#[test]
fn greetings_refuse_a_connection_or_do_not_answer() {
    for greeting in ["reset", "fin"] {
        let options = Options {
            greeting: origin::parse_greeting(greeting).unwrap(),
            ..options()
        };
        on_each_backend(&options, |server| {
            let end = Client::begin(&server).until_end();
            let refused = matches!(&end, Some(SessionError::QuicClosed(closed))
                if closed.code == TransportCode::CONNECTION_REFUSED);
            assert!(refused, "{end:?}");
        });
    }
    let options = Options {
        http3: Some(Http3Settings {
            has_retry: true,
            ..Http3Settings::default()
        }),
        greeting: Greeting::Serve,
        ..options()
    };
    on_each_backend(&options, |server| {
        let mut client = Client::connect(&server);
        assert_eq!(client.response("/?size=2").status, 200);
    });
}

#[test]
fn many_connections_are_served_by_several_threads() {
    let options = Options {
        threads: 2,
        ..options_with("size=2")
    };
    on_each_backend(&options, |server| {
        let mut clients: Vec<_> = (0..20).map(|_| Client::connect(&server)).collect();
        for client in &mut clients {
            for _ in 0..10 {
                client.get("/");
            }
        }
        for client in &mut clients {
            assert_eq!(client.outcomes(10).len(), 10);
        }
        let counts = server.stop().counts;
        assert_eq!((counts.requests, counts.responses), (200, 200));
    });
}

#[test]
fn a_client_that_resets_its_requests_leaves_the_connection_usable() {
    on_each_backend(&options(), |server| {
        let mut client = Client::connect(&server);
        client.get("/?delay=1h");
        client.get("/?size=10M");
        for exchange in [0, 1] {
            client.call(|session, shared, output, _| {
                let cancelled = session.cancel(shared, ExchangeId(exchange), output);
                cancelled.map(|is_found| assert!(is_found))
            });
        }
        assert_eq!(client.response("/?size=3").body, b"abc");
    });
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let without_tls = Options {
        tls: None,
        ..options()
    };
    let delayed = Options {
        accept_delay_ns: 1,
        ..options()
    };
    let everywhere = Options {
        listen: origin::parse_listen("0.0.0.0:0").unwrap(),
        ..options()
    };
    let unix = Options {
        listen: origin::parse_listen("unix:/nowhere").unwrap(),
        ..options()
    };
    for options in [without_tls, delayed, everywhere, unix] {
        assert!(options.check().is_err());
    }
    let identity = Identity::self_signed(&["localhost"]).unwrap();
    let only_12 = TlsSettings {
        versions: origin::TlsVersions::Only12,
        ..TlsSettings::new(identity)
    };
    let old = Options {
        tls: Some(only_12.config().unwrap()),
        ..options()
    };
    let error = Server::start(old).unwrap_err().to_string();
    assert!(error.starts_with("HTTP/3: "), "{error}");
}

#[test]
fn a_port_in_use_for_udp_is_named() {
    // Over TCP, the port may be that of another test.
    let mut refusals = (0..20).map(|_| {
        let busy = UdpSocket::bind("127.0.0.1:0").unwrap();
        let options = Options {
            listen: origin::Address::Tcp(busy.local_addr().unwrap()),
            ..options()
        };
        Server::start(options).unwrap_err().to_string()
    });
    assert!(refusals.any(|error| error.contains("(UDP)")));
}
