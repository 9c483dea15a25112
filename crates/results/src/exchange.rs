//! One request and its response, with everything that a person wants to see of them.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use plan::secrets::{hide_in_body, hide_in_header, hide_in_url, hide_secrets};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

/// A connection with one exchange.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Exchange {
    /// `HTTP/1.1`, `HTTP/2`, `HTTP/3` or `gRPC`.
    pub protocol: &'static str,
    /// The addresses that were tried, in order; the connection is to the last one.
    pub attempts: Vec<Attempt>,
    /// What the TLS handshake has agreed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsFacts>,
    /// The server's certificate, if the handshake failed after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_certificate: Option<CertificateFacts>,
    /// The request, whether or not the server has received it.
    pub request: SentRequest,
    /// What came back; `None` if it did not arrive as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<ReceivedResponse>,
    /// The beginning of what arrived if that is no complete response, over HTTP/1.1 without TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// How long each step took.
    pub phases: ExchangePhases,
    /// What went wrong, one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// An attempt to connect to one address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attempt {
    /// Address and port, or the path of a Unix socket.
    pub address: String,
    /// Why it failed, one line; `None` if it succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What a TLS handshake has agreed on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TlsFacts {
    /// The version by its usual name, such as `TLS 1.3`.
    pub version: String,
    /// The cipher suite by its registered name.
    pub cipher: String,
    /// The protocol that the server has chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpn: Option<String>,
    /// Whether the certificate was verified.
    pub is_verified: bool,
    /// The server's own certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<CertificateFacts>,
}

/// Who a certificate is for, who has signed it, and when it is valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CertificateFacts {
    /// Whom it is for, such as `CN=example.org`.
    pub subject: String,
    /// Who has signed it, in the form of `subject`.
    pub issuer: String,
    /// From when it is valid, UTC.
    pub not_before: String,
    /// Until when it is valid, UTC.
    pub not_after: String,
    /// The host names and addresses that it is valid for.
    pub names: Vec<String>,
}

/// A request in its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SentRequest {
    /// The method, such as `GET`.
    pub method: String,
    /// The request target: path and query.
    pub target: String,
    /// Names and values, in the order in which they were sent.
    pub headers: Vec<(String, String)>,
    /// The body without framing; empty without one.
    #[serde(serialize_with = "text_or_base64")]
    pub body: Vec<u8>,
}

/// A response in its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ReceivedResponse {
    /// The status code, 100..=999.
    pub status: u16,
    /// Names and values, trailers last.
    pub headers: Vec<(String, String)>,
    /// The body without chunk framing.
    #[serde(serialize_with = "text_or_base64")]
    pub body: Vec<u8>,
    /// The messages of a gRPC call as JSON, if their type is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<serde_json::Value>,
    /// Bytes of head, framing and body.
    pub bytes: u64,
}

impl ReceivedResponse {
    /// The first value of a header. Names are compared without regard to case.
    #[must_use]
    pub fn header(&self, wanted: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.as_str())
    }
}

/// How long each step took, nanoseconds. A step that was not reached is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ExchangePhases {
    /// Looking up the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lookup_ns: Option<u64>,
    /// Establishing the connection, with failed attempts before it. Over QUIC, the handshake does
    /// that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_ns: Option<u64>,
    /// Asking the proxy for a tunnel, with TLS to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_ns: Option<u64>,
    /// The TLS handshake with the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_ns: Option<u64>,
    /// Until the kernel had taken the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_ns: Option<u64>,
    /// From then to the first byte of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_ns: Option<u64>,
    /// From there to its last byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rest_ns: Option<u64>,
    /// The whole exchange, from looking up the name to the last byte.
    pub whole_ns: u64,
}

/// A body as a text, or as `{"base64": ...}` if it is none.
fn text_or_base64<S: Serializer>(body: &[u8], out: S) -> Result<S::Ok, S::Error> {
    match std::str::from_utf8(body) {
        Ok(text) => out.serialize_str(text),
        Err(_) => {
            let mut map = out.serialize_map(Some(1))?;
            map.serialize_entry("base64", &BASE64_STANDARD.encode(body))?;
            map.end()
        }
    }
}

impl Exchange {
    /// A copy in which secrets are replaced, so that it may be shown.
    #[must_use]
    pub fn without_secrets(&self) -> Self {
        let mut shown = self.clone();
        shown.request.target = hide_in_url(&shown.request.target);
        shown.request.body = hide_in_body(&shown.request.body);
        let response = shown.response.as_mut();
        let headers = shown.request.headers.iter_mut();
        for (name, value) in headers.chain(response.into_iter().flat_map(|it| &mut it.headers)) {
            *value = hide_in_header(name, value);
        }
        if let Some(response) = &mut shown.response {
            response.body = hide_in_body(&response.body);
        }
        shown.unreadable = shown.unreadable.as_deref().map(hide_secrets);
        shown
    }

    /// Whether there is a response whose status is not an error.
    #[must_use]
    pub fn is_success(&self) -> bool {
        let status = self.response.as_ref().map(|response| response.status);
        self.error.is_none() && status.is_some_and(|status| status < 400)
    }

    /// Where a redirect leads: its `Location` header.
    #[must_use]
    pub fn redirect_location(&self) -> Option<&str> {
        let response = self.response.as_ref()?;
        let is_redirect = matches!(response.status, 301..=303 | 307 | 308);
        is_redirect.then(|| response.header("location")).flatten()
    }
}
