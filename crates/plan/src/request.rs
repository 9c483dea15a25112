//! What is sent: method, headers, body, script.

use std::path::PathBuf;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::{Deserialize, Serialize};

use crate::{InvalidValue, saved};

/// What is sent, as far as the command line determines it; a script may change everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestSpec {
    /// A token of RFC 9110 section 5.6.2; `None` is GET, or POST when there is a body or
    /// with gRPC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Names and values in the order given. A `Host` header (in upper or lower case) replaces the
    /// one made from the URL, since two would make the request invalid (RFC 9112 section 3.2). If a
    /// name is given twice, the last one counts, as in wrk.
    pub headers: Vec<(String, String)>,
    /// The body; `Content-Length` is made from it. With gRPC, the message.
    #[cfg_attr(feature = "schema", schemars(with = "Option<saved::SavedBody>"))]
    #[serde(
        with = "saved::optional_body",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub body: Option<Body>,
    /// Where the types of gRPC messages are described. The body is then JSON, and it is encoded
    /// before the run; a saved plan has the encoded message.
    #[serde(skip)]
    pub schema: Option<MessageSchema>,
    /// A Lua script with wrk's interface.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(
        with = "saved::optional_path",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub script: Option<PathBuf>,
    /// Requests from a file, in place of method and body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<RequestFile>,
    /// Arguments after the URL: `args[1]`, `args[2]`, ... of the script's `init`.
    pub script_args: Vec<String>,
}

/// Where the types of gRPC messages are described.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageSchema {
    /// `.proto` files.
    pub proto: Vec<PathBuf>,
    /// Folders in which their imports are looked for.
    pub proto_path: Vec<PathBuf>,
    /// A file with a `google.protobuf.FileDescriptorSet`.
    pub descriptor_set: Option<PathBuf>,
    /// The server is asked (gRPC server reflection).
    pub reflection: bool,
}

/// A file of requests, in one of the forms of `docs/requests.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestFile {
    /// The file as it was named.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    #[serde(with = "saved::path")]
    pub path: PathBuf,
    /// The order in which requests are sent; `None` is [`RequestOrder::Weighted`] if a request has
    /// a weight, otherwise [`RequestOrder::Sequence`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<RequestOrder>,
    /// Seed of a random order and of random values.
    #[serde(default)]
    pub seed: u64,
    /// The file is an access log, and this is how it is read. Requests are due at its moments
    /// ([`Pacing::Recorded`](crate::Pacing)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<AccessLog>,
    /// Requests go to the hosts of their URLs, since no other URL was given. Otherwise all go to
    /// the target of the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_hosts: bool,
    /// What the requests ask a language model for, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<AskedTokens>,
}

/// The numbers of tokens that requests ask a language model for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AskedTokens {
    /// The tokens of each prompt, or their distribution, as typed; `None` if prompts have a number
    /// of words, or are from a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<String>,
    /// The limit of output tokens of each response, or the distribution of limits, as typed; `None`
    /// if it is the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<String>,
    /// Whether the server is told to go on until the limit (`ignore_eos`); `None` if the format of
    /// the requests has no key for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignore_eos: Option<bool>,
}

/// How an access log is read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AccessLog {
    /// Name or text of its format; `None` finds out which of the well-known ones it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_format: Option<String>,
    /// Whether requests that may change something on the server are sent, too, without bodies.
    #[serde(default)]
    pub all_methods: bool,
}

/// The order in which the requests of a file are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RequestOrder {
    /// As in the file, and again from its start after the last one.
    Sequence,
    /// At random, each as often as the others.
    Random,
    /// At random, in proportion to the weights.
    Weighted,
}

impl RequestFile {
    /// A file whose requests are sent to the target, in the default order.
    #[must_use]
    pub const fn new(path: PathBuf) -> Self {
        Self {
            path,
            order: None,
            seed: 0,
            log: None,
            own_hosts: false,
            asked: None,
        }
    }
}

impl RequestSpec {
    /// How the access log is read, if there is one.
    pub(crate) fn log(&self) -> Option<&AccessLog> {
        self.file.as_ref()?.log.as_ref()
    }

    pub(crate) fn log_mut(&mut self) -> Option<&mut AccessLog> {
        self.file.as_mut()?.log.as_mut()
    }

    /// Adds the header of Basic authentication. As in curl, an explicit header has precedence.
    pub(crate) fn authorize(&mut self, user: &str) -> Result<(), InvalidValue> {
        const NAME: &str = "Authorization";
        let value = basic_authorization(user).ok_or("has no password (expected USER:PASSWORD)")?;
        let mut names = self.headers.iter().map(|(name, _)| name);
        if !names.any(|name| name.eq_ignore_ascii_case(NAME)) {
            self.headers.push((NAME.to_owned(), value));
        }
        Ok(())
    }
}

/// The value of an `Authorization` header for `user:password` (RFC 7617); `None` without a
/// password.
#[must_use]
pub fn basic_authorization(user: &str) -> Option<String> {
    let encoded = || format!("Basic {}", BASE64_STANDARD.encode(user));
    user.contains(':').then(encoded)
}

impl RequestOrder {
    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sequence => "sequence",
            Self::Random => "random",
            Self::Weighted => "weighted",
        }
    }
}

/// Where the body of every request comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// These bytes, as they are.
    Inline(Vec<u8>),
    /// The content of a file, read before the run.
    File(PathBuf),
}

/// Why a header line is refused; one line, without the option's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The line has no colon. wrk silently ignores such a line, and the run then measures something
    /// else.
    /// Only its first word is known here: the others may be a secret.
    #[error("{0:?} has no colon (expected \"Name: value\")")]
    NoColon(String),
    /// The name is not a token ([`is_token`]).
    #[error("{0:?} is not a header name (expected letters, digits and !#$%&'*+-.^_`|~)")]
    Name(String),
    /// The value contains a control character other than a tab. None may be in a value (RFC 9110
    /// section 5.5), and CR or LF would start another line.
    #[error("the value of {0:?} contains a control character")]
    Value(String),
}

/// Parses the value of `-H`: a header per line, as wrk would send them. As in wrk, an empty value
/// is no header, since a shell variable in quotes may be empty.
///
/// # Errors
/// If a line has no colon, its name is not a token, or its value would break the header section.
pub fn parse_headers(text: &str) -> Result<Vec<(String, String)>, HeaderError> {
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(parse_header)
        .collect()
}

/// Splits a header line at its first colon.
///
/// One space after the colon belongs to the separator, further ones to the value, so that the same
/// bytes are sent as by wrk. The space may be missing (wrk ignores such a line).
fn parse_header(line: &str) -> Result<(String, String), HeaderError> {
    let (name, value) = line
        .split_once(':')
        .ok_or_else(|| HeaderError::NoColon(without_colon(line)))?;
    let value = value.strip_prefix(' ').unwrap_or(value);
    check_header(name, value)?;
    Ok((name.to_owned(), value.to_owned()))
}

/// What an error shows of a line without a colon.
fn without_colon(line: &str) -> String {
    match line.split_once(char::is_whitespace) {
        Some((first, _)) => format!("{first} ..."),
        None => line.to_owned(),
    }
}

/// Refuses a header that would not be sent as exactly one header.
///
/// # Errors
/// If the name is not a token, or the value would break the header section.
pub fn check_header(name: &str, value: &str) -> Result<(), HeaderError> {
    if !is_token(name) {
        return Err(HeaderError::Name(name.to_owned()));
    }
    let breaks = |byte: u8| byte.is_ascii_control() && byte != b'\t';
    if value.bytes().any(breaks) {
        return Err(HeaderError::Value(name.to_owned()));
    }
    Ok(())
}

/// Whether requests with this method may be sent before the handshake is complete. A server may
/// process such a request twice (RFC 8470), so only methods that change nothing are allowed (RFC
/// 9110 section 9.2.1); TRACE is left out.
#[must_use]
pub fn may_be_early_data(method: &[u8]) -> bool {
    matches!(method, b"GET" | b"HEAD" | b"OPTIONS")
}

/// A `token` of RFC 9110 section 5.6.2: a method or the name of a header.
#[must_use]
pub fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// The path of the calls of a gRPC method: `/package.Service/Method`. Its name may also have a dot
/// before the method.
///
/// # Errors
/// If it is no name of a method, in one line that follows the name of the option.
pub fn path_of_call(name: &str) -> Result<String, InvalidValue> {
    let name = name.trim_start_matches('/');
    let parts = name.rsplit_once('/').or_else(|| name.rsplit_once('.'));
    match parts.filter(|(service, method)| !service.is_empty() && !method.is_empty()) {
        Some((service, method)) => Ok(format!("/{service}/{method}")),
        None => Err("is not a method (expected package.Service/Method)".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> Result<(String, String), HeaderError> {
        Ok((name.to_owned(), value.to_owned()))
    }

    #[test]
    fn a_header_is_split_at_its_first_colon_and_loses_one_space() {
        assert_eq!(parse_header("X-A: b"), pair("X-A", "b"));
        assert_eq!(parse_header("X-A:b"), pair("X-A", "b"));
        assert_eq!(parse_header("X-A:  b "), pair("X-A", " b "));
        assert_eq!(parse_header("X-A: b:c"), pair("X-A", "b:c"));
        assert_eq!(parse_header("X-A: "), pair("X-A", ""));
        assert_eq!(parse_header("X-A:"), pair("X-A", ""));
        assert_eq!(parse_header("X-A: b\tc"), pair("X-A", "b\tc"));
        assert_eq!(parse_header("X-A: gr\u{fc}n"), pair("X-A", "gr\u{fc}n"));
    }

    #[test]
    fn each_line_of_a_value_is_a_header_and_an_empty_one_is_none() {
        let pairs = |text: &str| parse_headers(text).unwrap();
        let both =
            [("A", "1"), ("B", "2")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(pairs("A: 1\r\nB: 2"), both);
        assert_eq!(pairs("A: 1\nB: 2\n"), both);
        assert_eq!(pairs("\r\nA: 1\r\n\r\nB: 2\r\n"), both);
        assert_eq!(pairs(""), []);
        assert_eq!(pairs(" "), []);
        assert!(parse_headers("A: 1\nbroken").is_err());
    }

    #[test]
    fn a_line_that_is_no_header_is_refused_by_name() {
        for (line, said) in [
            ("NoColon", "has no colon"),
            (": value", "is not a header name"),
            ("X A: b", "is not a header name"),
            ("X-A : b", "is not a header name"),
            ("X-\u{fc}: b", "is not a header name"),
            (
                "X-A: b\rX-B: c",
                "value of \"X-A\" contains a control character",
            ),
            ("X-A: b\0", "contains a control character"),
            ("X-A: b\u{1}", "contains a control character"),
            ("X-A: b\u{7f}", "contains a control character"),
        ] {
            let message = parse_header(line).unwrap_err().to_string();
            assert!(message.contains(said), "{line:?} gives {message}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
    }
}
