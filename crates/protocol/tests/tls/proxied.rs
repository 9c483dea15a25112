//! TLS with an https proxy, and TLS with the target inside its tunnel.

use std::io::{Read, Write};
use std::sync::Arc;

use protocol::h1::{self, H1, Limits};
use protocol::proxy::{Connect, Forward, Proxied, Route, Tunnel};
use protocol::tls::{self, Tls, TlsContext};
use protocol::{Event, ExchangeId, RequestKind, Requests, Session, SessionError, proxy};
use rustls::ServerConnection;

use crate::pair::{GET, HTTP1, RESPONSE, VERSIONS, plain_server, trusting_client};

type Client = Tls<Proxied<Tls<H1>>>;

fn within_tls<T>(inner: T) -> TlsContext<T> {
    let name = tls::server_name("test.example").expect("the name is good");
    TlsContext::new(trusting_client(), name, HTTP1, inner)
}

fn shared(route: Route, has_inner_tls: bool) -> <Client as Session>::Context {
    let h1 = h1::H1Context::new(Limits::default(), false);
    let inner = if has_inner_tls {
        within_tls(h1)
    } else {
        TlsContext::without_tls(h1)
    };
    within_tls(proxy::ProxyContext::new(Arc::new(route), inner)).to_proxy()
}

fn tunnel() -> Route {
    Route::Tunnel(Tunnel::Connect(Connect::new("t:443", "")))
}

/// Passes records to a server. Returns its plaintext.
fn read(server: &mut ServerConnection, mut records: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    while !records.is_empty() {
        server.read_tls(&mut records).expect("there is room");
        let state = server.process_new_packets().expect("they are valid");
        let mut part = vec![0; state.plaintext_bytes_to_read()];
        server.reader().read_exact(&mut part).expect("it is there");
        plain.extend(part);
    }
    plain
}

/// The records in which a server sends `plain`, and what else it has to say.
fn write(server: &mut ServerConnection, plain: &[u8]) -> Vec<u8> {
    server.writer().write_all(plain).expect("there is room");
    let mut records = Vec::new();
    while server.wants_write() {
        server.write_tls(&mut records).expect("memory takes it");
    }
    records
}

#[test]
fn tls_with_the_target_runs_inside_tls_with_the_proxy() {
    for version in VERSIONS {
        for piece in [1, 100, usize::MAX] {
            let mut shared = shared(tunnel(), true);
            let mut client = Client::new(&mut shared);
            let server = || ServerConnection::new(plain_server(version)).expect("it is good");
            let (mut proxy, mut target) = (server(), server());
            let (mut output, mut events) = (Vec::new(), Vec::new());
            let begun = client.begin(&mut shared, &mut output);
            begun.expect("it begins");
            let mut is_open = false;
            let mut has_started = false;
            let mut received = Vec::new();
            while !output.is_empty() {
                let plain = read(&mut proxy, &std::mem::take(&mut output));
                let mut answer = Vec::new();
                if is_open {
                    received.extend(read(&mut target, &plain));
                    let response = if received == GET { RESPONSE } else { b"" };
                    answer = write(&mut target, response);
                } else if !plain.is_empty() {
                    assert_eq!(plain, b"CONNECT t:443 HTTP/1.1\r\nHost: t:443\r\n\r\n");
                    is_open = true;
                    answer.extend(b"HTTP/1.1 200 OK\r\n\r\n");
                }
                for part in write(&mut proxy, &answer).chunks(piece) {
                    let got = client.receive(&mut shared, part, &mut output, &mut events);
                    got.expect("it is valid");
                }
                if client.is_ready() && !has_started {
                    has_started = true;
                    let requests = Requests {
                        text: GET,
                        prepared: &[RequestKind::Plain],
                    };
                    let started = client.start(&mut shared, ExchangeId(0), requests, &mut output);
                    started.expect("it is ready");
                }
            }
            assert_eq!(received, GET);
            let ends = |event: &Event| matches!(event, Event::Finished(_, it) if it.status == 200);
            // One handshake is reported, that with the target, once the proxy is ready.
            assert_eq!(events[0], Event::ProxyReady);
            assert!(matches!(events[1], Event::Ready(_)), "{events:?}");
            assert!(ends(events.last().expect("there are events")), "{events:?}");
        }
    }
}

#[test]
fn a_proxy_that_gets_each_request_is_ready_after_its_handshake() {
    let mut shared = shared(Route::Forward(Forward::new("t", "")), false);
    let mut client = Client::new(&mut shared);
    let mut proxy = ServerConnection::new(plain_server(VERSIONS[1])).expect("it is good");
    let (mut output, mut events) = (Vec::new(), Vec::new());
    let begun = client.begin(&mut shared, &mut output);
    begun.expect("it begins");
    while !client.is_ready() {
        read(&mut proxy, &std::mem::take(&mut output));
        let answer = write(&mut proxy, b"");
        let got = client.receive(&mut shared, &answer, &mut output, &mut events);
        got.expect("it is valid");
    }
    assert_eq!(events, [Event::ProxyReady]);
    let requests = Requests {
        text: GET,
        prepared: &[RequestKind::Plain],
    };
    let started = client.start(&mut shared, ExchangeId(0), requests, &mut output);
    started.expect("it is ready");
    let expected = b"GET http://t/ HTTP/1.1\r\nHost: test.example\r\n\r\n";
    assert_eq!(read(&mut proxy, &output), expected);
}

#[test]
fn what_fails_in_the_handshake_with_the_proxy_is_an_error_of_the_proxy() {
    let mut shared = shared(tunnel(), true);
    let mut client = Client::new(&mut shared);
    let mut failed = |answer: Option<&[u8]>| {
        let (mut output, mut events) = (Vec::new(), Vec::new());
        let begun = client.begin(&mut shared, &mut output);
        begun.expect("it begins");
        let lost = client.interruption(&shared);
        assert!(matches!(lost, Some(SessionError::Proxy(_))), "{lost:?}");
        let got = match answer {
            Some(bytes) => client.receive(&mut shared, bytes, &mut output, &mut events),
            None => client.end(&mut shared, &mut events),
        };
        assert_eq!(events, []);
        got.expect_err("there is no tunnel").to_string()
    };
    for (answer, said) in [
        (
            Some(&b"HTTP/1.1 400 Bad\r\n\r\n"[..]),
            "no TLS where TLS was expected",
        ),
        (Some(b"\x15\x03\x03\x00\x02\x02\x28"), "handshake_failure"),
        (None, "closed within the TLS handshake"),
    ] {
        let message = failed(answer);
        let begin = "the proxy opened no connection: TLS to it failed: ";
        assert!(
            message.starts_with(begin) && message.contains(said),
            "{message}"
        );
    }
}
