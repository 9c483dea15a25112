//! Any bytes as a chunked body, cut at four places.

#![no_main]

#[path = "../agreement/mod.rs"]
mod agreement;

use libfuzzer_sys::fuzz_target;
use protocol::RequestKind;

fuzz_target!(|data: &[u8]| {
    let Some((cuts, body)) = data.split_first_chunk::<4>() else {
        return;
    };
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    agreement::check(&[RequestKind::Plain], &[head, body].concat(), cuts);
});
