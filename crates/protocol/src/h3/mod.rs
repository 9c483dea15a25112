//! HTTP/3 (RFC 9114): the codec, for both ends of a connection.

pub mod error;
pub mod frame;
pub mod varint;
