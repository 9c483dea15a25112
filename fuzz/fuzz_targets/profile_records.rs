//! Any bytes as records of a ring of perf_event_open: reading them ends.

#![no_main]

use libfuzzer_sys::fuzz_target;
use telemetry::addresses_in_records;

fuzz_target!(|data: &[u8]| {
    // An address takes eight bytes.
    assert!(addresses_in_records(data) * 8 <= data.len());
});
