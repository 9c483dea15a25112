//! gRPC calls: each is answered with its own message, and servers of types with the types of
//! [`PROTO`].

use std::sync::OnceLock;

use grpc::{SERVICES, Schema, answer};
use plan::InvalidValue;
use protocol::h2::grpc::{Code, framed, messages};

/// The types of the built-in server. Any other method that returns the type that it takes is
/// answered, too.
const PROTO: &str = r#"
syntax = "proto3";
package wrkbench;
message Message {
  string text = 1;
  int64 number = 2;
  repeated string tags = 3;
}
service Echo {
  rpc Call(Message) returns (Message);
  rpc Stream(Message) returns (stream Message);
}
"#;

const PROTO_NAME: &str = "wrkbench.proto";

/// The types, compiled for the first server that asks. They never change.
static SCHEMA: OnceLock<Option<Schema>> = OnceLock::new();

/// Whether a request with this media type is a gRPC call ("gRPC over HTTP2", Content-Type).
pub(crate) fn is_call(media_type: &[u8]) -> bool {
    let rest = media_type.strip_prefix(b"application/grpc");
    matches!(rest, Some([] | [b'+' | b';', ..]))
}

/// Whether a path asks for types.
pub(crate) fn is_reflection(path: &str) -> bool {
    let asked = path
        .strip_prefix('/')
        .and_then(|path| path.strip_suffix("/ServerReflectionInfo"));
    asked.is_some_and(|service| SERVICES.contains(&service))
}

/// The messages that answer questions about types, with their prefixes. What is no question has no
/// answer.
pub(crate) fn reflect(questions: &[u8]) -> Vec<u8> {
    let schema = SCHEMA.get_or_init(|| Schema::of_text(PROTO_NAME, PROTO).ok());
    let Some(schema) = schema else {
        return Vec::new();
    };
    let answers = messages(questions).filter_map(|question| answer(schema, question));
    let mut bytes = Vec::new();
    for answer in answers {
        bytes.extend_from_slice(&framed(&answer).unwrap_or_default());
    }
    bytes
}

/// Reads a status, by number or by name.
pub(crate) fn parse_status(text: &str) -> Result<Code, InvalidValue> {
    let is_it = |code: &Code| {
        code.to_string().eq_ignore_ascii_case(text) || code.number().to_string() == text
    };
    let error = || format!("`{text}` is not a status of gRPC: expected 0 to 16, or a name");
    Ok(Code::all().find(is_it).ok_or_else(error)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_by_their_media_type() {
        for media_type in [
            "application/grpc",
            "application/grpc+proto",
            "application/grpc;x",
        ] {
            assert!(is_call(media_type.as_bytes()), "{media_type}");
        }
        for media_type in ["application/grpc-web", "application/json", ""] {
            assert!(!is_call(media_type.as_bytes()), "{media_type}");
        }
    }

    #[test]
    fn a_status_has_a_number_and_a_name() {
        assert_eq!(parse_status("0"), Ok(Code::OK));
        for text in ["12", "unimplemented"] {
            let code = parse_status(text).map(|code| code.to_string());
            assert_eq!(code.as_deref(), Ok("UNIMPLEMENTED"));
        }
        for text in ["17", "-1", "012", "", "NO"] {
            assert!(parse_status(text).is_err(), "{text}");
        }
    }

    #[test]
    fn questions_about_types_are_answered_and_other_bytes_are_not() {
        let known = reflect(b"\0\0\0\0\x0f\x22\x0dwrkbench.Echo");
        assert!(known.windows(10).any(|part| part == b"wrkbench.p"));
        for bytes in [&b""[..], b"\0", b"\0\0\0\0\x09x", b"\0\0\0\0\x02\xff\xff"] {
            assert_eq!(reflect(bytes), b"");
        }
    }
}
