//! Maps errors of the kernel and of sessions to the kinds of errors in results.

use protocol::SessionError;
use protocol::h3::error::{Closed, ErrorCode};
use results::ErrorKind;

/// The kind of a failed connect.
pub(crate) fn of_connect(errno: i32) -> ErrorKind {
    match errno {
        libc::ECONNREFUSED | libc::ENOENT => ErrorKind::Refused,
        libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN | libc::EHOSTDOWN => {
            ErrorKind::Unreachable
        }
        libc::ECONNRESET | libc::ECONNABORTED => ErrorKind::ConnectReset,
        libc::EADDRNOTAVAIL | libc::EADDRINUSE => ErrorKind::AddressUnavailable,
        libc::EMFILE | libc::ENFILE => ErrorKind::FileLimit,
        libc::ETIMEDOUT => ErrorKind::ConnectTimeout,
        _ => ErrorKind::ConnectOther,
    }
}

/// The kind of a failed receive. ECONNREFUSED is for UDP what RST is for TCP: the server has ended
/// and its port is closed (udp(7)).
pub(crate) fn of_receive(errno: i32) -> ErrorKind {
    match errno {
        libc::ECONNRESET | libc::EPIPE | libc::ECONNABORTED | libc::ECONNREFUSED => {
            ErrorKind::Reset
        }
        _ => ErrorKind::ReadOther,
    }
}

/// The kind of a session error over QUIC before requests could be sent. Errors that say why the
/// handshake failed, such as those of certificates, keep their kinds.
pub(crate) fn of_quic_handshake(error: &SessionError) -> ErrorKind {
    match error {
        SessionError::QuicClosed(_)
        | SessionError::Http3Closed(_)
        | SessionError::BadQuic(_)
        | SessionError::ClosedEarly => ErrorKind::QuicHandshake,
        error => of_session(error),
    }
}

/// The kind of a session error.
pub(crate) fn of_session(error: &SessionError) -> ErrorKind {
    match error {
        SessionError::ClosedEarly => ErrorKind::ClosedEarly,
        SessionError::Truncated => ErrorKind::Truncated,
        SessionError::BadStatusLine => ErrorKind::BadStatusLine,
        SessionError::BadVersion => ErrorKind::BadVersion,
        SessionError::BadHeader(_) => ErrorKind::BadHeader,
        SessionError::HeaderTooLarge => ErrorKind::HeaderTooLarge,
        SessionError::TooManyHeaders => ErrorKind::TooManyHeaders,
        SessionError::BadContentLength => ErrorKind::BadContentLength,
        SessionError::ConflictingFraming => ErrorKind::ConflictingFraming,
        SessionError::BadTransferEncoding => ErrorKind::BadTransferEncoding,
        SessionError::BadChunk => ErrorKind::BadChunk,
        SessionError::TooManyInterim => ErrorKind::TooManyInterim,
        SessionError::Unsolicited => ErrorKind::Unsolicited,
        SessionError::UnexpectedUpgrade => ErrorKind::UnexpectedUpgrade,
        SessionError::BodyTooLargeToCapture => ErrorKind::BodyTooLarge,
        SessionError::NotHttp2 => ErrorKind::NotHttp2,
        SessionError::OtherProtocol => ErrorKind::OtherProtocol,
        SessionError::StreamRefused => ErrorKind::StreamRefused,
        SessionError::StreamReset(_) => ErrorKind::StreamReset,
        SessionError::GoawayUnprocessed => ErrorKind::GoawayUnprocessed,
        SessionError::Goaway(_) => ErrorKind::Goaway,
        SessionError::Calm(_) => ErrorKind::Calm,
        SessionError::FlowControl(_) => ErrorKind::FlowControl,
        SessionError::Flooded => ErrorKind::Flooded,
        SessionError::Compression(_) => ErrorKind::Compression,
        SessionError::BadHttp2(_) => ErrorKind::BadHttp2,
        SessionError::Grpc(status) => OF_CALLS[usize::from(status.code.number())],
        SessionError::GrpcNoStatus(_) => ErrorKind::GrpcNoStatus,
        SessionError::Http3Closed(Closed { code, .. }) | SessionError::Http3Reset(code)
            if *code == ErrorCode::EXCESSIVE_LOAD =>
        {
            ErrorKind::Calm
        }
        SessionError::QuicClosed(_) => ErrorKind::QuicClosed,
        SessionError::Http3Closed(_) => ErrorKind::Http3Closed,
        SessionError::Http3Reset(_) => ErrorKind::StreamReset,
        SessionError::IdleTimeout => ErrorKind::IdleTimeout,
        SessionError::StatelessReset => ErrorKind::StatelessReset,
        SessionError::QuicVersion => ErrorKind::QuicVersion,
        SessionError::BadQuic(_) => ErrorKind::BadQuic,
        SessionError::BadHttp3(_) => ErrorKind::BadHttp3,
        SessionError::TlsOnPlain => ErrorKind::TlsOnPlain,
        SessionError::NotTls => ErrorKind::NotTls,
        SessionError::TlsHandshake(_) => ErrorKind::TlsHandshake,
        SessionError::TlsCertificate(_) => ErrorKind::TlsCertificate,
        SessionError::TlsAlert(_) => ErrorKind::TlsAlert,
        SessionError::TlsRecord(_) => ErrorKind::TlsRecord,
        SessionError::TlsClosed => ErrorKind::TlsClosed,
        SessionError::Proxy(_) => ErrorKind::Proxy,
    }
}

/// The kinds of failed gRPC calls by status code. A call with code 0 has not failed.
const OF_CALLS: [ErrorKind; 17] = [
    ErrorKind::GrpcUnknown,
    ErrorKind::GrpcCancelled,
    ErrorKind::GrpcUnknown,
    ErrorKind::GrpcInvalidArgument,
    ErrorKind::GrpcDeadlineExceeded,
    ErrorKind::GrpcNotFound,
    ErrorKind::GrpcAlreadyExists,
    ErrorKind::GrpcPermissionDenied,
    ErrorKind::GrpcResourceExhausted,
    ErrorKind::GrpcFailedPrecondition,
    ErrorKind::GrpcAborted,
    ErrorKind::GrpcOutOfRange,
    ErrorKind::GrpcUnimplemented,
    ErrorKind::GrpcInternal,
    ErrorKind::GrpcUnavailable,
    ErrorKind::GrpcDataLoss,
    ErrorKind::GrpcUnauthenticated,
];

/// What a session error tells beyond its kind.
pub(crate) fn detail(error: &SessionError) -> Option<String> {
    match error {
        SessionError::TlsHandshake(reason)
        | SessionError::TlsCertificate(reason)
        | SessionError::TlsAlert(reason)
        | SessionError::TlsRecord(reason)
        | SessionError::BadHeader(reason)
        | SessionError::BadQuic(reason) => Some(reason.clone()),
        SessionError::QuicClosed(closed) => Some(closed.to_string()),
        SessionError::Http3Closed(closed) => Some(closed.to_string()),
        SessionError::Http3Reset(code) => Some(code.to_string()),
        SessionError::StreamReset(code) => Some(code.to_string()),
        SessionError::Goaway(goaway) | SessionError::Calm(goaway) => Some(goaway.to_string()),
        SessionError::FlowControl(reason)
        | SessionError::Compression(reason)
        | SessionError::BadHttp2(reason)
        | SessionError::BadHttp3(reason) => Some((*reason).to_owned()),
        SessionError::Grpc(status) if !status.message.is_empty() => Some(status.message.clone()),
        SessionError::Proxy(fault) => Some(fault.to_string()),
        SessionError::GrpcNoStatus(status) => Some(format!("HTTP status {status}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::h2::grpc::Code;
    use protocol::h3::error::TransportCode;

    #[test]
    fn errors_of_quic_and_http_3_have_kinds_with_their_names() {
        let of_http3 = |code| Closed::new(code, b"");
        let refused = SessionError::QuicClosed(Closed::new(TransportCode::CONNECTION_REFUSED, b""));
        for error in [
            SessionError::Http3Closed(of_http3(ErrorCode::INTERNAL_ERROR)),
            SessionError::Http3Closed(of_http3(ErrorCode::EXCESSIVE_LOAD)),
            SessionError::Http3Reset(ErrorCode::INTERNAL_ERROR),
            SessionError::Http3Reset(ErrorCode::EXCESSIVE_LOAD),
            SessionError::IdleTimeout,
            SessionError::StatelessReset,
            SessionError::QuicVersion,
            SessionError::BadQuic(String::new()),
            SessionError::BadHttp3(""),
            refused.clone(),
        ] {
            assert_eq!(of_session(&error).name(), error.name(), "{error}");
        }
        assert_eq!(of_quic_handshake(&refused), ErrorKind::QuicHandshake);
        let alert = SessionError::TlsAlert("unknown_ca".to_owned());
        assert_eq!(of_quic_handshake(&alert), ErrorKind::TlsAlert);
    }

    #[test]
    fn kinds_of_calls_have_the_names_of_their_codes() {
        for (code, kind) in Code::all().zip(OF_CALLS).skip(1) {
            let name = format!("grpc_{}", code.to_string().to_ascii_lowercase());
            assert_eq!(kind.name(), name);
        }
    }
}
