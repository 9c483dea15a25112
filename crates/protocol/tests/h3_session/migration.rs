//! A connection that goes on from another local port.

use std::net::{Ipv4Addr, SocketAddr};

use protocol::{Session, SessionError};

use crate::link::{GET, Peer, client_settings};
use crate::server::{Settings, response};

/// A new socket takes the place of the old one.
fn move_to(peer: &mut Peer, port: u16) {
    peer.server.client = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), port));
    peer.call(|session, shared, _, _| session.on_moved(shared));
}

fn followed(peer: &Peer) -> u64 {
    let statistics = peer.session.statistics();
    statistics.expect("it has begun").migrations
}

#[test]
fn requests_go_on_from_another_port() {
    let mut peer = Peer::ready(4);
    peer.server.answer = Some(|_| response("200", b"abc"));
    for port in 4001..4010 {
        // One is under way, one follows.
        peer.start(GET);
        move_to(&mut peer, port);
        peer.request(GET);
        assert_eq!(peer.error, None);
        assert_eq!(peer.finished().len(), 2);
        assert_eq!(followed(&peer), u64::from(port - 4000));
        let server = &peer.server.connection.as_ref().expect("it is open").1;
        assert_eq!(server.remote_address().port(), port);
    }
}

#[test]
fn an_idle_connection_moves_too() {
    let mut peer = Peer::ready(4);
    move_to(&mut peer, 4001);
    peer.run();
    assert_eq!(followed(&peer), 1);
    peer.run_for(5_000_000_000);
    assert_eq!(peer.error, None);
}

#[test]
fn a_server_that_forbids_migration_is_named() {
    let settings = Settings {
        migration: false,
        ..Settings::default()
    };
    let mut peer = Peer::ready_with(client_settings(4), settings);
    peer.start(GET);
    move_to(&mut peer, 4001);
    assert_eq!(peer.error, Some(SessionError::MigrationForbidden));
    assert_eq!(followed(&peer), 0);
}

#[test]
fn a_server_that_does_not_follow_is_named_after_a_second() {
    let mut peer = Peer::ready(4);
    peer.start(GET);
    move_to(&mut peer, 4001);
    peer.is_cut = true;
    peer.run_for(900_000_000);
    assert_eq!(peer.error, None);
    peer.run_for(200_000_000);
    assert_eq!(peer.error, Some(SessionError::MigrationFailed));
    assert_eq!(followed(&peer), 0);
}

#[test]
fn further_moves_do_not_give_the_server_more_time() {
    let mut peer = Peer::ready(4);
    peer.start(GET);
    peer.is_cut = true;
    for port in 4001..4010 {
        move_to(&mut peer, port);
        peer.run_for(100_000_000);
    }
    assert_eq!(peer.error, None);
    peer.run_for(200_000_000);
    assert_eq!(peer.error, Some(SessionError::MigrationFailed));
    assert_eq!(followed(&peer), 0);
}
