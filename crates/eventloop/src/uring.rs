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

mod buffers;
mod closing;
mod datagram_sockets;
mod opening;
mod operation;
mod receiving;
mod sending;
mod setup;
mod socket_table;
mod submission;

use crate::datagrams;
use crate::limits::open_file_limit;
use crate::sleep_margin::SleepMargin;
use crate::socket::{self, KernelAddress};
use crate::timestamps::Timestamps;
use crate::{
    Address, CloseMode, Completion, EventLoop, Expected, LoopOptions, Payload, SharedBytes,
    SocketEvent, SocketOptions, TcpPath, Token, monotonic_ns,
};
use buffers::{BUFFER_GROUP, Buffers, LentBuffer, MessageReceives};
use io_uring::squeue::Flags;
use io_uring::types::Fixed;
use io_uring::{IoUring, cqueue, opcode};
use operation::{Op, op_of, token_of, user_data};
use receiving::Armed;
use setup::{build_ring, explain};
use socket_table::{Socket, SocketState};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

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
    /// One of [`Self::to_arm`] has found no buffer for what arrived.
    has_postponed: bool,
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

/// Smallest size of the file table, however few sockets are expected.
const TABLE_SIZE_MIN: u32 = 65_536;

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
            has_postponed: false,
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

    fn push_ready(&mut self, key: u32, token: Token, event: SocketEvent) {
        self.ready.push_back(Completion {
            key,
            token,
            at_ns: monotonic_ns(),
            event,
        });
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
            .insert(key, SocketState::Open, Some(&socket))
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
        let token = match self.insert(key, SocketState::Connecting, Some(&fd)) {
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
        let clear = socket.state == SocketState::Open
            && socket.sending.is_none()
            && socket.queue.is_empty();
        if clear && !self.must_hold(&self.sockets[token.index as usize]) {
            self.start_send(token, payload);
            return;
        }
        let socket = &mut self.sockets[token.index as usize];
        socket.queue.push_back(payload);
        if socket.state == SocketState::Open {
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
        if socket.state == SocketState::Open {
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

    fn kept_sends(&self, token: Token) -> usize {
        let socket = self.sockets.get(token.index as usize);
        let socket = socket.filter(|socket| socket.generation == token.generation);
        socket.map_or(0, |socket| socket.queue.len())
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
        self.has_postponed || self.ring.submission().taskrun()
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
