//! The client's side of HTTP/1.0 and HTTP/1.1 (RFC 9112): decodes responses.

mod cache;
pub(crate) mod chunked;
mod decode;
pub(crate) mod fields;
mod head;
mod head_end;
mod outstanding;

pub use decode::{H1, H1Context, Limits};
