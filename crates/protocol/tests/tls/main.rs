//! HTTP/1 inside TLS, against a TLS server in memory.

mod authority;
mod faults;
mod handshake;
mod pair;
mod proxied;
mod settings;
mod traffic;
