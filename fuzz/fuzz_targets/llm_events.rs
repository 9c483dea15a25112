//! Any bytes as the stream of a language model: the same events and the same answer in one piece
//! and in pieces, and no panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plan::EventsFormat;
use protocol::llm::{Answer, Dialect, LlmEvent, LlmEventKind, LlmScanner, LlmStream};
use protocol::{EventSplitter, StreamSpec};

/// The events of a body in pieces of this many bytes, and what the model said in them.
fn events(
    splitter: &mut EventSplitter,
    scanner: &mut LlmScanner,
    body: &[u8],
    piece_bytes: usize,
) -> (Vec<LlmEvent>, Option<Answer>) {
    let mut found = Vec::new();
    splitter.begin(200);
    scanner.begin();
    let mut sink = scanner.sink(|event| found.push(event));
    for piece in body.chunks(piece_bytes) {
        splitter.content_to(piece, &mut sink);
    }
    let total = splitter.finish_to(&mut sink).expect("200 is a stream");
    assert_eq!(total.events, found.len() as u64);
    (found, scanner.take_answer())
}

fuzz_target!(|data: &[u8]| {
    let Some((&[choice, piece_bytes], body)) = data.split_first_chunk::<2>() else {
        return;
    };
    // Any dialect, or one.
    let dialect = Dialect::ALL.get(usize::from(choice / 2 % 6)).copied();
    let format = match choice % 2 {
        0 => EventsFormat::Sse,
        _ => EventsFormat::Lines,
    };
    let mut splitter = EventSplitter::new(StreamSpec {
        format,
        end_marker: b"[DONE]".as_slice().into(),
        dialect: None,
        keeps_answers: true,
    });
    let mut scanner = LlmScanner::new(dialect).keeping_answers();
    let whole = events(&mut splitter, &mut scanner, body, body.len().max(1));
    let piece_bytes = usize::from(piece_bytes).max(1);
    assert_eq!(
        events(&mut splitter, &mut scanner, body, piece_bytes),
        whole
    );
    assert_eq!(events(&mut splitter, &mut scanner, body, 1), whole);

    let mut stream = LlmStream::default();
    for (time_ns, event) in (0..).zip(&whole.0) {
        stream.add(time_ns, event);
        assert!(
            event
                .dialect
                .is_none_or(|found| dialect.is_none_or(|only| only == found))
        );
    }
    assert_eq!(stream.first_token_ns.is_some(), stream.token_events > 0);
    assert!(
        stream
            .time_per_token()
            .is_none_or(|time| time.ns >= 0.0 && time.ns.is_finite())
    );

    // Lines that are JSON are not malformed.
    if format == EventsFormat::Lines {
        let lines = body
            .split(|byte| matches!(byte, b'\r' | b'\n'))
            .filter(|line| !line.is_empty() && *line != b"[DONE]");
        for (line, event) in lines.zip(&whole.0) {
            if serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok() {
                assert_ne!(event.kind, LlmEventKind::Malformed);
            }
        }
    }
});
