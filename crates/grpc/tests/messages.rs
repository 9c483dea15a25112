//! Schemas, and messages from JSON to bytes and back.

use std::path::Path;

use grpc::{Answer, ReflectionError, Schema, Sources, containing, list, named, read};
use prost::Message as _;
use prost_reflect::prost_types::FileDescriptorSet;
use testkit::Folder;

const SHOP: &str = r#"
syntax = "proto3";
package shop;
import "common/kinds.proto";

service Shop {
  rpc Buy(Order) returns (Receipt);
  rpc Watch(Order) returns (stream Receipt);
}

message Order {
  string id = 1;
  int32 count = 2;
  repeated Item items = 3;
  map<string, int64> tags = 4;
  common.Kind kind = 5;
  oneof pay {
    string card = 6;
    bool cash = 7;
  }
  optional string note = 8;
}

message Item {
  string name = 1;
  double price = 2;
}

message Receipt {
  string text = 1;
  bytes raw = 2;
}
"#;

const KINDS: &str = r#"
syntax = "proto3";
package common;
enum Kind {
  SMALL = 0;
  LARGE = 1;
}
"#;

fn folder() -> Folder {
    let folder = Folder::new();
    folder.folder("common");
    folder.file_with("shop.proto", SHOP);
    folder.file_with("common/kinds.proto", KINDS);
    folder
}

fn compiled(folder: &Folder) -> Schema {
    let sources = Sources {
        files: vec![folder.join("shop.proto")],
        folders: Vec::new(),
    };
    Schema::compile(&sources).unwrap_or_else(|error| panic!("{error}"))
}

/// The descriptors of both files, as protoc writes them.
fn set(folder: &Folder) -> FileDescriptorSet {
    let made = protox::compile(["shop.proto"], [folder.path()]);
    made.unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_message_goes_to_bytes_and_back() {
    let method = compiled(&folder())
        .method("shop.Shop/Buy")
        .expect("it is there");
    assert_eq!(
        (method.path().as_str(), method.is_server_streaming()),
        ("/shop.Shop/Buy", false)
    );
    let bytes = method.encode(r#"{"id": "a", "count": 3, "tags": {"x": "7"}, "kind": "LARGE"}"#);
    let expected = b"\x0a\x01a\x10\x03\x22\x05\x0a\x01x\x10\x07\x28\x01";
    assert_eq!(bytes.expect("it fits"), expected);
    assert_eq!(method.encode("{}").expect("it fits"), b"");
    let receipt = b"\x0a\x02ok\x12\x02\xff\x00";
    assert_eq!(
        method.decode(receipt).expect("it fits").to_string(),
        r#"{"text":"ok","raw":"/wA="}"#
    );
    let damaged = method.decode(b"\x0a\x05ok").expect_err("it is cut");
    assert!(
        damaged
            .to_string()
            .starts_with("is not a message of the type shop.Receipt: ")
    );
}

#[test]
fn a_mistake_names_the_field_its_type_and_what_there_is() {
    let method = compiled(&folder())
        .method("shop.Shop.Buy")
        .expect("it is there");
    for (json, begins, contains) in [
        ("{", "is not JSON: ", "line 1"),
        ("[]", "shop.Order: ", "expected"),
        (
            r#"{"idd": 1}"#,
            "shop.Order: shop.Order has no field \"idd\"",
            "it has id, count, items",
        ),
        (r#"{"count": "many"}"#, "count: ", "(expected int32)"),
        (r#"{"count": 3000000000}"#, "count: ", "(expected int32)"),
        (r#"{"id": 5}"#, "id: ", "(expected string)"),
        (r#"{"kind": "HUGE"}"#, "kind: ", "(expected common.Kind)"),
        (
            r#"{"items": [{"name": "a"}, {"price": "x"}]}"#,
            "items[1].price: ",
            "(expected double)",
        ),
        (
            r#"{"items": [{"cost": 1}]}"#,
            "items[0]: shop.Item has no field \"cost\"",
            "it has name, price",
        ),
        (
            r#"{"items": 7}"#,
            "items: ",
            "(expected repeated shop.Item)",
        ),
        (
            r#"{"tags": {"a": true}}"#,
            "tags: ",
            "(expected map<string, int64>)",
        ),
        (r#"{"card": "1", "cash": true}"#, "shop.Order: ", "oneof"),
    ] {
        let error = method.encode(json).expect_err(json).to_string();
        assert!(error.starts_with(begins), "{json}: {error}");
        assert!(error.contains(contains), "{json}: {error}");
        assert_eq!(error.lines().count(), 1, "{json}: {error}");
    }
    // Hostile JSON.
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    for json in [&deep, &format!("{{\"items\":{deep}}}")] {
        assert!(method.encode(json).is_err());
    }
}

#[test]
fn unknown_methods_are_refused_with_those_that_exist() {
    let schema = compiled(&folder());
    for (name, expected) in [
        (
            "shop.Shop/Sell",
            "there is no method shop.Shop/Sell (methods of shop.Shop: Buy, Watch)",
        ),
        (
            "Shop/Buy",
            "there is no method Shop/Buy (services: shop.Shop)",
        ),
        ("Buy", "there is no method Buy (services: shop.Shop)"),
        ("", "there is no method  (services: shop.Shop)"),
    ] {
        let error = schema.method(name).expect_err(name).to_string();
        assert_eq!(error, expected);
    }
    assert_eq!(schema.services(), ["shop.Shop"]);
    assert_eq!(
        schema.methods("shop.Shop").expect("it is there"),
        ["shop.Shop/Buy", "shop.Shop/Watch"]
    );
}

#[test]
fn definitions_are_those_of_the_file() {
    let schema = compiled(&folder());
    let service = schema.describe("shop.Shop").expect("it is there");
    let expected = "service shop.Shop {\n  rpc Buy(shop.Order) returns (shop.Receipt);\n  \
                    rpc Watch(shop.Order) returns (stream shop.Receipt);\n}\n";
    assert_eq!(service, expected);
    let message = schema.describe("shop.Order").expect("it is there");
    for line in [
        "  repeated shop.Item items = 3;",
        "  map<string, int64> tags = 4;",
        "  common.Kind kind = 5;",
        "  string card = 6; // one of pay",
        "  optional string note = 8;",
    ] {
        assert!(message.contains(&format!("{line}\n")), "{message}");
    }
    let method = schema.describe("shop.Shop/Buy").expect("it is there");
    assert!(
        method.starts_with("rpc Buy(shop.Order) returns (shop.Receipt);\n\nmessage shop.Order {\n")
    );
    assert_eq!(
        schema.describe("common.Kind").expect("it is there"),
        "enum common.Kind {\n  SMALL = 0;\n  LARGE = 1;\n}\n"
    );
    let error = schema
        .describe("shop.Nothing")
        .expect_err("it is not there")
        .to_string();
    assert_eq!(
        error,
        "there is no service, method or type shop.Nothing (services: shop.Shop)"
    );
}

#[test]
fn what_cannot_be_read_to_its_end_is_refused_also_as_an_import() {
    let folder = folder();
    let compile = |file: &Path| {
        let sources = Sources {
            files: vec![file.to_owned()],
            folders: Vec::new(),
        };
        let compiled = Schema::compile(&sources).map(drop);
        compiled.expect_err("it is refused").to_string()
    };
    assert_eq!(
        compile(Path::new("/dev/zero")),
        "/dev/zero: is a device (expected a file)"
    );
    let endless = folder.join("endless.proto");
    std::os::unix::fs::symlink("/dev/zero", &endless).expect("it is new");
    folder.file_with(
        "import.proto",
        "syntax = \"proto3\";\nimport \"endless.proto\";\n",
    );
    assert_eq!(
        compile(&folder.join("import.proto")),
        format!("{}: not a regular file", endless.display())
    );
    let large = folder.join("large.proto");
    let file = std::fs::File::create(&large).expect("it is new");
    file.set_len((16 << 20) + 1).expect("it is sparse");
    assert_eq!(
        compile(&large),
        format!(
            "{}: is larger than 16 MiB, the limit for such a file",
            large.display()
        )
    );
}

#[test]
fn a_file_whose_name_means_another_one_is_refused() {
    let folder = folder();
    folder.folder("first");
    folder.file_with("first/shop.proto", SHOP);
    let sources = |first: &str| Sources {
        files: vec![folder.join("./shop.proto")],
        folders: vec![folder.join(first), folder.path().to_owned()],
    };
    let error = Schema::compile(&sources("first")).expect_err("it is another");
    assert_eq!(
        error.to_string(),
        format!(
            "{}: an import of shop.proto means {}, whose folder is before",
            folder.join("./shop.proto").display(),
            folder.join("first/shop.proto").display()
        )
    );
    Schema::compile(&sources("common")).expect("there is no other");
}

#[test]
fn mistakes_in_files_are_one_line_with_the_place() {
    let folder = folder();
    folder.file_with(
        "bad.proto",
        "syntax = \"proto3\";\nmessage A {\n  strin a = 1;\n}\n",
    );
    folder.file_with(
        "import.proto",
        "syntax = \"proto3\";\nimport \"nowhere.proto\";\n",
    );
    for (file, expected) in [
        ("bad.proto", "strin"),
        ("import.proto", "nowhere.proto"),
        ("none.proto", "none.proto"),
    ] {
        let sources = Sources {
            files: vec![folder.join(file)],
            folders: Vec::new(),
        };
        let error = Schema::compile(&sources).expect_err(file).to_string();
        assert!(error.contains(expected), "{file}: {error}");
        assert_eq!(error.lines().count(), 1, "{file}: {error}");
    }
    let bytes = set(&folder).encode_to_vec();
    let schema = Schema::of_set(&bytes, "shop.pb").expect("it is a set");
    assert_eq!(schema.services(), ["shop.Shop"]);
    for cut in 1..bytes.len() {
        if let Err(error) = Schema::of_set(&bytes[..cut], "shop.pb") {
            assert!(
                error
                    .to_string()
                    .starts_with("shop.pb: is not a set of descriptors (")
            );
        }
    }
}

/// A server with reflection: answers a question with the bytes of a message.
fn server(set: &FileDescriptorSet, question: &[u8]) -> Vec<u8> {
    let file = |name: &str| {
        let found = set.file.iter().find(|file| file.name() == name);
        found.map(prost::Message::encode_to_vec)
    };
    let found = match question {
        q if *q == containing("shop.Shop") => file("shop.proto"),
        q if *q == named("common/kinds.proto") => file("common/kinds.proto"),
        _ => None,
    };
    // Field 4 with a file in field 1, or field 7 with a code and a text.
    let field = |number: u8, bytes: &[u8]| {
        let mut message = vec![number << 3 | 2];
        prost::encoding::encode_varint(bytes.len() as u64, &mut message);
        message.extend_from_slice(bytes);
        message
    };
    match found {
        Some(file) => field(4, &field(1, &file)),
        None => field(7, &[&[8, 5][..], &field(2, b"not found")].concat()),
    }
}

#[test]
fn a_server_describes_itself_by_reflection() {
    let set = set(&folder());
    let mut asked = 0;
    let symbols = ["shop.Shop".to_owned()];
    let schema = Schema::by_reflection(&symbols, |question| {
        asked += 1;
        read(&server(&set, &question))
    });
    let schema = schema.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        (schema.services(), asked),
        (vec!["shop.Shop".to_owned()], 2)
    );
    assert!(
        schema
            .method("shop.Shop/Watch")
            .expect("it is there")
            .is_server_streaming()
    );
    let refused = Schema::by_reflection(&["none".to_owned()], |question| {
        read(&server(&set, &question))
    });
    let refused = refused.expect_err("it is not there");
    assert_eq!(refused, ReflectionError::Refused("not found".to_owned()));
    // Every answer cut at every byte is one error, or a part that lacks a file.
    let whole = server(&set, &containing("shop.Shop"));
    for cut in 0..whole.len() {
        let damaged: Result<Schema, ReflectionError> =
            Schema::by_reflection(&symbols, |_| read(&whole[..cut]));
        assert!(damaged.is_err(), "{cut}");
    }
    // A server that never has what a file imports.
    let endless: Result<Schema, ReflectionError> =
        Schema::by_reflection(&symbols, |_| read(&whole));
    assert!(matches!(endless, Err(ReflectionError::Damaged(_))));
    assert_eq!(list(), [58, 0]);
    assert_eq!(
        read(&[50, 5, 10, 3, 10, 1, b'a']),
        Ok(Answer::Services(vec!["a".to_owned()]))
    );
}
