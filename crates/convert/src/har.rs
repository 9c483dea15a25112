//! HAR files: what browsers and proxies record (HTTP Archive 1.2).

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use plan::readable::counted;
use plan::{Body, Target, parse_headers};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::conversion::{Connection, Conversion, Request};
use crate::form::{self, FormPart};
use crate::percent::percent_encoded;

/// Why a HAR file cannot be converted; one line.
#[derive(Debug, thiserror::Error)]
pub enum HarError {
    /// It is not a HAR file. The text has the line and the column.
    #[error("{0}")]
    Syntax(String),
    /// It has no request that can be sent.
    #[error("{0}")]
    Empty(String),
}

/// Which requests of a file are wanted.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Host, or host and port, as in the URL; `None` is every one.
    pub host: Option<String>,
}

/// Converts the requests of a HAR file, in their order.
///
/// # Errors
/// With line and column, if it is not a HAR file or a request of it is not valid; if there is no
/// request, or none to this host.
pub fn convert(text: &str, filter: &Filter) -> Result<Conversion, HarError> {
    // A mark that some programs write at the beginning of UTF-8 files.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let file: File = serde_json::from_str(text)
        .map_err(|error| HarError::Syntax(plan::printable(&error.to_string()).into_owned()))?;
    let total = file.log.entries.len();
    let mut skipped: BTreeMap<String, u64> = BTreeMap::new();
    let mut hosts: BTreeMap<String, u64> = BTreeMap::new();
    let mut requests = Vec::new();
    for entry in file.log.entries {
        match &entry.request.url {
            Url::Other(scheme) => *skipped.entry(scheme.clone()).or_default() += 1,
            Url::Http(url, target) => {
                let is_wanted = filter.host.as_ref().is_none_or(|host| target.is_host(host));
                *hosts.entry(target.host_header.clone()).or_default() += 1;
                if is_wanted {
                    let (url, target) = (url.clone(), target.clone());
                    requests.push(entry.request.into_request(url, &target));
                }
            }
        }
    }
    if requests.is_empty() {
        return Err(HarError::Empty(nothing_left(total, filter, &hosts)));
    }
    let left_out = hosts.values().sum::<u64>() - requests.len() as u64;
    let mut notes: Vec<String> = skipped
        .iter()
        .map(|(scheme, count)| format!("left out: {}", counted(*count, &format!("{scheme} URL"))))
        .collect();
    if left_out > 0 {
        notes.push(format!(
            "left out: {} to other hosts",
            counted(left_out, "request")
        ));
    }
    Ok(Conversion {
        requests,
        connection: Connection::default(),
        notes,
        is_recording: true,
    })
}

fn nothing_left(total: usize, filter: &Filter, hosts: &BTreeMap<String, u64>) -> String {
    match &filter.host {
        _ if total == 0 => "has no requests".to_owned(),
        Some(host) if !hosts.is_empty() => {
            let names: Vec<&str> = hosts.keys().map(String::as_str).collect();
            format!("has no request to {host:?} (it has {})", names.join(", "))
        }
        _ => "has no http or https requests".to_owned(),
    }
}

#[derive(Deserialize)]
struct File {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    request: HarRequest,
}

#[derive(Deserialize)]
struct HarRequest {
    url: Url,
    method: Method,
    #[serde(default)]
    headers: Vec<Header>,
    #[serde(rename = "postData", default)]
    post_data: Option<PostData>,
}

/// The URL of an entry. Other schemes are not requests over the network, or none of HTTP.
enum Url {
    Http(String, Target),
    Other(String),
}

impl<'de> Deserialize<'de> for Url {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        // The fragment stays in the browser.
        let url = text.split('#').next().unwrap_or_default();
        let scheme = url
            .split(':')
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        let is_name = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        let is_scheme = url.contains(':') && !scheme.is_empty() && scheme.chars().all(is_name);
        if is_scheme && scheme != "http" && scheme != "https" {
            return Ok(Self::Other(scheme));
        }
        let target = Target::parse(url).map_err(D::Error::custom)?;
        Ok(Self::Http(url.to_owned(), target))
    }
}

/// A method that can be sent.
struct Method(String);

impl<'de> Deserialize<'de> for Method {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let is_method = !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte));
        if is_method {
            Ok(Self(text))
        } else {
            Err(D::Error::custom(format!("{text:?} is not a method")))
        }
    }
}

#[derive(Deserialize)]
struct RawHeader {
    name: String,
    value: String,
}

/// A header that can be sent, or a pseudo-header of HTTP/2.
#[derive(Deserialize)]
#[serde(try_from = "RawHeader")]
struct Header {
    name: String,
    value: String,
}

impl TryFrom<RawHeader> for Header {
    type Error = String;

    fn try_from(RawHeader { name, value }: RawHeader) -> Result<Self, String> {
        let line = format!("{}: {value}", name.trim_start_matches(':'));
        match parse_headers(&line) {
            Ok(headers) if headers.len() == 1 => Ok(Self { name, value }),
            Ok(_) => Err(format!("the value of {name:?} contains CR or LF")),
            Err(refusal) => Err(refusal.to_string()),
        }
    }
}

#[derive(Deserialize)]
struct RawPostData {
    #[serde(rename = "mimeType", default)]
    mime_type: String,
    text: Option<String>,
    /// Not in the standard: some programs write `base64` here for a body that is not text.
    #[serde(alias = "_encoding")]
    encoding: Option<String>,
    #[serde(default)]
    params: Vec<Param>,
}

#[derive(Deserialize)]
struct Param {
    name: String,
    #[serde(default)]
    value: String,
    #[serde(rename = "fileName")]
    file_name: Option<String>,
    #[serde(rename = "contentType")]
    content_type: Option<String>,
}

/// A body, and its type if it replaces the one of the headers.
#[derive(Deserialize)]
#[serde(try_from = "RawPostData")]
struct PostData {
    body: Vec<u8>,
    content_type: Option<String>,
}

impl TryFrom<RawPostData> for PostData {
    type Error = String;

    fn try_from(data: RawPostData) -> Result<Self, String> {
        let is_base64 = data.encoding.as_deref() == Some("base64");
        let (body, content_type) = match data.text.filter(|text| !text.is_empty()) {
            Some(text) if is_base64 => {
                let body = BASE64_STANDARD.decode(text.trim());
                (
                    body.map_err(|error| format!("the body is not base64: {error}"))?,
                    None,
                )
            }
            Some(text) => (text.into_bytes(), None),
            None if data.mime_type.starts_with("multipart/") => {
                let (body, boundary) = form::body(
                    &data
                        .params
                        .into_iter()
                        .map(FormPart::from)
                        .collect::<Vec<_>>(),
                    false,
                );
                (
                    body,
                    Some(format!("multipart/form-data; boundary={boundary}")),
                )
            }
            None => {
                let encoded = |text: &str| percent_encoded(text.as_bytes());
                let pair = |it: &Param| format!("{}={}", encoded(&it.name), encoded(&it.value));
                let pairs: Vec<String> = data.params.iter().map(pair).collect();
                (pairs.join("&").into_bytes(), None)
            }
        };
        Ok(Self { body, content_type })
    }
}

impl From<Param> for FormPart {
    fn from(param: Param) -> Self {
        Self {
            name: param.name,
            file_name: param.file_name,
            content_type: param.content_type,
            headers: Vec::new(),
            content: param.value.into_bytes(),
        }
    }
}

/// Headers about one connection or one message, which the load generator makes itself (RFC 9110
/// section 7.6.1).
const NOT_KEPT: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "transfer-encoding",
    "upgrade",
    "content-length",
    "te",
    "trailer",
];

impl HarRequest {
    fn into_request(self, url: String, target: &Target) -> Request {
        let Self {
            method,
            headers,
            post_data,
            ..
        } = self;
        let body = post_data.filter(|data| !data.body.is_empty());
        let content_type = body.as_ref().and_then(|data| data.content_type.clone());
        let is_kept = |header: &Header| {
            let name = header.name.to_ascii_lowercase();
            !name.starts_with(':')
                && !NOT_KEPT.contains(&name.as_str())
                && (name != "host" || header.value != target.host_header)
                && (name != "content-type" || content_type.is_none())
        };
        let headers = headers.into_iter().filter(is_kept);
        let mut headers: Vec<(String, String)> =
            headers.map(|header| (header.name, header.value)).collect();
        headers.extend(
            content_type
                .clone()
                .map(|its| ("Content-Type".to_owned(), its)),
        );
        let usual = if body.is_some() { "POST" } else { "GET" };
        Request {
            method: (method.0 != usual).then_some(method.0),
            url,
            headers,
            body: body.map(|data| Body::Inline(data.body)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn har(requests: &str) -> String {
        let entries: Vec<String> = requests
            .split("\n\n")
            .map(|request| format!("{{\"request\": {}}}", request.replace('\n', " ")))
            .collect();
        format!(
            "{{\"log\": {{\"entries\": [\n{}\n]}}}}",
            entries.join(",\n")
        )
    }

    fn requests(text: &str) -> Vec<Request> {
        let converted = convert(&har(text), &Filter::default());
        converted.unwrap_or_else(|error| panic!("{error}")).requests
    }

    #[test]
    fn a_request_has_the_headers_that_a_load_can_send() {
        let requests = requests(
            r#"{"method": "GET", "url": "https://h/a#x", "headers": [
{"name": ":authority", "value": "h"}, {"name": "Host", "value": "h"},
{"name": "Connection", "value": "keep-alive"}, {"name": "Cookie", "value": "a=b"},
{"name": "Accept", "value": "*/*"}], "cookies": [], "bodySize": 0}

{"method": "DELETE", "url": "https://h/", "headers": [{"name": "host", "value": "other"}]}"#,
        );
        assert_eq!(requests[0].url, "https://h/a");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            requests[0].headers,
            [pair("Cookie", "a=b"), pair("Accept", "*/*")]
        );
        assert_eq!(requests[0].method, None);
        assert_eq!(requests[1].headers, [pair("host", "other")]);
        assert_eq!(requests[1].method.as_deref(), Some("DELETE"));
    }

    #[test]
    fn a_body_is_text_base64_or_made_of_parameters() {
        let requests = requests(
            r#"{"method": "POST", "url": "http://h/", "postData": {"mimeType": "a/b", "text": "{}"}}

{"method": "PUT", "url": "http://h/", "postData":
{"mimeType": "a/b", "text": "/wA=", "encoding": "base64"}}

{"method": "POST", "url": "http://h/", "headers":
[{"name": "Content-Type", "value": "multipart/form-data; boundary=x"}], "postData":
{"mimeType": "multipart/form-data", "params": [{"name": "a", "value": "b"}]}}

{"method": "POST", "url": "http://h/", "postData":
{"mimeType": "application/x-www-form-urlencoded", "params":
[{"name": "a", "value": "b c"}, {"name": "d"}]}}"#,
        );
        let body = |at: usize| match &requests[at].body {
            Some(Body::Inline(bytes)) => bytes.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(body(0), b"{}");
        assert_eq!(requests[0].method, None);
        assert_eq!(body(1), [0xff, 0]);
        let text = String::from_utf8(body(2)).expect("text");
        let boundary = &text.lines().next().expect("a line")[2..];
        assert!(
            text.contains("form-data; name=\"a\"\r\n\r\nb\r\n"),
            "{text}"
        );
        let its = format!("multipart/form-data; boundary={boundary}");
        assert_eq!(requests[2].headers, [("Content-Type".to_owned(), its)]);
        assert_eq!(body(3), b"a=b+c&d=");
    }

    #[test]
    fn what_is_not_wanted_is_counted() {
        let text = har(r#"{"method": "GET", "url": "https://h:1/"}

{"method": "GET", "url": "data:image/png;base64,AA=="}

{"method": "GET", "url": "wss://h/"}

{"method": "GET", "url": "data:,x"}

{"method": "GET", "url": "https://cdn.h/x.js"}"#);
        let only = |host: &str| {
            let host = Some(host.to_owned());
            convert(&text, &Filter { host })
        };
        let converted = only("h").expect("there is one");
        assert_eq!(converted.requests.len(), 1);
        let expected = [
            "left out: 2 data URLs",
            "left out: 1 wss URL",
            "left out: 1 request to other hosts",
        ];
        assert_eq!(converted.notes, expected);
        assert_eq!(only("H:1").expect("there is one").requests.len(), 1);
        assert_eq!(
            only("i").expect_err("there is none").to_string(),
            "has no request to \"i\" (it has cdn.h, h:1)"
        );
    }

    #[test]
    fn a_bad_file_is_refused_with_line_and_column() {
        for (request, expected) in [
            (
                r#"{"method": "GET", "url": "http://"}"#,
                "invalid URL: \"http://\" has no host",
            ),
            (
                r#"{"method": "G T", "url": "http://h/"}"#,
                "\"G T\" is not a method",
            ),
            (r#"{"method": "GET"}"#, "missing field `url`"),
            (
                r#"{"method": "GET", "url": "http://h/", "headers":
[{"name": "a b", "value": ""}]}"#,
                "\"a b\" is not a header name",
            ),
            (
                r#"{"method": "GET", "url": "http://h/", "headers":
[{"name": "a", "value": "b\nc"}]}"#,
                "no colon",
            ),
            (
                r#"{"method": "GET", "url": "http://h/", "postData":
{"text": "?", "encoding": "base64"}}"#,
                "the body is not base64",
            ),
        ] {
            let error = convert(&har(request), &Filter::default());
            let said = error.expect_err(request).to_string();
            assert!(
                said.contains(expected) && said.contains(" at line 2 column "),
                "{said}"
            );
            assert_eq!(said.lines().count(), 1, "{said}");
        }
        for (text, expected) in [
            ("", "EOF while parsing a value at line 1 column 0"),
            ("[1]", "at line 1 column"),
            ("{\"log\": {\"entries\": []}}", "has no requests"),
            (
                &har("{\"method\": \"GET\", \"url\": \"data:,x\"}"),
                "has no http or https requests",
            ),
        ] {
            let said = convert(text, &Filter::default())
                .expect_err(text)
                .to_string();
            assert!(said.contains(expected), "{said}");
        }
    }
}
