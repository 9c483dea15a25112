//! The codec of HTTP/2, through its public interface.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

mod blocks;
mod corpora;
mod encoding;
mod frame_rules;
mod frames;
mod heads;
mod hex;
mod hpack;
mod rfc_examples;
