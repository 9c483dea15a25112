//! A distribution from its lowest value to its highest, in steps that get finer towards the end:
//! HdrHistogram's percentile iteration.

use std::io::{self, Write};

use results::Histogram;

/// Steps for each halving of the distance to 100 %: what HdrHistogram's own tools use.
const TICKS_PER_HALF_DISTANCE: f64 = 5.0;

/// One line of the distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Step {
    /// The value that stands for the bucket; in the last step the exact maximum.
    pub(crate) value_ns: u64,
    /// The percentile that the iteration stood at, as a fraction; 1 in the last step only.
    pub(crate) fraction: f64,
    /// Samples up to this value.
    pub(crate) cumulative_count: u64,
}

/// The steps as `hdr_percentiles_print` of HdrHistogram's C library makes them: a step for each
/// tick, at the first bucket that reaches it, until the samples are used up; then one for 100 %.
/// Values and counts never fall from one step to the next. Without samples there is the last step
/// alone, of zeros.
pub(crate) fn steps(samples: &Histogram) -> Vec<Step> {
    let total = samples.count();
    let mut steps = Vec::new();
    let mut tick_percent = 0.0;
    let mut cumulative_count = 0_u64;
    for (value_ns, count) in samples.distinct() {
        cumulative_count = cumulative_count.saturating_add(count);
        let reached_percent = 100.0 * cumulative_count as f64 / total as f64;
        // With more samples than a float counts exactly, 100 may be reached before the last bucket.
        while tick_percent <= reached_percent && tick_percent < 100.0 {
            steps.push(Step {
                value_ns,
                fraction: tick_percent / 100.0,
                cumulative_count,
            });
            tick_percent += tick_distance_percent(tick_percent);
            // In the last bucket one step is enough: more of them would never end at 100 %.
            if cumulative_count >= total {
                break;
            }
        }
    }
    steps.push(Step {
        value_ns: samples.max_ns().unwrap_or(0),
        fraction: 1.0,
        cumulative_count: total,
    });
    steps
}

/// From one tick to the next: 100 / (5 * 2^(floor(log2(100 / (100 - tick))) + 1)).
fn tick_distance_percent(tick_percent: f64) -> f64 {
    let halvings = (100.0 / (100.0 - tick_percent)).log2().floor() + 1.0;
    100.0 / (TICKS_PER_HALF_DISTANCE * halvings.exp2())
}

/// The comment lines below the steps, in milliseconds. The deviation is the one of a sample (n - 1),
/// as everywhere in this program; HdrHistogram divides by n.
pub(crate) fn write_footer(
    samples: &Histogram,
    (buckets, sub_buckets): (u32, u32),
    output: &mut dyn Write,
) -> io::Result<()> {
    let (mean_ms, stdev_ms) = (samples.mean_ns() / 1e6, samples.stdev_ns() / 1e6);
    let max_ms = samples.max_ns().unwrap_or(0) as f64 / 1e6;
    writeln!(
        output,
        "#[Mean    = {mean_ms:>12.3}, StdDeviation   = {stdev_ms:>12.3}]"
    )?;
    writeln!(
        output,
        "#[Max     = {max_ms:>12.3}, Total count    = {:>12}]",
        samples.count()
    )?;
    writeln!(
        output,
        "#[Buckets = {buckets:>12}, SubBuckets     = {sub_buckets:>12}]"
    )
}
