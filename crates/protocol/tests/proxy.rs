//! Sessions through a proxy: what is sent, what opens a tunnel, and what does not.

use std::net::IpAddr;
use std::sync::Arc;

use proptest::prelude::*;
use protocol::h1::{self, H1, Limits};
use protocol::proxy::{
    Connect, Destination, Forward, Login, Proxied, ProxyContext, ProxyFault, Route, Socks, Tunnel,
};
use protocol::{Event, ExchangeId, RequestKind, Requests, Session, SessionError};

const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: t\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

fn connect() -> Tunnel {
    Tunnel::Connect(Connect::new(
        "t.example:443",
        "Proxy-Authorization: Basic dTpw\r\n",
    ))
}

fn socks_to(destination: &Destination, login: Option<&Login>) -> Tunnel {
    Tunnel::Socks(Socks::new(destination, 443, login).expect("nothing is too long"))
}

fn name() -> Destination {
    Destination::Name("t.example".to_owned())
}

fn login() -> Login {
    Login {
        user: b"u".to_vec(),
        password: b"pw".to_vec(),
    }
}

/// One slot, and what has come out of it.
struct Client {
    shared: ProxyContext<h1::H1Context>,
    session: Proxied<H1>,
    output: Vec<u8>,
    events: Vec<Event>,
}

impl Client {
    fn new(route: Route) -> Self {
        let inner = h1::H1Context::new(Limits::default(), false);
        let mut shared = ProxyContext::new(Arc::new(route), inner);
        let session = Proxied::new(&mut shared);
        let mut client = Self {
            shared,
            session,
            output: Vec::new(),
            events: Vec::new(),
        };
        client.begin();
        client
    }

    fn through(tunnel: Tunnel) -> Self {
        Self::new(Route::Tunnel(tunnel))
    }

    fn begin(&mut self) {
        self.output.clear();
        self.events.clear();
        let begun = self.session.begin(&mut self.shared, &mut self.output);
        begun.expect("it begins");
    }

    fn sent(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    fn receive(&mut self, input: &[u8]) -> Result<(), SessionError> {
        let (output, events) = (&mut self.output, &mut self.events);
        self.session
            .receive(&mut self.shared, input, output, events)
    }

    /// Sends a request on an open tunnel.
    fn start(&mut self) {
        assert!(self.session.is_ready());
        let requests = Requests {
            text: GET,
            prepared: &[RequestKind::Plain],
        };
        let Self {
            shared,
            session,
            output,
            ..
        } = self;
        let started = session.start(shared, ExchangeId(0), requests, output);
        started.expect("it is sent");
    }

    fn statuses(&self) -> Vec<u16> {
        let finished = self.events.iter().filter_map(|event| match event {
            Event::Finished(_, response) => Some(response.status),
            _ => None,
        });
        finished.collect()
    }

    fn openings(&self) -> usize {
        let is_opening = |event: &&Event| **event == Event::ProxyReady;
        self.events.iter().filter(is_opening).count()
    }
}

/// What the proxy says, step by step, and what it must have got before each.
struct Talk {
    tunnel: Tunnel,
    steps: Vec<(&'static [u8], &'static [u8])>,
    /// What it gets in the end.
    last: &'static [u8],
}

const CONNECT: &[u8] = b"CONNECT t.example:443 HTTP/1.1\r\nHost: t.example:443\r\n\
    Proxy-Authorization: Basic dTpw\r\n\r\n";
const SOCKS_TO_NAME: &[u8] = b"\x05\x01\x00\x03\x09t.example\x01\xbb";
const SOCKS_TO_V4: &[u8] = b"\x05\x01\x00\x01\xc0\x00\x02\x01\x01\xbb";

fn talks() -> Vec<Talk> {
    let v4: IpAddr = "192.0.2.1".parse().expect("an address");
    let of = |tunnel, steps: &[(&'static [u8], &'static [u8])], last| Talk {
        tunnel,
        steps: steps.to_vec(),
        last,
    };
    vec![
        of(
            connect(),
            &[(CONNECT, b"HTTP/1.1 200 Connection established\r\n\r\n")],
            b"",
        ),
        // A 2xx answer to CONNECT has no body, and lines may end with LF alone.
        of(
            connect(),
            &[(CONNECT, b"HTTP/1.0 204\nContent-Length: 5\nA: b\n\n")],
            b"",
        ),
        of(
            connect(),
            &[(
                CONNECT,
                b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 299 x\r\n\r\n",
            )],
            b"",
        ),
        of(
            socks_to(&name(), None),
            &[
                (b"\x05\x01\x00", b"\x05\x00"),
                (SOCKS_TO_NAME, b"\x05\x00\x00\x01\x7f\x00\x00\x01\x12\x34"),
            ],
            b"",
        ),
        of(
            socks_to(&Destination::Address(v4), Some(&login())),
            &[
                (b"\x05\x02\x00\x02", b"\x05\x02"),
                (b"\x01\x01u\x02pw", b"\x01\x00"),
                (SOCKS_TO_V4, b"\x05\x00\x00\x03\x03a.b\x12\x34"),
            ],
            b"",
        ),
        // The proxy wants no login although one is offered, and has an IPv6 address.
        of(
            socks_to(&name(), Some(&login())),
            &[
                (b"\x05\x02\x00\x02", b"\x05\x00"),
                (
                    SOCKS_TO_NAME,
                    b"\x05\x00\x00\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x12\x34",
                ),
            ],
            b"",
        ),
    ]
}

#[test]
fn a_tunnel_opens_however_the_answers_are_cut_and_then_carries_requests() {
    for talk in talks() {
        let longest = talk.steps.iter().map(|(_, answer)| answer.len()).max();
        for piece in 1..=longest.expect("there is a step") {
            let mut client = Client::through(talk.tunnel.clone());
            // A slot is used again after a connection that ended at any point.
            for _ in 0..2 {
                client.begin();
                for (expected, answer) in &talk.steps {
                    assert_eq!(client.sent(), *expected);
                    assert!(!client.session.is_ready());
                    for part in answer.chunks(piece) {
                        client.receive(part).expect("the proxy agrees");
                    }
                }
                assert_eq!(client.sent(), talk.last);
                assert_eq!(client.openings(), 1);
                client.start();
                assert_eq!(client.sent(), GET);
                client.receive(RESPONSE).expect("it is a response");
                assert_eq!(client.statuses(), [200]);
            }
        }
    }
}

#[test]
fn bytes_behind_the_answer_of_a_proxy_are_the_targets() {
    let mut client = Client::through(connect());
    let error = client.receive(b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n");
    assert_eq!(error, Err(SessionError::Unsolicited));
    assert_eq!(client.openings(), 1);
}

fn fault(tunnel: Tunnel, answers: &[&[u8]]) -> ProxyFault {
    let mut client = Client::through(tunnel);
    for answer in answers {
        match client.receive(answer) {
            Ok(()) => assert!(!client.session.is_ready()),
            Err(SessionError::Proxy(fault)) => {
                assert_eq!(client.openings(), 0);
                return fault;
            }
            Err(error) => panic!("{error}"),
        }
    }
    let Client {
        shared,
        session,
        events,
        ..
    } = &mut client;
    match session.end(shared, events) {
        Err(SessionError::Proxy(fault)) => fault,
        ended => panic!("{ended:?}"),
    }
}

#[test]
fn an_answer_that_opens_no_tunnel_is_an_error_that_says_why() {
    let large = [b"HTTP/1.1 200 OK\r\nA: ".as_slice(), &[b'a'; 17_000]].concat();
    let page = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 9\r\n\r\n";
    for (answer, said) in [
        (&b""[..], "it closed the connection before answering"),
        (b"HTTP/1.1 200 OK\r\n", "it closed the connection"),
        (
            b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
            "it answered 407 Proxy Authentication Required (give --proxy-user)",
        ),
        (page, "it answered 502 Bad Gateway"),
        (
            b"HTTP/1.1 101 Switching\r\n\r\n",
            "it answered 101 Switching",
        ),
        (b"HTTP/1.1 403\r\n\r\n", "it answered 403"),
        (b"HTTP/1.1 403 a\x1b[2Jb\r\n\r\n", "it answered 403 a[2Jb"),
        (
            b"HTTP/1.1 2000 OK\r\n\r\n",
            "did not answer CONNECT with HTTP",
        ),
        (
            b"HTTP/1.1 2x0 OK\r\n\r\n",
            "did not answer CONNECT with HTTP",
        ),
        (
            b"HTTP/1.1 099 OK\r\n\r\n",
            "did not answer CONNECT with HTTP",
        ),
        (b"HTTP/2 200 OK\r\n\r\n", "did not answer CONNECT with HTTP"),
        (b"\x05\xff", "(is it a SOCKS proxy?)"),
        (b"\r\n\r\n", "did not answer CONNECT with HTTP"),
        (&large, "the head of its answer is too large"),
    ] {
        let message = fault(connect(), &[answer]).to_string();
        assert!(message.contains(said), "{message}");
        let pieces: Vec<&[u8]> = answer.chunks(1).collect();
        assert_eq!(fault(connect(), &pieces).to_string(), message);
    }
    let interim = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(100);
    assert_eq!(fault(connect(), &[&interim]), ProxyFault::HeadTooLarge);
    let long = format!("HTTP/1.1 500 {}\r\n\r\n", "x".repeat(1000));
    assert!(fault(connect(), &[long.as_bytes()]).to_string().len() < 120);
}

#[test]
fn a_socks_proxy_that_refuses_is_an_error_that_says_why() {
    let plain = || socks_to(&name(), None);
    let with_login = || socks_to(&name(), Some(&login()));
    for (tunnel, answers, said) in [
        (
            plain(),
            &[&b"\x05\xff"[..]][..],
            "without user and password",
        ),
        (with_login(), &[b"\x05\xff"], "none of the ways to log in"),
        (plain(), &[b"\x05\x02"], "none of the ways to log in"),
        (plain(), &[b"\x05\x01"], "none of the ways to log in"),
        (plain(), &[b"\x04"], "not SOCKS5"),
        (
            plain(),
            &[b"HTTP/1.1 400 Bad\r\n\r\n"],
            "(is it an HTTP proxy?)",
        ),
        (
            with_login(),
            &[b"\x05\x02", b"\x01\x01"],
            "it refused user and password",
        ),
        (
            plain(),
            &[b"\x05\x00", b"\x05\x05"],
            "it answered: connection refused",
        ),
        (
            plain(),
            &[b"\x05\x00", b"\x05\x63\x00"],
            "it answered: SOCKS reply 99",
        ),
        (
            plain(),
            &[b"\x05\x00", b"\x05\x00\x00\x09"],
            "address of unknown kind 9",
        ),
        (
            plain(),
            &[b"\x05\x00", b"\x05\x00\x00\x01\x00"],
            "it closed the connection",
        ),
        (plain(), &[b"\x05\x00", b"x"], "not SOCKS5"),
        (plain(), &[b"\x05"], "it closed the connection"),
    ] {
        let message = fault(tunnel, answers).to_string();
        assert!(message.contains(said), "{said}: {message}");
    }
}

#[test]
fn what_socks_cannot_say_is_refused_before() {
    let long = "x".repeat(256);
    let user = Login {
        user: long.clone().into_bytes(),
        password: Vec::new(),
    };
    let password = Login {
        user: b"u".to_vec(),
        password: long.clone().into_bytes(),
    };
    assert!(Socks::new(&name(), 1, Some(&user)).is_err());
    assert!(Socks::new(&name(), 1, Some(&password)).is_err());
    assert!(Socks::new(&Destination::Name(long), 1, None).is_err());
}

fn rewritten(headers: &str, text: &str) -> String {
    let mut output = Vec::new();
    Forward::new("t:81", headers).rewrite(text.as_bytes(), &mut output);
    String::from_utf8(output).expect("text remains text")
}

#[test]
fn requests_for_a_proxy_have_the_whole_url_and_its_headers() {
    for (text, expected) in [
        (
            "GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET http://t:81/a?b HTTP/1.1\r\nP\r\nHost: x\r\n\r\n",
        ),
        // Two requests, the first with a body that looks like a request.
        (
            "POST / HTTP/1.1\r\nContent-Length: 16\r\n\r\nGET / HTTP/1.1\r\nHEAD /b HTTP/1.1\n\n",
            "POST http://t:81/ HTTP/1.1\r\nP\r\nContent-Length: 16\r\n\r\nGET / HTTP/1.1\r\n\
             HEAD http://t:81/b HTTP/1.1\nP\r\n\n",
        ),
        (
            "OPTIONS * HTTP/1.1\r\n\r\n",
            "OPTIONS http://t:81 HTTP/1.1\r\nP\r\n\r\n",
        ),
        (
            "GET http://other/ HTTP/1.1\r\n\r\n",
            "GET http://other/ HTTP/1.1\r\nP\r\n\r\n",
        ),
        ("not a request", "not a request"),
        ("", ""),
    ] {
        let lines = "Proxy-Authorization: Basic x\r\nX-Proxy: y\r\n";
        assert_eq!(rewritten(lines, text), expected.replace("P\r\n", lines));
        assert_eq!(rewritten("", text), expected.replace("P\r\n", ""));
    }
}

#[test]
fn a_forwarding_proxy_is_ready_at_once_and_gets_requests_in_absolute_form() {
    let mut client = Client::new(Route::Forward(Forward::new("t", "")));
    assert_eq!(client.sent(), b"");
    client.start();
    let expected = b"GET http://t/a HTTP/1.1\r\nHost: t\r\n\r\n";
    assert_eq!(client.sent(), expected);
    client.receive(RESPONSE).expect("it is a response");
    assert_eq!(client.statuses(), [200]);
    assert_eq!(client.openings(), 0);
}

proptest! {
    #[test]
    fn any_answer_gives_the_same_outcome_however_it_is_cut(
        begin in prop::sample::select(vec![
            &b"HTTP/1.1 200 OK\r\n"[..],
            b"HTTP/1.",
            b"\x05\x00\x05\x00\x00",
            b"\x05\x02\x01\x00",
            b"",
        ]),
        bytes in prop::collection::vec(any::<u8>(), 0..60),
        cut in 1_usize..20,
        kind in 0..3,
    ) {
        let tunnel = match kind {
            0 => connect(),
            1 => socks_to(&name(), None),
            _ => socks_to(&name(), Some(&login())),
        };
        let answer = [begin, &bytes].concat();
        let outcome = |piece: usize| {
            let mut client = Client::through(tunnel.clone());
            let mut pieces = answer.chunks(piece);
            let failed = pieces.find_map(|part| client.receive(part).err());
            (failed, client.sent(), client.openings())
        };
        prop_assert_eq!(outcome(cut), outcome(1));
    }
}
