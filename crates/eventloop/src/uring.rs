//! The io_uring backend.
//!
//! - Receiving: one multishot receive for each socket, into buffers that the kernel picks from a
//!   registered ring (Linux 6.0). A buffer goes back as soon as the caller asks for the next completion.
//! - Bytes that the caller does not want are discarded by a receive of their own, as long as they are
//!   and with `MSG_TRUNC`. Such a socket is taken off multishot receiving, and has the beginning of the
//!   next message read by a single short receive: a multishot one would already have copied the rest.
//! - A socket with stamps receives messages instead, also multishot, into buffers of their own: the
//!   kernel puts the control data before the bytes.
//! - Sending shared bytes is *quiet*: the kernel reports only failures, so a request costs one
//!   submission entry and no completion. `MSG_DONTWAIT` makes a full socket such a failure; what is
//!   left is then sent by a *reported* send, which waits for room. Owned buffers are always reported.
//! - Sockets live in the ring's file table only; submissions are batched with the wait.
//!
//! Order of quiet sends: entries of one submission are carried out in order, and their failures are
//! posted before anything that the wait of the same system call brings. So by the time the caller
//! sees an answer, a failure of the send before it has been seen too; so it has when the caller has
//! taken all completions. Until one of the two, a further send of the same socket could overtake the
//! rest of the one before: it is held back (`Uring::flush_held`).
#![allow(
    unsafe_code,
    reason = "submission entries point to memory that must outlive them"
)]

use crate::aim::Aim;
use crate::limits::open_file_limit;
use crate::region::Region;
use crate::socket::{self, KernelAddress};
use crate::stamps::{CONTROL_BYTES, Stamps};
use crate::{
    Acceptor, Address, BEGINNING_BYTES, CloseMode, Completion, EventLoop, Expected, LoopOptions,
    Outcome, Payload, SharedBytes, SocketOptions, Token, monotonic_ns,
};
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{BufRingEntry, CancelBuilder, Fixed, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU16, Ordering};

/// See the module's text.
pub struct Uring {
    ring: IoUring,
    buffers: Buffers,
    receive_buffer_bytes: usize,
    /// There once a socket has wanted stamps.
    stamping: Option<Stamping>,
    sockets: Vec<Socket>,
    free: Vec<u32>,
    /// Size of the registered file table; socket indexes stay below it.
    table_size: u32,
    shared: Vec<Box<[u8]>>,
    /// Completions that are known without asking the kernel.
    ready: VecDeque<Completion>,
    /// Kernel completions taken out of turn by [`Self::flush_held`].
    backlog: VecDeque<cqueue::Entry>,
    /// Sockets with sends held back until the current submission is through.
    held: Vec<Token>,
    /// Sockets whose receive has ended, with something or for want of buffers; the next one is started
    /// when the caller has seen everything and buffers are back.
    to_arm: Vec<Token>,
    /// Counts submissions: the number of the one that is being filled.
    batch: u32,
    /// Failures of quiet sends have been seen up to this submission.
    seen_batch: u32,
    /// The last submission made while older completions waited to be taken.
    crowded_batch: u32,
    /// Operations the kernel still has to report, over all sockets.
    in_flight: u64,
    /// What is lent to the caller.
    lent: Option<Loan>,
    /// How long the bytes of the last completion had been with the kernel.
    delay_ns: Option<u64>,
    /// When the current completions were taken from the kernel.
    taken_ns: u64,
    aim: Aim,
    /// Until then waits do not sleep.
    poll_until_ns: u64,
}

/// A filled buffer in the hands of the caller.
struct Loan {
    op: Op,
    buffer: u16,
    len: usize,
}

/// Receiving with stamps: the kernel puts a head before the bytes, so that the buffers are longer, and
/// their own.
struct Stamping {
    buffers: Buffers,
    /// Says how long the control data may be; the kernel reads it when a receive is submitted.
    message: Box<libc::msghdr>,
    stamps: Stamps,
}

/// What a single receive with stamps needs, at a fixed place in memory.
struct StampedMessage {
    header: libc::msghdr,
    part: libc::iovec,
    control: [u8; CONTROL_BYTES],
}

struct Socket {
    generation: u32,
    key: u32,
    state: State,
    /// When the kernel had connected it, if it did so at once.
    connected_ns: Option<u64>,
    /// Operations the kernel still has to report for this socket.
    in_flight: u32,
    /// Kernel address while connecting; the kernel reads it when the entry is submitted.
    address: Option<Box<KernelAddress>>,
    /// The send that the kernel is carrying out and will report.
    sending: Option<Sending>,
    /// Sends waiting for it, in order.
    queue: VecDeque<Payload>,
    /// The submission in which the last quiet send went, whether its failure would have been seen
    /// by now, and what it was.
    quiet_batch: u32,
    quiet_settled: bool,
    quiet: (SharedBytes, usize, usize),
    /// The submission in which the receive was last started.
    arm_batch: u32,
    held: bool,
    /// How it receives: with or without stamps.
    receive_op: Op,
    /// Only TCP can discard.
    is_tcp: bool,
    /// Bytes that come next and are not wanted.
    discard_bytes: u64,
    expected: Expected,
    /// The receive that the kernel carries out.
    armed: Armed,
    /// For single receives of a socket with stamps.
    message: Option<Box<StampedMessage>>,
    shutdown_after_queue: bool,
    /// The listening descriptor; listeners are not in the file table.
    listener: Option<OwnedFd>,
}

/// A receive on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Armed {
    /// None, or one that has ended.
    No,
    /// Reports again and again.
    Multishot,
    /// As before, and it has been cancelled.
    Cancelled,
    /// Ends when something has come.
    Once,
    /// Ends when something has been discarded.
    Discard,
}

struct Sending {
    payload: Payload,
    sent: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Connecting,
    Open,
    Listening,
    Closing,
}

/// What a completion belongs to; stands in the top byte of the user data.
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
    ReceiveStamped,
    ReceiveOnce,
    Discard,
}

/// Generations are compared in the 24 bits that fit into the user data.
const GENERATION_MASK: u32 = 0x00ff_ffff;
const BUFFER_GROUP: u16 = 0;
const STAMPED_BUFFER_GROUP: u16 = 1;
/// Few sockets receive with stamps.
const STAMPED_BUFFERS: u16 = 32;
/// What stands before the bytes of a multishot receive of a message: `struct io_uring_recvmsg_out`
/// (io_uring_prep_recvmsg_multishot(3)) - four numbers of 32 bits, which are the lengths of name,
/// control data and payload, and flags -, no name, and the control data at their full length.
const MESSAGE_HEAD_BYTES: usize = 16;
const STAMPED_HEAD_BYTES: usize = MESSAGE_HEAD_BYTES + CONTROL_BYTES;
/// Entries that can be queued before the kernel must be called.
const SUBMISSION_ENTRIES: u32 = 1024;
/// Places in the file table, however few sockets are expected.
const TABLE_SIZE_MIN: u32 = 65_536;
/// Buffers start this much further apart than they are long. Distances of a power of two would put
/// the first lines of all buffers, often the only ones used, into the same few sets of the caches.
const STAGGER_BYTES: usize = 13 * 64;
/// Longest wait for cancelled operations when the loop is dropped.
const DROP_PATIENCE_NS: u64 = 200_000_000;

impl Uring {
    /// Makes a loop for the calling thread; it must be used and dropped there.
    ///
    /// # Errors
    /// When the kernel forbids io_uring or lacks what is needed here; the text says which.
    pub fn new(options: &LoopOptions) -> io::Result<Self> {
        let ring = build_ring(options)?;
        // Twice the sockets expected: a closed socket keeps its place until the kernel has
        // reported the last of it, while its successor is connecting already. The table cannot
        // grow, so it has room for many more than expected: a place costs the kernel 8 bytes.
        let wished = options.sockets.saturating_mul(2).max(TABLE_SIZE_MIN);
        let table_size = wished.min(open_file_limit());
        ring.submitter()
            .register_files_sparse(table_size)
            .map_err(|error| explain(error, "registering the file table"))?;
        // One wait brings a few dozen receives on recent kernels, which limit the work done at a time,
        // and their buffers are given back before the next. Running dry, as may happen on older
        // ones, costs a new receive, not data.
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
            stamping: None,
            sockets: Vec::with_capacity(capacity),
            free: Vec::with_capacity(capacity),
            table_size,
            shared: Vec::new(),
            ready: VecDeque::new(),
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
            aim: Aim::new(options.spin_ns),
            poll_until_ns: 0,
        })
    }

    /// Whether this kernel lets this process use the backend.
    ///
    /// # Errors
    /// Says why not.
    pub fn probe() -> io::Result<()> {
        // On a thread of its own: when a ring goes away the kernel interrupts the thread that made
        // it, and blocking calls there would end with EINTR.
        let probing = std::thread::spawn(|| {
            let mut this = Self::new(&LoopOptions {
                sockets: 1,
                ..LoopOptions::default()
            })?;
            this.probe_multishot()
        });
        probing
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("probing io_uring failed")))
    }

    /// Multishot receive (Linux 6.0) cannot be seen from the list of operations: an older kernel
    /// takes the entry and fails it with EINVAL.
    fn probe_multishot(&mut self) -> io::Result<()> {
        use std::io::Write;
        let (mut near, far) = std::os::unix::net::UnixStream::pair()?;
        self.adopt(0, OwnedFd::from(far))?;
        near.write_all(b"x")?;
        self.wait(Some(monotonic_ns() + 1_000_000_000))?;
        match self.next().map(|completion| completion.outcome) {
            Some(Outcome::Received(1)) => Ok(()),
            other => Err(io::Error::other(format!(
                "multishot receive does not work here (needs Linux 6.0): {other:?}"
            ))),
        }
    }

    fn insert(&mut self, key: u32, state: State, fd: Option<OwnedFd>) -> Result<Token, i32> {
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
            && let Err(error) = self.place(index, &fd)
        {
            self.release(index);
            return Err(error);
        }
        Ok(token)
    }

    /// Puts a descriptor into the file table; the table's reference is the only one that stays.
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
        // The queue's memory is kept for the next socket.
        let mut queue = std::mem::take(&mut socket.queue);
        queue.clear();
        *socket = Socket {
            generation,
            queue,
            ..Socket::empty()
        };
        self.free.push(index);
    }

    fn live(&mut self, token: Token) -> Option<&mut Socket> {
        self.sockets.get_mut(token.index as usize).filter(|socket| {
            socket.generation == token.generation
                && !matches!(socket.state, State::Free | State::Closing)
        })
    }

    fn push(&mut self, entry: &Entry) {
        // SAFETY: whatever the entry points to lives until its completion: shared bytes as long as
        // the loop, owned buffers and addresses in the socket's entry, which is not reused before the
        // kernel has reported all its operations (`in_flight`).
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            // The queue is full. The kernel refuses to take more while completions wait (EBUSY,
            // EAGAIN); other errors come again in `wait`, which reports them.
            if self.submit().is_err() {
                self.backlog.extend(self.ring.completion());
            }
        }
    }

    fn push_counted(&mut self, token: Token, op: Op, entry: Entry) {
        self.sockets[token.index as usize].in_flight += 1;
        self.in_flight += 1;
        self.push(&entry.user_data(user_data(op, token)));
    }

    fn submit(&mut self) -> io::Result<usize> {
        self.begin_submission();
        self.ring.submit()
    }

    /// Submits at once, so that the time between the caller's clock and the kernel's work is not counted as
    /// the server's. On loopback the connection stands when that is done.
    fn submit_connect(&mut self, token: Token) {
        self.begin_submission();
        if self.submit_and_look().is_err() {
            // What is wrong comes again in `wait`, which reports it.
            return;
        }
        let at_ns = monotonic_ns();
        // What else has come with it came after the wait before.
        self.taken_ns = at_ns;
        let connect = user_data(Op::Connect, token);
        for entry in self.ring.completion() {
            if entry.user_data() == connect {
                self.sockets[token.index as usize].connected_ns = Some(at_ns);
            }
            self.backlog.push_back(entry);
        }
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
        let entry = match (op, &self.stamping) {
            (Op::ReceiveStamped, Some(stamping)) => {
                let message = &raw const *stamping.message;
                opcode::RecvMsgMulti::new(fd, message, STAMPED_BUFFER_GROUP).build()
            }
            _ => opcode::RecvMulti::new(fd, BUFFER_GROUP).build(),
        };
        self.push_counted(token, op, entry);
        let socket = &mut self.sockets[token.index as usize];
        socket.armed = Armed::Multishot;
        // Afterwards, since a full queue makes `push` submit.
        socket.arm_batch = self.batch;
    }

    /// Starts receives again that have ended.
    fn arm_again(&mut self) {
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

    /// Starts a receive that ends when something has come, to be handed out or discarded.
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
        let is_stamped = socket.receive_op == Op::ReceiveStamped;
        let entry = if is_stamped {
            let message = socket.message.get_or_insert_with(StampedMessage::boxed);
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
        let entry = match discards {
            true => entry,
            false => entry.flags(Flags::BUFFER_SELECT),
        };
        self.push_counted(token, op, entry);
        // It follows all sends of its submission: what it brings is news of the time after them.
        self.sockets[token.index as usize].arm_batch = self.batch.wrapping_sub(1);
    }

    fn push_ready(&mut self, key: u32, token: Token, outcome: Outcome) {
        self.ready.push_back(Completion {
            key,
            token,
            at_ns: monotonic_ns(),
            outcome,
        });
    }

    /// Whether a further send of this socket could overtake one whose failure is not known yet.
    fn must_hold(&self, socket: &Socket) -> bool {
        socket.held || (!socket.quiet_settled && is_later(socket.quiet_batch, self.seen_batch))
    }

    /// The kernel has told something about receiving on this socket. It did so after it had carried
    /// out the quiet send before, unless the two went together or the news is older than the send.
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
                // Afterwards, since a full queue makes `push` submit.
                let socket = &mut self.sockets[token.index as usize];
                socket.quiet_batch = self.batch;
                socket.quiet_settled = false;
            }
            Payload::Owned(_) => self.start_reported_send(token, Sending { payload, sent: 0 }),
        }
    }

    fn start_reported_send(&mut self, token: Token, sending: Sending) {
        let bytes = match &sending.payload {
            Payload::Shared { bytes, range } => &self.shared[bytes.0 as usize][range.clone()],
            Payload::Owned(bytes) => bytes.as_slice(),
        };
        let rest = &bytes[sending.sent..];
        // One entry carries at most 1 GiB (the length is 32 bits); the rest follows on completion.
        let len = rest.len().min(1 << 30) as u32;
        let entry = opcode::Send::new(Fixed(token.index), rest.as_ptr(), len)
            .flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
            .build();
        self.sockets[token.index as usize].sending = Some(sending);
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
            // FIN is held back like a send: it must not overtake the rest of a quiet one either.
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

    /// Sends what was held back: submits, sees whether the sends before it failed, goes on.
    fn flush_held(&mut self) -> io::Result<()> {
        while !self.held.is_empty() {
            self.submit()?;
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
        let Some(socket) = self.live_24(token) else {
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
                self.push_ready(key, socket, Outcome::SendFailed(-error));
                return;
            }
        };
        let payload = Payload::Shared {
            bytes,
            range: start..end,
        };
        self.start_reported_send(socket, Sending { payload, sent });
    }

    /// The full token of one whose generation came through user data.
    fn live_24(&self, token: Token) -> Option<Token> {
        let socket = self.sockets.get(token.index as usize)?;
        let same = socket.generation & GENERATION_MASK == token.generation;
        let live = same && !matches!(socket.state, State::Free | State::Closing);
        live.then_some(Token {
            index: token.index,
            generation: socket.generation,
        })
    }

    /// Gives the lent buffer back to the kernel.
    fn end_loan(&mut self) {
        self.delay_ns = None;
        if let Some(loan) = self.lent.take() {
            self.give_back(loan.op, loan.buffer);
        }
    }

    /// Gives a buffer back that the kernel took for this kind of receive.
    fn give_back(&mut self, op: Op, buffer: u16) {
        match (op, &mut self.stamping) {
            (Op::ReceiveStamped, Some(stamping)) => stamping.buffers.give_back(buffer),
            _ => self.buffers.give_back(buffer),
        }
    }

    /// Makes what receiving with stamps needs. A kernel that has nothing left for it stamps nothing.
    fn start_stamping(&mut self) -> Option<&Stamping> {
        if self.stamping.is_none() {
            let buffers = Buffers::register(
                &self.ring,
                STAMPED_BUFFER_GROUP,
                STAMPED_BUFFERS,
                STAMPED_HEAD_BYTES,
                self.receive_buffer_bytes,
            );
            self.stamping = Some(Stamping {
                buffers: buffers.ok()?,
                message: Box::new(socket::control_message(CONTROL_BYTES)),
                stamps: Stamps::start(),
            });
        }
        self.stamping.as_ref()
    }

    /// Submits and waits. Says whether it could sleep.
    fn enter(&mut self, until_ns: Option<u64>) -> io::Result<bool> {
        let busy = !self.ready.is_empty() || !self.backlog.is_empty();
        self.begin_submission();
        let timeout_ns = match until_ns {
            _ if busy => Some(0),
            Some(until) => Some(until.saturating_sub(monotonic_ns())),
            None => None,
        };
        let entered = match timeout_ns {
            None => self.ring.submit_and_wait(1),
            Some(0) => self.submit_and_look(),
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

    /// Submits and has the kernel report what has happened, without blocking: a wait with a timeout
    /// of zero would set a timer and give up the CPU.
    fn submit_and_look(&mut self) -> io::Result<usize> {
        let queued = self.ring.submission().len() as u32;
        let flags = EnterFlags::GETEVENTS.bits();
        let no_mask = None::<&libc::sigset_t>;
        // SAFETY: `queued` entries are there and were pushed under the rules of `push`; without an
        // argument the kernel reads no memory of ours beyond the ring.
        unsafe { self.ring.submitter().enter(queued, 0, flags, no_mask) }
    }

    /// Polls until the kernel has something to report or `until_ns` has come. Whether it has stands
    /// in memory (IORING_SETUP_TASKRUN_FLAG), so that looking costs no system call.
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
            Op::Receive | Op::ReceiveStamped | Op::ReceiveOnce | Op::Discard
        ) {
            return self.on_receive(op, token, entry);
        }
        let more = cqueue::more(entry.flags());
        let socket = &mut self.sockets[token.index as usize];
        if !more {
            socket.in_flight -= 1;
            self.in_flight -= 1;
        }
        let connected_ns = socket.connected_ns.take();
        let outcome = match op {
            Op::Connect => self.on_connect(token.index, entry.result()),
            Op::Send => self.on_send(token.index, entry.result()),
            Op::Accept => return self.on_accept(token.index, entry.result(), more),
            _ => None,
        };
        let completion = self.finish(token.index, outcome)?;
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
        // The head of a message comes at the end of the stream, too, with nothing behind it.
        let head_bytes = match op {
            Op::ReceiveStamped if result > 0 => STAMPED_HEAD_BYTES as i32,
            _ => 0,
        };
        let outcome = match result - head_bytes {
            len @ 1.. => {
                self.delay_ns = self.delay_ns(op, token.index, buffer);
                let socket = &mut self.sockets[index];
                socket.discard_bytes = socket.discard_bytes.saturating_sub(len as u64);
                if !more {
                    self.to_arm.push(full);
                }
                if op == Op::Discard {
                    Outcome::Discarded(len as u64)
                } else {
                    socket.expected = socket.expected.after_received();
                    self.lent = Some(Loan {
                        op,
                        buffer: buffer?,
                        len: len as usize,
                    });
                    Outcome::Received(len as usize)
                }
            }
            nothing => {
                if let Some(buffer) = buffer {
                    self.give_back(op, buffer);
                }
                match -nothing {
                    0 => Outcome::EndOfStream,
                    // No buffer was left, or `discard` has cancelled it.
                    error
                        if error == libc::ENOBUFS
                            || (error == libc::ECANCELED && armed == Armed::Cancelled) =>
                    {
                        self.to_arm.push(full);
                        return None;
                    }
                    error => Outcome::ReceiveFailed(error),
                }
            }
        };
        Some(Completion {
            key,
            token: full,
            at_ns: self.taken_ns,
            outcome,
        })
    }

    /// How old the stamp of received bytes is.
    fn delay_ns(&mut self, op: Op, index: u32, buffer: Option<u16>) -> Option<u64> {
        let stamping = self.stamping.as_mut()?;
        let control = match op {
            Op::ReceiveStamped => control_data(stamping.buffers.head(buffer?)),
            _ => {
                let message = self.sockets[index as usize].message.as_ref()?;
                message.control_data()
            }
        };
        stamping.stamps.delay_ns(control, self.taken_ns)
    }

    fn on_connect(&mut self, index: u32, result: i32) -> Option<Outcome> {
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
            // The token is dead from here on; the file table's entry is closed behind it.
            let key = socket.key;
            self.start_close(token);
            self.push_ready(key, token, Outcome::ConnectFailed(-result));
            return None;
        }
        socket.state = State::Open;
        self.arm_receive(token);
        self.send_next(token);
        Some(Outcome::Connected)
    }

    fn on_send(&mut self, index: u32, result: i32) -> Option<Outcome> {
        let socket = &mut self.sockets[index as usize];
        let mut sending = socket.sending.take()?;
        if socket.state != State::Open {
            return None;
        }
        let token = Token {
            index,
            generation: socket.generation,
        };
        if result < 0 && result != -libc::EINTR && result != -libc::EAGAIN {
            socket.queue.clear();
            return Some(Outcome::SendFailed(-result));
        }
        sending.sent += result.max(0) as usize;
        let len = match &sending.payload {
            Payload::Shared { range, .. } => range.len(),
            Payload::Owned(bytes) => bytes.len(),
        };
        if sending.sent < len {
            self.start_reported_send(token, sending);
            return None;
        }
        self.send_next(token);
        match sending.payload {
            Payload::Owned(buffer) => Some(Outcome::Sent(buffer)),
            Payload::Shared { .. } => None,
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
        // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(result) };
        if !open {
            return self.finish(index, None);
        }
        socket::set_nodelay(fd.as_raw_fd());
        let token = self.insert(key, State::Open, Some(fd)).ok()?;
        self.arm_receive(token);
        Some(Completion {
            key,
            token,
            at_ns: self.taken_ns,
            outcome: Outcome::Accepted,
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

    /// Cancels what is in flight and closes the file table's entry.
    fn start_close(&mut self, token: Token) {
        let socket = &mut self.sockets[token.index as usize];
        socket.state = State::Closing;
        socket.queue.clear();
        self.cancel_in_flight(token);
        let entry = opcode::Close::new(Fixed(token.index)).build();
        self.push_counted(token, Op::Close, entry);
    }

    /// Cancels one by one, by user data: the kernel finds those at once, while for everything of a
    /// socket, or of the ring, it searches all that is waiting, for each of them.
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
        for op in [Some(first), sending.then_some(Op::Send)]
            .into_iter()
            .flatten()
        {
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
    fn finish(&mut self, index: u32, outcome: Option<Outcome>) -> Option<Completion> {
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
        outcome.map(|outcome| Completion {
            key,
            token,
            at_ns: self.taken_ns,
            outcome,
        })
    }

    /// Takes completions for their own sake until nothing is in flight.
    fn reap(&mut self, until_ns: u64) {
        while self.in_flight > 0 && monotonic_ns() < until_ns {
            if self.enter(Some(until_ns)).is_err() {
                return;
            }
            let mut reported = std::mem::take(&mut self.backlog);
            reported.extend(self.ring.completion());
            let ended = reported.iter().filter(|entry| {
                !cqueue::more(entry.flags())
                    && !matches!(
                        op_of(entry.user_data()),
                        Some(Op::QuietSend | Op::Cancel | Op::SetOption)
                    )
            });
            self.in_flight -= ended.count() as u64;
        }
    }
}

impl StampedMessage {
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

    /// The header of a message of so many bytes, which the kernel puts into a buffer of its choice or
    /// nowhere.
    fn prepare(&mut self, length: usize) -> *mut libc::msghdr {
        self.part.iov_len = length;
        self.header = socket::control_message(CONTROL_BYTES);
        self.header.msg_iov = &raw mut self.part;
        self.header.msg_iovlen = 1;
        self.header.msg_control = self.control.as_mut_ptr().cast();
        &raw mut self.header
    }

    /// The control data of the message that has come.
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
            is_tcp: false,
            discard_bytes: 0,
            expected: Expected::Anything,
            armed: Armed::No,
            message: None,
            shutdown_after_queue: false,
            listener: None,
        }
    }
}

impl EventLoop for Uring {
    fn now_ns(&self) -> u64 {
        monotonic_ns()
    }

    fn share(&mut self, bytes: Vec<u8>) -> SharedBytes {
        self.shared.push(bytes.into_boxed_slice());
        SharedBytes(self.shared.len() as u32 - 1)
    }

    fn adopt(&mut self, key: u32, socket: OwnedFd) -> io::Result<Token> {
        let token = self
            .insert(key, State::Open, Some(socket))
            .map_err(io::Error::from_raw_os_error)?;
        self.arm_receive(token);
        Ok(token)
    }

    fn connect(&mut self, key: u32, address: &Address, options: &SocketOptions) -> Token {
        let opened = KernelAddress::new(address).and_then(|kernel_address| {
            let (fd, stamped) = socket::open(address, options)?;
            Ok((kernel_address, fd, stamped))
        });
        let failed = |this: &mut Self, error| {
            // A token of its own all the same: the failure is a completion like any other.
            let index = match this.insert(key, State::Connecting, None) {
                Ok(token) => token.index,
                Err(_) => 0,
            };
            let token = Token {
                index,
                generation: this.sockets[index as usize].generation,
            };
            this.release(index);
            this.push_ready(key, token, Outcome::ConnectFailed(error));
            token
        };
        let (kernel_address, fd, stamped) = match opened {
            Ok(opened) => opened,
            Err(error) => return failed(self, error),
        };
        let token = match self.insert(key, State::Connecting, Some(fd)) {
            Ok(token) => token,
            Err(error) => return failed(self, error),
        };
        let kernel_address = Box::new(kernel_address);
        let (pointer, length) = (kernel_address.as_ptr(), kernel_address.len());
        let entry = opcode::Connect::new(Fixed(token.index), pointer, length).build();
        let stamped = stamped && self.start_stamping().is_some();
        let socket = &mut self.sockets[token.index as usize];
        socket.address = Some(kernel_address);
        socket.is_tcp = matches!(address, Address::Tcp(_));
        if stamped {
            socket.receive_op = Op::ReceiveStamped;
        }
        self.push_counted(token, Op::Connect, entry);
        self.submit_connect(token);
        token
    }

    fn send(&mut self, token: Token, payload: Payload) {
        let Some(socket) = self.live(token) else {
            return;
        };
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
        socket.shutdown_after_queue = true;
        if socket.state == State::Open {
            self.send_next(token);
        }
    }

    fn close(&mut self, token: Token, mode: CloseMode) {
        let Some(key) = self.live(token).map(|socket| socket.key) else {
            return;
        };
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
        self.start_close(token);
        self.push_ready(key, token, Outcome::Closed);
    }

    fn wait(&mut self, until_ns: Option<u64>) -> io::Result<()> {
        self.end_loan();
        let sleep_until_ns = until_ns.map(|until| self.aim.sleep_until_ns(until));
        let mut first = true;
        loop {
            self.arm_again();
            self.flush_held()?;
            let polls = self.poll_until_ns > 0 && monotonic_ns() < self.poll_until_ns;
            let slept = self.enter(if polls { Some(0) } else { sleep_until_ns })?;
            self.taken_ns = monotonic_ns();
            let something = !self.ready.is_empty()
                || !self.backlog.is_empty()
                || !self.ring.completion().is_empty();
            if something {
                return Ok(());
            }
            let poll_until_ns =
                until_ns.map_or(self.poll_until_ns, |until| until.min(self.poll_until_ns));
            if polls && self.taken_ns < poll_until_ns {
                self.spin(poll_until_ns);
                first = false;
                continue;
            }
            let (Some(sleep_until), Some(until)) = (sleep_until_ns, until_ns) else {
                continue;
            };
            if slept && self.taken_ns >= sleep_until {
                self.aim.note(sleep_until, self.taken_ns);
            }
            if self.taken_ns >= until {
                return Ok(());
            }
            if self.taken_ns >= sleep_until {
                if first && !slept {
                    self.aim.note_no_sleep();
                }
                self.spin(until);
            }
            first = false;
        }
    }

    fn next(&mut self) -> Option<Completion> {
        self.end_loan();
        loop {
            while let Some(completion) = self.ready.pop_front() {
                let last = matches!(
                    completion.outcome,
                    Outcome::Closed | Outcome::ConnectFailed(_)
                );
                if last || self.live(completion.token).is_some() {
                    return Some(completion);
                }
            }
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

    fn poll_until(&mut self, until_ns: u64) {
        self.poll_until_ns = until_ns;
    }

    fn received(&self) -> &[u8] {
        match (&self.lent, &self.stamping) {
            (Some(loan), Some(stamping)) if loan.op == Op::ReceiveStamped => {
                stamping.buffers.bytes(loan.buffer, loan.len)
            }
            (Some(loan), _) => self.buffers.bytes(loan.buffer, loan.len),
            (None, _) => &[],
        }
    }

    fn receive_delay_ns(&self) -> Option<u64> {
        self.delay_ns
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
}

impl Drop for Uring {
    /// The kernel may still write to our buffers and read from lent ones: nothing is freed before it
    /// has let go of everything.
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
        self.reap(monotonic_ns() + DROP_PATIENCE_NS);
        if self.in_flight > 0 {
            // Slow, and not expected to find anything.
            let patience = Timespec::new().sec(1);
            let everything = CancelBuilder::any().all();
            let _ = self
                .ring
                .submitter()
                .register_sync_cancel(Some(patience), everything);
            self.reap(monotonic_ns() + DROP_PATIENCE_NS);
        }
        if self.in_flight > 0 {
            // Never seen; leaking is the safe way out.
            self.buffers.leak();
            if let Some(mut stamping) = self.stamping.take() {
                stamping.buffers.leak();
                std::mem::forget(stamping.message);
            }
            std::mem::forget(std::mem::take(&mut self.sockets));
            std::mem::forget(std::mem::take(&mut self.shared));
        }
    }
}

/// The receive buffers and the ring through which they are handed to the kernel
/// (io_uring_register_buf_ring(3)).
struct Buffers {
    entries: Option<Region>,
    memory: Option<Region>,
    /// What the kernel puts before the bytes.
    head_bytes: usize,
    /// With the head.
    buffer_bytes: usize,
    /// From the start of one buffer to the next.
    stride: usize,
    mask: u16,
    tail: u16,
}

impl Buffers {
    /// `count` is a power of two.
    fn register(
        ring: &IoUring,
        group: u16,
        count: u16,
        head_bytes: usize,
        receive_buffer_bytes: usize,
    ) -> io::Result<Self> {
        let buffer_bytes = head_bytes + receive_buffer_bytes;
        let entries = Region::new(usize::from(count) * size_of::<BufRingEntry>())?;
        let stride = buffer_bytes + STAGGER_BYTES;
        let memory = Region::new(usize::from(count) * stride)?;
        // SAFETY: the memory is a fresh mapping of the right size; it is freed only after the
        // kernel has let go of it (Drop of Uring).
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
        // SAFETY: `position` is below the number of entries, `buffer` below the number of buffers; the
        // kernel does not read an entry before the tail, stored last with release order, covers it.
        // The tail lies in the first entry's reserved field, which the setters do not touch.
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
        // SAFETY: the kernel has filled this buffer and does not write to it until it is given back,
        // which ends the loan that this slice is part of.
        unsafe { memory.slice(usize::from(buffer) * self.stride + start, len) }
    }

    fn leak(&mut self) {
        std::mem::forget((self.entries.take(), self.memory.take()));
    }
}

/// The control data in the head of a message, as long as the kernel says it is.
fn control_data(head: &[u8]) -> &[u8] {
    const LENGTH_AT: usize = size_of::<u32>();
    let length = head
        .get(LENGTH_AT..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |bytes| u32::from_ne_bytes(*bytes) as usize);
    let room = head.get(MESSAGE_HEAD_BYTES..).unwrap_or_default();
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
            .setup_submit_all();
        if modern {
            builder.setup_single_issuer().setup_defer_taskrun();
        } else {
            builder.setup_coop_taskrun();
        }
        if newest {
            builder.setup_no_sqarray();
        }
        if options.spin_ns > 0 {
            builder.setup_taskrun_flag();
        }
        builder.build(SUBMISSION_ENTRIES)
    };
    // NO_SQARRAY is from Linux 6.6, DEFER_TASKRUN from 6.1, COOP_TASKRUN from 5.19.
    let ring = match attempt(true, true) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => match attempt(true, false) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => attempt(false, false),
            other => other,
        },
        other => other,
    };
    let ring = ring.map_err(|error| explain(error, "setting up a ring"))?;
    if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
        return Err(io::Error::other(
            "this kernel's io_uring is too old (needs Linux 6.0)",
        ));
    }
    Ok(ring)
}

/// Says in words what the usual errors of setting up mean.
fn explain(error: io::Error, doing: &str) -> io::Error {
    let reason = match error.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel has no io_uring".to_owned(),
        Some(libc::EPERM | libc::EACCES) => {
            match std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled") {
                Ok(value) if value.trim() != "0" => {
                    format!("forbidden by kernel.io_uring_disabled = {}", value.trim())
                }
                _ => "forbidden, probably by seccomp (containers often do)".to_owned(),
            }
        }
        Some(libc::ENOMEM) => "not enough lockable memory (ulimit -l)".to_owned(),
        Some(libc::EINVAL) => format!("{doing} is not supported by this kernel"),
        _ => format!("{doing} failed: {error}"),
    };
    io::Error::new(error.kind(), reason)
}

/// Whether submission `a` comes after `b`; the count may have wrapped in between.
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
    const OPS: [Op; 12] = [
        Op::Connect,
        Op::Receive,
        Op::Send,
        Op::QuietSend,
        Op::Shutdown,
        Op::SetOption,
        Op::Cancel,
        Op::Close,
        Op::Accept,
        Op::ReceiveStamped,
        Op::ReceiveOnce,
        Op::Discard,
    ];
    let number = (user_data >> 56) as usize;
    OPS.get(number.wrapping_sub(1)).copied()
}
