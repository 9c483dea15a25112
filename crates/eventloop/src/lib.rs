//! Asks the kernel: one completion-shaped seam over sockets, and all the `unsafe` they need.
//!
//! The caller starts an operation ([`EventLoop::connect`], [`EventLoop::send`], ...), waits with
//! [`EventLoop::wait`], and takes what happened one at a time from [`EventLoop::next`]. io_uring works
//! like this by itself; epoll tries the call first and parks it when the kernel would block.
//!
//! Rules that hold for every backend (the conformance suite in `tests/conformance.rs` checks them):
//!
//! - A connected or accepted socket receives until it is closed; there is no call to ask for more.
//! - Bytes of a [`Outcome::Received`] are lent: they stand in [`EventLoop::received`] until the next
//!   call of [`EventLoop::next`] or [`EventLoop::wait`].
//! - [`EventLoop::discard`] is a wish. Bytes that it covers are reported as [`Outcome::Discarded`] or
//!   as [`Outcome::Received`]; each byte is reported exactly once, in order.
//! - After [`EventLoop::close`] a token yields one [`Outcome::Closed`] - or, when it was just failing to
//!   connect, one [`Outcome::ConnectFailed`] - and nothing else, whatever was in flight. A new
//!   connection may be started at once; it has a token of its own.
//! - Failures are completions, not results: a refused connection and an exhausted file table are seen
//!   in the same place.
//! - Timers stay above the seam: the caller passes its next deadline to `wait`.

mod address;
mod aim;
mod clock;
pub mod epoll;
mod limits;
mod options;
mod region;
pub mod sim;
mod socket;
mod stamps;
pub mod uring;
mod waker;

pub use address::{Address, SocketOptions};
pub use clock::monotonic_ns;
pub use limits::raise_open_file_limit;
pub use options::LoopOptions;
pub use waker::Waker;

use std::io;
use std::ops::Range;
use std::os::unix::net::UnixStream;

/// Names one socket of one loop. A token is never used twice, although its index is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token {
    /// Position in the loop's socket table; small and dense, so callers may index by it.
    pub index: u32,
    /// Counts the sockets that have had this index.
    pub generation: u32,
}

/// Names bytes handed to [`EventLoop::share`], which live as long as the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedBytes(pub u32);

/// What to send, and who owns it meanwhile.
#[derive(Debug)]
pub enum Payload {
    /// A part of bytes that the loop already keeps: nothing is copied, nothing comes back.
    Shared {
        /// From [`EventLoop::share`].
        bytes: SharedBytes,
        /// The part to send.
        range: Range<usize>,
    },
    /// A buffer lent to the loop; it comes back in [`Outcome::Sent`].
    Owned(Vec<u8>),
}

/// How a socket ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseMode {
    /// The kernel's ordinary close: what is queued is still delivered, then FIN.
    Graceful,
    /// RST at once (`SO_LINGER` with zero time).
    Abort,
}

/// One thing that happened.
#[derive(Debug)]
pub struct Completion {
    /// The number the caller gave the socket at [`EventLoop::connect`]; for accepted sockets the
    /// key given to [`Acceptor::listen`].
    pub key: u32,
    /// The socket.
    pub token: Token,
    /// When the loop learned of it: CLOCK_MONOTONIC, nanoseconds.
    pub at_ns: u64,
    /// What happened.
    pub outcome: Outcome,
}

/// What became of an operation. `i32` values are `errno` numbers.
#[derive(Debug)]
pub enum Outcome {
    /// The connection stands; receiving has begun.
    Connected,
    /// No connection: refused, unreachable, no file descriptor left, ... The token is dead, no
    /// `close` is needed.
    ConnectFailed(i32),
    /// A listening socket has a new connection; `token` is the new socket, receiving has begun.
    Accepted,
    /// So many bytes stand in [`EventLoop::received`]; at least one.
    Received(usize),
    /// So many bytes arrived and were thrown away, as [`EventLoop::discard`] asked; at least one.
    Discarded(u64),
    /// The peer will send no more (FIN). The socket can still send.
    EndOfStream,
    /// Receiving failed (reset, ...). The socket is of no more use; `close` it.
    ReceiveFailed(i32),
    /// An owned buffer was handed to the kernel whole, and comes back (its content unchanged).
    Sent(Vec<u8>),
    /// Sending failed; `close` the socket.
    SendFailed(i32),
    /// The socket is gone; last completion of its token.
    Closed,
}

/// How much of a message is read at first when the one before it on the same socket was so long that a
/// part of it was discarded: what has been read cannot be discarded any more. Room for a usual head.
const BEGINNING_BYTES: usize = 2 * 1024;

/// What is expected of the next message on a socket that can discard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// Nothing in particular.
    Anything,
    /// A long message again: only its beginning is read at first.
    Long,
    /// The rest of a message that began like a long one, and of which nothing was discarded yet.
    Rest,
}

impl Expected {
    /// After bytes were handed out.
    fn after_received(self) -> Self {
        match self {
            Self::Long => Self::Rest,
            Self::Rest | Self::Anything => Self::Anything,
        }
    }
}

/// Starts operations and hands out what became of them.
pub trait EventLoop {
    /// Now, on CLOCK_MONOTONIC (or the virtual clock), in nanoseconds.
    fn now_ns(&self) -> u64;

    /// Keeps bytes for [`Payload::Shared`] for the life of the loop.
    fn share(&mut self, bytes: Vec<u8>) -> SharedBytes;

    /// Starts a connection. `key` comes back in every completion of the socket.
    /// Ends in [`Outcome::Connected`] or [`Outcome::ConnectFailed`].
    fn connect(&mut self, key: u32, address: &Address, options: &SocketOptions) -> Token;

    /// Takes over a connected stream socket, which is then like one that was connected here.
    ///
    /// # Errors
    /// When the kernel does not take it; a simulated loop knows no sockets but its own.
    fn adopt(&mut self, key: u32, socket: std::os::fd::OwnedFd) -> io::Result<Token> {
        let _ = (key, socket);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes something with which another thread can end a wait of this loop. Each use of it may
    /// yield an [`Outcome::Received`] with this key, whose bytes mean nothing.
    ///
    /// # Errors
    /// When the kernel gives no pair of sockets.
    fn waker(&mut self, key: u32) -> io::Result<Waker> {
        let (near, far) = UnixStream::pair()?;
        near.set_nonblocking(true)?;
        self.adopt(key, far.into())?;
        Ok(Waker::of_socket(near))
    }

    /// Queues bytes. Sends of one socket leave in the order of the calls, each whole.
    ///
    /// Success is reported for [`Payload::Owned`] only, and may be reported late.
    fn send(&mut self, token: Token, payload: Payload);

    /// The content of the next `bytes` bytes of this socket is not wanted, so that the kernel need not
    /// copy them. Both kinds of outcome use the wish up; it replaces an earlier one, of which no more
    /// may be left than `bytes`. A loop that cannot discard hands the bytes out as usual.
    fn discard(&mut self, token: Token, bytes: u64) {
        let _ = (token, bytes);
    }

    /// Ends the sending side (FIN) after what was queued.
    fn shutdown_send(&mut self, token: Token);

    /// Ends the socket; operations in flight are cancelled. Yields [`Outcome::Closed`], or the
    /// [`Outcome::ConnectFailed`] that was already on its way.
    fn close(&mut self, token: Token, mode: CloseMode);

    /// Submits what was queued and blocks until something happened or the clock passes `until_ns`
    /// (`None`: until something happens). Returns early only when there is something to take.
    /// [`LoopOptions::spin_ns`] decides how it blocks.
    ///
    /// # Errors
    /// Only when the loop itself is broken; sockets report through completions.
    fn wait(&mut self, until_ns: Option<u64>) -> io::Result<()>;

    /// Until then waits poll instead of sleeping; a moment that has passed ends it. For an answer that is
    /// about to come: to be woken for it takes longer than it does. Only with
    /// [`LoopOptions::spin_ns`]; a loop may as well do nothing.
    fn poll_until(&mut self, _until_ns: u64) {}

    /// The next thing that happened, if any; ends the loan of the bytes of the one before.
    fn next(&mut self) -> Option<Completion>;

    /// The bytes of the last [`Outcome::Received`].
    fn received(&self) -> &[u8];

    /// How long the last of the bytes just received or discarded had been with the kernel at the
    /// completion's `at_ns`, in nanoseconds. `None` when there are no such bytes, or no stamp for them
    /// ([`SocketOptions::timestamps`]).
    fn receive_delay_ns(&self) -> Option<u64>;
}

/// A loop that also takes connections: what a server needs beyond [`EventLoop`].
pub trait Acceptor: EventLoop {
    /// Takes over a bound, listening socket; each new connection yields [`Outcome::Accepted`] with
    /// this `key`.
    ///
    /// # Errors
    /// When the kernel does not take the listener.
    fn listen(&mut self, key: u32, listener: std::os::fd::OwnedFd) -> io::Result<()>;
}
