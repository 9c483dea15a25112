//! A slow reader of events on values of `serde_json` as the oracle: random JSON with the keys of
//! interest at random places is the same to both.

use proptest::prelude::*;
use protocol::llm::{Dialect, FinishReason, LlmEvent, LlmEventKind, Usage};
use serde_json::Value;

use crate::scan::{scan, show};

fn has_characters(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

/// The objects of a list.
fn objects(value: &Value) -> impl Iterator<Item = &Value> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter(|item| item.is_object())
}

fn count(value: &Value) -> Option<u64> {
    let whole = |number: f64| {
        (number >= 0.0 && number < 2f64.powi(64) && number.fract() == 0.0).then_some(number as u64)
    };
    value
        .as_u64()
        .or_else(|| value.as_number()?.as_f64().and_then(whole))
}

fn is_error(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false)) && value.as_str() != Some("")
}

fn reasoning(value: &Value) -> bool {
    has_characters(value)
        || objects(value)
            .any(|part| has_characters(&part["text"]) || has_characters(&part["summary"]))
}

/// Whether a message's content has text, and whether it has reasoning.
fn content(value: &Value) -> (bool, bool) {
    (
        has_characters(value) || objects(value).any(|part| has_characters(&part["text"])),
        objects(value).any(|part| reasoning(&part["thinking"])),
    )
}

fn function(value: &Value) -> bool {
    value.is_object()
        && ["name", "arguments", "input"]
            .iter()
            .any(|key| has_characters(&value[key]))
}

fn tool_calls(value: &Value) -> bool {
    objects(value).any(|call| function(&call["function"]) || function(&call["custom"]))
}

fn finish(word: &str) -> FinishReason {
    match word {
        "stop" | "end_turn" | "stop_sequence" | "eos_token" => FinishReason::Stop,
        "length"
        | "max_tokens"
        | "max_output_tokens"
        | "model_length"
        | "model_context_window_exceeded" => FinishReason::Length,
        "tool_calls" | "function_call" | "tool_use" => FinishReason::ToolCalls,
        "content_filter" | "refusal" => FinishReason::ContentFilter,
        _ => FinishReason::Other,
    }
}

/// What an object with a certain dialect's events is.
fn read(event: &Value, dialect: Option<Dialect>) -> LlmEvent {
    let is = |these: &[Dialect]| dialect.is_none_or(|only| these.contains(&only));
    use Dialect::{Anthropic, Completions, Ollama, OpenAi, Responses};
    let object = |value: &'static str| &event[value];
    let mut out = LlmEvent {
        kind: LlmEventKind::Other,
        has_text: false,
        has_reasoning: false,
        has_tool_call: false,
        usage: None,
        finish: None,
        is_end: false,
        dialect: None,
    };
    if !event.is_object() {
        return out;
    }
    let (mut failed, mut prelude) = (is_error(object("error")), false);
    let mut words = Vec::new();
    let mut usages = Vec::new();

    if is(&[OpenAi, Completions]) {
        usages.push(object("usage"));
        for choice in objects(object("choices")) {
            prelude = true;
            failed |= is_error(&choice["error"]);
            words.push(&choice["finish_reason"]);
            usages.push(&choice["usage"]);
            if is(&[Completions]) && choice.get("text").is_some() {
                out.dialect.get_or_insert(Completions);
                out.has_text |= has_characters(&choice["text"]);
            }
            if is(&[OpenAi]) && choice.get("delta").is_some() {
                out.dialect = Some(OpenAi);
                let delta = &choice["delta"];
                if !delta.is_object() {
                    continue;
                }
                let (text, thought) = content(&delta["content"]);
                out.has_text |= text || has_characters(&delta["refusal"]);
                out.has_reasoning |= thought
                    || ["reasoning", "reasoning_content", "reasoning_details"]
                        .iter()
                        .any(|key| reasoning(&delta[key]));
                out.has_tool_call |=
                    tool_calls(&delta["tool_calls"]) || function(&delta["function_call"]);
            }
        }
    }
    if is(&[Ollama]) {
        out.has_text |= has_characters(object("response"));
        out.has_reasoning |= has_characters(object("thinking"));
        let message = object("message");
        if message.is_object() {
            let (text, thought) = content(&message["content"]);
            out.has_text |= text;
            out.has_reasoning |= thought || has_characters(&message["thinking"]);
            out.has_tool_call |= tool_calls(&message["tool_calls"]);
        }
        words.push(object("done_reason"));
        out.is_end |= *object("done") == Value::Bool(true);
        if event.get("done").is_some() {
            prelude = true;
            out.dialect.get_or_insert(Ollama);
        }
    }
    let event_type = object("type").as_str().unwrap_or("");
    if is(&[Responses])
        && let Some(word) = event_type.strip_prefix("response.")
    {
        out.dialect = Some(Responses);
        let has_delta = has_characters(object("delta"));
        match word {
            "output_text.delta" | "refusal.delta" => out.has_text |= has_delta,
            "reasoning_text.delta" | "reasoning_summary_text.delta" => {
                out.has_reasoning |= has_delta;
            }
            "function_call_arguments.delta"
            | "custom_tool_call_input.delta"
            | "mcp_call_arguments.delta"
            | "code_interpreter_call_code.delta"
            | "shell_call_command.delta" => out.has_tool_call |= has_delta,
            "output_item.added" => {
                prelude = true;
                out.has_tool_call |= has_characters(&object("item")["name"]);
            }
            "created"
            | "queued"
            | "in_progress"
            | "content_part.added"
            | "reasoning_summary_part.added" => prelude = true,
            "completed" | "incomplete" => out.is_end = true,
            "failed" => {
                out.is_end = true;
                failed = true;
            }
            _ => {}
        }
    }
    if is(&[Responses]) && object("response").is_object() {
        let response = object("response");
        failed |= is_error(&response["error"]);
        if response["incomplete_details"].is_object() {
            words.push(&response["incomplete_details"]["reason"]);
        }
        usages.push(&response["usage"]);
    }
    if is(&[Anthropic]) {
        usages.push(object("usage"));
        if object("message").is_object() {
            usages.push(&object("message")["usage"]);
        }
        let (delta, block) = (object("delta"), object("content_block"));
        if delta.is_object() {
            words.push(&delta["stop_reason"]);
        }
        match event_type {
            "message_start"
            | "message_delta"
            | "message_stop"
            | "content_block_start"
            | "content_block_delta"
            | "content_block_stop"
            | "ping" => {
                out.dialect = Some(Anthropic);
            }
            _ => {}
        }
        prelude |= matches!(event_type, "message_start" | "content_block_start");
        out.is_end |= event_type == "message_stop";
        if matches!(event_type, "content_block_start" | "content_block_delta") {
            for part in [delta, block].into_iter().filter(|part| part.is_object()) {
                out.has_text |= has_characters(&part["text"]);
                out.has_reasoning |= has_characters(&part["thinking"]);
            }
            out.has_tool_call |= delta.is_object() && has_characters(&delta["partial_json"]);
            out.has_tool_call |= block.is_object() && has_characters(&block["name"]);
        }
    }
    failed |= is(&[Responses, Anthropic]) && event_type == "error";

    let words: Vec<_> = words.into_iter().filter_map(Value::as_str).collect();
    failed |= words.contains(&"error");
    out.finish = words
        .iter()
        .filter(|word| !word.is_empty() && **word != "error")
        .map(|word| finish(word))
        .next_back();
    if out.dialect == Some(Responses) && out.finish.is_none() {
        out.finish = match event_type {
            "response.completed" => Some(FinishReason::Stop),
            "response.incomplete" => Some(FinishReason::Other),
            _ => None,
        };
    }
    out.usage = read_usage(
        event,
        &usages,
        is(&[Ollama]),
        out.dialect == Some(Anthropic),
    );
    out.kind = if failed {
        LlmEventKind::Error
    } else if out.has_text {
        LlmEventKind::Text
    } else if out.has_tool_call {
        LlmEventKind::ToolCall
    } else if out.has_reasoning {
        LlmEventKind::Reasoning
    } else if out.is_end || out.finish.is_some() {
        LlmEventKind::End
    } else if prelude {
        LlmEventKind::Prelude
    } else if out.usage.is_some() {
        LlmEventKind::Usage
    } else {
        LlmEventKind::Other
    };
    out
}

fn read_usage(
    event: &Value,
    usages: &[&Value],
    is_ollama: bool,
    is_anthropic: bool,
) -> Option<Usage> {
    let find = |keys: &[&str]| {
        usages
            .iter()
            .filter(|usage| usage.is_object())
            .find_map(|usage| {
                keys.iter().find_map(|key| {
                    let mut value = *usage;
                    for part in key.split('.') {
                        value = value.as_object()?.get(part)?;
                    }
                    count(value)
                })
            })
    };
    let of_line = |key: &str| if is_ollama { count(&event[key]) } else { None };
    let whole = find(&["prompt_tokens"]).or_else(|| of_line("prompt_eval_count"));
    let parts = match whole {
        Some(_) => [None; 3],
        None => [
            find(&["input_tokens"]),
            find(&["cache_read_input_tokens"]),
            find(&["cache_creation_input_tokens"]),
        ],
    };
    let sum = parts.iter().any(Option::is_some).then(|| {
        parts
            .iter()
            .flatten()
            .fold(0, |sum: u64, part| sum.saturating_add(*part))
    });
    let completion =
        find(&["completion_tokens", "output_tokens"]).or_else(|| of_line("eval_count"));
    let starts = is_anthropic && event["type"] == "message_start";
    let usage = Usage {
        prompt: whole.or(sum),
        completion: if starts { None } else { completion },
        cached: find(&[
            "cached_tokens",
            "prompt_tokens_details.cached_tokens",
            "input_tokens_details.cached_tokens",
        ])
        .or(parts[1]),
        reasoning: find(&[
            "reasoning_tokens",
            "completion_tokens_details.reasoning_tokens",
            "completion_tokens_details.thinking_tokens",
            "output_tokens_details.reasoning_tokens",
            "output_tokens_details.thinking_tokens",
        ]),
    };
    (usage != Usage::default()).then_some(usage)
}

/// Choices by which a document is made; all of them 0 when they are used up, which ends it.
struct Tape<'a> {
    bytes: std::slice::Iter<'a, u8>,
    json: String,
}

/// What a key's value mostly is, so that deep paths are often complete.
const CHILDREN: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "choices",
            "usage",
            "error",
            "type",
            "delta",
            "response",
            "item",
            "content_block",
            "message",
            "thinking",
            "done",
            "done_reason",
            "prompt_eval_count",
            "eval_count",
            "id",
        ],
    ),
    (
        "choices",
        &[
            "delta",
            "text",
            "finish_reason",
            "error",
            "index",
            "logprobs",
            "usage",
        ],
    ),
    (
        "delta",
        &[
            "content",
            "reasoning_content",
            "reasoning",
            "reasoning_details",
            "refusal",
            "role",
            "tool_calls",
            "function_call",
            "text",
            "thinking",
            "partial_json",
            "stop_reason",
            "type",
            "signature",
        ],
    ),
    (
        "content_block",
        &["type", "text", "thinking", "name", "input"],
    ),
    (
        "message",
        &["content", "thinking", "tool_calls", "usage", "role"],
    ),
    (
        "response",
        &["usage", "error", "incomplete_details", "output"],
    ),
    ("incomplete_details", &["reason"]),
    ("item", &["name", "arguments", "type"]),
    ("content", &["type", "text", "thinking"]),
    ("thinking", &["type", "text", "summary"]),
    ("reasoning", &["type", "text", "summary"]),
    ("reasoning_details", &["type", "text", "summary"]),
    ("tool_calls", &["function", "custom", "id"]),
    ("function", &["name", "arguments", "input"]),
    ("custom", &["name", "input"]),
    ("function_call", &["name", "arguments"]),
    (
        "usage",
        &[
            "prompt_tokens",
            "completion_tokens",
            "prompt_tokens_details",
            "completion_tokens_details",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
            "total_tokens",
            "cached_tokens",
        ],
    ),
    ("prompt_tokens_details", &["cached_tokens", "audio_tokens"]),
    (
        "completion_tokens_details",
        &["reasoning_tokens", "audio_tokens"],
    ),
];

/// Keys of Responses and Anthropic instead of OpenAI's chat: with both in one object, the later one
/// would count, and a value of `serde_json` has no order.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("prompt_tokens", "input_tokens"),
    ("completion_tokens", "output_tokens"),
    ("prompt_tokens_details", "input_tokens_details"),
    ("completion_tokens_details", "output_tokens_details"),
];

const LISTS: &[&str] = &[
    "choices",
    "content",
    "thinking",
    "reasoning_details",
    "tool_calls",
    "reasoning",
];

const STRINGS: &[&str] = &[
    "",
    "a",
    " ",
    "stop",
    "length",
    "tool_use",
    "refusal",
    "error",
    "message_start",
    "message_delta",
    "message_stop",
    "content_block_start",
    "content_block_delta",
    "ping",
    "response.output_text.delta",
    "response.reasoning_summary_text.delta",
    "response.code_interpreter_call_code.delta",
    "response.output_item.added",
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.created",
    "{\"choices\":[{\"delta\":{\"content\":\"a\"}}]}",
    "\\",
    "\"",
    "\u{1f600}\n",
    "]}",
    "a long word that is longer than any of the words that are known",
];

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "12",
    "12.0",
    "1.2e1",
    "12E0",
    "-1",
    "1.5",
    "18446744073709551615",
    "18446744073709551616",
    "1e30",
    "-0.0",
];

impl Tape<'_> {
    fn next(&mut self, choices: usize) -> usize {
        usize::from(self.bytes.next().copied().unwrap_or(0)) % choices
    }

    fn space(&mut self) {
        let spaces = ["", "", "", "", " ", "\n", "\t\r "];
        let at = self.next(spaces.len());
        self.json.push_str(spaces[at]);
    }

    /// Some characters as escapes.
    fn string(&mut self, text: &str) {
        self.json.push('"');
        let escaped = self.next(4) == 1;
        for character in text.chars() {
            if escaped && self.next(3) == 1 {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    self.json.push_str(&format!("\\u{unit:04x}"));
                }
                continue;
            }
            match character {
                '"' | '\\' => self.json.extend(['\\', character]),
                '\n' => self.json.push_str("\\n"),
                _ => self.json.push(character),
            }
        }
        self.json.push('"');
    }

    fn value(&mut self, key: &str, depth: usize) {
        self.space();
        let choice = if depth == 0 { 4 } else { self.next(12) };
        match choice {
            0 => self.json.push_str("null"),
            1 => self.json.push_str("true"),
            2 => self.json.push_str("false"),
            3 if depth < 12 => self.list(key, depth),
            4 if depth < 12 => self.object(key, depth),
            5 | 6 if depth < 12 && CHILDREN.iter().any(|(parent, _)| *parent == key) => {
                if LISTS.contains(&key) {
                    self.list(key, depth);
                } else {
                    self.object(key, depth);
                }
            }
            5..=7 => {
                let at = self.next(NUMBERS.len());
                self.json.push_str(NUMBERS[at]);
            }
            _ => {
                let at = self.next(STRINGS.len());
                self.string(STRINGS[at]);
            }
        }
        self.space();
    }

    fn list(&mut self, key: &str, depth: usize) {
        self.json.push('[');
        self.space();
        for at in 0..self.next(4) {
            if at > 0 {
                self.json.push(',');
            }
            if self.next(4) == 0 {
                self.value(key, depth + 1);
            } else {
                self.object(key, depth + 1);
            }
        }
        self.json.push(']');
    }

    fn object(&mut self, key: &str, depth: usize) {
        self.json.push('{');
        self.space();
        let all: Vec<_> = CHILDREN
            .iter()
            .flat_map(|(_, keys)| *keys)
            .copied()
            .collect();
        let mut used = Vec::new();
        for _ in 0..self.next(6) {
            let likely = CHILDREN.iter().find(|(parent, _)| *parent == key);
            let keys = match likely {
                Some((_, keys)) if self.next(8) > 0 => *keys,
                _ => all.as_slice(),
            };
            let child = keys[self.next(keys.len())];
            if used.contains(&child) {
                continue;
            }
            if !used.is_empty() {
                self.json.push(',');
                self.space();
            }
            used.push(child);
            let other = OTHER_NAMES.iter().find(|(name, _)| *name == child);
            match other {
                Some((_, other)) if self.next(3) == 0 => self.string(other),
                _ => self.string(child),
            }
            self.space();
            self.json.push(':');
            self.value(child, depth + 1);
        }
        self.json.push('}');
    }
}

fn document(bytes: &[u8]) -> String {
    let mut tape = Tape {
        bytes: bytes.iter(),
        json: String::new(),
    };
    tape.value("", 0);
    tape.json
}

/// Of several usages in a document, or several reasons, the last one's counts; a value of
/// `serde_json` has lost the order. Such documents come from no server.
fn is_ambiguous(event: &Value) -> bool {
    let has_several = |value: &Value, names: &[&str]| {
        names
            .iter()
            .filter(|name| value.get(name).is_some())
            .count()
            > 1
    };
    let choices = || objects(&event["choices"]);
    let usages: Vec<_> = ["/usage", "/message/usage", "/response/usage"]
        .iter()
        .filter_map(|place| event.pointer(place))
        .chain(choices().filter_map(|choice| choice.get("usage")))
        .collect();
    let is_line = event.get("prompt_eval_count").is_some() || event.get("eval_count").is_some();
    let reasons = [
        "/done_reason",
        "/delta/stop_reason",
        "/response/incomplete_details/reason",
    ];
    let reasons = reasons
        .iter()
        .filter(|place| event.pointer(place).is_some());
    let in_choices = choices().any(|choice| choice.get("finish_reason").is_some());
    usages.len() + usize::from(is_line) > 1
        || reasons.count() + usize::from(in_choices) > 1
        || usages.into_iter().any(|usage| {
            has_several(
                usage,
                &[
                    "cached_tokens",
                    "prompt_tokens_details",
                    "input_tokens_details",
                ],
            ) || has_several(
                usage,
                &[
                    "reasoning_tokens",
                    "completion_tokens_details",
                    "output_tokens_details",
                ],
            )
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn the_scanner_reads_what_a_slow_reader_reads(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        cut in any::<prop::sample::Index>(),
        dialect in prop::option::of(prop::sample::select(Dialect::ALL.to_vec())),
    ) {
        let json = document(&bytes);
        let value: Value = serde_json::from_str(&json).expect("the document is JSON");
        let data = json.as_bytes();
        let whole = scan(dialect, &[data]);
        if !is_ambiguous(&value) {
            prop_assert_eq!(show(&whole), show(&read(&value, dialect)), "{}", json);
        }
        let (start, rest) = data.split_at(cut.index(data.len()));
        prop_assert_eq!(scan(dialect, &[start, rest]), whole, "{} cut at {}", &json, start.len());
        let broken_off = scan(dialect, &[start]);
        let expected = match start.trim_ascii() {
            b"" => "Other",
            begun if begun.len() < data.trim_ascii().len() => "Malformed",
            _ => &show(&whole),
        };
        prop_assert_eq!(show(&broken_off), expected, "{}", String::from_utf8_lossy(start));
    }
}

/// The documents are of use only if many of them have what the scanner looks for.
#[test]
fn random_documents_have_every_kind_of_event() {
    let mut state: u32 = 1;
    let mut kinds = std::collections::HashSet::new();
    let mut has_usage = 0;
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..300)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        let event = scan(None, &[document(&bytes).as_bytes()]);
        kinds.insert(event.kind);
        has_usage += u32::from(event.usage.is_some());
    }
    assert!(!kinds.contains(&LlmEventKind::Malformed));
    assert_eq!(kinds.len(), 8, "{kinds:?}");
    assert!(has_usage > 500, "{has_usage}");
}
