//! What the HTTP/3 connections of a server's worker share: it assigns datagrams to connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionEvent, ConnectionHandle, DatagramEvent, EndpointEvent, Incoming,
    ServerConfig,
};
use rustls::quic::{ServerConnection, Version};

use super::context::{ALPN, Clock};
use super::grease::Grease;
use super::server::Server;
use super::transport::{Random, endpoint_config, server_transport_config};
use crate::tls::TlsConfigError;

/// Connections at a time.
const CONNECTIONS_MAX: usize = 65_536;

/// Of the handshakes at a time, one in so many may be with a client that has not shown that its
/// address is its own. The others are left to clients that have, whatever is sent with forged
/// addresses.
const HANDSHAKES_PER_UNKNOWN: usize = 16;

/// What a server allows, and how it receives new connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerSettings {
    /// How many requests the client may have open at a time (MAX_STREAMS of QUIC).
    pub streams_max: u32,
    /// The window of each stream, bytes.
    pub window_bytes: u32,
    /// Bytes of a field section of a request.
    pub section_bytes_max: usize,
    /// Time without a packet after which the connection is lost (RFC 9000 section 10.1). 0 is no
    /// such time.
    pub idle_timeout_ms: u32,
    /// What happens to a new connection.
    pub greeting: Greeting,
    /// Handshakes at a time. Beyond that, new connections are refused, and from a sixteenth of it
    /// on, a client must show first that its address is its own: a datagram with a forged address
    /// begins a handshake that stays until the idle timeout (RFC 9000 section 8.1).
    pub handshakes_max: usize,
    /// Whether frames, streams, settings and codes of reserved types are sent, which a client must
    /// ignore (RFC 9114 section 7.2.8).
    pub has_grease: bool,
    /// How long after the handshake the client may open no stream for a request, nanoseconds.
    pub streams_delay_ns: u64,
}

/// What happens to a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Greeting {
    /// It is served.
    #[default]
    Accept,
    /// The client must show first that its address is its own (RFC 9000 section 8.1.2).
    Retry,
    /// It is closed with CONNECTION_REFUSED.
    Refuse,
    /// Nothing is sent.
    Ignore,
}

/// Assigns datagrams to connections.
pub struct Endpoint {
    endpoint: quinn_proto::Endpoint,
    settings: ServerSettings,
    grease: Option<Grease>,
    handshakes: usize,
    clock: Clock,
}

/// A packet for a connection ([`Server::receive`]).
#[derive(Debug)]
pub struct Packet(pub(super) ConnectionEvent);

/// What a datagram is.
#[derive(Debug)]
pub enum Arrival {
    /// A packet of the connection with this index.
    Packet(usize, Packet),
    /// The first one of a new connection, which has this index. Indexes are small, and used again
    /// when a session is drained.
    Connection(usize, Server),
    /// The reply was written to the buffer: the caller sends it to where the datagram came from.
    Reply,
    /// There is nothing to do.
    Nothing,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").finish_non_exhaustive()
    }
}

impl Endpoint {
    /// An endpoint without connections. Of `tls`, the names of protocols are replaced by [`ALPN`],
    /// and 0-RTT is refused. `base` is the moment from which [`Self::at`] counts.
    ///
    /// # Errors
    /// If the settings of TLS lack what QUIC needs, such as TLS 1.3.
    pub fn new(
        settings: ServerSettings,
        tls: &rustls::ServerConfig,
        base: Instant,
        seed: u64,
    ) -> Result<Self, TlsConfigError> {
        let setup = |error: String| TlsConfigError::Setup(error);
        let mut tls = tls.clone();
        tls.alpn_protocols = vec![ALPN.to_vec()];
        tls.max_early_data_size = 0;
        let tls = Arc::new(tls);
        // The library for QUIC does the same for each connection, and panics if it fails.
        ServerConnection::new(Arc::clone(&tls), Version::V1, Vec::new())
            .map_err(|error| setup(error.to_string()))?;
        let crypto = QuicServerConfig::try_from(tls).map_err(|error| setup(error.to_string()))?;
        let mut server = ServerConfig::with_crypto(Arc::new(crypto));
        let streams_at_first = match settings.streams_delay_ns {
            0 => settings.streams_max,
            _ => 0,
        };
        let transport = server_transport_config(
            streams_at_first,
            settings.window_bytes,
            settings.idle_timeout_ms,
        );
        server.transport_config(Arc::new(transport));
        let random = Random::new(seed);
        let mut config = endpoint_config(&random)?;
        // All connections of a worker share the limit. A reset is smaller than what it answers.
        config.min_reset_interval(Duration::ZERO);
        let (config, seed) = (Arc::new(config), Some(random.seed()));
        let endpoint = quinn_proto::Endpoint::new(config, Some(Arc::new(server)), true, seed);
        Ok(Self {
            endpoint,
            settings,
            grease: settings.has_grease.then_some(Grease(random)),
            handshakes: 0,
            clock: Clock { base, now_ns: 0 },
        })
    }

    /// It is this time now: nanoseconds since `base`. Time does not go back.
    pub fn at(&mut self, now_ns: u64) {
        self.clock.now_ns = self.clock.now_ns.max(now_ns);
    }

    /// A datagram has arrived. `reply` is cleared, and filled with [`Arrival::Reply`].
    pub fn receive(&mut self, from: SocketAddr, datagram: &[u8], reply: &mut Vec<u8>) -> Arrival {
        reply.clear();
        let now = self.now();
        let event = self
            .endpoint
            .handle(now, from, None, None, datagram.into(), reply);
        match event {
            None => Arrival::Nothing,
            Some(DatagramEvent::Response(transmit)) => replied(transmit.size, reply),
            Some(DatagramEvent::NewConnection(incoming)) => self.greet(incoming, reply),
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                Arrival::Packet(handle.0, Packet(event))
            }
        }
    }

    fn greet(&mut self, incoming: Incoming, reply: &mut Vec<u8>) -> Arrival {
        let most = self.settings.handshakes_max;
        let is_full =
            self.endpoint.open_connections() >= CONNECTIONS_MAX || self.handshakes >= most;
        let is_busy = self.handshakes >= most / HANDSHAKES_PER_UNKNOWN;
        match self.settings.greeting {
            Greeting::Ignore => {
                self.endpoint.ignore(incoming);
                Arrival::Nothing
            }
            _ if is_full => self.refuse(incoming, reply),
            Greeting::Refuse => self.refuse(incoming, reply),
            greeting
                if (is_busy || greeting == Greeting::Retry)
                    && !incoming.remote_address_validated() =>
            {
                match self.endpoint.retry(incoming, reply) {
                    Ok(transmit) => replied(transmit.size, reply),
                    Err(_) => Arrival::Nothing,
                }
            }
            Greeting::Accept | Greeting::Retry => {
                match self
                    .endpoint
                    .accept(incoming, self.clock.now(), reply, None)
                {
                    Ok((handle, quic)) => {
                        let grease = self.grease.clone();
                        self.handshakes += 1;
                        let server = Server::new(handle, quic, &self.settings, grease);
                        Arrival::Connection(handle.0, server)
                    }
                    Err(error) => match error.response {
                        Some(transmit) => replied(transmit.size, reply),
                        None => Arrival::Nothing,
                    },
                }
            }
        }
    }

    fn refuse(&mut self, incoming: Incoming, reply: &mut Vec<u8>) -> Arrival {
        let transmit = self.endpoint.refuse(incoming, reply);
        replied(transmit.size, reply)
    }

    /// Forgets an established connection, whose session is dropped next: its packets get a
    /// stateless reset (RFC 9000 section 10.3).
    pub fn forget(&mut self, session: &Server) {
        self.endpoint
            .handle_event(session.handle(), EndpointEvent::drained());
    }

    /// A handshake is complete, or has failed.
    pub(super) fn end_handshake(&mut self) {
        self.handshakes = self.handshakes.saturating_sub(1);
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// The time of [`Self::at`].
    pub(super) fn now_ns(&self) -> u64 {
        self.clock.now_ns
    }

    pub(super) fn ns_of(&self, instant: Instant) -> u64 {
        self.clock.ns_of(instant)
    }

    /// Passes on what a connection has for the endpoint: new IDs, and the end.
    pub(super) fn exchange_events(&mut self, handle: ConnectionHandle, quic: &mut Connection) {
        while let Some(event) = quic.poll_endpoint_events() {
            if let Some(reply) = self.endpoint.handle_event(handle, event) {
                quic.handle_event(reply);
            }
        }
    }
}

fn replied(bytes: usize, reply: &mut Vec<u8>) -> Arrival {
    reply.truncate(bytes);
    Arrival::Reply
}
