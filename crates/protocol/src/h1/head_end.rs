//! Finds the end of a header section, the first empty line, in one pass over input in pieces.

use memchr::memchr;

/// How much of an empty line has been seen. Lines end with CRLF or a lone LF (which a recipient may
/// accept by RFC 9112 section 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeadEnd {
    /// Within a line that is not empty.
    Line,
    /// After a line end, or at the start of the section.
    LineStart,
    /// After a CR at the start of a line.
    LineStartCr,
}

impl HeadEnd {
    /// Searches the next bytes of the section. Returns their number up to and including the empty
    /// line, or `None` if it has not arrived yet. Every byte is examined once.
    pub(super) fn find(&mut self, input: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < input.len() {
            match (*self, input[at]) {
                (Self::Line, _) => {
                    at += memchr(b'\n', &input[at..])?;
                    *self = Self::LineStart;
                }
                (Self::LineStart | Self::LineStartCr, b'\n') => return Some(at + 1),
                (Self::LineStart, b'\r') => *self = Self::LineStartCr,
                _ => *self = Self::Line,
            }
            at += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTIONS: [&[u8]; 8] = [
        b"A: b\r\n\r\nrest",
        b"A: b\n\nrest",
        b"A: b\r\n\nrest",
        b"A: b\n\r\nrest",
        b"A: b\r\n\rC\r\n\r\nrest",
        b"\r\nrest",
        b"\nrest",
        b"\r\r\n\r\nrest",
    ];

    #[test]
    fn the_end_is_the_first_empty_line_wherever_the_input_is_cut() {
        for section in SECTIONS {
            let end = section.len() - b"rest".len();
            for cut in 0..=end {
                let mut scanner = HeadEnd::LineStart;
                let found = match scanner.find(&section[..cut]) {
                    Some(end) => Some(end),
                    None => scanner.find(&section[cut..]).map(|end| cut + end),
                };
                assert_eq!(found, Some(end), "{section:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn without_an_empty_line_there_is_no_end() {
        assert_eq!(HeadEnd::Line.find(b"HTTP/1.1 200 OK\r\nA: b\r\n"), None);
        assert_eq!(HeadEnd::Line.find(b""), None);
    }
}
