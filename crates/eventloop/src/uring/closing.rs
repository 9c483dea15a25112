//! Closes sockets and the ring, and cancels their operations.

use super::Uring;
use super::operation::{Op, op_of, token_of, user_data};
use super::receiving::Armed;
use super::socket_table::SocketState;
use crate::{CloseMode, Token, monotonic_ns};
use io_uring::squeue::Flags;
use io_uring::types::{CancelBuilder, Fixed, Timespec};
use io_uring::{cqueue, opcode};

/// Longest wait for cancelled operations when the loop is dropped.
const DROP_WAIT_NS_MAX: u64 = 200_000_000;

impl Uring {
    /// Cancels the operations in flight and closes the entry of the file table. What is queued
    /// behind a send whose result is not known is sent by [`Self::send_last`], which then closes.
    pub(super) fn start_close(&mut self, token: Token, mode: CloseMode) {
        let socket = &mut self.sockets[token.index as usize];
        socket.state = SocketState::Closing;
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

    pub(super) fn push_close(&mut self, token: Token) {
        let entry = opcode::Close::new(Fixed(token.index)).build();
        self.push_counted(token, Op::Close, entry);
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
            SocketState::Listening => Op::Accept,
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

    pub(super) fn cancel(&mut self, token: Token, op: Op) {
        let target = CancelBuilder::user_data(user_data(op, token));
        let entry = opcode::AsyncCancel2::new(target)
            .build()
            .flags(Flags::SKIP_SUCCESS)
            .user_data(user_data(Op::Cancel, token));
        self.push(&entry);
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
                let is_closing = self.sockets[index as usize].state == SocketState::Closing;
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
