//! Verification of https servers, and the client certificate.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::load::is_off;
use crate::{InvalidValue, saved};

/// A protocol by its name in TLS handshakes (ALPN, RFC 7301).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Alpn {
    /// HTTP/1.1. Servers that choose no protocol speak it.
    #[serde(rename = "http/1.1")]
    Http1,
    /// HTTP/2; its registered name is `h2`.
    #[serde(rename = "h2")]
    Http2,
    /// HTTP/3, over QUIC only; its registered name is `h3`. It is never one of several offers.
    #[serde(rename = "h3")]
    Http3,
}

impl Alpn {
    /// The registered name: `http/1.1`, `h2` or `h3`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http1 => "http/1.1",
            Self::Http2 => "h2",
            Self::Http3 => "h3",
        }
    }

    /// The protocol that a server has chosen over TCP by its name, or by choosing none.
    #[must_use]
    pub fn chosen(name: Option<&[u8]>) -> Option<Self> {
        let Some(name) = name else {
            return Some(Self::Http1);
        };
        let mut all = [Self::Http1, Self::Http2].into_iter();
        all.find(|alpn| alpn.name().as_bytes() == name)
    }

    /// Reads names separated by commas. Each may be given once.
    ///
    /// # Errors
    /// In one line, if a name is unknown or repeated.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, InvalidValue> {
        let mut list = Vec::new();
        for name in text.split(',').map(str::trim) {
            let known = Self::chosen(Some(name.as_bytes()));
            let alpn = known.ok_or_else(|| {
                format!("{name:?} is not a protocol (expected h2, http/1.1 or both with a comma)")
            })?;
            if list.contains(&alpn) {
                return Err(format!("{name} is given twice").into());
            }
            list.push(alpn);
        }
        Ok(list)
    }

    /// The names separated by commas: `h2,http/1.1`.
    #[must_use]
    pub fn list(alpns: &[Self]) -> String {
        let names: Vec<&str> = alpns.iter().map(|alpn| alpn.name()).collect();
        names.join(",")
    }
}

/// TLS settings. They have no effect on http.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TlsSpec {
    /// Whether the server must have a certificate that is valid for the host.
    pub verify: bool,
    /// The protocols that are offered, the preferred one first. If empty, only the one of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alpn: Vec<Alpn>,
    /// PEM file with the certificate authorities to trust instead of those of the system.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(
        with = "saved::optional_path",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub cacert: Option<PathBuf>,
    /// PEM file with the client certificate chain; needs `key`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(
        with = "saved::optional_path",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub cert: Option<PathBuf>,
    /// PEM file with the private key of `cert`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(
        with = "saved::optional_path",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub key: Option<PathBuf>,
    /// Whether each handshake with the server is a full one: no session is resumed.
    #[serde(default, skip_serializing_if = "is_off")]
    pub full_handshakes: bool,
    /// HTTP/3: whether requests are sent before a resumed handshake is complete (0-RTT).
    #[serde(default, skip_serializing_if = "is_off")]
    pub early_data: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_a_list_of_registered_names() {
        let both = vec![Alpn::Http2, Alpn::Http1];
        assert_eq!(Alpn::parse_list("h2,http/1.1"), Ok(both.clone()));
        assert_eq!(Alpn::parse_list(" h2 , http/1.1"), Ok(both.clone()));
        assert_eq!(Alpn::list(&both), "h2,http/1.1");
        assert_eq!(Alpn::parse_list("h2"), Ok(vec![Alpn::Http2]));
        for (text, said) in [
            ("", "\"\" is not a protocol"),
            ("h2,", "\"\" is not a protocol"),
            ("h3", "\"h3\" is not a protocol (expected h2, http/1.1"),
            ("h2,h2", "h2 is given twice"),
        ] {
            let message = Alpn::parse_list(text).unwrap_err().to_string();
            assert!(message.contains(said), "{text:?} gives {message}");
        }
    }

    #[test]
    fn a_server_that_chooses_no_protocol_speaks_http1() {
        assert_eq!(Alpn::chosen(None), Some(Alpn::Http1));
        assert_eq!(Alpn::chosen(Some(b"h2")), Some(Alpn::Http2));
        assert_eq!(Alpn::chosen(Some(b"h3")), None);
    }
}
