//! `--server-timing` and `--traceparent`: where the time of requests went, with every protocol.

use crate::harness::{load, site, site_with};
use crate::http3;

/// The server states half of its delay.
const TARGET: &str = "/?delay=4ms&header=Server-Timing:total;dur=2,db;dur=1";

const PROTOCOLS: [&[&str]; 3] = [&[], &["--http2", "-m4"], &["--http3", "-m4"]];

#[test]
fn the_time_that_the_server_states_is_read_with_every_protocol() {
    let site = site_with(http3::options());
    for protocol in PROTOCOLS {
        let run = load(&site)
            .at(TARGET)
            .requests(200)
            .with(&["--server-timing"])
            .with(protocol)
            .run()
            .expect_answers(200);
        let breakdown = run.result.recording.parts.breakdown.as_ref();
        let breakdown = breakdown.expect("it was asked for");
        let names: Vec<&str> = breakdown
            .server_timing
            .iter()
            .map(|metric| metric.name.as_str())
            .collect();
        assert_eq!(names, ["total", "db"], "{}", run.story());
        let all = breakdown.slowest(1.0, 0).expect("there are requests");
        assert_eq!((all.requests, all.server_ns), (200, 200 * 2_000_000));
        assert_eq!(all.server_timing_ns, [400_000_000, 200_000_000]);
        let text = &run.stdout;
        for expected in ["Where the time went", "Server-Timing  Samples", "  db "] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
    }
}

#[test]
fn a_server_without_the_header_is_said_to_have_none() {
    let site = site();
    let run = load(&site).requests(50).with(&["--server-timing"]).run();
    let text = &run.stdout;
    let expected = "No response had a Server-Timing header with a duration.";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn requests_with_a_trace_are_answered_like_others_with_every_protocol() {
    let site = site_with(http3::options());
    let link = "http://traces/{id}";
    for protocol in PROTOCOLS {
        let run = load(&site)
            .requests(200)
            .with(&["--traceparent", "1/1", "--trace-url", link])
            .with(protocol)
            .run()
            .expect_answers(200);
        let breakdown = run.result.recording.parts.breakdown.as_ref();
        let breakdown = breakdown.expect("it was asked for");
        assert_eq!(breakdown.traced, run.sent(), "{}", run.story());
        let slowest = breakdown.slowest_traced[0]
            .trace_id
            .expect("it has a trace");
        let expected = format!("http://traces/{slowest}");
        let text = &run.stdout;
        assert!(text.contains(&expected), "{expected} in {text}");
    }
}

#[test]
fn requests_of_a_script_have_traces_too() {
    let site = site();
    let run = load(&site)
        .script("function request() return wrk.format('GET', '/?size=5') end\n")
        .requests(100)
        .with(&["--traceparent", "1"])
        .run()
        .expect_answers(100);
    let breakdown = run.result.recording.parts.breakdown.as_ref();
    assert_eq!(
        breakdown.map(|it| it.traced),
        Some(run.sent()),
        "{}",
        run.story()
    );
}

#[test]
fn a_link_needs_traces() {
    let site = site();
    let run = load(&site).with(&["--trace-url", "http://t/{id}"]).output();
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stderr.contains("--traceparent: is missing"), "{run:?}");
}
