//! Frames, whole and cut anywhere, and what no peer may send.

use proptest::prelude::*;
use protocol::h3::error::{ErrorCode, Violation};
use protocol::h3::frame::{self, Frame, FrameReader, frame_type};

const SECTION_BYTES_MAX: usize = 100;

/// What a reader finds in these pieces, as text. Pieces of DATA are joined.
fn read(pieces: &[&[u8]]) -> (Vec<String>, Option<Violation>, bool) {
    let mut reader = FrameReader::new(SECTION_BYTES_MAX);
    let mut found: Vec<String> = Vec::new();
    let mut is_in_data = false;
    for piece in pieces {
        let mut rest = *piece;
        loop {
            match reader.next(&mut rest) {
                Ok(None) => break,
                Ok(Some(Frame::Data(content))) => {
                    let text = content.escape_ascii().to_string();
                    match found.last_mut() {
                        Some(last) if is_in_data => last.push_str(&text),
                        _ => found.push(format!("Data {text}")),
                    }
                    is_in_data = !reader.is_between_frames();
                }
                Ok(Some(frame)) => {
                    is_in_data = false;
                    found.push(match frame {
                        Frame::Settings(pairs) => {
                            format!("Settings {:?}", pairs.collect::<Vec<_>>())
                        }
                        frame => format!("{frame:?}"),
                    });
                }
                Err(violation) => return (found, Some(violation), false),
            }
            assert!(
                reader.buffered_bytes() <= 8192,
                "{}",
                reader.buffered_bytes()
            );
        }
        assert!(rest.is_empty(), "all of the input is taken");
    }
    (found, None, reader.is_between_frames())
}

fn framed(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut output = Vec::new();
    frame::append(kind, payload, &mut output);
    output
}

/// One of each kind, and what a reader finds.
fn one_of_each() -> (Vec<u8>, Vec<String>) {
    let mut settings = Vec::new();
    frame::append_settings(&[(0x6, 16_384), (0x21, 1 << 40)], &mut settings);
    let mut goaway = Vec::new();
    frame::append_goaway(1 << 33, &mut goaway);
    let parts: Vec<(Vec<u8>, &str)> = vec![
        (
            framed(frame_type::HEADERS, b"\0\0\xd9"),
            "Headers([0, 0, 217])",
        ),
        (
            framed(frame_type::DATA, b"hello, world"),
            "Data hello, world",
        ),
        (framed(frame_type::DATA, b""), "Data "),
        (framed(frame_type::HEADERS, b""), "Headers([])"),
        (settings, "Settings [(6, 16384), (33, 1099511627776)]"),
        (framed(frame_type::SETTINGS, b""), "Settings []"),
        (framed(0x1f * 1000 + 0x21, b"grease"), "Unknown(31033)"),
        (
            framed(0x1f * (1 << 56) + 0x21, b""),
            "Unknown(2233785415175766049)",
        ),
        (goaway, "Goaway(8589934592)"),
        (framed(frame_type::CANCEL_PUSH, &[7]), "CancelPush(7)"),
        (framed(frame_type::MAX_PUSH_ID, &[0x40, 7]), "MaxPushId(7)"),
        (framed(frame_type::PUSH_PROMISE, b"\x01\0\0"), "PushPromise"),
        (
            framed(frame_type::HEADERS, &[1; SECTION_BYTES_MAX + 1]),
            "HeadersTooLarge",
        ),
        // A type and a length that are longer than they must be.
        (
            b"\xc0\0\0\0\0\0\0\0\xc0\0\0\0\0\0\0\x02ok".to_vec(),
            "Data ok",
        ),
    ];
    let bytes = parts.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
    let found = parts.iter().map(|(_, found)| (*found).to_owned()).collect();
    (bytes, found)
}

#[test]
fn each_kind_of_frame_is_found() {
    let (bytes, expected) = one_of_each();
    assert_eq!(read(&[&bytes]), (expected, None, true));
}

#[test]
fn frames_that_are_cut_at_any_byte_are_the_same_frames() {
    let (bytes, expected) = one_of_each();
    for cut in 0..=bytes.len() {
        let (found, error, ends) = read(&[&bytes[..cut], &bytes[cut..]]);
        assert_eq!(
            (found, error, ends),
            (expected.clone(), None, true),
            "{cut}"
        );
    }
    let singly: Vec<_> = bytes.chunks(1).collect();
    assert_eq!(read(&singly), (expected, None, true));
}

#[test]
fn a_stream_may_end_only_between_frames() {
    let bytes = framed(frame_type::DATA, b"hello");
    for end in 0..=bytes.len() {
        let (_, error, ends) = read(&[&bytes[..end]]);
        assert_eq!(error, None);
        assert_eq!(ends, end == 0 || end == bytes.len(), "{end}");
    }
}

#[test]
fn what_no_stream_may_carry_is_refused_wherever_it_is_cut() {
    for (bytes, code) in [
        (&b"\x02\0"[..], ErrorCode::FRAME_UNEXPECTED),
        (b"\x06\0", ErrorCode::FRAME_UNEXPECTED),
        (b"\x08\0", ErrorCode::FRAME_UNEXPECTED),
        (b"\x09\0", ErrorCode::FRAME_UNEXPECTED),
        // Not one integer.
        (b"\x07\0", ErrorCode::FRAME_ERROR),
        (b"\x07\x03\0\0\0", ErrorCode::FRAME_ERROR),
        (b"\x07\x02\0\0", ErrorCode::FRAME_ERROR),
        (b"\x07\x01\x40", ErrorCode::FRAME_ERROR),
        (b"\x03\x09", ErrorCode::FRAME_ERROR),
        (b"\x0d\x04\x40\0\0\0", ErrorCode::FRAME_ERROR),
        // SETTINGS.
        (b"\x04\x01\x06", ErrorCode::FRAME_ERROR),
        (b"\x04\x02\x06\x40", ErrorCode::FRAME_ERROR),
        (b"\x04\x04\x06\x01\x06\x01", ErrorCode::SETTINGS_ERROR),
        (b"\x04\x02\x02\0", ErrorCode::SETTINGS_ERROR),
        (b"\x04\x02\x03\0", ErrorCode::SETTINGS_ERROR),
        (b"\x04\x02\x04\0", ErrorCode::SETTINGS_ERROR),
        (b"\x04\x02\x05\0", ErrorCode::SETTINGS_ERROR),
        (b"\x04\x50\x01", ErrorCode::EXCESSIVE_LOAD),
    ] {
        for cut in 0..=bytes.len() {
            let (_, error, _) = read(&[&bytes[..cut], &bytes[cut..]]);
            assert_eq!(
                error.map(|error| error.code),
                Some(code),
                "{bytes:02x?} {cut}"
            );
        }
    }
}

#[test]
fn frames_without_end_take_no_memory() {
    for kind in [
        frame_type::DATA,
        frame_type::HEADERS,
        frame_type::PUSH_PROMISE,
        0x21,
    ] {
        let mut reader = FrameReader::new(SECTION_BYTES_MAX);
        let mut bytes = Vec::new();
        frame::append_header(kind, (1 << 62) - 1, &mut bytes);
        bytes.resize(1 << 16, 0);
        for _ in 0..100 {
            let mut rest = bytes.as_slice();
            while let Some(frame) = reader.next(&mut rest).expect("it is allowed") {
                assert!(!matches!(frame, Frame::Headers(_)));
            }
        }
        assert_eq!(reader.buffered_bytes(), 0, "{kind}");
    }
}

#[test]
fn a_reader_that_starts_anew_knows_nothing_of_the_stream_before() {
    let mut reader = FrameReader::new(SECTION_BYTES_MAX);
    let (bytes, _) = one_of_each();
    for cut in 0..bytes.len() {
        let mut rest = &bytes[..cut];
        while reader.next(&mut rest).expect("they are good").is_some() {}
        reader.reset();
        assert!(reader.is_between_frames());
        let mut rest = &b"\x00\x01a"[..];
        assert_eq!(reader.next(&mut rest), Ok(Some(Frame::Data(b"a"))), "{cut}");
        reader.reset();
    }
}

proptest! {
    #[test]
    fn any_bytes_in_any_pieces_are_read_as_the_whole_is(
        bytes in proptest::collection::vec(prop_oneof![0_u8..12, any::<u8>()], 0..200),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let mut at: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.sort_unstable();
        let mut pieces = Vec::new();
        let mut begin = 0;
        for end in at {
            pieces.push(&bytes[begin..end]);
            begin = end;
        }
        pieces.push(&bytes[begin..]);
        prop_assert_eq!(read(&pieces), read(&[&bytes]));
    }
}
