//! How large a loop is made.

/// Sizes of a loop. They bound memory; none of them limits what can be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopOptions {
    /// Sockets expected at a time. More are possible, up to the open-file limit.
    pub sockets: u32,
    /// Bytes of one receive buffer: the most one [`Outcome::Received`](crate::Outcome::Received)
    /// can hold.
    pub receive_buffer_bytes: usize,
}

impl Default for LoopOptions {
    fn default() -> Self {
        Self {
            sockets: 64,
            receive_buffer_bytes: 64 * 1024,
        }
    }
}
