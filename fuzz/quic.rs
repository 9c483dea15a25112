//! One end of a connection of QUIC, whose HTTP/3 is what the input says.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use origin::{Identity, TlsSettings};
use protocol::h3::ALPN;
use protocol::tls::{self, Options};
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Endpoint,
    EndpointConfig, Event, ReadError, ServerConfig, StreamEvent, StreamId, VarInt,
};

/// The settings of a server, with a certificate.
pub static SERVER_TLS: LazyLock<Arc<rustls::ServerConfig>> = LazyLock::new(|| {
    let identity = Identity::self_signed(&["localhost"]).expect("it can be made");
    let settings = TlsSettings::new(identity);
    settings.config().expect("the certificate is good")
});

/// Those of a client, which verifies nothing.
pub static CLIENT_TLS: LazyLock<Arc<tls::ClientConfig>> = LazyLock::new(|| {
    let options = Options {
        alpn: &[ALPN],
        ..Options::default()
    };
    tls::config(&options).expect("the default is good")
});

pub struct End {
    endpoint: Endpoint,
    handle: Option<ConnectionHandle>,
    pub quic: Option<Connection>,
    /// What has arrived: bytes by stream, and whether the stream has ended.
    pub arrived: BTreeMap<StreamId, (Vec<u8>, bool)>,
    pub lost: Option<ConnectionError>,
    other: SocketAddr,
}

impl End {
    pub fn client(now: Instant) -> Self {
        let crypto = QuicClientConfig::try_from(Arc::clone(&CLIENT_TLS));
        let config = ClientConfig::new(Arc::new(crypto.expect("it has a suite for QUIC")));
        let mut this = Self::new(None);
        let connected = this.endpoint.connect(now, config, this.other, "localhost");
        let (handle, quic) = connected.expect("it begins");
        (this.handle, this.quic) = (Some(handle), Some(quic));
        this
    }

    pub fn server() -> Self {
        let mut tls = SERVER_TLS.as_ref().clone();
        tls.alpn_protocols = vec![ALPN.to_vec()];
        let crypto = QuicServerConfig::try_from(tls).expect("it has a suite for QUIC");
        Self::new(Some(ServerConfig::with_crypto(Arc::new(crypto))))
    }

    fn new(server: Option<ServerConfig>) -> Self {
        let config = Arc::new(EndpointConfig::default());
        Self {
            endpoint: Endpoint::new(config, server.map(Arc::new), true, Some([1; 32])),
            handle: None,
            quic: None,
            arrived: BTreeMap::new(),
            lost: None,
            other: SocketAddr::from((Ipv4Addr::LOCALHOST, 443)),
        }
    }

    /// Whether requests can be sent.
    pub fn is_connected(&self) -> bool {
        self.quic
            .as_ref()
            .is_some_and(|quic| !quic.is_handshaking())
    }

    /// A datagram has arrived.
    pub fn take(&mut self, now: Instant, datagram: &[u8]) {
        let (bytes, mut reply) = (datagram.into(), Vec::new());
        let event = self
            .endpoint
            .handle(now, self.other, None, None, bytes, &mut reply);
        match event {
            Some(DatagramEvent::NewConnection(incoming)) => {
                if let Ok((handle, quic)) = self.endpoint.accept(incoming, now, &mut reply, None) {
                    (self.handle, self.quic) = (Some(handle), Some(quic));
                }
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some(quic) = &mut self.quic {
                    quic.handle_event(event);
                }
            }
            Some(DatagramEvent::Response(_)) | None => {}
        }
    }

    /// The datagrams to send now.
    pub fn give(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let (Some(handle), Some(mut quic)) = (self.handle, self.quic.take()) else {
            return Vec::new();
        };
        if quic.poll_timeout().is_some_and(|at| at <= now) {
            quic.handle_timeout(now);
        }
        while let Some(event) = quic.poll_endpoint_events() {
            if let Some(reply) = self.endpoint.handle_event(handle, event) {
                quic.handle_event(reply);
            }
        }
        self.read_all(&mut quic);
        let (mut datagrams, mut buffer) = (Vec::new(), Vec::new());
        while let Some(transmit) = quic.poll_transmit(now, 10, &mut buffer) {
            let segment = transmit.segment_size.unwrap_or(transmit.size);
            datagrams.extend(buffer[..transmit.size].chunks(segment).map(<[u8]>::to_vec));
            buffer.clear();
        }
        self.quic = Some(quic);
        datagrams
    }

    fn read_all(&mut self, quic: &mut Connection) {
        while let Some(event) = quic.poll() {
            match event {
                Event::ConnectionLost { reason } => self.lost = Some(reason),
                Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(id) = quic.streams().accept(dir) {
                        self.read(quic, id);
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => self.read(quic, id),
                _ => {}
            }
        }
    }

    fn read(&mut self, quic: &mut Connection, id: StreamId) {
        let mut stream = quic.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else {
            return;
        };
        let (bytes, has_ended) = self.arrived.entry(id).or_default();
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk.bytes),
                Ok(None) => {
                    *has_ended = true;
                    break;
                }
                Err(ReadError::Blocked | ReadError::Reset(_)) => break,
            }
        }
        let _ = chunks.finalize();
    }

    /// Writes as much as the other end allows. `None` if the stream has ended.
    pub fn write(&mut self, id: StreamId, bytes: &[u8]) -> Option<usize> {
        match self.quic.as_mut()?.send_stream(id).write(bytes) {
            Ok(taken) => Some(taken),
            Err(quinn_proto::WriteError::Blocked) => Some(0),
            Err(_) => None,
        }
    }

    /// Ends a stream, with a code or without. It may have ended before.
    pub fn end(&mut self, id: StreamId, code: Option<u8>) {
        if let Some(quic) = &mut self.quic {
            let mut stream = quic.send_stream(id);
            match code {
                Some(code) => drop(stream.reset(VarInt::from_u32(code.into()))),
                None => drop(stream.finish()),
            }
        }
    }
}
