//! HTTP/3 (RFC 9114) and QPACK (RFC 9204) over QUIC, whose packets are `quinn-proto`'s work
//! (`docs/decisions/0029-quinn-proto.md`). The codec is for both ends of a connection; [`H3`] is
//! the client's session, [`server`] has the server's.

mod connection_error;
mod context;
mod control;
mod endpoint;
pub mod error;
pub mod frame;
mod grease;
mod handshake;
pub mod heads;
mod peer_streams;
mod prepared;
pub mod qpack;
mod response;
pub mod server;
mod session;
mod statistics;
mod streams;
mod transport;
pub mod varint;

pub use context::{ALPN, ClientSettings, H3Context};
pub use endpoint::{Arrival, Endpoint, Greeting, Packet, ServerSettings};
pub use prepared::Prepared;
pub use session::H3;
pub use statistics::Statistics;
pub use transport::DATAGRAM_BYTES_MAX;
