//! A tunnel through an HTTP proxy by CONNECT (RFC 9110 section 9.3.6).

use super::ProxyFault;

/// Proxies answer in a few hundred bytes. Error pages are in the body, which is not read.
pub(super) const HEAD_BYTES_MAX: usize = 16 * 1024;

/// The request for a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connect {
    request: Vec<u8>,
}

impl Connect {
    /// A tunnel to `authority` (`host:port`). `headers` are further header lines, each with its
    /// end.
    #[must_use]
    pub fn new(authority: &str, headers: &str) -> Self {
        let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{headers}\r\n");
        Self {
            request: request.into_bytes(),
        }
    }

    /// The bytes to send.
    pub(super) fn request(&self) -> &[u8] {
        &self.request
    }
}

/// What the bytes of a proxy are so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The beginning of a head.
    Partial,
    /// An interim response of this length (1xx). Another head follows.
    Interim(usize),
    /// The tunnel is open behind this many bytes.
    Open(usize),
}

/// Reads the answer to CONNECT. A 2xx answer has no body, whatever its headers say (RFC 9110
/// section 9.3.6).
pub(super) fn answer(bytes: &[u8]) -> Result<Answer, ProxyFault> {
    const BEGIN: &[u8] = b"HTTP/1.";
    let known = bytes.len().min(BEGIN.len());
    if bytes[..known] != BEGIN[..known] {
        return Err(ProxyFault::NotHttp);
    }
    let Some(length) = head_length(bytes) else {
        return if bytes.len() > HEAD_BYTES_MAX {
            Err(ProxyFault::HeadTooLarge)
        } else {
            Ok(Answer::Partial)
        };
    };
    if length > HEAD_BYTES_MAX {
        return Err(ProxyFault::HeadTooLarge);
    }
    let line_end = memchr::memchr(b'\n', bytes).unwrap_or(length);
    let line = bytes[..line_end].trim_ascii_end();
    let (status, reason) = status_of(&line[BEGIN.len()..]).ok_or(ProxyFault::NotHttp)?;
    match status {
        // 101 would be another protocol.
        100 | 102..=199 => Ok(Answer::Interim(length)),
        200..=299 => Ok(Answer::Open(length)),
        _ => Err(ProxyFault::of_status(status, reason)),
    }
}

/// The length of a head with its empty line. Lines end with CRLF, or with LF as some proxies write
/// them.
fn head_length(bytes: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'\n', bytes).find_map(|at| match &bytes[at + 1..] {
        [b'\n', ..] => Some(at + 2),
        [b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    })
}

/// Reads the rest of a status line: `1 200 Connection established`.
fn status_of(line: &[u8]) -> Option<(u16, &[u8])> {
    let [minor, b' ', digits @ ..] = line else {
        return None;
    };
    let (status, reason) = digits.split_at_checked(3)?;
    let is_number = minor.is_ascii_digit() && status.iter().all(u8::is_ascii_digit);
    let is_apart = matches!(reason, [] | [b' ', ..]);
    if !is_number || !is_apart {
        return None;
    }
    let digit = |at: usize| u16::from(status[at] - b'0');
    let status = digit(0) * 100 + digit(1) * 10 + digit(2);
    (status >= 100).then_some((status, reason.trim_ascii()))
}
