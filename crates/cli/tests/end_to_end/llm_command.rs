//! `wrkbench llm`: what the server receives, and what the result says about it.

use std::collections::BTreeMap;
use std::process::Command;

use origin::{Options, Recipe};
use testkit::{Output, Process};

use crate::harness::{Load, Run, Site, load, program, site_with};

/// Every path, its dialect, and where its requests have the prompt and the limit of tokens.
const ENDPOINTS: [(&str, &str, &str, &str); 6] = [
    (
        "/v1/chat/completions",
        "openai",
        "/messages/0/content",
        "/max_tokens",
    ),
    ("/v1/completions", "completions", "/prompt", "/max_tokens"),
    ("/v1/responses", "responses", "/input", "/max_output_tokens"),
    (
        "/v1/messages",
        "anthropic",
        "/messages/0/content",
        "/max_tokens",
    ),
    (
        "/api/chat",
        "ollama",
        "/messages/0/content",
        "/options/num_predict",
    ),
    ("/api/generate", "ollama", "/prompt", "/options/num_predict"),
];

fn recording() -> Site {
    site_with(Options {
        record_requests: 10_000,
        ..Options::default()
    })
}

fn llm<'s>(site: &'s Site, target: &str) -> Load<'s> {
    load(site).at(target).by("llm").with(&["--model", "m"])
}

/// The requests that the server received, and how often each.
fn received(site: Site) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for request in site.stop().recorded {
        let text = String::from_utf8(request).expect("requests are text");
        *counts.entry(text).or_default() += 1;
    }
    counts
}

/// The body of a request, which is the same for each version of HTTP.
fn body(request: &str) -> serde_json::Value {
    let begin = request.find('{').expect("it has a body");
    serde_json::from_str(&request[begin..]).expect("it is JSON")
}

#[test]
fn each_dialect_is_asked_in_its_own_words() {
    for (path, dialect, prompt, limit) in ENDPOINTS {
        for protocol in [&["--http2"][..], &[]] {
            let site = recording();
            let target = format!("{path}?llm={dialect}&tokens=6&finish=length");
            let run = llm(&site, &target)
                .requests(40)
                .with(&["--prompt-words", "5", "--prompt-count", "20"])
                .with(&["--output-tokens", "6", "-H", "Authorization: Bearer key"])
                .with(protocol)
                .run()
                .expect_answers(40);
            let story = run.story();
            let parts = &run.result.recording.parts;
            let llm = parts.llm.as_ref().expect("tokens are read");
            assert_eq!((llm.responses, llm.output_tokens), (40, 240), "{story}");
            assert_eq!(llm.finish.length, 40, "{story}");
            let note = "note: 20 prompts of 5 words (not tokens), with --seed ";
            assert!(run.stderr.contains(note), "{story}");
            assert!(!run.stdout.contains("Bearer"), "{story}");
            drop(run);
            let requests = received(site);
            assert_eq!(requests.len(), 20, "{requests:?}");
            for (request, count) in &requests {
                assert_eq!(*count, 2, "{request}");
                let lower = request.to_ascii_lowercase();
                assert!(
                    lower.contains("content-type: application/json"),
                    "{request}"
                );
                assert!(request.contains(": Bearer key"), "{request}");
                let is_versioned = lower.contains("anthropic-version: 2023-06-01");
                assert_eq!(is_versioned, dialect == "anthropic", "{request}");
                let body = body(request);
                assert_eq!(body["model"], "m");
                assert_eq!(body["stream"], true);
                assert_eq!(body.pointer(limit), Some(&6.into()), "{request}");
                let usage = body.pointer("/stream_options/include_usage");
                let has_option = ["openai", "completions"].contains(&dialect);
                assert_eq!(usage.is_some(), has_option, "{request}");
                let words = body.pointer(prompt).and_then(|it| it.as_str());
                assert_eq!(words.map(|it| it.split(' ').count()), Some(5), "{request}");
            }
        }
    }
}

/// Without `--model`, and the options.
fn asking(site: &Site, target: &str, options: &[&str]) -> Output {
    let load = load(site).at(target).by("llm").with(options);
    load.requests(4).output()
}

#[test]
fn the_only_model_of_a_server_is_taken_and_named() {
    for (target, path, protocol) in [
        ("/v1?llm=openai&tokens=1&models=a/b", "/v1/models?", &[][..]),
        (
            "/p/v1/?llm=openai&tokens=1&models=a/b",
            "/p/v1/models?",
            &["--http2"],
        ),
        (
            "/api/chat?llm=ollama&tokens=1&models=a/b",
            "/v1/models?",
            &[],
        ),
    ] {
        let site = recording();
        let output = asking(&site, target, protocol);
        assert_eq!(output.code, Some(0), "{output:?}");
        let note = "wrkbench: note: the model is a/b, the only one of http://";
        assert!(output.stderr.contains(note), "{output:?}");
        let requests = received(site);
        let (questions, others): (Vec<_>, Vec<_>) = requests
            .into_keys()
            .partition(|request| request.contains("/models?"));
        assert_eq!(questions.len(), 1, "{questions:?}");
        assert!(questions[0].contains(path), "{questions:?}");
        for request in &others {
            assert_eq!(body(request)["model"], "a/b");
        }
    }
}

#[test]
fn a_model_that_is_named_is_not_asked_for() {
    let site = recording();
    let run = llm(&site, "/v1?llm=openai&tokens=1").requests(4).run();
    drop(run.expect_answers(4));
    let requests = received(site);
    assert!(
        requests.keys().all(|it| !it.contains("/models")),
        "{requests:?}"
    );
}

#[test]
fn a_server_without_one_model_is_answered_with_what_to_type() {
    let many: Vec<String> = (1..=12).map(|number| format!("m{number}")).collect();
    let many = format!("/v1?llm=openai&models={}", many.join(","));
    for (target, options, expected) in [
        (
            "/v1?llm=openai&models=a,b",
            &[][..],
            "the server has 2: a, b (--model NAME chooses one)",
        ),
        (
            many.as_str(),
            &[],
            "the server has 12: m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, ... (--model NAME chooses \
             one)",
        ),
        (
            "/v1?llm=openai&models=none",
            &[],
            "lists none (--model NAME names it)",
        ),
        (
            "/v1?llm=openai&api-key=x",
            &[],
            "answers with status 401: \"Incorrect API key provided.\" (--api-key KEY is for \
             servers that want a key)",
        ),
        (
            "/v1?llm=openai&api-key=x",
            &["--api-key", "y"],
            "answers with status 401: \"Incorrect API key provided.\" (is the key right? --model \
             NAME names the model)",
        ),
        (
            "/v1?llm=openai&status=404",
            &[],
            "answers with status 404: \"Not Found\" (--model NAME names the model)",
        ),
        (
            "/v1?size=4",
            &[],
            "answers without a list of models: \"abcd\" (--model NAME names the model)",
        ),
        (
            "/v1?size=0",
            &[],
            "answers without a list of models: an empty body (--model NAME names the model)",
        ),
    ] {
        let site = recording();
        let output = asking(&site, target, options);
        assert_eq!(output.code, Some(1), "{output:?}");
        let line = output.only_line();
        let begin = "wrkbench: no model is named, and ";
        assert!(
            line.starts_with(begin) && line.ends_with(expected),
            "{line}"
        );
        assert_eq!(site.counts().requests, 1);
    }
}

#[test]
fn a_key_is_sent_and_never_shown_or_saved() {
    let site = recording();
    let target = "/v1?llm=openai&tokens=1&api-key=abcdefgh";
    let json = site.folder.file("result.json");
    let page = site.folder.file("page.html");
    let output = asking(
        &site,
        target,
        &["--api-key", "abcdefgh", "--json", &json, "-o", &page],
    );
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(!output.stdout.contains("Bearer"), "{output:?}");
    for path in [json, page] {
        let text = std::fs::read_to_string(path).expect("it was written");
        // The URL has it as well.
        assert!(!text.contains("abcdefgh"), "the key is in the file");
    }
    let requests = received(site);
    assert!(requests.len() > 1);
    for request in requests.keys() {
        assert!(request.contains(": Bearer abcdefgh"), "{request}");
    }
}

#[test]
fn the_report_has_the_words_of_the_server_about_its_first_error() {
    for protocol in [&[][..], &["--http2"]] {
        let site = recording();
        let run = llm(&site, "/v1?size=4&status=500")
            .requests(20)
            .with(protocol);
        let run = run.run();
        let note = "note: the server says with status 500: \"abcd\"";
        let found = run.stderr.matches("the server says").count();
        assert!(run.stderr.contains(note) && found == 1, "{}", run.story());
        let error = &run.document["llm"]["first_error"];
        assert_eq!(error["status"], 500, "{}", run.story());
        assert_eq!(error["words"], "abcd");
        let run = llm(&site, "/v1?llm=openai&tokens=1").requests(4).run();
        assert!(!run.stderr.contains("the server says"), "{}", run.story());
    }
}

#[test]
fn a_server_that_refuses_the_first_requests_ends_the_run_with_its_own_words() {
    for (target, more, protocol, expected) in [
        (
            "/v1?llm=openai&api-key=x",
            &[][..],
            &["--http2"][..],
            "with status 401: \"Incorrect API key provided.\" (--api-key KEY is for servers that \
             want a key)",
        ),
        (
            "/v1?llm=openai&api-key=x",
            &["--api-key", "y"],
            &[],
            "with status 401: \"Incorrect API key provided.\" (is --api-key right?)",
        ),
        (
            "/v1?size=4&status=404",
            &["--warmup", "1h", "--local", "2"],
            &[],
            "with status 404: \"abcd\" (are --model and the path right?)",
        ),
    ] {
        let site = recording();
        let run = llm(&site, target).with(&["-d1h"]).with(more).with(protocol);
        let output = run.output();
        assert_eq!(output.code, Some(1), "{output:?}");
        let mut lines = output.stderr.lines();
        let line = lines.find(|line| line.contains(" refused the first "));
        let line = line.unwrap_or_else(|| panic!("{output:?}"));
        assert!(line.starts_with("wrkbench: http://"), "{line}");
        assert!(line.ends_with(expected), "{line}");
        assert!(site.counts().requests >= 20);
    }
}

#[test]
fn prompts_have_the_tokens_that_were_asked_as_the_server_counts_them() {
    for (path, dialect) in [
        ("/v1/chat/completions", "openai"),
        ("/v1/completions", "completions"),
        ("/v1/responses", "responses"),
        ("/v1/messages", "anthropic"),
        ("/api/chat", "ollama"),
    ] {
        let site = recording();
        let target = format!("{path}?llm={dialect}&tokens=1&prompt=counted");
        let json = site.folder.file("result.json");
        let load = llm(&site, &target).requests(40).with(&["--json", &json]);
        let output = load.with(&["--prompt-tokens", "600"]).output();
        assert_eq!(output.code, Some(0), "{output:?}");
        let note = "note: the server counts 1.";
        assert!(output.stderr.contains(note), "{output:?}");
        let line = output.stdout.split("  input tokens: 600 asked, ").nth(1);
        let line = line.unwrap_or_else(|| panic!("{output:?}"));
        let (range, _) = line
            .split_once(" counted by the server\n")
            .expect("the end");
        // The words have different numbers of tokens.
        for number in range.split(" to ") {
            let tokens: u64 = number.parse().expect("a number");
            assert!((540..=660).contains(&tokens), "{range}");
        }
        let document = std::fs::read_to_string(json).expect("it was written");
        assert!(
            document.contains("\"prompt_tokens\": \"600\""),
            "{document}"
        );
        // Two prompts are counted before the run.
        assert_eq!(received(site).values().sum::<u64>(), 42);
    }
}

#[test]
fn a_server_that_does_not_count_tokens_is_answered_with_what_to_type() {
    for (target, expected) in [
        (
            "/v1?llm=openai&tokens=1&usage=none",
            "does not say how many tokens a prompt has (usage): --prompt-words N makes prompts of \
             N words",
        ),
        (
            "/v1?llm=openai&tokens=1",
            "--prompt-tokens: the server counts 16 tokens in a prompt of 16 words, and 16 in one \
             of 256 (--prompt-words N makes prompts of N words)",
        ),
        (
            "/v1?llm=openai&api-key=x",
            " answers a prompt with status 401: \"Incorrect API key provided.\" (--api-key KEY is",
        ),
        ("/v1?fault=reset", " does not answer: "),
    ] {
        let site = recording();
        let output = llm(&site, target)
            .with(&["--prompt-tokens", "600"])
            .output();
        assert_eq!(output.code, Some(1), "{output:?}");
        let line = output.only_line();
        assert!(line.starts_with("wrkbench: --prompt-tokens: "), "{line}");
        assert!(line.contains(expected), "{line}");
    }
}

#[test]
fn users_wait_if_the_server_is_busy_and_the_report_says_how_long() {
    for protocol in [&[][..], &["--http2", "--streams", "2"]] {
        let site = recording();
        let target = "/v1?llm=openai&tokens=1&status=429&header=Retry-After:1";
        let run = llm(&site, target).connections(2).requests(8);
        let run = run.with(&["-t1"]).with(protocol).run();
        let story = run.story();
        let llm = run.result.recording.parts.llm.as_ref().expect("tokens");
        let users = if protocol.is_empty() { 2 } else { 4 };
        let rounds = 8 / users;
        assert_eq!(llm.pauses.count(), 8, "{story}");
        assert!(run.result.window.duration_ns >= (rounds - 1) * 1_000_000_000);
        let line = "  8 responses asked to wait (429), 1 s on average\n";
        assert!(run.stdout.contains(line), "{story}");
        drop(run);
    }
}

#[test]
fn a_server_that_compresses_its_streams_is_named() {
    for protocol in [&[][..], &["--http2"]] {
        let site = recording();
        let target = "/v1?llm=openai&tokens=1&header=Content-Encoding:gzip";
        let run = llm(&site, target).requests(4).with(protocol).run();
        let warning = "4 of 4 streams were compressed (Content-Encoding), so their events were not \
                       read: -H 'Accept-Encoding: identity' asks the server";
        assert!(run.stderr.contains(warning), "{}", run.story());
        assert!(!run.stderr.contains("had a token"), "{}", run.story());
    }
}

#[test]
fn other_runs_of_the_same_requests_go_on() {
    let site = recording();
    let load = load(&site).at("/v1?llm=openai&status=401").requests(40);
    let run = load.with(&["--events", "llm"]).run();
    assert_eq!(run.answered(), 40, "{}", run.story());
}

#[test]
fn a_search_ends_when_the_server_refuses_the_first_requests() {
    let site = recording();
    for more in [&[][..], &["--no-try"]] {
        let folder = site
            .folder
            .file(if more.is_empty() { "tried" } else { "untried" });
        let load = llm(&site, "/v1?llm=openai&api-key=x").with(&[
            "--search",
            "goodput>95%",
            "--good",
            "first_token<1s",
            "--results",
            &folder,
        ]);
        let output = load.with(more).output();
        assert!(output.code != Some(0), "{output:?}");
        assert!(
            output.stderr.contains("\"Incorrect API key provided.\""),
            "{output:?}"
        );
        assert!(!output.stdout.contains("users"), "{output:?}");
    }
}

#[test]
fn a_search_asks_for_the_model_and_saves_no_key() {
    const KEY: &str = "sk-abcdefgh";
    let answer = format!("llm=openai&tokens=2&models=a/b&api-key={KEY}");
    for given in [KEY, "{{env:KEY_OF_TEST}}"] {
        let site = site_with(Options {
            record_requests: 10_000,
            defaults: Recipe::from_text(&answer).expect("a recipe"),
            ..Options::default()
        });
        let [results, journal] = ["results", "journal"].map(|name| site.folder.file(name));
        let mut command = program(&["llm", "--search", "goodput>95%", "--good", "latency<9s"]);
        command
            .args(["--api-key", given, "--budget=3s", "-d500ms", "--warmup=0s"])
            .args(["-t1", "-c1", "--max-connections=2", "--turns=2", "--no-try"])
            .args(["--results", &results, "--journal", &journal])
            .arg(site.url("/v1"))
            .env("KEY_OF_TEST", KEY);
        let output = Process::start(command).finish();
        let note = "wrkbench: note: the model is a/b, the only one of http://";
        assert!(output.stderr.contains(note), "{output:?}");
        assert!(output.stdout.contains("\nPage: "), "{output:?}");
        assert!(!format!("{output:?}").contains(KEY), "{output:?}");
        let files = ["requests.jsonl", "plan.toml", "experiment.json"];
        let mut files: Vec<_> = files.map(|name| format!("{results}/{name}")).into();
        files.push(format!("{results}/report.html"));
        let trials = std::fs::read_dir(format!("{results}/trials")).expect("there are trials");
        let trials = trials.map(|trial| trial.expect("a file").path());
        files.extend(trials.map(|path| path.display().to_string()));
        assert!(files.len() > 4, "{files:?}");
        for file in files {
            let text = std::fs::read_to_string(&file).expect("it was written");
            assert!(!text.contains(KEY), "the key is in {file}");
        }
        let requests = received(site);
        let (questions, turns): (Vec<_>, Vec<_>) = requests
            .into_keys()
            .partition(|request| request.contains("/models "));
        assert_eq!(questions.len(), 1, "{questions:?}");
        // Conversations: a second turn repeats the first one and its answer.
        let second =
            |request: &String| body(request)["messages"].as_array().map(Vec::len) == Some(3);
        let turns: Vec<_> = turns.iter().filter(|it| it.starts_with("POST")).collect();
        assert!(turns.iter().copied().any(second), "{turns:?}");
        for request in turns {
            assert_eq!(body(request)["model"], "a/b");
            assert!(request.contains(&format!(": Bearer {KEY}")), "{request}");
        }
    }
}

#[test]
fn a_search_that_starts_its_server_needs_the_name_of_the_model() {
    let site = recording();
    let load = load(&site).at("/v1").by("llm");
    let output = load
        .with(&["--search", "p50<9s", "--setup", "true"])
        .output();
    assert_eq!(output.code, Some(1), "{output:?}");
    let line = output.only_line();
    assert!(line.starts_with("wrkbench: no model (--model NAME): the server is asked"));
    assert_eq!(site.counts().requests, 0);
}

#[test]
fn the_printed_file_sends_what_the_command_sends() {
    let target = "/?llm=openai&tokens=2";
    let options = [
        "--seed",
        "9",
        "--prompt-words",
        "uniform:2,40",
        "--prompt-count",
        "30",
        "--output-tokens",
        "exp:50",
        "--shared-prefix",
        "4",
        "--ignore-eos",
        "--extra",
        "{\"temperature\": 0}",
    ];
    let of_command = recording();
    // The requests have the server's port in them.
    let authority = of_command.authority().to_owned();
    let run = llm(&of_command, target).with(&options).requests(60).run();
    let name = run.document["plan"]["request"]["file"]["path"].clone();
    assert!(name.as_str().expect("it has a name").starts_with("llm-"));
    let seed = &run.document["plan"]["request"]["file"]["seed"];
    assert_eq!(*seed, 9, "{}", run.story());
    assert_eq!(run.document["plan"]["timeout_ns"], 600_000_000_000_u64);
    drop(run);

    let printed = llm(&of_command, target).with(&options).with(&["--print"]);
    let printed = printed.output();
    assert_eq!(printed.code, Some(0), "{printed:?}");
    assert!(
        printed
            .stderr
            .contains("note: send them with: wrkbench --requests FILE --events llm --timeout 10m"),
        "{printed:?}"
    );
    assert_eq!(printed.stdout.lines().count(), 30);
    let from_file = recording();
    let file = from_file.folder.file_with("f.jsonl", &printed.stdout);
    let run = load(&from_file).at(target).requests(60);
    let run = run.with(&["--requests", &file, "--events", "llm"]).run();
    assert!(run.result.recording.parts.llm.is_some());
    drop(run);
    let other = from_file.authority().to_owned();
    let expected: BTreeMap<String, u64> = received(of_command);
    let found: BTreeMap<String, u64> = received(from_file)
        .into_iter()
        .map(|(request, count)| (request.replace(&other, &authority), count))
        .collect();
    assert_eq!(expected.len(), 30);
    assert_eq!(found, expected);
}

#[test]
fn equal_loads_have_the_same_name_whatever_their_seed() {
    let site = recording();
    let name = |options: &[&str]| {
        let load = llm(&site, "/?llm=openai&tokens=1").requests(4);
        let run: Run<'_> = load.with(options).run();
        run.document["plan"]["request"]["file"]["path"].to_string()
    };
    let first = name(&["--seed", "1"]);
    assert_eq!(first, name(&["--seed", "2"]));
    assert_ne!(first, name(&["--prompt-words", "9"]));
    let file = |text: &str| site.folder.file_with("p.jsonl", text);
    let one = name(&["--prompts", &file("{\"prompt\":\"one\"}")]);
    assert_ne!(one, name(&["--prompts", &file("{\"prompt\":\"two\"}")]));
}

#[test]
fn prompts_of_a_file_are_sent_in_their_order_and_those_without_one_are_counted() {
    let site = recording();
    let conversations = r#"[
        {"conversations": [{"from": "human", "value": "one {{seq}}"}]},
        {"conversations": []},
        {"conversations": [{"from": "gpt", "value": "no"}, {"from": "human", "value": "two"}]}]"#;
    let file = site.folder.file_with("s.json", conversations);
    let gzip = Command::new("gzip").arg(&file).status();
    assert!(gzip.expect("gzip is there").success());
    let load = llm(&site, "/v1/completions?llm=completions&tokens=1");
    let run = load
        .connections(1)
        .requests(4)
        .with(&["--prompts", &format!("{file}.gz")])
        .run()
        .expect_answers(4);
    assert!(
        run.stderr
            .contains("note: 2 prompts of 1 to 2 words (not tokens), 2 on average; --print"),
        "{}",
        run.story()
    );
    assert!(
        run.stderr
            .contains(".gz without a prompt; the first is in line 3"),
        "{}",
        run.story()
    );
    drop(run);
    let requests = site.stop().recorded;
    let prompt = |request: Vec<u8>| body(&String::from_utf8(request).unwrap())["prompt"].clone();
    let prompts: Vec<_> = requests.into_iter().map(prompt).collect();
    assert_eq!(prompts, ["one {{seq}}", "two", "one {{seq}}", "two"]);
}

#[test]
fn prompts_that_cannot_be_read_are_refused_in_one_line() {
    let site = recording();
    let folder = &site.folder;
    for (content, expected) in [
        (&b""[..], ":1:1: the file is empty (expected JSON)"),
        (b"[{\"prompt\": \"a", ":1:14: EOF while parsing a string"),
        (
            b"{\"prompt\": 5}",
            ":1:12: invalid type: integer `5`, expected a string",
        ),
        (
            b"{\"id\": 5}",
            ":1:1: no object has a prompt: the first one has \"id\" (expected",
        ),
        (b"\xff\xfe", ": is not UTF-8 text"),
        (b"\x1f\x8b\x08", ": "),
        (
            b"{\"messages\": [{\"role\": \"user\"}]}",
            ":1:14: has messages, but a request to this path has a text (\"prompt\")",
        ),
    ] {
        let file = folder.file_with("p.json", content);
        let load = llm(&site, "/v1/completions?llm=completions");
        let refused = load.with(&["--prompts", &file]).output();
        assert_eq!(refused.code, Some(1), "{refused:?}");
        let line = refused.only_line();
        assert!(line.starts_with("wrkbench: --prompts: "), "{line}");
        assert!(line.contains(&format!("p.json{expected}")), "{line}");
    }
    let huge = folder.file("huge.json");
    let file = std::fs::File::create(&huge).unwrap();
    // It has no blocks.
    file.set_len((1 << 30) + 1).unwrap();
    for path in [folder.file("missing.json"), "/dev/zero".to_owned(), huge] {
        let load = llm(&site, "/v1/completions?llm=completions");
        let refused = load.with(&["--prompts", &path]).output();
        let line = refused.only_line();
        let expected = format!("wrkbench: --prompts: cannot read {path}: ");
        assert!(
            refused.code == Some(1) && line.starts_with(&expected),
            "{line}"
        );
    }
    assert_eq!(site.counts().requests, 0);
}

#[test]
fn prompts_come_through_stdin() {
    let site = recording();
    let url = site.url("/v1/responses?llm=responses&tokens=1");
    let shell = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_wrkbench"), &url]);
        Process::start(command).finish()
    };
    let piped = shell(
        "echo '{\"messages\":[{\"role\":\"user\",\"content\":\"a b\"}]}' |
         \"$0\" llm \"$1\" --model m --prompts - --print",
    );
    assert_eq!(piped.code, Some(0), "{piped:?}");
    assert!(
        piped
            .stdout
            .contains(r#"\"input\":[{\"role\":\"user\",\"content\":\"a b\""#),
        "{piped:?}"
    );
    assert_eq!(site.counts().requests, 0);
}

#[test]
fn responses_that_end_before_the_limit_are_warned_about_here_and_by_a_fleet() {
    for fleet in [&[][..], &["--local", "2"]] {
        for (finish, ignores, expected) in [
            ("length", false, None),
            (
                "stop",
                false,
                Some("--output-tokens 9: the lengths depend on"),
            ),
            (
                "stop",
                true,
                Some("--output-tokens 9: the server does not heed"),
            ),
        ] {
            let site = recording();
            let run = llm(&site, &format!("/?llm=openai&tokens=3&finish={finish}"));
            let run = run.requests(20).with(&["--output-tokens", "9"]).with(fleet);
            let run = run
                .with(if ignores { &["--ignore-eos"] } else { &[] })
                .run();
            let found = run
                .stderr
                .contains("100 % of 20 responses ended before --output-tokens 9");
            assert_eq!(found, expected.is_some(), "{}", run.story());
            assert!(
                run.stderr.contains(expected.unwrap_or_default()),
                "{}",
                run.story()
            );
        }
    }
}

#[test]
fn secrets_of_the_url_are_printed_as_variables_unless_they_are_to_be_kept() {
    let site = recording();
    let target = "/v1/chat/completions?api_key=abcdefgh";
    let print = |options: &[&str]| {
        let load = llm(&site, target).with(&["--print", "--prompt-count", "1"]);
        load.with(options).output()
    };
    let hidden = print(&[]);
    assert!(
        hidden.stdout.contains("api_key={{env:API_KEY}}"),
        "{hidden:?}"
    );
    assert!(
        hidden.stderr.contains("API_KEY (api_key in a URL)"),
        "{hidden:?}"
    );
    let kept = print(&["--keep-secrets"]);
    assert!(kept.stdout.contains("api_key=abcdefgh"), "{kept:?}");
}

#[test]
fn a_fleet_sends_the_same_prompts() {
    let site = recording();
    let load = llm(&site, "/?llm=openai&tokens=2").connections(4);
    let run = load
        .requests(40)
        .with(&["--prompt-count", "10", "--local", "2"])
        .run();
    assert_eq!(run.answered(), 40, "{}", run.story());
    drop(run);
    assert_eq!(received(site).len(), 10);
}
