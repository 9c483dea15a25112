//! Unary gRPC calls over HTTP/2: the message of a request, and the status of a call
//! ("gRPC over HTTP2", the protocol's document).

use std::borrow::Cow;
use std::fmt;

/// Bytes in front of a message: whether it is compressed, and its length.
pub const PREFIX_BYTES: usize = 5;

/// Longer texts of a server are cut.
const MESSAGE_CHARS_MAX: usize = 200;

/// Why a body is not a message of a unary call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageFault {
    /// The prefix and what follows it do not fit together.
    #[error(
        "begins with the five-byte prefix of gRPC, which announces {announced} bytes, but {actual} \
         follow (expected one message, with or without the prefix)"
    )]
    Length {
        /// Bytes according to the prefix.
        announced: u32,
        /// Bytes after the prefix.
        actual: usize,
    },
    /// Not even a prefix.
    #[error(
        "is neither a protobuf message nor one with the five-byte prefix of gRPC: it begins with \
         {first:#04x} and has {bytes} bytes"
    )]
    Prefix {
        /// The first byte of the body.
        first: u8,
        /// Length of the body.
        bytes: usize,
    },
}

/// A message with its prefix. A body that has one is left as it is.
///
/// The two cannot be confused: a prefix begins with 0 or 1, and no field of protobuf has the number
/// 0, which a first byte below 8 would mean.
///
/// # Errors
/// If the body begins like a prefix, but is not one message.
pub fn framed(body: &[u8]) -> Result<Cow<'_, [u8]>, MessageFault> {
    match *body {
        [0 | 1, a, b, c, d, ref message @ ..] => {
            let announced = u32::from_be_bytes([a, b, c, d]);
            let actual = message.len();
            if announced as usize == actual {
                Ok(Cow::Borrowed(body))
            } else {
                Err(MessageFault::Length { announced, actual })
            }
        }
        [first @ (0 | 1), ..] => Err(MessageFault::Prefix {
            first,
            bytes: body.len(),
        }),
        _ => {
            let mut framed = vec![0];
            framed.extend_from_slice(&(body.len() as u32).to_be_bytes());
            framed.extend_from_slice(body);
            Ok(Cow::Owned(framed))
        }
    }
}

/// The messages in a body: each has a prefix with its length. A compressed one, or one that is cut,
/// ends them.
pub fn messages(mut body: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (prefix, rest) = body.split_first_chunk::<PREFIX_BYTES>()?;
        let [0, length @ ..] = *prefix else {
            return None;
        };
        let (message, rest) = rest.split_at_checked(u32::from_be_bytes(length) as usize)?;
        body = rest;
        Some(message)
    })
}

/// The status code of a call, 0..=16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(u8);

/// The names of the codes, by their numbers.
const NAMES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

impl Code {
    /// The call has succeeded.
    pub const OK: Self = Self(0);
    /// Also stands for every code that is not defined.
    pub const UNKNOWN: Self = Self(2);

    /// All codes, by number.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..NAMES.len() as u8).map(Self)
    }

    /// The number of the code, 0..=16.
    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }

    /// Reads the value of `grpc-status`. As in other clients, what is not a defined code is
    /// [`Code::UNKNOWN`].
    pub(super) fn read(value: &[u8]) -> Self {
        let number = std::str::from_utf8(value)
            .ok()
            .and_then(|it| it.parse().ok());
        let known = number.filter(|number| usize::from(*number) < NAMES.len());
        known.map_or(Self::UNKNOWN, Self)
    }
}

/// The name in capitals: `UNAVAILABLE`.
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES[usize::from(self.0)])
    }
}

/// How a call has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The code in `grpc-status`.
    pub code: Code,
    /// The text of the server, `grpc-message`. May be empty.
    pub message: String,
}

/// Code and message: `UNAVAILABLE: try again`.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.message.is_empty() {
            self.code.fmt(f)
        } else {
            write!(f, "{}: {}", self.code, self.message)
        }
    }
}

/// Decodes `grpc-message`, which is percent-encoded UTF-8. Control characters become spaces, since
/// the text is for one line of a terminal.
pub(super) fn read_message(value: &[u8]) -> String {
    let mut bytes = Vec::new();
    let mut rest = value;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.first_chunk::<2>().filter(|_| byte == b'%');
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let decoded = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(decoded.unwrap_or(byte));
        rest = if decoded.is_some() {
            &after[2..]
        } else {
            after
        };
    }
    let text = String::from_utf8_lossy(&bytes);
    plan::printable(&text)
        .chars()
        .take(MESSAGE_CHARS_MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_end_with_one_that_is_cut_or_compressed() {
        let body = b"\0\0\0\0\x02ab\0\0\0\0\0\x01\0\0\0\x01z";
        let found: Vec<&[u8]> = messages(body).collect();
        assert_eq!(found, [&b"ab"[..], b""]);
        for cut in 0..body.len() {
            assert!(messages(&body[..cut]).count() <= 2, "{cut}");
        }
    }

    #[test]
    fn a_message_gets_a_prefix_and_one_that_has_it_is_left_as_it_is() {
        assert_eq!(framed(b"").as_deref(), Ok(&[0; 5][..]));
        assert_eq!(
            framed(b"\x0a\x01x").as_deref(),
            Ok(&b"\0\0\0\0\x03\x0a\x01x"[..])
        );
        for whole in [&b"\0\0\0\0\x03\x0a\x01x"[..], b"\x01\0\0\0\x01z", &[0; 5]] {
            assert_eq!(framed(whole).as_deref(), Ok(whole));
        }
    }

    #[test]
    fn a_body_that_is_not_one_message_is_refused() {
        for (body, said) in [
            (
                &b"\0\0\0\0\x03\x0a\x01"[..],
                "announces 3 bytes, but 2 follow",
            ),
            (
                b"\0\0\0\0\x01x\0\0\0\0\x01x",
                "announces 1 bytes, but 7 follow",
            ),
            (b"\0\0\0", "begins with 0x00 and has 3 bytes"),
            (b"\x01", "begins with 0x01 and has 1 bytes"),
        ] {
            let message = framed(body).unwrap_err().to_string();
            assert!(message.contains(said), "{message}");
            assert_eq!(message.lines().count(), 1);
        }
    }

    #[test]
    fn codes_are_read_by_number() {
        assert_eq!(Code::read(b"0"), Code::OK);
        assert_eq!(Code::read(b"14").to_string(), "UNAVAILABLE");
        assert_eq!(Code::read(b"16").to_string(), "UNAUTHENTICATED");
        for value in [&b"17"[..], b"-1", b"", b"OK", b"99999999999", b"\xff"] {
            assert_eq!(Code::read(value), Code::UNKNOWN, "{value:?}");
        }
    }

    #[test]
    fn messages_are_decoded_into_one_line() {
        assert_eq!(read_message(b"no such user"), "no such user");
        assert_eq!(read_message(b"50%25 of%20%C3%BC"), "50% of \u{fc}");
        assert_eq!(read_message(b"a%0Ab%1b%"), "a b?%");
        assert_eq!(read_message(b"100%, %zz %+f"), "100%, %zz %+f");
        assert_eq!(read_message(&[b'x'; 1000]).len(), MESSAGE_CHARS_MAX);
    }
}
