//! Any bytes as the responses to a few requests, cut at four places.

#![no_main]

#[path = "../agreement/mod.rs"]
mod agreement;

use libfuzzer_sys::fuzz_target;
use protocol::RequestKind;

fuzz_target!(|data: &[u8]| {
    let Some((&[kinds, a, b, c, d], input)) = data.split_first_chunk() else {
        return;
    };
    // The two lowest bits are the number of requests, the next three pairs their kinds.
    let kinds: Vec<_> = (1..=kinds & 3).map(|at| kind(kinds >> (2 * at))).collect();
    agreement::check(&kinds, input, &[a, b, c, d]);
});

fn kind(bits: u8) -> RequestKind {
    match bits & 3 {
        0 | 1 => RequestKind::Plain,
        2 => RequestKind::Head,
        _ => RequestKind::Connect,
    }
}
