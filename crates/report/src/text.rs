//! The text around a report: the banner before a run, the messages after it.

use judging::sentences::shared_connections;
use judging::{LowerBounds, ThinPercentiles};
use plan::readable::counted;
use plan::{RunPlan, units};
use results::{ErrorCount, ErrorKind, Finding, RunResult, Warning};

use crate::{Format, TextOptions, styles, telemetry};

/// The two lines at the start of a run, as in wrk. A run that is limited only by requests, which
/// wrk does not have, shows their number instead of the duration.
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

/// The lines about a finished run for stderr. Warnings that concern the whole result come first,
/// then notes, then the other warnings. `notes` are those of the runner.
#[must_use]
pub fn messages(
    result: &RunResult,
    notes: &[String],
    format: Format,
    options: &TextOptions,
) -> Vec<String> {
    let (headlines, warnings): (Vec<_>, Vec<_>) = result
        .warnings
        .iter()
        .partition(|warning| warning.data.is_headline());
    let warning = |warning: &Finding<Warning>| format!("warning: {warning}");
    let bounds = lower_bounds(result, format, options).map(|it| it.to_string());
    let thin = thin_percentiles(result, format, options).map(|it| it.to_string());
    let telemetry = result.telemetry.as_ref().map(telemetry::notes);
    let notes = error_notes(result)
        .into_iter()
        .chain(notes.iter().cloned())
        .chain(shared_connections(result))
        .chain(bounds)
        .chain(thin)
        .chain(telemetry.unwrap_or_default());
    let headlines = headlines.into_iter().map(warning);
    headlines
        .chain(notes.map(|note| format!("note: {note}")))
        .chain(warnings.into_iter().map(warning))
        .collect()
}

/// The kinds of errors behind the line "Socket errors" of the report, one line each.
pub(crate) fn error_notes(result: &RunResult) -> Vec<String> {
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

/// The percentiles in a text that have too few samples above them.
fn thin_percentiles(
    result: &RunResult,
    format: Format,
    options: &TextOptions,
) -> Option<ThinPercentiles> {
    let samples = result.recording.latency().count();
    ThinPercentiles::among(shown_percentiles(format, options), samples)
}

/// The percentiles in a text that are only lower bounds.
fn lower_bounds(result: &RunResult, format: Format, options: &TextOptions) -> Option<LowerBounds> {
    LowerBounds::among(shown_percentiles(format, options), &result.recording)
}

/// The percentiles in the text; empty for other formats.
fn shown_percentiles(format: Format, options: &TextOptions) -> &[f64] {
    let style = match format {
        Format::Wrk => &styles::WRK,
        Format::Wrk2 => &styles::WRK2,
        Format::Cmm => &styles::CMM,
        Format::Json | Format::Hgrm | Format::Hlog => return &[],
    };
    styles::shown_percentiles(style, options)
}
