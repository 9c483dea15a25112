//! What the model has said, from the strings of its events.

use proptest::prelude::*;
use protocol::llm::{Answer, Dialect, LlmScanner, MAX_ANSWER_BYTES};
use serde_json::{Value, json};

/// The answer of these events, each in pieces of so many bytes.
fn answer_in_pieces(dialect: Option<Dialect>, events: &[String], bytes: usize) -> Answer {
    let mut scanner = LlmScanner::new(dialect).keeping_answers();
    for event in events {
        for piece in event.as_bytes().chunks(bytes) {
            scanner.data(piece);
        }
        scanner.end();
    }
    scanner.take_answer().expect("it is kept")
}

/// The same however the events are cut.
fn answer(dialect: Option<Dialect>, events: &[String]) -> Answer {
    let whole = answer_in_pieces(dialect, events, usize::MAX);
    for bytes in 1..=40 {
        assert_eq!(
            answer_in_pieces(dialect, events, bytes),
            whole,
            "{bytes} bytes"
        );
    }
    whole
}

/// What the inside of a JSON string says.
fn decoded(inside: &[u8]) -> String {
    let inside = std::str::from_utf8(inside).expect("it is text");
    serde_json::from_str(&format!("\"{inside}\"")).expect("it is the inside of a string")
}

fn chat(delta: &Value) -> String {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}).to_string()
}

fn strings(values: &[&str]) -> Vec<String> {
    values.iter().map(|it| (*it).to_owned()).collect()
}

#[test]
fn text_of_each_dialect_is_kept_and_reasoning_is_not() {
    let completion = |text| json!({"choices": [{"text": text}]}).to_string();
    let typed = |kind, delta| json!({"type": kind, "delta": delta}).to_string();
    let block = |delta: Value| json!({"type": "content_block_delta", "delta": delta}).to_string();
    let ollama = |message: Value| json!({"message": message, "done": false}).to_string();
    for (dialect, events) in [
        (
            Dialect::OpenAi,
            vec![
                chat(&json!({"role": "assistant", "content": ""})),
                chat(&json!({"reasoning_content": "Hm."})),
                chat(&json!({"content": "say \"hi\"\n"})),
                chat(&json!({"content": "\u{1f600}!"})),
            ],
        ),
        (
            Dialect::Completions,
            vec![completion("say \"hi\"\n"), completion("\u{1f600}!")],
        ),
        (
            Dialect::Responses,
            vec![
                typed("response.reasoning_text.delta", "Hm."),
                typed("response.output_text.delta", "say \"hi\"\n\u{1f600}!"),
                typed("response.function_call_arguments.delta", "{}"),
            ],
        ),
        (
            Dialect::Anthropic,
            vec![
                block(json!({"type": "thinking_delta", "thinking": "Hm."})),
                block(json!({"type": "text_delta", "text": "say \"hi\"\n"})),
                block(json!({"type": "text_delta", "text": "\u{1f600}!"})),
            ],
        ),
        (
            Dialect::Ollama,
            vec![
                ollama(json!({"content": "", "thinking": "Hm."})),
                ollama(json!({"content": "say \"hi\"\n\u{1f600}!"})),
            ],
        ),
    ] {
        for known in [Some(dialect), None] {
            let answer = answer(known, &events);
            assert_eq!(
                decoded(&answer.text),
                "say \"hi\"\n\u{1f600}!",
                "{dialect:?}"
            );
            assert!(!answer.is_cut);
        }
    }
}

#[test]
fn halves_of_a_character_in_two_events_are_one_character() {
    let half = |code| format!("{{\"choices\":[{{\"delta\":{{\"content\":\"{code}\"}}}}]}}");
    let answer = answer(None, &[half("a\\ud83d"), half("\\ude00b")]);
    assert_eq!(answer.text, b"a\\ud83d\\ude00b");
    assert_eq!(decoded(&answer.text), "a\u{1f600}b");
}

#[test]
fn calls_of_tools_are_put_together_from_their_parts() {
    let part = |call: Value| chat(&json!({"tool_calls": [call]}));
    let answer = answer(
        Some(Dialect::OpenAi),
        &[
            part(json!({"index": 0, "id": "c1", "type": "function",
                        "function": {"name": "weather", "arguments": ""}})),
            part(json!({"index": 0, "function": {"arguments": "{\"city\":"}})),
            // Some servers repeat the identifier.
            part(json!({"index": 0, "id": "c1", "function": {"arguments": "\"Bern\"}"}})),
            part(json!({"index": 1, "id": "c2", "function": {"name": "time",
                        "arguments": "{}"}})),
        ],
    );
    let calls = answer.calls.iter().map(|call| {
        let parts = [&call.id, &call.name, &call.arguments];
        parts.map(|part| decoded(part))
    });
    let expected = [
        ["c1", "weather", "{\"city\":\"Bern\"}"],
        ["c2", "time", "{}"],
    ];
    assert_eq!(calls.collect::<Vec<_>>(), expected);
}

#[test]
fn calls_of_tools_of_anthropic_are_put_together_from_their_blocks() {
    let events = [
        json!({"type": "content_block_start", "index": 1,
               "content_block": {"type": "tool_use", "id": "t1", "name": "weather"}}),
        json!({"type": "content_block_delta", "index": 1,
               "delta": {"type": "input_json_delta", "partial_json": "{\"city\": "}}),
        json!({"type": "content_block_delta", "index": 1,
               "delta": {"type": "input_json_delta", "partial_json": "\"Bern\"}"}}),
    ];
    let events: Vec<String> = events.iter().map(Value::to_string).collect();
    let answer = answer(Some(Dialect::Anthropic), &events);
    assert_eq!(answer.calls.len(), 1);
    assert_eq!(decoded(&answer.calls[0].name), "weather");
    assert_eq!(decoded(&answer.calls[0].arguments), "{\"city\": \"Bern\"}");
}

#[test]
fn an_event_that_is_not_believed_says_nothing() {
    let events = strings(&[
        r#"{"choices":[{"delta":{"content":"a"}}]}"#,
        r#"{"choices":[{"delta":{"content":"b"}}]"#,
        r#"{"choices":[{"delta":{"content":"c"#,
        r#"{"choices":[{"delta":{"content":"d"}}]}"#,
    ]);
    assert_eq!(answer(None, &events).text, b"ad");
}

#[test]
fn another_response_begins_without_an_answer() {
    let mut scanner = LlmScanner::new(None).keeping_answers();
    scanner.data(chat(&json!({"content": "a"})).as_bytes());
    scanner.end();
    scanner.begin();
    assert_eq!(scanner.take_answer(), Some(Answer::default()));
    assert_eq!(LlmScanner::new(None).take_answer(), None);
}

#[test]
fn an_endless_answer_is_cut() {
    let mut scanner = LlmScanner::new(None).keeping_answers();
    let event = chat(&json!({"content": "x".repeat(100_000)}));
    for _ in 0..30 {
        scanner.data(event.as_bytes());
        scanner.end();
    }
    let answer = scanner.take_answer().expect("it is kept");
    assert!(answer.is_cut);
    assert!(answer.text.len() <= MAX_ANSWER_BYTES);
    // One string without an end.
    scanner.data(b"{\"choices\":[{\"delta\":{\"content\":\"");
    for _ in 0..30 {
        scanner.data(&[b'y'; 100_000]);
    }
    scanner.data(b"\"}}]}");
    scanner.end();
    assert!(scanner.take_answer().expect("it is kept").is_cut);
}

proptest! {
    #[test]
    fn the_answer_is_the_text_of_all_events(parts in prop::collection::vec(".{0,12}", 0..8)) {
        let events: Vec<String> = parts
            .iter()
            .map(|part| chat(&json!({"content": part})))
            .collect();
        let answer = answer_in_pieces(None, &events, 3);
        prop_assert_eq!(decoded(&answer.text), parts.concat());
    }
}
