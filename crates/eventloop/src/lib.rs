//! Event loops over sockets: one interface in the shape of completions, with an io_uring, an epoll
//! and a simulated backend. All `unsafe` that sockets need is in this crate.
//!
//! The caller starts an operation ([`EventLoop::connect`], [`EventLoop::send`], ...), waits with
//! [`EventLoop::wait`], and takes the completions one at a time from [`EventLoop::next`]. This is
//! how io_uring works. With epoll, a send tries the system call first and waits for readiness if it
//! would block.
//!
//! Rules for every backend, checked by the conformance suite in `tests/conformance.rs`:
//!
//! - A connected or accepted socket receives until it is closed. No call is needed to receive more.
//! - The bytes of a [`SocketEvent::Received`] are lent: they are in [`EventLoop::received`] until
//!   the next call of [`EventLoop::next`] or [`EventLoop::wait`].
//! - [`EventLoop::discard`] is a hint. The bytes it covers are reported as
//!   [`SocketEvent::Discarded`] or as [`SocketEvent::Received`]. Each byte is reported exactly
//!   once, in order.
//! - After [`EventLoop::close`], a token yields one [`SocketEvent::Closed`] and nothing else,
//!   whatever was in flight. If it was failing to connect at that moment, it yields one
//!   [`SocketEvent::ConnectFailed`] instead. A new connection may be started at once; it has its
//!   own token.
//! - Failures are completions too. A refused connection and an exhausted file table are reported in
//!   the same way.
//! - There are no timers: the caller passes its next deadline to `wait`.
//!
//! A datagram socket ([`EventLoop::connect_datagrams`]) is a connected UDP socket. It follows the
//! same rules, and these:
//!
//! - Datagrams keep their boundaries: each is received and sent as a whole. Several may come in one
//!   [`SocketEvent::Received`], and [`EventLoop::received_segment`] says where they end. An empty
//!   datagram is neither sent nor reported.
//! - Datagrams may be lost, in this machine too. One that cannot be sent, because it is too long
//!   for the path (EMSGSIZE) or because a queue (ENOBUFS) or a firewall (EPERM) rejects it, is such
//!   a loss: [`SocketEvent::Sent`] says that the buffer is done with, not that it has left. There
//!   is no [`SocketEvent::SendFailed`].
//! - [`SocketEvent::ReceiveFailed`] is news and not the end: the socket goes on. It is usually
//!   ECONNREFUSED: a host has answered an earlier datagram with the message that nobody receives at
//!   that port (ICMP). That may pass, and it may be forged (RFC 9000, 14.2.1), so the caller
//!   decides what follows. It is reported once for each such message that the kernel keeps, and it
//!   costs no datagram, even if a send was the call that learned of it.
//! - There is no end of a stream. [`EventLoop::shutdown_send`] and [`EventLoop::discard`] do
//!   nothing.

#![warn(missing_docs)]

mod address;
mod clock;
mod control;
mod datagrams;
mod descriptors;
pub mod epoll;
mod limits;
mod mapping;
mod options;
pub mod sim;
mod sleep_margin;
mod socket;
mod timestamps;
pub mod uring;
mod waker;

pub use address::{Address, SocketOptions};
pub use clock::monotonic_ns;
pub use descriptors::inherited;
pub use limits::raise_open_file_limit;
pub use options::LoopOptions;
pub use waker::Waker;

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Identifies one socket of one loop. Indexes are reused; a token is never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token {
    /// Position in the loop's socket table. Small and dense, so that callers can use it as an
    /// index.
    pub index: u32,
    /// How many sockets have had this index before.
    pub generation: u32,
}

/// Identifies bytes passed to [`EventLoop::share`]. They live as long as the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedBytes(pub u32);

/// What to send, and who owns it.
#[derive(Debug)]
pub enum Payload {
    /// A part of bytes that the loop owns. Nothing is copied, and nothing is returned.
    Shared {
        /// The bytes, from [`EventLoop::share`].
        bytes: SharedBytes,
        /// The part to send.
        range: Range<usize>,
    },
    /// A buffer lent to the loop, which returns it in [`SocketEvent::Sent`].
    Owned(Vec<u8>),
    /// One or several datagrams, in a buffer that is returned like the one of `Owned`. Only for
    /// datagram sockets, which take no other payload.
    Datagrams {
        /// The datagrams one after another. An empty buffer has none and is returned at once.
        buffer: Vec<u8>,
        /// Length of each datagram. The last one may be shorter. With 0, the buffer is one
        /// datagram.
        segment: u16,
    },
}

impl Payload {
    /// Its bytes, of which shared ones are in `shared`.
    pub(crate) fn bytes<'a>(&'a self, shared: &'a [Arc<[u8]>]) -> &'a [u8] {
        match self {
            Self::Shared { bytes, range } => &shared[bytes.0 as usize][range.clone()],
            Self::Owned(bytes) | Self::Datagrams { buffer: bytes, .. } => bytes,
        }
    }

    /// How many bytes it has.
    pub(crate) fn length(&self) -> usize {
        match self {
            Self::Shared { range, .. } => range.len(),
            Self::Owned(bytes) | Self::Datagrams { buffer: bytes, .. } => bytes.len(),
        }
    }
}

/// How a socket ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseMode {
    /// The kernel's ordinary close: what was passed to [`EventLoop::send`] is still delivered,
    /// followed by FIN. What the socket has no room for at that moment is lost.
    Graceful,
    /// An immediate RST (`SO_LINGER` with zero time).
    Abort,
}

/// The result of an operation, or an event of a socket.
#[derive(Debug)]
pub struct Completion {
    /// The number that the caller passed to [`EventLoop::connect`]. For accepted sockets, the key
    /// passed to [`Acceptor::listen`].
    pub key: u32,
    /// The socket that the completion is about.
    pub token: Token,
    /// When the loop noticed it: CLOCK_MONOTONIC, nanoseconds.
    pub at_ns: u64,
    /// What happened to the socket.
    pub event: SocketEvent,
}

/// What happened to a socket. `i32` values are `errno` numbers.
#[derive(Debug)]
pub enum SocketEvent {
    /// The connection is established, and receiving has started.
    Connected,
    /// The connection could not be established: refused, unreachable, no free file descriptor, ...
    /// The token is dead and needs no `close`.
    ConnectFailed(i32),
    /// A listening socket has accepted a connection. `token` is the new socket, which is already
    /// receiving.
    Accepted,
    /// This many bytes, at least one, are in [`EventLoop::received`].
    Received(usize),
    /// This many bytes, at least one, arrived and were thrown away as [`EventLoop::discard`] asked.
    Discarded(u64),
    /// Something has arrived, and the loop has no buffer for it now. The next wait finds it.
    Postponed,
    /// The peer will send no more (FIN). The socket can still send.
    EndOfStream,
    /// Receiving failed (reset, ...). The socket is no longer usable; `close` it. A datagram socket
    /// goes on (see the crate's documentation).
    ReceiveFailed(i32),
    /// An owned buffer was passed to the kernel as a whole. It is returned unchanged.
    Sent(Vec<u8>),
    /// Sending failed; `close` the socket.
    SendFailed(i32),
    /// The socket is gone. This is the last completion of its token.
    Closed,
}

/// How much of a message is read at first, if a part of the previous message on the same socket was
/// discarded. What has been read can no longer be discarded. Has room for a usual message head.
const BEGINNING_BYTES: usize = 2 * 1024;

/// What to expect of the next message on a socket that can discard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Anything,
    /// Another long message: only its beginning is read at first.
    Long,
    /// The rest of a message that began like a long one, of which nothing has been discarded yet.
    Rest,
}

impl Expected {
    /// The state after bytes were handed out.
    fn after_received(self) -> Self {
        match self {
            Self::Long => Self::Rest,
            Self::Rest | Self::Anything => Self::Anything,
        }
    }
}

/// Starts socket operations and reports their completions. The crate's documentation has the rules.
pub trait EventLoop {
    /// The current time in nanoseconds: CLOCK_MONOTONIC, or the virtual clock.
    fn now_ns(&self) -> u64;

    /// Stores bytes for [`Payload::Shared`] for the life of the loop.
    fn share(&mut self, bytes: impl Into<Arc<[u8]>>) -> SharedBytes;

    /// Starts a connection. `key` is returned in every completion of the socket. Ends in
    /// [`SocketEvent::Connected`] or [`SocketEvent::ConnectFailed`].
    fn connect(&mut self, key: u32, address: &Address, options: &SocketOptions) -> Token;

    /// Opens a datagram socket that is connected to `address` over UDP. It sends
    /// [`Payload::Datagrams`] and receives datagrams from this address only, which no router may
    /// fragment. Nothing leaves the machine for it, so it ends in [`SocketEvent::Connected`]
    /// whether or not somebody is there, or in [`SocketEvent::ConnectFailed`] if there is no socket
    /// or no route. The crate's documentation has the rules.
    fn connect_datagrams(
        &mut self,
        key: u32,
        address: SocketAddr,
        options: &SocketOptions,
    ) -> Token;

    /// Takes over a connected stream socket. From then on it behaves like one that was connected
    /// here.
    ///
    /// # Errors
    /// If the kernel refuses it. A simulated loop refuses every socket.
    fn adopt(&mut self, key: u32, socket: std::os::fd::OwnedFd) -> io::Result<Token> {
        let _ = (key, socket);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes a handle with which another thread can end a wait of this loop. Each use of it may
    /// yield a [`SocketEvent::Received`] with this key; its bytes have no meaning.
    ///
    /// # Errors
    /// If the kernel refuses a pair of sockets.
    fn waker(&mut self, key: u32) -> io::Result<Waker> {
        let (near, far) = UnixStream::pair()?;
        near.set_nonblocking(true)?;
        self.adopt(key, far.into())?;
        Ok(Waker::of_socket(near))
    }

    /// Queues bytes. Sends of one socket leave in the order of the calls, each as a whole.
    ///
    /// Success is reported for [`Payload::Owned`] only, and may be reported late.
    fn send(&mut self, token: Token, payload: Payload);

    /// The caller does not need the next `bytes` bytes of this socket, so that the kernel need not
    /// copy them. Received and discarded bytes both count. A new call replaces an earlier one, of
    /// which at most `bytes` bytes may be left. A loop that cannot discard hands out the bytes as
    /// usual.
    fn discard(&mut self, token: Token, bytes: u64) {
        let _ = (token, bytes);
    }

    /// Closes the sending side (FIN) after what is queued.
    fn shutdown_send(&mut self, token: Token);

    /// Closes the socket and cancels its operations in flight. Yields [`SocketEvent::Closed`], or
    /// the [`SocketEvent::ConnectFailed`] that was already on its way.
    fn close(&mut self, token: Token, mode: CloseMode);

    /// Submits what is queued and blocks until there is a completion or the clock reaches
    /// `until_ns` (`None`: no deadline). Returns early only if there is a completion to take. A
    /// wait with an expired deadline only polls. [`LoopOptions::spin_ns`] decides how it blocks.
    ///
    /// # Errors
    /// Only if the loop itself is broken. Errors of sockets are completions.
    fn wait(&mut self, until_ns: Option<u64>) -> io::Result<()>;

    /// As [`Self::wait`], with a deadline that need not be met to the microsecond: the wait sleeps
    /// until then and ends as late as the kernel wakes the thread, usually less than 0.1 ms.
    ///
    /// # Errors
    /// As [`Self::wait`].
    fn wait_roughly(&mut self, until_ns: u64) -> io::Result<()> {
        self.wait(Some(until_ns))
    }

    /// Passes everything that is queued to the kernel now, without waiting. A loop that sends at
    /// once does nothing. An error recurs in [`Self::wait`], which reports it.
    fn submit(&mut self) {}

    /// Whether bytes wait in the loop until [`Self::wait`] or [`Self::submit`] passes them to the
    /// kernel.
    fn queues_sends(&self) -> bool {
        false
    }

    /// With [`Self::queues_sends`]: when what was queued was last passed to the kernel.
    fn submitted_ns(&self) -> u64 {
        0
    }

    /// How many payloads of this socket the loop keeps until it has noticed that a send before them
    /// has ended. [`Self::submit`] leaves none, as far as the kernel takes them.
    fn kept_sends(&self, token: Token) -> usize {
        let _ = token;
        0
    }

    /// How many of the completions that waits have found are left for [`Self::next`], about: some
    /// of what the kernel reports is no completion. They come in the order in which the kernel
    /// noticed them, and those that the last wait found come after those that were left by the one
    /// before.
    fn found(&mut self) -> usize;

    /// Whether [`Self::found`] has counted a completion with this event. A loop may have some that
    /// did not wait in the kernel.
    #[inline]
    fn was_found(&self, _event: &SocketEvent) -> bool {
        true
    }

    /// Whether the next wait is known to find something at once: what was
    /// [postponed](SocketEvent::Postponed), or, after a wait, what the kernel has kept because one
    /// call reports only so much.
    fn has_more(&mut self) -> bool {
        false
    }

    /// Makes waits poll instead of sleep until this time; a time in the past ends that. Useful for
    /// a response that is about to come, because a wake-up takes longer than that. Only with
    /// [`LoopOptions::spin_ns`]. A loop may ignore it.
    fn poll_until(&mut self, _until_ns: u64) {}

    /// How late a sleep usually ends, in nanoseconds: at most [`LoopOptions::spin_ns`], which is
    /// also the first guess. 0 if the loop does not measure it.
    fn sleep_error_ns(&self) -> u64 {
        0
    }

    /// The next completion, if any. Ends the loan of the bytes of the previous one.
    fn next(&mut self) -> Option<Completion>;

    /// The bytes of the last [`SocketEvent::Received`].
    fn received(&self) -> &[u8];

    /// The length of each datagram in [`Self::received`]; the last one may be shorter. `None` if
    /// nothing is lent, or if it came from a stream.
    fn received_segment(&self) -> Option<usize>;

    /// How many datagrams the kernel had dropped at this socket, because its receive buffer was
    /// full, when those in [`Self::received`] arrived. It counts from when the socket was opened,
    /// and wraps around. 0 if nothing is lent, or if it came from a stream.
    fn received_drops(&self) -> u32;

    /// How long the last of the bytes just received or discarded had been in the kernel at the
    /// completion's `at_ns`, in nanoseconds. `None` if there are no such bytes, or if they have no
    /// timestamp ([`SocketOptions::timestamps`]).
    fn receive_delay_ns(&self) -> Option<u64>;

    /// What the kernel tells of the path of a TCP socket with [`SocketOptions::path`]. It costs a
    /// system call. `None` for other sockets, and where the kernel does not tell.
    fn tcp_path(&mut self, _token: Token) -> Option<TcpPath> {
        None
    }
}

/// What the kernel has counted and timed on the path of a TCP socket, since it was connected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpPath {
    /// Segments that this end has sent again.
    pub retransmitted: u32,
    /// Segments that arrived out of order. One before them was lost or late, and the other end has
    /// sent it again.
    pub out_of_order: u32,
    /// The least round-trip time; `None` before the first measurement.
    pub min_round_trip_us: Option<u32>,
}

/// A loop that also accepts connections, as a server needs, and receives datagrams from anybody.
///
/// A socket that listens for datagrams ([`Self::listen_datagrams`]) serves all peers, as a QUIC
/// server needs: a connection of QUIC is known by its ID, and its client may change its address at
/// any time (RFC 9000, 9). A socket for each peer, bound to the same address and connected, would
/// need no addresses here. But a datagram that arrives before the new socket is connected goes to
/// another one, and a peer that changes its address is on the wrong socket from then on.
pub trait Acceptor: EventLoop {
    /// Takes over a bound, listening socket. Each new connection yields [`SocketEvent::Accepted`]
    /// with this `key`.
    ///
    /// # Errors
    /// If the kernel refuses the listener.
    fn listen(&mut self, key: u32, listener: std::os::fd::OwnedFd) -> io::Result<()>;

    /// Takes over a bound UDP socket that is connected to nobody. It follows the rules of datagram
    /// sockets, except that [`Self::received_from`] says who has sent what was received, that
    /// [`Self::send_to`] takes the place of [`EventLoop::send`], and that refusals are not
    /// reported. It yields no [`SocketEvent::Connected`].
    ///
    /// # Errors
    /// If the kernel refuses the socket.
    fn listen_datagrams(&mut self, key: u32, socket: std::os::fd::OwnedFd) -> io::Result<Token>;

    /// Queues datagrams to this address, in the form of [`Payload::Datagrams`]: the buffer comes
    /// back in [`SocketEvent::Sent`]. Only for sockets of [`Self::listen_datagrams`].
    fn send_to(&mut self, token: Token, to: SocketAddr, buffer: Vec<u8>, segment: u16);

    /// Who has sent the datagrams in [`EventLoop::received`]. They are of one sender. `None` if
    /// nothing is lent, or if it came from a stream.
    fn received_from(&self) -> Option<SocketAddr>;
}
