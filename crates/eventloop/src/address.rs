//! Where to connect, and how the socket is set up.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// The far end of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// TCP over IPv4 or IPv6.
    Tcp(SocketAddr),
    /// A Unix stream socket by its path.
    Unix(PathBuf),
}

/// What is set on a socket before it connects. TCP_NODELAY is always set on TCP sockets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// Local address to bind to; the kernel picks the port (`IP_BIND_ADDRESS_NO_PORT`).
    pub source: Option<IpAddr>,
    /// Has the kernel stamp what it receives, for
    /// [`EventLoop::receive_delay_ns`](crate::EventLoop::receive_delay_ns). A socket or kernel that
    /// cannot gives no stamps, and no error.
    pub timestamps: bool,
}
