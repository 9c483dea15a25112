//! The scripts in docs/scripting.md run, and it mentions everything it must.

mod script_test;

use script_test::{ScriptTest, next, response, run_result};

const DOCUMENT: &str = include_str!("../../../docs/scripting.md");

#[test]
fn every_script_in_the_document_runs_in_all_its_phases() {
    let blocks: Vec<&str> = DOCUMENT
        .split("```lua\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(blocks.len() >= 4, "{}", blocks.len());
    for block in blocks {
        let (mut script, mut source) = ScriptTest::script(block).one();
        for status in [200, 401] {
            next(&mut source);
            let answer = response(status, &[("A", "b")], b"body");
            source.response(&answer).unwrap();
        }
        script.done(&run_result(results::Recording::new())).unwrap();
    }
}

#[test]
fn every_function_and_every_example_is_mentioned() {
    for name in [
        "setup(",
        "init(",
        "delay(",
        "request(",
        "response(",
        "done(",
        "wrk.format(",
        "wrk.request(",
        "wrk.lookup(",
        "wrk.connect(",
        "wrk.resolve(",
        "wrk.setup(",
        "wrk.init(",
        "wrk.time_us(",
        "wrk.thread",
        "wrk.addrs",
        "thread:get(",
        "thread:set(",
        "thread:stop(",
        "thread.addr",
        "latency:percentile(",
        "#latency",
        "latency(i)",
        "latency[i]",
    ] {
        assert!(DOCUMENT.contains(name), "{name}");
    }
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scripts");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(DOCUMENT.contains(&format!("`{name}`")), "{name}");
    }
}
