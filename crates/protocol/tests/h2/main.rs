//! The codec of HTTP/2, through its public interface.

mod blocks;
mod encoding;
mod frame_rules;
mod frames;
mod heads;
mod hex;
mod hpack;
mod rfc_examples;
