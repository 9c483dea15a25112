//! The results that `done(summary, latency, requests)` gets.

use results::{Histogram, Legacy, Rates, RunResult};

use crate::transfer::Value;

/// The two distributions, named like the arguments of `done`.
#[derive(Debug, Clone)]
pub(crate) struct Statistics {
    latency: Distribution,
    requests: Distribution,
}

impl Statistics {
    pub(crate) fn of_result(result: &RunResult) -> Self {
        let indexing = if result.plan.pacing.is_open() {
            Indexing::Samples
        } else {
            Indexing::Distinct
        };
        Self {
            latency: Distribution::of_latency(&result.recording.latency(), indexing),
            requests: Distribution::of_rates(&result.recording.rates),
        }
    }

    pub(crate) fn of(&self, which: &str) -> &Distribution {
        if which == "requests" {
            &self.requests
        } else {
            &self.latency
        }
    }
}

/// One distribution in the unit that scripts see: microseconds, or requests per second and thread.
///
/// Values are whole numbers, as in wrk, because scripts pass them to shells and databases that
/// accept no others. Mean and standard deviation have a fraction, also as in wrk.
#[derive(Debug, Clone)]
pub(crate) struct Distribution {
    min: f64,
    max: f64,
    mean: f64,
    stdev: f64,
    /// The distinct values in ascending order.
    buckets: Vec<Bucket>,
    source: PercentileSource,
    indexing: Indexing,
}

/// A distinct value with its counts.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    value: f64,
    /// How many samples have this value.
    count: u64,
    /// How many samples have this value or a lower one.
    up_to: u64,
}

/// What `#latency` counts, and whether `latency[i]` has a meaning. This is the only point in which
/// scripts for wrk and scripts for wrk2 contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Indexing {
    /// wrk: distinct values. An integer key is unknown like any other.
    Distinct,
    /// wrk2: samples. An integer key is a rank.
    Samples,
}

/// Where percentiles come from.
#[derive(Debug, Clone)]
enum PercentileSource {
    Latency(Box<Histogram>),
    Rates(Rates),
}

const NS_PER_US: f64 = 1000.0;

impl Distribution {
    fn of_latency(histogram: &Histogram, indexing: Indexing) -> Self {
        let min_ns = histogram.min_ns().unwrap_or(0);
        // The lowest value is the exact minimum, as in wrk. The histogram has a value of the same
        // bucket, which may round to another microsecond.
        let distinct = (histogram.distinct().enumerate())
            .map(|(index, (ns, count))| (if index == 0 { min_ns } else { ns }, count));
        Self {
            min: whole_us(min_ns),
            max: whole_us(histogram.max_ns().unwrap_or(0)),
            mean: finite(histogram.mean_ns() / NS_PER_US),
            stdev: finite(histogram.stdev_ns() / NS_PER_US),
            buckets: buckets(distinct.map(|(ns, count)| (whole_us(ns), count))),
            source: PercentileSource::Latency(Box::new(histogram.clone())),
            indexing,
        }
    }

    fn of_rates(rates: &Rates) -> Self {
        Self {
            min: rates.min().unwrap_or(0) as f64,
            max: rates.max().unwrap_or(0) as f64,
            mean: finite(rates.mean()),
            stdev: finite(rates.stdev()),
            buckets: buckets(rates.distinct().map(|(rate, count)| (rate as f64, count))),
            source: PercentileSource::Rates(rates.clone()),
            indexing: Indexing::Distinct,
        }
    }

    /// The value at or below which `percent` of the samples lie. 0 without samples. The maximum
    /// from 100 on, the minimum for 0, less, or NaN.
    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        // This also handles NaN. Without samples, the minimum is 0.
        let above_zero = percent > 0.0;
        if self.buckets.is_empty() || !above_zero {
            return self.min;
        }
        let percent = percent.min(100.0);
        match &self.source {
            PercentileSource::Latency(histogram) => {
                whole_us(histogram.value_at_percentile(percent))
            }
            PercentileSource::Rates(rates) => rates.value_at_percentile(percent) as f64,
        }
    }

    /// Value and count of the `position`th distinct value, from 1. Out of range, 0 and the number
    /// of distinct values, as in wrk.
    pub(crate) fn bucket(&self, position: f64) -> (f64, f64) {
        // The cast saturates. Position 0, negative positions and NaN become out of range.
        let at = (position as usize).wrapping_sub(1);
        self.buckets
            .get(at)
            .map_or((0.0, self.buckets.len() as f64), |bucket| {
                (bucket.value, bucket.count as f64)
            })
    }

    /// The `position`th sample in ascending order, from 1, without a fraction. As in wrk2, this is
    /// the percentile 100 * position / n, but found without iterating over all values. Positions
    /// before the first give the minimum, those after the last the maximum. 0 without samples.
    pub(crate) fn sample(&self, position: f64) -> f64 {
        // The cast saturates. Negative positions and NaN become 0.
        let rank = position as u64;
        if rank == 0 {
            return self.min;
        }
        let at = self.buckets.partition_point(|bucket| bucket.up_to < rank);
        self.buckets.get(at).map_or(self.max, |bucket| bucket.value)
    }

    /// What the Lua side stores: the plain fields, the length, and whether integer keys are ranks.
    pub(crate) fn to_value(&self) -> Value {
        let fields = Value::record([
            ("min", Value::Number(self.min)),
            ("max", Value::Number(self.max)),
            ("mean", Value::Number(self.mean)),
            ("stdev", Value::Number(self.stdev)),
        ]);
        let length = match self.indexing {
            Indexing::Distinct => self.buckets.len() as f64,
            Indexing::Samples => self.buckets.last().map_or(0.0, |last| last.up_to as f64),
        };
        Value::record([
            ("fields", fields),
            ("length", Value::Number(length)),
            ("ranked", Value::Boolean(self.indexing == Indexing::Samples)),
        ])
    }
}

/// Rounds to the nearest microsecond.
fn whole_us(ns: u64) -> f64 {
    (ns as f64 / NS_PER_US).round()
}

/// Distinct values with their counts and the running total. The given values must ascend and may
/// repeat.
fn buckets(values: impl Iterator<Item = (f64, u64)>) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = Vec::new();
    let mut up_to = 0_u64;
    for (value, count) in values {
        up_to = up_to.saturating_add(count);
        match buckets.last_mut() {
            Some(last) if last.value == value => {
                last.count = last.count.saturating_add(count);
                last.up_to = up_to;
            }
            _ => buckets.push(Bucket {
                value,
                count,
                up_to,
            }),
        }
    }
    buckets
}

/// The `summary` table: duration in microseconds, bytes, requests, and wrk's five error counters.
pub(crate) fn summary(result: &RunResult) -> Value {
    let recording = &result.recording;
    let legacy = |counter| Value::Number(recording.errors.legacy(counter) as f64);
    let errors = Value::record([
        ("connect", legacy(Legacy::Connect)),
        ("read", legacy(Legacy::Read)),
        ("write", legacy(Legacy::Write)),
        ("timeout", legacy(Legacy::Timeout)),
        (
            "status",
            Value::Number(recording.statuses.over_399() as f64),
        ),
    ]);
    Value::record([
        (
            "duration",
            Value::Number((result.window.duration_ns / 1000) as f64),
        ),
        (
            "requests",
            Value::Number(recording.counters.responses() as f64),
        ),
        ("bytes", Value::Number(recording.counters.bytes as f64)),
        ("errors", errors),
    ])
}

/// Scripts print these numbers, so NaN of an empty run becomes 0.
fn finite(number: f64) -> f64 {
    if number.is_finite() { number } else { 0.0 }
}
