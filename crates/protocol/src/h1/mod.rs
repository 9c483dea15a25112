//! The client's side of HTTP/1.0 and HTTP/1.1 (RFC 9112): encodes requests and decodes responses.

mod cache;
mod chunked;
mod decode;
pub mod encode;
mod fields;
mod head;
mod head_end;
mod outstanding;
pub mod request;

pub use decode::{H1, Limits, Shared};
