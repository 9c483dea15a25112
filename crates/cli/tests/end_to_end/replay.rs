//! Replays of access logs: what the server receives, and when it was due.

use std::collections::BTreeMap;
use std::process::Command;

use origin::Options;

use testkit::{Output, Process};

use crate::harness::{Site, io_arguments, load, program, site, site_with};

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
        let Output { code, stderr, .. } = Process::start(command).finish();
        assert_eq!(code, Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
    }
    let without_url = Process::start(program(&["replay", &file])).finish();
    assert!(
        without_url
            .only_line()
            .contains("no URL to send the requests of the log to"),
        "{without_url:?}"
    );
}
