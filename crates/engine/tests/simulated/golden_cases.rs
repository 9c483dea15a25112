//! The golden cases of inference-perf: responses whose numbers of tokens and chunks differ.
//!
//! Facts are from kubernetes-sigs/inference-perf at 7de5ef2 (August 2026), and no code is: the
//! cases, times and rate of `e2e/tests/test_golden_accuracy_sim.py`, and the examples of
//! `tests/required/reportgen/test_summarize_requests.py`. The expected figures are worked out by
//! hand from the definitions in `docs/llm.md`. Those of inference-perf differ in three ways:
//!
//! - All tokens of a chunk have the time at which it arrived. A response of n tokens has n - 1 gaps
//!   there, most of them 0, and here one for each pair of chunks.
//! - A response in one chunk has a time per token of 0 there, and none here.
//! - Without counts of the server a tokenizer counts there, and here each chunk is one token.
//!
//! Time per token is (last - first) / (n - 1) in both. Its `docs/metrics.md` says (end of the
//! response - first) / (n - 1), which is not what it computes.

use crate::http::{HttpPeer, Reply};
use crate::simulation::{MS, Run, S};
use crate::tokens::{END, HEAD, chunk, llm, prelude, simulation};

const FIRST_NS: u64 = 150 * MS;
const INTERVAL_NS: u64 = 80 * MS;
/// Per second, for 5 s. The run ends with the last response: a token behind a window of 5 s would
/// be none of it.
const RATE: f64 = 2.0;
const REQUESTS: u64 = 10;

/// Tokens and chunks of the responses, in turn. Chunks of the third end within words and tokens.
const CASES: [(u64, usize); 4] = [(24, 1), (36, 6), (48, 12), (16, 16)];

/// Two paths of a server, whose events differ.
#[derive(Clone, Copy)]
enum Route {
    Chat,
    Completions,
}

impl Route {
    fn event(self, text: &str, finish: &str) -> String {
        let content = match self {
            Self::Chat => format!(r#""delta":{{"content":"{text}"}}"#),
            Self::Completions => format!(r#""text":"{text}""#),
        };
        chunk(&format!(
            r#"{{"choices":[{{"index":0,{content},"finish_reason":{finish}}}]}}"#
        ))
    }

    /// What comes at once: the head, and in a chat an event with the role.
    fn start(self) -> Reply {
        match self {
            Self::Chat => prelude(1),
            Self::Completions => Reply::after(1, HEAD),
        }
    }

    /// The finish reason comes with the last text, or in a chat behind it.
    fn texts(self, texts: &[String]) -> Vec<String> {
        let last = texts.len() - 1;
        let finish = |number| match self {
            Self::Completions if number == last => r#""length""#,
            _ => "null",
        };
        let numbered = texts.iter().enumerate();
        let events = numbered.map(|(number, text)| self.event(text, finish(number)));
        events.collect()
    }

    fn end(self) -> String {
        match self {
            Self::Chat => chunk(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}"#),
            Self::Completions => String::new(),
        }
    }
}

/// A text of four characters a token, cut into even chunks of whole characters.
fn texts(tokens: u64, chunks: usize) -> Vec<String> {
    let text: Vec<char> = "the harbor é "
        .chars()
        .cycle()
        .take(4 * tokens as usize)
        .collect();
    let cut = |number| number * text.len() / chunks;
    let parts = (0..chunks).map(|number| &text[cut(number)..cut(number + 1)]);
    parts.map(|part| part.iter().collect()).collect()
}

fn usage(tokens: u64) -> String {
    chunk(&format!(
        r#"{{"choices":[],"usage":{{"prompt_tokens":7,"completion_tokens":{tokens}}}}}"#
    ))
}

/// A response of so many chunks, of which the server counts the tokens if `tokens` is given. It
/// ends `end_ns` after the last text.
fn golden(route: Route, texts: &[String], tokens: Option<u64>, end_ns: u64) -> Reply {
    let mut reply = route.start();
    for (number, event) in route.texts(texts).into_iter().enumerate() {
        let after_ns = if number == 0 {
            FIRST_NS - 1
        } else {
            INTERVAL_NS
        };
        reply = reply.then(after_ns, event);
    }
    let counts = tokens.map(usage).unwrap_or_default();
    let end = format!("{}{counts}{}{END}", route.end(), chunk("[DONE]"));
    reply.then(end_ns, end)
}

/// The requests of the golden run: the cases in turn, at a constant rate.
fn run(route: Route, has_usage: bool) -> Run {
    let peer = HttpPeer::new(move |request| {
        let (tokens, chunks) = CASES[request.number as usize % CASES.len()];
        golden(
            route,
            &texts(tokens, chunks),
            has_usage.then_some(tokens),
            0,
        )
    });
    let run = simulation()
        .connections(8)
        .rate(RATE)
        .requests(REQUESTS)
        .run(peer);
    run.assert_only_errors(&[]);
    assert_eq!(run.answered(), REQUESTS);
    run
}

#[test]
fn the_figures_of_the_golden_run_are_those_of_its_definition() {
    for route in [Route::Chat, Route::Completions] {
        let run = run(route, true);
        let llm = llm(&run);
        let first = &llm.first_token;
        assert_eq!(
            (first.min_ns(), first.max_ns()),
            (Some(FIRST_NS), Some(FIRST_NS))
        );
        assert_eq!(first.count(), 10);
        // The cases have 3, 3, 2 and 2 requests: 0 * 3 + 5 * 3 + 11 * 2 + 15 * 2.
        let gap = &llm.token_gap;
        assert_eq!((gap.min_ns(), gap.max_ns()), (Some(80 * MS), Some(80 * MS)));
        assert_eq!(gap.count(), 67);
        // 400 ms / 35, 880 ms / 47 and 80 ms; the first case has none.
        let per_token = &llm.time_per_token;
        assert_eq!(per_token.count(), 7);
        assert_eq!(per_token.min_ns(), Some(11_428_571));
        assert_eq!(per_token.max_ns(), Some(80 * MS));
        let sum_ns = 3 * 11_428_571 + 2 * 18_723_404 + 2 * 80_000_000;
        assert_eq!(per_token.sum_ns(), sum_ns);
        // 24 * 3 + 36 * 3 + 48 * 2 + 16 * 2.
        assert_eq!((llm.output_tokens, llm.counted_as_events), (308, 0));
        let output = &llm.output_per_response;
        assert_eq!((output.min_ns(), output.max_ns()), (Some(16), Some(48)));
        assert_eq!((llm.input_tokens, llm.finish.length), (70, 10));
        // 150, 550, 1,030 and 1,350 ms.
        let latency = run.recording.latency();
        assert_eq!(latency.min_ns(), Some(150 * MS));
        assert_eq!(latency.max_ns(), Some(1_350 * MS));
        assert_eq!(latency.sum_ns(), 6_860 * u128::from(MS));
    }
}

#[test]
fn without_counts_of_the_server_each_chunk_of_the_golden_run_is_one_token() {
    for route in [Route::Chat, Route::Completions] {
        let run = run(route, false);
        let llm = llm(&run);
        // 1 * 3 + 6 * 3 + 12 * 2 + 16 * 2.
        assert_eq!((llm.output_tokens, llm.counted_as_events), (77, 10));
        let per_token = &llm.time_per_token;
        assert_eq!(per_token.count(), 7);
        assert_eq!(
            (per_token.min_ns(), per_token.max_ns()),
            (Some(80 * MS), Some(80 * MS))
        );
    }
}

#[test]
fn the_time_from_the_last_token_to_the_end_is_not_divided_among_the_tokens() {
    for route in [Route::Chat, Route::Completions] {
        let run = simulation().requests(1).run(HttpPeer::new(move |_| {
            golden(route, &texts(48, 12), Some(48), 470 * MS)
        }));
        // With the end of the response it would be 10 ms more.
        assert_eq!(llm(&run).time_per_token.max_ns(), Some(18_723_404));
        let end_ns = FIRST_NS + 11 * INTERVAL_NS + 470 * MS;
        assert_eq!(run.recording.latency().max_ns(), Some(end_ns));
    }
}

#[test]
fn times_per_token_are_those_of_the_examples_of_inference_perf() {
    // When chunks arrive, the tokens of the response, and the time per token.
    let examples: [(&[u64], u64, u64); 5] = [
        // 2 s / 9.
        (&[1_000, 2_000, 3_000], 10, 222_222_222),
        (&[1_000, 3_000], 10, 222_222_222),
        // The count of the server: 2 s / 4.
        (&[1_000, 3_000], 5, 500 * MS),
        // A chunk of two tokens and one of three.
        (&[1_000, 2_000], 5, 250 * MS),
        // A chunk for each token.
        (
            &[
                1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000, 8_000, 9_000,
            ],
            9,
            S,
        ),
    ];
    for (times_ms, tokens, expected_ns) in examples {
        let run = simulation()
            .timeout(20 * S)
            .requests(1)
            .run(HttpPeer::new(move |_| {
                let mut reply = prelude(1);
                let mut at_ns = 1;
                for time_ms in times_ms {
                    reply = reply.then(time_ms * MS - at_ns, Route::Chat.event("a", "null"));
                    at_ns = time_ms * MS;
                }
                let end = format!("{}{}{END}", Route::Chat.end(), usage(tokens));
                reply.then(0, end)
            }));
        let llm = llm(&run);
        assert_eq!(llm.first_token.max_ns(), Some(1_000 * MS));
        assert_eq!(
            llm.time_per_token.max_ns(),
            Some(expected_ns),
            "{times_ms:?}"
        );
        assert_eq!(llm.output_tokens, tokens);
    }
}

#[test]
fn a_response_in_one_chunk_has_a_first_token_and_no_time_per_token() {
    let run = simulation().requests(1).run(HttpPeer::new(|_| {
        golden(Route::Chat, &texts(24, 1), Some(24), 0)
    }));
    let llm = llm(&run);
    assert_eq!(llm.first_token.max_ns(), Some(FIRST_NS));
    assert_eq!((llm.token_gap.count(), llm.time_per_token.count()), (0, 0));
    assert_eq!(llm.output_tokens, 24);
}
