//! The scripts in examples/scripts do what their comments say.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

mod script_test;

use std::path::{Path, PathBuf};
use std::process::Command;

use engine::source::Address;
use results::{ErrorKind, Recording};
use script_test::{ScriptTest, file, next, response, run_result, tcp};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scripts")
}

fn example(name: &str) -> ScriptTest {
    ScriptTest::script_at(folder().join(name))
}

/// The first line of a request.
fn request_line(request: &str) -> &str {
    request.lines().next().unwrap()
}

fn recording() -> Recording {
    let mut recording = Recording::new();
    recording.counters.answered = 4;
    recording.counters.bytes = 400;
    for us in [100, 200, 300, 400] {
        recording.service_time.record(us * 1000);
    }
    recording.rates.add(2000);
    recording.errors.add(ErrorKind::Reset, 1);
    recording
}

#[test]
fn every_example_has_a_test_here() {
    let tests = include_str!("examples.rs");
    for entry in std::fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            tests.contains(&format!("\"{name}\"")),
            "{name} is not tested"
        );
    }
}

#[test]
fn post_json_sends_one_fixed_request() {
    let (_script, source) = example("post-json.lua").one();
    let batch = String::from_utf8(source.fixed().unwrap()).unwrap();
    assert!(request_line(&batch).starts_with("POST /path?q=1 "));
    assert!(batch.contains("\r\nContent-Type: application/json\r\n"));
    assert!(batch.contains("\r\nContent-Length: 51\r\n"), "{batch}");
}

#[test]
fn put_writes_to_paths_of_each_thread() {
    let mut test = example("put.lua").threads(2).args(&["10"]);
    test.request_path = "/files/".to_owned();
    let (_script, mut sources) = test.start().unwrap();
    let first = next(&mut sources[0]);
    assert_eq!(request_line(&first), "PUT /files/1-2 HTTP/1.1");
    assert!(
        first.ends_with("Content-Length: 10\r\n\r\nxxxxxxxxxx"),
        "{first}"
    );
    assert_eq!(
        request_line(&next(&mut sources[1])),
        "PUT /files/2-1 HTTP/1.1"
    );
    assert!(
        example("put.lua")
            .args(&["big"])
            .failure()
            .contains("must be a number of bytes")
    );
}

#[test]
fn auth_token_logs_in_first_and_then_sends_the_token() {
    let (_script, mut source) = example("auth-token.lua").args(&["/in"]).one();
    assert_eq!(request_line(&next(&mut source)), "GET /in HTTP/1.1");
    source
        .response(&response(503, &[("X-Token", "bad")], b""))
        .unwrap();
    source
        .response(&response(200, &[("Other", "x")], b""))
        .unwrap();
    assert_eq!(request_line(&next(&mut source)), "GET /in HTTP/1.1");
    source
        .response(&response(200, &[("X-Token", "abc")], b""))
        .unwrap();
    source
        .response(&response(200, &[("X-Token", "late")], b""))
        .unwrap();
    let request = next(&mut source);
    assert_eq!(request_line(&request), "GET /path?q=1 HTTP/1.1");
    assert!(
        request.contains("\r\nAuthorization: Bearer abc\r\n"),
        "{request}"
    );
}

#[test]
fn counter_counts_in_path_and_header() {
    let (_script, mut source) = example("counter.lua").one();
    for number in 1..=3 {
        let request = next(&mut source);
        assert_eq!(request_line(&request), format!("GET /{number} HTTP/1.1"));
        assert!(
            request.contains(&format!("\r\nX-Counter: {number}\r\n")),
            "{request}"
        );
    }
}

#[test]
fn paths_from_file_cycles_through_the_paths() {
    let paths = folder().join("paths.txt");
    let test = example("paths-from-file.lua").args(&[paths.to_str().unwrap()]);
    let (_script, mut source) = test.one();
    let mut lines: Vec<_> = (0..4)
        .map(|_| request_line(&next(&mut source)).to_owned())
        .collect();
    lines.sort();
    let expected = [
        "/",
        "/images/logo.png",
        "/index.html",
        "/search?q=load+test",
    ]
    .map(|path| format!("GET {path} HTTP/1.1"));
    assert_eq!(lines, expected);

    let missing = example("paths-from-file.lua").args(&["/no/list"]).failure();
    assert!(
        missing.contains("cannot read the list of paths: /no/list"),
        "{missing}"
    );
    let empty = file("paths.txt", "# nothing\n\n");
    let empty = example("paths-from-file.lua")
        .args(&[empty.to_str().unwrap()])
        .failure();
    assert!(empty.contains("has no paths"), "{empty}");
}

#[test]
fn pipeline_sends_the_given_number_of_requests() {
    let (_script, mut source) = example("pipeline.lua").args(&["16"]).one();
    let batch = next(&mut source);
    assert_eq!(batch.matches("GET /path?q=1&n=").count(), 16);
    assert!(
        example("pipeline.lua")
            .args(&["0"])
            .failure()
            .contains("must be a number from 1 on")
    );
}

#[test]
fn think_time_has_the_given_mean() {
    let (_script, mut source) = example("think-time.lua").args(&["50"]).one();
    assert!(source.fixed().is_some() && source.wants_delay());
    let count = 20_000;
    let total: u64 = (0..count).map(|_| source.delay_ns().unwrap()).sum();
    let mean_ms = total as f64 / f64::from(count) / 1e6;
    // The standard error of the mean is 50 / sqrt(20000) = 0.35.
    assert!((mean_ms - 50.0).abs() < 2.5, "{mean_ms}");
}

#[test]
fn json_output_prints_one_object() {
    let output = output_of("child_that_prints_json");
    let line = output.lines().find(|line| line.starts_with('{')).unwrap();
    for part in [
        r#""duration_us":2000000"#,
        r#""requests":4"#,
        r#""requests_per_sec":2,"#,
        r#""latency_mean_us":250"#,
        r#""latency_percentiles_us":{"50":200"#,
        r#""100":400}"#,
        r#""errors":{"connect":0,"read":1,"write":0,"status":0,"timeout":0}}"#,
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert_eq!(line.matches(['{', '}']).count(), 6);
}

/// The output of a test of this file, including output through C's stdout.
fn output_of(test: &str) -> String {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", test])
        .output()
        .unwrap();
    assert!(child.status.success());
    String::from_utf8(child.stdout).unwrap()
}

#[test]
#[ignore = "the child process of json_output_prints_one_object"]
fn child_that_prints_json() {
    let (mut script, _source) = example("json-output.lua").one();
    println!();
    script.done(&run_result(recording())).unwrap();
    script::flush_stdout();
}

#[test]
fn csv_output_writes_the_header_once_and_one_line_per_run() {
    let name = file("other.txt", "").with_file_name("results.csv");
    for _ in 0..2 {
        let (mut script, _source) = example("csv-output.lua")
            .args(&[name.to_str().unwrap()])
            .one();
        script.done(&run_result(recording())).unwrap();
    }
    let text = std::fs::read_to_string(name).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].starts_with("duration_us,requests,bytes,latency_min_us,"));
    assert!(
        lines[1].starts_with("2000000,4,400,100,250,200"),
        "{}",
        lines[1]
    );
    assert!(lines[1].ends_with(",400,1"), "{}", lines[1]);
    assert_eq!(lines[1], lines[2]);
}

#[test]
fn json_prints_exactly_what_the_script_of_wrk_cmm_prints() {
    let output = output_of("child_that_prints_cmms_json");
    let begin = output.find("\nJSON Output\n").unwrap();
    let end = output[begin..].find("\n}\n").unwrap();
    // 100, 200, 300 and 400 us: percentiles are at most 1/1024 too high, and whole microseconds
    // here.
    let expected = concat!(
        "\nJSON Output\n",
        "-----------\n",
        "\n",
        "{\n",
        "\t\"requests\": 4,\n",
        "\t\"duration_in_microseconds\": 2000000.00,\n",
        "\t\"bytes\": 400,\n",
        "\t\"requests_per_sec\": 2.00,\n",
        "\t\"bytes_transfer_per_sec\": 200.00,\n",
        "\t\"latency_distribution\": [\n",
        "\t\t{\n\t\t\t\"percentile\": 50,\n\t\t\t\"latency_in_microseconds\": 200\n\t\t},\n",
        "\t\t{\n\t\t\t\"percentile\": 75,\n\t\t\t\"latency_in_microseconds\": 300\n\t\t},\n",
        "\t\t{\n\t\t\t\"percentile\": 90,\n\t\t\t\"latency_in_microseconds\": 400\n\t\t},\n",
        "\t\t{\n\t\t\t\"percentile\": 99,\n\t\t\t\"latency_in_microseconds\": 400\n\t\t},\n",
        "\t\t{\n\t\t\t\"percentile\": 99.999,\n\t\t\t\"latency_in_microseconds\": 400\n\t\t}\n",
        "\t]\n",
        "}\n",
    );
    assert_eq!(&output[begin..begin + end + 3], expected);
}

#[test]
#[ignore = "the child process of json_prints_exactly_what_the_script_of_wrk_cmm_prints"]
fn child_that_prints_cmms_json() {
    let (mut script, _source) = example("json.lua").one();
    println!();
    script.done(&run_result(recording())).unwrap();
    script::flush_stdout();
}

#[test]
fn json_of_an_empty_run_has_only_numbers() {
    let output = output_of("child_that_prints_cmms_json_of_nothing");
    assert!(
        output.contains("\t\"requests_per_sec\": 0.00,\n"),
        "{output}"
    );
    assert!(
        !output.contains("nan") && !output.contains("inf"),
        "{output}"
    );
}

#[test]
#[ignore = "the child process of json_of_an_empty_run_has_only_numbers"]
fn child_that_prints_cmms_json_of_nothing() {
    let (mut script, _source) = example("json.lua").one();
    println!();
    let mut result = run_result(Recording::new());
    result.window.duration_ns = 0;
    script.done(&result).unwrap();
    script::flush_stdout();
}

#[test]
fn csv_appends_the_same_line_as_the_script_of_wrk_cmm() {
    let name = file("other.txt", "").with_file_name("result.csv");
    for _ in 0..2 {
        let (mut script, _source) = example("csv.lua").args(&[name.to_str().unwrap()]).one();
        script.done(&run_result(recording())).unwrap();
    }
    let text = std::fs::read_to_string(name).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0], lines[1]);
    let fields: Vec<&str> = lines[0].split(',').collect();
    assert_eq!(fields.len(), 11);
    // min, max, mean; the standard deviation of 100, 200, 300, 400 is sqrt(50000 / 3).
    assert_eq!(
        fields[..4],
        ["100.000000", "400.000000", "250.000000", "129.099445"]
    );
    for (field, expected) in fields[4..8].iter().zip([200.0, 400.0, 400.0, 400.0]) {
        let (_, decimals) = field.split_once('.').unwrap();
        assert_eq!(decimals.len(), 6, "{field}");
        let value: f64 = field.parse().unwrap();
        assert!((value / expected - 1.0).abs() < 0.001, "{field}");
    }
    assert_eq!(fields[8..], ["2000000", "4", "400"]);
}

#[test]
fn multi_host_assigns_the_addresses_to_the_threads_in_turn() {
    let mut test = example("multi-host.lua").threads(5);
    test.host = "two.test".to_owned();
    let (script, mut sources) = test.start().unwrap();
    let first = script.addresses()[0].clone();
    let used: Vec<Address> = sources
        .iter_mut()
        .map(|source| source.take_address().unwrap_or_else(|| first.clone()))
        .collect();
    let (four, six) = (tcp("127.0.0.1:8080"), tcp("[::1]:8080"));
    assert_eq!(used, [&four, &six, &four, &six, &four].map(Address::clone));
}

#[test]
fn stop_after_stops_a_thread_after_its_number_of_responses() {
    let (_script, mut source) = example("stop-after.lua").args(&["3"]).one();
    for answers in 1..=3 {
        assert!(!source.stopped());
        source.response(&response(200, &[("A", "b")], b"")).unwrap();
        assert_eq!(source.stopped(), answers == 3);
    }
    assert!(
        example("stop-after.lua")
            .args(&["none"])
            .failure()
            .contains("must be at least 1")
    );
}
