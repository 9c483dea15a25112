//! How connections begin and end.

use protocol::h3::error::{Closed, ErrorCode, TransportCode};
use protocol::{Event, Handshake, Session, SessionError};
use quinn_proto::{ConnectionError, TransportConfig, VarInt};

use crate::authority::Authority;
use crate::link::{GET, Peer, client_settings, verifying};
use crate::server::{Greeting, Settings, response};

fn end(peer: &mut Peer) -> Result<(), SessionError> {
    peer.session.end(&mut peer.shared, &mut peer.events)
}

#[test]
fn a_handshake_is_told_with_its_version() {
    let mut peer = Peer::with(client_settings(1), Settings::default());
    assert!(!peer.session.is_ready());
    assert_eq!(peer.session.capacity(), 0);
    assert!(peer.session.awaits().is_some());
    peer.run();
    let handshake = Handshake {
        resumed: false,
        version: 0x0304,
    };
    assert_eq!(peer.events, [Event::Ready(handshake)]);
    assert_eq!(peer.session.awaits(), None);
}

#[test]
fn a_server_that_asks_for_a_token_gets_it_back() {
    let settings = Settings {
        greeting: Greeting::Retry,
        ..Settings::default()
    };
    let mut peer = Peer::ready_with(client_settings(1), settings);
    peer.server.answer = Some(|_| response("200", b"abc"));
    peer.request(GET);
    assert_eq!(peer.finished().len(), 1);
    // Two round trips, of 2 ms each.
    let statistics = peer.session.statistics().expect("it has begun");
    assert_eq!(statistics.handshake_ns, Some(4_000_000));
    assert!(statistics.retried);
}

#[test]
fn a_server_without_version_1_is_an_error_of_its_own() {
    let settings = Settings {
        versions: Some(vec![0xff00_001d]),
        ..Settings::default()
    };
    let mut peer = Peer::with(client_settings(1), settings);
    peer.run();
    assert_eq!(peer.error, Some(SessionError::QuicVersion));
}

#[test]
fn a_server_that_refuses_a_connection_says_so() {
    let settings = Settings {
        greeting: Greeting::Refuse,
        ..Settings::default()
    };
    let mut peer = Peer::with(client_settings(1), settings);
    peer.run();
    let closed = Closed::new(TransportCode::CONNECTION_REFUSED, b"");
    assert_eq!(peer.error, Some(SessionError::QuicClosed(closed)));
}

#[test]
fn a_server_with_another_protocol_is_an_error_of_its_own() {
    let settings = Settings {
        alpn: b"hq-interop",
        ..Settings::default()
    };
    let mut peer = Peer::with(client_settings(1), settings);
    peer.run();
    assert_eq!(peer.error, Some(SessionError::OtherProtocol));
}

#[test]
fn a_certificate_is_verified_if_the_settings_say_so() {
    let authority = Authority::new("ours");
    let other = Authority::new("other");
    let cases = [
        (authority.certify("test.example"), None),
        (
            other.certify("test.example"),
            Some("not signed by a trusted authority"),
        ),
        (authority.certify("else.example"), Some("for another name")),
        (authority.certify_expired("test.example"), Some("expired")),
    ];
    for (certified, reason) in cases {
        let tls = verifying(&authority);
        let mut peer = Peer::begun(client_settings(1), &tls, Settings::default(), certified);
        peer.run();
        match (reason, &peer.error) {
            (None, None) => assert!(peer.session.is_ready()),
            (Some(reason), Some(SessionError::TlsCertificate(told))) => {
                assert!(told.contains(reason), "{told}");
                // The server learns of it: an alert of TLS.
                let lost = peer.server.lost.as_ref();
                assert!(
                    matches!(lost, Some(ConnectionError::ConnectionClosed(_))),
                    "{lost:?}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_close_with_an_error_of_http_3_is_told_with_its_name_and_reason() {
    let mut peer = Peer::ready(1);
    peer.request(GET);
    peer.close_server(0x102, b"out of memory");
    let closed = Closed::new(ErrorCode::INTERNAL_ERROR, b"out of memory");
    assert_eq!(peer.error, Some(SessionError::Http3Closed(closed)));
    let told = peer.error.map(|error| error.to_string());
    let expected = "connection closed by the server: h3_internal_error (out of memory)";
    assert_eq!(told.as_deref(), Some(expected));
}

#[test]
fn a_server_that_asks_for_less_load_is_counted_as_such() {
    let mut peer = Peer::ready(1);
    peer.close_server(0x107, b"");
    assert_eq!(peer.error.map(|error| error.name()), Some("calm"));
}

#[test]
fn a_close_without_an_error_ends_the_connection_like_that_of_a_stream() {
    // The second code is reserved, so that clients ignore unknown ones.
    for (code, requests, bytes, expected) in [
        (0x100, 0, 0, Ok(())),
        (0x100, 1, 0, Err(SessionError::ClosedEarly)),
        (0x100, 1, 4, Err(SessionError::Truncated)),
        (0x21 + 0x1f * 1000, 1, 4, Err(SessionError::Truncated)),
    ] {
        let mut peer = Peer::ready(2);
        for _ in 0..requests {
            peer.request(GET);
            peer.respond(0, &response("200", b"abc")[..bytes], false);
        }
        assert!(!peer.session.has_ended());
        peer.close_server(code, b"");
        assert_eq!(peer.error, None);
        assert!(peer.session.has_ended());
        assert_eq!(peer.session.capacity(), 0);
        assert_eq!(peer.session.partial_bytes(), bytes as u64);
        assert_eq!(end(&mut peer), expected);
    }
}

#[test]
fn responses_before_a_close_are_complete() {
    let mut peer = Peer::ready(2);
    peer.request(GET);
    let (id, bytes) = (crate::server::bidi(0), response("200", b"abc"));
    peer.server.send(id, &bytes, true);
    peer.run_for(500_000);
    peer.close_server(0x100, b"");
    assert!(matches!(
        peer.events[..],
        [Event::Finished(..), Event::Draining]
    ));
    assert_eq!(end(&mut peer), Ok(()));
}

#[test]
fn the_client_closes_without_an_error() {
    let mut peer = Peer::ready(1);
    peer.request(GET);
    peer.call(|session, shared, output, _| {
        session.close(shared, output);
        Ok(())
    });
    peer.run();
    assert_eq!(peer.close_code(), Some(ErrorCode::NO_ERROR));
    assert_eq!(peer.session.capacity(), 0);
}

#[test]
fn silence_is_an_error_only_for_requests_and_handshakes() {
    for (is_ready, requests) in [(true, 0), (true, 1), (false, 0)] {
        let mut peer = Peer::with(client_settings(2), Settings::default());
        if is_ready {
            peer.run();
        }
        if requests > 0 {
            peer.request(GET);
        }
        peer.is_cut = true;
        peer.run_for(20_000_000_000);
        assert_eq!((&peer.error, peer.session.has_ended()), (&None, false));
        peer.run_for(80_000_000_000);
        if is_ready && requests == 0 {
            assert!(peer.error.is_none() && peer.session.has_ended())
        } else {
            assert_eq!(peer.error, Some(SessionError::IdleTimeout))
        }
        assert_eq!(
            peer.session.next_timeout_ns(),
            None,
            "nothing is waited for"
        );
    }
}

#[test]
fn the_idle_timeout_of_the_server_counts_if_it_is_shorter() {
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(VarInt::from_u32(1000).into()));
    let settings = Settings {
        transport,
        ..Settings::default()
    };
    let mut peer = Peer::ready_with(client_settings(1), settings);
    peer.run_for(1_500_000_000);
    assert!(peer.session.has_ended());
}

#[test]
fn a_server_that_has_restarted_resets_the_connection() {
    let mut peer = Peer::ready(1);
    peer.run_for(1_000_000_000);
    peer.server.restart();
    peer.request(GET);
    assert_eq!(peer.error, Some(SessionError::StatelessReset));
}

#[test]
fn datagrams_that_belong_to_nothing_are_ignored() {
    let mut peer = Peer::ready(1);
    for junk in [
        &b""[..],
        b"\0",
        b"HTTP/1.1 200 OK\r\n\r\n",
        &[0xff; 1200],
        &[0x40; 30],
    ] {
        peer.call(|session, shared, output, events| session.receive(shared, junk, output, events));
        let mut long = vec![0xc3, 0, 0, 0, 1, 8];
        long.extend_from_slice(junk);
        peer.call(|session, shared, output, events| session.receive(shared, &long, output, events));
    }
    assert_eq!((&peer.error, peer.events.len()), (&None, 0));
    peer.server.answer = Some(|_| response("200", b"abc"));
    peer.request(GET);
    assert_eq!(peer.finished().len(), 1);
}
