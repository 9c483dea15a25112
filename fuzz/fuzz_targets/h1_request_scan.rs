//! Any bytes as requests: what is accepted can be repeated, its beginnings are whole or incomplete and
//! never wrong, and a fault has a place within the bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::RequestKind;
use protocol::h1::request::{RequestFault, scan};

fuzz_target!(|data: &[u8]| {
    let mut kinds = Vec::new();
    match scan(data, &mut kinds) {
        Ok(()) => accepted(data, &kinds),
        Err(error) => {
            let lines = 1 + data.iter().filter(|byte| **byte == b'\n').count();
            assert!((1..=lines).contains(&error.line), "{error}");
            let line = data.split(|byte| *byte == b'\n').nth(error.line - 1);
            // One behind the last byte is where something is missing, and the line's LF counts.
            let length = line.map_or(0, <[u8]>::len);
            assert!(
                (1..=length + 2).contains(&error.column),
                "{error} of {length}"
            );
        }
    }
});

/// Longer inputs would take time that is better spent on other ones.
const BEGINNINGS_MAX: usize = 512;

fn accepted(data: &[u8], kinds: &[RequestKind]) {
    assert!(!kinds.is_empty());
    let mut found = Vec::new();
    match scan(&data.repeat(2), &mut found) {
        Ok(()) => assert_eq!(found, kinds.repeat(2)),
        Err(error) => assert_eq!(error.reason, RequestFault::AfterClose),
    }
    for length in 0..data.len().min(BEGINNINGS_MAX) {
        match scan(&data[..length], &mut found) {
            Ok(()) => {}
            Err(error) => assert_eq!(error.reason, RequestFault::Incomplete, "{length} bytes"),
        }
        assert!(kinds.starts_with(&found), "{length} bytes");
    }
}
