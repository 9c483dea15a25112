//! The TLS listener, with rustls as the client.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use origin::{Identity, Options, Server, TlsSettings, TlsVersions};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::client::{Client, on_each_backend, tcp_address};

fn certificate(identity: &Identity) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(identity.certificate_pem.as_bytes()).unwrap()
}

fn client_config(server: &Identity, own: Option<&Identity>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate(server)).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    Arc::new(match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let key = PrivateKeyDer::from_pem_slice(own.key_pem.as_bytes()).unwrap();
            builder
                .with_client_auth_cert(vec![certificate(own)], key)
                .unwrap()
        }
    })
}

type TlsStream = StreamOwned<ClientConnection, TcpStream>;

fn connect(server: &Server, config: &Arc<ClientConfig>) -> Client<TlsStream> {
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(Arc::clone(config), name).unwrap();
    let stream = TcpStream::connect(tcp_address(server)).unwrap();
    stream
        .set_read_timeout(Some(std::time::Duration::from_secs(20)))
        .unwrap();
    Client::over(StreamOwned::new(session, stream))
}

fn identity() -> Identity {
    Identity::self_signed(&["localhost"]).unwrap()
}

fn tls_options(settings: &TlsSettings) -> Options {
    let tls = Some(settings.config().unwrap());
    Options {
        tls,
        log_requests: 100,
        ..Options::default()
    }
}

#[test]
fn generations_are_the_same_inside_tls() {
    let identity = identity();
    let settings = TlsSettings::new(identity.clone());
    let config = client_config(&identity, None);
    on_each_backend(&tls_options(&settings), |server| {
        let mut client = connect(&server, &config);
        client.ask("/?llm=ollama&tokens=5&first=1ms&gap=1ms");
        let body = String::from_utf8(client.response().body).unwrap();
        assert_eq!(body.lines().count(), 6, "{body}");
        let requests = server.stop().requests;
        assert_eq!(requests[0].generated.as_ref().unwrap().tokens, 5);
    });
}

#[test]
fn https_is_served_in_both_versions() {
    let identity = identity();
    let config = client_config(&identity, None);
    for (versions, expected) in [
        (TlsVersions::Only12, rustls::ProtocolVersion::TLSv1_2),
        (TlsVersions::Only13, rustls::ProtocolVersion::TLSv1_3),
        (TlsVersions::Both, rustls::ProtocolVersion::TLSv1_3),
    ] {
        let settings = TlsSettings {
            versions,
            ..TlsSettings::new(identity.clone())
        };
        on_each_backend(&tls_options(&settings), |server| {
            assert!(server.url().starts_with("https://127.0.0.1:"));
            let mut client = connect(&server, &config);
            let mut seen = 0;
            for (target, bytes) in [("/", 63), ("/", 63), ("/?size=3M", 3_000_000)] {
                client.ask(target);
                let response = client.response();
                assert_eq!(response.body.len(), bytes);
                seen += response.bytes as u64;
            }
            assert_eq!(client.stream.conn.protocol_version(), Some(expected));
            let report = server.stop();
            assert_eq!(
                (report.counts.responses, report.counts.bytes_out),
                (3, seen)
            );
            assert_eq!(report.requests.len(), 3);
        });
    }
}

#[test]
fn a_tls_connection_ends_with_close_notify_unless_told_otherwise() {
    let identity = identity();
    let config = client_config(&identity, None);
    on_each_backend(
        &tls_options(&TlsSettings::new(identity.clone())),
        |server| {
            let mut client = connect(&server, &config);
            client.ask("/?until-close&size=5");
            assert_eq!(client.response().body, b"abcde");

            let mut client = connect(&server, &config);
            client.ask("/?close=silent&size=5");
            let end = client.read_to_end().map_err(|error| error.kind());
            assert_eq!(end, Err(std::io::ErrorKind::UnexpectedEof));
            assert!(client.input.ends_with(b"abcde"));
        },
    );
}

#[test]
fn a_delayed_handshake_succeeds_and_what_follows_is_served_at_once() {
    let identity = identity();
    let config = client_config(&identity, None);
    let options = Options {
        accept_delay_ns: 10_000_000,
        tls_delay_ns: 20_000_000,
        ..tls_options(&TlsSettings::new(identity))
    };
    on_each_backend(&options, |server| {
        let mut old = connect(&server, &config);
        for _ in 0..3 {
            old.ask("/");
            assert_eq!(old.response().status(), "200");
        }
        let mut new = connect(&server, &config);
        new.ask("/");
        assert_eq!(new.response().status(), "200");
        let report = server.stop();
        assert_eq!(report.counts.tls_failures, 0);
        let arrivals_ns: Vec<u64> = report.requests.iter().map(|one| one.arrival_ns).collect();
        assert!(
            arrivals_ns[3] - arrivals_ns[2] >= 30_000_000,
            "{arrivals_ns:?}"
        );
    });
}

#[test]
fn a_client_certificate_can_be_demanded() {
    let (identity, own) = (identity(), Identity::self_signed(&["client"]).unwrap());
    let settings = TlsSettings {
        client_roots_pem: Some(own.certificate_pem.clone()),
        ..TlsSettings::new(identity.clone())
    };
    on_each_backend(&tls_options(&settings), |server| {
        let mut with = connect(&server, &client_config(&identity, Some(&own)));
        with.ask("/");
        assert_eq!(with.response().status(), "200");

        let mut without = connect(&server, &client_config(&identity, None));
        // In TLS 1.3 the refusal comes only after the client believes itself connected.
        let refused = without.stream.write_all(b"GET / HTTP/1.1\r\n\r\n").is_err()
            || without.read_to_end().is_err();
        assert!(refused);
        let counts = server.stop().counts;
        assert_eq!((counts.requests, counts.tls_failures), (1, 1));
    });
}

#[test]
fn plain_http_on_the_tls_port_is_answered_with_an_alert() {
    on_each_backend(&tls_options(&TlsSettings::new(identity())), |server| {
        let mut client = Client::connect(&server);
        client.ask("/");
        let mut received = Vec::new();
        client.stream.read_to_end(&mut received).unwrap();
        // A record of type alert (RFC 8446 section 5.1).
        assert_eq!(received.first(), Some(&21));
        assert_eq!(server.stop().counts.tls_failures, 1);
    });
}

#[test]
fn faults_work_inside_tls() {
    let identity = identity();
    let config = client_config(&identity, None);
    on_each_backend(
        &tls_options(&TlsSettings::new(identity.clone())),
        |server| {
            for fault in ["split", "drip:50us"] {
                let mut client = connect(&server, &config);
                client.ask(&format!("/?size=6&fault={fault}"));
                assert_eq!(client.response().body, b"abcdef", "{fault}");
            }
            let mut client = connect(&server, &config);
            client.ask("/?size=6&fault=reset-mid-body");
            let end = client.read_to_end().map_err(|error| error.kind());
            assert_eq!(end, Err(std::io::ErrorKind::ConnectionReset));
            assert!(client.input.ends_with(b"abc"));
        },
    );
}

#[test]
fn a_second_connection_resumes_the_session() {
    let identity = identity();
    let config = client_config(&identity, None);
    on_each_backend(
        &tls_options(&TlsSettings::new(identity.clone())),
        |server| {
            let mut kinds = Vec::new();
            for _ in 0..2 {
                let mut client = connect(&server, &config);
                client.ask("/");
                client.response();
                kinds.push(client.stream.conn.handshake_kind());
            }
            assert_eq!(kinds[1], Some(rustls::HandshakeKind::Resumed));
        },
    );
}
