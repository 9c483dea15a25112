//! The metrics as Prometheus has them: families of samples with labels.

use results::Histogram;

use super::Current;
use results::exported::{
    ExportedMetric, ExportedRun, Instrument, Value, exported, prometheus_label,
};

/// Upper limits of classic buckets, seconds: three for each power of ten, from 100 us to 100 s.
pub(super) const CLASSIC_BOUNDS: [f64; 19] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 25.0, 50.0, 100.0,
];

/// The type of a metric in the exposition formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetricType {
    Counter,
    Gauge,
    Histogram,
}

/// A metric with all its samples, at least one.
#[derive(Debug)]
pub(super) struct Family<'a> {
    pub(super) name: String,
    pub(super) help: &'static str,
    pub(super) kind: MetricType,
    pub(super) samples: Vec<Sample<'a>>,
}

#[derive(Debug)]
pub(super) struct Sample<'a> {
    pub(super) labels: Vec<(String, String)>,
    pub(super) value: SampleValue<'a>,
}

#[derive(Debug)]
pub(super) enum SampleValue<'a> {
    Number(f64),
    /// Times in nanoseconds.
    Times(&'a Histogram),
}

/// Everything that can be scraped now.
pub(super) fn families(current: &Current) -> Vec<Family<'_>> {
    let mut families = vec![target_info(current)];
    if let Some(snapshot) = &current.snapshot {
        let state = ExportedRun {
            snapshot,
            verdict: current.verdict.as_ref(),
        };
        let of_run = current.attributes.iter();
        let of_run = of_run.filter(|(name, _)| !is_of_service(name));
        let labels: Vec<(String, String)> = of_run.map(label).collect();
        let metrics = exported();
        families.extend(metrics.iter().filter_map(|it| family(it, state, &labels)));
    }
    families
}

/// All attributes, also those that say nothing about a run (OpenTelemetry, "Prometheus and
/// OpenMetrics Compatibility", "Resource Attributes").
fn target_info(current: &Current) -> Family<'_> {
    Family {
        name: "target_info".to_owned(),
        help: "What is measured, and by what",
        kind: MetricType::Gauge,
        samples: vec![Sample {
            labels: current.attributes.iter().map(label).collect(),
            value: SampleValue::Number(1.0),
        }],
    }
}

fn is_of_service(name: &str) -> bool {
    name.starts_with("service.")
}

fn label((name, value): &(String, String)) -> (String, String) {
    (prometheus_label(name), value.clone())
}

/// `None` without a value.
fn family<'a>(
    metric: &ExportedMetric,
    state: ExportedRun<'a>,
    labels: &[(String, String)],
) -> Option<Family<'a>> {
    let sample = |part: Option<(String, String)>, value| Sample {
        labels: labels.iter().cloned().chain(part).collect(),
        value,
    };
    let samples = match (metric.value)(state)? {
        Value::Number(number) => vec![sample(None, SampleValue::Number(number))],
        Value::Count(count) => vec![sample(None, SampleValue::Number(count as f64))],
        Value::Times(times) => vec![sample(None, SampleValue::Times(times))],
        Value::Parts(parts) => {
            let parts = parts.into_iter().filter_map(|(part, count)| {
                let part = (prometheus_label(metric.attribute?), part);
                Some(sample(Some(part), SampleValue::Number(count as f64)))
            });
            parts.collect()
        }
    };
    (!samples.is_empty()).then(|| Family {
        name: metric.prometheus_name(),
        help: metric.description,
        kind: match metric.instrument {
            Instrument::Counter => MetricType::Counter,
            Instrument::UpDownCounter | Instrument::Gauge => MetricType::Gauge,
            Instrument::Histogram => MetricType::Histogram,
        },
        samples,
    })
}

/// For each of [`CLASSIC_BOUNDS`], how many times do not exceed it. Times that are nearer to it
/// than the resolution of a histogram may count as longer.
pub(super) fn classic(times: &Histogram) -> [u64; CLASSIC_BOUNDS.len()] {
    let mut counts = [0; CLASSIC_BOUNDS.len()];
    for (value_ns, count) in times.distinct() {
        let seconds = value_ns as f64 / 1e9;
        let first = CLASSIC_BOUNDS.partition_point(|bound| *bound < seconds);
        if let Some(bucket) = counts.get_mut(first) {
            *bucket += count;
        }
    }
    let mut total = 0;
    for count in &mut counts {
        total += *count;
        *count = total;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_classic_bucket_has_what_does_not_exceed_its_limit() {
        let mut times = Histogram::new();
        for ns in [90_000, 99_000, 990_000, 99_000_000_000, 200_000_000_000] {
            times.record(ns);
        }
        let counts = classic(&times);
        let up_to = |seconds: f64| {
            let at = CLASSIC_BOUNDS.iter().position(|bound| *bound == seconds);
            counts[at.expect("it is a bound")]
        };
        assert_eq!(up_to(0.000_1), 2);
        assert_eq!(up_to(0.000_5), 2);
        assert_eq!(up_to(0.001), 3);
        assert_eq!(up_to(50.0), 3);
        assert_eq!(up_to(100.0), 4);
    }
}
