//! Invariants and warnings: each contradiction and each doubt is found, and nothing else.

mod fixture;

use results::{ErrorKind, RunResult, Warning, check, warnings};

/// A sound result of 2,000 answers, changed by `change`.
fn changed(change: impl FnOnce(&mut RunResult)) -> RunResult {
    let mut result = fixture::result(fixture::recording(2000));
    change(&mut result);
    result
}

#[test]
fn sound_results_have_no_contradiction() {
    assert_eq!(check(&changed(|_| ())), Ok(()));
    assert_eq!(check(&fixture::result(results::Recording::new())), Ok(()));
    assert_eq!(
        check(&changed(|result| result.window.duration_ns = 0)),
        Ok(())
    );
}

#[test]
fn each_contradiction_is_named() {
    type Change = fn(&mut RunResult);
    let cases: [(Change, &str); 9] = [
        (|r| r.recording.counters.sent += 1, "sent is 2004"),
        (|r| r.recording.counters.in_flight = 0, "sent is 2003"),
        (
            |r| r.recording.errors.add(ErrorKind::BadChunk, 1),
            "sent is 2003",
        ),
        (
            |r| r.recording.statuses.add(200),
            "answers by status is 2001",
        ),
        (
            |r| r.recording.service_time.record(5),
            "service_time samples is 2001",
        ),
        (
            |r| r.recording.timed_out.record(5),
            "timed_out samples is 2",
        ),
        (
            |r| r.recording.phases.first_byte.record(5),
            "first_byte has 2001",
        ),
        (
            |r| r.recording.series.add(1, 1, 0, 0),
            "answered in the series is 2001",
        ),
        (
            |r| {
                r.recording.counters.in_flight = 0;
                r.recording.counters.sent -= 1;
            },
            "oldest_in_flight_ns",
        ),
    ];
    for (change, said) in cases {
        let message = check(&changed(change)).unwrap_err();
        assert!(message.contains(said), "{said}: {message}");
    }
}

#[test]
fn the_only_doubt_about_a_good_run_with_one_timeout_is_the_timeout() {
    let expected = [Warning::TimedOutRequests {
        requests: 1,
        timeout_ms: 2000,
    }];
    assert_eq!(warnings(&changed(|_| ())), expected);
}

#[test]
fn each_doubt_is_raised_by_its_cause() {
    type Change = fn(&mut RunResult);
    let cases: [(Change, Warning); 7] = [
        (
            |r| r.recording.counters.connections_opened = 3,
            Warning::ConnectionsMissing {
                opened: 3,
                wanted: 4,
            },
        ),
        (
            |r| r.recording.errors.add(ErrorKind::FileLimit, 0),
            Warning::FileLimit { events: 1 },
        ),
        (
            |r| r.recording.errors.add(ErrorKind::AddressUnavailable, 0),
            Warning::AddressesExhausted { events: 1 },
        ),
        (
            |r| (0..21).for_each(|_| r.recording.errors.add(ErrorKind::Stale, 1)),
            Warning::ManyStaleConnections {
                events: 21,
                answered: 2000,
            },
        ),
        (
            |r| r.recording.counters.oldest_in_flight_ns = 2_500_000_000,
            Warning::OverdueInFlight {
                requests: 1,
                oldest_ms: 2500,
                timeout_ms: 2000,
            },
        ),
        (
            |r| {
                r.recording.timed_out = results::Histogram::new();
                r.recording.counters.oldest_in_flight_ns = 1_900_000_000;
            },
            Warning::LongInFlight {
                requests: 1,
                oldest_ms: 1900,
                slowest_ms: 2,
            },
        ),
        (
            |r| r.recording = fixture::recording(900),
            Warning::FewSamples {
                samples: 901,
                needed: 1000,
            },
        ),
    ];
    for (change, expected) in cases {
        let found = warnings(&changed(change));
        assert!(
            found.contains(&expected),
            "{expected:?} is not in {found:?}"
        );
        assert!(found.len() <= 2, "{found:?}");
        assert_eq!(expected.to_string().lines().count(), 1);
    }
}

#[test]
fn a_few_stale_connections_are_no_doubt() {
    let result = changed(|r| (0..20).for_each(|_| r.recording.errors.add(ErrorKind::Stale, 1)));
    assert!(
        !warnings(&result)
            .iter()
            .any(|w| matches!(w, Warning::ManyStaleConnections { .. }))
    );
}

#[test]
fn a_run_without_an_answer_says_so() {
    let result = changed(|r| {
        r.recording = results::Recording::new();
        r.recording.counters.sent = 4;
        r.recording.counters.connections_opened = 4;
    });
    assert_eq!(warnings(&result), [Warning::NothingAnswered { sent: 4 }]);
}

#[test]
fn a_run_of_error_pages_says_so() {
    let result = changed(|r| {
        let mut statuses = results::Statuses::default();
        (0..2000).for_each(|_| statuses.add(404));
        r.recording.statuses = statuses;
    });
    assert!(warnings(&result).contains(&Warning::OnlyBadStatuses { answered: 2000 }));
}

#[test]
fn saved_warnings_carry_their_numbers_and_their_text() {
    let mut result = changed(|_| ());
    result.warnings = vec![Warning::ScriptStuck { worker: 1 }];
    let mut bytes = Vec::new();
    results::file::save(&result, &[], &mut bytes).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(document["warnings"][0]["kind"], "script_stuck");
    assert_eq!(document["warnings"][0]["worker"], 1);
    assert_eq!(
        document["warnings"][0]["text"],
        result.warnings[0].to_string()
    );
    assert_eq!(
        results::file::load(&bytes).unwrap().warnings,
        result.warnings
    );
}
