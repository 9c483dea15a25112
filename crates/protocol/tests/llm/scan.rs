//! Scans an event in pieces and shows the result as one line.

use protocol::llm::{Dialect, LlmEvent, LlmScanner, Usage};

/// Pairs of cuts are tried for data of at most this many bytes: there are too many otherwise.
const MAX_PAIRS_BYTES: usize = 160;

/// What an event was: its kind, its dialect, then what it has. Usage is prompt, completion, cached,
/// reasoning.
pub(crate) fn show(event: &LlmEvent) -> String {
    let mut words = vec![format!("{:?}", event.kind)];
    words.extend(event.dialect.map(|dialect| dialect.name().to_string()));
    for (has, name) in [
        (event.has_text, "text"),
        (event.has_reasoning, "reasoning"),
        (event.has_tool_call, "tool"),
    ] {
        words.extend(has.then(|| name.to_string()));
    }
    if let Some(usage) = event.usage {
        let Usage {
            prompt,
            completion,
            cached,
            reasoning,
        } = usage;
        let counts = [prompt, completion, cached, reasoning]
            .map(|count| count.map_or_else(|| "-".to_string(), |count| count.to_string()));
        words.push(format!("usage={}", counts.join("/")));
    }
    words.extend(event.finish.map(|reason| format!("finish={reason:?}")));
    words.extend(event.is_end.then(|| "end".to_string()));
    words.join(" ")
}

pub(crate) fn scan(dialect: Option<Dialect>, pieces: &[&[u8]]) -> LlmEvent {
    let mut scanner = LlmScanner::new(dialect);
    for piece in pieces {
        scanner.data(piece);
    }
    scanner.end()
}

/// Scans the data as a whole, cut at every byte, at every pair of bytes if it is short, and byte by
/// byte. Panics if the results differ.
pub(crate) fn scan_cut_anywhere(dialect: Option<Dialect>, data: &[u8]) -> LlmEvent {
    let whole = scan(dialect, &[data]);
    let text = || String::from_utf8_lossy(data);
    let bytes: Vec<_> = data.chunks(1).collect();
    assert_eq!(scan(dialect, &bytes), whole, "{} byte by byte", text());
    for first in 1..data.len() {
        let (start, rest) = data.split_at(first);
        let cut = scan(dialect, &[start, rest]);
        assert_eq!(cut, whole, "{} cut at {first}", text());
        if data.len() > MAX_PAIRS_BYTES {
            continue;
        }
        for second in 1..rest.len() {
            let (middle, end) = rest.split_at(second);
            let cut = scan(dialect, &[start, middle, end]);
            assert_eq!(cut, whole, "{} cut at {first}, {}", text(), first + second);
        }
    }
    whole
}

/// Checks that each event is what the line says, however it is cut.
pub(crate) fn check(cases: &[(&str, &str)]) {
    for (data, expected) in cases {
        let event = scan_cut_anywhere(None, data.as_bytes());
        assert_eq!(show(&event), *expected, "{data}");
    }
}
