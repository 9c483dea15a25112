//! CPU time of reading one event of a language model's stream: `cargo run --release -p protocol
//! --example llm_cost [EVENT [ROUNDS]]`.
//!
//! Instructions per event: the difference of two runs below callgrind with one EVENT, divided by
//! the difference of their ROUNDS.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement for developers, with a clock, a terminal and arguments of its own"
)]

use std::hint::black_box;
use std::time::Instant;

use plan::EventsFormat;
use protocol::llm::{LlmEventKind, LlmScanner, LlmStream};
use protocol::{EventSplitter, StreamSpec};

/// Events of about 200 bytes, as servers send them.
const EVENTS: [(&str, &str); 5] = [
    (
        "chat",
        concat!(
            r#"{"id":"chatcmpl-0a1b2c3d4e5f60718293a4b5","object":"chat.completion.chunk","#,
            r#""created":1767225600,"model":"small-model","choices":[{"index":0,"delta":"#,
            r#"{"content":" Hello"},"logprobs":null,"finish_reason":null}]}"#
        ),
    ),
    (
        "completions",
        concat!(
            r#"{"id":"cmpl-0a1b2c3d4e5f60718293a4b5","object":"text_completion","#,
            r#""created":1767225600,"model":"organization/model-8B-instruct","choices":"#,
            r#"[{"index":0,"text":" Hello","logprobs":null,"finish_reason":null}]}"#
        ),
    ),
    (
        "responses",
        concat!(
            r#"{"type":"response.output_text.delta","sequence_number":17,"item_id":"#,
            r#""msg_0a1b2c3d4e5f60718293a4b50a1b2c3d4e5f6071","output_index":0,"#,
            r#""content_index":0,"delta":" Hello","logprobs":[],"obfuscation":"0a1b2c3d4e"}"#
        ),
    ),
    (
        "anthropic",
        concat!(
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"#,
            r#"" Hello, this is an event with several words, so that it has as many bytes as "#,
            r#"the events of the other dialects"}}"#
        ),
    ),
    (
        "ollama",
        concat!(
            r#"{"model":"model-8b-instruct-q4","created_at":"2026-01-01T00:00:00.123456789Z","#,
            r#""message":{"role":"assistant","content":" Hello, this is an event with some "#,
            r#"more words"},"done":false}"#
        ),
    ),
];

const ROUNDS: u64 = 1_000_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let only = arguments.next();
    let rounds = arguments.next().and_then(|text| text.parse().ok());
    let rounds = rounds.unwrap_or(ROUNDS);
    for (name, data) in EVENTS {
        let size = data.len();
        let sse = format!("{name}-sse");
        if only.as_ref().is_none_or(|only| only == name) {
            println!("{name:16} {size} bytes {:8.1} ns", scan_ns(data, rounds));
        }
        if only.as_ref().is_none_or(|only| *only == sse) {
            println!("{sse:16} {size} bytes {:8.1} ns", stream_ns(data, rounds));
        }
    }
}

/// Nanoseconds per event that comes as a whole.
fn scan_ns(data: &str, rounds: u64) -> f64 {
    let mut scanner = LlmScanner::new(None);
    let started = Instant::now();
    for _ in 0..rounds {
        scanner.data(black_box(data.as_bytes()));
        assert_eq!(black_box(scanner.end()).kind, LlmEventKind::Text);
    }
    started.elapsed().as_secs_f64() * 1e9 / rounds as f64
}

/// The same with the splitter before it and the response's figures after it.
fn stream_ns(data: &str, rounds: u64) -> f64 {
    let mut splitter = EventSplitter::new(StreamSpec {
        format: EventsFormat::Sse,
        end_marker: b"[DONE]".as_slice().into(),
        dialect: None,
        keeps_answers: false,
    });
    let mut scanner = LlmScanner::new(None);
    let mut stream = LlmStream::default();
    let event = format!("data: {data}\n\n");
    splitter.begin(200);
    let started = Instant::now();
    for time_ns in 0..rounds {
        let mut sink = scanner.sink(|event| stream.add(time_ns, &event));
        splitter.content_to(black_box(event.as_bytes()), &mut sink);
    }
    let elapsed = started.elapsed();
    assert_eq!(stream.token_events, rounds);
    elapsed.as_secs_f64() * 1e9 / rounds as f64
}
