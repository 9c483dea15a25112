//! A client session and a TLS server that exchange bytes in memory.

use std::io::{Read, Write};
use std::sync::Arc;

use protocol::h1::{self, H1, Limits};
use protocol::tls::{self, AlpnProtocol, ClientConfig, Options, Tls, TlsContext};
use protocol::{
    Event, ExchangeId, Handshake, RequestKind, Requests, Response, Session, SessionError,
};
use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion};

use crate::authority::{Authority, Certified};

pub(crate) const VERSIONS: [&SupportedProtocolVersion; 2] =
    [&rustls::version::TLS12, &rustls::version::TLS13];

pub(crate) const HTTP1: AlpnProtocol = AlpnProtocol {
    name: b"http/1.1",
    is_implied: true,
};

pub(crate) const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: test.example\r\n\r\n";

pub(crate) const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// A server's settings: one certificate, one TLS version, ALPN http/1.1. If `clients` is given, its
/// client certificates are required.
pub(crate) fn server_config(
    version: &'static SupportedProtocolVersion,
    certified: Certified,
    clients: Option<&Authority>,
) -> ServerConfig {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[version])
        .expect("the provider knows the version");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots
                .add(authority.certificate())
                .expect("the authority is good");
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.expect("there is a root"))
        }
    };
    let mut config = builder
        .with_single_cert(vec![certified.certificate], certified.key)
        .expect("the certificate is good");
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config
}

/// A server for `test.example` without client certificates.
pub(crate) fn plain_server(version: &'static SupportedProtocolVersion) -> Arc<ServerConfig> {
    let certified = Authority::new("nobody").certify("test.example");
    Arc::new(server_config(version, certified, None))
}

/// A client that verifies nothing.
pub(crate) fn trusting_client() -> Arc<ClientConfig> {
    let options = Options {
        alpn: &[HTTP1.name],
        ..Options::default()
    };
    tls::config(&options).expect("the default is good")
}

pub(crate) fn shared(config: Arc<ClientConfig>, host: &str) -> TlsContext<h1::H1Context> {
    let name = tls::server_name(host).expect("the name is good");
    TlsContext::new(
        config,
        name,
        HTTP1,
        h1::H1Context::new(Limits::default(), false),
    )
}

/// One client slot and the server's side of its current connection.
pub(crate) struct Pair {
    pub(crate) shared: TlsContext<h1::H1Context>,
    pub(crate) client: Tls<H1>,
    pub(crate) server: ServerConnection,
    pub(crate) events: Vec<Event>,
    /// What the client wants to send.
    pub(crate) output: Vec<u8>,
    /// Bytes passed to the client at once.
    pub(crate) step: usize,
    server_config: Arc<ServerConfig>,
}

impl Pair {
    /// An established connection on which nothing has been exchanged yet.
    pub(crate) fn new(
        mut shared: TlsContext<h1::H1Context>,
        server_config: Arc<ServerConfig>,
    ) -> Self {
        let client = Tls::new(&mut shared);
        let server = ServerConnection::new(Arc::clone(&server_config)).expect("it is good");
        let (events, output) = (Vec::new(), Vec::new());
        let mut pair = Self {
            shared,
            client,
            server,
            events,
            output,
            step: usize::MAX,
            server_config,
        };
        pair.reconnect();
        pair
    }

    /// A connection whose handshake is complete.
    pub(crate) fn ready(version: &'static SupportedProtocolVersion) -> Self {
        let shared = shared(trusting_client(), "test.example");
        let mut pair = Self::new(shared, plain_server(version));
        pair.settle().expect("the handshake succeeds");
        assert!(pair.client.is_ready());
        pair
    }

    /// A new connection of the same slot.
    pub(crate) fn reconnect(&mut self) {
        self.server = ServerConnection::new(Arc::clone(&self.server_config)).expect("it is good");
        self.output.clear();
        self.events.clear();
        self.client
            .begin(&mut self.shared, &mut self.output)
            .expect("it begins");
    }

    /// The same, with another server.
    pub(crate) fn reconnect_to(&mut self, server_config: Arc<ServerConfig>) {
        self.server_config = server_config;
        self.reconnect();
    }

    /// Exchanges bytes until both sides are silent. The server's own errors appear as its alerts.
    pub(crate) fn settle(&mut self) -> Result<(), SessionError> {
        for _ in 0..100 {
            let to_server = std::mem::take(&mut self.output);
            let to_client = self.serve(&to_server);
            if to_server.is_empty() && to_client.is_empty() {
                return Ok(());
            }
            self.deliver(&to_client)?;
        }
        panic!("they do not come to an end");
    }

    /// Passes bytes to the server. Returns what it then sends.
    pub(crate) fn serve(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        while !bytes.is_empty() {
            self.server.read_tls(&mut bytes).expect("there is room");
            if self.server.process_new_packets().is_err() {
                break;
            }
        }
        self.server_output()
    }

    pub(crate) fn server_output(&mut self) -> Vec<u8> {
        let mut output = Vec::new();
        while self.server.wants_write() {
            self.server
                .write_tls(&mut output)
                .expect("memory takes everything");
        }
        output
    }

    /// The records in which the server sends `plain`.
    pub(crate) fn encrypt(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut records = Vec::new();
        for part in plain.chunks(16 * 1024) {
            self.server.writer().write_all(part).expect("there is room");
            records.extend(self.server_output());
        }
        records
    }

    /// Passes bytes to the client, in steps.
    pub(crate) fn deliver(&mut self, bytes: &[u8]) -> Result<(), SessionError> {
        let Self {
            shared,
            client,
            output,
            events,
            ..
        } = self;
        bytes
            .chunks(self.step)
            .try_for_each(|piece| client.receive(shared, piece, output, events))
    }

    /// Sends one request of each kind. Returns what the server received.
    pub(crate) fn request(&mut self, kinds: &[RequestKind]) -> Vec<u8> {
        self.start(&GET.repeat(kinds.len()), kinds);
        self.received_by_server()
    }

    /// Starts one exchange with these requests.
    pub(crate) fn start(&mut self, text: &[u8], kinds: &[RequestKind]) {
        let requests = Requests {
            text,
            prepared: kinds,
        };
        self.client
            .start(&mut self.shared, ExchangeId(0), requests, &mut self.output)
            .expect("it is ready");
    }

    /// The plaintext in the client's output so far.
    pub(crate) fn received_by_server(&mut self) -> Vec<u8> {
        let mut plain = Vec::new();
        for piece in std::mem::take(&mut self.output).chunks(4096) {
            let response = self.serve(piece);
            assert!(response.is_empty(), "the server has nothing to say yet");
            let mut part = [0; 32 * 1024];
            while let Ok(length @ 1..) = self.server.reader().read(&mut part) {
                plain.extend_from_slice(&part[..length]);
            }
        }
        plain
    }

    pub(crate) fn close(&mut self) -> Result<(), SessionError> {
        self.client.end(&mut self.shared, &mut self.events)
    }

    pub(crate) fn handshake(&self) -> Option<Handshake> {
        self.events.iter().find_map(|event| match event {
            Event::Ready(handshake) => Some(*handshake),
            _ => None,
        })
    }

    pub(crate) fn responses(&self) -> Vec<&Response> {
        let finished = self.events.iter().filter_map(|event| match event {
            Event::Finished(_, response) => Some(response),
            _ => None,
        });
        finished.collect()
    }
}
