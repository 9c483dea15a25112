//! Any bytes as a field section of HTTP/3, and as what the peer's encoder and decoder send: it is
//! refused, or the fields survive being encoded; instructions do not depend on how they are cut.

#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::Fields;
use protocol::h3::error::Violation;
use protocol::h3::qpack::{DecoderStream, EncoderStream, SectionLimits, decode, encode};

fuzz_target!(|data: &[u8]| {
    // With the prefix that every valid section has, and without.
    section(data);
    section(&[&[0, 0], data].concat());
    instructions(data, |bytes, stream: &mut EncoderStream| stream.receive(bytes));
    instructions(data, |bytes, stream: &mut DecoderStream| stream.receive(bytes));
});

fn section(bytes: &[u8]) {
    let limits = SectionLimits {
        list_bytes_max: usize::MAX,
        fields_max: usize::MAX,
    };
    let mut fields = Fields::default();
    let Ok(oversized) = decode(bytes, limits, &mut fields) else {
        return;
    };
    assert_eq!(oversized, None);
    let mut encoded = Vec::new();
    encode::prefix(&mut encoded);
    for (name, value) in fields.iter() {
        encode::field(name, value, &mut encoded);
    }
    let mut again = Fields::default();
    assert_eq!(decode(&encoded, limits, &mut again), Ok(None));
    assert_eq!(again, fields);
}

fn instructions<S: Default>(
    bytes: &[u8],
    receive: impl Fn(&[u8], &mut S) -> Result<u32, Violation>,
) {
    let whole = receive(bytes, &mut S::default());
    let mut stream = S::default();
    let singly: Result<u32, _> = bytes
        .iter()
        .map(|byte| receive(&[*byte], &mut stream))
        .sum();
    assert_eq!(singly, whole);
}
