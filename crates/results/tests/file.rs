//! Saved results: they are read back as they were written, and no input makes the reader panic.

mod fixture;

use results::file::{
    LoadError, load, load_experiment, load_trial, save, save_experiment, save_trial,
};
use results::{
    ErrorKind, Histogram, QuicRecording, Recording, RunResult, TrialOutcome, WorkerLags,
};
use serde_json::json;

fn saved(result: &RunResult) -> Vec<u8> {
    let mut bytes = Vec::new();
    save(result, &[], &mut bytes).expect("writing to memory cannot fail");
    bytes
}

#[test]
fn a_result_is_read_back_as_it_was_saved() {
    for recording in [
        fixture::recording(2000),
        fixture::recording(3),
        Recording::new(),
    ] {
        let result = fixture::result(recording);
        let bytes = saved(&result);
        let read = load(&bytes).unwrap();
        assert_eq!(read, result);
        assert_eq!(saved(&read), bytes);
    }
}

#[test]
fn the_document_has_two_space_indentation_and_one_line_per_row_of_a_list() {
    let text = String::from_utf8(saved(&fixture::result(fixture::recording(300)))).unwrap();
    assert!(text.starts_with("{\n  \"schema_version\": 2,\n  \"plan\": {\n    \"target\": {\n"));
    assert!(text.ends_with("\n}\n"));
    assert!(
        text.contains(
            "\n      {\"start_ms\": 100, \"answered\": 10, \"errors\": 0, \"bytes\": 1450}"
        ),
        "{text}"
    );
}

#[test]
fn the_summary_has_the_requested_percentiles_and_the_usual_ones() {
    let mut bytes = Vec::new();
    let result = fixture::result(fixture::recording(2000));
    save(&result, &[99.5, 50.0, 120.0, f64::NAN], &mut bytes).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let percents: Vec<f64> = document["summary"]["latency"]["percentiles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["percent"].as_f64().unwrap())
        .collect();
    assert_eq!(
        percents,
        [
            50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.99, 99.999, 100.0
        ]
    );
    assert_eq!(document["summary"]["latency"]["max_ns"], 2_000_000_000_u64);
    assert_eq!(document["summary"]["latency"]["count"], 2001);
}

#[test]
fn the_summary_has_fields_in_milliseconds_and_the_failed_requests() {
    let mut bytes = Vec::new();
    let result = fixture::result(fixture::recording(2000));
    save(&result, &[99.5], &mut bytes).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let latency = &document["summary"]["latency"];
    for row in latency["percentiles"].as_array().unwrap() {
        let percent = row["percent"].as_f64().unwrap();
        let key = match percent {
            100.0 => "max_ms".to_owned(),
            percent => format!("p{}_ms", percent.to_string().replace('.', "_")),
        };
        let expected = row["value_ns"].as_f64().unwrap() / 1e6;
        assert_eq!(latency[&key], expected, "{key}");
    }
    assert!(latency["p99_5_ms"].is_f64() && latency["p99_9_ms"].is_f64());
    let mean_ns = latency["mean_ns"].as_f64().unwrap();
    let mean_ms = latency["mean_ms"].as_f64().unwrap();
    assert!((mean_ms * 1e6 - mean_ns).abs() < 1e-3);
    assert_eq!(
        document["summary"]["failed"],
        result.recording.errors.exchanges()
    );
    assert!(result.recording.errors.exchanges() > 0);
    let empty = saved(&fixture::result(Recording::new()));
    let document: serde_json::Value = serde_json::from_slice(&empty).unwrap();
    assert!(document["summary"]["latency"].get("p99_ms").is_none());
}

#[test]
fn unknown_values_are_not_written() {
    fn nulls(value: &serde_json::Value, path: &str, found: &mut Vec<String>) {
        match value {
            serde_json::Value::Null => found.push(path.to_owned()),
            serde_json::Value::Array(items) => {
                items.iter().for_each(|item| nulls(item, path, found));
            }
            serde_json::Value::Object(fields) => fields
                .iter()
                .for_each(|(name, field)| nulls(field, &format!("{path}.{name}"), found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    for recording in [fixture::recording(20), Recording::new()] {
        let mut result = fixture::result(recording);
        result.telemetry = Some(results::Telemetry {
            sockets: Some(results::SocketSummary::default()),
            ..results::Telemetry::default()
        });
        result.generator.machine = Some(results::MachineUsage::default());
        let document = serde_json::from_slice(&saved(&result)).unwrap();
        nulls(&document, "", &mut found);
        assert_eq!(load(&saved(&result)), Ok(result));
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn documents_of_version_1_are_read_and_written_as_they_are_now() {
    let result = load(include_bytes!("version_1/result.json")).unwrap();
    assert_eq!(results::check(&result), Ok(()));
    assert_eq!(result.recording.counters.answered, 40);
    let latency = result.recording.latency();
    assert_eq!(latency.value_at_percentile(90.0), 670_719);
    assert_eq!((latency.count(), latency.max_ns()), (40, Some(2_795_343)));
    let [row] = result.recording.intervals.rows() else {
        panic!("one second has one row");
    };
    assert_eq!(row.samples[..2], [(84_799, 1), (86_207, 1)]);
    assert_eq!(row.histogram().count(), 40);
    let rates: Vec<(u64, u64)> = result.recording.rates.distinct().collect();
    assert_eq!(rates, [(18, 8), (19, 8), (29, 2)]);
    let sends = result.generator.lags.iter().map(|lags| lags.send);
    let sends: Vec<(u64, u64)> = sends.map(|send| (send.count, send.max_ns)).collect();
    assert_eq!(sends, [(20, 2_682_085), (20, 1_095_505)]);
    // The same, in the current form.
    let bytes = saved(&result);
    assert!(bytes.starts_with(b"{\n  \"schema_version\": 2,"));
    assert_eq!(load(&bytes), Ok(result));

    let trial = load_trial(include_bytes!("version_1/trial.json")).unwrap();
    let TrialOutcome::Finished(result) = &trial.outcome else {
        panic!("it was measured");
    };
    assert_eq!(result.recording.counters.answered, 20);
    let mut bytes = Vec::new();
    save_trial(&trial, &mut bytes).unwrap();
    assert_eq!(load_trial(&bytes), Ok(trial));
    let experiment = load_experiment(include_bytes!("version_1/experiment.json")).unwrap();
    assert_eq!(experiment.cells.len(), 2);
    let mut bytes = Vec::new();
    save_experiment(&experiment, &mut bytes).unwrap();
    assert_eq!(load_experiment(&bytes), Ok(experiment));
}

#[test]
fn documents_with_options_that_were_removed_are_read() {
    let mut recording = fixture::recording(20);
    recording.parts.quic = Some(QuicRecording::default());
    recording.errors.add(ErrorKind::ReadOther, 1);
    let mut result = fixture::result(recording);
    let mut document: serde_json::Value = serde_json::from_slice(&saved(&result)).unwrap();
    document["plan"]["qlog"] = "logs".into();
    document["quic_log"] = json!({
        "file": "logs/connection-1.sqlog",
        "events": 7,
        "events_left_out": 0,
    });
    document["plan"]["load"]["local_port_rebind_ns"] = 5_000_000_000_u64.into();
    document["quic"]["migrations"] = 3.into();
    document["errors"]["migration"] = json!({ "events": 1, "exchanges": 4 });
    // Its requests stay failed requests.
    result.recording.errors.add(ErrorKind::ReadOther, 4);
    assert_eq!(load(document.to_string().as_bytes()), Ok(result));
}

#[test]
fn a_result_of_15_seconds_takes_less_than_100_kilobytes() {
    // Fifteen seconds with a rate and four threads, with thousands of different latencies each.
    let mut random = fastrand::Rng::with_seed(3);
    let mut recording = fixture::recording(2000);
    let mut of_second = Histogram::new();
    for second in 0..15 {
        of_second.clear();
        for _ in 0..10_000 {
            let noise: f64 = (0..6).map(|_| random.f64()).sum::<f64>() / 3.0 - 1.0;
            of_second.record((1e6 * (2.0 * noise).exp()) as u64);
        }
        recording.intervals.add(1000 * second, &of_second);
        for histogram in [
            &mut recording.service_time,
            &mut recording.response_time,
            &mut recording.phases.first_byte,
            &mut recording.lags.send,
            &mut recording.lags.own,
            &mut recording.lags.wakeup,
        ] {
            histogram.merge(&of_second);
        }
        for tenth in 0..10 {
            recording
                .series
                .add(1000 * second + 100 * tenth, 1000, 0, 145_000);
            (0..4).for_each(|_| recording.rates.add(random.u64(2000..3000)));
        }
    }
    let mut result = fixture::result(recording);
    let lags = &result.recording.lags;
    result.generator.lags = (0..4).map(|worker| WorkerLags::of(worker, lags)).collect();
    let bytes = saved(&result);
    assert!(bytes.len() < 100_000, "{}", bytes.len());
}

#[test]
fn percentiles_say_whether_there_are_enough_samples() {
    let bytes = saved(&fixture::result(fixture::recording(1000)));
    let document: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let enough: Vec<bool> = document["summary"]["latency"]["percentiles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["enough_samples"].as_bool().unwrap())
        .collect();
    assert_eq!(
        enough,
        [true, true, true, true, true, false, false, false, true]
    );
}

#[test]
fn a_result_of_a_later_version_is_rejected() {
    let text = String::from_utf8(saved(&fixture::result(Recording::new()))).unwrap();
    let later = text.replace("\"schema_version\": 2", "\"schema_version\": 3");
    let error = load(later.as_bytes()).unwrap_err();
    assert_eq!(error, LoadError::Newer { found: 3, known: 2 });
    assert!(error.to_string().contains("use a newer wrkbench"));
    // Also if everything else has changed.
    assert_eq!(
        load(b"{\"schema_version\": 9, \"x\": []}"),
        Err(LoadError::Newer { found: 9, known: 2 })
    );
    let never = text.replace("\"schema_version\": 2", "\"schema_version\": 0");
    assert_eq!(
        load(never.as_bytes()),
        Err(LoadError::NoSuchVersion { found: 0 })
    );
}

#[test]
fn invalid_documents_are_rejected_with_the_position() {
    let nested = "[".repeat(100_000);
    let deep = format!("{{\"schema_version\": 1, \"plan\": {nested}");
    for document in [
        "",
        "{}",
        "null",
        "[]",
        "wrk",
        "{\"schema_version\": \"1\"}",
        &nested,
        &deep,
    ] {
        let error = load(document.as_bytes()).unwrap_err();
        assert!(
            matches!(error, LoadError::NotAResult { .. }),
            "{document:.40} gives {error}"
        );
        assert!(error.to_string().contains("line 1"), "{error}");
        assert_eq!(error.to_string().lines().count(), 1);
    }
}

#[test]
fn a_document_truncated_at_any_byte_is_rejected() {
    let bytes = saved(&fixture::result(fixture::recording(12)));
    let end = bytes.iter().rposition(|&byte| byte == b'}').unwrap();
    for length in 0..=end {
        assert!(load(&bytes[..length]).is_err(), "cut at byte {length}");
    }
    assert!(load(&bytes[..=end]).is_ok());
}

#[test]
fn a_randomly_damaged_document_is_read_or_rejected_without_a_panic() {
    let bytes = saved(&fixture::result(fixture::recording(12)));
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..3000 {
        let mut damaged = bytes.clone();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..damaged.len());
            match random.u8(..4) {
                0 => damaged[at] = random.u8(..),
                1 => damaged[at] = b"0123456789-.eE\"{}[],:"[random.usize(..21)],
                2 => {
                    let end = (at + random.usize(..9)).min(damaged.len());
                    damaged.drain(at..end);
                }
                _ => damaged.insert(at, b'9'),
            }
        }
        if let Ok(read) = load(&damaged) {
            // An accepted document must be usable.
            let _ = results::check(&read);
            saved(&read);
        }
    }
}

#[test]
fn a_document_of_the_largest_counts_can_be_read_merged_and_saved() {
    let text = String::from_utf8(saved(&fixture::result(fixture::recording(12)))).unwrap();
    let max = u64::MAX;
    let text = text
        .replace("\"answered\": 12", &format!("\"answered\": {max}"))
        .replace("\"200\": 11", &format!("\"200\": {max}"))
        .replace("\"events\": 1,", &format!("\"events\": {max},"))
        .replace(", 1]", &format!(", {max}]"));
    let read = load(text.as_bytes()).unwrap();
    let mut recording = read.recording.clone();
    recording.merge(&read.recording);
    assert_eq!(recording.counters.answered, max);
    assert_eq!(recording.statuses.count(200), max);
    saved(&fixture::result(recording));
}

#[test]
fn merging_recordings_adds_everything_once() {
    let mut merged = fixture::recording(100);
    merged.merge(&fixture::recording(40));
    let result = fixture::result(merged);
    assert_eq!(results::check(&result), Ok(()));
    let recording = &result.recording;
    assert_eq!(recording.counters.sent, 146);
    assert_eq!(recording.phases.connect.count(), 8);
    assert_eq!(recording.rates.count(), 8);
    assert_eq!(recording.statuses.count(404), 3);
    assert_eq!(recording.latency().count(), 142);
}

#[test]
fn recordings_merge_in_any_order_and_grouping() {
    let parts = [
        fixture::recording(9),
        fixture::recording(100),
        Recording::new(),
    ];
    let mut forward = Recording::new();
    parts.iter().for_each(|part| forward.merge(part));
    let mut backward = Recording::new();
    parts.iter().rev().for_each(|part| backward.merge(part));
    assert_eq!(forward, backward);
    let mut pair = parts[1].clone();
    pair.merge(&parts[2]);
    let mut grouped = parts[0].clone();
    grouped.merge(&pair);
    assert_eq!(forward, grouped);
    assert_ne!(forward.service_time, Histogram::new());
}
