//! Servers that fail at TLS, do not speak it, or close at the wrong moment. Each has its own
//! reason.

use std::sync::Arc;

use protocol::tls::{self, AlpnProtocol, Options, Roots};
use protocol::{RequestKind, Session, SessionError};

use crate::authority::{Authority, Certified};
use crate::pair::{
    HTTP1, Pair, RESPONSE, VERSIONS, plain_server, server_config, shared, trusting_client,
};

fn fresh() -> Pair {
    Pair::new(
        shared(trusting_client(), "test.example"),
        plain_server(VERSIONS[1]),
    )
}

/// The error of a client that trusts `trusted` and receives `certified` for the name test.example.
fn refusal(trusted: &Authority, make: impl Fn() -> Certified) -> String {
    let pem = trusted.pem();
    let options = Options {
        alpn: &[HTTP1.name],
        roots: Some(Roots::Pem(pem.as_bytes())),
        ..Options::default()
    };
    let client = tls::config(&options).expect("the root is good");
    let mut reasons = VERSIONS.map(|version| {
        let server = Arc::new(server_config(version, make(), None));
        let mut pair = Pair::new(shared(Arc::clone(&client), "test.example"), server);
        let Err(SessionError::TlsCertificate(reason)) = pair.settle() else {
            panic!("the certificate is not refused: {:?}", pair.events);
        };
        assert!(!pair.client.is_ready());
        assert!(!pair.output.is_empty(), "an alert informs the server");
        reason
    });
    reasons.sort_unstable();
    assert_eq!(reasons[0], reasons[1], "both versions say the same");
    reasons[0].clone()
}

#[test]
fn an_unknown_authority_is_rejected() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let reason = refusal(&ours, || theirs.certify("test.example"));
    assert_eq!(reason, "it is not signed by a trusted authority");
}

#[test]
fn an_expired_certificate_is_rejected() {
    let ours = Authority::new("ours");
    assert_eq!(
        refusal(&ours, || ours.certify_expired("test.example")),
        "it has expired"
    );
}

#[test]
fn a_certificate_for_another_name_is_rejected() {
    let ours = Authority::new("ours");
    let reason = refusal(&ours, || ours.certify("other.example"));
    assert!(
        reason.contains("test.example") && reason.contains("other.example"),
        "{reason}"
    );
}

#[test]
fn without_verification_all_of_these_are_accepted() {
    let authority = Authority::new("nobody");
    for certified in [
        authority.certify_expired("test.example"),
        authority.certify("other.example"),
    ] {
        let server = Arc::new(server_config(VERSIONS[1], certified, None));
        let mut pair = Pair::new(shared(trusting_client(), "test.example"), server);
        pair.settle().expect("nothing is verified");
    }
}

#[test]
fn a_server_that_requires_a_certificate_rejects_a_client_without_one() {
    let authority = Authority::new("clients");
    for version in VERSIONS {
        let certified = authority.certify("test.example");
        let server = Arc::new(server_config(version, certified, Some(&authority)));
        let mut pair = Pair::new(shared(trusting_client(), "test.example"), server);
        let refused = SessionError::TlsAlert("certificate_required".to_owned());
        assert_eq!(pair.settle(), Err(refused), "{version:?}");
    }
}

#[test]
fn a_server_that_requires_another_protocol_is_reported() {
    let certified = Authority::new("nobody").certify("test.example");
    let mut config = server_config(VERSIONS[1], certified, None);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let mut pair = Pair::new(shared(trusting_client(), "test.example"), Arc::new(config));
    let refused = SessionError::TlsAlert("no_application_protocol".to_owned());
    assert_eq!(pair.settle(), Err(refused));
}

#[test]
fn an_alert_in_the_handshake_is_named() {
    let mut pair = fresh();
    let alert = [0x15, 3, 3, 0, 2, 2, 40];
    let expected = SessionError::TlsAlert("handshake_failure".to_owned());
    assert_eq!(pair.deliver(&alert), Err(expected));
}

#[test]
fn a_server_that_does_not_speak_tls_is_detected() {
    for banner in [
        b"HTTP/1.1 400 Bad Request\r\n\r\n".as_slice(),
        b"SSH-2.0\r\n",
        b"\n",
        b"\0\0",
    ] {
        for step in [1, 5, usize::MAX] {
            let mut pair = fresh();
            pair.step = step;
            assert_eq!(
                pair.deliver(banner),
                Err(SessionError::NotTls),
                "{banner:?}"
            );
        }
    }
}

#[test]
fn garbage_in_the_handshake_fails_it() {
    for garbage in [
        [[0x16, 3, 3, 0x3f, 0xff].as_slice(), &[0xaa; 0x3fff]].concat(),
        [[0x16, 3, 3, 0xff, 0xff].as_slice(), &[0xaa; 16 * 1024]].concat(),
        [[0x16, 3, 3, 0, 4].as_slice(), &[99, 0, 0, 0]].concat(),
        [[0x17, 3, 3, 0, 4].as_slice(), &[1, 2, 3, 4]].concat(),
        vec![0x16; 100_000],
    ] {
        for step in [1000, usize::MAX] {
            let mut pair = fresh();
            pair.step = step;
            let error = pair.deliver(&garbage).expect_err("it is no handshake");
            assert!(matches!(error, SessionError::TlsHandshake(_)), "{error:?}");
        }
    }
}

#[test]
fn a_close_during_the_handshake_has_its_own_reason() {
    let server = plain_server(VERSIONS[1]);
    // The server's flight is longer than this in every handshake. Its exact length varies with the
    // signature.
    for length in 0..500 {
        let shared = shared(trusting_client(), "test.example");
        let mut pair = Pair::new(shared, Arc::clone(&server));
        let hello = std::mem::take(&mut pair.output);
        let flight = pair.serve(&hello);
        assert!(flight.len() > length);
        pair.deliver(&flight[..length])
            .expect("a beginning is no fault");
        assert_eq!(
            pair.close(),
            Err(SessionError::TlsClosed),
            "after {length} bytes"
        );
        assert!(!pair.client.is_ready());
    }
}

#[test]
fn a_damaged_record_is_rejected() {
    for version in VERSIONS {
        let mut pair = Pair::ready(version);
        pair.request(&[RequestKind::Plain]);
        let mut records = pair.encrypt(RESPONSE);
        let last = records.len() - 1;
        records[last] ^= 1;
        let error = pair.deliver(&records).expect_err("it cannot be decrypted");
        assert!(matches!(error, SessionError::TlsRecord(_)), "{error:?}");
        assert!(pair.responses().is_empty());
    }
}

#[test]
fn plaintext_after_the_handshake_is_rejected() {
    for version in VERSIONS {
        let mut pair = Pair::ready(version);
        pair.request(&[RequestKind::Plain]);
        let error = pair.deliver(RESPONSE).expect_err("it is not encrypted");
        assert!(matches!(error, SessionError::TlsRecord(_)), "{error:?}");
    }
}

#[test]
fn responses_before_a_fault_count() {
    for version in VERSIONS {
        let mut pair = Pair::ready(version);
        pair.request(&[RequestKind::Plain; 2]);
        let mut records = pair.encrypt(RESPONSE);
        records.extend_from_slice(b"garbage that is no record");
        assert!(pair.deliver(&records).is_err());
        assert_eq!(pair.responses().len(), 1, "{version:?}");
    }
}

#[test]
fn an_http_error_inside_tls_is_reported() {
    let mut pair = Pair::ready(VERSIONS[1]);
    pair.request(&[RequestKind::Plain]);
    let records = pair.encrypt(b"garbage\r\n\r\n");
    assert_eq!(pair.deliver(&records), Err(SessionError::BadStatusLine));
    let mut idle = Pair::ready(VERSIONS[1]);
    let records = idle.encrypt(RESPONSE);
    assert_eq!(idle.deliver(&records), Err(SessionError::Unsolicited));
}

/// The results of `response` followed by a close, with and without close_notify.
fn after_close(response: &[u8]) -> [(Option<SessionError>, usize); 2] {
    [true, false].map(|notifies| {
        let mut pair = Pair::ready(VERSIONS[1]);
        pair.request(&[RequestKind::Plain]);
        let mut records = pair.encrypt(response);
        if notifies {
            pair.server.send_close_notify();
            records.extend(pair.server_output());
        }
        let result = pair.deliver(&records);
        let result = result.and_then(|()| pair.close());
        (result.err(), pair.responses().len())
    })
}

#[test]
fn a_close_within_a_response_truncates_it_with_or_without_notice() {
    let expected = (Some(SessionError::Truncated), 0);
    assert_eq!(
        after_close(&RESPONSE[..RESPONSE.len() - 1]),
        [expected.clone(), expected]
    );
}

#[test]
fn a_close_before_a_response_is_early_with_or_without_notice() {
    let expected = (Some(SessionError::ClosedEarly), 0);
    assert_eq!(after_close(b""), [expected.clone(), expected]);
}

#[test]
fn a_close_after_a_response_is_fine_with_or_without_notice() {
    assert_eq!(after_close(RESPONSE), [(None, 1), (None, 1)]);
    let until_close = b"HTTP/1.1 200 OK\r\n\r\nuntil the end";
    assert_eq!(after_close(until_close), [(None, 1), (None, 1)]);
}

#[test]
fn close_notify_completes_a_response_before_the_connection_ends() {
    let mut pair = Pair::ready(VERSIONS[1]);
    pair.request(&[RequestKind::Plain]);
    let mut records = pair.encrypt(b"HTTP/1.1 200 OK\r\n\r\nuntil the end");
    pair.server.send_close_notify();
    records.extend(pair.server_output());
    pair.deliver(&records).expect("the response is complete");
    assert_eq!(pair.responses().len(), 1);
    assert!(!pair.responses()[0].reusable);
    pair.deliver(b"anything")
        .expect("what follows the notice is not looked at");
}

#[test]
fn a_server_that_chooses_another_protocol_than_the_one_spoken_is_left() {
    let both: [&[u8]; 2] = [HTTP1.name, b"h2"];
    let outcome = |spoken: AlpnProtocol, offered: &[&[u8]], of_server: &[&[u8]]| {
        let options = Options {
            alpn: offered,
            ..Options::default()
        };
        let client = tls::config(&options).expect("it is good");
        let mut server = server_config(
            VERSIONS[1],
            Authority::new("nobody").certify("test.example"),
            None,
        );
        server.alpn_protocols = of_server.iter().map(|name| name.to_vec()).collect();
        let name = tls::server_name("test.example").expect("it is good");
        let inner = protocol::h1::H1Context::new(protocol::h1::Limits::default(), false);
        let shared = tls::TlsContext::new(client, name, spoken, inner);
        Pair::new(shared, Arc::new(server)).settle()
    };
    let http2 = AlpnProtocol {
        name: b"h2",
        is_implied: false,
    };
    assert_eq!(outcome(HTTP1, &both, &both), Ok(()));
    assert_eq!(outcome(HTTP1, &both, &[]), Ok(()));
    assert_eq!(outcome(http2, &both, &[b"h2"]), Ok(()));
    let other = Err(SessionError::OtherProtocol);
    assert_eq!(outcome(HTTP1, &both, &[b"h2"]), other);
    assert_eq!(outcome(http2, &both, &both), other);
    assert_eq!(outcome(http2, &both, &[]), other);
}
