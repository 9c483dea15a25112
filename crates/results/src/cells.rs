//! Measured values as cells of tables.

use presentation::tables::{self, known, marked, text, time_ns, time_us, toned_if};
use presentation::{TableCell, Tone, words};

use crate::summary::is_thin;
use crate::{Histogram, Measured};

/// The headings of the numbers of [`distribution`].
pub const DISTRIBUTION: [&str; 7] = ["Samples", "Mean", "p50", "p90", "p99", "p99.9", "Max"];

/// A value of a metric, marked if it is a lower bound.
pub fn measured(measured: Option<Measured>, show: impl Fn(f64) -> String) -> TableCell {
    let is_bound = measured.is_some_and(|known| known.is_lower_bound);
    known(measured.map(|known| known.value), |value| {
        if is_bound {
            marked(show(value))
        } else {
            show(value)
        }
    })
}

/// A percentile of times, marked if too few samples are above it.
#[must_use]
pub fn percentile(samples: &Histogram, percent: f64) -> TableCell {
    let known = (!samples.is_empty()).then(|| samples.value_at_percentile(percent));
    let is_thin = is_thin(percent, samples.count());
    toned_if(is_thin, Tone::Warning, time_ns(known))
}

/// The mean of times.
#[must_use]
pub fn mean(samples: &Histogram) -> TableCell {
    time_us((!samples.is_empty()).then(|| samples.mean_ns() / 1e3))
}

/// A row of a table of times or numbers: name, samples, mean, and five percentiles.
#[must_use]
pub fn distribution(name: &str, samples: &Histogram, is_time: bool) -> Vec<TableCell> {
    let number = |value: f64| known(Some(value).filter(|_| !samples.is_empty()), words::number);
    let at = |percent| {
        if is_time {
            percentile(samples, percent)
        } else {
            number(samples.value_at_percentile(percent) as f64)
        }
    };
    let mean = if is_time {
        mean(samples)
    } else {
        number(samples.mean_ns())
    };
    let begin = [text(name), tables::count(samples.count()), mean];
    let percentiles = [50.0, 90.0, 99.0, 99.9, 100.0].map(at);
    begin.into_iter().chain(percentiles).collect()
}
