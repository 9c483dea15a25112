//! Ends a wait of another thread.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends a wait of the loop that made it ([`crate::EventLoop::waker`]), from any thread.
#[derive(Debug)]
pub struct Waker(WakeTarget);

#[derive(Debug)]
enum WakeTarget {
    /// The loop receives on the other end.
    Socket(UnixStream),
    /// Read by the simulated loop.
    Flag(Arc<AtomicBool>),
}

impl Waker {
    pub(crate) const fn of_socket(socket: UnixStream) -> Self {
        Self(WakeTarget::Socket(socket))
    }

    pub(crate) const fn of_flag(flag: Arc<AtomicBool>) -> Self {
        Self(WakeTarget::Flag(flag))
    }

    /// Ends the current wait of the loop, or its next one if it is not waiting. Several calls may
    /// end only one wait.
    pub fn wake(&self) {
        match &self.0 {
            WakeTarget::Socket(socket) => {
                // If the socket is full, the loop has bytes to read and will not sleep. If the loop
                // is gone, there is no wait to end.
                let _ = (&mut &*socket).write(&[1]);
            }
            WakeTarget::Flag(flag) => flag.store(true, Ordering::SeqCst),
        }
    }
}
