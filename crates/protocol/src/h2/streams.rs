//! The open streams of a connection.

use super::StreamId;
use super::flow::{ReceiveWindow, SendWindow};
use super::head::Head;
use super::prepared::Prepared;
use crate::{Captured, ExchangeId, RequestKind, StreamReader};
use std::sync::Arc;

/// A request that was sent and the response to it.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) exchange: ExchangeId,
    pub(super) kind: RequestKind,
    /// What is left to be sent.
    pub(super) body: Option<Body>,
    pub(super) send_window: SendWindow,
    pub(super) receive_window: ReceiveWindow,
    /// The head of the final response has arrived.
    pub(super) has_head: bool,
    pub(super) status: u16,
    pub(super) content_length: Option<u64>,
    pub(super) captured: Option<Box<Captured>>,
    /// Present if responses are split into events. It stays for the next stream.
    pub(super) reader: Option<Box<StreamReader>>,
    /// Bytes of the response so far, and of its content.
    pub(super) bytes: u64,
    pub(super) content_bytes: u64,
    pub(super) interim: u8,
}

/// A body of which a part was sent.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) bytes: Arc<[u8]>,
    pub(super) sent: usize,
}

impl Stream {
    /// For a place in the table that was never used.
    fn unused() -> Self {
        Self {
            exchange: ExchangeId(0),
            kind: RequestKind::Plain,
            body: None,
            send_window: SendWindow::new(0),
            receive_window: ReceiveWindow::new(0),
            has_head: false,
            status: 0,
            content_length: None,
            captured: None,
            reader: None,
            bytes: 0,
            content_bytes: 0,
            interim: 0,
        }
    }

    /// Begins an exchange in a place that is not used. Each field is written where it stays: a copy
    /// of the whole right after that would wait for the stores.
    #[inline]
    pub(super) fn begin(
        &mut self,
        exchange: ExchangeId,
        request: &Prepared,
        send_window: SendWindow,
        receive_window: ReceiveWindow,
    ) {
        self.exchange = exchange;
        self.kind = request.kind;
        self.body = request.body.as_ref().map(|bytes| Body {
            bytes: Arc::clone(bytes),
            sent: 0,
        });
        self.send_window = send_window;
        self.receive_window = receive_window;
        self.has_head = false;
        self.status = 0;
        self.content_length = None;
        self.bytes = 0;
        self.content_bytes = 0;
        self.interim = 0;
    }

    /// Gives memory back that the next stream in the same place does not need.
    fn release(&mut self) {
        self.body = None;
        self.captured = None;
    }

    /// Takes over the head of the final response, or the trailers.
    pub(super) fn add_head(&mut self, head: &Head, captures: bool) {
        if let Some(status) = head.status {
            self.has_head = true;
            self.status = status;
            self.content_length = head.content_length;
        }
        if captures {
            let captured = self.captured.get_or_insert_default();
            captured.status = self.status;
            captured.headers.extend(head.fields.iter());
        }
    }
}

/// The open streams. A stream is found by its number in constant time: the number is a position in
/// a ring with room for twice as many streams as may be open. If the position of a new stream is
/// still taken, its number is skipped, which a client may do (RFC 9113 section 5.1.1).
#[derive(Debug)]
pub(super) struct Streams {
    ring: Box<[Entry]>,
    /// As many as were ever open at the same time.
    slots: Vec<Stream>,
    unused_slots: Vec<u32>,
}

/// The number of a stream and its index in `slots`.
#[derive(Debug, Clone, Copy)]
struct Entry {
    id: StreamId,
    slot: u32,
}

impl Entry {
    /// Responses have no stream 0.
    const UNUSED: Self = Self { id: 0, slot: 0 };
}

impl Streams {
    pub(super) fn new(streams_max: u32) -> Self {
        let length = streams_max.saturating_mul(2).next_power_of_two();
        Self {
            ring: (0..length).map(|_| Entry::UNUSED).collect(),
            slots: Vec::new(),
            unused_slots: Vec::new(),
        }
    }

    /// Number of open streams.
    #[inline]
    pub(super) fn open(&self) -> u32 {
        (self.slots.len() - self.unused_slots.len()) as u32
    }

    /// Opens a stream with the first free number from `first` on, and returns the number and its
    /// place. Fewer streams are open than may be.
    #[inline]
    pub(super) fn open_from(&mut self, first: StreamId) -> (StreamId, &mut Stream) {
        let mut id = first;
        while self.ring[self.position(id)].id != 0 {
            id += 2;
        }
        let slot = self.unused_slots.pop().unwrap_or_else(|| {
            self.slots.push(Stream::unused());
            self.slots.len() as u32 - 1
        });
        self.ring[self.position(id)] = Entry { id, slot };
        (id, &mut self.slots[slot as usize])
    }

    /// No stream has the number 0, which stands for the connection.
    #[inline]
    pub(super) fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        let entry = self.ring[self.position(id)];
        if entry.id != id || id == 0 {
            return None;
        }
        self.slots.get_mut(entry.slot as usize)
    }

    #[inline]
    pub(super) fn close(&mut self, id: StreamId) {
        let position = self.position(id);
        let entry = self.ring[position];
        if entry.id == id && id != 0 {
            self.ring[position] = Entry::UNUSED;
            self.unused_slots.push(entry.slot);
            if let Some(stream) = self.slots.get_mut(entry.slot as usize) {
                stream.release();
            }
        }
    }

    /// The number of the stream of this exchange.
    pub(super) fn of_exchange(&self, exchange: ExchangeId) -> Option<StreamId> {
        let mut open = self.entries();
        open.find_map(|(id, stream)| (stream.exchange == exchange).then_some(id))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.entries().map(|(_, stream)| stream)
    }

    /// Changes each open stream, until one cannot be changed.
    pub(super) fn change_all<E>(
        &mut self,
        change: impl Fn(&mut Stream) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut open = self.ring.iter().filter(|entry| entry.id != 0);
        open.try_for_each(|entry| change(&mut self.slots[entry.slot as usize]))
    }

    /// The numbers of the open streams, in no order.
    pub(super) fn ids(&self) -> impl Iterator<Item = StreamId> {
        self.entries().map(|(id, _)| id)
    }

    fn entries(&self) -> impl Iterator<Item = (StreamId, &Stream)> {
        let open = self.ring.iter().filter(|entry| entry.id != 0);
        open.filter_map(|entry| Some((entry.id, self.slots.get(entry.slot as usize)?)))
    }

    #[inline]
    fn position(&self, id: StreamId) -> usize {
        // The length is a power of two.
        (id as usize / 2) & (self.ring.len() - 1)
    }
}
