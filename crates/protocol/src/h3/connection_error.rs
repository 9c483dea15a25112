//! Why a connection was lost.

use quinn_proto::ConnectionError;

use super::error::{Closed, ErrorCode, TransportCode};
use crate::{SessionError, tls};

/// The error of a lost connection. `None` if the server has closed it without one.
pub(super) fn error_of(reason: ConnectionError) -> Option<SessionError> {
    Some(match reason {
        ConnectionError::VersionMismatch => SessionError::QuicVersion,
        ConnectionError::Reset => SessionError::StatelessReset,
        ConnectionError::TimedOut => SessionError::IdleTimeout,
        ConnectionError::LocallyClosed => return None,
        ConnectionError::CidsExhausted => SessionError::BadQuic("no connection ID".to_owned()),
        ConnectionError::TransportError(error) => {
            let code = TransportCode(error.code.into());
            match code.alert() {
                Some(alert) => tls::error_of_own_alert(alert, &error.reason),
                None if error.reason.is_empty() => SessionError::BadQuic(code.to_string()),
                None => SessionError::BadQuic(format!("{code}: {}", error.reason)),
            }
        }
        ConnectionError::ConnectionClosed(close) => {
            let code = TransportCode(close.error_code.into());
            match code.alert() {
                Some(alert) => tls::error_of_peer_alert(alert),
                None if code == TransportCode::NO_ERROR => return None,
                None => SessionError::QuicClosed(Closed::new(code, &close.reason)),
            }
        }
        ConnectionError::ApplicationClosed(close) => {
            match ErrorCode(close.error_code.into_inner()) {
                code if code.is_no_error() => return None,
                code => SessionError::Http3Closed(Closed::new(code, &close.reason)),
            }
        }
    })
}
