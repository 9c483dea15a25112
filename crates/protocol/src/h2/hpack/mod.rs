//! HPACK: header compression for HTTP/2 (RFC 7541).

mod decode;
pub mod encode;
pub(crate) mod huffman;
pub(crate) mod integer;
pub(crate) mod table;

pub use decode::{Decoder, Effect, Excess, Limits};
pub use table::ENTRY_OVERHEAD;
