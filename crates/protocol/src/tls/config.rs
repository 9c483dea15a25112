//! TLS settings: which certificates to trust, which to present, and which name to ask for.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use super::Certificate;

/// The user's choices about TLS. The default offers no protocol, verifies nothing and presents no
/// certificate, as wrk does: most servers under load test have certificates made for a test.
#[derive(Debug, Default)]
pub struct Options<'a> {
    /// The protocols that are offered (ALPN, RFC 7301), the preferred one first.
    pub alpn: &'a [&'a [u8]],
    /// Verify the server's certificate and its name against these. `None` verifies nothing.
    pub roots: Option<Roots<'a>>,
    /// The certificate for servers that ask for a client certificate.
    pub identity: Option<Identity<'a>>,
    /// Each handshake is a full one: no session is resumed.
    pub full_handshakes: bool,
    /// Handshakes that resume a session offer early data (0-RTT). Only a session over QUIC sends
    /// any.
    pub early_data: bool,
    /// Where to note the certificate of the server, also if it is then rejected.
    pub seen: Option<SeenCertificate>,
}

/// The certificate that the first server has presented. Clones are the same place.
#[derive(Debug, Clone, Default)]
pub struct SeenCertificate(Arc<OnceLock<CertificateDer<'static>>>);

impl SeenCertificate {
    /// The certificate, if there was one that can be parsed.
    #[must_use]
    pub fn get(&self) -> Option<Certificate> {
        self.0.get().and_then(|der| Certificate::parse(der))
    }
}

/// Certificate authorities to trust.
#[derive(Debug)]
pub enum Roots<'a> {
    /// The system's store. Entries that cannot be parsed are skipped, since such stores contain old
    /// ones.
    System(Vec<CertificateDer<'static>>),
    /// The content of a PEM file. Every certificate in it must be valid.
    Pem(&'a [u8]),
}

/// A client certificate, as the content of PEM files.
#[derive(Debug, Clone, Copy)]
pub struct Identity<'a> {
    /// The certificate, followed by its chain.
    pub certificates_pem: &'a [u8],
    /// Its private key: PKCS #8, PKCS #1 or SEC 1, not encrypted.
    pub key_pem: &'a [u8],
}

/// Why TLS cannot be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsConfigError {
    /// The name is neither a DNS name nor an IP address.
    #[error("`{0}` is neither a DNS name nor an IP address, and TLS needs one")]
    ServerName(String),
    /// `--cacert` has no usable certificate.
    #[error("no usable certificate authority in the PEM file: {0}")]
    Roots(String),
    /// The system's store has no usable certificate.
    #[error("the system store has no usable certificate authority; pass a PEM file with --cacert")]
    SystemRoots,
    /// `--cert` has no usable certificate.
    #[error("no usable client certificate in the PEM file: {0}")]
    Certificate(String),
    /// `--key` has no usable key.
    #[error("no usable private key in the PEM file (encrypted keys are not supported): {0}")]
    Key(String),
    /// Certificate and key do not match, or are of an unsupported kind.
    #[error("client certificate and key cannot be used together: {0}")]
    Identity(String),
    /// The TLS library reported an error.
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
}

/// Settings for connections: TLS 1.2 and 1.3, a store of session tickets.
///
/// # Errors
/// If a given certificate or key cannot be used.
pub fn config(options: &Options<'_>) -> Result<Arc<ClientConfig>, TlsConfigError> {
    // Passed explicitly: a process-wide default panics if two libraries are linked in.
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsConfigError::Setup(error.to_string()))?;
    let mut listed = Vec::new();
    let authorities: Arc<dyn ServerCertVerifier> = match &options.roots {
        Some(Roots::Pem(pem)) => {
            listed = certificates(pem).map_err(TlsConfigError::Roots)?;
            listed_authorities(&listed, provider)?
        }
        Some(Roots::System(certificates)) => {
            let store = Arc::new(system_store(certificates)?);
            WebPkiServerVerifier::builder_with_provider(store, provider)
                .build()
                .map_err(|error| TlsConfigError::Setup(error.to_string()))?
        }
        None => Arc::new(AcceptAnyServer(provider)),
    };
    let verifier = Arc::new(Verifier {
        authorities,
        listed,
        seen: options.seen.clone(),
    });
    let builder = builder
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match &options.identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let key = PrivateKeyDer::from_pem_slice(identity.key_pem)
                .map_err(|error| TlsConfigError::Key(error.to_string()))?;
            let chain =
                certificates(identity.certificates_pem).map_err(TlsConfigError::Certificate)?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| TlsConfigError::Identity(error.to_string()))?
        }
    };
    if options.full_handshakes {
        config.resumption = Resumption::disabled();
    }
    config.enable_early_data = options.early_data;
    config.alpn_protocols = options.alpn.iter().map(|name| name.to_vec()).collect();
    Ok(Arc::new(config))
}

/// The name for SNI and verification: a DNS name, or an IP address, bare or in brackets. An address
/// is verified but not sent (RFC 6066 section 3).
///
/// # Errors
/// If it is neither.
pub fn server_name(host: &str) -> Result<ServerName<'static>, TlsConfigError> {
    let address = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    if let Some(address) = address.and_then(|address| address.parse::<Ipv6Addr>().ok()) {
        return Ok(ServerName::from(IpAddr::V6(address)));
    }
    ServerName::try_from(host.to_owned()).map_err(|_| TlsConfigError::ServerName(host.to_owned()))
}

/// Why a certificate was rejected, in words that tell the user what to check.
pub(super) fn certificate_reason(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => "it is not signed by a trusted authority".to_owned(),
        CertificateError::BadSignature => "its signature is wrong".to_owned(),
        CertificateError::Revoked => "it is revoked".to_owned(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet".to_owned()
        }
        CertificateError::BadEncoding => "it is not encoded correctly".to_owned(),
        CertificateError::NotValidForName => "it is for another name".to_owned(),
        // This reason has no variant of its own.
        CertificateError::Other(error) if format!("{error:?}").contains("CaUsedAsEndEntity") => {
            CA_AS_SERVER.to_owned()
        }
        other => other.to_string(),
    }
}

/// The same for an error of the TLS library of which only the text is known, because it came
/// through QUIC.
pub(super) fn certificate_reason_of_text(text: &str) -> String {
    use CertificateError as Error;
    let known = [
        (Error::UnknownIssuer, "UnknownIssuer"),
        (Error::BadSignature, "BadSignature"),
        (Error::Revoked, "Revoked"),
        (Error::Expired, "certificate expired"),
        (Error::NotValidYet, "certificate not valid yet"),
        (Error::BadEncoding, "BadEncoding"),
        (Error::NotValidForName, "certificate not valid for name"),
    ];
    let found = known
        .iter()
        .find(|(error, beginning)| text.starts_with(beginning) || text == format!("{error:?}"));
    match found {
        Some((error, _)) => certificate_reason(error),
        None if text.contains("CaUsedAsEndEntity") => CA_AS_SERVER.to_owned(),
        None => text.to_owned(),
    }
}

/// Why a self-signed certificate is refused that claims to be an authority.
const CA_AS_SERVER: &str =
    "it is a CA certificate, not a server's; pass it with --cacert to trust it";

fn system_store(certificates: &[CertificateDer<'static>]) -> Result<RootCertStore, TlsConfigError> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(certificates.iter().cloned());
    if store.is_empty() {
        return Err(TlsConfigError::SystemRoots);
    }
    Ok(store)
}

/// All certificates of a PEM file, at least one.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(certificates) if certificates.is_empty() => Err("it has no certificate".to_owned()),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(error.to_string()),
    }
}

/// The authorities in the user's file.
fn listed_authorities(
    certificates: &[CertificateDer<'static>],
    provider: Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, TlsConfigError> {
    let rejected = |error: &dyn std::fmt::Display| TlsConfigError::Roots(error.to_string());
    let mut store = RootCertStore::empty();
    for certificate in certificates {
        store
            .add(certificate.clone())
            .map_err(|error| rejected(&error))?;
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider)
        .build()
        .map_err(|error| rejected(&error))
}

/// Notes the server's certificate, and verifies it.
///
/// Besides the authorities it trusts each certificate in the user's file if the server presents
/// that same certificate. That is how self-signed certificates are used. Most of them claim to be
/// an authority, and an authority is not accepted as a server otherwise.
#[derive(Debug)]
struct Verifier {
    authorities: Arc<dyn ServerCertVerifier>,
    /// The certificates in the user's file.
    listed: Vec<CertificateDer<'static>>,
    seen: Option<SeenCertificate>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(SeenCertificate(seen)) = &self.seen {
            // Only the first one is kept.
            let _ = seen.set(end_entity.clone().into_owned());
        }
        let verified = self.authorities.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            // "A CA used as a server" has no variant of its own. Its validity period is checked
            // before that.
            Err(rustls::Error::InvalidCertificate(CertificateError::Other(_)))
                if self.listed.contains(end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.authorities
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.authorities
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

/// Accepts any server. The signature of the handshake is not checked either: without a trusted
/// certificate it proves nothing, and a certificate that cannot be parsed would fail the run.
#[derive(Debug)]
struct AcceptAnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let mut schemes = self.0.signature_verification_algorithms.supported_schemes();
        // The library cannot verify it, and here nothing is verified.
        schemes.push(SignatureScheme::ECDSA_NISTP521_SHA512);
        schemes
    }
}
