//! Handshakes that succeed: versions, names, protocols, resumption, client certificates.

use std::sync::Arc;

use protocol::tls::{self, Identity, Options, Roots};
use protocol::{Event, Handshake, RequestKind, Session};
use rustls::crypto::ring;

use crate::authority::{Authority, Certified, self_signed};
use crate::pair::{
    GET, HTTP1, Pair, RESPONSE, VERSIONS, plain_server, server_config, shared, trusting_client,
};

#[test]
fn each_version_is_ready_once_and_then_sends_a_request() {
    for (version, number) in VERSIONS.into_iter().zip([0x0303, 0x0304]) {
        let mut pair = Pair::ready(version);
        let ready = Event::Ready(Handshake {
            resumed: false,
            version: number,
        });
        assert_eq!(pair.events, [ready]);
        assert_eq!(pair.server.alpn_protocol(), Some(b"http/1.1".as_slice()));
        assert_eq!(pair.server.server_name(), Some("test.example"));
        assert_eq!(pair.request(&[RequestKind::Plain]), GET);
        let records = pair.encrypt(RESPONSE);
        pair.deliver(&records).expect("the response is good");
        let response = pair.responses()[0];
        assert_eq!(
            (response.status, response.bytes),
            (200, RESPONSE.len() as u64)
        );
        assert_eq!(pair.events.len(), 2, "{:?}", pair.events);
        pair.close().expect("nothing is outstanding");
    }
}

#[test]
fn a_handshake_byte_by_byte_is_the_same() {
    for version in VERSIONS {
        let mut pair = Pair::new(
            shared(trusting_client(), "test.example"),
            plain_server(version),
        );
        pair.step = 1;
        pair.settle().expect("the handshake succeeds");
        let readies = pair
            .events
            .iter()
            .filter(|event| matches!(event, Event::Ready(_)))
            .count();
        assert_eq!((pair.client.is_ready(), readies), (true, 1));
    }
}

#[test]
fn requests_may_not_be_sent_before_the_handshake() {
    let shared = shared(trusting_client(), "test.example");
    let pair = Pair::new(shared, plain_server(VERSIONS[1]));
    assert!(!pair.client.is_ready());
    assert!(!pair.output.is_empty(), "there is a ClientHello");
}

#[test]
fn ip_addresses_are_not_sent_as_server_names() {
    for host in ["127.0.0.1", "[::1]", "::1"] {
        let mut pair = Pair::new(shared(trusting_client(), host), plain_server(VERSIONS[1]));
        pair.settle().expect("the handshake succeeds");
        assert_eq!(pair.server.server_name(), None, "{host}");
    }
}

#[test]
fn reconnecting_resumes_the_session() {
    for version in VERSIONS {
        let mut pair = Pair::ready(version);
        assert_eq!(
            pair.handshake().map(|handshake| handshake.resumed),
            Some(false)
        );
        for _ in 0..5 {
            pair.reconnect();
            assert!(!pair.client.is_ready());
            pair.settle().expect("the handshake succeeds");
            assert_eq!(
                pair.handshake().map(|handshake| handshake.resumed),
                Some(true)
            );
            pair.request(&[RequestKind::Plain]);
            let records = pair.encrypt(RESPONSE);
            pair.deliver(&records).expect("the response is good");
            assert_eq!(pair.responses().len(), 1);
        }
    }
}

#[test]
fn another_slot_of_the_same_settings_resumes_too() {
    let (client, server) = (trusting_client(), plain_server(VERSIONS[1]));
    let mut first = Pair::new(
        shared(Arc::clone(&client), "test.example"),
        Arc::clone(&server),
    );
    first.settle().expect("the handshake succeeds");
    let mut second = Pair::new(shared(client, "test.example"), server);
    second.settle().expect("the handshake succeeds");
    assert_eq!(
        second.handshake().map(|handshake| handshake.resumed),
        Some(true)
    );
}

#[test]
fn a_rejected_ticket_leads_to_a_full_handshake() {
    for version in VERSIONS {
        let mut pair = Pair::ready(version);
        pair.reconnect_to(plain_server(version));
        pair.settle().expect("the handshake succeeds");
        assert_eq!(
            pair.handshake().map(|handshake| handshake.resumed),
            Some(false)
        );
    }
}

#[test]
fn stateless_tickets_also_resume_the_session() {
    for version in VERSIONS {
        let certified = Authority::new("nobody").certify("test.example");
        let mut config = server_config(version, certified, None);
        config.ticketer = ring::Ticketer::new().expect("there is randomness");
        let mut pair = Pair::new(shared(trusting_client(), "test.example"), Arc::new(config));
        pair.settle().expect("the handshake succeeds");
        pair.reconnect();
        pair.settle().expect("the handshake succeeds");
        assert_eq!(
            pair.handshake().map(|handshake| handshake.resumed),
            Some(true)
        );
    }
}

#[test]
fn a_server_without_alpn_is_fine() {
    for version in VERSIONS {
        let certified = Authority::new("nobody").certify("test.example");
        let mut config = server_config(version, certified, None);
        config.alpn_protocols.clear();
        let mut pair = Pair::new(shared(trusting_client(), "test.example"), Arc::new(config));
        pair.settle().expect("the handshake succeeds");
        assert!(pair.client.is_ready());
    }
}

#[test]
fn a_client_certificate_is_presented_to_a_server_that_asks() {
    let authority = Authority::new("clients");
    let me = authority.certify("me.example");
    let identity = Identity {
        certificates_pem: me.certificate_pem.as_bytes(),
        key_pem: me.key_pem.as_bytes(),
    };
    let options = Options {
        alpn: &[HTTP1.name],
        roots: None,
        identity: Some(identity),
        ..Options::default()
    };
    let client = tls::config(&options).expect("certificate and key are good");
    for version in VERSIONS {
        let server = server_config(version, authority.certify("test.example"), Some(&authority));
        let shared = shared(Arc::clone(&client), "test.example");
        let mut pair = Pair::new(shared, Arc::new(server));
        pair.settle().expect("the handshake succeeds");
        let seen = pair.server.peer_certificates().expect("one was shown");
        assert_eq!((seen.len(), &seen[0]), (1, &me.certificate));
        pair.request(&[RequestKind::Plain]);
        let records = pair.encrypt(RESPONSE);
        pair.deliver(&records).expect("the response is good");
        assert_eq!(pair.responses().len(), 1);
    }
}

#[test]
fn a_certificate_of_a_trusted_authority_passes_verification() {
    let authority = Authority::new("servers");
    let pem = authority.pem();
    for (roots, name) in [
        (Roots::Pem(pem.as_bytes()), "test.example"),
        (Roots::System(vec![authority.certificate()]), "test.example"),
        (Roots::Pem(pem.as_bytes()), "127.0.0.1"),
    ] {
        let options = Options {
            alpn: &[HTTP1.name],
            roots: Some(roots),
            ..Options::default()
        };
        let client = tls::config(&options).expect("the roots are good");
        for version in VERSIONS {
            let server = server_config(version, authority.certify(name), None);
            let mut pair = Pair::new(shared(Arc::clone(&client), name), Arc::new(server));
            pair.settle().expect("the certificate is trusted");
            assert!(pair.client.is_ready());
        }
    }
}

#[test]
fn a_self_signed_certificate_is_trusted_only_if_the_file_contains_it() {
    let outcome = |named: &str, shown: Certified, name: &str| {
        let options = Options {
            alpn: &[HTTP1.name],
            roots: Some(Roots::Pem(named.as_bytes())),
            ..Options::default()
        };
        let client = tls::config(&options).expect("the file is good");
        let server = server_config(VERSIONS[1], shown, None);
        let mut pair = Pair::new(shared(client, name), Arc::new(server));
        pair.settle().map_err(|error| error.to_string())
    };
    let own = || self_signed("test.example", false);
    let shown = own();
    let pem = shown.certificate_pem.clone();
    assert_eq!(outcome(&pem, shown, "test.example"), Ok(()));
    let shown = own();
    let pem = shown.certificate_pem.clone();
    let other_name = outcome(&pem, shown, "other.example");
    assert!(other_name.is_err_and(|error| error.contains("other.example")));
    assert!(outcome(&own().certificate_pem, own(), "test.example").is_err());
    let shown = self_signed("test.example", true);
    let pem = shown.certificate_pem.clone();
    let expired = outcome(&pem, shown, "test.example");
    assert!(expired.is_err_and(|error| error.ends_with("it has expired")));
}
