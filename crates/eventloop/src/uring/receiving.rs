//! Receives bytes, with and without timestamps, or discards them.

use super::Uring;
use super::buffers::{
    BUFFER_GROUP, DATAGRAM_BUFFER_GROUP, LentBuffer, TIMESTAMPED_BUFFER_GROUP,
    TIMESTAMPED_HEAD_BYTES, control_data,
};
use super::operation::Op;
use super::socket_table::SocketState;
use crate::socket;
use crate::timestamps::CONTROL_BYTES;
use crate::{BEGINNING_BYTES, Completion, Expected, SocketEvent, Token};
use io_uring::squeue::Flags;
use io_uring::types::Fixed;
use io_uring::{cqueue, opcode};
use std::os::fd::AsRawFd;

/// Memory of a single receive with timestamps, at a fixed address.
pub(super) struct TimestampedMessage {
    pub(super) header: libc::msghdr,
    pub(super) part: libc::iovec,
    pub(super) control: [u8; CONTROL_BYTES],
}

/// The receive in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Armed {
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

impl Uring {
    pub(super) fn arm_receive(&mut self, token: Token) {
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
    pub(super) fn rearm(&mut self) {
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
        self.has_postponed = false;
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

    pub(super) fn on_receive(
        &mut self,
        op: Op,
        token: Token,
        entry: &cqueue::Entry,
    ) -> Option<Completion> {
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
        if socket.state != SocketState::Open {
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
                    libc::ENOBUFS => {
                        self.has_postponed = true;
                        self.to_arm.push(full);
                        SocketEvent::Postponed
                    }
                    // `discard` cancelled it.
                    libc::ECANCELED if armed == Armed::Cancelled => {
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
    pub(super) fn delay_ns(&mut self, op: Op, index: u32, buffer: Option<u16>) -> Option<u64> {
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
    pub(super) fn prepare(&mut self, length: usize) -> *mut libc::msghdr {
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
