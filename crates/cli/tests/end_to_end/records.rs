//! A record of each request: `--records`.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;
use testkit::Folder;

use crate::harness::{Run, load, program, site, site_with};
use crate::http3;
use testkit::Process;

/// The records of a file of JSON lines.
fn records_in(path: &str) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.ends_with('\n'));
    let lines = text.lines().map(serde_json::from_str);
    lines.map(Result::unwrap).collect()
}

/// How many records have each value of `error`.
fn by_error(records: &[Value]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for record in records {
        let error = record["error"].as_str().unwrap_or("none").to_owned();
        *counts.entry(error).or_default() += 1;
    }
    counts
}

/// Their numbers are those of the result.
fn check_counts(run: &Run<'_>, records: &[Value]) {
    let recording = &run.result.recording;
    let mut expected = BTreeMap::from([
        ("none".to_owned(), recording.counters.answered),
        ("in_flight".to_owned(), recording.counters.in_flight),
        ("unsent".to_owned(), recording.counters.unsent),
    ]);
    for (kind, count) in recording.errors.iter() {
        expected.insert(kind.name().to_owned(), count.exchanges);
    }
    expected.retain(|_, count| *count > 0);
    assert_eq!(by_error(records), expected, "{}", run.story());
}

#[test]
fn each_request_has_a_record_over_each_protocol() {
    for options in [&["--http2"][..], &["-R300"][..], &["--style=wrk"][..]] {
        let (site, folder) = (site(), Folder::new());
        let path = folder.join("r.jsonl").display().to_string();
        let run = load(&site).connections(4).threads(2).for_ms(300);
        let run = run.with(options).with(&["--records", &path]).run();
        check_counts(&run, &records_in(&path));
    }
}

#[test]
fn each_stream_of_http3_has_a_record() {
    let (site, folder) = (site_with(http3::options()), Folder::new());
    let path = folder.join("r.jsonl").display().to_string();
    let run = load(&site).connections(2).with(&["--http3", "-m4"]);
    let run = run.requests(200).with(&["--records", &path]).run();
    check_counts(&run, &records_in(&path));
}

#[test]
fn requests_of_a_script_have_records() {
    let (site, folder) = (site(), Folder::new());
    let path = folder.join("r.jsonl").display().to_string();
    let script = "local sent = 0\n\
                  function request()\n\
                    sent = sent + 1\n\
                    return wrk.format('GET', sent % 3 == 0 and '/?status=404' or '/')\n\
                  end\n\
                  function response(status, headers, body) end\n";
    let run = load(&site).threads(2).requests(90).script(script);
    let run = run.with(&["--records", &path]).run();
    let records = records_in(&path);
    check_counts(&run, &records);
    let not_found = records.iter().filter(|it| it["status"] == 404).count() as u64;
    assert_eq!(not_found, run.result.recording.statuses.count(404));
    assert!(not_found > 0);
}

#[test]
fn requests_of_a_language_model_have_records_with_their_tokens() {
    let (site, folder) = (site(), Folder::new());
    let path = folder.join("r.jsonl").display().to_string();
    let load = load(&site).at("/v1/chat/completions?llm=openai&tokens=6&finish=length");
    let load = load.by("llm").requests(20).with(&["--model", "m"]);
    let options = [
        "--prompt-words",
        "5",
        "--output-tokens",
        "6",
        "--records",
        &path,
    ];
    let run = load.with(&options).run();
    let records = records_in(&path);
    check_counts(&run, &records);
    let parts = &run.result.recording.parts;
    let llm = parts.llm.as_ref().expect("tokens are read");
    let sum = |column: &str| -> u64 { records.iter().filter_map(|it| it[column].as_u64()).sum() };
    assert_eq!(sum("tokens_out"), llm.output_tokens);
    assert_eq!(sum("tokens_in"), llm.input_tokens);
    for record in &records {
        let time = |column: &str| record[column].as_f64().unwrap();
        assert!(time("first_token_us") >= time("first_byte_us"), "{record}");
        assert!(time("first_token_us") <= time("ended_us"), "{record}");
    }
}

#[test]
fn a_page_of_records_shows_the_requests() {
    let (site, folder) = (site(), Folder::new());
    let path = folder.join("r.jsonl").display().to_string();
    load(&site).requests(50).with(&["--records", &path]).run();
    let page = folder.join("r.html").display().to_string();
    let output = Process::start(program(&["report", &path, "-o", &page])).finish();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("50 of 50 shown"));
}

#[test]
fn requests_that_time_out_have_records() {
    let (site, folder) = (site(), Folder::new());
    let path = folder.join("r.jsonl").display().to_string();
    let run = load(&site).at("/?delay=10s").connections(3).timeout_ms(100);
    let run = run.for_ms(500).with(&["--records", &path]).finish();
    let records = records_in(&path);
    check_counts(&run, &records);
    assert!(by_error(&records).contains_key("timeout"), "{records:?}");
}

#[test]
fn an_interrupted_run_keeps_its_records() {
    let (site, folder) = (site(), Folder::new());
    let path = folder.join("r.jsonl").display().to_string();
    let run = load(&site).for_ms(60_000).with(&["--records", &path]);
    let run = run.interrupted();
    check_counts(&run, &records_in(&path));
}

#[test]
fn a_full_disk_costs_the_records_and_not_the_result() {
    let (site, folder) = (site(), Folder::new());
    let path = folder.join("r.csv");
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let path = path.display().to_string();
    let run = load(&site)
        .requests(100)
        .with(&["--records", &path])
        .finish();
    assert_eq!(run.result.recording.counters.answered, 100);
    assert_eq!(run.code, Some(1));
    let expected = "100 of 100 records are missing: No space left on device (os error 28)";
    assert!(run.stderr.contains(expected), "{}", run.stderr);
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_the_run() {
    let (site, folder) = (site(), Folder::new());
    let path = folder.join("none/r.csv").display().to_string();
    let output = load(&site).with(&["--records", &path]).output();
    assert_eq!(output.code, Some(1));
    assert!(
        output.stderr.contains("there is no directory"),
        "{}",
        output.stderr
    );
    assert_eq!(site.counts().responses, 0);
}

#[test]
fn a_table_of_records_has_the_numbers_of_the_report() {
    let (site, folder) = (site(), Folder::new());
    let path = folder.join("r.csv").display().to_string();
    let run = load(&site).requests(200).with(&["--records", &path]).run();
    let table = program(&["table", "--format", "json", &path]);
    let table = Process::start(table).finish();
    assert_eq!(table.code, Some(0), "{}", table.stderr);
    let table: Value = serde_json::from_str(&table.stdout).unwrap();
    let text = table.to_string();
    assert!(text.contains("200"), "{text}");
    assert_eq!(run.result.recording.counters.answered, 200);
}
