//! Parses requests made by a user or a script: how many there are, and how their responses are
//! framed.

use std::borrow::Cow;
use std::fmt;

use crate::RequestKind;
use crate::h1::chunked::{ChunkPart, Chunked};
use crate::h1::fields::{Framing, FramingFault, FramingFields, is_token_byte};

/// One request within a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestText<'b> {
    /// How it affects its response.
    pub kind: RequestKind,
    /// The method, e.g. `GET`.
    pub method: &'b [u8],
    /// The request target, e.g. `/a?b=c`.
    pub target: &'b [u8],
    /// The header lines, without the empty line at their end.
    lines: &'b [u8],
    body: &'b [u8],
    /// The body is in the chunked coding.
    is_chunked: bool,
}

impl<'b> RequestText<'b> {
    /// A text in which no request can be found. HTTP/1 sends it as it is.
    pub const OPAQUE: Self = Self {
        kind: RequestKind::Plain,
        method: b"",
        target: b"",
        lines: b"",
        body: b"",
        is_chunked: false,
    };

    /// Names and values of the header fields, in order. A folded value is joined with spaces.
    pub fn fields(&self) -> impl Iterator<Item = (&'b [u8], Cow<'b, [u8]>)> + use<'b> {
        let mut rest = self.lines;
        std::iter::from_fn(move || {
            let line = take_line(&mut rest)?;
            let (name, value) = line.split_at(memchr::memchr(b':', line)?);
            let mut value = Cow::Borrowed(value[1..].trim_ascii());
            while matches!(rest.first(), Some(b' ' | b'\t')) {
                let folded = take_line(&mut rest)?.trim_ascii();
                value = Cow::Owned([&value, folded].join(&b' '));
            }
            Some((name, value))
        })
    }

    /// The body, without the chunked coding.
    pub fn body(&self) -> Cow<'b, [u8]> {
        if !self.is_chunked {
            return Cow::Borrowed(self.body);
        }
        let mut decoder = Chunked::new();
        let mut rest = self.body;
        let mut body = Vec::new();
        while let Ok((taken, part)) = decoder.advance(rest)
            && !rest.is_empty()
            && part != ChunkPart::LastChunk
        {
            if part == ChunkPart::Data {
                body.extend_from_slice(&rest[..taken]);
            }
            rest = &rest[taken..];
        }
        Cow::Owned(body)
    }
}

/// Splits concatenated requests.
///
/// Any token is accepted as a method, and any bytes except controls as a target. Empty lines before
/// a request are skipped, as servers do (RFC 9112 section 2.2). Bodies are delimited by
/// Content-Length or by the chunked coding.
///
/// The first invalid part ends the iteration with an error that has its position. Input without any
/// request is incomplete.
#[must_use]
pub fn split(bytes: &[u8]) -> RequestTexts<'_> {
    RequestTexts {
        scanner: Scanner { bytes, at: 0 },
        is_over: false,
    }
}

/// Stores the kind of each request of [`split`] in `kinds`, which is cleared first.
///
/// # Errors
/// The first invalid part. `kinds` then holds the requests before it.
pub fn scan(bytes: &[u8], kinds: &mut Vec<RequestKind>) -> Result<(), RequestError> {
    kinds.clear();
    for request in split(bytes) {
        kinds.push(request?.kind);
    }
    Ok(())
}

/// The requests in a text, see [`split`].
pub struct RequestTexts<'b> {
    scanner: Scanner<'b>,
    is_over: bool,
}

impl<'b> Iterator for RequestTexts<'b> {
    type Item = Result<RequestText<'b>, RequestError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let request = self.scanner.request();
        self.is_over = request.is_err() || self.scanner.at == self.scanner.bytes.len();
        Some(request.map_err(|reason| RequestError::new(reason, &self.scanner)))
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
    /// Number of the line, from 1.
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
    fn request(&mut self) -> Result<RequestText<'b>, RequestFault> {
        while matches!(self.peek(), Some(b'\r' | b'\n')) {
            self.at += 1;
        }
        let method = self.method()?;
        let target = self.target()?;
        let is_1_0 = self.version()?;
        let mut fields = FramingFields::default();
        let lines = self.headers(&mut fields)?;
        let body_start = self.at;
        let is_chunked = self.body(&fields)?;
        let body = &self.bytes[body_start..self.at];
        while matches!(self.peek(), Some(b'\r' | b'\n')) {
            self.at += 1;
        }
        let ends_connection = fields.close || (is_1_0 && !fields.keep_alive);
        if ends_connection && self.at < self.bytes.len() {
            return Err(RequestFault::AfterClose);
        }
        let kind = match method {
            b"HEAD" => RequestKind::Head,
            b"CONNECT" => RequestKind::Connect,
            _ => RequestKind::Plain,
        };
        Ok(RequestText {
            kind,
            method,
            target,
            lines,
            body,
            is_chunked,
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
    fn target(&mut self) -> Result<&'b [u8], RequestFault> {
        let start = self.at;
        let first = self.peek().ok_or(RequestFault::Incomplete)?;
        if !(first.is_ascii_alphanumeric() || matches!(first, b'/' | b'*' | b'[')) {
            return Err(RequestFault::Target);
        }
        self.skip_while(|byte| !is_control(byte) && byte != b' ');
        let target = &self.bytes[start..self.at];
        match self.peek() {
            Some(b' ') => {
                self.skip_while(|byte| byte == b' ');
                Ok(target)
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

    /// Header or trailer lines up to and including the empty line, which is not returned.
    fn headers(&mut self, fields: &mut FramingFields) -> Result<&'b [u8], RequestFault> {
        let start = self.at;
        let mut is_first = true;
        loop {
            match self.peek() {
                None => return Err(RequestFault::Incomplete),
                Some(b'\r' | b'\n') => {
                    let lines = &self.bytes[start..self.at];
                    return self.line_end().map(|()| lines);
                }
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

    /// Returns whether the body is chunked.
    fn body(&mut self, fields: &FramingFields) -> Result<bool, RequestFault> {
        match fields.framing() {
            Ok(Framing::Length(length)) => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                if length > self.rest().len() {
                    self.at = self.bytes.len();
                    return Err(RequestFault::Incomplete);
                }
                self.at += length;
                Ok(false)
            }
            Ok(Framing::Chunked) => self.chunked_body().map(|()| true),
            _ => Ok(false),
        }
    }

    fn chunked_body(&mut self) -> Result<(), RequestFault> {
        let mut decoder = Chunked::new();
        while self.at < self.bytes.len() {
            let (taken, part) = decoder
                .advance(self.rest())
                .map_err(|_| RequestFault::Chunk)?;
            self.at += taken;
            if part == ChunkPart::LastChunk {
                // Fields in a trailer section do not affect framing.
                return self.headers(&mut FramingFields::default()).map(drop);
            }
        }
        Err(RequestFault::Incomplete)
    }

    /// Takes the end of a line, CRLF or LF.
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

/// Takes a line from the start of `rest`, without its end. `None` if there is no more.
fn take_line<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    if rest.is_empty() {
        return None;
    }
    let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    let line = &rest[..end];
    *rest = rest.get(end + 1..).unwrap_or_default();
    Some(line.strip_suffix(b"\r").unwrap_or(line))
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

    /// Method, target, fields and body.
    type Parts = (String, String, Vec<(String, String)>, String);

    fn parts(input: &str) -> Vec<Parts> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let requests = split(input.as_bytes()).map(|request| request.expect("it is valid"));
        let parts = requests.map(|request| {
            let fields = request.fields();
            let fields = fields.map(|(name, value)| (text(name), text(&value)));
            let (method, target) = (text(request.method), text(request.target));
            (method, target, fields.collect(), text(&request.body()))
        });
        parts.collect()
    }

    #[test]
    fn a_request_has_a_method_a_target_fields_and_a_body() {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let request = |method: &str, target: &str, fields: &[(&str, &str)], body: &str| {
            let fields = fields.iter().map(owned).collect();
            (method.into(), target.into(), fields, body.into())
        };
        let input = "POST /a?b HTTP/1.1\r\nHost: x\r\nA:b \r\nContent-Length: 7\r\n\r\nGET / H\r\n\
                     PUT * HTTP/1.1\nTransfer-Encoding: chunked\nF: one\n  two\r\n\tthree\n\n\
                     3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: v\r\n\r\n\
                     GET http://x/ HTTP/1.1\r\n\r\n";
        let post = [("Host", "x"), ("A", "b"), ("Content-Length", "7")];
        let put = [("Transfer-Encoding", "chunked"), ("F", "one two three")];
        let expected = [
            request("POST", "/a?b", &post, "GET / H"),
            request("PUT", "*", &put, "abcde"),
            request("GET", "http://x/", &[], ""),
        ];
        assert_eq!(parts(input), expected);
    }

    fn rejected(input: &str, message: &str) {
        assert_eq!(scanned(input), Err(message.to_owned()), "{input:?}");
    }

    #[test]
    fn splitting_a_batch_returns_the_kind_of_each_request() {
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
        for at in 0..request.len() {
            for byte in 0..=255 {
                let mut changed = request.to_vec();
                changed[at] = byte;
                for request in split(&changed) {
                    match request {
                        Ok(request) => drop((request.fields().count(), request.body())),
                        Err(error) => assert!(error.line >= 1 && error.column >= 1),
                    }
                }
            }
        }
    }
}
