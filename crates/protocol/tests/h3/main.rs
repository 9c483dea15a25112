//! The codec of HTTP/3: frames and QPACK.

mod frames;
#[path = "../h2/hex.rs"]
mod hex;
mod qpack;
