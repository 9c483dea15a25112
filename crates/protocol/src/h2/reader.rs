//! Reading frames from input that may be cut anywhere.
//!
//! A frame that lies in the input as a whole is not copied, and neither is DATA, which is handed
//! out as it arrives. Other frames are buffered until they are complete: at most one, no longer
//! than SETTINGS_MAX_FRAME_SIZE, and one header block.

use super::StreamId;
use super::error::{ErrorCode, Violation, protocol_error};
use super::frame::{
    self, Data, Frame, HEADER_BYTES, Header, Headers, Priority, PushPromise, flag, kind,
};
use super::settings::Settings;

/// Frames of one header block. A list of fields as long as servers accept by default, in frames of
/// the smallest maximum size, needs far fewer. An endless sequence of empty ones is an attack.
const BLOCK_FRAMES_MAX: u32 = 256;

/// A header block with more bytes than the limit. No code of an error stands for that alone.
pub(crate) const BLOCK_TOO_LARGE: Violation =
    Violation::connection(ErrorCode::ENHANCE_YOUR_CALM, "header block too large");

/// Reads the frames of one direction of a connection.
#[derive(Debug)]
pub struct Reader {
    frame_size_max: u32,
    block_bytes_max: usize,
    state: FrameReaderState,
    /// The beginning of a frame that is not complete.
    partial: Vec<u8>,
    /// The frame in `partial` was handed out.
    is_partial_done: bool,
    /// A header block in several frames.
    block: Vec<u8>,
    open: Option<OpenBlock>,
}

#[derive(Debug, Clone, Copy)]
enum FrameReaderState {
    /// Within or before a frame that is read as a whole.
    Whole,
    /// Within the payload of DATA, which is handed out in pieces.
    Data {
        stream: StreamId,
        end_stream: bool,
        content: u32,
        padding: u32,
        /// The length byte of the padding was read but not yet reported.
        length_byte: u32,
    },
    /// Within a frame that is ignored.
    Ignored { bytes: u32 },
}

/// The header block in `Reader::block`.
#[derive(Debug, Clone, Copy)]
struct OpenBlock {
    stream: StreamId,
    begin: Beginning,
    frames: u32,
}

/// The frame that a header block has begun with.
#[derive(Debug, Clone, Copy)]
enum Beginning {
    Headers {
        end_stream: bool,
        priority: Option<Priority>,
    },
    PushPromise {
        promised: StreamId,
    },
}

/// DATA, or HEADERS with a complete block. Unlike [`Frame`], it stays in registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimpleFrame<'a> {
    /// The stream that the frame belongs to.
    pub stream: StreamId,
    /// Whether the frame is DATA; otherwise it is HEADERS.
    pub is_data: bool,
    /// This is the end of the message.
    pub end_stream: bool,
    /// Content or header block.
    pub payload: &'a [u8],
}

/// What the reader has found in its input.
enum ReaderStep<'i> {
    /// The end of the input.
    End,
    Data(Data<'i>),
    /// A frame with a payload in the input or, if `None`, in `Reader::partial`.
    Whole(Header, Option<&'i [u8]>),
    /// The beginning of a frame of an unknown type.
    Unknown,
}

impl Reader {
    /// A reader at the beginning of a connection, after the preface. Header blocks (as they are
    /// sent, that is, compressed) may have this many bytes.
    #[must_use]
    pub fn new(block_bytes_max: usize) -> Self {
        Self {
            frame_size_max: Settings::INITIAL.max_frame_size,
            block_bytes_max,
            state: FrameReaderState::Whole,
            partial: Vec::new(),
            is_partial_done: false,
            block: Vec::new(),
            open: None,
        }
    }

    /// Accepts payloads of up to this many bytes. To be called when a larger
    /// SETTINGS_MAX_FRAME_SIZE is sent, or when the peer has acknowledged a smaller one.
    pub fn set_frame_size_max(&mut self, bytes: u32) {
        self.frame_size_max = bytes;
    }

    /// The next frame. Removes what was read from `input`. `None` means that the input is used up.
    ///
    /// Header blocks are complete: there is no [`Frame::Continuation`]. DATA comes in pieces, the
    /// last of which has `end_stream`. The payload of a frame of an unknown type is skipped.
    ///
    /// # Errors
    /// After an error of the connection the reader must not be used. After an error of a stream it
    /// goes on with the next frame.
    #[inline]
    pub fn next<'a, 'i: 'a>(
        &'a mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Frame<'a>>, Violation> {
        loop {
            match self.step(input)? {
                ReaderStep::End => return Ok(None),
                ReaderStep::Data(data) => return Ok(Some(Frame::Data(data))),
                ReaderStep::Unknown => return Ok(Some(Frame::Unknown)),
                ReaderStep::Whole(header, payload) => {
                    if !is_part_of_block(&header) {
                        let payload = payload.unwrap_or_else(|| &self.partial[HEADER_BYTES..]);
                        return frame::parse(&header, payload).map(Some);
                    }
                    if self.add_to_block(&header, payload)? {
                        break;
                    }
                }
            }
        }
        Ok(self.joined_block())
    }

    /// The next frame, if it is DATA or a complete header block, without padding and priority, and
    /// lies in the input as a whole. That is true of nearly every frame of a response. `None` says
    /// nothing about the input: everything else, and every error, is left to [`Self::next`].
    #[inline(always)]
    pub fn next_simple<'i>(&self, input: &mut &'i [u8]) -> Option<SimpleFrame<'i>> {
        let is_between_frames =
            matches!(self.state, FrameReaderState::Whole) && self.partial.is_empty();
        if !is_between_frames || self.open.is_some() {
            return None;
        }
        let (header, rest) = input.split_first_chunk()?;
        let header = Header::parse(header);
        let (payload, rest) = rest.split_at_checked(header.length as usize)?;
        let stream = header.stream;
        let has_extras = header.has(flag::PADDED | flag::PRIORITY);
        if has_extras || stream == 0 || header.length > self.frame_size_max {
            return None;
        }
        let is_complete = header.has(flag::END_HEADERS) && payload.len() <= self.block_bytes_max;
        let is_data = match header.kind {
            kind::DATA => true,
            kind::HEADERS if is_complete => false,
            _ => return None,
        };
        *input = rest;
        Some(SimpleFrame {
            stream,
            is_data,
            end_stream: header.has(flag::END_STREAM),
            payload,
        })
    }

    #[inline]
    fn step<'i>(&mut self, input: &mut &'i [u8]) -> Result<ReaderStep<'i>, Violation> {
        if self.is_partial_done {
            self.partial.clear();
            self.is_partial_done = false;
        }
        loop {
            match self.state {
                FrameReaderState::Whole => {
                    if let Some(step) = self.whole(input)? {
                        return Ok(step);
                    }
                }
                FrameReaderState::Data { .. } => return Ok(self.data(input)),
                FrameReaderState::Ignored { bytes } => {
                    let ignored = take_up_to(input, bytes).len() as u32;
                    if ignored < bytes {
                        self.state = FrameReaderState::Ignored {
                            bytes: bytes - ignored,
                        };
                        return Ok(ReaderStep::End);
                    }
                    self.state = FrameReaderState::Whole;
                }
            }
        }
    }

    /// Reads a frame, or the beginning of one that is not read as a whole: then the result is
    /// `None`, and the state has changed.
    #[inline]
    fn whole<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<ReaderStep<'i>>, Violation> {
        let header = match input.first_chunk() {
            Some(header) if self.partial.is_empty() => Header::parse(header),
            _ => {
                if !self.gather(input, HEADER_BYTES) {
                    return Ok(Some(ReaderStep::End));
                }
                match self.partial.first_chunk() {
                    Some(header) => Header::parse(header),
                    None => return Ok(Some(ReaderStep::End)),
                }
            }
        };
        let checked = self.check(&header);
        let is_streamed = header.kind == kind::DATA;
        let is_ignored = header.kind > kind::CONTINUATION || checked.is_err();
        let buffered = match (is_streamed, is_ignored) {
            (_, true) => 0,
            (true, false) => usize::from(header.has(flag::PADDED)),
            (false, false) => header.length as usize,
        };
        let end = HEADER_BYTES + buffered;
        let frame = match input.split_at_checked(end) {
            Some((frame, rest)) if self.partial.is_empty() => {
                *input = rest;
                Some(frame)
            }
            _ if !self.gather(input, end) => return Ok(Some(ReaderStep::End)),
            _ => {
                self.is_partial_done = true;
                None
            }
        };
        if is_ignored {
            self.partial.clear();
            self.is_partial_done = false;
            self.state = FrameReaderState::Ignored {
                bytes: header.length,
            };
            return checked.map(|()| Some(ReaderStep::Unknown));
        }
        let payload = frame.map(|frame| &frame[HEADER_BYTES..]);
        if is_streamed {
            let length_byte = payload.unwrap_or_else(|| &self.partial[HEADER_BYTES..]);
            self.begin_data(&header, length_byte.first().copied())?;
            self.partial.clear();
            self.is_partial_done = false;
            return Ok(None);
        }
        Ok(Some(ReaderStep::Whole(header, payload)))
    }

    /// Fills `partial` up to this length, and returns whether that worked.
    fn gather(&mut self, input: &mut &[u8], length: usize) -> bool {
        let missing = length.saturating_sub(self.partial.len());
        let taken = take_up_to(input, missing as u32);
        self.partial.extend_from_slice(taken);
        taken.len() == missing
    }

    fn check(&self, header: &Header) -> Result<(), Violation> {
        if header.length > self.frame_size_max {
            let reason = "frame larger than SETTINGS_MAX_FRAME_SIZE";
            return Err(Violation::connection(ErrorCode::FRAME_SIZE_ERROR, reason));
        }
        let continues = header.kind == kind::CONTINUATION;
        match &self.open {
            Some(open) if !continues || open.stream != header.stream => {
                Err(protocol_error("header block not continued"))
            }
            None if continues => Err(protocol_error("CONTINUATION without a header block")),
            _ if has_block(header) && header.length as usize > self.block_bytes_max => {
                Err(BLOCK_TOO_LARGE)
            }
            _ => header.check(),
        }
    }

    /// Whether the last frame is complete. DATA may be passed on in pieces.
    #[inline]
    pub(crate) fn is_between_frames(&self) -> bool {
        matches!(self.state, FrameReaderState::Whole)
    }

    fn begin_data(&mut self, header: &Header, padding: Option<u8>) -> Result<(), Violation> {
        let length_byte = u32::from(padding.is_some());
        let padding = u32::from(padding.unwrap_or(0));
        let content = (header.length - length_byte)
            .checked_sub(padding)
            .ok_or_else(frame::padding_error)?;
        self.state = FrameReaderState::Data {
            stream: header.stream,
            end_stream: header.has(flag::END_STREAM),
            content,
            padding,
            length_byte,
        };
        Ok(())
    }

    /// The next piece of DATA: all that there is of it in the input.
    #[inline]
    fn data<'i>(&mut self, input: &mut &'i [u8]) -> ReaderStep<'i> {
        let FrameReaderState::Data {
            stream,
            end_stream,
            content,
            padding,
            length_byte,
        } = self.state
        else {
            return ReaderStep::End;
        };
        if input.is_empty() && content + padding > 0 {
            return ReaderStep::End;
        }
        let piece = take_up_to(input, content);
        let content = content - piece.len() as u32;
        let skipped = match content {
            0 => take_up_to(input, padding).len() as u32,
            _ => 0,
        };
        let padding = padding - skipped;
        let is_last = content + padding == 0;
        self.state = if is_last {
            FrameReaderState::Whole
        } else {
            FrameReaderState::Data {
                stream,
                end_stream,
                content,
                padding,
                length_byte: 0,
            }
        };
        ReaderStep::Data(Data {
            stream,
            content: piece,
            padding: length_byte + skipped,
            end_stream: end_stream && is_last,
        })
    }

    /// Adds a frame to the header block. Returns whether the block is complete.
    fn add_to_block(&mut self, header: &Header, payload: Option<&[u8]>) -> Result<bool, Violation> {
        let payload = payload.unwrap_or_else(|| &self.partial[HEADER_BYTES..]);
        let (begin, part) = match frame::parse(header, payload)? {
            Frame::Headers(headers) => {
                let begin = Beginning::Headers {
                    end_stream: headers.end_stream,
                    priority: headers.priority,
                };
                (Some(begin), headers.block)
            }
            Frame::PushPromise(push) => {
                let promised = push.promised;
                (Some(Beginning::PushPromise { promised }), push.block)
            }
            Frame::Continuation { block, .. } => (None, block),
            _ => return Ok(false),
        };
        if let Some(begin) = begin {
            self.block.clear();
            self.open = Some(OpenBlock {
                stream: header.stream,
                begin,
                frames: 0,
            });
        }
        let Some(open) = &mut self.open else {
            return Ok(false);
        };
        open.frames += 1;
        if self.block.len() + part.len() > self.block_bytes_max {
            return Err(BLOCK_TOO_LARGE);
        }
        if open.frames > BLOCK_FRAMES_MAX {
            let reason = "a header block of too many frames";
            return Err(Violation::connection(ErrorCode::ENHANCE_YOUR_CALM, reason));
        }
        self.block.extend_from_slice(part);
        Ok(header.has(flag::END_HEADERS))
    }

    /// The complete header block, as if it had arrived in one frame.
    fn joined_block(&mut self) -> Option<Frame<'_>> {
        let open = self.open.take()?;
        let (stream, block) = (open.stream, self.block.as_slice());
        Some(match open.begin {
            Beginning::Headers {
                end_stream,
                priority,
            } => Frame::Headers(Headers {
                stream,
                block,
                priority,
                end_stream,
                end_headers: true,
            }),
            Beginning::PushPromise { promised } => Frame::PushPromise(PushPromise {
                stream,
                promised,
                block,
                end_headers: true,
            }),
        })
    }
}

#[inline]
fn has_block(header: &Header) -> bool {
    matches!(
        header.kind,
        kind::HEADERS | kind::PUSH_PROMISE | kind::CONTINUATION
    )
}

/// Whether a frame is one of several with a header block.
#[inline]
fn is_part_of_block(header: &Header) -> bool {
    let is_alone = header.has(flag::END_HEADERS) && header.kind != kind::CONTINUATION;
    has_block(header) && !is_alone
}

/// Takes this many bytes, or all if there are fewer.
#[inline]
fn take_up_to<'i>(input: &mut &'i [u8], bytes: u32) -> &'i [u8] {
    let (taken, rest) = input.split_at(input.len().min(bytes as usize));
    *input = rest;
    taken
}
