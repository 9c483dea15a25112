//! gRPC calls in request files: their messages, with and without types.

use std::io;
use std::sync::Arc;

use grpc::Schema;
use plan::Target;
use requests::{Calls, Defaults, FileError, Inputs, Moment, Renderer, load, self_contained};

const NOW: Moment = Moment {
    unix_ms: 1_700_000_000_123,
};

const SHOP: &str = r#"
syntax = "proto3";
package shop;
service Shop {
  rpc Buy(Order) returns (Order);
  rpc Fill(stream Order) returns (Order);
}
message Order {
  string id = 1;
  int32 count = 2;
  Inner inner = 3;
  int64 at = 4;
  fixed64 key = 5;
}
message Inner { repeated string names = 1; Inner inner = 2; }
"#;

fn schema() -> Schema {
    Schema::of_text("shop.proto", SHOP).unwrap_or_else(|error| panic!("{error}"))
}

fn read(name: &str) -> io::Result<Vec<u8>> {
    match name {
        "orders.csv" => Ok(b"name,count,far\nann,3,1\nbob,-7,3000000000\n".to_vec()),
        "latin.csv" => Ok(b"name\n\xe9\n".to_vec()),
        "order.json" => Ok(b" {\"id\": \"of a file\"}\n".to_vec()),
        "order.bin" => Ok(b"\x0a\x01b".to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

fn inputs(text: &str) -> Inputs<'_> {
    Inputs {
        file: "f",
        text: text.as_bytes(),
        read: &read,
        variable: &|_| None,
    }
}

/// The first requests of a file; the header and the body of each.
fn sent(
    inputs: &Inputs<'_>,
    types: Option<&Schema>,
    headers: &[(String, String)],
    count: usize,
) -> Result<Vec<(String, Vec<u8>)>, FileError> {
    let target = Target::parse("http://h:1/").expect("it is a URL");
    let defaults = Defaults {
        target: Some(&target),
        headers,
        calls: Some(Calls { types }),
        ..Defaults::default()
    };
    let mut renderer = Renderer::new(Arc::new(load(inputs, &defaults)?), 7, 0, 1);
    let one = |_| {
        let mut output = Vec::new();
        let request = renderer.next_request(0);
        renderer.render(request, 0, NOW, &mut output);
        let end = output.windows(4).position(|it| it == b"\r\n\r\n");
        let end = end.expect("the header ends") + 4;
        let body = output.split_off(end);
        (String::from_utf8(output).expect("it is text"), body)
    };
    Ok((0..count).map(one).collect())
}

/// The messages of a file as JSON, which also shows that every Content-Length is right.
fn messages(text: &str, count: usize) -> Vec<String> {
    let types = schema();
    let method = types.method("shop.Shop/Buy").expect("it is there");
    let sent = sent(&inputs(text), Some(&types), &[], count);
    let message = |(head, body): (String, Vec<u8>)| {
        assert!(
            head.starts_with("POST /shop.Shop/Buy HTTP/1.1\r\n"),
            "{head}"
        );
        let length = format!("Content-Length: {}\r\n", body.len());
        assert!(head.contains(&length), "{head} {}", body.len());
        method.decode(&body).expect("it is a message").to_string()
    };
    let sent = sent.unwrap_or_else(|error| panic!("{error}"));
    sent.into_iter().map(message).collect()
}

fn refusal(text: &str) -> String {
    let sent = sent(&inputs(text), Some(&schema()), &[], 1);
    sent.expect_err(text).to_string()
}

#[test]
fn messages_are_encoded_with_the_values_of_each_request() {
    let text = r#"{"call": "shop.Shop/Buy",
        "message": {"id": "n{{seq}}", "count": "{{rand:7-7}}"}}"#;
    assert_eq!(
        messages(&text.replace('\n', " "), 2),
        [r#"{"id":"n1","count":7}"#, r#"{"id":"n2","count":7}"#]
    );
    let text = r#"
        {"call": "shop.Shop.Buy", "body_text": "{\"id\": \"NAME\", \"count\": COUNT}"}
        {"path": "/shop.Shop/Buy", "body_file": "order.json"}
        {"call": "shop.Shop/Buy", "body": "CgFi"}
        {"call": "shop.Shop/Buy"}"#;
    let text = text.replace("NAME", "{{csv:orders.csv:name}}");
    let text = text.replace("COUNT", "{{csv:orders.csv:count}}");
    assert_eq!(
        messages(&text, 5),
        [
            r#"{"id":"ann","count":3}"#,
            r#"{"id":"of a file"}"#,
            r#"{"id":"b"}"#,
            "{}",
            r#"{"id":"bob","count":-7}"#,
        ]
    );
    let http = "POST /shop.Shop/Buy\n\n{\"at\": {{now}}, \"key\": \"{{$timestamp}}\"}\n";
    assert_eq!(
        messages(http, 1),
        [r#"{"at":"1700000000123","key":"1700000000"}"#]
    );
}

#[test]
fn lengths_of_nested_messages_follow_their_values() {
    // A value of 130 bytes makes every length before it one byte longer.
    let long = "x".repeat(120);
    let text = r#"{"call": "shop.Shop/Buy", "message": {"inner": {
        "inner": {"names": ["a", "LONG{{csv:orders.csv:name}}", "{{uuid}}{{seq}}"]},
        "names": ["{{seq}}"]}, "id": "{{uuid}}"}}"#;
    let text = text.replace("LONG", &long).replace('\n', " ");
    for message in messages(&text, 3) {
        assert!(message.contains(&format!("\"{long}")), "{message}");
        assert!(message.contains(r#""names":["a","#), "{message}");
    }
    // Without values of different lengths, nothing is counted for each request.
    let fixed = r#"{"call": "shop.Shop/Buy", "message": {"id": "{{uuid}}", "key": "{{now}}"}}"#;
    let [first, second] = &messages(fixed, 2)[..] else {
        panic!("two")
    };
    assert_ne!(first, second);
}

#[test]
fn metadata_may_have_templates_in_the_file_and_in_options() {
    let headers = [("x-all".to_owned(), "{{seq}}-{{uuid}}".to_owned())];
    let text = r#"{"call": "shop.Shop/Buy", "header": {"x-own": "{{seq}}"}}"#;
    let sent = sent(&inputs(text), Some(&schema()), &headers, 2);
    let sent = sent.unwrap_or_else(|error| panic!("{error}"));
    assert!(sent[1].0.contains("x-own: 2\r\nx-all: 2-"), "{}", sent[1].0);
    let bad = [("x-all".to_owned(), "{{sek}}".to_owned())];
    let error = self::sent(&inputs(text), Some(&schema()), &bad, 1).expect_err("no template");
    let expected = "f:1:1: the header \"x-all\" of -H: \"sek\" is not a template";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[test]
fn without_types_messages_are_bytes() {
    let text = r#"{"call": "a.B/C", "body": "CgFi"}"#;
    let made = sent(&inputs(text), None, &[], 1).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(made[0].1, b"\x0a\x01b");
    for (text, expected) in [
        (
            r#"{"call": "a.B/C", "message": {"a": 1}}"#,
            "f:1:1: the message is JSON, whose types are not known",
        ),
        (r#"{"call": "a.B/C", "body": "AAA="}"#, "f:1:1: "),
    ] {
        let error = sent(&inputs(text), None, &[], 1).expect_err(text);
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}

#[test]
fn mistakes_are_refused_with_line_and_column() {
    for (text, expected) in [
        (
            r#"{"call": "shop.Shop/Sell"}"#,
            "f:1:1: there is no method shop.Shop/Sell (methods of shop.Shop: Buy, Fill)",
        ),
        (
            r#"{"call": "shop.Shop/Fill"}"#,
            "f:1:1: /shop.Shop/Fill: its calls have a stream of requests",
        ),
        (
            r#"{"call": "Buy"}"#,
            "f:1:10: call is not a method (expected package.Service/Method)",
        ),
        (
            r#"{"call": "a/b", "path": "/"}"#,
            "f:1:10: a request has only one of url, path and call",
        ),
        (
            r#"{"call": "shop.Shop/Buy", "message": {"idd": "x"}}"#,
            "f:1:1: shop.Order: shop.Order has no field \"idd\"",
        ),
        (
            r#"{"call": "shop.Shop/Buy", "message": {"count": "{{rand:0-3000000000}}"}}"#,
            "f:1:49: rand:0-3000000000 does not fit the field (expected int32)",
        ),
        (
            r#"{"call": "shop.Shop/Buy", "message": {"count": "{{csv:orders.csv:far}}"}}"#,
            "f:1:49: row 2 of orders.csv does not fit the field (expected int32)",
        ),
        (
            r#"{"call": "shop.Shop/Buy", "message": {"id": "{{csv:latin.csv:name}}"}}"#,
            "f:1:46: row 1 of latin.csv does not fit the field (expected UTF-8)",
        ),
        (
            r#"{"call": "shop.Shop/Buy", "message": {"count": "{{now}}"}}"#,
            "f:1:49: milliseconds since 1970 do not fit the field (expected int32)",
        ),
        (
            r#"{"call": "shop.Shop/Buy", "message": {"count": "{{uuid}}"}}"#,
            "f:1:49: a UUID is not a number (expected int32)",
        ),
        (
            r#"{"call": "shop.Shop/Buy", "message": {"count": "{{sek}}"}}"#,
            "f:1:49: \"sek\" is not a template",
        ),
        (
            r#"{"call": "shop.Shop/Buy", "message": "x"}"#,
            "f:1:38: message is not an object",
        ),
        (
            r#"{"call": "shop.Shop/Buy", "message": {}, "body_text": ""}"#,
            "f:1:38: a request has only one of body, body_text, body_file and message",
        ),
        (
            r#"{"call": "shop.Shop/Buy", "method": "PUT"}"#,
            "f:1:1: PUT: a gRPC call is a POST",
        ),
        (
            r#"{"path": "/shop.Shop/{{seq}}"}"#,
            "f:1:1: the method of a call cannot have templates",
        ),
        (
            r#"{"call": "shop.Shop/Buy", "capture": {"a": "$.id"}}"#,
            "f:1:1: the response to a call is no text, so that only its headers can be captured",
        ),
        (
            r#"{"call": "shop.Shop/Buy", "header": {"Transfer-Encoding": "x"}}"#,
            "f:1:59: a gRPC call has no Transfer-Encoding",
        ),
        (r#"{"types": "!"}"#, "f:1:11: types is not base64"),
        (
            r#"{"types": "AAAA"}"#,
            "f:1:11: types: is not a set of descriptors",
        ),
    ] {
        let error = refusal(text);
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    let target = Target::parse("http://h:1/").expect("it is a URL");
    let defaults = Defaults {
        target: Some(&target),
        ..Defaults::default()
    };
    let error = load(&inputs(r#"{"call": "a.B/C"}"#), &defaults).expect_err("not gRPC");
    assert_eq!(
        error.to_string(),
        "f:1:1: call and message are for gRPC (add --grpc)"
    );
}

#[test]
fn a_self_contained_file_has_the_types() {
    let text = r#"{"call": "shop.Shop/Buy", "message": {"id": "{{csv:orders.csv:name}}"}}
        {"call": "shop.Shop/Buy", "message": {"inner": {"names": ["{{seq}}"]}}}
        {"call": "shop.Shop/Buy", "message": {"count": 3}}"#;
    let types = schema();
    let file = self_contained(&inputs(text), Some(&types)).unwrap_or_else(|e| panic!("{e}"));
    let bare = Inputs {
        file: "g",
        text: &file,
        read: &|_| Err(io::Error::other("nothing is read")),
        variable: &|_| None,
    };
    let original = sent(&inputs(text), Some(&types), &[], 4).unwrap_or_else(|e| panic!("{e}"));
    let copy = sent(&bare, None, &[], 4).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(original, copy);
}
