//! Latency over time as HdrHistogram's interval log, format 1.3, as its Java library writes it
//! (`HistogramLogWriter`).

use std::io::{self, Write};

use results::{Histogram, Intervals, Recording, RunResult};

/// Requests without an answer belong to no interval: they are one line for the whole window.
const UNANSWERED_TAG: &str = "unanswered";

/// Times of the log are seconds from the begin of the window, which is its start time.
pub(crate) fn render(result: &RunResult, output: &mut dyn Write) -> io::Result<()> {
    write_head(result, output)?;
    let unanswered = unanswered(&result.recording);
    let duration_ns = result.window.duration_ns;
    if !unanswered.is_empty() {
        write!(output, "Tag={UNANSWERED_TAG},")?;
        write_line(0, duration_ns, unanswered, output)?;
    }
    write_intervals(&result.recording.intervals, duration_ns, output)
}

fn write_head(result: &RunResult, output: &mut dyn Write) -> io::Result<()> {
    let url = &result.plan.target.url;
    let version = &result.environment.wrkbench_version;
    let started_ms = result.window.started_unix_ms;
    let (started_s, fraction_ms) = (started_ms / 1000, started_ms % 1000);
    writeln!(output, "#[Latency of {url}, wrkbench {version}]")?;
    writeln!(
        output,
        "#[Histograms are in nanoseconds, Interval_Max is in milliseconds]"
    )?;
    writeln!(
        output,
        "#[Without a tag: answers, by the interval in which they came; \
         Tag={UNANSWERED_TAG}: ages of requests that had no answer]"
    )?;
    writeln!(output, "#[Histogram log format version 1.3]")?;
    writeln!(
        output,
        "#[StartTime: {started_s}.{fraction_ms:03} (seconds since epoch)]"
    )?;
    writeln!(
        output,
        r#""StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram""#
    )
}

/// What [`Recording::latency`] has beside answers.
fn unanswered(recording: &Recording) -> &Histogram {
    if recording.counters.due == 0 {
        &recording.timed_out
    } else {
        &recording.unanswered
    }
}

/// A line for each interval, those without answers too, since a gap is worth seeing. Behind the last
/// answer there is one line for what is left of the window.
fn write_intervals(
    intervals: &Intervals,
    duration_ns: u64,
    output: &mut dyn Write,
) -> io::Result<()> {
    let interval_ns = intervals.interval_ms().saturating_mul(1_000_000);
    let mut start_ns = 0;
    for row in intervals.rows() {
        let length_ns = interval_ns.min(duration_ns.saturating_sub(start_ns));
        write_line(start_ns, length_ns, &row.histogram(), output)?;
        start_ns = start_ns.saturating_add(interval_ns);
    }
    if start_ns < duration_ns {
        write_line(start_ns, duration_ns - start_ns, &Histogram::new(), output)?;
    }
    Ok(())
}

fn write_line(
    start_ns: u64,
    length_ns: u64,
    samples: &Histogram,
    output: &mut dyn Write,
) -> io::Result<()> {
    let encoded = samples.to_v2_deflate_base64().map_err(io::Error::other)?;
    let [start_s, length_s] = [start_ns, length_ns].map(|time_ns| time_ns as f64 / 1e9);
    let max_ms = samples.max_ns().unwrap_or(0) as f64 / 1e6;
    writeln!(output, "{start_s:.3},{length_s:.3},{max_ms:.3},{encoded}")
}
