//! The protobuf format of Prometheus, in which histograms can be native ones.
//!
//! The messages are those of `io.prometheus.client` (metrics.proto of Prometheus' client_model), of
//! which only the fields that are written are here.

use prost::Message;
use results::Histogram;

use super::families::{CLASSIC_BOUNDS, Family, MetricType, Sample, SampleValue, classic};
use crate::exponential::{BUCKETS_MAX, Exponential, SCALE_MAX};

pub(super) const CONTENT_TYPE: &str = "application/vnd.google.protobuf; \
    proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// Empty buckets in a row that cost less than the beginning of another span.
const GAP_MAX: usize = 2;

/// Times up to this are counted as zero: 2^-128 s, the default of Prometheus' clients.
const ZERO_THRESHOLD: f64 = 2.938_735_877_055_719e-39;

#[derive(Clone, PartialEq, Message)]
struct MetricFamily {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    help: String,
    #[prost(int32, tag = "3")]
    kind: i32,
    #[prost(message, repeated, tag = "4")]
    metrics: Vec<Metric>,
}

/// Values of `MetricFamily.type`.
const COUNTER: i32 = 0;
const GAUGE: i32 = 1;
const HISTOGRAM: i32 = 4;

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Number>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<HistogramMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct LabelPair {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// `Gauge` and `Counter`.
#[derive(Clone, PartialEq, Message)]
struct Number {
    #[prost(double, tag = "1")]
    value: f64,
}

#[derive(Clone, PartialEq, Message)]
struct HistogramMessage {
    #[prost(uint64, tag = "1")]
    sample_count: u64,
    #[prost(double, tag = "2")]
    sample_sum: f64,
    #[prost(message, repeated, tag = "3")]
    classic: Vec<Bucket>,
    #[prost(sint32, tag = "5")]
    schema: i32,
    #[prost(double, tag = "6")]
    zero_threshold: f64,
    #[prost(uint64, tag = "7")]
    zero_count: u64,
    #[prost(message, repeated, tag = "12")]
    spans: Vec<BucketSpan>,
    /// The first count, then the difference of each count from the one before.
    #[prost(sint64, repeated, tag = "13")]
    deltas: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Bucket {
    #[prost(uint64, tag = "1")]
    cumulative_count: u64,
    #[prost(double, tag = "2")]
    upper_bound: f64,
}

#[derive(Clone, PartialEq, Message)]
struct BucketSpan {
    /// Of the first span the number of its first bucket, of the others the empty buckets before.
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint32, tag = "2")]
    length: u32,
}

/// All families, each behind its length.
pub(super) fn encode(families: &[Family<'_>]) -> Vec<u8> {
    let families = families.iter();
    let messages = families.map(|family| MetricFamily {
        name: family.name.clone(),
        help: family.help.to_owned(),
        kind: match family.kind {
            MetricType::Counter => COUNTER,
            MetricType::Gauge => GAUGE,
            MetricType::Histogram => HISTOGRAM,
        },
        metrics: family
            .samples
            .iter()
            .map(|it| metric(it, family.kind))
            .collect(),
    });
    messages
        .flat_map(|it| it.encode_length_delimited_to_vec())
        .collect()
}

fn metric(sample: &Sample<'_>, kind: MetricType) -> Metric {
    let labels = sample.labels.iter().map(|(name, value)| LabelPair {
        name: name.clone(),
        value: value.clone(),
    });
    let metric = Metric {
        labels: labels.collect(),
        ..Metric::default()
    };
    match sample.value {
        SampleValue::Number(value) if kind == MetricType::Counter => Metric {
            counter: Some(Number { value }),
            ..metric
        },
        SampleValue::Number(value) => Metric {
            gauge: Some(Number { value }),
            ..metric
        },
        SampleValue::Times(times) => Metric {
            histogram: Some(histogram(times)),
            ..metric
        },
    }
}

/// Both kinds of buckets: a server that does not want native ones uses the others.
fn histogram(times: &Histogram) -> HistogramMessage {
    let bounds = CLASSIC_BOUNDS.into_iter().zip(classic(times));
    let bounds = bounds.chain([(f64::INFINITY, times.count())]);
    let buckets = Exponential::of(times, SCALE_MAX, BUCKETS_MAX);
    let (spans, deltas) = spans(&buckets);
    HistogramMessage {
        sample_count: times.count(),
        sample_sum: times.sum_ns() as f64 / 1e9,
        classic: bounds
            .map(|(upper_bound, cumulative_count)| Bucket {
                cumulative_count,
                upper_bound,
            })
            .collect(),
        schema: buckets.scale,
        zero_threshold: ZERO_THRESHOLD,
        zero_count: buckets.zeros,
        spans,
        deltas,
    }
}

/// The buckets without the longer gaps between them. Bucket `i` of OpenTelemetry is `i + 1` in
/// Prometheus, which numbers them by their upper limit.
fn spans(buckets: &Exponential) -> (Vec<BucketSpan>, Vec<i64>) {
    let (mut spans, mut deltas) = (Vec::<BucketSpan>::new(), Vec::new());
    let (mut before, mut gap) = (0_i64, 0);
    for count in &buckets.counts {
        if *count == 0 {
            gap += 1;
            continue;
        }
        let offset = i32::try_from(gap).unwrap_or(i32::MAX);
        match spans.last_mut() {
            Some(span) if gap <= GAP_MAX => {
                for _ in 0..gap {
                    deltas.push(-before);
                    before = 0;
                }
                span.length += u32::try_from(gap).unwrap_or(0) + 1;
            }
            Some(_) => spans.push(BucketSpan { offset, length: 1 }),
            None => spans.push(BucketSpan {
                offset: buckets.offset + offset + 1,
                length: 1,
            }),
        }
        gap = 0;
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        deltas.push(count - before);
        before = count;
    }
    (spans, deltas)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counts by the number of their bucket, as a server reads them.
    fn read(message: &HistogramMessage) -> Vec<(i32, i64)> {
        let mut counts = Vec::new();
        let mut deltas = message.deltas.iter();
        let (mut number, mut count) = (0, 0);
        for span in &message.spans {
            number += span.offset;
            for _ in 0..span.length {
                count += deltas.next().expect("a delta for each bucket");
                counts.push((number, count));
                number += 1;
            }
        }
        assert_eq!(deltas.next(), None);
        counts.retain(|(_, count)| *count > 0);
        counts
    }

    #[test]
    fn native_buckets_keep_their_numbers_over_gaps_of_any_length() {
        let buckets = Exponential {
            scale: 7,
            zeros: 0,
            offset: -10,
            counts: vec![5, 0, 0, 3, 0, 0, 0, 9, 2],
        };
        let (spans, deltas) = spans(&buckets);
        let message = HistogramMessage {
            spans,
            deltas,
            ..HistogramMessage::default()
        };
        assert_eq!(read(&message), [(-9, 5), (-6, 3), (-2, 9), (-1, 2)]);
        assert_eq!(message.spans.len(), 2);
    }

    #[test]
    fn all_samples_are_in_both_kinds_of_buckets() {
        let mut times = Histogram::new();
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..10_000 {
            times.record((50_000.0 / random.f64().max(1e-6)) as u64);
        }
        times.record_n(0, 4);
        let message = histogram(&times);
        let native: i64 = read(&message).iter().map(|(_, count)| count).sum();
        assert_eq!(native as u64 + message.zero_count, times.count());
        assert_eq!(message.zero_count, 4);
        let last = message.classic.last().expect("there are some");
        assert_eq!(
            (last.cumulative_count, last.upper_bound),
            (10_004, f64::INFINITY)
        );
        // A sample of 1 s is in the bucket of which that is the limit, number 0.
        let mut second = Histogram::new();
        second.record(1_000_000_000);
        assert_eq!(read(&histogram(&second)), [(0, 1)]);
    }

    #[test]
    fn each_family_is_behind_its_length() {
        let families = [1.0, 2.0].map(|value| Family {
            name: format!("metric_{value}"),
            help: "A metric",
            kind: MetricType::Gauge,
            samples: vec![Sample {
                labels: Vec::new(),
                value: SampleValue::Number(value),
            }],
        });
        let bytes = encode(&families);
        let mut rest = bytes.as_slice();
        for value in [1.0, 2.0] {
            let family = MetricFamily::decode_length_delimited(&mut rest).expect("a family");
            assert_eq!(family.name, format!("metric_{value}"));
            let gauge = family.metrics[0].gauge.as_ref().expect("it is a gauge");
            assert_eq!(gauge.value, value);
        }
        assert!(rest.is_empty());
    }
}
