//! HTTP/3 responses as the engine sees them, through the `Session` trait only. The server is
//! `quinn-proto` with HTTP/3 that a test plays frame by frame; the link between them and the time
//! are simulated.

#[path = "../tls/authority.rs"]
#[allow(dead_code, reason = "the tests of TLS need more of it")]
mod authority;
mod calls;
mod closes;
mod early_data;
mod faults;
mod floods;
mod link;
mod requests;
mod responses;
mod resumption;
mod server;
#[path = "../h3/written.rs"]
mod written;
