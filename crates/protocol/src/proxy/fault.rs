//! Why a proxy opened no connection to the target.

use super::socks::reply_text;

/// The most characters of a proxy's own words that a message repeats.
const REASON_CHARS_MAX: usize = 80;

/// Why a proxy opened no connection to the target. `Display` is a phrase about "it", the proxy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProxyFault {
    /// It closed the connection, or reset it, before it was open to the target.
    #[error("it closed the connection before answering")]
    Closed,
    /// TLS with an https proxy failed, for this reason.
    #[error("TLS to it failed: {0}")]
    Tls(String),
    /// The certificate of an https proxy was rejected, or the one for it, for this reason.
    #[error("TLS to it failed: {0}")]
    TlsRefusal(String),
    /// An answer to CONNECT other than 2xx.
    #[error("it answered {status}{}{}", spaced(reason), advice(*status))]
    Status {
        /// The status of the answer, 300..=999.
        status: u16,
        /// The text after the status, printable and short.
        reason: String,
    },
    /// The answer to CONNECT is not HTTP/1.
    #[error("it did not answer CONNECT with HTTP (is it a SOCKS proxy?)")]
    NotHttp,
    /// The head of the answer to CONNECT is larger than [`super::connect::HEAD_BYTES_MAX`].
    #[error("the head of its answer is too large")]
    HeadTooLarge,
    /// The answer is not SOCKS5.
    #[error("its answer is not SOCKS5 (is it an HTTP proxy?)")]
    NotSocks,
    /// It accepts no connection without a user, and none was given.
    #[error("it accepts no connection without user and password (--proxy-user)")]
    NeedsLogin,
    /// It accepts none of the ways to log in.
    #[error("it accepts none of the ways to log in to SOCKS5 that wrkbench supports")]
    NoMethod,
    /// It refused user and password (RFC 1929).
    #[error("it refused user and password (--proxy-user)")]
    LoginRefused,
    /// It refused the connection with this reply code (RFC 1928 section 6).
    #[error("it answered: {}", reply_text(*.0))]
    SocksReply(u8),
    /// The kind of address in its answer is unknown.
    #[error("its answer has an address of unknown kind {0}")]
    SocksAddress(u8),
}

impl ProxyFault {
    /// Whether another attempt would end in the same way: it is about the settings of the proxy,
    /// not about its load or the target.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::Status { status, .. } => matches!(status, 401 | 403 | 405 | 407),
            Self::TlsRefusal(_)
            | Self::NotHttp
            | Self::NotSocks
            | Self::NeedsLogin
            | Self::NoMethod
            | Self::LoginRefused => true,
            // "Connection not allowed by ruleset" (RFC 1928 section 6).
            Self::SocksReply(code) => *code == 2,
            Self::Closed | Self::Tls(_) | Self::HeadTooLarge | Self::SocksAddress(_) => false,
        }
    }

    /// An answer to CONNECT, whose reason may be any bytes.
    pub(crate) fn of_status(status: u16, reason: &[u8]) -> Self {
        let reason = String::from_utf8_lossy(reason);
        let printable = reason.chars().filter(|letter| plan::is_printable(*letter));
        Self::Status {
            status,
            reason: printable
                .take(REASON_CHARS_MAX)
                .collect::<String>()
                .trim()
                .to_owned(),
        }
    }
}

fn spaced(reason: &str) -> String {
    if reason.is_empty() {
        String::new()
    } else {
        format!(" {reason}")
    }
}

/// What to do about a status.
fn advice(status: u16) -> &'static str {
    match status {
        407 => " (give --proxy-user)",
        _ => "",
    }
}
