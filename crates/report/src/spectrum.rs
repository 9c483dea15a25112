//! HdrHistogram's percentile iteration: a distribution in steps that get finer towards 100 %.

use std::io::{self, Write};

use results::Histogram;

/// Steps for each halving of the distance to 100 %, as in HdrHistogram's own tools.
const TICKS_PER_HALF_DISTANCE: f64 = 5.0;

/// One line of the percentile distribution (HdrHistogram).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PercentileStep {
    /// The value of the bucket; in the last step the exact maximum.
    pub(crate) value_ns: u64,
    /// The percentile of the iteration, as a fraction; 1 in the last step only.
    pub(crate) fraction: f64,
    /// Samples up to this value.
    pub(crate) cumulative_count: u64,
}

/// The steps of `hdr_percentiles_print` in HdrHistogram's C library: one for each tick, at the
/// first bucket that reaches it, and one for 100 %. Values and counts never decrease. Without
/// samples there is only the last step, with zeros.
pub(crate) fn steps(samples: &Histogram) -> Vec<PercentileStep> {
    let total = samples.count();
    let mut steps = Vec::new();
    let mut tick_percent = 0.0;
    let mut cumulative_count = 0_u64;
    for (value_ns, count) in samples.distinct() {
        cumulative_count = cumulative_count.saturating_add(count);
        let reached_percent = 100.0 * cumulative_count as f64 / total as f64;
        while tick_percent <= reached_percent {
            steps.push(PercentileStep {
                value_ns,
                fraction: tick_percent / 100.0,
                cumulative_count,
            });
            tick_percent = next_tick_percent(tick_percent);
            // The last bucket has one step; the next is 100 %.
            if cumulative_count >= total {
                break;
            }
        }
    }
    steps.push(PercentileStep {
        value_ns: samples.max_ns().unwrap_or(0),
        fraction: 1.0,
        cumulative_count: total,
    });
    steps
}

/// Adds 100 / (5 * 2^(floor(log2(100 / (100 - tick))) + 1)), which halves the distance to 100 every
/// five ticks. After about 230 ticks the increment is lost to rounding: then there is no next tick.
/// A percentage that close to 100 takes more than 2^40 samples, or a damaged file.
fn next_tick_percent(tick_percent: f64) -> f64 {
    let halvings = (100.0 / (100.0 - tick_percent)).log2().floor() + 1.0;
    let next_percent = tick_percent + 100.0 / (TICKS_PER_HALF_DISTANCE * halvings.exp2());
    if next_percent > tick_percent && next_percent < 100.0 {
        next_percent
    } else {
        f64::INFINITY
    }
}

/// Writes the comment lines below the steps, in milliseconds. The standard deviation is that of a
/// sample (n - 1), as everywhere in this program; HdrHistogram divides by n.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_to_100_percent_halves_every_five_ticks_until_it_is_lost_to_rounding() {
        let mut ticks = vec![0.0_f64];
        while let Some(&tick) = ticks.last().filter(|tick| tick.is_finite()) {
            assert!(ticks.len() < 300, "{tick}");
            ticks.push(next_tick_percent(tick));
        }
        assert_eq!(ticks[..7], [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 55.0]);
        assert_eq!((ticks[10], ticks[15], ticks[20]), (75.0, 87.5, 93.75));
        assert!(ticks.len() > 200);
        assert!(ticks.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn a_huge_number_of_samples_makes_a_bounded_number_of_steps() {
        let mut samples = Histogram::new();
        samples.record_n(1, 1 << 62);
        samples.record(2);
        let steps = steps(&samples);
        assert!((200..300).contains(&steps.len()), "{}", steps.len());
        let last = steps.last().copied();
        assert_eq!(
            last,
            Some(PercentileStep {
                value_ns: 2,
                fraction: 1.0,
                cumulative_count: (1 << 62) + 1,
            })
        );
    }
}
