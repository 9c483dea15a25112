//! How large a loop is made.

/// Sizes of a loop, which bound memory and limit nothing that can be done, and its way of waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopOptions {
    /// Sockets expected at a time. More are possible, up to the open-file limit.
    pub sockets: u32,
    /// Bytes of one receive buffer: the most one [`Outcome::Received`](crate::Outcome::Received)
    /// can hold.
    pub receive_buffer_bytes: usize,
    /// How long before its deadline [`EventLoop::wait`](crate::EventLoop::wait) stops sleeping and
    /// polls, in nanoseconds, so that it comes back on time and not when the kernel has got the
    /// thread running again. Costs up to so much CPU time per wait; 0 sleeps to the end.
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
