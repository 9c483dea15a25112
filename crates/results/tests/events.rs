//! Events of streaming responses: merging, figures, metrics and checks.

mod fixture;

use results::{EventRecording, Metric, PartRecordings, Recording, RunResult, Summary, check};

const MS: u64 = 1_000_000;

/// Four streams, one of which was cut off, with 5 events each, and two events of a fifth stream.
fn events() -> EventRecording {
    let mut events = EventRecording {
        arrived: 22,
        streams: 4,
        unfinished: 1,
        ..EventRecording::default()
    };
    events.first_event.record_n(200 * MS, 5);
    events.gap.record_n(30 * MS, 17);
    events.since_last_event.record(40 * MS);
    events.per_response.record_n(5, 4);
    events
}

fn recording() -> Recording {
    Recording {
        parts: PartRecordings {
            events: Some(events()),
            ..PartRecordings::default()
        },
        ..fixture::recording(4)
    }
}

fn result() -> RunResult {
    fixture::result(recording())
}

fn events_of(result: &mut RunResult) -> &mut EventRecording {
    let events = result.recording.parts.events.as_mut();
    events.expect("it has events")
}

#[test]
fn recordings_of_events_are_added() {
    let mut both = Recording::new();
    both.merge(&recording());
    assert_eq!(both.parts.events, Some(events()));
    both.merge(&Recording::new());
    both.merge(&recording());
    let sum = both.parts.events.expect("both have events");
    assert_eq!((sum.arrived, sum.streams, sum.unfinished), (44, 8, 2));
    assert_eq!((sum.first_event.count(), sum.gap.count()), (10, 34));
    assert_eq!(sum.since_last_event.count(), 2);
    assert_eq!(sum.per_response_mean(), Some(5.0));
}

#[test]
fn figures_and_metrics_are_those_of_the_events() {
    let result = result();
    check(&result).expect("it does not contradict itself");
    let seconds = result.window.duration_ns as f64 / 1e9;
    let summary = Summary::of(&result, &[]).events.expect("it has events");
    assert_eq!(summary.events_per_sec, 22.0 / seconds);
    assert_eq!((summary.first_event.count, summary.gap.count), (5, 17));
    assert_eq!(summary.time_since_last_event.count, 1);
    for (name, expected) in [
        ("events_per_sec", 22.0 / seconds),
        ("events_per_response", 5.0),
        ("event_streams", 4.0),
        ("unfinished_streams", 1.0),
        ("event_gap_min_us", 30_000.0),
        ("first_event_max", 200_000.0),
        ("first_event_mean", 200_000.0),
        ("time_since_last_event_max", 40_000.0),
        ("time_since_last_event_max_us", 40_000.0),
    ] {
        let metric = Metric::parse(name).expect("it is a metric");
        let value = metric.of(&result).map(|known| known.value);
        assert_eq!(value, Some(expected), "{name}");
    }
    let without = fixture::result(Recording {
        parts: PartRecordings {
            events: None,
            ..PartRecordings::default()
        },
        ..recording()
    });
    let metric = Metric::parse("first_event_p99").expect("it is a metric");
    assert_eq!(metric.of(&without), None);
}

#[test]
fn the_default_end_marker_is_missed_only_if_some_stream_of_the_run_has_it() {
    let cut_off = |streams, unfinished, has_end_marker| {
        let events = EventRecording {
            streams,
            unfinished,
            has_end_marker,
            ..EventRecording::default()
        };
        let mut result = result();
        let cut_off = events.cut_off();
        result.recording.parts.events = Some(events);
        let metric = Metric::parse("unfinished_streams").expect("it is a metric");
        assert_eq!(metric.of(&result).map(|it| it.value), Some(cut_off as f64));
        cut_off
    };
    assert_eq!(cut_off(4, 4, false), 0);
    assert_eq!(cut_off(4, 1, false), 1);
    // In the warm-up, or given.
    assert_eq!(cut_off(4, 4, true), 4);
    assert_eq!(cut_off(0, 0, false), 0);
}

#[test]
fn one_agent_with_an_end_marker_makes_those_of_the_others_missed() {
    let mut both = Recording::new();
    for has_end_marker in [false, true] {
        let events = EventRecording {
            streams: 2,
            unfinished: 2,
            has_end_marker,
            ..EventRecording::default()
        };
        both.merge(&Recording {
            parts: PartRecordings {
                events: Some(events),
                ..PartRecordings::default()
            },
            ..Recording::new()
        });
    }
    assert_eq!(both.parts.events.expect("both have events").cut_off(), 4);
}

#[test]
fn events_of_streams_that_never_end_are_answers() {
    let mut endless = result();
    endless.recording = Recording {
        parts: PartRecordings {
            events: Some(EventRecording {
                arrived: 1,
                ..EventRecording::default()
            }),
            ..PartRecordings::default()
        },
        ..Recording::new()
    };
    assert!(endless.has_answers());
    endless.recording.parts.events = Some(EventRecording::default());
    assert!(!endless.has_answers());
    assert!(result().has_answers());
}

#[test]
fn a_percentile_that_depends_on_requests_without_an_event_has_no_upper_bound() {
    let mut result = result();
    events_of(&mut result).first_event.record_n(200 * MS, 195);
    let p90 = Metric::parse("first_event_p90").expect("it is a metric");
    let known = p90.of(&result).expect("it is known");
    assert_eq!((known.high, known.is_lower_bound), (known.value, false));
    events_of(&mut result).waiting.record_n(MS, 50);
    let known = p90.of(&result).expect("it is known");
    assert_eq!((known.high, known.is_lower_bound), (f64::INFINITY, true));
}

#[test]
fn counts_of_events_that_contradict_each_other_are_found() {
    type Change = fn(&mut EventRecording);
    let changes: [(Change, &str); 6] = [
        (
            |it| it.arrived = 21,
            "timed events is 22, but arrived is 21",
        ),
        (|it| it.unfinished = 5, "unfinished is 5, but streams is 4"),
        (|it| it.empty = 5, "empty is 5, but streams is 4"),
        (|it| it.waiting.record_n(1, 2), "waiting samples is 2, but"),
        (|it| it.per_response.record(1), "per_response has 5 samples"),
        (
            |it| {
                it.first_event.clear();
                it.first_event.record_n(1, 3);
            },
            "streams with an event is 4, but first_event samples is 3",
        ),
    ];
    for (change, said) in changes {
        let mut result = result();
        change(events_of(&mut result));
        let error = check(&result).expect_err(said).to_string();
        assert!(error.contains(said), "{error}");
    }
}
