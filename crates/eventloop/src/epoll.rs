//! The epoll backend, which turns readiness into completions.
//!
//! Every socket is registered once, edge-triggered, for both directions. After that there is no
//! `epoll_ctl` until it is closed. A send tries the system call first and waits for readiness on
//! `EAGAIN`. Reads happen when the caller asks for the next completion, into one buffer that serves
//! all sockets.
#![allow(unsafe_code, reason = "epoll has no safe form in std")]

use crate::datagrams::{self, Outcome, Progress};
use crate::sleep_margin::SleepMargin;
use crate::socket::{self, DatagramMessage, KernelAddress};
use crate::timestamps::{CONTROL_BYTES, OutOfOrder, Timestamps};
use crate::{
    Acceptor, Address, BEGINNING_BYTES, CloseMode, Completion, EventLoop, Expected, LoopOptions,
    Payload, SharedBytes, SocketEvent, SocketOptions, TcpPath, Token, monotonic_ns,
};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// An [`EventLoop`] on epoll. The module's documentation says how it works.
pub struct Epoll {
    epoll: OwnedFd,
    sockets: Vec<Socket>,
    free: Vec<u32>,
    shared: Vec<Arc<[u8]>>,
    events: Vec<libc::epoll_event>,
    /// Sockets that may have something to read or accept. They are taken from the front and put
    /// back at the end while there may be more, so that a busy socket does not starve the others.
    work: VecDeque<ReadySocket>,
    /// Datagram sockets that have had their share of this wait. The next one goes on with them.
    later: Vec<ReadySocket>,
    /// The last call reported as many events as it could.
    is_full: bool,
    /// Completions that are known without a system call.
    ready: VecDeque<Completion>,
    /// Listeners that ran into the open-file limit. They are retried when a socket has been closed.
    stalled_listeners: Vec<Token>,
    buffer: Box<[u8]>,
    received: usize,
    /// Set once there is a datagram socket.
    datagrams: Option<Box<DatagramBuffer>>,
    /// Length of what is lent of it. Then `received` is 0.
    received_datagrams: usize,
    /// Whether the kernel takes several datagrams in one call.
    segmentation_offload: bool,
    /// The delay of the bytes received last.
    receive_delay_ns: Option<u64>,
    /// Set once a socket asks for timestamps.
    timestamps: Option<Timestamps>,
    control: [u8; CONTROL_BYTES],
    has_pwait2: bool,
    sleep_margin: SleepMargin,
    /// Waits do not sleep until then.
    poll_until_ns: u64,
}

/// What datagrams are received into, one call at a time.
struct DatagramBuffer {
    bytes: [u8; datagrams::RECEIVE_BYTES],
    control: [u8; datagrams::CONTROL_BYTES],
    control_bytes: usize,
    /// The address of the sender.
    name: [u8; socket::NAME_BYTES],
}

impl DatagramBuffer {
    fn boxed() -> Box<Self> {
        Box::new(Self {
            bytes: [0; datagrams::RECEIVE_BYTES],
            control: [0; datagrams::CONTROL_BYTES],
            control_bytes: 0,
            name: [0; socket::NAME_BYTES],
        })
    }
}

struct Socket {
    fd: Option<OwnedFd>,
    generation: u32,
    key: u32,
    state: SocketState,
    /// Bytes that the kernel has not accepted yet, in order. `sent` counts into the front payload.
    queue: VecDeque<Payload>,
    sent: usize,
    /// Only datagram sockets have it.
    datagrams: Option<Box<DatagramSocket>>,
    shutdown_after_queue: bool,
    timestamped: bool,
    out_of_order: OutOfOrder,
    /// Only TCP sockets can discard.
    is_tcp: bool,
    /// How many of the next bytes to discard.
    discard_bytes: u64,
    expected: Expected,
}

#[derive(Default)]
struct DatagramSocket {
    /// The progress of the front payload.
    progress: Progress,
    /// It is in `work` or `later`.
    is_at_work: bool,
    /// How often it was read in this wait.
    reads: u32,
    /// Where the queued payloads go. Empty if the socket is connected.
    to: VecDeque<SocketAddr>,
}

/// A socket whose connection has been started.
struct Connecting {
    fd: OwnedFd,
    timestamped: bool,
    /// When the connection was established, if it already is.
    connected_ns: Option<u64>,
}

/// Where a socket is in its life, and how its readiness is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SocketState {
    Connecting,
    Open,
    /// A datagram socket.
    Datagrams,
    /// The peer's FIN or an error has been reported. There is nothing more to receive.
    ReceivedAll,
    Listening,
}

#[derive(Debug, Clone, Copy)]
struct ReadySocket {
    token: Token,
    /// The kernel has signalled FIN or an error too: keep reading until it is seen, even after a
    /// short read.
    until_end: bool,
}

/// Events taken from the kernel per call.
const EVENTS: usize = 512;

/// How often a datagram socket is read in one wait, so that one whose peer sends faster than the
/// caller reads does not keep the caller from its deadlines. A stream ends its turn with a short
/// read, but any number of datagrams may follow a short one. io_uring has the same limit.
const READS_PER_WAIT_MAX: u32 = 32;

impl Epoll {
    /// Makes a loop for the calling thread.
    ///
    /// # Errors
    /// If the kernel refuses an epoll descriptor.
    pub fn new(options: &LoopOptions) -> io::Result<Self> {
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        socket::sharpen_timers();
        let capacity = options.sockets as usize;
        Ok(Self {
            // SAFETY: the kernel has just returned this descriptor; nothing else owns it.
            epoll: unsafe { OwnedFd::from_raw_fd(fd) },
            sockets: Vec::with_capacity(capacity),
            free: Vec::with_capacity(capacity),
            shared: Vec::new(),
            events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS],
            work: VecDeque::with_capacity(EVENTS),
            later: Vec::new(),
            is_full: false,
            ready: VecDeque::new(),
            stalled_listeners: Vec::new(),
            buffer: vec![0; options.receive_buffer_bytes].into_boxed_slice(),
            received: 0,
            datagrams: None,
            received_datagrams: 0,
            segmentation_offload: options.segmentation_offload,
            receive_delay_ns: None,
            timestamps: None,
            control: [0; CONTROL_BYTES],
            has_pwait2: true,
            sleep_margin: SleepMargin::new(options.spin_ns),
            poll_until_ns: 0,
        })
    }

    fn insert(&mut self, key: u32, fd: Option<OwnedFd>, state: SocketState) -> Token {
        let index = self.free.pop().unwrap_or_else(|| {
            self.sockets.push(Socket {
                fd: None,
                generation: 0,
                key: 0,
                state: SocketState::Open,
                queue: VecDeque::new(),
                sent: 0,
                datagrams: None,
                shutdown_after_queue: false,
                timestamped: false,
                out_of_order: OutOfOrder::default(),
                is_tcp: false,
                discard_bytes: 0,
                expected: Expected::Anything,
            });
            self.sockets.len() as u32 - 1
        });
        let socket = &mut self.sockets[index as usize];
        socket.fd = fd;
        socket.key = key;
        socket.state = state;
        Token {
            index,
            generation: socket.generation,
        }
    }

    fn register(&self, fd: RawFd, token: Token) -> Result<(), i32> {
        let interest = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        let mut event = libc::epoll_event {
            events: interest as u32,
            u64: pack(token),
        };
        // SAFETY: `event` lives through the call; both descriptors are ours.
        let added = unsafe {
            libc::epoll_ctl(
                self.epoll.as_raw_fd(),
                libc::EPOLL_CTL_ADD,
                fd,
                &raw mut event,
            )
        };
        if added == 0 {
            Ok(())
        } else {
            Err(socket::errno())
        }
    }

    fn start_connect(
        &self,
        token: Token,
        address: &Address,
        options: &SocketOptions,
    ) -> Result<Connecting, i32> {
        let kernel_address = KernelAddress::new(address)?;
        let (fd, timestamped) = socket::open(address, options)?;
        // Connect first: a socket registered before that would report an edge for "not connected".
        let is_connected = socket::connect(fd.as_raw_fd(), &kernel_address)?;
        let connected_ns = is_connected.then(monotonic_ns);
        self.register(fd.as_raw_fd(), token)?;
        Ok(Connecting {
            fd,
            timestamped,
            connected_ns,
        })
    }

    /// Opens a datagram socket for a token. Also returns whether it is timestamped.
    fn open_datagrams(
        &self,
        token: Token,
        address: SocketAddr,
        options: &SocketOptions,
    ) -> Result<(OwnedFd, bool), i32> {
        let (fd, timestamped) = socket::open_datagrams(address, options)?;
        self.register(fd.as_raw_fd(), token)?;
        Ok((fd, timestamped))
    }

    /// Ends a token whose socket could not be opened.
    fn fail_connect(&mut self, key: u32, token: Token, error: i32) {
        let socket = &mut self.sockets[token.index as usize];
        socket.generation = socket.generation.wrapping_add(1);
        self.free.push(token.index);
        self.push_ready(key, token, SocketEvent::ConnectFailed(error));
    }

    fn live(&mut self, token: Token) -> Option<&mut Socket> {
        self.sockets
            .get_mut(token.index as usize)
            .filter(|socket| socket.generation == token.generation && socket.fd.is_some())
    }

    /// Frees the entry. Dropping the returned descriptor closes it.
    fn remove(&mut self, token: Token) -> Option<OwnedFd> {
        let socket = self.live(token)?;
        let fd = socket.fd.take();
        socket.generation = socket.generation.wrapping_add(1);
        socket.queue.clear();
        socket.sent = 0;
        socket.datagrams = None;
        socket.shutdown_after_queue = false;
        socket.timestamped = false;
        socket.out_of_order = OutOfOrder::default();
        socket.is_tcp = false;
        socket.discard_bytes = 0;
        socket.expected = Expected::Anything;
        self.free.push(token.index);
        for listener in std::mem::take(&mut self.stalled_listeners) {
            self.work.push_back(ReadySocket {
                token: listener,
                until_end: false,
            });
        }
        fd
    }

    fn push_ready(&mut self, key: u32, token: Token, event: SocketEvent) {
        self.ready.push_back(Completion {
            key,
            token,
            at_ns: monotonic_ns(),
            event,
        });
    }

    /// Sends a payload on an open socket with an empty queue. What the kernel does not take is
    /// queued.
    #[inline]
    fn send_at_once(&mut self, token: Token, payload: Payload) {
        let socket = &mut self.sockets[token.index as usize];
        let Some(fd) = socket.fd.as_ref().map(AsRawFd::as_raw_fd) else {
            return;
        };
        if let Payload::Datagrams { .. } = payload {
            socket.queue.push_back(payload);
            return self.flush_datagrams(token, fd);
        }
        let bytes = payload.bytes(&self.shared);
        match socket::send(fd, bytes) {
            Ok(sent) if sent == bytes.len() => {
                if let Payload::Owned(buffer) = payload {
                    let key = socket.key;
                    self.push_ready(key, token, SocketEvent::Sent(buffer));
                }
            }
            Ok(sent) => {
                socket.sent = sent;
                socket.queue.push_back(payload);
                self.flush(token);
            }
            Err(libc::EAGAIN) => socket.queue.push_back(payload),
            Err(libc::EINTR) => {
                socket.queue.push_back(payload);
                self.flush(token);
            }
            Err(error) => {
                let key = socket.key;
                self.push_ready(key, token, SocketEvent::SendFailed(error));
            }
        }
    }

    /// Hands queued bytes to the kernel until it blocks.
    fn flush(&mut self, token: Token) {
        let socket = &mut self.sockets[token.index as usize];
        let Some(fd) = socket.fd.as_ref().map(AsRawFd::as_raw_fd) else {
            return;
        };
        while let Some(payload) = socket.queue.front() {
            if let Payload::Datagrams { .. } = payload {
                return self.flush_datagrams(token, fd);
            }
            let bytes = payload.bytes(&self.shared);
            match socket::send(fd, &bytes[socket.sent..]) {
                Ok(sent) => {
                    socket.sent += sent;
                    if socket.sent < bytes.len() {
                        continue;
                    }
                    socket.sent = 0;
                    if let Some(Payload::Owned(buffer)) = socket.queue.pop_front() {
                        let completion = Completion {
                            key: socket.key,
                            token,
                            at_ns: monotonic_ns(),
                            event: SocketEvent::Sent(buffer),
                        };
                        self.ready.push_back(completion);
                    }
                }
                Err(libc::EAGAIN) => return,
                Err(libc::EINTR) => {}
                Err(error) => {
                    socket.queue.clear();
                    socket.sent = 0;
                    let key = socket.key;
                    self.push_ready(key, token, SocketEvent::SendFailed(error));
                    return;
                }
            }
        }
        if socket.shutdown_after_queue {
            socket.shutdown_after_queue = false;
            socket::shutdown_send(fd);
        }
    }

    /// Hands queued datagrams to the kernel until it blocks.
    #[inline(never)]
    fn flush_datagrams(&mut self, token: Token, fd: RawFd) {
        let socket = &mut self.sockets[token.index as usize];
        let Some(DatagramSocket { progress, to, .. }) = socket.datagrams.as_deref_mut() else {
            return;
        };
        let mut message = DatagramMessage::new();
        message.to = to.front().copied().map(KernelAddress::of_ip);
        while let Some(Payload::Datagrams { buffer, segment }) = socket.queue.front() {
            let offload = self.segmentation_offload;
            let event = match progress.part(buffer.len(), *segment, offload) {
                Some(part) => {
                    let result = message.send(fd, &buffer[part.range], part.segment);
                    let offload = &mut self.segmentation_offload;
                    match progress.after(result, offload) {
                        Outcome::Continue => continue,
                        Outcome::Wait => return,
                        Outcome::EarlierRefused => SocketEvent::ReceiveFailed(libc::ECONNREFUSED),
                    }
                }
                None => {
                    *progress = Progress::default();
                    to.pop_front();
                    message.to = to.front().copied().map(KernelAddress::of_ip);
                    match socket.queue.pop_front() {
                        Some(Payload::Datagrams { buffer, .. }) => SocketEvent::Sent(buffer),
                        _ => return,
                    }
                }
            };
            self.ready.push_back(Completion {
                key: socket.key,
                token,
                at_ns: monotonic_ns(),
                event,
            });
        }
    }

    /// Sleeps until one time and polls until the other one, or until there is a completion.
    fn wait_in_parts(
        &mut self,
        sleep_until_ns: Option<u64>,
        until_ns: Option<u64>,
    ) -> io::Result<()> {
        self.received = 0;
        self.received_datagrams = 0;
        self.receive_delay_ns = None;
        if !self.later.is_empty() {
            self.work.extend(self.later.drain(..));
        }
        let mut first = true;
        loop {
            let timeout_ns = match sleep_until_ns {
                _ if !self.ready.is_empty() || !self.work.is_empty() => Some(0),
                _ if self.poll_until_ns > 0 && monotonic_ns() < self.poll_until_ns => {
                    first = false;
                    Some(0)
                }
                Some(until) => Some(until.saturating_sub(monotonic_ns())),
                None => None,
            };
            let count = match self.epoll_wait(timeout_ns) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.is_full = count == self.events.len();
            for i in 0..count {
                let event = self.events[i];
                self.take_event(unpack(event.u64), event.events);
            }
            if !self.ready.is_empty() || !self.work.is_empty() {
                return Ok(());
            }
            let (Some(sleep_until), Some(until)) = (sleep_until_ns, until_ns) else {
                continue;
            };
            let now_ns = monotonic_ns();
            let slept = timeout_ns != Some(0);
            if slept && count == 0 && now_ns >= sleep_until {
                self.sleep_margin.note_wakeup(sleep_until, now_ns);
            }
            if now_ns >= until {
                return Ok(());
            }
            if first && !slept {
                self.sleep_margin.note_no_sleep();
            }
            first = false;
        }
    }

    fn epoll_wait(&mut self, timeout_ns: Option<u64>) -> io::Result<usize> {
        let epoll = self.epoll.as_raw_fd();
        let events = self.events.as_mut_ptr();
        let max = self.events.len() as libc::c_int;
        if self.has_pwait2 && timeout_ns != Some(0) {
            let timeout = timeout_ns.map(|ns| libc::timespec {
                tv_sec: (ns / 1_000_000_000) as libc::time_t,
                tv_nsec: (ns % 1_000_000_000) as libc::c_long,
            });
            let timeout_ptr = timeout
                .as_ref()
                .map_or(std::ptr::null(), std::ptr::from_ref);
            let no_mask = std::ptr::null::<libc::sigset_t>();
            // SAFETY: `events` has room for `max` entries. The timeout is null or lives through the
            // call. A null mask changes no signals.
            let count = unsafe {
                libc::syscall(
                    libc::SYS_epoll_pwait2,
                    epoll,
                    events,
                    max,
                    timeout_ptr,
                    no_mask,
                    8_usize,
                )
            };
            if count >= 0 {
                return Ok(count as usize);
            }
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::ENOSYS) {
                return Err(error);
            }
            // Before Linux 5.11, the resolution of deadlines is a millisecond.
            self.has_pwait2 = false;
        }
        let timeout_ms = timeout_ns.map_or(-1, |ns| {
            libc::c_int::try_from(ns.div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX)
        });
        // SAFETY: `events` has room for `max` entries.
        let count = unsafe { libc::epoll_wait(epoll, events, max, timeout_ms) };
        if count >= 0 {
            Ok(count as usize)
        } else {
            Err(io::Error::last_os_error())
        }
    }

    fn take_event(&mut self, token: Token, flags: u32) {
        let flags = flags as i32;
        let Some(socket) = self.live(token) else {
            return;
        };
        let key = socket.key;
        let ended = flags & (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) != 0;
        if socket.state == SocketState::Connecting {
            let failed = flags & (libc::EPOLLERR | libc::EPOLLHUP) != 0;
            let error = match socket.fd.as_ref() {
                Some(fd) if failed => socket::take_error(fd.as_raw_fd()),
                _ => 0,
            };
            // HUP without an error: the connection was established and closed at once.
            if error != 0 {
                drop(self.remove(token));
                self.push_ready(key, token, SocketEvent::ConnectFailed(error));
                return;
            }
            if flags & (libc::EPOLLOUT | libc::EPOLLIN) == 0 {
                return;
            }
            socket.state = SocketState::Open;
            self.push_ready(key, token, SocketEvent::Connected);
        }
        if flags & libc::EPOLLOUT != 0 {
            let socket = &self.sockets[token.index as usize];
            if !socket.queue.is_empty() || socket.shutdown_after_queue {
                self.flush(token);
            }
        }
        if flags & libc::EPOLLIN != 0 || ended {
            let socket = &mut self.sockets[token.index as usize];
            if let Some(datagrams) = &mut socket.datagrams
                && std::mem::replace(&mut datagrams.is_at_work, true)
            {
                return;
            }
            self.work.push_back(ReadySocket {
                token,
                until_end: ended,
            });
        }
    }

    #[inline(never)]
    fn accept(&mut self, work: ReadySocket) -> Option<Completion> {
        let listener = &self.sockets[work.token.index as usize];
        let key = listener.key;
        let fd = listener.fd.as_ref()?.as_raw_fd();
        match socket::accept(fd) {
            Ok(accepted) => {
                self.work.push_back(work);
                let raw = accepted.as_raw_fd();
                let token = self.insert(key, Some(accepted), SocketState::Open);
                if self.register(raw, token).is_err() {
                    drop(self.remove(token));
                    return None;
                }
                Some(Completion {
                    key,
                    token,
                    at_ns: monotonic_ns(),
                    event: SocketEvent::Accepted,
                })
            }
            Err(libc::EAGAIN) => None,
            Err(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
                self.stalled_listeners.push(work.token);
                None
            }
            // The connection was closed before it was accepted (accept(2), "Error handling").
            Err(_) => {
                self.work.push_back(work);
                None
            }
        }
    }

    /// Reads into the buffer. Returns the result, the length asked for, and the length of the
    /// control data.
    #[inline]
    fn read_bytes(&mut self, index: u32, fd: RawFd) -> (Result<usize, i32>, usize, usize) {
        let socket = &mut self.sockets[index as usize];
        let room = self.buffer.len();
        let asked = match socket.expected {
            Expected::Long => room.min(BEGINNING_BYTES),
            Expected::Anything | Expected::Rest => room,
        };
        let buffer = &mut self.buffer[..asked];
        let (received, control_bytes) = if !socket.timestamped {
            (socket::receive(fd, buffer), 0)
        } else {
            socket::receive_with_control(fd, buffer, &mut self.control)
        };
        (received, asked, control_bytes)
    }

    /// Like [`Self::read_bytes`], for bytes to discard.
    #[inline(never)]
    fn read_discarding(&mut self, index: u32, fd: RawFd) -> (Result<usize, i32>, usize, usize) {
        let socket = &mut self.sockets[index as usize];
        let asked = socket::discard_length(socket.discard_bytes);
        let (received, control_bytes) = if !socket.timestamped {
            (socket::discard(fd, asked), 0)
        } else {
            socket::discard_with_control(fd, asked, &mut self.control)
        };
        (received, asked, control_bytes)
    }

    fn read(&mut self, work: ReadySocket) -> Option<Completion> {
        let socket = &mut self.sockets[work.token.index as usize];
        if socket.state != SocketState::Open {
            return None;
        }
        let key = socket.key;
        let fd = socket.fd.as_ref()?.as_raw_fd();
        let discards = socket.discard_bytes > 0;
        let (received, asked, control_bytes) = if discards {
            self.read_discarding(work.token.index, fd)
        } else {
            self.read_bytes(work.token.index, fd)
        };
        let socket = &mut self.sockets[work.token.index as usize];
        let event = match received {
            Ok(0) => {
                socket.state = SocketState::ReceivedAll;
                SocketEvent::EndOfStream
            }
            Ok(got) => {
                // A short read has drained the socket (epoll(7)), unless its end has been signalled
                // too.
                if got == asked || work.until_end {
                    self.work.push_back(work);
                }
                if discards {
                    socket.discard_bytes -= got as u64;
                    SocketEvent::Discarded(got as u64)
                } else {
                    self.received = got;
                    socket.expected = socket.expected.after_received();
                    SocketEvent::Received(got)
                }
            }
            Err(libc::EAGAIN) => return None,
            Err(libc::EINTR) => {
                self.work.push_back(work);
                return None;
            }
            Err(error) => {
                socket.state = SocketState::ReceivedAll;
                SocketEvent::ReceiveFailed(error)
            }
        };
        let at_ns = monotonic_ns();
        let delay_ns = self
            .timestamps
            .as_mut()
            .and_then(|timestamps| timestamps.delay_ns(&self.control[..control_bytes], at_ns));
        let packets = || Some(socket::tcp_path(fd)?.out_of_order);
        self.receive_delay_ns = socket.out_of_order.filter(delay_ns, at_ns, packets);
        Some(Completion {
            key,
            token: work.token,
            at_ns,
            event,
        })
    }
}

impl Epoll {
    /// The control data of the datagrams that are lent.
    fn received_control(&self) -> Option<&[u8]> {
        let datagrams = self.datagrams.as_ref()?;
        (self.received_datagrams > 0).then(|| &datagrams.control[..datagrams.control_bytes])
    }

    /// Like [`Self::read`], for a datagram socket.
    #[inline(never)]
    fn read_datagrams(&mut self, work: ReadySocket) -> Option<Completion> {
        let socket = &mut self.sockets[work.token.index as usize];
        let key = socket.key;
        let fd = socket.fd.as_ref()?.as_raw_fd();
        let into = self.datagrams.as_deref_mut()?;
        let (received, control_bytes) =
            socket::receive_datagrams(fd, &mut into.bytes, &mut into.control, &mut into.name);
        let datagrams = socket.datagrams.as_mut()?;
        datagrams.reads += 1;
        if received == Err(libc::EAGAIN) {
            datagrams.is_at_work = false;
            datagrams.reads = 0;
        } else if datagrams.reads < READS_PER_WAIT_MAX {
            // Whatever was received, there may be more.
            self.work.push_back(work);
        } else {
            datagrams.reads = 0;
            self.later.push(work);
        }
        let event = match received {
            Ok(0) => return None,
            Ok(got) => {
                into.control_bytes = control_bytes;
                self.received_datagrams = got;
                SocketEvent::Received(got)
            }
            Err(error) => SocketEvent::ReceiveFailed(datagrams::reported(error)?),
        };
        let at_ns = monotonic_ns();
        self.receive_delay_ns = self
            .timestamps
            .as_mut()
            .and_then(|timestamps| timestamps.delay_ns(&into.control[..control_bytes], at_ns));
        Some(Completion {
            key,
            token: work.token,
            at_ns,
            event,
        })
    }
}

impl EventLoop for Epoll {
    fn now_ns(&self) -> u64 {
        monotonic_ns()
    }

    fn share(&mut self, bytes: impl Into<Arc<[u8]>>) -> SharedBytes {
        self.shared.push(bytes.into());
        SharedBytes(self.shared.len() as u32 - 1)
    }

    fn connect(&mut self, key: u32, address: &Address, options: &SocketOptions) -> Token {
        let token = self.insert(key, None, SocketState::Connecting);
        match self.start_connect(token, address, options) {
            Ok(Connecting {
                fd,
                timestamped,
                connected_ns,
            }) => {
                let socket = &mut self.sockets[token.index as usize];
                socket.timestamped = timestamped;
                socket.is_tcp = matches!(address, Address::Tcp(_));
                socket.fd = Some(fd);
                if let Some(at_ns) = connected_ns {
                    socket.state = SocketState::Open;
                    self.ready.push_back(Completion {
                        key,
                        token,
                        at_ns,
                        event: SocketEvent::Connected,
                    });
                }
                if timestamped {
                    self.timestamps.get_or_insert_with(Timestamps::start);
                }
            }
            Err(error) => self.fail_connect(key, token, error),
        }
        token
    }

    fn connect_datagrams(
        &mut self,
        key: u32,
        address: SocketAddr,
        options: &SocketOptions,
    ) -> Token {
        let token = self.insert(key, None, SocketState::Datagrams);
        match self.open_datagrams(token, address, options) {
            Ok((fd, timestamped)) => {
                let socket = &mut self.sockets[token.index as usize];
                socket.timestamped = timestamped;
                socket.fd = Some(fd);
                socket.datagrams = Some(Box::default());
                if timestamped {
                    self.timestamps.get_or_insert_with(Timestamps::start);
                }
                self.datagrams.get_or_insert_with(DatagramBuffer::boxed);
                self.push_ready(key, token, SocketEvent::Connected);
            }
            Err(error) => self.fail_connect(key, token, error),
        }
        token
    }

    fn adopt(&mut self, key: u32, socket: OwnedFd) -> io::Result<Token> {
        let raw = socket.as_raw_fd();
        socket::set_nonblocking(raw)?;
        let token = self.insert(key, Some(socket), SocketState::Open);
        self.register(raw, token)
            .map_err(io::Error::from_raw_os_error)?;
        Ok(token)
    }

    fn send(&mut self, token: Token, payload: Payload) {
        let Some(socket) = self.live(token) else {
            return;
        };
        debug_assert_eq!(
            socket.state == SocketState::Datagrams,
            matches!(payload, Payload::Datagrams { .. })
        );
        if !socket.queue.is_empty() || socket.state == SocketState::Connecting {
            socket.queue.push_back(payload);
        } else {
            self.send_at_once(token, payload);
        }
    }

    fn discard(&mut self, token: Token, bytes: u64) {
        if let Some(socket) = self.live(token).filter(|socket| socket.is_tcp) {
            socket.discard_bytes = bytes;
            socket.expected = Expected::Long;
        }
    }

    fn shutdown_send(&mut self, token: Token) {
        let Some(socket) = self.live(token) else {
            return;
        };
        if socket.state == SocketState::Datagrams {
            return;
        }
        socket.shutdown_after_queue = true;
        if socket.state != SocketState::Connecting {
            self.flush(token);
        }
    }

    fn close(&mut self, token: Token, mode: CloseMode) {
        let Some(key) = self.live(token).map(|socket| socket.key) else {
            return;
        };
        if let Some(fd) = self.remove(token)
            && mode == CloseMode::Abort
        {
            socket::reset_on_close(&fd);
        }
        self.push_ready(key, token, SocketEvent::Closed);
    }

    fn wait(&mut self, until_ns: Option<u64>) -> io::Result<()> {
        let sleep_until_ns = until_ns.map(|until| self.sleep_margin.sleep_until_ns(until));
        self.wait_in_parts(sleep_until_ns, until_ns)
    }

    fn wait_roughly(&mut self, until_ns: u64) -> io::Result<()> {
        self.wait_in_parts(Some(until_ns), Some(until_ns))
    }

    fn next(&mut self) -> Option<Completion> {
        self.received = 0;
        self.received_datagrams = 0;
        self.receive_delay_ns = None;
        while let Some(completion) = self.ready.pop_front() {
            // Completions from before the socket was closed are dropped.
            let last = matches!(
                completion.event,
                SocketEvent::Closed | SocketEvent::ConnectFailed(_)
            );
            if last || self.live(completion.token).is_some() {
                return Some(completion);
            }
        }
        while let Some(work) = self.work.pop_front() {
            let Some(socket) = self.live(work.token) else {
                continue;
            };
            let completion = match socket.state {
                SocketState::Listening => self.accept(work),
                SocketState::Datagrams => self.read_datagrams(work),
                _ => self.read(work),
            };
            if completion.is_some() {
                return completion;
            }
        }
        None
    }

    fn received(&self) -> &[u8] {
        match &self.datagrams {
            Some(datagrams) if self.received_datagrams > 0 => {
                &datagrams.bytes[..self.received_datagrams]
            }
            _ => &self.buffer[..self.received],
        }
    }

    fn received_segment(&self) -> Option<usize> {
        let length = self.received_datagrams;
        Some(datagrams::segment_bytes(self.received_control()?, length))
    }

    fn received_drops(&self) -> u32 {
        self.received_control().map_or(0, datagrams::dropped)
    }

    fn has_more(&mut self) -> bool {
        self.is_full
    }

    fn found(&mut self) -> usize {
        self.work.len()
    }

    /// What is sent completes when it is written, and `next` returns that before what the wait has
    /// found.
    #[inline]
    fn was_found(&self, event: &SocketEvent) -> bool {
        matches!(
            event,
            SocketEvent::Received(_)
                | SocketEvent::Discarded(_)
                | SocketEvent::EndOfStream
                | SocketEvent::ReceiveFailed(_)
                | SocketEvent::Accepted
        )
    }

    fn poll_until(&mut self, until_ns: u64) {
        self.poll_until_ns = until_ns;
    }

    fn sleep_error_ns(&self) -> u64 {
        self.sleep_margin.lateness_ns()
    }

    fn receive_delay_ns(&self) -> Option<u64> {
        self.receive_delay_ns
    }

    fn tcp_path(&mut self, token: Token) -> Option<TcpPath> {
        let socket = self.live(token).filter(|socket| socket.is_tcp)?;
        socket::tcp_path(socket.fd.as_ref()?.as_raw_fd())
    }
}

impl Acceptor for Epoll {
    fn listen(&mut self, key: u32, listener: OwnedFd) -> io::Result<()> {
        let raw = listener.as_raw_fd();
        socket::set_nonblocking(raw)?;
        let token = self.insert(key, Some(listener), SocketState::Listening);
        self.register(raw, token)
            .map_err(io::Error::from_raw_os_error)?;
        self.work.push_back(ReadySocket {
            token,
            until_end: false,
        });
        Ok(())
    }

    fn listen_datagrams(&mut self, key: u32, socket: OwnedFd) -> io::Result<Token> {
        socket::prepare_listening(&socket)?;
        let raw = socket.as_raw_fd();
        let token = self.insert(key, Some(socket), SocketState::Datagrams);
        self.sockets[token.index as usize].datagrams = Some(Box::default());
        self.datagrams.get_or_insert_with(DatagramBuffer::boxed);
        self.register(raw, token)
            .map_err(io::Error::from_raw_os_error)?;
        Ok(token)
    }

    fn send_to(&mut self, token: Token, to: SocketAddr, buffer: Vec<u8>, segment: u16) {
        let socket = self.live(token);
        let Some(datagrams) = socket.and_then(|socket| socket.datagrams.as_deref_mut()) else {
            return;
        };
        datagrams.to.push_back(to);
        self.send(token, Payload::Datagrams { buffer, segment });
    }

    fn received_from(&self) -> Option<SocketAddr> {
        let datagrams = self.datagrams.as_ref()?;
        let is_lent = self.received_datagrams > 0;
        is_lent.then(|| socket::address_in(&datagrams.name))?
    }
}

fn pack(token: Token) -> u64 {
    u64::from(token.generation) << 32 | u64::from(token.index)
}

fn unpack(data: u64) -> Token {
    Token {
        index: data as u32,
        generation: (data >> 32) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_datagrams_does_not_keep_the_caller_from_its_deadlines() {
        const DATAGRAMS: usize = 100;
        let peer = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback works");
        let address = peer.local_addr().expect("it is bound");
        let mut io = Epoll::new(&LoopOptions::default()).expect("epoll always exists");
        let token = io.connect_datagrams(1, address, &SocketOptions::default());
        let buffer = b"hello".to_vec();
        io.send(token, Payload::Datagrams { buffer, segment: 0 });
        let (_, from) = peer.recv_from(&mut [0; 8]).expect("it has arrived");
        for number in 0..DATAGRAMS {
            peer.send_to(&[number as u8], from).expect("room");
        }
        let mut counts = Vec::new();
        while counts.iter().sum::<usize>() < DATAGRAMS {
            let give_up_ns = monotonic_ns() + 30_000_000_000;
            io.wait(Some(give_up_ns)).expect("the loop works");
            let events = std::iter::from_fn(|| io.next());
            let received = events.filter(|it| matches!(it.event, SocketEvent::Received(_)));
            counts.push(received.count());
            assert!(monotonic_ns() < give_up_ns, "the others never came");
        }
        assert_eq!(counts, [32, 32, 32, 4]);
    }

    #[test]
    fn a_kernel_that_refuses_segments_gets_datagrams_one_by_one_from_then_on() {
        let peer = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback works");
        let address = peer.local_addr().expect("it is bound");
        let mut io = Epoll::new(&LoopOptions::default()).expect("epoll always exists");
        let token = io.connect_datagrams(1, address, &SocketOptions::default());
        let socket = io.live(token).and_then(|socket| socket.fd.as_ref());
        socket::refuse_segments(socket.expect("a socket").as_raw_fd());
        io.send(
            token,
            Payload::Datagrams {
                buffer: (0..24_000).map(|at| (at / 1_200) as u8).collect(),
                segment: 1_200,
            },
        );
        let give_up_ns = monotonic_ns() + 30_000_000_000;
        loop {
            match io.next().map(|completion| completion.event) {
                Some(SocketEvent::Sent(_)) => break,
                Some(event) => assert!(matches!(event, SocketEvent::Connected), "{event:?}"),
                None => io.wait(Some(give_up_ns)).expect("the loop works"),
            }
        }
        for number in 0..20 {
            let mut datagram = [0; 2_000];
            let got = peer.recv(&mut datagram).expect("it has arrived");
            assert_eq!(datagram[..got], [number; 1_200]);
        }
        assert!(!io.segmentation_offload, "it is not asked again");
    }
}
