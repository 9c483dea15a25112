//! Drives the server with plain sockets: everything a client can see of it, on every backend.
#![allow(
    clippy::unwrap_used,
    reason = "clippy allows it in tests, but does not see that their helpers are tests"
)]

mod bad_input;
mod client;
mod faults;
mod http2;
mod http3;
mod listening;
mod llm;
mod log;
mod many;
mod responses;
mod timing;
mod tls;
#[path = "../../../protocol/tests/h2/written.rs"]
mod written;
