//! Sends over streams: quiet and reported ones, and their order. The parent module's documentation
//! explains it.

use super::Uring;
use super::operation::{Op, op_of, token_of, user_data};
use super::socket_table::{Socket, SocketState};
use crate::{Payload, SocketEvent, Token};
use io_uring::opcode;
use io_uring::squeue::Flags;
use io_uring::types::Fixed;
use std::io;

pub(super) struct Sending {
    pub(super) payload: Payload,
    pub(super) sent: usize,
}

impl Uring {
    /// Handles the sends that have ended, so that what waits behind them does not wait for the
    /// caller to take all completions. Returns how many have ended.
    pub(super) fn continue_sends(&mut self) -> usize {
        let mut ended = 0;
        let first = self.backlog.len();
        self.backlog.extend(self.ring.completion());
        let new = self.backlog.split_off(first);
        for entry in new {
            let op = op_of(entry.user_data());
            if !matches!(op, Some(Op::Send | Op::SendDatagrams)) {
                self.backlog.push_back(entry);
                continue;
            }
            ended += 1;
            let completion = self.on_completion(&entry);
            self.ready.extend(completion);
        }
        ended
    }

    /// Whether another send of this socket could overtake one whose failure is not known yet.
    pub(super) fn must_hold(&self, socket: &Socket) -> bool {
        socket.held || (!socket.quiet_settled && is_later(socket.quiet_batch, self.seen_batch))
    }

    /// The kernel has reported a receive on this socket. It did so after it had carried out the
    /// previous quiet send, unless both were in the same submission or the report is older than the
    /// send.
    pub(super) fn settle_quiet(&mut self, index: u32) {
        let socket = &mut self.sockets[index as usize];
        let went_before = is_later(self.batch, socket.quiet_batch);
        if went_before
            && socket.arm_batch != socket.quiet_batch
            && is_later(socket.quiet_batch, self.crowded_batch)
        {
            socket.quiet_settled = true;
        }
    }

    pub(super) fn start_send(&mut self, token: Token, payload: Payload) {
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
            SocketState::Closing => libc::MSG_DONTWAIT,
            _ => libc::MSG_WAITALL,
        };
        let entry = opcode::Send::new(Fixed(token.index), rest.as_ptr(), len)
            .flags(wait | libc::MSG_NOSIGNAL)
            .build();
        socket.sending = Some(sending);
        self.push_counted(token, Op::Send, entry);
    }

    pub(super) fn send_next(&mut self, token: Token) {
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
    pub(super) fn flush_held(&mut self) -> io::Result<()> {
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

    pub(super) fn on_quiet_failure(&mut self, token: Token, result: i32) {
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

    pub(super) fn on_send(&mut self, index: u32, result: i32) -> Option<SocketEvent> {
        let socket = &mut self.sockets[index as usize];
        let mut sending = socket.sending.take()?;
        let token = Token {
            index,
            generation: socket.generation,
        };
        if socket.state != SocketState::Open {
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
}

impl Sending {
    fn is_whole(&self) -> bool {
        self.sent == self.payload.length()
    }
}

/// Whether submission `a` comes after `b`. The counter may have wrapped in between.
const fn is_later(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}
