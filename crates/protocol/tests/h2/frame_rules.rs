//! The rules of RFC 9113 on lengths, streams, padding and the order of frames, and their errors.

use protocol::h2::error::{ErrorCode, Violation};
use protocol::h2::frame::{Header, flag, kind};
use protocol::h2::reader::Reader;
use protocol::h2::writer;

use crate::frames::{BLOCK_BYTES_MAX, Found, read};

const PROTOCOL: ErrorCode = ErrorCode::PROTOCOL_ERROR;
const SIZE: ErrorCode = ErrorCode::FRAME_SIZE_ERROR;

fn reader() -> Reader {
    Reader::new(BLOCK_BYTES_MAX)
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut output = Vec::new();
    writer::frame(kind, flags, stream, payload, &mut output);
    output
}

/// The first error in the input, whichever way it arrives.
fn violation(input: &[u8]) -> Violation {
    let whole = read(&mut reader(), [input]);
    assert_eq!(read(&mut reader(), input.chunks(1)), whole);
    match whole {
        (_, Some(violation)) => violation,
        (mut found, None) => match found.pop() {
            Some(Found::Broken(violation)) => violation,
            other => panic!("no error in {input:02x?}: {other:?}"),
        },
    }
}

#[test]
fn every_broken_rule_of_a_frame_has_its_error_code_and_ends_the_connection() {
    use flag::{ACK, END_HEADERS, PADDED};
    let table: [(&str, Vec<u8>, ErrorCode); 30] = [
        ("DATA on stream 0", frame(kind::DATA, 0, 0, b"x"), PROTOCOL),
        (
            "DATA without padding length",
            frame(kind::DATA, PADDED, 1, b""),
            SIZE,
        ),
        (
            "DATA with too much padding",
            frame(kind::DATA, PADDED, 1, b"\x01"),
            PROTOCOL,
        ),
        (
            "DATA, all padding and more",
            frame(kind::DATA, PADDED, 1, b"\x03ab"),
            PROTOCOL,
        ),
        (
            "HEADERS on stream 0",
            frame(kind::HEADERS, END_HEADERS, 0, b""),
            PROTOCOL,
        ),
        (
            "HEADERS without padding length",
            frame(kind::HEADERS, PADDED, 1, b""),
            SIZE,
        ),
        (
            "HEADERS with too much padding",
            frame(kind::HEADERS, PADDED, 1, b"\x02a"),
            PROTOCOL,
        ),
        (
            "HEADERS, half a priority",
            frame(kind::HEADERS, flag::PRIORITY, 1, b"abcd"),
            SIZE,
        ),
        (
            "HEADERS, padding and half a priority",
            frame(kind::HEADERS, flag::PRIORITY | PADDED, 1, b"\x00abcd"),
            SIZE,
        ),
        (
            "HEADERS, padding in the priority",
            frame(kind::HEADERS, flag::PRIORITY | PADDED, 1, b"\x01abcde"),
            SIZE,
        ),
        (
            "PRIORITY on stream 0",
            frame(kind::PRIORITY, 0, 0, b"abcde"),
            PROTOCOL,
        ),
        (
            "RST_STREAM on stream 0",
            frame(kind::RST_STREAM, 0, 0, b"abcd"),
            PROTOCOL,
        ),
        (
            "RST_STREAM, short",
            frame(kind::RST_STREAM, 0, 1, b"abc"),
            SIZE,
        ),
        (
            "RST_STREAM, long",
            frame(kind::RST_STREAM, 0, 1, b"abcde"),
            SIZE,
        ),
        (
            "SETTINGS on a stream",
            frame(kind::SETTINGS, 0, 1, b""),
            PROTOCOL,
        ),
        (
            "SETTINGS, part of an entry",
            frame(kind::SETTINGS, 0, 0, b"abcde"),
            SIZE,
        ),
        (
            "SETTINGS, an entry and a part",
            frame(kind::SETTINGS, 0, 0, b"abcdefg"),
            SIZE,
        ),
        (
            "SETTINGS ACK with entries",
            frame(kind::SETTINGS, ACK, 0, b"abcdef"),
            SIZE,
        ),
        (
            "PUSH_PROMISE on stream 0",
            frame(kind::PUSH_PROMISE, 4, 0, b"\0\0\0\x02"),
            PROTOCOL,
        ),
        (
            "PUSH_PROMISE, short",
            frame(kind::PUSH_PROMISE, 4, 1, b"\0\0\0"),
            SIZE,
        ),
        (
            "PUSH_PROMISE of stream 0",
            frame(kind::PUSH_PROMISE, 4, 1, b"\0\0\0\0"),
            PROTOCOL,
        ),
        (
            "PUSH_PROMISE, odd",
            frame(kind::PUSH_PROMISE, 4, 1, b"\0\0\0\x03"),
            PROTOCOL,
        ),
        (
            "PING on a stream",
            frame(kind::PING, 0, 1, b"abcdefgh"),
            PROTOCOL,
        ),
        ("PING, short", frame(kind::PING, 0, 0, b"abcdefg"), SIZE),
        ("PING, long", frame(kind::PING, ACK, 0, b"abcdefghi"), SIZE),
        (
            "GOAWAY on a stream",
            frame(kind::GOAWAY, 0, 1, b"abcdefgh"),
            PROTOCOL,
        ),
        ("GOAWAY, short", frame(kind::GOAWAY, 0, 0, b"abcdefg"), SIZE),
        (
            "WINDOW_UPDATE, short",
            frame(kind::WINDOW_UPDATE, 0, 1, b"abc"),
            SIZE,
        ),
        (
            "WINDOW_UPDATE of 0",
            frame(kind::WINDOW_UPDATE, 0, 0, b"\0\0\0\0"),
            PROTOCOL,
        ),
        (
            "CONTINUATION alone",
            frame(kind::CONTINUATION, 4, 1, b""),
            PROTOCOL,
        ),
    ];
    for (name, input, code) in table {
        let violation = violation(&input);
        assert_eq!((violation.stream, violation.code), (None, code), "{name}");
    }
}

#[test]
fn an_error_of_a_stream_leaves_the_other_frames_readable() {
    let table = [
        (frame(kind::PRIORITY, 0, 5, b"abcd"), SIZE),
        (frame(kind::PRIORITY, 0, 5, b"abcdef"), SIZE),
        (frame(kind::WINDOW_UPDATE, 0, 5, b"\x80\0\0\0"), PROTOCOL),
    ];
    for (mut input, code) in table {
        writer::settings_ack(&mut input);
        let (found, error) = read(&mut reader(), [input.as_slice()]);
        assert_eq!(error, None);
        match found.as_slice() {
            [Found::Broken(violation), Found::Other(ack)] => {
                assert_eq!((violation.stream, violation.code), (Some(5), code));
                assert_eq!(ack, "SettingsAck");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(read(&mut reader(), input.chunks(1)).0, found);
    }
}

#[test]
fn between_the_frames_of_a_header_block_nothing_else_is_allowed() {
    let begun = frame(kind::HEADERS, 0, 1, b"part");
    let others = [
        frame(kind::DATA, 0, 1, b"x"),
        frame(kind::HEADERS, flag::END_HEADERS, 1, b"x"),
        frame(kind::CONTINUATION, flag::END_HEADERS, 3, b"x"),
        frame(kind::PING, 0, 0, b"abcdefgh"),
        frame(0xfa, 0, 1, b"a frame of an unknown type"),
    ];
    for other in others {
        let violation = violation(&[begun.clone(), other].concat());
        assert_eq!((violation.stream, violation.code), (None, PROTOCOL));
    }
    let end = frame(kind::CONTINUATION, flag::END_HEADERS, 1, b"");
    let twice = [begun, end.clone(), end].concat();
    assert_eq!(violation(&twice).code, PROTOCOL, "the block has ended");
}

#[test]
fn a_frame_above_the_maximum_size_is_refused_by_its_header() {
    for kind in 0..12 {
        let header = Header {
            length: 16_385,
            kind,
            flags: 0,
            stream: 1,
        };
        let violation = violation(&header.to_bytes());
        assert_eq!(
            (violation.stream, violation.code),
            (None, SIZE),
            "type {kind}"
        );
    }
    let mut reader = reader();
    reader.set_frame_size_max(20_000);
    let input = frame(kind::DATA, 0, 1, &[0; 20_000]);
    assert_eq!(read(&mut reader, [input.as_slice()]).1, None);
}

#[test]
fn a_header_block_is_bounded_in_bytes_and_in_frames() {
    let begun = frame(kind::HEADERS, 0, 1, &[0; 10]);
    let calm = |input: &[u8]| {
        let violation = read(&mut Reader::new(1000), [input]).1;
        assert_eq!(violation.unwrap().code, ErrorCode::ENHANCE_YOUR_CALM);
    };
    let part = frame(kind::CONTINUATION, 0, 1, &[0; 110]);
    calm(&[begun.clone(), part.repeat(10)].concat());
    let empty = frame(kind::CONTINUATION, 0, 1, b"");
    calm(&[begun.clone(), empty.repeat(1000)].concat());
    // As many as are allowed.
    let end = frame(kind::CONTINUATION, flag::END_HEADERS, 1, &[0; 110]);
    let input = [begun, part.repeat(8), end].concat();
    assert_eq!(read(&mut Reader::new(1000), [input.as_slice()]).1, None);
}

#[test]
fn a_block_in_one_frame_is_bounded_as_well() {
    let input = frame(kind::HEADERS, flag::END_HEADERS, 1, &[0; 1001]);
    let violation = read(&mut Reader::new(1000), [input.as_slice()]).1;
    assert_eq!(violation.unwrap().code, ErrorCode::ENHANCE_YOUR_CALM);
}

#[test]
fn reserved_bits_and_unknown_flags_are_ignored() {
    let mut input = frame(kind::PING, 0xfe, 0, b"abcdefgh");
    input[5] |= 0x80;
    let mut update = frame(kind::WINDOW_UPDATE, 0xff, 1, &[0x80, 0, 0, 1]);
    update[5] |= 0x80;
    input.extend(update);
    let (found, error) = read(&mut reader(), [input.as_slice()]);
    assert_eq!((found.len(), error), (2, None));
    let update = Found::Other("WindowUpdate { stream: 1, increment: 1 }".into());
    assert_eq!(found[1], update);
}

#[test]
fn frames_of_unknown_types_are_skipped_whatever_their_length_and_stream() {
    let mut input = Vec::new();
    for (kind, length) in [(0xa, 0), (0xc, 1), (0xff, 16_384)] {
        input.extend(frame(kind, 0xff, u32::from(kind), &vec![0; length]));
    }
    writer::settings_ack(&mut input);
    let expected = ["Unknown", "Unknown", "Unknown", "SettingsAck"];
    let expected = (expected.map(|it| Found::Other(it.into())).to_vec(), None);
    assert_eq!(read(&mut reader(), [input.as_slice()]), expected);
    assert_eq!(read(&mut reader(), input.chunks(7)), expected);
}
