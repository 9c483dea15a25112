//! HTTP/1 responses as the engine sees them, through the `Session` trait only.

mod driver;
mod hostile;
mod naive;
mod reference;
mod responses;
