//! The exchanges of a connection, by the number of their stream.

use std::collections::HashMap;
use std::sync::Arc;

use quinn_proto::StreamId;

use super::frame::FrameReader;
use super::prepared::Prepared;
use super::response::Incoming;
use crate::ExchangeId;

/// A request that was sent, at least in part, and the response to it.
#[derive(Debug)]
pub(super) struct Stream {
    /// What is left to be sent.
    pub(super) unsent: Option<Unsent>,
    pub(super) reader: FrameReader,
    pub(super) response: Incoming,
}

/// A request of which a part was sent.
#[derive(Debug, Clone)]
pub(super) struct Unsent {
    pub(super) head: Arc<[u8]>,
    pub(super) body: Arc<[u8]>,
    /// Bytes of both that were sent.
    pub(super) sent: usize,
}

impl Unsent {
    /// Nothing of this request was sent.
    pub(super) fn new(request: &Prepared) -> Self {
        Self {
            head: Arc::clone(&request.head),
            body: Arc::clone(&request.body),
            sent: 0,
        }
    }

    /// What comes next; empty at the end.
    pub(super) fn rest(&self) -> &[u8] {
        match self.sent.checked_sub(self.head.len()) {
            Some(of_body) => &self.body[of_body.min(self.body.len())..],
            None => &self.head[self.sent..],
        }
    }
}

/// The open streams. Their places are used again.
#[derive(Debug)]
pub(super) struct Streams {
    by_id: HashMap<StreamId, u32>,
    /// As many as were ever open at the same time.
    slots: Vec<Stream>,
    unused_slots: Vec<u32>,
    section_bytes_max: usize,
}

impl Streams {
    pub(super) fn new(section_bytes_max: usize) -> Self {
        Self {
            by_id: HashMap::new(),
            slots: Vec::new(),
            unused_slots: Vec::new(),
            section_bytes_max,
        }
    }

    /// Number of open streams.
    #[inline]
    pub(super) fn open(&self) -> u32 {
        self.by_id.len() as u32
    }

    /// A request begins on this stream.
    pub(super) fn begin(
        &mut self,
        id: StreamId,
        exchange: ExchangeId,
        request: &Prepared,
    ) -> &mut Stream {
        let slot = self.unused_slots.pop().unwrap_or_else(|| {
            self.slots.push(Stream {
                unsent: None,
                reader: FrameReader::new(self.section_bytes_max),
                response: Incoming::unused(),
            });
            self.slots.len() as u32 - 1
        });
        self.by_id.insert(id, slot);
        let stream = &mut self.slots[slot as usize];
        stream.unsent = Some(Unsent::new(request));
        stream.reader.reset();
        stream.response.begin(exchange, request.kind);
        stream
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        let slot = *self.by_id.get(&id)?;
        self.slots.get_mut(slot as usize)
    }

    pub(super) fn close(&mut self, id: StreamId) {
        let Some(slot) = self.by_id.remove(&id) else {
            return;
        };
        if let Some(stream) = self.slots.get_mut(slot as usize) {
            stream.unsent = None;
            stream.reader.reset();
            stream.response.captured = None;
        }
        self.unused_slots.push(slot);
    }

    /// The number of the stream of this exchange.
    pub(super) fn of_exchange(&self, exchange: ExchangeId) -> Option<StreamId> {
        let mut open = self.entries();
        open.find_map(|(id, stream)| (stream.response.exchange == exchange).then_some(id))
    }

    /// Bytes of the responses that have begun.
    pub(super) fn partial_bytes(&self) -> u64 {
        self.entries()
            .map(|(_, stream)| stream.response.bytes)
            .sum()
    }

    /// The numbers of the open streams from this one on, in their order.
    pub(super) fn ids_from(&self, first: u64) -> Vec<StreamId> {
        let ids = self.by_id.keys().copied();
        let mut ids: Vec<_> = ids.filter(|id| number(*id) >= first).collect();
        ids.sort_unstable();
        ids
    }

    fn entries(&self) -> impl Iterator<Item = (StreamId, &Stream)> {
        let open = self.by_id.iter();
        open.filter_map(|(id, slot)| Some((*id, self.slots.get(*slot as usize)?)))
    }
}

/// The number of a stream as it is sent (RFC 9000 section 2.1).
pub(super) fn number(id: StreamId) -> u64 {
    quinn_proto::VarInt::from(id).into_inner()
}
