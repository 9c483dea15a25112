//! What to send: the seam between the engine and whatever makes requests.

mod fixed;

pub use fixed::Fixed;

pub use eventloop::Address;
pub use protocol::{Captured, Fields};

/// Bytes for one write: one request, or several concatenated ("a batch", wrk's pipelining).
///
/// How many requests there are, and which of them are answered without a body, is found out by
/// `protocol` from the bytes themselves.
pub type Batch = Vec<u8>;

/// A source could not deliver. The run ends, the message is printed, the exit code is 1.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    /// One line that says what failed and where, e.g. `auth.lua:12: attempt to ... (in request)`.
    pub message: String,
}

/// Yields requests for one worker. It is made on the main thread and moved to the worker.
///
/// The worker asks [`fixed`](Self::fixed) and the `wants_*` questions once, before the run. With a
/// fixed batch, no script delay and no wish for responses the source is not called during the run.
pub trait RequestSource: Send {
    /// The batch that is sent every time, if it never changes.
    fn fixed(&self) -> Option<Batch>;

    /// Writes the next batch into `output`, which is empty. `connection` is the worker's number of
    /// the connection, stable over reconnects.
    ///
    /// # Errors
    /// When the request cannot be made; ends the run.
    fn next(&mut self, connection: u32, output: &mut Batch) -> Result<(), SourceError>;

    /// Whether [`delay_ns`](Self::delay_ns) has anything to say.
    fn wants_delay(&self) -> bool;

    /// How long to wait before the next batch of a connection, in nanoseconds.
    ///
    /// # Errors
    /// When the script fails; ends the run.
    fn delay_ns(&mut self) -> Result<u64, SourceError>;

    /// Whether [`response`](Self::response) wants to see answers.
    fn wants_responses(&self) -> bool;

    /// Shows a complete response.
    ///
    /// # Errors
    /// When the script fails; ends the run.
    fn response(&mut self, response: &Captured) -> Result<(), SourceError>;

    /// The address for the next connections, when the source has changed it (`thread.addr`).
    /// Asked after every call into the source; `None` means no change since the last question.
    fn take_address(&mut self) -> Option<Address>;

    /// True once the source wants this worker to stop (`thread:stop()`).
    fn stopped(&self) -> bool;
}
