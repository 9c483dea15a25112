//! Parses requests from a stream of bytes: head, framing, body.

use crate::llm;

/// Maximum size of a request head, in bytes.
pub(crate) const HEAD_MAX_BYTES: usize = 64 * 1024;
/// Maximum number of header fields.
pub(crate) const HEADERS_MAX: usize = 128;
/// Maximum size of a body to echo, in bytes.
pub(crate) const ECHO_MAX_BYTES: usize = 16 * 1024 * 1024;
/// Maximum length of a line in chunk framing, and of all trailers together, in bytes.
const CHUNK_LINE_MAX_BYTES: usize = 16 * 1024;

/// A parsed request head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    /// The method, in the letters that the client sent.
    pub(crate) method: String,
    /// Request target as sent.
    pub(crate) target: String,
    /// HTTP/1.0 instead of 1.1.
    pub is_http10: bool,
    /// The client wants to keep the connection open (RFC 9112 section 9.3).
    pub(crate) keeps_alive: bool,
    /// The client waits for `100 Continue` before it sends the body.
    pub(crate) expects_continue: bool,
    /// A length above 0, or chunks, follow.
    pub(crate) has_body: bool,
    /// The key in `Authorization: Bearer`, or in `x-api-key`.
    pub(crate) api_key: Option<String>,
}

/// Why a request is invalid; the connection is answered with this and closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadRequest {
    /// Status of the response: 400, 413, 431, 501 or 505.
    pub(crate) status: u16,
    /// One line for the body of the response.
    pub(crate) reason: &'static str,
}

pub(crate) const HEAD_TOO_LARGE: BadRequest = bad(431, "the request head is longer than 64 KiB");

/// What the parser found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RequestEvent {
    /// A complete head; its body may be incomplete.
    Head(Head),
    /// The end of a request.
    End {
        /// The body without chunk framing; empty unless it is kept.
        body: Vec<u8>,
    },
}

/// The parser state of a connection.
#[derive(Debug, Default)]
pub(crate) struct RequestReader {
    state: RequestReaderState,
    /// The bytes so far of a head that is not complete.
    partial: Vec<u8>,
    /// The body, if it is kept.
    body: Vec<u8>,
    keeps_body: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum RequestReaderState {
    #[default]
    Head,
    Length(u64),
    Chunks(Chunk),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chunk {
    /// In a size line: value so far, number of digits, whether in an extension, line length.
    Size {
        value: u64,
        digits: u8,
        in_extension: bool,
        length: usize,
    },
    Data(u64),
    /// In the line end after the data: whether CR was seen.
    DataEnd {
        has_cr: bool,
    },
    /// In the trailers: bytes of the current line, bytes of all lines.
    Trailer {
        line: usize,
        total: usize,
    },
}

impl Chunk {
    const START: Self = Self::Size {
        value: 0,
        digits: 0,
        in_extension: false,
        length: 0,
    };
}

impl RequestReader {
    /// Consumes `input` until something is found; `None` if more input is needed.
    ///
    /// # Errors
    /// When the request is invalid. The parser cannot be used afterwards.
    pub(crate) fn next(&mut self, input: &mut &[u8]) -> Result<Option<RequestEvent>, BadRequest> {
        match self.state {
            RequestReaderState::Head => self.read_head(input),
            RequestReaderState::Length(left) => Ok(self.read_length(left, input)),
            RequestReaderState::Chunks(chunk) => self.read_chunks(chunk, input),
        }
    }

    /// Keeps the body of the request whose head was just found, for [`RequestEvent::End`].
    pub(crate) fn keep_body(&mut self) {
        self.keeps_body = true;
    }

    /// Whether no request is in progress.
    #[must_use]
    pub(crate) fn is_at_start(&self) -> bool {
        self.state == RequestReaderState::Head && self.partial.is_empty()
    }

    fn read_head(&mut self, input: &mut &[u8]) -> Result<Option<RequestEvent>, BadRequest> {
        if self.partial.is_empty() {
            // RFC 9112 section 2.2: ignore empty lines before a request.
            let start = input.iter().position(|byte| !b"\r\n".contains(byte));
            *input = &input[start.unwrap_or(input.len())..];
            match input.first() {
                None => return Ok(None),
                // A TLS client on a plain HTTP port is rejected immediately.
                Some(byte) if !byte.is_ascii_graphic() => {
                    return Err(bad(400, "the first byte is not the start of a method"));
                }
                Some(_) => {}
            }
        }
        let seen = self.partial.len();
        let end = end_of_head(&self.partial, input);
        let taken = end.unwrap_or(input.len());
        if seen + taken > HEAD_MAX_BYTES {
            return Err(HEAD_TOO_LARGE);
        }
        let (now, rest) = input.split_at(taken);
        *input = rest;
        if end.is_none() {
            self.partial.extend_from_slice(now);
            return Ok(None);
        }
        let (head, framing) = if seen == 0 {
            parse_head(now)?
        } else {
            self.partial.extend_from_slice(now);
            let parsed = parse_head(&self.partial)?;
            self.partial.clear();
            parsed
        };
        self.state = framing;
        self.keeps_body = false;
        self.body = Vec::new();
        Ok(Some(RequestEvent::Head(head)))
    }

    fn read_length(&mut self, left: u64, input: &mut &[u8]) -> Option<RequestEvent> {
        let taken = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
        self.take_body(taken, input);
        let left = left - taken as u64;
        if left > 0 {
            self.state = RequestReaderState::Length(left);
            return None;
        }
        Some(self.finish())
    }

    fn read_chunks(
        &mut self,
        mut chunk: Chunk,
        input: &mut &[u8],
    ) -> Result<Option<RequestEvent>, BadRequest> {
        while let Some(&byte) = input.first() {
            if let Chunk::Data(left) = chunk {
                let taken = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                self.take_body(taken, input);
                let left = left - taken as u64;
                chunk = if left == 0 {
                    Chunk::DataEnd { has_cr: false }
                } else {
                    Chunk::Data(left)
                };
                continue;
            }
            *input = &input[1..];
            match next_chunk_state(chunk, byte)? {
                Some(next) => chunk = next,
                None => return Ok(Some(self.finish())),
            }
        }
        self.state = RequestReaderState::Chunks(chunk);
        Ok(None)
    }

    fn take_body(&mut self, bytes: usize, input: &mut &[u8]) {
        let (now, rest) = input.split_at(bytes);
        if self.keeps_body {
            // Keep one byte more than allowed, so that the caller sees the excess.
            let room = (ECHO_MAX_BYTES + 1).saturating_sub(self.body.len());
            self.body.extend_from_slice(&now[..now.len().min(room)]);
        }
        *input = rest;
    }

    fn finish(&mut self) -> RequestEvent {
        self.state = RequestReaderState::Head;
        self.keeps_body = false;
        RequestEvent::End {
            body: std::mem::take(&mut self.body),
        }
    }
}

/// The next state of chunk framing (RFC 9112 section 7.1); `None` after the last line.
fn next_chunk_state(chunk: Chunk, byte: u8) -> Result<Option<Chunk>, BadRequest> {
    match chunk {
        Chunk::Size {
            value,
            digits,
            in_extension,
            length,
        } => {
            if length >= CHUNK_LINE_MAX_BYTES {
                return Err(bad(400, "a chunk size line is longer than 16 KiB"));
            }
            next_size_state(value, digits, in_extension, length, byte).map(Some)
        }
        Chunk::Data(_) => Ok(Some(chunk)),
        Chunk::DataEnd { has_cr } => match (byte, has_cr) {
            (b'\r', false) => Ok(Some(Chunk::DataEnd { has_cr: true })),
            (b'\n', true) => Ok(Some(Chunk::START)),
            _ => Err(bad(400, "chunk data is not followed by a line end")),
        },
        Chunk::Trailer { line, total } => {
            if total >= CHUNK_LINE_MAX_BYTES {
                return Err(bad(431, "the trailers are longer than 16 KiB"));
            }
            Ok(match byte {
                b'\n' if line == 0 => None,
                b'\n' => Some(Chunk::Trailer {
                    line: 0,
                    total: total + 1,
                }),
                b'\r' => Some(Chunk::Trailer {
                    line,
                    total: total + 1,
                }),
                _ => Some(Chunk::Trailer {
                    line: line + 1,
                    total: total + 1,
                }),
            })
        }
    }
}

fn next_size_state(
    value: u64,
    digits: u8,
    in_extension: bool,
    length: usize,
    byte: u8,
) -> Result<Chunk, BadRequest> {
    let digit = (byte as char).to_digit(16);
    match (byte, digit) {
        (b'\n', _) if digits == 0 => Err(bad(400, "a chunk has no size")),
        (b'\n', _) if value == 0 => Ok(Chunk::Trailer { line: 0, total: 0 }),
        (b'\n', _) => Ok(Chunk::Data(value)),
        (_, Some(digit)) if !in_extension => {
            // 15 hexadecimal digits cannot overflow.
            if digits == 15 {
                return Err(bad(400, "a chunk size has more than 15 digits"));
            }
            let value = value * 16 + u64::from(digit);
            Ok(Chunk::Size {
                value,
                digits: digits + 1,
                in_extension,
                length: length + 1,
            })
        }
        (b';' | b' ' | b'\t' | b'\r', _) if digits > 0 => Ok(Chunk::Size {
            value,
            digits,
            in_extension: true,
            length: length + 1,
        }),
        _ if in_extension => Ok(Chunk::Size {
            value,
            digits,
            in_extension,
            length: length + 1,
        }),
        _ => Err(bad(400, "a chunk size is not a hexadecimal number")),
    }
}

/// The number of bytes of `input` up to the end of the head that starts with `before`, if the head
/// ends in `input`.
fn end_of_head(before: &[u8], input: &[u8]) -> Option<usize> {
    // The end may straddle the two pieces.
    let tail = &before[before.len().saturating_sub(2)..];
    for (at, _) in input.iter().enumerate().filter(|&(_, &byte)| byte == b'\n') {
        let earlier = |back: usize| match at.checked_sub(back) {
            Some(position) => input.get(position).copied(),
            None => (tail.len() + at)
                .checked_sub(back)
                .and_then(|place| tail.get(place).copied()),
        };
        let ends =
            earlier(1) == Some(b'\n') || (earlier(1) == Some(b'\r') && earlier(2) == Some(b'\n'));
        if ends {
            return Some(at + 1);
        }
    }
    None
}

fn parse_head(bytes: &[u8]) -> Result<(Head, RequestReaderState), BadRequest> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Err(bad(400, "the request head is broken")),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(bad(431, "the request has more than 128 header fields"));
        }
        Err(httparse::Error::Version) => return Err(bad(505, "only HTTP/1.0 and 1.1 are spoken")),
        Err(_) => return Err(bad(400, "the request head is broken")),
    }
    let fields = Fields::collect(request.headers)?;
    let is_http10 = request.version == Some(0);
    let state = fields.framing()?;
    let head = Head {
        method: request.method.unwrap_or_default().to_owned(),
        target: request.path.unwrap_or_default().to_owned(),
        is_http10,
        keeps_alive: if is_http10 {
            fields.says_keep_alive
        } else {
            !fields.says_close
        },
        expects_continue: fields.expects_continue && !is_http10,
        has_body: state != RequestReaderState::Length(0),
        api_key: fields.api_key,
    };
    Ok((head, state))
}

/// The header fields that affect framing and persistence.
#[derive(Debug, Default)]
struct Fields {
    length: Option<u64>,
    has_transfer_encoding: bool,
    is_chunked: bool,
    says_close: bool,
    says_keep_alive: bool,
    expects_continue: bool,
    api_key: Option<String>,
}

impl Fields {
    fn collect(headers: &[httparse::Header<'_>]) -> Result<Self, BadRequest> {
        let mut fields = Self::default();
        for header in headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            let value = header.value.trim_ascii();
            if is("content-length") {
                fields.add_length(value)?;
            } else if is("transfer-encoding") {
                fields.has_transfer_encoding = true;
                fields.is_chunked = value.eq_ignore_ascii_case(b"chunked");
            } else if is("connection") {
                for token in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                    fields.says_close |= token.eq_ignore_ascii_case(b"close");
                    fields.says_keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
                }
            } else if is("expect") {
                fields.expects_continue = value.eq_ignore_ascii_case(b"100-continue");
            } else if llm::has_key(header.name.as_bytes()) {
                fields.api_key = llm::key_of(value);
            }
        }
        Ok(fields)
    }

    fn add_length(&mut self, value: &[u8]) -> Result<(), BadRequest> {
        let length = std::str::from_utf8(value)
            .ok()
            .filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| bad(400, "Content-Length is not a number"))?;
        if self.length.is_some_and(|before| before != length) {
            return Err(bad(
                400,
                "Content-Length is there twice with different values",
            ));
        }
        self.length = Some(length);
        Ok(())
    }

    /// RFC 9112 section 6.3; ambiguous framing is rejected.
    fn framing(&self) -> Result<RequestReaderState, BadRequest> {
        match (self.has_transfer_encoding, self.is_chunked, self.length) {
            (true, _, Some(_)) => Err(bad(400, "Transfer-Encoding and Content-Length together")),
            (true, false, None) => Err(bad(501, "only the transfer encoding chunked is known")),
            (true, true, None) => Ok(RequestReaderState::Chunks(Chunk::START)),
            (false, _, length) => Ok(RequestReaderState::Length(length.unwrap_or(0))),
        }
    }
}

const fn bad(status: u16, reason: &'static str) -> BadRequest {
    BadRequest { status, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses everything in pieces of `step` bytes; bodies are kept.
    fn read_all(bytes: &[u8], step: usize) -> Result<Vec<RequestEvent>, BadRequest> {
        let mut reader = RequestReader::default();
        let mut found = Vec::new();
        for piece in bytes.chunks(step) {
            let mut rest = piece;
            while let Some(one) = reader.next(&mut rest)? {
                if matches!(one, RequestEvent::Head(_)) {
                    reader.keep_body();
                }
                found.push(one);
            }
            assert!(rest.is_empty());
        }
        Ok(found)
    }

    fn bodies(found: &[RequestEvent]) -> Vec<&[u8]> {
        found
            .iter()
            .filter_map(|one| match one {
                RequestEvent::End { body } => Some(body.as_slice()),
                RequestEvent::Head(_) => None,
            })
            .collect()
    }

    fn refusal(bytes: &[u8]) -> u16 {
        read_all(bytes, bytes.len())
            .expect_err("must be refused")
            .status
    }

    const MANY: &[u8] = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n\
        POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello\
        PUT /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
        4;note=\"x\"\r\nwiki\r\n5 \r\npedia\r\n0\r\nTrailer: 1\r\n\r\n\
        GET /d HTTP/1.0\r\n\r\n";

    #[test]
    fn a_stream_reads_the_same_in_pieces_of_every_size() {
        let whole = read_all(MANY, MANY.len()).unwrap();
        assert_eq!(bodies(&whole), [b"" as &[u8], b"hello", b"wikipedia", b""]);
        for step in 1..MANY.len() {
            assert_eq!(read_all(MANY, step).unwrap(), whole, "in pieces of {step}");
        }
    }

    #[test]
    fn heads_tell_method_target_version_and_persistence() {
        let found = read_all(MANY, 7).unwrap();
        let heads: Vec<_> = found
            .iter()
            .filter_map(|one| match one {
                RequestEvent::Head(head) => {
                    Some((head.method.as_str(), head.target.as_str(), head.keeps_alive))
                }
                RequestEvent::End { .. } => None,
            })
            .collect();
        assert_eq!(
            heads,
            [
                ("GET", "/a", true),
                ("POST", "/b", true),
                ("PUT", "/c", true),
                ("GET", "/d", false)
            ]
        );
    }

    #[test]
    fn connection_tokens_decide_persistence_in_any_case() {
        let keeps = |head: &str| match &read_all(head.as_bytes(), 9).unwrap()[0] {
            RequestEvent::Head(head) => head.keeps_alive,
            RequestEvent::End { .. } => panic!("no head"),
        };
        assert!(!keeps("GET / HTTP/1.1\r\nConnection: Close\r\n\r\n"));
        assert!(!keeps("GET / HTTP/1.1\r\nConnection: te, close\r\n\r\n"));
        assert!(keeps("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
    }

    #[test]
    fn lone_line_feeds_and_leading_empty_lines_are_understood() {
        let found = read_all(b"\r\n\r\nGET / HTTP/1.1\nHost: x\n\n", 3).unwrap();
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_tls_hello_is_refused_at_its_first_byte() {
        assert_eq!(refusal(b"\x16"), 400);
    }

    #[test]
    fn ambiguous_and_broken_framing_is_refused() {
        let with = |fields: &str| format!("POST / HTTP/1.1\r\n{fields}\r\n\r\n");
        for (fields, status) in [
            ("Content-Length: -1", 400),
            ("Content-Length: +1", 400),
            ("Content-Length: 0x1", 400),
            ("Content-Length: ", 400),
            ("Content-Length: 99999999999999999999", 400),
            ("Content-Length: 1\r\nContent-Length: 2", 400),
            ("Content-Length: 1\r\nTransfer-Encoding: chunked", 400),
            ("Transfer-Encoding: gzip", 501),
            ("no colon", 400),
        ] {
            assert_eq!(refusal(with(fields).as_bytes()), status, "{fields}");
        }
        for chunks in [
            "ZZ\r\n",
            "\r\n",
            "-1\r\n",
            "fffffffffffffffff\r\n",
            "1\r\nab\r\n",
        ] {
            let text = with("Transfer-Encoding: chunked") + chunks;
            assert_eq!(refusal(text.as_bytes()), 400, "{chunks:?}");
        }
    }

    #[test]
    fn endless_heads_lines_and_trailers_are_refused() {
        let mut head = b"GET / HTTP/1.1\r\nX: ".to_vec();
        head.resize(HEAD_MAX_BYTES + 1, b'a');
        assert_eq!(refusal(&head), 431);

        let many = "A: b\r\n".repeat(HEADERS_MAX + 1);
        assert_eq!(
            refusal(format!("GET / HTTP/1.1\r\n{many}\r\n").as_bytes()),
            431
        );

        let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        let extension = format!("{chunked}1;{}", "x".repeat(CHUNK_LINE_MAX_BYTES + 1));
        assert_eq!(refusal(extension.as_bytes()), 400);
        let trailers = format!("{chunked}0\r\n{}", "A: b\r\n".repeat(CHUNK_LINE_MAX_BYTES));
        assert_eq!(refusal(trailers.as_bytes()), 431);
    }

    #[test]
    fn other_versions_are_refused() {
        assert_eq!(refusal(b"GET / HTTP/2.0\r\n\r\n"), 505);
        assert_eq!(refusal(b"GET /\r\n\r\n"), 400);
    }

    #[test]
    fn a_body_that_is_not_kept_is_read_without_storing_it() {
        let mut reader = RequestReader::default();
        let mut head: &[u8] = b"POST / HTTP/1.1\r\nContent-Length: 1000000000000\r\n\r\n";
        assert!(matches!(
            reader.next(&mut head),
            Ok(Some(RequestEvent::Head(_)))
        ));
        for _ in 0..100 {
            let mut rest: &[u8] = &[0; 4096];
            assert_eq!(reader.next(&mut rest), Ok(None));
        }
        assert_eq!(reader.body.capacity(), 0);
        assert!(!reader.is_at_start());
    }
}
