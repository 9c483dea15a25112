//! JSON in unusual forms: each has one outcome, however it is cut.

use protocol::llm::{LlmEventKind, LlmScanner};

use crate::scan::{check, scan_cut_anywhere, show};

#[test]
fn white_space_is_text_and_an_empty_string_is_not() {
    check(&[
        (
            r#"{"choices":[{"delta":{"content":" "}}]}"#,
            "Text openai text",
        ),
        (
            r#"{"choices":[{"delta":{"content":"\n"}}]}"#,
            "Text openai text",
        ),
        (
            r#"{"choices":[{"delta":{"content":"\u0020"}}]}"#,
            "Text openai text",
        ),
        (
            r#"{"choices":[{"delta":{"content":"\""}}]}"#,
            "Text openai text",
        ),
        (
            r#"{"choices":[{"delta":{"content":""}}]}"#,
            "Prelude openai",
        ),
        (
            r#"{"choices":[{"delta":{"content":null}}]}"#,
            "Prelude openai",
        ),
        (r#"{"choices":[{"delta":{"content":7}}]}"#, "Prelude openai"),
        (
            r#"{"choices":[{"delta":{"content":{"text":"a"}}}]}"#,
            "Prelude openai",
        ),
        (r#"{"choices":[{"delta":null}]}"#, "Prelude openai"),
        (r#"{"choices":[{}]}"#, "Prelude"),
        (
            r#"{"choices":[null,7,"a",[{"delta":{"content":"a"}}]]}"#,
            "Other",
        ),
        (r#"{"choices":{"delta":{"content":"a"}}}"#, "Other"),
    ]);
}

#[test]
fn keys_and_words_may_have_escapes() {
    check(&[
        (
            r#"{"choices":[{"delta":{"\u0063ontent":"a"}}]}"#,
            "Text openai text",
        ),
        (
            r#"{"\u0063\u0068oices":[{"d\u0065lta":{"conten\u0074":"a"}}]}"#,
            "Text openai text",
        ),
        (
            r#"{"choices":[{"delta":{"\\u0063ontent":"a"}}]}"#,
            "Prelude openai",
        ),
        (
            r#"{"choices":[{"delta":{"\ncontent":"a","con\/tent":"b"}}]}"#,
            "Prelude openai",
        ),
        (
            r#"{"choices":[{"delta":{"\ud83d\ude00content":"a"}}]}"#,
            "Prelude openai",
        ),
        (
            r#"{"choices":[{"delta":{},"finish_reason":"\u0073top"}]}"#,
            "End openai finish=Stop",
        ),
        (r#"{"type":"message\u005fstop"}"#, "End anthropic end"),
        (r#"{"\"":{"\\":"\"{[\\"},"type":"ping"}"#, "Other anthropic"),
    ]);
}

#[test]
fn what_looks_like_json_in_a_string_is_text() {
    check(&[
        (
            r#"{"id":"{\"choices\":[{\"delta\":{\"content\":\"a\"}}]}"}"#,
            "Other",
        ),
        (
            concat!(
                r#"{"choices":[{"delta":{"role":"\"content\":\"a\""}}],"#,
                r#""system":"]}\"usage\":{\"prompt_tokens\":1}"}"#
            ),
            "Prelude openai",
        ),
        (
            r#"{"choices":[{"delta":{"content":"\\\",\"usage\":{\"completion_tokens\":9}}\\"}}]}"#,
            "Text openai text",
        ),
        (
            r#"{"message":{"content":"{\"error\":1}"},"done":false}"#,
            "Text ollama text",
        ),
    ]);
}

#[test]
fn keys_of_interest_in_other_places_do_not_count() {
    check(&[
        (
            r#"{"content":"a","delta":{"content":"b"},"text":"c"}"#,
            "Other",
        ),
        (r#"{"x":{"choices":[{"delta":{"content":"a"}}]}}"#, "Other"),
        (
            r#"{"choices":[{"delta":{},"logprobs":{"content":[{"token":"a"}],"error":1}}]}"#,
            "Prelude openai",
        ),
        (r#"{"choices":[{"message":{"content":"a"}}]}"#, "Prelude"),
        (
            r#"{"choices":[],"prompt_filter_results":[{"error":{}}]}"#,
            "Other",
        ),
        (r#"{"delta":{"text":"a"}}"#, "Other"),
        (
            r#"{"type":"message_delta","delta":{"text":"a"}}"#,
            "Other anthropic",
        ),
    ]);
}

#[test]
fn of_duplicate_keys_any_text_counts_and_the_last_number_word_or_type() {
    check(&[
        (
            r#"{"choices":[{"delta":{"content":"a","content":""}}]}"#,
            "Text openai text",
        ),
        (
            r#"{"choices":[{"delta":{"content":"","content":"a"}}]}"#,
            "Text openai text",
        ),
        (
            concat!(
                r#"{"usage":{"prompt_tokens":1},"usage":"#,
                r#"{"prompt_tokens":2,"completion_tokens":3,"completion_tokens":4}}"#
            ),
            "Usage usage=2/4/-/-",
        ),
        (
            r#"{"choices":[{"delta":{},"finish_reason":"stop","finish_reason":"length"}]}"#,
            "End openai finish=Length",
        ),
        (
            r#"{"type":"ping","type":"message_stop"}"#,
            "End anthropic end",
        ),
    ]);
}

#[test]
fn several_choices_in_an_event_are_one_event() {
    check(&[
        (
            concat!(
                r#"{"choices":[{"index":0,"delta":{"content":"a"}},"#,
                r#"{"index":1,"delta":{"content":""},"finish_reason":"length"}]}"#
            ),
            "Text openai text finish=Length",
        ),
        (
            concat!(
                r#"{"choices":[{"delta":{},"finish_reason":"length"},"#,
                r#"{"delta":{},"finish_reason":"stop"},{"delta":{},"finish_reason":null},"#,
                r#"{"delta":{},"finish_reason":""}]}"#
            ),
            "End openai finish=Stop",
        ),
        (
            concat!(
                r#"{"choices":[{"delta":{},"finish_reason":"error"},"#,
                r#"{"delta":{},"finish_reason":"stop"}]}"#
            ),
            "Error openai finish=Stop",
        ),
    ]);
}

/// Random bytes found that a long type was another one if it was cut.
#[test]
fn a_word_longer_than_any_known_one_is_unknown() {
    for bytes in [0, 39, 40, 48, 49, 60, 300] {
        let data = format!(r#"{{"type":"response.{}","delta":"a"}}"#, "x".repeat(bytes));
        let event = scan_cut_anywhere(None, data.as_bytes());
        let expected = match bytes {
            // 48 bytes with `response.`.
            0..=39 => "Other responses",
            _ => "Other",
        };
        assert_eq!(show(&event), expected, "{data}");
    }
    let key = "content".repeat(40);
    let data = format!(r#"{{"choices":[{{"delta":{{"{key}":"a"}}}}]}}"#);
    check(&[(&data, "Prelude openai")]);
}

#[test]
fn a_count_is_a_whole_number_in_any_form() {
    for (number, count) in [
        ("0", Some(0)),
        ("12", Some(12)),
        ("12.0", Some(12)),
        ("1.2e1", Some(12)),
        ("120E-1", Some(12)),
        ("-0", Some(0)),
        ("18446744073709551615", Some(u64::MAX)),
        ("18446744073709551616", None),
        ("1e19", Some(10_000_000_000_000_000_000)),
        ("1e20", None),
        ("1e999", None),
        ("12.5", None),
        ("-12", None),
        ("null", None),
        ("true", None),
        ("\"12\"", None),
        ("[12]", None),
        ("{\"prompt_tokens\":12}", None),
        // More digits than any count has.
        (
            "0.00000000000000000000000000000000000000000000000012e50",
            None,
        ),
    ] {
        let data = format!(r#"{{"usage":{{"prompt_tokens":{number} ,"total_tokens":1}}}}"#);
        let event = scan_cut_anywhere(None, data.as_bytes());
        assert_eq!(
            event.usage.and_then(|usage| usage.prompt),
            count,
            "{number}"
        );
        let kind = match count {
            Some(_) => LlmEventKind::Usage,
            None => LlmEventKind::Other,
        };
        assert_eq!(event.kind, kind, "{number}");
    }
}

#[test]
fn a_usage_without_counts_is_no_usage() {
    check(&[
        (r#"{"choices":[],"usage":null}"#, "Other"),
        (r#"{"choices":[],"usage":{}}"#, "Other"),
        (r#"{"choices":[],"usage":[]}"#, "Other"),
        (
            r#"{"choices":[],"usage":{"prompt_tokens":null,"cost":0.5}}"#,
            "Other",
        ),
    ]);
}

#[test]
fn an_error_is_one_unless_it_is_null_false_or_empty() {
    check(&[
        (r#"{"error":"broken"}"#, "Error"),
        (r#"{"error":{}}"#, "Error"),
        (r#"{"error":[1]}"#, "Error"),
        (r#"{"error":true}"#, "Error"),
        (r#"{"error":500}"#, "Error"),
        (r#"{"error":null}"#, "Other"),
        (r#"{"error":false}"#, "Other"),
        (r#"{"error":""}"#, "Other"),
        (r#"{"error":null,"error":"broken"}"#, "Error"),
    ]);
}

#[test]
fn data_without_an_object_has_one_outcome() {
    check(&[
        ("", "Other"),
        (" \n", "Other"),
        ("\u{feff}", "Other"),
        ("\u{feff}{\"type\":\"message_stop\"}", "End anthropic end"),
        ("{}", "Other"),
        ("[]", "Other"),
        (" [ {\"done\":true} , \"]\" ] ", "Other"),
        ("[[\"a\"]]", "Other"),
        ("17", "Other"),
        ("-1.5e3\n", "Other"),
        ("null", "Other"),
        ("\"text\"", "Other"),
        ("[DONE]", "End end"),
        (" [DONE]\n", "End end"),
        ("[DON]", "Malformed"),
        ("[DONE", "Malformed"),
        ("[DONE]x", "Malformed"),
        ("[D ONE]", "Malformed"),
        ("DONE", "Malformed"),
    ]);
}

#[test]
fn white_space_between_tokens_changes_nothing() {
    let data = " { \"choices\" : [ { \"delta\" : { \"content\" : \"a\" } , \"finish_reason\" : \
        \"stop\" } ] ,\r\n\t\"usage\" : { \"prompt_tokens\" : 1 } } \n";
    check(&[(data, "Text openai text usage=1/-/-/- finish=Stop")]);
}

#[test]
fn what_is_not_json_is_malformed_and_has_nothing_else() {
    for data in [
        r#"{"choices":[{"delta":{"content":"a"}}]"#,
        r#"{"choices":[{"delta":{"content":"a"}}]}}"#,
        r#"{"choices":[{"delta":{"content":"a"}}]}{"done":true}"#,
        r#"{"choices":[{"delta":{"content":"a"}}]} x"#,
        r#"{"choices":[{"delta":{"content":"a"]}}"#,
        r#"{"choices":[{"delta":{"content":"a"}},]}"#,
        r#"{"choices":[{"delta":{"content":"a"},}]}"#,
        r#"{"choices":[,{"delta":{"content":"a"}}]}"#,
        r#"{"choices"[{"delta":{"content":"a"}}]}"#,
        r#"{"usage":{"prompt_tokens":1}"done":true}"#,
        r#"{"choices":[{"a":1]}]"#,
        r#"{"choices":[{"a":1}}}"#,
        r#"{"a":1]"#,
        r#"{choices:[]}"#,
        r#"{"a":hello}"#,
        r#"{"a":}"#,
        r#"{,"a":1}"#,
        r#"{"a" "b"}"#,
        "<html><body>502 Bad Gateway</body></html>",
        "Internal Server Error",
        "}",
        "{\"a\":\"",
        "\"text",
    ] {
        let event = scan_cut_anywhere(None, data.as_bytes());
        assert_eq!(show(&event), "Malformed", "{data}");
    }
}

#[test]
fn an_event_leaves_nothing_to_the_next_one() {
    let text = concat!(
        r#"{"choices":[{"d\u0065lta":{"content":"\n"},"finish_reason":"stop"}],"#,
        r#""usage":{"prompt_tokens":7},"x":["\\"]}"#
    )
    .as_bytes();
    let ping = br#"{"type":"ping"}"#;
    let mut scanner = LlmScanner::new(None);
    for cut in 0..text.len() {
        scanner.data(&text[..cut]);
        scanner.end();
        scanner.data(ping);
        assert_eq!(show(&scanner.end()), "Other anthropic", "after {cut} bytes");
        // A response that breaks off in an event.
        scanner.data(&text[..cut]);
        scanner.begin();
        scanner.data(ping);
        assert_eq!(show(&scanner.end()), "Other anthropic", "after {cut} bytes");
    }
}
