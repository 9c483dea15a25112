//! What each request of a conversation says, and what follows its answer.

use plan::Dialect;
use protocol::llm::{Answer, ToolCall, Usage};
use serde_json::{Value, json};

use super::*;

const MS: u64 = 1_000_000;

fn rules(dialect: Dialect) -> ConversationRules {
    ConversationRules {
        dialect,
        ..ConversationRules::default()
    }
}

fn user(text: &str) -> Vec<u8> {
    json!({"role": "user", "content": text}).to_string().into()
}

/// A conversation with these questions.
fn asking(questions: &[&str]) -> Conversation {
    let turn = |question: &&str| Turn {
        messages: user(question),
        think_ns: 900 * MS,
        ..Turn::default()
    };
    Conversation {
        turns: questions.iter().map(turn).collect(),
        ..Conversation::default()
    }
}

fn saying(inside: &str) -> Answer {
    Answer {
        text: inside.as_bytes().to_vec(),
        ..Answer::default()
    }
}

fn calling(ids: &[&str]) -> Answer {
    let call = |id: &&str| ToolCall {
        id: id.as_bytes().to_vec(),
        name: b"weather".to_vec(),
        arguments: br#"{\"city\":\"Bern\"}"#.to_vec(),
    };
    Answer {
        calls: ids.iter().map(call).collect(),
        ..Answer::default()
    }
}

/// The body of the next request, which has nothing else.
fn body(dialogue: &Dialogue, conversation: &Conversation, dialect: Dialect) -> Value {
    let mut body = b"{".to_vec();
    dialogue.write_members(conversation, &rules(dialect), &mut body);
    body.push(b'}');
    serde_json::from_slice(&body).unwrap()
}

fn tokens(prompt: u64, completion: u64) -> Usage {
    Usage {
        prompt: Some(prompt),
        completion: Some(completion),
        ..Usage::default()
    }
}

#[test]
fn each_request_repeats_what_was_said_before() {
    let mut conversation = asking(&["1", "2"]);
    conversation.opening = br#"{"role":"system","content":"Be brief."}"#.to_vec();
    let rules = rules(Dialect::OpenAi);
    let mut dialogue = Dialogue::at_turn(&conversation, 0);
    let system = json!({"role": "system", "content": "Be brief."});
    assert_eq!(
        body(&dialogue, &conversation, rules.dialect),
        json!({"messages": [system, {"role": "user", "content": "1"}]})
    );
    let said = saying(r#"say \"hi\"\n\ud83d\ude00"#);
    let next = dialogue.answered(&conversation, &rules, said, &Usage::default());
    assert_eq!(next, NextTurn::After(900 * MS));
    assert_eq!(
        body(&dialogue, &conversation, rules.dialect),
        json!({"messages": [
            system,
            {"role": "user", "content": "1"},
            {"role": "assistant", "content": "say \"hi\"\n\u{1f600}"},
            {"role": "user", "content": "2"},
        ]})
    );
    let next = dialogue.answered(&conversation, &rules, saying("x"), &Usage::default());
    assert_eq!(next, NextTurn::Ended(ConversationEnd::Done));
}

#[test]
fn each_dialect_has_its_members() {
    let mut conversation = asking(&["1"]);
    conversation.system = b"Be brief.".to_vec();
    let dialogue = Dialogue::at_turn(&conversation, 0);
    let asked = json!([{"role": "user", "content": "1"}]);
    for (dialect, expected) in [
        (Dialect::OpenAi, json!({"messages": asked})),
        (Dialect::Ollama, json!({"messages": asked})),
        (Dialect::Responses, json!({"input": asked})),
        (
            Dialect::Anthropic,
            json!({"system": "Be brief.", "messages": asked}),
        ),
    ] {
        assert_eq!(body(&dialogue, &conversation, dialect), expected);
    }
}

#[test]
fn a_conversation_can_begin_at_a_later_turn_with_recorded_answers() {
    let mut conversation = asking(&["1", "2", "3"]);
    conversation.turns[0].answer = Some(br#"{"role":"assistant","content":"one"}"#.to_vec());
    let dialogue = Dialogue::at_turn(&conversation, 2);
    assert_eq!(dialogue.turn(), 2);
    assert_eq!(
        body(&dialogue, &conversation, Dialect::OpenAi),
        json!({"messages": [
            {"role": "user", "content": "1"},
            {"role": "assistant", "content": "one"},
            {"role": "user", "content": "2"},
            {"role": "user", "content": "3"},
        ]})
    );
    // There is no turn after the last one.
    assert_eq!(Dialogue::at_turn(&conversation, 7).turn(), 2);
}

#[test]
fn recorded_answers_are_repeated_in_place_of_those_of_the_server() {
    let mut conversation = asking(&["1", "2"]);
    conversation.turns[0].answer = Some(br#"{"role":"assistant","content":"one"}"#.to_vec());
    let rules = ConversationRules {
        repeats_recorded: true,
        ..rules(Dialect::OpenAi)
    };
    let mut dialogue = Dialogue::at_turn(&conversation, 0);
    dialogue.answered(&conversation, &rules, saying("other"), &Usage::default());
    let body = body(&dialogue, &conversation, rules.dialect);
    assert_eq!(body["messages"][1]["content"], "one");
}

#[test]
fn results_of_tools_follow_their_calls_after_the_time_of_the_tool() {
    let mut conversation = asking(&["1", "2"]);
    conversation.turns[0].tool = Some((b"sunny".to_vec(), 500 * MS));
    let rules = rules(Dialect::OpenAi);
    let mut dialogue = Dialogue::at_turn(&conversation, 0);
    let called = calling(&["c1", "c2"]);
    let next = dialogue.answered(&conversation, &rules, called, &Usage::default());
    assert_eq!((next, dialogue.turn()), (NextTurn::After(500 * MS), 0));
    let said = body(&dialogue, &conversation, rules.dialect);
    let messages = said["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 4);
    assert_eq!(messages[1]["content"], Value::Null);
    let function = &messages[1]["tool_calls"][1]["function"];
    assert_eq!(function["arguments"], "{\"city\":\"Bern\"}");
    assert_eq!(
        messages[3],
        json!({"role": "tool", "tool_call_id": "c2", "content": "sunny"})
    );
    let next = dialogue.answered(&conversation, &rules, saying("It is."), &Usage::default());
    assert_eq!((next, dialogue.turn()), (NextTurn::After(900 * MS), 1));
}

#[test]
fn results_of_tools_are_blocks_for_anthropic() {
    let mut conversation = asking(&["1"]);
    conversation.turns[0].tool = Some((b"sunny".to_vec(), 0));
    let rules = rules(Dialect::Anthropic);
    let mut dialogue = Dialogue::at_turn(&conversation, 0);
    let mut called = calling(&["t1"]);
    called.text = b"Let me see.".to_vec();
    dialogue.answered(&conversation, &rules, called.clone(), &Usage::default());
    let said = body(&dialogue, &conversation, rules.dialect);
    assert_eq!(
        said["messages"][1]["content"],
        json!([
            {"type": "text", "text": "Let me see."},
            {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Bern"}},
        ])
    );
    assert_eq!(
        said["messages"][2]["content"],
        json!([{"type": "tool_result", "tool_use_id": "t1", "content": "sunny"}])
    );
    // Arguments that were cut off are none.
    called.calls[0].arguments.truncate(5);
    let mut dialogue = Dialogue::at_turn(&conversation, 0);
    dialogue.answered(&conversation, &rules, called, &Usage::default());
    let said = body(&dialogue, &conversation, rules.dialect);
    assert_eq!(said["messages"][1]["content"][1]["input"], json!({}));
}

#[test]
fn calls_of_tools_that_the_file_does_not_have_are_left_out() {
    let conversation = asking(&["1", "2"]);
    let rules = rules(Dialect::OpenAi);
    let mut dialogue = Dialogue::at_turn(&conversation, 0);
    let next = dialogue.answered(&conversation, &rules, calling(&["c1"]), &Usage::default());
    assert_eq!(next, NextTurn::After(900 * MS));
    let said = body(&dialogue, &conversation, rules.dialect);
    assert_eq!(said["messages"].as_array().unwrap().len(), 2);
}

#[test]
fn a_model_that_always_calls_tools_ends_its_turn_some_time() {
    let mut conversation = asking(&["1"]);
    conversation.turns[0].tool = Some((b"sunny".to_vec(), MS));
    let rules = rules(Dialect::OpenAi);
    let mut dialogue = Dialogue::at_turn(&conversation, 0);
    let rounds = (0..100).take_while(|_| {
        let next = dialogue.answered(&conversation, &rules, calling(&["c1"]), &Usage::default());
        next == NextTurn::After(MS)
    });
    assert_eq!(rounds.count(), 8);
}

#[test]
fn a_turn_that_would_not_fit_into_the_context_is_not_sent() {
    // The system has 50 tokens, each question 10 and each answer 20, so the third turn has about
    // 140. A byte is about a quarter of a token.
    let mut conversation = asking(&["1", "2", "3"]);
    conversation.opening = vec![b' '; 200];
    for turn in &mut conversation.turns {
        turn.messages = vec![b'q'; 39];
        turn.max_tokens = Some(20);
    }
    let rules = |context_tokens| ConversationRules {
        context_tokens: Some(context_tokens),
        ..rules(Dialect::OpenAi)
    };
    for (context_tokens, expected) in [
        (135, NextTurn::Ended(ConversationEnd::Context)),
        (145, NextTurn::After(900 * MS)),
    ] {
        let rules = rules(context_tokens);
        let mut dialogue = Dialogue::at_turn(&conversation, 0);
        let mut answered = |usage| dialogue.answered(&conversation, &rules, saying("a"), &usage);
        assert_eq!(answered(tokens(60, 20)), NextTurn::After(900 * MS));
        assert_eq!(answered(tokens(90, 20)), expected, "{context_tokens}");
    }
}

#[test]
fn the_oldest_turns_are_left_out_until_the_request_fits_into_the_context() {
    let mut conversation = asking(&["first", "second", "third", "fourth"]);
    conversation.opening = br#"{"role":"system","content":"be brief"}"#.to_vec();
    let rules = ConversationRules {
        context_tokens: Some(100),
        drops_oldest: true,
        ..rules(Dialect::OpenAi)
    };
    let mut dialogue = Dialogue::at_turn(&conversation, 0);
    let said = |dialogue: &Dialogue| -> Vec<String> {
        let said = body(dialogue, &conversation, rules.dialect);
        let said = said["messages"].as_array().unwrap().iter();
        said.map(|message| message["content"].as_str().unwrap().to_owned())
            .collect()
    };
    let mut answered = |text: &str, usage| {
        let next = dialogue.answered(&conversation, &rules, saying(text), &usage);
        (next, dialogue.dropped_turns(), said(&dialogue))
    };
    let goes_on = NextTurn::After(900 * MS);
    let (next, dropped, _) = answered("one", tokens(40, 10));
    assert_eq!((next, dropped), (goes_on, 0));
    // 90 tokens, and about 40 * 30 / 70 for the next question: one turn has to go.
    let (next, dropped, rest) = answered("two", tokens(80, 10));
    assert_eq!((next, dropped), (goes_on, 1));
    assert_eq!(rest, ["be brief", "second", "two", "third"]);
    // All that is left is still too long.
    let (next, dropped, _) = answered("three", tokens(5_000, 10));
    assert_eq!(
        (next, dropped),
        (NextTurn::Ended(ConversationEnd::Context), 3)
    );
}

#[test]
fn a_conversation_holds_what_the_server_said_and_no_more() {
    let mut conversation = asking(&["1", "2", "3"]);
    conversation.opening = vec![b' '; 1_000_000];
    let rules = rules(Dialect::OpenAi);
    let mut dialogue = Dialogue::at_turn(&conversation, 0);
    for answers in 1..3 {
        let answer = saying(&"x".repeat(10_000));
        dialogue.answered(&conversation, &rules, answer, &Usage::default());
        let bytes = dialogue.bytes();
        assert!(
            (answers * 10_000..answers * 10_000 + 300).contains(&bytes),
            "{bytes}"
        );
    }
}

#[test]
fn an_answer_without_text_is_no_message() {
    let conversation = asking(&["1", "2"]);
    let rules = rules(Dialect::Anthropic);
    let mut dialogue = Dialogue::at_turn(&conversation, 0);
    dialogue.answered(&conversation, &rules, saying(""), &Usage::default());
    let said = body(&dialogue, &conversation, rules.dialect);
    assert_eq!(said["messages"].as_array().unwrap().len(), 2);
}

/// A line with a conversation of two turns, whose requests have its name in a header.
const LINE: &str = concat!(
    r#"{"path":"/v1/chat/completions","header":{"X-Session-ID":"{{$conversation.id}}"},"#,
    r#""body_text":"{\"model\":\"m\",{{$conversation}},\"stream\":true}","#,
    r#""conversation":{"dialect":"openai","limit":["\"max_tokens\":",""],"begins_anywhere":true,"#,
    r#""opening":[{"role":"system","content":"{{uuid}}"}],"#,
    r#""turns":[{"messages":[{"role":"user","content":"a\u00e9\n\ud83d"}],"max_tokens":7},"#,
    r#"{"messages":[{"role":"user","content":"b"}],"think_ms":1.5,"#,
    r#""tool":{"result":"\"r\"","wait_ms":500},"answer":{"role":"assistant","content":"c"}}]}}"#,
);

fn load(text: &str) -> Result<crate::RequestSet, crate::FileError> {
    let target = plan::Target::parse("http://h").unwrap();
    let defaults = crate::Defaults {
        target: Some(&target),
        ..crate::Defaults::default()
    };
    crate::load(&inputs(text), &defaults)
}

fn inputs(text: &str) -> crate::Inputs<'_> {
    crate::Inputs {
        file: "f",
        text: text.as_bytes(),
        read: &|_| Err(std::io::ErrorKind::NotFound.into()),
        variable: &|_| None,
    }
}

#[test]
fn a_line_of_a_file_has_a_conversation_whose_requests_repeat_what_was_said() {
    let set = std::sync::Arc::new(load(LINE).unwrap());
    let conversation = set.conversation(0).unwrap();
    assert_eq!(conversation.turns[1].think_ns, 1_500_000);
    assert_eq!(
        conversation.turns[1].tool,
        Some((br#"\"r\""#.to_vec(), 500 * MS))
    );
    let mut renderer = crate::Renderer::new(std::sync::Arc::clone(&set), 1, 0, 1);
    let mut dialogue = Dialogue::at_turn(conversation, 0);
    let now = crate::Moment { unix_ms: 0 };
    let mut render = |dialogue: &Dialogue| {
        let mut text = Vec::new();
        renderer.render_turn(0, (dialogue, b"s7"), now, &mut text);
        String::from_utf8(text).unwrap()
    };
    let first = render(&dialogue);
    let (head, body) = first.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("\r\nX-Session-ID: s7\r\n"), "{head}");
    let length = format!("\r\nContent-Length: {}", body.len());
    assert!(head.contains(&length), "{head}");
    // What is said is no template.
    let expected = concat!(
        r#"{"model":"m","messages":[{"role":"system","content":"{{uuid}}"},"#,
        r#"{"role":"user","content":"a\u00e9\n\ud83d"}],"max_tokens":7,"stream":true}"#,
    );
    assert_eq!(body, expected);
    let said = saying("hi");
    dialogue.answered(conversation, &conversation.rules, said, &Usage::default());
    let second = render(&dialogue);
    let expected =
        r#"{"role":"assistant","content":"hi"},{"role":"user","content":"b"}],"stream":true}"#;
    assert!(second.ends_with(expected), "{second}");
}

#[test]
fn agents_get_the_same_conversations() {
    let own = crate::self_contained(&inputs(LINE), None).unwrap();
    let sent = load(str::from_utf8(&own).unwrap()).unwrap();
    assert_eq!(sent.conversation(0), load(LINE).unwrap().conversation(0));
}

#[test]
fn what_is_wrong_with_a_conversation_is_said_with_its_line() {
    let plain = r#"{"path":"/"}"#;
    for (text, expected) in [
        (
            LINE.replace("{{$conversation}}", "{}"),
            "f:1:1: the body of a request with a conversation has {{$conversation}}",
        ),
        (
            r#"{"path":"/{{$conversation.id}}"}"#.to_owned(),
            "f:1:1: {{$conversation}} needs a conversation (key conversation)",
        ),
        (
            format!("{LINE}\n{plain}"),
            "f:2:1: either all requests of a file have a conversation, or none",
        ),
        (
            format!("{plain}\n{LINE}"),
            "f:2:1: either all requests of a file have a conversation, or none",
        ),
        (LINE.replace("openai", "x"), "dialect \"x\" is not known"),
        (
            LINE.replace("1.5", "-1"),
            "-1 is not a number of milliseconds",
        ),
        (
            LINE.replace("\"turns\"", "\"rounds\""),
            "unknown field `rounds`",
        ),
        (
            LINE.replace("\"dialect\":\"openai\",", ""),
            "missing field `dialect`",
        ),
    ] {
        let error = load(&text).expect_err(&text).to_string();
        assert!(error.contains(expected), "{error}");
    }
}
