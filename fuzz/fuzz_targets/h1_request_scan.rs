//! Any bytes as requests: accepted requests can be repeated, each prefix of them is complete or
//! incomplete but never invalid, and a fault has a position within the bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::RequestKind;
use protocol::request::{RequestFault, scan};

fuzz_target!(|data: &[u8]| {
    let mut kinds = Vec::new();
    match scan(data, &mut kinds) {
        Ok(()) => accepted(data, &kinds),
        Err(error) => {
            let lines = 1 + data.iter().filter(|byte| **byte == b'\n').count();
            assert!((1..=lines).contains(&error.line), "{error}");
            let line = data.split(|byte| *byte == b'\n').nth(error.line - 1);
            // One byte after the last is where something is missing, and the LF counts.
            let length = line.map_or(0, <[u8]>::len);
            assert!(
                (1..=length + 2).contains(&error.column),
                "{error} of {length}"
            );
        }
    }
});

/// Checking more prefixes of a long input takes time that other inputs use better.
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
