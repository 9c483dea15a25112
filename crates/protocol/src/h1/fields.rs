//! The header fields that determine where a message ends and whether the connection persists:
//! Content-Length, Transfer-Encoding, Connection.

use crate::SessionError;

/// The combined values of these fields so far. Several lines of one name are taken together.
#[derive(Debug, Default)]
pub(crate) struct FramingFields {
    content_length: Option<u64>,
    content_length_lines: u32,
    content_length_bad: bool,
    codings: u32,
    chunked_codings: u32,
    identity_codings: u32,
    chunked_is_last: bool,
    last_is_known: bool,
    coding_bad: bool,
    /// The connection options include `close`.
    pub(crate) close: bool,
    /// The connection options include `keep-alive`.
    pub(crate) keep_alive: bool,
}

/// How the body of a message is delimited, according to its own header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// By a number of bytes.
    Length(u64),
    /// By the chunked transfer coding.
    Chunked,
    /// Not at all: a response continues until the connection closes, and a request has no body.
    Open,
}

/// Why the framing is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FramingFault {
    BadContentLength,
    BadTransferEncoding,
    /// Transfer-Encoding and Content-Length together (an attack or an error according to RFC 9112
    /// section 6.3; http_parser rejects it).
    Conflicting,
}

impl From<FramingFault> for SessionError {
    fn from(fault: FramingFault) -> Self {
        match fault {
            FramingFault::BadContentLength => Self::BadContentLength,
            FramingFault::BadTransferEncoding => Self::BadTransferEncoding,
            FramingFault::Conflicting => Self::ConflictingFraming,
        }
    }
}

impl FramingFields {
    /// Processes one header line. Returns whether it was one of these fields.
    #[inline]
    pub(crate) fn note(&mut self, name: &[u8], value: &[u8]) -> bool {
        match name.len() {
            10 if name.eq_ignore_ascii_case(b"connection") => self.note_connection(value),
            14 if name.eq_ignore_ascii_case(b"content-length") => self.note_length(value),
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => self.note_codings(value),
            _ => return false,
        }
        true
    }

    /// The framing of a response. If the last transfer coding is unknown, it is an error. By RFC
    /// 9112 section 6.3, rule 4, such a body would end with the connection. But a server that
    /// misspells `chunked` keeps the connection open, and the request would only time out. curl
    /// rejects it too.
    ///
    /// # Errors
    /// Those of [`Self::framing`], and such a coding.
    pub(crate) fn response_framing(&self) -> Result<Framing, FramingFault> {
        match self.framing() {
            Ok(_) if self.codings > 0 && !self.last_is_known => {
                Err(FramingFault::BadTransferEncoding)
            }
            framing => framing,
        }
    }

    /// The framing by RFC 9112 section 6.3. A sole `identity`, a coding that no longer exists, has
    /// no effect. If the last coding is not chunked, the end is open.
    pub(crate) fn framing(&self) -> Result<Framing, FramingFault> {
        let identity_only = self.codings > 0 && self.codings == self.identity_codings;
        if self.coding_bad || self.chunked_codings > 1 {
            return Err(FramingFault::BadTransferEncoding);
        }
        if self.codings > 0 && !identity_only {
            return match (self.content_length_lines, self.chunked_is_last) {
                (0, true) => Ok(Framing::Chunked),
                (0, false) => Ok(Framing::Open),
                _ => Err(FramingFault::Conflicting),
            };
        }
        if self.content_length_bad {
            return Err(FramingFault::BadContentLength);
        }
        Ok(self.content_length.map_or(Framing::Open, Framing::Length))
    }

    /// Whether there is a transfer coding, even one that cannot be parsed.
    pub(crate) fn has_codings(&self) -> bool {
        self.codings > 0 || self.coding_bad
    }

    /// Number of Content-Length lines.
    pub(crate) fn content_length_lines(&self) -> u32 {
        self.content_length_lines
    }

    /// Equal values in a list or in several lines count as one (RFC 9110 section 8.6).
    fn note_length(&mut self, value: &[u8]) {
        self.content_length_lines += 1;
        for item in value.split(|byte| *byte == b',') {
            let length = decimal(trim(item));
            let differs = self.content_length.is_some() && self.content_length != length;
            if length.is_none() || differs {
                self.content_length_bad = true;
            }
            self.content_length = length;
        }
    }

    fn note_codings(&mut self, value: &[u8]) {
        let mut empty = true;
        for coding in value.split(|byte| *byte == b',').map(trim) {
            if coding.is_empty() {
                continue;
            }
            empty = false;
            self.codings += 1;
            self.chunked_is_last = coding.eq_ignore_ascii_case(b"chunked");
            self.chunked_codings += u32::from(self.chunked_is_last);
            self.last_is_known = is_known_coding(coding);
            self.identity_codings += u32::from(coding.eq_ignore_ascii_case(b"identity"));
            // The name may be followed by parameters; `chunked` has none.
            let name = coding
                .split(|byte| *byte == b';')
                .next()
                .map_or(coding, trim);
            self.coding_bad |= name.is_empty() || !name.iter().copied().all(is_token_byte);
        }
        self.coding_bad |= empty;
    }

    fn note_connection(&mut self, value: &[u8]) {
        for option in value.split(|byte| *byte == b',').map(trim) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }
}

/// Whether this is a registered transfer coding (RFC 9112 section 7), or `identity` of RFC 2616.
/// None of them has parameters.
fn is_known_coding(coding: &[u8]) -> bool {
    const KNOWN: [&[u8]; 7] = [
        b"chunked",
        b"gzip",
        b"x-gzip",
        b"deflate",
        b"compress",
        b"x-compress",
        b"identity",
    ];
    KNOWN.iter().any(|known| coding.eq_ignore_ascii_case(known))
}

/// Whether the byte is allowed in a token: method, field name, coding (RFC 9110 section 5.6.2).
#[inline]
pub(crate) fn is_token_byte(byte: u8) -> bool {
    TOKEN[usize::from(byte)]
}

static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "the loop ends at 255")]
        let character = byte as u8;
        table[byte] = character.is_ascii_alphanumeric();
        byte += 1;
    }
    let marks = b"!#$%&'*+-.^_`|~";
    let mut at = 0;
    while at < marks.len() {
        table[marks[at] as usize] = true;
        at += 1;
    }
    table
};

/// Removes surrounding blanks, which include the CR and LF of a folded line.
fn trim(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii()
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| byte - b'0')?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framing(lines: &[(&str, &str)]) -> Result<Framing, FramingFault> {
        let mut fields = FramingFields::default();
        for (name, value) in lines {
            fields.note(name.as_bytes(), value.as_bytes());
        }
        fields.framing()
    }

    #[test]
    fn a_content_length_is_a_decimal_number_below_two_to_the_64() {
        for (value, length) in [
            ("0", 0),
            ("63", 63),
            ("0063", 63),
            ("5, 5", 5),
            ("5 ,5", 5),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(
                framing(&[("Content-Length", value)]),
                Ok(Framing::Length(length))
            );
        }
        for value in [
            "",
            "-1",
            "+5",
            "0x5",
            "5 5",
            "5,",
            ",5",
            "5,6",
            "5;",
            "5.0",
            "abc",
            "5a",
            "18446744073709551616",
            "99999999999999999999999",
        ] {
            let found = framing(&[("content-length", value)]);
            assert_eq!(found, Err(FramingFault::BadContentLength), "{value:?}");
        }
    }

    #[test]
    fn repeated_content_lengths_must_agree() {
        let cl = "Content-Length";
        assert_eq!(framing(&[(cl, "5"), (cl, "5")]), Ok(Framing::Length(5)));
        assert_eq!(
            framing(&[(cl, "5"), (cl, "6")]),
            Err(FramingFault::BadContentLength)
        );
        assert_eq!(
            framing(&[(cl, "x"), (cl, "6")]),
            Err(FramingFault::BadContentLength)
        );
    }

    #[test]
    fn the_last_transfer_coding_decides() {
        let te = "Transfer-Encoding";
        assert_eq!(framing(&[(te, "chunked")]), Ok(Framing::Chunked));
        assert_eq!(framing(&[(te, "Chunked")]), Ok(Framing::Chunked));
        assert_eq!(framing(&[(te, "gzip, chunked")]), Ok(Framing::Chunked));
        assert_eq!(
            framing(&[(te, "gzip"), (te, "chunked")]),
            Ok(Framing::Chunked)
        );
        assert_eq!(framing(&[(te, "chunked, gzip")]), Ok(Framing::Open));
        assert_eq!(framing(&[(te, "gzip")]), Ok(Framing::Open));
        assert_eq!(framing(&[(te, "xchunked")]), Ok(Framing::Open));
        assert_eq!(framing(&[(te, "chunked;q=1")]), Ok(Framing::Open));
        assert_eq!(framing(&[(te, "identity")]), Ok(Framing::Open));
        assert_eq!(
            framing(&[(te, "identity"), ("Content-Length", "3")]),
            Ok(Framing::Length(3))
        );
    }

    #[test]
    fn a_response_whose_last_transfer_coding_is_unknown_is_rejected() {
        let response_framing = |value: &str| {
            let mut fields = FramingFields::default();
            fields.note(b"Transfer-Encoding", value.as_bytes());
            fields.response_framing()
        };
        for value in [
            "xchunked",
            "chunked;q=1",
            "chunked, br",
            "gzip;a=b",
            "chunk",
        ] {
            let found = response_framing(value);
            assert_eq!(found, Err(FramingFault::BadTransferEncoding), "{value:?}");
        }
        for value in [
            "gzip",
            "GZIP",
            "x-gzip",
            "deflate",
            "chunked, gzip",
            "identity",
        ] {
            assert_eq!(response_framing(value), Ok(Framing::Open), "{value:?}");
        }
        // Preceding codings do not matter, because the body is not decoded.
        for value in ["chunked", "br, chunked", "xchunked, Chunked"] {
            assert_eq!(response_framing(value), Ok(Framing::Chunked), "{value:?}");
        }
    }

    #[test]
    fn unreadable_or_double_transfer_codings_are_rejected() {
        for value in [
            "",
            " ",
            ",",
            "chunked, chunked",
            "chun ked",
            "\"chunked\"",
            ";q=1",
        ] {
            let found = framing(&[("Transfer-Encoding", value)]);
            assert_eq!(found, Err(FramingFault::BadTransferEncoding), "{value:?}");
        }
    }

    #[test]
    fn transfer_encoding_with_content_length_is_a_conflict() {
        let lines = [("Transfer-Encoding", "chunked"), ("Content-Length", "5")];
        assert_eq!(framing(&lines), Err(FramingFault::Conflicting));
        let lines = [("Content-Length", "5"), ("Transfer-Encoding", "gzip")];
        assert_eq!(framing(&lines), Err(FramingFault::Conflicting));
    }

    #[test]
    fn connection_options_are_whole_tokens_in_any_case_and_place() {
        let mut fields = FramingFields::default();
        fields.note(b"Connection", b"closed, enclose, keep-alived");
        assert!(!fields.close && !fields.keep_alive);
        fields.note(b"CONNECTION", b"upgrade ,\tCLOSE");
        assert!(fields.close && !fields.keep_alive);
        fields.note(b"connection", b"Keep-Alive");
        assert!(fields.close && fields.keep_alive);
    }
}
