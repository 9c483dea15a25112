//! How large a loop is made.

/// Sizes of a loop, which bound memory and limit nothing that can be done, and its way of waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopOptions {
    /// Sockets expected at a time. More are possible, up to the open-file limit.
    pub sockets: u32,
    /// Bytes of one receive buffer: the most one [`Outcome::Received`](crate::Outcome::Received)
    /// can hold.
    pub receive_buffer_bytes: usize,
    /// The longest that [`EventLoop::wait`](crate::EventLoop::wait) polls before its deadline instead
    /// of sleeping, in nanoseconds. Within it, sleep ends as much earlier as the kernel usually
    /// wakes the thread too late, so that most waits end on time. 0 sleeps to the end.
    pub spin_ns: u64,
}

impl Default for LoopOptions {
    fn default() -> Self {
        Self {
            sockets: 64,
            receive_buffer_bytes: 64 * 1024,
            spin_ns: 0,
        }
    }
}
