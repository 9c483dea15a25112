//! Frames that are written and read again, however the input is cut.

use proptest::prelude::*;
use protocol::h2::error::{ErrorCode, Violation};
use protocol::h2::frame::{Data, Frame, Priority, flag, kind};
use protocol::h2::reader::Reader;
use protocol::h2::writer;

/// Enough for every block of these tests.
pub(crate) const BLOCK_BYTES_MAX: usize = 100_000;

/// What a reader has found. Neighbouring pieces of DATA are joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    Data(u32, Vec<u8>, u32, bool),
    /// Another frame, as text.
    Other(String),
    /// An error of a stream.
    Broken(Violation),
}

/// All frames in these pieces of input, and the error of the connection that has ended them.
pub(crate) fn read<'a>(
    reader: &mut Reader,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Found>, Option<Violation>) {
    let mut found = Vec::new();
    for mut piece in pieces {
        loop {
            match reader.next(&mut piece) {
                Ok(None) => break,
                Ok(Some(Frame::Data(data))) => add(&mut found, &data),
                Ok(Some(frame)) => found.push(Found::Other(format!("{frame:?}"))),
                Err(violation) if violation.stream.is_some() => {
                    found.push(Found::Broken(violation));
                }
                Err(violation) => return (found, Some(violation)),
            }
        }
        assert!(piece.is_empty(), "a reader takes all of its input");
    }
    (found, None)
}

fn add(found: &mut Vec<Found>, data: &Data<'_>) {
    assert_eq!(data.flow_bytes(), data.content.len() as u32 + data.padding);
    match found.last_mut() {
        Some(Found::Data(stream, content, padding, end @ false)) if *stream == data.stream => {
            content.extend_from_slice(data.content);
            *padding += data.padding;
            *end = data.end_stream;
        }
        _ => {
            let content = data.content.to_vec();
            found.push(Found::Data(
                data.stream,
                content,
                data.padding,
                data.end_stream,
            ));
        }
    }
}

fn reader() -> Reader {
    Reader::new(BLOCK_BYTES_MAX)
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut output = Vec::new();
    write(&mut output);
    output
}

const PRIORITY: Priority = Priority {
    dependency: 0x7fff_fffe,
    exclusive: true,
    weight: 255,
};

/// A frame of each kind and form, and what a reader says about it.
fn samples() -> Vec<(Vec<u8>, &'static str)> {
    let w = |write: &dyn Fn(&mut Vec<u8>)| written(write);
    vec![
        (
            w(&|o| writer::headers(1, b"block", true, 16_384, o)),
            "Headers(Headers { stream: 1, block: [98, 108, 111, 99, 107], priority: None, \
             end_stream: true, end_headers: true })",
        ),
        (
            w(&|o| writer::headers(3, b"block", false, 2, o)),
            "Headers(Headers { stream: 3, block: [98, 108, 111, 99, 107], priority: None, \
             end_stream: false, end_headers: true })",
        ),
        (
            w(&|o| writer::headers_with_priority(5, PRIORITY, b"b", false, 6, o)),
            "Headers(Headers { stream: 5, block: [98], priority: Some(Priority { dependency: \
             2147483646, exclusive: true, weight: 255 }), end_stream: false, end_headers: true })",
        ),
        (
            w(&|o| writer::padded(kind::HEADERS, flag::END_HEADERS, 7, b"b", 255, o)),
            "Headers(Headers { stream: 7, block: [98], priority: None, end_stream: false, \
             end_headers: true })",
        ),
        (
            w(&|o| writer::priority(9, PRIORITY, o)),
            "Priority { stream: 9, priority: Priority { dependency: 2147483646, exclusive: true, \
             weight: 255 } }",
        ),
        (
            w(&|o| writer::reset(11, ErrorCode(0xdead_beef), o)),
            "Reset { stream: 11, code: ErrorCode(3735928559) }",
        ),
        (
            w(&|o| writer::settings([(1, 2), (0xffff, u32::MAX)], o)),
            "Settings(Entries([0, 1, 0, 0, 0, 2, 255, 255, 255, 255, 255, 255]))",
        ),
        (w(&|o| writer::settings([], o)), "Settings(Entries([]))"),
        (w(&writer::settings_ack), "SettingsAck"),
        (
            w(&|o| writer::push_promise(1, 2, b"b", 5, o)),
            "PushPromise(PushPromise { stream: 1, promised: 2, block: [98], end_headers: true })",
        ),
        (
            w(&|o| writer::push_promise(1, 2, b"block", 5, o)),
            "PushPromise(PushPromise { stream: 1, promised: 2, block: [98, 108, 111, 99, 107], \
             end_headers: true })",
        ),
        (
            w(&|o| writer::ping([1, 2, 3, 4, 5, 6, 7, 8], false, o)),
            "Ping { ack: false, opaque: [1, 2, 3, 4, 5, 6, 7, 8] }",
        ),
        (
            w(&|o| writer::ping([0; 8], true, o)),
            "Ping { ack: true, opaque: [0, 0, 0, 0, 0, 0, 0, 0] }",
        ),
        (
            w(&|o| writer::goaway(0x7fff_ffff, ErrorCode::ENHANCE_YOUR_CALM, b"calm", o)),
            "Goaway { last_stream: 2147483647, code: ErrorCode(11), debug: [99, 97, 108, 109] }",
        ),
        (
            w(&|o| writer::window_update(0, 0x7fff_ffff, o)),
            "WindowUpdate { stream: 0, increment: 2147483647 }",
        ),
    ]
}

/// All samples in a row, with DATA and frames of unknown types between them.
fn conversation() -> Vec<u8> {
    let mut all = Vec::new();
    for (frame, _) in samples() {
        all.extend(frame);
        writer::data(1, b"content", false, &mut all);
        writer::frame(0xfa, 0xff, 77, b"a frame of an unknown type", &mut all);
        writer::padded(kind::DATA, 0, 3, b"padded", 3, &mut all);
        writer::padded(kind::DATA, 0, 5, b"", 0, &mut all);
        writer::frame(kind::PRIORITY, 0, 9, b"bad", &mut all);
        writer::data(7, b"", true, &mut all);
        writer::padded(kind::DATA, flag::END_STREAM, 9, b"p", 2, &mut all);
    }
    all
}

#[test]
fn every_frame_is_read_as_it_was_written() {
    for (frame, expected) in samples() {
        let (found, error) = read(&mut reader(), [frame.as_slice()]);
        assert_eq!((found, error), (vec![Found::Other(expected.into())], None));
    }
    let frames = written(|o| {
        writer::data(1, b"one", false, o);
        writer::data(3, b"", true, o);
        writer::padded(kind::DATA, flag::END_STREAM, 5, b"two", 7, o);
    });
    let expected = vec![
        Found::Data(1, b"one".to_vec(), 0, false),
        Found::Data(3, Vec::new(), 0, true),
        Found::Data(5, b"two".to_vec(), 8, true),
    ];
    assert_eq!(read(&mut reader(), [frames.as_slice()]), (expected, None));
}

#[test]
fn input_cut_at_every_byte_gives_the_same_frames() {
    let input = conversation();
    let whole = read(&mut reader(), [input.as_slice()]);
    assert_eq!(whole.1, None);
    assert_eq!(whole.0.len(), 8 * samples().len());
    for at in 0..=input.len() {
        let (first, second) = input.split_at(at);
        assert_eq!(read(&mut reader(), [first, second]), whole, "cut at {at}");
    }
    for length in [1, 2, 3, 8, 9, 10, 17] {
        assert_eq!(
            read(&mut reader(), input.chunks(length)),
            whole,
            "pieces of {length}"
        );
    }
}

#[test]
fn a_frame_that_is_whole_in_the_input_is_not_copied() {
    let headers = written(|o| writer::headers(1, b"block", true, 16_384, o));
    let goaway = written(|o| writer::goaway(1, ErrorCode::NO_ERROR, b"debug", o));
    let data = written(|o| writer::data(1, b"content", true, o));
    let input = [headers, goaway, data].concat();
    let (mut reader, mut rest) = (reader(), input.as_slice());
    let mut frames = 0;
    while let Some(frame) = reader.next(&mut rest).unwrap() {
        let bytes = match frame {
            Frame::Headers(headers) => headers.block,
            Frame::Goaway { debug, .. } => debug,
            Frame::Data(data) => data.content,
            other => panic!("{other:?}"),
        };
        assert!(input.as_ptr_range().contains(&bytes.as_ptr()));
        frames += 1;
    }
    assert_eq!(frames, 3);
}

#[test]
fn data_is_handed_out_before_its_frame_is_complete() {
    let mut reader = reader();
    let frame = written(|o| writer::data(1, &[7; 10_000], true, o));
    let (found, _) = read(&mut reader, [&frame[..5000]]);
    assert_eq!(found, [Found::Data(1, vec![7; 4991], 0, false)]);
    let (found, _) = read(&mut reader, [&frame[5000..9999]]);
    assert_eq!(found, [Found::Data(1, vec![7; 4999], 0, false)]);
    let (found, _) = read(&mut reader, [&frame[9999..]]);
    assert_eq!(found, [Found::Data(1, vec![7; 10], 0, true)]);
}

#[test]
fn the_writers_split_a_block_into_frames_of_the_peers_maximum_size() {
    for length in 0..50 {
        let block = vec![b'x'; length];
        let frames = written(|o| {
            writer::headers_with_priority(1, PRIORITY, &block, false, 16, o);
            writer::push_promise(1, 2, &block, 16, o);
        });
        let mut at = 0;
        while at < frames.len() {
            assert!(
                frames[at..at + 2] == [0, 0] && frames[at + 2] <= 16,
                "{length}"
            );
            at += 9 + usize::from(frames[at + 2]);
        }
        let (found, error) = read(&mut reader(), [frames.as_slice()]);
        assert_eq!((found.len(), error), (2, None));
    }
}

/// A frame, usually valid.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..40);
    let data =
        (1_u32..10, bytes(), any::<bool>(), 0_u8..9).prop_map(|(stream, content, end, pad)| {
            written(|o| match pad {
                0 => writer::data(stream, &content, end, o),
                _ => writer::padded(kind::DATA, u8::from(end), stream, &content, pad, o),
            })
        });
    let headers =
        (1_u32..10, bytes(), any::<bool>(), 1_u32..50).prop_map(|(stream, block, end, size)| {
            written(|o| writer::headers(stream, &block, end, size, o))
        });
    let sample = (0..samples().len()).prop_map(|at| samples()[at].0.clone());
    let any =
        (0_u8..12, any::<u8>(), 0_u32..4, bytes()).prop_map(|(kind, flags, stream, payload)| {
            written(|o| writer::frame(kind, flags, stream, &payload, o))
        });
    prop_oneof![4 => data, 4 => headers, 4 => sample, 1 => any]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn any_frames_in_any_pieces_are_read_the_same(
        frames in prop::collection::vec(any_frame(), 0..12),
        mut cuts in prop::collection::vec(any::<u16>(), 0..8),
    ) {
        let input = frames.concat();
        let whole = read(&mut reader(), [input.as_slice()]);
        cuts.iter_mut().for_each(|cut| *cut %= input.len() as u16 + 1);
        cuts.sort_unstable();
        let ends = cuts.iter().map(|cut| usize::from(*cut)).chain([input.len()]);
        let starts = [0].into_iter().chain(cuts.iter().map(|cut| usize::from(*cut)));
        let pieces = starts.zip(ends).map(|(start, end)| &input[start..end]);
        prop_assert_eq!(read(&mut reader(), pieces), whole);
    }
}
