//! Header blocks and frames of other implementations, in the formats of the public collections
//! `hpack-test-case` and `http2-frame-test-case`.
//!
//! A few files of our own making are in `corpora/`. `scripts/test-http2-corpora.sh` runs the
//! collections.

use std::fs;
use std::path::{Path, PathBuf};

use protocol::h2::frame::{self, Frame, HEADER_BYTES, Header};
use protocol::h2::hpack::encode::{Literal, field};
use protocol::h2::hpack::{Decoder, Limits};
use protocol::h2::reader::Reader;
use serde_json::{Value, json};

use crate::blocks::{Pairs, decode};
use crate::frames::{BLOCK_BYTES_MAX, Found, read};
use crate::hex::bytes;

/// The folder with the collections.
const FOLDER_VARIABLE: &str = "WRKBENCH_HTTP2_CORPORA";

#[test]
fn our_own_header_blocks_are_decoded() {
    assert!(check_header_blocks(&own("hpack")) >= 40);
}

#[test]
fn our_own_frames_are_parsed() {
    assert!(check_frames(&own("frames")) >= 10);
}

#[test]
#[ignore = "needs the collections: scripts/test-http2-corpora.sh"]
fn the_header_blocks_of_hpack_test_case_are_decoded() {
    let count = check_header_blocks(&collection("hpack-test-case"));
    println!("{count} header blocks");
    assert!(count > 10_000, "{count}");
}

#[test]
#[ignore = "needs the collections: scripts/test-http2-corpora.sh"]
fn the_frames_of_http2_frame_test_case_are_parsed() {
    let count = check_frames(&collection("http2-frame-test-case"));
    println!("{count} frames");
    assert!(count > 30, "{count}");
}

fn own(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/h2/corpora")
        .join(name)
}

fn collection(name: &str) -> PathBuf {
    let folder = std::env::var_os(FOLDER_VARIABLE).expect("the variable is set");
    Path::new(&folder).join(name)
}

/// All JSON documents below a folder.
fn documents(folder: &Path) -> Vec<(PathBuf, Value)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder);
        for entry in entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                let text = fs::read(&path).unwrap();
                let document = serde_json::from_slice(&text).unwrap();
                found.push((path, document));
            }
        }
    }
    found
}

/// Decodes each story, and encodes its fields and decodes them again. Returns the number of blocks.
fn check_header_blocks(folder: &Path) -> usize {
    let mut count = 0;
    for (path, story) in documents(folder) {
        let mut decoder = Decoder::new(Limits::default());
        for case in story["cases"].as_array().unwrap() {
            let fields = pairs(&case["headers"]);
            if let Some(size) = case["header_table_size"].as_u64() {
                decoder.set_capacity_max(size.try_into().unwrap());
            }
            // The folder with the original data has no encoded blocks.
            if let Some(wire) = case["wire"].as_str() {
                let decoded = decode(&mut decoder, &bytes(wire)).map(|(fields, _)| fields);
                let what = format!("{}, {}", path.display(), case["seqno"]);
                assert_eq!(decoded.as_ref(), Ok(&fields), "{what}");
                count += 1;
            }
            assert_eq!(encoded_and_decoded(&fields), fields);
        }
    }
    count
}

fn pairs(headers: &Value) -> Pairs {
    let headers = headers.as_array().unwrap().iter();
    headers
        .flat_map(|header| header.as_object().unwrap())
        .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
        .collect()
}

fn encoded_and_decoded(fields: &Pairs) -> Pairs {
    let mut block = Vec::new();
    for (name, value) in fields {
        field(
            name.as_bytes(),
            value.as_bytes(),
            Literal::Unindexed,
            &mut block,
        );
    }
    let mut decoder = Decoder::new(Limits::default());
    decode(&mut decoder, &block).unwrap().0
}

/// Parses each frame. Returns their number.
fn check_frames(folder: &Path) -> usize {
    let documents = documents(folder);
    for (path, document) in &documents {
        let wire = bytes(document["wire"].as_str().unwrap());
        let what = path.display().to_string();
        match document["error"].as_array() {
            Some(codes) => check_error(&wire, codes, &what),
            None => check_frame(&wire, &document["frame"], &what),
        }
    }
    documents.len()
}

fn check_error(wire: &[u8], codes: &[Value], what: &str) {
    let violation = match read(&mut Reader::new(BLOCK_BYTES_MAX), [wire]) {
        (_, Some(violation)) => violation,
        (found, None) => match found.as_slice() {
            [Found::Broken(violation)] => *violation,
            other => panic!("{what}: {other:?}"),
        },
    };
    assert!(
        codes.contains(&violation.code.0.into()),
        "{what}: {violation:?}"
    );
}

fn check_frame(wire: &[u8], expected: &Value, what: &str) {
    let header = Header::parse(wire.first_chunk().unwrap());
    let numbers = ["length", "type", "flags", "stream_identifier"].map(|name| &expected[name]);
    let found = [
        header.length,
        header.kind.into(),
        header.flags.into(),
        header.stream,
    ];
    assert_eq!(numbers, found.map(Value::from).each_ref(), "{what}");
    header.check().unwrap();
    let frame = frame::parse(&header, &wire[HEADER_BYTES..]).unwrap();
    let expected = &expected["frame_payload"];
    for (name, value) in payload(&frame).as_object().unwrap() {
        assert_eq!(&expected[name], value, "{what}: {name}");
    }
}

/// The payload in the names of the collection.
fn payload(frame: &Frame<'_>) -> Value {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    match *frame {
        Frame::Data(data) => {
            json!({"data": text(data.content), "padding_length": data.padding.checked_sub(1)})
        }
        Frame::Headers(headers) => json!({
            "header_block_fragment": text(headers.block),
            "stream_dependency": headers.priority.map(|priority| priority.dependency),
            "weight": headers.priority.map(|priority| u32::from(priority.weight) + 1),
            "exclusive": headers.priority.map(|priority| priority.exclusive),
        }),
        Frame::Priority { priority, .. } => json!({
            "stream_dependency": priority.dependency,
            "weight": u32::from(priority.weight) + 1,
            "exclusive": priority.exclusive,
        }),
        Frame::Reset { code, .. } => json!({"error_code": code.0}),
        Frame::Settings(entries) => json!({"settings": entries.collect::<Vec<_>>()}),
        Frame::SettingsAck => json!({"settings": []}),
        Frame::PushPromise(push) => json!({
            "header_block_fragment": text(push.block),
            "promised_stream_id": push.promised,
        }),
        Frame::Ping { opaque, .. } => json!({"opaque_data": text(&opaque)}),
        Frame::Goaway {
            last_stream,
            code,
            debug,
        } => json!({
            "last_stream_id": last_stream,
            "error_code": code.0,
            "additional_debug_data": text(debug),
        }),
        Frame::WindowUpdate { increment, .. } => json!({"window_size_increment": increment}),
        Frame::Continuation { block, .. } => json!({"header_block_fragment": text(block)}),
        Frame::Unknown => json!({}),
    }
}
