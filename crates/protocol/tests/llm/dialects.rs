//! Events in the form of each dialect, from `events/`.

use protocol::llm::{Dialect, LlmEventKind};

use crate::scan::{check, scan, scan_cut_anywhere, show};

/// The events of a file, each with what it is.
fn cases(text: &str) -> Vec<(&str, &str)> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut cases = Vec::new();
    while let Some(data) = lines.next() {
        let result = lines.next().and_then(|line| line.strip_prefix("=> "));
        cases.push((data, result.expect("an event has a result")));
    }
    assert!(cases.len() >= 5, "{text}");
    cases
}

fn cases_of(dialect: Dialect) -> Vec<(&'static str, &'static str)> {
    cases(match dialect {
        Dialect::OpenAi => include_str!("events/openai.txt"),
        Dialect::Completions => include_str!("events/completions.txt"),
        Dialect::Responses => include_str!("events/responses.txt"),
        Dialect::Anthropic => include_str!("events/anthropic.txt"),
        Dialect::Ollama => include_str!("events/ollama.txt"),
    })
}

#[test]
fn events_of_each_dialect_are_recognized_however_they_are_cut() {
    for dialect in Dialect::ALL {
        check(&cases_of(dialect));
    }
}

#[test]
fn lists_of_parts_have_text_and_reasoning() {
    check(&cases(include_str!("events/mistral.txt")));
}

#[test]
fn a_named_dialect_reads_its_own_events_as_if_it_were_recognized() {
    for dialect in Dialect::ALL {
        for (data, expected) in cases_of(dialect) {
            let event = scan_cut_anywhere(Some(dialect), data.as_bytes());
            assert_eq!(show(&event), expected, "{data} as {}", dialect.name());
        }
    }
}

#[test]
fn a_named_dialect_finds_nothing_in_events_of_others() {
    for dialect in Dialect::ALL {
        let others = Dialect::ALL.into_iter().filter(|other| *other != dialect);
        for (data, _) in others.flat_map(cases_of) {
            let event = scan(Some(dialect), &[data.as_bytes()]);
            assert!(!event.has_tokens(), "{data} as {}", dialect.name());
            assert_ne!(event.kind, LlmEventKind::Malformed, "{data}");
            assert!(event.dialect.is_none_or(|found| found == dialect), "{data}");
        }
    }
}
