//! Sources of requests: the interface between the engine and whatever creates requests.

mod fixed;
mod from_file;

pub use fixed::Fixed;
pub use from_file::FromFile;

pub use eventloop::Address;
pub use protocol::{Captured, Fields};

/// Bytes of one write: one request, or several concatenated ("a batch", wrk's pipelining).
///
/// `protocol` finds out from the bytes how many requests there are, and which of them have
/// responses without a body.
pub type Batch = Vec<u8>;

/// A source failed. The run ends, the message is printed, and the exit code is 1.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    /// One line that says what failed and where, e.g. `auth.lua:12: attempt to ... (in request)`.
    pub message: String,
}

/// Provides the requests of one worker. It is created on the main thread and moved to the worker.
///
/// The worker calls [`fixed`](Self::fixed), [`file`](Self::file) and the `wants_*`
/// functions once, before the run. With a fixed batch or the requests of a file, without a script
/// delay and without a `response` function, the source is not called during the run. What most
/// sources do not do has a default.
pub trait RequestSource: Send {
    /// The batch that is sent every time, if it never changes.
    fn fixed(&self) -> Option<Batch> {
        None
    }

    /// The requests of a file, if it has nothing else.
    fn file(&self) -> Option<FromFile> {
        None
    }

    /// Writes the next batch into `output`, which is empty. `connection` is the worker's index of
    /// the connection, which is stable over reconnects. It stays empty if this worker has no other
    /// request: it ends when those that it has sent are answered.
    ///
    /// # Errors
    /// If the request cannot be created. This ends the run.
    fn next(&mut self, connection: u32, output: &mut Batch) -> Result<(), SourceError>;

    /// Whether to call [`delay_ns`](Self::delay_ns).
    fn wants_delay(&self) -> bool {
        false
    }

    /// How long to wait before the next batch of a connection, in nanoseconds.
    ///
    /// # Errors
    /// If the script fails. This ends the run.
    fn delay_ns(&mut self) -> Result<u64, SourceError> {
        Ok(0)
    }

    /// Whether to call [`response`](Self::response).
    fn wants_responses(&self) -> bool {
        false
    }

    /// Receives a complete response.
    ///
    /// # Errors
    /// If the script fails. This ends the run.
    fn response(&mut self, response: &Captured) -> Result<(), SourceError> {
        let _ = response;
        Ok(())
    }

    /// The address for the next connections, if the source has changed it (`thread.addr`). Called
    /// after every other call; `None` means no change since then.
    fn take_address(&mut self) -> Option<Address> {
        None
    }

    /// True once the source wants this worker to stop (`thread:stop()`).
    fn stopped(&self) -> bool {
        false
    }
}
