//! llama.cpp's server with a model of random weights: its formats, and its own counts of tokens.

use std::path::Path;
use std::process::Command;

use results::{LlmRecording, RunResult};

use crate::daemon::{Daemon, free_port};
use crate::trial::{backends, run, sample};
use testkit::{Folder, require_ok};

/// Requests of a run.
const REQUESTS: u64 = 24;
/// Tokens that a request asks for.
const TOKENS: u64 = 12;

/// A running llama.cpp.
struct Llama {
    url: String,
    _daemon: Daemon,
    _folder: Folder,
}

/// Tokens of prompts and of responses.
#[derive(Debug, PartialEq, Eq)]
struct Counts {
    input: u64,
    output: u64,
}

impl Llama {
    /// `None`: llama.cpp is not installed, and the test is skipped.
    fn start() -> Option<Self> {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
        let readers = target.expect("it is in target").join("readers");
        let python = readers.join("llama/bin/python");
        let found = readers.join("llama.installed").exists().then_some(python);
        let python = require_ok("llama.cpp", found.ok_or("`make readers` installs it"))?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real_servers/llama.py");
        let (daemon, (folder, port)) = Daemon::start("ready at", || {
            let (folder, port) = (Folder::new(), free_port());
            let mut command = Command::new(&python);
            command.arg(&script).arg(folder.path());
            command.arg(port.to_string());
            (command, (folder, port))
        });
        Some(Self {
            url: format!("http://127.0.0.1:{port}"),
            _daemon: daemon,
            _folder: folder,
        })
    }

    /// Its metrics, with tokens of prompts that it had in its cache.
    fn counts(&self) -> Counts {
        let mut curl = Command::new("curl");
        curl.args(["-sSf", "--max-time", "30"]);
        let output = curl.arg(format!("{}/metrics", self.url)).output();
        let page = String::from_utf8(output.expect("curl starts").stdout).expect("it is text");
        let value = |name: &str| {
            let mut lines = page.lines().filter_map(|line| line.split_once(' '));
            let found = lines.find(|(key, _)| *key == format!("llamacpp:{name}_total"));
            let number = found.and_then(|(_, value)| value.parse::<u64>().ok());
            number.unwrap_or_else(|| panic!("no {name}: {page}"))
        };
        Counts {
            input: value("prompt_tokens") + value("prompt_tokens_cached"),
            output: value("tokens_predicted"),
        }
    }

    /// A run of [`REQUESTS`], with what the server counted meanwhile.
    fn run(&self, io: &str, path: &str, body: &str) -> (RunResult, Counts) {
        let before = self.counts();
        // It closes connections after a response without saying so before.
        let arguments = [
            "--events",
            "llm",
            "-X",
            "POST",
            "--body",
            body,
            "-H",
            "Connection: close",
            "-H",
            "Content-Type: application/json",
            "-d60s",
            "--timeout",
            "60s",
            "-c4",
        ];
        let requests = format!("-n{REQUESTS}");
        let arguments: Vec<&str> = arguments.into_iter().chain([requests.as_str()]).collect();
        let result = run(io, &arguments, &format!("{}{path}", self.url));
        let after = self.counts();
        let counts = Counts {
            input: after.input - before.input,
            output: after.output - before.output,
        };
        (result, counts)
    }
}

fn llm(result: &RunResult) -> &LlmRecording {
    let parts = &result.recording.parts;
    let llm = parts.llm.as_ref().expect("events are measured");
    assert_eq!(result.recording.errors.iter().count(), 0);
    assert_eq!(
        result.recording.statuses.iter().collect::<Vec<_>>(),
        [(200, REQUESTS)]
    );
    assert_eq!(
        (llm.responses, llm.malformed_events),
        (REQUESTS, 0),
        "{llm:?}"
    );
    llm
}

/// Paths, and what makes a request of them.
fn requests() -> [(&'static str, String); 4] {
    let chat = r#""messages": [{"role": "user", "content": "Why is the sky blue?"}]"#;
    let common = r#""model": "m", "stream": true"#;
    let usage = r#""stream_options": {"include_usage": true}"#;
    [
        (
            "/v1/chat/completions",
            format!(r#"{{{common}, {usage}, "max_tokens": {TOKENS}, "ignore_eos": true, {chat}}}"#),
        ),
        (
            "/v1/completions",
            format!(r#"{{{common}, "max_tokens": {TOKENS}, "ignore_eos": true, "prompt": "a b"}}"#),
        ),
        (
            "/v1/responses",
            format!(r#"{{{common}, "max_output_tokens": {TOKENS}, "input": "Why?"}}"#),
        ),
        (
            "/v1/messages",
            format!(r#"{{{common}, "max_tokens": {TOKENS}, {chat}}}"#),
        ),
    ]
}

#[test]
fn tokens_are_those_that_llama_cpp_counted() {
    let Some(llama) = Llama::start() else { return };
    for (path, body) in requests() {
        for io in backends() {
            let (result, counted) = llama.run(io, path, &body);
            let llm = llm(&result);
            let story = format!("{io} {path}: {counted:?} {llm:?}");
            assert_eq!(llm.output_tokens, counted.output, "{story}");
            assert_eq!(llm.counted_as_events, 0, "{story}");
            // A model of random weights may end its text at once, unless it is told not to.
            assert!(llm.without_tokens < REQUESTS / 2, "{story}");
            let parts = &result.recording.parts;
            let events = parts.events.as_ref().expect("events are measured");
            assert_eq!(events.unfinished, 0, "{story}");
            if path == "/v1/messages" {
                // Some of its streams lack `message_start`, which has the tokens of the prompt.
                assert!(
                    llm.input_tokens <= counted.input && llm.input_tokens > 0,
                    "{story}"
                );
            } else {
                assert_eq!(llm.input_tokens, counted.input, "{story}");
            }
            if body.contains("ignore_eos") {
                assert_eq!(counted.output, TOKENS * REQUESTS, "{story}");
                assert_eq!(llm.finish.length, REQUESTS, "{story}");
            }
            let times = [&llm.first_token, &llm.time_per_token];
            assert!(times.iter().all(|it| it.mean_ns() > 0.0), "{story}");
        }
    }
}

#[test]
fn without_usage_the_tokens_of_llama_cpp_are_counted_by_events() {
    let Some(llama) = Llama::start() else { return };
    let [(path, body), ..] = requests();
    let body = body.replace(r#""stream_options": {"include_usage": true}, "#, "");
    for io in backends() {
        let (result, counted) = llama.run(io, path, &body);
        let llm = llm(&result);
        let story = format!("{io}: {counted:?} {llm:?}");
        assert_eq!(llm.counted_as_events, REQUESTS, "{story}");
        // A part of a character has no event of its own: it waits for the rest.
        assert!(llm.output_tokens <= counted.output, "{story}");
        assert!(llm.output_tokens > counted.output / 2, "{story}");
    }
}

#[test]
fn a_request_that_llama_cpp_refuses_is_not_a_stream() {
    let Some(llama) = Llama::start() else { return };
    let url = format!("{}/v1/chat/completions", llama.url);
    assert_eq!(sample(&["-d", "{"], &url).status, 400);
    for io in backends() {
        let arguments = [
            "--events", "llm", "-X", "POST", "--body", "{", "-n5", "-d60s",
        ];
        let result = run(io, &arguments, &url);
        let recording = &result.recording;
        assert_eq!(recording.statuses.iter().collect::<Vec<_>>(), [(400, 5)]);
        let responses = recording.parts.llm.as_ref().map(|llm| llm.responses);
        assert_eq!(responses, Some(0));
    }
}
