//! The same batch every time.

use super::{Batch, RequestSource, SourceError};

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
}
