//! Response recipes: the parameters of a response, in request targets and as defaults.

use plan::InvalidValue;
use protocol::h2::grpc::Code;

use crate::calls;
use crate::delay::Delay;
use crate::events::{EVENTS_MAX, EventStream};
use crate::fault::Fault;
use crate::llm;
use crate::quantity::{parse_bytes, parse_count, parse_probability};

/// Default body size, in bytes.
pub const SIZE_DEFAULT_BYTES: u64 = 63;
/// Default chunk size of `chunked`, in bytes.
pub const CHUNK_DEFAULT_BYTES: u64 = 4096;
/// Maximum number of interim responses.
const INTERIM_MAX: u64 = 100_000;

/// How the server ends a connection after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// It stays open if the client wants that.
    Keep,
    /// `Connection: close`, then FIN.
    Announced,
    /// FIN without `Connection: close`.
    Silent,
}

/// HTTP version of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.1; over HTTP/2 the only one that is allowed.
    Http11,
    /// HTTP/1.0, and the connection ends after the response.
    Http10,
    /// HTTP/1.0 with `Connection: keep-alive`.
    Http10KeepAlive,
}

/// The description of a response, from defaults and a request's target.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// Bytes of the body, without framing.
    pub size_bytes: u64,
    /// 0 to 999 (values outside 100..=599 are for testing clients).
    pub status: u16,
    /// Time from the arrival of the request to the first byte.
    pub delay: Delay,
    /// Time from the first to the last byte.
    pub tail: Delay,
    /// The body is a stream of events.
    pub events: EventStream,
    /// Chunk size; `None` without chunked coding.
    pub chunk_bytes: Option<u64>,
    /// Send trailer fields after a chunked body.
    pub has_trailers: bool,
    /// How the connection ends after the response.
    pub closing: Closing,
    /// The version in the status line.
    pub version: Version,
    /// Additional header fields, in order.
    pub headers: Vec<(String, String)>,
    /// The body is a copy of the request's body.
    pub echoes: bool,
    /// The body is delimited by the end of the connection.
    pub is_until_close: bool,
    /// Number and status of interim responses.
    pub interim: (u64, u16),
    /// The request is a gRPC call, whose message is copied.
    pub(crate) is_call: bool,
    /// How calls end.
    pub call_status: Code,
    /// Misbehaviour in every response.
    pub fault: Option<Fault>,
    /// Misbehaviour with a probability; the sum is at most 1.
    pub mix: Vec<(f64, Fault)>,
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            size_bytes: SIZE_DEFAULT_BYTES,
            status: 200,
            delay: Delay::NONE,
            tail: Delay::NONE,
            events: EventStream::default(),
            chunk_bytes: None,
            has_trailers: false,
            closing: Closing::Keep,
            version: Version::Http11,
            headers: Vec::new(),
            echoes: false,
            is_until_close: false,
            interim: (0, 103),
            is_call: false,
            call_status: Code::OK,
            fault: None,
            mix: Vec::new(),
        }
    }
}

impl Recipe {
    /// Parses parameters as on the command line, like `size=100k&delay=1ms`; unknown ones are
    /// errors.
    ///
    /// # Errors
    /// One line that names the parameter, its value and what was expected.
    pub fn from_text(text: &str) -> Result<Self, InvalidValue> {
        let mut recipe = Self::default();
        let options = || text.split('&').filter(|option| !option.is_empty());
        recipe.choose_dialect(options())?;
        for option in options() {
            if !recipe.apply(option)? {
                return Err(format!(
                    "`{option}` is not a parameter; `wrkbench serve --help` lists them"
                )
                .into());
            }
        }
        recipe.checked()
    }

    /// This recipe with the parameters of a request target. They can be path segments
    /// (`/size=1k/delay=5ms`) or in the query (`?size=1k&delay=5ms`). Anything else is ignored, so
    /// that ordinary targets work.
    ///
    /// # Errors
    /// When a known parameter has an invalid value: one line with its name and what was expected.
    pub fn changed_by(&self, target: &str) -> Result<Self, InvalidValue> {
        let mut recipe = self.clone();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        // A path segment needs a value: `/echo` is more likely an ordinary path.
        let segments = || path.split('/').filter(|segment| segment.contains('='));
        let options = || segments().chain(query.split('&'));
        recipe.choose_dialect(options())?;
        for option in options() {
            recipe.apply(option)?;
        }
        recipe.checked()
    }

    /// Applies `llm`, before all others: without a dialect, names such as `prompt` and `usage` are
    /// those of an ordinary target.
    fn choose_dialect<'a>(
        &mut self,
        mut options: impl Iterator<Item = &'a str>,
    ) -> Result<(), InvalidValue> {
        options.try_for_each(|option| {
            if option.starts_with("llm=") {
                self.apply(option).map(drop)
            } else {
                Ok(())
            }
        })
    }

    /// The fault and those of the mix.
    pub(crate) fn faults(&self) -> impl Iterator<Item = &Fault> {
        let mix = self.mix.iter().map(|(_, fault)| fault);
        self.fault.iter().chain(mix)
    }

    /// Whether the status has no body (RFC 9110 section 6.4.1).
    pub(crate) fn status_forbids_body(&self) -> bool {
        matches!(self.status, 100..=199 | 204 | 304)
    }

    /// Bytes of the body that answers a request with a body of this size.
    pub(crate) fn body_bytes(&self, request_body_bytes: usize) -> u64 {
        if self.echoes {
            request_body_bytes as u64
        } else {
            self.size_bytes
        }
    }

    /// The media type of the body.
    pub(crate) fn media_type(&self) -> &'static str {
        if self.events.is_stream() {
            self.events.media_type()
        } else {
            "text/plain"
        }
    }

    /// Applies one `name` or `name=value`; false if the name is unknown.
    fn apply(&mut self, option: &str) -> Result<bool, InvalidValue> {
        let (name, raw) = match option.split_once('=') {
            Some((name, raw)) => (name, Some(raw)),
            None => (option, None),
        };
        let is_of_llm = name == "llm" || self.events.llm.dialect.is_some();
        let is_known = NAMES.contains(&name) || is_of_llm && llm::NAMES.contains(&name);
        if !is_known {
            return Ok(false);
        }
        let value = raw
            .map(percent_decoded)
            .transpose()
            .map_err(|why| format!("{name}: {why}"))?;
        match value.as_deref() {
            None | Some("1" | "") if self.switch(name, true) => Ok(true),
            Some("0") if self.switch(name, false) => Ok(true),
            None => Err(format!("{name}: needs a value, like {name}=...").into()),
            Some(value) => self
                .set(name, value)
                .map_err(|why| InvalidValue::new(format!("{name}: {why}"))),
        }
    }

    /// Sets a parameter that can be on or off; false if the name is not one of those.
    fn switch(&mut self, name: &str, on: bool) -> bool {
        match name {
            "chunked" => self.chunk_bytes = on.then_some(CHUNK_DEFAULT_BYTES),
            "trailers" => self.has_trailers = on,
            "close" => {
                self.closing = if on {
                    Closing::Announced
                } else {
                    Closing::Keep
                }
            }
            "http10" => self.version = if on { Version::Http10 } else { Version::Http11 },
            "echo" => self.echoes = on,
            "until-close" => self.is_until_close = on,
            _ => return false,
        }
        true
    }

    fn set(&mut self, name: &str, value: &str) -> Result<bool, InvalidValue> {
        match (name, value) {
            ("size", _) => self.size_bytes = parse_bytes(value)?,
            ("status", _) => self.status = parse_status(value)?,
            ("delay", _) => self.delay = Delay::parse(value)?,
            ("tail", _) => self.tail = Delay::parse(value)?,
            ("chunked", _) => self.chunk_bytes = Some(parse_chunk_bytes(value)?),
            ("events", "none") => self.events.count = None,
            ("events", _) => self.events.count = Some(parse_count(value, EVENTS_MAX)?),
            ("first", _) => self.events.first = Delay::parse(value)?,
            ("gap", _) => self.events.gap = Delay::parse(value)?,
            ("events-format", _) => self.events.set_format(value)?,
            ("events-end", "none") => self.events.end_marker = Some(String::new()),
            ("events-end", _) => self.events.end_marker = Some(value.to_owned()),
            ("close", "silent") => self.closing = Closing::Silent,
            ("http10", "keep-alive") => self.version = Version::Http10KeepAlive,
            ("header", _) => self.headers.push(parse_header(value)?),
            ("interim", _) => self.interim = parse_interim(value)?,
            ("grpc-status", _) => self.call_status = calls::parse_status(value)?,
            ("fault", "none") => self.fault = None,
            ("fault", _) => self.fault = Some(Fault::parse(value)?),
            ("mix", "none") => self.mix.clear(),
            ("mix", _) => self.mix.push(parse_mix(value)?),
            _ if llm::NAMES.contains(&name) => self.events.llm.set(name, value)?,
            _ => {
                return Err(format!(
                    "`{value}` is not a valid value; `wrkbench serve --help` lists them"
                )
                .into());
            }
        }
        Ok(true)
    }

    /// Rejects parameters that contradict each other.
    fn checked(self) -> Result<Self, InvalidValue> {
        let sum: f64 = self.mix.iter().map(|(probability, _)| probability).sum();
        if sum > 1.0 + 1e-9 {
            return Err(format!("mix: the sum of the probabilities is {sum}, more than 1").into());
        }
        if self.is_until_close && self.chunk_bytes.is_some() {
            return Err("until-close cannot be used with chunked".into());
        }
        if self.echoes && self.events.is_stream() {
            return Err("echo cannot be used with events or llm".into());
        }
        if self.events.count.is_some() && self.events.llm.dialect.is_some() {
            return Err("llm cannot be used with events".into());
        }
        self.events.llm.check()?;
        let is_bytewise = |fault: &Fault| matches!(fault, Fault::Drip { .. });
        if self.size_bytes > BYTEWISE_MAX_BYTES && self.faults().any(is_bytewise) {
            return Err("drip and split need a size of at most 1M".into());
        }
        Ok(self)
    }
}

pub(crate) const NAMES: [&str; 20] = [
    "size",
    "status",
    "delay",
    "tail",
    "chunked",
    "trailers",
    "close",
    "http10",
    "header",
    "echo",
    "until-close",
    "interim",
    "fault",
    "mix",
    "events",
    "first",
    "gap",
    "events-format",
    "events-end",
    "grpc-status",
];

/// The largest body that can be sent byte by byte.
const BYTEWISE_MAX_BYTES: u64 = 1_000_000;

fn parse_status(text: &str) -> Result<u16, InvalidValue> {
    if text.len() != 3 {
        return Err(format!("`{text}` is not a status: expected three digits").into());
    }
    parse_count(text, 999).map(|status| status as u16)
}

fn parse_chunk_bytes(text: &str) -> Result<u64, InvalidValue> {
    match parse_bytes(text)? {
        size @ 1..=1_000_000 => Ok(size),
        _ => Err(format!("`{text}` is not a chunk size: expected 1b to 1M").into()),
    }
}

fn parse_interim(text: &str) -> Result<(u64, u16), InvalidValue> {
    let (count, status) = text.split_once(':').unwrap_or((text, "103"));
    let status = parse_status(status)?;
    if !(100..200).contains(&status) {
        return Err(format!("{status} is not an interim status: expected 100 to 199").into());
    }
    Ok((parse_count(count, INTERIM_MAX)?, status))
}

fn parse_mix(text: &str) -> Result<(f64, Fault), InvalidValue> {
    let (probability, fault) = text
        .split_once(':')
        .ok_or_else(|| format!("`{text}` is not PROBABILITY:FAULT, like 0.01:reset"))?;
    Ok((parse_probability(probability)?, Fault::parse(fault)?))
}

fn parse_header(text: &str) -> Result<(String, String), InvalidValue> {
    let (name, value) = text
        .split_once(':')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| format!("`{text}` is not NAME:VALUE"))?;
    if text.contains(['\r', '\n']) {
        return Err("a header field cannot contain a line break".into());
    }
    Ok((name.to_owned(), value.trim_start().to_owned()))
}

fn percent_decoded(text: &str) -> Result<String, InvalidValue> {
    if !text.contains('%') {
        return Ok(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let digits = after
            .first_chunk::<2>()
            .filter(|digits| byte == b'%' && digits.iter().all(u8::is_ascii_hexdigit))
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(digits.unwrap_or(byte));
        if digits.is_some() {
            rest = &after[2..];
        }
    }
    String::from_utf8(bytes)
        .map_err(|_| InvalidValue::new(format!("`{text}` is not UTF-8 after decoding")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(target: &str) -> Recipe {
        Recipe::default().changed_by(target).unwrap()
    }

    #[test]
    fn a_target_without_parameters_gets_the_defaults() {
        for target in [
            "/",
            "/index.html",
            "/a/b?id=5&x",
            "*",
            "http://host:80/?q=1",
            "/?prompt=hello&usage=x&finish&tokens=none",
            "/tokens=some/",
            "",
            "/echo",
        ] {
            assert_eq!(changed(target), Recipe::default(), "{target}");
        }
    }

    #[test]
    fn parameters_can_be_in_the_query_or_in_the_path() {
        let expected = Recipe {
            size_bytes: 100_000,
            delay: Delay::Fixed(5_000_000),
            status: 404,
            closing: Closing::Announced,
            chunk_bytes: Some(CHUNK_DEFAULT_BYTES),
            ..Recipe::default()
        };
        assert_eq!(
            changed("/?size=100k&delay=5ms&status=404&chunked=1&close=1"),
            expected
        );
        assert_eq!(
            changed("/x/size=100k/delay=5ms/status=404/chunked=/close=1"),
            expected
        );
        assert_eq!(
            changed("/size=100k?delay=5ms&status=404&chunked&close"),
            expected
        );
    }

    #[test]
    fn the_request_overrides_the_defaults() {
        let defaults = Recipe::from_text("size=1k&close&fault=reset&mix=0.5:hang&chunked").unwrap();
        let recipe = defaults.changed_by("/?size=2k&close=0&fault=none&mix=none&chunked=0");
        assert_eq!(
            recipe,
            Ok(Recipe {
                size_bytes: 2000,
                ..Recipe::default()
            })
        );
    }

    #[test]
    fn values_are_percent_decoded() {
        let recipe = changed("/?header=X-Note:a%20b%26c&header=Y:2&delay=uniform%3a1ms%2C5ms");
        let headers = [("X-Note", "a b&c"), ("Y", "2")];
        assert_eq!(
            recipe.headers,
            headers.map(|(n, v)| (n.to_owned(), v.to_owned()))
        );
        assert_eq!(
            recipe.delay,
            Delay::Uniform {
                low_ns: 1_000_000,
                high_ns: 5_000_000
            }
        );
        assert_eq!(percent_decoded("100%"), Ok("100%".to_owned()));
        assert_eq!(percent_decoded("%+1%zz"), Ok("%+1%zz".to_owned()));
    }

    #[test]
    fn invalid_values_are_rejected_in_targets_and_defaults() {
        for options in [
            "size=x",
            "size",
            "delay=5",
            "status=20",
            "status=abcd",
            "chunked=2G",
            "close=maybe",
            "header=x",
            "header=:x",
            "header=a:b%0d%0ac",
            "interim=x",
            "interim=1:200",
            "fault=sleep",
            "mix=reset",
            "mix=2:reset",
            "mix=0.6:reset&mix=0.6:hang",
            "until-close&chunked",
            "fault=drip&size=2M",
            "header=%ff:a",
            "echo=2",
        ] {
            assert!(
                Recipe::default()
                    .changed_by(&format!("/?{options}"))
                    .is_err(),
                "{options}"
            );
            assert!(Recipe::from_text(options).is_err(), "{options}");
        }
    }

    #[test]
    fn unknown_parameters_are_rejected_in_defaults() {
        let error = Recipe::from_text("sise=1k").unwrap_err().to_string();
        assert!(error.contains("sise"));
        assert_eq!(Recipe::from_text(""), Ok(Recipe::default()));
    }

    #[test]
    fn errors_name_the_parameter() {
        let error = Recipe::from_text("delay=5").unwrap_err().to_string();
        assert!(error.starts_with("delay: `5` is not a duration"), "{error}");
    }

    #[test]
    fn the_dialect_decides_what_the_other_names_mean_wherever_it_stands() {
        for target in [
            "/?tokens=3&llm=openai",
            "/tokens=3/?llm=openai",
            "/llm=openai/?tokens=3",
        ] {
            let recipe = changed(target);
            assert_eq!(recipe, Recipe::from_text("llm=openai&tokens=3").unwrap());
        }
        let default = Recipe::from_text("tokens=3&llm=openai").unwrap();
        assert_ne!(default.changed_by("/?tokens=4").unwrap(), default);
        assert_eq!(
            default.changed_by("/?llm=none").unwrap().media_type(),
            "text/plain"
        );
        let error = Recipe::default()
            .changed_by("/?tokens=some&llm=openai")
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("tokens: "), "{error}");
        assert!(Recipe::from_text("tokens=3").is_err());
    }
}
