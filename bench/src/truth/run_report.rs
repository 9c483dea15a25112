//! The report of a run of wrkbench: its saved document and its notes.

use anyhow::{Context, bail};
use results::{Histogram, Recording, RunResult};
use serde_json::Value;

use crate::process::ProcessOutput;

#[derive(Debug)]
pub(crate) struct RunReport {
    /// The document, parsed by wrkbench's own reader.
    pub(crate) result: RunResult,
    /// The document as JSON, as other programs read it.
    json: Value,
    /// Notes and warnings on stderr, as printed.
    pub(crate) notes: String,
}

impl RunReport {
    /// Parses the document of a run and checks the invariants of results.
    ///
    /// # Errors
    /// When the document is invalid or violates an invariant.
    pub(crate) fn read(bytes: &[u8], ended: &ProcessOutput) -> anyhow::Result<Self> {
        let result = results::file::load(bytes)?;
        if let Err(contradiction) = results::check(&result) {
            bail!("the document contradicts itself: {contradiction}");
        }
        let json = serde_json::from_slice(bytes).context("the document is not JSON")?;
        Ok(Self {
            result,
            json,
            notes: ended.stderr.clone(),
        })
    }

    pub(crate) fn recording(&self) -> &Recording {
        &self.result.recording
    }

    /// A latency percentile from the summary, in milliseconds; it must be a default one or have
    /// been requested.
    pub(crate) fn latency_ms(&self, percent: f64) -> Option<f64> {
        Some(self.percentile(percent)?["value_ns"].as_f64()? / 1e6)
    }

    /// Whether the summary has enough samples for a latency percentile.
    pub(crate) fn has_enough_samples(&self, percent: f64) -> Option<bool> {
        self.percentile(percent)?["enough_samples"].as_bool()
    }

    fn percentile(&self, percent: f64) -> Option<&Value> {
        let all = self.at("/summary/latency/percentiles")?.as_array()?;
        all.iter().find(|one| one["percent"] == percent)
    }

    /// A value in the document, by its JSON pointer (RFC 6901).
    pub(crate) fn at(&self, pointer: &str) -> Option<&Value> {
        self.json.pointer(pointer)
    }

    /// Length of the window, seconds.
    pub(crate) fn window_s(&self) -> f64 {
        self.result.window.duration_ns as f64 / 1e9
    }

    /// Requests answered per second, from the summary.
    pub(crate) fn requests_per_sec(&self) -> Option<f64> {
        self.at("/summary/requests_per_sec")?.as_f64()
    }
}

/// A percentile of a histogram in microseconds; `None` without samples.
pub(crate) fn percentile_us(histogram: &Histogram, percent: f64) -> Option<f64> {
    (!histogram.is_empty()).then(|| histogram.value_at_percentile(percent) as f64 / 1e3)
}

/// The mean of a histogram in milliseconds; `None` without samples.
pub(crate) fn mean_ms(histogram: &Histogram) -> Option<f64> {
    (!histogram.is_empty()).then(|| histogram.mean_ns() / 1e6)
}
