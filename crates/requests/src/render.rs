//! Makes the bytes of requests: the values of one worker.

use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use fastrand::Rng;
use grpc::put_varint;
use protocol::Captured;

use crate::capture::Client;
use crate::conversations::Dialogue;
use crate::order::Picker;
use crate::set::{Filling, Gap, RequestSet};
use crate::template::{UUID_BYTES, Value};

/// A moment on the wall clock, milliseconds since 1970 (UTC).
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Milliseconds since 1970-01-01 UTC.
    pub unix_ms: u64,
}

/// Chooses the requests of one worker and makes their bytes. The same seed and the same worker give
/// the same requests, apart from times.
#[derive(Debug)]
pub struct Renderer {
    set: Arc<RequestSet>,
    picker: Picker,
    rng: Rng,
    values: Values,
    /// Values of a body, which are needed before the body is written.
    scratch: Vec<u8>,
    /// Where each of them is.
    places: Vec<Range<usize>>,
    /// If requests capture values: what each client has.
    clients: Vec<Client>,
}

/// Values that depend on earlier requests.
#[derive(Debug)]
struct Values {
    /// Number of workers: the step between two numbers of a sequence.
    step: u64,
    next_seq: u64,
    /// The number of this request, if it has been used.
    seq: Option<u64>,
    rows: Vec<TableCursor>,
    /// The text of a number.
    text: Vec<u8>,
    /// What the conversation of this request says, and its name.
    conversation: (Vec<u8>, Vec<u8>),
}

/// Where a worker is in a table.
#[derive(Debug, Clone, Copy)]
struct TableCursor {
    next: usize,
    /// The row of this request, if it has been used.
    current: Option<usize>,
}

/// Spreads the numbers of workers over all seeds: 2^64 divided by the golden ratio.
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Renderer {
    /// The requests of worker `number` of `total`, on all machines.
    #[must_use]
    pub fn new(set: Arc<RequestSet>, seed: u64, number: u32, total: u32) -> Self {
        let row = |rows: usize| TableCursor {
            next: number as usize % rows.max(1),
            current: None,
        };
        Self {
            picker: Picker::new(&set, number, total),
            rng: Rng::with_seed(seed.wrapping_add(SEED_STEP.wrapping_mul(u64::from(number) + 1))),
            values: Values {
                step: u64::from(total.max(1)),
                next_seq: u64::from(number) + 1,
                seq: None,
                rows: set.tables.iter().map(|table| row(table.rows())).collect(),
                text: Vec::new(),
                conversation: Default::default(),
            },
            set,
            scratch: Vec::new(),
            places: Vec::new(),
            clients: Vec::new(),
        }
    }

    /// Sets the number of clients. It matters only if requests capture values: then each client
    /// sends the requests of the file one after the other, from the first one on.
    #[must_use]
    pub fn with_clients(mut self, clients: u32) -> Self {
        if self.set.has_captures() {
            self.clients = vec![Client::new(&self.set); clients as usize];
        }
        self
    }

    /// The requests that are rendered.
    #[must_use]
    pub fn set(&self) -> &Arc<RequestSet> {
        &self.set
    }

    /// The index of the next request of a client.
    #[inline]
    pub fn next_request(&mut self, client: u32) -> usize {
        match self.clients.get_mut(client as usize) {
            Some(client) => client.next(&self.set),
            None => self.picker.next(&self.set, &mut self.rng),
        }
    }

    /// Takes what the last request of a client captures from its response. Returns whether every
    /// value was there.
    pub fn receive(&mut self, client: u32, response: &Captured) -> bool {
        let client = self.clients.get_mut(client as usize);
        client.is_none_or(|client| client.receive(&self.set, response))
    }

    /// Appends the bytes of a request of a client to `output`.
    #[inline]
    pub fn render(&mut self, request: usize, client: u32, now: Moment, output: &mut Vec<u8>) {
        let compiled = &self.set.requests[request];
        if compiled.gaps == 0 {
            output.extend_from_slice(&self.set.bytes[compiled.range()]);
            return;
        }
        self.fill(request, client, now, output);
    }

    /// Appends the bytes of the next request of a conversation, which has this name, to `output`.
    pub fn render_turn(
        &mut self,
        request: usize,
        (dialogue, name): (&Dialogue, &[u8]),
        now: Moment,
        output: &mut Vec<u8>,
    ) {
        let (members, id) = &mut self.values.conversation;
        members.clear();
        id.clear();
        id.extend_from_slice(name);
        if let Some(conversation) = self.set.conversation(request) {
            dialogue.write_members(conversation, &conversation.rules, members);
        }
        self.fill(request, 0, now, output);
    }

    fn fill(&mut self, request: usize, client: u32, now: Moment, output: &mut Vec<u8>) {
        let Self {
            set,
            rng,
            values,
            scratch,
            places,
            clients,
            ..
        } = self;
        let client = clients.get(client as usize);
        let compiled = &set.requests[request];
        values.begin_request();
        let Range {
            start: mut begin,
            end,
        } = compiled.range();
        let mut body = None;
        let gaps = set.gaps_of(compiled);
        for (number, gap) in gaps.iter().enumerate() {
            output.extend_from_slice(&set.bytes[begin..gap.at]);
            begin = gap.at;
            match (gap.filling, body) {
                (_, Some(first)) => {
                    let place: &Range<usize> = &places[number - first];
                    output.extend_from_slice(&scratch[place.clone()]);
                }
                (Filling::ContentLength, None) => {
                    let in_body = &gaps[number + 1..];
                    scratch.clear();
                    places.clear();
                    for gap in in_body {
                        let begin = scratch.len();
                        values.fill(gap.filling, set, client, rng, now, scratch);
                        places.push(begin..scratch.len());
                    }
                    put_lengths(in_body, places, scratch);
                    let values_bytes: usize = places.iter().map(Range::len).sum();
                    write_number(compiled.body_bytes as usize + values_bytes, output);
                    body = Some(number + 1);
                }
                (filling, None) => values.fill(filling, set, client, rng, now, output),
            }
        }
        output.extend_from_slice(&set.bytes[begin..end]);
    }
}

impl Values {
    #[inline]
    fn begin_request(&mut self) {
        self.seq = None;
        for row in &mut self.rows {
            row.current = None;
        }
    }

    /// Appends what fills a gap; nothing for a length, which depends on what follows.
    fn fill(
        &mut self,
        filling: Filling,
        set: &RequestSet,
        client: Option<&Client>,
        rng: &mut Rng,
        now: Moment,
        output: &mut Vec<u8>,
    ) {
        match filling {
            Filling::Value(value) => self.write(value, set, client, rng, now, output),
            Filling::Number { value, form } => {
                let mut text = std::mem::take(&mut self.text);
                text.clear();
                self.write(value, set, client, rng, now, &mut text);
                if !form.encode(&text, output) {
                    // Only {{seq}} can grow out of its type, which then has 32 bits. It begins
                    // again, as a counter of that type does.
                    let number = self.seq() & i32::MAX as u64;
                    form.encode(number.to_string().as_bytes(), output);
                }
                self.text = text;
            }
            Filling::Length { .. } | Filling::ContentLength => {}
        }
    }

    fn write(
        &mut self,
        value: Value,
        set: &RequestSet,
        client: Option<&Client>,
        rng: &mut Rng,
        now: Moment,
        output: &mut Vec<u8>,
    ) {
        match value {
            Value::Uuid => output.extend_from_slice(&uuid(rng.u128(..))),
            Value::Seq => write_number(self.seq(), output),
            Value::Rand { min, max } => write_number(rng.i64(min..=max), output),
            Value::NowMs => write_number(now.unix_ms, output),
            Value::NowSec => write_number(now.unix_ms / 1000, output),
            Value::Conversation => output.extend_from_slice(&self.conversation.0),
            Value::ConversationId => output.extend_from_slice(&self.conversation.1),
            Value::Cell { table, column } => {
                let (step, table_rows) = (self.step, &set.tables[table as usize]);
                let row = self.rows[table as usize].take(step, table_rows.rows());
                output.extend_from_slice(table_rows.cell(row, column));
            }
            Value::Captured { variable } => {
                let value = client.and_then(|client| client.value(variable));
                output.extend_from_slice(value.unwrap_or_default());
            }
        }
    }

    fn seq(&mut self) -> u64 {
        if let Some(seq) = self.seq {
            return seq;
        }
        let seq = self.next_seq;
        self.next_seq = seq.wrapping_add(self.step);
        self.seq = Some(seq);
        seq
    }
}

impl TableCursor {
    /// The row of this request: every worker takes each `step`-th.
    fn take(&mut self, step: u64, rows: usize) -> usize {
        if let Some(row) = self.current {
            return row;
        }
        let row = self.next;
        self.next = ((row as u64 + step) % rows as u64) as usize;
        self.current = Some(row);
        row
    }
}

/// Writes the lengths among the gaps of a body. Those that count others come before them.
fn put_lengths(gaps: &[Gap], places: &mut [Range<usize>], scratch: &mut Vec<u8>) {
    for (number, gap) in gaps.iter().enumerate().rev() {
        if let Filling::Length { bytes, gaps } = gap.filling {
            let counted = &places[number + 1..number + 1 + gaps as usize];
            let values_bytes: usize = counted.iter().map(Range::len).sum();
            let begin = scratch.len();
            put_varint((bytes as usize + values_bytes) as u64, scratch);
            places[number] = begin..scratch.len();
        }
    }
}

fn write_number(number: impl std::fmt::Display, output: &mut Vec<u8>) {
    let written = write!(output, "{number}");
    debug_assert!(written.is_ok(), "a vector takes every byte");
}

/// A random UUID as text: version 4, the variant of RFC 9562.
fn uuid(random: u128) -> [u8; UUID_BYTES] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let versioned = random & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let mut text = [b'-'; UUID_BYTES];
    let mut at = 0;
    for (number, byte) in versioned.to_be_bytes().into_iter().enumerate() {
        if matches!(number, 4 | 6 | 8 | 10) {
            at += 1;
        }
        text[at] = DIGITS[usize::from(byte >> 4)];
        text[at + 1] = DIGITS[usize::from(byte & 15)];
        at += 2;
    }
    text
}
