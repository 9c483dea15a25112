//! Any bytes as the body of a streaming response: the same events in one piece and in pieces, and
//! no panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plan::EventsFormat;
use protocol::{EventSplitter, StreamSpec, SplitTotal};

/// The events and the total of a body in pieces of this many bytes.
fn split(splitter: &mut EventSplitter, body: &[u8], piece_bytes: usize) -> (u64, SplitTotal) {
    splitter.begin(200);
    let mut found = 0;
    for piece in body.chunks(piece_bytes) {
        splitter.content(piece);
        found += u64::from(splitter.take_found());
    }
    let total = splitter.finish().expect("200 is a stream");
    (found + u64::from(splitter.take_found()), total)
}

fuzz_target!(|data: &[u8]| {
    let Some((&[format, marker_bytes, piece_bytes], rest)) = data.split_first_chunk::<3>() else {
        return;
    };
    let (marker, body) = rest.split_at(rest.len().min(usize::from(marker_bytes % 16)));
    let format = match format % 4 {
        0 => EventsFormat::Sse,
        1 => EventsFormat::Lines,
        2 => EventsFormat::Grpc,
        _ => EventsFormat::Chunks,
    };
    let mut splitter = EventSplitter::new(StreamSpec {
        format,
        end_marker: marker.into(),
        dialect: None,
        keeps_answers: false,
    });
    let whole = split(&mut splitter, body, body.len().max(1));
    assert_eq!(whole.0, whole.1.events);
    assert!(whole.1.events <= body.len() as u64);
    assert!(!(marker.is_empty() && whole.1.has_end_marker));
    // The same splitter again: nothing is left of the body before.
    let in_pieces = split(&mut splitter, body, usize::from(piece_bytes).max(1));
    assert_eq!(in_pieces, whole);
});
