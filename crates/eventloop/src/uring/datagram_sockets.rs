//! Sockets of datagrams: what they receive, and what they send as messages.

use super::Uring;
use super::buffers::{DATAGRAM_HEAD_BYTES, LentBuffer};
use super::operation::Op;
use super::receiving::Armed;
use super::sending::Sending;
use super::socket_table::SocketState;
use crate::datagrams::{self, Outcome, Progress};
use crate::socket::{self, DatagramMessage, KernelAddress};
use crate::timestamps::Timestamps;
use crate::{Completion, Payload, SocketEvent, SocketOptions, Token};
use io_uring::types::Fixed;
use io_uring::{cqueue, opcode};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// The part of a payload of datagrams that the kernel is sending, at a fixed address.
pub(super) struct SendingDatagrams {
    pub(super) message: DatagramMessage,
    pub(super) progress: Progress,
    /// Where the queued payloads go. Empty if the socket is connected.
    pub(super) to: VecDeque<SocketAddr>,
    /// The socket is closed when all that is queued has been sent.
    pub(super) closes_afterwards: bool,
}

impl Uring {
    pub(super) fn open_datagrams(
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
        let token = self.insert(key, SocketState::Open, Some(&fd))?;
        self.sockets[token.index as usize].receive_op = Op::ReceiveDatagrams;
        Ok(token)
    }

    pub(super) fn on_datagrams(
        &mut self,
        token: Token,
        entry: &cqueue::Entry,
    ) -> Option<Completion> {
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
        let is_open = socket.state == SocketState::Open;
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

    pub(super) fn start_datagrams(&mut self, token: Token, payload: Payload) {
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
            SocketState::Closing => libc::MSG_DONTWAIT,
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

    pub(super) fn on_datagrams_sent(&mut self, index: u32, result: i32) -> Option<SocketEvent> {
        let socket = &mut self.sockets[index as usize];
        let token = Token {
            index,
            generation: socket.generation,
        };
        let (is_open, key) = (socket.state == SocketState::Open, socket.key);
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
}

/// Whether the socket has no room for a last message, or the message was cancelled while it waited.
fn is_full(result: i32) -> bool {
    matches!(-result, libc::EAGAIN | libc::ECANCELED)
}

impl SendingDatagrams {
    pub(super) fn boxed() -> Box<Self> {
        Box::new(Self {
            message: DatagramMessage::new(),
            progress: Progress::default(),
            to: VecDeque::new(),
            closes_afterwards: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventLoop, LoopOptions, monotonic_ns};
    use std::os::fd::AsRawFd;

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
        let token = io.insert(1, SocketState::Open, Some(&fd)).expect("a place");
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
