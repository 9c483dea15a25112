//! A generation in progress: which event is due when.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::dialect::{Split, Writer};
use super::{Dialect, LlmStream, has_prelude};
use crate::context::Context;
use crate::delay::Delay;
use crate::events::EVENTS_MAX;

/// The longest size line of a chunk, in bytes.
const SIZE_LINE_MAX_BYTES: usize = 20;

/// What a response generates. Events are written when they are due, so it needs little memory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Generation {
    pub(crate) llm: LlmStream,
    pub(crate) dialect: Dialect,
    /// From the head to the first token.
    pub(crate) first: Delay,
    /// From one event with tokens to the next.
    pub(crate) gap: Delay,
    /// The last event, as it is written; empty for none.
    pub(crate) end_marker: Vec<u8>,
    /// Only the first half of the events with tokens, and no end.
    pub(crate) is_half: bool,
    /// Each piece is a chunk of HTTP/1.1.
    pub(crate) is_chunked: bool,
    /// The largest DATA frame, in bytes.
    pub(crate) frame_bytes_max: u64,
    /// Bytes are sent one by one, this long after each other, in nanoseconds.
    pub(crate) byte_interval_ns: Option<u64>,
}

/// What to do now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Ask again at this time.
    Wait(u64),
    /// Send some of [`Running::rest`] and call [`Running::handed`].
    Piece,
    /// Everything was sent.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Prelude,
    Tokens(u64),
    Comment,
    Error,
    End,
}

/// The state of a generation.
#[derive(Debug)]
pub(crate) struct Running {
    split: Split,
    tokens_sent: u64,
    events_sent: u64,
    /// The prelude was written.
    has_prelude: bool,
    sequence: u64,
    /// When the first token is due.
    first_ns: u64,
    /// When the next event is due.
    due_ns: u64,
    /// When something was sent last, or the beginning.
    sent_ns: u64,
    is_over: bool,
    piece: Piece,
    /// The bytes of the piece, and how many of them were sent.
    buffer: Vec<u8>,
    taken: usize,
    log_index: Option<usize>,
    _counted: Counted,
}

/// One of the generations in progress on all threads, until it is dropped.
#[derive(Debug)]
struct Counted(Arc<AtomicU64>);

impl Counted {
    fn new(all: &Arc<AtomicU64>) -> Self {
        all.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(all))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The gap when this many streams are in progress, this one included: gap * (1 + others / batch).
fn stretched_ns(gap_ns: u64, streams: u64, batch: Option<u64>) -> u64 {
    let Some(batch) = batch else {
        return gap_ns;
    };
    let others = u128::from(streams.saturating_sub(1));
    let more_ns = u128::from(gap_ns) * others / u128::from(batch.max(1));
    gap_ns.saturating_add(u64::try_from(more_ns).unwrap_or(u64::MAX))
}

impl Running {
    /// A generation whose head is sent at this time.
    pub(crate) fn begin(
        generation: &Generation,
        now_ns: u64,
        log_index: Option<usize>,
        context: &mut Context,
    ) -> Self {
        let Generation { llm, first, .. } = generation;
        let random = &mut context.random;
        let split = Split::new(llm.tokens.sample(random).min(EVENTS_MAX), llm);
        let reading_ns = llm.reading_ns();
        let first_ns = now_ns.saturating_add(first.sample_ns(random).saturating_add(reading_ns));
        let prelude = llm.prelude.filter(|_| has_prelude(generation.dialect));
        let due_ns = match prelude {
            Some(delay) => now_ns.saturating_add(delay.sample_ns(random)),
            None => first_ns,
        };
        if let Some(index) = log_index {
            context.log.generate(index);
        }
        Self {
            split,
            tokens_sent: 0,
            events_sent: 0,
            has_prelude: prelude.is_none(),
            sequence: 0,
            first_ns,
            due_ns,
            sent_ns: now_ns,
            is_over: false,
            piece: Piece::Prelude,
            buffer: Vec::new(),
            taken: 0,
            log_index,
            _counted: Counted::new(&context.generating),
        }
    }

    /// What to do now.
    pub(crate) fn next(&mut self, generation: &Generation, now_ns: u64) -> Turn {
        if self.taken < self.buffer.len() {
            return Turn::Piece;
        }
        let half = self.split.events(generation.llm.per_event) / 2;
        let half = generation.is_half.then_some(half);
        let mut ends = half.into_iter().chain(generation.llm.cut_after);
        let is_cut = self.has_prelude && ends.any(|end| self.events_sent >= end);
        if self.is_over || is_cut {
            return Turn::End;
        }
        if now_ns < self.due_ns {
            let comments_ns = generation.llm.comments_ns;
            let comment_ns =
                comments_ns.map(|interval_ns| self.sent_ns.saturating_add(interval_ns));
            match comment_ns.filter(|&ns| ns < self.due_ns) {
                Some(ns) if ns <= now_ns => self.piece = Piece::Comment,
                Some(ns) => return Turn::Wait(ns),
                None => return Turn::Wait(self.due_ns),
            }
        } else {
            self.piece = self.due_piece(generation);
        }
        self.write(generation);
        Turn::Piece
    }

    fn due_piece(&self, generation: &Generation) -> Piece {
        let left = self.split.tokens() - self.tokens_sent;
        if !self.has_prelude {
            Piece::Prelude
        } else if generation.llm.error_after == Some(self.events_sent) {
            Piece::Error
        } else if left == 0 {
            Piece::End
        } else {
            let channel = self.split.channel(self.tokens_sent);
            let of_channel = self.split.range(channel).end - self.tokens_sent;
            Piece::Tokens(of_channel.min(generation.llm.per_event))
        }
    }

    /// Writes the piece, which is never empty, into the buffer.
    fn write(&mut self, generation: &Generation) {
        self.buffer.clear();
        self.taken = 0;
        let is_first = self.events_sent == 0 && !matches!(self.piece, Piece::Comment);
        let mut writer = Writer {
            llm: &generation.llm,
            dialect: generation.dialect,
            split: self.split,
            sequence: &mut self.sequence,
            output: &mut self.buffer,
        };
        // Without a prelude of its own, what a dialect cannot do without comes with the first
        // event.
        let opens = generation.llm.prelude.is_none()
            && matches!(generation.dialect, Dialect::Anthropic | Dialect::Responses);
        if opens && is_first {
            writer.prelude();
        }
        match self.piece {
            Piece::Prelude => writer.prelude(),
            Piece::Tokens(count) => writer.tokens(self.tokens_sent..self.tokens_sent + count),
            Piece::Comment => writer.output.extend_from_slice(b": ping\n\n"),
            Piece::Error => writer.error(),
            Piece::End => writer.end(),
        }
        if matches!(self.piece, Piece::Error | Piece::End) {
            self.buffer.extend_from_slice(&generation.end_marker);
        }
        if generation.is_chunked {
            frame(&mut self.buffer);
        }
    }

    /// What of the piece was not sent.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.buffer[self.taken..]
    }

    /// This many bytes of the piece were handed over.
    pub(crate) fn handed(
        &mut self,
        bytes: usize,
        generation: &Generation,
        now_ns: u64,
        context: &mut Context,
    ) {
        self.taken += bytes;
        if self.taken < self.buffer.len() {
            return;
        }
        self.sent_ns = now_ns;
        match self.piece {
            Piece::Comment => {}
            Piece::Prelude => {
                self.has_prelude = true;
                self.due_ns = self.first_ns.max(now_ns);
            }
            Piece::Tokens(count) => {
                self.tokens_sent += count;
                self.events_sent += 1;
                context.counters().tokens_sent.add(count);
                if let Some(index) = self.log_index {
                    context.log.tokens(index, now_ns, count);
                }
                self.due_ns = now_ns.saturating_add(self.gap_ns(generation, context));
            }
            Piece::Error => {
                if let Some(index) = self.log_index {
                    context.log.fail(index);
                }
                self.is_over = true;
            }
            Piece::End => self.is_over = true,
        }
    }

    /// From an event with tokens to the next event. The end comes at once.
    fn gap_ns(&self, generation: &Generation, context: &mut Context) -> u64 {
        let is_error_next = generation.llm.error_after == Some(self.events_sent);
        if self.tokens_sent == self.split.tokens() && !is_error_next {
            return 0;
        }
        let gap_ns = generation.gap.sample_ns(&mut context.random);
        let streams = context.generating.load(Ordering::Relaxed);
        stretched_ns(gap_ns, streams, generation.llm.batch)
    }
}

/// Makes a chunk of the bytes (RFC 9112 section 7.1).
fn frame(bytes: &mut Vec<u8>) {
    let mut line = [0; SIZE_LINE_MAX_BYTES];
    let mut left = line.as_mut_slice();
    // The longest size has 16 digits.
    let _ = write!(left, "{:x}\r\n", bytes.len());
    let unused = left.len();
    bytes.splice(..0, line[..SIZE_LINE_MAX_BYTES - unused].iter().copied());
    bytes.extend_from_slice(b"\r\n");
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::report::LoggedRequest;

    const MS: u64 = 1_000_000;

    /// When each piece of a whole generation is sent, without waits other than its own, and what.
    pub(in crate::llm) fn pieces(recipe: &str, context: &mut Context) -> Vec<(u64, String)> {
        let recipe = crate::Recipe::from_text(recipe).unwrap();
        let generation = recipe.events.generation(false).unwrap();
        pieces_of(&generation, context)
    }

    fn pieces_of(generation: &Generation, context: &mut Context) -> Vec<(u64, String)> {
        let mut now_ns = 0;
        let mut running = Running::begin(generation, now_ns, Some(0), context);
        let mut all = Vec::new();
        loop {
            match running.next(generation, now_ns) {
                Turn::Wait(until_ns) => {
                    assert!(until_ns > now_ns, "a wait for the past would never end");
                    now_ns = until_ns;
                }
                Turn::Piece => {
                    let bytes = running.rest().to_vec();
                    running.handed(bytes.len(), generation, now_ns, context);
                    all.push((now_ns, String::from_utf8(bytes).unwrap()));
                }
                Turn::End => return all,
            }
        }
    }

    fn times_ms(recipe: &str) -> Vec<u64> {
        let all = pieces(recipe, &mut Context::simulated(""));
        all.iter().map(|(at_ns, _)| at_ns / MS).collect()
    }

    #[test]
    fn the_prelude_the_first_token_and_the_gaps_come_when_they_are_due() {
        for (recipe, expected) in [
            ("llm=openai&tokens=3", vec![0, 0, 0, 0, 0]),
            (
                "llm=openai&tokens=3&prelude=10ms&first=500ms&gap=20ms",
                vec![10, 500, 520, 540, 540],
            ),
            // The first token waits for the prelude.
            (
                "llm=openai&tokens=2&prelude=1s&first=500ms&gap=20ms",
                vec![1000, 1000, 1020, 1020],
            ),
            (
                "llm=openai&tokens=2&prelude=none&first=500ms&gap=20ms",
                vec![500, 520, 520],
            ),
            (
                "llm=ollama&tokens=2&prelude=1s&first=500ms&gap=20ms",
                vec![500, 520, 520],
            ),
            // The gap is between events, whatever they have.
            (
                "llm=anthropic&tokens=5&per-event=2&first=1s&gap=20ms",
                vec![0, 1000, 1020, 1040, 1040],
            ),
            // Without a token the end comes when the first would.
            ("llm=openai&tokens=0&first=1s", vec![0, 1000]),
            // An error takes the time of the event that it replaces.
            (
                "llm=openai&tokens=9&first=1s&gap=20ms&llm-error=2",
                vec![0, 1000, 1020, 1040],
            ),
            (
                "llm=openai&tokens=2&first=1s&gap=20ms&llm-error=2",
                vec![0, 1000, 1020, 1040],
            ),
            ("llm=openai&first=1s&llm-error=0", vec![0, 1000]),
        ] {
            assert_eq!(times_ms(recipe), expected, "{recipe}");
        }
    }

    #[test]
    fn comments_come_when_nothing_was_sent_for_as_long() {
        let recipe = "llm=openai&tokens=2&first=35ms&gap=20ms&comments=10ms";
        let all = pieces(recipe, &mut Context::simulated(""));
        let comments_ms: Vec<_> = all
            .iter()
            .filter(|(_, text)| text == ": ping\n\n")
            .map(|(at_ns, _)| at_ns / MS)
            .collect();
        assert_eq!(comments_ms, [10, 20, 30, 45]);
        let mut others_ms = times_ms(recipe);
        others_ms.retain(|ms| !comments_ms.contains(ms));
        assert_eq!(others_ms, [0, 35, 55, 55]);
    }

    #[test]
    fn a_gap_grows_with_the_other_streams_in_progress() {
        for (streams, batch, expected_ms) in [
            (1, None, 20),
            (100, None, 20),
            (1, Some(8), 20),
            (2, Some(1), 40),
            (5, Some(8), 30),
            (9, Some(8), 40),
            (17, Some(8), 60),
            // A stream that is just ending is counted by nobody.
            (0, Some(8), 20),
        ] {
            let found = stretched_ns(20 * MS, streams, batch);
            assert_eq!(found, expected_ms * MS, "{streams} {batch:?}");
        }
        assert_eq!(stretched_ns(u64::MAX, u64::MAX, Some(1)), u64::MAX);
    }

    #[test]
    fn streams_count_from_their_head_to_their_end_on_all_threads() {
        let mut context = Context::simulated("");
        let in_progress = Arc::clone(&context.generating);
        let recipe = crate::Recipe::from_text("llm=openai&tokens=3&gap=10ms&batch=2").unwrap();
        let generation = recipe.events.generation(false).unwrap();
        let others: Vec<_> = (0..4)
            .map(|_| Running::begin(&generation, 0, None, &mut context))
            .collect();
        assert_eq!(in_progress.load(Ordering::Relaxed), 4);
        // Four others double the batch of two: 10 ms * (1 + 4 / 2).
        let crowded = pieces_of(&generation, &mut context);
        assert_eq!(crowded.last().map(|(at_ns, _)| *at_ns), Some(60 * MS));
        drop(others);
        let alone = pieces_of(&generation, &mut context);
        assert_eq!(alone.last().map(|(at_ns, _)| *at_ns), Some(20 * MS));
        assert_eq!(in_progress.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_log_has_the_times_of_tokens_and_no_others() {
        for (recipe, expected) in [
            (
                "llm=anthropic&tokens=5&per-event=2&prelude=1ms&first=30ms&gap=10ms&comments=2ms",
                (Some(30 * MS), Some(50 * MS), 5, false),
            ),
            (
                "llm=openai&tokens=5&first=30ms&gap=10ms&llm-error=2",
                (Some(30 * MS), Some(40 * MS), 2, true),
            ),
            ("llm=openai&llm-error=0", (None, None, 0, true)),
            ("llm=openai&tokens=0", (None, None, 0, false)),
        ] {
            let mut context = Context::simulated("");
            context.log.arrive(LoggedRequest {
                connection: 0,
                arrival_ns: 0,
                departure_ns: None,
                status: 200,
                bytes: 0,
                generated: None,
            });
            pieces(recipe, &mut context);
            let counts = context.counters().counts();
            let report = context.log.into_report(counts, None);
            let generated = report.requests[0].generated.clone().unwrap();
            let found = (
                generated.first_token_ns,
                generated.last_token_ns,
                generated.tokens,
                generated.is_failed,
            );
            assert_eq!(found, expected, "{recipe}");
            assert_eq!(counts.tokens_sent, generated.tokens, "{recipe}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers_of_tokens() {
        let lengths = || -> Vec<usize> {
            let mut context = Context::simulated("");
            (0..50)
                .map(|_| pieces("llm=ollama&tokens=lognormal:20,0.7", &mut context).len())
                .collect()
        };
        let first = lengths();
        assert_eq!(first, lengths());
        assert!(first.iter().any(|length| *length != first[0]), "{first:?}");
    }

    #[test]
    fn half_a_generation_is_half_of_its_events_with_tokens() {
        for (tokens, per_event, expected) in [(8, 1, 4), (9, 1, 4), (9, 4, 1), (1, 1, 0), (0, 1, 0)]
        {
            let text = format!("llm=completions&tokens={tokens}&per-event={per_event}");
            let recipe = crate::Recipe::from_text(&text).unwrap();
            let generation = recipe.events.generation(true).unwrap();
            let found = pieces_of(&generation, &mut Context::simulated(""));
            assert_eq!(found.len(), expected, "{text}");
        }
    }

    #[test]
    fn a_chunk_has_its_size_in_front() {
        let mut bytes = vec![b'x'; 300];
        frame(&mut bytes);
        assert!(bytes.starts_with(b"12c\r\nxxx") && bytes.ends_with(b"xxx\r\n"));
        assert_eq!(bytes.len(), 300 + 5 + 2);
    }
}
