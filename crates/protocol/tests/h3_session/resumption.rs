//! TLS sessions that are resumed.

use protocol::h3::ALPN;
use protocol::tls::{self, Options};
use protocol::{Event, Handshake, Session};

use crate::authority::Authority;
use crate::link::{GET, Peer, client_settings, trusting};
use crate::server::{Settings, response};

/// Begins another connection to a server that has forgotten the last one, and says whether its
/// handshake was a resumed one.
fn resumes(peer: &mut Peer) -> bool {
    peer.call(|session, shared, output, _| session.begin(shared, output));
    peer.run();
    let events = std::mem::take(&mut peer.events);
    let [Event::Ready(Handshake { resumed, version })] = events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(version, 0x0304);
    resumed
}

/// After a connection that was used.
fn used(peer: &mut Peer) {
    peer.server.answer = Some(|_| response("200", b""));
    peer.request(GET);
    assert_eq!(peer.finished().len(), 1);
}

#[test]
fn a_second_connection_resumes_the_session_of_the_first_one() {
    let mut peer = Peer::ready(4);
    for _ in 0..3 {
        used(&mut peer);
        peer.server.restart();
        assert!(resumes(&mut peer));
    }
}

#[test]
fn a_server_with_other_keys_makes_a_full_handshake() {
    let mut peer = Peer::ready(4);
    used(&mut peer);
    peer.server.forget_sessions();
    assert!(!resumes(&mut peer));
    used(&mut peer);
    peer.server.restart();
    assert!(resumes(&mut peer));
}

#[test]
fn full_handshakes_are_made_if_the_user_wants_them() {
    let options = Options {
        alpn: &[ALPN],
        full_handshakes: true,
        ..Options::default()
    };
    let tls = tls::config(&options).expect("the options are good");
    let certified = Authority::new("nobody").certify("test.example");
    let mut peer = Peer::begun(client_settings(4), &tls, Settings::default(), certified);
    peer.run();
    peer.events.clear();
    used(&mut peer);
    peer.server.restart();
    assert!(!resumes(&mut peer));
}

#[test]
fn another_host_has_other_sessions() {
    let mut peer = Peer::ready(4);
    peer.shared = protocol::h3::H3Context::new(
        client_settings(4),
        &trusting(),
        tls::server_name("test.example").expect("it is one"),
        peer.base(),
        2,
    )
    .expect("the settings are good")
    .with_more_hosts(vec![tls::server_name("other.example").expect("it is one")]);
    let begin = |peer: &mut Peer, host| {
        peer.server.restart();
        protocol::h3::H3::select_host(&mut peer.shared, host);
        let resumed = resumes(peer);
        used(peer);
        resumed
    };
    let resumed = [0, 1, 0, 1].map(|host| begin(&mut peer, host));
    assert_eq!(resumed, [false, false, true, true]);
}
