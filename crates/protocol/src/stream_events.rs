//! Finds the events in the body of a streaming response, without keeping any of it.

use std::sync::Arc;

use memchr::{memchr2, memchr2_iter};
use plan::{Dialect, EventsFormat};

use crate::h2::grpc::PREFIX_BYTES;

/// How the bodies of responses are split into events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSpec {
    /// What counts as an event.
    pub format: EventsFormat,
    /// The data of the event (SSE), the line or the chunk that ends a stream. It is not an event
    /// itself. Empty if there is none.
    pub end_marker: Arc<[u8]>,
    /// With [`EventsFormat::Llm`]: the format of the events; `None` if each event shows it.
    pub dialect: Option<Dialect>,
    /// With [`EventsFormat::Llm`]: keep what the model says.
    pub keeps_answers: bool,
}

/// What a splitter knows about a body when it is complete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SplitTotal {
    /// Events, without the end marker.
    pub events: u64,
    /// The end marker has arrived.
    pub has_end_marker: bool,
}

/// Gets the data of events as it arrives. `()` is one that needs none.
pub trait EventSink {
    /// The next bytes of the current event's data: the value of each `data` line with a line feed
    /// after it (SSE), the line, or the chunk. A call has any number of them.
    fn data(&mut self, part: &[u8]);

    /// The current event is complete, or it was the end marker. Data of an event that never ends
    /// is followed by nothing.
    fn end(&mut self, is_end_marker: bool);
}

impl EventSink for () {
    #[inline]
    fn data(&mut self, _part: &[u8]) {}

    #[inline]
    fn end(&mut self, _is_end_marker: bool) {}
}

/// Splits one body after the other into events. It keeps a few numbers, however long a line is.
#[derive(Debug, Clone)]
pub struct EventSplitter {
    spec: StreamSpec,
    /// Whether the current body is split.
    is_active: bool,
    /// Events found since the last [`Self::take_found`].
    found: u32,
    total: SplitTotal,
    line: LinePosition,
    /// Bytes of the end marker that the current value (SSE), line or chunk has so far; `None` if it
    /// differs.
    matched: Option<usize>,
    /// SSE: the data of the current event so far.
    data: LineData,
    /// SSE: the last byte was a CR, which an LF would belong to.
    after_cr: bool,
    /// gRPC: the prefix of the current message, the number of its bytes so far, and that of the
    /// message's bytes that are missing.
    prefix: [u8; PREFIX_BYTES],
    prefix_bytes: usize,
    missing_bytes: usize,
    /// SSE: bytes of a byte order mark at the start of the body; `None` after the start.
    bom: Option<u8>,
}

/// Where in a line the next byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinePosition {
    /// At the start of the line.
    Start,
    /// SSE: after this many bytes of the name `data`, at least 1.
    Name(u8),
    /// SSE: right after the colon of `data:`, where one space is skipped.
    Colon,
    /// In what is compared with the end marker.
    Value,
    /// SSE: in a comment or another field.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineData {
    /// No line with data: the event is not dispatched.
    None,
    /// One line, equal to the end marker.
    Marker,
    Text,
}

const DATA: &[u8; 4] = b"data";
const BOM: [u8; 3] = [0xef, 0xbb, 0xbf];

impl EventSplitter {
    /// A splitter that waits for a body.
    #[must_use]
    pub fn new(spec: StreamSpec) -> Self {
        Self {
            spec,
            is_active: false,
            found: 0,
            total: SplitTotal::default(),
            line: LinePosition::Start,
            matched: Some(0),
            data: LineData::None,
            after_cr: false,
            prefix: [0; PREFIX_BYTES],
            prefix_bytes: 0,
            missing_bytes: 0,
            bom: Some(0),
        }
    }

    /// A response begins; only one with a status of 2xx is a stream.
    pub fn begin(&mut self, status: u16) {
        self.is_active = (200..300).contains(&status);
        self.found = 0;
        self.total = SplitTotal::default();
        self.end_line();
        self.data = LineData::None;
        self.after_cr = false;
        self.prefix_bytes = 0;
        self.bom = Some(0);
    }

    /// The next bytes of the body, without the framing of the protocol.
    pub fn content(&mut self, bytes: &[u8]) {
        self.content_to(bytes, &mut ());
    }

    /// The same; `sink` gets the data of the events in these bytes.
    pub fn content_to(&mut self, bytes: &[u8], sink: &mut impl EventSink) {
        if !self.is_active {
            return;
        }
        match self.spec.format {
            EventsFormat::Sse | EventsFormat::Llm => self.sse_content(bytes, sink),
            EventsFormat::Lines => self.line_content(bytes, sink),
            EventsFormat::Chunks => self.value(bytes, sink),
            EventsFormat::Grpc => self.message_content(bytes, sink),
        }
    }

    /// The current body, of which nothing was split yet, is split in this way.
    pub fn set_framing(&mut self, format: EventsFormat) {
        self.spec.format = format;
    }

    /// A chunk or a DATA frame is complete.
    pub fn end_chunk(&mut self) {
        self.end_chunk_to(&mut ());
    }

    /// The same; `sink` is told if an event ends with it.
    pub fn end_chunk_to(&mut self, sink: &mut impl EventSink) {
        if self.is_active && self.spec.format == EventsFormat::Chunks {
            self.end_value_event(sink);
        }
    }

    /// The number of events since the last call.
    #[inline]
    pub fn take_found(&mut self) -> u32 {
        std::mem::take(&mut self.found)
    }

    /// The body is complete. Returns the totals of a stream, `None` if it was none.
    ///
    /// A last line without an end is a line. An SSE event without its empty line is not dispatched,
    /// but the end marker counts.
    pub fn finish(&mut self) -> Option<SplitTotal> {
        self.finish_to(&mut ())
    }

    /// The same; `sink` is told if an event ends with the body.
    pub fn finish_to(&mut self, sink: &mut impl EventSink) -> Option<SplitTotal> {
        if !self.is_active {
            return None;
        }
        match self.spec.format {
            EventsFormat::Sse | EventsFormat::Llm => {
                self.end_sse_line(sink);
                if self.data == LineData::Marker {
                    self.end_marker(sink);
                }
            }
            EventsFormat::Lines | EventsFormat::Chunks => self.end_value_event(sink),
            // A message that is not complete is none.
            EventsFormat::Grpc => {}
        }
        self.is_active = false;
        Some(self.total)
    }

    fn line_content(&mut self, bytes: &[u8], sink: &mut impl EventSink) {
        let mut start = 0;
        for end in memchr2_iter(b'\r', b'\n', bytes) {
            self.value(&bytes[start..end], sink);
            self.end_value_event(sink);
            start = end + 1;
        }
        self.value(&bytes[start..], sink);
    }

    /// Each message has a prefix: whether it is compressed, and its length ("gRPC over HTTP2",
    /// Length-Prefixed-Message).
    fn message_content(&mut self, bytes: &[u8], sink: &mut impl EventSink) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.prefix_bytes < PREFIX_BYTES {
                let (part, after) = rest.split_at(rest.len().min(PREFIX_BYTES - self.prefix_bytes));
                let end = self.prefix_bytes + part.len();
                self.prefix[self.prefix_bytes..end].copy_from_slice(part);
                (self.prefix_bytes, rest) = (end, after);
                if end < PREFIX_BYTES {
                    return;
                }
                let [_, length @ ..] = self.prefix;
                self.missing_bytes = u32::from_be_bytes(length) as usize;
            } else {
                let (part, after) = rest.split_at(rest.len().min(self.missing_bytes));
                sink.data(part);
                self.missing_bytes -= part.len();
                rest = after;
            }
            if self.missing_bytes == 0 {
                self.prefix_bytes = 0;
                self.end_event(sink);
            }
        }
    }

    fn sse_content(&mut self, bytes: &[u8], sink: &mut impl EventSink) {
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            let is_lf_of_cr = std::mem::take(&mut self.after_cr) && byte == b'\n';
            if is_lf_of_cr || self.is_bom(byte) {
                rest = after;
                continue;
            }
            if matches!(byte, b'\r' | b'\n') {
                self.after_cr = byte == b'\r';
                self.end_sse_line_or_event(sink);
                rest = after;
                continue;
            }
            rest = match self.line {
                LinePosition::Start | LinePosition::Name(_) => {
                    self.name_byte(byte);
                    after
                }
                LinePosition::Colon => {
                    self.line = LinePosition::Value;
                    if byte == b' ' { after } else { rest }
                }
                LinePosition::Value | LinePosition::Other => {
                    let (line, next) = rest.split_at(line_bytes(rest));
                    if self.line == LinePosition::Value {
                        self.value(line, sink);
                    }
                    next
                }
            };
        }
    }

    /// Whether this byte belongs to a byte order mark at the start of the body, which is skipped.
    #[inline]
    fn is_bom(&mut self, byte: u8) -> bool {
        let Some(seen) = self.bom else { return false };
        if byte == BOM[usize::from(seen)] {
            self.bom = (seen < 2).then_some(seen + 1);
            return true;
        }
        if seen > 0 {
            self.line = LinePosition::Other;
        }
        self.bom = None;
        false
    }

    fn name_byte(&mut self, byte: u8) {
        let seen = match self.line {
            LinePosition::Name(seen) => seen,
            _ => 0,
        };
        self.line = match DATA.get(usize::from(seen)) {
            Some(expected) if *expected == byte => LinePosition::Name(seen + 1),
            None if byte == b':' => LinePosition::Colon,
            _ => LinePosition::Other,
        };
    }

    /// An empty line dispatches the event.
    fn end_sse_line_or_event(&mut self, sink: &mut impl EventSink) {
        if self.line != LinePosition::Start {
            self.end_sse_line(sink);
            return;
        }
        match std::mem::replace(&mut self.data, LineData::None) {
            LineData::None => {}
            LineData::Marker => self.end_marker(sink),
            LineData::Text => self.end_event(sink),
        }
    }

    fn end_sse_line(&mut self, sink: &mut impl EventSink) {
        let is_data = matches!(
            self.line,
            LinePosition::Name(4) | LinePosition::Colon | LinePosition::Value
        );
        if is_data {
            sink.data(b"\n");
            self.data = match self.data {
                LineData::None if self.is_marker() => LineData::Marker,
                _ => LineData::Text,
            };
        }
        self.end_line();
    }

    /// Compares a part of a value with the end marker.
    fn value(&mut self, part: &[u8], sink: &mut impl EventSink) {
        if part.is_empty() {
            return;
        }
        sink.data(part);
        self.line = LinePosition::Value;
        self.matched = self.matched.and_then(|matched| {
            let expected = &self.spec.end_marker[matched..];
            expected.starts_with(part).then_some(matched + part.len())
        });
    }

    /// A line or a chunk is complete. An empty one is no event.
    fn end_value_event(&mut self, sink: &mut impl EventSink) {
        if self.line == LinePosition::Start {
            return;
        }
        if self.is_marker() {
            self.end_marker(sink);
        } else {
            self.end_event(sink);
        }
        self.end_line();
    }

    fn is_marker(&self) -> bool {
        let marker = &self.spec.end_marker;
        !marker.is_empty() && self.matched == Some(marker.len())
    }

    fn end_line(&mut self) {
        self.line = LinePosition::Start;
        self.matched = Some(0);
    }

    fn end_event(&mut self, sink: &mut impl EventSink) {
        self.found = self.found.saturating_add(1);
        self.total.events += 1;
        sink.end(false);
    }

    fn end_marker(&mut self, sink: &mut impl EventSink) {
        self.total.has_end_marker = true;
        sink.end(true);
    }
}

/// Bytes up to the end of the line.
fn line_bytes(bytes: &[u8]) -> usize {
    memchr2(b'\r', b'\n', bytes).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn splitter(format: EventsFormat, end_marker: &str) -> EventSplitter {
        let mut splitter = EventSplitter::new(StreamSpec {
            format,
            end_marker: end_marker.as_bytes().into(),
            dialect: None,
            keeps_answers: false,
        });
        splitter.begin(200);
        splitter
    }

    /// Events found in a whole body, in pieces of every size, which must not change anything.
    fn check(format: EventsFormat, end_marker: &str, body: &[u8], events: u64, ends: bool) {
        for step in 1..=body.len().max(1) {
            let mut splitter = splitter(format, end_marker);
            let mut found = 0;
            for piece in body.chunks(step) {
                splitter.content(piece);
                found += u64::from(splitter.take_found());
            }
            let total = splitter.finish().expect("200 is a stream");
            found += u64::from(splitter.take_found());
            let expected = SplitTotal {
                events,
                has_end_marker: ends,
            };
            let text = String::from_utf8_lossy(body);
            assert_eq!(total, expected, "{text:?} in steps of {step}");
            assert_eq!(found, events, "{text:?} in steps of {step}");
        }
    }

    #[test]
    fn sse_events_end_with_an_empty_line() {
        let body: [(&str, u64, bool); 18] = [
            ("data: a\n\ndata: b\n\n", 2, false),
            ("data: a\r\n\r\ndata: b\r\n\r\n", 2, false),
            ("data: a\r\rdata: b\r\r", 2, false),
            ("data: a\r\n\ndata: b\n\r", 2, false),
            ("data: a\ndata: b\n\n", 1, false),
            ("data\n\ndata\ndata\n\ndata:", 2, false),
            ("data:a\n\ndata:  [DONE]\n\n", 2, false),
            (": comment\n\n\n\n:\n\n", 0, false),
            ("event: x\nid: 1\nretry: 5\n\n", 0, false),
            ("event: x\ndata: 1\n\n", 1, false),
            ("datum: 1\n\ndatas: 1\n\ndat\n\n data: 1\n\n", 0, false),
            ("data: never dispatched\n", 0, false),
            ("data: a\n\ndata: [DONE]\n\n", 1, true),
            ("data:[DONE]\r\n\r\n", 0, true),
            ("data: [DONE]", 0, true),
            ("data: [DONE]\ndata: more\n\n", 1, false),
            ("data: more\ndata: [DONE]\n\n", 1, false),
            ("data: [DONE]x\n\ndata: [DON\n\n", 2, false),
        ];
        for (body, events, ends) in body {
            check(EventsFormat::Sse, "[DONE]", body.as_bytes(), events, ends);
        }
        let with_bom = b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n";
        check(EventsFormat::Sse, "", with_bom, 1, false);
        check(EventsFormat::Sse, "", b"\xef\xbbdata: a\n\n", 0, false);
        check(EventsFormat::Sse, "", b"data:\n\n", 1, false);
    }

    #[test]
    fn lines_that_are_not_empty_are_events() {
        for (body, events, ends) in [
            ("{\"a\":1}\n{\"b\":2}\n", 2, false),
            ("a\r\nb\r\n\r\n\r\nc", 3, false),
            ("a\nEND\n", 1, true),
            ("a\nEND", 1, true),
            ("ENDING\nEN\n END\n", 3, false),
            ("", 0, false),
            ("\n\r\n\r", 0, false),
        ] {
            check(EventsFormat::Lines, "END", body.as_bytes(), events, ends);
        }
        check(EventsFormat::Lines, "", b"a\n\nb\n", 2, false);
    }

    #[test]
    fn chunks_that_are_not_empty_are_events() {
        let mut chunks = splitter(EventsFormat::Chunks, "END");
        for parts in [["a", "b"], ["", ""], ["EN", "D"], ["END", "x"]] {
            for part in parts {
                chunks.content(part.as_bytes());
            }
            chunks.end_chunk();
        }
        assert_eq!(chunks.take_found(), 2);
        let expected = SplitTotal {
            events: 2,
            has_end_marker: true,
        };
        assert_eq!(chunks.finish(), Some(expected));
        // A body without chunks is one.
        check(EventsFormat::Chunks, "", b"abc\n\ndef", 1, false);
    }

    #[test]
    fn messages_with_their_prefix_are_events_also_empty_ones() {
        let whole = b"\0\0\0\0\x03abc\0\0\0\0\0\x01\0\0\0\x02zz";
        check(EventsFormat::Grpc, "", whole, 3, false);
        check(EventsFormat::Grpc, "", b"", 0, false);
        // What is cut is no message, and neither is one that is longer than the body.
        check(EventsFormat::Grpc, "", &whole[..whole.len() - 1], 2, false);
        check(EventsFormat::Grpc, "", b"\0\0\0\0", 0, false);
        check(EventsFormat::Grpc, "", b"\0\xff\xff\xff\xffabc", 0, false);
    }

    /// The data of each event, and whether it is the end marker.
    #[derive(Debug, Default)]
    struct Collected {
        events: Vec<(String, bool)>,
        current: Vec<u8>,
    }

    impl EventSink for Collected {
        fn data(&mut self, part: &[u8]) {
            self.current.extend_from_slice(part);
        }

        fn end(&mut self, is_end_marker: bool) {
            let data = String::from_utf8(std::mem::take(&mut self.current)).expect("UTF-8");
            self.events.push((data, is_end_marker));
        }
    }

    #[test]
    fn a_sink_gets_the_data_of_each_event_however_the_body_is_cut() {
        let sse = ": note\nevent: x\nid: 1\ndata: a\ndata:b\n\ndata\r\n\r\n\n\
            data: [DONE]\n\ndata: [DONE]\ndata: not the end\n\ndata: [DONE]";
        let of_sse = [
            ("a\nb\n", false),
            ("\n", false),
            ("[DONE]\n", true),
            ("[DONE]\nnot the end\n", false),
            ("[DONE]\n", true),
        ];
        let lines = "{\"a\":1}\r\n\r\n[DONE]\nlast";
        let of_lines = [("{\"a\":1}", false), ("[DONE]", true), ("last", false)];
        for (format, body, expected) in [
            (EventsFormat::Sse, sse, of_sse.as_slice()),
            (EventsFormat::Lines, lines, of_lines.as_slice()),
            (EventsFormat::Chunks, "one\nchunk", &[("one\nchunk", false)]),
            (
                EventsFormat::Grpc,
                "\0\0\0\0\x02ab\0\0\0\0\0\0\0\0\0\x01c",
                &[("ab", false), ("", false), ("c", false)],
            ),
        ] {
            for step in 1..=body.len() {
                let mut splitter = splitter(format, "[DONE]");
                let mut sink = Collected::default();
                for piece in body.as_bytes().chunks(step) {
                    splitter.content_to(piece, &mut sink);
                }
                splitter.finish_to(&mut sink).expect("200 is a stream");
                let found: Vec<_> = sink
                    .events
                    .iter()
                    .map(|(data, is_end_marker)| (data.as_str(), *is_end_marker))
                    .collect();
                assert_eq!(found, expected, "{body:?} in steps of {step}");
            }
        }
    }

    #[test]
    fn a_sink_does_not_hear_of_an_event_that_is_not_dispatched() {
        let mut splitter = splitter(EventsFormat::Sse, "[DONE]");
        let mut sink = Collected::default();
        splitter.content_to(b"data: never\n", &mut sink);
        splitter.finish_to(&mut sink).expect("200 is a stream");
        assert_eq!(sink.events, []);
    }

    #[test]
    fn only_responses_with_a_status_of_2xx_are_streams() {
        for (status, is_stream) in [(200, true), (299, true), (304, false), (429, false)] {
            let mut splitter = splitter(EventsFormat::Sse, "");
            splitter.begin(status);
            splitter.content(b"data: 1\n\n");
            assert_eq!(splitter.take_found(), u32::from(is_stream), "{status}");
            assert_eq!(splitter.finish().is_some(), is_stream, "{status}");
        }
    }

    #[test]
    fn a_body_leaves_nothing_to_the_next_one() {
        for rest in ["data: a", "data: [DONE]\n", "\u{feff}", "da", "data: a\r"] {
            let mut splitter = splitter(EventsFormat::Sse, "[DONE]");
            splitter.content(rest.as_bytes());
            splitter.begin(200);
            splitter.content(b"\ndata: b\n\n");
            let expected = SplitTotal {
                events: 1,
                has_end_marker: false,
            };
            assert_eq!(splitter.finish(), Some(expected), "{rest:?}");
        }
    }
}
