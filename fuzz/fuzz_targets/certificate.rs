//! Any bytes as a certificate: it is refused, or its texts can be printed on one line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::tls::Certificate;

fuzz_target!(|data: &[u8]| {
    let Some(read) = Certificate::parse(data) else {
        return;
    };
    let dates = [&read.not_before, &read.not_after];
    for text in [&read.subject, &read.issuer]
        .into_iter()
        .chain(dates)
        .chain(&read.names)
    {
        assert!(!text.contains(char::is_control), "{text:?}");
    }
});
