//! Requests before the end of the handshake (0-RTT).

use std::sync::Arc;

use protocol::h3::{ALPN, Statistics};
use protocol::tls::{self, Options};
use protocol::{Event, Session, SessionError};
use quinn_proto::{TransportConfig, VarInt};

use crate::authority::Authority;
use crate::link::{GET, Peer, Weather, client_settings};
use crate::server::{Settings, response};

const HEAD: &str = "HEAD / HTTP/1.1\r\nHost: test.example\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: test.example\r\nContent-Length: 3\r\n\r\nabc";

/// A client that was connected to a server which takes early data.
fn known() -> Peer {
    known_with(true)
}

fn known_with(offers: bool) -> Peer {
    let options = Options {
        alpn: &[ALPN],
        early_data: offers,
        ..Options::default()
    };
    let tls = tls::config(&options).expect("the options are good");
    let certified = Authority::new("nobody").certify("test.example");
    let settings = Settings {
        early_data: true,
        ..Settings::default()
    };
    let mut peer = Peer::begun(client_settings(8), &tls, settings, certified);
    assert!(!peer.session.is_ready(), "it has no ticket yet");
    peer.server.answer = Some(|request| response("200", &request.body));
    peer.run();
    assert!(!resumed(&mut peer));
    peer.request(GET);
    assert_eq!(peer.finished().len(), 1);
    peer.server.requests.clear();
    peer.server.restart();
    peer
}

fn begin(peer: &mut Peer) {
    peer.call(|session, shared, output, _| session.begin(shared, output));
}

fn methods(peer: &Peer) -> Vec<(&str, bool)> {
    let requests = peer.server.requests.iter();
    requests
        .map(|request| (request.fields[0].1.as_str(), request.is_early))
        .collect()
}

fn counts(peer: &Peer) -> (u64, u64) {
    let Statistics {
        early_accepted,
        early_rejected,
        ..
    } = peer.session.statistics().expect("it has begun");
    (early_accepted, early_rejected)
}

/// Whether the handshake was a resumed one. Takes its event, which must be the first one.
fn resumed(peer: &mut Peer) -> bool {
    match peer.events.remove(0) {
        Event::Ready(handshake) => handshake.resumed,
        other => panic!("{other:?}"),
    }
}

#[test]
fn harmless_requests_are_sent_before_the_handshake_is_complete_and_others_after_it() {
    let mut peer = known();
    begin(&mut peer);
    assert!(peer.session.is_ready());
    assert_eq!(peer.session.capacity(), 8);
    for text in [POST, GET, HEAD] {
        peer.start(text);
    }
    assert_eq!(peer.session.capacity(), 5);
    peer.run();
    assert!(resumed(&mut peer));
    assert_eq!(
        methods(&peer),
        [("GET", true), ("HEAD", true), ("POST", false)]
    );
    assert_eq!(peer.finished().len(), 3);
    assert_eq!(counts(&peer), (2, 0));
    peer.request(GET);
    assert_eq!(counts(&peer), (2, 0), "it was not early");
}

#[test]
fn nothing_is_sent_early_unless_the_user_wants_it() {
    let mut peer = known_with(false);
    begin(&mut peer);
    assert!(!peer.session.is_ready());
    peer.run();
    assert!(resumed(&mut peer));
    peer.request(GET);
    assert_eq!(methods(&peer), [("GET", false)]);
    assert_eq!(counts(&peer), (0, 0));
}

#[test]
fn rejected_requests_are_sent_again_once() {
    let mut peer = known();
    peer.server.forget_sessions();
    begin(&mut peer);
    for text in [GET, POST, HEAD] {
        peer.start(text);
    }
    peer.run();
    assert!(!resumed(&mut peer));
    assert_eq!(
        methods(&peer),
        [("GET", false), ("POST", false), ("HEAD", false)]
    );
    assert_eq!(peer.finished().len(), 3);
    assert_eq!(counts(&peer), (0, 2));
    assert_eq!(peer.session.capacity(), 8);
    assert_eq!(peer.error, None);
}

#[test]
fn rejected_requests_wait_if_the_server_now_allows_fewer_streams() {
    let mut peer = known();
    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(VarInt::from_u32(1));
    peer.server.transport = Arc::new(transport);
    peer.server.forget_sessions();
    begin(&mut peer);
    let started: Vec<_> = [GET; 4].map(|text| peer.start(text)).into();
    peer.server.answer = None;
    peer.run();
    assert!(!resumed(&mut peer));
    assert_eq!(peer.session.capacity(), 0);
    assert_eq!(peer.server.requests.len(), 1);
    // One that waits can be cancelled.
    let exchange = started[3];
    peer.call(|session, shared, output, _| {
        let cancelled = session.cancel(shared, exchange, output);
        assert_eq!(cancelled, Ok(true));
        Ok(())
    });
    peer.server.answer = Some(|_| response("200", b""));
    let first = peer.server.requests[0].stream;
    peer.server.send(first, &response("200", b""), true);
    peer.run();
    assert_eq!(peer.finished().len(), 3);
    assert_eq!(peer.server.requests.len(), 3);
    assert_eq!(counts(&peer), (0, 4));
}

#[test]
fn a_request_that_was_cancelled_is_not_sent_again() {
    let mut peer = known();
    peer.server.forget_sessions();
    begin(&mut peer);
    let cancelled = peer.start(GET);
    peer.start(HEAD);
    peer.call(|session, shared, output, _| {
        assert_eq!(session.cancel(shared, cancelled, output), Ok(true));
        Ok(())
    });
    peer.run();
    assert!(!resumed(&mut peer));
    assert_eq!(methods(&peer), [("HEAD", false)]);
    assert_eq!(peer.finished().len(), 1);
    assert_eq!(peer.error, None);
}

#[test]
fn waiting_requests_fail_after_goaway() {
    let mut peer = known();
    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(VarInt::from_u32(0));
    peer.server.transport = Arc::new(transport);
    peer.server.forget_sessions();
    begin(&mut peer);
    peer.start(GET);
    peer.run();
    assert_eq!(peer.server.requests.len(), 0);
    peer.events.clear();
    let control = peer.server.control.expect("it is open");
    peer.server.send(control, &[0x07, 1, 0], false);
    peer.run();
    let [Event::Draining, Event::Failed(_, failure)] = &peer.events[..] else {
        panic!("{:?}", peer.events);
    };
    assert_eq!(failure.error, SessionError::GoawayUnprocessed);
}

#[test]
fn lost_datagrams_do_not_double_early_requests() {
    for forgets in [false, true] {
        let mut peer = known();
        if forgets {
            peer.server.forget_sessions();
        }
        peer.weather = Weather {
            lost_percent: 20,
            doubled_percent: 20,
            jitter_ns: 5_000_000,
        };
        begin(&mut peer);
        for _ in 0..8 {
            peer.start(GET);
        }
        peer.run_for(20_000_000_000);
        assert_eq!(peer.error, None);
        assert_eq!(resumed(&mut peer), !forgets);
        assert_eq!(peer.finished().len(), 8);
        assert_eq!(peer.server.requests.len(), 8);
        let (accepted, rejected) = counts(&peer);
        assert_eq!((accepted, rejected), if forgets { (0, 8) } else { (8, 0) });
    }
}

#[test]
fn a_server_that_is_silent_loses_the_connection_and_not_the_count() {
    let mut peer = known();
    peer.is_cut = true;
    begin(&mut peer);
    peer.start(GET);
    peer.run_for(60_000_000_000);
    assert_eq!(peer.error, Some(SessionError::IdleTimeout));
    assert_eq!(counts(&peer), (0, 0));
}
