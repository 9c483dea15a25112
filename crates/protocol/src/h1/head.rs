//! The head of a response: status line and header section, parsed once complete.

use std::borrow::Cow;
use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig};

use super::Limits;
use super::fields::{Framing, FramingFault, FramingFields};
use crate::stream_head::{PackedStreamHead, StreamFields};
use crate::{Captured, Fields, SessionError};

/// The meaning of a head. It depends only on the bytes of the head, so that equal heads have the
/// same meaning. What depends on the request (HEAD, CONNECT) is added later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// The status code, 100..=999.
    pub(super) status: u16,
    /// HTTP/1.1 without `close`, or HTTP/1.0 with `keep-alive` (RFC 9112 section 9.3).
    pub(super) persistent: bool,
    /// A fault matters only if a body can follow at all.
    pub(super) framing: Result<Framing, FramingFault>,
    pub(super) stream: PackedStreamHead,
}

/// Header lines that fit on the stack. A head with more is parsed again into a longer table.
const COMMON_HEADERS: usize = 64;

/// Checks the beginning of a status line, of which at least one byte has arrived. Input that is not
/// HTTP is then reported at once, not when the limit on heads is reached.
///
/// # Errors
/// If no continuation can turn it into a status line.
pub(super) fn check_start(start: &[u8]) -> Result<(), SessionError> {
    const START: &[u8] = b"HTTP/1.";
    let matching = start.iter().zip(START).take_while(|(a, b)| a == b).count();
    if matching == start.len().min(START.len()) {
        return match start.get(START.len()) {
            None | Some(b'0' | b'1') => Ok(()),
            Some(_) => Err(SessionError::BadVersion),
        };
    }
    match start {
        // A record of type alert or handshake; 3 is the major version of every TLS (RFC 8446
        // section 5.1). The type byte alone is not HTTP either, but the second byte tells which
        // error it is.
        [0x15 | 0x16] | [] => Ok(()),
        [0x15 | 0x16, 3, ..] => Err(SessionError::TlsOnPlain),
        _ if matching >= b"HTTP/".len() => Err(SessionError::BadVersion),
        _ => Err(SessionError::BadStatusLine),
    }
}

/// Parses a complete head. Folded header lines (RFC 9112 section 5.2) and lone LFs are accepted.
///
/// # Errors
/// If the syntax is invalid or there are too many lines.
pub(super) fn parse(
    bytes: &[u8],
    limits: &Limits,
    capture: bool,
) -> Result<(Head, Option<Box<Captured>>), SessionError> {
    check_start(bytes)?;
    let mut common = [const { MaybeUninit::uninit() }; COMMON_HEADERS];
    let room = limits.header_count_max.min(COMMON_HEADERS);
    match parse_into(bytes, &mut common[..room], capture) {
        Err(SessionError::TooManyHeaders) if limits.header_count_max > room => {
            let mut long = vec![MaybeUninit::uninit(); limits.header_count_max];
            parse_into(bytes, &mut long, capture)
        }
        parsed => parsed,
    }
}

/// The Location of a complete head that [`parse`] has accepted, for display: what is not printable
/// is replaced, and it is truncated beyond the length of any URL in use.
pub(super) fn location(bytes: &[u8], limits: &Limits) -> Option<String> {
    const CHARACTERS_MAX: usize = 2048;
    let (_, captured) = parse(bytes, limits, true).ok()?;
    let captured = captured?;
    let mut fields = captured.headers.iter();
    let (_, value) = fields.find(|(name, _)| name.eq_ignore_ascii_case(b"location"))?;
    let value = String::from_utf8_lossy(value);
    let value = plan::printable(&value);
    Some(value.chars().take(CHARACTERS_MAX).collect())
}

/// Parses a trailer section that ends with its empty line, and appends its fields. Folded lines are
/// rejected.
///
/// # Errors
/// If the syntax of a line is invalid or there are too many lines.
pub(super) fn parse_trailers(
    section: &[u8],
    limits: &Limits,
    captured: Option<&mut Captured>,
) -> Result<(), SessionError> {
    let mut headers = vec![httparse::EMPTY_HEADER; limits.header_count_max];
    let bad_header = || SessionError::BadHeader(malformed_line(section));
    let parsed = httparse::parse_headers(section, &mut headers)
        .map_err(|error| session_error(error, bad_header))?;
    let httparse::Status::Complete((_, fields)) = parsed else {
        return Err(bad_header());
    };
    if let Some(captured) = captured {
        captured.headers.extend(fields.iter().map(unfolded));
    }
    Ok(())
}

fn parse_into<'b>(
    bytes: &'b [u8],
    headers: &mut [MaybeUninit<Header<'b>>],
    capture: bool,
) -> Result<(Head, Option<Box<Captured>>), SessionError> {
    let bad_header = || {
        let section = memchr::memchr(b'\n', bytes).map_or(bytes, |end| &bytes[end + 1..]);
        SessionError::BadHeader(malformed_line(section))
    };
    let mut response = httparse::Response::new(&mut []);
    let parsed = ParserConfig::default()
        .allow_multiple_spaces_in_response_status_delimiters(true)
        .allow_obsolete_multiline_headers_in_responses(true)
        .parse_response_with_uninit_headers(&mut response, bytes, headers)
        .map_err(|error| session_error(error, bad_header))?;
    let status = response.code.filter(|code| *code >= 100);
    let (Some(status), Some(minor_version)) = (status, response.version) else {
        return Err(SessionError::BadStatusLine);
    };
    if parsed != httparse::Status::Complete(bytes.len()) {
        return Err(bad_header());
    }
    let head = meaning(status, minor_version, response.headers);
    let captured = capture.then(|| {
        let mut headers = Fields::with_capacity(response.headers.len(), bytes.len());
        headers.extend(response.headers.iter().map(unfolded));
        Box::new(Captured {
            status,
            headers,
            body: Vec::new(),
        })
    });
    Ok((head, captured))
}

fn meaning(status: u16, minor_version: u8, headers: &[Header<'_>]) -> Head {
    let mut fields = FramingFields::default();
    let mut stream = StreamFields::default();
    for header in headers {
        fields.note(header.name.as_bytes(), header.value);
        stream.note(header.name.as_bytes(), header.value);
    }
    let persistent = match minor_version {
        // A transfer coding in HTTP/1.0 means that the connection cannot be trusted beyond this
        // message (RFC 9112 section 6.1).
        0 => fields.keep_alive && !fields.close && !fields.has_codings(),
        _ => !fields.close,
    };
    Head {
        status,
        persistent,
        framing: fields.response_framing(),
        stream: stream.meaning().into(),
    }
}

/// A fold becomes blanks, as RFC 9112 section 5.2 requires of a user agent.
fn unfolded<'b>(header: &Header<'b>) -> (&'b str, Cow<'b, [u8]>) {
    let mut value = Cow::Borrowed(header.value);
    if memchr::memchr2(b'\r', b'\n', header.value).is_some() {
        for byte in value.to_mut() {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
    }
    (header.name, value)
}

fn session_error(
    error: httparse::Error,
    bad_header: impl FnOnce() -> SessionError,
) -> SessionError {
    match error {
        httparse::Error::Version => SessionError::BadVersion,
        httparse::Error::Status => SessionError::BadStatusLine,
        httparse::Error::TooManyHeaders => SessionError::TooManyHeaders,
        _ => bad_header(),
    }
}

/// The beginning of the first line of a header section that is not a header line, in quotes, for
/// messages. httparse does not say which line it rejects.
fn malformed_line(section: &[u8]) -> String {
    const SHOWN_CHARS: usize = 80;
    let mut lines = section.split(|byte| *byte == b'\n').enumerate();
    let bad = lines.find_map(|(at, line)| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // The continuation of the line before it.
        let name: &[u8] = if at > 0 && matches!(line.first(), Some(b' ' | b'\t')) {
            b"x:"
        } else {
            b""
        };
        let alone = [name, line, b"\r\n\r\n"].concat();
        let mut header = [httparse::EMPTY_HEADER];
        httparse::parse_headers(&alone, &mut header)
            .is_err()
            .then_some(line)
    });
    let bad = String::from_utf8_lossy(bad.unwrap_or_default());
    match bad.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{:?}...", &bad[..end]),
        None => format!("{bad:?}"),
    }
}
