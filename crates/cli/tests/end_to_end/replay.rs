//! Replays of access logs: what the server receives, and when it was due.

use std::collections::BTreeMap;
use std::process::Command;

use origin::Options;

use testkit::{Folder, Output, Process};

use crate::harness::{Call, Site, call, io_arguments, load, program, site, site_with};

fn recording() -> Site {
    site_with(Options {
        record_requests: 100_000,
        ..Options::default()
    })
}

/// 200 requests within two seconds, for seven paths. Every 20th is a POST, and the server will not
/// have the status of every 50th.
fn log() -> String {
    let line = |n: u32| {
        let method = if n % 20 == 19 { "POST" } else { "GET" };
        let status = if n.is_multiple_of(50) { 404 } else { 200 };
        let second = n / 100;
        format!(
            "127.0.0.1 - - [23/Nov/2026:14:00:0{second} +0000] \"{method} /p{}?n={n} HTTP/1.1\" \
             {status} 10 \"-\" \"UA\"\n",
            n % 7
        )
    };
    (0..200).map(line).collect()
}

/// How many requests the server received for each target.
fn received(site: Site) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for request in site.stop().recorded {
        let text = String::from_utf8(request).expect("requests are text");
        // Over HTTP/2 they are recorded as fields.
        let target = match text.lines().find_map(|line| line.strip_prefix(":path: ")) {
            Some(path) => path,
            None => text.split(' ').nth(1).expect("a request has a target"),
        };
        *counts.entry(target.to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn each_request_of_a_log_is_sent_once() {
    for options in [
        &["-t1"][..],
        &["-t3"],
        &["-t2", "--http2"],
        &["-t2", "--no-keepalive"],
        &["-t2", "--warmup", "50ms"],
    ] {
        let site = recording();
        let file = site.folder.file_with("access.log", log());
        let run = load(&site).with(&["--replay", &file, "--speed", "20"]);
        let run = run.with(options).run();
        let stderr = &run.stderr;
        for expected in [
            "note: the log has 200 lines, of which 190 are sent",
            "note: left out: 10 requests with other methods",
            "note: the times in the log are in seconds",
            "note: the status of 4 of 190 responses differs from that in the log",
        ] {
            assert!(stderr.contains(expected), "{expected}: {stderr}");
        }
        // The last one is due 1.99 s after the first in the log.
        let window_ns = run.result.window.duration_ns;
        assert!(window_ns >= 99_000_000, "{}", run.story());
        run.expect_answers(190);
        let received = received(site);
        let expected = (0..200).filter(|n| n % 20 != 19);
        let expected = expected.map(|n| (format!("/p{}?n={n}", n % 7), 1));
        assert_eq!(received, expected.collect(), "{options:?}");
    }
}

#[test]
fn a_log_with_more_requests_than_are_encoded_in_advance_is_sent_in_its_order() {
    let line = |n: u32| {
        format!(
            "127.0.0.1 - - [23/Nov/2026:14:00:{:02} +0000] \"GET /p?n={n} HTTP/1.1\" 200 10 \
             \"-\" \"UA\"\n",
            n / 1000
        )
    };
    let text: String = (0..20_000).map(line).collect();
    for options in [&["-t1"][..], &["-t2", "--http2"]] {
        let site = recording();
        let file = site.folder.file_with("access.log", &text);
        let run = load(&site).requests(100).with(&["--replay", &file]);
        run.with(options).run().expect_answers(100);
        let expected = (0..100).map(|n| (format!("/p?n={n}"), 1));
        assert_eq!(received(site), expected.collect(), "{options:?}");
    }
}

#[test]
fn a_replay_can_be_cut_short() {
    let site = recording();
    let file = site.folder.file_with("access.log", log());
    let run = load(&site).threads(2).requests(30);
    let run = run.with(&["--replay", &file, "--speed", "10"]);
    run.run().expect_answers(30);
    assert!(received(site).keys().all(|target| {
        let number = target
            .rsplit('=')
            .next()
            .and_then(|n| n.parse::<u32>().ok());
        number.is_some_and(|number| number < 32)
    }));
}

#[test]
fn the_log_may_come_from_stdin_and_the_command_is_called_replay() {
    let site = site();
    let file = site.folder.file_with("access.log", log());
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "exec \"$0\" replay - \"$@\" <\"$LOG\"",
        env!("CARGO_BIN_EXE_wrkbench"),
    ]);
    command.args(["--all-methods", "--speed", "50x", "-t1", "-c2"]);
    command
        .args(io_arguments())
        .arg(site.url("/"))
        .env("LOG", file);
    let Output {
        code,
        stdout,
        stderr,
    } = Process::start(command).finish();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        stderr.contains("200 lines, of which 200 are sent"),
        "{stderr}"
    );
    assert!(
        stderr.contains("sent without a body, because a log has none: 10 requests"),
        "{stderr}"
    );
    assert!(stdout.contains("  200 requests in "), "{stdout}");
}

#[test]
fn what_a_replay_cannot_do_is_refused_in_a_line() {
    let site = site();
    let file = site.folder.file_with("access.log", log());
    let empty = site.folder.file_with("empty.log", "");
    for (arguments, expected) in [
        (
            &["-R5"][..],
            "a replay has the rate of the log (remove -R and --stages)",
        ),
        (&["--order", "random"], "--order: needs a request file"),
        (
            &["--pipeline", "2"],
            "a replay sends each request at its own moment",
        ),
        (&["-X", "POST"], "cannot be used together with -X"),
        (&["--local", "2"], "a log is replayed by one machine"),
        (&["--speed", "0"], "is not a speed"),
        (&["--log-format", "x"], "is not a format"),
        (&["--replay", &empty], "the log is empty"),
        (
            &["--replay", "/no/such/log"],
            "--replay /no/such/log: No such file",
        ),
    ] {
        let mut command = program(&["--replay", &file]);
        command.args(arguments).arg(site.url("/"));
        let Output { code, stderr, .. } = Call::of(&command).finish();
        assert_eq!(code, Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
    }
    let without_url = call(&["replay", &file]).finish();
    assert!(
        without_url
            .only_line()
            .contains("no URL to send the requests of the log to"),
        "{without_url:?}"
    );
}

/// 60 requests within 300 ms, of which every third is a POST with a body. The last one in the file
/// is due first.
fn timed() -> String {
    let line = |n: u32| {
        let at = f64::from(n) * 5.0 + 7_000.25;
        let body = match n % 3 {
            0 => format!(",\"body_text\":\"b{n} {{{{seq}}}}\""),
            _ => String::new(),
        };
        format!(
            "{{\"path\":\"/p?n={n}\",\"at\":{at},\"name\":\"n{}\"{body}}}\n",
            n % 2
        )
    };
    (0..60).rev().map(line).collect()
}

/// The numbers of the requests in the order in which the server received them.
fn numbers(site: Site) -> Vec<u32> {
    let recorded = site.stop().recorded.into_iter();
    let number = recorded.map(|request| {
        let text = String::from_utf8(request).expect("requests are text");
        let (_, after) = text.split_once("n=").expect("a number");
        let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
        let number: u32 = digits.parse().expect("a number");
        let has_body = text.contains(&format!("b{number} "));
        assert_eq!(has_body, number.is_multiple_of(3), "{text}");
        number
    });
    number.collect()
}

#[test]
fn a_request_file_with_moments_is_sent_at_them_in_their_order_and_ends_the_run() {
    for (options, speed) in [
        (&["-t1", "-c1"][..], 1),
        (&["-t1", "-c1", "--speed", "3"], 3),
        (&["-t1", "-c1", "--speed", "2", "--warmup", "50ms"], 2),
    ] {
        let site = recording();
        let file = site.folder.file_with("trace.jsonl", timed());
        let run = load(&site).with(&["--requests", &file]).with(options).run();
        let result = &run.result;
        assert_eq!(result.plan.pacing.speed(), Some(f64::from(speed)));
        assert_eq!(result.plan.stop.duration, None);
        assert_eq!(result.recording.counters.due, 60, "{}", run.story());
        // The last one is due 295 ms after the first.
        let (window_ns, least_ns) = (result.window.duration_ns, 295_000_000 / speed as u64);
        assert!(window_ns >= least_ns, "{}", run.story());
        assert!(!run.stderr.contains("the log"), "{}", run.stderr);
        assert_eq!(result.recording.parts.compared_with_log, None);
        assert_eq!(result.recording.parts.by_name.len(), 2);
        run.expect_answers(60);
        // One connection keeps the order.
        assert_eq!(numbers(site), (0..60).collect::<Vec<_>>(), "{options:?}");
    }
    let site = recording();
    let file = site.folder.file_with("trace.jsonl", timed());
    let run = load(&site).threads(3).connections(6).requests(30);
    run.with(&["--requests", &file, "--http2"])
        .run()
        .expect_answers(30);
    let mut first = numbers(site);
    first.sort_unstable();
    assert_eq!(first, (0..30).collect::<Vec<_>>());
}

#[test]
fn a_file_with_moments_may_have_several_hosts() {
    let sites = [recording(), recording()];
    let [even, odd] = sites.each_ref().map(|site| site.url("/p"));
    let line = |n: u32| {
        let host = if n.is_multiple_of(2) { &even } else { &odd };
        format!("{{\"url\":\"{host}?n={n}\",\"at\":{}}}\n", n * 3)
    };
    let folder = Folder::new();
    let file = folder.file_with("trace.jsonl", (0..60).map(line).collect::<String>());
    let mut command = program(&["-t2", "-c4", "--requests", &file]);
    command.args(io_arguments());
    let output = Call::of(&command).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains("  60 requests in "), "{output:?}");
    for (site, first) in sites.into_iter().zip([0, 1]) {
        let expected = (first..60).step_by(2).map(|n| (format!("/p?n={n}"), 1));
        assert_eq!(received(site), expected.collect());
    }
}

#[test]
fn what_a_file_with_moments_cannot_do_is_refused_in_a_line() {
    let site = site();
    let file = site.folder.file_with("trace.jsonl", timed());
    let plain = site.folder.file_with("plain.jsonl", "{\"path\":\"/\"}");
    let mixed = site
        .folder
        .file_with("mixed.jsonl", timed() + "{\"path\":\"/\"}");
    let bad = site
        .folder
        .file_with("bad.jsonl", timed() + "{\"path\":\"/\",\"at\":-1}");
    for (arguments, expected) in [
        (
            &["--requests", &file, "-R5"][..],
            "its requests have moments (key at): remove -R and --stages",
        ),
        (
            &["--requests", &file, "--stages", "5:1s", "--speed", "2"],
            "remove -R and --stages",
        ),
        (
            &["--requests", &file, "--order", "random"],
            "(remove --order)",
        ),
        (
            &["--requests", &file, "--pipeline", "2"],
            "a replay sends each request at its own moment",
        ),
        (
            &["--requests", &file, "--local", "2"],
            "a file with moments (key at) is replayed by one machine",
        ),
        (
            &["--requests", &plain, "--speed", "2"],
            "which --speed needs",
        ),
        (
            &["--requests", &plain, "-R5", "--speed", "2"],
            "remove -R and --stages",
        ),
        (
            &["--speed", "2"],
            "needs a log (--replay) or a request file with moments",
        ),
        (
            &["--requests", &mixed],
            "mixed.jsonl:61:1: the request has no moment",
        ),
        (
            &["--requests", &bad],
            "bad.jsonl:61:18: at \"-1\": expected milliseconds",
        ),
        (
            &["--replay", &file],
            "this is JSON: --requests FILE sends a request file",
        ),
    ] {
        let mut command = program(arguments);
        command.arg(site.url("/"));
        let Output { code, stderr, .. } = Call::of(&command).finish();
        assert_eq!(code, Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_sweep_replays_a_file_with_moments_in_each_run() {
    let site = recording();
    let file = site.folder.file_with("trace.jsonl", timed());
    let mut command = program(&[
        "sweep",
        "-L",
        "connections",
        "2,4",
        "--rounds",
        "1",
        "--no-try",
    ]);
    command.args([
        "-t1",
        "--speed",
        "2",
        "--requests",
        &file,
        "--journal",
        "journal",
    ]);
    command.arg(site.url("/")).current_dir(site.folder.path());
    let Output {
        code,
        stderr,
        stdout,
    } = Process::start(command).finish();
    assert_eq!(code, Some(0), "{stderr}{stdout}");
    let shown = stderr.contains("--speed=2") || stdout.contains("--speed=2");
    assert!(shown, "{stderr}{stdout}");
    // Before the runs, the server is asked once.
    let recorded = site.stop().recorded;
    let of_file = recorded
        .iter()
        .filter(|request| String::from_utf8_lossy(request).contains("?n="));
    assert_eq!(of_file.count(), 120, "{stderr}{stdout}");
}
