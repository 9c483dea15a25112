//! The text against golden files, which are what wrk would print of the same numbers.

mod fixture;

use std::time::Duration;

use plan::Stop;
use report::{Format, TextOptions, render, text};
use results::{Recording, RunResult};

fn shown(result: &RunResult, options: &TextOptions) -> String {
    let mut bytes = text::banner(&result.plan).into_bytes();
    render(result, Format::Wrk, options, &mut bytes).expect("memory takes every write");
    String::from_utf8(bytes).expect("the report is ASCII")
}

fn with_latency() -> TextOptions {
    TextOptions {
        latency: true,
        ..TextOptions::default()
    }
}

#[track_caller]
fn check(actual: &str, golden: &str) {
    assert!(actual == golden, "printed:\n{actual}\nexpected:\n{golden}");
}

#[test]
fn an_ordinary_run_is_printed_as_wrk_prints_it() {
    let result = fixture::result(fixture::ordinary_recording());
    check(
        &shown(&result, &TextOptions::default()),
        include_str!("golden/ordinary.txt"),
    );
    check(
        &shown(&result, &with_latency()),
        include_str!("golden/latency.txt"),
    );
}

#[test]
fn a_run_without_a_response_has_nan_as_in_wrk() {
    check(
        &shown(&fixture::result(Recording::new()), &with_latency()),
        include_str!("golden/empty.txt"),
    );
}

#[test]
fn socket_errors_are_one_line_and_timed_out_requests_are_in_the_latency() {
    let result = fixture::result(fixture::failing_recording());
    check(
        &shown(&result, &with_latency()),
        include_str!("golden/errors.txt"),
    );
}

#[test]
fn with_a_rate_latency_counts_from_when_a_request_was_due() {
    let text = shown(&fixture::stalled_result(), &with_latency());
    assert!(text.contains("    Latency   166.67ms  289.19ms   1.00s    81.95%\n"));
    assert!(text.contains("\n     90%  700.45ms\n"), "{text}");
}

#[test]
fn responses_above_399_are_counted_on_their_own_line() {
    let result = fixture::result(fixture::answered(&[200_000; 5000], 404, 300));
    check(
        &shown(&result, &TextOptions::default()),
        include_str!("golden/not_found.txt"),
    );
}

#[test]
fn requested_percentiles_replace_those_of_wrk_and_need_no_latency_option() {
    let percentiles = Some(vec![50.0, 95.0, 99.9, 99.99, 99.999, 100.0, 2.5]);
    let options = TextOptions {
        percentiles,
        ..TextOptions::default()
    };
    let result = fixture::result(fixture::ordinary_recording());
    check(
        &shown(&result, &options),
        include_str!("golden/percentiles.txt"),
    );
}

#[test]
fn the_correction_changes_only_latency() {
    let result = fixture::result(fixture::failing_recording());
    let plain = shown(&result, &with_latency());
    let options = TextOptions {
        wrk_correction: true,
        ..with_latency()
    };
    let corrected = shown(&result, &options);
    check(&corrected, include_str!("golden/correction.txt"));
    let unmoved = |text: &str| -> Vec<String> {
        let is_latency = |line: &&str| line.contains("Latency  ") || line.contains('%');
        text.lines()
            .filter(|line| !is_latency(line))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(unmoved(&plain), unmoved(&corrected));
}

#[test]
fn values_at_the_thresholds_of_units_stay_in_their_columns() {
    let mut table = String::new();
    for time_ns in [
        0,
        1,
        500,
        849_000,
        849_999,
        850_000,
        999_000,
        849_999_000,
        999_999_000,
        1_000_000_000,
        50_990_000_000,
        51_000_000_000,
        3_600_000_000_000,
        360_000_000_000_000,
    ] {
        let mut recording = fixture::answered(&[time_ns], 200, time_ns / 1000);
        recording.rates.add(time_ns / 1000);
        let mut result = fixture::result(recording);
        result.window.duration_ns = time_ns;
        let text = shown(&result, &with_latency());
        let line = |number: usize| text.lines().nth(number).expect("the report has ten lines");
        for number in [3, 4, 6, 9, 10, 11] {
            table += line(number);
            table.push('\n');
        }
        table.push('\n');
    }
    check(&table, include_str!("golden/thresholds.txt"));
}

#[test]
fn the_banner_names_the_length_whatever_limits_it() {
    let banner = |stop: Stop| {
        let plan = plan::RunPlan {
            stop,
            ..fixture::plan()
        };
        text::banner(&plan).lines().next().map(str::to_owned)
    };
    let secs = |seconds| Some(Duration::from_secs(seconds));
    for (stop, expected) in [
        (
            Stop {
                duration: secs(30),
                requests: None,
            },
            "Running 30s test @ ",
        ),
        (
            Stop {
                duration: secs(90),
                requests: Some(5),
            },
            "Running 2m test @ ",
        ),
        (
            Stop {
                duration: None,
                requests: Some(500),
            },
            "Running 500 requests test @ ",
        ),
    ] {
        assert_eq!(
            banner(stop),
            Some(format!("{expected}http://127.0.0.1:18100/ok"))
        );
    }
}

#[test]
fn responses_with_several_statuses_are_counted_in_a_note() {
    let statuses = |counts: &[(u16, u64)]| {
        let mut recording = Recording::new();
        for (status, responses) in counts {
            (0..*responses).for_each(|_| recording.statuses.add(*status));
        }
        let options = TextOptions::default();
        let lines = text::messages(&fixture::result(recording), &[], Format::Wrk, &options);
        lines.into_iter().find(|line| line.contains("statuses"))
    };
    assert_eq!(
        statuses(&[(500, 200), (200, 1800)]).as_deref(),
        Some("note: statuses: 200: 1,800, 500: 200")
    );
    assert_eq!(
        statuses(&[(200, 3), (204, 1)]).as_deref(),
        Some("note: statuses: 200: 3, 204: 1")
    );
    assert_eq!(statuses(&[(200, 3)]), None);
    assert_eq!(statuses(&[(500, 3)]), None);
    assert_eq!(statuses(&[]), None);
}

#[test]
fn each_kind_of_error_has_a_note() {
    let messages = |recording| {
        let result = fixture::result(recording);
        let mut lines = text::messages(&result, &[], Format::Json, &TextOptions::default());
        lines.retain(|line| line.starts_with("note: "));
        lines
    };
    assert_eq!(
        messages(fixture::failing_recording()),
        [
            "note: 15237 x refused: the server refused the connection",
            "note: 1 x broken_pipe: the server had closed before the request was sent, \
             1 request lost",
            "note: 4 x reset: the server reset the connection, 4 requests lost",
            "note: 1 x stale: the server closed an idle connection as a request was on its way, \
             1 request lost",
            "note: 2 x timeout: no complete response in time, 2 requests lost",
        ]
    );
    assert_eq!(messages(Recording::new()), Vec::<String>::new());
}

#[test]
fn printed_percentiles_with_too_few_samples_have_a_note() {
    let result = fixture::result(fixture::answered(&[1_000_000; 2000], 200, 1));
    let note = |format, options: TextOptions| {
        let messages = text::messages(&result, &[], format, &options);
        messages.into_iter().find(|line| line.starts_with("note: "))
    };
    let shown = TextOptions {
        latency: true,
        ..TextOptions::default()
    };
    let said = "note: p99.9, p99.99 and p99.999 are unreliable: fewer than 10 of 2,000 samples \
                lie above them; run longer";
    assert_eq!(note(Format::Wrk2, shown.clone()).as_deref(), Some(said));
    assert_eq!(note(Format::Wrk, shown.clone()), None);
    assert_eq!(note(Format::Json, shown), None);
    assert_eq!(note(Format::Wrk2, TextOptions::default()), None);
    let asked = TextOptions {
        percentiles: Some(vec![50.0, 99.99]),
        ..TextOptions::default()
    };
    let said =
        "note: p99.99 is unreliable: fewer than 10 of 2,000 samples lie above it; run longer";
    assert_eq!(note(Format::Wrk, asked).as_deref(), Some(said));
}

#[test]
fn a_failing_writer_is_an_error_in_every_format() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let result = fixture::result(Recording::new());
    for &format in Format::ALL {
        let error = render(&result, format, &TextOptions::default(), &mut Full).unwrap_err();
        assert_eq!(
            error.kind(),
            std::io::ErrorKind::StorageFull,
            "{}",
            format.name()
        );
    }
}

#[test]
fn a_run_with_several_streams_has_one_note_and_no_other_line() {
    let mut result = fixture::result(fixture::answered(&[1_000_000; 2000], 200, 1));
    let shown = |result: &_| {
        let options = TextOptions::default();
        let mut text = Vec::new();
        render(result, Format::Wrk, &options, &mut text).unwrap();
        (text::messages(result, &[], Format::Wrk, &options), text)
    };
    let (messages, text) = shown(&result);
    (result.plan.load.protocol, result.plan.load.streams) = (plan::Protocol::Http2, 4);
    let (with_note, same_text) = shown(&result);
    assert_eq!(same_text, text);
    let more: Vec<_> = with_note
        .iter()
        .filter(|line| !messages.contains(line))
        .collect();
    assert_eq!(more.len(), 1, "{more:?}");
    assert!(
        more[0].starts_with("note: with 4 streams per connection"),
        "{more:?}"
    );
}
