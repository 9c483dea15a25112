//! Frames (RFC 9114 section 7): a reader that takes the bytes of a stream as they arrive, and
//! functions that write frames.

use super::error::{ErrorCode, Violation};
use super::varint;

/// Types of frames (RFC 9114 section 7.2).
pub mod frame_type {
    #![expect(missing_docs, reason = "the names of RFC 9114 section 7.2")]
    pub const DATA: u64 = 0x0;
    pub const HEADERS: u64 = 0x1;
    pub const CANCEL_PUSH: u64 = 0x3;
    pub const SETTINGS: u64 = 0x4;
    pub const PUSH_PROMISE: u64 = 0x5;
    pub const GOAWAY: u64 = 0x7;
    pub const MAX_PUSH_ID: u64 = 0xd;
}

/// Settings (RFC 9114 section 7.2.4.1, RFC 9204 section 5).
pub mod setting {
    #![expect(missing_docs, reason = "the names of the RFCs")]
    pub const QPACK_MAX_TABLE_CAPACITY: u64 = 0x1;
    pub const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
    pub const QPACK_BLOCKED_STREAMS: u64 = 0x7;
}

/// Types of unidirectional streams (RFC 9114 section 6.2, RFC 9204 section 4.2).
pub mod stream_type {
    #![expect(missing_docs, reason = "the names of the RFCs")]
    pub const CONTROL: u64 = 0x0;
    pub const PUSH: u64 = 0x1;
    pub const QPACK_ENCODER: u64 = 0x2;
    pub const QPACK_DECODER: u64 = 0x3;
}

/// Bytes of SETTINGS. There are three settings, each of up to 16 bytes, and a few unknown ones that
/// keep the field open.
const SETTINGS_BYTES_MAX: u64 = 4096;

/// A type and a length, each of up to 8 bytes.
const HEADER_BYTES_MAX: usize = 16;

/// What a reader has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Content of a DATA frame, as far as it is in the input; empty only if the frame is.
    Data(&'a [u8]),
    /// A complete HEADERS frame: its field section.
    Headers(&'a [u8]),
    /// A HEADERS frame that is larger than the limit. Its bytes are skipped.
    HeadersTooLarge,
    /// The number of a push.
    CancelPush(u64),
    /// A complete SETTINGS frame.
    Settings(Settings<'a>),
    /// The beginning of a PUSH_PROMISE frame. Its bytes are skipped.
    PushPromise,
    /// The number of a stream, or of a push.
    Goaway(u64),
    /// The number of a push.
    MaxPushId(u64),
    /// The beginning of a frame of this type, which RFC 9114 does not define. Its bytes are skipped
    /// (section 9).
    Unknown(u64),
}

/// The identifiers and values in a SETTINGS frame. They were checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings<'a>(&'a [u8]);

impl Iterator for Settings<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        Some((varint::take(&mut self.0)?, varint::take(&mut self.0)?))
    }
}

impl<'a> Settings<'a> {
    /// RFC 9114 section 7.2.4: no identifier twice, and none that stands for a setting of HTTP/2.
    fn check(payload: &'a [u8]) -> Result<Self, Violation> {
        let mut rest = payload;
        let mut known = Vec::new();
        while !rest.is_empty() {
            let (Some(identifier), Some(_)) = (varint::take(&mut rest), varint::take(&mut rest))
            else {
                return Err(frame_error("SETTINGS that end within a setting"));
            };
            if matches!(identifier, 0x2..=0x5) {
                return Err(settings_error("a setting of HTTP/2"));
            }
            known.push(identifier);
        }
        known.sort_unstable();
        if known.is_sorted_by(|a, b| a < b) {
            Ok(Self(payload))
        } else {
            Err(settings_error("the same setting twice"))
        }
    }
}

/// What is done with the payload of the frame that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Payload {
    /// It is passed on in pieces.
    Data,
    /// It is passed on as a whole: the type of the frame.
    Whole(u64),
    Skipped,
}

/// Reads the frames of one stream. It may be cut anywhere. Only field sections and the short frames
/// of the control stream are ever copied, and only if they are cut.
#[derive(Debug)]
pub struct FrameReader {
    /// The type and the length of a frame, as far as they have arrived.
    header: [u8; HEADER_BYTES_MAX],
    header_bytes: usize,
    payload: Payload,
    /// Bytes of the payload that have not been read. In a header, 0.
    remaining: u64,
    /// The payload as far as it has arrived, if it is needed as a whole.
    buffer: Vec<u8>,
    /// The payload in `buffer` has been passed on.
    is_buffer_used: bool,
    section_bytes_max: u64,
}

impl FrameReader {
    /// A reader at the beginning of a stream, for field sections of up to this many bytes.
    #[must_use]
    pub fn new(section_bytes_max: usize) -> Self {
        Self {
            header: [0; HEADER_BYTES_MAX],
            header_bytes: 0,
            payload: Payload::Skipped,
            remaining: 0,
            buffer: Vec::new(),
            is_buffer_used: false,
            section_bytes_max: section_bytes_max as u64,
        }
    }

    /// Goes back to the beginning of a stream, and keeps the memory.
    pub fn reset(&mut self) {
        self.header_bytes = 0;
        self.payload = Payload::Skipped;
        self.remaining = 0;
        self.buffer.clear();
        self.is_buffer_used = false;
    }

    /// Whether the stream may end here (RFC 9114 section 7.1).
    #[must_use]
    pub fn is_between_frames(&self) -> bool {
        self.header_bytes == 0 && self.remaining == 0
    }

    /// Bytes of memory that frames which were cut have taken.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Takes bytes from the beginning of `input` until something is found. `None` means that all of
    /// the input was taken.
    ///
    /// # Errors
    /// If a frame breaks a rule that holds on any stream. The connection must be closed.
    #[inline]
    pub fn next<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Frame<'a>>, Violation> {
        if self.is_buffer_used {
            self.buffer.clear();
            self.is_buffer_used = false;
        }
        loop {
            if self.remaining > 0 {
                if input.is_empty() {
                    return Ok(None);
                }
                match self.payload {
                    Payload::Skipped => {
                        self.take(input);
                    }
                    Payload::Data => return Ok(Some(Frame::Data(self.take(input)))),
                    Payload::Whole(kind) => return self.take_whole(kind, input),
                }
                continue;
            }
            let Some((kind, length)) = self.take_header(input) else {
                return Ok(None);
            };
            if let Some(frame) = self.begin(kind, length)? {
                return Ok(Some(frame));
            }
        }
    }

    /// Takes what is there of the payload.
    fn take<'i>(&mut self, input: &mut &'i [u8]) -> &'i [u8] {
        let length = usize::try_from(self.remaining).unwrap_or(usize::MAX);
        let (taken, rest) = input.split_at(length.min(input.len()));
        *input = rest;
        self.remaining -= taken.len() as u64;
        taken
    }

    /// Takes a payload that is needed as a whole, from the input alone if all of it is there.
    fn take_whole<'a, 'i: 'a>(
        &'a mut self,
        kind: u64,
        input: &mut &'i [u8],
    ) -> Result<Option<Frame<'a>>, Violation> {
        let taken = self.take(input);
        if self.remaining == 0 && self.buffer.is_empty() {
            return whole(kind, taken).map(Some);
        }
        self.buffer.extend_from_slice(taken);
        if self.remaining > 0 {
            return Ok(None);
        }
        self.is_buffer_used = true;
        whole(kind, &self.buffer).map(Some)
    }

    /// Takes the type and the length of a frame.
    #[inline]
    fn take_header(&mut self, input: &mut &[u8]) -> Option<(u64, u64)> {
        if self.header_bytes == 0 {
            let mut rest = *input;
            if let (Some(kind), Some(length)) = (varint::take(&mut rest), varint::take(&mut rest)) {
                *input = rest;
                return Some((kind, length));
            }
        }
        self.take_cut_header(input)
    }

    #[cold]
    fn take_cut_header(&mut self, input: &mut &[u8]) -> Option<(u64, u64)> {
        while let Some((&byte, rest)) = input.split_first() {
            *input = rest;
            // Two integers are complete before the room is used up.
            if let Some(place) = self.header.get_mut(self.header_bytes) {
                *place = byte;
                self.header_bytes += 1;
            }
            let mut header = &self.header[..self.header_bytes];
            if let (Some(kind), Some(length)) =
                (varint::take(&mut header), varint::take(&mut header))
            {
                self.header_bytes = 0;
                return Some((kind, length));
            }
        }
        None
    }

    /// A frame begins. Returns it if its payload is empty or not needed.
    #[inline]
    fn begin(&mut self, kind: u64, length: u64) -> Result<Option<Frame<'static>>, Violation> {
        self.remaining = length;
        self.payload = Payload::Whole(kind);
        match kind {
            frame_type::DATA => {
                self.payload = Payload::Data;
                Ok((length == 0).then_some(Frame::Data(&[])))
            }
            frame_type::HEADERS if length > self.section_bytes_max => {
                self.payload = Payload::Skipped;
                Ok(Some(Frame::HeadersTooLarge))
            }
            frame_type::HEADERS if length == 0 => Ok(Some(Frame::Headers(&[]))),
            frame_type::HEADERS => Ok(None),
            frame_type::SETTINGS if length > SETTINGS_BYTES_MAX => Err(Violation::new(
                ErrorCode::EXCESSIVE_LOAD,
                "SETTINGS of more than 4096 bytes",
            )),
            frame_type::SETTINGS if length == 0 => Ok(Some(Frame::Settings(Settings(&[])))),
            frame_type::SETTINGS => Ok(None),
            frame_type::CANCEL_PUSH | frame_type::GOAWAY | frame_type::MAX_PUSH_ID => {
                match length {
                    1 | 2 | 4 | 8 => Ok(None),
                    _ => Err(frame_error("a frame with more or less than one integer")),
                }
            }
            frame_type::PUSH_PROMISE => {
                self.payload = Payload::Skipped;
                Ok(Some(Frame::PushPromise))
            }
            // PRIORITY, PING, WINDOW_UPDATE and CONTINUATION (RFC 9114 section 7.2.8).
            0x2 | 0x6 | 0x8 | 0x9 => Err(Violation::new(
                ErrorCode::FRAME_UNEXPECTED,
                "a frame of HTTP/2",
            )),
            _ => {
                self.payload = Payload::Skipped;
                Ok(Some(Frame::Unknown(kind)))
            }
        }
    }
}

/// The frame with this payload, which is not empty.
#[inline]
fn whole(kind: u64, payload: &[u8]) -> Result<Frame<'_>, Violation> {
    if kind == frame_type::HEADERS {
        return Ok(Frame::Headers(payload));
    }
    if kind == frame_type::SETTINGS {
        return Settings::check(payload).map(Frame::Settings);
    }
    let mut rest = payload;
    match (varint::take(&mut rest), rest) {
        (Some(id), []) => Ok(match kind {
            frame_type::CANCEL_PUSH => Frame::CancelPush(id),
            frame_type::GOAWAY => Frame::Goaway(id),
            _ => Frame::MaxPushId(id),
        }),
        _ => Err(frame_error("a frame with more or less than one integer")),
    }
}

/// Appends the type and the length of a frame. The payload follows.
pub fn append_header(kind: u64, length: u64, output: &mut Vec<u8>) {
    varint::append(kind, output);
    varint::append(length, output);
}

/// Appends a frame.
pub fn append(kind: u64, payload: &[u8], output: &mut Vec<u8>) {
    append_header(kind, payload.len() as u64, output);
    output.extend_from_slice(payload);
}

/// Appends a SETTINGS frame with these identifiers and values.
pub fn append_settings(settings: &[(u64, u64)], output: &mut Vec<u8>) {
    let mut payload = Vec::new();
    for (identifier, value) in settings {
        varint::append(*identifier, &mut payload);
        varint::append(*value, &mut payload);
    }
    append(frame_type::SETTINGS, &payload, output);
}

/// Appends a GOAWAY frame.
pub fn append_goaway(id: u64, output: &mut Vec<u8>) {
    let mut payload = Vec::new();
    varint::append(id, &mut payload);
    append(frame_type::GOAWAY, &payload, output);
}

#[cold]
const fn frame_error(reason: &'static str) -> Violation {
    Violation::new(ErrorCode::FRAME_ERROR, reason)
}

#[cold]
const fn settings_error(reason: &'static str) -> Violation {
    Violation::new(ErrorCode::SETTINGS_ERROR, reason)
}
