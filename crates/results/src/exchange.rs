//! One request and its response, with everything that a person wants to see of them.

use plan::secrets::{hide_in_body, hide_in_header, hide_in_url};

/// A connection with one exchange.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exchange {
    /// `HTTP/1.1`, `HTTP/2` or `gRPC`.
    pub protocol: &'static str,
    /// The addresses that were tried, in order; the connection is to the last one.
    pub attempts: Vec<Attempt>,
    /// What the TLS handshake has agreed on.
    pub tls: Option<TlsFacts>,
    /// The server's certificate, if the handshake failed after it.
    pub refused_certificate: Option<CertificateFacts>,
    /// The request, whether or not the server has received it.
    pub request: SentRequest,
    /// What came back; `None` if it did not arrive as a whole.
    pub response: Option<ReceivedResponse>,
    /// How long each step took.
    pub phases: ExchangePhases,
    /// What went wrong, one line.
    pub error: Option<String>,
}

/// An attempt to connect to one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Address and port, or the path of a Unix socket.
    pub address: String,
    /// Why it failed, one line; `None` if it succeeded.
    pub error: Option<String>,
}

/// What a TLS handshake has agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFacts {
    /// The version by its usual name, such as `TLS 1.3`.
    pub version: String,
    /// The cipher suite by its registered name.
    pub cipher: String,
    /// The protocol that the server has chosen.
    pub alpn: Option<String>,
    /// Whether the certificate was verified.
    pub is_verified: bool,
    /// The server's own certificate.
    pub certificate: Option<CertificateFacts>,
}

/// Who a certificate is for, who has signed it, and when it is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SentRequest {
    /// The method, such as `GET`.
    pub method: String,
    /// The request target: path and query.
    pub target: String,
    /// Names and values, in the order in which they were sent.
    pub headers: Vec<(String, String)>,
    /// The body without framing; empty without one.
    pub body: Vec<u8>,
}

/// A response in its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReceivedResponse {
    /// The status code, 100..=999.
    pub status: u16,
    /// Names and values, trailers last.
    pub headers: Vec<(String, String)>,
    /// The body without chunk framing.
    pub body: Vec<u8>,
    /// Bytes of head, framing and body.
    pub bytes: u64,
}

/// How long each step took, nanoseconds. A step that was not reached is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExchangePhases {
    /// Looking up the name.
    pub lookup_ns: Option<u64>,
    /// Establishing the connection, with failed attempts before it.
    pub connect_ns: Option<u64>,
    /// Asking the proxy for a tunnel, with TLS to it.
    pub proxy_ns: Option<u64>,
    /// The TLS handshake with the target.
    pub tls_ns: Option<u64>,
    /// Until the kernel had taken the request.
    pub send_ns: Option<u64>,
    /// From then to the first byte of the response.
    pub first_byte_ns: Option<u64>,
    /// From there to its last byte.
    pub rest_ns: Option<u64>,
    /// The whole exchange, from looking up the name to the last byte.
    pub whole_ns: u64,
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
        let mut headers = response.headers.iter().filter(|_| is_redirect);
        let location = headers.find(|(name, _)| name.eq_ignore_ascii_case("location"));
        location.map(|(_, value)| value.as_str())
    }
}
