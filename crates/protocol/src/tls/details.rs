//! What a handshake has agreed on, for people to read.

use rustls::pki_types::CertificateDer;
use rustls::{CipherSuite, ClientConnection, ProtocolVersion};

use super::Tls;
use super::certificate::Certificate;

const TLS_1_3: &str = "TLS 1.3";

/// What a handshake has agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Details {
    /// The version by its usual name, such as `TLS 1.3`.
    pub version: String,
    /// The cipher suite by its registered name.
    pub cipher: String,
    /// The protocol that the server has chosen (ALPN), if it has.
    pub alpn: Option<String>,
    /// The server's certificate and those above it. What cannot be parsed is left out.
    pub certificates: Vec<Certificate>,
}

impl<S> Tls<S> {
    /// What the handshake has agreed on; `None` before its end.
    #[must_use]
    pub fn details(&self) -> Option<Details> {
        let connection = self.connection.as_deref()?;
        (!connection.is_handshaking()).then(|| details(connection))
    }
}

fn details(connection: &ClientConnection) -> Details {
    let version = match connection.protocol_version() {
        Some(ProtocolVersion::TLSv1_2) => "TLS 1.2".to_owned(),
        Some(ProtocolVersion::TLSv1_3) => TLS_1_3.to_owned(),
        other => format!("{other:?}"),
    };
    let suite = connection.negotiated_cipher_suite();
    Details::new(
        version,
        suite.map(|suite| suite.suite()),
        connection.alpn_protocol(),
        connection.peer_certificates().unwrap_or_default(),
    )
}

impl Details {
    /// Those of a handshake of QUIC, which has no other version (RFC 9001 section 4.2).
    pub(crate) fn of_tls_1_3(
        suite: CipherSuite,
        alpn: Option<&[u8]>,
        chain: &[CertificateDer<'_>],
    ) -> Self {
        Self::new(TLS_1_3.to_owned(), Some(suite), alpn, chain)
    }

    fn new(
        version: String,
        suite: Option<CipherSuite>,
        alpn: Option<&[u8]>,
        chain: &[CertificateDer<'_>],
    ) -> Self {
        let cipher = suite.and_then(|suite| suite.as_str()).unwrap_or("unknown");
        let certificates = chain.iter().filter_map(|der| Certificate::parse(der));
        Self {
            version,
            // rustls prefixes the suites of TLS 1.3 with its version.
            cipher: cipher.replace("TLS13_", "TLS_"),
            alpn: alpn.map(|name| String::from_utf8_lossy(name).into_owned()),
            certificates: certificates.collect(),
        }
    }
}
