//! The metrics of a run as messages.

use results::Histogram;

use super::messages::{
    Buckets, CUMULATIVE, Data, ExponentialHistogram, Gauge, HistogramPoint, KeyValue, Metric,
    MetricsRequest, NO_RECORDED_VALUE, Number, NumberPoint, Resource, ResourceMetrics,
    ScopeMetrics, Sum,
};
use super::{scope, text};
use crate::exponential::{BUCKETS_MAX, Exponential, SCALE_MAX};
use crate::exported::{Exported, Instrument, State, Value};

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
}

/// The metrics with their values now. Those in `ended` are also said to have no value from now on,
/// so that nobody takes the last one for the current one.
pub(super) fn request(
    metrics: &[Exported],
    state: State<'_>,
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
pub(super) fn of_now(metrics: &[Exported], state: State<'_>) -> Vec<&'static str> {
    let is_of_now = |metric: &&Exported| {
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
    metric: &Exported,
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
        unit: metric.unit.ucum(),
        data: Some(data),
    })
}

fn points_of_now(
    metric: &Exported,
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
    metric: &Exported,
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
    metric: &Exported,
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
    HistogramPoint {
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

fn attributes(metric: &Exported, part: Option<&str>, context: &Context<'_>) -> Vec<KeyValue> {
    let mut attributes = context.attributes.to_vec();
    if metric.name.starts_with("http.client.") {
        attributes.extend_from_slice(context.of_http);
    }
    let part = metric.attribute.zip(part);
    attributes.extend(part.map(|(name, value)| text(name, value)));
    attributes
}
