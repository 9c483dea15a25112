//! The size of a loop and how it waits.

/// Sizes of a loop, which bound its memory but not what it can do, and how it waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopOptions {
    /// Expected number of sockets open at a time. More are possible, up to the open-file limit.
    pub sockets: u32,
    /// Size of a receive buffer: the most bytes that one
    /// [`SocketEvent::Received`](crate::SocketEvent::Received) can hold. Datagrams have buffers of
    /// their own, of 64 KiB.
    pub receive_buffer_bytes: usize,
    /// The longest time in nanoseconds that [`EventLoop::wait`](crate::EventLoop::wait) polls
    /// before its deadline instead of sleeping. Within this limit, a wait ends its sleep earlier by
    /// the usual delay of the kernel's wake-ups, so that most waits end on time. With 0, waits
    /// sleep until their deadline.
    pub spin_ns: u64,
    /// Whether to let the kernel split a buffer into datagrams (UDP_SEGMENT). If it refuses, the
    /// loop no longer asks, as with `false`: each datagram costs a system call then.
    pub segmentation_offload: bool,
}

impl Default for LoopOptions {
    fn default() -> Self {
        Self {
            sockets: 64,
            receive_buffer_bytes: 64 * 1024,
            spin_ns: 0,
            segmentation_offload: true,
        }
    }
}
