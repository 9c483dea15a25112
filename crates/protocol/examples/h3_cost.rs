//! CPU time of a request in the client's session of HTTP/3, without system calls: `cargo run
//! --release -p protocol --example h3_cost`. The server is that of the tests.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement for developers, with a clock and a terminal of its own"
)]

#[path = "../tests/tls/authority.rs"]
#[allow(dead_code, reason = "tests need more of it")]
mod authority;
#[path = "../tests/h3_session/server.rs"]
#[allow(dead_code, reason = "tests need more of it")]
mod server;
#[path = "../tests/h3/written.rs"]
mod written;

use std::time::{Duration, Instant};

use authority::Authority;
use protocol::datagrams;
use protocol::h3::{ALPN, ClientSettings, H3, H3Context, Prepared};
use protocol::request::split;
use protocol::tls::{self, Options};
use protocol::{Event, ExchangeId, Requests, Session, SessionError};
use server::{Answer, Server, Settings, response};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: test.example\r\n\r\n";

/// What passes in each round, in virtual time.
const ROUND_NS: u64 = 100_000;

fn main() {
    let small: Answer = |_| response("200", &[b'x'; 63]);
    let large: Answer = |_| response("200", &[b'x'; 100_000]);
    for (what, in_flight, answer, requests) in [
        ("63 bytes, 1 in flight", 1, small, 50_000),
        ("63 bytes, 32 in flight", 32, small, 200_000),
        ("100 kB, 8 in flight", 8, large, 2_000),
    ] {
        let mut bench = Bench::new(in_flight, answer);
        bench.run(requests / 10);
        bench.spent = Duration::ZERO;
        bench.received = 0;
        bench.run(requests);
        let us = bench.spent.as_secs_f64() * 1e6 / f64::from(requests);
        let datagrams = bench.received as f64 / f64::from(requests);
        println!("{what:24} {us:8.2} µs, {datagrams:5.2} datagrams received");
    }
}

struct Bench {
    shared: H3Context,
    session: H3,
    prepared: Prepared,
    server: Server,
    base: Instant,
    now_ns: u64,
    output: Vec<u8>,
    /// Datagrams for the client.
    input: Vec<Vec<u8>>,
    events: Vec<Event>,
    free: Vec<ExchangeId>,
    /// Time within the session, and datagrams that it has got.
    spent: Duration,
    received: usize,
}

impl Bench {
    fn new(in_flight: u32, answer: Answer) -> Self {
        let options = Options {
            alpn: &[ALPN],
            ..Options::default()
        };
        let tls = tls::config(&options).expect("the default is good");
        let settings = ClientSettings {
            streams_max: in_flight,
            idle_timeout_ms: 30_000,
            discovers_mtu: true,
            calls: false,
            capture: false,
            captured_body_bytes_max: 0,
        };
        let name = tls::server_name("test.example").expect("it is one");
        let base = Instant::now();
        let mut shared = H3Context::new(settings, &tls, name, base, 1).expect("they are good");
        let mut session = H3::new(&mut shared);
        let request = split(GET).next().expect("there is one");
        let prepared = H3::prepare(&mut shared, &request.expect("it is valid"));
        let certified = Authority::new("nobody").certify("test.example");
        let mut server = Server::new(Settings::default(), certified);
        server.answer = Some(answer);
        let mut output = Vec::new();
        let begun = session.begin(&mut shared, &mut output);
        begun.expect("it begins");
        Self {
            shared,
            session,
            prepared,
            server,
            base,
            now_ns: 0,
            output,
            input: Vec::new(),
            events: Vec::new(),
            free: (0..in_flight).map(ExchangeId).collect(),
            spent: Duration::ZERO,
            received: 0,
        }
    }

    fn run(&mut self, requests: u32) {
        let mut answered = 0;
        while answered < requests {
            self.now_ns += ROUND_NS;
            self.serve();
            let begin = Instant::now();
            self.client().expect("nothing is wrong");
            self.spent += begin.elapsed();
            for event in self.events.drain(..) {
                if let Event::Finished(exchange, _) = event {
                    answered += 1;
                    self.free.push(exchange);
                }
            }
        }
    }

    fn serve(&mut self) {
        let now = self.base + Duration::from_nanos(self.now_ns);
        for batch in datagrams::batches(&self.output) {
            for datagram in batch.datagrams() {
                self.server.receive(now, datagram, &mut self.input);
            }
        }
        self.output.clear();
        if self.server.next_timeout().is_some_and(|at| at <= now) {
            self.server.handle_timeout(now);
        }
        self.server.datagrams(now, &mut self.input);
        self.server.requests.clear();
    }

    fn client(&mut self) -> Result<(), SessionError> {
        let (session, shared, output) = (&mut self.session, &mut self.shared, &mut self.output);
        let events = &mut self.events;
        H3::at(shared, self.now_ns);
        self.received += self.input.len();
        for datagram in self.input.drain(..) {
            session.receive(shared, &datagram, output, events)?;
        }
        if session
            .next_timeout_ns()
            .is_some_and(|at| at <= self.now_ns)
        {
            session.handle_timeout(shared, self.now_ns, output, events)?;
        }
        while session.capacity() > 0
            && let Some(exchange) = self.free.pop()
        {
            let requests = Requests {
                text: b"",
                prepared: std::slice::from_ref(&self.prepared),
            };
            session.start(shared, exchange, requests, output)?;
        }
        session.flush(shared, output)
    }
}
