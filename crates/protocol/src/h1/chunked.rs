//! Decoder of the chunked transfer coding (RFC 9112 section 7.1), for input in pieces.

use memchr::memchr2;

use crate::SessionError;

/// Longest chunk-size line, including its extensions. The RFC gives no number, but says that
/// recipients ought to have a limit.
const LINE_BYTES_MAX: u32 = 16 * 1024;

/// The kind of the bytes just consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChunkPart {
    /// Sizes, extensions, line ends: more input is needed.
    Framing,
    /// Content of the body.
    Data,
    /// The framing up to the end of the line of the last chunk. The trailer section follows.
    LastChunk,
}

/// The state of a chunked body between two bytes, up to the trailer section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunked {
    /// While reading a size: its value so far. Within a chunk: the bytes left.
    remaining: u64,
    line_bytes: u32,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Before the first digit of a size.
    SizeStart,
    /// After at least one digit.
    Size,
    /// In blanks after the size, which some servers use for padding.
    SizePad,
    /// In an extension, which is skipped.
    Extension,
    /// After the CR of a size line.
    SizeLf,
    Data,
    DataCr,
    DataLf,
}

impl Chunked {
    /// The state before the first chunk.
    pub(crate) fn new() -> Self {
        Self {
            remaining: 0,
            line_bytes: 0,
            phase: Phase::SizeStart,
        }
    }

    /// Consumes bytes from the start of `input`, at least one if there is one. Returns their number
    /// and kind. Must not be called again after [`ChunkPart::LastChunk`].
    ///
    /// # Errors
    /// [`SessionError::BadChunk`] if the framing is broken.
    pub(crate) fn advance(&mut self, input: &[u8]) -> Result<(usize, ChunkPart), SessionError> {
        if self.phase == Phase::Data {
            return Ok((self.take_data(input), ChunkPart::Data));
        }
        let mut at = 0;
        while at < input.len() {
            if self.phase == Phase::Extension {
                at += self.skip_extension(&input[at..])?;
                continue;
            }
            let last_chunk = self.take_framing(input[at])?;
            at += 1;
            if last_chunk {
                return Ok((at, ChunkPart::LastChunk));
            }
            if self.phase == Phase::Data {
                break;
            }
        }
        Ok((at, ChunkPart::Framing))
    }

    /// Bytes left of the current chunk's content.
    pub(crate) fn data_bytes(self) -> u64 {
        match self.phase {
            Phase::Data => self.remaining,
            _ => 0,
        }
    }

    /// Skips this many of [`Self::data_bytes`].
    pub(crate) fn skip_data(&mut self, bytes: u64) {
        self.remaining -= bytes;
        if self.remaining == 0 {
            self.phase = Phase::DataCr;
        }
    }

    fn take_data(&mut self, input: &[u8]) -> usize {
        let taken = usize::try_from(self.remaining).map_or(input.len(), |n| n.min(input.len()));
        self.skip_data(taken as u64);
        taken
    }

    /// Consumes one byte of a size line or of the line end after a chunk. Returns true if it ended
    /// the last chunk's line. A lone LF is rejected: the leniency of RFC 9112 section 2.2 applies
    /// to the start line and fields only.
    #[inline]
    fn take_framing(&mut self, byte: u8) -> Result<bool, SessionError> {
        self.phase = match (self.phase, byte) {
            (Phase::SizeStart | Phase::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                self.take_digit(byte)?;
                Phase::Size
            }
            (Phase::Size | Phase::SizePad, b' ' | b'\t') => {
                self.count_line(1)?;
                Phase::SizePad
            }
            (Phase::Size | Phase::SizePad, b';') => Phase::Extension,
            (Phase::Size | Phase::SizePad, b'\r') => Phase::SizeLf,
            (Phase::SizeLf, b'\n') => {
                self.line_bytes = 0;
                if self.remaining == 0 {
                    return Ok(true);
                }
                Phase::Data
            }
            (Phase::DataCr, b'\r') => Phase::DataLf,
            (Phase::DataLf, b'\n') => Phase::SizeStart,
            _ => return Err(SessionError::BadChunk),
        };
        Ok(false)
    }

    #[inline]
    fn take_digit(&mut self, byte: u8) -> Result<(), SessionError> {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            _ => (byte | 0x20) - b'a' + 10,
        };
        if self.remaining >> 60 != 0 {
            return Err(SessionError::BadChunk);
        }
        self.remaining = self.remaining << 4 | u64::from(digit);
        self.count_line(1)
    }

    fn skip_extension(&mut self, input: &[u8]) -> Result<usize, SessionError> {
        let end = memchr2(b'\r', b'\n', input);
        let skipped = end.unwrap_or(input.len());
        self.count_line(skipped)?;
        match end {
            None => Ok(skipped),
            Some(at) if input[at] == b'\r' => {
                self.phase = Phase::SizeLf;
                Ok(skipped + 1)
            }
            Some(_) => Err(SessionError::BadChunk),
        }
    }

    #[inline]
    fn count_line(&mut self, bytes: usize) -> Result<(), SessionError> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.line_bytes = self.line_bytes.saturating_add(bytes);
        if self.line_bytes > LINE_BYTES_MAX {
            Err(SessionError::BadChunk)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes `input` in pieces of `step` bytes. Returns the content and the length up to the
    /// trailers.
    fn decode(input: &[u8], step: usize) -> Result<(Vec<u8>, Option<usize>), SessionError> {
        let mut decoder = Chunked::new();
        let mut content = Vec::new();
        let mut at = 0;
        while at < input.len() {
            let end = input.len().min(at + step);
            let (taken, part) = decoder.advance(&input[at..end])?;
            assert!(taken > 0, "no progress at {at}");
            if part == ChunkPart::Data {
                content.extend_from_slice(&input[at..at + taken]);
            }
            at += taken;
            if part == ChunkPart::LastChunk {
                return Ok((content, Some(at)));
            }
        }
        Ok((content, None))
    }

    fn check(input: &[u8], expected: Result<(&[u8], Option<usize>), SessionError>) {
        let expected = expected.map(|(content, end)| (content.to_vec(), end));
        for step in 1..=input.len() {
            assert_eq!(
                decode(input, step),
                expected,
                "{input:?} in steps of {step}"
            );
        }
    }

    #[test]
    fn chunks_are_joined() {
        check(
            b"5\r\nhello\r\n6\r\n world\r\n0\r\n",
            Ok((b"hello world", Some(24))),
        );
        check(b"0\r\n\r\n", Ok((b"", Some(3))));
        check(b"A\r\n0123456789\r\n00\r\n", Ok((b"0123456789", Some(19))));
        check(
            b"a\r\n0123456789\r\n0\r\nX: y\r\n",
            Ok((b"0123456789", Some(18))),
        );
    }

    #[test]
    fn extensions_and_padding_are_skipped() {
        check(b"2;a=b;c=\"d\"\r\nhi\r\n0;last\r\n", Ok((b"hi", Some(25))));
        check(b"2  \r\nhi\r\n0\t\r\n", Ok((b"hi", Some(13))));
        check(b"2 ; x\r\nhi\r\n0\r\n", Ok((b"hi", Some(14))));
    }

    #[test]
    fn an_unfinished_body_has_no_end() {
        check(b"5\r\nhel", Ok((b"hel", None)));
        check(b"5\r\nhello\r\n", Ok((b"hello", None)));
        check(b"0\r", Ok((b"", None)));
    }

    #[test]
    fn broken_framing_is_rejected() {
        for input in [
            b"\r\n".as_slice(),
            b"ZZ\r\n",
            b"-5\r\nhello\r\n",
            b"+5\r\nhello\r\n",
            b"0x5\r\nhello\r\n",
            b" 5\r\nhello\r\n",
            b"5\nhello\r\n",
            b"5 5\r\n",
            b"5\rX",
            b"5;a\nhello\r\n",
            b"2\r\nhiX",
            b"2\r\nhi\nX",
            b"2\r\nhi\rX",
            b";a\r\n",
            b"10000000000000000\r\n",
            b"fffffffffffffffff\r\n",
        ] {
            check(input, Err(SessionError::BadChunk));
        }
    }

    #[test]
    fn the_largest_size_is_accepted_and_leading_zeros_are_ignored() {
        check(b"ffffffffffffffff\r\nabc", Ok((b"abc", None)));
        check(
            b"00000000000000000000002\r\nhi\r\n0\r\n",
            Ok((b"hi", Some(32))),
        );
    }

    #[test]
    fn a_size_line_without_end_is_rejected_at_the_limit() {
        let within = [b"1;", vec![b'x'; 16 * 1024 - 1].as_slice(), b"\r\nA"].concat();
        assert_eq!(decode(&within, 7), Ok((b"A".to_vec(), None)));
        for filler in [b'x', b';', b'"'] {
            let beyond = [b"1;", vec![filler; 16 * 1024].as_slice()].concat();
            assert_eq!(decode(&beyond, 1000), Err(SessionError::BadChunk));
        }
        assert_eq!(
            decode(&vec![b'0'; 16 * 1024 + 1], 1000),
            Err(SessionError::BadChunk)
        );
    }

    #[test]
    fn the_line_limit_applies_to_each_chunk_separately() {
        let line = [b"1;", vec![b'x'; 9000].as_slice(), b"\r\nA\r\n"].concat();
        assert_eq!(decode(&line.repeat(3), 999), Ok((b"AAA".to_vec(), None)));
    }
}
