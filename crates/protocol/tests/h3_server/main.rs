//! The server's session of HTTP/3 against a client that a test plays frame by frame. The client is
//! `quinn-proto`; the link between them and the time are simulated.

#[path = "../tls/authority.rs"]
#[allow(dead_code, reason = "the tests of TLS need more of it")]
mod authority;
mod handshakes;
mod hostile;
mod link;
mod requests;
#[path = "../h3/written.rs"]
mod written;
