//! Requests as JSON lines, one object each: `method`, `url`, `header`, and one of `body_text`,
//! `body` (base64) and `body_file`. Texts have no templates: two braces are written as one.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use plan::Body;
use serde_json::{Map, Value};

use crate::conversion::Request;

/// The text of a requests file.
#[must_use]
pub fn text(requests: &[Request]) -> String {
    let lines = requests.iter().map(|request| line(request) + "\n");
    lines.collect()
}

fn line(request: &Request) -> String {
    let mut members = Vec::new();
    let mut add = |name: &str, value: Value| members.push(format!("{}:{value}", Value::from(name)));
    if let Some(method) = &request.method {
        add("method", method.as_str().into());
    }
    add("url", plain(&request.url).into());
    let mut headers: Map<String, Value> = Map::new();
    for (name, value) in &request.headers {
        let values = headers
            .entry(name)
            .or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(values) = values {
            values.push(plain(value).into());
        }
    }
    if !headers.is_empty() {
        add("header", headers.into());
    }
    match &request.body {
        None => (),
        Some(Body::File(path)) => add("body_file", path.display().to_string().into()),
        Some(Body::Inline(bytes)) => match std::str::from_utf8(bytes) {
            Ok(text) => add("body_text", plain(text).into()),
            Err(_) => add("body", BASE64_STANDARD.encode(bytes).into()),
        },
    }
    format!("{{{}}}", members.join(","))
}

/// A text whose braces are no template.
fn plain(text: &str) -> String {
    text.replace("{{", "{{'{{'}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one_line_of_json() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let requests = [
            Request {
                url: "http://h/?a=\"b\"".to_owned(),
                ..Request::default()
            },
            Request {
                method: Some("PUT".to_owned()),
                url: "http://h/".to_owned(),
                headers: vec![pair("B", "1"), pair("A", "{{2}}"), pair("B", "3")],
                body: Some(Body::Inline(b"a\nb".to_vec())),
            },
            Request {
                url: "http://h/".to_owned(),
                body: Some(Body::Inline(vec![0xff, 0])),
                ..Request::default()
            },
            Request {
                url: "http://h/".to_owned(),
                body: Some(Body::File("a.json".into())),
                ..Request::default()
            },
        ];
        let expected = "{\"url\":\"http://h/?a=\\\"b\\\"\"}\n\
            {\"method\":\"PUT\",\"url\":\"http://h/\",\
             \"header\":{\"A\":[\"{{'{{'}}2}}\"],\"B\":[\"1\",\"3\"]},\"body_text\":\"a\\nb\"}\n\
            {\"url\":\"http://h/\",\"body\":\"/wA=\"}\n\
            {\"url\":\"http://h/\",\"body_file\":\"a.json\"}\n";
        assert_eq!(text(&requests), expected);
    }
}
