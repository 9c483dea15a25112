//! Makes a connection to one of the servers.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::framing::{Framing, FramingError, Operation};
use super::login::{Proof, ServerAddress};
use crate::message::MAX_MESSAGE_BYTES;

/// How long connecting to one address may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// How much is read at a time.
pub(super) const READ_BYTES: usize = 64 * 1024;

/// A byte stream, with or without TLS.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// An open connection that the server has admitted.
pub(super) struct Link {
    pub(super) stream: Box<dyn Stream>,
    pub(super) framing: Framing,
}

/// Why there is no connection; one line.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    /// It may be there later.
    #[error("{0}")]
    Unreachable(String),
    #[error(
        "the server does not admit this user; check --nats-seed or --nats-creds, and that the \
         server's configuration has the user"
    )]
    NotAdmitted,
    /// Trying again is of no use, or would be dangerous.
    #[error("{0}")]
    Unusable(String),
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> Self {
        Self::Unreachable(error.to_string())
    }
}

impl From<FramingError> for LinkError {
    fn from(error: FramingError) -> Self {
        match error {
            // It may be in front of a server that is being started.
            FramingError::Malformed(_) | FramingError::NoInfo => {
                Self::Unreachable(error.to_string())
            }
            FramingError::Line | FramingError::Size { .. } | FramingError::Flood => {
                Self::Unusable(error.to_string())
            }
        }
    }
}

/// Whom to connect to, and how.
pub(super) struct Connector {
    pub(super) servers: Vec<ServerAddress>,
    pub(super) proof: Proof,
    pub(super) name: String,
    pub(super) cacert: Option<PathBuf>,
    pub(super) cert_and_key: Option<(PathBuf, PathBuf)>,
    /// Made for the first server that wants TLS.
    pub(super) tls: Option<TlsConnector>,
}

impl Connector {
    /// Connects to the first server that admits this client.
    ///
    /// # Errors
    /// Why the last one does not.
    pub(super) async fn connect(&mut self) -> Result<Link, LinkError> {
        let mut last = LinkError::Unreachable("no server is named".to_owned());
        for server in self.servers.clone() {
            match self.connect_to(&server).await {
                Ok(link) => return Ok(link),
                Err(error @ LinkError::Unusable(_)) => return Err(error),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn connect_to(&mut self, server: &ServerAddress) -> Result<Link, LinkError> {
        let addresses = tokio::net::lookup_host((server.host.as_str(), server.port)).await;
        let addresses = addresses.map_err(|error| {
            LinkError::Unreachable(format!("{} cannot be resolved: {error}", server.host))
        })?;
        let mut last = LinkError::Unreachable(format!("{} has no address", server.host));
        for address in addresses {
            let mut is_open = false;
            let connected = tokio::time::timeout(CONNECT_LIMIT, async {
                let stream = TcpStream::connect(address).await?;
                is_open = true;
                stream.set_nodelay(true)?;
                self.introduce(stream, server).await
            });
            match connected.await {
                Ok(Ok(link)) => return Ok(link),
                Ok(Err(error @ LinkError::Unusable(_))) => return Err(error),
                Ok(Err(error)) => last = error,
                Err(_) => {
                    let reason = if is_open {
                        "it does not introduce itself as a NATS server within 5 s"
                    } else {
                        "no response within 5 s"
                    };
                    last = LinkError::Unreachable(reason.to_owned());
                }
            }
        }
        Err(last)
    }

    /// Speaks with the server until it has admitted this client.
    async fn introduce(
        &mut self,
        stream: TcpStream,
        server: &ServerAddress,
    ) -> Result<Link, LinkError> {
        let mut stream: Box<dyn Stream> = Box::new(stream);
        let mut replies = Replies::default();
        let Operation::Info(info) = replies.next(&mut stream).await? else {
            return Err(FramingError::NoInfo.into());
        };
        let is_encrypted = server.needs_tls || info.tls_required;
        if is_encrypted {
            if !replies.are_read() {
                // Somebody on the way may have added this before the encryption.
                let reason = "the server does not wait for the start of TLS";
                return Err(LinkError::Unreachable(reason.to_owned()));
            }
            let name = ServerName::try_from(server.host.clone())
                .map_err(|error| LinkError::Unusable(error.to_string()))?;
            let tls = self.tls_connector()?.clone();
            stream = Box::new(tls.connect(name, stream).await?);
        }
        let introduction = self
            .proof
            .introduction(&self.name, server, &info, is_encrypted);
        let introduction = introduction.map_err(LinkError::Unusable)? + "PING\r\n";
        stream.write_all(introduction.as_bytes()).await?;
        stream.flush().await?;
        loop {
            match replies.next(&mut stream).await? {
                Operation::Pong => break,
                Operation::Error(text) => {
                    let text_lower = text.to_ascii_lowercase();
                    let is_login = ["authorization", "authentication"]
                        .iter()
                        .any(|word| text_lower.contains(word));
                    return Err(if is_login {
                        LinkError::NotAdmitted
                    } else {
                        LinkError::Unreachable(format!("the server says: {text}"))
                    });
                }
                _ => {}
            }
        }
        if info.max_payload < MAX_MESSAGE_BYTES as u64 {
            return Err(LinkError::Unusable(format!(
                "the server accepts messages of {} bytes; set its max_payload to at least \
                 {MAX_MESSAGE_BYTES}",
                info.max_payload
            )));
        }
        Ok(Link {
            stream,
            framing: replies.framing,
        })
    }

    fn tls_connector(&mut self) -> Result<&TlsConnector, LinkError> {
        let connector = match self.tls.take() {
            Some(connector) => connector,
            None => {
                let identity = self.cert_and_key.as_ref();
                let config = tls_config(self.cacert.as_deref(), identity);
                TlsConnector::from(Arc::new(config.map_err(LinkError::Unusable)?))
            }
        };
        Ok(self.tls.insert(connector))
    }
}

/// What the server says before it has admitted the client.
#[derive(Default)]
struct Replies {
    framing: Framing,
    waiting: VecDeque<Operation>,
}

impl Replies {
    async fn next(&mut self, stream: &mut Box<dyn Stream>) -> Result<Operation, LinkError> {
        let mut bytes = vec![0; READ_BYTES];
        loop {
            if let Some(operation) = self.waiting.pop_front() {
                return Ok(operation);
            }
            let count = stream.read(&mut bytes).await?;
            if count == 0 {
                let reason = "the server has closed the connection";
                return Err(LinkError::Unreachable(reason.to_owned()));
            }
            let waiting = &mut self.waiting;
            self.framing.take(&bytes[..count], &mut |operation| {
                waiting.push_back(operation)
            })?;
        }
    }

    fn are_read(&self) -> bool {
        self.waiting.is_empty() && self.framing.is_between_lines()
    }
}

/// Trusts the system's authorities and those of a file.
///
/// # Errors
/// Which file cannot be used and why, in one line.
fn tls_config(
    cacert: Option<&Path>,
    cert_and_key: Option<&(PathBuf, PathBuf)>,
) -> Result<ClientConfig, String> {
    let unusable = |path: &Path, why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let mut roots = RootCertStore::empty();
    // Old certificates in the system's store are skipped.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = cacert {
        for certificate in certificates(path)? {
            roots
                .add(certificate)
                .map_err(|error| unusable(path, &error))?;
        }
    }
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let Some((certificate, key)) = cert_and_key else {
        return Ok(builder.with_no_client_auth());
    };
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error))?;
    builder
        .with_client_auth_cert(certificates(certificate)?, private)
        .map_err(|error| unusable(certificate, &error))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let unusable = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let all = CertificateDer::pem_file_iter(path).map_err(|error| unusable(&error))?;
    let all: Vec<_> = all
        .collect::<Result<_, _>>()
        .map_err(|error| unusable(&error))?;
    if all.is_empty() {
        Err(unusable(&"it has no certificate"))
    } else {
        Ok(all)
    }
}
