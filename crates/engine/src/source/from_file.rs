//! The requests of a file.

use super::{RequestSource, SourceError};
use requests::{Moment, RequestSet};
use std::sync::Arc;

/// A source whose requests come from a file. The engine prepares them once, and never calls the
/// source during the run.
#[derive(Debug, Clone)]
pub struct FromFile {
    /// The requests, shared by all workers.
    pub set: Arc<RequestSet>,
    /// Seed of a random order and of random values.
    pub seed: u64,
    /// A moment on the wall clock, for `{{now}}`.
    pub wall_clock: Moment,
    /// The same moment on CLOCK_MONOTONIC, nanoseconds.
    pub monotonic_ns: u64,
}

impl FromFile {
    /// The wall clock at a later moment of the monotonic clock.
    #[inline]
    pub(crate) fn moment(&self, at_ns: u64) -> Moment {
        let since_ms = at_ns.saturating_sub(self.monotonic_ns) / 1_000_000;
        Moment {
            unix_ms: self.wall_clock.unix_ms.saturating_add(since_ms),
        }
    }
}

impl RequestSource for FromFile {
    fn file(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn next(&mut self, _connection: u32, _output: &mut super::Batch) -> Result<(), SourceError> {
        Ok(())
    }
}
