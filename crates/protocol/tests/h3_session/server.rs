//! A QUIC server whose HTTP/3 is what a test writes.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use protocol::Fields;
use protocol::h3::frame::{self, Frame, FrameReader, stream_type};
use protocol::h3::qpack::{self, SectionLimits};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, Incoming, RandomConnectionIdGenerator, ReadError, ServerConfig, Side, StreamEvent,
    StreamId, TransportConfig, VarInt,
};
use rustls::crypto::ring;
use rustls::server::ServerSessionMemoryCache;

use crate::authority::Certified;
use crate::written::{data, headers};

const CLIENT: SocketAddr = SocketAddr::new(
    std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)),
    4000,
);

/// TLS sessions that a server remembers.
const SESSIONS: usize = 256;

/// A complete request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) stream: StreamId,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// It arrived before the handshake was complete.
    pub(crate) is_early: bool,
}

/// What the server does with a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Greeting {
    Accept,
    /// Retry first (RFC 9000 section 8.1.2).
    Retry,
    Refuse,
}

/// The choices of a server.
pub(crate) struct Settings {
    pub(crate) transport: TransportConfig,
    pub(crate) versions: Option<Vec<u32>>,
    pub(crate) alpn: &'static [u8],
    pub(crate) greeting: Greeting,
    /// Sends SETTINGS on a control stream once the client is connected.
    pub(crate) has_control: bool,
    /// Takes requests before the handshake is complete.
    pub(crate) early_data: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            transport: TransportConfig::default(),
            versions: None,
            alpn: b"h3",
            greeting: Greeting::Accept,
            has_control: true,
            early_data: false,
        }
    }
}

/// Makes the bytes of a response.
pub(crate) type Answer = fn(&Request) -> Vec<u8>;

pub(crate) struct Server {
    tls: rustls::ServerConfig,
    /// Used from the next time on that sessions are forgotten.
    pub(crate) transport: Arc<TransportConfig>,
    config: Arc<EndpointConfig>,
    server_config: Arc<ServerConfig>,
    endpoint: Endpoint,
    pub(crate) connection: Option<(ConnectionHandle, Connection)>,
    greeting: Greeting,
    has_control: bool,
    /// What is answered at once, if anything.
    pub(crate) answer: Option<Answer>,
    pub(crate) requests: Vec<Request>,
    /// Requests of which a part has arrived.
    partial: HashMap<StreamId, Vec<u8>>,
    /// What was not taken by QUIC yet, and whether the stream ends then.
    unsent: Vec<(StreamId, Vec<u8>, bool)>,
    pub(crate) control: Option<StreamId>,
    /// The unidirectional streams of the client.
    pub(crate) client_streams: HashMap<StreamId, Vec<u8>>,
    /// RESET_STREAM and STOP_SENDING of the client, with their codes.
    pub(crate) resets: Vec<(StreamId, u64)>,
    pub(crate) stops: Vec<(StreamId, u64)>,
    /// The end of the connection.
    pub(crate) lost: Option<ConnectionError>,
}

impl Server {
    pub(crate) fn new(settings: Settings, certified: Certified) -> Self {
        let provider = Arc::new(ring::default_provider());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider knows TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(vec![certified.certificate], certified.key)
            .expect("the certificate is good");
        tls.alpn_protocols = vec![settings.alpn.to_vec()];
        // QUIC knows all or nothing (RFC 9001 section 4.6.1).
        tls.max_early_data_size = if settings.early_data { u32::MAX } else { 0 };
        let transport = Arc::new(settings.transport);
        let server_config = server_config(&tls, &transport);
        let mut config = EndpointConfig::default();
        config.rng_seed(Some([7; 32]));
        config.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(8)));
        if let Some(versions) = settings.versions {
            config.supported_versions(versions);
        }
        let config = Arc::new(config);
        Self {
            tls,
            transport,
            endpoint: Self::endpoint(&config, &server_config),
            config,
            server_config,
            connection: None,
            greeting: settings.greeting,
            has_control: settings.has_control,
            answer: None,
            requests: Vec::new(),
            partial: HashMap::new(),
            unsent: Vec::new(),
            control: None,
            client_streams: HashMap::new(),
            resets: Vec::new(),
            stops: Vec::new(),
            lost: None,
        }
    }

    fn endpoint(config: &Arc<EndpointConfig>, server_config: &Arc<ServerConfig>) -> Endpoint {
        Endpoint::new(
            Arc::clone(config),
            Some(Arc::clone(server_config)),
            true,
            None,
        )
    }

    /// The server starts anew: it knows no connection any more.
    pub(crate) fn restart(&mut self) {
        self.connection = None;
        self.endpoint = Self::endpoint(&self.config, &self.server_config);
    }

    /// The server starts anew, and knows no TLS session any more.
    pub(crate) fn forget_sessions(&mut self) {
        self.tls.session_storage = ServerSessionMemoryCache::new(SESSIONS);
        self.server_config = server_config(&self.tls, &self.transport);
        self.restart();
    }

    /// A datagram has arrived. Appends replies that belong to no connection.
    pub(crate) fn receive(&mut self, now: Instant, datagram: &[u8], output: &mut Vec<Vec<u8>>) {
        let mut buffer = Vec::new();
        let event = self
            .endpoint
            .handle(now, CLIENT, None, None, datagram.into(), &mut buffer);
        match event {
            None => {}
            Some(DatagramEvent::Response(transmit)) => {
                output.push(buffer[..transmit.size].to_vec());
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.greet(now, incoming, output),
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
        }
        self.process(now);
    }

    fn greet(&mut self, now: Instant, incoming: Incoming, output: &mut Vec<Vec<u8>>) {
        let mut buffer = Vec::new();
        let is_validated = incoming.remote_address_validated();
        match self.greeting {
            Greeting::Retry if !is_validated => {
                let retry = self.endpoint.retry(incoming, &mut buffer);
                let transmit = retry.expect("the address is not validated");
                output.push(buffer[..transmit.size].to_vec());
            }
            Greeting::Refuse => {
                let transmit = self.endpoint.refuse(incoming, &mut buffer);
                output.push(buffer[..transmit.size].to_vec());
            }
            Greeting::Accept | Greeting::Retry => {
                match self.endpoint.accept(incoming, now, &mut buffer, None) {
                    Ok(accepted) => self.connection = Some(accepted),
                    Err(error) => {
                        self.lost = Some(error.cause);
                        if let Some(transmit) = error.response {
                            output.push(buffer[..transmit.size].to_vec());
                        }
                    }
                }
            }
        }
    }

    pub(crate) fn next_timeout(&mut self) -> Option<Instant> {
        self.connection.as_mut()?.1.poll_timeout()
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(now);
        }
        self.process(now);
    }

    /// The datagrams that are to be sent now.
    pub(crate) fn datagrams(&mut self, now: Instant, output: &mut Vec<Vec<u8>>) {
        self.write_unsent();
        let Some((_, connection)) = &mut self.connection else {
            return;
        };
        let mut buffer = Vec::new();
        while let Some(transmit) = connection.poll_transmit(now, 10, &mut buffer) {
            let segment = transmit.segment_size.unwrap_or(transmit.size);
            output.extend(buffer[..transmit.size].chunks(segment).map(<[u8]>::to_vec));
            buffer.clear();
        }
        self.process(now);
    }

    fn process(&mut self, _now: Instant) {
        let Some((handle, mut connection)) = self.connection.take() else {
            return;
        };
        loop {
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(handle, event) {
                    connection.handle_event(event);
                }
            }
            let Some(event) = connection.poll() else {
                break;
            };
            match event {
                Event::Connected if self.has_control => {
                    let mut bytes = vec![stream_type::CONTROL as u8];
                    frame::append_settings(&[], &mut bytes);
                    let id = connection.streams().open(Dir::Uni).expect("it is allowed");
                    self.unsent.push((id, bytes, false));
                    self.control = Some(id);
                }
                Event::ConnectionLost { reason } => self.lost = Some(reason),
                Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(id) = connection.streams().accept(dir) {
                        self.read(&mut connection, id);
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => self.read(&mut connection, id),
                Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    self.stops.push((id, error_code.into_inner()));
                    let _ = connection.send_stream(id).reset(error_code);
                }
                _ => {}
            }
        }
        self.connection = Some((handle, connection));
    }

    fn read(&mut self, connection: &mut Connection, id: StreamId) {
        let mut stream = connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else {
            return;
        };
        let streams = match id.dir() {
            Dir::Uni => &mut self.client_streams,
            Dir::Bi => &mut self.partial,
        };
        let bytes = streams.entry(id).or_default();
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk.bytes),
                Ok(None) => break,
                Err(ReadError::Blocked) => return,
                Err(ReadError::Reset(code)) => {
                    self.resets.push((id, code.into_inner()));
                    return;
                }
            }
        }
        drop(chunks);
        if let Some(bytes) = self.partial.remove(&id) {
            let request = Request {
                is_early: connection.is_handshaking(),
                ..parse(id, &bytes)
            };
            if let Some(answer) = self.answer {
                self.unsent.push((id, answer(&request), true));
            }
            self.requests.push(request);
        }
    }

    fn write_unsent(&mut self) {
        let Some((_, connection)) = &mut self.connection else {
            return;
        };
        self.unsent.retain_mut(|(id, bytes, ends)| {
            while !bytes.is_empty() {
                match connection.send_stream(*id).write(bytes) {
                    Ok(sent) => drop(bytes.drain(..sent)),
                    Err(quinn_proto::WriteError::Blocked) => return true,
                    Err(_) => return false,
                }
            }
            if *ends {
                let _ = connection.send_stream(*id).finish();
            }
            false
        });
    }

    fn connection(&mut self) -> &mut Connection {
        &mut self.connection.as_mut().expect("it is connected").1
    }

    /// Sends bytes on a stream.
    pub(crate) fn send(&mut self, id: StreamId, bytes: &[u8], ends: bool) {
        self.unsent.push((id, bytes.to_vec(), ends));
    }

    /// Opens a unidirectional stream with these bytes.
    pub(crate) fn open(&mut self, bytes: &[u8], ends: bool) -> Option<StreamId> {
        let id = self.connection().streams().open(Dir::Uni)?;
        self.send(id, bytes, ends);
        Some(id)
    }

    pub(crate) fn reset(&mut self, id: StreamId, code: u64) {
        self.write_unsent();
        let code = VarInt::from_u64(code).expect("it is small");
        self.connection()
            .send_stream(id)
            .reset(code)
            .expect("it is open");
    }

    pub(crate) fn stop(&mut self, id: StreamId, code: u64) {
        let code = VarInt::from_u64(code).expect("it is small");
        self.connection()
            .recv_stream(id)
            .stop(code)
            .expect("it is open");
    }

    pub(crate) fn close(&mut self, now: Instant, code: u64, reason: &'static [u8]) {
        let code = VarInt::from_u64(code).expect("it is small");
        self.write_unsent();
        self.connection().close(now, code, reason.into());
    }

    /// Whether the client allows bidirectional streams of the server.
    pub(crate) fn may_open_requests(&mut self) -> bool {
        self.connection().streams().open(Dir::Bi).is_some()
    }

    /// How many RESET_STREAM frames have arrived, also for streams that are not read any more.
    pub(crate) fn received_resets(&mut self) -> u64 {
        self.connection().stats().frame_rx.reset_stream
    }

    pub(crate) fn allow_streams(&mut self, dir: Dir, count: u32) {
        let count = VarInt::from_u32(count);
        self.connection().set_max_concurrent_streams(dir, count);
    }
}

fn server_config(
    tls: &rustls::ServerConfig,
    transport: &Arc<TransportConfig>,
) -> Arc<ServerConfig> {
    let crypto = QuicServerConfig::try_from(tls.clone()).expect("it has a suite for QUIC");
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(Arc::clone(transport));
    Arc::new(config)
}

/// The request whose frames these are.
fn parse(stream: StreamId, bytes: &[u8]) -> Request {
    let mut reader = FrameReader::new(1 << 20);
    let mut request = Request {
        stream,
        fields: Vec::new(),
        body: Vec::new(),
        is_early: false,
    };
    let mut rest = bytes;
    while let Some(frame) = reader
        .next(&mut rest)
        .expect("the client sends good frames")
    {
        match frame {
            Frame::Headers(section) => {
                let mut fields = Fields::default();
                qpack::decode(section, SectionLimits::default(), &mut fields)
                    .expect("the client sends good sections");
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let fields = fields.iter().map(|(name, value)| (text(name), text(value)));
                request.fields = fields.collect();
            }
            Frame::Data(content) => request.body.extend_from_slice(content),
            other => panic!("{other:?} in a request"),
        }
    }
    request
}

/// The number of the request on this stream, and its stream.
pub(crate) fn bidi(index: u64) -> StreamId {
    StreamId::new(Side::Client, Dir::Bi, index)
}

/// A response with this status and this content.
pub(crate) fn response(status: &str, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_string();
    let mut output = headers(&[(":status", status), ("content-length", &length)]);
    output.extend(data(content));
    output
}
