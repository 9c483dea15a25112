//! Servers that hang.

use std::time::Duration;

use results::ErrorKind;
use testkit::one_line;

use crate::harness::{load, site};

#[test]
fn a_hanging_server_costs_each_request_its_timeout_once() {
    let site = site();
    let run = load(&site).at("/?fault=hang").requests(12).timeout_ms(80);
    let run = run.run().expect_only(ErrorKind::Timeout);
    assert_eq!((run.sent(), run.failed(ErrorKind::Timeout)), (12, 12));
    assert_eq!(run.events(ErrorKind::Timeout), 12);
    // Each timeout closes the connection; the last ones are not replaced.
    assert_eq!(run.opened(), 12);
    assert_eq!(run.code, Some(1));
    let timed_out = &run.result.recording.timed_out;
    assert_eq!(timed_out.count(), 12);
    assert!(timed_out.min_ns().unwrap() >= 80_000_000, "{}", run.story());
    let line = "wrkbench: no request succeeded: no complete response in time (12 times)";
    assert_eq!(one_line(&run.stderr), line);
}

#[test]
fn requests_that_time_out_count_in_the_latency_with_their_age() {
    let site = site();
    let run = load(&site)
        .at("/?mix=20%:hang")
        .requests(60)
        .timeout_ms(150)
        .run();
    let run = run.expect_only(ErrorKind::Timeout);
    let recording = &run.result.recording;
    assert_eq!(recording.latency().count(), 60);
    assert_eq!(recording.service_time.count(), run.answered());
    assert!(recording.latency().max_ns().unwrap() >= 150_000_000);
    assert!(run.stderr.contains("wrkbench: warning: "), "{}", run.stderr);
    let kinds: Vec<&str> = run.document["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|warning| warning["kind"].as_str())
        .collect();
    assert!(kinds.contains(&"timed_out_requests"), "{kinds:?}");
}

#[test]
fn unanswered_requests_within_the_timeout_are_in_flight_at_the_end() {
    let site = site();
    let run = load(&site).at("/?fault=hang").connections(7).for_ms(600);
    let run = run.timeout_ms(60_000).run();
    let counters = &run.result.recording.counters;
    assert_eq!(
        (counters.sent, counters.in_flight),
        (7, 7),
        "{}",
        run.story()
    );
    assert!(counters.oldest_in_flight_ns > 0 && counters.oldest_in_flight_ns <= 600_000_000);
    assert_eq!(run.kinds(), []);
    assert_eq!(run.code, Some(1));
    one_line(&run.stderr);
}

#[test]
fn a_slow_response_within_the_timeout_counts() {
    let site = site();
    let run = load(&site)
        .at("/?delay=100ms")
        .requests(8)
        .timeout_ms(20_000);
    run.run().expect_answers(8);
}

#[test]
fn no_request_is_awaited_longer_than_the_run() {
    let site = site();
    let run = load(&site)
        .at("/?fault=hang-after-head")
        .for_ms(1000)
        .timeout_ms(400)
        .run();
    let run = run.expect_only(ErrorKind::Timeout);
    let duration = Duration::from_nanos(run.result.window.duration_ns);
    assert_eq!(duration, Duration::from_millis(1000));
    // Two rounds fit at most.
    assert!(run.failed(ErrorKind::Timeout) <= 8, "{}", run.story());
}
