//! QPACK: header compression for HTTP/3 (RFC 9204), without a dynamic table. This end announces
//! that it has none (section 5: a capacity of 0 and 0 blocked streams are the defaults), and never
//! fills that of the peer. So each field section stands for itself, and nothing has to be sent on
//! the streams of an encoder and a decoder.

mod decode;
pub mod encode;
mod instructions;
mod table;

pub use decode::decode;
pub use instructions::{DecoderStream, EncoderStream};

use crate::h2::hpack::Limits;

/// The limits of a field section: those of HTTP/1.1 and HTTP/2.
pub type SectionLimits = Limits;
