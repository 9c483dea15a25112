//! HTTP/2 (RFC 9113) and HPACK (RFC 7541). The codec is for both ends of a connection: frames,
//! settings, windows and header blocks. Streams, and who may send what when, are the session's:
//! [`H2`] is the client's, [`Server`] the server's.

pub mod error;
pub mod flow;
pub mod frame;
pub mod grpc;
pub(crate) mod head;
pub mod heads;
pub mod hpack;
pub(crate) mod prepared;
pub mod reader;
mod request_head;
mod server;
mod session;
pub mod settings;
mod streams;
pub mod writer;

pub use prepared::Prepared;
pub use request_head::RequestHead;
pub use server::{Received, Server, ServerSettings};
pub use session::{ClientSettings, H2, H2Context};

/// The identifier of a stream, 31 bits. 0 is the connection (RFC 9113 section 5.1.1).
pub type StreamId = u32;

/// The first bytes that a client sends, before its SETTINGS frame (RFC 9113 section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
