//! HTTP/2 responses as the engine sees them, through the `Session` trait only.

mod calls;
mod faults;
mod peer;
mod requests;
mod responses;
#[path = "../h2/written.rs"]
mod written;
