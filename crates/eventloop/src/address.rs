//! Addresses and the options of sockets.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// The remote end of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// TCP over IPv4 or IPv6.
    Tcp(SocketAddr),
    /// A Unix stream socket, by path.
    Unix(PathBuf),
}

/// Options that are set on a socket before it connects. TCP_NODELAY is always set on TCP sockets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// Local address to bind to. The kernel picks the port (`IP_BIND_ADDRESS_NO_PORT`).
    pub source: Option<IpAddr>,
    /// Enables receive timestamps, for
    /// [`EventLoop::receive_delay_ns`](crate::EventLoop::receive_delay_ns). If the socket or the
    /// kernel does not support them, there are none, and no error.
    pub timestamps: bool,
    /// Keeps what [`EventLoop::tcp_path`](crate::EventLoop::tcp_path) needs, which may be a second
    /// file descriptor.
    pub path: bool,
}
