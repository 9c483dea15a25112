//! Any text as a HAR file: it is refused with one line, or every request of it has a valid URL and
//! is one line of a requests file.

#![no_main]

#[path = "../given.rs"]
mod given;

use convert::{Variables, har, requests_file};
use libfuzzer_sys::fuzz_target;

/// A file with everything that is read.
const RECORDING: &str = r#"{"log": {"entries": [{"request": {"method": "POST", "url":
"https://h/a?b=c#d", "headers": [{"name": ":path", "value": "/"}, {"name": "A", "value": "b"}],
"postData": {"mimeType": "a/b", "text": "YQ==", "encoding": "base64", "params":
[{"name": "a", "value": "b", "fileName": "c", "contentType": "d/e"}]}}},
{"request": {"method": "GET", "url": "data:,x", "headers": []}}]}}"#;

fuzz_target!(|data: &[u8]| {
    let Some((how, rest)) = data.split_first() else {
        return;
    };
    let bytes = match how % 2 {
        0 => rest.to_vec(),
        _ => given::with_pieces_replaced(RECORDING.as_bytes(), rest),
    };
    let Ok(text) = String::from_utf8(bytes) else {
        return;
    };
    match har::convert(&text, &har::Filter::default()) {
        Err(error) => given::one_line(&error.to_string()),
        Ok(converted) => {
            given::converted(&converted.requests);
            let mut variables = Variables::default();
            let lines = requests_file::text_with_variables(&converted.requests, &mut variables);
            assert_eq!(lines.lines().count(), converted.requests.len());
        }
    }
});
