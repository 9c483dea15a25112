//! TLS settings from user input. Each mistake has its own error.

use protocol::tls::{self, Identity, Options, Roots, TlsConfigError};

use crate::pair::HTTP1;

use crate::authority::Authority;

fn with_roots(pem: &[u8]) -> Result<(), TlsConfigError> {
    let options = Options {
        alpn: &[HTTP1.name],
        roots: Some(Roots::Pem(pem)),
        ..Options::default()
    };
    tls::config(&options).map(drop)
}

fn with_identity(certificates_pem: &[u8], key_pem: &[u8]) -> Result<(), TlsConfigError> {
    let identity = Some(Identity {
        certificates_pem,
        key_pem,
    });
    tls::config(&Options {
        alpn: &[HTTP1.name],
        roots: None,
        identity,
        ..Options::default()
    })
    .map(drop)
}

#[test]
fn a_file_without_authorities_is_rejected() {
    let key_only = Authority::new("x").certify("x").key_pem;
    for pem in [b"".as_slice(), b"no PEM at all", key_only.as_bytes()] {
        assert!(matches!(with_roots(pem), Err(TlsConfigError::Roots(_))));
    }
    let damaged = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(matches!(with_roots(damaged), Err(TlsConfigError::Roots(_))));
    let unended = b"-----BEGIN CERTIFICATE-----\nAAAA\n";
    assert!(matches!(with_roots(unended), Err(TlsConfigError::Roots(_))));
    assert_eq!(with_roots(Authority::new("x").pem().as_bytes()), Ok(()));
}

#[test]
fn an_empty_system_store_is_an_error_and_invalid_entries_are_skipped() {
    let none = Options {
        alpn: &[HTTP1.name],
        roots: Some(Roots::System(Vec::new())),
        ..Options::default()
    };
    assert_eq!(
        tls::config(&none).map(drop),
        Err(TlsConfigError::SystemRoots)
    );
    let odd = tls::CertificateDer::from(vec![1, 2, 3]);
    let mixed = vec![odd, Authority::new("x").certificate()];
    let options = Options {
        alpn: &[HTTP1.name],
        roots: Some(Roots::System(mixed)),
        ..Options::default()
    };
    assert_eq!(tls::config(&options).map(drop), Ok(()));
}

#[test]
fn certificate_and_key_must_be_valid_and_must_match() {
    let authority = Authority::new("x");
    let (mine, other) = (authority.certify("a"), authority.certify("b"));
    let (certificate, key) = (mine.certificate_pem.as_bytes(), mine.key_pem.as_bytes());
    assert_eq!(with_identity(certificate, key), Ok(()));
    assert!(matches!(
        with_identity(b"", key),
        Err(TlsConfigError::Certificate(_))
    ));
    assert!(matches!(
        with_identity(certificate, b""),
        Err(TlsConfigError::Key(_))
    ));
    assert!(matches!(
        with_identity(certificate, certificate),
        Err(TlsConfigError::Key(_))
    ));
    let foreign = with_identity(certificate, other.key_pem.as_bytes());
    assert!(matches!(foreign, Err(TlsConfigError::Identity(_))));
}

#[test]
fn only_dns_names_and_addresses_are_server_names() {
    for host in [
        "localhost",
        "a.example",
        "under_score.example",
        "127.0.0.1",
        "::1",
        "[::1]",
    ] {
        assert!(tls::server_name(host).is_ok(), "{host}");
    }
    for host in ["", "a b", "[nonsense]", "-", "a..b"] {
        let error = tls::server_name(host).expect_err("it is no name");
        assert_eq!(error, TlsConfigError::ServerName(host.to_owned()));
        assert!(error.to_string().contains(host));
    }
}
