//! Error codes, and what the peer did wrong.

use std::fmt;

use super::StreamId;

/// The code in RST_STREAM and GOAWAY (RFC 9113 section 7). Unknown codes are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

macro_rules! error_codes {
    ($($code:literal $constant:ident $name:literal)*) => {
        #[expect(missing_docs, reason = "the names of RFC 9113 section 7")]
        impl ErrorCode {
            $(pub const $constant: Self = Self($code);)*

            /// The name in lower case, or `None` for a code that RFC 9113 does not define.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some($name),)*
                    _ => None,
                }
            }
        }
    };
}

error_codes! {
    0x0 NO_ERROR "no_error"
    0x1 PROTOCOL_ERROR "protocol_error"
    0x2 INTERNAL_ERROR "internal_error"
    0x3 FLOW_CONTROL_ERROR "flow_control_error"
    0x4 SETTINGS_TIMEOUT "settings_timeout"
    0x5 STREAM_CLOSED "stream_closed"
    0x6 FRAME_SIZE_ERROR "frame_size_error"
    0x7 REFUSED_STREAM "refused_stream"
    0x8 CANCEL "cancel"
    0x9 COMPRESSION_ERROR "compression_error"
    0xa CONNECT_ERROR "connect_error"
    0xb ENHANCE_YOUR_CALM "enhance_your_calm"
    0xc INADEQUATE_SECURITY "inadequate_security"
    0xd HTTP_1_1_REQUIRED "http_1_1_required"
}

/// The name, or the number of an unknown code: `cancel`, `0x20`.
impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#x}", self.0),
        }
    }
}

/// Characters of the debug data of GOAWAY that are kept.
const GOAWAY_TEXT_MAX: usize = 200;

/// Why the peer has ended the connection (RFC 9113 section 6.8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Goaway {
    /// The code.
    pub code: ErrorCode,
    /// The debug data as text of one line, shortened; empty if there is none. gRPC servers say
    /// `too_many_pings` there.
    pub text: String,
}

impl Goaway {
    /// The reason in a GOAWAY frame with this code and this debug data, which may be any bytes.
    #[must_use]
    pub fn new(code: ErrorCode, debug: &[u8]) -> Self {
        let text = String::from_utf8_lossy(&debug[..debug.len().min(4 * GOAWAY_TEXT_MAX)]);
        let text: String = text.chars().take(GOAWAY_TEXT_MAX).collect();
        Self {
            code,
            text: plan::printable(text.trim()).into_owned(),
        }
    }
}

/// The code, and the text in parentheses: `internal_error (out of memory)`.
impl fmt::Display for Goaway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text.as_str() {
            "" => self.code.fmt(f),
            text => write!(f, "{} ({text})", self.code),
        }
    }
}

/// The peer broke a rule (RFC 9113 section 5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Violation {
    /// The stream to reset: a stream error. `None` is a connection error: send GOAWAY and close.
    pub stream: Option<StreamId>,
    /// The code to send.
    pub code: ErrorCode,
    /// What was wrong: a phrase without a final period.
    pub reason: &'static str,
}

impl Violation {
    /// A violation that ends the connection.
    #[must_use]
    pub const fn connection(code: ErrorCode, reason: &'static str) -> Self {
        Self {
            stream: None,
            code,
            reason,
        }
    }

    /// A violation that ends only this stream, or the connection if `stream` is 0.
    #[must_use]
    pub const fn on(stream: StreamId, code: ErrorCode, reason: &'static str) -> Self {
        Self {
            stream: if stream == 0 { None } else { Some(stream) },
            code,
            reason,
        }
    }
}

#[cold]
pub(super) const fn protocol_error(reason: &'static str) -> Violation {
    Violation::connection(ErrorCode::PROTOCOL_ERROR, reason)
}

/// A malformed message is an error of its stream (section 8.1.1).
#[cold]
pub(super) const fn malformed(stream: StreamId, reason: &'static str) -> Violation {
    Violation::on(stream, ErrorCode::PROTOCOL_ERROR, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_shown_by_name_and_unknown_ones_by_number() {
        assert_eq!(ErrorCode::CANCEL.to_string(), "cancel");
        assert_eq!(ErrorCode(0xd).to_string(), "http_1_1_required");
        assert_eq!(ErrorCode(0x20).to_string(), "0x20");
    }

    #[test]
    fn the_text_of_goaway_is_one_printable_line_of_bounded_length() {
        for (debug, expected) in [
            (&b""[..], "calm"),
            (b"too_many_pings", "calm (too_many_pings)"),
            (b" a\x1b[31m\r\nb\0", "calm (a?[31m  b?)"),
            (b"\xff\xfe", "calm (\u{fffd}\u{fffd})"),
        ] {
            let code = ErrorCode::ENHANCE_YOUR_CALM;
            let expected = expected.replacen("calm", "enhance_your_calm", 1);
            assert_eq!(Goaway::new(code, debug).to_string(), expected);
        }
        let long = Goaway::new(ErrorCode::NO_ERROR, &vec![b'x'; 1 << 20]);
        assert_eq!(long.text.len(), GOAWAY_TEXT_MAX);
    }

    #[test]
    fn a_violation_on_stream_0_is_one_of_the_connection() {
        let code = ErrorCode::PROTOCOL_ERROR;
        assert_eq!(
            Violation::on(0, code, "x"),
            Violation::connection(code, "x")
        );
        assert_eq!(Violation::on(3, code, "x").stream, Some(3));
    }
}
