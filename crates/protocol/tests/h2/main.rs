//! The codec of HTTP/2, through its public interface.

mod blocks;
mod encoding;
mod hex;
mod hpack;
mod rfc_examples;
