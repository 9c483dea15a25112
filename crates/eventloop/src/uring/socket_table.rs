//! The sockets of a ring and their entries in the kernel's file table.

use super::Uring;
use super::datagram_sockets::SendingDatagrams;
use super::operation::{GENERATION_MASK, Op};
use super::receiving::{Armed, TimestampedMessage};
use super::sending::Sending;
use crate::socket::KernelAddress;
use crate::timestamps::OutOfOrder;
use crate::{Completion, Expected, Payload, SharedBytes, SocketEvent, Token};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};

pub(super) struct Socket {
    pub(super) generation: u32,
    pub(super) key: u32,
    pub(super) state: SocketState,
    /// When the kernel connected the socket, if it did so at once.
    pub(super) connected_ns: Option<u64>,
    /// Operations of this socket that the kernel has not reported yet.
    pub(super) in_flight: u32,
    /// The address while connecting. The kernel reads it when the entry is submitted.
    pub(super) address: Option<Box<KernelAddress>>,
    /// The send in progress, which the kernel will report.
    pub(super) sending: Option<Sending>,
    /// Sends waiting for it, in order.
    pub(super) queue: VecDeque<Payload>,
    /// The last quiet send: its submission, whether a failure of it would have been seen by now,
    /// and its bytes.
    pub(super) quiet_batch: u32,
    pub(super) quiet_settled: bool,
    pub(super) quiet: (SharedBytes, usize, usize),
    /// The submission in which the receive was last started.
    pub(super) arm_batch: u32,
    pub(super) held: bool,
    /// How the socket receives: with or without timestamps.
    pub(super) receive_op: Op,
    /// A second descriptor of a TCP socket with timestamps or [`SocketOptions::path`], for what the
    /// ring cannot ask.
    pub(super) descriptor: Option<OwnedFd>,
    pub(super) out_of_order: OutOfOrder,
    /// Only TCP sockets can discard.
    pub(super) is_tcp: bool,
    /// How many of the next bytes to discard.
    pub(super) discard_bytes: u64,
    pub(super) expected: Expected,
    pub(super) armed: Armed,
    /// For single receives of a socket with timestamps.
    pub(super) message: Option<Box<TimestampedMessage>>,
    /// For the send in progress of a datagram socket.
    pub(super) datagrams: Option<Box<SendingDatagrams>>,
    pub(super) shutdown_after_queue: bool,
    /// The listening descriptor. Listeners are not in the file table.
    pub(super) listener: Option<OwnedFd>,
}

/// Where a socket is in its life, or that its entry in the table is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SocketState {
    Free,
    Connecting,
    Open,
    Listening,
    Closing,
}

impl Uring {
    pub(super) fn insert(
        &mut self,
        key: u32,
        state: SocketState,
        fd: Option<&OwnedFd>,
    ) -> Result<Token, i32> {
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

    pub(super) fn release(&mut self, index: u32) {
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

    pub(super) fn live(&mut self, token: Token) -> Option<&mut Socket> {
        self.sockets.get_mut(token.index as usize).filter(|socket| {
            socket.generation == token.generation
                && !matches!(socket.state, SocketState::Free | SocketState::Closing)
        })
    }

    /// The full token for one whose generation was truncated in the user data.
    pub(super) fn live_by_truncated_generation(&self, token: Token) -> Option<Token> {
        let socket = self.sockets.get(token.index as usize)?;
        let same = socket.generation & GENERATION_MASK == token.generation;
        let live = same && !matches!(socket.state, SocketState::Free | SocketState::Closing);
        live.then_some(Token {
            index: token.index,
            generation: socket.generation,
        })
    }

    /// Frees the entry of a closed socket once the kernel has reported all its operations.
    pub(super) fn finish(&mut self, index: u32, event: Option<SocketEvent>) -> Option<Completion> {
        let socket = &self.sockets[index as usize];
        let token = Token {
            index,
            generation: socket.generation,
        };
        if socket.state == SocketState::Closing && socket.in_flight == 0 {
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
}

impl Socket {
    fn empty() -> Self {
        Self {
            generation: 0,
            key: 0,
            state: SocketState::Free,
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
