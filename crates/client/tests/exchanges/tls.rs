//! Certificates, and servers that do not speak TLS.

use std::io::{BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;

use client::{Client, Server, status};
use plan::Target;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use testkit::{Folder, TestServer};

use crate::{GET, LONG, client, client_of_plan, expect_one_line, request};

/// A server with a certificate for this name that it has signed itself, and the certificate. Of a
/// response it sends as many bytes as the path says.
fn server(name: &str, response: &'static str) -> (TestServer, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed([name.to_owned()]).expect("a name");
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has them")
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .expect("they fit");
    let config = Arc::new(config);
    let server = TestServer::start(move |stream| {
        let session = ServerConnection::new(Arc::clone(&config)).expect("a configuration");
        let mut stream = BufReader::new(StreamOwned::new(session, stream));
        while let Some(text) = request(&mut stream)? {
            let length = text.split(['/', ' ']).nth(2).and_then(|it| it.parse().ok());
            let length = length.unwrap_or(response.len());
            stream.get_mut().write_all(&response.as_bytes()[..length])?;
            stream.get_mut().flush()?;
            if length < response.len() {
                // Without the message that announces the close (close_notify).
                return Ok(());
            }
        }
        Ok(())
    });
    (server, cert.pem())
}

const RESPONSE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn trusting(url: &str, certificate: &Path) -> Client {
    Client::of_server(&Server {
        target: &Target::parse(url).expect("a URL"),
        limit: (LONG, "POST_TIMEOUT"),
        cacert: ("CACERT", Some(certificate)),
    })
    .expect("the certificate can be read")
}

#[test]
fn a_trusted_server_is_used_on_one_connection_and_a_cut_response_is_an_error() {
    let (server, certificate) = server("localhost", RESPONSE);
    let folder = Folder::new();
    let file = folder.file_with("ca.pem", &certificate);
    let url = format!("https://localhost:{}/", server.address().port());
    let mut client = trusting(&url, Path::new(&file));
    for _ in 0..2 {
        let response = client.post("/", &[], b"x").expect("it answers");
        assert_eq!(response.body, b"hello");
    }
    assert_eq!(server.peers().len(), 1);
    for length in 0..RESPONSE.len() {
        let mut client = trusting(&url, Path::new(&file));
        let reason = client.post(&format!("/{length}"), &[], b"x");
        expect_one_line(&reason.expect_err("it is cut").to_string());
    }
}

#[test]
fn a_certificate_that_is_not_trusted_or_for_another_name_is_refused() {
    let folder = Folder::new();
    for (name, has_authority) in [("localhost", false), ("other.test", true)] {
        let (server, certificate) = server(name, RESPONSE);
        let file = folder.file_with("ca.pem", &certificate);
        let url = format!("https://localhost:{}/", server.address().port());
        let mut client = if has_authority {
            trusting(&url, Path::new(&file))
        } else {
            client(&url, LONG)
        };
        let reason = client.post("/", &[], b"x").expect_err("it is refused");
        let reason = reason.to_string();
        assert!(reason.starts_with("certificate refused: "), "{reason}");
        // Nothing verifies the certificate of a target unless the plan says so.
        assert_eq!(status(&url, LONG), Ok(200));
        let exchange = client_of_plan(&url, |_| ()).exchange(GET.to_vec());
        let tls = exchange.expect("a request").tls.expect("it was set up");
        assert!(!tls.is_verified);
        assert_eq!(
            tls.certificate.map(|it| it.names),
            Some(vec![name.to_owned()])
        );
    }
}

#[test]
fn a_plain_server_at_an_https_url_is_an_error_of_tls() {
    let server = TestServer::start(|stream| {
        (&stream).write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")?;
        (&stream).read_to_end(&mut Vec::new()).map(drop)
    });
    let mut client = client(&format!("https://{}", server.address()), LONG);
    let failed = client.post("/", &[], b"x");
    let reason = failed.expect_err("it is not TLS").to_string();
    assert!(reason.contains("TLS"), "{reason}");
}
