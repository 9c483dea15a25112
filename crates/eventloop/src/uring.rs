//! The io_uring backend.
//!
//! - Receiving: one multishot receive for each socket, into buffers that the kernel picks from a
//!   registered ring (Linux 6.0). A buffer is returned as soon as the caller asks for the next
//!   completion.
//! - Discarding: unwanted bytes are discarded by a separate receive of their length with
//!   `MSG_TRUNC`. Such a socket no longer uses multishot receives, and the beginning of its next
//!   message is read by a single short receive. A multishot receive would already have copied the
//!   rest.
//! - Timestamps: a socket with timestamps receives messages instead, also multishot, into separate
//!   buffers, because the kernel puts the control data before the bytes.
//! - Datagrams: a multishot receive of messages like with timestamps, into buffers of their own.
//!   They are sent as messages, one at a time for each socket, so that they leave in order.
//! - Sending: a send of shared bytes is *quiet*. The kernel reports only failures, so that a
//!   request costs one submission entry and no completion. With `MSG_DONTWAIT`, a full socket is
//!   such a failure. The rest is then sent by a *reported* send, which waits for room. Sends of
//!   owned buffers are always reported.
//! - Sockets exist only in the file table of the ring. Submissions are batched with the wait.
//!
//! Order of quiet sends: the kernel carries out the entries of one submission in order, and posts
//! their failures before anything that the wait of the same system call brings. So by the time the
//! caller sees a response, a failure of the send before it has been seen too. The same holds once
//! the caller has taken all completions. Before that, another send of the same socket could
//! overtake the rest of the previous one, so it is held back (`Uring::flush_held`).
#![allow(
    unsafe_code,
    reason = "submission entries point to memory that must outlive them"
)]

use crate::datagrams::{self, Outcome, Progress};
use crate::limits::open_file_limit;
use crate::mapping::Mapping;
use crate::sleep_margin::SleepMargin;
use crate::socket::{self, DatagramMessage, KernelAddress};
use crate::timestamps::{CONTROL_BYTES, OutOfOrder, Timestamps};
use crate::{
    Acceptor, Address, BEGINNING_BYTES, CloseMode, Completion, EventLoop, Expected, LoopOptions,
    Payload, SharedBytes, SocketEvent, SocketOptions, TcpPath, Token, monotonic_ns,
};
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{BufRingEntry, CancelBuilder, Fixed, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// An [`EventLoop`] on io_uring. The module's documentation says how it works.
pub struct Uring {
    ring: IoUring,
    buffers: Buffers,
    receive_buffer_bytes: usize,
    /// Set once a stream socket asks for timestamps.
    timestamped_receives: Option<MessageReceives>,
    /// Set once there is a datagram socket.
    datagram_receives: Option<MessageReceives>,
    /// Set once a socket asks for timestamps.
    timestamps: Option<Timestamps>,
    /// Whether the kernel takes several datagrams in one call.
    segmentation_offload: bool,
    sockets: Vec<Socket>,
    free: Vec<u32>,
    /// Size of the registered file table. Socket indexes are below it.
    table_size: u32,
    shared: Vec<Arc<[u8]>>,
    /// Completions that are known without the kernel.
    ready: VecDeque<Completion>,
    /// The last completion was one of them.
    is_from_ready: bool,
    /// Sends that the last wait found and that were handled before their turn.
    handled_sends: usize,
    /// Kernel completions taken early, by [`Self::flush_held`] or because a queue was full.
    backlog: VecDeque<cqueue::Entry>,
    /// Sockets whose sends are held back until the current submission is complete.
    held: Vec<Token>,
    /// Sockets whose receive has ended, with a result or for lack of buffers. The next receive is
    /// started when the caller has taken everything and buffers are free again.
    to_arm: Vec<Token>,
    /// Number of the submission that is being filled.
    batch: u32,
    /// Failures of quiet sends have been seen up to this submission.
    seen_batch: u32,
    /// The last submission made while older completions had not been taken.
    crowded_batch: u32,
    /// Operations of all sockets that the kernel has not reported yet.
    in_flight: u64,
    /// The buffer lent to the caller.
    lent: Option<LentBuffer>,
    /// How long the bytes of the last completion had been in the kernel.
    delay_ns: Option<u64>,
    /// When the current completions were taken from the kernel.
    taken_ns: u64,
    /// When what was queued was last passed to the kernel.
    submitted_ns: u64,
    sleep_margin: SleepMargin,
    /// Waits do not sleep until then.
    poll_until_ns: u64,
}

/// A filled buffer that the caller is reading.
struct LentBuffer {
    op: Op,
    buffer: u16,
    len: usize,
}

/// Receiving messages: bytes with timestamps, or datagrams. The kernel puts a head before the
/// bytes, so the buffers are longer and separate.
struct MessageReceives {
    buffers: Buffers,
    /// States how long the control data may be. The kernel reads it when a receive is submitted.
    message: Box<libc::msghdr>,
}

/// Memory of a single receive with timestamps, at a fixed address.
struct TimestampedMessage {
    header: libc::msghdr,
    part: libc::iovec,
    control: [u8; CONTROL_BYTES],
}

struct Socket {
    generation: u32,
    key: u32,
    state: State,
    /// When the kernel connected the socket, if it did so at once.
    connected_ns: Option<u64>,
    /// Operations of this socket that the kernel has not reported yet.
    in_flight: u32,
    /// The address while connecting. The kernel reads it when the entry is submitted.
    address: Option<Box<KernelAddress>>,
    /// The send in progress, which the kernel will report.
    sending: Option<Sending>,
    /// Sends waiting for it, in order.
    queue: VecDeque<Payload>,
    /// The last quiet send: its submission, whether a failure of it would have been seen by now,
    /// and its bytes.
    quiet_batch: u32,
    quiet_settled: bool,
    quiet: (SharedBytes, usize, usize),
    /// The submission in which the receive was last started.
    arm_batch: u32,
    held: bool,
    /// How the socket receives: with or without timestamps.
    receive_op: Op,
    /// A second descriptor of a TCP socket with timestamps or [`SocketOptions::path`], for what the
    /// ring cannot ask.
    descriptor: Option<OwnedFd>,
    out_of_order: OutOfOrder,
    /// Only TCP sockets can discard.
    is_tcp: bool,
    /// How many of the next bytes to discard.
    discard_bytes: u64,
    expected: Expected,
    armed: Armed,
    /// For single receives of a socket with timestamps.
    message: Option<Box<TimestampedMessage>>,
    /// For the send in progress of a datagram socket.
    datagrams: Option<Box<SendingDatagrams>>,
    shutdown_after_queue: bool,
    /// The listening descriptor. Listeners are not in the file table.
    listener: Option<OwnedFd>,
}

/// The receive in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Armed {
    /// None, or it has ended.
    No,
    /// Reports each time that bytes have arrived.
    Multishot,
    /// A multishot receive that has been cancelled.
    Cancelled,
    /// Ends when bytes have arrived.
    Once,
    /// Ends when bytes have been discarded.
    Discard,
}

struct Sending {
    payload: Payload,
    sent: usize,
}

/// The part of a payload of datagrams that the kernel is sending, at a fixed address.
struct SendingDatagrams {
    message: DatagramMessage,
    progress: Progress,
    /// Where the queued payloads go. Empty if the socket is connected.
    to: VecDeque<SocketAddr>,
    /// The socket is closed when all that is queued has been sent.
    closes_afterwards: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Connecting,
    Open,
    Listening,
    Closing,
}

/// The kind of operation of a completion; the top byte of the user data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Op {
    Connect = 1,
    Receive,
    Send,
    QuietSend,
    Shutdown,
    SetOption,
    Cancel,
    Close,
    Accept,
    ReceiveTimestamped,
    ReceiveOnce,
    Discard,
    ReceiveDatagrams,
    SendDatagrams,
}

/// Generations are compared in the 24 bits that fit into the user data.
const GENERATION_MASK: u32 = 0x00ff_ffff;
const BUFFER_GROUP: u16 = 0;
const TIMESTAMPED_BUFFER_GROUP: u16 = 1;
/// Few sockets use timestamps.
const TIMESTAMPED_BUFFERS: u16 = 32;
const DATAGRAM_BUFFER_GROUP: u16 = 2;
/// Twice what the kernel reports of one multishot receive at a time (MULTISHOT_MAX_RETRY). If they
/// run out, datagrams wait in their sockets.
const DATAGRAM_BUFFERS: u16 = 64;
/// Length of the fixed part before the bytes of a multishot receive of a message, `struct
/// io_uring_recvmsg_out` (io_uring_prep_recvmsg_multishot(3)): four 32-bit numbers, which are the
/// lengths of name, control data and payload, and the flags. The name, which only datagrams have,
/// and the control data follow at their full lengths.
const MESSAGE_HEAD_BYTES: usize = 16;
const TIMESTAMPED_HEAD_BYTES: usize = MESSAGE_HEAD_BYTES + CONTROL_BYTES;
const DATAGRAM_HEAD_BYTES: usize =
    MESSAGE_HEAD_BYTES + socket::NAME_BYTES + datagrams::CONTROL_BYTES;
/// Entries that can be queued before the kernel must be called.
const SUBMISSION_ENTRIES: u32 = 1024;
/// Smallest size of the file table, however few sockets are expected.
const TABLE_SIZE_MIN: u32 = 65_536;
/// Gap between buffers. At distances of a power of two, the first lines of all buffers, which are
/// often the only ones used, would fall into the same few cache sets.
const STAGGER_BYTES: usize = 13 * 64;
/// How long a new ring waits for the kernel to free closed ones.
const FREEING_PAUSE: Duration = Duration::from_millis(10);
const FREEING_PAUSES_MAX: u32 = 20;
/// Longest wait for cancelled operations when the loop is dropped.
const DROP_WAIT_NS_MAX: u64 = 200_000_000;

impl Uring {
    /// Makes a loop for the calling thread. It must be used and dropped there.
    ///
    /// # Errors
    /// If the kernel forbids io_uring or lacks a feature needed here. The message says which.
    pub fn new(options: &LoopOptions) -> io::Result<Self> {
        let ring = build_ring(options)?;
        // Twice the expected sockets: a closed socket keeps its entry until the kernel has reported
        // its last operation, while its successor is already connecting. The table cannot grow, so
        // it has room for many more than expected. An entry costs the kernel 8 bytes.
        let wanted = options.sockets.saturating_mul(2).max(TABLE_SIZE_MIN);
        let table_size = wanted.min(open_file_limit());
        ring.submitter()
            .register_files_sparse(table_size)
            .map_err(|error| explain(error, "registering the file table"))?;
        // On recent kernels, which limit the work per wait, one wait brings a few dozen receives,
        // and their buffers are returned before the next one. On older kernels the buffers may run
        // out. That costs a new receive, but no data.
        let count = options.sockets.next_power_of_two().clamp(64, 256) as u16;
        let bytes = options.receive_buffer_bytes;
        let buffers = Buffers::register(&ring, BUFFER_GROUP, count, 0, bytes)
            .map_err(|error| explain(error, "registering receive buffers (needs Linux 5.19)"))?;
        socket::sharpen_timers();
        let capacity = options.sockets as usize;
        Ok(Self {
            ring,
            buffers,
            receive_buffer_bytes: bytes,
            timestamped_receives: None,
            datagram_receives: None,
            timestamps: None,
            segmentation_offload: options.segmentation_offload,
            sockets: Vec::with_capacity(capacity),
            free: Vec::with_capacity(capacity),
            table_size,
            shared: Vec::new(),
            ready: VecDeque::new(),
            is_from_ready: false,
            handled_sends: 0,
            backlog: VecDeque::new(),
            held: Vec::new(),
            to_arm: Vec::new(),
            batch: 1,
            seen_batch: 0,
            crowded_batch: 0,
            in_flight: 0,
            lent: None,
            delay_ns: None,
            taken_ns: 0,
            submitted_ns: 0,
            sleep_margin: SleepMargin::new(options.spin_ns),
            poll_until_ns: 0,
        })
    }

    /// Whether this kernel lets this process use the backend.
    ///
    /// # Errors
    /// The reason, if it does not.
    pub fn probe() -> io::Result<()> {
        // In a separate thread: when a ring is destroyed, the kernel interrupts the thread that
        // made it, and blocking calls there would fail with EINTR.
        let thread = std::thread::Builder::new().name("probe".to_owned());
        let probing = thread.spawn(|| {
            let mut this = Self::new(&LoopOptions {
                sockets: 1,
                ..LoopOptions::default()
            })?;
            this.probe_multishot()
        });
        probing?
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("probing io_uring failed")))
    }

    /// The list of supported operations does not show multishot receive (Linux 6.0). An older
    /// kernel accepts the entry and fails it with EINVAL.
    fn probe_multishot(&mut self) -> io::Result<()> {
        use std::io::Write;
        let (mut near, far) = std::os::unix::net::UnixStream::pair()?;
        self.adopt(0, OwnedFd::from(far))?;
        near.write_all(b"x")?;
        self.wait(Some(monotonic_ns() + 1_000_000_000))?;
        match self.next().map(|completion| completion.event) {
            Some(SocketEvent::Received(1)) => Ok(()),
            other => Err(io::Error::other(format!(
                "multishot receive does not work here (needs Linux 6.0): {other:?}"
            ))),
        }
    }

    fn insert(&mut self, key: u32, state: State, fd: Option<&OwnedFd>) -> Result<Token, i32> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.sockets.push(Socket::empty());
                self.sockets.len() as u32 - 1
            }
        };
        let socket = &mut self.sockets[index as usize];
        socket.key = key;
        socket.state = state;
        let token = Token {
            index,
            generation: socket.generation,
        };
        if let Some(fd) = fd
            && let Err(error) = self.place(index, fd)
        {
            self.release(index);
            return Err(error);
        }
        Ok(token)
    }

    /// Puts a descriptor into the file table, which then holds another reference.
    fn place(&mut self, index: u32, fd: &OwnedFd) -> Result<(), i32> {
        if index >= self.table_size {
            return Err(libc::EMFILE);
        }
        match self
            .ring
            .submitter()
            .register_files_update(index, &[fd.as_raw_fd()])
        {
            Ok(_) => Ok(()),
            Err(error) => Err(error.raw_os_error().unwrap_or(libc::EIO)),
        }
    }

    fn release(&mut self, index: u32) {
        let socket = &mut self.sockets[index as usize];
        let generation = socket.generation.wrapping_add(1);
        // Keep the queue's memory for the next socket.
        let mut queue = std::mem::take(&mut socket.queue);
        queue.clear();
        *socket = Socket {
            generation,
            queue,
            ..Socket::empty()
        };
        self.free.push(index);
    }

    /// The control data of the datagrams that are lent, and how many bytes these have.
    fn lent_control(&self) -> Option<(&[u8], usize)> {
        let loan = self.lent.as_ref()?;
        let receives = self.datagram_receives.as_ref()?;
        let is_datagrams = loan.op == Op::ReceiveDatagrams;
        is_datagrams.then(|| {
            let head = receives.buffers.head(loan.buffer);
            (control_data(head, socket::NAME_BYTES), loan.len)
        })
    }

    fn live(&mut self, token: Token) -> Option<&mut Socket> {
        self.sockets.get_mut(token.index as usize).filter(|socket| {
            socket.generation == token.generation
                && !matches!(socket.state, State::Free | State::Closing)
        })
    }

    fn push(&mut self, entry: &Entry) {
        // SAFETY: everything the entry points to lives until its completion: shared bytes as long
        // as the loop; owned buffers and addresses in the socket's entry, which is not reused
        // before the kernel has reported all its operations (`in_flight`).
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            // The queue is full. The kernel accepts no more while completions are waiting (EBUSY,
            // EAGAIN). Other errors recur in `wait`, which reports them.
            if self.submit_queued().is_err() {
                self.backlog.extend(self.ring.completion());
            }
        }
    }

    fn push_counted(&mut self, token: Token, op: Op, entry: Entry) {
        self.sockets[token.index as usize].in_flight += 1;
        self.in_flight += 1;
        self.push(&entry.user_data(user_data(op, token)));
    }

    fn submit_queued(&mut self) -> io::Result<usize> {
        self.begin_submission();
        self.ring.submit()
    }

    /// Submits at once, so that the time between the caller's clock and the kernel's work is not
    /// attributed to the server. On loopback, the connection is then already established.
    fn submit_connect(&mut self, token: Token) {
        self.begin_submission();
        if self.submit_and_poll().is_err() {
            // The error recurs in `wait`, which reports it.
            return;
        }
        let at_ns = monotonic_ns();
        // Other completions that this call brought arrived after the previous wait.
        self.taken_ns = at_ns;
        let connect = user_data(Op::Connect, token);
        for entry in self.ring.completion() {
            if entry.user_data() == connect {
                self.sockets[token.index as usize].connected_ns = Some(at_ns);
            }
            self.backlog.push_back(entry);
        }
    }

    /// Handles the sends that have ended, so that what waits behind them does not wait for the
    /// caller to take all completions. Returns how many have ended.
    fn continue_sends(&mut self) -> usize {
        let mut ended = 0;
        let first = self.backlog.len();
        self.backlog.extend(self.ring.completion());
        let new = self.backlog.split_off(first);
        for entry in new {
            if op_of(entry.user_data()) != Some(Op::Send) {
                self.backlog.push_back(entry);
                continue;
            }
            ended += 1;
            let completion = self.on_completion(&entry);
            self.ready.extend(completion);
        }
        ended
    }

    fn begin_submission(&mut self) {
        if !self.backlog.is_empty() || !self.ring.completion().is_empty() {
            self.crowded_batch = self.batch;
        }
        self.batch = self.batch.wrapping_add(1);
    }

    fn arm_receive(&mut self, token: Token) {
        let fd = Fixed(token.index);
        let op = self.sockets[token.index as usize].receive_op;
        let entry = match (op, &self.timestamped_receives) {
            (Op::ReceiveTimestamped, Some(timestamped_receives)) => {
                let message = &raw const *timestamped_receives.message;
                opcode::RecvMsgMulti::new(fd, message, TIMESTAMPED_BUFFER_GROUP).build()
            }
            (Op::ReceiveDatagrams, _) => {
                // There are buffers: they were made with the first such socket.
                let message = self
                    .datagram_receives
                    .as_ref()
                    .map_or(std::ptr::null(), |receives| &raw const *receives.message);
                opcode::RecvMsgMulti::new(fd, message, DATAGRAM_BUFFER_GROUP).build()
            }
            _ => opcode::RecvMulti::new(fd, BUFFER_GROUP).build(),
        };
        self.push_counted(token, op, entry);
        let socket = &mut self.sockets[token.index as usize];
        socket.armed = Armed::Multishot;
        // Set afterwards, because `push` submits if the queue is full.
        socket.arm_batch = self.batch;
    }

    /// Restarts receives that have ended.
    fn rearm(&mut self) {
        for at in 0..self.to_arm.len() {
            let token = self.to_arm[at];
            let Some(socket) = self.live(token).filter(|socket| socket.armed == Armed::No) else {
                continue;
            };
            if socket.discard_bytes > 0 {
                self.arm_once(token, Op::Discard);
            } else if socket.expected == Expected::Anything {
                self.arm_receive(token);
            } else {
                self.arm_once(token, Op::ReceiveOnce);
            }
        }
        self.to_arm.clear();
    }

    /// Starts a receive that ends when bytes have arrived, to hand them out or to discard them.
    fn arm_once(&mut self, token: Token, op: Op) {
        let fd = Fixed(token.index);
        let room = self.receive_buffer_bytes;
        let socket = &mut self.sockets[token.index as usize];
        let discards = op == Op::Discard;
        let (length, flags) = match socket.expected {
            _ if discards => (
                socket::discard_length(socket.discard_bytes),
                libc::MSG_TRUNC,
            ),
            Expected::Long => (room.min(BEGINNING_BYTES), 0),
            Expected::Rest | Expected::Anything => (room, 0),
        };
        let is_timestamped = socket.receive_op == Op::ReceiveTimestamped;
        let entry = if is_timestamped {
            let message = socket.message.get_or_insert_with(TimestampedMessage::boxed);
            opcode::RecvMsg::new(fd, message.prepare(length))
                .flags(flags as u32)
                .buf_group(BUFFER_GROUP)
                .build()
        } else {
            opcode::Recv::new(fd, std::ptr::null_mut(), length as u32)
                .flags(flags)
                .buf_group(BUFFER_GROUP)
                .build()
        };
        socket.armed = if discards {
            Armed::Discard
        } else {
            Armed::Once
        };
        let entry = if discards {
            entry
        } else {
            entry.flags(Flags::BUFFER_SELECT)
        };
        self.push_counted(token, op, entry);
        // It follows all sends of its submission, so what it brings is newer than they are.
        self.sockets[token.index as usize].arm_batch = self.batch.wrapping_sub(1);
    }

    fn push_ready(&mut self, key: u32, token: Token, event: SocketEvent) {
        self.ready.push_back(Completion {
            key,
            token,
            at_ns: monotonic_ns(),
            event,
        });
    }

    /// Whether another send of this socket could overtake one whose failure is not known yet.
    fn must_hold(&self, socket: &Socket) -> bool {
        socket.held || (!socket.quiet_settled && is_later(socket.quiet_batch, self.seen_batch))
    }

    /// The kernel has reported a receive on this socket. It did so after it had carried out the
    /// previous quiet send, unless both were in the same submission or the report is older than the
    /// send.
    fn settle_quiet(&mut self, index: u32) {
        let socket = &mut self.sockets[index as usize];
        let went_before = is_later(self.batch, socket.quiet_batch);
        if went_before
            && socket.arm_batch != socket.quiet_batch
            && is_later(socket.quiet_batch, self.crowded_batch)
        {
            socket.quiet_settled = true;
        }
    }

    fn start_send(&mut self, token: Token, payload: Payload) {
        let socket = &mut self.sockets[token.index as usize];
        match payload {
            Payload::Shared { bytes, range } => {
                socket.quiet = (bytes, range.start, range.end);
                let part = &self.shared[bytes.0 as usize][range];
                let flags = libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
                let entry = opcode::Send::new(Fixed(token.index), part.as_ptr(), part.len() as u32)
                    .flags(flags)
                    .build()
                    .flags(Flags::SKIP_SUCCESS)
                    .user_data(user_data(Op::QuietSend, token));
                self.push(&entry);
                // Set afterwards, because `push` submits if the queue is full.
                let socket = &mut self.sockets[token.index as usize];
                socket.quiet_batch = self.batch;
                socket.quiet_settled = false;
            }
            Payload::Owned(_) => self.start_reported_send(token, Sending { payload, sent: 0 }),
            Payload::Datagrams { .. } => self.start_datagrams(token, payload),
        }
    }

    fn start_reported_send(&mut self, token: Token, sending: Sending) {
        let rest = &sending.payload.bytes(&self.shared)[sending.sent..];
        // One entry carries at most 1 GiB (its length is 32 bits wide). The rest follows on
        // completion.
        let len = rest.len().min(1 << 30) as u32;
        let socket = &mut self.sockets[token.index as usize];
        let wait = match socket.state {
            State::Closing => libc::MSG_DONTWAIT,
            _ => libc::MSG_WAITALL,
        };
        let entry = opcode::Send::new(Fixed(token.index), rest.as_ptr(), len)
            .flags(wait | libc::MSG_NOSIGNAL)
            .build();
        socket.sending = Some(sending);
        self.push_counted(token, Op::Send, entry);
    }

    fn send_next(&mut self, token: Token) {
        while let Some(socket) = self.live(token) {
            if socket.sending.is_some() {
                return;
            }
            if socket.queue.is_empty() && !socket.shutdown_after_queue {
                return;
            }
            // FIN is held back like a send, because it must not overtake the rest of a quiet send.
            if self.must_hold(&self.sockets[token.index as usize]) {
                let socket = &mut self.sockets[token.index as usize];
                if !socket.held {
                    socket.held = true;
                    self.held.push(token);
                }
                return;
            }
            let socket = &mut self.sockets[token.index as usize];
            let Some(payload) = socket.queue.pop_front() else {
                socket.shutdown_after_queue = false;
                let entry = opcode::Shutdown::new(Fixed(token.index), libc::SHUT_WR).build();
                self.push_counted(token, Op::Shutdown, entry);
                return;
            };
            self.start_send(token, payload);
        }
    }

    /// Submits, checks whether the previous sends failed, and then sends what was held back.
    fn flush_held(&mut self) -> io::Result<()> {
        while !self.held.is_empty() {
            self.submit_queued()?;
            let mut entries = std::mem::take(&mut self.backlog);
            entries.extend(self.ring.completion());
            entries.retain(|entry| {
                let failed = op_of(entry.user_data()) == Some(Op::QuietSend);
                if failed {
                    self.on_quiet_failure(token_of(entry.user_data()), entry.result());
                }
                !failed
            });
            self.backlog = entries;
            self.seen_batch = self.batch.wrapping_sub(1);
            for token in std::mem::take(&mut self.held) {
                if let Some(socket) = self.live(token) {
                    socket.held = false;
                    self.send_next(token);
                }
            }
        }
        Ok(())
    }

    fn on_quiet_failure(&mut self, token: Token, result: i32) {
        let Some(socket) = self.live_by_truncated_generation(token) else {
            return;
        };
        let socket_entry = &mut self.sockets[socket.index as usize];
        socket_entry.quiet_settled = true;
        let (bytes, start, end) = socket_entry.quiet;
        let sent = match result {
            libc::ECANCELED | 0.. => result.max(0) as usize,
            error if error == -libc::EAGAIN => 0,
            error => {
                socket_entry.queue.clear();
                let key = socket_entry.key;
                self.push_ready(key, socket, SocketEvent::SendFailed(-error));
                return;
            }
        };
        let payload = Payload::Shared {
            bytes,
            range: start..end,
        };
        self.start_reported_send(socket, Sending { payload, sent });
    }

    /// The full token for one whose generation was truncated in the user data.
    fn live_by_truncated_generation(&self, token: Token) -> Option<Token> {
        let socket = self.sockets.get(token.index as usize)?;
        let same = socket.generation & GENERATION_MASK == token.generation;
        let live = same && !matches!(socket.state, State::Free | State::Closing);
        live.then_some(Token {
            index: token.index,
            generation: socket.generation,
        })
    }

    /// Returns the lent buffer to the kernel.
    fn end_loan(&mut self) {
        self.delay_ns = None;
        if let Some(loan) = self.lent.take() {
            self.give_back(loan.op, loan.buffer);
        }
    }

    /// Returns a buffer that the kernel took for this kind of receive.
    fn give_back(&mut self, op: Op, buffer: u16) {
        let receives = match op {
            Op::ReceiveTimestamped => &mut self.timestamped_receives,
            Op::ReceiveDatagrams => &mut self.datagram_receives,
            _ => return self.buffers.give_back(buffer),
        };
        if let Some(receives) = receives {
            receives.buffers.give_back(buffer);
        }
    }

    /// Sets up receiving with timestamps. If the kernel has no resources for it, there are no
    /// timestamps.
    fn start_timestamping(&mut self) -> Option<&MessageReceives> {
        if self.timestamped_receives.is_none() {
            let buffers = Buffers::register(
                &self.ring,
                TIMESTAMPED_BUFFER_GROUP,
                TIMESTAMPED_BUFFERS,
                TIMESTAMPED_HEAD_BYTES,
                self.receive_buffer_bytes,
            );
            self.timestamped_receives = Some(MessageReceives {
                buffers: buffers.ok()?,
                message: Box::new(socket::control_message(CONTROL_BYTES)),
            });
            self.timestamps.get_or_insert_with(Timestamps::start);
        }
        self.timestamped_receives.as_ref()
    }

    /// Sets up receiving datagrams.
    fn start_receiving_datagrams(&mut self) -> Result<(), i32> {
        if self.datagram_receives.is_none() {
            let buffers = Buffers::register(
                &self.ring,
                DATAGRAM_BUFFER_GROUP,
                DATAGRAM_BUFFERS,
                DATAGRAM_HEAD_BYTES,
                datagrams::RECEIVE_BYTES,
            );
            let mut message = Box::new(socket::control_message(datagrams::CONTROL_BYTES));
            message.msg_namelen = socket::NAME_BYTES as libc::socklen_t;
            self.datagram_receives = Some(MessageReceives {
                buffers: buffers.map_err(|error| error.raw_os_error().unwrap_or(libc::ENOMEM))?,
                message,
            });
        }
        Ok(())
    }

    fn open_datagrams(
        &mut self,
        key: u32,
        address: SocketAddr,
        options: &SocketOptions,
    ) -> Result<Token, i32> {
        let (fd, timestamped) = socket::open_datagrams(address, options)?;
        self.start_receiving_datagrams()?;
        if timestamped {
            self.timestamps.get_or_insert_with(Timestamps::start);
        }
        let token = self.insert(key, State::Open, Some(&fd))?;
        self.sockets[token.index as usize].receive_op = Op::ReceiveDatagrams;
        Ok(token)
    }

    /// A token of a socket that could not be opened, because the failure is a completion like any
    /// other.
    fn fail_connect(&mut self, key: u32, error: i32) -> Token {
        let index = match self.insert(key, State::Connecting, None) {
            Ok(token) => token.index,
            Err(_) => 0,
        };
        let token = Token {
            index,
            generation: self.sockets[index as usize].generation,
        };
        self.release(index);
        self.push_ready(key, token, SocketEvent::ConnectFailed(error));
        token
    }

    /// Submits and waits. Returns whether it could sleep.
    fn enter(&mut self, until_ns: Option<u64>, now_ns: u64) -> io::Result<bool> {
        let busy = !self.ready.is_empty() || !self.backlog.is_empty();
        self.begin_submission();
        let timeout_ns = match until_ns {
            _ if busy => Some(0),
            Some(until) => Some(until.saturating_sub(now_ns)),
            None => None,
        };
        let entered = match timeout_ns {
            None => self.ring.submit_and_wait(1),
            Some(0) => self.submit_and_poll(),
            Some(ns) => {
                let timeout = Timespec::new()
                    .sec(ns / 1_000_000_000)
                    .nsec((ns % 1_000_000_000) as u32);
                self.ring
                    .submitter()
                    .submit_with_args(1, &SubmitArgs::new().timespec(&timeout))
            }
        };
        match entered {
            Ok(_) => Ok(timeout_ns != Some(0)),
            Err(error) => match error.raw_os_error() {
                // ETIME: the deadline. EBUSY, EAGAIN: completions must be taken first.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => {
                    Ok(timeout_ns != Some(0))
                }
                _ => Err(error),
            },
        }
    }

    /// Submits and makes the kernel report completions, without blocking. A wait with a timeout of
    /// zero would set a timer and yield the CPU.
    fn submit_and_poll(&mut self) -> io::Result<usize> {
        let queued = self.ring.submission().len() as u32;
        let flags = EnterFlags::GETEVENTS.bits();
        let no_mask = None::<&libc::sigset_t>;
        // SAFETY: `queued` entries exist and were pushed under the rules of `push`. Without an
        // argument, the kernel reads no memory beyond the ring.
        unsafe { self.ring.submitter().enter(queued, 0, flags, no_mask) }
    }

    /// Sleeps until one time and polls until the other one, or until there is a completion.
    fn wait_in_parts(
        &mut self,
        sleep_until_ns: Option<u64>,
        until_ns: Option<u64>,
    ) -> io::Result<()> {
        self.end_loan();
        let mut now_ns = monotonic_ns();
        self.submitted_ns = now_ns;
        let mut first = true;
        self.handled_sends = 0;
        loop {
            self.rearm();
            self.flush_held()?;
            let polls = now_ns < self.poll_until_ns;
            let slept = self.enter(if polls { Some(0) } else { sleep_until_ns }, now_ns)?;
            self.taken_ns = monotonic_ns();
            let something = !self.ready.is_empty()
                || !self.backlog.is_empty()
                || !self.ring.completion().is_empty();
            if something {
                return Ok(());
            }
            let poll_until_ns =
                until_ns.map_or(self.poll_until_ns, |until| until.min(self.poll_until_ns));
            now_ns = self.taken_ns;
            if polls && now_ns < poll_until_ns {
                self.spin(poll_until_ns);
                now_ns = monotonic_ns();
                first = false;
                continue;
            }
            let (Some(sleep_until), Some(until)) = (sleep_until_ns, until_ns) else {
                continue;
            };
            if slept && self.taken_ns >= sleep_until {
                self.sleep_margin.note_wakeup(sleep_until, self.taken_ns);
            }
            if self.taken_ns >= until {
                return Ok(());
            }
            if self.taken_ns >= sleep_until {
                if first && !slept {
                    self.sleep_margin.note_no_sleep();
                }
                self.spin(until);
                now_ns = monotonic_ns();
            }
            first = false;
        }
    }

    /// Polls until the kernel has something to report or `until_ns` is reached. A flag in memory
    /// (IORING_SETUP_TASKRUN_FLAG) tells whether it has, so that polling needs no system call.
    fn spin(&mut self, until_ns: u64) {
        while monotonic_ns() < until_ns {
            if self.ring.submission().taskrun() || !self.ring.completion().is_empty() {
                return;
            }
            std::hint::spin_loop();
        }
    }

    fn on_completion(&mut self, entry: &cqueue::Entry) -> Option<Completion> {
        let user_data = entry.user_data();
        let op = op_of(user_data)?;
        let token = token_of(user_data);
        if op == Op::QuietSend {
            self.on_quiet_failure(token, entry.result());
            return None;
        }
        if op == Op::Cancel || op == Op::SetOption {
            return None;
        }
        if matches!(
            op,
            Op::Receive | Op::ReceiveTimestamped | Op::ReceiveOnce | Op::Discard
        ) {
            return self.on_receive(op, token, entry);
        }
        if op == Op::ReceiveDatagrams {
            return self.on_datagrams(token, entry);
        }
        let more = cqueue::more(entry.flags());
        let socket = &mut self.sockets[token.index as usize];
        if !more {
            socket.in_flight -= 1;
            self.in_flight -= 1;
        }
        let connected_ns = socket.connected_ns.take();
        let event = match op {
            Op::Connect => self.on_connect(token.index, entry.result()),
            Op::Send => self.on_send(token.index, entry.result()),
            Op::SendDatagrams => self.on_datagrams_sent(token.index, entry.result()),
            Op::Accept => return self.on_accept(token.index, entry.result(), more),
            _ => None,
        };
        let completion = self.finish(token.index, event)?;
        Some(Completion {
            at_ns: connected_ns.unwrap_or(completion.at_ns),
            ..completion
        })
    }

    fn on_receive(&mut self, op: Op, token: Token, entry: &cqueue::Entry) -> Option<Completion> {
        let index = token.index as usize;
        let result = entry.result();
        let buffer = cqueue::buffer_select(entry.flags());
        let socket = &mut self.sockets[index];
        let more = cqueue::more(entry.flags());
        let armed = socket.armed;
        if !more {
            socket.in_flight -= 1;
            self.in_flight -= 1;
            socket.armed = Armed::No;
        }
        if socket.state != State::Open {
            if let Some(buffer) = buffer {
                self.give_back(op, buffer);
            }
            return self.finish(token.index, None);
        }
        let full = Token {
            index: token.index,
            generation: socket.generation,
        };
        let key = socket.key;
        self.settle_quiet(token.index);
        // At the end of the stream there is a message head too, without bytes.
        let head_bytes = match op {
            Op::ReceiveTimestamped if result > 0 => TIMESTAMPED_HEAD_BYTES as i32,
            _ => 0,
        };
        let event = match result - head_bytes {
            len @ 1.. => {
                if !more {
                    self.to_arm.push(full);
                }
                self.received(op, token.index, buffer, len as usize)?
            }
            nothing => {
                if let Some(buffer) = buffer {
                    self.give_back(op, buffer);
                }
                match -nothing {
                    0 => SocketEvent::EndOfStream,
                    // No buffer was left, or `discard` cancelled it.
                    error
                        if error == libc::ENOBUFS
                            || (error == libc::ECANCELED && armed == Armed::Cancelled) =>
                    {
                        self.to_arm.push(full);
                        return None;
                    }
                    error => SocketEvent::ReceiveFailed(error),
                }
            }
        };
        Some(Completion {
            key,
            token: full,
            at_ns: self.taken_ns,
            event,
        })
    }

    /// Accounts for received bytes, and lends those that were not discarded.
    fn received(
        &mut self,
        op: Op,
        index: u32,
        buffer: Option<u16>,
        len: usize,
    ) -> Option<SocketEvent> {
        self.delay_ns = self.delay_ns(op, index, buffer);
        let socket = &mut self.sockets[index as usize];
        socket.discard_bytes = socket.discard_bytes.saturating_sub(len as u64);
        if op == Op::Discard {
            return Some(SocketEvent::Discarded(len as u64));
        }
        socket.expected = socket.expected.after_received();
        self.lent = Some(LentBuffer {
            op,
            buffer: buffer?,
            len,
        });
        Some(SocketEvent::Received(len))
    }

    /// How long received bytes have waited for the caller.
    fn delay_ns(&mut self, op: Op, index: u32, buffer: Option<u16>) -> Option<u64> {
        let age_ns = self.age_ns(op, index, buffer);
        let socket = &mut self.sockets[index as usize];
        let descriptor = socket.descriptor.as_ref();
        let packets = || Some(socket::tcp_path(descriptor?.as_raw_fd())?.out_of_order);
        socket.out_of_order.filter(age_ns, self.taken_ns, packets)
    }

    /// The age of the timestamp of received bytes.
    fn age_ns(&mut self, op: Op, index: u32, buffer: Option<u16>) -> Option<u64> {
        let timestamps = self.timestamps.as_mut()?;
        let (receives, name_bytes) = match op {
            Op::ReceiveTimestamped => (&self.timestamped_receives, 0),
            Op::ReceiveDatagrams => (&self.datagram_receives, socket::NAME_BYTES),
            _ => {
                let message = self.sockets[index as usize].message.as_ref()?;
                return timestamps.delay_ns(message.control_data(), self.taken_ns);
            }
        };
        let control = control_data(receives.as_ref()?.buffers.head(buffer?), name_bytes);
        timestamps.delay_ns(control, self.taken_ns)
    }

    fn on_datagrams(&mut self, token: Token, entry: &cqueue::Entry) -> Option<Completion> {
        let index = token.index as usize;
        let result = entry.result();
        let buffer = cqueue::buffer_select(entry.flags());
        let socket = &mut self.sockets[index];
        let more = cqueue::more(entry.flags());
        if !more {
            socket.in_flight -= 1;
            self.in_flight -= 1;
            socket.armed = Armed::No;
        }
        let is_open = socket.state == State::Open;
        let full = Token {
            index: token.index,
            generation: socket.generation,
        };
        let key = socket.key;
        if is_open && !more {
            // An error or an empty datagram has ended it, or there was no buffer.
            self.to_arm.push(full);
        }
        let event = match (usize::try_from(result), buffer) {
            (Ok(length), Some(buffer)) if is_open && length > DATAGRAM_HEAD_BYTES => {
                self.delay_ns = self.delay_ns(Op::ReceiveDatagrams, token.index, Some(buffer));
                let len = length - DATAGRAM_HEAD_BYTES;
                self.lent = Some(LentBuffer {
                    op: Op::ReceiveDatagrams,
                    buffer,
                    len,
                });
                Some(SocketEvent::Received(len))
            }
            (length, buffer) => {
                if let Some(buffer) = buffer {
                    self.give_back(Op::ReceiveDatagrams, buffer);
                }
                let error = length.is_err().then_some(-result);
                error
                    .and_then(datagrams::reported)
                    .map(SocketEvent::ReceiveFailed)
            }
        };
        if !is_open {
            return self.finish(token.index, None);
        }
        Some(Completion {
            key,
            token: full,
            at_ns: self.taken_ns,
            event: event?,
        })
    }

    fn start_datagrams(&mut self, token: Token, payload: Payload) {
        let socket = &mut self.sockets[token.index as usize];
        socket.sending = Some(Sending { payload, sent: 0 });
        let sending = socket.datagrams.get_or_insert_with(SendingDatagrams::boxed);
        sending.progress = Progress::default();
        sending.message.to = sending.to.pop_front().map(KernelAddress::of_ip);
        if let Some(event) = self.send_datagrams(token) {
            let key = self.sockets[token.index as usize].key;
            self.push_ready(key, token, event);
        }
    }

    /// Starts the next part of the send in progress. Returns its end if nothing is left of it.
    fn send_datagrams(&mut self, token: Token) -> Option<SocketEvent> {
        let socket = &mut self.sockets[token.index as usize];
        let sending = socket.datagrams.as_mut()?;
        let Some(Payload::Datagrams { buffer, segment }) =
            socket.sending.as_ref().map(|sending| &sending.payload)
        else {
            return None;
        };
        let progress = &mut sending.progress;
        let Some(part) = progress.part(buffer.len(), *segment, self.segmentation_offload) else {
            return match socket.sending.take()?.payload {
                Payload::Datagrams { buffer, .. } => Some(SocketEvent::Sent(buffer)),
                Payload::Owned(_) | Payload::Shared { .. } => None,
            };
        };
        let wait = match socket.state {
            State::Closing => libc::MSG_DONTWAIT,
            _ => 0,
        };
        let flags = wait | libc::MSG_NOSIGNAL;
        let message = sending.message.prepare(&buffer[part.range], part.segment);
        let entry = opcode::SendMsg::new(Fixed(token.index), message)
            .flags(flags as u32)
            .build();
        self.push_counted(token, Op::SendDatagrams, entry);
        None
    }

    fn on_datagrams_sent(&mut self, index: u32, result: i32) -> Option<SocketEvent> {
        let socket = &mut self.sockets[index as usize];
        let token = Token {
            index,
            generation: socket.generation,
        };
        let (is_open, key) = (socket.state == State::Open, socket.key);
        let sending = socket.datagrams.as_mut()?;
        if !is_open && (!sending.closes_afterwards || is_full(result)) {
            socket.sending = None;
            if std::mem::take(&mut sending.closes_afterwards) {
                self.push_close(token);
            }
            return None;
        }
        let sent = usize::try_from(result).map_err(|_| -result);
        let offload = &mut self.segmentation_offload;
        if sending.progress.after(sent, offload) == Outcome::EarlierRefused && is_open {
            let event = SocketEvent::ReceiveFailed(libc::ECONNREFUSED);
            self.push_ready(key, token, event);
        }
        let end = self.send_datagrams(token)?;
        if is_open {
            self.send_next(token);
            return Some(end);
        }
        self.send_last_datagrams(token);
        None
    }

    /// The send of a closed socket has ended: starts the next one, or closes if there is none.
    fn send_last_datagrams(&mut self, token: Token) {
        let socket = &mut self.sockets[token.index as usize];
        while let Some(payload) = socket.queue.pop_front() {
            let is_empty =
                matches!(&payload, Payload::Datagrams { buffer, .. } if buffer.is_empty());
            if !is_empty {
                return self.start_datagrams(token, payload);
            }
        }
        if let Some(sending) = &mut socket.datagrams {
            sending.closes_afterwards = false;
        }
        self.push_close(token);
    }

    fn on_connect(&mut self, index: u32, result: i32) -> Option<SocketEvent> {
        let socket = &mut self.sockets[index as usize];
        socket.address = None;
        if socket.state != State::Connecting {
            return None;
        }
        let token = Token {
            index,
            generation: socket.generation,
        };
        if result < 0 {
            // The token is dead from here on. The entry of the file table is closed afterwards.
            let key = socket.key;
            self.start_close(token, CloseMode::Abort);
            self.push_ready(key, token, SocketEvent::ConnectFailed(-result));
            return None;
        }
        socket.state = State::Open;
        self.arm_receive(token);
        self.send_next(token);
        Some(SocketEvent::Connected)
    }

    fn on_send(&mut self, index: u32, result: i32) -> Option<SocketEvent> {
        let socket = &mut self.sockets[index as usize];
        let mut sending = socket.sending.take()?;
        let token = Token {
            index,
            generation: socket.generation,
        };
        if socket.state != State::Open {
            if !socket.queue.is_empty() {
                self.send_last(token, sending, result);
            }
            return None;
        }
        if result < 0 && result != -libc::EINTR && result != -libc::EAGAIN {
            socket.queue.clear();
            return Some(SocketEvent::SendFailed(-result));
        }
        sending.sent += result.max(0) as usize;
        if !sending.is_whole() {
            self.start_reported_send(token, sending);
            return None;
        }
        self.send_next(token);
        match sending.payload {
            Payload::Owned(buffer) => Some(SocketEvent::Sent(buffer)),
            Payload::Shared { .. } | Payload::Datagrams { .. } => None,
        }
    }

    fn on_accept(&mut self, index: u32, result: i32, more: bool) -> Option<Completion> {
        let listener = &self.sockets[index as usize];
        let key = listener.key;
        let open = listener.state == State::Listening;
        if !more && open {
            let generation = listener.generation;
            self.arm_accept(Token { index, generation });
        }
        if result < 0 {
            return self.finish(index, None);
        }
        // SAFETY: the kernel has just returned this descriptor; nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(result) };
        if !open {
            return self.finish(index, None);
        }
        socket::set_nodelay(fd.as_raw_fd());
        let token = self.insert(key, State::Open, Some(&fd)).ok()?;
        self.arm_receive(token);
        Some(Completion {
            key,
            token,
            at_ns: self.taken_ns,
            event: SocketEvent::Accepted,
        })
    }

    fn arm_accept(&mut self, token: Token) {
        let Some(fd) = self.sockets[token.index as usize].listener.as_ref() else {
            return;
        };
        let fd: RawFd = fd.as_raw_fd();
        let entry = opcode::AcceptMulti::new(io_uring::types::Fd(fd))
            .flags(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC)
            .build();
        self.push_counted(token, Op::Accept, entry);
    }

    /// Cancels the operations in flight and closes the entry of the file table. What is queued
    /// behind a send whose result is not known is sent by [`Self::send_last`], which then closes.
    fn start_close(&mut self, token: Token, mode: CloseMode) {
        let socket = &mut self.sockets[token.index as usize];
        socket.state = State::Closing;
        // The table has the last reference again, so that the ring closes the connection.
        socket.descriptor = None;
        let is_sending = socket.sending.is_some();
        if mode == CloseMode::Abort || !is_sending {
            socket.queue.clear();
        }
        // Datagrams may need further calls even if nothing is queued behind them.
        let sending_datagrams = socket.datagrams.as_mut().filter(|_| is_sending);
        let sends_more = match sending_datagrams {
            Some(sending) => {
                sending.closes_afterwards = mode == CloseMode::Graceful;
                sending.closes_afterwards
            }
            None => !socket.queue.is_empty(),
        };
        self.cancel_in_flight(token);
        if !sends_more {
            self.push_close(token);
        }
    }

    fn push_close(&mut self, token: Token) {
        let entry = opcode::Close::new(Fixed(token.index)).build();
        self.push_counted(token, Op::Close, entry);
    }

    /// The send that was in progress when the socket was closed has ended with `result`. If all of
    /// it was sent, the kernel gets what was queued behind it, as far as there is room.
    fn send_last(&mut self, token: Token, mut sending: Sending, result: i32) {
        sending.sent += result.max(0) as usize;
        let queue = &mut self.sockets[token.index as usize].queue;
        let mut rest = Vec::new();
        for payload in queue.drain(..) {
            rest.extend_from_slice(payload.bytes(&self.shared));
        }
        if sending.is_whole() {
            let payload = Payload::Owned(rest);
            self.start_reported_send(token, Sending { payload, sent: 0 });
        }
        self.push_close(token);
    }

    /// Cancels each operation by its user data, which the kernel finds at once. To cancel
    /// everything of a socket or of the ring, it would search all waiting operations for each of
    /// them.
    fn cancel_in_flight(&mut self, token: Token) {
        let socket = &self.sockets[token.index as usize];
        if socket.in_flight == 0 {
            return;
        }
        let sending = socket.sending.is_some();
        let first = match socket.state {
            State::Listening => Op::Accept,
            _ if socket.address.is_some() => Op::Connect,
            _ => match socket.armed {
                Armed::Once => Op::ReceiveOnce,
                Armed::Discard => Op::Discard,
                Armed::No | Armed::Multishot | Armed::Cancelled => socket.receive_op,
            },
        };
        let send = match socket.receive_op {
            Op::ReceiveDatagrams => Op::SendDatagrams,
            _ => Op::Send,
        };
        for op in [Some(first), sending.then_some(send)].into_iter().flatten() {
            self.cancel(token, op);
        }
    }

    fn cancel(&mut self, token: Token, op: Op) {
        let target = CancelBuilder::user_data(user_data(op, token));
        let entry = opcode::AsyncCancel2::new(target)
            .build()
            .flags(Flags::SKIP_SUCCESS)
            .user_data(user_data(Op::Cancel, token));
        self.push(&entry);
    }

    /// Frees the entry of a closed socket once the kernel has reported all its operations.
    fn finish(&mut self, index: u32, event: Option<SocketEvent>) -> Option<Completion> {
        let socket = &self.sockets[index as usize];
        let token = Token {
            index,
            generation: socket.generation,
        };
        if socket.state == State::Closing && socket.in_flight == 0 {
            self.release(index);
            return None;
        }
        let key = socket.key;
        event.map(|event| Completion {
            key,
            token,
            at_ns: self.taken_ns,
            event,
        })
    }

    /// Takes completions, without handing them out, until nothing is in flight.
    fn reap(&mut self, until_ns: u64) {
        while self.in_flight > 0 && monotonic_ns() < until_ns {
            if self.enter(Some(until_ns), monotonic_ns()).is_err() {
                return;
            }
            let mut reported = std::mem::take(&mut self.backlog);
            reported.extend(self.ring.completion());
            for entry in reported {
                let op = op_of(entry.user_data());
                let is_counted = !matches!(op, Some(Op::QuietSend | Op::Cancel | Op::SetOption));
                if is_counted && !cqueue::more(entry.flags()) {
                    self.in_flight -= 1;
                }
                let index = token_of(entry.user_data()).index;
                let is_closing = self.sockets[index as usize].state == State::Closing;
                match op {
                    Some(Op::Send) if is_closing => drop(self.on_send(index, entry.result())),
                    Some(Op::SendDatagrams) if is_closing => {
                        drop(self.on_datagrams_sent(index, entry.result()));
                    }
                    _ => {}
                }
            }
        }
    }
}

impl Sending {
    fn is_whole(&self) -> bool {
        self.sent == self.payload.length()
    }
}

/// Whether the socket has no room for a last message, or the message was cancelled while it waited.
fn is_full(result: i32) -> bool {
    matches!(-result, libc::EAGAIN | libc::ECANCELED)
}

impl SendingDatagrams {
    fn boxed() -> Box<Self> {
        Box::new(Self {
            message: DatagramMessage::new(),
            progress: Progress::default(),
            to: VecDeque::new(),
            closes_afterwards: false,
        })
    }
}

impl TimestampedMessage {
    fn boxed() -> Box<Self> {
        Box::new(Self {
            header: socket::control_message(CONTROL_BYTES),
            part: libc::iovec {
                iov_base: std::ptr::null_mut(),
                iov_len: 0,
            },
            control: [0; CONTROL_BYTES],
        })
    }

    /// The header of a message of this length, which the kernel writes to a buffer of its choice or
    /// discards.
    fn prepare(&mut self, length: usize) -> *mut libc::msghdr {
        self.part.iov_len = length;
        self.header = socket::control_message(CONTROL_BYTES);
        self.header.msg_iov = &raw mut self.part;
        self.header.msg_iovlen = 1;
        self.header.msg_control = self.control.as_mut_ptr().cast();
        &raw mut self.header
    }

    /// The control data of the message that has arrived.
    #[allow(
        clippy::unnecessary_cast,
        reason = "the length of control data has 32 bits with musl"
    )]
    fn control_data(&self) -> &[u8] {
        let length = self.header.msg_controllen as usize;
        &self.control[..length.min(CONTROL_BYTES)]
    }
}

impl Socket {
    fn empty() -> Self {
        Self {
            generation: 0,
            key: 0,
            state: State::Free,
            connected_ns: None,
            in_flight: 0,
            address: None,
            sending: None,
            queue: VecDeque::new(),
            quiet_batch: 0,
            quiet_settled: true,
            quiet: (SharedBytes(0), 0, 0),
            arm_batch: 0,
            held: false,
            receive_op: Op::Receive,
            descriptor: None,
            out_of_order: OutOfOrder::default(),
            is_tcp: false,
            discard_bytes: 0,
            expected: Expected::Anything,
            armed: Armed::No,
            message: None,
            datagrams: None,
            shutdown_after_queue: false,
            listener: None,
        }
    }
}

impl EventLoop for Uring {
    fn now_ns(&self) -> u64 {
        monotonic_ns()
    }

    fn share(&mut self, bytes: impl Into<Arc<[u8]>>) -> SharedBytes {
        self.shared.push(bytes.into());
        SharedBytes(self.shared.len() as u32 - 1)
    }

    fn adopt(&mut self, key: u32, socket: OwnedFd) -> io::Result<Token> {
        let token = self
            .insert(key, State::Open, Some(&socket))
            .map_err(io::Error::from_raw_os_error)?;
        self.arm_receive(token);
        Ok(token)
    }

    fn connect(&mut self, key: u32, address: &Address, options: &SocketOptions) -> Token {
        let opened = KernelAddress::new(address).and_then(|kernel_address| {
            let (fd, timestamped) = socket::open(address, options)?;
            Ok((kernel_address, fd, timestamped))
        });
        let (kernel_address, fd, timestamped) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.fail_connect(key, error),
        };
        let token = match self.insert(key, State::Connecting, Some(&fd)) {
            Ok(token) => token,
            Err(error) => return self.fail_connect(key, error),
        };
        let kernel_address = Box::new(kernel_address);
        let (pointer, length) = (kernel_address.as_ptr(), kernel_address.len());
        let entry = opcode::Connect::new(Fixed(token.index), pointer, length).build();
        let timestamped = timestamped && self.start_timestamping().is_some();
        let socket = &mut self.sockets[token.index as usize];
        socket.address = Some(kernel_address);
        socket.is_tcp = matches!(address, Address::Tcp(_));
        if timestamped {
            socket.receive_op = Op::ReceiveTimestamped;
        }
        if (timestamped || options.path) && socket.is_tcp {
            socket.descriptor = Some(fd);
        }
        self.push_counted(token, Op::Connect, entry);
        self.submit_connect(token);
        token
    }

    fn connect_datagrams(
        &mut self,
        key: u32,
        address: SocketAddr,
        options: &SocketOptions,
    ) -> Token {
        match self.open_datagrams(key, address, options) {
            Ok(token) => {
                self.arm_receive(token);
                self.push_ready(key, token, SocketEvent::Connected);
                token
            }
            Err(error) => self.fail_connect(key, error),
        }
    }

    fn send(&mut self, token: Token, payload: Payload) {
        let Some(socket) = self.live(token) else {
            return;
        };
        debug_assert_eq!(
            socket.receive_op == Op::ReceiveDatagrams,
            matches!(payload, Payload::Datagrams { .. })
        );
        let clear =
            socket.state == State::Open && socket.sending.is_none() && socket.queue.is_empty();
        if clear && !self.must_hold(&self.sockets[token.index as usize]) {
            self.start_send(token, payload);
            return;
        }
        let socket = &mut self.sockets[token.index as usize];
        socket.queue.push_back(payload);
        if socket.state == State::Open {
            self.send_next(token);
        }
    }

    fn discard(&mut self, token: Token, bytes: u64) {
        let Some(socket) = self.live(token).filter(|socket| socket.is_tcp) else {
            return;
        };
        socket.discard_bytes = bytes;
        socket.expected = Expected::Long;
        if socket.armed == Armed::Multishot {
            socket.armed = Armed::Cancelled;
            let op = socket.receive_op;
            self.cancel(token, op);
        }
    }

    fn shutdown_send(&mut self, token: Token) {
        let Some(socket) = self.live(token) else {
            return;
        };
        if socket.receive_op == Op::ReceiveDatagrams {
            return;
        }
        socket.shutdown_after_queue = true;
        if socket.state == State::Open {
            self.send_next(token);
        }
    }

    fn close(&mut self, token: Token, mode: CloseMode) {
        let Some(key) = self.live(token).map(|socket| socket.key) else {
            return;
        };
        if mode == CloseMode::Graceful && self.sockets[token.index as usize].held {
            // Sends what is held back. An error recurs in `wait`, which reports it.
            let _ = self.flush_held();
        }
        if mode == CloseMode::Abort {
            let entry = opcode::SetSockOpt::new(
                Fixed(token.index),
                libc::SOL_SOCKET as u32,
                libc::SO_LINGER as u32,
                (&raw const socket::LINGER_ZERO).cast(),
                size_of::<libc::linger>() as u32,
            )
            .build()
            .flags(Flags::SKIP_SUCCESS)
            .user_data(user_data(Op::SetOption, token));
            self.push(&entry);
        }
        self.start_close(token, mode);
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
        self.end_loan();
        loop {
            while let Some(completion) = self.ready.pop_front() {
                self.is_from_ready = true;
                let last = matches!(
                    completion.event,
                    SocketEvent::Closed | SocketEvent::ConnectFailed(_)
                );
                if last || self.live(completion.token).is_some() {
                    return Some(completion);
                }
            }
            self.is_from_ready = false;
            let entry = match self.backlog.pop_front() {
                Some(entry) => entry,
                None => {
                    let entry = self.ring.completion().next();
                    if entry.is_none() {
                        self.seen_batch = self.batch.wrapping_sub(1);
                    }
                    entry?
                }
            };
            let completion = self.on_completion(&entry);
            if completion.is_some() {
                return completion;
            }
        }
    }

    fn submit(&mut self) {
        self.submitted_ns = monotonic_ns();
        // What was there before this call was counted as found.
        self.handled_sends += self.continue_sends();
        loop {
            // The error recurs in `wait`.
            let _ = self.submit_queued();
            if self.continue_sends() == 0 || self.ring.submission().is_empty() {
                break;
            }
        }
        // Completions that this call brought arrived after the previous wait.
        self.taken_ns = monotonic_ns();
    }

    fn queues_sends(&self) -> bool {
        true
    }

    fn submitted_ns(&self) -> u64 {
        self.submitted_ns
    }

    fn found(&mut self) -> usize {
        self.handled_sends + self.backlog.len() + self.ring.completion().len()
    }

    /// What [`Self::submit`] has handled, which is mostly sends, did not wait in the kernel.
    #[inline]
    fn was_found(&self, _event: &SocketEvent) -> bool {
        !self.is_from_ready
    }

    /// The kernel completes at most 20 receives in one call (`IO_LOCAL_TW_DEFAULT_MAX` in
    /// io_uring/io_uring.c, since Linux 6.13), and says that others are to come.
    fn has_more(&mut self) -> bool {
        self.ring.submission().taskrun()
    }

    fn poll_until(&mut self, until_ns: u64) {
        self.poll_until_ns = until_ns;
    }

    fn sleep_error_ns(&self) -> u64 {
        self.sleep_margin.lateness_ns()
    }

    fn received(&self) -> &[u8] {
        let Some(loan) = &self.lent else {
            return &[];
        };
        let receives = match loan.op {
            Op::ReceiveTimestamped => &self.timestamped_receives,
            Op::ReceiveDatagrams => &self.datagram_receives,
            _ => return self.buffers.bytes(loan.buffer, loan.len),
        };
        match receives {
            Some(receives) => receives.buffers.bytes(loan.buffer, loan.len),
            None => &[],
        }
    }

    fn received_segment(&self) -> Option<usize> {
        let (control, length) = self.lent_control()?;
        Some(datagrams::segment_bytes(control, length))
    }

    fn received_drops(&self) -> u32 {
        self.lent_control()
            .map_or(0, |(control, _)| datagrams::dropped(control))
    }

    fn receive_delay_ns(&self) -> Option<u64> {
        self.delay_ns
    }

    fn tcp_path(&mut self, token: Token) -> Option<TcpPath> {
        let socket = self.live(token).filter(|socket| socket.is_tcp)?;
        socket::tcp_path(socket.descriptor.as_ref()?.as_raw_fd())
    }
}

impl Acceptor for Uring {
    fn listen(&mut self, key: u32, listener: OwnedFd) -> io::Result<()> {
        let token = self
            .insert(key, State::Listening, None)
            .map_err(io::Error::from_raw_os_error)?;
        self.sockets[token.index as usize].listener = Some(listener);
        self.arm_accept(token);
        Ok(())
    }

    fn listen_datagrams(&mut self, key: u32, socket: OwnedFd) -> io::Result<Token> {
        socket::prepare_listening(&socket)?;
        let placed = self
            .start_receiving_datagrams()
            .and_then(|()| self.insert(key, State::Open, Some(&socket)));
        let token = placed.map_err(io::Error::from_raw_os_error)?;
        self.sockets[token.index as usize].receive_op = Op::ReceiveDatagrams;
        self.arm_receive(token);
        Ok(token)
    }

    fn send_to(&mut self, token: Token, to: SocketAddr, buffer: Vec<u8>, segment: u16) {
        let Some(socket) = self.live(token) else {
            return;
        };
        let sending = socket.datagrams.get_or_insert_with(SendingDatagrams::boxed);
        sending.to.push_back(to);
        self.send(token, Payload::Datagrams { buffer, segment });
    }

    fn received_from(&self) -> Option<SocketAddr> {
        let loan = self.lent.as_ref()?;
        let receives = self.datagram_receives.as_ref()?;
        if loan.op != Op::ReceiveDatagrams {
            return None;
        }
        let head = receives.buffers.head(loan.buffer);
        socket::address_in(head.get(MESSAGE_HEAD_BYTES..)?)
    }
}

impl Drop for Uring {
    /// The kernel may still write to our buffers and read from lent ones, so nothing is freed
    /// before all operations have ended.
    fn drop(&mut self) {
        self.end_loan();
        self.to_arm.clear();
        self.ready.clear();
        for index in 0..self.sockets.len() as u32 {
            let socket = &self.sockets[index as usize];
            let token = Token {
                index,
                generation: socket.generation,
            };
            self.cancel_in_flight(token);
        }
        self.reap(monotonic_ns() + DROP_WAIT_NS_MAX);
        if self.in_flight > 0 {
            // Slow, and not expected to find anything.
            let timeout = Timespec::new().sec(1);
            let everything = CancelBuilder::any().all();
            let _ = self
                .ring
                .submitter()
                .register_sync_cancel(Some(timeout), everything);
            self.reap(monotonic_ns() + DROP_WAIT_NS_MAX);
        }
        if self.in_flight > 0 {
            // Never observed. Leaking is the safe way out.
            self.buffers.leak();
            let timestamped = self.timestamped_receives.take();
            for mut receives in timestamped.into_iter().chain(self.datagram_receives.take()) {
                receives.buffers.leak();
                std::mem::forget(receives.message);
            }
            std::mem::forget(std::mem::take(&mut self.sockets));
            std::mem::forget(std::mem::take(&mut self.shared));
        }
    }
}

/// The receive buffers, and the ring that passes them to the kernel
/// (io_uring_register_buf_ring(3)).
struct Buffers {
    entries: Option<Mapping>,
    memory: Option<Mapping>,
    /// Length of what the kernel puts before the bytes.
    head_bytes: usize,
    /// Length including the head.
    buffer_bytes: usize,
    /// Distance from the start of one buffer to the next.
    stride: usize,
    mask: u16,
    tail: u16,
}

impl Buffers {
    /// `count` must be a power of two.
    fn register(
        ring: &IoUring,
        group: u16,
        count: u16,
        head_bytes: usize,
        receive_buffer_bytes: usize,
    ) -> io::Result<Self> {
        let buffer_bytes = head_bytes + receive_buffer_bytes;
        let entries = Mapping::new(usize::from(count) * size_of::<BufRingEntry>())?;
        let stride = buffer_bytes + STAGGER_BYTES;
        let memory = Mapping::new(usize::from(count) * stride)?;
        // SAFETY: the memory is a new mapping of the right size. It is freed only after all
        // operations have ended (`Drop` of `Uring`).
        unsafe {
            let address = entries.start() as u64;
            ring.submitter()
                .register_buf_ring_with_flags(address, count, group, 0)?;
        }
        let mut this = Self {
            entries: Some(entries),
            memory: Some(memory),
            head_bytes,
            buffer_bytes,
            stride,
            mask: count - 1,
            tail: 0,
        };
        for buffer in 0..count {
            this.give_back(buffer);
        }
        Ok(this)
    }

    fn give_back(&mut self, buffer: u16) {
        let (Some(entries), Some(memory)) = (&self.entries, &self.memory) else {
            return;
        };
        let base = entries.start().cast::<BufRingEntry>();
        let position = usize::from(self.tail & self.mask);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `position` is below the number of entries, and `buffer` is below the number of
        // buffers. The kernel does not read an entry before it is covered by the tail, which is
        // stored last with release order. The tail lies in the reserved field of the first entry,
        // which the setters do not touch.
        unsafe {
            let entry = &mut *base.add(position);
            entry.set_addr(memory.start().add(usize::from(buffer) * self.stride) as u64);
            entry.set_len(self.buffer_bytes as u32);
            entry.set_bid(buffer);
            let tail = BufRingEntry::tail(base).cast_mut().cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }

    /// What the kernel has put before the bytes.
    fn head(&self, buffer: u16) -> &[u8] {
        self.part(buffer, 0, self.head_bytes)
    }

    fn bytes(&self, buffer: u16, len: usize) -> &[u8] {
        self.part(buffer, self.head_bytes, len)
    }

    fn part(&self, buffer: u16, start: usize, len: usize) -> &[u8] {
        let Some(memory) = &self.memory else {
            return &[];
        };
        // SAFETY: the kernel has filled this buffer and does not write to it until it is returned,
        // which ends the loan that this slice is part of.
        unsafe { memory.slice(usize::from(buffer) * self.stride + start, len) }
    }

    fn leak(&mut self) {
        std::mem::forget((self.entries.take(), self.memory.take()));
    }
}

/// The control data in the head of a message, at the length stated by the kernel, behind the room
/// for the name.
fn control_data(head: &[u8], name_bytes: usize) -> &[u8] {
    const LENGTH_AT: usize = size_of::<u32>();
    let length = head
        .get(LENGTH_AT..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |bytes| u32::from_ne_bytes(*bytes) as usize);
    let room = head
        .get(MESSAGE_HEAD_BYTES + name_bytes..)
        .unwrap_or_default();
    &room[..length.min(room.len())]
}

fn build_ring(options: &LoopOptions) -> io::Result<IoUring> {
    let completions = (options.sockets * 4)
        .next_power_of_two()
        .clamp(4096, 32_768);
    let attempt = |modern: bool, newest: bool| {
        let mut builder = IoUring::builder();
        builder
            .setup_cqsize(completions)
            .setup_clamp()
            .setup_submit_all()
            // Shows whether there is something to take (`has_more`, `spin`).
            .setup_taskrun_flag();
        if modern {
            builder.setup_single_issuer().setup_defer_taskrun();
        } else {
            builder.setup_coop_taskrun();
        }
        if newest {
            builder.setup_no_sqarray();
        }
        builder.build(SUBMISSION_ENTRIES)
    };
    let refused = |error: &io::Error, code| error.raw_os_error() == Some(code);
    // NO_SQARRAY is from Linux 6.6, DEFER_TASKRUN from 6.1, COOP_TASKRUN from 5.19.
    let build = || match attempt(true, true) {
        Err(error) if refused(&error, libc::EINVAL) => match attempt(true, false) {
            Err(error) if refused(&error, libc::EINVAL) => attempt(false, false),
            other => other,
        },
        other => other,
    };
    let mut ring = build();
    // The kernel frees closed rings in the background. Until then their memory counts against the
    // limit of the user (RLIMIT_MEMLOCK).
    for _ in 0..FREEING_PAUSES_MAX {
        if !ring
            .as_ref()
            .is_err_and(|error| refused(error, libc::ENOMEM))
        {
            break;
        }
        std::thread::park_timeout(FREEING_PAUSE);
        ring = build();
    }
    let ring = ring.map_err(|error| explain(error, "setting up a ring"))?;
    if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
        return Err(io::Error::other(
            "this kernel's io_uring is too old (needs Linux 6.0)",
        ));
    }
    Ok(ring)
}

/// Explains the usual errors of the setup in words.
fn explain(error: io::Error, doing: &str) -> io::Error {
    let reason = match error.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel has no io_uring".to_owned(),
        Some(libc::EPERM | libc::EACCES) => {
            match std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled") {
                Ok(value) if value.trim() != "0" => {
                    format!("forbidden by kernel.io_uring_disabled = {}", value.trim())
                }
                _ => "forbidden, probably by seccomp (as containers often do)".to_owned(),
            }
        }
        Some(libc::ENOMEM) => "not enough lockable memory (ulimit -l)".to_owned(),
        Some(libc::EINVAL) => format!("{doing} is not supported by this kernel"),
        _ => format!("{doing} failed: {error}"),
    };
    io::Error::new(error.kind(), reason)
}

/// Whether submission `a` comes after `b`. The counter may have wrapped in between.
const fn is_later(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

fn user_data(op: Op, token: Token) -> u64 {
    (op as u64) << 56 | u64::from(token.generation & GENERATION_MASK) << 32 | u64::from(token.index)
}

fn token_of(user_data: u64) -> Token {
    Token {
        index: user_data as u32,
        generation: (user_data >> 32) as u32 & GENERATION_MASK,
    }
}

fn op_of(user_data: u64) -> Option<Op> {
    const OPS: [Op; 14] = [
        Op::Connect,
        Op::Receive,
        Op::Send,
        Op::QuietSend,
        Op::Shutdown,
        Op::SetOption,
        Op::Cancel,
        Op::Close,
        Op::Accept,
        Op::ReceiveTimestamped,
        Op::ReceiveOnce,
        Op::Discard,
        Op::ReceiveDatagrams,
        Op::SendDatagrams,
    ];
    let number = (user_data >> 56) as usize;
    OPS.get(number.wrapping_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_refuses_segments_gets_datagrams_one_by_one_from_then_on() {
        // Without the backend, the conformance suite says that it is skipped.
        let Ok(()) = Uring::probe() else { return };
        let peer = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback works");
        let address = peer.local_addr().expect("it is bound");
        let mut io = Uring::new(&LoopOptions::default()).expect("the probe succeeded");
        let options = SocketOptions::default();
        let (fd, _) = socket::open_datagrams(address, &options).expect("a socket");
        socket::refuse_segments(fd.as_raw_fd());
        io.start_receiving_datagrams().expect("buffers");
        let token = io.insert(1, State::Open, Some(&fd)).expect("a place");
        io.sockets[token.index as usize].receive_op = Op::ReceiveDatagrams;
        io.arm_receive(token);
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
