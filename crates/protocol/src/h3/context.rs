//! What all HTTP/3 sessions of a worker share: settings, caches, the clock.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::heads::Heads;
use super::qpack::SectionLimits;
use super::transport::Transport;
use crate::StreamSpec;
use crate::h2::head::Head;
use crate::tls::{ClientConfig, ServerName, TlsConfigError};

/// The name of the protocol in the TLS handshake (ALPN).
pub const ALPN: &[u8] = b"h3";

/// What all HTTP/3 sessions of a worker share.
#[derive(Debug)]
pub struct H3Context {
    pub(super) heads: Heads<Rc<Head>>,
    pub(super) settings: ClientSettings,
    /// Captured responses have no body.
    pub(super) heads_only: bool,
    pub(super) stream: Option<StreamSpec>,
    pub(super) redirect_location: Option<String>,
    pub(super) transport: Transport,
    /// The names of all hosts of the run; at least one.
    pub(super) server_names: Vec<ServerName<'static>>,
    /// The index of the name that is used next.
    pub(super) host: usize,
    /// The largest number of streams that a server has allowed on a connection.
    pub(super) largest_limit: Option<u32>,
    pub(super) clock: Clock,
    /// The batch that is being made. Empty between calls.
    pub(super) scratch: Vec<u8>,
}

/// The choices of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSettings {
    /// Streams that may be open at a time, at least 1.
    pub streams_max: u32,
    /// Time without a packet after which the connection is lost, if the server has none that is
    /// shorter (RFC 9000 section 10.1). 0 is no such time. The usual value is 30,000.
    pub idle_timeout_ms: u32,
    /// Whether each connection finds out how large its datagrams may be (RFC 8899), up to 1452
    /// bytes instead of 1200. That takes about four probes after the handshake, and sockets that
    /// forbid fragments.
    pub discovers_mtu: bool,
    /// Whether requests are unary gRPC calls, whose trailers say how they have ended.
    pub calls: bool,
    /// Whether responses are captured as a whole ([`crate::Response::captured`]).
    pub capture: bool,
    /// Bytes of a captured body.
    pub captured_body_bytes_max: usize,
}

/// The time as the library for QUIC wants it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    pub(super) base: Instant,
    pub(super) now_ns: u64,
}

impl Clock {
    pub(super) fn now(self) -> Instant {
        self.base + Duration::from_nanos(self.now_ns)
    }

    pub(super) fn ns_of(self, instant: Instant) -> u64 {
        let since = instant.saturating_duration_since(self.base).as_nanos();
        u64::try_from(since).unwrap_or(u64::MAX)
    }
}

impl H3Context {
    /// The context of one worker's sessions. It is made in the worker's thread. `tls` offers
    /// [`ALPN`] only; workers that have the same one share its session tickets. `base` is the
    /// moment from which [`crate::Session::at`] counts.
    ///
    /// `seed` determines the IDs of all connections. It should be random, for each worker and each
    /// run: a server that knows an ID from a connection that has just ended ignores the new one,
    /// for seconds.
    ///
    /// # Errors
    /// If the settings of TLS lack what QUIC needs.
    pub fn new(
        settings: ClientSettings,
        tls: &Arc<ClientConfig>,
        server_name: ServerName<'static>,
        base: Instant,
        seed: u64,
    ) -> Result<Self, TlsConfigError> {
        // Entropy is gathered now, not within the first measured handshake, as for TLS over TCP.
        let _ = tls.crypto_provider().secure_random.fill(&mut [0]);
        let transport = Transport::new(tls, &settings, seed)?;
        Ok(Self {
            heads: Heads::new(SectionLimits::default()),
            settings,
            heads_only: false,
            stream: None,
            redirect_location: None,
            transport,
            server_names: vec![server_name],
            host: 0,
            largest_limit: None,
            clock: Clock { base, now_ns: 0 },
            scratch: Vec::new(),
        })
    }

    /// Connections go to further hosts too, after the first one;
    /// [`crate::Session::select_host`] chooses.
    #[must_use]
    pub fn with_more_hosts(mut self, names: Vec<ServerName<'static>>) -> Self {
        self.server_names.extend(names);
        self
    }

    /// Captures responses without their bodies.
    #[must_use]
    pub fn with_heads_only(mut self) -> Self {
        (self.settings.capture, self.heads_only) = (true, true);
        self
    }

    /// Splits the bodies of responses into events.
    #[must_use]
    pub fn with_stream(mut self, stream: Option<StreamSpec>) -> Self {
        self.stream = stream;
        self
    }
}
