//! Tokens of language models and good requests: merging, figures, metrics and checks.

mod fixture;

use results::{
    ErrorKind, EventRecording, FirstError, GoodRecording, LlmRecording, Metric, Recording,
    RunResult, Summary, check,
};

const MS: u64 = 1_000_000;

/// Three complete responses with 5, 5 and 11 tokens, one without a token, and one with an error in
/// its stream.
fn llm() -> LlmRecording {
    let mut llm = LlmRecording {
        responses: 4,
        counted_as_events: 1,
        without_tokens: 1,
        errors: 1,
        output_tokens: 21,
        input_tokens: 40,
        cached_tokens: 8,
        ..LlmRecording::default()
    };
    llm.first_token.record_n(200 * MS, 4);
    llm.waiting.record(900 * MS);
    llm.first_text.record_n(250 * MS, 3);
    llm.token_gap.record_n(30 * MS, 18);
    llm.time_per_token.record_n(30 * MS, 3);
    llm.output_per_response.record(0);
    llm.output_per_response.record_n(5, 2);
    llm.output_per_response.record(11);
    llm.input_per_response.record_n(10, 4);
    llm.finish.stop = 2;
    llm.finish.length = 1;
    llm.finish.none = 1;
    llm
}

/// One request of the five failed, and one more is in flight.
fn recording() -> Recording {
    let mut recording = fixture::recording(4);
    recording.counters.sent += 1;
    recording.errors.add(ErrorKind::StreamError, 1);
    let mut events = EventRecording {
        arrived: 30,
        streams: 5,
        ..EventRecording::default()
    };
    events.first_event.record_n(MS, 5);
    events.gap.record_n(MS, 25);
    events.per_response.record_n(6, 5);
    recording.parts.events = Some(events);
    recording.parts.llm = Some(llm());
    let sent = recording.counters.sent;
    recording.parts.good = Some(GoodRecording {
        good: 3,
        bad: 2,
        undecided: sent - 5,
        ..GoodRecording::default()
    });
    recording
}

fn result() -> RunResult {
    fixture::result(recording())
}

#[test]
fn recordings_of_tokens_and_good_requests_are_added() {
    let mut both = Recording::new();
    both.merge(&recording());
    assert_eq!(both.parts.llm, Some(llm()));
    both.merge(&Recording::new());
    both.merge(&recording());
    let sum = both.parts.llm.expect("both have tokens");
    assert_eq!((sum.responses, sum.output_tokens, sum.errors), (8, 42, 2));
    assert_eq!((sum.first_token.count(), sum.waiting.count()), (8, 2));
    assert_eq!(sum.finish.all().map(|(_, count)| count), [4, 2, 0, 0, 0, 2]);
    let good = both.parts.good.expect("both are judged");
    assert_eq!((good.good, good.bad, good.judged()), (6, 4, 10));
}

#[test]
fn figures_and_metrics_are_those_of_the_tokens() {
    let result = result();
    check(&result).expect("it does not contradict itself");
    let seconds = result.window.duration_ns as f64 / 1e9;
    let summary = Summary::of(&result, &[]).llm.expect("it has tokens");
    assert_eq!(summary.output_tokens_per_sec, 21.0 / seconds);
    // With the lower bound.
    assert_eq!(summary.first_token.count, 5);
    for (name, expected) in [
        ("output_tokens_per_sec", 21.0 / seconds),
        ("input_tokens_per_sec", 40.0 / seconds),
        ("output_tokens_per_response", 21.0 / 4.0),
        ("input_tokens_per_response", 10.0),
        ("cut_short", 1.0),
        ("first_token_min", 200_000.0),
        ("first_text_max", 250_000.0),
        ("token_gap_mean", 30_000.0),
        ("time_per_token_p50", 30_000.0),
        ("goodput", 60.0),
        ("good_requests_per_sec", 3.0 / seconds),
    ] {
        let metric = Metric::parse(name).expect("it is a metric");
        let value = metric.of(&result).map(|known| known.value);
        assert!(
            value.is_some_and(|value| (value - expected).abs() < expected * 0.01),
            "{name}: {value:?} for {expected}"
        );
    }
    let without = fixture::result(fixture::recording(4));
    for name in ["first_token_p99", "output_tokens_per_sec", "goodput"] {
        let metric = Metric::parse(name).expect("it is a metric");
        assert_eq!(metric.of(&without), None, "{name}");
    }
}

#[test]
fn each_contradiction_about_tokens_is_named() {
    type Change = fn(&mut LlmRecording);
    let changes: [(Change, &str); 8] = [
        (|llm| llm.errors = 0, "streams is 5"),
        (|llm| llm.finish.stop += 1, "finish reasons is 5"),
        (
            |llm| llm.output_per_response.record(1),
            "output_per_response samples is 5",
        ),
        (|llm| llm.counted_as_events = 5, "counted_as_events is 5"),
        (
            |llm| llm.first_text.record_n(MS, 2),
            "first_text samples is 5",
        ),
        (
            |llm| llm.time_per_token.record(MS),
            "time_per_token samples is 4",
        ),
        (
            |llm| llm.token_gap.record_n(MS, 9),
            "timed token events is 31",
        ),
        (|llm| llm.cached_tokens = 41, "cached_tokens is 41"),
    ];
    for (change, said) in changes {
        let mut result = result();
        change(result.recording.parts.llm.as_mut().expect("it has tokens"));
        let problem = check(&result).expect_err(said).to_string();
        assert!(problem.contains(said), "{problem}");
    }
    let mut result = result();
    result.recording.parts.events = None;
    assert!(check(&result).is_err());
}

#[test]
fn each_request_is_judged_once() {
    type Change = fn(&mut GoodRecording);
    let changes: [(Change, &str); 2] = [
        (|good| good.undecided += 1, "good + bad + undecided is "),
        (
            |good| {
                good.good += 2;
                good.bad -= 2;
            },
            "good is 5, but answered is 4",
        ),
    ];
    for (change, said) in changes {
        let mut result = result();
        change(result.recording.parts.good.as_mut().expect("it is judged"));
        let problem = check(&result).expect_err(said).to_string();
        assert!(problem.contains(said), "{problem}");
    }
}

#[test]
fn streams_that_all_ended_with_an_error_are_no_answers() {
    let mut result = result();
    assert!(result.has_answers());
    result.recording.counters.answered = 0;
    assert!(!result.has_answers());
    // Another one goes on.
    let events = result.recording.parts.events.as_mut();
    let events = events.expect("it has events");
    events.since_last_event.record(MS);
    assert!(result.has_answers());
}

#[test]
fn pauses_of_machines_are_added_and_the_words_of_the_first_one_stay() {
    let first = FirstError::of(429, b"{\"error\":{\"message\":\"slow down\"}}");
    let mut one = LlmRecording {
        first_error: Some(first.clone()),
        ..LlmRecording::default()
    };
    one.pauses.record_n(1_000 * MS, 2);
    let mut other = LlmRecording {
        first_error: Some(FirstError::of(503, b"")),
        ..LlmRecording::default()
    };
    other.pauses.record(4_000 * MS);
    let mut recording = recording();
    let mut more = Recording::default();
    (recording.parts.llm, more.parts.llm) = (Some(one), Some(other));
    recording.merge(&more);
    let llm = recording.parts.llm.expect("both have it");
    assert_eq!(
        (llm.pauses.count(), llm.pauses.sum_ns()),
        (3, 6_000 * u128::from(MS))
    );
    assert_eq!(llm.first_error, Some(first));
}
