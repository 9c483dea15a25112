//! `wrkbench llm --conversations`: what the server receives turn by turn, and what the result says.

use std::collections::HashSet;

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

#[test]
fn with_any_number_of_threads_each_turn_repeats_one_that_was_answered_before() {
    for threads in ["-t1", "-t2", "-t4", "-t8"] {
        let site = recording();
        let run = load(&site)
            .at("/v1?llm=openai&tokens=uniform:1,9&first=2ms&gap=1ms")
            .by("llm")
            .connections(16)
            .requests(64)
            .with(&[threads, "--model", "m", "--turns", "uniform:1,6"])
            .with(&["--think", "exp:5ms", "--prompt-words", "5", "--cold-start"])
            .run()
            .expect_answered_only();
        let recording = conversations(&run);
        let story = run.story();
        assert_eq!((recording.begun, recording.done), (64, 64), "{story}");
        let turns: u64 = recording.by_turn.iter().map(|it| it.answers).sum();
        assert_eq!(turns, run.result.recording.counters.answered, "{story}");
        drop(run);
        let mut unanswered: HashSet<String> = HashSet::new();
        let text = |messages: &[Value]| Value::from(messages).to_string();
        for messages in messages(site) {
            if let [before @ .., answer, _] = messages.as_slice() {
                assert_eq!(answer["role"], "assistant", "{messages:?}");
                // Each turn follows one turn, and no two follow the same.
                assert!(unanswered.remove(&text(before)), "{threads}: {messages:?}");
            }
            unanswered.insert(text(&messages));
        }
        assert_eq!(unanswered.len(), 64, "{threads}");
    }
}

#[test]
fn a_server_with_a_cache_of_prompts_has_read_what_was_said_before() {
    let site = recording();
    let run = load(&site)
        .at("/v1?llm=openai&tokens=5&first=5ms&prefill=100us")
        .by("llm")
        .connections(2)
        .requests(6)
        .with(&[
            "-t1",
            "--model",
            "m",
            "--turns",
            "4",
            "--prompt-words",
            "20",
        ])
        .with(&["--cold-start"])
        .run()
        .expect_answers(24);
    let recording = conversations(&run);
    let story = run.story();
    let cached: Vec<f64> = recording.by_turn[..3]
        .iter()
        .map(|turn| turn.cached_share().expect("the server counts"))
        .collect();
    let [first, second, third] = cached[..] else {
        panic!("{cached:?}");
    };
    assert!(first < 0.01, "{first}: {story}");
    assert!((0.3..0.7).contains(&second), "{second}: {story}");
    assert!(third > second, "{third}: {story}");
    // Each token that is new takes 0.1 ms.
    for turn in &recording.by_turn[..3] {
        let new = (turn.input_tokens - turn.cached_tokens) / turn.answers;
        let mean_us = turn.first_token.mean_ns() / 1e3;
        assert!(
            mean_us >= (5_000 + new * 100) as f64,
            "{mean_us} {new}: {story}"
        );
    }
}

#[test]
fn old_turns_are_left_out_where_the_context_is_full() {
    let site = recording();
    let run = load(&site)
        .at("/v1?llm=openai&tokens=5&first=1ms&prompt=counted")
        .by("llm")
        .connections(1)
        .requests(1)
        .with(&[
            "-t1",
            "--model",
            "m",
            "--turns",
            "8",
            "--prompt-words",
            "20",
        ])
        .with(&["--cold-start", "--context", "150", "--drop-oldest"])
        .run()
        .expect_answers(8);
    let recording = conversations(&run);
    assert_eq!((recording.done, recording.context), (1, 0));
    assert!(recording.turns_dropped > 0, "{}", run.story());
    assert!(
        run.stdout
            .contains(" left out of later requests (--drop-oldest)")
    );
    drop(run);
    for messages in messages(site) {
        assert!(messages.len() < 9, "{messages:?}");
        assert_eq!(messages[0]["role"], "user", "{messages:?}");
    }
}
