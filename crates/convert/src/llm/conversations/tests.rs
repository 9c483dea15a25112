//! Each form, with what it means, and texts that are refused.

use plan::distribution::{Count, Delay};
use serde_json::{Map, json};

use super::super::{Bodies, Endpoint, RequestsFileError, Synthetic};
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
fn lines_of_one_session_of_a_trace_are_the_turns_of_a_conversation() {
    let lines = [
        r#"{"timestamp": 0, "input_length": 6, "output_length": 4, "hash_ids":[7],"session_id":3}"#,
        r#"{"timestamp": 100, "input_length": 5, "output_length": 1, "hash_ids": [7]}"#,
        r#"{"timestamp":900,"delay": 500, "input_length": 15, "output_length":2,"session_id":3}"#,
        r#"{"timestamp": 2900, "input_length": 18, "output_length": 2, "session_id": 3}"#,
    ];
    let read = read(&lines.join("\n"), 10).unwrap();
    let [first, second] = read.conversations.as_slice() else {
        panic!("{read:?}");
    };
    assert_eq!((first.id.as_deref(), first.at_ms), (Some("3"), Some(0)));
    let facts = |conversation: &Conversation| -> Vec<_> {
        let turns = conversation.turns.iter().map(|turn| {
            let text = turn.messages[0]["content"].as_str().unwrap().to_owned();
            let words = text.split(' ').count();
            (words, turn.max_tokens, turn.think_ms)
        });
        turns.collect()
    };
    // The third request repeats 6 + 4 tokens, the fourth one 15 + 2.
    assert_eq!(
        facts(first),
        [
            (6, Some(4), Some(0)),
            (5, Some(2), Some(500)),
            (1, Some(2), Some(2000))
        ]
    );
    assert_eq!((second.id.as_deref(), second.at_ms), (None, Some(100)));
    // Equal blocks are equal texts.
    let text = |conversation: &Conversation| conversation.turns[0].messages[0].clone();
    let (first, second) = (text(first), text(second));
    let [first, second] = [&first, &second].map(|it| it["content"].as_str().unwrap());
    assert!(first.starts_with(second), "{first} / {second}");
}

fn bodies(path: &str) -> Bodies {
    Bodies {
        endpoint: Endpoint::of(path, None).unwrap(),
        model: "m".to_owned(),
        output_tokens: None,
        ignore_eos: false,
        extra: Map::new(),
    }
}

/// The lines of conversations, as values.
fn lines_of(bodies: &Bodies, manner: &Manner, text: &str) -> Vec<Value> {
    let read = read(text, 10).unwrap();
    let made = lines(bodies, manner, read.conversations, &[], 1).unwrap();
    let lines = made.text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

const TWO_TURNS: &str = concat!(
    r#"{"id":"c","at_ms":7,"system":"{{s}}","turns":[{"user":"a {{x}}"},"#,
    r#"{"user":"b","think_ms":5,"max_tokens":9,"tool":{"result":"r","wait_ms":2}}]}"#,
);

#[test]
fn a_line_has_a_gap_for_what_was_said_and_the_rules_of_the_run() {
    let manner = Manner {
        context_tokens: Some(130),
        session_header: Some("X-Session".to_owned()),
        ..Manner::default()
    };
    let mut of_openai = bodies("/v1/chat/completions");
    of_openai.output_tokens = Some(Count::fixed(20));
    let lines = lines_of(&of_openai, &manner, TWO_TURNS);
    let line = &lines[0];
    assert_eq!(line["header"]["X-Session"], "{{$conversation.id}}");
    assert_eq!(line.get("at"), None);
    let body = line["body_text"].as_str().unwrap();
    assert!(
        body.starts_with("{\"model\":\"m\",\"stream\":true,"),
        "{body}"
    );
    assert!(body.ends_with(",{{$conversation}}}"), "{body}");
    let conversation = &line["conversation"];
    assert_eq!(conversation["context"], 130);
    assert_eq!(conversation["limit"], json!(["\"max_tokens\":", ""]));
    assert_eq!(conversation["opening"], json!([message("system", "{{s}}")]));
    let [first, second] = conversation["turns"].as_array().unwrap().as_slice() else {
        panic!("{conversation}");
    };
    assert_eq!(first["messages"], json!([message("user", "a {{x}}")]));
    assert_eq!(
        (&first["max_tokens"], &second["max_tokens"]),
        (&json!(20), &json!(9))
    );
    assert_eq!(second["think_ms"], 5.0);
    assert_eq!(second["tool"], json!({"result": "r", "wait_ms": 2}));
    // A conversation may begin with its second turn, so the answer to the first one is made up.
    let answer = first["answer"]["content"].as_str().unwrap();
    assert_eq!(answer.split(' ').count(), 20);
    assert_eq!(second.get("answer"), None);
    let cold = Manner {
        starts_cold: true,
        keeps_moments: true,
        ..Manner::default()
    };
    let line = &lines_of(&of_openai, &cold, TWO_TURNS)[0];
    assert_eq!(line["conversation"]["begins_anywhere"], false);
    assert_eq!(line["conversation"]["turns"][0].get("answer"), None);
    assert_eq!(line["at"], 7);
}

#[test]
fn a_key_of_the_body_has_the_name_of_the_conversation() {
    let manner = |key: &str| Manner {
        session_key: Some(key.to_owned()),
        ..Manner::default()
    };
    let of_openai = bodies("/v1/chat/completions");
    let named = lines_of(&of_openai, &manner("cache_salt"), TWO_TURNS);
    let body = named[0]["body_text"].as_str().unwrap();
    let end = ",\"cache_salt\":\"{{$conversation.id}}\",{{$conversation}}}";
    assert!(body.ends_with(end), "{body}");
    for taken in ["model", "messages", "max_tokens", "stream"] {
        let read = read(TWO_TURNS, usize::MAX).unwrap();
        let found = lines(&of_openai, &manner(taken), read.conversations, &[], 1);
        let Err(RequestsFileError::SessionKey(key)) = found else {
            panic!("{taken}: {found:?}");
        };
        assert_eq!(key, taken);
    }
}

#[test]
fn the_system_of_anthropic_is_no_message() {
    let lines = lines_of(&bodies("/v1/messages"), &Manner::default(), TWO_TURNS);
    let conversation = &lines[0]["conversation"];
    assert_eq!(conversation["system"], "{{s}}");
    assert_eq!(conversation["opening"], json!([]));
    assert_eq!(conversation["turns"][0]["max_tokens"], 1024);
}

#[test]
fn times_are_drawn_for_turns_that_have_none() {
    let manner = Manner {
        think: Some(Delay::parse("2s").unwrap()),
        tool_wait: Some(Delay::parse("500ms").unwrap()),
        ..Manner::default()
    };
    let lines = lines_of(&bodies("/v1/chat/completions"), &manner, TWO_TURNS);
    let turns = &lines[0]["conversation"]["turns"];
    assert_eq!(turns[0]["think_ms"], 2000.0);
    assert_eq!(turns[1]["think_ms"], 5.0);
    assert_eq!(turns[0]["tool"]["wait_ms"], 500.0);
    assert_eq!(turns[1]["tool"]["wait_ms"], 2);
}

#[test]
fn conversations_that_cannot_be_had_are_refused() {
    let read = || read(TWO_TURNS, 10).unwrap().conversations;
    let refused = |path: &str, manner: &Manner, extra: &str| {
        let mut bodies = bodies(path);
        bodies.extra = crate::llm::parse_extra(extra).unwrap();
        let made = lines(&bodies, manner, read(), &[], 1);
        made.expect_err(path).to_string()
    };
    let recorded = Manner {
        repeats_recorded: true,
        ..Manner::default()
    };
    let chat = "/v1/chat/completions";
    assert!(refused("/v1/completions", &Manner::default(), "{}").contains("has messages"));
    assert!(refused(chat, &recorded, "{}").contains("no recorded answer"));
    let extra = "{\"max_tokens\": 3}";
    assert!(refused(chat, &Manner::default(), extra).contains("max_tokens"));
}

#[test]
fn synthetic_conversations_have_so_many_turns_and_words() {
    let first = Synthetic {
        prompts: 3,
        words: Count::fixed(5),
        shared_words: 2,
        tokenizer: None,
    };
    let made: Vec<_> = synthetic(&first, Count::fixed(4), 1).collect();
    assert_eq!(made.len(), 3);
    for conversation in &made {
        let words = conversation.turns.iter().map(|turn| {
            let text = turn.messages[0]["content"].as_str().unwrap();
            text.split(' ').count()
        });
        assert_eq!(words.collect::<Vec<_>>(), [7, 5, 5, 5]);
    }
    assert_eq!(
        made,
        synthetic(&first, Count::fixed(4), 1).collect::<Vec<_>>()
    );
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
