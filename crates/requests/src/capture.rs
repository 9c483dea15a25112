//! Values that requests take from their responses, and the clients that keep them for later
//! requests.

use grpc::Number;
use protocol::Captured;
use regex_lite::Regex;
use serde_json_path::{JsonPath, ParseError};

use crate::error::quoted;
use crate::set::RequestSet;

/// The longest value. A longer one counts as missing: otherwise a hostile server decides how large
/// requests are.
const MAX_VALUE_BYTES: usize = 64 * 1024;

/// The most names of values in a file. Each client has a place for every one.
const MAX_VARIABLES: usize = 100;

/// What a request takes from its response.
#[derive(Debug, Clone)]
pub(crate) struct Capture {
    /// The number of the name under which later requests use the value.
    pub(crate) variable: u32,
    /// The place as the file has it.
    pub(crate) text: String,
    place: CaptureSource,
}

/// Why a value cannot be captured, one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CaptureError {
    #[error("{}: is not a JSONPath (RFC 9535): {}", quoted(.0), .1)]
    JsonPath(String, ParseError),
    #[error("{}: expected {}:NAME", quoted(.0), .1)]
    Name(String, String),
    #[error("{}: is not a regular expression: {}", quoted(.0), .1)]
    Regex(String, regex_lite::Error),
    #[error(
        "{}: expected a JSONPath like $.data.token, header:NAME, cookie:NAME or regex:PATTERN",
        quoted(.0)
    )]
    CaptureSource(String),
    #[error("{} is not a name for a value (expected letters, digits, _, - and .)", quoted(.0))]
    VariableName(String),
    #[error("{{{{{0}}}}} already has a meaning")]
    TakenName(String),
    #[error("the file captures more than {MAX_VARIABLES} names")]
    TooManyNames,
}

/// Where a response has the value that is captured.
#[derive(Debug, Clone)]
enum CaptureSource {
    /// `$.data.token`: the first node of the body that a JSONPath (RFC 9535) selects.
    Json(JsonPath),
    /// `header:Location`.
    Header(String),
    /// `cookie:sid`: the value of a cookie that the response sets.
    Cookie(String),
    /// `regex:id=([0-9]+)`: the first group of the first match in the body, or the whole match.
    Regex(Regex),
}

/// The names under which the requests of a file capture values.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    names: Vec<String>,
}

/// Where requests use a captured value: this decides which values would break them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Use {
    pub(crate) in_path: bool,
    pub(crate) in_header: bool,
    /// The forms of numbers of messages that have it.
    pub(crate) as_numbers: Vec<Number>,
}

/// A client sends the requests of a file one after the other, and has the values that it captured.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    next: usize,
    /// The request that was sent last.
    current: Option<usize>,
    values: Vec<Option<Vec<u8>>>,
}

/// The body of a response, which is parsed at most once.
enum Body<'r> {
    Bytes(&'r [u8]),
    Json(Option<serde_json::Value>),
}

impl Capture {
    /// Reads where a value is. `variable` is the number of its name.
    pub(crate) fn parse(variable: u32, text: &str) -> Result<Self, CaptureError> {
        let place = CaptureSource::parse(text)?;
        let text = text.to_owned();
        Ok(Self {
            variable,
            text,
            place,
        })
    }

    /// Whether the value is in the body of the response.
    pub(crate) fn is_of_body(&self) -> bool {
        matches!(self.place, CaptureSource::Json(_) | CaptureSource::Regex(_))
    }
}

impl CaptureSource {
    fn parse(text: &str) -> Result<Self, CaptureError> {
        let given = || text.to_owned();
        if text.starts_with('$') {
            let path = JsonPath::parse(text);
            return path
                .map(Self::Json)
                .map_err(|error| CaptureError::JsonPath(given(), error));
        }
        let (kind, argument) = text.split_once(':').unwrap_or((text, ""));
        match kind {
            "header" if plan::is_token(argument) => Ok(Self::Header(argument.to_owned())),
            "cookie" if plan::is_token(argument) => Ok(Self::Cookie(argument.to_owned())),
            "header" | "cookie" => Err(CaptureError::Name(given(), kind.to_owned())),
            "regex" if !argument.is_empty() => Regex::new(argument)
                .map(Self::Regex)
                .map_err(|error| CaptureError::Regex(given(), error)),
            _ => Err(CaptureError::CaptureSource(given())),
        }
    }

    fn find(&self, response: &Captured, body: &mut Body<'_>) -> Option<Vec<u8>> {
        match self {
            Self::Json(path) => body.json().and_then(|json| {
                let node = path.query(json).first()?;
                match node {
                    serde_json::Value::Null => None,
                    serde_json::Value::String(text) => Some(text.clone().into_bytes()),
                    other => Some(other.to_string().into_bytes()),
                }
            }),
            Self::Header(name) => {
                let mut fields = response.headers.iter();
                let field = fields.find(|(field, _)| field.eq_ignore_ascii_case(name.as_bytes()));
                field.map(|(_, value)| value.to_vec())
            }
            Self::Cookie(name) => response.headers.iter().fold(None, |found, (field, value)| {
                let is_set = field.eq_ignore_ascii_case(b"set-cookie");
                let value = is_set.then(|| cookie(value, name.as_bytes())).flatten();
                value.map(<[u8]>::to_vec).or(found)
            }),
            Self::Regex(regex) => {
                let text = String::from_utf8_lossy(&response.body);
                let found = regex.captures(&text)?;
                let group = found.get(1).or_else(|| found.get(0))?;
                Some(group.as_str().as_bytes().to_vec())
            }
        }
    }
}

/// The value in a `Set-Cookie` of the cookie with this name (RFC 6265 section 5.2).
fn cookie<'v>(field: &'v [u8], name: &[u8]) -> Option<&'v [u8]> {
    let pair = field.split(|byte| *byte == b';').next()?;
    let equals = pair.iter().position(|byte| *byte == b'=')?;
    let (given, value) = (&pair[..equals], &pair[equals + 1..]);
    (given.trim_ascii() == name).then(|| value.trim_ascii())
}

impl Body<'_> {
    fn json(&mut self) -> Option<&serde_json::Value> {
        if let Self::Bytes(bytes) = self {
            *self = Self::Json(serde_json::from_slice(bytes).ok());
        }
        match self {
            Self::Json(json) => json.as_ref(),
            Self::Bytes(_) => None,
        }
    }
}

impl Variables {
    /// The number of a name.
    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        let number = self.names.iter().position(|it| it == name);
        number.map(|number| number as u32)
    }

    /// The name with this number.
    pub(crate) fn name(&self, variable: u32) -> &str {
        &self.names[variable as usize]
    }

    /// Number of names.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// The number of a name, which is new or not.
    pub(crate) fn add(&mut self, name: &str) -> Result<u32, CaptureError> {
        if let Some(known) = self.find(name) {
            return Ok(known);
        }
        let mut chars = name.chars();
        let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
        let follows = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if !chars.next().is_some_and(begins) || !chars.all(follows) {
            return Err(CaptureError::VariableName(name.to_owned()));
        }
        if matches!(name, "uuid" | "seq" | "now") {
            return Err(CaptureError::TakenName(name.to_owned()));
        }
        if self.names.len() >= MAX_VARIABLES {
            return Err(CaptureError::TooManyNames);
        }
        self.names.push(name.to_owned());
        Ok(self.names.len() as u32 - 1)
    }
}

impl Use {
    /// Whether requests with this value are still what the file describes.
    fn allows(&self, value: &[u8]) -> bool {
        let is_number = |form: &Number| form.encode(value, &mut Vec::new());
        let breaks_path = |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_control();
        let breaks_header = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
        value.len() <= MAX_VALUE_BYTES
            && !(self.in_path && value.iter().any(breaks_path))
            && !(self.in_header && value.iter().any(breaks_header))
            && self.as_numbers.iter().all(is_number)
    }
}

impl Client {
    /// A client that has sent nothing.
    pub(crate) fn new(set: &RequestSet) -> Self {
        Self {
            next: 0,
            current: None,
            values: vec![None; set.uses.len()],
        }
    }

    /// The value with this number, if the client has it.
    pub(crate) fn value(&self, variable: u32) -> Option<&[u8]> {
        self.values[variable as usize].as_deref()
    }

    /// The index of its next request. A client that lacks a value that its last request should have
    /// captured begins again: what follows cannot be sent without it.
    pub(crate) fn next(&mut self, set: &RequestSet) -> usize {
        let is_missing = |capture: &Capture| self.values[capture.variable as usize].is_none();
        let last = self.current.map_or(&[][..], |last| set.captures_of(last));
        let request = if last.iter().any(is_missing) {
            0
        } else {
            self.next
        };
        for capture in set.captures_of(request) {
            self.values[capture.variable as usize] = None;
        }
        self.current = Some(request);
        self.next = (request + 1) % set.len();
        request
    }

    /// Takes the values of the response to the request that was sent last. Returns whether all were
    /// there.
    pub(crate) fn receive(&mut self, set: &RequestSet, response: &Captured) -> bool {
        let mut body = Body::Bytes(&response.body);
        let mut has_all = true;
        for capture in self.current.map_or(&[][..], |last| set.captures_of(last)) {
            let variable = capture.variable as usize;
            let value = capture.place.find(response, &mut body);
            self.values[variable] = value.filter(|value| set.uses[variable].allows(value));
            has_all &= self.values[variable].is_some();
        }
        has_all
    }
}
