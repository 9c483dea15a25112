//! The same batch every time.

use super::{Batch, Captured, RequestSource, SourceError};
use eventloop::Address;

/// A source without a script. The engine keeps the bytes and never calls the source again.
#[derive(Debug, Clone)]
pub struct Fixed {
    batch: Batch,
}

impl Fixed {
    /// Always sends `batch`: one request, or several concatenated.
    #[must_use]
    pub fn new(batch: Batch) -> Self {
        Self { batch }
    }
}

impl RequestSource for Fixed {
    fn fixed(&self) -> Option<Batch> {
        Some(self.batch.clone())
    }

    fn next(&mut self, _connection: u32, output: &mut Batch) -> Result<(), SourceError> {
        output.extend_from_slice(&self.batch);
        Ok(())
    }

    fn wants_delay(&self) -> bool {
        false
    }

    fn delay_ns(&mut self) -> Result<u64, SourceError> {
        Ok(0)
    }

    fn wants_responses(&self) -> bool {
        false
    }

    fn response(&mut self, _response: &Captured) -> Result<(), SourceError> {
        Ok(())
    }

    fn take_address(&mut self) -> Option<Address> {
        None
    }

    fn stopped(&self) -> bool {
        false
    }
}
