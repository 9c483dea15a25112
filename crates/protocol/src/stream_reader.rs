//! Reads the bodies of streaming responses: splits them into events and, if these are a language
//! model's, finds their tokens.

use plan::EventsFormat;

use crate::llm::{Answer, LlmScanner, LlmStream};
use crate::stream_events::{EventSink, EventSplitter, StreamSpec};
use crate::stream_head::StreamHead;

/// What a read has brought.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    /// Events, without the end marker.
    pub events: u32,
    /// Those of them with generated text of any channel.
    pub tokens: u32,
    /// Those of them with visible text.
    pub texts: u32,
}

/// What is known about a stream when its response is complete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamTotal {
    /// Events, without the end marker.
    pub events: u64,
    /// The end marker has arrived, or the end that the dialect has.
    pub has_end_marker: bool,
    /// The body was compressed (Content-Encoding), so that nothing in it was read.
    pub is_compressed: bool,
    /// With [`EventsFormat::Llm`]: what the events said. It has no times: the session has no clock.
    pub llm: Option<Box<LlmStream>>,
}

/// What a language model's server said in one response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// What the model said, with [`StreamSpec::keeps_answers`].
    Answer(Answer),
    /// The first response with a status from 400 on that this reader got.
    Error {
        /// The status code of the response, 400..=999.
        status: u16,
        /// The beginning of the body.
        body: Vec<u8>,
    },
    /// The server asks to wait before the next request: the status is 429 or 503.
    Wait {
        /// How long (Retry-After), seconds; `None` if it does not say.
        retry_after_s: Option<u32>,
    },
}

/// How much of the body of an error is kept, in bytes: more than a server says in one.
const REFUSAL_BYTES_MAX: usize = 1024;

/// Stands for the body of an error that is compressed.
const COMPRESSED: &[u8] = b"(a compressed body)";

/// Reads one body after the other.
#[derive(Debug, Clone)]
pub struct StreamReader {
    splitter: EventSplitter,
    /// The body is compressed.
    is_compressed: bool,
    llm: Option<Box<LlmReader>>,
}

/// Reads the events of a language model.
#[derive(Debug, Clone)]
struct LlmReader {
    scanner: LlmScanner,
    /// Its times mean nothing.
    stream: LlmStream,
    tokens: u32,
    texts: u32,
    /// Whether the body has shown how its events are separated.
    is_framed: bool,
    refusal: Refusal,
    /// Set while a response arrives that asks to wait.
    wait: Option<Said>,
}

/// The body of the first response that is an error. One is enough, and costs no more allocations.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Refusal {
    Awaited,
    Arriving { status: u16, body: Vec<u8> },
    Told,
}

impl Refusal {
    fn begin(&mut self, status: u16, is_compressed: bool) {
        let body: &[u8] = if is_compressed { COMPRESSED } else { b"" };
        *self = match (std::mem::replace(self, Self::Told), status) {
            (Self::Told, _) => Self::Told,
            (_, 400..) => Self::Arriving {
                status,
                body: body.to_vec(),
            },
            _ => Self::Awaited,
        };
    }

    fn content(&mut self, bytes: &[u8]) {
        if let Self::Arriving { body, .. } = self {
            let room = REFUSAL_BYTES_MAX - body.len();
            body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    fn take(&mut self) -> Option<Said> {
        if !matches!(self, Self::Arriving { .. }) {
            return None;
        }
        match std::mem::replace(self, Self::Told) {
            Self::Arriving { status, body } => Some(Said::Error { status, body }),
            _ => None,
        }
    }
}

impl LlmReader {
    /// Gets the events of the splitter.
    fn sink(&mut self) -> impl EventSink + '_ {
        let Self {
            scanner,
            stream,
            tokens,
            texts,
            ..
        } = self;
        scanner.sink(move |event| {
            stream.add(0, &event);
            *tokens += u32::from(event.has_tokens());
            *texts += u32::from(event.has_text);
        })
    }
}

impl StreamReader {
    /// A reader that waits for a body.
    #[must_use]
    pub fn new(spec: &StreamSpec) -> Self {
        let llm = (spec.format == EventsFormat::Llm).then(|| {
            let scanner = LlmScanner::new(spec.dialect);
            Box::new(LlmReader {
                scanner: if spec.keeps_answers {
                    scanner.keeping_answers()
                } else {
                    scanner
                },
                stream: LlmStream::default(),
                tokens: 0,
                texts: 0,
                is_framed: false,
                refusal: Refusal::Awaited,
                wait: None,
            })
        });
        Self {
            splitter: EventSplitter::new(spec.clone()),
            is_compressed: false,
            llm,
        }
    }

    /// The body of a stream begins, whose head had nothing special.
    pub fn begin_stream(&mut self) {
        self.begin(200, StreamHead::default());
    }

    /// A response begins; only one with a status of 2xx is a stream.
    pub(crate) fn begin(&mut self, status: u16, head: StreamHead) {
        self.splitter.begin(status);
        self.is_compressed = head.is_compressed;
        if let Some(llm) = &mut self.llm {
            llm.scanner.begin();
            llm.stream = LlmStream::default();
            (llm.tokens, llm.texts) = (0, 0);
            llm.is_framed = false;
            llm.refusal.begin(status, head.is_compressed);
            llm.wait = matches!(status, 429 | 503).then(|| Said::Wait {
                retry_after_s: head.wait_s,
            });
        }
    }

    /// What was said in the response that is complete, as far as that is to be told.
    pub fn take_said(&mut self) -> impl Iterator<Item = Box<Said>> + use<> {
        let said = self.llm.as_mut().map(|llm| {
            let answer = llm.scanner.take_answer().map(Said::Answer);
            [llm.wait.take(), llm.refusal.take(), answer]
        });
        said.into_iter().flatten().flatten().map(Box::new)
    }

    /// The next bytes of the body, without the framing of the protocol.
    pub fn content(&mut self, bytes: &[u8]) {
        if self.is_compressed {
            return;
        }
        let Some(llm) = &mut self.llm else {
            return self.splitter.content(bytes);
        };
        llm.refusal.content(bytes);
        let mut bytes = bytes;
        if !llm.is_framed {
            bytes = bytes.trim_ascii_start();
            let Some(first) = bytes.first() else {
                return;
            };
            self.splitter.set_framing(match first {
                b'{' => EventsFormat::Lines,
                _ => EventsFormat::Sse,
            });
            llm.is_framed = true;
        }
        self.splitter.content_to(bytes, &mut llm.sink());
    }

    /// A chunk or a DATA frame is complete.
    pub fn end_chunk(&mut self) {
        self.splitter.end_chunk();
    }

    /// What was found since the last call.
    #[inline]
    pub fn take_found(&mut self) -> Found {
        let events = self.splitter.take_found();
        match &mut self.llm {
            None => Found {
                events,
                ..Found::default()
            },
            Some(llm) => Found {
                events,
                tokens: std::mem::take(&mut llm.tokens),
                texts: std::mem::take(&mut llm.texts),
            },
        }
    }

    /// The body is complete. Returns the totals of a stream, `None` if it was none.
    ///
    /// A last line without an end is a line. An SSE event without its empty line is not dispatched,
    /// but the end marker counts.
    pub fn finish(&mut self) -> Option<StreamTotal> {
        let Some(llm) = &mut self.llm else {
            let total = self.splitter.finish()?;
            return Some(StreamTotal {
                events: total.events,
                has_end_marker: total.has_end_marker,
                is_compressed: self.is_compressed,
                llm: None,
            });
        };
        let total = self.splitter.finish_to(&mut llm.sink())?;
        if total.has_end_marker {
            llm.stream.end_marker();
        }
        Some(StreamTotal {
            events: total.events,
            has_end_marker: llm.stream.shows_end(),
            is_compressed: self.is_compressed,
            llm: Some(Box::new(llm.stream)),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn reader(format: EventsFormat) -> StreamReader {
        StreamReader::new(&StreamSpec {
            format,
            end_marker: Arc::from(&b"[DONE]"[..]),
            dialect: None,
            keeps_answers: false,
        })
    }

    /// What the reader says about a response.
    fn said(reader: &mut StreamReader, status: u16, parts: &[&[u8]]) -> Vec<Said> {
        reader.begin(status, StreamHead::default());
        parts.iter().for_each(|part| reader.content(part));
        reader.finish();
        reader.take_said().map(|said| *said).collect()
    }

    fn error(status: u16, body: &[u8]) -> Said {
        let body = body.to_vec();
        Said::Error { status, body }
    }

    #[test]
    fn the_begin_of_the_first_error_is_kept_and_no_other_body() {
        let mut reader = reader(EventsFormat::Llm);
        assert_eq!(said(&mut reader, 200, &[b"data: {}\n\n"]), []);
        let found = said(&mut reader, 401, &[b"no ", b"key"]);
        assert_eq!(found, [error(401, b"no key")]);
        assert_eq!(said(&mut reader, 500, &[b"again"]), []);
    }

    #[test]
    fn an_error_may_have_no_body_or_a_long_one() {
        let empty = said(&mut reader(EventsFormat::Llm), 404, &[]);
        assert_eq!(empty, [error(404, b"")]);
        let long = [&[b'a'; 1000][..], &[b'b'; 1000]];
        let long = said(&mut reader(EventsFormat::Llm), 500, &long);
        let begin = [[b'a'; 1000].as_slice(), &[b'b'; 24]].concat();
        assert_eq!(long, [error(500, &begin)]);
    }

    #[test]
    fn each_response_that_asks_to_wait_says_so() {
        let mut reader = reader(EventsFormat::Llm);
        let head = StreamHead {
            wait_s: Some(7),
            ..StreamHead::default()
        };
        let mut waits = |status: u16, head: StreamHead| {
            reader.begin(status, head);
            reader.finish();
            let all = reader.take_said().map(|said| *said);
            let waits = all.filter_map(|said| match said {
                Said::Wait { retry_after_s } => Some(retry_after_s),
                _ => None,
            });
            waits.collect::<Vec<_>>()
        };
        assert_eq!(waits(429, head), [Some(7)]);
        assert_eq!(waits(503, StreamHead::default()), [None]);
        assert_eq!(waits(200, head), []);
        assert_eq!(waits(500, head), []);
        assert_eq!(waits(429, head), [Some(7)]);
    }

    #[test]
    fn nothing_of_a_compressed_body_is_read() {
        for format in [EventsFormat::Llm, EventsFormat::Sse] {
            let mut reader = reader(format);
            let head = StreamHead {
                is_compressed: true,
                ..StreamHead::default()
            };
            reader.begin(200, head);
            reader.content(b"data: {}\n\n");
            let total = reader.finish().expect("it is a stream");
            assert!(total.is_compressed && total.events == 0);
            assert_eq!(reader.take_found(), Found::default());
            reader.begin(200, StreamHead::default());
            reader.content(b"data: {}\n\n");
            let total = reader.finish().expect("it is a stream");
            assert!(!total.is_compressed && total.events == 1);
        }
        let mut reader = reader(EventsFormat::Llm);
        let head = StreamHead {
            is_compressed: true,
            ..StreamHead::default()
        };
        reader.begin(400, head);
        reader.content(b"\x1f\x8b");
        let found: Vec<_> = reader.take_said().collect();
        assert_eq!(*found[0], error(400, COMPRESSED));
    }

    #[test]
    fn bodies_of_other_servers_are_not_kept() {
        assert_eq!(said(&mut reader(EventsFormat::Sse), 503, &[b"x"]), []);
    }
}
