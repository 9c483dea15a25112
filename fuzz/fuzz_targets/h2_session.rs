//! The client's session of HTTP/2, with any bytes from the server, exchanges that are started and
//! cancelled in between, and the kernel that takes what was sent.
//!
//! Whatever the server sends, an exchange ends at most once, the capacity fits the exchanges in
//! flight, what the client sends is bounded and has correct frames, and the events do not depend
//! on how the bytes are cut.

#![no_main]

use std::collections::BTreeSet;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use protocol::h2::error::ErrorCode;
use protocol::h2::frame::Frame;
use protocol::h2::reader::Reader;
use protocol::h2::{ClientSettings, H2, H2Context, PREFACE, writer};
use protocol::request::split;
use protocol::{Event, ExchangeId, Requests, Session, SessionError};

/// Small, so that inputs reach it.
const STREAMS_MAX: u32 = 4;
/// Of one call: a head for each stream, the part of bodies, and a GOAWAY.
const OUTPUT_BYTES_MAX: usize = 300_000;
/// An empty frame of 9 bytes may be answered by a RST_STREAM of 13.
const OUTPUT_PER_INPUT: usize = 2;

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const HEAD: &str = "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n";
/// Its body does not fit into the first window.
static POST: LazyLock<String> = LazyLock::new(|| {
    let body = "x".repeat(70_000);
    format!("POST / HTTP/1.1\r\nContent-Length: 70000\r\n\r\n{body}")
});

/// What happens to the session.
#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    /// An exchange is started, if there is capacity. The number selects the request.
    Start(u8),
    /// One of the exchanges in flight is cancelled.
    Cancel(u8),
    /// The kernel has taken all output.
    Resume,
    Receive(&'a [u8]),
}

fuzz_target!(|data: &[u8]| {
    let Some((&options, data)) = data.split_first() else {
        return;
    };
    let steps = steps(data);
    let whole = run(options, &steps, usize::MAX);
    for piece_bytes in [1, 7] {
        let pieces = run(options, &steps, piece_bytes);
        // How much of a body was sent decides what the server may still do.
        if whole.has_body || pieces.has_body {
            continue;
        }
        // Responses in the same piece as a GOAWAY with an error still count.
        let shared = match whole.error {
            Some(SessionError::Goaway(_) | SessionError::Calm(_)) => pieces.events.len(),
            _ => whole.events.len(),
        };
        assert_eq!(whole.events.get(..shared), Some(pieces.events.as_slice()));
        assert_eq!(whole.error, pieces.error);
    }
});

/// Each step begins with a byte: the kind in the lowest two bits, the rest is its number. Received
/// bytes have their length in a second byte. The server begins with SETTINGS, unless told not to.
fn steps(mut data: &[u8]) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    while let Some((&first, rest)) = data.split_first() {
        data = rest;
        let number = first >> 2;
        steps.push(match first & 3 {
            0 => Step::Start(number),
            1 => Step::Cancel(number),
            2 if number == 0 => Step::Resume,
            _ => {
                let Some((&length, rest)) = data.split_first() else {
                    break;
                };
                let (bytes, rest) = rest.split_at(rest.len().min(usize::from(length)));
                data = rest;
                Step::Receive(bytes)
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
    has_body: bool,
}

fn run(options: u8, steps: &[Step<'_>], piece_bytes: usize) -> Seen {
    let mut shared = H2Context::new(ClientSettings {
        streams_max: STREAMS_MAX,
        scheme: "http",
        capture: options & 1 != 0,
        calls: options & 4 != 0,
        captured_body_bytes_max: 100,
    });
    let mut client = Client::new(&mut shared);
    if options & 2 == 0 {
        let mut settings = Vec::new();
        writer::settings([], &mut settings);
        client.receive(&mut shared, &settings);
    }
    for step in steps {
        match *step {
            Step::Start(number) => client.start(&mut shared, number),
            Step::Cancel(number) => client.cancel(&mut shared, number),
            Step::Resume => client.resume(&mut shared),
            Step::Receive(bytes) => {
                let length = bytes.len().max(1).min(piece_bytes);
                for piece in bytes.chunks(length) {
                    client.receive(&mut shared, piece);
                }
            }
        }
        if client.seen.error.is_some() {
            break;
        }
    }
    client.end(&mut shared);
    client.seen
}

/// A session with its owner.
struct Client {
    session: H2,
    seen: Seen,
    in_flight: BTreeSet<u32>,
    next: u32,
    output: Vec<u8>,
    /// Reads what was sent.
    reader: Reader,
    has_ended: bool,
}

impl Client {
    fn new(shared: &mut H2Context) -> Self {
        let mut session = H2::new(shared);
        let mut output = Vec::new();
        session.begin(shared, &mut output).expect("it begins");
        assert!(output.starts_with(PREFACE));
        let mut this = Self {
            session,
            seen: Seen::default(),
            in_flight: BTreeSet::new(),
            next: 0,
            output: output.split_off(PREFACE.len()),
            reader: Reader::new(1000),
            has_ended: false,
        };
        // The server may have allowed it.
        this.reader.set_frame_size_max((1 << 24) - 1);
        this.check(0);
        this
    }

    fn start(&mut self, shared: &mut H2Context, number: u8) {
        if self.session.capacity() == 0 {
            return;
        }
        let text = match number % 4 {
            0 => POST.as_str(),
            1 => HEAD,
            _ => GET,
        };
        self.seen.has_body |= number % 4 == 0;
        let request = split(text.as_bytes()).next().expect("there is one");
        let prepared = H2::prepare(shared, &request.expect("it is valid"));
        let requests = Requests {
            text: b"",
            prepared: &[prepared],
        };
        let exchange = ExchangeId(self.next);
        self.next += 1;
        self.session
            .start(shared, exchange, requests, &mut self.output)
            .expect("there is room");
        self.in_flight.insert(exchange.0);
        self.check(0);
    }

    fn cancel(&mut self, shared: &mut H2Context, number: u8) {
        let Some(exchange) = self
            .in_flight
            .iter()
            .nth(usize::from(number) % STREAMS_MAX as usize)
        else {
            return;
        };
        let exchange = ExchangeId(*exchange);
        let cancelled = self.session.cancel(shared, exchange, &mut self.output);
        assert_eq!(cancelled, Ok(true));
        self.in_flight.remove(&exchange.0);
        self.check(0);
    }

    fn resume(&mut self, shared: &mut H2Context) {
        self.session
            .resume(shared, &mut self.output)
            .expect("it can send");
        self.check(0);
    }

    fn receive(&mut self, shared: &mut H2Context, piece: &[u8]) {
        if self.seen.error.is_some() {
            return;
        }
        let mut events = Vec::new();
        let received = self
            .session
            .receive(shared, piece, &mut self.output, &mut events);
        self.take(events);
        self.seen.error = received.err();
        self.check(piece.len());
    }

    fn end(&mut self, shared: &mut H2Context) {
        if self.seen.error.is_none() {
            let mut events = Vec::new();
            self.seen.error = self.session.end(shared, &mut events).err();
            self.take(events);
        }
        let before = self.output.len();
        self.session.close(shared, &mut self.output);
        assert!(self.output.len() - before <= 17, "at most a GOAWAY");
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
                    failure.bytes = 0;
                }
                Event::Began(ExchangeId(exchange)) => {
                    assert!(self.in_flight.contains(exchange), "it has not ended");
                    continue;
                }
                Event::Draining => assert!(!std::mem::replace(&mut self.has_ended, true)),
                Event::Ready(_) | Event::ProxyReady => panic!("there is no handshake"),
                Event::Streamed(..) | Event::StreamEnded(..) | Event::Said(..) => {
                    panic!("nothing is split")
                }
            }
            self.seen.events.push(event);
        }
    }

    /// Reads what was sent after this many bytes of the server, and checks the capacity.
    fn check(&mut self, input_bytes: usize) {
        let in_flight = self.in_flight.len() as u32;
        let capacity = self.session.capacity();
        assert!(in_flight + capacity <= STREAMS_MAX);
        assert!(capacity == 0 || self.session.is_ready() && !self.has_ended);
        let output = std::mem::take(&mut self.output);
        assert!(output.len() <= OUTPUT_BYTES_MAX + OUTPUT_PER_INPUT * input_bytes);
        let mut input = output.as_slice();
        while let Some(frame) = self.reader.next(&mut input).expect("it keeps the rules") {
            if let Frame::Goaway { code, .. } = frame {
                let has_failed = self.seen.error.is_some();
                assert!(has_failed && code != ErrorCode::NO_ERROR, "{code:?}");
            }
        }
    }
}
