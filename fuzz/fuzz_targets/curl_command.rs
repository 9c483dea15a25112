//! Any text as a curl command: it is refused with one line, or every request of it has a valid URL
//! and is one line of a requests file. Nothing is read.

#![no_main]

#[path = "../given.rs"]
mod given;

use convert::curl;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let read = |_: &std::path::Path| Ok(b"a=1\r\n".to_vec());
    for text in [text.to_owned(), format!("curl http://h/ {text}")] {
        match curl::from_text(&text, &read) {
            Err(error) => given::one_line(&error.to_string()),
            Ok(converted) => {
                given::converted(&converted.requests);
                let (hidden, _) = converted.without_secrets();
                assert_eq!(hidden.without_secrets(), (hidden.clone(), false));
            }
        }
    }
});
