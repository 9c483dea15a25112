//! Deliberate misbehaviours and their text form.

use crate::quantity::{parse_bytes, parse_count, parse_duration_ns};

/// A misbehaviour. The text form is `NAME` or `NAME:PARAMETER`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// `reset`: RST without a byte.
    Reset,
    /// `reset-after-head`: the head, then RST.
    ResetAfterHead,
    /// `reset-mid-body`: the head and half of the body, then RST.
    ResetMidBody,
    /// `reset-after-answer`: the whole response, then RST.
    ResetAfterAnswer,
    /// `fin-before`: FIN without a byte.
    FinBefore,
    /// `truncate`: half of the announced body, then FIN.
    Truncate,
    /// `hang`: no byte, ever.
    Hang,
    /// `hang-after-head`: the head, then silence.
    HangAfterHead,
    /// `hang-mid-body`: the head and half of the body, then silence.
    HangMidBody,
    /// `drip[:INTERVAL]`: one byte per interval (default 1 ms).
    Drip {
        /// Nanoseconds from byte to byte.
        interval_ns: u64,
    },
    /// `split`: each byte in a separate send, without waiting.
    Split,
    /// `garbage`: bytes that are not a status line, then FIN.
    Garbage,
    /// `http09`: the body without a head, then FIN.
    Http09,
    /// `bad-version`: a status line that says `HTTP/2`.
    BadVersion,
    /// `no-reason`: a status line that ends after the status.
    NoReason,
    /// `leading-crlf`: an empty line before the status line.
    LeadingCrlf,
    /// `lf-only`: lines that end in a lone line feed.
    LfOnly,
    /// `obs-fold`: a header field continued on a second line.
    ObsFold,
    /// `bad-chunk[:KIND]`: broken chunked coding.
    BadChunk(BadChunk),
    /// `chunk-extension[:BYTES]`: a legal chunk extension (16 bytes long).
    ChunkExtension {
        /// Length of the extension's value in bytes.
        bytes: u64,
    },
    /// `two-answers`: the response twice.
    TwoAnswers,
    /// `surplus`: bytes after the response that are not a response.
    Surplus,
    /// `unsolicited[:AFTER]`: the regular response; then, on the idle connection, an unsolicited
    /// 408 and FIN (default: after 10 ms).
    Unsolicited {
        /// Nanoseconds of idleness before it.
        after_ns: u64,
    },
    /// `big-head[:BYTES]`: a header field of this size (default 100k).
    BigHead {
        /// Length of the field's value in bytes.
        bytes: u64,
    },
    /// `many-headers[:COUNT]`: this many header fields (default 10000).
    ManyHeaders {
        /// Number of fields.
        count: u64,
    },
    /// `endless-head`: header fields without end.
    EndlessHead,
    /// `endless-body[:length]`: a body without end: chunked, or with the largest Content-Length.
    EndlessBody {
        /// Announced with Content-Length instead of chunked.
        has_length: bool,
    },
    /// `no-head-crlf`: FIN instead of the empty line after the head.
    NoHeadCrlf,
    /// `cl-te`: Content-Length and Transfer-Encoding together.
    ClTe,
    /// `dup-cl[:same]`: two Content-Length fields, different or the same.
    DupCl {
        /// Both have the right value.
        same: bool,
    },
    /// `bad-length[:VALUE]`: this Content-Length (default `-5`).
    BadLength(String),
    /// `transfer-encoding[:VALUE]`: a chunked body with this Transfer-Encoding (default
    /// `xchunked`).
    TransferEncoding(String),
    /// `head304`: 304 with a Content-Length and, correctly, no body.
    Head304,
    /// `body204`: 204 with a Content-Length and, incorrectly, a body.
    Body204,
    /// `idle-close[:AFTER]`: unannounced FIN after the connection was idle for this time (default
    /// 10 ms).
    IdleClose {
        /// Nanoseconds of idleness.
        after_ns: u64,
    },
    /// `half-close`: FIN after the response, but the socket is still read.
    HalfClose,
    /// `early`: the response is sent after the request's head, before its body.
    Early,
    /// `early-close`: the same with Connection: close, without waiting for the body.
    EarlyClose,
    /// `no-continue`: 100 Continue is not sent although the request expects it.
    NoContinue,
    /// `tls-on-plain`: a TLS alert instead of a response, then FIN.
    TlsOnPlain,
    /// `no-close-notify`: the response, then FIN without TLS close_notify.
    NoCloseNotify,
}

/// How chunked coding is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadChunk {
    /// `word`: a size that is not a number. The default.
    Word,
    /// `empty`: a size line without digits.
    Empty,
    /// `negative`: a size with a sign.
    Negative,
    /// `overflow`: a size of 17 digits.
    Overflow,
    /// `no-crlf`: no line end after the data.
    NoCrlf,
    /// `eof`: FIN inside a chunk.
    Eof,
    /// `no-end`: FIN instead of the last chunk.
    NoEnd,
}

/// Limit of `big-head` and `chunk-extension`, which are built in memory.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Limit of `many-headers`, for the same reason.
const COUNT_MAX: u64 = 1_000_000;

impl Fault {
    /// Parses `NAME` or `NAME:PARAMETER`.
    ///
    /// # Errors
    /// One line that names the value and what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, parameter) = match text.split_once(':') {
            Some((name, parameter)) => (name, Some(parameter)),
            None => (text, None),
        };
        match Self::plain(name) {
            Some(fault) if parameter.is_none() => Ok(fault),
            Some(_) => Err(format!("fault {name} takes no parameter")),
            None => Self::with_parameter(name, parameter),
        }
    }

    fn plain(name: &str) -> Option<Self> {
        let position = PLAIN.iter().position(|(known, _)| *known == name)?;
        Some(PLAIN[position].1.clone())
    }

    fn with_parameter(name: &str, parameter: Option<&str>) -> Result<Self, String> {
        let duration = |usual: &str| parse_duration_ns(parameter.unwrap_or(usual));
        let bytes = |usual: &str| {
            parse_bytes(parameter.unwrap_or(usual)).and_then(|bytes| {
                if bytes > BYTES_MAX {
                    return Err(format!("fault {name} makes at most 64Mi"));
                }
                Ok(bytes)
            })
        };
        Ok(match name {
            "drip" => Self::Drip {
                interval_ns: duration("1ms")?,
            },
            "idle-close" => Self::IdleClose {
                after_ns: duration("10ms")?,
            },
            "unsolicited" => Self::Unsolicited {
                after_ns: duration("10ms")?,
            },
            "big-head" => Self::BigHead {
                bytes: bytes("100k")?,
            },
            "chunk-extension" => Self::ChunkExtension {
                bytes: bytes("16")?,
            },
            "many-headers" => {
                let count = parse_count(parameter.unwrap_or("10000"), COUNT_MAX)?;
                Self::ManyHeaders { count }
            }
            "endless-body" => Self::EndlessBody {
                has_length: word(name, parameter, "length")?,
            },
            "dup-cl" => Self::DupCl {
                same: word(name, parameter, "same")?,
            },
            "bad-length" => Self::BadLength(parameter.unwrap_or("-5").to_owned()),
            "transfer-encoding" => {
                Self::TransferEncoding(parameter.unwrap_or("xchunked").to_owned())
            }
            "bad-chunk" => Self::BadChunk(BadChunk::parse(parameter.unwrap_or("word"))?),
            _ => return Err(format!("`{name}` is not a fault; docs/serve.md lists them")),
        })
    }
}

impl BadChunk {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "word" => Self::Word,
            "empty" => Self::Empty,
            "negative" => Self::Negative,
            "overflow" => Self::Overflow,
            "no-crlf" => Self::NoCrlf,
            "eof" => Self::Eof,
            "no-end" => Self::NoEnd,
            _ => {
                return Err(format!(
                    "`{text}` is not a bad chunk: expected word, empty, negative, overflow, \
                     no-crlf, eof or no-end"
                ));
            }
        })
    }
}

/// Whether the optional word after a fault is present.
fn word(name: &str, parameter: Option<&str>, known: &str) -> Result<bool, String> {
    match parameter {
        None => Ok(false),
        Some(text) if text == known => Ok(true),
        Some(text) => Err(format!(
            "fault {name} takes `{known}` or nothing, not `{text}`"
        )),
    }
}

const PLAIN: &[(&str, Fault)] = &[
    ("reset", Fault::Reset),
    ("reset-after-head", Fault::ResetAfterHead),
    ("reset-mid-body", Fault::ResetMidBody),
    ("reset-after-answer", Fault::ResetAfterAnswer),
    ("fin-before", Fault::FinBefore),
    ("truncate", Fault::Truncate),
    ("hang", Fault::Hang),
    ("hang-after-head", Fault::HangAfterHead),
    ("hang-mid-body", Fault::HangMidBody),
    ("split", Fault::Split),
    ("garbage", Fault::Garbage),
    ("http09", Fault::Http09),
    ("bad-version", Fault::BadVersion),
    ("no-reason", Fault::NoReason),
    ("leading-crlf", Fault::LeadingCrlf),
    ("lf-only", Fault::LfOnly),
    ("obs-fold", Fault::ObsFold),
    ("two-answers", Fault::TwoAnswers),
    ("surplus", Fault::Surplus),
    ("endless-head", Fault::EndlessHead),
    ("no-head-crlf", Fault::NoHeadCrlf),
    ("cl-te", Fault::ClTe),
    ("head304", Fault::Head304),
    ("body204", Fault::Body204),
    ("half-close", Fault::HalfClose),
    ("early", Fault::Early),
    ("early-close", Fault::EarlyClose),
    ("no-continue", Fault::NoContinue),
    ("tls-on-plain", Fault::TlsOnPlain),
    ("no-close-notify", Fault::NoCloseNotify),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_defaults_and_take_parameters() {
        for (text, fault) in [
            ("reset", Fault::Reset),
            (
                "drip",
                Fault::Drip {
                    interval_ns: 1_000_000,
                },
            ),
            (
                "drip:2s",
                Fault::Drip {
                    interval_ns: 2_000_000_000,
                },
            ),
            ("big-head:1k", Fault::BigHead { bytes: 1000 }),
            ("many-headers", Fault::ManyHeaders { count: 10_000 }),
            (
                "endless-body:length",
                Fault::EndlessBody { has_length: true },
            ),
            ("dup-cl", Fault::DupCl { same: false }),
            ("bad-length:0x5", Fault::BadLength("0x5".to_owned())),
            ("bad-chunk:eof", Fault::BadChunk(BadChunk::Eof)),
        ] {
            assert_eq!(Fault::parse(text), Ok(fault), "{text}");
        }
    }

    #[test]
    fn unknown_faults_and_parameters_are_refused() {
        for text in [
            "",
            "nothing",
            "reset:1",
            "drip:fast",
            "big-head:1G",
            "many-headers:-1",
            "dup-cl:x",
            "bad-chunk:x",
            "endless-body:chunked",
        ] {
            assert!(Fault::parse(text).is_err(), "{text}");
        }
    }
}
