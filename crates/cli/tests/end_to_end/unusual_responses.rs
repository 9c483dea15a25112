//! Unusual but valid responses: none is an error.

use origin::Options;
use results::ErrorKind;

use crate::harness::{load, site, site_with};

/// Every response has this status, and the server counts the same bytes.
fn assert_taken(target: &str, more: &[&str], status: u16) {
    let site = site();
    let run = load(&site).at(target).requests(60).with(more).run();
    run.expect_answers(60).expect_status(status);
}

#[test]
fn bodies_of_any_length_and_framing_are_read_completely() {
    for target in [
        "/?size=0",
        "/?size=1",
        "/?size=100k",
        "/?size=3M",
        "/?size=0&chunked",
        "/?size=100k&chunked",
        "/?size=300&chunked=1b",
        "/?chunked&trailers",
        "/?size=100k&until-close",
        "/?size=0&until-close",
        "/?header=X-Long:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "/?fault=split&size=20",
        "/?fault=split&size=20&chunked&trailers",
        "/?fault=drip:100us&size=1",
    ] {
        assert_taken(target, &[], 200);
    }
}

#[test]
fn every_status_is_counted_by_its_code() {
    for status in [200, 204, 304, 301, 404, 500, 600, 999] {
        let site = site();
        let run = load(&site).at(&format!("/?status={status}")).requests(40);
        let run = run.run().expect_answers(40).expect_status(status);
        let line = "\n  Non-2xx or 3xx responses: 40\n";
        assert_eq!(run.stdout.contains(line), status > 399, "{}", run.stdout);
    }
}

#[test]
fn a_response_without_a_body_is_complete_whatever_its_length_header() {
    assert_taken("/?size=5k", &["-X", "HEAD"], 200);
    assert_taken("/?size=5k&chunked", &["-X", "HEAD"], 200);
    let unchanged = "/?status=304&header=Content-Length:63";
    assert_taken(unchanged, &[], 304);
    assert_taken(unchanged, &["-X", "HEAD"], 304);
    assert_taken("/?size=5k", &["-X", "HEAD", "--pipeline", "5"], 200);
}

#[test]
fn an_interim_response_is_not_counted() {
    for target in [
        "/?interim=1",
        "/?interim=3:102",
        "/?interim=20",
        "/?interim=1:100&chunked",
    ] {
        assert_taken(target, &[], 200);
    }
}

#[test]
fn pipelined_responses_belong_to_their_requests() {
    for target in [
        "/?size=10",
        "/?size=5k&chunked",
        "/?interim=1&chunked&trailers",
        "/?status=204",
    ] {
        let site = site();
        let run = load(&site).at(target).requests(240);
        run.with(&["--pipeline", "16"]).run().expect_answers(240);
    }
}

#[test]
fn http_1_0_is_kept_alive_only_on_request() {
    let site = site();
    let run = load(&site).at("/?http10=keep-alive").requests(60).run();
    let run = run.expect_answers(60);
    assert!(run.opened() <= 4, "{}", run.story());

    let run = load(&site).at("/?http10").requests(60).run();
    assert_eq!(run.expect_answers(60).opened(), 60);
}

#[test]
fn an_announced_close_is_a_reconnect_and_no_error() {
    for target in [
        "/?close",
        "/?close&size=100k",
        "/?close&chunked",
        "/?until-close",
    ] {
        let site = site();
        let run = load(&site).at(target).requests(60).run().expect_answers(60);
        assert_eq!(run.opened(), 60);
        assert_eq!(run.result.recording.counters.reconnects, 60, "{target}");
        assert!(!run.stdout.contains("Socket errors"));
    }
}

#[test]
fn connections_that_the_server_ends_after_some_requests_are_replaced() {
    let site = site_with(Options {
        keepalive_requests: Some(10),
        ..Options::default()
    });
    let run = load(&site).connections(1).requests(95).run();
    let run = run.expect_answers(95);
    assert_eq!(run.opened(), 10);
    assert_eq!(run.result.recording.counters.reconnects, 9);
}

#[test]
fn pipelined_requests_after_an_announced_close_are_stale_and_never_resent() {
    let site = site_with(Options {
        keepalive_requests: Some(10),
        log_requests: 10_000,
        ..Options::default()
    });
    let run = load(&site).connections(1).requests(256);
    let run = run.with(&["--pipeline", "16"]).run();
    let run = run.expect_only(ErrorKind::Stale);
    assert_eq!(run.answered() + run.failed(ErrorKind::Stale), 256);
    // Each got no response and counts as an error everywhere.
    assert_eq!(
        run.document["summary"]["errors"],
        run.failed(ErrorKind::Stale)
    );
    assert!(run.stdout.contains("Socket errors: connect 0, read "));
    assert!(site.counts().requests <= 256);
}

#[test]
fn a_request_body_that_the_server_ignores_is_no_error() {
    for target in ["/", "/?echo"] {
        let more = ["--body", "some text", "-H", "Expect: 100-continue"];
        let site = site();
        let run = load(&site).at(target).requests(40).with(&more).run();
        run.expect_answers(40).expect_status(200);
    }
}

#[test]
fn a_large_request_body_arrives_as_sent() {
    let site = site();
    let path = site.folder.file_with("body", vec![b'x'; 3_000_000]);
    let run = load(&site).at("/?echo").connections(2).requests(8);
    let run = run.with(&["--body-file", &path]).run().expect_answers(8);
    assert!(run.result.recording.counters.bytes > 8 * 3_000_000);
}

#[test]
fn a_body_larger_than_any_buffer_is_received() {
    let site = site();
    let run = load(&site).at("/?size=200M").connections(1).requests(1);
    let run = run.timeout_ms(60_000).run().expect_answers(1);
    assert!(run.result.recording.counters.bytes > 200_000_000);
}

#[test]
fn slow_responses_are_no_errors_and_appear_in_the_phases() {
    let site = site();
    let run = load(&site).at("/?delay=20ms&tail=30ms").requests(12);
    let run = run.run().expect_answers(12);
    let phases = &run.result.recording.phases;
    assert!(phases.first_byte.min_ns().unwrap() >= 20_000_000);
    assert!(run.result.recording.service_time.min_ns().unwrap() >= 50_000_000);
}
