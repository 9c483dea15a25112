//! A client, a server, and the link between them, all on a virtual clock.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::h2::RequestHead;
use protocol::h3::error::ErrorCode;
use protocol::h3::frame::{self, stream_type};
use protocol::h3::heads::Heads;
use protocol::h3::qpack::SectionLimits;
use protocol::h3::server::{Received, Server};
use protocol::h3::{ALPN, Arrival, Endpoint, Greeting, ServerSettings};
use protocol::tls::{self, Options};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir,
    EndpointConfig, Event, ReadError, StreamEvent, StreamId, VarInt,
};

use crate::authority::Authority;
use crate::written::headers;

/// Where the server is.
pub(crate) const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 443);

/// Time from one end to the other.
const DELAY: Duration = Duration::from_millis(1);

/// Longer than a few round trips, and the delay of acknowledgements.
const WHILE_ROUNDS: u32 = 200;

pub(crate) const SETTINGS: ServerSettings = ServerSettings {
    streams_max: 4,
    window_bytes: 64 * 1024,
    section_bytes_max: 16 * 1024,
    idle_timeout_ms: 30_000,
    greeting: Greeting::Accept,
    handshakes_max: 100,
    has_grease: false,
    streams_delay_ns: 0,
};

pub(crate) struct Peer {
    pub(crate) endpoint: Endpoint,
    pub(crate) server: Option<Server>,
    pub(crate) heads: Heads<Rc<RequestHead>>,
    /// What the session has reported.
    pub(crate) received: Vec<Received>,
    client: quinn_proto::Endpoint,
    handle: ConnectionHandle,
    pub(crate) quic: Connection,
    /// What has arrived at the client: bytes by stream, and whether the stream has ended.
    pub(crate) arrived: HashMap<StreamId, (Vec<u8>, bool)>,
    /// RESET_STREAM and STOP_SENDING of the server, with their codes.
    pub(crate) resets: HashMap<StreamId, u64>,
    pub(crate) stops: HashMap<StreamId, u64>,
    pub(crate) lost: Option<ConnectionError>,
    /// Where the client sends from.
    pub(crate) address: SocketAddr,
    /// Where the server has sent last.
    pub(crate) replied_to: Option<SocketAddr>,
    base: Instant,
    now: Instant,
    is_read: bool,
    control: Option<StreamId>,
}

impl Peer {
    #[expect(
        clippy::disallowed_methods,
        reason = "any moment; from there on the time is simulated"
    )]
    pub(crate) fn begun(settings: ServerSettings) -> Self {
        let certified = Authority::new("nobody").certify("test.example");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider knows TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(vec![certified.certificate], certified.key)
            .expect("the certificate is good");
        let base = Instant::now();
        let endpoint = Endpoint::new(settings, &tls, base, 1).expect("the settings are good");
        let (client, handle, quic) = client(base);
        Self {
            endpoint,
            server: None,
            heads: Heads::new(SectionLimits {
                list_bytes_max: settings.section_bytes_max,
                ..SectionLimits::default()
            }),
            received: Vec::new(),
            client,
            handle,
            quic,
            arrived: HashMap::new(),
            resets: HashMap::new(),
            stops: HashMap::new(),
            lost: None,
            address: SocketAddr::from(([192, 0, 2, 2], 4000)),
            replied_to: None,
            base,
            now: base,
            is_read: true,
            control: None,
        }
    }

    /// A connection whose handshake is complete, with the client's SETTINGS.
    pub(crate) fn ready() -> Self {
        Self::ready_with(SETTINGS)
    }

    pub(crate) fn ready_with(settings: ServerSettings) -> Self {
        let mut this = Self::begun(settings);
        this.run();
        assert!(!this.quic.is_handshaking(), "{:?}", this.lost);
        let mut control = vec![stream_type::CONTROL as u8];
        frame::append_settings(&[], &mut control);
        this.control = Some(this.open_uni(&control));
        this.run();
        this
    }

    /// The present.
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// The client's control stream.
    pub(crate) fn control(&self) -> StreamId {
        self.control.expect("it was opened")
    }

    pub(crate) fn close_client(&mut self) {
        let code = code(ErrorCode::NO_ERROR);
        self.quic.close(self.now, code, b"".as_slice().into());
    }

    pub(crate) fn close_server(&mut self, code: ErrorCode) {
        let server = self.server.as_mut().expect("it is connected");
        server.close(&self.endpoint, code);
    }

    pub(crate) fn forget(&mut self) {
        let server = self.server.take().expect("it is connected");
        self.endpoint.forget(&server);
    }

    pub(crate) fn server(&mut self) -> &mut Server {
        self.server.as_mut().expect("it is connected")
    }

    /// Lets time pass, with all that happens in it.
    pub(crate) fn run(&mut self) {
        for _ in 0..WHILE_ROUNDS {
            self.round();
        }
    }

    /// Lets this time pass.
    pub(crate) fn wait(&mut self, span: Duration) {
        self.now += span;
        self.run();
    }

    /// Lets this time pass without anything in it.
    pub(crate) fn skip(&mut self, span: Duration) {
        self.now += span;
        let now_ns = (self.now - self.base).as_nanos() as u64;
        self.endpoint.at(now_ns);
    }

    /// From now on the client reads nothing.
    pub(crate) fn stop_reading(&mut self) {
        self.is_read = false;
    }

    /// Both ends send what they have, and it arrives.
    pub(crate) fn round(&mut self) {
        let mut to_server = Vec::new();
        let mut buffer = Vec::new();
        while let Some(transmit) = self.quic.poll_transmit(self.now, 10, &mut buffer) {
            let segment = transmit.segment_size.unwrap_or(transmit.size);
            to_server.extend(buffer[..transmit.size].chunks(segment).map(<[u8]>::to_vec));
            buffer.clear();
        }
        self.now += DELAY;
        let now_ns = (self.now - self.base).as_nanos() as u64;
        self.endpoint.at(now_ns);
        let mut to_client = Vec::new();
        for datagram in to_server {
            match self.endpoint.receive(self.address, &datagram, &mut buffer) {
                Arrival::Packet(0, packet) => self.server().receive(packet),
                Arrival::Connection(0, server) => self.server = Some(server),
                Arrival::Reply => to_client.push(buffer.clone()),
                Arrival::Nothing => {}
                other => panic!("{other:?}"),
            }
        }
        let Self {
            server, endpoint, ..
        } = self;
        if let Some(server) = server {
            if server.next_timeout_ns().is_some_and(|at| at <= now_ns) {
                server.handle_timeout(endpoint);
            }
            server.process(endpoint, &mut self.heads, &mut self.received);
            server.write();
            while let Some((to, segment)) = server.transmit(endpoint, &mut buffer) {
                self.replied_to = Some(to);
                let datagrams = buffer.chunks(usize::from(segment));
                to_client.extend(datagrams.map(<[u8]>::to_vec));
            }
        }
        self.now += DELAY;
        for datagram in to_client {
            let from = SERVER;
            let (now, bytes) = (self.now, datagram.as_slice().into());
            let event = self
                .client
                .handle(now, from, None, None, bytes, &mut buffer);
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                self.quic.handle_event(event);
            }
        }
        if self.quic.poll_timeout().is_some_and(|at| at <= self.now) {
            self.quic.handle_timeout(self.now);
        }
        self.process_client();
    }

    fn process_client(&mut self) {
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(reply) = self.client.handle_event(self.handle, event) {
                self.quic.handle_event(reply);
            }
        }
        while let Some(event) = self.quic.poll() {
            match event {
                Event::ConnectionLost { reason } => self.lost = Some(reason),
                Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(id) = self.quic.streams().accept(dir) {
                        self.read(id);
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => self.read(id),
                Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    self.stops.insert(id, error_code.into_inner());
                }
                _ => {}
            }
        }
    }

    fn read(&mut self, id: StreamId) {
        if !self.is_read {
            return;
        }
        let mut stream = self.quic.recv_stream(id);
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
                Err(ReadError::Blocked) => break,
                Err(ReadError::Reset(code)) => {
                    self.resets.insert(id, code.into_inner());
                    break;
                }
            }
        }
        let _ = chunks.finalize();
    }

    /// Opens a unidirectional stream with these bytes.
    pub(crate) fn open_uni(&mut self, bytes: &[u8]) -> StreamId {
        let id = self.quic.streams().open(Dir::Uni).expect("it is allowed");
        self.send(id, bytes, false);
        id
    }

    /// Sends these bytes on a new stream for a request. Nothing has arrived yet.
    pub(crate) fn request(&mut self, bytes: &[u8], ends: bool) -> StreamId {
        let id = self.quic.streams().open(Dir::Bi).expect("it is allowed");
        self.send(id, bytes, ends);
        id
    }

    pub(crate) fn send(&mut self, id: StreamId, bytes: &[u8], ends: bool) {
        let mut stream = self.quic.send_stream(id);
        assert_eq!(stream.write(bytes), Ok(bytes.len()), "it fits");
        if ends {
            stream.finish().expect("it is open");
        }
    }

    /// What the session has reported since the last call.
    pub(crate) fn take(&mut self) -> Vec<Received> {
        std::mem::take(&mut self.received)
    }

    /// The code with which the server has closed the connection.
    pub(crate) fn close_code(&self) -> Option<ErrorCode> {
        match &self.lost {
            Some(ConnectionError::ApplicationClosed(close)) => {
                Some(ErrorCode(close.error_code.into_inner()))
            }
            _ => None,
        }
    }
}

/// A client that begins a connection now.
pub(crate) fn client(now: Instant) -> (quinn_proto::Endpoint, ConnectionHandle, Connection) {
    let options = Options {
        alpn: &[ALPN],
        ..Options::default()
    };
    let tls = tls::config(&options).expect("the default is good");
    let crypto = QuicClientConfig::try_from(tls).expect("it has a suite for QUIC");
    let config = Arc::new(EndpointConfig::default());
    let mut client = quinn_proto::Endpoint::new(config, None, true, Some([3; 32]));
    let config = ClientConfig::new(Arc::new(crypto));
    let connected = client.connect(now, config, SERVER, "test.example");
    let (handle, quic) = connected.expect("it begins");
    (client, handle, quic)
}

/// The code as quinn takes it.
pub(crate) fn code(code: ErrorCode) -> VarInt {
    VarInt::from_u64(code.0).expect("it is small")
}

/// The HEADERS frame of a request, with these fields after the usual ones.
pub(crate) fn head(method: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let usual = [
        (":method", method),
        (":scheme", "https"),
        (":authority", "test.example"),
        (":path", "/a"),
    ];
    headers(&[&usual, more].concat())
}
