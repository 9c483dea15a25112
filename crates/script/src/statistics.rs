//! What `done(summary, latency, requests)` gets to see of a result.

use results::{Histogram, Legacy, Rates, RunResult};

use crate::transfer::Value;

/// The two distributions, by the names of `done`'s arguments.
#[derive(Debug, Clone)]
pub(crate) struct Statistics {
    latency: Distribution,
    requests: Distribution,
}

impl Statistics {
    /// The distributions of a result.
    pub(crate) fn of_result(result: &RunResult) -> Self {
        Self {
            latency: Distribution::of_latency(&result.recording.latency()),
            requests: Distribution::of_rates(&result.recording.rates),
        }
    }

    /// The distribution of that name.
    pub(crate) fn of(&self, which: &str) -> &Distribution {
        if which == "requests" {
            &self.requests
        } else {
            &self.latency
        }
    }
}

/// One distribution, in the unit that scripts see: microseconds, or requests per second of a thread.
#[derive(Debug, Clone)]
pub(crate) struct Distribution {
    min: f64,
    max: f64,
    mean: f64,
    stdev: f64,
    /// Distinct values with their counts, ascending.
    buckets: Vec<(f64, u64)>,
    source: Source,
}

/// Where percentiles come from.
#[derive(Debug, Clone)]
enum Source {
    Latency(Box<Histogram>),
    Rates(Rates),
}

const NS_PER_US: f64 = 1000.0;

impl Distribution {
    fn of_latency(histogram: &Histogram) -> Self {
        let us = |ns: u64| ns as f64 / NS_PER_US;
        Self {
            min: us(histogram.min_ns().unwrap_or(0)),
            max: us(histogram.max_ns().unwrap_or(0)),
            mean: finite(histogram.mean_ns() / NS_PER_US),
            stdev: finite(histogram.stdev_ns() / NS_PER_US),
            buckets: histogram
                .distinct()
                .map(|(ns, count)| (us(ns), count))
                .collect(),
            source: Source::Latency(Box::new(histogram.clone())),
        }
    }

    fn of_rates(rates: &Rates) -> Self {
        Self {
            min: rates.min().unwrap_or(0) as f64,
            max: rates.max().unwrap_or(0) as f64,
            mean: finite(rates.mean()),
            stdev: finite(rates.stdev()),
            buckets: rates
                .distinct()
                .map(|(rate, count)| (rate as f64, count))
                .collect(),
            source: Source::Rates(rates.clone()),
        }
    }

    /// The value below or at which `percent` of the samples lie; 0 without samples. 100 and more is
    /// the maximum, 0 and less (or no number) the minimum.
    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        // Also when `percent` is NaN; without samples the minimum is 0.
        let above_zero = percent > 0.0;
        if self.buckets.is_empty() || !above_zero {
            return self.min;
        }
        let percent = percent.min(100.0);
        match &self.source {
            Source::Latency(histogram) => histogram.value_at_percentile(percent) as f64 / NS_PER_US,
            Source::Rates(rates) => rates.value_at_percentile(percent) as f64,
        }
    }

    /// Value and count of the `position`th distinct value, from 1; out of range 0 and the number of
    /// distinct values, as in wrk.
    pub(crate) fn bucket(&self, position: f64) -> (f64, f64) {
        // Saturates; position 0, negative ones and NaN become out of range.
        let at = (position as usize).wrapping_sub(1);
        self.buckets
            .get(at)
            .map_or((0.0, self.buckets.len() as f64), |(value, count)| {
                (*value, *count as f64)
            })
    }

    /// What the Lua side keeps: the plain fields and the number of distinct values.
    pub(crate) fn to_value(&self) -> Value {
        let fields = Value::record([
            ("min", Value::Number(self.min)),
            ("max", Value::Number(self.max)),
            ("mean", Value::Number(self.mean)),
            ("stdev", Value::Number(self.stdev)),
        ]);
        let distinct = Value::Number(self.buckets.len() as f64);
        Value::record([("fields", fields), ("distinct", distinct)])
    }
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
            Value::Number(recording.counters.answered as f64),
        ),
        ("bytes", Value::Number(recording.counters.bytes as f64)),
        ("errors", errors),
    ])
}

/// Scripts print these: no NaN for an empty run.
fn finite(number: f64) -> f64 {
    if number.is_finite() { number } else { 0.0 }
}
