//! Request files that `examples/traces/llm_trace.py` makes of public traces' columns.

use std::process::Command;

use origin::Options;
use serde_json::Value;
use testkit::{Folder, Process, require};

use crate::harness::{load, site_with};

const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/traces/llm_trace.py"
);

/// Three requests: two share a block, and the second has an incomplete one.
const MOONCAKE: &str = r#"{"timestamp":0,"input_length":1030,"output_length":5,"hash_ids":[0,1,2]}
{"timestamp": 100, "input_length": 600, "output_length": 4, "hash_ids": [0, 42]}
{"timestamp": 100, "input_length": 3, "output_length": 2}
"#;

const BURST_GPT: &str = "\
Timestamp,Session ID,Model,Request tokens,Response tokens,Total tokens,Log Type
5,1,ChatGPT,472,18,490,Conversation log
5.25,1,ChatGPT,10,0,10,API log
5.5,2,GPT-4,417,276,693,Conversation log
";

const AZURE: &str = "\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:46.8805901,396,109
2024-05-10 00:00:00.009930+00:00,1,7
";

/// Runs the script in `sh`: its exit code, and what it prints.
fn converted(trace: &str, options: &str) -> Option<(Option<i32>, String, String)> {
    require("python3")?;
    let folder = Folder::new();
    let file = folder.file_with("trace", trace);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec python3 {SCRIPT} {options} <{file}")]);
    let output = Process::start(command).finish();
    Some((output.code, output.stdout, output.stderr))
}

/// Moment, words of the prompt and limit of the output of each request.
fn requests(trace: &str) -> Option<Vec<(f64, Vec<String>, u64)>> {
    let (code, stdout, stderr) = converted(trace, "--model M")?;
    assert_eq!(code, Some(0), "{stderr}");
    let request = |line: &str| {
        let request: Value = serde_json::from_str(line).expect("a line is JSON");
        let body = request["body_text"].as_str().expect("a body");
        let body: Value = serde_json::from_str(body).expect("a body is JSON");
        assert_eq!(
            (body["model"].as_str(), body["stream"].as_bool()),
            (Some("M"), Some(true))
        );
        let prompt = body["messages"][0]["content"].as_str().expect("a prompt");
        (
            request["at"].as_f64().expect("a moment"),
            prompt.split(' ').map(str::to_owned).collect(),
            body["max_tokens"].as_u64().expect("a limit"),
        )
    };
    Some(stdout.lines().map(request).collect())
}

/// Moments in milliseconds, lengths of prompts and of outputs.
fn lengths(requests: &[(f64, Vec<String>, u64)]) -> Vec<(f64, usize, u64)> {
    let one = |(at, prompt, output): &(f64, Vec<String>, u64)| (*at, prompt.len(), *output);
    requests.iter().map(one).collect()
}

#[test]
fn blocks_of_mooncake_with_the_same_id_have_the_same_words() {
    let Some(requests) = requests(MOONCAKE) else {
        return;
    };
    let expected = [(0.0, 1030, 5), (100.0, 600, 4), (100.0, 3, 2)];
    assert_eq!(lengths(&requests), expected);
    let shared = |a: usize, b: usize| {
        let pairs = requests[a].1.iter().zip(&requests[b].1);
        pairs.take_while(|(a, b)| a == b).count()
    };
    assert_eq!((shared(0, 1), shared(0, 2), shared(1, 2)), (512, 0, 0));
}

#[test]
fn tables_have_a_request_for_each_row_with_tokens() {
    let Some(burst) = requests(BURST_GPT) else {
        return;
    };
    assert_eq!(lengths(&burst), [(5000.0, 472, 18), (5500.0, 417, 276)]);
    assert_ne!(
        burst[0].1[0], burst[1].1[0],
        "prompts differ from their first word on"
    );
    let azure = requests(AZURE).expect("python3 is there");
    let expected = [
        (1_700_158_546_680.59, 374, 44),
        (1_700_158_546_880.59, 396, 109),
        (1_715_299_200_009.93, 1, 7),
    ];
    for (found, expected) in lengths(&azure).iter().zip(expected) {
        assert!((found.0 - expected.0).abs() < 0.001, "{found:?}");
        assert_eq!((found.1, found.2), (expected.1, expected.2));
    }
    assert_eq!(azure.len(), 3);
}

#[test]
fn what_is_no_trace_is_refused_in_a_line() {
    for (trace, expected) in [
        ("", "the first line is of no known trace: \'\'"),
        ("a,b\n1,2\n", "the first line is of no known trace: \'a,b\'"),
        (
            "{\"timestamp\":0}\n",
            "request 1 of the trace: KeyError: \'input_length\'",
        ),
        (
            "{\"timestamp\":0,",
            "request 1 of the trace: JSONDecodeError",
        ),
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens\nnow,1,1\n",
            "request 1 of the trace: ValueError: \'now\' is not a date and time",
        ),
        (
            "Timestamp,Request tokens,Response tokens\n1,2,2\n2,-1,2\n",
            "request 2 of the trace: ValueError: Request tokens is -1",
        ),
        (
            "Timestamp,Request tokens,Response tokens\n-1,2,2\n",
            "request 1 of the trace: ValueError: the moment is -1000.0 ms",
        ),
    ] {
        let Some((code, _, stderr)) = converted(trace, "") else {
            return;
        };
        assert_eq!(code, Some(1), "{trace}: {stderr}");
        assert!(stderr.contains(expected), "{trace}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{trace}: {stderr}");
    }
}

#[test]
fn a_converted_trace_is_replayed_with_its_prompts() {
    let path = "\'/v1/chat/completions?llm=openai&tokens=3\'";
    let Some((_, file, stderr)) = converted(MOONCAKE, &format!("--path {path}")) else {
        return;
    };
    assert!(
        stderr.contains("3 requests, 0 without tokens left out"),
        "{stderr}"
    );
    let site = site_with(Options {
        record_requests: 10,
        ..Options::default()
    });
    let file = site.folder.file_with("requests.jsonl", file);
    let run = load(&site).with(&["--requests", &file, "--events", "llm"]);
    let run = run.connections(3).run().expect_answers(3);
    let story = run.story();
    assert!(run.result.window.duration_ns >= 100_000_000, "{story}");
    let llm = run.result.recording.parts.llm.as_ref().expect("tokens");
    assert_eq!((llm.responses, llm.output_tokens), (3, 9), "{story}");
    drop(run);
    let recorded = site.stop().recorded;
    let has_block = recorded
        .iter()
        .filter(|request| String::from_utf8_lossy(request).contains("\"content\":\"block0 "));
    assert_eq!(has_block.count(), 2);
}
