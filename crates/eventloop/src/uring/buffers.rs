//! The buffers that the kernel fills, and those that are lent to the caller.

use super::Uring;
use super::operation::Op;
use crate::datagrams;
use crate::mapping::Mapping;
use crate::socket;
use crate::timestamps::{CONTROL_BYTES, Timestamps};
use io_uring::IoUring;
use io_uring::types::BufRingEntry;
use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

/// A filled buffer that the caller is reading.
pub(super) struct LentBuffer {
    pub(super) op: Op,
    pub(super) buffer: u16,
    pub(super) len: usize,
}

/// Receiving messages: bytes with timestamps, or datagrams. The kernel puts a head before the
/// bytes, so the buffers are longer and separate.
pub(super) struct MessageReceives {
    pub(super) buffers: Buffers,
    /// States how long the control data may be. The kernel reads it when a receive is submitted.
    pub(super) message: Box<libc::msghdr>,
}

/// The receive buffers, and the ring that passes them to the kernel
/// (io_uring_register_buf_ring(3)).
pub(super) struct Buffers {
    pub(super) entries: Option<Mapping>,
    pub(super) memory: Option<Mapping>,
    /// Length of what the kernel puts before the bytes.
    pub(super) head_bytes: usize,
    /// Length including the head.
    pub(super) buffer_bytes: usize,
    /// Distance from the start of one buffer to the next.
    pub(super) stride: usize,
    pub(super) mask: u16,
    pub(super) tail: u16,
}

pub(super) const BUFFER_GROUP: u16 = 0;

pub(super) const TIMESTAMPED_BUFFER_GROUP: u16 = 1;

/// Few sockets use timestamps.
const TIMESTAMPED_BUFFERS: u16 = 32;

pub(super) const DATAGRAM_BUFFER_GROUP: u16 = 2;

/// Twice what the kernel reports of one multishot receive at a time (MULTISHOT_MAX_RETRY). If they
/// run out, datagrams wait in their sockets.
const DATAGRAM_BUFFERS: u16 = 64;

/// Length of the fixed part before the bytes of a multishot receive of a message, `struct
/// io_uring_recvmsg_out` (io_uring_prep_recvmsg_multishot(3)): four 32-bit numbers, which are the
/// lengths of name, control data and payload, and the flags. The name, which only datagrams have,
/// and the control data follow at their full lengths.
pub(super) const MESSAGE_HEAD_BYTES: usize = 16;

pub(super) const TIMESTAMPED_HEAD_BYTES: usize = MESSAGE_HEAD_BYTES + CONTROL_BYTES;

pub(super) const DATAGRAM_HEAD_BYTES: usize =
    MESSAGE_HEAD_BYTES + socket::NAME_BYTES + datagrams::CONTROL_BYTES;

/// Gap between buffers. At distances of a power of two, the first lines of all buffers, which are
/// often the only ones used, would fall into the same few cache sets.
const STAGGER_BYTES: usize = 13 * 64;

impl Uring {
    /// The control data of the datagrams that are lent, and how many bytes these have.
    pub(super) fn lent_control(&self) -> Option<(&[u8], usize)> {
        let loan = self.lent.as_ref()?;
        let receives = self.datagram_receives.as_ref()?;
        let is_datagrams = loan.op == Op::ReceiveDatagrams;
        is_datagrams.then(|| {
            let head = receives.buffers.head(loan.buffer);
            (control_data(head, socket::NAME_BYTES), loan.len)
        })
    }

    /// Returns the lent buffer to the kernel.
    pub(super) fn end_loan(&mut self) {
        self.delay_ns = None;
        if let Some(loan) = self.lent.take() {
            self.give_back(loan.op, loan.buffer);
        }
    }

    /// Returns a buffer that the kernel took for this kind of receive.
    pub(super) fn give_back(&mut self, op: Op, buffer: u16) {
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
    pub(super) fn start_timestamping(&mut self) -> Option<&MessageReceives> {
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
    pub(super) fn start_receiving_datagrams(&mut self) -> Result<(), i32> {
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
}

impl Buffers {
    /// `count` must be a power of two.
    pub(super) fn register(
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

    pub(super) fn give_back(&mut self, buffer: u16) {
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
    pub(super) fn head(&self, buffer: u16) -> &[u8] {
        self.part(buffer, 0, self.head_bytes)
    }

    pub(super) fn bytes(&self, buffer: u16, len: usize) -> &[u8] {
        self.part(buffer, self.head_bytes, len)
    }

    pub(super) fn part(&self, buffer: u16, start: usize, len: usize) -> &[u8] {
        let Some(memory) = &self.memory else {
            return &[];
        };
        // SAFETY: the kernel has filled this buffer and does not write to it until it is returned,
        // which ends the loan that this slice is part of.
        unsafe { memory.slice(usize::from(buffer) * self.stride + start, len) }
    }

    pub(super) fn leak(&mut self) {
        std::mem::forget((self.entries.take(), self.memory.take()));
    }
}

/// The control data in the head of a message, at the length stated by the kernel, behind the room
/// for the name.
pub(super) fn control_data(head: &[u8], name_bytes: usize) -> &[u8] {
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
