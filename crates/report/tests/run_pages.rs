//! Pages of one run and of several: golden texts, and what holds of every page.

mod fixture;
mod seen;

use std::path::Path;
use std::time::Duration;

use analysis::compare::{CompareOptions, compare_cells};
use analysis::{FILE_FACTOR, Observation, Reading};
use judging::sentences::finding;
use plan::{Arrivals, Pacing, Scheme, SourceRange, Stage, TelemetrySpec, TracingSpec};
use presentation::{Block, Mark, Marks, Page, Tone};
use report::page::{PageSubject, build};
use report::{Format, TextOptions, render};
use results::metric;
use results::{
    BreakdownRecording, ConversationRecording, ErrorKind, Generator, Histogram, LlmRecording,
    QuicRecording, Recording, RunResult, ServerTimes, Setting, SlowRequest, SocketMoment,
    SocketSummary, SocketTimeline, Spread, Symptom, Telemetry, ThreadUsage, TraceId, Verdict,
    WorkerUsage,
};
use seen::{chart, charts, check_golden, check_marks, check_page, outline, section};

/// A run as it is read from a file.
fn observation(result: &RunResult, name: &str) -> Observation {
    let mut bytes = Vec::new();
    render(result, Format::Json, &TextOptions::default(), &mut bytes)
        .expect("memory takes every write");
    let reading = Reading::of_bytes(&bytes, Path::new(name)).expect("it is a document");
    let run = reading.observations.into_iter().next();
    run.expect("a document is a run")
}

fn page_of(observations: &[Observation]) -> Page {
    build(&PageSubject {
        observations,
        ..PageSubject::default()
    })
}

fn page_of_result(result: &RunResult) -> Page {
    page_of(&[observation(result, "run.json")])
}

/// The ordinary run, with the usage of the load generator.
fn ordinary() -> RunResult {
    let mut result = fixture::result(fixture::ordinary_recording());
    result.generator = generator(450_000_000);
    result.generator.verdict = Verdict::Undisturbed;
    // Its requests are made up, and do not fill ten connections.
    result.warnings.clear();
    result
}

fn generator(cpu_ns: u64) -> Generator {
    let worker = |worker| WorkerUsage {
        worker,
        elapsed_ns: 3_020_000_000,
        usage: ThreadUsage {
            cpu_ns,
            run_queue_wait_ns: Some(30_200_000),
            timeslices: Some(6_040),
        },
    };
    Generator {
        workers: vec![worker(0), worker(1)],
        ..Generator::default()
    }
}

fn failing() -> RunResult {
    let mut result = fixture::result(fixture::failing_recording());
    result.recording.statuses.add(503);
    result.recording.counters.answered += 1;
    result.recording.counters.sent += 1;
    result.recording.service_time.record(1_000_000);
    result.generator = generator(2_900_000_000);
    result.generator.verdict = Verdict::Saturated {
        percentiles: Vec::new(),
        symptoms: vec![finding(Symptom::WorkerBusy {
            worker: 0,
            cpu_ns: 2_900_000_000,
            elapsed_ns: 3_020_000_000,
            busy_threads: 2,
            threads: 2,
            cpus: Some(2),
        })],
        remedy: "no CPU is left for more threads: give the server another machine, or load it \
                 from a larger one"
            .to_owned(),
    };
    result
}

fn with_telemetry(mut result: RunResult) -> RunResult {
    let row = |at: u64| SocketMoment {
        start_ms: at * 1_000,
        sockets: (at != 1).then_some(10),
        rtt_p50_us: (at != 1).then_some(45.0 + at as f64),
        rtt_p99_us: (at != 1).then_some(145.0),
        cwnd_p50: Some(10.0),
        delivery_rate_p50_bytes_per_sec: None,
        segments_retransmitted: Some(at * 2),
        bytes_sent: Some(1_000_000),
        bytes_received: Some(3_000_000),
        listen_queue_max: Some(1),
    };
    let spread = Spread {
        min: 20.0,
        p50: 45.0,
        p90: 60.0,
        p99: 145.0,
        max: 1_000.0,
    };
    result.plan.telemetry = Some(TelemetrySpec {
        sockets: Some("dport = :18100".to_owned()),
        interval: Duration::from_secs(1),
        counters: true,
    });
    result.telemetry = Some(Telemetry {
        interval_ns: 1_000_000_000,
        samples: 3,
        cpu_ns: Some(1_000_000),
        sockets: Some(SocketSummary {
            sockets: 10,
            segments_sent: Some(20_000),
            segments_retransmitted: 6,
            rtt_us: Some(spread),
            cwnd: Some(spread),
            ..SocketSummary::default()
        }),
        counters: [
            ("Tcp.RetransSegs".to_owned(), 6),
            ("TcpExt.ListenDrops".to_owned(), 0),
            ("Tcp.InSegs".to_owned(), 40_000),
        ]
        .into(),
        timeline: Some(SocketTimeline {
            interval_ms: 1_000,
            rows: (0..3).map(row).collect(),
        }),
        notes: vec!["a sample came late".to_owned()],
    });
    result
}

fn with_packets(mut result: RunResult) -> RunResult {
    let mut quic = QuicRecording {
        packets_sent: 10_000,
        packets_lost: 12,
        congestion_events: 3,
        datagrams_sent: 9_000,
        bytes_sent: 900_000,
        batches_sent: 6_000,
        datagrams_received: 80_000,
        bytes_received: 100_000_000,
        batches_received: 10_000,
        retries: 0,
        ..QuicRecording::default()
    };
    for (rtt_us, cwnd) in [(40, 14_720), (50, 29_440)] {
        quic.rtt.record(rtt_us * 1_000);
        quic.min_rtt.record(rtt_us * 900);
        quic.cwnd.record(cwnd);
        quic.mtu.record(1_452);
    }
    result.recording.parts.quic = Some(quic);
    result
}

/// A run with traces, of whose requests the slowest are slow in the database of the server.
fn with_breakdown(mut result: RunResult) -> RunResult {
    let mut breakdown = BreakdownRecording::default();
    let metrics = [b"total".as_slice(), b"db"].map(|name| breakdown.metric(name));
    for number in 0..2_000 {
        let (db_ms, first_byte_ms) = if number % 100 == 0 { (30, 32) } else { (1, 3) };
        let mut request = SlowRequest {
            due_ns: number * 1_000_000,
            waited_ns: 0,
            connecting_ns: 0,
            own_ns: 0,
            read_late_ns: 0,
            first_byte_ns: first_byte_ms * 1_000_000,
            last_byte_ns: 0,
            status: 200,
            path: None,
            trace_id: (number % 10 == 0).then_some(TraceId(u128::from(number) + 1)),
            server_timing_ns: ServerTimes::default(),
        };
        for (metric, ms) in metrics.iter().flatten().zip([db_ms + 1, db_ms]) {
            request.server_timing_ns.set(*metric, ms * 1_000_000);
        }
        breakdown.note_server_times(&request.server_timing_ns);
        breakdown.add(&request);
    }
    breakdown.traced = 200;
    result.recording.parts.breakdown = Some(breakdown);
    result.plan.tracing = TracingSpec {
        server_timing: true,
        traceparent_one_in: Some(10),
        url: Some("http://jaeger/trace/{id}?a=1&b=2".into()),
    };
    result
}

fn a_day() -> RunResult {
    let mut recording = Recording::new();
    let mut samples = Histogram::new();
    samples.record_n(1_000, 30);
    for step in 0..400 {
        let at_ms = step * 216_000;
        recording
            .series
            .add(at_ms, 3, u64::from(step.is_multiple_of(7)), 70);
        recording.intervals.add(at_ms, &samples);
    }
    let mut result = fixture::result(recording);
    result.window.duration_ns = 86_400_000_000_000;
    result
}

fn many_stages() -> RunResult {
    let stage = |at: u64| Stage {
        from_per_sec: at as f64,
        to_per_sec: (at % 7) as f64 * 100.0,
        duration: Duration::from_millis(u64::from(!at.is_multiple_of(5))),
    };
    let mut result = fixture::stalled_result();
    result.plan.pacing = Pacing::Stages {
        stages: (0..250).map(stage).collect(),
        arrivals: Arrivals::Poisson,
        seed: 7,
    };
    result
}

fn only_refused() -> RunResult {
    let mut recording = Recording::new();
    for _ in 0..50 {
        recording.errors.add(ErrorKind::Refused, 0);
        recording.series.add(300, 0, 1, 0);
    }
    fixture::result(recording)
}

/// Runs with extreme values, or without most of them.
fn unusual_runs() -> Vec<(&'static str, RunResult)> {
    let answered = |service_ns: &[u64]| fixture::result(fixture::answered(service_ns, 200, 150));
    let with = |change: fn(&mut RunResult)| {
        let mut result = ordinary();
        change(&mut result);
        result.warnings = fixture::warnings_of(&result);
        result
    };
    let https = |result: &mut RunResult| {
        result.plan.target.scheme = Scheme::Https;
        result.recording.phases.tls.record(2_000_000);
    };
    let text_of_others = |result: &mut RunResult| {
        let evil = "</script><script>alert(1)</script>\u{2028}\"'\n".to_owned();
        result.plan.target.url.clone_from(&evil);
        result.environment.hostname = Some(evil.clone());
        result
            .environment
            .sysctls
            .insert(evil.clone(), evil.clone());
        result.plan.request.headers = vec![("X".to_owned(), evil.repeat(1_000))];
        result.environment.command_line.push(evil);
    };
    vec![
        ("nothing happened", fixture::result(Recording::new())),
        ("one sample", answered(&[1])),
        ("samples of nothing", answered(&[0, 0, 0])),
        (
            "the largest samples",
            answered(&[1, 1 << 62, u64::MAX, u64::MAX]),
        ),
        ("one value", answered(&[5_000; 3_000])),
        ("errors", failing()),
        ("telemetry", with_telemetry(ordinary())),
        ("packets", with_packets(ordinary())),
        ("a day", a_day()),
        ("stages", many_stages()),
        ("no window", with(|result| result.window.duration_ns = 0)),
        (
            "a long window",
            with(|result| result.window.duration_ns = u64::MAX),
        ),
        (
            "interrupted",
            with(|result| result.window.interrupted = true),
        ),
        ("https", with(https)),
        ("errors and no response", only_refused()),
        ("text of others", with(text_of_others)),
    ]
}

#[test]
fn the_page_of_an_ordinary_run_is_as_expected() {
    check_golden(&page_of_result(&ordinary()), "page_ordinary.txt");
}

#[test]
fn the_page_of_a_run_at_a_rate_has_response_and_service_time() {
    check_golden(&page_of_result(&fixture::stalled_result()), "page_rate.txt");
}

#[test]
fn the_page_of_a_failing_run_lists_errors_and_the_saturated_load_generator() {
    check_golden(
        &page_of_result(&with_telemetry(failing())),
        "page_failing.txt",
    );
}

#[test]
fn a_report_as_text_makes_a_page_of_its_numbers() {
    let text = include_str!("captured/wrk.txt");
    let reading = Reading::of_bytes(text.as_bytes(), Path::new("wrk.txt")).unwrap();
    let page = page_of(&reading.observations);
    check_page(&page);
    check_golden(&page, "page_wrk_text.txt");
}

#[test]
fn the_page_of_a_run_over_quic_has_its_packets_and_round_trips() {
    let page = page_of_result(&with_packets(ordinary()));
    let text = outline(&page);
    let (_, quic) = text.split_once("## QUIC").expect("it has the section");
    let (quic, _) = quic.split_once("\n## ").expect("it is not the last one");
    for expected in [
        "| 10,000 | 12 [Warning] | 3 | 9,000 | 879 KiB | 1.5 | 80,000 | 95.4 MiB | 8 | 0 | 0 |",
        "| Round-trip time | 2 | 45 us | 40 us [Warning] |",
        "| Least round-trip time | 2 | 40.5 us |",
        "| Congestion window, bytes | 2 | 22,080 | 14,727 | 29,440 |",
        "| Largest datagram, bytes | 2 | 1,452 |",
    ] {
        assert!(quic.contains(expected), "{expected} in {quic}");
    }
}

#[test]
fn the_page_of_a_run_with_server_times_says_why_it_was_slow_and_links_traces() {
    let page = page_of_result(&with_breakdown(ordinary()));
    let text = outline(&page);
    let (_, why) = text
        .split_once("## Why it was slow")
        .expect("it has the section");
    let (why, _) = why.split_once("\n## ").expect("it is not the last one");
    for expected in [
        "The slowest 20 of 2,000 requests took 32 ms on average, 32 ms or more. Of the 29 ms that \
         they took longer than the others: 100 % server.",
        "| Server | 31 ms | 97 % | 2 ms |",
        "| Network or queues before the server | 1 ms | 3.1 % | 1 ms |",
        "| db | 2,000 | 1.29 ms | 1 ms |",
        "| 200 | 00000000000000000000000000000065 | 100 ms | 32 ms |",
    ] {
        assert!(why.contains(expected), "{expected} in {why}");
    }
    let link = "<a href=\"http://jaeger/trace/00000000000000000000000000000065?a=1&#38;b=2\">\
                00000000000000000000000000000065</a>";
    let mut html = Vec::new();
    report::page::render(&page, &mut html).expect("it is written to memory");
    let html = String::from_utf8(html).expect("it is text");
    assert!(html.contains(link), "{html}");
}

#[test]
fn the_text_of_a_run_with_server_times_says_why_it_was_slow() {
    let mut text = Vec::new();
    let result = with_breakdown(ordinary());
    let options = TextOptions::default();
    render(&result, Format::Wrk, &options, &mut text).expect("it is written to memory");
    let text = String::from_utf8(text).expect("it is text");
    let (_, why) = text.split_once("Transfer/sec").expect("it has the totals");
    let why = why.split_once("\n\n").expect("a table follows").1;
    let expected = "  Where the time went                  Slowest  Share  Others
  Network or queues before the server   1.00ms  3.1 %  1.00ms
  Server                               31.00ms   97 %  2.00ms
  All                                  32.00ms  100 %  3.00ms

  Server-Timing  Samples    Mean     p50     p90     p99    p99.9      Max
  total            2,000  2.29ms  2.00ms  2.00ms  2.00ms  31.00ms  31.00ms
  db               2,000  1.29ms  1.00ms  1.00ms  1.00ms  30.00ms  30.00ms

  The slowest 20 of 2,000 requests took 32 ms on average, 32 ms or more.
  Of the 29 ms that they took longer than the others: 100 % server.
  200 requests had a trace. The slowest of these:
    32 ms: http://jaeger/trace/00000000000000000000000000000001?a=1&b=2
    32 ms: http://jaeger/trace/00000000000000000000000000000065?a=1&b=2
    32 ms: http://jaeger/trace/000000000000000000000000000000c9?a=1&b=2
";
    assert_eq!(why, expected);
}

#[test]
fn unusual_runs_make_valid_pages() {
    for (name, result) in unusual_runs() {
        let page = page_of_result(&result);
        check_page(&page);
        let bytes = serde_json::to_vec(&page).unwrap();
        assert!(bytes.len() < 300_000, "{name}: {} bytes", bytes.len());
    }
}

#[test]
fn a_saved_run_makes_the_same_page_as_the_run() {
    for (name, result) in unusual_runs() {
        let read = observation(&result, "run.json");
        let made = Observation {
            values: metric::values(&result),
            result: Some(Box::new(result)),
            ..read.clone()
        };
        assert_eq!(page_of(&[read]), page_of(&[made]), "{name}");
    }
}

#[test]
fn the_line_of_percentiles_ends_with_ten_samples_above_and_the_slowest_is_a_dot() {
    let result = ordinary();
    let page = page_of_result(&result);
    let latency = chart(&page, "latency-by-percentile");
    let line = &latency.marks[0];
    // Of 20,000 samples ten lie above p99.95.
    assert_eq!(line.x.first(), Some(&0.0));
    assert_eq!(line.x.last(), Some(&99.95));
    let slowest = &latency.marks[1];
    assert_eq!(
        (slowest.mark, slowest.x.as_slice()),
        (Mark::Dots, &[100.0][..])
    );
    let expected_us = result.recording.latency().max_ns().unwrap() as f64 / 1e3;
    let shown_us = slowest.y[0].unwrap();
    assert!(
        (shown_us - expected_us).abs() <= expected_us * 1e-6,
        "{shown_us} for {expected_us}"
    );
}

#[test]
fn the_distribution_contains_all_samples() {
    let mut seen = 0;
    for (name, result) in unusual_runs() {
        let page = page_of_result(&result);
        let spreads = charts(&page).filter(|chart| chart.id == "latency-distribution");
        for marks in spreads.flat_map(|chart| &chart.marks) {
            let all: f64 = marks.y.iter().flatten().sum();
            assert!((all - 100.0).abs() < 1e-3, "{name}: {all} %");
            assert_eq!(marks.y.last(), Some(&Some(0.0)), "{name} does not end");
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen}");
}

#[test]
fn rates_over_time_add_up_to_all_responses_and_last_to_the_end_of_the_window() {
    let mut result = ordinary();
    // The server stopped answering after three of ten seconds, and the last step is a short one.
    result.window.duration_ns = 10_030_000_000;
    let page = page_of_result(&result);
    let marks = &chart(&page, "requests-over-time").marks;
    let rates = marks
        .iter()
        .find(|marks| marks.name == "Requests/s")
        .unwrap();
    assert_eq!(rates.y.iter().flatten().count(), 100);
    assert_eq!(rates.y.last(), Some(&Some(0.0)));
    // The short step was joined to the one before.
    let last_s = rates.x.last().unwrap();
    assert!((last_s - (9.9 + 0.13 / 2.0)).abs() < 1e-6, "{last_s}");
    let all: f64 = rates.y.iter().flatten().map(|rate| rate * 0.1).sum();
    let answered = result.recording.counters.answered as f64;
    assert!((all - answered).abs() < 1.0, "{all} of {answered}");
}

#[test]
fn errors_are_marked_behind_rates_and_latencies() {
    let mut result = fixture::stalled_result();
    // Steps in a row with the same share of errors are one span.
    for (at_ms, errors) in [
        (130, 2),
        (170, 1),
        (250, 4),
        (1_300, 2),
        (1_450, 1),
        (2_900, 20),
    ] {
        result.recording.series.add(at_ms, 0, errors, 0);
    }
    let page = page_of_result(&result);
    for id in ["requests-over-time", "latency-over-time"] {
        let chart = chart(&page, id);
        check_marks(chart);
        let behind = &chart.marks[1];
        assert_eq!(
            (behind.name.as_str(), behind.mark),
            ("Errors (full height: 100 %)", Mark::Span)
        );
        assert_eq!(behind.x, [0.1, 0.2, 1.3, 2.9], "{id}");
        assert_eq!(behind.until, [0.2, 0.3, 1.5, 3.02], "{id}");
        assert_eq!(behind.heights, [0.14, 0.17, 1.0, 0.5], "{id}");
        assert_eq!(
            behind.labels,
            [
                "3 errors and 20 responses, 13 %",
                "4 errors and 20 responses, 17 %",
                "3 errors and 0 responses, 100 %",
                "20 errors and 20 responses, 50 %",
            ],
            "{id}"
        );
        assert!(
            chart.description.contains(
                "Highest share of errors at 1.3 s: 100 % of the requests that ended then."
            ),
            "{}",
            chart.description
        );
    }
    let page = page_of_result(&fixture::stalled_result());
    let marks = &chart(&page, "requests-over-time").marks;
    assert!(marks.iter().all(|marks| !marks.name.starts_with("Errors")));
}

#[test]
fn a_stall_is_described_and_leaves_a_gap_in_the_median() {
    let mut result = fixture::stalled_result();
    // Requests that were on their way when it began have quick responses within its interval.
    result.recording.series.add(1_000, 1, 0, 150);
    let mut quick = Histogram::new();
    quick.record(100_000);
    result.recording.intervals.add(1_000, &quick);
    let page = page_of_result(&result);
    let verdict = section(&page, "verdict").unwrap();
    let told = verdict.blocks.iter().find_map(|block| match block {
        Block::Finding { text, .. } if text.starts_with("Stalled") => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(
        told,
        Some("Stalled from 1.0 to 2.0 s: no response came; 25 % of requests took at least 245 ms.")
    );
    let latency = chart(&page, "latency-over-time");
    check_marks(latency);
    let of = |name: &str| {
        latency
            .marks
            .iter()
            .find(|marks| marks.name == name)
            .unwrap()
    };
    assert_eq!((of("Stalled").x[0], of("Stalled").until[0]), (1.005, 2.0));
    // Not 100 us, which would be the lowest point, in the worst second of the run.
    assert_eq!(of("p50").y[1], None);
    let slowest = of("Slowest");
    assert!(slowest.y[1].unwrap() > 990_000.0, "{:?}", slowest.y);
    assert!(
        slowest.labels[1].starts_with("lower bound"),
        "{:?}",
        slowest.labels
    );
    let Some(Block::Figures { figures }) = verdict.blocks.last() else {
        panic!("no figures");
    };
    let spark = |label: &str| {
        &figures
            .iter()
            .find(|figure| figure.label == label)
            .unwrap()
            .spark
    };
    assert_eq!(spark("Requests/s")[15], Some(0.0));
    assert_eq!(spark("p50")[1], None);
    let even = page_of_result(&ordinary());
    assert!(!outline(&even).contains("Stalled"));
}

#[test]
fn a_run_without_a_success_says_so_first_and_marks_nothing_as_good() {
    for (status, first) in [
        (
            301,
            "All 500 responses had the status 301 (Moved Permanently).",
        ),
        (
            503,
            "All 500 responses had the status 503 (Service Unavailable).",
        ),
    ] {
        let mut result = fixture::result(fixture::answered(&[200_000; 500], status, 150));
        result.generator.verdict = Verdict::Undisturbed;
        let page = page_of_result(&result);
        let verdict = section(&page, "verdict").unwrap();
        assert!(verdict.lead.starts_with(first), "{}", verdict.lead);
        let Block::Finding { tone, .. } = &verdict.blocks[0] else {
            panic!("{:?}", verdict.blocks[0]);
        };
        assert_eq!(*tone, Tone::Bad, "{status}");
        let text = outline(&page);
        let (verdict, _) = text.split_once("\n## Latency").unwrap();
        assert!(!verdict.contains("[Good]"), "{verdict}");
    }
    // 304 is the expected status of a conditional request.
    let cached = page_of_result(&fixture::result(fixture::answered(
        &[200_000; 500],
        304,
        150,
    )));
    assert!(outline(&cached).contains("[Good] No request failed"));
    // A single bad status is enough not to mark failures as good.
    let mut some = fixture::answered(&[200_000; 500], 200, 150);
    some.statuses.add(503);
    some.counters.sent += 1;
    some.counters.answered += 1;
    let text = outline(&page_of_result(&fixture::result(some)));
    assert!(text.contains("# Status above 399: 1 [Bad]"), "{text}");
    assert!(!text.contains("# Failed requests: 0"), "{text}");
}

#[test]
fn responses_with_bad_statuses_are_the_heading_and_the_first_red_line() {
    let mut recording = fixture::answered(&[200_000; 500], 200, 150);
    for _ in 0..4_500 {
        recording.statuses.add(500);
    }
    recording.counters.sent += 4_500;
    recording.counters.answered += 4_500;
    let page = page_of_result(&fixture::result(recording));
    let words = "90 % of responses had the status 500 (Internal Server Error)";
    assert_eq!(page.answer, words);
    let verdict = section(&page, "verdict").unwrap();
    let Block::Finding {
        tone,
        text,
        details,
    } = &verdict.blocks[0]
    else {
        panic!("{:?}", verdict.blocks[0]);
    };
    assert_eq!(
        (*tone, text.as_str()),
        (Tone::Bad, format!("{words}.").as_str())
    );
    assert_eq!(details, &["200: 500, 500: 4,500"]);
    let text = outline(&page);
    assert_eq!(
        text.matches("status 500").count(),
        2,
        "it is said once: {text}"
    );
    assert!(!text.contains("# Failed requests: 0"), "{text}");
    let (_, figures) = text.split_once("\n# ").unwrap();
    assert!(
        figures.starts_with("Status above 399: 4,500 [Bad]"),
        "{figures}"
    );
}

#[test]
fn a_notable_share_of_bad_statuses_is_in_the_heading_with_the_rate() {
    let mut recording = fixture::answered(&[200_000; 950], 200, 150);
    for status in [429, 503, 503].iter().cycle().take(48) {
        recording.statuses.add(*status);
    }
    recording.counters.sent += 48;
    recording.counters.answered += 48;
    let page = page_of_result(&fixture::result(recording));
    assert!(
        page.answer.ends_with(
            "; 4.8 % of responses had a status above 399, most often 503 (Service Unavailable)"
        ),
        "{}",
        page.answer
    );
}

#[test]
fn the_heading_is_what_was_measured_and_the_target_is_below() {
    let page = page_of_result(&ordinary());
    assert_eq!(page.title, "6,623 requests/s with p99 8.71 ms");
    assert_eq!(page.answer, page.title);
    assert!(
        page.subtitle
            .starts_with("http://127.0.0.1:18100/ok \u{b7} ")
    );
    let nothing = fixture::result(Recording::default());
    let page = page_of_result(&nothing);
    assert!(
        page.title.starts_with("No request was answered in"),
        "{}",
        page.title
    );
}

#[test]
fn the_heading_of_a_language_model_names_tokens_users_and_the_first_token() {
    let mut result = ordinary();
    let mut llm = LlmRecording {
        output_tokens: 120,
        ..LlmRecording::default()
    };
    llm.first_token.record_n(80_000_000, 2_000);
    result.recording.parts.llm = Some(llm);
    result.window.duration_ns = 2_000_000_000;
    let users = result.plan.load.connections;
    let run = observation(&ordinary(), "run.json");
    let title = |result: &RunResult| {
        let observation = Observation {
            values: metric::values(result),
            result: Some(Box::new(result.clone())),
            ..run.clone()
        };
        page_of(&[observation]).title
    };
    assert_eq!(
        title(&result),
        format!("60 output tokens/s for {users} users with p99 first token 80 ms")
    );
    // A rate says nothing of users, unless they have conversations.
    result.plan.pacing = Pacing::Constant {
        rate_per_sec: 9.0,
        arrivals: Arrivals::Even,
        seed: 0,
    };
    assert_eq!(
        title(&result),
        "60 output tokens/s with p99 first token 80 ms"
    );
    result.recording.parts.conversations = Some(ConversationRecording {
        live_ns: vec![result.window.duration_ns * 7 / 2],
        ..ConversationRecording::new()
    });
    assert_eq!(
        title(&result),
        "60 output tokens/s for 3.5 users with p99 first token 80 ms"
    );
}

#[test]
fn the_target_rate_is_drawn_next_to_the_measured_one() {
    let mut result = fixture::stalled_result();
    let stage = |from_per_sec, to_per_sec| Stage {
        from_per_sec,
        to_per_sec,
        duration: Duration::from_secs(1),
    };
    result.plan.pacing = Pacing::Stages {
        stages: vec![stage(100.0, 100.0), stage(200.0, 400.0)],
        arrivals: Arrivals::Even,
        seed: 0,
    };
    let page = page_of_result(&result);
    let requests = chart(&page, "requests-over-time");
    check_marks(requests);
    let asked = &requests.marks[0];
    let values: Vec<f64> = asked.y.iter().flatten().copied().collect();
    assert_eq!(values, [100.0, 100.0, 200.0, 400.0, 400.0]);
    assert_eq!(asked.x.last(), Some(&3.02));
}

#[test]
fn sections_without_measurements_are_left_out() {
    let page = page_of_result(&fixture::result(Recording::new()));
    for missing in [
        "latency",
        "distribution",
        "over-time",
        "phases",
        "quic",
        "telemetry",
    ] {
        assert!(section(&page, missing).is_none(), "{missing}");
    }
    assert_eq!(charts(&page).count(), 0);
    let text = outline(&page);
    assert!(text.contains("No request was answered"), "{text}");
    assert!(text.contains("# p99: \u{2013}"), "{text}");
}

/// The lead and the large numbers of a page's verdict.
fn verdict_of(page: &Page) -> (String, Vec<(String, String)>) {
    let section = &page.sections[0];
    let figures = section.blocks.iter().find_map(|block| match block {
        Block::Figures { figures } => Some(figures.clone()),
        _ => None,
    });
    let figures = figures.into_iter().flatten();
    let figures = figures.map(|figure| (figure.label, figure.value));
    (section.lead.clone(), figures.collect())
}

#[test]
fn several_streams_per_connection_have_a_note() {
    let mut result = ordinary();
    (result.plan.load.protocol, result.plan.load.streams) = (plan::Protocol::Http2, 4);
    let page = page_of_result(&result);
    let is_note = |block: &&Block| match block {
        Block::Finding { text, .. } => text.starts_with("With 4 streams"),
        _ => false,
    };
    assert_eq!(page.sections[0].blocks.iter().filter(is_note).count(), 1);
}

#[test]
fn a_percentile_among_unanswered_requests_is_a_lower_bound() {
    let mut recording = fixture::answered(&[1_000_000; 90], 200, 150);
    for _ in 0..10 {
        recording.timed_out.record(100_000_000);
    }
    let (lead, figures) = verdict_of(&page_of_result(&fixture::result(recording)));
    assert!(
        lead.ends_with("; p50 1 ms, p99 \u{2265} 100 ms, slowest \u{2265} 100 ms."),
        "{lead}"
    );
    let value = |label: &str| {
        figures
            .iter()
            .find(|(name, _)| name == label)
            .unwrap()
            .1
            .clone()
    };
    assert_eq!(value("p50"), "1 ms");
    assert_eq!(value("p99"), "\u{2265} 100 ms");
    assert_eq!(value("Slowest"), "\u{2265} 100 ms");
}

#[test]
fn a_run_in_which_all_requests_timed_out_answered_nothing() {
    let mut recording = Recording::new();
    recording.timed_out.record(500_000_000);
    let (lead, figures) = verdict_of(&page_of_result(&fixture::result(recording)));
    assert_eq!(lead, "No request was answered in 3.02 s.");
    assert!(
        figures.contains(&("p50".to_owned(), "\u{2265} 500 ms".to_owned())),
        "{figures:?}"
    );
}

#[test]
fn the_command_to_repeat_a_run_has_the_random_seed() {
    let mut result = fixture::stalled_result();
    result.plan.pacing = Pacing::Constant {
        rate_per_sec: 200.0,
        arrivals: Arrivals::Poisson,
        seed: 4_711,
    };
    let text = outline(&page_of_result(&result));
    let command = "wrkbench --seed=4711 -t2 -c10 -d3s http://127.0.0.1:18100/ok";
    assert!(text.contains(command), "{text}");
    let typed = &mut result.environment.command_line;
    typed.insert(1, "--seed=4711".to_owned());
    let text = outline(&page_of_result(&result));
    assert_eq!(text.matches("--seed").count(), 1, "{text}");
}

/// Two runs of `old`, and two of `new` with another kernel.
fn four_runs() -> Vec<Observation> {
    let run = |number: u64, file: &str, kernel: &str| {
        let mut result = ordinary();
        result.recording.series.add(2_500, number * 10, 0, 0);
        result.recording.counters.answered += number * 10;
        result.environment.kernel = Some(kernel.to_owned());
        Observation {
            settings: vec![Setting {
                factor: FILE_FACTOR.to_owned(),
                level: file.to_owned(),
            }],
            ..observation(&result, &format!("{file}-{number}.json"))
        }
    };
    vec![
        run(1, "old", "Linux 6.1"),
        run(2, "old", "Linux 6.1"),
        run(3, "new", "Linux 6.12"),
        run(4, "new", "Linux 6.12"),
    ]
}

#[test]
fn the_page_of_two_groups_compares_them_and_lists_their_differences() {
    let mut runs = four_runs();
    runs.push(Observation {
        failure: Some("the file is empty".to_owned()),
        source: "new-5.json".to_owned(),
        ..runs[3].clone()
    });
    let conclusions = compare_cells(&runs, &CompareOptions::default()).unwrap();
    let page = build(&PageSubject {
        observations: &runs,
        conclusions: Some(&conclusions),
        notes: &["a.txt: skipped".to_owned()],
        title: Some("Old and new"),
        ..PageSubject::default()
    });
    check_page(&page);
    check_golden(&page, "page_overlay.txt");
    let colors = |id| -> Vec<(String, usize)> {
        let marks = chart(&page, id).marks.iter();
        marks
            .map(|marks| (marks.name.clone(), marks.color))
            .collect()
    };
    assert_eq!(
        colors("latency-by-percentile"),
        colors("requests-over-time")
    );
    // Two groups in two colours, each with its runs and the line of all.
    let of_side = |side: &str, color| {
        let colors = colors("latency-by-percentile");
        let mut marks = colors.iter().filter(|(name, _)| name.starts_with(side));
        assert!(marks.all(|(_, own)| *own == color), "{side}: {colors:?}");
    };
    of_side("old, ", 0);
    of_side("new, ", 1);
    assert_eq!(colors("latency-by-percentile").len(), 6);
}

#[test]
fn many_runs_are_faint_lines_below_the_line_of_all() {
    let mut runs = Vec::new();
    for number in 0..35 {
        let mut run = with_telemetry(ordinary());
        run.recording.service_time.record(number * 1_000_000);
        runs.push(observation(&run, &format!("run-{number}.json")));
    }
    let page = page_of(&runs);
    check_page(&page);
    for id in [
        "latency-by-percentile",
        "requests-over-time",
        "telemetry-rtt",
    ] {
        let marks = &chart(&page, id).marks;
        assert_eq!(marks.len(), 36, "{id}");
        let (median, runs) = marks.split_last().unwrap();
        assert!(runs.iter().all(|marks| marks.is_faint) && !median.is_faint);
        assert_eq!(median.name, "All 35 runs");
        assert!(median.y.iter().flatten().count() > 0, "{id}");
        let first = &runs[0];
        assert_eq!(first.labels.len(), first.x.len(), "{id}");
    }
    let bytes = serde_json::to_vec(&page).unwrap().len();
    assert!(bytes < 2_000_000, "{bytes} bytes");
}

#[test]
fn groups_of_one_run_are_one_line_each() {
    let runs: Vec<Observation> = (1..=13)
        .map(|connections| {
            let mut run = ordinary();
            run.plan.load.connections = connections;
            observation(&run, &format!("c{connections}.json"))
        })
        .collect();
    let page = page_of(&runs);
    check_page(&page);
    let marks = &chart(&page, "latency-by-percentile").marks;
    assert_eq!(marks.len(), 13);
    assert!(marks.iter().all(|marks| !marks.is_faint));
    let names: Vec<&str> = marks.iter().map(|marks| marks.name.as_str()).collect();
    assert!(names[0].contains("-c1"), "{names:?}");
}

#[test]
fn two_groups_have_a_strong_line_each() {
    let runs: Vec<Observation> = four_runs().into_iter().cycle().take(16).collect();
    let page = page_of(&runs);
    check_page(&page);
    let marks = &chart(&page, "latency-by-percentile").marks;
    let strong = marks.iter().filter(|marks| !marks.is_faint);
    let strong: Vec<(&str, usize)> = strong
        .map(|marks| (marks.name.as_str(), marks.color))
        .collect();
    assert_eq!(strong, [("old, all 8 runs", 0), ("new, all 8 runs", 1)]);
    let of_old = |marks: &&Marks| marks.is_faint && marks.color == 0;
    assert_eq!(marks.iter().filter(of_old).count(), 8);
}

#[test]
fn failed_runs_are_listed_and_not_drawn() {
    let failed = |number: u32| Observation {
        source: format!("run-{number}.txt"),
        run: number,
        failure: Some("there is no report in it".to_owned()),
        ..Observation::default()
    };
    let page = page_of(&[failed(1), failed(2)]);
    check_page(&page);
    let text = outline(&page);
    assert!(text.contains("Every run failed"), "{text}");
    assert!(
        text.contains("there is no report in it (run-2.txt)"),
        "{text}"
    );
    assert_eq!(charts(&page).count(), 0);
    let page = page_of(&[failed(1)]);
    check_page(&page);
    let text = outline(&page);
    assert!(
        text.contains("The run failed: there is no report in it."),
        "{text}"
    );
}

#[test]
fn a_page_without_runs_says_so() {
    let page = page_of(&[]);
    check_page(&page);
    assert!(outline(&page).contains("There is no run to show."));
}

#[test]
fn runs_of_another_load_or_request_are_no_repetitions() {
    type Change = fn(&mut RunResult);
    fn constant(arrivals: Arrivals) -> Pacing {
        Pacing::Constant {
            rate_per_sec: 2_000.0,
            arrivals,
            seed: 1,
        }
    }
    let changes: [(Change, &str); 13] = [
        (|_| {}, "-t2 -c10"),
        (|it| it.plan.load.batch_latency = true, "-t2 -c10 -B"),
        (
            |it| it.plan.load.source = SourceRange::parse("127.0.0.0/29").ok(),
            "-t2 -c10 -b 127.0.0.0/29",
        ),
        (
            |it| it.plan.pacing = constant(Arrivals::Even),
            "-t2 -c10 -R2000",
        ),
        (
            |it| it.plan.pacing = constant(Arrivals::Poisson),
            "-t2 -c10 -R2000 --arrivals poisson",
        ),
        (
            |it| {
                let stage = |from_per_sec, to_per_sec, seconds| Stage {
                    from_per_sec,
                    to_per_sec,
                    duration: Duration::from_secs(seconds),
                };
                it.plan.pacing = Pacing::Stages {
                    stages: vec![stage(1_000.0, 1_000.0, 30), stage(1_000.0, 5_000.0, 60)],
                    arrivals: Arrivals::Even,
                    seed: 1,
                };
            },
            "-t2 -c10 --stages 1000:30s,1000-5000:1m",
        ),
        (|it| it.plan.load.pipeline = 4, "-t2 -c10 --pipeline 4"),
        (
            |it| it.plan.load.keepalive = false,
            "-t2 -c10 --no-keepalive",
        ),
        (
            |it| it.plan.load.requests_per_connection = Some(7),
            "-t2 -c10 --requests-per-connection 7",
        ),
        (
            |it| it.plan.request.method = Some("PUT".to_owned()),
            "-t2 -c10 -X PUT",
        ),
        (
            |it| it.plan.request.headers = vec![("Accept".to_owned(), "*/*".to_owned())],
            "-t2 -c10 -H 'Accept: */*'",
        ),
        (
            |it| it.plan.request.body = Some(plan::Body::Inline(vec![b'x'; 1_000])),
            "-t2 -c10 --body xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx... \
             (1000 characters)",
        ),
        (
            |it| {
                it.plan.request.script = Some("post.lua".into());
                it.plan.request.script_args = vec!["a b".to_owned()];
            },
            "-t2 -c10 -s post.lua 'a b'",
        ),
    ];
    let runs: Vec<Observation> = changes
        .iter()
        .map(|(change, _)| {
            let mut result = ordinary();
            change(&mut result);
            observation(&result, "run.json")
        })
        .collect();
    for ((_, name), run) in changes.iter().zip(&runs) {
        assert_eq!(run.profile.as_deref(), Some(*name));
    }
    assert!(runs[1..].iter().all(|run| !run.is_same_cell(&runs[0])));
    assert!(observation(&ordinary(), "again.json").is_same_cell(&runs[0]));
}

#[test]
fn a_run_without_responses_has_no_numbers_of_the_server() {
    let mut result = fixture::result(Recording::default());
    result.generator = generator(450_000_000);
    result.generator.verdict = Verdict::Undisturbed;
    let text = outline(&page_of_result(&result));
    assert!(
        text.contains("[Neutral] Load generator OK: neither disturbed nor saturated."),
        "{text}"
    );
    assert!(!text.contains("the numbers are the server's"), "{text}");
}

/// A run of which there are these records, as lines of CSV without what is not shown.
fn recorded(records: impl Iterator<Item = (u32, u32, &'static str)>) -> Observation {
    let mut text = "due_time,due_us,sent_us,ended_us,status,error\n".to_owned();
    for (due_us, latency_us, error) in records {
        let ended_us = due_us + latency_us;
        text += &format!("t,{due_us}.0,{due_us}.0,{ended_us}.0,200,{error}\n");
    }
    let reading = Reading::of_bytes(text.as_bytes(), Path::new("r.csv")).expect("records");
    reading.observations.into_iter().next().expect("a run")
}

#[test]
fn a_run_with_records_has_a_point_for_each_request() {
    let page = page_of(&[recorded(
        [
            (1_000_000, 2_000, ""),
            (1_500_000, 900_000, "timeout"),
            (2_000_000, 0, "unsent"),
            (2_500_000, 5_000, ""),
        ]
        .into_iter(),
    )]);
    check_page(&page);
    let shown = section(&page, "requests").unwrap();
    assert!(shown.lead.contains("4 of 4 shown"), "{}", shown.lead);
    let chart = chart(&page, "requests-0");
    let all = chart.marks.iter();
    let all: Vec<_> = all
        .map(|marks| (marks.name.as_str(), marks.x.clone(), marks.y.clone()))
        .collect();
    let expected = [
        (
            "Response",
            vec![1.0, 2.5],
            vec![Some(2_000.0), Some(5_000.0)],
        ),
        ("Error: timeout", vec![1.5], vec![Some(900_000.0)]),
        // A logarithmic axis cannot show it.
        ("Error: unsent", vec![2.0], vec![None]),
    ];
    assert_eq!(all, expected);
    assert!(
        chart
            .description
            .contains("The slowest response took 5 ms, due at 2.5 s"),
        "{}",
        chart.description
    );
}

#[test]
fn of_many_requests_a_page_says_how_many_are_shown() {
    let records = |requests: u32| (0..requests).map(|number| (number * 100, number % 90, ""));
    let page = page_of(&[recorded(records(20_000))]);
    let lead = &section(&page, "requests").unwrap().lead;
    assert!(
        lead.contains("5,000 of 20,000 shown: the slowest, and"),
        "{lead}"
    );
    assert_eq!(chart(&page, "requests-0").marks[0].x.len(), 5_000);
    // Several files have a chart each.
    let [one, other] = [30, 40].map(|requests| recorded(records(requests)));
    let other = Observation {
        source: "other.csv".to_owned(),
        ..other
    };
    let page = page_of(&[one, other]);
    let titles = charts(&page).filter(|chart| chart.id.starts_with("requests-"));
    let titles: Vec<_> = titles.map(|chart| chart.title.clone()).collect();
    assert_eq!(titles.len(), 2, "{titles:?}");
    assert!(titles[1].ends_with(": 40 of 40 shown"), "{titles:?}");
}
