//! The texts of wrk2 and wrk-cmm against golden files, and all three texts against what the tools
//! themselves have printed.

mod fixture;

use plan::Scheme;
use report::{Format, TextOptions, render, text};
use results::{Histogram, Recording, RunResult};

const STYLES: [Format; 3] = [Format::Wrk, Format::Wrk2, Format::Cmm];

fn shown(result: &RunResult, format: Format, options: &TextOptions) -> String {
    let mut bytes = text::banner(&result.plan).into_bytes();
    render(result, format, options, &mut bytes).expect("memory takes every write");
    String::from_utf8(bytes).expect("the report is ASCII")
}

/// The options of `--latency`.
fn latency() -> TextOptions {
    TextOptions {
        latency: true,
        ..TextOptions::default()
    }
}

/// The options of `--u_latency`.
fn uncorrected() -> TextOptions {
    TextOptions {
        uncorrected: true,
        ..TextOptions::default()
    }
}

/// The options of `--latency --breakout`.
fn breakout() -> TextOptions {
    TextOptions {
        breakout: true,
        ..latency()
    }
}

#[track_caller]
fn check(actual: &str, golden: &str) {
    assert!(actual == golden, "printed:\n{actual}\nexpected:\n{golden}");
}

/// A run with these latencies in nanoseconds.
fn closed(service_ns: &[u64]) -> RunResult {
    fixture::result(fixture::answered(service_ns, 200, 150))
}

/// Distributions from none to hostile.
fn distributions() -> Vec<RunResult> {
    let ramp: Vec<u64> = (0..5000).map(|number| number * number).collect();
    [
        &[][..],
        &[0],
        &[u64::MAX],
        &[1, 1 << 62, u64::MAX, u64::MAX],
        &[499, 500, 501, 999_499, 999_500, 1_000_499],
        &[250_000; 3000],
        &ramp,
    ]
    .iter()
    .map(|service_ns| closed(service_ns))
    .chain([fixture::stalled_result()])
    .collect()
}

#[test]
fn a_run_with_a_rate_is_printed_as_wrk2_prints_it() {
    let result = fixture::stalled_result();
    check(
        &shown(&result, Format::Wrk2, &TextOptions::default()),
        include_str!("golden/wrk2.txt"),
    );
    check(
        &shown(&result, Format::Wrk2, &uncorrected()),
        include_str!("golden/wrk2_uncorrected.txt"),
    );
}

#[test]
fn phases_are_rows_as_in_wrk_cmm() {
    let mut result = fixture::result(fixture::ordinary_recording());
    check(
        &shown(&result, Format::Cmm, &breakout()),
        include_str!("golden/cmm.txt"),
    );
    result.plan.target.scheme = Scheme::Https;
    result.recording.phases.tls.record(1_200_000);
    check(
        &shown(&result, Format::Cmm, &breakout()),
        include_str!("golden/cmm_https.txt"),
    );
}

#[test]
fn a_run_without_a_response_can_be_parsed_in_every_style() {
    let result = fixture::result(Recording::new());
    let options = TextOptions {
        uncorrected: true,
        ..breakout()
    };
    check(
        &shown(&result, Format::Wrk2, &options),
        include_str!("golden/wrk2_empty.txt"),
    );
    check(
        &shown(&result, Format::Cmm, &options),
        include_str!("golden/cmm_empty.txt"),
    );
}

#[test]
fn every_option_works_in_every_style() {
    let result = fixture::stalled_result();
    for format in STYLES {
        let name = format.name();
        let plain = shown(&result, format, &TextOptions::default());
        let text = shown(&result, format, &uncorrected());
        let titles = text.matches("  Latency Distribution").count();
        assert_eq!(titles, 2, "{name}");
        let at = text.find("HdrHistogram - Uncorrected Latency").unwrap();
        let (with, without) = text.split_at(at);
        assert!(
            with.contains("\n  Latency Distribution")
                && with.ends_with("\n\n  Latency Distribution ("),
            "{name}"
        );
        // A third of the requests waited for the server, ten of them after they were sent.
        let p90 = |block: &str| {
            block
                .lines()
                .find(|line| line.trim_start().starts_with("90"))
                .map(str::to_owned)
        };
        assert!(p90(with).is_some_and(|line| line.ends_with("ms")), "{name}");
        assert!(
            p90(without).is_some_and(|line| line.ends_with("us")),
            "{name}"
        );

        let text = shown(&result, format, &breakout());
        let labels: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("    ") && line.ends_with('%'))
            .filter_map(|line| line.split_whitespace().next())
            .filter(|label| !label.ends_with('%'))
            .collect();
        assert_eq!(
            labels,
            ["Latency", "Connect", "TTFB", "TTLB", "Req/Sec"],
            "{name}"
        );

        // In a closed loop the correction moves the figures; a schedule leaves nothing to correct.
        let corrected = TextOptions {
            wrk_correction: true,
            ..TextOptions::default()
        };
        assert_eq!(shown(&result, format, &corrected), plain, "{name}");
        let closed = fixture::result(fixture::failing_recording());
        assert_ne!(
            shown(&closed, format, &corrected),
            shown(&closed, format, &TextOptions::default()),
            "{name}"
        );
    }
}

#[test]
fn without_a_schedule_both_latencies_are_the_same() {
    let result = fixture::result(fixture::ordinary_recording());
    let text = shown(&result, Format::Wrk2, &uncorrected());
    assert_eq!(
        between(&text, "Recorded Latency)\n", "\n  Latency"),
        between(&text, "starts into account))\n", "  20000 requests"),
    );
}

#[test]
fn percentiles_keep_the_decimals_that_they_have() {
    let result = fixture::result(fixture::ordinary_recording());
    let options = TextOptions {
        percentiles: Some(vec![50.0, 99.9999, 2.5]),
        ..TextOptions::default()
    };
    let column = |format| -> Vec<String> {
        shown(&result, format, &options)
            .lines()
            .filter_map(|line| line.split_once('%'))
            .map(|(percent, _)| percent.to_owned())
            .filter(|percent| percent.len() == 7)
            .collect()
    };
    assert_eq!(column(Format::Wrk), ["     50", "99.9999", "    2.5"]);
    assert_eq!(column(Format::Wrk2), [" 50.000", "99.9999", "  2.500"]);
    assert_eq!(column(Format::Cmm), ["  50.00", "99.9999", "   2.50"]);
}

#[test]
fn requested_percentiles_show_no_spectrum_without_the_latency_option() {
    let result = fixture::stalled_result();
    let asked = |latency| TextOptions {
        percentiles: Some(vec![50.0]),
        latency,
        ..TextOptions::default()
    };
    let dashes = "-".repeat(58);
    let short = shown(&result, Format::Wrk2, &asked(false));
    assert!(short.contains("Recorded Latency") && !short.contains(&dashes));
    let long = shown(&result, Format::Wrk2, &asked(true));
    assert!(long.contains("Percentile spectrum") && long.contains(&dashes));
    assert!(!long.contains(" 75.000%"));
}

/// The rows of the first spectrum: value, fraction, count.
fn spectrum(text: &str) -> Vec<(f64, f64, u64)> {
    let rows = between(text, "1/(1-Percentile)\n\n", "#[Mean");
    rows.lines()
        .map(|row| {
            let cells: Vec<&str> = row.split_whitespace().collect();
            assert_eq!(cells.len(), 4, "{row}");
            assert!(row.len() >= 51, "{row}");
            (number(cells[0]), number(cells[1]), number(cells[2]) as u64)
        })
        .collect()
}

fn footer(text: &str, name: &str) -> f64 {
    let figure = between(text, name, "]").split(',').next();
    number(
        figure
            .and_then(|figure| figure.split('=').nth(1))
            .unwrap_or_default(),
    )
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    text.split_once(before)
        .and_then(|(_, rest)| rest.split_once(after))
        .map(|(between, _)| between)
        .expect("the report has these lines")
}

fn number(cell: &str) -> f64 {
    cell.trim().parse().expect("the cell is a number")
}

#[test]
fn the_spectrum_never_falls_and_ends_at_the_maximum_and_the_count() {
    for result in distributions() {
        let text = shown(&result, Format::Wrk2, &latency());
        let rows = spectrum(&text);
        for pair in rows.windows(2) {
            assert!(pair[0].0 <= pair[1].0, "values: {pair:?}");
            assert!(pair[0].1 <= pair[1].1, "percentiles: {pair:?}");
            assert!(pair[0].2 <= pair[1].2, "counts: {pair:?}");
        }
        let (value, fraction, count) = *rows.last().unwrap();
        assert_eq!(fraction, 1.0);
        assert_eq!(value, footer(&text, "#[Max "));
        assert_eq!(count as f64, footer(&text, "Total count "));
        assert_eq!(text.matches(" inf\n").count(), 1);
    }
}

#[test]
fn each_row_of_the_spectrum_is_consistent() {
    let mut samples = Histogram::new();
    let mut random = fastrand::Rng::with_seed(3);
    let mut exact: Vec<u64> = (0..20_000)
        .map(|_| {
            let spread_ns = 1 << random.u32(1..30);
            1_000_000 + random.u64(..spread_ns)
        })
        .collect();
    exact.iter().for_each(|&sample| samples.record(sample));
    exact.sort_unstable();
    let mut result = fixture::result(Recording::new());
    result.recording.service_time = samples;
    let text = shown(&result, Format::Wrk2, &latency());
    for (value_ms, fraction, count) in spectrum(&text) {
        // A bucket is at most a thousandth wide, and the text has three decimals.
        let upper_ns = value_ms * 1e6 * 1.001 + 500.0;
        let lower_ns = value_ms * 1e6 * 0.999 - 500.0;
        let up_to =
            |limit_ns: f64| exact.partition_point(|&sample| sample as f64 <= limit_ns) as u64;
        assert!((up_to(lower_ns)..=up_to(upper_ns)).contains(&count));
        // Six decimals of the fraction.
        assert!(
            count as f64 / 20_000.0 >= fraction - 5e-7,
            "{fraction} {count}"
        );
    }
}

/// A line with its numbers taken out but their last columns kept: what printf's widths decide.
/// Units count as blanks, since the widths are made so that they do not move the digits.
fn shape(line: &str) -> String {
    let bytes = line.as_bytes();
    let mut shape = String::new();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            shape.push(char::from(bytes[at]));
            at += 1;
            continue;
        }
        while at < bytes.len() && (bytes[at].is_ascii_digit() || bytes[at] == b'.') {
            at += 1;
        }
        shape.truncate(shape.trim_end().len());
        shape += &format!("#{at}");
        while at < bytes.len() && b"umskKMG ".contains(&bytes[at]) {
            at += 1;
        }
    }
    shape
}

/// The shapes of a text's lines, equal ones that follow each other once.
fn shapes(text: &str) -> Vec<String> {
    let mut shapes: Vec<String> = text
        .lines()
        .filter(|line| !line.starts_with("  Thread calibration:"))
        .map(|line| {
            // In sentences a number takes the room that it needs.
            let sentence = line.contains(" requests in ") || line.starts_with("Running ");
            let shape = shape(line);
            if sentence {
                shape.chars().filter(|c| !c.is_ascii_digit()).collect()
            } else {
                shape
            }
        })
        .collect();
    shapes.dedup();
    shapes
}

#[test]
fn every_line_has_the_shape_of_what_the_tools_print() {
    let rate = fixture::stalled_result();
    let closed = fixture::result(fixture::ordinary_recording());
    let cases = [
        (
            shown(&closed, Format::Wrk, &latency()),
            include_str!("captured/wrk.txt"),
        ),
        (
            shown(&rate, Format::Wrk2, &uncorrected()),
            include_str!("captured/wrk2.txt"),
        ),
        (
            shown(&closed, Format::Cmm, &breakout()),
            include_str!("captured/cmm.txt"),
        ),
    ];
    for (ours, theirs) in cases {
        // The targets differ, and so may the last columns of what follows them.
        let (ours, theirs) = (shapes(&ours), shapes(theirs));
        assert_eq!(ours[1..], theirs[1..]);
        assert_eq!(ours[0][..12], theirs[0][..12]);
    }
}
