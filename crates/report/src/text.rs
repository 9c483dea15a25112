//! What is said in text around a report: the banner before a run, the notes after it.

use judging::{LowerBounds, ThinPercentiles};
use plan::{RunPlan, units};
use results::{ErrorCount, ErrorKind, RunResult};

use crate::{Format, TextOptions, styles, telemetry};

/// The two lines printed when a run begins, as wrk prints them. A run that is limited by requests
/// alone, which wrk does not have, names their number in place of the duration.
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

/// The kinds of errors behind the report's line "Socket errors", one line each, for stderr. Empty when nothing went
/// wrong.
#[must_use]
pub fn error_notes(result: &RunResult) -> Vec<String> {
    let note = |(kind, count): (ErrorKind, ErrorCount)| {
        let ErrorCount { events, exchanges } = count;
        let lost = match exchanges {
            0 => String::new(),
            1 => ", 1 request lost".to_owned(),
            _ => format!(", {exchanges} requests lost"),
        };
        format!("{events} x {kind}: {}{lost}", kind.describe())
    };
    result.recording.errors.iter().map(note).collect()
}

/// What telemetry comes to, a line for each of its parts, for stderr; the document has all of it. Empty
/// when none was asked for.
#[must_use]
pub fn telemetry_notes(result: &RunResult) -> Vec<String> {
    result
        .telemetry
        .as_ref()
        .map(telemetry::notes)
        .unwrap_or_default()
}

/// Which of the percentiles that a text shows rest on too few samples, for stderr. The document says
/// it itself.
#[must_use]
pub fn thin_percentiles(
    result: &RunResult,
    format: Format,
    options: &TextOptions,
) -> Option<ThinPercentiles> {
    let samples = result.recording.latency().count();
    ThinPercentiles::among(shown_percentiles(format, options), samples)
}

/// Which of the percentiles that a text shows are only lower bounds, for stderr. The document says it itself.
#[must_use]
pub fn lower_bounds(
    result: &RunResult,
    format: Format,
    options: &TextOptions,
) -> Option<LowerBounds> {
    LowerBounds::among(shown_percentiles(format, options), &result.recording)
}

/// None in formats that are no text.
fn shown_percentiles(format: Format, options: &TextOptions) -> &[f64] {
    let style = match format {
        Format::Wrk => &styles::WRK,
        Format::Wrk2 => &styles::WRK2,
        Format::Cmm => &styles::CMM,
        Format::Json | Format::Hgrm | Format::Hlog => return &[],
    };
    styles::shown_percentiles(style, options)
}
