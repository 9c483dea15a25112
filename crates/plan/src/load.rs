//! Threads, connections, and how each connection is used.

use serde::{Deserialize, Serialize};

use crate::{Alpn, ConnectionStage, SourceRange};

/// The largest number of threads. Machines have fewer cores, so a larger number is probably a
/// typing error.
pub const MAX_THREADS: u32 = 4096;

/// The largest number of connections. Each is an open file, and processes rarely may have more than
/// 2^20 (the default of `fs.nr_open`).
pub const MAX_CONNECTIONS: u32 = 1 << 24;

/// The largest rate of new connections: no machine opens more per second.
pub const MAX_CONNECT_RATE: u32 = 10_000_000;

/// The largest number of requests in a batch, which is written at once from one buffer.
pub const MAX_PIPELINE: u32 = 65_536;

/// The largest number of streams per connection. No server allows nearly as many.
pub const MAX_STREAMS: u32 = 65_536;

/// What is spoken: a version of HTTP, or gRPC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Protocol {
    /// HTTP/1.1 on connections without TLS and with it.
    #[default]
    #[serde(rename = "http1")]
    Http1,
    /// HTTP/2: over TLS by ALPN, otherwise with prior knowledge.
    #[serde(rename = "http2")]
    Http2,
    /// Unary gRPC calls over HTTP/2. A call succeeds if its `grpc-status` is 0.
    #[serde(rename = "grpc")]
    Grpc,
    /// HTTP/3 over QUIC, without asking by Alt-Svc first.
    #[serde(rename = "http3")]
    Http3,
    /// Unary gRPC calls over HTTP/3.
    #[serde(rename = "grpc_http3")]
    GrpcHttp3,
}

impl Protocol {
    /// Whether a connection carries requests as streams.
    #[must_use]
    pub const fn has_streams(self) -> bool {
        !matches!(self, Self::Http1)
    }

    /// Whether requests are gRPC calls.
    #[must_use]
    pub const fn is_grpc(self) -> bool {
        matches!(self, Self::Grpc | Self::GrpcHttp3)
    }

    /// Whether connections are those of QUIC.
    #[must_use]
    pub const fn is_http3(self) -> bool {
        matches!(self, Self::Http3 | Self::GrpcHttp3)
    }

    /// The same version of HTTP with gRPC calls. HTTP/1 becomes HTTP/2, which calls need.
    #[must_use]
    pub const fn with_grpc(self) -> Self {
        if self.is_http3() {
            Self::GrpcHttp3
        } else {
            Self::Grpc
        }
    }

    /// The name of the protocol in TLS handshakes.
    #[must_use]
    pub const fn alpn(self) -> Alpn {
        match self {
            Self::Http1 => Alpn::Http1,
            Self::Http2 | Self::Grpc => Alpn::Http2,
            Self::Http3 | Self::GrpcHttp3 => Alpn::Http3,
        }
    }
}

/// Threads, connections, and how each connection is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Load {
    /// Worker threads, 1..=[`MAX_THREADS`]; in a fleet, of each agent.
    pub threads: u32,
    /// Connections over all threads, at least one for each thread, at most [`MAX_CONNECTIONS`].
    pub connections: u32,
    /// In a closed loop: how many of the connections there are over time, from the start of the
    /// window on; the warm-up has the first number. Empty: all of them at any time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connection_stages: Vec<ConnectionStage>,
    /// The version of HTTP, or gRPC.
    #[serde(default, skip_serializing_if = "is_default")]
    pub protocol: Protocol,
    /// HTTP/2: requests in flight per connection, 1..=[`MAX_STREAMS`].
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub streams: u32,
    /// HTTP/1: requests sent together before waiting for the responses, 1..=[`MAX_PIPELINE`]; 1 is
    /// off.
    pub pipeline: u32,
    /// Whether a connection is used again after a response.
    pub keepalive: bool,
    /// Close and replace a connection after this many requests; at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_connection: Option<u64>,
    /// Open at most so many connections per second, all threads and machines together; 1 to
    /// [`MAX_CONNECT_RATE`]. `None` opens them as fast as possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_rate_per_sec: Option<u32>,
    /// Further connections over all threads and machines, on which nothing is sent; at most
    /// [`MAX_CONNECTIONS`] with the others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub idle_connections: u32,
    /// Each connection sends the cookies that its responses have set (RFC 6265).
    #[serde(default, skip_serializing_if = "is_off")]
    pub cookies: bool,
    /// Local addresses of the connections; `None` lets the kernel choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceRange>,
    /// Only the last response of a batch is a sample of latency (wrk2's `-B`).
    #[serde(default)]
    pub batch_latency: bool,
}

impl Default for Load {
    /// wrk's defaults: 2 threads, 10 connections, kept alive.
    fn default() -> Self {
        Self {
            threads: 2,
            connections: 10,
            connection_stages: Vec::new(),
            protocol: Protocol::Http1,
            streams: 1,
            pipeline: 1,
            keepalive: true,
            requests_per_connection: None,
            connect_rate_per_sec: None,
            idle_connections: 0,
            cookies: false,
            source: None,
            batch_latency: false,
        }
    }
}

impl Load {
    /// The most requests or batches of requests that are in flight on a connection.
    #[must_use]
    pub fn in_flight_per_connection(&self) -> u32 {
        if self.protocol.has_streams() {
            self.streams
        } else {
            self.pipeline
        }
    }
}

fn is_default(protocol: &Protocol) -> bool {
    *protocol == Protocol::default()
}

pub(crate) fn is_off(switch: &bool) -> bool {
    !*switch
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn one() -> u32 {
    1
}

fn is_one(streams: &u32) -> bool {
    *streams == 1
}
