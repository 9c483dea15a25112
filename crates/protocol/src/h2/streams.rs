//! The open streams of a connection.

use super::StreamId;
use super::flow::{ReceiveWindow, SendWindow};
use super::head::Head;
use super::prepared::Prepared;
use crate::{Captured, ExchangeId, RequestKind};
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
    pub(super) fn new(
        exchange: ExchangeId,
        request: &Prepared,
        send_window: SendWindow,
        receive_window: ReceiveWindow,
    ) -> Self {
        let body = request.body.as_ref();
        Self {
            exchange,
            kind: request.kind,
            body: body.map(|bytes| Body {
                bytes: Arc::clone(bytes),
                sent: 0,
            }),
            send_window,
            receive_window,
            has_head: false,
            status: 0,
            content_length: None,
            captured: None,
            bytes: 0,
            content_bytes: 0,
            interim: 0,
        }
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
    open: u32,
}

/// A stream with its number, or 0 and none.
type Entry = (StreamId, Option<Box<Stream>>);

impl Streams {
    pub(super) fn new(streams_max: u32) -> Self {
        let length = streams_max.saturating_mul(2).next_power_of_two();
        Self {
            ring: (0..length).map(|_| (0, None)).collect(),
            open: 0,
        }
    }

    /// Number of open streams.
    pub(super) fn open(&self) -> u32 {
        self.open
    }

    /// Opens a stream with the first free number from `first` on, and returns the number. Fewer
    /// streams are open than may be.
    pub(super) fn open_from(&mut self, first: StreamId, stream: Stream) -> StreamId {
        let mut id = first;
        while self.ring[self.position(id)].1.is_some() {
            id += 2;
        }
        self.ring[self.position(id)] = (id, Some(Box::new(stream)));
        self.open += 1;
        id
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        let position = self.position(id);
        match &mut self.ring[position] {
            (found, stream) if *found == id => stream.as_deref_mut(),
            _ => None,
        }
    }

    pub(super) fn close(&mut self, id: StreamId) {
        let position = self.position(id);
        if self.ring[position].0 == id && self.ring[position].1.take().is_some() {
            self.open -= 1;
        }
    }

    /// The number of the stream of this exchange.
    pub(super) fn of_exchange(&self, exchange: ExchangeId) -> Option<StreamId> {
        let is_it = |stream: &Stream| stream.exchange == exchange;
        let entries = self.ring.iter();
        let mut found = entries.filter(|(_, stream)| stream.as_deref().is_some_and(is_it));
        found.next().map(|(id, _)| *id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.ring.iter().filter_map(|(_, stream)| stream.as_deref())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        let entries = self.ring.iter_mut();
        entries.filter_map(|(_, stream)| stream.as_deref_mut())
    }

    /// The numbers of the open streams, in no order.
    pub(super) fn ids(&self) -> impl Iterator<Item = StreamId> {
        let open = self.ring.iter().filter(|(_, stream)| stream.is_some());
        open.map(|(id, _)| *id)
    }

    #[inline]
    fn position(&self, id: StreamId) -> usize {
        // The length is a power of two.
        (id as usize / 2) & (self.ring.len() - 1)
    }
}
