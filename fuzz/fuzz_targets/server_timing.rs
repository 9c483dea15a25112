//! `Server-Timing` headers: names are tokens, and durations are at most a day.
#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::server_timing::metrics;

const DAY_NS: u64 = 86_400_000_000_000;

fuzz_target!(|bytes: &[u8]| {
    for (name, duration_ns) in metrics(bytes) {
        assert!(!name.is_empty() && name.is_ascii());
        assert!(duration_ns <= DAY_NS);
    }
});
