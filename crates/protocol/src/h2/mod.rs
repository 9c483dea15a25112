//! The codec of HTTP/2 (RFC 9113) and HPACK (RFC 7541), for both ends of a connection: frames,
//! settings, windows and header blocks. Streams, and who may send what when, are the session's.

pub mod error;
pub mod flow;
pub mod frame;
pub mod heads;
pub mod hpack;
pub mod reader;
pub mod settings;
pub mod writer;

/// The identifier of a stream, 31 bits. 0 is the connection (RFC 9113 section 5.1.1).
pub type StreamId = u32;

/// The first bytes that a client sends, before its SETTINGS frame (RFC 9113 section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
