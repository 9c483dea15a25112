//! Files with a record of each request (`--records`), read line by line: they may be larger than
//! the memory.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::path::Path;

use results::records::{Column, WithoutResponse};
use results::{ErrorKind, Histogram};
use serde::Deserialize;

use super::{ReadError, Reading, alone, not_understood, unreadable};
use crate::request_sample::Sampler;
use crate::{Form, Observation};

/// A longer line is none of ours.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// The percentiles of each time, as wrk prints them, and two for tails.
const PERCENTS: [f64; 6] = [50.0, 75.0, 90.0, 99.0, 99.9, 99.99];

/// Whether a file that begins like this has records.
pub(super) fn are_in(head: &[u8]) -> bool {
    let (first, second) = (Column::ALL[0].name(), Column::ALL[1].name());
    let json = format!("{{\"{first}\":");
    let csv = format!("{first},{second},");
    [json, csv].iter().any(|it| head.starts_with(it.as_bytes()))
}

/// Reads the records of a file as one run.
///
/// # Errors
/// If a line is no record, except for the last one, which may be cut off.
pub(super) fn read(input: &mut dyn BufRead, path: &Path) -> Result<Reading, ReadError> {
    let (mut totals, mut sampler) = (Totals::default(), Sampler::default());
    let mut columns: Option<Vec<Option<Column>>> = None;
    let (mut line, mut number, mut notes) = (Vec::new(), 0_u64, Vec::new());
    loop {
        line.clear();
        let mut limited = io::Read::take(&mut *input, LINE_BYTES_MAX);
        let bytes = limited.read_until(b'\n', &mut line);
        if bytes.map_err(|error| unreadable(path, error))? == 0 {
            break;
        }
        number += 1;
        let is_whole = line.ends_with(b"\n");
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if number == 1 && !text.starts_with('{') {
            columns = Some(split(text).iter().map(|it| Column::from_name(it)).collect());
            continue;
        }
        let record = match &columns {
            None => serde_json::from_str(text).ok(),
            Some(columns) => of_csv(text, columns),
        };
        match record {
            Some(record) if is_whole => {
                totals.add(&record);
                sampler.add(record.point(), record.error.as_deref());
            }
            _ if !is_whole && line.len() < LINE_BYTES_MAX as usize => {
                let name = path.display();
                notes.push(format!("{name}: line {number} is cut off and was left out"));
            }
            _ => {
                let reason = format!("line {number} is no record of a request");
                return Err(not_understood(path, &reason));
            }
        }
    }
    if totals.requests == 0 {
        return Err(not_understood(path, "no request has a record in it"));
    }
    let observation = Observation {
        source: path.display().to_string(),
        form: Form::Object,
        run: 1,
        values: totals.values(),
        requests: Some(Box::new(sampler.finish())),
        ..Observation::default()
    };
    Ok(Reading {
        notes,
        ..alone(observation)
    })
}

/// What of a record the values of a run need. Microseconds.
#[derive(Debug, Default, Deserialize)]
struct Record<'a> {
    due_us: f64,
    sent_us: Option<f64>,
    first_byte_us: Option<f64>,
    #[serde(default)]
    first_token_us: Option<f64>,
    ended_us: f64,
    status: Option<u16>,
    #[serde(borrow)]
    error: Option<Cow<'a, str>>,
    bytes: Option<u64>,
}

impl Record<'_> {
    /// When it was due in seconds, and its latency in microseconds.
    fn point(&self) -> (f64, f64) {
        (self.due_us / 1e6, (self.ended_us - self.due_us).max(0.0))
    }
}

/// The fields of a line of CSV (RFC 4180).
fn split(line: &str) -> Vec<Cow<'_, str>> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let Some(quoted) = rest.strip_prefix('"') else {
            let Some((field, more)) = rest.split_once(',') else {
                fields.push(rest.into());
                return fields;
            };
            fields.push(field.into());
            rest = more;
            continue;
        };
        let mut end = 0;
        while let Some(at) = quoted[end..].find('"') {
            end += at;
            if !quoted[end + 1..].starts_with('"') {
                break;
            }
            end += 2;
        }
        fields.push(quoted[..end].replace("\"\"", "\"").into());
        match quoted.get(end + 1..).and_then(|it| it.strip_prefix(',')) {
            Some(more) => rest = more,
            None => return fields,
        }
    }
}

fn of_csv<'a>(line: &'a str, columns: &[Option<Column>]) -> Option<Record<'a>> {
    let fields = split(line);
    if fields.len() != columns.len() {
        return None;
    }
    let mut record = Record::default();
    for (column, field) in columns.iter().zip(fields) {
        if field.is_empty() {
            continue;
        }
        match column {
            Some(Column::Due) => record.due_us = field.parse().ok()?,
            Some(Column::Sent) => record.sent_us = Some(field.parse().ok()?),
            Some(Column::FirstByte) => record.first_byte_us = Some(field.parse().ok()?),
            Some(Column::FirstToken) => record.first_token_us = Some(field.parse().ok()?),
            Some(Column::Ended) => record.ended_us = field.parse().ok()?,
            Some(Column::Status) => record.status = Some(field.parse().ok()?),
            Some(Column::Error) => record.error = Some(field),
            Some(Column::Bytes) => record.bytes = Some(field.parse().ok()?),
            _ => {}
        }
    }
    Some(record)
}

/// What the records of a run add up to.
#[derive(Default)]
struct Totals {
    requests: u64,
    answered: u64,
    failed: u64,
    timed_out: u64,
    over_399: u64,
    bytes: u64,
    /// Some request was sent later than it was due, so the run had a rate.
    is_open: bool,
    latency: Histogram,
    /// Of requests that were in flight or not sent at the end: lower limits of their latencies,
    /// which count if the run had a rate.
    ages: Histogram,
    service_time: Histogram,
    first_byte: Histogram,
    first_token: Histogram,
}

impl Totals {
    fn add(&mut self, record: &Record<'_>) {
        let ns = |from_us: f64, to_us: f64| ((to_us - from_us).max(0.0) * 1e3).round() as u64;
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(record.bytes.unwrap_or(0));
        let sent_us = record.sent_us.unwrap_or(record.ended_us);
        self.is_open |= sent_us > record.due_us;
        let latency_ns = ns(record.due_us, record.ended_us);
        if let Some(first_us) = record.first_token_us {
            self.first_token.record(ns(record.due_us, first_us));
        }
        let reason = record.error.as_deref();
        match reason.and_then(WithoutResponse::from_name) {
            None if reason.is_none() => {
                self.answered += 1;
                self.over_399 += u64::from(record.status.is_some_and(|status| status > 399));
                self.latency.record(latency_ns);
                self.service_time.record(ns(sent_us, record.ended_us));
                if let Some(first_us) = record.first_byte_us {
                    self.first_byte.record(ns(sent_us, first_us));
                }
            }
            Some(WithoutResponse::InFlight | WithoutResponse::Unsent) => {
                self.ages.record(latency_ns);
            }
            Some(WithoutResponse::Failed(ErrorKind::Timeout)) => {
                self.failed += 1;
                self.timed_out += 1;
                self.latency.record(latency_ns);
            }
            // A kind of error of another version is one, too.
            Some(WithoutResponse::Failed(_)) | None => self.failed += 1,
        }
    }

    fn values(mut self) -> BTreeMap<String, f64> {
        if self.is_open {
            self.latency.merge(&self.ages);
        }
        let counts = [
            ("requests", self.answered),
            ("errors", self.failed),
            ("errors_timeout", self.timed_out),
            ("statuses_over_399", self.over_399),
            ("unanswered", self.requests - self.answered),
            ("bytes", self.bytes),
        ];
        let counts = counts.map(|(name, count)| (name.to_owned(), count as f64));
        let mut values = BTreeMap::from(counts);
        for (name, times) in [
            ("latency", &self.latency),
            ("service_time", &self.service_time),
            ("first_byte", &self.first_byte),
            ("first_token", &self.first_token),
        ] {
            let (Some(min_ns), Some(max_ns)) = (times.min_ns(), times.max_ns()) else {
                continue;
            };
            let mut insert = |statistic: &str, ns: f64| {
                values.insert(format!("{name}_{statistic}_us"), ns / 1e3);
            };
            insert("min", min_ns as f64);
            insert("max", max_ns as f64);
            insert("mean", times.mean_ns());
            insert("stdev", times.stdev_ns());
            let at = times.values_at_percentiles(&PERCENTS);
            for (percent, ns) in PERCENTS.iter().zip(at) {
                insert(&format!("p{percent}"), ns as f64);
            }
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = concat!(
        "{\"due_time\":\"2026-11-30T18:31:48.000001Z\",\"due_us\":1000.000,\"sent_us\":1000.000,",
        "\"first_byte_us\":1500.000,\"ended_us\":3000.000,\"own_us\":0.000,\"status\":404,",
        "\"error\":null,\"bytes\":100,\"thread\":0,\"connection\":0}\n",
        "{\"due_time\":\"2026-11-30T18:31:48.000001Z\",\"due_us\":1000.000,\"sent_us\":1000.000,",
        "\"first_byte_us\":null,\"ended_us\":11000.000,\"own_us\":0.000,\"status\":null,",
        "\"error\":\"timeout\",\"bytes\":null,\"thread\":0,\"connection\":1}\n",
        "{\"due_time\":\"2026-11-30T18:31:48.000001Z\",\"due_us\":1000.000,\"sent_us\":1000.000,",
        "\"first_byte_us\":null,\"ended_us\":91000.000,\"own_us\":0.000,\"status\":null,",
        "\"error\":\"in_flight\",\"bytes\":null,\"thread\":0,\"connection\":1}\n",
    );

    const CSV: &str = "due_time,due_us,sent_us,first_byte_us,ended_us,own_us,status,error,bytes,\
        name,thread,connection\n\
        2026-11-30T18:31:48.000001Z,1000.000,1000.000,1500.000,3000.000,0.000,404,,100,\
        \"a \"\"b\"\", c\",0,0\n\
        2026-11-30T18:31:48.000001Z,1000.000,1000.000,,11000.000,0.000,,timeout,,b,0,1\n\
        2026-11-30T18:31:48.000001Z,1000.000,1000.000,,91000.000,0.000,,in_flight,,b,0,1\n";

    fn reading(text: &str) -> Result<Reading, ReadError> {
        Reading::of_bytes(text.as_bytes(), Path::new("r"))
    }

    #[test]
    fn records_in_both_forms_are_a_run() {
        for text in [JSON, CSV] {
            let reading = reading(text).expect("they are records");
            let values = &reading.observations[0].values;
            for (name, expected) in [
                ("requests", 1.0),
                ("errors", 1.0),
                ("errors_timeout", 1.0),
                ("statuses_over_399", 1.0),
                ("unanswered", 2.0),
                ("bytes", 100.0),
                ("latency_min_us", 2_000.0),
                // In a closed loop, those in flight at the end count in no percentile.
                ("latency_max_us", 10_000.0),
                ("first_byte_max_us", 500.0),
                ("service_time_max_us", 2_000.0),
            ] {
                assert_eq!(values.get(name), Some(&expected), "{name}");
            }
        }
    }

    #[test]
    fn the_requests_themselves_are_kept_for_a_chart() {
        for text in [JSON, CSV] {
            let reading = reading(text).expect("they are records");
            let sample = reading.observations[0].requests.as_deref();
            let sample = sample.expect("each has a record");
            assert_eq!(sample.total, 3);
            let all = sample.requests.iter();
            let all = all.map(|it| (it.due_s, it.latency_us, it.error.as_deref()));
            let expected = [
                (0.001, 2_000.0, None),
                (0.001, 10_000.0, Some("timeout")),
                (0.001, 90_000.0, Some("in_flight")),
            ];
            assert_eq!(Vec::from_iter(all), expected);
        }
    }

    #[test]
    fn with_a_rate_requests_without_a_response_count_with_their_age() {
        let text = CSV.replacen("1000.000,1000.000", "1000.000,1000.001", 1);
        let reading = reading(&text).expect("they are records");
        let values = &reading.observations[0].values;
        assert_eq!(values.get("latency_max_us"), Some(&90_000.0));
    }

    #[test]
    fn a_line_that_is_cut_off_at_the_end_is_left_out_with_a_note() {
        for text in [JSON, CSV] {
            let reading = reading(&text[..text.len() - 20]).expect("two are whole");
            assert_eq!(reading.observations[0].values["unanswered"], 1.0);
            assert_eq!(reading.notes.len(), 1, "{:?}", reading.notes);
            assert!(reading.notes[0].ends_with("is cut off and was left out"));
        }
    }

    #[test]
    fn a_line_that_is_no_record_is_refused_with_its_number() {
        for (text, line) in [
            (JSON.replacen("1000.000", "x", 1), 1),
            (CSV.replacen("3000.000", "x", 1), 2),
            (CSV.replacen(",b,0,1\n", ",b,0\n", 1), 3),
            (format!("{CSV}\n"), 5),
        ] {
            let error = reading(&text).expect_err("a line is wrong").to_string();
            assert_eq!(error, format!("r: line {line} is no record of a request"));
        }
        let header = CSV.lines().next().expect("a header");
        let error = reading(&format!("{header}\n")).expect_err("nothing in it");
        assert_eq!(error.to_string(), "r: no request has a record in it");
    }
}
