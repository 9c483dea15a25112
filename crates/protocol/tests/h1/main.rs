//! HTTP/1 responses as the engine sees them: through the `Session` trait alone.

mod driver;
mod hostile;
mod naive;
mod reference;
mod responses;
