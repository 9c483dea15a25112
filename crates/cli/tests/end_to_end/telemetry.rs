//! Sockets and counters of a run, compared with the counts of the server.

use std::fs;

use results::{Metric, Telemetry};
use serde_json::Value;
use testkit::{Folder, Process};

use crate::harness::{Run, load, program, site};
use crate::judge;

fn telemetry<'r>(run: &'r Run<'_>) -> &'r Telemetry {
    run.result.telemetry.as_ref().unwrap()
}

/// The filter for the sockets of the server.
fn of(authority: &str) -> String {
    let (_, port) = authority.rsplit_once(':').unwrap();
    format!("sport = :{port}")
}

fn lines(path: &str) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn byte_counts_of_sockets_agree_with_the_server() {
    let site = site();
    let samples = site.folder.file("s.jsonl");
    let run = load(&site)
        .for_ms(500)
        .with(&["-R400", "--sockets", &of(site.authority())])
        .with(&["--interval", "100ms", "--samples", &samples])
        .run()
        .expect_answered_only();
    let found = telemetry(&run);
    assert_eq!(found.notes, Vec::<String>::new());
    assert!(found.counters.is_empty());
    let sockets = found.sockets.as_ref().unwrap();
    // One more checked whether anybody listens.
    assert!((4..=5).contains(&sockets.sockets), "{sockets:?}");
    let counts = site.counts();
    // Requests in flight at the end may be unread when the server closes its sockets.
    let unread = run.result.recording.counters.in_flight * counts.bytes_in.div_ceil(run.sent());
    // The kernel counts the end of a connection as one byte.
    let ends = counts.connections;
    let received = sockets.bytes_received.unwrap();
    assert!(
        (1..=counts.bytes_in + unread + ends).contains(&received),
        "{received} of {counts:?}, {}",
        run.story()
    );
    assert!((1..=counts.bytes_out).contains(&sockets.bytes_sent.unwrap()));
    let lines = lines(&samples);
    let taken = lines.iter().filter(|line| line.get("sockets").is_some());
    assert_eq!(taken.count() as u64, found.samples);
    assert!(run.stderr.contains("note: sockets: "), "{}", run.stderr);
    assert!(!run.stdout.contains("sockets: "));
}

#[test]
fn samples_are_compressed_if_the_file_name_says_so() {
    let site = site();
    let samples = site.folder.file("s.jsonl.zst");
    load(&site)
        .for_ms(300)
        .with(&["--sockets", &of(site.authority())])
        .with(&["--interval", "50ms", "--samples", &samples])
        .run()
        .expect_answered_only();
    let compressed = fs::read(&samples).unwrap();
    let lines = zstd::stream::decode_all(&compressed[..]).unwrap();
    let plain = site.folder.file("s.jsonl");
    fs::write(&plain, &lines).unwrap();
    assert!(self::lines(&plain).len() >= 3);
    assert!(
        compressed.len() * 4 < lines.len(),
        "{} of {} bytes",
        compressed.len(),
        lines.len()
    );
}

#[test]
fn sockets_that_close_after_one_response_are_counted_at_their_end() {
    let site = site();
    let samples = site.folder.file("s.jsonl");
    let run = load(&site)
        .for_ms(500)
        .with(&[
            "-R200",
            "--no-keepalive",
            "--counters",
            "--samples",
            &samples,
        ])
        .with(&["--sockets", &of(site.authority())])
        .run();
    let found = telemetry(&run);
    let sockets = found.sockets.as_ref().unwrap();
    assert!(sockets.closed > 0, "{sockets:?}");
    assert!(sockets.sockets <= site.counts().connections, "{sockets:?}");
    let closed: usize = lines(&samples)
        .iter()
        .filter_map(|line| line["closed"].as_array())
        .map(Vec::len)
        .sum();
    assert_eq!(closed as u64, sockets.closed);
    assert!(found.counters["Tcp.ActiveOpens"] > 0);
    assert!(run.stderr.contains("note: counters: "), "{}", run.stderr);
}

#[test]
fn quiet_hides_telemetry_and_a_run_without_it_has_none() {
    let site = site();
    let quiet = load(&site).requests(10).with(&["--counters", "-q"]).run();
    assert_eq!(quiet.stderr, "");
    assert!(telemetry(&quiet).counters.contains_key("Tcp.InSegs"));
    let without = load(&site).requests(10).run();
    assert_eq!(without.result.telemetry, None);
}

#[test]
fn a_run_whose_samples_fill_the_disk_ends_with_its_report_and_exit_code_1() {
    let site = site();
    let run = load(&site)
        .for_ms(200)
        .with(&["--sockets", "", "--samples", "/dev/full"])
        .run_to_failure()
        .expect_answered_only();
    let notes = &telemetry(&run).notes;
    assert_eq!(
        *notes,
        ["writing samples failed: No space left on device (os error 28)"]
    );
    assert!(run.stderr.contains(&notes[0]), "{}", run.stderr);
}

#[test]
fn an_unusable_file_for_samples_is_refused_before_the_run() {
    let site = site();
    for (path, problem) in [
        ("/nowhere/s.jsonl", "there is no directory \"/nowhere\""),
        ("/proc", "is a directory"),
    ] {
        let output = load(&site)
            .with(&["--sockets", "", "--samples", path])
            .output();
        assert_eq!(output.code, Some(1));
        let begin = format!("wrkbench: --samples {path:?}: {problem}");
        assert!(output.stderr.starts_with(&begin), "{}", output.stderr);
        assert_eq!(output.stderr.lines().count(), 1);
    }
    assert_eq!(site.counts().requests, 0);
}

#[test]
fn the_cpu_time_of_another_process_is_measured() {
    let mut server = Process::start(program(&["serve", "--listen", "0"]));
    let line = server.next_line().unwrap();
    let url = line.strip_prefix("serving ").unwrap().trim_end();
    let folder = Folder::new();
    let json = folder.file("r.json");
    let id = server.id().to_string();
    let run = program(&[
        "-t1", "-c4", "-d500ms", "--server", &id, "--json", &json, url,
    ]);
    let output = Process::start(run).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains("\nServer CPU: "), "{output:?}");
    let result = judge::document(&fs::read(&json).unwrap());
    let found = result.recording.parts.server.unwrap();
    assert_eq!(found.processes, 1);
    // A busy machine may begin late.
    assert!(found.elapsed_ns > 0, "{found:?}");
    let responses = result.recording.counters.responses();
    let shown = Metric::named("server_cpu_per_request_us")
        .of(&result)
        .unwrap();
    let total_us = shown.value * responses as f64;
    assert!(
        (total_us - found.cpu_ns as f64 / 1e3).abs() < 1.0,
        "{shown:?} {found:?}"
    );

    let run = program(&["-d500ms", "--server", "no such server", url]);
    let output = Process::start(run).finish();
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output
            .stderr
            .contains("--server no such server: no process is called"),
        "{output:?}"
    );
}
