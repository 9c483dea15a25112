//! The settings of QUIC, and what all connections of a worker share in it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, ConnectionId, ConnectionIdGenerator, Endpoint,
    EndpointConfig, TransportConfig, VarInt,
};

use super::context::ClientSettings;
use super::error::ErrorCode;
use super::handshake::Handshakes;
use crate::SessionError;
use crate::tls::{ServerName, TlsConfigError};

/// The largest datagram that the server may send (RFC 9000 section 18.2, `max_udp_payload_size`):
/// what fits into an Ethernet frame. Room for a received datagram must have this size.
pub const DATAGRAM_BYTES_MAX: u16 = 1472;

/// Content that the server may send on one stream without waiting: more than any response of a
/// usual load.
const STREAM_WINDOW: u32 = 4 << 20;

/// The same for all streams: 160 responses of 100 kB.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// How many windows of streams the window of a server's connection has.
const WINDOWS_PER_CONNECTION: u32 = 16;

/// Datagrams of one batch. The kernel takes 64 of them, and pacing rarely lets as many go.
pub(super) const BATCH_DATAGRAMS_MAX: usize = 32;

/// Content that is kept until the peer has acknowledged it.
const SEND_WINDOW: u64 = 8 << 20;

/// Unidirectional streams that the peer may have open: its control stream, two for QPACK, and a
/// few of unknown types that keep the field open (RFC 9114 section 6.2.3).
const PEER_STREAMS_MAX: u32 = 16;

/// Bytes of a connection ID. As many as QUIC libraries usually take.
const ID_BYTES: usize = 8;

/// Bytes of the connection ID that a client makes up for the server (RFC 9000 section 7.2).
const FIRST_ID_BYTES: usize = 20;

/// Where a session sends. It does not know: its owner has the socket, which is connected to one
/// address.
const REMOTE: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 443);

/// What all connections of a worker share.
pub(super) struct Transport {
    endpoint: Arc<EndpointConfig>,
    client: ClientConfig,
    random: Arc<Random>,
    discovers_mtu: bool,
}

/// One connection: QUIC's own state machine, and what assigns datagrams to it.
pub(super) struct Link {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub(super) connection: Connection,
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transport").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

impl Transport {
    /// # Errors
    /// If the settings of TLS lack what QUIC needs.
    pub(super) fn new(
        tls: &Arc<rustls::ClientConfig>,
        settings: &ClientSettings,
        seed: u64,
    ) -> Result<Self, TlsConfigError> {
        let random = Random::new(seed);
        let endpoint = Arc::new(endpoint_config(&random)?);
        let crypto = QuicClientConfig::try_from(Arc::clone(tls))
            .map_err(|error| TlsConfigError::Setup(error.to_string()))?;
        let mut client = ClientConfig::new(Arc::new(Handshakes(Arc::new(crypto))));
        client.transport_config(Arc::new(transport_config(settings.idle_timeout_ms)));
        let of_first_ids = Arc::clone(&random);
        client.initial_dst_cid_provider(Arc::new(move || of_first_ids.id(FIRST_ID_BYTES)));
        Ok(Self {
            endpoint,
            client,
            random,
            discovers_mtu: settings.discovers_mtu,
        })
    }

    /// Begins a connection.
    pub(super) fn connect(
        &self,
        now: std::time::Instant,
        name: &ServerName<'_>,
    ) -> Result<Link, SessionError> {
        let config = Arc::clone(&self.endpoint);
        let seed = Some(self.random.seed());
        let mut endpoint = Endpoint::new(config, None, self.discovers_mtu, seed);
        let connected = endpoint.connect(now, self.client.clone(), REMOTE, &name.to_str());
        let (handle, connection) =
            connected.map_err(|error| SessionError::TlsHandshake(error.to_string()))?;
        Ok(Link {
            endpoint,
            handle,
            connection,
        })
    }
}

impl Link {
    /// A datagram has arrived. `scratch` is empty, and so it stays.
    pub(super) fn receive(
        &mut self,
        now: std::time::Instant,
        datagram: &[u8],
        scratch: &mut Vec<u8>,
    ) {
        let event = self
            .endpoint
            .handle(now, REMOTE, None, None, datagram.into(), scratch);
        // A client does not reply to what belongs to no connection.
        scratch.clear();
        if let Some(quinn_proto::DatagramEvent::ConnectionEvent(_, event)) = event {
            self.connection.handle_event(event);
        }
    }

    /// Passes on what the connection has for the endpoint: new IDs, and the end.
    pub(super) fn exchange_events(&mut self) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(reply) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(reply);
            }
        }
    }
}

/// Whether a datagram is a Retry packet of QUIC version 1 (RFC 9000 section 17.2.5). The library
/// handles it and does not tell.
pub(super) fn is_retry(datagram: &[u8]) -> bool {
    // A long header, the fixed bit, and the type 3, in version 1.
    datagram.len() > 5 && datagram[0] & 0xf0 == 0xf0 && datagram[1..5] == [0, 0, 0, 1]
}

/// Quinn's defaults, except for what is set here. So the congestion controller is CUBIC (RFC 9438),
/// and the MTU begins at 1200 bytes.
fn transport_config(idle_timeout_ms: u32) -> TransportConfig {
    let mut config = TransportConfig::default();
    let idle_timeout = (idle_timeout_ms > 0).then(|| VarInt::from_u32(idle_timeout_ms).into());
    config
        .max_idle_timeout(idle_timeout)
        .keep_alive_interval(None)
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
        .send_window(SEND_WINDOW)
        // A server opens no request (RFC 9114 section 6.1).
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(PEER_STREAMS_MAX))
        .datagram_receive_buffer_size(None)
        // The time of flight is nobody's business, and the bit would be random.
        .allow_spin(false);
    config
}

/// The transport of a server's connections.
pub(super) fn server_transport_config(
    streams_max: u32,
    window_bytes: u32,
    idle_timeout_ms: u32,
) -> TransportConfig {
    let mut config = transport_config(idle_timeout_ms);
    let of_connection = window_bytes.saturating_mul(WINDOWS_PER_CONNECTION);
    config
        .stream_receive_window(VarInt::from_u32(window_bytes))
        .receive_window(VarInt::from_u32(of_connection))
        .max_concurrent_bidi_streams(VarInt::from_u32(streams_max));
    config
}

/// What all endpoints share. The key for tokens of stateless resets is random, and no decision
/// depends on it.
pub(super) fn endpoint_config(random: &Arc<Random>) -> Result<EndpointConfig, TlsConfigError> {
    let mut endpoint = EndpointConfig::default();
    let limited = endpoint.max_udp_payload_size(DATAGRAM_BYTES_MAX);
    limited.map_err(|error| TlsConfigError::Setup(error.to_string()))?;
    let of_ids = Arc::clone(random);
    endpoint.cid_generator(move || Box::new(Ids(Arc::clone(&of_ids))));
    Ok(endpoint)
}

pub(super) fn varint_of(code: ErrorCode) -> VarInt {
    VarInt::from_u64(code.0).unwrap_or(VarInt::MAX)
}

/// Numbers that depend on a seed only: SplitMix64 (Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators", 2014). They need not be secret: an attacker who guesses a
/// connection ID disturbs a load test.
#[derive(Debug)]
pub(super) struct Random(AtomicU64);

impl Random {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(seed)))
    }

    /// A seed for the choices of the library.
    pub(super) fn seed(&self) -> [u8; 32] {
        let mut seed = [0; 32];
        self.fill(&mut seed);
        seed
    }

    pub(super) fn next(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let state = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(super) fn fill(&self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            let number = self.next().to_le_bytes();
            part.copy_from_slice(&number[..part.len()]);
        }
    }

    fn id(&self, length: usize) -> ConnectionId {
        let mut bytes = [0; FIRST_ID_BYTES];
        let bytes = &mut bytes[..length.min(FIRST_ID_BYTES)];
        self.fill(bytes);
        ConnectionId::new(bytes)
    }
}

struct Ids(Arc<Random>);

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        self.0.id(ID_BYTES)
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}
