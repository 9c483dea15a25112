//! The mock server of guidellm: times that it was told, its own counts of tokens, conversations.

use std::path::Path;
use std::process::Command;

use results::{ConversationRecording, Histogram, LlmRecording, RunResult};

use crate::daemon::{Daemon, free_port};
use crate::trial::{backends, llm};
use testkit::{Folder, require_ok};

/// Until the first token, and between tokens. Its timers wait for whole milliseconds.
const FIRST_MS: u64 = 200;
const GAP_MS: u64 = 40;
const TIMER_MS: u64 = 1;
/// Tokens of a response, unless a request wants fewer.
const TOKENS: u64 = 8;
const REQUESTS: u64 = 24;

/// A running mock server.
struct Mock {
    url: String,
    _daemon: Daemon,
}

impl Mock {
    /// `None`: guidellm is not installed, and the test is skipped.
    fn start() -> Option<Self> {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
        let readers = target.expect("it is in target").join("readers");
        let program = readers.join("guidellm/bin/guidellm");
        let found = readers.join("guidellm.installed").exists();
        let found = found.then_some(program).ok_or("`make readers` installs it");
        let program = require_ok("guidellm", found)?;
        let (daemon, port) = Daemon::start("Worker ready", || {
            let port = free_port();
            // It logs to stdout.
            let mut command = Command::new("sh");
            command.args(["-c", r#"exec "$0" "$@" >&2"#]);
            command.arg(&program).arg("mock-server");
            command.args(["--port", &port.to_string()]);
            command.args(["--ttft-ms", &FIRST_MS.to_string()]);
            command.args(["--itl-ms", &GAP_MS.to_string()]);
            command.args(["--output-tokens", &TOKENS.to_string()]);
            (command, port)
        });
        Some(Self {
            url: format!("http://127.0.0.1:{port}"),
            _daemon: daemon,
        })
    }

    /// A run of so many requests or conversations.
    fn run(&self, io: &str, number: u64, path: &str, arguments: &[&str]) -> RunResult {
        let number = format!("-n{number}");
        let common = ["-t1", "-c4", "-d60s", "--timeout", "60s", &number];
        let arguments = [&common, arguments].concat();
        let result = llm(io, &arguments, &format!("{}{path}", self.url));
        assert_eq!(result.recording.errors.iter().count(), 0);
        result
    }
}

fn tokens(result: &RunResult) -> &LlmRecording {
    let recording = &result.recording;
    let llm = recording.parts.llm.as_ref().expect("tokens are read");
    let answered = recording.counters.answered;
    assert_eq!((llm.responses, llm.malformed_events), (answered, 0));
    assert_eq!((llm.counted_as_events, llm.errors), (0, 0), "{llm:?}");
    assert_eq!(llm.finish.stop, answered, "{llm:?}");
    let events = recording.parts.events.as_ref().expect("events are read");
    assert_eq!(events.unfinished, 0);
    llm
}

/// The server is never early. It may be late by any time on a machine that has other work, but
/// not each time.
fn assert_told(times: &Histogram, told_ms: u64, story: &str) {
    let (least_ns, most_ns) = ((told_ms - TIMER_MS) * 1_000_000, 2 * told_ms * 1_000_000);
    let soonest_ns = times.min_ns().expect("there are samples");
    assert!(
        (least_ns..most_ns).contains(&soonest_ns),
        "{story}: {times:?}"
    );
}

/// Paths of the server whose streams differ.
const PATHS: [&str; 3] = ["/v1", "/v1/completions", "/v1/responses"];

#[test]
fn times_and_tokens_are_those_that_the_mock_server_of_guidellm_was_told() {
    let Some(mock) = Mock::start() else { return };
    let folder = Folder::new();
    // Words and spaces are its tokens: 4 and 3.
    let prompts = folder.file_with("prompts.json", r#"{"prompt": "why is it blue"}"#);
    let prompts = ["--prompts", &prompts];
    for path in PATHS {
        for io in backends() {
            let result = mock.run(io, REQUESTS, path, &prompts);
            let llm = tokens(&result);
            let story = format!("{io} {path}");
            assert_eq!(llm.responses, REQUESTS, "{story}");
            assert_eq!(llm.output_tokens, TOKENS * REQUESTS, "{story}");
            assert_eq!(llm.input_tokens, 7 * REQUESTS, "{story}");
            assert_eq!(llm.first_token.count(), REQUESTS, "{story}");
            assert_told(&llm.first_token, FIRST_MS, &story);
            assert_eq!(llm.time_per_token.count(), REQUESTS, "{story}");
            assert_told(&llm.time_per_token, GAP_MS, &story);
        }
    }
}

#[test]
fn the_mock_server_of_guidellm_keeps_to_the_limit_of_tokens() {
    let Some(mock) = Mock::start() else { return };
    for path in PATHS {
        for io in backends() {
            let result = mock.run(io, REQUESTS, path, &["--max-tokens", "5"]);
            assert_eq!(tokens(&result).output_tokens, 5 * REQUESTS, "{io} {path}");
        }
    }
}

fn conversations(result: &RunResult) -> &ConversationRecording {
    let parts = &result.recording.parts;
    let recording = parts.conversations.as_ref();
    recording.expect("there are conversations")
}

#[test]
fn each_turn_repeats_what_the_mock_server_of_guidellm_said_before() {
    let Some(mock) = Mock::start() else { return };
    let folder = Folder::new();
    // Its answers are two words and the space between them. It joins messages with spaces.
    let (asked, answered, space) = (3, 3, 1);
    let turns = r#"{"turns": [{"user": "a b"}, {"user": "c d"}, {"user": "e f"}]}"#;
    let file = folder.file_with("talk.json", turns);
    let arguments = ["--conversations", &file, "--cold-start", "--max-tokens"];
    let arguments = [&arguments[..], &["3"]].concat();
    for io in backends() {
        let result = mock.run(io, 5, "/v1", &arguments);
        assert_eq!(tokens(&result).responses, 15, "{io}");
        let recording = conversations(&result);
        assert_eq!((recording.begun, recording.done), (5, 5), "{io}");
        let means = recording.by_turn.iter().map(|turn| turn.input_mean());
        let more = answered + asked + 2 * space;
        let expected = [asked, asked + more, asked + 2 * more].map(|sum| Some(f64::from(sum)));
        assert_eq!(means.take(3).collect::<Vec<_>>(), expected, "{io}");
        let answers = recording.by_turn.iter().map(|turn| turn.answers);
        assert_eq!(answers.collect::<Vec<_>>(), [5, 5, 5, 0, 0], "{io}");
    }
}

#[test]
fn turns_of_random_words_go_on_with_the_mock_server_of_guidellm() {
    let Some(mock) = Mock::start() else { return };
    let arguments = ["--turns", "3", "--think", "10ms", "--prompt-words", "5"];
    for io in backends() {
        let result = mock.run(io, 6, "/v1", &arguments);
        tokens(&result);
        let recording = conversations(&result);
        let ended = (recording.begun, recording.done, recording.failed);
        assert_eq!(ended, (6, 6, 0), "{io}");
    }
}
