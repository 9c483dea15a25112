//! Latency over time as HdrHistogram's interval log, format 1.3, as its Java library writes it
//! (`HistogramLogWriter`).

use std::io::{self, Write};

use results::{Histogram, Intervals, Recording, RunResult};

/// Requests without an answer belong to no interval: they are one line for the whole window.
const UNANSWERED_TAG: &str = "unanswered";

/// A run in a log of several.
#[derive(Debug)]
pub(crate) struct TaggedRun<'a> {
    /// What its lines are tagged with: no comma, no blank.
    pub(crate) tag: String,
    /// The run.
    pub(crate) result: &'a RunResult,
}

/// Where the lines of a run stand in the log.
struct Place<'a> {
    /// Of every line.
    tag: Option<&'a str>,
    /// Begin of the run's window, from the start time of the log.
    begin_ns: u64,
}

/// Times of the log are seconds from the begin of the window, which is its start time.
pub(crate) fn render(result: &RunResult, output: &mut dyn Write) -> io::Result<()> {
    let url = &result.plan.target.url;
    let version = &result.environment.wrkbench_version;
    let url = url.replace(char::is_control, " ");
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
    write_start(result.window.started_unix_ms, output)?;
    let place = Place {
        tag: None,
        begin_ns: 0,
    };
    write_run(result, &place, output)
}

/// Several runs in one log, each under its tag. Times are seconds from the begin of the first run.
pub(crate) fn render_tagged(runs: &[TaggedRun<'_>], output: &mut dyn Write) -> io::Result<()> {
    let started_ms = |run: &TaggedRun<'_>| run.result.window.started_unix_ms;
    let first_ms = runs.iter().map(started_ms).min().unwrap_or_default();
    writeln!(output, "#[Latency of {} runs]", runs.len())?;
    writeln!(
        output,
        "#[Histograms are in nanoseconds, Interval_Max is in milliseconds]"
    )?;
    writeln!(
        output,
        "#[Each run has a tag: answers, by the interval in which they came; \
         with :{UNANSWERED_TAG} behind it: ages of requests that had no answer]"
    )?;
    write_start(first_ms, output)?;
    for run in runs {
        let place = Place {
            tag: Some(&run.tag),
            begin_ns: (started_ms(run) - first_ms).saturating_mul(1_000_000),
        };
        write_run(run.result, &place, output)?;
    }
    Ok(())
}

/// The version of the format, the start time, and the titles.
fn write_start(started_ms: u64, output: &mut dyn Write) -> io::Result<()> {
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

fn write_run(result: &RunResult, place: &Place<'_>, output: &mut dyn Write) -> io::Result<()> {
    let unanswered = unanswered(&result.recording);
    let duration_ns = result.window.duration_ns;
    if !unanswered.is_empty() {
        let tag = match place.tag {
            Some(tag) => format!("{tag}:{UNANSWERED_TAG}"),
            None => UNANSWERED_TAG.to_owned(),
        };
        let whole = Place {
            tag: Some(&tag),
            ..*place
        };
        write_line(&whole, 0, duration_ns, unanswered, output)?;
    }
    write_intervals(&result.recording.intervals, duration_ns, place, output)
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
    place: &Place<'_>,
    output: &mut dyn Write,
) -> io::Result<()> {
    let interval_ns = intervals.interval_ms().saturating_mul(1_000_000);
    let mut start_ns = 0;
    for row in intervals.rows() {
        let length_ns = interval_ns.min(duration_ns.saturating_sub(start_ns));
        write_line(place, start_ns, length_ns, &row.histogram(), output)?;
        start_ns = start_ns.saturating_add(interval_ns);
    }
    if start_ns < duration_ns {
        let rest_ns = duration_ns - start_ns;
        write_line(place, start_ns, rest_ns, &Histogram::new(), output)?;
    }
    Ok(())
}

fn write_line(
    place: &Place<'_>,
    start_ns: u64,
    length_ns: u64,
    samples: &Histogram,
    output: &mut dyn Write,
) -> io::Result<()> {
    let encoded = samples.to_v2_deflate_base64().map_err(io::Error::other)?;
    let start_ns = place.begin_ns.saturating_add(start_ns);
    let [start_s, length_s] = [start_ns, length_ns].map(|time_ns| time_ns as f64 / 1e9);
    let max_ms = samples.max_ns().unwrap_or(0) as f64 / 1e6;
    if let Some(tag) = place.tag {
        write!(output, "Tag={tag},")?;
    }
    writeln!(output, "{start_s:.3},{length_s:.3},{max_ms:.3},{encoded}")
}
