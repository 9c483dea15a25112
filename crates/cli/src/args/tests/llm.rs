//! `wrkbench llm`: its requests, and the run that they are for.

use ::convert::llm::{Endpoint, Synthetic};
use plan::distribution::Count;

use super::*;

fn llm(line: &str) -> LlmRequest {
    match parsed_as(Dialect::Native, &format!("llm {line}")) {
        Ok(Request::Llm(request)) => *request,
        other => panic!("{line:?} is no load of a model: {other:?}"),
    }
}

#[test]
fn the_run_is_that_of_a_request_file_with_a_timeout_for_streams() {
    let request = llm("http://h:1 --model m -R5 -d9s -H A:~b --good latency<9s");
    let mut expected =
        run("http://h:1 --requests llm --events llm -T10m -R5 -d9s -H A:~b --good latency<9s");
    expected.plan.request.file = request.run.plan.request.file.clone();
    expected.plan.stops_if_denied = true;
    assert_eq!(request.run, expected);
    assert_eq!(request.run.plan.timeout, Duration::from_secs(600));
    assert!(request.run.draws_seed && !request.prints);
    let default = Synthetic {
        prompts: 1000,
        words: Count::fixed(128),
        shared_words: 0,
        tokenizer: None,
    };
    assert_eq!(request.prompts, PromptSource::Synthetic(default));
    assert_eq!(request.bodies.model, "m");
    let endpoint = Endpoint::of("/v1/chat/completions", None);
    assert_eq!(Ok(request.bodies.endpoint), endpoint);

    let request = llm(
        "--model m U/x --events-dialect anthropic -T5s --seed 3 --events llm --print"
            .replace('U', "http://h:1")
            .as_str(),
    );
    assert_eq!(request.run.plan.timeout, Duration::from_secs(5));
    assert_eq!(request.run.plan.random_seed(), Some(3));
    assert!(!request.run.draws_seed && request.prints);
    let events = request.run.plan.events.unwrap();
    assert_eq!(events.dialect, Some(plan::Dialect::Anthropic));
    assert_eq!(request.bodies.endpoint.path, "/x");
}

#[test]
fn equal_loads_have_the_same_text_whatever_their_seed() {
    let load = |options: &str| llm(&format!("http://h:1 --model m {options}")).load;
    assert_eq!(load("--seed 1"), load("--seed 2 -R5 -c9"));
    assert_eq!(load(""), load("--prompt-words 128 --prompt-count 1k"));
    let different = [
        "",
        "--prompt-words 9",
        "--prompt-tokens 9",
        "--prompt-count 9",
        "--shared-prefix 9",
        "--output-tokens 9",
        "--output-tokens 9 --ignore-eos",
        "--extra {\"a\":9}",
    ];
    for (at, one) in different.iter().enumerate() {
        for other in &different[at + 1..] {
            assert_ne!(load(one), load(other));
        }
    }
    assert_ne!(load(""), llm("http://h:1/v1/completions --model m").load);
    assert_eq!(load(""), llm("http://h:1 --model n").load);
    assert_eq!(load("--max-tokens 9"), load("--output-tokens 9"));
}

#[test]
fn without_a_model_the_server_is_asked() {
    let asked = llm("http://h:1/v1");
    assert!(asked.asks_model && asked.bodies.model.is_empty());
    let named = llm("http://h:1/v1 --model m");
    assert!(!named.asks_model);
    assert_eq!(named.bodies.model, "m");
}

#[test]
fn the_key_is_a_header_as_the_interface_wants_it() {
    for (path, name, value) in [
        ("/v1", "Authorization", "Bearer {{env:K}}"),
        ("/api/chat", "Authorization", "Bearer {{env:K}}"),
        ("/v1/messages", "x-api-key", "{{env:K}}"),
    ] {
        let request = llm(&format!("http://h:1{path} -H A:b --api-key {{{{env:K}}}}"));
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let headers = request.run.plan.request.headers;
        assert_eq!(headers, [pair(name, value), pair("A", "b")]);
    }
}

#[test]
fn what_makes_no_load_of_a_model_is_refused_in_one_line() {
    for (line, expected) in [
        (
            "--model m",
            "no URL (expected like wrkbench llm http://host:port/v1)",
        ),
        (
            "http://h:1 --model=",
            "--model: has no name (without --model, the server is asked)",
        ),
        (
            "http://h:1 --api-key=",
            "--api-key: is empty (is the variable of the shell set?)",
        ),
        (
            "http://h:1 --api-key k\u{e4}y",
            "--api-key: has white space or characters that are not ASCII, which a key cannot have",
        ),
        (
            "http://h:1 --api-key k -u a:b",
            "--api-key: cannot be used together with --user",
        ),
        (
            "http://h:1 --api-key k -H authorization:b",
            "--api-key: cannot be used together with -H \"Authorization\"",
        ),
        (
            "http://h:1 --max-tokens 0",
            "--output-tokens: `0` is not a number from 1 to 1000000",
        ),
        (
            "http://h:1/x --model m",
            "the path \"/x\" does not tell the format of a request (expected ",
        ),
        (
            "http://h:1/api/chat --model m --events-dialect openai",
            "--events-dialect openai: the path ends with /api/chat, which is that of ollama",
        ),
        (
            "http://h:1 --model m --events sse",
            "--events sse: wrkbench llm reads the events of a language model (llm)",
        ),
        (
            "http://h:1 --model m --ignore-eos",
            "--ignore-eos: needs a limit of tokens (--output-tokens)",
        ),
        (
            "http://h:1/v1/messages --model m --ignore-eos --output-tokens 5",
            "--ignore-eos: the format anthropic has no such key (vLLM, ",
        ),
        (
            "http://h:1/v1/responses --model m --ignore-eos --output-tokens 5",
            "--ignore-eos: the format responses has no such key (vLLM, ",
        ),
        (
            "http://h:1/api/chat --model m --ignore-eos --output-tokens 5",
            "--ignore-eos: the format ollama has no such key (vLLM, ",
        ),
        (
            "http://h:1 --model m --prompt-words 0",
            "--prompt-words: `0` is not a number from 1 to 1000000",
        ),
        (
            "http://h:1 --model m --prompt-words 1000001",
            "--prompt-words: `1000001` is not a number from 0 to 1000000",
        ),
        (
            "http://h:1 --model m --prompt-words -5",
            "--prompt-words: `-5` is not a number from 0 to 1000000",
        ),
        (
            "http://h:1 --model m --prompt-words weibull:3",
            "--prompt-words: `weibull:3` is not a number: expected 64, uniform:16,256, ",
        ),
        (
            "http://h:1 --model m --prompt-tokens 0",
            "--prompt-tokens: `0` is not a number from 1 to 1000000",
        ),
        (
            "http://h:1 --model m --prompt-tokens 5 --prompt-words 5",
            "--prompt-tokens: cannot be used together with --prompt-words",
        ),
        (
            "http://h:1 --model m --prompts a --prompt-tokens 5",
            "--prompts: cannot be used together with --prompt-tokens",
        ),
        (
            "http://h:1 --model m --search goodput>9% --prompt-tokens 5",
            "--prompt-tokens: cannot be used with --search (a run with it says how many ",
        ),
        (
            "http://h:1 --model m --output-tokens uniform:9,1",
            "--output-tokens: uniform:9,1 is upside down: expected LOW,HIGH",
        ),
        (
            "http://h:1 --model m --output-tokens exp:0x",
            "--output-tokens: `0x` is not a number from 0 to 1000000",
        ),
        (
            "http://h:1 --model m --prompt-count 0",
            "--prompt-count: \"0\" is not a number from 1 to 1000000",
        ),
        (
            "http://h:1 --model m --prompt-count 2M",
            "--prompt-count: \"2M\" is not a number from 1 to 1000000",
        ),
        (
            "http://h:1 --model m --shared-prefix 2M",
            "--shared-prefix: \"2M\" is not a number from 0 to 1000000",
        ),
        (
            "http://h:1 --model m --extra [1]",
            "--extra: is not a JSON object (expected an object like {\"temperature\": 0})",
        ),
        (
            "http://h:1 --model m --prompts a --shared-prefix 5",
            "--prompts: cannot be used together with --shared-prefix",
        ),
        (
            "http://h:1 --model m --body x",
            "--body: cannot be used with wrkbench llm, which makes the requests",
        ),
        (
            "http://h:1 --model m --requests f.jsonl",
            "--request-file: cannot be used with wrkbench llm, which makes the requests",
        ),
        (
            "http://h:1 --model m -s x.lua",
            "--script: cannot be used with wrkbench llm, which makes the requests",
        ),
        (
            "http://h:1 --model m --grpc",
            "--grpc: cannot be used with wrkbench llm, which makes the requests",
        ),
        (
            "http://h:1 --model m http://h:2",
            "\"http://h:2\": a second URL",
        ),
        ("http://h:1 --model m -c0", "--connections 0: "),
    ] {
        let refused = refusal(&format!("llm {line}"));
        assert!(refused.starts_with(expected), "{line}: {refused}");
    }
}
