//! HTTP/3 (RFC 9114) and QPACK (RFC 9204): the codec, for both ends of a connection.

pub mod error;
pub mod frame;
pub mod qpack;
pub mod varint;
