//! `wrkbench llm --conversations`: what the server receives turn by turn, and what the result says.

use origin::Options;
use results::ConversationRecording;
use serde_json::{Value, json};
use testkit::Folder;

use crate::harness::{Load, Run, Site, load, site_with};
use crate::http3;

/// Two conversations with what texts may contain: quotes, a line break, an emoji, a template.
const FILE: &str = concat!(
    "{\"id\":\"a\",\"system\":\"Be brief.\",\"turns\":[{\"user\":\"\\\"1\\\"\\n\"},",
    "{\"user\":\"{{uuid}}\",\"max_tokens\":3},{\"user\":\"\\ud83d\\ude00\"}]}\n",
    "{\"conversations\":[{\"from\":\"human\",\"value\":\"b1\"},",
    "{\"from\":\"gpt\",\"value\":\"r1\"},",
    "{\"from\":\"human\",\"value\":\"b2\"},{\"from\":\"gpt\",\"value\":\"r2\"}]}\n",
);

fn recording() -> Site {
    site_with(Options {
        record_requests: 10_000,
        ..Options::default()
    })
}

fn talk<'s>(site: &'s Site, file: &str) -> Load<'s> {
    let target = "/v1?llm=openai&tokens=4&first=2ms";
    let load = load(site).at(target).by("llm").with(&["--model", "m"]);
    load.connections(1).with(&["-t1", "--conversations", file])
}

/// The messages of each request, in the order in which the server received them.
fn messages(site: Site) -> Vec<Vec<Value>> {
    let recorded = site.stop().recorded.into_iter();
    let messages = recorded.map(|request| {
        let text = String::from_utf8(request).expect("requests are text");
        let begin = text.find('{').expect("it has a body");
        let body: Value = serde_json::from_str(&text[begin..]).expect("it is JSON");
        body["messages"].as_array().expect("messages").clone()
    });
    messages.collect()
}

fn conversations<'r>(run: &'r Run<'_>) -> &'r ConversationRecording {
    let recording = run.result.recording.parts.conversations.as_ref();
    recording.expect("there are conversations")
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

#[test]
fn each_request_repeats_the_messages_before_it_over_every_protocol() {
    let folder = Folder::new();
    let file = folder.file("talk.jsonl");
    std::fs::write(&file, FILE).expect("a file");
    let file = file.as_str();
    for protocol in [&[][..], &["--http2"], &["--http3"]] {
        let site = site_with(Options {
            record_requests: 10_000,
            ..http3::options()
        });
        let run = talk(&site, file)
            .requests(2)
            .with(&["--cold-start"])
            .with(protocol)
            .run()
            .expect_answers(5);
        let recording = conversations(&run);
        assert_eq!((recording.begun, recording.done), (2, 2), "{}", run.story());
        let answers: Vec<u64> = recording.by_turn.iter().map(|it| it.answers).collect();
        assert_eq!(answers, [2, 2, 1, 0, 0]);
        drop(run);
        let messages = messages(site);
        let [first, second, third, fourth, fifth] = messages.as_slice() else {
            panic!("{messages:?}");
        };
        let system = json!({"role": "system", "content": "Be brief."});
        assert_eq!(*first, [system, user("\"1\"\n")]);
        let said = |messages: &[Value], at: usize| {
            assert_eq!(messages[at]["role"], "assistant", "{messages:?}");
            let text = messages[at]["content"].as_str().expect("a text");
            assert!(!text.is_empty(), "{messages:?}");
        };
        assert_eq!(second[..2], first[..]);
        said(second, 2);
        assert_eq!(second[3..], [user("{{uuid}}")]);
        assert_eq!(third[..4], second[..]);
        said(third, 4);
        assert_eq!(third[5..], [user("\u{1f600}")]);
        // In live history, the recorded answer is not sent.
        assert_eq!(*fourth, [user("b1")]);
        assert_eq!((fifth.len(), &fifth[2]), (3, &user("b2")));
        assert_ne!(fifth[1]["content"], "r1");
    }
}

#[test]
fn recorded_history_repeats_the_answers_of_the_file() {
    let folder = Folder::new();
    let file = folder.file("talk.json");
    let line = FILE.lines().nth(1).expect("a second line");
    std::fs::write(&file, line).expect("a file");
    let site = recording();
    let run = talk(&site, file.as_str())
        .requests(1)
        .with(&["--cold-start", "--history", "recorded"])
        .run();
    drop(run.expect_answers(2));
    let messages = messages(site);
    let answer = json!({"role": "assistant", "content": "r1"});
    assert_eq!(messages[1], [user("b1"), answer, user("b2")]);
}

#[test]
fn a_fleet_has_the_conversations_of_its_agents_together() {
    let site = recording();
    let run = load(&site)
        .at("/v1?llm=openai&tokens=2&first=2ms")
        .by("llm")
        .connections(4)
        .with(&["--model", "m", "--turns", "3", "--think", "20ms"])
        .with(&["--prompt-words", "3", "--local", "2"])
        .for_ms(1_000)
        .run()
        .expect_answered_only();
    let recording = conversations(&run);
    let story = run.story();
    assert!(recording.done >= 8, "{story}");
    assert_eq!(recording.failed, 0, "{story}");
    let window_ns = run.result.window.duration_ns;
    let (live, _) = recording.users_mean(window_ns).expect("a window");
    assert!((3.5..=4.001).contains(&live), "{live}: {story}");
}

#[test]
fn options_of_conversations_need_some_and_files_are_checked() {
    let site = recording();
    let folder = Folder::new();
    let empty = folder.file("empty.json");
    std::fs::write(&empty, "[]").expect("a file");
    let empty = empty.as_str();
    let shown = format!("--conversations: {empty}:1:1: no object has a turn");
    for (path, options, expected) in [
        (
            "/v1",
            &["--think", "1s"][..],
            "--think: needs conversations (--conversations FILE or --turns N)",
        ),
        (
            "/v1",
            &["--turns", "2", "--history", "recorded"],
            "--history recorded: random conversations have no recorded answers",
        ),
        (
            "/v1/completions",
            &["--turns", "2"],
            "a conversation has messages, but a request to this path has a text",
        ),
        ("/v1", &["--conversations", empty], &shown),
        (
            "/v1",
            &["--conversations", "missing.json"],
            "--conversations: cannot read missing.json",
        ),
        ("/v1", &["--turns", "2", "--prompts", "p.json"], "--turns"),
    ] {
        let load = load(&site).at(path).by("llm").with(&["--model", "m"]);
        let output = load.with(options).requests(1).output();
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(output.stderr.contains(expected), "{output:?}");
    }
}
