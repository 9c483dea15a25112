//! Events of streaming responses: `--events`.

use results::{EventRecording, Histogram};

use crate::harness::{Run, load, site};

const MS: u64 = 1_000_000;

fn events<'r>(run: &'r Run<'_>) -> &'r EventRecording {
    let events = run.result.recording.parts.events.as_ref();
    events.unwrap_or_else(|| panic!("{}", run.story()))
}

fn min_ms(histogram: &Histogram) -> u64 {
    histogram.min_ns().unwrap_or_default() / MS
}

#[test]
fn events_of_a_known_server_are_counted_and_timed() {
    for (format, protocol) in [
        ("sse", "--http2"),
        ("sse", "--style=wrk"),
        ("lines", "--http2"),
        ("lines", "--style=wrk"),
        ("chunks", "--http2"),
        ("chunks", "--style=wrk"),
    ] {
        let site = site();
        let path = format!("/?events=5&first=30ms&gap=10ms&events-format={format}&events-end=END");
        let options = ["--events", format, "--events-end", "END", protocol];
        let run = load(&site).at(&path).connections(2).for_ms(400);
        let run = run.with(&options).run().expect_answered_only();
        let events = events(&run);
        let story = run.story();
        assert!(events.streams > 0, "{story}");
        assert_eq!(events.streams, run.result.recording.counters.answered);
        assert_eq!((events.unfinished, events.empty), (0, 0), "{story}");
        let per_response = (events.per_response.min_ns(), events.per_response.max_ns());
        assert_eq!(per_response, (Some(5), Some(5)), "{story}");
        // Those in flight at the end of the window have the other part of their events after it.
        let complete = events.streams * 5;
        assert!(
            (complete - 2 * 5..=complete).contains(&events.arrived),
            "{story}"
        );
        let timed = events.first_event.count() + events.gap.count();
        let after = timed.checked_sub(events.arrived);
        assert!(after.is_some_and(|after| after <= 2), "{story}");
        // The server sends the last event no sooner than after 30 ms and four gaps. The mean gap
        // says less: on a busy machine, events are read together.
        assert!(min_ms(&events.first_event) >= 30, "{story}");
        let latency = run.result.recording.latency();
        assert!(latency.min_ns() >= Some(69 * MS), "{story}");
        let summary = &run.document["summary"]["events"];
        assert_eq!(summary["per_response_mean"], 5.0, "{story}");
        assert!(run.stdout.contains("  First event "), "{story}");
        assert!(run.stdout.contains("\nEvents/sec: "), "{story}");
    }
}

#[test]
fn with_a_rate_the_first_event_counts_from_when_the_request_was_due() {
    let site = site();
    let run = load(&site).at("/?events=2&first=100ms").connections(1);
    // One connection carries ten of the twenty requests that are due in each second.
    let run = run.for_ms(1_000).with(&["--events", "sse", "-R20"]).run();
    let events = events(&run);
    let (first, waiting) = (&events.first_event, &events.waiting);
    assert!(first.max_ns() > Some(300 * MS), "{}", run.story());
    assert!(waiting.count() > 0, "{}", run.story());
}

#[test]
fn streams_without_their_end_are_unfinished_and_fail_a_condition() {
    let site = site();
    let condition = ["--events", "sse", "--fail-if", "unfinished_streams>0"];
    let output = |path: &str, more: &[&str]| {
        let load = load(&site).at(path).for_ms(200).with(&condition);
        load.with(more).output()
    };
    let cut = output("/?events=3&events-end=none", &["--events-end", "[DONE]"]);
    assert_eq!(cut.code, Some(2), "{cut:?}");
    let said = "ended without the end marker \"[DONE]\"";
    assert!(cut.stderr.contains(said), "{cut:?}");
    let whole = output("/?events=3", &[]);
    assert_eq!(whole.code, Some(0), "{whole:?}");
    let without = output("/?events=3&events-end=none", &["--events-end", ""]);
    assert_eq!(without.code, Some(0), "{without:?}");
}

/// A stream that outlasts the run. More events would take the server long to prepare.
const ENDLESS: &str = "/?events=5000&gap=5ms";

#[test]
fn events_of_streams_that_never_end_are_success() {
    let site = site();
    let conditions = "event_gap_p50>30s, time_since_last_event_max>30s, unfinished_streams>0";
    let options = [
        "--events",
        "sse",
        "--timeout",
        "1m",
        "--fail-if",
        conditions,
    ];
    for more in [&[][..], &["--warmup", "100ms"], &["--http2"]] {
        let load = load(&site).at(ENDLESS).for_ms(400).with(&options);
        let run = load.with(more).run();
        let story = run.story();
        assert_eq!(run.code, Some(0), "{story}");
        assert!(!run.stderr.contains("warning: "), "{story}");
        let events = events(&run);
        assert_eq!((events.streams, events.unfinished), (0, 0), "{story}");
        assert!(events.gap.count() > 0, "{story}");
        assert_eq!(events.since_last_event.count(), 4, "{story}");
        assert!(run.stdout.contains("No stream was complete"), "{story}");
        assert!(run.stdout.contains("\n  Since last "), "{story}");
    }
}

#[test]
fn streams_that_are_given_up_at_the_timeout_have_had_events() {
    let site = site();
    let options = ["--events", "sse", "--timeout", "100ms"];
    let run = load(&site).at(ENDLESS).for_ms(400).with(&options).run();
    let story = run.story();
    assert_eq!(run.code, Some(0), "{story}");
    // Events show that the server works: there is no pause before the next attempt.
    let timeouts = run.result.recording.errors.exchanges();
    assert!(timeouts >= 8, "{story}");
    let silent = events(&run).since_last_event.count();
    assert!(silent >= timeouts, "{story}");
}

#[test]
fn a_stream_that_stalls_fails_a_condition_on_the_time_since_the_last_event() {
    let site = site();
    let stalls = "/?events=20&gap=1ms&fault=hang-mid-body";
    let condition = "time_since_last_event_max>150ms";
    let options = ["--events", "sse", "--timeout", "1m", "--fail-if", condition];
    let output = |path: &str| load(&site).at(path).for_ms(600).with(&options).output();
    let stalled = output(stalls);
    assert_eq!(stalled.code, Some(2), "{stalled:?}");
    for said in [
        "time_since_last_event_max is ",
        "warning: 4 open streams had no event for up to ",
    ] {
        assert!(stalled.stderr.contains(said), "{stalled:?}");
    }
    let few = output("/?events=1&first=30s");
    assert_eq!(few.code, Some(1), "{few:?}");
    assert!(few.stderr.contains("no request succeeded"), "{few:?}");
}

#[test]
fn the_default_end_marker_does_not_count_unless_a_stream_has_it() {
    let site = site();
    let condition = ["--events", "sse", "--fail-if", "unfinished_streams>0"];
    let run = |path: &str| load(&site).at(path).for_ms(200).with(&condition).run();
    let without = run("/?events=3&events-end=none");
    assert_eq!(without.code, Some(0), "{}", without.story());
    assert!(
        !without.stderr.contains("end marker"),
        "{}",
        without.story()
    );
    assert!(
        !without.stdout.contains("end marker"),
        "{}",
        without.story()
    );
    assert!(events(&without).unfinished > 0, "{}", without.story());
}

#[test]
fn one_stream_that_is_cut_off_among_those_with_an_end_marker_counts() {
    let site = site();
    let text = "GET /?events=3\n\n###\nGET /?events=3&events-end=none\n";
    let requests = site.folder.file_with("requests.http", text);
    let options = ["--events", "sse", "--requests", &requests];
    let run = load(&site).requests(100).with(&options);
    let run = run.with(&["--fail-if", "unfinished_streams>0"]);
    let run = run.finish();
    assert_eq!(run.code, Some(2), "{}", run.story());
    let events = events(&run);
    assert!(
        events.has_end_marker && events.unfinished > 0,
        "{}",
        run.story()
    );
    assert!(
        run.stderr.contains("ended without the end marker"),
        "{}",
        run.story()
    );
}

#[test]
fn responses_without_events_are_warned_about() {
    let site = site();
    let run = load(&site).for_ms(200).with(&["--events", "sse"]).run();
    let events = events(&run);
    assert_eq!((events.arrived, events.empty), (0, events.streams));
    assert!(
        run.stderr.contains("warning: no event in "),
        "{}",
        run.story()
    );
}

#[test]
fn the_time_to_the_first_event_can_be_a_condition() {
    let site = site();
    let output = |condition: &str| {
        let load = load(&site).at("/?events=3&first=20ms").connections(4);
        load.for_ms(400)
            .with(&["--events", "sse", "--fail-if", condition])
            .output()
    };
    let failed = output("first_event_min>10ms");
    assert_eq!(failed.code, Some(2), "{failed:?}");
    assert!(failed.stderr.contains("first_event_min is "), "{failed:?}");
    let passed = output("first_event_p50>30s,event_gap_max>30s,events_per_response<3");
    assert_eq!(passed.code, Some(0), "{passed:?}");
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let site = site();
    for (options, said) in [
        (["--events", "sse", "--pipeline", "2"], "remove --pipeline"),
        (
            ["--events", "lines", "--events-end", "a\nb"],
            "must be one line",
        ),
        (["--events", "none", "-c", "1"], "sse, lines, chunks"),
        (["--events-end", "END", "-c", "1"], "--events: is missing"),
    ] {
        let output = load(&site).for_ms(100).with(&options).output();
        assert_eq!(output.code, Some(1), "{options:?}: {output:?}");
        assert!(output.stderr.contains(said), "{options:?}: {output:?}");
    }
}
