//! Latency over time as HdrHistogram's interval log, format 1.3, as its Java library writes it
//! (`HistogramLogWriter`).

use std::io::{self, Write};

use results::{Histogram, Intervals, Recording, RunResult};

/// Requests without a response belong to no interval: they are one line for the whole window.
const UNANSWERED_TAG: &str = "unanswered";

/// A run in a log of several.
#[derive(Debug)]
pub(crate) struct TaggedRun<'a> {
    /// The tag of its lines, without commas and blanks.
    pub(crate) tag: String,
    pub(crate) result: &'a RunResult,
}

/// The tag and the time offset of the lines of a run.
struct LinePosition<'a> {
    tag: Option<&'a str>,
    /// Start of the run's window after the start time of the log.
    start_ns: u64,
}

/// Times are seconds since the start of the window, which is the start time of the log.
pub(crate) fn render(result: &RunResult, output: &mut dyn Write) -> io::Result<()> {
    let url = &result.plan.target.url;
    let version = &result.environment.wrkbench_version;
    let url = plan::printable(url);
    let title = format!("Latency of {url}, wrkbench {version}");
    let about = format!(
        "Without a tag: responses, by the interval in which they came; Tag={UNANSWERED_TAG}: ages \
         of requests without a response"
    );
    write_head([&title, &about], result.window.started_unix_ms, output)?;
    let position = LinePosition {
        tag: None,
        start_ns: 0,
    };
    write_run(result, &position, output)
}

/// Writes several runs to one log, each with its tag. Times are seconds since the start of the
/// first run.
pub(crate) fn render_tagged(runs: &[TaggedRun<'_>], output: &mut dyn Write) -> io::Result<()> {
    let started_ms = |run: &TaggedRun<'_>| run.result.window.started_unix_ms;
    let first_ms = runs.iter().map(started_ms).min().unwrap_or_default();
    let title = format!("Latency of {} runs", runs.len());
    let about = format!(
        "Each run has a tag: responses, by the interval in which they came; with the suffix \
         :{UNANSWERED_TAG}: ages of requests without a response"
    );
    write_head([&title, &about], first_ms, output)?;
    for run in runs {
        let position = LinePosition {
            tag: Some(&run.tag),
            start_ns: (started_ms(run) - first_ms).saturating_mul(1_000_000),
        };
        write_run(run.result, &position, output)?;
    }
    Ok(())
}

/// Writes what the log is about, the version of the format, the start time, and the titles.
fn write_head(
    [title, about]: [&str; 2],
    started_ms: u64,
    output: &mut dyn Write,
) -> io::Result<()> {
    writeln!(output, "#[{title}]")?;
    writeln!(
        output,
        "#[Histograms are in nanoseconds, Interval_Max is in milliseconds]"
    )?;
    writeln!(output, "#[{about}]")?;
    let (started_s, fraction_ms) = (started_ms / 1000, started_ms % 1000);
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

fn write_run(
    result: &RunResult,
    position: &LinePosition<'_>,
    output: &mut dyn Write,
) -> io::Result<()> {
    let unanswered = unanswered(&result.recording);
    let duration_ns = result.window.duration_ns;
    if !unanswered.is_empty() {
        let tag = match position.tag {
            Some(tag) => format!("{tag}:{UNANSWERED_TAG}"),
            None => UNANSWERED_TAG.to_owned(),
        };
        let whole = LinePosition {
            tag: Some(&tag),
            ..*position
        };
        write_line(&whole, 0, duration_ns, unanswered, output)?;
    }
    write_intervals(&result.recording.intervals, duration_ns, position, output)
}

/// The part of [`Recording::latency`] that consists of requests without a response.
fn unanswered(recording: &Recording) -> &Histogram {
    if recording.counters.due == 0 {
        &recording.timed_out
    } else {
        &recording.unanswered
    }
}

/// Writes a line for each interval, also for those without responses, so that gaps show. After the
/// last response, one line is the rest of the window.
fn write_intervals(
    intervals: &Intervals,
    duration_ns: u64,
    position: &LinePosition<'_>,
    output: &mut dyn Write,
) -> io::Result<()> {
    let interval_ns = intervals.interval_ms().saturating_mul(1_000_000);
    let mut start_ns = 0;
    for row in intervals.rows() {
        let length_ns = interval_ns.min(duration_ns.saturating_sub(start_ns));
        write_line(position, start_ns, length_ns, &row.histogram(), output)?;
        start_ns = start_ns.saturating_add(interval_ns);
    }
    if start_ns < duration_ns {
        let rest_ns = duration_ns - start_ns;
        write_line(position, start_ns, rest_ns, &Histogram::new(), output)?;
    }
    Ok(())
}

fn write_line(
    position: &LinePosition<'_>,
    start_ns: u64,
    length_ns: u64,
    samples: &Histogram,
    output: &mut dyn Write,
) -> io::Result<()> {
    let encoded = samples.to_v2_deflate_base64().map_err(io::Error::other)?;
    let start_ns = position.start_ns.saturating_add(start_ns);
    let [start_s, length_s] = [start_ns, length_ns].map(|time_ns| time_ns as f64 / 1e9);
    let max_ms = samples.max_ns().unwrap_or(0) as f64 / 1e6;
    if let Some(tag) = position.tag {
        write!(output, "Tag={tag},")?;
    }
    writeln!(output, "{start_s:.3},{length_s:.3},{max_ms:.3},{encoded}")
}
