//! Latency distributions: a few percentiles, and wrk2's detailed spectrum.

use std::io::{self, Write};

use plan::units;
use results::Histogram;

use super::time_ns;
use crate::spectrum;

/// The list of percentiles of a style.
pub(super) struct Percentiles {
    /// Shown unless others are requested.
    pub(super) usual: &'static [f64],
    /// Least number of decimals of a percentile.
    pub(super) decimals: usize,
}

impl Percentiles {
    pub(super) fn write(
        &self,
        samples: &Histogram,
        asked: Option<&[f64]>,
        output: &mut dyn Write,
    ) -> io::Result<()> {
        for &percent in asked.unwrap_or(self.usual) {
            let value = time_ns(samples.value_at_percentile(percent) as f64);
            let value = units::cell(&value, 10);
            writeln!(output, "{:>7}%{value}", self.shown(percent))?;
        }
        Ok(())
    }

    fn shown(&self, percent: f64) -> String {
        let exact = percent.to_string();
        let decimals = exact.split_once('.').map_or(0, |(_, digits)| digits.len());
        format!("{percent:.*}", decimals.max(self.decimals))
    }
}

/// The layout of wrk2's histogram (1 us to 24 h, three digits), which wrk2 always prints. Ours has
/// more buckets; the line is for scripts that count lines.
const WRK2_BUCKETS: u32 = 27;
/// Parts of each bucket of that layout.
const WRK2_SUB_BUCKETS: u32 = 2048;

/// wrk2's table of values in milliseconds, as HdrHistogram's C library prints it.
pub(super) fn write_spectrum(samples: &Histogram, output: &mut dyn Write) -> io::Result<()> {
    writeln!(
        output,
        "{:>12} {:>12} {:>12} {:>12}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    )?;
    for step in spectrum::steps(samples) {
        let (value_ms, fraction) = (step.value_ns as f64 / 1e6, step.fraction);
        let count = step.cumulative_count;
        let inverted = 1.0 / (1.0 - fraction);
        writeln!(
            output,
            "{value_ms:>12.3} {fraction:>12.6} {count:>12} {inverted:>12.2}"
        )?;
    }
    spectrum::write_footer(samples, (WRK2_BUCKETS, WRK2_SUB_BUCKETS), output)
}
