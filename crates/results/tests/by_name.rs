//! Recordings by name: merging them, and what must hold of them.

mod fixture;

use results::{ErrorKind, NameRecording, Recording, RunResult, check};

/// Requests of a name: answered ones in 1 ms each, and one that timed out.
fn named(name: &str, answered: u64) -> NameRecording {
    let mut named = NameRecording::new(name);
    (named.sent, named.answered) = (answered + 1, answered);
    named.bytes = 10 * answered;
    (0..answered).for_each(|_| named.statuses.add(200));
    named.latency.record_n(1_000_000, answered);
    named.errors.add(ErrorKind::Timeout, 1);
    named.unanswered.record(5_000_000_000);
    named
}

/// A recording whose totals are those of its names.
fn recording(names: &[NameRecording]) -> Recording {
    let mut recording = Recording::new();
    for named in names {
        recording.counters.sent += named.sent;
        recording.counters.answered += named.answered;
        recording.counters.bytes += named.bytes;
        recording.statuses.merge(&named.statuses);
        recording.errors.merge(&named.errors);
        recording.service_time.merge(&named.latency);
        recording.timed_out.merge(&named.unanswered);
        recording.intervals.add(0, &named.latency);
        recording.series.add(0, named.answered, 1, named.bytes);
    }
    recording.parts.by_name = names.to_vec();
    recording
}

fn result(names: &[NameRecording]) -> RunResult {
    fixture::result(recording(names))
}

#[test]
fn recordings_are_merged_by_name_in_any_order() {
    let mut merged = recording(&[named("a", 3), named("b", 1)]);
    merged.merge(&recording(&[named("b", 2), named("c", 4), named("a", 5)]));
    let counts = merged
        .parts
        .by_name
        .iter()
        .map(|it| (it.name.as_str(), it.answered));
    assert_eq!(counts.collect::<Vec<_>>(), [("a", 8), ("b", 3), ("c", 4)]);
    assert_eq!(check(&fixture::result(merged)), Ok(()));
}

#[test]
fn the_rates_of_names_add_up_to_that_of_the_run() {
    let mut parts = [named("a", 3), named("b", 1)];
    parts[0].answered_of_warmup = 4;
    let mut recording = recording(&parts);
    recording.counters.answered_of_warmup = 4;
    recording.series.add(0, 4, 0, 0);
    recording.merge(&recording.clone());
    let whole = fixture::result(recording);
    assert_eq!(check(&whole), Ok(()));
    let [a, b] = ["a", "b"].map(|name| whole.of_name(name).expect("there is such a name"));
    let sum = a.requests_per_sec() + b.requests_per_sec();
    assert!((sum - whole.requests_per_sec()).abs() < 1e-9);
    assert_eq!(a.recording.counters.responses(), 14);
    let mut wrong = whole;
    wrong.recording.parts.by_name[1].answered_of_warmup = 1;
    let message = check(&wrong).expect_err("one too many").to_string();
    assert!(
        message.contains("answered of the warm-up is 9"),
        "{message}"
    );
}

#[test]
fn the_part_of_a_name_is_a_result_of_its_own() {
    let whole = result(&[named("a", 3), named("b", 1)]);
    let part = whole.of_name("a").expect("there is such a name");
    assert_eq!(part.recording.counters.sent, 4);
    assert_eq!(part.recording.latency().count(), 4);
    assert_eq!(part.recording.latency().max_ns(), Some(5_000_000_000));
    assert_eq!(whole.of_name("c"), None);
}

#[test]
fn names_that_contradict_themselves_or_the_run_are_found() {
    let good = [named("a", 3), named("b", 1)];
    assert_eq!(check(&result(&good)), Ok(()));
    // Requests need no names.
    assert_eq!(check(&fixture::result(fixture::recording(3))), Ok(()));
    type Change = fn(&mut RunResult);
    let changes: [(Change, &str); 5] = [
        (
            |it| it.recording.parts.by_name[0].sent += 1,
            "a: sent is 5, but answered + failed + in flight is 4",
        ),
        (
            |it| it.recording.parts.by_name[1].latency.record(1),
            "b: answered is 1, but latency samples is 2",
        ),
        (
            |it| it.recording.parts.by_name[1].unanswered.record(1),
            "b: unanswered samples is 2, but timed out + in flight is 1",
        ),
        (
            |it| it.recording.parts.by_name[0].bytes += 1,
            "all names: bytes is 41, but that of the run is 40",
        ),
        (
            |it| drop(it.recording.parts.by_name.pop()),
            "all names: sent is 4, but that of the run is 6",
        ),
    ];
    for (change, said) in changes {
        let mut bad = result(&good);
        change(&mut bad);
        assert_eq!(check(&bad).unwrap_err().to_string(), said);
    }
}
