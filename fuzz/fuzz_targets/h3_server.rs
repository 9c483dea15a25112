//! Any bytes as what a client of HTTP/3 sends on one stream, cut at three places: the pieces give
//! the requests that the whole gives, a broken rule closes the connection with its code, and what
//! the server sends can be read.

#![no_main]

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;
use protocol::h2::RequestHead;
use protocol::h3::error::Violation;
use protocol::h3::frame::{self, FrameReader, frame_type};
use protocol::h3::heads::Heads;
use protocol::h3::qpack::{SectionLimits, encode};
use protocol::h3::server::{End as Ended, Received, Server};
use protocol::h3::{Arrival, Endpoint, Greeting, ServerSettings};
use quinn_proto::{ConnectionError, Dir, Side, StreamId};

#[path = "../quic.rs"]
#[allow(
    dead_code,
    reason = "the target of the client's session needs the rest"
)]
mod quic;

use quic::{End, SERVER_TLS};

/// The windows are small, so that inputs reach them.
const SETTINGS: ServerSettings = ServerSettings {
    streams_max: 5,
    window_bytes: 300,
    section_bytes_max: 300,
    idle_timeout_ms: 30_000,
    greeting: Greeting::Accept,
    handshakes_max: 100,
    has_grease: false,
    streams_delay_ns: 0,
};

/// The body of every response.
const BODY: &[u8] = b"the body of it";

/// Rounds in which nothing was sent, after which nothing will be: an acknowledgement may come 25 ms
/// late (RFC 9000 section 18.2).
const QUIET_ROUNDS: u32 = 30;

/// How the bytes are sent.
#[derive(Debug, Clone, Copy)]
struct Mode(u8);

impl Mode {
    /// On a stream for a request, otherwise on a unidirectional one.
    fn is_request(self) -> bool {
        self.0 & 3 < 2
    }

    /// On the control stream, otherwise its type is the first of the bytes.
    fn is_control(self) -> bool {
        self.0 & 3 == 2
    }

    /// How the stream ends: a code, or none.
    fn end(self) -> Option<Option<u8>> {
        match self.0 >> 2 & 3 {
            0 => None,
            1 => Some(Some(self.0)),
            _ => Some(None),
        }
    }

    fn has_grease(self) -> bool {
        self.0 & 0x10 != 0
    }

    fn is_split(self) -> bool {
        self.0 & 0x20 != 0
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&[mode, a, b, c], input)) = data.split_first_chunk::<4>() else {
        return;
    };
    let mut at = [a, b, c].map(|cut| usize::from(cut) % (input.len() + 1));
    at.sort_unstable();
    let [a, b, c] = at;
    let mode = Mode(mode);
    let whole = serve(mode, &[input]);
    let pieces = [&input[..a], &input[a..b], &input[b..c], &input[c..]];
    assert_eq!(serve(mode, &pieces), whole);
});

#[derive(Debug, PartialEq)]
enum Found {
    Head(StreamId, Rc<RequestHead>),
    /// The end of a request, with its body.
    End(StreamId, Vec<u8>),
    Reset(StreamId),
}

fn serve(mode: Mode, pieces: &[&[u8]]) -> (Vec<Found>, Option<Violation>) {
    let mut site = Site::new(mode);
    let control = site.open(Dir::Uni);
    site.send(control, &[0]);
    if !mode.is_control() {
        let mut settings = Vec::new();
        frame::append_settings(&[], &mut settings);
        site.send(control, &settings);
    }
    let stream = match mode.is_control() {
        true => control,
        false if mode.is_request() => site.open(Dir::Bi),
        false => site.open(Dir::Uni),
    };
    for piece in pieces {
        site.send(stream, piece);
    }
    if let Some(code) = mode.end() {
        site.client.end(stream, code);
        site.run();
    }
    if site.server().end().is_none() {
        let request = site.open(Dir::Bi);
        site.send(request, &get());
        site.client.end(request, None);
        site.run();
        let is_whole = |(_, has_ended): &(_, bool)| *has_ended;
        let is_answered = site.client.arrived.get(&request).is_some_and(is_whole);
        assert!(is_answered || site.server().end().is_some());
    }
    site.conclude()
}

fn get() -> Vec<u8> {
    let mut section = Vec::new();
    encode::prefix(&mut section);
    for (name, value) in [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "h"),
        (":path", "/"),
    ] {
        encode::field(name.as_bytes(), value.as_bytes(), &mut section);
    }
    let mut output = Vec::new();
    frame::append(frame_type::HEADERS, &section, &mut output);
    output
}

struct Site {
    mode: Mode,
    endpoint: Endpoint,
    server: Option<Server>,
    heads: Heads<Rc<RequestHead>>,
    client: End,
    bodies: BTreeMap<StreamId, Vec<u8>>,
    found: Vec<Found>,
    base: Instant,
    now: Instant,
}

impl Site {
    /// A connection whose handshake is complete.
    fn new(mode: Mode) -> Self {
        let settings = ServerSettings {
            has_grease: mode.has_grease(),
            ..SETTINGS
        };
        let base = Instant::now();
        let endpoint = Endpoint::new(settings, &SERVER_TLS, base, 1);
        let mut this = Self {
            mode,
            endpoint: endpoint.expect("the settings are good"),
            server: None,
            heads: Heads::new(SectionLimits::default()),
            client: End::client(base),
            bodies: BTreeMap::new(),
            found: Vec::new(),
            base,
            now: base,
        };
        this.run();
        assert!(this.client.is_connected());
        this
    }

    fn server(&mut self) -> &mut Server {
        self.server.as_mut().expect("it is connected")
    }

    fn open(&mut self, dir: Dir) -> StreamId {
        let quic = self.client.quic.as_mut().expect("it is connected");
        quic.streams().open(dir).expect("it is allowed")
    }

    /// Sends these bytes, as far as the server takes them.
    fn send(&mut self, id: StreamId, mut bytes: &[u8]) {
        loop {
            let Some(taken) = self.client.write(id, bytes) else {
                return;
            };
            bytes = &bytes[taken..];
            self.run();
            if bytes.is_empty() || taken == 0 {
                return;
            }
        }
    }

    /// Lets all happen that does.
    fn run(&mut self) {
        let mut quiet = 0;
        while quiet < QUIET_ROUNDS {
            quiet = if self.round() { 0 } else { quiet + 1 };
        }
    }

    /// Returns whether something was sent.
    fn round(&mut self) -> bool {
        self.now += Duration::from_millis(1);
        let now_ns = (self.now - self.base).as_nanos() as u64;
        self.endpoint.at(now_ns);
        let to_server = self.client.give(self.now);
        let mut is_busy = !to_server.is_empty();
        let (mut buffer, mut replies) = (Vec::new(), Vec::new());
        for datagram in to_server {
            let from = ([127, 0, 0, 1], 4000).into();
            match self.endpoint.receive(from, &datagram, &mut buffer) {
                Arrival::Packet(_, packet) => self.server().receive(packet),
                Arrival::Connection(_, server) => self.server = Some(server),
                Arrival::Reply => replies.push(buffer.clone()),
                Arrival::Nothing => {}
            }
        }
        self.process(now_ns);
        if let Some(server) = &mut self.server {
            while let Some((_, segment)) = server.transmit(&mut self.endpoint, &mut buffer) {
                let datagrams = buffer.chunks(usize::from(segment));
                replies.extend(datagrams.map(<[u8]>::to_vec));
            }
        }
        is_busy |= !replies.is_empty();
        for datagram in replies {
            self.client.take(self.now, &datagram);
        }
        is_busy
    }

    fn process(&mut self, now_ns: u64) {
        let Some(server) = &mut self.server else {
            return;
        };
        if server.next_timeout_ns().is_some_and(|at| at <= now_ns) {
            server.handle_timeout(&self.endpoint);
        }
        let mut received = Vec::new();
        server.process(&mut self.endpoint, &mut self.heads, &mut received);
        for one in received {
            let ended = match one {
                Received::Request {
                    stream,
                    head,
                    is_whole,
                } => {
                    self.found.push(Found::Head(stream, head));
                    let before = self.bodies.insert(stream, Vec::new());
                    assert_eq!(before, None, "it begins once");
                    is_whole.then_some(stream)
                }
                Received::Content {
                    stream,
                    content,
                    is_last,
                } => {
                    let body = self.bodies.get_mut(&stream).expect("a request has begun");
                    body.extend_from_slice(&content);
                    is_last.then_some(stream)
                }
                Received::Reset { stream } => {
                    self.bodies.remove(&stream);
                    self.found.push(Found::Reset(stream));
                    None
                }
            };
            if let Some(stream) = ended {
                let body = self.bodies.remove(&stream).expect("it ends once");
                self.found.push(Found::End(stream, body));
                respond(server, stream, self.mode.is_split());
            }
        }
        server.write();
    }

    fn conclude(mut self) -> (Vec<Found>, Option<Violation>) {
        let violation = match self.server().end() {
            Some(Ended::Violation(violation)) => Some(violation),
            _ => None,
        };
        let code = match &self.client.lost {
            Some(ConnectionError::ApplicationClosed(close)) => Some(close.error_code.into_inner()),
            None => None,
            Some(other) => panic!("{other:?}"),
        };
        assert_eq!(code, violation.map(|violation| violation.code.0));
        for (id, (bytes, _)) in &self.client.arrived {
            // The one with an empty SETTINGS frame is the control stream.
            if id.initiator() == Side::Client || bytes.first() == Some(&0) {
                let skipped = usize::from(id.dir() == Dir::Uni);
                let mut reader = FrameReader::new(1 << 20);
                let mut rest = &bytes[skipped..];
                while reader
                    .next(&mut rest)
                    .expect("it keeps the rules")
                    .is_some()
                {}
            }
        }
        (self.found, violation)
    }
}

fn respond(server: &mut Server, stream: StreamId, is_split: bool) {
    if is_split {
        server.split(stream);
    }
    let mut section = Vec::new();
    encode::prefix(&mut section);
    encode::field(b":status", b"200", &mut section);
    server.send_head(stream, &section, false);
    server.send_data(stream, BODY.len() as u32, true, |output| {
        output.extend_from_slice(BODY);
    });
    assert!(!server.is_open(stream));
}
