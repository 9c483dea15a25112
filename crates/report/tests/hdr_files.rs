//! `.hgrm` and interval logs, read by the rules of HdrHistogram's own tools.

mod fixture;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use report::{Format, TextOptions, render};
use results::{Histogram, Interval, Recording, RunResult};

fn shown(result: &RunResult, format: Format) -> String {
    let mut bytes = Vec::new();
    render(result, format, &TextOptions::default(), &mut bytes).expect("memory takes every write");
    String::from_utf8(bytes).expect("the files are ASCII")
}

#[track_caller]
fn check(actual: &str, golden: &str) {
    assert!(actual == golden, "printed:\n{actual}\nexpected:\n{golden}");
}

#[test]
fn a_distribution_is_printed_as_the_java_library_prints_it() {
    check(
        &shown(&fixture::stalled_result(), Format::Hgrm),
        include_str!("golden/stalled.hgrm"),
    );
    check(
        &shown(&fixture::result(Recording::new()), Format::Hgrm),
        include_str!("golden/empty.hgrm"),
    );
}

/// What HdrHistogram's plotter draws of a file: of each line that is no comment and has four
/// columns the last and the first, if both are numbers.
fn plotted(file: &str) -> Vec<(f64, f64)> {
    file.lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|cells| cells.len() == 4)
        .filter_map(|cells| Some((cells[3].parse().ok()?, cells[0].parse().ok()?)))
        .collect()
}

#[test]
fn the_plotter_draws_a_finite_rising_line_up_to_the_maximum() {
    let hostile = fixture::answered(&[0, 3, 1 << 40, 1 << 61], 200, 1);
    for result in [fixture::stalled_result(), fixture::result(hostile)] {
        let points = plotted(&shown(&result, Format::Hgrm));
        assert!(points.len() > 10);
        assert!(points.iter().all(|(x, y)| x.is_finite() && y.is_finite()));
        assert!(points.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
        let max_ms = result.recording.latency().max_ns().unwrap() as f64 / 1e6;
        let last_ms = points.last().unwrap().1;
        assert!(
            (last_ms - max_ms).abs() <= max_ms * 1e-3,
            "{last_ms} {max_ms}"
        );
    }
}

/// A line of the log, read back.
struct LogLine {
    tag: Option<String>,
    start_ms: u128,
    length_ms: u128,
    max: f64,
    samples: hdrhistogram::Histogram<u64>,
}

fn read(log: &str) -> (Option<u128>, Vec<LogLine>) {
    let mut started_ms = None;
    let mut lines = Vec::new();
    for entry in IntervalLogIterator::new(log.as_bytes()) {
        match entry.expect("every line is of the log's format") {
            LogEntry::StartTime(time) => started_ms = Some(time.as_millis()),
            LogEntry::BaseTime(_) => panic!("times are relative to the start already"),
            LogEntry::Interval(interval) => {
                let encoded = BASE64
                    .decode(interval.encoded_histogram())
                    .expect("the histogram is base64");
                lines.push(LogLine {
                    tag: interval.tag().map(|tag| tag.as_str().to_owned()),
                    start_ms: interval.start_timestamp().as_millis(),
                    length_ms: interval.duration().as_millis(),
                    max: interval.max(),
                    samples: Deserializer::new()
                        .deserialize(&mut encoded.as_slice())
                        .expect("the histogram is in V2"),
                });
            }
        }
    }
    (started_ms, lines)
}

/// The samples of a line that were recorded with `expected`, bucket for bucket.
#[track_caller]
fn same_samples(read: &hdrhistogram::Histogram<u64>, expected: &Histogram) {
    let read: Vec<(u64, u64)> = read
        .iter_recorded()
        .map(|step| (step.value_iterated_to(), step.count_at_value()))
        .collect();
    let expected: Vec<(u64, u64)> = expected.distinct().collect();
    assert_eq!(read.len(), expected.len());
    for ((value, count), (exact, expected)) in read.into_iter().zip(expected) {
        // Shown values are held within the exact extremes; bucket ends are not.
        assert!(value >= exact && (value - exact) as f64 <= exact as f64 * 0.001);
        assert_eq!(count, expected);
    }
}

#[test]
fn a_log_contains_every_sample_at_its_time() {
    let result = fixture::stalled_result();
    let log = shown(&result, Format::Hlog);
    assert!(log.contains("\n#[Histogram log format version 1.3]\n"));
    let (started_ms, lines) = read(&log);
    assert_eq!(started_ms, Some(1_795_204_800_000));

    let (tagged, plain): (Vec<LogLine>, Vec<LogLine>) =
        lines.into_iter().partition(|line| line.tag.is_some());
    let times: Vec<(u128, u128)> = plain
        .iter()
        .map(|line| (line.start_ms, line.length_ms))
        .collect();
    assert_eq!(times, [(0, 1000), (1000, 1000), (2000, 1000), (3000, 20)]);
    for (line, row) in plain.iter().zip(result.recording.intervals.rows()) {
        same_samples(&line.samples, &row.histogram());
        assert!((line.max - row.max_ns as f64 / 1e6).abs() < 0.0006);
    }
    let mut sum = hdrhistogram::Histogram::<u64>::new(3).unwrap();
    plain
        .iter()
        .for_each(|line| sum.add(&line.samples).unwrap());
    same_samples(&sum, &result.recording.response_time);

    assert_eq!(tagged.len(), 1);
    assert_eq!(tagged[0].tag.as_deref(), Some("unanswered"));
    assert_eq!((tagged[0].start_ms, tagged[0].length_ms), (0, 3020));
    same_samples(&tagged[0].samples, &result.recording.unanswered);
}

#[test]
fn in_a_closed_loop_the_tag_is_for_requests_that_timed_out() {
    let mut result = fixture::result(fixture::failing_recording());
    let (_, lines) = read(&shown(&result, Format::Hlog));
    assert_eq!(lines[0].tag.as_deref(), Some("unanswered"));
    same_samples(&lines[0].samples, &result.recording.timed_out);
    result.recording.timed_out = Histogram::new();
    let (_, lines) = read(&shown(&result, Format::Hlog));
    assert!(lines.iter().all(|line| line.tag.is_none()));
}

#[test]
fn a_window_without_responses_is_a_line_too() {
    let (_, lines) = read(&shown(&fixture::result(Recording::new()), Format::Hlog));
    assert_eq!(lines.len(), 1);
    assert_eq!((lines[0].start_ms, lines[0].length_ms), (0, 3020));
    assert_eq!((lines[0].samples.len(), lines[0].max), (0, 0.0));

    // Responses in the first second, none in the two that follow.
    let mut result = fixture::result(Recording::new());
    let mut samples = Histogram::new();
    samples.record(5);
    result.recording.intervals.add(700, &samples);
    let (_, lines) = read(&shown(&result, Format::Hlog));
    let times: Vec<(u128, u128)> = lines
        .iter()
        .map(|line| (line.start_ms, line.length_ms))
        .collect();
    assert_eq!(times, [(0, 1000), (1000, 2020)]);
}

#[test]
fn the_last_interval_ends_with_the_window() {
    let mut result = fixture::result(Recording::new());
    let mut samples = Histogram::new();
    samples.record(5);
    result.recording.intervals.add(3010, &samples);
    let (_, lines) = read(&shown(&result, Format::Hlog));
    assert_eq!(lines.len(), 4);
    let last = &lines[3];
    assert_eq!(
        (last.start_ms, last.length_ms, last.samples.len()),
        (3000, 20, 1)
    );
}

#[test]
fn the_largest_values_survive_the_log() {
    let mut result = fixture::result(Recording::new());
    let mut samples = Histogram::new();
    for value_ns in [0, 1, 3_600_000_000_001, 1 << 61] {
        samples.record(value_ns);
    }
    result.recording.intervals.add(0, &samples);
    result.window.duration_ns = u64::MAX;
    let (_, lines) = read(&shown(&result, Format::Hlog));
    same_samples(&lines[0].samples, &samples);
    assert_eq!(lines.len(), 2);
}

#[test]
fn a_count_that_the_encoding_cannot_represent_is_an_error() {
    let mut result = fixture::result(Recording::new());
    let mut samples = Histogram::new();
    samples.record_n(5, u64::MAX);
    assert_eq!(Interval::of(&samples).histogram(), samples);
    result.recording.intervals.add(0, &samples);
    let error = render(
        &result,
        Format::Hlog,
        &TextOptions::default(),
        &mut Vec::new(),
    )
    .unwrap_err();
    assert!(error.to_string().starts_with("histogram: "), "{error}");
}
