//! A session, a server, and the link between them, all on a virtual clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::datagrams;
use protocol::h3::error::ErrorCode;
use protocol::h3::{ALPN, ClientSettings, H3, H3Context};
use protocol::request::split;
use protocol::tls::{self, Options, Roots};
use protocol::{Event, ExchangeId, Failure, Requests, Response, Session, SessionError};
use quinn_proto::ConnectionError;

use crate::authority::{Authority, Certified};
use crate::server::{Server, Settings};

pub(crate) const GET: &str = "GET /a HTTP/1.1\r\nHost: test.example\r\n\r\n";

/// Time from one end to the other.
pub(crate) const DELAY_NS: u64 = 1_000_000;

/// Longer than a few round trips, and the delay of acknowledgements.
const WHILE_NS: u64 = 200_000_000;

/// More than any test takes. A timer that is not handled is due again and again.
const TURNS_MAX: u32 = 1_000_000;

/// What a call of the session gives.
type Called = Result<(), SessionError>;

/// A datagram on its way.
struct Flying {
    arrives_ns: u64,
    number: u64,
    to_server: bool,
    bytes: Vec<u8>,
}

/// What happens to datagrams.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Weather {
    pub(crate) lost_percent: u64,
    /// Further delay, up to this.
    pub(crate) jitter_ns: u64,
    pub(crate) doubled_percent: u64,
}

pub(crate) struct Peer {
    pub(crate) shared: H3Context,
    pub(crate) session: H3,
    pub(crate) server: Server,
    pub(crate) events: Vec<Event>,
    /// The error that has ended the session.
    pub(crate) error: Option<SessionError>,
    pub(crate) now_ns: u64,
    pub(crate) weather: Weather,
    /// Nothing arrives any more.
    pub(crate) is_cut: bool,
    /// Batches and datagrams of the client.
    pub(crate) batches: usize,
    pub(crate) sent: usize,
    base: Instant,
    flying: Vec<Flying>,
    numbered: u64,
    random: u64,
    next_exchange: u32,
}

/// A client that verifies nothing.
pub(crate) fn trusting() -> Arc<tls::ClientConfig> {
    let options = Options {
        alpn: &[ALPN],
        ..Options::default()
    };
    tls::config(&options).expect("the default is good")
}

/// A client that trusts this authority only.
pub(crate) fn verifying(authority: &Authority) -> Arc<tls::ClientConfig> {
    let pem = authority.pem();
    let options = Options {
        alpn: &[ALPN],
        roots: Some(Roots::Pem(pem.as_bytes())),
        ..Options::default()
    };
    tls::config(&options).expect("the authority is good")
}

pub(crate) fn client_settings(streams_max: u32) -> ClientSettings {
    ClientSettings {
        streams_max,
        idle_timeout_ms: 30_000,
        discovers_mtu: true,
        calls: false,
        capture: false,
        captured_body_bytes_max: 0,
    }
}

impl Peer {
    /// A connection that has begun.
    #[expect(
        clippy::disallowed_methods,
        reason = "any moment; from there on the time is simulated"
    )]
    pub(crate) fn begun(
        client: ClientSettings,
        tls: &Arc<tls::ClientConfig>,
        settings: Settings,
        certified: Certified,
    ) -> Self {
        let base = Instant::now();
        let name = tls::server_name("test.example").expect("it is one");
        let mut shared = H3Context::new(client, tls, name, base, 1).expect("the settings are good");
        let session = H3::new(&mut shared);
        let mut this = Self {
            shared,
            session,
            server: Server::new(settings, certified),
            events: Vec::new(),
            error: None,
            now_ns: 0,
            weather: Weather::default(),
            is_cut: false,
            batches: 0,
            sent: 0,
            base,
            flying: Vec::new(),
            numbered: 0,
            random: 1,
            next_exchange: 0,
        };
        let mut output = Vec::new();
        this.session
            .begin(&mut this.shared, &mut output)
            .expect("it begins");
        this.send(&output);
        this
    }

    pub(crate) fn with(client: ClientSettings, settings: Settings) -> Self {
        let certified = Authority::new("nobody").certify("test.example");
        Self::begun(client, &trusting(), settings, certified)
    }

    /// A connection that is ready for up to this many requests.
    pub(crate) fn ready(streams_max: u32) -> Self {
        Self::ready_with(client_settings(streams_max), Settings::default())
    }

    /// A connection that captures responses.
    pub(crate) fn capturing() -> Self {
        let client = ClientSettings {
            capture: true,
            captured_body_bytes_max: 1000,
            ..client_settings(4)
        };
        Self::ready_with(client, Settings::default())
    }

    pub(crate) fn ready_with(client: ClientSettings, settings: Settings) -> Self {
        let mut this = Self::with(client, settings);
        this.run();
        assert!(this.session.is_ready(), "{:?}", this.error);
        let events = std::mem::take(&mut this.events);
        assert!(matches!(events[..], [Event::Ready(_)]), "{events:?}");
        this
    }

    /// Starts an exchange with this request, and sends nothing yet.
    pub(crate) fn start(&mut self, text: &str) -> ExchangeId {
        let request = split(text.as_bytes()).next().expect("there is one");
        let prepared = H3::prepare(&mut self.shared, &request.expect("it is valid"));
        let exchange = ExchangeId(self.next_exchange);
        self.next_exchange += 1;
        let requests = Requests {
            text: b"",
            prepared: &[prepared],
        };
        let mut output = Vec::new();
        self.session
            .start(&mut self.shared, exchange, requests, &mut output)
            .expect("it can send");
        assert!(output.is_empty(), "it waits for `flush`");
        exchange
    }

    /// Sends this request, and lets the server have it.
    pub(crate) fn request(&mut self, text: &str) -> ExchangeId {
        let exchange = self.start(text);
        self.run();
        exchange
    }

    /// Lets time pass.
    pub(crate) fn run(&mut self) {
        self.run_for(WHILE_NS);
    }

    /// Lets this time pass, with all that happens in it.
    pub(crate) fn run_for(&mut self, span_ns: u64) {
        let end_ns = self.now_ns + span_ns;
        for turn in 0.. {
            assert!(turn < TURNS_MAX, "something is always due");
            self.flush();
            let Some(at_ns) = self.next_ns().filter(|at_ns| *at_ns <= end_ns) else {
                break;
            };
            self.now_ns = self.now_ns.max(at_ns);
            self.step();
        }
        self.now_ns = end_ns;
        H3::at(&mut self.shared, end_ns);
    }

    /// The moment from which the time counts.
    pub(crate) fn base(&self) -> Instant {
        self.base
    }

    fn now(&self) -> Instant {
        self.base + Duration::from_nanos(self.now_ns)
    }

    /// When something happens next.
    fn next_ns(&mut self) -> Option<u64> {
        let base = self.base;
        let client = self
            .session
            .next_timeout_ns()
            .filter(|_| self.error.is_none());
        let server = self.server.next_timeout();
        let server = server.map(|at| (at - base).as_nanos() as u64);
        let flying = self.flying.iter().map(|flying| flying.arrives_ns).min();
        [client, server, flying].into_iter().flatten().min()
    }

    /// Both ends send what they have.
    fn flush(&mut self) {
        H3::at(&mut self.shared, self.now_ns);
        if self.error.is_none() {
            let mut output = Vec::new();
            let flushed = self.session.flush(&mut self.shared, &mut output);
            assert_eq!(flushed, Ok(()));
            self.send(&output);
        }
        let (now, mut replies) = (self.now(), Vec::new());
        self.server.datagrams(now, &mut replies);
        self.fly(replies, false);
    }

    /// What is due now happens.
    fn step(&mut self) {
        let now_ns = self.now_ns;
        let is_due = |flying: &Flying| flying.arrives_ns <= now_ns;
        let (mut due, rest) = std::mem::take(&mut self.flying)
            .into_iter()
            .partition::<Vec<_>, _>(is_due);
        self.flying = rest;
        due.sort_by_key(|flying| (flying.arrives_ns, flying.number));
        H3::at(&mut self.shared, now_ns);
        for flying in due {
            if flying.to_server {
                let (now, mut replies) = (self.now(), Vec::new());
                self.server.receive(now, &flying.bytes, &mut replies);
                self.fly(replies, false);
            } else {
                self.call(|session, shared, output, events| {
                    session.receive(shared, &flying.bytes, output, events)
                });
            }
        }
        if self
            .session
            .next_timeout_ns()
            .is_some_and(|at_ns| at_ns <= now_ns)
        {
            self.call(|session, shared, output, events| {
                session.handle_timeout(shared, now_ns, output, events)
            });
        }
        let now = self.now();
        if self.server.next_timeout().is_some_and(|at| at <= now) {
            self.server.handle_timeout(now);
        }
    }

    /// Calls the session, unless it has failed.
    pub(crate) fn call(
        &mut self,
        call: impl FnOnce(&mut H3, &mut H3Context, &mut Vec<u8>, &mut Vec<Event>) -> Called,
    ) {
        if self.error.is_some() {
            return;
        }
        let mut output = Vec::new();
        let result = call(
            &mut self.session,
            &mut self.shared,
            &mut output,
            &mut self.events,
        );
        self.error = result.err();
        self.send(&output);
    }

    /// Sends the output of the session.
    pub(crate) fn send(&mut self, output: &[u8]) {
        let mut datagrams = Vec::new();
        for batch in datagrams::batches(output) {
            self.batches += 1;
            datagrams.extend(batch.datagrams().map(<[u8]>::to_vec));
        }
        self.sent += datagrams.len();
        self.fly(datagrams, true);
    }

    fn fly(&mut self, datagrams: Vec<Vec<u8>>, to_server: bool) {
        for bytes in datagrams {
            let is_doubled = self.chance() < self.weather.doubled_percent;
            let copies = if is_doubled { 2 } else { 1 };
            for _ in 0..copies {
                if self.is_cut || self.chance() < self.weather.lost_percent {
                    continue;
                }
                let jitter_ns = match self.weather.jitter_ns {
                    0 => 0,
                    jitter_ns => self.random() % jitter_ns,
                };
                self.numbered += 1;
                self.flying.push(Flying {
                    arrives_ns: self.now_ns + DELAY_NS + jitter_ns,
                    number: self.numbered,
                    to_server,
                    bytes: bytes.clone(),
                });
            }
        }
    }

    fn chance(&mut self) -> u64 {
        self.random() % 100
    }

    fn random(&mut self) -> u64 {
        // Multiplier of Knuth's MMIX.
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        self.random >> 33
    }

    /// The server sends these bytes on the stream of a request, and time passes.
    pub(crate) fn respond(&mut self, index: u64, bytes: &[u8], ends: bool) {
        self.server.send(crate::server::bidi(index), bytes, ends);
        self.run();
    }

    pub(crate) fn close_server(&mut self, code: u64, reason: &'static [u8]) {
        let now = self.now();
        self.server.close(now, code, reason);
        self.run();
    }

    /// The responses that were reported, which are all that was.
    pub(crate) fn finished(&mut self) -> Vec<(ExchangeId, Response)> {
        let events = std::mem::take(&mut self.events).into_iter();
        let finished = events.filter_map(|event| match event {
            Event::Finished(exchange, response) => Some((exchange, response)),
            Event::Began(_) => None,
            other => panic!("{other:?}"),
        });
        finished.collect()
    }

    /// The failures that were reported, which are all that was.
    pub(crate) fn failed(&mut self) -> Vec<(ExchangeId, Failure)> {
        let events = std::mem::take(&mut self.events).into_iter();
        let failed = events.filter_map(|event| match event {
            Event::Failed(exchange, failure) => Some((exchange, *failure)),
            Event::Began(_) => None,
            other => panic!("{other:?}"),
        });
        failed.collect()
    }

    /// The code with which the client has closed the connection.
    pub(crate) fn close_code(&self) -> Option<ErrorCode> {
        match &self.server.lost {
            Some(ConnectionError::ApplicationClosed(close)) => {
                Some(ErrorCode(close.error_code.into_inner()))
            }
            _ => None,
        }
    }
}
