//! A session inside TLS 1.2 or 1.3 (RFC 5246, RFC 8446): any other session's bytes, encrypted.

mod config;

use std::io::{BufRead, Write};
use std::sync::Arc;

use rustls::{AlertDescription, ClientConnection, HandshakeKind};

pub use config::{Identity, Options, Roots, TlsConfigError, config, server_name};
pub use rustls::ClientConfig;
pub use rustls::pki_types::{CertificateDer, ServerName};

use crate::{Event, Handshake, RequestKind, Session, SessionError};

/// What all TLS sessions of a worker have in common.
#[derive(Debug)]
pub struct Shared<T> {
    /// What the inner sessions have in common.
    pub inner: T,
    config: Arc<ClientConfig>,
    server_name: ServerName<'static>,
    /// What an inner session wants to send on its own; empty between calls.
    inner_output: Vec<u8>,
}

impl<T> Shared<T> {
    /// Settings for a worker, made in its thread. A `config` may serve several workers; the session tickets in it then
    /// serve all of them, behind a lock that is taken for handshakes only.
    #[must_use]
    pub fn new(config: Arc<ClientConfig>, server_name: ServerName<'static>, inner: T) -> Self {
        // The provider gathers entropy for each thread at its first use, which takes milliseconds:
        // now, and not within the first handshake that is measured. If it fails, so will that one.
        let _ = config.crypto_provider().secure_random.fill(&mut [0]);
        Self {
            inner,
            config,
            server_name,
            inner_output: Vec::new(),
        }
    }
}

/// The client's side of a TLS connection around a session `S`.
///
/// Reconnecting on the same slot, and on any other slot of the same [`ClientConfig`], resumes an
/// earlier TLS session when the server has given out a ticket.
///
/// A close without `close_notify` is judged by the inner session: within a response of known length
/// it is [`SessionError::Truncated`], between responses it is fine, and it ends a response that only
/// the close delimits, as browsers do, since many servers never send `close_notify`.
#[derive(Debug)]
pub struct Tls<S> {
    /// There from `begin` on. Boxed, since it is a kilobyte that plain connections need not carry.
    connection: Option<Box<ClientConnection>>,
    inner: S,
    is_ready: bool,
    has_input: bool,
    has_close_notify: bool,
}

impl<S: Session> Session for Tls<S> {
    type Shared = Shared<S::Shared>;

    const TRANSPARENT: bool = false;

    fn new(shared: &mut Self::Shared) -> Self {
        Self {
            connection: None,
            inner: S::new(&mut shared.inner),
            is_ready: false,
            has_input: false,
            has_close_notify: false,
        }
    }

    fn begin(
        &mut self,
        shared: &mut Self::Shared,
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        self.is_ready = false;
        self.has_input = false;
        self.has_close_notify = false;
        let (config, name) = (Arc::clone(&shared.config), shared.server_name.clone());
        let connection = ClientConnection::new(config, name)
            .map_err(|error| SessionError::TlsHandshake(error.to_string()))?;
        let connection = self.connection.insert(Box::new(connection));
        self.inner
            .begin(&mut shared.inner, &mut shared.inner_output)?;
        // Before the handshake is done this is kept back until it is.
        send(connection, &shared.inner_output, output)?;
        shared.inner_output.clear();
        flush(connection, output)
    }

    fn is_ready(&self) -> bool {
        self.is_ready && self.inner.is_ready()
    }

    fn expect(&mut self, kind: RequestKind) {
        self.inner.expect(kind);
    }

    fn encode(&mut self, plain: &[u8], output: &mut Vec<u8>) -> Result<(), SessionError> {
        match self.connection.as_deref_mut() {
            Some(connection) => send(connection, plain, output),
            None => Err(SessionError::TlsClosed),
        }
    }

    fn receive(
        &mut self,
        shared: &mut Self::Shared,
        input: &[u8],
        output: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError> {
        self.check_first_byte(input)?;
        let mut rest = input;
        while !rest.is_empty() && !self.has_close_notify {
            let taken = self.take_records(rest, events);
            // What was decrypted before a fault is good, and comes before it; and so does an alert
            // that says to the peer what it did wrong.
            let drained = self.drain(shared, events);
            self.flush_all(shared, output)?;
            drained?;
            rest = &rest[taken?..];
        }
        if self.has_close_notify && self.is_ready {
            return self.inner.end(&mut shared.inner, events);
        }
        Ok(())
    }

    fn end(
        &mut self,
        shared: &mut Self::Shared,
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError> {
        if !self.is_ready {
            return Err(SessionError::TlsClosed);
        }
        self.inner.end(&mut shared.inner, events)
    }

    fn partial_bytes(&self) -> u64 {
        self.inner.partial_bytes()
    }

    fn redirect_location(shared: &Self::Shared) -> Option<&str> {
        S::redirect_location(&shared.inner)
    }
}

impl<S: Session> Tls<S> {
    /// The first byte of a server is the type of a handshake or alert record (RFC 8446 section
    /// 5.1). A server that speaks something else is told apart from one that fails at TLS.
    fn check_first_byte(&mut self, input: &[u8]) -> Result<(), SessionError> {
        match input.first() {
            Some(0x14..=0x17) => {}
            Some(_) if !self.has_input => return Err(SessionError::NotTls),
            _ => {}
        }
        self.has_input |= !input.is_empty();
        Ok(())
    }

    /// Takes bytes of records, as many as the TLS library wants at once, and handles those that are
    /// complete; how many bytes.
    fn take_records(
        &mut self,
        mut input: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<usize, SessionError> {
        let Some(connection) = self.connection.as_deref_mut() else {
            return Err(SessionError::TlsClosed);
        };
        let was_handshaking = connection.is_handshaking();
        let taken = connection
            .read_tls(&mut input)
            .map_err(|error| SessionError::TlsRecord(error.to_string()))?;
        let processed = connection.process_new_packets();
        // Before the fault is looked at: a server may end the handshake and refuse the client's
        // certificate in one piece.
        if !self.is_ready && !connection.is_handshaking() {
            self.is_ready = true;
            events.push(Event::Ready(handshake(connection)));
        }
        let state = processed.map_err(|error| session_error(error, was_handshaking))?;
        self.has_close_notify |= state.peer_has_closed();
        if taken == 0 && !self.has_close_notify {
            return Err(SessionError::TlsRecord("record too large".to_owned()));
        }
        Ok(taken)
    }

    /// Gives the decrypted bytes to the inner session, from where they lie.
    fn drain(
        &mut self,
        shared: &mut Shared<S::Shared>,
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError> {
        let Some(connection) = self.connection.as_deref_mut() else {
            return Ok(());
        };
        let mut reader = connection.reader();
        // An error here says that nothing more is there now.
        while let Ok(plain) = reader.fill_buf()
            && !plain.is_empty()
        {
            self.inner
                .receive(&mut shared.inner, plain, &mut shared.inner_output, events)?;
            let length = plain.len();
            reader.consume(length);
        }
        Ok(())
    }

    fn flush_all(
        &mut self,
        shared: &mut Shared<S::Shared>,
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        let Some(connection) = self.connection.as_deref_mut() else {
            return Ok(());
        };
        if !shared.inner_output.is_empty() {
            send(connection, &shared.inner_output, output)?;
            shared.inner_output.clear();
        }
        flush(connection, output)
    }
}

/// Encrypts `plain`. The library takes it in parts, so that its own buffer stays small.
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
                    "too much to send before its end".into(),
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

/// `HandshakeFailure` becomes `handshake_failure`, the name that the RFC gives it.
fn alert_name(alert: AlertDescription) -> String {
    // Names with abbreviations are the only ones that the rule below would tear apart.
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
