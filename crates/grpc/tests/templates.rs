//! Messages with holes: filled, they are the messages of the JSON in which the holes are filled.

use grpc::{JsonPiece, MessagePiece, Method, Number, Schema, Sources, put_varint};
use testkit::Folder;

const ALL: &str = r#"
syntax = "proto3";
package test;
import "google/protobuf/wrappers.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/struct.proto";

service Echo { rpc Call(All) returns (All); }

enum Kind { SMALL = 0; LARGE = 1; SIGNED = -1; }

message Inner {
  string name = 1;
  repeated Inner children = 2;
  map<string, int64> counts = 3;
}

message All {
  string text = 1;
  int32 i32 = 2;
  int64 i64 = 3;
  uint32 u32 = 4;
  uint64 u64 = 5;
  sint32 s32 = 6;
  sint64 s64 = 7;
  fixed32 f32 = 8;
  fixed64 f64 = 9;
  sfixed32 sf32 = 10;
  sfixed64 sf64 = 11;
  float single = 12;
  double whole = 13;
  Kind kind = 14;
  bool flag = 15;
  bytes raw = 16;
  Inner inner = 17;
  repeated int32 packed = 18;
  repeated string texts = 19;
  map<int32, Inner> by_number = 20;
  map<string, string> by_text = 21;
  google.protobuf.Int64Value wrapped = 22;
  google.protobuf.StringValue wrapped_text = 23;
  google.protobuf.Timestamp time = 24;
  google.protobuf.Value any = 25;
  oneof choice { string one = 26; int32 two = 27; }
  string last = 536870911;
}
"#;

fn method() -> Method {
    let folder = Folder::new();
    folder.file_with("all.proto", ALL);
    let sources = Sources {
        files: vec![folder.join("all.proto")],
        folders: Vec::new(),
    };
    let schema = Schema::compile(&sources).unwrap_or_else(|error| panic!("{error}"));
    schema.method("test.Echo/Call").expect("it is there")
}

/// The pieces of a text in which `@` stands for a hole.
fn pieces(json: &str) -> Vec<JsonPiece<'_>> {
    let mut pieces = Vec::new();
    for (number, text) in json.split('@').enumerate() {
        if number > 0 {
            pieces.push(JsonPiece::Hole);
        }
        pieces.push(JsonPiece::Text(text));
    }
    pieces
}

fn filled(pieces: &[MessagePiece], values: &[&str], output: &mut Vec<u8>) {
    for piece in pieces {
        match piece {
            MessagePiece::Bytes(bytes) => output.extend_from_slice(bytes),
            MessagePiece::Text(hole) => output.extend_from_slice(values[*hole].as_bytes()),
            MessagePiece::Number { hole, form } => {
                assert!(form.encode(values[*hole].as_bytes(), output), "{form:?}");
            }
            MessagePiece::Delimited(inner) => {
                let mut bytes = Vec::new();
                filled(inner, values, &mut bytes);
                put_varint(bytes.len() as u64, output);
                output.extend_from_slice(&bytes);
            }
        }
    }
}

#[test]
fn a_filled_template_is_the_message_of_the_filled_json() {
    let method = method();
    let long = "x".repeat(300);
    for (json, values) in [
        (r#"{"text": "@"}"#, &[""][..]),
        (r#"{"text": "a@b@", "last": "@"}"#, &["1", "ü", &long]),
        (r#"{"text": "\"@\\", "i32": @, "flag": true}"#, &["é", "-7"]),
        (
            r#"{"i32": "@", "i64": "@", "u32": "@", "u64": "@", "s32": "@", "s64": "@"}"#,
            &["-1", "-9000000000", "7", "18446744073709551615", "-3", "-4"],
        ),
        (
            r#"{"f32": @, "f64": @, "sf32": @, "sf64": @, "single": @, "whole": @}"#,
            &["1", "2", "-3", "-4", "5", "-6.25"],
        ),
        (r#"{"kind": @, "raw": "/w==", "one": "@"}"#, &["1", "x"]),
        (r#"{"kind": @, "two": @}"#, &["-1", "0"]),
        (
            r#"{"inner": {"name": "@", "children": [{}, {"children": [{"name": "@"}]}]}}"#,
            &["a", &long],
        ),
        (
            r#"{"inner": {"counts": {"@": 1}}, "packed": [1, @, 3], "texts": ["a", "@"]}"#,
            &["k", "2", "b"],
        ),
        (
            r#"{"byNumber": {"1": {"name": "@"}, "2": {}}, "by_text": {"a@": "@", "b": "c"}}"#,
            &["n", "k", "v"],
        ),
        (
            r#"{"wrapped": @, "wrappedText": "@", "time": "2026-01-01T00:00:00Z"}"#,
            &["5", "w"],
        ),
        (r#"{"wrapped": {}, "any": [1, "x"]}"#, &[]),
        ("{}", &[]),
    ] {
        let json = if json.contains("\"wrapped\": {}") {
            json.replace("\"wrapped\": {}, ", "")
        } else {
            json.to_owned()
        };
        let parts = method.encode_template(&pieces(&json));
        let parts = parts.unwrap_or_else(|error| panic!("{json}: {error}"));
        let mut bytes = Vec::new();
        filled(&parts, values, &mut bytes);
        let mut values = values.iter();
        let whole: String = pieces(&json)
            .iter()
            .map(|piece| match piece {
                JsonPiece::Text(text) => *text,
                JsonPiece::Hole => values.next().expect("one for each hole"),
            })
            .collect();
        let expected = method.encode(&whole).expect("it fits");
        assert_eq!(
            method.decode(&bytes).expect("it is a message"),
            method.decode(&expected).expect("it is a message"),
            "{json}"
        );
    }
}

#[test]
fn a_template_in_the_wrong_place_is_refused_with_the_field() {
    let method = method();
    for (json, expected) in [
        (
            r#"{"i32": "1@"}"#,
            "i32: a number is one template, without other text (expected int32)",
        ),
        (r#"{"time": "@"}"#, "time: "),
        (r#"{"flag": @}"#, "flag: "),
        (
            r#"{"raw": "AA@@"}"#,
            "raw: a template stands for text or a number, not for bytes",
        ),
        (
            r#"{"any": ["@"]}"#,
            "any: a template stands for text or a number, not for google.protobuf.Value",
        ),
        (
            r#"{"@": 1}"#,
            "test.All: a template stands for text or a number, not for the name of a field",
        ),
        (
            r#"{"inner": {"nam": "@"}}"#,
            "inner: test.Inner has no field \"nam\"",
        ),
        (r#"{"inner": {"counts": {"a": "x@"}}}"#, "inner.counts[a]: "),
        (r#"{"text": "@""#, "is not JSON: "),
        (r#"{"one": "@", "two": 1}"#, "test.All: "),
        (r#"@"#, "test.All: "),
    ] {
        let error = method.encode_template(&pieces(json)).expect_err(json);
        let error = error.to_string();
        assert!(error.starts_with(expected), "{json}: {error}");
        assert_eq!(error.lines().count(), 1, "{json}: {error}");
    }
    // Hostile JSON.
    let deep = format!(
        r#"{}"@"{}"#,
        r#"{"inner":{"children":["#.repeat(60),
        "]}}".repeat(60)
    );
    assert!(method.encode_template(&pieces(&deep)).is_err());
    assert!(
        method
            .encode_template(&pieces("\u{fdd0}0\u{fdd0}"))
            .is_err()
    );
}

#[test]
fn numbers_that_do_not_fit_their_type_are_not_encoded() {
    for (form, text) in [
        (Number::Int32, "2147483648"),
        (Number::Uint32, "-1"),
        (Number::Uint64, "18446744073709551616"),
        (Number::Sint64, "1.5"),
        (Number::Fixed32, ""),
        (Number::Double, "x"),
        (Number::Enum, " 1"),
    ] {
        let mut output = Vec::new();
        assert!(
            !form.encode(text.as_bytes(), &mut output),
            "{form:?} {text}"
        );
        assert!(output.is_empty());
    }
    assert!(!Number::Int64.encode(b"\xff", &mut Vec::new()));
}
