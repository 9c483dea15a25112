//! Text around a report: the banner before a run, and notes after it.

use judging::{LowerBounds, ThinPercentiles};
use plan::readable::counted;
use plan::{RunPlan, units};
use results::{ErrorCount, ErrorKind, RunResult};

use crate::{Format, TextOptions, styles, telemetry};

/// The two lines that wrk prints at the start of a run. A run limited only by requests, which wrk
/// does not have, has their number in place of the duration.
#[must_use]
pub fn banner(plan: &RunPlan) -> String {
    let url = &plan.target.url;
    let length = match (plan.stop.duration, plan.stop.requests) {
        (Some(duration), _) => format!("{} test", units::banner_duration(duration)),
        (None, Some(requests)) => format!("{requests} requests test"),
        (None, None) => "test".to_owned(),
    };
    let (threads, connections) = (plan.load.threads, plan.load.connections);
    format!("Running {length} @ {url}\n  {threads} threads and {connections} connections\n")
}

/// A line for each kind of error, for stderr.
#[must_use]
pub fn error_notes(result: &RunResult) -> Vec<String> {
    let note = |(kind, count): (ErrorKind, ErrorCount)| {
        let ErrorCount { events, exchanges } = count;
        let lost = match exchanges {
            0 => String::new(),
            _ => format!(", {} lost", counted(exchanges, "request")),
        };
        format!("{events} x {kind}: {}{lost}", kind.describe())
    };
    result.recording.errors.iter().map(note).collect()
}

/// Notes about telemetry, for stderr; the document has all of it. Empty without telemetry.
#[must_use]
pub fn telemetry_notes(result: &RunResult) -> Vec<String> {
    result
        .telemetry
        .as_ref()
        .map(telemetry::notes)
        .unwrap_or_default()
}

/// The percentiles of a text that have too few samples, for stderr.
#[must_use]
pub fn thin_percentiles(
    result: &RunResult,
    format: Format,
    options: &TextOptions,
) -> Option<ThinPercentiles> {
    let samples = result.recording.latency().count();
    ThinPercentiles::among(shown_percentiles(format, options), samples)
}

/// The percentiles of a text that are only lower bounds, for stderr.
#[must_use]
pub fn lower_bounds(
    result: &RunResult,
    format: Format,
    options: &TextOptions,
) -> Option<LowerBounds> {
    LowerBounds::among(shown_percentiles(format, options), &result.recording)
}

/// Empty for formats that are not text.
fn shown_percentiles(format: Format, options: &TextOptions) -> &[f64] {
    let style = match format {
        Format::Wrk => &styles::WRK,
        Format::Wrk2 => &styles::WRK2,
        Format::Cmm => &styles::CMM,
        Format::Json | Format::Hgrm | Format::Hlog => return &[],
    };
    styles::shown_percentiles(style, options)
}
