//! The TLS handshake of a QUIC connection (RFC 9001): that of the library, whose messages are
//! watched, because it tells neither the cipher suite nor whether a session was resumed.

use std::any::Any;
use std::sync::Arc;

use quinn_proto::crypto::rustls::{HandshakeData, QuicClientConfig};
use quinn_proto::crypto::{
    ClientConfig, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, Connection, ConnectionId, Side, TransportError};
use rustls::CipherSuite;
use rustls::pki_types::CertificateDer;

use crate::tls::Details;

/// Bytes before each handshake message: its type and its length (RFC 8446 section 4).
const HEADER_BYTES: usize = 4;
const SERVER_HELLO: u8 = 2;
const CERTIFICATE: u8 = 11;

/// Bytes of a ServerHello before the session ID, which begins with its length: version and random.
const BEFORE_SESSION_ID_BYTES: usize = 34;
const SESSION_ID_BYTES_MAX: usize = 32;

/// Bytes of a message that are kept: of a ServerHello, up to its cipher suite.
const KEPT_BYTES: usize = HEADER_BYTES + BEFORE_SESSION_ID_BYTES + 1 + SESSION_ID_BYTES_MAX + 2;

/// What a handshake has agreed on; [`Session::handshake_data`] returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Agreed {
    /// The protocol that the server has chosen (ALPN).
    pub(super) protocol: Option<Vec<u8>>,
    /// The registered number of the cipher suite.
    pub(super) cipher: u16,
    /// The server has sent no certificate, since it knows the session.
    pub(super) resumed: bool,
}

impl Agreed {
    /// `None` before the end of the handshake.
    pub(super) fn of(connection: &Connection) -> Option<Self> {
        let data = connection.crypto_session().handshake_data()?;
        data.downcast().ok().map(|agreed| *agreed)
    }
}

/// The same for people to read, with the server's certificates.
pub(super) fn details(connection: &Connection) -> Option<Details> {
    let agreed = Agreed::of(connection)?;
    let identity = connection.crypto_session().peer_identity();
    let chain = identity.and_then(|it| it.downcast::<Vec<CertificateDer<'static>>>().ok());
    let chain = chain.unwrap_or_default();
    Some(Details::of_tls_1_3(
        CipherSuite::from(agreed.cipher),
        agreed.protocol.as_deref(),
        &chain,
    ))
}

/// Begins handshakes.
pub(super) struct Handshakes(pub(super) Arc<QuicClientConfig>);

impl ClientConfig for Handshakes {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let inner = Arc::clone(&self.0).start_session(version, server_name, params)?;
        let seen = Messages::default();
        Ok(Box::new(ObservedSession { inner, seen }))
    }
}

/// A session of the library, and what was seen of the server's messages.
struct ObservedSession {
    inner: Box<dyn Session>,
    seen: Messages,
}

impl Session for ObservedSession {
    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        self.seen.pass(bytes);
        self.inner.read_handshake(bytes)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let data = self.inner.handshake_data()?;
        let data = data.downcast::<HandshakeData>().ok()?;
        Some(Box::new(Agreed {
            protocol: data.protocol,
            cipher: self.seen.cipher,
            resumed: !self.seen.has_certificate,
        }))
    }

    fn initial_keys(&self, first_id: &ConnectionId, side: Side) -> Keys {
        self.inner.initial_keys(first_id, side)
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.inner.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.inner.transport_parameters()
    }

    fn write_handshake(&mut self, output: &mut Vec<u8>) -> Option<Keys> {
        self.inner.write_handshake(output)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.inner.next_1rtt_keys()
    }

    fn is_valid_retry(&self, first_id: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.inner.is_valid_retry(first_id, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.inner.export_keying_material(output, label, context)
    }
}

/// The server's handshake messages, which arrive in pieces of any size.
#[derive(Debug, Default)]
struct Messages {
    /// The beginning of the current message.
    kept: Vec<u8>,
    /// Bytes of it that have passed.
    passed: usize,
    /// Of the last ServerHello. The one before it is a HelloRetryRequest.
    cipher: u16,
    has_certificate: bool,
}

impl Messages {
    fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let message_bytes = match self.kept[..] {
                [_, a, b, c, ..] => HEADER_BYTES + u32::from_be_bytes([0, a, b, c]) as usize,
                _ => HEADER_BYTES,
            };
            let missing = message_bytes.saturating_sub(self.passed);
            let (now, rest) = bytes.split_at(missing.min(bytes.len()));
            let room = KEPT_BYTES.saturating_sub(self.kept.len());
            self.kept.extend_from_slice(&now[..now.len().min(room)]);
            self.passed += now.len();
            bytes = rest;
            if self.is_complete() {
                self.on_message();
                self.kept.clear();
                self.passed = 0;
            }
        }
    }

    fn is_complete(&self) -> bool {
        match self.kept[..] {
            [_, a, b, c, ..] => {
                self.passed == HEADER_BYTES + u32::from_be_bytes([0, a, b, c]) as usize
            }
            _ => false,
        }
    }

    fn on_message(&mut self) {
        let (header, body) = self.kept.split_at(HEADER_BYTES);
        match header.first() {
            Some(&SERVER_HELLO) => {
                let session_id_bytes = body.get(BEFORE_SESSION_ID_BYTES).copied();
                let at = BEFORE_SESSION_ID_BYTES + 1 + usize::from(session_id_bytes.unwrap_or(0));
                if let Some(&[high, low]) = body.get(at..at + 2) {
                    self.cipher = u16::from_be_bytes([high, low]);
                }
            }
            Some(&CERTIFICATE) => self.has_certificate = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).expect("it is short");
        let mut message = (u32::from(kind) << 24 | length).to_be_bytes().to_vec();
        message.extend_from_slice(body);
        message
    }

    fn server_hello(session_id: &[u8], cipher: [u8; 2]) -> Vec<u8> {
        let length = u8::try_from(session_id.len()).expect("it is short");
        let before = [&[3, 3][..], &[7; 32], &[length], session_id].concat();
        message(SERVER_HELLO, &[&before[..], &cipher, &[0; 40]].concat())
    }

    #[test]
    fn cipher_suite_and_certificate_are_found_wherever_the_messages_are_cut() {
        let retry = server_hello(&[9; 32], [0x13, 0x02]);
        let hello = server_hello(&[], [0x13, 0x01]);
        let rest = [
            message(8, b""),
            message(CERTIFICATE, &[CERTIFICATE; 3000]),
            message(20, &[0; 32]),
        ];
        let all = [retry, hello, rest.concat()].concat();
        for piece in 1..200 {
            let mut messages = Messages::default();
            for bytes in all.chunks(piece) {
                messages.pass(bytes);
            }
            assert_eq!(messages.cipher, 0x1301, "{piece}");
            assert!(messages.has_certificate, "{piece}");
        }
    }

    #[test]
    fn a_handshake_without_a_certificate_has_resumed_a_session() {
        let mut messages = Messages::default();
        // The content of a message is none.
        let extensions = message(8, &message(CERTIFICATE, b"x"));
        let finished = message(20, &[CERTIFICATE; 32]);
        messages.pass(&[server_hello(&[], [0x13, 0x03]), extensions, finished].concat());
        assert_eq!(messages.cipher, 0x1303);
        assert!(!messages.has_certificate);
    }

    #[test]
    fn a_server_hello_that_is_too_short_has_no_cipher_suite() {
        let mut messages = Messages::default();
        messages.pass(&message(SERVER_HELLO, &[32; 40]));
        messages.pass(&message(SERVER_HELLO, b""));
        assert_eq!(messages.cipher, 0);
    }
}
