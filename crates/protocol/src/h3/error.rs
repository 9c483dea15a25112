//! Error codes of HTTP/3 and of QUIC, and what the peer did wrong.

use std::fmt;

macro_rules! codes {
    ($type:ident, $source:literal: $($code:literal $constant:ident $name:literal)*) => {
        #[expect(missing_docs, reason = "names of standards")]
        impl $type {
            $(pub const $constant: Self = Self($code);)*

            #[doc = concat!("The name in lower case, unless ", $source, " has no such code.")]
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some($name),)*
                    _ => None,
                }
            }
        }

        /// The name, or the number of an unknown code.
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{:#x}", self.0),
                }
            }
        }
    };
}

/// The code with which HTTP/3 resets a stream or closes a connection (RFC 9114 section 8.1, RFC
/// 9204 section 6). Unknown codes are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u64);

codes! { ErrorCode, "RFC 9114 or RFC 9204":
    0x100 NO_ERROR "h3_no_error"
    0x101 GENERAL_PROTOCOL_ERROR "h3_general_protocol_error"
    0x102 INTERNAL_ERROR "h3_internal_error"
    0x103 STREAM_CREATION_ERROR "h3_stream_creation_error"
    0x104 CLOSED_CRITICAL_STREAM "h3_closed_critical_stream"
    0x105 FRAME_UNEXPECTED "h3_frame_unexpected"
    0x106 FRAME_ERROR "h3_frame_error"
    0x107 EXCESSIVE_LOAD "h3_excessive_load"
    0x108 ID_ERROR "h3_id_error"
    0x109 SETTINGS_ERROR "h3_settings_error"
    0x10a MISSING_SETTINGS "h3_missing_settings"
    0x10b REQUEST_REJECTED "h3_request_rejected"
    0x10c REQUEST_CANCELLED "h3_request_cancelled"
    0x10d REQUEST_INCOMPLETE "h3_request_incomplete"
    0x10e MESSAGE_ERROR "h3_message_error"
    0x10f CONNECT_ERROR "h3_connect_error"
    0x110 VERSION_FALLBACK "h3_version_fallback"
    0x200 QPACK_DECOMPRESSION_FAILED "qpack_decompression_failed"
    0x201 QPACK_ENCODER_STREAM_ERROR "qpack_encoder_stream_error"
    0x202 QPACK_DECODER_STREAM_ERROR "qpack_decoder_stream_error"
}

impl ErrorCode {
    /// Whether the code stands for no error: H3_NO_ERROR, or a code that is reserved so that
    /// clients ignore unknown ones (RFC 9114 section 8.1).
    #[must_use]
    pub fn is_no_error(self) -> bool {
        let is_reserved = self
            .0
            .checked_sub(0x21)
            .is_some_and(|rest| rest % 0x1f == 0);
        self == Self::NO_ERROR || is_reserved
    }
}

/// The code with which QUIC itself closes a connection (RFC 9000 section 20.1). Those from 0x100 to
/// 0x1ff are alerts of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TransportCode(pub u64);

codes! { TransportCode, "RFC 9000":
    0x0 NO_ERROR "no_error"
    0x1 INTERNAL_ERROR "internal_error"
    0x2 CONNECTION_REFUSED "connection_refused"
    0x3 FLOW_CONTROL_ERROR "flow_control_error"
    0x4 STREAM_LIMIT_ERROR "stream_limit_error"
    0x5 STREAM_STATE_ERROR "stream_state_error"
    0x6 FINAL_SIZE_ERROR "final_size_error"
    0x7 FRAME_ENCODING_ERROR "frame_encoding_error"
    0x8 TRANSPORT_PARAMETER_ERROR "transport_parameter_error"
    0x9 CONNECTION_ID_LIMIT_ERROR "connection_id_limit_error"
    0xa PROTOCOL_VIOLATION "protocol_violation"
    0xb INVALID_TOKEN "invalid_token"
    0xc APPLICATION_ERROR "application_error"
    0xd CRYPTO_BUFFER_EXCEEDED "crypto_buffer_exceeded"
    0xe KEY_UPDATE_ERROR "key_update_error"
    0xf AEAD_LIMIT_REACHED "aead_limit_reached"
    0x10 NO_VIABLE_PATH "no_viable_path"
}

impl TransportCode {
    /// The alert of TLS that it stands for (RFC 9001 section 4.8).
    #[must_use]
    pub fn alert(self) -> Option<u8> {
        u8::try_from(self.0.checked_sub(0x100)?).ok()
    }
}

/// Characters of a reason that are kept.
const REASON_TEXT_MAX: usize = 200;

/// Why the peer has closed the connection (RFC 9000 section 19.19).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed<C> {
    /// The code.
    pub code: C,
    /// The reason as text of one line, shortened; empty if there is none.
    pub text: String,
}

impl<C> Closed<C> {
    /// The reason in a CONNECTION_CLOSE frame, which may be any bytes.
    #[must_use]
    pub fn new(code: C, reason: &[u8]) -> Self {
        let text = String::from_utf8_lossy(&reason[..reason.len().min(4 * REASON_TEXT_MAX)]);
        let text: String = text.chars().take(REASON_TEXT_MAX).collect();
        Self {
            code,
            text: plan::printable(text.trim()).into_owned(),
        }
    }
}

/// The code, and the text in parentheses.
impl<C: fmt::Display> fmt::Display for Closed<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text.as_str() {
            "" => self.code.fmt(f),
            text => write!(f, "{} ({text})", self.code),
        }
    }
}

/// The peer broke a rule that ends the connection (RFC 9114 section 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Violation {
    /// The code to close the connection with.
    pub code: ErrorCode,
    /// What was wrong: a phrase without a final period.
    pub reason: &'static str,
}

impl Violation {
    /// A violation with this code.
    #[must_use]
    #[cold]
    pub const fn new(code: ErrorCode, reason: &'static str) -> Self {
        Self { code, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_shown_by_name_and_unknown_ones_by_number() {
        let shown = [
            (ErrorCode::NO_ERROR.to_string(), "h3_no_error"),
            (ErrorCode(0x200).to_string(), "qpack_decompression_failed"),
            (ErrorCode(0x21).to_string(), "0x21"),
            (TransportCode(0x10).to_string(), "no_viable_path"),
            (TransportCode(0x178).to_string(), "0x178"),
        ];
        for (shown, expected) in shown {
            assert_eq!(shown, expected);
        }
    }

    #[test]
    fn codes_of_tls_alerts_are_recognized() {
        assert_eq!(TransportCode(0x178).alert(), Some(120));
        assert_eq!(TransportCode(0x200).alert(), None);
        assert_eq!(TransportCode::NO_VIABLE_PATH.alert(), None);
    }

    #[test]
    fn a_reason_is_one_printable_line_of_bounded_length() {
        let closed = Closed::new(ErrorCode::NO_ERROR, b" bye\x1b[31m\r\n");
        assert_eq!(closed.to_string(), "h3_no_error (bye?[31m)");
        assert_eq!(
            Closed::new(TransportCode(2), b"").to_string(),
            "connection_refused"
        );
        let long = Closed::new(TransportCode(0), &vec![b'x'; 1 << 20]);
        assert_eq!(long.text.len(), REASON_TEXT_MAX);
    }
}
