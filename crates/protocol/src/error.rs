//! Why a session has failed: a closed list of reasons, each with a stable name and a message.

use crate::h2::error::{ErrorCode, Goaway, Violation};
use crate::h2::grpc;
use crate::h2::hpack::Excess;
use crate::h2::reader::BLOCK_TOO_LARGE;
use crate::h3;
use crate::proxy::ProxyFault;

/// Why a session has failed. The connection must be closed and may be replaced.
///
/// [`SessionError::name`] is stable and appears in results. `Display` is a phrase without a final
/// period, to be used after a count ("3 x bad chunk framing").
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The peer closed before the first byte of an outstanding response.
    #[error("closed before the response began")]
    ClosedEarly,
    /// The peer closed in the middle of a response.
    #[error("closed within a response")]
    Truncated,
    /// Not an HTTP status line (RFC 9112 section 4), or its code is outside 100..=999.
    #[error("bad status line")]
    BadStatusLine,
    /// A status line with a version other than HTTP/1.0 or HTTP/1.1.
    #[error("HTTP version is neither 1.0 nor 1.1")]
    BadVersion,
    /// A header or trailer line that violates RFC 9112 section 5; its beginning, in quotes.
    #[error("bad header line: {0}")]
    BadHeader(String),
    /// A head or trailer section with more bytes than the limit.
    #[error("header section too large")]
    HeaderTooLarge,
    /// A head or trailer section with more lines than the limit.
    #[error("too many header lines")]
    TooManyHeaders,
    /// A Content-Length that is not a decimal number below 2^64, or several that differ.
    #[error("bad Content-Length")]
    BadContentLength,
    /// Transfer-Encoding and Content-Length in one response.
    #[error("both Transfer-Encoding and Content-Length")]
    ConflictingFraming,
    /// A Transfer-Encoding that cannot be parsed, or that applies chunked twice.
    #[error("bad Transfer-Encoding")]
    BadTransferEncoding,
    /// Chunked framing that violates RFC 9112 section 7.1, or that has an overlong line.
    #[error("bad chunk framing")]
    BadChunk,
    /// More consecutive interim (1xx) responses than any server sends on purpose.
    #[error("too many interim responses")]
    TooManyInterim,
    /// Bytes without an outstanding request: surplus bytes, or a second response to one request.
    #[error("bytes that no request asked for")]
    Unsolicited,
    /// 101 Switching Protocols, which no request asked for.
    #[error("unexpected 101 Switching Protocols")]
    UnexpectedUpgrade,
    /// The body is larger than what is captured for a script.
    #[error("body too large to be kept")]
    BodyTooLargeToCapture,
    /// Not HTTP/2: the server speaks HTTP/1.
    #[error("HTTP/1 where HTTP/2 was expected")]
    NotHttp2,
    /// The server chose another protocol in the TLS handshake, or none.
    #[error("the server chose another protocol in the TLS handshake")]
    OtherProtocol,
    /// RST_STREAM with REFUSED_STREAM: the request was not processed (RFC 9113 section 8.7).
    #[error("request refused")]
    StreamRefused,
    /// RST_STREAM with another code.
    #[error("response reset: {0}")]
    StreamReset(ErrorCode),
    /// GOAWAY without an error, before this request was processed (RFC 9113 section 6.8).
    #[error("request not processed before the server ended the connection")]
    GoawayUnprocessed,
    /// GOAWAY with an error.
    #[error("connection ended by the server: {0}")]
    Goaway(Goaway),
    /// ENHANCE_YOUR_CALM, in RST_STREAM or GOAWAY: the server considers the load abusive.
    #[error("server asks for less load: {0}")]
    Calm(Goaway),
    /// The peer broke the rules of flow control (RFC 9113 section 5.2).
    #[error("flow control violated: {0}")]
    FlowControl(&'static str),
    /// More frames that move nothing forward than any server has a reason to send (RFC 9113 section
    /// 10.5).
    #[error("flooded with frames")]
    Flooded,
    /// A header block that cannot be decoded (RFC 7541).
    #[error("bad header compression: {0}")]
    Compression(&'static str),
    /// Anything else that breaks a rule of HTTP/2.
    #[error("bad HTTP/2: {0}")]
    BadHttp2(&'static str),
    /// The server has closed the connection with an error of QUIC (RFC 9000 section 20.1).
    #[error("connection closed by the server: {0}")]
    QuicClosed(h3::error::Closed<h3::error::TransportCode>),
    /// The server has closed the connection with an error of HTTP/3 (RFC 9114 section 8.1).
    #[error("connection closed by the server: {0}")]
    Http3Closed(h3::error::Closed<h3::error::ErrorCode>),
    /// RESET_STREAM with a code other than H3_REQUEST_REJECTED.
    #[error("response reset: {0}")]
    Http3Reset(h3::error::ErrorCode),
    /// No packet of the server has arrived within the idle timeout of QUIC (RFC 9000 section 10.1).
    #[error("no packet within the idle timeout")]
    IdleTimeout,
    /// The server does not know the connection any more (RFC 9000 section 10.3).
    #[error("stateless reset: the server does not know the connection")]
    StatelessReset,
    /// The server offers other versions of QUIC (RFC 9000 section 6).
    #[error("the server does not speak QUIC version 1")]
    QuicVersion,
    /// The server broke a rule of QUIC.
    #[error("bad QUIC: {0}")]
    BadQuic(String),
    /// The server broke a rule of HTTP/3.
    #[error("bad HTTP/3: {0}")]
    BadHttp3(&'static str),
    /// A gRPC call whose `grpc-status` is not 0.
    #[error("gRPC call failed: {0}")]
    Grpc(grpc::Status),
    /// A response to a gRPC call without `grpc-status`, with this HTTP status.
    #[error("response without grpc-status, HTTP status {0}")]
    GrpcNoStatus(u16),
    /// A TLS record where HTTP was expected: the server speaks TLS on this port.
    #[error("TLS where plain HTTP was expected")]
    TlsOnPlain,
    /// No TLS record where one was expected: the server does not speak TLS on this port.
    #[error("no TLS where TLS was expected")]
    NotTls,
    /// The handshake failed on the client's side, for this reason.
    #[error("TLS handshake failed: {0}")]
    TlsHandshake(String),
    /// The server's certificate was rejected, for this reason.
    #[error("certificate refused: {0}")]
    TlsCertificate(String),
    /// The peer sent a fatal alert with this name (RFC 8446 section 6).
    #[error("TLS alert from the server: {0}")]
    TlsAlert(String),
    /// A record after the handshake that cannot be decrypted or parsed, for this reason.
    #[error("bad TLS record: {0}")]
    TlsRecord(String),
    /// The peer closed during the handshake.
    #[error("closed within the TLS handshake")]
    TlsClosed,
    /// The proxy opened no connection to the target.
    #[error("the proxy opened no connection: {0}")]
    Proxy(ProxyFault),
}

/// Alerts with which a server refuses the certificate of a client, or the lack of one (RFC 8446
/// section 6.2).
const ALERTS_ABOUT_CERTIFICATES: [&str; 8] = [
    "access_denied",
    "bad_certificate",
    "certificate_expired",
    "certificate_required",
    "certificate_revoked",
    "certificate_unknown",
    "unknown_ca",
    "unsupported_certificate",
];

impl SessionError {
    /// The error of an exchange whose stream the server has reset.
    pub(crate) fn of_reset(code: ErrorCode) -> Self {
        match code {
            ErrorCode::REFUSED_STREAM => Self::StreamRefused,
            ErrorCode::ENHANCE_YOUR_CALM => Self::Calm(Goaway::new(code, b"")),
            code => Self::StreamReset(code),
        }
    }

    /// The error of a connection that the server has ended for this reason.
    pub(crate) fn of_goaway(goaway: Goaway) -> Self {
        match goaway.code {
            ErrorCode::ENHANCE_YOUR_CALM => Self::Calm(goaway),
            _ => Self::Goaway(goaway),
        }
    }

    /// The error of a server that broke a rule.
    pub(crate) fn of_violation(violation: &Violation) -> Self {
        match violation.code {
            ErrorCode::FLOW_CONTROL_ERROR => Self::FlowControl(violation.reason),
            ErrorCode::COMPRESSION_ERROR => Self::Compression(violation.reason),
            _ if *violation == BLOCK_TOO_LARGE => Self::HeaderTooLarge,
            ErrorCode::ENHANCE_YOUR_CALM => Self::Flooded,
            _ => Self::BadHttp2(violation.reason),
        }
    }

    /// The error of an exchange whose head or trailers exceed this limit.
    pub(crate) fn of_excess(excess: Excess) -> Self {
        match excess {
            Excess::Bytes => Self::HeaderTooLarge,
            Excess::Fields => Self::TooManyHeaders,
        }
    }

    /// The error of an HTTP/3 exchange whose stream the server has reset.
    pub(crate) fn of_http3_reset(code: h3::error::ErrorCode) -> Self {
        match code {
            h3::error::ErrorCode::REQUEST_REJECTED => Self::StreamRefused,
            code => Self::Http3Reset(code),
        }
    }

    /// The error of a server that broke a rule of HTTP/3 or QPACK.
    pub(crate) fn of_http3_violation(violation: h3::error::Violation) -> Self {
        use h3::error::ErrorCode as Code;
        match violation.code {
            Code::EXCESSIVE_LOAD => Self::Flooded,
            Code::QPACK_DECOMPRESSION_FAILED
            | Code::QPACK_ENCODER_STREAM_ERROR
            | Code::QPACK_DECODER_STREAM_ERROR => Self::Compression(violation.reason),
            _ => Self::BadHttp3(violation.reason),
        }
    }

    /// Whether the response was complete and says itself that the request has failed.
    #[must_use]
    pub fn is_response(&self) -> bool {
        matches!(self, Self::Grpc(_) | Self::GrpcNoStatus(_))
    }

    /// Whether another attempt would end in the same way: the proxy or the certificate does not fit
    /// the settings of the run.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::TlsCertificate(_) => true,
            Self::TlsAlert(name) => ALERTS_ABOUT_CERTIFICATES.contains(&name.as_str()),
            Self::Proxy(fault) => fault.is_refusal(),
            _ => false,
        }
    }

    /// The name under which results count this reason: lower case with underscores, never changed.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::ClosedEarly => "closed_early",
            Self::Truncated => "truncated",
            Self::BadStatusLine => "bad_status_line",
            Self::BadVersion => "bad_version",
            Self::BadHeader(_) => "bad_header",
            Self::HeaderTooLarge => "header_too_large",
            Self::TooManyHeaders => "too_many_headers",
            Self::BadContentLength => "bad_content_length",
            Self::ConflictingFraming => "conflicting_framing",
            Self::BadTransferEncoding => "bad_transfer_encoding",
            Self::BadChunk => "bad_chunk",
            Self::TooManyInterim => "too_many_interim",
            Self::Unsolicited => "unsolicited",
            Self::UnexpectedUpgrade => "unexpected_upgrade",
            Self::BodyTooLargeToCapture => "body_too_large_to_capture",
            Self::NotHttp2 => "not_http2",
            Self::OtherProtocol => "other_protocol",
            Self::StreamRefused => "stream_refused",
            Self::StreamReset(_) => "stream_reset",
            Self::GoawayUnprocessed => "goaway_unprocessed",
            Self::Goaway(_) => "goaway_error",
            Self::Calm(_) => "calm",
            Self::FlowControl(_) => "flow_control",
            Self::Flooded => "flooded",
            Self::Compression(_) => "compression",
            Self::BadHttp2(_) => "bad_http2",
            Self::Http3Closed(h3::error::Closed { code, .. }) | Self::Http3Reset(code)
                if *code == h3::error::ErrorCode::EXCESSIVE_LOAD =>
            {
                "calm"
            }
            Self::QuicClosed(_) => "quic_closed",
            Self::Http3Closed(_) => "http3_closed",
            Self::Http3Reset(_) => "stream_reset",
            Self::IdleTimeout => "idle_timeout",
            Self::StatelessReset => "stateless_reset",
            Self::QuicVersion => "quic_version",
            Self::BadQuic(_) => "bad_quic",
            Self::BadHttp3(_) => "bad_http3",
            Self::Grpc(_) => "grpc",
            Self::GrpcNoStatus(_) => "grpc_no_status",
            Self::TlsOnPlain => "tls_on_plain",
            Self::NotTls => "not_tls",
            Self::TlsHandshake(_) => "tls_handshake",
            Self::TlsCertificate(_) => "tls_certificate",
            Self::TlsAlert(_) => "tls_alert",
            Self::TlsRecord(_) => "tls_record",
            Self::TlsClosed => "tls_closed",
            Self::Proxy(_) => "proxy",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_settings_decide_is_a_refusal() {
        let alert = |name: &str| SessionError::TlsAlert(name.to_owned());
        let status = |status| ProxyFault::of_status(status, b"");
        let text = String::new;
        for refusal in [
            SessionError::TlsCertificate(text()),
            alert("certificate_required"),
            SessionError::Proxy(status(407)),
            SessionError::Proxy(status(403)),
            SessionError::Proxy(ProxyFault::LoginRefused),
            SessionError::Proxy(ProxyFault::SocksReply(2)),
            SessionError::Proxy(ProxyFault::TlsRefusal(text())),
        ] {
            assert!(refusal.is_refusal(), "{refusal}");
        }
        for passing in [
            SessionError::ClosedEarly,
            SessionError::TlsClosed,
            SessionError::TlsHandshake(text()),
            alert("internal_error"),
            SessionError::Proxy(status(502)),
            SessionError::Proxy(status(429)),
            SessionError::Proxy(ProxyFault::Closed),
            SessionError::Proxy(ProxyFault::SocksReply(5)),
            SessionError::Proxy(ProxyFault::Tls(text())),
        ] {
            assert!(!passing.is_refusal(), "{passing}");
        }
    }
}
