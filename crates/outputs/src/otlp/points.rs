//! The metrics of a run as messages.

use results::{Histogram, Recording, SlowRequest, TraceId};

use super::messages::{
    Buckets, CUMULATIVE, Data, Exemplar, ExponentialHistogram, Gauge, HistogramPoint, KeyValue,
    Metric, MetricsRequest, NO_RECORDED_VALUE, Number, NumberPoint, Resource, ResourceMetrics,
    ScopeMetrics, Sum,
};
use super::{scope, text};
use crate::exponential::{BUCKETS_MAX, Exponential, SCALE_MAX};
use results::exported::{ExportedMetric, ExportedRun, Instrument, REQUEST_DURATION, Value};

/// What all points of a request have.
pub(super) struct Context<'a> {
    pub(super) resource: &'a Resource,
    /// What is said about each point. Servers that keep no resources keep these.
    pub(super) attributes: &'a [KeyValue],
    /// In addition, about points of metrics of HTTP clients.
    pub(super) of_http: &'a [KeyValue],
    /// The start of the window, nanoseconds since 1970; `None` during the warm-up, which has no
    /// totals.
    pub(super) start_unix_ns: Option<u64>,
    /// Now, nanoseconds since 1970.
    pub(super) time_unix_ns: u64,
    /// Samples of [`REQUEST_DURATION`].
    pub(super) exemplars: Vec<Exemplar>,
}

/// How many of the slowest requests with a trace are sent.
const EXEMPLARS_MAX: usize = 20;

/// The slowest requests of a run that have a trace. Its window started then, in nanoseconds since
/// 1970.
pub(super) fn exemplars(recording: &Recording, start_unix_ns: u64) -> Vec<Exemplar> {
    let breakdown = recording.parts.breakdown.iter();
    let traced = breakdown.flat_map(|it| it.slowest_traced.iter().take(EXEMPLARS_MAX));
    let exemplar = |request: &SlowRequest| {
        let TraceId(trace) = request.trace_id?;
        let latency_ns = request.latency_ns();
        Some(Exemplar {
            time_unix_ns: start_unix_ns + request.due_ns + latency_ns,
            value: latency_ns as f64 / 1e9,
            trace_id: trace.to_be_bytes().to_vec(),
        })
    };
    traced.filter_map(exemplar).collect()
}

/// The metrics with their values now. Those in `ended` are also said to have no value from now on,
/// so that nobody takes the last one for the current one.
pub(super) fn request(
    metrics: &[ExportedMetric],
    state: ExportedRun<'_>,
    ended: &[&str],
    context: &Context<'_>,
) -> MetricsRequest {
    let metrics = metrics.iter().filter_map(|metric| {
        let value = (metric.value)(state);
        let has_ended = ended.contains(&metric.name);
        message(metric, value, has_ended, context)
    });
    MetricsRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(context.resource.clone()),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(scope()),
                metrics: metrics.collect(),
            }],
        }],
    }
}

/// The names of the metrics that have a value now and none after the run.
pub(super) fn of_now(metrics: &[ExportedMetric], state: ExportedRun<'_>) -> Vec<&'static str> {
    let is_of_now = |metric: &&ExportedMetric| {
        matches!(
            metric.instrument,
            Instrument::Gauge | Instrument::UpDownCounter
        ) && (metric.value)(state).is_some()
    };
    let of_now = metrics.iter().filter(is_of_now);
    of_now.map(|metric| metric.name).collect()
}

/// `None` if there is nothing to say.
fn message(
    metric: &ExportedMetric,
    value: Option<Value<'_>>,
    has_ended: bool,
    context: &Context<'_>,
) -> Option<Metric> {
    let data = match metric.instrument {
        Instrument::Histogram => {
            let Some(Value::Times(times)) = value else {
                return None;
            };
            Data::Histogram(ExponentialHistogram {
                points: vec![histogram_point(
                    times,
                    metric,
                    context,
                    context.start_unix_ns?,
                )],
                temporality: CUMULATIVE,
            })
        }
        Instrument::Counter => {
            let points = points(metric, value?, context.start_unix_ns?, context);
            // Without an error there is none of any kind, and a metric without points is a mistake.
            if points.is_empty() {
                return None;
            }
            Data::Sum(Sum {
                points,
                temporality: CUMULATIVE,
                is_monotonic: true,
            })
        }
        Instrument::UpDownCounter => Data::Sum(Sum {
            points: points_of_now(metric, value, has_ended, context)?,
            temporality: CUMULATIVE,
            is_monotonic: false,
        }),
        Instrument::Gauge => Data::Gauge(Gauge {
            points: points_of_now(metric, value, has_ended, context)?,
        }),
    };
    Some(Metric {
        name: metric.name.to_owned(),
        description: metric.description.to_owned(),
        unit: metric.unit.ucum(metric.things),
        data: Some(data),
    })
}

fn points_of_now(
    metric: &ExportedMetric,
    value: Option<Value<'_>>,
    has_ended: bool,
    context: &Context<'_>,
) -> Option<Vec<NumberPoint>> {
    let mut points = value.map_or_else(Vec::new, |value| points(metric, value, 0, context));
    if has_ended {
        points.push(NumberPoint {
            attributes: attributes(metric, None, context),
            start_unix_ns: 0,
            // Two points of a series need different times; servers count milliseconds.
            time_unix_ns: context.time_unix_ns + 1_000_000,
            value: None,
            flags: NO_RECORDED_VALUE,
        });
    }
    (!points.is_empty()).then_some(points)
}

fn points(
    metric: &ExportedMetric,
    value: Value<'_>,
    start_unix_ns: u64,
    context: &Context<'_>,
) -> Vec<NumberPoint> {
    let point = |part: Option<&str>, number| NumberPoint {
        attributes: attributes(metric, part, context),
        start_unix_ns,
        time_unix_ns: context.time_unix_ns,
        value: Some(number),
        flags: 0,
    };
    let int = |count: u64| Number::Int(i64::try_from(count).unwrap_or(i64::MAX));
    match value {
        Value::Number(number) => vec![point(None, Number::Double(number))],
        Value::Count(count) => vec![point(None, int(count))],
        Value::Parts(parts) => {
            let parts = parts.iter();
            parts
                .map(|(part, count)| point(Some(part), int(*count)))
                .collect()
        }
        // Has a message of its own.
        Value::Times(_) => Vec::new(),
    }
}

fn histogram_point(
    times: &Histogram,
    metric: &ExportedMetric,
    context: &Context<'_>,
    start_unix_ns: u64,
) -> HistogramPoint {
    let Exponential {
        scale,
        zeros,
        offset,
        counts,
    } = Exponential::of(times, SCALE_MAX, BUCKETS_MAX);
    let seconds = |ns: u64| ns as f64 / 1e9;
    let is_request = metric.name == REQUEST_DURATION;
    HistogramPoint {
        exemplars: if is_request {
            context.exemplars.clone()
        } else {
            Vec::new()
        },
        attributes: attributes(metric, None, context),
        start_unix_ns,
        time_unix_ns: context.time_unix_ns,
        count: times.count(),
        sum: Some(times.sum_ns() as f64 / 1e9),
        scale,
        zero_count: zeros,
        positive: Some(Buckets { offset, counts }),
        min: times.min_ns().map(seconds),
        max: times.max_ns().map(seconds),
    }
}

fn attributes(metric: &ExportedMetric, part: Option<&str>, context: &Context<'_>) -> Vec<KeyValue> {
    let mut attributes = context.attributes.to_vec();
    if metric.name.starts_with("http.client.") {
        attributes.extend_from_slice(context.of_http);
    }
    let part = metric.attribute.zip(part);
    attributes.extend(part.map(|(name, value)| text(name, value)));
    attributes
}

#[cfg(test)]
mod tests {
    use results::{BreakdownRecording, ServerTimes};

    use super::*;

    #[test]
    fn the_slowest_requests_with_a_trace_are_exemplars() {
        let mut breakdown = BreakdownRecording::default();
        for number in 1..=30 {
            breakdown.add(&SlowRequest {
                due_ns: number,
                waited_ns: 0,
                connecting_ns: 0,
                own_ns: 0,
                read_late_ns: 0,
                first_byte_ns: number * 1_000_000,
                last_byte_ns: 0,
                status: 200,
                path: None,
                trace_id: (number != 29).then_some(TraceId(u128::from(number) << 64)),
                server_timing_ns: ServerTimes::default(),
            });
        }
        let recording = Recording {
            parts: results::PartRecordings {
                breakdown: Some(breakdown),
                ..results::PartRecordings::default()
            },
            ..Recording::new()
        };
        let found = exemplars(&recording, 1_000);
        assert_eq!(found.len(), EXEMPLARS_MAX);
        let trace_id = [0, 0, 0, 0, 0, 0, 0, 30, 0, 0, 0, 0, 0, 0, 0, 0];
        let slowest = Exemplar {
            time_unix_ns: 1_000 + 30 + 30_000_000,
            value: 0.03,
            trace_id: trace_id.to_vec(),
        };
        assert_eq!(found[0], slowest);
        // One of them has no trace.
        assert_eq!(found[1].value, 0.028);
        assert_eq!(exemplars(&Recording::new(), 0), []);
    }
}
