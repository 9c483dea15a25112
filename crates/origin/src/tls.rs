//! TLS settings and certificates.

use std::io;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// A certificate and its key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// A certificate or a chain, the server's own certificate first.
    pub certificate_pem: String,
    /// The private key: PKCS#8, PKCS#1 or SEC1.
    pub key_pem: String,
}

impl std::fmt::Debug for Identity {
    /// Omits the key, which must not be logged.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity")
            .field("certificate_pem", &self.certificate_pem)
            .finish_non_exhaustive()
    }
}

impl Identity {
    /// Generates a self-signed certificate for these names and addresses.
    ///
    /// # Errors
    /// When a name is not valid in a certificate.
    pub fn self_signed(names: &[&str]) -> io::Result<Self> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names)
            .map_err(|why| invalid(&format!("no certificate could be made: {why}")))?;
        Ok(Self {
            certificate_pem: made.cert.pem(),
            key_pem: made.signing_key.serialize_pem(),
        })
    }
}

/// Settings of a TLS listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// The certificate of the server, with its key.
    pub identity: Identity,
    /// The versions of TLS that it accepts.
    pub versions: TlsVersions,
    /// CA certificates (PEM) for client certificates; `None` requests no client certificate.
    pub client_roots_pem: Option<String>,
    /// ALPN protocols; if empty, the extension is ignored.
    pub alpn: Vec<Vec<u8>>,
}

/// The versions of TLS that a listener accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsVersions {
    /// TLS 1.2 and 1.3; the client chooses.
    #[default]
    Both,
    /// TLS 1.2 alone (RFC 5246).
    Only12,
    /// TLS 1.3 alone (RFC 8446).
    Only13,
}

impl TlsSettings {
    /// Default settings: both versions, no client certificate, `h2` and `http/1.1`.
    #[must_use]
    pub fn new(identity: Identity) -> Self {
        Self {
            identity,
            versions: TlsVersions::Both,
            client_roots_pem: None,
            alpn: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        }
    }

    /// The settings for [`Options::tls`](crate::Options::tls).
    ///
    /// # Errors
    /// When a PEM text is invalid, or key and certificate do not match.
    pub fn config(&self) -> io::Result<Arc<ServerConfig>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions: &[&rustls::SupportedProtocolVersion] = match self.versions {
            TlsVersions::Both => rustls::ALL_VERSIONS,
            TlsVersions::Only12 => &[&rustls::version::TLS12],
            TlsVersions::Only13 => &[&rustls::version::TLS13],
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(|why| invalid(&format!("TLS versions: {why}")))?;
        let builder = match &self.client_roots_pem {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots(pem)?), provider)
                        .build()
                        .map_err(|why| invalid(&format!("client certificates: {why}")))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::from_pem_slice(self.identity.key_pem.as_bytes())
            .map_err(|why| invalid(&format!("the private key cannot be read: {why}")))?;
        let mut config = builder
            .with_single_cert(certificates(&self.identity.certificate_pem)?, key)
            .map_err(|why| invalid(&format!("certificate and key: {why}")))?;
        config.alpn_protocols = self.alpn.clone();
        Ok(Arc::new(config))
    }
}

fn certificates(pem: &str) -> io::Result<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let found = found.map_err(|why| invalid(&format!("a certificate cannot be read: {why}")))?;
    if found.is_empty() {
        return Err(invalid("there is no certificate in the PEM text"));
    }
    Ok(found)
}

fn roots(pem: &str) -> io::Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(pem)? {
        store
            .add(certificate)
            .map_err(|why| invalid(&format!("a client root cannot be used: {why}")))?;
    }
    Ok(store)
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_no_pem_are_refused_with_a_reason() {
        let good = Identity::self_signed(&["localhost", "127.0.0.1"]).unwrap();
        let other = Identity::self_signed(&["localhost"]).unwrap();
        let refusal = |certificate: &str, key: &str| {
            let identity = Identity {
                certificate_pem: certificate.to_owned(),
                key_pem: key.to_owned(),
            };
            TlsSettings::new(identity).config().unwrap_err().to_string()
        };
        assert!(refusal("", &good.key_pem).contains("no certificate"));
        assert!(refusal(&good.certificate_pem, "x").contains("private key"));
        assert!(refusal(&good.certificate_pem, &other.key_pem).contains("certificate and key"));
        assert!(TlsSettings::new(good).config().is_ok());
    }

    #[test]
    fn the_key_is_not_shown() {
        let identity = Identity::self_signed(&["localhost"]).unwrap();
        assert!(!format!("{identity:?}").contains("PRIVATE KEY"));
    }
}
