//! Requests as JSON lines, one object each: `method`, `url`, `header`, and one of `body_text`,
//! `body` (base64) and `body_file`. Texts have no templates but those for secrets: two braces are
//! written as one.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use plan::Body;
use plan::secrets::{hide_in_body, secrets_in_body, secrets_in_header, secrets_in_url};
use serde_json::{Map, Value};

use crate::conversion::Request;
use crate::variables::{MarkedText, SecretPlace, Variables};

/// The text of a requests file, with all secrets in it.
#[must_use]
pub fn text(requests: &[Request]) -> String {
    let lines = requests.iter().map(|request| line(request, None) + "\n");
    lines.collect()
}

/// The text of a requests file with variables in place of secrets.
#[must_use]
pub fn text_with_variables(requests: &[Request], variables: &mut Variables) -> String {
    let lines = requests.iter();
    let lines = lines.map(|request| line(request, Some(variables)) + "\n");
    lines.collect()
}

fn line(request: &Request, mut variables: Option<&mut Variables>) -> String {
    let hides = variables.is_some();
    let mut template = |text: &str, secrets, part| match &mut variables {
        Some(variables) => variables.template(&MarkedText::new(text, secrets, part)),
        None => Variables::default().template(&MarkedText::plain(text)),
    };
    let mut members = Vec::new();
    let mut add = |name: &str, value: Value| members.push(format!("{}:{value}", Value::from(name)));
    if let Some(method) = &request.method {
        add("method", method.as_str().into());
    }
    let url = &request.url;
    add(
        "url",
        template(url, secrets_in_url(url), SecretPlace::Url).into(),
    );
    let mut headers: Map<String, Value> = Map::new();
    for (name, value) in &request.headers {
        let values = headers
            .entry(name)
            .or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(values) = values {
            let secrets = secrets_in_header(name, value);
            values.push(template(value, secrets, SecretPlace::Header).into());
        }
    }
    if !headers.is_empty() {
        add("header", headers.into());
    }
    match &request.body {
        None => (),
        Some(Body::File(path)) => add("body_file", path.display().to_string().into()),
        Some(Body::Inline(bytes)) => match std::str::from_utf8(bytes) {
            Ok(text) => {
                let text = template(text, secrets_in_body(text), SecretPlace::Body);
                add("body_text", text.into());
            }
            // It has no templates, and a run refuses the mark of a secret.
            Err(_) if hides => {
                let shown = hide_in_body(bytes);
                if let Some(variables) = variables.filter(|_| shown != *bytes) {
                    variables.hidden_bodies += 1;
                }
                add("body", BASE64_STANDARD.encode(shown).into());
            }
            Err(_) => add("body", BASE64_STANDARD.encode(bytes).into()),
        },
    }
    format!("{{{}}}", members.join(","))
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
             \"header\":{\"B\":[\"1\",\"3\"],\"A\":[\"{{'{{'}}2}}\"]},\"body_text\":\"a\\nb\"}\n\
            {\"url\":\"http://h/\",\"body\":\"/wA=\"}\n\
            {\"url\":\"http://h/\",\"body_file\":\"a.json\"}\n";
        assert_eq!(text(&requests), expected);
    }
    #[test]
    fn secrets_become_variables_that_a_run_reads() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let requests = [
            Request {
                url: "http://u:p@h/?token={{a}}&b=1".to_owned(),
                headers: vec![pair("Cookie", "a=1"), pair("Via", "/?token=b")],
                ..Request::default()
            },
            Request {
                url: "http://u:p@h/".to_owned(),
                headers: vec![pair("Cookie", "a=2"), pair("cookie", "a=1")],
                body: Some(Body::Inline(
                    b"{{\"secret\": 5,\"password\":\"x\"}}".to_vec(),
                )),
                ..Request::default()
            },
            Request {
                url: "http://h/".to_owned(),
                body: Some(Body::Inline(b"token=x\n\xff".to_vec())),
                ..Request::default()
            },
        ];
        let mut variables = Variables::default();
        let expected = "{\"url\":\"http://{{env:URL_USER}}@h/?token={{env:TOKEN}}&b=1\",\
             \"header\":{\"Cookie\":[\"{{env:COOKIE}}\"],\"Via\":[\"/?token={{env:TOKEN_2}}\"]}}\n\
            {\"url\":\"http://{{env:URL_USER}}@h/\",\
             \"header\":{\"Cookie\":[\"{{env:COOKIE_2}}\"],\"cookie\":[\"{{env:COOKIE}}\"]},\
             \"body_text\":\"{{'{{'}}\\\"secret\\\": {{env:SECRET}},\\\"password\\\":\
             \\\"{{env:PASSWORD}}\\\"}}\"}\n\
            {\"url\":\"http://h/\",\"body\":\"dG9rZW49KioqCv8=\"}\n";
        assert_eq!(text_with_variables(&requests, &mut variables), expected);
        assert_eq!(variables.hidden_bodies(), 1);
        let list = variables.list().expect("there are secrets");
        assert_eq!(
            list,
            "URL_USER (url-user in a URL), TOKEN (token in a URL), COOKIE (Cookie in a header), \
             TOKEN_2 (token in a header), COOKIE_2 (Cookie in a header), SECRET (secret in a body), \
             PASSWORD (password in a body)"
        );
        assert!(text(&requests).contains("u:p@h"));
    }
}
