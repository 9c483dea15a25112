//! TLS 1.2 and 1.3 (RFC 5246, RFC 8446) around any other session.

mod certificate;
mod config;
mod details;

use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::{AlertDescription, ClientConnection, HandshakeKind, StreamOwned};

pub use certificate::Certificate;
pub use config::{Identity, Options, Roots, SeenCertificate, TlsConfigError, config, server_name};
pub use details::Details;
pub use rustls::ClientConfig;
pub use rustls::pki_types::{CertificateDer, ServerName};

use crate::proxy::ProxyFault;
use crate::request::RequestText;
use crate::{Event, ExchangeId, Handshake, Requests, Session, SessionError};

/// What TLS connections need.
#[derive(Clone)]
pub struct TlsClient {
    /// Shared by all connections, including its store of session tickets.
    pub config: Arc<ClientConfig>,
    /// The server's name, for SNI and verification.
    pub name: ServerName<'static>,
    /// The names of the other hosts of a run.
    pub more_names: Vec<ServerName<'static>>,
}

/// The protocol inside TLS, as servers choose it in the handshake (ALPN, RFC 7301).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlpnProtocol {
    /// Its registered name, such as `h2`.
    pub name: &'static [u8],
    /// Whether servers that choose no protocol speak it.
    pub is_implied: bool,
}

impl AlpnProtocol {
    fn is(self, chosen: Option<&[u8]>) -> bool {
        chosen.map_or(self.is_implied, |name| name == self.name)
    }
}

/// Completes a handshake over a blocking stream, and closes TLS. Returns the protocol that the
/// server has chosen. Later connections cannot resume this one.
///
/// # Errors
/// If the handshake fails.
pub fn chosen_protocol(
    config: &ClientConfig,
    server_name: ServerName<'static>,
    stream: &mut (impl Read + Write),
) -> io::Result<Option<Vec<u8>>> {
    let mut config = config.clone();
    config.resumption = Resumption::disabled();
    let mut connection =
        ClientConnection::new(Arc::new(config), server_name).map_err(io::Error::other)?;
    connection.complete_io(stream)?;
    let chosen = connection.alpn_protocol().map(<[u8]>::to_vec);
    connection.send_close_notify();
    // The server may have closed already.
    let _ = connection.write_tls(stream);
    Ok(chosen)
}

/// Why a handshake over a blocking stream has failed, one line.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The two sides do not agree.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The stream has a timeout, which has passed.
    #[error("the TLS handshake was not complete in time")]
    Timeout,
    /// The stream cannot be used.
    #[error(transparent)]
    System(io::Error),
}

/// A blocking stream within TLS, after the handshake.
///
/// # Errors
/// Why the handshake failed.
pub fn blocking_stream<T: Read + Write>(
    config: &Arc<ClientConfig>,
    server_name: ServerName<'static>,
    mut stream: T,
) -> Result<impl Read + Write + use<T>, HandshakeError> {
    let mut connection = ClientConnection::new(Arc::clone(config), server_name)
        .map_err(|error| session_error(error, true))?;
    let handshake = connection.complete_io(&mut stream);
    handshake.map_err(|error| {
        let of_tls = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match of_tls {
            Some(of_tls) => session_error(of_tls.clone(), true).into(),
            None if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                HandshakeError::Timeout
            }
            None => HandshakeError::System(error),
        }
    })?;
    Ok(StreamOwned::new(connection, stream))
}

/// What all TLS sessions of a worker share.
#[derive(Debug)]
pub struct TlsContext<T> {
    /// What the inner sessions share.
    pub inner: T,
    /// Without it, there is no TLS, and bytes are passed on.
    client: Option<Client>,
    /// What an inner session sends on its own. Empty between calls.
    inner_output: Vec<u8>,
}

#[derive(Debug)]
struct Client {
    config: Arc<ClientConfig>,
    /// The names of all hosts of the run; at least one.
    server_names: Vec<ServerName<'static>>,
    /// The index of the name that is used next.
    host: usize,
    spoken: AlpnProtocol,
    /// The peer is a proxy: what fails in the handshake is its fault, not the target's.
    is_to_proxy: bool,
}

impl<T> TlsContext<T> {
    /// The context of one worker's sessions, made in its thread. A `config` may serve several
    /// workers. They then share its session tickets, behind a lock that is taken for handshakes
    /// only.
    #[must_use]
    pub fn new(
        config: Arc<ClientConfig>,
        server_name: ServerName<'static>,
        spoken: AlpnProtocol,
        inner: T,
    ) -> Self {
        // The provider gathers entropy in each thread at its first use, which takes milliseconds.
        // Do it now, not within the first measured handshake. If this fails, so will that
        // handshake.
        let _ = config.crypto_provider().secure_random.fill(&mut [0]);
        Self {
            inner,
            client: Some(Client {
                config,
                server_names: vec![server_name],
                host: 0,
                spoken,
                is_to_proxy: false,
            }),
            inner_output: Vec::new(),
        }
    }

    /// Connections without TLS: the session passes everything on.
    #[must_use]
    pub fn without_tls(inner: T) -> Self {
        Self {
            inner,
            client: None,
            inner_output: Vec::new(),
        }
    }

    /// Connections go to further hosts too, after the first one; [`Session::select_host`] chooses.
    #[must_use]
    pub fn with_more_hosts(mut self, names: Vec<ServerName<'static>>) -> Self {
        if let Some(client) = &mut self.client {
            client.server_names.extend(names);
        }
        self
    }

    /// The peer is a proxy. The handshake is reported as [`Event::ProxyReady`] if requests may then
    /// be sent, and otherwise not at all.
    #[must_use]
    pub fn to_proxy(mut self) -> Self {
        if let Some(client) = &mut self.client {
            client.is_to_proxy = true;
        }
        self
    }
}

/// The client's side of a TLS connection around a session `S`.
///
/// A new connection resumes an earlier TLS session of the same [`ClientConfig`], whichever slot it
/// was on, if the server has issued a ticket, unless [`Options::full_handshakes`] is set.
///
/// A close without `close_notify` is judged by the inner session. Within a response of known length
/// it is [`SessionError::Truncated`]. Between responses it is fine. A response that is delimited by
/// the close is complete, as in browsers, because many servers never send `close_notify`.
#[derive(Debug)]
pub struct Tls<S> {
    /// Set by `begin`; `None` without TLS. Boxed, because it is a kilobyte that plain connections
    /// need not carry.
    connection: Option<Box<ClientConnection>>,
    inner: S,
    is_ready: bool,
    has_input: bool,
    has_close_notify: bool,
}

impl<S: Session> Session for Tls<S> {
    type Context = TlsContext<S::Context>;
    type Prepared = S::Prepared;

    const SENDS_TEXT: bool = S::SENDS_TEXT;
    const TRANSPARENT: bool = false;

    fn new(context: &mut Self::Context) -> Self {
        Self {
            connection: None,
            inner: S::new(&mut context.inner),
            is_ready: false,
            has_input: false,
            has_close_notify: false,
        }
    }

    fn prepare(context: &mut Self::Context, request: &RequestText<'_>) -> S::Prepared {
        S::prepare(&mut context.inner, request)
    }

    fn begin(
        &mut self,
        context: &mut Self::Context,
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        self.is_ready = false;
        self.has_input = false;
        self.has_close_notify = false;
        let Some(client) = &context.client else {
            self.connection = None;
            self.is_ready = true;
            return self.inner.begin(&mut context.inner, output);
        };
        let (config, name) = (
            Arc::clone(&client.config),
            client.server_names[client.host].clone(),
        );
        let connection = ClientConnection::new(config, name)
            .map_err(|error| SessionError::TlsHandshake(error.to_string()))?;
        let connection = self.connection.insert(Box::new(connection));
        self.inner
            .begin(&mut context.inner, &mut context.inner_output)?;
        // Until the handshake is complete, the library holds this back.
        send(connection, &context.inner_output, output)?;
        context.inner_output.clear();
        flush(connection, output)
    }

    fn select_host(context: &mut Self::Context, host: u32) {
        if let Some(client) = &mut context.client {
            client.host = (host as usize).min(client.server_names.len() - 1);
        }
        S::select_host(&mut context.inner, host);
    }

    fn is_ready(&self) -> bool {
        self.is_ready && self.inner.is_ready()
    }

    #[inline]
    fn capacity(&self) -> u32 {
        self.inner.capacity()
    }

    fn start(
        &mut self,
        context: &mut Self::Context,
        exchange: ExchangeId,
        requests: Requests<'_, S::Prepared>,
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        let TlsContext {
            inner,
            inner_output,
            ..
        } = context;
        let Some(connection) = self.connection.as_deref_mut() else {
            if S::TRANSPARENT {
                output.extend_from_slice(requests.text);
            }
            return self.inner.start(inner, exchange, requests, output);
        };
        self.inner.start(inner, exchange, requests, inner_output)?;
        if S::TRANSPARENT {
            return send(connection, requests.text, output);
        }
        self.flush_all(context, output)
    }

    fn cancel(
        &mut self,
        context: &mut Self::Context,
        exchange: ExchangeId,
        output: &mut Vec<u8>,
    ) -> Result<bool, SessionError> {
        let TlsContext {
            inner,
            inner_output,
            ..
        } = context;
        let cancelled = self.inner.cancel(inner, exchange, inner_output)?;
        self.flush_all(context, output)?;
        Ok(cancelled)
    }

    fn resume(
        &mut self,
        context: &mut Self::Context,
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        let TlsContext {
            inner,
            inner_output,
            ..
        } = context;
        self.inner.resume(inner, inner_output)?;
        self.flush_all(context, output)
    }

    fn close(&mut self, context: &mut Self::Context, output: &mut Vec<u8>) {
        let TlsContext {
            inner,
            inner_output,
            ..
        } = context;
        self.inner.close(inner, inner_output);
        // Without a handshake, or after an error, nothing can be sent.
        if !self.is_ready || self.flush_all(context, output).is_err() {
            context.inner_output.clear();
        }
    }

    fn receive(
        &mut self,
        context: &mut Self::Context,
        input: &[u8],
        output: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError> {
        if self.connection.is_none() {
            return self
                .inner
                .receive(&mut context.inner, input, output, events);
        }
        let received = self.receive_records(context, input, output, events);
        received.map_err(|error| self.blamed(context, error))
    }

    fn skippable_bytes(&self) -> u64 {
        match self.connection {
            None => self.inner.skippable_bytes(),
            Some(_) => 0,
        }
    }

    fn skip(&mut self, bytes: u64, events: &mut Vec<Event>) {
        if self.connection.is_none() {
            self.inner.skip(bytes, events);
        }
    }

    fn end(
        &mut self,
        context: &mut Self::Context,
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError> {
        if !self.is_ready {
            return Err(self.blamed(context, SessionError::TlsClosed));
        }
        self.inner.end(&mut context.inner, events)
    }

    fn interruption(&self, context: &Self::Context) -> Option<SessionError> {
        if self.is_ready {
            self.inner.interruption(&context.inner)
        } else {
            Some(self.blamed(context, SessionError::TlsClosed))
        }
    }

    fn awaits(&self) -> Option<&'static str> {
        if self.is_ready {
            self.inner.awaits()
        } else {
            Some("the TLS handshake was not finished")
        }
    }

    fn partial_bytes(&self) -> u64 {
        self.inner.partial_bytes()
    }

    fn redirect_location(context: &Self::Context) -> Option<&str> {
        S::redirect_location(&context.inner)
    }

    fn streams_limit(context: &Self::Context) -> Option<u32> {
        S::streams_limit(&context.inner)
    }
}

impl<S: Session> Tls<S> {
    /// The error of a handshake with a proxy is the proxy's. Errors of the inner session remain.
    fn blamed(&self, context: &TlsContext<S::Context>, error: SessionError) -> SessionError {
        let is_to_proxy = context
            .client
            .as_ref()
            .is_some_and(|client| client.is_to_proxy);
        match error {
            error @ SessionError::Proxy(_) => error,
            error if is_to_proxy && !self.is_ready => {
                let reason = error.to_string();
                SessionError::Proxy(if error.is_refusal() {
                    ProxyFault::TlsRefusal(reason)
                } else {
                    ProxyFault::Tls(reason)
                })
            }
            error => error,
        }
    }

    fn receive_records(
        &mut self,
        context: &mut TlsContext<S::Context>,
        input: &[u8],
        output: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError> {
        self.check_first_byte(input)?;
        let mut rest = input;
        while !rest.is_empty() && !self.has_close_notify {
            let taken = self.take_records(context.client.as_ref(), rest, events);
            // What was decrypted before a fault is valid and is handled first. The same applies to
            // an alert that tells the peer what it did wrong.
            let drained = self.drain(context, events);
            self.flush_all(context, output)?;
            drained?;
            rest = &rest[taken?..];
        }
        if self.has_close_notify && self.is_ready {
            return self.inner.end(&mut context.inner, events);
        }
        Ok(())
    }

    /// The first byte of a server is the type of a handshake or alert record (RFC 8446 section
    /// 5.1). This distinguishes a server that does not speak TLS from one whose handshake fails.
    fn check_first_byte(&mut self, input: &[u8]) -> Result<(), SessionError> {
        match input.first() {
            Some(0x14..=0x17) => {}
            Some(_) if !self.has_input => return Err(SessionError::NotTls),
            _ => {}
        }
        self.has_input |= !input.is_empty();
        Ok(())
    }

    /// Consumes bytes of records, as many as the TLS library takes at once, and processes the
    /// complete ones. Returns the number of bytes.
    fn take_records(
        &mut self,
        client: Option<&Client>,
        mut input: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<usize, SessionError> {
        let (Some(connection), Some(client)) = (self.connection.as_deref_mut(), client) else {
            return Err(SessionError::TlsClosed);
        };
        let was_handshaking = connection.is_handshaking();
        let taken = connection
            .read_tls(&mut input)
            .map_err(|error| SessionError::TlsRecord(error.to_string()))?;
        let processed = connection.process_new_packets();
        // Checked before the fault: a server may complete the handshake and reject the client's
        // certificate in one piece.
        if !self.is_ready && !connection.is_handshaking() {
            if !client.spoken.is(connection.alpn_protocol()) {
                return Err(SessionError::OtherProtocol);
            }
            self.is_ready = true;
            match client.is_to_proxy {
                false => events.push(Event::Ready(handshake(connection))),
                // Otherwise it must first be asked for a tunnel.
                true if self.inner.is_ready() => events.push(Event::ProxyReady),
                true => {}
            }
        }
        let state = processed.map_err(|error| session_error(error, was_handshaking))?;
        self.has_close_notify |= state.peer_has_closed();
        if taken == 0 && !self.has_close_notify {
            return Err(SessionError::TlsRecord("record too large".to_owned()));
        }
        Ok(taken)
    }

    /// Passes the decrypted bytes to the inner session, without copying.
    fn drain(
        &mut self,
        context: &mut TlsContext<S::Context>,
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError> {
        let Some(connection) = self.connection.as_deref_mut() else {
            return Ok(());
        };
        let mut reader = connection.reader();
        // An error means that there is nothing more at the moment.
        while let Ok(plain) = reader.fill_buf()
            && !plain.is_empty()
        {
            self.inner
                .receive(&mut context.inner, plain, &mut context.inner_output, events)?;
            let length = plain.len();
            reader.consume(length);
        }
        Ok(())
    }

    fn flush_all(
        &mut self,
        context: &mut TlsContext<S::Context>,
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        let Some(connection) = self.connection.as_deref_mut() else {
            output.append(&mut context.inner_output);
            return Ok(());
        };
        if !context.inner_output.is_empty() {
            send(connection, &context.inner_output, output)?;
            context.inner_output.clear();
        }
        flush(connection, output)
    }
}

/// Encrypts `plain` in parts, so that the library's own buffer stays small.
fn send(
    connection: &mut ClientConnection,
    plain: &[u8],
    output: &mut Vec<u8>,
) -> Result<(), SessionError> {
    let mut rest = plain;
    while !rest.is_empty() {
        match connection.writer().write(rest) {
            Ok(0) => {
                return Err(SessionError::TlsHandshake(
                    "too much to send before it is complete".into(),
                ));
            }
            Ok(taken) => rest = &rest[taken..],
            Err(error) => return Err(SessionError::TlsRecord(error.to_string())),
        }
        flush(connection, output)?;
    }
    Ok(())
}

fn flush(connection: &mut ClientConnection, output: &mut Vec<u8>) -> Result<(), SessionError> {
    while connection.wants_write() {
        connection
            .write_tls(output)
            .map_err(|error| SessionError::TlsRecord(error.to_string()))?;
    }
    Ok(())
}

fn handshake(connection: &ClientConnection) -> Handshake {
    Handshake {
        resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        version: connection.protocol_version().map_or(0, u16::from),
    }
}

fn session_error(error: rustls::Error, is_handshaking: bool) -> SessionError {
    match error {
        rustls::Error::AlertReceived(alert) => SessionError::TlsAlert(alert_name(alert)),
        rustls::Error::InvalidCertificate(reason) => {
            SessionError::TlsCertificate(config::certificate_reason(&reason))
        }
        rustls::Error::NoCertificatesPresented => {
            SessionError::TlsCertificate("the server sent none".to_owned())
        }
        other if is_handshaking => SessionError::TlsHandshake(other.to_string()),
        other => SessionError::TlsRecord(other.to_string()),
    }
}

/// The error of a handshake within QUIC, which the server has ended with this alert (RFC 9001
/// section 4.8).
pub(crate) fn error_of_peer_alert(alert: u8) -> SessionError {
    match AlertDescription::from(alert) {
        AlertDescription::NoApplicationProtocol => SessionError::OtherProtocol,
        alert => SessionError::TlsAlert(alert_name(alert)),
    }
}

/// The error of a handshake within QUIC, which this end has ended with this alert for this reason.
pub(crate) fn error_of_own_alert(alert: u8, reason: &str) -> SessionError {
    match AlertDescription::from(alert) {
        AlertDescription::NoApplicationProtocol => SessionError::OtherProtocol,
        _ => match reason.strip_prefix("invalid peer certificate: ") {
            Some(reason) => {
                SessionError::TlsCertificate(config::certificate_reason_of_text(reason))
            }
            None => SessionError::TlsHandshake(reason.to_owned()),
        },
    }
}

/// `HandshakeFailure` becomes `handshake_failure`, its name in the RFC.
fn alert_name(alert: AlertDescription) -> String {
    // Names with abbreviations, which the rule below would split.
    match alert {
        AlertDescription::UnknownCA => return "unknown_ca".to_owned(),
        AlertDescription::UnknownPSKIdentity => return "unknown_psk_identity".to_owned(),
        AlertDescription::Unknown(code) => return format!("number {code}"),
        _ => {}
    }
    let mut name = String::new();
    for letter in format!("{alert:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_have_the_names_of_the_rfc() {
        for (alert, name) in [
            (AlertDescription::HandshakeFailure, "handshake_failure"),
            (
                AlertDescription::CertificateRequired,
                "certificate_required",
            ),
            (AlertDescription::BadRecordMac, "bad_record_mac"),
            (AlertDescription::UnknownCA, "unknown_ca"),
            (AlertDescription::from(250), "number 250"),
        ] {
            assert_eq!(alert_name(alert), name);
        }
    }
}
