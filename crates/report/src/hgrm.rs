//! The distribution of latency as HdrHistogram's Java library prints it
//! (`outputPercentileDistribution`): the `.hgrm` files of HdrHistogram's plotter and of hdr-plot.

use std::io::{self, Write};

use results::RunResult;

use crate::spectrum;

/// Writes the distribution in milliseconds, as readers expect.
pub(crate) fn render(result: &RunResult, output: &mut dyn Write) -> io::Result<()> {
    let latency = result.recording.latency();
    writeln!(
        output,
        "{:>12} {:>14} {:>10} {:>14}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    )?;
    for step in spectrum::steps(&latency) {
        let (value_ms, fraction) = (step.value_ns as f64 / 1e6, step.fraction);
        let count = step.cumulative_count;
        write!(output, "{value_ms:>12.3} {fraction:.12} {count:>10}")?;
        // Readers draw every line with four columns, and infinity cannot be drawn.
        if fraction < 1.0 {
            write!(output, " {:>14.2}", 1.0 / (1.0 - fraction))?;
        }
        writeln!(output)?;
    }
    spectrum::write_footer(&latency, latency.layout(), output)
}
