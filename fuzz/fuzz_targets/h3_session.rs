//! The client's session of HTTP/3, with any bytes from the server on any stream, streams that it
//! resets or stops, and exchanges that are started and cancelled in between.
//!
//! Whatever the server sends, an exchange ends at most once, the capacity fits the exchanges in
//! flight, and the events do not depend on how the bytes are cut.

#![no_main]

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;
use protocol::h3::frame;
use protocol::h3::{ClientSettings, H3, H3Context};
use protocol::request::split;
use protocol::{Event, ExchangeId, Requests, Session, SessionError, datagrams, tls};
use quinn_proto::{Dir, Side, StreamId, VarInt};

#[path = "../quic.rs"]
#[allow(dead_code, reason = "the target of the server needs the rest")]
mod quic;

use quic::{CLIENT_TLS, End};

/// What a call of the session gives.
type Called = Result<(), SessionError>;

/// Small, so that inputs reach it.
const STREAMS_MAX: u32 = 4;

/// Rounds in which nothing was sent, after which nothing will be: an acknowledgement may come 25 ms
/// late (RFC 9000 section 18.2).
const QUIET_ROUNDS: u32 = 30;

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const HEAD: &str = "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n";
static POST: LazyLock<String> = LazyLock::new(|| {
    let body = "x".repeat(3_000);
    format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3000\r\n\r\n{body}")
});

/// What happens to the session. The numbers select a request, an exchange or a stream.
#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    /// An exchange is started, if there is capacity.
    Start(u8),
    /// One of the exchanges in flight is cancelled.
    Cancel(u8),
    /// The server sends bytes on the stream of a request, and possibly ends it.
    Respond(u8, &'a [u8], bool),
    /// The server sends bytes on a new unidirectional stream.
    Open(&'a [u8], bool),
    /// The server sends bytes on one that it has opened.
    Continue(u8, &'a [u8]),
    Reset(u8),
    Stop(u8),
}

fuzz_target!(|data: &[u8]| {
    let Some((&options, data)) = data.split_first() else {
        return;
    };
    let steps = steps(data);
    let whole = run(options, &steps, usize::MAX);
    let pieces = run(options, &steps, 5);
    assert_eq!(whole.events, pieces.events);
    assert_eq!(whole.error, pieces.error);
});

/// Each step begins with a byte: the kind in the lowest three bits, the rest is its number. Bytes
/// of the server have their length in a second byte.
fn steps(mut data: &[u8]) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    while let Some((&first, rest)) = data.split_first() {
        data = rest;
        let number = first >> 3;
        let mut bytes = || {
            let (&length, rest) = data.split_first()?;
            let (bytes, rest) = rest.split_at(rest.len().min(usize::from(length)));
            data = rest;
            Some(bytes)
        };
        steps.push(match first & 7 {
            0 => Step::Start(number),
            1 => Step::Cancel(number),
            2 => Step::Reset(number),
            3 => Step::Stop(number),
            kind => {
                let Some(bytes) = bytes() else {
                    break;
                };
                match kind {
                    4 => Step::Respond(number, bytes, false),
                    5 => Step::Respond(number, bytes, true),
                    6 => Step::Open(bytes, number & 1 != 0),
                    _ => Step::Continue(number, bytes),
                }
            }
        });
    }
    steps
}

/// What the owner of a session has seen.
#[derive(Debug, Default)]
struct Seen {
    /// Without `Began`, which depends on the pieces.
    events: Vec<Event>,
    error: Option<SessionError>,
}

fn run(options: u8, steps: &[Step<'_>], piece_bytes: usize) -> Seen {
    let mut client = Client::new(options);
    if options & 2 == 0 {
        let mut settings = vec![0];
        frame::append_settings(&[], &mut settings);
        client.open(&settings, false, usize::MAX);
    }
    for step in steps {
        match *step {
            Step::Start(number) => client.start(number),
            Step::Cancel(number) => client.cancel(number),
            Step::Respond(number, bytes, ends) => {
                if let Some(id) = client.request(number) {
                    client.send(id, bytes, ends, piece_bytes);
                }
            }
            Step::Open(bytes, ends) => client.open(bytes, ends, piece_bytes),
            Step::Continue(number, bytes) => {
                let index = u64::from(number % 8);
                let id = StreamId::new(Side::Server, Dir::Uni, index);
                client.send(id, bytes, false, piece_bytes);
            }
            Step::Reset(number) => {
                if let Some(id) = client.request(number) {
                    client.server.end(id, Some(number));
                }
            }
            Step::Stop(number) => client.stop(number),
        }
        client.run();
        if client.seen.error.is_some() {
            break;
        }
    }
    client.end();
    client.seen
}

/// A session with its owner, and the server.
struct Client {
    session: H3,
    shared: H3Context,
    server: End,
    seen: Seen,
    in_flight: BTreeSet<u32>,
    next: u32,
    opened: u64,
    is_ready: bool,
    is_draining: bool,
    base: Instant,
    now_ns: u64,
}

impl Client {
    /// A connection whose handshake is complete.
    fn new(options: u8) -> Self {
        let settings = ClientSettings {
            streams_max: STREAMS_MAX,
            idle_timeout_ms: 30_000,
            discovers_mtu: false,
            calls: false,
            capture: options & 1 != 0,
            captured_body_bytes_max: 100,
        };
        let base = Instant::now();
        let name = tls::server_name("localhost").expect("it is one");
        let shared = H3Context::new(settings, &CLIENT_TLS, name, base, 1);
        let mut shared = shared.expect("the settings are good");
        let mut this = Self {
            session: H3::new(&mut shared),
            shared,
            server: End::server(),
            seen: Seen::default(),
            in_flight: BTreeSet::new(),
            next: 0,
            opened: 0,
            is_ready: false,
            is_draining: false,
            base,
            now_ns: 0,
        };
        let begun = this.call(|session, shared, output, _| session.begin(shared, output));
        assert!(begun);
        this.run();
        assert!(this.is_ready && this.server.is_connected());
        this
    }

    /// The stream of a request that has begun. The library panics if another one is reset.
    fn request(&self, number: u8) -> Option<StreamId> {
        let index = u64::from(number).checked_rem(u64::from(self.next))?;
        Some(StreamId::new(Side::Client, Dir::Bi, index))
    }

    fn start(&mut self, number: u8) {
        if self.session.capacity() == 0 {
            return;
        }
        let text = match number % 4 {
            0 => POST.as_str(),
            1 => HEAD,
            _ => GET,
        };
        let request = split(text.as_bytes()).next().expect("there is one");
        let prepared = H3::prepare(&mut self.shared, &request.expect("it is valid"));
        let exchange = ExchangeId(self.next);
        self.next += 1;
        self.in_flight.insert(exchange.0);
        let started = self.call(|session, shared, output, _| {
            let requests = Requests {
                text: b"",
                prepared: &[prepared],
            };
            session.start(shared, exchange, requests, output)
        });
        assert!(started, "there is room");
    }

    fn cancel(&mut self, number: u8) {
        let chosen = usize::from(number) % STREAMS_MAX as usize;
        let Some(exchange) = self.in_flight.iter().nth(chosen).copied() else {
            return;
        };
        self.in_flight.remove(&exchange);
        self.call(|session, shared, output, _| {
            let cancelled = session.cancel(shared, ExchangeId(exchange), output)?;
            assert!(cancelled);
            Ok(())
        });
    }

    fn stop(&mut self, number: u8) {
        if let Some(id) = self.request(number)
            && let Some(quic) = &mut self.server.quic
        {
            // It may have ended.
            let _ = quic.recv_stream(id).stop(VarInt::from_u32(number.into()));
        }
    }

    fn open(&mut self, bytes: &[u8], ends: bool, piece_bytes: usize) {
        let quic = self.server.quic.as_mut().expect("it is connected");
        if let Some(id) = quic.streams().open(Dir::Uni) {
            self.opened += 1;
            self.send(id, bytes, ends, piece_bytes);
        }
    }

    /// The server sends these bytes in pieces.
    fn send(&mut self, id: StreamId, bytes: &[u8], ends: bool, piece_bytes: usize) {
        if id.initiator() == Side::Server && id.index() >= self.opened {
            return;
        }
        for piece in bytes.chunks(bytes.len().max(1).min(piece_bytes)) {
            // What the session has stopped is not written, and little else is sent.
            self.server.write(id, piece);
            self.run();
        }
        if ends {
            self.server.end(id, None);
            self.run();
        }
    }

    /// Lets all happen that does.
    fn run(&mut self) {
        let mut quiet = 0;
        while quiet < QUIET_ROUNDS {
            quiet = if self.round() { 0 } else { quiet + 1 };
        }
    }

    /// Returns whether the server has sent something.
    fn round(&mut self) -> bool {
        self.now_ns += 1_000_000;
        let now_ns = self.now_ns;
        self.call(|session, shared, output, events| {
            if session.next_timeout_ns().is_some_and(|at| at <= now_ns) {
                session.handle_timeout(shared, now_ns, output, events)?;
            }
            Ok(())
        });
        let now = self.now();
        let datagrams = self.server.give(now);
        for datagram in &datagrams {
            self.call(|session, shared, output, events| {
                session.receive(shared, datagram, output, events)
            });
        }
        !datagrams.is_empty()
    }

    fn now(&self) -> Instant {
        self.base + Duration::from_nanos(self.now_ns)
    }

    /// Calls the session, and sends what it has to send. Returns whether it has succeeded.
    fn call(
        &mut self,
        call: impl FnOnce(&mut H3, &mut H3Context, &mut Vec<u8>, &mut Vec<Event>) -> Called,
    ) -> bool {
        if self.seen.error.is_some() {
            return false;
        }
        H3::at(&mut self.shared, self.now_ns);
        let (mut output, mut events) = (Vec::new(), Vec::new());
        let called = call(
            &mut self.session,
            &mut self.shared,
            &mut output,
            &mut events,
        );
        let called = called.and_then(|()| self.session.flush(&mut self.shared, &mut output));
        self.take(events);
        self.seen.error = called.err();
        let now = self.now();
        for datagram in datagrams::batches(&output).flat_map(datagrams::Batch::datagrams) {
            self.server.take(now, datagram);
        }
        let in_flight = self.in_flight.len() as u32;
        let capacity = self.session.capacity();
        assert!(in_flight + capacity <= STREAMS_MAX);
        assert!(capacity == 0 || self.is_ready && !self.is_draining);
        self.seen.error.is_none()
    }

    fn end(&mut self) {
        if self.seen.error.is_none() {
            let mut events = Vec::new();
            self.seen.error = self.session.end(&mut self.shared, &mut events).err();
            self.take(events);
        }
        self.session.close(&mut self.shared, &mut Vec::new());
    }

    fn take(&mut self, events: Vec<Event>) {
        for mut event in events {
            match &mut event {
                Event::Finished(ExchangeId(exchange), response) => {
                    assert!(self.in_flight.remove(exchange), "it ends once");
                    assert!((200..=999).contains(&response.status));
                }
                Event::Failed(ExchangeId(exchange), failure) => {
                    assert!(self.in_flight.remove(exchange), "it ends once");
                    // What had arrived depends on the pieces.
                    (failure.bytes, failure.captured) = (0, None);
                }
                Event::Began(ExchangeId(exchange)) => {
                    assert!(self.in_flight.contains(exchange), "it has not ended");
                    continue;
                }
                Event::Draining => assert!(!std::mem::replace(&mut self.is_draining, true)),
                Event::Ready(_) => {
                    assert!(!std::mem::replace(&mut self.is_ready, true));
                    // Whether the session is resumed depends on earlier ones.
                    continue;
                }
                Event::ProxyReady => panic!("there is no proxy"),
                Event::Streamed(..) | Event::StreamEnded(..) | Event::Said(..) => {
                    panic!("nothing is split")
                }
            }
            self.seen.events.push(event);
        }
    }
}
