//! Any document as a saved result: it is refused with one line, or it can be checked, merged and
//! rendered in every format, and saving and loading it changes nothing.

#![no_main]

#[path = "../../crates/results/tests/fixture/mod.rs"]
mod fixture;
#[path = "../given.rs"]
mod given;

use std::io::Read;
use std::ops::Range;
use std::sync::LazyLock;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::read::ZlibDecoder;
use judging::Criterion;
use judging::sentences::{Sentence, verdict_lines};
use libfuzzer_sys::fuzz_target;
use plan::{Arrivals, Pacing, Stage};
use report::{Format, TextOptions};
use results::file::{load, save};
use results::{Histogram, MachineUsage, RunResult, WorkerUsage};

fuzz_target!(|data: &[u8]| {
    let Some((how, rest)) = data.split_first() else {
        return;
    };
    let document = match how % 3 {
        0 => Some(rest.to_vec()),
        1 => Some(with_values_replaced(rest)),
        _ => with_a_histogram(rest),
    };
    if let Some(document) = document {
        check(&document, how / 3);
    }
});

/// A document of a run at a fixed rate with every field filled, and the positions of its values.
static VALID: LazyLock<(Vec<u8>, Vec<Range<usize>>)> = LazyLock::new(|| {
    let result = valid();
    let document = saved(&result);
    assert_eq!(load(&document).as_ref(), Ok(&result));
    assert_eq!(results::check(&result), Ok(()));
    let values = values(&document);
    (document, values)
});

fn valid() -> RunResult {
    let mut recording = fixture::recording(60);
    recording.counters.due = 67;
    recording.counters.unsent = 4;
    recording.counters.in_flight_time_ns = 9_000_000;
    for sample in 1..=60 {
        recording.response_time.record(sample * 1_000_000);
        recording.lags.wakeup.record(sample);
        recording.lags.receive.record(sample * 10);
    }
    for sample in 1..=63 {
        recording.lags.send.record(sample * 1000);
        recording.lags.own.record(sample * 100);
    }
    for age_s in 1..=6 {
        recording.unanswered.record(age_s * 1_000_000_000);
    }
    let mut result = fixture::result(recording);
    result.plan.pacing = Pacing::Stages {
        stages: vec![Stage {
            from_per_sec: 10.0,
            to_per_sec: 40.0,
            duration: Duration::from_secs(3),
        }],
        arrivals: Arrivals::Poisson,
        seed: 7,
    };
    result.generator.workers = vec![WorkerUsage::default(); 2];
    result.generator.machine = Some(MachineUsage {
        cpus: 2,
        throttled_ns: Some(1),
        ..MachineUsage::default()
    });
    result
}

fn saved(result: &RunResult) -> Vec<u8> {
    let mut document = Vec::new();
    save(result, &[], &mut document).expect("memory takes every write");
    document
}

/// The positions of numbers, strings, `true`, `false` and `null`, without the names of fields.
fn values(document: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < document.len() {
        let rest = &document[at..];
        let length = match rest[0] {
            // No text in the valid document has an escape.
            b'"' => 2 + rest[1..].iter().position(|byte| *byte == b'"').unwrap_or(0),
            b'-' | b'0'..=b'9' | b'a'..=b'z' => rest
                .iter()
                .position(|byte| b",}] \n".contains(byte))
                .unwrap_or(rest.len()),
            _ => {
                at += 1;
                continue;
            }
        };
        let is_name = document.get(at + length) == Some(&b':');
        if !is_name {
            found.push(at..at + length);
        }
        at += length;
    }
    found
}

/// The valid document with some values replaced. For each: two bytes select the value, one is the
/// length of the text that replaces it.
fn with_values_replaced(mut edits: &[u8]) -> Vec<u8> {
    let (document, values) = &*VALID;
    let mut chosen = Vec::new();
    while let Some((&[low, high, length], rest)) = edits.split_first_chunk() {
        let which = usize::from(u16::from_le_bytes([low, high])) % values.len();
        let (text, rest) = rest.split_at(rest.len().min(usize::from(length)));
        chosen.push((which, text));
        edits = rest;
    }
    chosen.sort_by_key(|(which, _)| *which);
    chosen.dedup_by_key(|(which, _)| *which);
    let mut edited = Vec::new();
    let mut copied = 0;
    for (which, text) in chosen {
        edited.extend_from_slice(&document[copied..values[which].start]);
        edited.extend_from_slice(text);
        copied = values[which].end;
    }
    edited.extend_from_slice(&document[copied..]);
    edited
}

/// The positions of histograms in the document.
const HISTOGRAMS: [&str; 6] = [
    "/service_time",
    "/timed_out",
    "/response_time",
    "/unanswered",
    "/phases/connect",
    "/lags/own",
];

/// The most samples of a histogram.
const SAMPLES_MAX: usize = 6;

/// The valid document with another histogram, built from samples with counts of eight bytes each.
/// The rest of the input changes bytes of its encoding.
fn with_a_histogram(data: &[u8]) -> Option<Vec<u8>> {
    let (&[which, samples], mut rest) = data.split_first_chunk()?;
    let mut histogram = Histogram::new();
    for _ in 0..usize::from(samples) % (SAMPLES_MAX + 1) {
        let (value, behind) = rest.split_first_chunk()?;
        let (count, behind) = behind.split_first_chunk()?;
        histogram.record_n(u64::from_le_bytes(*value), u64::from_le_bytes(*count));
        rest = behind;
    }
    // A count of 2^63 has no encoding.
    let mut written = serde_json::to_value(&histogram).ok()?;
    let text = written["hdr_v2_deflate_base64"].take();
    let deflated = BASE64.decode(text.as_str()?).ok()?;
    let mut encoded = Vec::new();
    ZlibDecoder::new(deflated.get(8..)?)
        .read_to_end(&mut encoded)
        .expect("it was deflated");
    for edit in rest.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % (encoded.len() + 1);
        match encoded.get_mut(at) {
            Some(byte) => *byte = edit[2],
            None => encoded.push(edit[2]),
        }
    }
    let payload_length = u32::try_from(encoded.len().checked_sub(40)?).ok()?;
    encoded[4..8].copy_from_slice(&payload_length.to_be_bytes());
    // As in documents of version 1: the changed bytes would not inflate.
    written["hdr_v2_base64"] = BASE64.encode(&encoded).into();
    let mut document: serde_json::Value = serde_json::from_slice(&VALID.0).ok()?;
    let place = HISTOGRAMS[usize::from(which) % HISTOGRAMS.len()];
    *document.pointer_mut(place)? = written;
    serde_json::to_vec(&document).ok()
}

/// Does one thing with a valid document; doing all of them each time would be slow.
fn check(document: &[u8], what: u8) {
    let result = match load(document) {
        Ok(result) => result,
        Err(error) => return given::one_line(&error.to_string()),
    };
    match usize::from(what) % (4 + Format::ALL.len()) {
        0 => match results::check(&result) {
            Ok(()) => assert_eq!(load(&saved(&result)).as_ref(), Ok(&result)),
            Err(error) => given::one_line(&error.to_string()),
        },
        1 => judged(&result),
        2 => merged(&result),
        3 => assert_eq!(load(&saved(&result)).as_ref(), Ok(&result)),
        format => rendered(&result, Format::ALL[format - 4]),
    }
}

fn judged(result: &RunResult) {
    for warning in judging::warnings(result) {
        given::one_line(&warning.sentence());
    }
    verdict_lines(&judging::verdict(result, &[]))
        .into_iter()
        .for_each(|line| given::one_line(&line));
    for criterion in Criterion::parse_list("p99>1ms errors>1%").expect("they are fine") {
        criterion
            .failure(result)
            .iter()
            .for_each(|line| given::one_line(line));
    }
}

/// Merging with an empty recording changes nothing; with itself it may.
fn merged(result: &RunResult) {
    let mut recording = result.recording.clone();
    recording.merge(&results::Recording::new());
    assert_eq!(recording, result.recording);
    recording.merge(&result.recording);
}

fn rendered(result: &RunResult, format: Format) {
    let options = TextOptions {
        latency: true,
        uncorrected: true,
        breakout: true,
        ..TextOptions::default()
    };
    let mut output = Vec::new();
    report::render(result, format, &options, &mut output).expect("memory takes every write");
    assert!(!output.is_empty());
}
