//! Each form, with what it means, and texts that are refused.

use serde_json::json;

use super::*;

fn one(text: &str) -> Conversation {
    let mut read = read(text, 10).unwrap();
    assert_eq!((read.conversations.len(), read.skipped), (1, 0), "{text}");
    read.conversations.remove(0)
}

fn refused(text: &str) -> String {
    read(text, 10).unwrap_err().to_string()
}

#[test]
fn our_own_form_has_everything_that_a_turn_can_have() {
    let conversation = one(concat!(
        r#"{"id": "c7", "at_ms": 1500, "system": "Be brief.", "turns": ["#,
        r#"{"user": "Why?", "max_tokens": 20, "answer": "Because."},"#,
        r#"{"user": "Weather?", "think_ms": 900, "tool": {"result": "sunny", "wait_ms": 500}}]}"#,
    ));
    assert_eq!(conversation.id.as_deref(), Some("c7"));
    assert_eq!(conversation.at_ms, Some(1500));
    assert_eq!(conversation.opening, [message("system", "Be brief.")]);
    let [first, second] = conversation.turns.as_slice() else {
        panic!("{conversation:?}");
    };
    assert_eq!(first.messages, [message("user", "Why?")]);
    assert_eq!(first.max_tokens, Some(20));
    assert_eq!(first.answer, Some(message("assistant", "Because.")));
    assert_eq!((second.think_ms, second.answer.as_ref()), (Some(900), None));
    let tool = second.tool.as_ref().unwrap();
    assert_eq!((tool.result.as_str(), tool.wait_ms), ("sunny", 500));
}

#[test]
fn messages_are_cut_at_the_answers_of_the_assistant() {
    let call = json!({"role": "assistant", "tool_calls": [{"id": "t1"}]});
    let result = json!({"role": "tool", "tool_call_id": "t1", "content": "42"});
    let messages = [
        message("system", "S"),
        message("user", "A"),
        call.clone(),
        result.clone(),
        message("assistant", "B"),
        message("user", "C"),
    ];
    let conversation = one(&json!({ "messages": messages }).to_string());
    assert_eq!(conversation.opening, [message("system", "S")]);
    let turns: Vec<_> = conversation.turns.iter().collect();
    assert_eq!(turns.len(), 3);
    assert_eq!(turns[0].messages, [message("user", "A")]);
    assert_eq!(turns[0].answer, Some(call));
    assert_eq!(turns[1].messages, [result]);
    assert_eq!(turns[1].answer, Some(message("assistant", "B")));
    assert_eq!(turns[2].messages, [message("user", "C")]);
    assert_eq!(turns[2].answer, None);
}

#[test]
fn all_turns_of_sharegpt_are_read() {
    let conversation = one(concat!(
        r#"[{"id": "x_0", "conversations": ["#,
        r#"{"from": "gpt", "value": "Hello!"}, {"from": "human", "value": "1"},"#,
        r#"{"from": "gpt", "value": "one"}, {"from": "user", "value": "2 \"q\" \ud83d\ude00"}]}]"#,
    ));
    assert_eq!(conversation.id.as_deref(), Some("x_0"));
    assert_eq!(conversation.opening, [message("assistant", "Hello!")]);
    let asked: Vec<_> = conversation
        .turns
        .iter()
        .map(|it| &it.messages[0])
        .collect();
    assert_eq!(
        asked,
        [&message("user", "1"), &message("user", "2 \"q\" \u{1f600}")]
    );
    assert_eq!(
        conversation.turns[0].answer,
        Some(message("assistant", "one"))
    );
}

#[test]
fn what_is_written_is_read_as_the_same_conversation() {
    for text in [
        r#"{"turns": [{"user": "a"}]}"#,
        r#"{"id":"i","at_ms":3,"system":"s","turns":[{"user":"a\n\u0000","answer":"b"}]}"#,
        r#"{"opening":[{"role":"developer","content":"d"}],"turns":[{"user":"a"}]}"#,
        r#"{"turns":[{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}]}"#,
        r#"{"turns":[{"user":"","max_tokens":1,"think_ms":2,"tool":{"result":"r"}}]}"#,
        r#"{"messages":[{"role":"user","name":"n","content":"a"},{"role":"assistant"}]}"#,
    ] {
        let conversation = one(text);
        assert_eq!(one(&conversation.to_line()), conversation, "{text}");
    }
}

#[test]
fn objects_without_a_turn_are_skipped_and_counted() {
    let text = "{\"messages\": []}\n{\"turns\": [{\"user\": \"a\"}]}\n{\"other\": 1}";
    let read = read(text, 10).unwrap();
    assert_eq!(read.conversations.len(), 1);
    assert_eq!((read.skipped, read.first_skipped_line), (2, Some(1)));
}

#[test]
fn no_more_conversations_are_read_than_wanted() {
    let text = "{\"turns\": [{\"user\": \"a\"}]}\n".repeat(5);
    assert_eq!(read(&text, 3).unwrap().conversations.len(), 3);
}

#[test]
fn what_is_no_conversation_is_refused_with_its_place() {
    for (text, expected) in [
        ("", "1:1: the file is empty"),
        ("hello", "1:1: is neither an array nor an object"),
        ("{}", "1:1: no object has a turn"),
        ("[1]", "1:2: is not an object"),
        ("{\"turns\": [\n {}]}", "2:2: the turn needs either"),
        ("{\"turns\": [3]}", "1:12: is not a turn"),
        (
            r#"{"turns": [{"user": "a", "messages": []}]}"#,
            "1:12: the turn needs either",
        ),
        (
            r#"{"turns": [{"user": "a", "answer": 3}]}"#,
            "1:36: the answer is neither",
        ),
        (
            r#"{"messages": [{"content": "a"}]}"#,
            "1:15: the message has no role",
        ),
        (
            r#"{"turns": [], "messages": []}"#,
            "1:1: has more than one of",
        ),
        (r#"{"turns": [{"user": 7}]}"#, "1:"),
        (r#"{"turns": [{"user": "a"}"#, "1:"),
    ] {
        let error = refused(text);
        assert!(error.starts_with(expected), "{text}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}
