//! The metrics of a run in progress that other programs get: one table for all protocols.
//!
//! Names are those of OpenTelemetry, from its semantic conventions where these have one. Prometheus
//! gets the names that it makes of them itself when it receives OTLP, so that the same queries work
//! whichever way the metrics came.

use crate::snapshot::{Snapshot, Stage};
use crate::{ErrorCount, ErrorKind, Histogram, Verdict, parts};
use presentation::Unit;

/// What the values of a metric are read from.
#[derive(Debug, Clone, Copy)]
pub struct ExportedRun<'a> {
    /// The latest one, or that of the result ([`Snapshot::at_end`]).
    pub snapshot: &'a Snapshot,
    /// Known when the run has ended.
    pub verdict: Option<&'a Verdict>,
}

/// How values of a metric add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instrument {
    /// A total since the start of the window.
    Counter,
    /// A number now, of which a sum over machines makes sense.
    UpDownCounter,
    /// A number now.
    Gauge,
    /// A distribution of times since the start of the window.
    Histogram,
}

/// The values of a metric.
#[derive(Debug)]
pub enum Value<'a> {
    /// A measured number.
    Number(f64),
    /// A whole number.
    Count(u64),
    /// A count for each value of the metric's attribute.
    Parts(Vec<(String, u64)>),
    /// Times in nanoseconds.
    Times(&'a Histogram),
}

/// A metric that other programs get.
pub struct ExportedMetric {
    /// As in OpenTelemetry: `http.client.request.duration`.
    pub name: &'static str,
    /// How its values add up.
    pub instrument: Instrument,
    /// The unit of its values; those in [`Value::Times`] are nanoseconds.
    pub unit: Unit,
    /// What it counts, in the singular; empty if it is no count.
    pub things: &'static str,
    /// What tells the parts of its count apart, as in OpenTelemetry; `None` if it has none.
    pub attribute: Option<&'static str>,
    /// What it is, one line without a full stop.
    pub description: &'static str,
    /// `None` if it is not known or not measured.
    pub value: for<'a> fn(ExportedRun<'a>) -> Option<Value<'a>>,
}

impl ExportedMetric {
    /// The name in Prometheus: dots become underscores, and the unit and `total` are appended
    /// (OpenTelemetry, "Prometheus and OpenMetrics Compatibility").
    #[must_use]
    pub fn prometheus_name(&self) -> String {
        let unit = match (self.unit, self.instrument) {
            (Unit::Seconds, _) => "_seconds",
            (Unit::Bytes, _) => "_bytes",
            (Unit::Ratio, Instrument::Gauge) => "_ratio",
            _ => "",
        };
        let total = match self.instrument {
            Instrument::Counter => "_total",
            Instrument::UpDownCounter | Instrument::Gauge | Instrument::Histogram => "",
        };
        format!("{}{unit}{total}", prometheus_label(self.name))
    }
}

/// The name of an attribute as a label of Prometheus.
#[must_use]
pub fn prometheus_label(name: &str) -> String {
    let may = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().map(|c| if may(c) { c } else { '_' }).collect()
}

pub(crate) fn metric(
    name: &'static str,
    (instrument, unit, things): (Instrument, Unit, &'static str),
    description: &'static str,
    value: for<'a> fn(ExportedRun<'a>) -> Option<Value<'a>>,
) -> ExportedMetric {
    ExportedMetric {
        name,
        instrument,
        unit,
        things,
        attribute: None,
        description,
        value,
    }
}

fn has_rate(state: ExportedRun<'_>) -> bool {
    // A rate has requests due from the start on.
    state.snapshot.counters.due > 0 || !state.snapshot.send_lag.is_empty()
}

/// The latency, by its name in OpenTelemetry's semantic conventions.
pub const REQUEST_DURATION: &str = "http.client.request.duration";

/// How requests are counted.
pub(crate) const REQUESTS: (Instrument, Unit, &str) = (Instrument::Counter, Unit::Count, "request");

/// How times are distributed.
pub(crate) const TIMES: (Instrument, Unit, &str) = (Instrument::Histogram, Unit::Seconds, "");

/// All of them: those of every run, and those of the parts.
#[must_use]
#[rustfmt::skip]
pub fn exported() -> Vec<ExportedMetric> {
    use Instrument::{Counter, Gauge, UpDownCounter};
    let mut metrics = vec![
        metric(REQUEST_DURATION, TIMES,
            "Latency of requests: from due to the last byte with a rate, otherwise from sending",
            |it| Some(Value::Times(&it.snapshot.latency))),
        metric("wrkbench.requests", REQUESTS,
            "Responses that were complete within the window",
            |it| Some(Value::Count(it.snapshot.counters.responses()))),
        metric("wrkbench.requests.sent", REQUESTS,
            "Requests sent within the window",
            |it| Some(Value::Count(it.snapshot.counters.sent))),
        metric("wrkbench.requests.due", REQUESTS,
            "With a rate: requests that were due within the window",
            |it| has_rate(it).then_some(Value::Count(it.snapshot.counters.due))),
        metric("wrkbench.requests.in_flight", (UpDownCounter, Unit::Count, "request"),
            "Requests sent and not yet answered",
            |it| Some(Value::Count(it.snapshot.counters.in_flight))),
        ExportedMetric { attribute: Some("http.response.status_code"), ..metric(
            "wrkbench.responses", (Counter, Unit::Count, "response"),
            "Responses of the window by status",
            |it| {
                let statuses = it.snapshot.statuses.iter();
                Some(Value::Parts(statuses.map(|(code, n)| (code.to_string(), n)).collect()))
            }) },
        ExportedMetric { attribute: Some("error.type"), ..metric(
            "wrkbench.errors", (Counter, Unit::Count, "error"),
            "Errors of the window by kind",
            |it| {
                let errors = it.snapshot.errors.iter();
                let part = |(kind, count): (ErrorKind, ErrorCount)| {
                    (kind.name().to_owned(), count.events)
                };
                Some(Value::Parts(errors.map(part).collect()))
            }) },
        metric("wrkbench.received", (Counter, Unit::Bytes, ""),
            "Bytes of responses that arrived within the window",
            |it| Some(Value::Count(it.snapshot.counters.bytes))),
        metric("wrkbench.connections.opened", (Counter, Unit::Count, "connection"),
            "Connections opened within the window",
            |it| Some(Value::Count(it.snapshot.counters.connections_opened))),
        metric("http.client.open_connections", (UpDownCounter, Unit::Count, "connection"),
            "Connections that are open",
            |it| Some(Value::Count(it.snapshot.open_connections))),
        metric("wrkbench.send_lag", TIMES,
            "With a rate: from due to sent",
            |it| has_rate(it).then_some(Value::Times(&it.snapshot.send_lag))),
        metric("wrkbench.generator.cpu", (Gauge, Unit::Ratio, ""),
            "CPU use of the busiest worker thread in the last second",
            |it| it.snapshot.busiest_worker.map(Value::Number)),
        metric("wrkbench.generator.saturated", (Gauge, Unit::Number, ""),
            "Whether the load generator limited the load; known when the run has ended",
            |it| match it.verdict? {
                Verdict::Unknown => None,
                verdict => Some(Value::Count(u64::from(verdict.is_saturated()))),
            }),
        metric("wrkbench.warming_up", (Gauge, Unit::Number, ""),
            "Whether the run is warming up, which the other metrics leave out",
            |it| Some(Value::Count(u64::from(it.snapshot.stage == Stage::WarmingUp)))),
    ];
    metrics.extend(parts::ALL.iter().flat_map(|part| (part.exported)()));
    metrics
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::{
        ConversationRecording, Counters, Errors, GoodRecording, LlmRecording, PartRecordings,
        Statuses,
    };

    use super::*;

    #[test]
    fn names_in_prometheus_are_those_that_it_makes_of_the_names_in_otlp() {
        let names: Vec<String> = exported()
            .iter()
            .map(ExportedMetric::prometheus_name)
            .collect();
        for expected in [
            "http_client_request_duration_seconds",
            "wrkbench_requests_total",
            "wrkbench_requests_in_flight",
            "wrkbench_received_bytes_total",
            "wrkbench_generator_cpu_ratio",
            "wrkbench_generator_saturated",
        ] {
            assert!(
                names.iter().any(|name| name == expected),
                "{expected}: {names:?}"
            );
        }
        let different: BTreeSet<&String> = names.iter().collect();
        assert_eq!(different.len(), names.len());
    }

    #[test]
    fn a_metric_has_values_of_its_instrument_or_none() {
        let mut snapshot = Snapshot {
            counters: Counters {
                due: 10,
                answered: 9,
                ..Counters::default()
            },
            statuses: Statuses::default(),
            errors: Errors::default(),
            busiest_worker: Some(0.5),
            parts: PartRecordings {
                llm: Some(LlmRecording::default()),
                conversations: Some(ConversationRecording::default()),
                good: Some(GoodRecording::default()),
                ..PartRecordings::default()
            },
            ..Snapshot::default()
        };
        snapshot.statuses.add(200);
        snapshot.errors.add(ErrorKind::Reset, 1);
        let state = ExportedRun {
            snapshot: &snapshot,
            verdict: Some(&Verdict::Undisturbed),
        };
        for metric in exported() {
            let value = (metric.value)(state).expect("everything is measured");
            let fits = match value {
                Value::Times(_) => metric.instrument == Instrument::Histogram,
                Value::Number(_) => metric.instrument == Instrument::Gauge,
                Value::Count(_) => metric.instrument != Instrument::Histogram,
                Value::Parts(ref parts) => !parts.is_empty() && metric.attribute.is_some(),
            };
            assert!(fits, "{}: {value:?}", metric.name);
        }
    }

    #[test]
    fn what_is_not_measured_has_no_value() {
        let snapshot = Snapshot::default();
        let state = ExportedRun {
            snapshot: &snapshot,
            verdict: None,
        };
        let missing: Vec<&str> = exported()
            .iter()
            .filter(|metric| (metric.value)(state).is_none())
            .map(|metric| metric.name)
            .collect();
        assert_eq!(
            missing,
            [
                "wrkbench.requests.due",
                "wrkbench.send_lag",
                "wrkbench.generator.cpu",
                "wrkbench.generator.saturated",
                "gen_ai.client.operation.time_to_first_chunk",
                "wrkbench.time_per_token",
                "wrkbench.output_tokens",
                "wrkbench.conversations",
                "wrkbench.judged",
            ]
        );
    }
}
