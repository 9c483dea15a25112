//! Frames (RFC 9113 sections 4 and 6): their header, their payload, and the rules on length, stream
//! and padding that need no knowledge of streams.

use super::StreamId;
use super::error::{ErrorCode, Violation, protocol_error};

/// Bytes of a frame before its payload (section 4.1).
pub const HEADER_BYTES: usize = 9;

/// The types of frames (section 6).
#[expect(missing_docs, reason = "the names of RFC 9113 section 6")]
pub mod kind {
    pub const DATA: u8 = 0x0;
    pub const HEADERS: u8 = 0x1;
    pub const PRIORITY: u8 = 0x2;
    pub const RST_STREAM: u8 = 0x3;
    pub const SETTINGS: u8 = 0x4;
    pub const PUSH_PROMISE: u8 = 0x5;
    pub const PING: u8 = 0x6;
    pub const GOAWAY: u8 = 0x7;
    pub const WINDOW_UPDATE: u8 = 0x8;
    pub const CONTINUATION: u8 = 0x9;
}

/// The flags of frames (section 6). Each has a meaning only in some types of frames.
pub mod flag {
    /// In SETTINGS and PING: the frame is an acknowledgement.
    pub const ACK: u8 = 0x1;
    /// In DATA and HEADERS: the last frame of a message.
    pub const END_STREAM: u8 = 0x1;
    /// In HEADERS, PUSH_PROMISE and CONTINUATION: the header block is complete.
    pub const END_HEADERS: u8 = 0x4;
    /// In DATA, HEADERS and PUSH_PROMISE: the payload has padding.
    pub const PADDED: u8 = 0x8;
    /// In HEADERS: the payload begins with a priority.
    pub const PRIORITY: u8 = 0x20;
}

/// The first nine bytes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the payload, 24 bits.
    pub length: u32,
    /// One of [`kind`], or an unknown type.
    pub kind: u8,
    /// The flags that are set, bits of [`flag`].
    pub flags: u8,
    /// The stream; 0 is the connection. The reserved bit is ignored.
    pub stream: StreamId,
}

impl Header {
    /// Reads the header of a frame, whatever its type.
    #[inline]
    #[must_use]
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Self {
        let [l2, l1, l0, kind, flags, stream @ ..] = *bytes;
        Self {
            length: u32::from_be_bytes([0, l2, l1, l0]),
            kind,
            flags,
            stream: identifier(stream),
        }
    }

    /// Whether this flag is set.
    #[inline]
    #[must_use]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Checks what can be known without the payload: its length, and whether the frame belongs to a
    /// stream or to the connection. A frame of an unknown type has no rules.
    ///
    /// # Errors
    /// A PRIORITY frame of the wrong length is an error of its stream (section 6.3); all others are
    /// errors of the connection.
    #[inline]
    pub fn check(&self) -> Result<(), Violation> {
        let padding = u32::from(self.has(flag::PADDED));
        let (on_stream, length_is_good) = match self.kind {
            kind::DATA => (Some(true), self.length >= padding),
            kind::HEADERS => {
                let priority = if self.has(flag::PRIORITY) { 5 } else { 0 };
                (Some(true), self.length >= padding + priority)
            }
            kind::PRIORITY => (Some(true), self.length == 5),
            kind::RST_STREAM => (Some(true), self.length == 4),
            kind::SETTINGS if self.has(flag::ACK) => (Some(false), self.length == 0),
            kind::SETTINGS => (Some(false), self.length.is_multiple_of(6)),
            kind::PUSH_PROMISE => (Some(true), self.length >= padding + 4),
            kind::PING => (Some(false), self.length == 8),
            kind::GOAWAY => (Some(false), self.length >= 8),
            kind::WINDOW_UPDATE => (None, self.length == 4),
            kind::CONTINUATION => (Some(true), true),
            _ => return Ok(()),
        };
        match on_stream {
            Some(true) if self.stream == 0 => Err(protocol_error("frame needs a stream")),
            Some(false) if self.stream != 0 => Err(protocol_error("frame must not have a stream")),
            _ if length_is_good => Ok(()),
            _ => {
                let stream = if self.kind == kind::PRIORITY {
                    self.stream
                } else {
                    0
                };
                let reason = "frame of a wrong length";
                Err(Violation::on(stream, ErrorCode::FRAME_SIZE_ERROR, reason))
            }
        }
    }
}

/// A frame.
///
/// [`parse`] returns one frame as it is. The [`Reader`](super::reader::Reader) joins header blocks
/// from CONTINUATION frames, and hands out DATA in pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Content of a message (section 6.1).
    Data(Data<'a>),
    /// The beginning or the trailers of a message (section 6.2).
    Headers(Headers<'a>),
    /// PRIORITY, which RFC 9113 has deprecated (section 6.3).
    Priority {
        /// The stream that it is about.
        stream: StreamId,
        /// The priority that the stream asks for.
        priority: Priority,
    },
    /// RST_STREAM: the end of a stream (section 6.4).
    Reset {
        /// The stream that has ended.
        stream: StreamId,
        /// Why the stream has ended.
        code: ErrorCode,
    },
    /// New settings of the peer, to be acknowledged (section 6.5).
    Settings(Entries<'a>),
    /// The peer has applied our settings (section 6.5.3).
    SettingsAck,
    /// A response that nobody asked for (section 6.6).
    PushPromise(PushPromise<'a>),
    /// To be sent back with the same bytes, unless it is an acknowledgement (section 6.7).
    Ping {
        /// It is an acknowledgement.
        ack: bool,
        /// Eight bytes of the sender's choice.
        opaque: [u8; 8],
    },
    /// The peer ends the connection (section 6.8).
    Goaway {
        /// Streams above this one were not and will not be processed.
        last_stream: StreamId,
        /// Why the connection ends; NO_ERROR if nothing is wrong.
        code: ErrorCode,
        /// Debug data of any form; may be empty.
        debug: &'a [u8],
    },
    /// More DATA may be sent (section 6.9).
    WindowUpdate {
        /// The stream; 0 is the connection.
        stream: StreamId,
        /// Bytes, 1 to 2^31-1.
        increment: u32,
    },
    /// The continuation of a header block (section 6.10).
    Continuation {
        /// The stream of the header block.
        stream: StreamId,
        /// A part of the header block.
        block: &'a [u8],
        /// It is the last part.
        end_headers: bool,
    },
    /// A frame of an unknown type, which must be ignored (section 4.1).
    Unknown,
}

/// DATA, or a piece of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Data<'a> {
    /// The stream that the data belongs to.
    pub stream: StreamId,
    /// The content without padding.
    pub content: &'a [u8],
    /// Bytes of padding, including its length byte. They count for flow control.
    pub padding: u32,
    /// This is the end of the message, and of the frame.
    pub end_stream: bool,
}

impl Data<'_> {
    /// What the windows of stream and connection lose.
    #[inline]
    #[must_use]
    pub fn flow_bytes(&self) -> u32 {
        // The length of a frame has 24 bits.
        self.content.len() as u32 + self.padding
    }
}

/// HEADERS: the beginning or the trailers of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers<'a> {
    /// The stream that the message belongs to.
    pub stream: StreamId,
    /// The header block, or its first part.
    pub block: &'a [u8],
    /// A priority, which RFC 9113 has deprecated.
    pub priority: Option<Priority>,
    /// Whether the message has no content.
    pub end_stream: bool,
    /// Whether the block is complete. Always true from a reader.
    pub end_headers: bool,
}

/// PUSH_PROMISE: the server announces a response that it pushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushPromise<'a> {
    /// The stream of the request that has led to it.
    pub stream: StreamId,
    /// The stream of the response.
    pub promised: StreamId,
    /// The header block of the request that nobody sent, or its first part.
    pub block: &'a [u8],
    /// Whether the block is complete. Always true from a reader.
    pub end_headers: bool,
}

/// A priority by RFC 7540 section 5.3, which RFC 9113 has deprecated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// The stream that this one depends on.
    pub dependency: StreamId,
    /// Whether it is the only one to depend on it.
    pub exclusive: bool,
    /// 1 to 256, minus one.
    pub weight: u8,
}

impl Priority {
    fn parse(bytes: &[u8; 5]) -> Self {
        let [dependency @ .., weight] = *bytes;
        Self {
            dependency: identifier(dependency),
            exclusive: dependency[0] & 0x80 != 0,
            weight,
        }
    }
}

/// The entries of a SETTINGS frame, in the order in which they are to be applied: identifier and
/// value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entries<'a>(&'a [u8]);

impl Iterator for Entries<'_> {
    type Item = (u16, u32);

    fn next(&mut self) -> Option<Self::Item> {
        let ([i1, i0, value @ ..], rest) = self.0.split_first_chunk::<6>()?;
        self.0 = rest;
        Some((u16::from_be_bytes([*i1, *i0]), u32::from_be_bytes(*value)))
    }
}

/// Reads a frame. Its header was checked, and its payload is complete.
///
/// # Errors
/// If the payload breaks a rule. A WINDOW_UPDATE of 0 for a stream is an error of that stream; all
/// others are errors of the connection.
#[inline]
pub fn parse<'a>(header: &Header, payload: &'a [u8]) -> Result<Frame<'a>, Violation> {
    let stream = header.stream;
    let end_stream = header.has(flag::END_STREAM);
    let end_headers = header.has(flag::END_HEADERS);
    let frame = match header.kind {
        kind::DATA => {
            let (content, padding) = without_padding(header, payload)?;
            Frame::Data(Data {
                stream,
                content,
                padding,
                end_stream,
            })
        }
        kind::HEADERS => {
            let (mut block, _) = without_padding(header, payload)?;
            let mut priority = None;
            if header.has(flag::PRIORITY) {
                priority = Some(Priority::parse(take(&mut block)?));
            }
            Frame::Headers(Headers {
                stream,
                block,
                priority,
                end_stream,
                end_headers,
            })
        }
        kind::PUSH_PROMISE => {
            let (mut block, _) = without_padding(header, payload)?;
            let promised = identifier(*take(&mut block)?);
            if promised == 0 || promised % 2 == 1 {
                return Err(protocol_error("promised stream is not one of a server"));
            }
            Frame::PushPromise(PushPromise {
                stream,
                promised,
                block,
                end_headers,
            })
        }
        kind::CONTINUATION => Frame::Continuation {
            stream,
            block: payload,
            end_headers,
        },
        _ => return parse_short(header, payload),
    };
    Ok(frame)
}

/// Reads a frame without content and fields.
fn parse_short<'a>(header: &Header, mut payload: &'a [u8]) -> Result<Frame<'a>, Violation> {
    let stream = header.stream;
    let payload = &mut payload;
    let frame = match header.kind {
        kind::PRIORITY => Frame::Priority {
            stream,
            priority: Priority::parse(take(payload)?),
        },
        kind::RST_STREAM => Frame::Reset {
            stream,
            code: ErrorCode(u32::from_be_bytes(*take(payload)?)),
        },
        kind::SETTINGS if header.has(flag::ACK) => Frame::SettingsAck,
        kind::SETTINGS => Frame::Settings(Entries(payload)),
        kind::PING => Frame::Ping {
            ack: header.has(flag::ACK),
            opaque: *take(payload)?,
        },
        kind::GOAWAY => Frame::Goaway {
            last_stream: identifier(*take(payload)?),
            code: ErrorCode(u32::from_be_bytes(*take(payload)?)),
            debug: payload,
        },
        kind::WINDOW_UPDATE => {
            let increment = identifier(*take(payload)?);
            if increment == 0 {
                let reason = "WINDOW_UPDATE of 0";
                return Err(Violation::on(stream, ErrorCode::PROTOCOL_ERROR, reason));
            }
            Frame::WindowUpdate { stream, increment }
        }
        _ => Frame::Unknown,
    };
    Ok(frame)
}

/// The payload between the length of the padding and the padding, and the bytes of both.
#[inline]
fn without_padding<'a>(header: &Header, payload: &'a [u8]) -> Result<(&'a [u8], u32), Violation> {
    if !header.has(flag::PADDED) {
        return Ok((payload, 0));
    }
    let (&padding, rest) = payload.split_first().ok_or_else(too_short)?;
    match rest.len().checked_sub(usize::from(padding)) {
        Some(length) => Ok((&rest[..length], 1 + u32::from(padding))),
        None => Err(padding_error()),
    }
}

#[cold]
pub(super) fn padding_error() -> Violation {
    protocol_error("more padding than payload")
}

/// Takes the next `N` bytes. Padding may have left fewer.
#[inline]
fn take<'a, const N: usize>(payload: &mut &'a [u8]) -> Result<&'a [u8; N], Violation> {
    let (bytes, rest) = payload.split_first_chunk().ok_or_else(too_short)?;
    *payload = rest;
    Ok(bytes)
}

#[cold]
fn too_short() -> Violation {
    Violation::connection(ErrorCode::FRAME_SIZE_ERROR, "frame of a wrong length")
}

/// 31 bits: the first bit is reserved, or means something else.
#[inline]
fn identifier(bytes: [u8; 4]) -> u32 {
    u32::from_be_bytes(bytes) & 0x7fff_ffff
}
