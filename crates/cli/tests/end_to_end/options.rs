//! Every option of a run once, with its effect at the server or in the result.

use std::os::unix::fs::symlink;

use origin::{Address, LoggedRequest, Options};
use report::{Format, TextOptions};
use results::Settling;

use crate::harness::{Call, call, io, io_arguments, load, program, site, site_with};

/// A server that keeps the first requests byte for byte.
fn recording() -> Options {
    Options {
        record_requests: 1000,
        log_requests: 100_000,
        ..Options::default()
    }
}

#[test]
fn all_connections_are_opened_even_if_threads_do_not_divide_them() {
    let site = site();
    let run = load(&site).threads(3).connections(10).for_ms(300).run();
    let run = run.expect_answered_only();
    assert_eq!(run.opened(), 10);
    // One more checked whether anybody listens.
    assert_eq!(site.counts().connections, 11);
    assert!(run.stdout.contains("\n  3 threads and 10 connections\n"));
}

#[test]
fn a_duration_is_exact_in_every_notation() {
    let site = site();
    for (text, duration_ns) in [("250ms", 250_000_000), ("0.15s", 150_000_000)] {
        let run = load(&site).with(&["-d", text]).run().expect_answered_only();
        assert_eq!(run.result.window.duration_ns, duration_ns);
        assert!(!run.result.window.interrupted);
    }
}

#[test]
fn a_number_of_requests_is_exact_for_every_shape_of_load() {
    for (threads, connections, requests, more) in [
        (1, 1, 1, &[][..]),
        (1, 4, 1001, &[]),
        (3, 7, 1000, &[]),
        (1, 10, 3, &[]),
        (4, 4, 2, &[]),
        (1, 3, 1000, &["--pipeline", "7"]),
        (2, 5, 501, &["--pipeline", "4"]),
        (2, 2, 100, &["--no-keepalive"]),
        (2, 3, 100, &["--requests-per-connection", "7"]),
        (1, 4, 200, &["-d", "1h"]),
    ] {
        let site = site();
        let run = load(&site).threads(threads).connections(connections);
        let run = run.requests(requests).with(more).run();
        run.expect_answers(requests).expect_status(200);
    }
}

#[test]
fn a_run_ends_at_its_duration_or_number_whichever_comes_first() {
    let site = site();
    let run = load(&site).for_ms(200).with(&["-n", "1G"]).run();
    let run = run.expect_answered_only();
    assert_eq!(run.result.window.duration_ns, 200_000_000);
    assert!(run.answered() < 1_000_000_000);
}

#[test]
fn the_options_determine_the_request_byte_for_byte() {
    let file = [0, 1, 255, b'\r', b'\n', b'x'];
    for (options, target, method, headers, body) in [
        (&[][..], "/a?b=c&d=%20", "GET", "", &b""[..]),
        (
            &["-H", "X-Note: one two", "-H", "A:b", "--header=C: d"],
            "/",
            "GET",
            "X-Note: one two\r\nA: b\r\nC: d\r\n",
            b"",
        ),
        (&["-X", "DELETE"], "/thing", "DELETE", "", b""),
        (
            &["--body", "a=1"],
            "/",
            "POST",
            "Content-Length: 3\r\n",
            b"a=1",
        ),
        (
            &["--body-file", "BODY", "--method", "PUT", "-HX: y"],
            "/",
            "PUT",
            "X: y\r\nContent-Length: 6\r\n",
            &file,
        ),
        (
            &["--no-keepalive"],
            "/",
            "GET",
            "Connection: close\r\n",
            b"",
        ),
    ] {
        let site = site_with(recording());
        let path = site.folder.file_with("body", file);
        let options: Vec<&str> = options
            .iter()
            .map(|&word| if word == "BODY" { &path } else { word })
            .collect();
        let run = load(&site).at(target).requests(20).with(&options).run();
        run.expect_answers(20);
        let authority = site.authority();
        let head = format!("{method} {target} HTTP/1.1\r\nHost: {authority}\r\n{headers}\r\n");
        let expected = [head.as_bytes(), body].concat();
        let recorded = site.stop().recorded;
        assert_eq!(recorded.len(), 20);
        for request in recorded {
            assert_eq!(request, expected, "{options:?}: {request:?}");
        }
    }
}

#[test]
fn a_host_header_replaces_the_host() {
    let site = site_with(recording());
    let run = load(&site)
        .requests(5)
        .with(&["-H", "host: example.test"])
        .run();
    run.expect_answers(5);
    for request in site.stop().recorded {
        let request = String::from_utf8(request).unwrap().to_ascii_lowercase();
        assert_eq!(request.matches("host: ").count(), 1, "{request}");
        assert!(request.contains("\r\nhost: example.test\r\n"), "{request}");
    }
}

#[test]
fn without_keep_alive_each_request_has_a_connection() {
    let site = site();
    let run = load(&site).requests(100).with(&["--no-keepalive"]).run();
    let run = run.expect_answers(100);
    assert_eq!(run.opened(), 100);
    assert_eq!(run.result.recording.counters.reconnects, 0);
    assert_eq!(site.counts().connections, 101);
}

#[test]
fn a_connection_carries_the_given_number_of_requests() {
    let site = site();
    let run = load(&site).connections(1).requests(100);
    let run = run.with(&["--requests-per-connection", "7"]).run();
    let run = run.expect_answers(100);
    assert_eq!(run.opened(), 100_u64.div_ceil(7));
    assert_eq!(run.result.recording.counters.reconnects, 0);
}

/// The most requests of one connection that the server had at a time.
fn most_at_once(requests: &[LoggedRequest]) -> usize {
    let departed = |request: &LoggedRequest| request.departure_ns.unwrap_or(u64::MAX);
    let at_once = requests.iter().map(|one| {
        requests
            .iter()
            .filter(|other| other.connection == one.connection)
            .filter(|other| other.arrival_ns <= one.arrival_ns && one.arrival_ns < departed(other))
            .count()
    });
    at_once.max().unwrap_or(0)
}

#[test]
fn pipelined_requests_reach_the_server_together_up_to_the_depth() {
    let site = site_with(recording());
    let run = load(&site).at("/?delay=20ms").connections(2).requests(64);
    let run = run.with(&["--pipeline", "8"]).run();
    run.expect_answers(64);
    assert_eq!(most_at_once(&site.stop().requests), 8);
}

#[test]
fn without_pipelining_a_connection_waits_for_its_response() {
    let site = site_with(recording());
    let run = load(&site).at("/?delay=1ms").connections(3).requests(60);
    run.run().expect_answers(60);
    assert_eq!(most_at_once(&site.stop().requests), 1);
}

#[test]
fn through_a_unix_socket_the_url_gives_host_and_path_only() {
    let folder = testkit::Folder::new();
    let path = folder.file("s");
    let site = site_with(Options {
        listen: Address::Unix(path.clone().into()),
        ..recording()
    });
    let run = load(&site)
        .url("http://example.test/some/path")
        .requests(50);
    let run = run.with(&["--unix-socket", &path]).run();
    run.expect_answers(50);
    let recorded = site.stop().recorded;
    assert_eq!(
        recorded[0],
        b"GET /some/path HTTP/1.1\r\nHost: example.test\r\n\r\n"
    );
}

#[test]
fn percentiles_are_in_the_report_and_in_the_document() {
    let site = site();
    let run = load(&site).requests(200);
    let run = run.with(&["--percentiles", "99.9,12.5,50"]).run();
    let lines: Vec<&str> = run.stdout.lines().collect();
    let at = lines
        .iter()
        .position(|line| *line == "  Latency Distribution");
    let rows = &lines[at.unwrap() + 1..at.unwrap() + 4];
    for (row, label) in rows.iter().zip(["   12.5%", "     50%", "   99.9%"]) {
        assert!(row.starts_with(label), "{rows:?}");
    }
    assert!(lines[at.unwrap() + 4].contains(" requests in "));
    let percentiles = &run.document["summary"]["latency"]["percentiles"];
    let asked = percentiles
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["percent"].as_f64() == Some(12.5));
    assert!(asked.is_some(), "{percentiles}");
}

#[test]
fn the_latency_block_has_the_four_rows_of_wrk() {
    let site = site();
    let run = load(&site).requests(200).with(&["--latency"]).run();
    let (_, block) = run.stdout.split_once("  Latency Distribution\n").unwrap();
    for (row, label) in block.lines().zip(["50%", "75%", "90%", "99%"]) {
        assert_eq!(row.split_whitespace().next(), Some(label), "{block}");
    }
    let run = load(&site).requests(200).run();
    assert!(!run.stdout.contains("Latency Distribution"));
}

#[test]
fn the_correction_of_wrk_changes_the_report_and_never_the_document() {
    let site = site();
    let run = load(&site).at("/?delay=bimodal:10%,1ms,60ms").requests(100);
    let run = run.with(&["--wrk-correction"]).run().expect_answers(100);
    let text = |wrk_correction| {
        let options = TextOptions {
            wrk_correction,
            ..TextOptions::default()
        };
        let mut text = Vec::new();
        report::render(&run.result, Format::Wrk, &options, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    };
    let (measured, corrected) = (text(false), text(true));
    assert_ne!(measured, corrected);
    assert!(
        run.stdout.ends_with(&corrected),
        "{corrected}{}",
        run.stdout
    );
}

#[test]
fn requests_sent_before_the_window_are_not_counted() {
    let site = site();
    let run = load(&site).for_ms(200).with(&["--warmup", "0.5s"]).run();
    let run = run.expect_answered_only();
    assert_eq!(run.result.window.warmup_ns, 500_000_000);
    assert_eq!(run.result.window.duration_ns, 200_000_000);
    let counts = site.counts();
    assert!(counts.requests > run.sent(), "{}", run.story());
    // All connections are older than the window.
    assert_eq!(run.opened(), 0);
}

#[test]
fn a_number_of_requests_counts_from_the_end_of_the_warm_up() {
    let site = site();
    let run = load(&site).requests(100).with(&["--warmup", "100ms"]).run();
    run.expect_answers(100);
    assert!(site.counts().requests > 100);
}

#[test]
fn a_warm_up_until_the_server_has_settled_moves_the_window_and_counts_exactly() {
    let site = site();
    let options = ["--warmup", "auto", "--warmup-limit", "8s"];
    let rate = ["-R200", "--arrivals", "poisson"];
    let run = load(&site).threads(2).requests(300);
    let run = run.with(&options).with(&rate).run();
    let run = run.expect_answered_only();
    assert_eq!(run.sent(), 300);
    let window = &run.result.window;
    assert!(site.counts().requests >= 300 + 800, "{}", run.story());
    // On a busy machine, the server may not seem to settle.
    let has_settled = window.settling == Some(Settling::Settled);
    let is_within = (5_000_000_000..8_000_000_000).contains(&window.warmup_ns);
    assert!(has_settled == is_within, "{window:?}");
    assert!(has_settled || window.warmup_ns == 8_000_000_000);
    let said = "note: warm-up: settled after ";
    assert_eq!(run.stderr.contains(said), has_settled, "{}", run.stderr);
}

#[test]
fn prefixes_of_long_options_and_options_after_the_url_work() {
    let site = site();
    let run = load(&site).with(&["--dur=200ms", "--late", "--time", "1s"]);
    let run = run.run().expect_answered_only();
    assert!(run.stdout.contains("Latency Distribution"));
    assert_eq!(run.result.plan.timeout.as_secs(), 1);

    let mut command = program(&[&site.url("/"), "-n50", "-t2", "--conn=5"]);
    command.args(["--json", "-"]).args(io_arguments());
    let output = Call::of(&command).finish();
    let result = crate::judge::document(output.stdout.as_bytes());
    assert_eq!(result.recording.counters.answered, 50);
    assert_eq!(
        (result.plan.load.threads, result.plan.load.connections),
        (2, 5)
    );
}

#[test]
fn a_link_named_wrk_behaves_as_wrk() {
    let site = site();
    let link = site.folder.file("wrk");
    symlink(env!("CARGO_BIN_EXE_wrkbench"), &link).unwrap();
    let json = site.folder.file("w.json");
    let mut command = std::process::Command::new(&link);
    command.args(["-t2", "-c4", "-d200ms", "--timeout", "1s", "--json", &json]);
    command.args(io_arguments()).arg(site.url("/"));
    let output = Call::of(&command).finish();
    assert_eq!(output.code, Some(0));
    assert!(
        output.stdout.starts_with("Running 200ms test @ "),
        "{output:?}"
    );
    let result = crate::judge::document(&std::fs::read(json).unwrap());
    crate::judge::report(&result, &output.stdout);
    assert!(result.recording.counters.answered > 0);
}

#[test]
fn the_requested_backend_is_used() {
    if io().is_some() {
        // This test run sets the backend of every run and checks it.
        return;
    }
    let site = site();
    let run = load(&site).requests(50).with(&["--io", "epoll"]).run();
    assert_eq!(run.result.backend.name, "epoll");
    assert_eq!(run.result.backend.reason, "requested");
    let auto = load(&site).requests(50).run();
    let uring = load(&site).requests(50).with(&["--io", "uring"]);
    if auto.result.backend.name == "io_uring" {
        assert_eq!(uring.run().result.backend.name, "io_uring");
    } else {
        assert!(
            uring
                .output()
                .only_line()
                .starts_with("wrkbench: --io uring: ")
        );
    }
}

#[test]
fn options_and_conditions_may_be_in_a_file() {
    let site = site_with(recording());
    let url = site.url("/");
    site.folder.file_with("body.json", "{}");
    let text = format!(
        "url = '{url}'\nthreads = 1\nconnections = 2\nrequests = 40\nbody-file = 'body.json'\n\
         header = ['X-From: file']\nfail_if = ['errors>0', 'rps<1']\nlabel = 'branch=main'\n"
    );
    let file = site.folder.file_with("load.toml", text);
    let json = site.folder.file("result.json");
    let run = |more: &[&str]| {
        let mut command = program(&["run", &file]);
        command
            .args(io_arguments())
            .args(["--json", &json])
            .args(more);
        Call::of(&command).finish()
    };
    let output = run(&[]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let document: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(document["counters"]["answered"], 40);
    assert_eq!(document["environment"]["labels"]["branch"], "main");
    // What follows has precedence, and more conditions are added.
    let output = run(&["-n20", "--fail-if", "requests<21"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(
        output.stderr.contains("requests is 20, limit requests<21"),
        "{output:?}"
    );
    let recorded = site.stop().recorded;
    let texts = recorded
        .iter()
        .map(|request| String::from_utf8_lossy(request));
    assert!(texts.clone().all(|text| text.contains("X-From: file\r\n")));
    assert!(texts.filter(|text| text.ends_with("\r\n\r\n{}")).count() >= 60);
    let folder = testkit::Folder::new();
    for (text, expected) in [
        ("threads = 0\n", "--threads"),
        ("nonsense = 1\n", "--nonsense"),
        (
            "[[target]]\n",
            ":1: target: this is an experiment, which wrkbench sweep ",
        ),
    ] {
        let file = folder.file_with("bad.toml", text);
        let output = call(&["run", &file, &url]).finish();
        assert_eq!(output.code, Some(1), "{text}: {output:?}");
        assert!(output.only_line().contains(expected), "{text}: {output:?}");
    }
}
