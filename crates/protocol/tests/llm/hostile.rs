//! Input that is meant to exhaust or to confuse the scanner.

use proptest::prelude::*;
use protocol::llm::{Dialect, LlmEventKind, LlmScanner};

use crate::scan::{scan, show};

const MANY: usize = 100_000;

#[test]
fn a_string_of_a_megabyte_is_read_in_any_pieces() {
    let long = "a\\\"{[".repeat(200_000);
    for data in [
        format!(r#"{{"choices":[{{"delta":{{"content":"{long}"}}}}]}}"#),
        format!(r#"{{"{long}":"{long}","choices":[{{"delta":{{"content":"b"}}}}]}}"#),
        format!(r#"{{"x":["{long}"],"choices":[{{"delta":{{"content":"b"}}}}]}}"#),
    ] {
        for step in [1, 7, 4096, data.len()] {
            let pieces: Vec<_> = data.as_bytes().chunks(step).collect();
            assert_eq!(show(&scan(None, &pieces)), "Text openai text", "{step}");
        }
    }
    let data = format!(r#"{{"type":"message_stop{long}"}}"#);
    assert_eq!(show(&scan(None, &[data.as_bytes()])), "Other");
    let data = format!(
        r#"{{"usage":{{"prompt_tokens":1{}}}}}"#,
        "0".repeat(1_000_000)
    );
    assert_eq!(show(&scan(None, &[data.as_bytes()])), "Other");
}

#[test]
fn nesting_of_any_depth_is_skipped() {
    for place in [
        r#"{"x":DEEP,"done":true}"#,
        r#"{"choices":DEEP,"done":true}"#,
        r#"{"choices":[{"delta":{"content":DEEP}}],"done":true}"#,
        r#"{"error":null,"usage":{"prompt_tokens":DEEP},"done":true}"#,
    ] {
        for (open, close) in [("[", "]"), ("{\"x\":", "}"), ("[{\"choices\":", "}]")] {
            let deep = format!("{}1{}", open.repeat(MANY), close.repeat(MANY));
            let event = scan(None, &[place.replace("DEEP", &deep).as_bytes()]);
            assert!(event.is_end, "{place} {open}");
            assert_eq!(event.kind, LlmEventKind::End, "{place} {open}");
            let deep = format!("{}1{}", open.repeat(MANY), close.repeat(MANY - 1));
            let event = scan(None, &[place.replace("DEEP", &deep).as_bytes()]);
            assert_eq!(event.kind, LlmEventKind::Malformed, "{place} {open}");
        }
    }
    let root = "[".repeat(MANY) + &"]".repeat(MANY);
    assert_eq!(show(&scan(None, &[root.as_bytes()])), "Other");
}

#[test]
fn the_scanner_keeps_a_few_hundred_bytes() {
    assert!(
        size_of::<LlmScanner>() <= 256,
        "{}",
        size_of::<LlmScanner>()
    );
}

/// Bytes that are often JSON in part.
fn fragments() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "\\u00",
        "\\u0063",
        "null",
        "true",
        "1",
        "e9",
        "-",
        ".",
        " ",
        "\n",
        "\u{feff}",
        "[DONE]",
        "\"choices\":[{\"delta\":{\"content\":\"a\"}}]",
        "\"usage\":{\"prompt_tokens\":1}",
        "\"type\":\"message_stop\"",
        "\"delta\":",
        "\"error\":",
        "{\"done\":true}",
        "\"message\":{",
        "\"response\":",
    ]);
    let part = prop_oneof![
        4 => known.prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_give_the_same_event_however_they_are_cut(
        data in fragments(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        dialect in prop::option::of(prop::sample::select(Dialect::ALL.to_vec())),
    ) {
        let whole = scan(dialect, &[&data]);
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(data.len() + 1)).collect();
        cuts.push(data.len());
        cuts.sort_unstable();
        let mut start = 0;
        let pieces: Vec<_> = cuts
            .iter()
            .map(|end| &data[std::mem::replace(&mut start, *end)..*end])
            .collect();
        prop_assert_eq!(scan(dialect, &pieces), whole);
        // Nothing is left: the same scanner again.
        let mut scanner = LlmScanner::new(dialect);
        for _ in 0..2 {
            scanner.data(&data);
            prop_assert_eq!(scanner.end(), whole);
        }
        if serde_json::from_slice::<serde_json::Value>(&data).is_ok() {
            prop_assert_ne!(whole.kind, LlmEventKind::Malformed);
        }
    }
}
