//! CPU time of decoding one response and encoding one request: `cargo run --release -p protocol
//! --example decode_cost`.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement for developers, with a clock and a terminal of its own"
)]

use std::hint::black_box;
use std::time::Instant;

use protocol::h1::{H1, Limits, Shared};
use protocol::request;
use protocol::{ExchangeId, RequestKind, Requests, Session};

/// A head of 238 bytes, as nginx sends it, and a body of 63 bytes.
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\n\
    Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Type: text/plain\r\nContent-Length: 63\r\n\
    Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\nConnection: keep-alive\r\n\
    ETag: \"65a0b1c2-3f\"\r\nAccept-Ranges: bytes\r\n\r\n\
    ...............................................................";

const REQUEST: &[u8] = b"GET /index.html?page=1 HTTP/1.1\r\nHost: localhost:8080\r\n\
    Accept: */*\r\nX-Request-Number: 000000001234\r\nX-Token: abcdefghij\r\n\r\n";

const ROUNDS: u32 = 2_000_000;

fn main() {
    println!(
        "response of {} bytes, request of {} bytes",
        RESPONSE.len(),
        REQUEST.len()
    );
    let known = [RESPONSE.to_vec()];
    print("known head", response_ns(&known, 1, false));
    let unknown: Vec<_> = (0..8).map(with_date).collect();
    print("unknown head", response_ns(&unknown, 1, false));
    print("captured", response_ns(&known, 1, true));
    print(
        "16 pipelined, known",
        response_ns(&[RESPONSE.repeat(16)], 16, false),
    );
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
        3f\r\n...............................................................\r\n0\r\n\r\n";
    print("chunked, known", response_ns(&[chunked.to_vec()], 1, false));
    print("request scan", scan_ns());
}

fn print(what: &str, ns: f64) {
    println!("{what:20} {ns:8.1} ns");
}

/// The response with another second in its date. With more of them than the cache holds, each head
/// is unknown.
fn with_date(second: u8) -> Vec<u8> {
    let mut response = RESPONSE.to_vec();
    let at = response
        .windows(4)
        .position(|window| window == b" GMT")
        .unwrap_or(0);
    response[at - 1] = b'0' + second;
    response
}

/// Nanoseconds per response, cycling through the inputs, which hold `depth` responses each.
fn response_ns(inputs: &[Vec<u8>], depth: u32, capture: bool) -> f64 {
    let mut shared = Shared::new(Limits::default(), capture);
    let mut session = H1::new(&mut shared);
    let (mut output, mut events) = (Vec::new(), Vec::new());
    let rounds = ROUNDS / depth;
    let kinds = vec![RequestKind::Plain; depth as usize];
    let started = Instant::now();
    for round in 0..rounds {
        let requests = Requests {
            text: &[],
            prepared: &kinds,
        };
        session
            .start(&mut shared, ExchangeId(0), requests, &mut output)
            .expect("it starts");
        let input = black_box(&inputs[round as usize % inputs.len()]);
        session
            .receive(&mut shared, input, &mut output, &mut events)
            .expect("the response is good");
        assert_eq!(events.len(), depth as usize);
        black_box(&mut events).clear();
    }
    started.elapsed().as_secs_f64() * 1e9 / f64::from(rounds * depth)
}

fn scan_ns() -> f64 {
    let mut kinds = Vec::new();
    let started = Instant::now();
    for _ in 0..ROUNDS {
        request::scan(black_box(REQUEST), &mut kinds).expect("the request is good");
        black_box(&kinds);
    }
    started.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS)
}
