//! Conditions under which a run counts as failed: parsing, and judging a run.

#[path = "../../results/tests/fixture/mod.rs"]
mod fixture;

use std::time::Duration;

use judging::{Criterion, Judgement, Purpose};
use plan::{Arrivals, Pacing};
use proptest::prelude::*;
use results::{ErrorKind, EventRecording, NameRecording, Recording, RunResult};

/// 2,000 responses of 1 ms to 2 s, one in each millisecond, 40 of them with status 404; no error.
fn answered() -> RunResult {
    let mut recording = Recording::new();
    for number in 0..2000_u64 {
        recording.service_time.record((number + 1) * 1_000_000);
        recording
            .statuses
            .add(if number % 50 == 0 { 404 } else { 200 });
    }
    recording.counters.sent = 2000;
    recording.counters.answered = 2000;
    let mut result = fixture::result(recording);
    result.window.duration_ns = 4_000_000_000;
    result
}

/// The same with a rate of 500/s: of 2,010 requests due, 5 were never sent, 2 failed, and 3 were in
/// flight.
fn paced() -> RunResult {
    let mut result = answered();
    result.plan.pacing = Pacing::Constant {
        rate_per_sec: 500.0,
        arrivals: Arrivals::Even,
        seed: 0,
    };
    let recording = &mut result.recording;
    recording.counters.sent = 2005;
    recording.counters.due = 2010;
    recording.counters.unsent = 5;
    recording.counters.in_flight = 3;
    recording.errors.add(ErrorKind::Reset, 2);
    recording.response_time = recording.service_time.clone();
    recording.unanswered.record_n(9_000_000_000, 8);
    result
}

fn one(text: &str) -> Criterion {
    let mut criteria = Criterion::parse_list(text).expect(text);
    assert_eq!(criteria.len(), 1, "{text}");
    criteria.remove(0)
}

fn failure(text: &str, result: &RunResult) -> Option<String> {
    one(text).failure(result)
}

/// Expects that a condition fails a result and says this, or that it does not fail.
fn assert_failure(text: &str, result: &RunResult, said: Option<&str>) {
    let failed = failure(text, result);
    let is_right = match (&failed, said) {
        (Some(failed), Some(said)) => failed.contains(said),
        (failed, said) => failed.is_none() && said.is_none(),
    };
    assert!(is_right, "{text}: {failed:?}, not {said:?}");
}

#[test]
fn conditions_that_do_not_hold_pass() {
    let (closed, open) = (answered(), paced());
    for text in [
        "p50>1.1s",
        "p99 > 1990ms",
        "p0>2ms",
        "p100>2s",
        "max>2s",
        "max<2s",
        "min<1ms",
        "min>=1001us",
        "mean>1001ms",
        "stdev>600ms",
        "errors>0",
        "errors>0%",
        "errors>=0.001%",
        "status>40",
        "status>2%",
        "status==41",
        "unanswered>0",
        "rps<500",
        "rps>0.5k",
        "requests<2000",
        "requests==1999",
        "requests<=1.9k",
    ] {
        assert_eq!(one(text).judge(&closed), Judgement::Passed, "{text}");
    }
    for text in ["rate<99%", "rate>=99.9%", "unanswered>10", "max<9s"] {
        assert_eq!(one(text).judge(&open), Judgement::Passed, "{text}");
    }
}

#[test]
fn a_condition_that_holds_is_reported_with_value_and_limit_in_one_line() {
    let (closed, open) = (answered(), paced());
    for (text, said) in [
        ("max>1s", "max is 2 s, limit max>1s"),
        ("max >= 2s", "max is 2 s, limit max>=2s"),
        ("max<=2s", "max is 2 s, limit max<=2s"),
        ("max==2s", "max is 2 s, limit max==2s"),
        ("p100<3s", "p100 is 2 s, limit p100<3s"),
        ("min<2ms", "min is 1 ms, limit min<2ms"),
        // All digits only where three of them would look like the limit.
        ("mean>1000ms", "mean is 1.0005 s, limit mean>1000ms"),
        ("mean>0.9s", "mean is 1 s, limit mean>0.9s"),
        ("status>39", "status is 40, limit status>39"),
        (
            "status>1.9%",
            "status is 2 % (40 of 2,000), limit status>1.9%",
        ),
        ("rps<9k", "rps is 500.00, limit rps<9k"),
        ("requests==2000", "requests is 2,000, limit requests==2000"),
    ] {
        assert_eq!(failure(text, &closed).as_deref(), Some(said), "{text}");
    }
    for (text, said) in [
        (
            "errors>0.05%",
            "errors is 0.1 % (2 of 2,005), limit errors>0.05%",
        ),
        ("errors>1", "errors is 2, limit errors>1"),
        ("unanswered>9", "unanswered is 10, limit unanswered>9"),
        (
            "unanswered>0.4%",
            "unanswered is 0.498 % (10 of 2,010), limit unanswered>0.4%",
        ),
        (
            "rate<99.9%",
            "rate is 99.502 % (2,000 of 2,010), limit rate<99.9%",
        ),
        ("max>8s", "max is 9 s, limit max>8s"),
    ] {
        assert_eq!(failure(text, &open).as_deref(), Some(said), "{text}");
    }
    let p99 = failure("p99>50ms", &closed).expect("it holds");
    assert!(
        p99.starts_with("p99 is 1.98") && p99.ends_with(" s, limit p99>50ms"),
        "{p99}"
    );
}

/// 1,000 requests: this many responses with status 500, and this many resets; the others are 200.
fn partly_failed(bad_statuses: u64, resets: u64) -> RunResult {
    let mut recording = Recording::new();
    recording.counters.sent = 1_000;
    recording.counters.answered = 1_000 - resets;
    for number in 0..1_000 - resets {
        recording.service_time.record(1_000_000);
        let status = if number < bad_statuses { 500 } else { 200 };
        recording.statuses.add(status);
    }
    (0..resets).for_each(|_| recording.errors.add(ErrorKind::Reset, 1));
    let mut result = fixture::result(recording);
    result.window.duration_ns = 1_000_000_000;
    result
}

#[test]
fn a_condition_that_was_passed_says_what_was_measured_and_when_it_fails() {
    let result = paced();
    for (text, said) in [
        (
            "rate<99%",
            "rate is 99.502 % (2,000 of 2,010) (fails below 99 %)",
        ),
        ("min>=9.5s", "min is 1 ms (fails at or above 9.5 s)"),
        ("rps<400", "rps is 500.00 (fails below 400.00)"),
        ("rps<=400", "rps is 500.00 (fails at or below 400.00)"),
        ("requests==7", "requests is 2,000 (fails at 7)"),
        (
            "errors>0.5%",
            "errors is 0.1 % (2 of 2,005) (fails above 0.5 %)",
        ),
        ("status_503>0", "status_503 is 0 (fails above 0)"),
    ] {
        assert_eq!(one(text).success(&result).as_deref(), Some(said), "{text}");
    }
    assert_eq!(one("max>1s").success(&result), None);
}

#[test]
fn a_condition_the_wrong_way_round_is_told_from_the_direction_of_its_metric() {
    use Purpose::{FailsRun, Required};
    let fails = |condition, side, other| {
        format!(
            "--fail-if {condition} fails a run whose {side}, which is the better side; the other \
             way round it is {other}"
        )
    };
    let requires = |condition, side, other| {
        format!(
            "--slo {condition} requires that {side}, which is the worse side; the other way round \
             it is {other}"
        )
    };
    for (text, purpose, expected) in [
        (
            "p95<500ms",
            FailsRun,
            Some(fails("p95<500ms", "p95 is below 500 ms", "p95>500ms")),
        ),
        (
            "errors<=1%",
            FailsRun,
            Some(fails(
                "errors<=1%",
                "errors is at or below 1 %",
                "errors>=1%",
            )),
        ),
        (
            "rps>9k",
            FailsRun,
            Some(fails("rps>9k", "rps is above 9,000.00", "rps<9k")),
        ),
        (
            "rate>=99%",
            FailsRun,
            Some(fails("rate>=99%", "rate is at or above 99 %", "rate<=99%")),
        ),
        (
            "p99>20ms",
            Required,
            Some(requires("p99>20ms", "p99 is above 20 ms", "p99<20ms")),
        ),
        (
            "goodput<95%",
            Required,
            Some(requires(
                "goodput<95%",
                "goodput is below 95 %",
                "goodput>95%",
            )),
        ),
        ("p95>500ms", FailsRun, None),
        ("rps<9k", FailsRun, None),
        ("p99<20ms", Required, None),
        ("goodput>95%", Required, None),
        // Without a better direction, or with an equality, both are meant.
        ("status_503>0", FailsRun, None),
        ("status_200<10", FailsRun, None),
        ("requests==7", FailsRun, None),
    ] {
        assert_eq!(one(text).other_way_round(purpose), expected, "{text}");
    }
}

#[test]
fn every_metric_with_a_direction_has_a_wrong_way_round() {
    use results::Better;
    let mut known = 0;
    for name in results::metric::names() {
        let readable = ["1ms", "1", "1%"].into_iter();
        let readable = readable.filter_map(|limit| {
            let pair = [format!("{name}<{limit}"), format!("{name}>{limit}")];
            let read =
                pair.map(|text| Criterion::parse_list(&text).ok().map(|mut it| it.remove(0)));
            let [below, above] = read;
            below.zip(above)
        });
        for (below, above) in readable {
            let [is_below, is_above] =
                [&below, &above].map(|it| it.other_way_round(Purpose::FailsRun).is_some());
            let expected = match below.metric().better {
                Better::Lower => (true, false),
                Better::Higher => (false, true),
                Better::Neither => (false, false),
            };
            assert_eq!((is_below, is_above), expected, "{name}");
            known += 1;
        }
    }
    assert!(known > 100, "{known}");
}

#[test]
fn failed_is_errors_and_bad_statuses_together_of_all_attempts() {
    for (bad_statuses, resets, said) in [
        (0, 0, None),
        (1, 0, None),
        (
            2,
            0,
            Some("failed is 0.2 % (2 of 1,000), limit failed>0.1%"),
        ),
        (
            0,
            2,
            Some("failed is 0.2 % (2 of 1,000), limit failed>0.1%"),
        ),
        (
            5,
            20,
            Some("failed is 2.5 % (25 of 1,000), limit failed>0.1%"),
        ),
        (
            1_000,
            0,
            Some("failed is 100 % (1,000 of 1,000), limit failed>0.1%"),
        ),
    ] {
        let result = partly_failed(bad_statuses, resets);
        let case = format!("{bad_statuses} bad, {resets} resets");
        assert_eq!(failure("failed>0.1%", &result).as_deref(), said, "{case}");
        let count = bad_statuses + resets;
        let of_count = failure(&format!("failed>{count}"), &result);
        assert_eq!(of_count.is_some(), count == 1_000, "{case}: {of_count:?}");
    }
}

#[test]
fn a_run_without_a_success_passes_no_condition() {
    let none = "no request succeeded, so no condition passes, limit";
    let all_bad = partly_failed(1_000, 0);
    for text in [
        "p99>50ms",
        "errors>0.1%",
        "rps<1",
        "p50>1s",
        "requests<10",
        "errors==7",
    ] {
        let line = failure(text, &all_bad).expect(text);
        assert!(
            line.ends_with(&format!(" is not known: {none} {text}")),
            "{line}"
        );
        assert!(matches!(
            one(text).judge(&all_bad),
            Judgement::Unknown { .. }
        ));
        assert_eq!(one(text).success(&all_bad), None);
        // As a requirement of a search it is not met by any distance.
        let requirement = one("p99<50ms").relative_to_limit(&all_bad);
        assert_eq!(
            (requirement.relative, requirement.requests),
            (f64::INFINITY, 1_000)
        );
        for (bad_statuses, resets) in [(999, 0), (0, 0), (0, 500), (499, 500)] {
            let mostly = partly_failed(bad_statuses, resets);
            let line = failure(text, &mostly).unwrap_or_default();
            assert!(!line.contains(none), "{bad_statuses} {resets} {line}");
        }
    }
    // A condition that holds says what was measured.
    assert_eq!(
        failure("status>0", &all_bad).as_deref(),
        Some("status is 1,000, limit status>0")
    );
    // Nothing was answered at all.
    let unanswered = partly_failed(0, 1_000);
    let line = failure("errors>100%", &unanswered).expect("nothing succeeded");
    assert!(line.contains(none), "{line}");
}

#[test]
fn failed_requests_are_errors_whatever_their_kind_and_those_in_flight_are_not() {
    let result = fixture::result(fixture::recording(2000));
    assert_eq!(
        failure("errors>=2", &result).as_deref(),
        Some("errors is 2, limit errors>=2")
    );
    assert_eq!(
        failure("unanswered>=3", &result).as_deref(),
        Some("unanswered is 3, limit unanswered>=3")
    );
}

#[test]
fn a_connection_that_could_not_be_established_is_an_error_and_an_attempt() {
    let mut result = answered();
    let errors = &mut result.recording.errors;
    for _ in 0..498 {
        errors.add(ErrorKind::Refused, 0);
    }
    errors.add(ErrorKind::ConnectTimeout, 0);
    errors.add(ErrorKind::TlsAlert, 0);
    assert_eq!(
        failure("errors>1%", &result).as_deref(),
        Some("errors is 20 % (500 of 2,500), limit errors>1%")
    );
    // Unsolicited bytes count in the same way.
    for _ in 0..100 {
        result.recording.errors.add(ErrorKind::Unsolicited, 0);
    }
    assert_eq!(
        failure("errors>599", &result).as_deref(),
        Some("errors is 600, limit errors>599")
    );
    // An alert on a connection with requests is an error of these requests.
    result.recording.errors = results::Errors::default();
    result.recording.errors.add(ErrorKind::TlsAlert, 2);
    assert_eq!(
        failure("errors>1", &result).as_deref(),
        Some("errors is 2, limit errors>1")
    );
}

#[test]
fn what_the_run_cannot_decide_counts_as_failed_with_the_reason() {
    let empty = fixture::result(Recording::new());
    for (text, result, said) in [
        (
            "p99.9>1h",
            &answered(),
            "p99.9 is not known: 2,000 samples are too few for it, limit p99.9>1h",
        ),
        (
            "p50>1h",
            &empty,
            "p50 is not known: no request was answered, limit p50>1h",
        ),
        (
            "max>1h",
            &empty,
            "max is not known: no request was answered, limit max>1h",
        ),
        (
            "stdev>1h",
            &empty,
            "stdev is not known: no request was answered, limit stdev>1h",
        ),
        (
            "errors>1%",
            &empty,
            "errors is not known: no request was sent, limit errors>1%",
        ),
        (
            "status>1%",
            &empty,
            "status is not known: no request was answered, limit status>1%",
        ),
        (
            "rate<99%",
            &answered(),
            "rate is not known: the run had no rate (-R, --stages), limit rate<99%",
        ),
    ] {
        assert_eq!(failure(text, result).as_deref(), Some(said), "{text}");
    }
    let mut unsent = paced();
    unsent.recording.counters = results::Counters::default();
    assert_eq!(
        failure("rate<99%", &unsent).as_deref(),
        Some("rate is not known: no request was due, limit rate<99%")
    );
}

/// Responses that took so many milliseconds each.
fn of_ms(times: impl IntoIterator<Item = u64>) -> RunResult {
    let mut recording = Recording::new();
    for ms in times {
        recording.service_time.record(ms * 1_000_000);
        recording.counters.answered += 1;
    }
    fixture::result(recording)
}

#[test]
fn with_too_few_samples_a_percentile_is_known_where_all_that_it_can_be_leads_to_one_judgement() {
    // Every response took 5 ms or more, so p99 did, too.
    let slow = of_ms((0..400).map(|n| 5 + n % 100));
    let line = failure("p99>1ms", &slow).expect("it holds");
    assert!(line.starts_with("p99 is 10"), "{line}");
    // What the slowest 1 % took is not known from 400 samples.
    let line = failure("p99>200ms", &slow).expect("it is not decided");
    assert_eq!(
        line,
        "p99 is not known: 400 samples are too few for it, limit p99>200ms"
    );
    let line = failure("p99>200ms", &of_ms([5])).expect("it is not decided");
    assert!(line.contains(": 1 sample is too few for it,"), "{line}");
    // With 900 it is at most the largest but for one in 200 cases.
    let more = of_ms((0..900).map(|n| 5 + n % 100));
    assert_eq!(one("p99>200ms").judge(&more), Judgement::Passed);
    let line = failure("p99>103ms", &more).expect("it is not decided");
    assert!(line.contains("900 samples are too few for it"), "{line}");
    assert!(one("p99<200ms").excess(&more) < 0.0);
    assert_eq!(one("p99<200ms").excess(&slow), f64::INFINITY);
}

#[test]
fn a_run_is_hopeless_when_ten_times_the_share_that_may_be_is_slow_whatever_follows() {
    let slow = |count: u64| {
        let result = of_ms((0..count).map(|_| 60));
        result.recording.service_time
    };
    // 1 % of 1,000 requests may take 50 ms or more.
    let is_hopeless = |condition: &str, count| one(condition).is_hopeless(&slow(count), 1_000.0);
    assert!(is_hopeless("p99<50ms", 101));
    assert!(!is_hopeless("p99<50ms", 100), "the rest may be fast");
    assert!(!is_hopeless("p99<70ms", 900), "all were fast");
    // Half of them may.
    assert!(!is_hopeless("p50<50ms", 1_000));
    // Nothing is known of these before the end.
    for condition in [
        "max<50ms",
        "mean<50ms",
        "service_time_p99<50ms",
        "errors<1%",
        "p99>50ms",
    ] {
        assert!(!is_hopeless(condition, 900), "{condition}");
    }
}

#[test]
fn a_percentile_with_one_sample_too_few_has_a_range_and_no_value() {
    // The samples around the percentile differ, so that the range is wider than a value.
    for (text, enough) in [
        ("p50>9ms", 20),
        ("p99>989ms", 1000),
        ("p99.9>9989ms", 10_000),
    ] {
        let known = one(text).judge(&of_ms(0..enough));
        assert!(!matches!(known, Judgement::Unknown { .. }), "{text}");
        let said = failure(text, &of_ms(0..enough - 1)).expect("one sample is missing");
        assert!(said.contains("too few"), "{said}");
    }
}

/// 2,000 of 3,000 requests were answered within a second; the others were in flight for half a
/// second at the end.
fn overloaded() -> RunResult {
    let mut recording = Recording::new();
    for number in 0..2000_u64 {
        recording.response_time.record((number + 1) * 500_000);
    }
    recording.service_time = recording.response_time.clone();
    recording.unanswered.record_n(500_000_000, 1000);
    recording.counters.sent = 3000;
    recording.counters.due = 3000;
    recording.counters.answered = 2000;
    recording.counters.in_flight = 1000;
    fixture::result(recording)
}

#[test]
fn what_a_lower_bound_does_not_decide_counts_as_failed_with_the_reason() {
    let result = overloaded();
    // p90 is 850 ms, p30 is 450 ms; unanswered requests cannot change p30.
    for text in [
        "p30>451ms",
        "p30<449ms",
        "p90<800ms",
        "p90<=849ms",
        "p90==800ms",
    ] {
        assert_eq!(one(text).judge(&result), Judgement::Passed, "{text}");
    }
    for (text, said) in [
        ("p30>449ms", "p30 is 450"),
        ("p90>800ms", "p90 is 850 ms"),
        ("p90>=850ms", "p90 is 850."),
    ] {
        let Some(line) = failure(text, &result) else {
            panic!("{text} holds")
        };
        assert!(
            line.starts_with(said) && !line.contains("not known"),
            "{line}"
        );
    }
    for text in ["p90>900ms", "p90<900ms", "p90>=2s", "p90<=2s", "p90==2s"] {
        let line = failure(text, &result).expect("it is not decided");
        assert!(
            line.starts_with("p90 is not known: it is 850.")
                && line.contains(
                    "or more, since it depends on requests without a response, limit p90"
                ),
            "{line}"
        );
    }
}

#[test]
fn requests_in_flight_leave_a_percentile_between_two_values() {
    let mut result = paced();
    // 15 of the 2,015 samples have no response: p99 is that of 1,995 samples, or endless; p95 is
    // 1.915 s, or that of rank 1,915 of the answered ones.
    result.recording.unanswered = results::Histogram::new();
    result.recording.unanswered.record_n(1_000_000, 15);
    for text in ["p95>2s", "p95<1.8s"] {
        assert_eq!(one(text).judge(&result), Judgement::Passed, "{text}");
    }
    let line = failure("p95>1.8s", &result).expect("it is decided");
    assert!(line.starts_with("p95 is 1."), "{line}");
    let line = failure("p95>1.907s", &result).expect("it is not decided");
    let said = "p95 is not known: it is between 1.9";
    assert!(
        line.starts_with(said) && line.contains(" s and 1.91"),
        "{line}"
    );
    let excess = one("p95<1.907s").excess(&result);
    assert!((-0.004..0.004).contains(&excess), "{excess}");
    // Nothing can be too long for a condition that demands long times.
    assert!(one("p99>900ms").excess(&overloaded()) < 0.0);
    assert_eq!(one("p99<1s").excess(&overloaded()), f64::INFINITY);
}

#[test]
fn the_longest_time_is_not_decided_when_it_is_the_age_of_a_request_without_a_response() {
    let mut result = overloaded();
    assert_eq!(one("max>2s").judge(&result), Judgement::Passed);
    assert_eq!(one("p100>2s").judge(&result), Judgement::Passed);
    result.recording.unanswered.record(1_500_000_000);
    for text in ["max>2s", "p100>2s"] {
        let line = failure(text, &result).expect("it is not decided");
        assert!(line.contains("it is 1.5 s or more"), "{line}");
    }
    assert!(failure("max>1s", &result).is_some_and(|line| line.starts_with("max is 1.5 s")));
}

#[test]
fn only_the_rate_needs_a_run_with_a_rate() {
    assert!(one("rate<99%").needs_a_rate());
    assert!(!one("rps<99").needs_a_rate());
}

#[test]
fn several_conditions_are_parsed_from_one_text() {
    let texts = |text: &str| {
        let criteria = Criterion::parse_list(text).expect(text);
        criteria.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let expected = ["p99>50ms", "errors>0.1%", "rps<9000"];
    assert_eq!(texts("p99>50ms,errors>0.1%,rps<9000"), expected);
    assert_eq!(texts("p99>50ms errors>0.1% rps<9000"), expected);
    assert_eq!(texts(" p99 > 50ms  errors> 0.1% , rps <9000, "), expected);
}

#[test]
fn invalid_conditions_are_rejected_with_what_was_expected() {
    for (text, said) in [
        ("", "there is no condition (expected like p99>50ms)"),
        (" , ", "there is no condition"),
        (
            "p99",
            "\"p99\" has no comparison (expected >, >=, <, <= or ==, like p99>50ms)",
        ),
        ("a\nb.p99>50ms", "\"a\\nb.p99\" is not a metric"),
        ("p99=50ms", "\"p99=50ms\" has no comparison"),
        ("p99!50ms", "\"p99!50ms\" has no comparison"),
        ("p99>50ms x", "\"x\" has no comparison"),
        (
            "latency>50ms",
            "\"latency\" is not a metric (expected p50, p99.9, max, min, mean or stdev of the \
             latency",
        ),
        ("p99>>50ms", "p99: \">50ms\" is not a time"),
        (">50ms", "\"\" is not a metric"),
        ("p>50ms", "\"p\" is not a metric"),
        ("p101>50ms", "\"p101\" is not a metric"),
        ("pnan>50ms", "\"pnan\" is not a metric"),
        ("p1e1>50ms", "\"p1e1\" is not a metric"),
        ("p-1>50ms", "\"p-1\" is not a metric"),
        ("errors p99>50ms", "\"errors p99\" is not a metric"),
        (
            "p99>50",
            "p99: \"50\" is not a time with its unit (expected like 50ms, 800us, 1.5s)",
        ),
        ("p99>", "p99: \"\" is not a time"),
        ("p99>1%", "p99: \"1%\" is not a time"),
        ("max>5x", "max: \"5x\" is not a time"),
        ("max>-5ms", "max: \"-5ms\" is negative"),
        ("errors>x", "errors: \"x\" is not a number"),
        (
            "errors>101%",
            "errors: \"101%\" is not a share (expected from 0% to 100%)",
        ),
        ("errors>-1%", "errors: \"-1%\" is not a share"),
        ("errors>%", "errors: \"%\" is not a share"),
        ("errors>1.5", "errors: \"1.5\" is not a whole number"),
        ("rate<99", "rate: \"99\" is not a share (expected like 99%)"),
        ("rps<9x", "rps: \"9x\" is not a rate"),
        ("requests<1%", "requests: \"1%\" is not a number"),
    ] {
        let message = Criterion::parse_list(text).expect_err(text).to_string();
        assert!(message.starts_with(said), "{text:?} gives {message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn an_interrupted_run_is_judged_by_its_numbers() {
    let mut result = answered();
    result.window.interrupted = true;
    result.plan.stop.duration = Some(Duration::from_secs(60));
    assert_eq!(one("p99>2s").judge(&result), Judgement::Passed);
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic_and_parsed_conditions_round_trip(
        text in "\\PC{0,40}",
        near in "(p[0-9.]{0,4}|max|errors|rate|rps|[a-z]{0,3}) ?[<>=]{0,3} \
             ?[0-9.]{0,5}(ms|us|s|%|k)?[, ]?(p99>1s)?",
    ) {
        let (closed, open) = (answered(), paced());
        for text in [&text, &near] {
            match Criterion::parse_list(text) {
                Ok(criteria) => for criterion in criteria {
                    let again = Criterion::parse_list(&criterion.to_string());
                    prop_assert_eq!(again, Ok(vec![criterion.clone()]));
                    for result in [&closed, &open] {
                        let line = criterion.failure(result);
                        prop_assert_eq!(line.is_none(), criterion.judge(result) == Judgement::Passed);
                        prop_assert!(line.is_none_or(|line| line.lines().count() == 1));
                    }
                },
                Err(error) => prop_assert_eq!(error.to_string().lines().count(), 1),
            }
        }
    }
}

/// Two names: `login` with 2,000 responses of 1 ms, 100 of them with status 500, and `a.b` with
/// 1,000 of 2 s.
fn named() -> RunResult {
    let mut login = NameRecording::new("login");
    (login.sent, login.answered) = (2_000, 2_000);
    (0..2_000).for_each(|n| login.statuses.add(if n < 100 { 500 } else { 200 }));
    login.latency.record_n(1_000_000, 2_000);
    let mut other = NameRecording::new("a.b");
    (other.sent, other.answered) = (1_010, 1_000);
    (0..1_000).for_each(|_| other.statuses.add(200));
    other.errors.add(ErrorKind::Reset, 10);
    other.latency.record_n(2_000_000_000, 1_000);
    let mut result = answered();
    result.recording.parts.by_name = vec![login, other];
    result
}

#[test]
fn a_name_before_the_metric_makes_a_condition_about_its_requests() {
    let result = named();
    for text in [
        "login.p99>1s",
        "login.status>5%",
        "a.b.p99.9<1s",
        "a.b.p99.9<3s",
        "login.errors>0",
        "a.b.requests<1k",
        "a.b.errors>1%",
    ] {
        let failed = failure(text, &result);
        let expected = match text {
            // 1,000 samples are too few for p99.9.
            "a.b.p99.9<3s" => Some("a.b.p99.9 is not known: 1,000 samples are too few for it"),
            _ => None,
        };
        match expected {
            Some(expected) => assert!(failed.expect(text).starts_with(expected), "{text}"),
            None => assert_eq!(failed, None, "{text}"),
        }
    }
    for (text, said) in [
        ("login.p50<=1ms", "login.p50 is 1 ms, limit login.p50<=1ms"),
        (
            "login.status>=5%",
            "login.status is 5 % (100 of 2,000), limit login.status>=5%",
        ),
        ("a.b.max>1s", "a.b.max is 2 s, limit a.b.max>1s"),
        (
            "a.b.errors>0.9%",
            "a.b.errors is 0.99 % (10 of 1,010), limit a.b.errors>0.9%",
        ),
        ("login.rps<600", "login.rps is 500.00, limit login.rps<600"),
        (
            "logout.p50>1s",
            "logout.p50 is not known: no request has the name \"logout\", limit logout.p50>1s",
        ),
    ] {
        assert_eq!(failure(text, &result).as_deref(), Some(said));
    }
    let of = |text: &str| one(text).request().map(str::to_owned);
    assert_eq!(of("p99.9>1s"), None);
    assert_eq!(of("get /a b.p99.9>1s").as_deref(), Some("get /a b"));
    assert_eq!(of("a.p50.p99>1s").as_deref(), Some("a.p50"));
    for (text, said) in [
        ("login.p101>1s", "\"login.p101\" is not a metric"),
        (".p99>1s", "\".p99\" is not a metric"),
        (
            "a.b.connect_p99>1s",
            "\"a.b.connect_p99\": connect_p99 is only known of all requests",
        ),
        (
            "login.rate<9%",
            "\"login.rate\": rate is only known of all requests (write rate)",
        ),
    ] {
        let error = Criterion::parse_list(text).expect_err(text).to_string();
        assert!(error.starts_with(said), "{error}");
    }
}

/// 100 streams of 5 events, the first ones after 200 ms, and requests that never had one.
fn streamed(waiting: u64) -> RunResult {
    let mut events = EventRecording {
        arrived: 500,
        streams: 100,
        unfinished: 2,
        ..EventRecording::default()
    };
    events.first_event.record_n(200_000_000, 100);
    events.waiting.record_n(50_000_000, waiting);
    events.gap.record_n(30_000_000, 400);
    events.per_response.record_n(5, 100);
    let mut result = answered();
    result.recording.parts.events = Some(events);
    result
}

#[test]
fn events_of_responses_can_be_conditions() {
    let result = streamed(0);
    for (text, said) in [
        ("first_event_p90>300ms", None),
        ("first_event_p90>100ms", Some("first_event_p90 is 200 ms")),
        ("event_gap_max>1s", None),
        ("event_gap_p50>=1ms", Some("event_gap_p50 is 30")),
        ("first_event_p99>1s", Some("100 samples are too few for it")),
        ("events_per_response<5", None),
        (
            "events_per_response<5.5",
            Some("events_per_response is 5.00"),
        ),
        ("unfinished_streams>2", None),
        ("unfinished_streams>1", Some("unfinished_streams is 2")),
        ("event_streams<1k", Some("event_streams is 100")),
    ] {
        assert_failure(text, &result, said);
    }
    for text in [
        "first_event_p99>1s",
        "event_gap_mean>1s",
        "unfinished_streams>1%",
    ] {
        let without = failure(text, &answered()).expect("it is not known");
        assert!(
            without.contains("is not known: events were not measured (--events), "),
            "{without}"
        );
    }
    // Half of the requests may have waited forever.
    let uncertain = failure("first_event_p50>1s", &streamed(101));
    assert!(uncertain.is_some_and(|it| it.contains("is not known")));
}

#[test]
fn streams_that_never_end_are_judged_by_their_gaps_and_their_silence() {
    let mut endless = answered();
    endless.recording = Recording::new();
    let mut events = EventRecording {
        arrived: 1_600,
        ..EventRecording::default()
    };
    events.gap.record_n(5_000_000, 1_500);
    events.since_last_event.record_n(4_000_000, 7);
    endless.recording.parts.events = Some(events.clone());
    let mut stalled = endless.clone();
    events.since_last_event.record(3_000_000_000);
    stalled.recording.parts.events = Some(events.clone());
    let mut few = endless.clone();
    events.since_last_event.clear();
    events.gap.clear();
    few.recording.parts.events = Some(events);
    for (text, result, said) in [
        ("event_gap_p99>20ms", &endless, None),
        ("event_gap_p99>2ms", &endless, Some("event_gap_p99 is 5")),
        ("time_since_last_event_max>1s", &endless, None),
        (
            "time_since_last_event_max>1s",
            &stalled,
            Some("time_since_last_event_max is 3 s"),
        ),
        (
            "time_since_last_event_p99>3.5s",
            &stalled,
            Some("8 samples are too few for it"),
        ),
        (
            "time_since_last_event_max>1s",
            &few,
            Some("no stream with an event was open at the end"),
        ),
        ("event_gap_p99>1s", &few, Some("no response had two events")),
        ("unfinished_streams>0", &endless, None),
        (
            "events_per_response<1",
            &endless,
            Some("no stream was complete"),
        ),
    ] {
        assert_failure(text, result, said);
    }
}

#[test]
fn a_share_is_that_of_the_count_that_a_metric_is_a_part_of() {
    let result = streamed(0);
    for (text, said) in [
        ("unfinished_streams>50%", None),
        ("unfinished_streams>1%", Some("2 % (2 of 100)")),
        ("event_streams<50%", Some("5 % (100 of 2,000)")),
        ("status_404>1%", Some("2 % (40 of 2,000)")),
    ] {
        assert_failure(text, &result, said);
    }
    let mut none = streamed(0);
    let events = none.recording.parts.events.as_mut().expect("it has events");
    (events.streams, events.unfinished) = (50, 0);
    assert_eq!(failure("unfinished_streams>50%", &none), None);
}

#[test]
fn every_metric_takes_a_share_that_is_its_own_or_refuses_it() {
    let mut result = paced();
    result.recording.parts.events = streamed(0).recording.parts.events;
    for name in results::metric::names() {
        let criterion = Criterion::parse_list(&format!("{name}>=0%"));
        let metric = results::Metric::parse(&name).expect(&name);
        let Ok(criteria) = criterion else {
            assert!(!metric.has_whole(), "{name}");
            continue;
        };
        assert!(metric.has_whole(), "{name}");
        let said = match (metric.part_and_whole(&result), metric.of(&result)) {
            (Some((part, whole)), Some(_)) => {
                assert!(part <= whole && whole > 0, "{name}: {part} of {whole}");
                let share = part as f64 * 100.0 / whole as f64;
                let digits = format!("{share:.3}");
                let digits = digits.trim_end_matches('0').trim_end_matches('.');
                format!("{name} is {digits} % (")
            }
            (_, Some(_)) => format!("{name} is "),
            (_, None) => format!("{name} is not known: "),
        };
        let line = criteria[0].failure(&result).expect("nothing is below 0 %");
        assert!(line.starts_with(&said), "{line}, expected {said}");
    }
}

#[test]
fn conditions_take_the_names_that_comparisons_take() {
    let mut result = answered();
    result.recording.phases.connect.record_n(2_000_000, 5_000);
    for (text, said) in [
        ("connect_p99>1ms", Some("connect_p99 is 2 ms")),
        ("connect_p99_us>1ms", Some("connect_p99_us is 2 ms")),
        ("proxy_p99>1ms", Some("there was no TLS with a proxy")),
        ("tls_p99>1ms", Some("there was no TLS handshake")),
        ("service_time_max>1s", Some("service_time_max is 2 s")),
        ("latency_p50_us>1s", Some("latency_p50_us is 1")),
        ("failures>0", None),
        ("errors_read>0%", None),
        ("error_refused>0", None),
        ("requests_per_sec<9k", Some("requests_per_sec is 500.00")),
        ("statuses_over_399>1%", Some("2 % (40 of 2,000)")),
        ("thread_rate_mean<1", Some("is not known: ")),
        ("sockets_rtt_p99_us>1ms", Some("sockets were not watched")),
        (
            "TcpExt.ListenDrops>0",
            Some("counter of the kernel was not read"),
        ),
        ("max_rate<2k", Some("only a search has it")),
    ] {
        assert_failure(text, &result, said);
    }
}

#[test]
fn the_refusal_lists_the_metrics() {
    let error = Criterion::parse_list("first_evnt_p99>1s").expect_err("it is misspelt");
    let error = error.to_string();
    assert!(error.contains("did you mean first_event_p99?"), "{error}");
    for name in [
        "requests_per_sec = rps",
        "unanswered",
        "unfinished_streams",
        "event_gap",
    ] {
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn a_latency_far_above_the_limit_without_the_load_generators_part_is_the_servers() {
    const MS: u64 = 1_000_000;
    let mut result = fixture::result(fixture::recording(0));
    let mut recording = Recording::new();
    // 100 requests of 50 ms, of which the load generator caused 20.
    recording.counters.answered = 100;
    let attribution = &mut recording.attribution;
    for _ in 0..100 {
        recording.service_time.record(50 * MS);
        attribution.shown.record(50 * MS);
        attribution.corrected.record(30 * MS);
    }
    result.recording = recording;
    let is_far_off = |condition: &str| {
        let conditions = Criterion::parse_list(condition).expect("it is one");
        conditions[0].is_far_off_without_own(&result, 2.0)
    };
    assert!(is_far_off("p50<10ms") && is_far_off("p50<=14ms"));
    assert!(!is_far_off("p50<16ms") && !is_far_off("p50>10ms") && !is_far_off("errors<1%"));
}
