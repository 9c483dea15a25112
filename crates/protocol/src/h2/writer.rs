//! Writing frames (RFC 9113 section 6). Each function appends to `output`.

use super::StreamId;
use super::error::ErrorCode;
use super::frame::{HEADER_BYTES, Header, Priority, flag, kind};

impl Header {
    /// The header as the nine bytes in front of the payload.
    #[inline]
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let [_, l2, l1, l0] = self.length.to_be_bytes();
        let [s3, s2, s1, s0] = self.stream.to_be_bytes();
        [l2, l1, l0, self.kind, self.flags, s3, s2, s1, s0]
    }
}

/// Any frame, also one that breaks the rules.
#[inline]
pub fn frame(kind: u8, flags: u8, stream: StreamId, payload: &[u8], output: &mut Vec<u8>) {
    output.reserve(HEADER_BYTES + payload.len());
    header(kind, flags, stream, payload.len(), output);
    output.extend_from_slice(payload);
}

/// The header of a frame whose payload of `length` bytes the caller appends.
#[inline]
pub fn header(kind: u8, flags: u8, stream: StreamId, length: usize, output: &mut Vec<u8>) {
    let header = Header {
        length: length as u32,
        kind,
        flags,
        stream,
    };
    output.extend_from_slice(&header.to_bytes());
}

/// Any frame whose payload may be padded (DATA, HEADERS, PUSH_PROMISE), with this many bytes of
/// padding.
pub fn padded(
    kind: u8,
    flags: u8,
    stream: StreamId,
    payload: &[u8],
    padding: u8,
    output: &mut Vec<u8>,
) {
    let length = 1 + payload.len() + usize::from(padding);
    header(kind, flags | flag::PADDED, stream, length, output);
    output.push(padding);
    output.extend_from_slice(payload);
    output.resize(output.len() + usize::from(padding), 0);
}

/// DATA in one frame. Windows and the peer's SETTINGS_MAX_FRAME_SIZE are the caller's.
#[inline]
pub fn data(stream: StreamId, content: &[u8], end_stream: bool, output: &mut Vec<u8>) {
    frame(kind::DATA, end_flag(end_stream), stream, content, output);
}

/// HEADERS, continued in CONTINUATION frames if the block is longer than `frame_size_max`.
#[inline]
pub fn headers(
    stream: StreamId,
    block: &[u8],
    end_stream: bool,
    frame_size_max: u32,
    output: &mut Vec<u8>,
) {
    if block.len() <= frame_size_max as usize {
        let flags = flag::END_HEADERS | end_flag(end_stream);
        frame(kind::HEADERS, flags, stream, block, output);
        return;
    }
    let first = (kind::HEADERS, end_flag(end_stream));
    in_frames(first, &[], stream, block, frame_size_max, output);
}

/// HEADERS with a priority (deprecated), continued if necessary.
pub fn headers_with_priority(
    stream: StreamId,
    priority: Priority,
    block: &[u8],
    end_stream: bool,
    frame_size_max: u32,
    output: &mut Vec<u8>,
) {
    let first = (kind::HEADERS, end_flag(end_stream) | flag::PRIORITY);
    let fixed = priority_bytes(priority);
    in_frames(first, &fixed, stream, block, frame_size_max, output);
}

/// PUSH_PROMISE, continued if necessary.
pub fn push_promise(
    stream: StreamId,
    promised: StreamId,
    block: &[u8],
    frame_size_max: u32,
    output: &mut Vec<u8>,
) {
    let (first, fixed) = ((kind::PUSH_PROMISE, 0), promised.to_be_bytes());
    in_frames(first, &fixed, stream, block, frame_size_max, output);
}

/// A header block: a frame of this kind and with these flags, whose payload begins with `fixed`,
/// and as many CONTINUATION frames as necessary.
fn in_frames(
    (kind, flags): (u8, u8),
    fixed: &[u8],
    stream: StreamId,
    block: &[u8],
    frame_size_max: u32,
    output: &mut Vec<u8>,
) {
    let size_max = (frame_size_max as usize).max(fixed.len() + 1);
    let (first, mut rest) = block.split_at(block.len().min(size_max - fixed.len()));
    let end = if rest.is_empty() {
        flag::END_HEADERS
    } else {
        0
    };
    header(kind, flags | end, stream, fixed.len() + first.len(), output);
    output.extend_from_slice(fixed);
    output.extend_from_slice(first);
    while !rest.is_empty() {
        let (part, after) = rest.split_at(rest.len().min(size_max));
        let end = if after.is_empty() {
            flag::END_HEADERS
        } else {
            0
        };
        frame(kind::CONTINUATION, end, stream, part, output);
        rest = after;
    }
}

/// Appends PRIORITY, which RFC 9113 has deprecated.
pub fn priority(stream: StreamId, priority: Priority, output: &mut Vec<u8>) {
    frame(kind::PRIORITY, 0, stream, &priority_bytes(priority), output);
}

/// Appends RST_STREAM, which ends a stream.
pub fn reset(stream: StreamId, code: ErrorCode, output: &mut Vec<u8>) {
    frame(kind::RST_STREAM, 0, stream, &code.0.to_be_bytes(), output);
}

/// SETTINGS with these identifiers and values.
pub fn settings(entries: impl IntoIterator<Item = (u16, u32)>, output: &mut Vec<u8>) {
    let begin = output.len();
    header(kind::SETTINGS, 0, 0, 0, output);
    for (id, value) in entries {
        output.extend_from_slice(&id.to_be_bytes());
        output.extend_from_slice(&value.to_be_bytes());
    }
    let length = output.len() - begin - HEADER_BYTES;
    let bytes = (length as u32).to_be_bytes();
    output[begin..begin + 3].copy_from_slice(&bytes[1..]);
}

/// The acknowledgement of SETTINGS.
pub fn settings_ack(output: &mut Vec<u8>) {
    frame(kind::SETTINGS, flag::ACK, 0, &[], output);
}

/// PING, or its acknowledgement.
pub fn ping(opaque: [u8; 8], ack: bool, output: &mut Vec<u8>) {
    let flags = if ack { flag::ACK } else { 0 };
    frame(kind::PING, flags, 0, &opaque, output);
}

/// Appends GOAWAY, which ends the connection. Streams above `last_stream` are not processed.
pub fn goaway(last_stream: StreamId, code: ErrorCode, debug: &[u8], output: &mut Vec<u8>) {
    header(kind::GOAWAY, 0, 0, 8 + debug.len(), output);
    output.extend_from_slice(&last_stream.to_be_bytes());
    output.extend_from_slice(&code.0.to_be_bytes());
    output.extend_from_slice(debug);
}

/// WINDOW_UPDATE. Stream 0 is the connection.
#[inline]
pub fn window_update(stream: StreamId, increment: u32, output: &mut Vec<u8>) {
    frame(
        kind::WINDOW_UPDATE,
        0,
        stream,
        &increment.to_be_bytes(),
        output,
    );
}

#[inline]
fn end_flag(end_stream: bool) -> u8 {
    if end_stream { flag::END_STREAM } else { 0 }
}

fn priority_bytes(priority: Priority) -> [u8; 5] {
    let exclusive = u32::from(priority.exclusive) << 31;
    let [d3, d2, d1, d0] = (priority.dependency | exclusive).to_be_bytes();
    [d3, d2, d1, d0, priority.weight]
}
