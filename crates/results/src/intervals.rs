//! Latency over time: the distribution of each interval of the window, in bounded memory.

use serde::ser::Error as _;
use serde::{Deserialize, Serialize, Serializer};

use crate::over_time::WrittenRows;
use crate::{Contradiction, Histogram};

/// Maximum number of intervals. If more are needed, every two are joined into one.
const INTERVALS_MAX: usize = 1024;

/// The samples of one interval.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "WrittenInterval")]
pub struct Interval {
    /// Smallest sample, exact, nanoseconds; 0 without samples.
    pub min_ns: u64,
    /// Largest sample, exact, nanoseconds; 0 without samples.
    pub max_ns: u64,
    /// Values with their counts, ascending; each value represents a bucket of [`Histogram`].
    pub samples: Vec<(u64, u64)>,
}

/// A saved interval: an empty object if there are no samples.
#[derive(Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", schemars(rename = "Interval"))]
pub(crate) struct WrittenInterval {
    #[serde(skip_serializing_if = "Option::is_none")]
    min_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_ns: Option<u64>,
    /// The buckets, encoded as in [`Histogram`].
    #[serde(skip_serializing_if = "Option::is_none")]
    hdr_v2_deflate_base64: Option<String>,
    /// The samples as pairs, in documents of version 1.
    #[serde(skip_serializing)]
    samples: Option<Vec<(u64, u64)>>,
}

impl Serialize for Interval {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut written = WrittenInterval::default();
        if !self.samples.is_empty() {
            let buckets = self.histogram().to_v2_deflate_base64();
            written.min_ns = Some(self.min_ns);
            written.max_ns = Some(self.max_ns);
            written.hdr_v2_deflate_base64 = Some(buckets.map_err(S::Error::custom)?);
        }
        written.serialize(serializer)
    }
}

impl TryFrom<WrittenInterval> for Interval {
    type Error = Contradiction;

    fn try_from(written: WrittenInterval) -> Result<Self, Contradiction> {
        let (min_ns, max_ns) = (written.min_ns.unwrap_or(0), written.max_ns.unwrap_or(0));
        let samples = match (written.hdr_v2_deflate_base64, written.samples) {
            (Some(text), None) => Histogram::distinct_of_deflated(&text, min_ns, max_ns)
                .map_err(|error| Contradiction(format!("intervals: {error}")))?,
            (None, samples) => samples.unwrap_or_default(),
            (Some(_), Some(_)) => {
                return Err(Contradiction(
                    "intervals: the samples are given twice".to_owned(),
                ));
            }
        };
        Ok(Self {
            min_ns,
            max_ns,
            samples,
        })
    }
}

/// Latency samples of equal, consecutive intervals from the start of the window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "WrittenRows<Interval>")]
#[cfg_attr(feature = "schema", schemars(!try_from))]
pub struct Intervals {
    interval_ms: u64,
    rows: Vec<Interval>,
}

impl TryFrom<WrittenRows<Interval>> for Intervals {
    type Error = Contradiction;

    fn try_from(written: WrittenRows<Interval>) -> Result<Self, Contradiction> {
        let WrittenRows {
            interval_ms,
            mut rows,
        } = written;
        let times = interval_ms / Self::DEFAULT_INTERVAL_MS;
        let is_written = times.is_power_of_two()
            && interval_ms % Self::DEFAULT_INTERVAL_MS == 0
            && rows.len() <= INTERVALS_MAX;
        if !is_written {
            return Err(Contradiction(format!(
                "intervals: {} rows of {interval_ms} ms are not a valid series",
                rows.len()
            )));
        }
        for row in &rows {
            let ascending = row.samples.is_sorted_by(|a, b| a.0 < b.0);
            let inside = row
                .samples
                .iter()
                .all(|(value, count)| (row.min_ns..=row.max_ns).contains(value) && *count > 0);
            if !ascending || !inside {
                return Err(Contradiction(
                    "intervals: samples contradict their extremes".to_owned(),
                ));
            }
            // Several values may share a bucket, and the encoding of a histogram cannot hold a
            // larger count.
            let total = row.samples.iter().try_fold(0_i64, |total, (_, count)| {
                total.checked_add(i64::try_from(*count).ok()?)
            });
            if total.is_none() {
                return Err(Contradiction(
                    "intervals: a count is out of range".to_owned(),
                ));
            }
        }
        rows.iter_mut().for_each(Interval::join_buckets);
        Ok(Self { interval_ms, rows })
    }
}

impl Default for Intervals {
    fn default() -> Self {
        Self {
            interval_ms: Self::DEFAULT_INTERVAL_MS,
            rows: Vec::new(),
        }
    }
}

impl Interval {
    /// The samples of a histogram.
    #[must_use]
    pub fn of(histogram: &Histogram) -> Self {
        Self {
            min_ns: histogram.min_ns().unwrap_or(0),
            max_ns: histogram.max_ns().unwrap_or(0),
            samples: histogram.distinct().collect(),
        }
    }

    /// The samples as a histogram, each at the value that represents its bucket.
    #[must_use]
    pub fn histogram(&self) -> Histogram {
        let mut histogram = Histogram::new();
        for (value_ns, count) in &self.samples {
            histogram.record_n(*value_ns, *count);
        }
        histogram
    }

    fn merge(&mut self, other: &Self) {
        if other.samples.is_empty() {
            return;
        }
        if self.samples.is_empty() {
            self.clone_from(other);
            return;
        }
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.samples.extend_from_slice(&other.samples);
        self.join_buckets();
    }

    /// Joins the samples of each bucket: with new extremes, another value may represent it.
    fn join_buckets(&mut self) {
        for (value_ns, _) in &mut self.samples {
            *value_ns = Histogram::representative(*value_ns, self.min_ns, self.max_ns);
        }
        // Two sorted runs, one behind the other, which a stable sort only merges.
        self.samples.sort();
        self.samples.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(later.1);
            }
            same
        });
    }
}

impl Intervals {
    /// The initial length: long enough for a p99 at usual rates, short enough to show a stall.
    pub const DEFAULT_INTERVAL_MS: u64 = 1000;

    /// Length of each interval, milliseconds.
    #[must_use]
    pub fn interval_ms(&self) -> u64 {
        self.interval_ms
    }

    /// Whether there is no sample.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The intervals in order of time; those without samples are empty.
    #[must_use]
    pub fn rows(&self) -> &[Interval] {
        &self.rows
    }

    /// Adds samples to the interval that contains `at_ms`, counted from the start of the window.
    pub fn add(&mut self, at_ms: u64, samples: &Histogram) {
        if samples.is_empty() {
            return;
        }
        while at_ms / self.interval_ms >= INTERVALS_MAX as u64 {
            self.coarsen(2);
        }
        let index = (at_ms / self.interval_ms) as usize;
        if self.rows.len() <= index {
            self.rows.resize(index + 1, Interval::default());
        }
        self.rows[index].merge(&Interval::of(samples));
    }

    /// Adds the intervals of another worker. One length is always a power of two times the other,
    /// since all start with the same one.
    pub fn merge(&mut self, other: &Self) {
        let mut other = other.clone();
        while self.interval_ms < other.interval_ms {
            self.coarsen(2);
        }
        while other.interval_ms < self.interval_ms {
            other.coarsen(2);
        }
        if self.rows.len() < other.rows.len() {
            self.rows.resize(other.rows.len(), Interval::default());
        }
        for (mine, theirs) in self.rows.iter_mut().zip(&other.rows) {
            mine.merge(theirs);
        }
    }

    /// Joins all intervals into one.
    pub(crate) fn join_all(&mut self) {
        while self.rows.len() > 1 {
            self.coarsen(2);
        }
        // Merging leaves room for twice as many buckets and more.
        for row in &mut self.rows {
            row.samples.shrink_to_fit();
        }
    }

    fn coarsen(&mut self, factor: usize) {
        self.interval_ms = self.interval_ms.saturating_mul(factor as u64);
        self.rows = self
            .rows
            .chunks(factor)
            .map(|rows| {
                let mut total = Interval::default();
                for row in rows {
                    total.merge(row);
                }
                total
            })
            .collect();
    }
}
