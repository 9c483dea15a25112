//! The text around a report: the banner before a run, the messages after it.

use judging::sentences::{settled, shared_connections};
use judging::{LowerBounds, ThinPercentiles};
use plan::readable::{count, counted, time_ns};
use plan::{RunPlan, units};
use results::metric::{CONNECTS_PER_SEC, HANDSHAKES_PER_SEC};
use results::{ErrorCount, ErrorKind, Finding, Histogram, Metric, RunResult, Warning, parts};

use crate::{Format, TextOptions, styles};

/// The two lines at the start of a run, as in wrk. A run that is limited only by requests, which
/// wrk does not have, shows their number instead of the duration.
#[must_use]
pub fn banner(plan: &RunPlan) -> String {
    let url = plan::printable(&plan.target.url);
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
    let of_parts = parts::ALL.iter().flat_map(|part| (part.notes)(result));
    let notes = error_notes(result)
        .into_iter()
        .chain(notes.iter().cloned())
        .chain(statuses(result))
        .chain(drained(result))
        .chain(settled(result))
        .chain(shared_connections(result))
        .chain(connects(result))
        .chain(handshakes(result))
        .chain(bounds)
        .chain(thin)
        .chain(of_parts);
    let headlines = headlines.into_iter().map(warning);
    headlines
        .chain(notes.map(|note| format!("note: {note}")))
        .chain(warnings.into_iter().map(warning))
        .collect()
}

/// How many responses had each status, if there were several.
fn statuses(result: &RunResult) -> Option<String> {
    let are_several = result.recording.statuses.iter().nth(1).is_some();
    are_several.then(|| format!("statuses: {}", counts_by_status(result)))
}

/// `200: 1,800, 500: 200`
pub(crate) fn counts_by_status(result: &RunResult) -> String {
    let statuses = result.recording.statuses.iter();
    let counts: Vec<String> = statuses
        .map(|(status, responses)| format!("{status}: {}", count(responses)))
        .collect();
    counts.join(", ")
}

/// What was read after the run. If the warm-up was shorter than responses are, the run had fewer
/// responses than requests, which the rates show.
fn drained(result: &RunResult) -> Option<String> {
    let drained_ns = result.window.drained_ns?;
    let counters = &result.recording.counters;
    let (after, in_flight) = (counters.answered_in_drain, counters.in_flight);
    if after + in_flight == 0 {
        return None;
    }
    let open = match in_flight {
        0 => String::new(),
        open => format!(", {} still in flight", count(open)),
    };
    let is_low = counters.answered_of_warmup < after / 2 && after >= counters.answered / 10;
    let rate = if is_low {
        "; rates of requests are without them (a --warmup as long as a response makes up for \
         that)"
    } else {
        ""
    };
    Some(format!(
        "{} read after the run, for {}{open}{rate}",
        counted(after, "response"),
        time_ns(drained_ns)
    ))
}

/// How many connections were opened and how long that took, where this is a part of the load.
fn connects(result: &RunResult) -> Option<String> {
    let load = &result.plan.load;
    let is_load = !load.keepalive
        || load.requests_per_connection.is_some()
        || load.connect_rate_per_sec.is_some();
    let opened = result.recording.counters.connections_opened;
    let phases = &result.recording.phases;
    (is_load && opened > 0).then(|| {
        let opened = counted(opened, "connection");
        let limit = match result.limiting_connect_rate() {
            Some(_) => ", as many as --connect-rate allows",
            None => "",
        };
        format!(
            "{opened} opened, {}{limit}{}",
            per_sec(result, CONNECTS_PER_SEC),
            times(&phases.connect)
        )
    })
}

/// The same of TLS handshakes.
fn handshakes(result: &RunResult) -> Option<String> {
    connects(result)?;
    let counters = &result.recording.counters;
    let [full, resumed] = [counters.tls_full, counters.tls_resumed];
    (full + resumed > 0).then(|| {
        let all = counted(full + resumed, "TLS handshake");
        let (full, resumed) = (count(full), count(resumed));
        format!(
            "{all}, {}: {full} full, {resumed} resumed{}",
            per_sec(result, HANDSHAKES_PER_SEC),
            times(&result.recording.phases.tls)
        )
    })
}

fn per_sec(result: &RunResult, metric: &str) -> String {
    let per_sec = Metric::named(metric)
        .of(result)
        .map_or(0.0, |known| known.value);
    format!("{}/s", count(per_sec.round() as u64))
}

fn times(histogram: &Histogram) -> String {
    let time = |percent: f64| time_ns(histogram.value_at_percentile(percent));
    if histogram.is_empty() {
        String::new()
    } else {
        format!("; p50 {}, p99 {}", time(50.0), time(99.0))
    }
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
#[must_use]
pub fn shown_percentiles(format: Format, options: &TextOptions) -> &[f64] {
    let style = match format {
        Format::Wrk => &styles::WRK,
        Format::Wrk2 => &styles::WRK2,
        Format::Cmm => &styles::CMM,
        Format::Json | Format::Hgrm | Format::Hlog => return &[],
    };
    styles::shown_percentiles(style, options)
}
