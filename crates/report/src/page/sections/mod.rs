//! The sections of a page, in reading order. Each is `None` where it does not apply.

mod averages;
mod capacity;
mod conclusions;
mod course;
mod differences;
mod effects;
mod environment;
mod fleet;
mod hooks;
mod latency;
mod levels;
mod load_generator;
mod order;
mod over_time;
mod parts;
mod phases;
mod responses;
mod run_verdict;
mod searches;
mod telemetry;
mod verdict;

pub(crate) use responses::{is_failing, nothing_good, statuses_in_words};
pub(crate) use run_verdict::lost_requests;

use presentation::{Block, Section, Tone, tables, words};
use results::parts::Place;
use results::{Measured, RunResult, Verdict, cells};

use super::runs::Runs;

const ALL: [fn(&Runs<'_>) -> Option<Section>; 29] = [
    verdict::section,
    searches::section,
    capacity::section,
    fleet::section,
    levels::section,
    effects::section,
    order::section,
    averages::section,
    latency::section,
    latency::distribution,
    |runs| parts::section(Place::LatencyParts, runs),
    |runs| parts::section(Place::Names, runs),
    |runs| parts::section(Place::Contents, runs),
    |runs| parts::section(Place::Addresses, runs),
    over_time::section,
    phases::section,
    responses::section,
    |runs| parts::section(Place::Server, runs),
    load_generator::section,
    |runs| parts::section(Place::Connections, runs),
    telemetry::section,
    verdict::warnings_of_runs,
    averages::values,
    differences::section,
    hooks::section,
    environment::section,
    telemetry::counters,
    environment::plan,
    verdict::reading_notes,
];

pub(super) fn all(runs: &Runs<'_>) -> Vec<Section> {
    ALL.iter().filter_map(|section| section(runs)).collect()
}

/// A finding has no more lines of evidence.
const DETAILS_MAX: usize = 20;

/// The first lines, and the number of the others.
fn bounded(mut details: Vec<String>) -> Vec<String> {
    let more = details.len().saturating_sub(DETAILS_MAX);
    if more > 0 {
        details.truncate(DETAILS_MAX);
        details.push(format!("and {more} more"));
    }
    details
}

/// A finding that rests on its evidence: `None` without any.
fn finding_of(tone: Tone, text: impl Into<String>, details: Vec<String>) -> Option<Block> {
    (!details.is_empty()).then(|| tables::finding(tone, text, bounded(details)))
}

/// The name of the latency that reports show: response time or service time.
fn latency_name(result: &RunResult) -> &'static str {
    if result.recording.counters.due == 0 {
        "service time"
    } else {
        "response time"
    }
}

/// How serious a verdict on the load generator is.
fn tone_of(verdict: &Verdict) -> Tone {
    match verdict {
        Verdict::Undisturbed | Verdict::Unknown => Tone::Neutral,
        Verdict::Disturbed { .. } => Tone::Warning,
        Verdict::Saturated { .. } => Tone::Bad,
    }
}

/// A latency that may be only a lower bound.
fn latency_text(known: Option<Measured>) -> String {
    cells::measured(known, words::time_us).text
}

/// Colours on the page of a single run: a metric has the same colour in all charts.
mod color {
    /// Response time at a rate, otherwise service time.
    pub(super) const LATENCY: usize = 0;
    /// Service time next to response time.
    pub(super) const SERVICE_TIME: usize = 1;
    pub(super) const RATE: usize = 2;
    pub(super) const TARGET_RATE: usize = 7;
    pub(super) const HIGH_PERCENTILE: usize = 3;
    pub(super) const MAX: usize = 5;
    pub(super) const ERRORS: usize = 6;
    pub(super) const BYTES: usize = 4;
    pub(super) const STALL: usize = 4;
}
