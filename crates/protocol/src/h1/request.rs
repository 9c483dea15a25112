//! Parses requests made by a user or a script: how many there are, and how their responses are
//! framed.

use std::fmt;

use super::chunked::{Chunked, Part};
use super::fields::{Framing, FramingFault, FramingFields, is_token_byte};
use crate::RequestKind;

/// Splits concatenated requests and stores the kind of each in `kinds`, which is cleared first.
///
/// Any token is accepted as a method, and any bytes except controls as a target. Empty lines before
/// a request are skipped, as servers do (RFC 9112 section 2.2). Bodies are delimited by
/// Content-Length or by the chunked coding.
///
/// # Errors
/// The first invalid part, with its position. `kinds` then holds the requests before it. Input
/// without any request is incomplete.
pub fn scan(bytes: &[u8], kinds: &mut Vec<RequestKind>) -> Result<(), RequestError> {
    kinds.clear();
    let mut scanner = Scanner { bytes, at: 0 };
    loop {
        let kind = scanner
            .request()
            .map_err(|reason| RequestError::new(reason, &scanner))?;
        kinds.push(kind);
        if scanner.at == bytes.len() {
            return Ok(());
        }
    }
}

/// Why bytes are not valid requests. The messages are those of wrk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestFault {
    /// The input ends within a request, or has none.
    #[error("incomplete request")]
    Incomplete,
    /// The method is not a token.
    #[error("invalid HTTP method")]
    Method,
    /// The target has a control character or an invalid first character.
    #[error("invalid URL")]
    Target,
    /// The target is not followed by `HTTP/` with two digits and the end of the line.
    #[error("invalid HTTP version")]
    Version,
    /// A header name with a byte that is not allowed in a token, or a control character in a value.
    #[error("invalid character in header")]
    Header,
    /// A CR without an LF.
    #[error("LF character expected")]
    LineEnd,
    /// A Content-Length that is not a number.
    #[error("invalid character in content-length header")]
    ContentLength,
    /// A second Content-Length, or one in addition to Transfer-Encoding.
    #[error("unexpected content-length header")]
    UnexpectedContentLength,
    /// A Transfer-Encoding that cannot be parsed.
    #[error("invalid transfer-encoding header")]
    TransferEncoding,
    /// Broken framing of a chunked body.
    #[error("invalid character in chunk size header")]
    Chunk,
    /// A request after one that ends the connection.
    #[error("data received after completed connection: close message")]
    AfterClose,
}

/// A fault and the position of the first invalid byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestError {
    /// What is wrong with the request.
    pub reason: RequestFault,
    /// Line, from 1.
    pub line: usize,
    /// Byte within the line, from 1.
    pub column: usize,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}:{}", self.reason, self.line, self.column)
    }
}

impl std::error::Error for RequestError {}

impl RequestError {
    fn new(reason: RequestFault, scanner: &Scanner<'_>) -> Self {
        let read = scanner.bytes.get(..scanner.at).unwrap_or(scanner.bytes);
        let line_start = memchr::memrchr(b'\n', read).map_or(0, |at| at + 1);
        Self {
            reason,
            line: 1 + memchr::memchr_iter(b'\n', read).count(),
            column: 1 + read.len() - line_start,
        }
    }
}

/// A position in the input. The functions advance over what is valid and leave `at` at the first
/// invalid byte.
struct Scanner<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Scanner<'b> {
    fn request(&mut self) -> Result<RequestKind, RequestFault> {
        while matches!(self.peek(), Some(b'\r' | b'\n')) {
            self.at += 1;
        }
        let method = self.method()?;
        self.target()?;
        let is_1_0 = self.version()?;
        let mut fields = FramingFields::default();
        self.headers(&mut fields)?;
        self.body(&fields)?;
        while matches!(self.peek(), Some(b'\r' | b'\n')) {
            self.at += 1;
        }
        let ends_connection = fields.close || (is_1_0 && !fields.keep_alive);
        if ends_connection && self.at < self.bytes.len() {
            return Err(RequestFault::AfterClose);
        }
        Ok(match method {
            b"HEAD" => RequestKind::Head,
            b"CONNECT" => RequestKind::Connect,
            _ => RequestKind::Plain,
        })
    }

    fn method(&mut self) -> Result<&'b [u8], RequestFault> {
        let start = self.at;
        self.skip_while(is_token_byte);
        let method = &self.bytes[start..self.at];
        match self.peek() {
            Some(b' ') if !method.is_empty() => {
                self.skip_while(|byte| byte == b' ');
                Ok(method)
            }
            Some(_) => Err(RequestFault::Method),
            None => Err(RequestFault::Incomplete),
        }
    }

    /// Origin form, absolute form, authority form or `*` (RFC 9112 section 3.2).
    fn target(&mut self) -> Result<(), RequestFault> {
        let first = self.peek().ok_or(RequestFault::Incomplete)?;
        if !(first.is_ascii_alphanumeric() || matches!(first, b'/' | b'*' | b'[')) {
            return Err(RequestFault::Target);
        }
        self.skip_while(|byte| !is_control(byte) && byte != b' ');
        match self.peek() {
            Some(b' ') => {
                self.skip_while(|byte| byte == b' ');
                Ok(())
            }
            // The version is missing.
            Some(b'\r' | b'\n') => Err(RequestFault::Version),
            Some(_) => Err(RequestFault::Target),
            None => Err(RequestFault::Incomplete),
        }
    }

    /// Returns true for HTTP/1.0. Other numbers are accepted, because sending them may be the
    /// purpose of a test.
    fn version(&mut self) -> Result<bool, RequestFault> {
        let start = self.at;
        for expected in *b"HTTP/0.0" {
            match self.peek() {
                Some(byte) if byte == expected => {}
                Some(byte) if expected == b'0' && byte.is_ascii_digit() => {}
                Some(_) => return Err(RequestFault::Version),
                None => return Err(RequestFault::Incomplete),
            }
            self.at += 1;
        }
        let is_1_0 = &self.bytes[start..self.at] == b"HTTP/1.0";
        if !matches!(self.peek(), Some(b'\r' | b'\n') | None) {
            return Err(RequestFault::Version);
        }
        self.line_end()?;
        Ok(is_1_0)
    }

    /// Header or trailer lines up to and including the empty line.
    fn headers(&mut self, fields: &mut FramingFields) -> Result<(), RequestFault> {
        let mut is_first = true;
        loop {
            match self.peek() {
                None => return Err(RequestFault::Incomplete),
                Some(b'\r' | b'\n') => return self.line_end(),
                // A folded line continues the previous value.
                Some(b' ' | b'\t') if !is_first => drop(self.value()?),
                Some(_) => self.header(fields)?,
            }
            is_first = false;
        }
    }

    #[inline]
    fn header(&mut self, fields: &mut FramingFields) -> Result<(), RequestFault> {
        let start = self.at;
        self.skip_while(is_token_byte);
        let name = &self.bytes[start..self.at];
        match self.peek() {
            Some(b':') if !name.is_empty() => self.at += 1,
            Some(_) => return Err(RequestFault::Header),
            None => return Err(RequestFault::Incomplete),
        }
        let value_start = self.at;
        let value = self.value()?;
        if !fields.note(name, value) {
            return Ok(());
        }
        // Reported at the value, not at the end of the header section, so that the position is
        // right.
        let repeated = fields.content_length_lines() > 1;
        let fault = match fields.framing() {
            _ if repeated => RequestFault::UnexpectedContentLength,
            Err(FramingFault::Conflicting) => RequestFault::UnexpectedContentLength,
            Err(FramingFault::BadContentLength) => RequestFault::ContentLength,
            Err(FramingFault::BadTransferEncoding) => RequestFault::TransferEncoding,
            Ok(_) => return Ok(()),
        };
        self.at = value_start;
        self.skip_while(|byte| byte == b' ' || byte == b'\t');
        Err(fault)
    }

    /// The rest of a header line, without its end.
    #[inline]
    fn value(&mut self) -> Result<&'b [u8], RequestFault> {
        let start = self.at;
        self.skip_while(|byte| !is_control(byte) || byte == b'\t');
        let value = &self.bytes[start..self.at];
        match self.peek() {
            Some(b'\r' | b'\n') => self.line_end().map(|()| value),
            Some(_) => Err(RequestFault::Header),
            None => Err(RequestFault::Incomplete),
        }
    }

    fn body(&mut self, fields: &FramingFields) -> Result<(), RequestFault> {
        match fields.framing() {
            Ok(Framing::Length(length)) => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                if length > self.rest().len() {
                    self.at = self.bytes.len();
                    return Err(RequestFault::Incomplete);
                }
                self.at += length;
                Ok(())
            }
            Ok(Framing::Chunked) => self.chunked_body(),
            _ => Ok(()),
        }
    }

    fn chunked_body(&mut self) -> Result<(), RequestFault> {
        let mut decoder = Chunked::new();
        while self.at < self.bytes.len() {
            let (taken, part) = decoder
                .advance(self.rest())
                .map_err(|_| RequestFault::Chunk)?;
            self.at += taken;
            if part == Part::LastChunk {
                // Fields in a trailer section do not affect framing.
                return self.headers(&mut FramingFields::default());
            }
        }
        Err(RequestFault::Incomplete)
    }

    /// CRLF or LF.
    #[inline]
    fn line_end(&mut self) -> Result<(), RequestFault> {
        if self.peek() == Some(b'\r') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'\n') => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err(RequestFault::LineEnd),
            None => Err(RequestFault::Incomplete),
        }
    }

    #[inline]
    fn skip_while(&mut self, accepts: impl Fn(u8) -> bool) {
        let rest = self.rest();
        self.at += rest
            .iter()
            .position(|byte| !accepts(*byte))
            .unwrap_or(rest.len());
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    fn rest(&self) -> &'b [u8] {
        &self.bytes[self.at..]
    }
}

#[inline]
fn is_control(byte: u8) -> bool {
    byte < b' ' || byte == 0x7f
}

#[cfg(test)]
mod tests {
    use super::*;
    use RequestKind::{Connect, Head, Plain};

    fn scanned(input: &str) -> Result<Vec<RequestKind>, String> {
        let mut kinds = vec![Head; 3];
        match scan(input.as_bytes(), &mut kinds) {
            Ok(()) => Ok(kinds),
            Err(error) => Err(error.to_string()),
        }
    }

    fn rejected(input: &str, message: &str) {
        assert_eq!(scanned(input), Err(message.to_owned()), "{input:?}");
    }

    #[test]
    fn scanning_a_batch_returns_the_kind_of_each_request() {
        let batch = "GET / HTTP/1.1\r\nHost: x\r\n\r\n\
                     HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n\
                     POST /b HTTP/1.1\r\nContent-Length: 7\r\n\r\nGET / H\
                     PUT /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
                     3;x=y\r\nabc\r\n0\r\nT: v\r\n\r\n\
                     CONNECT host:80 HTTP/1.1\r\n\r\n\
                     QUERY * HTTP/1.1\r\n\r\n";
        assert_eq!(
            scanned(batch),
            Ok(vec![Plain, Head, Plain, Plain, Connect, Plain])
        );
    }

    #[test]
    fn requests_that_servers_tolerate_are_accepted() {
        for request in [
            "\r\nGET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n\r\n",
            "GET / HTTP/1.1\nA: b\n\n",
            "GET  /  HTTP/1.1\r\n\r\n",
            "GET http://x/ HTTP/1.1\r\n\r\n",
            "GET /\u{e9}?\u{20ac}#f HTTP/1.1\r\nX: \u{e9}\tz\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b\r\n folded\r\n\tagain\r\nC:\r\n\r\n",
            "GET / HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.1\r\nConnection: close\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
        ] {
            assert_eq!(scanned(request), Ok(vec![Plain]), "{request:?}");
        }
    }

    #[test]
    fn an_unfinished_request_is_incomplete_at_its_end() {
        rejected("", "incomplete request at 1:1");
        rejected("\r\n", "incomplete request at 2:1");
        rejected("GET", "incomplete request at 1:4");
        rejected("GET /", "incomplete request at 1:6");
        rejected("GET / HT", "incomplete request at 1:9");
        rejected("GET / HTTP/1.1", "incomplete request at 1:15");
        rejected("GET / HTTP/1.1\r\nHost: x\r\n", "incomplete request at 3:1");
        rejected("GET / HTTP/1.1\r\nHost", "incomplete request at 2:5");
        rejected("GET / HTTP/1.1\r\nHost: x", "incomplete request at 2:8");
        let short_body = "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabc";
        rejected(short_body, "incomplete request at 4:4");
        let endless = "POST / HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\nabc";
        rejected(endless, "incomplete request at 4:4");
        let chunks = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n";
        rejected(chunks, "incomplete request at 7:1");
        rejected("GET / HTTP/1.1\r\n\r\nGET /", "incomplete request at 3:6");
    }

    #[test]
    fn errors_have_a_line_and_a_column() {
        rejected("G@T / HTTP/1.1\r\n\r\n", "invalid HTTP method at 1:2");
        rejected(" / HTTP/1.1\r\n\r\n", "invalid HTTP method at 1:1");
        rejected("GET\r\n\r\n", "invalid HTTP method at 1:4");
        rejected("GET ? HTTP/1.1\r\n\r\n", "invalid URL at 1:5");
        rejected("GET /a\u{1}b HTTP/1.1\r\n\r\n", "invalid URL at 1:7");
        rejected("GET /\r\n\r\n", "invalid HTTP version at 1:6");
        rejected("GET / HTTP/1.1 \r\n\r\n", "invalid HTTP version at 1:15");
        rejected("GET /a b HTTP/1.1\r\n\r\n", "invalid HTTP version at 1:8");
        rejected("GET / HTTP/x.1\r\n\r\n", "invalid HTTP version at 1:12");
        rejected(
            "GET / HTTP/1.1\r\nA b: c\r\n\r\n",
            "invalid character in header at 2:2",
        );
        rejected(
            "GET / HTTP/1.1\r\n: c\r\n\r\n",
            "invalid character in header at 2:1",
        );
        rejected(
            "GET / HTTP/1.1\r\n A: c\r\n\r\n",
            "invalid character in header at 2:1",
        );
        rejected(
            "GET / HTTP/1.1\r\nA: c\u{0}d\r\n\r\n",
            "invalid character in header at 2:5",
        );
        rejected(
            "GET / HTTP/1.1\r\nA: c\rd\r\n\r\n",
            "LF character expected at 2:6",
        );
        rejected(
            "GET / HTTP/1.1\r\nA: c\r\n\rd",
            "LF character expected at 3:2",
        );
        let message = "invalid character in content-length header at 2:17";
        rejected("GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", message);
        let twice = "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx";
        rejected(twice, "unexpected content-length header at 3:17");
        let both = "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\nx";
        rejected(both, "unexpected content-length header at 3:17");
        let chunks = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n";
        rejected(chunks, "invalid character in chunk size header at 4:1");
    }

    #[test]
    fn nothing_may_follow_a_request_that_ends_the_connection() {
        let next = "GET / HTTP/1.1\r\n\r\n";
        let message = "data received after completed connection: close message at 4:1";
        rejected(
            &format!("GET / HTTP/1.1\r\nConnection: x, Close\r\n\r\n{next}"),
            message,
        );
        rejected(&format!("GET / HTTP/1.0\r\nA: b\r\n\r\n{next}"), message);
        let kept = format!("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n{next}");
        assert_eq!(scanned(&kept), Ok(vec![Plain, Plain]));
    }

    #[test]
    fn every_truncation_of_a_request_is_incomplete() {
        let request = "POST /path HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
                       3;e\r\nabc\r\n0\r\nT: v\r\n\r\n";
        for length in 0..request.len() {
            let error = scanned(&request[..length]).expect_err("it is cut");
            assert!(error.starts_with("incomplete request"), "{length}: {error}");
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let request = b"POST /p HTTP/1.1\r\nContent-Length: 3\r\nX: y\r\n\r\nabcGET / HTTP/1.1\n\n";
        let mut kinds = Vec::new();
        for at in 0..request.len() {
            for byte in 0..=255 {
                let mut changed = request.to_vec();
                changed[at] = byte;
                if let Err(error) = scan(&changed, &mut kinds) {
                    assert!(error.line >= 1 && error.column >= 1);
                }
            }
        }
    }
}
