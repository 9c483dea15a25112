//! Hands the records of single requests from the workers to whoever writes them (`--records`).
//!
//! A worker fills chunks of records, which another thread gives back once they are written. It
//! waits for nobody: if that thread is too slow and all chunks are on their way, further records
//! are lost and counted. There are as many chunks as are needed, up to a limit, so a worker
//! allocates only when the other thread has never been that far behind.

use results::records::{RequestRecord, WithoutResponse};
use std::sync::mpsc::{self, Receiver, Sender};

/// Records of one chunk, 96 KiB: large enough that handing it over costs nothing per request, and
/// small enough for the cache.
const CHUNK_RECORDS: usize = 1_024;
/// Chunks of each worker, 6 MiB: the writer may stand still for 0.6 s at 100,000 requests/s.
const CHUNKS_MAX: u32 = 64;
/// After the window there may be many records at once, of requests that were never sent: 48 MiB.
const CHUNKS_AT_END_MAX: u32 = 512;

/// How much a worker keeps until it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordLimits {
    /// Records of one chunk, at least 1.
    pub chunk_records: usize,
    /// Chunks of each worker within the window.
    pub chunks_max: u32,
    /// Chunks of each worker after the window.
    pub chunks_at_end_max: u32,
}

impl Default for RecordLimits {
    fn default() -> Self {
        Self {
            chunk_records: CHUNK_RECORDS,
            chunks_max: CHUNKS_MAX,
            chunks_at_end_max: CHUNKS_AT_END_MAX,
        }
    }
}

/// Where the workers of a run send their records.
#[derive(Debug, Clone)]
pub struct RecordSender {
    messages: Sender<RecordMessage>,
    limits: RecordLimits,
}

/// What [`RecordSender`] sends.
#[derive(Debug)]
pub enum RecordMessage {
    /// Records of one worker.
    Batch(RecordBatch),
    /// The run is over: everything was sent before.
    End,
}

/// Records of one worker, in the order in which the requests ended.
#[derive(Debug)]
pub struct RecordBatch {
    /// The number of the worker.
    pub worker: u32,
    /// When the window began, CLOCK_MONOTONIC.
    pub measure_ns: u64,
    /// The records.
    pub records: Vec<RequestRecord>,
    /// Records lost before these, because too many were on their way.
    pub lost: u64,
    chunks: Sender<Vec<RequestRecord>>,
}

impl RecordBatch {
    /// The records are written: gives the chunk back to the worker.
    pub fn give_back(self) {
        let mut records = self.records;
        records.clear();
        // If the worker has ended, nobody needs it.
        let _ = self.chunks.send(records);
    }
}

impl RecordSender {
    /// A sender and its receiver.
    // The channel itself has no limit. The chunks on their way have.
    #[must_use]
    pub fn new(limits: RecordLimits) -> (Self, Receiver<RecordMessage>) {
        let (messages, receiver) = mpsc::channel();
        (Self { messages, limits }, receiver)
    }

    /// Says that the run is over, also if some worker never ends.
    pub fn end(&self) {
        // If the receiver is gone, it waits for nothing.
        let _ = self.messages.send(RecordMessage::End);
    }

    /// The records of one worker.
    pub(crate) fn of_worker(self, worker: u32, measure_ns: u64) -> RecordSink {
        let (given_back, chunks) = mpsc::channel();
        RecordSink {
            worker,
            measure_ns,
            limits: self.limits,
            chunk: Vec::new(),
            made: 0,
            lost: 0,
            chunks,
            given_back,
            messages: self.messages,
        }
    }
}

/// The records of one worker that were not handed over yet.
pub(crate) struct RecordSink {
    worker: u32,
    measure_ns: u64,
    limits: RecordLimits,
    /// Without capacity if there is none.
    chunk: Vec<RequestRecord>,
    /// How many chunks there are.
    made: u32,
    lost: u64,
    chunks: Receiver<Vec<RequestRecord>>,
    given_back: Sender<Vec<RequestRecord>>,
    messages: Sender<RecordMessage>,
}

impl RecordSink {
    #[inline]
    pub(crate) fn add(&mut self, record: RequestRecord) {
        if self.chunk.len() == self.chunk.capacity() && !self.renew() {
            self.lost += 1;
            return;
        }
        self.chunk.push(record);
    }

    /// Records of requests that are known by their number only.
    pub(crate) fn lose(&mut self, records: u64) {
        self.lost += records;
    }

    /// The window begins at another time.
    pub(crate) fn move_window(&mut self, measure_ns: u64) {
        self.measure_ns = measure_ns;
    }

    /// The window is over: nothing is delayed by more memory any more.
    pub(crate) fn end_window(&mut self) {
        self.limits.chunks_max = self.limits.chunks_at_end_max;
    }

    /// The response to this request, which may still be here, was read late.
    #[cold]
    pub(crate) fn was_read_late(&mut self, connection: u32, ended_ns: u64, late_ns: u64) {
        let is_it = |it: &&mut RequestRecord| {
            it.connection == connection && it.ended_ns == ended_ns && it.without_response.is_none()
        };
        if let Some(record) = self.chunk.iter_mut().rev().find(is_it) {
            record.own_ns = record.own_ns.max(late_ns);
        }
    }

    /// Hands over what there is.
    #[cold]
    pub(crate) fn hand_over(&mut self) {
        if self.chunk.is_empty() && self.lost == 0 {
            return;
        }
        // An error means that nobody wants them.
        let _ = self.messages.send(RecordMessage::Batch(RecordBatch {
            worker: self.worker,
            measure_ns: self.measure_ns,
            records: std::mem::take(&mut self.chunk),
            lost: std::mem::take(&mut self.lost),
            chunks: self.given_back.clone(),
        }));
    }

    /// Replaces a full chunk. Returns false if there is no other one.
    #[cold]
    fn renew(&mut self) -> bool {
        if !self.chunk.is_empty() {
            self.hand_over();
        }
        if let Ok(chunk) = self.chunks.try_recv() {
            self.chunk = chunk;
        } else if self.made < self.limits.chunks_max {
            self.made += 1;
            self.chunk = Vec::with_capacity(self.limits.chunk_records);
        }
        self.chunk.capacity() > 0
    }
}

impl Drop for RecordSink {
    fn drop(&mut self) {
        self.hand_over();
    }
}

/// The record of a request that was due and never sent.
pub(crate) fn unsent(due_ns: u64, ended_ns: u64, own_ns: u64) -> RequestRecord {
    RequestRecord {
        due_ns,
        sent_ns: 0,
        first_byte_ns: 0,
        first_token_ns: 0,
        ended_ns,
        own_ns,
        bytes: RequestRecord::UNKNOWN,
        trace: 0,
        tokens_in: 0,
        tokens_out: 0,
        conversation: 0,
        turn: 0,
        name: u32::MAX,
        connection: u32::MAX,
        status: 0,
        without_response: Some(WithoutResponse::Unsent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: RecordLimits = RecordLimits {
        chunk_records: 2,
        chunks_max: 2,
        chunks_at_end_max: 3,
    };

    fn batches(receiver: &Receiver<RecordMessage>) -> Vec<RecordBatch> {
        let messages = receiver.try_iter();
        let batches = messages.filter_map(|message| match message {
            RecordMessage::Batch(batch) => Some(batch),
            RecordMessage::End => None,
        });
        batches.collect()
    }

    fn fill(sink: &mut RecordSink, due_ns: std::ops::Range<u64>) {
        due_ns.for_each(|due_ns| sink.add(unsent(due_ns, 0, 0)));
    }

    fn due_ns(batches: &[RecordBatch]) -> Vec<u64> {
        let records = batches.iter().flat_map(|batch| &batch.records);
        records.map(|record| record.due_ns).collect()
    }

    #[test]
    fn records_that_find_no_chunk_are_counted_as_lost() {
        let (sender, receiver) = RecordSender::new(SMALL);
        let mut sink = sender.of_worker(3, 7);
        fill(&mut sink, 0..7);
        let full = batches(&receiver);
        assert_eq!(due_ns(&full), [0, 1, 2, 3]);
        assert_eq!((full[0].worker, full[0].measure_ns), (3, 7));
        assert!(full.iter().all(|batch| batch.lost == 0));
        drop(sink);
        let last = batches(&receiver);
        assert_eq!((due_ns(&last), last[0].lost), (vec![], 3));
    }

    #[test]
    fn chunks_that_are_given_back_are_filled_again() {
        let (sender, receiver) = RecordSender::new(SMALL);
        let mut sink = sender.of_worker(0, 0);
        for turn in 0..10 {
            fill(&mut sink, 4 * turn..4 * turn + 4);
            sink.hand_over();
            let full = batches(&receiver);
            assert_eq!(due_ns(&full), Vec::from_iter(4 * turn..4 * turn + 4));
            assert!(full.iter().all(|batch| batch.lost == 0));
            full.into_iter().for_each(RecordBatch::give_back);
        }
        assert_eq!(sink.made, 2);
    }

    #[test]
    fn after_the_window_more_records_fit() {
        let (sender, receiver) = RecordSender::new(SMALL);
        let mut sink = sender.of_worker(0, 0);
        sink.end_window();
        fill(&mut sink, 0..7);
        drop(sink);
        let all = batches(&receiver);
        assert_eq!(due_ns(&all), [0, 1, 2, 3, 4, 5]);
        assert_eq!(all.iter().map(|batch| batch.lost).sum::<u64>(), 1);
    }

    #[test]
    fn a_response_that_was_read_late_changes_the_record_of_its_connection() {
        let (sender, receiver) = RecordSender::new(RecordLimits::default());
        let mut sink = sender.of_worker(0, 0);
        for connection in [1, 2] {
            sink.add(RequestRecord {
                connection,
                without_response: None,
                ..unsent(5, 9, 0)
            });
        }
        sink.was_read_late(2, 9, 4);
        sink.was_read_late(3, 9, 4);
        drop(sink);
        let own_ns: Vec<u64> = batches(&receiver)[0]
            .records
            .iter()
            .map(|it| it.own_ns)
            .collect();
        assert_eq!(own_ns, [0, 4]);
    }
}
