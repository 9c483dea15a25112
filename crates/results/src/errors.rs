//! Errors by kind: how often each happened and how many requests it ended.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, IntoDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// wrk's four socket error counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Legacy {
    /// The connection or its TLS session could not be established.
    Connect,
    /// Receiving failed, or what was received is not HTTP.
    Read,
    /// Sending a request failed.
    Write,
    /// A deadline passed: that for connecting, or that for the response.
    Timeout,
}

impl Legacy {
    /// The word of wrk's report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Read => "read",
            Self::Write => "write",
            Self::Timeout => "timeout",
        }
    }
}

/// Declares the kinds: variant, stable name, wrk's counter, description.
macro_rules! error_kinds {
    ($($variant:ident, $name:literal, $legacy:expr, $phrase:literal;)+) => {
        /// Why a connection or a request failed. The names are stable, since they appear in saved
        /// results.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum ErrorKind {
            $(#[doc = concat!("`", $name, "`: ", $phrase, ".")] $variant,)+
        }

        impl ErrorKind {
            /// All kinds, in the order in which they can occur on a connection.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The stable name used in saved results.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The wrk counter that this kind belongs to.
            #[must_use]
            pub const fn legacy(self) -> Legacy {
                match self { $(Self::$variant => $legacy,)+ }
            }

            /// A phrase that says what happened, to be printed after a count.
            #[must_use]
            pub const fn describe(self) -> &'static str {
                match self { $(Self::$variant => $phrase,)+ }
            }
        }
    };
}

use Legacy::{Connect, Read, Timeout, Write};

error_kinds! {
    Refused, "refused", Connect, "the server refused the connection";
    Unreachable, "unreachable", Connect, "the host or network could not be reached";
    ConnectReset, "connect_reset", Connect, "the connection was reset while it was being set up";
    AddressUnavailable, "address_unavailable", Connect, "no local address and port was free";
    FileLimit, "file_limit", Connect, "the limit of open files was reached";
    ConnectOther, "connect_other", Connect, "connecting failed for another reason";
    ConnectTimeout, "connect_timeout", Timeout, "the connection was not set up in time";
    Proxy, "proxy", Connect, "the proxy opened no connection";
    TlsHandshake, "tls_handshake", Connect, "the TLS handshake failed";
    TlsCertificate, "tls_certificate", Connect, "the server's certificate was not accepted";
    TlsAlert, "tls_alert", Connect, "the server sent a TLS alert";
    TlsRecord, "tls_record", Read, "a TLS record could not be decrypted or understood";
    NotTls, "not_tls", Connect, "the server answered without TLS on a TLS connection";
    TlsClosed, "tls_closed", Connect, "the server closed during the TLS handshake";
    BrokenPipe, "broken_pipe", Write, "the server had closed before the request was sent";
    WriteOther, "write_other", Write, "sending failed for another reason";
    Reset, "reset", Read, "the server reset the connection";
    ClosedEarly, "closed_early", Read, "the server closed before the first byte of the response";
    Truncated, "truncated", Read, "the server closed within a response";
    ReadOther, "read_other", Read, "receiving failed for another reason";
    Stale, "stale", Read, "the server closed an idle connection as a request was on its way";
    Timeout, "timeout", Timeout, "no complete response in time";
    BadStatusLine, "bad_status_line", Read, "a response did not begin with a status line";
    BadVersion, "bad_version", Read, "a response had an HTTP version other than 1.x";
    BadHeader, "bad_header", Read, "a header line was malformed";
    HeaderTooLarge, "header_too_large", Read, "the head of a response was too large";
    TooManyHeaders, "too_many_headers", Read, "a response had too many header lines";
    BadContentLength, "bad_content_length", Read, "a Content-Length was invalid, or two differed";
    ConflictingFraming, "conflicting_framing", Read, "Content-Length with Transfer-Encoding";
    BadTransferEncoding, "bad_transfer_encoding", Read, "a Transfer-Encoding was not understood";
    BadChunk, "bad_chunk", Read, "a chunked body was malformed";
    TooManyInterim, "too_many_interim", Read, "interim (1xx) responses did not end";
    BodyTooLarge, "body_too_large", Read, "a body was too large to be kept";
    StreamError, "stream_error", Read, "the server reported an error within a stream of events";
    MissingValue, "missing_value", Read, "a response lacked a value that its request captures";
    Unsolicited, "unsolicited", Read, "bytes arrived with no request in flight";
    UnexpectedUpgrade, "unexpected_upgrade", Read, "the server switched protocols unasked";
    TlsOnPlain, "tls_on_plain", Read, "the server spoke TLS on a connection without TLS";
    NotHttp2, "not_http2", Read, "the server spoke HTTP/1 on a connection for HTTP/2";
    OtherProtocol, "other_protocol", Connect, "the server chose another protocol over TLS (ALPN)";
    StreamRefused, "stream_refused", Read, "the server refused a stream unprocessed";
    StreamReset, "stream_reset", Read, "the server reset a stream";
    GoawayUnprocessed, "goaway_unprocessed", Read, "the server closed before processing a request";
    Goaway, "goaway_error", Read, "the server ended the connection with an error (GOAWAY)";
    Calm, "calm", Read, "the server asked for less load (ENHANCE_YOUR_CALM, H3_EXCESSIVE_LOAD)";
    FlowControl, "flow_control", Read, "the server violated the flow control of HTTP/2";
    Flooded, "flooded", Read, "the server sent frames that carry no response, without end";
    Compression, "compression", Read, "a header block could not be decoded (HPACK, QPACK)";
    BadHttp2, "bad_http2", Read, "the server broke a rule of HTTP/2";
    QuicVersion, "quic_version", Connect, "the server does not speak QUIC version 1";
    QuicHandshake, "quic_handshake", Connect, "the QUIC handshake failed";
    IdleTimeout, "idle_timeout", Timeout, "nothing arrived within the idle timeout of QUIC";
    StatelessReset, "stateless_reset", Read, "the server did not know a QUIC connection any more";
    QuicClosed, "quic_closed", Read, "the server closed the connection with an error of QUIC";
    Http3Closed, "http3_closed", Read, "the server closed the connection with an error of HTTP/3";
    BadQuic, "bad_quic", Read, "the server broke a rule of QUIC";
    BadHttp3, "bad_http3", Read, "the server broke a rule of HTTP/3";
    GrpcCancelled, "grpc_cancelled", Read, "gRPC status CANCELLED";
    GrpcUnknown, "grpc_unknown", Read, "gRPC status UNKNOWN";
    GrpcInvalidArgument, "grpc_invalid_argument", Read, "gRPC status INVALID_ARGUMENT";
    GrpcDeadlineExceeded, "grpc_deadline_exceeded", Read, "gRPC status DEADLINE_EXCEEDED";
    GrpcNotFound, "grpc_not_found", Read, "gRPC status NOT_FOUND";
    GrpcAlreadyExists, "grpc_already_exists", Read, "gRPC status ALREADY_EXISTS";
    GrpcPermissionDenied, "grpc_permission_denied", Read, "gRPC status PERMISSION_DENIED";
    GrpcResourceExhausted, "grpc_resource_exhausted", Read, "gRPC status RESOURCE_EXHAUSTED";
    GrpcFailedPrecondition, "grpc_failed_precondition", Read, "gRPC status FAILED_PRECONDITION";
    GrpcAborted, "grpc_aborted", Read, "gRPC status ABORTED";
    GrpcOutOfRange, "grpc_out_of_range", Read, "gRPC status OUT_OF_RANGE";
    GrpcUnimplemented, "grpc_unimplemented", Read, "gRPC status UNIMPLEMENTED";
    GrpcInternal, "grpc_internal", Read, "gRPC status INTERNAL";
    GrpcUnavailable, "grpc_unavailable", Read, "gRPC status UNAVAILABLE";
    GrpcDataLoss, "grpc_data_loss", Read, "gRPC status DATA_LOSS";
    GrpcUnauthenticated, "grpc_unauthenticated", Read, "gRPC status UNAUTHENTICATED";
    GrpcNoStatus, "grpc_no_status", Read, "a response to a gRPC call had no grpc-status";
}

impl ErrorKind {
    /// The kind with this stable name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for ErrorKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for ErrorKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let kind = match name.as_str() {
            // Of earlier versions: a QUIC connection could not move to another local port.
            "migration" => Some(Self::ReadOther),
            known => Self::from_name(known),
        };
        kind.ok_or_else(|| D::Error::custom(format!("\"{name}\" is not a kind of error")))
    }
}

/// How often a kind of error happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ErrorCount {
    /// How often it happened.
    pub events: u64,
    /// Requests it ended: 0 for a refused connection, several for a lost connection with pipelined
    /// requests.
    pub exchanges: u64,
}

impl ErrorCount {
    fn merge(&mut self, other: Self) {
        self.events = self.events.saturating_add(other.events);
        self.exchanges = self.exchanges.saturating_add(other.exchanges);
    }
}

/// How often each kind of error happened, and how many requests it ended.
#[derive(Clone, PartialEq, Eq)]
pub struct Errors {
    /// One count for each kind, in the order of [`ErrorKind::ALL`].
    counts: [ErrorCount; ErrorKind::ALL.len()],
}

impl Default for Errors {
    fn default() -> Self {
        Self {
            counts: [ErrorCount::default(); ErrorKind::ALL.len()],
        }
    }
}

impl Errors {
    /// Counts one event that ended `exchanges` requests.
    pub fn add(&mut self, kind: ErrorKind, exchanges: u64) {
        let count = &mut self.counts[kind as usize];
        count.events = count.events.saturating_add(1);
        count.exchanges = count.exchanges.saturating_add(exchanges);
    }

    /// Adds the counts of another worker.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            mine.merge(*theirs);
        }
    }

    /// What was added since `earlier`, an earlier state of the same counts.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        for (count, before) in since.counts.iter_mut().zip(&earlier.counts) {
            count.events = count.events.saturating_sub(before.events);
            count.exchanges = count.exchanges.saturating_sub(before.exchanges);
        }
        since
    }

    /// The count of one kind.
    #[must_use]
    pub fn count(&self, kind: ErrorKind) -> ErrorCount {
        self.counts[kind as usize]
    }

    /// The kinds that happened, in the order of [`ErrorKind::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (ErrorKind, ErrorCount)> + '_ {
        ErrorKind::ALL
            .iter()
            .copied()
            .zip(self.counts)
            .filter(|(_, count)| count.events > 0)
    }

    /// Events of all kinds that belong to one of wrk's counters.
    #[must_use]
    pub fn legacy(&self, counter: Legacy) -> u64 {
        self.iter()
            .filter(|(kind, _)| kind.legacy() == counter)
            .fold(0, |total, (_, count)| total.saturating_add(count.events))
    }

    /// The number of errors: requests that an error ended, plus errors that ended no request (a
    /// refused connection, unsolicited bytes). Without pipelining this is [`Self::events`], the sum
    /// of wrk's four counters. Within one kind, events that ended several requests cannot be told
    /// from events that ended none, so the larger of the two counts is used.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.iter().fold(0, |total, (_, count)| {
            total.saturating_add(count.events.max(count.exchanges))
        })
    }

    /// Requests that ended in an error of any kind.
    #[must_use]
    pub fn exchanges(&self) -> u64 {
        self.iter()
            .fold(0, |total, (_, count)| total.saturating_add(count.exchanges))
    }

    /// Events of all kinds: the sum of wrk's four counters.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.iter()
            .fold(0, |total, (_, count)| total.saturating_add(count.events))
    }
}

impl fmt::Debug for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Serialized as an object by stable name, without kinds that did not happen.
impl Serialize for Errors {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(kind, count)| (kind.name(), count)))
    }
}

impl<'de> Deserialize<'de> for Errors {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut errors = Self::default();
        for (name, count) in BTreeMap::<String, ErrorCount>::deserialize(deserializer)? {
            let kind = ErrorKind::deserialize(name.into_deserializer())?;
            errors.counts[kind as usize].merge(count);
        }
        Ok(errors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_snake_case_and_parse_back_to_their_kind() {
        for &kind in ErrorKind::ALL {
            assert_eq!(ErrorKind::from_name(kind.name()), Some(kind));
            assert!(
                kind.name()
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'),
                "{kind}"
            );
            assert!(!kind.describe().is_empty());
        }
    }

    #[test]
    fn kinds_index_the_table_of_counts() {
        for (index, &kind) in ErrorKind::ALL.iter().enumerate() {
            assert_eq!(kind as usize, index);
        }
    }

    #[test]
    fn wrks_counters_count_every_event_once_and_failures_every_lost_request() {
        let mut errors = Errors::default();
        errors.add(ErrorKind::Refused, 0);
        errors.add(ErrorKind::TlsAlert, 0);
        errors.add(ErrorKind::Reset, 16);
        errors.add(ErrorKind::BadChunk, 1);
        errors.add(ErrorKind::BrokenPipe, 1);
        errors.add(ErrorKind::Timeout, 1);
        errors.add(ErrorKind::ConnectTimeout, 0);
        errors.add(ErrorKind::Stale, 1);
        let legacy = [Connect, Read, Write, Timeout].map(|counter| errors.legacy(counter));
        assert_eq!(legacy, [2, 3, 1, 2]);
        assert_eq!(errors.events(), legacy.iter().sum::<u64>());
        assert_eq!(errors.exchanges(), 20);
        // The requests, and three connections that could not be set up.
        assert_eq!(errors.failures(), 23);
    }

    #[test]
    fn errors_round_trip_through_json_and_reject_an_unknown_kind() {
        let mut errors = Errors::default();
        errors.add(ErrorKind::Reset, 2);
        errors.add(ErrorKind::Reset, 0);
        let text = serde_json::to_string(&errors).unwrap();
        assert_eq!(text, r#"{"reset":{"events":2,"exchanges":2}}"#);
        assert_eq!(serde_json::from_str::<Errors>(&text).unwrap(), errors);
        let unknown = r#"{"gremlins":{"events":1,"exchanges":0}}"#;
        let message = serde_json::from_str::<Errors>(unknown)
            .unwrap_err()
            .to_string();
        assert!(message.contains("gremlins"), "{message}");
    }
}
