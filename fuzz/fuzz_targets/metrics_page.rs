//! Pages of metrics in Prometheus's text format: names are names, and what is read is part of the
//! page.
#![no_main]

use libfuzzer_sys::fuzz_target;
use telemetry::scrape::Page;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(page) = Page::read(&text) {
        assert!(page.samples.len() <= text.lines().count());
        for sample in &page.samples {
            assert!(!sample.name.is_empty() && sample.name.is_ascii());
            let _ = page.kind(sample.name);
            for (name, value) in &sample.labels {
                assert!(!name.is_empty() && name.is_ascii());
                assert!(value.len() <= text.len());
            }
        }
    }
});
